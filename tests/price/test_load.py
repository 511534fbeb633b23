"""Statistics of the load: from true hours exactly, from released hours with their errors."""

from __future__ import annotations

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.errors import DataError
from hushmeter.price.load import describe_load
from hushmeter.releases.restore import Estimate

HOME = hm.synth.ready_home("evening")


def test_the_forecast_of_a_long_trace_looks_one_day_back():
    """Every day repeats the day before plus 7 W, so that only a lag of 24 h errs by 7 W."""
    days = np.tile(np.arange(24.0) ** 2, 3) + np.repeat([0.0, 7.0, 14.0], 24)
    load = describe_load(hm.Trace(days, 3600.0, "2024-01-01T00:00Z"))
    assert load.lag_h == 24
    assert load.forecast_w == pytest.approx(7.0)
    assert load.hourly_sd_w == pytest.approx(days.std())


def test_the_forecast_of_a_short_trace_looks_one_hour_back():
    load = describe_load(hm.Trace(3.0 * np.arange(26.0), 3600.0, "2024-01-01T00:00Z"))
    assert load.lag_h == 1
    assert load.forecast_w == pytest.approx(3.0)
    assert describe_load(hm.Trace(3.0 * np.arange(27.0), 3600.0)).lag_h == 24


def test_the_forecast_skips_hours_whose_earlier_hour_is_missing():
    load = describe_load(hm.Trace([0.0, 5.0, 100.0, 107.0], 3600.0, steps=[0, 1, 5, 6]))
    assert load.forecast_w == pytest.approx(np.sqrt((25 + 49) / 2))


def estimate_of(release, kind):
    return Estimate("home", kind, release.trace, release.view("hours").errors, release)


def test_statistics_of_released_hours_are_within_their_errors():
    """60 calendar releases of 40 days: unbiased, and with the stated spread."""
    load = hm.synth.trace(HOME, 288 * 40, seed=2, interval_s=300.0).coarsen("1h")
    true = describe_load(load)
    scaled = []
    for seed in range(60):
        done = hm.release_views(load, epsilon=0.7, home=HOME.subset(["kettle"]), rng=seed)
        found = describe_load(estimate_of(done, "calendar"))
        scaled.append(
            [
                (found.hourly_sd_w - true.hourly_sd_w) / found.hourly_sd_se_w,
                (found.forecast_w - true.forecast_w) / found.forecast_se_w,
            ]
        )
    values = np.array(scaled)
    assert (np.abs(values.mean(axis=0)) < 5 / np.sqrt(60)).all()
    # The error of the forecast is that of the worst case, in which the load follows no pattern.
    assert (values.std(axis=0) < 1.5).all()
    assert (values.std(axis=0) > 0.35).all()


def test_restored_hours_vary_less_than_the_load():
    load = hm.synth.trace(HOME, 288 * 40, seed=2, interval_s=300.0).coarsen("1h")
    true = describe_load(load)
    restored = hm.restore(hm.release_views(load, epsilon=0.3, home=HOME.subset(["kettle"]), rng=1))
    found = describe_load(estimate_of(restored, "restored"))
    assert restored.estimate.std() < found.hourly_sd_w
    assert found.hourly_sd_w == pytest.approx(true.hourly_sd_w, rel=0.1)


def test_noise_that_hides_the_load_is_refused():
    rng = np.random.default_rng(0)
    values = 1000 + 500 * rng.standard_normal(240)
    noisy = Estimate("home", "calendar", hm.Trace(values, 3600.0), np.full(240, 520.0))
    with pytest.raises(DataError, match="home: the noise of the released hours hides"):
        describe_load(noisy)
