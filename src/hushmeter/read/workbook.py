"""Excel workbooks: the cells of their sheets as tables."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from hushmeter.errors import DataError, HushmeterError
from hushmeter.read.options import DECIMALS, Circuits, ReadOptions
from hushmeter.read.parts import read_parts
from hushmeter.read.recording import Series
from hushmeter.read.source import ZIP_MAGIC, open_zip, read_head, refuse_large
from hushmeter.read.table import whole_table
from hushmeter.read.text_table import RawTable, table_of_rows

KIND = "Excel workbook"
MOST_CELLS = 20_000_000
FIRST_DAY, FIRST_YEAR = datetime(1899, 12, 31), 1901
HUNDREDTH = 10_000  # of a second [µs]
# A cell beyond column Z or row 99 999.
FAR_CELL = re.compile(rb"r=\"(?:[A-Z]{2}|[A-Z]?\d{6})")
# Marks of attributes that are not written in the usual way.
UNUSUAL = (b"r='", b" =", b"= ", b"\n=", b"=\n", b"\t=", b"=\t", b"\r=", b"=\r")
ROW = re.compile(rb"<(?:\w+:)?row\s[^>]*?\br\s*=\s*[\"'](\d+)")
WIDE_CELL = re.compile(rb"<(?:\w+:)?c\s[^>]*?\br\s*=\s*[\"']([A-Z]{2,7})\d")
FILLED_CELL = re.compile(
    rb"<(?:\w+:)?c\s[^>]*?\br\s*=\s*[\"']([A-Z]{1,7})(\d+)[\"'](?:[^>]*[^/>])?>"
)


def read_workbook(
    path: Path, options: ReadOptions, *, circuits: Circuits = "leave"
) -> tuple[Series, str]:
    """Read the sheet of an Excel workbook that holds the meter's readings.

    Of several sheets with the same quantity, the one with the shortest interval is read; sheets
    with the same columns and interval and with different times are joined.
    """
    names, book = _open(path, hidden=options.sheet is not None)
    tables = {name: partial(_table, book, name, options, path) for name in names}
    return read_parts(tables, options, path, noun="sheet", circuits=circuits)


def _open(path: Path, *, hidden: bool) -> tuple[list[str], Any]:
    """The names of the sheets that hold cells, and the workbook."""
    from python_calamine import CalamineWorkbook, SheetTypeEnum, SheetVisibleEnum

    if read_head(path, 4) == ZIP_MAGIC:
        _check_parts(path)
    with path.open("rb") as file, _refusing_damage(path):
        data = file.read()
        if not data.startswith(ZIP_MAGIC) and zipfile.is_zipfile(io.BytesIO(data)):
            # The library finds a zip archive by its end, and its parts would not be checked.
            raise DataError(f"{path} is a workbook with an archive in it: save the sheet as CSV.")
        book = CalamineWorkbook.from_filelike(io.BytesIO(data))
    sheets = [
        (name, kind.visible == SheetVisibleEnum.Visible)
        for name, kind in zip(book.sheet_names, book.sheets_metadata, strict=True)
        if kind.typ == SheetTypeEnum.WorkSheet
    ]
    if not sheets:
        raise DataError(f"{path} is an Excel workbook without a sheet of cells.")
    return [name for name, visible in sheets if visible or hidden], book


@contextmanager
def _refusing_damage(path: Path) -> Iterator[None]:
    """Raise `DataError` where the library cannot read a damaged or protected workbook."""
    from python_calamine import CalamineError

    try:
        yield
    except HushmeterError:
        raise
    except (CalamineError, OSError, ValueError) as error:
        reason = str(error).split("\n")[0].rstrip(".")[:160]
    except BaseException as error:
        # A panic of the library, which is written in Rust, is no Exception.
        if type(error).__name__ != "PanicException":
            raise
        reason = "it is damaged"
    else:
        return
    raise DataError(
        f"{path} cannot be read as an Excel workbook ({reason}): save it again without a "
        "password, or save the sheet as CSV."
    )


def _check_parts(path: Path) -> None:
    """Refuse a workbook by its parts, before the library reads it."""
    with open_zip(path) as archive:
        for entry in archive.infolist():
            text = archive.read(entry)
            if entry.filename.lower().endswith((".xml", ".rels")):
                _refuse_declarations(text, path)
            if entry.filename.lower().endswith(".rels"):
                _refuse_references(text, path)
            if b"sheetData" in text:
                _refuse_large_sheet(text, path)


def _refuse_declarations(text: bytes, path: Path) -> None:
    """Refuse XML with a document type or entities, in whatever encoding it is written."""
    plain = text.replace(b"\0", b"")
    if b"<!DOCTYPE" in plain or b"<!ENTITY" in plain:
        raise DataError(
            f"{path} declares entities or a document type, as XML bombs do; a workbook has none, "
            "so it was not read."
        )


def _refuse_references(text: bytes, path: Path) -> None:
    """Refuse a workbook that takes cells from other files, programs or servers.

    A hyperlink of a cell is only shown, so it is allowed.
    """
    from xml.etree.ElementTree import ParseError

    from defusedxml.ElementTree import fromstring

    try:
        found = [element.attrib for element in fromstring(text, forbid_dtd=True).iter()]
    except (ParseError, ValueError, LookupError):
        raise DataError(
            f"{path} cannot be read as an Excel workbook (its relationships are damaged): save it "
            "again, or save the sheet as CSV."
        ) from None
    for reference in found:
        kind = reference.get("Type", "").rpartition("/")[2]
        outside = reference.get("TargetMode") == "External" and kind != "hyperlink"
        if outside or kind in ("externalLink", "connections"):
            raise DataError(
                f"{path} refers to other files or data connections, which are not read: save the "
                "sheet of readings as CSV."
            )


def _refuse_large_sheet(text: bytes, path: Path) -> None:
    """Refuse a sheet with more cells than a table of readings has; empty cells take memory too."""
    rows, columns = _sheet_size(text)
    refuse_large(path, rows, columns)
    if rows * columns > MOST_CELLS:
        raise DataError(
            f"{path} has a sheet of {rows} rows and {columns} columns, more than "
            f"{MOST_CELLS} cells: save the table of readings as CSV."
        )


def _sheet_size(text: bytes) -> tuple[int, int]:
    """Rows and columns up to the last cell with a content, or a number that is large enough."""
    if not any(mark in text for mark in UNUSUAL) and FAR_CELL.search(text) is None:
        return min(text.count(b"<row") + 1, 100_000), 26
    rows = max((int(number) for number in ROW.findall(text)), default=0)
    wide = set(WIDE_CELL.findall(text))
    columns = max((_column_number(letters) for letters in wide), default=26)
    if rows * columns <= MOST_CELLS:
        return rows, columns
    # Programs also write rows and cells that have a style and no content.
    cells = FILLED_CELL.findall(text)
    if not cells:
        return rows, columns
    return max(int(n) for _, n in cells), max(_column_number(c) for c in {c for c, _ in cells})


def _column_number(letters: bytes) -> int:
    """The number of a column: A is 1, AA is 27."""
    number = 0
    for letter in letters:
        number = 26 * number + letter - 64
    return number


def _table(book: Any, name: str, options: ReadOptions, path: Path) -> RawTable:
    """The cells of a sheet as a table."""
    with _refusing_damage(path):
        rows = book.get_sheet_by_name(name).to_python()
    write_alike(rows)
    mark = None if options.decimal is None else DECIMALS[options.decimal]
    raw = table_of_rows(rows, path, kind=KIND, decimal=mark, typed=True)
    return whole_table(raw, options, path)


def write_alike(rows: list[list[object]]) -> None:
    """Write clocks and lengths of time as H:MM:SS, and moments as whole hundredths of a second.

    A spreadsheet counts days as a floating-point number: midnight has no time of day, a time of
    day is a moment of the first day, and some moments are off by a few microseconds.
    """
    for j, column in enumerate(zip(*rows, strict=True)):
        if set(map(type, column)).isdisjoint({datetime, date, time, timedelta}):
            continue
        for row, cell in zip(rows, column, strict=True):
            if isinstance(cell, datetime):
                if cell.microsecond or cell.year < FIRST_YEAR:
                    row[j] = _plain_moment(cell)
            elif isinstance(cell, date):
                row[j] = _plain_moment(datetime(cell.year, cell.month, cell.day))
            elif isinstance(cell, time | timedelta):
                row[j] = _clock_text(cell)


def _plain_moment(moment: datetime) -> datetime | str:
    """A moment of whole hundredths of a second; one of the first day is a time of day."""
    if moment.year < FIRST_YEAR:
        return _clock_text(moment - FIRST_DAY)
    moment += timedelta(microseconds=HUNDREDTH // 2)
    return moment.replace(microsecond=moment.microsecond // HUNDREDTH * HUNDREDTH)


def _clock_text(length: time | timedelta) -> str:
    """A time of day or a length of time as H:MM:SS."""
    if isinstance(length, time):
        length = datetime.combine(date.min, length) - datetime.min
    seconds = round(length.total_seconds())
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
