"""The page in the order a person thinks: what shows, what to hide, what it costs, what leaves."""

from __future__ import annotations

import json

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.apps.page.server import make_example
from hushmeter.files import json_text
from hushmeter.formatting import format_watts
from hushmeter.releases.receipt import describe_promise
from tests.apps.page.chromium import open_example, unfold, wait_until_drawn
from tests.apps.page.test_page import save
from tests.apps.page.test_page_access import PHONE, scan_all
from tests.apps.page.test_page_access import axe as axe

MOST_SCREENS = 4
ZONE = "Europe/London"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A summer fortnight of one simulated home: hourly as Green Button, and two days of 6 s."""
    folder = tmp_path_factory.mktemp("order")
    home = hm.synth.ready_home("evening")
    fine = hm.synth.trace(home, 2 * 14_400, seed=4)
    long = hm.synth.trace(home, 14 * 24, interval_s=3600.0, seed=5)
    hourly = hm.Trace(long.readings.round(), 3600.0, "2024-06-03T23:00Z")
    hm.write_meter(folder / "hourly.xml", hourly)
    hm.write_meter(folder / "six-seconds.csv", hm.Trace(fine.readings, 6.0, "2024-06-03T23:00Z"))
    return {"hourly": folder / "hourly.xml", "6 s": folder / "six-seconds.csv"}


def open_file(page, address, path):
    page.goto(address)
    page.set_input_files("#file", path)
    wait_until_drawn(page)


def tick(page, field, name):
    """Tick a chip and wait until the answers to it are drawn."""
    page.check(f"#{field} input[value='{name}']", force=True)
    page.wait_for_timeout(60)
    wait_until_drawn(page)


def hide_kettle(page):
    tick(page, "have", "kettle")
    page.wait_for_selector("#verdict strong")


def add_sized(page, name, kilowatts):
    """Tick an appliance that asks for its power, and enter it."""
    page.check(f"#have input[value='{name}']", force=True)
    page.fill("#size-kw", kilowatts)
    page.click("#size button")
    page.wait_for_selector("#size", state="hidden")
    page.wait_for_timeout(60)
    wait_until_drawn(page)


def test_from_a_file_to_a_protected_file(open_page, page_server, files, tmp_path):
    page = open_page(viewport={"width": 1280, "height": 800}, timezone_id=ZONE)
    open_file(page, page_server, files["hourly"])
    # The readings without noise, in local time: 23:00 UTC is midnight in a British summer.
    assert "4 Jun 2024, 00:00" in page.inner_text("#file-figures")
    assert ZONE in page.inner_text("#file-figures")
    first = page.evaluate("() => document.getElementById('trace-chart').data[0].x[0]")
    assert first == np.datetime64("2024-06-04T00:00", "ms").astype(int)
    trace = hm.read_meter(files["hourly"])
    found = hm.findings(trace, tz=ZONE)
    assert page.locator("#findings li").all_inner_texts() == [f.sentence for f in found.findings]
    warnings = page.locator("#findings-notes li").all_inner_texts()
    assert warnings == [*found.notes, *found.withheld]
    # Nothing is ticked, nothing is invented, and nothing can be downloaded.
    assert page.locator(".chip input:checked").count() == 0
    assert page.locator("#strips rect").count() == 0
    assert page.get_attribute("#prepare", "aria-disabled") == "true"
    assert page.locator("#expert").get_attribute("open") is None
    hide_kettle(page)
    request = hm.Request(hide="kettle", purpose="hour", tables=["views"])
    promise = request.resolve(hm.metered(trace, ZONE))
    assert page.locator("#plan-sentences li").all_inner_texts()[:1] == [promise.sentences[0]]
    day = next(guess for guess in promise.guesses if guess.name == "day")
    assert f"a whole day of usual use: {day.text})" in page.inner_text("#odds-summary")
    page.click("#odds-table summary")
    rows = page.locator("#odds-rows th").all_inner_texts()
    assert rows == [guess.about for guess in promise.guesses]
    assert page.inner_text("#verdict strong") == f"± {promise.errors.hour_w:.3g} W"
    told = page.locator("#results").text_content()
    assert "no attacker" not in told, "the odds of the promise are the only ones"
    assert "ε" not in page.inner_text("#verdict")
    assert f"your mean: {format_watts(trace.readings.mean())}" in page.inner_text("#verdict")
    page.click("#prepare")
    page.wait_for_selector("#save-receipt")
    save(page, "#save-receipt", tmp_path / "receipt.json")
    receipt = json.loads((tmp_path / "receipt.json").read_text(encoding="utf-8"))
    stated = json.loads(json_text(describe_promise(promise)))
    assert {name: receipt[name] for name in stated} == stated
    assert receipt["unit"]["changes"][0]["watts"] == hm.catalogue["kettle"].power_w.high
    assert "kettle" not in json.dumps(receipt)


def test_the_purpose_and_the_ticks_change_the_plan(page, page_server, files):
    open_file(page, page_server, files["hourly"])
    hide_kettle(page)
    figures = [page.inner_text("#verdict .figure")]
    for act in (
        lambda: page.check("input[name=purpose][value=month]", force=True),
        lambda: page.select_option("#odds", "0.9"),
        lambda: add_sized(page, "car charger", "9"),
    ):
        act()
        page.wait_for_timeout(60)
        wait_until_drawn(page)
        figures.append(page.inner_text("#verdict .figure"))
    assert len(set(figures)) == 4
    assert "kWh" in figures[1]
    unfold(page)
    assert page.inner_text("#unit-sentence") == "for one run of the kettle or the car charger"
    # Noise that is chosen by hand takes the promise away, and a button brings it back.
    with page.expect_response("**/api/view"):
        page.locator("#slider").fill("12")
    wait_until_drawn(page)
    assert page.locator("#own-noise").is_visible()
    assert page.locator("#plan-sentences li").count() == 0
    page.click("#own-noise-back")
    page.wait_for_selector("#plan-sentences li")
    wait_until_drawn(page)
    assert page.locator("#own-noise").is_hidden()
    assert page.inner_text("#verdict .figure") == figures[-1]
    for name in ("kettle", "car charger"):
        page.uncheck(f"#have input[value='{name}']", force=True)
    wait_until_drawn(page)
    assert page.input_value("#epsilon") == ""
    assert page.locator("#verdict strong").count() == 0


def test_large_appliances_are_added_with_the_power_that_somebody_enters(page, page_server, files):
    open_file(page, page_server, files["hourly"])
    for name in ("car charger", "heat pump", "electric shower"):
        assert "size?" in page.locator(f"#have label:has(input[value='{name}'])").inner_text()
    page.check("#have input[value='heat pump']", force=True)
    assert page.locator("#size").is_visible()
    page.fill("#size-kw", "many")
    page.click("#size button")
    assert "in kW, such as 7.4" in page.inner_text("#error p")
    assert page.locator("#verdict strong").count() == 0, "nothing is hidden yet"
    add_sized(page, "heat pump", "2.5")
    page.wait_for_selector("#verdict strong")
    request = hm.Request(hide="heat pump 2.5 kW", purpose="hour", tables=["views"])
    promise = request.resolve(hm.metered(hm.read_meter(files["hourly"])))
    assert page.inner_text("#verdict strong") == f"± {format_watts(promise.errors.hour_w)}"


def test_typical_day_months_and_restored_values(page, page_server, files):
    open_file(page, page_server, files["hourly"])
    hide_kettle(page)
    lines = "() => document.getElementById('release-chart').data.map((line) => line.name)"
    assert page.evaluate(lines) == ["released", "metered"]
    page.click("#calendar > summary")
    page.check("#restored")
    page.wait_for_function("() => document.getElementById('release-chart').data.length === 3")
    assert page.evaluate(lines)[2] == "restored (estimate)"
    assert "restored (estimate)" in page.inner_text("#release-caption")
    page.uncheck("#restored")
    page.wait_for_function("() => document.getElementById('release-chart').data.length === 2")
    page.check("input[name=purpose][value=profile]", force=True)
    page.wait_for_selector("#profile-chart .errorbars")
    wait_until_drawn(page)
    trace = hm.read_meter(files["hourly"])
    day = page.evaluate("() => document.getElementById('profile-chart').data")
    assert len(day[0]["y"]) == 24
    assert np.mean(day[0]["y"]) == pytest.approx(trace.readings.mean(), abs=1)
    assert min(day[1]["error_y"]["array"]) > 0
    months = page.evaluate("() => document.getElementById('months-chart').data")
    assert sum(months[0]["y"]) == pytest.approx(trace.energy_kwh, abs=0.2)
    assert "of the typical day" in page.inner_text("#verdict .figure")


def test_a_missing_run_length_is_asked_for_and_then_known(page, page_server):
    open_example(page, page_server, epsilon=None)
    unfold(page)
    page.click("#home-edit")
    page.fill("#home-rows .appliance:nth-child(6) .appliance-run", "")
    tick(page, "hide", "kettle")
    page.wait_for_selector("#error p")
    assert "kettle" in page.inner_text("#error p")
    page.fill("#home-rows .appliance:nth-child(6) .appliance-run", "4")
    page.wait_for_selector("#verdict strong")
    wait_until_drawn(page)
    assert page.inner_text("#error") == "", "the problem is solved"
    assert "4 min" in page.inner_text("#parameters")


def test_a_finding_is_shown_where_it_is(page, page_server):
    page.goto(page_server)
    page.click("[data-example=household]")
    wait_until_drawn(page)
    page.wait_for_selector("#findings .finding")
    found = hm.findings(make_example("household").trace, tz=ZONE).findings
    kinds = [one.kind for one in found]
    shapes = "() => document.getElementById('trace-chart').layout.shapes.length"
    axis = "() => document.getElementById('trace-chart').layout.xaxis.range"
    first_week = page.evaluate(axis)
    for kind in ("kettle", "away"):
        number = kinds.index(kind)
        entry = page.locator("#findings li").nth(number).locator("button")
        entry.click()
        page.wait_for_timeout(60)
        wait_until_drawn(page)
        assert entry.get_attribute("aria-pressed") == "true"
        start, end = page.evaluate(axis)
        marks = 1000 * found[number].marks
        inside = (marks[:, 1] > start) & (marks[:, 0] < end)
        assert 0 < page.evaluate(shapes) == inside.sum()
    assert page.evaluate(axis) != first_week, "the day away lies in another week"
    assert page.locator(".chip.seen").count() > 0
    assert page.locator(".chip input:checked").count() == 0, "highlighted, never ticked"


@pytest.mark.parametrize(
    "kind",
    [
        "hourly",
        "evening",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("6 s", "household")),
    ],
)
def test_a_phone_needs_at_most_four_screens(open_page, page_server, files, kind):
    page = open_page(**PHONE)
    if kind in files:
        open_file(page, page_server, files[kind])
    else:
        page.goto(page_server)
        page.click(f"[data-example={kind}]")
        wait_until_drawn(page)
    if kind != "evening":
        tick(page, "have", "kettle")
    chart = page.locator("#trace-chart").bounding_box()
    assert chart["y"] + chart["height"] < PHONE["viewport"]["height"], "a chart in the first fold"
    if kind == "evening":
        tick(page, "hide", "kettle")
    page.wait_for_selector("#verdict strong")
    wait_until_drawn(page)
    if kind in ("hourly", "household"):
        page.wait_for_selector("#left li", state="attached")
    height = page.evaluate("() => document.documentElement.scrollHeight")
    assert height <= MOST_SCREENS * PHONE["viewport"]["height"]


@pytest.mark.slow
def test_axe_finds_nothing_serious_with_a_plan(page, page_server, files, axe):
    open_file(page, page_server, files["hourly"])
    hide_kettle(page)
    assert scan_all(page, axe) == {}
