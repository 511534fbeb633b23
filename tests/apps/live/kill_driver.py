"""Kill a stream and its broker again and again, then count what the world has seen.

Usage: kill_driver.py FOLDER KILLS DAYS VICTIMS TERMS. VICTIMS is "process", or "mixed" for the
process, the broker, or both at the same moment, chosen at random. TERMS is "series" or "bands". A
child process is killed after a random time or at a random step (before or after a commit, a
payment, a published message). The broker is started again after a random time. After KILLS kills
the last child runs to the end. test_state.py runs this.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from hushmeter.apps.ledger import DayChange, open_ledger
from hushmeter.apps.live import delivery as delivery_module
from hushmeter.apps.live import mqtt as mqtt_module
from hushmeter.apps.live import service as service_module
from hushmeter.apps.live import state as state_module
from hushmeter.apps.live.addresses import FolderSink, LineSource, Sink
from hushmeter.apps.live.delivery import LedgerAccount
from hushmeter.apps.live.mqtt import MqttSink, parse_mqtt
from hushmeter.apps.live.payloads import make_parser
from hushmeter.apps.live.service import Feed, Service
from hushmeter.apps.live.state import Item, State, WindowRow
from hushmeter.apps.live.stream import Terms
from tests.apps.live.broker import Broker
from tests.apps.live.streams import (
    make_band_terms,
    make_terms,
    make_trace,
    write_table,
)


class World(Sink):
    """Everything that was ever published, one line each, on the disk."""

    def __init__(self, path: Path) -> None:
        super().__init__("world")
        self._path = path

    def publish(self, item: Item) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps([item.kind, item.label, dict(item.message)]) + "\n")
            file.flush()
            os.fsync(file.fileno())


def die_at(step: int) -> None:
    """Make this process kill itself at a step: before or after a call of the functions below."""
    left = [step]

    def count() -> None:
        left[0] -= 1
        if left[0] <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def wrap(owner: Any, name: str) -> None:
        inner = getattr(owner, name)

        def outer(*args: Any, **more: Any) -> Any:
            count()
            result = inner(*args, **more)
            count()
            return result

        setattr(owner, name, outer)

    wrap(state_module.State, "commit")
    wrap(state_module.State, "mark_delivered")
    wrap(state_module.State, "record_payment")
    wrap(state_module.State, "forget")
    wrap(service_module.Service, "_commit")
    wrap(World, "publish")
    wrap(FolderSink, "publish")
    wrap(FolderSink, "_write")


SUBSCRIBER = """
import sys
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion
file = open(sys.argv[2], "ab", buffering=0)
client = Client(CallbackAPIVersion.VERSION2)
client.reconnect_delay_set(0.05, 0.05)
client.on_connect = lambda client, *_: client.subscribe("hushmeter/#", qos=1)
client.on_message = lambda client, data, m: file.write(m.topic.encode() + b" " + m.payload + b"\\n")
client.connect_async("127.0.0.1", int(sys.argv[1]))
client.loop_forever(retry_first_connection=True)
"""


class Bench:
    """The stream, its broker and a receiver."""

    def __init__(self, folder: Path, victims: str, kind: str) -> None:
        self.folder, self.kind = folder, kind
        makers = {"series": make_terms, "bands": make_band_terms}
        self.terms = makers[kind](interval_s=600.0)
        self.broker = Broker(folder) if victims == "mixed" else None
        self._receiver = None
        if self.broker is not None:
            place = [str(self.broker.port), str(folder / "received.txt")]
            self._receiver = subprocess.Popen([sys.executable, "-c", SUBSCRIBER, *place])
        # Waiting times are short, so that many kills fit into a test.
        delivery_module.RETRY_S, mqtt_module.WAIT_S = 0.05, 0.5
        service_module.RETRY_S = delivery_module.RETRY_S
        mqtt_module.RECONNECT_S, mqtt_module.RETAINED_S = (0.05, 0.05), 0.2

    def run_stream(self) -> None:
        """Run the stream to the end of the table."""
        folder, terms = self.folder, self.terms
        with State(folder / "s.db", terms.describe()) as state:
            account = LedgerAccount(f"sqlite:///{folder}/ledger.db", "m1", "load", terms, state)
            sinks = [World(folder / "world.jsonl"), FolderSink(folder / "out", terms, state)]
            if self.broker is not None:
                place = parse_mqtt(self.broker.url)
                sinks.append(MqttSink(place, terms, state, lambda _: None))
            Service(
                terms,
                state,
                Feed(
                    LineSource(folder / "meter.csv", follow=False),
                    make_parser("csv"),
                    by_readings=True,
                ),
                sinks,
                account=account,
            ).run()

    def spawn(self, rng: random.Random, victim: str | None) -> dict[str, int]:
        """Run a child, kill the victim, and return what was killed."""
        by_step = rng.random() < 0.5 and victim == "process"
        step, wait = rng.randrange(1, 60), rng.uniform(0.005, 0.4)
        child = os.fork()
        if child == 0:
            if by_step:
                die_at(step)
            self.run_stream()
            os._exit(0)
        killed = dict.fromkeys(("process", "broker", "both"), 0)
        if victim is not None and not by_step:
            time.sleep(wait)
            if victim != "process" and self.broker is not None:
                self.broker.kill()
            if victim != "broker":
                os.kill(child, signal.SIGKILL)
            if victim != "process" and self.broker is not None:
                killed["broker"] += 1
                time.sleep(rng.uniform(0.0, 0.2))
                self.broker.start()
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            if killed["broker"]:
                return killed | {"broker": 0, "both": 1}
            killed["process"] += 1
        elif status:
            sys.exit(f"a child failed with status {status}")
        return killed

    def close(self) -> None:
        """Stop the receiver and the broker."""
        if self._receiver is not None and self.broker is not None:
            self._receiver.kill()
            self._receiver.wait()
            self.broker.kill()


def main() -> None:
    """Kill, run to the end, and print the facts."""
    folder, kills, days = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    rng, bench = random.Random(25), Bench(folder, *sys.argv[4:6])
    victims = ["process", "broker", "both"] if bench.broker is not None else ["process"]
    # The last day lacks its last hour, so that its keys are still there.
    trace = make_trace(days - 1 / 24, interval_s=600.0)
    whole = write_table(folder / "whole.csv", trace).read_text().splitlines(keepends=True)
    open_ledger(f"sqlite:///{folder}/ledger.db", create=DayChange(3000, 8000)).close()
    protect(
        bench.terms, WindowRow(0, "1970-01-01", 1.0, 0.0), bytes(32)
    )  # Tables and kernels are made once, before the forks.
    done = dict.fromkeys(("process", "broker", "both"), 0)
    while sum(done.values()) < kills:
        # The table grows, so that the kills are spread over its whole length.
        rows = min(len(whole), round(len(whole) * (sum(done.values()) + 4) / kills))
        (folder / "meter.csv").write_text("".join(whole[:rows]))
        killed = bench.spawn(rng, rng.choice(victims))
        done = {victim: done[victim] + killed[victim] for victim in done}
    (folder / "meter.csv").write_text("".join(whole))
    # The broker may have refused the last messages, so a second child sends what is left.
    for _ in range(2):
        bench.spawn(rng, None)
    found = facts(bench, trace) | {"kills": done}
    if bench.broker is not None:
        found |= facts_of_broker(bench)
    bench.close()
    print(json.dumps(found))  # noqa: T201


def protect(terms: Terms, row: WindowRow, key: bytes) -> float:
    """Return the value of a complete window that follows from its mean, its start and a key."""
    noise, grid = terms.promise.noise, terms.promise.grid
    steps = np.floor(np.array([row.mean]) / float(grid) + 0.5)
    start = (row.number * terms.window_ns).to_bytes(16, "big")
    label = np.frombuffer(start, dtype=np.uint8).reshape(1, 16)
    own = terms.promise._table_key(key, "cells")
    (drawn,) = noise.sample_for(label, steps.astype(np.int64), key=own)
    return float((steps[0] + drawn) * grid.numerator / grid.denominator)


def again(terms: Terms, state: State, row: WindowRow) -> float | None:
    """Return the value that follows from the mean and the start of a window and its key."""
    if row.mean is None:
        return None

    def lost() -> bytes:
        raise AssertionError("the key of a committed window is lost")

    return protect(terms, row, state.key_of(terms.period_of(row.day), lost))


def facts_of_broker(bench: Bench) -> dict[str, Any]:
    """Compare what the receiver got with what was committed."""
    world = seen_by_world(bench.folder)
    wrong, received = 0, set()
    for line in (bench.folder / "received.txt").read_text().splitlines():
        topic, _, text = line.partition(" ")
        kind = topic.rpartition("/")[2]
        if kind not in ("window", "day", "month"):
            continue
        message = json.loads(text)
        label = message["start"] if kind == "window" else message[kind]
        received.add((kind, label))
        wrong += world.get((kind, label)) != {json.dumps(message, sort_keys=True)}
    assert bench.broker is not None
    name = f"{bench.broker.url}/"
    with State(bench.folder / "s.db", bench.terms.describe()) as state:
        waiting = len(state.undelivered(name, 1 << 62))
    return {"received": len(received), "received_wrong": wrong, "waiting_for_broker": waiting}


def seen_by_world(folder: Path) -> dict[tuple[str, str], set[str]]:
    """All texts that were published for every kind and label."""
    seen: dict[tuple[str, str], set[str]] = {}
    for line in (folder / "world.jsonl").read_text().splitlines():
        kind, label, message = json.loads(line)
        seen.setdefault((kind, label), set()).add(json.dumps(message, sort_keys=True))
    return seen


def facts(bench: Bench, trace: Any) -> dict[str, Any]:
    """Count what the world, the state and the ledger know."""
    folder, terms = bench.folder, bench.terms
    seen = seen_by_world(folder)
    windows = sorted(label for kind, label in seen if kind == "window")
    span = np.datetime64(windows[-1].rstrip("Z")) - np.datetime64(windows[0].rstrip("Z"))
    with open_ledger(f"sqlite:///{folder}/ledger.db") as ledger:
        paid = {row["period"] for row in ledger.rows()}
    with State(folder / "s.db", terms.describe()) as state:
        rows = state.windows(0, 1 << 40)
        checked = [row.value == again(terms, state, row) for row in rows if row.day == rows[-1].day]
    hourly = trace.coarsen(3600.0)
    truth = dict(zip(hourly.times.astype("int64") // 3600 // 10**9, hourly.readings, strict=True))
    wrong = {row.day for row in rows if row.mean is not None and row.mean != truth[row.number]}
    return {
        "windows": len(windows),
        "days": sum(kind == "day" for kind, _ in seen),
        "months": sum(kind == "month" for kind, _ in seen),
        "first_to_last": int(span / np.timedelta64(1, "h")) + 1,
        "windows_with_two_values": sum(len(texts) > 1 for texts in seen.values()),
        "unpaid_days": sorted({label[:10] for label in windows} - paid),
        "days_with_other_readings": sorted(wrong),
        "checked_values": len(checked),
        "values_with_other_noise": checked.count(False),
    }


if __name__ == "__main__":
    main()
