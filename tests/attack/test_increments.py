from __future__ import annotations

import numpy as np
import pytest

from hushmeter import synth
from hushmeter.appliance import Appliance
from hushmeter.attack.hierarchical import Hierarchical
from hushmeter.attack.levels import Increments
from hushmeter.attack.multi_shot import MultiShot
from hushmeter.attack.one_shot import OneShot
from hushmeter.home import Home

HOME = Home(
    [Appliance("lamp", 60.0), Appliance("washer", levels=(200.0, 2000.0)), Appliance("tv", 110.0)],
    5.0,
)
EXACT = {"solver": "exact", "direction": "signed"}


def test_levels_become_increments():
    parts = Increments(HOME)
    assert parts.home.powers.tolist() == [60, 200, 1800, 110]
    assert parts.owners.tolist() == [0, 1, 1, 2]
    assert parts.home.tolerance == HOME.tolerance


def test_a_home_of_one_level_is_its_own_expansion():
    home = synth.ready_home("similar8")
    parts = Increments(home)
    states = np.eye(8, dtype=bool)
    assert parts.home is home
    assert parts.expand(states) is states
    assert parts.collapse(states) is states


def test_known_states_are_taken_at_their_lowest_level():
    expanded = Increments(HOME).expand(np.array([[True, True, False]]))
    assert expanded.tolist() == [[True, True, False, False]]


def test_an_appliance_is_on_where_any_increment_is():
    parts = Increments(HOME)
    rows = np.array([[0, 0, 0, 1], [1, 0, 1, 0], [0, 1, 1, 0]], bool)
    assert parts.collapse(rows).tolist() == [
        [False, False, True],
        [True, True, False],
        [False, True, False],
    ]
    assert parts.power(rows).tolist() == [[0, 0, 110], [60, 1800, 0], [0, 2000, 0]]
    chances = parts.collapse_probabilities(np.array([[0.1, 0.2, 0.7, 0.0]]))
    assert chances.tolist() == [[0.1, 0.7, 0.0]]


@pytest.mark.parametrize("cls", [OneShot, MultiShot, Hierarchical])
def test_a_washing_machine_is_followed_through_its_levels(cls):
    readings = [0.0, 200.0, 2000.0, 2060.0, 260.0, 60.0, 2060.0, 60.0]
    attacker = cls(HOME, **EXACT)
    states = attacker.predict(readings, initial_state=[0, 0, 0], rng=0)
    assert states[:, 1].tolist() == [False, True, True, True, True, False, True, False]
    assert states[:, 0].tolist() == [False, False, False, True, True, True, True, True]
    power = attacker.predict_power(readings, initial_state=[0, 0, 0], rng=0)
    np.testing.assert_allclose(power.sum(axis=1), readings)


def test_levels_help_on_a_home_that_has_them():
    home = synth.ready_home("evening")
    flat = Home(
        [Appliance(a.name, a.power) for a in home.appliances], home.tolerance, home.base_load
    )
    trace = synth.trace(home, 14_400, seed=3)
    start = trace.truth()[0]
    with_levels, without = (
        (MultiShot(h, **EXACT).predict(trace, initial_state=start, rng=0) == trace.truth()).mean()
        for h in (home, flat)
    )
    assert with_levels > without


def test_switches_of_an_appliance_are_those_of_its_increments():
    switches = OneShot(HOME, **EXACT).predict_switches(
        [0.0, 200.0, 2000.0], initial_state=[0, 0, 0]
    )
    assert switches[:, 1].tolist() == [False, True, True]
    known = np.array([[0, 0, 0], [0, 1, 0], [0, 1, 0]], bool)
    told = OneShot(HOME, **EXACT).predict_switches([0.0, 200.0, 2000.0], known_states=known)
    assert told[:, 1].tolist() == [False, True, True]


def test_probabilities_have_a_column_per_appliance():
    chances = MultiShot(HOME).predict_proba([0.0, 150.0, 900.0])
    assert chances.shape == (3, 3)
    assert ((chances >= 0) & (chances <= 1)).all()


def test_names_that_clash_with_an_increment_are_kept_apart():
    home = Home([Appliance("a", levels=(10.0, 20.0)), Appliance("a, level 2", 50.0)], 1.0)
    assert len(set(Increments(home).home.names)) == 3
