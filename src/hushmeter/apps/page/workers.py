"""Processes that compute the answers of a server. Each one can be ended at any time.

A computation in a thread of Python cannot be stopped from outside. A slow attacker or a file that
is slow to read would keep its thread for minutes. Here each computation runs in a process of
Pebble, which is ended when its time is over or when it takes too much memory; another process
replaces it. The processes are forked from one that only loads code (`preload`). This module imports
nothing heavy, so that loading can begin before the server itself is imported.

*What such a process may reach.* Readers refuse files that lead to other files. If a reader has a
fault, the operating system is the protection: Linux offers Landlock (since 5.13), by which a
process gives up its rights until it ends, without being administrator. A worker keeps the right to
read the code of Python and of its packages, and the zones of time; it can open no other file, write
none, and start no program. Since Linux 6.7 it can neither connect to an address nor wait at one
(TCP), and since 6.12 it cannot send signals to other processes. Landlock does not hide the names
and sizes of files, and does not stop UDP.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import site
import sys
import sysconfig
import threading
import zoneinfo
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from multiprocessing import connection, forkserver, parent_process
from pathlib import Path
from typing import Any, TypeVar, cast

from pebble import ProcessExpired, ProcessPool

from hushmeter.errors import HushmeterError, TooLargeError
from hushmeter.processes import SAFE_PATH, process_context

MOST_HELD = 16
"""Largest number of traces that a process keeps for later requests."""
MOST_HELD_BYTES = 128 << 20
"""Memory of the traces that a process keeps [bytes]."""
WATCH_S = 0.05
"""Time between two looks at the memory of a process [s]."""
NO_MEMORY = (
    "this needs more memory than the server gives to one request: send a smaller file, or choose "
    "fewer readings or another attacker."
)
PRELOADED = "hushmeter.apps.page.preload"

PACKAGE = Path(__file__).resolve().parents[2]
CREATE, ADD, RESTRICT = 444, 445, 446
"""Numbers of the calls of Landlock, which are the same on every processor but Alpha."""
ASK_VERSION, PATH_BENEATH, NO_NEW_PRIVILEGES = 1, 1, 38
READ_FILE, READ_FOLDER = 1 << 2, 1 << 3
FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}
"""Number of rights on files by the version of Landlock that introduced the last of them."""
NETWORK_FROM, SIGNALS_FROM = 4, 6
BIND_AND_CONNECT = 0b11
SOCKETS_AND_SIGNALS = 0b11
LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache")
DEVICES = ("/dev/null", "/dev/urandom")

Answer = TypeVar("Answer")


class BusyError(Exception):
    """Too many requests are waiting."""


class TooSlowError(Exception):
    """A request exceeded its time limit."""


class WorkerFault(Exception):  # noqa: N818
    """An unexpected error in a process."""

    def __init__(self, kind: str, place: str) -> None:
        super().__init__(kind, place)
        self.kind, self.place = kind, place


class Held:
    """Data that is sent to a process once and kept there; equal data have the same source."""

    source: str

    @property
    def bytes(self) -> int:
        """Memory of the data [bytes]."""
        raise NotImplementedError


@dataclass(frozen=True)
class Reference:
    """Data that the process already holds."""

    source: str


class WorkerPool:
    """Processes that compute answers, with a bounded queue, a time limit and a memory limit.

    Data of the type `Held` among the arguments of a function is sent to a process once and kept
    there until it is forgotten. The processes may read the files and folders in `readable`.
    """

    def __init__(
        self, workers: int, waiting: int, most_bytes: int, readable: tuple[Path, ...] = ()
    ) -> None:
        self._all = [Worker(most_bytes, readable) for _ in range(workers)]
        self._idle = list(self._all)
        self._free = asyncio.Semaphore(workers)
        # Long computations never take all processes, so that short ones are always served.
        self._long = asyncio.Semaphore(max(1, workers - 1))
        self._most_waiting, self._waiting = waiting, 0

    async def start(self) -> None:
        """Start all processes, so that the first requests need not wait for them."""
        await asyncio.gather(*(worker.start() for worker in self._all))

    async def run(
        self, limit_s: float, function: Callable[..., Answer], *given: Any, long: bool = False
    ) -> Answer:
        """Compute a function in a process and return its result within a time limit [s].

        One process is kept free of `long` computations. The process is ended if the time passes
        (`TooSlowError`) or it takes too much memory (`TooLargeError`).
        """
        if self._waiting >= self._most_waiting:
            raise BusyError
        self._waiting += 1
        try:
            async with asyncio.timeout(limit_s), self._long if long else nullcontext(), self._free:
                worker = self._take(given)
                try:
                    return cast("Answer", await worker.call(function, given))
                finally:
                    self._idle.append(worker)
        except TimeoutError:
            raise TooSlowError from None
        finally:
            self._waiting -= 1

    def forget(self, source: str) -> None:
        """Remove data from all processes."""
        for worker in self._all:
            worker.forget(source)

    def close(self) -> None:
        """End all processes; drop the computations that wait."""
        for worker in self._all:
            worker.stop()
        for worker in self._all:
            worker.join()

    def _take(self, given: Sequence[Any]) -> Worker:
        """Return an idle process, preferably one that holds the data."""
        best = max(self._idle, key=lambda worker: worker.suits(given))
        self._idle.remove(best)
        return best


class Worker:
    """One process, used by one request at a time. It is started again after it was ended."""

    def __init__(self, most_bytes: int, readable: tuple[Path, ...] = ()) -> None:
        self._most_bytes, self.readable = most_bytes, readable
        self._pool: ProcessPool | None = None
        self._pid: int | None = None
        self._held: OrderedDict[str, int] = OrderedDict()
        self._closed = False

    async def start(self) -> None:
        """Start the process if it does not run."""
        if self._pid is None:
            self._pid = await self._result(os.getpid)

    def suits(self, given: Sequence[Any]) -> tuple[int, bool]:
        """Return how many of some arguments the process holds, and whether it runs."""
        held = sum(isinstance(part, Held) and part.source in self._held for part in given)
        return held, self._pid is not None

    async def call(self, function: Callable[..., Any], given: Sequence[Any]) -> Any:
        """Return the result of a function; end the process if nobody waits for it any more."""
        await self.start()
        data = [part for part in given if isinstance(part, Held)]
        new = [part for part in data if part.source not in self._held]
        old = [source for part in data for source in self._keep(part)]
        references = [Reference(part.source) if isinstance(part, Held) else part for part in given]
        answer = await self._result(compute, function, references, new, old)
        if isinstance(answer, Failure):
            raise answer.error()
        if isinstance(answer, Held):
            # The process that read a file keeps it for the next request.
            for source in self._keep(answer):
                self._drop(source)
        return answer

    def forget(self, source: str) -> None:
        """Remove data from the process, after the computation that it is busy with."""
        if self._held.pop(source, None) is not None:
            self._drop(source)

    def stop(self) -> None:
        """End the process for good."""
        self._closed = True
        if self._pool is not None:
            self._pool.stop()  # type: ignore[no-untyped-call]

    def join(self) -> None:
        """Wait until the process has ended."""
        if self._pool is not None:
            self._pool.join()

    def _running(self) -> ProcessPool:
        """Return the pool of the one process; Pebble gives one up whose idle process was killed."""
        if self._closed:
            raise BusyError
        if self._pool is None or not self._pool.active:
            self._pool = ProcessPool(
                1, initializer=begin, initargs=(self.readable,), context=server_context()
            )
        return self._pool

    async def _result(self, function: Callable[..., Any], *given: Any) -> Any:
        """Return the result of a function; end the process at its memory limit."""
        answer = asyncio.wrap_future(self._running().schedule(function, given))
        try:
            while not (await asyncio.wait([answer], timeout=WATCH_S))[0]:
                if _memory(self._pid) > self._most_bytes:
                    raise TooLargeError(NO_MEMORY)
            return answer.result()
        except (ProcessExpired, BrokenProcessPool):
            self._lose()
            raise WorkerFault("the process ended", "a worker") from None
        finally:
            if not answer.done():
                # Pebble ends the process of a computation that is cancelled.
                answer.cancel()
                self._lose()

    def _lose(self) -> None:
        """Note that the process and what it holds are lost."""
        self._pid = None
        self._held.clear()

    def _keep(self, data: Held) -> list[str]:
        """Count data as held; return the sources of what was not used for longest, to forget."""
        self._held[data.source] = data.bytes
        self._held.move_to_end(data.source)
        old = []
        while len(self._held) > MOST_HELD or (
            len(self._held) > 1 and sum(self._held.values()) > MOST_HELD_BYTES
        ):
            old.append(self._held.popitem(last=False)[0])
        return old

    def _drop(self, source: str) -> None:
        """Let the process forget data; it computes in the order of the calls."""
        if self._pool is not None and self._pool.active:
            self._pool.schedule(drop, (source,))


@dataclass(frozen=True)
class Failure:
    """An error on its way from a process to the server."""

    kind: type[BaseException]
    message: str
    place: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Return an error in a form that can be sent; only errors made for users keep messages."""
        if isinstance(error, HushmeterError):
            return cls(type(error), str(error), "")
        return cls(type(error), "", find_place(error))

    def error(self) -> Exception:
        """Return the error to raise in the server."""
        if issubclass(self.kind, MemoryError):
            return TooLargeError(NO_MEMORY)
        if not issubclass(self.kind, HushmeterError):
            return WorkerFault(self.kind.__name__, self.place)
        # Their constructors make the message from other arguments, and it is made already.
        error = self.kind.__new__(self.kind)
        error.args = (self.message,)
        return error


def find_place(error: BaseException) -> str:
    """Return the file and the line in which an error was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "an unknown place"
    return f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"


# What this process holds, if it is a worker; a call of Pebble has no other place for it.
_HELD: dict[str, Held] = {}


def begin(readable: tuple[Path, ...]) -> None:
    """Prepare a new process, before it gets anything to compute."""
    confine({*readable, *stop_saving()})
    # Pebble would wait for Python code to answer the signal, which compiled code delays.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_the_server, daemon=True).start()


def compute(
    function: Callable[..., Any], given: Sequence[Any], new: Sequence[Held], old: Sequence[str]
) -> Any:
    """Return the result of a function in this process, or the `Failure` that it raised."""
    for source in old:
        drop(source)
    _HELD.update({data.source: data for data in new})
    try:
        answer = function(
            *(_HELD[part.source] if isinstance(part, Reference) else part for part in given)
        )
    except BaseException as error:
        return Failure.of(error)
    if isinstance(answer, Held):
        _HELD[answer.source] = answer
    return answer


def drop(source: str) -> None:
    """Forget data in this process."""
    _HELD.pop(source, None)


def server_context() -> Any:
    """Return the context that starts processes, in a server that starts them until it ends."""
    os.environ[SAFE_PATH] = "1"
    return process_context(PRELOADED)


def start_loading() -> None:
    """Start the process that loads the code, and do not wait for it."""
    server_context()
    if os.name != "nt":
        forkserver.ensure_running()


def stop_saving() -> set[Path]:
    """Make Numba write nothing in this process; return the folders from which it reads kernels.

    A process that reads the files of strangers must not write what others will run.
    """
    # Numba has no types for what it does not export.
    caching: Any = import_module("numba.core.caching")
    config: Any = import_module("numba.core.config")

    def ignore(*_: object) -> None:
        """Do nothing."""

    caching.Cache.save_overload = ignore
    # It writes a file to find out whether a folder can be used.
    caching._CacheLocator.ensure_cache_path = ignore
    user_wide = caching.AppDirs(appname="numba", appauthor=False).user_cache_dir
    return {Path(folder) for folder in (config.CACHE_DIR, user_wide) if folder}


def _memory(pid: int | None) -> int:
    """Return the memory that a process holds [bytes]; 0 where the system does not report it."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _end_with_the_server() -> None:
    """End this process when the server has ended, even if it still computes."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


@dataclass(frozen=True)
class Confinement:
    """What the operating system enforces for the processes that read uploaded files."""

    files: bool  # True if they can open no file but the code of Python
    network: bool  # True if they can open no TCP connection

    @property
    def sentence(self) -> str:
        """One sentence for the operator of the server."""
        if self.files and self.network:
            return "Uploaded files are read by processes that can open no other file or connection."
        if self.files:
            return (
                "Uploaded files are read by processes that can open no other file; this system "
                "cannot also deny them connections (Linux 6.7 can)."
            )
        return (
            "Uploaded files are checked, but this system does not deny the processes that read "
            "them access to other files (Landlock of Linux 5.13 does)."
        )


def find_confinement() -> Confinement:
    """Return what this system enforces for the processes that read uploaded files."""
    version = _version()
    return Confinement(files=version >= 1, network=version >= NETWORK_FROM)


def confine(readable: Iterable[Path] = ()) -> Confinement:
    """Give up all access of this process to files, except to the code of Python, until it ends.

    It must be called before the process starts a thread.
    """
    version = _version()
    if version < 1:
        return find_confinement()
    rights = _rights(version)
    rules = _call(CREATE, ctypes.byref(rights), ctypes.sizeof(rights), 0)
    try:
        for place in {*_code_places(), *readable}:
            _allow_reading(rules, place)
        if _libc().prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
        _call(RESTRICT, rules, 0)
    finally:
        os.close(rules)
    return find_confinement()


class _Rights(ctypes.Structure):
    """struct landlock_ruleset_attr: the rights that a ruleset takes away."""

    _fields_ = (
        ("files", ctypes.c_uint64),
        ("network", ctypes.c_uint64),
        ("scopes", ctypes.c_uint64),
    )


class _Beneath(ctypes.Structure):
    """struct landlock_path_beneath_attr: rights that are left on a file or folder."""

    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("rights", ctypes.c_uint64), ("parent", ctypes.c_int32))


def _rights(version: int) -> _Rights:
    """All rights that this version of Landlock can take away."""
    count = max(number for since, number in FILE_RIGHTS.items() if since <= version)
    return _Rights(
        (1 << count) - 1,
        BIND_AND_CONNECT if version >= NETWORK_FROM else 0,
        SOCKETS_AND_SIGNALS if version >= SIGNALS_FROM else 0,
    )


def _code_places() -> set[Path]:
    """Folders with the code of Python, of its packages and libraries, and with time zones."""
    paths = sysconfig.get_paths()
    names = [paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")]
    if site.ENABLE_USER_SITE:
        names.append(site.getusersitepackages())
    return {PACKAGE, *map(Path, (*names, *zoneinfo.TZPATH, *LIBRARIES, *DEVICES))}


def _allow_reading(rules: int, place: Path) -> None:
    """Leave the right to read a file, or a folder and all below it; absent ones are left out."""
    try:
        opened = os.open(place, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        rights = READ_FILE | READ_FOLDER if place.is_dir() else READ_FILE
        rule = _Beneath(rights, opened)
        _call(ADD, rules, PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(opened)


@cache
def _version() -> int:
    """The version of Landlock that the system offers; 0 where there is none or it is blocked."""
    if not sys.platform.startswith("linux"):
        return 0
    return max(0, int(_libc().syscall(*map(ctypes.c_long, (CREATE, 0, 0, ASK_VERSION)))))


@cache
def _libc() -> ctypes.CDLL:
    """The library of the system's calls."""
    return ctypes.CDLL(None, use_errno=True)


def _call(number: int, *given: object) -> int:
    """Return the result of a call of the system; raise `OSError` if it fails."""
    numbers = (ctypes.c_long(part) if isinstance(part, int) else part for part in given)
    result = int(_libc().syscall(ctypes.c_long(number), *numbers))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
