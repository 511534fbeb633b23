"""A real server in a thread, for tests that call the API."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import uvicorn

from hushmeter.apps.page.app import bind, create_app, make_config
from hushmeter.apps.page.server import Settings

START_S = 60.0
ROOT = Path(__file__).parents[3]


@contextmanager
def serving(settings: Settings | None = None, app=None) -> Iterator[httpx.Client]:
    """A client, with the token, of a server on a free port.

    They are at `client.app` and `client.server`, the token at `client.token`.
    """
    app = create_app(settings) if app is None else app
    for worker in app.state.server.workers._all:
        # Tests send functions of their own to the processes, which may read nothing else.
        worker.readable = (ROOT,)
    with bind("127.0.0.1", 0) as listener:
        server = uvicorn.Server(make_config(app))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        deadline = time.monotonic() + START_S
        while not server.started and time.monotonic() < deadline:
            time.sleep(0.01)
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        try:
            token = app.state.server.settings.token
            headers = {"X-Hushmeter": "1", "Authorization": f"Bearer {token}"}
            with httpx.Client(base_url=address, headers=headers, timeout=120) as client:
                client.app, client.server, client.token = app, server, token
                yield client
        finally:
            server.should_exit = True
            thread.join()


def run_apart(coroutine):
    """Run a coroutine in a thread: a browser of another test may have a loop in this one."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, coroutine).result()


def call_workers(client: httpx.Client, function, *given) -> list:
    """The results of a function in every process of a server that is idle."""
    workers = client.app.state.server.workers._all
    return [run_apart(worker.call(function, given)) for worker in workers]


def example(client: httpx.Client, name: str = "evening") -> dict:
    """A session of an example."""
    answer = client.post("/api/examples", json={"name": name})
    assert answer.status_code == 200, answer.text
    return answer.json()


def upload(client: httpx.Client, data: bytes, name: str = "meter.csv", **fields: str):
    """The answer to an upload."""
    return client.post("/api/traces", files={"file": (name, data)}, data=fields)
