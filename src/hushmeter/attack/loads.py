"""A home as loads whose sum is observed with noise: their states, densities and exact decoding.

A state of a load has a mean μ [W] and a variance σ² [W²] of its power. `learn_states` finds the
states by cutting the training power, separately while off and while on, into ranges whose Gaussian
distributions explain it best. Every state costs `PENALTY`·log(T), so that only real levels become
states. States are split in rounds as long as the number of joint states of the appliances stays
within its budget: a second level of a rare appliance is worth more than a sixth level of a busy
one. The power that no appliance accounts for is cut in the same way: one range is a base load,
several ranges are a chain of unmetered loads.

A mechanism adds noise n. With r = y − μ the density of a reading y in a joint state is

    g(r) = (1 − η) · (N(0, σ²) ∗ distribution of n)(r) + η · e^(−|r|/b) / 2b.

The second term has weight η and long tails, so that no reading is impossible. All distributions
are symmetric. `NoisyEmission` tabulates g for a few values of σ and interpolates. `LoadModel`
decodes readings exactly, and `beam` decodes homes with too many joint states.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from hushmeter.attack.base import NoiseDistribution
from hushmeter.attack.chains import (
    ChainSet,
    StateArray,
    best_path,
    chain_marginals,
    outer_sum,
)
from hushmeter.attack.levels import optimal_partition
from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.home import Home
from hushmeter.trace import Trace

CELLS = 1024
"""Number of cells of the table of one σ, from r = 0 to the end of the noise."""

RATIO = 1.12
"""States whose σ differ by less than this factor share a table."""

TAIL_STEPS = 8
"""Number of cells of the table of the tails per length b."""

NEGLIGIBLE = 1e-10
"""The tables end at the 1 − NEGLIGIBLE quantile of the noise; beyond it the tails apply."""


class _StateTables(NamedTuple):
    """Mean of every joint state [W], where its table begins, and the factors of the table."""

    means: FloatArray
    rows: IntArray
    per_watt: FloatArray
    weight: FloatArray
    per_tail: FloatArray


class NoisyEmission:
    """Densities [1/W] of readings in every joint state."""

    def __init__(
        self,
        means: FloatArray,
        variances: FloatArray,
        noise: NoiseDistribution | None,
        outlier: float,
        reach: float,
    ) -> None:
        self.means = means
        spreads, classes = spread_classes(np.sqrt(variances))
        ends = 8 * spreads + (noise.quantile(1 - NEGLIGIBLE) if noise else 0.0)
        level = np.sqrt(spreads**2 + (noise.std**2 if noise else 0.0))
        tails = np.maximum(8 * level, reach / 400)
        residuals = np.linspace(0.0, ends, CELLS + 2, axis=1)
        logs = [noisy_log_density(r, s, noise) for r, s in zip(residuals, spreads, strict=True)]
        far = outlier / (2 * tails[:, None]) * np.exp(-residuals / tails[:, None])
        self.tables = (
            (1 - outlier) * np.exp(logs) + far,
            (CELLS + 1) / ends,
            outlier / (2 * tails),
            TAIL_STEPS / tails,
            np.exp(-np.arange(512 * TAIL_STEPS + 2) / TAIL_STEPS),
        )
        core, per_watt, weight, per_tail, decay = self.tables
        self._flat = np.concatenate([core.ravel(), decay])
        rows = classes.astype(np.int64) * (CELLS + 2)
        self._states = _StateTables(
            means, rows, per_watt[classes], weight[classes], per_tail[classes]
        )

    def densities(self, readings: FloatArray) -> FloatArray:
        """Compute g for every reading and joint state, shape (T, S)."""
        out = np.empty((readings.size, self.means.size))
        first_tail = self._flat.size - self.tables[4].size
        # The copy is writable: numba would compile the kernel again for read-only readings.
        _look_up(readings.copy(), self._states, self._flat, first_tail, out)
        return out


def noisy_log_density(
    residuals: FloatArray, spread: float, noise: NoiseDistribution | None
) -> FloatArray:
    """Log-density, at residuals [W], of a Gaussian of standard deviation σ [W] plus the noise.

    Rounding to the grid adds grid²/12 to σ².
    """
    if noise is None:
        return -0.5 * (residuals / spread) ** 2 - math.log(spread * math.sqrt(2 * math.pi))
    return noise.log_density(residuals, math.hypot(spread, noise.grid / math.sqrt(12)))


def spread_classes(spreads: FloatArray) -> tuple[FloatArray, NDArray[np.int32]]:
    """A few values of σ, at most a factor RATIO apart, and the class of every state."""
    lowest = float(spreads.min())
    rank = np.rint(np.log(spreads / lowest) / math.log(RATIO)).astype(np.int64)
    used, classes = np.unique(rank, return_inverse=True)
    return lowest * RATIO ** used.astype(np.float64), classes.astype(np.int32)


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def _look_up(
    readings: FloatArray,
    states: _StateTables,
    flat: FloatArray,
    first_tail: int,
    out: FloatArray,
) -> None:
    """Interpolate in the table of the core or, beyond its end, in that of the tail.

    Both tables are in `flat`; the tail begins at `first_tail`.
    """
    means, rows, per_watt, weight, per_tail = states
    cells, last = CELLS + 1.0, flat.size - first_tail - 2.0
    for t in range(readings.size):
        y, row = readings[t], out[t]
        for s in range(means.size):
            away = abs(y - means[s])
            near, far = away * per_watt[s], away * per_tail[s]
            # Conditional values instead of branches: the table differs from state to state, and
            # a branch would keep the loop from being vectorised.
            inside = near < cells
            at = near if inside else (far if far < last else last)
            cell = int(at)
            i = cell + (rows[s] if inside else first_tail)
            value = flat[i] + (at - cell) * (flat[i + 1] - flat[i])
            row[s] = value * (1.0 if inside else weight[s])


def gaussian_log_densities(
    readings: FloatArray, means: FloatArray, variance: float, *, relative: bool = False
) -> FloatArray:
    """Log-densities of readings [W] in states with Gaussian power: means [W], variance [W²]."""
    out = np.empty((readings.size, means.size))
    constant = 0.0 if relative else -0.5 * math.log(2 * math.pi * variance)
    _fill_gaussian(readings.copy(), means, -0.5 / variance, constant, relative, out)
    return out


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def _fill_gaussian(
    readings: FloatArray,
    means: FloatArray,
    factor: float,
    constant: float,
    relative: bool,
    out: FloatArray,
) -> None:
    """Fill `out` row by row; a row is small enough to stay in the cache for its maximum."""
    for t in range(readings.size):
        y, row = readings[t], out[t]
        for s in range(means.size):
            row[s] = constant + factor * (y - means[s]) ** 2
        if relative:
            row -= row.max()


Known = Sequence[BoolArray | None]
"""Possible states of each load at the first reading; None for all states."""

BLOCK = 2048
"""Number of readings whose kept states are held at a time."""


@dataclass(frozen=True)
class LoadModel:
    """Loads with their states, and the distribution of their observed sum."""

    # Mean [W] and variance [W²] of the power of each load in each state
    means: tuple[FloatArray, ...]
    variances: tuple[FloatArray, ...]
    # Chain of each load, as in `ChainSet`
    transitions: tuple[FloatArray, ...]
    initial: tuple[FloatArray, ...]
    variance: float  # Variance of the sum that belongs to no load [W²]
    noise: NoiseDistribution | None  # Known noise of the readings
    outlier: float  # Share of readings that no state explains

    @property
    def chains(self) -> ChainSet:
        """Chains of the loads."""
        return ChainSet(self.transitions, self.initial)

    def subset(self, loads: Sequence[int] | IntArray) -> LoadModel:
        """Model of some of the loads, in the given order."""
        return replace(
            self,
            means=tuple(self.means[i] for i in loads),
            variances=tuple(self.variances[i] for i in loads),
            transitions=tuple(self.transitions[i] for i in loads),
            initial=tuple(self.initial[i] for i in loads),
        )

    def emission(self, reach: float) -> NoisyEmission:
        """Densities of readings up to `reach` [W] away from the power of a state."""
        return NoisyEmission(
            outer_sum(self.means),
            outer_sum(self.variances) + self.variance,
            self.noise,
            self.outlier,
            reach,
        )

    def reach(self, readings: FloatArray) -> float:
        """Largest distance [W] between a reading and the power of a state."""
        highest = sum(float(watts.max()) for watts in self.means)
        lowest = sum(float(watts.min()) for watts in self.means)
        return max(float(readings.max()) - lowest, highest - float(readings.min()))

    def marginals(
        self, readings: FloatArray, starts: BoolArray, known: Known | None = None
    ) -> Iterator[tuple[slice, FloatArray]]:
        """Compute the exact marginals of all loads, block by block: see `chain_marginals`."""
        chains, emission = self.chains, self.emission(self.reach(readings))
        first = chains.joint_initial(known)
        return chain_marginals(
            chains, lambda rows: emission.densities(readings[rows]), starts, first
        )

    def sum_moments(self, readings: FloatArray, starts: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Mean [W] and variance [W²] of the sum of all loads given all readings, shape (T,)."""
        chains, emission = self.chains, self.emission(self.reach(readings))
        watts = outer_sum(self.means)
        squares = watts**2 + outer_sum(self.variances)
        means, seconds = np.empty((2, readings.size))
        blocks = chain_marginals(
            chains, lambda rows: emission.densities(readings[rows]), starts, joint=True
        )
        for rows, chances in blocks:
            means[rows], seconds[rows] = chances @ watts, chances @ squares
        return means, np.maximum(seconds - means**2, 0.0)

    def path(self, readings: FloatArray, starts: BoolArray, known: Known | None = None) -> IntArray:
        """Find the states of all loads on the most probable joint path, shape (T, M)."""
        chains, emission = self.chains, self.emission(self.reach(readings))
        first = chains.joint_initial(known)
        joint = best_path(
            chains, lambda rows: np.log(emission.densities(readings[rows])), starts, first
        )
        return chains.split(joint).astype(np.int64)


RANGE_CELLS = 384
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
    """Find the best cuts of values [W] into 1 … `most` ranges with a Gaussian distribution each.

    The cost of a range with n of the T values and variance v is
    n · (½ log(v + FLOOR²) − log(n/T)) + PENALTY · log T.
    """
    count = values.size

    def cost(mass: FloatArray, variance: FloatArray) -> FloatArray:
        spread = 0.5 * np.log(variance + FLOOR**2)
        price = mass * (spread - np.log(mass / count)) + PENALTY * math.log(count)
        return np.where(mass >= min(LEAST, count), price, np.inf)

    return optimal_partition(values, most, _fine_cells, cost)


def _fine_cells(ordered: FloatArray) -> IntArray:
    """First index of every cell of a histogram that is fine in value and in rank."""
    even = np.linspace(ordered[0], ordered[-1], RANGE_CELLS // 2)
    ranked = ordered[np.linspace(0, ordered.size - 1, RANGE_CELLS // 2).astype(np.int64)]
    edges = np.unique(np.concatenate([even, ranked]))
    cells = np.searchsorted(edges, ordered, side="right")
    return np.unique(cells, return_index=True)[1].astype(np.int64)


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
