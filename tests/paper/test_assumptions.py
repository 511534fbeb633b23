"""Assumptions 1–3 and the verdict of `Home.check`."""

from __future__ import annotations

import numpy as np
import pytest

from hushmeter import synth
from hushmeter.appliance import Appliance
from hushmeter.assumptions import concentration_margin, estimate_tolerance
from hushmeter.home import Home
from hushmeter.trace import Trace

PLAIN = Home([Appliance("a", 100.0), Appliance("b", 130.0), Appliance("c", 160.0)], 5.0)


def trace_of(states, extra=0.0, **keywords):
    states = np.array(states, bool)
    return Trace(states @ PLAIN.powers + extra, 6.0, states=states, **keywords)


def test_switches_per_step_are_counted():
    check = PLAIN.check(trace_of([[0, 0, 0], [1, 0, 0], [1, 1, 1], [1, 1, 1]]))
    assert check.trace.switches_per_step.tolist() == [1, 1, 1, 0]
    assert check.trace.max_switches == 2
    assert not check.sparse
    assert check.trace.mixed_steps == 0
    assert "Assumption 1 (sparse switches) fails: at most 2 switches" in str(check)


def test_mixed_directions_are_counted():
    assert PLAIN.check(trace_of([[1, 0, 0], [0, 1, 0]])).trace.mixed_steps == 1


def test_the_largest_fluctuation_ignores_switches_and_gaps():
    states = [[0, 0, 0], [0, 0, 0], [1, 0, 0], [1, 0, 0]]
    extra = np.array([0.0, 3.0, 0.0, 90.0])
    check = PLAIN.check(trace_of(states, extra, steps=[0, 1, 2, 40]))
    assert check.trace.largest_fluctuation == 3.0
    assert check.bounded
    loud = PLAIN.check(trace_of(states, extra))
    assert loud.trace.largest_fluctuation == 90.0
    assert not loud.bounded
    assert "Assumption 2 (bounded power) fails" in str(loud)


def test_concentration_and_what_is_alike():
    check = PLAIN.check()
    assert check.margin == concentration_margin([100, 130, 160]) == 70.0
    assert check.concentrated
    assert check.unresolvable == ()
    assert check.sparse is None
    assert check.bounded is None
    assert "need true states" in check.sentences[0]


def test_unresolvable_and_confusable_are_named():
    home = Home([Appliance("clock", 4.0), Appliance("lamp", 60.0), Appliance("strip", 66.0)], 5.0)
    check = home.check()
    assert check.unresolvable == ("clock",)
    assert check.confusable == (("lamp", "strip"),)
    assert not check.concentrated
    assert "Too small to be detected at this tolerance (at most 10 W): clock." in str(check)
    assert "Powers that differ by at most 10 W: lamp and strip." in str(check)


def test_the_ready_homes_are_what_they_say():
    similar = synth.ready_home("similar8")
    assert len(similar) == 8
    assert similar.check().concentrated
    assert np.linalg.norm(similar.powers) == pytest.approx(364, abs=1)
    assert not synth.ready_home("rae13").check().concentrated
    evening = synth.ready_home("evening")
    assert {"kettle", "fridge", "oven", "washing machine", "television", "lamps"} <= set(
        evening.names
    )


@pytest.mark.parametrize("fluctuation", [0.0, 0.5, 1.0])
def test_synthetic_traces_keep_assumption_2(fluctuation):
    home = synth.ready_home("similar8")
    trace = synth.trace(home, 4000, 0.9, fluctuation=fluctuation, drift=0.0, seed=1)
    exact = trace.truth() @ home.powers
    assert np.abs(trace.readings - exact).max() <= fluctuation * home.tolerance / 4
    assert home.check(trace).bounded
    if fluctuation:
        assert home.check(trace).trace.largest_fluctuation > 0


def test_a_trace_of_another_home_is_refused():
    trace = Trace([1.0, 2.0], 6.0, states=[[0, 1], [1, 1]])
    with pytest.raises(ValueError, match="the trace has 2 appliances, the home 3"):
        PLAIN.check(trace)


def test_watts_are_written_as_people_do():
    home = Home([Appliance(str(p), p) for p in (5.0, 10.0, 10_480.0, 12_000.0)], 0.5)
    assert "the margin is -12 kW and must exceed 1 W." in str(home.check())


def test_tolerance_is_the_quantile_of_quiet_jumps():
    states = np.array([[0], [0], [1], [1], [1]], bool)
    trace = Trace([0.0, 3.0, 103.0, 104.0, 99.0], 6.0, states=states)
    assert estimate_tolerance(trace, 1.0) == 5.0
    assert estimate_tolerance(trace, 0.5) == 3.0
    always = Trace([0.0, 1.0], 6.0, states=[[0], [1]])
    with pytest.raises(ValueError, match="cannot be estimated"):
        estimate_tolerance(always)
    ignore = np.array([False, True, True, False, True])
    assert estimate_tolerance(trace, 1.0, ignore=ignore) == 1.0
    with pytest.raises(ValueError, match="quantile must lie in"):
        estimate_tolerance(trace, 0.0)


def test_the_paper_tolerance_of_a_synthetic_home():
    home = synth.ready_home("similar8")
    trace = synth.trace(home, 5000, 0.99, drift=0.0)
    assert estimate_tolerance(trace, 1.0) <= home.tolerance / 2


def test_the_tolerance_must_cover_the_meter_error():
    home = Home([Appliance("heater", 1000.0), Appliance("oven", 1200.0)], 100.0)
    states = [[0, 0], [1, 0], [1, 0], [1, 1], [1, 1]]
    trace = Trace([0.0, 1000.0, 1010.0, 2200.0, 2190.0], 60.0, states=states)
    plain, worst = home.check(trace), home.check(trace, meter_error=0.05)
    assert plain.bounded
    assert plain.needed_tolerance == pytest.approx(10.0)
    # The largest quiet jump: 10 W of load and 5 % of 2200 W + 2190 W.
    assert worst.needed_tolerance == pytest.approx(10.0 + 0.05 * 4390)
    assert worst.error_jump == pytest.approx(2 * 0.05 * 2200)
    assert not worst.bounded
    assert "needs a tolerance of 230 W, at which Assumption 3 would hold" in str(worst)
    assert "the tolerance must be larger by that much" in str(home.check(meter_error=0.05))
    assert home.check(meter_error=0.05).error_jump == pytest.approx(0.1 * 2200)


def test_no_meter_within_the_error_exceeds_the_stated_tolerance():
    home = synth.ready_home("similar8")
    ideal = synth.trace(home, 3000, 0.98, seed=1)
    needed = home.check(ideal, meter_error=0.05).needed_tolerance
    measured = [
        home.check(synth.add_meter_error(ideal, 0.05, seed=seed)).trace.largest_fluctuation
        for seed in range(5)
    ]
    assert 0.7 * needed < max(measured) <= needed


@pytest.mark.parametrize(("spike", "verdict"), [(30.0, "hold"), (90.0, "fail")])
def test_the_tolerance_is_reported_at_the_quantile_and_at_the_maximum(spike, verdict):
    states = np.zeros((101, 3), bool)
    states[60:, 1] = True
    extra = np.zeros(101)
    extra[20:] = spike
    check = PLAIN.check(trace_of(states, extra))
    assert check.trace.covered == pytest.approx(98 / 99)
    (said,) = [line for line in check.sentences if "The paper's δ" in line]
    assert "covers 98.99% of the jumps" in said
    assert f"with δ = {spike:g} W" in said
    # The margin is 70 W, so that Assumption 3 survives a δ below 35 W.
    assert f"Assumption 3 would {verdict} (it holds at 5 W)" in said
    assert not any("The paper's δ" in line for line in PLAIN.check(trace_of(states)).sentences)
