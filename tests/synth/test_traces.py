from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmeter import synth
from hushmeter.appliance import Appliance
from hushmeter.errors import InputError
from hushmeter.home import Home


@given(st.integers(1, 25), st.integers(0, 10_000), st.sampled_from([0.5, 2.0, 20.0]))
def test_similar_homes_keep_assumption_3(n, seed, tolerance):
    home = synth.home(n=n, seed=seed, tolerance=tolerance)
    assert len(home) == n
    assert home.check().concentrated


def test_diverse_homes_are_resolvable_and_wide():
    home = synth.home(n=30, spread="diverse", seed=2)
    assert home.check().unresolvable == ()
    assert home.powers.max() / home.powers.min() > 20


def test_a_seed_decides_everything():
    home = synth.home(n=5, seed=3)
    assert home == synth.home(n=5, seed=3)
    assert home != synth.home(n=5, seed=4)
    one, same, other = (synth.trace(home, 500, 0.9, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(one.readings, same.readings)
    assert (one.readings != other.readings).any()


@settings(max_examples=60)
@given(st.integers(2, 400), st.integers(1, 6), st.floats(0, 1), st.integers(0, 1000))
def test_any_sparsity_is_hit_to_the_switch(length, n, sparsity, seed):
    trace = synth.trace(synth.home(n=n, seed=seed), length, sparsity, seed=seed)
    switches = int(trace.switches.sum())
    assert switches == round((1 - sparsity) * n * (length - 1))
    assert len(trace) == length


def test_habits_decide_without_a_wanted_sparsity():
    home = synth.ready_home("evening")
    trace = synth.trace(home, 10 * 14_400, seed=0)
    runs = trace.switches.sum(axis=0) / 2 / 10
    expected = np.array([a.runs_per_day for a in home.appliances])
    np.testing.assert_allclose(runs, expected, atol=0.2)
    duty = np.array([a.duty for a in home.appliances])
    np.testing.assert_allclose(trace.truth().mean(axis=0), duty, rtol=0.5, atol=0.02)


def test_readings_are_base_load_plus_power():
    home = synth.ready_home("redd-like")
    trace = synth.trace(home, 2000, seed=4)
    np.testing.assert_allclose(trace.readings, home.base_load + trace.power.sum(axis=1))
    assert (trace.power[~trace.truth()] == 0).all()
    assert trace.names == home.names


def test_multi_level_appliances_use_all_their_levels():
    home = Home([Appliance("washer", levels=(100.0, 400.0, 2000.0))], 2.0)
    trace = synth.trace(home, 4000, 0.995, fluctuation=0.0, seed=1)
    assert set(np.unique(trace.power)) == {0.0, 100.0, 400.0, 2000.0}


def test_drift_correlates_neighbours():
    home = Home([Appliance("a", 100.0)], 40.0)

    def correlation(drift):
        trace = synth.trace(home, 20_000, 1.0, drift=drift, seed=8)
        wander = trace.power[trace.truth()[:, 0], 0] - 100.0
        return np.corrcoef(wander[1:], wander[:-1])[0, 1] if wander.size else np.nan

    values = {d: correlation(d) for d in (0.0, 0.9)}
    if np.isnan(values[0.9]):
        pytest.fail("the appliance never ran")
    assert abs(values[0.0]) < 0.05
    assert values[0.9] > 0.8


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: synth.home(n=0), "n must be a whole number of at least 1, got 0."),
        (lambda: synth.home(n=2.5), "n must be a whole number"),
        (lambda: synth.home(spread="odd"), "spread must be one of similar, diverse"),
        (lambda: synth.ready_home("evning"), "did you mean 'evening'"),
        (lambda: synth.trace(synth.home(), 1), "length must be a whole number of at least 2"),
        (lambda: synth.trace(synth.home(), 10, 1.5), "sparsity must lie between 0 and 1"),
        (lambda: synth.trace(synth.home(), 10, float("nan")), "sparsity must be finite"),
        (lambda: synth.trace(synth.home(), 10, drift=2.0), "drift must lie between 0 and 1"),
        (lambda: synth.trace(synth.home(), 10, interval_s=0), "interval_s must be positive"),
    ],
)
def test_bad_input_is_one_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.fixture(scope="module")
def loads():
    return synth.trace(synth.ready_home("evening"), 4000, interval_s=60.0, seed=4)


def test_each_reading_has_its_own_error_within_the_bound(loads):
    metered = synth.add_meter_error(loads, 0.05, seed=1)
    errors = metered.readings / loads.readings - 1
    assert np.abs(errors).max() <= 0.05 + 1e-12
    # Uniform on [−0.05, 0.05]: the variance is 0.05²/3, and its estimate is within 5 deviations.
    deviation = (0.05**2 / 3) * np.sqrt(0.8 / errors.size)
    assert abs(errors.var() - 0.05**2 / 3) < 5 * deviation
    assert abs(np.corrcoef(errors[1:], errors[:-1])[0, 1]) < 5 / np.sqrt(errors.size)
    assert (metered.truth() == loads.truth()).all()
    assert (metered.power == loads.power).all()


def test_a_fixed_error_scales_all_readings_alike(loads):
    metered = synth.add_meter_error(loads, 0.05, per="trace", seed=1)
    ratio = metered.readings / loads.readings
    assert np.ptp(ratio) < 1e-12
    assert 0 < abs(ratio[0] - 1) <= 0.05


def test_solar_power_is_subtracted_by_day_only(loads):
    power = loads.readings - synth.add_solar(loads, 3000.0, seed=1).readings
    hours = (loads.times - loads.times.astype("datetime64[D]")) / np.timedelta64(1, "h")
    assert (power >= -1e-9).all()
    assert np.abs(power[(hours < 7) | (hours > 18)]).max() < 1e-9
    assert 600.0 < power.max() <= 3000.0


@pytest.mark.parametrize("bound", [-0.1, 1.5, float("nan")])
def test_wrong_bounds_are_refused(loads, bound):
    with pytest.raises(InputError, match="between 0 and 1"):
        synth.add_meter_error(loads, bound)
    home = synth.ready_home("evening")
    with pytest.raises(InputError, match="meter_error must lie between 0 and 1"):
        home.check(meter_error=bound)
