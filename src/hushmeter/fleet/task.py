"""Protecting one file: the complete work of one task.

`protect_file` needs no scheduler. A process pool, Spark or a loop may call it, even twice or at the
same time. The order of steps is always

    check all rows → reserve room → spend (durable) → write to staging → fsync
    → report → rename → fsync the folder → mark released

so that nothing appears that was not paid for, and a failed attempt is repeated without a further
charge and with the same bytes.

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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.errors import BudgetError, DataError
from hushmeter.fleet.blocks import Blocks, Problem, Readings
from hushmeter.fleet.input_files import (
    GROUP_ROWS,
    FleetFile,
    UnusableFileError,
    as_unusable,
    needs_conversion,
    open_fleet_file,
)
from hushmeter.fleet.job import FleetJob, build_mechanism
from hushmeter.fleet.kernels import from_watts, number_by_first_use, to_watts
from hushmeter.fleet.ledger import Ledger, SpendOutcome, open_ledger
from hushmeter.fleet.output_folder import (
    PrivateFolder,
    StagedFile,
    open_writer,
    output_schema,
)
from hushmeter.fleet.source_folder import open_source, output_name

if TYPE_CHECKING:
    import pyarrow as pa

    from hushmeter.fleet.extracts import ConvertedFile
    from hushmeter.noise.mechanism import Mechanism

    InputFile = FleetFile | ConvertedFile

BATCH_BLOCKS = 1 << 15
"""Most blocks that are charged in one transaction; it bounds the memory of a worker."""

PATIENCE_S = 120.0
"""Time for which a task tries to reach the server of its ledger [s]."""

SORT_ROWS = 1 << 22
"""Most rows of a file that is not sorted by meter and time; it is sorted in memory."""

_KEY_CONTEXT = "hushmeter fleet 1"
_NOTHING: IntArray = np.zeros(0, np.int64)


@dataclass(frozen=True)
class FileReport:
    """What became of one file.

    Attributes
    ----------
    source : str
        Name relative to the input folder, and to the output folder.
    state : {"released", "quarantined", "empty"}
        "quarantined" if nothing of the file was released.
    rows, released_rows : int
        Rows that were read, and rows that were published.
    blocks, released_blocks : int
        (meter, period) pairs that were read, and pairs that were published.
    input_digest : str
        HMAC of the input under the release key.
    output_sha256 : str
        SHA-256 of the published file.
    output_bytes : int
        Size of the published file [bytes].
    problems : tuple of Problem
        Why blocks, or the whole file, were left out.
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
        """Return the report as JSON for the private folder."""
        return json.dumps(asdict(self), ensure_ascii=False).encode()

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> FileReport:
        """Return the report that `to_json` wrote."""
        problems = tuple(Problem(**problem) for problem in plain["problems"])
        return cls(**{**plain, "problems": problems})


Task = Callable[[Any, str], FileReport]
"""The work on one file of a job, for example `protect_file`; any process may run or repeat it."""


def protect_file(job: FleetJob, source: str) -> FileReport:
    """Release one Parquet file of a job.

    A file that cannot be used is reported as quarantined and costs nothing. Blocks that cannot
    be used are left out and reported, and the other blocks are released.

    Parameters
    ----------
    job : FleetJob
        The release.
    source : str
        Name of the file relative to the input folder.

    Returns
    -------
    FileReport

    Raises
    ------
    DataError
        If the machine fails (no room, no ledger); the file can then be tried again.
    """
    with open_ledger(job.ledger, patience_s=PATIENCE_S) as ledger:
        done = find_published(job, source, ledger)
        if done is not None:
            return done
        try:
            with open_input(job, source) as file:
                blocks = check_blocks(job, file)
                return _release(job, source, file, blocks, ledger)
        except UnusableFileError as error:
            return unusable_file(source, error)


@contextmanager
def open_input(job: FleetJob, source: str) -> Iterator[InputFile]:
    """Open a file as it is if it has all columns, and convert it otherwise.

    Parameters
    ----------
    job : FleetJob
        The release.
    source : str
        Name of the file relative to the input folder.

    Yields
    ------
    FleetFile or ConvertedFile

    Raises
    ------
    UnusableFileError
        If the file cannot be read or lacks something that no option states.
    """
    folder = open_source(job.source_dir)
    # Copies of remote files are in the private folder, which a killed job leaves to its successor.
    staging = PrivateFolder(Path(job.output_dir)).staging
    scratch = staging if staging.is_dir() else None
    facts = (job.columns, job.keep, job.form)
    if source.endswith(".parquet") and not needs_conversion(folder, source, *facts):
        with open_fleet_file(folder, source, job.columns, job.keep, scratch) as file:
            yield file
        return
    from hushmeter.fleet.extracts import ConvertedFile

    with as_unusable(), folder.local_path(source, scratch) as path:
        converted = ConvertedFile(path, source, *facts)
    yield converted


def check_blocks(job: FleetJob, file: InputFile) -> Blocks:
    """Check every row of a file and return its blocks."""
    blocks = Blocks(job.columns, job.terms.period, job.terms.interval_s, file.time_unit)
    with as_unusable():
        for record in file.records():
            blocks.add(blocks.arrays(record))
    if blocks.rows > SORT_ROWS and not blocks.in_order:
        raise UnusableFileError(
            f"the rows of the file are not sorted by meter and time, and it has more than "
            f"{SORT_ROWS} rows; sort it, or split it into smaller files."
        )
    return blocks


def find_published(job: FleetJob, source: str, ledger: Ledger) -> FileReport | None:
    """Return the report of a file that an earlier attempt published.

    Parameters
    ----------
    job : FleetJob
        The release.
    source : str
        Name of the file.
    ledger : Ledger
        The open ledger.

    Returns
    -------
    FileReport or None
        None unless the file is complete and paid for.
    """
    plain = PrivateFolder(Path(job.output_dir)).report(source)
    path = Path(job.output_dir) / output_name(source)
    if plain is None or not path.is_file() or ledger.state_of(job.release, source) is None:
        return None
    report = FileReport.from_dict(plain)
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != report.output_sha256:
            return None
    # The attempt may have ended before it recorded the publication.
    ledger.mark_released(job.charge, source, report.output_sha256)
    return report


def _release(
    job: FleetJob, source: str, file: InputFile, blocks: Blocks, ledger: Ledger
) -> FileReport:
    """Pay for the good blocks of a checked file, write them with noise and publish them."""
    import pyarrow as pa

    if blocks.rows == 0:
        return FileReport(source, "empty")
    folder = PrivateFolder(Path(job.output_dir))
    digest = input_digest(job.key, file.sha256)
    good, problems = usable_blocks(job, blocks)
    staged = StagedFile(folder, folder.output / output_name(source), file.room_bytes)
    try:
        dropped, refused = pay(job, source, blocks, good, digest, ledger)
        report = describe_file(source, blocks, dropped, digest, [*problems, *refused])
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
            f"{source} cannot be written: {reason}; its charge is kept, continue with --resume "
            "when that is fixed."
        ) from None
    finally:
        staged.discard()


def _check_unchanged(source: str, file: InputFile) -> None:
    """Raise `DataError` if the input file changed after the first pass."""
    if not file.unchanged():
        raise DataError(
            f"{source} changed while it was read; restore it and continue with --resume."
        )


def usable_blocks(job: FleetJob, blocks: Blocks) -> tuple[BoolArray, list[Problem]]:
    """Return which blocks may be released, and the problems of the others.

    Parameters
    ----------
    job : FleetJob
        The release.
    blocks : Blocks
        The blocks of a file.

    Returns
    -------
    good : array of bool
        True for every block without a problem.
    problems : list of Problem
    """
    good, problems = ~blocks.bad, blocks.problems()
    if job.days is None:
        return good, problems
    first, last = job.days
    places = np.flatnonzero(good)
    for block, meter, day in zip(places.tolist(), *blocks.names(places), strict=True):
        if not first <= day <= last:
            good[block] = False
            problems.append(Problem(meter, day, None, "", "the day is outside the period."))
    return good, problems


def describe_file(
    source: str, blocks: Blocks, dropped: BoolArray, digest: str, problems: Iterable[Problem]
) -> FileReport:
    """Return the report of a file whose blocks are paid for, except those that are dropped."""
    return FileReport(
        source,
        "quarantined" if dropped.all() else "released",
        rows=blocks.rows,
        released_rows=int(blocks.row_counts[~dropped].sum()),
        blocks=blocks.count,
        released_blocks=int((~dropped).sum()),
        input_digest=digest,
        problems=tuple(problems),
    )


def pay(
    job: FleetJob, source: str, blocks: Blocks, good: BoolArray, digest: str, ledger: Ledger
) -> tuple[BoolArray, list[Problem]]:
    """Charge the good blocks of a file.

    Parameters
    ----------
    job : FleetJob
        The release.
    source : str
        Name of the file.
    blocks : Blocks
        Its blocks.
    good : array of bool
        True for every block that may be released.
    digest : str
        Digest of the input; see `input_digest`.
    ledger : Ledger
        The open ledger.

    Returns
    -------
    dropped : array of bool
        True for every block that is left out.
    problems : list of Problem
        What the ledger refused.

    Raises
    ------
    UnusableFileError
        If the file was paid for with other content.
    """
    dropped: BoolArray = np.ones(blocks.count, np.bool_)
    problems: list[Problem] = []
    asked = np.flatnonzero(good)
    for name, part in zip(charge_names(source, asked.size), _split(asked), strict=True):
        meters, periods = blocks.names(part)
        try:
            outcome = ledger.spend(
                job.charge,
                micro=job.price.micro,
                femto=job.price.femto,
                meters=meters,
                periods=periods,
                digest=digest,
                source=name,
            )
        except BudgetError as error:
            raise UnusableFileError(str(error)) from None
        dropped[part[outcome.granted]] = False
        problems += _refusals(outcome)
    return dropped, problems


def _refusals(outcome: SpendOutcome) -> list[Problem]:
    """Return a problem for every row that the ledger refused."""
    # Equal sentences share one text, because all blocks of a fleet may be refused.
    sentences = {
        reason: f"refused by the ledger ({reason})."
        for reason in {refused.reason for refused in outcome.refused}
    }
    return [
        Problem(refused.meter, refused.period, None, "", sentences[refused.reason])
        for refused in outcome.refused
    ]


@dataclass(frozen=True)
class CheckedFile:
    """A file of a dry run, before the ledger was asked.

    Attributes
    ----------
    report : FileReport
        The report with the problems of the file itself.
    meters, periods : list of str
        The good blocks.
    row_counts : array
        Rows of the good blocks.
    """

    report: FileReport
    meters: list[str] = field(default_factory=list)
    periods: list[str] = field(default_factory=list)
    row_counts: IntArray = field(default_factory=lambda: _NOTHING)

    def after(self, outcome: SpendOutcome) -> FileReport:
        """Return what would become of the file if the ledger gave this answer."""
        if self.report.state == "empty" or not self.report.rows:
            return self.report
        return replace(
            self.report,
            state="released" if outcome.granted.size else "quarantined",
            released_rows=int(self.row_counts[outcome.granted].sum()),
            released_blocks=int(outcome.granted.size),
            problems=(*self.report.problems, *_refusals(outcome)),
        )


def check_file(job: FleetJob, source: str) -> CheckedFile:
    """Read and check one file of a job without paying for it or writing anything.

    Parameters
    ----------
    job : FleetJob
        The release.
    source : str
        Name of the file relative to the input folder.

    Returns
    -------
    CheckedFile
    """
    try:
        with open_input(job, source) as file:
            blocks = check_blocks(job, file)
    except UnusableFileError as error:
        return CheckedFile(unusable_file(source, error))
    if blocks.rows == 0:
        return CheckedFile(FileReport(source, "empty"))
    usable, problems = usable_blocks(job, blocks)
    good = np.flatnonzero(usable)
    report = FileReport(
        source, "quarantined", rows=blocks.rows, blocks=blocks.count, problems=tuple(problems)
    )
    return CheckedFile(report, *blocks.names(good), blocks.row_counts[good])


def charge_names(source: str, blocks: int) -> list[str]:
    """Return the names of the charges of a file: its own, and #2, #3, … if it has many blocks."""
    return [source, *(f"{source}#{n}" for n in range(2, -(-blocks // BATCH_BLOCKS) + 1))]


def _split(blocks: IntArray) -> list[IntArray]:
    """Split blocks into parts of at most `BATCH_BLOCKS`; no blocks are one empty part."""
    starts = range(0, max(1, blocks.size), BATCH_BLOCKS)
    return [blocks[start : start + BATCH_BLOCKS] for start in starts]


def write_noised(
    job: FleetJob,
    source: str,
    file: InputFile,
    blocks: Blocks,
    dropped: BoolArray,
    sink: StagedFile,
) -> None:
    """Write the rows of all blocks that are not dropped, with noise.

    Parameters
    ----------
    job : FleetJob
        The release.
    source : str
        Name of the file.
    file : FleetFile
        The input, after its first pass.
    blocks : Blocks
        Its blocks.
    dropped : array of bool
        True for every block that is left out.
    sink : StagedFile
        The output.
    """
    wanted = output_schema(file.schema, job.columns)
    held = output_schema(file.held_schema, job.columns)
    noised = _noised_records(job, source, file, blocks, dropped, held)
    tables = _gather(noised, held) if blocks.in_order else _sorted(noised, held)
    with open_writer(sink, wanted, held, file.leaves, job.columns, job.release) as writer:
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
    job: FleetJob,
    source: str,
    file: InputFile,
    blocks: Blocks,
    dropped: BoolArray,
    held: pa.Schema,
) -> Iterator[_Noised]:
    """Yield the records of a file with noise on their values and without the dropped blocks.

    Noise is drawn for every row, kept or not, so that the noise of a row depends only on its
    place in the input.
    """
    import pyarrow as pa

    mechanism = build_mechanism(job.terms)
    key = file_key(
        job.key,
        release=job.release,
        stream=job.ledger_stream,
        terms=job.key_terms,
        source=source,
        file_sha256=file.sha256,
    )
    place = held.get_field_index(job.columns.value)
    in_order, first = blocks.in_order, 0
    for record in itertools.chain.from_iterable(file.row_groups()):
        secret = stretch_key(key, first, record.num_rows)
        first += record.num_rows
        values = pa.array(noise_readings(blocks.readings(record), mechanism, secret))
        columns = record.columns
        columns[place] = values.cast(held.field(place).type)
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
    """Convert values to clamped watts, add noise, and convert them back to their units.

    Parameters
    ----------
    readings : Readings
        Values and units.
    mechanism : Mechanism
        The noise, with a clamp.
    secret : bytes
        Key of the stretch.

    Returns
    -------
    array
        Noisy values in the units of the input.
    """
    assert mechanism.clamp is not None
    codes, factors = readings.unit_codes, readings.factors
    watts = np.empty(readings.values.size)
    to_watts(readings.values, codes, factors, *mechanism.clamp, watts)
    mechanism.release(watts, key=secret, out=watts)
    if (factors != 1.0).any():
        from_watts(watts, codes, factors)
    return watts


def input_digest(release_key: bytes, file_sha256: bytes) -> str:
    """Return the digest of an input for the ledger; only holders of the key can compare it."""
    return _hmac(release_key, _KEY_CONTEXT, "input", file_sha256).hex()


def file_key(
    release_key: bytes,
    *,
    release: str,
    stream: str,
    terms: Mapping[str, object],
    source: str,
    file_sha256: bytes,
) -> bytes:
    """Derive the key of one file of a release; see the module for the formula."""
    text = json.dumps(terms, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return _hmac(release_key, _KEY_CONTEXT, "file", release, stream, text, source, file_sha256)


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


def unusable_file(source: str, error: UnusableFileError) -> FileReport:
    """Return the report of a file of which nothing can be used."""
    problem = Problem("", "", None, "", str(error))
    return FileReport(source, "quarantined", problems=(problem,))
