"""The page of a stream in a real browser, and who may not see it."""

from __future__ import annotations

from functools import partial

import pytest

from hushmeter.apps.live.stream import show_stream
from hushmeter.apps.page.app import choose_settings, create_app
from hushmeter.apps.page.server import Settings
from hushmeter.errors import DataError, InputError
from tests.apps.live.streams import (
    Witness,
    make_calendar_terms,
    make_trace,
    run_table,
    write_table,
)
from tests.apps.page.serving import serving


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    """The state of a calendar of two days."""
    folder = tmp_path_factory.mktemp("stream")
    table = write_table(folder / "meter.csv", make_trace(2, interval_s=900.0))
    run_table(table, make_calendar_terms(), folder / "live.db", [Witness()])
    return folder / "live.db"


@pytest.fixture(scope="module")
def client(state):
    with serving(app=create_app(stream=partial(show_stream, state))) as running:
        yield running


def test_raw_and_protected_values_are_at_the_address_of_the_stream(client):
    found = client.get("/api/live").json()
    assert len(found["windows"]) == 24
    raw = make_trace(2, interval_s=900.0).coarsen(3600.0).readings[-24:]
    assert [window["raw_w"] for window in found["windows"]] == pytest.approx(raw.tolist())
    assert found["sentences"][0].startswith("Protected: ")
    assert client.get("/api/live").headers["cache-control"] == "no-store"


def test_other_pages_and_other_names_see_nothing(client):
    for headers in (
        {"Host": "evil.example"},
        {"Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Authorization": ""},
    ):
        answer = client.get("/api/live", headers=headers)
        assert answer.status_code == (401 if "Authorization" in headers else 403)
        assert "windows" not in answer.text


def test_a_server_without_a_stream_has_no_such_page():
    with serving(Settings()) as other:
        assert other.get("/live").status_code == 404
        assert other.get("/api/live").status_code == 404


def test_other_computers_never_see_raw_values(state, tmp_path):
    with pytest.raises(InputError, match="on this computer only"):
        create_app(choose_settings("0.0.0.0", 50, "meter.lan"), stream=partial(show_stream, state))
    with pytest.raises(DataError, match="does not exist"):
        create_app(stream=partial(show_stream, tmp_path / "none.db"))


def test_the_page_shows_the_stream_and_follows_it(client, browser):
    mishaps, hosts = [], set()
    page = browser.new_page(viewport={"width": 1100, "height": 900})
    page.on("console", lambda m: mishaps.append(m.text) if m.type != "log" else None)
    page.on("pageerror", lambda error: mishaps.append(str(error)))
    page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
    try:
        page.clock.install()
        page.goto(f"{client.base_url}/live#token={client.token}")
        for chart in ("live-chart", "live-attacker"):
            page.wait_for_selector(f"#{chart} .main-svg", state="attached")
        assert page.inner_text("h1") == "Stream home"
        # The sentence follows the charts, and the rows follow the unfolding: both take a moment.
        page.wait_for_selector("#live-updated:has-text(' Mar 2024')")
        page.click("#live-table summary")
        page.wait_for_selector("#live-table tbody tr")
        assert page.locator("#live-table tbody tr").count() == 24
        assert page.locator("#live-sentences li").count() == 3
        with page.expect_response("**/api/live"):
            page.clock.fast_forward(11_000)
        assert page.is_hidden("#live-problem")
        assert mishaps == []
        assert hosts == {str(client.base_url).split("/")[2]}
    finally:
        page.close()
