"""A running server and a real browser, for the tests of the page and for its screenshots."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
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


@contextmanager
def running_server(log: Path, *options: str) -> Iterator[str]:
    """The address, with its token, of `hushmeter serve`; what it prints goes into `log`."""
    command = [sys.executable, "-m", "hushmeter", "serve", "--port", "0", "--json", *options]
    with log.open("wb") as sink:
        process = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT)
        try:
            yield _wait_for(process, log)
        finally:
            process.terminate()
            process.wait(timeout=30)


def origin_of(address: str) -> str:
    """The address of a server without the page and the token."""
    return "/".join(address.split("/")[:3])


def _wait_for(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        found = re.search(r'"url": "(.*)"', log.read_text(errors="replace"))
        if found:
            return found[1]
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


def open_example(page: Any, address: str, epsilon: float | None = 1) -> None:
    """Open the example home, and choose an ε by hand unless it is None; wait until all is drawn."""
    page.goto(address)
    page.click("[data-example=evening]")
    wait_until_drawn(page)
    if epsilon is not None:
        choose_epsilon(page, epsilon)


def unfold(page: Any) -> None:
    """Unfold what only experts need."""
    page.evaluate("() => { document.getElementById('expert').open = true; }")


def choose_epsilon(page: Any, epsilon: float) -> None:
    """Unfold what experts need, type ε into its field and wait for the answer to it."""
    unfold(page)
    with page.expect_response("**/api/view"):
        page.fill("#epsilon", str(epsilon))
        page.keyboard.press("Tab")
    wait_until_drawn(page)


def wait_until_drawn(page: Any) -> None:
    """Wait until no request is under way and the readings are drawn."""
    page.wait_for_selector("#trace-chart .main-svg", state="attached")
    page.wait_for_selector('#panels[aria-busy="false"]', state="attached")
