"""The columns of a table: what they hold, what their headers mean, and the times of its rows.

A table with one row for each day is turned into one with a row for each time.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.clock import SECOND
from hushmeter.errors import DataError, InputError
from hushmeter.read.cells import Cells, Table, joined, unique_names
from hushmeter.read.headers import (
    Layout,
    Meaning,
    find_unit,
    has_word,
    is_missing,
    load_words,
    read_meaning,
    split_words,
)
from hushmeter.read.recording import Task, unit_factor
from hushmeter.read.source import read_head, read_parquet, refuse_faults
from hushmeter.read.text_table import RawTable, load_text
from hushmeter.read.times import read_clock, read_stamps, split_range
from hushmeter.trace import SECONDS_PER_DAY, SECONDS_PER_HOUR

SAMPLE = 200
CELL_UNIT = re.compile(r"\s*(?P<number>[-+]?[\d.,' ]*\d[.,]?)\s*(?P<unit>[kM]?Wh?)\s*", re.ASCII)
BLANKS = re.compile("[ \t\n\r\f\u00a0\u202f']")
NAMELESS = re.compile(r"column_\d+|Unnamed: \d+")
PARQUET_MAGIC = b"PAR1"
BALANCE_ROUNDING = 0.02
# No counter of a home shows more, in whatever unit; sums of such numbers stay finite.
LARGEST_NUMBER = 1e15
DAY_NS = SECONDS_PER_DAY * SECOND
# The lists of words of headers of times, and what such a time is
ROLES = {"other_times": "other", "middles": "middle", "ends": "end", "starts": "start"}
# How many intervals a day has, and one of 25 hours has
WHOLE_DAYS, LONG_DAYS = (24, 48, 96, 288), {25: 24, 50: 48, 100: 96, 300: 288}
HEADER_CLOCK = re.compile(r"(?i)\D*?(\d{1,2})[:.h](\d{2})(?::\d{2})?(?!\d)\s*(?:([ap])\.?m)?")
NUMBERED = re.compile(r"(?i)(?:[a-z]{1,8}[ _.]*){0,3}0*(\d{1,3})(?:[ _]*\(?k?wh\)?)?")


@dataclass
class Column:
    """One column of a table."""

    # Its header, and the texts of further header rows above it
    name: str
    context: str
    data: Cells
    decimal: str  # The decimal mark of numbers that are text
    kind: str = "text"  # time, date, clock, range, number, text or empty
    aware: bool = False  # For times: whether they carry their zone
    # Where cells carry a unit of their own: `cell_unit` in one unit of every cell
    factors: FloatArray | None = None
    cell_unit: str | None = None  # W or Wh, where cells carry a unit of their own
    counts_hours: bool = False  # True for the hours of the dates beside it, whatever its name

    @cached_property
    def meaning(self) -> Meaning:
        """What its header says, with the unit of its cells where they carry one."""
        meaning = read_meaning(self.name, self.context)
        return meaning if self.cell_unit is None else replace(meaning, unit=self.cell_unit)

    @property
    def role(self) -> str:
        """For times: "start", "middle", "end", "other" (such as a date of revision) or "plain"."""
        return next((role for words, role in ROLES.items() if has_word(self.name, words)), "plain")

    @property
    def names_meter(self) -> bool:
        """True if its header names a meter, a metering point or a customer."""
        return has_word(self.name, "meters") and not has_word(self.name, "kinds")

    def numbers(self, task: Task) -> FloatArray:
        """The values of the column; NaN where a cell is empty."""
        values, odd = to_numbers(self.data, self.decimal)
        if self.factors is not None:
            odd = odd | (np.isnan(self.factors) & (values != 0) & np.isfinite(values))
            values = values * np.where(np.isnan(self.factors), 1.0, self.factors)
        if odd.any():
            # A gap is public, and a word such as >2000 follows from the value.
            row = int(np.argmax(odd))
            raise task.error(
                f": column {self.name!r} is {str(self.data[row])[:40]!r} in row {row}"
                ", neither a number nor a mark of a missing value: write 1234.5, or name the "
                "meter's column (`value_column=`)."
            )
        absurd = np.abs(values) > LARGEST_NUMBER
        if absurd.any():
            row = int(np.argmax(absurd))
            raise task.error(
                f": column {self.name!r} is {values[row]:g} in row {row}, which no meter shows: "
                "correct it, or name the meter's column (`value_column=`)."
            )
        return values


def to_numbers(data: Cells, decimal: str) -> tuple[FloatArray, BoolArray]:
    """A column as float64 with NaN for missing cells, and where a cell is something else.

    Text is read with the decimal mark of the file; the other mark, blanks and apostrophes may
    separate thousands.
    """
    if data.kind in "iuf":
        return data.floats(), np.zeros(len(data), dtype=np.bool_)
    if not data.is_text:
        return np.full(len(data), np.nan), data.good
    other = "." if decimal == "," else ","
    point, mark = re.escape(decimal), re.escape(other)
    whole = rf"(?:[1-9]\d{{0,2}}(?:{mark}\d{{3}})+|\d+)(?:{point}\d*)?|{point}\d+"
    pattern = re.compile(rf"[-+]?(?:{whole})(?:[eE][-+]?\d+)?", re.ASCII)

    def number(text: str) -> float:
        plain = BLANKS.sub("", text)
        fits = pattern.fullmatch(plain) is not None
        return float(plain.replace(other, "").replace(decimal, ".")) if fits else np.nan

    texts = data.values.tolist()
    found = {text: number(text) for text in dict.fromkeys(texts)}
    odd = {text for text, value in found.items() if value != value and not is_missing(text.strip())}
    values = np.array([found[text] for text in texts], dtype=np.float64)
    if not odd:
        return values, np.zeros(len(data), dtype=np.bool_)
    return values, np.array([text in odd for text in texts], dtype=np.bool_)


def classify(task: Task, raw: RawTable) -> list[Column]:
    """The columns of a table, with what they hold."""
    columns = []
    for i, (name, cells) in enumerate(raw.data.items()):
        column = Column(name, raw.context[i] if raw.context else "", cells, raw.decimal)
        split = _split_units(column)
        if split is not None and _text_kind(task, split) == "number":
            column = split
        column.kind = _kind(task, column)
        if column.kind == "number" and is_unix(column) and _are_dates(task, column):
            column.kind = "date"
        columns.append(column)
    columns = _with_joined_date(columns)
    _find_hours(columns)
    return _with_directions(columns)


def _with_joined_date(columns: list[Column]) -> list[Column]:
    """A year, a month and a day in three columns as one column of dates."""
    parts = ("year", "month", "day")
    named = [c for c in columns if c.kind == "number" and len(split_words(c.name)) == 1]
    found = [column for part in parts for column in named if has_word(column.name, part)]
    if len(found) != len(parts) or any(c.kind in ("time", "date", "range") for c in columns):
        return columns
    numbers = [to_numbers(c.data, c.decimal)[0] for c in found]
    texts = [f"{y:04.0f}-{m:02.0f}-{d:02.0f}" for y, m, d in zip(*numbers, strict=True)]
    date = Column("date", "", Cells.of(texts), ".", "date")
    return [date, *(c for c in columns if c not in found)]


def _find_hours(columns: Sequence[Column]) -> None:
    """Mark the hours beside the only column of dates, where no name says which column has them.

    They are whole numbers 0 … 23 or 1 … 24 that rise by one from row to row of a date.
    """
    dates = [c for c in columns if c.kind == "date"]
    timed = any(c.kind in ("time", "clock", "range") or is_number_of_day(c) for c in columns)
    if len(dates) != 1 or timed:
        return
    data = dates[0].data
    same = data.good[1:] == data.good[:-1]
    same &= (data.values[1:] == data.values[:-1]) | ~data.good[1:]
    for column in columns:
        if column.kind != "number" or column.meaning.unit is not None:
            continue
        values, _ = to_numbers(column.data, column.decimal)
        apart = np.diff(values)[same]
        whole = np.array_equal(np.unique(values) - values.min(initial=25), np.arange(24))
        if whole and values.min() in (0, 1) and bool(np.isin(apart, (0, 1)).all()):
            column.counts_hours = True
            return


def _with_directions(columns: list[Column]) -> list[Column]:
    """Abbreviations that say what was drawn and what was fed in only beside each other."""
    for drawn, fed in load_words()["pairs"]:
        named = {word: [c for c in columns if word in split_words(c.name)] for word in (drawn, fed)}
        if all(named.values()):
            for word, flow in ((drawn, "import"), (fed, "export")):
                for column in named[word]:
                    column.context = f"{column.context} {flow}"
                    column.__dict__.pop("meaning", None)
    return columns


def _split_units(column: Column) -> Column | None:
    """The column without the units in its cells (412 W, 2.31 kW); None if no cell has one.

    Every cell counts by its own unit: which unit a cell has may follow from its value, so neither
    the unit of the column nor the place of the first such cell decides anything.
    """
    if not column.data.is_text:
        return None
    texts = column.data.known().distinct()
    # Most texts, such as times, end with a digit.
    matches = {text: CELL_UNIT.fullmatch(text) for text in texts if not text[-1:].isdigit()}
    units = {match["unit"] for match in matches.values() if match is not None}
    if not units or len({unit.endswith("h") for unit in units}) > 1:
        return None
    base = "Wh" if units.pop().endswith("h") else "W"
    stated = find_unit(f"{column.context} {column.name}")
    same = stated is not None and stated.endswith("h") == base.endswith("h")
    plain = unit_factor(stated)[0] if stated is not None and same else np.nan
    found = [matches.get(text) for text in column.data.tolist()]
    factors = np.array([plain if match is None else unit_factor(match["unit"])[0]
                        for match in found])  # fmt: skip
    data = Cells.of([text if match is None else match["number"]
                     for text, match in zip(column.data.tolist(), found, strict=True)])  # fmt: skip
    return replace(column, data=data, factors=factors, cell_unit=base)


def _kind(task: Task, column: Column) -> str:
    data = column.data
    if not data.good.any():
        return "empty"
    if data.kind == "M":
        column.aware = data.aware
        return "date" if not data.aware and read_stamps(data, task.path).dates_only else "time"
    if not data.is_text:
        return {"m": "clock", "b": "text"}.get(data.kind, "number")
    return _text_kind(task, column)


def _are_dates(task: Task, column: Column) -> bool:
    """True for dates in digits, such as 20240131."""
    if column.data.is_text:
        return False
    try:
        return read_stamps(column.data, task.path).dates_only
    except DataError:
        return False


def _text_kind(task: Task, column: Column) -> str:
    """What a column of text holds: numbers by all of its cells, times by a sample."""
    data = column.data.known()
    values, odd = to_numbers(data, column.decimal)
    numbers = int(np.isfinite(values).sum())
    stated = find_unit(f"{column.context} {column.name}") is not None or column.cell_unit
    half = has_word(column.name, "values") and numbers > 0.5 * odd.size
    if numbers and (stated or half or odd.sum() <= 0.1 * odd.size):
        return "number"
    sample = data.take(slice(SAMPLE))
    # A unit above several columns does not make text a quantity.
    if find_unit(column.name) or column.cell_unit:
        return "text"
    if read_clock(sample) is not None:
        return "clock"
    ends = split_range(sample)
    try:
        if ends is not None and read_clock(ends[0]) is not None:
            return "range"
        stamps = read_stamps(sample if ends is None else ends[0], task.path)
    except DataError:
        return "text"
    if ends is not None:
        return "range"
    if stamps.good.sum() < 0.9 * len(sample):
        return "text"
    column.aware = stamps.aware
    return "date" if stamps.dates_only else "time"


def is_unix(column: Column) -> bool:
    """True for numbers under a header of times, such as unix_ts."""
    if column.kind != "number" or column.meaning.unit is not None or is_number_of_day(column):
        return False
    if has_word(column.name, "circuits") or column.meaning.flow == "price":
        return False
    weak = has_word(column.name, "weak_stamps", *ROLES) and not has_word(column.name, "values")
    # "Usage date" is a time, and "usage by day" is none.
    plain = has_word(column.name, "stamps")
    return (plain and not column.meaning.flow) or (
        (plain or weak) and _are_as_large_as_times(column)
    )


def is_nameless_time(column: Column) -> bool:
    """True for the first column of a table without a header, if it holds unix times or dates."""
    nameless = column.kind == "number" and NAMELESS.fullmatch(column.name) is not None
    return nameless and _are_as_large_as_times(column)


def _are_as_large_as_times(column: Column) -> bool:
    """True if all numbers may be unix times or dates in digits."""
    values, _ = to_numbers(column.data, column.decimal)
    known = values[np.isfinite(values)]
    return known.size > 0 and float(known.min()) >= 1e7 and float(known.max()) < 1e19


def is_number_of_day(column: Column) -> bool:
    """True for whole numbers up to 300 under a header such as Hour or Period."""
    named = column.counts_hours or has_word(column.name, "numbers_of_day")
    if column.kind != "number" or not named:
        return False
    values, odd = to_numbers(column.data, column.decimal)
    known = values[np.isfinite(values)]
    whole = known.size > 0 and not odd.any() and bool((known == np.floor(known)).all())
    return whole and float(known.min()) >= 0 and float(known.max()) <= 300


def find_named(task: Task, columns: Sequence[Column], asked: str) -> Column:
    """The column that an option names."""
    name = task.chooser("column", "value_column", InputError).asked(
        (c.name for c in columns), asked
    )
    return next(column for column in columns if column.name == name)


def load_table(task: Task, texts: Collection[str] = ()) -> RawTable:
    """The whole table of a CSV or Parquet file, before its columns are understood."""
    path = task.path
    faults = (OSError, UnicodeError, OverflowError, LookupError)
    with refuse_faults(f"{path} is neither a CSV nor a Parquet table", *faults):
        if read_head(path, 4) == PARQUET_MAGIC:
            raw = RawTable(read_parquet(path), kind="Parquet table")
        else:
            raw = load_text(path, texts, task.options.decimal_mark)
    return whole_table(task, raw)


def whole_table(task: Task, raw: RawTable) -> RawTable:
    """The table with the rows of its further blocks, and without empty rows."""
    data, notes = _joined(task, raw)
    raw = _below_each_other(replace(raw, data=data, blocks=(), notes=notes))
    raw = _with_dates_of_headings(task, _without_empty_rows(raw))
    if not raw.rows:
        raise task.error(f"holds no readings, only the columns {', '.join(list(raw.data)[:8])}.")
    return raw


def _joined(task: Task, raw: RawTable) -> tuple[Table, tuple[str, ...]]:
    """The rows of all blocks under the same header, or the chosen block; and the notes."""
    if not raw.blocks:
        return raw.data, raw.notes
    tables = [raw.data, *(block.data for block in raw.blocks)]
    asked = task.options.register
    if asked is not None and asked.isdigit() and 1 <= int(asked) <= len(tables):
        return tables[int(asked) - 1], raw.notes
    drawn = _drawn_block(task, raw)
    if drawn is not None:
        note = f"Of {len(tables)} tables of the same times, the one of drawn energy was read."
        return drawn, (*raw.notes, note)
    first, *others = (set(next(iter(table.values())).tolist()) for table in tables)
    if any(len(first & other) > 0.5 * len(first) for other in others):
        raise task.error(
            f"holds {len(tables)} tables of the same times, such as import, export and "
            f"balance: choose one by its number (`register=1` … {len(tables)})."
        )
    return joined(tables), raw.notes


def _drawn_block(task: Task, raw: RawTable) -> Table | None:
    """The block of drawn energy among blocks of the same times, of which one is fed in.

    Some utilities give several tables with one title: what was drawn (never negative), what was
    fed in (never positive) and their sum. All have the same times, so that the choice changes
    nothing public. None if the blocks are not of this kind.
    """
    blocks = [classify(task, replace(raw, data=block.data, blocks=()))
              for block in (raw, *raw.blocks)]  # fmt: skip
    cells = [[column.data.tolist() for column in block] for block in blocks]
    differ = [i for i in range(len(cells[0])) if any(block[i] != cells[0][i] for block in cells)]
    if len(differ) != 1 or any(block[differ[0]].kind != "number" for block in blocks):
        return None
    values = [block[differ[0]].numbers(task) for block in blocks]
    drawn = [i for i, own in enumerate(values) if not (own < 0).any()]
    fed = [i for i, own in enumerate(values) if (own < 0).any() and not (own > 0).any()]
    if len(drawn) != 1 or len(fed) != 1:
        return None
    balance = values[drawn[0]] + values[fed[0]]
    rest = [own for i, own in enumerate(values) if i not in (drawn[0], fed[0])]
    if not all(np.allclose(own, balance, atol=BALANCE_ROUNDING, equal_nan=True) for own in rest):
        return None
    return (raw, *raw.blocks)[drawn[0]].data


def _below_each_other(raw: RawTable) -> RawTable:
    """Two tables of the same columns that stand beside each other, one below the other."""
    names, half = list(raw.data), len(raw.data) // 2
    twice = [*names[:half], *(f"{name}_2" for name in names[:half])]
    if half < 2 or twice != names or raw.context[:half] != raw.context[half:]:
        return raw
    halves = [{name: raw.data[f"{name}{end}"] for name in names[:half]} for end in ("", "_2")]
    return replace(raw, data=joined(halves), context=raw.context[:half])


def _with_dates_of_headings(task: Task, raw: RawTable) -> RawTable:
    """Times of the day under rows that hold a date alone, with a column of these dates."""
    clocks = ((n, read_clock(cells)) for n, cells in raw.data.items() if cells.is_text)
    place, clock = next((pair for pair in clocks if pair[1] is not None), ("", None))
    if clock is None or clock[1].all() or clock[1][0]:
        return raw
    headings = np.flatnonzero(~clock[1])
    above = {name: cells.take(headings) for name, cells in raw.data.items()}
    empty = not any(cells.good.any() for name, cells in above.items() if name != place)
    written = Column("date", "", above[place], raw.decimal)
    if not empty or _kind(task, written) != "date":
        return raw
    last = np.searchsorted(headings, np.flatnonzero(clock[1])) - 1
    name, *_ = unique_names(["date", *raw.data])
    data = {**raw.taken(clock[1]), name: written.data.take(last)}
    return replace(raw, data=data, context=(*raw.context, "") if raw.context else ())


def _without_empty_rows(raw: RawTable) -> RawTable:
    """Leave out rows that hold nothing but delimiters, as spreadsheets write them."""
    if not raw.data or any(cells.good.all() for cells in raw.data.values()):
        return raw
    filled = np.logical_or.reduce([cells.good for cells in raw.data.values()])
    return replace(raw, data=raw.taken(filled))


@dataclass
class TimePlan:
    """Columns of the times."""

    date: Column  # Dates, or complete times; for a range the column of both ends
    # Time of day, or the number of an interval in the day, that belongs to `date`
    clock: Column | None = None
    # The same for the end of the interval
    end_date: Column | None = None
    end_clock: Column | None = None
    stamp: str = "start"
    zone: str | None = None  # Zone that a header names
    # The order of day and month in all times of the table; None if no row shows it
    day_first: bool | None = None

    @property
    def names(self) -> set[str]:
        """Names of all its columns."""
        parts = (self.date, self.clock, self.end_date, self.end_clock)
        return {part.name for part in parts if part is not None}


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


def read_row_times(task: Task, plan: TimePlan) -> RowTimes:
    """The times of all rows from their columns."""
    data = plan.date.data
    ends = split_range(data) if plan.date.kind == "range" else None
    if plan.date.kind == "number" and data.is_text:
        data = Cells.of(to_numbers(data, plan.date.decimal)[0])
    starts = data if ends is None else ends[0]
    stamps = read_stamps(starts, task.path, task.options.tz, plan.day_first)
    written = stamps.ns if stamps.written is None else stamps.written
    clock = RowTimes(
        stamps.ns, stamps.good, stamps.aware, written, plan.stamp, remark=stamps.remark
    )
    if ends is not None:
        clock.ends = _range_end(task, ends[1], stamps.ns, plan.day_first)
    if plan.clock is not None:
        _add_clock(task, clock, plan)
    if plan.end_date is not None and clock.ends is None:
        _add_end(task, clock, plan)
    return clock


def _range_end(
    task: Task, column: Cells, starts: IntArray, day_first: bool | None = None
) -> IntArray:
    """The end of a range: a whole time, or a clock on the day of its start."""
    clock = read_clock(column)
    if clock is None:
        return read_stamps(column, task.path, task.options.tz, day_first).ns
    lengths = (clock[0] * SECOND - starts) % DAY_NS
    usual = int(np.median(lengths[lengths > 0])) if (lengths > 0).any() else DAY_NS
    # Before the hour that the clock shows twice, a range seems to end before it starts.
    back = lengths == (usual - SECONDS_PER_HOUR * SECOND) % DAY_NS
    return starts + np.where(back | (lengths == 0), usual, lengths)


def _add_clock(task: Task, clock: RowTimes, plan: TimePlan) -> None:
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
        raise task.error(f": column {column.name!r} holds no times of the day.")
    seconds, good = found
    clock.good &= good
    known = seconds[clock.good]
    if (known == SECONDS_PER_DAY).any() and not (known == 0).any():
        # A clock that shows 24:00 and never 00:00 names the end of an interval.
        clock.stamp = "end"
    last = _is_end_of_day(dates, seconds) & clock.good
    if last.any():
        clock.stamp, seconds = "end", seconds + SECONDS_PER_DAY * last
    clock.ns = clock.written = dates + seconds * SECOND
    if ends is not None:
        clock.ends = _range_end(task, ends[1], clock.ns)


def _is_end_of_day(dates: IntArray, seconds: IntArray) -> BoolArray:
    """Where 00:00 stands behind the other times of its date, and so means the end of the day."""
    # Days may stand in another order than the times inside them.
    rises = np.sign(np.diff(seconds))[np.diff(dates) == 0].sum()
    step = 1 if rises >= 0 else -1
    dates, seconds = dates[::step], seconds[::step]
    same, zero = np.diff(dates) == 0, seconds == 0
    behind = np.append(False, same & (seconds[:-1] > 0))
    before = np.append(same & (seconds[1:] > 0), False)
    if not (zero & behind).any() or (zero & before).any():
        zero[:] = False
    return np.asarray(zero[::step])


def _add_number(clock: RowTimes, column: Column, dates: IntArray) -> None:
    """Add intervals counted from midnight: hours 0 … 23 or 1 … 24 (25 on a long day), quarters."""
    values, _ = to_numbers(column.data, column.decimal)
    clock.good &= np.isfinite(values)
    known = values[clock.good]
    largest, smallest = int(known.max(initial=0)), int(known.min(initial=300))
    last = largest in (*WHOLE_DAYS, *LONG_DAYS)
    from_one = smallest >= 1 and (last or column.role == "end")
    a_day = next(LONG_DAYS[n] for n in LONG_DAYS if largest < n + 1)
    size = DAY_NS // a_day
    after = (np.where(clock.good, values, 0).astype(np.int64) - from_one) * size
    clock.ns = clock.written = dates + after
    if from_one or largest > a_day:
        clock.after_midnight = after
    # A number names an interval and not its end: the hour that ends at 1 is the first one.
    clock.stamp = "start" if from_one else clock.stamp


def _add_end(task: Task, clock: RowTimes, plan: TimePlan) -> None:
    """Add the ends of intervals, on the clock of the starts."""
    assert plan.end_date is not None
    ends = read_stamps(plan.end_date.data, task.path, task.options.tz, plan.day_first)
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


def find_stamp(task: Task, clock: RowTimes, rows: IntArray, layout: Layout | None) -> str:
    """Which point of its interval a time names; a file of whole days shows it by its first time."""
    if task.options.stamp is not None:
        return task.options.stamp
    if clock.stamp != "start" or layout is not None or clock.ends is not None:
        return clock.stamp
    moments = ascending(clock.written if rows.size == clock.written.size else clock.written[rows])
    if moments.size < 24 or int(moments[-1]) % DAY_NS:
        return "start"
    first, step = int(moments[0]) % DAY_NS, int(np.median(np.diff(moments)))
    if 0 < step < DAY_NS and first == step and DAY_NS % step == 0:
        task.notes.append(
            "The file covers whole days if its times name ends, so they were read so."
        )
        return "end"
    return "start"


def ascending(times: IntArray) -> IntArray:
    """Different times in their order; sorting is skipped where they already are."""
    if times.size < 2 or int(np.diff(times).min()) > 0:
        return times
    ordered: IntArray = np.sort(times)
    different: IntArray = ordered[np.append(True, np.diff(ordered) > 0)]
    return different


def spread_days(task: Task, columns: Sequence[Column]) -> tuple[list[Column], RawTable] | None:
    """A table with one row for each day as one with a row for each time; None if it is not."""
    dates = [c for c in columns if c.kind == "date"]
    if task.options.time_column is not None:
        dates = [
            c for c in [find_named(task, columns, task.options.time_column)] if c.kind == "date"
        ]
    places = times_of_day([c.name for c in columns]) if dates else None
    if places is None:
        return None
    cells = [columns[i] for i in places]
    asked = (task.options.value_column or "").strip().lower()
    if asked and asked in {c.name.strip().lower() for c in columns} - {
        c.name.lower() for c in cells
    }:
        return None
    if any(c.kind not in ("number", "empty") for c in cells):
        return None
    stamps = read_stamps(dates[0].data, task.path, task.options.tz)
    order = np.argsort(stamps.ns, kind="stable")
    values = np.column_stack([c.numbers(task) for c in cells])[order].ravel()
    number = np.tile(np.arange(len(cells)) + 1.0, order.size)
    # The last hour of a day of 25 hours is empty on all other days.
    there = np.isfinite(values) | (number <= LONG_DAYS.get(len(cells), len(cells)))
    values, number = values[there], number[there]
    rows = np.repeat(order, len(cells))[there]
    unit = find_unit(" ".join(f"{c.context} {c.name}" for c in cells[:1]))
    date = replace(dates[0], data=dates[0].data.take(rows))
    hour = Column("hour", "", Cells.of(number), ".", "number", counts_hours=True)
    value = Column(
        f"values ({unit})" if unit else "values", "", Cells.of(values), ".",
        "number",
    )  # fmt: skip
    # What stands between the times of the day, such as marks of quality, belongs to single values.
    inside = range(min(places), max(places) + 2)
    kept = [c for i, c in enumerate(columns) if c is not dates[0]
            and not (i in places or (i in inside and c.kind == "text"))]  # fmt: skip
    keys = [replace(c, data=c.data.take(rows)) for c in kept if c.kind == "text"
            or (c.kind == "number" and c.names_meter)]  # fmt: skip
    table = [date, hour, value, *keys]
    data = {c.name: c.data for c in table}
    return table, RawTable(data, kind="table with one row for each day")


def _minutes(clock: re.Match[str]) -> int:
    """Minutes after midnight of a clock in a header; 12 AM is midnight."""
    hour, half = int(clock[1]), (clock[3] or "").lower()
    return (hour % 12 + 12 * (half == "p") if half else hour) * 60 + int(clock[2])


def times_of_day(names: Sequence[str]) -> list[int] | None:
    """Columns that are the intervals of a day, from midnight on."""
    clocks = [(i, HEADER_CLOCK.match(name)) for i, name in enumerate(names)]
    timed = [(i, _minutes(match)) for i, match in clocks if match is not None]
    if len(timed) in WHOLE_DAYS:
        step = 1440 // len(timed)
        minutes = [minute for _, minute in timed]
        ends = [*range(step, 1440, step), 0]
        if minutes in (list(range(0, 1440, step)), ends, [*ends[:-1], 1440]):
            return [i for i, _ in timed]
        return None
    matches = [(i, NUMBERED.fullmatch(name.strip())) for i, name in enumerate(names)]
    numbered = [(i, match) for i, match in matches if match is not None]
    # Beside numbers alone, numbers behind a letter are marks of the values.
    for group in (numbered, [(i, match) for i, match in numbered if match.start(1) == 0]):
        counts = [int(match[1]) for _, match in group]
        known = len(counts) in (*WHOLE_DAYS, *LONG_DAYS) and counts[0] in (0, 1)
        if known and counts == list(range(counts[0], counts[0] + len(counts))):
            return [i for i, _ in group]
    return None
