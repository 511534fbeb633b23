"""Standard errors for each purpose: against noise that was drawn, and against published ratios."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.errors import InputError
from hushmeter.releases.promise import promise_of
from hushmeter.releases.purposes import (
    PURPOSES,
    choose_purpose,
    errors_of,
    expect_cost,
    independent_errors,
)

KETTLE = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)])
MINUTES = hm.Metered(60.0)
DAYS = 30


def wish(**fields) -> hm.Request:
    return hm.Request(hide="kettle", home=KETTLE, **fields)


def drawn_errors(noise: np.ndarray, interval_s: float) -> dict[str, float]:
    """Root mean squares of the errors of every purpose; `noise` has shape (draws, values)."""
    in_day, kwh = round(86_400 / interval_s), interval_s / 3.6e6
    days = noise.reshape(len(noise), DAYS, in_day)
    hours = days.reshape(len(noise), DAYS, 24, -1).mean(axis=3)
    numbers = {
        "hour": hours,
        "day": days.sum(axis=2) * kwh,
        "month": noise.sum(axis=1) * kwh,
        "profile": hours.mean(axis=1),
        "register": np.cumsum(noise, axis=1) * kwh,
    }
    return {name: float(np.sqrt(np.mean(values**2))) for name, values in numbers.items()}


def stated_errors(mechanism, interval_s, day_scale):
    """The errors of a promise whose sums of days are left out, exact (0) or scaled."""
    span = "run" if day_scale is None else "when"
    unit = hm.resolve_unit(span=span, interval_s=interval_s, home=KETTLE)
    promise = promise_of(mechanism, unit, hm.Metered(interval_s), KETTLE)
    if day_scale:
        cells, days = promise.tables
        tables = (cells, replace(days, noise=mechanism, scale=day_scale))
        promise = replace(promise, tables=tables)
    return errors_of(promise)


@pytest.mark.parametrize("interval_s", [1800.0, 3600.0])
@pytest.mark.parametrize("day_scale", [None, 0.0, 0.3])
def test_the_errors_of_cells_are_those_of_drawn_noise(interval_s, day_scale):
    mechanism = hm.Gaussian(1.0, 1e-6, 40.0, 1.0)
    stated = stated_errors(mechanism, interval_s, day_scale)
    in_day = round(86_400 / interval_s)
    noise = mechanism.release(np.zeros(400 * DAYS * in_day), rng=1).reshape(400, -1)
    if day_scale is not None:
        days = noise.reshape(400, DAYS, in_day)
        sums, weight = np.zeros((400, DAYS, 1)), 1.0
        if day_scale:
            sums = mechanism.release(np.zeros(400 * DAYS), rng=2).reshape(sums.shape) / day_scale
            # Two sums of a day, with the variances σ²/scale² and n·σ²: weights by their inverses.
            weight = in_day * day_scale**2 / (in_day * day_scale**2 + 1)
        noise = (days + weight * (sums / in_day - days.mean(axis=2, keepdims=True))).reshape(
            400, -1
        )
    for name, error in drawn_errors(noise, interval_s).items():
        # 400 months: the least certain number, the month, is known to 1/√800 of itself.
        assert stated.of(name) == pytest.approx(error, rel=0.18, abs=1e-9), name


def test_views_have_the_published_ratios_to_hours_alone():
    views = wish(tables=["views"]).resolve(MINUTES)
    assert 0.5995 <= views.odds <= 0.6
    hours = wish(every="1h", mechanism="gaussian").resolve(MINUTES)
    ratios = [views.errors.of(name) / hours.errors.of(name) for name in PURPOSES]
    # The rounding of sums to the grid adds less than 1 % to the ratios of continuous noise.
    assert ratios == pytest.approx([1.10, 0.634, 0.126, 0.573, 0.40], rel=0.015)


@pytest.mark.parametrize("tables", [("year",), ("months", "year"), ("days", "months", "year")])
def test_the_sum_of_a_year_does_not_make_its_months_more_exact(tables):
    """A year with many months says little about one of them."""
    year = hm.Trace(np.full(366 * 24, 300.0), 3600.0, "2024-01-01T00:00Z")
    promise = wish(tables=("hours", *tables)).resolve(hm.metered(year))
    months = promise.release(year, rng=0).view("months").errors
    assert np.sqrt(np.mean(months**2)) == pytest.approx(promise.errors.month_kwh, rel=0.1)
    assert months[3] < 1.001 * promise.errors.month_kwh


@pytest.mark.parametrize(
    ("purpose", "own"),
    [("hour", 500.0), ("profile", 500.0), ("day", 12.0), ("month", 360.0), ("register", 360.0)],
)
def test_the_own_use_of_a_household_of_500_watts(purpose, own):
    assert PURPOSES[purpose].of_mean_power(500.0) == own


def test_days_cost_five_times_less_as_daily_readings():
    """0.207 kWh against 1.015 kWh for the kettle's run."""
    daily, hourly = (
        wish(purpose="day", every=every, mechanism="gaussian").resolve(MINUTES)
        for every in ("1d", "1h")
    )
    assert daily.errors.day_kwh == pytest.approx(0.207, rel=0.05)
    assert hourly.errors.day_kwh == pytest.approx(1.015, rel=0.03)
    assert wish(purpose="day").resolve(MINUTES).cells.interval_s == 86_400


def test_moved_runs_leave_days_exact_and_hours_with_the_published_error():
    plain, moved = (
        hm.advise(wish(span=span, every="1h", mechanism="gaussian"), MINUTES, forms=("series",))
        for span in ("run", "when")
    )
    hours = moved.best.errors.hour_w / plain.best.errors.hour_w
    assert hours == pytest.approx(np.sqrt(2 * 23 / 24), rel=0.02)
    assert moved.best.errors.day_kwh == moved.best.errors.month_kwh == 0
    assert moved.best.cost.daily_kwh == moved.best.cost.monthly_bill == 0
    assert moved.best.errors.register_kwh > 0
    assert "about when the kettle ran" in " ".join(hm.explain(moved))


def test_values_longer_than_an_hour_show_no_hours():
    errors = independent_errors(100.0, 86_400.0)
    assert errors.hour_w is None
    assert errors.profile_w is None
    assert choose_purpose(None, 86_400.0) == "day"
    with pytest.raises(InputError, match="show no single hours; choose --for day"):
        choose_purpose("profile", 86_400.0)
    with pytest.raises(InputError, match="purpose must be one of hour, day, month, profile"):
        choose_purpose("week", 60.0)


MECHANISMS = [
    hm.Laplace(1.0, 500.0),
    hm.Staircase(2.0, 500.0),
    hm.Gaussian(1.0, 1e-6, 500.0),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: m.name)
def test_errors_are_those_of_simulated_days(mechanism):
    """400 simulated days of one-minute readings; five standard errors are below 20 %."""
    noise = mechanism.sample(400 * 1440, rng=1).reshape(400, 24, 60) * mechanism.grid
    cost = expect_cost(mechanism, 60.0)
    assert cost.reading_w == pytest.approx(np.abs(noise).mean(), rel=0.02)
    assert cost.hourly_w == pytest.approx(np.abs(noise.mean(axis=2)).mean(), rel=0.05)
    daily = np.abs(noise.sum(axis=(1, 2))).mean() * 60 / 3.6e6
    assert cost.daily_kwh == pytest.approx(daily, rel=0.2)
    assert cost.monthly_kwh == pytest.approx(cost.daily_kwh * np.sqrt(30))
    assert cost.monthly_bill == pytest.approx(cost.monthly_kwh * 0.30)


def test_a_reading_of_an_hour_is_the_hour():
    cost = expect_cost(MECHANISMS[0], 3600.0)
    assert cost.hourly_w == cost.reading_w == MECHANISMS[0].mean_abs
    assert expect_cost(MECHANISMS[0], 7200.0).hourly_w == MECHANISMS[0].mean_abs


def test_readings_longer_than_an_hour_share_their_error_among_their_hours():
    """A reading of 2 h is wrong by E|n| in both of its hours; a day has 12 of them."""
    noise = MECHANISMS[0]
    cost = expect_cost(noise, 7200.0)
    assert cost.hourly_w == cost.reading_w == noise.mean_abs
    assert cost.daily_kwh == pytest.approx(noise.std * np.sqrt(2 * 12 / np.pi) * 2 / 1000)
    assert cost.monthly_kwh == pytest.approx(noise.std * np.sqrt(2 * 360 / np.pi) * 2 / 1000)


def test_a_reading_of_a_week_gives_a_day_a_seventh_of_its_error():
    cost = expect_cost(MECHANISMS[0], 7 * 86_400.0)
    assert cost.daily_kwh == pytest.approx(MECHANISMS[0].mean_abs * 24 / 1000)


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="interval_s must be positive"):
        expect_cost(MECHANISMS[0], 0.0)
    with pytest.raises(ValueError, match="price_per_kwh must be finite"):
        expect_cost(MECHANISMS[0], 60.0, price_per_kwh=-1.0)
