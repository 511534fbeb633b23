"""The attackers by name: those of this package, of installed packages and your own.

An attacker is imported when it is first used. There are three ways to add one:

- `hushmeter.attackers.register(MyAttacker)`, also as a decorator, for the running program;
- an entry point of the group `hushmeter.attackers` in an installed package;
- `module:Class` wherever the command line or a study file names an attacker.

`check_attacker` tests whether a class keeps the contract of `Attacker`. `NilmtkDisaggregator` makes
any attacker a disaggregator for NILMTK's experiment API; NILMTK itself is not needed. The methods
of an experiment are instances::

    experiment = {
        "power": {"mains": ["active"], "appliance": ["active"]},
        "sample_rate": 60,
        "appliances": ["fridge", "kettle"],
        "methods": {"bayes": NilmtkDisaggregator("bayes"), "CO": CO({})},
        ...
    }
"""

from __future__ import annotations

import pickle
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from hushmeter.appliance import Appliance
from hushmeter.attack.base import Attacker
from hushmeter.checks import BoolArray, FloatArray
from hushmeter.errors import (
    DataError,
    HushmeterError,
    InputError,
    NotFittedError,
    UnknownNameError,
)
from hushmeter.home import Home
from hushmeter.noise import Laplace
from hushmeter.parts import listed
from hushmeter.trace import Trace

if TYPE_CHECKING:
    import pandas as pd

    Readings = tuple[str, Sequence[pd.DataFrame]]


ENTRY_POINTS = "hushmeter.attackers"
"""Group of the entry points of other packages."""

BUILT_IN = {
    "one-shot": "attack.one_shot:OneShot",
    "multi-shot": "attack.multi_shot:MultiShot",
    "hierarchical": "attack.hierarchical:Hierarchical",
    **{name: f"apps.nilm.{place}" for name, place in listed("ATTACKERS").items()},
    "all-off": "attack.base:AllOff",
    "hold": "attack.base:Hold",
}
"""Attackers of this package: name → module and class."""

Class = TypeVar("Class", bound=type[Attacker])


class AttackerRegistry(Mapping[str, type[Attacker]]):
    """Mapping from the name of an attacker to its class.

    A lookup `attackers[name]` finds attackers of this package, registered attackers and entry
    points, in this order. It never imports a module that the name contains, so it is safe for names
    from outside, such as those in a request to the web page. `resolve` does import such a module.

    Examples
    --------
    >>> list(hm.attackers)[:3]
    ['one-shot', 'multi-shot', 'hierarchical']
    >>> hm.attackers["co"].needs
    'appliance levels, or sub-metered data to learn them'
    """

    def __init__(self) -> None:
        self._registered: dict[str, type[Attacker]] = {}

    def register(self, cls: Class) -> Class:
        """Add an attacker class under its `name`, for the running program."""
        name = _check_class(cls, "register")
        known = self._registered.get(name)
        if name in BUILT_IN or (known is not None and _path(known) != _path(cls)):
            raise InputError(f"another attacker is named {name!r}: choose another name.")
        self._registered[name] = cls
        return cls

    def resolve(self, text: str, folder: Path | None = None) -> type[Attacker]:
        """Find an attacker by its name or by `module:Class`.

        Only use this for text that the user of the program has written: it imports the module.
        """
        module, colon, attribute = text.partition(":")
        if not colon:
            return self[text]
        if folder is not None and str(folder) not in sys.path:
            sys.path.append(str(folder))
        found = getattr(_import(module, text), attribute, None)
        if found is None:
            raise InputError(f"the module {module} has no class {attribute!r}.")
        _check_class(found, text)
        cls: type[Attacker] = found
        return cls

    @cached_property
    def _entry_points(self) -> dict[str, EntryPoint]:
        """Attackers of other installed packages, which cannot replace those of this one."""
        found = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
        return {name: point for name, point in found.items() if name not in BUILT_IN}

    def __getitem__(self, name: str) -> type[Attacker]:
        if name in BUILT_IN:
            module, attribute = BUILT_IN[name].split(":")
            cls: type[Attacker] = getattr(import_module(f"hushmeter.{module}"), attribute)
            return cls
        if name in self._registered:
            return self._registered[name]
        if name in self._entry_points:
            return self.resolve(self._entry_points[name].value)
        raise UnknownNameError("attacker", name, list(self))

    def __contains__(self, name: object) -> bool:
        return name in list(self)

    def __iter__(self) -> Iterator[str]:
        return iter({**BUILT_IN, **self._registered, **self._entry_points})

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __repr__(self) -> str:
        return f"<attackers: {', '.join(self)}>"


def _import(module: str, text: str) -> Any:
    """Import a module of the user; every failure becomes one sentence."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise InputError(f"{text} cannot be imported: {error}.") from None
        raise InputError(
            f"there is no module named {module!r} for the attacker {text}: install it, or run the "
            f"command in the folder of {module}.py."
        ) from None
    except Exception as error:  # anything can go wrong in the code of a user
        raise InputError(f"{text} cannot be imported: {type(error).__name__}: {error}.") from None


def _check_class(cls: Any, what: str) -> str:
    """The name of an attacker class; raises `InputError` unless it is complete."""
    if not (isinstance(cls, type) and issubclass(cls, Attacker)):
        raise InputError(f"{what} needs a subclass of hushmeter.Attacker, got {cls!r}.")
    for field in ("name", "needs", "assumes"):
        if not isinstance(getattr(cls, field, None), str) or not getattr(cls, field):
            raise InputError(f"the attacker class {cls.__name__} must define {field} as text.")
    if re.fullmatch(r"[a-z0-9]+([-_.][a-z0-9]+)*", cls.name) is None:
        raise InputError(
            f"the name of an attacker has lower-case letters, digits and hyphens, got {cls.name!r}."
        )
    return cls.name


def _path(cls: type) -> str:
    """Module and name of a class: a module that was reloaded has new class objects."""
    return f"{cls.__module__}:{cls.__qualname__}"


attackers = AttackerRegistry()


class ContractError(HushmeterError):
    """An attacker violates the contract; the message names the clause."""


def check_attacker(cls: type[Attacker]) -> None:
    """Check that an attacker class satisfies the contract.

    The checks cover shapes and types, also for negative readings, input that does not change,
    equal answers for equal seeds, a single reading, a single appliance, the order of the
    appliances, gaps, appliances that never switch, pickling, saving and loading, the known noise
    distribution, errors for invalid input, and the exact recovery of a trace without noise if the
    class promises it.

    Parameters
    ----------
    cls : type[Attacker]
        The class; it is made with the parameters `checked_with`.

    Raises
    ------
    ContractError
        At the first violation.
    MissingExtraError
        If the attacker needs an optional dependency that is not installed.

    Examples
    --------
    >>> hm.check_attacker(hm.attackers["all-off"])
    """
    for clause in _CLAUSES:
        clause(cls)


def single_switch_trace(home: Home, length: int, seed: int) -> Trace:
    """Make a trace without noise in which exactly one appliance switches at every step."""
    rng = np.random.default_rng(seed)
    flips = np.zeros((length, len(home)), np.bool_)
    flips[0] = rng.random(len(home)) < 0.5
    flips[np.arange(1, length), rng.integers(0, len(home), length - 1)] = True
    states = np.logical_xor.accumulate(flips, axis=0)
    power = states * np.array([appliance.on_levels[0] for appliance in home.appliances])
    return Trace(home.base_load + power.sum(axis=1), 6.0, "2024-01-01T00:00Z", states, power)


def _example() -> tuple[Home, Trace]:
    from hushmeter import synth

    home = synth.ready_home("similar8")
    return home, synth.trace(home, 400, 0.97, seed=3)


def _make(cls: type[Attacker], home: Home) -> Attacker:
    return cls(home, **cls.checked_with)


def _fitted(cls: type[Attacker]) -> tuple[Attacker, Trace]:
    home, trace = _example()
    return _make(cls, home).fit(trace), trace


def _require(holds: bool, cls: type[Attacker], clause: str) -> None:
    if not holds:
        raise ContractError(f"{cls.__name__}: {clause}.")


def _has_metadata(cls: type[Attacker]) -> None:
    for field in ("name", "needs", "assumes"):
        _require(bool(getattr(cls, field, "")), cls, f"must say its {field}")


def _keeps_shapes_and_input(cls: type[Attacker]) -> None:
    attacker, trace = _fitted(cls)
    _gives_valid_answers(attacker, np.array(trace.readings), trace.truth()[0])
    # A net meter counts exported power as negative, and noise can make any reading negative.
    _gives_valid_answers(attacker, trace.readings - 3000.0, trace.truth()[0])


def _gives_valid_answers(attacker: Attacker, readings: FloatArray, first: BoolArray) -> None:
    cls, before = type(attacker), readings.copy()
    states = attacker.predict(readings, initial_state=first, rng=0)
    _require(states.shape == (readings.size, first.size), cls, "predict must give shape (T, N)")
    _require(states.dtype == np.bool_, cls, "predict must give booleans")
    power = attacker.predict_power(readings, initial_state=first, rng=0)
    _require(power.shape == states.shape, cls, "predict_power must give shape (T, N)")
    _require(bool((power >= 0).all()), cls, "predict_power must not be negative")
    _require(bool((readings == before).all()), cls, "predict must not change its input")
    if hasattr(attacker, "predict_proba"):
        chance = attacker.predict_proba(readings, initial_state=first, rng=0)
        inside = chance.shape == states.shape and bool(((chance >= 0) & (chance <= 1)).all())
        _require(inside, cls, "predict_proba must give (T, N) values in [0, 1]")


def _is_deterministic(cls: type[Attacker]) -> None:
    home, trace = _example()
    once, again = (_make(cls, home).fit(trace).predict(trace, rng=11) for _ in range(2))
    _require(bool((once == again).all()), cls, "the same seed must give the same answer")
    bare = _make(cls, home).fit(trace).predict(trace.readings, rng=11)
    _require(bool((once == bare).all()), cls, "a trace without gaps must count as its readings")


def _serves_the_smallest(cls: type[Attacker]) -> None:
    from hushmeter import synth

    home, trace = _example()
    one_reading = _make(cls, home).fit(trace).predict(trace.readings[:1], rng=0)
    _require(one_reading.shape == (1, len(home)), cls, "must serve a single reading")
    lone = Home([Appliance("kettle", 2000.0)], tolerance=20.0)
    short = synth.trace(lone, 60, 0.9, seed=1)
    states = _make(cls, lone).fit(short).predict(short, rng=0)
    _require(states.shape == (60, 1), cls, "must serve a single appliance")


def _ignores_the_order(cls: type[Attacker]) -> None:
    home, trace = _example()
    order = np.random.default_rng(5).permutation(len(home))
    other = Home([home.appliances[i] for i in order], home.tolerance, home.base_load)
    truth, power = trace.truth(), trace.power
    assert power is not None
    shuffled = trace.derive(states=truth[:, order], power=power[:, order], names=None)
    plain = _make(cls, home).fit(trace).predict(trace, initial_state=truth[0], rng=2)
    moved = _make(cls, other).fit(shuffled).predict(shuffled, initial_state=truth[0][order], rng=2)
    _require(
        bool((plain[:, order] == moved).all()),
        cls,
        "permuting the appliances must permute the answer",
    )


def _pickles(cls: type[Attacker]) -> None:
    attacker, trace = _fitted(cls)
    before = attacker.predict(trace, rng=4)
    after = pickle.loads(pickle.dumps(attacker)).predict(trace, rng=4)
    _require(bool((before == after).all()), cls, "a pickled copy must answer alike")


def _saves_and_loads(cls: type[Attacker]) -> None:
    attacker, trace = _fitted(cls)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "attacker.npz"
        attacker.save(path)
        copy = cls.load(path)
    states, power = copy.predict(trace, rng=4), copy.predict_power(trace, rng=4)
    alike = bool((states == attacker.predict(trace, rng=4)).all())
    alike = alike and bool((power == attacker.predict_power(trace, rng=4)).all())
    _require(alike, cls, "a saved and loaded copy must answer alike")


def _knows_the_noise(cls: type[Attacker]) -> None:
    attacker, trace = _fitted(cls)
    before = attacker.predict(trace, rng=4)
    informed = attacker.knows(Laplace(0.1, 100.0, grid=1.0))
    states = informed.predict(trace, rng=4)
    _require(informed is not attacker, cls, "knows must return a copy")
    after = attacker.predict(trace, rng=4)
    _require(bool((before == after).all()), cls, "knows must not change the attacker itself")
    unmoved = cls.uses_noise or bool((before == states).all())
    _require(unmoved, cls, "an attacker without uses_noise must ignore the noise distribution")


def _serves_gaps_and_idle_appliances(cls: type[Attacker]) -> None:
    home, trace = _example()
    steps = np.arange(len(trace)) + 50 * (np.arange(len(trace)) >= 200)
    truth, power = np.array(trace.truth()), np.array(trace.power)
    power[truth[:, 0], 0] = 0.0
    truth[:, 0], truth[:, 1] = False, True
    readings = home.base_load + power.sum(axis=1)
    gapped = Trace(readings, 6.0, trace.start, truth, power, home.names, steps)
    states = _make(cls, home).fit(gapped).predict(gapped, rng=0)
    _require(states.shape == truth.shape, cls, "must serve gaps and appliances that never switch")


def _refuses_nonsense(cls: type[Attacker]) -> None:
    attacker, trace = _fitted(cls)
    home = attacker.home
    bad_states = ([True], np.ones(len(home) + 1), np.full(len(home), 2))
    calls: list[Callable[[], object]] = [
        lambda: attacker.predict([]),
        lambda: attacker.predict([1.0, float("nan")]),
        lambda: attacker.predict(np.ones((3, 2))),
        *(lambda state=state: attacker.predict(trace, initial_state=state) for state in bad_states),
    ]
    for call in calls:
        _require(_refuses(call, ValueError), cls, "bad readings or states must be refused")
    stranger = Trace(trace.readings, 6.0, states=trace.truth()[:, 1:])
    refused = _refuses(lambda: _make(cls, home).fit(stranger), InputError)
    _require(refused, cls, "fit must refuse the truth of another home")
    _require(_refuses(lambda: cls(None), InputError), cls, "a home is required")  # type: ignore[arg-type]


def _refuses(call: Callable[[], object], kind: type[Exception]) -> bool:
    try:
        call()
    except kind:
        return True
    return False


def _recovers_what_it_promises(cls: type[Attacker]) -> None:
    from hushmeter import synth

    if cls.recovers_with is None:
        return
    for seed, name in enumerate(("similar8", "evening", "rae13")):
        home = synth.ready_home(name)
        trace = single_switch_trace(home, 500, seed)
        attacker = cls(home, **cls.recovers_with)
        states = attacker.fit(trace).predict(trace, initial_state=trace.truth()[0], rng=0)
        _require(
            bool((states == trace.truth()).all()),
            cls,
            f"must recover every state of {name} without noise",
        )


_CLAUSES: tuple[Callable[[type[Attacker]], None], ...] = (
    _has_metadata,
    _keeps_shapes_and_input,
    _is_deterministic,
    _serves_the_smallest,
    _ignores_the_order,
    _pickles,
    _saves_and_loads,
    _knows_the_noise,
    _serves_gaps_and_idle_appliances,
    _refuses_nonsense,
    _recovers_what_it_promises,
)


NILMTK_ON_W = 10.0
"""Power above which an appliance is on if no home is given [W], as in NILMTK."""


class NilmtkDisaggregator:
    """An attacker with NILMTK's methods `partial_fit` and `disaggregate_chunk`."""

    chunk_wise_training = False

    def __init__(
        self,
        attacker: str,
        *,
        home: Home | None = None,
        **parameters: Any,
    ) -> None:
        self.MODEL_NAME = f"hushmeter {attacker}"
        self._class = attackers[attacker]
        self._parameters = parameters
        self._home = home
        self.attacker: Attacker | None = None

    def partial_fit(
        self,
        train_main: Sequence[pd.DataFrame],
        train_appliances: Sequence[Readings],
        current_epoch: int = 0,  # noqa: ARG002
        **load_kwargs: Any,  # noqa: ARG002
    ) -> None:
        """Fit the attacker to all chunks of power [W]; a second call starts from nothing again."""
        names = [str(name) for name, _ in train_appliances]
        mains = _trace(train_main)
        columns = [_watts(frames) for _, frames in train_appliances]
        if not columns or any(column.size != len(mains) for column in columns):
            raise DataError("every appliance needs as many readings as the mains.")
        power = np.column_stack(columns)
        home = self._home or _learn_home(names, power)
        if list(home.names) != names:
            raise InputError(f"the home has {', '.join(home.names)}; got {', '.join(names)}.")
        on = power > (NILMTK_ON_W if self._home is None else home.powers / 2)
        trace = Trace(mains.readings, mains.interval_s, mains.start, on, power, names, mains.steps)
        self.attacker = self._class(home, **self._parameters).fit(trace)

    def disaggregate_chunk(
        self,
        test_mains: Sequence[pd.DataFrame],
        model: Any = None,  # noqa: ARG002
    ) -> list[pd.DataFrame]:
        """Predict the power of every appliance [W] from the power of the mains [W]."""
        import pandas as pd

        if self.attacker is None:
            raise NotFittedError(f"{self.MODEL_NAME} needs partial_fit before disaggregate_chunk.")
        answers = []
        for frame in test_mains:
            power = self.attacker.predict_power(_trace([frame]), rng=0)
            columns = list(self.attacker.home.names)
            answers.append(pd.DataFrame(power, frame.index, columns, dtype="float32"))
        return answers

    def save_model(self, folder_name: str | Path) -> None:
        """Write the fitted attacker to a folder, as attacker.npz."""
        if self.attacker is None:
            raise NotFittedError(f"{self.MODEL_NAME} needs partial_fit before save_model.")
        self.attacker.save(Path(folder_name) / "attacker.npz", force=True)

    def load_model(self, folder_name: str | Path) -> None:
        """Read the attacker that `save_model` wrote to a folder."""
        self.attacker = self._class.load(Path(folder_name) / "attacker.npz")


def _watts(frames: Sequence[pd.DataFrame]) -> FloatArray:
    """Power of all chunks [W], shape (T,)."""
    if not frames or any(len(frame) == 0 for frame in frames):
        raise DataError("NILMTK passed a chunk without readings.")
    return np.concatenate([frame.to_numpy(np.float64).sum(axis=1) for frame in frames])


def _trace(frames: Sequence[pd.DataFrame]) -> Trace:
    """Mains with their times; a step longer than the median interval becomes a gap."""
    import pandas as pd

    watts = _watts(frames)
    if watts.size < 2 or not all(isinstance(f.index, pd.DatetimeIndex) for f in frames):
        return Trace(watts, 1.0)
    stamps = [pd.to_datetime(f.index, utc=True).tz_localize(None).to_numpy() for f in frames]
    times = np.concatenate(stamps).astype("datetime64[ns]").astype(np.int64)
    apart = np.diff(times)
    if apart.min() <= 0:
        raise DataError("the times of the mains must ascend, but some repeat or go back.")
    interval = float(np.median(apart))
    steps = np.concatenate([[0], np.cumsum(np.maximum(np.rint(apart / interval), 1))])
    return Trace(watts, interval / 1e9, np.datetime64(int(times[0]), "ns"), steps=steps.astype(int))


def _learn_home(names: list[str], power: FloatArray) -> Home:
    """A home with the mean power of every appliance while it is on."""
    appliances = []
    for name, drawn in zip(names, power.T, strict=True):
        on = drawn > NILMTK_ON_W
        if not on.any():
            raise DataError(f"{name} never draws more than {NILMTK_ON_W:g} W in the training data.")
        appliances.append(Appliance(name, float(drawn[on].mean())))
    return Home(appliances)
