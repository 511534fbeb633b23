"""Theorem 2: the Laplace mechanism, on a grid.

The discrete Laplace law is P(n = k) = (1 − α)/(1 + α)·α^|k| with α = e^(−ε/Δ_g), k in grid steps.

Proof of ε-differential privacy. Inputs that differ by the protected change are at most Δ_g steps
apart after clamping and rounding. For any output the probabilities differ by a factor
α^(|i| − |i + d|) ≤ α^(−|d|) ≤ e^ε for |d| ≤ Δ_g. Changes d_1, d_2, … spread over several readings
multiply to α^(−Σ|d_t|), so Δ_g may be the sum over the `touches` readings of one change.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.checks import FloatArray, IntArray
from hushmeter.errors import MissingExtraError
from hushmeter.noise.distribution import Numbers, as_numbers, grid_steps
from hushmeter.noise.grid import RESIDUAL_BITS, WORD_BITS
from hushmeter.noise.mechanism import MAX_EPSILON, Mechanism
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

    def __init__(
        self,
        epsilon: Exact,
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
        self._rate = float(self.rate)

    @property
    def rate(self) -> Fraction:
        """ε/Δ_g, the exponent per grid step, exactly."""
        return self.exact_epsilon / self.steps

    @property
    def scale(self) -> float:
        """λ = Δ_g·grid/ε [W]."""
        return float(self.exact_grid / self.rate)

    @property
    def mean_abs(self) -> float:
        """E|n| = 2α/(1 − α²) grid steps [W]."""
        return self.grid * 2 * math.exp(-self._rate) / -math.expm1(-2 * self._rate)

    @property
    def std(self) -> float:
        """√(2α)/(1 − α) grid steps [W]."""
        return self.grid * math.sqrt(2.0) * math.exp(-self._rate / 2) / -math.expm1(-self._rate)

    def epsilon_for(self, shift: Exact, touches: int = 1) -> float:
        """ε·steps(shift)/Δ_g for a change by `shift` watts in all, over `touches` readings."""
        return float(self.rate * self.steps_of(shift, touches))

    def _log_mass(self, magnitude: FloatArray) -> FloatArray:
        return math.log(math.tanh(self._rate / 2)) - self._rate * magnitude

    def _tail(self, magnitude: FloatArray) -> FloatArray:
        return np.exp(-self._rate * magnitude) / (1 + math.exp(-self._rate))

    def difference_pmf(self, k: ArrayLike) -> Numbers:
        """((1 − α)/(1 + α))²·α^|k|·(|k| + (1 + α²)/(1 − α²)), k in grid steps."""
        steps = np.abs(grid_steps(k))
        constant = 1 / math.tanh(self._rate)
        value = np.exp(-self._rate * steps) * (steps + constant) * math.tanh(self._rate / 2) ** 2
        return as_numbers(value)

    def _excess_steps(self, steps: FloatArray) -> FloatArray:
        """Σ_{k > b} (k − b)·P(l = k) in closed form, from the first whole k above b on."""
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

    def _through_opendp(self, values: FloatArray) -> IntArray:
        """Rounded readings through OpenDP's discrete Laplace, its scale rounded up."""
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
        scale = math.nextafter(float(1 / self.rate), math.inf)
        return np.asarray(dp.m.make_laplace(*space, scale=scale)(whole), dtype=np.int64)
