"""Cluster fidelity against brute force, its limits and its refusals."""

from __future__ import annotations

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.behaviour.profiles import synthetic_profiles
from hushmeter.errors import InputError
from hushmeter.price import Buyer, price_menu
from hushmeter.price_clusters import (
    DayClusters,
    cluster_days,
    cluster_fidelity,
    hourly_noise,
    whole_days,
)
from hushmeter.protect.sensitivity import calibrate, resolve_unit

HOME = hm.Home([hm.Appliance("kettle", 2000.0)], 20.0)
PROFILES = synthetic_profiles(400, seed=3).values


def days_as_trace(days, interval_s=3600.0, steps=None):
    per_hour = int(3600 / interval_s)
    return hm.Trace(np.repeat(days.ravel() * 1000, per_hour), interval_s, steps=steps)


def unit_of(interval_s):
    return resolve_unit(interval_s=interval_s, home=HOME)


def test_whole_days_are_hourly_energies():
    days = PROFILES[:3]
    trace = days_as_trace(days, 900.0)
    np.testing.assert_allclose(whole_days(trace), days)
    kept = np.delete(np.arange(72), 30)
    gapped = hm.Trace(days.ravel()[kept] * 1000, 3600.0, steps=kept)
    np.testing.assert_allclose(whole_days(gapped), days[[0, 2]])


def test_own_days_make_clusters_from_eight_on():
    assert cluster_days(days_as_trace(PROFILES[:7])) is None
    own = cluster_days(days_as_trace(PROFILES[:8]))
    assert own.centres.shape == (4, 24)
    others = cluster_days(days_as_trace(PROFILES[:1]), PROFILES)
    assert others.days.shape == (1, 24)
    assert others.centres.shape == (30, 24)
    assert cluster_days(hm.Trace(np.ones(10), 3600.0), PROFILES) is None
    with pytest.raises(InputError, match="24 hours"):
        cluster_days(days_as_trace(PROFILES[:1]), PROFILES[:, :23])


@pytest.mark.parametrize("interval_s", [3600.0, 900.0, 60.0])
def test_the_share_is_that_of_released_days(interval_s):
    """Second derivation: whole releases of the trace, days and distances by hand."""
    known = cluster_days(days_as_trace(PROFILES[:20]), PROFILES)
    unit = unit_of(interval_s)
    noise = calibrate("laplace", 2.0, unit)
    trace = days_as_trace(known.days, interval_s)
    same = []
    for seed in range(100):
        noisy = noise.release(trace.readings, rng=seed).reshape(20, 24, -1).mean(axis=2) / 1000
        nearest = [
            np.abs(day[:, None, :] - known.centres).sum(axis=2).argmin(axis=1)
            for day in (known.days, noisy)
        ]
        same.append((nearest[0] == nearest[1]).mean())
    found = cluster_fidelity(noise, unit, known)
    # Two shares of 2000 and 4000 draws; five standard deviations of the worst case.
    assert found == pytest.approx(np.mean(same), abs=5 * np.sqrt(0.25 / 2000 + 0.25 / 4000))
    assert 0.1 < found < 0.999


def test_noise_of_an_hour_has_the_spread_of_its_readings():
    for interval_s in (3600.0, 900.0, 6.0):
        unit = unit_of(interval_s)
        noise = calibrate("laplace", 1.0, unit)
        drawn = hourly_noise(noise, unit, 100_000)
        assert drawn.std() == pytest.approx(noise.std / np.sqrt(3600 / interval_s), rel=0.03)


def test_one_cluster_is_never_left():
    unit = unit_of(3600.0)
    known = DayClusters(PROFILES[:5], PROFILES[:1])
    assert cluster_fidelity(calibrate("laplace", 0.01, unit), unit, known) == 1.0


def test_a_buyer_of_clusters_without_clusters_is_refused():
    trace = days_as_trace(PROFILES[:3])
    with pytest.raises(InputError, match="eight whole days"):
        price_menu(HOME, trace, epsilons=(0.1, 1), buyer=Buyer(use="clusters"))
    found = price_menu(HOME, trace, epsilons=(0.1, 1), refine=0)
    assert [entry.clusters for entry in found.entries] == [None, None]
    assert any("too few whole days" in line for line in found.assumptions)
