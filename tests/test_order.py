"""The order in which the workers start the tests."""

from __future__ import annotations

from tests.conftest import LONG_S, longest_first


def test_long_tests_start_first_and_the_others_keep_their_order():
    took = {"b": 2 * LONG_S, "d": 3 * LONG_S, "e": LONG_S / 2}
    assert longest_first(["a", "b", "c", "d", "e"], took) == [3, 1, 0, 2, 4]
    assert longest_first(["a", "b"], {}) == [0, 1]
