"""The interval of a visibility: exact where it must be, and honest about moments in a row."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, t

import hushmeter as hm
from hushmeter.apps.page.attacks import BLOCKS, QUANTILE, visibility_interval


def test_quantile_is_students():
    assert pytest.approx(t.ppf(0.975, BLOCKS - 1), abs=5e-4) == QUANTILE


def test_the_guess_without_data_has_no_error(rng):
    truth = rng.random(500) < 0.3
    assert visibility_interval(np.zeros(500, np.bool_), truth) == (0.0, 0.0)
    assert visibility_interval(truth, truth)[1] == 1.0


def test_nothing_is_shown_about_few_readings_or_no_switch(rng):
    few = rng.random(99) < 0.5
    assert all(map(math.isnan, visibility_interval(few, few)))
    assert all(map(math.isnan, visibility_interval(rng.random(500) < 0.5, np.ones(500, np.bool_))))


def test_the_interval_is_around_the_visibility_of_score(rng):
    for share in (0.2, 0.7):
        truth = rng.random(2400) < share
        guess = truth ^ (rng.random(2400) < 0.1)
        low, high = visibility_interval(guess, truth)
        seen = hm.score(guess[:, None], truth[:, None]).per_appliance[0].visibility
        assert (low + high) / 2 == pytest.approx(seen, abs=1e-12)


def test_intervals_cover_although_moments_in_a_row_are_alike(rng):
    """Errors come in runs of about 20 readings; an interval for independent moments covers 35 %."""
    truth = np.arange(6000) % 100 < 40
    covered, trials = 0, 400
    for _ in range(trials):
        wrong = np.repeat(rng.random(300) < 0.1, 20)
        low, high = visibility_interval(truth ^ wrong, truth)
        covered += low <= (0.9 - 0.6) / 0.4 <= high
    assert covered >= binom.ppf(1e-6, trials, 0.9)
