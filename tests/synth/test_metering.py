"""Meter error and solar generation on synthetic traces."""

from __future__ import annotations

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.errors import InputError


@pytest.fixture(scope="module")
def loads():
    return hm.synth.trace(hm.synth.ready_home("evening"), 4000, interval_s=60.0, seed=4)


def test_each_reading_has_its_own_error_within_the_bound(loads):
    metered = hm.synth.add_meter_error(loads, 0.05, seed=1)
    errors = metered.readings / loads.readings - 1
    assert np.abs(errors).max() <= 0.05 + 1e-12
    # Uniform on [−0.05, 0.05]: the variance is 0.05²/3, and its estimate is within 5 deviations.
    deviation = (0.05**2 / 3) * np.sqrt(0.8 / errors.size)
    assert abs(errors.var() - 0.05**2 / 3) < 5 * deviation
    assert abs(np.corrcoef(errors[1:], errors[:-1])[0, 1]) < 5 / np.sqrt(errors.size)
    assert (metered.truth() == loads.truth()).all()
    assert (metered.power == loads.power).all()


def test_a_fixed_error_scales_all_readings_alike(loads):
    metered = hm.synth.add_meter_error(loads, 0.05, per="trace", seed=1)
    ratio = metered.readings / loads.readings
    assert np.ptp(ratio) < 1e-12
    assert 0 < abs(ratio[0] - 1) <= 0.05


def test_a_trace_takes_a_meter_error_and_draws_the_same_load():
    home = hm.synth.ready_home("similar8")
    ideal = hm.synth.trace(home, 500, 0.97, seed=2)
    metered = hm.synth.trace(home, 500, 0.97, seed=2, meter_error=0.05)
    assert (metered.truth() == ideal.truth()).all()
    assert (metered.readings != ideal.readings).sum() > 450
    assert (np.abs(metered.readings - ideal.readings) <= 0.05 * ideal.readings + 1e-9).all()


def test_solar_power_is_subtracted_by_day_only(loads):
    power = loads.readings - hm.synth.add_solar(loads, 3000.0, seed=1).readings
    hours = (loads.times - loads.times.astype("datetime64[D]")) / np.timedelta64(1, "h")
    assert (power >= -1e-9).all()
    assert np.abs(power[(hours < 7) | (hours > 18)]).max() < 1e-9
    assert 600.0 < power.max() <= 3000.0


@pytest.mark.parametrize("bound", [-0.1, 1.5, float("nan")])
def test_wrong_bounds_are_refused(loads, bound):
    with pytest.raises(InputError, match="between 0 and 1"):
        hm.synth.add_meter_error(loads, bound)
    home = hm.synth.ready_home("evening")
    with pytest.raises(InputError, match="meter_error must lie between 0 and 1"):
        home.check(meter_error=bound)
