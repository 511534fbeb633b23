"""From the level an appliance runs at to on or off, and to watts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hushmeter.attack.sums.levels import LevelTable
from hushmeter.checks import BoolArray, FloatArray, positive
from hushmeter.errors import InputError
from hushmeter.home import Home
from hushmeter.trace import Trace

LevelArray = NDArray[np.int8]
OnFlags = tuple[BoolArray, ...]


def training_power(trace: Trace, home: Home) -> FloatArray:
    """True power of every appliance [W], shape (T, N): states times mean powers if unmetered."""
    return trace.truth() * home.powers if trace.power is None else trace.power


def given_levels(home: Home, levels: Sequence[Sequence[float]]) -> LevelTable:
    """Zero and the given on-levels [W], one sequence per appliance of the home."""
    if len(levels) != len(home):
        raise InputError(f"levels of {len(levels)} appliances were given for {len(home)}.")
    rows = []
    for name, row in zip(home.names, levels, strict=True):
        watts = sorted({positive(f"a level of {name}", watt) for watt in row})
        if not watts:
            raise InputError(f"{name} needs one or more levels [W].")
        rows.append(np.array([0.0, *watts]))
    return LevelTable(tuple(rows))


def nearest_levels(power: FloatArray, table: LevelTable) -> LevelArray:
    """The level nearest to the power of every appliance, int8 (T, N)."""
    levels = np.empty(power.shape, np.int8)
    for i, watts in enumerate(table.powers):
        levels[:, i] = np.searchsorted((watts[1:] + watts[:-1]) / 2, power[:, i])
    return levels


def learn_on(levels: LevelArray, truth: BoolArray, counts: Sequence[int]) -> OnFlags:
    """Which levels mean on: those at which the appliance was on more often than not.

    A level that the data never shows means on, except the first.
    """
    flags = []
    for i, count in enumerate(counts):
        seen = np.bincount(levels[:, i], minlength=count)
        on = np.bincount(levels[truth[:, i], i], minlength=count)
        flags.append(np.where(seen > 0, 2 * on > seen, np.arange(count) > 0))
    return tuple(flags)


def above_first(counts: Sequence[int]) -> OnFlags:
    """Every level but the first means on."""
    return tuple(np.arange(count) > 0 for count in counts)


def look_up(levels: LevelArray, rows: Sequence[NDArray[np.generic]]) -> NDArray[np.generic]:
    """`rows[i][levels[t, i]]` for all t and i, shape (T, N)."""
    found = np.empty(levels.shape, rows[0].dtype)
    for i, row in enumerate(rows):
        found[:, i] = row[levels[:, i]]
    return found
