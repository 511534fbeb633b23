"""Mutual information against enumeration, closed forms, and its bounds over a series."""

from __future__ import annotations

import math
from itertools import pairwise, product

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import hushmeter as hm
from hushmeter.errors import InputError
from hushmeter.theory.universal import (
    entropy,
    laplace_information,
    reading_information,
    series_information,
    state_curve,
    state_limit,
)


def binary_entropy(p: float) -> float:
    return entropy([p, 1 - p])


def enumerated(laws: np.ndarray, steps: np.ndarray, start: np.ndarray, readings: int) -> float:
    """I(X; Y) in bits from all series of states and of releases with the laws of every state."""
    joint: dict[tuple[int, ...], dict[tuple[int, ...], float]] = {}
    for states in product(range(len(laws)), repeat=readings):
        weight = start[states[0]]
        for before, now in pairwise(states):
            weight *= steps[before, now]
        for seen in product(range(laws.shape[1]), repeat=readings):
            chance = weight * math.prod(laws[s, y] for s, y in zip(states, seen, strict=True))
            joint.setdefault(seen, {})[states] = chance
    prior: dict[tuple[int, ...], float] = {}
    for row in joint.values():
        for states, chance in row.items():
            prior[states] = prior.get(states, 0.0) + chance
    total = 0.0
    for row in joint.values():
        mass = sum(row.values())
        for states, chance in row.items():
            if chance > 0:
                total += chance * math.log2(chance / (mass * prior[states]))
    return total


def clamped_laws(mechanism, moved: list[int]) -> np.ndarray:
    """Distributions of the released value clamped to the levels, between which alone it tells.

    Beyond the levels the ratios of the likelihoods of Laplace noise are constant.
    """
    steps = np.arange(-400, 401)
    masses = np.asarray(mechanism.pmf(steps))
    top = max(moved)
    return np.array([np.bincount(np.clip(steps + s, 0, top), masses, top + 1) for s in moved])


@pytest.mark.parametrize("prior", [0.5, 0.1, 0.97])
def test_gaussian_noise_against_an_integral(prior):
    """A fine grid gives the information of a normal channel with two inputs."""
    mechanism = hm.Gaussian(epsilon=1.0, delta=1e-5, sensitivity=100.0, grid=1.0)
    sigma, power = mechanism.std, 500.0

    def density(x: float) -> float:
        both = prior * norm.pdf(x, power, sigma) + (1 - prior) * norm.pdf(x, 0, sigma)
        return -both * math.log2(both) if both > 0 else 0.0

    reach = 9 * sigma
    mixed = quad(density, -reach, power + reach, limit=400)[0]
    expected = mixed - 0.5 * math.log2(2 * math.pi * math.e * sigma**2)
    assert reading_information(power, mechanism, prior) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("chain", [(0.1, 0.3), (0.5, 0.5), (0.9, 0.8), (0.02, 1.0)])
@pytest.mark.parametrize("epsilon", [0.7, 3.0])
def test_bounds_over_a_series_against_enumeration(chain, epsilon):
    mechanism = hm.Laplace(epsilon, 2.0, grid=1.0)
    laws, (rise, fall) = clamped_laws(mechanism, [0, 2]), chain
    on = rise / (rise + fall)
    known = np.array([[1 - rise, rise], [fall, 1 - fall]]), np.array([1 - on, on])
    found = enumerated(laws, *known, 4)
    lower, upper = series_information(2.0, mechanism, chain, 4)
    assert lower - 1e-12 <= found <= upper + 1e-12
    exact = reading_information(2.0, mechanism, on)
    assert enumerated(laws, *known, 1) == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize("epsilon", [0.7, 3.0])
@pytest.mark.parametrize("seed", range(4))
def test_three_states_against_enumeration(epsilon, seed):
    """Random chains of three levels: bits of one reading, bounds of four, and the best guess."""
    mechanism, rng = hm.Laplace(epsilon, 2.0, grid=1.0), np.random.default_rng(seed)
    steps = rng.dirichlet([0.5, 0.5, 0.5], 3)
    start = np.linalg.matrix_power(steps, 4096)[0]
    laws = clamped_laws(mechanism, [0, 1, 4])
    found = enumerated(laws, steps, start, 3)
    lower, upper = series_information([0.0, 1.0, 4.0], mechanism, steps, 3)
    assert lower - 1e-9 <= found <= upper + 1e-9
    alone = enumerated(laws, steps, start, 1)
    prior = start / start.sum()
    assert alone == pytest.approx(reading_information([0, 1, 4], mechanism, prior), abs=1e-9)
    best = (start[:, None] * laws).max(axis=0).sum()
    assert state_limit([0, 1, 4], mechanism, prior) == pytest.approx(best, abs=1e-12)


def test_the_best_guess_among_many_states_is_that_of_a_simulation():
    """Equal priors: the nearest level is the best guess, and its share has a closed form."""
    levels, mechanism = np.array([0.0, 150.0, 400.0, 2000.0]), hm.Laplace(1.0, 300.0, grid=1.0)
    found = state_limit(levels, mechanism)
    assert found == pytest.approx(state_curve(levels, mechanism.scale), abs=1e-3)
    rng = np.random.default_rng(5)
    truth = rng.integers(4, size=200_000)
    seen = levels[truth] + mechanism.grid * mechanism.sample(truth.size, rng=6)
    right = (np.abs(seen[:, None] - levels).argmin(axis=1) == truth).mean()
    # Five standard errors of 200 000 answers.
    assert abs(right - found) < 5 * math.sqrt(found * (1 - found) / truth.size)
    assert state_limit(300.0, mechanism) == pytest.approx(
        hm.universal_limit(hm.Home([hm.Appliance("a", 300.0)], 2.0), mechanism)[0]
    )


@pytest.mark.parametrize("ratio", [0.01, 0.3, 1.0, 5.0, 30.0, 300.0])
def test_continuous_laplace_noise_against_a_fine_grid(ratio):
    fine = hm.Laplace(ratio / 256, 1.0, grid=1.0, on_grid=True)
    expected = reading_information(256.0, fine)
    assert laplace_information(ratio, 1.0) == pytest.approx(expected, rel=1e-4, abs=1e-12)
    found = laplace_information(np.array([[100.0], [300.0]]), np.array([10.0, 100.0, 1e3]))
    assert found.shape == (2, 3)
    assert found[0, 1] == laplace_information(1.0, 1.0)


def test_independent_states_have_no_gap_between_the_bounds():
    lower, upper = series_information(300.0, hm.Laplace(1.0, 300.0), (0.25, 0.75), 50)
    assert lower == pytest.approx(upper)


def test_from_nothing_to_everything():
    assert reading_information(100.0, hm.Laplace(1e-4, 100.0, grid=10.0)) < 1e-6
    clear = hm.Laplace(20.0, 1.0, grid=1.0, max_epsilon=20.0)
    assert reading_information(1000.0, clear, 0.2) == pytest.approx(binary_entropy(0.2))
    lower, upper = series_information(1000.0, clear, (0.01, 0.05), 400)
    assert lower == pytest.approx(upper)
    noises = [hm.Laplace(e, 100.0) for e in (0.01, 0.1, 1.0, 10.0)]
    bits = [reading_information(100.0, one) for one in noises]
    assert bits == sorted(bits)


def test_a_private_release_tells_at_most_its_epsilon():
    """Of all ε-DP releases of one bit, randomised response tells most."""
    for epsilon in (0.1, 0.5, 1.0, 2.0):
        bits = reading_information(100.0, hm.Laplace(epsilon, 100.0, grid=1.0))
        flip = 1 / (1 + math.exp(epsilon))
        assert 0 < bits <= 1 - binary_entropy(flip) + 1e-12
        assert 1 - binary_entropy(flip) <= epsilon * math.tanh(epsilon / 2) / 2 / math.log(2) + 1e-9


def test_refusals():
    with pytest.raises(InputError, match="prior"):
        reading_information(100.0, hm.Laplace(1.0, 100.0), 1.5)
    with pytest.raises(InputError, match="prior must be 3 probabilities"):
        state_limit([0, 1, 2], hm.Laplace(1.0, 100.0), [0.5, 0.5])
    with pytest.raises(InputError, match="levels must be the powers"):
        state_limit([5.0], hm.Laplace(1.0, 100.0))
    with pytest.raises(InputError, match="chain must be probabilities"):
        series_information(100.0, hm.Laplace(1.0, 100.0), [[0.5, 0.6], [0.5, 0.5]], 5)
    with pytest.raises(InputError, match="switch"):
        series_information(100.0, hm.Laplace(1.0, 100.0), (0.0, 0.0), 5)
