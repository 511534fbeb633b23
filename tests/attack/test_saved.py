from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.apps.nilm.combinatorial import AidedIntegerProgram, CombinatorialOptimisation
from hushmeter.apps.nilm.super_state_hmm import SuperStateHmm
from hushmeter.attack.base import HEADER, Attacker
from hushmeter.attack.multi_shot import MultiShot
from hushmeter.errors import DataError, InputError
from hushmeter.noise import Gaussian, Laplace

HOME = hm.synth.ready_home("evening")


@pytest.fixture(scope="module")
def trace():
    return hm.synth.trace(HOME, 600, seed=4)


def rewrite(path, change):
    """Change the header or the arrays of a saved attacker."""
    with np.load(path) as archive:
        arrays = dict(archive)
    header = json.loads(arrays[HEADER].tobytes())
    change(header, arrays)
    arrays[HEADER] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    np.savez(path, **arrays)


def test_home_and_parameters_come_back(tmp_path, trace):
    attacker = AidedIntegerProgram(
        HOME, most=2, rules={"boxes": [("kettle", 2100.0, 2000.0, 2200.0)]}
    )
    attacker.fit(trace).save(tmp_path / "a.npz")
    copy = Attacker.load(tmp_path / "a.npz")
    assert type(copy) is AidedIntegerProgram
    assert copy.home == HOME
    assert copy.parameters == attacker.parameters
    np.testing.assert_array_equal(copy.predict_power(trace), attacker.predict_power(trace))


def test_an_attacker_without_fit_is_saved_too(tmp_path):
    CombinatorialOptimisation(HOME, levels=[[w] for w in HOME.powers]).save(tmp_path / "a.npz")
    copy = Attacker.load(tmp_path / "a.npz")
    assert not hasattr(copy, "levels_")
    assert copy.predict([HOME.base_load]).sum() == 0


@pytest.mark.parametrize(
    "mechanism",
    [Laplace(0.1, 10), Laplace(1, 30, 2, on_grid=True, clamp=(0, 9000)), Gaussian(1, 1e-6, 10)],
)
def test_a_known_mechanism_comes_back(tmp_path, mechanism):
    attacker = hm.attackers["hierarchical"](HOME, mechanism=mechanism)
    attacker.save(tmp_path / "a.npz")
    copy = Attacker.load(tmp_path / "a.npz")
    assert copy.mechanism.describe() == mechanism.describe()


def test_nothing_is_overwritten_unasked(tmp_path):
    path = tmp_path / "a.npz"
    MultiShot(HOME).save(path)
    with pytest.raises(DataError, match="exists"):
        MultiShot(HOME).save(path)
    MultiShot(HOME, solver="exact").save(path, force=True)
    assert MultiShot.load(path).solver == "exact"


def test_another_attacker_is_refused(tmp_path):
    MultiShot(HOME).save(tmp_path / "a.npz")
    with pytest.raises(DataError, match="contains the attacker 'multi-shot', not 'sparse-hmm'"):
        SuperStateHmm.load(tmp_path / "a.npz")


def test_what_cannot_be_written_is_refused(tmp_path):
    class Odd:
        name = "odd"
        grid = std = 1.0
        quantile = log_density = sample = None

    with pytest.raises(InputError, match="a Odd cannot be saved"):
        hm.attackers["hierarchical"](HOME, mechanism=Odd()).save(tmp_path / "a.npz")
    with pytest.raises(InputError, match=r"must end in \.npz"):
        MultiShot(HOME).save(tmp_path / "a.pkl")
    assert list(tmp_path.iterdir()) == []


def test_a_pickle_is_never_opened(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (print, ("boom",))

    path = tmp_path / "a.npz"
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(DataError, match="is not a saved attacker"):
        Attacker.load(path)
    np.savez(path, header=np.array([Bomb()], object))
    with pytest.raises(DataError, match="is not a saved attacker"):
        Attacker.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h, a: h.update(format="other"), "is not a saved attacker"),
        (lambda h, a: h.update(version=99), "another version"),
        (lambda h, a: h.update(attacker="nobody"), "no attacker named 'nobody'"),
        (lambda h, a: h.update(home="power ="), "damaged"),
        (lambda h, a: h.pop("learnt"), "damaged"),
        (lambda h, a: h["learnt"]["dict"].append(["home", 1]), "which no attacker learns"),
        (lambda h, a: h["learnt"]["dict"].append(["x_", {"code": 1}]), "damaged"),
        (lambda h, a: h["parameters"]["dict"].append(["colour", 1]), "damaged"),
        (lambda h, a: a.pop(next(iter(set(a) - {HEADER}))), "damaged"),
    ],
)
def test_damaged_files_are_one_sentence(tmp_path, trace, change, message):
    path = tmp_path / "a.npz"
    SuperStateHmm(HOME).fit(trace).save(path)
    rewrite(path, change)
    with pytest.raises(DataError, match=message):
        Attacker.load(path)


@pytest.mark.parametrize("attacker", [SuperStateHmm(HOME), AidedIntegerProgram(HOME)])
def test_positions_outside_their_arrays_are_refused(tmp_path, trace, attacker):
    """Compiled code does not check them; a crafted file must not reach it."""
    path = tmp_path / "a.npz"
    attacker.fit(trace).save(path)

    def shift(header, arrays):
        for name in arrays:
            if name != HEADER and arrays[name].dtype.kind == "i":
                arrays[name] = arrays[name] + np.array(100, arrays[name].dtype)

    rewrite(path, shift)
    with pytest.raises(DataError, match="damaged"):
        Attacker.load(path)


def test_missing_files_are_one_sentence(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        Attacker.load(tmp_path / "none.npz")


@pytest.mark.parametrize("name", ["bayes", "fhmm"])
def test_a_model_and_its_mechanism_come_back(tmp_path, trace, name):
    attacker = hm.attackers[name](HOME, mechanism=Laplace(1.0, 10.0)).fit(trace)
    attacker.save(tmp_path / "a.npz")
    copy = type(attacker).load(tmp_path / "a.npz")
    np.testing.assert_array_equal(copy.predict(trace), attacker.predict(trace))
    assert copy.mechanism.scale == attacker.mechanism.scale


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("bayes", {"idle_": np.array([0])}),
        ("bayes", {"means_": ()}),
        ("bayes", {"initial_": (np.ones(1),)}),
        ("bayes", {"means_": "text"}),
        ("bayes", {"pairs_": np.array([[0, 1]])}),
        ("bayes", {"pairs_": np.array([[0, 99]]), "pair_transitions_": (np.ones((4, 4)) / 4,)}),
        ("fhmm", {"idle_": np.array([0])}),
        ("fhmm", {"levels_": ()}),
        ("fhmm", {"initial_": (np.ones(1),)}),
        ("fhmm", {"levels_": "text"}),
    ],
)
def test_a_damaged_model_is_refused(tmp_path, trace, name, damage):
    attacker = hm.attackers[name](HOME).fit(trace)
    vars(attacker).update(damage)
    attacker.save(tmp_path / "a.npz")
    with pytest.raises(DataError):
        type(attacker).load(tmp_path / "a.npz")
