"""The exact search behind (P1), one jump after the other; (P1) itself is in tests/paper."""

from __future__ import annotations

import numpy as np
import pytest

from hushmeter.attack.sums.subsets import SubsetSearch, pack, unpack
from hushmeter.errors import InputError


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
