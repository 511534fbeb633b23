"""inspect, learn and data, run as a person runs them."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pandas as pd
import pytest

import hushmeter as hm
from tests.cli.test_commands import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    home = hm.synth.ready_home("evening")
    trace = hm.synth.trace(home, 6000, 0.99, seed=2)
    hm.write_meter(root / "home.parquet", trace)
    (root / "half.csv").write_text(
        "When,Use\n"
        + "".join(f"2024-01-01 {h:02d}:{m:02d},0.2\n" for h in range(20) for m in (0, 30))
    )
    return root


def test_inspect_says_the_regime_first(folder, tmp_path):
    done = run("inspect", folder / "home.parquet", "-o", tmp_path / "picture")
    assert done.stdout.startswith("At 6 s a reading, single appliances")
    assert (tmp_path / "picture" / "trace.png").stat().st_size > 5000
    again = run("inspect", folder / "home.parquet", "-o", tmp_path / "picture", expect=1)
    assert "exists; add --force" in again.stderr


def test_inspect_json_and_options(folder):
    options = ("--time-column", "When", "--value-column", "Use", "--unit", "kWh", "--stamp", "end",
               "--tz", "Europe/London")  # fmt: skip
    found = json.loads(run("inspect", folder / "half.csv", *options, "--json").stdout)
    assert found["interval_s"] == 1800
    assert found["start"] == "2023-12-31T23:30:00Z"
    assert found["regime"] == "occupancy"
    assert found["mean_w"] == pytest.approx(400)
    assert {"format", "readings", "end", "unit", "gaps", "duplicates"} <= set(found)


def test_inspect_names_the_next_command_with_the_given_options(folder, tmp_path):
    options = ("--time-column", "When", "--value-column", "Use", "--unit", "kWh", "--stamp", "end",
               "--tz", "Europe/London")  # fmt: skip
    said = run("inspect", folder / "half.csv", *options).stdout.splitlines()[-1]
    assert said.startswith("Next: hushmeter advise ")
    run(*shlex.split(said)[2:])
    week = tmp_path / "week.csv"
    rows = pd.date_range("2024-01-01", periods=48 * 7, freq="30min").strftime("%Y-%m-%d %H:%M")
    week.write_text("When,Use\n" + "".join(f"{row},0.2\n" for row in rows))
    said = run("inspect", week, *options).stdout.splitlines()[-1]
    assert said.startswith("Next: hushmeter release ")
    run(*shlex.split(said)[2:-1], tmp_path / "shared")
    assert (tmp_path / "shared" / "days.csv").exists()
    said = run("inspect", folder / "home.parquet").stdout.splitlines()[-1]
    assert said == f"Next: hushmeter learn {folder / 'home.parquet'} -o home.toml"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("none.csv",), 1, "is not a file"),
        (("half.csv",), 1, "does not state the unit of 'Use'"),
        (("half.csv", "--unit", "kWh"), 1, "times without a zone"),
        (("half.csv", "--unit", "pints"), 2, "unit must be one of"),
        (("half.csv", "--tz", "Nowhere"), 2, "tz must be a time zone"),
    ],
)
def test_inspect_refuses_in_one_sentence(folder, arguments, code, message):
    done = run("inspect", folder / arguments[0], *arguments[1:], expect=code)
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_learn_writes_home_and_picture(folder, tmp_path):
    out = tmp_path / "home.toml"
    done = run("learn", folder / "home.parquet", "--denoised", "-o", out)
    assert "denoised (sum of sub-meters)" in done.stdout
    assert "with the flat rule (on above 10 W)" in done.stdout
    for number in (1, 2, 3):
        assert f"Assumption {number} (" in done.stdout
    home = hm.read_home(out)
    made = hm.synth.ready_home("evening")
    assert set(home.names) <= set(made.names)
    assert home.appliances[home.index("oven")].power == pytest.approx(2600, rel=0.05)
    for suffix in (".png", ".svg", ".csv"):
        assert out.with_suffix(suffix).stat().st_size > 1000
    assert "exists; add --force" in run(
        "learn", folder / "home.parquet", "-o", out, expect=1
    ).stderr  # fmt: skip
    # what was learnt goes on to the next command
    run("attack", folder / "home.parquet", "--home", out, "-a", "multi-shot", "-o",
        tmp_path / "states.csv")  # fmt: skip


def test_learn_json_window_and_rule(folder, tmp_path):
    done = run(
        "learn", folder / "home.parquet", "-o", tmp_path / "h.toml", "--json", "--threshold", 10,
        "--min-on", "0s", "--min-off", "0s", "--to", "2024-01-15T05:00:00Z",
        "--appliance", "oven", "--appliance", "kettle",
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["rule"] == "on above 10 W"
    assert found["mains"] == "real mains"
    assert found["readings"] == 3000
    assert [c["name"] for c in found["circuits"]] == ["oven", "kettle"]
    wrong = run(
        "learn",
        folder / "half.csv",
        "-o",
        tmp_path / "x.toml",
        "--unit",
        "kWh",
        "--tz",
        "UTC",
        expect=1,
    )
    assert "has only the meter, no column per appliance" in wrong.stderr
    assert "must end in .toml" in run(
        "learn", folder / "home.parquet", "-o", tmp_path / "x.csv", expect=2
    ).stderr  # fmt: skip


def ukdale4(root):
    """House 4 around the paper's window, three circuits of eight."""
    house = root / "house_4"
    house.mkdir(parents=True)
    names = ["aggregate", "kettle_radio", "freezer", "boiler"]
    house.joinpath("labels.dat").write_text("".join(f"{i} {n}\n" for i, n in enumerate(names, 1)))
    start = 1_369_570_000  # 2013-05-26T12:06:40Z
    time_ = np.arange(4000)
    watts = [
        np.where(time_ % 900 < 30, 2300, 1), np.where(time_ % 300 < 120, 90, 0),
        np.where(time_ % 700 < 300, 120, 5),
    ]  # fmt: skip
    for i, column in enumerate([sum(watts) + 50, *watts], 1):
        text = "".join(f"{start + 6 * t + i % 3} {w}\n" for t, w in zip(time_, column, strict=True))
        house.joinpath(f"channel_{i}.dat").write_text(text)
    return root


def test_a_segment_is_the_papers_window_with_its_differences(tmp_path):
    done = run("learn", ukdale4(tmp_path / "set"), "--segment", "ukdale4", "-o", tmp_path / "out")
    assert "2013-05-26T13:03:14Z to 2013-05-26T16:54:51Z" in done.stdout
    assert "3 appliances switch, but the paper counts 8" in done.stdout
    assert "Table I prints 99.86%" in done.stdout
    trace = hm.read_home_data(tmp_path / "out" / "readings.parquet")
    assert len(trace) == pytest.approx((3 * 3600 + 51 * 60 + 37) / 6, abs=3)
    assert hm.read_home(tmp_path / "out" / "home.toml").names == trace.names


def test_a_segment_with_a_wrong_name_or_root(tmp_path):
    assert "did you mean 'redd1'" in run("learn", tmp_path, "--segment", "redd", expect=2).stderr
    assert "holds no UK-DALE" in run("learn", tmp_path, "--segment", "ukdale4", expect=1).stderr


def test_the_segment_of_the_real_redd(shared_data):
    if not (shared_data / "redd" / "redd_house1_3s.parquet").is_file():
        pytest.skip("the REDD file is absent")
    done = run("learn", shared_data / "redd", "--segment", "redd1", "--json")
    found = json.loads(done.stdout)
    assert any("99.93% above 10 W" in line and "98.76% above 1 W" in line
               for line in found["findings"])  # fmt: skip
    assert found["readings"] > 525_000


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["x", "--segment", "redd1", "--from", "2024-01-01"], "--segment has no use for --from "),
        (["x"], "name the file to write: -o home.toml"),
    ],
)
def test_learn_refuses_what_it_would_not_use(words, says):
    assert says in run("learn", *words, expect=2).stderr


def test_help_has_examples():
    for command in ("inspect", "learn", "catalogue"):
        assert f"Example: hushmeter {command}" in " ".join(run(command, "--help").stdout.split())
