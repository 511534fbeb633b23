"""The storage, its controllers and what reaches the meter."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hushmeter as hm
from hushmeter.apps.battery import (
    BASELINES,
    CONTROLLERS,
    Battery,
    choose_control,
    hide_load,
    operate,
    operate_noise,
)
from hushmeter.apps.battery.battery import noise_distribution, stored_power, upkeep_power
from hushmeter.apps.battery.guarantee import simulate_saturation
from hushmeter.errors import InputError

KEY = bytes(range(32))
HOME = hm.synth.ready_home("evening")


@st.composite
def batteries(draw):
    numbers = st.floats(0.05, 20.0)
    return Battery(
        draw(numbers),
        draw(numbers),
        draw(numbers),
        efficiency=draw(st.floats(0.3, 1.0)),
        charge=draw(st.floats(0.0, 1.0)),
        interval_s=draw(st.sampled_from([1.0, 6.0, 60.0, 1800.0])),
    )


@settings(max_examples=60)
@given(
    battery=batteries(),
    name=st.sampled_from([*CONTROLLERS, *BASELINES]),
    seed=st.integers(0, 2**31),
    scale=st.floats(1.0, 2e4),
)
def test_energy_closes_and_limits_hold(battery, name, seed, scale):
    rng = np.random.default_rng(seed)
    load = hm.Trace(rng.uniform(0, 9000, 150), battery.interval_s)
    if name in BASELINES:
        done = hide_load(load, battery, name)
    else:
        control = choose_control(name, 150, pull=float(rng.uniform(0.001, 0.4)))
        noise = rng.laplace(0, scale, 150)
        done = operate_noise(load, battery, noise, control, upkeep_w=float(rng.uniform(0, 50)))
    before = np.concatenate([[0.0], done.stored_wh[:-1]])
    stored = battery.hours * stored_power(done.battery_w, battery)
    np.testing.assert_allclose(done.stored_wh, before + stored, rtol=0, atol=1e-9)
    above, below, charge, discharge, *_ = battery.limits
    assert (done.stored_wh <= above).all()
    assert (done.stored_wh >= -below).all()
    assert (done.battery_w <= charge).all()
    assert (done.battery_w >= -discharge).all()
    assert done.loss_kwh >= -1e-12
    if battery.efficiency == 1:
        assert done.loss_kwh == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("name", ["direct", "lookahead"])
@pytest.mark.parametrize("mechanism", [hm.Laplace(0.5, 110.0), hm.Gaussian(1.0, 1e-6, 60.0)])
def test_an_infinite_battery_is_the_mechanism(name, mechanism):
    trace = hm.synth.trace(HOME, 2000, seed=3)
    ideal = Battery(math.inf, math.inf)
    done = operate(trace, ideal, mechanism, name, key=KEY)
    assert (done.noise_w == done.target_w).all()
    assert not done.saturated.any()
    released = mechanism.release(trace.readings, key=KEY)
    assert (done.metered.readings == released).all()


def test_a_large_lossy_battery_is_the_mechanism_on_a_load_moved_by_the_upkeep():
    trace = hm.synth.trace(HOME, 2000, seed=3)
    mechanism = hm.Laplace(1.0, 110.0)
    done = operate(trace, Battery(50.0, 50.0, efficiency=0.8), mechanism, key=KEY)
    assert done.upkeep_w > 0
    moved = mechanism.release(trace.readings + done.upkeep_w, key=KEY)
    assert (done.metered.readings == moved).all()
    assert (done.noise_w == done.target_w).all()


@pytest.mark.parametrize("efficiency", [0.5, 0.9, 0.99])
def test_upkeep_balances_the_losses(efficiency):
    from scipy.optimize import brentq

    mechanism, battery = hm.Laplace(1.0, 110.0), Battery(10.0, 5.0, efficiency=efficiency)
    places, masses = noise_distribution(mechanism)
    watts = places * mechanism.grid

    def drift(u):
        return float(stored_power(watts + u, battery) @ masses)

    assert upkeep_power(mechanism, battery) == pytest.approx(brentq(drift, 0, 1e3), rel=1e-9)
    assert upkeep_power(mechanism, Battery(10.0, 5.0, efficiency=1.0)) == 0


def test_very_wide_noise_is_gathered():
    fine, wide = hm.Laplace(0.1, 5000.0), hm.Laplace(0.1, 5000.0, grid=0.01)
    battery = Battery(10.0, 5.0, interval_s=60.0)
    assert noise_distribution(wide)[0].size < 2_000_000
    assert noise_distribution(wide)[1].sum() == pytest.approx(1)
    assert upkeep_power(wide, battery) == pytest.approx(upkeep_power(fine, battery), rel=1e-3)
    spread = math.sqrt(float(noise_distribution(wide)[0] ** 2 @ noise_distribution(wide)[1])) * 0.01
    assert spread == pytest.approx(wide.std, rel=1e-6)


def test_the_noise_never_depends_on_the_load():
    mechanism, battery = hm.Laplace(1.0, 500.0), Battery(0.05, 1.0)
    one, other = hm.synth.trace(HOME, 3000, seed=1), hm.synth.trace(HOME, 3000, seed=2)
    for name in CONTROLLERS:
        first = operate(one, battery, mechanism, name, key=KEY)
        second = operate(other, battery, mechanism, name, key=KEY)
        assert first.saturated.any()
        assert (first.battery_w == second.battery_w).all()


def test_reserved_keeps_room_where_direct_saturates():
    mechanism, battery = hm.Laplace(1.0, 110.0), Battery(0.06, 3.0)
    rates = {
        name: simulate_saturation(
            mechanism, battery, choose_control(name, 14_400), horizons=100
        ).saturated
        for name in ("direct", "reserved")
    }
    assert rates["direct"] > 40
    assert rates["reserved"] == 0


@pytest.mark.parametrize("ahead", [1, 7, 100, 5000])
def test_lookahead_fails_exactly_when_direct_does_and_softer(ahead):
    rng = np.random.default_rng(5)
    trace, battery = hm.Trace(np.full(600, 500.0), 60.0), Battery(0.4, 1e3, interval_s=60.0)
    failures = 0
    for _ in range(60):
        noise = rng.laplace(0, 300, 600)
        direct = operate_noise(trace, battery, noise, choose_control("direct", 600))
        control = choose_control("lookahead", 600, ahead=ahead)
        soft = operate_noise(trace, battery, noise, control)
        assert direct.saturated.any() == soft.saturated.any()
        failures += direct.saturated.any()
        if direct.saturated.any() and ahead >= 100:
            most = np.abs(direct.noise_w - noise).max()
            assert np.abs(soft.noise_w - noise).max() <= most + 1e-6
    assert 5 < failures < 60


def test_flatten_holds_and_stepping_steps():
    load = hm.Trace(np.array([300.0, 320, 280, 310, 2300, 2310, 300, 290] * 40), 60.0)
    flat = hide_load(load, Battery(1000.0, 100.0, interval_s=60.0), "flatten")
    assert (flat.metered.readings == 300).all()
    steps = hide_load(load, Battery(2.0, 3.0, interval_s=60.0), "stepping", step_w=1000.0)
    held = ~steps.saturated
    np.testing.assert_allclose(steps.metered.readings[held] % 1000, 0, atol=1e-6)
    assert np.unique(np.round(steps.metered.readings)).size < 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capacity_kwh": 0.0}, "capacity .kWh. must be positive"),
        ({"capacity_kwh": -1.0}, "capacity .kWh. must be positive"),
        ({"power_kw": 0.0}, "power .kW. must be positive"),
        ({"discharge_kw": math.nan}, "discharge power .kW. must be positive"),
        ({"efficiency": 1.2}, r"efficiency must lie in \(0, 1\], got 1.2"),
        ({"efficiency": 0.0}, "efficiency must be positive"),
        ({"charge": 1.5}, "charge must be a share"),
        ({"capacity_kwh": math.inf, "charge": 1}, "cannot be full or empty"),
    ],
)
def test_bad_batteries_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        Battery(**{"capacity_kwh": 10.0, "power_kw": 5.0, **options})


def test_bad_operations_are_refused():
    trace, battery = hm.synth.trace(HOME, 100, interval_s=60.0), Battery(10.0, 5.0)
    mechanism = hm.Laplace(1.0, 110.0)
    with pytest.raises(InputError, match="acts every 6 s, but the trace has readings of 60 s"):
        operate(trace, battery, mechanism)
    fine = hm.synth.trace(HOME, 100)
    with pytest.raises(InputError, match="cannot clamp"):
        operate(fine, battery, hm.Laplace(1.0, 110.0, clamp=(0.0, 1e4)))
    with pytest.raises(InputError, match="coarser than the meter"):
        operate(fine, battery, hm.Laplace(0.0001, 1e5, grid=0.01))
    with pytest.raises(InputError, match="noise must have 100 entries"):
        operate_noise(fine, battery, np.zeros(99), choose_control("direct", 100))
    with pytest.raises(InputError, match="controller must be one of"):
        operate(fine, battery, mechanism, "guess")
    with pytest.raises(InputError, match="pull must be at most"):
        choose_control("reserved", 100, pull=0.9)
    with pytest.raises(InputError, match="method must be one of"):
        hide_load(fine, battery, "paint")


VEHICLE = Battery(40.0, 7.0, charge=0.4, interval_s=1800.0, away=(8.0, 17.0), trip_kwh=9.0)


@pytest.mark.parametrize(
    ("away", "zone", "first", "hours"),
    [((8, 17), "UTC", 0, 15), ((22, 6.5), "UTC", 13, 15.5), ((8, 17), "Asia/Tokyo", 16, 15)],
)
def test_a_vehicle_is_at_home_outside_its_hours(away, zone, first, hours):
    """Half hours that touch the absence count as away; Tokyo is nine hours ahead."""
    load = hm.Trace(np.arange(96.0), 1800.0, "2024-03-01T00:00Z")
    store = Battery(40.0, 7.0, interval_s=1800.0, away=away)
    kept = store.at_home(load, zone)
    assert store.home_hours == hours
    assert len(kept) == 2 * 2 * hours
    clock = (np.arange(96) / 2 + (9 if zone == "Asia/Tokyo" else 0)) % 24
    inside = (clock - away[1]) % 24 < hours
    assert kept.readings.tolist() == load.readings[inside].tolist()
    assert kept.readings[0] == first


@pytest.mark.parametrize("efficiency", [0.7, 0.9, 1.0])
@pytest.mark.parametrize("trip", [0.5, 9.0, 20.0])
def test_a_vehicle_is_charged_for_its_trips(efficiency, trip):
    mechanism = hm.Laplace(1.0, 200.0)
    store = Battery(
        60.0, 7.0, charge=0.4, efficiency=efficiency, interval_s=1800.0, away=(8, 17), trip_kwh=trip
    )
    places, masses = noise_distribution(mechanism)
    power = places * mechanism.grid + upkeep_power(mechanism, store)
    assert stored_power(power, store) @ masses == pytest.approx(trip * 1000 / 15, rel=1e-9)


def test_a_vehicle_makes_the_noise_of_a_release_while_it_is_at_home():
    """Every return begins with the same charge, and the mean charge rises by the trip."""
    mechanism = hm.Laplace(1.0, 200.0)
    days = 200
    load = VEHICLE.at_home(hm.Trace(np.full(48 * days, 500.0), 1800.0, "2024-03-01T00:00Z"))
    done = operate(load, VEHICLE, mechanism, "direct", key=KEY)
    assert not done.saturated.any()
    shifted = load.readings + done.upkeep_w
    np.testing.assert_allclose(done.metered.readings, mechanism.release(shifted, key=KEY), atol=1.0)
    # The night before the first morning is cut by the start of the readings.
    nights = [part for part in load.runs if part.stop - part.start == 30]
    assert len(nights) == days - 1
    first = [done.stored_wh[part][0] for part in nights]
    np.testing.assert_allclose(
        first, VEHICLE.hours * stored_power(done.battery_w, VEHICLE)[[p.start for p in nights]]
    )
    gained = np.array([done.stored_wh[part][-1] for part in nights]) / 1000
    assert abs(gained.mean() - 9.0) < 5 * gained.std() / np.sqrt(len(nights))


def test_vehicles_that_make_no_sense_are_refused():
    with pytest.raises(InputError, match="two hours of the day"):
        Battery(40.0, 7.0, away=(8, 8))
    with pytest.raises(InputError, match="two hours of the day"):
        Battery(40.0, 7.0, away=(8, 25))
    with pytest.raises(InputError, match="needs the hours"):
        Battery(40.0, 7.0, trip_kwh=5.0)
    with pytest.raises(InputError, match="cannot be charged into"):
        Battery(40.0, 7.0, charge=0.9, away=(8, 17), trip_kwh=5.0)
    load = VEHICLE.at_home(hm.Trace(np.full(48, 500.0), 1800.0, "2024-03-01T00:00Z"))
    with pytest.raises(InputError, match="use direct or lookahead"):
        operate(load, VEHICLE, hm.Laplace(1.0, 200.0), "reserved")
    day = hm.Trace(np.ones(4), 1800.0, "2024-03-01T10:00Z")
    with pytest.raises(InputError, match="away during every reading"):
        VEHICLE.at_home(day)
