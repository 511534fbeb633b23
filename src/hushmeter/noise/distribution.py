"""The distribution of the noise in numbers: probabilities, moments, quantiles and differences.

Attackers and bounds use these float64 values. The sampler does not: it uses the certified
probabilities of `hushmeter.noise.certified_masses`.
"""

from __future__ import annotations

import math
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
        """Smallest x [W] with P(|n| ≤ x) ≥ p.

        Raises
        ------
        InputError
            If p is not in [0, 1).
        """
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
        """Expected excess E(l − b)_+ [W] of the difference l = n_t − n_(t−1) over b [W].

        Parameters
        ----------
        b : array_like
            Any values [W], also negative ones.

        Returns
        -------
        array or float
            E max(l − b, 0) for two independent draws n_t and n_(t−1) [W].
        """
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
