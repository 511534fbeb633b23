"""A stream against paho-mqtt's own callback loop, with a real mosquitto on loopback."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.harness import Row

MESSAGES = 40_000
PUBLISHER = """
import json, sys
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion
port, count = int(sys.argv[1]), int(sys.argv[2])
client = Client(CallbackAPIVersion.VERSION2)
client.connect("127.0.0.1", port)
client.loop_start()
for n in range(count):
    info = client.publish("meter", json.dumps({"time": 1709251200 + n, "watts": 200 + n % 977}))
    if n % 500 == 499:
        info.wait_for_publish(30)
client.publish("end", "", qos=1).wait_for_publish(30)
client.disconnect()
"""


def rows() -> Iterator[Row]:
    """CPU time of one message in a stream and in an empty callback."""
    broker = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
    if broker is None:
        return
    with tempfile.TemporaryDirectory() as folder, running(broker, Path(folder)) as port:
        empty = min(consume(port, lambda _topic, _payload: None) for _ in range(2))
        ours = min(stream(port, Path(folder) / f"{turn}.db") for turn in range(2))
    note = f"{MESSAGES / ours:,.0f} messages/s of one core, {MESSAGES / empty:,.0f} there"
    yield Row(
        "live, JSON messages: CPU time", ours / empty, "paho's callback loop", 4.0, note,
        True,
    )  # fmt: skip
    yield Row("live: messages per second", MESSAGES / ours / 1e4, "10,000 messages/s", 1.0)


def stream(port: int, state: Path) -> float:
    """CPU time of a stream that takes all messages [s]."""
    import hushmeter as hm
    from hushmeter.apps.live.addresses import LineSource
    from hushmeter.apps.live.payloads import make_parser
    from hushmeter.apps.live.service import Feed, Service
    from hushmeter.apps.live.state import State
    from hushmeter.apps.live.stream import Terms

    home = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)])
    request = hm.Request(epsilon=1.0, span="run", every="1h", home=home)
    terms = Terms("home", request.resolve(hm.Metered(1.0)), grace_s=0.0)
    table = state.with_suffix(".csv")
    table.touch()
    with State(state, terms.describe()) as kept:
        feed = Feed(LineSource(table, follow=False), make_parser("json:watts"), by_readings=True)
        service = Service(terms, kept, feed, [])
        taken = consume(port, service.receive)
        assert len(kept.windows(0, 1 << 40)) == MESSAGES // 3600
    return taken


def consume(port: int, receive: Callable[[str, bytes], None]) -> float:
    """CPU time of this process until a callback has all messages [s]."""
    from paho.mqtt.client import Client
    from paho.mqtt.enums import CallbackAPIVersion

    done, ready = threading.Event(), threading.Event()
    client = Client(CallbackAPIVersion.VERSION2)

    def take(_client: object, _data: object, message: object) -> None:
        if message.topic == "end":  # type: ignore[attr-defined]
            done.set()
        else:
            receive(message.topic, message.payload)  # type: ignore[attr-defined]

    client.on_message = take
    client.on_subscribe = lambda *_: ready.set()
    client.connect("127.0.0.1", port)
    client.subscribe([("meter", 0), ("end", 1)])
    client.loop_start()
    ready.wait(10)
    begin = time.process_time()
    subprocess.run([sys.executable, "-c", PUBLISHER, str(port), str(MESSAGES)], check=True)
    done.wait(120)
    taken = time.process_time() - begin
    client.disconnect()
    client.loop_stop()
    return taken


@contextmanager
def running(program: str, folder: Path) -> Iterator[int]:
    """Run a broker on a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    config = folder / "mosquitto.conf"
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n")
    folder.chmod(0o755)
    process = subprocess.Popen([program, "-c", str(config)], stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield port
    finally:
        process.kill()
        process.wait()
