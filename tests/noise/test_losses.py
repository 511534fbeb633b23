"""The distribution of the noise, and losses added up by Fourier transform."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushmeter.errors import InputError
from hushmeter.noise import Gaussian, Laplace, Staircase
from hushmeter.noise.losses import (
    GridDistribution,
    PrivacyLoss,
    _difference_excess,
    connect_dots,
    convolve,
    epsilon_at,
)

CELL = 0.05
LAPLACE = Laplace(1.0, 1000, on_grid=True)


def loss_of(mechanism, watts, cell, deltas_only=False):
    cells = math.ceil(mechanism.epsilon_for(watts) / cell - 1e-9)
    grid = cell * np.arange(-cells, cells + 1, dtype=float)
    deltas = mechanism.hockey_stick(mechanism.steps_of(watts), grid)
    deltas[-1] = 0.0
    return deltas if deltas_only else connect_dots(cell, deltas)


def plain_delta(loss, epsilon):
    losses = loss.cell * (loss.first + np.arange(loss.masses.size))
    gain = np.where(losses > epsilon, -np.expm1(np.minimum(epsilon - losses, 0)), 0)
    return loss.infinite + float(gain @ loss.masses)


def test_the_dots_are_passed_and_the_masses_are_a_distribution():
    loss = loss_of(LAPLACE, 600.0, CELL)
    assert loss.masses.sum() == pytest.approx(1)
    deltas = loss_of(LAPLACE, 600.0, CELL, deltas_only=True)
    grid = CELL * (np.arange(deltas.size) - deltas.size // 2)
    np.testing.assert_allclose(loss.deltas(), deltas[grid > -CELL / 2], atol=1e-13)


@pytest.mark.parametrize("times", [1, 2, 3, 7, 12])
def test_repeating_is_convolving(times):
    loss = loss_of(LAPLACE, 600.0, CELL)
    masses = np.ones(1)
    for _ in range(times):
        masses = np.convolve(masses, loss.masses)
    found = loss.repeat(times)
    start = found.first - times * loss.first
    whole = np.zeros_like(masses)
    whole[start : start + found.masses.size] = found.masses
    np.testing.assert_allclose(whole, masses, atol=2e-15)
    assert found.infinite == (0 if times == 1 else pytest.approx(1e-15))


def test_joining_is_convolving():
    one, other = loss_of(LAPLACE, 600.0, CELL), loss_of(LAPLACE, 90.0, CELL)
    found = one.join(other)
    np.testing.assert_allclose(found.masses, np.convolve(one.masses, other.masses), atol=1e-15)
    assert found.first == one.first + other.first


@pytest.mark.parametrize("mechanism", [LAPLACE, Staircase(0.2, 1000, on_grid=True)])
@pytest.mark.parametrize("times", [(1,), (30,), (600,), (14_400,), (30, 1)])
def test_dp_accounting_composes_the_same(mechanism, times):
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    cell = mechanism.epsilon if isinstance(mechanism, Staircase) else CELL
    ours = theirs = None
    for watts, count in zip((1000.0, 400.0), times, strict=False):
        deltas = loss_of(mechanism, watts, cell, deltas_only=True)
        reach = deltas.size // 2
        grid = np.arange(-reach, reach + 1)
        pmf = pld_pmf.create_pmf_pessimistic_connect_dots(cell, grid, deltas)
        part = PrivacyLossDistribution(pmf)
        part = part.self_compose(count) if count > 1 else part
        theirs = part if theirs is None else theirs.compose(part)
        mine = connect_dots(cell, deltas).repeat(count)
        ours = mine if ours is None else ours.join(mine)
    # Both transforms round: by 1e-12 of all mass after 14 400 readings.
    curve = ours.deltas()
    for place in np.linspace(0, epsilon_at(curve, cell, 1e-9) / cell, 9).astype(int):
        wanted = theirs.get_delta_for_epsilon(float(cell * place))
        assert curve[place] == pytest.approx(wanted, rel=1e-9, abs=5e-12)
    for delta in (1e-3, 1e-6):
        assert theirs.get_delta_for_epsilon(epsilon_at(curve, cell, delta)) <= delta + 5e-12


@given(
    st.lists(st.floats(0, 1), min_size=3, max_size=40).filter(lambda m: sum(m) > 0.1),
    st.integers(-20, 5),
    st.floats(1e-3, 0.5),
)
def test_sums_and_their_inverse(masses, first, cell):
    loss = PrivacyLoss(cell, first, np.array(masses) / sum(masses), 1e-12)
    curve = loss.deltas()
    wanted = [min(plain_delta(loss, cell * place), 1) for place in range(curve.size)]
    np.testing.assert_allclose(curve, wanted, atol=1e-12)
    for delta in (0.3, 1e-2, 1e-6):
        found = epsilon_at(curve, cell, delta)
        assert plain_delta(loss, found) <= delta + 1e-12
        if found > 1e-6:
            assert plain_delta(loss, found - 1e-6) > delta - 1e-12


def test_the_curve_can_begin_anywhere():
    loss = loss_of(LAPLACE, 600.0, CELL).repeat(40)
    whole = loss.deltas()
    for start in (1, 7, whole.size - 2):
        part = loss.deltas(start)
        np.testing.assert_allclose(part, whole[start:], atol=1e-13)
        assert epsilon_at(part, CELL, 1e-3, start) >= CELL * start
    assert loss.deltas(whole.size + 3) == loss.infinite


def test_what_cannot_be_kept_is_infinite():
    loss = loss_of(LAPLACE, 600.0, CELL).repeat(5)
    assert epsilon_at(loss.deltas(), CELL, 1e-16) == math.inf
    far = PrivacyLoss(0.5, 3000, np.array([0.5, 0.5]))
    assert far.deltas()[0] == 1
    assert 1500 < epsilon_at(far.deltas(), 0.5, 1e-6) <= 1500.5


def test_long_vectors_are_convolved_by_transform():
    rng = np.random.default_rng(0)
    one, other = rng.random(300), rng.random(500)
    np.testing.assert_allclose(convolve(one, other), np.convolve(one, other), rtol=1e-12)


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


@mechanisms
@pytest.mark.parametrize("spread", [0.1, 3.0, 200.0])
def test_the_density_of_a_noisy_residual_is_the_sum_over_the_noise(mechanism, spread):
    """A spread below half a grid step counts as half a step."""
    grid, k = mechanism.grid, support(mechanism)
    sigma = max(spread, grid / 2)
    residuals = np.array([0.0, 1.3, 2.0]) * mechanism.std
    gaps = (residuals[:, None] - k * grid) / sigma
    density = np.exp(-0.5 * gaps**2) @ mechanism.pmf(k) / (sigma * math.sqrt(2 * math.pi))
    found = GridDistribution.log_density(mechanism, residuals, spread)
    np.testing.assert_allclose(found, np.log(density), atol=0.003)


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
