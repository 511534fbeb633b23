"""The value of a bound: the raw value of its formula, the clipped value, and whether it is
vacuous.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hushmeter.checks import BoolArray, FloatArray
from hushmeter.errors import InputError


@dataclass(frozen=True, eq=False, init=False)
class Bound:
    """A bound on an accuracy, for one parameter or for an array of them.

    Parameters
    ----------
    raw : array_like
        Value of the formula, which is not clipped; a number becomes a float.

    Examples
    --------
    >>> bound = Bound(1.25)
    >>> bound.raw, float(bound), bound.vacuous
    (1.25, 1.0, True)
    """

    raw: float | FloatArray

    def __init__(self, raw: ArrayLike) -> None:
        values = np.asarray(raw, dtype=np.float64)
        object.__setattr__(self, "raw", float(values) if values.ndim == 0 else values)

    @property
    def clipped(self) -> float | FloatArray:
        """Value of `raw`, clipped to [0, 1]."""
        if isinstance(self.raw, float):
            return float(np.clip(self.raw, 0.0, 1.0))
        return np.clip(self.raw, 0.0, 1.0)

    @property
    def vacuous(self) -> bool | BoolArray:
        """Whether `raw` is outside (0, 1), where the bound excludes no accuracy, or all."""
        if isinstance(self.raw, float):
            return not 0.0 < self.raw < 1.0
        outside: BoolArray = ~((self.raw > 0.0) & (self.raw < 1.0))
        return outside

    def __float__(self) -> float:
        if isinstance(self.raw, float):
            return float(self.clipped)
        raise InputError(f"this bound has {self.raw.size} values; use .clipped to get all of them.")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """The clipped values, so that numpy and matplotlib accept a bound as an array."""
        return np.array(self.clipped, dtype=dtype, copy=True if copy is None else copy)

    def __len__(self) -> int:
        if isinstance(self.raw, float):
            raise TypeError("this bound is one number and has no length")
        return len(self.raw)

    def __getitem__(self, part: Any) -> Bound:
        """Bound at some of the parameters."""
        return Bound(np.asarray(self.raw)[part])

    def __repr__(self) -> str:
        if isinstance(self.raw, float):
            note = ", vacuous" if self.vacuous else ""
            return f"Bound({self.raw:.6g}{note})"
        return f"Bound({self.raw.size} values, {int(np.sum(self.vacuous))} vacuous)"
