from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushmeter.report.blocks import SHADES, number, shade, signed, spread_out


@pytest.mark.parametrize(
    ("value", "word"),
    [(0.01234, "0.0123"), (12345.6, "12346"), (-3.5, "−3.5"), (999.4, "999"), (1e6, "1000000")],
)
def test_numbers_have_no_powers_of_ten(value, word):
    assert number(value) == word


def test_signed_numbers_never_say_minus_zero():
    assert signed(-0.0001) == "+0.000"
    assert signed(-0.0126) == "−0.013"
    assert signed(0.5) == "+0.500"


@given(st.floats(-2, 2))
def test_shades_rise_with_the_share(share):
    assert 0 <= shade(share) <= SHADES
    assert shade(share) <= shade(share + 0.3)
    assert abs(shade(share) - SHADES * min(max(share, 0), 1)) <= 0.5 + 1e-9


def test_nothing_and_unknown_have_no_shade():
    assert shade(math.nan) == shade(-0.3) == shade(0.0) == shade(0.09) == 0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30, unique=True), st.integers(2, 9))
def test_a_choice_keeps_both_ends_and_the_order(values, most):
    chosen = spread_out(values, most)
    assert chosen[0] == values[0]
    assert chosen[-1] == values[-1]
    assert len(chosen) == min(most, len(values))
    assert sorted(map(values.index, chosen)) == list(map(values.index, chosen))
