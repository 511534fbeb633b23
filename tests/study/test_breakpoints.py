from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import curve_fit

from hushmeter.study.breakpoints import fit_breakpoints, rank_by_slope

EPSILON = np.geomspace(10, 1e-3, 16)
X = -np.log(EPSILON)


def broken_line(x, first=1.0, second=5.0, top=0.95, slope=-0.12):
    return top + slope * (np.maximum(x - first, 0) - np.maximum(x - second, 0))


def sigmoid(x, low, high, middle, width):
    return low + (high - low) / (1 + np.exp((x - middle) / width))


def test_known_break_points_are_found_within_their_intervals(rng):
    rows = broken_line(X) + rng.normal(0, 0.004, (8, X.size))
    fit = fit_breakpoints(EPSILON, rows)
    for found, true in zip(fit.breaks, (1.0, 5.0), strict=True):
        assert found.value == pytest.approx(true, abs=0.25)
        assert found.low <= found.value <= found.high
    assert [s.value for s in fit.slopes] == pytest.approx([0, -0.12, 0], abs=0.01)
    assert fit.steepest.value == pytest.approx(-0.12, abs=0.01)
    assert fit.better == "piecewise"
    np.testing.assert_allclose(fit.values, broken_line(X), atol=0.01)


def test_one_break():
    fit = fit_breakpoints(EPSILON, broken_line(X, second=99.0), breaks=1)
    assert fit.breaks[0].value == pytest.approx(1.0, abs=0.1)
    assert len(fit.slopes) == 2


def test_a_sigmoid_is_called_one(rng):
    rows = sigmoid(X, 0.5, 0.95, 2.0, 0.9) + rng.normal(0, 0.001, (6, X.size))
    fit = fit_breakpoints(EPSILON, rows)
    assert fit.better == "sigmoid"
    # a second opinion on the sigmoid's own fit
    mean = rows.mean(axis=0)
    parameters, _ = curve_fit(sigmoid, X, mean, p0=(0.5, 1, 2, 1))
    error = ((mean - sigmoid(X, *parameters)) ** 2).sum()
    assert fit.sigmoid_bic <= 16 * np.log(error / 16) + 4 * np.log(16) + 1e-3


def test_no_line_through_the_same_breaks_is_better(rng):
    """The fit is the least-squares one: moving any coefficient makes it worse."""
    rows = broken_line(X) + rng.normal(0, 0.02, (3, X.size))
    fit = fit_breakpoints(EPSILON, rows, bootstrap=20)
    mean = rows.mean(axis=0)
    hinges = [np.maximum(X - b.value, 0) for b in fit.breaks]
    basis = np.stack([np.ones_like(X), X, *hinges], axis=1)
    best = ((mean - fit.values) ** 2).sum()
    for column in basis.T:
        for step in (-1e-3, 1e-3):
            assert ((mean - fit.values - step * column) ** 2).sum() > best


def test_attackers_are_ranked_from_robust_to_fragile():
    fits = {
        name: fit_breakpoints(EPSILON, broken_line(X, slope=slope), bootstrap=10)
        for name, slope in {"steep": -0.2, "flat": -0.01, "middle": -0.1}.items()
    }
    assert rank_by_slope(fits) == ["flat", "middle", "steep"]


def test_the_order_of_epsilon_does_not_matter(rng):
    rows = broken_line(X) + rng.normal(0, 0.01, (3, X.size))
    order = rng.permutation(X.size)
    one = fit_breakpoints(EPSILON, rows, bootstrap=30)
    other = fit_breakpoints(EPSILON[order], rows[:, order], bootstrap=30)
    assert one.breaks == other.breaks


@pytest.mark.parametrize(
    ("epsilon", "accuracy", "message"),
    [
        (EPSILON[:4], np.ones(4), "at least 6 different values"),
        (np.full(8, 1.0), np.ones(8), "at least 6 different values"),
        (EPSILON, np.ones(3), "accuracy has shape"),
        (-EPSILON, np.ones(16), "epsilon must be positive"),
        (EPSILON, np.full(16, np.nan), "accuracy must be finite"),
    ],
)
def test_bad_input_is_one_sentence(epsilon, accuracy, message):
    with pytest.raises(ValueError, match=message):
        fit_breakpoints(epsilon, accuracy)


def test_other_numbers_of_breaks_are_refused():
    with pytest.raises(ValueError, match="breaks must be one of 1, 2"):
        fit_breakpoints(EPSILON, np.ones(16), breaks=3)
