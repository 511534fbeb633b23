"""A whole figure of bounds, and the planner, against importing what draws them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import numpy as np

from benchmarks.harness import Row, best_of
from hushmeter import synth
from hushmeter.advice import advise
from hushmeter.apps.plot.accuracy import draw_bounds
from hushmeter.privacy.units import Metered
from hushmeter.releases.request import Request
from hushmeter.releases.search import least_noise
from hushmeter.theory.bounds import bound_curves


def rows() -> Iterator[Row]:
    """200 values of ε at N = 13, drawn; and a goal answered."""
    importing = best_of(lambda: _run("import matplotlib.figure"), 5) - best_of(
        lambda: _run("pass"), 5
    )
    home, epsilon = synth.ready_home("rae13"), np.geomspace(1e-3, 10, 200)
    curves = best_of(lambda: bound_curves(home, epsilon, max_switches=3), 3)
    figure = best_of(
        lambda: draw_bounds(bound_curves(home, epsilon, max_switches=3), "").canvas.draw(), 3
    )
    name = "bounds figure, 200 ε, N = 13, U = 3: time"
    note = f"{1000 * curves:.0f} ms of it the curves"
    yield Row(name, figure / importing, "importing matplotlib", 50, note, True)
    wish, meter = Request(hide="kettle", home=synth.ready_home("evening")), Metered(6.0)
    options = len(advise(wish, meter).options)

    def search() -> None:
        least_noise.cache_clear()
        advise(wish, meter)

    planning = best_of(search, 3)
    note = f"{planning:.2f} s, {options} options"
    yield Row("advise on “evening”: time", planning / importing, "importing matplotlib", None, note)


def _run(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
