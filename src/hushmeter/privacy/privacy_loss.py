"""The privacy loss of many readings: a distribution on a grid, added up by Fourier transform.

The loss of one output i is l = ln P(i)/P(i − k). Losses of independent readings add, so their
distributions are convolved; δ(ε) = Σ_{l > ε} p(l)·(1 − e^(ε − l)) then says what ε costs.

References
----------
[1] V. Doroshenko et al., Connect the Dots: Tighter Discrete Approximations of Privacy Loss
    Distributions, PoPETs 2022.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hushmeter.checks import FloatArray

ComplexArray = np.ndarray[Any, np.dtype[np.complex128]]
# Mass that a composition may cut off its two ends; it is then counted as an infinite loss.
TAIL = 1e-15
ORDERS = 20


@dataclass(frozen=True, eq=False)
class PrivacyLoss:
    """A distribution of losses cell·(first + j), never less than the true one.

    Attributes
    ----------
    cell : float
        Width of the grid.
    first : int
        Place of the lowest loss.
    masses : array
    infinite : float
        Mass of losses beyond the grid.
    """

    cell: float
    first: int
    masses: FloatArray
    infinite: float = 0.0

    def repeat(self, times: int) -> PrivacyLoss:
        """The loss of so many readings alike: the spectrum to that power, by squaring."""
        from scipy import fft

        if times == 1:
            return self
        low, high = self._reach(times)
        length = fft.next_fast_len(max(high - low + 1, self.masses.size), real=True)
        spectrum = _power(fft.rfft(self.masses, length), times)
        # The transform wraps around; only `low` … `high` holds mass.
        masses = np.roll(fft.irfft(spectrum, length), -low)[: high - low + 1]
        beyond = TAIL - math.expm1(times * math.log1p(-self.infinite))
        return PrivacyLoss(self.cell, times * self.first + low, masses, beyond)

    def join(self, other: PrivacyLoss) -> PrivacyLoss:
        """The loss of both together; the grids must be of one width."""
        from scipy.signal import fftconvolve

        masses = np.asarray(fftconvolve(self.masses, other.masses))
        beyond = self.infinite + other.infinite
        return PrivacyLoss(self.cell, self.first + other.first, masses, beyond)

    def delta_at(self, epsilon: float) -> float:
        """δ(ε), the chance that the loss goes beyond ε, weighted by how far."""
        place = int(np.searchsorted(self._losses, epsilon, side="right"))
        if place == self.masses.size:
            return self.infinite
        above, decayed = self._sums
        gap = float(above[place] - math.exp(epsilon - self._losses[place]) * decayed[place])
        return min(max(gap, 0.0), 1.0)

    def epsilon_at(self, delta: float) -> float:
        """The smallest ε ≥ 0 with δ(ε) ≤ `delta`; infinite where there is none.

        Within a cell δ(ε) = A − e^(ε − l)·B, so that ε = l + ln((A − δ)/B).
        """
        if self.delta_at(0.0) <= delta:
            return 0.0
        above, decayed = self._sums
        # δ at every loss of the grid: the next sums, one cell further down.
        at_losses = np.append(above[1:] - math.exp(-self.cell) * decayed[1:], self.infinite)
        kept = np.flatnonzero((at_losses <= delta) & (self._losses > 0))
        if kept.size == 0:
            return math.inf
        place = int(kept[0])
        return float(self._losses[place] + math.log((above[place] - delta) / decayed[place]))

    @cached_property
    def _losses(self) -> FloatArray:
        losses: FloatArray = self.cell * (self.first + np.arange(self.masses.size, dtype=float))
        return losses

    @cached_property
    def _sums(self) -> tuple[FloatArray, FloatArray]:
        """A_j = Σ_{i ≥ j} p_i and B_j = Σ_{i ≥ j} p_i·e^(l_j − l_i), which no loss overflows."""
        from scipy.signal import lfilter

        backwards = self.masses[::-1]
        above = self.infinite + np.cumsum(backwards)[::-1]
        return above, lfilter([1.0], [1.0, -math.exp(-self.cell)], backwards)[::-1]

    def _reach(self, times: int) -> tuple[int, int]:
        """Places beyond which less than `TAIL` of the mass lies, by Chernoff's bound."""
        from scipy.special import logsumexp

        count = self.masses.size
        orders = np.arange(1, ORDERS + 1) / count
        places = np.arange(count)
        room = math.log(2 / TAIL)
        up, down = (
            times * logsumexp(sign * orders[:, None] * places, axis=1, b=self.masses) + room
            for sign in (1, -1)
        )
        high = min((count - 1) * times, math.ceil(float((up / orders).min())))
        return max(0, math.floor(float((-down / orders).max()))), high


def connect_dots(cell: float, deltas: FloatArray) -> PrivacyLoss:
    """The least distribution on a grid whose δ(ε) passes through given points (Algorithm 1 of [1]).

    Parameters
    ----------
    cell : float
    deltas : array, shape (2n + 1,)
        δ at cell·(−n … n); the last is the mass beyond the grid.
    """
    falling = np.minimum.accumulate(deltas)
    steps = np.diff(falling)
    masses = np.append(1 - falling[0], steps / np.expm1(-cell))
    masses += np.append(steps / np.expm1(cell), 0.0)
    return PrivacyLoss(cell, -(deltas.size // 2), np.maximum(masses, 0.0), float(falling[-1]))


def _power(spectrum: ComplexArray, times: int) -> ComplexArray:
    """Entry by entry, by squaring: complex powers by logarithm take ten times as long."""
    power = np.ones_like(spectrum)
    while times:
        if times & 1:
            power *= spectrum
        times >>= 1
        if times:
            spectrum = spectrum * spectrum
    return power
