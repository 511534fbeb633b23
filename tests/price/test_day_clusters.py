"""The noise of hourly means, and days that make clusters."""

from __future__ import annotations

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.errors import InputError
from hushmeter.price.load import cluster_days, cluster_fidelity, hourly_noise, whole_days


def make_noise(interval_s, every=None, epsilon=1.0):
    home = hm.Home([hm.Appliance("kettle", 2000.0, run_s=180.0)], tolerance=20.0)
    unit = hm.resolve_unit(interval_s=interval_s, home=home, every=every)
    return hm.calibrate("laplace", epsilon, unit), unit


@pytest.mark.parametrize(("interval_s", "every", "per_hour"), [(6.0, None, 600), (900.0, None, 4)])
def test_the_noise_of_an_hour_has_the_spread_of_a_mean(interval_s, every, per_hour):
    mechanism, unit = make_noise(interval_s, every)
    drawn = hourly_noise(mechanism, unit, 40_000)
    expected = mechanism.std / np.sqrt(per_hour)
    # The spread of a standard deviation from 40 000 draws is at most 0.8 % (four readings an
    # hour, kurtosis 3.75): six of them fail less than once in a million.
    assert drawn.std() == pytest.approx(expected, rel=0.05)
    assert abs(drawn.mean()) < 6 * expected / 200


def test_days_with_a_gap_are_left_out():
    hours = np.arange(72.0)
    steps = np.delete(np.arange(72), 30)
    trace = hm.Trace(np.delete(hours, 30) * 1000, 3600.0, steps=steps)
    assert whole_days(trace).tolist() == [hours[:24].tolist(), hours[48:].tolist()]


def test_clusters_need_days_of_24_hours():
    trace = hm.Trace(np.arange(240.0), 3600.0)
    with pytest.raises(InputError, match="days of 24 hours, got the shape"):
        cluster_days(trace, np.ones((5, 7)))
    with pytest.raises(InputError, match="leave out the days that have a gap"):
        cluster_days(trace, np.full((40, 24), np.nan))
    assert cluster_days(trace[:30]) is None


def test_less_noise_leaves_more_days_in_their_cluster():
    rng = np.random.default_rng(1)
    days = np.repeat([[0.2], [2.0], [4.0], [8.0]], 5, axis=0) + 0.1 * rng.random((20, 24))
    known = cluster_days(hm.Trace(days.ravel() * 1000, 3600.0))
    assert known is not None
    shares = [cluster_fidelity(*make_noise(3600.0, epsilon=e), known) for e in (0.1, 1, 20)]
    assert shares == sorted(shares)
    assert shares[-1] > 0.99
