"""Standard errors for each purpose: against noise that was drawn, and against published ratios."""

from __future__ import annotations

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.errors import InputError
from hushmeter.releases.labels import VIEWS
from hushmeter.releases.purposes import PURPOSES, choose_purpose, independent_errors

KETTLE = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)])
DAYS = 30


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


@pytest.mark.parametrize("interval_s", [1800.0, 3600.0])
def test_the_errors_of_cells_are_those_of_drawn_noise(interval_s):
    mechanism = hm.Gaussian(1.0, 1e-6, 40.0, 1.0)
    stated = independent_errors(mechanism.std, interval_s)
    in_day = round(86_400 / interval_s)
    noise = mechanism.release(np.zeros(400 * DAYS * in_day), rng=1).reshape(400, -1)
    for name, error in drawn_errors(noise, interval_s).items():
        # 400 months: the least certain number, the month, is known to 1/√800 of itself.
        assert stated.of(name) == pytest.approx(error, rel=0.18, abs=1e-9), name


@pytest.mark.parametrize("step", [0.0, 1.0])
def test_the_errors_of_when_are_those_of_drawn_noise(step):
    """Hours beside exact sums of days, or beside sums with noise of their own."""
    metering = hm.Metering(resolution_w=step, register_step_w=1.0 - step)
    trace = hm.Trace(np.zeros(24 * DAYS), 3600.0, "2024-04-01T00:00Z", metering=metering)
    promise = hm.Request(epsilon=1, home=KETTLE, span="when", mechanism="gaussian").resolve(
        hm.metered(trace)
    )
    noise = np.array([promise.release(trace, rng=seed).estimate for seed in range(400)])
    for name, error in drawn_errors(noise, 3600.0).items():
        assert promise.errors.of(name) == pytest.approx(error, rel=0.18, abs=1e-6), name


@pytest.mark.parametrize("tables", [VIEWS, (*VIEWS, "peak = weekdays 16:00-21:00")])
def test_the_errors_of_tables_are_those_of_drawn_noise(tables):
    trace = hm.Trace(np.zeros(24 * DAYS), 3600.0, "2024-04-01T00:00Z")
    promise = hm.Request(epsilon=1, home=KETTLE, tables=tables).resolve(hm.metered(trace))
    noise = np.array([promise.release(trace, rng=seed).estimate for seed in range(200)])
    for name, error in drawn_errors(noise, 3600.0).items():
        assert promise.errors.of(name) == pytest.approx(error, rel=0.2), name


def errors_at_odds(interval_s=60.0, **request):
    return (
        hm.Request(hide="kettle", home=KETTLE, odds=60, **request)
        .resolve(
            hm.Metered(interval_s, hm.Metering(register_step_w=0.001), readings=43_200)
            if request.get("span") == "when"
            else hm.Metered(interval_s)
        )
        .errors
    )


def test_tables_have_the_published_ratios_to_a_series_of_hours():
    found = errors_at_odds(tables=VIEWS)
    today = errors_at_odds(every="1h", mechanism="gaussian")
    ratios = [found.of(name) / today.of(name) for name in PURPOSES]
    # The rounding of sums to the grid adds a little to the ratios of continuous noise.
    assert ratios == pytest.approx([1.10, 0.634, 0.126, 0.573, 0.40], rel=0.03)


def test_days_cost_five_times_less_as_daily_readings():
    """0.207 kWh against 1.015 kWh for the kettle's run."""
    daily = errors_at_odds(every="1d", mechanism="gaussian")
    hourly = errors_at_odds(every="1h", mechanism="gaussian")
    assert daily.day_kwh == pytest.approx(0.207, rel=0.05)
    assert hourly.day_kwh == pytest.approx(1.015, rel=0.03)


def test_moved_runs_leave_days_exact_and_hours_with_the_published_error():
    plain = errors_at_odds(every="1h", mechanism="gaussian")
    unit = hm.resolve_unit("appliance", "when", interval_s=3600.0, home=KETTLE)
    moved = hm.Request(
        hide="kettle", home=KETTLE, odds=60, span="when", every="1h", mechanism="gaussian"
    ).resolve(unit.metered)
    assert moved.errors.hour_w / plain.hour_w == pytest.approx(np.sqrt(2 * 23 / 24), rel=0.02)
    assert moved.errors.day_kwh == moved.errors.month_kwh == 0
    cost = moved.errors.cost(0.3)
    assert cost.daily_kwh == cost.monthly_bill == 0
    assert moved.errors.register_kwh > 0
    assert "about which of two times of the day" in moved.sentences[1]


def test_tables_without_hours_show_no_hours():
    errors = (
        hm.Request(epsilon=1, home=KETTLE, tables=("days", "months"))
        .resolve(hm.Metered(3600.0))
        .errors
    )
    assert errors.hour_w is None
    assert errors.profile_w is None
    assert 0 < errors.month_kwh < errors.day_kwh * 30**0.5


def test_values_longer_than_an_hour_show_no_hours():
    errors = independent_errors(100.0, 86_400.0)
    assert errors.hour_w is None
    assert errors.profile_w is None
    assert choose_purpose(None, 86_400.0) == "day"
    with pytest.raises(InputError, match="show no single hours; choose --for day"):
        choose_purpose("profile", 86_400.0)
    with pytest.raises(InputError, match="purpose must be one of hour, day, month, profile"):
        choose_purpose("week", 60.0)
