"""The series of a fleet: every file again, with noise on its values, as a sorted Parquet file.

Keys. Using one key stream for two different inputs would publish their exact difference, and using
it at two scales would publish the input itself. Each stretch (consecutive rows of one file)
therefore has its own key:

    file key    = HMAC(release key, release | stream | terms | file | digest of the file's bytes)
    stretch key = HMAC(file key, first row | number of rows)

Row i of a stretch takes the i-th draw. Any change of the data, of the terms (ε, clamp, grid …) or
of how the file is cut gives other keys, hence independent noise. With the same data and terms, row
i gets the same noise whichever other rows are left out. Two attempts agree in every row that both
release, so a retry reveals nothing new. The digest covers the raw bytes of the whole file. This is
stricter than needed, because the same rows stored in another way get fresh noise, but it is cheap.
"""

from __future__ import annotations

import base64
import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.apps.fleet.folders import StagedFile, output_name
from hushmeter.apps.fleet.input_files import GROUP_ROWS, FleetFile, Footer
from hushmeter.apps.fleet.job import FleetJob, FleetTerms, derive_key
from hushmeter.apps.fleet.meter_periods import Blocks, number_by_first_use
from hushmeter.apps.fleet.task import FileReport, Product, check_unchanged, pay
from hushmeter.apps.ledger import Ledger
from hushmeter.checks import BoolArray, IntArray
from hushmeter.files import sha256_of
from hushmeter.trace import watts_per

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyarrow import parquet

MARK = b"hushmeter.release"
"""Entry of the metadata of every released Parquet file; see `FleetJob.mark`."""

WRITE_ROWS = 1 << 15
"""Rows that the Parquet writer encodes together."""

Noised = tuple["pa.RecordBatch", IntArray, IntArray]
"""Released rows, and of files that are not sorted the rank of the meter and the time of each."""


class Series(Product):
    """Every file again, with noise on its values."""

    def leave(self, source: str, file: FleetFile, blocks: Blocks, ledger: Ledger) -> FileReport:
        """Pay for the good blocks of a checked file, write them with noise and publish them."""
        job, folder = self.job, self.folder
        staged = StagedFile(folder, folder.output / output_name(source), file.room_bytes)
        try:
            dropped, report = pay(job, source, file, blocks, ledger)
            if dropped.all():
                return report
            write_noised(job, source, file, blocks, dropped, staged)
            check_unchanged(source, file)
            staged.settle()
            whole = replace(report, output_sha256=staged.digest, output_bytes=staged.size)
            folder.write_report(source, asdict(whole))
            staged.publish()
            ledger.mark_released(job.charge, source, staged.digest)
            return whole
        finally:
            staged.discard()

    def is_left(self, report: FileReport, ledger: Ledger) -> bool:
        """Return whether the published file is complete."""
        path = self.folder.output / output_name(report.source)
        if not path.is_file() or sha256_of(path) != report.output_sha256:
            return False
        # The attempt may have ended before it recorded the publication.
        ledger.mark_released(self.job.charge, report.source, report.output_sha256)
        return True

    def names(self, released: Sequence[FileReport]) -> Collection[str]:
        """Return the names of the released files."""
        return {output_name(report.source) for report in released}

    def list_files(
        self,
        reports: Sequence[FileReport],
        tables: Mapping[str, bytes],  # noqa: ARG002
    ) -> list[dict[str, Any]]:
        """Return the public facts of every file."""
        return [
            {
                "file": output_name(report.source),
                "state": report.state,
                "rows": report.rows,
                "released_rows": report.released_rows,
                "released_blocks": report.released_blocks,
                "sha256": report.output_sha256,
                "bytes": report.output_bytes,
            }
            for report in reports
        ]

    def estimate_bytes(self, footers: Mapping[str, Footer]) -> int:
        """Estimate the size of the output [bytes].

        A value takes the entropy of its noise, at most log2(σ/g·√(2πe)) bits. Compressed values
        take about a tenth more.
        """
        assert isinstance(self.job.terms, FleetTerms)
        noise = self.job.terms.promise.noise
        bits = math.log2(max(2.0, noise.std / noise.grid * math.sqrt(2 * math.pi * math.e)))
        return sum(int(f.other_bytes + 1.2 * bits / 8 * f.rows) for f in footers.values())


def write_noised(
    job: FleetJob,
    source: str,
    file: FleetFile,
    blocks: Blocks,
    dropped: BoolArray,
    sink: StagedFile,
) -> None:
    """Write the rows of all blocks of a checked file that are not dropped, with noise."""
    held = _output_schema(file.held_schema, job)
    noised = _noised_records(job, source, file, blocks, dropped)
    tables = _gather(noised, held) if blocks.in_order else _sorted(noised, held)
    with _writer(sink, job, file) as writer:
        for table in tables:
            if table.num_rows:
                writer.write_table(_tidy_dictionaries(table), row_group_size=table.num_rows)
        # Readers of the file see the schema of the input.
        seen = _output_schema(file.schema, job).serialize().to_pybytes()
        writer.add_key_value_metadata(
            {b"ARROW:schema": base64.b64encode(seen), MARK: job.mark.encode()}
        )


def _output_schema(schema: pa.Schema, job: FleetJob) -> pa.Schema:
    """Return the schema of the output: float32 values stay, all others become float64."""
    import pyarrow as pa

    place = schema.get_field_index(job.columns.value)
    field = schema.field(place)
    kind = pa.float32() if field.type == pa.float32() else pa.float64()
    return schema.set(place, field.with_type(kind))


def _writer(sink: StagedFile, job: FleetJob, file: FleetFile) -> parquet.ParquetWriter:
    """Return a writer of Parquet with zstd compression and a suitable encoding for each column.

    Noise has no repetitions, so its values are compressed best with their bytes split by place
    (BYTE_STREAM_SPLIT). Times and intervals rise evenly, so their differences are stored. All
    other columns have few different values and are stored as dictionaries.
    """
    import pyarrow as pa
    from pyarrow import parquet

    columns, leaves = job.columns, file.leaves
    encodings = {
        columns.value: "BYTE_STREAM_SPLIT",
        columns.time: "DELTA_BINARY_PACKED",
        columns.interval: "DELTA_BINARY_PACKED",
    }
    # Readers skip row groups by meter and time; other statistics cost more than they save.
    searched = {columns.meter, columns.time}
    return parquet.ParquetWriter(
        pa.PythonFile(sink, mode="w"),
        _output_schema(file.held_schema, job),
        compression="zstd",
        use_dictionary=[leaf for leaf in leaves if leaf not in encodings],
        column_encoding=encodings,
        write_statistics=[leaf for leaf in leaves if leaf in searched],
        write_batch_size=WRITE_ROWS,
        store_schema=False,
    )


def _noised_records(
    job: FleetJob, source: str, file: FleetFile, blocks: Blocks, dropped: BoolArray
) -> Iterator[Noised]:
    """Yield the records of a file with noise on their values and without the dropped blocks.

    Noise is drawn for every row, kept or not, so that the noise of a row depends only on its
    place in the input.
    """
    import pyarrow as pa

    assert isinstance(job.terms, FleetTerms)
    mechanism, key = job.terms.promise.noise, job.file_key(source, file.sha256)
    clamp = mechanism.clamp
    assert clamp is not None
    held, nothing = _output_schema(file.held_schema, job), np.zeros(0, np.int64)
    place, unit = (held.get_field_index(n) for n in (job.columns.value, job.columns.unit))
    per_unit = watts_per(job.unit_of_output, job.terms.interval_s)
    in_order, first, units = blocks.in_order, 0, pa.nulls(0)
    for record in itertools.chain.from_iterable(file.row_groups()):
        secret = stretch_key(key, first, record.num_rows)
        first += record.num_rows
        watts = blocks.readings(record).watts(clamp)
        mechanism.release(watts, key=secret, out=watts)
        columns = record.columns
        columns[place] = pa.array(watts / per_unit).cast(held.field(place).type)
        if len(units) < record.num_rows:
            units = _repeat(job.unit_of_output, record.num_rows, held.field(unit).type)
        columns[unit] = units.slice(0, record.num_rows)
        noised = pa.RecordBatch.from_arrays(columns, schema=held)
        if in_order and not dropped.any():
            yield noised, nothing, nothing
            continue
        part = blocks.arrays(record)
        keep, kept = blocks.kept_rows(part, dropped)
        if kept < noised.num_rows:
            noised = noised.filter(pa.array(keep))
        if in_order:
            yield noised, nothing, nothing
        else:
            yield noised, blocks.ranks(part)[keep], part.times[keep]


def table_bytes(table: pd.DataFrame, mark: str) -> bytes:
    """Return a table as the bytes of a Parquet file with the mark of its release."""
    import pyarrow as pa
    from pyarrow import parquet

    sink = pa.BufferOutputStream()
    content = pa.Table.from_pandas(table, preserve_index=False)
    content = content.replace_schema_metadata({MARK: mark})
    parquet.write_table(content, sink, compression="zstd")
    return bytes(sink.getvalue())


def _repeat(text: str, rows: int, kind: pa.DataType) -> pa.Array:
    """Return a column with one text in every row."""
    import pyarrow as pa

    column = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), pa.array([text]))
    return (column if pa.types.is_dictionary(kind) else column.dictionary_decode()).cast(kind)


def _gather(noised: Iterable[Noised], held: pa.Schema) -> Iterator[pa.Table]:
    """Join records, which are sorted already, into tables of the size of a row group."""
    import pyarrow as pa

    parts: list[pa.RecordBatch] = []
    rows = 0
    for record, _, _ in noised:
        while rows + record.num_rows >= GROUP_ROWS:
            room = GROUP_ROWS - rows
            yield pa.Table.from_batches([*parts, record.slice(0, room)], held)
            parts, rows, record = [], 0, record.slice(room)
        if record.num_rows:
            parts.append(record)
            rows += record.num_rows
    yield pa.Table.from_batches(parts, held)


def _sorted(noised: Iterable[Noised], held: pa.Schema) -> Iterator[pa.Table]:
    """Sort all records by meter and time; yield tables of the size of a row group.

    The order of the input may depend on the readings, so it must not be published.
    """
    import pyarrow as pa

    records, ranks, times = zip(*noised, strict=True)
    table = pa.Table.from_batches(records, held).unify_dictionaries()
    order = pa.array(np.lexsort((np.concatenate(times), np.concatenate(ranks))))
    for start in range(0, len(order), GROUP_ROWS):
        yield table.take(order.slice(start, GROUP_ROWS))


def _tidy_dictionaries(table: pa.Table) -> pa.Table:
    """Number the values of dictionaries in the order of their first use, and drop unused values.

    Dictionaries are written completely. Values that only dropped rows use, and the order in which
    the input stored them, must not be published.
    """
    import pyarrow as pa

    if not any(pa.types.is_dictionary(field.type) for field in table.schema):
        return table
    table = table.unify_dictionaries()
    for place, kind in enumerate(table.schema):
        if not pa.types.is_dictionary(kind.type):
            continue
        column = table.column(place)
        codes = np.concatenate([_codes(chunk.indices) for chunk in column.chunks])
        values = column.chunk(0).dictionary
        numbers = np.full(len(values), -1, np.int64)
        used = number_by_first_use(codes, numbers)
        if used == len(values) and bool((numbers == np.arange(used)).all()):
            continue
        kept = np.argsort(numbers, kind="stable")[len(values) - used :]
        indices = pa.array(np.append(numbers, -1)[codes], mask=codes < 0)
        tidy = pa.DictionaryArray.from_arrays(
            indices.cast(kind.type.index_type), values.take(pa.array(kept))
        )
        table = table.set_column(place, kind, tidy)
    return table


def _codes(indices: pa.Array) -> IntArray:
    """Return the codes of a dictionary column; −1 where it is null."""
    filled = indices.fill_null(-1) if indices.null_count else indices
    codes: IntArray = filled.to_numpy()
    return codes


def stretch_key(key: bytes, first_row: int, rows: int) -> bytes:
    """Derive the key of `rows` rows of a file from `first_row` on."""
    return derive_key(key, "stretch", str(first_row), str(rows))
