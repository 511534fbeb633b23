"""Density of a reading in every joint state, given the noise distribution.

A state of the home draws power with mean μ [W] and variance σ² [W²], and a mechanism adds noise n.
With r = y − μ the density of a reading y is

    g(r) = (1 − η) · (N(0, σ²) ∗ distribution of n)(r) + η · e^(−|r|/b) / 2b.

The second term has weight η and long tails, so that no reading is impossible. All distributions
are symmetric. g is tabulated for a few values of σ and then interpolated.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from numpy.typing import NDArray

from hushmeter.attack.base import NoiseDistribution
from hushmeter.checks import FloatArray, IntArray

CELLS = 1024
"""Number of cells of the table of one σ, from r = 0 to the end of the noise."""

RATIO = 1.12
"""States whose σ differ by less than this factor share a table."""

TAIL_STEPS = 8
"""Number of cells of the table of the tails per length b."""

NEGLIGIBLE = 1e-10
"""The tables end at the 1 − NEGLIGIBLE quantile of the noise; beyond it the tails apply."""


class NoisyEmission:
    """Densities [1/W] of readings in every joint state."""

    def __init__(
        self,
        means: FloatArray,
        variances: FloatArray,
        noise: NoiseDistribution | None,
        outlier: float,
        reach: float,
    ) -> None:
        self.means = means
        spreads, classes = spread_classes(np.sqrt(variances))
        ends = 8 * spreads + (noise.quantile(1 - NEGLIGIBLE) if noise else 0.0)
        level = np.sqrt(spreads**2 + (noise.std**2 if noise else 0.0))
        tails = np.maximum(8 * level, reach / 400)
        residuals = np.linspace(0.0, ends, CELLS + 2, axis=1)
        logs = [noisy_log_density(r, s, noise) for r, s in zip(residuals, spreads, strict=True)]
        far = outlier / (2 * tails[:, None]) * np.exp(-residuals / tails[:, None])
        self.tables = (
            (1 - outlier) * np.exp(logs) + far,
            (CELLS + 1) / ends,
            outlier / (2 * tails),
            TAIL_STEPS / tails,
            np.exp(-np.arange(512 * TAIL_STEPS + 2) / TAIL_STEPS),
        )
        core, per_watt, weight, per_tail, decay = self.tables
        self._flat = np.concatenate([core.ravel(), decay])
        self._rows = classes.astype(np.int64) * (CELLS + 2)
        self._per_state = (per_watt[classes], weight[classes], per_tail[classes])

    def densities(self, readings: FloatArray) -> FloatArray:
        """Compute g for every reading and joint state, shape (T, S)."""
        out = np.empty((readings.size, self.means.size))
        first_tail = self._flat.size - self.tables[4].size
        # The copy is writable: numba would compile the kernel again for read-only readings.
        _look_up(
            readings.copy(), self.means, self._rows, *self._per_state, self._flat, first_tail, out
        )
        return out


def noisy_log_density(
    residuals: FloatArray, spread: float, noise: NoiseDistribution | None
) -> FloatArray:
    """Log-density of the sum of a Gaussian and the noise.

    Units: `residuals`, `spread` [W].

    Notes
    -----
    Rounding to the grid adds grid²/12 to σ².
    """
    if noise is None:
        return -0.5 * (residuals / spread) ** 2 - math.log(spread * math.sqrt(2 * math.pi))
    return noise.log_density(residuals, math.hypot(spread, noise.grid / math.sqrt(12)))


def spread_classes(spreads: FloatArray) -> tuple[FloatArray, NDArray[np.int32]]:
    """A few values of σ, at most a factor RATIO apart, and the class of every state."""
    lowest = float(spreads.min())
    rank = np.rint(np.log(spreads / lowest) / math.log(RATIO)).astype(np.int64)
    used, classes = np.unique(rank, return_inverse=True)
    return lowest * RATIO ** used.astype(np.float64), classes.astype(np.int32)


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def _look_up(
    readings: FloatArray,
    means: FloatArray,
    rows: IntArray,
    per_watt: FloatArray,
    weight: FloatArray,
    per_tail: FloatArray,
    flat: FloatArray,
    first_tail: int,
    out: FloatArray,
) -> None:
    """Interpolate in the table of the core or, beyond its end, in that of the tail.

    Both tables are in `flat`; the tail begins at `first_tail`.
    """
    cells, last = CELLS + 1.0, flat.size - first_tail - 2.0
    for t in range(readings.size):
        y, row = readings[t], out[t]
        for s in range(means.size):
            away = abs(y - means[s])
            near, far = away * per_watt[s], away * per_tail[s]
            # Conditional values instead of branches: the table differs from state to state, and
            # a branch would keep the loop from being vectorised.
            inside = near < cells
            at = near if inside else (far if far < last else last)
            cell = int(at)
            i = cell + (rows[s] if inside else first_tail)
            value = flat[i] + (at - cell) * (flat[i + 1] - flat[i])
            row[s] = value * (1.0 if inside else weight[s])


def gaussian_log_densities(
    readings: FloatArray, means: FloatArray, variance: float, *, relative: bool = False
) -> FloatArray:
    """Gaussian log-densities of all readings in all states.

    Units: `readings`, `means` [W]; `variance` [W²].
    """
    out = np.empty((readings.size, means.size))
    constant = 0.0 if relative else -0.5 * math.log(2 * math.pi * variance)
    _fill_gaussian(readings.copy(), means, -0.5 / variance, constant, relative, out)
    return out


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def _fill_gaussian(
    readings: FloatArray,
    means: FloatArray,
    factor: float,
    constant: float,
    relative: bool,
    out: FloatArray,
) -> None:
    """Fill `out` row by row; a row is small enough to stay in the cache for its maximum."""
    for t in range(readings.size):
        y, row = readings[t], out[t]
        for s in range(means.size):
            row[s] = constant + factor * (y - means[s]) ** 2
        if relative:
            row -= row.max()
