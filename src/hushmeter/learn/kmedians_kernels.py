"""Compiled inner loops of the l1 clustering: distances, bounds, medians and swaps.

Centres are also passed transposed, shape (d, k). The innermost loop then runs over centres, which
the compiler turns into vector instructions without a horizontal sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_SLACK = 1e-12
"""Relative rounding error of a sum of distances."""


@njit(cache=True, nogil=True)
def _distance(profile: Any, centre: Any) -> Any:
    """Return Σ_t |x_t − c_t|, in four independent sums that the processor computes in parallel."""
    a = b = c = d = 0.0
    hours = profile.size // 4 * 4
    for t in range(0, hours, 4):
        a += abs(profile[t] - centre[t])
        b += abs(profile[t + 1] - centre[t + 1])
        c += abs(profile[t + 2] - centre[t + 2])
        d += abs(profile[t + 3] - centre[t + 3])
    for t in range(hours, profile.size):
        a += abs(profile[t] - centre[t])
    return (a + b) + (c + d)


@njit(cache=True, nogil=True)
def _distances(profile: Any, across: Any, sums: Any) -> None:
    """Compute the distance of a profile to every centre.

    Four hours at a time need a quarter of the loads and stores of `sums`.
    """
    sums[:] = 0.0
    hours = across.shape[0] // 4 * 4
    for t in range(0, hours, 4):
        a, b, c, d = profile[t], profile[t + 1], profile[t + 2], profile[t + 3]
        for j in range(sums.size):
            first = abs(a - across[t, j]) + abs(b - across[t + 1, j])
            sums[j] += first + (abs(c - across[t + 2, j]) + abs(d - across[t + 3, j]))
    for t in range(hours, across.shape[0]):
        for j in range(sums.size):
            sums[j] += abs(profile[t] - across[t, j])


@njit(cache=True, nogil=True)
def _two_nearest(profile: Any, across: Any, sums: Any) -> Any:
    """Return the nearest centre (the first of equals) and the two smallest distances."""
    _distances(profile, across, sums)
    best, second, nearest = np.inf, np.inf, 0
    for j in range(sums.size):
        # No branches: the processor cannot predict which centre is nearest.
        closer = sums[j] < best
        second = min(second, max(sums[j], best))
        nearest = j if closer else nearest
        best = min(best, sums[j])
    return nearest, best, second


@njit(cache=True, nogil=True)
def assign(profiles: Any, across: Any, labels: Any, first: Any, second: Any) -> None:
    """Compute label, distance to the nearest and to the second nearest centre of every profile."""
    sums = np.empty(across.shape[1])
    for i in range(profiles.shape[0]):
        labels[i], first[i], second[i] = _two_nearest(profiles[i], across, sums)


@njit(cache=True, nogil=True)
def all_distances(profiles: Any, across: Any, out: Any) -> None:
    """Compute the distance of every profile to every centre, shape (n, k)."""
    for i in range(profiles.shape[0]):
        _distances(profiles[i], across, out[i])


@njit(cache=True, nogil=True)
def half_gaps(centres: Any, out: Any) -> None:
    """Compute half the distance of every centre to the nearest other centre."""
    for j in range(centres.shape[0]):
        nearest = np.inf
        for other in range(centres.shape[0]):
            if other != j:
                nearest = min(nearest, _distance(centres[j], centres[other]))
        out[j] = nearest / 2


@njit(cache=True, nogil=True)
def reassign(
    profiles: Any,
    centres: Any,
    across: Any,
    shifts: Any,
    gaps: Any,
    labels: Any,
    upper: Any,
    lower: Any,
) -> Any:
    """Update the labels after the centres moved by `shifts`; return how many labels changed.

    The triangle inequality keeps `upper` above the distance to the own centre and `lower` below
    the distance to every other centre. Distances are computed only where the two bounds cross
    (Hamerly's method [1]_).

    References
    ----------
    .. [1] G. Hamerly, Making k-means even faster, SIAM International Conference on Data Mining
       (2010).
    """
    furthest = np.argmax(shifts)
    largest, others = shifts[furthest], 0.0
    for j in range(shifts.size):
        if j != furthest:
            others = max(others, shifts[j])
    sums = np.empty(across.shape[1])
    changed = 0
    for i in range(profiles.shape[0]):
        own = labels[i]
        upper[i] += shifts[own]
        lower[i] -= others if own == furthest else largest
        safe = max(gaps[own], lower[i]) * (1 - _SLACK)
        if upper[i] < safe:
            continue
        upper[i] = _distance(profiles[i], centres[own])
        if upper[i] < safe:
            continue
        labels[i], upper[i], lower[i] = _two_nearest(profiles[i], across, sums)
        changed += labels[i] != own
    return changed


@njit(cache=True, nogil=True)
def medians(
    profiles: Any, order: Any, labels: Any, counts: Any, centres: Any, start: int, stop: int
) -> None:
    """Compute the medians of every cluster for some hours, in one pass over each sorted column.

    `order`, shape (d, n), sorts each column and is computed only once, so that an update takes n·d
    steps. Empty clusters keep their centre. The median of an even number of values is the mean of
    the two middle ones.
    """
    left = np.empty(counts.size, dtype=np.int64)
    for t in range(start, stop):
        unknown = 0
        for j in range(counts.size):
            left[j] = counts[j] // 2 + 1
            unknown += counts[j] > 0
        for p in range(order.shape[1]):
            i = order[t, p]
            own = labels[i]
            left[own] -= 1
            # `left` counts down to 1 and 0 at the two middle values; the shift tests both with one
            # comparison, which is all that the other values need.
            if left[own] >> 1 == 0:
                even = counts[own] % 2 == 0
                if left[own] == 1:
                    centres[own, t] = profiles[i, t] / 2 if even else centres[own, t]
                    continue
                centres[own, t] = centres[own, t] + profiles[i, t] / 2 if even else profiles[i, t]
                unknown -= 1
                if unknown == 0:
                    break


@njit(cache=True, nogil=True)
def lower_to(profiles: Any, candidate: Any, nearest: Any, out: Any) -> Any:
    """Compute out_i = min(nearest_i, distance to the candidate) and return its sum."""
    total = 0.0
    for i in range(profiles.shape[0]):
        out[i] = min(nearest[i], _distance(profiles[i], candidate))
        total += out[i]
    return total


@njit(cache=True, nogil=True)
def swap_losses(
    profiles: Any, candidate: Any, labels: Any, first: Any, second: Any, out: Any
) -> None:
    """Compute the loss if the candidate replaced each centre in turn, shape (k,)."""
    out[:] = 0.0
    total = 0.0
    for i in range(profiles.shape[0]):
        there = _distance(profiles[i], candidate)
        kept = min(there, first[i])
        total += kept
        out[labels[i]] += min(there, second[i]) - kept
    for j in range(out.size):
        out[j] += total
