from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.stats import binomtest

from hushmeter.errors import InputError
from hushmeter.noise import (
    Event,
    Gaussian,
    Laplace,
    Staircase,
    _float_laplace,
    audit,
    distinguish,
    epsilon_bound,
)


@pytest.mark.parametrize("make", [Laplace, Staircase])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_the_bound_is_close_to_the_claim_and_the_controls_are_caught(make, epsilon):
    result = audit(make(epsilon, 10.0), rng=20)
    assert 0.9 * epsilon <= result.epsilon_lower <= epsilon
    assert all(result.caught.values())
    assert result.pairs.epsilon_lower <= epsilon
    assert "2^-53" in result.float_laplace.event
    assert result.passed


def test_the_gaussian_claim_with_delta_stands():
    result = audit(Gaussian(1, 1e-6, 10), samples=4_000_000, rng=20)
    assert 0.4 < result.epsilon_lower <= 1
    assert result.delta == 1e-6
    assert result.passed


def test_a_threshold_only_audit_misses_float_noise():
    source = _float_laplace(1.0, np.random.default_rng(1))
    assert 0.9 < distinguish(source, 1_000_000, 0.999, low_bits=False).epsilon_lower <= 1
    assert distinguish(source, 1_000_000, 0.999).epsilon_lower > 7


def test_too_few_samples_cannot_pass():
    result = audit(Laplace(0.1, 10), samples=2000, rng=3)
    assert not result.caught["halved_scale"]
    assert not result.passed


def test_a_broken_mechanism_is_found():
    mechanism = Laplace(1, 10)
    broken = mechanism.halved()
    assert broken.scale == mechanism.scale / 2
    assert Gaussian(1, 1e-6, 10).halved().scale == Gaussian(1, 1e-6, 10).scale / 2
    broken.exact_epsilon = mechanism.exact_epsilon
    broken.steps = mechanism.steps
    broken._sampler = Laplace(2, 10)._sampler
    result = audit(broken, samples=1_000_000, rng=4)
    assert result.epsilon_lower > 1
    assert not result.passed


@pytest.mark.parametrize(("lag", "sign"), [(1, 1), (1, -1), (2, 1), (2, -1)])
def test_noise_that_two_neighbouring_readings_share_is_found(lag, sign):
    """Each reading alone has the right noise; two of them have the same, or its negative."""

    class Shared(Laplace):
        def _noise(self, secret, count):
            noise = self.sample(count, key=secret)
            pairs = noise[lag - 1 :][: (count - lag + 1) // 2 * 2].reshape(-1, 2)
            pairs[:, 1] = sign * pairs[:, 0]
            yield 0, noise

        def sample(self, size, *, rng=None, key=None):
            return Laplace(1, 10).sample(size, rng=rng, key=key)

    result = audit(Shared(1, 10), samples=100_000, rng=6)
    assert result.finding.epsilon_lower <= 1
    assert result.pairs.epsilon_lower > 2
    assert not result.passed


def test_an_audit_with_a_seed_repeats_and_without_one_does_not():
    mechanism = Staircase(1, 10, clamp=(0.0, 100.0))
    first, again = (audit(mechanism, samples=50_000, rng=5) for _ in range(2))
    assert first == again
    assert audit(mechanism, samples=50_000).finding != first.finding
    assert json.loads(json.dumps(first.describe()))["epsilon"] == 1.0


def test_clopper_pearson_bounds():
    assert epsilon_bound(0, 0, 100, 0.999, 0.0) == 0.0
    assert epsilon_bound(100, 100, 100, 0.999, 0.0) == 0.0
    assert 0 < epsilon_bound(500, 100, 1000, 0.999, 0.0) < np.log(5)
    for hits, other in ((5, 1), (30, 2)):
        least, most = (binomtest(seen, 40).proportion_ci(0.99) for seen in (hits, other))
        found = epsilon_bound(hits, other, 40, 0.99, 0.01)
        assert found == pytest.approx(max(0.0, np.log((least.low - 0.01) / most.high)))
    assert epsilon_bound(500, 100, 1000, 0.999, 0.6) == 0.0


def test_events_name_themselves():
    assert str(Event("above", 3.0)) == "y >= 3"
    assert str(Event("below", -3.5)) == "y <= -3.5"
    outputs = np.array([0.25, 2.0**-60, 3.0, 2.0**-53, 2.0**-54])
    assert Event("low bits").holds(outputs).tolist() == [False, True, False, False, True]


@pytest.mark.parametrize("threshold", [-2.0, 0.0, 3.0])
def test_an_event_contains_exactly_the_outputs_of_its_name(threshold):
    outputs = np.arange(-4.0, 5.0)
    for event in (Event("above", threshold), Event("below", threshold)):
        named = eval(str(event), {"y": outputs})
        np.testing.assert_array_equal(event.holds(outputs), named)


def test_bad_arguments_are_refused():
    with pytest.raises(InputError, match="samples"):
        audit(Laplace(1, 10), samples=10)
    with pytest.raises(InputError, match="confidence"):
        audit(Laplace(1, 10), confidence=1.0)
