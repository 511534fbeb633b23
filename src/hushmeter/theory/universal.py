"""The limit of any attacker: the exact Bayes optimum for each appliance, and the cap of ε-DP.

The strongest attacker knows the mechanism, the states of all other appliances and the prior
probability π of "on". The appliance then changes a reading by its power or not at all, and the
best answer compares the likelihood ratio with the prior odds. Over a run of readings with the same
state the likelihood ratios are multiplied, so that their logarithms are added; the distribution of
the sum is computed by convolution.

The paper calls its Theorem 4 a "benchmark for all possible NILM algorithms", which it is not.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.checks import FloatArray, positive_array, whole
from hushmeter.errors import InputError
from hushmeter.home import Home
from hushmeter.noise.losses import MAX_POINTS, log_odds, points_for, ratio_optimum
from hushmeter.noise.mechanism import exact
from hushmeter.noise.pure import loss_lattice

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism


def universal_limit(
    home: Home, mechanism: Mechanism, prior: ArrayLike = 0.5, *, readings: int = 1
) -> FloatArray:
    """Probability that the best possible attacker is correct about each appliance.

    Parameters
    ----------
    home : Home
        The protected power of every appliance is used: its upper power if that is known, else
        the highest of its levels.
    mechanism : Mechanism
        The noise.
    prior : float or (N,)
        Prior probability π of "on".
    readings : int
        Number of readings during which the state does not change; the attacker uses all of them.

    Returns
    -------
    array, shape (N,)

    Raises
    ------
    InputError
        If a prior is outside [0, 1].

    Notes
    -----
    For one reading the limit is Σ_k max(π·P(k − s), (1 − π)·P(k)), where P is the distribution of
    the noise on the grid and s is the largest number of steps by which the appliance can change a
    reading. For independent priors, no attacker's expected accuracy exceeds the mean over the
    appliances, `mean_limit`: an attacker that does not know all other states is not better. The
    limit over a series in which the state changes is `hushmeter.theory.series.series_limit`.

    Examples
    --------
    >>> home = hm.Home([hm.Appliance("kettle", 2000.0), hm.Appliance("fridge", 120.0)])
    >>> noise = hm.Laplace(epsilon=1.0, sensitivity=2000.0)
    >>> hm.universal_limit(home, mechanism=noise).round(2).tolist()
    [0.7, 0.51]
    """
    count = whole("readings", readings)
    priors = _priors(prior, len(home))
    steps = np.array([protected_steps(mechanism, a.protected_power) for a in home.appliances])
    return mechanism.limits(steps, priors, count)


def mean_limit(
    home: Home, mechanism: Mechanism, prior: ArrayLike = 0.5, *, readings: int = 1
) -> float:
    """Mean of `universal_limit` over the appliances, which no attacker's E[α] exceeds.

    The parameters are those of `universal_limit`.
    """
    return float(universal_limit(home, mechanism, prior, readings=readings).mean())


def universal_cap(
    home: Home, mechanism: Mechanism, prior: ArrayLike = 0.5, *, readings: int = 1
) -> FloatArray:
    """The limit that differential privacy alone guarantees: `privacy_cap` at L·ε_i.

    Parameters
    ----------
    home, mechanism, prior, readings
        As in `universal_limit`; the mechanism must be purely differentially private.

    Returns
    -------
    array, shape (N,)

    Raises
    ------
    InputError
        If the mechanism has δ > 0.

    Notes
    -----
    ε_i is the privacy loss for a change by the power of appliance i, and L the number of readings.
    """
    count = whole("readings", readings)
    if mechanism.delta > 0:
        raise InputError("the cap needs pure differential privacy; use universal_limit.")
    losses = [mechanism.epsilon_for(a.protected_power) for a in home.appliances]
    return privacy_cap(count * np.array(losses), _priors(prior, len(home)))


def privacy_cap(epsilon: ArrayLike, prior: ArrayLike = 0.5) -> FloatArray:
    """Largest probability max(π, 1 − π, 1/(1 + e^(−ε))) of a correct test of one bit under ε-DP.

    Parameters
    ----------
    epsilon : array_like
        ε for a change of the bit.
    prior : array_like
        Prior probability π of one.

    Returns
    -------
    array
    """
    pi, loss = _probabilities(prior), np.asarray(epsilon, dtype=np.float64)
    return np.asarray(np.maximum(np.maximum(pi, 1 - pi), 1 / (1 + np.exp(-loss))))


def laplace_limit(
    power: ArrayLike, scale: ArrayLike, prior: ArrayLike = 0.5, *, readings: int = 1
) -> FloatArray:
    """Probability that the best attacker is correct under continuous Laplace noise.

    Parameters
    ----------
    power : array_like
        Appliance power P. [W]
    scale : array_like
        Laplace scale λ. [W]
    prior : array_like
        Prior probability π of "on".
    readings : int
        Number of readings during which the state does not change.

    Returns
    -------
    array

    Notes
    -----
    With s = P/λ and τ = ln((1 − π)/π), the optimum for one reading is 1 − √(π(1 − π))·e^(−s/2) if
    |τ| < s, and max(π, 1 − π) otherwise. For more readings it is computed by convolution on a fine
    lattice.
    """
    count = whole("readings", readings)
    ratio = positive_array("power", power) / positive_array("scale", scale)
    s, pi = np.broadcast_arrays(ratio, _probabilities(prior))
    if count == 1:
        guess = np.maximum(pi, 1 - pi)
        better = 1 - np.sqrt(pi * (1 - pi)) * np.exp(-s / 2)
        return np.asarray(np.where(np.abs(log_odds(pi)) < s, better, guess))
    flat = [
        ratio_optimum(*loss_lattice(MAX_POINTS, float(a), points_for(count)), float(b), count)
        for a, b in zip(s.ravel(), pi.ravel(), strict=True)
    ]
    return np.asarray(flat, dtype=np.float64).reshape(s.shape)


def protected_steps(mechanism: Mechanism, watts: float) -> int:
    """Largest number of grid steps by which a switch of `watts` can change a rounded reading."""
    return min(math.ceil(exact("power", watts) / mechanism.exact_grid), mechanism.steps_of(watts))


def _priors(prior: ArrayLike, n: int) -> FloatArray:
    """One checked prior for each of n appliances."""
    values = _probabilities(prior)
    if values.shape not in ((), (n,)):
        raise InputError(f"prior must be one probability or {n}, got shape {values.shape}.")
    return np.broadcast_to(values, (n,))


def _probabilities(prior: ArrayLike) -> FloatArray:
    """Priors as an array; raises `InputError` unless all are in [0, 1]."""
    try:
        values = np.asarray(prior, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.asarray(math.nan)
    if not ((values >= 0) & (values <= 1)).all():
        raise InputError(f"prior must lie between 0 and 1, got {prior!r}.")
    return values
