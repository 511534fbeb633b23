"""The service: readings in, windows closed at fixed times, protected values out.

For every window the order is: pay in the ledger, commit the window with its noise and its messages,
publish. A crash between two steps can cost budget, but a window is never published with two values.

*Clocks.* With the clock of the system, a window closes at its end plus the grace time and is
published one second later, whatever it contains. With the clock of the readings, for files and
replays, time is that of the latest reading. A meter that sends only changes has no such clock: the
time of its next message depends on its values. Its files are read to their end, and the windows up
to a stated time are published.

*Steps of the clock.* A window that closed never opens again. If the clock goes back, readings are
late until it has caught up. If it goes forward, the windows in between are published as incomplete.
A step forward of more than a day ends the service, because nobody can say whether the clock was
wrong before or is wrong now.

*Threads.* The source has a thread, every sink has one (`Courier`), and the windows are closed in a
third place: by the thread that runs the service or, with the clock of the readings, by that of the
source. The lock of the service guards the open windows alone and is never held while anybody waits
for a ledger, a disk or a receiver, so a receiver that hangs stops neither readings nor the others.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import NamedTuple

from hushmeter.apps.live.addresses import Sink, Source
from hushmeter.apps.live.delivery import RETRY_S, Courier, LedgerAccount, Log
from hushmeter.apps.live.payloads import NotAReading, NoValue, Parser, PayloadError, Skip
from hushmeter.apps.live.state import KEPT_DAYS, Item, StaleStateError, State, WindowRow
from hushmeter.apps.live.stream import Closing, Publication, Terms, iso_of, write_day
from hushmeter.apps.live.windows import AHEAD_S, EARLY, LATE, ChangeBuffer, ClosedWindow
from hushmeter.clock import SECOND
from hushmeter.errors import DataError, HushmeterError, InputError
from hushmeter.files import one_sentence
from hushmeter.noise.samplers import release_key
from hushmeter.trace import SECONDS_PER_DAY

PUBLISH_DELAY_S = 1
"""Time from the close of a window until it is published [s]; the commit is done within it."""

CHECKPOINT_S = 10.0
"""Time between two commits of the open windows [s]: a crash loses at most these readings."""

FIRST_WAIT_S = 10.0
"""Longest time to wait at the start until every sink has told its last window [s]."""

SETTLE_S = 5
"""Time after a connection within which the broker has sent the value that it keeps [s]."""

DAY_NS = SECONDS_PER_DAY * SECOND

LONGEST_GAP_NS = KEPT_DAYS * DAY_NS
"""Longest time without readings whose windows are all published, without values [ns]."""

LONGEST_FILE_NS = 3660 * DAY_NS
"""Longest time from the first change of a file to its stated end [ns]."""

LONGEST_SILENCE_NS = 31 * DAY_NS
"""Longest time between the first two changes of a file [ns]."""

_FATE_SENTENCES = {
    LATE: "a reading came after its window had closed and is ignored.",
    EARLY: f"a reading is more than {AHEAD_S} s ahead of the clock of this machine and is ignored.",
}


class Stamped(NamedTuple):
    """A reading at a time [ns since 1970]; `away` says that the meter is not connected."""

    at: int
    watts: float | None
    away: bool


@dataclass(frozen=True)
class Feed:
    """Where readings come from, how a message is read, and whose time counts."""

    source: Source  # Where messages come from
    parse: Parser  # From a message to a reading
    # True if the time is that of the readings instead of that of this machine
    by_readings: bool = False
    # Stated end of the readings of a file [ns since 1970]; needed with `by_readings` if the meter
    # sends only changes.
    until_ns: int | None = None
    # Time of this machine [ns since 1970]; tests replace it
    clock: Callable[[], int] = time.time_ns


class Service:
    """One running stream, which commits everything to its state before it is published.

    `account` pays for it, `log` takes one line for the operator, and `on_item` every message that
    the first sink has got. `new_key` makes the key of a civil day or month; the keys
    come from the system by default, or from the seed of the simulation.
    """

    def __init__(
        self,
        terms: Terms,
        state: State,
        feed: Feed,
        sinks: Sequence[Sink],
        *,
        account: LedgerAccount | None = None,
        log: Callable[[str], None] = lambda _: None,
        on_item: Callable[[Item], None] | None = None,
        new_key: Callable[[str], bytes] | None = None,
    ) -> None:
        self.terms, self.state, self.source = terms, state, feed.source
        self._by_readings, self._until = feed.by_readings, feed.until_ns
        if terms.hold and self._by_readings and self._until is None:
            raise InputError(
                "the time of the last change follows from the readings, so it must not end what is "
                "published; state the end of the readings with --until 2024-04-01T00:00Z."
            )
        self._parse, self._account, self.now = feed.parse, account, feed.clock
        self.log = log if isinstance(log, Log) else Log(log)
        names = [sink.name for sink in sinks]
        for name in names:
            if names.count(name) > 1:
                raise InputError(f"--to names {name} twice: name every receiver once.")
        self.couriers = [
            Courier(sink, self, None if place else on_item) for place, sink in enumerate(sinks)
        ]
        self._lock, self._recording = threading.RLock(), threading.Lock()
        self._wake = threading.Event()
        self._stopped = False
        self._error: BaseException | None = None
        self._checkpointed = time.monotonic()
        self._buffer = terms.buffer()
        self._publication = Publication(terms, state, new_key or self._draw_key, self._due)
        self._messages = self._unread = 0
        self._fault, self._began = "", self.now()
        self._known_until = 0
        self._latest: int | None = None
        self._away = self._begun = False
        self._reached: int | None = None
        self.allowed = 0
        """Number of the last message that may be published."""
        self._record_at = -math.inf
        self._pending: Stamped | None = None
        self.ended = state.last_status() == "ended"
        """True while the budget does not allow to publish."""
        self._resume()
        if account is not None:
            account.compare()

    def _draw_key(self, period: str) -> bytes:
        """Return the key of a day or a month: from the system, or from seed and first day."""
        if self.terms.seed is None:
            return release_key()[0]
        first = date.fromisoformat(f"{period}-01"[:10])
        return release_key(rng=self.terms.seed + first.toordinal())[0]

    def _resume(self) -> None:
        """Go on after the last committed window, with the readings of the last checkpoint."""
        last = self.state.last_window()
        now = self.now()
        if last is not None:
            end = (last + 1) * self.terms.window_ns
            if end > now + AHEAD_S * SECOND:
                raise DataError(
                    f"the state has a window that ends at {iso_of(end)}, which is later than the "
                    "clock of this machine; set the clock, and start again."
                )
            self._buffer.begin(last + 1)
            self._latest = self._known_until = end
        elif not self._by_readings:
            self._buffer.begin(self._buffer.number_at(now))
        kept = self.state.checkpoint()
        if kept is not None:
            at, content = kept
            if content:
                with one_sentence(
                    f"the open windows in {self.state.path}",
                    "read",
                    kinds=Exception,
                    more="; restore the newest state, or choose another --state",
                ):
                    self._buffer.restore(content)
            if not self._by_readings:
                # Nobody listened from then until now.
                self._disconnect(at, now)
        self._last_now, self._last_mono = now, time.monotonic()

    # Readings in

    def receive(self, topic: str, payload: bytes) -> None:
        """Take one message from the source; nothing is raised, because its thread must go on."""
        if self._error is None:
            try:
                self._receive(topic, payload)
            except BaseException as error:
                self.fail(error)

    def fail(self, error: BaseException) -> None:
        """End the service with an error; the first one counts."""
        self._error = self._error or error
        self._wake.set()

    def _receive(self, topic: str, payload: bytes) -> None:
        arrived = self.now()
        self._messages += 1
        try:
            moment, watts = self._parse(topic, payload)
            away = watts is None
        except Skip:
            return
        except NotAReading as error:
            # When a meter that sends only changes sends a message follows from its values.
            if not self.terms.hold:
                self.log(f"{error}.")
            return
        except PayloadError as error:
            # A word instead of a number may follow from the value, so it must not make a gap.
            self._unread += not isinstance(error, NoValue)
            self._fault = str(error)
            moment, away = error.moment, False
            watts = None if isinstance(error, NoValue) else 0.0
        at = self._time_of(moment, arrived)
        if at is not None and (self._until is None or at < self._until):
            self._take(at, watts, away, arrived)

    def _time_of(self, moment: int | None, arrived: int) -> int | None:
        """Time of a reading [ns since 1970]; None if nobody can say it."""
        if moment is not None or not self._by_readings:
            return arrived if moment is None else moment
        # Only a reading that should have a time comes here, and it is the next one.
        return None if self._latest is None else self._latest + self.terms.interval_ns

    def _take(self, at: int, watts: float | None, away: bool, arrived: int) -> None:
        """Take a reading at a time [ns since 1970]; `away` says that the meter is not connected."""
        if self._by_readings:
            self._receive_by_readings(Stamped(at, watts, away), arrived)
        elif isinstance(self._buffer, ChangeBuffer):
            with self._lock:
                self._take_change(self._buffer, Stamped(at, watts, away), arrived)
        else:
            with self._lock:
                fate = self._buffer.add(at, watts, arrived)
            self._note(fate)

    def _take_change(self, buffer: ChangeBuffer, reading: Stamped, arrived: int) -> None:
        """Take a change of the value; nothing is logged, because its time follows from values."""
        at, watts, away = reading
        if at > arrived + AHEAD_S * SECOND:
            return
        if self._by_readings:
            if not self._begun:
                # A file begins with the value at its beginning.
                self._begun = True
                if self._until is not None and self._until - at > LONGEST_FILE_NS:
                    raise DataError(
                        f"the first readings are of {iso_of(at)}, more than ten years before "
                        "--until; correct their times, or remove them."
                    )
                if buffer.first is None:
                    buffer.begin(buffer.number_at(at))
                buffer.mark(at, connected=True)
            self._latest = at if self._latest is None else max(self._latest, at)
        if away:
            self._disconnect(at, arrived)
            self._away = True
            return
        if self._away:
            self._away = False
            buffer.mark(at + round(self.terms.heartbeat_s * SECOND), connected=True)
        buffer.add(at, watts, arrived)

    def lost(self, sentence: str) -> None:
        """Take the news that the meter is not connected from now on."""
        self.log(sentence)
        now = self.now()
        with self._lock:
            if not self._by_readings:
                self._disconnect(now, now)

    def back(self) -> None:
        """Take the news that the meter is connected from now on."""
        wait_s = max(self.terms.heartbeat_s, SETTLE_S)
        with self._lock:
            if isinstance(self._buffer, ChangeBuffer) and not self._by_readings:
                self._away = False
                self._buffer.mark(self.now() + round(wait_s * SECOND), connected=True)

    def _disconnect(self, at: int, now: int) -> None:
        """Let no value of a meter that sends only changes hold after a time [ns since 1970].

        The connection may have been lost up to the grace time before it was noticed.
        """
        if isinstance(self._buffer, ChangeBuffer):
            self._buffer.mark(at - self.terms.grace_ns, connected=False)
            self._buffer.add(at, None, now)

    def _receive_by_readings(self, reading: Stamped, arrived: int) -> None:
        """Take a reading whose time moves the clock, and close the windows that end by it."""
        if reading.at > arrived + AHEAD_S * SECOND:
            if not self.terms.hold:
                self.log(_FATE_SENTENCES[EARLY])
            return
        for one in self._agreeing(reading, arrived):
            if isinstance(self._buffer, ChangeBuffer):
                with self._lock:
                    self._take_change(self._buffer, one, arrived)
                continue
            latest = one.at if self._latest is None else max(self._latest, one.at)
            if self._latest is not None and one.at - self._latest > LONGEST_GAP_NS:
                # After a gap of years, or a first time of 1970, new windows begin.
                self._close(self._latest + LONGEST_GAP_NS)
                with self._lock:
                    self._buffer.begin(self._buffer.number_at(one.at))
            with self._lock:
                fate = self._buffer.add(one.at, one.watts, latest)
            # A file is read again after a restart, so what was known then is no fault.
            if one.at >= self._known_until:
                self._note(fate)
            self._latest = latest
            due = self._buffer.closes_at()
            if due is not None and latest >= due:
                self._close(latest)
                self.deliver()

    def _agreeing(self, reading: Stamped, arrived: int) -> list[Stamped]:
        """Return the readings that can be taken now that this one has come.

        One wrong time must not close the windows of years. The time of the first reading must
        therefore be near the clock, and a later one near the reading before it; otherwise it waits
        until the next reading agrees with it. The time between two changes may be longer.
        """
        near = LONGEST_SILENCE_NS if self.terms.hold else DAY_NS
        reference = arrived if self._latest is None else self._latest
        ahead = reading.at - reference
        far = abs(ahead) > near if self._latest is None else ahead > near and not self.terms.hold
        waiting, self._pending = self._pending, None
        if not far:
            return [reading]
        if waiting is not None and abs(reading.at - waiting.at) <= near:
            return [waiting, reading]
        if waiting is not None and not self.terms.hold:
            self.log("a time is far from those of the other readings; its reading is ignored.")
        self._pending = reading
        return []

    def _note(self, fate: str) -> None:
        """Log how a reading of a meter that sends at fixed times was treated."""
        if fate in _FATE_SENTENCES:
            self.log(_FATE_SENTENCES[fate])

    # Windows closed

    def tick(self, now: int) -> None:
        """Do everything that is due at a time [ns since 1970]."""
        if not self._by_readings:
            self._check_clock(now)
            self._close(now)
        if time.monotonic() - self._checkpointed >= CHECKPOINT_S:
            self._save_checkpoint(now)
        self.deliver()

    def _check_clock(self, now: int) -> None:
        """Raise `DataError` if the clock went forward by more than a day."""
        mono = time.monotonic()
        ahead = now - self._last_now - (mono - self._last_mono) * SECOND
        self._last_now, self._last_mono = now, mono
        if ahead > DAY_NS:
            raise DataError(
                f"the clock of this machine went forward by {ahead / DAY_NS:.1f} days while the "
                "service was running; check the clock, and start again."
            )

    def _open_windows(self) -> bytes:
        """Return the open windows for a checkpoint; none if all of the file is read again."""
        with self._lock:
            return b"" if self.terms.hold and self._by_readings else self._buffer.to_bytes()

    def _save_checkpoint(self, now: int) -> None:
        self.state.save_checkpoint(self._open_windows(), now)
        self._checkpointed = time.monotonic()

    def _close(self, now: int) -> None:
        """Commit every window that is due, each with the windows that are open after it."""
        while True:
            with self._lock:
                window, still_open = next(self._buffer.close(now), None), self._open_windows()
            if window is None:
                return
            self._commit(window, still_open, now)

    def _commit(self, window: ClosedWindow, still_open: bytes, now: int) -> None:
        """Pay for one window, give it its noise, and commit it with its messages."""
        terms, number = self.terms, window.number
        day = terms.day_of(number)
        terms.refuse_learnt(number * terms.window_ns, (number + 1) * terms.window_ns - 1)
        self._report_silence(number)
        mean = terms.mean_of(window)
        # A window without a value costs nothing, and its readings decide nothing about that.
        granted, items = (not self.ended, []) if mean is None else self._payment(number)
        done = Closing(WindowRow(number, day, window.share))
        if granted:
            done = self._publication.close(number, window.share, mean)
        self.state.commit(done.row, items + done.items, still_open, now, done.sums)
        self._checkpointed = time.monotonic()
        after = terms.day_of(number + 1)
        if after != day:
            oldest = (date.fromisoformat(day) - timedelta(days=KEPT_DAYS)).isoformat()
            self._write_private_day(day, oldest)
            period = terms.period_of(day)
            self.state.forget(period if terms.period_of(after) != period else None, oldest)
        if granted and self._account is not None:
            self._mark_published(self._account, number)

    def _report_silence(self, number: int) -> None:
        """Log at the end of a window if no reading has come since the start.

        If a meter sends only changes, the number of its messages follows from its values.
        """
        if self.terms.hold or number * self.terms.window_ns < self._began:
            return
        if not self._messages:
            self.log("no message has come from the source since the start; check its topic.")
        elif self._unread == self._messages:
            self.log(
                f"no message since the start could be read ({self._fault}), so all readings count "
                "as 0 W; check --payload and --unit."
            )

    def _write_private_day(self, day: str, oldest: str) -> None:
        """Write the summary of a day for the household, and delete those before the oldest day.

        A failure does not stop the stream.
        """
        folder = self.state.path.with_name(f"{self.state.path.name}.days")
        rows, sums = self.state.windows_of(day[:7]), self.state.sums_of(day[:7])
        try:
            write_day(folder, day, self.terms, rows, sums)
            for path in folder.glob("*.private.json"):
                if path.name[:10] < oldest:
                    path.unlink(missing_ok=True)
        except (DataError, OSError) as error:
            self.log(str(error))

    def _payment(self, number: int) -> tuple[bool, list[Item]]:
        """Return whether a window is paid for, and the message if this has changed."""
        if self._account is None:
            return True, []
        days = self._account.days_of(number)
        try:
            answers = [self._account.pay(day) for day in days]
            granted, reason = min(answers, key=lambda answer: answer[0])
        except HushmeterError as error:
            granted, reason = False, f"the ledger cannot be used: {error}"
        changed = granted == self.ended
        self.ended = not granted
        if not changed:
            return granted, []
        if not granted:
            self.log(f"nothing is published on {days[-1]} ({self._account.zone}): {reason}")
        return granted, [self._status_item(number, days[-1], self._account.zone)]

    def _status_item(self, number: int, day: str, zone: str) -> Item:
        """Message that publication ends or goes on; it does not say what was spent."""
        status = "ended" if self.ended else "publishing"
        sentence = (
            f"Nothing is published on {day} ({zone}), because it is not paid for in the ledger."
            if self.ended
            else f"Protected values are published on {day} ({zone})."
        )
        message = {"status": status, "day": day, "sentence": sentence, **self.terms.marks}
        return Item("status", f"{status} {iso_of(number * self.terms.window_ns)}",
                    self._due(number), message)  # fmt: skip

    def _mark_published(self, account: LedgerAccount, number: int) -> None:
        """Tell the ledger that a paid day is published, if it ends; a failure costs nothing."""
        day = account.days_of(number)[0]
        if day in account.days_of(number + 1) or self.state.payment(day) is None:
            return
        per_day = 25 * 3600 * SECOND // self.terms.window_ns
        rows = self.state.windows(number - per_day, number)
        try:
            values = [row.value for row in rows if day in account.days_of(row.number)]
            account.published(day, values)
        except HushmeterError as error:
            self.log(str(error))

    def _due(self, number: int) -> int:
        """Time at which a window is published [ns since 1970]."""
        if self._by_readings:
            return 0
        end = (number + 1) * self.terms.window_ns
        return end + self.terms.grace_ns + PUBLISH_DELAY_S * SECOND

    # Values out

    def deliver(self) -> None:
        """Let every sink have the messages that it does not have yet, if they are recorded."""
        self._record()
        for courier in self.couriers:
            courier.wake()

    def _record(self) -> None:
        """Record which window is published, where a copy of the state cannot take it back.

        While the ledger cannot be reached, newer messages may not be published.
        """
        with self._recording:
            newest, last = self.state.last_item(), self.state.last_value()
            if last is not None and last != self._reached:
                if time.monotonic() < self._record_at:
                    return
                try:
                    if self._account is not None:
                        self._account.reach(last)
                except StaleStateError:
                    raise
                except HushmeterError as error:
                    self.log(f"values wait for the ledger: {error}")
                    self._record_at = time.monotonic() + RETRY_S
                    return
                self.state.reach(last)
                self._reached = last
            self.allowed = newest

    def compare(self, sink: Sink) -> None:
        """Raise `StaleStateError` if a sink has windows that the state does not know."""
        until, last = sink.published_until(), self.state.last_window()
        known = 0 if last is None else (last + 1) * self.terms.window_ns
        if until is not None and until > known:
            raise StaleStateError(
                f"{sink.name} has values until {iso_of(until)}, which {self.state.path} does not "
                "know: the state is an older copy or another one, and would publish windows twice; "
                "restore the newest state, or choose another --to."
            )
        sink.accept()

    def run(self) -> None:
        """Run until `stop` is called or the source ends.

        Raise `HushmeterError` if the state cannot be written, the source fails, or the clock jumps.
        """
        for courier in self.couriers:
            courier.start()
        try:
            until = time.monotonic() + FIRST_WAIT_S
            for courier in self.couriers:
                courier.tried.wait(max(0.0, until - time.monotonic()))
            # No sink gets a new window if another one shows that the state is an old copy.
            self._raise_error()
            self.tick(self.now())
            self.source.start(self.receive, self.lost, self.back)
            try:
                while not (self._stopped or self._error or self.source.finished.is_set()):
                    now = self.now()
                    self.tick(now)
                    self._wake.wait(self._pause_s(now))
                    self._wake.clear()
                complete = self.source.finished.is_set() and not self._stopped
            finally:
                # No reading may close and publish a window after this method has ended.
                self.source.stop()
            self._raise_error()
            self._finish(complete)
        finally:
            for courier in self.couriers:
                courier.finish()
        self._raise_error()
        for sink in (courier.sink for courier in self.couriers):
            if self.state.undelivered(sink.name, self.now(), 1):
                self.log(f"{sink.name} does not have every value; the next start sends them.")

    def _raise_error(self) -> None:
        error = self._error or self.source.error
        if error is not None:
            raise error

    def _finish(self, complete: bool) -> None:
        """Close what can be closed at the end; `complete` says that the source has ended."""
        if complete and self._latest is None and self._pending is not None:
            # A file with one reading.
            only, self._pending = self._pending, None
            self._latest = only.at
            self._receive_by_readings(only, self.now())
        if complete and self._until is not None:
            self._close(self._until + self.terms.grace_ns)
        self.tick(self.now())
        self._save_checkpoint(self.now())

    def _pause_s(self, now: int) -> float:
        """Time until something is due [s], at most one second."""
        if self._by_readings:
            return 0.2
        with self._lock:
            due = [self._buffer.closes_at(), self.state.next_due(now)]
        waits = [(moment - now) / SECOND for moment in due if moment is not None]
        return min(1.0, max(0.0, min(waits, default=1.0)))

    def stop(self) -> None:
        """End `run` soon; it can be called from a signal handler."""
        self._stopped = True
        self._wake.set()
