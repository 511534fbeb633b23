"""Releases of several tables and restored releases against independent noise on the hours."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import numpy as np

import hushmeter as hm
from benchmarks.harness import Row, together
from hushmeter.releases.restore import POINTS, STEPS, deconvolve

HOME = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)], tolerance=20.0)
HOURS = 8760
SIGMA = 210.0
BANDS = ("views", "peak = weekdays 16:00-21:00", "night = 00:00-06:00")


def rows() -> Iterator[Row]:
    """All ratios of releases of several tables and of restored values."""
    loads = np.random.default_rng(0).gamma(1.0, 300.0, HOURS)
    year = hm.Trace(loads, 3600.0, "2023-01-01T00:00Z")
    yield from calendar(year, "a complete year", 5.0)
    yield from calendar(year, "a year with bands", 5.0, BANDS)
    # Five missing hours in every month.
    missing = (np.arange(0, HOURS, 146) + 7) % HOURS
    steps = np.delete(np.arange(HOURS), missing)
    gaps = hm.Trace(loads[steps], 3600.0, "2023-01-01T00:00Z", steps=steps)
    yield from calendar(gaps, "a year with gaps", 20.0)
    yield from restored(loads)


def calendar(
    trace: hm.Trace, name: str, target: float, tables: tuple[str, ...] = ("views",)
) -> Iterator[Row]:
    """Release of a year at 1 h with its estimate, and with all standard errors."""
    facts = hm.metered(trace)
    hours = hm.Request(home=HOME, epsilon=1.9, span="run", mechanism="gaussian")
    independent = hours.resolve(facts)
    several = hours.with_changes(tables=tables).resolve(facts)

    def release() -> hm.Release:
        return several.release(trace, rng=1)

    alone, estimate, errors = together(
        lambda: independent.release(trace, rng=1),
        lambda: release().estimate,
        lambda: release().views,
        repeat=15,
    )
    versus = "independent release of the hours"
    note = f"{1000 * estimate:.1f} ms"
    yield Row(f"calendar release, {name}: time", estimate / alone, versus, target, note, True)
    title = f"calendar release, {name}, all standard errors: time"
    yield Row(title, errors / alone, versus, target, f"{1000 * errors:.1f} ms", True)


def restored(loads: np.ndarray) -> Iterator[Row]:
    """Restoring a year of hours: two products of a matrix and a vector in each EM step."""
    rng = np.random.default_rng(1)
    values = loads + rng.normal(0.0, SIGMA, loads.size)
    matrix, weights, shares = rng.random((HOURS, POINTS)), rng.random(POINTS), rng.random(HOURS)

    def restore() -> object:
        return deconvolve(values, lambda watts: -0.5 * (watts / SIGMA) ** 2, SIGMA)

    def products() -> None:
        for _ in range(STEPS):
            _ = matrix @ weights
            _ = shares @ matrix

    ours, theirs = together(restore, products, repeat=3)
    versus = f"{2 * STEPS} matrix–vector products"
    yield Row("restore, 8760 hours: time", ours / theirs, versus, 2.0, f"{ours:.2f} s", True)
    tracemalloc.start()
    restore()
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    yield Row("restore, 8760 hours: memory", peak / 200, "200 MB", 1.0, f"{peak:.0f} MB", True)
