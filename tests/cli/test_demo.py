"""`hushmeter demo`, on two hours of readings; the whole day is a slow test."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pandas as pd
import pytest

from hushmeter.formatting import out_of_100
from tests.cli.test_commands import run
from tests.report.pages import check_page

# One worker makes the demo once for all of them.
SMALL = ("--readings", 1200, "--seed", 3)
EPSILONS = (10.0, 3.0, 1.0, 0.3)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    return folder / "one", run("demo", "-o", folder / "one", *SMALL)


@pytest.fixture(scope="module")
def page(demo):
    return check_page((demo[0] / "index.html").read_text(encoding="utf-8"))


def test_the_page_is_the_report_with_the_household_first(demo, page):
    folder, done = demo
    titles = [text for level, text in page.headings if level == 2]
    assert titles[:2] == ["For the household", "For the analyst"]
    parts = [text for level, text in page.headings if level == 3]
    assert "2 h of “evening”, as metered" in parts
    assert "2 h of “evening”, released at ε = 1 for one reading" in parts
    assert "To hide the kettle" in parts
    assert "right about the kettle in" in page.prose
    assert "A simulation, not to be published." in page.prose
    assert any(caption.startswith("One jump of “evening”") for caption in page.tables)
    said = done.stdout.split("The page: ")[1].splitlines()
    assert said[:2] == [str(folder / "index.html"), "Open it in a browser. What to try next:"]
    assert said[-1] == "  hushmeter serve --open"
    for command in (line.split()[1:] for line in said if line.startswith("  hushmeter adv")):
        assert "such as one run of the kettle" in run(*command).stdout


def test_what_is_printed_is_what_the_sweep_found(demo, page):
    folder, done = demo
    table = pd.read_parquet(folder / "sweep" / "results.parquet")
    assert sorted(table.epsilon.unique(), reverse=True) == list(EPSILONS)
    # Nine attackers and one baseline, none of which knows the first state.
    assert table.attacker.nunique() == 10
    assert "the best of 9 attackers" in done.stdout
    assert "the best of 9 attackers" in page.prose
    assert table.hold_floor.isna().all()
    assert "error" not in table
    seeing = table[~table.attacker.isin(["everything off"])]
    best = seeing.groupby(["epsilon", "attacker"])["alpha kettle"].mean().groupby("epsilon").max()
    row = next(r for r in page.table("“evening”: in how many out of 100") if r[0] == "kettle")
    habits = json.loads((folder / "guess.json").read_text())["alpha"]["kettle"]
    metered = json.loads((folder / "metered.json").read_text())
    (kettle,) = (a for a in metered["score"]["per_appliance"] if a["name"] == "kettle")
    guess = max(habits, kettle["floor"])
    assert row[1] == out_of_100(guess)
    assert row[2] == out_of_100(max(guess, metered["best"]["kettle"]))
    assert metered["best"]["kettle"] >= kettle["alpha"]
    # One meaning everywhere: the better of a guess without data and the best attacker.
    assert row[3:7] == [out_of_100(max(guess, best[epsilon])) for epsilon in EPSILONS]
    printed = next(line for line in done.stdout.splitlines() if line.strip().startswith("kettle"))
    assert printed.split()[3:] == [word.replace("over ", ">") for word in row[3:7]]


def test_its_files_go_on_to_the_next_commands(demo, tmp_path):
    folder, _ = demo
    for name in ("metered.png", "metered.svg", "metered.csv", "released.png", "released.csv"):
        assert (folder / name).stat().st_size > 100
    run(
        "attack", folder / "meter.csv", "--home", folder / "home.toml", "--attacker", "one-shot",
        "-o", tmp_path / "states.csv",
    )  # fmt: skip
    again = run("report", folder, "-o", tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == (folder / "index.html").read_bytes()
    assert "For the household" in again.stdout
    results = pd.read_parquet(folder / "sweep" / "results.parquet").drop(columns="seconds")
    run("sweep", folder / "study.toml", "-o", tmp_path / "swept")
    other = pd.read_parquet(tmp_path / "swept" / "results.parquet").drop(columns="seconds")
    pd.testing.assert_frame_equal(results, other)


def test_nothing_is_overwritten_unasked(demo, tmp_path):
    folder, _ = demo
    again = run("demo", "-o", folder, *SMALL, expect=1)
    assert "index.html exists; add --force" in again.stderr
    (tmp_path / "sweep").mkdir()
    precious = tmp_path / "sweep" / "results.parquet"
    precious.write_text("precious")
    done = run("demo", "-o", tmp_path, *SMALL, expect=1)
    assert "results.parquet exists; add --force" in done.stderr
    assert precious.read_text() == "precious"
    wrong = run("demo", "-o", tmp_path, "--readings", 0, expect=2)
    assert "readings must be a whole number of at least 1" in wrong.stderr
    assert list(tmp_path.iterdir()) == [tmp_path / "sweep"]


def test_a_file_in_the_place_of_the_folder_is_one_sentence(tmp_path):
    (tmp_path / "taken").write_text("precious")
    done = run("demo", "-o", tmp_path / "taken", *SMALL, expect=1)
    assert "cannot be used: Not a directory." in done.stderr
    assert "fault" not in done.stderr
    assert (tmp_path / "taken").read_text() == "precious"


def test_the_same_seed_gives_the_same_bytes_and_the_page_opens(demo, tmp_path):
    """A second run over an earlier one, as JSON, in a browser that notes what it is given."""
    folder, _ = demo
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {tmp_path}/opened\n')
    browser.chmod(0o755)
    command = [sys.executable, "-m", "hushmeter", "demo", "-o", tmp_path / "two", "--open"]
    (tmp_path / "two" / "sweep").mkdir(parents=True)
    (tmp_path / "two" / "sweep" / "results.parquet").write_text("old")
    done = subprocess.run(
        [*map(str, command), *map(str, SMALL), "--force", "--json"],
        env=os.environ | {"BROWSER": f"{browser} %s"},
        capture_output=True,
        text=True,
        check=True,
    )
    answer = json.loads(done.stdout)
    assert len(answer["attackers"]) == 10 * 4
    assert answer["advice"]["goal"]["appliance"] == "kettle"
    assert answer["files"][0] == str(tmp_path / "two" / "index.html")
    there = {str(path) for path in (tmp_path / "two").rglob("*") if path.is_file()}
    assert set(answer["files"]) == there
    assert (tmp_path / "opened").read_text() == (tmp_path / "two" / "index.html").as_uri()
    for name in ("index.html", "metered.png", "released.svg", "released.csv", "advice.json"):
        assert (tmp_path / "two" / name).read_bytes() == (folder / name).read_bytes()


@pytest.mark.slow
def test_a_whole_day(tmp_path):
    done = run("demo", "-o", tmp_path / "demo")
    page = check_page((tmp_path / "demo" / "index.html").read_text(encoding="utf-8"))
    row = next(r for r in page.table("“evening”: in how many out of 100") if r[0] == "car charger")
    assert row[-1] != "–"
    assert "A day of “evening”, as metered" in page.prose
    assert "car charger" in done.stdout
