"""What ALIP knows about appliances beyond their ratings: rules, given or learnt, and their use."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numba
import numpy as np
from numpy.typing import NDArray

from hushmeter.attack.sums.levels import LevelTable
from hushmeter.attack.sums.nearest_sum import TABLE_LIMIT
from hushmeter.attack.sums.on_states import LevelArray
from hushmeter.checks import BoolArray, FloatArray, IntArray, whole
from hushmeter.errors import InputError
from hushmeter.home import Home

ALWAYS_ABOVE = 1.0
"""An appliance that never draws less than this [W] in training is always on."""

EXPECTED = 5.0
"""Events that chance would have shown this often, and that were never seen, are forbidden."""

BOX = (0.05, 0.95)
"""Quantiles of an on-level's power between which the second pass may move it."""


@dataclass(frozen=True)
class AlipRules:
    """Rules in terms of level positions; state 0 is off.

    Attributes
    ----------
    always_on : array of bool, shape (N,)
        Appliances that are in one of their states at every reading.
    exclusive : tuple of tuples of (appliance, level)
        Sets of which at most one state holds at a time.
    instead : tuple of int8 arrays, shape (K, K)
        The level that replaces level k after level j, per appliance; k itself where allowed.
    median : tuple of (appliance, level, window, replacement)
    boxes : tuple of arrays, shape (K, 2)
        Bounds [W] of each level for the second pass, equal where it is rigid.
    """

    always_on: BoolArray
    exclusive: tuple[tuple[tuple[int, int], ...], ...]
    instead: tuple[LevelArray, ...]
    median: tuple[tuple[int, int, int, int], ...]
    boxes: tuple[FloatArray, ...]


class RuleReader:
    """Turns rules in names and watts into positions in a table of levels."""

    def __init__(self, home: Home, table: LevelTable) -> None:
        self.home, self.table = home, table

    def state(self, name: str, watts: float) -> tuple[int, int]:
        """(appliance, level) of the rating nearest to `watts`; zero watts is off."""
        i = self.home.index(name)
        distances = np.abs(self.table.powers[i] - watts)
        if distances.min() > self.home.tolerance:
            raise InputError(f"{name} has no rating of {watts} W.")
        return i, int(distances.argmin())

    def always_on(self, names: Iterable[str]) -> BoolArray:
        """Mask of the named appliances."""
        mask = np.zeros(len(self.home), np.bool_)
        mask[[self.home.index(name) for name in names]] = True
        return mask

    def exclusive(
        self, sets: Iterable[Iterable[tuple[str, float]]]
    ) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Sets of states."""
        return tuple(tuple(self.state(name, watts) for name, watts in group) for group in sets)

    def instead(
        self, transitions: Iterable[tuple[str, float, float, float]]
    ) -> tuple[LevelArray, ...]:
        """Replacement matrices of (name, from, to, instead)."""
        matrices = free_transitions(self.table)
        for name, before, after, replacement in transitions:
            i, j = self.state(name, before)
            matrices[i][j, self.state(name, after)[1]] = self.state(name, replacement)[1]
        return matrices

    def median(
        self, rules: Iterable[tuple[str, float, int, float]]
    ) -> tuple[tuple[int, int, int, int], ...]:
        """Median rules of (name, state, window, instead)."""
        return tuple(
            (*self.state(name, watts), whole("window", window), self.state(name, instead)[1])
            for name, watts, window, instead in rules
        )

    def boxes(self, boxes: Iterable[tuple[str, float, float, float]]) -> tuple[FloatArray, ...]:
        """Bounds of (name, state, low, high)."""
        bounds = rigid_boxes(self.table)
        for name, watts, low, high in boxes:
            if not 0 <= low <= high:
                raise InputError(f"the box of {name} must have 0 ≤ low ≤ high, got {low}, {high}.")
            i, k = self.state(name, watts)
            bounds[i][k] = low, high
        return bounds


def free_transitions(table: LevelTable) -> tuple[LevelArray, ...]:
    """Every transition allowed."""
    return tuple(np.tile(np.arange(count, dtype=np.int8), (count, 1)) for count in table.counts)


def rigid_boxes(table: LevelTable) -> tuple[FloatArray, ...]:
    """Every level at its rating."""
    return tuple(np.column_stack([watts, watts]) for watts in table.powers)


def learn_exclusive(
    levels: LevelArray, counts: Sequence[int]
) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Pairs of on-levels never seen together though chance would have shown them."""
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
    """Transitions never seen become a step through the level between that was seen.

    A transition is forbidden where both levels were seen often enough and some level in between
    leads from one to the other; otherwise it stays allowed, as the appliance would be stuck.
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
    """5–95 % quantiles of the power at every on-level [W]."""
    bounds = rigid_boxes(table)
    for i, box in enumerate(bounds):
        for k in range(1, len(box)):
            drawn = power[levels[:, i] == k, i]
            if drawn.size:
                box[k] = np.quantile(drawn, BOX)
    return bounds


def can_exclude(counts: Sequence[int]) -> bool:
    """Whether the combinations of so many levels are few enough to be listed."""
    return math.prod(counts) <= TABLE_LIMIT


def allowed_choices(counts: Sequence[int], rules: AlipRules) -> NDArray[np.int8] | None:
    """All choices of levels that keep the exclusive sets, shape (C, N); None if there are none."""
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
    """Replace forbidden steps, in the order of time, within each contiguous run."""
    for i, matrix in enumerate(rules.instead):
        column = np.ascontiguousarray(levels[:, i])
        _replace_steps(column, starts, matrix)
        levels[:, i] = column


def apply_medians(levels: LevelArray, starts: BoolArray, rules: AlipRules) -> None:
    """Replace a level at the oldest of `window` readings where their median lies below it."""
    first = np.flatnonzero(starts)
    stops = np.append(first[1:], len(levels))
    for i, level, window, replacement in rules.median:
        at_least = np.concatenate([[0], np.cumsum(levels[:, i] >= level)])
        for start, stop in zip(first, stops, strict=True):
            oldest = np.arange(start, stop - window + 1)
            held = at_least[oldest + window] - at_least[oldest]
            rare = oldest[(2 * held <= window) & (levels[oldest, i] == level)]
            levels[rare, i] = replacement


@numba.njit(cache=True, nogil=True)
def _replace_steps(column: LevelArray, starts: BoolArray, instead: LevelArray) -> None:
    for t in range(1, column.size):
        if not starts[t]:
            column[t] = instead[column[t - 1], column[t]]


@numba.njit(cache=True, nogil=True)
def fill_boxes(
    power: FloatArray, load: FloatArray, lows: FloatArray, highs: FloatArray, order: IntArray
) -> None:
    """Move each power within its box, appliance after appliance, until the sum meets the load."""
    for t in range(load.size):
        missing = load[t] - power[t].sum()
        for i in order:
            moved = min(max(power[t, i] + missing, lows[t, i]), highs[t, i])
            missing -= moved - power[t, i]
            power[t, i] = moved
