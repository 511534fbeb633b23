"""The estimate of a month: closed form, conjugate gradients and dense linear algebra agree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmeter.releases.calendar import MonthLayout
from hushmeter.releases.least_squares import MonthEstimate, complete_variances


def full_layout(days, hours):
    return MonthLayout(
        np.repeat(np.arange(days), hours), np.tile(np.arange(hours), days), days, hours
    )


def broken_layout(days, hours, rng):
    """A month with gaps, an hour that the clock repeats and one that it leaves out."""
    layout = full_layout(days, hours)
    kept = rng.random(days * hours) > 0.1
    kept[::hours] = True
    day, hour = layout.day[kept], layout.hour[kept].copy()
    hour[rng.integers(hour.size)] = -1
    return MonthLayout(day, hour, days, hours)


def dense(layout, weights):
    """The matrix of the normal equations, written down cell by cell."""
    same_day = layout.day[:, None] == layout.day
    same_hour = (layout.hour[:, None] == layout.hour) & (layout.hour[:, None] >= 0)
    size = layout.day.size
    return weights[0] * np.eye(size) + weights[1] * same_day + weights[2] * same_hour + weights[3]


def noisy_tables(layout, weights, rng):
    cells = rng.normal(300, 200, layout.day.size)
    days, hours, total = layout.sums(cells)
    scale = [0.0 if w == 0 else w**-0.5 for w in weights]
    return (
        cells + scale[0] * rng.standard_normal(cells.size),
        days + scale[1] * rng.standard_normal(days.size),
        hours + scale[2] * rng.standard_normal(hours.size),
        total + scale[3] * rng.standard_normal(),
    )


WEIGHTS = st.lists(st.floats(1e-6, 1e-2), min_size=4, max_size=4).map(np.array)


@given(st.integers(1, 9), st.integers(2, 8), WEIGHTS, st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_closed_form_conjugate_gradients_and_dense_algebra_agree(days, hours, weights, seed):
    rng = np.random.default_rng(seed)
    layout = full_layout(days, hours)
    assert layout.complete
    month = MonthEstimate(layout, weights)
    tables = noisy_tables(layout, weights, rng)
    found = month.solve(*tables)
    w = weights
    right = w[0] * tables[0] + layout.spread(w[1] * tables[1], w[2] * tables[2], w[3] * tables[3])
    np.testing.assert_allclose(
        found, np.linalg.solve(dense(layout, w), right), rtol=1e-7, atol=1e-6
    )
    np.testing.assert_allclose(found, month._conjugate_gradients(right), rtol=1e-7, atol=1e-5)


@given(st.integers(2, 9), st.integers(3, 8), WEIGHTS, st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_broken_months_agree_with_dense_algebra(days, hours, weights, seed):
    rng = np.random.default_rng(seed)
    layout = broken_layout(days, hours, rng)
    assert not layout.complete
    month = MonthEstimate(layout, weights)
    tables = noisy_tables(layout, weights, rng)
    w = weights
    right = w[0] * tables[0] + layout.spread(w[1] * tables[1], w[2] * tables[2], w[3] * tables[3])
    expected = np.linalg.solve(dense(layout, w), right)
    np.testing.assert_allclose(month.solve(*tables), expected, rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("published", [(1, 1, 1, 1), (1, 0, 1, 0), (1, 1, 0, 1), (1, 0, 0, 0)])
def test_standard_errors_are_those_of_the_inverse_matrix(published, rng):
    weights = np.array([1e-4, 3e-5, 2e-5, 1e-5]) * published
    for layout in (full_layout(5, 6), broken_layout(7, 6, rng)):
        month = MonthEstimate(layout, weights)
        covariance = np.linalg.inv(dense(layout, weights))
        size = layout.day.size
        for found, place, groups in (
            (month.cell_variances, np.arange(size), size),
            (month.day_variances, layout.day, layout.days),
            (month.hour_variances, layout.hour, layout.hours),
            (month.total_variance, np.zeros(size, dtype=np.int64), 1),
        ):
            sums = np.zeros((groups, size))
            inside = place >= 0
            sums[place[inside], np.flatnonzero(inside)] = 1.0
            expected = np.einsum("gi,ij,gj->g", sums, covariance, sums)
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-6)
        prefixes = np.tril(np.ones((size, size)))
        expected = np.einsum("gi,ij,gj->g", prefixes, covariance, prefixes)
        np.testing.assert_allclose(month.register_variances, expected, rtol=1e-9)


@given(st.integers(1, 12), st.integers(2, 9), WEIGHTS)
def test_the_variances_in_closed_form(days, hours, weights):
    """A complete month against the inverse of its normal equations."""
    month = MonthEstimate(full_layout(days, hours), weights)
    covariance = np.linalg.inv(dense(month.layout, weights)).reshape(days, hours, days, hours)
    cell, day, hour, total = complete_variances(weights, days, hours)
    np.testing.assert_allclose(month.cell_variances, cell)
    np.testing.assert_allclose(np.einsum("dhdh->dh", covariance), cell, rtol=1e-6)
    np.testing.assert_allclose(np.einsum("dhdk->d", covariance), day, rtol=1e-6)
    np.testing.assert_allclose(np.einsum("dheh->h", covariance), hour, rtol=1e-6)
    np.testing.assert_allclose(covariance.sum(), total, rtol=1e-6)
    assert month.register_variances[-1] == pytest.approx(total)


def test_no_other_linear_estimate_has_a_smaller_variance(rng):
    """The estimate is linear and unbiased; mixtures with the noisy cells alone are worse."""
    weights = np.array([1e-4, 3e-5, 2e-5, 1e-5])
    layout = full_layout(6, 8)
    month = MonthEstimate(layout, weights)
    truth = rng.normal(300, 100, 48)
    days, hours, total = layout.sums(truth)
    np.testing.assert_allclose(month.solve(truth, days, hours, total), truth, rtol=1e-9)
    errors = []
    for _ in range(4000):
        noise = [
            rng.standard_normal(n) * w**-0.5 for n, w in zip((48, 6, 8, 1), weights, strict=True)
        ]
        found = month.solve(
            truth + noise[0], days + noise[1], hours + noise[2], total + noise[3][0]
        )
        errors.append(found - truth)
    cell, *_ = complete_variances(weights, 6, 8)
    # 192 000 squared errors, of which those of one run are correlated: 5 σ of 4000 runs.
    measured = np.mean(np.square(errors), axis=1)
    assert measured.mean() == pytest.approx(cell, abs=5 * measured.std() / np.sqrt(4000))
    assert cell < 1 / weights[0]


@given(st.integers(1, 7), st.integers(2, 6), WEIGHTS, st.integers(0, 2**32 - 1), st.booleans())
@settings(max_examples=30)
def test_scaled_cells_agree_with_dense_algebra(days, hours, weights, seed, gaps):
    rng = np.random.default_rng(seed)
    layout = broken_layout(days, hours, rng) if gaps else full_layout(days, hours)
    scales = 1 / rng.uniform(0.9, 1.0, layout.day.size)
    month = MonthEstimate(layout, weights, scales)
    tables = noisy_tables(layout, weights, rng)
    plain = MonthEstimate(layout, weights).solve(*tables)
    np.testing.assert_allclose(month.solve(*tables), plain * scales)
    covariance = np.linalg.inv(dense(layout, weights)) * scales[:, None] * scales
    np.testing.assert_allclose(month.cell_variances, np.diag(covariance), rtol=1e-6)
    for found, groups, count in (
        (month.day_variances, layout.day, days),
        (month.hour_variances, layout.hour, hours),
    ):
        member = (groups[None, :] == np.arange(count)[:, None]).astype(float)
        truth = ((member @ covariance) * member).sum(axis=1)
        np.testing.assert_allclose(found, truth, rtol=1e-6, atol=1e-9 * truth.max())
    assert month.total_variance == pytest.approx(covariance.sum(), rel=1e-6)
    sums = np.tril(np.ones_like(covariance))
    register = ((sums @ covariance) * sums).sum(axis=1)
    np.testing.assert_allclose(month.register_variances, register, rtol=1e-6)
