"""The local clock, means over cells, silent meters and solar panels."""

from __future__ import annotations

import numpy as np
import pytest

from hushmeter import synth
from hushmeter.learn import local_readings
from hushmeter.trace import Trace

DAY, HOUR = 86_400, 3600


def local(readings, interval_s=HOUR, zone="UTC", start="2024-01-01T00:00Z", steps=None):
    return local_readings.clean(Trace(readings, interval_s, start, steps=steps), zone)


def test_local_seconds_are_those_of_the_zone():
    readings = local(np.ones(5), zone="Europe/London", start="2024-10-26T23:00Z")
    hours = readings.utc / HOUR - readings.utc[0] // HOUR
    assert (readings.local / HOUR % 24 - hours).tolist() == [0, 0, -1, -1, -1]
    assert readings.to_local(readings.utc + 0.25).tolist() == (readings.local + 0.25).tolist()
    # The hour from 01:00 is shown twice; local seconds mean its second pass.
    back = readings.to_utc(readings.local) - readings.utc
    assert back.tolist() == [0, HOUR, 0, 0, 0]


def test_means_need_nine_tenths_of_their_readings():
    steps = np.delete(np.arange(120), [3, 4, 65, 66, 67, 68, 69, 70, 71])
    grid = local(np.full(111, 50.0), 60, steps=steps).grid(3600)
    assert grid.watts[0] == 50
    assert np.isnan(grid.watts[1])


@pytest.mark.parametrize(
    ("interval_s", "least_s", "cell"),
    [(6, 60, 60), (7, 60, 60), (40, 60, 120), (600, 900, 1800), (900, 900, 900),
     (1800, 900, 1800), (3600, 900, 3600), (13, 60, 120)],
)  # fmt: skip
def test_cells_are_filled_evenly(interval_s, least_s, cell):
    assert local_readings.cell_length(interval_s, least_s) == cell


@pytest.mark.parametrize(
    ("interval_s", "value", "hours", "silent"),
    [(60, 0.0, 4, True), (60, 0.0, 2, False), (60, 230.0, 7, True), (60, 230.0, 5, False),
     (3600, 0.0, 7, True), (3600, 230.0, 20, False), (3600, 230.0, 25, True)],
)  # fmt: skip
def test_equal_readings_are_silence(rng, interval_s, value, hours, silent):
    watts = rng.uniform(100, 900, 10 * DAY // interval_s)
    first = 3 * DAY // interval_s + 20 * HOUR // interval_s
    watts[first : first + hours * HOUR // interval_s] = value
    found = local(watts, interval_s)
    assert found.silent.shape == (int(silent), 2)
    assert found.watts.size == watts.size - silent * hours * HOUR // interval_s
    if silent:
        assert np.diff(found.silent)[0, 0] == hours * HOUR


def test_zeros_by_day_stay_because_the_sun_may_shine(rng):
    watts = rng.uniform(100, 900, 240)
    hours = np.arange(240) % 24
    watts[(hours >= 9) & (hours < 16)] = 0.0
    found = local(watts)
    assert found.silent.size == 0
    assert found.zero_by_day
    assert found.solar


def test_exported_power_is_solar():
    home = synth.household(days=10, interval_s=900, solar_w=5000, seed=1)
    assert local_readings.clean(home.trace, home.zone).exports
