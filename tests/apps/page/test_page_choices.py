"""Longer readings in a real browser: chosen, and with the library's numbers."""

from __future__ import annotations

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.apps.page.server import make_example
from hushmeter.files import write_table
from hushmeter.learn.inspection import find_regime
from tests.apps.page.chromium import open_example, unfold, wait_until_drawn
from tests.apps.page.test_page import seed_of, sentences
from tests.apps.page.test_page_access import PHONE

QUARTER = "input[name=every][value='900']"
LEAST_TARGET = 44


@pytest.fixture(scope="module")
def example():
    return make_example("evening")


def follow(page, act):
    """Do something and wait for the view that answers it."""
    with page.expect_response("**/api/view") as answer:
        act()
    wait_until_drawn(page)
    assert page.inner_text("#error") == ""
    return answer.value.json()


def attack_coarse(example, epsilon, seed, every):
    """Release means, attack and score them with the public functions alone."""
    home, trace = example.home, example.trace
    request = hm.Request(home=home, epsilon=epsilon, every=every)
    mechanism = request.resolve(hm.metered(trace)).noise
    coarse = trace.coarsen(every)
    noisy = mechanism.release(coarse.readings, rng=seed)
    released = hm.Trace(noisy, coarse.interval_s, coarse.start)
    attacker = hm.attackers["strongest"](home, mechanism=mechanism)
    attacker.fit(example.training.coarsen(every))
    states = attacker.predict(released, rng=seed)
    return coarse, released, hm.score(states, coarse)


@pytest.mark.slow
def test_longer_readings_are_those_of_the_library(page, page_server, example):
    open_example(page, page_server)
    shown = page.locator("#every label").all_inner_texts()
    assert shown == ["6 s", "1 min", "5 min", "15 min", "30 min", "1 h"]
    before = sentences(page)
    follow(page, lambda: page.check(QUARTER))
    coarse, released, found = attack_coarse(example, 1.0, seed_of(page), "15min")
    assert set(hm.explain(found)) <= set(sentences(page))
    assert sentences(page) != before
    assert page.locator("#released-reveals").text_content() == find_regime(900.0)[1]
    assert "every 15 min" in page.inner_text("#every-now")
    assert "every 15 min" in page.inner_text("#download-stake")
    drawn = page.evaluate("() => document.getElementById('release-chart').data.at(-1)")
    times = coarse.times.astype("datetime64[ms]").astype(np.int64)
    assert drawn["x"] == [*times.tolist(), int(times[-1]) + 900_000]
    kilowatts = np.append(released.readings, released.readings[-1]) / 1000
    np.testing.assert_allclose(drawn["y"], kilowatts, atol=6e-5)
    follow(page, lambda: page.check("input[name=every] >> nth=0"))
    assert sentences(page) == before
    assert page.locator("#released-reveals").text_content() == ""


@pytest.mark.slow
def test_everything_shown_keeps_to_the_time_of_the_readings(page, page_server, example):
    """With fewer released readings, the axis, the strips and the table still span the evening."""
    open_example(page, page_server)
    before = page.inner_text("#cost-span")
    follow(page, lambda: page.check(QUARTER))
    assert page.inner_text("#cost-span") == before
    first = int(example.trace.times[0].astype("datetime64[ms]").astype(np.int64))
    axis = page.evaluate("() => document.getElementById('release-chart').layout.xaxis.range")
    assert axis == [first, first + 4 * 3_600_000]
    page.click("details:has([data-table=trace]) > summary")
    page.click("[data-table=trace] > summary")
    rows = page.locator("[data-table=trace] tbody tr")
    cells = [rows.nth(i).locator("td").nth(1).inner_text() for i in (0, 61, 63, 125)]
    shown = page.evaluate("() => document.getElementById('release-chart').data.at(-1).y")
    # The metered readings are drawn in 1000 stretches, 62.5 of them in a quarter of an hour.
    for cell, value in zip(cells, [shown[0], shown[0], shown[1], shown[2]], strict=True):
        number, unit = cell.split(" ")
        assert float(number) * {"W": 1e-3, "kW": 1}[unit] == pytest.approx(value, rel=6e-3)


@pytest.mark.slow
def test_the_window_holds_whole_intervals(page, page_server):
    open_example(page, page_server)
    follow(page, lambda: page.select_option("#window-length", label="one hour"))
    view = follow(page, lambda: page.check("input[name=every][value='3600']"))
    assert view["length"] == 2400
    assert page.locator("#window-length option").all_inner_texts() == ["all readings"]
    follow(page, lambda: page.check(QUARTER))
    options = page.locator("#window-length option").all_inner_texts()
    assert options == ["one hour", "all readings"]


@pytest.mark.slow
def test_ten_hourly_readings_offer_no_longer_ones(page, page_server, tmp_path):
    rows = "\n".join(f"2024-01-01T{hour:02d}:00:00Z,{100 + hour}" for hour in range(10))
    (tmp_path / "hourly.csv").write_text(f"time,power [W]\n{rows}\n", encoding="utf-8")
    open_example(page, page_server)
    follow(page, lambda: page.check(QUARTER))
    page.set_input_files("#file", tmp_path / "hourly.csv")
    page.wait_for_function(
        "() => document.getElementById('file-title').textContent === 'hourly.csv'"
    )
    wait_until_drawn(page)
    assert page.locator("#every-choice").is_hidden()
    assert page.inner_text("#every-now") == ""
    assert page.inner_text("#error") == ""


def test_a_finger_finds_every_control_of_a_phone(open_page, page_server):
    page = open_page(**PHONE)
    open_example(page, page_server)
    page.click("#home-edit")
    small = page.evaluate(
        """least => [...document.querySelectorAll("button, select, input, summary, label.button")]
        .concat(...document.querySelectorAll(".segments label, .chip"))
        .filter((e) => !["radio", "checkbox", "file"].includes(e.type) && e.getClientRects().length)
        .map((e) => [e.id || e.className || e.textContent, e.getBoundingClientRect().height])
        .filter(([, height]) => height < least)""",
        LEAST_TARGET,
    )
    assert small == []


@pytest.mark.slow
def test_names_stay_names(page, page_server, example, tmp_path):
    """A name of a file or of an appliance may look like markup."""
    link = '<a href="https://elsewhere.example">oven</a>'
    names = [link, *example.home.names[1:]]
    trace = example.trace
    file = tmp_path / "<img src=x onerror=alert(1)>.parquet"
    power = dict(zip(names, trace.power.T, strict=True))
    write_table(file, {"time": trace.times, "aggregate": trace.readings, **power})
    page.goto(page_server)
    page.set_input_files("#file", file)
    wait_until_drawn(page)
    unfold(page)
    page.wait_for_selector("#visibility-chart .ytick")
    assert page.inner_text("#file-title") == file.name
    labels = page.locator("#visibility-chart .ytick").all_text_contents()
    assert sorted(labels) == sorted(page.locator("#strips title").all_text_contents())
    assert link in labels
    assert page.locator("main a").count() == 0


def test_a_reader_that_names_an_option_is_put_into_the_pages_words(page, page_server, tmp_path):
    (tmp_path / "holiday.csv").write_text("not,a,meter\nat,all,!\n", encoding="utf-8")
    page.goto(page_server)
    page.set_input_files("#file", tmp_path / "holiday.csv")
    page.wait_for_selector("#error p")
    told = page.inner_text("#error p")
    assert "--" not in told
    assert "the option “Column with the " in told
    assert page.locator("#read-time_column").is_visible()


def test_a_wrong_price_is_marked(page, page_server):
    open_example(page, page_server)
    page.fill("#price", "much")
    page.keyboard.press("Tab")
    page.wait_for_selector("#error p")
    assert page.get_attribute("#price", "aria-invalid") == "true"
    before = page.locator("#cost-tiles").text_content()
    page.fill("#price", "0.4")
    page.keyboard.press("Tab")
    assert page.get_attribute("#price", "aria-invalid") is None
    assert page.inner_text("#error") == ""
    assert page.locator("#cost-tiles").text_content() != before
