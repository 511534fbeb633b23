"""Traces in memory: bounded in number, bytes and time, under ids nobody can guess."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hushmeter.errors import DataError, HushmeterError

if TYPE_CHECKING:
    from hushmeter.home import Home
    from hushmeter.learn.inspection import Inspection
    from hushmeter.trace import Trace


class UnknownTraceError(HushmeterError):
    """A trace that the server does not hold, or no longer."""

    def __init__(self) -> None:
        super().__init__("this server holds no such trace, or no longer: load the file again.")


@dataclass(frozen=True, eq=False)
class Session:
    """One trace and what is known of it.

    Attributes
    ----------
    name : str
        Of the file or the example.
    found : Inspection
    trace : Trace
        With its truth, where that is known.
    home : Home or None
    training : Trace or None
        Other readings of the same home with their truth, where the server has some.
    trained_on : str or None
        What `training` is, in words.
    source : str
        Equal for sessions with equal data only, such as the same example: fits are kept under it.
    """

    name: str
    found: Inspection
    trace: Trace
    home: Home | None = None
    training: Trace | None = None
    trained_on: str | None = None
    source: str = field(default_factory=lambda: secrets.token_hex(16))

    @property
    def bytes(self) -> int:
        """What its trace takes in memory."""
        parts = (self.trace.readings, self.trace.states, self.trace.power, self.trace.steps)
        # The recording may hold its own copy of everything.
        return 2 * sum(part.nbytes for part in parts if part is not None)


class Sessions:
    """The traces that a server holds; the least recently used is forgotten first.

    Parameters
    ----------
    most : int
    most_bytes : int
    idle_s : float
        What nobody asked for in so long is forgotten [s].
    clock : callable
        Seconds that only grow.
    forgotten : callable
        Called with every trace that is forgotten.
    """

    def __init__(
        self,
        most: int,
        most_bytes: int,
        idle_s: float,
        clock: Callable[[], float] = time.monotonic,
        forgotten: Callable[[Session], None] = lambda _: None,
    ) -> None:
        self._most, self._most_bytes, self._idle_s = most, most_bytes, idle_s
        self._clock, self._forgotten = clock, forgotten
        self._lock = threading.Lock()
        self._held: OrderedDict[str, tuple[Session, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def bytes(self) -> int:
        """What all traces take in memory."""
        return sum(session.bytes for session, _ in self._held.values())

    def add(self, session: Session) -> str:
        """Hold a trace; its id has 192 random bits."""
        if session.bytes > self._most_bytes:
            raise DataError("this trace is larger than the server's memory for traces.")
        key = secrets.token_urlsafe(24)
        with self._lock:
            self._held[key] = (session, self._clock())
            self._forget()
        return key

    def get(self, key: str) -> Session:
        """The trace behind an id, now the most recently used."""
        with self._lock:
            self._forget()
            if key not in self._held:
                raise UnknownTraceError
            session = self._held[key][0]
            self._held[key] = (session, self._clock())
            self._held.move_to_end(key)
            return session

    def remove(self, key: str) -> None:
        """Forget a trace."""
        with self._lock:
            held = self._held.pop(key, None)
        if held is None:
            raise UnknownTraceError
        self._forgotten(held[0])

    def forget_idle(self) -> None:
        """Drop what nobody asked for in `idle_s`."""
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        """Drop what is idle, and the least recently used until the rest fits."""
        oldest = self._clock() - self._idle_s
        while self._held:
            _, used = next(iter(self._held.values()))
            fits = len(self._held) <= self._most and self.bytes <= self._most_bytes
            if fits and used >= oldest:
                return
            _, (session, _) = self._held.popitem(last=False)
            self._forgotten(session)
