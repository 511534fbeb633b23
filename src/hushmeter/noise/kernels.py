"""Compiled inner loops: table lookup, digits, stairs, and the sum of reading and noise.

Each is one plain pass over a block that lies in the cache; separate passes beat a fused one,
because all but the table lookup itself then run in vector registers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_WITHOUT_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)


@njit(cache=True, nogil=True)
def alias_table(weights: Any, cells: int, cell_bits: int) -> Any:
    """Integer alias table: cells of 2^cell_bits words each, threshold and alias in one uint32.

    Cell c keeps its own outcome c for fractions below the threshold and gives the rest to its
    alias. A full cell is its own alias with threshold 0.
    """
    capacity = np.int64(1) << cell_bits
    left = np.zeros(cells, dtype=np.int64)
    left[: weights.size] = weights
    packed = np.zeros(cells, dtype=np.uint32)
    small = np.empty(cells, dtype=np.int64)
    large = np.empty(cells, dtype=np.int64)
    smalls = larges = 0
    for c in range(cells):
        if left[c] < capacity:
            small[smalls] = c
            smalls += 1
        else:
            large[larges] = c
            larges += 1
    while smalls > 0 and larges > 0:
        smalls -= 1
        s = small[smalls]
        g = large[larges - 1]
        packed[s] = (g << cell_bits) | left[s]
        left[g] -= capacity - left[s]
        if left[g] < capacity:
            larges -= 1
            small[smalls] = g
            smalls += 1
    for i in range(larges):
        packed[large[i]] = large[i] << cell_bits
    for i in range(smalls):
        packed[small[i]] = small[i] << cell_bits
    return packed


@njit(cache=True, nogil=True)
def lookup(words: Any, packed: Any, cell_bits: int, sentinel: int, offset: int, out: Any) -> int:
    """Outcome of every word into `out`; returns how many fell on the sentinel."""
    low = np.uint32(cell_bits)
    high = np.uint32(32 - cell_bits)
    for i in range(out.size):
        word = words[i]
        cell = np.uint32(word >> low)
        entry = packed[cell]
        # Shifted to the top, the word's fraction and the cell's threshold compare without masks.
        keep = np.uint32(word << high) < np.uint32(entry << high)
        out[i] = np.int32(cell if keep else np.uint32(entry >> low))
    missed = 0
    first = np.int32(offset)
    for i in range(out.size):
        missed += 1 if out[i] == sentinel else 0
        out[i] -= first
    return missed


@njit(cache=True, nogil=True)
def append_digit(leading: Any, digit: Any, base: float, out: Any) -> None:
    """leading·base + digit on the magnitudes, where a negative n stands for −1 − n.

    In float64, which holds these whole numbers exactly and fills vector registers.
    """
    for i in range(out.size):
        value = np.float64(leading[i])
        low = np.float64(digit[i])
        out[i] = value * base + (low if value >= 0.0 else base - 1.0 - low)


@njit(cache=True, nogil=True)
def stair_numbers(classes: Any, out: Any) -> None:
    """Leading digit Q of index 4Q + c."""
    for i in range(out.size):
        out[i] = np.float64(np.int32(classes[i] >> 2))


@njit(cache=True, nogil=True)
def place_on_stairs(
    classes: Any, words: Any, word_bits: int, steps: int, inner: int, numbers: Any, out: Any
) -> int:
    """Class and stair number to noise, with a uniform place on the stair.

    The place is ⌊word·width / 2^w⌋, refused where the product's low part is below 2^w mod width;
    a refused draw becomes NaN and is counted. First magnitudes and widths are those of
    `class_layout`, written as polynomials in the two bits of the class: no branch, and below 2^53
    every product is exact in float64.
    """
    every_word = 1 << word_bits
    outer = steps - inner
    floor, floor_outer = every_word % inner, every_word % max(outer, 1)
    floor_below, floor_outer_below = every_word % max(inner - 1, 1), every_word % (outer + 1)
    by_side, by_part = np.float64(floor_below - floor), np.float64(floor_outer - floor)
    by_both = np.float64(floor_outer_below - floor_outer - floor_below + floor)
    least, words_f, share = np.float64(floor), np.float64(every_word), 1.0 / every_word
    period, first, wider = np.float64(steps), np.float64(inner), np.float64(outer - inner)
    for i in range(out.size):
        # Numba widens every operation to 64 bits, and only 32-bit integers convert as vectors.
        part = np.float64(np.int32(classes[i] & np.int32(1)))
        side = np.float64(np.int32(np.int32(classes[i] >> np.int32(1)) & np.int32(1)))
        both = part * side
        width = first + part * wider + both + both - side
        product = np.float64(words[i]) * width
        place = np.floor(product * share)
        low = product - place * words_f
        magnitude = numbers[i] * period + part * first + side - both + place
        bad = low < least + part * by_part + side * by_side + both * by_both
        out[i] = np.nan if bad else magnitude - 2.0 * side * magnitude
    refused = 0
    for i in range(out.size):
        refused += 1 if np.isnan(out[i]) else 0
    return refused


@njit(cache=True, nogil=True)
def count_large(bits: Any, limit: int) -> int:
    """How many values, as the bits of their float64, reach `limit` in size (NaN and inf do)."""
    count = 0
    for i in range(bits.size):
        count += 1 if (bits[i] & _WITHOUT_SIGN) >= limit else 0
    return count


@njit(cache=True, nogil=True)
def add_noise(
    readings: Any, per_watt: float, low: float, high: float, noise: Any, out: Any
) -> None:
    """out = floor(clamped reading / grid + 1/2) + noise, in grid steps."""
    for i in range(out.size):
        reading = min(max(readings[i], low), high)
        out[i] = np.floor(reading * per_watt + 0.5) + np.float64(noise[i])
