"""Theorem 2 of the paper: discrete Laplace noise on a grid.

The discrete Laplace distribution is P(n = k) = (1 − α)/(1 + α)·α^|k| with
α = e^(−ε/Δ_g), k in grid steps.

Proof of ε-differential privacy. Inputs that differ by the protected change are at most Δ_g steps
apart after clamping and rounding. For any output, the two probabilities differ by a factor
α^(|i| − |i + d|) ≤ α^(−|d|) ≤ e^ε for |d| ≤ Δ_g. For changes d_1, d_2, … of several readings the
factors multiply to α^(−Σ|d_t|), so Δ_g may be the sum over the `touches` readings of one change.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from hushmeter.checks import FloatArray
from hushmeter.noise.losses import (
    HOPELESS,
    MAX_POINTS,
    ChangeSize,
    ChangeSteps,
)
from hushmeter.noise.mechanism import Exact, Mechanism
from hushmeter.noise.samplers import (
    MAX_DIGITS,
    Sampler,
    laplace_digits,
    laplace_sampler,
)
from hushmeter.special import log_ndtr


class Laplace(Mechanism):
    """Theorem 2. Discrete Laplace noise, pure ε-differential privacy.

    See `Mechanism` for the parameters.

    Examples
    --------
    >>> mechanism = Laplace(epsilon=0.5, sensitivity=10.0)
    >>> mechanism.steps, mechanism.scale
    (11, 22.0)
    """

    name: ClassVar[str] = "laplace"
    title: ClassVar[str] = "Laplace"
    norm: ClassVar[int] = 1
    paper_bounds: ClassVar[bool] = True

    @staticmethod
    def measure(size: ChangeSize) -> Exact:
        """Sum Δ1 of the changes of all values [W]."""
        return size.l1

    @property
    def rate(self) -> Fraction:
        """Exponent per grid step ε/Δ_g, exactly."""
        return self.exact_epsilon / self.steps

    @cached_property
    def _rate(self) -> float:
        return float(self.rate)

    @property
    def scale(self) -> float:
        """Scale λ = Δ_g·grid/ε [W]."""
        return float(self.exact_grid / self.rate)

    @property
    def mean_abs(self) -> float:
        """Mean absolute value E|n| = 2α/(1 − α²) grid steps [W]."""
        return self.grid * 2 * math.exp(-self._rate) / -math.expm1(-2 * self._rate)

    @property
    def std(self) -> float:
        """Standard deviation √(2α)/(1 − α) grid steps [W]."""
        return self.grid * math.sqrt(2.0) * math.exp(-self._rate / 2) / -math.expm1(-self._rate)

    def exact_epsilon_for(self, shift: Exact, touches: int = 1) -> Fraction:
        """Privacy loss ε·steps(shift)/Δ_g of a sum of `shift` watts over `touches` readings."""
        return self.rate * self.steps_of(shift, touches)

    def largest_loss(self, steps: int) -> float:
        """See `LossDistribution` for the parameters."""
        return self.epsilon * steps / self.steps

    def hockey_stick(self, steps: int, epsilons: FloatArray) -> FloatArray:
        """See `LossDistribution` for the parameters."""
        # The terms are positive on a half line.
        rate = self._rate
        last = np.ceil((steps - epsilons / rate) / 2) - 1
        inside = epsilons < rate * steps
        # Left of zero both distributions are geometric, and every i counts until the loss is
        # below ε.
        gap = self.cdf(last) - np.exp(epsilons) * self.cdf(last - steps)
        everything = epsilons < -rate * steps
        gap = np.where(everything, -np.expm1(epsilons), gap)
        return np.where(inside, np.maximum(gap, 0.0), 0.0)

    def log_second_moment(self, steps: int) -> float:
        """See `LossDistribution` for the parameters."""
        # The sum over k ≤ 0, over 0 < k < s and over k ≥ s of the geometric probabilities.
        rate = self._rate
        loss = rate * steps
        if loss > HOPELESS:
            return loss
        inside = 0.0
        if steps > 1:
            # Σ_{k=1}^{s−1} α^(2s − 3k), divided by Σ_{j≥0} α^j.
            ratio = math.expm1(3 * rate * (steps - 1)) / math.expm1(3 * rate)
            inside = math.exp(-2 * loss + 3 * rate) * ratio * -math.expm1(-rate)
        total = math.exp(-2 * loss) + inside + math.exp(loss)
        return math.log(total / (1 + math.exp(-rate)))

    def losses(self, steps: int, most: int = MAX_POINTS) -> tuple[FloatArray, float, float]:
        """See `LossDistribution` for the parameters."""
        return loss_lattice(steps, self.largest_loss(steps), most)

    def cost(self, moved: ChangeSteps) -> Fraction:
        """See `LossDistribution` for the parameters."""
        return self.rate * sum(times * step for step, times in moved.worst)

    def log_density(self, residuals: FloatArray, spread: float) -> FloatArray:
        """See `GridDistribution` for the parameters."""
        if self.scale < 2 * self.grid:
            return super().log_density(residuals, spread)
        return continuous_log_density(residuals, spread, self.scale)

    def _log_mass(self, magnitude: FloatArray) -> FloatArray:
        return math.log(math.tanh(self._rate / 2)) - self._rate * magnitude

    def _tail(self, magnitude: FloatArray) -> FloatArray:
        return np.exp(-self._rate * magnitude) / (1 + math.exp(-self._rate))

    def _excess_steps(self, steps: FloatArray) -> FloatArray:
        """Return Σ_{k > b} (k − b)·P(l = k) in closed form, from the first whole k above b on.

        The difference l of two draws has P(l = k) = t²·α^|k|·(|k| + (1 + α²)/(1 − α²)) with
        t = (1 − α)/(1 + α).
        """
        alpha, below = math.exp(-self._rate), -math.expm1(-self._rate)
        first = np.floor(steps) + 1
        gap, height = first - steps, first + 1 / math.tanh(self._rate)
        sums = gap * height / below + (gap + height) * alpha / below**2
        sums += alpha * (1 + alpha) / below**3
        return np.exp(-self._rate * first) * sums * math.tanh(self._rate / 2) ** 2

    def _fits(self, steps: int) -> bool:
        return laplace_digits(self.exact_epsilon / steps) <= MAX_DIGITS

    def _sampler(self) -> Sampler:
        return laplace_sampler(self.rate)


def loss_lattice(steps: int, loss: float, most: int) -> tuple[FloatArray, float, float]:
    """Distribution of the loss (|n + s| − |n|)·loss/s; see `LossDistribution.losses`.

    The values go from −s to s in steps of two. A lattice that is too fine to convolve is made
    coarser, which changes the result by about (loss/steps)².
    """
    s = max(1, min(steps, most))
    rate = loss / s
    masses = math.tanh(rate / 2) * np.exp(-rate * np.arange(s, -1.0, -1.0))
    # All n ≤ −s give the lowest ratio and all n ≥ 0 the highest.
    masses[0] = math.exp(-loss) / (1 + math.exp(-rate))
    masses[-1] = 1 / (1 + math.exp(-rate))
    return masses, 2 * rate, -s / 2


def continuous_log_density(residuals: FloatArray, spread: float, scale: float) -> FloatArray:
    """Log-density [log(1/W)] of the sum of N(0, σ²) and Laplace noise of scale λ, σ and λ in watts.

    f(r) = e^(σ²/2λ²) / 2λ · (e^(−r/λ) Φ(r/σ − σ/λ) + e^(r/λ) Φ(−r/σ − σ/λ)). Logarithms avoid the
    overflow of the factors.
    """
    r, ratio = residuals / scale, spread / scale
    u = residuals / spread
    both = np.logaddexp(log_ndtr(u - ratio) - r, log_ndtr(-u - ratio) + r)
    log_density: FloatArray = both + ratio**2 / 2 - math.log(2 * scale)
    return log_density
