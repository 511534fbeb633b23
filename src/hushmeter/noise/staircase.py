"""Algorithm 3: the staircase mechanism, on a grid.

With b = e^(−ε), Δ = Δ_g grid steps and an inner width r of 1 … Δ steps,

    P(n = i) = a·b^k        for kΔ ≤ |i| < kΔ + r,
               a·b^(k+1)    for kΔ + r ≤ |i| < (k+1)Δ,
    a = (1 − b)/(2r + 2b(Δ − r) − (1 − b)).

Proof of ε-differential privacy. P never increases with |i|, and P(|i| + Δ) = b·P(|i|). Inputs that
differ by the protected change are d ≤ Δ steps apart after clamping and rounding. Since
|i + d| ≤ |i| + Δ, P(i)/P(i + d) ≤ 1/b = e^ε. The proof is for one reading: unlike with Laplace
noise, a small change of each of many readings may cost ε for each of them.

References
----------
.. [1] Q. Geng, P. Kairouz, S. Oh, P. Viswanath, "The staircase mechanism in differential privacy",
   IEEE Journal of Selected Topics in Signal Processing 9(7), 2015.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from hushmeter.checks import FloatArray, whole
from hushmeter.errors import InputError
from hushmeter.noise.mechanism import Mechanism
from hushmeter.noise.parameters import Exact
from hushmeter.noise.samplers import Sampler, staircase_fits, staircase_sampler


class Staircase(Mechanism):
    """Algorithm 3. Discrete staircase noise, pure ε-differential privacy of one reading.

    See `Mechanism` for the parameters; `touches` must be 1. Of the two whole numbers next to
    Δ_g/(1 + e^(ε/2)), the inner width r is the one with the smaller E|n|.

    Examples
    --------
    >>> mechanism = Staircase(epsilon=1.0, sensitivity=10.0)
    >>> mechanism.steps, mechanism.inner
    (11, 5)
    """

    name: ClassVar[str] = "staircase"

    def _check_grid(self) -> None:
        if self.touches != 1:
            raise InputError(
                "the staircase protects one reading; for a change spread over several readings "
                "use Laplace or Gaussian."
            )
        super()._check_grid()

    @cached_property
    def inner(self) -> int:
        """Inner width r of a stair [grid steps]."""
        return best_inner(self.epsilon, self.steps)

    @property
    def scale(self) -> float:
        """Mean absolute value E|n| [W]: the scale of Laplace noise with the same mean size."""
        return self.mean_abs

    @property
    def mean_abs(self) -> float:
        """Mean absolute value E|n| [W]; Δf·e^(ε/2)/(e^ε − 1) in the limit of a fine grid."""
        return self.grid * _mean_abs(self.epsilon, self.steps, self.inner)

    @property
    def std(self) -> float:
        """Standard deviation [W]."""
        near, far = _moment(self.epsilon, self.steps, self.inner, 2)
        # √b is a separate factor, because b itself may underflow to zero.
        return self.grid * math.hypot(math.sqrt(near), math.exp(-self.epsilon / 2) * math.sqrt(far))

    def epsilon_for(self, shift: Exact, touches: int = 1) -> float:
        """Privacy loss ε·touches·⌈steps(shift)/Δ_g⌉.

        Parameters
        ----------
        shift : exact number
            Change of each reading [W].
        touches : int
            Number of readings that change.
        """
        stairs = -(-self.steps_of(shift) // self.steps)
        return float(self.exact_epsilon * whole("touches", touches) * stairs)

    def _log_mass(self, magnitude: FloatArray) -> FloatArray:
        stair, place = np.divmod(magnitude, float(self.steps))
        heights: FloatArray = stair + (place >= self.inner)
        return math.log(_unit(self.epsilon, self.steps, self.inner)) - self.epsilon * heights

    def _tail(self, magnitude: FloatArray) -> FloatArray:
        stair, place = np.divmod(magnitude, float(self.steps))
        b, r = math.exp(-self.epsilon), self.inner
        rest = np.maximum(0.0, r - place) + b * np.minimum(self.steps - r, self.steps - place)
        period = r + b * (self.steps - r)
        sums: FloatArray = rest + b * period / -math.expm1(-self.epsilon)
        return _unit(self.epsilon, self.steps, r) * np.exp(-self.epsilon * stair) * sums

    @property
    def _decay(self) -> Fraction:
        return self.exact_epsilon

    def _fits(self, steps: int) -> bool:
        return staircase_fits(self.exact_epsilon, steps)

    def _sampler(self) -> Sampler:
        return staircase_sampler(self.exact_epsilon, self.steps, self.inner, *self._words)


def best_inner(epsilon: float, steps: int) -> int:
    """Inner width r of a stair with the smallest E|n|.

    Parameters
    ----------
    epsilon : float
        ε of one reading.
    steps : int
        Sensitivity Δ_g [grid steps].

    Returns
    -------
    int
        The better of the two whole numbers next to Δ_g/(1 + e^(ε/2)), within 1 … Δ_g [grid steps].
    """
    middle = steps * math.exp(-epsilon / 2) / (1 + math.exp(-epsilon / 2))
    choices = {min(steps, max(1, r)) for r in (math.floor(middle), math.ceil(middle))}
    return min(sorted(choices), key=lambda r: _mean_abs(epsilon, steps, r))


def _unit(epsilon: float, steps: int, inner: int) -> float:
    """Return a, the probability of zero."""
    b, below = math.exp(-epsilon), -math.expm1(-epsilon)
    return below / (2 * inner + 2 * b * (steps - inner) - below)


def _mean_abs(epsilon: float, steps: int, inner: int) -> float:
    """Return E|n| in grid steps."""
    near, far = _moment(epsilon, steps, inner, 1)
    return near + math.exp(-epsilon) * far


def _moment(epsilon: float, steps: int, inner: int, order: int) -> tuple[float, float]:
    """Return near and far with E|n|^order = near + b·far in grid steps, for order 1 or 2.

    Stair k contributes Σ_j (kΔ + j)^order, which is a polynomial in k; the sums over k of b^k,
    k·b^k and k²·b^k are 1/(1 − b), b/(1 − b)² and b(1 + b)/(1 − b)³. The factor b is kept apart
    so that `std` can take its root before it underflows.
    """
    b, below = math.exp(-epsilon), -math.expm1(-epsilon)
    sums = (1 / below, 1 / below**2, (1 + b) / below**3)
    twice = 2 * _unit(epsilon, steps, inner)
    parts = []
    for first, last in ((0, inner), (inner, steps)):
        powers = [float(_power_sum(last, p) - _power_sum(first, p)) for p in range(order + 1)]
        parts.append(
            [
                twice * math.comb(order, p) * powers[order - p] * float(steps) ** p * sums[p]
                for p in range(order + 1)
            ]
        )
    inside, outside = parts
    return inside[0], sum(inside[1:]) + outside[0] + b * sum(outside[1:])


def _power_sum(count: int, power: int) -> Fraction:
    """Return Σ j^power for j = 0 … count − 1."""
    m = count - 1
    return Fraction([count, m * count // 2, m * count * (2 * m + 1) // 6][power])
