"""How figures are made: the size of their sweeps, their seed, and where real data lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hushmeter.checks import whole
from hushmeter.errors import InputError

EPSILONS = tuple(float(f"{e:.4g}") for e in np.geomspace(10, 0.003, 10))
STAND_IN_READINGS = 3000


@dataclass(frozen=True)
class Setting:
    """Attributes of a run.

    Attributes
    ----------
    seed : int
        Of stand-ins and noise.
    seeds : int
        Releases of each kind, at least two: the bands need them.
    readings : int or None
        Readings that are attacked; if None, 3000 of a stand-in and all of a real set.
    jobs : int
        Workers.
    data : Path or None
        Folder of the real data sets; without it every item runs on its stand-in.
    report : callable, optional
        Called with every cell of a sweep and the number of cells still to come.
    """

    seed: int = 0
    seeds: int = 5
    readings: int | None = None
    jobs: int = 1
    data: Path | None = None
    report: Callable[[dict[str, Any], int], None] | None = None

    def __post_init__(self) -> None:
        whole("seeds", self.seeds, least=2)
        if self.readings is not None:
            whole("readings", self.readings, least=100)
        if self.data is not None and not self.data.is_dir():
            raise InputError(f"{self.data} is not a folder; name the one that holds the data sets.")

    @property
    def stand_in_readings(self) -> int:
        """Readings of a stand-in that are attacked."""
        return STAND_IN_READINGS if self.readings is None else self.readings
