"""Samplers of the three noise distributions, built from exact tables.

One table holds at most 2^16 outcomes. Wider noise is put together from independent parts that each
fit a table: the discrete Laplace from digits, the staircase from the number of a stair and a
uniform place on it. Each decomposition is an identity between distributions, so the sampler
remains exact.

*Random bits.* There is one AES-256-CTR key stream for each release, with a fixed place for every
draw. A key of 32 bytes determines every bit. The 128-bit counter block of the cipher consists of

    plane (32 bits) | draw (64 bits) | extension (32 bits)        big-endian

*Plane* p contains the fast words: word i, 32 bits little-endian, belongs to draw i and is at byte
4·i of the key stream that starts at counter p·2^96. *Plane* 2^31 + p contains the additional bits
that draw i needs in rare cases: 128 at a time, most significant first, at draw = i and
extension = 0, 1, 2, … The two kinds of planes never overlap, the bits of a draw do not depend on
other draws, and the output does not depend on the size of a block.

*Bits of a labelled value.* A release repeats its noise where it repeats a value of a label, and
nowhere else. In place of its number, draw i then has the 128-bit tag

    t_i = AES_M(AES_M(label_i) ⊕ value_i)        (CBC-MAC of two blocks; value_i is signed, 64 bits)

with M = HMAC-SHA256(key, "label"). Its word of plane p is the first 4 bytes of AES_L(t_i) with
L = HMAC-SHA256(key, p | 0), and its additional bits are AES_L(t_i) with
L = HMAC-SHA256(key, 2^31 + p | extension); plane and extension have 32 bits, big-endian.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import math
import os
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from hushmeter.checks import IntArray
from hushmeter.errors import InputError
from hushmeter.noise.arrays import kernels_for
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

KEY_BYTES = 32
BLOCK = 1 << 15
"""Draws per block: 128 KiB of key stream, so that words, table and noise stay in the cache."""

_SLOW_PLANES = 1 << 31
_SEED_CONTEXT = b"hushmeter simulation seed "

Words = NDArray[np.uint32]

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


class Streams:
    """The random bits of one release."""

    def __init__(self, key: bytes, planes: int, block: int = BLOCK) -> None:
        self._key = key
        self.block = block
        self._zeros = bytes(4 * block)
        self._buffers = [memoryview(bytearray(4 * block + 16)) for _ in range(planes)]
        self._ciphers = [
            Cipher(algorithms.AES(key), modes.CTR((plane << 96).to_bytes(16, "big"))).encryptor()
            for plane in range(planes)
        ]

    def words(self, plane: int, count: int) -> Words:
        """Return the next `count` fast words of a plane; the next call reuses their memory."""
        size = 4 * count
        source = self._zeros if count == self.block else memoryview(self._zeros)[:size]
        self._ciphers[plane].update_into(source, self._buffers[plane])
        return np.frombuffer(self._buffers[plane], dtype="<u4", count=count)

    def slow_blocks(
        self, plane: int, draws: NDArray[np.int64], extension: int
    ) -> NDArray[np.uint8]:
        """Return 128 additional bits for each of the given draws, as bytes of shape (draws, 16)."""
        counters = np.empty((len(draws), 2), dtype=">u8")
        counters[:, 0] = (_SLOW_PLANES + plane) << 32
        counters[:, 0] += (draws >> 32).astype(np.uint64)
        counters[:, 1] = ((draws & 0xFFFFFFFF) << 32).astype(np.uint64) + np.uint64(extension)
        # Counter mode encrypts consecutive counters. These counters are scattered, so the block
        # cipher (ECB) is applied to each of them; the bits are the same.
        return _encrypt(self._key, counters)

    def slow_bits(self, plane: int, draw: int, bits: int) -> int:
        """Return the first `bits` additional bits of one draw as a whole number."""
        one = np.array([draw], dtype=np.int64)
        blocks = -(-bits // 128)
        raw = b"".join(self.slow_blocks(plane, one, e).tobytes() for e in range(blocks))
        return int.from_bytes(raw, "big") >> (128 * blocks - bits)


class LabelledStreams(Streams):
    """The random bits of values that have a label each, 16 bytes, whatever their order.

    Equal labels and values have equal bits under one key; all others have independent bits.
    """

    def __init__(self, key: bytes, labels: NDArray[np.uint8], values: IntArray) -> None:
        self._key = key
        self.block = BLOCK
        own = self._key_for(b"label")
        blocks = _encrypt(own, labels).view(">u8").copy()
        blocks[:, 1] ^= values.astype(np.int64).view(np.uint64)
        self._tags = _encrypt(own, blocks)
        self._next: dict[int, int] = {}

    def words(self, plane: int, count: int) -> Words:
        """See `Streams.words`."""
        start = self._next.get(plane, 0)
        self._next[plane] = start + count
        bits = self._bits(plane, 0, self._tags[start : start + count])
        return bits[:, :4].copy().view("<u4").ravel()

    def slow_blocks(
        self, plane: int, draws: NDArray[np.int64], extension: int
    ) -> NDArray[np.uint8]:
        """See `Streams.slow_blocks`."""
        return self._bits(_SLOW_PLANES + plane, extension, self._tags[draws])

    def _bits(self, plane: int, extension: int, tags: NDArray[np.uint8]) -> NDArray[np.uint8]:
        own = plane.to_bytes(4, "big") + extension.to_bytes(4, "big")
        return _encrypt(self._key_for(own), tags)

    def _key_for(self, use: bytes) -> bytes:
        return hmac.new(self._key, use, hashlib.sha256).digest()


def _encrypt(key: bytes, blocks: NDArray[Any]) -> NDArray[np.uint8]:
    """Apply the block cipher to every 16 bytes; the result has the shape (n, 16)."""
    cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    raw = cipher.update(blocks.tobytes()) + cipher.finalize()
    return np.frombuffer(raw, dtype=np.uint8).reshape(-1, 16)


def release_key(
    rng: int | np.random.Generator | None = None, key: bytes | None = None
) -> tuple[bytes, bool]:
    """Choose the key of a release."""
    if key is not None:
        if rng is not None:
            raise InputError("give either rng (a simulation) or key (a replay), not both.")
        if not isinstance(key, bytes) or len(key) != KEY_BYTES:
            raise InputError(f"key must be {KEY_BYTES} bytes.")
        return key, False
    if rng is None:
        return os.urandom(KEY_BYTES), False
    if isinstance(rng, np.random.Generator):
        return rng.bytes(KEY_BYTES), True
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer):
        raise InputError(f"rng must be a whole number or a numpy Generator, got {rng!r}.")
    return hashlib.sha256(_SEED_CONTEXT + str(int(rng)).encode()).digest(), True


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
        append_digit = kernels_for().append_digit
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
        kernels = kernels_for()
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
        place_on_stairs = kernels_for().place_on_stairs
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


def noise_blocks(sampler: Sampler, streams: Streams, count: int) -> Iterator[tuple[int, Noise]]:
    """Yield the first draw and the noise of each block; the array is reused."""
    noise: Noise = np.empty(min(streams.block, count), dtype=sampler.dtype)
    for start in range(0, count, streams.block):
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
