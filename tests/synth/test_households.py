from __future__ import annotations

import numpy as np
import pytest

from hushmeter import synth
from hushmeter.errors import InputError

STAYS = synth.Habits(trips_per_month=0)


def energy_wh(rows):
    return float(((rows[:, 1] - rows[:, 0]) * rows[:, 2]).sum()) / 3600


def test_a_seed_decides_everything():
    one, same, other = (synth.household(days=3, interval_s=900, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(one.trace.readings, same.trace.readings)
    assert not np.array_equal(one.trace.readings, other.trace.readings)
    assert one.diary.days == same.diary.days


def test_readings_are_the_base_load_and_the_runs_of_the_diary():
    home = synth.household(days=10, interval_s=60, habits=STAYS, seed=3)
    first = home.trace.start.astype("datetime64[s]").astype(float)
    last = first + 10 * 86_400
    inside = {
        name: np.column_stack([np.clip(rows[:, :2], first, last), rows[:, 2]])
        for name, rows in home.diary.runs.items()
    }
    expected = home.diary.base_w * 240 + sum(energy_wh(rows) for rows in inside.values())
    # 14 400 readings with 1 W of noise each: 2 Wh of standard deviation.
    assert home.trace.energy_kwh * 1000 == pytest.approx(expected, abs=12)


def test_coarse_readings_are_means_of_the_same_life():
    fine = synth.household(days=2, interval_s=60, seed=5)
    coarse = synth.household(days=2, interval_s=3600, seed=5)
    difference = fine.at(3600).readings - coarse.trace.readings
    assert np.abs(difference).max() < 7


def test_nobody_uses_anything_on_days_away():
    home = synth.household(days=60, interval_s=900, habits=synth.Habits(trips_per_month=3), seed=2)
    away = {day.date.toordinal() for day in home.diary.days if day.away}
    assert away
    for name in ("kettle", "lights", "television"):
        # The zone is that of London in winter, so dates are those of UTC.
        starts = home.diary.runs[name][:, 0] // 86_400 + 719_163
        late = home.diary.runs[name][:, 0] % 86_400 < 4 * 3600
        assert not set(starts[~late].astype(int)) & away


def test_clock_changes_keep_local_hours():
    home = synth.household(days=4, interval_s=3600, start="2024-03-30", zone="Europe/Paris", seed=1)
    assert len(home.trace) == 4 * 24 - 1


def test_solar_panels_make_readings_negative_at_noon_only():
    home = synth.household(days=10, interval_s=900, solar_w=4000, seed=4)
    hours = np.arange(len(home.trace)) % 96 / 4
    negative = home.trace.readings < -20
    assert negative[(hours >= 10) & (hours < 15)].mean() > 0.3
    assert not negative[(hours < 6) | (hours >= 20)].any()


def test_a_weekly_event_returns_on_its_weekday():
    home = synth.household(
        days=28, interval_s=900, habits=synth.Habits(trips_per_month=0, weekly=(2, 14)), seed=6
    )
    starts = home.diary.runs["tumble dryer"][:, 0]
    assert len(starts) == 4
    assert {int((s // 86_400 + 3) % 7) for s in starts} == {2}


def test_shifts_move_the_day_and_can_change_every_week():
    habits = synth.Habits(works_away=True, trips_per_month=0, shifted_h=(0.0, 9.0))
    days = synth.household(days=28, interval_s=3600, habits=habits, seed=3).diary.days
    usual, late = (
        np.median([d.wake for k, d in enumerate(days) if k // 7 % 2 == week]) for week in (0, 1)
    )
    assert late - usual == pytest.approx(9, abs=0.5)
    assert all(d.wake < d.leave < d.back < d.bed for d in days if d.leave is not None)


def test_outings_are_as_frequent_as_stated():
    habits = synth.Habits(works_away=False, trips_per_month=0, outings=(0.7, 3.0))
    days = synth.household(days=400, interval_s=3600, habits=habits, seed=3).diary.days
    out = [d for d in days if d.leave is not None]
    # 400 days with a chance of 0.7: 280 ± 9.2, five standard deviations.
    assert abs(len(out) - 280) < 46
    assert all(d.wake < d.leave < d.back < d.bed for d in out)


def test_a_pool_pump_runs_at_the_same_hours_of_every_day():
    home = synth.household(days=9, interval_s=900, appliances=["pool pump"], seed=1)
    rows = home.diary.runs["pool pump"]
    assert len(rows) == 9
    np.testing.assert_allclose(np.diff(rows[:, 0]), 86_400)
    assert np.ptp(rows[:, 1] - rows[:, 0]) < 1e-6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"days": 0}, "days must be"),
        ({"interval_s": 7.0}, "interval_s must divide a day"),
        ({"start": "tomorrow"}, "start must be a day"),
        ({"zone": "Mars"}, "tz must be a time zone"),
        ({"appliances": ["robot"]}, "appliance must be one of"),
    ],
)
def test_wrong_parameters_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        synth.household(**arguments)


def test_a_negative_number_of_trips_is_refused():
    with pytest.raises(InputError, match="trips_per_month"):
        synth.Habits(trips_per_month=-1)
