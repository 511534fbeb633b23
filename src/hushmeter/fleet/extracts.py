"""Extracts of other shapes, converted to the five columns of a fleet release.

A utility's extract is often a CSV file, or a Parquet file without a unit or with local times. Such
a file is read completely and converted: text to numbers and times, local times to UTC, and columns
that are missing from the options (`--unit`, `--interval`) or from the names of Hive partitions
(`feeder=F7/part.csv`). What is converted depends on the options, the name of the file and its
header, never on a reading.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.checks import IntArray
from hushmeter.clock import SECOND
from hushmeter.errors import DataError
from hushmeter.fleet.input_files import RECORD_ROWS, as_unusable, check_schema, partition_values
from hushmeter.fleet.job import Columns, InputFormat
from hushmeter.read.columns import load_table, to_numbers
from hushmeter.read.recording import DECIMALS, ReadOptions
from hushmeter.read.times import read_stamps, to_utc
from hushmeter.trace import UNITS

if TYPE_CHECKING:
    import pyarrow as pa

MAX_ROWS = 1 << 22
"""Most rows of a file that is converted in memory."""


class ConvertedFile:
    """An extract in memory, with the interface of `FleetFile`."""

    time_unit = "s"

    def __init__(
        self, path: Path, name: str, columns: Columns, keep: Sequence[str], form: InputFormat
    ) -> None:
        with as_unusable():
            self.sha256 = hashlib.sha256(path.read_bytes()).digest()
            self._table = _convert(path, name, columns, keep, form)
            self.held_schema: pa.Schema = self._table.schema
            self.schema: pa.Schema = _plain_text(self.held_schema)
            check_schema(self.schema, columns, keep)
        self.leaves = self.schema.names
        self.room_bytes = int(self._table.nbytes + 16 * self._table.num_rows + (1 << 20))

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield every row for the first pass."""
        yield from self._table.to_batches(max_chunksize=RECORD_ROWS)

    def row_groups(self) -> Iterator[Iterator[pa.RecordBatch]]:
        """Yield the same records for the second pass."""
        yield self.records()

    def unchanged(self) -> bool:
        """Return True, because the rows are in memory."""
        return True


def _convert(
    path: Path, name: str, columns: Columns, keep: Sequence[str], form: InputFormat
) -> pa.Table:
    """Read a file and return the released columns."""
    import pyarrow as pa

    table = _load(path, (*columns.names[:4], *keep), form)
    if table.num_rows > MAX_ROWS:
        raise DataError(f"has more than {MAX_ROWS} rows to convert; split it into smaller files.")
    partitions = partition_values(name)

    def column(role: str, hint: str) -> pa.Array:
        if role in table.column_names:
            return table.column(role).combine_chunks()
        if role in partitions:
            return pa.array([partitions[role]] * table.num_rows, pa.string())
        found = ", ".join(table.column_names)
        raise DataError(f"has no column {role!r} (it has {found}); {hint}.")

    meter = column(columns.meter, "name it with --columns meter=NAME").cast(pa.string())
    arrays = {
        columns.meter: meter.dictionary_encode(),
        columns.time: _times(column(columns.time, "name it with --columns time=NAME"), meter, form,
                             columns.time, path),
        columns.value: _numbers(column(columns.value, "name it with --columns value=NAME"), form),
        columns.unit: _units(table, partitions, columns.unit, form),
        columns.interval: _intervals(table, partitions, columns.interval, form),
    }  # fmt: skip
    for name_kept in keep:
        arrays[name_kept] = column(name_kept, "it cannot be kept")
    return pa.table(arrays)


def _load(path: Path, texts: Sequence[str], form: InputFormat) -> pa.Table:
    """Read a table; ids, times, values and units stay text."""
    from pyarrow import parquet

    if path.suffix == ".parquet":
        return parquet.ParquetFile(path).read(use_threads=False)
    try:
        # The mark is stated: one that is found in the values would depend on them.
        options = ReadOptions(decimal=form.decimal or "point")
        return load_table(path, options, texts=[text.lower() for text in texts]).data
    except DataError as error:
        # The message names the path, which the report of the file states already.
        raise DataError(str(error).removeprefix(f"{path} ")) from None


def _times(
    column: pa.Array, meters: pa.Array, form: InputFormat, name: str, path: Path
) -> pa.Array:
    """Return times as UTC instants; local times are converted meter by meter."""
    import pyarrow as pa

    try:
        stamps = read_stamps(column, path, form.tz)
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

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    values, _ = to_numbers(pa.chunked_array([column]), DECIMALS[form.decimal or "point"])
    return pa.array(values, from_pandas=True)


def _units(
    table: pa.Table, partitions: dict[str, str], name: str, form: InputFormat
) -> pa.DictionaryArray:
    """Return the unit of every row: its column in any case of letters, or the option."""
    import pyarrow as pa

    known = {unit.lower(): unit for unit in UNITS}
    if name in table.column_names:
        encoded = table.column(name).combine_chunks().cast(pa.string()).dictionary_encode()
        texts = [known.get(text.lower(), text) for text in encoded.dictionary.to_pylist()]
        units = pa.DictionaryArray.from_arrays(encoded.indices, pa.array(texts, pa.string()))
        # Two spellings of one unit must become one value.
        return units.dictionary_decode().dictionary_encode()
    unit = partitions.get(name, form.unit)
    if unit is None:
        raise DataError(
            f"has no column {name!r}; state the unit of its values, such as --unit kWh."
        )
    same = pa.array([known.get(unit.lower(), unit)] * table.num_rows, pa.string())
    return same.dictionary_encode()


def _intervals(
    table: pa.Table, partitions: dict[str, str], name: str, form: InputFormat
) -> pa.Array:
    """Return the length of every reading [s]: its column, or the option."""
    import pyarrow as pa

    if name in table.column_names:
        return table.column(name).combine_chunks().cast(pa.int64())
    stated = partitions.get(name, form.interval_s)
    if stated is None or not str(stated).isdecimal():
        raise DataError(
            f"has no column {name!r}; state the length of its readings, such as --interval 30min."
        )
    return pa.array(np.full(table.num_rows, int(stated), np.int64))


def _plain_text(schema: pa.Schema) -> pa.Schema:
    """Return the schema that readers of the output see: text instead of dictionaries."""
    import pyarrow as pa

    return pa.schema(
        [
            pa.field(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type)
            for f in schema
        ]
    )
