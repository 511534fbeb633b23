"""What attackers see behind a battery."""

from __future__ import annotations

import math

import pytest

import hushmeter as hm
from hushmeter.apps.battery import Battery, choose_control, operate
from hushmeter.apps.battery.guarantee import (
    BatteryCase,
    Prices,
    assess_guarantee,
    attack_metered,
    expect_year,
    mean_visibility,
    tell_guarantee,
    tell_visibility,
)
from hushmeter.privacy.units import calibrate, resolve_unit

HOME = hm.synth.ready_home("evening")
LOAD = hm.synth.trace(HOME, 7200, seed=1)
UNIT = resolve_unit(home=HOME, appliance="television", interval_s=6.0)
NOISE = calibrate("laplace", 1.0, UNIT)


def make_case(battery, control):
    return BatteryCase(HOME, LOAD, UNIT, NOISE, battery, control, Prices(), 0.01, seed=0)


def test_visibility_rises_where_the_battery_fails():
    control = choose_control("direct", 7200)
    sizes = [0.0002, 0.0005, 0.002, 0.4, 1.0]
    sweep = make_case(Battery(1.0, 3.0), control).sweep_capacity(sizes, horizons=50)
    small, large = sweep[:3], sweep[3:]
    assert all(point.rate == 1 and point.bound == 1 for point in small)
    assert all(point.rate == 0 and point.bound < 1e-3 for point in large)
    assert small[0].cut_share > small[1].cut_share > small[2].cut_share > 0.05
    assert small[0].visibility > small[1].visibility > small[2].visibility
    # Where the promise holds, one battery hides as well as any other.
    assert large[0].visibility == large[1].visibility
    assert small[2].visibility > large[0].visibility + 0.01
    assert small[0].visibility > large[0].visibility + 0.1


def test_controllers_side_by_side():
    control = choose_control("reserved", 7200)
    runs = make_case(Battery(0.5, 3.0), control).compare_controllers()
    assert list(runs) == ["direct", "reserved", "lookahead", "flatten", "stepping"]
    seen = {
        name: mean_visibility(attack_metered(LOAD, run.metered, HOME)) for name, run in runs.items()
    }
    assert seen["direct"] == seen["lookahead"]
    assert all(value < 0.6 for value in seen.values())
    assert mean_visibility(attack_metered(LOAD, LOAD, HOME)) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("name", ["direct", "reserved"])
def test_sentences_give_numbers_and_the_unit(name):
    control, battery = choose_control(name, 2400), Battery(0.5, 3.0)
    found = assess_guarantee(NOISE, UNIT, battery, control, horizons=100)
    year = expect_year(NOISE, battery, Prices())
    told = " ".join(tell_guarantee(found, UNIT, battery, control, year))
    assert "whether the television is on (110 W), in one metered reading of 6 s" in told
    assert "0 of 100 simulated horizons of 4 h" in told
    assert ("reveals sums of readings" in told) == (name == "reserved")
    before = attack_metered(LOAD, LOAD, HOME)
    after = attack_metered(LOAD, operate(LOAD, battery, NOISE, rng=0).metered, HOME)
    lines = tell_visibility(before, after)
    assert len(lines) == len(HOME)
    assert "without the battery in over 99.9; a guess without your data is right in" in lines[0]


def test_batteries_that_cannot_help_are_reported():
    control, battery = choose_control("direct", 7200), Battery(0.001, 3.0)
    found = assess_guarantee(NOISE, UNIT, battery, control, horizons=50)
    assert found.delta == 1
    told = tell_guarantee(found, UNIT, battery, control, expect_year(NOISE, battery, Prices()))
    assert any("guarantees almost nothing" in line for line in told)


def test_nothing_to_see_is_not_a_number():
    still = hm.Trace([100.0, 100.0], 6.0, states=[[1], [1]], names=["lamp"])
    one = hm.Home([hm.Appliance("lamp", 100.0)], 2.0)
    assert math.isnan(mean_visibility(attack_metered(still, still, one, attacker="hold")))


def test_the_attacker_knows_the_constant_power_that_charges_a_vehicle():
    """With hardly any noise the meter shows load plus upkeep, which hides nothing."""
    store = Battery(40.0, 7.0, charge=0.4, interval_s=1800.0, away=(8, 17), trip_kwh=9.0)
    home = HOME.subset(["kettle", "heat pump", "oven"])
    load = hm.synth.trace(home, 48 * 20, interval_s=1800.0, seed=3)
    noise = hm.Laplace(20.0, 1.0, grid=1.0)
    unit = hm.resolve_unit(home=home, interval_s=1800.0)
    load, control = store.at_home(load), choose_control("direct", 30)
    case = BatteryCase(home, load, unit, noise, store, control, Prices(), 0.01, 0)
    done = operate(load, store, noise, control, rng=1)
    assert done.upkeep_w > 500
    before, after = case.attack(done, "co")
    assert after.alpha == pytest.approx(before.alpha, abs=0.02)
