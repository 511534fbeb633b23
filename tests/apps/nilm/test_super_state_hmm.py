"""Sparse-HMM against a transcription of its definition and against a dense Viterbi."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csc_array

from hushmeter import synth
from hushmeter.appliance import Appliance
from hushmeter.apps.nilm.super_state_hmm import (
    SuperStateHmm,
    count_sparse_chain,
    find_states,
    quantise,
)
from hushmeter.errors import NotFittedError
from hushmeter.home import Home
from hushmeter.trace import Trace

PAIR = Home([Appliance("lamp", 60.0), Appliance("washer", levels=(200.0, 2000.0))], 5.0, 30.0)


def case(seed=0, length=900, gap=0):
    trace = synth.trace(PAIR, length, 0.93, seed=seed)
    steps = np.arange(length) + gap * (np.arange(length) >= length // 2)
    noisy = np.rint(trace.readings + np.random.default_rng(seed).normal(0, 6, length))
    return Trace(noisy, 6.0, "2024-01-01T00:00Z", trace.states, trace.power, PAIR.names, steps)


def plain_model(attacker, trace):
    """P0, A and B as dictionaries, counted reading by reading."""
    codes = [tuple(row) for row in plain_states(attacker, trace)]
    mains = [int(max(y, 0) * attacker.precision) for y in trace.readings]
    seen, steps, emissions = {}, {}, {}
    for t, (code, y) in enumerate(zip(codes, mains, strict=True)):
        before = code if trace.run_starts[t] else codes[t - 1]
        seen[code] = seen.get(code, 0) + 1
        steps[before, code] = steps.get((before, code), 0) + 1
        emissions[code, y] = emissions.get((code, y), 0) + 1
    left = {}
    for (before, _), count in steps.items():
        left[before] = left.get(before, 0) + count
    return (
        {code: count / len(codes) for code, count in seen.items()},
        {pair: count / left[pair[0]] for pair, count in steps.items()},
        {pair: count / seen[pair[0]] for pair, count in emissions.items()},
    )


def plain_states(attacker, trace):
    """Each value belongs to the last state whose border it has reached."""
    columns = []
    for power in trace.power.T:
        steps = [int(w * attacker.precision) for w in power]
        states = find_states(np.array(steps), attacker.max_states, attacker.threshold)
        columns.append([sum(q >= border for border in states.borders) for q in steps])
    return np.array(columns).T


@pytest.mark.parametrize("gap", [0, 40])
def test_two_steps_equal_a_plain_transcription(gap):
    train, test = case(1, gap=gap), case(2, gap=gap)
    attacker = SuperStateHmm(PAIR, precision=0.05).fit(train)
    initial, transitions, emissions = plain_model(attacker, train)
    found = attacker.predict_super_states(test)
    mains = [int(max(y, 0) * 0.05) for y in test.readings]
    for t, y in enumerate(mains):
        last = y if test.run_starts[t] else mains[t - 1]
        chances = {
            (i, j): p
            * emissions.get((i, last), 0)
            * transitions.get((i, j), 0)
            * emissions.get((j, y), 0)
            for i, p in initial.items()
            for j in initial
        }
        best = max(chances.values())
        if best == 0:
            assert found[t] == -1
            continue
        answer = tuple(attacker.states_[found[t]])
        reached = max(value for (_, j), value in chances.items() if j == answer)
        assert reached == pytest.approx(best, rel=1e-12)


def test_a_reading_never_seen_means_off_or_the_nearest():
    power = np.repeat([[0.0, 0.0], [60.0, 0.0]], 20, axis=0)
    train = Trace(power.sum(axis=1), 6.0, states=power > 10, power=power)
    readings = [60.0, 60.0, 90.0, 60.0, 1e6, 0.0]
    off, nearest = (SuperStateHmm(PAIR, unseen=u).fit(train) for u in ("off", "nearest"))
    assert off.predict(readings)[:, 0].tolist()[2] is False
    assert off.predict(readings)[:, 0].tolist()[4:] == [False, False]
    assert off.count_unexpected(readings) > 0
    assert nearest.predict(readings)[:, 0].tolist() == [True] * 5 + [False]
    assert nearest.count_unexpected(readings) == 0


def test_mains_below_zero_count_as_zero():
    train = Trace([0.0, 0.0, 60.0], 6.0, states=[[0, 0], [0, 0], [1, 0]])
    attacker = SuperStateHmm(PAIR).fit(train)
    assert not attacker.predict([-50.0, -1.0]).any()
    assert attacker.count_unexpected([-50.0]) == 0


def test_states_are_the_peaks_of_the_histogram():
    values = np.repeat([0, 4, 5, 6, 7, 8, 9, 20, 21, 22], [500, 3, 9, 4, 2, 7, 1, 1, 30, 2])
    states = find_states(values, 4, 0.001)
    assert states.peaks.tolist() == [0, 5, 8, 21]
    # The valley at 7 opens the state of the peak at 8, the empty stretch from 10 on that of 21.
    assert states.borders.tolist() == [1, 7, 10]
    assert states.assign(np.array([0, 1, 6, 7, 9, 21, 99])).tolist() == [0, 1, 1, 2, 2, 3, 3]
    assert find_states(values, 3, 0.001).peaks.tolist() == [0, 5, 21]
    assert find_states(values, 2, 0.001).peaks.tolist() == [0, 21]


def test_readings_of_zero_do_not_hide_a_peak_at_one():
    values = np.repeat([0, 1, 2, 5, 6, 9], [900, 40, 30, 20, 5, 8])
    assert find_states(values, 4, 0.001).peaks.tolist() == [0, 1, 5, 9]


def test_a_plateau_still_makes_a_state():
    states = find_states(np.array([0, 0, 3, 4, 3, 4]), 4, 0.00021)
    assert states.peaks.tolist() == [0, 3]
    assert find_states(np.zeros(4, np.int64), 4, 0.00021).peaks.tolist() == [0]


def test_quantising_cuts_towards_zero():
    assert quantise(np.array([-5.0, 9.9, 10.0, 29.99]), 0.1).tolist() == [0, 0, 1, 2]


def test_appliances_that_never_switch_keep_their_state():
    power = np.tile([60.0, 0.0], (30, 1))
    train = Trace(power.sum(axis=1), 6.0, states=power > 10, power=power)
    attacker = SuperStateHmm(PAIR).fit(train)
    assert attacker.predict([60.0, 61.0]).tolist() == [[True, False]] * 2
    # A washer that training lacks is never named, and its readings have no path.
    assert attacker.predict([2060.0]).tolist() == [[False, False]]


def test_many_appliances_need_no_table_of_combinations():
    home = synth.home(n=40)
    trace = synth.trace(home, 400, 0.99)
    states = SuperStateHmm(home, precision=0.5).fit(trace).predict(trace)
    assert (states == trace.truth()).mean() > 0.8


def test_predicting_needs_fit():
    with pytest.raises(NotFittedError, match="call fit"):
        SuperStateHmm(PAIR).predict([1.0])


@pytest.mark.parametrize(
    "parameters",
    [{"unseen": "on"}, {"precision": 0}, {"max_states": 1}, {"threshold": -1}],
)
def test_bad_parameters_are_refused(parameters):
    with pytest.raises(ValueError, match=next(iter(parameters))):
        SuperStateHmm(PAIR, **parameters)


def test_the_chain_has_the_counted_shares():
    states, symbols = np.array([0, 1, 1, 0, 1, 2]), np.array([0, 1, 2, 0, 1, 2])
    starts = np.array([True, False, False, True, False, False])
    chain = count_sparse_chain(states, symbols, starts, 3, 3)
    before = np.zeros((3, 3))
    for one, other in [(0, 0), (0, 1), (1, 1), (0, 0), (0, 1), (1, 2)]:
        before[one, other] += 1
    before /= before.sum(axis=1, keepdims=True).clip(min=1)
    np.testing.assert_allclose(dense(chain.before, 3), before)
    emitted = np.array([[2, 0, 0], [0, 2, 1], [0, 0, 1]]) / [[2], [3], [1]]
    np.testing.assert_allclose(dense(chain.emitted, 3), emitted)


def dense(columns, height):
    return csc_array((columns.values, columns.rows, columns.starts), (height, height)).toarray()


@pytest.mark.parametrize(
    ("part", "wrong"), [("rows", 3), ("rows", -1), ("starts", 9), ("starts", -1)]
)
def test_positions_outside_the_matrix_are_found(part, wrong):
    states = np.array([0, 1, 1, 0, 1, 2])
    columns = count_sparse_chain(states, states, np.arange(6) == 0, 3, 3).before
    assert columns.fits(3, 3)
    broken = getattr(columns, part).copy()
    broken[1] = wrong
    assert not columns._replace(**{part: broken}).fits(3, 3)
    assert not columns._replace(values=columns.values[:-1]).fits(3, 3)
