from __future__ import annotations

import mpmath
import numpy as np
import pytest

from hushmeter.errors import InputError
from hushmeter.noise import Gaussian, Laplace, Staircase
from hushmeter.noise.distribution import GridDistribution, _difference_excess

MECHANISMS = [
    Laplace(0.5, 10, grid=2),
    Laplace(5, 1, on_grid=True),
    Staircase(0.5, 10, grid=2),
    Staircase(4, 7),
    Gaussian(1, 1e-5, 10, grid=2),
    Gaussian(9, 1e-2, 1, on_grid=True),
]
mechanisms = pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)


def support(mechanism):
    reach = int(60 * mechanism.std / mechanism.grid) + 10
    return np.arange(-reach, reach + 1)


@mechanisms
def test_pmf_and_cdf_agree(mechanism):
    k = support(mechanism)
    pmf = mechanism.pmf(k)
    assert pmf.sum() == pytest.approx(1, abs=1e-12)
    assert np.allclose(np.cumsum(pmf), mechanism.cdf(k), atol=1e-12)
    normal = pmf > 1e-300
    assert np.allclose(np.log(pmf[normal]), mechanism.log_pmf(k)[normal], atol=1e-9)
    assert mechanism.pmf(0) == pmf[k == 0][0]
    assert isinstance(mechanism.cdf(3), float)


@mechanisms
def test_moments_and_quantiles_follow_from_the_pmf(mechanism):
    k = support(mechanism)
    pmf, watts = mechanism.pmf(k), np.abs(k) * mechanism.grid
    assert mechanism.mean_abs == pytest.approx((watts * pmf).sum(), rel=1e-9)
    assert mechanism.std == pytest.approx(np.sqrt((watts**2 * pmf).sum()), rel=1e-9)
    for p in (0.0, 0.3, 0.5, 0.9, 0.999):
        x = mechanism.quantile(p)
        assert pmf[watts <= x].sum() >= p - 1e-12
        assert x == 0 or pmf[watts <= x - mechanism.grid].sum() < p + 1e-12


@mechanisms
def test_the_excess_of_differences_follows_from_the_convolution(mechanism):
    k = support(mechanism)
    direct = np.convolve(mechanism.pmf(k), mechanism.pmf(k))
    at = np.arange(2 * k[0], 2 * k[-1] + 1)
    for b in (-17.3, -4.0, 0.0, 0.7, 4.0, 25.0, 80.2):
        expected = (np.maximum(0, at * mechanism.grid - b) * direct).sum()
        assert mechanism.difference_excess(b) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert mechanism.difference_excess(np.array([1.0, 2.0])).shape == (2,)


def test_laplace_closed_forms_agree_with_the_generic_convolution():
    mechanism = Laplace(0.3, 40)
    b = np.array([0.0, 3.5, 100.0, 1000.0])
    assert np.allclose(
        mechanism.difference_excess(b),
        GridDistribution.difference_excess(Staircase(0.3, 40), b),
        rtol=0.2,
    )
    generic = GridDistribution._excess_steps(mechanism, b)
    assert np.allclose(mechanism._excess_steps(b), generic, rtol=1e-8, atol=1e-10)


def test_a_very_wide_distribution_is_merged_into_cells():
    mechanism = Laplace("0.0001", 200)
    width, _ = _difference_excess(mechanism)
    assert width > 1
    b = mechanism.scale * np.array([0.1, 1.0, 5.0])
    generic = GridDistribution._excess_steps(mechanism, b)
    assert np.allclose(generic, mechanism._excess_steps(b), rtol=1e-6)


@pytest.mark.parametrize("epsilon", ["1e-9", "0.5", "20", "800", "1450", "2900", "4000"])
@pytest.mark.parametrize("name", ["laplace", "staircase", "gaussian"])
def test_moments_hold_for_every_epsilon_that_is_admitted(name, epsilon):
    """Against sums in 40 digits; below 1e-300, where floats lose digits, zero is near enough."""
    if name == "gaussian":
        mechanism = Gaussian(max(float(epsilon), 0.01), 1e-6, 1, on_grid=True, max_epsilon=4096)
        law = _gaussian_masses(mechanism)
    elif name == "staircase":
        mechanism = Staircase(max(float(epsilon), 0.01), 1, on_grid=True, max_epsilon=4096)
        law = _geometric_masses(mechanism)
    else:
        mechanism = Laplace(epsilon, 1, on_grid=True, max_epsilon=4096)
        law = _geometric_masses(mechanism)
    mean, variance = law
    tiny = 1e-300
    assert mechanism.mean_abs == pytest.approx(float(mean), rel=1e-9, abs=tiny)
    assert mechanism.std == pytest.approx(float(mpmath.sqrt(variance)), rel=1e-9, abs=tiny)
    assert np.isfinite(mechanism.scale)


def _geometric_masses(mechanism):
    """E|n| and E[n²] of (1 − α)/(1 + α)·α^|k|; a staircase of one step is this law too."""
    with mpmath.workdps(40):
        a = mpmath.exp(-mpmath.mpf(mechanism.epsilon))
        return 2 * a / (1 - a**2), 2 * a / (1 - a) ** 2


def _gaussian_masses(mechanism):
    with mpmath.workdps(40):
        twice = 2 * mpmath.mpf(mechanism.sigma_steps) ** 2
        reach = int(20 * mechanism.sigma_steps) + 3
        weights = [mpmath.exp(-(mpmath.mpf(k) ** 2) / twice) for k in range(reach)]
        total = 2 * sum(weights) - 1
        first = 2 * sum(k * w for k, w in enumerate(weights)) / total
        return first, 2 * sum(k * k * w for k, w in enumerate(weights)) / total


def test_fine_laplace_differences_have_mean_size_three_halves_of_the_scale():
    mechanism = Laplace(1, 1000, on_grid=True)
    assert 2 * mechanism.difference_excess(0.0) == pytest.approx(1.5 * mechanism.scale, rel=1e-5)
    b = np.array([0.0, 500.0, 3000.0])
    # E(l − b)_+ of continuous Laplace noise is (3λ + b)/4·e^(−b/λ).
    assert np.allclose(
        mechanism.difference_excess(b), (3000 + b) / 4 * np.exp(-b / 1000), rtol=1e-5
    )


def test_wrong_arguments_are_refused():
    with pytest.raises(InputError, match="p must lie"):
        Laplace(1, 10).quantile(1.0)
    with pytest.raises(InputError, match="whole numbers"):
        Laplace(1, 10).pmf(0.5)
