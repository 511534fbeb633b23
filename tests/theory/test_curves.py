from __future__ import annotations

import itertools

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.theory.curves import bound_curves

HOME = hm.synth.ready_home("rae13")
EPSILON = np.geomspace(1e-3, 10, 60)


def test_the_exact_curve_lies_between_the_corrected_bounds_and_below_the_limit():
    for most in (1, 3):
        curves = bound_curves(HOME, EPSILON, max_switches=most, sensitivity=50.0)
        assert (np.asarray(curves.corrected.lower) <= curves.exact + 1e-12).all()
        assert (curves.exact <= np.asarray(curves.corrected.upper) + 1e-12).all()
        assert (curves.exact <= curves.limit + 1e-12).all()
        assert (curves.limit >= curves.floor - 1e-12).all()


def best_accuracy(powers, scale, most):
    """Of the Bayes attacker who sees one reading and knows the state before, by quadrature."""
    vectors = [v for v in itertools.product((0, 1), repeat=len(powers)) if sum(v) <= most]
    x = np.linspace(-30 * scale, sum(powers) + 30 * scale, 400_001)
    densities = [np.exp(-np.abs(x - np.dot(v, powers)) / scale) / (2 * scale) for v in vectors]
    right = []
    for i in range(len(powers)):
        on = sum(d for v, d in zip(vectors, densities, strict=True) if v[i])
        right.append(np.maximum(on, sum(densities) - on).sum() * (x[1] - x[0]) / len(vectors))
    return np.mean(right)


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("scale", [3.0, 10.0, 100.0, 1000.0])
def test_the_best_attacker_keeps_the_limit(most, scale):
    """One of 10 W among large ones: a switch of theirs tells that it did not, at any noise."""
    powers = [10.0, 1000.0, 2100.0, 4300.0]
    home = hm.Home([hm.Appliance(str(p), p) for p in powers], 2.0)
    curves = bound_curves(home, [1.0], sensitivity=scale, max_switches=most)
    assert best_accuracy(powers, scale, most) <= curves.limit[0] + 1e-5
    assert curves.limit[0] >= curves.floor


def test_columns_are_one_table():
    table = bound_curves(HOME, EPSILON).columns()
    assert {len(column) for column in table.values()} == {60}
    np.testing.assert_allclose(table["ln_1_over_epsilon"], -np.log(EPSILON))
    np.testing.assert_allclose(table["scale_w"], HOME.tolerance / 2 / EPSILON)
    assert table["nothing_switched"][0] == pytest.approx(1 - 13 / 14 / 13)


def test_more_switches_than_appliances_are_refused():
    with pytest.raises(ValueError, match="the home has 13 appliances"):
        bound_curves(HOME, EPSILON, max_switches=14)
