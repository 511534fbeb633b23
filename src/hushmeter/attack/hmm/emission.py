"""How likely a reading is in every joint state: the state's power law and the law of the noise.

A state of the home draws power with mean μ and variance σ² [W²]; a mechanism adds noise n. With
r = y − μ the density of a reading is

    g(r) = (1 − η)·(N(0, σ²) ∗ law of n)(r) + η·e^(−|r|/b)/2b.

The second part has weight η and long tails, so that no reading is impossible. All laws are
symmetric. g is tabulated once for a few values of σ and then looked up.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from numpy.typing import NDArray

from hushmeter.attack.base import NoiseDistribution
from hushmeter.checks import FloatArray, IntArray

CELLS = 1024
"""Cells of the table of one σ, from r = 0 to where the noise ends."""

RATIO = 1.12
"""States whose σ differ by less than this factor share a table."""

TAIL_STEPS = 8
"""Steps of the tail's table per b."""

NEGLIGIBLE = 1e-10
"""Noise beyond its 1 − NEGLIGIBLE quantile is left to the long tails."""


class NoisyEmission:
    """Densities [1/W] of readings in every joint state.

    Parameters
    ----------
    means : array, shape (S,)
        Mean power of each joint state, base load included [W].
    variances : array, shape (S,)
        Its variance [W²].
    noise : mechanism or None
        Whose noise was added, if any.
    outlier : float
        η, the weight of the long tails.
    reach : float
        Largest |r| that must be told apart [W]; it sets the length b of the tails.
    """

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
        """g at every reading for every joint state, shape (T, S)."""
        out = np.empty((readings.size, self.means.size))
        first_tail = self._flat.size - self.tables[4].size
        # A copy is writable: read-only readings would be compiled for a second time.
        _look_up(
            readings.copy(), self.means, self._rows, *self._per_state, self._flat, first_tail, out
        )
        return out


def noisy_log_density(
    residuals: FloatArray, spread: float, noise: NoiseDistribution | None
) -> FloatArray:
    """log of (N(0, σ²) ∗ law of the noise) at r ≥ 0 [1/W].

    In closed form for no noise and for Laplace noise on a fine grid, else `convolved`. The
    rounding to the grid adds grid²/12 to σ².
    """
    if noise is None:
        return -0.5 * (residuals / spread) ** 2 - math.log(spread * math.sqrt(2 * math.pi))
    spread = math.hypot(spread, noise.grid / math.sqrt(12))
    if noise.name == "laplace" and noise.scale >= 2 * noise.grid:
        return laplace_log_density(residuals, spread, noise.scale)
    return convolved(residuals, spread, noise)


def laplace_log_density(residuals: FloatArray, spread: float, scale: float) -> FloatArray:
    """Gaussian convolved with Laplace(λ), in closed form:

    f(r) = e^(σ²/2λ²)/2λ · (e^(−r/λ)·Φ(r/σ − σ/λ) + e^(r/λ)·Φ(−r/σ − σ/λ)).
    """
    from scipy.special import log_ndtr

    r, ratio = residuals / scale, spread / scale
    u = residuals / spread
    both = np.logaddexp(log_ndtr(u - ratio) - r, log_ndtr(-u - ratio) + r)
    log_density: FloatArray = both + ratio**2 / 2 - math.log(2 * scale)
    return log_density


def convolved(residuals: FloatArray, spread: float, noise: NoiseDistribution) -> FloatArray:
    """The same for any law on a grid: Σ_k P(n = k)·φ_σ(r − k·grid) over what lies within 8σ of r.

    Where σ is wide on the grid the noise is first gathered into cells of at most σ/16, which moves
    the density by a few thousandths at most and keeps the sums short, however wide the noise. A σ
    below half a grid step would leave the teeth of the comb standing, which readings that were
    never rounded fall between: half a step is the least that is used.
    """
    spread = max(spread, noise.grid / 2)
    half = max(0, int(spread / noise.grid / 16 - 1) // 2)
    width = (2 * half + 1) * noise.grid
    reach = math.ceil(8 * spread / width)
    cells = np.rint(residuals / width)[:, None] + np.arange(-reach, reach + 1)
    gaps = (residuals[:, None] - cells * width) / spread
    steps, places = np.unique(np.abs(cells), return_inverse=True)
    masses = _cell_masses(noise, steps * (2 * half + 1), half)[places.reshape(cells.shape)]
    density = (masses * np.exp(-0.5 * gaps**2)).sum(axis=1) / (spread * math.sqrt(2 * math.pi))
    log_density: FloatArray = np.log(np.maximum(density, 1e-300))
    return log_density


def _cell_masses(noise: NoiseDistribution, steps: FloatArray, half: int) -> FloatArray:
    """P(|n − k| ≤ half) for k = `steps` ≥ 0, from the lower tail: there it has all its digits."""
    if half == 0:
        return np.asarray(noise.pmf(steps), dtype=np.float64)
    upper, lower = noise.cdf(half - steps), noise.cdf(-half - 1 - steps)
    return np.asarray(upper, dtype=np.float64) - np.asarray(lower, dtype=np.float64)


def spread_classes(spreads: FloatArray) -> tuple[FloatArray, NDArray[np.int32]]:
    """A few values of σ, at most a factor RATIO apart, and which of them each state has."""
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
    """Interpolate in the core's table or in the tail's, which stands behind it in `flat`."""
    cells, last = CELLS + 1.0, flat.size - first_tail - 2.0
    for t in range(readings.size):
        y, row = readings[t], out[t]
        for s in range(means.size):
            away = abs(y - means[s])
            near, far = away * per_watt[s], away * per_tail[s]
            # Choices instead of branches: which table it is changes from state to state.
            inside = near < cells
            at = near if inside else (far if far < last else last)
            cell = int(at)
            i = cell + (rows[s] if inside else first_tail)
            value = flat[i] + (at - cell) * (flat[i + 1] - flat[i])
            row[s] = value * (1.0 if inside else weight[s])


def gaussian_log_densities(
    readings: FloatArray, means: FloatArray, variance: float, *, relative: bool = False
) -> FloatArray:
    """log N(y; μ_s, v) for every reading and state, shape (T, S); up to a constant if `relative`.

    Relative rows have their largest entry at zero.
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
    for t in range(readings.size):
        y, row = readings[t], out[t]
        for s in range(means.size):
            row[s] = constant + factor * (y - means[s]) ** 2
        if relative:
            row -= row.max()
