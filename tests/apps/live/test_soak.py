"""The command `live` with a real broker and three bad receivers: no reading or window is lost.

`HUSHMETER_SOAK_S` is how long it runs [s], and `HUSHMETER_SOAK_RATE` how many messages are sent in
a second: as many as the stream takes if it is 0. The test asserts what is lost, never a time. Ten
minutes at 10,000 messages a second, on a quiet machine:

    HUSHMETER_SOAK_S=600 HUSHMETER_SOAK_RATE=10000 pytest -s -m slow tests/apps/live/test_soak.py
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import datetime
from http.server import HTTPServer
from pathlib import Path

import pytest

from tests.apps.live.broker import Broker, needs_broker
from tests.apps.live.test_service import BadReceiver, Redirect

BEGIN = 1_709_251_200  # 2024-03-01T00:00:00Z
PUBLISHER = """
import json, sys, threading, time
from datetime import datetime
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

BEGIN, AHEAD, RATE = int(sys.argv[2]), 4 * 3600, float(sys.argv[3])
free, done = threading.Condition(), [BEGIN]

def take(client, data, message):
    with free:
        done[0] = datetime.fromisoformat(json.loads(message.payload)["end"]).timestamp()
        free.notify()

client = Client(CallbackAPIVersion.VERSION2)
client.on_message = take
client.connect("127.0.0.1", int(sys.argv[1]))
client.subscribe("hushmeter/home/window", qos=1)
client.loop_start()
begun = time.monotonic()
for second in range(BEGIN, BEGIN + 10**9):
    watts = 200 + second % 977 + 2000 * (second % 7200 < 180)
    text = '{"time": %d, "watts": %d, "simulation": true}' % (second, watts)
    info = client.publish("meter/power", text, qos=int(second % 500 == 0))
    if second % 500 == 0:
        info.wait_for_publish(60)
        if RATE:
            time.sleep(max(0.0, begun + (second - BEGIN) / RATE - time.monotonic()))
        # The broker must not collect what the stream has not taken yet.
        with free:
            free.wait_for(lambda: second - done[0] < AHEAD, 60)
"""


SOAK_S = float(os.environ.get("HUSHMETER_SOAK_S", "60"))
RATE = float(os.environ.get("HUSHMETER_SOAK_RATE", "0"))


def memory_kb(process: int) -> int:
    """Resident memory of a process."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


@needs_broker
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc here")
@pytest.mark.slow
def test_no_reading_is_lost_and_memory_and_state_stay_flat(tmp_path):
    broker, hanging, dripping = Broker(tmp_path), BadReceiver(), BadReceiver(b"x")
    server = HTTPServer(("127.0.0.1", 0), Redirect)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    bad = [hanging.url, dripping.url, f"http://127.0.0.1:{server.server_port}/first"]
    out, err = (tmp_path / "out.jsonl").open("wb"), (tmp_path / "err.txt").open("wb")
    live = subprocess.Popen(
        [
            sys.executable, "-m", "hushmeter", "live", f"{broker.url}/meter/power",
            "--payload", "json:watts", "--interval", "1s", "--hide", "kettle", "--views",
            "--simulation", "--clock", "readings", "--to", broker.url, "--to", "shared", "--json",
            *(word for url in bad for word in ("--to", url)),
        ],
        cwd=tmp_path,
        stdout=out,
        stderr=err,
    )  # fmt: skip
    publisher = None
    samples = []
    try:
        time.sleep(5)
        words = [sys.executable, "-c", PUBLISHER, str(broker.port), str(BEGIN), str(RATE)]
        publisher = subprocess.Popen(words)
        begin = time.monotonic()
        while time.monotonic() - begin < SOAK_S:
            time.sleep(SOAK_S / 60)
            assert live.poll() is None, (tmp_path / "err.txt").read_text()
            size = (tmp_path / "live.db").stat().st_size
            samples.append((time.monotonic() - begin, memory_kb(live.pid), size))
        publisher.kill()
        live.send_signal(signal.SIGTERM)
        assert live.wait(60) == 0
    finally:
        for process in (live, *([] if publisher is None else [publisher])):
            process.kill()
            process.wait()
        broker.kill()
        hanging.close()
        dripping.close()
        server.shutdown()
        server.server_close()
        out.close()
        err.close()
    messages = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    windows = [m for m in messages if m["kind"] == "window"]
    print(  # noqa: T201
        f"\n{len(windows) * 3600 / SOAK_S:,.0f} messages/s; memory and state after a quarter, a "
        f"half and all of the time: {[samples[len(samples) * n // 4 - 1][1:] for n in (1, 2, 4)]}"
    )
    assert all(m["complete"] for m in windows[:-1])
    starts = [datetime.fromisoformat(m["start"]).timestamp() for m in windows]
    assert starts == [BEGIN + 3600 * n for n in range(len(windows))]
    assert len(windows) > 10
    told = (tmp_path / "err.txt").read_text().splitlines()
    assert all(any(url in line for url in bad) for line in told), told
    # The folder has every window too.
    days = sorted(path for path in (tmp_path / "shared").glob("????-??-??.csv"))
    rows = sum(len(path.read_text().splitlines()) - 1 for path in days)
    assert rows == len(windows)
    # The means of 40 days are kept, so the state may grow until then; memory may not.
    assert samples[-1][1] - samples[len(samples) // 4][1] < 15_000
    assert samples[-1][2] < 3_000_000
