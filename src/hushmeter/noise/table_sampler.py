"""The exact table sampler: one random word, one table entry, one comparison, nothing truncated.

Let p be a distribution and let a random word have w bits. With n_k = ⌊2^w·p_k⌋, certified by
`hushmeter.noise.certified_masses`, and L = 2^w − Σ n_k, the distribution is exactly the mixture

    p = Σ (n_k/2^w)·δ_k + (L/2^w)·R,        R_k = (2^w·p_k − n_k)/L,

where δ_k is the outcome k for certain. The n_k and one additional outcome of weight L, the
*sentinel*, fill an integer alias table. Every word therefore selects an outcome with exactly the
probability n_k/2^w. A word that selects the sentinel (a few in a million) is replaced by a draw
from R, which contains all rounding errors and the whole tail: 64 more random bits are compared
with the cumulative distribution of R, which is certified to 64 bits. If these bits do not decide,
the number of bits and the precision are doubled until they do. The sampler thus draws from p
itself, not from an approximation.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from hushmeter.checks import IntArray
from hushmeter.errors import InputError
from hushmeter.noise.certified_masses import CertifiedDistribution
from hushmeter.noise.randomness import Streams

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
    from hushmeter.noise import kernels

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
    packed = kernels.alias_table(weights, 1 << (WORD_BITS - cell_bits), cell_bits)
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
        from hushmeter.noise.kernels import lookup

        table = self.table
        words = streams.words(self.plane, out.size)
        if lookup(words, table.packed, table.cell_bits, table.sentinel, table.offset, out):
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
