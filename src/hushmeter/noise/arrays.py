"""The functions of `kernels` in NumPy, with the same bytes.

A release of one household has few values: importing numba would take longer than its noise.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from hushmeter.checks import FloatArray, IntArray

MANY = 1 << 20
"""Number of values from which the import of numba takes less time than compiled loops save."""


@cache
def _has_numba() -> bool:
    return os.environ.get("HUSHMETER_COMPILED") != "0" and find_spec("numba") is not None


def kernels_for(count: int = 0) -> Any:
    """The compiled loops for many values or if numba is loaded already, else this module."""
    if (count >= MANY or "numba" in sys.modules) and _has_numba():
        from hushmeter.noise import kernels

        return kernels
    return sys.modules[__name__]


def alias_table(weights: IntArray, cells: int, cell_bits: int) -> Any:
    """See `kernels.alias_table`."""
    capacity = 1 << cell_bits
    left = weights.tolist() + [0] * (cells - weights.size)
    alias, threshold = list(range(cells)), [0] * cells
    small = [cell for cell, weight in enumerate(left) if weight < capacity]
    large = [cell for cell, weight in enumerate(left) if weight >= capacity]
    while small and large:
        cell, other = small.pop(), large[-1]
        alias[cell], threshold[cell] = other, left[cell]
        left[other] -= capacity - left[cell]
        if left[other] < capacity:
            small.append(large.pop())
    return (np.array(alias) << cell_bits | np.array(threshold)).astype(np.uint32)


def lookup(words: Any, packed: Any, cell_bits: int, sentinel: int, offset: int, out: Any) -> int:
    """See `kernels.lookup`."""
    low, high = np.uint32(cell_bits), np.uint32(32 - cell_bits)
    cells = words >> low
    entries = packed[cells]
    out[:] = np.where(words << high < entries << high, cells, entries >> low)
    missed = int(np.count_nonzero(out == sentinel))
    out -= np.int32(offset)
    return missed


def append_digit(leading: Any, digit: Any, base: float, out: Any) -> None:
    """See `kernels.append_digit`."""
    values = leading.astype(np.float64)
    out[:] = values * base + np.where(values >= 0, digit, base - 1.0 - digit)


def stair_numbers(classes: Any, out: Any) -> None:
    """See `kernels.stair_numbers`."""
    out[:] = classes >> 2


def place_on_stairs(
    classes: Any, words: Any, word_bits: int, steps: int, inner: int, numbers: Any, out: Any
) -> int:
    """See `kernels.place_on_stairs`; all products are whole numbers that float64 holds."""
    from hushmeter.noise.table_sampler import class_layout

    firsts, widths = (np.array(one, dtype=np.float64) for one in class_layout(steps, inner))
    own, every_word = classes & 3, float(1 << word_bits)
    width = widths[own]
    product = words * width
    place = np.floor(product / every_word)
    magnitude = numbers * steps + firsts[own] + place
    refused = product - place * every_word < (every_word % np.maximum(widths, 1))[own]
    out[:] = np.where(refused, np.nan, np.where(own & 2, -magnitude, magnitude))
    return int(refused.sum())


def count_large(bits: Any, limit: int) -> int:
    """See `kernels.count_large`."""
    return int(np.count_nonzero((bits & 0x7FFFFFFFFFFFFFFF) >= limit))


def round_and_add(
    readings: FloatArray, per_watt: float, low: float, high: float, noise: Any, out: FloatArray
) -> None:
    """See `kernels.round_and_add`."""
    out[:] = np.floor(np.clip(readings, low, high) * per_watt + 0.5) + noise
