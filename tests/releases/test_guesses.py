"""The table of odds: no row about a day, or about all days, is below what an attacker attains."""

from __future__ import annotations

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.noise.gaussian import joint_odds
from hushmeter.releases.labels import VIEWS
from hushmeter.releases.promise import promise_of

DAYS = 10
TRACE = hm.Trace(np.random.default_rng(0).gamma(1.0, 300.0, 24 * DAYS), 3600.0, "2024-03-28T00:00Z")
# Two runs a day, of 105 Wh each.
KETTLE = hm.Appliance("kettle", 2100.0, run_s=180.0, use_s_per_day=360.0)


@pytest.mark.parametrize("span", ["run", "day"])
@pytest.mark.parametrize(
    "tables", [(), VIEWS, ("days", "months"), ("months",), ("days", "peak = weekdays 16:00-21:00")]
)
def test_odds_about_days_cover_an_attacker_who_knows_everything_else(tables, span):
    """Usual use at the same hour of one day, or of all days, against none at all."""
    noise = {} if tables else {"mechanism": "gaussian"}
    request = hm.Request(hide=KETTLE, odds=53, every="1h", tables=tables, span=span, **noise)
    promise = request.resolve(hm.metered(TRACE))
    stated = {guess.name: guess.odds for guess in promise.guesses}
    before = promise.exact_sums(TRACE)
    attained = {}
    for name, days in (("day", 1), ("file", DAYS)):
        used = TRACE.readings.copy()
        used[18 : 24 * days : 24] += 210
        after = promise.exact_sums(TRACE.replace_readings(used))
        moved = np.array([np.linalg.norm(b - a) for a, b in zip(before, after, strict=True)])
        attained[name] = joint_odds(promise.noises, moved)
        assert attained[name] <= stated[name] < 0.95
    assert attained["file"] > stated["day"]
    # The bounds are not loose.
    assert attained["day"] - 0.5 > 0.9 * (stated["day"] - 0.5)
    assert attained["file"] - 0.5 > 0.6 * (stated["file"] - 0.5)


@pytest.mark.parametrize(("days", "rows"), [(1, []), (2, ["all 2 days together"])])
def test_a_file_of_one_day_has_no_row_about_all_days(days, rows):
    promise = hm.Request(hide=KETTLE, tables=VIEWS).resolve(hm.metered(TRACE[: 24 * days]))
    assert [guess.about for guess in promise.guesses if guess.name == "file"] == rows


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_of_several_appliances_every_row_has_the_odds_of_the_worst_one(mechanism):
    """One run of the heater takes more energy, and one day of the kettle."""
    heater = hm.Appliance("heater", 1000.0, run_s=1800.0, use_s_per_day=1800.0)
    kettle = hm.Appliance("kettle", 2100.0, run_s=180.0, use_s_per_day=3600.0)

    def rows(*appliances):
        home = hm.Home(appliances)
        unit = hm.resolve_unit("appliance", "run", interval_s=60.0, home=home)
        promise = promise_of(noise, unit, hm.Metered(60.0), home)
        return {guess.name: guess.odds for guess in promise.guesses}

    noise = hm.Gaussian(1, 1e-6, 9e3) if mechanism == "gaussian" else hm.Laplace(1, 9e3)
    alone = rows(heater), rows(kettle)
    wanted = {name: max(one[name] for one in alone) for name in alone[0]}
    assert rows(heater, kettle) == rows(kettle, heater) == wanted
    assert list(wanted) == ["run", "unknown", "habit", "value", "day", "file"]
    assert wanted["run"] == alone[0]["run"] > alone[1]["run"]
    assert wanted["day"] == alone[1]["day"] > alone[0]["day"]
