"""The state of one running app: its limits, its worker processes, and the data it holds."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import secrets
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hushmeter.home import Home
from hushmeter.web import schemas
from hushmeter.web.origins import KnownHomes, refuse_learnt_watts, settle_origins
from hushmeter.web.sessions import Session, Sessions, make_example
from hushmeter.web.workers import BusyError, TooSlowError, WorkerPool

MEGABYTE = 1 << 20
LOOPBACK = ("127.0.0.1", "localhost", "::1")
LONGEST_PAUSE_S = 60.0
"""Longest time between two searches for idle traces [s]."""

Answer = TypeVar("Answer")
Request = TypeVar("Request", bound=schemas.WithHome)


@dataclass(frozen=True)
class Settings:
    """The limits of a server. Each of them bounds its memory or its time."""

    # Names by which the server may be addressed. An empty tuple allows any name
    hosts: tuple[str, ...] = LOOPBACK
    # Every request that is not for a file of the page must send it as `Authorization: Bearer
    # TOKEN`, because every user of a computer can reach its loopback address.
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    upload_bytes: int = 50 * MEGABYTE  # Largest uploaded file. [bytes]
    unpacked_bytes: int = 200 * MEGABYTE  # Largest uploaded file after decompression. [bytes]
    body_bytes: int = MEGABYTE  # Largest JSON body. [bytes]
    readings: int = 2_000_000  # Largest number of readings in a file
    values: int = 20_000_000  # Largest number of values in a file: readings times columns
    view_readings: int = 30_000  # Largest number of readings that one view attacks
    appliances: int = 40  # Largest number of appliances in a home
    # Largest number of traces in memory. The least recently used one is removed first
    sessions: int = 256
    session_bytes: int = 512 * MEGABYTE  # Memory for all traces together. [bytes]
    idle_s: float = 3600.0  # A trace that nobody requested for this time is removed. [s]
    # Number of processes that compute
    workers: int = field(default_factory=lambda: max(3, min(4, os.cpu_count() or 3)))
    # Memory of one of these processes; a process that exceeds it is ended. [bytes]
    worker_bytes: int = 1024 * MEGABYTE
    uploads: int = 8  # Largest number of files that are uploaded at the same time
    waiting: int = 256  # Largest number of requests that compute or wait for a process
    # Largest number of connections. The one whose client has owed a request for longest is closed
    # first.
    connections: int = 512
    header_s: float = 10.0  # Time limit for the first line and the headers of a request. [s]
    write_s: float = 30.0  # Time limit for a client that does not read its answer. [s]
    request_s: float = 30.0  # Time limit of a request. [s]
    # Time limit of a release [s]. It is longer, because a receipt composes the ε of whole days
    release_s: float = 120.0

    @property
    def is_local(self) -> bool:
        """True if only this computer can reach the server."""
        return bool(self.hosts) and all(map(is_loopback, self.hosts))


def is_loopback(host: str) -> bool:
    """Return True if only this computer can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Server:
    """The memory of one app and its processes."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.sessions = Sessions(
            settings.sessions, settings.session_bytes, settings.idle_s, forgotten=self._forget
        )
        self.homes = KnownHomes(settings.sessions, settings.idle_s)
        self.workers = WorkerPool(settings.workers, settings.waiting, settings.worker_bytes)
        self._examples: dict[str, Session] = {}
        self._uploads = 0

    async def compute(
        self, function: Callable[..., Answer], *given: Any, long: bool = False
    ) -> Answer:
        """Return the result of a function, computed in a process within the time of a request."""
        return await self.workers.run(self.settings.request_s, function, *given, long=long)

    async def receive(self, body: Awaitable[Answer]) -> Answer:
        """Return what a client sends; raise `TooSlowError` after the time of a request."""
        try:
            return await asyncio.wait_for(body, self.settings.request_s)
        except TimeoutError:
            raise TooSlowError from None

    @contextmanager
    def uploading(self) -> Iterator[None]:
        """Count one upload while the block runs; raise `BusyError` if there are too many."""
        if self._uploads >= self.settings.uploads:
            raise BusyError
        self._uploads += 1
        try:
            yield
        finally:
            self._uploads -= 1

    async def forget_idle(self) -> None:
        """Remove idle traces again and again, whether or not requests arrive."""
        while True:
            await asyncio.sleep(min(self.settings.idle_s / 4, LONGEST_PAUSE_S))
            self.sessions.forget_idle()
            self.homes.forget_idle()

    async def example(self, name: str) -> Session:
        """Return an example by its name; each example is made once."""
        if name not in self._examples:
            self._examples[name] = await self.compute(make_example, name)
        return self._examples[name]

    def hold(self, session: Session) -> str:
        """Hold a trace and what was learnt from it; return the identifier of both."""
        key = self.sessions.add(session)
        if session.home is not None:
            self.hold_home(session.home, key)
        return key

    def hold_home(self, home: Home, key: str) -> schemas.HomeModel:
        """Hold a home, so that later its numbers are known again, and return it as JSON."""
        self.homes.add(key, home)
        return schemas.to_model(home, key)

    def settle(self, request: Request) -> tuple[Request, Session | None]:
        """Return a request with the sources of the numbers of its home as the server knows them.

        The session of its trace comes with it.
        """
        model, trace = request.home, request.trace
        session = None if trace is None else self.sessions.get(trace)
        edited = None if model is None else self.homes.get(model.id)
        held = (None if session is None else session.home, self.homes.get(trace), edited)
        known = list({id(home): home for home in held if home is not None}.values())
        if isinstance(request, schemas.PromiseRequest):
            refuse_learnt_watts(request, known)
        if model is None:
            return request, session
        settled = settle_origins(model, known, is_complete=edited is not None)
        return request.model_copy(update={"home": settled}), session

    def _forget(self, session: Session) -> None:
        """Remove what attackers learnt from a removed trace; examples are nobody's data."""
        if session.training is None:
            self.workers.forget(session.source)
