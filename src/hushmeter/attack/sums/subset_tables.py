"""Subsets of powers as tables of sums, and subsets as integer masks.

All sums are taken in whole nanowatts (int64), so that "within the tolerance" and "equally near"
are exact statements. A subset is a mask with appliance 0 as its highest bit, so that for equally
many members the larger mask is the one whose index list comes first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.errors import InputError

NANOWATTS = 1e9
LARGEST_W = 1e9


class SubsetSums(NamedTuple):
    """Subsets of a list of powers, ordered by size, then sum, then mask (descending).

    `sums[starts[k]:starts[k + 1]]` are the sums [nW] of the subsets with k members.
    """

    sums: IntArray
    masks: IntArray
    starts: IntArray


class Answers(NamedTuple):
    """One answer per jump: mask, distance from the jump [nW] and tied optima (0: infeasible)."""

    masks: IntArray
    residuals: IntArray
    ties: IntArray


def to_nanowatts(watts: FloatArray) -> IntArray:
    """Watts rounded to whole nanowatts."""
    if watts.size and np.abs(watts).max() > LARGEST_W:
        raise InputError(f"powers and jumps must stay below {LARGEST_W:g} W.")
    return np.rint(watts * NANOWATTS).astype(np.int64)


def tabulate(powers: IntArray) -> SubsetSums:
    """Every subset of `powers` [nW]; 2^N entries."""
    sums, sizes = np.zeros(1, np.int64), np.zeros(1, np.int64)
    for power in powers[::-1]:
        sums = np.concatenate([sums, sums + power])
        sizes = np.concatenate([sizes, sizes + 1])
    masks = np.arange(sums.size, dtype=np.int64)
    order = np.lexsort((-masks, sums, sizes))
    starts = np.searchsorted(sizes[order], np.arange(powers.size + 2))
    return SubsetSums(sums[order], masks[order], starts.astype(np.int64))


def unpack(masks: IntArray, n: int) -> BoolArray:
    """Masks as rows of booleans, shape (T, N)."""
    shifts = np.arange(n - 1, -1, -1, dtype=np.int64)
    bits: BoolArray = (masks[:, None] >> shifts & 1).astype(np.bool_)
    return bits


def pack(rows: BoolArray) -> IntArray:
    """Rows of booleans as masks: the inverse of `unpack`."""
    weights = np.int64(1) << np.arange(rows.shape[1] - 1, -1, -1, dtype=np.int64)
    masks: IntArray = rows @ weights
    return masks
