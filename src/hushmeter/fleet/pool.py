"""Worker processes on one machine, each with a file at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress

from hushmeter.errors import DataError
from hushmeter.fleet.job import FleetJob
from hushmeter.fleet.task import FileReport, protect_file


def protect_in_processes(job: FleetJob, files: Sequence[str], jobs: int) -> Iterator[FileReport]:
    """Protect files with so many workers; reports come in whatever order the files are done."""
    if jobs == 1 or len(files) == 1:
        for name in files:
            yield protect_file(job, name)
        return
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    # Not forked from here, where Arrow has threads, but from a process that only loads code.
    context = get_context("forkserver")
    context.set_forkserver_preload(["hushmeter.fleet.warm"])
    pool = ProcessPoolExecutor(min(jobs, len(files)), mp_context=context, initializer=_start_worker)
    try:
        tasks = [pool.submit(protect_file, job, name) for name in files]
        for task in as_completed(tasks):
            yield task.result()
    except BrokenProcessPool:
        raise DataError(
            "a worker process was killed (too little memory?); what it had paid for is kept, go "
            "on with --resume."
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _start_worker() -> None:
    """One core for each worker, and none that outlives the job."""
    import signal
    import threading

    import pyarrow as pa

    pa.set_cpu_count(1)
    with suppress(NotImplementedError):
        # It gives memory back sooner than the default allocator, at the same speed.
        pa.set_memory_pool(pa.jemalloc_memory_pool())
    # An interrupt at the terminal reaches the job itself, which stops the workers in good order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_follow_the_job, daemon=True).start()


def _follow_the_job() -> None:
    """End this worker as soon as the job is gone: its queue alone would wait for ever."""
    from multiprocessing import connection, parent_process

    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
