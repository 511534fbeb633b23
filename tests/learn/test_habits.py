"""Base load, activity and habits on readings whose habits are known."""

from __future__ import annotations

import numpy as np
import pytest

from hushmeter import synth
from hushmeter.learn import habits
from hushmeter.learn.local_readings import clean
from hushmeter.trace import Trace

DAY, HOUR = 86_400, 3600
COOKS = ("fridge", "kettle", "microwave", "oven", "television")


def local(readings, interval_s=HOUR, zone="UTC", start="2024-01-01T00:00Z", steps=None):
    return clean(Trace(readings, interval_s, start, steps=steps), zone)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("interval_s", [60, 900])
def test_the_base_load_is_that_of_the_diary(seed, interval_s):
    home = synth.household(days=14, seed=seed)
    found = habits.base_load(clean(home.at(interval_s), home.zone))
    assert found == pytest.approx(home.diary.base_w, abs=5)


def test_one_day_has_no_base_load(rng):
    assert habits.base_load(local(rng.uniform(100, 900, 24))) is None


def lived(days=28, seed=1, **options):
    home = synth.household(days=days, interval_s=900, seed=seed, **options)
    return home, habits.find_activity(clean(home.trace, home.zone))


def test_wake_and_quiet_are_those_of_the_diary():
    stated = 0
    for seed in range(8):
        home, activity = lived(seed=seed, appliances=COOKS, trips_per_month=0)
        days = [day for day in home.diary.days if day.date.weekday() < 5]
        wake, quiet = habits.typical_wake(activity, working=True), habits.typical_quiet(activity)
        if wake is not None:
            assert wake.hour == pytest.approx(np.median([day.wake for day in days]), abs=1)
            stated += 1
        if quiet is not None:
            bed = np.median([day.bed for day in home.diary.days])
            assert quiet.hour == pytest.approx(bed, abs=1)
            stated += 1
    assert stated >= 10


@pytest.mark.parametrize("seed", range(4))
def test_days_away_are_found(seed):
    home, activity = lived(42, seed, trips_per_month=3, appliances=["fridge", "kettle", "oven"])
    found = set(activity.dates[activity.away()].tolist())
    truth = {day.date.toordinal() - 719_163 for day in home.diary.days if day.away}
    truth &= set(activity.dates.tolist())
    assert found <= truth
    assert len(found) >= 0.8 * len(truth)


def test_empty_working_days_are_found_only_where_people_work_away():
    _, at_work = lived(works_away=True, trips_per_month=0, appliances=COOKS, seed=3)
    empty = habits.empty_working_days(at_work)
    assert empty.first <= 10
    assert empty.stop >= 16
    _, at_home = lived(works_away=False, trips_per_month=0, appliances=COOKS, seed=3)
    assert habits.empty_working_days(at_home) is None


def test_uneven_nights_have_no_habits(rng):
    watts = rng.uniform(100, 3000, 24 * 30)
    activity = habits.find_activity(local(watts))
    assert not activity.has_habits


def test_weekly_events_are_found_and_chance_is_not():
    home = synth.household(
        days=120, interval_s=900, weekly=(2, 14), trips_per_month=0, appliances=COOKS, zone="UTC"
    )
    none = np.zeros(0, np.int64)
    found = habits.weekly_events(clean(home.trace, home.zone), none)
    assert (2, 12) in {(event.weekday, event.hour) for event in found}
    assert {event.weekday for event in found} == {2}
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
    assert (found.high, found.ratio) == (12, pytest.approx(3, abs=0.01))
    assert habits.season(local(rng.uniform(280, 320, 365), DAY)) is None
    assert habits.season(local(watts[:200], DAY)) is None
