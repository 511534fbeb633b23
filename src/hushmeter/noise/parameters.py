"""Exact parameters: rational numbers, steps of the grid, and the coarser grids."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from hushmeter.errors import InputError

Exact = int | float | str | Fraction | Decimal

MAX_STEPS = 1 << 36
"""Readings must stay below this many grid steps, so that a float's rounding error is known."""

ROUNDING_SLACK = Fraction(1, 1 << 14)
"""Two readings below `MAX_STEPS` are each off by less than half of this, in steps, when divided
by the grid and shifted by 1/2 in float64 (three roundings of at most 2^−17 steps each)."""

_LARGEST_COARSENING = 10**15
_DIGITS = 1000
_SMALLEST, _LARGEST = Fraction(1, 10**100), Fraction(10**100)


def exact(name: str, value: Any) -> Fraction:
    """`value` as the rational number it is written as, refused unless positive and finite.

    A float is read through its shortest decimal form: 0.1 means 1/10. What lies beyond 10^±100 is
    refused as well, so that every product of a few parameters is a float.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float | str | Fraction | Decimal):
        raise InputError(f"{name} must be a number, got {value!r}.")
    try:
        written = repr(value) if isinstance(value, float) else value
        # An exponent of many digits would make a number of as many.
        vast = isinstance(written, str | Decimal) and abs(_exponent(str(written))) > _DIGITS
        number = Fraction(1 if vast else written)
    except (ValueError, ZeroDivisionError, OverflowError):
        vast, number = False, Fraction(0)
    if number <= 0:
        raise InputError(f"{name} must be positive and finite, got {value}.")
    if vast or not _SMALLEST <= number <= _LARGEST:
        raise InputError(f"{name} must lie between 1e-100 and 1e100.")
    return number


def _exponent(text: str) -> int:
    """The power of ten at the end of a number, 0 if there is none."""
    return int(text.lower().partition("e")[2].strip() or 0)


def parse_clamp(text: str) -> tuple[float, float]:
    """Bounds of a reading written as LO,HI in watts."""
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"clamp must be LO,HI in watts, got {text!r}.") from None
    bounds = clamp_bounds((low, high))
    assert bounds is not None
    return bounds


def clamp_bounds(clamp: Any) -> tuple[float, float] | None:
    """(low, high) in watts, refused unless both are finite and in order."""
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
    """floor(reading / grid + 1/2) in the same float arithmetic as a release."""
    return math.floor(reading * per_watt(grid) + 0.5)


def per_watt(grid: Fraction) -> float:
    """Steps of the grid per watt, as a float."""
    return float(1 / grid)


def steps_apart(shift: Fraction, grid: Fraction, readings: int = 1) -> int:
    """Largest sum of grid-step changes when `readings` readings move by `shift` in total.

    Rounding to the nearest step can stretch each reading's change by up to one step, and the
    float's own rounding by the slack.
    """
    return math.floor(shift / grid + readings * ROUNDING_SLACK) + readings


def coarser(grid: Fraction) -> Iterator[Fraction]:
    """The grid itself, then 2, 5, 10, 20, 50, … times as coarse."""
    factor = 1
    while factor <= _LARGEST_COARSENING:
        yield from (grid * factor * lead for lead in (1, 2, 5))
        factor *= 10
