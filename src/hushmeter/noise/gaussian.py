r"""Discrete Gaussian noise: (ε, δ)-differential privacy, suited to changes of many readings.

P(n = k) ∝ e^(−k²/2σ²) on the grid. The continuous Gaussian has the analytic formula [1]_

    δ(ε) = Φ(Δ/2σ − εσ/Δ) − e^ε·Φ(−Δ/2σ − εσ/Δ)

for a change of the Euclidean length Δ over any number of readings. Noise on a grid is not invariant
under rotation, so the formula does not hold for it as it stands.

*Theorem.* For a change by any vector d of m whole grid steps, the discrete noise with parameter
σ ≥ 2 has at most the δ(ε) of the continuous noise with σ'² = σ² − 3/2 (`continuous_sigma`), up to a
relative error of δ below 10⁻⁹ for m ≤ 10⁶ and ε·σ²/Δ² ≤ 10⁴.

*Proof.* Let v = 3/2 and let φ_s be the density of N(0, s). Draw x from N(c, σ'²) for a whole number
c, and then a whole number k with the probability φ_v(k − x)/A(x), A(x) = Σ_j φ_v(j − x). The second
step uses x alone, so the m numbers k together have at most the δ(ε) of the m numbers x: for centres
0 and d that is the analytic formula with σ' and Δ = |d|. What is the distribution of k? Since
φ_σ'²(x − c)·φ_v(k − x) = φ_σ²(k − c)·φ_τ²(x − μ) with some μ and τ² = v·σ'²/σ²,

    P(k) = φ_σ²(k − c)·E[1/A(X)],   X from N(μ, τ²).

By Poisson's formula A(x) = 1 + 2·Σ_{j≥1} e^(−2π²vj²)·cos(2πjx), so |A − 1| ≤ η = 2.1·e^(−2π²v), and
the Fourier coefficients of the periodic function 1/A are at most 2η, except for the constant one.
The expectation of e^(2πijX) is at most e^(−2π²j²τ²), hence E[1/A(X)] differs from one constant for
all k by at most 5η·e^(−2π²τ²). Both P(k) and the discrete Gaussian add up to one, so their ratio is
within 1 ± 11η·e^(−2π²τ²), and τ² ≥ 15/16 gives κ = 3·10⁻²⁰ for each number. The δ(ε) of the
discrete noise is therefore at most e^(κm) times that of x at ε − 2κm. ∎

*Several readings.* σ follows from the analytic formula for σ'. The noise is also ρ-concentrated
differentially private with ρ = Δ²/2σ² for every σ [2]_, which gives

    δ = inf over a > 1 of e^((a−1)(aρ−ε))·(1 − 1/a)^a/(a − 1).

This needs 1 to 40 % more σ than continuous noise does, but nothing more on a coarse grid. It is
used below 64 steps where it needs less.

*One reading.* Below 64 steps σ starts from the analytic formula and is increased until the δ(ε) of
the discrete distribution itself, for a shift of Δ_g steps and computed from certified
probabilities, is at most δ. Checking Δ_g is sufficient: the distribution is log-concave, so the
sets {n ≥ t} are the best tests and a smaller shift has a smaller δ(ε).

References
----------
.. [1] B. Balle, Y.-X. Wang, "Improving the Gaussian mechanism for differential privacy", ICML 2018.
.. [2] C. Canonne, G. Kamath, T. Steinke, "The discrete Gaussian for differential privacy",
   NeurIPS 2020.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Self, Unpack

import numpy as np

from hushmeter.checks import FloatArray, positive
from hushmeter.errors import InputError
from hushmeter.noise.losses import (
    DELTA,
    MAX_POINTS,
    ChangeSize,
    ChangeSteps,
    Composition,
    Steps,
    log_odds,
    sum_distribution,
)
from hushmeter.noise.mechanism import (
    MAX_EPSILON,
    ROUNDING_SLACK,
    Exact,
    Mechanism,
    MechanismOptions,
    exact,
)
from hushmeter.noise.samplers import Sampler, gaussian_fits, gaussian_sampler
from hushmeter.noise.table_sampler import DiscreteGaussian, exp_minus
from hushmeter.special import log_phi, ndtr

FINE_SIGMA = 64.0
"""σ [grid steps] from which only the formulas of continuous noise are used.

The theorem of this module then costs at most 0.02 % of σ."""

LEAST_SIGMA = 2.0
"""Smallest σ [grid steps] for which the theorem of this module is proved."""

GRID_VARIANCE = 1.5
"""Variance v by which discrete noise must exceed continuous noise with the same δ(ε) [steps²]."""

SLACK = 1e-9
"""Share of δ that is kept for the theorem's relative error and for rounding."""

WIDE_SUM = 1e4
"""σ of a sum of values [grid steps] from which a correction by half a step is exact to 1e-10."""

REACH = 9.0
"""Range of the loss of one value [standard deviations]; beyond it lies less than 1e-18."""


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
    sigma_steps : float, optional
        σ [grid steps], if it is not to follow from ε; see `Gaussian.of_sigma`.
    **options
        See `Mechanism`.

    Examples
    --------
    >>> round(hm.Gaussian(epsilon=1.0, delta=1e-6, sensitivity=10.0).std, 1)
    46.5
    """

    name: ClassVar[str] = "gaussian"
    title: ClassVar[str] = "Gaussian"
    norm: ClassVar[int] = 2
    shares_budget: ClassVar[bool] = True

    def __init__(
        self,
        epsilon: Exact,
        delta: Exact,
        sensitivity: Exact,
        grid: Exact = 1.0,
        *,
        sigma_steps: float | None = None,
        **options: Unpack[MechanismOptions],
    ) -> None:
        # The shared constructor chooses the grid, and the width of the noise depends on δ.
        self.exact_delta = exact("delta", delta)
        if not Fraction(1, 10**60) <= self.exact_delta < 1:
            raise InputError(f"delta must lie between 1e-60 and 1, got {delta}.")
        self._stated = None if sigma_steps is None else positive("sigma_steps", sigma_steps)
        if self._stated is not None and not gaussian_fits(self._stated):
            raise InputError(
                f"noise of {sigma_steps} grid steps is too wide for the sampler; choose a coarser "
                "grid."
            )
        super().__init__(epsilon, sensitivity, grid, **options)
        if self._stated is None:
            self.sigma_steps, self.calibration = calibrate_sigma(
                self.exact_epsilon, self.exact_delta, self.steps, self.touches > 1
            )
            return
        self.sigma_steps, self.calibration = self._stated, "stated"
        least = self._epsilon_at(self.steps, self.touches > 1)
        if least > self.epsilon:
            raise InputError(
                f"noise of {sigma_steps} grid steps has epsilon {least:g} for a change of "
                f"{self.sensitivity:g} W, above {self.epsilon:g}; raise sigma_steps or epsilon."
            )

    @classmethod
    def of_sigma(
        cls,
        sigma_steps: float,
        sensitivity: Exact,
        grid: Exact = 1.0,
        *,
        delta: Exact = DELTA,
        **options: Unpack[MechanismOptions],
    ) -> Self:
        """Make noise with a σ of `sigma_steps` grid steps, as for one of several tables.

        The other parameters (`sensitivity`, `grid`, `delta`, `options`) are those of the
        constructor, but the grid is never made coarser. The ε of the result is what the protected
        change costs at this σ and δ. Raise `InputError` if σ does not fit the sampler, or ε would
        exceed `max_epsilon`.
        """
        most = options.get("max_epsilon", MAX_EPSILON)
        made = cls(most, delta, sensitivity, grid, sigma_steps=sigma_steps, **options)
        least = made._epsilon_at(made.steps, made.touches > 1)
        made.exact_epsilon = exact("epsilon", max(least, SLACK))
        return made

    @property
    def _decay(self) -> Fraction:
        # A stated σ decides the noise; ε follows from it.
        return super()._decay if self._stated is None else Fraction(0)

    @staticmethod
    def measure(size: ChangeSize) -> Exact:
        """Euclidean length Δ2 of the change of all values [W]."""
        return size.l2

    @classmethod
    def _promise(cls, epsilon: Exact, delta: Exact, size: ChangeSize) -> dict[str, Any]:
        return super()._promise(epsilon, delta, size) | {"delta": delta}

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

    def exact_epsilon_for(self, shift: Exact, touches: int = 1) -> Fraction:
        """Smallest ε at the same δ for a length of `shift` watts over `touches` readings."""
        steps = self.steps_of(shift, touches)
        if (steps, touches) == (self.steps, self.touches):
            return self.exact_epsilon
        return Fraction(self._epsilon_at(steps, touches > 1))

    def halved(self) -> Self:
        """See `Mechanism.halved`."""
        broken = copy.copy(self)
        broken.sigma_steps /= 2
        return broken

    def describe(self) -> dict[str, Any]:
        """Facts about the noise for a receipt, with the calibration that was used."""
        return super().describe() | {"calibration": self.calibration}

    def parameters(self) -> dict[str, Any]:
        """See `Mechanism.parameters`."""
        stated = {} if self._stated is None else {"sigma_steps": self._stated}
        return super().parameters() | {"delta": str(self.exact_delta)} | stated

    def largest_loss(self, steps: int) -> float:
        """See `LossDistribution` for the parameters."""
        ratio = steps / self.sigma_steps
        return ratio**2 / 2 + REACH * ratio

    def losses(self, steps: int, most: int = MAX_POINTS) -> tuple[FloatArray, float, float]:  # noqa: ARG002
        """See `LossDistribution` for the parameters."""
        reach = math.ceil(12 * self.sigma_steps) + 1
        masses = np.asarray(self.pmf(np.arange(-reach, reach + 1)))
        return masses, steps / self.sigma_steps**2, steps / 2 - reach

    def hockey_stick(self, steps: int, epsilons: FloatArray) -> FloatArray:
        """See `LossDistribution` for the parameters."""
        # The ratio is e^ε at i = k/2 − ε·σ²/k, and larger below.
        last = np.ceil(steps / 2 - epsilons * self.sigma_steps**2 / steps) - 1
        gap = self.cdf(last) - np.exp(epsilons) * self.cdf(last - steps)
        return np.maximum(np.asarray(gap), 0.0)

    def log_second_moment(self, steps: int) -> float:
        """See `LossDistribution` for the parameters."""
        # Completing the square gives e^(s²/σ²) times the sum of the shifted probabilities, 1.
        return (steps / self.sigma_steps) ** 2

    def limits(self, steps: FloatArray, priors: FloatArray, readings: int) -> FloatArray:
        """See `LossDistribution` for the parameters."""
        # The answer is "on" if the values add up to more than τσ²/s + L·s/2 steps.
        with np.errstate(divide="ignore"):
            cut = log_odds(priors) * self.sigma_steps**2 / steps + readings * steps / 2
        low, high = np.floor(cut), np.floor(cut) - readings * steps
        wide = self.sigma_steps * math.sqrt(readings)
        if wide > WIDE_SUM:
            return np.asarray(
                priors * ndtr(-(high + 0.5) / wide) + (1 - priors) * ndtr((low + 0.5) / wide)
            )
        masses = self.losses(1)[0]
        places, law = sum_distribution(masses, readings, margin=0.0)
        places = places - readings * (masses.size // 2)
        below = np.concatenate([[0.0], np.cumsum(law)])
        named_off = below[np.searchsorted(places, low, side="right")]
        named_on = 1 - below[np.searchsorted(places, high, side="right")]
        optima = priors * named_on + (1 - priors) * named_off
        return np.asarray(np.clip(optima, np.maximum(priors, 1 - priors), 1.0))

    def cost(self, moved: ChangeSteps) -> float:
        """See `LossDistribution` for the parameters."""
        length = self.steps_of(moved.size.l2, moved.size.touches)
        return self._epsilon_at(min(length, _length(moved.worst)), spread=True)

    @classmethod
    def odds_at(cls, length: float, std: float) -> float:
        """See `LossDistribution` for the parameters."""
        return 0.5 * math.erfc(-length / (2 * std) / math.sqrt(2))

    def compose_steps(self, steps: Steps, delta: float) -> Composition:
        """See `LossDistribution` for the parameters."""
        if self.sigma_steps < FINE_SIGMA:
            return super().compose_steps(steps, delta)
        count, sigma = sum(times for _, times in steps), continuous_sigma(self.sigma_steps)
        share, length = delta / count, _length(steps)
        basic = sum(times * analytic_epsilon(sigma, step, share) for step, times in steps)
        kept = min(basic, analytic_epsilon(sigma, length, delta))
        return Composition(count, basic, kept, self.odds_at(length, sigma))

    def change_odds(self, moved: ChangeSteps) -> float:
        """See `LossDistribution` for the parameters."""
        if self.sigma_steps < FINE_SIGMA:
            return super().change_odds(moved)
        return self.odds_at(_length(moved.worst), continuous_sigma(self.sigma_steps))

    def _epsilon_at(self, steps: float, spread: bool) -> float:
        """Return the smallest ε at the noise's δ for a change of `steps` grid steps in length."""
        sigma, delta = self.sigma_steps, self.delta * (1 - SLACK)
        if sigma >= FINE_SIGMA or steps == 0:
            return analytic_epsilon(continuous_sigma(sigma), steps, delta)
        if not spread:
            least = analytic_epsilon(sigma, steps, delta)
            return _raise_epsilon(least, self.variance, int(steps), self.exact_delta)
        epsilon = concentrated_epsilon((steps / sigma) ** 2 / 2, delta)
        if sigma < LEAST_SIGMA:
            return epsilon
        return min(epsilon, analytic_epsilon(continuous_sigma(sigma), steps, delta))

    def _typical_loss(self, steps: int) -> float:
        """Return the mean loss or its standard deviation, whichever is larger."""
        ratio = steps / self.sigma_steps
        return max(ratio, ratio**2 / 2)

    def _sum_of_losses(self, steps: Steps, delta: float) -> float:
        share = delta / sum(times for _, times in steps)
        rho = 0.5 / self.sigma_steps**2
        # The conversion from concentrated privacy holds for the discrete Gaussian of any width.
        return sum(times * concentrated_epsilon(rho * step**2, share) for step, times in steps)

    def _log_mass(self, magnitude: FloatArray) -> FloatArray:
        return math.log(self._half()[0][0]) - magnitude**2 / (2 * float(self.variance))

    def _tail(self, magnitude: FloatArray) -> FloatArray:
        tails = self._half()[1]
        return tails[np.minimum(magnitude, tails.size - 1).astype(np.int64)]

    def _half(self) -> tuple[FloatArray, FloatArray]:
        return _half_distribution(self.sigma_steps)

    def _fits(self, steps: int) -> bool:
        if self._stated is not None:
            return True
        return gaussian_fits(1.01 * unit_sigma(self.epsilon, self.delta, False) * steps)

    def _shift_steps(self, shift: Fraction, grid: Fraction, readings: int) -> int:
        """Return the Euclidean length in steps; rounding adds at most √readings steps to it."""
        if readings == 1:
            return super()._shift_steps(shift, grid, 1)
        kept = self.on_grid and grid == self._metered_grid
        stretch = Fraction(0 if kept else math.nextafter(math.sqrt(readings), math.inf))
        return math.ceil(shift / grid + stretch * (1 + ROUNDING_SLACK))

    def _sampler(self) -> Sampler:
        return gaussian_sampler(self.variance)


def analytic_delta(epsilon: float, sigma: float, shift: float) -> float:
    """δ(ε) of continuous noise [1]_ for a change by `shift`, in the unit of `sigma`."""
    if shift == 0:
        return 0.0
    first = log_phi(shift / (2 * sigma) - epsilon * sigma / shift)
    second = epsilon + log_phi(-shift / (2 * sigma) - epsilon * sigma / shift)
    # e^first − e^second, written so that two nearly equal numbers are not subtracted.
    return -math.exp(first) * math.expm1(min(0.0, second - first))


def concentrated_epsilon(rho: float, delta: float) -> float:
    """Smallest ε at δ that follows from ρ-concentrated differential privacy [2]_.

    With x = a − 1, the derivative of ln δ by x is zero if ε = ρ·(1 + 2x) − ln(1 + 1/x), and ln δ is
    then −ρx² − ln(1 + x), which falls with x. Every x gives a valid pair (ε, δ), so that an inexact
    solution is safe.
    """
    x = _smallest_order(lambda x: -rho * x * x - math.log1p(x) <= math.log(delta))
    return max(0.0, rho * (1 + 2 * x) - math.log1p(1 / x))


def _concentrated_sigma(epsilon: float, delta: float) -> float:
    """Return the smallest σ for a change of length one by concentrated privacy, rounded up."""

    def rho(x: float) -> float:
        return (epsilon + math.log1p(1 / x)) / (1 + 2 * x)

    x = _smallest_order(lambda x: -rho(x) * x * x - math.log1p(x) <= math.log(delta))
    return math.sqrt(0.5 / rho(x)) * (1 + 1e-14)


def _smallest_order(holds: Callable[[float], bool]) -> float:
    """Return the smallest x = a − 1 for which a condition holds, to 14 digits."""
    low, high = -80.0, 80.0
    while high - low > 1e-14:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (low, middle) if holds(math.exp(middle)) else (middle, high)
    return math.exp(high)


def discrete_delta(
    epsilon: Fraction, variance: Fraction, steps: int, precision: int = 200
) -> Fraction:
    """Certified upper bound of δ(ε) of discrete noise for a shift by `steps` grid steps.

    It is P(n ≥ t) − e^ε·P(n ≥ t + Δ_g), where t = ⌈εσ²/Δ_g − Δ_g/2⌉ is the smallest outcome at
    which the ratio of the two probabilities reaches e^ε. It is above δ(ε) by 2^−(precision + 20).
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
def calibrate_sigma(
    epsilon: Fraction, delta: Fraction, steps: int, spread: bool
) -> tuple[float, str]:
    """Smallest σ [grid steps] for (ε, δ) and a change of length `steps`, and how it was found.

    `spread` is True if the change is spread over several readings.
    """
    plain = steps * unit_sigma(float(epsilon), float(delta), False)
    analytic = math.sqrt(plain**2 + GRID_VARIANCE)
    if analytic >= FINE_SIGMA:
        return analytic, "analytic"
    if spread:
        concentrated = steps * unit_sigma(float(epsilon), float(delta), True)
        if LEAST_SIGMA <= analytic < concentrated:
            return analytic, "analytic"
        return concentrated, "concentrated"
    precision = math.ceil(-math.log2(delta))
    sigma, raised = plain, 2.0**-20
    while discrete_delta(epsilon, Fraction(sigma) ** 2, steps, precision) > delta:
        sigma *= 1 + raised
        raised = min(2 * raised, 0.02)
    return sigma, "analytic, checked on the grid"


def continuous_sigma(sigma: float) -> float:
    """σ' [grid steps] of continuous noise that is no more private than discrete noise with σ ≥ 2.

    See the theorem of this module. Noise with different σ_j on several tables has at most the δ(ε)
    of continuous noise with σ'_j.
    """
    return math.sqrt(sigma**2 - GRID_VARIANCE)


def analytic_epsilon(sigma: float, shift: float, delta: float) -> float:
    """Smallest ε with `analytic_delta` of at most δ for a change by `shift`, in the unit of σ."""
    return smallest(lambda epsilon: analytic_delta(epsilon, sigma, shift) <= delta, 0.0)


def joint_sigmas(
    epsilon: float, delta: float, lengths: FloatArray, shares: FloatArray
) -> FloatArray:
    """Smallest σ_j [grid steps] with which several tables together keep (ε, δ).

    Table j moves by at most `lengths[j]` grid steps in Euclidean length and has the share a_j of
    the budget: Σ s_j²/σ'_j² = μ² with s_j²/σ'_j² = a_j·μ².
    """
    parts = lengths / np.sqrt(shares)
    analytic = np.sqrt((parts * unit_sigma(epsilon, delta, False)) ** 2 + GRID_VARIANCE)
    if analytic.min() >= LEAST_SIGMA:
        return np.asarray(analytic)
    return np.asarray(parts * unit_sigma(epsilon, delta, True))


def joint_epsilon(noises: Sequence[Mechanism], lengths: FloatArray, delta: float) -> float:
    """ε at δ of a change that moves several tables with Gaussian noise by some lengths [steps]."""
    sigmas, goal = _sigmas(noises), delta * (1 - SLACK)
    if sigmas.min() < LEAST_SIGMA:
        return concentrated_epsilon(float(((lengths / sigmas) ** 2).sum() / 2), goal)
    continuous = np.sqrt(sigmas**2 - GRID_VARIANCE)
    return _epsilon_of_length(float(np.linalg.norm(lengths / continuous)), goal)


@lru_cache(maxsize=256)
def _epsilon_of_length(length: float, delta: float) -> float:
    """Smallest ε at δ of a change by `length` standard deviations of continuous noise."""
    return analytic_epsilon(1.0, length, delta)


def joint_odds(noises: Sequence[Mechanism], lengths: FloatArray) -> float:
    """Odds of the best attacker about a change of several tables by some lengths [grid steps].

    Noise of less than `LEAST_SIGMA` steps has a divergence of at most μ²/2, so by the inequality
    of Pinsker a total variation of at most μ/2.
    """
    sigmas = _sigmas(noises)
    if sigmas.min() < LEAST_SIGMA:
        return min(1.0, 0.5 + float(np.linalg.norm(lengths / sigmas)) / 4)
    length = float(np.linalg.norm(lengths / np.sqrt(sigmas**2 - GRID_VARIANCE)))
    return Gaussian.odds_at(length, 1.0)


def _sigmas(noises: Sequence[Mechanism]) -> FloatArray:
    """σ of every table [grid steps]; only Gaussian noise can share a budget in this way."""
    found = []
    for noise in noises:
        if not isinstance(noise, Gaussian):
            raise InputError(f"tables that share a budget need Gaussian noise, not {noise.name}.")
        found.append(noise.sigma_steps)
    return np.array(found)


def _length(steps: Steps) -> float:
    """Return the Euclidean length of changes [grid steps]."""
    return math.sqrt(sum(times * step**2 for step, times in steps))


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
    """σ for a change of length one, rounded up: by concentrated privacy for a `spread` change."""
    goal = delta * (1 - SLACK)
    if spread:
        return _concentrated_sigma(epsilon, goal)
    return smallest(lambda sigma: analytic_delta(epsilon, sigma, 1.0) <= goal, 1e-6)


def smallest(holds: Callable[[float], bool], low: float) -> float:
    """Smallest number, at least `low`, from which on a condition always holds, rounded up."""
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
