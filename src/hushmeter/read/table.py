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
from hushmeter.clock import SECOND
from hushmeter.errors import DataError
from hushmeter.formatting import count_of
from hushmeter.read.columns import Column, classify, is_text, to_numbers
from hushmeter.read.layouts import Layout, find_layout
from hushmeter.read.options import DECIMALS, Circuits, ReadOptions, unit_factor
from hushmeter.read.plan import Plan, TimePlan, plan_columns, stated_unit
from hushmeter.read.plausibility import refuse_implausible
from hushmeter.read.recording import Series
from hushmeter.read.regular import FEW_REPEATS
from hushmeter.read.row_times import RowTimes, ascending, find_stamp, read_row_times, spread_days
from hushmeter.read.selection import RowChoice
from hushmeter.read.source import read_head, read_parquet
from hushmeter.read.text_table import RawTable, load_text, unique_names
from hushmeter.read.times import UTC_CLOCK, find_zone, read_stamps, to_utc
from hushmeter.read.words import ZONES, find_source, has_word
from hushmeter.trace import SECONDS_PER_HOUR, iso

PARQUET_MAGIC = b"PAR1"
HOUR = SECONDS_PER_HOUR * SECOND
BALANCE_ROUNDING = 0.02
ELECTRIC = "electric elektri stroom strom elec$ luz$ kwh kw elettric sahko el$"


def read_table(
    path: Path, options: ReadOptions, *, circuits: Circuits = "leave"
) -> tuple[Series, str]:
    """Read a CSV or Parquet table."""
    return series_of_table(load_table(path, options), options, path, circuits=circuits)


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
    return whole_table(raw, options, path)


def whole_table(raw: RawTable, options: ReadOptions | None, path: Path) -> RawTable:
    """The table with the rows of its further blocks, and without empty rows."""
    data, notes = _joined(raw, options, path)
    raw = replace(raw, data=_without_empty_rows(data), blocks=(), notes=notes)
    if raw.data.num_rows == 0:
        raise DataError(
            f"{path} holds no readings, only the columns {', '.join(raw.data.column_names[:8])}."
        )
    return raw


def read_columns(path: Path, times: Collection[str] = ()) -> Any:
    """Read a table as it is, without deciding what its columns mean.

    The same rules hold as for meter readings: the delimiter, the decimal mark, the encoding, the
    row of the header and gzip are found from the content.
    """
    import pyarrow as pa

    if not path.is_file():
        raise DataError(f"{path} does not exist.")
    raw = load_table(path, texts=times)
    table = raw.data
    for i, column in enumerate(classify(raw, path)):
        if column.kind == "empty" or (column.kind == "number" and is_text(column.data)):
            values, _ = to_numbers(column.data, raw.decimal)
            table = table.set_column(i, column.name, pa.array(values, from_pandas=True))
        elif column.name.lower() in times and _is_other_date(column):
            stamps = read_stamps(column.data, path)
            moments = pa.array(stamps.ns.astype("datetime64[ns]"), mask=~stamps.good)
            table = table.set_column(i, column.name, moments)
    return table


def _is_other_date(column: Column) -> bool:
    """True for text with times in another order than that of ISO 8601."""
    if column.kind not in ("time", "date") or not is_text(column.data):
        return False
    first = next((value.as_py() for value in column.data if value.is_valid), "")
    return re.match(r"\d{4}-", first) is None


def _joined(raw: RawTable, options: ReadOptions | None, path: Path) -> tuple[Any, tuple[str, ...]]:
    """The rows of all blocks under the same header, or the chosen block; and the notes."""
    import pyarrow as pa

    if not raw.blocks:
        return raw.data, raw.notes
    tables = [raw.data, *(block.data for block in raw.blocks)]
    asked = None if options is None else options.register
    if asked is not None and asked.isdigit() and 1 <= int(asked) <= len(tables):
        return tables[int(asked) - 1], raw.notes
    drawn = _drawn_block(raw, path)
    if drawn is not None:
        note = f"Of {len(tables)} tables of the same times, the one of drawn energy was read."
        return drawn, (*raw.notes, note)
    first, *others = (set(table.column(0).to_pylist()) for table in tables)
    if any(len(first & other) > 0.5 * len(first) for other in others):
        raise DataError(
            f"{path} holds {len(tables)} tables of the same times, such as import, export and "
            f"balance: choose one by its number (--register 1 … {len(tables)})."
        )
    return pa.concat_tables(tables, promote_options="permissive"), raw.notes


def _drawn_block(raw: RawTable, path: Path) -> Any | None:
    """The block of drawn energy among blocks of the same times, of which one is fed in.

    Some utilities give several tables with one title: what was drawn (never negative), what was
    fed in (never positive) and their sum. All have the same times, so that the choice changes
    nothing public. None if the blocks are not of this kind.
    """
    blocks = [classify(replace(raw, data=block.data, blocks=()), path)
              for block in (raw, *raw.blocks)]  # fmt: skip
    cells = [[column.data.to_pylist() for column in block] for block in blocks]
    differ = [i for i in range(len(cells[0])) if any(block[i] != cells[0][i] for block in cells)]
    if len(differ) != 1 or any(block[differ[0]].kind != "number" for block in blocks):
        return None
    values = [block[differ[0]].numbers(path) for block in blocks]
    drawn = [i for i, own in enumerate(values) if not (own < 0).any()]
    fed = [i for i, own in enumerate(values) if (own < 0).any() and not (own > 0).any()]
    if len(drawn) != 1 or len(fed) != 1:
        return None
    balance = values[drawn[0]] + values[fed[0]]
    rest = [own for i, own in enumerate(values) if i not in (drawn[0], fed[0])]
    if not all(np.allclose(own, balance, atol=BALANCE_ROUNDING, equal_nan=True) for own in rest):
        return None
    return (raw, *raw.blocks)[drawn[0]].data


def _without_empty_rows(table: Any) -> Any:
    """Leave out rows that hold nothing but delimiters, as spreadsheets write them."""
    import pyarrow.compute as pc

    if not table.num_columns or not all(column.null_count for column in table.columns):
        return table
    filled = functools.reduce(pc.or_, (pc.is_valid(column) for column in table.columns))
    return table.filter(filled)


@dataclass
class PlannedTable:
    """A table whose columns are understood."""

    raw: RawTable
    plan: Plan
    layout: Layout | None
    notes: list[str]
    regular: bool = False  # True if the layout states that the table has a row for every interval


def series_of_table(
    raw: RawTable, options: ReadOptions, path: Path, *, circuits: Circuits = "leave"
) -> tuple[Series, str]:
    """Understand the columns of a table and read its series."""
    return read_plan(plan_table(raw, options, path, circuits=circuits), options, path)


def plan_table(
    raw: RawTable, options: ReadOptions, path: Path, *, circuits: Circuits = "leave"
) -> PlannedTable:
    """Decide which columns hold the times, the meter and its circuits; see `series_of_table`."""
    notes = list(raw.notes)
    names = frozenset(name.lower() for name in raw.data.column_names)
    asked = options.time_column is not None or options.value_column is not None
    layout = None if asked or not raw.has_header else find_layout(names)
    if layout is not None:
        raw, plan = _by_layout(raw, layout, options, notes, path)
        regular = layout.regular
    else:
        columns = classify(raw, path)
        daily = spread_days(columns, options, path) if raw.has_header else None
        if daily is not None:
            columns, raw = daily
            notes.append("One row holds a day; its columns were read as times of the day.")
        regular = daily is not None
        _refuse_source(raw, columns, path)
        plan = plan_columns(raw, columns, options, path, homes=circuits == "sum")
    if plan.time.zone is None:
        plan.time.zone = _stated_zone(raw.preamble)
    notes.extend(plan.notes)
    if circuits == "leave":
        # What a release publishes must not depend on circuits, so they are not even read.
        plan = replace(plan, circuits=())
    return PlannedTable(raw, plan, layout, notes, regular)


def _stated_zone(preamble: Sequence[str]) -> str | None:
    """The time zone that a line above the header names, such as "Time zone: Europe/Berlin"."""
    lines = (line for line in preamble if has_word(line, ZONES))
    return next((zone for line in lines if (zone := find_zone(line)) is not None), None)


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
        exports=tuple(c for c in columns if c.kind == "number" and c.meaning.flow == "export"),
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


def read_plan(table: PlannedTable, options: ReadOptions, path: Path) -> tuple[Series, str]:
    """Select the rows of one series, place its times and take its values."""
    plan, layout, notes = table.plan, table.layout, table.notes
    _refuse_changes(plan, options, path)
    clock = read_row_times(plan.time, options, path)
    rows = np.flatnonzero(clock.good)
    if rows.size < clock.good.size:
        left = clock.good.size - rows.size
        one, many = "row without a time was left out.", "rows without a time were left out."
        notes.append(count_of(left, one, many))
    if rows.size == 0:
        raise DataError(f"{path} has no row with a time.")
    choice = RowChoice(plan, layout, options, clock, notes, path)
    parts = choice.parts(rows)
    unit = plan.unit or choice.unit
    if unit is None:
        raise DataError(
            f"{path} does not state the unit of {plan.value_names}: state it "
            "(--unit W, kW, Wh or kWh)."
        )
    values, circuits = _values(plan, path)
    values[choice.idle] = 0.0
    zone = options.tz or (plan.time.zone if not clock.aware else None)
    stamp = find_stamp(clock, parts, options, layout, notes)
    factor, energy = unit_factor(unit)
    pieces = [
        _piece(part, clock, zone, values, path, energy=energy and not plan.counter)
        for part in parts
    ]
    times, taken, durations, sentence = _combined(pieces, notes, path)
    series = Series(
        times,
        taken,
        layout.format if layout is not None else table.raw.kind,
        unit,
        factor,
        energy,
        tuple(c.name for c in plan.circuits),
        None,
        None if plan.counter else durations,
        chosen_s=options.interval_s,
        stamp=stamp,
        counter=plan.counter and energy,
        step=options.step_size or (layout.step if layout is not None else None),
        clock_changes=sentence + clock.remark,
        zone=options.tz or plan.time.zone,
        complete=options.changes == "no" or table.regular,
        notes=notes,
    )
    if options.changes == "yes":
        return _of_changes(series, options, path), "metered"
    if plan.circuits:
        series.power = np.column_stack([column[pieces[0].rows] for column in circuits])
    _drop_missing(series, path)
    with np.errstate(over="ignore", invalid="ignore"):
        refuse_implausible(series, plan, layout, options, path)
    return series, "metered" if plan.values else "sum of sub-meters"


def _refuse_changes(plan: Plan, options: ReadOptions, path: Path) -> None:
    """Refuse a table of changes that has the ends of intervals: it has intervals."""
    if options.changes == "yes" and plan.time.end_date is not None:
        raise DataError(
            f"{path} has the start and the end of every reading, so it holds no changes: leave "
            "--changes yes out."
        )


def _of_changes(series: Series, options: ReadOptions, path: Path) -> Series:
    """The readings of a table that has a row only where the value changed."""
    from hushmeter.read.changes import Changes, change_series

    if series.energy and not series.counter:
        raise DataError(
            f"{path} is in {series.unit}: a table of changes holds power, or the values of a "
            "counter (--counter yes)."
        )
    changes = Changes("The meter", series.times / SECOND, series.values, series.unit, series.format)
    found = change_series(changes, options, path)
    found.notes = [*series.notes, *found.notes]
    found.zone, found.clock_changes = series.zone, series.clock_changes
    return found


def _values(plan: Plan, path: Path) -> tuple[FloatArray, list[FloatArray]]:
    """The meter and the circuits in the file's unit; NaN where a reading lacks."""
    circuits = [column.numbers(path) for column in plan.circuits]
    if not plan.values:
        total: FloatArray = np.sum(circuits, axis=0)
        return total, circuits
    columns = [column.numbers(path) for column in plan.values]
    missing = _missing_rows(columns, plan.need_all or plan.counter)
    total = np.sum([np.nan_to_num(column) for column in columns], axis=0)
    if not plan.counter:
        # A portal may leave the cell of what was drawn empty where energy was fed in: whether it
        # does follows from the value, so that such a cell counts as nothing drawn and not as a gap.
        for column in plan.exports:
            fed, odd = to_numbers(column.data, column.decimal)
            missing &= ~(np.isfinite(fed) | odd)
    return np.where(missing, np.nan, total), circuits


def _missing_rows(columns: Sequence[FloatArray], need_all: bool) -> BoolArray:
    """Rows without a reading: one value lacks (phases), or all lack (tariffs)."""
    lacks = np.column_stack([~np.isfinite(column) for column in columns])
    return np.asarray(lacks.any(axis=1) if need_all else lacks.all(axis=1), dtype=np.bool_)


@dataclass
class _Piece:
    """Rows of one series with their times in UTC."""

    rows: IntArray
    times: IntArray
    values: FloatArray
    durations: FloatArray | None
    clock: str


def _piece(
    rows: IntArray,
    clock: RowTimes,
    zone: str | None,
    values: FloatArray,
    path: Path,
    *,
    energy: bool,
) -> _Piece:
    """Rows with their times and lengths in UTC; `energy` is true for energies of intervals."""
    times, sentence = clock.ns[rows], UTC_CLOCK
    if clock.aware:
        ends = None if clock.ends is None else clock.ends[rows]
    else:
        if zone is None:
            example = np.datetime64(int(times[0]), "ns").astype("datetime64[s]")
            raise DataError(
                f"{path} has times without a zone, such as {example}; write them as UTC, with a Z "
                "at their end, or name their zone (--tz, such as --tz Europe/London)."
            )
        times, exists, sentence = to_utc(times, zone)
        ends = None if clock.ends is None else _ends_in_utc(clock, rows, times, zone)
        if clock.after_midnight is not None:
            times = times + clock.after_midnight[rows]
        else:
            if energy:
                exists &= ~_shown_once(clock.ns[rows], times, zone)
            rows, times = rows[exists], times[exists]
            ends = None if ends is None else ends[exists]
    durations = None if ends is None else (ends - times) / SECOND
    return _Piece(rows, times, values[rows], durations, sentence)


def _ends_in_utc(clock: RowTimes, rows: IntArray, times: IntArray, zone: str) -> IntArray:
    """Ends of intervals in UTC; a short row is as long as its two clock times or UTC say.

    In the hour that the clock shows twice, the end of an hour is written as that of the second.
    """
    assert clock.ends is not None
    ends = to_utc(clock.ends[rows], zone)[0]
    local = clock.ends[rows] - clock.ns[rows]
    short = (local > 0) & (local <= 2 * HOUR) & (ends - times > local)
    return np.where(short, times + local, ends)


def _shown_once(local: IntArray, times: IntArray, zone: str) -> BoolArray:
    """True in an hour that the clock shows twice if the file has only one of the two.

    Such a row of an hour or less may hold the energy of both hours.
    """
    again = to_utc(local + HOUR, zone)[0]
    twice: BoolArray = again - times == 2 * HOUR
    apart = np.diff(ascending(times))
    if apart.size == 0 or float(np.median(apart)) > HOUR or not twice.any():
        return np.zeros(times.size, dtype=np.bool_)
    alone: BoolArray = twice & ~np.isin(times + HOUR, times)
    return alone


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
            _refuse_different(piece, path)
            notes.append("Rows that repeat a time within one tariff: one of each was kept.")
        place = np.searchsorted(every, times)
        there = np.isfinite(piece.values[index])
        total[place[there]] += piece.values[index][there]
        known[place[there]] = True
        if durations is not None and piece.durations is not None:
            durations[place] = piece.durations[index]
    return every, np.where(known, total, np.nan), durations, first.clock


def _refuse_different(piece: _Piece, path: Path) -> None:
    """Refuse rows of one register that repeat a time with another value."""
    order = np.argsort(piece.times, kind="stable")
    same = np.diff(piece.times[order]) == 0
    differ = same & (np.abs(np.diff(piece.values[order])) > 1e-9)
    if differ.any():
        when = iso(np.datetime64(int(piece.times[order][np.argmax(differ)]), "ns"))
        raise DataError(
            f"{path} has different values of one register for one time, first at {when}: keep one "
            "row for each time."
        )


def _drop_missing(series: Series, path: Path) -> None:
    """Rows without a reading of the meter, or of a circuit of a home, become gaps."""
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
        rows = count_of(int(missing.sum()), "row has a missing value", "rows have missing values")
        series.notes.append(f"{rows}: these times are gaps.")
        series.lacks = True
        series.take(np.flatnonzero(~missing))
    if series.times.size == 0:
        raise DataError(f"{path} ({series.format}) has no row in which every column has a value.")


__all__ = [
    "PlannedTable",
    "load_table",
    "plan_table",
    "read_columns",
    "read_plan",
    "read_table",
    "series_of_table",
    "whole_table",
]
