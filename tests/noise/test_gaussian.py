from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from hushmeter.noise import Gaussian
from hushmeter.noise.gaussian import (
    analytic_delta,
    calibrate_sigma,
    concentrated_delta,
    discrete_delta,
    smallest,
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
def test_the_discrete_law_keeps_its_delta(epsilon, steps, delta):
    sigma = calibrate_sigma(Fraction(epsilon), Fraction(str(delta)), steps, False)
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


def test_a_spread_change_uses_the_concentrated_bound():
    single = Gaussian(1, 1e-6, 100, on_grid=True)
    spread = Gaussian(1, 1e-6, 100, on_grid=True, touches=30)
    assert single.scale < spread.scale < 1.15 * single.scale
    assert spread.steps == 100
    assert spread.describe()["calibration"] == "concentrated"
    assert Gaussian(1, 1e-6, 100, touches=30).steps == 106
    assert concentrated_delta(1.0, spread.sigma_steps, 100.0) == pytest.approx(1e-6, rel=1e-3)
    assert spread.epsilon_for(100) < 1


@pytest.mark.parametrize("delta", [0.9, 1e-3, 1e-6, 1e-12])
def test_the_shortcut_to_the_spread_sigma_changes_no_bit(delta):
    goal = delta * (1 - 1e-9)
    for epsilon in np.geomspace(1e-3, 200, 12).tolist():
        plain = smallest(lambda s, e=epsilon: concentrated_delta(e, s, 1.0) <= goal, 1e-6)
        assert unit_sigma(epsilon, delta, True) == plain


@pytest.mark.parametrize("sigma", [64.2, 1234.5])
def test_moments_of_wide_noise_are_those_of_the_pmf(sigma):
    noise = Gaussian(1, 1e-6, sigma / unit_sigma(1.0, 1e-6, True), touches=2, on_grid=True)
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
        delta = analytic_delta(epsilon, mechanism.sigma_steps, steps)
        assert delta == pytest.approx(1e-6, rel=1e-6)


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(1, 1), (5, 1), (20, 1), (20, 10), (1, 10)])
def test_group_privacy_on_a_coarse_grid_is_that_of_the_law_itself(epsilon, sensitivity):
    """At σ = 0.6 steps the continuous formula would promise an ε that has three times the δ."""
    mechanism = Gaussian(epsilon, 1e-6, sensitivity)
    for shift in (0.5 * sensitivity, 3 * sensitivity):
        found, steps = mechanism.epsilon_for(shift), mechanism.steps_of(shift)
        delta = float_discrete_delta(found, mechanism.sigma_steps, steps)
        assert delta <= 1e-6 * (1 + 1e-9)
        least = float_discrete_delta(0.97 * found, mechanism.sigma_steps, steps)
        assert least > 1e-6
