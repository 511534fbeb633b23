"""Exact table sampler: one random word, one load, one compare, and nothing truncated.

For a law p and words of w bits let n_k = ⌊2^w·p_k⌋, certified by `fixed`, and L = 2^w − Σ n_k.
Then exactly

    p = Σ (n_k / 2^w)·δ_k + (L / 2^w)·R,        R_k = (2^w·p_k − n_k) / L.

The n_k and one *sentinel* of weight L fill an integer alias table. A word on the sentinel (a few
in a million) is answered from R, which carries every rounding error and the whole tail: 64 more
bits are compared with R's cumulative law, known to 64 certified bits; where these do not decide,
the bits and the precision are doubled until they do. The sampler thus has the law p itself.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from hushmeter.checks import IntArray
from hushmeter.errors import InputError
from hushmeter.noise.laws import Law
from hushmeter.noise.randomness import Streams

WORD_BITS = 32
RESIDUAL_BITS = 64
MAX_CELL_BITS = 16
"""2^16 cells are 256 KiB: the largest table that stays in a common second-level cache."""

TAIL_BITS = 16
"""The residual law is listed down to outcomes of 2^−16 words."""

_START_BITS = 192
_CACHED_TABLES = 24


@dataclass(frozen=True)
class Table:
    """Integer alias table of a law; outcomes are `position − offset`, the last is the sentinel."""

    packed: NDArray[np.uint32]
    cell_bits: int
    offset: int
    sentinel: int

    def weights(self) -> IntArray:
        """Number of words that lead to each position: what the table really holds."""
        mask = (1 << self.cell_bits) - 1
        threshold = (self.packed & np.uint32(mask)).astype(np.int64)
        alias = (self.packed >> np.uint32(self.cell_bits)).astype(np.int64)
        held = threshold.copy()
        np.add.at(held, alias, (1 << self.cell_bits) - threshold)
        return held


@dataclass(frozen=True)
class Residual:
    """R as bounds: floors of 2^bits·(R's cumulative law), one per index."""

    floors: NDArray[np.uint64]
    bits: int
    complete: bool


def floor_masses(law: Law, word_bits: int) -> list[int]:
    """n_k = ⌊2^word_bits·p_k⌋ by index, every floor certified, trailing zeros dropped."""
    bits = _START_BITS
    while True:
        low, high = law.masses(bits, word_bits + 1)
        drop = bits - word_bits
        floors = [value >> drop for value in low]
        if floors == [value >> drop for value in high]:
            break
        bits *= 2
    while floors and floors[-1] == 0:
        floors.pop()
    return floors


@functools.lru_cache(maxsize=_CACHED_TABLES)
def build_table(law: Law, word_bits: int = WORD_BITS) -> Table:
    """The alias table of a law, its masses checked word by word.

    Fewer `word_bits` than 32 only coarsen the n_k: more words then fall on the sentinel.
    """
    from hushmeter.noise import kernels

    floors = np.array(floor_masses(law, word_bits), dtype=np.int64) << (WORD_BITS - word_bits)
    ordered, offset = (_unfold(floors), len(floors) // 2) if law.signed else (floors, 0)
    sentinel = len(ordered)
    if sentinel >= 1 << MAX_CELL_BITS:
        raise InputError(f"the law has {sentinel} outcomes, too many for one table.")
    weights = np.append(ordered, (1 << WORD_BITS) - int(ordered.sum()))
    cell_bits = WORD_BITS - max(1, sentinel.bit_length())
    packed = kernels.alias_table(weights, 1 << (WORD_BITS - cell_bits), cell_bits)
    packed.setflags(write=False)
    table = Table(packed, cell_bits, offset, sentinel)
    check_masses(table, weights)
    return table


def check_masses(table: Table, weights: IntArray) -> None:
    """Refuse a table that does not hold exactly the given weights, which add up to 2^32."""
    held = table.weights()
    padded = np.zeros_like(held)
    padded[: len(weights)] = weights
    if int(weights.sum()) != 1 << WORD_BITS or weights.min() < 0 or weights[-1] < 1:
        raise AssertionError("the weights of a noise table do not make up the whole word.")
    if not np.array_equal(held, padded):
        raise AssertionError("a noise table does not hold the masses it was built from.")


@functools.lru_cache(maxsize=_CACHED_TABLES)
def build_residual(
    law: Law, word_bits: int = WORD_BITS, residual_bits: int = RESIDUAL_BITS
) -> Residual:
    """Cumulative law of R to `residual_bits` bits, every floor certified."""
    cut = word_bits + TAIL_BITS
    bits = _START_BITS
    floors = floor_masses(law, word_bits)
    unit = (1 << word_bits) - sum(floors)
    while True:
        low, high = _residual_sums(law, floors, bits, word_bits, cut)
        first = _scaled(low, residual_bits, unit << bits)
        if first == _scaled(high, residual_bits, unit << bits):
            break
        bits *= 2
    array = np.array(first, dtype=np.uint64)
    array.setflags(write=False)
    return Residual(array, residual_bits, law.size is not None)


class TableSampler:
    """Draws from one law with one plane of words."""

    def __init__(
        self,
        law: Law,
        plane: int = 0,
        word_bits: int = WORD_BITS,
        residual_bits: int = RESIDUAL_BITS,
    ) -> None:
        self.law = law
        self.plane = plane
        self.word_bits = word_bits
        self.residual_bits = residual_bits
        self.table = build_table(law, word_bits)

    def fill(self, streams: Streams, start: int, out: NDArray[np.int32]) -> None:
        """Outcomes of the draws start, start + 1, … into `out`."""
        from hushmeter.noise.kernels import lookup

        table = self.table
        words = streams.words(self.plane, out.size)
        if lookup(words, table.packed, table.cell_bits, table.sentinel, table.offset, out):
            places = np.flatnonzero(out == table.sentinel - table.offset)
            out[places] = self._from_residual(streams, places + start)

    def _from_residual(self, streams: Streams, draws: IntArray) -> IntArray:
        residual = build_residual(self.law, self.word_bits, self.residual_bits)
        raw = streams.slow_blocks(self.plane, draws, 0)[:, :8].copy().view(">u8").ravel()
        bits = raw.astype(np.uint64) >> np.uint64(64 - residual.bits)
        index = np.searchsorted(residual.floors, bits, side="left").astype(np.int64)
        inside = index < len(residual.floors)
        open_ended = ~inside & (not residual.complete)
        tie = np.zeros_like(inside)
        tie[inside] = residual.floors[index[inside]] == bits[inside]
        for place in np.flatnonzero(tie | open_ended):
            index[place] = self._exactly(streams, int(draws[place]))
        return unfold_index(index) if self.law.signed else index

    def _exactly(self, streams: Streams, draw: int) -> int:
        """Index from R with as many bits as it takes."""
        word_bits = self.word_bits
        floors = floor_masses(self.law, word_bits)
        unit = (1 << word_bits) - sum(floors)
        bits = 2 * self.residual_bits
        while True:
            found = self._decide(streams.slow_bits(self.plane, draw, bits), bits, floors, unit)
            if found is not None:
                return found
            bits *= 2

    def _decide(self, value: int, bits: int, floors: list[int], unit: int) -> int | None:
        """The index whose share of [0, 1) surely holds [value, value + 1)/2^bits, if one does."""
        work = bits + _START_BITS
        word_bits = self.word_bits
        low, high = _residual_sums(self.law, floors, work, word_bits, bits + word_bits)
        scale = unit << (work - bits)
        for index, (below, above) in enumerate(zip(low, high, strict=True)):
            if above <= value * scale:
                continue
            return index if below >= (value + 1) * scale else None
        return len(low) if self.law.size is not None else None


def unfold_index(index: IntArray) -> IntArray:
    """Index 0, 1, 2, 3, 4, … to outcome 0, −1, 1, −2, 2, …"""
    return (index >> 1) ^ -(index & 1)


def _unfold(floors: IntArray) -> IntArray:
    """Masses by index to masses by outcome, from the most negative up."""
    return np.concatenate([floors[1::2][::-1], floors[0::2]])


def _residual_sums(
    law: Law, floors: list[int], bits: int, word_bits: int, cut: int
) -> tuple[list[int], list[int]]:
    """Running sums of 2^word_bits·p_k − n_k at `bits` bits, without the certain last one."""
    low, high = law.masses(bits, cut)
    padded = floors + [0] * (len(low) - len(floors))
    lows = accumulate((p << word_bits) - (n << bits) for p, n in zip(low, padded, strict=True))
    highs = accumulate((p << word_bits) - (n << bits) for p, n in zip(high, padded, strict=True))
    last = len(low) if law.size is None else len(low) - 1
    return list(lows)[:last], list(highs)[:last]


def _scaled(sums: list[int], bits: int, unit: int) -> list[int]:
    """⌊2^bits·sum / unit⌋, kept within the word."""
    top = (1 << bits) - 1
    return [min(top, (value << bits) // unit) for value in sums]
