"""Discrete Gaussian noise: (ε, δ)-differential privacy, suited to changes of many readings.

P(n = k) ∝ e^(−k²/2σ²) on the grid.

*One reading.* σ starts from the analytic formula of the continuous Gaussian [1]_,

    δ(ε) = Φ(Δ/2σ − εσ/Δ) − e^ε·Φ(−Δ/2σ − εσ/Δ),

and is increased until the δ(ε) of the discrete distribution itself, for a shift of Δ_g steps and
computed from certified probabilities, is at most δ. Checking Δ_g is sufficient: the distribution is
log-concave, so the sets {n ≥ t} are the best tests and a smaller shift has a smaller δ(ε).

*Several readings.* There is no such one-dimensional check. In any number of readings the noise is
ρ-concentrated differentially private with ρ = Δ²/2σ², where Δ is the Euclidean length of the
change [2]_. σ is the smallest value for which the conversion

    δ = inf over a > 1 of e^((a−1)(aρ−ε))·(1 − 1/a)^a/(a − 1)

gives at most δ; it is a few per cent larger than that of the analytic formula.

References
----------
.. [1] B. Balle, Y.-X. Wang, "Improving the Gaussian mechanism for differential privacy", ICML 2018.
.. [2] C. Canonne, G. Kamath, T. Steinke, "The discrete Gaussian for differential privacy",
   NeurIPS 2020.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Unpack

import numpy as np

from hushmeter.checks import FloatArray
from hushmeter.errors import InputError
from hushmeter.noise.certified_masses import DiscreteGaussian, exp_minus
from hushmeter.noise.mechanism import Mechanism, MechanismOptions
from hushmeter.noise.parameters import ROUNDING_SLACK, Exact, exact
from hushmeter.noise.samplers import Sampler, gaussian_fits, gaussian_sampler

FINE_SIGMA = 64.0
"""σ [grid steps] from which the continuous formula may replace the discrete distribution.

There the two values of δ(ε) differ by less than 1e-4 of δ."""

LOG_ORDERS = (-12.0, 16.0)
"""Range of ln(a − 1) in which the order a of the conversion is searched."""

BELOW_SIGMA, ABOVE_SIGMA = 1e-11, 6e-11
"""Relative distances below and above the exact σ within which the conversion is computed."""


class Gaussian(Mechanism):
    """Discrete Gaussian noise with analytic calibration, (ε, δ)-differential privacy.

    Parameters
    ----------
    epsilon : exact number
        ε of the protected change.
    delta : exact number
        δ, in (0, 1).
    sensitivity : exact number
        Euclidean length of the protected change over its `touches` readings [W].
    grid : exact number
        Step of the released readings [W].
    **options
        See `Mechanism`.
    """

    name: ClassVar[str] = "gaussian"

    def __init__(
        self,
        epsilon: Exact,
        delta: Exact,
        sensitivity: Exact,
        grid: Exact = 1.0,
        **options: Unpack[MechanismOptions],
    ) -> None:
        # The shared constructor chooses the grid, and the width of the noise depends on δ.
        self.exact_delta = exact("delta", delta)
        if not Fraction(1, 10**60) <= self.exact_delta < 1:
            raise InputError(f"delta must lie between 1e-60 and 1, got {delta}.")
        super().__init__(epsilon, sensitivity, grid, **options)
        self.sigma_steps = calibrate_sigma(
            self.exact_epsilon, self.exact_delta, self.steps, self.touches > 1
        )

    @property
    def variance(self) -> Fraction:
        """σ² exactly [grid steps²]."""
        return Fraction(self.sigma_steps) ** 2

    @property
    def delta(self) -> float:
        """Probability δ of (ε, δ)-differential privacy."""
        return float(self.exact_delta)

    @property
    def scale(self) -> float:
        """Parameter σ of the noise [W]."""
        return self.sigma_steps * self.grid

    @property
    def mean_abs(self) -> float:
        """Mean absolute value E|n| [W].

        For σ of at least `FINE_SIGMA` it is the Euler–Maclaurin series of 2·Σ k·P(n = k): the
        normalising sum is σ·√(2π) there, and the next term of the series is below 1e-12.
        """
        if self.sigma_steps >= FINE_SIGMA:
            square = self.sigma_steps**2
            total = square - 1 / 12 - 1 / (240 * square)
            return self.grid * 2 * total / (self.sigma_steps * math.sqrt(2 * math.pi))
        masses = self._half()[0]
        return self.grid * 2 * float(np.dot(np.arange(masses.size), masses))

    @property
    def std(self) -> float:
        """Standard deviation [W]; it equals σ up to a term of the order e^(−2π²σ²)."""
        if self.sigma_steps >= FINE_SIGMA:
            return self.scale
        masses = self._half()[0]
        k = np.arange(1.0, masses.size)
        # The factor e^(−1/2σ²) is taken out of the root, because it may underflow to zero where
        # its root does not.
        beyond = np.exp(-0.5 * (k * k - 1) / self.sigma_steps**2)
        first = math.exp(-0.25 / self.sigma_steps**2)
        return self.grid * first * math.sqrt(2 * float(masses[0] * np.dot(k * k, beyond)))

    def epsilon_for(self, shift: Exact, touches: int = 1) -> float:
        """Smallest ε at the same δ for another change.

        Parameters
        ----------
        shift : exact number
            Euclidean length of the change [W].
        touches : int
            Number of readings over which the change is spread.

        Notes
        -----
        One reading: the analytic formula; several: the conversion from concentrated privacy. For
        one reading and σ below `FINE_SIGMA` the discrete distribution may lose more than the
        formula states, so ε is increased until its own δ(ε) is at most δ.
        """
        steps = self.steps_of(shift, touches)
        if (steps, touches) == (self.steps, self.touches):
            return self.epsilon
        formula = analytic_delta if touches == 1 else concentrated_delta
        epsilon = smallest(
            lambda epsilon: formula(epsilon, self.sigma_steps, steps) <= self.delta, 0.0
        )
        if touches > 1 or steps == 0 or self.sigma_steps >= FINE_SIGMA:
            return epsilon
        return _raise_epsilon(epsilon, self.variance, steps, self.exact_delta)

    def describe(self) -> dict[str, Any]:
        """Facts about the noise for a receipt, with the calibration that was used."""
        way = "concentrated" if self.touches > 1 else "analytic, checked on the grid"
        return super().describe() | {"calibration": way}

    def parameters(self) -> dict[str, Any]:
        """See `Mechanism.parameters`."""
        return super().parameters() | {"delta": str(self.exact_delta)}

    def _log_mass(self, magnitude: FloatArray) -> FloatArray:
        return math.log(self._half()[0][0]) - magnitude**2 / (2 * float(self.variance))

    def _tail(self, magnitude: FloatArray) -> FloatArray:
        tails = self._half()[1]
        return tails[np.minimum(magnitude, tails.size - 1).astype(np.int64)]

    def _half(self) -> tuple[FloatArray, FloatArray]:
        return _half_distribution(self.sigma_steps)

    def _fits(self, steps: int) -> bool:
        unit = unit_sigma(self.epsilon, self.delta, self.touches > 1)
        return gaussian_fits(1.01 * unit * steps)

    def _shift_steps(self, shift: Fraction, grid: Fraction, readings: int) -> int:
        """Return the Euclidean length in steps; rounding adds at most √readings steps to it."""
        if readings == 1:
            return super()._shift_steps(shift, grid, 1)
        kept = self.on_grid and grid == self._metered_grid
        stretch = Fraction(0 if kept else math.nextafter(math.sqrt(readings), math.inf))
        return math.ceil(shift / grid + stretch * (1 + ROUNDING_SLACK))

    def _sampler(self) -> Sampler:
        return gaussian_sampler(self.variance, *self._words)


def analytic_delta(epsilon: float, sigma: float, shift: float) -> float:
    """δ(ε) of the continuous Gaussian [1]_.

    Parameters
    ----------
    epsilon : float
        ε.
    sigma : float
        σ, in any unit.
    shift : float
        Distance of the two inputs, in the unit of σ.

    Returns
    -------
    float
        Φ(shift/2σ − εσ/shift) − e^ε·Φ(−shift/2σ − εσ/shift).

    References
    ----------
    .. [1] B. Balle, Y.-X. Wang, "Improving the Gaussian mechanism for differential privacy", 2018.
    """
    from scipy.special import log_ndtr

    if shift == 0:
        return 0.0
    first = float(log_ndtr(shift / (2 * sigma) - epsilon * sigma / shift))
    second = epsilon + float(log_ndtr(-shift / (2 * sigma) - epsilon * sigma / shift))
    # e^first − e^second, written so that two nearly equal numbers are not subtracted.
    return -math.exp(first) * math.expm1(min(0.0, second - first))


def concentrated_delta(epsilon: float, sigma: float, shift: float) -> float:
    """δ(ε) that follows from (shift²/2σ²)-concentrated privacy [1]_.

    Parameters
    ----------
    epsilon : float
        ε.
    sigma : float
        σ, in any unit.
    shift : float
        Euclidean length of the change, in the unit of σ.

    Returns
    -------
    float
        The infimum over the order a in the module's description. Every order gives a valid bound,
        so an inexact minimum is safe.

    References
    ----------
    .. [1] C. Canonne, G. Kamath, T. Steinke, "The discrete Gaussian for differential privacy",
       2020.
    """
    from scipy.optimize import minimize_scalar

    rho = shift**2 / (2 * sigma**2)

    def log_delta(log_order: float) -> float:
        above = math.exp(log_order)
        order = 1 + above
        return above * (order * rho - epsilon) + order * math.log(above / order) - log_order

    best = minimize_scalar(log_delta, bounds=LOG_ORDERS, method="bounded")
    return math.exp(min(0.0, float(best.fun)))


def discrete_delta(
    epsilon: Fraction, variance: Fraction, steps: int, precision: int = 200
) -> Fraction:
    """Certified upper bound of δ(ε) of the discrete Gaussian.

    Parameters
    ----------
    epsilon : Fraction
        ε.
    variance : Fraction
        σ² [grid steps²].
    steps : int
        Distance Δ_g of the two inputs [grid steps].
    precision : int
        The bound is above δ(ε) by about 2^−(precision + 20).

    Returns
    -------
    Fraction
        P(n ≥ t) − e^ε·P(n ≥ t + Δ_g), where t = ⌈εσ²/Δ_g − Δ_g/2⌉ is the smallest outcome at which
        the ratio of the two probabilities reaches e^ε.
    """
    threshold = math.ceil(epsilon * variance / steps - Fraction(steps, 2))
    cut = precision + 40
    bits = cut + 40
    low, high = DiscreteGaussian(variance).masses(bits, cut)
    near, far = _tail_sum(high, threshold), _tail_sum(low, threshold + steps)
    growth = Fraction(1 << bits, exp_minus(epsilon, bits).high)
    # The outcomes beyond the list have less than 2^−cut each. Their probabilities decrease so fast
    # that together they have less than the length of the list times that.
    beyond = Fraction(len(high), 1 << cut)
    return (near - growth * far) / (1 << bits) + beyond


@lru_cache(maxsize=64)
def calibrate_sigma(epsilon: Fraction, delta: Fraction, steps: int, spread: bool) -> float:
    """Smallest σ for (ε, δ), rounded up and checked on the discrete distribution.

    Parameters
    ----------
    epsilon, delta : Fraction
        The promise (ε, δ).
    steps : int
        Length of the protected change [grid steps].
    spread : bool
        True if the change is spread over several readings.

    Returns
    -------
    float
        σ [grid steps].
    """
    sigma = steps * unit_sigma(float(epsilon), float(delta), spread)
    if spread:
        return sigma
    precision = math.ceil(-math.log2(delta))
    raised = 2.0**-20
    while discrete_delta(epsilon, Fraction(sigma) ** 2, steps, precision) > delta:
        sigma *= 1 + raised
        raised = min(2 * raised, 0.02)
    return sigma


@lru_cache(maxsize=64)
def _raise_epsilon(epsilon: float, variance: Fraction, steps: int, delta: Fraction) -> float:
    """Increase ε until the discrete distribution keeps δ for a shift of `steps`."""
    precision = math.ceil(-math.log2(delta))
    raised = 2.0**-20
    while discrete_delta(Fraction(epsilon), variance, steps, precision) > delta:
        epsilon += raised * (1 + epsilon)
        raised = min(2 * raised, 0.02)
    return epsilon


@lru_cache(maxsize=1024)
def unit_sigma(epsilon: float, delta: float, spread: bool) -> float:
    """σ for a change of length one by the continuous formula, rounded up.

    Parameters
    ----------
    epsilon, delta : float
        The promise (ε, δ).
    spread : bool
        True if the change is spread over several readings.

    Notes
    -----
    `concentrated_delta` minimises numerically, which takes most of the time. Its order is at most
    7.2·10⁻⁶ away from the best one (in ln(a − 1)), and never better, so the σ that it accepts lies
    above the exact solution by less than 5.2·10⁻¹¹ of itself. The bisection therefore calls it only
    near the exact solution, and returns the same bits as without this shortcut.
    """
    goal = delta * (1 - 1e-9)
    if not spread:
        return smallest(lambda sigma: analytic_delta(epsilon, sigma, 1.0) <= goal, 1e-6)
    exact_sigma = _concentrated_sigma(epsilon, goal)

    def holds(sigma: float) -> bool:
        if exact_sigma is not None:
            distance = sigma / exact_sigma - 1
            if not -BELOW_SIGMA < distance < ABOVE_SIGMA:
                return distance > 0
        return concentrated_delta(epsilon, sigma, 1.0) <= goal

    return smallest(holds, 1e-6)


def _concentrated_sigma(epsilon: float, delta: float) -> float | None:
    """Solve for the σ of a change of length one at which the best order gives exactly δ.

    With x = a − 1, the derivative of ln δ by x is zero if ρ·(1 + 2x) = ε + ln(1 + 1/x). With this
    ρ(x), ln δ falls with x, so that one bisection over ln x gives the order and ρ = 1/2σ² together.
    None if the order lies outside the range that `concentrated_delta` searches.
    """
    goal = math.log(delta)
    low, high = LOG_ORDERS

    def rho_and_log_delta(log_x: float) -> tuple[float, float]:
        x = math.exp(log_x)
        spare = math.log1p(1 / x)
        rho = (epsilon + spare) / (1 + 2 * x)
        return rho, x * ((1 + x) * rho - epsilon) - (1 + x) * spare - log_x

    if rho_and_log_delta(low)[1] < goal or rho_and_log_delta(high)[1] > goal:
        return None
    while high - low > 1e-15 * max(1.0, abs(low)):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if rho_and_log_delta(middle)[1] > goal else (low, middle)
    return math.sqrt(0.5 / rho_and_log_delta(high)[0])


def smallest(holds: Callable[[float], bool], low: float) -> float:
    """Smallest number from `low` on from which a condition holds, rounded up.

    Parameters
    ----------
    holds : callable
        The condition; once it holds, it holds for every larger number.
    low : float
        Start of the search.
    """
    if holds(low):
        return low
    high = max(1.0, 2 * low)
    while not holds(high):
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _tail_sum(masses: list[int], threshold: int) -> int:
    """Return the sum over outcomes ≥ threshold of a list for 0, −1, 1, −2, 2, …"""
    positive, negative = masses[0::2], masses[1::2]
    if threshold >= 0:
        return sum(positive[threshold:])
    return sum(positive) + sum(negative[:-threshold])


@lru_cache(maxsize=32)
def _half_distribution(sigma: float) -> tuple[FloatArray, FloatArray]:
    """Return P(n = k) and P(n ≥ k) for k = 0, 1, … down to the smallest float64 number."""
    k = np.arange(math.ceil(38.6 * sigma) + 2)
    weights = np.exp(-0.5 * (k / sigma) ** 2)
    masses = weights / (2 * weights[1:].sum() + 1.0)
    tails = np.append(np.cumsum(masses[::-1])[::-1], 0.0)
    masses.setflags(write=False)
    tails.setflags(write=False)
    return masses, tails
