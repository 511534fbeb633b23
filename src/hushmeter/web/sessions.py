"""The traces that a server holds in memory: uploaded files and synthetic examples.

They are bounded in number, bytes and time, and their identifiers cannot be guessed.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hushmeter import synth
from hushmeter.errors import DataError, HushmeterError, UnknownNameError
from hushmeter.home import Home
from hushmeter.learn.inspection import Inspection
from hushmeter.privacy.meters import metered
from hushmeter.read.recording import Recording

if TYPE_CHECKING:
    from hushmeter.releases.promise import Promise
    from hushmeter.releases.request import Request
    from hushmeter.trace import Trace

EXAMPLES = {
    "household": "Four weeks of a simulated household: one meter, one reading a minute",
    "evening": "A home in the evening: eight appliances, from lamps to a car charger",
    "redd-like": "A home like building 1 of REDD: eight appliances, some with several levels",
}
READINGS_PER_DAY = 14_400
# Four hours from 17:00 UTC. With these seeds nearly all appliances switch in them.
EXAMPLE_START, EXAMPLE_LENGTH = 10_200, 2_400
HOUSEHOLD_SEED, HOUSEHOLD_DAYS = 2, 28
SEEDS = {"evening": 308, "redd-like": 254}
TRAINING_DAYS, TRAINING_SEED_STEP = 3, 1000
MOST_PROMISES = 64
"""Largest number of promises that are kept for one trace."""
TRAINED_ON = "three other days of the same home, sub-metered and without noise"


class UnknownTraceError(HushmeterError):
    """The server does not hold the requested trace."""

    def __init__(self) -> None:
        super().__init__(
            "this server does not hold the trace, or no longer holds it: load the file again."
        )


@dataclass(frozen=True, eq=False)
class Session:
    """One trace and what is known about it."""

    name: str  # Name of the file or of the example
    found: Inspection  # What the inspection of the file found
    # The readings, with the true states where they are known. Times without a value of a circuit
    # are not in it.
    trace: Trace
    home: Home | None = None  # The home that the file or the example describes
    # Other readings of the same home with their truth, if the server has some
    training: Trace | None = None
    trained_on: str | None = None  # What `training` is, in words
    zone: str | None = None  # Time zone of the home, where it is known
    # The readings of the meter alone, where the file has circuits: only they may be released
    metered: Trace | None = None
    # Equal only for sessions with equal data, such as the same example. Fitted attackers are stored
    # under it.
    source: str = field(default_factory=lambda: secrets.token_hex(16))
    # The promises that were found for the readings, by request and time zone
    promises: dict[tuple[Request, str], Promise] = field(default_factory=dict, repr=False)

    def promise(self, request: Request, zone: str | None = None) -> Promise:
        """Return the promise of a request for the readings; no reading has entered it."""
        key = (request, self.zone_or(zone))
        if key not in self.promises:
            if len(self.promises) >= MOST_PROMISES:
                self.promises.clear()
            self.promises[key] = request.resolve(metered(self.trace, key[1]))
        return self.promises[key]

    def zone_or(self, zone: str | None) -> str:
        """Return a time zone that was asked for, or that of the home."""
        return zone or self.zone or "UTC"

    @property
    def bytes(self) -> int:
        """Memory of the trace. [bytes]"""
        parts = [self.trace.readings, self.trace.states, self.trace.power, self.trace.steps]
        if self.metered is not None:
            parts += [self.metered.readings, self.metered.steps]
        # The recording may hold its own copy of everything.
        return 2 * sum(part.nbytes for part in parts if part is not None)


class Sessions:
    """The traces that a server holds. The least recently used one is removed first."""

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
        """Memory of all traces together. [bytes]"""
        return sum(session.bytes for session, _ in self._held.values())

    def add(self, session: Session) -> str:
        """Store a trace and return its identifier, which has 192 random bits."""
        if session.bytes > self._most_bytes:
            raise DataError("this trace is larger than the server's memory for traces.")
        key = secrets.token_urlsafe(24)
        with self._lock:
            self._held[key] = (session, self._clock())
            self._forget()
        return key

    def get(self, key: str) -> Session:
        """Return a trace by its identifier and mark it as the most recently used."""
        with self._lock:
            self._forget()
            if key not in self._held:
                raise UnknownTraceError
            session = self._held[key][0]
            self._held[key] = (session, self._clock())
            self._held.move_to_end(key)
            return session

    def remove(self, key: str) -> None:
        """Remove a trace by its identifier; raise `UnknownTraceError` if there is none."""
        with self._lock:
            held = self._held.pop(key, None)
        if held is None:
            raise UnknownTraceError
        self._forgotten(held[0])

    def forget_idle(self) -> None:
        """Remove the traces that nobody requested for `idle_s` seconds."""
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        """Remove idle traces, and then the least recently used ones until the rest fits."""
        oldest = self._clock() - self._idle_s
        while self._held:
            _, used = next(iter(self._held.values()))
            fits = len(self._held) <= self._most and self.bytes <= self._most_bytes
            if fits and used >= oldest:
                return
            _, (session, _) = self._held.popitem(last=False)
            self._forgotten(session)


def make_example(name: str) -> Session:
    """Make an example: a household with one meter, or four hours of a home with its truth.

    The home with its truth comes with other days to learn from.
    """
    if name not in EXAMPLES:
        raise UnknownNameError("example", name, EXAMPLES)
    if name == "household":
        return _make_household()
    home, seed = _from_catalogue(synth.ready_home(name)), SEEDS[name]
    day = synth.trace(home, READINGS_PER_DAY, seed=seed)
    trace = day[EXAMPLE_START : EXAMPLE_START + EXAMPLE_LENGTH]
    other_days = synth.trace(home, TRAINING_DAYS * READINGS_PER_DAY, seed=seed + TRAINING_SEED_STEP)
    return Session(
        name=name,
        found=inspect_example(trace),
        trace=trace,
        home=home,
        training=other_days,
        trained_on=TRAINED_ON,
        zone="UTC",
        source=f"example {name}",
    )


def _make_household() -> Session:
    """Return four weeks of a household of which nothing but the meter is known."""
    made = synth.household(HOUSEHOLD_DAYS, interval_s=60.0, seed=HOUSEHOLD_SEED)
    found = inspect_example(made.trace)
    return Session("household", found, made.trace, zone=made.zone, source="example household")


def _from_catalogue(home: Home) -> Home:
    """Return a ready home whose numbers are marked as typical ones that anybody can look up."""
    members = [replace(appliance, source="catalogue") for appliance in home.appliances]
    return Home(members, home.tolerance, home.base_load, home.name)


def inspect_example(trace: Trace) -> Inspection:
    """Return an inspection as if the example had been read from a file."""
    recording = Recording.of_trace(trace, "synthetic example", clock_changes="times are UTC")
    return Inspection(recording, None, ())
