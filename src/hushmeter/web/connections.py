"""Limits of single connections, which uvicorn does not have: their number, and their pauses.

uvicorn closes a connection that is idle between two requests. It waits for ever for the rest of a
request and for a client that does not read its answer, and its limit of connections refuses new
clients instead of idle ones.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from hushmeter.web.server import Settings

BODY_MARGIN_S = 5.0
"""Time after which a request without its whole body is cut off, beyond the time of a request [s].
The app answers an upload that is too slow within this time."""
SPARE_FILES = 256
"""Open files that are left to everything else than connections."""
MOST_LINES, LINES_PER_S = 20, 1.0

log = logging.getLogger("hushmeter.web")


class BoundedProtocol(H11Protocol):
    """HTTP connection whose pauses are bounded, and which may have to make room for a new one.

    Parameters
    ----------
    settings : Settings
    **given
        Parameters of uvicorn's protocol.
    """

    def __init__(self, *, settings: Settings, **given: Any) -> None:
        super().__init__(**given)
        self._settings = settings
        self._waiting_since = time.monotonic()
        self._pause: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None
        self._timed: object | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection; if there are too many, close the one that has waited longest."""
        super().connection_made(transport)
        # asyncio does this only for sockets that name their protocol. Otherwise the body of every
        # answer waits until the client has confirmed its head, which clients do after 40 ms.
        line = transport.get_extra_info("socket")
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._limit_pause(self._settings.header_s)
        if len(self.connections) > most_connections(self._settings):
            self._oldest_waiting().transport.abort()

    @property
    def is_waiting(self) -> bool:
        """True while the client owes a request or the rest of one."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def data_received(self, data: bytes) -> None:
        """Handle what the client sent, and bound the time for what is missing."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            if self._pause is None:
                self._limit_pause(self._settings.header_s)
        elif self.conn.their_state is not h11.SEND_BODY:
            _cancel(self._pause)
            self._pause = None
        elif self._timed is not self.cycle:
            # One clock runs for the whole body; single bytes do not start it again.
            self._timed = self.cycle
            self._limit_pause(self._settings.request_s + BODY_MARGIN_S)

    def on_response_complete(self) -> None:
        """Wait for the next request; uvicorn bounds the time until its first byte."""
        self._waiting_since = time.monotonic()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Close the connection if the client does not read its answer for some time."""
        super().pause_writing()
        self._stall = self.loop.call_later(self._settings.write_s, self.transport.abort)

    def resume_writing(self) -> None:
        """Note that the client reads its answer again."""
        super().resume_writing()
        _cancel(self._stall)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all clocks."""
        super().connection_lost(exc)
        _cancel(self._pause)
        _cancel(self._stall)

    def _oldest_waiting(self) -> BoundedProtocol:
        """Return the connection whose client has owed a request for longest, or this new one."""
        known = [one for one in self.connections if isinstance(one, BoundedProtocol)]
        waiting = [one for one in known if one.is_waiting and not one.transport.is_closing()]
        return min(waiting, key=lambda one: one._waiting_since, default=self)

    def _limit_pause(self, seconds: float) -> None:
        """Close the connection after some time, unless the clock is stopped."""
        _cancel(self._pause)
        self._pause = self.loop.call_later(seconds, self.transport.abort)


def bounded_protocol(settings: Settings) -> Callable[..., BoundedProtocol]:
    """Return what uvicorn calls for each connection."""
    return partial(BoundedProtocol, settings=settings)


def most_connections(settings: Settings) -> int:
    """Return the number of connections that the server holds at the same time.

    It is lower than in the settings if the system allows the process fewer open files.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit.
        return settings.connections
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return settings.connections
    return max(1, min(settings.connections, allowed - SPARE_FILES))


class RateLimit(logging.Filter):
    """A filter that bounds the number of lines in a log."""

    def __init__(
        self,
        most: int = MOST_LINES,
        per_s: float = LINES_PER_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._most, self._per_s, self._clock = most, per_s, clock
        self._left, self._then = float(most), clock()
        self._dropped = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True if a line may be written; the next one reports how many were left out."""
        now = self._clock()
        self._left = min(float(self._most), self._left + (now - self._then) * self._per_s)
        self._then = now
        if self._left < 1:
            self._dropped += 1
            return False
        self._left -= 1
        if self._dropped:
            record.msg = f"{record.getMessage()} ({self._dropped} lines before it were left out)"
            record.args = ()
            self._dropped = 0
        return True


def log_loop_errors(loop: asyncio.AbstractEventLoop) -> None:
    """Log errors of the event loop, such as too many open files, in one line each."""

    def handle(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        # The message of an error may contain a reading, so it is not logged.
        log.error("fault: %s in the event loop", type(error).__name__)

    loop.set_exception_handler(handle)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
