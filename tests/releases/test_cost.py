from __future__ import annotations

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.releases.cost import expect_cost

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
