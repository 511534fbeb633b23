"""The powers an appliance's states draw: given by the home, or learnt from sub-metered data.

State 0 is off, states 1 … K − 1 are the on-levels in ascending power. On-levels are the centres
of an optimal one-dimensional k-means, found by dynamic programming on a histogram, so that the
same data always gives the same levels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushmeter.checks import BoolArray, FloatArray, non_negative, whole
from hushmeter.errors import InputError
from hushmeter.home import Home
from hushmeter.trace import Trace

LevelArray = NDArray[np.int8]

BINS = 512
"""Cells of the histogram whose optimal partition gives the levels."""

MOST_STATES = 127
"""Of one appliance, off included: states are stored as int8."""

TAIL = 0.005
"""Share of the on-readings at either end that is pulled in, so that a rare spike is no level."""


@dataclass(frozen=True)
class LevelTable:
    """State powers of every appliance.

    Attributes
    ----------
    powers : tuple of arrays
        One array per appliance [W], ascending: off (zero or its idle power), then its on-levels.
    """

    powers: tuple[FloatArray, ...]

    def __post_init__(self) -> None:
        frozen = []
        for watts in self.powers:
            row = np.array(watts, dtype=np.float64)
            if row.ndim != 1 or row.size < 2 or not np.isfinite(row).all():
                raise InputError("an appliance needs two or more finite state powers [W].")
            if row.size > MOST_STATES:
                raise InputError(f"an appliance may have {MOST_STATES} states, got {row.size}.")
            if (np.diff(row) < 0).any():
                raise InputError(f"state powers must ascend, got {row.tolist()}.")
            row.flags.writeable = False
            frozen.append(row)
        if not frozen:
            raise InputError("a level table needs at least one appliance.")
        object.__setattr__(self, "powers", tuple(frozen))

    @property
    def counts(self) -> tuple[int, ...]:
        """K of every appliance: its number of states, off included."""
        return tuple(watts.size for watts in self.powers)

    def __len__(self) -> int:
        return len(self.powers)


def home_levels(home: Home) -> LevelTable:
    """Zero and the `on_levels` of every appliance [W]."""
    return LevelTable(tuple(np.array([0.0, *a.on_levels]) for a in home.appliances))


def learn_levels(trace: Trace, home: Home, most: int = 3, separation: float = 2.0) -> LevelTable:
    """State powers from the true power and states of a trace.

    Off is the mean power while off, the on-levels are the centres of an optimal k-means of the
    power while on, with the largest k ≤ `most` whose centres are all separated: further apart
    than the home's tolerance and than `separation` times the sum of the two clusters' standard
    deviations (a uniform law cut in two has 1.7, a Gaussian 1.3). An appliance that never runs,
    and every appliance of a trace without power, keeps the home's levels.

    Parameters
    ----------
    trace : Trace with states
    home : Home
    most : int
        Largest number of on-levels of one appliance.
    separation : float
        Zero keeps every level that is further apart than the tolerance.
    """
    most, separation = whole("most", most), non_negative("separation", separation)
    given, states = home_levels(home), trace.truth()
    if states.shape[1] != len(home):
        raise InputError(f"the trace has {states.shape[1]} appliances, the home {len(home)}.")
    if trace.power is None:
        return given
    rows = []
    for i, fallback in enumerate(given.powers):
        on, power = states[:, i], trace.power[:, i]
        if on.any():
            levels = on_levels(power[on], most, home.tolerance, separation)
        else:
            levels = fallback[1:]
        idle = float(power[~on].mean()) if not on.all() else 0.0
        rows.append(np.concatenate([[min(max(idle, 0.0), levels[0])], levels]))
    return LevelTable(tuple(rows))


def assign_levels(power: FloatArray, states: BoolArray, table: LevelTable) -> LevelArray:
    """State of every appliance at every reading, int8 (T, N): 0 off, else its nearest on-level.

    Parameters
    ----------
    power : array, shape (T, N)
        True power [W].
    states : array of bool, shape (T, N)
    table : LevelTable
    """
    if power.shape != states.shape or states.shape[1] != len(table):
        raise InputError(
            f"power {power.shape} and states {states.shape} must have {len(table)} columns."
        )
    levels = np.zeros(states.shape, np.int8)
    for i, watts in enumerate(table.powers):
        borders = (watts[1:-1] + watts[2:]) / 2
        levels[:, i] = np.where(states[:, i], 1 + np.searchsorted(borders, power[:, i]), 0)
    return levels


def on_levels(power: FloatArray, most: int, tolerance: float, separation: float) -> FloatArray:
    """Centres [W], ascending, of the finest separated k-means of `power`, at most `most`."""
    values = np.clip(power, *np.quantile(power, [TAIL, 1 - TAIL], method="nearest"))
    for count in range(min(most, np.unique(values).size), 1, -1):
        centres, spreads = cluster(values, count)
        needed = np.maximum(tolerance, separation * (spreads[1:] + spreads[:-1]))
        if (np.diff(centres) > needed).all():
            return centres
    return np.array([power.mean()])


def cluster(values: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Centres and standard deviations of the optimal k-means with at most `count` clusters."""
    if values.min() == values.max():
        return values[:1].copy(), np.zeros(1)
    borders = _optimal_borders(values, count)
    count = borders.size + 1
    members = np.searchsorted(borders, values, side="right")
    sizes = np.bincount(members, minlength=count).astype(np.float64)
    centres = np.bincount(members, values, count) / sizes
    squares = np.bincount(members, (values - centres[members]) ** 2, count)
    return centres, np.sqrt(squares / sizes)


def _optimal_borders(values: FloatArray, count: int) -> FloatArray:
    """Left ends [W] of clusters 1 … count − 1 of the k-means optimum over histogram cells.

    best_k(j) = min over i of best_{k−1}(i) + cost(i, j), where cost(i, j) is the sum of squares
    of the cells i … j − 1 about their mean.
    """
    cells, weights, means = _histogram(values)
    count = min(count, cells.size)
    mass, first, second = (
        np.concatenate([[0.0], np.cumsum(weights * means**power)]) for power in (0, 1, 2)
    )
    within = mass[None, :] - mass[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        cost = second[None, :] - second[:, None] - (first[None, :] - first[:, None]) ** 2 / within
    cost[np.tril_indices_from(cost)] = np.inf
    best, parents = cost[0], []
    for _ in range(count - 1):
        total = best[:, None] + cost
        parents.append(total.argmin(axis=0))
        best = total.min(axis=0)
    ends = [cells.size]
    for parent in reversed(parents):
        ends.append(int(parent[ends[-1]]))
    return cells[ends[:0:-1]]


def _histogram(values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Smallest value, number of values and mean value (centred) of every cell in use."""
    low, high = float(values.min()), float(values.max())
    index = np.minimum((values - low) * (BINS / (high - low)), BINS - 1).astype(np.int64)
    order = np.argsort(values, kind="stable")
    used, first, counts = np.unique(index[order], return_index=True, return_counts=True)
    sums = np.bincount(index, values - values.mean(), BINS)[used]
    return values[order][first], counts.astype(np.float64), sums / counts
