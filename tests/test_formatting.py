from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushmeter.formatting import (
    count_of,
    duration_in_words,
    format_two_digits,
    format_watt_hours,
    format_watts,
    out_of_100,
    short_duration,
    spread_out,
)


def test_watts_have_three_digits():
    assert (format_watts(12.345), format_watts(60_000)) == ("12.3 W", "60 kW")
    assert [format_watts(w) for w in (999.7, -10_470, 1.234e9)] == [
        "1 kW", "-10.5 kW", "1230000 kW",
    ]  # fmt: skip


def test_watt_hours_have_three_digits():
    assert [format_watt_hours(e) for e in (235.0, 999.7, 70_000)] == ["235 Wh", "1 kWh", "70 kWh"]


def test_large_energies_have_no_exponent():
    values = {0.0523: "0.052", 8.94: "8.9", 99.6: "100", 223.0: "220", 12_345.0: "12000"}
    assert {value: format_two_digits(value) for value in values} == values


def test_lengths_of_time():
    assert [short_duration(s) for s in (6, 90, 900, 3600, 5400, 86_400)] == [
        "6 s", "1.5 min", "15 min", "1 h", "1.5 h", "24 h",
    ]  # fmt: skip
    assert [short_duration(s) for s in (3598, 1799, 59.97, 160)] == [
        "1 h", "30 min", "1 min", "2.67 min",
    ]  # fmt: skip
    assert [duration_in_words(s) for s in (6, 60, 90, 1800, 86_400, 1200 * 86_400)] == [
        "6 s", "1 minute", "1.5 minutes", "30 minutes", "1 day", "1200 days",
    ]  # fmt: skip


def test_a_count_has_its_singular():
    assert [count_of(n, "row") for n in (0, 1, 2)] == ["0 rows", "1 row", "2 rows"]
    assert count_of(2, "battery", "batteries") == "2 batteries"


@pytest.mark.parametrize(
    ("share", "words"),
    [(0.5, "50"), (0.714, "71.4"), (0.9994, "99.9"), (0.99999, "over 99.9"), (1.0, "100")],
)
def test_odds_are_never_rounded_up_to_certainty(share, words):
    assert out_of_100(share) == words


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30, unique=True), st.integers(2, 9))
def test_a_choice_keeps_both_ends_and_the_order(values, most):
    chosen = spread_out(values, most)
    assert chosen[0] == values[0]
    assert chosen[-1] == values[-1]
    assert len(chosen) == min(most, len(values))
    assert sorted(map(values.index, chosen)) == list(map(values.index, chosen))


def test_a_choice_is_spread_evenly():
    assert spread_out([3.0, 2.0], 5) == [3.0, 2.0]
    assert spread_out(range(9), 5) == [0, 2, 4, 6, 8]
