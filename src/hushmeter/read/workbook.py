"""Excel workbooks: which sheet holds the readings, and its cells as a table.

The sheet is chosen by its header and by its times, never by the size of a number.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from hushmeter.checks import IntArray
from hushmeter.errors import DataError, InputError
from hushmeter.formatting import short_duration
from hushmeter.read.options import DECIMALS, ReadOptions
from hushmeter.read.recording import Series
from hushmeter.read.regular import LONGEST_INTERVAL_S
from hushmeter.read.row_times import ascending, read_row_times
from hushmeter.read.source import ZIP_MAGIC, open_zip, read_head, refuse_large
from hushmeter.read.table import ELECTRIC, PlannedTable, plan_table, read_plan, whole_table
from hushmeter.read.text_table import RawTable, table_of_rows
from hushmeter.read.times import SECOND
from hushmeter.read.words import find_source, has_word, read_meaning

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


@dataclass
class Sheet:
    """A sheet whose columns are understood.

    Attributes
    ----------
    name : str
    planned : PlannedTable
    times : IntArray
        Different times of its rows, in their order [ns].
    """

    name: str
    planned: PlannedTable
    times: IntArray

    @property
    def interval_s(self) -> float:
        """Median time between rows [s]; infinite for a single row."""
        if self.times.size < 2:
            return float("inf")
        return float(np.median(np.diff(self.times))) / SECOND

    @property
    def energy(self) -> tuple[tuple[str, str | None], ...]:
        """The directions and units of its values: equal for sheets of the same energy."""
        return tuple(sorted({(c.meaning.flow, c.meaning.unit) for c in self.planned.plan.values}))


def read_workbook(path: Path, options: ReadOptions, *, homes: bool = False) -> tuple[Series, str]:
    """Read the sheet of an Excel workbook that holds the meter's readings.

    Of several sheets with the same quantity, the one with the shortest interval is read; sheets
    with the same columns and interval and with different times are joined.

    Parameters
    ----------
    path : Path
        A workbook (.xlsx, .xlsm or .xls).
    options : ReadOptions
        `sheet` names the sheet to read.
    homes : bool
        True if a table without a meter gets the sum of its circuits.

    Returns
    -------
    series : Series
    mains : str
        "metered", or "sum of sub-meters".

    Raises
    ------
    DataError
        If no sheet holds readings, or several do and the choice is not clear.
    InputError
        If the workbook has no sheet of the given name.
    """
    names, book = _open(path)
    if options.sheet is not None:
        name = _asked(names, options.sheet, path)
        planned = plan_table(_table(book, name, options, path), options, path, homes=homes)
        return read_plan(planned, options, path)
    sheets, reasons = _understood(book, options, path, homes=homes)
    chosen = _choose(sheets, reasons, path)
    if len(names) > 1:
        others = [name for name in names if name not in {sheet.name for sheet in chosen}]
        read = ", ".join(repr(sheet.name) for sheet in chosen)
        left = f"; not read: {', '.join(map(repr, others[:12]))}" if others else ""
        chosen[0].planned.notes.append(f"Sheet read: {read}{left}.")
    planned = chosen[0].planned
    if len(chosen) > 1:
        tables = [sheet.planned.raw for sheet in chosen]
        planned = plan_table(_joined(tables, planned.notes), options, path, homes=homes)
    return read_plan(planned, options, path)


def _open(path: Path) -> tuple[list[str], Any]:
    """The names of the sheets that hold cells, and the workbook."""
    from python_calamine import CalamineWorkbook, SheetTypeEnum

    if read_head(path, 4) == ZIP_MAGIC:
        _refuse_large_sheets(path)
    with path.open("rb") as file, _refusing_damage(path):
        book = CalamineWorkbook.from_filelike(io.BytesIO(file.read()))
    kinds = zip(book.sheet_names, book.sheets_metadata, strict=True)
    names = [name for name, kind in kinds if kind.typ == SheetTypeEnum.WorkSheet]
    if not names:
        raise DataError(f"{path} is an Excel workbook without a sheet of cells.")
    return names, book


@contextmanager
def _refusing_damage(path: Path) -> Iterator[None]:
    """Raise `DataError` where the library cannot read a damaged or protected workbook."""
    from python_calamine import CalamineError

    try:
        yield
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


def _refuse_large_sheets(path: Path) -> None:
    """Refuse a sheet with more cells than a table of readings has; empty cells take memory too."""
    with open_zip(path) as archive:
        for entry in archive.infolist():
            text = archive.read(entry)
            if b"sheetData" not in text:
                continue
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


def _asked(names: Sequence[str], asked: str, path: Path) -> str:
    """The sheet that the user named."""
    for name in names:
        if name.strip().lower() == asked.strip().lower():
            return name
    raise InputError(f"{path} has no sheet {asked!r} (found: {', '.join(names[:24])}).")


def _understood(
    book: Any, options: ReadOptions, path: Path, *, homes: bool
) -> tuple[list[Sheet], dict[str, str]]:
    """The visible sheets whose columns are understood, and why the others are not."""
    from python_calamine import SheetTypeEnum, SheetVisibleEnum

    sheets: list[Sheet] = []
    reasons: dict[str, str] = {}
    for name, kind in zip(book.sheet_names, book.sheets_metadata, strict=True):
        visible = kind.visible == SheetVisibleEnum.Visible
        if kind.typ != SheetTypeEnum.WorkSheet or not visible:
            continue
        try:
            _refuse_name(name, path)
            raw = _table(book, name, options, path)
            planned = plan_table(raw, options, path, homes=homes)
            clock = read_row_times(planned.plan.time, options, path)
            if not clock.good.any():
                raise DataError(f"{path} has no row with a time.")
            sheets.append(Sheet(name, planned, ascending(clock.ns[clock.good])))
        except (DataError, InputError) as error:
            reasons[name] = str(error)
    return sheets, reasons


def _refuse_name(name: str, path: Path) -> None:
    """Refuse a sheet whose name states gas, water, heat, feed-in or production."""
    source = find_source(name)
    if source is not None and not has_word(name, ELECTRIC):
        raise DataError(f"{path} holds {source} (sheet {name!r}), not electricity.")
    if read_meaning(name).flow in ("export", "production"):
        raise DataError(f"{path} holds no use of electricity (sheet {name!r}).")


def _choose(sheets: Sequence[Sheet], reasons: dict[str, str], path: Path) -> list[Sheet]:
    """The sheet to read, or the sheets of different times that are joined."""
    if not sheets:
        raise DataError(_nothing_read(reasons, path))
    usual = [sheet for sheet in sheets if sheet.interval_s <= LONGEST_INTERVAL_S] or list(sheets)
    finest = min(sheet.interval_s for sheet in usual)
    chosen = [sheet for sheet in usual if sheet.interval_s == finest]
    same = len({sheet.energy for sheet in usual}) == 1
    if same and (len(chosen) == 1 or _are_parts(chosen)):
        return chosen
    found = [f"{sheet.name} ({_length(sheet)})" for sheet in usual]
    raise DataError(
        f"{path} has {len(usual)} sheets with readings ({', '.join(found[:12])}): choose one "
        "(--sheet NAME)."
    )


def _length(sheet: Sheet) -> str:
    return short_duration(sheet.interval_s) if sheet.times.size > 1 else "one row"


def _nothing_read(reasons: dict[str, str], path: Path) -> str:
    """Why no sheet is read: the reason of the only one, or those of the first ones."""
    if len(reasons) == 1:
        return next(iter(reasons.values()))
    if not reasons:
        return f"{path} has only hidden sheets: choose one (--sheet NAME)."
    start = str(path)
    parts = [f"{name}: {why.removeprefix(start).strip(' :')}" for name, why in reasons.items()]
    return f"{path} has no sheet with readings of electricity. {' '.join(parts[:3])}"


def _are_parts(sheets: Sequence[Sheet]) -> bool:
    """True for sheets with the same columns and without a common time, such as one per month."""
    names = {tuple(sheet.planned.raw.data.column_names) for sheet in sheets}
    times = np.concatenate([sheet.times for sheet in sheets])
    return len(names) == 1 and np.unique(times).size == times.size


def _joined(tables: Sequence[RawTable], notes: Sequence[str]) -> RawTable:
    import pyarrow as pa

    data = pa.concat_tables([table.data for table in tables], promote_options="permissive")
    return replace(tables[0], data=data, notes=tuple(notes))


def _table(book: Any, name: str, options: ReadOptions, path: Path) -> RawTable:
    """The cells of a sheet as a table."""
    with _refusing_damage(path):
        rows = book.get_sheet_by_name(name).to_python()
    _write_alike(rows)
    mark = None if options.decimal is None else DECIMALS[options.decimal]
    raw = table_of_rows(rows, path, kind=KIND, decimal=mark)
    return whole_table(raw, options, path)


def _write_alike(rows: list[list[object]]) -> None:
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
