"""The whole fleet job, check, ledger, noise and all, against a plain pyarrow copy.

Both read and write the same files with the same number of worker processes, in turns. More rows
than the default: HUSHMETER_FLEET_ROWS=1e8 python -m benchmarks fleet
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from benchmarks.harness import Row, together
from hushmeter.protect.fleet import list_files, release_fleet
from hushmeter.protect.fleet_job import FleetTerms
from hushmeter.protect.ledger import open_ledger
from hushmeter.synth_fleet import FleetPlan, write_fleet

ROWS = int(float(os.environ.get("HUSHMETER_FLEET_ROWS", "1.2e7")))
WORKERS = 2
DAYS, SLOTS = 30, 96
MEMORY_MB = 500
SMALL = 3e7
"""Below this many rows the start of the workers weighs too much for a target."""


def rows() -> Iterator[Row]:
    """Throughput by period, and memory of a worker."""
    with tempfile.TemporaryDirectory(prefix="hushmeter-bench-") as name:
        folder = Path(name)
        plan = FleetPlan(max(4, ROWS // (DAYS * SLOTS)), DAYS)
        write_fleet(plan, folder / "in", files=max(2 * WORKERS, ROWS // 2_000_000))
        yield from throughput(folder, plan.rows)
        yield memory(folder)


def throughput(folder: Path, count: int) -> Iterator[Row]:
    """Rows per second of the job, charged by day and by month, and of the copy."""
    tries = 1 if count > SMALL else 2
    day, month, copy = together(
        lambda: release(folder, "day"),
        lambda: release(folder, "month"),
        lambda: copy_all(folder),
        repeat=tries,
    )
    copied = f"copy {count / copy / 1e6:.1f} M rows/s, {count:.2g} rows, {WORKERS} workers"
    for period, seconds in (("day", day), ("month", month)):
        note = f"{count / seconds / 1e6:.1f} M rows/s; {copied}"
        name = f"fleet, ledger by {period}"
        target = 0.6 if period == "day" and count > SMALL else None
        yield Row(name, copy / seconds, "pyarrow copy", target, note)


def release(folder: Path, period: str, jobs: int = WORKERS, source: str = "in") -> None:
    """One release into a new folder, with a new ledger."""
    output, ledger = folder / "out", folder / "ledger.db"
    for path in folder.glob("ledger.db*"):
        path.unlink()
    shutil.rmtree(output, ignore_errors=True)
    url = f"sqlite:///{ledger}"
    open_ledger(url, create=True).close()
    terms = FleetTerms("1", (0.0, 15_000.0), period=period)
    done = release_fleet(folder / source, output, terms, ledger=url, jobs=jobs)
    assert done.complete


def copy_all(folder: Path) -> None:
    """Every file read and written as it is, by as many workers."""
    target = folder / "copy"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    names = list_files(folder / "in")
    pairs = [(folder / "in" / name, target / name) for name in names]
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        list(pool.map(copy_file, *zip(*pairs, strict=True)))


def copy_file(source: Path, target: Path) -> None:
    """Row group by row group, zstd, on one core, durable as a release is."""
    pa.set_cpu_count(1)
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
    names = list_files(folder / "in")[:10]
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
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


if __name__ == "__main__":
    measure_memory(Path(sys.argv[1]))
