"""Theorem 5 as functions of one-shot bounds."""

from __future__ import annotations

import numpy as np
import pytest

from hushmeter.errors import InputError
from hushmeter.theory import multi_shot
from hushmeter.theory.one_shot import Bound


def test_errors_add_up_and_stop_at_one():
    rows = Bound(np.array([[0.9, 0.4], [1.0, 0.9], [0.95, 0.2]]))
    expected = [[0.1, 0.6], [0.1, 0.7], [0.15, 1.0]]
    np.testing.assert_allclose(multi_shot.errors_over_time(rows), expected)
    np.testing.assert_allclose(multi_shot.corrected_lower(rows).raw, 1 - np.mean(expected, axis=0))


def test_arrays_keep_their_shape():
    bound = Bound(np.linspace(-0.5, 1.0, 7))
    for result in (
        multi_shot.printed_lower(bound, 8, 20),
        multi_shot.integral_lower(bound, 8, 20),
        multi_shot.printed_upper(bound, 20),
        multi_shot.corrected_lower(bound, 20),
    ):
        assert result.raw.shape == (7,)


def test_a_vacuous_bound_stays_vacuous():
    assert multi_shot.corrected_lower(Bound(-3.0), 10).raw == 0.0
    assert multi_shot.corrected_lower(Bound(-3.0), 10).vacuous


def test_a_sharp_bound_stays_sharp_for_long():
    assert multi_shot.corrected_lower(Bound(1.0), 10**6).raw == 1.0
    assert multi_shot.corrected_lower(Bound(1 - 1e-9), 10**6).raw == pytest.approx(
        1 - 5e-4, rel=1e-6
    )


def test_bad_input_is_answered():
    with pytest.raises(InputError, match="readings must be"):
        multi_shot.printed_upper(Bound(0.5), 0)
    with pytest.raises(InputError, match="appliances must be"):
        multi_shot.printed_lower(Bound(0.5), 0, 10)
    with pytest.raises(InputError, match="every reading"):
        multi_shot.corrected_lower(Bound(0.5))
