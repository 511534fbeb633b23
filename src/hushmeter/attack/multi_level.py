"""Appliances with several power levels, for attackers that only know on and off.

The levels of an appliance, for example 200 W and 2000 W, are treated as increments of 200 W and
1800 W that switch independently. An appliance is on if any of its increments is on. A home in
which every appliance has one level needs no increments.
"""

from __future__ import annotations

import numpy as np

from hushmeter.attack.base import Attacker, Observation
from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.home import Appliance, Home


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


class IncrementAttacker(Attacker):
    """An attacker of on and off that treats appliances with levels as their increments.

    A subclass implements `_predict_increments`.
    """

    def __init__(self, home: Home) -> None:
        super().__init__(home)
        self.increments = Increments(home)

    @property
    def _parts(self) -> Home:
        """What switches: the appliances, or their increments."""
        return self.increments.home

    def _ranking(self) -> IntArray:
        """Increments from the largest to the smallest power.

        All random rounding is done in this order, so that the order of the home has no effect.
        """
        return np.argsort(-self._parts.powers, kind="stable")

    def _start_increments(self, seen: Observation) -> BoolArray:
        """Increments that are on at the start, shape (M,)."""
        return self.increments.expand(self._start(seen))

    def _predict_increments(self, seen: Observation) -> BoolArray:
        """States of the increments, shape (T, M)."""
        raise NotImplementedError(f"{type(self).__name__} must implement _predict_increments.")

    def _predict(self, seen: Observation) -> BoolArray:
        return self.increments.collapse(self._predict_increments(seen))

    def _predict_power(self, seen: Observation) -> FloatArray:
        return self.increments.power(self._predict_increments(seen))


def _rebuild(home: Home, parts: list[Appliance]) -> Home:
    """A home of the increments, whose names are made distinct."""
    names = [part.name for part in parts]
    if len(set(names)) < len(names):
        parts = [Appliance(f"{i}: {part.name}", part.power) for i, part in enumerate(parts)]
    return Home(parts, home.tolerance, home.base_load, home.name)
