"""Fixed windows of time, and the rules for readings that are late, doubled or out of order.

Windows start at whole multiples of their length in UTC, like those of `Trace.coarsen`. A window is
divided into slots of one metered reading each. The rules depend on the times of the readings alone:

* A reading belongs to the slot that contains its time. The order of arrival does not matter.
* If a meter sends at fixed times, the first reading of a slot counts and later ones are ignored.
  If it sends only changes (`hold`), the last reading of a slot counts and its value holds until the
  next one, or until the meter or the connection to it is lost.
* A window closes at a fixed time after its end. Readings that arrive later are ignored.
* A reading whose time is ahead of the clock by more than `AHEAD_S` is ignored.
* A value outside the declared bounds is set to the nearest bound. It is never dropped, because a
  missing reading would be visible.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hushmeter.checks import FloatArray

SECOND = 10**9
"""Nanoseconds per second."""

AHEAD_S = 60
"""Largest time by which the clock of a meter may be ahead of that of this machine [s]."""

GONE = math.inf
"""Mark of a slot in which a meter that sends only changes was lost."""

KEPT, LATE, EARLY, DOUBLE = "kept", "late", "early", "double"
"""What became of a reading."""


@dataclass(frozen=True, eq=False)
class ClosedWindow:
    """A window that takes no more readings.

    Attributes
    ----------
    number : int
        Number of the window since 1970 (UTC).
    readings : array, shape (W,)
        Reading of every slot [W]; NaN where there is none.
    """

    number: int
    readings: FloatArray

    @property
    def share(self) -> float:
        """Share of the slots that have a reading."""
        return float(np.isfinite(self.readings).mean())


class WindowBuffer:
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
    hold : bool
        True if the meter sends only changes of its value.
    """

    def __init__(
        self,
        interval_ns: int,
        slots: int,
        *,
        grace_ns: int = 0,
        bounds: tuple[float, float],
        hold: bool = False,
    ) -> None:
        self._interval, self._slots, self._grace = interval_ns, slots, grace_ns
        self._length = interval_ns * slots
        self._low, self._high = bounds
        self._hold = hold
        self._held = math.nan
        self._open: dict[int, list[float]] = {}
        self.first: int | None = None
        """Number of the first window that is still open; None before the stream begins."""

    def begin(self, number: int) -> None:
        """Make this window the first open one; earlier windows are closed for ever."""
        self.first = number
        self._open = {n: slots for n, slots in self._open.items() if n >= number}

    def number_at(self, moment_ns: int) -> int:
        """Return the number of the window that contains a moment."""
        return moment_ns // self._length

    def add(self, moment_ns: int, watts: float | None, now_ns: int) -> str:
        """Put a reading into its slot.

        Parameters
        ----------
        moment_ns : int
            Time of the reading [ns since 1970].
        watts : float or None
            The reading [W], a finite number; None if the meter reports that it has no value.
        now_ns : int
            Time of the clock [ns since 1970].

        Returns
        -------
        {"kept", "late", "early", "double"}
            What became of it. It depends on the times alone.
        """
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
            if self._hold:
                slots[slot] = GONE
            return KEPT
        if not self._hold and slots[slot] == slots[slot]:
            return DOUBLE
        # A comparison is faster than a call of min and max for every message.
        slots[slot] = (
            self._low if watts < self._low else self._high if watts > self._high else watts
        )
        return KEPT

    def closes_at(self) -> int | None:
        """Time at which the first open window closes [ns since 1970]; None before the stream."""
        if self.first is None:
            return None
        return (self.first + 1) * self._length + self._grace

    def close(self, now_ns: int) -> Iterator[ClosedWindow]:
        """Yield every window that is due, in the order of time, also those without readings.

        Parameters
        ----------
        now_ns : int
            Time of the clock [ns since 1970].

        Yields
        ------
        ClosedWindow
        """
        while self.first is not None and (self.first + 1) * self._length + self._grace <= now_ns:
            number = self.first
            readings = np.array(self._open.pop(number, [math.nan] * self._slots))
            if self._hold:
                readings = self._fill(readings)
            self.first = number + 1
            yield ClosedWindow(number, readings)

    def _fill(self, readings: FloatArray) -> FloatArray:
        """Let every value hold until the next one, and keep the last one for the next window."""
        known = np.append(self._held, readings)
        last = np.maximum.accumulate(np.where(np.isnan(known), 0, np.arange(known.size)))
        filled = known[last]
        self._held = float(filled[-1])
        return np.where(np.isfinite(filled[1:]), filled[1:], math.nan)

    def filled_until(self) -> int:
        """End of the last open slot that has a reading [ns since 1970]; 0 if there is none."""
        ends = [
            number * self._length + (place + 1) * self._interval
            for number, slots in self._open.items()
            for place, value in enumerate(slots)
            if value == value
        ]
        return max(ends, default=0)

    def to_bytes(self) -> bytes:
        """Return the open windows as bytes, for `restore`."""
        numbers = sorted(self._open)
        stream = io.BytesIO()
        np.savez(
            stream,
            first=np.array([] if self.first is None else [self.first], dtype=np.int64),
            held=np.array([self._held]),
            numbers=np.array(numbers, dtype=np.int64),
            slots=np.array([self._open[n] for n in numbers]).reshape(len(numbers), self._slots),
        )
        return stream.getvalue()

    def restore(self, content: bytes) -> None:
        """Take over open windows from `to_bytes`, except for those before the first open one."""
        with np.load(io.BytesIO(content), allow_pickle=False) as saved:
            numbers, slots = saved["numbers"].tolist(), saved["slots"].tolist()
            self._held = float(saved["held"][0])
            begun = saved["first"].tolist()
        self._open = dict(zip(numbers, slots, strict=True))
        if self.first is None:
            self.first = begun[0] if begun else None
        elif begun and begun[0] < self.first:
            # Windows were closed after these bytes were written.
            self._held = math.nan
        if self.first is not None:
            self.begin(self.first)
