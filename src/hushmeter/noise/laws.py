"""Laws of integer noise with certified masses, as the table sampler takes them.

A law numbers its outcomes 0, 1, 2, … and bounds each mass by integers. A *signed* law folds the
whole numbers onto these indices as 0, −1, 1, −2, 2, …: index 2q is q and index 2q + 1 is −1 − q.
Parameters are rational numbers, so a mass is known to as many bits as are asked for.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, islice, pairwise

from hushmeter.noise.fixed import Interval, exactly, exp_minus, geometric

Bounds = tuple[list[int], list[int]]


class Law(ABC):
    """A probability law on the indices 0, 1, 2, …"""

    signed: bool = False

    @property
    def size(self) -> int | None:
        """Number of outcomes, or None where there is no end."""
        return None

    @abstractmethod
    def masses(self, bits: int, cut: int) -> Bounds:
        """Integers with low[i] ≤ 2^bits·P(i) ≤ high[i], at least while P(i) ≥ 2^−cut."""


@dataclass(frozen=True)
class Digit(Law):
    """Lower digit of a geometric law: P(i) ∝ e^(−rate·i) on 0 ≤ i < base."""

    rate: Fraction
    base: int

    @property
    def size(self) -> int | None:
        """The base: a digit ends."""
        return self.base

    def masses(self, bits: int, cut: int) -> Bounds:
        """See `Law.masses`; always the whole digit."""
        del cut
        one, ratio = exactly(1, bits), exp_minus(self.rate, bits)
        first = (one - ratio) / (one - exp_minus(self.rate * self.base, bits))
        return geometric(first, ratio, self.base)


@dataclass(frozen=True)
class TwoSidedGeometric(Law):
    """Discrete Laplace, or its leading digit: the sign and ⌊magnitude / base⌋.

    With α = e^(−rate), the discrete Laplace law P(n) = (1 − α)/(1 + α)·α^|n| is a coin that says
    n ≥ 0 with probability 1/(1 + α), and then a geometric G with n = G or n = −1 − G. G splits
    into independent digits G = D + base·Q. This law is that of the signed Q. Base 1: n itself.
    """

    rate: Fraction
    base: int = 1
    signed = True

    def masses(self, bits: int, cut: int) -> Bounds:
        """See `Law.masses`."""
        one, alpha = exactly(1, bits), exp_minus(self.rate, bits)
        ratio = exp_minus(self.rate * self.base, bits)
        first = (one - ratio) / (one + alpha)
        count = _terms(first, float(self.rate * self.base), cut)
        return _interleave(geometric(first, ratio, count), geometric(first * alpha, ratio, count))


@dataclass(frozen=True)
class FlatStaircase(Law):
    """Discrete staircase, outcome by outcome.

    P(i) = a·b^k for kΔ ≤ |i| < kΔ + r and a·b^(k+1) for kΔ + r ≤ |i| < (k+1)Δ, with b = e^(−ε).
    """

    epsilon: Fraction
    steps: int
    inner: int
    signed = True

    def masses(self, bits: int, cut: int) -> Bounds:
        """See `Law.masses`."""
        first, ratio = stair_unit(self.epsilon, self.steps, self.inner, bits)
        stairs = geometric(first, ratio, _terms(first, float(self.epsilon), cut) + 2)
        return _mirror(self._spread(stairs[0])), _mirror(self._spread(stairs[1]))

    def _spread(self, stairs: list[int]) -> list[int]:
        """One mass per magnitude from one mass per stair height."""
        inner, outer = self.inner, self.steps - self.inner
        parts = ([here] * inner + [below] * outer for here, below in pairwise(stairs))
        return list(chain.from_iterable(parts))


@dataclass(frozen=True)
class StairClass(Law):
    """Which stair of the staircase: index 4Q + c, class c and leading digit Q of its number.

    The whole numbers fall into four classes, + inner, + outer, − inner, − outer; within each the
    stair number k is geometric with b = e^(−ε) and independent of the class (`class_layout`). So
    k splits into digits k = D + base·Q as the discrete Laplace does. Base 1: Q is k.
    """

    epsilon: Fraction
    steps: int
    inner: int
    base: int = 1

    def masses(self, bits: int, cut: int) -> Bounds:
        """See `Law.masses`."""
        one = exactly(1, bits)
        unit, b = stair_unit(self.epsilon, self.steps, self.inner, bits)
        ratio = exp_minus(self.epsilon * self.base, bits)
        share = (one - ratio) / (one - b)
        widths = class_layout(self.steps, self.inner)[1]
        firsts = [
            (unit * b if c % 2 else unit).times(width) * share for c, width in enumerate(widths)
        ]
        count = _terms(max(firsts, key=lambda f: f.high), float(self.epsilon * self.base), cut)
        columns = [geometric(first, ratio, count) for first in firsts]
        return _weave([c[0] for c in columns]), _weave([c[1] for c in columns])


@dataclass(frozen=True)
class DiscreteGaussian(Law):
    """P(n) ∝ e^(−n²/2σ²) on the whole numbers, σ² a rational number of grid steps squared."""

    variance: Fraction
    signed = True

    def masses(self, bits: int, cut: int) -> Bounds:
        """See `Law.masses`."""
        low, high = self._weights(bits)
        total_low = 2 * sum(low) - low[0]
        # What the list leaves out weighs less than its last term times 2·(length + 1).
        total_high = 2 * sum(high) - high[0] + 2 * high[-1] * (len(high) + 1)
        spread = float(self.variance)
        keep = 2 + math.isqrt(int(2 * spread * (cut * math.log(2) + 1)) + 1)
        lows = [(w << bits) // total_high for w in islice(low, keep)]
        highs = [-((-w << bits) // total_low) for w in islice(high, keep)]
        return _mirror(lows), _mirror(highs)

    def _weights(self, bits: int) -> Bounds:
        """e^(−k²/2σ²) for k = 0, 1, … until it is far below one unit of the fixed point."""
        inverse = 1 / self.variance
        # One ratio per step, itself falling by e^(−1/σ²): w(k+1) = w(k)·e^(−(2k+1)/2σ²).
        step_down, fall = exp_minus(inverse / 2, bits), exp_minus(inverse, bits)
        last = 2 + math.isqrt(int(2 * float(self.variance) * (bits * math.log(2) + 1)) + 1)
        ratios = geometric(step_down, fall, last)
        low = [1 << bits]
        high = [1 << bits]
        for ratio in ratios[0]:
            low.append((low[-1] * ratio) >> bits)
        for ratio in ratios[1]:
            high.append(-((-high[-1] * ratio) >> bits))
        return low, high


def stair_unit(epsilon: Fraction, steps: int, inner: int, bits: int) -> tuple[Interval, Interval]:
    """a = (1 − b)/(2r + 2b(Δ − r) − (1 − b)) and b = e^(−ε)."""
    one, b = exactly(1, bits), exp_minus(epsilon, bits)
    below = one - b
    return below / (one.times(2 * inner) + b.times(2 * (steps - inner)) - below), b


def class_layout(steps: int, inner: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """First magnitude and width of the four classes in their stair 0.

    The negative side starts at magnitude 1, so its inner class is one narrower and its outer one
    wider: magnitudes 1 … Δ make up its stair 0, and every stair weighs b times the one before.
    """
    return (0, inner, 1, inner), (inner, steps - inner, inner - 1, steps - inner + 1)


def _terms(first: Interval, rate: float, cut: int) -> int:
    """How many terms of first·e^(−rate·k) reach down to 2^−cut."""
    height = first.high.bit_length() - first.bits
    return 2 + max(0, math.ceil((cut + height) * math.log(2) / rate))


def _mirror(half: list[int]) -> list[int]:
    """Masses of magnitudes 0, 1, 2, … as those of 0, −1, 1, −2, 2, …"""
    return [half[0], *chain.from_iterable(zip(half[1:], half[1:], strict=True))]


def _interleave(even: Bounds, odd: Bounds) -> Bounds:
    return _weave([even[0], odd[0]]), _weave([even[1], odd[1]])


def _weave(columns: list[list[int]]) -> list[int]:
    return list(chain.from_iterable(zip(*columns, strict=True)))
