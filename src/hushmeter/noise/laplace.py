"""Theorem 2: the Laplace mechanism, on a grid.

The discrete Laplace distribution is P(n = k) = (1 − α)/(1 + α)·α^|k| with α = e^(−ε/Δ_g), k in
grid steps.

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

from hushmeter.checks import FloatArray, IntArray
from hushmeter.errors import MissingExtraError
from hushmeter.noise.mechanism import Mechanism
from hushmeter.noise.parameters import Exact, per_watt
from hushmeter.noise.samplers import MAX_DIGITS, Sampler, laplace_digits, laplace_sampler


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
    engines: ClassVar[tuple[str, ...]] = ("table", "opendp")

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

    def epsilon_for(self, shift: Exact, touches: int = 1) -> float:
        """Privacy loss ε·steps(shift)/Δ_g of a change of `shift` watts in total.

        Parameters
        ----------
        shift : exact number
            Sum of the changes of the readings [W].
        touches : int
            Number of readings over which the change is spread.
        """
        return float(self.rate * self.steps_of(shift, touches))

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
        return laplace_sampler(self.rate, *self._words)

    def _release_with_opendp(self, values: FloatArray) -> IntArray:
        """Return rounded readings with the discrete Laplace noise of OpenDP, in grid steps."""
        try:
            import opendp.prelude as dp
        except ImportError:
            raise MissingExtraError("engine 'opendp'", "opendp") from None
        low, high = self._bounds()
        ratio = per_watt(self.exact_grid)
        whole = np.floor(np.clip(values, low, high) * ratio + 0.5).astype(np.int64)
        if not whole.size:
            return whole
        dp.enable_features("contrib")
        space = dp.vector_domain(dp.atom_domain(T=dp.i64)), dp.l1_distance(T=dp.i64)
        # OpenDP takes the scale as a float: rounded up, it never gives less noise than promised.
        scale = math.nextafter(float(1 / self.rate), math.inf)
        return np.asarray(dp.m.make_laplace(*space, scale=scale)(whole), dtype=np.int64)
