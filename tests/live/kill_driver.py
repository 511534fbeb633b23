"""Kill a stream again and again, then count what the world has seen. Run by test_state.py.

Usage: kill_driver.py FOLDER KILLS DAYS. A child process is killed after a random time or at a
random step (before or after a commit, a payment, a published message), until it has been killed
KILLS times; the last child runs to the end.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from hushmeter.fleet.ledger import open_ledger
from hushmeter.live import service as service_module
from hushmeter.live import state as state_module
from hushmeter.live.payloads import PayloadOptions, make_parser
from hushmeter.live.service import LedgerAccount, Service
from hushmeter.live.sinks import FolderSink, Sink
from hushmeter.live.sources import LineSource
from hushmeter.live.state import Item, State, WindowRow
from hushmeter.live.stream import Terms
from tests.live.streams import make_terms, make_trace, write_table


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


def run_stream(folder: Path) -> None:
    """Run the stream to the end of the table."""
    terms = make_terms(interval_s=600.0)
    with State(folder / "s.db", terms.describe()) as state:
        account = LedgerAccount(f"sqlite:///{folder}/ledger.db", "m1", "load", terms, state)
        Service(
            terms,
            state,
            LineSource(folder / "meter.csv", follow=False),
            make_parser("csv", PayloadOptions()),
            [World(folder / "world.jsonl"), FolderSink(folder / "out", terms, state)],
            account=account,
            by_readings=True,
        ).run()


def spawn(folder: Path, rng: random.Random, kill: bool) -> bool:
    """Run a child and, perhaps, kill it; return whether it was killed."""
    by_step = rng.random() < 0.5
    child = os.fork()
    if child == 0:
        if kill and by_step:
            die_at(rng.randrange(1, 60))
        run_stream(folder)
        os._exit(0)
    if kill and not by_step:
        time.sleep(rng.uniform(0.005, 0.3))
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    if status:
        sys.exit(f"a child failed with status {status}")
    return False


def main() -> None:
    """Kill, run to the end, and print the facts."""
    folder, kills, days = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(25)
    # The last day lacks its last hour, so that its keys are still there.
    trace = make_trace(days - 1 / 24, interval_s=600.0)
    whole = write_table(folder / "whole.csv", trace).read_text().splitlines(keepends=True)
    open_ledger(f"sqlite:///{folder}/ledger.db", create=True).close()
    terms = make_terms(interval_s=600.0)
    terms.mechanism.release(np.zeros(2))  # Tables and kernels are made once, before the forks.
    done = 0
    while done < kills:
        # The table grows, so that the kills are spread over its whole length.
        rows = min(len(whole), round(len(whole) * (done + 4) / kills))
        (folder / "meter.csv").write_text("".join(whole[:rows]))
        done += spawn(folder, rng, kill=True)
        rng.random()
    (folder / "meter.csv").write_text("".join(whole))
    spawn(folder, rng, kill=False)
    print(json.dumps(facts(folder, done, trace)))  # noqa: T201


def again(terms: Terms, state: State, row: WindowRow) -> float | None:
    """Return the value that follows from the mean, the key and the draw of a window."""
    if row.mean is None or row.key is None or row.draw is None:
        return None
    return terms.protect(row.mean, row.share, state.key(row.key), row.draw)


def facts(folder: Path, kills: int, trace: Any) -> dict[str, Any]:
    """Count what the world, the state and the ledger know."""
    seen: dict[tuple[str, str], set[str]] = {}
    for line in (folder / "world.jsonl").read_text().splitlines():
        kind, label, message = json.loads(line)
        seen.setdefault((kind, label), set()).add(json.dumps(message, sort_keys=True))
    windows = sorted(label for kind, label in seen if kind == "window")
    span = np.datetime64(windows[-1].rstrip("Z")) - np.datetime64(windows[0].rstrip("Z"))
    with open_ledger(f"sqlite:///{folder}/ledger.db") as ledger:
        paid = {row["period"] for row in ledger.rows()}
    terms = make_terms(interval_s=600.0)
    with State(folder / "s.db", terms.describe()) as state:
        rows = state.windows(0, 1 << 40)
        checked = [row.value == again(terms, state, row) for row in rows if row.day == rows[-1].day]
    hourly = trace.coarsen(3600.0)
    truth = dict(zip(hourly.times.astype("int64") // 3600 // 10**9, hourly.readings, strict=True))
    wrong = {row.day for row in rows if row.mean is not None and row.mean != truth[row.number]}
    return {
        "kills": kills,
        "windows": len(windows),
        "first_to_last": int(span / np.timedelta64(1, "h")) + 1,
        "windows_with_two_values": sum(len(texts) > 1 for texts in seen.values()),
        "unpaid_days": sorted({label[:10] for label in windows} - paid),
        "days_with_other_readings": sorted(wrong),
        "checked_values": len(checked),
        "values_with_other_noise": checked.count(False),
    }


if __name__ == "__main__":
    main()
