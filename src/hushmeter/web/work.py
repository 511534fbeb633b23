"""Computing off the event loop: a bounded number of threads, a bounded queue, a time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

Answer = TypeVar("Answer")


class BusyError(Exception):
    """Too many requests are waiting."""


class TooSlowError(Exception):
    """A request took longer than it may."""


class Workshop:
    """Threads that compute; what does not fit the queue is refused at once.

    A computation cannot be stopped from outside: after its time is up the client is answered, and
    its thread stays taken, and counted, until it ends.

    Parameters
    ----------
    workers : int
    waiting : int
        Most computations under way or waiting.
    """

    def __init__(self, workers: int, waiting: int) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="hushmeter")
        self._waiting = waiting
        self._held = 0

    async def run(self, limit_s: float, function: Callable[..., Answer], *given: Any) -> Answer:
        """The answer of a function, computed in a thread within `limit_s` seconds."""
        if self._held >= self._waiting:
            raise BusyError
        loop = asyncio.get_running_loop()
        self._held += 1
        task = self._pool.submit(function, *given)
        task.add_done_callback(lambda done: self._leave(loop, done))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(task), limit_s)
        except TimeoutError:
            raise TooSlowError from None

    def close(self) -> None:
        """Drop what waits; what runs ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _leave(self, loop: asyncio.AbstractEventLoop, done: Future[Any]) -> None:  # noqa: ARG002
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._release)

    def _release(self) -> None:
        self._held -= 1
