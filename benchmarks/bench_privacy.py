"""The receipt of a day, with the account of every appliance, against the import of numpy."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

from benchmarks.harness import Row, best_of
from hushmeter import synth
from hushmeter.noise import MECHANISMS
from hushmeter.privacy.units import metered
from hushmeter.releases.private_receipt import private_receipt
from hushmeter.releases.release import Release
from hushmeter.releases.request import Request

READINGS = 14_400


def rows() -> Iterator[Row]:
    """One day at 6 s, as metered, for each mechanism; the unit is one run of any appliance."""
    importing = best_of(lambda: _run("import numpy"), 7) - best_of(lambda: _run("pass"), 7)
    home = synth.ready_home("evening")
    day = synth.trace(home, READINGS, 0.99, seed=0)
    for name in MECHANISMS:
        request = Request(home=home, epsilon=1, span="run", mechanism=name)
        done = request.resolve(metered(day)).release(day, rng=0)

        def receipt(done=done):
            # A copy of the promise, so that no number is known from the round before.
            promise = replace(done.promise)
            _ = Release(promise, done.sums, "simulation", private_receipt(promise, day)).receipt

        taken = best_of(receipt, 5)
        note = f"{1000 * taken:.0f} ms, {len(home)} appliances"
        title = f"receipt of a day at 6 s, {name}: time"
        yield Row(title, taken / importing, "importing numpy", 3, note, True)


def _run(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
