"""What a change costs and what an attacker can learn: the losses of released values.

The noise of every released value is independent, so the losses of the values that a change moves
add up. Every kind of noise answers here for itself: the distribution of the loss of one value, the
worst way in which a change can be divided among several values, and the best guess about one bit.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from typing import NamedTuple, Protocol

import numpy as np

from hushmeter.checks import FloatArray
from hushmeter.noise.distribution import GridDistribution
from hushmeter.noise.parameters import Exact
from hushmeter.noise.privacy_loss import (
    Composition,
    PrivacyLoss,
    compose_loss,
    connect_dots,
    epsilon_at,
)

DELTA = 1e-6
"""Default failure probability δ' of a composed ε."""

CELLS = 60
"""Cells of the loss lattice per loss of one value; the composed ε is at most 1e-4 too large."""

HOPELESS = 50.0
"""Loss of one value beyond which the PLD saves less than 1/50 of the basic composition."""

MAX_POINTS = 1 << 22
"""Largest number of points of a distribution that is convolved."""

Steps = Sequence[tuple[int, int]]
"""Changes as (grid steps, number of values)."""


class ChangeSize(Protocol):
    """How far a change moves the released values: a unit, one change, or numbers of a receipt."""

    @property
    def l1(self) -> Exact:
        """Sum Δ1 of the changes of all released values [W]."""

    @property
    def l2(self) -> Exact:
        """Euclidean length Δ2 of the change [W]."""

    @property
    def largest(self) -> Exact:
        """Largest change of one released value [W]."""

    @property
    def touches(self) -> int:
        """Number of released values that can change."""


class Size(NamedTuple):
    """The plain numbers of a `ChangeSize` [W]."""

    l1: Exact
    l2: Exact
    largest: Exact
    touches: int = 1


class ChangeSteps(NamedTuple):
    """How far a change moves the released values in the grid steps of one mechanism."""

    size: ChangeSize  # The change in watts
    # Changes of all values with the energy in as few of them as possible, the largest first
    worst: Steps
    further: Steps  # The part of `worst` in values that the change itself does not overlap
    own_touches: int  # Number of values that the change itself can overlap
    constant: bool  # True if the change has its full power from its beginning to its end


class LossDistribution(GridDistribution):
    """A distribution of noise that knows what a change of the released values loses.

    A kind of noise implements `largest_loss`, `losses` and `cost`, and may replace what follows
    from them by something faster. The composition below holds for every kind that loses most if a
    change is concentrated in as few values as possible; another kind replaces `compose_change`.
    """

    @property
    def delta(self) -> float:
        """Probability δ of (ε, δ)-differential privacy; 0 for a pure mechanism."""
        return 0.0

    @abstractmethod
    def largest_loss(self, steps: int) -> float:
        """Largest loss of one value that moves by `steps`; with δ > 0, all but 1e-18 of it."""

    @abstractmethod
    def losses(self, steps: int, most: int = MAX_POINTS) -> tuple[FloatArray, float, float]:
        """Distribution of the loss ln P(i)/P(i − k) of one value that moves by k = `steps`.

        The losses are unit·(lowest + j) with the probabilities masses[j], returned as masses, unit
        and lowest. A lattice of more than about `most` points may be made coarser.
        """

    def hockey_stick(self, steps: int, epsilons: FloatArray) -> FloatArray:
        """δ(ε) = Σ_i max(P(i) − e^ε·P(i − k), 0) of one value that moves by k = `steps`."""
        masses, unit, lowest = self.losses(steps)
        values = unit * (lowest + np.arange(masses.size, dtype=np.float64))
        excess = -np.expm1(np.minimum(epsilons[:, None] - values[None, :], 0.0))
        return np.asarray(excess @ masses)

    def log_second_moment(self, steps: int) -> float:
        """ln Σ_k P(k − s)²/P(k) of one value that moves by s = `steps`."""
        masses, unit, lowest = self.losses(steps)
        values = unit * (lowest + np.arange(masses.size))
        return float(np.logaddexp.reduce(np.log(np.maximum(masses, 1e-300)) + values))

    def limits(self, steps: FloatArray, priors: FloatArray, readings: int) -> FloatArray:
        """Probability that the best guess about a bit is right, shape (N,).

        Bit i has the prior probability `priors[i]` and moves each of `readings` values by
        `steps[i]`; see `hushmeter.theory.universal`.
        """
        most = points_for(readings)
        each = zip(steps.tolist(), priors.tolist(), strict=True)
        return np.array(
            [ratio_optimum(*self.losses(step, most), prior, readings) for step, prior in each]
        )

    @abstractmethod
    def cost(self, moved: ChangeSteps) -> Fraction | float:
        """ε of a change at the δ of the noise itself, without the privacy-loss distribution."""

    @classmethod
    def odds_at(cls, length: float, std: float) -> float | None:  # noqa: ARG003
        """Odds of the best attacker where the length of a change and the noise [W] decide them."""
        return None

    def compose_steps(self, steps: Steps, delta: float) -> Composition:
        """Compose the losses of given changes at the failure probability `delta`."""
        count = sum(times for _, times in steps)
        if max(self._typical_loss(step) for step, _ in steps) > HOPELESS:
            basic = self._sum_of_losses(steps, delta)
            return Composition(count, basic, basic, 1.0)
        cell = self._cell(steps)
        losses = [self._loss_of_value(step, cell) for step, _ in steps]
        if self.delta:
            share = delta / count
            each = (epsilon_at(loss.deltas(), cell, share) for loss in losses)
            basic = sum(times * one for one, (_, times) in zip(each, steps, strict=True))
        else:
            basic = self._sum_of_losses(steps, delta)
        parts = [loss.repeat(times) for loss, (_, times) in zip(losses, steps, strict=True)]
        return compose_loss(count, basic, reduce(PrivacyLoss.join, parts), delta)

    def compose_change(self, moved: ChangeSteps, delta: float = DELTA) -> Composition:
        """Compose the loss of a change at the worst offset between it and the released values."""
        return self.compose_steps(moved.worst, delta)

    def change_odds(self, moved: ChangeSteps) -> float:
        """Odds of the best attacker about a change, as in `compose_change`, without its ε."""
        return self.compose_change(moved).odds

    def change_log_second_moment(self, moved: ChangeSteps) -> float:
        """Sum of `log_second_moment` over all values that a change moves."""
        return sum(times * self.log_second_moment(step) for step, times in moved.worst)

    def _typical_loss(self, steps: int) -> float:
        """Return the loss of one value that decides whether a composition is of use."""
        return self.largest_loss(steps)

    def _sum_of_losses(self, steps: Steps, delta: float) -> float:  # noqa: ARG002
        """Return the sum of the losses of all values; with δ > 0, each at its share of `delta`."""
        return sum(times * self.largest_loss(step) for step, times in steps)

    def _cell(self, steps: Steps) -> float:
        """Return the cell of the loss lattice.

        On the lattice a value whose loss l is below the cell gets about the variance l·cell instead
        of l². The cell is chosen so that this adds at most about 1/CELLS to the variance of the
        sum.
        """
        per_step = float(self.exact_grid) / self.scale
        sizes = [(step * per_step, times) for step, times in steps]
        squares = sum(times * size**2 for size, times in sizes)
        return squares / (CELLS * sum(times * size for size, times in sizes))

    def _loss_of_value(self, steps: int, cell: float) -> PrivacyLoss:
        """Return the distribution of the loss of one value on a lattice."""
        cells = math.ceil(self.largest_loss(steps) / cell - 1e-9)
        deltas = self.hockey_stick(steps, cell * np.arange(-cells, cells + 1, dtype=float))
        if not self.delta:
            deltas[-1] = 0.0
        return connect_dots(cell, deltas)


def points_for(readings: int) -> int:
    """Most points of the loss of one value of which `readings` are convolved."""
    return MAX_POINTS if readings == 1 else int(MAX_POINTS / (24 * math.sqrt(readings) + 80))


def ratio_optimum(
    masses: FloatArray, unit: float, lowest: float, prior: float, readings: int
) -> float:
    """Best guess about a bit from the distribution of one log-likelihood ratio under "on".

    The ratio is unit·(lowest + j) with probability masses[j]; under "off" it has the opposite
    sign. The answer is "on" if the sum exceeds τ, so the optimum is
    π·P(sum > τ) + (1 − π)·P(sum ≥ −τ).
    """
    if prior in (0.0, 1.0):
        return 1.0
    places, law = sum_distribution(masses, readings)
    ratios = places + readings * lowest
    # Both halves use the same cut, so that a tie is counted once; 1e-6 is far below one step.
    cut = float(log_odds(np.asarray(prior))) / unit + 1e-6
    named_on = law[ratios > cut].sum()
    named_off = law[ratios >= -cut].sum()
    optimum = float(prior * named_on + (1 - prior) * named_off)
    return min(1.0, max(optimum, prior, 1 - prior))


def sum_distribution(
    masses: FloatArray, readings: int, margin: float = 40.0
) -> tuple[FloatArray, FloatArray]:
    """Values and probabilities of the sum of `readings` independent draws from 0, 1, …

    The FFT uses a circle that contains 12 standard deviations and `margin` times the range of one
    draw on each side of the mean. By Bernstein's inequality this is all but 1e-12 of the
    probability.
    """
    at = np.arange(masses.size, dtype=np.float64)
    if readings == 1:
        return at, masses
    mean = float(at @ masses)
    spread = math.sqrt(readings * max(0.0, float(at**2 @ masses) - mean**2))
    whole_range = readings * (masses.size - 1) + 1
    width = max(2 * (12 * spread + margin * masses.size), masses.size)
    size = 1 << math.ceil(math.log2(min(width, whole_range)))
    law = np.fft.irfft(np.fft.rfft(masses, size) ** readings, size)
    first = 0 if size >= whole_range else max(0, round(readings * mean) - size // 2)
    places = first + np.arange(size)
    return places.astype(np.float64), np.maximum(0.0, law[places % size])


def log_odds(prior: FloatArray) -> FloatArray:
    """τ = ln((1 − π)/π)."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log1p(-prior) - np.log(prior))
