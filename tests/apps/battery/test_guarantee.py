"""(ε, δ̂): the upper limit covers, the bound bounds, the price of a pull is paid."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.signal import fftconvolve
from scipy.stats import binom

import hushmeter as hm
from hushmeter.apps.battery import Battery, Control, choose_control, operate_noise
from hushmeter.apps.battery.battery import StoredEnergy, _gather
from hushmeter.apps.battery.guarantee import (
    _pulled,
    assess_guarantee,
    bound_saturation,
    control_epsilon,
    formal_delta,
    simulate_saturation,
    upper_limit,
)
from hushmeter.errors import InputError
from hushmeter.privacy.units import calibrate, resolve_unit

HOME = hm.synth.ready_home("evening")
UNIT = resolve_unit("change", interval_s=3600.0, size=10.0)


def exact_rate(mechanism, battery, readings):
    """P(cut) of a battery without losses: the walk on its lattice, absorbed outside."""
    above, below = (int(room / mechanism.grid / battery.hours + 1e-9) for room in battery.room_wh)
    most = int(battery.power_kw * 1000 / mechanism.grid + 1e-9)
    step = np.asarray(mechanism.pmf(np.arange(-most, most + 1)))
    law = np.zeros(above + below + 1)
    law[below] = 1.0
    for _ in range(readings):
        law = fftconvolve(law, step)[most : most + law.size]
    return 1 - float(law.sum())


def random_settings(rng, count):
    for _ in range(count):
        mechanism = hm.Laplace(float(rng.uniform(0.3, 3)), 10.0, on_grid=True)
        readings = int(rng.integers(5, 60))
        spread = mechanism.std * math.sqrt(readings)
        room = round(float(spread * rng.uniform(0.6, 3.5)))
        power = round(float(mechanism.scale * rng.uniform(2, 12)))
        # Hourly readings: a watt is a watt-hour, and all is on the lattice of whole ones.
        battery = Battery(
            (2 * room + 1) / 1000, (power + 0.5) / 1000, efficiency=1.0, interval_s=3600.0
        )
        yield mechanism, battery, choose_control("direct", readings)


@pytest.mark.slow
def test_the_upper_limit_covers_and_the_bound_bounds_in_1000_settings(rng):
    covered, inside, rates = 0, 0, []
    for i, (mechanism, battery, control) in enumerate(random_settings(rng, 1000)):
        truth = exact_rate(mechanism, battery, control.readings)
        seen = simulate_saturation(mechanism, battery, control, horizons=200, rng=i)
        covered += upper_limit(seen.saturated, 200) >= truth
        inside += bound_saturation(mechanism, battery, control) >= truth
        rates.append(truth)
    assert covered >= 990
    assert inside == 1000
    assert np.quantile(rates, 0.1) < 0.1
    assert np.quantile(rates, 0.9) > 0.3


def test_the_simulation_agrees_with_the_exact_walk(rng):
    for mechanism, battery, control in random_settings(rng, 8):
        truth = exact_rate(mechanism, battery, control.readings)
        seen = simulate_saturation(mechanism, battery, control, horizons=20_000, rng=rng)
        error = math.sqrt(truth * (1 - truth) / 20_000) + 1e-4
        assert abs(seen.saturated / 20_000 - truth) < 5 * error


@pytest.mark.parametrize("name", ["direct", "lookahead", "reserved"])
@pytest.mark.parametrize("efficiency", [0.7, 0.95])
@pytest.mark.parametrize("kind", ["laplace", "gaussian", "staircase"])
def test_the_bound_is_never_below_a_simulation_with_losses(name, efficiency, kind):
    unit = resolve_unit("change", interval_s=1800.0, size=200.0)
    mechanism = calibrate(kind, 1.0, unit)
    control = choose_control(name, 96)
    compared = 0
    # The bound of the reserved controller adds up T events, so it speaks later.
    shares = (2.0, 4.0, 4.5, 5.0) if name == "reserved" else (2.0, 3.0, 4.0, 6.0)
    for share in shares:
        capacity = share * mechanism.std * 0.5 * math.sqrt(96) / 1000
        battery = Battery(
            capacity,
            40 * mechanism.scale / 1000,
            efficiency=efficiency,
            charge=0.4,
            interval_s=1800.0,
        )
        bound = bound_saturation(mechanism, battery, control)
        seen = simulate_saturation(mechanism, battery, control, horizons=20_000, rng=7)
        # A lower confidence limit of the truth: what the simulation proves at 1e-6.
        low = 1 - upper_limit(20_000 - seen.saturated, 20_000, 1 - 1e-6)
        assert bound >= low
        compared += seen.saturated > 0 and bound < 1
    assert compared


def test_merged_distributions_keep_the_mean_and_raise_every_moment(rng):
    energy = np.linspace(-3, 4, 50_000)
    masses = rng.dirichlet(np.ones(50_000))
    cells, weights = _gather(energy, masses)
    assert cells.size <= 4096
    assert weights.sum() == pytest.approx(1)
    assert cells @ weights == pytest.approx(energy @ masses, abs=1e-12)
    rates = np.array([0.1, 1.0, 3.0])
    for sign in (1.0, -1.0):
        few = StoredEnergy(cells, weights, 0.0).log_moment(rates, sign)
        all_ = StoredEnergy(energy, masses, 0.0).log_moment(rates, sign)
        assert (few >= all_ - 1e-12).all()
        np.testing.assert_allclose(few, all_, rtol=1e-3)


def test_the_limit_is_that_of_clopper_and_pearson():
    for events, trials in ((0, 100), (3, 100), (99, 100)):
        limit = upper_limit(events, trials, 0.99)
        assert binom.cdf(events, trials, limit) == pytest.approx(0.01)
    assert upper_limit(5, 5) == 1
    with pytest.raises(InputError, match="cannot come from"):
        upper_limit(6, 5)
    with pytest.raises(InputError, match="confidence must lie"):
        upper_limit(1, 5, 1.0)


@pytest.mark.parametrize("power", [5, 15, 40])
def test_the_formal_delta_covers_a_cut_mechanism(power):
    """One reading behind too weak a battery: the exact δ(ε) of x + clip(n) against the formula."""
    mechanism = hm.Laplace(1.0, 10.0, on_grid=True)
    places = np.arange(-400, 401)
    masses = np.asarray(mechanism.pmf(places))
    cut = np.bincount(np.clip(places, -power, power) + power, weights=masses)
    failure = float(masses[np.abs(places) > power].sum())
    here = np.concatenate([cut, np.zeros(10)])
    moved = np.concatenate([np.zeros(10), cut])
    exact = np.maximum(here - math.e * moved, 0).sum()
    assert exact <= formal_delta(1.0, 0.0, failure)
    assert exact > failure / 2


def noise_of(outputs, load, control, battery, grid):
    """The noise [steps] that makes the outputs of the reserved controller from a load."""
    e, noise = 0.0, []
    eta, hours = battery.one_way, battery.hours
    for y, x in zip(outputs, load, strict=True):
        steps = y - x
        noise.append(steps + round(control.pull * e / (grid * hours)))
        b = steps * grid
        e += hours * (b * eta if b >= 0 else b / eta)
    return np.array(noise)


def test_a_pull_has_its_stated_cost_and_is_not_free(rng):
    """For random outputs the likelihood ratio of two loads stays within the composed ε."""
    mechanism = hm.Laplace(1.0, 10.0, on_grid=True)
    battery = Battery(100.0, 100.0, efficiency=0.8, interval_s=3600.0)
    control = Control("reserved", 40, 0.05, 0)
    rate = mechanism.epsilon / mechanism.steps
    parts = _pulled(mechanism, UNIT.changes[0], battery, control)
    basic = sum(times * mechanism.epsilon_for(watts) for watts, times in parts)
    worst = 0.0
    for _ in range(400):
        load = rng.integers(0, 50, 40)
        other = load.copy()
        other[0] += 10
        outputs = load + rng.integers(-40, 41, 40)
        one = noise_of(outputs, load, control, battery, mechanism.grid)
        two = noise_of(outputs, other, control, battery, mechanism.grid)
        worst = max(worst, rate * abs(np.abs(one).sum() - np.abs(two).sum()))
    assert worst <= basic
    assert worst > mechanism.epsilon * 1.5


def test_epsilon_under_controllers():
    battery = Battery(10.0, 5.0)
    for kind in ("laplace", "gaussian"):
        unit = resolve_unit(home=HOME, appliance="television", interval_s=6.0)
        mechanism = calibrate(kind, 1.0, unit, grid="0.1")
        direct = control_epsilon(mechanism, unit, battery, choose_control("direct", 14_400))
        assert direct[0] == pytest.approx(1.0, rel=1e-6)
        assert direct[1] == mechanism.delta
        reserved = control_epsilon(mechanism, unit, battery, choose_control("reserved", 14_400))
        assert reserved[1] == 1e-6
        # The pull is nearly free under Gaussian noise and dear under Laplace noise.
        low, high = (1.0, 1.15) if kind == "gaussian" else (2.0, 6.0)
        assert low < reserved[0] < high


def test_the_guarantee_puts_it_together():
    unit = resolve_unit(home=HOME, appliance="television", interval_s=6.0)
    mechanism = calibrate("laplace", 1.0, unit)
    control = choose_control("direct", 2400)
    found = assess_guarantee(mechanism, unit, Battery(0.06, 2.0), control, horizons=300)
    assert found.epsilon == 1
    assert 0 < found.rate < found.upper <= 1
    assert found.failure == min(found.upper, found.bound)
    assert found.delta == pytest.approx(min(1, (1 + math.e) * found.failure))
    assert found.horizon_s == 14_400
    for name in ("direct", "lookahead", "reserved"):
        same = choose_control(name, 2400)
        ideal = assess_guarantee(mechanism, unit, Battery(math.inf, math.inf), same, horizons=10)
        assert ideal.rate == 0
        assert ideal.bound < 1e-12


def test_a_pull_that_rounds_at_every_half_pays_for_the_whole_step():
    """Without losses and with pull ½ the store lies on halves: 0.5 rounds to 0 and 1.5 to 2."""
    mechanism = hm.Laplace(1.0, 1.0)
    unit = resolve_unit("change", interval_s=3600.0, size=1.0)
    battery = Battery(100.0, 100.0, efficiency=1.0, interval_s=3600.0)
    control = Control("reserved", 2, 0.5, 0)
    (_, _), (later, _) = _pulled(mechanism, unit.changes[0], battery, control)
    noises = [noise_of([1, 0], load, control, battery, 1.0) for load in ([0, 0], [-2, 0])]
    assert mechanism.steps == 2
    assert abs(noises[1] - noises[0])[1] == 2
    assert mechanism.steps_of(later) == 2


def test_a_pull_beyond_the_efficiency_has_no_proof():
    """Drawn back from above by more than there is, the store falls below its start."""
    control = Control("reserved", 2, 0.5, 0)
    for efficiency, proved in ((0.26, True), (0.24, False)):
        battery = Battery(1e3, 1e3, efficiency=efficiency, interval_s=3600.0)
        load = hm.Trace([0.0, 0.0], 3600.0)
        done = operate_noise(load, battery, [1000.0, 0.0], control)
        assert (done.stored_wh[1] >= 0) == proved
        assert (bound_saturation(hm.Laplace(1.0, 10.0), battery, control) < 1) == proved


def test_a_unit_for_another_interval_is_refused():
    unit = resolve_unit(home=HOME, appliance="kettle", span="run", every="30min", interval_s=6.0)
    mechanism = calibrate("laplace", 1.0, unit)
    control = choose_control("direct", 48)
    with pytest.raises(InputError, match="readings of 1800 s, but the battery acts every 6 s"):
        assess_guarantee(mechanism, unit, Battery(10.0, 5.0), control)


@pytest.mark.parametrize("capacity", [4.0, 6.0, 9.0])
@pytest.mark.parametrize("controller", ["direct", "lookahead"])
def test_the_bound_holds_for_a_vehicle_that_is_charged_for_trips(capacity, controller):
    """The charge rises by the trip, so that the storage is full more often."""
    mechanism = hm.Laplace(1.0, 200.0)
    store = Battery(
        capacity, 7.0, charge=0.3, interval_s=1800.0, away=(8, 17), trip_kwh=capacity / 2
    )
    control = choose_control(controller, 30)
    seen = simulate_saturation(mechanism, store, control, horizons=2000, rng=4)
    bound = bound_saturation(mechanism, store, control)
    # One-sided, with a confidence of one in a million.
    assert 1 - upper_limit(2000 - seen.saturated, 2000, 1 - 1e-6) <= bound
