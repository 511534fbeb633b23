"""The contract of every attacker: `fit`, `knows`, `predict` and `predict_power`.

To write an attacker, subclass `Attacker` and implement `_predict`. The public methods check the
input once, here, so that a subclass only sees a valid `Observation`. `AllOff` and `Hold` do not
read the meter; every attacker is compared with them.

A saved attacker is one .npz file with a JSON header and arrays, never a pickle. The header contains
the name of the attacker, its home (as TOML), its parameters and what it has learnt; every array in
them is replaced by its key in the archive. Nothing in a file is executed: values are numbers, text,
lists, arrays, level tables and mechanisms of this package.
"""

from __future__ import annotations

import copy
import inspect
import json
import math
import tomllib
import zipfile
from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hushmeter.checks import (
    BoolArray,
    FloatArray,
    IntArray,
    RngLike,
    finite_vector,
    positive,
    whole,
)
from hushmeter.errors import DataError, InputError, NotFittedError, UnknownNameError
from hushmeter.files import atomic
from hushmeter.formatting import short_duration
from hushmeter.home import Home
from hushmeter.noise import Mechanism, parse_mechanism
from hushmeter.trace import Trace, jumps

Observed = ArrayLike | Trace


@dataclass(frozen=True)
class AttackerSettings:
    """Base of the dataclasses that hold many parameters of an attacker.

    A constructor also takes a mapping with the values that differ from the usual ones, as it comes
    from a command line, a study file or a saved attacker.
    """


Settings = TypeVar("Settings", bound=AttackerSettings)


class NoiseDistribution(Protocol):
    """What an attacker can know about a mechanism; all mechanisms of `hushmeter.noise` have it."""

    @property
    def grid(self) -> float:
        """Step between released readings [W]."""

    @property
    def std(self) -> float:
        """Standard deviation of the noise [W]."""

    def log_density(self, residuals: FloatArray, spread: float) -> FloatArray:
        """Log-density [log(1/W)] of the sum of N(0, spread²) and the noise at values ≥ 0 [W]."""

    def quantile(self, p: float) -> float:
        """Value [W] below which |noise| stays with probability p."""

    def sample(self, size: int, *, rng: RngLike = None) -> IntArray:
        """Simulate noise [grid steps]."""


@dataclass(frozen=True)
class GaussianNoise:
    """Noise of which an attacker knows the standard deviation, as a Gaussian distribution.

    It describes values that a mechanism did not release as they are: means over several released
    readings, and the hours of calendar tables that were made consistent with each other.

    Parameters
    ----------
    std : float
        Standard deviation. [W]
    grid : float
        Step of the values. [W]

    Raises
    ------
    InputError
        If a parameter is not positive.
    """

    std: float
    grid: float = 1.0

    def __post_init__(self) -> None:
        positive("std", self.std)
        positive("grid", self.grid)

    @classmethod
    def of_mean(cls, mechanism: NoiseDistribution, count: int) -> GaussianNoise:
        """Noise of the mean of `count` readings with independent noise of a mechanism.

        By the central limit theorem the mean of many values is nearly Gaussian, whatever the
        distribution of one value is.
        """
        whole("count", count)
        return cls(mechanism.std / math.sqrt(count), mechanism.grid / count)

    def quantile(self, p: float) -> float:
        """Value [W] below which |noise| stays with probability p."""
        return self.std * NormalDist().inv_cdf((1 + p) / 2)

    def sample(self, size: int, *, rng: RngLike = None) -> IntArray:
        """See `NoiseDistribution`."""
        noise = np.random.default_rng(rng).normal(0.0, self.std, size)
        return np.rint(noise / self.grid).astype(np.int64)

    def log_density(self, residuals: FloatArray, spread: float) -> FloatArray:
        """See `NoiseDistribution`; the sum of two Gaussians is a Gaussian."""
        wide = math.hypot(self.std, spread)
        log_density: FloatArray = -0.5 * (residuals / wide) ** 2 - math.log(
            wide * math.sqrt(2 * math.pi)
        )
        return log_density


@dataclass(frozen=True)
class Observation:
    """What an attacker sees of one home."""

    readings: FloatArray  # Mains [W]
    # True at the first reading of each contiguous run: at reading 0 and after every gap
    run_starts: BoolArray
    rng: np.random.Generator  # Randomness of the attacker's rounding
    first_state: BoolArray | None = None  # State at the first reading, if the attacker was given it
    # Interval of the readings [s], if the attacker was given a trace
    interval_s: float | None = None

    def __len__(self) -> int:
        return self.readings.size

    def jumps(self, *, signed: bool) -> FloatArray:
        """Differences of consecutive readings [W], shape (T,); zero where a run starts."""
        return jumps(self.readings, self.run_starts, signed=signed)


class Attacker(ABC):
    """A load-monitoring (NILM) attacker that knows a home and sees its readings.

    Parameters
    ----------
    home : Home
        The appliances and their powers.

    Attributes
    ----------
    name : str
        Name in the registry.
    needs, assumes : str
        One phrase each for the list of attackers.
    uses_noise : bool
        Whether the attacker can use the noise distribution: see `knows`.
    recovers_with : dict or None
        Parameters with which the attacker recovers every state exactly from a trace without
        noise in which one appliance switches at a time; None if it does not promise this.
    checked_with : dict
        Parameters with which `check_attacker` makes the attacker.
    mechanism : NoiseDistribution or None
        The mechanism whose noise distribution the attacker knows.

    Notes
    -----
    A subclass implements `_predict`, and `_predict_power` if it has something better than states
    times mean powers. An attacker that can use the noise distribution sets `uses_noise = True`,
    reads `self.mechanism`, and takes a constructor parameter of this name. A subclass may
    override the public `predict` instead of `_predict`; it then checks its input itself.
    `check_attacker` verifies the whole contract.

    Examples
    --------
    >>> home = hm.Home([hm.Appliance("kettle", 2000.0), hm.Appliance("fridge", 120.0)])
    >>> hm.attackers["one-shot"](home, solver="exact").predict([0.0, 2000.0, 2120.0]).tolist()
    [[False, False], [True, False], [True, True]]
    """

    name: ClassVar[str]
    needs: ClassVar[str]
    assumes: ClassVar[str]
    uses_noise: ClassVar[bool] = False
    recovers_with: ClassVar[dict[str, str] | None] = None
    checked_with: ClassVar[dict[str, Any]] = {}

    mechanism: NoiseDistribution | None = None

    def __init__(self, home: Home) -> None:
        if not isinstance(home, Home):
            raise InputError(f"an attacker needs a Home, got {type(home).__name__}.")
        self.home = home

    def fit(self, trace: Trace) -> Self:
        """Learn what the home does not give from readings without noise.

        Parameters
        ----------
        trace : Trace with states
            Training data; `trace.power` is used where it is present.

        Returns
        -------
        Attacker
            The attacker itself. An attacker that needs no training returns unchanged.

        Raises
        ------
        InputError
            If the trace has another number of appliances than the home.
        """
        self.home.truth_of(trace)
        return self

    def knows(self, mechanism: NoiseDistribution | None) -> Self:
        """Return a copy of the attacker that knows the noise distribution.

        This is the only rule in the package for the noise an attacker knows: an attacker with
        `uses_noise` knows the distribution, any other attacker is copied without a change.

        Parameters
        ----------
        mechanism : Laplace, Staircase, Gaussian, GaussianNoise or None
            The mechanism that made the noise; None for readings without noise. `GaussianNoise`
            describes means over several released readings and values of calendar tables.

        Returns
        -------
        Attacker
            A copy that shares what was learnt with this attacker, which does not change.
        """
        informed = copy.copy(self)
        if self.uses_noise:
            informed.mechanism = check_mechanism(mechanism)
        return informed

    def predict(
        self, readings: Observed, *, initial_state: ArrayLike | None = None, rng: RngLike = None
    ) -> BoolArray:
        """Predict which appliances are on.

        Parameters
        ----------
        readings : array_like, shape (T,), or Trace
            Mains [W]. The gaps of a `Trace` are respected.
        initial_state : array_like of bool, shape (N,), optional
            State at the first reading, X_0 of the paper. If it is not given, attackers that need
            one start with everything off.
        rng : Generator, int or None
            Randomness of the attacker's rounding.

        Returns
        -------
        array of bool, shape (T, N)
            Predicted states.

        Raises
        ------
        NotFittedError
            If the attacker learns from data and `fit` was not called.
        InputError, DataError
            If the readings or the initial state are not valid.
        """
        return self._predict(self._see(readings, initial_state, rng))

    def predict_power(
        self, readings: Observed, *, initial_state: ArrayLike | None = None, rng: RngLike = None
    ) -> FloatArray:
        """Predict the power of every appliance [W], shape (T, N).

        The parameters are those of `predict`.
        """
        power = self._predict_power(self._see(readings, initial_state, rng))
        if power is None:
            # Through the public method, so that a subclass may override it alone.
            states = self.predict(readings, initial_state=initial_state, rng=rng)
            return states * self.home.powers
        return power

    def _predict(self, seen: Observation) -> BoolArray:
        """Predicted states, shape (T, N), of a checked observation."""
        raise NotImplementedError(f"{type(self).__name__} must implement _predict.")

    def _predict_power(self, seen: Observation) -> FloatArray | None:  # noqa: ARG002
        """Predicted power [W], shape (T, N); None means states times mean powers."""
        return None

    @property
    def lookback(self) -> int | None:
        """Number of earlier readings on which an answer depends; None for all or later ones.

        The answers of an attacker with lookback 0 depend on one reading each, also across gaps, and
        not on the initial state. `expected_accuracy` is then exact.
        """
        return None

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of the constructor, without the home, as `save` writes them.

        A class stores each parameter of its constructor as an attribute of the same name.
        """
        names = list(inspect.signature(type(self)).parameters)[1:]
        return {name: getattr(self, name) for name in names if hasattr(self, name)}

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the attacker and everything it has learnt as one .npz file, without pickles.

        Parameters
        ----------
        path : str or Path
            File name that ends in .npz.
        force : bool
            Whether to replace an existing file.
        """
        target = Path(path)
        if target.suffix != ".npz":
            raise InputError(f"{target} must end in .npz.")
        arrays: Arrays = {}
        header = {"format": FORMAT, "version": VERSION, **_describe(self, arrays)}
        text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
        with atomic(target, force=force) as temporary, temporary.open("wb") as file:
            np.savez(file, **{HEADER: text}, **arrays)  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file that `save` wrote; `Attacker.load` reads any attacker of the registry.

        Raises
        ------
        DataError
            If the file cannot be read or holds another attacker.
        """
        from hushmeter.attack.registry import attackers

        source = Path(path)
        header, arrays = _open(source)
        try:
            name = header["attacker"]
            kind = attackers[name] if cls is Attacker else cls
            if kind.name != name:
                raise DataError(f"{source} contains the attacker {name!r}, not {kind.name!r}.")
            found = _restore(header, arrays, kind)
        except (KeyError, TypeError, IndexError, InputError, tomllib.TOMLDecodeError) as error:
            raise DataError(f"{source} contains a damaged attacker: {error}") from None
        assert isinstance(found, cls)
        return found

    def _check_learnt(self) -> None:  # noqa: B027
        """Raise `DataError` for values of a damaged file that compiled code would read."""

    def _require_fit(self, attribute: str) -> None:
        """Raise `NotFittedError` if `fit` has not set `attribute`."""
        if not hasattr(self, attribute):
            raise NotFittedError(
                f"the {self.name} attacker learns from sub-metered data: call fit(trace) first."
            )

    def _see(
        self, readings: Observed, initial_state: ArrayLike | None = None, rng: RngLike = None
    ) -> Observation:
        """The checked input of a prediction."""
        values, starts = self._observe(readings)
        first = None if initial_state is None else self._initial_state(initial_state)
        interval_s = readings.interval_s if isinstance(readings, Trace) else None
        return Observation(values, starts, np.random.default_rng(rng), first, interval_s)

    def _start(self, seen: Observation) -> BoolArray:
        """State from which the attacker starts, shape (N,); all off if it was not given."""
        return self._initial_state(seen.first_state)

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

    def _initial_state(self, state: ArrayLike | None) -> BoolArray:
        """The checked initial state, shape (N,); everything off if it is None."""
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


class ProbabilisticAttacker(Attacker):
    """An attacker that also gives the probability that each appliance is on.

    A subclass implements `_predict_proba` in addition to `_predict`.
    """

    def predict_proba(
        self, readings: Observed, *, initial_state: ArrayLike | None = None, rng: RngLike = None
    ) -> FloatArray:
        """Predict the probability that each appliance is on, shape (T, N).

        The parameters are those of `predict`.
        """
        return self._predict_proba(self._see(readings, initial_state, rng))

    def _predict_proba(self, seen: Observation) -> FloatArray:
        """Probability of on, shape (T, N), for a checked observation."""
        raise NotImplementedError(f"{type(self).__name__} must implement _predict_proba.")


class AllOff(Attacker):
    """Baseline that predicts that everything is always off."""

    name: ClassVar[str] = "all-off"
    needs: ClassVar[str] = "nothing"
    assumes: ClassVar[str] = "nobody is ever home"
    lookback = 0

    def _predict(self, seen: Observation) -> BoolArray:
        return np.zeros((len(seen), len(self.home)), np.bool_)


class Hold(Attacker):
    """Baseline that predicts that the state of the first reading never changes."""

    name: ClassVar[str] = "hold"
    needs: ClassVar[str] = "the state at the first reading"
    assumes: ClassVar[str] = "nothing ever switches"

    def _predict(self, seen: Observation) -> BoolArray:
        return np.tile(self._start(seen), (len(seen), 1))


def check_mechanism(mechanism: Any) -> NoiseDistribution | None:
    """Return `mechanism` if it is a noise distribution or None; raise `InputError` otherwise."""
    needed = ("grid", "std", "quantile", "log_density", "sample")
    if mechanism is not None and not all(hasattr(mechanism, name) for name in needed):
        raise InputError(f"mechanism must be a noise mechanism, got {mechanism!r}.")
    found: NoiseDistribution | None = mechanism
    return found


def read_settings(usual: Settings, given: Settings | Mapping[str, Any] | None) -> Settings:
    """Settings of an attacker: given ones, or the usual ones with the values of a mapping."""
    if given is None:
        return usual
    if isinstance(given, Mapping):
        known = [field.name for field in fields(usual)]
        for name in given:
            if name not in known:
                raise UnknownNameError("setting", name, known)
        return replace(usual, **given)
    if not isinstance(given, type(usual)):
        raise InputError(f"settings must be a {type(usual).__name__}, got {given!r}.")
    return given


def check_interval(name: str, trained: float, given: float | None) -> None:
    """Raise `InputError` if readings have another interval [s] than the training data."""
    if given is not None and abs(given - trained) > 1e-3 * trained:
        raise InputError(
            f"the {name} attacker was trained on readings of {short_duration(trained)}, and these "
            f"have {short_duration(given)}: train it on readings of the same interval."
        )


FORMAT = "hushmeter attacker"
"""Text by which a file is recognised."""

VERSION = 1
"""Version of the file format."""

HEADER = "header"
"""Key of the header in the archive."""

Arrays = dict[str, NDArray[Any]]


def _describe(attacker: Attacker, arrays: Arrays) -> dict[str, Any]:
    """Name, home, parameters and learnt values of an attacker; arrays move to `arrays`."""
    return {
        "attacker": attacker.name,
        "home": attacker.home.to_toml(),
        "parameters": _encode(attacker.parameters, arrays),
        "learnt": _encode(learnt(attacker), arrays),
    }


def _restore(described: dict[str, Any], arrays: Arrays, cls: type[Attacker]) -> Attacker:
    """The inverse of `_describe`."""
    home = Home.from_toml(described["home"])
    attacker = cls(home, **_decode(described["parameters"], arrays))
    for name, value in _decode(described["learnt"], arrays).items():
        if not _is_learnt(name):
            raise DataError(f"a saved attacker sets {name!r}, which no attacker learns.")
        setattr(attacker, name, value)
    attacker._check_learnt()
    return attacker


def learnt(attacker: Attacker) -> dict[str, Any]:
    """Attributes that `fit` has set: those whose names end in an underscore."""
    return {name: value for name, value in vars(attacker).items() if _is_learnt(name)}


def _is_learnt(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_")


def _open(source: Path) -> tuple[dict[str, Any], Arrays]:
    try:
        with np.load(source, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
        header = json.loads(arrays.pop(HEADER).tobytes())
    except OSError as error:
        raise DataError(f"{source} cannot be read: {error.strerror or error}.") from None
    except (ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile):
        raise DataError(f"{source} is not a saved attacker.") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise DataError(f"{source} is not a saved attacker.")
    if header.get("version") != VERSION:
        raise DataError(
            f"{source} was written by another version of hushmeter: fit the attacker again."
        )
    return header, arrays


def _encode(value: Any, arrays: Arrays) -> Any:
    """Convert a value to JSON; arrays move to `arrays`, other types become one-key objects."""
    from hushmeter.attack.levels import LevelTable

    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return _encode(value.item(), arrays)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        key = f"array{len(arrays)}"
        arrays[key] = value
        return {"array": key}
    if isinstance(value, list | tuple):
        return {type(value).__name__: [_encode(entry, arrays) for entry in value]}
    if isinstance(value, dict):
        return {"dict": [[_encode(k, arrays), _encode(v, arrays)] for k, v in value.items()]}
    if isinstance(value, AttackerSettings):
        return _encode(vars(value), arrays)
    if isinstance(value, LevelTable):
        return {"levels": _encode(value.powers, arrays)}
    if isinstance(value, Attacker):
        return {"attacker": _describe(value, arrays)}
    if isinstance(value, Mechanism):
        return {"mechanism": {value.name: value.parameters()}}
    raise InputError(f"a {type(value).__name__} cannot be saved with an attacker.")


def _decode(value: Any, arrays: Arrays) -> Any:
    """The inverse of `_encode`."""
    if not isinstance(value, dict):
        return value
    kind, content = next(iter(value.items()))
    return _decoders(arrays)[kind](content)


def _decoders(arrays: Arrays) -> dict[str, Callable[[Any], Any]]:
    from hushmeter.attack.levels import LevelTable
    from hushmeter.attack.registry import attackers

    def decode(value: Any) -> Any:
        return _decode(value, arrays)

    return {
        "array": lambda key: arrays[key],
        "list": lambda entries: [decode(entry) for entry in entries],
        "tuple": lambda entries: tuple(decode(entry) for entry in entries),
        "dict": lambda pairs: {decode(k): decode(v) for k, v in pairs},
        "levels": lambda powers: LevelTable(decode(powers)),
        "mechanism": parse_mechanism,
        "attacker": lambda content: _restore(content, arrays, attackers[content["attacker"]]),
    }
