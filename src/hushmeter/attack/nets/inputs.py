"""Inputs of the convolutional network: readings, scaled by the noise that they contain.

Every length is a time and not a number of readings. Readings of less than a minute are averaged
over cells of about one minute, and the readings within a cell are a second input.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.attack.base import NoiseDistribution
from hushmeter.checks import BoolArray, FloatArray

if TYPE_CHECKING:
    import torch

CELL_S = 60.0
"""Shorter readings are averaged over the largest whole number of readings within this time [s]."""

REACH_S = 4 * 3600.0
"""Largest distance between the readings that one convolution combines [s]."""

MEANS_S = (300.0, 900.0, 2700.0, 8100.0)
"""Lengths of the centred means that are inputs of the network [s]."""

BASE_S = 4 * 3600.0
"""Time [s] over which the lowest mean is taken as the base load."""

MARGIN_S = 2 * 3600.0
"""Readings before and after a training window that its inputs are computed from [s]."""

LAPLACE_SHAPE = math.log(2) / math.sqrt(2)
"""Median of |noise| over its standard deviation, for Laplace noise."""

LEAST_NOISE_W = 20.0
"""Smallest scale of the noise in training [W]."""

MOST_NOISE = 1.3
"""Largest scale of the noise in training, in units of the power of the largest appliance."""

STAIRCASE_EPSILON = 3.0
"""ε of the staircase noise in training."""

Sampler = Callable[[np.random.Generator, int], FloatArray]
"""Function that samples a given number of values of noise."""


@dataclass(frozen=True)
class Noise:
    """What the network knows about the noise of the readings."""

    std: float = 0.0  # Standard deviation [W]
    # Median of |noise| over the standard deviation, minus its value for Laplace noise. It is zero
    # without noise.
    shape: float = 0.0

    @classmethod
    def of(cls, mechanism: NoiseDistribution | None) -> Noise:
        """Noise of a mechanism; no noise for None."""
        if mechanism is None or not mechanism.std > 0:
            return cls()
        return cls(mechanism.std, mechanism.quantile(0.5) / mechanism.std - LAPLACE_SHAPE)

    @classmethod
    def draw(cls, largest: float, rng: np.random.Generator) -> tuple[Noise, Sampler]:
        """Draw the noise of a training window, with the function that samples it.

        A quarter of the windows has no noise. The other windows have a log-uniform scale up to
        `MOST_NOISE` times the power of the largest appliance [W].
        """
        if rng.random() < 0.25:
            return cls(), lambda _rng, size: np.zeros(size)
        high = max(MOST_NOISE * largest / LEAST_NOISE_W, 2.0)
        std = math.sqrt(2) * LEAST_NOISE_W * high ** rng.random()
        median, sample = DISTRIBUTIONS[int(rng.choice(3, p=(0.6, 0.2, 0.2)))]
        return cls(std, median - LAPLACE_SHAPE), lambda r, size: std * sample(r, size)


def sample_laplace(rng: np.random.Generator, size: int) -> FloatArray:
    """Laplace noise of standard deviation one."""
    return rng.laplace(scale=math.sqrt(0.5), size=size)


def sample_gaussian(rng: np.random.Generator, size: int) -> FloatArray:
    """Gaussian noise of standard deviation one."""
    return rng.standard_normal(size)


def sample_staircase(rng: np.random.Generator, size: int) -> FloatArray:
    """Staircase noise of standard deviation one at ε = 3, where it differs most from Laplace.

    With smaller ε it is nearly Laplace noise, and with larger ε hardly any noise.
    """
    decay, inner, low = _stairs()
    stair = rng.geometric(1 - decay, size) - 1.0
    place = np.where(
        rng.random(size) < low, inner * rng.random(size), inner + (1 - inner) * rng.random(size)
    )
    noise: FloatArray = (stair + place) * rng.choice([-1.0, 1.0], size) / _stairs_std()
    return noise


def _stairs() -> tuple[float, float, float]:
    """Decay from stair to stair, width of the inner part, and probability of the inner part."""
    decay, inner = math.exp(-STAIRCASE_EPSILON), 1 / (1 + math.exp(STAIRCASE_EPSILON / 2))
    return decay, inner, inner / (inner + (1 - inner) * decay)


def _stairs_std() -> float:
    """Standard deviation of staircase noise with sensitivity one."""
    decay, inner, low = _stairs()
    mean, square = decay / (1 - decay), decay * (1 + decay) / (1 - decay) ** 2
    near = square + inner * mean + inner**2 / 3
    outer = 1 - inner
    far = square + 2 * mean * (inner + outer / 2) + inner**2 + inner * outer + outer**2 / 3
    return math.sqrt(low * near + (1 - low) * far)


def _stairs_median() -> float:
    """Median of |noise| over its standard deviation: more than half is on the lowest stair."""
    decay, inner, low = _stairs()
    return 0.5 * inner / (low * (1 - decay)) / _stairs_std()


DISTRIBUTIONS: tuple[tuple[float, Sampler], ...] = (
    (LAPLACE_SHAPE, sample_laplace),
    (0.67449, sample_gaussian),
    (_stairs_median(), sample_staircase),
)
"""Noise in training: median of |noise| over the standard deviation, and the sampler."""


@dataclass(frozen=True)
class Cells:
    """The cells of a trace: each has `size` readings, and lasts about a minute or one reading."""

    interval_s: float

    @property
    def size(self) -> int:
        """Number of readings of a cell."""
        return max(1, int(CELL_S / self.interval_s + 1e-9))

    def count(self, seconds: float) -> int:
        """Number of cells in a time, at least one."""
        return max(1, round(seconds / (self.size * self.interval_s)))

    @property
    def means(self) -> list[int]:
        """Widths of the centred means, in cells; all are odd."""
        return [self.count(seconds) // 2 * 2 + 1 for seconds in MEANS_S]

    @property
    def dilations(self) -> list[int]:
        """Distances of the readings that the convolutions combine, in cells."""
        return [2**k for k in range(1 + int(math.log2(self.count(REACH_S))))]

    @property
    def margin(self) -> int:
        """Cells around a window that its inputs are computed from."""
        return self.count(MARGIN_S)

    @property
    def field(self) -> int:
        """Cells on each side that a prediction depends on."""
        return sum(self.dilations) + 2 + max(self.margin, max(self.means))


@dataclass(frozen=True)
class Inputs:
    """Inputs of a network for a batch of rows."""

    coarse: torch.Tensor  # Inputs of the cells
    # Inputs of the readings within the cells; None if a cell is one reading
    fine: torch.Tensor | None
    # One for cells with a reading, zero for cells after the end of a contiguous run
    mask: torch.Tensor

    def cut(self, cells: slice, size: int) -> Inputs:
        """Inputs of some of the cells."""
        readings = slice(cells.start * size, cells.stop * size)
        fine = None if self.fine is None else self.fine[:, readings]
        return Inputs(self.coarse[:, cells], fine, self.mask[:, cells])


class Encoder:
    """Computes the inputs of the network from readings and the noise."""

    def __init__(self, cells: Cells, centre: float, spread: float) -> None:
        self.cells, self.centre, self.spread = cells, centre, spread

    def encode(self, y: FloatArray, valid: BoolArray, noise: Sequence[Noise]) -> Inputs:
        """Inputs of the network for rows of readings [W]; `valid` is False where there is none."""
        import torch

        size = self.cells.size
        parts, known = (x.reshape(len(y), -1, size) for x in (y, valid))
        count = known.sum(axis=2)
        mask = count > 0
        # Beyond the ends of its run a row repeats its first and its last cell.
        cell = np.clip(
            np.arange(mask.shape[1]),
            mask.argmax(axis=1)[:, None],
            mask.shape[1] - 1 - mask[:, ::-1].argmax(axis=1)[:, None],
        )
        mean = (parts * known).sum(axis=2) / np.maximum(count, 1)
        coarse = self._coarse(np.take_along_axis(mean, cell, axis=1), noise)
        fine = None
        if size > 1:
            away = (parts - mean[:, :, None]) * known
            b = np.array([n.std for n in noise])[:, None, None] / math.sqrt(2)
            above, below = away.max(axis=2), -away.min(axis=2)
            coarse += [np.arcsinh(above / (20 + 2 * b[:, :, 0])) * mask]
            coarse += [np.arcsinh(below / (20 + 2 * b[:, :, 0])) * mask]
            jump = np.diff(y, axis=1, prepend=y[:, :1]).reshape(parts.shape)
            inner = [np.arcsinh(x / (20 + 2 * b)) * known for x in (away, jump)]
            fine = _tensor([np.reshape(x, y.shape) for x in inner])
        return Inputs(_tensor(coarse), fine, torch.from_numpy(mask[:, :, None].astype(np.float32)))

    def _coarse(self, y: FloatArray, noise: Sequence[Noise]) -> list[FloatArray]:
        """Inputs of the cells from their means [W], each of shape (B, L)."""
        # b is the scale of Laplace noise with the same standard deviation.
        b = np.array([n.std for n in noise])[:, None] / math.sqrt(2 * self.cells.size)
        shape = np.array([n.shape for n in noise])[:, None]
        away, sharp = y - self.centre, 0.1 * self.spread
        rows = [
            away / np.sqrt(self.spread**2 + 2 * b**2),
            np.arcsinh(away / (sharp + b)),
            np.arcsinh(np.diff(y, axis=1, prepend=y[:, :1]) / (20 + 2 * b)),
            np.broadcast_to(np.log1p(b / 10) / 8, y.shape),
            np.broadcast_to(2 * shape, y.shape),
        ]
        widths = self.cells.means
        means = [centred_mean(y, width) for width in widths]
        for mean, width in zip(means, widths, strict=True):
            rows.append(np.arcsinh((mean - self.centre) / (sharp + 1.4 * b / math.sqrt(width))))
        base = rolling_minimum(means[1], self.cells.count(BASE_S) // 2 * 2 + 1)
        rows.append(np.arcsinh((means[0] - base) / (20 + b / 2)))
        return rows

    @property
    def channels(self) -> tuple[int, int]:
        """Numbers of inputs of a cell and of a reading within a cell."""
        coarse = 6 + len(MEANS_S)
        return (coarse + 2, 2) if self.cells.size > 1 else (coarse, 0)


def _tensor(rows: Sequence[FloatArray]) -> torch.Tensor:
    """Tensor of shape (B, T, channels) from the values of each channel."""
    import torch

    return torch.from_numpy(np.stack(rows, axis=2).astype(np.float32))


def centred_mean(y: FloatArray, width: int) -> FloatArray:
    """Mean over `width` neighbours along the last axis; the ends are repeated."""
    if width == 1:
        return y
    half = width // 2
    padded = np.pad(y, ((0, 0), (half + 1, half)), mode="edge")
    sums = np.cumsum(padded, axis=1)
    mean: FloatArray = (sums[:, width:] - sums[:, :-width]) / width
    return mean


def rolling_minimum(y: FloatArray, width: int) -> FloatArray:
    """Smallest of `width` neighbours along the last axis."""
    from scipy.ndimage import minimum_filter1d

    lowest: FloatArray = minimum_filter1d(y, width, axis=1, mode="nearest")
    return lowest
