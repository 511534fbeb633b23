"""The functions of `special` against SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special
from scipy import stats

from hushmeter import special

EXACT = 1e-13


def test_the_normal_distribution_and_its_logarithm():
    x = np.concatenate([np.linspace(-37, 9, 40_001), [-1e200, -40.0, 1e200, np.inf, -np.inf, 0.0]])
    np.testing.assert_allclose(special.ndtr(x), scipy.special.ndtr(x), rtol=EXACT, atol=0)
    found, expected = special.log_ndtr(x), scipy.special.log_ndtr(x)
    np.testing.assert_allclose(found, expected, rtol=EXACT, atol=0)
    assert special.ndtr(1.5) == pytest.approx(scipy.special.ndtr(1.5), rel=EXACT)
    assert np.isnan(special.ndtr(np.nan))
    for one in (-1e100, -500.0, -36.1, -35.9, -8.0, -1.0, 0.0, 0.5, 7.0, 40.0):
        expected = scipy.special.log_ndtr(one)
        assert special.log_phi(one) == pytest.approx(expected, rel=EXACT, abs=0)


def test_quantiles_of_the_beta_distribution():
    for trials in (1, 2, 7, 100, 4321, 1_000_000):
        for hits in {
            1,
            min(2, trials),
            trials // 3,
            trials // 2,
            trials - 2,
            trials - 1,
            trials,
        } - {0, -1}:
            for p in (0.0025, 0.05, 0.5, 0.95, 0.9975):
                found = special.beta_quantile(p, hits, trials - hits + 1)
                expected = stats.beta.ppf(p, hits, trials - hits + 1)
                # Here SciPy itself errs in the twelfth digit.
                loose = 20 if (p, hits, trials) == (0.95, 2, 1_000_000) else 1
                assert found == pytest.approx(expected, rel=loose * EXACT, abs=0), (p, hits, trials)


def test_a_beta_quantile_of_a_million_trials_in_closed_form():
    n, x = 1_000_000, special.beta_quantile(0.95, 2, 999_999)
    above = math.exp(n * math.log1p(-x)) + n * x * math.exp((n - 1) * math.log1p(-x))
    assert above == pytest.approx(0.05, rel=1e-12)


def test_quantiles_of_student_and_of_sums_of_squares():
    for free in (1, 2, 3, 4, 9, 29, 49, 50, 364, 1000):
        for p in (0.95, 0.975, 0.995):
            expected = stats.t.ppf(p, free)
            assert special.student_quantile(p, free) == pytest.approx(expected, rel=EXACT)
        for p in (0.05, 0.5, 0.95):
            expected = stats.chi2.ppf(p, free)
            assert special.chi2_quantile(p, free) == pytest.approx(expected, rel=EXACT)
