"""How a text table is written: encoding, delimiter, decimal sign, where its header is."""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from hushmeter.errors import DataError
from hushmeter.read.source import HEAD_BYTES, find_encoding

DELIMITERS = (";", "\t", "|", ",", " ")
MAX_COLUMNS = 4096
SAMPLE_LINES = 40


@dataclass(frozen=True)
class Dialect:
    """The writing of one file.

    Attributes
    ----------
    encoding, delimiter, decimal : str
    header_row : int
        Lines above the header, or above the data where there is no header.
    columns : tuple of str
        Names, trimmed and made unique; column_0 … where there is no header.
    has_header : bool
    """

    encoding: str
    delimiter: str
    decimal: str
    header_row: int
    columns: tuple[str, ...]
    has_header: bool


def find_dialect(head: bytes, path: Path) -> Dialect:
    """The dialect of a text table, from its first bytes."""
    encoding = find_encoding(head)
    text = head.decode(encoding, errors="replace").lstrip("\ufeff")
    lines = text.splitlines()
    if len(head) >= HEAD_BYTES and len(lines) > 1:
        lines.pop()
    if len(head) >= HEAD_BYTES and len(lines) == 1:
        raise DataError(
            f"{path}: its first line is longer than {HEAD_BYTES >> 10} kB; "
            "a table of readings has one row per time."
        )
    sample = lines[:SAMPLE_LINES]
    delimiter = _delimiter(sample)
    rows = [_split(line, delimiter) for line in sample if line.strip()]
    if not rows:
        raise DataError(f"{path} is neither a CSV nor a Parquet table: it is empty.")
    width = Counter(len(row) for row in rows).most_common(1)[0][0]
    if width > MAX_COLUMNS:
        raise DataError(
            f"{path} has {width} columns, more than {MAX_COLUMNS}: a table of readings has one "
            "row per time and one column per circuit."
        )
    first = _header_row(rows, width)
    has_header = not _is_data(rows[first])
    names = rows[first] if has_header else [f"column_{i}" for i in range(width)]
    decimal = "," if delimiter != "," and _has_decimal_commas(rows[first + 1 :]) else "."
    above = _line_number(sample, first)
    return Dialect(encoding, delimiter, decimal, above, unique_names(names), has_header)


def _header_row(rows: list[list[str]], width: int) -> int:
    """The first row of full width that data follow; utilities like to write a letterhead above."""
    full = [i for i, row in enumerate(rows) if len(row) == width]
    for i in full:
        following = rows[i + 1] if i + 1 < len(rows) else []
        if _is_data(rows[i]) or (len(following) == width and _has_number(following)):
            return i
    return full[0]


def unique_names(names: list[str]) -> tuple[str, ...]:
    """Trimmed names; a repeated one gets a number."""
    seen: Counter[str] = Counter()
    unique = []
    for i, name in enumerate(names):
        plain = name.strip() or f"column_{i}"
        seen[plain] += 1
        unique.append(plain if seen[plain] == 1 else f"{plain}_{seen[plain]}")
    return tuple(unique)


def _delimiter(lines: list[str]) -> str:
    """The one that splits most lines into the same number of fields, more than one."""
    best, most = ",", 0
    for delimiter in DELIMITERS:
        counts = Counter(line.count(delimiter) for line in lines if line.strip())
        counts.pop(0, None)
        if not counts:
            continue
        agreeing = counts.most_common(1)[0][1]
        if agreeing > most and not (delimiter == " " and most):
            best, most = delimiter, agreeing
    return best


def _split(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return line.split(delimiter)


def _is_data(row: list[str]) -> bool:
    """Whether a row already holds readings: no field is a word, and it does not number columns."""
    if len(row) > 2 and row in (
        [f"{i}" for i in range(first, first + len(row))] for first in (0, 1)
    ):
        return False
    return all(re.fullmatch(r"\s*[-+0-9.:,TZ eE/]*\s*", field) for field in row) and any(
        re.search(r"\d", field) for field in row
    )


def _has_number(row: list[str]) -> bool:
    return any(re.match(r"\s*[-+]?\d", field) for field in row)


def _has_decimal_commas(rows: list[list[str]]) -> bool:
    return any(re.fullmatch(r"\s*-?\d+,\d+\s*", field) for row in rows for field in row)


def _line_number(lines: list[str], row: int) -> int:
    """Number of the line that holds the `row`-th non-empty one."""
    filled = [i for i, line in enumerate(lines) if line.strip()]
    return filled[row]
