"""The load that a price is measured against, and the noise of an hour."""

from __future__ import annotations

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.price import Buyer
from hushmeter.price.terms import describe_load, make_entry


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


@pytest.mark.parametrize(("every", "readings"), [("15min", 4.0), ("1h", 1.0), ("3h", 1.0)])
def test_the_noise_of_an_hour_is_that_of_its_readings(every, readings):
    """A released reading of more than an hour is at least as far off as the reading itself."""
    home = hm.Home([hm.Appliance("kettle", 2000.0, run_s=180.0)], tolerance=20.0)
    unit = hm.resolve_unit(interval_s=900.0, home=home, every=every)
    noise = hm.calibrate("laplace", 1.0, unit)
    load = describe_load(hm.Trace(np.arange(48.0), 3600.0))
    entry = make_entry(noise, 1.0, home, unit, load, (1.0,), Buyer())
    assert entry.hourly_noise_w == pytest.approx(noise.std / np.sqrt(readings))
