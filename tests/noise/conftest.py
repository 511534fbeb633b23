"""A chi-square check shared by the noise tests."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

ChiSquare = Callable[[NDArray[np.int64], Callable[[NDArray[np.int64]], NDArray[np.float64]]], float]


def chi_square_p(samples, pmf) -> float:
    """p-value of whole-number samples against a pmf; rare outcomes are pooled at either end."""
    low, high = int(samples.min()), int(samples.max())
    values = np.arange(low, high + 1)
    expected = pmf(values) * samples.size
    observed = np.bincount(samples - low).astype(np.float64)
    solid = np.flatnonzero(expected >= 10)
    first, last = solid[0], solid[-1] + 1
    # Everything outside the solid middle, seen or not, is one class.
    observed = np.append(observed[first:last], samples.size - observed[first:last].sum())
    expected = np.append(expected[first:last], samples.size - expected[first:last].sum())
    keep = expected > 1
    statistic = float(((observed[keep] - expected[keep]) ** 2 / expected[keep]).sum())
    return float(stats.chi2.sf(statistic, keep.sum() - 1))


@pytest.fixture
def chi_square() -> ChiSquare:
    return chi_square_p
