"""What the beam is made of: codes of joint states, their powers, chances and places.

A joint state is a whole number, its code, with a few bits for the state of each load.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from hushmeter.checks import FloatArray, IntArray

EMPTY = -1
"""No code: an unused place."""

PAIRS = 16
"""From so many of the best states two loads may change at once, from the others one."""

NEGLIGIBLE = 1e-12
"""States with less than this share of the best one's probability are dropped."""


class Loads(NamedTuple):
    """The loads, widest spread of power first; values per state one load after the other."""

    means: FloatArray
    variances: FloatArray
    initial: FloatArray
    first: FloatArray
    matrices: FloatArray
    sizes: IntArray
    shifts: IntArray
    masks: IntArray
    offsets: IntArray
    matrix_offsets: IntArray
    rest_mean: FloatArray
    rest_variance: FloatArray
    variance: float


class Densities(NamedTuple):
    """The tables of a `NoisyEmission` whose classes are `per_log` to a unit of log σ²."""

    core: FloatArray
    per_watt: FloatArray
    weight: FloatArray
    per_tail: FloatArray
    decay: FloatArray
    lowest: float
    per_log: float


class Beam(NamedTuple):
    """The states kept at each of a block's readings, shape (rows, width); unused codes EMPTY.

    `weights` are filtered probabilities, `seen` the density of the reading in the state and
    `parents` the place of the best state before.
    """

    codes: IntArray
    weights: FloatArray
    seen: FloatArray
    parents: IntArray


class Table(NamedTuple):
    """An open hash table from codes to places."""

    keys: IntArray
    places: IntArray


class Found(NamedTuple):
    """States that the next reading may be in."""

    codes: IntArray
    weights: FloatArray
    parents: IntArray


@numba.njit(cache=True, nogil=True)
def slot_of(keys: IntArray, code: int) -> int:
    """Where a code is, or would be put, in an open hash table of 2^k places."""
    mask = keys.size - 1
    at = ((code * 5700357409661599241) >> 20) & mask
    while keys[at] != EMPTY and keys[at] != code:
        at = (at + 1) & mask
    return at


@numba.njit(cache=True, nogil=True)
def value_of(table: Table, code: int, values: FloatArray) -> float:
    """The value of a code, zero where it is not in the table."""
    at = slot_of(table.keys, code)
    return 0.0 if table.keys[at] == EMPTY else values[table.places[at]]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def density(tables: Densities, away: float, variance: float) -> float:
    """Density of a reading that is `away` watts from the mean of a state."""
    rank = int(np.log(variance / tables.lowest) * tables.per_log + 0.5)
    c = min(max(rank, 0), tables.per_watt.size - 1)
    away = abs(away)
    at = away * tables.per_watt[c]
    if at < tables.core.shape[1] - 1:
        i = int(at)
        left, right = tables.core[c, i], tables.core[c, i + 1]
        return float(left + (at - i) * (right - left))
    at = min(away * tables.per_tail[c], tables.decay.size - 2.0)
    i = int(at)
    decay = tables.decay[i] + (at - i) * (tables.decay[i + 1] - tables.decay[i])
    return float(tables.weight[c] * decay)


@numba.njit(cache=True, nogil=True)
def nth_largest(scores: FloatArray, n: int) -> float:
    """The n-th largest score, by quickselect: numba's np.partition takes seconds to compile."""
    values = scores.copy()
    low, high, place = 0, values.size - 1, n - 1
    while low < high:
        pivot, i, j = values[(low + high) // 2], low, high
        while i <= j:
            while values[i] > pivot:
                i += 1
            while values[j] < pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i, j = i + 1, j - 1
        if place <= j:
            high = j
        elif place >= i:
            low = i
        else:
            break
    return float(values[place])


@numba.njit(cache=True, nogil=True)
def keep_best(scores: FloatArray, width: int) -> IntArray:
    """Places of the `width` largest scores that are not negligible."""
    best = 0.0
    for score in scores:
        best = max(best, score)
    least = best * NEGLIGIBLE
    if scores.size > width:
        least = max(least, nth_largest(scores, width))
    places, count = np.empty(min(width, scores.size), np.int64), 0
    for i in range(scores.size):
        if scores[i] >= least and count < places.size:
            places[count] = i
            count += 1
    return places[:count]


@numba.njit(cache=True, nogil=True)
def pair_bar(weights: FloatArray) -> float:
    """The weight from which on two loads of a state may change at once: that of the PAIRSth."""
    if weights.size <= PAIRS:
        return 0.0
    return nth_largest(weights, PAIRS)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def stay_chance(loads: Loads, code: int) -> float:
    """Probability that no load changes its state."""
    stay = 1.0
    for m in range(loads.sizes.size):
        k = (code >> loads.shifts[m]) & loads.masks[m]
        stay *= loads.matrices[loads.matrix_offsets[m] + k * loads.sizes[m] + k]
    return stay


@numba.njit(cache=True, nogil=True, error_model="numpy")
def load_sum(loads: Loads, code: int) -> tuple[float, float]:
    """Mean [W] and variance [W²] of the sum of all loads in a joint state."""
    mean, variance = 0.0, loads.variance
    for m in range(loads.sizes.size):
        k = (code >> loads.shifts[m]) & loads.masks[m]
        mean += loads.means[loads.offsets[m] + k]
        variance += loads.variances[loads.offsets[m] + k]
    return mean, variance


@numba.njit(cache=True, nogil=True, error_model="numpy")
def open_beam(
    loads: Loads, initial: FloatArray, reading: float, width: int
) -> tuple[IntArray, FloatArray]:
    """Codes and prior chances of likely states at a reading without a past.

    Load after load the partial states are expanded, and those are kept that, with the mean and
    variance of the loads to come, fit the reading best.
    """
    codes, chances = np.zeros(1, np.int64), np.ones(1)
    means, variances = np.zeros(1), np.full(1, loads.variance)
    for m in range(loads.sizes.size):
        size, first = loads.sizes[m], loads.offsets[m]
        count = codes.size * size
        grown, chance = np.empty(count, np.int64), np.empty(count)
        mean, variance, scores = np.empty(count), np.empty(count), np.empty(count)
        for j in range(count):
            i, k = j // size, j % size
            grown[j] = codes[i] | (k << loads.shifts[m])
            chance[j] = chances[i] * initial[first + k]
            mean[j] = means[i] + loads.means[first + k]
            variance[j] = variances[i] + loads.variances[first + k]
            spread = variance[j] + loads.rest_variance[m]
            gap = reading - mean[j] - loads.rest_mean[m]
            # A Gaussian with long tails, so that a reading far from everything still ranks.
            scores[j] = (
                chance[j]
                / np.sqrt(spread)
                * (np.exp(-0.5 * gap * gap / spread) + 1e-6 / (1.0 + gap * gap / spread))
            )
        best = keep_best(scores, width)
        codes, chances = grown[best], chance[best]
        means, variances = mean[best], variance[best]
    return codes, chances
