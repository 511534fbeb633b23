from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn import metrics

import hushmeter as hm
from hushmeter.scoring import (
    accuracy,
    bootstrap_intervals,
    kolter_accuracy,
    score,
    score_events,
)


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


@given(pairs())
def test_macro_f1_is_over_the_appliances_that_run_in_the_truth(pair):
    guessed, truth = pair
    found = score(guessed, truth)
    runs = [a.f1 for a, on in zip(found.per_appliance, truth.any(axis=0), strict=True) if on]
    assert found.f1 == pytest.approx(np.mean(runs)) if runs else math.isnan(found.f1)


def test_an_appliance_that_never_runs_does_not_change_the_macro_f1():
    truth = np.array([[1, 0], [0, 0], [1, 0]], bool)
    quiet, loud = truth.copy(), truth.copy()
    loud[0, 1] = True
    assert score(quiet, truth).f1 == score(loud, truth).f1 == 1.0


@given(pairs(), st.integers(0, 1000), st.integers(1, 5))
def test_average_precision_agrees_with_scikit_learn(pair, seed, digits):
    guessed, truth = pair
    chances = np.random.default_rng(seed).random(truth.shape).round(digits)
    found = score(guessed, truth, probabilities=chances)
    for i, appliance in enumerate(found.per_appliance):
        if truth[:, i].any():
            expected = metrics.average_precision_score(truth[:, i], chances[:, i])
            assert appliance.average_precision == pytest.approx(expected)
        else:
            assert math.isnan(appliance.average_precision)
    assert math.isnan(score(guessed, truth).average_precision)


@pytest.mark.parametrize(
    "chances", [np.full((2, 1), 1.5), np.full((2, 1), np.nan), np.ones((3, 1))]
)
def test_what_is_no_probability_is_refused(chances):
    with pytest.raises(hm.errors.InputError, match="probabilities must be between 0 and 1"):
        score(np.ones((2, 1)), np.ones((2, 1)), probabilities=chances)


def one_column(text, steps=None):
    states = np.array([[letter == "x"] for letter in text])
    return hm.Trace(np.zeros(len(text)), 30.0, states=states, names=["kettle"], steps=steps)


@pytest.mark.parametrize(
    ("truth", "guess", "within", "matched", "predicted"),
    [
        ("..xx..xx", "..xx..xx", 0, 2, 2),
        ("..xx..xx", "...x.xxx", 30, 2, 2),
        ("..xx..xx", "...x.xxx", 29, 0, 2),
        ("..xxxxxx", "..x.x.x.", 60, 1, 3),
        ("xx..xx..", "xx......", 60, 0, 0),
        ("..x.x...", "...x.x..", 30, 2, 2),
    ],
)
def test_starts_are_matched_one_to_one_within_the_limit(truth, guess, within, matched, predicted):
    found = score_events(one_column(guess).truth(), one_column(truth), within_s=within)
    kettle = found.per_appliance[0]
    assert (kettle.matched, kettle.predicted_starts) == (matched, predicted)
    assert kettle.true_starts == one_column(truth).switches[:, 0].sum() - truth.count("x.")
    if predicted:
        assert kettle.precision == matched / predicted
    assert kettle.recall == matched / kettle.true_starts
    assert found.f1 == pytest.approx(2 * matched / (predicted + kettle.true_starts))


def test_a_gap_has_no_start_and_its_length_counts():
    truth = one_column("..xx..xx", steps=[0, 1, 2, 3, 4, 5, 100, 101])
    assert score_events(truth.truth(), truth).per_appliance[0].true_starts == 1
    late = one_column("..x....x").truth()
    far = one_column(".......x", steps=[0, 1, 2, 3, 4, 5, 100, 101])
    assert score_events(late, far, within_s=60).per_appliance[0].matched == 1
    assert score_events(one_column("..x.....").truth(), far, within_s=200).f1 == 0


@given(st.lists(st.integers(0, 30), max_size=7), st.lists(st.integers(0, 30), max_size=7))
def test_the_number_of_pairs_is_the_largest_possible(true, predicted):
    from scipy.optimize import linear_sum_assignment

    from hushmeter.scoring import _count_pairs

    a, b = np.sort(true).astype(float), np.sort(predicted).astype(float)
    near = np.abs(a[:, None] - b[None, :]) <= 2
    rows, columns = linear_sum_assignment(near, maximize=True)
    assert _count_pairs(a, b, 2.0) == near[rows, columns].sum()


@pytest.fixture(scope="module")
def days():
    home = hm.synth.ready_home("similar8")
    trace = hm.synth.trace(home, 30 * 144, 0.98, interval_s=600.0, seed=3)
    flips = np.random.default_rng(1).random(trace.truth().shape) < 0.05
    return trace, trace.truth() ^ flips


def test_the_interval_contains_the_score_and_has_the_width_of_the_days(days):
    trace, guess = days
    found = bootstrap_intervals(guess, trace)
    whole = score(guess, trace)
    for name, (low, high) in found.items():
        assert low < getattr(whole, name) < high
    by_day = (guess == trace.truth()).mean(axis=1).reshape(30, 144).mean(axis=1)
    error = by_day.std(ddof=1) / math.sqrt(30)
    low, high = found["alpha"]
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.15)
    assert bootstrap_intervals(guess, trace) == found
    narrow = bootstrap_intervals(guess, trace, confidence=0.5)["alpha"]
    assert low < narrow[0] < narrow[1] < high


def test_one_day_has_no_interval(days):
    trace, guess = days
    day = hm.Trace(trace.readings[:144], 600.0, trace.start, trace.truth()[:144])
    with pytest.raises(hm.errors.DataError, match="at least two days"):
        bootstrap_intervals(guess[:144], day)
    with pytest.raises(hm.errors.InputError, match="confidence"):
        bootstrap_intervals(guess, trace, confidence=1.0)
