"""The input files of a fleet release: what they must hold, and how they are read.

Five columns are mandatory: the id of the meter, the time (with a zone, so that it is an instant),
the value, its unit and the interval that it covers. Other columns are not read unless the job keeps
them. A file is read twice in bounded memory: once to check it, and once to release it.

A utility's extract is often a CSV file, or a Parquet file without a unit or with local times. Such
a file is read completely and converted to a Parquet file in memory: text to numbers and times,
local times to UTC, and columns that are missing from the options (`--unit`, `--interval`) or from
the names of Hive partitions (`feeder=F7/part.csv`). What is converted depends on the options, the
name of the file and its header, never on a reading.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np

from hushmeter.apps.fleet.folders import SourceFolder
from hushmeter.apps.fleet.job import Columns, InputFormat
from hushmeter.checks import IntArray
from hushmeter.clock import SECOND
from hushmeter.errors import DataError
from hushmeter.files import reason_of, sha256_of
from hushmeter.read.cells import Table, cells_of
from hushmeter.read.columns import load_table, to_numbers
from hushmeter.read.headers import find_unit
from hushmeter.read.recording import DECIMALS, ReadOptions, Task
from hushmeter.read.times import read_stamps, to_utc
from hushmeter.trace import UNITS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import parquet

TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""Ticks per second of each unit of Arrow's timestamps."""

CSV_ROW_BYTES = 32
"""Estimated size of a row of a CSV file [bytes], for the progress bar."""

RECORD_ROWS = 1 << 18
"""Rows that are read together. The keys of the noise depend on this number."""

GROUP_ROWS = 1 << 20
"""Rows that are held together: the row groups of the output have this size."""

KEPT_BYTES = 72 << 20
"""Unpacked rows up to this size are kept in memory for the second pass."""

MAX_ROWS = 1 << 22
"""Most rows of a file that is converted in memory."""

_CHUNK = 1 << 20
_SPARE_BYTES = 1 << 20


class UnusableFileError(DataError):
    """A file cannot be released as it is; nothing was spent for it."""


@dataclass(frozen=True)
class Footer:
    """What the footer of a Parquet file states."""

    rows: int = 0  # Number of rows
    other_bytes: int = 0  # Compressed size of all columns except the value [bytes]


def read_footer(folder: SourceFolder, name: str, value: str) -> Footer:
    """Read the footer of a file."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        if not name.endswith(".parquet"):
            size = folder.size(name)
            return Footer(size // CSV_ROW_BYTES, size // 4)
        with folder.open(name) as file:
            metadata = parquet.read_metadata(file)
    except (pa.ArrowException, OSError):
        return Footer()
    others = (c for c in _column_chunks(metadata) if c.path_in_schema != value)
    return Footer(metadata.num_rows, sum(c.total_compressed_size for c in others))


def _column_chunks(metadata: parquet.FileMetaData) -> Iterator[Any]:
    """Yield what the footer of a file states about each column of each row group."""
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            yield metadata.row_group(group).column(column)


class FleetFile:
    """An open Parquet file of readings."""

    def __init__(
        self,
        source: pa.NativeFile,
        sha256: bytes,
        columns: Columns,
        keep: Sequence[str] = (),
        *,
        whole_seconds: bool = False,
    ) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        self._source, self.sha256 = source, sha256
        plain = parquet.ParquetFile(source, buffer_size=_CHUNK, pre_buffer=False)
        self.metadata: parquet.FileMetaData = plain.metadata
        check_schema(plain.schema_arrow, columns, keep)
        self.schema: pa.Schema = _selected(plain.schema_arrow, {*columns.names, *keep})
        paths = [plain.schema.column(i).path for i in range(len(plain.schema))]
        # A nested column has paths such as a.list.element.
        names = set(self.schema.names)
        self.leaves = [p for p in paths if p in names or p.partition(".")[0] in names]
        repeated = _repeated_text(self.schema, self.metadata, columns)
        self._file = parquet.ParquetFile(
            source,
            metadata=self.metadata,
            read_dictionary=repeated,
            buffer_size=_CHUNK,
            pre_buffer=False,
            page_checksum_verification=True,
        )
        self.held_schema: pa.Schema = _without_views(_selected(self._file.schema_arrow, names))
        if whole_seconds:
            # Parquet stores times in milliseconds at the coarsest.
            time = pa.field(columns.time, pa.timestamp("s", tz="UTC"))
            place = self.schema.get_field_index(columns.time)
            self.schema = self.schema.set(place, time)
            self.held_schema = self.held_schema.set(place, time)
        self.time_unit: str = _value_type(self.schema.field(columns.time).type).unit
        assert self.time_unit in TICKS
        self.room_bytes = _room_for(self.metadata, set(self.leaves) - {columns.value})
        self._kept: list[list[pa.RecordBatch]] | None = None

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield every row for the first pass; the rows of a small file are kept in memory."""
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
        """Yield the same records for the second pass, one row group after the other."""
        if self._kept is None:
            yield from self._read()
            return
        while self._kept:
            yield iter(self._kept.pop(0))

    def unchanged(self) -> bool:
        """Return whether the file on the disk still has the bytes of the first pass."""
        import pyarrow as pa

        try:
            return isinstance(self._source, pa.BufferReader) or _sha256(self._source) == self.sha256
        except OSError:
            return False

    def _read(self) -> Iterator[Iterator[pa.RecordBatch]]:
        """Yield the records of each row group; a large group is split into several."""
        for group in range(self.metadata.num_row_groups):
            records = self._file.iter_batches(
                RECORD_ROWS, row_groups=[group], columns=self.schema.names, use_threads=False
            )
            records = (r.select(self.schema.names).cast(self.held_schema) for r in records)
            if self.metadata.row_group(group).num_rows <= GROUP_ROWS:
                yield records
                continue
            while part := list(islice(records, GROUP_ROWS // RECORD_ROWS)):
                yield iter(part)


def partition_values(name: str) -> dict[str, str]:
    """Return the columns that the folders of a file name, as in `feeder=F7/date=2024/a.csv`."""
    pairs = (part.partition("=") for part in PurePosixPath(name).parts[:-1])
    return {unquote(key): unquote(value) for key, sign, value in pairs if sign and key}


def needs_conversion(
    folder: SourceFolder, name: str, columns: Columns, keep: Sequence[str], form: InputFormat
) -> bool:
    """Return whether a file is no Parquet, lacks a stated column or zone, or has values as text."""
    import pyarrow as pa
    from pyarrow import parquet

    if not name.endswith(".parquet"):
        return True
    try:
        with folder.open(name) as file:
            schema = parquet.read_schema(file)
    except (pa.ArrowException, OSError):
        return False
    stated = set(partition_values(name))
    if form.unit is not None:
        stated.add(columns.unit)
    if form.interval_s is not None:
        stated.add(columns.interval)
    lacking = {*columns.names, *keep} - set(schema.names)
    kinds = {name: _value_type(schema.field(name).type) for name in {*columns.names} - lacking}
    # One odd cell can turn a whole column into text when a table is written.
    text = columns.value in kinds and _is_text(kinds[columns.value])
    time = kinds.get(columns.time) if form.tz is not None else None
    local = time is not None and (not pa.types.is_timestamp(time) or time.tz is None)
    return lacking <= stated and bool(lacking or text or local)


@contextmanager
def open_input(
    folder: SourceFolder,
    name: str,
    columns: Columns,
    keep: Sequence[str] = (),
    form: InputFormat | None = None,
    scratch: Path | None = None,
) -> Iterator[FleetFile]:
    """Open a file as it is if it has all columns, and convert it otherwise.

    A copy of a remote file is written to the folder `scratch`.
    """
    form = form or InputFormat()
    with ExitStack() as stack:
        with as_unusable():
            converted = needs_conversion(folder, name, columns, keep, form)
            if converted:
                path = stack.enter_context(folder.local_path(name, scratch))
                sha256 = bytes.fromhex(sha256_of(path))
                source = convert(path, partition_values(name), columns, keep, form)
            else:
                source = stack.enter_context(folder.snapshot(name, scratch))
                sha256 = _sha256(source)
            file = FleetFile(source, sha256, columns, keep, whole_seconds=converted)
        yield file


@contextmanager
def as_unusable() -> Iterator[None]:
    """Raise errors about a file that is not yet paid for as `UnusableFileError`."""
    import pyarrow as pa

    try:
        yield
    except UnusableFileError:
        raise
    except DataError as error:
        raise UnusableFileError(f"the file {error}") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UnusableFileError(f"the file cannot be read: {reason_of(error)}.") from None


def check_schema(schema: pa.Schema, columns: Columns, keep: Sequence[str] = ()) -> None:
    """Check the columns of a file before any row is read."""
    for name in columns.names:
        count = len(schema.get_all_field_indices(name))
        if count != 1:
            found = ", ".join(schema.names)
            problem = f"has no column {name!r}" if count == 0 else f"has {count} columns {name!r}"
            raise DataError(f"{problem} (it has {found}); name it with --columns.")
    _check_types(schema, columns)
    for name in keep:
        if len(schema.get_all_field_indices(name)) != 1:
            raise DataError(
                f"has no single column {name!r} to keep (it has {', '.join(schema.names)})."
            )
        field = schema.field(name)
        if any(map(_has_shared_values, _inner_types(field.type))):
            raise DataError(
                f"has a column {field.name!r} with dictionaries or views within its {field.type}; "
                "store its values directly."
            )


def _check_types(schema: pa.Schema, columns: Columns) -> None:
    """Check the types of the mandatory columns."""
    from pyarrow import types

    kinds = {name: _value_type(schema.field(name).type) for name in columns.names}
    time = kinds[columns.time]
    if not types.is_timestamp(time):
        raise DataError(f"column {columns.time!r} must hold timestamps, but is {time}.")
    if time.tz is None:
        raise DataError(
            f"column {columns.time!r} has times without a zone; store them as UTC instants."
        )
    whole = {name: types.is_integer(kind) for name, kind in kinds.items()}
    real = types.is_floating(kinds[columns.value]) or types.is_decimal(kinds[columns.value])
    checks = {
        columns.meter: (_is_text(kinds[columns.meter]), "text or whole numbers"),
        columns.value: (real, "numbers"),
        columns.unit: (_is_text(kinds[columns.unit]), f"text ({', '.join(UNITS)})"),
        columns.interval: (False, "whole seconds"),
    }
    for name, (fits, wanted) in checks.items():
        if not (fits or (whole[name] and name != columns.unit)):
            raise DataError(f"column {name!r} must hold {wanted}, but is {kinds[name]}.")


def _selected(schema: pa.Schema, names: set[str]) -> pa.Schema:
    """Return the named columns in the order of the file, without any metadata."""
    import pyarrow as pa

    return pa.schema([field.remove_metadata() for field in schema if field.name in names])


def _inner_types(kind: pa.DataType) -> list[pa.DataType]:
    """Return the types of the parts of a nested type."""
    return [kind.field(i).type for i in range(kind.num_fields)]


def _has_shared_values(kind: pa.DataType) -> bool:
    """Return whether values are stored outside the rows.

    The values of rows that are left out would then be written all the same.
    """
    from pyarrow import types

    shared = types.is_dictionary(kind) or types.is_string_view(kind) or types.is_binary_view(kind)
    return bool(shared or any(map(_has_shared_values, _inner_types(kind))))


def _room_for(metadata: parquet.FileMetaData, leaves: set[str]) -> int:
    """Bound the size of the output: other columns uncompressed, and 8 bytes per value [bytes]."""
    others = sum(
        chunk.total_uncompressed_size
        for chunk in _column_chunks(metadata)
        if chunk.path_in_schema in leaves
    )
    return int(others + 8 * metadata.num_rows + _SPARE_BYTES)


def _without_views(schema: pa.Schema) -> pa.Schema:
    """Return the schema with plain text and bytes, which Arrow can filter, in place of views."""
    import pyarrow as pa
    from pyarrow import types

    for i, field in enumerate(schema):
        if types.is_string_view(field.type):
            schema = schema.set(i, field.with_type(pa.string()))
        elif types.is_binary_view(field.type):
            schema = schema.set(i, field.with_type(pa.binary()))
    return schema


def _value_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values of a column, which may be a dictionary."""
    from pyarrow import types

    return kind.value_type if types.is_dictionary(kind) else kind


def _is_text(kind: pa.DataType) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _sha256(source: Any) -> bytes:
    """Compute the SHA-256 of a whole file, and return to its beginning."""
    source.seek(0)
    total = hashlib.sha256()
    while part := source.read(_CHUNK):
        total.update(part)
    source.seek(0)
    return total.digest()


def _repeated_text(
    schema: pa.Schema, metadata: parquet.FileMetaData, columns: Columns
) -> list[str]:
    """Return the text columns to hold as dictionaries: meters, units, and those stored that way."""
    from pyarrow import types

    stored = set()
    if metadata.num_row_groups:
        group = metadata.row_group(0)
        for i in range(group.num_columns):
            if {"RLE_DICTIONARY", "PLAIN_DICTIONARY"} & set(group.column(i).encodings):
                stored.add(group.column(i).path_in_schema)
    wanted = {columns.meter, columns.unit} | stored
    return [f.name for f in schema if f.name in wanted and types.is_string(f.type)]


def convert(
    path: Path, partitions: dict[str, str], columns: Columns, keep: Sequence[str], form: InputFormat
) -> pa.BufferReader:
    """Read an extract and return its released columns as a Parquet file in memory."""
    import pyarrow as pa
    from pyarrow import parquet

    table = _load(path, (*columns.names[:4], *keep), form)
    _refuse_many(table.num_rows)

    def column(name: str, hint: str, stated: str | int | None = None) -> pa.Array:
        if name in table.column_names:
            return table.column(name).combine_chunks()
        value = partitions.get(name, stated)
        if value is None:
            found = ", ".join(table.column_names)
            raise DataError(f"has no column {name!r} (it has {found}); {hint}.")
        return pa.array([value] * table.num_rows, pa.string() if isinstance(value, str) else None)

    meter = column(columns.meter, "name it with --columns meter=NAME").cast(pa.string())
    time = column(columns.time, "name it with --columns time=NAME")
    named = find_unit(columns.value)
    if named and columns.unit not in table.column_names and named != (form.unit or named):
        raise DataError(f"has values in {named} ({columns.value!r}), not in {form.unit}.")
    unit = column(columns.unit, "state the unit of its values, such as --unit kWh", form.unit)
    length = column(
        columns.interval, "state the length of its readings, such as --interval 30min",
        form.interval_s,
    )  # fmt: skip
    arrays = {
        columns.meter: meter,
        columns.time: _times(time, meter, form, columns.time, path),
        columns.value: _numbers(column(columns.value, "name it with --columns value=NAME"), form),
        columns.unit: _units(unit),
        columns.interval: length.cast(pa.int64()),
    }
    arrays |= {name: column(name, "it cannot be kept") for name in keep}
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table(arrays), sink, row_group_size=GROUP_ROWS, compression="none")
    return pa.BufferReader(sink.getvalue())


def _load(path: Path, texts: Sequence[str], form: InputFormat) -> pa.Table:
    """Read a table; ids, times, values and units stay text."""
    from pyarrow import parquet

    if path.suffix == ".parquet":
        file = parquet.ParquetFile(path)
        # A few megabytes may hold as many rows as the memory of a machine.
        _refuse_many(file.metadata.num_rows)
        return file.read(use_threads=False)
    try:
        # The mark is stated: one that is found in the values would depend on them.
        task = Task(path, ReadOptions(decimal=form.decimal or "point"))
        return _arrow_table(load_table(task, texts=[text.lower() for text in texts]).data)
    except DataError as error:
        # The message names the path, which the report of the file states already.
        raise DataError(str(error).removeprefix(f"{path} ")) from None


def _arrow_table(table: Table) -> pa.Table:
    """Columns of numpy as an Arrow table."""
    import pyarrow as pa

    arrays = {name: pa.array(cells.values, mask=~cells.good) for name, cells in table.items()}
    for name, array in arrays.items():
        if table[name].aware:
            arrays[name] = array.cast(pa.timestamp(array.type.unit, "UTC"))
        elif not table[name].good.any() and table[name].kind == "f":
            arrays[name] = pa.nulls(len(array))
    return pa.table(arrays)


def _refuse_many(rows: int) -> None:
    """Raise `DataError` for more rows than are converted in memory."""
    if rows > MAX_ROWS:
        raise DataError(f"has more than {MAX_ROWS} rows to convert; split it into smaller files.")


def _times(
    column: pa.Array, meters: pa.Array, form: InputFormat, name: str, path: Path
) -> pa.Array:
    """Return times as UTC instants; local times are converted meter by meter."""
    import pyarrow as pa

    try:
        stamps = read_stamps(cells_of(column), path, form.tz)
    except DataError as error:
        raise DataError(f"has a column {name!r} that holds no times ({error})") from None
    good, ns = stamps.good.copy(), stamps.ns.copy()
    if not stamps.aware:
        if form.tz is None:
            raise DataError(
                f"has times without a zone in column {name!r}; state their zone, such as "
                "--tz Europe/Berlin or --tz UTC."
            )
        # The hour that the clock shows twice is distinguished by the order of a meter's rows.
        codes = meters.dictionary_encode().indices.fill_null(-1).to_numpy()
        for rows in _rows_by_code(codes):
            ns[rows], exists, _ = to_utc(ns[rows], form.tz)
            good[rows] &= exists
    # A time between two whole seconds is on no grid, and neither is the first second of 1970.
    seconds = np.where(ns % SECOND == 0, ns // SECOND, 1)
    return pa.array(seconds, pa.timestamp("s", tz="UTC"), mask=~good)


def _rows_by_code(codes: IntArray) -> Iterator[IntArray]:
    """Yield the rows of each code in their order."""
    order = np.argsort(codes, kind="stable")
    cuts = np.flatnonzero(np.diff(codes[order])) + 1
    yield from np.split(order, cuts)


def _numbers(column: pa.Array, form: InputFormat) -> pa.Array:
    """Return values as float64; a cell that holds no number is null."""
    import pyarrow as pa

    values, _ = to_numbers(cells_of(column), DECIMALS[form.decimal or "point"])
    return pa.array(values, from_pandas=True)


def _units(column: pa.Array) -> pa.Array:
    """Return units as they are written in this package; their letters may have any case."""
    import pyarrow as pa

    known = {unit.lower(): unit for unit in UNITS}
    encoded = column.cast(pa.string()).dictionary_encode()
    texts = [known.get(text.lower(), text) for text in encoded.dictionary.to_pylist()]
    units = pa.DictionaryArray.from_arrays(encoded.indices, pa.array(texts, pa.string()))
    return units.dictionary_decode()
