"""Certified fixed-point intervals: integer bounds of real numbers, with no floats and no limit.

A number x is held as two integers with low ≤ 2^bits·x ≤ high. Every operation rounds the lower
bound down and the upper bound up, so a floor on which both bounds agree is proved.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, repeat


@dataclass(frozen=True, slots=True)
class Interval:
    """Bounds of a non-negative number x: low ≤ 2^bits·x ≤ high."""

    low: int
    high: int
    bits: int

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high, self.bits)

    def __sub__(self, other: Interval) -> Interval:
        """Difference of two numbers, the larger first."""
        return Interval(max(0, self.low - other.high), self.high - other.low, self.bits)

    def __mul__(self, other: Interval) -> Interval:
        high = -((-self.high * other.high) >> self.bits)
        return Interval((self.low * other.low) >> self.bits, high, self.bits)

    def __truediv__(self, other: Interval) -> Interval:
        high = -((-self.high << self.bits) // other.low)
        return Interval((self.low << self.bits) // other.high, high, self.bits)

    def times(self, factor: int) -> Interval:
        """The product with a whole number."""
        return Interval(self.low * factor, self.high * factor, self.bits)


def exactly(value: Fraction | int, bits: int) -> Interval:
    """A rational number as an interval at most one unit wide."""
    fraction = Fraction(value)
    scaled = fraction.numerator << bits
    return Interval(scaled // fraction.denominator, -(-scaled // fraction.denominator), bits)


def exp_minus(exponent: Fraction, bits: int) -> Interval:
    """e^(−x) for a rational x ≥ 0: Taylor series of e^(−x/2^h), then h squarings."""
    halvings = max(0, exponent.numerator.bit_length() - exponent.denominator.bit_length() + 1) + 8
    work = bits + halvings + 32
    small = exactly(exponent / (1 << halvings), work)
    one = exactly(1, work)
    even, odd, term, order = one, exactly(0, work), one, 0
    while term.high > 1:
        order += 1
        product = term * small
        term = Interval(product.low // order, -(-product.high // order), work)
        if order % 2:
            odd = odd + term
        else:
            even = even + term
    # The series alternates and falls, so the first term left out bounds all that is left out.
    result = Interval(even.low - odd.high - term.high, even.high - odd.low + term.high, work)
    for _ in range(halvings):
        result = result * result
    excess = work - bits
    return Interval(max(0, result.low) >> excess, -(-result.high >> excess), bits)


def geometric(first: Interval, ratio: Interval, count: int) -> tuple[list[int], list[int]]:
    """Bounds of first·ratio^k for k = 0 … count − 1."""
    bits, low_ratio, high_ratio = first.bits, ratio.low, ratio.high
    low = accumulate(repeat(low_ratio, count - 1), lambda v, r: (v * r) >> bits, initial=first.low)
    high = accumulate(
        repeat(high_ratio, count - 1), lambda v, r: -((-v * r) >> bits), initial=first.high
    )
    return list(low), list(high)
