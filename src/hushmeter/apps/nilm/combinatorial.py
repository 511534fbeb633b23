"""Nearest sums of levels: CO, IP, and ALIP, which adds rules and a second pass."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from hushmeter.attack.base import Attacker, AttackerSettings, Observation, read_settings
from hushmeter.attack.level_search import CHUNK, TABLE_LIMIT, NearestSum
from hushmeter.attack.levels import (
    LevelArray,
    LevelTable,
    OnFlags,
    above_first,
    assign_levels,
    find_on_levels,
    given_levels,
    home_levels,
    learn_levels,
    learn_on,
    look_up,
    nearest_levels,
    training_power,
)
from hushmeter.checks import BoolArray, FloatArray, IntArray, non_negative, whole
from hushmeter.compiled import compiled
from hushmeter.errors import DataError, InputError
from hushmeter.home import Home
from hushmeter.trace import Runs, Trace

MANY_APPLIANCES = 12
"""Largest number of appliances for which CO learns more than one on-level, as NILMTK does."""


class LevelAttacker(Attacker):
    """An attacker that chooses a level of every appliance at every reading.

    A subclass implements `_choose`, and passes on the levels that the user gave.

    Notes
    -----
    The table of levels is the one that `fit` learnt, else the given one, else the home's. The base
    load of the home is subtracted from the readings first; a reading below it means that nothing
    is on. Each reading is explained without the initial state.
    """

    levels_: LevelTable
    on_: OnFlags

    def __init__(self, home: Home, given: Sequence[Sequence[float]] | None) -> None:
        super().__init__(home)
        self._untrained = home_levels(home) if given is None else given_levels(home, given)

    @property
    def table(self) -> LevelTable:
        """Level powers in use [W]."""
        return getattr(self, "levels_", self._untrained)

    def _choose(self, load: FloatArray, starts: BoolArray) -> LevelArray:
        """Levels (T, N) for readings less the base load [W]."""
        raise NotImplementedError(f"{type(self).__name__} must implement _choose.")

    def _choose_levels(self, seen: Observation) -> LevelArray:
        return self._choose(seen.readings - self.home.base_load, seen.run_starts)

    @property
    def on_flags(self) -> OnFlags:
        """Whether each level of each appliance means on."""
        return getattr(self, "on_", None) or above_first(self.table.counts)

    def _predict(self, seen: Observation) -> BoolArray:
        return cast(BoolArray, look_up(self._choose_levels(seen), self.on_flags))

    def _predict_power(self, seen: Observation) -> FloatArray:
        return cast(FloatArray, look_up(self._choose_levels(seen), self.table.powers))

    def _learn_on(self, trace: Trace) -> None:
        """Learn which levels of the table mean on."""
        levels = nearest_levels(training_power(trace, self.home), self.table)
        self.on_ = learn_on(levels, trace.truth(), self.table.counts)


class CombinatorialOptimisation(LevelAttacker):
    """CO [1]_. Nearest sum among all combinations of levels, for each reading on its own.

    Parameters
    ----------
    home : Home
    levels : sequence of sequences of float, optional
        On-levels of every appliance. If they are not given, `fit` learns them, and before `fit`
        the levels of the home are used. [W]
    most : int
        Largest number of on-levels that `fit` learns; one in homes of more than 12 appliances.
    least_power : float
        Readings of an appliance up to this power are not used to learn its levels. An appliance
        that never draws more keeps the home's levels. [W]

    Notes
    -----
    NILMTK [2]_ defines this form of CO and its rule for the levels, which has no test of
    separation and rounds to whole watts. The levels are the centres of an optimal one-dimensional
    k-means, where NILMTK starts a k-means at random. Of two equally near sums the higher one is
    taken, as in NILMTK.

    References
    ----------
    .. [1] G. W. Hart, "Nonintrusive appliance load monitoring", Proceedings of the IEEE 80(12),
       1992.
    .. [2] N. Batra et al., "NILMTK: an open source toolkit for non-intrusive load monitoring",
       ACM e-Energy, 2014.
    """

    lookback = 0

    name: ClassVar[str] = "co"
    needs: ClassVar[str] = "appliance levels, or sub-metered data to learn them"
    assumes: ClassVar[str] = "every reading explained on its own; all load is listed"

    def __init__(
        self,
        home: Home,
        *,
        levels: Sequence[Sequence[float]] | None = None,
        most: int = 2,
        least_power: float = 10.0,
    ) -> None:
        super().__init__(home, levels)
        self.levels = levels
        self.most = whole("most", most)
        self.least_power = non_negative("least_power", least_power)

    def fit(self, trace: Trace) -> Self:
        """Learn the levels, unless they were given, and which of them mean on."""
        super().fit(trace)
        if self.levels is None:
            self.levels_ = self._learn_levels(training_power(trace, self.home))
        self._learn_on(trace)
        return self

    def _learn_levels(self, power: FloatArray) -> LevelTable:
        most = self.most if len(self.home) <= MANY_APPLIANCES else 1
        rows = []
        for i, fallback in enumerate(home_levels(self.home).powers):
            drawn = power[power[:, i] > self.least_power, i]
            centres = fallback[1:]
            if drawn.size:
                centres = np.rint(find_on_levels(drawn, most, tolerance=0.0, separation=0.0))
            rows.append(np.concatenate([[0.0], np.unique(centres)]))
        return LevelTable(tuple(rows))

    def _choose(self, load: FloatArray, starts: BoolArray) -> LevelArray:  # noqa: ARG002
        return NearestSum(self.table.powers, ties="higher").search(load)


Ratings = Sequence[Sequence[float]]

ALWAYS_ABOVE = 1.0
"""An appliance whose training power never falls to this value [W] is always on."""

EXPECTED = 5.0
"""An event that never occurred in training is forbidden if independent appliances would have
produced it at least this number of times."""

BOX = (0.05, 0.95)
"""Quantiles of the power at an on-level between which the second pass may move it."""


class IntegerProgram(LevelAttacker):
    """IP [1]_. Nearest sum of ratings, with at most one rating of each appliance.

    Parameters
    ----------
    home : Home
    ratings : sequence of sequences of float, optional
        On-powers of every appliance; the home's levels if they are not given. [W]
    solve_first : bool
        False leaves the first reading of every contiguous run at zero, as the authors' program
        does.
    smooth : int
        Odd number of answers over whose median, centred on a reading, each rating is taken; 1
        keeps the answers as they are.

    Notes
    -----
    For each reading y the problem is min |y − Σ r f| with binary f and at most one f = 1 per
    appliance. This is the nearest-sum problem of CO, so it is solved by a table instead of a
    solver; the two differ only in the ratings, which are given here and learnt there. Of two
    equally near sums the lower one is taken; the authors' solver takes either.

    References
    ----------
    .. [1] M. Z. A. Bhotto, S. Makonin, I. V. Bajić, "Load disaggregation based on aided linear
       integer programming", IEEE Transactions on Circuits and Systems II 64(7), 2017.
    """

    name: ClassVar[str] = "ip"
    needs: ClassVar[str] = "appliance levels"
    assumes: ClassVar[str] = "every reading explained on its own; levels are exact"

    def __init__(
        self,
        home: Home,
        *,
        ratings: Ratings | None = None,
        solve_first: bool = True,
        smooth: int = 1,
    ) -> None:
        super().__init__(home, ratings)
        self.ratings = ratings
        self.solve_first = bool(solve_first)
        self.smooth = whole("smooth", smooth)
        if self.smooth % 2 == 0:
            raise InputError(f"smooth must be odd, got {smooth}.")

    @property
    def lookback(self) -> int | None:
        """No memory, unless answers are smoothed or the first of a run is left out."""
        return 0 if self.solve_first and self.smooth == 1 else None

    def fit(self, trace: Trace) -> Self:
        """Learn which ratings mean on; the ratings themselves are not learnt."""
        super().fit(trace)
        self._learn_on(trace)
        return self

    def _choose(self, load: FloatArray, starts: BoolArray) -> LevelArray:
        levels = NearestSum(self.table.powers).search(load)
        if not self.solve_first:
            levels[starts] = 0
        return smooth_levels(levels, starts, self.smooth)


@dataclass(frozen=True)
class GivenRules(AttackerSettings):
    """Rules of ALIP that the user gives, in names of appliances and watts; None is learnt.

    Attributes
    ----------
    always_on : sequence of str, optional
        Appliances that are in one of their states at every reading (Σ f = 1).
    exclusive : sequence of sequences of (name, rating), optional
        Sets of states of which at most one occurs at a time (Σ f ≤ 1).
    transitions : sequence of (name, from, to, instead), optional
        Forbidden changes of rating (0 is off) and the ratings that replace them. [W]
    median : sequence of (name, rating, window, instead), optional
        A rating is replaced at a reading if the lower median over the `window` readings that
        begin with it is below the rating. These rules are never learnt.
    boxes : sequence of (name, rating, low, high), optional
        Bounds within which the second pass moves a rating so that the sum equals the reading,
        largest appliances first. [W]
    """

    always_on: Sequence[str] | None = None
    exclusive: Sequence[Sequence[tuple[str, float]]] | None = None
    transitions: Sequence[tuple[str, float, float, float]] | None = None
    median: Sequence[tuple[str, float, int, float]] | None = None
    boxes: Sequence[tuple[str, float, float, float]] | None = None


class AidedIntegerProgram(IntegerProgram):
    """ALIP [1]_. The integer program with rules about the appliances and a second, linear pass.

    Parameters
    ----------
    home : Home
    ratings, solve_first, smooth
        As in `IntegerProgram`; if ratings are not given, `fit` learns them.
    rules : GivenRules, mapping or None
        Rules that are not learnt.
    most : int
        Largest number of ratings that `fit` learns per appliance.

    Notes
    -----
    `fit` learns the rules that were not given. An appliance is always on if its power never falls
    to 1 W. States are exclusive, and transitions forbidden, if they never occurred in training
    but independent appliances would have produced them at least five times. The bounds are the
    5 % and 95 % quantiles of the power at a level. Before `fit`, a rule that was not given does
    not apply. Exclusive states are learnt only in homes of at most 2^20 combinations of levels.

    References
    ----------
    .. [1] M. Z. A. Bhotto, S. Makonin, I. V. Bajić, "Load disaggregation based on aided linear
       integer programming", IEEE Transactions on Circuits and Systems II 64(7), 2017.
    """

    name: ClassVar[str] = "alip"
    needs: ClassVar[str] = "appliance levels and rules, or sub-metered data to learn them"
    assumes: ClassVar[str] = "every reading explained on its own, then corrected by rules"

    rules_: tuple[object, ...]

    def __init__(
        self,
        home: Home,
        *,
        ratings: Ratings | None = None,
        solve_first: bool = True,
        smooth: int = 1,
        rules: GivenRules | Mapping[str, Any] | None = None,
        most: int = 3,
    ) -> None:
        super().__init__(home, ratings=ratings, solve_first=solve_first, smooth=smooth)
        self.rules = read_settings(GivenRules(), rules)
        self.most = whole("most", most)
        if ratings is not None:
            _ = self.rules_in_use

    @property
    def rules_in_use(self) -> AlipRules:
        """The given rules, else the learnt ones, else none."""
        learnt = AlipRules(*self.rules_) if hasattr(self, "rules_") else None  # type: ignore[arg-type]
        return read_rules(self.rules, self.home, self.table, learnt or no_rules(self.table))

    @property
    def is_automaton(self) -> bool:
        """Whether the level of an appliance depends on its last level and on one reading only."""
        return super().lookback == 0 and not self.rules_in_use.median

    @property
    def lookback(self) -> int | None:
        """No memory if, in addition, no change of level is forbidden."""
        pairs = zip(self.rules_in_use.instead, free_transitions(self.table), strict=True)
        free = all((given == allowed).all() for given, allowed in pairs)
        return 0 if self.is_automaton and free else None

    def fit(self, trace: Trace) -> Self:
        """Learn the ratings and rules that were not given, and which ratings mean on."""
        LevelAttacker.fit(self, trace)
        power, truth = training_power(trace, self.home), trace.truth()
        always_on = power.min(axis=0) > ALWAYS_ABOVE
        if self.ratings is None:
            self.levels_ = _learn_ratings(trace, self.home, always_on, self.most)
        self._learn_on(trace)
        table = self.table
        levels = assign_levels(power, truth | always_on, table)
        self.rules_ = (
            always_on,
            learn_exclusive(levels, table.counts) if can_exclude(table.counts) else (),
            learn_instead(levels, trace.run_starts, table),
            (),
            learn_boxes(power, levels, table),
        )
        return self

    def _check_learnt(self) -> None:
        for count, matrix in zip(self.table.counts, self.rules_in_use.instead, strict=True):
            inside = matrix.dtype == np.int8 and matrix.shape == (count, count)
            if not (inside and 0 <= matrix.min() <= matrix.max() < count):
                raise DataError("a saved alip attacker is damaged.")

    def choose_alone(self, load: FloatArray) -> LevelArray:
        """Levels (T, N) for readings less the base load [W], before the rules about changes."""
        table, rules = self.table, self.rules_in_use
        choices = allowed_choices(table.counts, rules)
        if choices is not None:
            return NearestSum(table.powers, allowed=choices).search(load)
        skip = rules.always_on.astype(np.int8)
        possible = [row[a:] for row, a in zip(table.powers, skip, strict=True)]
        return NearestSum(possible).search(load) + skip

    def _choose(self, load: FloatArray, starts: BoolArray) -> LevelArray:
        levels, rules = self.choose_alone(load), self.rules_in_use
        if not self.solve_first:
            levels[starts] = 0
        apply_transitions(levels, starts, rules)
        apply_medians(levels, starts, rules)
        return smooth_levels(levels, starts, self.smooth)

    def _predict_power(self, seen: Observation) -> FloatArray:
        """Power after the second pass [W], shape (T, N)."""
        levels = self._choose_levels(seen)
        load = seen.readings - self.home.base_load
        power = cast(FloatArray, look_up(levels, self.table.powers))
        boxes, order = self.rules_in_use.boxes, self._largest_first()
        for first in range(0, load.size, CHUNK):
            part = slice(first, first + CHUNK)
            lows = cast(FloatArray, look_up(levels[part], [box[:, 0].copy() for box in boxes]))
            highs = cast(FloatArray, look_up(levels[part], [box[:, 1].copy() for box in boxes]))
            fill_boxes(power[part], load[part], lows, highs, order)
        return power

    def _largest_first(self) -> IntArray:
        """Appliances in descending order of their largest ratings."""
        rows = self.table.powers
        return np.array(sorted(range(len(rows)), key=lambda i: tuple(-rows[i][::-1])), np.int64)


def _learn_ratings(trace: Trace, home: Home, always_on: BoolArray, most: int) -> LevelTable:
    """Levels of the training data; the idle power of an appliance that is always on is one."""
    rows = []
    for row, resting in zip(learn_levels(trace, home, most).powers, always_on, strict=True):
        states = row if resting else row[1:]
        rows.append(np.concatenate([[0.0], np.unique(states[states > 0])]))
    return LevelTable(tuple(rows))


@dataclass(frozen=True)
class AlipRules:
    """Rules of ALIP in terms of positions in the table of levels; level 0 is off."""

    always_on: BoolArray  # Appliances that are in one of their states at every reading
    # Sets of states of which at most one occurs at a time
    exclusive: tuple[tuple[tuple[int, int], ...], ...]
    # Per appliance, the level that replaces level k after level j; k itself if the transition is
    # allowed.
    instead: tuple[LevelArray, ...]
    median: tuple[tuple[int, int, int, int], ...]  # Median rules: see `AidedIntegerProgram`
    # Bounds of each level for the second pass [W]; equal if the level cannot move
    boxes: tuple[FloatArray, ...]


def no_rules(table: LevelTable) -> AlipRules:
    """Rules that allow everything and move no level."""
    nothing = np.zeros(len(table), np.bool_)
    return AlipRules(nothing, (), free_transitions(table), (), rigid_boxes(table))


def read_rules(given: GivenRules, home: Home, table: LevelTable, other: AlipRules) -> AlipRules:
    """The given rules as positions in the table of levels, and the other ones where none is given.

    Median rules are never learnt.
    """

    def state(name: str, watts: float) -> tuple[int, int]:
        """Position (appliance, level) of a rating [W]; zero watts is off."""
        i = home.index(name)
        distances = np.abs(table.powers[i] - watts)
        if distances.min() > home.tolerance:
            raise InputError(f"{name} has no rating of {watts} W.")
        return i, int(distances.argmin())

    median = tuple(
        (*state(name, watts), whole("window", window), state(name, instead)[1])
        for name, watts, window, instead in given.median or ()
    )
    found: dict[str, Any] = {"median": median}
    if given.always_on is not None:
        named = [home.index(name) for name in given.always_on]
        found["always_on"] = np.isin(np.arange(len(home)), named)
    if given.exclusive is not None:
        found["exclusive"] = tuple(tuple(state(*one) for one in group) for group in given.exclusive)
    if given.transitions is not None:
        found["instead"] = free_transitions(table)
        for name, before, after, instead in given.transitions:
            i, j = state(name, before)
            found["instead"][i][j, state(name, after)[1]] = state(name, instead)[1]
    if given.boxes is not None:
        found["boxes"] = rigid_boxes(table)
        for name, watts, low, high in given.boxes:
            if not 0 <= low <= high:
                raise InputError(f"the box of {name} must have 0 ≤ low ≤ high, got {low}, {high}.")
            i, k = state(name, watts)
            found["boxes"][i][k] = low, high
    return replace(other, **found)


def free_transitions(table: LevelTable) -> tuple[LevelArray, ...]:
    """Replacement matrices that allow every transition."""
    return tuple(np.tile(np.arange(count, dtype=np.int8), (count, 1)) for count in table.counts)


def rigid_boxes(table: LevelTable) -> tuple[FloatArray, ...]:
    """Bounds that keep every level at its rating [W]."""
    return tuple(np.column_stack([watts, watts]) for watts in table.powers)


def learn_exclusive(
    levels: LevelArray, counts: Sequence[int]
) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Learn the pairs of on-levels that exclude each other."""
    length, found = len(levels), []
    states = [(i, k) for i, count in enumerate(counts) for k in range(1, count)]
    seen = {(i, k): levels[:, i] == k for i, k in states}
    for one, other in combinations(states, 2):
        expected = seen[one].sum() * seen[other].sum() / length
        if one[0] != other[0] and expected >= EXPECTED and not (seen[one] & seen[other]).any():
            found.append((one, other))
    return tuple(found)


def learn_instead(
    levels: LevelArray, starts: BoolArray, table: LevelTable
) -> tuple[LevelArray, ...]:
    """Learn the forbidden transitions and the levels that replace them.

    Notes
    -----
    A transition is forbidden if it never occurred, its first level was left often enough, and
    some third level leads from one to the other; the third level then replaces it. Without such a
    level the transition stays allowed, because the appliance could never make it otherwise.
    """
    matrices = free_transitions(table)
    inside = np.flatnonzero(~starts[1:]) + 1
    for i, matrix in enumerate(matrices):
        count = len(matrix)
        steps = np.zeros((count, count), np.int64)
        np.add.at(steps, (levels[inside - 1, i], levels[inside, i]), 1)
        often = steps.sum(axis=1) >= EXPECTED
        for before, after in product(np.flatnonzero(often), repeat=2):
            between = np.flatnonzero((steps[before] > 0) & (steps[:, after] > 0))
            between = between[(between != before) & (between != after)]
            if before != after and steps[before, after] == 0 and between.size:
                matrix[before, after] = between[np.abs(between - after).argmin()]
    return matrices


def learn_boxes(power: FloatArray, levels: LevelArray, table: LevelTable) -> tuple[FloatArray, ...]:
    """Learn the bounds of every on-level [W]: quantiles `BOX` of its training power."""
    bounds = rigid_boxes(table)
    for i, box in enumerate(bounds):
        for k in range(1, len(box)):
            drawn = power[levels[:, i] == k, i]
            if drawn.size:
                box[k] = np.quantile(drawn, BOX)
    return bounds


def can_exclude(counts: Sequence[int]) -> bool:
    """Whether the combinations of these numbers of levels are few enough to be listed."""
    return math.prod(counts) <= TABLE_LIMIT


def allowed_choices(counts: Sequence[int], rules: AlipRules) -> NDArray[np.int8] | None:
    """All choices of levels that the exclusive sets allow, shape (C, N); None without sets."""
    if not rules.exclusive:
        return None
    if not can_exclude(counts):
        raise InputError("these appliances have too many combinations for exclusive states.")
    first = rules.always_on.astype(int)
    ranges = [np.arange(a, n, dtype=np.int8) for a, n in zip(first, counts, strict=True)]
    choices = np.stack(np.meshgrid(*ranges, indexing="ij"), axis=-1).reshape(-1, len(counts))
    for group in rules.exclusive:
        held = sum((choices[:, i] == k).astype(np.int8) for i, k in group)
        choices = choices[held <= 1]
    return choices


def apply_transitions(levels: LevelArray, starts: BoolArray, rules: AlipRules) -> None:
    """Replace forbidden transitions in place, in the order of time, within contiguous runs."""
    for i, matrix in enumerate(rules.instead):
        column = np.ascontiguousarray(levels[:, i])
        _replace_steps(column, starts, matrix)
        levels[:, i] = column


def apply_medians(levels: LevelArray, starts: BoolArray, rules: AlipRules) -> None:
    """Replace in place a level at the first of `window` readings whose median is below it."""
    runs = Runs.between_gaps(starts).slices
    for i, level, window, replacement in rules.median:
        at_least = np.concatenate([[0], np.cumsum(levels[:, i] >= level)])
        for run in runs:
            oldest = np.arange(run.start, run.stop - window + 1)
            held = at_least[oldest + window] - at_least[oldest]
            rare = oldest[(2 * held <= window) & (levels[oldest, i] == level)]
            levels[rare, i] = replacement


def smooth_levels(levels: LevelArray, starts: BoolArray, width: int) -> LevelArray:
    """Median of every appliance's level over `width` readings, within contiguous runs.

    At the ends of a run the first and the last level are repeated.
    """
    if width == 1:
        return levels
    found, half = np.empty_like(levels), width // 2
    for run in Runs.between_gaps(starts).slices:
        padded = np.pad(levels[run], ((half, half), (0, 0)), mode="edge")
        windows = np.lib.stride_tricks.sliding_window_view(padded, width, axis=0)
        found[run] = np.partition(windows, half, axis=-1)[..., half]
    return found


@compiled(cache=True, nogil=True)
def _replace_steps(column: LevelArray, starts: BoolArray, instead: LevelArray) -> None:
    for t in range(1, column.size):
        if not starts[t]:
            column[t] = instead[column[t - 1], column[t]]


@compiled(cache=True, nogil=True)
def fill_boxes(
    power: FloatArray, load: FloatArray, lows: FloatArray, highs: FloatArray, order: IntArray
) -> None:
    """Move the powers within their bounds, in the given order, until the sum meets the load."""
    for t in range(load.size):
        missing = load[t] - power[t].sum()
        for i in order:
            moved = min(max(power[t, i] + missing, lows[t, i]), highs[t, i])
            missing -= moved - power[t, i]
            power[t, i] = moved
