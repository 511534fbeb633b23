"""The baselines: the nearest-sum table against a solver, the sparse chain against its goal."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from itertools import product

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from benchmarks.harness import Row, best_of
from hushmeter.appliance import Appliance
from hushmeter.apps.nilm.combinatorial import CombinatorialOptimisation, IntegerProgram
from hushmeter.apps.nilm.super_state_hmm import SuperStateHmm
from hushmeter.attack.level_search import NearestSum
from hushmeter.home import Home
from hushmeter.trace import Trace

# The ratings of the ALIP authors for four loads of AMPds [W].
RATINGS = [[29, 502, 4620], [10, 130, 445, 1019], [24, 51, 1823, 2400], [9, 22]]
READINGS = 1_000_000
SOLVED = 300
MONTH = 30 * 86_400


def rows() -> Iterator[Row]:
    """All ratios of the baselines."""
    yield table_against_solver()
    yield halves_against_solver()
    yield sparse_chain()
    yield month_at_one_hertz()


def table_against_solver() -> Row:
    """IP per reading; every answer is checked against all sums."""
    home = Home([Appliance(f"load {i}", levels=tuple(r)) for i, r in enumerate(RATINGS)], 5.0)
    attacker = IntegerProgram(home)
    readings = np.random.default_rng(0).uniform(0, 9000, READINGS)
    levels = [np.array([0.0, *row]) for row in RATINGS]
    seconds, wrong = _solve(levels, readings[:SOLVED])
    _check_optimal(levels, readings)
    ours = best_of(lambda: attacker.predict(readings)) / READINGS
    note = f"{1e-6 / ours:.1f} M readings/s; milp lacks or misses {wrong} of {SOLVED} optima"
    return Row("IP, 4 loads, 13 ratings: per reading", seconds / ours, "scipy milp", 1000, note)


def halves_against_solver() -> Row:
    """Meet in the middle where 3^16 sums are too many for a table."""
    rng = np.random.default_rng(1)
    levels = [np.array([0.0, *np.sort(rng.uniform(20, 3000, 2))]) for _ in range(16)]
    readings = rng.uniform(0, 20_000, 2000)
    search = NearestSum(levels)
    seconds, _ = _solve(levels, readings[:2])
    search.search(readings[:2])
    ours = best_of(lambda: search.search(readings), 3) / readings.size
    note = f"{1 / ours:,.0f} readings/s at 4.3e7 sums"
    return Row(
        "meet in the middle, 16 loads: per reading", seconds / ours, "scipy milp", None, note
    )


def _solve(levels: list[np.ndarray], readings: np.ndarray) -> tuple[float, int]:
    """Seconds per reading of scipy's milp, and how often it lacks or misses the optimum."""
    watts = np.concatenate([row[1:] for row in levels])
    owner = np.zeros((len(levels), watts.size + 1))
    owner[
        np.repeat(np.arange(len(levels)), [row.size - 1 for row in levels]), np.arange(watts.size)
    ] = 1
    cost = np.append(np.zeros(watts.size), 1.0)
    bounds = Bounds(np.zeros(watts.size + 1), np.append(np.ones(watts.size), np.inf))
    best = _distances(levels, readings)
    taken, wrong = 0.0, 0
    for reading, distance in zip(readings, best, strict=True):
        start = time.perf_counter()
        found = milp(
            cost,
            constraints=[
                LinearConstraint(owner, -np.inf, 1),
                LinearConstraint(np.append(watts, -1.0), -np.inf, reading),
                LinearConstraint(np.append(watts, 1.0), reading, np.inf),
            ],
            bounds=bounds,
            integrality=1 - cost,
        )
        taken += time.perf_counter() - start
        # The solver sometimes ends without an answer.
        reached = np.inf if found.x is None else abs(watts @ np.round(found.x[:-1]) - reading)
        assert distance <= reached + 1e-6
        wrong += reached > distance + 1e-6
    return taken / readings.size, wrong


def _distances(levels: list[np.ndarray], readings: np.ndarray) -> np.ndarray:
    """|y − nearest sum| [W] of every reading."""
    chosen = NearestSum(levels).search(readings)
    total = sum(row[chosen[:, i]] for i, row in enumerate(levels))
    return np.abs(readings - total)


def _check_optimal(levels: list[np.ndarray], readings: np.ndarray) -> None:
    sums = np.array([sum(choice) for choice in product(*levels)])
    for part in np.array_split(readings, 100):
        best = np.abs(part[:, None] - sums).min(axis=1)
        np.testing.assert_allclose(_distances(levels, part), best, atol=1e-6)


def _home_of_384() -> tuple[Home, Trace]:
    """Seven appliances of on and off and one of three states: 2^7 · 3 super-states, all seen."""
    watts = [45.0, 80.0, 130.0, 250.0, 420.0, 900.0, 1500.0]
    appliances = [Appliance(f"a{i}", w) for i, w in enumerate(watts)]
    home = Home([*appliances, Appliance("washer", levels=(200.0, 2300.0))], 5.0)
    rng = np.random.default_rng(2)
    length = 200_000
    changes = rng.random((length, 8)) < 0.02
    changes[0] = True
    drawn = np.column_stack([rng.integers(0, 2, (length, 7)), rng.integers(0, 3, length)])
    last = np.maximum.accumulate(np.where(changes, np.arange(length)[:, None], 0), axis=0)
    states = np.take_along_axis(drawn, last, axis=0)
    levels = [np.array([0.0, *a.on_levels]) for a in home.appliances]
    power = np.column_stack([row[states[:, i]] for i, row in enumerate(levels)])
    noise = rng.normal(0, 4, length)
    return home, Trace(power.sum(axis=1) + noise, 60.0, states=states > 0, power=power)


def sparse_chain() -> Row:
    """The decoder at 384 super-states, on readings of the same home."""
    home, trace = _home_of_384()
    attacker = SuperStateHmm(home).fit(trace)
    count = len(attacker.states_) - 1
    readings = np.tile(trace.readings, 5)
    attacker.predict(readings[:1000])
    rate = readings.size / best_of(lambda: attacker.predict(readings), 3) / 1e6
    return Row(f"sparse-hmm, {count} super-states", rate, "1 M readings/s", 1.0)


def month_at_one_hertz() -> Row:
    """Peak memory of a month of readings, answer included, through CO and sparse-hmm."""
    home, trace = _home_of_384()
    readings = np.resize(trace.readings, MONTH)
    for attacker in (CombinatorialOptimisation(home), SuperStateHmm(home)):
        attacker.fit(trace).predict_power(readings)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return Row("a month at 1 Hz, 8 appliances: peak memory", peak, "1 GB", 2.0, "", True)
