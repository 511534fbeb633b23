"""How fast the page answers the slider and a choice, and how it serves a hundred clients.

`python -m benchmarks.bench_web 60` keeps the clients on for 60 seconds instead of ten.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from benchmarks.harness import Row
from hushmeter import synth
from hushmeter.write import meter_bytes

GOAL_S = 0.120
MOVES, CLIENTS, SOAK_S = 120, 100, 10.0
MEMORY_GOAL = 1.5
SOURCES = {
    "household": "28 days at 1 min",
    "evening": "4 h at 6 s",
    "year": "a year at 1 h",
}
"""Where the choices are made: two examples of the page, and a file of a simulated household."""
CHOICES = 60


@dataclass(frozen=True)
class Load:
    """What a hundred clients met.

    Attributes
    ----------
    answers : int
        Views answered.
    errors : tuple of str
        What went wrong, one entry each.
    p95_s : float
        Of the time a client waits for a view [s].
    before_mb, after_mb : float
        Memory of the server once warm and at the end [MB]; NaN where it cannot be told.
    """

    answers: int
    errors: tuple[str, ...]
    p95_s: float
    before_mb: float
    after_mb: float


def rows(soak_s: float = SOAK_S) -> Iterator[Row]:
    """The slider and the choices alone, then a hundred clients."""
    with server() as (process, url):
        waited, computed = slide(url)
        note = f"p50 {1e3 * np.median(computed):.0f} ms; a client waits {1e3 * p95(waited):.0f} ms"
        name = "slider, 4 h at 6 s: p95 of the server's time"
        yield Row(name, p95(computed) / GOAL_S, "120 ms", 1, note, True)
        for source, words in SOURCES.items():
            waited, computed = choose(process, url, source)
            note = (
                f"p50 {1e3 * np.median(computed):.0f} ms; a client waits {1e3 * p95(waited):.0f} ms"
            )
            name = f"new choice, {words}: p95 of the server's processor time"
            yield Row(name, p95(computed) / GOAL_S, "120 ms", 1, note, True)
        load = soak(process, url, soak_s)
        name = f"{CLIENTS} clients, {soak_s:g} s: errors of {load.answers} answers"
        yield Row(name, float(len(load.errors)), "1 error", 0, "; ".join(load.errors[:1]), True)
        note = f"{load.after_mb:.0f} MB, p95 {load.p95_s:.1f} s, {load.answers / soak_s:.0f}/s"
        growth = load.after_mb / load.before_mb
        name = f"{CLIENTS} clients: memory at the end"
        yield Row(name, growth, "warm server", MEMORY_GOAL, note, True)


@contextmanager
def server() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A running `hushmeter serve` and its address with the token."""
    command = [sys.executable, "-m", "hushmeter", "serve", "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        text = ""
        while not text.rstrip().endswith("}"):
            line = process.stdout.readline()
            if not line:
                raise RuntimeError("the server did not start")
            text += line
        yield process, json.loads(text)["url"]
    finally:
        process.terminate()
        process.communicate()


def call_with(url: str) -> dict[str, Any]:
    """The address and the headers of a client, from the address that a server printed."""
    page, _, token = url.partition("#token=")
    headers = {"X-Hushmeter": "1", "Authorization": f"Bearer {token}"}
    return {"base_url": "/".join(page.split("/")[:3]), "headers": headers}


def slide(url: str, moves: int = MOVES) -> tuple[list[float], list[float]]:
    """Seconds that one client waits for each move of the slider, and that the server computes."""
    waited, computed = [], []
    with httpx.Client(**call_with(url), timeout=60) as client:
        session = client.post("/api/examples", json={"name": "evening"}).json()
        # The page asks for the attack after the view, so that the slider does not wait for it.
        client.post("/api/view", json=_request(session, 0))
        for move in range(moves):
            start = time.perf_counter()
            answer = client.post("/api/view", json=_request(session, move))
            waited.append(time.perf_counter() - start)
            computed.append(answer.raise_for_status().json()["seconds"])
    return waited, computed


def choose(
    process: subprocess.Popen[str], url: str, source: str, choices: int = CHOICES
) -> tuple[list[float], list[float]]:
    """Seconds that a client waits for each new choice, and processor time of it.

    As in the page, a choice is a plan followed by a view of it. Every choice is new to the server:
    other appliances, another purpose or other odds.
    """
    rng = np.random.default_rng(0)
    waited, computed = [], []
    with httpx.Client(**call_with(url), timeout=60) as client:
        session = _open(client, source)
        usual = client.get("/api/about").json()["catalogue"][:8]
        shared = {"trace": session["id"], "home": {"appliances": usual}}
        for choice in range(choices):
            hidden = rng.permutation(len(usual))[: 1 + choice % 3]
            shared["hide"] = [usual[i]["name"] for i in hidden.tolist()]
            shared["purpose"] = ("hour", "day", "month")[choice // 3 % 3]
            wish = shared | {"odds": 0.55 + 0.4 * choice / choices, "span": "run"}
            start, before = time.perf_counter(), processor_s(process.pid)
            plan = client.post("/api/plan", json=wish).raise_for_status().json()
            length = plan["receipt"]["cells"]["interval_s"]
            if length != session["interval_s"]:
                wish["every"] = f"{length}s"
            client.post("/api/view", json=wish).raise_for_status()
            waited.append(time.perf_counter() - start)
            computed.append(processor_s(process.pid) - before)
    return waited, computed


def _open(client: httpx.Client, source: str) -> dict[str, Any]:
    """Open an example of the page, or upload a year of hourly readings."""
    if source == "year":
        hours = synth.household(365, interval_s=3600.0, seed=1).trace
        files = {"file": ("year.csv", meter_bytes(hours, "csv"))}
        answer = client.post("/api/traces", files=files)
    else:
        answer = client.post("/api/examples", json={"name": source})
    session: dict[str, Any] = answer.raise_for_status().json()
    return session


def soak(process: subprocess.Popen[str], url: str, seconds: float, clients: int = CLIENTS) -> Load:
    """Many clients at once, each with its own trace and slider."""
    return asyncio.run(_soak(process, url, seconds, clients))


async def _soak(process: subprocess.Popen[str], url: str, seconds: float, clients: int) -> Load:
    waited: list[float] = []
    errors: list[str] = []
    limits = httpx.Limits(max_connections=clients, max_keepalive_connections=clients)
    async with httpx.AsyncClient(**call_with(url), timeout=120, limits=limits) as client:
        sessions = await asyncio.gather(*(_example(client) for _ in range(clients)))
        await asyncio.gather(*(_move(client, s, i) for i, s in enumerate(sessions)))
        before = memory_mb(process.pid)
        end = time.perf_counter() + seconds

        async def play(number: int, session: dict[str, Any]) -> None:
            move = number
            while time.perf_counter() < end:
                start = time.perf_counter()
                error = await _move(client, session, move)
                waited.append(time.perf_counter() - start)
                errors.extend([error] if error else [])
                move += 1

        await asyncio.gather(*(play(i, s) for i, s in enumerate(sessions)))
    return Load(len(waited), tuple(errors), p95(waited), before, memory_mb(process.pid))


async def _example(client: httpx.AsyncClient) -> dict[str, Any]:
    answer = await client.post("/api/examples", json={"name": "evening"})
    session: dict[str, Any] = answer.raise_for_status().json()
    return session


async def _move(client: httpx.AsyncClient, session: dict[str, Any], move: int) -> str | None:
    """What went wrong with a view or the attack on it, or None."""
    request = _request(session, move)
    for path, asked in (("view", request), ("attack", request | {"attacker": "bayes"})):
        try:
            answer = await client.post(f"/api/{path}", json=asked)
        except httpx.HTTPError as error:
            return repr(error)
        if answer.status_code != 200:
            return f"{answer.status_code} {answer.text[:100]}"
    return None


def _request(session: dict[str, Any], move: int) -> dict[str, Any]:
    """The slider at one of 60 places between ε = 0.01 and 20."""
    epsilon = float(np.geomspace(0.01, 20, 60)[move * 7 % 60])
    return {"trace": session["id"], "home": session["home"], "epsilon": epsilon, "seed": move}


def p95(seconds: list[float]) -> float:
    """The time that 95 of 100 do not exceed."""
    return float(np.quantile(seconds, 0.95))


def processor_s(pid: int) -> float:
    """Processor time of a process and those that it started [s], NaN where it cannot be read."""
    tasks = Path(f"/proc/{pid}/task")
    if not tasks.exists():
        return float("nan")
    used, started = 0.0, []
    for task in tasks.iterdir():
        used += int((task / "schedstat").read_text().split()[0]) / 1e9
        started += [int(child) for child in (task / "children").read_text().split()]
    return used + sum(map(processor_s, started))


def memory_mb(pid: int) -> float:
    """Memory that a process holds [MB], where the system tells."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return float("nan")
    fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return float(fields["VmRSS"].split()[0]) / 1024


if __name__ == "__main__":
    for row in rows(float(sys.argv[1]) if len(sys.argv) > 1 else SOAK_S):
        print(row, flush=True)
