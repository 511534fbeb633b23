"""Daily load profiles from a table, and synthetic ones.

Three layouts are recognised by their columns: wide rows of 24 values; long rows of identifier, time
and kWh; and hourly tables with a column `hour` and one column per home.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushmeter.checks import FloatArray, one_of, positive, whole
from hushmeter.errors import DataError, InputError
from hushmeter.read.table import read_columns

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


TIMES = ("time", "timestamp", "datetime", "date_time", "start", "interval_start")
IDS = ("id", "home", "house", "household", "meter", "dataid", "customer", "user", "day", "date")
ENERGIES = {"kwh": 1.0, "energy_kwh": 1.0, "energy": 1.0, "consumption": 1.0, "use": 1.0,
            "value": 1.0, "wh": 1e-3, "energy_wh": 1e-3}  # fmt: skip
CALENDAR = ("hour", "month", "day", "date", "year", "day_type", "weekday")
MISSING = ("refuse", "drop")


@dataclass(frozen=True, eq=False)
class Profiles:
    """Daily load profiles.

    Attributes
    ----------
    values : (n, 24) [kWh]
    ids, days : (n,) str
        Whose profile it is, and of which day.
    notes : tuple of str
        What was left out or repaired, one sentence each.
    """

    values: FloatArray
    ids: NDArray[np.str_]
    days: NDArray[np.str_]
    notes: tuple[str, ...] = ()


def read_profiles(
    path: str | Path, *, missing: str = "refuse", zone: str | None = None
) -> Profiles:
    """Daily profiles from CSV or Parquet, read by the same rules as meter readings.

    Parameters
    ----------
    path : path
        Wide: 24 numeric columns, others identify the row. Long: columns such as id, time, kWh;
        readings within an hour are summed. Hourly: a column `hour` (0–23 or 1–24) in order of
        time and one column per home.
    missing : {"refuse", "drop"}
        What to do with a value that is missing: refuse the file, or leave its day out.
    zone : str, optional
        Time zone such as Europe/Berlin, to find local days in times that carry a zone. With it,
        days of 23 and 25 hours are kept: the missing hour is the mean of its neighbours, the
        repeated hour the mean of its two values. Without it days run by the clock as written.

    Notes
    -----
    Days that do not have every hour are left out and counted in `notes`. A profile that is flat
    all day is a profile like any other: nothing is divided by its spread.
    """
    one_of("missing", missing, MISSING)
    path = Path(path)
    table = read_columns(path, TIMES).to_pandas()
    names = {str(name).strip().lower(): name for name in reversed(list(table.columns))}
    time = next((names[name] for name in TIMES if name in names), None)
    energy = next((name for name in ENERGIES if name in names), None)
    if time is not None and energy is not None:
        owner = next((names[name] for name in IDS[:-2] if name in names), None)
        values = _numbers(table[names[energy]], path) * ENERGIES[energy]
        _check_missing(values, missing, path)
        owners = np.zeros(len(table), dtype=int) if owner is None else table[owner].to_numpy()
        days = days_of_times(owners, table[time], values, zone)
    elif "hour" in names:
        homes = [name for name in table.columns if str(name).lower() not in CALENDAR]
        matrix = _numbers(table[homes], path)
        _check_missing(matrix, missing, path)
        days = days_of_hours(_numbers(table[names["hour"]], path), matrix, homes)
    else:
        return _wide(table, missing, path)
    if days.values.shape[0] == 0:
        raise DataError(f"{path} has no day with all {HOURS} hours.")
    return Profiles(days.values, days.ids, days.labels, _notes(days))


def synthetic_profiles(
    n: int = 2000, *, shapes: int = 8, spread: float = 0.15, seed: int = 0
) -> Profiles:
    """Made-up days [kWh]: base load, a morning and an evening peak, scattered around `shapes`."""
    rng = np.random.default_rng(seed)
    hours = np.arange(HOURS)
    shapes = whole("shapes", shapes)
    peaks = np.zeros((shapes, HOURS))
    for centre, width in ((7.5, 1.5), (19.0, 2.5)):
        place = rng.normal(centre, 1.5, shapes)[:, None]
        peaks += rng.gamma(2.0, 0.6, shapes)[:, None] * np.exp(
            -(((hours - place) / width) ** 2) / 2
        )
    base = rng.gamma(3.0, 0.1, shapes)[:, None] + peaks
    kind = rng.integers(0, shapes, whole("n", n))
    noise = rng.gamma(1 / positive("spread", spread) ** 2, spread**2, (n, HOURS))
    ids = np.array([f"shape {label}" for label in kind])
    return Profiles(base[kind] * noise, ids, np.arange(n).astype(np.str_))


def _wide(table: Any, missing: str, path: Path) -> Profiles:
    from pandas.api.types import is_numeric_dtype

    columns = [
        name
        for name in table.columns
        if str(name).lower() not in IDS and is_numeric_dtype(table[name])
    ]
    if len(columns) != HOURS:
        raise DataError(
            f"{path} has {len(columns)} columns of numbers; a row must be {HOURS} hourly values, "
            "or the columns id, time and kWh."
        )
    values = table[columns].to_numpy(dtype=np.float64)
    _check_missing(values, missing, path)
    whole_day = np.isfinite(values).all(axis=1)
    if not whole_day.any():
        raise DataError(f"{path} has no row with all {HOURS} values.")
    others = [name for name in table.columns if name not in columns]
    ids = (table[others[0]] if others else table.index.to_series()).astype(str).to_numpy()
    days = (table[others[1]] if len(others) > 1 else table.index.to_series()).astype(str)
    lost = int((~whole_day).sum())
    notes = (f"{lost} of {whole_day.size} rows left out: a value is missing.",) if lost else ()
    kept = (ids.astype(np.str_)[whole_day], days.to_numpy().astype(np.str_)[whole_day])
    return Profiles(np.ascontiguousarray(values[whole_day]), *kept, notes)


def _numbers(columns: Any, path: Path) -> FloatArray:
    try:
        return np.asarray(columns.to_numpy(dtype=np.float64, na_value=np.nan))
    except (TypeError, ValueError):
        raise DataError(f"the readings of {path} must be numbers.") from None


def _check_missing(values: FloatArray, missing: str, path: Path) -> None:
    bad = ~np.isfinite(values)
    if missing == "refuse" and bad.any():
        row = int(np.flatnonzero(bad.reshape(bad.shape[0], -1).any(axis=1))[0])
        raise DataError(
            f"{path} has {int(bad.sum())} missing values, the first in row {row}; fill them, or "
            "leave their days out with missing='drop' (--missing drop)."
        )


def _notes(days: Days) -> tuple[str, ...]:
    notes = []
    if days.ragged:
        total = days.ragged + days.values.shape[0]
        notes.append(f"{days.ragged} of {total} days left out: not every hour has its readings.")
    if days.repaired:
        notes.append(f"{days.repaired} days of 23 or 25 hours kept, brought to 24 (clock change).")
    return tuple(notes)
