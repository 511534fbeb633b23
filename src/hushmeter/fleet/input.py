"""Reading one Parquet file twice in bounded memory: once to check, once to release."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushmeter.errors import DataError
from hushmeter.fleet.schema import TICKS, Columns, check_schema, plain_type, value_type

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import parquet

RECORD_ROWS = 1 << 18
"""Rows looked at together."""

GROUP_ROWS = 1 << 20
"""Row groups up to this size are kept, larger ones are split."""

RAW_BYTES = 1 << 25
"""Files up to this size are read into memory once, larger ones from the disk as needed."""

KEPT_BYTES = 72 << 20
"""Unpacked rows up to this size are kept for the second pass."""

_CHUNK = 1 << 20


class UnusableFileError(DataError):
    """A file that cannot be released as it is; nothing was spent for it."""


class FleetFile:
    """An open Parquet file of readings.

    Attributes
    ----------
    sha256 : bytes
        Of the raw file.
    metadata : FileMetaData
    schema, held_schema : Schema
        Of the file, and as its rows are held here: repeated text as dictionaries, none as views.
    leaves : list of str
        Paths of its columns in Parquet's own terms.
    time_unit : {"s", "ms", "us", "ns"}
    """

    def __init__(self, source: pa.NativeFile, sha256: bytes, columns: Columns) -> None:
        from pyarrow import parquet

        self._source, self.sha256 = source, sha256
        plain = parquet.ParquetFile(source, buffer_size=_CHUNK, pre_buffer=False)
        self.metadata: parquet.FileMetaData = plain.metadata
        self.schema: pa.Schema = plain.schema_arrow
        check_schema(self.schema, columns)
        self.leaves = [plain.schema.column(i).path for i in range(len(plain.schema))]
        repeated = _repeated_text(self.schema, self.metadata, columns)
        self._file = parquet.ParquetFile(
            source,
            metadata=self.metadata,
            read_dictionary=repeated,
            buffer_size=_CHUNK,
            pre_buffer=False,
            page_checksum_verification=True,
        )
        self._read_schema: pa.Schema = self._file.schema_arrow
        self.held_schema: pa.Schema = _without_views(self._read_schema)
        self.time_unit: str = value_type(self.schema.field(columns.time).type).unit
        assert self.time_unit in TICKS
        self._kept: list[list[pa.RecordBatch]] | None = None

    def records(self) -> Iterator[pa.RecordBatch]:
        """First pass: every row; they are kept where they are few."""
        kept: list[list[pa.RecordBatch]] = []
        size = 0
        for group in self._read():
            held = []
            for record in group:
                yield record
                size += record.nbytes
                if size <= KEPT_BYTES:
                    held.append(record)
            kept.append(held)
            if size > KEPT_BYTES:
                kept = []
        self._kept = kept if size <= KEPT_BYTES else None

    def row_groups(self) -> Iterator[Iterator[pa.RecordBatch]]:
        """Second pass: the same records, row group by row group."""
        if self._kept is None:
            yield from self._read()
            return
        while self._kept:
            yield iter(self._kept.pop(0))

    def unchanged(self) -> bool:
        """Whether the file on the disk is still what it was at the first pass."""
        import pyarrow as pa

        try:
            return isinstance(self._source, pa.BufferReader) or _sha256(self._source) == self.sha256
        except OSError:
            return False

    def _read(self) -> Iterator[Iterator[pa.RecordBatch]]:
        for group in range(self.metadata.num_row_groups):
            records = self._file.iter_batches(RECORD_ROWS, row_groups=[group], use_threads=False)
            if self.held_schema is not self._read_schema:
                records = (record.cast(self.held_schema) for record in records)
            if self.metadata.row_group(group).num_rows <= GROUP_ROWS:
                yield records
                continue
            while part := list(islice(records, GROUP_ROWS // RECORD_ROWS)):
                yield iter(part)


@contextmanager
def open_fleet_file(path: Path, columns: Columns) -> Iterator[FleetFile]:
    """Open a file whose schema is right; anything else is a reason not to use it."""
    import pyarrow as pa

    try:
        small = path.stat().st_size <= RAW_BYTES
        source = pa.BufferReader(path.read_bytes()) if small else pa.OSFile(os.fspath(path), "rb")
    except OSError as error:
        raise UnusableFileError(f"the file cannot be read: {error.strerror}.") from None
    with source:
        with unusable():
            file = FleetFile(source, _sha256(source), columns)
        yield file


@contextmanager
def unusable() -> Iterator[None]:
    """What goes wrong with a file before it is paid for, as one sentence."""
    import pyarrow as pa

    try:
        yield
    except UnusableFileError:
        raise
    except DataError as error:
        raise UnusableFileError(f"the file {error}") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise UnusableFileError(f"the file cannot be read as Parquet: {reason}.") from None


def _without_views(schema: pa.Schema) -> pa.Schema:
    """The schema itself if it has no views."""
    for i, field in enumerate(schema):
        if (kind := plain_type(field.type)) != field.type:
            schema = schema.set(i, field.with_type(kind))
    return schema


def _sha256(source: Any) -> bytes:
    """SHA-256 of a whole file."""
    source.seek(0)
    total = hashlib.sha256()
    while part := source.read(_CHUNK):
        total.update(part)
    source.seek(0)
    return total.digest()


def _repeated_text(
    schema: pa.Schema, metadata: parquet.FileMetaData, columns: Columns
) -> list[str]:
    """Text columns that are better held as dictionaries: meters, units, and those stored so."""
    from pyarrow import types

    stored = set()
    if metadata.num_row_groups:
        group = metadata.row_group(0)
        for i in range(group.num_columns):
            if {"RLE_DICTIONARY", "PLAIN_DICTIONARY"} & set(group.column(i).encodings):
                stored.add(group.column(i).path_in_schema)
    wanted = {columns.meter, columns.unit} | stored
    return [f.name for f in schema if f.name in wanted and types.is_string(f.type)]
