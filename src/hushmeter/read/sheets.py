"""Files with several tables: the sheets of a workbook, and the lists of records in JSON.

Which table is read depends on headers and times, never on the size of a number. A list of objects
is a table whose columns are the keys; objects inside a record give keys such as
``interval.start``. Plain values of the objects around a list, such as a unit or the number of a
meter, belong to all records of the list.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from functools import partial
from typing import Any

import numpy as np

from hushmeter.checks import IntArray
from hushmeter.clock import SECOND
from hushmeter.errors import DataError, HushmeterError, InputError
from hushmeter.formatting import short_duration
from hushmeter.parts import need
from hushmeter.read.cells import joined, unique_names
from hushmeter.read.column_roles import PlannedTable, plan_table
from hushmeter.read.columns import ascending, read_row_times, whole_table
from hushmeter.read.headers import find_source, has_word, states_feed_in
from hushmeter.read.recording import Series, Task
from hushmeter.read.regular_times import LONGEST_INTERVAL_S
from hushmeter.read.source import ZIP_MAGIC, open_text, open_zip, read_head, refuse_large
from hushmeter.read.table import read_plan
from hushmeter.read.text_table import (
    RawTable,
    find_decimal,
    table_of,
    table_of_rows,
)

# A file that was exported, which is no energy that was fed into the grid.
Loader = Callable[[], RawTable]
MOST_CELLS = 20_000_000
FIRST_DAY, FIRST_YEAR = datetime(1899, 12, 31), 1901
HUNDREDTH = 10_000  # of a second [µs]
# A cell beyond column Z or row 99 999.
FAR_CELL = re.compile(rb"r=\"(?:[A-Z]{2}|[A-Z]?\d{6})")
ROW = re.compile(rb"<(?:\w+:)?row\s[^>]*?\br\s*=\s*[\"'](\d+)")
WIDE_CELL = re.compile(rb"<(?:\w+:)?c\s[^>]*?\br\s*=\s*[\"']([A-Z]{2,7})\d")
FILLED_CELL = re.compile(
    rb"<(?:\w+:)?c\s[^>]*?\br\s*=\s*[\"']([A-Z]{1,7})(\d+)[\"'](?:[^>]*[^/>])?>"
)
MAX_DEPTH, MAX_COLUMNS = 24, 400
DAY_LENGTHS = (24, 48, 96, 288)
LEAST_RECORDS = 2
# Keys of a record that describes a column.
DESCRIBED_KEYS, DESCRIBED_NAMES = ("id", "key", "field"), ("name", "title", "label", "caption")
VALUE_KEYS = ("", "v", "value")
HISTORY = {"entity_id", "state", "last_changed"}
LONGEST_INTEGER = 18
RESOLUTION = re.compile(r"P(?:T(\d{1,3})([MH])|(\d)D)")
MINUTES = {"M": 1, "H": 60}


@dataclass
class Part:
    """A table of a file whose columns are understood."""

    name: str
    planned: PlannedTable
    times: IntArray  # Different times of its rows, in their order [ns]
    notes: list[str]

    @property
    def interval_s(self) -> float:
        """Median time between rows [s]; infinite for a single row."""
        if self.times.size < 2:
            return float("inf")
        return float(np.median(np.diff(self.times))) / SECOND

    @property
    def energy(self) -> tuple[tuple[str, str | None], ...]:
        """The directions and units of its values: equal for tables of the same energy."""
        return tuple(sorted({(c.meaning.flow, c.meaning.unit) for c in self.planned.plan.values},
                            key=str))  # fmt: skip


def read_parts(task: Task, tables: Mapping[str, Loader], *, noun: str) -> Series:
    """Read the table of a file that holds the meter's readings.

    Of several tables with the same quantity, the one with the shortest interval is read; tables
    with the same columns and interval and with different times are joined.
    """
    if task.options.sheet is not None:
        table = tables[task.chooser(noun, "sheet", InputError).asked(tables, task.options.sheet)]
        return read_plan(task, plan_table(task, table()))
    parts, reasons = _understood(task, tables, noun)
    chosen = _finest(task, parts, reasons, noun)
    task.notes.extend(chosen[0].notes)
    planned = chosen[0].planned
    if len(tables) > 1:
        read = [part.name for part in chosen]
        left = [name for name in tables if name not in read]
        rest = f"; not read: {', '.join(map(repr, left[:12]))}" if left else ""
        task.notes.append(f"{noun.capitalize()} read: {', '.join(map(repr, read[:12]))}{rest}.")
    if len(chosen) > 1:
        planned = plan_table(
            replace(task, notes=[]), _joined([part.planned.raw for part in chosen])
        )
    return read_plan(task, planned)


def _understood(
    task: Task, tables: Mapping[str, Loader], noun: str
) -> tuple[list[Part], dict[str, str]]:
    """The tables whose columns are understood, and why the others are not."""
    parts: list[Part] = []
    reasons: dict[str, str] = {}
    for name, load in tables.items():
        try:
            _refuse_name(task, name, noun)
            own = replace(task, notes=[])
            planned = plan_table(own, load())
            clock = read_row_times(task, planned.plan.time)
            if not clock.good.any():
                raise task.error("has no row with a time.")
            parts.append(Part(name, planned, ascending(clock.ns[clock.good]), own.notes))
        except (DataError, InputError) as error:
            reasons[name] = str(error)
    return parts, reasons


def _refuse_name(task: Task, name: str, noun: str) -> None:
    """Refuse a table whose name states gas, water, heat, feed-in or production."""
    source = find_source(name)
    if source is not None and not has_word(name, "electric"):
        raise task.error(f"holds {source} ({noun} {name!r}), not electricity.")
    if states_feed_in(name):
        raise task.error(f"holds no use of electricity ({noun} {name!r}).")


def _finest(task: Task, parts: Sequence[Part], reasons: dict[str, str], noun: str) -> list[Part]:
    """The table to read, or the tables of different times that are joined."""
    if not parts:
        raise DataError(_nothing_read(task, reasons, noun))
    usual = [part for part in parts if part.interval_s <= LONGEST_INTERVAL_S] or list(parts)
    finest = min(part.interval_s for part in usual)
    chosen = [part for part in usual if part.interval_s == finest]
    same = len({part.energy for part in usual}) == 1
    if same and (len(chosen) == 1 or _are_parts(chosen)):
        return chosen
    found = [f"{part.name} ({_length(part)})" for part in usual]
    raise task.chooser(noun, "sheet").several(found, " with readings")


def _length(part: Part) -> str:
    return short_duration(part.interval_s) if part.times.size > 1 else "one row"


def _nothing_read(task: Task, reasons: dict[str, str], noun: str) -> str:
    """Why no table is read: the reason of the only one, or those of the first ones."""
    if len(reasons) == 1:
        return next(iter(reasons.values()))
    if not reasons:
        return f"{task.path} has no {noun} that is shown: choose a hidden one (`sheet=NAME`)."
    start = str(task.path)
    parts = [f"{name}: {why.removeprefix(start).strip(' :')}" for name, why in reasons.items()]
    return f"{task.path} has no {noun} with readings of electricity. {' '.join(parts[:3])}"


def _are_parts(parts: Sequence[Part]) -> bool:
    """True for tables with the same columns and without a common time, such as one per month."""
    names = {tuple(part.planned.raw.data) for part in parts}
    times = np.concatenate([part.times for part in parts])
    return len(names) == 1 and np.unique(times).size == times.size


def _joined(tables: Sequence[RawTable]) -> RawTable:
    return replace(tables[0], data=joined([table.data for table in tables]))


def read_workbook(task: Task) -> Series:
    """Read the sheet of an Excel workbook that holds the meter's readings.

    Of several sheets with the same quantity, the one with the shortest interval is read; sheets
    with the same columns and interval and with different times are joined.
    """
    names, book = _open(task, hidden=task.options.sheet is not None)
    tables = {name: partial(_sheet_table, task, book, name) for name in names}
    return read_parts(task, tables, noun="sheet")


def _open(task: Task, *, hidden: bool) -> tuple[list[str], Any]:
    """The names of the sheets that hold cells, and the workbook."""
    calamine = need("python_calamine", "reading a workbook", "xlsx")
    if read_head(task.path, 4) == ZIP_MAGIC:
        _check_parts(task)
    with task.path.open("rb") as file, _refusing_damage(task):
        data = file.read()
        if not data.startswith(ZIP_MAGIC) and zipfile.is_zipfile(io.BytesIO(data)):
            # The library finds a zip archive by its end, and its parts would not be checked.
            raise task.error("is a workbook with an archive in it: save the sheet as CSV.")
        book = calamine.CalamineWorkbook.from_filelike(io.BytesIO(data))
    sheets = [
        (name, kind.visible == calamine.SheetVisibleEnum.Visible)
        for name, kind in zip(book.sheet_names, book.sheets_metadata, strict=True)
        if kind.typ == calamine.SheetTypeEnum.WorkSheet
    ]
    if not sheets:
        raise task.error("is an Excel workbook without a sheet of cells.")
    return [name for name, visible in sheets if visible or hidden], book


@contextmanager
def _refusing_damage(task: Task) -> Iterator[None]:
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
    raise task.error(
        f"cannot be read as an Excel workbook ({reason}): save it again without a "
        "password, or save the sheet as CSV."
    )


def _check_parts(task: Task) -> None:
    """Refuse a workbook by its parts, before the library reads it."""
    with open_zip(task.path) as archive:
        for entry in archive.infolist():
            text = archive.read(entry)
            if entry.filename.lower().endswith((".xml", ".rels")):
                _refuse_declarations(task, text)
            if entry.filename.lower().endswith(".rels"):
                _refuse_references(task, text)
            if b"sheetData" in text:
                _refuse_large_sheet(task, text)


def _refuse_declarations(task: Task, text: bytes) -> None:
    """Refuse XML with a document type or entities, in whatever encoding it is written."""
    plain = text.replace(b"\0", b"")
    if b"<!DOCTYPE" in plain or b"<!ENTITY" in plain:
        raise task.error(
            "declares entities or a document type, as XML bombs do; a workbook has none, "
            "so it was not read."
        )


def _refuse_references(task: Task, text: bytes) -> None:
    """Refuse a workbook that takes cells from other files, programs or servers.

    A hyperlink of a cell is only shown, so it is allowed.
    """
    from xml.etree.ElementTree import ParseError

    from defusedxml.ElementTree import fromstring

    try:
        found = [element.attrib for element in fromstring(text, forbid_dtd=True).iter()]
    except (ParseError, ValueError, LookupError):
        raise task.error(
            "cannot be read as an Excel workbook (its relationships are damaged): save it "
            "again, or save the sheet as CSV."
        ) from None
    for reference in found:
        kind = reference.get("Type", "").rpartition("/")[2]
        outside = reference.get("TargetMode") == "External" and kind != "hyperlink"
        if outside or kind in ("externalLink", "connections"):
            raise task.error(
                "refers to other files or data connections, which are not read: save the "
                "sheet of readings as CSV."
            )


def _refuse_large_sheet(task: Task, text: bytes) -> None:
    """Refuse a sheet with more cells than a table of readings has; empty cells take memory too."""
    rows, columns = _sheet_size(text)
    refuse_large(task.path, rows, columns)
    if rows * columns > MOST_CELLS:
        raise task.error(
            f"has a sheet of {rows} rows and {columns} columns, more than "
            f"{MOST_CELLS} cells: save the table of readings as CSV."
        )


def _sheet_size(text: bytes) -> tuple[int, int]:
    """Rows and columns up to the last cell with a content, or a number that is large enough."""
    if _has_usual_marks(text) and FAR_CELL.search(text) is None:
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


def _has_usual_marks(text: bytes) -> bool:
    """True if all attributes are written as usual: name="value" without blanks."""
    quoted = text.count(b"=") == text.count(b'="') and b" =" not in text
    return quoted and not any(
        blank in text and blank + b"=" in text for blank in (b"\n", b"\t", b"\r")
    )


def _column_number(letters: bytes) -> int:
    """The number of a column: A is 1, AA is 27."""
    number = 0
    for letter in letters:
        number = 26 * number + letter - 64
    return number


def _sheet_table(task: Task, book: Any, name: str) -> RawTable:
    """The cells of a sheet as a table."""
    with _refusing_damage(task):
        rows = book.get_sheet_by_name(name).to_python()
    write_alike(rows)
    mark = task.options.decimal_mark
    raw = table_of_rows(rows, task.path, kind="Excel workbook", decimal=mark)
    return whole_table(task, raw)


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


@dataclass
class Found:
    """Records of one place in the document, with the plain values around each of them."""

    records: list[Mapping[str, Any]] = field(default_factory=list)
    around: list[Mapping[str, Any]] = field(default_factory=list)


def read_json(task: Task) -> Series:
    """Read the list of records of a JSON file that holds the meter's readings."""
    places = _Lists(_parse(task)).found
    lists = {name: found for name, found in places.items() if len(found.records) >= LEAST_RECORDS}
    lists = _with_described_keys(lists)
    if not lists:
        raise task.error(
            "is JSON without a list of records that have a time and a value: convert its "
            "readings to CSV with timestamp and watts."
        )
    tables = {name: partial(_record_table, task, found) for name, found in lists.items()}
    return read_parts(task, tables, noun="list")


def _with_described_keys(lists: Mapping[str, Found]) -> dict[str, Found]:
    """Lists whose keys another list describes, with the names and units that it gives.

    Portals write {"id": "1001", "name": "+A", "unit": "kW"} once, and {"1001": {"v": 0.2}} in
    every record.
    """
    described: dict[str, str] = {}
    for record in (record for found in lists.values() for record in found.records):
        known = {key.lower(): value for key, value in record.items() if value is not None}
        keys = [known[key] for key in DESCRIBED_KEYS if key in known]
        names = [known[key] for key in DESCRIBED_NAMES if key in known]
        if keys and names and keys[0] != names[0]:
            unit = f" ({known['unit']})" if "unit" in known else ""
            described[str(keys[0])] = f"{names[0]}{unit}"

    def renamed(key: str) -> str:
        own, _, rest = key.partition(".")
        return described[own] if own in described and rest in VALUE_KEYS else key

    def is_mark(key: str) -> bool:
        """True for a mark of quality beside a described value."""
        own, _, rest = key.partition(".")
        return own in described and rest not in VALUE_KEYS

    return {
        place: Found([{renamed(key): value for key, value in record.items() if not is_mark(key)}
                      for record in found.records], found.around)
        for place, found in lists.items()
    }  # fmt: skip


def _parse(task: Task) -> Any:
    with open_text(task.path) as stream:
        text = stream.read().strip("\ufeff\x00 \t\r\n")
    try:
        return json.loads(text, parse_int=_integer)
    except RecursionError:
        raise task.error("is JSON that nests too deeply.") from None
    except ValueError as error:
        reason = str(error)
    try:
        return [json.loads(line, parse_int=_integer) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError):
        raise task.error(f"is not well-formed JSON ({reason}): download it again.") from None


def _integer(text: str) -> float:
    """A whole number; one of many digits as a float, because arrays hold 64 bits."""
    return int(text) if len(text) <= LONGEST_INTEGER else float(text)


class _Lists:
    """The lists of records, of pairs and of parallel columns of a document, by their place."""

    def __init__(self, document: Any) -> None:
        self.found: dict[str, Found] = {}
        self._walk(document, (), {}, 0)

    def _walk(
        self, node: Any, place: tuple[str, ...], around: Mapping[str, Any], depth: int
    ) -> None:
        """Collect the lists below a node."""
        if depth > MAX_DEPTH:
            return
        if isinstance(node, dict):
            own = {**around, **_scalars(node)}
            columns = _parallel(node) or {}
            if columns:
                rows = zip(*columns.values(), strict=True)
                self._add(place, [dict(zip(columns, row, strict=True)) for row in rows], own)
            for key, child in node.items():
                if key not in columns:
                    self._walk(child, (*place, str(key)), own, depth + 1)
        elif isinstance(node, list) and _are_records(node):
            placed, beside = _placed(node, around)
            leaves = [_scalars(item, days=True) for item in placed]
            if all(len(leaf) > 1 for leaf in leaves):
                self._add(place, leaves, beside)
            for item in node:
                if _parallel(item) is not None:
                    self._walk(item, place, around, depth + 1)
                    continue
                # The plain values of a record belong to the records of the lists inside it.
                own = {**around, **_scalars(item)}
                for key, child in item.items():
                    if isinstance(child, list | dict):
                        self._walk(child, (*place, str(key)), own, depth + 1)
        elif isinstance(node, list) and _are_pairs(node):
            name = str(around.get("name") or (place[-1] if place else "value"))
            pairs = [{"time": pair[0], name: pair[1]} for pair in node]
            self._add((*place, name), pairs, {k: v for k, v in around.items() if k != "name"})
        elif isinstance(node, list):
            for item in node:
                self._walk(item, place, around, depth + 1)

    def _add(
        self, place: Sequence[str], records: Sequence[Mapping[str, Any]], around: Mapping[str, Any]
    ) -> None:
        found = self.found.setdefault(".".join(place) or "list", Found())
        found.records.extend(records)
        found.around.extend([around] * len(records))


def _are_records(node: Sequence[Any]) -> bool:
    return bool(node) and all(isinstance(item, dict) for item in node)


def _scalars(
    node: Mapping[str, Any], prefix: str = "", depth: int = 0, *, days: bool = False
) -> dict[str, Any]:
    """Plain values of an object and of the objects inside it, with keys joined by points.

    With `days`, the list of all values of a day has a key for each of its times of the day.
    """
    values: dict[str, Any] = {}
    whole = [key for key, value in node.items() if days and _is_day(key, value)]
    for key, value in node.items():
        if isinstance(value, dict) and depth < 4:
            values.update(_scalars(value, f"{prefix}{key}.", depth + 1, days=days))
        elif whole == [key]:
            minutes = range(0, 1440, 1440 // len(value))
            clocks = (f"{minute // 60:02d}:{minute % 60:02d}" for minute in minutes)
            values.update(zip(clocks, value, strict=True))
        elif not isinstance(value, list | dict):
            values[f"{prefix}{key}"] = value
    return values


def _is_day(key: str, value: Any) -> bool:
    """True for the list of all values of a day, unless its name says that they are prices."""
    return (
        isinstance(value, list) and len(value) in DAY_LENGTHS and not has_word(key, "cost", "other")
        and all(cell is None or isinstance(cell, int | float) for cell in value)
    )  # fmt: skip


def _parallel(node: Mapping[str, Any]) -> dict[str, list[Any]] | None:
    """Columns of equal length of which one is named as times are, or None."""
    lists = {
        str(key): value for key, value in node.items()
        if isinstance(value, list) and len(value) >= LEAST_RECORDS
        and not any(isinstance(cell, list | dict) for cell in value)
    }  # fmt: skip
    if len(lists) < 2 or len({len(column) for column in lists.values()}) != 1:
        return None
    return lists if any(has_word(name, "stamps") for name in lists) else None


def _are_pairs(node: Sequence[Any]) -> bool:
    """True for a list of pairs of a time and a number."""
    return len(node) >= LEAST_RECORDS and all(
        isinstance(item, list) and len(item) == 2 and isinstance(item[0], str | int | float)
        and (item[1] is None or isinstance(item[1], int | float)) for item in node
    )  # fmt: skip


def _placed(
    records: Sequence[Mapping[str, Any]], around: Mapping[str, Any]
) -> tuple[Sequence[Mapping[str, Any]], Mapping[str, Any]]:
    """Records with a start where they have only a position in a period, and what is around them.

    Market documents of European grid operators give the start of a period, its resolution, and
    points that are numbered from one. The ends of the period are no times of its points.
    """
    values = {key.lower().rpartition(".")[2]: value for key, value in around.items()}
    start, end = _moment(values.get("start")), _moment(values.get("end"))
    timed = any(has_word(key, "stamps", "starts", "ends") for r in records[:5] for key in r)
    numbers = [_position(record.get("position", i)) for i, record in enumerate(records, 1)]
    numbered = all("position" in r for r in records)
    minutes = _resolution(values)
    if minutes is None and start and end and numbers == list(range(1, len(records) + 1)):
        minutes = (end - start) / np.timedelta64(len(records), "m") if numbered else None
    if minutes is None or start is None or (timed and not numbered):
        return records, around
    placed = []
    for number, record in zip(numbers, records, strict=True):
        if number is None:
            continue
        moment = start + np.timedelta64(round((number - 1) * minutes * 60), "s")
        # The quantity that goes "out" of the grid is what the customer draws.
        rest = {key.removeprefix("out_Quantity."): value for key, value in record.items()}
        rest.pop("position", None)
        placed.append({"start": f"{moment}Z", **rest})
    bounds = ("start", "end", "resolution")
    beside = {k: v for k, v in around.items() if k.lower().rpartition(".")[2] not in bounds}
    return placed, beside


def _position(number: object) -> int | None:
    """The number of a point in its period; None if it is none."""
    try:
        return int(str(number))
    except ValueError:
        return None


def _resolution(around: Mapping[str, Any]) -> float | None:
    """Length of the records of a period [min], as its object states it."""
    match = RESOLUTION.fullmatch(str(around.get("resolution", "")))
    if match is not None:
        return int(match[1]) * MINUTES[match[2]] if match[1] else int(match[3]) * 1440
    seconds = around.get("resolution_s")
    return seconds // 60 if isinstance(seconds, int) and seconds % 60 == 0 and seconds else None


def _moment(text: object) -> np.datetime64 | None:
    """A time in UTC, such as 2024-01-01T00:00Z or 2024-01-01T01:00+01:00."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return np.datetime64(round(found.timestamp()), "s") if found.tzinfo is not None else None


def _record_table(task: Task, found: Found) -> RawTable:
    """The records as a table; values that differ between lists are columns of their own."""
    if any(set(record) >= HISTORY for record in found.records[:5]):
        raise task.error(
            "is a history of Home Assistant in JSON: export it as CSV, because its rows "
            "are changes and not intervals."
        )
    keys = list(dict.fromkeys(key for record in found.records for key in record))
    outer = list(dict.fromkeys(key for values in found.around for key in values))
    varying = [key for key in outer if key not in keys and not _is_constant(found.around, key)]
    if len(keys) + len(varying) > MAX_COLUMNS:
        raise task.error(f"has records of more than {MAX_COLUMNS} keys.")
    columns = [[record.get(key) for record in found.records] for key in keys]
    columns += [[values.get(key) for values in found.around] for key in varying]
    mark = task.options.decimal_mark
    texts = [[cell for cell in set(map(str, column)) if cell != "None"]
             for column in columns if any(isinstance(cell, str) for cell in column)]  # fmt: skip
    fixed = [f"{key}: {found.around[0][key]}" for key in outer if key in found.around[0]
             and key not in varying]  # fmt: skip
    raw = RawTable(
        table_of([[_plain(cell) for cell in column] for column in columns],
                 unique_names([*keys, *varying])),
        preamble=tuple(fixed),
        decimal=mark or find_decimal(texts, ";", task.path),
        kind="JSON",
    )  # fmt: skip
    return whole_table(task, raw)


def _is_constant(around: Sequence[Mapping[str, Any]], key: str) -> bool:
    return all(values.get(key) == around[0].get(key) for values in around)


def _plain(cell: Any) -> Any:
    """A cell as text, number or None; true and false are words."""
    return str(cell).lower() if isinstance(cell, bool) else cell
