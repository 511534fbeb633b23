"""Combinatorial optimisation (CO): the levels whose sum is nearest to each reading."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.attack.base import Attacker, Observation, Observed
from hushmeter.attack.sums.levels import (
    LevelArray,
    LevelTable,
    OnFlags,
    above_first,
    find_on_levels,
    given_levels,
    home_levels,
    learn_on,
    look_up,
    nearest_levels,
    training_power,
)
from hushmeter.attack.sums.nearest_sum import NearestSum
from hushmeter.checks import BoolArray, FloatArray, non_negative, whole
from hushmeter.home import Home
from hushmeter.trace import Trace

MANY_APPLIANCES = 12
"""Largest number of appliances for which CO learns more than one on-level, as NILMTK does."""


class LevelAttacker(Attacker):
    """An attacker that chooses a level of every appliance at every reading.

    A subclass implements `_choose`, and `_given` if the user can give the levels.

    Notes
    -----
    The table of levels is the one that `fit` learnt, else the given one, else the home's. The base
    load of the home is subtracted from the readings first; a reading below it means that nothing
    is on. Each reading is explained without the initial state.
    """

    levels_: LevelTable
    on_: OnFlags

    @property
    def _given(self) -> Sequence[Sequence[float]] | None:
        """On-levels [W] of every appliance that the user gave."""
        return None

    @property
    def table(self) -> LevelTable:
        """Level powers in use [W]."""
        if hasattr(self, "levels_"):
            return self.levels_
        return (
            home_levels(self.home) if self._given is None else given_levels(self.home, self._given)
        )

    def predict_levels(
        self, readings: Observed, initial_state: ArrayLike | None = None
    ) -> LevelArray:
        """Predict the level of every appliance (`readings` [W])."""
        return self._choose_levels(self._see(readings, initial_state))

    def _choose(self, load: FloatArray, starts: BoolArray) -> LevelArray:
        """Levels (T, N) for readings less the base load [W]."""
        raise NotImplementedError(f"{type(self).__name__} must implement _choose.")

    def _choose_levels(self, seen: Observation) -> LevelArray:
        return self._choose(seen.readings - self.home.base_load, seen.run_starts)

    def _predict(self, seen: Observation) -> BoolArray:
        on = getattr(self, "on_", None) or above_first(self.table.counts)
        return cast(BoolArray, look_up(self._choose_levels(seen), on))

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
        super().__init__(home)
        self.levels = levels
        self.most = whole("most", most)
        self.least_power = non_negative("least_power", least_power)
        if levels is not None:
            given_levels(home, levels)

    @property
    def _given(self) -> Sequence[Sequence[float]] | None:
        return self.levels

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
