"""The columns of a text table, whose form is known, as numpy arrays.

They are read with `csv` and numpy, or with pyarrow where it is installed; both give the same
arrays. The environment variable `HUSHMETER_ARROW=0` keeps this module from using pyarrow.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushmeter.errors import DataError
from hushmeter.read.cells import Cells, Table, of_arrow
from hushmeter.read.headers import load_words
from hushmeter.read.source import (
    MAX_FIELD,
    STREAM_CAP,
    MemoryFile,
    arrow_source,
    is_gzip,
    open_stream,
    read_parquet,
)

TRUE, FALSE = {"1", "true", "True", "TRUE"}, {"0", "false", "False", "FALSE"}
INTEGER = re.compile(r"[ \t]*(?:-?\d+|(0[xX][\da-fA-F]+))[ \t]*", re.ASCII)
DECIMAL = r"[-+]?(?:\d+{mark}?\d*|{mark}\d+)(?:[eE][-+]?\d+)?|[-+]?(?i:inf|infinity|nan)"
DATE = r"\d{4}-\d\d-\d\d"
CLOCK = r"\d\d(?::\d\d(?::\d\d(?:\.\d{1,9})?)?)?"
DAY = re.compile(rf"[ \t]*({DATE})[ \t]*", re.ASCII)
TIME_OF_DAY = re.compile(r"[ \t]*((?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d)?)[ \t]*", re.ASCII)
LOCAL = re.compile(rf"({DATE}(?:[ T]{CLOCK})?)", re.ASCII)
ZONED = re.compile(rf"({DATE}[ T]{CLOCK})(Z|[-+](?:[01]\d|2[0-3])(?::?[0-5]\d)?)", re.ASCII)
# Times with fractions of a second that nanoseconds of 64 bits can hold
NS_YEARS = range(1678, 2262)


@dataclass(frozen=True)
class TextForm:
    """How a text table is written."""

    encoding: str
    delimiter: str
    names: Sequence[str]
    first: int = 0  # Lines above the first row
    decimal: str = "."
    texts: Collection[str] = ()  # Columns that stay text, in lower case


def load_cells(path: Path, form: TextForm) -> Table | None:
    """The columns of a text table; None if a row has another number of cells than the first."""
    return _by_csv(path, form) if arrow() is None else _by_arrow(path, form)


def arrow() -> Any | None:
    """The package pyarrow, if it is installed and may be used for text tables."""
    if os.environ.get("HUSHMETER_ARROW") == "0":
        return None
    try:
        import pyarrow
    except ImportError:
        return None
    return pyarrow


def _by_arrow(path: Path, form: TextForm) -> Table | None:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    plain = "utf8" if form.encoding == "utf-8-sig" else form.encoding
    names = list(form.names)
    settings = {
        "read_options": arrow_csv.ReadOptions(
            skip_rows=form.first, column_names=names, encoding=plain
        ),
        "parse_options": arrow_csv.ParseOptions(delimiter=form.delimiter),
        "convert_options": arrow_csv.ConvertOptions(
            decimal_point=form.decimal,
            null_values=load_words()["missing"],
            strings_can_be_null=True,
            column_types={name: pa.string() for name in names if name.lower() in form.texts},
        ),
    }
    try:
        if is_gzip(path):
            with open_stream(path, STREAM_CAP) as stream:
                table = arrow_csv.read_csv(stream, **settings)
        else:
            table = arrow_csv.read_csv(arrow_source(path), **settings)
    except (pa.ArrowException, UnicodeError, OverflowError, LookupError):
        return None
    return of_arrow(table)


def _by_csv(path: Path, form: TextForm) -> Table | None:
    try:
        with open_stream(path, STREAM_CAP) as stream:
            columns = _split(stream, form)
    except (csv.Error, UnicodeError, LookupError):
        return None
    if columns is None:
        return None
    named = zip(form.names, columns, strict=True)
    return {name: infer(cells, form.decimal, text=name.lower() in form.texts)
            for name, cells in named}  # fmt: skip


def _split(stream: Any, form: TextForm) -> list[list[str]] | None:
    """The texts of every column; None if a row has another number of cells."""
    csv.field_size_limit(MAX_FIELD)
    width, cells = len(form.names), list[str]()
    text = io.TextIOWrapper(stream, form.encoding, "backslashreplace", newline="")
    for row in csv.reader(islice(text, form.first, None), delimiter=form.delimiter):
        if len(row) == width:
            cells += row
        elif row:
            return None
    return [cells[i::width] for i in range(width)]


def infer(texts: Sequence[str], decimal: str = ".", *, text: bool = False) -> Cells:
    """A column of a text table: of the first kind that fits all of its cells."""
    marks = frozenset(load_words()["missing"])
    good = np.array([cell not in marks for cell in texts], dtype=np.bool_)
    known = texts if good.all() else [cell for cell in texts if cell not in marks]
    if not known and not text:
        return Cells(np.full(len(texts), np.nan), good)
    found, aware = (None, False) if text else _typed(known, decimal)
    if found is None:
        return Cells.of([None if cell in marks else cell for cell in texts])
    cells = Cells(found, good, aware)
    if len(known) == len(texts):
        return cells
    values = cells.empty(len(texts)).values
    values[good] = found
    return Cells(values, good, aware)


def _typed(texts: Sequence[str], decimal: str) -> tuple[NDArray[Any] | None, bool]:
    """Texts as integers, flags, numbers, dates, clocks or times, and whether these have zones."""
    found: NDArray[Any] | None = None
    if all(map(INTEGER.fullmatch, texts)):
        found = _integers(texts)
    elif set(texts) <= TRUE | FALSE:
        found = np.array([cell in TRUE for cell in texts])
    if found is not None:
        return found, False
    number = re.compile(rf"[ \t]*(?:{DECIMAL.format(mark=re.escape(decimal))})[ \t]*", re.ASCII)
    if all(map(number.fullmatch, texts)):
        plain = texts if decimal == "." else [cell.replace(decimal, ".") for cell in texts]
        return np.array(list(map(float, plain))), False
    if clocks := _all_matches(TIME_OF_DAY, texts):
        parts = (match[1].split(":") for match in clocks)
        seconds = [3600 * int(h) + 60 * int(m) + sum(map(int, rest)) for h, m, *rest in parts]
        return np.array(seconds, dtype="m8[s]"), False
    for pattern in (DAY, LOCAL):
        if local := _all_matches(pattern, texts):
            return _moments([match[1] for match in local]), False
    zoned = _all_matches(ZONED, texts)
    moments = _moments([match[1] for match in zoned]) if zoned else None
    ahead = {zone: _seconds_ahead(zone) for zone in {match[2] for match in zoned}}
    if moments is None or not any(ahead.values()):
        return moments, True
    return moments - np.array([ahead[match[2]] for match in zoned], dtype="m8[s]"), True


def _integers(texts: Sequence[str]) -> NDArray[Any] | None:
    """Integers of 64 bits, also in base 16; None if one is larger."""
    try:
        return np.array(list(map(int, texts)), dtype=np.int64)
    except OverflowError:
        return None
    except ValueError:
        values = [int(cell, 16 if "x" in cell.lower() else 10) for cell in texts]
        return np.array(values, dtype=np.int64)


def _all_matches(pattern: re.Pattern[str], texts: Sequence[str]) -> list[re.Match[str]]:
    """The matches of all texts; none if one does not fit."""
    found = []
    for cell in texts:
        match = pattern.fullmatch(cell)
        if match is None:
            return []
        found.append(match)
    return found


def _moments(texts: Sequence[str]) -> NDArray[Any] | None:
    """Dates or times as datetime64 in days, seconds or nanoseconds; None if one does not exist."""
    longest = max(map(len, texts))
    unit = "D" if longest == 10 else "s" if longest <= 19 else "ns"
    if unit == "ns" and any(int(cell[:4]) not in NS_YEARS for cell in texts):
        return None
    try:
        return np.array(texts, dtype="S").astype(f"M8[{unit}]")
    except ValueError:
        return None


def _seconds_ahead(zone: str) -> int:
    """Seconds that an offset is ahead of UTC."""
    digits = "0000" if zone == "Z" else f"{zone[1:].replace(':', ''):0<4}"
    seconds = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return -seconds if zone[0] == "-" else seconds


def own_table(path: Path, data: bytes) -> Table:
    """The columns of a CSV or Parquet file that this package wrote, by the name of the file."""
    if path.suffix.lower() == ".parquet":
        return read_parquet(MemoryFile(path.name, data))
    names = next(csv.reader([data.split(b"\n", 1)[0].decode(errors="replace")]), [])
    table = load_cells(MemoryFile(path.name, data), TextForm("utf-8-sig", ",", names, 1))
    if table is None or len(table) < len(names):
        raise DataError(f"{path} cannot be read: its rows do not fit its header.")
    return table
