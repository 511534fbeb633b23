"""Appliances with several levels for attackers that know only on and off.

The levels of an appliance, such as 200 W and 2000 W, become increments of 200 W and 1800 W that
switch on their own. An appliance is on where any of its increments is. A home in which every
appliance has one level is its own expansion.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.attack.base import Attacker, Observed
from hushmeter.checks import BoolArray, FloatArray, IntArray, RngLike
from hushmeter.home import Appliance, Home


class Increments:
    """A home whose appliances are taken apart into increments.

    Attributes
    ----------
    home : Home
        The increments as appliances; the given home itself where no appliance has two levels.
    owners : array of int, shape (M,)
        Column of the appliance that each increment belongs to; its lowest comes first.
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
        """Known states (…, N) as increments (…, M): what is on is taken to be at its lowest."""
        return states if self.trivial else states[..., self.owners] & self.lowest

    def collapse(self, increments: BoolArray) -> BoolArray:
        """States (T, N): on where any increment is."""
        if self.trivial:
            return increments
        found: BoolArray = np.logical_or.reduceat(increments, np.flatnonzero(self.lowest), axis=1)
        return found

    def collapse_chances(self, chances: FloatArray) -> FloatArray:
        """Probability of on (T, N): that of the likeliest increment."""
        if self.trivial:
            return chances
        found: FloatArray = np.maximum.reduceat(chances, np.flatnonzero(self.lowest), axis=1)
        return found

    def power(self, increments: BoolArray) -> FloatArray:
        """Power of every appliance [W], shape (T, N): the sum of its increments."""
        watts = increments * self.home.powers
        if self.trivial:
            return watts
        found: FloatArray = np.add.reduceat(watts, np.flatnonzero(self.lowest), axis=1)
        return found


class IncrementAttacker(Attacker):
    """An attacker of on and off that serves appliances with levels through their increments."""

    def __init__(self, home: Home) -> None:
        super().__init__(home)
        self.increments = Increments(home)

    @abstractmethod
    def _predict_increments(
        self, readings: Observed, initial_state: ArrayLike | None, rng: RngLike
    ) -> BoolArray:
        """States of the increments, shape (T, M)."""

    def predict(
        self, readings: Observed, *, initial_state: ArrayLike | None = None, rng: RngLike = None
    ) -> BoolArray:
        """States (T, N)."""
        return self.increments.collapse(self._predict_increments(readings, initial_state, rng))

    def predict_power(
        self, readings: Observed, *, initial_state: ArrayLike | None = None, rng: RngLike = None
    ) -> FloatArray:
        """Power of every appliance [W], shape (T, N): the sum of its increments that are on."""
        return self.increments.power(self._predict_increments(readings, initial_state, rng))


def _rebuild(home: Home, parts: list[Appliance]) -> Home:
    names = [part.name for part in parts]
    if len(set(names)) < len(names):
        parts = [Appliance(f"{i}: {part.name}", part.power) for i, part in enumerate(parts)]
    return Home(parts, home.tolerance, home.base_load, home.name)
