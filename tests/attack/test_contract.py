from __future__ import annotations

import inspect
from typing import ClassVar

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.attack.base import AllOff
from hushmeter.attack.one_shot import OneShot
from hushmeter.attack.registry import ContractError, check_attacker, single_switch_trace


@pytest.mark.parametrize("name", list(hm.attackers))
def test_every_attacker_keeps_the_contract(name):
    try:
        check_attacker(hm.attackers[name])
    except hm.errors.MissingExtraError as error:
        pytest.skip(str(error))


def test_registry_names_and_classes_agree():
    for name, cls in hm.attackers.items():
        assert cls.name == name
    assert {"one-shot", "multi-shot", "hierarchical", "all-off", "hold"} <= set(hm.attackers)
    assert "nonsense" not in hm.attackers
    assert len(hm.attackers) == len(list(hm.attackers))
    assert "multi-shot" in repr(hm.attackers)


def test_an_unknown_attacker_is_answered_with_the_nearest():
    with pytest.raises(hm.errors.UnknownNameError, match="did you mean 'multi-shot'") as caught:
        hm.attackers["multishot"]
    assert isinstance(caught.value, KeyError)
    with pytest.raises(hm.errors.InputError, match="known: alip, all-off"):
        hm.attackers["xyz"]


def test_single_switch_traces_switch_once_a_step():
    home = hm.synth.ready_home("evening")
    trace = single_switch_trace(home, 200, 0)
    assert (trace.switches[1:].sum(axis=1) == 1).all()


class Floats(AllOff):
    def predict(self, *args, **keywords):
        return super().predict(*args, **keywords).astype(float)


class Mutates(AllOff):
    def predict(self, readings, **keywords):
        states = super().predict(readings, **keywords)
        if isinstance(readings, np.ndarray) and readings.flags.writeable:
            readings[0] += 1
        return states


class Restless(AllOff):
    def predict(self, readings, **keywords):
        states = super().predict(readings, **keywords)
        return np.random.default_rng().random(states.shape) < 0.5


class FirstColumn(AllOff):
    def predict(self, readings, **keywords):
        states = super().predict(readings, **keywords)
        states[:, 0] = True
        return states


class Unpicklable(AllOff):
    def __init__(self, home):
        super().__init__(home)
        self.secret = 0

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.secret = 1

    def predict(self, readings, **keywords):
        return super().predict(readings, **keywords) | bool(self.secret)


class Forgetful(AllOff):
    """Keeps what it learns under a name that is not saved."""

    def fit(self, trace):
        self.memory = True
        return super().fit(trace)

    def predict(self, readings, **keywords):
        return super().predict(readings, **keywords) | hasattr(self, "memory")


class Gapless(AllOff):
    def predict(self, readings, **keywords):
        states = super().predict(readings, **keywords)
        gaps = isinstance(readings, hm.Trace) and readings.steps is not None
        return states[:-1] if gaps else states


class Confused(AllOff):
    """Changes itself instead of a copy."""

    def knows(self, mechanism):
        self.informed = True
        return self

    def predict(self, readings, **keywords):
        return super().predict(readings, **keywords) | hasattr(self, "informed")


class Secretive(AllOff):
    """Uses the noise distribution and does not declare it."""

    def knows(self, mechanism):
        informed = super().knows(mechanism)
        informed.noise = mechanism
        return informed

    def predict(self, readings, **keywords):
        return super().predict(readings, **keywords) | hasattr(self, "noise")


class Silent(AllOff):
    needs = ""


class Lenient(AllOff):
    def predict(self, readings, *, initial_state=None, rng=None):
        bare = readings if isinstance(readings, hm.Trace) else np.nan_to_num(np.ravel(readings))
        return super().predict(bare if len(bare) else [0.0], rng=rng)


class Careless(AllOff):
    def fit(self, trace):
        return self


class Boastful(OneShot):
    recovers_with: ClassVar = {}


class Homeless(AllOff):
    def __init__(self, home):
        self.home = home


@pytest.mark.parametrize(
    ("cls", "clause"),
    [
        (Silent, "must say its needs"),
        (Floats, "must give booleans"),
        (Mutates, "must not change its input"),
        (Restless, "the same seed must give the same answer"),
        (FirstColumn, "permuting the appliances"),
        (Unpicklable, "a pickled copy must answer alike"),
        (Forgetful, "a saved and loaded copy must answer alike"),
        (Confused, "knows must return a copy"),
        (Secretive, "without uses_noise"),
        (Gapless, "must serve gaps"),
        (Lenient, "bad readings or states must be refused"),
        (Careless, "fit must refuse the truth of another home"),
        (Homeless, "a home is required"),
        (Boastful, "must recover every state"),
    ],
)
def test_each_clause_catches_its_breach(cls, clause):
    with pytest.raises(ContractError, match=clause):
        check_attacker(cls)


class OnAbove(hm.Attacker):
    """A third-party attacker: it overrides `predict` alone."""

    name = "on-above"
    needs = "nothing"
    assumes = "everything is on above the mean"

    def predict(self, readings, *, initial_state=None, rng=None):
        values, _ = self._observe(readings)
        self._initial_state(initial_state)
        return np.tile((values > values.mean())[:, None], (1, len(self.home)))


def test_an_attacker_that_overrides_predict_keeps_the_contract():
    check_attacker(OnAbove)


def test_an_attacker_without_an_answer_is_named():
    class Empty(hm.Attacker):
        pass

    with pytest.raises(NotImplementedError, match="Empty must implement _predict"):
        Empty(hm.synth.ready_home("evening")).predict([1.0])


@pytest.mark.parametrize("name", [n for n in hm.attackers if n != "rnn"])
def test_only_attackers_that_declare_it_use_the_noise(name):
    cls = hm.attackers[name]
    assert cls.uses_noise == ("mechanism" in inspect.signature(cls).parameters)
    home = hm.synth.ready_home("evening")
    noise = hm.Laplace(1.0, 100.0, grid=1.0)
    attacker = cls(home)
    informed = attacker.knows(noise)
    assert attacker.mechanism is None
    assert informed.mechanism is (noise if cls.uses_noise else None)
    assert informed.knows(None).mechanism is None
    if cls.uses_noise:
        assert cls(home, mechanism=noise).parameters == informed.parameters
