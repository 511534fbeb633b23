"""Baselines that do not read the meter; every attacker is compared with them."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from hushmeter.attack.base import Attacker, Observation
from hushmeter.checks import BoolArray


class AllOff(Attacker):
    """Baseline that predicts that everything is always off."""

    name: ClassVar[str] = "all-off"
    needs: ClassVar[str] = "nothing"
    assumes: ClassVar[str] = "nobody is ever home"

    def _predict(self, seen: Observation) -> BoolArray:
        return np.zeros((len(seen), len(self.home)), np.bool_)


class Hold(Attacker):
    """Baseline that predicts that the state of the first reading never changes."""

    name: ClassVar[str] = "hold"
    needs: ClassVar[str] = "the state at the first reading"
    assumes: ClassVar[str] = "nothing ever switches"

    def _predict(self, seen: Observation) -> BoolArray:
        return np.tile(self._start(seen), (len(seen), 1))
