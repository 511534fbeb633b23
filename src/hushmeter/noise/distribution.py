"""The law of the noise as numbers: pmf, cdf, moments, quantiles and the law of differences."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hushmeter.checks import FloatArray
from hushmeter.errors import InputError

_POINTS = 1 << 20
_NEGLIGIBLE = 2.0**-70

Numbers = NDArray[np.float64] | np.float64


class GridLaw(ABC):
    """A symmetric law on the whole multiples of a grid [W]."""

    exact_grid: Fraction

    @property
    @abstractmethod
    def scale(self) -> float:
        """Width of the noise [W]."""

    @property
    @abstractmethod
    def mean_abs(self) -> float:
        """E|n| [W]."""

    @property
    @abstractmethod
    def std(self) -> float:
        """Standard deviation of n [W]."""

    @abstractmethod
    def _log_mass(self, magnitude: FloatArray) -> FloatArray:
        """ln P(n = m) for whole m ≥ 0 in grid steps."""

    @abstractmethod
    def _tail(self, magnitude: FloatArray) -> FloatArray:
        """P(n ≥ m) for whole m ≥ 0 in grid steps."""

    def log_pmf(self, k: ArrayLike) -> Numbers:
        """ln P(n = k), k in grid steps."""
        return as_numbers(self._log_mass(np.abs(grid_steps(k))))

    def pmf(self, k: ArrayLike) -> Numbers:
        """P(n = k), k in grid steps."""
        return as_numbers(np.exp(self._log_mass(np.abs(grid_steps(k)))))

    def cdf(self, k: ArrayLike) -> Numbers:
        """P(n ≤ k), k in grid steps."""
        steps = grid_steps(k)
        tail = self._tail(np.where(steps < 0, -steps, steps + 1))
        return as_numbers(np.where(steps < 0, tail, 1.0 - tail))

    def quantile(self, p: float) -> float:
        """Smallest x [W] with P(|n| ≤ x) ≥ p."""
        if not 0 <= p < 1:
            raise InputError(f"p must lie in [0, 1), got {p}.")
        low, high = -1, 1
        while self._outside(high) > 1 - p:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._outside(middle) > 1 - p else (low, middle)
        return float(high * self.exact_grid)

    def difference_pmf(self, k: ArrayLike) -> Numbers:
        """P(n_t − n_(t−1) = k), k in grid steps, for independent n_t and n_(t−1)."""
        steps = np.abs(grid_steps(k))
        width, masses, _ = self._difference()
        at = np.arange(masses.size) * float(width)
        return as_numbers(np.interp(steps, at, masses / width, right=0.0))

    def difference_excess(self, b: ArrayLike) -> Numbers:
        """E(l − b)_+ [W] of the difference l = n_t − n_(t−1), for any b [W]."""
        watts = np.asarray(b, dtype=np.float64)
        steps = np.abs(watts) / float(self.exact_grid)
        excess = self._excess_steps(steps) * float(self.exact_grid)
        return as_numbers(excess + np.maximum(0.0, -watts))

    def _excess_steps(self, steps: FloatArray) -> FloatArray:
        """E(l − b)_+ in grid steps for b ≥ 0: linear between the points of the lattice."""
        width, _, excess = self._difference()
        at = np.arange(excess.size) * float(width)
        return np.interp(steps, at, excess, right=0.0)

    def _difference(self) -> tuple[int, FloatArray, FloatArray]:
        return _difference_law(self)

    def _outside(self, magnitude: int) -> float:
        """P(|n| > m)."""
        return 2 * float(self._tail(np.array([magnitude + 1.0]))[0])


@lru_cache(maxsize=4)
def _difference_law(law: GridLaw) -> tuple[int, FloatArray, FloatArray]:
    """Width w of a cell in grid steps, and P(l in cell j) and E(l − jw)_+ for j = 0, 1, …

    By convolution. A law wider than 2^20 steps is first gathered into cells of w steps around
    the multiples of w; the error is then of the order of (w / scale)² ≈ 1e-8.
    """
    reach = 1
    while law._tail(np.array([float(reach)]))[0] > _NEGLIGIBLE:
        reach *= 2
    width = max(1, 2 * reach // _POINTS)
    width += 1 - width % 2
    edges = np.arange(reach // width + 2, dtype=np.float64) * width - width // 2
    tail = law._tail(np.maximum(edges, 0.0))
    half = np.exp(law._log_mass(edges)) if width == 1 else tail[:-1] - tail[1:]
    half = half[: reach // width + 1]
    if width > 1:
        half[0] = 1.0 - 2 * tail[1]
    both = np.concatenate([half[:0:-1], half])
    size = 1 << (2 * both.size).bit_length()
    whole = np.fft.irfft(np.fft.rfft(both, size) ** 2, size)
    masses = np.maximum(0.0, whole[both.size - 1 : 2 * both.size - 1])
    # E(l − jw)_+ = w·Σ_{i > j} P(l ≥ iw), by two sums from the far end.
    above = np.cumsum(masses[::-1])[::-1]
    excess = width * (np.cumsum(above[::-1])[::-1] - above)
    masses.setflags(write=False)
    excess.setflags(write=False)
    return width, masses, excess


def grid_steps(k: ArrayLike) -> FloatArray:
    """Whole numbers of grid steps as floats."""
    values = np.asarray(k)
    if values.dtype.kind not in "iu" and not np.array_equal(values, np.rint(values)):
        raise InputError("k counts grid steps and must be whole numbers.")
    return values.astype(np.float64)


def as_numbers(values: FloatArray) -> Numbers:
    """An array as it is, or the number in an array without dimensions."""
    return values[()] if values.ndim == 0 else values
