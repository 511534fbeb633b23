"""Sizes, losses and cost."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

import hushmeter as hm
from hushmeter.apps.battery import Battery, choose_control
from hushmeter.apps.battery.guarantee import (
    Prices,
    bound_saturation,
    expect_year,
    horizon_readings,
    least_epsilon,
    simulate_saturation,
    size_battery,
    size_table,
)
from hushmeter.errors import InputError
from hushmeter.privacy.units import calibrate, resolve_unit

HOME = hm.synth.ready_home("evening")
UNIT = resolve_unit(span="run", home=HOME, appliance="kettle", interval_s=6.0, every="30min")
EVERY = 1800.0


@pytest.mark.parametrize("controller", ["direct", "reserved", "lookahead"])
@pytest.mark.parametrize("efficiency", [0.8, 1.0])
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_a_sized_battery_keeps_its_promise(controller, efficiency, kind):
    mechanism = calibrate(kind, 1.0, UNIT)
    size = size_battery(
        mechanism,
        UNIT,
        interval_s=EVERY,
        max_failure=0.02,
        efficiency=efficiency,
        controller=controller,
    )
    battery = Battery(size.capacity_kwh, size.power_kw, efficiency=efficiency, interval_s=EVERY)
    control = choose_control(controller, 48)
    assert bound_saturation(mechanism, battery, control) <= 0.02 * (1 + 1e-6)
    seen = simulate_saturation(mechanism, battery, control, horizons=4000)
    assert seen.saturated / 4000 <= 0.02


def test_sizes_grow_with_privacy_horizon_and_care():
    table = size_table(UNIT, [0.5, 1.0, 2.0], controllers=("direct",), interval_s=EVERY)
    assert [row.epsilon for row in table] == [0.5, 1.0, 2.0]
    for less, more in pairwise(table):
        assert less.capacity_kwh > more.capacity_kwh
        assert less.power_kw > more.power_kw
        assert less.year.cost > more.year.cost
    mechanism = calibrate("laplace", 1.0, UNIT)
    day = size_battery(mechanism, UNIT, interval_s=EVERY)
    week = size_battery(mechanism, UNIT, interval_s=EVERY, horizon="7d")
    careful = size_battery(mechanism, UNIT, interval_s=EVERY, max_failure=1e-6)
    assert week.capacity_kwh > 2 * day.capacity_kwh
    assert careful.capacity_kwh > day.capacity_kwh
    assert careful.power_kw > day.power_kw


def test_a_year_is_what_a_simulation_adds_up_to():
    mechanism = calibrate("laplace", 1.0, UNIT)
    battery = Battery(20.0, 10.0, efficiency=0.85, interval_s=EVERY)
    year = expect_year(mechanism, battery, Prices())
    seen = simulate_saturation(mechanism, battery, choose_control("direct", 48), horizons=5000)
    assert 365 * seen.lost_kwh == pytest.approx(year.loss_kwh, rel=0.02)
    assert 365 * seen.taken_kwh / 20 == pytest.approx(year.cycles, rel=0.02)
    assert year.cost == pytest.approx(year.loss_kwh * 0.3 + 20 * 400 / year.life_years)
    ideal = expect_year(mechanism, Battery(20.0, 10.0, efficiency=1.0, interval_s=EVERY), Prices())
    assert ideal.loss_kwh == 0
    worn = expect_year(mechanism, Battery(0.5, 10.0, interval_s=EVERY), Prices(cycle_life=300))
    assert worn.life_years < 1


def test_the_least_epsilon_is_just_served():
    battery, control = Battery(10.0, 5.0, interval_s=EVERY), choose_control("direct", 48)
    least = least_epsilon(UNIT, battery, control)
    assert bound_saturation(calibrate("laplace", least, UNIT), battery, control) <= 0.01
    assert bound_saturation(calibrate("laplace", least / 1.05, UNIT), battery, control) > 0.01
    tiny = Battery(1e-6, 1e-6, interval_s=EVERY)
    assert least_epsilon(UNIT, tiny, control) is None


def test_bad_wishes_are_refused():
    mechanism = calibrate("laplace", 1.0, UNIT)
    for bad in (0.0, 1.0, math.nan):
        with pytest.raises(InputError, match="max_failure must"):
            size_battery(mechanism, UNIT, interval_s=EVERY, max_failure=bad)
    with pytest.raises(InputError, match="1e-15 is too small for 48 readings"):
        size_battery(mechanism, UNIT, interval_s=EVERY, max_failure=1e-15)
    with pytest.raises(InputError, match="horizon must be a time"):
        horizon_readings("soon", 6.0)
    with pytest.raises(InputError, match="battery price must be finite"):
        Prices(capacity=-1.0)
