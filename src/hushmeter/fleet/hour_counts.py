"""How many hours of the clock of a zone a stretch of readings can touch (`clock.clock_hours`).

In zones such as Asia/Kolkata an hour of the clock lies in two UTC days.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hushmeter.checks import BoolArray, IntArray
from hushmeter.clock import DAY, clock_hours, transitions
from hushmeter.trace import SECONDS_PER_HOUR, TimeArray

ALL_DAYS = ("1970-01-02", "2199-12-30")
"""First and last UTC day whose changes of the clock are searched, unless a period is stated."""


@dataclass(frozen=True)
class HourCounts:
    """What consecutive readings can touch at most, wherever they begin.

    `windows` hours of the clock, `window_squares` = Σ n_h² if n_h of them show the hour h of the
    day, `reading_squares` = Σ r_h² if r_h readings begin in that hour, the largest r_h, and the
    number of hours of the day.
    """

    windows: int
    window_squares: int
    reading_squares: int
    most_readings: int
    hours: int

    def __or__(self, other: HourCounts) -> HourCounts:
        """Return the larger of each number."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return HourCounts(*(max(pair) for pair in pairs))


@lru_cache(maxsize=32)
def count_hours(
    readings: int, interval_s: int, tz: str | None, period: tuple[str, str] | None = None
) -> HourCounts:
    """Find the most that `readings` readings in a row can touch, by trying all of their places.

    A reading lasts `interval_s` [s], which divides an hour; `period` has the first and the last UTC
    day of the readings, which are any days by default.
    """
    zone = tz or "UTC"
    first, last = np.array(period or ALL_DAYS, "datetime64[D]").astype("datetime64[s]")
    reach = readings * interval_s + 2 * SECONDS_PER_HOUR
    found, seen = HourCounts(0, 0, 0, 0, 0), set()
    # All moments far from a change of the clock are alike.
    for moment in (first, *transitions(first, last + DAY, zone)):
        middle = int(moment.astype(np.int64)) // interval_s * interval_s
        seconds = np.arange(middle - reach // interval_s * interval_s, middle + reach, interval_s)
        starts, hours = clock_hours(seconds.astype("datetime64[s]"), zone)
        begins = _differs_from_last(starts)
        # The same change of the clock comes every year.
        key = np.packbits(begins).tobytes() + hours.astype(np.int8).tobytes()
        if key not in seen:
            seen.add(key)
            found |= _most(begins, hours, readings)
    return found


def _most(begins: BoolArray, hours: IntArray, readings: int) -> HourCounts:
    """Return the most that `readings` consecutive rows can touch."""
    last = np.arange(readings - 1, hours.size)
    first = last - readings + 1
    sums = np.zeros((3, last.size), np.int64)
    most, labels = 0, np.zeros(last.size, np.int64)
    for hour in range(24):
        shown = hours == hour
        rows = np.concatenate([[0], np.cumsum(shown)])
        count = rows[last + 1] - rows[first]
        # The first row belongs to a window even if it does not begin it.
        windows = np.concatenate([[0], np.cumsum(shown & begins)])
        touched = windows[last + 1] - windows[first] + (shown & ~begins)[first]
        sums += np.stack([touched, touched**2, count**2])
        most, labels = max(most, int(count.max())), labels + (count > 0)
    windows_, window_squares, reading_squares = sums.max(axis=1).tolist()
    return HourCounts(windows_, window_squares, reading_squares, most, int(labels.max()))


@lru_cache(maxsize=8)
def hours_of_period(first: str, last: str, tz: str | None, interval_s: int) -> tuple[int, ...]:
    """Count the hours of the clock with a reading in a period of UTC days, by hour of the day."""
    start, stop = np.datetime64(first, "s"), np.datetime64(last, "D") + DAY
    moments = np.arange(start, stop, np.timedelta64(interval_s, "s"))
    starts, hours = clock_hours(moments, tz or "UTC")
    counts = np.bincount(hours[_differs_from_last(starts)], minlength=24)
    return tuple(counts.tolist())


def _differs_from_last(starts: TimeArray) -> BoolArray:
    """True at the first row, and where an hour of the clock is not that of the row before."""
    return np.append(True, starts[1:] != starts[:-1])
