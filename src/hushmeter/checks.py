"""Checks of parameters, and the array types of the project.

Every function returns the checked value, or raises `InputError` or `DataError` with one sentence.
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hushmeter.errors import DataError, InputError, UnknownNameError

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]
# Randomness of a simulation: a generator, a seed, or None for fresh entropy.
RngLike = np.random.Generator | int | None


def positive(name: str, value: Any) -> float:
    """Return `value` as a float; raise `InputError` unless it is positive and finite."""
    number = _number(name, value)
    if not (math.isfinite(number) and number > 0):
        raise InputError(f"{name} must be positive and finite, got {value}.")
    return number


def non_negative(name: str, value: Any) -> float:
    """Return `value` as a float; raise `InputError` unless it is finite and at least zero."""
    number = _number(name, value)
    if not (math.isfinite(number) and number >= 0):
        raise InputError(f"{name} must be finite and not negative, got {value}.")
    return number


def whole(name: str, value: Any, *, least: int = 1) -> int:
    """Return `value` as an int; raise `InputError` unless it is whole and at least `least`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    return int(value)


def one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    """Return `value`; raise `InputError` unless it is one of the `allowed` words."""
    if value not in allowed:
        raise InputError(f"{name} must be one of {', '.join(allowed)}; got {value!r}.")
    return value


def once(option: str, pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return names with their values; raise `InputError` for a name that is given twice."""
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            raise InputError(f"{option} names {name!r} twice, and only one value counts; give one.")
        found[name] = value
    return found


def refuse_unknown(kind: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise `UnknownNameError` for the first of the `given` names that is not known."""
    for name in given:
        if name not in known:
            raise UnknownNameError(kind, name, known)


def seconds(name: str, value: Any) -> float:
    """Return a length of time [s], given in seconds or as text such as 30s, 15min, 1h or 1d."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*(s|min|h|d)\s*", value)
        if match is None:
            raise InputError(f"{name} must be a time such as 30s, 15min, 1h or 1d; got {value!r}.")
        value = float(match[1]) * {"s": 1, "min": 60, "h": 3600, "d": 86_400}[match[2]]
    return positive(name, value)


def finite_vector(name: str, values: ArrayLike) -> FloatArray:
    """Return finite numbers as a one-dimensional float64 array."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers: {error}.") from None
    if array.ndim != 1:
        raise InputError(f"{name} must have one dimension, got shape {array.shape}.")
    finite = np.isfinite(array)
    if not finite.all():
        row = int(np.flatnonzero(~finite)[0])
        raise DataError(f"{name} must be finite, but row {row} is {array[row]}.")
    return array


def positive_array(name: str, values: ArrayLike, *, zero: bool = False) -> FloatArray:
    """Return numbers of any shape as float64; all must be finite and positive."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be numbers, got {values!r}.") from None
    if not (np.isfinite(array) & ((array > 0) | (zero & (array == 0)))).all():
        kind = "finite and not negative" if zero else "positive and finite"
        raise InputError(f"{name} must be {kind}, got {values!r}.")
    return array


def power_vector(powers: ArrayLike) -> FloatArray:
    """Return powers of appliances [W], shape (N,); raise `InputError` unless all are positive."""
    array = finite_vector("powers", powers)
    if array.size == 0:
        raise InputError("powers must name at least one appliance.")
    if array.min() <= 0:
        raise InputError(f"powers must be positive, got {array.min():g} W.")
    return array


def _number(name: str, value: Any) -> float:
    """Return `value` as a float; raise `InputError` for text, True and False."""
    if isinstance(value, bool | str | bytes):
        raise InputError(f"{name} must be a number, got {value!r}.")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must be a number, got {value!r}.") from None
