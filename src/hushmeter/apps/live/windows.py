"""Fixed windows of time, and the rules for readings that are late, doubled or out of order.

Windows start at whole multiples of their length in UTC, like those of `Trace.coarsen`. A window is
divided into slots of one metered reading each. It closes at a fixed time after its end, whatever it
contains, and messages that arrive later are ignored. A value outside the declared bounds is set to
the nearest bound; it is never dropped, because a missing reading would be visible. A reading whose
time is ahead of the clock by more than `AHEAD_S` is ignored.

*A meter that sends at fixed times* (`WindowBuffer`). The times of its messages are public. A
reading belongs to the slot that contains its time, whatever the order of arrival. The first reading
of a slot counts for the whole slot, and later ones are ignored.

*A meter that sends only changes* (`ChangeBuffer`). The times of its messages depend on its values,
so nothing that is published may follow from them. What is public is when the meter was connected.
Its value is a step function of time, and a slot has the mean of this function over its length. A
slot is present if the meter was connected during all of it, whether or not a message came.
"""

from __future__ import annotations

import io
import math
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hushmeter.checks import FloatArray
from hushmeter.clock import SECOND

AHEAD_S = 60
"""Largest time by which the clock of a meter may be ahead of that of this machine [s]."""

KEPT, LATE, EARLY, DOUBLE = "kept", "late", "early", "double"
"""What became of a reading."""


@dataclass(frozen=True, eq=False)
class ClosedWindow:
    """A window that takes no more readings: its number since 1970 (UTC), and its slots [W].

    A slot without a reading is NaN.
    """

    number: int
    readings: FloatArray

    @property
    def share(self) -> float:
        """Share of the slots that have a reading."""
        return float(np.isfinite(self.readings).mean())


class Buffer(ABC):
    """The readings of the windows that are still open.

    Parameters
    ----------
    interval_ns : int
        Length of a slot [ns].
    slots : int
        Slots of a window.
    grace_ns : int
        Time from the end of a window until it closes [ns].
    bounds : (float, float)
        Declared bounds of a reading [W].
    """

    def __init__(
        self, interval_ns: int, slots: int, *, grace_ns: int = 0, bounds: tuple[float, float]
    ) -> None:
        self._interval, self._slots, self._grace = interval_ns, slots, grace_ns
        self._length = interval_ns * slots
        self._low, self._high = bounds
        self.first: int | None = None
        """Number of the first window that is still open; None before the stream begins."""
        self._clear()

    @abstractmethod
    def _clear(self) -> None:
        """Begin without readings."""

    def begin(self, number: int) -> None:
        """Make this window the first open one; earlier windows are closed for ever."""
        self.first = number

    def number_at(self, moment_ns: int) -> int:
        """Return the number of the window that contains a moment."""
        return moment_ns // self._length

    @abstractmethod
    def add(self, moment_ns: int, watts: float | None, now_ns: int) -> str:
        """Take a reading, and return what became of it; this depends on the times alone.

        `moment_ns` is the time of the reading and `now_ns` that of the clock [ns since 1970].
        `watts` is a finite number [W], or None if the meter reports that it has no value.
        """

    def closes_at(self) -> int | None:
        """Time at which the first open window closes [ns since 1970]; None before the stream."""
        if self.first is None:
            return None
        return (self.first + 1) * self._length + self._grace

    def close(self, now_ns: int) -> Iterator[ClosedWindow]:
        """Yield every window that is due [ns since 1970], in their order, also empty ones."""
        while (due := self.closes_at()) is not None and due <= now_ns:
            assert self.first is not None
            number = self.first
            readings = self._take(number)
            self.first = number + 1
            yield ClosedWindow(number, readings)

    @abstractmethod
    def _take(self, number: int) -> FloatArray:
        """Remove the first open window, and return its slots [W]."""

    def to_bytes(self) -> bytes:
        """Return the open windows as bytes, for `restore`."""
        stream = io.BytesIO()
        begun = np.array([] if self.first is None else [self.first], dtype=np.int64)
        np.savez(stream, first=begun, **self._arrays())
        return stream.getvalue()

    def restore(self, content: bytes) -> None:
        """Take over open windows from `to_bytes`, except for those before the first open one."""
        with np.load(io.BytesIO(content), allow_pickle=False) as saved:
            self._take_over(saved)
            begun = saved["first"].tolist()
        if self.first is None and begun:
            self.first = begun[0]
        if self.first is not None:
            self.begin(self.first)

    @abstractmethod
    def _arrays(self) -> dict[str, Any]:
        """The open windows as arrays."""

    @abstractmethod
    def _take_over(self, saved: Mapping[str, Any]) -> None:
        """Take over open windows from `_arrays`."""

    def _within(self, watts: float) -> float:
        """Return a value set to the nearest bound [W]."""
        # A comparison is faster than a call of min and max for every message.
        return self._low if watts < self._low else self._high if watts > self._high else watts


class WindowBuffer(Buffer):
    """Windows of a meter that sends at fixed times; the parameters are those of `Buffer`."""

    def _clear(self) -> None:
        self._open: dict[int, list[float]] = {}

    def begin(self, number: int) -> None:
        """Make this window the first open one; earlier windows are closed for ever."""
        super().begin(number)
        self._open = {n: slots for n, slots in self._open.items() if n >= number}

    def add(self, moment_ns: int, watts: float | None, now_ns: int) -> str:
        """Put a reading into its slot; see `Buffer.add`."""
        if moment_ns > now_ns + AHEAD_S * SECOND:
            return EARLY
        number = moment_ns // self._length
        if self.first is None:
            self.first = number
        elif number < self.first:
            return LATE
        slots = self._open.get(number)
        if slots is None:
            slots = self._open[number] = [math.nan] * self._slots
        slot = (moment_ns - number * self._length) // self._interval
        if watts is None:
            return KEPT
        if slots[slot] == slots[slot]:
            return DOUBLE
        slots[slot] = self._within(watts)
        return KEPT

    def _take(self, number: int) -> FloatArray:
        return np.array(self._open.pop(number, [math.nan] * self._slots))

    def _arrays(self) -> dict[str, Any]:
        numbers = sorted(self._open)
        slots = np.array([self._open[n] for n in numbers]).reshape(len(numbers), self._slots)
        return {"numbers": np.array(numbers, dtype=np.int64), "slots": slots}

    def _take_over(self, saved: Mapping[str, Any]) -> None:
        self._open = dict(zip(saved["numbers"].tolist(), saved["slots"].tolist(), strict=True))


class ChangeBuffer(Buffer):
    """Windows of a meter that sends only changes; the parameters are those of `Buffer`.

    A value that nobody knows counts as 0 W. `mark` says when the meter was connected.
    """

    def _clear(self) -> None:
        self._times: list[int] = []
        self._values: list[float] = []
        self._held, self._held_at = self._within(0.0), 0
        self._mark_times: list[int] = []
        self._marks: list[bool] = []
        self._connected = False

    def add(self, moment_ns: int, watts: float | None, now_ns: int) -> str:
        """Let a value hold from its moment on; see `Buffer.add`."""
        if moment_ns > now_ns + AHEAD_S * SECOND:
            return EARLY
        if self.first is None:
            self.first = moment_ns // self._length
        value = self._within(0.0 if watts is None else watts)
        if moment_ns < self.first * self._length:
            # Its window has closed, but the value may hold until now.
            if moment_ns >= self._held_at:
                self._held, self._held_at = value, moment_ns
            return LATE
        place = bisect_right(self._times, moment_ns)
        self._times.insert(place, moment_ns)
        self._values.insert(place, value)
        return KEPT

    def mark(self, moment_ns: int, *, connected: bool) -> None:
        """Take the news that the meter is, or is not, connected from a moment on [ns since 1970].

        It replaces what was said before about later moments.
        """
        place = bisect_left(self._mark_times, moment_ns)
        del self._mark_times[place:], self._marks[place:]
        if self.first is not None and moment_ns <= self.first * self._length:
            self._connected = connected
            return
        self._mark_times.append(moment_ns)
        self._marks.append(connected)

    def _take(self, number: int) -> FloatArray:
        start, end = number * self._length, (number + 1) * self._length
        values = self._means(start, self._times, self._values, self._held)
        away = [float(not mark) for mark in self._marks]
        lost = self._means(start, self._mark_times, away, float(not self._connected))
        past, marks = bisect_left(self._times, end), bisect_right(self._mark_times, end)
        if past:
            self._held, self._held_at = self._values[past - 1], self._times[past - 1]
        if marks:
            self._connected = self._marks[marks - 1]
        del self._times[:past], self._values[:past], self._mark_times[:marks], self._marks[:marks]
        return np.where(lost > 0, math.nan, values)

    def _means(
        self, start: int, times: list[int], values: list[float], before: float
    ) -> FloatArray:
        """Return the mean of a step function over every slot of the window that starts at a time.

        `before` is its value before the first of the times.
        """
        edges = start + self._interval * np.arange(self._slots + 1, dtype=np.int64)
        steps = np.array(times, dtype=np.int64)
        inside = steps[(steps > edges[0]) & (steps < edges[-1])]
        ends = np.unique(np.concatenate([edges, inside]))
        holds = np.array([before, *values])[np.searchsorted(steps, ends[:-1], side="right")]
        parts = holds * (np.diff(ends) / self._interval)
        means: FloatArray = np.add.reduceat(parts, np.searchsorted(ends, edges[:-1]))
        return means

    def _arrays(self) -> dict[str, Any]:
        return {
            "times": np.array([self._held_at, *self._times], dtype=np.int64),
            "values": np.array([self._held, *self._values]),
            "mark_times": np.array(self._mark_times, dtype=np.int64),
            "marks": np.array([self._connected, *self._marks]),
        }

    def _take_over(self, saved: Mapping[str, Any]) -> None:
        self._held_at, *self._times = saved["times"].tolist()
        self._held, *self._values = saved["values"].tolist()
        self._mark_times = saved["mark_times"].tolist()
        self._connected, *self._marks = saved["marks"].tolist()
