"""When people are active: known diaries, known noise, and a second derivation of the chain."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from hushmeter import synth
from hushmeter.learn import rhythm
from hushmeter.learn.habits import clean
from hushmeter.trace import Trace

COOKS = ("fridge", "kettle", "microwave", "oven", "television")


def lived(seed, interval_s=900, noise_w=0.0, **options):
    home = synth.household(days=42, interval_s=interval_s, seed=seed, **options)
    trace = home.trace
    if noise_w:
        noise = np.random.default_rng(seed).normal(0, noise_w, len(trace))
        trace = trace.replace_readings(trace.readings + noise)
    return home, rhythm.find_rhythm(rhythm.cut_days(clean(trace, home.zone, noise_w)))


def medians(home, field):
    days = [d for d in home.diary.days if not d.away and d.date.weekday() < 5]
    return float(np.median([getattr(d, field) for d in days]))


@pytest.mark.parametrize("interval_s", [900, 1800, 3600])
def test_first_and_last_use_are_those_of_the_diary(interval_s):
    stated = 0
    for seed in range(5):
        home, found = lived(seed, interval_s, appliances=COOKS)
        hours = rhythm.typical_hours(found)
        for name, field, within in (("first", "wake", 0.75), ("last", "bed", 1.0)):
            if (name, True) in hours:
                truth = medians(home, field)
                assert hours[name, True].hour == pytest.approx(truth, abs=within)
                stated += 1
    assert stated >= (8 if interval_s == 900 else 4)


def test_noise_of_a_kettle_does_not_hide_when_people_get_up():
    right = 0
    for seed in range(6):
        home, found = lived(seed, 3600, 400.0, appliances=COOKS)
        hours = rhythm.best_hours(found)
        right += abs(hours["first", True].hour - medians(home, "wake")) <= 1
    assert right >= 4


@pytest.mark.parametrize("noise_w", [0.0, 200.0])
def test_days_away_are_found(noise_w):
    wrong = found = true = 0
    for seed in range(4):
        home, seen = lived(
            seed, 1800, noise_w, habits=synth.Habits(trips_per_month=3), appliances=COOKS
        )
        said = set(seen.days.dates[seen.away >= 0.9].tolist())
        truth = {day.date.toordinal() - 719_163 for day in home.diary.days if day.away}
        truth &= set(seen.days.dates.tolist())
        wrong += len(said - truth)
        found += len(said & truth)
        true += len(truth)
    assert wrong <= 1
    assert found >= (0.8 if noise_w == 0 else 0.5) * true


def small_passes(rng):
    """A chain of five slots with random chances."""
    density, change = rng.uniform(0.1, 1, (1, 5, 2)), rng.uniform(0.05, 0.5, (1, 5, 2))
    forward, backward, scale = rhythm.forward_backward(density, change, 1 - rhythm.ASLEEP)
    return rhythm._Passes(forward, backward, density, scale, change)


def test_the_passes_are_sums_over_all_sequences(rng):
    for _ in range(20):
        run = small_passes(rng)
        total, used = 0.0, np.zeros(5)
        first, last = np.zeros(5), np.zeros(5)
        for states in product((0, 1), repeat=5):
            weight = (rhythm.ASLEEP, 1 - rhythm.ASLEEP)[states[0]] * run.density[0, 0, states[0]]
            for s in range(1, 5):
                leave = run.change[0, s, states[s - 1]]
                weight *= leave if states[s] != states[s - 1] else 1 - leave
                weight *= run.density[0, s, states[s]]
            total += weight
            used += weight * np.array(states)
            if any(states):
                first[states.index(1)] += weight
                last[4 - states[::-1].index(1)] += weight
        assert np.prod(run.scale) == pytest.approx(total)
        np.testing.assert_allclose((run.forward * run.backward)[0, :, 1], used / total)
        np.testing.assert_allclose(rhythm._first_use(run)[0], first / total)
        np.testing.assert_allclose(rhythm._last_use(run)[0], last / total)


def test_days_away_follow_each_other_as_the_chain_says(rng):
    stay, leave = rhythm.STAYS_AWAY, rhythm.LEAVES
    usual = leave / (leave + 1 - stay)
    odds = rng.uniform(0.01, 20, 5)
    total, away = 0.0, np.zeros(5)
    for states in product((0, 1), repeat=5):
        weight = usual if states[0] else 1 - usual
        for a, b in pairwise(states):
            weight *= ((1 - leave, leave), (1 - stay, stay))[a][b]
        weight *= np.prod(odds ** np.array(states))
        total += weight
        away += weight * np.array(states)
    found = rhythm._chain_of_days(odds, np.array([False, True, True, True, True]))
    np.testing.assert_allclose(found, away / total)


def test_uneven_nights_have_no_typical_hours(rng):
    trace = Trace(rng.uniform(100, 3000, 24 * 30), 3600, "2024-01-01T00:00Z")
    found = rhythm.find_rhythm(rhythm.cut_days(clean(trace, "UTC")))
    assert rhythm.typical_hours(found) == {}


def test_powers_above_the_nights_and_the_nights_are_the_readings(rng):
    """Also if one night draws much more than the next."""
    watts = rng.uniform(100, 200, (30, 48)) + 2000 * (np.arange(30) % 2)[:, None]
    trace = Trace(watts.ravel(), 1800, "2024-01-01T00:00Z")
    days = rhythm.cut_days(clean(trace, "UTC"))
    np.testing.assert_allclose(days.watts + days.night_w, watts.ravel()[8:-40].reshape(-1, 48))
    reached = rhythm.reached(days, (1500,))[1500]
    np.testing.assert_array_equal(reached, watts.ravel()[8:-40].reshape(-1, 48) >= 1500)


def test_what_is_not_known_reaches_no_power(rng):
    """Solar panels hide the day: what is usual in the evening says nothing about it."""
    watts = np.tile(np.where(np.arange(24) >= 16, 3000.0, 100.0), (30, 1))
    watts += rng.normal(0, 100, watts.shape)
    watts[:, 12:18] = np.nan
    noise = np.full(watts.shape, 100.0)
    days = rhythm.Days(3600, np.arange(30), watts, np.zeros(watts.shape), noise)
    reached = rhythm.reached(days, (1500,))[1500]
    assert (reached[:, 12:18] == 0).all()
    assert (reached[:, 18:] > 0.99).all()
