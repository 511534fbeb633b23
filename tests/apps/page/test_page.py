"""The page in a real browser, against the real server: what it shows is what the library says."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.advice.sentences import compare_with_use
from hushmeter.apps.page.server import make_example
from tests.apps.page.chromium import (
    choose_epsilon,
    open_example,
    origin_of,
    unfold,
    wait_until_drawn,
)

INTERVAL_MS = 6000
BAR, GAP, ROW, TOP = 11, 3, 41, 8


@pytest.fixture(scope="module")
def example():
    return make_example("evening")


def sentences(page):
    return page.locator("#sentences li").all_text_contents()


def strip_names(page):
    return page.locator("#strips .strip-name title").all_text_contents()


def seed_of(page):
    return int(re.search(r"\d+", page.inner_text("#seed-note"))[0])


def attack_by_library(example, epsilon, seed):
    """Release, attack and score with the public functions alone."""
    home, trace = example.home, example.trace
    promise = hm.Request(home=home, epsilon=epsilon).resolve(hm.metered(trace))
    mechanism = promise.noise
    released = promise.release(trace, rng=seed).trace
    attacker = hm.attackers["strongest"](home, mechanism=mechanism)
    attacker.fit(example.training)
    states = attacker.predict(released, rng=seed)
    return promise, released, states, hm.score(states, trace)


def stretches(on):
    """[first, stop) of every run, as reading numbers."""
    return np.flatnonzero(np.diff(on, prepend=False, append=False)).reshape(-1, 2).tolist()


def expected_bars(states, truth, width):
    """(kind, x, y, width) of every bar of the strips, from the states alone."""
    left, right, count = 144, 14, len(truth)
    scale = (width - left - right) / count
    bars = []
    for row in range(truth.shape[1]):
        top, on, guess = ROW * row + TOP, truth[:, row], states[:, row]
        layers = {
            "truth": (on, top),
            "guess": (guess & on, top + BAR + GAP),
            "alarm": (guess & ~on, top + BAR + GAP),
            "missed": (~guess & on, top + BAR + GAP),
        }
        bars += [
            (kind, left + a * scale, y, max(1.0, (b - a) * scale))
            for kind, (where, y) in layers.items()
            for a, b in stretches(where)
        ]
    return bars


def drawn_bars(page):
    """The same, as the browser has them, and the width of the drawing."""
    return page.evaluate("""() => {
        const box = document.getElementById("strips");
        const value = (bar, name) => Number(bar.getAttribute(name));
        const bars = [...box.querySelectorAll(".truth, .guess, .alarm, .missed")].map((bar) =>
            [bar.getAttribute("class"), value(bar, "x"), value(bar, "y"), value(bar, "width")]);
        return { bars, width: box.clientWidth };
    }""")


def test_sentences_and_strips_are_those_of_the_library(page, page_server, example):
    open_example(page, page_server)
    seen = []
    for epsilon in (0.2, 16.0):
        choose_epsilon(page, epsilon)
        promise, _, states, found = attack_by_library(example, epsilon, seed_of(page))
        shown, drawn = sentences(page), drawn_bars(page)
        own = compare_with_use(promise.errors, example.trace, "hour").sentence
        assert shown == [*hm.explain(promise), *hm.explain(found), own]
        assert f"ε = {epsilon:g}" in shown[0]
        assert "in one metered reading of 6 s" in shown[0]
        wanted = expected_bars(states, example.trace.truth(), drawn["width"])
        assert sorted(bar[0] for bar in drawn["bars"]) == sorted(bar[0] for bar in wanted)
        numbers = [sorted(bar[1:] for bar in bars) for bars in (drawn["bars"], wanted)]
        np.testing.assert_allclose(numbers[0], numbers[1], atol=0.01)
        seen.append((shown, drawn["bars"]))
    assert seen[0][0] != seen[1][0]
    assert seen[0][1] != seen[1][1]


def test_everything_follows_the_slider(page, page_server, example):
    open_example(page, page_server)
    places = [
        "#noise-scale",
        "#release-summary",
        "#cost-tiles",
        "#bounds-summary",
    ]
    read = lambda: [page.locator(place).text_content() for place in places]  # noqa: E731
    bars = "() => document.getElementById('visibility-chart').data[0].x"
    line = "() => document.getElementById('bounds-chart').layout.shapes[0].x0"
    choose_epsilon(page, 0.5)
    before, bars_before = read(), page.evaluate(bars)
    assert page.evaluate(line) == pytest.approx(np.log(2))
    with page.expect_response("**/api/view"):
        page.locator("#slider").focus()
        page.keyboard.press("End")
    wait_until_drawn(page)
    # The last position means no noise: nothing is released, and nothing can be downloaded.
    assert page.input_value("#epsilon") == ""
    assert page.locator("#release-chart").is_hidden()
    assert page.get_attribute("#prepare", "aria-disabled") == "true"
    with page.expect_response("**/api/view"):
        page.keyboard.press("ArrowLeft")
    wait_until_drawn(page)
    most = float(page.input_value("#epsilon"))
    assert page.evaluate(line) == pytest.approx(-np.log(most))
    assert all(old != new for old, new in zip(before, read(), strict=True))
    assert page.evaluate(bars) != bars_before
    _, released, _, found = attack_by_library(example, most, seed_of(page))
    kwh = released.readings.sum() * 6 / 3.6e6
    assert f"{kwh:.2f} kWh" in page.inner_text("#cost-tiles")
    shown = {a.name: 100 * a.visibility for a in found.per_appliance if a.visibility > -np.inf}
    names = page.evaluate("() => document.getElementById('visibility-chart').data[0].y")
    drawn = dict(zip(names, page.evaluate(bars), strict=True))
    assert {name: drawn[name] for name in shown} == pytest.approx(shown)


def test_the_last_move_of_the_slider_wins(page, page_server):
    open_example(page, page_server)
    held = []
    page.route("**/api/view", lambda route: held.append(route))
    for number, position in enumerate((10, 30), start=1):
        page.locator("#slider").fill(str(position))
        while len(held) < number:
            page.wait_for_timeout(20)
    asked = [route.request.post_data_json["epsilon"] for route in held]
    page.wait_for_selector("#progress", state="visible")
    with page.expect_response("**/api/view"):
        held[1].continue_()
    wait_until_drawn(page)
    assert f"ε = {asked[1]:g} protects" in sentences(page)[0]
    assert held[0].request.failure == "net::ERR_ABORTED"
    assert not page.locator("#progress").is_visible()
    assert page.inner_text("#error") == ""


@pytest.mark.slow
def test_attacker_unit_noise_and_seed_can_be_chosen(page, page_server):
    open_example(page, page_server)
    seen = {tuple(sentences(page))}

    def follow(act):
        with page.expect_response("**/api/view"):
            act()
        wait_until_drawn(page)
        assert page.inner_text("#error") == ""
        seen.add(tuple(sentences(page)))

    follow(lambda: page.select_option("#attacker", "all-off"))
    follow(lambda: page.check("input[name=span][value=run]"))
    assert "one run" in page.inner_text("#unit-sentence")
    follow(lambda: page.select_option("#mechanism", "gaussian"))
    assert "δ" in page.inner_text("#noise-scale")
    follow(lambda: page.select_option("#protect", "one kettle"))
    assert page.inner_text("#unit-sentence") == "for one run of the kettle"
    follow(lambda: page.select_option("#protect", "fluctuation"))
    assert page.inner_text("#unit-sentence") == "for fluctuations in one reading"
    follow(lambda: page.select_option("#attacker", "co"))
    follow(lambda: page.click("#redraw"))
    assert len(seen) == 8


def test_a_real_green_button_file_is_read(page, page_server, shared_data):
    page.goto(page_server)
    file = shared_data / "greenbutton" / "TestGBDataHourlyNineDaysBinnedDaily.xml"
    page.set_input_files("#file", file)
    wait_until_drawn(page)
    assert page.inner_text("#file-title") == file.name
    assert "216 readings of 1 h" in page.inner_text("#file-figures")
    assert "occupancy" in page.locator("#file-sentences").text_content()
    assert page.locator("#strips-empty").is_visible()
    assert page.locator("#strips rect").count() == 0
    axis = "() => document.getElementById('trace-chart').layout.xaxis.range"
    seen = [page.evaluate(axis)]
    for act in (
        lambda: page.select_option("#window-length", label="one day"),
        lambda: page.click("text=Later"),
    ):
        with page.expect_response("**/api/view"):
            act()
        wait_until_drawn(page)
        seen.append(page.evaluate(axis))
    assert [end - start for start, end in seen] == [216 * 3_600_000, 86_400_000, 86_400_000]
    assert seen[2][0] == seen[1][1]


def save(page, button, path):
    with page.expect_download() as download:
        page.click(button)
    download.value.save_as(path)


def test_the_download_opens_with_read_meter(page, page_server, example, tmp_path):
    open_example(page, page_server)
    # The account of a receipt takes seconds for each appliance: one is enough here.
    example.home.subset(["kettle"]).save(tmp_path / "home.toml")
    page.set_input_files("#home-file", tmp_path / "home.toml")
    choose_epsilon(page, 2)
    for kind in ("csv", "parquet"):
        page.check(f"input[name=format][value={kind}]")
        page.click("#prepare")
        page.wait_for_selector(f"#save-data:has-text('.{kind}')")
        save(page, "#save-data", tmp_path / f"released.{kind}")
        save(page, "#save-receipt", tmp_path / "receipt.json")
        trace = hm.read_meter(tmp_path / f"released.{kind}")
        receipt = json.loads((tmp_path / "receipt.json").read_text(encoding="utf-8"))
        check_release(trace, receipt, example.trace)
    assert "ε = 4" in page.inner_text("#prepared")


def check_release(trace, receipt, metered):
    assert len(trace) == len(metered)
    assert trace.times[0] == metered.times[0]
    assert receipt["kind"] == "release"
    assert receipt["epsilon"] == pytest.approx(2)
    assert receipt["output"]["readings"] == len(trace)
    scale = receipt["tables"][0]["noise"]["scale"]
    assert scale == pytest.approx(2100 / 2, rel=0.01)
    # |Laplace noise| is exponential: its mean over 2400 readings is the scale ± 2.04 %.
    noise = trace.readings - metered.readings
    assert np.abs(noise).mean() == pytest.approx(scale, rel=0.11)


def test_a_bad_file_gives_a_sentence(page, page_server, tmp_path):
    bad = tmp_path / "holiday.csv"
    bad.write_text("not,a,meter\nat,all,!\n", encoding="utf-8")
    page.goto(page_server)
    page.set_input_files("#file", bad)
    page.wait_for_selector("#error p")
    told = page.inner_text("#error p")
    assert told.endswith(".")
    assert "holiday.csv" in told
    assert "Traceback" not in told
    assert page.locator("#results").is_hidden()
    page.click("#error button")
    assert page.inner_text("#error") == ""


def test_a_file_can_be_dropped(page, page_server, tmp_path):
    page.goto(page_server)
    page.wait_for_selector("#examples button")
    rows = "\n".join(f"2024-01-01T{hour:02d}:00:00Z,{100 + hour}" for hour in range(24))
    page.evaluate(
        """text => {
        const data = new DataTransfer();
        data.items.add(new File([text], "meter.csv"));
        const drop = new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true });
        document.getElementById("drop").dispatchEvent(drop);
    }""",
        f"time,power [W]\n{rows}\n",
    )
    wait_until_drawn(page)
    assert "24 readings of 1 h" in page.inner_text("#file-figures")


def test_the_home_is_edited_saved_and_loaded(page, page_server, tmp_path):
    open_example(page, page_server)
    page.click("#home-edit")
    with page.expect_response("**/api/view"):
        page.fill("#home-rows .appliance:nth-child(6) .appliance-watts", "1800")
        page.keyboard.press("Tab")
    with page.expect_response("**/api/view"):
        page.click("#home-rows .appliance:nth-child(1) button")
    with page.expect_response("**/api/view"):
        page.click("#home-add")
    with page.expect_response("**/api/view"):
        page.keyboard.type("sauna")
        page.keyboard.press("Tab")
    wait_until_drawn(page)
    assert "sauna up to 1 kW, entered" in page.inner_text("#home-chips")
    assert "sauna" not in strip_names(page), "nobody knows when it was really on"
    with page.expect_download() as download:
        page.click("#home-save")
    download.value.save_as(tmp_path / "home.toml")
    home = hm.read_home(tmp_path / "home.toml")
    assert "lamps" not in home.names
    powers = dict(zip(home.names, home.powers, strict=True))
    assert powers["kettle"] == 1800
    assert powers["sauna"] == 1000
    home.subset(["kettle", "oven"]).save(tmp_path / "small.toml")
    with page.expect_response("**/api/view"):
        page.set_input_files("#home-file", tmp_path / "small.toml")
    wait_until_drawn(page)
    assert strip_names(page) == ["kettle", "oven"]
    assert "small.toml" in page.inner_text("#home-source")


def test_a_wrong_appliance_is_named_beside_its_field(page, page_server, tmp_path):
    open_example(page, page_server)
    page.click("#home-edit")
    watts = page.locator("#home-rows .appliance:nth-child(2) .appliance-watts")
    watts.fill("-5")
    page.keyboard.press("Tab")
    assert "television" in page.inner_text("#home-problem")
    assert watts.get_attribute("aria-invalid") == "true"
    name = page.locator("#home-rows .appliance:nth-child(2) .appliance-name")
    watts.fill("110")
    name.fill("kettle")
    page.keyboard.press("Tab")
    assert "Two appliances" in page.inner_text("#home-problem")
    (tmp_path / "bad.toml").write_text("nothing = 1\n", encoding="utf-8")
    page.set_input_files("#home-file", tmp_path / "bad.toml")
    page.wait_for_selector("#error p")


@pytest.mark.slow
def test_a_home_is_learnt_from_appliance_meters(page, page_server, example, tmp_path):
    trace = example.trace
    table = np.column_stack([trace.readings, trace.power])
    header = ",".join(["time", "aggregate", *example.home.names])
    lines = [
        ",".join([str(time.astype("datetime64[s]")) + "Z", *(f"{value:g}" for value in row)])
        for time, row in zip(trace.times, table, strict=True)
    ]
    file = tmp_path / "submetered.csv"
    file.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    page.goto(page_server)
    page.set_input_files("#file", file)
    wait_until_drawn(page)
    unfold(page)
    assert "columns" in page.inner_text("#home-source")
    assert page.locator("#strips .truth").count() > 0
    page.click("#home-edit")
    with page.expect_response("**/api/view"):
        page.fill("#home-rows .appliance:nth-child(1) .appliance-watts", "4321")
        page.keyboard.press("Tab")
    assert "4.32 kW" in page.inner_text("#home-chips")
    with page.expect_response("**/api/homes/learn"):
        page.click("#home-learn")
    page.wait_for_function(
        "() => !document.getElementById('home-chips').textContent.includes('4.32')"
    )


def test_the_token_of_the_address_is_sent_and_hidden(page, page_server):
    asked, token = [], page_server.partition("#token=")[2]
    page.on("request", lambda request: asked.append(request))
    page.goto(page_server)
    page.wait_for_selector("#examples button")
    api_calls = [request for request in asked if "/api/" in request.url]
    assert api_calls
    for request in api_calls:
        assert request.headers["authorization"] == f"Bearer {token}"
        assert request.headers["x-hushmeter"] == "1"
    for request in asked:
        assert token not in request.url
        assert not request.headers.get("referer")
    assert token not in page.url
    assert page.context.cookies() == []


def test_without_the_token_the_page_says_what_to_do(page, page_server):
    page.goto(origin_of(page_server))
    page.wait_for_selector("#error p")
    sentence = page.inner_text("#error p")
    assert sentence.endswith("open the whole address that “hushmeter serve” printed at its start.")
    assert page.is_hidden("main")
    # The advice works on the open page, where the address changes its fragment alone.
    page.goto(page_server)
    page.wait_for_selector("#examples button")
    assert page.is_visible("main")
    assert page.inner_text("#error") == ""


def test_a_server_that_stopped_is_reported(page, page_server):
    open_example(page, page_server)
    page.route("**/api/view", lambda route: route.abort())
    page.locator("#slider").fill("5")
    page.wait_for_selector("#error p")
    assert "hushmeter serve" in page.inner_text("#error p")
    page.unroute("**/api/view")
    with page.expect_response("**/api/view"):
        page.locator("#slider").fill("6")
    wait_until_drawn(page)
    assert page.inner_text("#error") == "", "the problem is solved"
