"""Learning the states of the appliances and of the unmetered load for the Bayes attacker.

A state has a mean and a variance of its power. The states are found by cutting the training power,
separately while off and while on, into ranges whose Gaussian distributions explain it best. The
cut into k ranges with the highest likelihood is found exactly, by dynamic programming on a
histogram. Every state costs `PENALTY`·log(T), so that only real levels become states. States are
split in rounds as long as the number of joint states of the appliances stays within its budget: a
second level of a rare appliance is worth more than a sixth level of a busy one. The power that no
appliance accounts for is cut in the same way: one range is a base load, several ranges are a chain
of unmetered loads.

This learner differs from `sums.levels.learn_levels` because the Bayes attacker needs the variance
of every state and states while off, and because the states of all appliances share one budget.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hushmeter.attack.hmm.chains import StateArray, outer_sum
from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.home import Home
from hushmeter.trace import Trace

CELLS = 384
"""Largest number of cells of the histogram that is cut."""

PENALTY = 5.0
"""Cost of one more state, in units of log T."""

LEAST = 3
"""Smallest number of training readings of a state."""

SHARPEST = 0.5
"""Standard deviation [W] that is added to every joint state: no reading is more exact."""

SLACK_WINDOW = 4
"""Number of readings over which errors are averaged to test whether they are independent."""

MEDIAN_SQUARE = 0.4549
"""Median of the square of a standard normal variable."""

FLOOR = 1.0
"""Smallest standard deviation [W] that is assumed for a range: finer levels have no use."""


@dataclass(frozen=True)
class LearntStates:
    """States of the appliances and, as the last entry, of the unmetered load."""

    # Mean [W] and variance [W²] of the power in each state. The idle states of an appliance come
    # first, then its on-states, both in ascending order.
    means: tuple[FloatArray, ...]
    variances: tuple[FloatArray, ...]
    idle: tuple[int, ...]  # Number of idle states of each
    labels: tuple[StateArray, ...]  # State of each at every training reading


@dataclass
class _Part:
    """Readings that are cut together: one appliance while on or off, or the unmetered power."""

    rows: BoolArray
    values: FloatArray
    fallback: FloatArray
    spread: float
    most: int
    count: int = 1
    costs: FloatArray = field(default_factory=lambda: np.zeros(1))
    borders: list[FloatArray] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.values.size:
            self.costs, self.borders = cut_ranges(self.values, self.most)
        else:
            self.count = self.fallback.size

    def gain(self, count: int) -> float:
        """Reduction of the cost if the part had `count` states."""
        if not self.count < count <= self.costs.size:
            return 0.0
        return float(self.costs[self.count - 1] - self.costs[count - 1])

    def states(self) -> tuple[FloatArray, FloatArray, StateArray]:
        """Means, variances and labels of the chosen cut."""
        if not self.values.size:
            variances = np.full(self.count, self.spread**2)
            return self.fallback, variances, np.zeros(0, np.int8)
        labels = np.searchsorted(self.borders[self.count - 1], self.values, side="right")
        sizes = np.bincount(labels, minlength=self.count)
        means = np.bincount(labels, self.values, self.count) / sizes
        squares = np.bincount(labels, (self.values - means[labels]) ** 2, self.count)
        return means, squares / sizes, labels.astype(np.int8)


def learn_states(
    trace: Trace, home: Home, most_levels: int, most_idle: int, most_unmetered: int, budget: int
) -> LearntStates:
    """Learn the states of every appliance and of the unmetered load."""
    states = trace.truth()
    power = estimate_power(trace, home) if trace.power is None else trace.power
    chains = []
    for i, appliance in enumerate(home.appliances):
        on = states[:, i]
        levels = np.array(appliance.on_levels)
        off = _Part(~on, power[~on, i], np.zeros(1), home.tolerance / 2, most_idle)
        chains.append([off, _Part(on, power[on, i], levels, home.tolerance / 2, most_levels)])
    rest = trace.readings - power.sum(axis=1)
    unmetered = _Part(np.ones(len(trace), np.bool_), rest, rest[:1], 0.0, most_unmetered)
    _refine(chains, budget)
    unmetered.count = 1 + int(unmetered.costs.argmin())
    return _collect([*chains, [unmetered]], len(trace))


def estimate_power(trace: Trace, home: Home) -> FloatArray:
    """Estimate the power of every appliance from its state and the home's levels."""
    patterns, which = np.unique(trace.truth(), axis=0, return_inverse=True)
    power = np.zeros(trace.truth().shape)
    for p, pattern in enumerate(patterns):
        rows = np.flatnonzero(which == p)
        levels = [
            a.on_levels if on else (0.0,) for a, on in zip(home.appliances, pattern, strict=True)
        ]
        sums = outer_sum(levels)
        order = np.argsort(sums, kind="stable")
        middles = (sums[order][1:] + sums[order][:-1]) / 2
        nearest = order[np.searchsorted(middles, trace.readings[rows] - home.base_load)]
        digits = np.unravel_index(nearest, [len(watts) for watts in levels])
        for i, (watts, digit) in enumerate(zip(levels, digits, strict=True)):
            power[rows, i] = np.array(watts)[digit]
    return power


def cut_ranges(values: FloatArray, most: int) -> tuple[FloatArray, list[FloatArray]]:
    """Find the best cuts of `values` into 1 … `most` ranges with a Gaussian distribution each.

    Units: `values` [W].

    Notes
    -----
    The cost of a range with n of the T values and variance v is
    n · (½ log(v + FLOOR²) − log(n/T)) + PENALTY · log T. The cost of a cut is the sum over its
    ranges.
    """
    ordered = np.sort(values)
    first = _cells(ordered)
    cost = _range_costs(ordered, first)
    best, costs, parents = cost[0], [cost[0, -1]], []
    borders = [np.empty(0)]
    for count in range(2, min(most, first.size) + 1):
        total = best[:, None] + cost
        parents.append(total.argmin(axis=0))
        best = total.min(axis=0)
        if not math.isfinite(best[-1]):
            break
        ends = [first.size]
        for parent in parents[count - 2 :: -1]:
            ends.append(int(parent[ends[-1]]))
        costs.append(best[-1])
        borders.append(ordered[first[ends[:0:-1]]])
    return np.array(costs), borders


def _cells(ordered: FloatArray) -> IntArray:
    """First index of every cell of a histogram that is fine in value and in rank."""
    even = np.linspace(ordered[0], ordered[-1], CELLS // 2)
    ranked = ordered[np.linspace(0, ordered.size - 1, CELLS // 2).astype(np.int64)]
    edges = np.unique(np.concatenate([even, ranked]))
    cells = np.searchsorted(edges, ordered, side="right")
    return np.unique(cells, return_index=True)[1].astype(np.int64)


def _range_costs(ordered: FloatArray, first: IntArray) -> FloatArray:
    """Cost of the range from cell i to cell j − 1; infinite unless i < j."""
    centred = ordered - ordered.mean()
    ends = np.append(first, ordered.size)
    mass = (ends[None, :] - ends[:, None]).astype(np.float64)
    sums = [np.append(0.0, np.add.reduceat(centred**p, first).cumsum()) for p in (1, 2)]
    allowed = mass >= min(LEAST, ordered.size)
    mass[~allowed] = 1.0
    mean, square = ((s[None, :] - s[:, None]) / mass for s in sums)
    spread = 0.5 * np.log(np.maximum(square - mean**2, 0.0) + FLOOR**2)
    cost = mass * (spread - np.log(mass / ordered.size)) + PENALTY * math.log(ordered.size)
    return np.where(allowed, cost, np.inf)


def _refine(chains: Sequence[Sequence[_Part]], budget: int) -> None:
    """Split states in rounds: no part gets k + 1 states before all could get k, best first."""
    sizes = [sum(part.count for part in chain) for chain in chains]
    most = max(part.costs.size for chain in chains for part in chain)
    for count in range(2, most + 1):
        wanted = []
        for i, chain in enumerate(chains):
            for j, part in enumerate(chain):
                gain = part.gain(count)
                if gain > 0:
                    wanted.append((-gain, i, j))
        for _, i, j in sorted(wanted):
            part = chains[i][j]
            larger = sizes[i] + count - part.count
            if math.prod(sizes) // sizes[i] * larger <= budget:
                sizes[i], part.count = larger, count


def _collect(chains: Sequence[Sequence[_Part]], length: int) -> LearntStates:
    """Put the states of the parts of each chain together."""
    means, variances, labels = [], [], []
    for chain in chains:
        label, before = np.zeros(length, np.int8), 0
        found = [part.states() for part in chain]
        for part, (_, _, of_part) in zip(chain, found, strict=True):
            label[part.rows] = of_part + np.int8(before)
            before += part.count
        means.append(np.concatenate([of_part[0] for of_part in found]))
        variances.append(np.concatenate([of_part[1] for of_part in found]))
        labels.append(label)
    idle = tuple(chain[0].count for chain in chains)
    return LearntStates(tuple(means), tuple(variances), idle, tuple(labels))


def learn_slack(trace: Trace, states: LearntStates) -> float:
    """Learn the standard deviation to add to every state because errors are not independent.

    Notes
    -----
    Fluctuations within a state last for many readings, and a model that treats them as
    independent is too certain. The slack is the smallest value with which the error of the true
    states, averaged over `SLACK_WINDOW` readings, varies no more than the model predicts. The
    variation is estimated from the median of the squares, so that a few rough states do not
    affect all others.
    """
    rows = len(trace) // SLACK_WINDOW
    if rows == 0:
        return 0.0
    pairs = list(zip(states.means, states.variances, states.labels, strict=True))
    error = trace.readings - np.sum([mean[label] for mean, _, label in pairs], axis=0)
    variance = np.sum([spread[label] for _, spread, label in pairs], axis=0) + SHARPEST**2
    error, variance = (x[: rows * SLACK_WINDOW].reshape(rows, -1) for x in (error, variance))

    def is_too_sure(slack: float) -> bool:
        mean_error = (error / np.sqrt(variance + slack**2)).mean(axis=1)
        return float(np.median(mean_error**2)) * SLACK_WINDOW > MEDIAN_SQUARE

    low, high = 0.0, 2.0 * float(np.abs(error).max())
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if is_too_sure(middle) else (low, middle)
    return high if is_too_sure(0.0) else 0.0
