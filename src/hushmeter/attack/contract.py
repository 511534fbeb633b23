"""Checks of the contract of `Attacker` that any class can be tested with."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from hushmeter import synth
from hushmeter.attack.base import Attacker
from hushmeter.checks import BoolArray, FloatArray
from hushmeter.errors import HushmeterError, InputError
from hushmeter.home import Appliance, Home
from hushmeter.noise import Laplace
from hushmeter.trace import Trace


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
    """A home and training data."""
    home = synth.ready_home("similar8")
    return home, synth.trace(home, 400, 0.97, seed=3)


def _make(cls: type[Attacker], home: Home) -> Attacker:
    return cls(home, **cls.checked_with)


def _require(holds: bool, cls: type[Attacker], clause: str) -> None:
    if not holds:
        raise ContractError(f"{cls.__name__}: {clause}.")


def _has_metadata(cls: type[Attacker]) -> None:
    for field in ("name", "needs", "assumes"):
        _require(bool(getattr(cls, field, "")), cls, f"must say its {field}")


def _keeps_shapes_and_input(cls: type[Attacker]) -> None:
    home, trace = _example()
    attacker = _make(cls, home).fit(trace)
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
    shuffled = Trace(
        trace.readings,
        trace.interval_s,
        trace.start,
        truth[:, order],
        None if power is None else power[:, order],
    )
    plain = _make(cls, home).fit(trace).predict(trace, initial_state=truth[0], rng=2)
    moved = _make(cls, other).fit(shuffled).predict(shuffled, initial_state=truth[0][order], rng=2)
    _require(
        bool((plain[:, order] == moved).all()),
        cls,
        "permuting the appliances must permute the answer",
    )


def _pickles(cls: type[Attacker]) -> None:
    home, trace = _example()
    attacker = _make(cls, home).fit(trace)
    before = attacker.predict(trace, rng=4)
    after = pickle.loads(pickle.dumps(attacker)).predict(trace, rng=4)
    _require(bool((before == after).all()), cls, "a pickled copy must answer alike")


def _saves_and_loads(cls: type[Attacker]) -> None:
    home, trace = _example()
    attacker = _make(cls, home).fit(trace)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "attacker.npz"
        attacker.save(path)
        copy = cls.load(path)
    states, power = copy.predict(trace, rng=4), copy.predict_power(trace, rng=4)
    alike = bool((states == attacker.predict(trace, rng=4)).all())
    alike = alike and bool((power == attacker.predict_power(trace, rng=4)).all())
    _require(alike, cls, "a saved and loaded copy must answer alike")


def _knows_the_noise(cls: type[Attacker]) -> None:
    home, trace = _example()
    attacker = _make(cls, home).fit(trace)
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
    home, trace = _example()
    attacker = _make(cls, home).fit(trace)
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
