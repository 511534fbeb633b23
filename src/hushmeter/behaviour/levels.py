"""How much noise: λ [kWh] as the paper gives it, or ε with a stated sensitivity.

Noise is added to every hourly value of a profile by a mechanism of `hushmeter.noise`. The protected
change is Δ kWh within one day, however spread over its hours; then λ = Δ/ε, up to the grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hushmeter.checks import FloatArray, positive, whole
from hushmeter.errors import InputError
from hushmeter.noise.laplace import Laplace
from hushmeter.noise.mechanism import MAX_EPSILON
from hushmeter.noise.parameters import exact, steps_apart

PAPER_SCALES = (0.01, 0.05, 0.1, 0.5)
"""λ of the paper's Fig. 8 [kWh]."""

GRID = 1e-5
"""Step of the noisy profiles [kWh]: a hundredth of a watt-hour."""

_WH = 1000


@dataclass(frozen=True)
class NoiseLevel:
    """Laplace noise on daily profiles.

    Attributes
    ----------
    mechanism : Laplace
        In Wh; its sensitivity is that of a whole day.
    """

    mechanism: Laplace

    @property
    def scale(self) -> float:
        """λ [kWh]."""
        return self.mechanism.scale / _WH

    @property
    def epsilon(self) -> float:
        """ε of a change by `sensitivity` within one day."""
        return self.mechanism.epsilon

    @property
    def sensitivity(self) -> float:
        """Δ [kWh]: summed over the hours of a day."""
        return self.mechanism.sensitivity / _WH

    @property
    def grid(self) -> float:
        """Step of the noisy values [kWh]."""
        return self.mechanism.grid / _WH

    def add_noise(self, profiles: FloatArray, *, rng: int | np.random.Generator) -> FloatArray:
        """Noisy profiles [kWh], a simulation."""
        noisy = self.mechanism.release((profiles * _WH).ravel(), rng=rng)
        noisy /= _WH
        return noisy.reshape(profiles.shape)


def noise_levels(
    *,
    scales: Sequence[float] | None = None,
    epsilons: Sequence[float] | None = None,
    sensitivity: float = 1.0,
    hours: int = 24,
) -> tuple[NoiseLevel, ...]:
    """Levels from the least noise to the most.

    Parameters
    ----------
    scales : sequence of float, optional
        λ [kWh]; the paper's 0.01, 0.05, 0.1 and 0.5 where neither is given.
    epsilons : sequence of float, optional
        ε; cannot be given together with `scales`.
    sensitivity : float
        Δ [kWh]: the change within one day that ε protects.
    hours : int
        Values per profile.
    """
    if scales is not None and epsilons is not None:
        raise InputError("give either scales (λ) or epsilons (ε), not both.")
    change, grid = exact("sensitivity", sensitivity), exact("grid", GRID)
    hours = whole("hours", hours)
    if epsilons is not None:
        losses = [exact("epsilon", epsilon) for epsilon in epsilons]
    else:
        steps = steps_apart(change / grid, Fraction(1), hours)
        losses = [steps * grid / exact("lambda", s) for s in scales or PAPER_SCALES]
    if not losses:
        raise InputError("there must be at least one noise level.")
    return tuple(_level(loss, change, grid, hours) for loss in sorted(losses, reverse=True))


def _level(epsilon: Fraction, change: Fraction, grid: Fraction, hours: int) -> NoiseLevel:
    # A simulation may look at any ε; what is released is limited in `protect`.
    most = positive("epsilon", max(MAX_EPSILON, float(epsilon) * 1.001))
    mechanism = Laplace(epsilon, change * _WH, grid * _WH, touches=hours, max_epsilon=most)
    return NoiseLevel(mechanism)
