"""The power levels of appliances: given by the home, given by the user, or learnt from data.

State 0 of an appliance is off; states 1 … K − 1 are its on-levels in ascending power. All learners
that cut power into ranges use one dynamic program, `optimal_partition`, on a histogram, so that the
same data always gives the same levels. They differ in what a range costs and in how many they want:

- `learn_levels`, `combinatorial.CombinatorialOptimisation` (with NILMTK's rule for the number of
  levels) and `factorial_hmm.fit_chain` (which goes on by expectation–maximisation, as NILMTK does)
  use the sum of squares, which is an optimal one-dimensional k-means.
- `learn_states` uses the likelihood of a Gaussian distribution per range, because the Bayes
  attacker needs the variance of every state. It cuts the power while off and while on separately,
  and every state costs `PENALTY`·log(T), so that only real levels become states. States are split
  in rounds as long as the number of joint states of the appliances stays within its budget: a
  second level of a rare appliance is worth more than a sixth level of a busy one. The power that no
  appliance accounts for is cut in the same way: one range is a base load, several ranges are a
  chain of unmetered loads.

`super_state_hmm.find_states` takes the peaks of a histogram, as SparseNILM does. `hushmeter.learn`
finds on-levels without knowing when a circuit is on; here the training data says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hushmeter.appliance import Appliance
from hushmeter.attack.chains import StateArray, outer_sum
from hushmeter.checks import BoolArray, FloatArray, IntArray, positive, whole
from hushmeter.errors import InputError
from hushmeter.home import Home
from hushmeter.trace import Trace

LevelArray = NDArray[np.int8]
"""State of every appliance at every reading, shape (T, N)."""

OnFlags = tuple[BoolArray, ...]
"""Per appliance, whether each of its states counts as on."""

BINS = 512
"""Number of histogram cells whose optimal partition gives the levels."""

MOST_STATES = 127
"""Largest number of states of one appliance, off included: states are stored as int8."""

TAIL = 0.005
"""Share of the on-readings at each end that is clipped, so that a rare spike is not a level."""


@dataclass(frozen=True)
class LevelTable:
    """State powers of every appliance."""

    # One ascending array [W] for each appliance: the power while off (zero or its idle power), then
    # the on-levels
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
        """Number of states K of every appliance, off included."""
        return tuple(watts.size for watts in self.powers)

    def __len__(self) -> int:
        return len(self.powers)


def home_levels(home: Home) -> LevelTable:
    """Level table of a home: zero and the `on_levels` of every appliance [W]."""
    return LevelTable(tuple(np.array([0.0, *a.on_levels]) for a in home.appliances))


def given_levels(home: Home, levels: Sequence[Sequence[float]]) -> LevelTable:
    """Level table of a home: zero and the given on-levels of every appliance [W]."""
    if len(levels) != len(home):
        raise InputError(f"levels of {len(levels)} appliances were given for {len(home)}.")
    rows = []
    for name, row in zip(home.names, levels, strict=True):
        watts = sorted({positive(f"a level of {name}", watt) for watt in row})
        if not watts:
            raise InputError(f"{name} needs one or more levels [W].")
        rows.append(np.array([0.0, *watts]))
    return LevelTable(tuple(rows))


def training_power(trace: Trace, home: Home) -> FloatArray:
    """Power of every appliance in training data."""
    return trace.truth() * home.powers if trace.power is None else trace.power


SEPARATION = 2.0
"""Distance of neighbouring levels in units of the sum of their standard deviations. It is 1.7 for a
uniform distribution that is cut in two and 1.3 for a Gaussian, so that neither is split."""


def learn_levels(trace: Trace, home: Home, most: int = 3) -> LevelTable:
    """Learn the state powers from the true power and the true states of a trace.

    Notes
    -----
    The on-levels are the centres of an optimal k-means of the power while on, with the largest
    k ≤ `most` for which all neighbouring centres are further apart than the tolerance and than
    `SEPARATION` times the sum of the standard deviations.
    """
    whole("most", most)
    given, states = home_levels(home), home.truth_of(trace)
    if trace.power is None:
        return given
    rows = []
    for i, fallback in enumerate(given.powers):
        on, power = states[:, i], trace.power[:, i]
        if on.any():
            levels = find_on_levels(power[on], most, home.tolerance, SEPARATION)
        else:
            levels = fallback[1:]
        idle = float(power[~on].mean()) if not on.all() else 0.0
        rows.append(np.concatenate([[min(max(idle, 0.0), levels[0])], levels]))
    return LevelTable(tuple(rows))


def find_on_levels(power: FloatArray, most: int, tolerance: float, separation: float) -> FloatArray:
    """Find the separated levels [W] of one appliance's power [W] while it is on."""
    values = np.clip(power, *np.quantile(power, [TAIL, 1 - TAIL], method="nearest"))
    for count in range(min(most, np.unique(values).size), 1, -1):
        centres, spreads = cluster(values, count)
        needed = np.maximum(tolerance, separation * (spreads[1:] + spreads[:-1]))
        if (np.diff(centres) > needed).all():
            return centres
    return np.array([power.mean()])


def cluster(values: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Centres and standard deviations of an optimal one-dimensional k-means."""
    if values.min() == values.max():
        return values[:1].copy(), np.zeros(1)
    borders = optimal_partition(values, count, _even_cells, _sum_of_squares)[1][-1]
    count = borders.size + 1
    members = np.searchsorted(borders, values, side="right")
    sizes = np.bincount(members, minlength=count).astype(np.float64)
    centres = np.bincount(members, values, count) / sizes
    squares = np.bincount(members, (values - centres[members]) ** 2, count)
    return centres, np.sqrt(squares / sizes)


def _even_cells(ordered: FloatArray) -> IntArray:
    """First index of every occupied cell of `BINS` cells of equal width."""
    low, high = ordered[0], ordered[-1]
    cell = np.minimum((ordered - low) * (BINS / (high - low)), BINS - 1).astype(np.int64)
    return np.unique(cell, return_index=True)[1].astype(np.int64)


def _sum_of_squares(mass: FloatArray, variance: FloatArray) -> FloatArray:
    return mass * variance


def optimal_partition(
    values: FloatArray,
    most: int,
    cells: Callable[[FloatArray], IntArray],
    cost: Callable[[FloatArray, FloatArray], FloatArray],
) -> tuple[FloatArray, list[FloatArray]]:
    """Cut values into 1, 2, … `most` ranges of the lowest total cost.

    `cells` gives the first index of every histogram cell of the ordered values; a range consists of
    whole cells. `cost` maps the number of values of ranges and their variances to costs; ranges of
    infinite cost are not used. Returns the total costs and the smallest values of all ranges but
    the first, for every number of ranges that is possible.

    Notes
    -----
    The dynamic program is best_k(j) = min over i of best_{k−1}(i) + cost(i, j) for the cells
    i … j − 1.
    """
    ordered = np.sort(values)
    first = cells(ordered)
    mass, variance = _range_moments(ordered, first)
    price = np.where(mass > 0, cost(np.maximum(mass, 1.0), variance), np.inf)
    best, parents = price[0], []
    costs, borders = [best[-1]], [np.empty(0)]
    for _ in range(min(most, first.size) - 1):
        total = best[:, None] + price
        parents.append(total.argmin(axis=0))
        best = total.min(axis=0)
        if not np.isfinite(best[-1]):
            break
        ends = [first.size]
        for parent in reversed(parents):
            ends.append(int(parent[ends[-1]]))
        costs.append(best[-1])
        borders.append(ordered[first[ends[:0:-1]]])
    return np.array(costs), borders


def _range_moments(ordered: FloatArray, first: IntArray) -> tuple[FloatArray, FloatArray]:
    """Number and variance of the values in the cells i … j − 1; the number is 0 unless i < j."""
    # Centred, because sums of squares of large powers would lose their digits.
    centred = ordered - ordered.mean()
    ends = np.append(first, ordered.size)
    mass = np.maximum(ends[None, :] - ends[:, None], 0).astype(np.float64)
    sums = [np.append(0.0, np.add.reduceat(centred**p, first).cumsum()) for p in (1, 2)]
    mean, square = ((s[None, :] - s[:, None]) / np.maximum(mass, 1.0) for s in sums)
    return mass, np.maximum(square - mean**2, 0.0)


def assign_levels(power: FloatArray, states: BoolArray, table: LevelTable) -> LevelArray:
    """Assign the power [W] of every appliance to a level, given which appliances are on."""
    if power.shape != states.shape or states.shape[1] != len(table):
        raise InputError(
            f"power {power.shape} and states {states.shape} must have {len(table)} columns."
        )
    levels = np.zeros(states.shape, np.int8)
    for i, watts in enumerate(table.powers):
        borders = (watts[1:-1] + watts[2:]) / 2
        levels[:, i] = np.where(states[:, i], 1 + np.searchsorted(borders, power[:, i]), 0)
    return levels


def nearest_levels(power: FloatArray, table: LevelTable) -> LevelArray:
    """Level nearest to the power of every appliance, int8 (T, N), whether it is on or off."""
    levels = np.empty(power.shape, np.int8)
    for i, watts in enumerate(table.powers):
        levels[:, i] = np.searchsorted((watts[1:] + watts[:-1]) / 2, power[:, i])
    return levels


def learn_on(levels: LevelArray, truth: BoolArray, counts: Sequence[int]) -> OnFlags:
    """Learn which levels mean on."""
    flags = []
    for i, count in enumerate(counts):
        seen = np.bincount(levels[:, i], minlength=count)
        on = np.bincount(levels[truth[:, i], i], minlength=count)
        flags.append(np.where(seen > 0, 2 * on > seen, np.arange(count) > 0))
    return tuple(flags)


def above_first(counts: Sequence[int]) -> OnFlags:
    """Flags with which every level but the first means on."""
    return tuple(np.arange(count) > 0 for count in counts)


def look_up(levels: LevelArray, rows: Sequence[NDArray[np.generic]]) -> NDArray[np.generic]:
    """`rows[i][levels[t, i]]` for all t and i, shape (T, N)."""
    found = np.empty(levels.shape, rows[0].dtype)
    for i, row in enumerate(rows):
        found[:, i] = row[levels[:, i]]
    return found


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


class Increments:
    """A home whose appliances are split into increments.

    Notes
    -----
    This is the paper's remark in Section IV on appliances with more than two states.
    """

    def __init__(self, home: Home) -> None:
        parts, owners = [], []
        for column, appliance in enumerate(home.appliances):
            steps = np.diff(np.unique([0.0, *appliance.on_levels]))
            for level, watts in enumerate(steps):
                name = appliance.name if level == 0 else f"{appliance.name}, level {level + 1}"
                parts.append(Appliance(name, float(watts)))
                owners.append(column)
        self.owners: IntArray = np.array(owners)
        self.trivial = len(parts) == len(home) and not any(a.levels for a in home.appliances)
        self.home = home if self.trivial else _rebuild(home, parts)
        self.lowest: BoolArray = np.diff(self.owners, prepend=-1) > 0

    def expand(self, states: BoolArray) -> BoolArray:
        """Known states (…, N) as increments (…, M); an appliance that is on is at its lowest."""
        return states if self.trivial else states[..., self.owners] & self.lowest

    def collapse(self, increments: BoolArray) -> BoolArray:
        """States (T, N): an appliance is on where any of its increments is on."""
        if self.trivial:
            return increments
        found: BoolArray = np.logical_or.reduceat(increments, np.flatnonzero(self.lowest), axis=1)
        return found

    def collapse_probabilities(self, probabilities: FloatArray) -> FloatArray:
        """Probability of on (T, N): that of the most probable increment."""
        if self.trivial:
            return probabilities
        first = np.flatnonzero(self.lowest)
        found: FloatArray = np.maximum.reduceat(probabilities, first, axis=1)
        return found

    def power(self, increments: BoolArray) -> FloatArray:
        """Power of every appliance [W], shape (T, N): the sum of its increments."""
        watts = increments * self.home.powers
        if self.trivial:
            return watts
        found: FloatArray = np.add.reduceat(watts, np.flatnonzero(self.lowest), axis=1)
        return found


def _rebuild(home: Home, parts: list[Appliance]) -> Home:
    """A home of the increments, whose names are made distinct."""
    names = [part.name for part in parts]
    if len(set(names)) < len(names):
        parts = [Appliance(f"{i}: {part.name}", part.power) for i, part in enumerate(parts)]
    return Home(parts, home.tolerance, home.base_load, home.name)
