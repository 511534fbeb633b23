"""Statistics of the load: from true hours exactly, from released hours with their errors."""

from __future__ import annotations

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.apps.price.load import (
    cluster_days,
    cluster_fidelity,
    describe_load,
    fit_forecast,
    hourly_noise,
    whole_days,
)
from hushmeter.errors import DataError, InputError
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


def made_up_hours(days: int, seed: int) -> np.ndarray:
    """Hours with a daily pattern, slow weather and noise [W]."""
    rng = np.random.default_rng(seed)
    pattern = 300 + 200 * np.sin(np.arange(24) / 24 * 2 * np.pi)
    weather = np.repeat(np.cumsum(rng.normal(0, 20, days)), 24)
    return np.tile(pattern, days) + weather + rng.normal(0, 150, 24 * days)


def test_the_forecast_beats_the_mean_and_the_naive_ones_on_left_out_weeks():
    hours = made_up_hours(60, 1)
    found = fit_forecast(hours)
    error = np.sqrt(found.square(0.0))
    naive = [np.sqrt(((hours[lag:] - hours[:-lag]) ** 2).mean()) for lag in (24, 168)]
    assert error < min(naive)
    assert error < np.sqrt(found.mean_square)
    # It cannot be better than the noise of the load itself.
    assert error > 0.98 * 150
    assert fit_forecast(hours[:48]) is None


def test_the_error_of_the_forecast_under_noise_is_that_of_a_simulation():
    """The noise is in all hours that are known, not in what is forecast."""
    hours, sigma = made_up_hours(60, 2), 200.0
    expected = fit_forecast(hours).square(sigma)
    rng = np.random.default_rng(3)
    found = []
    for _ in range(20):
        noisy = hours + rng.normal(0, sigma, hours.size)
        # A fit to noisy hours includes the noise of the forecast hour itself.
        found.append(fit_forecast(noisy).square(0.0) - sigma**2)
    assert np.mean(found) == pytest.approx(expected, rel=0.03)
    # Subtracting the known noise gives the error on the true load.
    clean = fit_forecast(hours).square(0.0)
    corrected = [
        fit_forecast(hours + rng.normal(0, sigma, hours.size), sigma**2).square(0.0)
        for _ in range(20)
    ]
    assert np.mean(corrected) == pytest.approx(clean, rel=0.08)


def real_hours(shared_data):
    """Hours of real homes [W]: those of CityLearn, and the mains of four other studies."""
    from hushmeter.apps.behaviour import read_profiles
    from hushmeter.read import read_home_recording

    for file in shared_data.glob("homes/*.parquet"):
        days = read_profiles(file, missing="drop")
        for home in np.unique(days.ids):
            mine = days.ids == home
            yield home, 1000 * days.values[mine][np.argsort(days.days[mine])].ravel()
    for file in sorted(shared_data.glob("mains/*1min.parquet")):
        hourly = read_home_recording(file, need_circuits=False).trace.hourly()
        steps = np.arange(len(hourly)) if hourly.steps is None else hourly.steps
        hours = np.full(int(steps[-1]) + 1, np.nan)
        hours[steps] = hourly.readings
        yield file.stem, hours


def test_the_forecast_on_real_homes(shared_data):
    """Left-out weeks, with and without noise: better than the mean and both naive forecasts."""
    homes = list(real_hours(shared_data))
    if not homes:
        pytest.skip(f"no homes in {shared_data}")
    for home, hours in homes:
        found, spread = fit_forecast(hours), np.nanstd(hours)
        naive = min(np.nanmean((hours[lag:] - hours[:-lag]) ** 2) for lag in (24, 168))
        for noise in spread * np.array([0, 0.3, 1, 3]):
            error = found.square(noise)
            assert error < naive + noise**2, (home, noise)
            assert error < found.mean_square, (home, noise)
        squares = [found.square(noise) for noise in (0, 100, 1000, 1e4, 1e6)]
        assert (np.diff(squares) >= 0).all()


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


def make_promise(interval_s, epsilon=1.0):
    home = hm.Home([hm.Appliance("kettle", 2000.0, run_s=180.0)], tolerance=20.0)
    return hm.Request(home=home, epsilon=epsilon).resolve(hm.Metered(interval_s))


@pytest.mark.parametrize(("interval_s", "per_hour"), [(6.0, 600), (900.0, 4)])
def test_the_noise_of_an_hour_has_the_spread_of_a_mean(interval_s, per_hour):
    promise = make_promise(interval_s)
    drawn = hourly_noise(promise, 40_000)
    expected = promise.noise.std / np.sqrt(per_hour)
    # The spread of a standard deviation from 40 000 draws is at most 0.8 % (four readings an
    # hour, kurtosis 3.75): six of them fail less than once in a million.
    assert drawn.std() == pytest.approx(expected, rel=0.05)
    assert abs(drawn.mean()) < 6 * expected / 200


def test_a_forecast_that_would_be_worse_than_the_mean_is_the_mean():
    load = describe_load(hm.synth.trace(HOME, 288, seed=2, interval_s=300.0))
    assert load.forecast_error(1e6) == load.forecast_error(None) == load.without_data_w
    assert load.forecast_error(0.0) <= load.without_data_w


def test_the_spread_of_days_months_and_the_typical_day():
    rng = np.random.default_rng(0)
    days = rng.gamma(2.0, 0.4, (92, 24))
    load = describe_load(hm.Trace(1000 * days.ravel(), 3600.0))
    assert load.spread("day") == pytest.approx(days.sum(axis=1).std())
    assert load.spread("profile") == pytest.approx(1000 * days.mean(axis=0).std())
    months = [days[k : k + 30].sum() for k in (0, 30, 60)]
    assert load.spread("month") == pytest.approx(np.std(months))
    short = describe_load(hm.Trace(1000 * days[:40].ravel(), 3600.0))
    with pytest.raises(DataError, match="a buyer of months needs true readings"):
        short.spread("month")


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
    shares = [cluster_fidelity(make_promise(3600.0, e), known) for e in (0.1, 1, 20)]
    assert shares == sorted(shares)
    assert shares[-1] > 0.99
    assert known.rest == 0.75
