"""The complete work on one file: it is checked, paid for, and released with noise or added up.

`protect_file` needs no scheduler. A process pool, Spark or a loop may call it, even twice or at the
same time. The order of steps is always

    check all rows → reserve space → spend (durable) → write to staging → fsync
    → report → rename → fsync the folder → mark released

so that nothing appears that was not paid for, and a failed attempt is repeated without a further
charge and with the same bytes. A release of sums differs in what a task leaves: instead of a file
with noise, its report holds exact sums, which get their noise at the end.

Tasks run in this process, in worker processes, or on a Spark cluster, where Spark distributes only
the names of files. No reading passes through Spark, and neither do the release key and the password
of the ledger: a task receives two folders and a name, and reads the rest from the private folder of
the output. Every worker must see both folders under the same name and have the driver's versions of
hushmeter and pyarrow; a task with other versions raises an error. Spark may repeat a task, run it
twice at the same time or kill it with its executor. The task spends once, writes the same bytes and
renames them into place.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from hushmeter.apps.fleet.folders import PrivateFolder, is_url, open_source
from hushmeter.apps.fleet.input_files import (
    FleetFile,
    Footer,
    UnusableFileError,
    as_unusable,
    open_input,
)
from hushmeter.apps.fleet.job import FleetJob
from hushmeter.apps.fleet.meter_periods import Blocks, OddCells, Problem
from hushmeter.apps.fleet.sum_terms import SumTerms
from hushmeter.apps.ledger import Ledger, SpendOutcome, open_ledger
from hushmeter.checks import BoolArray, IntArray
from hushmeter.errors import (
    BudgetError,
    DataError,
    HushmeterError,
    InputError,
    MissingExtraError,
)
from hushmeter.files import one_sentence, reason_of
from hushmeter.processes import SAFE_PATH, safe_path, worker_pool

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

BATCH_BLOCKS = 1 << 15
"""Most blocks that are charged in one transaction; it bounds the memory of a worker."""

PATIENCE_S = 120.0
"""Time for which a task tries to reach the server of its ledger [s]."""

MOST_ODD = 0.5
"""Largest share of the cells of a file that may hold no number; beyond it the job stops."""

SORT_ROWS = 1 << 22
"""Most rows of a file that is not sorted by meter and time; it is sorted in memory."""


KEPT_CHARGE = "; its charge is kept, continue with --resume when that is fixed"
"""End of the message about a file that cannot be written."""

SUBMITTED = "submit"
"""Given in place of a master's URL, this word means the cluster that spark-submit names."""

POLL_S = 0.2
"""Time between two looks at the finished tasks [s]."""


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

    def granted(self, row_counts: IntArray, refused: Sequence[Problem]) -> FileReport:
        """Return the report after the ledger granted blocks with these numbers of rows."""
        return replace(
            self,
            state="released" if row_counts.size else "quarantined",
            released_rows=int(row_counts.sum()),
            released_blocks=row_counts.size,
            problems=(*self.problems, *refused),
        )

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> FileReport:
        """Return the report that `dataclasses.asdict` described."""
        problems = tuple(Problem(**problem) for problem in plain["problems"])
        odd_cells = tuple(OddCells(**cells) for cells in plain["odd_cells"])
        return cls(**{**plain, "problems": problems, "odd_cells": odd_cells})


Task = Callable[[FleetJob, str], FileReport]
"""The work on one file of a job, for example `protect_file`; any process may run or repeat it."""

Schedule = Callable[[Task, FleetJob, Sequence[str]], Iterator[FileReport]]
"""Runs a task for every file of a job, on any machine, and yields the reports."""


class Product(ABC):
    """What a release makes of its files: what a task leaves of one, and what is published.

    Parameters
    ----------
    job : FleetJob
        The release.
    """

    def __init__(self, job: FleetJob) -> None:
        self.job, self.folder = job, PrivateFolder(Path(job.output_dir))

    @abstractmethod
    def leave(self, source: str, file: FleetFile, blocks: Blocks, ledger: Ledger) -> FileReport:
        """Pay for the good blocks of a checked file, and leave what follows from them."""

    @abstractmethod
    def list_files(
        self, reports: Sequence[FileReport], tables: Mapping[str, bytes]
    ) -> list[dict[str, Any]]:
        """Return the public facts of all published files, for the manifest."""

    def is_left(self, report: FileReport, ledger: Ledger) -> bool:  # noqa: ARG002
        """Return whether what an earlier attempt has reported is still there."""
        return True

    def names(self, released: Sequence[FileReport]) -> Collection[str]:  # noqa: ARG002
        """Return the names of the files that the tasks have published."""
        return ()

    def draw_tables(self, released: Sequence[FileReport]) -> dict[str, pd.DataFrame]:  # noqa: ARG002
        """Return the tables that are published at the end, with their noise."""
        return {}

    def mark_released(self, ledger: Ledger, digest: str) -> None:  # noqa: B027
        """Record in the ledger what is published with the manifest of this digest."""

    def estimate_bytes(self, footers: Mapping[str, Footer]) -> int:  # noqa: ARG002
        """Estimate the size of the output [bytes]; that of tables is small."""
        return 0


def product_of(job: FleetJob) -> Product:
    """Return what the terms of a job ask for."""
    if isinstance(job.terms, SumTerms):
        from hushmeter.apps.fleet.sums import Sums

        return Sums(job)
    from hushmeter.apps.fleet.series import Series

    return Series(job)


def protect_file(job: FleetJob, source: str) -> FileReport:
    """Check one file of a job, pay for it and release it, or leave its exact sums.

    A file that cannot be used is reported as quarantined and costs nothing. Blocks that cannot be
    used are left out and reported. Raise `DataError` if the disk is full or the ledger cannot be
    used; the file can then be tried again.
    """
    import pyarrow as pa

    failures = (OSError, pa.ArrowException)
    with open_ledger(job.ledger, patience_s=PATIENCE_S) as ledger:
        done = find_done(job, source, ledger)
        if done is not None:
            return done
        try:
            with open_job_input(job, source) as file:
                blocks = check_blocks(job, source, file)
                if blocks.rows == 0:
                    return FileReport(source, "empty")
                with one_sentence(source, kinds=failures, more=KEPT_CHARGE):
                    try:
                        return product_of(job).leave(source, file, blocks, ledger)
                    except failures:
                        check_unchanged(source, file)
                        raise
        except UnusableFileError as error:
            return unusable_file(source, error)


def open_job_input(job: FleetJob, source: str) -> AbstractContextManager[FleetFile]:
    """Open an input file of a job."""
    # Copies of remote files are in the private folder, which a killed job leaves to its successor.
    staging = PrivateFolder(Path(job.output_dir)).staging
    scratch = staging if staging.is_dir() else None
    return open_input(open_source(job.source_dir), source, job.columns, job.keep, job.form, scratch)


def check_blocks(job: FleetJob, source: str, file: FleetFile) -> Blocks:
    """Check every row of a file and return its blocks.

    Raise `UnusableFileError` if the file cannot be read or is too large to be sorted. If most of
    its values are no numbers, the whole job ends, because the manifest must not tell which files
    have such values.
    """
    terms = job.terms
    blocks = Blocks(job.columns, terms.period, job.zone, terms.interval_s, file.time_unit)
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
    product = product_of(job)
    plain = product.folder.report(source)
    if plain is None or ledger.state_of(job.release, source) is None:
        return None
    report = FileReport.from_dict(plain)
    return report if product.is_left(report, ledger) else None


def check_unchanged(source: str, file: FleetFile) -> None:
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
    job: FleetJob, source: str, file: FleetFile, blocks: Blocks, ledger: Ledger
) -> tuple[BoolArray, FileReport]:
    """Charge the good blocks of a file; return which blocks are left out, and the report.

    Raise `UnusableFileError` if the file was paid for with other content.
    """
    dropped: BoolArray = np.ones(blocks.count, np.bool_)
    digest = job.input_digest(file.sha256)
    asked, problems = usable_blocks(job, blocks)
    refused: list[Problem] = []
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
        refused += _refusals(outcome)
    report = _found(source, blocks, problems).granted(blocks.row_counts[~dropped], refused)
    return dropped, replace(report, input_digest=digest)


def _found(source: str, blocks: Blocks, problems: Sequence[Problem]) -> FileReport:
    """Return the report of a file of which nothing is released yet."""
    return FileReport(
        source,
        "quarantined",
        blocks.rows,
        blocks=blocks.count,
        problems=tuple(problems),
        odd_cells=tuple(blocks.odd_cells()),
    )


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
        return self.report.granted(self.row_counts[outcome.granted], _refusals(outcome))


def check_file(job: FleetJob, source: str) -> CheckedFile:
    """Read and check one file of a job without paying for it or writing anything."""
    try:
        with open_job_input(job, source) as file:
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


def run_in_processes(
    task: Task, job: FleetJob, files: Sequence[str], jobs: int
) -> Iterator[FileReport]:
    """Run a task for every file in worker processes; 1 works in this process.

    Yield the reports in the order in which the files are finished. Raise `DataError` if a worker
    process was killed.
    """
    if jobs == 1 or len(files) == 1:
        for name in files:
            yield task(job, name)
        return
    from concurrent.futures import as_completed
    from concurrent.futures.process import BrokenProcessPool

    preloaded = ("hushmeter.apps.fleet.series", "pyarrow.parquet")
    try:
        with worker_pool(min(jobs, len(files)), preloaded, _start_worker) as pool:
            with _without_interrupts():
                begun = [pool.submit(task, job, name) for name in files]
            for ended in as_completed(begun):
                yield ended.result()
    except BrokenProcessPool:
        raise DataError(
            "a worker process was killed, perhaps for lack of memory; what it had paid for is "
            "kept, continue with --resume."
        ) from None


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Let Ctrl-C wait while processes are started, so that all of them are known and ended."""
    import signal

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # New processes inherit the mask and print no traceback. It does not hold for other threads of
    # this process, one of which may get the signal in place of this one.
    mask = getattr(signal, "pthread_sigmask", None)
    before = mask(signal.SIG_BLOCK, {signal.SIGINT}) if mask else None
    waiting: list[int] = []
    usual = signal.signal(signal.SIGINT, lambda number, _: waiting.append(number))
    try:
        yield
    finally:
        if mask:
            mask(signal.SIG_SETMASK, before)
        signal.signal(signal.SIGINT, usual)
    if waiting:
        raise KeyboardInterrupt


def _start_worker() -> None:
    """Limit this worker to one core, and make it end together with the job."""
    import signal

    import pyarrow as pa

    pa.set_cpu_count(1)
    with suppress(NotImplementedError):
        # jemalloc returns memory sooner than the default allocator, at the same speed.
        pa.set_memory_pool(pa.jemalloc_memory_pool())
    # An interrupt at the terminal reaches the job itself, which stops the workers in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_job, daemon=True).start()


def _end_with_the_job() -> None:
    """End this worker when the job has ended; its queue alone would wait for ever."""
    from multiprocessing import connection, parent_process

    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def check_shared_ledger(url: str) -> None:
    """Raise `InputError` for a ledger that only one machine can write."""
    if str(url).startswith("sqlite:"):
        raise InputError(
            "a job on Spark needs a ledger that all machines can write: postgresql://…, "
            "not a SQLite file."
        )


@contextmanager
def cluster_schedule(master: str, ledger: str) -> Iterator[Schedule]:
    """Open a session on a cluster and yield a `schedule` for `release_fleet`."""
    check_shared_ledger(ledger)
    with spark_session(master) as session:
        yield partial(run_on_executors, session)


@contextmanager
def spark_session(master: str) -> Iterator[SparkSession]:
    """Open a session on a cluster, which ends with the block.

    The master is a URL such as spark://host:7077 or local[2]; "submit" means the one that
    spark-submit names.
    """
    # Executors run this interpreter unless the cluster names another.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with safe_path(), warnings.catch_warnings():
        # pyspark warns about a newer pandas, which nothing here uses.
        warnings.simplefilter("ignore", FutureWarning)
        try:
            from pyspark.sql import SparkSession
        except ImportError:
            raise MissingExtraError("a job on Spark", "spark") from None
        builder = SparkSession.builder.appName("hushmeter fleet")
        builder = builder.config("spark.ui.showConsoleProgress", "false")
        builder = builder.config(f"spark.executorEnv.{SAFE_PATH}", "1")
        if master != SUBMITTED:
            builder = builder.master(master)
        with one_sentence(f"a Spark session on {master}", "opened", kinds=Exception):
            session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()


def run_on_executors(
    session: SparkSession, task: Task, job: FleetJob, files: Sequence[str]
) -> Iterator[FileReport]:
    """Run a task for each file, and yield the reports in the order in which the tasks end."""
    from pyspark import InheritableThread

    context = session.sparkContext
    reports = context.accumulator([], _joined())
    source_dir, output_dir = (
        folder if is_url(folder) else str(Path(folder).absolute())
        for folder in (job.source_dir, job.output_dir)
    )
    on_executor = partial(_run_task, task, source_dir, output_dir, reports)
    group, failed = f"hushmeter-{uuid4().hex}", list[Exception]()

    def work() -> None:
        context.setJobGroup(group, f"release {job.release}", interruptOnCancel=True)
        try:
            context.parallelize(files, len(files)).foreach(on_executor)
        except Exception as error:
            failed.append(error)

    thread = InheritableThread(target=work)
    thread.start()
    try:
        yield from _follow(thread, reports)
    finally:
        if thread.is_alive():
            context.cancelJobGroup(group)
            thread.join()
    if failed:
        raise _sentence(failed[0])
    if len(reports.value) != len(files):
        raise DataError(
            f"Spark reports {len(reports.value)} of {len(files)} files; continue with --resume."
        )


def _run_task(task: Task, source_dir: str, output_dir: str, reports: Any, source: str) -> None:
    """Work on one file on an executor and add its report to the accumulator."""
    import pyarrow as pa

    pa.set_cpu_count(1)
    folder = PrivateFolder(Path(output_dir))
    asked = folder.asked
    if asked is None:
        raise DataError(
            f"{output_dir} shows no release in progress on this machine; the input and output "
            "folders must be shared by all workers."
        )
    job = FleetJob.from_dict(asked, folder.key())
    job = replace(job, source_dir=source_dir, output_dir=output_dir)
    reports.add([task(job, source)])


def _follow(thread: threading.Thread, reports: Any) -> Iterator[FileReport]:
    """Yield reports in the order in which their tasks end, until the thread ends."""
    seen = 0
    while True:
        running = thread.is_alive()
        found = list(reports.value)
        yield from found[seen:]
        seen = len(found)
        if not running:
            return
        thread.join(POLL_S)


def _joined() -> Any:
    """Return the rule by which Spark joins lists of reports; a successful task counts once."""
    from pyspark.accumulators import AccumulatorParam

    class Joined(AccumulatorParam[list[FileReport]]):
        def zero(self, value: list[FileReport]) -> list[FileReport]:  # noqa: ARG002
            return []

        def addInPlace(  # noqa: N802
            self, value1: list[FileReport], value2: list[FileReport]
        ) -> list[FileReport]:
            return value1 + value2

    return Joined()


def _sentence(error: Exception) -> HushmeterError:
    """Extract the error of a task from the Java trace around it."""
    found = re.findall(r"hushmeter\.errors\.\w+: (.+)", str(error))
    if found:
        return DataError(found[-1].strip())
    return DataError(
        f"the Spark job failed: {reason_of(error)}; what was paid for is kept, continue with "
        "--resume."
    )
