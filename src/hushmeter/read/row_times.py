"""The time of every row of a table, from its columns of dates, clocks, numbers and ends.

A table with one row for each day is turned into one with a row for each time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hushmeter.checks import BoolArray, IntArray
from hushmeter.clock import SECOND
from hushmeter.errors import DataError
from hushmeter.read.columns import Column, find_named, is_number_of_day, is_text, to_numbers
from hushmeter.read.layouts import Layout
from hushmeter.read.options import ReadOptions
from hushmeter.read.plan import TimePlan
from hushmeter.read.text_table import RawTable
from hushmeter.read.times import read_clock, read_stamps, split_range
from hushmeter.read.words import find_unit
from hushmeter.trace import SECONDS_PER_DAY

DAY_NS = SECONDS_PER_DAY * SECOND
NUMBERED = re.compile(r"(?i)(?:[a-z]{1,8}[ _.]*)?0*(\d{1,3})(?:[ _]*\(?k?wh\)?)?")


@dataclass
class RowTimes:
    """Times of all rows, before the zone is applied."""

    ns: IntArray
    good: BoolArray
    aware: bool
    written: IntArray
    stamp: str
    ends: IntArray | None = None
    after_midnight: IntArray | None = None
    remark: str = ""


def read_row_times(plan: TimePlan, options: ReadOptions, path: Path) -> RowTimes:
    """The times of all rows from their columns."""
    data = plan.date.data
    ends = split_range(data) if plan.date.kind == "range" else None
    if plan.date.kind == "number" and is_text(data):
        import pyarrow as pa

        data = pa.array(to_numbers(data, plan.date.decimal)[0], from_pandas=True)
    stamps = read_stamps(data if ends is None else ends[0], path, options.tz)
    written = stamps.ns if stamps.written is None else stamps.written
    clock = RowTimes(
        stamps.ns, stamps.good, stamps.aware, written, plan.stamp, remark=stamps.remark
    )
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


def _add_clock(clock: RowTimes, plan: TimePlan, path: Path) -> None:
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
    if (known == SECONDS_PER_DAY).any() and not (known == 0).any():
        # A clock that shows 24:00 and never 00:00 names the end of an interval.
        clock.stamp = "end"
    clock.ns = clock.written = dates + seconds * SECOND
    if ends is not None:
        clock.ends = _range_end(ends[1], clock.ns, path, ReadOptions())


def _add_number(clock: RowTimes, column: Column, dates: IntArray) -> None:
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


def _add_end(clock: RowTimes, plan: TimePlan, path: Path, options: ReadOptions) -> None:
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


def find_stamp(
    clock: RowTimes,
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
    moments = ascending(clock.written[np.concatenate(parts)])
    if moments.size < 24:
        return "start"
    step = int(np.median(np.diff(moments)))
    first, last = int(moments[0] % DAY_NS), int(moments[-1] % DAY_NS)
    if 0 < step < DAY_NS and first == step and last == 0 and DAY_NS % step == 0:
        notes.append("The file covers whole days if its times name ends, so they were read so.")
        return "end"
    return "start"


def ascending(times: IntArray) -> IntArray:
    """Different times in their order; sorting is skipped where they already are."""
    if times.size < 2 or int(np.diff(times).min()) > 0:
        return times
    ordered: IntArray = np.sort(times)
    different: IntArray = ordered[np.append(True, np.diff(ordered) > 0)]
    return different


def spread_days(
    columns: Sequence[Column], options: ReadOptions, path: Path
) -> tuple[list[Column], RawTable] | None:
    """A table with one row for each day as one with a row for each time; None if it is not."""
    import pyarrow as pa

    dates = [c for c in columns if c.kind == "date"]
    if options.time_column is not None:
        dates = [c for c in [find_named(columns, options.time_column, path)] if c.kind == "date"]
    if not dates:
        return None
    found = times_of_day([c.name for c in columns])
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
            or (c.kind == "number" and c.names_meter)]  # fmt: skip
    table = [time, value, *keys]
    data = pa.table([c.data for c in table], names=[c.name for c in table])
    return table, RawTable(data, kind="table with one row for each day")


def times_of_day(names: Sequence[str]) -> tuple[list[int], IntArray] | None:
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
