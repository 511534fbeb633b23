"""Theorem 2: Laplace noise of scale Δf/ε gives ε-differential privacy."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.paper.likelihood_ratios import (
    check_certified_ratios,
    epsilons,
    protected_inputs,
    worst_log_ratio,
)

from hushmeter.noise import Laplace
from hushmeter.noise.table_sampler import TwoSidedGeometric

KEY = bytes(range(32))


@given(protected_inputs(Laplace))
@settings(max_examples=300, deadline=None)
def test_no_output_separates_protected_inputs_by_more_than_epsilon(drawn):
    mechanism, (here, there), epsilon = drawn
    # The normalising constant is the same for both inputs, so the log-ratio is exactly this.
    assert mechanism.rate * abs(here - there) <= epsilon


@given(epsilons.filter(lambda e: e > 1), st.integers(1, 40), st.integers(-40, 40))
@settings(max_examples=60, deadline=None)
def test_certified_masses_keep_the_ratio(epsilon, steps, at):
    check_certified_ratios(TwoSidedGeometric(epsilon / steps), epsilon, steps, at)


@pytest.mark.parametrize("epsilon", ["0.1", "1", "3"])
@pytest.mark.parametrize("steps", [1, 2, 5, 9])
def test_exhaustive_ratio_for_small_sensitivities(epsilon, steps):
    mechanism = Laplace(epsilon, steps, on_grid=True)
    assert worst_log_ratio(mechanism, steps) <= float(epsilon) * (1 + 1e-12)
    worst = mechanism.log_pmf(0) - mechanism.log_pmf(steps)
    assert worst == pytest.approx(float(epsilon))


def test_one_step_more_than_protected_breaks_the_claim():
    mechanism = Laplace(1, 10, on_grid=True)
    assert mechanism.rate * 11 > 1


def test_the_float_pmf_is_the_exact_one():
    mechanism = Laplace("0.3", 10)
    with mpmath.workprec(200):
        alpha = mpmath.exp(-mpmath.mpf(3) / 110)
        for k in (0, 1, -7, 500):
            exact = (1 - alpha) / (1 + alpha) * alpha ** abs(k)
            assert mechanism.pmf(k) == pytest.approx(float(exact), rel=1e-13)


def test_scale_is_the_sensitivity_over_epsilon():
    mechanism = Laplace(0.5, 10.0, on_grid=True)
    assert mechanism.scale == 20.0
    fine = Laplace(0.5, 10, grid="0.001", on_grid=True)
    assert fine.mean_abs == pytest.approx(20.0, rel=1e-6)
    assert fine.std == pytest.approx(20.0 * np.sqrt(2), rel=1e-6)


def test_opendp_gives_a_second_opinion():
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    mechanism = Laplace(0.5, 10)
    space = dp.vector_domain(dp.atom_domain(T=dp.i64)), dp.l1_distance(T=dp.i64)
    other = dp.m.make_laplace(*space, scale=mechanism.scale)
    assert other.map(mechanism.steps) == pytest.approx(0.5)
    theirs = np.array(other(np.zeros(100_000, dtype=np.int64)))
    ours = mechanism.sample(100_000, key=KEY)
    edges = np.array([-np.inf, *np.arange(-80, 81, 4), np.inf])
    table = [np.histogram(x, edges)[0] for x in (ours, theirs)]
    assert stats.chi2_contingency(table).pvalue > 1e-6
