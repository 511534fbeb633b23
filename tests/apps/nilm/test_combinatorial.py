"""CO, IP and ALIP."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from hushmeter import synth
from hushmeter.appliance import Appliance
from hushmeter.apps.nilm.combinatorial import (
    AidedIntegerProgram,
    CombinatorialOptimisation,
    GivenRules,
    IntegerProgram,
    fill_boxes,
)
from hushmeter.errors import DataError, InputError, UnknownNameError
from hushmeter.home import Home
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


FRIDGE_AND_OVEN = Home([Appliance("fridge", levels=(10.0, 130.0)), Appliance("oven", 2000.0)], 5.0)


def levels_of(attacker, readings):
    return attacker.predict_power(readings).tolist()


def test_the_programme_takes_the_nearest_sum():
    assert levels_of(IntegerProgram(FRIDGE_AND_OVEN), [0, 8, 128, 2011]) == [
        [0, 0],
        [10, 0],
        [130, 0],
        [10, 2000],
    ]


def test_of_two_equally_near_sums_the_lower_is_taken():
    assert levels_of(IntegerProgram(FRIDGE_AND_OVEN), [5.0, 70.0]) == [[0, 0], [10, 0]]


def test_the_first_reading_may_stay_unsolved_as_with_the_authors():
    trace = Trace([130.0] * 4, 60.0, steps=[0, 1, 7, 8])
    attacker = IntegerProgram(FRIDGE_AND_OVEN, solve_first=False)
    assert attacker.predict(trace)[:, 0].tolist() == [False, True, False, True]


def test_given_ratings_replace_those_of_the_home():
    assert levels_of(IntegerProgram(FRIDGE_AND_OVEN, ratings=[[50], [900, 1000]]), [940]) == [
        [50, 900]
    ]


def test_always_on_appliances_are_in_one_of_their_states():
    assert levels_of(
        AidedIntegerProgram(FRIDGE_AND_OVEN, rules={"always_on": ["fridge"]}), [0, 2000]
    ) == [
        [10, 0],
        [10, 2000],
    ]


def test_exclusive_states_do_not_meet():
    free, bound = (
        AidedIntegerProgram(FRIDGE_AND_OVEN, rules={"exclusive": sets})
        for sets in ([], [[("fridge", 130), ("oven", 2000)]])
    )
    assert levels_of(free, [2130.0]) == [[130, 2000]]
    assert levels_of(bound, [2130.0]) == [[10, 2000]]


def test_a_forbidden_transition_is_replaced_and_counts_as_replaced():
    rules = [("oven", 0, 2000, 0)]
    trace = Trace([0.0, 2000.0, 2000.0, 2000.0], 60.0, steps=[0, 1, 2, 9])
    attacker = AidedIntegerProgram(FRIDGE_AND_OVEN, rules={"transitions": rules})
    assert attacker.predict(trace)[:, 1].tolist() == [False, False, False, True]


def test_a_median_rule_removes_short_runs():
    readings = np.repeat([10.0, 130.0, 10.0, 130.0, 10.0], [6, 2, 6, 9, 6])
    attacker = AidedIntegerProgram(FRIDGE_AND_OVEN, rules={"median": [("fridge", 130, 5, 10)]})
    power = attacker.predict_power(readings)[:, 0]
    # A reading keeps 130 W while three of the five readings from it on have it.
    assert power.tolist() == [10.0] * 14 + [130.0] * 7 + [10.0] * 8


def test_boxes_move_ratings_towards_the_reading():
    attacker = AidedIntegerProgram(
        FRIDGE_AND_OVEN,
        rules={"boxes": [("fridge", 130, 127, 150), ("oven", 2000, 1990, 2050)]},
    )
    assert levels_of(attacker, [140.0, 124.0, 2190.0]) == [[140, 0], [127, 0], [140, 2050]]


def test_filling_boxes_is_a_linear_programme(rng):
    lows, width = rng.uniform(0, 100, (40, 3)), rng.uniform(0, 50, (40, 3))
    power, load = lows + width / 2, rng.uniform(0, 500, 40)
    moved = power.copy()
    fill_boxes(moved, load, lows, lows + width, np.arange(3))
    assert (moved >= lows).all()
    assert (moved <= lows + width + 1e-12).all()
    for t in range(40):
        best = linprog(
            [0, 0, 0, 1],
            A_ub=[[1, 1, 1, -1], [-1, -1, -1, -1]],
            b_ub=[load[t], -load[t]],
            bounds=[*zip(lows[t], lows[t] + width[t], strict=True), (0, None)],
        )
        assert abs(moved[t].sum() - load[t]) == pytest.approx(best.fun, abs=1e-6)


def training():
    """The fridge always draws; it reaches 400 W only through 130 W and never beside the oven."""
    fridge = np.tile(np.repeat([10.0, 130.0, 400.0, 130.0], [20, 20, 20, 10]), 12)
    fridge += np.tile([-2.0, 0.0, 2.0, 0.0, 0.0], fridge.size // 5)
    oven = np.where(
        np.isin(np.round(fridge, -1), (10, 130)) & (np.arange(fridge.size) % 140 < 70), 2000.0, 0.0
    )
    power = np.column_stack([fridge, oven])
    return Trace(power.sum(axis=1), 60.0, states=power > (60, 1000), power=power)


def test_rules_are_learnt_from_training_data():
    attacker = AidedIntegerProgram(FRIDGE_AND_OVEN).fit(training())
    rules = attacker.rules_in_use
    assert attacker.table.powers[0] == pytest.approx([0, 10, 130, 400], abs=0.5)
    assert rules.always_on.tolist() == [True, False]
    assert rules.exclusive == (((0, 3), (1, 1)),)
    assert rules.instead[0][1, 3] == 2
    assert rules.boxes[0][2] == pytest.approx([128, 132], abs=0.1)
    assert attacker.on_[0].tolist() == [False, False, True, True]
    found = attacker.predict(training())
    assert (found == training().truth()).mean() > 0.99


def test_given_rules_win_over_learnt_ones():
    attacker = AidedIntegerProgram(
        FRIDGE_AND_OVEN, rules=GivenRules(always_on=[], exclusive=[], boxes=[])
    ).fit(training())
    assert not attacker.rules_in_use.always_on.any()
    assert attacker.rules_in_use.exclusive == ()
    assert (np.diff(attacker.rules_in_use.boxes[0], axis=1) == 0).all()


def test_idle_training_data_teaches_no_rules():
    trace = Trace(np.zeros(8), 60.0, states=np.zeros((8, 2)), power=np.zeros((8, 2)))
    attacker = AidedIntegerProgram(FRIDGE_AND_OVEN).fit(trace)
    assert [row.tolist() for row in attacker.table.powers] == [[0, 10, 130], [0, 2000]]
    assert attacker.rules_in_use.exclusive == ()
    assert levels_of(attacker, [2130.0]) == [[130, 2000]]


@pytest.mark.parametrize(
    ("rules", "error", "message"),
    [
        ({"always_on": ["frige"]}, UnknownNameError, "did you mean 'fridge'"),
        ({"transitions": [("fridge", 10, 999, 10)]}, InputError, "fridge has no rating of 999 W"),
        ({"boxes": [("oven", 2000, 5, 1)]}, InputError, "0 ≤ low ≤ high"),
        ({"median": [("oven", 2000, 0, 0)]}, InputError, "window must be a whole number"),
    ],
)
def test_bad_rules_are_refused_at_once(rules, error, message):
    with pytest.raises(error, match=message):
        AidedIntegerProgram(FRIDGE_AND_OVEN, ratings=[[10, 130], [2000]], rules=rules)


def test_exclusive_states_need_a_home_that_can_be_tabulated():
    home = Home([Appliance(f"a{i}", 10.0 + i) for i in range(25)], 5.0)
    attacker = AidedIntegerProgram(home, rules={"exclusive": [[("a0", 10), ("a1", 11)]]})
    with pytest.raises(InputError, match="too many combinations for exclusive states"):
        attacker.predict([50.0])


def test_a_home_too_large_for_exclusive_states_is_attacked_without_them():
    """Two heaters that take turns teach a rule, among so many appliances as can be listed."""
    rng = np.random.default_rng(3)
    for n, rules in ((8, 1), (24, 0)):
        home = Home([Appliance(f"a{i}", 100.0 + 37 * i) for i in range(n)], 5.0)
        states = rng.random((400, n)) < 0.5
        states[:, 1] = ~states[:, 0]
        trace = Trace(states @ home.powers, 60.0, states=states, power=states * home.powers)
        attacker = AidedIntegerProgram(home).fit(trace)
        assert len(attacker.rules_in_use.exclusive) == rules
        assert attacker.predict(trace[:50]).shape == (50, n)


def test_the_median_of_the_answers_drops_single_readings():
    """Windows of three within runs; the first and the last answer of a run are repeated."""
    home = Home([Appliance("kettle", 2000.0)], 20.0)
    watts = np.array([0, 2000, 0, 0, 2000, 2000, 0, 2000, 2000, 2000.0])
    steps = np.array([0, 1, 2, 3, 4, 5, 6, 27, 28, 29])
    trace = Trace(watts, 6.0, steps=steps)
    plain = [int(on) for (on,) in IntegerProgram(home).predict(trace)]
    smooth = [int(on) for (on,) in IntegerProgram(home, smooth=3).predict(trace)]
    assert plain == [0, 1, 0, 0, 1, 1, 0, 1, 1, 1]
    assert smooth == [0, 0, 0, 0, 1, 1, 0, 1, 1, 1]
    with pytest.raises(ValueError, match="smooth must be odd"):
        AidedIntegerProgram(home, smooth=2)
