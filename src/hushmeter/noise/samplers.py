"""Samplers built from tables: leading digits for large scales, stairs with a uniform place."""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hushmeter.checks import IntArray
from hushmeter.errors import InputError
from hushmeter.noise.grid import (
    MAX_CELL_BITS,
    RESIDUAL_BITS,
    TAIL_BITS,
    WORD_BITS,
    TableSampler,
)
from hushmeter.noise.laws import (
    Digit,
    DiscreteGaussian,
    FlatStaircase,
    Law,
    StairClass,
    TwoSidedGeometric,
)
from hushmeter.noise.randomness import Streams

BASE = (1 << 12) - 1
"""A digit of this base and the sentinel fill 2^12 cells, 16 KiB: a first-level cache."""

MAX_DIGITS = 3
MAX_STAIR_STEPS = 1 << 21
"""Times a word of 32 bits this stays exact in float64."""

MAX_SCALE = 1 << 45
"""Noise of this scale [steps] passes 2^53, where float64 skips whole numbers, with e^(−256)."""


Noise = NDArray[Any]
"""A block of whole numbers: int32 from one table, float64 where several are put together."""


class Sampler(Protocol):
    """Anything that fills a block with the noise of consecutive draws."""

    planes: int
    dtype: type

    def fill(self, streams: Streams, start: int, out: Noise) -> None:
        """Noise of the draws start, start + 1, … into `out`, in grid steps."""


class OneTable:
    """A law that fits one table."""

    planes = 1
    dtype: type = np.int32

    def __init__(self, law: Law, word_bits: int, residual_bits: int) -> None:
        self.fill = TableSampler(law, 0, word_bits, residual_bits).fill


class DigitSampler:
    """Discrete Laplace of a large scale: a signed leading digit and lower digits of one base."""

    dtype: type = np.float64

    def __init__(
        self, rate: Fraction, digits: int, base: int, word_bits: int, residual_bits: int
    ) -> None:
        self.planes = digits
        self._base = base
        leading = TwoSidedGeometric(rate, base ** (digits - 1))
        lower = [Digit(rate * base**power, base) for power in reversed(range(digits - 1))]
        self._tables = [
            TableSampler(law, plane, word_bits, residual_bits)
            for plane, law in enumerate([leading, *lower])
        ]

    def fill(self, streams: Streams, start: int, out: Noise) -> None:
        """See `Sampler.fill`."""
        from hushmeter.noise.kernels import append_digit

        leading, *lower = self._tables
        head = np.empty(out.size, dtype=np.int32)
        leading.fill(streams, start, head)
        digit = np.empty(out.size, dtype=np.int32)
        for place, table in enumerate(lower):
            table.fill(streams, start, digit)
            append_digit(out if place else head, digit, float(self._base), out)


class StairSampler:
    """Discrete staircase of any width: class and stair number, then a uniform place on it."""

    dtype: type = np.float64

    def __init__(
        self, law: StairClass, digits: int, base: int, word_bits: int, residual_bits: int
    ) -> None:
        if law.steps >> word_bits:
            raise InputError(f"a stair of {law.steps} steps is too wide for {word_bits}-bit words.")
        self.planes = digits + 1
        self._base = base
        rates = [law.epsilon * base**power for power in reversed(range(digits - 1))]
        laws: list[Law] = [law, *(Digit(rate, base) for rate in rates)]
        self._tables = [
            TableSampler(part, plane, word_bits, residual_bits) for plane, part in enumerate(laws)
        ]
        self._drop = np.uint32(WORD_BITS - word_bits)
        self._layout = (word_bits, law.steps, law.inner)

    def fill(self, streams: Streams, start: int, out: Noise) -> None:
        """See `Sampler.fill`."""
        from hushmeter.noise import kernels

        leading, *lower = self._tables
        classes = np.empty(out.size, dtype=np.int32)
        leading.fill(streams, start, classes)
        numbers = np.empty(out.size)
        kernels.stair_numbers(classes, numbers)
        digit = np.empty(out.size, dtype=np.int32)
        for table in lower:
            table.fill(streams, start, digit)
            kernels.append_digit(numbers, digit, float(self._base), numbers)
        words = streams.words(self.planes - 1, out.size)
        if self._drop:
            words = words >> self._drop
        if kernels.place_on_stairs(classes, words, *self._layout, numbers, out):
            places = np.flatnonzero(np.isnan(out))
            out[places] = self._again(streams, places + start, classes[places], numbers[places])

    def _again(
        self, streams: Streams, draws: IntArray, classes: NDArray[np.int32], numbers: Noise
    ) -> Noise:
        """The refused draws, each with slow words of its own until one is accepted."""
        from hushmeter.noise.kernels import place_on_stairs

        noise, pending, extension = numbers.copy(), np.arange(draws.size), 0
        while pending.size:
            blocks = streams.slow_blocks(self.planes - 1, draws[pending], extension)
            words = blocks[:, :4].copy().view("<u4").ravel() >> self._drop
            part = np.empty(pending.size)
            place_on_stairs(classes[pending], words, *self._layout, numbers[pending], part)
            noise[pending] = part
            pending, extension = pending[np.isnan(part)], extension + 1
        return noise


@functools.lru_cache(maxsize=16)
def laplace_sampler(
    rate: Fraction, word_bits: int = WORD_BITS, residual_bits: int = RESIDUAL_BITS
) -> Sampler:
    """Discrete Laplace with α = e^(−rate), in as few digits as its scale needs."""
    digits = laplace_digits(rate)
    if digits == 1:
        return OneTable(TwoSidedGeometric(rate), word_bits, residual_bits)
    return DigitSampler(rate, digits, BASE, word_bits, residual_bits)


@functools.lru_cache(maxsize=16)
def staircase_sampler(
    epsilon: Fraction,
    steps: int,
    inner: int,
    word_bits: int = WORD_BITS,
    residual_bits: int = RESIDUAL_BITS,
) -> Sampler:
    """Discrete staircase: one table where its outcomes fit, otherwise stairs and a place."""
    if _flat(float(epsilon), steps, inner):
        return OneTable(FlatStaircase(epsilon, steps, inner), word_bits, residual_bits)
    digits = staircase_digits(epsilon)
    law = StairClass(epsilon, steps, inner, BASE ** (digits - 1))
    return StairSampler(law, digits, BASE, word_bits, residual_bits)


@functools.lru_cache(maxsize=16)
def gaussian_sampler(
    variance: Fraction, word_bits: int = WORD_BITS, residual_bits: int = RESIDUAL_BITS
) -> Sampler:
    """Discrete Gaussian in one table."""
    return OneTable(DiscreteGaussian(variance), word_bits, residual_bits)


def laplace_digits(rate: Fraction) -> int:
    """Digits that a discrete Laplace of scale 1/rate grid steps needs; above 3 it is too large."""
    return _digits(1 / float(rate), 2)


def staircase_digits(epsilon: Fraction) -> int:
    """Digits that the stair number needs; above 3 the scale is too large."""
    return _digits(1 / float(epsilon), 4)


def staircase_fits(epsilon: Fraction, steps: int) -> bool:
    """Whether stairs of so many steps, and their noise, stay whole numbers in float64."""
    narrow = steps <= MAX_STAIR_STEPS and steps <= MAX_SCALE * epsilon
    return narrow and staircase_digits(epsilon) <= MAX_DIGITS


def gaussian_fits(sigma: float) -> bool:
    """Whether a discrete Gaussian of σ grid steps fits one table."""
    if sigma < 1:
        return True
    height = WORD_BITS * math.log(2) - math.log(sigma * math.sqrt(2 * math.pi))
    return height > 0 and 2 * sigma * math.sqrt(2 * height) + 8 < 1 << MAX_CELL_BITS


def _digits(scale: float, columns: int) -> int:
    most, digits = 1 << MAX_CELL_BITS, 1
    while digits <= MAX_DIGITS and _table_size(scale / BASE ** (digits - 1), columns) >= most:
        digits += 1
    return digits


def _flat(epsilon: float, steps: int, inner: int) -> bool:
    """Whether one table holds the outcomes of a staircase, and a short list all that it leaves.

    A wide staircase has few outcomes, or none, that weigh a whole word; nearly everything would
    then be drawn from a residual law of millions.
    """
    b, below = math.exp(-epsilon), -math.expm1(-epsilon)
    highest = math.log(below / (2 * inner + 2 * b * (steps - inner) - below))
    held, listed = (
        2 * steps * (math.floor((bits * math.log(2) + highest) / epsilon + 0.01) + 1)
        for bits in (WORD_BITS, WORD_BITS + TAIL_BITS)
    )
    return 0 < held < 1 << MAX_CELL_BITS and listed < 4 << MAX_CELL_BITS


def _table_size(scale: float, columns: int) -> float:
    """Outcomes of a two-sided law of this scale that weigh at least one word, from above."""
    height = WORD_BITS * math.log(2) - math.log(max(2.0, 2 * scale)) + 1
    return columns * (scale * max(height, 1.0) + 2)
