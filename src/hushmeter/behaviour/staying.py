"""Does a profile stay in its cluster? The exact law between two centres, and bounds for all.

Laplace noise n of scale λ [kWh] is added to every hour of a profile x whose nearest centre is a.
It leaves towards a rival centre b where D = ‖x + n − a‖₁ − ‖x + n − b‖₁ > 0. Hours in which the
two centres agree cancel. In every other hour |y − a| − |y − b| rises by 2 for each kWh that y moves
from a to b and is constant outside, so D = move − margin with margin = ‖x − b‖₁ − ‖x − a‖₁ and,
as an exponential variable has no memory, independently for every hour

    move_t = +2·min(E, r⁺) with probability q⁺,  −2·min(E, r⁻) with probability q⁻,  else 0,

E exponential of mean λ, r⁺ and r⁻ the stretch between a_t and b_t ahead of x_t and behind it,
q = ½·exp(−distance to where the stretch begins/λ). Its characteristic function is closed:

    E exp(iω·min(E, r)) = (1 − iωλz)/(1 − iωλ),  z = exp(−r/λ + iωr).

With u = D/P on a circle of length P > |D|, P(D < 0) = ½ − E[u] + E[ψ(u)], ψ(u) = u − ⌊u⌋ − ½.
Vaaler's polynomial V of degree K ([1]_, (7.14); also [2]_) is nowhere further from ψ than Fejér's
kernel F/(2K + 2); at whole numbers, where Vaaler has ψ = 0, both are ½. So

    P(D < 0) = ½ − E[u] − Σ_{k ≤ K} J(k/(K + 1))·Im φ(k)/(πk)  ±  E[F(u)]/(2K + 2),

with J(s) = πs(1 − s)·cot(πs) + s and φ(k) = E exp(2πiku): finitely many closed forms and an error
that is computed, not estimated. A profile stays only if no rival draws it away, so the probability
to stay is at most that of the best pair, and at least 1 − Σ_b P(leaves towards b).

References
----------
.. [1] J. D. Vaaler, Some extremal functions in Fourier analysis, Bull. AMS (N.S.) 12 (1985),
   183–216, Theorem 18.
.. [2] H. L. Montgomery, Ten lectures on the interface between analytic number theory and harmonic
   analysis, CBMS 84 (1994), chapter 1, (18) and (20).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hushmeter.behaviour import staying_kernels
from hushmeter.behaviour.lloyd import assign_to
from hushmeter.checks import FloatArray, finite_vector, non_negative, positive, whole
from hushmeter.errors import DataError, InputError

MOST_WAVES = 1 << 16


@dataclass(frozen=True)
class PairProbability:
    """P(a profile stays nearer to its centre than to one rival), and certified bounds."""

    value: float
    lower: float
    upper: float


@dataclass(frozen=True, eq=False)
class Staying:
    """Bounds of the probability that each profile stays in its cluster, (n,) each.

    Attributes
    ----------
    lower, upper : (n,)
    rival : (n,) int
        The centre that gives the upper bound; the own one where there is no rival.
    labels : (n,) int
        The cluster that is stayed in.
    """

    lower: FloatArray
    upper: FloatArray
    rival: NDArray[np.int64]
    labels: NDArray[np.int64]


def pair_probability(
    profile: ArrayLike,
    own: ArrayLike,
    rival: ArrayLike,
    scale: float,
    *,
    slack: float = 0.0,
    precision: float = 1e-4,
) -> PairProbability:
    """P(‖x + n − own‖₁ < ‖x + n − rival‖₁) under Laplace noise.

    Parameters
    ----------
    profile, own, rival : (d,) [kWh]
    scale : float
        λ [kWh].
    slack : float
        [kWh]; the bounds then hold for noise that keeps D within so much of continuous noise.
    precision : float
        Aim for bounds this close; at most 65 536 frequencies are spent on it.
    """
    x, a, b = (
        finite_vector(name, values)
        for name, values in (("profile", profile), ("own", own), ("rival", rival))
    )
    if not x.size == a.size == b.size:
        raise InputError(f"profile and centres differ in length: {x.size}, {a.size}, {b.size}.")
    scale, precision = positive("scale", scale), positive("precision", precision)
    weight, reach = np.empty((2, x.size)), np.empty((2, x.size))
    margin = staying_kernels.terms(x, a, b, scale, weight, reach)
    within = margin, non_negative("slack", slack)
    return PairProbability(
        *staying_kernels.pair(weight, reach, scale, *within, precision, MOST_WAVES)
    )


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
    """Upper and lower bounds of P(a profile's nearest centre is the same under Laplace noise).

    Parameters
    ----------
    profiles : (n, d) [kWh]
    centres : (k, d) [kWh]
    scale : float
        λ [kWh].
    labels : (n,) int, optional
        The cluster of every profile; the nearest centre by default.
    slack : float
        [kWh]; how far the noise that is really added may carry D away from continuous noise.
        Grid noise of step g keeps within 3·d·g, see `grid_slack`.
    rivals : int
        For how many rivals of a profile the exact law is computed: those that its mean and
        variance call likeliest. Others enter the lower bound through Chernoff's inequality.
    precision : float
        Aim of the certified width; 4096 frequencies at most.
    """
    x, c = _matrix("profiles", profiles), _matrix("centres", centres)
    if x.shape[1] != c.shape[1]:
        raise InputError(f"profiles have {x.shape[1]} hours, centres {c.shape[1]}.")
    own = np.asarray(assign_to(x, c).labels if labels is None else labels, dtype=np.int64)
    if own.shape != (x.shape[0],) or (own.size and not 0 <= own.min() <= own.max() < c.shape[0]):
        raise InputError(f"labels must be {x.shape[0]} numbers of centres.")
    lower, upper, rival = np.empty(own.size), np.empty(own.size), np.empty(own.size, dtype=np.int64)
    scale, slack = positive("scale", scale), non_negative("slack", slack)
    effort = whole("rivals", rivals), positive("precision", precision), 4096
    staying_kernels.bound_staying(x, c, own, scale, slack, *effort, lower, upper, rival)
    return Staying(lower, upper, rival, own)


def grid_slack(hours: int, grid: float) -> float:
    """3·d·g [kWh]: how far noise on a grid of step g, and rounding to it, can move D.

    Discrete Laplace noise is g(⌊E₁⌋ − ⌊E₂⌋) with exponential E₁, E₂, and g(E₁ − E₂) is Laplace
    noise of the same scale: less than one step apart. Rounding the profile adds half a step, and
    D moves by at most 2 per kWh in each of the d hours.
    """
    return 3 * hours * grid


def _matrix(name: str, values: ArrayLike) -> FloatArray:
    array = np.ascontiguousarray(values, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] == 0:
        raise InputError(f"{name} must have shape (n, hours), got {array.shape}.")
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array).all(axis=1))[0])
        raise DataError(f"{name} must be finite, but row {row} is not.")
    return array
