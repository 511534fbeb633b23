"""What anyone can guess without reading the meter: the floors every attacker is compared with."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.attack.base import Attacker, Observed
from hushmeter.checks import BoolArray, RngLike


class AllOff(Attacker):
    """Says that everything is off, always."""

    name: ClassVar[str] = "all-off"
    needs: ClassVar[str] = "nothing"
    assumes: ClassVar[str] = "nobody is ever home"

    def predict(
        self,
        readings: Observed,
        *,
        initial_state: ArrayLike | None = None,
        rng: RngLike = None,  # noqa: ARG002
    ) -> BoolArray:
        """All False, shape (T, N)."""
        self._initial_state(initial_state)
        return np.zeros((self._observe(readings)[0].size, len(self.home)), np.bool_)


class Hold(Attacker):
    """Says that the state of the first reading lasts for ever."""

    name: ClassVar[str] = "hold"
    needs: ClassVar[str] = "the state at the first reading"
    assumes: ClassVar[str] = "nothing ever switches"

    def predict(
        self,
        readings: Observed,
        *,
        initial_state: ArrayLike | None = None,
        rng: RngLike = None,  # noqa: ARG002
    ) -> BoolArray:
        """The initial state, T times."""
        state = self._initial_state(initial_state)
        return np.tile(state, (self._observe(readings)[0].size, 1))
