from __future__ import annotations

import math

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.errors import InputError
from hushmeter.releases.receipt import digest

HOME = hm.synth.ready_home("evening")
TRACE = hm.synth.trace(HOME, 2400, seed=3)
UNIT = hm.resolve_unit(interval_s=6.0, home=HOME)


def test_a_release_keeps_times_and_drops_the_truth():
    done = hm.release(TRACE, hm.Laplace(1.0, 7200.0), UNIT, home=HOME)
    np.testing.assert_array_equal(done.trace.times, TRACE.times)
    assert done.trace.states is None
    assert done.trace.power is None
    assert done.trace.names is None
    assert (done.trace.readings == np.rint(done.trace.readings)).all()
    assert (done.trace.readings != TRACE.readings).any()


def test_two_releases_differ_and_a_seed_is_a_simulation():
    mechanism = hm.Laplace(1.0, 7200.0)
    one, two = (hm.release(TRACE, mechanism, UNIT, home=HOME) for _ in range(2))
    assert (one.trace.readings != two.trace.readings).any()
    assert one.receipt.kind == "release"
    seeded = [hm.release(TRACE, mechanism, UNIT, home=HOME, rng=5) for _ in range(2)]
    np.testing.assert_array_equal(seeded[0].trace.readings, seeded[1].trace.readings)
    assert seeded[0].receipt.kind == "simulation"
    assert str(seeded[0].receipt).startswith("simulation: ")


def test_keyed_releases_replay():
    key = bytes(range(32))
    mechanism = hm.Staircase(1.0, 7200.0)
    one, two = (hm.release(TRACE, mechanism, UNIT, home=HOME, key=key) for _ in range(2))
    assert one.receipt.output["sha256"] == two.receipt.output["sha256"] == digest(two.trace)


def test_the_receipt_states_the_effective_epsilon():
    """The paper's Δf = δ/2 hides fluctuations at ε, and an appliance only at ε·P/Δf."""
    mechanism = hm.Laplace(0.1, HOME.tolerance / 2, on_grid=False)
    fluctuation = hm.resolve_unit("fluctuation", interval_s=6.0, home=HOME)
    kettle = hm.resolve_unit(interval_s=6.0, home=HOME, appliance="kettle")
    hidden = hm.release(TRACE, mechanism, fluctuation, home=HOME, rng=0)
    seen = hm.release(TRACE, mechanism, kettle, home=HOME, rng=0)
    assert hidden.receipt.epsilon == pytest.approx(0.1)
    assert seen.receipt.epsilon == pytest.approx(0.1 * 2101 / 11)
    assert "not switches" in hidden.receipt.unit["sentence"]


def test_means_over_longer_intervals():
    unit = hm.resolve_unit("appliance", "run", interval_s=6.0, home=HOME, every="30min")
    done = hm.release(TRACE, hm.Gaussian(1.0, 1e-6, 7200.0), unit, home=HOME, rng=1)
    assert done.trace.interval_s == 1800.0
    assert len(done.trace) == 8
    assert done.receipt.unit["window"] == 300
    assert done.receipt.delta == 1e-6
    noise = done.trace.readings - TRACE.coarsen("30min").readings
    assert np.abs(noise).max() < 8 * done.receipt.mechanism["scale"]


def test_without_a_home_a_change_is_protected():
    unit = hm.resolve_unit("change", interval_s=6.0, watts=100.0)
    done = hm.release(TRACE, hm.Laplace(1.0, 100.0), unit, rng=0)
    assert done.receipt.epsilon == pytest.approx(1.0)
    assert done.private.appliances == ()


def test_nothing_is_released_from_bad_readings():
    too_large = hm.Trace([0.0, 1e30], 6.0)
    with pytest.raises(hm.errors.DataError, match="nothing was released: row 1"):
        hm.release(too_large, hm.Laplace(1.0, 100.0), UNIT, home=HOME)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((TRACE, 1.0), "needs a Mechanism as its mechanism, from hm.calibrate; got a float"),
        ((TRACE.readings, hm.Laplace(1, 10)), "needs a Trace as its trace, .*; got a ndarray"),
        ((TRACE, hm.Laplace(1, 10)), "needs a Unit as its unit, from hm.resolve_unit; got nothing"),
        ((TRACE, hm.Laplace(1, 10), "run"), "needs a Unit as its unit, .*; got a str"),
    ],
)
def test_an_argument_of_the_wrong_type_is_one_sentence(arguments, message):
    with pytest.raises(InputError, match=message) as caught:
        hm.release(*arguments)
    assert "\n" not in str(caught.value)


def test_an_attacker_sees_less_at_smaller_epsilon():
    truth = TRACE.truth()
    attacker = hm.attackers["hierarchical"](HOME, solver="exact", direction="signed")
    seen = []
    for epsilon in (20.0, 0.02):
        mechanism = hm.Laplace(epsilon, 7200.0)
        done = hm.release(TRACE, mechanism, UNIT, home=HOME, rng=1)
        states = attacker.predict(done.trace, initial_state=truth[0], rng=0)
        seen.append(hm.score(states, truth).balanced_accuracy)
    assert seen[0] > seen[1]


def test_a_clamp_bounds_metered_readings_before_their_mean():
    """One reading beyond the clamp must not move a mean of ten by more than a tenth of it."""
    unit = hm.resolve_unit("range", interval_s=6.0, clamp=(0, 100), every="1min")
    noise = hm.calibrate("laplace", 1.0, unit, clamp=(0, 100))
    quiet = np.zeros(40)
    spike = quiet.copy()
    spike[0], spike[12] = 1e6, -1e6
    one, other = (
        hm.release(hm.Trace(readings, 6.0), noise, unit, key=bytes(32)).trace.readings
        for readings in (quiet, spike)
    )
    assert (other - one).tolist() == [10.0, 0.0, 0.0, 0.0]


def test_a_unit_for_another_meter_is_refused():
    unit = hm.resolve_unit("change", interval_s=60.0, watts=10.0)
    with pytest.raises(InputError, match="for readings of 60 s, but those of the trace are of 6 s"):
        hm.release(TRACE, hm.Laplace(1, 10), unit)


def test_the_composed_epsilon_of_gaussian_noise_is_at_its_own_delta():
    """δ = 0.001 of the noise must not pass for the δ' = 1e-6 of the table."""
    done = hm.release(TRACE, hm.Gaussian(1, 1e-3, 7200), UNIT, home=HOME, rng=0)
    charger = next(a for a in done.private.appliances if a.watts == 7200)
    assert done.receipt.epsilon == 1.0
    assert charger.reading.epsilon > 1.4


def test_a_day_that_does_not_end_with_a_reading_is_rounded_up():
    """A civil day has up to 90 000 s, 12 857.14 readings of 7 s, and may begin within a reading."""
    home = hm.Home([hm.Appliance("lamp", 10.0)], tolerance=1.0)
    unit = hm.resolve_unit(interval_s=7.0, home=home)
    done = hm.release(hm.Trace(np.zeros(5), 7.0), hm.Laplace(0.001, 10), unit, home=home, rng=0)
    lamp = done.private.appliances[0]
    assert lamp.day.readings == 12_859
    # Rounding adds one step to each value, and float arithmetic the slack of 2^−14 steps.
    steps = math.floor(10 * 90_000 / 7 + 12_859 * 2**-14) + 12_859
    assert lamp.day.basic == pytest.approx(0.001 * steps / 11, rel=1e-9)


def test_a_unit_that_does_not_count_the_meter_is_refused():
    """Readings of a register need a unit that knows its step and the length of the period."""
    metering = hm.Metering(register_step_w=1.0)
    trace = hm.Trace(np.full(24, 100.0), 3600.0, metering=metering)
    keywords = {"protect": "change", "interval_s": 3600.0, "watts": 2000.0}
    ideal = hm.resolve_unit(**keywords)
    short = hm.resolve_unit(**keywords, metering=metering, readings=23)
    mechanism = hm.calibrate("laplace", 1, ideal)
    for unit in (ideal, short):
        with pytest.raises(InputError, match="resolve the unit with metering"):
            hm.release(trace, mechanism, unit)
        assert hm.release(trace, mechanism, unit, rng=0).receipt.kind == "simulation"
    counted = hm.resolve_unit(**keywords, metering=metering, readings=24)
    assert hm.release(trace, mechanism, counted).receipt.epsilon > 1
