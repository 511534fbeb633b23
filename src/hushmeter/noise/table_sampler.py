"""The exact table sampler: certified probabilities, one random word, one table entry.

*Certified probabilities.* The sampler needs ⌊2^32·p⌋ of every probability p, and a wrong last digit
would make the noise inexact. Floating point cannot give that digit with certainty, so this module
uses *interval arithmetic* on Python integers: a real number x is held as two whole numbers with
low ≤ 2^bits·x ≤ high. Every operation rounds the lower bound down and the upper bound up. If both
bounds have the same floor, that floor is proved; if not, the caller repeats with more bits. A
distribution numbers its outcomes 0, 1, 2, … A *signed* distribution maps the whole numbers to these
indices in the order 0, −1, 1, −2, 2, …: index 2q is q and index 2q + 1 is −1 − q. All parameters
are rational numbers, so every probability can be computed to any number of bits.

*Tables.* Let p be a distribution and let a random word have w bits. With the certified
n_k = ⌊2^w·p_k⌋ and L = 2^w − Σ n_k, the distribution is exactly the mixture

    p = Σ (n_k/2^w)·δ_k + (L/2^w)·R,        R_k = (2^w·p_k − n_k)/L,

where δ_k is the outcome k for certain. The n_k and one additional outcome of weight L, the
*sentinel*, fill an integer alias table. Every word therefore selects an outcome with exactly the
probability n_k/2^w. A word that selects the sentinel (a few in a million) is replaced by a draw
from R, which contains all rounding errors and the whole tail: 64 more random bits are compared
with the cumulative distribution of R, which is certified to 64 bits. If these bits do not decide,
the number of bits and the precision are doubled until they do. The sampler thus draws from p
itself, not from an approximation, and nothing is truncated.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, chain, islice, pairwise, repeat
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hushmeter.checks import IntArray
from hushmeter.errors import InputError
from hushmeter.noise.arrays import kernels_for

if TYPE_CHECKING:
    from hushmeter.noise.samplers import Streams

Bounds = tuple[list[int], list[int]]
"""Lower and upper bounds of the probabilities, by index."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Bounds of a non-negative real number x."""

    # low ≤ 2^bits·x ≤ high
    low: int
    high: int
    bits: int  # Number of binary digits after the point

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high, self.bits)

    def __sub__(self, other: Interval) -> Interval:
        """Bounds of x − y, where x ≥ y; the lower bound is therefore never below zero."""
        return Interval(max(0, self.low - other.high), self.high - other.low, self.bits)

    def __mul__(self, other: Interval) -> Interval:
        # −(−a >> bits) rounds up, because >> rounds towards minus infinity.
        high = -((-self.high * other.high) >> self.bits)
        return Interval((self.low * other.low) >> self.bits, high, self.bits)

    def __truediv__(self, other: Interval) -> Interval:
        high = -((-self.high << self.bits) // other.low)
        return Interval((self.low << self.bits) // other.high, high, self.bits)

    def times(self, factor: int) -> Interval:
        """Bounds of x times a whole number; no rounding is needed."""
        return Interval(self.low * factor, self.high * factor, self.bits)


def exactly(value: Fraction | int, bits: int) -> Interval:
    """Bounds of a rational number that are at most one unit of the last bit apart."""
    fraction = Fraction(value)
    scaled = fraction.numerator << bits
    return Interval(scaled // fraction.denominator, -(-scaled // fraction.denominator), bits)


def exp_minus(exponent: Fraction, bits: int) -> Interval:
    """Bounds of e^(−x).

    Notes
    -----
    The exponent is halved h times until it is below 2^−8, where the Taylor series converges
    quickly; the result is then squared h times, e^(−x) = (e^(−x/2^h))^(2^h).
    """
    halvings = max(0, exponent.numerator.bit_length() - exponent.denominator.bit_length() + 1) + 8
    # Each squaring doubles the relative error: one more bit per halving, and 32 bits to spare.
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
    # The terms alternate in sign and decrease, so the last term bounds everything left out.
    result = Interval(even.low - odd.high - term.high, even.high - odd.low + term.high, work)
    for _ in range(halvings):
        result = result * result
    excess = work - bits
    return Interval(max(0, result.low) >> excess, -(-result.high >> excess), bits)


def geometric(first: Interval, ratio: Interval, count: int) -> Bounds:
    """Bounds of first·ratio^k for k = 0 … count − 1."""
    bits, low_ratio, high_ratio = first.bits, ratio.low, ratio.high
    low = accumulate(repeat(low_ratio, count - 1), lambda v, r: (v * r) >> bits, initial=first.low)
    high = accumulate(
        repeat(high_ratio, count - 1), lambda v, r: -((-v * r) >> bits), initial=first.high
    )
    return list(low), list(high)


class CertifiedDistribution(ABC):
    """A probability distribution on the indices 0, 1, 2, … with certified bounds.

    Attributes
    ----------
    signed : bool
        True if the indices represent the whole numbers 0, −1, 1, −2, 2, …
    """

    signed: bool = False

    @property
    def size(self) -> int | None:
        """Number of outcomes, or None if there are infinitely many."""
        return None

    @abstractmethod
    def masses(self, bits: int, cut: int) -> Bounds:
        """Bounds of the probabilities, by index.

        Parameters
        ----------
        bits : int
            Number of binary digits.
        cut : int
            The lists contain at least every index i with P(i) ≥ 2^−cut.

        Returns
        -------
        low, high : list of int
            low[i] ≤ 2^bits·P(i) ≤ high[i].
        """


@dataclass(frozen=True)
class GeometricDigit(CertifiedDistribution):
    """A lower digit of a geometric variable: P(i) ∝ e^(−rate·i) for 0 ≤ i < base."""

    rate: Fraction
    base: int

    @property
    def size(self) -> int | None:
        """The base, because a digit has finitely many values."""
        return self.base

    def masses(self, bits: int, cut: int) -> Bounds:
        """See `CertifiedDistribution.masses`; the lists always contain every value."""
        del cut
        one, ratio = exactly(1, bits), exp_minus(self.rate, bits)
        first = (one - ratio) / (one - exp_minus(self.rate * self.base, bits))
        return geometric(first, ratio, self.base)


@dataclass(frozen=True)
class TwoSidedGeometric(CertifiedDistribution):
    """The discrete Laplace distribution, or its sign together with its leading digit.

    Notes
    -----
    With α = e^(−rate), the discrete Laplace distribution is P(n) = (1 − α)/(1 + α)·α^|n|. Draw
    "n ≥ 0" with probability 1/(1 + α), and a geometric G with P(G = g) = (1 − α)·α^g; set n = G,
    or n = −1 − G in the other case. Then P(n = g) = (1 − α)·α^g/(1 + α) and
    P(n = −1 − g) = α·(1 − α)·α^g/(1 + α), which is the distribution above: zero occurs once and
    no outcome has to be redrawn.

    A geometric G splits into *independent* digits G = D + base·Q, because
    α^(d + base·q) = α^d·(α^base)^q is a product. This class is the distribution of Q with its
    sign. With base 1 it is n itself.
    """

    rate: Fraction
    base: int = 1
    signed = True

    def masses(self, bits: int, cut: int) -> Bounds:
        """See `CertifiedDistribution.masses`."""
        one, alpha = exactly(1, bits), exp_minus(self.rate, bits)
        ratio = exp_minus(self.rate * self.base, bits)
        first = (one - ratio) / (one + alpha)
        count = _terms(first, float(self.rate * self.base), cut)
        even = geometric(first, ratio, count)
        odd = geometric(first * alpha, ratio, count)
        return _weave([even[0], odd[0]]), _weave([even[1], odd[1]])


@dataclass(frozen=True)
class FlatStaircase(CertifiedDistribution):
    """The discrete staircase distribution, listed outcome by outcome.

    P(i) = a·b^k for kΔ ≤ |i| < kΔ + r and a·b^(k+1) for kΔ + r ≤ |i| < (k+1)Δ, with b = e^(−ε),
    Δ = `steps` and r = `inner`.
    """

    epsilon: Fraction
    steps: int
    inner: int
    signed = True

    def masses(self, bits: int, cut: int) -> Bounds:
        """See `CertifiedDistribution.masses`."""
        first, ratio = stair_unit(self.epsilon, self.steps, self.inner, bits)
        stairs = geometric(first, ratio, _terms(first, float(self.epsilon), cut) + 2)
        return _mirror(self._spread(stairs[0])), _mirror(self._spread(stairs[1]))

    def _spread(self, stairs: list[int]) -> list[int]:
        """Repeat the probability of each stair for every magnitude on it."""
        inner, outer = self.inner, self.steps - self.inner
        parts = ([here] * inner + [below] * outer for here, below in pairwise(stairs))
        return list(chain.from_iterable(parts))


@dataclass(frozen=True)
class StairClass(CertifiedDistribution):
    """The stair on which a staircase variable lies: index 4Q + c.

    Notes
    -----
    The whole numbers fall into four classes c: positive inner, positive outer, negative inner and
    negative outer (`class_layout`). Within each class the number k of the stair is geometric with
    b = e^(−ε), and it is independent of the class, because every stair has b times the
    probability of the one before. So k splits into independent digits k = D + base·Q, as the
    discrete Laplace variable does. With base 1, Q is k.
    """

    epsilon: Fraction
    steps: int
    inner: int
    base: int = 1

    def masses(self, bits: int, cut: int) -> Bounds:
        """See `CertifiedDistribution.masses`."""
        one = exactly(1, bits)
        unit, b = stair_unit(self.epsilon, self.steps, self.inner, bits)
        ratio = exp_minus(self.epsilon * self.base, bits)
        share = (one - ratio) / (one - b)
        widths = class_layout(self.steps, self.inner)[1]
        firsts = [
            (unit * b if c % 2 else unit).times(width) * share for c, width in enumerate(widths)
        ]
        count = _terms(max(firsts, key=lambda f: f.high), float(self.epsilon * self.base), cut)
        columns = [geometric(first, ratio, count) for first in firsts]
        return _weave([c[0] for c in columns]), _weave([c[1] for c in columns])


@dataclass(frozen=True)
class DiscreteGaussian(CertifiedDistribution):
    """P(n) ∝ e^(−n²/2σ²) on the whole numbers; `variance` is σ² [grid steps²], rational."""

    variance: Fraction
    signed = True

    def masses(self, bits: int, cut: int) -> Bounds:
        """See `CertifiedDistribution.masses`."""
        low, high = self._weights(bits)
        total_low = 2 * sum(low) - low[0]
        # Both tails that the list leaves out weigh less than its last term times 2·(length + 1).
        total_high = 2 * sum(high) - high[0] + 2 * high[-1] * (len(high) + 1)
        spread = float(self.variance)
        keep = 2 + math.isqrt(int(2 * spread * (cut * math.log(2) + 1)) + 1)
        lows = [(w << bits) // total_high for w in islice(low, keep)]
        highs = [-((-w << bits) // total_low) for w in islice(high, keep)]
        return _mirror(lows), _mirror(highs)

    def _weights(self, bits: int) -> Bounds:
        """Bounds of e^(−k²/2σ²) for k = 0, 1, … down to far below one unit of the last bit."""
        inverse = 1 / self.variance
        # w(k+1) = w(k)·e^(−(2k+1)/2σ²), and these ratios form a geometric sequence themselves:
        # two exponentials are enough for the whole list.
        first_ratio, decline = exp_minus(inverse / 2, bits), exp_minus(inverse, bits)
        last = 2 + math.isqrt(int(2 * float(self.variance) * (bits * math.log(2) + 1)) + 1)
        ratios = geometric(first_ratio, decline, last)
        low = [1 << bits]
        high = [1 << bits]
        for ratio in ratios[0]:
            low.append((low[-1] * ratio) >> bits)
        for ratio in ratios[1]:
            high.append(-((-high[-1] * ratio) >> bits))
        return low, high


def stair_unit(epsilon: Fraction, steps: int, inner: int, bits: int) -> tuple[Interval, Interval]:
    """Bounds of a = (1 − b)/(2r + 2b(Δ − r) − (1 − b)) and of b = e^(−ε)."""
    one, b = exactly(1, bits), exp_minus(epsilon, bits)
    below = one - b
    return below / (one.times(2 * inner) + b.times(2 * (steps - inner)) - below), b


def class_layout(steps: int, inner: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """First magnitude and width of each of the four classes in their stair 0 [grid steps].

    Zero belongs to the positive side, so the negative side starts at magnitude 1: its inner class
    is one step narrower and its outer class one step wider. Its stair 0 then consists of the
    magnitudes 1 … Δ, and on both sides every stair has b times the probability of the one before.
    """
    return (0, inner, 1, inner), (inner, steps - inner, inner - 1, steps - inner + 1)


def _terms(first: Interval, rate: float, cut: int) -> int:
    """Number of terms of first·e^(−rate·k) until they are below 2^−cut."""
    height = first.high.bit_length() - first.bits
    return 2 + max(0, math.ceil((cut + height) * math.log(2) / rate))


def _mirror(half: list[int]) -> list[int]:
    """Turn a list for the magnitudes 0, 1, 2, … into one for 0, −1, 1, −2, 2, …"""
    return [half[0], *chain.from_iterable(zip(half[1:], half[1:], strict=True))]


def _weave(columns: list[list[int]]) -> list[int]:
    """Take one entry from each column in turn."""
    return list(chain.from_iterable(zip(*columns, strict=True)))


WORD_BITS = 32
"""Bits of a random word of the fast path."""

RESIDUAL_BITS = 64
"""Bits of a draw from R before they are extended."""

MAX_CELL_BITS = 16
"""Logarithm of the largest table: 2^16 cells are 256 KiB and fit a common second-level cache."""

TAIL_BITS = 16
"""The cumulative distribution of R lists outcomes down to 2^−16 of a word."""

_START_BITS = 192
# The floors of a table are whole numbers that either precision proves. The rounding errors of a
# list of k products grow as k²·2^−96 and stay far below 2^−32, so that this is usually enough.
_FLOOR_BITS = 96
_CACHED_TABLES = 24


@dataclass(frozen=True)
class Table:
    """Integer alias table of a distribution.

    Attributes
    ----------
    packed : uint32 array
        One entry per cell: the alias above, the threshold in the lower `cell_bits` bits.
    cell_bits : int
        A cell holds 2^cell_bits words.
    offset : int
        A table position minus the offset is an outcome.
    sentinel : int
        Position of the sentinel, the last one in use.
    """

    packed: NDArray[np.uint32]
    cell_bits: int
    offset: int
    sentinel: int

    def weights(self) -> IntArray:
        """Number of words that select each position, counted from the table itself."""
        mask = (1 << self.cell_bits) - 1
        threshold = (self.packed & np.uint32(mask)).astype(np.int64)
        alias = (self.packed >> np.uint32(self.cell_bits)).astype(np.int64)
        held = threshold.copy()
        np.add.at(held, alias, (1 << self.cell_bits) - threshold)
        return held


@dataclass(frozen=True)
class Residual:
    """Cumulative distribution of R in certified whole numbers."""

    floors: NDArray[np.uint64]  # ⌊2^bits·P(R ≤ k)⌋ by index k
    bits: int  # Number of bits
    # True if the distribution has finitely many outcomes and the list contains all but the last
    complete: bool


def floor_masses(distribution: CertifiedDistribution, word_bits: int) -> list[int]:
    """Certified floors n_k = ⌊2^word_bits·p_k⌋ by index, without trailing zeros.

    The precision is doubled until the lower and the upper bound of every probability have the same
    floor; only then is the floor proved.
    """
    bits = _FLOOR_BITS
    while True:
        low, high = distribution.masses(bits, word_bits + 1)
        drop = bits - word_bits
        floors = [value >> drop for value in low]
        if floors == [value >> drop for value in high]:
            break
        bits *= 2
    while floors and floors[-1] == 0:
        floors.pop()
    return floors


@functools.lru_cache(maxsize=_CACHED_TABLES)
def build_table(distribution: CertifiedDistribution, word_bits: int = WORD_BITS) -> Table:
    """Build the alias table of a distribution and check every weight in it."""
    floors = floor_masses(distribution, word_bits)
    weights_by_index = np.array(floors, dtype=np.int64) << (WORD_BITS - word_bits)
    if distribution.signed:
        ordered, offset = _by_outcome(weights_by_index), len(floors) // 2
    else:
        ordered, offset = weights_by_index, 0
    sentinel = len(ordered)
    if sentinel >= 1 << MAX_CELL_BITS:
        raise InputError(f"the distribution has {sentinel} outcomes, too many for one table.")
    weights = np.append(ordered, (1 << WORD_BITS) - int(ordered.sum()))
    cell_bits = WORD_BITS - max(1, sentinel.bit_length())
    packed = kernels_for().alias_table(weights, 1 << (WORD_BITS - cell_bits), cell_bits)
    packed.setflags(write=False)
    table = Table(packed, cell_bits, offset, sentinel)
    check_masses(table, weights)
    return table


def check_masses(table: Table, weights: IntArray) -> None:
    """Check that a table holds exactly the given weights and that they add up to 2^32.

    This check proves the fast path: together with the mixture identity it shows that the sampler
    has the distribution p, whatever the code that built the table did.
    """
    held = table.weights()
    padded = np.zeros_like(held)
    padded[: len(weights)] = weights
    if int(weights.sum()) != 1 << WORD_BITS or weights.min() < 0 or weights[-1] < 1:
        raise AssertionError("the weights of a noise table do not add up to the whole word.")
    if not np.array_equal(held, padded):
        raise AssertionError("a noise table does not hold the weights it was built from.")


@functools.lru_cache(maxsize=_CACHED_TABLES)
def build_residual(
    distribution: CertifiedDistribution,
    word_bits: int = WORD_BITS,
    residual_bits: int = RESIDUAL_BITS,
) -> Residual:
    """Compute the cumulative distribution of R, every floor certified as in `floor_masses`."""
    cut = word_bits + TAIL_BITS
    bits = _START_BITS
    floors = floor_masses(distribution, word_bits)
    unit = (1 << word_bits) - sum(floors)
    while True:
        low, high = _residual_sums(distribution, floors, bits, word_bits, cut)
        first = _scaled(low, residual_bits, unit << bits)
        if first == _scaled(high, residual_bits, unit << bits):
            break
        bits *= 2
    array = np.array(first, dtype=np.uint64)
    array.setflags(write=False)
    return Residual(array, residual_bits, distribution.size is not None)


class TableSampler:
    """Draws from one distribution with one stream of random words."""

    def __init__(
        self,
        distribution: CertifiedDistribution,
        plane: int = 0,
        word_bits: int = WORD_BITS,
        residual_bits: int = RESIDUAL_BITS,
    ) -> None:
        self.distribution = distribution
        self.plane = plane
        self.word_bits = word_bits
        self.residual_bits = residual_bits
        self.table = build_table(distribution, word_bits)

    def fill(self, streams: Streams, start: int, out: NDArray[np.int32]) -> None:
        """Write the outcomes of the draws start, start + 1, … into `out`."""
        table = self.table
        words = streams.words(self.plane, out.size)
        shape = table.packed, table.cell_bits, table.sentinel, table.offset
        if kernels_for().lookup(words, *shape, out):
            places = np.flatnonzero(out == table.sentinel - table.offset)
            out[places] = self._from_residual(streams, places + start)

    def _from_residual(self, streams: Streams, draws: IntArray) -> IntArray:
        """Return outcomes of R for the given draws.

        A random integer u of 64 bits represents the interval [u, u + 1)/2^64. It lies within the
        share of index k if ⌊2^64·P(R ≤ k − 1)⌋ < u < ⌊2^64·P(R ≤ k)⌋. If u *equals* a floor, a
        boundary lies inside the interval and more bits must decide.
        """
        residual = build_residual(self.distribution, self.word_bits, self.residual_bits)
        raw = streams.slow_blocks(self.plane, draws, 0)[:, :8].copy().view(">u8").ravel()
        bits = raw.astype(np.uint64) >> np.uint64(64 - residual.bits)
        index = np.searchsorted(residual.floors, bits, side="left").astype(np.int64)
        inside = index < len(residual.floors)
        open_ended = ~inside & (not residual.complete)
        tie = np.zeros_like(inside)
        tie[inside] = residual.floors[index[inside]] == bits[inside]
        for place in np.flatnonzero(tie | open_ended):
            index[place] = self._exactly(streams, int(draws[place]))
        return to_outcome(index) if self.distribution.signed else index

    def _exactly(self, streams: Streams, draw: int) -> int:
        """Return an index of R with as many random bits as the decision needs."""
        word_bits = self.word_bits
        floors = floor_masses(self.distribution, word_bits)
        unit = (1 << word_bits) - sum(floors)
        bits = 2 * self.residual_bits
        while True:
            found = self._decide(streams.slow_bits(self.plane, draw, bits), bits, floors, unit)
            if found is not None:
                return found
            bits *= 2

    def _decide(self, value: int, bits: int, floors: list[int], unit: int) -> int | None:
        """Return the index whose share certainly contains [value, value + 1)/2^bits, or None."""
        work = bits + _START_BITS
        word_bits = self.word_bits
        low, high = _residual_sums(self.distribution, floors, work, word_bits, bits + word_bits)
        scale = unit << (work - bits)
        for index, (below, above) in enumerate(zip(low, high, strict=True)):
            if above <= value * scale:
                continue
            return index if below >= (value + 1) * scale else None
        return len(low) if self.distribution.size is not None else None


def to_outcome(index: IntArray) -> IntArray:
    """Map the indices 0, 1, 2, 3, 4, … to the outcomes 0, −1, 1, −2, 2, …"""
    return (index >> 1) ^ -(index & 1)


def _by_outcome(weights: IntArray) -> IntArray:
    """Reorder weights by index to weights by outcome, from the most negative one up."""
    return np.concatenate([weights[1::2][::-1], weights[0::2]])


def _residual_sums(
    distribution: CertifiedDistribution, floors: list[int], bits: int, word_bits: int, cut: int
) -> tuple[list[int], list[int]]:
    """Return bounds of the running sums of 2^word_bits·p_k − n_k at `bits` bits.

    The sum over all outcomes is known to be L exactly, so it is left out of a finite list.
    """
    low, high = distribution.masses(bits, cut)
    padded = floors + [0] * (len(low) - len(floors))
    lows = accumulate((p << word_bits) - (n << bits) for p, n in zip(low, padded, strict=True))
    highs = accumulate((p << word_bits) - (n << bits) for p, n in zip(high, padded, strict=True))
    last = len(low) if distribution.size is None else len(low) - 1
    return list(lows)[:last], list(highs)[:last]


def _scaled(sums: list[int], bits: int, unit: int) -> list[int]:
    """Return ⌊2^bits·sum/unit⌋, at most the largest number of `bits` bits."""
    top = (1 << bits) - 1
    return [min(top, (value << bits) // unit) for value in sums]
