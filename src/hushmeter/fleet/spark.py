"""Fleet releases on a Spark cluster, where Spark distributes only the names of files.

A task works on one file as a worker process of one machine does, so the bytes of a
file are the same. No reading passes through Spark, and neither do the release key and the password
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from hushmeter.errors import DataError, HushmeterError, InputError, MissingExtraError
from hushmeter.fleet import FileReport, FleetJob, Schedule
from hushmeter.fleet.output_folder import PrivateFolder
from hushmeter.fleet.source_folder import is_url
from hushmeter.fleet.task import Task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUBMITTED = "submit"
"""Given in place of a master's URL, this word means the cluster that spark-submit names."""

POLL_S = 0.2
"""Time between two looks at the finished tasks [s]."""


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
    with warnings.catch_warnings():
        # pyspark warns about a newer pandas, which nothing here uses.
        warnings.simplefilter("ignore", FutureWarning)
        session = _open_session(master)
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


def _open_session(master: str) -> SparkSession:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingExtraError("a job on Spark", "spark") from None
    builder = SparkSession.builder.appName("hushmeter fleet")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    if master != SUBMITTED:
        builder = builder.master(master)
    try:
        return builder.getOrCreate()
    except Exception as error:
        raise DataError(f"there is no Spark session on {master}: {_first_line(error)}.") from None


def _sentence(error: Exception) -> HushmeterError:
    """Extract the error of a task from the Java trace around it."""
    found = re.findall(r"hushmeter\.errors\.\w+: (.+)", str(error))
    if found:
        return DataError(found[-1].strip())
    return DataError(
        f"the Spark job failed: {_first_line(error)}; what was paid for is kept, continue with "
        "--resume."
    )


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".:") if lines else type(error).__name__
