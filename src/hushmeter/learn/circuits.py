"""Circuits under a rule: when each is on, and what it looks like then."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, non_negative
from hushmeter.errors import InputError
from hushmeter.learn.thresholds import Levels, find_levels, on_states, readings_in
from hushmeter.trace import Trace

ALWAYS_ON = 0.99
FLAT_W = 10.0


@dataclass(frozen=True)
class Rule:
    """When a circuit counts as on.

    Parameters
    ----------
    threshold : float, optional
        The same threshold [W] for every circuit; by default each has its own, the midpoint
        between its idle level and its lowest on-level.
    min_on_s, min_off_s : float
        Runs and pauses shorter than this [s] do not count: pauses are merged first, then runs
        dropped.
    quantile : float
        The tolerance is this quantile of the meter's jumps away from any switch.
    """

    threshold: float | None = None
    min_on_s: float = 10.0
    min_off_s: float = 10.0
    quantile: float = 0.99

    def __post_init__(self) -> None:
        if self.threshold is not None:
            non_negative("threshold", self.threshold)
        non_negative("min_on_s", self.min_on_s)
        non_negative("min_off_s", self.min_off_s)
        if not 0 < self.quantile <= 1:
            raise InputError(f"quantile must lie in (0, 1], got {self.quantile}.")

    def __str__(self) -> str:
        above = (
            "the midpoint between idle and the lowest on-level"
            if self.threshold is None
            else f"{self.threshold:g} W"
        )
        if self.min_off_s == self.min_on_s == 0:
            return f"on above {above}"
        return (
            f"on above {above}, pauses under {self.min_off_s:g} s merged, runs under "
            f"{self.min_on_s:g} s dropped"
        )


FLAT_RULE = Rule(FLAT_W, 0.0, 0.0)


@dataclass(frozen=True)
class Circuit:
    """What was learnt about one circuit.

    Attributes
    ----------
    name : str
    role : {"appliance", "always on", "never on"}
    idle, threshold, mean_on : float
        [W]; `threshold` is infinite and `mean_on` NaN for a circuit that is never on.
    levels : tuple of float
        On-levels [W].
    on_share : float
        Share of the readings.
    runs : int
    mean_run_s, longest_run_s : float
        [s]
    """

    name: str
    role: str
    idle: float
    threshold: float
    levels: tuple[float, ...]
    mean_on: float
    on_share: float
    runs: int
    mean_run_s: float
    longest_run_s: float


def find_circuits(trace: Trace, rule: Rule) -> tuple[BoolArray, list[Circuit]]:
    """States of every circuit, and what was learnt about each."""
    assert trace.power is not None
    assert trace.names is not None
    least_on = readings_in(rule.min_on_s, trace.interval_s)
    least_off = readings_in(rule.min_off_s, trace.interval_s)
    states = np.zeros(trace.power.shape, dtype=np.bool_)
    circuits = []
    for i, name in enumerate(trace.names):
        power = np.ascontiguousarray(trace.power[:, i])
        levels = find_levels(power)
        threshold = levels.threshold if rule.threshold is None else rule.threshold
        states[:, i] = on_states(
            power, threshold, trace.run_starts, min_on=least_on, min_off=least_off
        )
        circuits.append(_circuit(name, power, states[:, i], levels, threshold, trace))
    return states, circuits


def _circuit(
    name: str, power: FloatArray, on: BoolArray, levels: Levels, threshold: float, trace: Trace
) -> Circuit:
    share = float(on.mean())
    if share >= ALWAYS_ON or (share == 0 and levels.idle >= 1 and not levels.on):
        role = "always on"
    else:
        role = "never on" if share == 0 else "appliance"
    lengths = run_lengths(on, trace.run_starts) * trace.interval_s
    return Circuit(
        name,
        role,
        levels.idle,
        threshold,
        tuple(level for level in levels.on if level > threshold),
        float(power[on].mean()) if on.any() else float("nan"),
        share,
        int(lengths.size),
        float(lengths.mean()) if lengths.size else 0.0,
        float(lengths.max(initial=0.0)),
    )


def run_lengths(on: BoolArray, run_starts: BoolArray) -> FloatArray:
    """Length of every run [readings]; a gap ends a run."""
    cuts = np.flatnonzero(np.append(True, on[1:] != on[:-1]) | run_starts)
    lengths = np.diff(np.append(cuts, on.size)).astype(np.float64)
    runs: FloatArray = lengths[on[cuts]]
    return runs


def level_changes(trace: Trace, circuits: list[Circuit]) -> BoolArray:
    """True where an appliance goes from one of its levels to another, shape (T,)."""
    assert trace.power is not None
    changed = np.zeros(len(trace), dtype=np.bool_)
    for i, circuit in enumerate(circuits):
        levels = np.array([circuit.idle, *circuit.levels])
        level = np.searchsorted((levels[1:] + levels[:-1]) / 2, trace.power[:, i])
        changed[1:] |= level[1:] != level[:-1]
    return changed


def near(where: BoolArray) -> BoolArray:
    """True there and one reading before and after."""
    wide = where.copy()
    wide[1:] |= where[:-1]
    wide[:-1] |= where[1:]
    return wide
