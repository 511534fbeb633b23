"""The compressive-sensing attackers against the cost of writing their answer, and solvers."""

from __future__ import annotations

import time
from collections.abc import Iterator

import cvxpy as cp
import highspy
import numpy as np

from benchmarks.harness import Row, best_of, together
from hushmeter import synth
from hushmeter.attack.multi_shot import MultiShot
from hushmeter.attack.one_shot import solve_relaxed

HOME = synth.ready_home("rae13")
READINGS = 1_000_000


def random_jumps(size: int) -> np.ndarray:
    """Jumps [W] all over the range the home can explain."""
    return np.random.default_rng(0).uniform(0, HOME.powers.sum(), size)


def rows() -> Iterator[Row]:
    """All ratios of the attackers."""
    yield from relaxed_against_copy()
    yield from relaxed_against_solvers()
    yield multi_shot_against_relaxed()
    yield from growth()


def relaxed_against_copy() -> Iterator[Row]:
    """The physical limit: the (T, N) answer has to be written."""
    jumps = random_jumps(READINGS)
    answer = solve_relaxed(HOME.powers, jumps, HOME.tolerance)
    solve, copy = together(
        lambda: solve_relaxed(HOME.powers, jumps, HOME.tolerance), lambda: answer.copy(), repeat=9
    )
    note = f"{READINGS / solve / 1e6:.1f} M readings/s"
    yield Row(
        "solve_relaxed, T = 1e6, N = 13: time", solve / copy, "copying its output", 4, note, True
    )


def relaxed_against_solvers() -> Iterator[Row]:
    """Per reading, against HiGHS kept warm and cvxpy with parameters."""
    jumps = random_jumps(READINGS)
    ours = best_of(lambda: solve_relaxed(HOME.powers, jumps, HOME.tolerance)) / READINGS
    few = jumps[:2000]
    yield Row("solve_relaxed per reading", _highs(few) / ours, "HiGHS, warm-started", 1000)
    # Memory limits solve_relaxed, and the interpreter limits cvxpy: the ratio was 71,000 on a slow
    # processor and 28,000 on a fast one, with more readings per second.
    yield Row("solve_relaxed per reading", _cvxpy(few[:60]) / ours, "cvxpy, parametrised", 20_000)


def _highs(jumps: np.ndarray) -> float:
    """Seconds per reading of a warm-started linear programme."""
    solver, n = highspy.Highs(), len(HOME)
    solver.silent()
    columns = np.arange(n, dtype=np.int32)
    solver.addVars(n, np.zeros(n), np.ones(n))
    solver.changeColsCost(n, columns, np.ones(n))
    solver.addRow(0.0, 0.0, n, columns, HOME.powers)
    start = time.perf_counter()
    for jump in jumps:
        solver.changeRowBounds(0, jump - HOME.tolerance, jump + HOME.tolerance)
        solver.run()
        solver.getSolution()
    return (time.perf_counter() - start) / jumps.size


def _cvxpy(jumps: np.ndarray) -> float:
    """Seconds per reading of the modelling language a researcher would use."""
    switches, jump = cp.Variable(len(HOME)), cp.Parameter()
    within = [switches >= 0, switches <= 1, cp.abs(switches @ HOME.powers - jump) <= HOME.tolerance]
    problem = cp.Problem(cp.Minimize(cp.sum(switches)), within)
    jump.value = float(jumps[0])
    problem.solve()
    start = time.perf_counter()
    for value in jumps:
        jump.value = float(value)
        problem.solve()
    return (time.perf_counter() - start) / jumps.size


def multi_shot_against_relaxed() -> Row:
    """All of Algorithm 1 on a day at 1 Hz, against its relaxed solve."""
    trace = synth.trace(HOME, 86_400, 0.999, interval_s=1.0)
    jumps, attacker = trace.jumps(), MultiShot(HOME)
    attack, solve = together(
        lambda: attacker.predict(trace, rng=0),
        lambda: solve_relaxed(HOME.powers, jumps, HOME.tolerance),
        repeat=15,
    )
    note = f"{len(trace) / attack / 1e6:.1f} M readings/s"
    name = "multi-shot attack, T = 86 400, N = 13: time"
    return Row(name, attack / solve, "solve_relaxed alone", 20, note, True)


def growth() -> Iterator[Row]:
    """Slope of log time against log size: one is linear.

    All outputs are larger than 60 MB: below that the allocator hands out memory that is already
    mapped, and the slope would show the operating system instead of the solver.
    """
    lengths, sizes = np.array([1, 2, 4]) * READINGS, np.array([8, 16, 32])
    times = [_time(HOME.powers, random_jumps(int(t))) for t in lengths]
    yield Row(
        "solve_relaxed: growth exponent in T", _slope(lengths, times), "linear", 1.25, "", True
    )
    times = [_time(synth.home(n=int(n)).powers, random_jumps(READINGS)) for n in sizes]
    yield Row("solve_relaxed: growth exponent in N", _slope(sizes, times), "linear", 1.25, "", True)


def _time(powers: np.ndarray, jumps: np.ndarray) -> float:
    return best_of(lambda: solve_relaxed(powers, jumps, HOME.tolerance), 7)


def _slope(sizes: np.ndarray, times: list[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
