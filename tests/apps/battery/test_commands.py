"""`hushmeter battery` and `hushmeter price`."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from tests.cli import changed
from tests.cli.test_commands import run

import hushmeter as hm
from hushmeter.files import write_table


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    folder = tmp_path_factory.mktemp("adopters")
    home = hm.synth.ready_home("evening").subset(["kettle", "fridge", "television"])
    trace = hm.synth.trace(home, 6000, seed=2)
    home.save(folder / "home.toml")
    columns = {"timestamp": trace.times, "watts": trace.readings}
    write_table(folder / "meter.csv", columns)
    columns |= dict(zip(home.names, trace.power.T, strict=True))
    write_table(folder / "sub.csv", columns)
    return folder


def battery(case, *more, file="meter.csv", expect=0):
    base = ("battery", case / file, "--home", case / "home.toml")
    return run(*base, *more, expect=expect)


HALF_HOUR = ("-e", 1, "--appliance", "kettle", "--span", "run", "--every", "30min", "--days", 200)


def test_battery_promises_sizes_and_draws(case, tmp_path):
    size = ("--capacity", 10, "--power", 5)
    done = battery(case, *HALF_HOUR, *size, "-o", tmp_path, file="sub.csv")
    assert "whether the kettle is on (2100 W), over one run of up to 3 minutes" in done.stdout
    assert "0 of 200 simulated horizons of 24 h" in done.stdout
    assert "without the battery" in done.stdout
    assert "Sizes that fail in at most 0.01" in done.stdout
    for name in ("battery", "controllers", "exposure", "sizing"):
        for kind in ("png", "svg", "csv"):
            assert (tmp_path / f"{name}.{kind}").stat().st_size > 100
    table = np.genfromtxt(tmp_path / "battery.csv", delimiter=",", names=True)
    assert (table["state_of_charge"] <= 1).all()
    again = battery(case, *HALF_HOUR, *size, "-o", tmp_path, file="sub.csv", expect=1)
    assert "exists; add --force" in again.stderr


def test_battery_as_json_without_truth(case):
    done = battery(
        case, *HALF_HOUR, "--capacity", 10, "--power", 5, "--controller", "reserved", "--json"
    )
    answer = json.loads(done.stdout)
    assert answer["guarantee"]["epsilon"] > 1
    assert answer["guarantee"]["failure"] <= answer["guarantee"]["bound"]
    assert answer["battery"]["interval_s"] == 1800
    assert answer["with_battery"] is None
    assert len(answer["sizing"]) == 10


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (("--capacity", 0, "--power", 5), 2, "capacity [kWh] must be positive"),
        (("--capacity", -3, "--power", 5), 2, "capacity [kWh] must be positive"),
        (("--capacity", 10, "--power", 0), 2, "power [kW] must be positive"),
        (("--capacity", 10, "--power", 5, "--efficiency", 1.1), 2, "efficiency must lie in"),
        (("--capacity", 10, "--power", 5, "--interval", "6s"), 2, "the meter reports every 1800 s"),
        (("--capacity", 10, "--power", 5, "--every", "7s"), 2, "every must be a whole multiple"),
        (("--capacity", 10, "--power", 5, "--controller", "x"), 2, "controller must be one of"),
        (("--capacity", 10, "--power", 5, "-e", 0.02), 1, "kWh and"),
    ],
)
def test_bad_batteries_are_one_sentence(case, more, code, message):
    done = battery(case, *changed(HALF_HOUR, more), expect=code)
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_hopeless_epsilon_names_the_battery_and_the_epsilon_that_would(case):
    words = changed(HALF_HOUR, ("-e", 0.05, "--capacity", 10, "--power", 5))
    done = battery(case, *words, expect=1)
    assert "in 200 of 200 horizons" in done.stderr
    assert "would fail in at most 0.01 of them, and this battery serves ε from" in done.stderr
    shown = battery(case, *words, "--anyway")
    assert "guarantees almost nothing" in shown.stdout


def test_a_meter_of_7_seconds_has_prices_and_a_battery(tmp_path):
    home = hm.synth.ready_home("evening")
    home.save(tmp_path / "home.toml")
    hm.write_meter(tmp_path / "meter.csv", hm.synth.trace(home, 12_343, interval_s=7.0, seed=1))
    done = battery(tmp_path, *HALF_HOUR, "--capacity", 10, "--power", 5)
    assert "does not divide 30min; means over 1799 s are used" in done.stdout
    base = ("price", "--home", tmp_path / "home.toml", "--trace", tmp_path / "meter.csv")
    assert "A trade is worthwhile" in run(*base, "-e", "0.3,3").stdout
    half_hours = run(*base, "-e", "0.3,3", "--every", "30min").stdout
    assert "on readings of 1799 s" in half_hours


def price(case, *more, expect=0):
    base = ("price", "--home", case / "home.toml", "--trace", case / "meter.csv")
    return run(*base, "-e", "0.1,0.3,1,3", *more, expect=expect)


def test_price_prints_the_menu_with_its_assumptions(case, tmp_path):
    done = price(case, "--harm", "kettle=30", "--buyer", "value=50,use=forecast", "-o", tmp_path)
    assert "The same with other assumptions" in done.stdout
    assert "Assumed: The harm in a year without any protection is: kettle 30." in done.stdout
    assert "pays 50 a year for perfect data" in done.stdout
    for kind in ("png", "svg", "csv"):
        assert (tmp_path / f"prices.{kind}").stat().st_size > 100


def test_price_as_json(case):
    answer = json.loads(price(case, "--harm", "kettle=0", "--json").stdout)
    assert all(entry["compensation"] == 0 for entry in answer["menu"])
    assert answer["best"]["epsilon"] == 3
    assert len(answer["assumptions"]) == 6
    assert "as assumed" in answer["sensitivity"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--harm", "kettle"), "--harm takes name=number"),
        (("--harm", "ketle=3"), "did you mean 'kettle'?"),
        (("--buyer", "value=much"), "--buyer takes name=number"),
        (("--buyer", "valeu=3"), "did you mean 'value'?"),
        (("--buyer", "use=spying"), "the buyer's use must be one of"),
        (("--mechanism", "magic"), "mechanism must be one of"),
    ],
)
def test_bad_prices_are_one_sentence(case, more, message):
    done = price(case, *more, expect=2)
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_help_stays_light():
    code = "import hushmeter.cli, sys; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    for name in ("battery", "price"):
        assert "Example:" in run(name, "--help").stdout
