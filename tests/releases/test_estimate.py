"""The estimate of any set of tables agrees with dense linear algebra."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmeter.privacy.sensitivity import NO_LABEL, Table
from hushmeter.releases.estimate import UNKNOWN, TableEstimate


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


def dense(tables, variances):
    """The matrix of the normal equations."""
    size = tables[0].labels.size
    pairs = zip(tables, variances[1:], strict=True)
    return np.eye(size) / variances[0] + sum(matrix_of(t).T @ matrix_of(t) / v for t, v in pairs)


def right_side(tables, variances, cells, sums):
    pairs = zip(tables, variances[1:], sums, strict=True)
    return cells / variances[0] + sum(matrix_of(t).T @ s / v for t, v, s in pairs)


def noisy_sums(tables, cells, rng):
    return [table.sums(cells) + rng.normal(0, 100, table.size) for table in tables]


@given(st.integers(2, 60), st.integers(0, 2**32 - 1))
@settings(max_examples=150)
def test_any_tables_agree_with_dense_algebra(count, seed):
    rng = np.random.default_rng(seed)
    tables, factors = random_tables(count, rng), rng.choice([1.0, 1.25], count)
    variances = 10.0 ** rng.uniform(2, 6, len(tables) + 1)
    cells = rng.normal(300, 100, count)
    sums = noisy_sums(tables, cells, rng)
    fit = TableEstimate(tables, variances, count, factors)
    matrix = dense(tables, variances)
    expected = np.linalg.solve(matrix, right_side(tables, variances, cells, sums)) * factors
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


@given(st.integers(2, 60), st.integers(0, 2**32 - 1))
@settings(max_examples=100)
def test_sums_without_cells_agree_with_the_pseudo_inverse(count, seed):
    """The shortest least-squares solution, and its variances for all published sums."""
    rng = np.random.default_rng(seed)
    tables = random_tables(count, rng)
    tables.append(tables[0])  # The same sums twice: their matrix is singular.
    variances = 10.0 ** rng.uniform(2, 5, len(tables))
    sums = noisy_sums(tables, rng.normal(300, 100, count), rng)
    roots = np.repeat(np.sqrt(variances), [t.size for t in tables])
    whitened = np.vstack([matrix_of(t) for t in tables]) / roots[:, None]
    inverse = np.linalg.pinv(whitened, rcond=1e-9)
    fit = TableEstimate(tables, [math.inf, *variances], count)
    expected = inverse @ (np.concatenate(sums) / roots)
    np.testing.assert_allclose(fit.solve(None, sums), expected, rtol=1e-6, atol=1e-6)
    covariance = inverse @ inverse.T
    for table in tables:
        member = matrix_of(table)
        truth = ((member @ covariance) * member).sum(axis=1)
        np.testing.assert_allclose(fit.sum_variances(table), truth, rtol=1e-6, atol=1e-9)


def test_what_no_sum_determines_is_unknown():
    """The total of two cells says little about one of them."""
    fit = TableEstimate([Table("total", np.zeros(2, dtype=np.int64), 1)], [math.inf, 4.0], 2)
    np.testing.assert_allclose(fit.solve(None, [np.array([10.0])]), [5.0, 5.0])
    np.testing.assert_allclose(fit.sum_variances(fit.tables[0]), [4.0])
    assert (fit.cell_variances > 1e6).all()


def test_exact_sums_have_no_error():
    """The span "when" publishes days without noise; the variance 0 is exact."""
    tables = month_tables(30, 24)[:1]
    fit = TableEstimate(tables, [100.0, 0.0], 720)
    assert fit.sum_variances(tables[0]).tolist() == [0.0] * 30
    np.testing.assert_allclose(fit.cell_variances, 100 * 23 / 24)
    cells = np.arange(720.0)
    sums = tables[0].sums(cells) + 48.0
    np.testing.assert_allclose(fit.solve(cells, [sums]), cells + 2.0)


def test_no_other_linear_estimate_has_a_smaller_variance(rng):
    """The estimate is linear and unbiased; mixtures with the noisy cells alone are worse."""
    variances = 1 / np.array([1e-4, 3e-5, 2e-5, 1e-5])
    tables = month_tables(6, 8)
    fit = TableEstimate(tables, variances, 48)
    truth = rng.normal(300, 100, 48)
    sums = [table.sums(truth) for table in tables]
    np.testing.assert_allclose(fit.solve(truth, sums), truth, rtol=1e-9)
    errors = []
    for _ in range(4000):
        noise = [
            rng.standard_normal(n) * v**0.5 for n, v in zip((48, 6, 8, 1), variances, strict=True)
        ]
        noisy = [exact + more for exact, more in zip(sums, noise[1:], strict=True)]
        errors.append(fit.solve(truth + noise[0], noisy) - truth)
    cell = fit.cell_variances[0]
    # 192 000 squared errors, of which those of one run are correlated: 5 σ of 4000 runs.
    measured = np.mean(np.square(errors), axis=1)
    assert measured.mean() == pytest.approx(cell, abs=5 * measured.std() / np.sqrt(4000))
    assert cell < variances[0]


def test_cells_without_a_published_label_keep_their_own_values():
    tables = [Table("days", np.array([0, 0, NO_LABEL]), 1)]
    fit = TableEstimate(tables, [1.0, 1e30], 3)
    np.testing.assert_allclose(fit.solve(np.array([1.0, 2, 3]), [np.array([9.0])]), [1, 2, 3])
    np.testing.assert_allclose(fit.register_variances, [1, 2, 3])


def stacked(tables):
    return np.concatenate([matrix_of(table) for table in tables])


def dense_exact(tables, variances, cells, sums):
    """Least squares by the null space of the exact sums: the estimate and its covariance."""
    matrix, size = stacked(tables), cells.size
    each = np.repeat(variances[1:], [table.size for table in tables])
    there = matrix.any(axis=1)
    fixed, loose = there & (each == 0), there & (each > 0)
    values = np.concatenate(sums)
    base = np.linalg.pinv(matrix[fixed]) @ values[fixed] if fixed.any() else np.zeros(size)
    free = null_space(matrix[fixed]) if fixed.any() else np.eye(size)
    seen = np.concatenate([np.eye(size), matrix[loose]]) @ free
    weights = 1 / np.concatenate([np.full(size, variances[0]), each[loose]])
    wanted = np.concatenate([cells - base, values[loose] - matrix[loose] @ base])
    inverse = np.linalg.inv(seen.T @ (weights[:, None] * seen))
    return base + free @ inverse @ (seen.T @ (weights * wanted)), free @ inverse @ free.T


def null_space(matrix):
    _, values, vectors = np.linalg.svd(matrix)
    return vectors[int((values > 1e-9).sum()) :].T


def check_variances(fit, tables, covariance, count):
    # Variances of exact sums are differences of equal numbers.
    near = {"rtol": 1e-6, "atol": 1e-12 * count**2 * fit.variances.max()}
    np.testing.assert_allclose(fit.cell_variances, np.diag(covariance), **near)
    for query in (*tables, Table("all", np.zeros(count, dtype=np.int64), 1)):
        member = matrix_of(query)
        truth = ((member @ covariance) * member).sum(axis=1)
        np.testing.assert_allclose(fit.sum_variances(query), truth, **near)
    prefixes = np.tril(np.ones((count, count)))
    register = ((prefixes @ covariance) * prefixes).sum(axis=1)
    np.testing.assert_allclose(fit.register_variances, register, **near)


@given(st.integers(2, 60), st.integers(0, 2**32 - 1))
@settings(max_examples=200)
def test_tables_with_exact_sums_agree_with_dense_algebra(count, seed):
    """Noisy cells with noisy tables, of which one is exact."""
    rng = np.random.default_rng(seed)
    tables = random_tables(count, rng)
    variances = 10.0 ** rng.uniform(2, 6, 1 + len(tables))
    cells = rng.normal(300, 200, count)
    sums = noisy_sums(tables, cells, rng)
    variances[1] = 0.0
    sums[0] = tables[0].sums(cells + rng.normal(0, 50, count))
    scales = 1 / rng.uniform(0.9, 1.0, count) if rng.random() < 0.5 else None
    factors = np.ones(count) if scales is None else scales
    fit = TableEstimate(tables, variances, count, scales)
    expected, covariance = dense_exact(tables, variances, cells, sums)
    np.testing.assert_allclose(fit.solve(cells, sums), expected * factors, rtol=1e-7, atol=1e-5)
    check_variances(fit, tables, covariance * factors[:, None] * factors, count)
    inside = tables[0].members > 0
    found = tables[0].sums(fit.solve(cells, sums) / factors)
    np.testing.assert_allclose(found[inside], sums[0][inside], atol=1e-6)


@given(st.integers(2, 60), st.integers(0, 2**32 - 1))
@settings(max_examples=150)
def test_scaled_cells_and_unknown_sums_without_cells(count, seed):
    """The shortest least-squares solution; what no sum determines has a huge variance."""
    rng = np.random.default_rng(seed)
    tables = random_tables(count, rng)
    # Eigenvalues below 1e-10 of the largest count as dependent.
    variances = 10.0 ** rng.uniform(3, 5, len(tables))
    scales = 1 / rng.uniform(0.9, 1.0, count) if rng.random() < 0.5 else None
    factors = np.ones(count) if scales is None else scales
    sums = noisy_sums(tables, rng.normal(300, 200, count), rng)
    fit = TableEstimate(tables, [math.inf, *variances], count, scales)
    weights = 1 / np.sqrt(np.repeat(variances, [table.size for table in tables]))
    inverse = np.linalg.pinv(weights[:, None] * stacked(tables), rcond=1e-8)
    expected = inverse @ (weights * np.concatenate(sums))
    np.testing.assert_allclose(fit.solve(None, sums), expected * factors, rtol=1e-6, atol=1e-4)
    covariance = inverse @ inverse.T
    outside = np.eye(count) - inverse @ (weights[:, None] * stacked(tables))
    queries = [np.eye(count), *map(matrix_of, tables), np.tril(np.ones((count, count)))]
    found = [fit.cell_variances, *map(fit.sum_variances, tables), fit.register_variances]
    for query, variance in zip(queries, found, strict=True):
        scaled = query * factors
        known = ((scaled @ covariance) * scaled).sum(axis=1)
        left = ((scaled @ outside) * scaled).sum(axis=1)
        clear = left < 1e-9 * np.maximum(1, (scaled**2).sum(axis=1))
        np.testing.assert_allclose(variance[clear], known[clear], rtol=1e-6, atol=1e-6)
        # The variance of an unknown part is that of its connected part.
        least, most = UNKNOWN * min(1.0, variances.min()), UNKNOWN * variances.max()
        rest = variance[~clear] - known[~clear]
        assert (rest >= 0.99 * least * left[~clear]).all()
        assert (rest <= 1.01 * most * left[~clear]).all()


WEIGHTS = st.lists(st.floats(1e-6, 1e-2), min_size=4, max_size=4).map(np.array)


@given(st.integers(1, 12), st.integers(2, 9), WEIGHTS)
def test_the_variances_of_a_complete_month(days, hours, weights):
    """The eigenvalues of a complete month give the same variances."""
    tables = month_tables(days, hours)
    fit = TableEstimate(tables, 1 / weights, days * hours)
    cell, day, hour, total = weights
    c2, c3 = cell + hours * day, cell + days * hour
    c4 = c2 + days * hour + days * hours * total
    parts = (days - 1) * (hours - 1) / cell + (days - 1) / c2 + (hours - 1) / c3 + 1 / c4
    np.testing.assert_allclose(fit.cell_variances, parts / (days * hours), rtol=1e-7)
    sums = (
        hours * ((days - 1) / c2 + 1 / c4) / days,
        days * ((hours - 1) / c3 + 1 / c4) / hours,
        days * hours / c4,
    )
    for table, variance in zip(tables, sums, strict=True):
        # The variance is the difference of two numbers of the size of n/w₀.
        size = 1e-11 * days * hours / cell
        np.testing.assert_allclose(fit.sum_variances(table), variance, rtol=1e-6, atol=size)


def test_cells_alone_are_their_own_estimate():
    fit = TableEstimate([], [4.0], 3, np.array([1.0, 2.0, 1.0]))
    np.testing.assert_array_equal(fit.solve(np.array([1.0, 2, 3]), []), [1, 4, 3])
    np.testing.assert_array_equal(fit.cell_variances, [4, 16, 4])
    np.testing.assert_array_equal(fit.register_variances, [4, 20, 24])


def test_a_label_that_one_table_publishes_twice_costs_nothing(rng):
    """Equal tables are averaged with their weights."""
    cells = rng.normal(300, 100, 12)
    days = np.repeat(np.arange(3), 4)
    one, other = Table("days", days, 3), Table("again", days, 3)
    sums = [one.sums(cells) + 7.0, one.sums(cells) - 7.0]
    both = TableEstimate([one, other], [100.0, 40.0, 40.0], 12)
    mean = TableEstimate([one], [100.0, 20.0], 12)
    np.testing.assert_allclose(both.solve(cells, sums), cells, atol=1e-9)
    np.testing.assert_allclose(both.cell_variances, mean.cell_variances)
    blind = TableEstimate([one, other], [math.inf, 40.0, 40.0], 12)
    np.testing.assert_allclose(blind.sum_variances(one), 20.0)
