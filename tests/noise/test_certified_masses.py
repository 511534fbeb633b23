from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmeter.noise.certified_masses import (
    DiscreteGaussian,
    FlatStaircase,
    GeometricDigit,
    Interval,
    StairClass,
    TwoSidedGeometric,
    class_layout,
    exactly,
    exp_minus,
    geometric,
)

LAWS = [
    GeometricDigit(Fraction(1, 9), 37),
    TwoSidedGeometric(Fraction(1, 9)),
    TwoSidedGeometric(Fraction(1, 9), 15),
    FlatStaircase(Fraction(1, 2), 7, 3),
    FlatStaircase(Fraction(2), 1, 1),
    StairClass(Fraction(1, 2), 7, 3),
    StairClass(Fraction(1, 50), 9, 4, 31),
    DiscreteGaussian(Fraction(37, 5)),
    DiscreteGaussian(Fraction(1, 11)),
]


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_masses_are_tight_bounds_that_add_up_to_one(law):
    bits = 160
    low, high = law.masses(bits, 120)
    assert all(0 <= a <= b for a, b in zip(low, high, strict=True))
    assert max(b - a for a, b in zip(low, high, strict=True)) < 1 << 20
    assert sum(low) <= 1 << bits
    assert sum(high) >= (1 << bits) - (1 << (bits - 100))


def test_two_sided_geometric_is_the_discrete_laplace():
    low, high = TwoSidedGeometric(Fraction(2, 9)).masses(160, 60)
    with mpmath.workprec(300):
        alpha = mpmath.exp(-mpmath.mpf(2) / 9)
        for index in range(60):
            value = (index >> 1) ^ -(index & 1)
            exact = (1 - alpha) / (1 + alpha) * alpha ** abs(value) * mpmath.mpf(2) ** 160
            assert low[index] <= exact <= high[index]


def test_digits_multiply_to_the_discrete_laplace():
    rate, base = Fraction(1, 20), 7
    leading = np.array(TwoSidedGeometric(rate, base).masses(160, 60)[0], dtype=float) / 2.0**160
    digit = np.array(GeometricDigit(rate, base).masses(160, 60)[0], dtype=float) / 2.0**160
    whole = np.array(TwoSidedGeometric(rate).masses(160, 60)[0], dtype=float) / 2.0**160
    for magnitude in range(100):
        q, d = divmod(magnitude, base)
        assert leading[2 * q] * digit[d] == pytest.approx(whole[2 * magnitude], rel=1e-12)
        assert leading[2 * q + 1] * digit[d] == pytest.approx(whole[2 * magnitude + 1], rel=1e-12)


@pytest.mark.parametrize(("steps", "inner"), [(7, 3), (5, 5), (5, 1), (1, 1)])
def test_stair_classes_spread_to_the_flat_staircase(steps, inner):
    epsilon = Fraction(3, 4)
    flat = np.array(FlatStaircase(epsilon, steps, inner).masses(160, 80)[0], dtype=float)
    stairs = np.array(StairClass(epsilon, steps, inner).masses(160, 80)[0], dtype=float)
    starts, widths = class_layout(steps, inner)
    seen = {}
    for index in range(40):
        c, k = index & 3, index >> 2
        for place in range(widths[c]):
            value = (starts[c] + k * steps + place) * (1 if c < 2 else -1)
            seen[value] = stairs[index] / widths[c]
    assert len(seen) == sum(widths) * 10
    for value, mass in seen.items():
        index = 2 * value if value >= 0 else -2 * value - 1
        assert mass == pytest.approx(flat[index], rel=1e-12)


def test_discrete_gaussian_agrees_with_its_theta_function():
    variance = Fraction(37, 5)
    low, high = DiscreteGaussian(variance).masses(200, 100)
    with mpmath.workprec(400):
        inverse = mpmath.mpf(variance.denominator) / (2 * variance.numerator)
        total = mpmath.jtheta(3, 0, mpmath.exp(-inverse))
        for index in range(0, 60, 2):
            exact = mpmath.exp(-inverse * (index // 2) ** 2) / total * mpmath.mpf(2) ** 200
            assert low[index] <= exact <= high[index]


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
