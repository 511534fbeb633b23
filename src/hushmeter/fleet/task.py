"""Protecting one file: the complete work of one task.

`protect_file` needs no scheduler. A process pool, Spark or a loop may call it, even twice or at the
same time. The order of steps is always

    check all rows → reserve room → spend (durable) → write to staging → fsync
    → report → rename → fsync the folder → mark released

so that nothing appears that was not paid for, and a failed attempt is repeated without a further
charge and with the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.checks import BoolArray, IntArray
from hushmeter.errors import BudgetError, DataError
from hushmeter.files import sha256_of
from hushmeter.fleet.blocks import Blocks, OddCells, Problem
from hushmeter.fleet.input_files import (
    UnusableFileError,
    as_unusable,
    needs_conversion,
    open_fleet_file,
)
from hushmeter.fleet.job import FleetJob
from hushmeter.fleet.noised_rows import input_digest, write_noised
from hushmeter.fleet.output_folder import PrivateFolder, StagedFile
from hushmeter.fleet.source_folder import open_source, output_name
from hushmeter.fleet.sum_terms import SumTerms
from hushmeter.ledger import Ledger, SpendOutcome, open_ledger

if TYPE_CHECKING:
    from hushmeter.fleet.noised_rows import InputFile

BATCH_BLOCKS = 1 << 15
"""Most blocks that are charged in one transaction; it bounds the memory of a worker."""

PATIENCE_S = 120.0
"""Time for which a task tries to reach the server of its ledger [s]."""

MOST_ODD = 0.5
"""Largest share of the cells of a file that may hold no number; beyond it the job stops."""

SORT_ROWS = 1 << 22
"""Most rows of a file that is not sorted by meter and time; it is sorted in memory."""


@dataclass(frozen=True)
class FileReport:
    """What became of one file."""

    source: str  # Name relative to the input folder, and to the output folder
    state: str  # "quarantined" if nothing of the file was released
    # Rows that were read, and rows that were published
    rows: int = 0
    released_rows: int = 0
    # (meter, period) pairs that were read, and pairs that were published
    blocks: int = 0
    released_blocks: int = 0
    input_digest: str = ""  # HMAC of the input under the release key
    output_sha256: str = ""  # SHA-256 of the published file
    output_bytes: int = 0  # Size of the published file [bytes]
    problems: tuple[Problem, ...] = ()  # Why blocks, or the whole file, were left out
    # Cells that hold no number and count as 0 W. They follow from values and are private
    odd_cells: tuple[OddCells, ...] = ()

    def to_json(self) -> bytes:
        """Return the report as JSON for the private folder."""
        return json.dumps(asdict(self), ensure_ascii=False).encode()

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> FileReport:
        """Return the report that `to_json` wrote."""
        problems = tuple(Problem(**problem) for problem in plain["problems"])
        odd_cells = tuple(OddCells(**cells) for cells in plain["odd_cells"])
        return cls(**{**plain, "problems": problems, "odd_cells": odd_cells})


Task = Callable[[FleetJob, str], FileReport]
"""The work on one file of a job, for example `protect_file`; any process may run or repeat it."""


def protect_file(job: FleetJob, source: str) -> FileReport:
    """Check one file of a job, pay for it and release it, or leave its exact sums.

    A file that cannot be used is reported as quarantined and costs nothing. Blocks that cannot be
    used are left out and reported. Raise `DataError` if the machine fails (no room, no ledger); the
    file can then be tried again.
    """
    with open_ledger(job.ledger, patience_s=PATIENCE_S) as ledger:
        done = find_done(job, source, ledger)
        if done is not None:
            return done
        try:
            with open_input(job, source) as file:
                blocks = check_blocks(job, source, file)
                if blocks.rows == 0:
                    return FileReport(source, "empty")
                if isinstance(job.terms, SumTerms):
                    from hushmeter.fleet.sums import add_up_file

                    return add_up_file(job, source, file, blocks, ledger)
                return _release(job, source, file, blocks, ledger)
        except UnusableFileError as error:
            return unusable_file(source, error)


@contextmanager
def open_input(job: FleetJob, source: str) -> Iterator[InputFile]:
    """Open a file as it is if it has all columns, and convert it otherwise."""
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


def check_blocks(job: FleetJob, source: str, file: InputFile) -> Blocks:
    """Check every row of a file and return its blocks.

    Raise `UnusableFileError` if the file cannot be read or is too large to be sorted. If most of
    its values are no numbers, the whole job ends, because the manifest must not tell which files
    have such values.
    """
    blocks = Blocks(job.columns, job.terms.period, job.terms.interval_s, file.time_unit)
    with as_unusable():
        for record in file.records():
            blocks.add(blocks.arrays(record), blocks.readings(record).odd)
    if blocks.odd_count > MOST_ODD * blocks.rows:
        raise DataError(
            f"{source} has {blocks.odd_count} of {blocks.rows} values that are no numbers in W, "
            "kW, Wh or kWh, and the job has ended; name the column of the values (--columns) and "
            "state their unit and decimal mark (--unit, --decimal), or remove the file."
        )
    if blocks.rows > SORT_ROWS and not blocks.in_order:
        raise UnusableFileError(
            f"the rows of the file are not sorted by meter and time, and it has more than "
            f"{SORT_ROWS} rows; sort it, or split it into smaller files."
        )
    return blocks


def find_done(job: FleetJob, source: str, ledger: Ledger) -> FileReport | None:
    """Return the report of a file that an earlier attempt finished and paid for, or None."""
    folder = PrivateFolder(Path(job.output_dir))
    plain, series = folder.report(source), not isinstance(job.terms, SumTerms)
    path = folder.output / output_name(source) if series else folder.partial_file(source)
    if plain is None or not path.is_file() or ledger.state_of(job.release, source) is None:
        return None
    report = FileReport.from_dict(plain)
    if sha256_of(path) != report.output_sha256:
        return None
    if series:
        # The attempt may have ended before it recorded the publication.
        ledger.mark_released(job.charge, source, report.output_sha256)
    return report


def _release(
    job: FleetJob, source: str, file: InputFile, blocks: Blocks, ledger: Ledger
) -> FileReport:
    """Pay for the good blocks of a checked file, write them with noise and publish them."""
    import pyarrow as pa

    folder = PrivateFolder(Path(job.output_dir))
    staged = StagedFile(folder, folder.output / output_name(source), file.room_bytes)
    try:
        dropped, report = pay(job, source, file, blocks, ledger)
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


def usable_blocks(job: FleetJob, blocks: Blocks) -> tuple[IntArray, list[Problem]]:
    """Return the numbers of the blocks that may be released, and the problems of the others."""
    good, problems = np.flatnonzero(~blocks.bad), blocks.problems()
    if job.terms.days is None:
        return good, problems
    first, last = job.terms.days
    meters, days = blocks.names(good)
    inside = np.array([first <= day <= last for day in days], np.bool_)
    problems += [
        Problem(meter, day, None, "", "the day is outside the period.")
        for meter, day, kept in zip(meters, days, inside, strict=True)
        if not kept
    ]
    return good[inside], problems


def pay(
    job: FleetJob, source: str, file: InputFile, blocks: Blocks, ledger: Ledger
) -> tuple[BoolArray, FileReport]:
    """Charge the good blocks of a file; return which blocks are left out, and the report.

    Raise `UnusableFileError` if the file was paid for with other content.
    """
    dropped: BoolArray = np.ones(blocks.count, np.bool_)
    digest = input_digest(job.key, file.sha256)
    asked, problems = usable_blocks(job, blocks)
    for name, part in split_charges(source, asked):
        meters, periods = blocks.names(part)
        try:
            outcome = ledger.spend(
                job.charge,
                micro=job.price["micro_epsilon"],
                femto=job.price["femto_delta"],
                meters=meters,
                periods=periods,
                digest=digest,
                source=name,
            )
        except BudgetError as error:
            raise UnusableFileError(str(error)) from None
        dropped[part[outcome.granted]] = False
        problems += _refusals(outcome)
    report = replace(
        _found(source, blocks, problems),
        state="quarantined" if dropped.all() else "released",
        released_rows=int(blocks.row_counts[~dropped].sum()),
        released_blocks=int((~dropped).sum()),
        input_digest=digest,
    )
    return dropped, report


def _found(source: str, blocks: Blocks, problems: Sequence[Problem]) -> FileReport:
    """Return the report of a file of which nothing is released yet."""
    cells = tuple(blocks.odd_cells())
    return FileReport(
        source, "quarantined", blocks.rows, 0, blocks.count, problems=tuple(problems),
        odd_cells=cells,
    )  # fmt: skip


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
    """A file of a dry run, before the ledger was asked."""

    report: FileReport  # The report with the problems of the file itself
    # The good blocks
    meters: list[str] = field(default_factory=list)
    periods: list[str] = field(default_factory=list)
    # Rows of the good blocks
    row_counts: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))

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
    """Read and check one file of a job without paying for it or writing anything."""
    try:
        with open_input(job, source) as file:
            blocks = check_blocks(job, source, file)
    except UnusableFileError as error:
        return CheckedFile(unusable_file(source, error))
    if blocks.rows == 0:
        return CheckedFile(FileReport(source, "empty"))
    good, problems = usable_blocks(job, blocks)
    report = _found(source, blocks, problems)
    return CheckedFile(report, *blocks.names(good), blocks.row_counts[good])


def split_charges(source: str, blocks: IntArray) -> Iterator[tuple[str, IntArray]]:
    """Yield the names and blocks of the charges of a file: its own, and #2, #3, … for many."""
    for number, start in enumerate(range(0, max(1, blocks.size), BATCH_BLOCKS), 1):
        name = source if number == 1 else f"{source}#{number}"
        yield name, blocks[start : start + BATCH_BLOCKS]


def unusable_file(source: str, error: UnusableFileError) -> FileReport:
    """Return the report of a file of which nothing can be used."""
    problem = Problem("", "", None, "", str(error))
    return FileReport(source, "quarantined", problems=(problem,))
