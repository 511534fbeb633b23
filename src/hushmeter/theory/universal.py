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
from hushmeter.noise import Staircase
from hushmeter.noise.parameters import exact
from hushmeter.privacy.privacy_loss import stair_losses

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism

MAX_POINTS = 1 << 22
"""Largest number of points of a distribution that is convolved."""


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
        Laplace, Staircase or Gaussian.
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
        If the optimum for the mechanism is not known or a prior is outside [0, 1].

    Notes
    -----
    For one reading the limit is Σ_k max(π·P(k − s), (1 − π)·P(k)), where P is the distribution of
    the noise on the grid and s is the largest number of steps by which the appliance can change a
    reading. For independent priors, no attacker's expected accuracy exceeds the mean over the
    appliances, `mean_limit`: an attacker that does not know all other states is not better.
    """
    count = whole("readings", readings)
    priors = _priors(prior, len(home))
    steps = [_steps(mechanism, a.protected_power) for a in home.appliances]
    if mechanism.name == "gaussian":
        return _gaussian_optima(mechanism, np.array(steps), priors, count)
    optima = []
    for s, pi in zip(steps, priors, strict=True):
        if mechanism.name == "laplace":
            masses, unit, lowest = _laplace_ratio(s, s * mechanism.epsilon / mechanism.steps, count)
        elif isinstance(mechanism, Staircase):
            masses, lowest = stair_losses(mechanism, s)
            unit = mechanism.epsilon
        else:
            raise InputError(f"the optimum under {mechanism.name} noise is not known.")
        optima.append(_ratio_optimum(masses, unit, lowest, float(pi), count))
    return np.array(optima)


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
        return np.asarray(np.where(np.abs(_log_odds(pi)) < s, better, guess))
    flat = [
        _ratio_optimum(*_laplace_ratio(MAX_POINTS, float(a), count), float(b), count)
        for a, b in zip(s.ravel(), pi.ravel(), strict=True)
    ]
    return np.asarray(flat, dtype=np.float64).reshape(s.shape)


def gaussian_limit(
    power: ArrayLike, sigma: ArrayLike, prior: ArrayLike = 0.5, *, readings: int = 1
) -> FloatArray:
    """Probability that the best attacker is correct under continuous Gaussian noise.

    Parameters
    ----------
    power : array_like
        Appliance power P. [W]
    sigma : array_like
        Standard deviation σ of the noise. [W]
    prior : array_like
        Prior probability π of "on".
    readings : int
        Number L of readings during which the state does not change.

    Returns
    -------
    array

    Notes
    -----
    The optimum is π·Φ(s/2 − τ/s) + (1 − π)·Φ(s/2 + τ/s) with s = √L·P/σ and τ = ln((1 − π)/π).
    """
    from scipy.special import ndtr

    pi = _probabilities(prior)
    s = positive_array("power", power) / positive_array("sigma", sigma)
    s = s * math.sqrt(whole("readings", readings))
    tau = _log_odds(pi)
    return np.asarray(pi * ndtr(s / 2 - tau / s) + (1 - pi) * ndtr(s / 2 + tau / s))


def _ratio_optimum(
    masses: FloatArray, unit: float, lowest: float, prior: float, readings: int
) -> float:
    """Optimum from the distribution of one log-likelihood ratio under "on".

    The ratio is unit·(lowest + j) with probability masses[j]; under "off" it has the opposite
    sign. The answer is "on" if the sum exceeds τ, so the optimum is
    π·P(sum > τ) + (1 − π)·P(sum ≥ −τ).
    """
    if prior in (0.0, 1.0):
        return 1.0
    places, law = _sum_distribution(masses, readings)
    ratios = places + readings * lowest
    # Both halves use the same cut, so that a tie is counted once; 1e-6 is far below one step.
    cut = float(_log_odds(np.asarray(prior))) / unit + 1e-6
    named_on = law[ratios > cut].sum()
    named_off = law[ratios >= -cut].sum()
    optimum = float(prior * named_on + (1 - prior) * named_off)
    return min(1.0, max(optimum, prior, 1 - prior))


def _sum_distribution(
    masses: FloatArray, readings: int, margin: float = 40.0
) -> tuple[FloatArray, FloatArray]:
    """Values and probabilities of the sum of `readings` independent draws from 0, 1, …

    The FFT uses a circle that contains 12 standard deviations and `margin` times the range of one
    draw on each side of the mean. By Bernstein's inequality this is all but 1e-12 of the
    probability.
    """
    at = np.arange(masses.size, dtype=np.float64)
    if readings == 1:
        return at, masses
    mean = float(at @ masses)
    spread = math.sqrt(readings * max(0.0, float(at**2 @ masses) - mean**2))
    whole_range = readings * (masses.size - 1) + 1
    width = max(2 * (12 * spread + margin * masses.size), masses.size)
    size = 1 << math.ceil(math.log2(min(width, whole_range)))
    law = np.fft.irfft(np.fft.rfft(masses, size) ** readings, size)
    first = 0 if size >= whole_range else max(0, round(readings * mean) - size // 2)
    places = first + np.arange(size)
    return places.astype(np.float64), np.maximum(0.0, law[places % size])


def _laplace_ratio(steps: int, loss: float, readings: int) -> tuple[FloatArray, float, float]:
    """Distribution of the log-likelihood ratio (|n + s| − |n|)·loss/s under discrete Laplace noise.

    The values go from −s to s in steps of two. A lattice that is too fine to convolve is made
    coarser, which changes the result by about (loss/steps)².
    """
    most = MAX_POINTS if readings == 1 else int(MAX_POINTS / (24 * math.sqrt(readings) + 80))
    s = max(1, min(steps, most))
    rate = loss / s
    masses = math.tanh(rate / 2) * np.exp(-rate * np.arange(s, -1.0, -1.0))
    # All n ≤ −s give the lowest ratio and all n ≥ 0 the highest.
    masses[0] = math.exp(-loss) / (1 + math.exp(-rate))
    masses[-1] = 1 / (1 + math.exp(-rate))
    return masses, 2 * rate, -s / 2


def _gaussian_optima(
    mechanism: Mechanism, steps: FloatArray, priors: FloatArray, readings: int
) -> FloatArray:
    """Optima under discrete Gaussian noise.

    The answer depends on the sum of the readings: it is "on" above τσ²/s + L·s/2 grid steps.
    """
    from scipy.special import ndtr

    sigma = mechanism.scale / mechanism.grid
    with np.errstate(divide="ignore"):
        cut = _log_odds(priors) * sigma**2 / steps + readings * steps / 2
    low, high = np.floor(cut), np.floor(cut) - readings * steps
    if 40 * sigma * math.sqrt(readings) > MAX_POINTS:
        # On a grid as fine as this, a correction by half a step is exact to 1e-10.
        wide = sigma * math.sqrt(readings)
        return np.asarray(
            priors * ndtr(-(high + 0.5) / wide) + (1 - priors) * ndtr((low + 0.5) / wide)
        )
    at = np.arange(-math.ceil(12 * sigma) - 1, math.ceil(12 * sigma) + 2)
    places, law = _sum_distribution(np.asarray(mechanism.pmf(at)), readings, margin=0.0)
    places = places + readings * at[0]
    below = np.concatenate([[0.0], np.cumsum(law)])
    named_off = below[np.searchsorted(places, low, side="right")]
    named_on = 1 - below[np.searchsorted(places, high, side="right")]
    optima = priors * named_on + (1 - priors) * named_off
    return np.asarray(np.clip(optima, np.maximum(priors, 1 - priors), 1.0))


def _steps(mechanism: Mechanism, watts: float) -> int:
    """Largest number of grid steps by which a switch of `watts` can change a rounded reading."""
    return min(math.ceil(exact("power", watts) / mechanism.exact_grid), mechanism.steps_of(watts))


def _log_odds(prior: FloatArray) -> FloatArray:
    """τ = ln((1 − π)/π)."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log1p(-prior) - np.log(prior))


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
