"""`hushmeter demo`: what it prints is what its own files show to the other commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import hushmeter as hm
from tests.apps.study.report.pages import check_page
from tests.cli.test_commands import run

# One worker makes the demo once for all of them.
SMALL = ("--days", 28, "--seed", 3)
ZONE = "Europe/London"


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    return folder / "one", run("demo", "-o", folder / "one", *SMALL)


def test_every_statement_has_a_verdict_for_each_release(demo):
    folder, done = demo
    page = check_page((folder / "index.html").read_text(encoding="utf-8"))
    trace = hm.read_meter(folder / "meter.csv")
    shown = [one.sentence for one in hm.findings(trace, tz=ZONE).findings]
    head, *rows = page.table("Every statement that these readings allow")
    assert head == ["what anybody can tell", "days", "hours"]
    assert len(rows) >= 3
    for before, *verdicts in rows:
        assert before in shown
        assert set(verdicts) <= {"gone", "uncertain", "still there"}
        assert f"- {before} (days: {verdicts[0]}; hours: {verdicts[1]})" in done.stdout
    # The noise that hides a kettle leaves more of a habit than days do.
    left = [sum(row[place] == "still there" for row in rows) for place in (1, 2)]
    assert left[0] < left[1]
    (picture,) = page.images
    assert picture["src"].startswith("data:image/")


def test_both_releases_verify_and_state_what_is_printed(demo):
    folder, done = demo
    days, hours = (hm.read_release(folder / name) for name in ("days", "hours"))
    for release in (days, hours):
        for sentence in release.promise.sentences[1:]:
            assert sentence in done.stdout
        months = release.view("months")
        row = int(months.labels["cells"].argmax())
        stated = f"A month: {months.labels['month'][row]}: {months.values[row]:.1f}"
        assert stated in done.stdout
    assert days.promise.exact
    assert f"± {hours.view('months').errors[0]:.2g} kWh" in done.stdout
    for name in ("days", "hours"):
        # Everything follows from the receipt, which says itself that it is a simulation.
        (problem,) = hm.verify(folder / name).problems
        assert "is a simulation, not a release" in problem


def test_the_commands_that_it_prints_can_be_run(demo, tmp_path):
    folder, done = demo
    said = done.stdout.split("The page: ")[1].splitlines()
    assert said[:2] == [str(folder / "index.html"), "Open it in a browser. What to try next:"]
    assert said[-1] == "  hushmeter serve --open"
    # The line before them, without "hushmeter", puts the command on the path.
    commands = [line.split()[1:] for line in said[2:-1] if line.split()[0] == "hushmeter"]
    assert len(commands) == 2
    for words in commands:
        assert run(*words).stdout
    released = [line for line in done.stdout.splitlines() if "hushmeter release" in line]
    assert len(released) == 2
    words = (folder / "meter.csv", "--hide", "when we get up", "--tz", ZONE)
    again = run("release", *words, "-o", tmp_path / "again").stdout
    assert "Hidden: at which times of the day" in again
    assert (tmp_path / "again" / "days.csv").read_bytes() == (folder / "days/days.csv").read_bytes()


def test_nothing_is_overwritten_unasked(demo, tmp_path):
    folder, _ = demo
    again = run("demo", "-o", folder, *SMALL, expect=1)
    assert "index.html exists; add --force" in again.stderr
    precious = tmp_path / "meter.csv"
    precious.write_text("precious")
    assert "meter.csv exists; add --force" in run("demo", "-o", tmp_path, *SMALL, expect=1).stderr
    assert precious.read_text() == "precious"
    wrong = run("demo", "-o", tmp_path, "--days", 3, expect=2)
    assert "days must be a whole number of at least 21" in wrong.stderr
    assert list(tmp_path.iterdir()) == [precious]


def test_a_file_in_the_place_of_the_folder_is_one_sentence(tmp_path):
    (tmp_path / "taken").write_text("precious")
    done = run("demo", "-o", tmp_path / "taken", *SMALL, expect=1)
    assert "Not a directory." in done.stderr
    assert "fault" not in done.stderr
    assert (tmp_path / "taken").read_text() == "precious"


def test_the_same_seed_gives_the_same_bytes_and_the_page_opens(demo, tmp_path):
    """A second run over an earlier one, as JSON, in a browser that notes what it is given."""
    folder, _ = demo
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {tmp_path}/opened\n')
    browser.chmod(0o755)
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "meter.csv").write_text("old")
    command = [sys.executable, "-m", "hushmeter", "demo", "-o", tmp_path / "two", "--open"]
    done = subprocess.run(
        [*map(str, command), *map(str, SMALL), "--force", "--json"],
        env=os.environ | {"BROWSER": f"{browser} %s"},
        capture_output=True,
        text=True,
        check=True,
    )
    answer = json.loads(done.stdout)
    assert [one["hide"] for one in answer["shared"]] == ["when we get up", "kettle"]
    assert answer["files"][0] == str(tmp_path / "two" / "index.html")
    there = {str(path) for path in (tmp_path / "two").rglob("*") if path.is_file()}
    assert set(answer["files"]) == there
    assert (tmp_path / "opened").read_text() == (tmp_path / "two" / "index.html").as_uri()
    for name in ("before-after.png", "before-after.csv", "meter.csv", "hours/hours.csv"):
        assert (tmp_path / "two" / name).read_bytes() == (folder / name).read_bytes()
