"""Theorems 5 and 6: bounds for a series of readings, from bounds for one jump.

If e is the error of an appliance's state and q the error of its switch, the next error is
e' = e + q − 2eq: errors accumulate until each state is a coin toss. All bounds are for the state
before error correction (`correction="none"`), start from a known state and cover the T readings
after it.

Theorem 6 is about the hierarchies of Algorithm 2, largest powers first. To a hierarchy the others
are a disturbance: those below it switch, by at most P_U [W] at a step, and those above it are
decoded with errors that remain in the readings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.attack.hierarchical import split
from hushmeter.checks import FloatArray, IntArray, positive_array, whole
from hushmeter.errors import InputError
from hushmeter.home import Home
from hushmeter.theory import one_shot
from hushmeter.theory.exact import NoiseDifference
from hushmeter.theory.one_shot import Bound


def printed_lower(one_jump: Bound, appliances: int, readings: int) -> Bound:
    """Theorem 5 as printed. Lower bound E[α_m] ≥ b_m = 1 − (T − 1)(1 − bN)/2.

    Parameters
    ----------
    one_jump : Bound
        Lower bound b for one jump.
    appliances : int
        Number N of appliances.
    readings : int
        Number T of readings after the known state.

    Returns
    -------
    Bound

    Notes
    -----
    Defect: the one-shot error is G = N(1 − b), not 1 − bN, so that the printed lower bound grows
    with T if b > 1/N: it is 779.7 for N = 8, T = 600, b = 0.45.
    """
    n, t = whole("appliances", appliances), whole("readings", readings)
    return Bound(1 - (t - 1) * (1 - np.asarray(one_jump.raw) * n) / 2)


def integral_lower(one_jump: Bound, appliances: int, readings: int) -> Bound:
    """Theorem 5 as in its proof. Lower bound E[α_m] ≥ 1 − (T − 1)·G/2 with G = N(1 − b).

    Parameters
    ----------
    one_jump, appliances, readings
        As in `printed_lower`.

    Returns
    -------
    Bound

    Notes
    -----
    The proof bounds the error of one appliance by the switches of all appliances and therefore
    counts every error N times: see `corrected_lower`.
    """
    n, t = whole("appliances", appliances), whole("readings", readings)
    return Bound(1 - (t - 1) * n * (1 - np.asarray(one_jump.raw)) / 2)


def printed_upper(one_jump: Bound, readings: int) -> Bound:
    """Theorem 5. Upper bound E[α_m] ≤ B_M = 1 − (1 − B)/T, in all three forms.

    Parameters
    ----------
    one_jump : Bound
        Upper bound B for the first jump.
    readings : int
        Number T of readings after the known state.

    Returns
    -------
    Bound

    Notes
    -----
    The first reading after a known state is explained no better than by one shot, and all other
    readings can be correct. The bound is valid before error correction if B is valid.
    """
    return Bound(1 - (1 - np.asarray(one_jump.raw)) / whole("readings", readings))


corrected_upper = printed_upper


def corrected_lower(one_jump: Bound, readings: int | None = None) -> Bound:
    """Theorem 5 corrected. Lower bound E[α_m] ≥ 1 − (1/T)·Σ_t min(1, Σ_{i ≤ t} (1 − b_i)).

    Parameters
    ----------
    one_jump : Bound
        Lower bound b_i for every jump, shape (T, …), or one b for all jumps with `readings`.
    readings : int, optional
        Number T of readings after the known state.

    Returns
    -------
    Bound

    Notes
    -----
    Proof. e' ≤ e + q on every path, the mean over the appliances of E[q_i] is at most 1 − b_i, and
    no mean error exceeds one. The noise of two readings may depend on each other in any way.
    """
    if readings is None:
        return Bound(1 - errors_over_time(one_jump).mean(axis=0))
    count = whole("readings", readings)
    error = 1 - np.asarray(one_jump.clipped)
    # The errors 1 − b, 2(1 − b), … reach one after `growing` readings and then stay at one.
    growing = np.minimum(count, np.floor(1 / np.maximum(error, 1 / (2 * count))))
    return Bound(1 - (error * growing * (growing + 1) / 2 + count - growing) / count)


def errors_over_time(one_jump: Bound) -> FloatArray:
    """Bound min(1, Σ_{i ≤ t} (1 − b_i)) on the mean error of the states at every reading t."""
    if isinstance(one_jump.raw, float):
        raise InputError("give a bound for every reading, not one number.")
    return np.asarray(np.minimum(1.0, np.cumsum(1 - np.asarray(one_jump.clipped), axis=0)))


@dataclass(frozen=True)
class GroupBounds:
    """Theorem 6 for one hierarchy: bounds m_i and M_i on E[α_i]."""

    indices: IntArray  # Columns of its appliances in the home
    names: tuple[str, ...]
    lower: Bound
    upper: Bound


Form = Callable[..., Bound]

PAPER_FORMS: dict[str, tuple[Form, Form, Form]] = {
    "printed": (one_shot.printed_lower, one_shot.printed_upper, printed_lower),
    "integral": (one_shot.integral_lower, one_shot.integral_upper, integral_lower),
}
"""Theorems 3 and 4 and the lower bound of Theorem 5 in the forms of the paper."""


def paper_groups(
    home: Home,
    noise: ArrayLike,
    readings: int,
    max_switches: int = 1,
    *,
    form: str = "printed",
    constant: float | None = None,
    disturbance: float = 0.0,
) -> tuple[GroupBounds, ...]:
    """Theorem 6 as printed, or as in its proof. Bounds m_i and M_i of every hierarchy.

    Parameters
    ----------
    home : Home
    noise : array_like
        For "printed" ε with Δf = δ/2; for noise of scale λ with another sensitivity, ε = δ/(2λ).
        For "integral" the Laplace scale λ = Δf/ε, which the disturbance does not change. [W]
    readings : int
        Number T of readings after the known state.
    max_switches : int
        Largest number U of switches at one reading.
    form : {"printed", "integral"}
        Form of Theorems 3–5 from which the bounds are computed.
    constant : float, optional
        C(P) of every hierarchy; its own `recovery_constant` if it is not given. [1/W]
    disturbance : float
        Largest further change of a jump. [W]

    Returns
    -------
    tuple of GroupBounds

    Notes
    -----
    As printed, m_i = b_m(δ + 2δ'_i/(2 + C(P)), ε) and M_i = B_M(δ + δ'_i, ε) with
    δ'_i = P_U^i/2 + Σ_{k < i} N_k·T·(1 − m_k)·‖P_k‖₂. In the proof the disturbance is
    Y_i = P_U^i + 2·Σ_{k < i} N_k·T·(1 − m_k)·‖P_k‖₂.

    Defects: those of Theorems 3–5 and of Lemma 3, which adds the disturbance to δ and so also
    increases the noise of the mechanism. Neither form is a valid bound.

    Reading of the paper: N, P and C(P) are those of the hierarchy.
    """
    lower, upper, over_time = PAPER_FORMS[form]
    values = positive_array("noise", noise)
    leaked: FloatArray = np.zeros_like(values)
    found = []
    for group, part, below in _hierarchies(home, max_switches):
        # Lemma 3 adds Y/(2 + C) and Y/2 to δ, so Theorem 6 is Lemma 3 with Y = 2δ'.
        moved = disturbance + below + 2 * leaked
        top = upper(part, values, disturbance=moved)
        one_jump = lower(part, values, constant=constant, disturbance=moved)
        m = over_time(one_jump, len(part), readings)
        found.append(GroupBounds(group, part.names, m, printed_upper(top, readings)))
        # The paper's bound on the errors that hierarchy k leaves: N_k·T·(1 − m_k)·‖P_k‖₂ [W]
        norm = float(np.linalg.norm(part.powers))
        leaked = leaked + len(part) * readings * (1 - np.asarray(m.raw)) * norm
    return tuple(found)


def corrected_groups(
    home: Home,
    noise: NoiseDifference,
    readings: int,
    max_switches: ArrayLike = 1,
    *,
    disturbance: float = 0.0,
) -> tuple[GroupBounds, ...]:
    """Theorem 6 corrected, from the corrected forms of Theorems 3–5 and Lemma 3.

    Parameters
    ----------
    home : Home
    noise : Mechanism or ContinuousLaplace
    readings : int
        Number T of readings after the known state.
    max_switches : int or (T,) of int
        Largest number U of switches, for all readings or for each reading: at most readings of a
        real trace nothing switches.
    disturbance : float
        Largest further change of a jump. [W]

    Returns
    -------
    tuple of GroupBounds

    Notes
    -----
    The hierarchies below i change a jump by at most Y = P_U^i, and those above change it in the
    mean by at most Ȳ_i(t) = Σ_{k < i} Pmax_k·N_k·(e_k(t) + e_k(t − 1)), where e_k(t) is the bound
    of Theorem 5 on the mean error of hierarchy k at reading t, and e_k(0) = 0. Ȳ is only a mean and
    depends on the same noise. It must therefore not be used inside the expectation over l, as
    Lemma 3 does with a sure bound; `corrected_lower` of `one_shot` subtracts it outside.

    The bounds are valid for `Hierarchical` with `correction="none"` and its other defaults. The
    upper bound also needs all switches within a hierarchy at one reading to have the same
    direction. Appliances of at most 2δ keep their first state: at one reading at most U of their
    states become wrong.
    """
    whole("readings", readings)
    counts = switches_per_reading(home, max_switches, readings, noise)
    # If all readings have the same U, one row is enough and the noise is evaluated once.
    counts = counts[:1] if (counts == counts[0]).all() else counts
    shape = np.shape(noise.difference_excess(0.0))
    leaked: FloatArray = np.zeros((readings, *shape))
    found: list[GroupBounds] = []
    for group, part, below in _hierarchies(home, counts):
        own, sure = np.minimum(counts, len(part)), below + disturbance
        if part.powers.max() <= 2 * home.tolerance:
            b, upper = Bound(1 - own / len(part) + 0 * leaked), Bound(np.ones(shape))
        else:
            b = one_shot.corrected_lower(
                part, noise, own, disturbance=sure, mean_disturbance=leaked
            )
            top = one_shot.corrected_upper(
                part, noise, own[:1], disturbance=sure[:1], mean_disturbance=leaked[:1]
            )
            upper = corrected_upper(top[0], readings)
        found.append(GroupBounds(group, part.names, corrected_lower(b), upper))
        error = errors_over_time(b)
        leaked += part.powers.max() * len(part) * error
        leaked[1:] += part.powers.max() * len(part) * error[:-1]
    return tuple(found)


def overall(groups: tuple[GroupBounds, ...]) -> tuple[Bound, Bound]:
    """Bounds on E[α_H] = Σ E[α_i]·N_i / Σ N_i from the bounds of the hierarchies."""
    sizes = [group.indices.size for group in groups]
    lower = np.average([np.asarray(g.lower.raw) for g in groups], axis=0, weights=sizes)
    upper = np.average([np.asarray(g.upper.raw) for g in groups], axis=0, weights=sizes)
    return Bound(lower), Bound(upper)


def _hierarchies(
    home: Home, max_switches: ArrayLike
) -> Iterator[tuple[IntArray, Home, FloatArray]]:
    """Each group, the home of its appliances, and the sum P_U^i [W] of U powers below it."""
    groups = split(home.powers, home.tolerance)
    counts = one_shot.check_switches(home, max_switches)
    for i, group in enumerate(groups):
        below = home.powers[np.concatenate([*groups[i + 1 :], np.zeros(0, np.int64)])]
        part = Home([home.appliances[j] for j in group], home.tolerance)
        yield group, part, one_shot.largest_sum(below, counts)


def switches_per_reading(
    home: Home, max_switches: ArrayLike, readings: int, noise: NoiseDifference
) -> IntArray:
    """Number U of switches of each reading, shape (T, 1, …), which broadcasts with the noise."""
    counts = one_shot.check_switches(home, max_switches)
    if counts.ndim and counts.shape != (readings,):
        raise InputError(f"max_switches must be one number or {readings}, got {counts.size}.")
    dimensions = np.ndim(noise.difference_excess(0.0))
    rows: IntArray = np.broadcast_to(counts, (readings,)).reshape((readings,) + (1,) * dimensions)
    return rows
