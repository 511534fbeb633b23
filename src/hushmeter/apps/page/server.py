"""The state of one running app: its limits, its worker processes, and the data it holds.

The traces and homes that a server holds in memory are bounded in number, bytes and time, and their
identifiers cannot be guessed.

*Numbers.* The page sends a home with every request, and whoever edits an appliance there sends its
other numbers back as they were. The server, and never the page, decides where each number comes
from. It holds the homes that it learnt or read. A number that was learnt in one of them stays
learnt, whatever the request claims: it is rounded up to a public step, and a release with it needs
consent.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import os
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hushmeter import synth
from hushmeter.appliance import NUMBERS, SOURCES, Appliance, catalogue, round_up_to_public_step
from hushmeter.apps.page import schemas
from hushmeter.apps.page.schemas import ApplianceModel, HomeModel, PromiseRequest
from hushmeter.apps.page.workers import BusyError, Held, WorkerPool
from hushmeter.errors import DataError, HushmeterError, InputError, UnknownNameError
from hushmeter.home import Home
from hushmeter.learn.inspection import Inspection
from hushmeter.privacy.units import metered
from hushmeter.read.recording import Recording

if TYPE_CHECKING:
    from hushmeter.releases.promise import Promise
    from hushmeter.releases.request import Request
    from hushmeter.trace import Trace

MEGABYTE = 1 << 20
LOOPBACK = ("127.0.0.1", "localhost", "::1")
LONGEST_PAUSE_S = 60.0
"""Longest time between two searches for idle traces [s]."""
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
MOST_MADE = 32
"""Largest number of promises and fitted attackers that are kept for one trace."""
SAME = 1e-5
"""Relative difference up to which a number counts as the learnt one; the page shows six digits."""
MEASURES = {
    "power": "W",
    "levels": "W",
    "high": "W",
    "max_power": "W",
    "run_s": "s",
    "run_high_s": "s",
    "use_s_per_day": "s",
    "energy_wh": "Wh",
    "runs_per_day": "per day",
}
TRAINED_ON = "three other days of the same home, sub-metered and without noise"

Answer = TypeVar("Answer")
Given = TypeVar("Given", bound=schemas.WithHome)
Made = TypeVar("Made")
Value = TypeVar("Value")


class UnknownTraceError(HushmeterError):
    """The server does not hold the requested trace."""

    def __init__(self) -> None:
        super().__init__(
            "this server does not hold the trace, or no longer holds it: load the file again."
        )


@dataclass(frozen=True)
class Settings:
    """The limits of a server. Each of them bounds its memory or its time."""

    hosts: tuple[str, ...] = LOOPBACK  # Names by which the server may be addressed
    # Every request that is not for a file of the page must send it as `Authorization: Bearer
    # TOKEN`, because every user of a computer can reach its loopback address.
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    upload_bytes: int = 50 * MEGABYTE  # Largest uploaded file [bytes]
    unpacked_bytes: int = 200 * MEGABYTE  # Largest uploaded file after decompression [bytes]
    body_bytes: int = MEGABYTE  # Largest JSON body [bytes]
    readings: int = 2_000_000  # Largest number of readings in a file
    values: int = 20_000_000  # Largest number of values in a file: readings times columns
    view_readings: int = 30_000  # Largest number of readings that one view attacks
    appliances: int = 40  # Largest number of appliances in a home
    # Largest number of traces in memory. The least recently used one is removed first
    sessions: int = 256
    session_bytes: int = 512 * MEGABYTE  # Memory for all traces together [bytes]
    idle_s: float = 3600.0  # A trace that nobody requested for this time is removed [s]
    # Number of processes that compute
    workers: int = field(default_factory=lambda: max(3, min(4, os.cpu_count() or 3)))
    # Memory of one of these processes; a process that exceeds it is ended [bytes]
    worker_bytes: int = 1024 * MEGABYTE
    uploads: int = 8  # Largest number of files that are uploaded at the same time
    waiting: int = 256  # Largest number of requests that compute or wait for a process
    connections: int = 512  # Largest number of connections; more of them get the answer 503
    request_s: float = 30.0  # Time limit of a request and of receiving its body [s]
    # Time limit of a release [s]. It is longer, because a receipt composes the ε of whole days
    release_s: float = 120.0

    @property
    def is_local(self) -> bool:
        """True if only this computer can reach the server."""
        return all(map(is_loopback, self.hosts))


def is_loopback(host: str) -> bool:
    """Return True if only this computer can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, eq=False)
class Session(Held):
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
    # Equal only for sessions with equal data, such as the same example
    source: str = field(default_factory=lambda: secrets.token_hex(16))
    # What was found for the readings before, such as promises and fitted attackers
    made: OrderedDict[Hashable, Any] = field(default_factory=OrderedDict, repr=False)

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """Return what belongs to a key; it is made if it was not needed before."""
        if key not in self.made:
            self.made[key] = make()
        self.made.move_to_end(key)
        if len(self.made) > MOST_MADE:
            self.made.popitem(last=False)
        made: Made = self.made[key]
        return made

    def promise(self, request: Request, zone: str | None = None) -> Promise:
        """Return the promise of a request for the readings; no reading has entered it."""
        here = self.zone_or(zone)
        return self.once((request, here), lambda: request.resolve(metered(self.trace, here)))

    def zone_or(self, zone: str | None) -> str:
        """Return a time zone that was asked for, or that of the home."""
        return zone or self.zone or "UTC"

    @property
    def bytes(self) -> int:
        """Memory of the trace [bytes]."""
        parts = [self.trace.readings, self.trace.states, self.trace.power, self.trace.steps]
        if self.metered is not None:
            parts += [self.metered.readings, self.metered.steps]
        # The recording may hold its own copy of everything.
        return 2 * sum(part.nbytes for part in parts if part is not None)


class LeastRecent(Generic[Value]):
    """Values by an identifier, bounded in number, bytes and time.

    The least recently used goes first. `size` tells the bytes of a value, and `forgotten` gets the
    removed ones.
    """

    def __init__(
        self,
        most: int,
        idle_s: float,
        *,
        most_bytes: float = math.inf,
        size: Callable[[Value], int] = lambda _: 0,
        forgotten: Callable[[Value], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most, self._idle_s, self._most_bytes = most, idle_s, most_bytes
        self._size, self._forgotten, self._clock = size, forgotten, clock
        self._held: OrderedDict[str, tuple[Value, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def bytes(self) -> int:
        """Memory of all values together [bytes]."""
        return sum(self._size(value) for value, _ in self._held.values())

    def add(self, value: Value) -> str:
        """Hold a value; return its identifier of 192 random bits."""
        if self._size(value) > self._most_bytes:
            raise DataError("this trace is larger than the server's memory for traces.")
        key = secrets.token_urlsafe(24)
        self.put(key, value)
        return key

    def put(self, key: str, value: Value) -> None:
        """Hold a value as the most recently used one."""
        self._held[key] = (value, self._clock())
        self._held.move_to_end(key)
        self.forget_idle()

    def find(self, key: str | None) -> Value | None:
        """Return a value and mark it as the most recently used; None if it is not held."""
        self.forget_idle()
        if key is None or key not in self._held:
            return None
        value, _ = self._held[key]
        self.put(key, value)
        return value

    def get(self, key: str) -> Value:
        """Do what `find` does, but raise `UnknownTraceError` if the value is not held."""
        value = self.find(key)
        if value is None:
            raise UnknownTraceError
        return value

    def remove(self, key: str) -> None:
        """Remove a value by its identifier; raise `UnknownTraceError` if there is none."""
        if key not in self._held:
            raise UnknownTraceError
        value, _ = self._held.pop(key)
        self._forgotten(value)

    def forget_idle(self) -> None:
        """Remove the values that nobody used for `idle_s` seconds, and those that are too many."""
        oldest = self._clock() - self._idle_s
        while self._held:
            key, (_, used) = next(iter(self._held.items()))
            fits = len(self._held) <= self._most and self.bytes <= self._most_bytes
            if used >= oldest and fits:
                return
            self.remove(key)


class Server:
    """The memory of one app and its processes."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.sessions = LeastRecent[Session](
            settings.sessions,
            settings.idle_s,
            most_bytes=settings.session_bytes,
            size=attrgetter("bytes"),
            forgotten=self._forget,
        )
        self.homes = LeastRecent[Home](settings.sessions, settings.idle_s)
        self.workers = WorkerPool(settings.workers, settings.waiting, settings.worker_bytes)
        self._examples: dict[str, Session] = {}
        self._uploads = 0

    async def compute(
        self, function: Callable[..., Answer], *given: Any, long: bool = False
    ) -> Answer:
        """Return the result of a function, computed in a process within the time of a request."""
        return await self.workers.run(self.settings.request_s, function, *given, long=long)

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

    def hold_home(self, home: Home, key: str) -> HomeModel:
        """Hold a home, so that later its numbers are known again, and return it as JSON."""
        self.homes.put(key, home)
        return schemas.to_model(home, key)

    def settle(self, request: Given) -> tuple[Given, Session | None]:
        """Return a request with the sources of the numbers of its home as the server knows them.

        The session of its trace comes with it.
        """
        model, trace = request.home, request.trace
        session = None if trace is None else self.sessions.get(trace)
        edited = None if model is None else self.homes.find(model.id)
        held = (None if session is None else session.home, self.homes.find(trace), edited)
        known = list({id(home): home for home in held if home is not None}.values())
        if isinstance(request, PromiseRequest):
            refuse_learnt_watts(request, known)
        if model is None:
            return request, session
        settled = settle_origins(model, known, is_complete=edited is not None)
        return request.model_copy(update={"home": settled}), session

    def _forget(self, session: Session) -> None:
        """Remove what attackers learnt from a removed trace; examples are nobody's data."""
        if session.training is None:
            self.workers.forget(session.source)


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


class Numbers:
    """All numbers of some homes, by source and measure, with what they are rounded to."""

    def __init__(self, homes: Sequence[Home]) -> None:
        self._found: dict[tuple[str, str], list[tuple[str, float, float]]] = {}
        for appliance in (one for home in homes for one in home.appliances):
            for name in NUMBERS:
                place = self._found.setdefault((appliance.source_of(name), MEASURES[name]), [])
                for value in _values(appliance, name):
                    place.append((appliance.name, value, round_up_to_public_step(value)))

    def has(self, source: str, name: str, field: str, value: float) -> bool:
        """Return True if a number is, or follows by rounding from, a number of the source.

        The rounded number is compared under the same name alone: it is one of a few, and somebody
        may enter it for another appliance.
        """
        return any(
            _is_same(value, number) or (member == name and _is_same(value, rounded))
            for member, number, rounded in self._found.get((source, MEASURES[field]), ())
        )


def settle_origins(model: HomeModel, known: Sequence[Home], *, is_complete: bool) -> HomeModel:
    """Return a home of a request with the source of every number as the server knows it.

    The home of the readings to be released is the first of `known`. Unless one of them is the home
    that was edited (`is_complete`), an appliance that is claimed to be learnt counts as learnt as a
    whole.
    """
    numbers = Numbers(known)
    claimed = None if is_complete else model.learnt_from
    tolerance_of = [
        home
        for home in known
        if home.is_tolerance_learnt and _is_same(model.tolerance, home.tolerance)
    ]
    origins = [home for home in known if _shares_learnt_number(model, home)]
    found = [home.learnt_from for home in (*origins, *tolerance_of) if home.learnt_from]
    origin = found[0] if found else claimed
    is_typed = origin is not None and claimed is None and not tolerance_of
    return model.model_copy(
        update={
            "appliances": [_settle(one, numbers, is_complete) for one in model.appliances],
            "learnt_from": origin,
            "typed": ("tolerance",) if is_typed else (),
        }
    )


def refuse_learnt_watts(request: PromiseRequest, known: Sequence[Home]) -> None:
    """Raise `InputError` if a change or a clamp is stated with a number that was learnt.

    These numbers are not rounded and need no consent, so they must be somebody's own.
    """
    stated = [abs(value) for value in (request.watts, *(request.clamp or ())) if value]
    numbers = Numbers(known)
    for value in stated:
        if numbers.has("learnt", "", "power", value):
            raise InputError(
                f"{value:g} W was learnt from readings, and ε does not cover what it reveals about "
                "them: enter another number, or protect the appliance itself."
            )


def _settle(model: ApplianceModel, numbers: Numbers, is_complete: bool) -> ApplianceModel:
    """Return an appliance with the source of its numbers, and those with another source."""
    if model.source == "learnt" and not is_complete:
        return model.model_copy(update={"typed": ()})
    typical = Numbers([Home([Appliance.from_words(model.name)])] if model.name in catalogue else [])
    sources = {}
    for number in NUMBERS:
        for value in _values(model, number):
            given = (model.name, number, value)
            if numbers.has("learnt", *given):
                sources[number] = "learnt"
            elif numbers.has("catalogue", *given) or typical.has("catalogue", *given):
                sources.setdefault(number, "catalogue")
            else:
                sources.setdefault(number, "typed")
    source = max(sources.values(), key=SOURCES.index, default="typed")
    others = tuple(number for number, one in sources.items() if one != source)
    return model.model_copy(update={"source": source, "typed": others})


def _shares_learnt_number(model: HomeModel, home: Home) -> bool:
    """Return True if a number of an appliance was learnt in a home."""
    numbers = Numbers([home])
    return any(
        numbers.has("learnt", one.name, field, value)
        for one in model.appliances
        for field in NUMBERS
        for value in _values(one, field)
    )


def _values(one: Appliance | ApplianceModel, field: str) -> tuple[float, ...]:
    """Return the values of a number of an appliance; several for its levels."""
    value = getattr(one, field)
    if isinstance(value, tuple):
        return value
    return () if value is None else (value,)


def _is_same(one: float, other: float) -> bool:
    return abs(one - other) <= SAME * max(abs(one), abs(other))
