"""Theorem 6: bounds for every hierarchy of Algorithm 2, largest powers first.

To hierarchy i the others are a disturbance: those below it switch (at most P_U [W] at a step),
those above it are decoded wrongly and leave their errors behind. All of this is before error
correction, from a known state, over the T readings that follow it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.attack.hierarchical import split
from hushmeter.checks import FloatArray, IntArray, whole
from hushmeter.errors import InputError
from hushmeter.home import Home
from hushmeter.theory import multi_shot, one_shot
from hushmeter.theory.bound import Bound
from hushmeter.theory.exact import DifferenceLaw, positive_array


@dataclass(frozen=True)
class GroupBounds:
    """Theorem 6 for one hierarchy.

    Attributes
    ----------
    indices : array of int
        Its appliances, as columns of the home.
    names : tuple of str
    lower, upper : Bound
        m_i and M_i, on E[α_i].
    """

    indices: IntArray
    names: tuple[str, ...]
    lower: Bound
    upper: Bound


def printed_groups(
    home: Home,
    epsilon: ArrayLike,
    readings: int,
    max_switches: int = 1,
    *,
    constant: float | None = None,
    disturbance: float = 0.0,
) -> tuple[GroupBounds, ...]:
    """Theorem 6 as printed, with Δf = δ/2.

    m_i = b_m(δ + 2δ'_i/(2 + C(P)), ε), M_i = B_M(δ + δ'_i, ε),
    δ'_i = P_U^i/2 + Σ_{k < i} N_k·T·(1 − m_k)·‖P_k‖₂.

    Defects: those of Theorems 3–5, and of Lemma 3: by putting the disturbance into δ it also
    makes the noise of the mechanism larger. N, P and C(P) are read as those of the hierarchy.

    Parameters
    ----------
    home : Home
    epsilon : array_like
        ε; a noise of scale λ with another sensitivity is ε = δ/(2λ) here.
    readings : int
        T, readings after the known state.
    max_switches : int
        U.
    constant : float, optional
        C(P) for every hierarchy; its own `recovery_constant` if not given.
    disturbance : float
        What else may move a jump [W].
    """
    eps = positive_array("epsilon", epsilon)
    leaked: FloatArray = np.zeros_like(eps)
    found = []
    for group, part, below in _hierarchies(home, max_switches):
        # Lemma 3 takes Y as Y/(2 + C) and Y/2, so Theorem 6 is Lemma 3 with Y = 2δ'.
        moved = disturbance + below + 2 * leaked
        b = one_shot.printed_lower(part, eps, constant=constant, disturbance=moved)
        top = one_shot.printed_upper(part, eps, disturbance=moved)
        m = multi_shot.printed_lower(b, len(part), readings)
        found.append(GroupBounds(group, part.names, m, multi_shot.printed_upper(top, readings)))
        leaked = leaked + _spilled(part, readings, m)
    return tuple(found)


def integral_groups(
    home: Home,
    scale: ArrayLike,
    readings: int,
    max_switches: int = 1,
    *,
    constant: float | None = None,
    disturbance: float = 0.0,
) -> tuple[GroupBounds, ...]:
    """Theorem 6 as its proof has it: the `integral` forms of Theorems 3–5, the noise kept.

    Y_i = P_U^i + 2·Σ_{k < i} N_k·T·(1 − m_k)·‖P_k‖₂. Not a valid bound, as those it is made of.

    Parameters
    ----------
    home : Home
    scale : array_like
        λ = Δf/ε [W].
    readings, max_switches, constant, disturbance
        As in `printed_groups`.
    """
    scales = positive_array("scale", scale)
    leaked: FloatArray = np.zeros_like(scales)
    found = []
    for group, part, below in _hierarchies(home, max_switches):
        moved = disturbance + below + 2 * leaked
        b = one_shot.integral_lower(part, scales, constant=constant, disturbance=moved)
        top = one_shot.integral_upper(part, scales, disturbance=moved)
        m = multi_shot.integral_lower(b, len(part), readings)
        found.append(GroupBounds(group, part.names, m, multi_shot.printed_upper(top, readings)))
        leaked = leaked + _spilled(part, readings, m)
    return tuple(found)


def corrected_groups(
    home: Home,
    noise: DifferenceLaw,
    readings: int,
    max_switches: ArrayLike = 1,
    *,
    disturbance: float = 0.0,
) -> tuple[GroupBounds, ...]:
    """Theorem 6 corrected: m_i and M_i from the corrected forms of Theorems 3–5 and Lemma 3.

    Hierarchies below i disturb it by at most Y = P_U^i, those above by
    Ȳ_i(t) = Σ_{k < i} Pmax_k·N_k·(e_k(t) + e_k(t − 1)) in the mean, e_k(t) being the bound of
    Theorem 5 on the mean error of hierarchy k at reading t; e_k(0) = 0.

    Ȳ is a mean only, and depends on the same noise: it must not be put inside the expectation
    over l like a sure bound, as Lemma 3 does. `corrected_lower` subtracts it outside.

    Parameters
    ----------
    home : Home
    noise : Mechanism or ContinuousLaplace
    readings : int
        T, readings after the known state.
    max_switches : int or (T,) of int
        U, for all readings or for each: most readings of a real trace switch nothing.
    disturbance : float
        What else may move a jump, surely [W].

    Notes
    -----
    Holds for `Hierarchical` with `correction="none"` and its other defaults, where the switches
    within a hierarchy go one way at a time (upper bound only). Appliances of at most 2δ keep
    their first state: at most U of their states go wrong at a reading.
    """
    whole("readings", readings)
    counts = switches_per_reading(home, max_switches, readings, noise)
    # Where all readings are alike one row stands for all, and the noise is asked once.
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
            upper = multi_shot.corrected_upper(top[0], readings)
        found.append(GroupBounds(group, part.names, multi_shot.corrected_lower(b), upper))
        error = multi_shot.errors_over_time(b)
        leaked += part.powers.max() * len(part) * error
        leaked[1:] += part.powers.max() * len(part) * error[:-1]
    return tuple(found)


def overall(groups: tuple[GroupBounds, ...]) -> tuple[Bound, Bound]:
    """Bounds on E[α_H] = Σ E[α_i]·N_i / Σ N_i, from those of the hierarchies."""
    sizes = [group.indices.size for group in groups]
    lower = np.average([np.asarray(g.lower.raw) for g in groups], axis=0, weights=sizes)
    upper = np.average([np.asarray(g.upper.raw) for g in groups], axis=0, weights=sizes)
    return Bound(lower), Bound(upper)


def _hierarchies(
    home: Home, max_switches: ArrayLike
) -> Iterator[tuple[IntArray, Home, FloatArray]]:
    """Each group, the home of its appliances, and P_U^i [W]: the U largest powers below it."""
    groups = split(home.powers, home.tolerance)
    counts = one_shot.check_switches(home, max_switches)
    for i, group in enumerate(groups):
        below = home.powers[np.concatenate([*groups[i + 1 :], np.zeros(0, np.int64)])]
        part = Home([home.appliances[j] for j in group], home.tolerance)
        yield group, part, one_shot.largest_sum(below, counts)


def _spilled(part: Home, readings: int, lower: Bound) -> FloatArray:
    """N_k·T·(1 − m_k)·‖P_k‖₂ [W]: the paper's bound on what hierarchy k leaves behind."""
    norm = float(np.linalg.norm(part.powers))
    return np.asarray(len(part) * readings * (1 - np.asarray(lower.raw)) * norm)


def switches_per_reading(
    home: Home, max_switches: ArrayLike, readings: int, noise: DifferenceLaw
) -> IntArray:
    """U of each reading, shape (T, 1, …) so that it broadcasts against the noise."""
    counts = one_shot.check_switches(home, max_switches)
    if counts.ndim and counts.shape != (readings,):
        raise InputError(f"max_switches must be one number or {readings}, got {counts.size}.")
    dimensions = np.ndim(noise.difference_excess(0.0))
    rows: IntArray = np.broadcast_to(counts, (readings,)).reshape((readings,) + (1,) * dimensions)
    return rows
