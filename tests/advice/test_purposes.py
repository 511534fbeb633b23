"""Standard errors for each purpose: against noise that was drawn, and against published ratios."""

from __future__ import annotations

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.advice.least_noise import plan_for_odds
from hushmeter.advice.planner import calendar_of
from hushmeter.advice.purposes import PURPOSES, calendar_errors, choose_purpose, series_errors
from hushmeter.errors import InputError
from hushmeter.releases.series import day_weight

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
@pytest.mark.parametrize("day_scale", [None, 0.0, 0.3])
def test_the_errors_of_a_series_are_those_of_drawn_noise(interval_s, day_scale):
    mechanism = hm.Gaussian(1.0, 1e-6, 40.0, 1.0)
    stated = series_errors(mechanism, interval_s, days=DAYS, day_scale=day_scale)
    in_day = round(86_400 / interval_s)
    noise = mechanism.release(np.zeros(400 * DAYS * in_day), rng=1).reshape(400, -1)
    if day_scale is not None:
        days = noise.reshape(400, DAYS, in_day)
        sums = np.zeros((400, DAYS, 1))
        if day_scale:
            sums = mechanism.release(np.zeros(400 * DAYS), rng=2).reshape(sums.shape) / day_scale
        mean = sums / in_day - days.mean(axis=2, keepdims=True)
        noise = (days + day_weight(in_day, day_scale) * mean).reshape(400, -1)
    for name, error in drawn_errors(noise, interval_s).items():
        # 400 months: the least certain number, the month, is known to 1/√800 of itself.
        assert stated.of(name) == pytest.approx(error, rel=0.18, abs=1e-9), name


def test_the_calendar_has_the_published_ratios_to_a_series_of_hours():
    unit = hm.resolve_unit("appliance", "run", interval_s=60.0, home=KETTLE, every=3600)
    plan = plan_for_odds(unit, calendar_of(None, 60.0), 0.6)
    assert 0.5995 <= plan.odds <= 0.6
    found = calendar_errors(calendar_of(None, 60.0), plan)
    best = hm.advise(KETTLE, "kettle", interval_s=60.0, every="1h", mechanisms="gaussian")
    today = next(option for option in best.options if option.form == "series").errors
    ratios = [found.of(name) / today.of(name) for name in PURPOSES]
    # The rounding of sums to the grid adds about 2 % to the ratios of continuous noise.
    assert ratios == pytest.approx([1.10, 0.634, 0.126, 0.573, 0.40], rel=0.03)


def test_days_cost_five_times_less_as_daily_readings():
    """0.207 kWh against 1.015 kWh for the kettle's run."""
    options = hm.advise(KETTLE, "kettle", interval_s=60.0, purpose="day").options
    daily = next(o for o in options if o.every_s == 86_400 and o.mechanism == "gaussian")
    hourly = next(o for o in options if o.every_s == 3600 and o.form == "series")
    assert daily.errors.day_kwh == pytest.approx(0.207, rel=0.05)
    assert hourly.errors.day_kwh == pytest.approx(1.015, rel=0.03)


def test_moved_runs_leave_days_exact_and_hours_with_the_published_error():
    plain, moved = (
        hm.advise(KETTLE, "kettle", interval_s=60.0, span=span, every="1h", mechanisms="gaussian")
        for span in ("run", "when")
    )
    hours = moved.best.errors.hour_w / plain.best.errors.hour_w
    assert hours == pytest.approx(np.sqrt(2 * 23 / 24), rel=0.02)
    assert moved.best.errors.day_kwh == moved.best.errors.month_kwh == 0
    assert moved.best.cost.daily_kwh == moved.best.cost.monthly_bill == 0
    assert moved.best.errors.register_kwh > 0
    text = " ".join(hm.explain(moved))
    assert "about when the kettle ran" in text


def test_values_longer_than_an_hour_show_no_hours():
    errors = series_errors(hm.Laplace(1.0, 100.0, on_grid=True), 86_400.0)
    assert errors.hour_w is None
    assert errors.profile_w is None
    assert choose_purpose(None, 86_400.0) == "day"
    with pytest.raises(InputError, match="show no single hours; choose --for day"):
        choose_purpose("profile", 86_400.0)
    with pytest.raises(InputError, match="purpose must be one of hour, day, month, profile"):
        choose_purpose("week", 60.0)
