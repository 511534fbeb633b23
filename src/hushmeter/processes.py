"""Processes of Python that take no code from the current folder: the only module that starts any.

Python started with `-c` looks for every module in the current folder first, and `multiprocessing`
starts all of its processes so. A file `numpy.py` beside a stranger's readings would be run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext

SAFE_PATH = "PYTHONSAFEPATH"


class _SafePath:
    """The environment of this process, while any block of `safe_path` is open."""

    def __init__(self) -> None:
        self._lock, self._open, self._before = threading.Lock(), 0, ""

    def enter(self) -> None:
        with self._lock:
            if not self._open:
                self._before = os.environ.get(SAFE_PATH, "")
                os.environ[SAFE_PATH] = "1"
            self._open += 1

    def leave(self) -> None:
        with self._lock:
            self._open -= 1
            if not self._open:
                # Python takes an empty text as none.
                os.environ[SAFE_PATH] = self._before


_ENVIRONMENT = _SafePath()


@contextmanager
def safe_path() -> Iterator[None]:
    """Let processes that start in this block ignore the current folder, and those that they start.

    `multiprocessing` has no other way to tell its processes, which may start at any time in the
    block. Blocks of several threads may overlap.
    """
    _ENVIRONMENT.enter()
    try:
        yield
    finally:
        _ENVIRONMENT.leave()


@contextmanager
def worker_pool(
    jobs: int, preloaded: Sequence[str], start: Callable[..., None], *given: object
) -> Iterator[ProcessPoolExecutor]:
    """Give workers, each of which has called `start`; at the end, drop the tasks that wait."""
    with safe_path():
        pool = ProcessPoolExecutor(jobs, process_context(*preloaded), start, given)
        try:
            yield pool
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def process_context(*preloaded: str) -> ForkServerContext | SpawnContext:
    """Return the context that starts workers, for a block of `safe_path`.

    They are forked from a process that only loads some modules, because a fork of this one would
    copy locks that its threads hold. Without modules, and on Windows, they load the code anew.
    """
    if os.name == "nt" or not preloaded:
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(list(preloaded))
    return context


def run_python(code: str, given: bytes, limit_s: float) -> subprocess.CompletedProcess[bytes]:
    """Run code with some bytes as its input, in the folder of this package."""
    paths = os.pathsep.join(path for path in sys.path if path)
    with safe_path():
        return subprocess.run(
            [sys.executable, "-P", "-c", code],
            input=given,
            capture_output=True,
            cwd=Path(__file__).parent,
            env={**os.environ, "PYTHONPATH": paths},
            timeout=limit_s,
            check=False,
        )
