"""Exact searches for sums of levels and for subsets."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from hushmeter.attack import level_search
from hushmeter.attack.level_search import NearestSum, SubsetSearch, pack, unpack
from hushmeter.errors import InputError

LEVELS = st.lists(
    st.lists(st.integers(0, 40).map(float), min_size=1, max_size=4, unique=True).map(sorted),
    min_size=1,
    max_size=5,
)
READINGS = st.lists(st.integers(-20, 220).map(lambda n: n / 2), min_size=1, max_size=20)


def brute_force(levels, reading, ties):
    """Nearest, then the lower or higher sum, then the first list of levels, smallest first."""
    order = sorted(range(len(levels)), key=lambda i: tuple(levels[i][::-1]))
    sign = 1 if ties == "lower" else -1

    def rank(choice):
        total = sum(row[k] for row, k in zip(levels, choice, strict=True))
        return abs(total - reading), sign * total, [choice[i] for i in order]

    return min(product(*(range(len(row)) for row in levels)), key=rank)


@pytest.mark.parametrize("ties", ["lower", "higher"])
@given(levels=LEVELS, readings=READINGS)
def test_both_methods_equal_brute_force(levels, readings, ties):
    rows = [np.array(row) for row in levels]
    expected = [brute_force(levels, reading, ties) for reading in readings]
    for method in ("table", "halves"):
        found = NearestSum(rows, method, ties=ties).search(np.array(readings))
        assert found.tolist() == [list(choice) for choice in expected]


@given(levels=LEVELS, readings=READINGS, seed=st.integers(0, 9))
def test_the_order_of_distinct_appliances_does_not_matter(levels, readings, seed):
    rows = [np.array(row) for row in {tuple(row): row for row in levels}.values()]
    order = np.random.default_rng(seed).permutation(len(rows))
    plain = NearestSum(rows).search(np.array(readings))
    moved = NearestSum([rows[i] for i in order]).search(np.array(readings))
    np.testing.assert_array_equal(plain[:, order], moved)


@given(levels=LEVELS, readings=READINGS, seed=st.integers(0, 99))
def test_only_allowed_choices_are_answered(levels, readings, seed):
    every = np.array(list(product(*(range(len(row)) for row in levels))))
    rng = np.random.default_rng(seed)
    allowed = rng.permutation(every)[: rng.integers(1, len(every) + 1)]
    rows = [np.array(row) for row in levels]
    found = NearestSum(rows, allowed=allowed).search(np.array(readings))
    totals = sum(row[allowed[:, i]] for i, row in enumerate(rows))
    chosen = sum(row[found[:, i]] for i, row in enumerate(rows))
    for reading, total, choice in zip(readings, chosen, found, strict=True):
        assert abs(total - reading) == np.abs(totals - reading).min()
        assert choice.tolist() in allowed.tolist()


def distances(search, rows, readings):
    """|y − nearest sum| [W] of every reading."""
    chosen = search.search(readings)
    return np.abs(readings - sum(row[chosen[:, i]] for i, row in enumerate(rows)))


def test_large_homes_meet_in_the_middle(rng):
    rows = [np.array([0.0, *np.sort(rng.uniform(20, 3000, 2))]) for _ in range(16)]
    search = NearestSum(rows)
    assert search.method == "halves"
    levels = rng.integers(0, 3, (20, 16))
    readings = sum(row[levels[:, i]] for i, row in enumerate(rows))
    assert distances(search, rows, readings).max() < 1e-6


def test_answers_are_optimal_where_a_solver_finds_them(rng):
    rows = [np.array([0.0, *np.sort(rng.integers(20, 900, 2))]) for _ in range(4)]
    readings = rng.uniform(0, 3000, 20)
    watts = np.concatenate([row[1:] for row in rows])
    owner = np.repeat(np.eye(4), 2, axis=1)
    nearest = distances(NearestSum(rows), rows, readings)
    for reading, distance in zip(readings, nearest, strict=True):
        found = milp(
            np.append(np.zeros(8), 1.0),
            constraints=[
                LinearConstraint(np.column_stack([owner, np.zeros(4)]), -np.inf, 1),
                LinearConstraint(np.append(watts, -1.0), -np.inf, reading),
                LinearConstraint(np.append(watts, 1.0), reading, np.inf),
            ],
            bounds=Bounds(np.zeros(9), np.append(np.ones(8), np.inf)),
            integrality=np.append(np.ones(8), 0.0),
        )
        assert distance <= found.x[-1] + 1e-5


def test_readings_are_answered_in_chunks(monkeypatch, rng):
    rows = [np.array([0.0, 100.0]), np.array([0.0, 40.0, 250.0])]
    readings = rng.uniform(-50, 400, 1000)
    whole = NearestSum(rows).search(readings)
    monkeypatch.setattr(level_search, "CHUNK", 7)
    np.testing.assert_array_equal(NearestSum(rows).search(readings), whole)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NearestSum([]), "one or more levels"),
        (lambda: NearestSum([np.array([])]), "one or more levels"),
        (lambda: NearestSum([np.array([0.0])], "solver"), "method must be one of"),
        (lambda: NearestSum([np.array([0.0])], ties="both"), "ties must be one of"),
        (lambda: NearestSum([np.arange(9.0)] * 7, "table"), "too many combinations"),
        (lambda: NearestSum([np.arange(9.0)] * 16), "too many combinations"),
        (lambda: NearestSum([np.arange(2.0)], allowed=np.empty((0, 1), int)), "no combination"),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def follow_by_hand(search: SubsetSearch, jumps, start, *, nearest):
    """`SubsetSearch.follow` as single searches."""
    state, rows = start.copy(), []
    for jump in jumps:
        answer = search.search(np.abs([jump]), (state ^ (jump > 0))[None, :])
        kept = answer.ties[0] > 0 or nearest
        rows.append(unpack(answer.masks if kept else 0 * answer.masks, start.size)[0])
        state ^= rows[-1]
    return np.array(rows)


@pytest.mark.parametrize("method", ["table", "halves", "milp"])
@pytest.mark.parametrize("nearest", [True, False])
def test_following_is_searching_with_what_is_left(method, nearest, rng):
    count = 12 if method == "milp" else 400
    for n in (1, 2, 7):
        powers = rng.uniform(40.0, 900.0, n)
        search = SubsetSearch(powers, 15.0, method)
        # Half of the jumps are an appliance that switches, the others anything.
        jumps = np.where(
            rng.random(count) < 0.5, rng.choice(powers, count), rng.laplace(0, 600, count)
        )
        jumps *= rng.choice([-1, 1], count)
        start = rng.random(n) < 0.5
        found = search.follow(jumps, start, nearest=nearest)
        np.testing.assert_array_equal(found, follow_by_hand(search, jumps, start, nearest=nearest))
        assert found.any()


def test_a_jump_beyond_everything_takes_all_that_is_allowed(rng):
    """The short cut of the table against the halves, which have none."""
    powers = rng.uniform(1.0, 50.0, 12)
    allowed = rng.random((300, 12)) < 0.4
    jumps = rng.uniform(0.0, 2.0, 300) * (allowed @ powers)
    table, halves = (
        SubsetSearch(powers, 0.5, method).search(jumps, allowed) for method in ("table", "halves")
    )
    for one, other in zip(table, halves, strict=True):
        np.testing.assert_array_equal(one, other)
    beyond = jumps > allowed @ powers + 0.5
    assert beyond.sum() > 100
    np.testing.assert_array_equal(table.masks[beyond], pack(allowed[beyond]))


def test_a_power_below_a_nanowatt_is_not_taken():
    for method in ("table", "halves"):
        found = SubsetSearch(np.array([1e-10, 5.0]), 0.5, method).search(np.array([90.0]))
        assert unpack(found.masks, 2).tolist() == [[False, True]]


def test_masks_have_room_for_63_appliances():
    powers = np.linspace(100.0, 400.0, 63)
    found = SubsetSearch(powers, 0.5).search(powers[:1])
    assert np.flatnonzero(unpack(found.masks, 63)[0]).tolist() == [0]
    with pytest.raises(InputError, match="63 appliances or increments at most, not 64"):
        SubsetSearch(np.linspace(100.0, 400.0, 64), 0.5)
