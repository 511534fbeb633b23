"""The columns of a table: what they hold (times, numbers or words) and what their headers mean."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from hushmeter.checks import BoolArray, FloatArray
from hushmeter.errors import DataError, InputError
from hushmeter.read import words
from hushmeter.read.options import unit_factor
from hushmeter.read.text_table import MISSING, RawTable
from hushmeter.read.times import read_clock, read_stamps, split_range
from hushmeter.read.words import Meaning, find_unit, has_word, read_meaning

SAMPLE = 200
CELL_UNIT = r"^\s*(?P<number>[-+]?[\d.,' ]*\d[.,]?)\s*(?P<unit>[kM]?Wh?)\s*$"
NAMELESS = re.compile(r"column_\d+|Unnamed: \d+")


@dataclass
class Column:
    """One column of a table."""

    # Its header, and the texts of further header rows above it
    name: str
    context: str
    data: Any
    decimal: str  # The decimal mark of numbers that are text
    kind: str = "text"  # time, date, clock, range, number, text or empty
    aware: bool = False  # For times: whether they carry their zone
    # Where cells carry a unit of their own: `cell_unit` in one unit of every cell
    factors: FloatArray | None = None
    cell_unit: str | None = None  # W or Wh, where cells carry a unit of their own

    @cached_property
    def meaning(self) -> Meaning:
        """What its header says, with the unit of its cells where they carry one."""
        meaning = read_meaning(self.name, self.context)
        return meaning if self.cell_unit is None else replace(meaning, unit=self.cell_unit)

    @property
    def role(self) -> str:
        """For times: "start", "end", "other" (such as a date of revision) or "plain"."""
        if has_word(self.name, words.OTHER_TIMES):
            return "other"
        if has_word(self.name, words.ENDS):
            return "end"
        return "start" if has_word(self.name, words.STARTS) else "plain"

    @property
    def names_meter(self) -> bool:
        """True if its header names a meter, a metering point or a customer."""
        kinds = "type$ typ$ tipo art$"
        return has_word(self.name, words.METERS) and not has_word(self.name, kinds)

    def numbers(self, path: Path) -> FloatArray:
        """Its values; NaN where a cell is empty."""
        values, odd = to_numbers(self.data, self.decimal)
        if self.factors is not None:
            odd = odd | (np.isnan(self.factors) & (values != 0) & np.isfinite(values))
            values = values * np.where(np.isnan(self.factors), 1.0, self.factors)
        if odd.any():
            # A gap is public, and a word such as >2000 follows from the value.
            row = int(np.argmax(odd))
            raise DataError(
                f"{path}: column {self.name!r} is {str(self.data[row].as_py())[:40]!r} in row {row}"
                ", neither a number nor a mark of a missing value: write 1234.5, or name the "
                "meter's column (--value-column)."
            )
        if np.isinf(values).any():
            row = int(np.argmax(np.isinf(values)))
            raise DataError(f"{path}: column {self.name!r} is {values[row]} in row {row}.")
        return values


def to_numbers(data: Any, decimal: str) -> tuple[FloatArray, BoolArray]:
    """A column as float64 with NaN for missing cells, and where a cell is something else.

    Text is read with the decimal mark of the file; the other mark, blanks and apostrophes may
    separate thousands.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = data.type
    if pa.types.is_null(kind):
        return np.full(len(data), np.nan), np.zeros(len(data), dtype=np.bool_)
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        if not (numeric or pa.types.is_decimal(kind)):
            return np.full(len(data), np.nan), _mask(data.is_valid())
        values: FloatArray = data.cast(pa.float64()).to_numpy(zero_copy_only=False)
        return values, np.zeros(len(data), dtype=np.bool_)
    text = pc.replace_substring_regex(data.cast(pa.string()), "[\\s\u00a0\u202f']", "")
    other = "." if decimal == "," else ","
    point, mark = re.escape(decimal), re.escape(other)
    whole = rf"(?:[1-9]\d{{0,2}}(?:{mark}\d{{3}})+|\d+)(?:{point}\d*)?|{point}\d+"
    good = pc.match_substring_regex(text, rf"^[-+]?(?:{whole})(?:[eE][-+]?\d+)?$")
    plain = pc.replace_substring(pc.replace_substring(text, other, ""), decimal, ".")
    numbers = pc.if_else(good, plain, None).cast(pa.float64())
    values = numbers.to_numpy(zero_copy_only=False)
    marks = pc.utf8_lower(pc.utf8_trim_whitespace(data.cast(pa.string())))
    missing = pc.is_in(marks, pa.array(sorted(MISSING)))
    bad = pc.and_(pc.invert(pc.or_(good, missing)), pc.is_valid(data))
    return values, _mask(bad)


def _mask(flags: Any) -> BoolArray:
    """Arrow's flags as an array; a null is False."""
    return np.asarray(flags.fill_null(False).to_numpy(zero_copy_only=False), dtype=np.bool_)


def is_text(data: Any) -> bool:
    """Return True if an Arrow column holds text."""
    from pyarrow import types

    return bool(types.is_string(data.type) or types.is_large_string(data.type))


def classify(raw: RawTable, path: Path) -> list[Column]:
    """The columns of a table, with what they hold."""
    columns = []
    for i, name in enumerate(raw.data.column_names):
        column = Column(
            name, raw.context[i] if raw.context else "", raw.data.column(i), raw.decimal
        )
        split = _split_units(column)
        if split is not None and _text_kind(split, path) == "number":
            column = split
        column.kind = _kind(column, path)
        if column.kind == "number" and is_unix(column) and _are_dates(column, path):
            column.kind = "date"
        columns.append(column)
    return columns


def _split_units(column: Column) -> Column | None:
    """The column without the units in its cells (412 W, 2.31 kW); None if no cell has one.

    Every cell counts by its own unit: which unit a cell has may follow from its value, so neither
    the unit of the column nor the place of the first such cell decides anything.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not is_text(column.data):
        return None
    text = pa.chunked_array([column.data.cast(pa.string())]) if not isinstance(
        column.data, pa.ChunkedArray) else column.data.cast(pa.string())  # fmt: skip
    whole = pa.concat_arrays(text.chunks) if text.num_chunks else pa.array([], pa.string())
    parts = pc.extract_regex(whole, CELL_UNIT)
    units = parts.field("unit").filter(parts.is_valid()).unique().to_pylist()
    if not units or len({unit.endswith("h") for unit in units}) > 1:
        return None
    base = "Wh" if units[0].endswith("h") else "W"
    stated = find_unit(f"{column.context} {column.name}")
    same = stated is not None and stated.endswith("h") == base.endswith("h")
    sizes = {unit: unit_factor(unit)[0] for unit in (*units, *([stated] if same else []))}
    plain = sizes[stated] if stated is not None and same else np.nan
    found = pc.if_else(parts.is_valid(), parts.field("unit"), None).to_pylist()
    factors = np.array([plain if unit is None else sizes[unit] for unit in found])
    data = pc.if_else(parts.is_valid(), parts.field("number"), whole)
    return replace(column, data=data, factors=factors, cell_unit=base)


def _kind(column: Column, path: Path) -> str:
    from pyarrow import types

    data = column.data
    if data.null_count == len(data) or types.is_null(data.type):
        return "empty"
    if types.is_date(data.type):
        return "date"
    if types.is_time(data.type):
        return "clock"
    if types.is_timestamp(data.type):
        column.aware = data.type.tz is not None
        return "date" if not column.aware and read_stamps(data, path).dates_only else "time"
    if types.is_integer(data.type) or types.is_floating(data.type) or types.is_decimal(data.type):
        return "number"
    if not (types.is_string(data.type) or types.is_large_string(data.type)):
        return "text"
    return _text_kind(column, path)


def _are_dates(column: Column, path: Path) -> bool:
    """True for dates in digits, such as 20240131."""
    if is_text(column.data):
        return False
    try:
        return read_stamps(column.data, path).dates_only
    except DataError:
        return False


def _text_kind(column: Column, path: Path) -> str:
    """What a column of text holds: numbers by all of its cells, times by a sample."""
    data = column.data.drop_null()
    values, odd = to_numbers(data, column.decimal)
    numbers = int(np.isfinite(values).sum())
    stated = find_unit(f"{column.context} {column.name}") is not None or column.cell_unit
    half = has_word(column.name, words.VALUES) and numbers > 0.5 * odd.size
    if numbers and (stated or half or odd.sum() <= 0.1 * odd.size):
        return "number"
    sample = data.slice(0, SAMPLE)
    if read_clock(sample) is not None:
        return "clock"
    if split_range(sample) is not None:
        return "range"
    try:
        stamps = read_stamps(sample, path)
    except DataError:
        return "text"
    if stamps.good.sum() < 0.9 * len(sample):
        return "text"
    column.aware = stamps.aware
    return "date" if stamps.dates_only else "time"


def is_unix(column: Column) -> bool:
    """True for numbers under a header of times, such as unix_ts."""
    if column.kind != "number" or column.meaning.unit is not None or is_number_of_day(column):
        return False
    if has_word(column.name, words.STAMPS):
        return True
    weak = has_word(column.name, words.WEAK_STAMPS) and not has_word(column.name, words.VALUES)
    return weak and _are_as_large_as_times(column)


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
    if column.kind != "number" or not has_word(column.name, words.NUMBERS_OF_DAY):
        return False
    values, odd = to_numbers(column.data, column.decimal)
    known = values[np.isfinite(values)]
    whole = known.size > 0 and not odd.any() and bool((known == np.floor(known)).all())
    return whole and float(known.min()) >= 0 and float(known.max()) <= 300


def find_named(columns: Sequence[Column], asked: str, path: Path) -> Column:
    """The column that an option names."""
    wanted = asked.strip().lower()
    for column in columns:
        if column.name.strip().lower() == wanted:
            return column
    found = ", ".join(c.name for c in columns[:20])
    raise InputError(f"{path} has no column {asked!r} (found: {found}).")
