"""Civil days, hours of the clock, time zones and changes of the clock.

Times are arrays of datetime64, in UTC or on the clock of a zone; both keep the unit of what they
were made of, or seconds if that is coarser. A change of the clock skips some local times and shows
others twice. A time that is shown twice means its first pass, unless the second is asked for. A
time that is skipped counts as if the clock had not been changed yet: 02:30 on a morning that goes
from 02:00 to 03:00 is the moment that the clock shows as 03:30. These are the rules of `datetime`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.checks import BoolArray, IntArray
from hushmeter.errors import InputError
from hushmeter.trace import SECONDS_PER_DAY, TimeArray

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

SECOND = 1_000_000_000
"""Nanoseconds in a second."""
DAY = np.timedelta64(1, "D")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, eq=False)
class CivilDays:
    """The civil days of a series of values, and which of them the values cover completely.

    `local` is the local time at which every value starts, and `place` the number of its day among
    `days`, which ascend.
    """

    zone: str
    local: TimeArray
    days: TimeArray
    place: IntArray
    complete: BoolArray


def check_zone(name: str) -> str:
    """Return `name` if it is a time zone of the IANA data base, else raise `InputError`."""
    _zone(name)
    return name


def is_utc(zone: str) -> bool:
    """True if a name means UTC, whose clock is never changed."""
    return zone.upper() in ("UTC", "GMT", "ETC/UTC")


def utc_offsets(times: TimeArray, zone: str) -> IntArray:
    """Return how far the clock of a zone is ahead of UTC at UTC times [s]."""
    changes = _changes_around(times, zone)
    return changes.offsets[changes.place(times)]


def longest_cell_s(zone: str, times: TimeArray | None = None) -> int:
    """Return the longest cell, up to an hour, with which every day of a zone can begin [s].

    Cells start at whole multiples of their length in UTC; 1800 s where the clock differs from UTC
    by half hours at the times, or in 2024.
    """
    if times is None:
        times = np.arange("2024-01", "2025-01", dtype="datetime64[M]").astype("datetime64[s]")
    return math.gcd(3600, *np.unique(utc_offsets(times, zone)).tolist())


def local_times(times: TimeArray, zone: str) -> TimeArray:
    """Return what the clock of a zone shows at UTC times."""
    if is_utc(zone):
        return times
    changes = _changes_around(times, zone)
    offsets = changes.offsets.astype("timedelta64[s]")
    local: TimeArray = times + (offsets[0] if offsets.size == 1 else offsets[changes.place(times)])
    return local


def utc_times(local: TimeArray, zone: str, *, second: bool = False) -> TimeArray:
    """Return the UTC times of local times: their first or their second pass."""
    if is_utc(zone):
        return local
    changes = _changes_around(local, zone)
    first, last = changes.passes(local)
    place = last if second else np.minimum(first, last)
    utc: TimeArray = local - changes.offsets.astype("timedelta64[s]")[place]
    return utc


def times_shown(local: TimeArray, zone: str) -> IntArray:
    """Return how often the clock of a zone shows each local time: 0, 1 or 2 times."""
    first, last = _changes_around(local, zone).passes(local)
    shown: IntArray = last - first + 1
    return shown


def changes_clock(starts: TimeArray, ends: TimeArray, zone: str) -> BoolArray:
    """True where the clock has another distance to UTC at the end than at the start (both UTC)."""
    changed: BoolArray = utc_offsets(starts, zone) != utc_offsets(ends, zone)
    return changed


def transitions(start: np.datetime64, stop: np.datetime64, zone: str) -> TimeArray:
    """Return the changes of the clock from `start` to before `stop`, UTC, datetime64[s]."""
    changes = _changes_around(np.array([start, stop]), zone)
    moments: TimeArray = changes.starts[1:].astype("datetime64[s]")
    return moments[(moments >= start) & (moments < stop)]


def civil_days(times: TimeArray, interval_s: float, zone: str) -> CivilDays:
    """Find the civil day of every value: ascending UTC starts, and the length of a value [s]."""
    length = np.timedelta64(round(interval_s * SECOND), "ns")
    local = local_times(times, zone)
    days, first, place = np.unique(
        local.astype("datetime64[D]"), return_index=True, return_inverse=True
    )
    last = np.append(first[1:], times.size) - 1
    starts, stops = day_bounds(days, zone)
    bounds = (times[first] == starts) & (times[last] + length == stops)
    # A clock that goes back over midnight shows a day in two parts, which is not complete.
    covered = stops - starts == length * np.bincount(place)
    return CivilDays(zone, local, days, place.astype(np.int64), bounds & covered)


def day_bounds(days: TimeArray, zone: str) -> tuple[TimeArray, TimeArray]:
    """Return when civil days begin and end, UTC, datetime64[s]; a day has 23, 24 or 25 hours.

    A day begins when the clock first shows its midnight or, where midnight is skipped, with the
    change of the clock.
    """
    midnights = days.astype("datetime64[D]")
    first, next_first = (m.astype("datetime64[s]") for m in (midnights, midnights + DAY))
    return utc_times(first, zone), utc_times(next_first, zone)


def clock_hours(times: TimeArray, zone: str) -> tuple[TimeArray, IntArray]:
    """Return when the hours of the clock at UTC times began (UTC), and the hours of the day.

    In an hour of the clock it shows one hour of the day without a change; a change can cut it, as
    on Lord Howe Island, where the clock goes back by 30 minutes.
    """
    changes = _changes_around(times, zone)
    place = changes.place(times)
    offsets = changes.offsets.astype("timedelta64[s]")[place]
    local = times + offsets
    begun = local.astype("datetime64[h]") - offsets
    return np.maximum(begun, changes.starts.astype("datetime64[s]")[place]), hour_of_day(local)


def hour_of_day(local: TimeArray) -> IntArray:
    """Return the hour of the day of local times, 0 to 23."""
    hours: IntArray = local.astype("datetime64[h]").astype(np.int64) % 24
    return hours


def weekday(local: TimeArray) -> IntArray:
    """Return the day of the week of local times, from 0 for Monday to 6 for Sunday."""
    # The first of January 1970 was a Thursday.
    days: IntArray = (local.astype("datetime64[D]").astype(np.int64) + 3) % 7
    return days


def day_of(moment_ns: int, zone: str) -> str:
    """Return the civil day of one moment [ns since 1970], such as "2024-03-01"."""
    moment = datetime.fromtimestamp(moment_ns // SECOND, _zone(zone))
    return moment.date().isoformat()


def in_zone(moment: datetime, zone: str) -> datetime:
    """Return one local time with its zone; a time that states its own stays as it is."""
    return moment.replace(tzinfo=_zone(zone)) if moment.tzinfo is None else moment


@dataclass(frozen=True, eq=False)
class _Changes:
    """Moments at which the distance of a clock to UTC changes [UTC s], and the distances [s].

    The first moment is the beginning of the table.
    """

    starts: IntArray
    offsets: IntArray

    def place(self, times: TimeArray) -> IntArray:
        """Return the number of the distance that holds at UTC times."""
        starts = self.starts[1:].astype("datetime64[s]")
        place: IntArray = np.searchsorted(starts, times, side="right")
        return place

    def passes(self, local: TimeArray) -> tuple[IntArray, IntArray]:
        """Return the numbers of the distances in the first and the last pass of local times.

        The last comes before the first where a time is skipped.
        """
        ends = (self.starts[1:] + self.offsets[:-1]).astype("datetime64[s]")
        begins = (self.starts[1:] + self.offsets[1:]).astype("datetime64[s]")
        first: IntArray = np.searchsorted(ends, local, side="right")
        last: IntArray = np.searchsorted(begins, local, side="right")
        return first, last


_NO_CHANGES = _Changes(np.array([-9_000_000_000]), np.array([0]))


def _changes_around(times: TimeArray, zone: str) -> _Changes:
    """Return the changes of the clock near times, which are UTC or local."""
    if times.size == 0 or is_utc(zone):
        return _NO_CHANGES
    span = np.array([times.min() - 2 * DAY, times.max() + 2 * DAY])
    first, last = (span.astype("datetime64[Y]").astype(np.int64) + 1970).tolist()
    return _changes_of_years(first, last, zone)


@lru_cache(maxsize=64)
def _changes_of_years(first: int, last: int, zone: str) -> _Changes:
    """Return the changes of the clock in UTC years, of which `last` is the last."""
    place = _zone(zone)
    starts = [round((datetime(first, 1, 1, tzinfo=UTC) - _EPOCH).total_seconds())]
    offsets = [_offset(starts[0], place)]
    for year in range(first, last + 1):
        for moment, offset in _changes_of_year(year, zone):
            starts.append(moment)
            offsets.append(offset)
    return _Changes(np.array(starts), np.array(offsets))


@lru_cache(maxsize=4096)
def _changes_of_year(year: int, zone: str) -> tuple[tuple[int, int], ...]:
    """Return each change of the clock in a UTC year [s], and the distance after it [s].

    No zone has had two changes within three days since 1970.
    """
    place = _zone(zone)
    first = datetime(year, 1, 1, tzinfo=UTC)
    length = datetime(year + 1, 1, 1, tzinfo=UTC) - first
    moments = [
        round((first - _EPOCH).total_seconds()) + day * SECONDS_PER_DAY
        for day in range(length.days + 1)
    ]
    changes = []
    for low, high in pairwise(moments):
        before, after = _offset(low, place), _offset(high, place)
        while before != after and high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _offset(middle, place) == before else (low, middle)
        if before != after:
            changes.append((high, after))
    return tuple(changes)


def _offset(second: int, place: ZoneInfo) -> int:
    """Return how far a clock is ahead of UTC [s] at one moment [s since 1970]."""
    ahead = (_EPOCH + timedelta(seconds=second)).astimezone(place).utcoffset()
    return 0 if ahead is None else round(ahead.total_seconds())


def _zone(name: str) -> ZoneInfo:
    """Return a time zone; raise `InputError` if it is unknown."""
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InputError(
            f"tz must be a time zone such as UTC or Europe/London, got {name!r}."
        ) from None
