"""The receipt of a day, with the account of every appliance, against the import of numpy."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from benchmarks.harness import Row, best_of
from hushmeter import synth
from hushmeter.noise import MECHANISMS
from hushmeter.privacy.units import calibrate, resolve_unit
from hushmeter.releases.receipt import write_receipts

READINGS = 14_400
INTERVAL_S = 6.0


def rows() -> Iterator[Row]:
    """One day at 6 s, as metered, for each mechanism; the unit is one run of any appliance."""
    importing = best_of(lambda: _run("import numpy"), 7) - best_of(lambda: _run("pass"), 7)
    home = synth.ready_home("evening")
    day = synth.trace(home, READINGS, 0.99, seed=0)
    unit = resolve_unit("appliance", "run", interval_s=INTERVAL_S, home=home)
    for name in MECHANISMS:
        mechanism = calibrate(name, 1, unit)
        released = day.replace_readings(mechanism.release(day.readings, rng=0))

        def receipt(mechanism=mechanism, released=released):
            write_receipts(day, released, mechanism, unit, home=home, simulation=True)

        taken = best_of(receipt, 5)
        note = f"{1000 * taken:.0f} ms, {len(home)} appliances"
        title = f"receipt of a day at 6 s, {name}: time"
        yield Row(title, taken / importing, "importing numpy", 3, note, True)


def _run(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
