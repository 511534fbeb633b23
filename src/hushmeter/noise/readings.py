"""Readings as a release takes them: checked, with the first bad row named."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.checks import FloatArray
from hushmeter.errors import DataError, InputError
from hushmeter.noise.parameters import per_watt

_BLOCK = 1 << 15


def checked_readings(readings: ArrayLike, limit: float) -> FloatArray:
    """Contiguous float64 vector [W], refused where a value is no number or reaches the limit."""
    from hushmeter.noise.kernels import count_large

    try:
        values = np.ascontiguousarray(readings, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"readings must be numbers: {error}.") from None
    if values.ndim != 1 or np.ndim(readings) != 1:
        raise InputError(f"readings must have one dimension, got shape {np.shape(readings)}.")
    if count_large(values.view(np.int64), int(np.float64(limit).view(np.int64))):
        row = int(np.flatnonzero(~(np.abs(values) < limit))[0])
        if math.isfinite(values[row]):
            raise DataError(f"row {row} is {values[row]:g} W, too large for the grid.")
        raise DataError(f"readings must be finite, but row {row} is {values[row]}.")
    return values


def check_on_grid(values: FloatArray, grid: Fraction) -> None:
    """Refuse readings that are not whole multiples of the grid, up to float rounding."""
    for start in range(0, values.size, _BLOCK):
        steps = values[start : start + _BLOCK] * per_watt(grid)
        off = np.abs(steps - np.rint(steps)) > 1e-6 + 1e-15 * np.abs(steps)
        if off.any():
            row = start + int(np.flatnonzero(off)[0])
            raise DataError(f"row {row} is {values[row]:g} W, which is not on the grid.")


def output_array(out: FloatArray | None, size: int) -> FloatArray:
    """Where a release is written: the given array, or a new one."""
    if out is None:
        return np.empty(size)
    if out.dtype != np.float64 or out.shape != (size,) or not out.flags.c_contiguous:
        raise InputError(f"out must be a contiguous float64 array of length {size}.")
    return out
