"""Exact parameters of a mechanism: rational numbers, the clamp, and steps of the grid.

Privacy is proved for the exact values of ε, Δ and the grid. This module therefore reads every
parameter as a rational number and counts distances in whole grid steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from hushmeter.errors import InputError

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
