from __future__ import annotations

import numpy as np
import pytest

from hushmeter import synth
from hushmeter.appliance import Appliance
from hushmeter.attack.one_shot import OneShot, round_switches
from hushmeter.attack.registry import single_switch_trace
from hushmeter.errors import InputError
from hushmeter.home import Home
from hushmeter.scoring import accuracy
from hushmeter.trace import Trace

PAIR = Home([Appliance("a", 100.0), Appliance("b", 160.0)], 2.0)


def test_opposite_switches_break_absolute_jumps():
    """100 W on while 160 W off: K = 60 but Δ·P = 260, an assumption the paper does not state."""
    states = np.array([[0, 1], [1, 0]], bool)
    trace = Trace(states @ PAIR.powers, 6.0, states=states)
    assert trace.jumps()[1] == 60.0
    found = OneShot(PAIR, solver="exact").predict_switches(trace)
    assert not (found[1] == trace.switches[1]).all()


def test_known_states_decide_the_direction():
    states = np.array([[0, 1], [1, 1], [1, 0], [1, 0]], bool)
    trace = Trace(states @ PAIR.powers, 6.0, states=states)
    for solver in ("exact", "relaxed"):
        attacker = OneShot(PAIR, solver=solver, direction="signed", rounding="threshold")
        found = attacker.predict_switches(trace, known_states=trace.truth())
        np.testing.assert_array_equal(found, trace.switches)


def test_one_shot_accuracy_without_noise_is_exact_with_p1(rng):
    home = synth.ready_home("similar8")
    trace = single_switch_trace(home, 400, 3)
    switches = OneShot(home, solver="exact").predict_switches(trace)
    assert accuracy(switches, trace.switches) == 1.0


def test_relaxed_switches_have_the_probabilities_of_p3():
    home = Home([Appliance("a", 100.0), Appliance("b", 50.0)], 1.0)
    readings = np.tile([0.0, 26.0], 8000)
    found = OneShot(home).predict_switches(readings, rng=4)[1:]
    # q = (26 − 1)/100; five standard errors of 16 000 draws are 0.017
    assert found[:, 0].mean() == pytest.approx(0.25, abs=0.017)
    assert not found[:, 1].any()


def test_following_signed_jumps_never_switches_on_what_is_on():
    home = synth.ready_home("rae13")
    trace = synth.trace(home, 800, 0.95, seed=9)
    noisy = trace.readings + np.random.default_rng(0).laplace(0, 100, len(trace))
    for solver in ("exact", "relaxed"):
        attacker = OneShot(home, solver=solver, direction="signed")
        states = attacker.predict(noisy, initial_state=trace.truth()[0], rng=1)
        rises = np.diff(noisy) > 0
        changed = states[1:] != states[:-1]
        assert changed.any()
        assert states[1:][changed & rises[:, None]].all()
        assert not states[1:][changed & ~rises[:, None]].any()


def test_unexplained_jumps_may_switch_nothing():
    readings = [0.0, 130.0]
    nearest, none = (
        OneShot(PAIR, solver="exact", unexplained=u).predict(readings) for u in ("nearest", "none")
    )
    assert nearest[1].any()
    assert not none[1].any()


def test_rounding():
    shares = np.array([[0.0, 0.5, 0.49, 1.0]])
    assert round_switches(shares, rounding="threshold").tolist() == [[False, True, False, True]]
    drawn = round_switches(np.tile(shares, (2000, 1)), rng=0)
    assert not drawn[:, 0].any()
    assert drawn[:, 3].all()
    assert 0.4 < drawn[:, 1].mean() < 0.6
    with pytest.raises(ValueError, match="rounding must be one of"):
        round_switches(shares, rounding="up")


def test_fit_checks_the_truth():
    with pytest.raises(ValueError, match="has no true states"):
        OneShot(PAIR).fit(Trace([1.0], 1.0))
    with pytest.raises(ValueError, match="the trace has 1 appliances, the home 2"):
        OneShot(PAIR).fit(Trace([1.0], 1.0, states=[[1]]))


def test_power_is_states_times_mean_powers():
    power = OneShot(PAIR, solver="exact").predict_power([0.0, 100.0, 260.0])
    assert power.tolist() == [[0, 0], [100, 0], [100, 160]]


@pytest.mark.parametrize("solver", ["exact", "relaxed"])
@pytest.mark.parametrize("name", ["similar8", "rae13", "evening"])
def test_following_is_knowing_ones_own_last_answer(solver, name):
    """Told its own states as the known ones, the attacker switches as it did one by one."""
    home = synth.ready_home(name)
    trace = synth.trace(home, 500, 0.97, seed=4)
    plain = home if name != "evening" else home.subset(["kettle", "oven", "fridge", "lamps"])
    noisy = trace.readings + np.random.default_rng(1).laplace(0, 60, len(trace))
    attacker = OneShot(plain, solver=solver, direction="signed", rounding="threshold")
    states = attacker.predict(noisy)
    switches = attacker.predict_switches(noisy, known_states=states)
    assert switches.any()
    np.testing.assert_array_equal(switches[1:], states[1:] ^ states[:-1])
    np.testing.assert_array_equal(attacker.predict_switches(noisy), switches)


def test_infeasible_jumps_by_the_rules_of_the_authors():
    """100 W and 160 W, δ = 2. The jumps are 300 W (infeasible), −300 W (infeasible) and 260 W.

    In truth “a” switches on, nothing switches, and both switch. (P3) explains 260 W by 158 of the
    160 W after the tolerance, which rounds to both.
    """
    truth = np.array([[0, 0], [1, 0], [1, 0], [0, 1]], bool)
    readings = Trace([0.0, 300.0, 0.0, 260.0], 6.0)
    both, none = [True, True], [False, False]
    wrong = [False, True], [True, True]
    for rule, first, second in (
        ("nearest", both, both),
        ("all", both, both),
        ("none", none, none),
        ("error", *wrong),
    ):
        attacker = OneShot(PAIR, rounding="threshold", unexplained=rule)
        found = attacker.predict_switches(readings, known_states=truth)
        assert found.tolist() == [none, first, second, both], rule


def test_signed_infeasible_jumps_use_what_can_switch():
    """“b” is on, so that a rise can only switch “a” on: 103 W are infeasible, 102 W are not."""
    for rise, expected in ((102.0, True), (103.0, False)):
        truth = np.array([[0, 1], [1, 1]], bool)
        readings = Trace([160.0, 160.0 + rise], 6.0)
        attacker = OneShot(PAIR, direction="signed", rounding="threshold", unexplained="none")
        for known in (truth, None):
            found = attacker.predict_switches(
                readings, known_states=known, initial_state=[False, True]
            )
            assert found[1].tolist() == [expected, False]


def test_counting_errors_needs_the_truth():
    attacker = OneShot(PAIR, unexplained="error")
    for call in (attacker.predict, attacker.predict_switches):
        with pytest.raises(InputError, match="known_states"):
            call([0.0, 300.0])
