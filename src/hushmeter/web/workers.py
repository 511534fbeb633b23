"""Processes that compute the answers of a server. Each one can be ended at any time.

A computation in a thread of Python cannot be stopped from outside. A slow attacker or a file that
is slow to read would keep its thread for minutes. Here each computation runs in a process, which
is ended when its time is over or when it takes too much memory; another process replaces it.

Every process is confined before it gets anything to compute; see `confinement`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from multiprocessing import connection, parent_process
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from hushmeter.errors import HushmeterError, TooLargeError
from hushmeter.web.attacks import FitCache
from hushmeter.web.compiled_code import stop_saving
from hushmeter.web.confinement import confine
from hushmeter.web.processes import process_context
from hushmeter.web.sessions import Session

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

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


class Kept(Enum):
    """What each process keeps, to be passed to a function in its place."""

    FITS = "the fitted attackers of the process"


@dataclass(frozen=True)
class Reference:
    """A session that the process already holds."""

    source: str


class WorkerPool:
    """Processes that compute answers, with a bounded queue, a time limit and a memory limit.

    A `Session` among the arguments of a function is sent to a process once and kept there until
    the session is removed from the server. `Kept.FITS` becomes the `FitCache` of the process.
    """

    def __init__(
        self, workers: int, waiting: int, most_bytes: int, readable: tuple[Path, ...] = ()
    ) -> None:
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="hushmeter")
        self._all = [Worker(most_bytes, readable) for _ in range(workers)]
        self._idle = list(self._all)
        self._lock = threading.Lock()
        # Long computations never take all processes, so that short ones are always served.
        self._long = asyncio.Semaphore(max(1, workers - 1))
        self._waiting = waiting
        self._held = 0

    async def start(self) -> None:
        """Start all processes, so that the first requests need not wait for them."""
        tasks = [self._threads.submit(self._start, worker) for worker in self._all]
        await asyncio.gather(*map(asyncio.wrap_future, tasks))

    async def run(
        self, limit_s: float, function: Callable[..., Answer], *given: Any, long: bool = False
    ) -> Answer:
        """Compute a function in a process and return its result within a time limit [s].

        One process is kept free of `long` computations. The process is ended if the time passes
        (`TooSlowError`) or it takes too much memory (`TooLargeError`).
        """
        if self._held >= self._waiting:
            raise BusyError
        deadline = time.monotonic() + limit_s
        self._held += 1
        try:
            async with asyncio.timeout(limit_s):
                if not long:
                    return await self._submit(deadline, function, given)
                async with self._long:
                    return await self._submit(deadline, function, given)
        except TimeoutError:
            raise TooSlowError from None
        finally:
            self._held -= 1

    async def _submit(
        self, deadline: float, function: Callable[..., Answer], given: Sequence[Any]
    ) -> Answer:
        """Wait for a thread and a process, and for the answer."""
        task: Future[Answer] = self._threads.submit(self.compute, deadline, function, given)
        return await asyncio.wrap_future(task)

    def compute(
        self, deadline: float, function: Callable[..., Answer], given: Sequence[Any]
    ) -> Answer:
        """Compute a function in a process until a value of `time.monotonic` [s]; see `run`."""
        sessions = [part for part in given if isinstance(part, Session)]
        worker = self._take([session.source for session in sessions])
        try:
            for session in sessions:
                worker.keep(session)
            return cast("Answer", worker.call(deadline, function, [_refer(one) for one in given]))
        finally:
            with self._lock:
                worker.flush()
                self._idle.append(worker)

    def forget(self, source: str) -> None:
        """Remove a trace from all processes, with what attackers learnt from it."""
        with self._lock:
            for worker in self._all:
                worker.forget(source)
            for worker in self._idle:
                worker.flush()

    def close(self) -> None:
        """End all processes; drop the computations that wait."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in self._all:
            worker.close()

    def _take(self, sources: Sequence[str]) -> Worker:
        """Return an idle process, preferably one that holds the traces. There is one per thread."""
        with self._lock:
            best = max(self._idle, key=lambda worker: worker.knows(sources))
            self._idle.remove(best)
            return best

    def _start(self, worker: Worker) -> None:
        """Start one process unless it already computes."""
        with self._lock:
            if worker not in self._idle:
                return
            self._idle.remove(worker)
        try:
            worker.start()
        finally:
            with self._lock:
                self._idle.append(worker)


class Worker:
    """One process, used by one thread at a time. It is started again after it was ended."""

    def __init__(self, most_bytes: int, readable: tuple[Path, ...] = ()) -> None:
        self._most_bytes, self._readable = most_bytes, readable
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None
        self._held: OrderedDict[str, int] = OrderedDict()
        self._to_forget: list[str] = []
        self._closed = False

    def start(self) -> Connection:
        """Start the process if it does not run; return the pipe to it."""
        if self._pipe is None or self._process is None or not self._process.is_alive():
            self.end()
            if self._closed:
                raise BusyError
            context = process_context()
            self._pipe, theirs = context.Pipe()
            given = (theirs, self._readable)
            self._process = context.Process(target=serve_calls, args=given, daemon=True)
            self._process.start()
            theirs.close()
        return self._pipe

    def knows(self, sources: Sequence[str]) -> tuple[int, bool]:
        """Return how well the process suits a request: the traces it holds, and that it runs."""
        return sum(source in self._held for source in sources), self._process is not None

    def keep(self, session: Session) -> None:
        """Send a trace to the process unless it holds it."""
        pipe = self.start()
        if session.source in self._held:
            self._held.move_to_end(session.source)
            return
        self._make_room(session)
        pipe.send(session)

    def call(self, deadline: float, function: Callable[..., Any], given: Sequence[Any]) -> Any:
        """Return the result of a function, or end the process at its limits; see `run`."""
        pipe = self.start()
        pipe.send((function, tuple(given)))
        self._watch(pipe, deadline)
        try:
            answer = pipe.recv()
        except EOFError:
            self.end()
            raise WorkerFault("the process ended", "a worker") from None
        if isinstance(answer, Failure):
            raise answer.error()
        if isinstance(answer, Session):
            # The process that read a file keeps it for the next request.
            self._make_room(answer)
        return answer

    def forget(self, source: str) -> None:
        """Note that a trace must leave the process; `flush` tells the process."""
        self._to_forget.append(source)

    def flush(self) -> None:
        """Tell the idle process which traces to forget."""
        sources, self._to_forget = self._to_forget, []
        if self._pipe is None:
            return
        for source in sources:
            self._held.pop(source, None)
            with suppress(OSError):
                self._pipe.send(source)

    def close(self) -> None:
        """End the process for good."""
        self._closed = True
        self.end()

    def end(self) -> None:
        """End the process. What it holds is lost."""
        if self._process is not None:
            self._process.kill()
        if self._pipe is not None:
            with suppress(OSError):
                self._pipe.close()
        self._process, self._pipe = None, None
        self._held.clear()

    def _make_room(self, session: Session) -> None:
        """Forget the traces that were not used for longest, and count the new one as held."""
        while self._held and (
            len(self._held) >= MOST_HELD
            or sum(self._held.values()) + session.bytes > MOST_HELD_BYTES
        ):
            oldest, _ = self._held.popitem(last=False)
            assert self._pipe is not None
            self._pipe.send(oldest)
        self._held[session.source] = session.bytes

    def _watch(self, pipe: Connection, deadline: float) -> None:
        """Wait for an answer; end the process when its time is over or its memory too large."""
        while True:
            left = deadline - time.monotonic()
            try:
                if pipe.poll(max(0.0, min(left, WATCH_S))):
                    return
            except OSError:
                raise BusyError from None
            if left <= 0:
                self.end()
                raise TooSlowError
            if self._process is not None and _memory(self._process.pid) > self._most_bytes:
                self.end()
                raise TooLargeError(NO_MEMORY)


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


def serve_calls(pipe: Connection, readable: tuple[Path, ...]) -> None:
    """Compute functions in this process until the server ends."""
    confine({*readable, *stop_saving()})
    # Ctrl+C at the terminal reaches the server, which ends its processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_server, daemon=True).start()
    held: dict[str, Session] = {}
    fits = FitCache()
    while True:
        try:
            message = pipe.recv()
        except (EOFError, OSError):
            return
        if isinstance(message, Session):
            held[message.source] = message
        elif isinstance(message, str):
            held.pop(message, None)
            fits.forget(message)
        else:
            pipe.send(_answer(message, held, fits))


def _answer(message: Any, held: dict[str, Session], fits: FitCache) -> Any:
    """Return the result of a function, or the error that it raised."""
    function, given = message
    try:
        answer = function(*(_resolve(part, held, fits) for part in given))
    except Exception as error:
        return Failure.of(error)
    if isinstance(answer, Session):
        held[answer.source] = answer
    return answer


def _refer(argument: Any) -> Any:
    """Return an argument, or a reference to the session that the process holds."""
    return Reference(argument.source) if isinstance(argument, Session) else argument


def _resolve(argument: Any, held: dict[str, Session], fits: FitCache) -> Any:
    """Return what an argument stands for in this process."""
    if argument is Kept.FITS:
        return fits
    return held[argument.source] if isinstance(argument, Reference) else argument


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
