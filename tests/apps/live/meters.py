"""Meters and bridges as they would have sent a load with and without one run of a kettle.

A meter turns a load, one value a second, into events: messages, and the loss and the return of its
connection. What happens to the connection, and when a meter that sends at fixed times sends, is the
same for every load; the random numbers for it are drawn before the load is looked at.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hushmeter.clock import SECOND
from tests.apps.live.streams import HOUR, LAST_DAY
from tests.apps.live.test_payloads import with_checksum

HOURS = 2
BEGIN = LAST_DAY + (24 - HOURS) * HOUR
"""The streams end with a day and a month, so that all of their tables are published."""

RUN_S, RUN_W = 150, 2100
Event = tuple[float, str, bytes]
"""Time since the begin [s], "message", "lost" or "back", and the payload."""


def neighbouring_loads(
    rng: np.random.Generator, lost: Sequence[tuple[float, float]] = (), longest: int = RUN_S
) -> tuple[np.ndarray, np.ndarray]:
    """Two loads of whole watts that differ by one run.

    The run is often beside an end of a window, or beside the loss or the return of a connection.
    """
    seconds = np.arange(HOURS * 3600)
    changes = np.sort(rng.choice(seconds, rng.choice([2, 5, 60]), replace=False))
    levels = rng.integers(0, 2500, changes.size + 1)
    base = levels[np.searchsorted(changes, seconds, side="right")]
    ends = [*(900 * np.arange(1, 8)), *np.ravel(lost), *np.ravel(lost)]
    begin = int(rng.choice(ends) + rng.integers(-RUN_S, 300))
    if rng.random() < 0.25:
        begin = int(rng.integers(0, seconds.size - RUN_S))
    begin = min(begin, seconds.size - RUN_S)
    more = base.copy()
    length = longest if rng.random() < 0.7 else int(rng.integers(1, longest + 1))
    more[begin : begin + length] += RUN_W
    return base, more


def outages(rng: np.random.Generator) -> list[tuple[float, float]]:
    """Times without a connection."""
    starts = np.sort(rng.uniform(60, HOURS * 3600 - 900, rng.integers(0, 3)))
    return [(float(a), float(a + rng.uniform(1, 800))) for a in starts]


@dataclass
class ChangesMeter:
    """A sensor that looks at fixed times and sends only changes.

    `after` says what comes when the connection is back: the broker's "retained" value, a "word"
    (the bridge had said that the sensor is unavailable), a "heartbeat", or "nothing".
    """

    after: str
    interval_s: float = 60.0
    heartbeat_s: float = 300.0
    grace_s: float = 10.0
    kind: str = "number"

    def prepare(
        self, rng: np.random.Generator, lost: Sequence[tuple[float, float]]
    ) -> Callable[[np.ndarray], Iterator[Event]]:
        # The sensor looks every few seconds, and a message takes a while.
        look, phase = int(rng.integers(1, 50)), int(rng.integers(0, 10))
        delays = rng.uniform(0, self.interval_s - look, HOURS * 3600) * (rng.random() < 0.5)
        # Messages of one connection keep their order.
        arrivals = np.maximum.accumulate(np.arange(HOURS * 3600) + delays)
        noticed = rng.uniform(0, self.grace_s, len(lost))
        beat = int(rng.integers(0, self.heartbeat_s))
        return lambda load: self._events(load, lost, noticed, (look, phase, beat), arrivals)

    def _events(self, load, lost, noticed, rhythm, arrivals):  # type: ignore[no-untyped-def]
        look, phase, beat = rhythm
        looked = np.arange(phase, load.size, look)
        sent = looked[np.append(True, np.diff(load[looked]) != 0)]
        times = arrivals[sent]
        values = load[sent]
        if self.after == "heartbeat":
            beats = np.arange(beat, load.size, self.heartbeat_s)
            last = np.searchsorted(times, beats, side="right") - 1
            times = np.append(times, beats[last >= 0])
            values = np.append(values, values[last[last >= 0]])
        order = np.argsort(times, kind="stable")
        times, values = times[order], values[order]
        yield 0.0, "back", b""
        for at, watts in zip(times, values, strict=True):
            if not any(a <= at < b for a, b in lost):
                yield float(at), "message", str(watts).encode()
        for (begin, end), late in zip(lost, noticed, strict=True):
            known = np.searchsorted(times, end, side="right") - 1
            value = str(values[max(0, known)]).encode()
            if self.after == "word":
                yield begin + late, "message", b"unavailable"
                yield max(begin + late, end), "message", value
                continue
            yield begin + late, "lost", b""
            yield max(begin + late, end), "back", b""
            if self.after == "retained":
                yield max(begin + late, end) + 0.05, "message", value


@dataclass
class FixedMeter:
    """A meter that sends at fixed times with jitter, losses, doubles and broken messages."""

    kind: str
    payload: Callable[[float, int, float], bytes]
    interval_s: float = 60.0
    heartbeat_s: float = 0.0
    grace_s: float = 10.0

    def prepare(
        self, rng: np.random.Generator, lost: Sequence[tuple[float, float]]
    ) -> Callable[[np.ndarray], Iterator[Event]]:
        count = int(HOURS * 3600 / self.interval_s)
        times = (np.arange(count) + rng.uniform(0, 0.99, count)) * self.interval_s
        times = times[rng.random(count) > 0.02]
        times = np.sort(np.append(times, rng.choice(times, 3) + 0.5))
        times = times[times < HOURS * 3600 - 1]
        torn = rng.random(times.size) < 0.01

        def events(load: np.ndarray) -> Iterator[Event]:
            total = np.cumsum(load) / 3.6e6
            for at, broken in zip(times, torn, strict=True):
                if any(a <= at < b for a, b in lost):
                    continue
                payload = self.payload(float(at), int(load[int(at)]), float(total[int(at)]))
                if broken and self.kind == "dsmr":
                    payload = payload[:-6] + b"0000\r\n"
                yield float(at), "message", payload

        return events


def number(at: float, watts: int, kwh: float) -> bytes:
    """A plain number."""
    return str(watts).encode()


def words(at: float, watts: int, kwh: float) -> bytes:
    """A number, but a word above the range, and nothing readable at zero."""
    return b"overflow" if watts > 3000 else b"-" if watts == 0 else str(watts).encode()


def autoscaled(at: float, watts: int, kwh: float) -> bytes:
    """A JSON document whose unit follows from the value."""
    large = watts >= 1000
    return json.dumps(
        {"power": watts / 1000 if large else watts, "unit": "kW" if large else "W"}
    ).encode()


def tasmota(at: float, watts: int, kwh: float) -> bytes:
    """A register beside the power; it falls to zero when it has reached its end."""
    clock = np.datetime64(BEGIN + int(at) * SECOND, "ns").astype("datetime64[s]")
    return json.dumps(
        {"Time": str(clock), "ENERGY": {"Total": round(kwh % 1.0, 3), "Power": watts}}
    ).encode()


def telegram(at: float, watts: int, kwh: float) -> bytes:
    """A telegram of a meter in winter with its registers."""
    local = np.datetime64(BEGIN + int(at) * SECOND, "ns") + np.timedelta64(1, "h")
    moment = local.astype("datetime64[s]").item()
    return with_checksum(
        "/KFM5KAIFA-METER\r\n\r\n1-3:0.2.8(42)\r\n"
        f"0-0:1.0.0({moment:%y%m%d%H%M%S}W)\r\n1-0:1.8.1({kwh:010.3f}*kWh)\r\n"
        f"1-0:1.7.0({watts / 1000:06.3f}*kW)\r\n1-0:2.7.0(00.000*kW)\r\n!"
    )


METERS: dict[str, ChangesMeter | FixedMeter] = {
    "changes, retained": ChangesMeter("retained"),
    "changes, unavailable": ChangesMeter("word"),
    "changes, heartbeat": ChangesMeter("heartbeat"),
    "changes, silent": ChangesMeter("nothing"),
    "fixed times": FixedMeter("number", number),
    "fixed times, words": FixedMeter("number", words),
    "fixed times, units": FixedMeter("json:power", autoscaled),
    "register beside power": FixedMeter("tasmota", tasmota),
    "P1 telegrams": FixedMeter("dsmr", telegram, interval_s=30.0),
}

BEYOND_THE_DECLARED = ("changes, silent", "fixed times, words")
"""Meters that break what is declared about them; what is public must still be equal."""
