"""Theorem 5: bounds for a whole series, printed and corrected."""

from __future__ import annotations

import numpy as np
import pytest

from hushmeter import synth
from hushmeter.appliance import Appliance
from hushmeter.attack.multi_shot import MultiShot
from hushmeter.home import Home
from hushmeter.theory import multi_shot
from hushmeter.theory.bounds import bounds
from hushmeter.theory.one_shot import Bound


def test_the_printed_lower_bound_exceeds_one():
    found = multi_shot.printed_lower(Bound(0.45), 8, 600)
    assert found.raw == pytest.approx(779.7)
    assert found.vacuous


@pytest.mark.parametrize("epsilon", [0.05, 1.0])
def test_the_printed_forms_are_the_papers_text(epsilon):
    home = synth.ready_home("similar8")
    one = bounds(home, epsilon, form="printed")
    series = bounds(home, epsilon, form="printed", readings=600)
    b, top = one.lower.raw, one.upper.raw
    assert series.lower.raw == pytest.approx(1 - (600 - 1) * (1 - b * 8) / 2, rel=1e-12)
    assert series.upper.raw == pytest.approx(1 - (1 - top) / 600, rel=1e-12)


def test_the_proof_has_n_times_one_minus_b():
    home = synth.ready_home("similar8")
    b = bounds(home, 2.0, form="integral").lower.raw
    series = bounds(home, 2.0, form="integral", readings=5)
    assert series.lower.raw == pytest.approx(1 - 4 * 8 * (1 - b) / 2, rel=1e-12)


def test_errors_follow_the_recursion(rng):
    """e' = e + q − 2eq, hence e_t = (1 − Π(1 − 2q))/2, which tends to a coin toss."""
    switches = rng.random(40)
    truth = rng.random(40) < 0.5
    state, true_state = 0.0, 0.0
    error_of_switch = np.abs(switches - truth)
    for guess, actual in zip(switches, truth, strict=True):
        state = state * (1 - guess) + (1 - state) * guess
        true_state = true_state * (1 - actual) + (1 - true_state) * actual
    assert abs(state - true_state) == pytest.approx((1 - np.prod(1 - 2 * error_of_switch)) / 2)


def test_the_corrected_form_is_its_sum():
    for b in (0.0, 0.3, 0.95, 0.999, 1.0):
        by_hand = 1 - np.mean([min(1.0, t * (1 - b)) for t in range(1, 51)])
        assert multi_shot.corrected_lower(Bound(b), 50).raw == pytest.approx(by_hand, abs=1e-12)
        rows = multi_shot.corrected_lower(Bound(np.full(50, b)))
        assert rows.raw == pytest.approx(by_hand, abs=1e-12)


def series(home, length, share, rng):
    """States whose switches at one reading all go the same way."""
    states = [rng.random(len(home)) < 0.4]
    for _ in range(length):
        flips = np.zeros(len(home), bool)
        movable = np.flatnonzero(states[-1] == (rng.random() < 0.5))
        if movable.size and rng.random() < share:
            flips[rng.choice(movable, min(movable.size, 2), replace=False)] = True
        states.append(states[-1] ^ flips)
    return np.array(states)


@pytest.mark.parametrize("scale", [0.5, 15.0, 60.0, 400.0])
@pytest.mark.parametrize(("length", "share"), [(4, 1.0), (30, 0.03)])
def test_the_attacker_keeps_the_corrected_bounds(scale, length, share):
    """Before error correction, from a known state, 300 releases of one series."""
    rng = np.random.default_rng(int(scale * 10) + length)
    home = synth.home(12, seed=3)
    states = series(home, length, share, rng)
    attacker = MultiShot(home, correction="none")
    alphas = np.empty(300)
    for i in range(alphas.size):
        fluctuation = rng.uniform(-0.5, 0.5, length + 1) * home.tolerance
        readings = states @ home.powers + fluctuation + rng.laplace(0, scale, length + 1)
        guess = attacker.predict(readings, initial_state=states[0], rng=rng)
        alphas[i] = (guess == states)[1:].mean()
    counts = (states[1:] != states[:-1]).sum(axis=1)
    answer = bounds(home, 1 / scale, sensitivity=1.0, readings=length, max_switches=counts)
    error = alphas.std() / np.sqrt(alphas.size) + 1e-6
    assert answer.lower.raw <= alphas.mean() + 5 * error
    assert answer.upper.raw >= alphas.mean() - 5 * error
    if scale < 100:
        assert answer.lower.raw > 0.05


def test_one_number_of_switches_is_the_same_for_each_reading():
    home = synth.home(12, seed=3)
    epsilon = np.geomspace(0.01, 10, 9)
    one = bounds(home, epsilon, readings=9, max_switches=1)
    each = bounds(home, epsilon, readings=9, max_switches=np.ones(9, int))
    np.testing.assert_allclose(one.lower.raw, each.lower.raw, rtol=1e-12)
    np.testing.assert_allclose(one.upper.raw, each.upper.raw, rtol=1e-12)


def test_error_correction_beats_the_upper_bound():
    """Eight appliances, all off: correction reads off the meter what the jump does not tell."""
    home = Home([Appliance(str(i), 100.0 + i) for i in range(8)], 1.0)
    rng = np.random.default_rng(5)
    readings = rng.laplace(0, 400.0, (1000, 2))
    upper = bounds(home, 1 / 400, sensitivity=1.0, readings=1, max_switches=0).upper.raw
    alphas = {}
    for correction in ("none", "paper", "dead-band"):
        attacker = MultiShot(home, correction=correction)
        guesses = [attacker.predict(y, initial_state=np.zeros(8), rng=rng)[1] for y in readings]
        alphas[correction] = 1 - np.mean(guesses)
    assert alphas["none"] < upper - 0.2
    assert alphas["paper"] > upper + 0.03
    assert alphas["dead-band"] > upper + 0.03
