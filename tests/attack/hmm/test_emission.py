"""Densities of readings against quadrature, whole sums and scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import laplace, norm

from hushmeter import Gaussian, Laplace, Staircase
from hushmeter.attack.hmm.emission import (
    NoisyEmission,
    gaussian_log_densities,
    noisy_log_density,
)
from hushmeter.noise.laplace import continuous_log_density
from hushmeter.noise.losses import GridDistribution

MECHANISMS = [
    Laplace(epsilon=0.5, sensitivity=10.0),
    Staircase(epsilon=1.0, sensitivity=10.0),
    Gaussian(epsilon=1.0, delta=1e-6, sensitivity=10.0),
    Laplace(epsilon=20.0, sensitivity=10.0, grid=10.0),
]


def test_closed_form_is_the_convolution():
    residuals = np.array([0.0, 1.0, 5.0, 30.0, 120.0, 400.0])
    for spread, scale in ((3.0, 20.0), (10.0, 5.0), (0.2, 50.0)):
        direct = [
            quad(
                lambda x, r=r, spread=spread, scale=scale: (
                    norm.pdf(x, 0, spread) * laplace.pdf(r - x, 0, scale)
                ),
                -12 * spread,
                12 * spread,
                points=sorted({0.0, min(r, 11 * spread)}),
                epsabs=0,
            )[0]
            for r in residuals
        ]
        closed = np.exp(continuous_log_density(residuals, spread, scale))
        assert closed == pytest.approx(direct, rel=1e-6)


WIDE = [
    Staircase(epsilon=0.1, sensitivity=400.0),
    Staircase(epsilon=4.0, sensitivity=900.0),
    Gaussian(epsilon=0.5, delta=1e-6, sensitivity=50.0),
]


@pytest.mark.parametrize("mechanism", [*MECHANISMS, *WIDE], ids=str)
@pytest.mark.parametrize("spread", [3.0, 7.0, 30.0, 250.0])
def test_numeric_convolution_is_the_sum_over_the_grid(mechanism, spread):
    """Against the whole sum, one term per grid step, to where the noise ends."""
    reach = int((mechanism.quantile(1 - 1e-10) + 8 * spread) / mechanism.grid)
    steps, spread = np.arange(-reach, reach + 1), max(spread, mechanism.grid / 2)
    masses = mechanism.pmf(steps)
    residuals = np.linspace(0.0, mechanism.quantile(1 - 1e-6) + 3 * spread, 60)
    direct = [(masses * norm.pdf(r - steps * mechanism.grid, 0, spread)).sum() for r in residuals]
    found = np.exp(GridDistribution.log_density(mechanism, residuals, spread))
    assert found == pytest.approx(direct, rel=0.003)


def test_both_ways_agree_for_laplace_noise():
    mechanism = MECHANISMS[0]
    residuals, spread = np.linspace(0, 200, 50), np.hypot(4.0, 1 / np.sqrt(12))
    numeric = GridDistribution.log_density(mechanism, residuals, spread)
    closed = noisy_log_density(residuals, 4.0, mechanism)
    assert closed == pytest.approx(numeric, abs=0.01)


@pytest.mark.parametrize("mechanism", [None, *MECHANISMS], ids=lambda m: m.name if m else "none")
def test_densities_integrate_to_one_and_never_vanish(mechanism):
    emission = NoisyEmission(
        np.array([0.0, 100.0]), np.array([4.0, 400.0]), mechanism, 1e-3, reach=5000.0
    )
    grid = np.linspace(-5000, 5000, 200_001)
    assert np.trapezoid(emission.densities(grid), grid, axis=0) == pytest.approx(1, abs=0.01)
    assert (emission.densities(np.array([-9e4, 9e4])) > 0).all()


def test_gaussian_log_densities():
    readings, means = np.array([1.0, 50.0]), np.array([0.0, 40.0, 90.0])
    expected = norm.logpdf(readings[:, None], means, 3.0)
    assert gaussian_log_densities(readings, means, 9.0) == pytest.approx(expected)
    relative = gaussian_log_densities(readings, means, 9.0, relative=True)
    assert relative == pytest.approx(expected - expected.max(axis=1, keepdims=True))
