"""Compiled law of one profile between two centres; the derivation is in `staying`.

A pair of centres is a table of terms, two per hour where they differ: with probability `weight`
the noise moves the profile by 2·min(E, reach) towards the rival (first half) or away from it
(second half), E exponential with mean λ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

TAIL = 1e-7
"""Probability given away when the circle is cut shorter than the support."""

_ROUNDING = 1e-9
_TILTS = np.array([0.05, 0.1, 0.18, 0.27, 0.35, 0.42, 0.46])


@njit(cache=True, nogil=True)
def terms(profile: Any, own: Any, rival: Any, scale: float, weight: Any, reach: Any) -> Any:
    """Fill weight and reach, (2, d); returns the margin ‖x − rival‖₁ − ‖x − own‖₁."""
    margin = 0.0
    for t in range(profile.size):
        margin += abs(profile[t] - rival[t]) - abs(profile[t] - own[t])
        direction = 1.0 if rival[t] > own[t] else -1.0
        near = direction * (own[t] - profile[t])
        far = direction * (rival[t] - profile[t])
        start = max(near, 0.0)
        reach[0, t] = max(far - start, 0.0)
        weight[0, t] = np.exp(-start / scale) / 2
        start = max(-far, 0.0)
        reach[1, t] = max(-near - start, 0.0)
        weight[1, t] = np.exp(-start / scale) / 2
        for side in range(2):
            if reach[side, t] == 0.0:
                weight[side, t] = 0.0
    return margin


@njit(cache=True, nogil=True)
def moments(weight: Any, reach: Any, scale: float) -> Any:
    """Mean and variance of the move towards the rival, in closed form."""
    mean, variance = 0.0, 0.0
    for t in range(weight.shape[1]):
        first, second = 0.0, 0.0
        for side in range(2):
            q, ratio = weight[side, t], reach[side, t] / scale
            if q == 0.0:
                continue
            left = np.exp(-ratio)
            first += (1 - 2 * side) * 2 * q * scale * (1 - left)
            second += 8 * q * scale * scale * (1 - left * (1 + ratio))
        mean += first
        variance += max(second - first * first, 0.0)
    return mean, variance


@njit(cache=True, nogil=True)
def log_moment(weight: Any, reach: Any, scale: float, tilt: float) -> Any:
    """ln E exp(tilt/λ·move), for |tilt| < 1/2."""
    total = 0.0
    for t in range(weight.shape[1]):
        value = 1.0
        for side in range(2):
            q = weight[side, t]
            if q > 0.0:
                slope = 2 * tilt * (1 - 2 * side)
                last = np.exp((slope - 1) * reach[side, t] / scale)
                value += q * ((1 - slope * last) / (1 - slope) - 1)
        total += np.log(value)
    return total


@njit(cache=True, nogil=True)
def most_switching(weight: Any, reach: Any, scale: float, margin: float) -> Any:
    """Chernoff bound of P(move ≥ margin)."""
    best = 0.0
    for tilt in _TILTS:
        best = min(best, log_moment(weight, reach, scale, tilt) - tilt * margin / scale)
    return np.exp(best)


@njit(cache=True, nogil=True)
def _circumference(weight: Any, reach: Any, scale: float, margin: float) -> Any:
    """Length of a circle on which |move − margin| is less than one turn, and what it misses."""
    bits = np.log(1 / TAIL)
    right, left = np.inf, np.inf
    for tilt in _TILTS:
        rate = tilt / scale
        up = (log_moment(weight, reach, scale, tilt) + bits) / rate - margin
        down = (log_moment(weight, reach, scale, -tilt) + bits) / rate + margin
        right = min(right, max(up, bits / rate))
        left = min(left, max(down, bits / rate))
    # Half a turn to spare keeps the atoms at both ends of the support away from the threshold.
    within = 1.5 * max(margin + 2 * reach[1].sum(), 2 * reach[0].sum() - margin)
    if within <= max(right, left):
        return within, 0.0
    return max(right, left), 2 * TAIL / (1 - TAIL)


@njit(cache=True, nogil=True)
def _count(variance: float, turn: float, precision: float, most: int) -> Any:
    """Frequencies for a radius near the precision, by the density of a normal law."""
    spread = max(np.sqrt(variance), 1e-6 * turn)
    return max(128, min(most, int(turn / (5.0 * spread * precision))))


@njit(cache=True, nogil=True)
def _characteristic(weight: Any, reach: Any, scale: float, step: float, out: Any) -> None:
    """E exp(i·k·step·move) for k = 1 … K: a product of closed forms, one per hour."""
    one = 1.0 + 0.0j
    out[:] = one
    for t in range(weight.shape[1]):
        up, down = weight[0, t], weight[1, t]
        if up + down == 0.0:
            continue
        turn_up = np.exp(2j * step * reach[0, t])
        turn_down = np.exp(-2j * step * reach[1, t])
        last_up = np.exp(-reach[0, t] / scale) * one
        last_down = np.exp(-reach[1, t] / scale) * one
        for k in range(out.size):
            slope = 2j * (k + 1) * step * scale
            last_up *= turn_up
            last_down *= turn_down
            # 1/(1 − slope) without a complex division: slope is imaginary.
            inverse = (1 + slope) / (1 + slope.imag * slope.imag)
            towards = (1 - slope * last_up) * inverse
            away = (1 + slope * last_down) * inverse.conjugate()
            out[k] *= 1 - up - down + up * towards + down * away


@njit(cache=True, nogil=True)
def _vaaler(waves: Any, angle: float) -> Any:
    """Vaaler's sum for the law shifted by the angle, and its certified error."""
    size = waves.size + 1
    total, spike = 0.0, 1.0
    shift, phase = np.exp(-1j * angle), 1.0 + 0.0j
    for k in range(1, size):
        phase *= shift
        wave, share = waves[k - 1] * phase, k / size
        taper = np.pi * share * (1 - share) / np.tan(np.pi * share) + share
        total += taper * wave.imag / (np.pi * k)
        spike += 2 * (1 - share) * wave.real
    return total, max(spike, 0.0) / (2 * size)


@njit(cache=True, nogil=True)
def pair(
    weight: Any,
    reach: Any,
    scale: float,
    margin: float,
    slack: float,
    precision: float,
    most: int,
) -> Any:
    """P(move < margin), and bounds of it for any threshold within the slack around the margin."""
    if 2 * reach[0].sum() < margin - slack:
        return 1.0, 1.0, 1.0
    if -2 * reach[1].sum() > margin + slack:
        return 0.0, 0.0, 0.0
    rare = most_switching(weight, reach, scale, margin - slack)
    if rare < TAIL:
        return 1 - rare, 1 - rare, 1.0
    turn, missed = _circumference(weight, reach, scale, margin)
    turn += 2 * slack
    if turn == 0.0:
        return 1.0, 0.0, 1.0
    mean, variance = moments(weight, reach, scale)
    step = 2 * np.pi / turn
    count = _count(variance, turn, precision, most)
    while True:
        waves = np.empty(count, dtype=np.complex128)
        _characteristic(weight, reach, scale, step, waves)
        change, radius = _vaaler(waves, step * margin)
        if radius <= 2 * precision or count >= most:
            break
        count = min(4 * count, most)
    value = low = high = 0.5 - (mean - margin) / turn - change
    low_radius = high_radius = radius
    if slack > 0.0:
        change, low_radius = _vaaler(waves, step * (margin - slack))
        low = 0.5 - (mean - margin + slack) / turn - change
        change, high_radius = _vaaler(waves, step * (margin + slack))
        high = 0.5 - (mean - margin - slack) / turn - change
    low -= low_radius + missed + _ROUNDING
    high += high_radius + missed + _ROUNDING
    return min(max(value, 0.0), 1.0), max(low, 0.0), min(high, 1.0)


@njit(cache=True, nogil=True)
def bound_staying(
    profiles: Any,
    centres: Any,
    labels: Any,
    scale: float,
    slack: float,
    rivals: int,
    precision: float,
    most: int,
    lower: Any,
    upper: Any,
    likeliest: Any,
) -> None:
    """Bounds of the probability to stay for every profile; the likeliest rival of each."""
    k, d = centres.shape
    weight, reach, order = np.empty((2, d)), np.empty((2, d)), np.empty(k)
    for i in range(profiles.shape[0]):
        x, own = profiles[i], centres[labels[i]]
        leaving = 0.0
        upper[i], likeliest[i] = 1.0, labels[i]
        for j in range(k):
            order[j] = np.inf
            if j != labels[i]:
                margin = terms(x, own, centres[j], scale, weight, reach)
                mean, variance = moments(weight, reach, scale)
                order[j] = (margin - mean) / np.sqrt(variance + 1e-300)
        for rank, j in enumerate(np.argsort(order)):
            if j == labels[i]:
                continue
            margin = terms(x, own, centres[j], scale, weight, reach)
            if rank >= rivals:
                leaving += most_switching(weight, reach, scale, margin - slack)
                continue
            _, least, highest = pair(weight, reach, scale, margin, slack, precision, most)
            leaving += 1 - least
            if highest < upper[i]:
                upper[i], likeliest[i] = highest, j
        lower[i] = max(1 - leaving, 0.0)
