"""Hours of the clock of a zone, and how many of them a stretch of readings can touch.

An hour of the clock is a stretch of time in which the clock shows one hour of the day without a
change. It usually lasts 3600 s. A change of the clock can cut it: on Lord Howe Island the clock
goes back by 30 minutes, so that one hour of the day is shown for 60 and then for 30 more minutes.
In zones such as Asia/Kolkata an hour of the clock lies in two UTC days.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np

from hushmeter.checks import IntArray
from hushmeter.trace import SECONDS_PER_DAY

HOUR_S = 3600
QUARTER_S = 900
"""Clocks of different zones differ by whole multiples of this time [s]."""

ALL_DAYS = ("1970-01-02", "2199-12-30")
"""First and last UTC day whose changes of the clock are searched, unless a period is stated."""


@dataclass(frozen=True)
class HourCounts:
    """What consecutive readings can touch at most, wherever they begin.

    Attributes
    ----------
    windows : int
        Hours of the clock.
    window_squares : int
        Σ n_h², where n_h hours of the clock show the hour h of the day.
    reading_squares : int
        Σ r_h², where r_h readings begin in the hour h of the day.
    most_readings : int
        Largest r_h.
    hours : int
        Hours of the day, at most 24.
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


def local_hours(seconds: IntArray, tz: str | None) -> tuple[IntArray, IntArray]:
    """Return the hours of the clock in which moments are.

    Parameters
    ----------
    seconds : array
        Moments, UTC [s].
    tz : str or None
        Time zone; UTC if None.

    Returns
    -------
    starts : array
        When the hour began, UTC [s]; different for every hour of the clock.
    hours : array
        The hour of the day, 0 to 23.
    """
    if tz is None:
        return seconds // HOUR_S * HOUR_S, seconds // HOUR_S % 24
    found, places = np.unique(seconds // QUARTER_S, return_inverse=True)
    zone, starts, hours = ZoneInfo(tz), [], []
    for quarter in found.tolist():
        moment = datetime.fromtimestamp(quarter * QUARTER_S, zone)
        start = quarter * QUARTER_S - moment.minute * 60 - moment.second
        # Where the clock changed within the hour, the hour began with the change.
        while datetime.fromtimestamp(start, zone).utcoffset() != moment.utcoffset():
            start += QUARTER_S
        starts.append(start)
        hours.append(moment.hour)
    return np.array(starts)[places], np.array(hours)[places]


@lru_cache(maxsize=32)
def count_hours(
    readings: int, interval_s: int, tz: str | None, period: tuple[str, str] | None = None
) -> HourCounts:
    """Find the most that consecutive readings can touch, by trying all of their places.

    Parameters
    ----------
    readings : int
        Number of consecutive readings.
    interval_s : int
        Length of a reading [s], which divides an hour.
    tz : str or None
        Time zone; UTC if None.
    period : (str, str), optional
        First and last UTC day of the readings; by default any.

    Returns
    -------
    HourCounts
    """
    reach = readings * interval_s + 2 * HOUR_S
    found, seen = HourCounts(0, 0, 0, 0, 0), set()
    for moment in _moments(tz, period or ALL_DAYS):
        middle = moment // interval_s * interval_s
        seconds = np.arange(middle - reach // interval_s * interval_s, middle + reach, interval_s)
        starts, hours = local_hours(seconds, tz)
        begins = np.diff(starts, prepend=starts[0] - 1) != 0
        # The same change of the clock comes every year.
        key = np.packbits(begins).tobytes() + hours.astype(np.int8).tobytes()
        if key not in seen:
            seen.add(key)
            found |= _most(begins, hours, readings)
    return found


def _moments(tz: str | None, period: tuple[str, str]) -> Iterator[int]:
    """Yield the first moment of a period, and all changes of the clock in it, UTC [s]."""
    first, last = (int(datetime.fromisoformat(f"{day}T00:00Z").timestamp()) for day in period)
    yield first
    if tz is None:
        return
    zone = ZoneInfo(tz)

    def offset(second: int) -> timedelta | None:
        return datetime.fromtimestamp(second, zone).utcoffset()

    for start, end in pairwise(range(first, last + 2 * SECONDS_PER_DAY, SECONDS_PER_DAY)):
        if offset(start) == offset(end):
            continue
        low, high = start, end
        while high - low > QUARTER_S:
            middle = (low + high) // 2 // QUARTER_S * QUARTER_S
            low, high = (middle, high) if offset(middle) == offset(start) else (low, middle)
        yield high


def _most(begins: np.ndarray, hours: IntArray, readings: int) -> HourCounts:
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
    """Count the hours of the clock with a reading in a period of UTC days, by hour of the day.

    Parameters
    ----------
    first, last : str
        First and last UTC day.
    tz : str or None
        Time zone of the hours of the day; UTC if None.
    interval_s : int
        Length of a reading [s].

    Returns
    -------
    tuple of int
        24 numbers.
    """
    start = datetime.combine(date.fromisoformat(first), datetime.min.time(), UTC)
    days = (date.fromisoformat(last) - date.fromisoformat(first)).days + 1
    moments = np.arange(0, days * SECONDS_PER_DAY, interval_s) + int(start.timestamp())
    starts, hours = local_hours(moments, tz)
    begun = np.flatnonzero(np.diff(starts, prepend=starts[0] - 1))
    counts = Counter(hours[begun].tolist())
    return tuple(counts[hour] for hour in range(24))
