"""The statements about a lone meter, on real homes with known truth."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hushmeter as hm
from hushmeter.errors import InputError
from hushmeter.learn.habits import CERTAINTIES
from hushmeter.trace import Trace
from tests.learn.real_homes import ZONES, away_days, read_real_home

HOMES = tuple(ZONES)
HOUR = 3600


@pytest.fixture(scope="module")
def homes(shared_data):
    read = {}

    def get(name):
        if name not in read:
            read[name] = read_real_home(shared_data, name)
        return read[name]

    return get


def found_at(home, interval_s):
    trace = home.trace
    if interval_s > trace.interval_s:
        trace = trace.coarsen(interval_s)
    return hm.findings(trace, tz=home.zone)


def of_kind(found, kind):
    (finding,) = found.of_kind(kind)
    return finding


@pytest.mark.parametrize("name", HOMES)
def test_the_base_load_of_quarter_hours_is_that_of_minutes(homes, name):
    fine = of_kind(found_at(homes(name), 60), "base-load")
    coarse = of_kind(found_at(homes(name), 900), "base-load")
    assert coarse.evidence["watts"] == pytest.approx(fine.evidence["watts"], abs=5)
    assert coarse.certainty == "about"


def test_nights_of_one_power_have_no_range():
    """A range from 120 W to 120 W would say nothing."""
    hours = np.tile(np.where(np.arange(24) < 7, 120.0, 400.0), 30)
    found = hm.findings(hm.Trace(hours, 3600.0, "2024-03-01T00:00Z"), tz="UTC")
    assert of_kind(found, "night").sentence.endswith("the home draws about 120 W.")


@pytest.mark.parametrize("name", HOMES)
@pytest.mark.parametrize("interval_s", [900, 1800, 3600])
def test_no_car_is_found_in_homes_without_one(homes, name, interval_s):
    assert found_at(homes(name), interval_s).of_kind("car-charger") == ()


@pytest.mark.parametrize("interval_s", [60, 900, 3600])
def test_no_habits_are_stated_where_nights_are_uneven(homes, interval_s):
    found = found_at(homes("REDD 6"), interval_s)
    kinds = {finding.kind for finding in found.findings}
    assert not kinds & {"first-use", "last-use", "workday-empty", "active-hours", "away"}
    assert any("Not found" in reason for reason in found.withheld)


@pytest.mark.parametrize(("name", "least"), [("REFIT 2", 900), ("UK-DALE 2", 300)])
def test_kettles_are_kettles(homes, name, least):
    home = homes(name)
    kettle = of_kind(found_at(home, 60), "kettle")
    assert kettle.certainty == "at least"
    assert kettle.evidence["count"] == len(kettle.marks) >= least
    watts = home.circuits["Kettle"]
    correct = [
        watts[slice(*np.searchsorted(home.utc, [start - 60, end + 60]))].max(initial=0) > 1000
        for start, end in kettle.marks
    ]
    assert np.mean(correct) >= 0.95


def test_days_away_are_found_and_frozen_readings_are_not_absences(homes):
    home = homes("REFIT 2")
    found = found_at(home, 60)
    away = of_kind(found, "away")
    stated = {np.datetime64(day) for day in away.evidence["dates"]}
    truth = away_days(home, home.trace)
    assert len(truth) == 28
    assert len(stated & truth) >= 24
    assert len(stated - truth) <= 1
    assert np.diff(found.silent, axis=1).sum() / 86_400 > 120


def test_marks_lie_within_the_readings_and_everything_is_plain(homes):
    home = homes("UK-DALE 2")
    found = found_at(home, 60)
    first, last = home.utc[0], home.utc[-1] + 60
    for finding in found.findings:
        assert finding.certainty in CERTAINTIES
        assert finding.sentence.endswith(".")
        if finding.marks.size:
            assert (np.diff(finding.marks, axis=1) > 0).all()
            assert finding.marks.min() >= first - 86_400
            assert finding.marks.max() <= last + 86_400


@settings(max_examples=60)
@given(
    st.sampled_from([1, 7, 10, 30, 40, 60, 90, 300, 600, 1000, 1800, 3600, 7200, 86_400]),
    st.sampled_from([1, 2, 60, 900, 6000]),
    st.sampled_from(["UTC", "Europe/London", "Australia/Lord_Howe", "Asia/Kathmandu"]),
    st.integers(0, 1000),
)
def test_any_readings_give_plain_findings(interval_s, count, zone, seed):
    rng = np.random.default_rng(seed)
    watts = rng.gamma(2, 200, count) - rng.choice([0, 600])
    watts[rng.random(count) < rng.choice([0, 0.2])] = 0.0
    steps = np.cumsum(rng.integers(1, 3, count)) if seed % 2 else None
    trace = Trace(watts, interval_s, "2024-03-01T00:13:20Z", steps=steps)
    found = hm.findings(trace, tz=zone)
    json.dumps(found.to_dict(), allow_nan=False)
    assert all(finding.sentence.endswith(".") for finding in found.findings)


PRIVATE = {
    f"hushmeter.{name}"
    for name in ("learn.habits", "learn.rhythm", "learn.load_events", "learn.statements",
                 "threat.remaining")
}  # fmt: skip
"""Modules whose results depend on the readings and are shown to the household only."""
ALLOWED = ("hushmeter.learn.inspection", "hushmeter.threat.", "hushmeter.apps.plot.",
           "hushmeter.cli.", "hushmeter.apps.page.", "hushmeter.apps.study.report.")  # fmt: skip
"""Modules that show findings."""


def imported_by(path):
    """Absolute names of everything that a module imports, inside functions too."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def test_nothing_that_makes_a_release_imports_the_findings():
    root = Path(hm.__file__).parent
    users, seen = set(), 0
    for path in root.rglob("*.py"):
        module = ".".join(("hushmeter", *path.relative_to(root).with_suffix("").parts))
        if module in PRIVATE or module == "hushmeter.__init__":
            continue
        seen += 1
        if imported_by(path) & (PRIVATE | {"hushmeter.findings"}):
            users.add(module)
    assert seen > 100
    assert "hushmeter.learn.inspection" in users
    assert {user for user in users if not user.startswith(ALLOWED)} == set()


@pytest.mark.parametrize(
    "module",
    [
        "advice",
        "advice.sentences",
        "releases.search",
        "privacy.units",
        "cli.release",
    ],
)
def test_a_release_runs_without_the_findings_being_loaded(module):
    code = (
        f"import sys, hushmeter.{module}; "
        f"loaded = set(sys.modules) & {PRIVATE!r}; assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_wrong_zone_is_refused():
    with pytest.raises(InputError, match="time zone"):
        hm.findings(Trace(np.ones(48), HOUR), tz="Mars/Olympus")


def test_one_value_is_not_a_home():
    found = hm.findings(Trace(np.full(24 * 30, 250.0), HOUR, "2024-01-01T00:00Z"))
    assert found.findings == ()
    assert found.withheld[0].startswith("This is not the load of a home")


def test_mostly_zeros_are_not_a_home(rng):
    watts = rng.uniform(100, 900, 24 * 30) * (rng.random(24 * 30) < 0.5)
    found = hm.findings(Trace(watts, HOUR, "2024-01-01T00:00Z"))
    assert found.findings == ()
    assert "readings are zero" in found.withheld[0]


def test_one_day_is_too_short_for_habits(rng):
    found = hm.findings(Trace(rng.uniform(100, 900, 1440), 60, "2024-01-01T00:00Z"))
    assert found.findings == ()
    assert found.withheld == (
        "Habits need 5 complete days (4:00 to 4:00), absences 14; the readings have 0.",
        "Appliances need at least 3 days of readings.",
    )


def test_daily_readings_show_no_habits_within_a_day(rng):
    found = hm.findings(Trace(rng.uniform(100, 900, 60), 86_400, "2024-01-01T00:00Z"))
    assert found.findings == ()
    assert found.withheld == ("Readings of 1 day do not show habits within a day.",)


def test_an_unknown_zone_is_stated(rng):
    trace = Trace(rng.uniform(100, 900, 240), HOUR, "2024-01-01T00:00Z")
    assert any("`tz=" in note for note in hm.findings(trace).notes)
    assert not any("`tz=" in note for note in hm.findings(trace, tz="Europe/Rome").notes)


@pytest.mark.parametrize("seed", [3000, 3078, 3091])
def test_nights_in_use_are_no_days_away(seed):
    """People in changing shifts are up at night; a quiet day is one on which they sleep."""
    habits = hm.synth.Habits(works_away=True, shifted_h=(0.0, 7.0, 14.0), trips_per_month=0)
    home = hm.synth.household(days=42, interval_s=HOUR, habits=habits, seed=seed)
    assert hm.findings(home.trace, tz=home.zone).of_kind("away") == ()


@pytest.mark.parametrize(("load", "months"), [("electric heating", (11, 12, 1)), (None, ())])
def test_seasons_are_those_of_the_weather(load, months):
    names = [name for name in ("fridge", "kettle", "oven", load) if name]
    habits = hm.synth.Habits(trips_per_month=2)
    for seed in range(4):
        home = hm.synth.household(
            days=365, interval_s=HOUR, appliances=names, habits=habits, seed=seed
        )
        found = hm.findings(home.trace, tz=home.zone).of_kind("season")
        assert [one.evidence["high_month"] in months for one in found] == [True] * bool(load)


def test_the_night_is_the_mean_of_its_hours():
    """A heater that runs for a third of the time has another median."""
    watts = np.tile([2000.0, 100.0, 100.0], 16 * 30) + np.arange(16 * 90) % 7
    found = hm.findings(Trace(watts, 1800, "2024-01-01T00:00Z"), tz="UTC")
    (night,) = found.of_kind("night")
    assert night.evidence["watts"] == pytest.approx(733 + 3, abs=10)


def evenings(days):
    """Half hours of a home in which people get up and cook at times of their own."""
    rng = np.random.default_rng(5)
    watts = 100 + rng.uniform(0, 10, (days, 48))
    for number, day in enumerate(watts):
        wake = 13 + rng.integers(0, 2) + 3 * (number % 7 >= 5)
        day[wake:44] += rng.exponential(120, 44 - wake)
        day[[wake, 38 + rng.integers(0, 2)]] += 1500
    return watts


def states_of(watts):
    return hm.findings(Trace(watts.ravel(), 1800, "2024-01-01T00:00Z"), tz="UTC")


def test_a_first_use_as_regular_as_a_timer_is_stated_as_one():
    people, timer = evenings(56), evenings(56)
    timer[:, 10] += 2000
    assert "timer" not in of_kind(states_of(people), "first-use").sentence
    assert "may be that of a timer." in of_kind(states_of(timer), "first-use").sentence


def test_an_absence_at_the_start_is_no_change_of_a_habit():
    watts = evenings(70)
    watts[:14] = 100 + np.random.default_rng(6).uniform(0, 10, (14, 48))
    found = states_of(watts)
    assert found.of_kind("returns")
    assert of_kind(found, "away").evidence["count"] == 14
    assert found.of_kind("change") == ()


def test_days_away_that_are_not_found_are_not_passed_over():
    assert any("days away" in reason for reason in states_of(evenings(56)).withheld)


def days_of(rng, extra, interval_s, weeks=30):
    """A home that uses 10 kWh a day, and more between 9:00 and 15:00 on some weekdays [W]."""
    hours = np.arange(0, weeks * 7 * 24, 1.0)
    weekday, clock = (hours // 24) % 7, hours % 24
    load = np.where((clock >= 7) & (clock < 23), 500.0, 150.0)
    usual = np.repeat(rng.uniform(0.8, 1.2, weeks * 7), 24)
    watts = usual * load + rng.normal(0, 20, hours.size)
    for day, more in extra.items():
        watts += more * ((weekday == day) & (clock >= 9) & (clock < 15))
    trace = Trace(np.round(watts), 3600.0, "2024-01-01T00:00Z")
    return trace if interval_s == 3600 else trace.coarsen(interval_s)


@pytest.mark.parametrize("interval_s", [3600, 86_400])
@pytest.mark.parametrize(
    ("extra", "stated"),
    [
        ({0: 8000.0}, False),  # Mondays alone
        ({5: 4000.0}, False),  # Saturdays alone
        ({0: 8000.0, 2: 8000.0}, False),  # Mondays and Wednesdays
        ({5: 1500.0, 6: 1500.0}, True),
        ({5: 3000.0, 6: 3000.0, 2: 700.0}, True),
    ],
)
def test_what_one_weekday_does_is_no_difference_of_weekends(rng, extra, stated, interval_s):
    """A car that was charged on Mondays made "weekends .47 times as much"."""
    found = hm.findings(days_of(rng, extra, interval_s), tz="UTC")
    if interval_s == 86_400 and len(extra) == 2 and not stated:
        return  # Sums of days have no events, and two days are as many as a weekend has.
    assert bool(found.of_kind("weekend")) == stated
    kinds = [one.kind for one in found.findings]
    if interval_s == 3600 and not stated:
        assert {one.evidence["weekday"] for one in found.of_kind("weekly")} == set(extra)
    if {"weekly", "weekend"} <= set(kinds):
        assert kinds.index("weekly") < kinds.index("weekend")
