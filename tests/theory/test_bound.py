"""The value type of the bounds."""

from __future__ import annotations

import numpy as np
import pytest

from hushmeter.errors import InputError
from hushmeter.theory.one_shot import Bound


@pytest.mark.parametrize(
    ("raw", "clipped", "vacuous"),
    [(0.25, 0.25, False), (-0.7, 0.0, True), (779.7, 1.0, True), (0.0, 0.0, True), (1, 1.0, True)],
)
def test_a_number_keeps_raw_and_clipped_apart(raw, clipped, vacuous):
    bound = Bound(raw)
    assert bound.raw == raw
    assert float(bound) == bound.clipped == clipped
    assert bound.vacuous is vacuous
    assert isinstance(bound.raw, float)


def test_arrays_are_flagged_value_by_value():
    bound = Bound([-1.0, 0.5, 2.0, np.nan])
    np.testing.assert_array_equal(bound.raw, [-1.0, 0.5, 2.0, np.nan])
    np.testing.assert_array_equal(bound.vacuous, [True, False, True, True])
    np.testing.assert_array_equal(np.asarray(bound)[:3], [0.0, 0.5, 1.0])
    assert len(bound) == 4
    assert bound[1].raw == 0.5
    np.testing.assert_array_equal(bound[1:3].raw, [0.5, 2.0])


def test_an_array_is_not_one_number():
    with pytest.raises(InputError, match="has 2 values"):
        float(Bound([0.1, 0.2]))
    with pytest.raises(TypeError, match="no length"):
        len(Bound(0.1))


def test_it_says_what_it_is():
    assert repr(Bound(0.5)) == "Bound(0.5)"
    assert repr(Bound(-0.5)) == "Bound(-0.5, vacuous)"
    assert repr(Bound([0.5, 3.0])) == "Bound(2 values, 1 vacuous)"
