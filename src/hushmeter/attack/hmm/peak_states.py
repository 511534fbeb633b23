"""States of an appliance as the peaks of the histogram of its quantised power (SparseNILM)."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushmeter.checks import FloatArray, IntArray


class PeakStates(NamedTuple):
    """States of one appliance.

    `peaks` are the quantised powers, the first zero for off; `borders` the first quantised power
    of every state but off.
    """

    peaks: IntArray
    borders: IntArray

    def assign(self, quantised: IntArray) -> NDArray[np.int8]:
        """State of every quantised power; zero is off."""
        return np.searchsorted(self.borders, quantised, side="right").astype(np.int8)


def quantise(power: FloatArray, precision: float) -> IntArray:
    """int(power · precision), negative power counted as zero."""
    steps: IntArray = np.maximum(power * precision, 0.0).astype(np.int64)
    return steps


def find_states(quantised: IntArray, most: int, threshold: float) -> PeakStates:
    """Peaks of the histogram that stand out, at most `most` states with off.

    A value is a peak if it is more frequent than both its neighbours and than a share e of all
    readings; e grows from `threshold` in steps of `threshold` until few enough peaks are left.
    The first valley after a peak opens the state of the next peak. Positive readings without any
    peak make one state, at the most frequent of them.
    """
    histogram = np.bincount(quantised, minlength=2)
    counts = np.append(histogram, 0)
    inner = counts[1:-1]
    rises = (inner > counts[:-2]) & (inner > counts[2:])
    peaks = np.flatnonzero(rises) + 1
    share, least = counts[peaks] / quantised.size, threshold
    while peaks[share > least].size + 1 > most:
        least += threshold
    kept = peaks[share > least]
    if kept.size == 0 and quantised.any():
        kept = np.array([1 + int(histogram[1:].argmax())])
    borders = [1] if kept.size else []
    borders += [_first_valley(counts, a, b) for a, b in pairwise(kept)]
    return PeakStates(np.concatenate([[0], kept]), np.array(borders, np.int64))


def _first_valley(counts: IntArray, peak: int, following: int) -> int:
    for value in range(peak + 1, following):
        if counts[value] <= counts[value - 1] and counts[value + 1] > counts[value]:
            return value
    return following
