"""Opening a file (on disk or in memory, plain, gzipped or in an archive) and finding its format."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import stat
import sys
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, BinaryIO, NoReturn

from hushmeter.errors import DataError, HushmeterError, InputError, TooLargeError
from hushmeter.parts import need
from hushmeter.read.cells import Table, cells_of, unique_names
from hushmeter.read.headers import find_source, has_word
from hushmeter.read.recording import Chooser, ReadOptions, Recording, Series, Task

GZIP_MAGIC = b"\x1f\x8b"
ZIP_MAGIC = b"PK\x03\x04"
ZIP_FAULTS = (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError, ValueError)
ENCRYPTED = 1
"""Flag of an encrypted file in a zip archive."""
OLE_MAGIC = b"\xd0\xcf\x11\xe0"
HEAD_BYTES = 1 << 18
# Encodings of one byte for each letter: Western and Central Europe, their DOS forms, and others.
ENCODINGS = (
    "latin-1",
    "cp1250",
    "cp850",
    "cp852",
    "cp1255",
    "cp1253",
    "cp1251",
    "cp1254",
    "cp949",
    "cp932",
    "gb18030",
)
HEADER_LISTS = ("use", "import", "export", "production", "stamps", "starts", "ends", "remarks")
TEXT_CAP = 1 << 28
SQLITE_CAP = 1 << 31
MAX_FIELD = 1 << 20
STREAM_CAP = 1 << 33
# What is larger than this may not grow to more than so many times its size when it is decompressed.
RATIO_FROM, MOST_RATIO = 1 << 20, 200
# What a number takes. A cell of a workbook is an XML element with an address, a type and a value.
VALUE_BYTES, CELL_BYTES = 8, 64
# Any file may hold this much, whatever the number of values: formats have headers of their own.
LEAST_CAP = 1 << 20
PACKED_TEXTS = ("string", "large_string", "binary", "large_binary")
PARQUET_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}


def refuse_bomb(size: int, packed: int, name: object) -> None:
    """Raise `TooLargeError` if a file grows too much while it is decompressed."""
    if size > RATIO_FROM and size > MOST_RATIO * packed:
        raise TooLargeError(
            f"{name} decompresses to more than {MOST_RATIO} times its size, which meter readings "
            "never do: load another file."
        )


class CappedReader(io.RawIOBase):
    """A stream that refuses to hand out more than `cap` bytes, or too many for a `packed` file."""

    def __init__(self, stream: BinaryIO, cap: int, path: Path, packed: int) -> None:
        self._stream, self._left, self._cap, self._path = stream, cap, cap, path
        self._packed = packed

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: object) -> int:
        """Fill the buffer, unless the cap is passed."""
        view = memoryview(buffer)  # type: ignore[arg-type]
        data = self._stream.read(len(view))
        self._left -= len(data)
        refuse_bomb(self._cap - self._left, self._packed, self._path)
        if self._left < 0:
            raise TooLargeError(
                f"{self._path} holds more than {self._cap >> 20} MB: cut it into smaller files."
            )
        view[: len(data)] = data
        return len(data)


def refuse_outside(path: Path, folder: Path) -> None:
    """Refuse a file of a folder that is elsewhere: a link or a name leads out of the folder."""
    # Unlike Path.resolve, realpath does not fail at a link to itself.
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
        raise DataError(
            f"{path} leads to a file outside of {folder}: copy the file into the folder, or give "
            "the folder that holds it."
        )


def is_gzip(path: Path) -> bool:
    """Whether the file starts as gzip does."""
    with path.open("rb") as file:
        return file.read(2) == GZIP_MAGIC


@contextmanager
def refuse_faults(what: str, *kinds: type[Exception]) -> Iterator[None]:
    """Raise an error of a library again as one sentence: what is wrong with the file, and why."""
    try:
        yield
    except HushmeterError:
        raise
    except kinds as error:
        reason = " ".join(str(error).split("\n")[0].split()).rstrip(".")[:160]
        raise DataError(f"{what}: {reason}.") from None


@contextmanager
def open_stream(path: Path, cap: int = STREAM_CAP) -> Iterator[BinaryIO]:
    """The file's bytes, decompressed where it is gzip; more than `cap` of them are refused."""
    cap = min(cap, most_bytes(path, cap))
    faults = refuse_faults(f"{path} cannot be read", OSError, EOFError, zlib.error)
    with faults, path.open("rb") as raw:
        packed = raw.read(2) == GZIP_MAGIC
        size = raw.seek(0, io.SEEK_END)
        raw.seek(0)
        stream: BinaryIO = gzip.GzipFile(fileobj=raw) if packed else raw  # type: ignore[assignment]
        yield io.BufferedReader(CappedReader(stream, cap, path, size), 1 << 16)


def read_head(path: Path, size: int = HEAD_BYTES) -> bytes:
    """The first bytes, decompressed; a torn gzip gives what it holds."""
    parts: list[bytes] = []
    try:
        with open_stream(path) as stream:
            while size > 0 and (part := stream.read(min(size, 1 << 14))):
                parts.append(part)
                size -= len(part)
    except DataError:
        if not parts:
            raise
    return b"".join(parts)


@contextmanager
def open_text(path: Path, cap: int = TEXT_CAP) -> Iterator[io.TextIOWrapper]:
    """The file as text in the encoding its first bytes show."""
    encoding = find_encoding(read_head(path, 1 << 14))
    with open_stream(path, cap) as stream:
        try:
            yield io.TextIOWrapper(stream, encoding=encoding, newline="")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{path} is not {encoding} text: byte {error.start} of a block is "
                f"{error.object[error.start]:#04x}; save it as UTF-8."
            ) from None


def csv_rows(path: Path, delimiter: str = ",") -> Iterator[list[str]]:
    """The rows of a text table, without blanks around the cells."""
    csv.field_size_limit(MAX_FIELD)
    with open_text(path) as text:
        lines = (line.replace("\x00", "") for line in text)
        try:
            for row in csv.reader(lines, delimiter=delimiter, skipinitialspace=True):
                yield [cell.strip("\ufeff").strip() for cell in row]
        except csv.Error as error:
            raise DataError(f"{path} is no CSV: {error}.") from None


def find_encoding(head: bytes) -> str:
    """UTF-16 by its mark, UTF-8 where the bytes allow it, else one whose words are known."""
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    # UTF-16 without its mark has a zero in every second byte of plain text.
    for first, name in ((1, "utf-16-le"), (0, "utf-16-be")):
        half = head[first:400:2]
        if len(half) > 20 and half.count(0) > 0.9 * len(half):
            return name
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        # The head may end inside a character of several bytes.
        if error.start < len(head) - 4:
            return max(ENCODINGS, key=lambda name: _known_words(head, name))
    return "utf-8-sig"


def _known_words(head: bytes, encoding: str) -> int:
    """How many letters the words of headers have whose letters the encoding decides."""
    text = head[:4096].decode(encoding, "replace")
    words = set(re.findall(r"\w*[^\W\x00-\x7f]\w*", text))
    return sum(len(word) for word in words if has_word(word, *HEADER_LISTS))


if sys.platform == "win32":
    from pathlib import WindowsPath as SystemPath
else:
    from pathlib import PosixPath as SystemPath


class MemoryFile(SystemPath):
    """Bytes under a name.

    It is a path so that readers take it and name it in their messages; the operating system never
    gets to see it, because it has no file-system path.
    """

    def __new__(cls, name: str, *_: Any) -> MemoryFile:
        """The path; the bytes follow in `__init__`."""
        return super().__new__(cls, name)

    def __init__(self, name: str, data: bytes, most_values: int | None = None) -> None:
        if sys.version_info >= (3, 12):
            super().__init__(name)
        self.data, self.most_values = data, most_values

    def __reduce__(self) -> Any:
        return MemoryFile, (str(self), self.data, self.most_values)

    def __fspath__(self) -> NoReturn:
        raise DataError(f"{self} is only in memory, and this format needs a file.")

    def open(self, *_: Any, **__: Any) -> Any:
        """The bytes of the file as a stream."""
        return io.BytesIO(self.data)


def arrow_source(path: Path) -> Any:
    """What pyarrow reads: the path, or the bytes of a file in memory."""
    if isinstance(path, MemoryFile):
        import pyarrow as pa

        return pa.BufferReader(path.data)
    return path


def read_parquet(path: Path) -> Table:
    """The columns of a Parquet file; of one in memory only as much as it may hold."""
    parquet = need("pyarrow.parquet", "reading Parquet", "parquet")
    import pyarrow as pa

    texts = None
    with refuse_faults(f"{path} is neither a CSV nor a Parquet table", pa.ArrowException):
        if isinstance(path, MemoryFile):
            found = parquet.ParquetFile(arrow_source(path))
            _refuse_large_columns(path, found)
            # Packed text stays packed until its length is known: one long word may stand in every
            # row.
            texts = [name for name in found.schema.names if _is_text(found, name)]
        table = parquet.read_table(arrow_source(path), read_dictionary=texts)
        names = unique_names(table.column_names)
        return {name: cells_of(_unpack_text(path, column))
                for name, column in zip(names, table.columns, strict=True)}  # fmt: skip


def _refuse_large_columns(path: MemoryFile, file: Any) -> None:
    """Refuse a Parquet file by what it declares, before any of its columns is decoded."""
    found = file.metadata
    groups = [found.row_group(i) for i in range(found.num_row_groups)]
    refuse_large(path, sum(group.num_rows for group in groups), found.num_columns)
    for i in range(found.num_columns):
        column = file.schema.column(i)
        name = column.path.partition(".")[0]
        # The number of rows does not bound a column whose rows hold lists.
        if column.max_repetition_level > 0 or column.path != column.name:
            raise TooLargeError(
                f"{path} has lists or groups of values in the column {name[:40]!r}: keep one value "
                "in each row."
            )
        parts = [group.column(i) for group in groups]
        size = sum(_declared_bytes(column, part) for part in parts)
        refuse_large(path, -(-size // VALUE_BYTES), 1)


def _declared_bytes(column: Any, part: Any) -> int:
    """Memory of a part of a Parquet column, as declared [bytes]: its pages or its values."""
    width = PARQUET_WIDTHS.get(column.physical_type, VALUE_BYTES)
    if column.physical_type == "FIXED_LEN_BYTE_ARRAY":
        width = column.length
    return max(int(part.total_uncompressed_size), int(part.num_values) * width)


def _is_text(file: Any, name: str) -> bool:
    fields = file.schema_arrow
    return name in fields.names and str(fields.field(name).type) in PACKED_TEXTS


def _unpack_text(path: Path, column: Any) -> Any:
    """A packed column as plain values, refused where it is too long; others as they are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(column.type):
        return column
    size = 0
    for chunk in column.chunks:
        lengths = pc.binary_length(chunk.dictionary)
        size += pc.sum(lengths.take(chunk.indices)).as_py() or 0
    refuse_large(path, -(-size // VALUE_BYTES), 1)
    return column.cast(column.type.value_type)


def hdf5_source(path: Path) -> dict[str, Any]:
    """Arguments with which PyTables opens a path, or a file in memory."""
    if isinstance(path, MemoryFile):
        return {
            # HDF5 refuses a name that is also that of a file on disk.
            "filename": f"memory-{id(path)}-{path.name}",
            "driver": "H5FD_CORE",
            "driver_core_image": path.data,
            "driver_core_backing_store": 0,
        }
    return {"filename": str(path)}


def most_bytes(path: Path, cap: int) -> int:
    """Most bytes that a packed file may hold: `cap`, and less for a file in memory."""
    if isinstance(path, MemoryFile) and path.most_values is not None:
        return min(cap, TEXT_CAP, max(LEAST_CAP, CELL_BYTES * path.most_values))
    return cap


def refuse_large(path: Path, rows: int, columns: int) -> None:
    """Refuse a packed table with more values than its reader was told to take."""
    if isinstance(path, MemoryFile) and path.most_values is not None:
        values = rows * columns
        if values > path.most_values:
            raise TooLargeError(
                f"{path} unpacks to {rows} rows of {columns} columns, and at most "
                f"{path.most_values} values are taken: cut it into smaller files."
            )


SQLITE_MAGIC = b"SQLite format 3\x00"
HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
OTHER = {
    b"%PDF": "a PDF: download the data as CSV or Green Button XML",
    b"7z\xbc\xaf": "a 7z archive: unpack it",
    b"Rar!": "a rar archive: unpack it",
    b"\x89PNG": "a picture: download the data as CSV or Green Button XML",
    b"\xff\xd8\xff": "a picture: download the data as CSV or Green Button XML",
    b"BZh": "a bzip2 archive: unpack it",
    b"\xfd7zXZ": "an xz archive: unpack it",
    b"\x28\xb5\x2f\xfd": "a zstd archive: unpack it",
}


# An Australian meter file: its header, or the record of a register above one of a day's values.
NEM_RECORD = re.compile(
    r'(?i)"?100"?,"?NEM1[23]"?\b|"?250"?,"?\w+"?,|"?200"?,.*\s+"?(?:300"?,"?\d{8}|200"?,)'
)
DSMR_LINE = re.compile(r"^\d-\d:\d+\.\d+\.\d+\(", re.MULTILINE)
# Files that accompany the readings in an archive.
BESIDES = re.compile(
    r"(?i)(^|/)(__macosx/|\.|read[ _-]?me|licen[cs]e|manifest)"
    r"|\.(pdf|png|jpe?g|gif|html?|md|xslt?|css|docx?|js|xsd)$"
)


@contextmanager
def open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """The zip archive, refused if it unpacks to more than a file of text may hold."""
    faults = refuse_faults(f"{path} is an archive that cannot be read", *ZIP_FAULTS)
    with faults, path.open("rb") as file, zipfile.ZipFile(file) as archive:
        _refuse_entries(archive.infolist(), path)
        size = sum(entry.file_size for entry in archive.infolist())
        refuse_bomb(size, file.seek(0, io.SEEK_END), path)
        cap = most_bytes(path, TEXT_CAP)
        if size > cap:
            raise TooLargeError(
                f"{path} unpacks to more than {cap >> 20} MB: cut it into smaller files."
            )
        yield archive


def _refuse_entries(entries: Sequence[zipfile.ZipInfo], path: Path) -> None:
    """Refuse an archive with files that another program would read or unpack differently."""
    names = Counter(entry.filename for entry in entries)
    for entry in entries:
        shown = f"{path} is an archive in which {entry.filename[-80:]!r}"
        if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise DataError(f"{shown} is a link or a device: pack the file of readings itself.")
        parts = re.split(r"[/\\]", entry.filename)
        if ".." in parts or not parts[0] or re.match(r"[A-Za-z]:", entry.filename):
            raise DataError(f"{shown} leads out of the archive: pack the file of readings alone.")
        if entry.flag_bits & ENCRYPTED:
            raise DataError(f"{shown} is encrypted: unpack the archive first.")
        if names[entry.filename] > 1:
            raise DataError(f"{shown} is there twice: pack the file of readings once.")


def open_member(path: Path, asked: str | None) -> MemoryFile:
    """The meter file of a zip archive, unpacked in memory."""
    with open_zip(path) as archive:
        names = [entry.filename for entry in archive.infolist() if not entry.is_dir()]
        name = _find_member(names, asked, path)
        most = path.most_values if isinstance(path, MemoryFile) else None
        member = MemoryFile(f"{path}: {name}", archive.read(name), most)
    if member.data.startswith((ZIP_MAGIC, HDF5_MAGIC)) and recognise(member).name != "workbook":
        raise DataError(f"{member} is an archive or HDF5 file in an archive: unpack it.")
    return member


def _find_member(names: Sequence[str], asked: str | None, path: Path) -> str:
    """The file to read in an archive: the one asked for, or the only one of electricity."""
    chooser = Chooser(path, "file", "member", InputError)
    if asked is not None:
        wanted = asked.strip().lower()
        for name in names:
            if wanted in (name.lower(), name.lower().rpartition("/")[2]):
                return name
        raise chooser.absent(asked, names)
    files = [name for name in names if not BESIDES.search(name)]
    electric = [name for name in files if find_source(name) is None] or files
    if not electric:
        shown = ", ".join(names[:12])
        raise DataError(f"{path} is an archive without a file of readings (found: {shown}).")
    return chooser.only(electric)


@dataclass(frozen=True)
class Head:
    """The first bytes of a file, decompressed, by which its format is recognised."""

    path: Path
    data: bytes

    @cached_property
    def text(self) -> str:
        """The bytes as text, without blanks at the start."""
        text = self.data.decode(find_encoding(self.data), errors="replace")
        return text.lstrip("\ufeff \t\r\n\x00")

    @cached_property
    def names(self) -> list[str]:
        """The cells of the first line in lower case, if they are separated by commas."""
        line = next(iter(self.text[:4096].splitlines()), "")
        return [cell.strip().strip('"').lower() for cell in line.split(",")]


@dataclass(frozen=True)
class Format:
    """A format of files: how it is recognised, and who reads it."""

    name: str
    matches: Callable[[Head], bool]  # Decides by the first bytes, never by the readings
    # The reader, or "module:name" of it
    reader: str | Callable[[Task], Series | Recording]
    table: bool = False  # True if it may have a row only where the value changed

    def read(self, task: Task) -> Series | Recording:
        """Read a file of this format."""
        if task.options.changes is not None and not self.table:
            raise task.error("is no table: leave `changes=` out, its format says it.")
        found = self.reader
        reader = resolve_name(f"hushmeter.read.{found}") if isinstance(found, str) else found
        result: Series | Recording = reader(task)
        return result


def read_file(task: Task) -> Recording:
    """Read a file by the first of `FORMATS` that recognises it."""
    from hushmeter.read.regular_times import assemble

    form = recognise(task.path)
    task.reasons.append(f"The first bytes are those of the format {form.name}.")
    found = form.read(task)
    return found if isinstance(found, Recording) else assemble(task, found)


def explain(path: Path, options: ReadOptions) -> list[str]:
    """Which rule decided about the format, the columns, the unit, the zone and the rows."""
    task = Task(path, options, "beside")
    try:
        found = read_file(task)
    except HushmeterError as error:
        return [*task.reasons, *task.notes, f"Refused: {error}"]
    facts = found.public
    read = (
        f"Read: {facts.readings} rows of {facts.interval_s:g} s from {facts.start} to {facts.end}."
    )
    return [*task.reasons, *facts.notes, *found.remarks, read]


def recognise(path: Path) -> Format:
    """The format of a file by its first bytes, after all of a packed file was unpacked once.

    A reader would have filled the memory before it came to the limit.
    """
    if is_gzip(path):
        with open_stream(path) as stream:
            while stream.read(1 << 20):
                pass
    head = Head(path, read_head(path, 1 << 14))
    if not head.data:
        raise DataError(f"{path} is neither a CSV nor a Parquet table: it is empty.")
    return next(form for form in FORMATS if form.matches(head))


def _is_workbook(head: Head) -> bool:
    """True for the workbooks of Excel; other spreadsheets are refused."""
    if not head.data.startswith(ZIP_MAGIC):
        return head.data.startswith(OLE_MAGIC)
    with open_zip(head.path) as archive:
        names = set(archive.namelist())
    if "xl/workbook.bin" in names or "mimetype" in names:
        raise DataError(
            f"{head.path} is a spreadsheet, but not in the format xlsx: save it as xlsx or CSV."
        )
    return any(name.startswith("xl/") for name in names)


def _read_member(task: Task) -> Recording:
    """Read the meter file of a zip archive."""
    return read_file(replace(task, path=open_member(task.path, task.options.member)))


def _is_refused(head: Head) -> bool:
    """False for a file that may hold readings; others are refused with what to do."""
    for magic, what in OTHER.items():
        if head.data.startswith(magic):
            raise DataError(f"{head.path} is {what}.")
    if head.data[257:262] == b"ustar":
        raise DataError(f"{head.path} is a tar archive: unpack it.")
    if re.match(r"<!doctype html|<html", head.text, flags=re.IGNORECASE):
        raise DataError(f"{head.path} is a web page, maybe a sign-in: download the file itself.")
    return False


FORMATS: tuple[Format, ...] = (
    Format("nilmtk", lambda head: head.data.startswith(HDF5_MAGIC), "nilmtk:read_nilmtk"),
    Format(
        "database", lambda head: head.data.startswith(SQLITE_MAGIC), "home_automation:read_database"
    ),
    Format("workbook", _is_workbook, "sheets:read_workbook", table=True),
    Format("archive", lambda head: head.data.startswith(ZIP_MAGIC), _read_member, table=True),
    Format("refused", _is_refused, ""),
    Format("greenbutton", lambda head: head.text.startswith("<"), "green_button:read_green_button"),
    Format("json", lambda head: head.text.startswith(("{", "[")), "sheets:read_json", table=True),
    Format("nem", lambda head: NEM_RECORD.match(head.text) is not None, "meter_records:read_nem"),
    Format("dsmr", lambda head: DSMR_LINE.search(head.text) is not None, "meter_records:read_dsmr"),
    Format(
        "ha-energy",
        lambda head: head.names[:3] == ["entity_id", "type", "unit"],
        "home_automation:read_energy",
    ),
    Format(
        "ha-history",
        lambda head: {"entity_id", "state", "last_changed"} <= set(head.names),
        "home_automation:read_history",
    ),
    Format("table", lambda _: True, "table:read_table", table=True),
)
"""The formats of files in the order in which they are tried."""
