"""The law of staying: against closed forms, quadrature of one hour, and simulation."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushmeter.apps.behaviour.stability import noise_levels
from hushmeter.apps.behaviour.staying import (
    _vaaler,
    grid_slack,
    moments,
    pair_probability,
    stay_bounds,
    terms,
)
from hushmeter.errors import DataError, InputError


def random_pair(rng, hours):
    own, rival = rng.gamma(1.0, 0.7, (2, hours))
    profile = own + rng.normal(size=hours) * rng.choice([0.02, 0.3])
    if rng.random() < 0.3:
        profile = (own + rival) / 2 + 0.02 * rng.normal(size=hours)
    return profile, own, rival


@given(st.integers(0, 10_000))
def test_one_hour_has_a_closed_form(seed):
    """One hour: y stays on its side of the middle of the two centres."""
    rng = np.random.default_rng(seed)
    (x,), (a,), (b,) = random_pair(rng, 1)
    scale = 10 ** rng.uniform(-1, 0.5)
    to_middle = ((a + b) / 2 - x) * np.sign(b - a)
    exact = 1 - np.exp(-to_middle / scale) / 2 if to_middle > 0 else np.exp(to_middle / scale) / 2
    law = pair_probability([x], [a], [b], scale)
    assert law.lower <= exact <= law.upper
    assert law.value == pytest.approx(exact, abs=2e-4)


@pytest.mark.parametrize("hours", [1, 2, 3, 8, 24])
def test_the_exact_distribution_agrees_with_simulation(hours):
    rng = np.random.default_rng(hours)
    draws = 100_000
    for _ in range(6):
        profile, own, rival = random_pair(rng, hours)
        scale = 10 ** rng.uniform(-2, 0.5)
        noisy = profile + rng.laplace(0.0, scale, (draws, hours))
        stays = (np.abs(noisy - own).sum(axis=1) <= np.abs(noisy - rival).sum(axis=1)).mean()
        law = pair_probability(profile, own, rival, scale)
        error = np.sqrt(max(law.value * (1 - law.value), 1 / draws) / draws)
        assert abs(stays - law.value) < 4.5 * error
        assert law.upper - law.lower < 1e-3


def test_moments_of_the_move(rng):
    profile, own, rival = rng.random((3, 6))
    weight, reach = np.empty((2, 6)), np.empty((2, 6))
    margin = terms(profile, own, rival, 0.3, weight, reach)
    mean, variance = moments(weight, reach, 0.3)
    noisy = profile + rng.laplace(0.0, 0.3, (400_000, 6))
    move = np.abs(noisy - own).sum(axis=1) - np.abs(noisy - rival).sum(axis=1) + margin
    assert abs(move.mean() - mean) < 4.5 * np.sqrt(variance / move.size)
    assert move.var() == pytest.approx(variance, rel=0.02)


@numba.njit
def count_stays(profile, centres, own, noise):
    stays = 0
    for i in range(noise.shape[0]):
        nearest, best = 0, np.inf
        for j in range(centres.shape[0]):
            total = 0.0
            for t in range(profile.size):
                total += abs(profile[t] + noise[i, t] - centres[j, t])
            if total < best:
                nearest, best = j, total
        stays += nearest == own
    return stays


@pytest.mark.parametrize("degree", [1, 2, 3, 10, 101])
def test_the_sawtooth_is_within_the_kernel_of_its_polynomial(degree):
    """|V − ψ| ≤ F/(2K + 2) at every u, here as the law of a single point; ½ on either side of 0."""
    k = np.arange(1, degree + 1)
    for u in [*np.linspace(0, 1, 2001, endpoint=False), 1e-9, 1 - 1e-9]:
        minus_v, radius = _vaaler(np.exp(2j * np.pi * k * u), 0.0)
        assert abs(-minus_v - (u - 0.5)) <= radius + 1e-12
        fejer = 1 + 2 * ((1 - k / (degree + 1)) * np.cos(2 * np.pi * k * u)).sum()
        assert radius == pytest.approx(fejer / (2 * degree + 2), abs=1e-12)


def test_no_bound_is_violated_in_ten_thousand_cases():
    """Simulated shares beyond a bound by more than 4.5 standard errors would be violations."""
    rng = np.random.default_rng(7)
    draws, violations, slackness = 1000, 0, []
    noise = {hours: rng.laplace(0.0, 1.0, (draws, hours)) for hours in (2, 5, 12, 24)}
    for case in range(10_000):
        hours = (2, 5, 12, 24)[case % 4]
        centres = rng.gamma(1.5, 0.5, (rng.integers(2, 7), hours))
        profile = centres[0] + rng.choice([0.05, 0.4]) * rng.normal(size=hours)
        scale = 10 ** rng.uniform(-2, 0.3)
        bounds = stay_bounds(profile[None], centres, scale, precision=0.01)
        share = count_stays(profile, centres, bounds.labels[0], scale * noise[hours]) / draws
        for bound, sign in ((bounds.upper[0], 1), (bounds.lower[0], -1)):
            error = np.sqrt(max(bound * (1 - bound), 1 / draws) / draws)
            violations += sign * (share - bound) > 4.5 * error
        slackness.append(bounds.upper[0] - share)
    assert violations == 0
    assert np.mean(slackness) < 0.1


def test_more_noise_leaves_less():
    rng = np.random.default_rng(0)
    centres = rng.random((5, 24))
    profiles = centres[rng.integers(0, 5, 40)] + 0.05 * rng.normal(size=(40, 24))
    uppers = [stay_bounds(profiles, centres, scale).upper.mean() for scale in (0.05, 0.2, 1, 5)]
    assert (np.diff(uppers) < 0).all()


def test_noise_on_the_grid_stays_within_its_slack(rng):
    """Coarse grid noise against continuous noise, coupled through the same exponentials."""
    level = noise_levels(scales=[0.2])[0]
    grid, scale = level.grid, level.scale
    first, second = rng.exponential(scale / grid, (2, 10_000))
    apart = np.abs((np.floor(first) - np.floor(second)) - (first - second))
    assert apart.max() < 1
    assert grid_slack(24, grid) == pytest.approx(72 * grid)
    profile, own, rival = random_pair(rng, 24)
    noisy = level.perturb(np.tile(profile, (50_000, 1)), rng=1)
    share = (np.abs(noisy - own).sum(axis=1) <= np.abs(noisy - rival).sum(axis=1)).mean()
    law = pair_probability(profile, own, rival, scale, slack=grid_slack(24, grid))
    error = 4.5 * np.sqrt(max(law.value * (1 - law.value), 1e-6) / 50_000)
    assert law.lower - error <= share <= law.upper + error


def test_ends_of_the_scale():
    law = pair_probability([1.0, 1.0], [1.0, 1.0], [1.0, 1.0], 0.1)
    assert (law.lower, law.upper) == (0.0, 1.0)
    assert pair_probability([0.0], [0.0], [100.0], 0.01).lower > 1 - 1e-6
    alone = stay_bounds([[1.0, 2.0]], [[0.0, 0.0]], 0.5)
    assert (alone.lower[0], alone.upper[0], alone.rival[0]) == (1.0, 1.0, 0)


def test_bad_input_is_one_sentence():
    with pytest.raises(InputError, match="differ in length"):
        pair_probability([1.0], [1.0, 2.0], [1.0], 0.1)
    with pytest.raises(InputError, match="scale must be positive"):
        pair_probability([1.0], [1.0], [2.0], 0.0)
    with pytest.raises(DataError, match="row 1 is not"):
        stay_bounds([[1.0], [np.nan]], [[1.0]], 0.1)
    with pytest.raises(InputError, match="labels must give one of the 1 centres"):
        stay_bounds([[1.0]], [[1.0]], 0.1, labels=[3])
    with pytest.raises(InputError, match="profiles have 1 hours"):
        stay_bounds([[1.0]], [[1.0, 2.0]], 0.1)
    with pytest.raises(InputError, match="shape"):
        stay_bounds([1.0], [[1.0]], 0.1)
