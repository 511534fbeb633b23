"""The probability that a noisy profile stays in its cluster: exact for two centres, bounds for all.

Laplace noise n of scale λ [kWh] is added to every hour of a profile x whose nearest centre is a.
The profile moves to a rival centre b if D = ‖x + n − a‖₁ − ‖x + n − b‖₁ > 0. Hours in which the two
centres are equal cancel. In every other hour |y − a| − |y − b| rises by 2 for each kWh that y moves
from a to b, and is constant outside. So D = move − margin with margin = ‖x − b‖₁ − ‖x − a‖₁. The
exponential distribution has no memory, so that independently for every hour

    move_t = +2·min(E, r⁺) with probability q⁺,  −2·min(E, r⁻) with probability q⁻,  else 0,

where E is exponential with mean λ, r⁺ and r⁻ are the lengths of the part between a_t and b_t ahead
of x_t and behind it, and q = ½·exp(−distance to the beginning of this part/λ). The characteristic
function has a closed form:

    E exp(iω·min(E, r)) = (1 − iωλz)/(1 − iωλ),  z = exp(−r/λ + iωr).

With u = D/P on a circle of length P > |D|, P(D < 0) = ½ − E[u] + E[ψ(u)], ψ(u) = u − ⌊u⌋ − ½. The
difference between ψ and Vaaler's polynomial V of degree K ([1]_, (7.14); also [2]_) is nowhere
larger than Fejér's kernel F/(2K + 2); at whole numbers, where Vaaler sets ψ = 0, both are ½. So

    P(D < 0) = ½ − E[u] − Σ_{k ≤ K} J(k/(K + 1))·Im φ(k)/(πk)  ±  E[F(u)]/(2K + 2),

with J(s) = πs(1 − s)·cot(πs) + s and φ(k) = E exp(2πiku). This is a finite number of closed forms
with an error that is computed, not estimated. A profile stays only if it moves to no rival, so the
probability to stay is at most the smallest of the pair probabilities, and at least
1 − Σ_b P(moves to b).

The compiled functions describe a pair of centres by a table of terms, two for each hour in which
the centres differ: with probability `weight` the noise moves the profile by 2·min(E, reach) towards
the rival (first row) or away from it (second row).

References
----------
.. [1] J. D. Vaaler, Some extremal functions in Fourier analysis, Bull. AMS (N.S.) 12 (1985),
   183–216, Theorem 18.
.. [2] H. L. Montgomery, Ten lectures on the interface between analytic number theory and harmonic
   analysis, CBMS 84 (1994), chapter 1, (18) and (20).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hushmeter.checks import FloatArray, finite_vector, non_negative, positive, whole
from hushmeter.compiled import compiled
from hushmeter.errors import InputError
from hushmeter.learn.kmedians import assign_to, check_profiles

TAIL = 1e-7
"""Probability that is lost if the circle is shorter than the support of D."""

_ROUNDING = 1e-9
"""Margin for the rounding errors of the Fourier sums."""

_TILTS = np.array([0.05, 0.1, 0.18, 0.27, 0.35, 0.42, 0.46])


@compiled(cache=True, nogil=True)
def terms(profile: Any, own: Any, rival: Any, scale: float, weight: Any, reach: Any) -> Any:
    """Fill weight and reach, shape (2, d); return the margin ‖x − rival‖₁ − ‖x − own‖₁."""
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


@compiled(cache=True, nogil=True)
def moments(weight: Any, reach: Any, scale: float) -> Any:
    """Return mean and variance of the move towards the rival, in closed form."""
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


@compiled(cache=True, nogil=True)
def log_moment(weight: Any, reach: Any, scale: float, tilt: float) -> Any:
    """Return ln E exp(tilt/λ·move), for |tilt| < 1/2."""
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


@compiled(cache=True, nogil=True)
def most_switching(weight: Any, reach: Any, scale: float, margin: float) -> Any:
    """Return Chernoff's upper bound of P(move ≥ margin)."""
    best = 0.0
    for tilt in _TILTS:
        best = min(best, log_moment(weight, reach, scale, tilt) - tilt * margin / scale)
    return np.exp(best)


@compiled(cache=True, nogil=True)
def _circumference(weight: Any, reach: Any, scale: float, margin: float) -> Any:
    """Return a circle length that exceeds |move − margin|, and the probability that it does not."""
    bits = np.log(1 / TAIL)
    right, left = np.inf, np.inf
    for tilt in _TILTS:
        rate = tilt / scale
        up = (log_moment(weight, reach, scale, tilt) + bits) / rate - margin
        down = (log_moment(weight, reach, scale, -tilt) + bits) / rate + margin
        right = min(right, max(up, bits / rate))
        left = min(left, max(down, bits / rate))
    # The factor 1.5 keeps the point masses at both ends of the support away from the threshold.
    within = 1.5 * max(margin + 2 * reach[1].sum(), 2 * reach[0].sum() - margin)
    if within <= max(right, left):
        return within, 0.0
    return max(right, left), 2 * TAIL / (1 - TAIL)


@compiled(cache=True, nogil=True)
def _count(variance: float, turn: float, precision: float, most: int) -> Any:
    """Return the number of frequencies for the precision, from the density of a normal variable."""
    spread = max(np.sqrt(variance), 1e-6 * turn)
    return max(128, min(most, int(turn / (5.0 * spread * precision))))


@compiled(cache=True, nogil=True)
def _characteristic(weight: Any, reach: Any, scale: float, step: float, out: Any) -> None:
    """Compute E exp(i·k·step·move) for k = 1 … K, a product of one closed form for each hour."""
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
            # 1/(1 − slope) without a complex division, because slope is imaginary.
            inverse = (1 + slope) / (1 + slope.imag * slope.imag)
            towards = (1 - slope * last_up) * inverse
            away = (1 + slope * last_down) * inverse.conjugate()
            out[k] *= 1 - up - down + up * towards + down * away


@compiled(cache=True, nogil=True)
def _vaaler(waves: Any, angle: float) -> Any:
    """Return Vaaler's sum for the distribution shifted by the angle, and its proved error."""
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


@compiled(cache=True, nogil=True)
def pair(
    weight: Any,
    reach: Any,
    scale: float,
    margin: float,
    slack: float,
    precision: float,
    most: int,
) -> Any:
    """Return P(move < margin), and bounds of it for any threshold within `slack` of the margin."""
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


@compiled(cache=True, nogil=True)
def bound_staying(
    profiles: Any,
    centres: Any,
    labels: Any,
    scale: float,
    slack: float,
    rivals: int,
    precision: float,
    most: int,
) -> Any:
    """Return bounds of the probability to stay, and the likeliest rival, of every profile."""
    size = profiles.shape[0]
    lower, upper, likeliest = np.empty(size), np.empty(size), np.empty(size, dtype=np.int64)
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
    return lower, upper, likeliest


MOST_WAVES = 1 << 16


@dataclass(frozen=True)
class PairProbability:
    """Probability that a profile stays nearer to its centre than to one rival."""

    value: float  # The probability
    # Proved bounds of it
    lower: float
    upper: float


@dataclass(frozen=True, eq=False)
class Staying:
    """Bounds of the probability that each profile stays in its cluster."""

    # The bounds
    lower: FloatArray
    upper: FloatArray
    # The centre that gives the upper bound; the own centre if there is no rival
    rival: NDArray[np.int64]
    labels: NDArray[np.int64]  # The cluster of each profile


def pair_probability(
    profile: ArrayLike,
    own: ArrayLike,
    rival: ArrayLike,
    scale: float,
    *,
    slack: float = 0.0,
    precision: float = 1e-4,
) -> PairProbability:
    """Return P(‖x + n − own‖₁ < ‖x + n − rival‖₁) under Laplace noise.

    Parameters
    ----------
    profile, own, rival : array_like, shape (d,)
        The profile, its centre and one other centre. [kWh]
    scale : float
        Scale λ of the noise. [kWh]
    slack : float
        The bounds hold for every noise whose D differs by at most this from the D of continuous
        Laplace noise. [kWh]
    precision : float
        Target width of the bounds; at most 65 536 frequencies are used.

    Returns
    -------
    PairProbability
        The probability and its bounds.
    """
    x, a, b = (
        finite_vector(name, values)
        for name, values in (("profile", profile), ("own", own), ("rival", rival))
    )
    if not x.size == a.size == b.size:
        raise InputError(f"profile and centres differ in length: {x.size}, {a.size}, {b.size}.")
    scale, precision = positive("scale", scale), positive("precision", precision)
    weight, reach = np.empty((2, x.size)), np.empty((2, x.size))
    margin = terms(x, a, b, scale, weight, reach)
    within = margin, non_negative("slack", slack)
    return PairProbability(*pair(weight, reach, scale, *within, precision, MOST_WAVES))


def stay_bounds(
    profiles: ArrayLike,
    centres: ArrayLike,
    scale: float,
    *,
    labels: ArrayLike | None = None,
    slack: float = 0.0,
    rivals: int = 3,
    precision: float = 2e-3,
) -> Staying:
    """Bound the probability that each profile keeps its nearest centre under Laplace noise.

    Parameters
    ----------
    profiles : array_like, shape (n, d)
        The profiles. [kWh]
    centres : array_like, shape (k, d)
        The centres. [kWh]
    scale : float
        Scale λ of the noise. [kWh]
    labels : array_like of int, shape (n,), optional
        The cluster of every profile; the nearest centre by default.
    slack : float
        Largest change of D, the distance to the own centre minus that to a rival, if the real noise
        replaces continuous Laplace noise. For noise on a grid see `grid_slack`. [kWh]
    rivals : int
        Number of other centres of each profile for which the exact distribution is computed: the
        likeliest ones by mean and variance. The rest enters the lower bound by Chernoff's
        inequality.
    precision : float
        Target width of the bounds; at most 4096 frequencies are used.

    Returns
    -------
    Staying
        The bounds.
    """
    x, c = check_profiles("profiles", profiles), check_profiles("centres", centres)
    if x.shape[1] != c.shape[1]:
        raise InputError(f"profiles have {x.shape[1]} hours, centres {c.shape[1]}.")
    own = np.asarray(assign_to(x, c).labels if labels is None else labels, dtype=np.int64)
    if own.shape != (x.shape[0],) or (own.size and not 0 <= own.min() <= own.max() < c.shape[0]):
        raise InputError(f"labels must give one of the {c.shape[0]} centres for each profile.")
    scale, slack = positive("scale", scale), non_negative("slack", slack)
    effort = whole("rivals", rivals), positive("precision", precision), 4096
    lower, upper, rival = bound_staying(x, c, own, scale, slack, *effort)
    return Staying(lower, upper, rival, own)


def grid_slack(hours: int, grid: float) -> float:
    """Return 3·d·g [kWh], the most that noise on a grid of step g [kWh] can change D.

    Discrete Laplace noise is g(⌊E₁⌋ − ⌊E₂⌋) with exponential E₁ and E₂, and g(E₁ − E₂) is Laplace
    noise of the same scale; they differ by less than one step. Rounding the profile adds half a
    step, and D changes by at most 2 for each kWh in each of the d hours.
    """
    return 3 * hours * grid
