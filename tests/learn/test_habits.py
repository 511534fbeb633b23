"""The local clock, means over cells, silent meters, and habits that are known."""

from __future__ import annotations

import numpy as np
import pytest

from hushmeter import synth
from hushmeter.learn import habits
from hushmeter.learn.habits import clean
from hushmeter.trace import Trace

DAY, HOUR = 86_400, 3600
COOKS = ("fridge", "kettle", "microwave", "oven", "television")


def local(readings, interval_s=HOUR, zone="UTC", start="2024-01-01T00:00Z", steps=None):
    return clean(Trace(readings, interval_s, start, steps=steps), zone)


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
    assert habits.cell_length(interval_s, least_s) == cell


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
    assert habits.clean(home.trace, home.zone).exports


def whole_wh(trace):
    """The same readings by a meter that counts whole Wh."""
    counted = np.floor(np.cumsum(trace.readings) * trace.interval_s / HOUR)
    return trace.replace_readings(np.diff(counted, prepend=0) * HOUR / trace.interval_s)


@pytest.mark.parametrize("meter", [lambda trace: trace, whole_wh], ids=["0.1 W", "1 Wh"])
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
@pytest.mark.parametrize("interval_s", [60, 900])
def test_the_base_load_is_that_of_the_diary(seed, interval_s, meter):
    home = synth.household(days=14, seed=seed)
    found = habits.base_load(clean(meter(home.at(interval_s)), home.zone))
    assert found == pytest.approx(home.diary.base_w, abs=5)


def test_one_day_has_no_base_load(rng):
    assert habits.base_load(local(rng.uniform(100, 900, 24))) is None


def test_a_load_that_returns_is_found_at_its_hours(rng):
    starts = 4 + np.arange(48) / 2
    chances = np.zeros((40, 48))
    on = rng.random(40) < 0.9
    chances[np.flatnonzero(on), rng.integers(30, 34, on.sum())] = 1.0
    (found,) = habits.returning_loads({3000: chances}, starts)
    assert (found.first, found.stop) == (19.0, 21.0)
    assert found.count == on.sum()
    # At random hours the same load does not return.
    anywhere = np.zeros((40, 48))
    anywhere[np.arange(40), rng.integers(0, 48, 40)] = 1.0
    assert habits.returning_loads({3000: anywhere}, starts) == []


def test_weekends_differ_only_where_they_do(rng):
    working = np.arange(70) % 7 < 5
    means = rng.normal(500, 60, 70)
    assert habits.weekends(means, working) is None
    found = habits.weekends(np.where(working, means, 1.5 * means), working)
    assert found["ratio"] == pytest.approx(1.5, abs=0.1)


def test_a_change_is_found_and_even_series_have_none(rng):
    for _ in range(200):
        assert habits.find_change(rng.normal(7, 0.4, 60), 0.0)[0] == 0
    place, before, after = habits.find_change(
        np.append(rng.normal(7, 0.4, 30), rng.normal(8.5, 0.4, 30)), 0.75
    )
    assert place == pytest.approx(30, abs=2)
    assert (before, after) == (pytest.approx(7, abs=0.4), pytest.approx(8.5, abs=0.4))


def test_the_chance_of_high_weeks_is_hypergeometric():
    from scipy.stats import hypergeom

    for count, weeks, high, days in ((5, 5, 9, 35), (7, 10, 14, 52), (0, 3, 4, 9), (6, 6, 6, 60)):
        expected = hypergeom.sf(count - 1, days, high, weeks)
        assert habits._chance(count, weeks, high, days) == pytest.approx(expected, rel=1e-9)


def test_weekly_events_are_found_and_chance_is_not():
    home = synth.household(
        days=120,
        interval_s=900,
        habits=synth.Habits(trips_per_month=0, weekly=(2, 14)),
        appliances=COOKS,
        zone="UTC",
    )
    none = np.zeros(0, np.int64)
    found = habits.weekly_events(clean(home.trace, home.zone), none)
    (event,) = found
    assert event.evidence["weekday"] == 2
    assert any(first <= 14 < stop for first, stop in event.evidence["hours"])
    assert event.evidence["count"] <= event.evidence["weeks"]
    assert (np.diff(event.marks, axis=1) == 3 * 3600).all()
    rng = np.random.default_rng(0)
    days = home.trace.readings.reshape(120, 96)
    shuffled = [local(rng.permutation(days).ravel(), 900) for _ in range(20)]
    # Each has a chance of at most one in a hundred.
    assert sum(bool(habits.weekly_events(readings, none)) for readings in shuffled) <= 1


def test_the_season_is_the_ratio_of_three_months(rng):
    dates = np.datetime64("2023-01-01") + np.arange(365)
    months = dates.astype("datetime64[M]").astype(int) % 12
    watts = np.where(np.isin(months, [11, 0, 1]), 900.0, 300.0) + rng.uniform(0, 1, 365)
    found = habits.season(local(watts, DAY, start="2023-01-01T00:00Z"))
    assert (found["high_month"], found["ratio"]) == (12, pytest.approx(3, abs=0.01))
    assert habits.season(local(rng.uniform(280, 320, 365), DAY)) is None
    assert habits.season(local(watts[:200], DAY)) is None
