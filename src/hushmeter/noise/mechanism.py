"""What all mechanisms share: exact parameters, the grid, the clamp, and the release itself.

A release has four steps: check the readings, clamp them, round them to whole grid steps, and add
whole-number noise. Everything after the rounding is integer arithmetic, so no floating-point
effect can reveal a reading.

Privacy is proved for the exact values of ε, Δ and the grid. Every parameter is therefore read as a
rational number (`exact`), and distances are counted in whole grid steps.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Self, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hushmeter.checks import FloatArray, IntArray, whole
from hushmeter.errors import DataError, InputError
from hushmeter.noise.arrays import kernels_for
from hushmeter.noise.losses import DELTA, ChangeSize, LossDistribution
from hushmeter.noise.samplers import (
    BLOCK,
    LabelledStreams,
    Noise,
    Sampler,
    Streams,
    noise_blocks,
    release_key,
)

Exact = int | float | str | Fraction | Decimal
"""A number that has one exact rational value; see `exact`."""

MAX_STEPS = 1 << 36
"""Largest magnitude of a reading [grid steps]; below it the rounding error of a float is known."""

ROUNDING_SLACK = Fraction(1, 1 << 14)
"""How far apart float64 arithmetic can move two readings when it converts them to steps [steps].

Division by the grid, the conversion of the grid to a float and the addition of 1/2 round three
times. Below `MAX_STEPS` each rounding is at most 2^−17 steps, so each of the two readings is wrong
by less than half of this slack."""

_LARGEST_COARSENING = 10**15
_MAX_EXPONENT = 1000
_SMALLEST, _LARGEST = Fraction(1, 10**100), Fraction(10**100)

GUARANTEE = "computational (AES-256-CTR)"
MAX_EPSILON = 20.0
"""Largest ε that a mechanism accepts by default."""

MAX_DECAY = 4096
"""Largest accepted decrease of ln P(n) from one outcome to the next.

Beyond it the probability of any noise other than 0 is below e^(−4096): there is no noise."""

Rng = int | np.random.Generator | None
"""Seed or generator of a simulation; None for a real release."""

_READINGS_PER_CHECK = 1 << 15


def exact(name: str, value: Any) -> Fraction:
    """Read a parameter as the rational number that it is written as; the float 0.1 means 1/10.

    The limits of 1e-100 and 1e100 ensure that a product of a few parameters is a finite float.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float | str | Fraction | Decimal):
        raise InputError(f"{name} must be a number, got {value!r}.")
    return _read_float(name, value) if isinstance(value, float) else _read_number(name, value)


@lru_cache(maxsize=4096)
def _read_float(name: str, value: float) -> Fraction:
    """Do what `_read_number` does, with a cache: a search over ε reads the same floats often."""
    return _read_number(name, value)


def _read_number(name: str, value: int | float | str | Fraction | Decimal) -> Fraction:
    """Return the rational number that a checked value is written as."""
    try:
        written = repr(value) if isinstance(value, float) else value
        # Fraction("1e999999999") would compute an integer with a billion digits.
        vast = isinstance(written, str | Decimal) and abs(_exponent(str(written))) > _MAX_EXPONENT
        number = Fraction(1 if vast else written)
    except (ValueError, ZeroDivisionError, OverflowError):
        vast, number = False, Fraction(0)
    if number <= 0:
        raise InputError(f"{name} must be positive and finite, got {value}.")
    if vast or not _SMALLEST <= number <= _LARGEST:
        raise InputError(f"{name} must lie between 1e-100 and 1e100.")
    return number


def _exponent(text: str) -> int:
    """Return the power of ten at the end of a number, or 0 if there is none."""
    return int(text.lower().partition("e")[2].strip() or 0)


def parse_clamp(text: str) -> tuple[float, float]:
    """Read the bounds of a reading [W] from text of the form LO,HI."""
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"clamp must be LO,HI in watts, got {text!r}.") from None
    bounds = clamp_bounds((low, high))
    assert bounds is not None
    return bounds


def clamp_bounds(clamp: Any) -> tuple[float, float] | None:
    """Return the bounds of a reading as floats [W], None if there are none; refuse low ≥ high."""
    if clamp is None:
        return None
    try:
        low, high = (float(bound) for bound in clamp)
    except (TypeError, ValueError):
        raise InputError(f"clamp must be a pair (low, high) in watts, got {clamp!r}.") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InputError(f"clamp must be finite with low < high, got ({low}, {high}).")
    return low, high


def to_steps(reading: float, grid: Fraction) -> int:
    """Round a reading [W] to grid steps with the same float arithmetic as a release."""
    return math.floor(reading * per_watt(grid) + 0.5)


def per_watt(grid: Fraction) -> float:
    """Number of grid steps per watt, as a float."""
    return float(1 / grid)


def steps_apart(shift: Fraction, grid: Fraction, readings: int = 1) -> int:
    """Largest sum of changes in grid steps when `readings` readings change by `shift` in total [W].

    A change of x steps becomes at most ⌊x⌋ + 1 whole steps, because ⌊a + x⌋ − ⌊a⌋ ≤ ⌊x⌋ + 1. Over
    several readings the fractions may add up, so the floor is taken of the sum. The slack covers
    the rounding of float64.
    """
    return math.floor(shift / grid + readings * ROUNDING_SLACK) + readings


def coarser(grid: Fraction) -> Iterator[Fraction]:
    """Yield the grid itself and then grids that are 2, 5, 10, 20, 50, … times as coarse."""
    factor = 1
    while factor <= _LARGEST_COARSENING:
        yield from (grid * factor * lead for lead in (1, 2, 5))
        factor *= 10


class MechanismOptions(TypedDict, total=False):
    """Keyword options that every mechanism takes; `Mechanism` documents them."""

    clamp: tuple[float, float] | None
    on_grid: bool
    touches: int
    max_epsilon: float


class Mechanism(LossDistribution):
    """Noise of one distribution on a grid, added to readings that are clamped and rounded first.

    Parameters
    ----------
    epsilon : exact number
        Privacy loss ε of one protected change.
    sensitivity : exact number
        Largest protected change Δ [W]: of one reading, or summed over `touches` readings.
    grid : exact number
        Step of the released readings [W]. Readings are rounded half up to whole multiples of it.
    clamp : (low, high), optional
        Bounds of a reading [W]. They must be known beforehand and never be taken from the data.
    on_grid : bool
        True if the meter already reports multiples of the grid; rounding then changes nothing.
    touches : int
        Number of readings over which the protected change may be spread.
    max_epsilon : float
        Largest accepted ε. A larger value must be a deliberate choice.

    Raises
    ------
    InputError
        If a parameter is invalid, or if the noise is too wide for every grid.

    Notes
    -----
    A float parameter is read through its shortest decimal form, so 0.1 means 1/10. The protected
    change corresponds to Δ_g = `steps` grid steps: Δ_g = ⌊Δ/g⌋ + 1, because rounding can move two
    readings one step further apart; Δ_g = Δ/g with `on_grid`; and never more than the width of
    the clamp. If the noise is too wide for the tables of the sampler, the grid is made coarser by
    2, 5, 10, 20, …, and `coarsened` is True.

    Examples
    --------
    >>> hm.Laplace(epsilon=1.0, sensitivity=10.0).release([120.0, 2120.0], rng=1).shape
    (2,)
    """

    name: ClassVar[str]
    """Word by which commands and files choose this kind of noise."""

    title: ClassVar[str]
    """Name of the noise within a sentence."""

    norm: ClassVar[int]
    """1 if the loss of several values grows with the sum of their changes, 2 if with the length."""

    shares_budget: ClassVar[bool] = False
    """True if several tables with this noise can share one budget."""

    paper_bounds: ClassVar[bool] = False
    """True if the paper states its bounds for this noise, by its scale λ."""

    @staticmethod
    @abstractmethod
    def measure(size: ChangeSize) -> Exact:
        """Return the change to which the noise is calibrated [W], as `sensitivity` takes it."""

    @classmethod
    def calibrated(
        cls,
        epsilon: Exact,
        size: ChangeSize,
        grid: Exact = 1.0,
        *,
        delta: Exact = DELTA,
        **options: Unpack[MechanismOptions],
    ) -> Self:
        """Make the noise with which a whole change is ε- or (ε, δ)-differentially private.

        A pure mechanism does not use δ (`delta`). `size` says how far the protected change moves
        the released values and how many it touches; `epsilon`, `grid` and `options` are those of
        `Mechanism`.
        """
        return cls(**cls._promise(epsilon, delta, size), grid=grid, **options)

    @classmethod
    def _promise(cls, epsilon: Exact, delta: Exact, size: ChangeSize) -> dict[str, Any]:  # noqa: ARG003
        """Return the arguments of the constructor that protect a whole change."""
        return {"epsilon": epsilon, "sensitivity": cls.measure(size), "touches": size.touches}

    def __init__(
        self,
        epsilon: Exact,
        sensitivity: Exact,
        grid: Exact = 1.0,
        *,
        clamp: tuple[float, float] | None = None,
        on_grid: bool = False,
        touches: int = 1,
        max_epsilon: float = MAX_EPSILON,
    ) -> None:
        self.exact_epsilon = exact("epsilon", epsilon)
        self.exact_sensitivity = exact("sensitivity", sensitivity)
        self.clamp = clamp_bounds(clamp)
        self.on_grid = bool(on_grid)
        self.touches = whole("touches", touches)
        limit = exact("max_epsilon", max_epsilon)
        self.max_epsilon = float(limit)
        self._metered_grid = exact("grid", grid)
        self._check_grid()
        if self.exact_epsilon > limit:
            raise InputError(
                f"epsilon must be at most max_epsilon = {self.max_epsilon:g}, got {epsilon}; "
                "raise max_epsilon if you accept this little protection."
            )
        self.exact_grid = self._choose_grid()
        self.steps = self._sensitivity_steps(self.exact_grid)
        if self._decay > MAX_DECAY:
            raise InputError(
                f"epsilon {self.epsilon:g} leaves no noise at all on a grid of {self.grid:g} W; "
                "choose a smaller epsilon or a finer grid."
            )

    @property
    def epsilon(self) -> float:
        """Privacy loss ε of the protected change."""
        return float(self.exact_epsilon)

    @property
    def sensitivity(self) -> float:
        """Largest protected change Δ [W]."""
        return float(self.exact_sensitivity)

    @property
    def grid(self) -> float:
        """Step of the released readings [W]."""
        return float(self.exact_grid)

    @property
    def coarsened(self) -> bool:
        """True if the noise was too wide for the requested grid."""
        return self.exact_grid != self._metered_grid

    @abstractmethod
    def exact_epsilon_for(self, shift: Exact, touches: int = 1) -> Fraction:
        """Privacy loss of another change than the protected one (group privacy).

        `shift` is its size [W], as `sensitivity` takes it, spread over `touches` readings.
        """

    def epsilon_for(self, shift: Exact, touches: int = 1) -> float:
        """`exact_epsilon_for` as a float, for a change by `shift` watts over `touches` readings."""
        return float(self.exact_epsilon_for(shift, touches))

    def epsilon_of(self, size: ChangeSize) -> float:
        """ε at which the noise protects a change of a given `size`, however it was calibrated.

        This is the one rule from which receipts, their verification, advice and batteries take ε.
        """
        return self.epsilon_for(self.measure(size), size.touches)

    def halved(self) -> Self:
        """Return the same mechanism with noise of about half the width, which breaks its claim."""
        return type(self)(
            2 * self.exact_epsilon,
            self.exact_sensitivity,
            self.exact_grid,
            max_epsilon=2 * self.max_epsilon,
            clamp=self.clamp,
            on_grid=self.on_grid and not self.coarsened,
            touches=self.touches,
        )

    @abstractmethod
    def _fits(self, steps: int) -> bool:
        """Return True if the noise for a change of `steps` grid steps fits the tables."""

    @property
    def _decay(self) -> Fraction:
        """Largest decrease of ln P(n) from one outcome to the next."""
        return self.exact_epsilon / self.steps

    @abstractmethod
    def _sampler(self) -> Sampler:
        """Return the sampler of the noise in grid steps."""

    def release(
        self,
        readings: ArrayLike,
        *,
        rng: Rng = None,
        key: bytes | None = None,
        out: FloatArray | None = None,
    ) -> FloatArray:
        """Release noisy readings.

        Parameters
        ----------
        readings : array_like, shape (T,)
            Readings [W].
        rng : int or Generator, optional
            Makes a simulation: the same sampler with a key derived from the seed. A Generator is
            used for the 32 bytes of one key. Never publish a simulated release.
        key : 32 bytes, optional
            Repeats a release: the same key and the same readings give the same bytes. One key for
            two different inputs would publish their exact difference.
        out : float64 array, shape (T,), optional
            Array for the result; a new array is made if it is not given.

        Returns
        -------
        array, shape (T,)
            Noisy readings [W], whole multiples of the grid.

        Raises
        ------
        DataError
            If a reading is not finite, too large, or not on the grid although `on_grid` is set.
        InputError
            If the readings are not a vector of numbers, or `rng`, `key` or `out` is invalid.
        """
        values = self.checked(readings)
        target = _output_array(out, values.size)
        secret, _ = release_key(rng, key)
        self._add(values, secret, target)
        return target

    def sample(self, size: int, *, rng: Rng = None, key: bytes | None = None) -> IntArray:
        """Draw the noise alone.

        Parameters
        ----------
        size : int
            Number of draws.
        rng, key
            As in `release`.

        Returns
        -------
        int64 array, shape (size,)
            Noise [grid steps].
        """
        count = whole("size", size, least=0)
        secret, _ = release_key(rng, key)
        return _joined(self._noise(secret, count), count)

    def sample_for(self, labels: NDArray[np.uint8], values: IntArray, *, key: bytes) -> IntArray:
        """Draw noise that depends on the key, the label and the value alone.

        Parameters
        ----------
        labels : uint8 array, shape (n, 16)
            A public label of every value.
        values : int64 array, shape (n,)
            The exact values to which the noise is added [grid steps].
        key : 32 bytes
            Equal labels and values get equal noise under one key. All others get independent
            noise, so that one key may serve several releases.

        Returns
        -------
        int64 array, shape (n,)
            Noise [grid steps].
        """
        streams = LabelledStreams(release_key(key=key)[0], labels, values)
        return _joined(noise_blocks(self._sampler(), streams, values.size), values.size)

    def steps_of(self, shift: Exact, touches: int = 1) -> int:
        """Largest number of grid steps that a change can make.

        Parameters
        ----------
        shift : exact number
            Size of the change [W].
        touches : int
            Number of readings over which the change is spread.
        """
        distance = exact("shift", shift) if shift else Fraction(0)
        if distance == 0:
            return 0
        return self._shift_steps(distance, self.exact_grid, whole("touches", touches))

    def parameters(self) -> dict[str, Any]:
        """Arguments with which the constructor makes this mechanism again, as plain values.

        Exact numbers are text, such as "1/3", so that no digit is lost in a file.
        """
        return {
            "epsilon": str(self.exact_epsilon),
            "sensitivity": str(self.exact_sensitivity),
            "grid": str(self._metered_grid),
            "clamp": self.clamp,
            "on_grid": self.on_grid,
            "touches": self.touches,
            "max_epsilon": self.max_epsilon,
        }

    def describe(self) -> dict[str, Any]:
        """Facts about the noise for a receipt, as plain values."""
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
            "guarantee": GUARANTEE,
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
                raise InputError(
                    f"clamp reaches {widest:g} W, which is too far for the grid; choose a "
                    "coarser grid or a narrower clamp."
                )

    def _choose_grid(self) -> Fraction:
        """Return the finest grid, from the requested one on, for which the noise fits."""
        for grid in coarser(self._metered_grid):
            if self._fits(self._sensitivity_steps(grid)):
                return grid
            if grid > self.exact_sensitivity:
                break
        raise InputError(
            f"the noise for epsilon {self.epsilon:g} and sensitivity {self.sensitivity:g} W is too "
            "wide for any grid; choose a larger epsilon."
        )

    def _sensitivity_steps(self, grid: Fraction) -> int:
        return self._shift_steps(self.exact_sensitivity, grid, self.touches)

    def _shift_steps(self, shift: Fraction, grid: Fraction, readings: int) -> int:
        """Return the largest change in grid steps; one reading changes by at most the clamp."""
        if self.on_grid and grid == self._metered_grid:
            # The meter reports a change between two steps as at most the next whole step.
            steps = math.ceil(shift / grid)
        else:
            steps = steps_apart(shift, grid, readings)
        if self.clamp is None or readings > 1:
            return steps
        low, high = self.clamp
        return min(steps, max(1, to_steps(high, grid) - to_steps(low, grid)))

    def checked(self, readings: ArrayLike) -> FloatArray:
        """Return float64 readings [W]; raise `DataError` for one that the mechanism refuses."""
        limit = math.inf if self.clamp is not None else float(MAX_STEPS * self.exact_grid)
        values = _check_readings(readings, limit)
        if self.on_grid:
            _check_on_grid(values, self._metered_grid)
        return values

    def _bounds(self) -> tuple[float, float]:
        return (-math.inf, math.inf) if self.clamp is None else self.clamp

    def _add(self, values: FloatArray, secret: bytes, out: FloatArray) -> None:
        """Clamp, round and add the noise, block by block so that a block stays in the cache."""
        round_and_add = kernels_for(values.size).round_and_add
        low, high = self._bounds()
        ratio = per_watt(self.exact_grid)
        for start, noise in self._noise(secret, values.size):
            place = slice(start, start + noise.size)
            round_and_add(values[place], ratio, low, high, noise, out[place])
            self._to_watts(out[place])

    def _noise(self, secret: bytes, count: int) -> Iterator[tuple[int, Noise]]:
        """Yield the first draw and the noise of each block; the array is reused."""
        if count:
            sampler = self._sampler()
            streams = Streams(secret, sampler.planes, min(BLOCK, count))
            yield from noise_blocks(sampler, streams, count)

    def _to_watts(self, steps: FloatArray) -> FloatArray:
        """Convert grid steps to watts in place.

        The result is steps·numerator/denominator with at most two roundings, so 3 steps of 0.1 W
        are the float 0.3. It depends on the noisy step alone and therefore reveals nothing more.
        """
        if self.exact_grid.numerator != 1:
            steps *= float(self.exact_grid.numerator)
        if self.exact_grid.denominator != 1:
            steps /= float(self.exact_grid.denominator)
        return steps


def _joined(blocks: Iterator[tuple[int, Noise]], count: int) -> IntArray:
    """Return the noise of all blocks in one array."""
    noise = np.empty(count, dtype=np.int64)
    for start, part in blocks:
        noise[start : start + part.size] = part
    return noise


def _check_readings(readings: ArrayLike, limit: float) -> FloatArray:
    """Return a contiguous float64 vector [W] whose values are finite and below `limit`."""
    try:
        values = np.ascontiguousarray(readings, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"readings must be numbers: {error}.") from None
    if values.ndim != 1 or np.ndim(readings) != 1:
        raise InputError(f"readings must have one dimension, got shape {np.shape(readings)}.")
    count_large = kernels_for(values.size).count_large
    if count_large(values.view(np.int64), int(np.float64(limit).view(np.int64))):
        row = int(np.flatnonzero(~(np.abs(values) < limit))[0])
        if math.isfinite(values[row]):
            raise DataError(f"row {row} is {values[row]:g} W, too large for the grid.")
        raise DataError(f"readings must be finite, but row {row} is {values[row]}.")
    return values


def _check_on_grid(values: FloatArray, grid: Fraction) -> None:
    """Refuse readings that are not whole multiples of the grid, up to float rounding."""
    for start in range(0, values.size, _READINGS_PER_CHECK):
        steps = values[start : start + _READINGS_PER_CHECK] * per_watt(grid)
        off = np.abs(steps - np.rint(steps)) > 1e-6 + 1e-15 * np.abs(steps)
        if off.any():
            row = start + int(np.flatnonzero(off)[0])
            raise DataError(f"row {row} is {values[row]:g} W, which is not on the grid.")


def _output_array(out: FloatArray | None, size: int) -> FloatArray:
    """Return the array into which a release is written: the given one, or a new one."""
    if out is None:
        return np.empty(size)
    if out.dtype != np.float64 or out.shape != (size,) or not out.flags.c_contiguous:
        raise InputError(f"out must be a contiguous float64 array of length {size}.")
    return out
