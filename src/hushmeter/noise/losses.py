"""The distribution of the noise, and what a change of the released values loses.

`GridDistribution` has probabilities, moments, quantiles and differences in float64, for attackers
and bounds; the sampler uses certified probabilities instead (`hushmeter.noise.table_sampler`).

*Losses.* The loss of one output i is l = ln P(i)/P(i − k), where k is the change of the value. The
noise of every released value is independent, so the losses of the values that a change moves add
up, and their distributions are convolved [1]_ (`PrivacyLoss`). The composed distribution gives

    δ(ε) = Σ_{l > ε} p(l)·(1 − e^(ε − l)),

and from it the ε of (ε, δ)-differential privacy and the odds of the best attacker, (1 + δ(0))/2.
Only numpy is used: the import of a larger library would take longer than the computation.

Every kind of noise answers for itself (`LossDistribution`): the distribution of the loss of one
value, the worst way in which a change can be divided among several values, and the best guess about
one bit.

References
----------
.. [1] V. Doroshenko, B. Ghazi, P. Kamath, R. Kumar, P. Manurangsi, "Connect the dots: tighter
   discrete approximations of privacy loss distributions", PoPETs 2022.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hushmeter.checks import FloatArray
from hushmeter.errors import InputError

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Exact

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


_POINTS = 1 << 20
_NEGLIGIBLE = 2.0**-70

Numbers = NDArray[np.float64] | np.float64
"""An array, or one number where the argument was one number."""


class GridDistribution(ABC):
    """A symmetric distribution on the whole multiples of a grid [W]."""

    exact_grid: Fraction

    @property
    @abstractmethod
    def scale(self) -> float:
        """Width parameter of the noise [W]."""

    @property
    @abstractmethod
    def mean_abs(self) -> float:
        """Mean absolute value E|n| of the noise [W]."""

    @property
    @abstractmethod
    def std(self) -> float:
        """Standard deviation of the noise [W]."""

    @abstractmethod
    def _log_mass(self, magnitude: FloatArray) -> FloatArray:
        """Return ln P(n = m) for whole m ≥ 0 in grid steps."""

    @abstractmethod
    def _tail(self, magnitude: FloatArray) -> FloatArray:
        """Return P(n ≥ m) for whole m ≥ 0 in grid steps."""

    def log_pmf(self, k: ArrayLike) -> Numbers:
        """Logarithm ln P(n = k) of the probability of k grid steps."""
        return _plain(self._log_mass(np.abs(_grid_steps(k))))

    def pmf(self, k: ArrayLike) -> Numbers:
        """Probability P(n = k) of k grid steps."""
        return _plain(np.exp(self._log_mass(np.abs(_grid_steps(k)))))

    def cdf(self, k: ArrayLike) -> Numbers:
        """Cumulative probability P(n ≤ k), k in grid steps."""
        steps = _grid_steps(k)
        tail = self._tail(np.where(steps < 0, -steps, steps + 1))
        return _plain(np.where(steps < 0, tail, 1.0 - tail))

    def quantile(self, p: float) -> float:
        """Smallest x [W] with P(|n| ≤ x) ≥ p, for p in [0, 1)."""
        if not 0 <= p < 1:
            raise InputError(f"p must lie in [0, 1), got {p}.")
        low, high = -1, 1
        while self._outside(high) > 1 - p:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._outside(middle) > 1 - p else (low, middle)
        return float(high * self.exact_grid)

    def log_density(self, residuals: FloatArray, spread: float) -> FloatArray:
        """Log-density [log(1/W)] of the sum of N(0, σ²) and the noise at residuals r ≥ 0 [W].

        Attackers compare readings with it; σ = `spread` [W]. The density is
        Σ_k P(n = k) φ_σ(r − k·grid) over all k within 8σ of r. If σ is large compared with the
        grid, the noise is first summed over cells of at most σ/16. This changes the density by a
        few thousandths at most and keeps the sums short for any noise. σ is at least half a grid
        step: a smaller one would give a density with gaps between the grid points, in which
        readings that were never rounded would be impossible.
        """
        grid = float(self.exact_grid)
        spread = max(spread, grid / 2)
        half = max(0, int(spread / grid / 16 - 1) // 2)
        width = (2 * half + 1) * grid
        reach = math.ceil(8 * spread / width)
        cells = np.rint(residuals / width)[:, None] + np.arange(-reach, reach + 1)
        gaps = (residuals[:, None] - cells * width) / spread
        steps, places = np.unique(np.abs(cells), return_inverse=True)
        masses = self._cell_masses(steps * (2 * half + 1), half)[places.reshape(cells.shape)]
        density = (masses * np.exp(-0.5 * gaps**2)).sum(axis=1) / (spread * math.sqrt(2 * math.pi))
        log_density: FloatArray = np.log(np.maximum(density, 1e-300))
        return log_density

    def _cell_masses(self, steps: FloatArray, half: int) -> FloatArray:
        """P(|n − k| ≤ half) for k = `steps` ≥ 0, from the lower tail, where no digits are lost."""
        if half == 0:
            return np.asarray(self.pmf(steps))
        return np.asarray(self.cdf(half - steps)) - np.asarray(self.cdf(-half - 1 - steps))

    def difference_excess(self, b: ArrayLike) -> Numbers:
        """Expected excess E max(l − b, 0) [W] of a difference l = n_t − n_(t−1) over any b [W]."""
        watts = np.asarray(b, dtype=np.float64)
        steps = np.abs(watts) / float(self.exact_grid)
        excess = self._excess_steps(steps) * float(self.exact_grid)
        # l is symmetric, so E(l + |b|)_+ = E(l − |b|)_+ + |b|.
        return _plain(excess + np.maximum(0.0, -watts))

    def _excess_steps(self, steps: FloatArray) -> FloatArray:
        """Return E(l − b)_+ in grid steps for b ≥ 0; it is linear between neighbouring steps."""
        width, excess = _difference_excess(self)
        at = np.arange(excess.size) * float(width)
        return np.interp(steps, at, excess, right=0.0)

    def _outside(self, magnitude: int) -> float:
        """Return P(|n| > m)."""
        return 2 * float(self._tail(np.array([magnitude + 1.0]))[0])


@lru_cache(maxsize=4)
def _difference_excess(noise: GridDistribution) -> tuple[int, FloatArray]:
    """Return the width w of a cell [grid steps] and E(l − jw)_+ [grid steps] for j = 0, 1, …

    The distribution of l is the convolution of the noise with itself. Noise wider than 2^20 steps
    is first summed into cells of w steps around the multiples of w, so that the transform stays
    short; the relative error is then of the order of (w/scale)² ≈ 1e-8.
    """
    reach = 1
    while noise._tail(np.array([float(reach)]))[0] > _NEGLIGIBLE:
        reach *= 2
    width = max(1, 2 * reach // _POINTS)
    # An odd width puts every cell symmetrically around its multiple of w.
    width += 1 - width % 2
    edges = np.arange(reach // width + 2, dtype=np.float64) * width - width // 2
    tail = noise._tail(np.maximum(edges, 0.0))
    half = np.exp(noise._log_mass(edges)) if width == 1 else tail[:-1] - tail[1:]
    half = half[: reach // width + 1]
    if width > 1:
        half[0] = 1.0 - 2 * tail[1]
    both = np.concatenate([half[:0:-1], half])
    size = 1 << (2 * both.size).bit_length()
    whole = np.fft.irfft(np.fft.rfft(both, size) ** 2, size)
    masses = np.maximum(0.0, whole[both.size - 1 : 2 * both.size - 1])
    # E(l − jw)_+ = w·Σ_{i > j} P(l ≥ iw). Both sums start at the far end, where the terms are
    # smallest, so that they do not lose digits.
    above = np.cumsum(masses[::-1])[::-1]
    excess = width * (np.cumsum(above[::-1])[::-1] - above)
    excess.setflags(write=False)
    return width, excess


def _grid_steps(k: ArrayLike) -> FloatArray:
    """Return whole numbers of grid steps as floats."""
    values = np.asarray(k)
    if values.dtype.kind not in "iu" and not np.array_equal(values, np.rint(values)):
        raise InputError("k counts grid steps and must be whole numbers.")
    return values.astype(np.float64)


def _plain(values: FloatArray) -> Numbers:
    """Return an array unchanged, or the number in an array without dimensions."""
    return values[()] if values.ndim == 0 else values


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
        """Return the loss of one value that decides whether a composition is worth computing."""
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
