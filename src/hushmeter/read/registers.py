"""Meters that count up: energy per interval from what a register shows."""

from __future__ import annotations

import numpy as np

from hushmeter.checks import FloatArray
from hushmeter.read.recording import Series

LEAST_RISES = 20
RISES_PER_FALL = 20
LONGEST_STEP = 1.5


def counts_up(values: FloatArray) -> bool:
    """Whether values in the order of time are a register: they rise, and fall only at resets.

    Energy per interval falls about as often as it rises.
    """
    steps = np.diff(values)
    rises, falls = int((steps > 0).sum()), int((steps < 0).sum())
    return rises >= LEAST_RISES and rises >= RISES_PER_FALL * falls


def take_differences(series: Series) -> None:
    """Replace what a register shows by the energy until the next time, in place.

    A reset, a roll-over and a pause of more than 1.5 steps become gaps; the last time has no
    energy.
    """
    steps = np.diff(series.times) / 1e9
    rise = np.diff(series.values)
    rises = None if series.power is None else np.diff(series.power, axis=0)
    good = (rise >= 0) & (steps <= LONGEST_STEP * np.median(steps))
    if rises is not None:
        good &= (rises >= 0).all(axis=1)
    series.times, series.values = series.times[:-1], rise
    series.power, series.durations, series.stamp = rises, steps, "start"
    lost = int((~good).sum())
    series.notes.append(
        f"The values count up ({series.unit}): differences were taken"
        + (f", without {lost} resets or pauses, which are gaps." if lost else ".")
    )
    series.take(np.flatnonzero(good))
