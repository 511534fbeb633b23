"""Daily load profiles: read from a table, or synthetic.

The columns of a table decide its layout: wide rows of 24 values; long rows with an identifier, a
time and an energy; or hourly rows with a column `hour` and one column for each home.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushmeter.checks import FloatArray, one_of, positive, whole
from hushmeter.clock import check_zone, day_bounds
from hushmeter.errors import DataError, InputError
from hushmeter.read.columns import Column, classify, load_table, to_numbers
from hushmeter.read.recording import Task
from hushmeter.read.times import read_stamps

HOURS = 24


@dataclass(frozen=True, eq=False)
class Days:
    """Complete days of one table."""

    values: FloatArray  # Hourly energies [kWh]
    # The home and the date of each day
    ids: NDArray[np.str_]
    labels: NDArray[np.str_]
    ragged: int = 0  # Number of days that were left out because an hour is missing
    repaired: int = 0  # Number of days of 23 or 25 hours that were brought to 24


def days_of_hours(hours: FloatArray, values: FloatArray, homes: Sequence[Any]) -> Days:
    """Return the days of a table of hourly energies [kWh], whose rows are in order of time."""
    if not homes:
        raise DataError("an hourly table needs a column for each home beside its calendar columns.")
    last = 24 if hours.size and hours.max() == HOURS else 23
    place = hours - (last - 23)
    if not (np.isin(place, np.arange(HOURS))).all():
        raise DataError("the column hour must count from 0 to 23 or from 1 to 24.")
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
    # A new day starts wherever the hour does not increase.
    started = 1 + int((np.diff(place) <= 0).sum()) if place.size else 0
    ragged = (started - count) * len(homes) + int((~whole_day).sum())
    kept = np.ascontiguousarray(days[whole_day])
    return Days(kept, ids[whole_day], labels[whole_day], ragged)


def days_of_times(ids: Any, times: Any, values: FloatArray, zone: str | None) -> Days:
    """Return the days of rows of one energy [kWh] each; those of an hour are added up."""
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
    """The local time of every reading, without a zone."""
    import pandas as pd

    if not pd.api.types.is_datetime64_any_dtype(times):
        times = _parse(times.astype(str), zone)
    if zone is None:
        return times if times.dt.tz is None else times.dt.tz_localize(None)
    if times.dt.tz is None:
        raise InputError("a zone is given, but the times have none; write them in UTC with a Z.")
    return times.dt.tz_convert(check_zone(zone)).dt.tz_localize(None)


def _parse(text: Any, zone: str | None) -> Any:
    """Parse text as local clock times, or as UTC times if a zone is given."""
    import pandas as pd

    offset = r"(?<=:\d\d)(?:\.\d+)?\s*(?:Z|[+-]\d\d(?::?\d\d)?)$"
    try:
        if zone is None:
            return pd.to_datetime(text.str.replace(offset, "", regex=True), format="ISO8601")
        if not text.str.contains(offset, regex=True).all():
            raise InputError(
                "a zone is given, but the times have none; write them in UTC with a Z."
            )
        return pd.to_datetime(text, format="ISO8601", utc=True)
    except (ValueError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise DataError(
            "the time column must contain ISO 8601 times such as 2024-01-31T18:00Z."
        ) from None


def _day_lengths(dates: Any, zone: str) -> NDArray[np.int64]:
    """The number of hours of each local day: 23, 24 or 25."""
    starts, ends = day_bounds(dates.to_numpy(), zone)
    hours = (ends - starts) / np.timedelta64(1, "h")
    return np.rint(hours).astype(np.int64)


def _repair(
    sums: FloatArray, counts: NDArray[np.int64], usual: int, lengths: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Bring days of 23 and 25 hours to 24 hours in place; return which days were changed."""
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
    """Daily load profiles."""

    values: FloatArray  # Hourly energies [kWh]
    # The home and the day of each profile
    ids: NDArray[np.str_]
    days: NDArray[np.str_]
    notes: tuple[str, ...] = ()  # Sentences about days that were left out or repaired

    def select(
        self,
        first: str | None = None,
        last: str | None = None,
        *,
        users: int | Sequence[str] | None = None,
        seed: int = 0,
    ) -> Profiles:
        """Keep a period and some homes."""
        keep = np.ones(self.days.size, dtype=bool)
        numbered = bool(np.char.isdigit(self.days).all())
        days = self.days.astype(np.int64) if numbered else self.days
        for text, name in ((first, "first"), (last, "last")):
            if text is not None:
                edge = _edge(text, numbered=numbered)
                keep &= days >= edge if name == "first" else days <= edge
        if users is not None:
            keep &= np.isin(self.ids, self._chosen(users, seed))
        if not keep.any():
            raise InputError("no day is left in this period and for these homes.")
        return replace(self, values=self.values[keep], ids=self.ids[keep], days=self.days[keep])

    def _chosen(self, users: int | Sequence[str], seed: int) -> NDArray[np.str_]:
        homes = np.unique(self.ids)
        if isinstance(users, int):
            if not 1 <= users <= homes.size:
                raise InputError(f"there are {homes.size} homes; {users} cannot be chosen.")
            return np.random.default_rng(seed).choice(homes, users, replace=False)
        unknown = sorted(set(users) - set(homes.tolist()))
        if unknown:
            raise InputError(f"there is no home {unknown[0]}.")
        return np.array(list(users))


def _edge(text: str, *, numbered: bool) -> Any:
    """A day as the table names it: a number or a date."""
    if numbered:
        if not text.isdigit():
            raise InputError(f"this table numbers its days from 0; {text!r} is not a number.")
        return int(text)
    try:
        return str(np.datetime64(text, "D"))
    except ValueError:
        raise InputError(f"{text!r} is not a date such as 2015-05-01.") from None


def read_profiles(
    path: str | Path, *, missing: str = "refuse", zone: str | None = None
) -> Profiles:
    """Read daily profiles from CSV or Parquet, by the same rules as meter readings."""
    one_of("missing", missing, MISSING)
    path = Path(path)
    table = _read_frame(path)
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
    """Make synthetic days: a base load, a morning peak and an evening peak."""
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


def _read_frame(path: Path) -> Any:
    """A table as it is, as a DataFrame, without deciding what its columns mean.

    The same rules hold as for meter readings: the delimiter, the decimal mark, the encoding, the
    row of the header and gzip are found from the content.
    """
    import pandas as pd

    if not path.is_file():
        raise DataError(f"{path} does not exist.")
    task = Task(path)
    raw = load_table(task, texts=TIMES)
    return pd.DataFrame({column.name: _series(column, raw.decimal, path)
                         for column in classify(task, raw)})  # fmt: skip


def _series(column: Column, decimal: str, path: Path) -> Any:
    """A column as pandas holds it; dates in an order of their own are times."""
    import pandas as pd

    cells = column.data
    if column.kind == "empty" or (column.kind == "number" and cells.is_text):
        return to_numbers(cells, decimal)[0]
    if column.name.lower() in TIMES and _is_other_date(column):
        stamps = read_stamps(cells, path)
        return np.where(stamps.good, stamps.ns.astype("M8[ns]"), np.datetime64("NaT"))
    array = cells.array()
    if cells.aware:
        return pd.Series(array).dt.tz_localize("UTC")
    return array.astype(object) if array.dtype in ("M8[D]", "m8[s]") else array


def _is_other_date(column: Column) -> bool:
    """True for text with times in another order than that of ISO 8601."""
    if column.kind not in ("time", "date") or not column.data.is_text:
        return False
    return re.match(r"\d{4}-", str(column.data.known()[0])) is None


def _wide(table: Any, missing: str, path: Path) -> Profiles:
    from pandas.api.types import is_numeric_dtype

    columns = [
        name
        for name in table.columns
        if str(name).lower() not in IDS and is_numeric_dtype(table[name])
    ]
    if len(columns) != HOURS:
        raise DataError(
            f"{path} has {len(columns)} columns of numbers; a row must have {HOURS} hourly values, "
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
    notes: tuple[str, ...] = ()
    if lost:
        notes = (f"{lost} of {whole_day.size} rows were left out because a value is missing.",)
    kept = (ids.astype(np.str_)[whole_day], days.to_numpy().astype(np.str_)[whole_day])
    return Profiles(np.ascontiguousarray(values[whole_day]), *kept, notes)


def _numbers(columns: Any, path: Path) -> FloatArray:
    try:
        return np.asarray(columns.to_numpy(dtype=np.float64, na_value=np.nan))
    except (TypeError, ValueError):
        raise DataError(f"the energies in {path} must be numbers.") from None


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
        notes.append(f"{days.ragged} of {total} days were left out because an hour is missing.")
    if days.repaired:
        notes.append(
            f"{days.repaired} days of 23 or 25 hours (clock change) were brought to 24 hours."
        )
    return tuple(notes)
