"""What releases contain about an appliance with any number of states: odds, and bits beside ε.

The paper has two states for each appliance, and names mutual information as another measure of
privacy. Here an appliance has K states with known powers, of which off is one. Information is an
average over the states, while ε holds for each of them: information near zero does not mean that no
single switch is visible, and a large ε does not mean that much is learnt on average. All bits are
about one appliance whose other loads are known, as in `universal.universal_limit`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr

from hushmeter.checks import FloatArray, positive_array, whole
from hushmeter.errors import InputError
from hushmeter.noise.mechanism import Mechanism
from hushmeter.theory.universal import protected_steps

TAIL = 1e-15
"""Probability of the noise that is left out on either side."""


def state_limit(levels: ArrayLike, mechanism: Mechanism, prior: ArrayLike | None = None) -> float:
    """Probability that the best attacker names the state of an appliance from one reading.

    Parameters
    ----------
    levels : sequence of float, or float
        Power of every state [W]; one number means off and on.
    mechanism : Mechanism
        Noise on its grid.
    prior : sequence of float, optional
        Probability of every state; all equal by default.

    Returns
    -------
    float
        Σ_y max_k π_k·P(y − s_k), where s_k is the power of state k in grid steps, rounded away
        from zero. Under continuous Laplace noise and equal priors it is 1 − Σ_g e^(−g/2λ)/K, the
        sum over the K − 1 gaps g between neighbouring levels.

    Examples
    --------
    >>> import hushmeter as hm
    >>> mechanism = hm.Laplace(epsilon=1.0, sensitivity=2000.0, grid=10.0)
    >>> round(state_limit([0.0, 500.0, 2000.0], mechanism), 3)
    0.476
    """
    given, chances = _channel(levels, mechanism, prior)
    return float((chances[:, None] * given).max(axis=0).sum())


def state_curve(levels: ArrayLike, scale: ArrayLike) -> FloatArray:
    """`state_limit` under continuous Laplace noise of every scale λ [W], for equal priors."""
    watts = np.sort(np.asarray(levels, dtype=np.float64))
    halves = np.diff(watts) / (2 * positive_array("scale", scale)[..., None])
    return np.asarray(1 - np.exp(-halves).sum(axis=-1) / watts.size)


def reading_information(
    levels: ArrayLike, mechanism: Mechanism, prior: ArrayLike | None = None
) -> float:
    """Bits that one released reading contains about the state of an appliance; exact.

    Parameters
    ----------
    levels : sequence of float, or float
        Power of every state [W]; one number means off and on.
    mechanism : Mechanism
        Noise on its grid.
    prior : sequence of float, optional
        Probability of every state; all equal by default.

    Returns
    -------
    float
        I(X; Y) = h(Σ_k π_k·P(y − s_k)) − h(P), from 0 to the entropy of the state.

    Examples
    --------
    >>> mechanism = hm.Laplace(epsilon=1.0, sensitivity=2000.0, grid=10.0)
    >>> round(reading_information(2000.0, mechanism), 3)
    0.127
    """
    given, chances = _channel(levels, mechanism, prior)
    found = entropy(chances @ given) - float(chances @ [entropy(row) for row in given])
    return min(max(found, 0.0), entropy(chances))


def laplace_information(power: ArrayLike, scale: ArrayLike) -> FloatArray:
    """Bits about on and off, equally likely, in one reading with continuous Laplace noise.

    With s = P/λ the logarithm of the likelihood ratio is clipped to [−s, s], and the information is
    1 − ½·log₂(1 + e^(−s)) − ½·e^(−s)·log₂(1 + e^s) − ½·∫₀^s e^(−u)·log₂(1 + e^(2u − s)) du.
    """
    s = np.asarray(positive_array("power", power) / positive_array("scale", scale))
    nodes, weights = np.polynomial.legendre.leggauss(64)
    total = 0.5 * np.logaddexp(0, -s) + 0.5 * np.exp(-s) * np.logaddexp(0, s)
    # The integrand bends at s/2 and is below e⁻⁴⁰ beyond s/2 + 40.
    for low, high in ((0 * s, s / 2), (s / 2, np.minimum(s, s / 2 + 40))):
        half = ((high - low) / 2)[..., None]
        u = low[..., None] + half * (1 + nodes)
        inside = np.exp(-u) * np.logaddexp(0, 2 * u - s[..., None])
        total = total + 0.5 * (half * weights * inside).sum(axis=-1)
    return np.clip(1 - total / math.log(2), 0.0, 1.0)


def series_information(
    levels: ArrayLike, mechanism: Mechanism, chain: ArrayLike, readings: int
) -> tuple[float, float]:
    """Bounds of the bits that a series of releases contains about all states of an appliance.

    Parameters
    ----------
    levels : sequence of float, or float
        Power of every state [W]; one number means off and on.
    mechanism : Mechanism
        Noise, independent from reading to reading.
    chain : (K, K) array_like, or (float, float)
        Probability of every state after every state, rows of sum one; or for two states those of
        switching on after a reading off, and of switching off after a reading on.
    readings : int
        Number T of released readings.

    Returns
    -------
    lower, upper : float
        The states are a stationary Markov chain X_1 … X_T. The lower bound is
        I(X_1; Y_1) + (T − 1)·I(X_2; Y_2 | X_1), because H(Y_t | Y_1 … Y_{t−1}) is at least
        H(Y_t | X_{t−1}) [1]_. The upper bound is the smaller of T·I(X_1; Y_1) and the entropy of
        the states.

    Raises
    ------
    InputError
        If the chain is no matrix of probabilities, or has no unique stationary distribution.

    References
    ----------
    .. [1] T. M. Cover, J. A. Thomas, "Elements of Information Theory", 2nd ed., Section 4.5, 2006.
    """
    steps = _transitions(chain)
    count, prior = whole("readings", readings), _stationary(steps)
    first = reading_information(levels, mechanism, prior)
    given = [reading_information(levels, mechanism, row) for row in steps]
    lower = first + (count - 1) * float(prior @ given)
    rate = float(prior @ [entropy(row) for row in steps])
    upper = min(count * first, entropy(prior) + (count - 1) * rate)
    return min(lower, upper), upper


def entropy(masses: ArrayLike) -> float:
    """Entropy of a distribution [bit]."""
    return float(entr(np.asarray(masses, dtype=np.float64)).sum()) / math.log(2)


def _transitions(chain: ArrayLike) -> FloatArray:
    """The checked matrix of a chain; two numbers are the chances of switching on and off."""
    steps = np.asarray(chain, dtype=np.float64)
    if steps.shape == (2,):
        steps = np.array([[1 - steps[0], steps[0]], [steps[1], 1 - steps[1]]])
    square = steps.ndim == 2 and steps.shape[0] == steps.shape[1]
    if not (square and (steps >= 0).all() and np.allclose(steps.sum(axis=1), 1)):
        raise InputError("chain must be probabilities: one row for each state, of sum one.")
    return steps


def _stationary(steps: FloatArray) -> FloatArray:
    """The stationary distribution of a chain."""
    size = len(steps)
    equations = np.vstack([steps.T - np.eye(size), np.ones(size)])
    if np.linalg.matrix_rank(equations, tol=1e-12) < size:
        raise InputError("chain must allow a switch between its states, or it has no long run.")
    found = np.linalg.lstsq(equations, np.append(np.zeros(size), 1.0), rcond=None)[0]
    return np.asarray(np.maximum(found, 0.0) / np.maximum(found, 0.0).sum())


def _channel(
    levels: ArrayLike, mechanism: Mechanism, prior: ArrayLike | None
) -> tuple[FloatArray, FloatArray]:
    """Probabilities of every released value in every state, and those of the states."""
    watts = np.asarray(levels, dtype=np.float64)
    watts = np.append(0.0, watts) if watts.ndim == 0 else watts
    if watts.ndim != 1 or watts.size < 2 or not np.isfinite(watts).all():
        raise InputError("levels must be the powers of at least two states [W].")
    above = (watts - watts.min()).tolist()
    moved = [protected_steps(mechanism, one) if one else 0 for one in above]
    chances = np.full(watts.size, 1 / watts.size) if prior is None else np.asarray(prior, float)
    if chances.ndim == 0 and watts.size == 2:
        chances = np.array([1 - chances, chances])
    if chances.shape != watts.shape or (chances < 0).any() or not np.isclose(chances.sum(), 1):
        raise InputError(f"prior must be {watts.size} probabilities of sum one, got {prior!r}.")
    reach = round(mechanism.quantile(1 - TAIL) / float(mechanism.exact_grid)) + 1
    places = np.arange(-reach, reach + max(moved) + 1)
    return np.stack([np.asarray(mechanism.pmf(places - step)) for step in moved]), chances
