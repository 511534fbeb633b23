"""Discrete Gaussian noise: (ε, δ)-differential privacy, the one to use for long spans.

P(n = k) ∝ e^(−k²/2σ²) on the grid. For one reading σ starts from the analytic formula of the
continuous Gaussian,

    δ(ε) = Φ(Δ/2σ − εσ/Δ) − e^ε·Φ(−Δ/2σ − εσ/Δ),

and is raised until the discrete law's own δ(ε) for a shift of Δ_g steps, summed from certified
masses, is at most δ. The law is log-concave, so its threshold sets {n ≥ t} are the best tests and
smaller shifts leak less: checking Δ_g checks them all.

A change spread over several readings has no such one-dimensional check. There the noise is
(Δ²/2σ²)-concentrated private, in any number of readings, and σ is the smallest for which the
conversion δ = inf over a > 1 of e^((a−1)(aρ−ε))·(1 − 1/a)^a/(a − 1), ρ = Δ²/2σ², meets δ; it is a
few per cent larger.

References
----------
.. [1] B. Balle, Y.-X. Wang, "Improving the Gaussian mechanism for differential privacy", 2018.
.. [2] C. Canonne, G. Kamath, T. Steinke, "The discrete Gaussian for differential privacy", 2020.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from hushmeter.checks import FloatArray
from hushmeter.errors import InputError
from hushmeter.noise.fixed import exp_minus
from hushmeter.noise.grid import RESIDUAL_BITS, WORD_BITS
from hushmeter.noise.laws import DiscreteGaussian
from hushmeter.noise.mechanism import MAX_EPSILON, Mechanism
from hushmeter.noise.parameters import ROUNDING_SLACK, Exact, exact
from hushmeter.noise.samplers import Sampler, gaussian_fits, gaussian_sampler

FINE_SIGMA = 64.0
"""From so many grid steps on the continuous law stands for the discrete one."""


class Gaussian(Mechanism):
    """Discrete Gaussian noise with analytic calibration, (ε, δ)-differential privacy.

    `delta` lies in (0, 1); `sensitivity` is the Euclidean length of the change over its `touches`
    readings. See `Mechanism` for the other parameters.
    """

    name: ClassVar[str] = "gaussian"

    def __init__(
        self,
        epsilon: Exact,
        delta: Exact,
        sensitivity: Exact,
        grid: Exact = 1.0,
        *,
        clamp: tuple[float, float] | None = None,
        on_grid: bool = False,
        touches: int = 1,
        max_epsilon: float = MAX_EPSILON,
        engine: str = "table",
        word_bits: int = WORD_BITS,
        residual_bits: int = RESIDUAL_BITS,
    ) -> None:
        self.exact_delta = exact("delta", delta)
        if not Fraction(1, 10**60) <= self.exact_delta < 1:
            raise InputError(f"delta must lie between 1e-60 and 1, got {delta}.")
        super().__init__(
            epsilon,
            sensitivity,
            grid,
            clamp=clamp,
            on_grid=on_grid,
            touches=touches,
            max_epsilon=max_epsilon,
            engine=engine,
            word_bits=word_bits,
            residual_bits=residual_bits,
        )
        sigma = calibrate(self.exact_epsilon, self.exact_delta, self.steps, self.touches > 1)
        self.sigma_steps = sigma
        self.variance = Fraction(sigma) ** 2

    @property
    def delta(self) -> float:
        """δ of (ε, δ)-differential privacy."""
        return float(self.exact_delta)

    @property
    def scale(self) -> float:
        """σ [W]."""
        return self.sigma_steps * self.grid

    @property
    def mean_abs(self) -> float:
        """E|n| [W]."""
        masses = self._half()[0]
        return self.grid * 2 * float(np.dot(np.arange(masses.size), masses))

    @property
    def std(self) -> float:
        """Standard deviation [W]; σ itself up to a term of the order e^(−2π²σ²)."""
        masses = self._half()[0]
        k = np.arange(1.0, masses.size)
        # The mass of 1 is taken out of the root: it may underflow where its root does not.
        beyond = np.exp(-0.5 * (k * k - 1) / self.sigma_steps**2)
        first = math.exp(-0.25 / self.sigma_steps**2)
        return self.grid * first * math.sqrt(2 * float(masses[0] * np.dot(k * k, beyond)))

    def epsilon_for(self, shift: Exact, touches: int = 1) -> float:
        """Smallest ε at the same δ for a change of Euclidean length `shift` watts.

        By the analytic formula of the continuous Gaussian, or the concentrated one for a change
        over several `touches`; ε itself at the sensitivity. Where σ is below 64 steps the law on
        the grid may leak more than the formula says, and ε is raised until its own δ(ε) is at most
        δ; above, the two agree to 1e-4 of δ.
        """
        steps = self.steps_of(shift, touches)
        if (steps, touches) == (self.steps, self.touches):
            return self.epsilon
        formula = analytic_delta if touches == 1 else concentrated_delta
        epsilon = _smallest(
            lambda epsilon: formula(epsilon, self.sigma_steps, steps) <= self.delta, 0.0
        )
        if touches > 1 or steps == 0 or self.sigma_steps >= FINE_SIGMA:
            return epsilon
        return _raise_epsilon(epsilon, self.variance, steps, self.exact_delta)

    def describe(self) -> dict[str, Any]:
        """Plain facts for a receipt, with the calibration used."""
        way = "concentrated" if self.touches > 1 else "analytic, checked on the grid"
        return super().describe() | {"calibration": way}

    def _log_mass(self, magnitude: FloatArray) -> FloatArray:
        return math.log(self._half()[0][0]) - magnitude**2 / (2 * float(self.variance))

    def _tail(self, magnitude: FloatArray) -> FloatArray:
        tails = self._half()[1]
        return tails[np.minimum(magnitude, tails.size - 1).astype(np.int64)]

    def _half(self) -> tuple[FloatArray, FloatArray]:
        return _half_law(self.sigma_steps)

    def _fits(self, steps: int) -> bool:
        unit = unit_sigma(self.epsilon, self.delta, self.touches > 1)
        return gaussian_fits(1.01 * unit * steps)

    def _shift_steps(self, shift: Fraction, grid: Fraction, readings: int) -> int:
        """Euclidean length: rounding stretches it by at most √readings steps."""
        if readings == 1:
            return super()._shift_steps(shift, grid, 1)
        kept = self.on_grid and grid == self._metered_grid
        stretch = Fraction(0 if kept else math.nextafter(math.sqrt(readings), math.inf))
        return math.ceil(shift / grid + stretch * (1 + ROUNDING_SLACK))

    def _sampler(self) -> Sampler:
        return gaussian_sampler(self.variance, *self._words)


def analytic_delta(epsilon: float, sigma: float, shift: float) -> float:
    """δ(ε) of the continuous Gaussian for a shift, both in the same unit as σ."""
    from scipy.special import log_ndtr

    if shift == 0:
        return 0.0
    first = float(log_ndtr(shift / (2 * sigma) - epsilon * sigma / shift))
    second = epsilon + float(log_ndtr(-shift / (2 * sigma) - epsilon * sigma / shift))
    # e^first − e^second without cancelling two close numbers against each other.
    return -math.exp(first) * math.expm1(min(0.0, second - first))


def concentrated_delta(epsilon: float, sigma: float, shift: float) -> float:
    """δ(ε) that (shift²/2σ²)-concentrated privacy implies, minimised over the order a."""
    from scipy.optimize import minimize_scalar

    rho = shift**2 / (2 * sigma**2)

    def log_delta(log_order: float) -> float:
        above = math.exp(log_order)
        order = 1 + above
        return above * (order * rho - epsilon) + order * math.log(above / order) - log_order

    best = minimize_scalar(log_delta, bounds=(-12.0, 16.0), method="bounded")
    return math.exp(min(0.0, float(best.fun)))


def discrete_delta(
    epsilon: Fraction, variance: Fraction, steps: int, precision: int = 200
) -> Fraction:
    """Upper bound of the discrete Gaussian's δ(ε) for a shift of `steps`, certified.

    δ = P(n ≥ t) − e^ε·P(n ≥ t + Δ_g) with the smallest t at which the ratio of the two masses
    reaches e^ε: t = ⌈εσ²/Δ_g − Δ_g/2⌉. The bound is tight to about 2^−(precision + 20).
    """
    threshold = math.ceil(epsilon * variance / steps - Fraction(steps, 2))
    cut = precision + 40
    bits = cut + 40
    low, high = DiscreteGaussian(variance).masses(bits, cut)
    near, far = _tail_sum(high, threshold), _tail_sum(low, threshold + steps)
    growth = Fraction(1 << bits, exp_minus(epsilon, bits).high)
    # Outcomes beyond the list weigh less than 2^−cut each and fall off within its length.
    beyond = Fraction(len(high), 1 << cut)
    return (near - growth * far) / (1 << bits) + beyond


@lru_cache(maxsize=64)
def calibrate(epsilon: Fraction, delta: Fraction, steps: int, spread: bool) -> float:
    """σ in grid steps for (ε, δ) and a change of `steps`, rounded up and checked."""
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
    """ε from `epsilon` on at which the law on the grid keeps δ for a shift of `steps`."""
    precision = math.ceil(-math.log2(delta))
    raised = 2.0**-20
    while discrete_delta(Fraction(epsilon), variance, steps, precision) > delta:
        epsilon += raised * (1 + epsilon)
        raised = min(2 * raised, 0.02)
    return epsilon


@lru_cache(maxsize=64)
def unit_sigma(epsilon: float, delta: float, spread: bool) -> float:
    """σ for a change of one unit by the continuous formula, rounded up."""
    formula = concentrated_delta if spread else analytic_delta
    goal = delta * (1 - 1e-9)
    return _smallest(lambda sigma: formula(epsilon, sigma, 1.0) <= goal, 1e-6)


def _smallest(holds: Callable[[float], bool], low: float) -> float:
    """Smallest number from `low` on at which a condition starts to hold, rounded up."""
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
    """Σ of the masses of outcomes ≥ threshold, from masses listed as 0, −1, 1, −2, 2, …"""
    positive, negative = masses[0::2], masses[1::2]
    if threshold >= 0:
        return sum(positive[threshold:])
    return sum(positive) + sum(negative[:-threshold])


@lru_cache(maxsize=32)
def _half_law(sigma: float) -> tuple[FloatArray, FloatArray]:
    """P(n = k) and P(n ≥ k) for k = 0, 1, … until nothing is left in float64."""
    k = np.arange(math.ceil(38.6 * sigma) + 2)
    weights = np.exp(-0.5 * (k / sigma) ** 2)
    masses = weights / (2 * weights[1:].sum() + 1.0)
    tails = np.append(np.cumsum(masses[::-1])[::-1], 0.0)
    masses.setflags(write=False)
    tails.setflags(write=False)
    return masses, tails
