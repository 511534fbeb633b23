"""What a reader hands on: raw series on the way in, a `Recording` on the way out."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hushmeter.checks import FloatArray, IntArray
from hushmeter.trace import Trace


@dataclass
class Series:
    """Readings as a file holds them, before they are put on a grid.

    Attributes
    ----------
    times : IntArray
        Interval starts (or ends, see `stamp`), nanoseconds since 1970, UTC.
    values : FloatArray
        In the file's unit.
    format, unit : str
    factor : float
        Watts, or watt-hours, in one unit.
    energy : bool
        Whether values are energy per interval.
    names, power
        Appliances and their values in the same unit, shape (T, N).
    durations : FloatArray, optional
        Length of each interval [s], where the file gives it.
    interval_s : float, optional
        Declared length of every interval [s].
    stamp : {"start", "end"}
    register : bool or None
        Whether energies are what a meter that counts up shows; None: its values tell.
    lenient : bool
        Sort reversed times and keep the last of repeated ones, instead of refusing.
    found : int
        Readings in the file, before any were left out; by default all of `times`.
    clock_changes : str
        What was done about local time.
    notes : list of str
    """

    times: IntArray
    values: FloatArray
    format: str
    unit: str = "W"
    factor: float = 1.0
    energy: bool = False
    names: tuple[str, ...] = ()
    power: FloatArray | None = None
    durations: FloatArray | None = None
    interval_s: float | None = None
    stamp: str = "start"
    register: bool | None = False
    lenient: bool = False
    found: int | None = None
    clock_changes: str = "times are UTC or carry their offset"
    notes: list[str] = field(default_factory=list)

    def take(self, rows: IntArray | slice) -> None:
        """Keep only these rows, in this order."""
        self.times, self.values = self.times[rows], self.values[rows]
        if self.power is not None:
            self.power = self.power[rows]
        if self.durations is not None:
            self.durations = self.durations[rows]


@dataclass(frozen=True)
class Recording:
    """A trace with what was found on the way to it.

    Attributes
    ----------
    trace : Trace
        Watts, UTC, interval starts.
    format, unit : str
        As found in the file.
    readings : int
        Readings in the file, repeated ones included.
    duplicates : int
        Repeated interval starts; the last reading of each is kept.
    reversed : int
        Readings earlier than the one before.
    clock_changes : str
    mains : str
        "metered", or "sum of sub-meters" where the file has no aggregate.
    notes : tuple of str
        What else was seen, one sentence each.
    """

    trace: Trace
    format: str
    unit: str
    readings: int
    duplicates: int
    reversed: int
    clock_changes: str
    notes: tuple[str, ...]
    mains: str = "metered"

    @property
    def gaps(self) -> int:
        """How many times readings are missing."""
        return len(self.trace.runs) - 1

    @property
    def gap_seconds(self) -> FloatArray:
        """Length of every gap [s]."""
        if self.trace.steps is None:
            return np.zeros(0)
        missing = np.diff(self.trace.steps) - 1
        lengths: FloatArray = missing[missing > 0] * self.trace.interval_s
        return lengths
