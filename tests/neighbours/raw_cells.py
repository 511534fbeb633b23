"""The cells of a raw file, and the same file with other cells.

Text, workbooks, JSON records, Parquet, Green Button and telegrams all become rows of cells, so that
one rule can say how a run of an appliance changes them. Archives hold one such file.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from hushmeter.errors import DataError
from hushmeter.read.recording import ReadOptions
from hushmeter.read.source import (
    GZIP_MAGIC,
    OLE_MAGIC,
    ZIP_MAGIC,
    MemoryFile,
    find_encoding,
    open_member,
    recognise,
)
from hushmeter.read.text_table import find_delimiter

Row = list[Any]
# The name, the description and the cells of one interval of a Green Button file.
INTERVAL = re.compile(r"(?s)<(?:\w+:)?IntervalReading\b.*?</(?:\w+:)?IntervalReading>")
BLOCK = re.compile(r"<(?:\w+:)?IntervalBlock\b")
TAGS = ("start", "duration", "value", "cost")
TELEGRAM = re.compile(r"(?s)/.*?![0-9A-Fa-f]{0,4}")
CODES = ("1.7.0", "2.7.0", "1.8.1", "1.8.2", "2.8.1", "2.8.2")
NOT_WRITTEN = {
    "database": "an SQLite data base",
    "nilmtk": "an HDF5 file",
}


class RawCells(ABC):
    """The rows of cells of a file.

    Attributes
    ----------
    kind : str
        The reader of the file, as `recognise` names it.
    rows : list of lists
        Its cells, the header among them; text, numbers, times or None.
    typed : bool
        True if cells have types, as those of a workbook, and are not text.
    """

    kind: str
    rows: list[Row]
    typed = False

    @abstractmethod
    def write(self, rows: Sequence[Row]) -> bytes:
        """Return the file with other cells."""


class TextCells(RawCells):
    """A text with delimiters."""

    def __init__(self, kind: str, content: bytes) -> None:
        self.kind = kind
        self._encoding = find_encoding(content[: 1 << 18])
        lines = content.decode(self._encoding).splitlines()
        known = [line for line in lines[:400] if line.strip()]
        self._delimiter = find_delimiter(known) if kind == "table" else ","
        self.rows = [
            [cell.strip() for cell in row]
            for row in csv.reader(lines, delimiter=self._delimiter, skipinitialspace=True)
        ]

    def write(self, rows: Sequence[Row]) -> bytes:
        """Return the text with other cells."""
        stream = io.StringIO()
        csv.writer(stream, delimiter=self._delimiter, lineterminator="\n").writerows(rows)
        return stream.getvalue().encode(self._encoding)


class ParquetCells(RawCells):
    """A Parquet table; every column keeps its type where its cells allow it."""

    typed = True

    def __init__(self, kind: str, content: bytes) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        self.kind = kind
        self.table = parquet.read_table(pa.BufferReader(content))
        columns = [column.to_pylist() for column in self.table.columns]
        self.rows = [list(self.table.column_names), *map(list, zip(*columns, strict=True))]

    def write(self, rows: Sequence[Row]) -> bytes:
        """Return a table with other cells."""
        import pyarrow as pa
        from pyarrow import parquet

        columns = list(zip(*rows[1:], strict=True))
        arrays = [
            pa.array(column, field.type)
            for column, field in zip(columns, self.table.schema, strict=True)
        ]
        stream = io.BytesIO()
        parquet.write_table(pa.table(arrays, schema=self.table.schema), stream)
        return stream.getvalue()


class WorkbookCells(RawCells):
    """One sheet of an xlsx workbook; only the cells that change are written anew."""

    typed = True

    def __init__(self, kind: str, content: bytes, options: ReadOptions, name: str) -> None:
        from python_calamine import CalamineWorkbook

        from hushmeter.read.sheets import write_alike

        self.kind, self._content = kind, content
        if content.startswith(OLE_MAGIC):
            raise DataError(f"{name}: an audit cannot write the old format .xls: save it as .xlsx.")
        book = CalamineWorkbook.from_filelike(io.BytesIO(content))
        sheets = [s for s in book.sheet_names if options.sheet in (None, s)]
        if len(sheets) != 1:
            raise DataError(f"{name} has {len(sheets)} sheets: choose one (--sheet NAME).")
        sheet = book.get_sheet_by_name(sheets[0])
        self._start = sheet.start or (0, 0)
        self.rows = [list(row) for row in sheet.to_python()]
        write_alike(self.rows)
        self._own = [list(row) for row in self.rows]
        self._part = self._part_of(book.sheet_names.index(sheets[0]))

    def _part_of(self, number: int) -> str:
        """The part of the archive that holds a sheet."""
        with zipfile.ZipFile(io.BytesIO(self._content)) as archive:
            book = archive.read("xl/workbook.xml").decode()
            links = archive.read("xl/_rels/workbook.xml.rels").decode()
        key = re.findall(r'<(?:\w+:)?sheet\b[^>]*?\br:id="([^"]+)"', book)[number]
        entry = next(e for e in re.findall(r"<Relationship\b[^>]*>", links) if f'Id="{key}"' in e)
        target = re.search(r'Target="/?(?:xl/)?([^"]+)"', entry)
        assert target is not None
        return f"xl/{target[1]}"

    def write(self, rows: Sequence[Row]) -> bytes:
        """Return the workbook with other cells in this sheet."""
        changed = {
            self._address(i, j): cell
            for i, (row, own) in enumerate(zip(rows, self._own, strict=True))
            for j, (cell, old) in enumerate(zip(row, own, strict=True))
            if cell != old
        }
        stream = io.BytesIO()
        with (
            zipfile.ZipFile(io.BytesIO(self._content)) as archive,
            zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as copy,
        ):
            for entry in archive.infolist():
                data = archive.read(entry)
                if entry.filename == self._part:
                    data = self._with(data.decode(), changed).encode()
                copy.writestr(entry.filename, data)
        return stream.getvalue()

    def _address(self, row: int, column: int) -> str:
        """The address of a cell, such as B5."""
        column += self._start[1]
        letters = ""
        while column >= 0:
            letters, column = chr(65 + column % 26) + letters, column // 26 - 1
        return f"{letters}{row + self._start[0] + 1}"

    @staticmethod
    def _with(text: str, changed: dict[str, Any]) -> str:
        """The sheet with other cells; an empty cell that gets a value is added to its row."""

        def element(place: str, cell: Any) -> str:
            if cell in (None, ""):
                return f'<c r="{place}"/>'
            if isinstance(cell, str):
                return f'<c r="{place}" t="inlineStr"><is><t>{cell}</t></is></c>'
            return f'<c r="{place}"><v>{cell!r}</v></c>'

        def row(match: re.Match[str]) -> str:
            number = match[2]
            cells = dict(
                re.findall(
                    r'(?s)(?=<c\b[^>]*?\br="([A-Z]+)\d+")(<c\b[^>]*?/>|<c\b.*?</c>)', match[3]
                )
            )
            for place, cell in places.pop(number, {}).items():
                cells[place.removesuffix(number)] = element(place, cell)
            order = sorted(cells, key=lambda letters: (len(letters), letters))
            return f"{match[1]}{''.join(cells[letters] for letters in order)}</row>"

        places: dict[str, dict[str, Any]] = {}
        for place, cell in changed.items():
            places.setdefault(place.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), {})[place] = cell
        return re.sub(r'(?s)(<row\b[^>]*?\br="(\d+)"[^>]*?(?<!/)>)(.*?)</row>', row, text)


class JsonCells(RawCells):
    """The list of records of a JSON document."""

    typed = True

    def __init__(self, kind: str, content: bytes, name: str) -> None:
        self.kind = kind
        self._document = json.loads(content.decode("utf-8-sig"))
        found = list(_lists(self._document))
        if len(found) != 1:
            raise DataError(f"{name}: an audit can change only JSON with one list of records.")
        self._records = found[0]
        keys = list(dict.fromkeys(key for r in self._records for key in _flat(r)))
        flat = [_flat(record) for record in self._records]
        self.rows = [keys, *([record.get(key) for key in keys] for record in flat)]

    def write(self, rows: Sequence[Row]) -> bytes:
        """Return the document with other values in its records."""
        kept = [dict(_flat(record)) for record in self._records]
        for record, row in zip(self._records, rows[1:], strict=True):
            for key, cell in zip(rows[0], row, strict=True):
                _set(record, key, cell)
        data = json.dumps(self._document).encode()
        for record, own in zip(self._records, kept, strict=True):
            for key in rows[0]:
                _set(record, key, own.get(key))
        return data


def _lists(node: Any) -> Any:
    """The lists of at least two objects below a node."""
    if isinstance(node, list):
        if len(node) > 1 and all(isinstance(item, dict) for item in node):
            yield node
            return
        for item in node:
            yield from _lists(item)
    elif isinstance(node, dict):
        for item in node.values():
            yield from _lists(item)


def _flat(record: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The plain values of a record, with keys joined by points."""
    values: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, dict):
            values.update(_flat(value, f"{prefix}{key}."))
        elif not isinstance(value, list):
            values[f"{prefix}{key}"] = value
    return values


def _set(record: dict[str, Any], key: str, cell: Any) -> None:
    """Set a plain value of a record, whose key may be joined by points."""
    first, point, rest = key.partition(".")
    if key not in record and point and isinstance(record.get(first), dict):
        _set(record[first], rest, cell)
    elif key in record or cell is not None:
        record[key] = cell


class TaggedCells(RawCells):
    """Numbers at given places of a text: one row for each interval or telegram."""

    def __init__(self, kind: str, content: bytes) -> None:
        self.kind, self._text = kind, content.decode("utf-8-sig")
        find = self._intervals if kind == "greenbutton" else self._telegrams
        self._spans: list[list[tuple[int, int] | None]] = []
        self.rows = find()

    def _intervals(self) -> list[Row]:
        """Start, length, value, cost and number of the block of every interval."""
        blocks = [match.start() for match in BLOCK.finditer(self._text)]
        rows: list[Row] = []
        number = 0
        for match in INTERVAL.finditer(self._text):
            while number < len(blocks) and blocks[number] < match.start():
                number += 1
            tags = [re.search(rf"<(?:\w+:)?{tag}>\s*(-?\d+)\s*<", match[0]) for tag in TAGS]
            rows.append([*self._row(match, tags), number])
        return rows

    def _telegrams(self) -> list[Row]:
        """Time, powers and registers of every telegram, and its tariff."""
        patterns = [r"0-0:1\.0\.0\((\d{12}[WS])\)"]
        patterns += [rf"1-0:{re.escape(code)}\((\d+(?:\.\d+)?)\*k?Wh?\)" for code in CODES]
        patterns += [r"0-0:96\.14\.0\((\d+)\)"]
        rows = []
        for match in TELEGRAM.finditer(self._text):
            rows.append(self._row(match, [re.search(p, match[0]) for p in patterns]))
        return rows

    def _row(self, outer: re.Match[str], inner: Sequence[re.Match[str] | None]) -> Row:
        base = outer.start()
        spans = [None if m is None else (base + m.start(1), base + m.end(1)) for m in inner]
        self._spans.append(spans)
        return [None if m is None else m[1] for m in inner]

    def write(self, rows: Sequence[Row]) -> bytes:
        """Return the text with other numbers in the same places, and with its checksums."""
        places = sorted(
            (span, cell)
            for spans, row in zip(self._spans, rows, strict=True)
            for span, cell in zip(spans, row, strict=False)
            if span is not None
        )
        parts, end = [], 0
        for (first, stop), cell in places:
            parts += [self._text[end:first], str(cell)]
            end = stop
        text = "".join([*parts, self._text[end:]])
        return (text if self.kind == "greenbutton" else _with_checksums(text)).encode()


def _with_checksums(text: str) -> str:
    """DSMR telegrams with the checksums of their content."""
    from hushmeter.read.meter_records import crc16

    return re.sub(
        r"(/[^!]*!)[0-9A-Fa-f]{4}", lambda m: f"{m[1]}{crc16(m[1].encode('latin-1')):04X}", text
    )


class PackedCells(RawCells):
    """The one file of an archive that is read, or the content of a gzipped file."""

    def __init__(self, content: bytes, options: ReadOptions, name: str) -> None:
        self._content = content
        self._member = None
        if content.startswith(ZIP_MAGIC):
            inner = open_member(MemoryFile(name, content), options.member)
            self._member = str(inner).removeprefix(f"{name}: ")
            data = inner.data
        else:
            data = gzip.decompress(content)
        self.inner = open_cells(data, options, name)
        self.kind, self.rows, self.typed = self.inner.kind, self.inner.rows, self.inner.typed

    def write(self, rows: Sequence[Row]) -> bytes:
        """Return the archive with other cells in that file."""
        data = self.inner.write(rows)
        if self._member is None:
            return gzip.compress(data, mtime=0)
        stream = io.BytesIO()
        with (
            zipfile.ZipFile(io.BytesIO(self._content)) as archive,
            zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as copy,
        ):
            for entry in archive.infolist():
                same = entry.filename != self._member
                copy.writestr(entry.filename, archive.read(entry) if same else data)
        return stream.getvalue()


def open_cells(content: bytes, options: ReadOptions, name: str) -> RawCells:
    """Find the cells of a file."""
    path = MemoryFile(name, content)
    kind = recognise(path).name
    if kind == "archive" or content.startswith(GZIP_MAGIC):
        return PackedCells(content, options, name)
    if kind in NOT_WRITTEN:
        raise DataError(
            f"{name} is {NOT_WRITTEN[kind]}, which an audit cannot write: export its readings as "
            "CSV and audit that file."
        )
    if kind == "workbook":
        return WorkbookCells(kind, content, options, name)
    if kind == "json":
        return JsonCells(kind, content, name)
    if kind in ("greenbutton", "dsmr"):
        return TaggedCells(kind, content)
    if content.startswith(b"PAR1"):
        return ParquetCells(kind, content)
    return TextCells(kind, content)


__all__ = ["CODES", "ParquetCells", "RawCells", "Row", "open_cells"]
