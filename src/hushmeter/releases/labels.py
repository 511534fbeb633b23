"""Which cell belongs to which label of which table: hours, days, months, typical days and bands.

The metered readings become cells of one length. A table groups the cells by a public label and
publishes one noisy sum for each label (`hushmeter.privacy.sensitivity`). This module turns a word
such as "days", or a band such as "peak = weekdays 16:00-21:00", into the labels of the cells. It
uses times and a time zone alone. A new table is one more function in `_MAKERS`.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.clock import CivilDays, civil_days, local_times, transitions, weekday
from hushmeter.errors import DataError, InputError, UnknownNameError
from hushmeter.formatting import duration_in_words
from hushmeter.privacy.sensitivity import NO_LABEL, Rearrangement, Table
from hushmeter.privacy.units import BETWEEN_DAYS, WITHIN_DAYS, Metered, Unit, without_values
from hushmeter.trace import SECONDS_PER_DAY, SECONDS_PER_HOUR, TimeArray, Trace, intervals_in

CELLS, BANDS, REST, REGISTER = "cells", "bands", "rest", "register"
COUNTS = ("cells", "share")
"""Columns of a table that count the readings of a label and do not name it."""

VIEWS = (CELLS, "days", "months", "typical-day")
"""The tables that the word "views" stands for."""

HOURLY_COST = 1.10
"""Largest error of a cell that is released with other tables, relative to cells alone."""

MODEL_DAYS = 30
"""Days of the month for which errors are stated if the times of a release are not known."""

MODEL_START = np.datetime64("2024-04-01T00:00", "ns")
"""Start of that month, a Monday."""

SECONDS_PER_MINUTE = 60
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY_SETS = {"daily": range(7), "weekdays": range(5), "weekends": range(5, 7)}
_BAND = re.compile(r"\s*([\w-]+)\s*=\s*(.+)")
_RANGE = re.compile(r"(?:([a-z-]+)\s+)?(\d{1,2}):([0-5]\d)\s*-\s*(\d{1,2}):([0-5]\d)")


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a release: their times, their zone and how many readings each has.

    Attributes
    ----------
    times : Trace
        Times of the cells, with zeros in the place of readings.
    zone : str
        Time zone of days, months and hours of the day.
    shares : array, shape (n,), or None
        Share of the readings of every cell that are present; None if none is missing.
    model : bool
        True if these are the cells of a model month or year, because the times are not known.
    rearranged : tuple of str
        How the use of neighbours may be rearranged; the cells are then those of complete civil days
        or, if days are exchanged, of whole civil months.
    left_out : int
        Number of the other days or months of the file.
    """

    times: Trace
    zone: str = "UTC"
    shares: FloatArray | None = None
    model: bool = False
    rearranged: tuple[str, ...] = ()
    left_out: int = 0

    def __len__(self) -> int:
        return len(self.times)

    @property
    def interval_s(self) -> float:
        """Length of a cell [s]."""
        return self.times.interval_s

    @property
    def per_day(self) -> int:
        """Cells of a day of 24 hours."""
        return round(SECONDS_PER_DAY / self.interval_s)

    @cached_property
    def days(self) -> CivilDays:
        """The civil days of the cells."""
        return civil_days(self.times.times, self.interval_s, self.zone)

    @cached_property
    def months(self) -> tuple[TimeArray, IntArray]:
        """The civil months, and the number of the month of every cell."""
        names, place = np.unique(self.days.local.astype("datetime64[M]"), return_inverse=True)
        return names, place.astype(np.int64)

    @cached_property
    def clock_s(self) -> FloatArray:
        """What the clock shows at the start of every cell [s since midnight]."""
        midnight = self.days.local.astype("datetime64[D]").astype("datetime64[ns]")
        return np.asarray((self.days.local - midnight).astype(np.int64) / 1e9)

    @cached_property
    def of_day(self) -> IntArray:
        """Number of the window of the day in which every cell starts, by the clock."""
        place: IntArray = np.floor(self.clock_s / self.interval_s + 1e-9).astype(np.int64)
        return place

    @cached_property
    def hour_of_day(self) -> IntArray:
        """The same as `of_day`, but windows that a change of the clock repeats have no label.

        An exact sum over a month counts them: it would otherwise differ from the month by them.
        """
        if self.rearranged:
            return self.of_day
        key = self.days.place * (self.per_day + 1) + self.of_day
        first = np.unique(key, return_index=True)[1]
        hours = np.full(key.size, NO_LABEL)
        hours[first] = self.of_day[first]
        return hours

    def place_of(self, times: TimeArray) -> IntArray:
        """Number of the cell in which each time lies; -1 outside all cells."""
        length = np.timedelta64(round(self.interval_s * 1e9), "ns")
        place = np.searchsorted(self.times.times, times, side="right") - 1
        inside = (place >= 0) & (times < self.times.times[place] + length)
        return np.where(inside, place, -1)

    @property
    def columns(self) -> dict[str, Any]:
        """Times of the cells, and the shares of their readings if some are missing."""
        shares = {} if self.shares is None else {"share": np.round(self.shares, 6)}
        return {"timestamp": self.times.times, **shares}

    def month_names(self, rows: IntArray) -> dict[str, Any]:
        """The months of some cells as a column of a table."""
        names, place = self.months
        return {"month": names[place[rows]].astype(str)}


def cells_of(
    metered: Metered,
    every: float | str | None,
    *,
    of_days: bool = False,
    rearranged: tuple[str, ...] = (),
) -> Cells:
    """Return the cells of a release: means over `every`, or the readings themselves.

    `of_days` says that a table groups the cells by day, so that they must divide a day, and
    `rearranged` that only complete days or whole months are released.
    """
    window = 1 if every is None else intervals_in(every, metered.interval_s)
    length = window * metered.interval_s
    divides = not SECONDS_PER_DAY % length and length <= SECONDS_PER_DAY
    if of_days and not rearranged and not divides:
        raise InputError(
            f"tables of days need cells that divide a day, but {duration_in_words(length)} do "
            "not; choose --every 1h."
        )
    if metered.times is None:
        return _model_cells(length, metered.zone, of_days, rearranged)
    cells = Cells(metered.times, metered.zone)
    if window > 1:
        times, shares = metered.times.coarsen(length), metered.times.shares_present(length)
        present = None if (shares == 1).all() else shares
        cells = Cells(without_values(times), metered.zone, present)
    return _complete_cells(cells, rearranged, metered.times) if rearranged else cells


@lru_cache(maxsize=16)
def _model_cells(length: float, zone: str, of_days: bool, rearranged: tuple[str, ...]) -> Cells:
    """Cells of a month of 30 days or, for tables where the clock is changed, of a year."""
    first, last = np.datetime64("2024-01-01", "ns"), np.datetime64("2025-01-01", "ns")
    if not rearranged and not (of_days and transitions(first, last, zone).size):
        return replace(model_month(length), zone=zone)
    count = round(366 * SECONDS_PER_DAY / length)
    cells = Cells(Trace(np.zeros(count), length, first), zone, model=True)
    return _complete_cells(cells, rearranged, cells.times) if rearranged else cells


def _complete_cells(cells: Cells, rearranged: tuple[str, ...], readings: Trace) -> Cells:
    """Return the cells of the complete days or whole months of readings at these times.

    No reading of such a day is missing, and none lies across a midnight.
    """
    found = complete_days(cells).columns["day"]
    if not is_aligned(readings, cells.interval_s):
        found = found[:0]
    if BETWEEN_DAYS in rearranged:
        months, counts = np.unique(found.astype("datetime64[M]"), return_counts=True)
        lengths = (months + 1).astype("datetime64[D]") - months.astype("datetime64[D]")
        found = months[counts == lengths.astype(np.int64)]
    if not found.size:
        raise DataError(_what_is_needed(rearranged, cells.zone))
    first, last = local_times(readings.times[[0, -1]], cells.zone).astype(found.dtype)
    inside = np.isin(cells.days.local.astype(found.dtype), found)
    times = cells.times if inside.all() else cells.times.select(np.flatnonzero(inside))
    left_out = int((last - first).astype(np.int64)) + 1 - found.size
    known = 0 if cells.model else left_out
    return Cells(times, cells.zone, None, cells.model, rearranged, known)


def is_aligned(readings: Trace, length: float) -> bool:
    """True if every reading lies within one cell of some length [s], or is a cell itself."""
    own = round(readings.interval_s * 1e9)
    return round(length * 1e9) == own or int(readings.start.astype(np.int64)) % own == 0


def _what_is_needed(rearranged: tuple[str, ...], zone: str) -> str:
    period = "month" if BETWEEN_DAYS in rearranged else "day"
    return (
        f"this wish needs a civil {period} of {zone} of which every reading is in the file, from "
        f"the first midnight to the last, and none lies across a midnight; release a complete "
        f"{period}, or hide an appliance."
    )


def model_month(length: float) -> Cells:
    """Cells of a month without a gap and without a change of the clock, from a Monday on."""
    count = max(1, round(MODEL_DAYS * SECONDS_PER_DAY / length))
    return Cells(Trace(np.zeros(count), length, MODEL_START), model=True)


@dataclass(frozen=True, eq=False)
class LabelledTable(Table):
    """A table whose labels have names."""

    # What each label is about: one array of shape (size,) for each column of its file
    columns: dict[str, Any] = field(default_factory=dict, kw_only=True)
    # True if the sum of a label is stated as energy [kWh]; False for mean power [W]
    energy: bool = field(default=True, kw_only=True)

    @property
    def names(self) -> list[str]:
        """The names of the labels, such as "2024-03 07:00"; each begins with its time."""
        columns = [np.asarray(c) for name, c in self.columns.items() if name not in COUNTS]
        return [" ".join(map(str, label)) for label in zip(*columns, strict=True)]

    @cached_property
    def label_blocks(self) -> NDArray[np.uint8]:
        """The label of every sum as 16 bytes, on which its noise depends; shape (size, 16)."""
        first = np.asarray(next(iter(self.columns.values())))
        if first.dtype.kind == "M":
            blocks = np.zeros((first.size, 2), dtype=">i8")
            blocks[:, 1] = first.astype("datetime64[ns]").astype(np.int64)
            return blocks.view(np.uint8)
        digests = [hashlib.blake2b(name.encode(), digest_size=16).digest() for name in self.names]
        return np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(-1, 16)


def make_tables(words: Iterable[str], cells: Cells) -> tuple[LabelledTable, ...]:
    """Return the tables that words name; `register` is a view and needs no table of its own."""
    names, bands = split_words(words)
    tables = [_MAKERS[name](cells) for name in names if name != REGISTER]
    for number, group in enumerate(_disjoint(bands, cells)):
        name = BANDS if number == 0 else f"{BANDS}-{number + 1}"
        tables.append(_bands(name, group, cells))
    return tuple(tables)


def split_words(words: Iterable[str]) -> tuple[list[str], dict[str, list[_Range]]]:
    """Return the names of tables, each once, and the ranges of every band."""
    names: list[str] = []
    bands: dict[str, list[_Range]] = {}
    for word in words:
        if "=" in word:
            name, ranges = parse_band(word)
            bands.setdefault(name, []).extend(ranges)
            continue
        name = CELLS if word == "hours" else word
        if name not in (*_MAKERS, REGISTER):
            raise UnknownNameError("table", word, ["hours", *_MAKERS, REGISTER])
        if name not in names:
            names.append(name)
    return names, bands


def of_sums(words: Iterable[str]) -> bool:
    """True if words name more than the cells and their register."""
    return any(word not in (CELLS, "hours", REGISTER) for word in words)


def check_tables(words: Sequence[str], cells: Cells) -> tuple[LabelledTable, ...]:
    """Return the tables of a release; refuse words that do not fit its cells."""
    long = cells.interval_s > SECONDS_PER_HOUR * (1 + 1e-9)
    if long and "hours" in words:
        raise InputError(
            f"the table hours is finer than the cells of {duration_in_words(cells.interval_s)}; "
            "choose --every 1h, or leave out hours."
        )
    period_s = math.inf if cells.model else len(cells) * cells.interval_s
    if of_sums(words) and period_s < SECONDS_PER_DAY * (1 - 1e-9):
        raise DataError("tables of days need at least one day of readings.")
    tables = make_tables(words, cells)
    for name in split_words(words)[1]:
        if not any(name in table.columns.get("band", ()) for table in tables):
            raise InputError(f"no cell lies in the band {name}; leave it out, or change its times.")
    return tables


def rearrangement(unit: Unit, cells: Cells) -> Rearrangement:
    """Return which sums of cells stay the same if use is rearranged as a unit says."""
    days, (_, months) = cells.days.place, cells.months
    if BETWEEN_DAYS not in unit.rearranged:
        orbits = days
    elif WITHIN_DAYS in unit.rearranged:
        orbits = months
    else:
        hours = months * (cells.per_day + 1) + cells.of_day
        orbits = np.unique(hours, return_inverse=True)[1].astype(np.int64)
    periods = months if BETWEEN_DAYS in unit.rearranged else days
    within = WITHIN_DAYS in unit.rearranged
    return Rearrangement(orbits, periods, within, unit.window, unit.metering)


def _every_cell(cells: Cells) -> LabelledTable:
    count = len(cells)
    return LabelledTable(CELLS, np.arange(count), count, columns=cells.columns, energy=False)


def _grouped(
    name: str,
    cells: Cells,
    keys: Sequence[IntArray],
    columns: Callable[[IntArray], dict[str, Any]],
    *,
    energy: bool = True,
) -> LabelledTable:
    """A table of cells with equal keys, in the order of the keys; a negative key means no label.

    `columns` returns the names of the labels, given one cell of each.
    """
    inside = np.logical_and.reduce([key >= 0 for key in keys])
    joined = np.zeros(len(cells), dtype=np.int64)
    for key in keys:
        joined = joined * (int(key.max()) + 1) + key
    found, first, place = np.unique(joined[inside], return_index=True, return_inverse=True)
    labels = np.full(len(cells), NO_LABEL)
    labels[inside] = place
    names = columns(np.flatnonzero(inside)[first])
    members = np.bincount(place, minlength=found.size)
    steps = cells.times.steps
    return LabelledTable(
        name, labels, found.size, steps, columns={**names, "cells": members}, energy=energy
    )


def _days(cells: Cells) -> LabelledTable:
    days = cells.days
    return _grouped("days", cells, [days.place], lambda rows: {"day": days.days[days.place[rows]]})


def _months(cells: Cells) -> LabelledTable:
    def names(rows: IntArray) -> dict[str, Any]:
        if not cells.rearranged:
            return cells.month_names(rows)
        first = np.unique(cells.days.place, return_index=True)[1]
        return {**cells.month_names(rows), "days": np.bincount(cells.months[1][first])}

    return _grouped("months", cells, [cells.months[1]], names)


def _year(cells: Cells) -> LabelledTable:
    year = cells.days.local.astype("datetime64[Y]")
    place = (year - year[0]).astype(np.int64)
    return _grouped("year", cells, [place], lambda rows: {"year": year[rows].astype(str)})


def _typical_day(cells: Cells) -> LabelledTable:
    def names(rows: IntArray) -> dict[str, Any]:
        return {**cells.month_names(rows), "hour": _clock(cells, rows)}

    keys = [cells.months[1], cells.hour_of_day]
    return _grouped("typical-day", cells, keys, names, energy=False)


def _typical_week(cells: Cells) -> LabelledTable:
    free = (weekday(cells.days.local) >= 5).astype(np.int64)

    def names(rows: IntArray) -> dict[str, Any]:
        kind = np.array(["weekdays", "weekends"])[free[rows]]
        return {**cells.month_names(rows), "days": kind, "hour": _clock(cells, rows)}

    keys = [cells.months[1], free, cells.hour_of_day]
    return _grouped("typical-week", cells, keys, names, energy=False)


def _clock(cells: Cells, rows: IntArray) -> Any:
    """What the clock shows at the start of the windows of some cells, such as 07:30."""
    return np.array([_clock_text(int(s)) for s in cells.clock_s[rows].tolist()])


def _clock_text(seconds: int) -> str:
    return f"{seconds // 3600:02d}:{seconds % 3600 // 60:02d}"


_MAKERS: dict[str, Callable[[Cells], LabelledTable]] = {
    CELLS: _every_cell,
    "days": _days,
    "months": _months,
    "typical-day": _typical_day,
    "typical-week": _typical_week,
    "year": _year,
}


@dataclass(frozen=True)
class _Range:
    """Part of a band: days of the week, and a part of these days [s since midnight]."""

    days: tuple[int, ...]
    start_s: int
    stop_s: int

    def inside(self, cells: Cells) -> BoolArray:
        """True for the windows of a week in the range, shape (7, windows of a day).

        In a range such as 22:00-06:00, the hours after midnight count for their own weekday.
        """
        clock = np.arange(cells.per_day) * cells.interval_s
        if self.start_s < self.stop_s:
            hours = (clock >= self.start_s) & (clock < self.stop_s)
        else:
            hours = (clock >= self.start_s) | (clock < self.stop_s)
        found: BoolArray = np.isin(np.arange(7), self.days)[:, None] & hours
        return found


def parse_band(text: str) -> tuple[str, list[_Range]]:
    """Read a band such as "peak = weekdays 16:00-21:00, sat 10:00-12:00"."""
    match = _BAND.fullmatch(text.lower())
    if match is None:
        raise InputError(f'a band is written as "peak = weekdays 16:00-21:00", got {text!r}.')
    name = match[1]
    if name in (*_MAKERS, REST, REGISTER, "hours"):
        raise InputError(f"{name!r} is the name of a table; give the band another name.")
    return name, [_parse_range(name, part.strip()) for part in match[2].split(",")]


def _parse_range(band: str, text: str) -> _Range:
    match = _RANGE.fullmatch(text)
    if match is None:
        raise InputError(
            f"the band {band} has the part {text!r}; write days and times as in "
            '"weekdays 16:00-21:00", "sat-sun 00:00-24:00" or "22:00-06:00".'
        )
    start, stop = (int(match[i]) * 3600 + int(match[i + 1]) * 60 for i in (2, 4))
    if max(start, stop) > SECONDS_PER_DAY or start == stop:
        raise InputError(f"the band {band} has impossible times: {text!r}.")
    return _Range(_parse_days(band, match[1] or "daily"), start, stop)


def _parse_days(band: str, word: str) -> tuple[int, ...]:
    """Days of the week that a word names: a set, one day, or a range such as mon-thu."""
    if word in _DAY_SETS:
        return tuple(_DAY_SETS[word])
    ends = [WEEKDAYS.index(day) if day in WEEKDAYS else NO_LABEL for day in word.split("-")]
    if len(ends) > 2 or NO_LABEL in ends:
        names = ", ".join((*_DAY_SETS, *WEEKDAYS))
        raise InputError(f"the band {band} has the days {word!r}; choose of {names} or mon-fri.")
    first, last = ends[0], ends[-1]
    return tuple((first + i) % 7 for i in range((last - first) % 7 + 1))


def _disjoint(bands: dict[str, list[_Range]], cells: Cells) -> list[dict[str, BoolArray]]:
    """Groups of bands that share no window of the week; each group is one table.

    The groups do not depend on which cells there are.
    """
    groups: list[dict[str, BoolArray]] = []
    for name, ranges in bands.items():
        mask = _band_week(name, ranges, cells)
        for group in groups:
            if not any((mask & other).any() for other in group.values()):
                group[name] = mask
                break
        else:
            groups.append({name: mask})
    return groups


def _band_week(name: str, ranges: list[_Range], cells: Cells) -> BoolArray:
    """True for the windows of a week in one band; refuse a band that does not fit the cells."""
    starts = np.unique(cells.clock_s % cells.interval_s)
    for border in (second for part in ranges for second in (part.start_s, part.stop_s)):
        # A band has borders in whole minutes; cells may start some seconds after the minute.
        after = (border - starts) % cells.interval_s
        if (np.minimum(after, cells.interval_s - after) >= SECONDS_PER_MINUTE).any():
            raise InputError(
                f"the band {name} has a border at {_clock_text(border)}, within a cell of "
                f"{duration_in_words(cells.interval_s)}; choose shorter cells with --every."
            )
    masks = np.stack([part.inside(cells) for part in ranges])
    if (masks.sum(axis=0) > 1).any():
        raise InputError(f"the parts of the band {name} overlap; give each hour once.")
    return np.asarray(masks.any(axis=0))


def _bands(name: str, group: dict[str, BoolArray], cells: Cells) -> LabelledTable:
    """A table of bands by month; what is in no band is the rest."""
    week = np.full((7, cells.per_day), len(group))
    for number, mask in enumerate(group.values()):
        week[mask] = number
    band = week[weekday(cells.days.local), cells.of_day]
    words = np.array([*group, REST])

    def names(rows: IntArray) -> dict[str, Any]:
        return {**cells.month_names(rows), "band": words[band[rows]]}

    return _grouped(name, cells, [cells.months[1], band], names)


def complete_days(cells: Cells) -> LabelledTable:
    """The civil days of which no reading is missing from midnight to midnight.

    A run that is moved to a time without readings would be missing from the sum of its day.
    """
    days = cells.days
    complete = days.complete.copy()
    if cells.shares is not None:
        complete[days.place[cells.shares < 1]] = False
    labels = np.where(complete, np.cumsum(complete) - 1, NO_LABEL)[days.place]
    size = int(complete.sum())
    members = np.bincount(labels[labels >= 0], minlength=size)
    columns = {"day": days.days[complete], "cells": members}
    return LabelledTable("days", labels, size, cells.times.steps, columns=columns)
