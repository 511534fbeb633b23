"""The rows of one file with noise, written as a sorted Parquet file.

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

import hashlib
import hmac
import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.fleet.blocks import Blocks, Readings
from hushmeter.fleet.input_files import GROUP_ROWS, FleetFile
from hushmeter.fleet.job import FleetJob, FleetTerms
from hushmeter.fleet.kernels import number_by_first_use, to_watts
from hushmeter.fleet.output_folder import StagedFile, open_writer, output_schema
from hushmeter.trace import watts_per

if TYPE_CHECKING:
    import pyarrow as pa

    from hushmeter.fleet.extracts import ConvertedFile
    from hushmeter.noise.mechanism import Mechanism

    InputFile = FleetFile | ConvertedFile

_KEY_CONTEXT = "hushmeter fleet 1"
_NOTHING: IntArray = np.zeros(0, np.int64)


def write_noised(
    job: FleetJob,
    source: str,
    file: InputFile,
    blocks: Blocks,
    dropped: BoolArray,
    sink: StagedFile,
) -> None:
    """Write the rows of all blocks of a checked file that are not dropped, with noise."""
    wanted = output_schema(file.schema, job.columns)
    held = output_schema(file.held_schema, job.columns)
    noised = _noised_records(job, source, file, blocks, dropped, held)
    tables = _gather(noised, held) if blocks.in_order else _sorted(noised, held)
    with open_writer(sink, wanted, held, file.leaves, job.columns, job.mark) as writer:
        for table in tables:
            if table.num_rows:
                writer.write_table(_tidy_dictionaries(table), row_group_size=table.num_rows)


@dataclass(frozen=True)
class _Noised:
    """Released rows, and the place of each among all rows of the file."""

    record: pa.RecordBatch
    ranks: IntArray
    times: IntArray


def _noised_records(
    job: FleetJob, source: str, file: InputFile, blocks: Blocks, dropped: BoolArray, held: pa.Schema
) -> Iterator[_Noised]:
    """Yield the records of a file with noise on their values and without the dropped blocks.

    Noise is drawn for every row, kept or not, so that the noise of a row depends only on its
    place in the input.
    """
    import pyarrow as pa

    assert isinstance(job.terms, FleetTerms)
    mechanism, key = job.terms.promise.noise, file_key(job, source, file.sha256)
    place, unit = (held.get_field_index(n) for n in (job.columns.value, job.columns.unit))
    per_unit = watts_per(job.unit_of_output, job.terms.interval_s)
    in_order, first = blocks.in_order, 0
    for record in itertools.chain.from_iterable(file.row_groups()):
        secret = stretch_key(key, first, record.num_rows)
        first += record.num_rows
        watts = noise_readings(blocks.readings(record), mechanism, secret)
        columns = record.columns
        columns[place] = pa.array(watts / per_unit).cast(held.field(place).type)
        columns[unit] = _repeat(job.unit_of_output, record.num_rows, held.field(unit).type)
        noised = pa.RecordBatch.from_arrays(columns, schema=held)
        if in_order and not dropped.any():
            yield _Noised(noised, _NOTHING, _NOTHING)
            continue
        part = blocks.arrays(record)
        keep, kept = blocks.kept_rows(part, dropped)
        if kept < noised.num_rows:
            noised = noised.filter(pa.array(keep))
        if in_order:
            yield _Noised(noised, _NOTHING, _NOTHING)
        else:
            yield _Noised(noised, blocks.ranks(part)[keep], part.times[keep])


def _repeat(text: str, rows: int, kind: pa.DataType) -> pa.Array:
    """Return a column with one text in every row."""
    import pyarrow as pa

    column = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), pa.array([text]))
    return (column if pa.types.is_dictionary(kind) else column.dictionary_decode()).cast(kind)


def _gather(noised: Iterable[_Noised], held: pa.Schema) -> Iterator[pa.Table]:
    """Join records, which are sorted already, into tables of the size of a row group."""
    import pyarrow as pa

    parts: list[pa.RecordBatch] = []
    rows = 0
    for one in noised:
        record = one.record
        while rows + record.num_rows >= GROUP_ROWS:
            room = GROUP_ROWS - rows
            yield pa.Table.from_batches([*parts, record.slice(0, room)], held)
            parts, rows, record = [], 0, record.slice(room)
        if record.num_rows:
            parts.append(record)
            rows += record.num_rows
    yield pa.Table.from_batches(parts, held)


def _sorted(noised: Iterable[_Noised], held: pa.Schema) -> Iterator[pa.Table]:
    """Sort all records by meter and time; yield tables of the size of a row group.

    The order of the input may depend on the readings, so it must not be published.
    """
    import pyarrow as pa

    found = list(noised)
    table = pa.Table.from_batches([one.record for one in found], held).unify_dictionaries()
    ranks, times = (
        np.concatenate([getattr(one, name) for one in found]) for name in ("ranks", "times")
    )
    order = pa.array(np.lexsort((times, ranks)))
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


def noise_readings(readings: Readings, mechanism: Mechanism, secret: bytes) -> FloatArray:
    """Convert values to clamped watts and add the noise of a stretch with its key [W]."""
    assert mechanism.clamp is not None
    codes, factors = readings.unit_codes, readings.factors
    watts = np.empty(readings.values.size)
    to_watts(readings.values, codes, factors, *mechanism.clamp, watts)
    mechanism.release(watts, key=secret, out=watts)
    return watts


def input_digest(release_key: bytes, file_sha256: bytes) -> str:
    """Return the digest of an input for the ledger; only holders of the key can compare it."""
    return _hmac(release_key, _KEY_CONTEXT, "input", file_sha256).hex()


def file_key(job: FleetJob, source: str, file_sha256: bytes) -> bytes:
    """Derive the key of one file or table of a release; see the module for the formula."""
    text = json.dumps(job.key_terms, sort_keys=True, ensure_ascii=False, allow_nan=False)
    parts = (job.release, job.charge.stream, text, source, file_sha256)
    return _hmac(job.key, _KEY_CONTEXT, "file", *parts)


def stretch_key(key: bytes, first_row: int, rows: int) -> bytes:
    """Derive the key of `rows` rows of a file from `first_row` on."""
    return _hmac(key, _KEY_CONTEXT, "stretch", str(first_row), str(rows))


def _hmac(key: bytes, *parts: str | bytes) -> bytes:
    """Return the HMAC of parts with their lengths, so that no two lists give the same message."""
    message = b""
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        message += len(raw).to_bytes(8, "big") + raw
    return hmac.new(key, message, hashlib.sha256).digest()
