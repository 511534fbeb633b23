"""The page for everyone: keyboard, screen reader, dark mode, phone; and closed to other sites."""

from __future__ import annotations

import http.server
import os
import shutil
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest

from tests.apps.page.chromium import open_example, origin_of, wait_until_drawn

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


@pytest.fixture(scope="session")
def axe(tmp_path_factory, request):
    """The axe-core script, from npm or kept from an earlier run, or a skip with the reason."""
    cache = getattr(request.config, "cache", None)
    kept = None if cache is None else Path(cache.mkdir("axe-core")) / "axe.min.js"
    if kept is not None and kept.is_file():
        return kept.read_text(encoding="utf-8")
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm here, which brings axe-core")
    folder = tmp_path_factory.mktemp("axe")
    command = [npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", "axe-core"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    script = folder / "node_modules" / "axe-core" / "axe.min.js"
    if done.returncode or not script.is_file():
        pytest.skip(f"npm could not bring axe-core: {done.stderr.strip()[-200:]}")
    source = script.read_text(encoding="utf-8")
    if kept is not None:
        # Another worker may do the same at the same time: a rename is all or nothing.
        part = kept.with_name(f"axe-{os.getpid()}.part")
        part.write_text(source, encoding="utf-8")
        part.replace(kept)
    return source


def scan(page, axe):
    """Serious and critical findings, as readable lines."""
    # Through the debugger, since the page's own policy lets no foreign script in.
    page.evaluate(axe)
    found = page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{violation['impact']} {violation['id']}: {node['target']} {node['failureSummary']}"
        for violation in found["violations"]
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]


def scan_all(page, axe):
    """The same in light and dark, at the width of a desktop and of a phone."""
    findings = {}
    for width, height in ((1360, 900), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            findings[f"{scheme}, {width} px"] = scan(page, axe)
    return {mode: found for mode, found in findings.items() if found}


@pytest.mark.slow
def test_axe_finds_nothing_serious_at_the_start(page, page_server, axe):
    page.goto(page_server)
    page.wait_for_selector("#examples button")
    assert scan_all(page, axe) == {}


def test_axe_finds_nothing_serious_in_the_results(page, page_server, axe):
    open_example(page, page_server)
    page.click("#home-edit")
    # The table of readings is one of five alike, and by far the longest.
    page.evaluate("""() => document.querySelectorAll("details:not([data-table=trace])")
        .forEach((details) => { details.open = true; })""")
    page.fill("#epsilon", "-1")
    page.keyboard.press("Tab")
    page.wait_for_selector("#error p")
    assert scan_all(page, axe) == {}


def test_a_phone_shows_everything_within_its_width(open_page, page_server):
    page = open_page(**PHONE)
    open_example(page, page_server)
    page.click("#home-edit")
    wide = page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0
    assert page.locator(".strip-name").first.get_attribute("text-anchor") == "start"


def press_until(page, selector, key="Tab", most=90):
    """Press a key until the focus is on an element; fails if it never gets there."""
    for _ in range(most):
        if page.evaluate("s => document.activeElement?.matches(s) ?? false", selector):
            return
        page.keyboard.press(key)
    raise AssertionError(f"{selector} is not reached with {key}")


def test_the_keyboard_alone_is_enough(page, page_server, tmp_path):
    page.goto(page_server)
    page.wait_for_selector("#examples button")
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    press_until(page, "#file")
    press_until(page, "[data-example=evening]")
    page.keyboard.press("Enter")
    wait_until_drawn(page)
    assert page.evaluate("() => document.activeElement.id") == "file-title"
    press_until(page, "#hide input[value=kettle]")
    page.keyboard.press("Space")
    page.wait_for_selector("#verdict strong")
    wait_until_drawn(page)
    assert page.evaluate("() => document.activeElement.value") == "kettle", "the focus stays"
    press_until(page, "input[name=purpose]")
    with page.expect_response("**/api/plan"):
        page.keyboard.press("ArrowRight")
    wait_until_drawn(page)
    press_until(page, "#words-more > summary")
    page.keyboard.press("Enter")
    press_until(page, "[data-table=strips] summary")
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-table=strips] tbody tr:nth-child(8)")
    press_until(page, "#prepare")
    page.keyboard.press("Enter")
    page.wait_for_selector("#save-data")
    press_until(page, "#save-data")
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    assert download.value.suggested_filename.endswith((".csv", ".zip"))
    press_until(page, "#expert > summary")
    page.keyboard.press("Enter")
    press_until(page, "#slider")
    before = page.input_value("#epsilon")
    with page.expect_response("**/api/view"):
        page.keyboard.press("ArrowRight")
    wait_until_drawn(page)
    assert float(page.input_value("#epsilon")) > float(before)
    assert "ε = " in page.get_attribute("#slider", "aria-valuetext")
    press_until(page, "#attacker")
    with page.expect_response("**/api/view"):
        page.keyboard.press("ArrowDown")
    wait_until_drawn(page)
    press_until(page, "#home-edit")
    page.keyboard.press("Enter")
    press_until(page, ".appliance-watts")
    with page.expect_response("**/api/view"):
        page.keyboard.press("Control+A")
        page.keyboard.type("75")
        page.keyboard.press("Tab")


@pytest.mark.slow
def test_the_focus_can_be_seen(page, page_server):
    open_example(page, page_server)
    missing = []
    for _ in range(40):
        page.keyboard.press("Tab")
        seen = page.evaluate("""() => {
            const focused = document.activeElement;
            const places = [focused, focused.nextElementSibling, focused.parentElement];
            const outlined = (e) => e && getComputedStyle(e).outlineStyle !== "none";
            return [focused.id || focused.tagName, places.some(outlined)];
        }""")
        if not seen[1]:
            missing.append(seen[0])
    assert set(missing) <= {"BODY"}


def test_a_screen_reader_hears_only_what_changed(page, page_server):
    open_example(page, page_server)
    page.click("#words-more > summary")
    region = page.locator("#sentences").locator("xpath=..")
    assert region.get_attribute("aria-live") == "polite"
    kept = page.evaluate("""() => {
        globalThis.first = document.querySelector("#sentences li");
        globalThis.cost = document.querySelector("#sentences li:last-child");
        globalThis.touched = new Set();
        new MutationObserver((changes) => changes.forEach((c) => touched.add(c.target)))
            .observe(document.getElementById("sentences"), { childList: true, subtree: true });
        return first.textContent;
    }""")
    with page.expect_response("**/api/view"):
        page.select_option("#attacker", "all-off")
    wait_until_drawn(page)
    assert page.inner_text("#sentences li:first-child") == kept
    assert page.evaluate("() => touched.size") > 0
    assert not page.evaluate("() => touched.has(first) || touched.has(cost)")


def test_charts_follow_dark_mode(page, page_server):
    open_example(page, page_server)
    colour = "() => document.getElementById('trace-chart').data[0].line.color"
    light = page.evaluate(colour)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"light => ({colour})() !== light", arg=light)


def test_interval_arithmetic_agrees_with_numpy(page, page_server, rng):
    page.goto(page_server)
    cases = [rng.random((2, 40)) < rng.uniform(0.1, 0.9) for _ in range(200)]
    found = page.evaluate(
        """async (cases) => {
        const { both, without } = await import("/static/strips.js");
        return cases.map(([a, b]) => [both(a, b), without(a, b)]);
    }""",
        [[stretches(a), stretches(b)] for a, b in cases],
    )
    for (a, b), (common, rest) in zip(cases, found, strict=True):
        assert marked(common) == np.flatnonzero(a & b).tolist()
        assert marked(rest) == np.flatnonzero(a & ~b).tolist()


def stretches(on):
    return np.flatnonzero(np.diff(on, prepend=False, append=False)).reshape(-1, 2).tolist()


def marked(runs):
    """Every covered step; runs that touch are one."""
    return sorted(step for start, stop in runs for step in range(start, stop))


def test_the_slider_is_logarithmic_and_shows_what_is_used(page, page_server):
    page.goto(page_server)
    table = page.evaluate("""async () => {
        const { epsilonAt, positionOf } = await import("/static/controls.js");
        return [...Array(67).keys()].map((p) => [p, epsilonAt(p), positionOf(epsilonAt(p))]);
    }""")
    positions, epsilons, back = np.array(table).T
    assert (positions == back).all()
    assert (np.diff(epsilons) > 0).all()
    np.testing.assert_allclose(epsilons, 0.01 * 10 ** (positions / 20), rtol=0.05)
    assert all(float(f"{value:.2g}") == value for value in epsilons)


@pytest.fixture
def foreign_site(tmp_path):
    """The address of another site on this machine."""
    (tmp_path / "index.html").write_text("<!doctype html><title>elsewhere</title>")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(tmp_path))

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as site:
        thread = threading.Thread(target=site.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{site.server_port}"
        site.shutdown()
        thread.join()


ATTEMPTS = """async (target) => {
    const attempt = async (path, options) => {
        try {
            const answer = await fetch(target + path, options);
            return `${answer.type} ${answer.status} ${await answer.text()}`;
        } catch (error) {
            return "refused";
        }
    };
    const json = { method: "POST", body: JSON.stringify({ name: "evening" }) };
    const headers = { "Content-Type": "application/json", "X-Hushmeter": "1" };
    const form = new FormData();
    form.append("file", new File(["time,W"], "a.csv"));
    return [
        await attempt("/api/about"),
        await attempt("/api/about", { mode: "no-cors" }),
        await attempt("/api/examples", { ...json, headers }),
        await attempt("/api/examples", { ...json, mode: "no-cors" }),
        await attempt("/api/traces", { method: "POST", body: form, mode: "no-cors" }),
        await attempt("/static/main.js"),
    ];
}"""


def test_a_foreign_page_reads_nothing(browser, page_server, foreign_site):
    context = browser.new_context()
    page = context.new_page()
    page.goto(foreign_site)
    target = origin_of(page_server)
    answers = page.evaluate(ATTEMPTS, target)
    # Without CORS a browser lets the request out, but hands over an empty, opaque answer.
    assert set(answers) <= {"refused", "opaque 0 "}
    assert answers[2] == "refused"
    page.evaluate(
        """url => new Promise((done) => {
        const frame = document.createElement("iframe");
        frame.onload = done;
        frame.src = url;
        document.body.append(frame);
    })""",
        target,
    )
    inside = page.frames[-1]
    assert target not in inside.url or inside.locator("main").count() == 0
    context.close()
