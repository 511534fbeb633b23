"""Losses added up by Fourier transform, against plain convolution and against dp-accounting."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushmeter.noise import Laplace, Staircase
from hushmeter.noise.privacy_loss import PrivacyLoss, connect_dots, convolve, epsilon_at

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
