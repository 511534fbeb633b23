from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from hushmeter.errors import InputError
from hushmeter.noise import Gaussian, parse_mechanism
from hushmeter.noise.gaussian import (
    analytic_delta,
    calibrate_sigma,
    concentrated_epsilon,
    continuous_sigma,
    discrete_delta,
    unit_sigma,
)


def float_discrete_delta(epsilon, sigma, steps):
    """δ(ε) as the plain sum of (p − e^ε q)_+ over the pmf."""
    k = np.arange(-int(45 * sigma) - steps - 3, int(45 * sigma) + steps + 4)
    p = np.exp(-0.5 * (k / sigma) ** 2)
    q = np.exp(-0.5 * ((k + steps) / sigma) ** 2)
    return np.maximum(0, p - math.exp(epsilon) * q).sum() / p.sum()


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 6.0])
@pytest.mark.parametrize("sigma", [0.3, 1.0, 7.0, 90.0])
def test_the_analytic_formula_agrees_with_mpmath(epsilon, sigma):
    with mpmath.workprec(200):
        a, b = mpmath.mpf(1) / (2 * sigma), mpmath.mpf(epsilon) * sigma
        exact = mpmath.ncdf(a - b) - mpmath.exp(epsilon) * mpmath.ncdf(-a - b)
    assert analytic_delta(epsilon, sigma, 1.0) == pytest.approx(float(exact), rel=1e-8)


def test_the_analytic_formula_agrees_with_dp_accounting():
    accounting = pytest.importorskip("dp_accounting.pld.privacy_loss_mechanism")
    loss = accounting.GaussianPrivacyLoss(unit_sigma(1.0, 1e-6, False))
    assert loss.get_delta_for_epsilon(1.0) == pytest.approx(1e-6, rel=1e-6)


@pytest.mark.parametrize("epsilon", ["0.1", "1", "5", "15"])
@pytest.mark.parametrize("steps", [1, 2, 11, 100])
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_the_discrete_distribution_keeps_its_delta(epsilon, steps, delta):
    sigma, _ = calibrate_sigma(Fraction(epsilon), Fraction(str(delta)), steps, False)
    assert discrete_delta(Fraction(epsilon), Fraction(sigma) ** 2, steps) <= Fraction(str(delta))
    worst = max(float_discrete_delta(float(epsilon), sigma, s) for s in range(1, steps + 1))
    assert worst <= delta * (1 + 1e-9)
    assert sigma < 1.5 * steps * unit_sigma(float(epsilon), delta, False)
    if sigma > 10:
        assert sigma < 1.001 * steps * unit_sigma(float(epsilon), delta, False)


def test_certified_delta_is_the_sum_over_the_pmf():
    for epsilon, sigma, steps in ((0.5, 20.0, 7), (2.0, 3.0, 2), (4.0, 0.7, 1)):
        bound = float(discrete_delta(Fraction(epsilon), Fraction(sigma) ** 2, steps))
        assert bound == pytest.approx(float_discrete_delta(epsilon, sigma, steps), rel=1e-9)


def test_a_spread_change_has_the_sigma_of_continuous_noise():
    """σ = 4.2247·Δ2 at ε = 1 and δ = 1e-6; concentrated privacy alone needs 4.5309·Δ2."""
    spread = Gaussian(1, 1e-6, 100, on_grid=True, touches=30)
    assert spread.sigma_steps == Gaussian(1, 1e-6, 100, on_grid=True).sigma_steps
    assert spread.steps == 100
    assert spread.describe()["calibration"] == "analytic"
    assert spread.sigma_steps == pytest.approx(422.47, abs=0.01)
    assert Gaussian(1, 1e-6, 100, touches=30).steps == 106
    assert spread.epsilon_for(100) == pytest.approx(1, rel=1e-9)


def test_a_coarse_grid_uses_the_route_that_needs_less():
    few = Gaussian(10, 1e-6, 2, on_grid=True, touches=3)
    assert few.describe()["calibration"] == "concentrated"
    assert concentrated_delta(10.0, few.sigma_steps, 2.0) == pytest.approx(1e-6, rel=1e-3)
    more = Gaussian(1, 1e-6, 2, on_grid=True, touches=3)
    assert more.describe()["calibration"] == "analytic"
    assert more.sigma_steps < 2 * unit_sigma(1.0, 1e-6, True)
    for noise in (few, more):
        assert noise.epsilon_for(2, 2) == pytest.approx(noise.epsilon, rel=1e-6)


def concentrated_delta(epsilon, sigma, shift):
    """The conversion from concentrated privacy, minimised over its order numerically."""
    rho = shift**2 / (2 * sigma**2)

    def log_delta(log_order):
        above = math.exp(log_order)
        order = 1 + above
        return above * (order * rho - epsilon) + order * math.log(above / order) - log_order

    return math.exp(minimize_scalar(log_delta, bounds=(-12, 16), method="bounded").fun)


@pytest.mark.parametrize("delta", [0.9, 1e-3, 1e-6, 1e-12])
def test_both_conversions_from_concentrated_privacy_are_the_best_order(delta):
    for epsilon in np.geomspace(1e-3, 200, 12).tolist():
        sigma = unit_sigma(epsilon, delta, True)
        assert concentrated_delta(epsilon, sigma, 1.0) == pytest.approx(delta, rel=1.1e-9)
        assert concentrated_delta(epsilon, sigma, 1.0) <= delta
        found = concentrated_epsilon(0.5 / sigma**2, delta * (1 - 1e-9))
        assert epsilon * (1 - 1e-9) <= found <= epsilon


@pytest.mark.parametrize("sigma", [64.2, 1234.5])
def test_moments_of_wide_noise_are_those_of_the_pmf(sigma):
    noise = Gaussian.of_sigma(sigma, 10, touches=2, on_grid=True)
    k = np.arange(0.0, 50 * noise.sigma_steps)
    weights = np.exp(-0.5 * (k / noise.sigma_steps) ** 2)
    weights[0] /= 2
    mean = (k * weights).sum() / weights.sum()
    spread = math.sqrt((k**2 * weights).sum() / weights.sum())
    assert noise.mean_abs == pytest.approx(mean, rel=1e-12)
    assert noise.std == pytest.approx(spread, rel=1e-12)


def test_smaller_delta_needs_wider_noise():
    scales = [Gaussian(1, delta, 10).scale for delta in ("1e-3", "1e-6", "1e-12", "1e-40")]
    assert scales == sorted(scales)


def test_group_privacy_inverts_the_formula():
    mechanism = Gaussian(1, 1e-6, 100)
    for shift in (30, 70, 300):
        epsilon = mechanism.epsilon_for(shift)
        steps = mechanism.steps_of(shift)
        delta = analytic_delta(epsilon, continuous_sigma(mechanism.sigma_steps), steps)
        assert delta == pytest.approx(1e-6, rel=1e-6)


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(1, 1), (5, 1), (20, 1), (20, 10), (1, 10)])
def test_group_privacy_on_a_coarse_grid_is_that_of_the_distribution_itself(epsilon, sensitivity):
    """At σ = 0.6 steps the continuous formula would promise an ε that has three times the δ."""
    mechanism = Gaussian(epsilon, 1e-6, sensitivity)
    for shift in (0.5 * sensitivity, 3 * sensitivity):
        found, steps = mechanism.epsilon_for(shift), mechanism.steps_of(shift)
        delta = float_discrete_delta(found, mechanism.sigma_steps, steps)
        assert delta <= 1e-6 * (1 + 1e-9)
        least = float_discrete_delta(0.97 * found, mechanism.sigma_steps, steps)
        assert least > 1e-6


def exact_vector_delta(changes, sigma, epsilons):
    """δ(ε) of a vector of changes, by convolution of the losses (|d|² − 2·d·n)/2σ² themselves."""
    common = math.gcd(*changes)
    reach = math.ceil(9.5 * sigma)
    masses = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    masses /= masses.sum()
    total = np.ones(1)
    for change in (one // common for one in changes):
        wider = np.zeros(total.size + 2 * reach * change)
        for place, mass in enumerate(masses):
            wider[place * change : place * change + total.size] += mass * total
        total = wider
    sums = common * (np.arange(total.size) - total.size // 2)
    losses = (sum(one**2 for one in changes) - 2 * sums) / (2 * sigma**2)
    return [-float(total @ np.expm1(np.minimum(one - losses, 0.0))) for one in epsilons]


def random_changes(rng, length):
    """Whole changes of up to four values of about a given length, often with a common factor."""
    vector = rng.normal(size=rng.integers(1, 5))
    whole = np.rint(np.abs(vector) * length / np.linalg.norm(vector)).astype(int)
    if rng.random() < 0.3:
        whole = whole // 6 * 6
    if rng.random() < 0.3:
        whole[1:] = whole[0]
    return [int(one) for one in whole if one]


@pytest.mark.parametrize("seed", range(3))
def test_no_vector_of_changes_loses_more_than_continuous_noise(seed):
    """The theorem of the module, for σ from 2 steps on; it is close where the grid is fine."""
    rng, epsilons = np.random.default_rng(seed), (0.0, 0.1, 0.5, 1.0, 2.0, 5.0)
    checked, closest = 0, 0.0
    while checked < 200:
        sigma = float(np.exp(rng.uniform(math.log(2), math.log(80))))
        changes = random_changes(rng, sigma * float(np.exp(rng.uniform(-3, 1))))
        if not changes or sum(changes) * sigma > 2e4:
            continue
        length = math.sqrt(sum(one**2 for one in changes))
        for epsilon, found in zip(
            epsilons, exact_vector_delta(changes, sigma, epsilons), strict=True
        ):
            if found > 1e-10:
                bound = analytic_delta(epsilon, continuous_sigma(sigma), length)
                assert found <= bound * (1 + 1e-9), (sigma, changes, epsilon)
                checked, closest = checked + 1, max(closest, found / bound)
    assert closest > 0.999


@pytest.mark.parametrize("epsilon", ["0.3", "1", "4"])
@pytest.mark.parametrize("delta", ["1e-3", "1e-6"])
def test_calibrated_noise_keeps_delta_for_every_vector(epsilon, delta):
    """Vectors of the protected length on a grid, also those that all have a common factor."""
    rng = np.random.default_rng(9)
    for _ in range(12):
        changes = random_changes(rng, float(rng.uniform(1, 12)))
        if not changes:
            continue
        square = sum(one**2 for one in changes)
        steps = math.isqrt(square - 1) + 1
        noise = Gaussian(epsilon, delta, steps, on_grid=True, touches=max(2, len(changes)))
        (found,) = exact_vector_delta(changes, noise.sigma_steps, [float(epsilon)])
        assert found <= float(delta) * (1 + 1e-9)
        # The ε that is stated for the same noise and another change keeps δ too.
        stated = noise.epsilon_for(2 * steps, 4)
        (doubled,) = exact_vector_delta([2 * one for one in changes], noise.sigma_steps, [stated])
        assert doubled <= float(delta) * (1 + 1e-9)


@pytest.mark.parametrize("prior", [0.5, 0.3])
@pytest.mark.parametrize("sigma", [3.0, 5100.0])
@pytest.mark.parametrize("ratio", [0.3, 60.0])
def test_the_best_guess_from_several_values_is_that_from_their_sum(sigma, prior, ratio):
    """The sum of four values is discrete Gaussian noise with twice the σ, up to 1e-30."""
    noise = Gaussian.of_sigma(sigma, 1, touches=4, on_grid=True)
    steps, reach = round(ratio * sigma), int(20 * sigma)
    off = np.exp(-0.5 * (np.arange(-reach, reach + 1) / (2 * sigma)) ** 2) / sigma
    on = np.append(np.zeros(4 * steps), off)
    best = np.maximum(prior * on, (1 - prior) * np.append(off, np.zeros(4 * steps)))
    (found,) = noise.limits(np.array([float(steps)]), np.array([prior]), 4)
    assert found == pytest.approx(best.sum() / off.sum(), abs=1e-10)


@pytest.mark.parametrize("steps", [1, 10, 80])
def test_the_largest_loss_leaves_out_less_than_1e_18(steps):
    """Of the probability of the losses s·(s − 2n)/2σ²; one standard deviation less leaves more."""
    noise = Gaussian.of_sigma(10.0, 1, touches=2, on_grid=True)
    outcomes = np.arange(-300, 300)
    losses = steps * (steps - 2 * outcomes) / 200
    for lower, within in ((0, True), (steps / 10, False)):
        beyond = losses > noise.largest_loss(steps) - lower
        assert (np.asarray(noise.pmf(outcomes[beyond])).sum() < 1e-18) == within


@pytest.mark.parametrize("sigma", [2.9, 7.3, 100.1, 5432.1])
def test_noise_of_a_given_sigma_is_described_and_parsed_back(sigma):
    noise = Gaussian.of_sigma(sigma, 3, "0.5", delta="1e-7", touches=5, on_grid=True)
    assert noise.sigma_steps == sigma
    assert (noise.grid, noise.steps, noise.describe()["calibration"]) == (0.5, 6, "stated")
    twin = parse_mechanism({"gaussian": noise.parameters()})
    assert twin.describe() == noise.describe()
    assert twin.sigma_steps == sigma
    np.testing.assert_array_equal(twin.sample(1000, rng=3), noise.sample(1000, rng=3))
    (loss,) = exact_vector_delta([4, 4, 2], sigma, [noise.epsilon]) if sigma < 200 else (0.0,)
    assert loss <= 1e-7 * (1 + 1e-9)


def test_noise_that_does_not_keep_its_claim_is_refused():
    with pytest.raises(InputError, match="above 20"):
        Gaussian.of_sigma(0.5, 100)
    with pytest.raises(InputError, match="raise sigma_steps or epsilon"):
        Gaussian(1, 1e-6, 100, sigma_steps=300.0)
    with pytest.raises(InputError, match="choose a coarser grid"):
        Gaussian.of_sigma(1e12, 100)
    with pytest.raises(InputError, match="sigma_steps must be positive"):
        Gaussian.of_sigma(0.0, 100)
