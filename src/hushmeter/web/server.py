"""What one app holds: traces, fitted attackers, examples and threads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any

from hushmeter.web.examples import make_example
from hushmeter.web.sessions import Session, Sessions
from hushmeter.web.settings import Settings
from hushmeter.web.training import FitCache
from hushmeter.web.work import Answer, BusyError, TooSlowError, Workshop

# Between two looks for idle traces [s].
LONGEST_PAUSE_S = 60.0


class Server:
    """The memory of one app and its threads."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.fits = FitCache()
        self.sessions = Sessions(
            settings.sessions, settings.session_bytes, settings.idle_s, forgotten=self._forget
        )
        self.workshop = Workshop(settings.workers, settings.waiting)
        self._examples: dict[str, Session] = {}
        self._uploads = 0

    async def compute(self, function: Any, *given: Any) -> Any:
        """The answer of a function, off the event loop and within the time of a request."""
        return await self.workshop.run(self.settings.request_s, function, *given)

    async def receive(self, body: Awaitable[Answer]) -> Answer:
        """What a client sends, within the time of a request."""
        try:
            return await asyncio.wait_for(body, self.settings.request_s)
        except TimeoutError:
            raise TooSlowError from None

    @contextmanager
    def uploading(self) -> Iterator[None]:
        """A place for one file on its way into memory, refused where too many are."""
        if self._uploads >= self.settings.uploads:
            raise BusyError
        self._uploads += 1
        try:
            yield
        finally:
            self._uploads -= 1

    async def forget_idle(self) -> None:
        """Forget idle traces, again and again, whether or not somebody asks for one."""
        while True:
            await asyncio.sleep(min(self.settings.idle_s / 4, LONGEST_PAUSE_S))
            self.sessions.forget_idle()

    def _forget(self, session: Session) -> None:
        """What was learnt from readings goes with them; examples are nobody's."""
        if session.training is None:
            self.fits.forget(session.source)

    def example(self, name: str) -> Session:
        """An example, made once."""
        if name not in self._examples:
            self._examples[name] = make_example(name)
        return self._examples[name]
