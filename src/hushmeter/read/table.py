"""From a table to readings: rows of one series, times in UTC, values of one unit.

A format module that has rows calls `text_table.table_of_rows` and hands the table to
`series_of_table`; everything after that is the same for every source.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.errors import DataError
from hushmeter.read import words
from hushmeter.read.columns import (
    Column,
    Plan,
    TimePlan,
    classify,
    find_named,
    is_number_of_day,
    missing_rows,
    plan_columns,
    stated_unit,
    to_numbers,
)
from hushmeter.read.layouts import Layout, find_layout
from hushmeter.read.options import DECIMALS, ReadOptions, unit_factor
from hushmeter.read.recording import Series
from hushmeter.read.regular import FEW_REPEATS
from hushmeter.read.source import read_head, read_parquet
from hushmeter.read.text_table import RawTable, load_text, unique_names
from hushmeter.read.times import (
    SECOND,
    UTC_CLOCK,
    read_clock,
    read_stamps,
    split_range,
    to_utc,
)
from hushmeter.read.words import find_source, find_unit, has_word, read_meaning
from hushmeter.trace import iso

PARQUET_MAGIC = b"PAR1"
DAY_NS = 86_400 * SECOND
LIKELY_W, LEAST_W = (20.0, 50_000.0), 0.05
LARGEST_MEAN_W, LARGEST_READING_W = 60_000.0, 300_000.0
ABSURD_MEAN_W = 1e6
MANY_RISES = 20
ELECTRIC = "electric elektri stroom strom elec$ luz$ kwh kw elettric sahko el$"
NUMBERED = re.compile(r"(?i)(?:[a-z]{1,8}[ _.]*)?0*(\d{1,3})(?:[ _]*\(?k?wh\)?)?")


def read_table(path: Path, options: ReadOptions, *, homes: bool = False) -> tuple[Series, str]:
    """Read a CSV or Parquet table.

    Parameters
    ----------
    path : Path
    options : ReadOptions
    homes : bool
        True if a table without a meter gets the sum of its circuits.

    Returns
    -------
    series : Series
    mains : str
        "metered", or "sum of sub-meters".
    """
    return series_of_table(load_table(path, options), options, path, homes=homes)


def load_table(
    path: Path, options: ReadOptions | None = None, texts: Collection[str] = ()
) -> RawTable:
    """The whole table of a CSV or Parquet file, before its columns are understood."""
    import pyarrow as pa

    mark = None if options is None or options.decimal is None else DECIMALS[options.decimal]
    try:
        if read_head(path, 4) == PARQUET_MAGIC:
            data = read_parquet(path)
            raw = RawTable(data.rename_columns(list(unique_names(data.column_names))),
                           kind="Parquet table")  # fmt: skip
        else:
            raw = load_text(path, texts, mark)
    except (pa.ArrowException, OSError, UnicodeError, OverflowError, LookupError) as error:
        reason = str(error).split("\n")[0].rstrip(".")[:200]
        raise DataError(f"{path} is neither a CSV nor a Parquet table: {reason}.") from None
    raw = replace(raw, data=_without_empty_rows(_joined(raw, options, path)), blocks=())
    if raw.data.num_rows == 0:
        raise DataError(
            f"{path} holds no readings, only the columns {', '.join(raw.data.column_names[:8])}."
        )
    return raw


def read_columns(path: Path, times: Collection[str] = ()) -> Any:
    """Read a table as it is, without deciding what its columns mean.

    The same rules hold as for meter readings: the delimiter, the decimal mark, the encoding, the
    row of the header and gzip are found from the content.

    Parameters
    ----------
    path : Path
        CSV or Parquet file, also gzipped.
    times : collection of str
        Names (lower case) of columns that hold times. Dates such as 31/01/2024 become timestamps
        without a zone; ISO 8601 text stays text, because it may carry an offset.

    Returns
    -------
    pyarrow.Table

    Raises
    ------
    DataError
        If the file is missing, empty or no table.
    """
    import pyarrow as pa

    if not path.is_file():
        raise DataError(f"{path} does not exist.")
    raw = load_table(path, texts=times)
    table = raw.data
    for i, column in enumerate(classify(raw, path)):
        if column.kind == "empty" or (column.kind == "number" and _is_text(column.data)):
            values, _ = to_numbers(column.data, raw.decimal)
            table = table.set_column(i, column.name, pa.array(values, from_pandas=True))
        elif column.name.lower() in times and _is_other_date(column):
            stamps = read_stamps(column.data, path)
            moments = pa.array(stamps.ns.astype("datetime64[ns]"), mask=~stamps.good)
            table = table.set_column(i, column.name, moments)
    return table


def _is_other_date(column: Column) -> bool:
    """True for text with times in another order than that of ISO 8601."""
    if column.kind not in ("time", "date") or not _is_text(column.data):
        return False
    first = next((value.as_py() for value in column.data if value.is_valid), "")
    return re.match(r"\d{4}-", first) is None


def _is_text(data: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(data.type) or types.is_large_string(data.type))


def _joined(raw: RawTable, options: ReadOptions | None, path: Path) -> Any:
    """The table with the rows of further blocks under the same header, or the chosen block."""
    import pyarrow as pa

    if not raw.blocks:
        return raw.data
    tables = [raw.data, *(block.data for block in raw.blocks)]
    asked = None if options is None else options.register
    if asked is not None and asked.isdigit() and 1 <= int(asked) <= len(tables):
        return tables[int(asked) - 1]
    first, *others = (set(table.column(0).to_pylist()) for table in tables)
    if any(len(first & other) > 0.5 * len(first) for other in others):
        raise DataError(
            f"{path} holds {len(tables)} tables of the same times, such as import, export and "
            f"balance: choose one by its number (--register 1 … {len(tables)})."
        )
    return pa.concat_tables([raw.data, *(block.data for block in raw.blocks)],
                            promote_options="permissive")  # fmt: skip


def _without_empty_rows(table: Any) -> Any:
    """Leave out rows that hold nothing but delimiters, as spreadsheets write them."""
    import pyarrow.compute as pc

    if not table.num_columns or not all(column.null_count for column in table.columns):
        return table
    filled = functools.reduce(pc.or_, (pc.is_valid(column) for column in table.columns))
    return table.filter(filled)


def series_of_table(
    raw: RawTable, options: ReadOptions, path: Path, *, homes: bool = False
) -> tuple[Series, str]:
    """Understand the columns of a table and read its series.

    Parameters
    ----------
    raw : RawTable
    options : ReadOptions
    path : Path
        For messages.
    homes : bool
        True if a table without a meter gets the sum of its circuits.

    Returns
    -------
    series : Series
    mains : str

    Raises
    ------
    DataError
        If the table holds no electricity that the home used, or the choice is not clear.
    """
    notes = list(raw.notes)
    names = frozenset(name.lower() for name in raw.data.column_names)
    asked = options.time_column is not None or options.value_column is not None
    layout = None if asked or not raw.has_header else find_layout(names)
    if layout is not None:
        raw, plan = _by_layout(raw, layout, options, notes, path)
    else:
        columns = classify(raw, path)
        daily = _day_rows(columns, options, path) if raw.has_header else None
        if daily is not None:
            columns, raw = daily
            notes.append("One row holds a day; its columns were read as times of the day.")
        _refuse_source(raw, columns, path)
        plan = plan_columns(raw, columns, options, path, homes=homes)
    notes.extend(plan.notes)
    return _read(raw, plan, layout, options, notes, path)


def _by_layout(
    raw: RawTable, layout: Layout, options: ReadOptions, notes: list[str], path: Path
) -> tuple[RawTable, Plan]:
    """The plan of a known layout."""
    import pyarrow as pa

    data = raw.data
    if layout.prepare is not None:
        try:
            data = layout.prepare(data, notes)
        except DataError as error:
            raise DataError(f"{path} is {error}") from None
        except pa.ArrowException as error:
            reason = str(error).split("\n")[0].rstrip(".")
            raise DataError(f"{path} is no proper {layout.format}: {reason}.") from None
    raw = replace(raw, data=data, context=())
    columns = classify(raw, path)
    named = {c.name.lower(): c for c in reversed(columns)}
    values = tuple(named[value] for value in layout.values)
    time = TimePlan(named[layout.time], stamp=layout.stamp, zone=layout.tz)
    if layout.end is not None:
        time.end_date = named[layout.end]
    if time.date.kind == "date":
        time.clock = next((c for c in columns if c.kind == "clock"), None)
    skip = layout.ignore | {layout.time, *layout.values}
    others = tuple(
        c for c in columns
        if c.name.lower() not in skip and c.name not in time.names and c.kind == "number"
        and not re.fullmatch(r"column_\d+|Unnamed: \d+|sum_of_submeters|main_house_subtotal|index",
                             c.name)
    )  # fmt: skip
    unit = options.unit or layout.unit or next((u for line in raw.preamble
                                                if (u := stated_unit(line))), None)  # fmt: skip
    counter = layout.counter if options.is_counter is None else options.is_counter
    plan = Plan(
        time,
        values,
        others if layout.circuits else (),
        unit,
        counter=counter,
        need_all=counter and len(values) > 1,
        keys=tuple(c for c in columns if c.kind == "text" or c.name.lower() == layout.meter),
    )
    if len(values) > 1:
        notes.append(f"Added up: {', '.join(c.name for c in values)}.")
    return raw, plan


def _refuse_source(raw: RawTable, columns: Sequence[Column], path: Path) -> None:
    """Refuse gas, water and heat that only the lines above the header name."""
    text = " ".join(raw.preamble)
    source = find_source(text)
    if source is None or has_word(text, ELECTRIC):
        return
    if not any(c.meaning.unit in ("W", "kW") for c in columns):
        raise DataError(f"{path} holds {source} ({text[:40]!r} above its header).")


@dataclass
class _Clock:
    """Times of all rows, before the zone is applied."""

    ns: IntArray
    good: BoolArray
    aware: bool
    written: IntArray
    stamp: str
    ends: IntArray | None = None
    after_midnight: IntArray | None = None
    remark: str = ""


def _read(
    raw: RawTable,
    plan: Plan,
    layout: Layout | None,
    options: ReadOptions,
    notes: list[str],
    path: Path,
) -> tuple[Series, str]:
    """Select the rows of one series, place its times and take its values."""
    clock = _clock(plan.time, options, path)
    rows = np.flatnonzero(clock.good)
    if rows.size < clock.good.size:
        notes.append(f"{clock.good.size - rows.size} rows without a time were left out.")
    if rows.size == 0:
        raise DataError(f"{path} has no row with a time.")
    choice = _Choice(plan, layout, options, clock, notes, path)
    parts = choice.parts(rows)
    unit = plan.unit or choice.unit
    if unit is None:
        raise DataError(
            f"{path} does not state the unit of {_named(plan)}: state it (--unit W, kW, Wh or kWh)."
        )
    values, circuits = _values(plan, path)
    zone = options.tz or (plan.time.zone if not clock.aware else None)
    stamp = _stamp(clock, parts, options, layout, notes)
    pieces = [_piece(part, clock, zone, values, plan, path) for part in parts]
    times, taken, durations, sentence = _combined(pieces, notes, path)
    factor, energy = unit_factor(unit)
    series = Series(
        times,
        taken,
        layout.format if layout is not None else raw.kind,
        unit,
        factor,
        energy,
        tuple(c.name for c in plan.circuits),
        None,
        durations,
        chosen_s=options.interval_s,
        stamp=stamp,
        counter=plan.counter and energy,
        step=options.step_size or (layout.step if layout is not None else None),
        clock_changes=sentence + clock.remark,
        notes=notes,
    )
    if plan.circuits:
        series.power = np.column_stack([column[pieces[0].rows] for column in circuits])
    _drop_missing(series, path)
    with np.errstate(over="ignore", invalid="ignore"):
        _check_values(series, plan, layout, options, path)
    return series, "metered" if plan.values else "sum of sub-meters"


def _named(plan: Plan) -> str:
    names = [repr(c.name) for c in plan.values or plan.circuits]
    return ", ".join(names[:3])


def _clock(plan: TimePlan, options: ReadOptions, path: Path) -> _Clock:
    """The times of all rows from their columns."""
    data = plan.date.data
    ends = split_range(data) if plan.date.kind == "range" else None
    if plan.date.kind == "number" and _is_text(data):
        import pyarrow as pa

        data = pa.array(to_numbers(data, plan.date.decimal)[0], from_pandas=True)
    stamps = read_stamps(data if ends is None else ends[0], path, options.tz)
    written = stamps.ns if stamps.written is None else stamps.written
    clock = _Clock(stamps.ns, stamps.good, stamps.aware, written, plan.stamp, remark=stamps.remark)
    if ends is not None:
        clock.ends = _range_end(ends[1], stamps.ns, path, options)
    if plan.clock is not None:
        _add_clock(clock, plan, path)
    if plan.end_date is not None and clock.ends is None:
        _add_end(clock, plan, path, options)
    return clock


def _range_end(column: Any, starts: IntArray, path: Path, options: ReadOptions) -> IntArray:
    """The end of a range: a whole time, or a clock on the day of its start."""
    clock = read_clock(column)
    if clock is None:
        return read_stamps(column, path, options.tz).ns
    ends = starts - starts % DAY_NS + clock[0] * SECOND
    return np.where(ends <= starts, ends + DAY_NS, ends)


def _add_clock(clock: _Clock, plan: TimePlan, path: Path) -> None:
    """Add the time of day to dates."""
    column = plan.clock
    assert column is not None
    dates = clock.ns - clock.ns % DAY_NS
    if is_number_of_day(column):
        _add_number(clock, column, dates)
        return
    ends = split_range(column.data) if column.kind == "range" else None
    found = read_clock(column.data if ends is None else ends[0])
    if found is None:
        raise DataError(f"{path}: column {column.name!r} holds no times of the day.")
    seconds, good = found
    clock.good &= good
    known = seconds[clock.good]
    if (known == 86_400).any() and not (known == 0).any():
        # A clock that shows 24:00 and never 00:00 names the end of an interval.
        clock.stamp = "end"
    clock.ns = clock.written = dates + seconds * SECOND
    if ends is not None:
        clock.ends = _range_end(ends[1], clock.ns, path, ReadOptions())


def _add_number(clock: _Clock, column: Column, dates: IntArray) -> None:
    """Add intervals counted from midnight: hours 0 … 23 or 1 … 24 (25 on a long day), quarters."""
    values, _ = to_numbers(column.data, column.decimal)
    clock.good &= np.isfinite(values)
    known = values[clock.good]
    largest, smallest = int(known.max(initial=0)), int(known.min(initial=0))
    from_one = smallest >= 1 and largest in (24, 25, 48, 50, 96, 100, 288, 300)
    a_day = next(n for n in (25, 50, 100, 300) if largest < n + 1)
    a_day = {25: 24, 50: 48, 100: 96, 300: 288}[a_day]
    size = DAY_NS // a_day
    after = (np.where(clock.good, values, 0).astype(np.int64) - from_one) * size
    clock.ns = clock.written = dates + after
    if largest > a_day:
        # Hour 25 is counted from midnight: it is no time on the clock.
        clock.ns = clock.written = dates
        clock.after_midnight = after


def _add_end(clock: _Clock, plan: TimePlan, path: Path, options: ReadOptions) -> None:
    """Add the ends of intervals, on the clock of the starts."""
    assert plan.end_date is not None
    ends = read_stamps(plan.end_date.data, path, options.tz)
    moments = ends.ns
    if plan.end_clock is not None:
        found = read_clock(plan.end_clock.data)
        if found is None:
            return
        moments = moments - moments % DAY_NS + found[0] * SECOND
        if plan.end_date is plan.date:
            moments = np.where(moments <= clock.ns, moments + DAY_NS, moments)
    if ends.aware == clock.aware:
        clock.ends = moments


class _Choice:
    """The rows of the home's consumption, where columns of words tell series apart."""

    def __init__(
        self,
        plan: Plan,
        layout: Layout | None,
        options: ReadOptions,
        clock: _Clock,
        notes: list[str],
        path: Path,
    ) -> None:
        self.plan, self.layout, self.options = plan, layout, options
        self.clock, self.notes, self.path = clock, notes, path
        self.unit: str | None = None
        self._texts: dict[str, Any] = {}

    def parts(self, rows: IntArray) -> list[IntArray]:
        """The rows of every series that is added up: one, or one for each tariff."""
        keys = [c for c in self.plan.keys if not _is_remark(c)]
        if self.options.register is not None and keys:
            rows = self._asked(rows, keys, self.options.register, "register")
        if self.options.meter is not None:
            rows = self._asked(rows, keys, self.options.meter, "meter")
        if self.layout is not None:
            rows = self._one_home(self._kept(rows, self.layout))
        units = [c for c in keys if has_word(c.name, words.UNITS)]
        for column in units:
            rows = self._one_unit(rows, column, keys)
        others = [c for c in keys if c not in units]
        if self.options.register is None:
            for column in others:
                if not _is_meter(column):
                    rows = self._without_other_flows(rows, column)
        for column in others:
            if _is_meter(column) or self._is_home(column):
                self._refuse_meters(rows, column)
        if rows.size == 0:
            raise DataError(f"{self.path} holds no readings of what was asked for.")
        for column in others:
            self._find_unit(rows, column)
        splitting = [c for c in others if not _is_meter(c) and self._splits(rows, c)]
        return self._split(rows, splitting)

    def _values(self, column: Column, rows: IntArray) -> Any:
        """The words of a column in some rows, as an array of text."""
        if column.name not in self._texts:
            texts = [_plain_word(v) for v in column.data.to_pylist()]
            self._texts[column.name] = np.array(texts, dtype=object)
        return self._texts[column.name][rows]

    def _distinct(self, column: Column, rows: IntArray) -> list[str]:
        return sorted(set(self._values(column, rows)) - {""})

    def _asked(self, rows: IntArray, keys: Sequence[Column], asked: str, option: str) -> IntArray:
        """The rows whose meter or register the user chose."""
        wanted = _plain_word(asked).lower()
        order = sorted(keys, key=lambda c: _is_meter(c) != (option == "meter"))
        for column in order:
            same = [v for v in self._distinct(column, rows) if v.lower() == wanted]
            if same:
                return rows[np.isin(self._values(column, rows), same)]
        found = [v for c in order for v in self._distinct(c, rows)[:12]]
        raise DataError(
            f"{self.path} has no {option} {asked!r} (found: {', '.join(found[:24]) or 'none'})."
        )

    def _kept(self, rows: IntArray, layout: Layout) -> IntArray:
        """The rows that a layout reads."""
        named = {c.name.lower(): c for c in self.plan.keys}
        for name, beginnings in layout.keep.items():
            if name in named and self.options.register is None:
                texts = self._values(named[name], rows)
                kept = np.array([t.lower().startswith(beginnings) for t in texts], dtype=np.bool_)
                if not kept.all():
                    self.notes.append(f"Rows of other kinds ({named[name].name}) were left out.")
                rows = rows[kept]
        return rows

    def _one_unit(self, rows: IntArray, column: Column, keys: Sequence[Column]) -> IntArray:
        """Rows of an electric unit; a meter with cubic metres measures gas or water."""
        units = {text: find_unit(text) for text in self._distinct(column, rows)}
        electric = [text for text, unit in units.items() if unit is not None]
        texts = self._values(column, rows)
        others = [t for t in units if units[t] is None and find_source(t) is not None]
        if others:
            meters = [c for c in keys if _is_meter(c)]
            both = not meters or any(
                set(self._values(c, rows[np.isin(texts, others)]))
                & set(self._values(c, rows[np.isin(texts, electric)])) for c in meters
            )  # fmt: skip
            if both or not electric:
                raise DataError(
                    f"{self.path} holds gas or water (unit {others[0]}), not electricity."
                )
        if not electric:
            return rows
        energies = [t for t in electric if (units[t] or "").lower().endswith("wh")] or electric
        if len({units[t] for t in energies}) == 1:
            self.unit = units[energies[0]]
        else:
            raise DataError(
                f"{self.path} mixes the units {', '.join(energies)}: keep the rows of one."
            )
        if len(energies) < len(units):
            left = ", ".join(t for t in units if t not in energies)
            self.notes.append(f"Rows in other units ({left}) were left out.")
        return rows[np.isin(texts, [*energies, ""])]

    def _without_other_flows(self, rows: IntArray, column: Column) -> IntArray:
        """Rows that are not export, production, gas, water or reactive energy."""
        distinct = self._distinct(column, rows)
        if not distinct or len(distinct) > 60:
            return rows
        if len(distinct) == 1 and not has_word(column.name, words.REGISTERS):
            return rows
        flows = {text: read_meaning(text).flow for text in distinct}
        unused = [t for t, flow in flows.items() if flow in ("export", "production", "battery")
                  or find_source(t) or has_word(t, "reactiv reaktiv kvar varh")]  # fmt: skip
        if not unused:
            return rows
        if len(unused) == len(distinct):
            source = next((s for t in unused if (s := find_source(t))), None)
            what = source or "export or production"
            raise DataError(
                f"{self.path} holds only {what} ({column.name}: {', '.join(unused[:5])}), not what "
                "the home used."
            )
        self.notes.append(f"Rows of {', '.join(unused[:8])} were left out ({column.name}).")
        return rows[~np.isin(self._values(column, rows), unused)]

    def _one_home(self, rows: IntArray) -> IntArray:
        """The rows of the home that the user chose, in a data set of many homes."""
        column = next((c for c in self.plan.keys if self._is_home(c)), None)
        if column is None or self.options.building is None:
            return rows
        distinct, asked = self._distinct(column, rows), str(self.options.building)
        if asked not in distinct:
            raise DataError(
                f"{self.path} has no home {asked!r} (found: {', '.join(distinct[:24])})."
            )
        kept: IntArray = rows[self._values(column, rows) == asked]
        return kept

    def _is_home(self, column: Column) -> bool:
        return self.layout is not None and column.name.lower() == self.layout.meter

    def _refuse_meters(self, rows: IntArray, column: Column) -> None:
        distinct = self._distinct(column, rows)
        if len(distinct) < 2 or len(distinct) > 0.5 * rows.size:
            return
        option = "building" if self._is_home(column) else "meter"
        raise DataError(
            f"{self.path} holds {len(distinct)} homes or meters ({column.name}: "
            f"{', '.join(distinct[:12])}): choose one (--{option} NAME)."
        )

    def _find_unit(self, rows: IntArray, column: Column) -> None:
        """Take the unit from the words of the rows, such as Active Import Interval (kWh)."""
        units = {find_unit(text) for text in self._distinct(column, rows)[:60]}
        if self.unit is None and len(units) == 1 and not _is_meter(column):
            self.unit = units.pop()

    def _splits(self, rows: IntArray, column: Column) -> bool:
        """True if rows of one time have different words in this column."""
        distinct = self._distinct(column, rows)
        if len(distinct) < 2 or len(distinct) > 0.5 * rows.size:
            return False
        texts, times = self._values(column, rows), self.clock.ns[rows]
        if self.clock.after_midnight is not None:
            times = times + self.clock.after_midnight[rows]
        codes = np.unique(texts, return_inverse=True)[1]
        order = np.lexsort((codes, times))
        same = (np.diff(times[order]) == 0) & (np.diff(codes[order]) != 0)
        return int(same.sum()) > 0.005 * rows.size

    def _split(self, rows: IntArray, columns: Sequence[Column]) -> list[IntArray]:
        """One part for each tariff; other words must be chosen between by the user."""
        if not columns:
            return [rows]
        column = columns[0]
        texts = self._values(column, rows)
        distinct = self._distinct(column, rows)
        meanings = {text: read_meaning(text) for text in distinct}
        totals = [t for t in distinct if meanings[t].part == "total"]
        parts = [t for t in distinct if meanings[t].part in ("tariff", "phase")]
        if len(totals) == 1 and len(parts) == len(distinct) - 1:
            self.notes.append(f"Only the rows of {totals[0]} were read ({column.name}).")
            return self._split(rows[texts == totals[0]], columns[1:])
        if len(parts) == len(distinct):
            self.notes.append(f"Added up ({column.name}): {', '.join(distinct[:8])}.")
            return [p for t in distinct for p in self._split(rows[texts == t], columns[1:])]
        raise DataError(
            f"{self.path} holds several series ({column.name}: {', '.join(distinct[:12])}): choose "
            "that of the home's use (--register NAME)."
        )


def _plain_word(value: object) -> str:
    """A word without the marks with which files keep spreadsheets from reading a number."""
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip().removeprefix("=").strip("\"'").strip()


def _is_meter(column: Column) -> bool:
    return has_word(column.name, words.METERS) and not has_word(column.name, "type$ typ$ tipo art$")


def _is_remark(column: Column) -> bool:
    return has_word(column.name, words.REMARKS) and not has_word(column.name, words.UNITS)


def _values(plan: Plan, path: Path) -> tuple[FloatArray, list[FloatArray]]:
    """The meter and the circuits in the file's unit; NaN where a reading lacks."""
    circuits = [column.numbers(path) for column in plan.circuits]
    if not plan.values:
        total: FloatArray = np.sum(circuits, axis=0)
        return total, circuits
    columns = [column.numbers(path) for column in plan.values]
    if len(columns) == 1:
        return columns[0], circuits
    missing = missing_rows(columns, plan.need_all or plan.counter)
    total = np.sum([np.nan_to_num(column) for column in columns], axis=0)
    return np.where(missing, np.nan, total), circuits


@dataclass
class _Piece:
    """Rows of one series with their times in UTC."""

    rows: IntArray
    times: IntArray
    values: FloatArray
    durations: FloatArray | None
    clock: str


def _piece(
    rows: IntArray, clock: _Clock, zone: str | None, values: FloatArray, plan: Plan, path: Path
) -> _Piece:
    times, sentence = clock.ns[rows], UTC_CLOCK
    if not clock.aware:
        if zone is None:
            example = np.datetime64(int(times[0]), "ns").astype("datetime64[s]")
            raise DataError(
                f"{path} has times without a zone, such as {example}; write them as UTC, with a Z "
                "at their end, or name their zone (--tz, such as --tz Europe/London)."
            )
        times, exists, sentence = to_utc(times, zone)
        if clock.after_midnight is not None:
            times = times + clock.after_midnight[rows]
        elif not exists.all():
            rows, times = rows[exists], times[exists]
    durations = None
    if clock.ends is not None and not plan.counter:
        durations = (clock.ends[rows] - clock.ns[rows]) / SECOND
    return _Piece(rows, times, values[rows], durations, sentence)


def _combined(
    pieces: Sequence[_Piece], notes: list[str], path: Path
) -> tuple[IntArray, FloatArray, FloatArray | None, str]:
    """The sum of several tariffs at every time; one piece stays as it is."""
    first = pieces[0]
    if len(pieces) == 1:
        return first.times, first.values, first.durations, first.clock
    every = np.unique(np.concatenate([piece.times for piece in pieces]))
    total, known = np.zeros(every.size), np.zeros(every.size, dtype=np.bool_)
    durations = None if first.durations is None else np.zeros(every.size)
    for piece in pieces:
        # Of repeated rows of one tariff the last one counts.
        times, last = np.unique(piece.times[::-1], return_index=True)
        index = piece.times.size - 1 - last
        if piece.times.size - times.size > FEW_REPEATS * times.size:
            when = iso(np.datetime64(int(times[0]), "ns"))
            raise DataError(
                f"{path} has several rows of one register for one time, near {when}: a column of "
                "times may be missing."
            )
        if times.size < piece.times.size:
            notes.append("Rows that repeat a time within one tariff: the last one was kept.")
        place = np.searchsorted(every, times)
        there = np.isfinite(piece.values[index])
        total[place[there]] += piece.values[index][there]
        known[place[there]] = True
        if durations is not None and piece.durations is not None:
            durations[place] = piece.durations[index]
    return every, np.where(known, total, np.nan), durations, first.clock


def _stamp(
    clock: _Clock,
    parts: Sequence[IntArray],
    options: ReadOptions,
    layout: Layout | None,
    notes: list[str],
) -> str:
    """Which end of its interval a time names; a file of whole days shows it by its first time."""
    if options.stamp is not None:
        return options.stamp
    if clock.stamp == "end" or layout is not None or clock.ends is not None:
        return clock.stamp
    moments = _ascending(clock.written[np.concatenate(parts)])
    if moments.size < 24:
        return "start"
    step = int(np.median(np.diff(moments)))
    first, last = int(moments[0] % DAY_NS), int(moments[-1] % DAY_NS)
    if 0 < step < DAY_NS and first == step and last == 0 and DAY_NS % step == 0:
        notes.append("The file covers whole days if its times name ends, so they were read so.")
        return "end"
    return "start"


def _drop_missing(series: Series, path: Path) -> None:
    """Rows without a reading of the meter, or of a circuit, become gaps."""
    if series.power is not None:
        seen: BoolArray = np.asarray(np.isfinite(series.power).any(axis=0))
        if not seen.all():
            empty = [n for n, there in zip(series.names, seen, strict=True) if not there]
            series.notes.append(f"Without any value, so left out: {', '.join(empty[:12])}.")
            series.names = tuple(n for n, there in zip(series.names, seen, strict=True) if there)
            series.power = series.power[:, seen] if seen.any() else None
    missing: BoolArray = ~np.isfinite(series.values)
    if series.power is not None:
        missing = missing | ~np.isfinite(series.power).all(axis=1)
    if missing.any():
        series.notes.append(f"{int(missing.sum())} rows have missing values and became gaps.")
        series.take(np.flatnonzero(~missing))
    if series.times.size == 0:
        raise DataError(f"{path} ({series.format}) has no row in which every column has a value.")


def _check_values(
    series: Series, plan: Plan, layout: Layout | None, options: ReadOptions, path: Path
) -> None:
    """Refuse values that cannot be what the header seems to say; the shape is never changed.

    A file in the project's own layout may be a release. Its noise can make any reading large and
    the mean negative, so only megawatts and milliwatts are refused there.
    """
    if _is_own_layout(plan):
        _refuse_absurd_watts(series.values, path)
        return
    ordered = series.values
    if series.times.size > 1 and int(np.diff(series.times).min()) < 0:
        ordered = ordered[np.argsort(series.times, kind="stable")]
    stated = layout is not None or any(c.meaning.unit in ("W", "kW") for c in plan.values)
    if not (series.counter or stated or options.is_counter is False) and _only_rises(ordered):
        raise DataError(
            f"{path}: {_named(plan)} only rises, as the counter of a meter does: state whether it "
            "is one (--counter yes, with the unit of its energy, or --counter no)."
        )
    hours = _hours(series)
    scale = series.factor / hours if series.energy else series.factor
    if series.counter:
        span = float(series.times.max() - series.times.min()) / SECOND / 3600
        mean = float(ordered[-1] - ordered[0]) * series.factor / span if span else 0.0
    else:
        mean = float(np.mean(series.values)) * scale
    low, high = LIKELY_W if plan.assumed else (LEAST_W, LARGEST_MEAN_W)
    if layout is None and mean < 0 and not series.counter:
        raise DataError(
            f"{path}: {_named(plan)} has a negative mean, as what is fed into the grid or a "
            "balance has; give what the home uses (--value-column or --register)."
        )
    if abs(mean) > high or 0 < abs(mean) < low:
        raise DataError(
            f"{path}: a mean of {mean:.4g} W is not that of a home; check the column and its unit "
            "(--unit)."
        )
    if layout is None and not series.counter:
        _refuse_peak(series, hours, path)
    if layout is None and series.power is not None and mean > 0:
        means = series.power.mean(axis=0) * scale
        if float(means.clip(0).sum()) > 1.5 * mean + 1.0:
            raise DataError(
                f"{path}: the circuits draw {means.clip(0).sum() / mean:.2g} times what the meter "
                "shows, so a column of the meter may be missing: name it (--value-column)."
            )
        if float(means.max()) > 1.05 * mean + 1.0:
            name = series.names[int(np.argmax(means))]
            raise DataError(
                f"{path}: column {name!r} has a larger mean than the meter, so it is no circuit of "
                "the home: name the meter's column (--value-column)."
            )


def _is_own_layout(plan: Plan) -> bool:
    """True for the two columns that `hushmeter.write.write_meter` writes for a release."""
    names = [column.name for column in plan.values]
    return names == ["watts"] and plan.time.names == {"timestamp"} and not plan.circuits


def _refuse_absurd_watts(watts: FloatArray, path: Path) -> None:
    """Refuse watts that neither a home nor its release can have: the unit must be another."""
    mean, largest = abs(float(np.mean(watts))), float(np.abs(watts).max())
    if mean > ABSURD_MEAN_W or 0 < largest < 1:
        raise DataError(
            f"{path}: readings with a mean of {mean:.4g} W and up to {largest:.4g} W are not those "
            "of a home in watts; check their unit (--unit)."
        )


def _refuse_peak(series: Series, hours: float, path: Path) -> None:
    """Refuse a reading that no home draws, such as the total of a month among hours."""
    lengths: float | FloatArray = 1.0
    if series.energy:
        lengths = hours if series.durations is None else np.maximum(series.durations / 3600, hours)
    watts = np.abs(series.values) * series.factor / lengths
    largest = int(np.argmax(watts))
    if float(watts[largest]) > LARGEST_READING_W:
        when = iso(np.datetime64(int(series.times[largest]), "ns"))
        raise DataError(
            f"{path}: the reading at {when} is {watts[largest]:.4g} W, which no home draws: it may "
            "be a total, or the unit may be wrong (--unit)."
        )


def _ascending(times: IntArray) -> IntArray:
    """Different times in their order; sorting is skipped where they already are."""
    if times.size < 2 or int(np.diff(times).min()) > 0:
        return times
    ordered: IntArray = np.sort(times)
    different: IntArray = ordered[np.append(True, np.diff(ordered) > 0)]
    return different


def _hours(series: Series) -> float:
    """Length of a reading [h], for a check of its size."""
    if series.durations is not None:
        return max(float(np.median(series.durations)), 1.0) / 3600
    steps = np.diff(_ascending(series.times))
    return float(np.median(steps)) / SECOND / 3600 if steps.size else 1.0


def _only_rises(values: FloatArray) -> bool:
    """True for a long series that never falls, or a short one that rises by little."""
    steps = np.diff(values)
    if steps.size == 0 or float(steps.min()) < 0:
        return False
    rises = int((steps > 0).sum())
    little = float(values[-1] - values[0]) < 0.2 * float(values[0])
    return rises >= MANY_RISES or (rises >= 3 and little)


def _day_rows(
    columns: Sequence[Column], options: ReadOptions, path: Path
) -> tuple[list[Column], RawTable] | None:
    """A table with one row for each day as one with a row for each time; None if it is not."""
    import pyarrow as pa

    dates = [c for c in columns if c.kind == "date"]
    if options.time_column is not None:
        dates = [c for c in [find_named(columns, options.time_column, path)] if c.kind == "date"]
    if not dates:
        return None
    found = _times_of_day([c.name for c in columns])
    if found is None:
        return None
    places, offsets = found
    cells = [columns[i] for i in places]
    if any(c.kind not in ("number", "empty") for c in cells):
        return None
    stamps = read_stamps(dates[0].data, path, options.tz)
    days = stamps.ns.size
    moments = (stamps.ns[:, None] + offsets[None, :]).ravel()
    good = np.repeat(stamps.good, offsets.size)
    values = np.column_stack([c.numbers(path) for c in cells]).ravel()
    rows = np.repeat(np.arange(days), offsets.size)
    unit = find_unit(" ".join(f"{c.context} {c.name}" for c in cells[:1]))
    time = Column("start", "", pa.array(moments.astype("datetime64[ns]"), mask=~good), ".", "time")
    value = Column(
        f"values ({unit})" if unit else "values", "", pa.array(values, from_pandas=True), ".",
        "number",
    )  # fmt: skip
    kept = [c for i, c in enumerate(columns) if i not in set(places) and c is not dates[0]]
    keys = [replace(c, data=c.data.take(pa.array(rows))) for c in kept if c.kind == "text"
            or (c.kind == "number" and _is_meter(c))]  # fmt: skip
    table = [time, value, *keys]
    data = pa.table([c.data for c in table], names=[c.name for c in table])
    return table, RawTable(data, kind="table with one row for each day")


def _times_of_day(names: Sequence[str]) -> tuple[list[int], IntArray] | None:
    """Columns that are times of a day, and their starts after midnight [ns]."""
    clocks = [(i, re.match(r"\D*?(\d{1,2})[:.h](\d{2})(?!\d)", n)) for i, n in enumerate(names)]
    timed = [(i, int(m[1]) * 60 + int(m[2])) for i, m in clocks if m is not None]
    if len(timed) in (24, 25, 48, 50, 96, 100, 288, 300):
        places, minutes = [i for i, _ in timed], np.array([m for _, m in timed])
        step = 1440 // {25: 24, 50: 48, 100: 96, 300: 288}.get(len(timed), len(timed))
        if minutes[0] == step and minutes[-1] in (0, 1440):
            minutes = np.where(minutes == 0, 1440, minutes) - step
        if len(timed) in (24, 48, 96, 288) and (minutes == step * np.arange(len(timed))).all():
            return places, minutes.astype(np.int64) * 60 * SECOND
        return None
    matches = [(i, NUMBERED.fullmatch(name.strip())) for i, name in enumerate(names)]
    numbered = [(i, int(match[1])) for i, match in matches if match is not None]
    places, counts = [i for i, _ in numbered], [number for _, number in numbered]
    for first in (0, 1):
        if len(counts) in (24, 48, 96, 288) and counts == list(range(first, first + len(counts))):
            size = DAY_NS // len(counts)
            return places, size * np.arange(len(counts), dtype=np.int64)
    return None


__all__ = ["load_table", "read_columns", "read_table", "series_of_table"]
