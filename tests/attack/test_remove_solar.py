"""Removal of solar generation before an attack."""

from __future__ import annotations

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.assumptions import (
    estimate_generation,
    remove_generation,
    warn_of_generation,
)
from hushmeter.errors import DataError
from hushmeter.noise import Laplace


@pytest.fixture(scope="module")
def loads():
    return hm.synth.trace(hm.synth.ready_home("evening"), 10 * 1440, interval_s=60.0, seed=3)


def rms(values):
    return float(np.sqrt(np.mean(values**2)))


@pytest.mark.parametrize(("scale", "share"), [(0.0, 0.15), (200.0, 0.2), (1500.0, 0.4)])
def test_most_of_the_generation_is_found(loads, scale, share):
    net = hm.synth.add_solar(loads, 4000.0, seed=1)
    true = loads.readings - net.readings
    if scale:
        noise = Laplace(1.0, scale, grid=1.0)
        net = net.replace_readings(noise.release(net.readings, rng=5))
    found = estimate_generation(net)
    assert (found >= 0).all()
    assert rms(found - true) < share * rms(true)
    hours = (loads.times - loads.times.astype("datetime64[D]")) / np.timedelta64(1, "h")
    assert found[(hours < 4) | (hours > 21)].max() == 0


def test_gaps_and_any_time_zone_give_the_same_estimate(loads):
    net = hm.synth.add_solar(loads, 4000.0, seed=1)
    moved = hm.Trace(net.readings, 60.0, net.start + np.timedelta64(11, "h"))
    assert estimate_generation(moved) == pytest.approx(estimate_generation(net))
    rows = np.flatnonzero(np.arange(len(net)) // 600 % 5 != 2)
    true = (loads.readings - net.readings)[rows]
    assert rms(estimate_generation(net.select(rows)) - true) < 0.25 * rms(true)


@pytest.mark.parametrize("interval", ["15min", "30min", "1h"])
def test_coarse_readings(loads, interval):
    coarse = loads.coarsen(interval)
    net = hm.synth.add_solar(coarse, 4000.0, seed=1)
    true = coarse.readings - net.readings
    assert rms(estimate_generation(net) - true) < 0.3 * rms(true)


def test_loads_and_noise_are_left_alone(loads):
    assert (remove_generation(loads).readings == loads.readings).all()
    noisy = loads.replace_readings(Laplace(1.0, 1500.0, grid=1.0).release(loads.readings, rng=2))
    assert (noisy.readings < 0).any()
    assert (remove_generation(noisy).readings == noisy.readings).all()
    home_battery = loads.replace_readings(np.full(len(loads), -50.0))
    assert (estimate_generation(home_battery) == 0).all()


def test_the_attacker_finds_more_after_the_removal(loads):
    home = hm.synth.ready_home("evening")
    attacker = hm.attackers["co"](home).fit(loads)
    net = hm.synth.add_solar(loads, 4000.0, seed=1)
    kept = hm.score(attacker.predict(net, rng=0), loads).f1
    removed = hm.score(attacker.predict(remove_generation(net), rng=0), loads).f1
    assert removed > kept + 0.03


def test_too_few_days_and_too_long_readings_are_refused(loads):
    net = hm.synth.add_solar(loads, 4000.0, seed=1)
    with pytest.raises(DataError, match="at least 3 days"):
        remove_generation(net[: 2 * 1440])
    with pytest.raises(DataError, match="at most 1 h"):
        remove_generation(hm.Trace([-5.0, 3.0, 2.0], 7200.0))


def test_the_warning_counts_negative_readings(loads):
    assert warn_of_generation(loads) is None
    assert warn_of_generation(hm.Trace([-1.0, 5.0], 60.0)).startswith("1 of 2 readings")
