"""Worker processes on one machine; each works on one file at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress

from hushmeter.errors import DataError
from hushmeter.fleet.job import FleetJob
from hushmeter.fleet.task import FileReport, Task


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
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    # Arrow has threads in this process, so a fork of it is not safe. Workers are forked from a
    # server process that only loads code.
    context = get_context("forkserver")
    context.set_forkserver_preload(["hushmeter.fleet.preload"])
    pool = ProcessPoolExecutor(min(jobs, len(files)), mp_context=context, initializer=_start_worker)
    try:
        begun = [pool.submit(task, job, name) for name in files]
        for ended in as_completed(begun):
            yield ended.result()
    except BrokenProcessPool:
        raise DataError(
            "a worker process was killed, perhaps for lack of memory; what it had paid for is "
            "kept, continue with --resume."
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _start_worker() -> None:
    """Limit this worker to one core, and make it end together with the job."""
    import signal
    import threading

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
