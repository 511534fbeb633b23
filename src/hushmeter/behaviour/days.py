"""Days of 24 hours from readings in time: ragged days, days of 23 and of 25 hours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushmeter.checks import FloatArray
from hushmeter.errors import DataError, InputError

HOURS = 24


@dataclass(frozen=True, eq=False)
class Days:
    """Complete days (n, 24) [kWh], whose and when, how many were left out and how many repaired."""

    values: FloatArray
    ids: NDArray[np.str_]
    labels: NDArray[np.str_]
    ragged: int = 0
    repaired: int = 0


def days_of_hours(hours: FloatArray, values: FloatArray, homes: Sequence[Any]) -> Days:
    """Days of an hourly table in order of time, one column per home."""
    if not homes:
        raise DataError("an hourly table needs a column per home beside its calendar columns.")
    last = 24 if hours.size and hours.max() == HOURS else 23
    place = hours - (last - 23)
    if not (np.isin(place, np.arange(HOURS))).all():
        raise DataError("column hour must count 0 to 23, or 1 to 24.")
    first = np.flatnonzero(place == 0)
    first = first[first + HOURS <= place.size]
    rows = first[:, None] + np.arange(HOURS)
    regular = (place[rows] == np.arange(HOURS)).all(axis=1)
    days = values[rows[regular]]
    days = np.moveaxis(days, 2, 0).reshape(-1, HOURS)
    whole_day = np.isfinite(days).all(axis=1)
    count = int(regular.sum())
    ids = np.repeat([str(home) for home in homes], count)
    labels = np.tile(np.arange(count).astype(np.str_), len(homes))
    # A new day begins wherever the clock does not move on.
    started = 1 + int((np.diff(place) <= 0).sum()) if place.size else 0
    ragged = (started - count) * len(homes) + int((~whole_day).sum())
    kept = np.ascontiguousarray(days[whole_day])
    return Days(kept, ids[whole_day], labels[whole_day], ragged)


def days_of_times(ids: Any, times: Any, values: FloatArray, zone: str | None) -> Days:
    """Days of long rows; readings within an hour are summed."""
    import pandas as pd

    clock = _clock(times, zone)
    frame = pd.DataFrame({"id": ids, "day": clock.dt.floor("D"), "hour": clock.dt.hour})
    frame["kwh"] = values
    frame = frame[np.isfinite(values)]
    grouped = frame.groupby(["id", "day", "hour"], sort=True)["kwh"].agg(["sum", "count"])
    energy = grouped["sum"].unstack("hour").reindex(columns=range(HOURS))
    number = grouped["count"].unstack("hour").reindex(columns=range(HOURS)).fillna(0)
    sums = np.array(energy.to_numpy(dtype=np.float64))
    counts = np.array(number.to_numpy(dtype=np.int64))
    if counts.size == 0:
        return Days(np.empty((0, HOURS)), np.empty(0, np.str_), np.empty(0, np.str_))
    usual = int(np.bincount(counts[counts > 0]).argmax())
    owners = energy.index.get_level_values("id").astype(str).to_numpy().astype(np.str_)
    dates = pd.DatetimeIndex(energy.index.get_level_values("day"))
    repaired = np.zeros(len(energy), dtype=bool)
    if zone is not None:
        repaired = _repair(sums, counts, usual, _day_lengths(dates, zone))
    complete = (counts == usual).all(axis=1)
    labels = dates.strftime("%Y-%m-%d").to_numpy().astype(np.str_)
    kept = np.ascontiguousarray(sums[complete])
    lost = int((~complete).sum())
    return Days(kept, owners[complete], labels[complete], lost, int((repaired & complete).sum()))


def _clock(times: Any, zone: str | None) -> Any:
    """Local time of every reading, without a zone."""
    import pandas as pd

    if not pd.api.types.is_datetime64_any_dtype(times):
        times = _parse(times.astype(str), zone)
    if zone is None:
        return times if times.dt.tz is None else times.dt.tz_localize(None)
    if times.dt.tz is None:
        raise InputError("a zone is given, but the times carry none: write them as UTC with a Z.")
    try:
        return times.dt.tz_convert(zone).dt.tz_localize(None)
    except (KeyError, ValueError):
        raise InputError(f"there is no time zone named {zone!r}.") from None


def _parse(text: Any, zone: str | None) -> Any:
    """Text as times: by the clock as written, or as moments where a zone is asked for."""
    import pandas as pd

    offset = r"(?<=:\d\d)(?:\.\d+)?\s*(?:Z|[+-]\d\d(?::?\d\d)?)$"
    try:
        if zone is None:
            return pd.to_datetime(text.str.replace(offset, "", regex=True), format="ISO8601")
        if not text.str.contains(offset, regex=True).all():
            raise InputError(
                "a zone is given, but the times carry none: write them as UTC with a Z."
            )
        return pd.to_datetime(text, format="ISO8601", utc=True)
    except (ValueError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise DataError("the time column must hold ISO 8601 times.") from None


def _day_lengths(dates: Any, zone: str) -> NDArray[np.int64]:
    """Hours of each local day: 23, 24 or 25."""
    import pandas as pd

    starts = dates.tz_localize(zone, ambiguous=True, nonexistent="shift_forward")
    ends = (dates + pd.Timedelta(days=1)).tz_localize(
        zone, ambiguous=True, nonexistent="shift_forward"
    )
    hours: FloatArray = np.asarray((ends - starts) / pd.Timedelta(hours=1), dtype=np.float64)
    return np.rint(hours).astype(np.int64)


def _repair(
    sums: FloatArray, counts: NDArray[np.int64], usual: int, lengths: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Bring days of 23 and 25 hours to 24, in place; says which."""
    repaired = np.zeros(lengths.size, dtype=np.bool_)
    for row in np.flatnonzero(lengths != HOURS):
        odd = np.flatnonzero(counts[row] != usual)
        if odd.size != 1:
            continue
        hour = int(odd[0])
        if lengths[row] == 25 and counts[row, hour] == 2 * usual:
            sums[row, hour] /= 2
        elif lengths[row] == 23 and counts[row, hour] == 0 and 0 < hour < HOURS - 1:
            sums[row, hour] = (sums[row, hour - 1] + sums[row, hour + 1]) / 2
        else:
            continue
        counts[row, hour] = usual
        repaired[row] = True
    return repaired
