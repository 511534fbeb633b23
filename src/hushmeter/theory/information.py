"""Mutual information between the state of an appliance and its releases, beside ε.

The paper names mutual information as another measure of privacy. It is an average over the
appliance's states, while ε holds for each of them: information near zero does not mean that no
single switch is visible, and a large ε does not mean that much is learnt on average. All numbers
are in bits, about one appliance whose other loads are known, as in `universal.universal_limit`.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import entr

from hushmeter.checks import FloatArray, whole
from hushmeter.errors import InputError
from hushmeter.noise.mechanism import Mechanism
from hushmeter.theory.universal import protected_steps

TAIL = 1e-15
"""Probability of the noise that is left out on either side."""


def reading_information(power: float, mechanism: Mechanism, prior: float = 0.5) -> float:
    """Bits that one released reading contains about whether an appliance is on; exact.

    Parameters
    ----------
    power : float
        Largest change of a reading by the appliance [W].
    mechanism : Mechanism
        Noise on its grid.
    prior : float
        Probability of on.

    Returns
    -------
    float
        I(X; Y) = h(π·P(k − s) + (1 − π)·P(k)) − h(P), from 0 to the entropy of the state.

    Examples
    --------
    >>> mechanism = hm.Laplace(epsilon=1.0, sensitivity=2000.0, grid=10.0)
    >>> round(reading_information(2000.0, mechanism), 3)
    0.127
    """
    on = _probability("prior", prior)
    quiet, loud = _two_distributions(power, mechanism)
    known = on * _entropy(loud) + (1 - on) * _entropy(quiet)
    found = _entropy(on * loud + (1 - on) * quiet) - known
    return min(max(found, 0.0), binary_entropy(on))


def series_information(
    power: float, mechanism: Mechanism, chain: tuple[float, float], readings: int
) -> tuple[float, float]:
    """Bounds of the bits that a series of releases contains about all states of an appliance.

    Parameters
    ----------
    power : float
        Largest change of a reading by the appliance [W].
    mechanism : Mechanism
        Noise, independent from reading to reading.
    chain : (float, float)
        Probability of switching on after a reading off, and of switching off after a reading on.
    readings : int
        Number T of released readings.

    Returns
    -------
    lower, upper : float
        The states are a stationary Markov chain X_1 … X_T. The lower bound is
        I(X_1; Y_1) + (T − 1)·I(X_2; Y_2 | X_1), because H(Y_t | Y_1 … Y_{t−1}) is at least
        H(Y_t | X_{t−1}) [1]_. The upper bound is the smaller of T·I(X_1; Y_1) and the entropy of
        the states.

    References
    ----------
    .. [1] T. M. Cover, J. A. Thomas, "Elements of Information Theory", 2nd ed., Section 4.5, 2006.
    """
    rise, fall = (_probability("chain", one) for one in chain)
    count = whole("readings", readings)
    if rise + fall == 0:
        raise InputError("chain must allow a switch: one of its probabilities must be positive.")
    on = rise / (rise + fall)
    first = reading_information(power, mechanism, on)
    given_off, given_on = (reading_information(power, mechanism, p) for p in (rise, 1 - fall))
    lower = first + (count - 1) * ((1 - on) * given_off + on * given_on)
    entropy = (1 - on) * binary_entropy(rise) + on * binary_entropy(fall)
    upper = min(count * first, binary_entropy(on) + (count - 1) * entropy)
    return min(lower, upper), upper


def binary_entropy(p: float) -> float:
    """Entropy [bit] of an event of probability p."""
    return float(entr(p) + entr(1 - p)) / math.log(2)


def _probability(name: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise InputError(f"{name} must lie between 0 and 1, got {value!r}.")
    return float(value)


def _two_distributions(power: float, mechanism: Mechanism) -> tuple[FloatArray, FloatArray]:
    """Probabilities of every released value while the appliance is off, and while it is on."""
    grid = float(mechanism.exact_grid)
    moved = protected_steps(mechanism, power)
    reach = round(mechanism.quantile(1 - TAIL) / grid) + 1
    steps = np.arange(-reach, reach + moved + 1)
    return np.asarray(mechanism.pmf(steps)), np.asarray(mechanism.pmf(steps - moved))


def _entropy(masses: FloatArray) -> float:
    """Entropy of a distribution [bit]."""
    return float(entr(masses).sum()) / math.log(2)
