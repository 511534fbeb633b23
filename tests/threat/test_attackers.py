"""Presence, identity and membership: known truth, shuffled labels, and the optimum."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from hushmeter import synth
from hushmeter.errors import DataError, InputError
from hushmeter.learn.rhythm import Days
from hushmeter.threat import Identity, Membership, Presence, attackers, rate, rate_order

QUIET_W, ACTIVE_W = 90.0, 350.0


def simulated_days(rng, count=28, noise_w=0.0):
    """Days of a home that is empty for one stretch a day, with hours from 04:00."""
    present = np.ones((count, 24), np.int64)
    for row in present:
        if rng.random() < 0.8:
            first = rng.integers(3, 10)
            row[first : first + rng.integers(4, 10)] = 0
    busy = (present == 1) & (rng.random(present.shape) < 0.7)
    watts = QUIET_W + rng.normal(0, 8, present.shape) + busy * rng.exponential(ACTIVE_W, busy.shape)
    watts += rng.normal(0, noise_w, watts.shape) if noise_w else 0.0
    dates = np.arange(20_000, 20_000 + count)
    noise = np.full(watts.shape, noise_w)
    return Days(3600, dates, watts, np.zeros(watts.shape), noise), present


LIVES = (
    synth.Habits(works_away=True, trips_per_month=0.5),
    synth.Habits(works_away=False, trips_per_month=0.5),
    synth.Habits(works_away=False, outings=(0.8, 4.5), trips_per_month=0.5),
    synth.Habits(works_away=True, outings=(0.8, 4.0), trips_per_month=0.5),
    synth.Habits(works_away=False, outings=(0.9, 8.0), trips_per_month=0.5),
    synth.Habits(works_away=False, outings=(0.6, 2.5), trips_per_month=0.5),
)


def at_home(seed):
    """Hours of a simulated household: readings, presence, and whether a day is a working day."""
    home = synth.household(
        days=28, interval_s=3600, zone="UTC", habits=LIVES[seed % 6], seed=70_000 + seed,
        appliances=("fridge", "kettle", "oven", "television"), start="2024-05-04",
    )  # fmt: skip
    edges, present = np.arange(25.0), np.ones((28, 24), np.int64)
    for row, day in zip(present, home.diary.days, strict=True):
        if day.away:
            row[:] = 0
        elif day.leave is not None:
            gone = np.minimum(edges[1:], day.back) - np.maximum(edges[:-1], day.leave)
            row[gone > 0.5] = 0
    working = np.array([day.date.weekday() < 5 for day in home.diary.days])
    return home.trace.readings.reshape(28, 24), present, working


def test_the_constants_of_presence_are_counted_in_simulated_households():
    lives = [at_home(seed)[1:] for seed in range(144)]
    present = np.concatenate([present for present, _ in lives])
    working = np.concatenate([working for _, working in lives])
    assert 1 - present[:, 6:22].mean() == pytest.approx(attackers.QUIET, abs=0.03)
    assert present[:, 6].mean() == pytest.approx(attackers.AT_FIRST, abs=0.03)
    hours = np.arange(7, 22)
    for constants, state, (first, stop) in (
        (attackers.RETURN, 0, (16, 20)), (attackers.LEAVE, 1, (7, 10)),
    ):  # fmt: skip
        busy = (hours >= first) & (hours < stop)
        for chance, rows, columns in zip(
            constants, (working, working, ~working), (busy, ~busy, busy | ~busy), strict=True
        ):
            before, after = present[rows][:, 6:21][:, columns], present[rows][:, 7:22][:, columns]
            assert (after != before)[before == state].mean() == pytest.approx(chance, abs=0.025)


def split(days, answers, train):
    rows = np.arange(len(days))
    known, others = rows < train, rows >= train
    return days.take(known), answers[known], days.take(others), answers[others]


def accuracy(attacker, days, answers):
    return float((attacker.predict(days).argmax(axis=-1) == answers).mean())


def test_presence_is_found_with_labels_and_without(rng):
    days, answers = simulated_days(rng, 60)
    known, labels, others, truth = split(days, answers, 40)
    always = max(truth.mean(), 1 - truth.mean())
    assert accuracy(Presence().fit(known, labels), others, truth) > always + 0.1
    assert accuracy(Presence(), others, truth) > always + 0.05


def test_more_noise_gives_no_better_answers(rng):
    shares = []
    for noise in (0.0, 300.0, 3000.0):
        days, answers = simulated_days(np.random.default_rng(3), 80, noise)
        known, labels, others, truth = split(days, answers, 50)
        rating = rate(
            Presence().fit(known, labels).predict(others), truth, floor=float(truth.mean())
        )
        shares.append(rating)
    for less, more in pairwise(shares):
        assert more.share <= less.high


def test_shuffled_labels_take_presence_to_its_floor(rng):
    days, answers = simulated_days(rng, 60)
    known, labels, others, truth = split(days, answers, 40)
    # Every slot gets the label of the same hour of another day: only the hour is left.
    mixed = np.stack([rng.permutation(column) for column in labels.T], axis=1)
    by_hour = (labels.mean(axis=0) >= 0.5).astype(np.int64)
    floor = float((by_hour == truth).mean())
    assert accuracy(Presence().fit(known, mixed), others, truth) <= floor + 0.06


def known_weeks(homes, weeks=10):
    lives = [
        synth.household(days=7 * weeks, interval_s=3600, zone="UTC", seed=900 + h).trace.readings
        for h in range(homes)
    ]
    values = np.stack(lives).reshape(homes, weeks, 7, 24)
    train = values[:, : weeks - 1].reshape(-1, 7, 24)
    return train, np.repeat(np.arange(homes), weeks - 1), values[:, weeks - 1]


def test_a_week_is_that_of_its_home_and_not_with_shuffled_labels(rng):
    train, answers, weeks = known_weeks(8)
    truth = np.arange(8)
    chances = Identity().fit(train, answers).predict(weeks)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    assert (chances.argmax(axis=1) == truth).mean() >= 0.6
    noisy = weeks + rng.normal(0, 200, weeks.shape)
    under_noise = Identity().knows(200).fit(train, answers).predict(noisy)
    assert (under_noise.argmax(axis=1) == truth).mean() >= 3 / 8
    right = [
        (Identity().fit(train, rng.permutation(answers)).predict(weeks).argmax(axis=1) == truth)
        for _ in range(12)
    ]
    # 96 answers with a chance of 1/8 each: 12 ± 3.2.
    assert np.sum(right) <= 12 + 5 * 3.3


@pytest.mark.parametrize("noise_w", [0.0, 300.0])
def test_membership_reaches_the_likelihood_ratio(rng, noise_w):
    slots, homes, cases = 24, 5, 3000
    mean = 300 + 200 * np.sin(np.arange(slots) / 4)
    root = rng.normal(0, 60, (slots, slots)) / 4 + np.diag(rng.uniform(80, 200, slots))
    covariance = root @ root.T

    def draw(count):
        return mean + rng.standard_normal((count, slots)) @ root.T

    known = draw(4000)
    attacker = Membership(homes).knows(noise_w).fit(known, np.arange(4000) % 40)
    target = draw(cases)
    inside = np.arange(cases) % 2
    others = sum(draw(cases) for _ in range(homes - 1))
    total = others + np.where(inside[:, None] == 1, target, draw(cases))
    total += rng.normal(0, noise_w, total.shape) if noise_w else 0.0
    chance = attacker.predict(np.stack([total, target], axis=1)[:, :, None])[:, 1]
    noise = noise_w**2 * np.eye(slots)

    def density(values, count):
        return multivariate_normal.logpdf(values, count * mean, count * covariance + noise)

    best = density(total - target, homes - 1) - density(total, homes)
    found, limit = (rate_order(c, inside).share for c in (chance, best))
    assert found >= limit - 0.02
    mixed = attacker.predict(np.stack([total, draw(cases)], axis=1)[:, :, None])[:, 1]
    # With the load of somebody else nothing is left; 5 standard errors of 0.0105.
    assert abs(rate_order(mixed, inside).share - 0.5) < 0.053


def test_the_area_is_that_of_all_pairs(rng):
    chances, answers = rng.integers(0, 6, 40) / 6, rng.integers(0, 2, 40)
    ones, zeros = chances[answers == 1], chances[answers == 0]
    pairs = (ones[:, None] > zeros).mean() + 0.5 * (ones[:, None] == zeros).mean()
    assert rate_order(chances, answers).share == pytest.approx(pairs)


def test_intervals_resample_blocks(rng):
    answers = np.repeat(rng.integers(0, 2, 10), 50)
    chances = np.eye(2)[np.repeat(rng.integers(0, 2, 10), 50)]
    wide = rate(chances, answers, floor=0.5, blocks=np.repeat(np.arange(10), 50))
    narrow = rate(chances, answers, floor=0.5)
    assert wide.share == narrow.share
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)


def test_bad_input_is_one_sentence(rng):
    days, answers = simulated_days(rng, 5)
    with pytest.raises(DataError, match="at least 8 labelled days"):
        Presence().fit(days, answers)
    with pytest.raises(DataError, match="at least two homes"):
        Identity().fit(rng.random((3, 7, 24)), np.zeros(3, np.int64))
    with pytest.raises(InputError, match="sum of one home"):
        Membership(1)
    with pytest.raises(DataError, match="both kinds"):
        rate_order(np.ones(3), np.ones(3, np.int64))
    with pytest.raises(InputError, match="blocks"):
        rate(np.ones((3, 2)), np.zeros(3, np.int64), floor=0.5, blocks=np.zeros(2, np.int64))
