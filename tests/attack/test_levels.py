"""Levels: optimal clusters, fallbacks, and what counts as one level."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushmeter import Appliance, Home, Trace
from hushmeter.attack.levels import (
    LevelTable,
    assign_levels,
    cluster,
    home_levels,
    learn_levels,
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
