"""A running server and a real browser, for the tests of the page and for its screenshots."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
START_S = 120.0


def find_chromium() -> str | None:
    """The browser of this machine, or the one named in HUSHMETER_CHROMIUM."""
    named = os.environ.get("HUSHMETER_CHROMIUM")
    return named or shutil.which("chromium") or shutil.which("chromium-browser")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running_server(log: Path) -> Iterator[str]:
    """The address of `hushmeter serve` on a free port; what it prints goes into `log`."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "hushmeter", "serve", "--port", str(port)]
    with log.open("wb") as sink:
        process = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT)
        try:
            _wait_for(f"{address}/api/about", process, log)
            yield address
        finally:
            process.terminate()
            process.wait(timeout=30)


def _wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the server stopped: {log.read_text(errors='replace')}")
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise RuntimeError(f"the server does not answer: {log.read_text(errors='replace')}")


@contextmanager
def running_browser(executable: str) -> Iterator[Any]:
    """A headless Chromium, driven by playwright."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


def open_example(page: Any, address: str) -> None:
    """Open the page, try the example home and wait until everything is drawn."""
    page.goto(address)
    page.click("#examples button")
    wait_until_drawn(page)


def wait_until_drawn(page: Any) -> None:
    """Wait until no request is under way and every chart stands."""
    page.wait_for_selector("#bounds-chart .main-svg", state="attached")
    page.wait_for_selector("#sentences li")
    page.wait_for_selector('#panels[aria-busy="false"]')
