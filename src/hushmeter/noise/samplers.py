"""Samplers of the three noise distributions, built from exact tables.

One table holds at most 2^16 outcomes. Wider noise is put together from independent parts that each
fit a table: the discrete Laplace from digits, the staircase from the number of a stair and a
uniform place on it. Each decomposition is an identity between distributions, so the sampler
remains exact.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hushmeter.checks import IntArray
from hushmeter.errors import InputError
from hushmeter.noise.randomness import BLOCK, Streams
from hushmeter.noise.table_sampler import (
    MAX_CELL_BITS,
    RESIDUAL_BITS,
    TAIL_BITS,
    WORD_BITS,
    CertifiedDistribution,
    DiscreteGaussian,
    FlatStaircase,
    GeometricDigit,
    StairClass,
    TableSampler,
    TwoSidedGeometric,
)

BASE = (1 << 12) - 1
"""Base of a digit: its values and the sentinel fill 2^12 cells, 16 KiB of a first-level cache."""

MAX_DIGITS = 3
"""Largest number of digits of a magnitude."""

MAX_STAIR_STEPS = 1 << 21
"""Widest stair [grid steps]; its product with a 32-bit word is below 2^53 and exact in float64."""

MAX_SCALE = 1 << 45
"""Largest scale [grid steps].

Float64 skips whole numbers beyond 2^53. Noise of this scale exceeds 2^53 with probability
e^(−256)."""

Noise = NDArray[Any]
"""A block of whole numbers: int32 from one table, float64 from several tables."""


class Sampler(Protocol):
    """An object that fills a block with the noise of consecutive draws.

    Attributes
    ----------
    planes : int
        Number of streams of random words that it reads.
    dtype : type
        Type of the numbers it writes.
    """

    planes: int
    dtype: type

    def fill(self, streams: Streams, start: int, out: Noise) -> None:
        """Write the noise of the draws start, start + 1, … into `out` [grid steps]."""


class OneTable:
    """Sampler of a distribution that fits one table."""

    planes = 1
    dtype: type = np.int32

    def __init__(self, distribution: CertifiedDistribution) -> None:
        self.fill = TableSampler(distribution).fill


class DigitSampler:
    """Sampler of wide discrete Laplace noise: a signed leading digit and lower digits.

    The digits of a geometric variable are independent (`TwoSidedGeometric`), so each has a table
    and a stream of its own.
    """

    dtype: type = np.float64

    def __init__(
        self,
        rate: Fraction,
        digits: int,
        base: int = BASE,
        word_bits: int = WORD_BITS,
        residual_bits: int = RESIDUAL_BITS,
    ) -> None:
        self.planes = digits
        self._base = base
        leading = TwoSidedGeometric(rate, base ** (digits - 1))
        lower = [GeometricDigit(rate * base**power, base) for power in reversed(range(digits - 1))]
        self._tables = [
            TableSampler(digit, plane, word_bits, residual_bits)
            for plane, digit in enumerate([leading, *lower])
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
    """Sampler of a discrete staircase of any width.

    It draws the class and the number of the stair (`StairClass`), then a uniform place on the
    stair, because all outcomes of a stair have the same probability.
    """

    dtype: type = np.float64

    def __init__(
        self,
        stairs: StairClass,
        digits: int,
        base: int = BASE,
        word_bits: int = WORD_BITS,
        residual_bits: int = RESIDUAL_BITS,
    ) -> None:
        if stairs.steps >> word_bits:
            raise InputError(
                f"a stair of {stairs.steps} steps is too wide for {word_bits}-bit words."
            )
        self.planes = digits + 1
        self._base = base
        rates = [stairs.epsilon * base**power for power in reversed(range(digits - 1))]
        parts = [stairs, *(GeometricDigit(rate, base) for rate in rates)]
        self._tables = [
            TableSampler(part, plane, word_bits, residual_bits) for plane, part in enumerate(parts)
        ]
        self._drop = np.uint32(WORD_BITS - word_bits)
        self._layout = (word_bits, stairs.steps, stairs.inner)

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
            out[places] = self._redraw(streams, places + start, classes[places], numbers[places])

    def _redraw(
        self, streams: Streams, draws: IntArray, classes: NDArray[np.int32], numbers: Noise
    ) -> Noise:
        """Return the noise of draws whose word was rejected, with new words until one is accepted.

        Only the place is drawn again. The stair is kept: a rejection depends on the word alone, so
        the accepted place is uniform and independent of the stair. The words come from the slow
        bits of each draw, so the noise of a draw never depends on other draws.
        """
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
def laplace_sampler(rate: Fraction) -> Sampler:
    """Sampler of the discrete Laplace distribution with α = e^(−rate)."""
    digits = laplace_digits(rate)
    return OneTable(TwoSidedGeometric(rate)) if digits == 1 else DigitSampler(rate, digits)


@functools.lru_cache(maxsize=16)
def staircase_sampler(epsilon: Fraction, steps: int, inner: int) -> Sampler:
    """Sampler of the discrete staircase distribution; `steps` and `inner` in grid steps."""
    if _fits_one_table(float(epsilon), steps, inner):
        return OneTable(FlatStaircase(epsilon, steps, inner))
    digits = staircase_digits(epsilon)
    return StairSampler(StairClass(epsilon, steps, inner, BASE ** (digits - 1)), digits)


@functools.lru_cache(maxsize=16)
def gaussian_sampler(variance: Fraction) -> Sampler:
    """Sampler of the discrete Gaussian distribution in one table; variance in grid steps²."""
    return OneTable(DiscreteGaussian(variance))


def noise_blocks(sampler: Sampler, secret: bytes, count: int) -> Iterator[tuple[int, Noise]]:
    """Yield the first draw and the noise of each block; the array is reused."""
    block = min(BLOCK, count)
    streams = Streams(secret, sampler.planes, block)
    noise: Noise = np.empty(block, dtype=sampler.dtype)
    for start in range(0, count, block):
        part = noise[: count - start]
        sampler.fill(streams, start, part)
        yield start, part


def laplace_digits(rate: Fraction) -> int:
    """Number of digits that a discrete Laplace of scale 1/rate grid steps needs.

    More than `MAX_DIGITS` means that the scale is too large.
    """
    return _digits(1 / float(rate), 2)


def staircase_digits(epsilon: Fraction) -> int:
    """Number of digits that the number of a stair needs.

    More than `MAX_DIGITS` means that the scale is too large.
    """
    return _digits(1 / float(epsilon), 4)


def staircase_fits(epsilon: Fraction, steps: int) -> bool:
    """Whether stairs of the given width, and the noise, remain whole numbers in float64."""
    narrow = steps <= MAX_STAIR_STEPS and steps <= MAX_SCALE * epsilon
    return narrow and staircase_digits(epsilon) <= MAX_DIGITS


def gaussian_fits(sigma: float) -> bool:
    """Whether a discrete Gaussian of σ grid steps fits one table."""
    if sigma < 1:
        return True
    height = WORD_BITS * math.log(2) - math.log(sigma * math.sqrt(2 * math.pi))
    return height > 0 and 2 * sigma * math.sqrt(2 * height) + 8 < 1 << MAX_CELL_BITS


def _digits(scale: float, columns: int) -> int:
    """Return the smallest number of digits for which the leading one fits a table."""
    most, digits = 1 << MAX_CELL_BITS, 1
    while digits <= MAX_DIGITS and _table_size(scale / BASE ** (digits - 1), columns) >= most:
        digits += 1
    return digits


def _fits_one_table(epsilon: float, steps: int, inner: int) -> bool:
    """Return True if one table holds the staircase and the list of R remains short.

    A wide staircase has few or no outcomes with the probability of a whole word. Nearly every draw
    would then come from R, whose list would have millions of entries.
    """
    b, below = math.exp(-epsilon), -math.expm1(-epsilon)
    highest = math.log(below / (2 * inner + 2 * b * (steps - inner) - below))
    held, listed = (
        2 * steps * (math.floor((bits * math.log(2) + highest) / epsilon + 0.01) + 1)
        for bits in (WORD_BITS, WORD_BITS + TAIL_BITS)
    )
    return 0 < held < 1 << MAX_CELL_BITS and listed < 4 << MAX_CELL_BITS


def _table_size(scale: float, columns: int) -> float:
    """Return an upper bound of the number of outcomes with at least the probability of a word."""
    height = WORD_BITS * math.log(2) - math.log(max(2.0, 2 * scale)) + 1
    return columns * (scale * max(height, 1.0) + 2)
