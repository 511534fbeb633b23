"""Algorithm 2: hierarchical inference."""

from __future__ import annotations

import numpy as np
import pytest

from hushmeter import synth
from hushmeter.appliance import Appliance
from hushmeter.attack.hierarchical import Hierarchical
from hushmeter.attack.multi_shot import MultiShot
from hushmeter.home import Home
from hushmeter.scoring import accuracy, group_accuracies, hierarchy_accuracy
from hushmeter.trace import Trace


def test_rae13_splits_into_four_hierarchies():
    attacker = Hierarchical(synth.ready_home("rae13"))
    assert [len(group) for group in attacker.groups] == [1, 4, 3, 5]
    assert attacker.unresolvable == ()


def test_groups_are_decoded_largest_first_and_subtracted(rng):
    """Against the loop of the paper, written out with one multi-shot attacker per group."""
    home = synth.ready_home("rae13")
    trace = synth.trace(home, 400, 0.98, seed=4)
    noisy = trace.readings + rng.laplace(0, 20, len(trace))
    start = trace.truth()[0]
    attacker = Hierarchical(home, rounding="threshold")
    remaining, expected = noisy.copy(), np.empty_like(trace.truth())
    for i, group in enumerate(attacker.groups):
        level = MultiShot(
            Home([home.appliances[j] for j in group], home.tolerance),
            rounding="threshold",
            unexplained="nearest",
        )
        below = sum(home.powers[g].sum() for g in attacker.groups[i + 1 :])
        part = level.decode(level._see(remaining), start[group], below)
        part[0] = start[group]
        expected[:, group] = part
        remaining = remaining - part @ home.powers[group]
    np.testing.assert_array_equal(attacker.predict(noisy, initial_state=start), expected)


def test_power_of_smaller_groups_does_not_switch_a_larger_one_on():
    home = Home([Appliance("lamp", 60.0), Appliance("fan", 50.0), Appliance("oven", 2500.0)], 5.0)
    readings = np.full(10, 110.0)
    states = Hierarchical(home).predict(readings, initial_state=[True, True, False], rng=0)
    assert not states[:, 2].any()


def test_one_group_is_the_multi_shot_attacker():
    home = synth.ready_home("similar8")
    trace = synth.trace(home, 500, 0.97)
    one = Hierarchical(home).predict(trace, initial_state=trace.truth()[0], rng=6)
    other = MultiShot(home).predict(trace, initial_state=trace.truth()[0], rng=6)
    np.testing.assert_array_equal(one, other)


def test_unresolvable_appliances_keep_their_initial_state():
    home = Home([Appliance("router", 8.0), Appliance("kettle", 2000.0)], 5.0)
    trace = synth.trace(home, 300, 0.95, seed=1)
    attacker = Hierarchical(home, solver="exact", direction="signed")
    states = attacker.predict(trace, initial_state=[True, trace.truth()[0, 1]])
    assert attacker.unresolvable == ("router",)
    assert states[:, 0].all()
    np.testing.assert_array_equal(states[:, 1], trace.truth()[:, 1])


def test_only_unresolvable_appliances():
    home = Home([Appliance("router", 8.0), Appliance("clock", 3.0)], 5.0)
    states = Hierarchical(home).predict([10.0, 12.0], initial_state=[False, True])
    assert states.tolist() == [[False, True]] * 2


def test_gaps_reach_every_group():
    home = synth.ready_home("rae13")
    states = np.zeros((4, 13), bool)
    states[2:, 12] = True
    readings = states @ home.powers
    trace = Trace(readings, 1.0, states=states, steps=[0, 1, 90, 91])
    attacker = Hierarchical(home, solver="exact", direction="signed", correction="none")
    assert not attacker.predict(trace).any()


def test_alpha_h_is_the_weighted_mean_of_the_groups():
    home = synth.ready_home("rae13")
    trace = synth.trace(home, 600, 0.99, seed=2)
    attacker = Hierarchical(home)
    states = attacker.predict(trace, initial_state=trace.truth()[0], rng=0)
    alphas = group_accuracies(states, trace.truth(), attacker.groups)
    assert len(alphas) == 4
    assert hierarchy_accuracy(alphas, attacker.groups) == pytest.approx(
        accuracy(states, trace.truth())
    )
