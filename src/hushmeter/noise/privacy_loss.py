"""The privacy loss of many released values: a distribution on a lattice, added up by convolution.

The loss of one output i is l = ln P(i)/P(i − k), where k is the change of the value. The losses of
independent values add up, so their distributions are convolved. The composed distribution gives

    δ(ε) = Σ_{l > ε} p(l)·(1 − e^(ε − l)),

and from it the ε of (ε, δ)-differential privacy and the odds of the best attacker, (1 + δ(0))/2.
Only numpy is used: the import of a larger library would take longer than the computation.

References
----------
.. [1] V. Doroshenko, B. Ghazi, P. Kamath, R. Kumar, P. Manurangsi, "Connect the dots: tighter
   discrete approximations of privacy loss distributions", PoPETs 2022.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hushmeter.checks import FloatArray

ComplexArray = np.ndarray[Any, np.dtype[np.complex128]]

TAIL = 1e-15
"""Mass that a composition may cut off at its two ends; it is counted as an infinite loss."""

ROUNDING, ROUNDING_PER_VALUE = 1e-11, 4e-16
"""Mass that the Fourier transforms may lose: a fixed part, and a part for every value.

The power of a spectrum multiplies its rounding error by the number of values; 4e-16 is about twenty
times the error that was measured for 10⁶ values."""

FAR_CELLS = 5000
"""Number of the lowest loss from which the attacker is taken to be certain."""

_ORDERS = 20
_LARGEST_EXPONENT = 300.0


@dataclass(frozen=True)
class Composition:
    """The privacy loss of several released values together.

    Attributes
    ----------
    readings : int
        Number of released values that the change touches.
    basic : float
        Sum of their losses; for Gaussian noise each at its share of δ'.
    pld : float
        ε of (ε, δ')-differential privacy from the privacy-loss distribution.
    odds : float
        Probability that the best attacker names the state correctly, if the attacker knows
        everything else and on and off are equally likely: (1 + total variation)/2.
    """

    readings: int
    basic: float
    pld: float
    odds: float

    @property
    def epsilon(self) -> float:
        """The smaller of `basic` and `pld`."""
        return min(self.basic, self.pld)


@dataclass(frozen=True, eq=False)
class PrivacyLoss:
    """A distribution of losses cell·(first + j) that never understates the true one."""

    cell: float  # Distance of neighbouring losses
    first: int  # Number of the lowest loss
    masses: FloatArray  # Probability of each loss
    infinite: float = 0.0  # Probability of losses beyond the lattice, counted as infinite

    def repeat(self, times: int) -> PrivacyLoss:
        """Loss of `times` values with this distribution each.

        The Fourier transform of the result is the power of the transform. Chernoff's bound gives
        the range that contains all mass but `TAIL`, so the transform is no longer than necessary.
        """
        if times == 1:
            return self
        low, high = _range(self.masses, times)
        length = _fast_length(max(high - low + 1, self.masses.size))
        spectrum = _power(np.fft.rfft(self.masses, length), times)
        # The transform is periodic; the range `low` … `high` fits into one period.
        masses = np.roll(np.fft.irfft(spectrum, length), -low)[: high - low + 1]
        beyond = TAIL - math.expm1(times * math.log1p(-self.infinite))
        return PrivacyLoss(self.cell, times * self.first + low, masses, beyond)

    def join(self, other: PrivacyLoss) -> PrivacyLoss:
        """Loss of both together; both lattices must have the same cell."""
        masses = convolve(self.masses, other.masses)
        beyond = self.infinite + other.infinite
        return PrivacyLoss(self.cell, self.first + other.first, masses, beyond)

    def deltas(self, start: int = 0) -> FloatArray:
        """δ(ε) at ε = cell·start, cell·(start + 1), … up to the largest loss, for start ≥ 0.

        With A_j = Σ_{i ≥ j} p_i and B_j = Σ_{i ≥ j} p_i·e^(l_j − l_i), δ(l_j) = A_j − B_j. Both
        sums are taken from the largest loss downwards, so no exponential overflows.
        """
        kept = self.masses[max(0, start - self.first) :][::-1]
        if not kept.size:
            return np.array([self.infinite])
        # Losses between `start` and the first one have no mass.
        backwards = np.concatenate([kept, np.zeros(max(0, self.first - start))])
        gap = np.cumsum(backwards) - _decayed_sums(backwards, self.cell)
        return np.clip(self.infinite + gap[::-1], 0.0, 1.0)


def epsilon_at(deltas: FloatArray, cell: float, delta: float, start: int = 0) -> float:
    """Smallest ε ≥ cell·start with δ(ε) ≤ `delta`, infinite if there is none.

    `deltas` bounds δ(ε) at ε = cell·start, cell·(start + 1), …, and does not increase. δ(ε) is
    convex in e^ε, so between two points it lies below the straight line in e^ε. The returned
    ε is where this line reaches δ.
    """
    kept = np.flatnonzero(deltas <= delta)
    if not kept.size:
        return math.inf
    place = int(kept[0])
    if place == 0:
        return cell * start
    before, after = float(deltas[place - 1]), float(deltas[place])
    share = (before - delta) / (before - after)
    return cell * (start + place - 1) + math.log1p(share * math.expm1(cell))


def connect_dots(cell: float, deltas: FloatArray) -> PrivacyLoss:
    """Smallest distribution on a lattice whose δ(ε) has given values at cell·(−n … n) [1]_.

    The last value is the mass beyond the lattice. Between the points the result has a larger δ(ε)
    than the true distribution, so it never understates the loss (Algorithm 1).
    """
    falling = np.minimum.accumulate(deltas)
    steps = np.diff(falling)
    masses = np.append(1 - falling[0], steps / np.expm1(-cell))
    masses += np.append(steps / np.expm1(cell), 0.0)
    return PrivacyLoss(cell, -(deltas.size // 2), np.maximum(masses, 0.0), float(falling[-1]))


def compose_loss(count: int, basic: float, total: PrivacyLoss, delta: float) -> Composition:
    """Composition of `count` values whose losses together have a given distribution."""
    # If every loss is far above zero, so are the losses of the other input, with the other sign:
    # the attacker is then certain, and the long empty part of the curve is not computed.
    start = total.first if total.first > FAR_CELLS else 0
    return compose_curve(count, basic, total.deltas(start), total.cell, delta, start)


def compose_curve(
    count: int, basic: float, curve: FloatArray, cell: float, delta: float, start: int = 0
) -> Composition:
    """Composition for δ at cell·start, cell·(start + 1), …, with the rounding error counted."""
    lost = ROUNDING + ROUNDING_PER_VALUE * count
    kept = epsilon_at(curve, cell, delta - lost, start) if delta > lost else math.inf
    odds = 1.0 if start else min(1.0, (1 + float(curve[0]) + lost) / 2)
    return Composition(count, basic, min(kept, basic), odds)


def convolve(one: FloatArray, other: FloatArray) -> FloatArray:
    """Convolution of two vectors, by Fourier transform if both are long."""
    if min(one.size, other.size) <= 64:
        return np.convolve(one, other)
    size = one.size + other.size - 1
    length = _fast_length(size)
    spectrum = np.fft.rfft(one, length) * np.fft.rfft(other, length)
    return np.fft.irfft(spectrum, length)[:size]


def _range(masses: FloatArray, times: int) -> tuple[int, int]:
    """Return places beyond which less than `TAIL` of the mass lies, by Chernoff's bound."""
    count = masses.size
    # The best order is about the inverse of the standard deviation of the sum.
    orders = np.geomspace(1 / math.sqrt(times), _ORDERS, _ORDERS) / count
    places = np.arange(count)
    room = math.log(2 / TAIL)
    # The exponents are at most 20, so the sums cannot overflow.
    up, down = (
        times * np.log(np.exp(sign * orders[:, None] * places) @ masses) + room for sign in (1, -1)
    )
    high = min((count - 1) * times, math.ceil(float((up / orders).min())))
    return max(0, math.floor(float((-down / orders).max()))), high


def _decayed_sums(values: FloatArray, cell: float) -> FloatArray:
    """Return b_m = v_m + e^(−cell)·b_{m−1}, block by block so that no power overflows."""
    block = max(1, int(_LARGEST_EXPONENT / cell))
    powers = np.exp(cell * np.arange(min(block, values.size)))
    sums = np.empty_like(values)
    carry = 0.0
    for start in range(0, values.size, block):
        part = values[start : start + block]
        growth = powers[: part.size]
        sums[start : start + block] = (np.cumsum(part * growth) + carry * math.exp(-cell)) / growth
        carry = float(sums[start + part.size - 1])
    return sums


def _fast_length(least: int) -> int:
    """Return the smallest 2^a·3^b·5^c that is at least `least`: such transforms are fast."""
    best = 1 << (least - 1).bit_length()
    for five in (1, 5, 25, 125):
        for three in (1, 3, 9, 27):
            rest = -(-least // (five * three))
            best = min(best, five * three << (rest - 1).bit_length())
    return best


def _power(spectrum: ComplexArray, times: int) -> ComplexArray:
    """Return the power of every entry, by squaring, which is faster than by logarithms."""
    power = np.ones_like(spectrum)
    while times:
        if times & 1:
            power *= spectrum
        times >>= 1
        if times:
            spectrum = spectrum * spectrum
    return power
