"""What every mechanism shares: exact parameters, the grid, the clamp and the release."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.checks import FloatArray, IntArray, one_of, whole
from hushmeter.errors import InputError
from hushmeter.noise.distribution import GridLaw
from hushmeter.noise.grid import WORD_BITS
from hushmeter.noise.parameters import (
    MAX_STEPS,
    Exact,
    clamp_bounds,
    coarser,
    exact,
    per_watt,
    steps_apart,
    to_steps,
)
from hushmeter.noise.randomness import BLOCK, Streams, release_key
from hushmeter.noise.readings import check_on_grid, checked_readings, output_array
from hushmeter.noise.samplers import Noise, Sampler

GUARANTEE = "computational (AES-256-CTR)"
MECHANISMS = ("laplace", "staircase", "gaussian")
MAX_EPSILON = 20.0
MOST_DECAY = 4096
"""Largest fall of the log-mass from one outcome to the next: beyond it nothing but 0 is drawn."""

Rng = int | np.random.Generator | None


class Mechanism(GridLaw):
    """Noise of one law on a grid, added to readings that are clamped and rounded before.

    Parameters
    ----------
    epsilon : exact number
        Privacy loss of one protected change.
    sensitivity : exact number [W]
        Largest change that is protected: of one reading, or summed over `touches` readings.
    grid : exact number [W]
        Readings are rounded half up to whole multiples of it and stay on it.
    clamp : (low, high) [W], optional
        Bounds of a reading, known beforehand and never taken from the data.
    on_grid : bool
        The meter already reports multiples of the grid, so rounding stretches nothing.
    touches : int
        Number of readings over which the protected change may be spread.
    max_epsilon : float
        The largest epsilon accepted; raise it on purpose only.
    engine : {"table", "opendp"}
        Own exact sampler, or OpenDP's (Laplace only, optional extra).

    Notes
    -----
    A float parameter is read through its shortest decimal form, so 0.1 means 1/10. The protected
    change counts `steps` = Δ_g grid steps: floor(Δ/g) + 1, or Δ/g with `on_grid`, and never more
    than the clamp's own width. Where the noise is too wide for the tables the grid is coarsened by
    2, 5, 10, 20, … and `coarsened` says so.
    """

    name: ClassVar[str]
    engines: ClassVar[tuple[str, ...]] = ("table",)

    def __init__(
        self,
        epsilon: Exact,
        sensitivity: Exact,
        grid: Exact,
        *,
        clamp: tuple[float, float] | None,
        on_grid: bool,
        touches: int,
        max_epsilon: float,
        engine: str,
        word_bits: int,
        residual_bits: int,
    ) -> None:
        self.exact_epsilon = exact("epsilon", epsilon)
        self.exact_sensitivity = exact("sensitivity", sensitivity)
        self.clamp = clamp_bounds(clamp)
        self.on_grid = bool(on_grid)
        self.touches = whole("touches", touches)
        limit = exact("max_epsilon", max_epsilon)
        self.max_epsilon = float(limit)
        self.engine = one_of("engine", engine, self.engines)
        self._words = (
            _bits("word_bits", word_bits, WORD_BITS),
            _bits("residual_bits", residual_bits, 64),
        )
        self._metered_grid = exact("grid", grid)
        self._check_grid()
        if self.exact_epsilon > limit:
            raise InputError(
                f"epsilon must be at most max_epsilon = {self.max_epsilon:g}, got {epsilon}; "
                "raise max_epsilon if that little protection is meant."
            )
        self.exact_grid = self._choose_grid()
        self.steps = self._sensitivity_steps(self.exact_grid)
        if self._decay > MOST_DECAY:
            raise InputError(
                f"epsilon {self.epsilon:g} leaves no noise at all on a grid of {self.grid:g} W; "
                "lower epsilon or take a finer grid."
            )

    @property
    def epsilon(self) -> float:
        """Privacy loss ε of the protected change."""
        return float(self.exact_epsilon)

    @property
    def delta(self) -> float:
        """Probability δ of (ε, δ)-differential privacy; 0 for a pure mechanism."""
        return 0.0

    @property
    def sensitivity(self) -> float:
        """Largest protected change [W]."""
        return float(self.exact_sensitivity)

    @property
    def grid(self) -> float:
        """Step of the released readings [W]."""
        return float(self.exact_grid)

    @property
    def coarsened(self) -> bool:
        """Whether the noise was too wide for the grid asked for."""
        return self.exact_grid != self._metered_grid

    @abstractmethod
    def epsilon_for(self, shift: Exact, touches: int = 1) -> float:
        """Group privacy: the loss for a change by `shift` watts, spread over `touches` readings."""

    @abstractmethod
    def _fits(self, steps: int) -> bool:
        """Whether the noise for a change of so many steps fits the tables."""

    @property
    def _decay(self) -> Fraction:
        """How fast the log-mass falls, per grid step where it falls steadily."""
        return self.exact_epsilon / self.steps

    @abstractmethod
    def _sampler(self) -> Sampler:
        """The sampler of the noise in grid steps."""

    def release(
        self,
        readings: ArrayLike,
        *,
        rng: Rng = None,
        key: bytes | None = None,
        out: FloatArray | None = None,
    ) -> FloatArray:
        """Noisy readings [W], whole multiples of the grid.

        Parameters
        ----------
        readings : (T,) [W]
        rng : int or Generator, optional
            A simulation: the same sampler under a key derived from the seed. A Generator is
            consumed for the 32 bytes of one key. Never publish a simulated release.
        key : 32 bytes, optional
            Replays a release: the same key and readings give the same bytes. Using one key for
            two different inputs publishes their exact difference.
        out : (T,) float64, optional
            Where to write; a new array otherwise.
        """
        values = self._readings(readings)
        target = output_array(out, values.size)
        secret, _ = release_key(rng, key)
        if self.engine == "opendp":
            if rng is not None or key is not None:
                raise InputError(
                    "engine 'opendp' takes neither rng nor key: it draws its own bits."
                )
            target[...] = self._through_opendp(values)
            return self._to_watts(target)
        self._add(values, secret, target)
        return target

    def sample(self, size: int, *, rng: Rng = None, key: bytes | None = None) -> IntArray:
        """Noise alone, in grid steps, int64; `rng` and `key` as in `release`."""
        count = whole("size", size, least=0)
        secret, _ = release_key(rng, key)
        noise = np.empty(count, dtype=np.int64)
        for start, part in self._noise(secret, count):
            noise[start : start + part.size] = part
        return noise

    def steps_of(self, shift: Exact, touches: int = 1) -> int:
        """Grid steps that a change by `shift` watts, spread over `touches` readings, can make."""
        distance = exact("shift", shift) if shift else Fraction(0)
        if distance == 0:
            return 0
        return self._shift_steps(distance, self.exact_grid, whole("touches", touches))

    def describe(self) -> dict[str, Any]:
        """Plain facts for a receipt."""
        return {
            "mechanism": self.name,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "sensitivity": self.sensitivity,
            "grid": self.grid,
            "steps": self.steps,
            "scale": self.scale,
            "clamp": None if self.clamp is None else list(self.clamp),
            "on_grid": self.on_grid,
            "touches": self.touches,
            "max_epsilon": self.max_epsilon,
            "coarsened": self.coarsened,
            "engine": self.engine,
            "guarantee": GUARANTEE if self.engine == "table" else "OpenDP",
        }

    def __repr__(self) -> str:
        parts = f"epsilon={self.epsilon:g}, sensitivity={self.sensitivity:g}, grid={self.grid:g}"
        return f"{type(self).__name__}({parts})"

    def _check_grid(self) -> None:
        """Refuse a clamp that is too wide, or a sensitivity off the grid where it must be on it."""
        ratio = self.exact_sensitivity / self._metered_grid
        if self.on_grid and self.touches == 1 and ratio.denominator != 1:
            raise InputError(
                "with on_grid the sensitivity must be a whole number of grid steps, but "
                f"{self.sensitivity:g} W is {float(ratio):g} steps."
            )
        if self.clamp is not None:
            widest = max(abs(self.clamp[0]), abs(self.clamp[1]))
            if Fraction(repr(widest)) >= MAX_STEPS * self._metered_grid:
                raise InputError(f"clamp reaches {widest:g} W, too far for the grid.")

    def _choose_grid(self) -> Fraction:
        for grid in coarser(self._metered_grid):
            if self._fits(self._sensitivity_steps(grid)):
                return grid
            if grid > self.exact_sensitivity:
                break
        raise InputError(
            f"the noise for epsilon {self.epsilon:g} and sensitivity {self.sensitivity:g} W is too "
            "wide for any grid; raise epsilon."
        )

    def _sensitivity_steps(self, grid: Fraction) -> int:
        return self._shift_steps(self.exact_sensitivity, grid, self.touches)

    def _shift_steps(self, shift: Fraction, grid: Fraction, readings: int) -> int:
        """Largest change in grid steps; no reading changes by more than a clamp is wide."""
        if self.on_grid and grid == self._metered_grid:
            # A change that is no whole number of steps is metered as the next one at most.
            steps = math.ceil(shift / grid)
        else:
            steps = steps_apart(shift, grid, readings)
        if self.clamp is None or readings > 1:
            return steps
        low, high = self.clamp
        return min(steps, max(1, to_steps(high, grid) - to_steps(low, grid)))

    def _readings(self, readings: ArrayLike) -> FloatArray:
        """Checked float64 readings; nothing has been drawn yet when they are refused."""
        limit = math.inf if self.clamp is not None else float(MAX_STEPS * self.exact_grid)
        values = checked_readings(readings, limit)
        if self.on_grid:
            check_on_grid(values, self._metered_grid)
        return values

    def _bounds(self) -> tuple[float, float]:
        return (-math.inf, math.inf) if self.clamp is None else self.clamp

    def _add(self, values: FloatArray, secret: bytes, out: FloatArray) -> None:
        """Clamp, round and add the noise block by block."""
        from hushmeter.noise.kernels import add_noise

        low, high = self._bounds()
        ratio = per_watt(self.exact_grid)
        for start, noise in self._noise(secret, values.size):
            place = slice(start, start + noise.size)
            add_noise(values[place], ratio, low, high, noise, out[place])
            self._to_watts(out[place])

    def _noise(self, secret: bytes, count: int) -> Iterator[tuple[int, Noise]]:
        """First draw and noise of one block after the other; the block is used again."""
        if count:
            sampler = self._sampler()
            block = min(BLOCK, count)
            streams = Streams(secret, sampler.planes, block)
            noise: Noise = np.empty(block, dtype=sampler.dtype)
            for start in range(0, count, block):
                part = noise[: count - start]
                sampler.fill(streams, start, part)
                yield start, part

    def _to_watts(self, steps: FloatArray) -> FloatArray:
        """Grid steps to watts in place, steps·numerator/denominator: one rounding on most grids."""
        if self.exact_grid.numerator != 1:
            steps *= float(self.exact_grid.numerator)
        if self.exact_grid.denominator != 1:
            steps /= float(self.exact_grid.denominator)
        return steps

    def _through_opendp(self, values: FloatArray) -> IntArray:  # noqa: ARG002
        """Readings through OpenDP's sampler, in grid steps, for the laws that list the engine."""
        raise InputError(f"engine 'opendp' does not serve {self.name} noise.")


def _bits(name: str, value: int, most: int) -> int:
    if whole(name, value, least=4) > most:
        raise InputError(f"{name} must be at most {most}, got {value}.")
    return value
