from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn import metrics

import hushmeter as hm
from hushmeter.scoring import accuracy, kolter_accuracy, score


@st.composite
def pairs(draw):
    shape = (draw(st.integers(1, 40)), draw(st.integers(1, 5)))
    return tuple(draw(arrays(bool, shape)) for _ in range(2))


@pytest.mark.filterwarnings("ignore::UserWarning")
@given(pairs())
def test_agrees_with_scikit_learn(pair):
    guessed, truth = pair
    found = score(guessed, truth)
    assert found.alpha == pytest.approx(metrics.accuracy_score(truth.ravel(), guessed.ravel()))
    for i, appliance in enumerate(found.per_appliance):
        g, t = guessed[:, i], truth[:, i]
        assert appliance.alpha == pytest.approx(metrics.accuracy_score(t, g))
        assert appliance.mcc == pytest.approx(metrics.matthews_corrcoef(t, g))
        if g.any() or t.any():
            assert appliance.f1 == pytest.approx(metrics.f1_score(t, g, zero_division=0))
        else:
            assert math.isnan(appliance.f1)
        assert appliance.balanced_accuracy == pytest.approx(metrics.balanced_accuracy_score(t, g))


@given(pairs())
def test_floors_are_the_scores_of_the_naive_attackers(pair):
    _, truth = pair
    found = score(truth, truth)
    assert found.alpha == 1.0
    assert found.alpha_floor == pytest.approx(accuracy(np.zeros_like(truth), truth))
    assert found.hold_floor == pytest.approx(accuracy(np.tile(truth[0], (len(truth), 1)), truth))
    for i, appliance in enumerate(found.per_appliance):
        assert appliance.off_floor == pytest.approx(1 - truth[:, i].mean())
        assert appliance.floor == pytest.approx(max(truth[:, i].mean(), 1 - truth[:, i].mean()))
        never_switches = truth[:, i].all() or not truth[:, i].any()
        assert math.isnan(appliance.visibility) == never_switches


def test_visibility_is_what_the_guess_leaves_open():
    truth = np.array([[1], [0], [0], [0], [0], [0], [0], [0], [1], [0]], bool)
    guess = truth.copy()
    guess[8] = False  # half of what "always off" gets wrong is now right
    assert score(guess, truth).per_appliance[0].visibility == pytest.approx(0.5)
    assert score(np.zeros_like(truth), truth).per_appliance[0].visibility == 0.0
    assert score(~truth, truth).per_appliance[0].visibility < 0
    # an appliance that is mostly on: "always on" needs no data and is no insight
    assert score(np.ones_like(truth), ~truth).per_appliance[0].visibility == 0.0


def test_a_trace_brings_names_and_power():
    power = np.array([[100.0, 0.0], [0.0, 50.0]])
    trace = hm.Trace([100.0, 50.0], 6.0, states=power > 0, power=power, names=["a", "b"])
    found = hm.score(trace.truth(), trace, power=[[80.0, 0.0], [0.0, 50.0]])
    assert found["a"].alpha == 1.0
    assert found["a"].kolter == pytest.approx(0.9)
    assert found["b"].kolter == 1.0
    assert found.kolter == pytest.approx(1 - 20 / 300)
    assert math.isnan(hm.score(trace.truth(), trace).kolter)
    with pytest.raises(ValueError, match="no appliance named 'c'"):
        _ = found["c"]


def test_group_alphas(rng):
    truth = rng.random((30, 3)) < 0.5
    guess = truth.copy()
    guess[:, 2] = ~guess[:, 2]
    found = score(guess, truth, groups=[np.array([2]), np.array([0, 1])])
    assert found.group_alphas == (0.0, 1.0)


def test_kolter_of_no_power_is_unknown():
    assert math.isnan(kolter_accuracy([0.0], [0.0]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: score(np.ones((2, 2)), np.ones((3, 2))), "states have shape"),
        (lambda: score(np.ones(2), np.ones(2)), "states have shape"),
        (lambda: score(np.ones((0, 2)), np.ones((0, 2))), "nothing to score"),
        (lambda: score(np.ones((1, 2)), np.ones((1, 2)), names=["a"]), "1 names were given for 2"),
        (
            lambda: score([[1]], [[1]], power=[[1.0, 2.0]], true_power=[[1.0]]),
            "power must have shape",
        ),
        (lambda: kolter_accuracy([1.0], [1.0, 2.0]), "power has shape"),
        (lambda: score([[1]], hm.Trace([1.0], 1.0)), "has no true states"),
    ],
)
def test_bad_input_is_one_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_probabilities_are_not_taken_for_states():
    truth = np.zeros((4, 2), bool)
    with pytest.raises(ValueError, match="states must be 0 or 1 everywhere; round probabilities"):
        score(np.full((4, 2), 0.3), truth)
    with pytest.raises(ValueError, match="the truth must be 0 or 1"):
        accuracy(truth, np.full((4, 2), 2))
    assert accuracy(np.zeros((4, 2)), truth.astype(int)) == 1.0
