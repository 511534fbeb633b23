"""Combinatorial optimisation (CO): the levels whose sum is nearest to each reading [1]_.

.. [1] G. W. Hart, "Nonintrusive appliance load monitoring", Proceedings of the IEEE 80 (1992);
   the form of NILMTK: N. Batra et al., "NILMTK", ACM e-Energy (2014).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.attack.base import Attacker, Observed
from hushmeter.attack.sums.levels import LevelTable, home_levels, on_levels
from hushmeter.attack.sums.nearest_sum import NearestSum
from hushmeter.attack.sums.on_states import (
    LevelArray,
    OnFlags,
    above_first,
    given_levels,
    learn_on,
    look_up,
    nearest_levels,
    training_power,
)
from hushmeter.checks import BoolArray, FloatArray, RngLike, non_negative, whole
from hushmeter.home import Home
from hushmeter.trace import Trace

MANY_APPLIANCES = 12


class LevelAttacker(Attacker):
    """An attacker that names a level of every appliance at every reading.

    Its table of levels is what `fit` learnt, else what it was given, else the home's. The base
    load of the home is subtracted first; readings below it count as nothing being on. Every
    reading is judged without the initial state, which is only checked.
    """

    levels_: LevelTable
    on_: OnFlags

    @property
    @abstractmethod
    def _given(self) -> Sequence[Sequence[float]] | None:
        """On-levels [W] of every appliance that the attacker was made with."""

    @property
    def table(self) -> LevelTable:
        """Level powers [W] in use."""
        if hasattr(self, "levels_"):
            return self.levels_
        return (
            home_levels(self.home) if self._given is None else given_levels(self.home, self._given)
        )

    @abstractmethod
    def _choose(self, load: FloatArray, starts: BoolArray) -> LevelArray:
        """Levels (T, N) for readings less the base load [W]."""

    def predict(
        self,
        readings: Observed,
        *,
        initial_state: ArrayLike | None = None,
        rng: RngLike = None,  # noqa: ARG002
    ) -> BoolArray:
        """States (T, N): whether the chosen level means on."""
        on = getattr(self, "on_", None) or above_first(self.table.counts)
        return cast(BoolArray, look_up(self.predict_levels(readings, initial_state), on))

    def predict_power(
        self,
        readings: Observed,
        *,
        initial_state: ArrayLike | None = None,
        rng: RngLike = None,  # noqa: ARG002
    ) -> FloatArray:
        """Power of the chosen levels [W], shape (T, N)."""
        levels = self.predict_levels(readings, initial_state)
        return cast(FloatArray, look_up(levels, self.table.powers))

    def predict_levels(
        self, readings: Observed, initial_state: ArrayLike | None = None
    ) -> LevelArray:
        """The level of every appliance, int8 (T, N), positions in `table`."""
        self._initial_state(initial_state)
        values, starts = self._observe(readings)
        return self._choose(values - self.home.base_load, starts)

    def _learn_on(self, trace: Trace) -> None:
        levels = nearest_levels(training_power(trace, self.home), self.table)
        self.on_ = learn_on(levels, trace.truth(), self.table.counts)


class CombinatorialOptimisation(LevelAttacker):
    """Nearest sum among all combinations of levels, each reading on its own, as NILMTK's CO.

    Parameters
    ----------
    home : Home
    levels : sequence of sequences of float, optional
        On-levels [W] per appliance; without them `fit` learns them, and before `fit` those of
        the home are used.
    most : int
        Largest number of on-levels learnt; one in homes of more than 12 appliances.
    least_power : float
        Readings of an appliance up to this [W] teach no level. An appliance that never draws
        more keeps the home's levels.

    Notes
    -----
    Levels are the centres of an optimal one-dimensional k-means, rounded to whole watts; NILMTK
    starts a k-means at random. Of two equally near sums the higher is taken, as there.
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
        """Learn the levels, unless given, and which of them mean on."""
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
            centres = np.rint(on_levels(drawn, most, 0.0, 0.0)) if drawn.size else fallback[1:]
            rows.append(np.concatenate([[0.0], np.unique(centres)]))
        return LevelTable(tuple(rows))

    def _choose(self, load: FloatArray, starts: BoolArray) -> LevelArray:  # noqa: ARG002
        return NearestSum(self.table.powers, ties="higher").search(load)
