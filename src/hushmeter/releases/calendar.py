"""Civil days of a time zone: which released values belong to which day.

Days matter in two releases: the span "when" publishes the exact sum of every complete day, and a
calendar release publishes a table of days. A civil day has 23, 24 or 25 hours. The times of a trace
are public, and so is everything here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.checks import BoolArray, IntArray
from hushmeter.read.options import check_zone

if TYPE_CHECKING:
    from hushmeter.trace import TimeArray, Trace

DAY = np.timedelta64(1, "D")


@dataclass(frozen=True, eq=False)
class CivilDays:
    """The civil days of a series of values.

    Attributes
    ----------
    zone : str
        Time zone of the days.
    local : array of datetime64[ns], shape (T,)
        Local time at which every value starts.
    days : array of datetime64[D], shape (D,)
        The days in which a value starts, in ascending order.
    place : array of int, shape (T,)
        Number of the day of every value.
    complete : array of bool, shape (D,)
        True where the values of a day cover it from midnight to midnight.
    """

    zone: str
    local: TimeArray
    days: TimeArray
    place: IntArray
    complete: BoolArray


def civil_days(trace: Trace, zone: str) -> CivilDays:
    """Find the civil day of every reading of a trace.

    Parameters
    ----------
    trace : Trace
    zone : str
        Time zone, such as "UTC" or "Europe/Berlin".

    Returns
    -------
    CivilDays

    Raises
    ------
    InputError
        If the zone is unknown.
    """
    length = np.timedelta64(round(trace.interval_s * 1e9), "ns")
    local = local_times(trace.times, zone)
    ends = local_times(trace.times + length, zone)
    days, first, place = np.unique(
        local.astype("datetime64[D]"), return_index=True, return_inverse=True
    )
    last = np.append(first[1:], len(trace)) - 1
    midnight = days.astype("datetime64[ns]")
    bounds = (local[first] == midnight) & (ends[last] == midnight + DAY)
    covered = trace.times[last] + length - trace.times[first] == length * (last - first + 1)
    return CivilDays(zone, local, days, place.astype(np.int64), bounds & covered)


def local_times(times: TimeArray, zone: str) -> TimeArray:
    """Convert UTC times to the local times of a zone.

    Parameters
    ----------
    times : array of datetime64[ns]
        UTC.
    zone : str
        Time zone.

    Returns
    -------
    array of datetime64[ns]

    Raises
    ------
    InputError
        If the zone is unknown.
    """
    check_zone(zone)
    if zone.upper() == "UTC":
        return times
    import pyarrow as pa
    import pyarrow.compute as pc

    aware = pa.array(times).cast(pa.timestamp("ns", tz=zone))
    return np.asarray(pc.local_timestamp(aware).to_numpy(zero_copy_only=False))
