"""Fixtures of the page: a real server, a real browser, and a page that tells of every mishap."""

from __future__ import annotations

import pytest

from tests.apps.page.chromium import find_chromium, origin_of, running_browser, running_server


@pytest.fixture(scope="session")
def page_server(tmp_path_factory):
    """The address, with its token, of a running `hushmeter serve`."""
    with running_server(tmp_path_factory.mktemp("server") / "server.log") as address:
        yield address


@pytest.fixture(scope="session")
def browser():
    """A real Chromium, or a skip with the reason."""
    pytest.importorskip("playwright", reason="playwright is not installed")
    executable = find_chromium()
    if executable is None:
        pytest.skip("no chromium here; install it or name one in HUSHMETER_CHROMIUM")
    with running_browser(executable) as running:
        yield running


@pytest.fixture
def mishaps():
    """Console errors, script errors and requests to other origins, in the order they happen."""
    return []


@pytest.fixture(scope="session")
def contexts(browser):
    """Browser contexts by their options; one for all tests, so that scripts are compiled once."""
    held = {}

    def context_for(**options):
        key = repr(sorted(options.items()))
        if key not in held:
            held[key] = browser.new_context(accept_downloads=True, **options)
        return held[key]

    yield context_for
    for context in held.values():
        context.close()


@pytest.fixture
def open_page(contexts, page_server, mishaps):
    """A function that opens a page; afterwards nothing may have gone wrong on it."""
    pages = []

    def open_one(**options):
        page = contexts(**options).new_page()
        pages.append(page)
        page.set_default_timeout(60_000)
        page.on("console", lambda message: _note_console(message, mishaps))
        page.on("pageerror", lambda error: mishaps.append(f"script error: {error}"))
        page.on(
            "request", lambda request: _note_origin(request.url, origin_of(page_server), mishaps)
        )
        return page

    yield open_one
    for page in pages:
        page.close()
    assert mishaps == []


@pytest.fixture
def page(open_page):
    """A page at the width of a desktop."""
    return open_page(viewport={"width": 1360, "height": 900})


def _note_console(message, mishaps):
    # The browser notes a refused call of the API; whether it may happen is each test's own matter.
    refused = "Failed to load resource" in message.text and "/api/" in message.location["url"]
    if message.type != "log" and not refused:
        mishaps.append(f"console {message.type}: {message.text}")


def _note_origin(url, origin, mishaps):
    if not url.startswith((f"{origin}/", "data:", "blob:")):
        mishaps.append(f"request to another origin: {url}")
