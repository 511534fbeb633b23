"""Streams that the tests of the live package share."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

import hushmeter as hm
from hushmeter.apps.live.addresses import LineSource, Sink, Source
from hushmeter.apps.live.payloads import PayloadOptions, make_parser
from hushmeter.apps.live.service import Feed, Service
from hushmeter.apps.live.state import Item, State, SumRow, WindowRow
from hushmeter.apps.live.stream import Terms
from hushmeter.clock import SECOND
from hushmeter.releases.labels import CELLS
from hushmeter.write import write_meter

KETTLE = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)], tolerance=20.0)
KEY = bytes(range(32))
BEGIN = 1_709_251_200 * SECOND  # 2024-03-01T00:00:00Z
HOUR = 3600 * SECOND
LAST_DAY = BEGIN + 30 * 24 * HOUR  # 2024-03-31T00:00:00Z


REQUEST = ("mechanism", "home", "accept_learnt", "clamp", "tables")
"""Options of `make_terms` that belong to the request."""

BANDS = ("views", "typical-week", "peak = weekdays 16:00-21:00", "night = 22:00-06:00")


def make_terms(interval_s: float = 60.0, every: str = "1h", **more: object) -> Terms:
    """Terms that protect one run of a kettle with ε = 1."""
    asked = {"home": KETTLE} | {name: more.pop(name) for name in REQUEST if name in more}
    request = hm.Request(epsilon=1.0, span="run", every=every, **asked)  # type: ignore[arg-type]
    metered = hm.Metered(interval_s, zone=str(more.pop("zone", "UTC")))
    return Terms("home", request.resolve(metered), **{"grace_s": 0.0, **more})  # type: ignore[arg-type]


def make_calendar_terms(interval_s: float = 900.0, every: str = "1h", **more: object) -> Terms:
    """Terms with days, months and the typical day beside the hours, at ε = 1 together."""
    return make_terms(interval_s, every, **{"tables": ("views",), **more})


def make_band_terms(interval_s: float = 900.0, every: str = "1h", **more: object) -> Terms:
    """The same with a typical week and bands of the clock."""
    return make_terms(interval_s, every, **{"tables": BANDS, **more})


def make_trace(
    days: float, interval_s: float = 60.0, seed: int = 1, start: str = "2024-03-01T00:00Z"
) -> hm.Trace:
    """Readings in whole watts."""
    count = round(days * 86_400 / interval_s)
    base = hm.synth.trace(hm.synth.ready_home("evening"), length=count, sparsity=0.99, seed=seed)
    return hm.Trace(np.rint(base.readings), interval_s, start)


def write_table(path: Path, trace: hm.Trace) -> Path:
    """A table of readings that ends one reading after the last window, so that it closes."""
    write_meter(path, trace, force=True)
    after = trace.times[-1] + np.timedelta64(round(trace.interval_s * 1e9), "ns")
    with path.open("a") as file:
        file.write(f"{after.astype('datetime64[s]')}Z,0\n")
    return path


def exact_tables(
    terms: Terms, rows: Sequence[WindowRow], sums: Sequence[SumRow], key: bytes = KEY
) -> list[np.ndarray]:
    """Sums of all tables before the noise, from the kept means; what is published follows."""
    shown = [row for row in rows if row.value is not None]
    promise = terms.promise.on(terms.cells_of(shown))
    steps = terms.exact_steps([row.mean for row in shown])
    tables = [entry.table.sums(steps) for entry in promise.tables]
    known = {(row.table, row.label): row.steps for row in sums}
    for entry, exact in zip(promise.tables, tables, strict=True):
        noisy = promise.add_noise(entry, exact, key)
        if entry.name == CELLS:
            assert noisy.tolist() == [row.steps for row in shown]
        else:
            names = entry.table.names
            assert noisy.tolist() == [known.pop((entry.name, name)) for name in names]
    assert not known
    return tables


class Witness(Sink):
    """A sink that keeps every message in memory, in the order of publication."""

    def __init__(self) -> None:
        super().__init__("witness")
        self.items: list[Item] = []

    def publish(self, item: Item) -> None:
        self.items.append(item)

    def wait_for(self, count: int, seconds: float = 60.0) -> None:
        """Wait until there are a number of messages."""
        self.wait_until(lambda: len(self.items) >= count, seconds)

    def wait_until(self, happened: Callable[[], bool], seconds: float = 60.0) -> None:
        """Wait until something has happened."""
        until = time.monotonic() + seconds
        while not happened():
            assert time.monotonic() < until, f"{len(self.items)} messages so far"
            time.sleep(0.05)

    def messages(self, kind: str) -> list[dict[str, object]]:
        """Messages of one kind."""
        return [dict(item.message) for item in self.items if item.kind == kind]


def run_table(
    table: Path, terms: Terms, state: Path, sinks: list[Sink], **more: object
) -> list[str]:
    """Run a stream over a table to its end, and return the lines of its log."""
    lines: list[str] = []
    with State(state, terms.describe()) as kept:
        service = Service(
            terms,
            kept,
            Feed(LineSource(table, follow=False), make_parser("csv"), by_readings=True),
            [sink(kept) if callable(sink) else sink for sink in sinks],
            log=lines.append,
            **more,  # type: ignore[arg-type]
        )
        service.run()
    return lines


class NoSource(Source):
    """A source that sends nothing by itself."""

    def start(self, receive, lost, back):  # type: ignore[no-untyped-def]
        pass

    def stop(self) -> None:
        pass


class Bench:
    """A service whose clock and messages are those of the test."""

    def __init__(
        self, terms: Terms, path: Path, kind: str = "number", begin: int = BEGIN, **more: object
    ) -> None:
        self.now, self.log, self.witness = begin, [], Witness()
        self.published: list[int] = []
        self.state = State(path, terms.describe())
        self.service = Service(
            terms,
            self.state,
            Feed(NoSource(), make_parser(kind, PayloadOptions()), clock=lambda: self.now),
            [self.witness],
            log=self.log.append,
            **more,  # type: ignore[arg-type]
        )
        # The machine itself does not wait, so its own clock must not be compared.
        self.service._check_clock = lambda now: None  # type: ignore[method-assign]

    def send(self, moment: int, payload: bytes) -> None:
        """Let a message come at a time."""
        self.now = moment
        self.service.receive("t", payload)
        self._look()

    def tick(self, moment: int) -> None:
        """Let the service do what is due at a time."""
        self.now = moment
        self.service.tick(moment)
        self._look()

    def _look(self) -> None:
        """Remember when every message was published."""
        self.published += [self.now] * (len(self.witness.items) - len(self.published))

    def public(self) -> list[tuple[object, ...]]:
        """Everything that the world sees, without the protected values."""
        return [
            (item.kind, item.label, item.due, at, *_without_values(item.message).items())
            for item, at in zip(self.witness.items, self.published, strict=True)
        ]


def _without_values(message: Mapping[str, object]) -> dict[str, object]:
    """A message in which protected values only say whether they are there."""
    hidden = ("watts", "kwh", "noisy_steps")
    return {
        name: [_without_values(row) for row in value]
        if isinstance(value, list)
        else (value is None if name in hidden else value)
        for name, value in message.items()
    }
