"""What happens to a closed window: it is paid for in a ledger and brought to every sink.

`LedgerAccount` pays for the days of a stream, `Courier` brings its messages to one sink in a thread
of its own, and `Log` tells the operator what fails.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from hushmeter.apps.live.addresses import Sink, SinkError
from hushmeter.apps.live.state import Item, StaleStateError, State
from hushmeter.apps.live.stream import Terms
from hushmeter.clock import day_of
from hushmeter.errors import BudgetError, DataError, HushmeterError

if TYPE_CHECKING:
    from hushmeter.apps.live.service import Service

RETRY_S = 5.0
"""Time after which a sink that failed is tried again [s]."""

LAST_WAIT_S = 15.0
"""Longest time to wait for a sink at the end without progress [s]; a request takes less."""

LOG_S = 60.0
"""Time within which a sentence is logged at most once [s]."""


class Log:
    """Sentences for the operator, each at most once a minute. None follows from a reading."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._last: dict[str, float] = {}

    def __call__(self, sentence: str) -> None:
        """Write a sentence unless it was written within the last minute."""
        now = time.monotonic()
        if now - self._last.get(sentence, -math.inf) >= LOG_S:
            self._last[sentence] = now
            self._write(sentence)


class LedgerAccount:
    """The account in a ledger that pays for the days of a stream, in one series of a meter."""

    def __init__(self, url: str, meter: str, stream: str, terms: Terms, state: State) -> None:
        if terms.simulation:
            raise DataError("a simulation spends no budget; leave out --ledger or --simulation.")
        # A stream without a ledger does not load its package.
        from hushmeter.apps.ledger import Charge, open_ledger
        from hushmeter.apps.ledger.payment import price_of

        self._open = partial(open_ledger, url)
        self._meter, self._state = meter, state
        public = terms.describe()
        kept = {name: public[name] for name in ("unit", "cells", "tables")}
        self._release = str(state.fact("release"))
        self._charge = Charge(self._release, stream, kept)
        self._place: int | None = None
        self._window_ns = terms.window_ns
        with self._open() as ledger:
            self.zone = ledger.protects.zone
            self.price = price_of(terms.promise, ledger.protects, ledger.composition_delta)
            # A name or a kind of period that the ledger can never take is refused at the start.
            ledger.rehearse(
                self._charge,
                micro=self.price.micro,
                femto=self.price.femto,
                sources={"start": ([meter], [day_of(time.time_ns(), self.zone)])},
            )

    def compare(self) -> None:
        """Raise `DataError` if the ledger or the state is an older copy than the other."""
        with self._open() as ledger:
            head = self._state.fact("ledger_head")
            if head is not None:
                ledger.check_head(head)
            self._place = ledger.place(self._release)
        last = self._state.last_window()
        if self._place is not None and (last is None or self._place > last):
            raise self._stale()

    def reach(self, window: int) -> None:
        """Record in the ledger that windows up to a number are published.

        Raise `StaleStateError` if the ledger knows a later window than this process.
        """
        with self._open() as ledger:
            place = ledger.place(self._release)
            if place != self._place:
                raise self._stale()
            if place is None or window > place:
                ledger.advance(self._release, window)
                self._place = window

    def _stale(self) -> StaleStateError:
        """Return the error about a ledger that is ahead of the state."""
        return StaleStateError(
            f"{self._state.path} is older than the ledger: windows that it does not know were "
            "published, and would be published twice; restore the newest state, or begin another "
            "stream with a new --state."
        )

    def days_of(self, number: int) -> list[str]:
        """Return the civil days of the ledger that a window covers, mostly one."""
        start = number * self._window_ns
        ends = (start, start + self._window_ns - 1)
        return list(dict.fromkeys(day_of(moment, self.zone) for moment in ends))

    def pay(self, day: str) -> tuple[bool, str]:
        """Pay for a day, once; return whether it is paid for, and why not if it is not."""
        known = self._state.payment(day)
        if known is not None:
            return known
        digest = hmac.new(
            bytes.fromhex(str(self._state.fact("ledger_digest"))), day.encode(), hashlib.sha256
        ).hexdigest()
        with self._open() as ledger:
            try:
                ledger.spend(
                    self._charge,
                    micro=self.price.micro,
                    femto=self.price.femto,
                    meters=[self._meter],
                    periods=[day],
                    digest=digest,
                    source=day,
                    all_or_nothing=True,
                )
                answer = (True, "")
            except BudgetError as error:
                answer = (False, str(error))
            head = str(ledger.head())
        self._state.record_payment(day, *answer, head=head)
        return answer

    def published(self, day: str, values: Sequence[float | None]) -> None:
        """Record in the ledger that the windows of a paid day were published."""
        digest = hashlib.sha256(json.dumps(list(values)).encode()).hexdigest()
        with self._open() as ledger:
            ledger.mark_released(self._charge, day, digest)


class Courier:
    """Brings the messages of a stream to one sink, in their order and in a thread of its own.

    Before the first of them the windows that the sink has are compared with the state.
    """

    def __init__(
        self, sink: Sink, service: Service, on_item: Callable[[Item], None] | None
    ) -> None:
        self.sink, self._service, self._on_item = sink, service, on_item
        self._state, self._compared = service.state, False
        self._retry_at = -math.inf
        self._wake, self._stopped = threading.Event(), False
        self._thread: threading.Thread | None = None
        self._delivered = 0
        self.tried = threading.Event()
        """Set after the first attempt to compare the sink with the state."""

    def start(self) -> None:
        """Begin to deliver."""
        name = f"hushmeter-sink-{self.sink.name}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Deliver what is due: soon, or at once if there is no thread."""
        self._wake.set()
        if self._thread is None:
            self._deliver()

    def finish(self) -> None:
        """Try once more, and end; a sink that makes no progress is left."""
        self._stopped = True
        self._wake.set()
        thread, seen = self._thread, -1
        while thread is not None and thread.is_alive() and self._delivered != seen:
            seen = self._delivered
            thread.join(LAST_WAIT_S)

    def _run(self) -> None:
        """Deliver until `finish` was called and an attempt makes no more progress."""
        try:
            self._attempt(self.sink.open)
            last = False
            while not last:
                stopped, before = self._stopped, self._delivered
                self._retry_at = -math.inf if stopped else self._retry_at
                self._deliver()
                self.tried.set()
                last = stopped and self._delivered == before
                if not stopped:
                    self._wake.wait(1.0)
                    self._wake.clear()
        except BaseException as error:
            self._service.fail(error)
        finally:
            self.tried.set()
            self._attempt(self.sink.close)

    def _deliver(self) -> None:
        """Give the sink the messages that it does not have yet."""
        if time.monotonic() >= self._retry_at and not self._attempt(self._publish):
            self._retry_at = time.monotonic() + RETRY_S

    def _attempt(self, act: Callable[[], None]) -> bool:
        """Return whether the sink did something; a failure is logged, whatever it is.

        A fault of the state, or a state that is an old copy, is no fault of the sink.
        """
        try:
            act()
            return True
        except HushmeterError:
            raise
        except SinkError as error:
            self._service.log(str(error))
        except Exception as error:
            kind = type(error).__name__
            self._service.log(f"{self.sink.name} fails ({kind}); values wait for it.")
        return False

    def _publish(self) -> None:
        if not self._compared:
            self._service.compare(self.sink)
            self._compared = True
        name, service = self.sink.name, self._service
        while items := self._state.undelivered(name, service.now(), until=service.allowed):
            for item in items:
                self.sink.publish(item)
                self._state.mark_delivered(name, item)
                self._delivered += 1
                if self._on_item is not None:
                    self._on_item(item)
