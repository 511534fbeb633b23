"""Theorem 5: how well a whole series of readings is explained, from one-shot bounds.

With e the error of an appliance's state and q that of its switch, e' = e + q − 2eq: errors add up
until each state is a coin toss. All of this is before error correction (`MultiShot` with
`correction="none"`), from a known state, over the T readings that follow it.
"""

from __future__ import annotations

import numpy as np

from hushmeter.checks import FloatArray, whole
from hushmeter.errors import InputError
from hushmeter.theory.bound import Bound


def printed_lower(one_shot: Bound, appliances: int, readings: int) -> Bound:
    """Theorem 5 as printed: E[α_m] ≥ b_m = 1 − (T − 1)(1 − bN)/2.

    Defect: the one-shot error is G = N(1 − b), not 1 − bN, so that the printed lower bound grows
    with T as soon as b > 1/N: 779.7 for N = 8, T = 600, b = 0.45.

    Parameters
    ----------
    one_shot : Bound
        b, of one jump.
    appliances : int
        N.
    readings : int
        T, readings after the known state.
    """
    n, t = whole("appliances", appliances), whole("readings", readings)
    return Bound(1 - (t - 1) * (1 - np.asarray(one_shot.raw) * n) / 2)


def integral_lower(one_shot: Bound, appliances: int, readings: int) -> Bound:
    """Theorem 5 as its proof has it: E[α_m] ≥ 1 − (T − 1)·G/2 with G = N(1 − b).

    It counts every error N times, bounding the state of one appliance by the switches of all;
    see `corrected_lower`. Parameters as in `printed_lower`.
    """
    n, t = whole("appliances", appliances), whole("readings", readings)
    return Bound(1 - (t - 1) * n * (1 - np.asarray(one_shot.raw)) / 2)


def printed_upper(one_shot: Bound, readings: int) -> Bound:
    """Theorem 5: E[α_m] ≤ B_M = 1 − (1 − B)/T; also its `integral` and `corrected` form.

    The first reading after a known state is explained no better than by one shot, and all others
    may be right. Holds before error correction, as far as B does.

    Parameters
    ----------
    one_shot : Bound
        B, of the first jump.
    readings : int
        T, readings after the known state.
    """
    return Bound(1 - (1 - np.asarray(one_shot.raw)) / whole("readings", readings))


corrected_upper = printed_upper


def corrected_lower(one_shot: Bound, readings: int | None = None) -> Bound:
    """Theorem 5 corrected: E[α_m] ≥ 1 − (1/T)·Σ_t min(1, Σ_{i ≤ t} (1 − b_i)).

    Proof. e' ≤ e + q pathwise; the mean over appliances of E[q_i] is at most 1 − b_i, and no mean
    error exceeds one. Nothing is asked of how the noise of two readings is related.

    Parameters
    ----------
    one_shot : Bound
        b_i for every jump, shape (T, …); or one b for all, with `readings`.
    readings : int, optional
        T, readings after the known state.
    """
    if readings is None:
        return Bound(1 - errors_over_time(one_shot).mean(axis=0))
    count = whole("readings", readings)
    error = 1 - np.asarray(one_shot.clipped)
    # 1 − b, 2(1 − b), … reaches one after `growing` readings and stays there.
    growing = np.minimum(count, np.floor(1 / np.maximum(error, 1 / (2 * count))))
    return Bound(1 - (error * growing * (growing + 1) / 2 + count - growing) / count)


def errors_over_time(one_shot: Bound) -> FloatArray:
    """Bound min(1, Σ_{i ≤ t} (1 − b_i)) on the mean error of the states at reading t, (T, …)."""
    if isinstance(one_shot.raw, float):
        raise InputError("a bound for every reading is needed, got one number.")
    return np.asarray(np.minimum(1.0, np.cumsum(1 - np.asarray(one_shot.clipped), axis=0)))
