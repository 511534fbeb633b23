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
from hushmeter.theory.information import binary_entropy, reading_information, series_information


def enumerated(laws: np.ndarray, chain: tuple[float, float], readings: int) -> float:
    """I(X; Y) in bits from all series of states and of releases with the laws of off and on."""
    rise, fall = chain
    on = rise / (rise + fall)
    steps = np.array([[1 - rise, rise], [fall, 1 - fall]])
    joint: dict[tuple[int, ...], dict[tuple[int, ...], float]] = {}
    for states in product((0, 1), repeat=readings):
        weight = on if states[0] else 1 - on
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
    mechanism, moved = hm.Laplace(epsilon, 2.0, grid=1.0), 2
    steps = np.arange(-400, 401)
    masses = np.asarray(mechanism.pmf(steps))
    # Beyond the two means the ratio of the likelihoods is constant: clamping loses no information.
    laws = [np.bincount(np.clip(steps + s, 0, moved), masses, moved + 1) for s in (0, moved)]
    found = enumerated(np.array(laws), chain, 4)
    lower, upper = series_information(2.0, mechanism, chain, 4)
    assert lower - 1e-12 <= found <= upper + 1e-12
    alone = enumerated(np.array(laws), chain, 1)
    exact = reading_information(2.0, mechanism, chain[0] / sum(chain))
    assert alone == pytest.approx(exact, abs=1e-12)


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
    with pytest.raises(InputError, match="switch"):
        series_information(100.0, hm.Laplace(1.0, 100.0), (0.0, 0.0), 5)
