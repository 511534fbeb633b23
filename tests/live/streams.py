"""Streams that the tests of the live package share."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

import hushmeter as hm
from hushmeter.clock import SECOND
from hushmeter.live.calendar import CalendarTerms, common_month
from hushmeter.live.payloads import PayloadOptions, make_parser
from hushmeter.live.service import Service
from hushmeter.live.sinks import Sink
from hushmeter.live.sources import LineSource, Source
from hushmeter.live.state import Item, State
from hushmeter.live.stream import SeriesTerms, Terms
from hushmeter.privacy.units import calibrate, resolve_unit
from hushmeter.releases.view_plan import plan_views
from hushmeter.write import write_meter

KETTLE = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)], tolerance=20.0)
KEY = bytes(range(32))
BEGIN = 1_709_251_200 * SECOND  # 2024-03-01T00:00:00Z
HOUR = 3600 * SECOND


def make_terms(interval_s: float = 60.0, every: str = "1h", **more: object) -> Terms:
    """Terms that protect one run of a kettle with ε = 1."""
    unit = resolve_unit("appliance", "run", interval_s=interval_s, home=KETTLE, every=every)
    noise = calibrate(str(more.pop("mechanism", "laplace")), 1.0, unit)
    given: dict[str, object] = {"grace_s": 0.0, "home": KETTLE, **more}
    return SeriesTerms("home", unit, noise, **given)  # type: ignore[arg-type]


def make_calendar_terms(interval_s: float = 900.0, every: str = "1h", **more: object) -> Terms:
    """Terms of a calendar that protects one run of a kettle with ε = 1."""
    unit = resolve_unit("appliance", "run", interval_s=interval_s, home=KETTLE, every=every)
    zone = str(more.get("zone", "UTC"))
    plan = plan_views(unit, common_month(interval_s, unit.window * interval_s, zone), epsilon=1.0)
    given: dict[str, object] = {"grace_s": 0.0, "home": KETTLE, **more}
    return CalendarTerms("home", unit, plan, **given)  # type: ignore[arg-type]


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


class Witness(Sink):
    """A sink that keeps every message in memory, in the order of publication."""

    def __init__(self) -> None:
        super().__init__("witness")
        self.items: list[Item] = []

    def publish(self, item: Item) -> None:
        self.items.append(item)

    def wait_for(self, count: int, seconds: float = 60.0) -> None:
        """Wait until there are a number of messages."""
        until = time.monotonic() + seconds
        while len(self.items) < count:
            assert time.monotonic() < until, f"{len(self.items)} of {count} messages"
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
            LineSource(table, follow=False),
            make_parser("csv", PayloadOptions()),
            [sink(kept) if callable(sink) else sink for sink in sinks],
            by_readings=True,
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

    def __init__(self, terms: Terms, path: Path, kind: str = "number", **more: object) -> None:
        self.now, self.log, self.witness = BEGIN, [], Witness()
        self.published: list[int] = []
        self.state = State(path, terms.describe())
        self.service = Service(
            terms,
            self.state,
            NoSource(),
            make_parser(kind, PayloadOptions()),
            [self.witness],
            log=self.log.append,
            clock=lambda: self.now,
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
        hidden = ("watts", "kwh", "noisy_steps")
        return [
            (
                item.kind,
                item.label,
                item.due,
                at,
                *(
                    (name, value is None if name in hidden else value)
                    for name, value in item.message.items()
                ),
            )
            for item, at in zip(self.witness.items, self.published, strict=True)
        ]
