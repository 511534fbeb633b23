from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from hushmeter.errors import DataError, InputError
from hushmeter.noise.readings import check_on_grid, checked_readings, output_array


def test_good_readings_pass_as_contiguous_floats():
    values = checked_readings([1, 2, 3], math.inf)
    assert values.dtype == np.float64
    strided = checked_readings(np.arange(10)[::2], 100.0)
    assert strided.flags.c_contiguous
    array = np.arange(3.0)
    assert checked_readings(array, 10.0) is array


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_first_bad_row_is_named(bad):
    with pytest.raises(DataError, match=r"readings must be finite, but row 1 is -?(nan|inf)\."):
        checked_readings([0.0, bad, bad], 10.0)


def test_shapes_and_limits():
    with pytest.raises(DataError, match="row 0 is -10 W, too large"):
        checked_readings([-10.0], 10.0)
    with pytest.raises(InputError, match=r"shape \(\)"):
        checked_readings(5.0, 10.0)


def test_on_grid_allows_for_float_rounding_only():
    check_on_grid(np.arange(100_000) * 0.1, Fraction(1, 10))
    check_on_grid(np.array([1e9 + 0.1]), Fraction(1, 10))
    with pytest.raises(DataError, match="row 70000"):
        check_on_grid(np.where(np.arange(80_000) < 70_000, 0.2, 0.15), Fraction(1, 10))


def test_outputs():
    given = np.empty(3)
    assert output_array(given, 3) is given
    assert output_array(None, 4).shape == (4,)
    for wrong in (np.empty(2), np.empty(3, dtype=np.float32), np.empty(6)[::2]):
        with pytest.raises(InputError, match="contiguous float64"):
            output_array(wrong, 3)
