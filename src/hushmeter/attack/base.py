"""The one contract every attacker keeps: fit, predict, predict_power."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.checks import BoolArray, FloatArray, RngLike, finite_vector
from hushmeter.errors import DataError, InputError, NotFittedError
from hushmeter.home import Home
from hushmeter.trace import Trace, jumps

Observed = ArrayLike | Trace


class Attacker(ABC):
    """A load-monitoring (NILM) attacker who knows a home and sees its readings.

    Subclasses say in one phrase each what they `need` and what they `assume`, and with which
    parameters they recover every state exactly from a trace without noise (`recovers_with`, or
    None): `check_attacker` holds them to it, and makes them with `checked_with` otherwise.
    """

    name: ClassVar[str]
    needs: ClassVar[str]
    assumes: ClassVar[str]
    recovers_with: ClassVar[dict[str, str] | None] = None
    checked_with: ClassVar[dict[str, Any]] = {}

    def __init__(self, home: Home) -> None:
        if not isinstance(home, Home):
            raise InputError(f"an attacker needs a Home, got {type(home).__name__}.")
        self.home = home

    def fit(self, trace: Trace) -> Self:
        """Learn what the home does not give; attackers that know all they need return as is."""
        if trace.truth().shape[1] != len(self.home):
            raise InputError(
                f"the trace has {trace.truth().shape[1]} appliances, the home {len(self.home)}."
            )
        return self

    @abstractmethod
    def predict(
        self, readings: Observed, *, initial_state: ArrayLike | None = None, rng: RngLike = None
    ) -> BoolArray:
        """Predicted states (T, N).

        Parameters
        ----------
        readings : array_like, shape (T,), or Trace
            Mains [W]; a `Trace` brings its gaps along.
        initial_state : array_like of bool, shape (N,), optional
            State at the first reading, X_0 of the paper; all off if not given.
        rng : Generator, int or None
            Randomness of the attacker's rounding.
        """

    def predict_power(
        self, readings: Observed, *, initial_state: ArrayLike | None = None, rng: RngLike = None
    ) -> FloatArray:
        """Predicted power of every appliance [W], shape (T, N): states times mean powers."""
        return self.predict(readings, initial_state=initial_state, rng=rng) * self.home.powers

    @property
    def parameters(self) -> dict[str, Any]:
        """What the attacker was made with, besides its home.

        A class keeps each parameter of its constructor under the parameter's own name, or keeps
        what it made of it under the name of another one.
        """
        names = list(inspect.signature(type(self)).parameters)[1:]
        return {name: getattr(self, name) for name in names if hasattr(self, name)}

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the attacker and all it has learnt as one .npz file, without pickles."""
        from hushmeter.attack.storage import save_attacker

        save_attacker(self, path, force=force)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote; `Attacker.load` takes any attacker of the registry."""
        from hushmeter.attack.storage import load_attacker

        found = load_attacker(path, None if cls is Attacker else cls)
        assert isinstance(found, cls)
        return found

    def _check_learnt(self) -> None:  # noqa: B027
        """Refuse, with `DataError`, what a damaged file would make compiled code read."""

    def _require_fit(self, attribute: str) -> None:
        """Refuse to go on if `fit` has not set `attribute`."""
        if not hasattr(self, attribute):
            raise NotFittedError(
                f"the {self.name} attacker learns from sub-metered data: call fit(trace) first."
            )

    def _observe(self, readings: Observed) -> tuple[FloatArray, BoolArray]:
        """Readings [W] and where their contiguous runs start."""
        if isinstance(readings, Trace):
            return readings.readings, readings.run_starts
        values = finite_vector("readings", readings)
        if values.size == 0:
            raise DataError("there are no readings to attack.")
        starts = np.zeros(values.size, np.bool_)
        starts[0] = True
        return values, starts

    def _jumps(self, readings: Observed, *, signed: bool) -> FloatArray:
        values, starts = self._observe(readings)
        return jumps(values, starts, signed=signed)

    def _initial_state(self, state: ArrayLike | None) -> BoolArray:
        if state is None:
            return np.zeros(len(self.home), np.bool_)
        array = np.asarray(state)
        if array.shape != (len(self.home),):
            raise InputError(
                f"initial_state must have {len(self.home)} entries, got shape {array.shape}."
            )
        if not np.isin(array, (0, 1)).all():
            raise InputError("initial_state must be 0 or 1 for every appliance.")
        return array.astype(np.bool_)
