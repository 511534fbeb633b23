"""The exact table sampler: certified probabilities and the tables that are built from them."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmeter.errors import InputError
from hushmeter.noise.kernels import lookup
from hushmeter.noise.samplers import Streams
from hushmeter.noise.table_sampler import (
    DiscreteGaussian,
    FlatStaircase,
    GeometricDigit,
    Interval,
    StairClass,
    TableSampler,
    TwoSidedGeometric,
    build_residual,
    build_table,
    check_masses,
    class_layout,
    exactly,
    exp_minus,
    floor_masses,
    geometric,
    to_outcome,
)

KEY = bytes(range(32))
LAWS = [
    TwoSidedGeometric(Fraction(1, 22)),
    TwoSidedGeometric(Fraction(1, 1400)),
    TwoSidedGeometric(Fraction(20)),
    TwoSidedGeometric(Fraction(1, 50000), 4095),
    GeometricDigit(Fraction(1, 50000), 4095),
    FlatStaircase(Fraction(1), 101, 38),
    StairClass(Fraction(1, 100), 10**6, 499_000),
    DiscreteGaussian(Fraction(900)),
    DiscreteGaussian(Fraction(1, 7)),
]
SMALL = [
    TwoSidedGeometric(Fraction(1, 4)),
    TwoSidedGeometric(Fraction(1, 30), 15),
    GeometricDigit(Fraction(1, 30), 15),
    FlatStaircase(Fraction(1, 2), 5, 2),
    StairClass(Fraction(1, 2), 5, 2),
    DiscreteGaussian(Fraction(40)),
]


def draw(law, size, *, word_bits=32, residual_bits=64, key=KEY):
    out = np.empty(size, dtype=np.int32)
    TableSampler(law, 0, word_bits, residual_bits).fill(Streams(key, 1, size), 0, out)
    return out


def law_pmf(law):
    low = np.array(law.masses(160, 90)[0], dtype=np.float64) / 2.0**160

    def pmf(values):
        index = np.where(values < 0, -2 * values - 1, 2 * values) if law.signed else values
        return np.where(index < low.size, low[np.minimum(index, low.size - 1)], 0.0)

    return pmf


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_every_outcome_has_its_certified_mass(law):
    table = build_table(law)
    held = table.weights()
    floors = np.array(floor_masses(law, 32))
    index = np.arange(floors.size)
    values = to_outcome(index) if law.signed else index
    assert np.array_equal(held[values + table.offset], floors)
    assert int(held.sum()) == 1 << 32
    assert held[table.sentinel] == (1 << 32) - floors.sum() > 0
    assert not held[table.sentinel + 1 :].any()


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_floors_agree_with_more_precise_masses(law):
    floors = floor_masses(law, 32)
    low, high = law.masses(700, 34)
    assert floors == [value >> 668 for value in low][: len(floors)]
    assert floors == [value >> 668 for value in high][: len(floors)]
    assert floors[-1] > 0


def test_every_word_of_a_small_table_is_counted():
    law = TwoSidedGeometric(Fraction(1, 4))
    table = build_table(law, 8)
    words = np.arange(256, dtype=np.uint32) << 24
    counts = np.zeros(table.sentinel + 1, dtype=np.int64)
    out = np.empty(256, dtype=np.int32)
    missed = lookup(words, table.packed, table.cell_bits, table.sentinel, table.offset, out)
    np.add.at(counts, out + table.offset, 1)
    assert np.array_equal(counts << 24, table.weights()[: table.sentinel + 1])
    assert missed == counts[-1]


def test_a_corrupt_table_is_refused():
    table = build_table(TwoSidedGeometric(Fraction(1, 22)))
    weights = table.weights()[: table.sentinel + 1]
    check_masses(table, weights)
    packed = table.packed.copy()
    packed[5] += 1
    with pytest.raises(AssertionError, match="does not hold"):
        check_masses(dataclasses.replace(table, packed=packed), weights)
    with pytest.raises(AssertionError, match="whole word"):
        check_masses(table, weights[:-1])


def test_a_distribution_too_wide_for_one_table_is_refused():
    with pytest.raises(InputError, match="too many"):
        build_table(TwoSidedGeometric(Fraction(1, 10**4)))


@pytest.mark.parametrize("law", SMALL, ids=repr)
def test_small_words_take_the_slow_path_and_keep_the_distribution(law, chi_square):
    samples = draw(law, 400_000, word_bits=8)
    sentinel = build_table(law, 8).weights()[build_table(law, 8).sentinel]
    assert sentinel >= 2 << 24
    assert chi_square(samples, law_pmf(law)) > 1e-6


@pytest.mark.parametrize("law", SMALL, ids=repr)
def test_lazily_extended_bits_decide_as_64_bits_do(law):
    size = 3000
    assert np.array_equal(
        draw(law, size, word_bits=8), draw(law, size, word_bits=8, residual_bits=6)
    )


def test_the_small_word_check_sees_a_sampler_without_its_residual(chi_square):
    law = TwoSidedGeometric(Fraction(1, 4))
    table = build_table(law, 8)
    out = np.empty(400_000, dtype=np.int32)
    words = Streams(KEY, 1, out.size).words(0, out.size)
    lookup(words, table.packed, table.cell_bits, table.sentinel, table.offset, out)
    truncated = out[out != table.sentinel - table.offset]
    assert chi_square(truncated, law_pmf(law)) < 1e-6


def test_residual_floors_are_certified_and_rise():
    for law in SMALL:
        floors = build_residual(law).floors
        assert np.all(np.diff(floors.astype(np.float64)) >= 0)
        assert floors[-1] / 2.0**64 > 0.999 or law.size is not None


@pytest.mark.parametrize("word_bits", [32, 8])
@pytest.mark.parametrize("law", SMALL, ids=repr)
def test_table_and_residual_together_are_the_distribution(law, word_bits):
    """The mixture identity 2^w·p = n + L·R, in whole numbers up to the residual's 64 bits."""
    floors = floor_masses(law, word_bits)
    weight = (1 << word_bits) - sum(floors)
    sums = [int(value) for value in build_residual(law, word_bits).floors]
    low = law.masses(256, word_bits + 16)[0]
    for index in range(min(len(sums), 40)):
        share = sums[index] - (sums[index - 1] if index else 0)
        mixed = (floors[index] if index < len(floors) else 0) * 2**64 + weight * share
        assert abs(mixed - (low[index] << word_bits >> 192)) <= 2 * weight


def test_draws_do_not_depend_on_blocks():
    law = TwoSidedGeometric(Fraction(1, 4))
    whole = draw(law, 1000, word_bits=8)
    sampler, streams = TableSampler(law, 0, 8), Streams(KEY, 1, 400)
    pieces, start = [], 0
    for size in (400, 1, 7, 300, 292):
        out = np.empty(size, dtype=np.int32)
        sampler.fill(streams, start, out)
        pieces.append(out)
        start += size
    assert np.array_equal(np.concatenate(pieces), whole)


CERTIFIED = [
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


@pytest.mark.parametrize("law", CERTIFIED, ids=repr)
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
