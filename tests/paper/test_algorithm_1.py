"""Algorithm 1: multi-shot inference, against a literal transcription."""

from __future__ import annotations

import numpy as np
import pytest

from hushmeter import synth
from hushmeter.appliance import Appliance
from hushmeter.attack.multi_shot import MultiShot
from hushmeter.attack.one_shot import solve_relaxed
from hushmeter.home import Home
from hushmeter.noise.laplace import Laplace
from hushmeter.scoring import accuracy
from hushmeter.trace import Trace


def probabilities_as_printed(home: Home, readings: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Lines 1–5, with Δ_t for the misprinted Δ_{t−1}."""
    x = [start.astype(float)]
    for t in range(1, readings.size):
        jump = abs(readings[t] - readings[t - 1])
        delta = solve_relaxed(home.powers, [jump], home.tolerance)[0]
        x.append(x[-1] * (1 - delta) + (1 - x[-1]) * delta)
    return np.array(x)


def correct_as_printed(state: np.ndarray, powers: np.ndarray, reading: float) -> np.ndarray:
    """Lines 8–20 for one reading."""
    state, descending = state.copy(), np.argsort(-powers, kind="stable")
    k = 0
    if state @ powers > reading:
        while state @ powers > reading and k < powers.size:
            state[descending[k]] = False
            k += 1
    elif state @ powers < reading:
        while state @ powers < reading and k < powers.size:
            state[descending[::-1][k]] = True
            k += 1
    return state


@pytest.fixture(params=["similar8", "rae13"])
def home_and_trace(request):
    home = synth.ready_home(request.param)
    return home, synth.trace(home, 300, 0.97, seed=5)


def test_probabilities_follow_the_recursion(home_and_trace):
    home, trace = home_and_trace
    found = MultiShot(home).predict_proba(trace, initial_state=trace.truth()[0])
    expected = probabilities_as_printed(home, trace.readings, trace.truth()[0])
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_correction_as_printed_is_as_printed(home_and_trace):
    home, trace = home_and_trace
    noisy = trace.readings + np.random.default_rng(1).laplace(0, 30, len(trace))
    start = trace.truth()[0]
    exact = {"rounding": "threshold", "direction": "absolute"}
    plain = MultiShot(home, correction="none", **exact).predict(noisy, initial_state=start)
    printed = MultiShot(home, correction="paper", **exact).predict(noisy, initial_state=start)
    expected = [
        correct_as_printed(row, home.powers, y) for row, y in zip(plain, noisy, strict=True)
    ]
    np.testing.assert_array_equal(printed[1:], expected[1:])


def test_correction_as_printed_corrupts_a_right_state():
    home = Home([Appliance("a", 100.0), Appliance("b", 250.0), Appliance("c", 400.0)], 5.0)
    states = np.tile([True, False, True], (20, 1))
    readings = np.full(20, 499.0)  # one watt of fluctuation below 500 W, within the tolerance
    options = {"solver": "exact", "direction": "signed"}
    kept = MultiShot(home, **options).predict(readings, initial_state=states[0])
    broken = MultiShot(home, correction="paper", **options).predict(
        readings, initial_state=states[0]
    )
    np.testing.assert_array_equal(kept, states)
    assert not broken[5, 2]


def test_the_dead_band_never_moves_a_total_away(rng):
    home = synth.ready_home("similar8")
    trace = synth.trace(home, 500, 0.98, seed=2)
    noisy = trace.readings + rng.laplace(0, 60, len(trace))
    plain, corrected = (
        MultiShot(home, correction=c, rounding="threshold").predict(noisy)
        for c in ("none", "dead-band")
    )
    before = np.abs(plain @ home.powers - noisy)
    after = np.abs(corrected @ home.powers - noisy)
    touched = (plain != corrected).any(axis=1)
    assert touched.any()
    assert (before[touched] > home.tolerance).all()
    assert (after[touched] < before[touched]).all()
    np.testing.assert_array_equal(before[~touched], after[~touched])


def test_a_known_mechanism_widens_the_dead_band():
    home = synth.ready_home("similar8")
    mechanism = Laplace(epsilon=0.5, sensitivity=10.0)
    wider = pytest.approx(home.tolerance + mechanism.quantile(0.95))
    assert MultiShot(home, mechanism=mechanism).band == wider
    assert MultiShot(home, dead_band=7.0, mechanism=mechanism).band == 7.0
    told_later = MultiShot(home)
    assert told_later.band == home.tolerance
    told_later.mechanism = mechanism
    assert told_later.band == wider


def test_signed_probabilities_fill_only_what_can_switch():
    home = Home([Appliance("big", 1000.0), Appliance("small", 500.0)], 1.0)
    readings = np.array([1000.0, 1501.0, 500.0])
    found = MultiShot(home, direction="signed").predict_proba(readings, initial_state=[True, False])
    np.testing.assert_allclose(found, [[1, 0], [1, 1], [0, 1]], atol=1e-2)
    # absolute jumps cannot tell a rise from a fall: the big one is switched off instead
    confused = MultiShot(home).predict_proba(readings, initial_state=[True, False])
    assert confused[1, 0] == pytest.approx(0.5)


def test_without_correction_the_state_decays_to_a_half():
    """e_t = (1 − Π(1 − 2 q_i))/2 per appliance (theory: section 7)."""
    home = Home([Appliance("a", 100.0)], 1.0)
    readings = 26.0 * (np.arange(60) % 2)  # q = 0.25 at every step
    found = MultiShot(home).predict_proba(readings, initial_state=[False])[:, 0]
    np.testing.assert_allclose(found, (1 - 0.5 ** np.arange(60)) / 2, atol=1e-12)


def test_rounding_matches_its_probabilities():
    home = Home([Appliance("a", 100.0)], 1.0)
    readings = np.tile([0.0, 31.0], 5000)
    attacker = MultiShot(home, correction="none")
    chance = attacker.predict_proba(readings)[1000:, 0]
    share = attacker.predict(readings, rng=3)[1000:, 0].mean()
    # 9000 draws near one half: 5 standard errors are 0.027
    assert share == pytest.approx(chance.mean(), abs=0.027)


def test_a_gap_is_not_a_jump():
    home = Home([Appliance("a", 100.0), Appliance("b", 300.0)], 2.0)
    readings = [100.0, 100.0, 400.0, 400.0]
    steps = [0, 1, 50, 51]
    trace = Trace(readings, 6.0, steps=steps)
    options = {"solver": "exact", "direction": "signed", "correction": "none"}
    held = MultiShot(home, **options).predict(trace, initial_state=[True, False])
    assert held.tolist() == [[True, False]] * 4
    seen = MultiShot(home, **options).predict(readings, initial_state=[True, False])
    assert seen[-1].tolist() == [True, True]


def test_correction_limits_drift_on_long_traces():
    home = synth.ready_home("similar8")
    gains = []
    for seed in range(12):
        trace = synth.trace(home, 3000, 0.99, seed=seed)
        options = {"initial_state": trace.truth()[0], "rng": seed}
        with_it = MultiShot(home).predict(trace, **options)
        without = MultiShot(home, correction="none").predict(trace, **options)
        gains.append(accuracy(with_it, trace.truth()) - accuracy(without, trace.truth()))
    assert np.mean(gains) > 4 * np.std(gains) / np.sqrt(len(gains))


def test_base_load_is_not_an_appliance():
    bare = synth.ready_home("similar8")
    based = Home(bare.appliances, bare.tolerance, base_load=500.0)
    trace = synth.trace(based, 400, 0.98)
    plain = MultiShot(bare).predict(trace.readings - 500.0, rng=1)
    np.testing.assert_array_equal(MultiShot(based).predict(trace, rng=1), plain)


@pytest.mark.parametrize("option", ["solver", "direction", "correction", "rounding", "unexplained"])
def test_unknown_options_are_refused(option):
    with pytest.raises(ValueError, match=f"{option} must be one of"):
        MultiShot(synth.ready_home("similar8"), **{option: "sideways"})


def test_a_negative_dead_band_is_refused():
    with pytest.raises(ValueError, match="dead_band must be finite and not negative"):
        MultiShot(synth.ready_home("similar8"), dead_band=-1.0)


@pytest.mark.parametrize("direction", ["absolute", "signed"])
def test_an_infeasible_jump_switches_everything_or_nothing(direction):
    """100 W and 160 W, δ = 2: a rise of 300 W has no solution, the rise of 100 W after it has."""
    home = Home([Appliance("a", 100.0), Appliance("b", 160.0)], 2.0)
    options = {"direction": direction, "correction": "none", "rounding": "threshold"}
    for rule, expected in (("all", [True, True]), ("none", [False, False])):
        attacker = MultiShot(home, unexplained=rule, **options)
        found = attacker.predict([0.0, 300.0], initial_state=[False, False])
        assert found[1].tolist() == expected
    assert MultiShot(home, unexplained="none", **options).predict(
        [0.0, 300.0, 560.0], initial_state=[False, False]
    )[2].tolist() == [True, True]
