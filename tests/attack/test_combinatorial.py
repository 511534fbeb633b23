from __future__ import annotations

import numpy as np
import pytest

from hushmeter import synth
from hushmeter.attack.combinatorial import CombinatorialOptimisation
from hushmeter.errors import DataError, InputError
from hushmeter.home import Appliance, Home
from hushmeter.trace import Trace

HOME = Home([Appliance("lamp", 60.0), Appliance("washer", levels=(200.0, 2000.0))], 5.0, 30.0)


def test_it_runs_from_the_levels_of_the_home():
    attacker = CombinatorialOptimisation(HOME)
    readings = [30.0, 92.0, 229.0, 2031.0, 2090.0]
    power = [[0, 0], [60, 0], [0, 200], [0, 2000], [60, 2000]]
    assert attacker.predict_power(readings).tolist() == power
    assert attacker.predict(readings).tolist() == [[w > 0 for w in row] for row in power]


def test_mains_below_the_base_load_mean_nothing_is_on():
    assert not CombinatorialOptimisation(HOME).predict([0.0, -400.0, 29.0]).any()


def test_levels_are_learnt_from_readings_above_ten_watts():
    power = np.array([[0, 3], [62, 198], [58, 202], [0, 2100], [9, 3], [61, 1900]], float)
    trace = Trace(power.sum(axis=1), 6.0, states=power > 10, power=power)
    fitted = CombinatorialOptimisation(HOME, most=2).fit(trace)
    assert [row.tolist() for row in fitted.table.powers] == [[0, 58, 62], [0, 200, 2000]]
    single = CombinatorialOptimisation(HOME, most=1).fit(trace)
    assert [row.tolist() for row in single.table.powers] == [[0, 60], [0, 1100]]


def test_a_level_at_which_the_appliance_rests_is_not_on():
    power = np.array([[0, 25]] * 6 + [[0, 2000]] * 3, float)
    states = np.column_stack([np.zeros(9, bool), power[:, 1] > 100])
    trace = Trace(power.sum(axis=1) + 30, 6.0, states=states, power=power)
    attacker = CombinatorialOptimisation(HOME).fit(trace)
    assert attacker.predict(trace)[:, 1].tolist() == states[:, 1].tolist()
    assert attacker.predict_power([55.0])[0, 1] == 25.0


def test_an_appliance_that_never_runs_keeps_the_levels_of_the_home():
    trace = Trace(np.full(5, 90.0), 6.0, states=[[1, 0]] * 5, power=[[60.0, 0.0]] * 5)
    attacker = CombinatorialOptimisation(HOME).fit(trace)
    assert attacker.table.powers[1].tolist() == [0, 200, 2000]
    assert attacker.predict([230.0]).tolist() == [[False, True]]


def test_training_without_power_takes_mean_powers():
    trace = Trace([30.0, 90.0, 1130.0], 6.0, states=[[0, 0], [1, 0], [0, 1]])
    attacker = CombinatorialOptimisation(HOME).fit(trace)
    assert [row.tolist() for row in attacker.table.powers] == [[0, 60], [0, 1100]]


def test_more_than_twelve_appliances_get_one_level():
    home = synth.ready_home("rae13")
    attacker = CombinatorialOptimisation(home).fit(synth.trace(home, 2000, 0.97))
    assert set(attacker.table.counts) == {2}


def test_given_levels_are_kept():
    trace = Trace([30.0, 90.0], 6.0, states=[[0, 0], [1, 0]])
    attacker = CombinatorialOptimisation(HOME, levels=[[70], [300, 100]]).fit(trace)
    assert [row.tolist() for row in attacker.table.powers] == [[0, 70], [0, 100, 300]]


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ([[60]], "levels of 1 appliances were given for 2"),
        ([[60], []], "washer needs one or more levels"),
        ([[60], [-3]], "a level of washer must be positive"),
    ],
)
def test_bad_levels_are_refused(levels, message):
    with pytest.raises(InputError, match=message):
        CombinatorialOptimisation(HOME, levels=levels)


def test_training_needs_the_truth():
    with pytest.raises(DataError, match="has no true states"):
        CombinatorialOptimisation(HOME).fit(Trace([1.0], 6.0))
