"""Proposition 2 and the decomposition of Algorithm 2."""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmeter.assumptions import concentration_margin
from hushmeter.attack.hierarchical import find_unresolvable, split


def keeps_assumption_3(powers, tolerance) -> bool:
    """Assumption 3 spelled out for every U."""
    p = sorted(powers)
    n = len(p)
    return all(sum(p[:u]) - sum(p[n - u + 1 :]) > 2 * tolerance for u in range(1, n + 1))


def fewest_groups(powers, tolerance) -> int:
    """Dynamic programme over all ways to cut the sorted list, with sums from its running total."""
    p = sorted(powers)
    total = [0.0, *accumulate(p)]

    def keeps(first: int, stop: int) -> bool:
        smallest, largest = total[first], total[stop]
        return all(
            (total[first + u] - smallest) - (largest - total[stop - u + 1]) > 2 * tolerance
            for u in range(1, stop - first + 1)
        )

    best = [0] * (len(p) + 1)
    for first in range(len(p) - 1, -1, -1):
        stops = (stop for stop in range(first + 1, len(p) + 1) if keeps(first, stop))
        best[first] = min((1 + best[stop] for stop in stops), default=10**6)
    return best[0]


WATTS = st.integers(1, 5000).map(float) | st.sampled_from([60.0, 100.0, 2000.0])


def check_split(powers, tolerance):
    groups = split(powers, tolerance)
    watts = np.array(powers)
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(powers)))
    hidden = find_unresolvable(powers, tolerance)
    resolvable = groups[:-1] if hidden.size else groups
    if hidden.size:
        assert groups[-1].tolist() == hidden.tolist()
        assert (watts[hidden] <= 2 * tolerance).all()
    for group in resolvable:
        assert keeps_assumption_3(watts[group].tolist(), tolerance)
    assert len(resolvable) == fewest_groups(watts[watts > 2 * tolerance].tolist(), tolerance)
    for larger, smaller in pairwise(resolvable):
        assert watts[larger].min() >= watts[smaller].max()


@settings(max_examples=300)
@given(st.lists(WATTS, min_size=1, max_size=14), st.integers(1, 40).map(lambda d: d / 2))
def test_split_is_a_minimal_partition_into_concentrated_groups(powers, tolerance):
    check_split(powers, tolerance)


def test_split_is_minimal_where_powers_are_near_each_other(rng):
    """Groups of many: powers within a factor of two, where a greedy cut could go wrong."""
    largest = 0
    for _ in range(2000):
        lowest, tolerance = rng.integers(50, 2000), rng.integers(1, 40) / 2
        powers = rng.integers(lowest, 2 * lowest, rng.integers(2, 15)).astype(float).tolist()
        check_split(powers, tolerance)
        largest = max(largest, max(len(group) for group in split(powers, tolerance)))
    assert largest > 8


@given(st.lists(st.integers(1, 5000).map(float), min_size=1, max_size=15))
def test_one_margin_covers_every_number_of_switches(powers):
    p = sorted(powers)
    n = len(p)
    every = [sum(p[:u]) - sum(p[n - u + 1 :]) for u in range(1, n + 1)]
    assert concentration_margin(powers) == pytest.approx(min(every), abs=1e-6)


def test_equal_powers_do_not_collapse():
    groups = split([100.0, 100.0, 100.0], 2.0)
    assert [g.tolist() for g in groups] == [[0, 1, 2]]


def test_the_last_group_is_there_and_decoded_first():
    groups = split([100.0, 5000.0, 110.0], 2.0)
    assert [g.tolist() for g in groups] == [[1], [0, 2]]


def test_pairs_are_checked_too():
    """As printed, groups of one or two pass unchecked even with a power within 2δ."""
    assert [g.tolist() for g in split([3.0, 500.0], 2.0)] == [[1], [0]]
    assert find_unresolvable([3.0, 500.0], 2.0).tolist() == [0]
