from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmeter.noise.fixed import Interval, exactly, exp_minus, geometric


@given(st.fractions(min_value=0, max_value=400, max_denominator=10**12), st.integers(8, 300))
@settings(max_examples=60, deadline=None)
def test_exp_minus_encloses_the_exponential_as_mpmath_sees_it(x, bits):
    bounds = exp_minus(x, bits)
    with mpmath.workprec(2 * bits + 800):
        value = mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator) * mpmath.mpf(2) ** bits
        assert bounds.low <= value <= bounds.high
    assert bounds.high - bounds.low <= 2


@pytest.mark.parametrize("operation", ["__add__", "__sub__", "__mul__", "__truediv__"])
def test_operations_enclose_the_rational_result(operation):
    a, b = Fraction(17, 19), Fraction(5, 13)
    bounds = getattr(exactly(a, 40), operation)(exactly(b, 40))
    exact = getattr(a, operation)(b) * 2**40
    assert bounds.low <= exact <= bounds.high
    assert bounds.high - bounds.low <= 16


def test_whole_numbers_multiply_exactly():
    assert Interval(3, 4, 10).times(5) == Interval(15, 20, 10)


def test_geometric_bounds_enclose_every_power():
    first, ratio = Fraction(2, 7), Fraction(901, 1000)
    low, high = geometric(exactly(first, 100), exactly(ratio, 100), 200)
    for k in range(200):
        assert low[k] <= first * ratio**k * 2**100 <= high[k]
    assert high[-1] - low[-1] < 400
