"""(P1): the exact problem, against brute force."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushmeter.attack.one_shot import examine_exact, solve_exact


def brute_force(powers, jump, tolerance, allowed=None):
    """Fewest, nearest, first; or nearest, fewest, first where nothing is within the tolerance."""
    exact = [Fraction(str(p)) for p in powers]
    jump, tolerance = Fraction(str(jump)), Fraction(str(tolerance))
    members = range(len(exact)) if allowed is None else np.flatnonzero(allowed)
    subsets = [
        (abs(sum((exact[i] for i in chosen), Fraction(0)) - jump), size, chosen)
        for size in range(len(exact) + 1)
        for chosen in combinations(members, size)
    ]
    feasible = [s for s in subsets if s[0] <= tolerance]
    if not feasible:
        return min(subsets)[2], 0
    fewest = min(size for _, size, _ in feasible)
    smallest = [s for s in feasible if s[1] == fewest]
    return min(smallest)[2], len(smallest)


@st.composite
def instances(draw, largest=9):
    watts = st.integers(1, 60).map(lambda w: w * 25.0) | st.integers(100, 300_000).map(
        lambda w: w / 100
    )
    powers = draw(st.lists(watts, min_size=1, max_size=largest))
    tolerance = draw(st.sampled_from([0.25, 1.0, 2.5, 30.0]))
    chosen = draw(st.lists(st.booleans(), min_size=len(powers), max_size=len(powers)))
    near = sum(p for p, c in zip(powers, chosen, strict=True) if c)
    offset = draw(st.integers(-4000, 4000)) / 100
    return powers, max(round(near + offset, 2), 0.0), tolerance


@given(instances())
def test_equals_brute_force(instance):
    powers, jump, tolerance = instance
    expected, ties = brute_force(powers, jump, tolerance)
    found = examine_exact(powers, [jump], tolerance)
    assert tuple(np.flatnonzero(found.switches[0])) == expected
    assert found.ties[0] == ties
    assert found.feasible[0] == (ties > 0)
    chosen = np.array(powers)[found.switches[0]]
    assert found.residuals[0] == pytest.approx(abs(chosen.sum() - jump), abs=1e-6)
    assert found.cardinality[0] == len(expected)


def test_equals_brute_force_at_twelve_appliances(rng):
    powers = np.round(rng.uniform(50, 2500, 12), 1)
    jumps = np.round(rng.uniform(0, powers.sum(), 12), 1)
    for jump, row in zip(jumps, solve_exact(powers, jumps, 8.0), strict=True):
        assert tuple(np.flatnonzero(row)) == brute_force(powers, jump, 8.0)[0]


@given(instances(), st.data())
def test_keeps_to_the_available_appliances(instance, data):
    powers, jump, tolerance = instance
    n = len(powers)
    allowed = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    expected, ties = brute_force(powers, jump, tolerance, allowed)
    for method in ("table", "halves"):
        found = examine_exact(powers, [jump], tolerance, available=allowed[None, :], method=method)
        assert tuple(np.flatnonzero(found.switches[0])) == expected
        assert found.ties[0] == ties


@given(instances(largest=12))
def test_table_and_halves_agree(instance):
    powers, jump, tolerance = instance
    table, halves = (
        examine_exact(powers, [jump], tolerance, method=method) for method in ("table", "halves")
    )
    np.testing.assert_array_equal(table.switches, halves.switches)
    np.testing.assert_array_equal(table.ties, halves.ties)
    np.testing.assert_array_equal(table.residuals, halves.residuals)


def test_table_and_halves_agree_where_both_are_large(rng):
    powers = np.round(rng.uniform(30, 3000, 18), 2)
    jumps = np.concatenate([powers[:4], rng.uniform(0, 1.1 * powers.sum(), 40)])
    table, halves = (examine_exact(powers, jumps, 5.0, method=m) for m in ("table", "halves"))
    np.testing.assert_array_equal(table.switches, halves.switches)
    np.testing.assert_array_equal(table.ties, halves.ties)


def test_halves_find_planted_switches_among_thirty(rng):
    powers = np.round(rng.uniform(40, 4000, 30), 3)
    planted = np.array([rng.choice(30, 2, replace=False) for _ in range(4)])
    found = examine_exact(powers, powers[planted].sum(axis=1), 0.001)
    assert found.feasible.all()
    assert (found.cardinality <= 2).all()
    assert (found.residuals <= 0.001).all()


def test_the_mixed_integer_programme_agrees(rng):
    powers = np.round(rng.uniform(40, 4000, 14), 2)
    jumps = np.concatenate([[1.0], powers[:2], rng.uniform(100, powers.sum(), 6), [1e5]])
    table = examine_exact(powers, jumps, 6.0)
    milp = examine_exact(powers, jumps, 6.0, method="milp")
    np.testing.assert_array_equal(milp.feasible, table.feasible)
    np.testing.assert_array_equal(milp.cardinality, table.cardinality)
    np.testing.assert_allclose(milp.residuals, table.residuals, atol=2e-5)


def test_more_than_thirty_two_appliances_are_served():
    powers = 100.0 + 13.7 * np.arange(36)
    found = examine_exact(powers, [powers[7], powers[3] + powers[30]], 0.5)
    assert found.feasible.all()
    assert found.cardinality.tolist() == [1, 2]


def test_five_optima_tie_in_the_example():
    found = examine_exact(np.arange(100.0, 108.0), [104.0], 2.0)
    assert found.ties[0] == 5
    assert found.residuals[0] == 0
    assert np.flatnonzero(found.switches[0]).tolist() == [4]


def test_equally_near_subsets_fall_to_the_first_index_list():
    assert solve_exact([100.0, 104.0], [102.0], 2.0)[0].tolist() == [True, False]
    assert solve_exact([104.0, 100.0], [102.0], 2.0)[0].tolist() == [True, False]
    assert solve_exact([10.0, 20.0, 20.0, 10.0], [30.0], 1.0)[0].tolist() == [1, 1, 0, 0]


def test_the_edge_of_the_tolerance_belongs_to_it():
    found = examine_exact([0.1, 0.2, 0.7], [0.4], 0.1)
    assert found.feasible[0]
    assert found.switches[0].tolist() == [True, True, False]


def test_infeasible_jumps_get_the_nearest_subset():
    found = examine_exact([100.0, 300.0], [190.0, 900.0], 2.0)
    assert not found.feasible.any()
    assert found.switches.tolist() == [[True, False], [True, True]]
    assert found.ties.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"method": "guess"}, "method must be auto, table, halves or milp"),
        ({"available": np.ones((2, 2), bool)}, "available must have shape"),
    ],
)
def test_bad_keywords_are_refused(keywords, message):
    with pytest.raises(ValueError, match=message):
        examine_exact([1.0, 2.0], [1.0], 1.0, **keywords)


def test_methods_refuse_what_they_cannot_hold():
    with pytest.raises(ValueError, match="serves 20 appliances at most"):
        examine_exact(np.arange(1.0, 22.0), [1.0], 0.1, method="table")
    with pytest.raises(ValueError, match="must stay below"):
        solve_exact([1e10], [1.0], 1.0)
