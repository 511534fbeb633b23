"""Compiled inner loops of the sampler and of the release.

Each function is one simple pass over a block that is small enough for the cache. Separate passes
are faster than one combined loop: the compiler turns every pass except the table lookup into
vector instructions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hushmeter.compiled import compiled

_WITHOUT_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)


@compiled(cache=True, nogil=True)
def alias_table(weights: Any, cells: int, cell_bits: int) -> Any:
    """Integer alias table: cells of 2^cell_bits words each, threshold and alias in one uint32."""
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
    # Vose's method in whole numbers: a large outcome fills the rest of a small one's cell. The
    # weights add up exactly, so no rounding error can be left over at the end.
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


@compiled(cache=True, nogil=True)
def lookup(words: Any, packed: Any, cell_bits: int, sentinel: int, offset: int, out: Any) -> int:
    """Write the outcome of every word into `out` and return how many selected the sentinel."""
    low = np.uint32(cell_bits)
    high = np.uint32(32 - cell_bits)
    for i in range(out.size):
        word = words[i]
        cell = np.uint32(word >> low)
        entry = packed[cell]
        # The lower bits of the word and the threshold are shifted to the top of their 32 bits:
        # the shift removes the cell number and the alias, so that no mask is needed.
        keep = np.uint32(word << high) < np.uint32(entry << high)
        out[i] = np.int32(cell if keep else np.uint32(entry >> low))
    # A second pass: counting and shifting run as vector instructions, the lookup does not.
    missed = 0
    first = np.int32(offset)
    for i in range(out.size):
        missed += 1 if out[i] == sentinel else 0
        out[i] -= first
    return missed


@compiled(cache=True, nogil=True)
def append_digit(leading: Any, digit: Any, base: float, out: Any) -> None:
    """Write leading·base + digit into `out`; a negative n represents the magnitude −1 − n.

    For n = −1 − G the magnitude is G·base + digit, hence the result is
    −1 − (G·base + digit) = n·base + (base − 1 − digit). Float64 holds these whole numbers exactly
    (`samplers.MAX_SCALE`) and allows vector instructions.
    """
    for i in range(out.size):
        value = np.float64(leading[i])
        low = np.float64(digit[i])
        out[i] = value * base + (low if value >= 0.0 else base - 1.0 - low)


@compiled(cache=True, nogil=True)
def stair_numbers(classes: Any, out: Any) -> None:
    """Write the leading digit Q of every index 4Q + c into `out`."""
    for i in range(out.size):
        out[i] = np.float64(np.int32(classes[i] >> 2))


@compiled(cache=True, nogil=True)
def place_on_stairs(
    classes: Any, words: Any, word_bits: int, steps: int, inner: int, numbers: Any, out: Any
) -> int:
    """Write the noise [grid steps] for a class and a stair number, at a uniform place on the stair.

    Notes
    -----
    The place is ⌊word·width/2^w⌋ (multiply and reject). Of the 2^w products, each place receives
    ⌊2^w/width⌋ or one more; rejecting those whose low part is below 2^w mod width leaves exactly
    ⌊2^w/width⌋ for every place, so the place is exactly uniform. First magnitudes and widths are
    those of `class_layout`, written as polynomials in the two bits of the class, so that the loop
    has no branch. All products are below 2^53 and therefore exact in float64.
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
        # Numba widens every operation to 64 bits, and the processor converts only 32-bit integers
        # to floats as vectors: hence the casts.
        part = np.float64(np.int32(classes[i] & np.int32(1)))
        side = np.float64(np.int32(np.int32(classes[i] >> np.int32(1)) & np.int32(1)))
        both = part * side
        width = first + part * wider + both + both - side
        product = np.float64(words[i]) * width
        # `share` is a power of two, so this product and the subtraction below are exact.
        place = np.floor(product * share)
        low = product - place * words_f
        magnitude = numbers[i] * period + part * first + side - both + place
        bad = low < least + part * by_part + side * by_side + both * by_both
        out[i] = np.nan if bad else magnitude - 2.0 * side * magnitude
    refused = 0
    for i in range(out.size):
        refused += 1 if np.isnan(out[i]) else 0
    return refused


@compiled(cache=True, nogil=True)
def count_large(bits: Any, limit: int) -> int:
    """Count the values whose magnitude reaches `limit`, NaN and infinity included.

    Values and limit are given as the bits of their float64. Without the sign bit these integers
    have the same order as the magnitudes, and NaN is above all numbers: one integer comparison
    finds every bad value.
    """
    count = 0
    for i in range(bits.size):
        count += 1 if (bits[i] & _WITHOUT_SIGN) >= limit else 0
    return count


@compiled(cache=True, nogil=True)
def round_and_add(
    readings: Any, per_watt: float, low: float, high: float, noise: Any, out: Any
) -> None:
    """Write ⌊clamped reading/grid + 1/2⌋ + noise into `out` [grid steps]."""
    for i in range(out.size):
        reading = min(max(readings[i], low), high)
        out[i] = np.floor(reading * per_watt + 0.5) + np.float64(noise[i])
