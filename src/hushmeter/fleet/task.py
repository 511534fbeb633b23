"""Protecting one file: check, pay, write, publish. The whole of what a worker does.

`protect_file` needs no scheduler: a process pool, Spark or a loop may call it, twice or at the
same time if they must. Whatever happens, the order of steps is

    check all rows → reserve room → spend (durable) → write to staging → fsync
    → report → rename → fsync the folder → mark released

so that nothing appears that was not paid for, and an attempt that died is repeated for nothing
with the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.errors import BudgetError, DataError
from hushmeter.fleet.blocks import Blocks, Problem, Readings
from hushmeter.fleet.input import (
    FleetFile,
    UnusableFileError,
    open_fleet_file,
    unusable,
)
from hushmeter.fleet.job import FleetJob, build_mechanism
from hushmeter.fleet.kernels import from_watts, to_watts
from hushmeter.fleet.keys import file_key, input_digest, stretch_key
from hushmeter.fleet.ledger import Ledger, micro_epsilon, open_ledger
from hushmeter.fleet.output import StagedFile, open_writer, output_schema, room_for
from hushmeter.fleet.state import PrivateFolder

if TYPE_CHECKING:
    import pyarrow as pa

    from hushmeter.noise.mechanism import Mechanism

BATCH_BLOCKS = 1 << 15
"""Most blocks that are charged in one transaction; it bounds the memory of a worker."""


@dataclass(frozen=True)
class FileReport:
    """What became of one file.

    Attributes
    ----------
    source : str
        Name relative to the input folder, and to the output folder.
    state : {"released", "quarantined", "empty"}
        "quarantined" if nothing of it was released.
    rows, released_rows : int
        Read, and published.
    blocks, released_blocks : int
        (meter, period) pairs.
    input_digest : str
        HMAC of the input under the release key.
    output_sha256 : str
    output_bytes : int
    problems : tuple of Problem
    """

    source: str
    state: str
    rows: int = 0
    released_rows: int = 0
    blocks: int = 0
    released_blocks: int = 0
    input_digest: str = ""
    output_sha256: str = ""
    output_bytes: int = 0
    problems: tuple[Problem, ...] = ()

    def to_json(self) -> bytes:
        """For the private folder."""
        return json.dumps(asdict(self), ensure_ascii=False).encode()

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> FileReport:
        """The report that `to_json` wrote."""
        problems = tuple(Problem(**problem) for problem in plain["problems"])
        return cls(**{**plain, "problems": problems})


def protect_file(job: FleetJob, source: str) -> FileReport:
    """Release one Parquet file of a job.

    A file that cannot be used is reported as quarantined and costs nothing; blocks that cannot
    be used are left out and reported, and the rest goes on. Failures of the machine (no room, no
    ledger) raise, and the file can be tried again.

    Parameters
    ----------
    job : FleetJob
    source : str
        Name of the file relative to the input folder.
    """
    with open_ledger(job.ledger) as ledger:
        done = find_published(job, source, ledger)
        if done is not None:
            return done
        try:
            with open_fleet_file(Path(job.source_dir) / source, job.columns) as file:
                blocks = check_blocks(job, file)
                return _release(job, source, file, blocks, ledger)
        except UnusableFileError as error:
            return FileReport(source, "quarantined", problems=(_about_file(str(error)),))


def check_blocks(job: FleetJob, file: FleetFile) -> Blocks:
    """Look at every row of a file."""
    blocks = Blocks(job.columns, job.terms.period, job.terms.interval_s, file.time_unit)
    with unusable():
        for record in file.records():
            blocks.add(blocks.batch(record))
    return blocks


def find_published(job: FleetJob, source: str, ledger: Ledger) -> FileReport | None:
    """The report of a file that an earlier attempt has paid for and published, if it is whole."""
    plain = PrivateFolder(Path(job.output_dir)).report(source)
    path = Path(job.output_dir) / source
    if plain is None or not path.is_file() or ledger.state_of(job.release, source) is None:
        return None
    report = FileReport.from_dict(plain)
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != report.output_sha256:
            return None
    # The attempt may have died before it said so.
    ledger.mark_released(job.charge, source, report.output_sha256)
    return report


def _release(
    job: FleetJob, source: str, file: FleetFile, blocks: Blocks, ledger: Ledger
) -> FileReport:
    import pyarrow as pa

    if blocks.rows == 0:
        return FileReport(source, "empty")
    folder = PrivateFolder(Path(job.output_dir))
    digest = input_digest(job.key, file.sha256)
    problems = blocks.problems()
    staged = StagedFile(folder, folder.output / source, room_for(file.metadata, job.columns.value))
    try:
        dropped, refused = _pay(job, source, blocks, digest, ledger)
        problems += refused
        report = FileReport(
            source,
            "quarantined" if dropped.all() else "released",
            rows=blocks.rows,
            released_rows=int(blocks.row_counts[~dropped].sum()),
            blocks=blocks.count,
            released_blocks=int((~dropped).sum()),
            input_digest=digest,
            problems=tuple(problems),
        )
        if dropped.all():
            return report
        write_noised(job, source, file, blocks, dropped, staged)
        _check_unchanged(source, file)
        staged.settle()
        whole = replace(report, output_sha256=staged.digest, output_bytes=staged.size)
        folder.write_report(source, whole.to_json())
        staged.publish()
        ledger.mark_released(job.charge, source, staged.digest)
        return whole
    except (OSError, pa.ArrowException) as error:
        _check_unchanged(source, file)
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0].rstrip(".")
        raise DataError(
            f"{source} cannot be written: {reason}; its spend is kept, go on with --resume when "
            "that is mended."
        ) from None
    finally:
        staged.discard()


def _check_unchanged(source: str, file: FleetFile) -> None:
    if not file.unchanged():
        raise DataError(f"{source} changed while it was read; restore it and go on with --resume.")


def _pay(
    job: FleetJob, source: str, blocks: Blocks, digest: str, ledger: Ledger
) -> tuple[BoolArray, list[Problem]]:
    """Charge the good blocks; which blocks are to be left out, and why the ledger refused some."""
    dropped: BoolArray = np.ones(blocks.count, np.bool_)
    problems: list[Problem] = []
    said: dict[str, str] = {}
    asked = np.flatnonzero(~blocks.bad)
    for name, part in zip(batch_names(source, asked.size), _split(asked), strict=True):
        meters, periods = blocks.names(part)
        try:
            outcome = ledger.spend(
                job.charge,
                micro=micro_epsilon(job.terms.epsilon),
                meters=meters,
                periods=periods,
                digest=digest,
                source=name,
            )
        except BudgetError as error:
            raise UnusableFileError(str(error)) from None
        dropped[part[outcome.granted]] = False
        for refused in outcome.refused:
            # One text for all who share it: the blocks of a whole fleet may be refused.
            sentence = said.setdefault(refused.reason, f"refused by the ledger ({refused.reason}).")
            problems.append(Problem(refused.meter, refused.period, None, "", sentence))
    return dropped, problems


def batch_names(source: str, blocks: int) -> list[str]:
    """Names of the ledger batches of a file: itself, and #2, #3, … if its blocks are many."""
    return [source, *(f"{source}#{n}" for n in range(2, -(-blocks // BATCH_BLOCKS) + 1))]


def _split(blocks: IntArray) -> list[IntArray]:
    starts = range(0, max(1, blocks.size), BATCH_BLOCKS)
    return [blocks[start : start + BATCH_BLOCKS] for start in starts]


def write_noised(
    job: FleetJob,
    source: str,
    file: FleetFile,
    blocks: Blocks,
    dropped: BoolArray,
    sink: StagedFile,
) -> None:
    """Write the rows of all blocks that are not dropped, with noise, row group by row group."""
    import pyarrow as pa

    mechanism = build_mechanism(job.terms)
    key = file_key(
        job.key,
        release=job.release,
        stream=job.ledger_stream,
        terms=job.terms.describe(),
        source=source,
        file_sha256=file.sha256,
    )
    wanted = output_schema(file.schema, job.columns)
    held = output_schema(file.held_schema, job.columns)
    first = 0
    with open_writer(sink, wanted, held, file.leaves, job.columns, job.release) as writer:
        for group in file.row_groups():
            parts = []
            for record in group:
                secret = stretch_key(key, first, record.num_rows)
                parts.append(_noised(record, blocks, dropped, mechanism, secret, held))
                first += record.num_rows
            table = pa.Table.from_batches(parts, held)
            if table.num_rows:
                writer.write_table(table, row_group_size=table.num_rows)


def _noised(
    record: pa.RecordBatch,
    blocks: Blocks,
    dropped: BoolArray,
    mechanism: Mechanism,
    secret: bytes,
    held: pa.Schema,
) -> pa.RecordBatch:
    """A record batch with noise on its values and without the dropped blocks.

    Noise is drawn for every row, kept or not, so that a row's noise depends on its place alone.
    """
    import pyarrow as pa

    place = record.schema.get_field_index(blocks.columns.value)
    values = pa.array(add_noise(blocks.readings(record), mechanism, secret))
    columns = record.columns
    columns[place] = values.cast(held.field(place).type)
    noised = pa.RecordBatch.from_arrays(columns, schema=held)
    if not dropped.any():
        return noised
    keep, kept = blocks.keep(blocks.batch(record), dropped)
    if kept < noised.num_rows:
        noised = noised.filter(pa.array(keep))
    return pa.RecordBatch.from_arrays([_in_use(column) for column in noised.columns], schema=held)


def _in_use(column: pa.Array) -> pa.Array:
    """A dictionary is written whole: without what only rows left out refer to."""
    import pyarrow as pa

    if not isinstance(column, pa.DictionaryArray):
        return column
    return column.dictionary_decode().dictionary_encode().cast(column.type)


def add_noise(readings: Readings, mechanism: Mechanism, secret: bytes) -> FloatArray:
    """Values to clamped watts, noise, and back to the unit of each row."""
    assert mechanism.clamp is not None
    codes, factors = readings.unit_codes, readings.factors
    watts = np.empty(readings.values.size)
    to_watts(readings.values, codes, factors, *mechanism.clamp, watts)
    mechanism.release(watts, key=secret, out=watts)
    if (factors != 1.0).any():
        from_watts(watts, codes, factors)
    return watts


def _about_file(sentence: str) -> Problem:
    return Problem("", "", None, "", sentence)
