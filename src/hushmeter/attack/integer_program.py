"""Integer programmes: IP and its aided form ALIP [1]_.

.. [1] M. Z. A. Bhotto, S. Makonin, I. V. Bajić, "Load disaggregation based on aided linear
   integer programming", IEEE Transactions on Circuits and Systems II 64 (2017).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.attack.alip_rules import (
    ALWAYS_ABOVE,
    AlipRules,
    RuleReader,
    allowed_choices,
    apply_medians,
    apply_transitions,
    can_exclude,
    fill_boxes,
    free_transitions,
    learn_boxes,
    learn_exclusive,
    learn_instead,
    rigid_boxes,
)
from hushmeter.attack.base import Observed
from hushmeter.attack.combinatorial import LevelAttacker
from hushmeter.attack.sums.levels import LevelTable, assign_levels, learn_levels
from hushmeter.attack.sums.nearest_sum import CHUNK, NearestSum
from hushmeter.attack.sums.on_states import LevelArray, given_levels, look_up, training_power
from hushmeter.checks import BoolArray, FloatArray, IntArray, RngLike, whole
from hushmeter.errors import DataError
from hushmeter.home import Home
from hushmeter.trace import Trace

Ratings = Sequence[Sequence[float]]


class IntegerProgram(LevelAttacker):
    """Per reading min |y − Σ r f| with f binary and at most one rating f of each appliance.

    It is the nearest-sum problem of CO, solved by a table instead of a solver; only the origin
    of the ratings differs, which are given and not learnt.

    Parameters
    ----------
    home : Home
    ratings : sequence of sequences of float, optional
        On-powers [W] per appliance; the home's levels if not given.
    solve_first : bool
        False leaves the first reading of every contiguous run at zero, as the authors' programme
        does.

    Notes
    -----
    Of two sums that are equally near, the lower is taken; the authors' solver takes either.
    """

    name: ClassVar[str] = "ip"
    needs: ClassVar[str] = "appliance levels"
    assumes: ClassVar[str] = "every reading explained on its own; levels are exact"

    def __init__(
        self, home: Home, *, ratings: Ratings | None = None, solve_first: bool = True
    ) -> None:
        super().__init__(home)
        self.ratings = ratings
        self.solve_first = bool(solve_first)
        if ratings is not None:
            given_levels(home, ratings)

    @property
    def _given(self) -> Ratings | None:
        return self.ratings

    def fit(self, trace: Trace) -> Self:
        """Learn only which ratings mean on."""
        super().fit(trace)
        self._learn_on(trace)
        return self

    def _choose(self, load: FloatArray, starts: BoolArray) -> LevelArray:
        levels = NearestSum(self.table.powers).search(load)
        if not self.solve_first:
            levels[starts] = 0
        return levels


class AidedIntegerProgram(IntegerProgram):
    """ALIP: the integer programme with rules about the appliances and a second, linear pass.

    Parameters
    ----------
    home : Home
    ratings, solve_first
        As in `IntegerProgram`; without ratings `fit` learns them.
    always_on : sequence of str, optional
        Appliances that are in one of their states at every reading (Σ f = 1).
    exclusive : sequence of sequences of (name, rating), optional
        States of which at most one holds at a time (Σ f ≤ 1).
    transitions : sequence of (name, from, to, instead), optional
        Forbidden changes of rating [W; 0 is off] and what replaces them.
    median : sequence of (name, rating, window, instead), optional
        A rating is replaced at a reading if the (lower) median over the `window` readings that
        begin with it lies below the rating. Never learnt.
    boxes : sequence of (name, rating, low, high), optional
        Bounds [W] within which the second pass moves a rating so that the sum meets the reading,
        largest appliances first.
    most : int
        Largest number of ratings learnt per appliance.

    Notes
    -----
    Rules that are not given are learnt by `fit`: always on if never below 1 W; states never seen
    together or after each other though chance would have shown them five times; boxes from the
    5 % and 95 % quantiles. Before `fit` a rule that is not given does not apply. States exclude
    each other only in homes of at most 2^20 combinations: in larger ones no such rule is learnt.
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
        always_on: Sequence[str] | None = None,
        exclusive: Sequence[Sequence[tuple[str, float]]] | None = None,
        transitions: Sequence[tuple[str, float, float, float]] | None = None,
        median: Sequence[tuple[str, float, int, float]] | None = None,
        boxes: Sequence[tuple[str, float, float, float]] | None = None,
        most: int = 3,
    ) -> None:
        super().__init__(home, ratings=ratings, solve_first=solve_first)
        self.always_on, self.exclusive, self.transitions = always_on, exclusive, transitions
        self.median, self.boxes = median, boxes
        self.most = whole("most", most)
        if ratings is not None:
            _ = self.rules

    @property
    def rules(self) -> AlipRules:
        """The rules in use: given, else learnt, else none."""
        reader, table = RuleReader(self.home, self.table), self.table
        learnt = AlipRules(*self.rules_) if hasattr(self, "rules_") else None  # type: ignore[arg-type]
        none = AlipRules(
            np.zeros(len(self.home), np.bool_), (), free_transitions(table), (), rigid_boxes(table)
        )
        other = learnt or none
        return AlipRules(
            other.always_on if self.always_on is None else reader.always_on(self.always_on),
            other.exclusive if self.exclusive is None else reader.exclusive(self.exclusive),
            other.instead if self.transitions is None else reader.instead(self.transitions),
            () if self.median is None else reader.median(self.median),
            other.boxes if self.boxes is None else reader.boxes(self.boxes),
        )

    def fit(self, trace: Trace) -> Self:
        """Learn the ratings and the rules that were not given, and which ratings mean on."""
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
        for count, matrix in zip(self.table.counts, self.rules.instead, strict=True):
            inside = matrix.dtype == np.int8 and matrix.shape == (count, count)
            if not (inside and 0 <= matrix.min() <= matrix.max() < count):
                raise DataError("a saved alip attacker is damaged.")

    def _choose(self, load: FloatArray, starts: BoolArray) -> LevelArray:
        table, rules = self.table, self.rules
        choices = allowed_choices(table.counts, rules)
        if choices is not None:
            levels = NearestSum(table.powers, allowed=choices).search(load)
        else:
            skip = rules.always_on.astype(np.int8)
            possible = [row[a:] for row, a in zip(table.powers, skip, strict=True)]
            levels = NearestSum(possible).search(load) + skip
        if not self.solve_first:
            levels[starts] = 0
        apply_transitions(levels, starts, rules)
        apply_medians(levels, starts, rules)
        return levels

    def predict_power(
        self,
        readings: Observed,
        *,
        initial_state: ArrayLike | None = None,
        rng: RngLike = None,  # noqa: ARG002
    ) -> FloatArray:
        """Power after the second pass [W], shape (T, N)."""
        levels = self.predict_levels(readings, initial_state)
        load = self._observe(readings)[0] - self.home.base_load
        power = cast(FloatArray, look_up(levels, self.table.powers))
        boxes, order = self.rules.boxes, self._largest_first()
        for first in range(0, load.size, CHUNK):
            part = slice(first, first + CHUNK)
            lows = cast(FloatArray, look_up(levels[part], [box[:, 0].copy() for box in boxes]))
            highs = cast(FloatArray, look_up(levels[part], [box[:, 1].copy() for box in boxes]))
            fill_boxes(power[part], load[part], lows, highs, order)
        return power

    def _largest_first(self) -> IntArray:
        rows = self.table.powers
        return np.array(sorted(range(len(rows)), key=lambda i: tuple(-rows[i][::-1])), np.int64)


def _learn_ratings(trace: Trace, home: Home, always_on: BoolArray, most: int) -> LevelTable:
    """Levels of the training data; an appliance that is always on also rests at a rating."""
    rows = []
    for row, resting in zip(learn_levels(trace, home, most).powers, always_on, strict=True):
        states = row if resting else row[1:]
        rows.append(np.concatenate([[0.0], np.unique(states[states > 0])]))
    return LevelTable(tuple(rows))
