"""The estimate of any set of tables agrees with dense linear algebra."""

from __future__ import annotations

import numpy as np
import pytest
from hushmeter.releases.least_squares import TableEstimate, complete_variances
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmeter.privacy.tables import NO_LABEL, Table


def month_tables(days, hours):
    """Days, hours of the day and the total of a complete month."""
    return [
        Table("days", np.repeat(np.arange(days), hours), days),
        Table("hours", np.tile(np.arange(hours), days), hours),
        Table("total", np.zeros(days * hours, dtype=np.int64), 1),
    ]


def random_tables(count, rng):
    """Up to four tables of any labels; some cells have none, and some labels no cell."""
    tables = []
    for number in range(int(rng.integers(1, 5))):
        size = int(rng.integers(1, 12))
        labels = rng.integers(0, size, count)
        if rng.random() < 0.5:
            labels = np.sort(labels)
        labels = np.where(rng.random(count) < 0.1, NO_LABEL, labels)
        tables.append(Table(str(number), labels, size))
    return tables


def matrix_of(table):
    """The sums of a table as a matrix of zeros and ones, shape (size, n)."""
    return (table.labels[None, :] == np.arange(table.size)[:, None]).astype(float)


def dense(tables, weights):
    """The matrix of the normal equations."""
    size = tables[0].labels.size
    parts = [w * matrix_of(t).T @ matrix_of(t) for t, w in zip(tables, weights[1:], strict=True)]
    return weights[0] * np.eye(size) + sum(parts)


def right_side(tables, weights, cells, sums):
    pairs = zip(tables, weights[1:], sums, strict=True)
    return weights[0] * cells + sum(w * matrix_of(t).T @ s for t, w, s in pairs)


def noisy_sums(tables, cells, rng):
    return [table.sums(cells) + rng.normal(0, 100, table.size) for table in tables]


@given(st.integers(2, 60), st.integers(0, 2**32 - 1))
@settings(max_examples=150)
def test_any_tables_agree_with_dense_algebra(count, seed):
    rng = np.random.default_rng(seed)
    tables = random_tables(count, rng)
    weights = 10.0 ** rng.uniform(-6, -2, 1 + len(tables))
    weights[1:] *= rng.random(len(tables)) < 0.8  # some tables are not published
    scales = 1 / rng.uniform(0.9, 1.0, count) if rng.random() < 0.5 else None
    cells = rng.normal(300, 200, count)
    sums = noisy_sums(tables, cells, rng)
    fit = TableEstimate(tables, weights, scales)
    factors = np.ones(count) if scales is None else scales
    matrix = dense(tables, weights)
    expected = np.linalg.solve(matrix, right_side(tables, weights, cells, sums)) * factors
    np.testing.assert_allclose(fit.solve(cells, sums), expected, rtol=1e-7, atol=1e-6)
    covariance = np.linalg.inv(matrix) * factors[:, None] * factors
    np.testing.assert_allclose(fit.cell_variances, np.diag(covariance), rtol=1e-7)
    for query in (*tables, Table("all", np.zeros(count, dtype=np.int64), 1)):
        member = matrix_of(query)
        truth = ((member @ covariance) * member).sum(axis=1)
        found = fit.sum_variances(query)
        np.testing.assert_allclose(found, truth, rtol=1e-7, atol=1e-9 * covariance.max())
    prefixes = np.tril(np.ones((count, count)))
    register = ((prefixes @ covariance) * prefixes).sum(axis=1)
    np.testing.assert_allclose(fit.register_variances, register, rtol=1e-7)


WEIGHTS = st.lists(st.floats(1e-6, 1e-2), min_size=4, max_size=4).map(np.array)


@given(st.integers(1, 12), st.integers(2, 9), WEIGHTS)
def test_the_variances_of_a_complete_month(days, hours, weights):
    """The eigenvalues of a complete month give the same variances."""
    tables = month_tables(days, hours)
    fit = TableEstimate(tables, weights)
    cell, *sums = complete_variances(weights, days, hours)
    np.testing.assert_allclose(fit.cell_variances, cell, rtol=1e-7)
    for table, variance in zip(tables, sums, strict=True):
        np.testing.assert_allclose(fit.sum_variances(table), variance, rtol=1e-6)


def test_no_other_linear_estimate_has_a_smaller_variance(rng):
    """The estimate is linear and unbiased; mixtures with the noisy cells alone are worse."""
    weights = np.array([1e-4, 3e-5, 2e-5, 1e-5])
    tables = month_tables(6, 8)
    fit = TableEstimate(tables, weights)
    truth = rng.normal(300, 100, 48)
    sums = [table.sums(truth) for table in tables]
    np.testing.assert_allclose(fit.solve(truth, sums), truth, rtol=1e-9)
    errors = []
    for _ in range(4000):
        noise = [
            rng.standard_normal(n) / w**0.5 for n, w in zip((48, 6, 8, 1), weights, strict=True)
        ]
        noisy = [exact + more for exact, more in zip(sums, noise[1:], strict=True)]
        errors.append(fit.solve(truth + noise[0], noisy) - truth)
    cell, *_ = complete_variances(weights, 6, 8)
    # 192 000 squared errors, of which those of one run are correlated: 5 σ of 4000 runs.
    measured = np.mean(np.square(errors), axis=1)
    assert measured.mean() == pytest.approx(cell, abs=5 * measured.std() / np.sqrt(4000))
    assert cell < 1 / weights[0]


def test_cells_without_a_published_label_keep_their_own_values():
    tables = [Table("days", np.array([0, 0, NO_LABEL]), 1)]
    fit = TableEstimate(tables, np.array([1.0, 0.0]))
    np.testing.assert_allclose(fit.solve(np.array([1.0, 2, 3]), [np.array([9.0])]), [1, 2, 3])
    np.testing.assert_allclose(fit.register_variances, [1, 2, 3])
