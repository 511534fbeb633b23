"""Levels and states: optimal cuts, fallbacks, what counts as one level, and the slack."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, norm

from hushmeter import Appliance, Home, Trace, synth
from hushmeter.attack import levels as learning
from hushmeter.attack.levels import (
    LevelTable,
    assign_levels,
    cluster,
    cut_ranges,
    home_levels,
    learn_levels,
    learn_slack,
    learn_states,
)
from hushmeter.errors import InputError

HOME = Home([Appliance("washer", levels=(200.0, 2000.0)), Appliance("lamp", 60.0)], tolerance=10.0)


def washer_trace(rng: np.random.Generator, length: int = 3000) -> Trace:
    level = rng.integers(0, 3, length)
    washer = (
        np.array([3.0, 210.0, 1900.0])[level]
        + rng.normal(0, [0.5, 4, 20], (length, 3))[np.arange(length), level]
    )
    lamp = rng.integers(0, 2, length) * rng.normal(60, 2, length)
    power = np.stack([washer, lamp], axis=1)
    return Trace(power.sum(axis=1), 60.0, states=power > [50, 30], power=power)


def test_home_levels_start_with_off():
    table = home_levels(HOME)
    assert table.counts == (3, 2)
    assert [watts.tolist() for watts in table.powers] == [[0.0, 200.0, 2000.0], [0.0, 60.0]]


def test_levels_are_learnt_where_they_are_separate(rng):
    table = learn_levels(washer_trace(rng), HOME)
    assert table.counts == (3, 2), "the lamp has one level however many may be had"
    assert table.powers[0] == pytest.approx([3.0, 210.0, 1900.0], rel=0.02)
    assert table.powers[1] == pytest.approx([0.0, 60.0], abs=1.0)


def test_no_more_levels_than_allowed(rng):
    assert learn_levels(washer_trace(rng), HOME, most=1).counts == (2, 2)


def test_a_rare_spike_is_no_level(rng):
    trace = washer_trace(rng)
    power = np.array(trace.power)
    power[np.flatnonzero(trace.states[:, 1])[:3], 1] = 900.0
    spiky = Trace(power.sum(axis=1), 60.0, states=trace.states, power=power)
    assert learn_levels(spiky, HOME).counts == (3, 2)


def test_home_levels_where_nothing_can_be_learnt(rng):
    trace = washer_trace(rng)
    bare = Trace(trace.readings, 60.0, states=trace.states)
    assert learn_levels(bare, HOME).powers[0].tolist() == [0.0, 200.0, 2000.0]
    off = Trace(np.zeros(9), 60.0, states=np.zeros((9, 2), bool), power=np.zeros((9, 2)))
    assert learn_levels(off, HOME).powers[0].tolist() == [0.0, 200.0, 2000.0]


def test_an_appliance_that_never_stops_has_an_off_level_below_its_on_level():
    always = Trace(
        np.full(9, 60.0), 60.0, states=np.ones((9, 1), bool), power=np.full((9, 1), 60.0)
    )
    home = Home([Appliance("router", 50.0)], tolerance=5.0)
    assert learn_levels(always, home).powers[0].tolist() == [0.0, 60.0]


def test_levels_are_assigned_to_the_nearest(rng):
    trace = washer_trace(rng)
    table = learn_levels(trace, HOME)
    levels = assign_levels(trace.power, trace.states, table)
    assert levels.dtype == np.int8
    assert ((levels > 0) == trace.states).all()
    on = trace.states[:, 0]
    nearest = 1 + np.abs(trace.power[on, :1] - table.powers[0][1:]).argmin(axis=1)
    assert (levels[on, 0] == nearest).all()


@given(
    st.lists(st.integers(0, 40), min_size=2, max_size=10),
    st.integers(1, 4),
)
def test_clusters_are_optimal(values, count):
    data = np.array(values, float)
    centres, spreads = cluster(data, count)
    sizes = np.bincount(np.abs(data[:, None] - centres).argmin(axis=1), minlength=centres.size)
    assert (sizes * spreads**2).sum() == pytest.approx(best_cost(np.sort(data), count), abs=1e-6)


def best_cost(ordered: np.ndarray, count: int) -> float:
    """Sum of squares of the best cut into at most `count` stretches, by trying all."""
    costs = []
    for pieces in range(1, min(count, ordered.size) + 1):
        for cuts in combinations(range(1, ordered.size), pieces - 1):
            parts = np.split(ordered, cuts)
            costs.append(sum(((part - part.mean()) ** 2).sum() for part in parts))
    return min(costs)


def test_learning_is_deterministic(rng):
    trace = washer_trace(rng)
    once, again = learn_levels(trace, HOME), learn_levels(trace, HOME)
    assert all((a == b).all() for a, b in zip(once.powers, again.powers, strict=True))


@pytest.mark.parametrize("powers", [(), ([0.0],), ([5.0, 1.0],), ([0.0, np.nan],)])
def test_bad_tables_are_refused(powers):
    with pytest.raises(InputError):
        LevelTable(tuple(np.array(row) for row in powers))


def test_bad_calls_are_refused(rng):
    trace = washer_trace(rng)
    lone = Home([Appliance("kettle", 2000.0)], tolerance=10.0)
    with pytest.raises(InputError, match="2 appliances"):
        learn_levels(trace, lone)
    with pytest.raises(InputError, match="most"):
        learn_levels(trace, HOME, most=0)
    with pytest.raises(InputError, match="1 columns"):
        assign_levels(trace.power, trace.states, home_levels(lone))


def test_states_fit_into_their_type():
    assert LevelTable((np.arange(127.0),)).counts == (127,)
    with pytest.raises(InputError, match="may have 127 states, got 128"):
        LevelTable((np.arange(128.0),))


def brute_cut(values: np.ndarray, count: int) -> float:
    ordered, total = np.sort(values), values.size
    costs = []
    for cuts in combinations(range(1, total), count - 1):
        parts = np.split(ordered, cuts)
        borders_differ = all(a[-1] < b[0] for a, b in pairwise(parts))
        if borders_differ and min(part.size for part in parts) >= learning.LEAST:
            cost = count * learning.PENALTY * np.log(total)
            for part in parts:
                spread = 0.5 * np.log(part.var() + learning.FLOOR**2)
                cost += part.size * (spread - np.log(part.size / total))
            costs.append(cost)
    return min(costs, default=np.inf)


def test_cuts_are_the_best_ones(rng):
    for _ in range(10):
        values = rng.choice([5.0, 60.0, 300.0], 14) + rng.normal(0, 3, 14)
        costs, borders = cut_ranges(values, 3)
        for count in range(1, costs.size + 1):
            assert costs[count - 1] == pytest.approx(brute_cut(values, count))
            assert borders[count - 1].size == count - 1


def test_states_stay_within_the_budget():
    home = synth.ready_home("evening")
    train = synth.trace(home, 4000, 0.98, seed=1)
    for budget, sizes in ((256, 2 * np.ones(8)), (384, None)):
        found = learn_states(train, home, 6, 2, 8, budget)
        counts = [means.size for means in found.means[:-1]]
        assert np.prod(counts) <= budget
        assert sizes is None or (counts == sizes).all()
    assert counts[home.index("washing machine")] == 3


def test_slack_is_for_errors_that_last(rng):
    """Bounds that fail once in a million.

    Independent errors of σ = 3 W need no slack, lasting ones s² = 4σ² − σ² − ¼, as the mean over
    four readings spreads like one. Both are told from the median of n squares, whose relative
    standard error is ½/(f(m)·m·√n) at the median m of χ²₁ with density f: 5 % for the 2000
    windows of 8000 readings, 12 % for 400 independent errors.
    """
    home = Home([Appliance("lamp", 60.0)], tolerance=5.0)
    states = synth.trace(home, 8000, 0.98, seed=1).states

    def slack(error: np.ndarray) -> float:
        power = states * 60.0 + error[:, None]
        trace = Trace(power.sum(axis=1), 6.0, states=states, power=power)
        return learn_slack(trace, learn_states(trace, home, 1, 1, 1, 2))

    median, model = chi2.median(1), 3.0**2 + learning.SHARPEST**2
    one, other = (norm.isf(1e-6) / (2 * chi2.pdf(median, 1) * median * n**0.5) for n in (2000, 400))
    most = np.sqrt(9 * (1 + one) - model)
    least = np.sqrt(learning.SLACK_WINDOW * 9 * (1 - other) - model)
    assert (most, least) == pytest.approx((1.41, 2.60), abs=0.01)
    assert slack(rng.normal(0, 3, 8000)) < most
    assert slack(np.repeat(rng.normal(0, 3, 400), 20)) > least
