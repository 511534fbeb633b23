from __future__ import annotations

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


def test_columns_are_one_table():
    table = bound_curves(HOME, EPSILON).columns()
    assert {len(column) for column in table.values()} == {60}
    np.testing.assert_allclose(table["ln_1_over_epsilon"], -np.log(EPSILON))
    np.testing.assert_allclose(table["scale_w"], HOME.tolerance / 2 / EPSILON)
    assert table["nothing_switched"][0] == pytest.approx(1 - 13 / 14 / 13)


def test_more_switches_than_appliances_are_refused():
    with pytest.raises(ValueError, match="the home has 13 appliances"):
        bound_curves(HOME, EPSILON, max_switches=14)
