"""Theorems 1, 3 and 4, Proposition 1 and Lemma 3: bounds for one jump of the meter.

Every bound on the accuracy has three forms:

printed
    The closed form of the paper, exactly as printed.
integral
    The value of the integrals in the paper's own proof: its algebra is corrected, its argument is
    not.
corrected
    A bound that is valid for the relaxed attacker (`OneShot` with its defaults). The proofs are in
    the docstrings.

A `disturbance` Y [W] is that of Lemma 3: in addition to the noise, something unknown changes the
jump by at most Y. A `mean_disturbance` Ȳ [W] bounds the mean of this change. Parameters that are
arrays are broadcast against each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hushmeter.checks import (
    BoolArray,
    FloatArray,
    IntArray,
    finite_vector,
    non_negative,
    positive_array,
    power_vector,
)
from hushmeter.errors import InputError
from hushmeter.home import Home
from hushmeter.theory.exact import (
    ContinuousLaplace,
    NoiseDifference,
    capped_excess,
    mean_shortfall,
)


@dataclass(frozen=True, eq=False, init=False)
class Bound:
    """A bound on an accuracy, for one parameter or for an array of them.

    Parameters
    ----------
    raw : array_like
        Value of the formula, which is not clipped; a number becomes a float.

    Examples
    --------
    >>> bound = Bound(1.25)
    >>> bound.raw, float(bound), bound.vacuous
    (1.25, 1.0, True)
    """

    raw: float | FloatArray

    def __init__(self, raw: ArrayLike) -> None:
        values = np.asarray(raw, dtype=np.float64)
        object.__setattr__(self, "raw", float(values) if values.ndim == 0 else values)

    @property
    def clipped(self) -> float | FloatArray:
        """Value of `raw`, clipped to [0, 1]."""
        if isinstance(self.raw, float):
            return float(np.clip(self.raw, 0.0, 1.0))
        return np.clip(self.raw, 0.0, 1.0)

    @property
    def vacuous(self) -> bool | BoolArray:
        """Whether `raw` is outside (0, 1), where the bound excludes no accuracy, or all."""
        if isinstance(self.raw, float):
            return not 0.0 < self.raw < 1.0
        outside: BoolArray = ~((self.raw > 0.0) & (self.raw < 1.0))
        return outside

    def __float__(self) -> float:
        if isinstance(self.raw, float):
            return float(self.clipped)
        raise InputError(f"this bound has {self.raw.size} values; use .clipped to get all of them.")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """The clipped values, so that numpy and matplotlib accept a bound as an array."""
        return np.array(self.clipped, dtype=dtype, copy=True if copy is None else copy)

    def __len__(self) -> int:
        if isinstance(self.raw, float):
            raise TypeError("this bound is one number and has no length")
        return len(self.raw)

    def __getitem__(self, part: Any) -> Bound:
        """Bound at some of the parameters."""
        return Bound(np.asarray(self.raw)[part])

    def __repr__(self) -> str:
        if isinstance(self.raw, float):
            note = ", vacuous" if self.vacuous else ""
            return f"Bound({self.raw:.6g}{note})"
        return f"Bound({self.raw.size} values, {int(np.sum(self.vacuous))} vacuous)"


def recovery_constant(
    powers: ArrayLike, *, isometry_3u: float = 0.0, isometry_4u: float = 0.0
) -> float:
    """Theorem 1. The constant C(P) = 4/((√(3(1 − δ_4U)) − √(1 + δ_3U))·‖P‖₂).

    Parameters
    ----------
    powers : array_like, shape (N,)
        Appliance powers P. [W]
    isometry_3u, isometry_4u : float
        Restricted isometry constants δ_3U and δ_4U of P/‖P‖₂.

    Returns
    -------
    float
        C(P). [1/W]

    Raises
    ------
    InputError
        If the denominator is zero.

    Notes
    -----
    The paper states that the relaxed solution is within C(P)·δ of the truth. Defect: a single row
    has δ_S = 1 for every S ≥ 2, because two entries always cancel. Then C(P) = −2√2/‖P‖₂ is
    negative and the theorem has no content.

    By default both constants are 0, which gives 4/((√3 − 1)·‖P‖₂). This is the paper's 0.015 if
    ‖P‖₂ is 364 W; the paper does not state this norm. It is the default of every `printed` and
    `integral` form, although no value makes these forms valid.
    """
    norm = float(np.linalg.norm(power_vector(powers)))
    root = math.sqrt(3 * (1 - isometry_4u)) - math.sqrt(1 + isometry_3u)
    if root == 0:
        raise InputError("C(P) has no value where √(3(1 − δ_4U)) equals √(1 + δ_3U).")
    return 4 / (root * norm)


def printed_switch_error(
    home: Home, noise: ArrayLike = 0.0, *, constant: float | None = None
) -> FloatArray:
    """Theorem 1 and Proposition 1 as printed. Error of the relaxed solution.

    Parameters
    ----------
    home : Home
    noise : array_like
        Difference of noises l = n_t − n_{t−1}; where it is 0 the bound is that of Theorem 1. [W]
    constant : float, optional
        C(P): see `recovery_constant`. [1/W]

    Returns
    -------
    array
        The printed bound on ‖E[Δ̄] − Δ⁰‖₂.

    Notes
    -----
    Theorem 1 prints C(P)·δ, and Proposition 1 prints (2 + C(P))·δ + |l|. Defects: C(P) has no
    valid value, and Proposition 1 adds watts to a pure number: see `switch_error`.
    """
    size = np.abs(np.asarray(noise, dtype=np.float64))
    slope = _constant(home, constant)
    return np.where(size > 0, (2 + slope) * home.tolerance + size, slope * home.tolerance)


def switch_error(
    home: Home, max_switches: ArrayLike, noise: ArrayLike = 0.0, *, disturbance: ArrayLike = 0.0
) -> FloatArray:
    """Theorem 1 and Proposition 1 corrected. Error of the relaxed solution.

    Parameters
    ----------
    home : Home
    max_switches : array_like of int
        Largest number U of switches.
    noise : array_like
        Difference of noises l = n_t − n_{t−1}. [W]
    disturbance : array_like
        Disturbance Y. [W]

    Returns
    -------
    array
        Bound min(N, 2U + (|l| + Y)/Pmin) on ‖E[Δ̄] − Δ⁰‖₁.

    Notes
    -----
    Proof. The truth is within δ of the jump, so r = K − δ ≤ s0 + |l| + Y with s0 = Δ⁰·P. Adding
    (|l| + Y)/Pmin to Δ⁰ anywhere covers r, and the relaxed solution is the smallest cover:
    ‖Δ*‖₁ ≤ U + (|l| + Y)/Pmin. The error is at most ‖Δ*‖₁ + U. It does not depend on δ, so no
    bound of the form C(P)·δ exists. The norm ‖·‖₂ is at most the square root of the bound, because
    no entry exceeds one.
    """
    size = np.abs(np.asarray(noise, dtype=np.float64)) + positive_array(
        "disturbance", disturbance, zero=True
    )
    most = check_switches(home, max_switches)
    return np.asarray(np.minimum(len(home), 2 * most + size / home.powers.min()))


def printed_lower(
    home: Home, epsilon: ArrayLike, *, constant: float | None = None, disturbance: ArrayLike = 0.0
) -> Bound:
    """Theorem 3 as printed, with Δf = δ/2. Lower bound on E[α].

    Parameters
    ----------
    home : Home
    epsilon : array_like
        ε; for noise of scale λ with another sensitivity, ε = δ/(2λ).
    constant : float, optional
        C(P): see `recovery_constant`. [1/W]
    disturbance : array_like
        Disturbance Y. [W]

    Returns
    -------
    Bound

    Notes
    -----
    E[α] ≥ 1 − (4Cδε + 8δε + 3δ)/(4εN) + (A₁ε + B₁)/(4εN)·e^(−2εb/δ) with b = 2(N − (2 + C)δ),
    A₁ = 2N − 4δ − 2Cδ and B₁ = 3δ.

    Defects: the exponent must be −εb/δ (`integral_lower`), and the proof replaces the l1 norm by
    the l2 norm, which is the wrong direction for a lower bound (`corrected_lower`). A disturbance
    replaces δ by δ + Y/(2 + C) (Lemma 3 as printed), which also changes the noise.
    """
    n, c = len(home), _constant(home, constant)
    eps = positive_array("epsilon", epsilon)
    # Theorem 6 as printed can pass any disturbance, even a negative one, so it is not checked.
    with np.errstate(all="ignore"):
        delta = home.tolerance + np.asarray(disturbance, dtype=np.float64) / (2 + c)
        b = 2 * (n - (2 + c) * delta)
        a_1, b_1 = 2 * n - 4 * delta - 2 * c * delta, 3 * delta
        start = 1 - (4 * c * delta * eps + 8 * delta * eps + 3 * delta) / (4 * eps * n)
        rest = (a_1 * eps + b_1) / (4 * eps * n) * np.exp(-2 * eps * b / delta)
        return Bound(start + rest)


def integral_lower(
    home: Home, scale: ArrayLike, *, constant: float | None = None, disturbance: ArrayLike = 0.0
) -> Bound:
    """Theorem 3 as in its proof. The expectation of max(1 − ((2 + C)δ + Y + |l|)/N, 0).

    Parameters
    ----------
    home : Home
    scale : array_like
        Laplace scale λ = Δf/ε. [W]
    constant, disturbance
        As in `printed_lower`.

    Returns
    -------
    Bound

    Notes
    -----
    The value is [a − 3λ/2 + (3λ/2 + a/2)·e^(−a/λ)]/N with a = N − (2 + C)δ − Y, and 0 if a ≤ 0. It
    compares watts with a number of appliances, as the proof does, and is not a valid bound.
    """
    n, c = len(home), _constant(home, constant)
    room = n - (2 + c) * home.tolerance - positive_array("disturbance", disturbance, zero=True)
    return Bound(mean_shortfall(ContinuousLaplace(scale), room) / n)


def corrected_lower(
    home: Home,
    noise: NoiseDifference,
    max_switches: ArrayLike,
    *,
    switched_power: float | None = None,
    disturbance: ArrayLike = 0.0,
    mean_disturbance: ArrayLike = 0.0,
) -> Bound:
    """Theorem 3 and Lemma 3 corrected. A valid lower bound on E[α] for any noise.

    Parameters
    ----------
    home : Home
    noise : Mechanism or ContinuousLaplace
    max_switches : array_like of int
        Largest number U of switches; the bound is valid for every vector of at most U switches in
        any directions.
    switched_power : float, optional
        Switched power s0 = Δ⁰·P; the sum of the U largest powers if it is not given. [W]
    disturbance : array_like
        Disturbance Y, which is never exceeded. [W]
    mean_disturbance : array_like
        Mean Ȳ of a further disturbance, which may depend on the noise in any way. [W]

    Returns
    -------
    Bound

    Notes
    -----
    The bound is the larger of [E(a − |l|)_+ − Ȳ]/(N·Pmin) with a = (N − 2U)·Pmin − Y, and
    [E(a' − |l|)_+ − Ȳ]/S − U/N with a' = S − s0 − Y and S = ΣP. For Laplace noise,
    E(a − |l|)_+ = a − 3λ/2 + (3λ/2 + a/2)·e^(−a/λ); the disturbance does not change λ.

    Proof. The first value follows from `switch_error`. For the second, ‖Δ*‖₁ is convex in
    r = K − δ, 0 at r = 0 and N at r = S, hence at most N·r/S, with r ≤ s0 + |l| + Y; the error is
    at most ‖Δ*‖₁ + U. One watt of disturbance increases the errors by at most 1/Pmin and N/S, which
    gives the terms with Ȳ.
    """
    n, most = len(home), check_switches(home, max_switches)
    total, smallest = float(home.powers.sum()), float(home.powers.min())
    power = largest_sum(home.powers, most) if switched_power is None else switched_power
    moved = positive_array("disturbance", disturbance, zero=True)
    drift = positive_array("mean_disturbance", mean_disturbance, zero=True)
    by_count = (mean_shortfall(noise, (n - 2 * most) * smallest - moved) - drift) / (n * smallest)
    by_power = (mean_shortfall(noise, total - power - moved) - drift) / total - most / n
    return Bound(np.maximum(by_count, by_power))


def printed_upper(home: Home, epsilon: ArrayLike, *, disturbance: ArrayLike = 0.0) -> Bound:
    """Theorem 4 as printed, with Δf = δ/2. Upper bound on E[α].

    Parameters
    ----------
    home, epsilon, disturbance
        As in `printed_lower`.

    Returns
    -------
    Bound

    Notes
    -----
    E[α] ≤ 1 + (A₂ε² + B₂ε + C₂)/(8δεN‖P‖₂)·e^(−2εm/δ) − (16δε² + 4δε + 3δ)/(16εN‖P‖₂)·e^(−ε) with
    m = N‖P‖₂ + 2δ, A₂ = 4m² − 8δm − 4mN‖P‖₂ = 0, B₂ = 6δm − 8δ² − 4δN‖P‖₂ = 2δm and C₂ = 3δ².

    Defects: the last term is not the value of its integral (`integral_upper`), so that the bound
    exceeds 1 for small ε. It is also not universal, as the paper claims: the answer “nothing
    switched” has accuracy 1 − U/N at every ε. A disturbance replaces δ by δ + Y/2 (Lemma 3 as
    printed).
    """
    eps = positive_array("epsilon", epsilon)
    reach = len(home) * float(np.linalg.norm(home.powers))
    with np.errstate(all="ignore"):
        delta = home.tolerance + np.asarray(disturbance, dtype=np.float64) / 2
        m = reach + 2 * delta
        a_2 = 4 * m**2 - 8 * delta * m - 4 * m * reach
        b_2 = 6 * delta * m - 8 * delta**2 - 4 * delta * reach
        c_2 = 3 * delta**2
        first = (a_2 * eps**2 + b_2 * eps + c_2) / (8 * delta * eps * reach)
        second = (16 * delta * eps**2 + 4 * delta * eps + 3 * delta) / (16 * eps * reach)
        return Bound(1 + first * np.exp(-2 * eps * m / delta) - second * np.exp(-eps))


def integral_upper(home: Home, scale: ArrayLike, *, disturbance: ArrayLike = 0.0) -> Bound:
    """Theorem 4 as in its proof. The value 1 − E[min((l − 2δ − Y)_+, N‖P‖₂)]/(N‖P‖₂).

    Parameters
    ----------
    home, scale, disturbance
        As in `integral_lower`.

    Returns
    -------
    Bound

    Notes
    -----
    For Δf = δ/2 it is 1 − (3δ + 4δε)/(8εN‖P‖₂)·e^(−4ε) + (3δ + 2εm)/(8εN‖P‖₂)·e^(−2εm/δ), which
    tends to ½ for small ε. The proof ignores that only N − U appliances can be named wrongly, so
    the bound fails if most of the home switches at once: see `corrected_upper`.

    Reading of the paper: the proof prints 2n‖P‖₂ + 2δ where the theorem has m = N‖P‖₂ + 2δ, and it
    prints the limits of its second integral in reverse order.
    """
    noise = ContinuousLaplace(scale)
    reach = len(home) * float(np.linalg.norm(home.powers))
    dead = 2 * home.tolerance + positive_array("disturbance", disturbance, zero=True)
    return Bound(1 - capped_excess(noise, dead, reach) / reach)


def corrected_upper(
    home: Home,
    noise: NoiseDifference,
    max_switches: ArrayLike,
    *,
    cancelled_power: float = 0.0,
    disturbance: ArrayLike = 0.0,
    mean_disturbance: ArrayLike = 0.0,
) -> Bound:
    """Theorem 4 and Lemma 3 corrected. Upper bound on E[α] of the relaxed attacker.

    Parameters
    ----------
    home, noise, max_switches, disturbance, mean_disturbance
        As in `corrected_lower`.
    cancelled_power : float
        Difference s0 − |net jump|: 0 if all switches have the same direction, as the paper
        assumes. [W]

    Returns
    -------
    Bound

    Notes
    -----
    The bound is 1 − (E[min((l − 2δ − Y)_+, M)] − Ȳ)_+/(N·Pmax) with M = (N − U)·Pmax. For Laplace
    noise and Ȳ = 0 this is 1 − [I(2δ + Y) − I(2δ + Y + M)]/(2N·Pmax) with
    I(x) = (3λ/2 + x/2)·e^(−x/λ).

    Proof. With probability ½ the noise has the sign of the jump; then r = K − δ is at least
    s0 + |l| − 2δ − Y. Either all N appliances are named, N − U of them wrongly, or Δ*·P ≥ r and
    ‖Δ* − Δ⁰‖₁ ≥ (Δ* − Δ⁰)·P/Pmax.
    """
    most, largest = check_switches(home, max_switches), float(home.powers.max())
    cancelled = non_negative("cancelled_power", cancelled_power)
    dead = 2 * home.tolerance + cancelled + positive_array("disturbance", disturbance, zero=True)
    error = capped_excess(noise, dead, (len(home) - most) * largest)
    error = np.maximum(error - positive_array("mean_disturbance", mean_disturbance, zero=True), 0.0)
    return Bound(1 - error / (len(home) * largest))


def largest_sum(powers: FloatArray, count: ArrayLike) -> FloatArray:
    """Sum of the `count` largest powers [W], for every count."""
    reach = np.concatenate([[0.0], np.cumsum(np.sort(powers)[::-1])])
    sums: FloatArray = reach[np.minimum(count, powers.size)]
    return sums


def check_switches(home: Home, max_switches: ArrayLike) -> IntArray:
    """Return U as integers; raise `InputError` unless they are whole numbers from 0 to N."""
    counts = np.asarray(max_switches)
    whole_numbers = counts.dtype.kind in "iu" and counts.size > 0
    if not whole_numbers or counts.min() < 0 or counts.max() > len(home):
        raise InputError(
            f"max_switches must be a whole number from 0 to {len(home)}, got {max_switches!r}."
        )
    return counts.astype(np.int64)


def _constant(home: Home, constant: float | None) -> float:
    """The given C(P), checked, or its default [1/W]."""
    if constant is None:
        return recovery_constant(home.powers)
    value = float(finite_vector("recovery_constant", [constant])[0])
    if value <= -2:
        raise InputError(f"recovery_constant must be larger than −2, got {constant}.")
    return value
