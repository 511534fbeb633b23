"""Answers of the server that arrive late never replace a later choice of the person.

Each test holds one answer back, makes another choice, and then lets the answer through.
"""

from __future__ import annotations

import json

import pytest

import hushmeter as hm
from tests.apps.page.chromium import choose_epsilon, open_example, unfold, wait_until_drawn

MOST_WAITS = 3000


@pytest.fixture
def hold(page):
    """A function that holds back the requests to a route; it returns the list of held requests."""

    def hold_route(route):
        held = []
        page.route(f"**/api/{route}", lambda request: held.append(request))
        return held

    return hold_route


def wait_for(page, held):
    """Wait until the page has sent a request that is held back."""
    for _ in range(MOST_WAITS):
        if held:
            return held[0]
        page.wait_for_timeout(20)
    raise AssertionError("the page did not send the request")


def let_through(page, held, route):
    """Let a held request reach the server, and wait until the page has handled the answer.

    The page is busy from the request until it has handled the answer.
    """
    with page.expect_response(f"**/api/{route}"):
        wait_for(page, held).continue_()
    page.unroute(f"**/api/{route}")
    wait_until_drawn(page)


def save_home(folder, *appliances):
    hm.Home([hm.Appliance(*one) for one in appliances], tolerance=20.0).save(folder / "home.toml")
    return folder / "home.toml"


def prepare(page, held):
    """Click on the download and return what the page asks the server to release."""
    page.click("#prepare")
    return wait_for(page, held).request.post_data_json


def test_a_home_that_is_read_late_leaves_the_typed_epsilon_alone(page, page_server, hold, tmp_path):
    open_example(page, page_server)
    homes, releases = hold("homes/read"), hold("release")
    page.set_input_files("#home-file", save_home(tmp_path, ("kettle", 1900.0)))
    wait_for(page, homes)
    # The person is still typing when the home arrives: the field keeps the focus.
    page.fill("#epsilon", "2")
    let_through(page, homes, "homes/read")
    assert page.inner_text("#home-title") == "The attacker knows 1 appliance"
    assert page.input_value("#epsilon") == "2"
    request = prepare(page, releases)
    assert request["epsilon"] == 2
    assert [one["name"] for one in request["home"]["appliances"]] == ["kettle"]


@pytest.mark.slow
def test_half_a_number_is_not_replaced_by_a_late_home(page, page_server, hold, tmp_path):
    open_example(page, page_server)
    homes = hold("homes/read")
    page.set_input_files("#home-file", save_home(tmp_path, ("kettle", 1900.0)))
    wait_for(page, homes)
    page.fill("#epsilon", "0.")
    let_through(page, homes, "homes/read")
    page.keyboard.type("5")
    page.keyboard.press("Tab")
    wait_until_drawn(page)
    assert page.input_value("#epsilon") == "0.5"
    assert "ε = 0.5" in page.locator("#sentences li").first.text_content()


@pytest.mark.slow
def test_an_edit_is_kept_when_an_older_home_arrives(page, page_server, hold, tmp_path):
    open_example(page, page_server)
    homes, releases = hold("homes/read"), hold("release")
    page.set_input_files("#home-file", save_home(tmp_path, ("sauna", 6000.0)))
    wait_for(page, homes)
    page.click("#home-edit")
    page.fill("#home-rows .appliance:nth-child(6) .appliance-watts", "1800")
    let_through(page, homes, "homes/read")
    assert page.inner_text("#home-source") == "You entered these appliances."
    request = prepare(page, releases)
    watts = {one["name"]: one["watts"] for one in request["home"]["appliances"]}
    assert watts["kettle"] == 1800
    assert "sauna" not in watts


def save_hours(path, hours):
    """A file of hourly readings that names no appliance."""
    rows = "\n".join(f"2024-01-01T{hour:02d}:00:00Z,{100 + hour}" for hour in range(hours))
    path.write_text(f"time,power [W]\n{rows}\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "route", ["attack", "calendar", pytest.param("bounds", marks=pytest.mark.slow)]
)
def test_answers_about_other_readings_are_given_up(page, page_server, hold, tmp_path, route):
    """Otherwise a short file would show the months of the file before, or an error about it."""
    page.goto(page_server)
    page.click(f"[data-example={'household' if route == 'calendar' else 'evening'}]")
    wait_until_drawn(page)
    held = hold(route)
    if route == "calendar":
        page.check("#have input[value=kettle]", force=True)
        page.check("#purposes input[value=month]", force=True)
    else:
        unfold(page)
        page.fill("#epsilon", "1")
    wait_for(page, held)
    with page.expect_event("requestfailed", lambda request: request.url.endswith(route)):
        page.set_input_files("#file", save_hours(tmp_path / "short.csv", 12))
    page.unroute(f"**/api/{route}")
    wait_until_drawn(page)
    assert page.inner_text("#file-title") == "short.csv"
    assert page.locator("#error").text_content() == ""
    assert page.locator("#calendar-note").text_content() == ""
    assert page.locator("#strips > *").count() == 0


def test_a_view_of_other_readings_asks_for_nothing_more(page, page_server, hold, tmp_path):
    """Its answer would start an attack on readings that the server no longer holds."""
    page.clock.install()
    open_example(page, page_server, epsilon=None)
    held = hold("view")
    unfold(page)
    page.fill("#epsilon", "1")
    wait_for(page, held)
    # The timer of the next view stands still: the view before is given up without it.
    page.clock.pause_at(page.evaluate("() => Date.now()") / 1000 + 1)
    with page.expect_event("requestfailed", lambda request: request.url.endswith("view")):
        page.set_input_files("#file", save_hours(tmp_path / "short.csv", 12))
    page.unroute("**/api/view")
    page.clock.resume()
    wait_until_drawn(page)
    assert page.inner_text("#file-title") == "short.csv"
    assert page.locator("#error").text_content() == ""


def test_the_later_choice_of_readings_wins(page, page_server, hold, tmp_path):
    page.goto(page_server)
    uploads = hold("traces")
    page.set_input_files("#file", save_hours(tmp_path / "slow.csv", 24))
    wait_for(page, uploads)
    page.click("[data-example=evening]")
    page.wait_for_selector("#file-title:has-text('evening')")
    let_through(page, uploads, "traces")
    assert "evening" in page.inner_text("#file-title")
    assert "kettle" in page.locator("#home-chips").text_content()


@pytest.mark.slow
def test_files_of_other_settings_are_not_offered(page, page_server, hold, tmp_path):
    open_example(page, page_server)
    homes = save_home(tmp_path, ("kettle", 1900.0))
    page.set_input_files("#home-file", homes)
    page.wait_for_selector("#home-title:has-text('1 appliance')")
    releases = hold("release")
    assert prepare(page, releases)["epsilon"] == 1
    page.fill("#epsilon", "2")
    let_through(page, releases, "release")
    assert page.locator("#save-data").count() == 0
    assert "changed the settings" in page.inner_text("#prepared")
    page.click("#prepare")
    page.wait_for_selector("#save-receipt")
    with page.expect_download() as download:
        page.click("#save-receipt")
    download.value.save_as(tmp_path / "receipt.json")
    receipt = json.loads((tmp_path / "receipt.json").read_text(encoding="utf-8"))
    assert receipt["epsilon"] == pytest.approx(2)
    assert "releases" not in page.inner_text("#prepared"), "the dropped answer reached nobody"
    page.locator("#slider").fill("30")
    assert page.locator("#save-data").count() == 0


def test_a_late_plan_leaves_the_typed_epsilon_alone(page, page_server, hold):
    open_example(page, page_server)
    plans, releases = hold("plan"), hold("release")
    page.check("#hide input[value=kettle]", force=True)
    wait_for(page, plans)
    # Nothing can be released before the plan for what is ticked has arrived.
    page.click("#prepare", force=True)
    assert releases == []
    assert "tick what nobody should be able to tell" in page.inner_text("#download-stake")
    page.fill("#epsilon", "2")
    let_through(page, plans, "plan")
    assert page.input_value("#epsilon") == "2"
    assert prepare(page, releases)["epsilon"] == 2


def test_the_plan_for_the_last_tick_wins(page, page_server, hold):
    open_example(page, page_server, epsilon=None)
    plans, releases = hold("plan"), hold("release")
    page.check("#hide input[value=kettle]", force=True)
    wait_for(page, plans)
    page.check("#hide input[value=oven]", force=True)
    while len(plans) < 2:
        page.wait_for_timeout(20)
    with page.expect_response("**/api/plan"):
        plans[1].continue_()
    page.wait_for_selector("#verdict strong")
    wait_until_drawn(page)
    assert plans[0].request.failure == "net::ERR_ABORTED"
    request = prepare(page, releases)
    assert (request["hide"], request["odds"]) == (["kettle", "oven"], 0.6)
    assert "epsilon" not in request, "the server finds the noise of a wish again"


@pytest.mark.parametrize("route", ["plan", "release"])
def test_an_error_about_earlier_choices_is_not_shown(page, page_server, hold, route):
    """The answer to a wish that was taken back, or to settings that were changed, is an error."""
    open_example(page, page_server, epsilon=1 if route == "release" else None)
    held = hold(route)
    if route == "plan":
        page.check("#hide input[value=kettle]", force=True)
        request = wait_for(page, held)
        page.uncheck("#hide input[value=kettle]", force=True)
    else:
        page.click("#prepare")
        request = wait_for(page, held)
        page.fill("#epsilon", "2")
    request.fulfill(status=400, json={"error": "this is about something else."})
    wait_until_drawn(page)
    assert page.locator("#error").text_content() == ""


def test_learnt_numbers_are_named_and_need_a_tick(page, page_server, hold, tmp_path):
    home = hm.synth.ready_home("evening").subset(["kettle", "fridge"])
    trace = hm.synth.trace(home, 3000, 0.99, seed=5)
    hm.write_meter(tmp_path / "sub.csv", trace)
    page.goto(page_server)
    page.set_input_files("#file", tmp_path / "sub.csv")
    wait_until_drawn(page)
    choose_epsilon(page, 1)
    assert "learnt from readings" in page.inner_text("#home-chips")
    assert "Learnt from these readings and rounded up: power of the" in (
        page.inner_text("#parameters")
    )
    releases = hold("release")
    page.click("#prepare")
    assert "accept the learnt numbers" in page.inner_text("#error p")
    assert releases == []
    page.check("#consent")
    assert prepare(page, releases)["accept_learnt"] is True
    releases[0].abort()
    # Consent is for these numbers only. Minutes that somebody enters leave the watts as learnt.
    page.click("#home-edit")
    for row in (1, 2):
        page.fill(f"#home-rows .appliance:nth-child({row}) .appliance-run", "4")
    wait_until_drawn(page)
    assert page.locator("#consent-block").is_visible()
    assert "Learnt from these readings and rounded up: power of the" in (
        page.inner_text("#parameters")
    )
    # Typed ones need none.
    for row, watts in ((1, "2000"), (2, "150")):
        page.fill(f"#home-rows .appliance:nth-child({row}) .appliance-watts", watts)
    wait_until_drawn(page)
    assert page.locator("#consent-block").is_hidden()
    assert page.inner_text("#parameters").startswith("You entered: power of the")
    assert not page.is_checked("#consent")


def test_a_release_waits_for_valid_fields(page, page_server, hold):
    open_example(page, page_server)
    releases = hold("release")
    page.click("#home-edit")
    watts = page.locator("#home-rows .appliance:nth-child(2) .appliance-watts")
    watts.fill("-5")
    page.click("#prepare")
    assert "not valid" in page.inner_text("#error p")
    assert releases == []
    watts.fill("120")
    assert page.inner_text("#error") == "", "the problem is solved"
    request = prepare(page, releases)
    assert request["home"]["appliances"][1]["watts"] == 120
