from __future__ import annotations

import pytest

from hushmeter.formatting import duration, even_duration, say_duration, times, two_digits, watts


def test_units_are_said_short():
    assert (watts(12.345), watts(60_000)) == ("12.3 W", "60 kW")
    assert (watts(999.7), watts(-10_470), watts(1.234e9)) == ("1 kW", "-10.5 kW", "1230000 kW")
    assert (duration(6), duration(90), duration(3600)) == ("6 s", "1.5 min", "1 h")


def test_large_energies_have_no_exponent():
    values = {0.0523: "0.052", 8.94: "8.9", 99.6: "100", 223.0: "220", 12_345.0: "12000"}
    assert {value: two_digits(value) for value in values} == values


def test_lengths_of_time_in_every_form():
    assert [even_duration(s) for s in (6, 90, 900, 3600, 86_400)] == [
        "6 s", "90 s", "15 min", "1 h", "1 day",
    ]  # fmt: skip
    assert [say_duration(s) for s in (6, 60, 90, 1800, 86_400)] == [
        "6 s", "1 minute", "1.5 minutes", "30 minutes", "1 day",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("share", "words"),
    [(0.5, "50"), (0.714, "71.4"), (0.9994, "99.9"), (0.99999, "over 99.9"), (1.0, "100")],
)
def test_odds_are_never_rounded_up_to_certainty(share, words):
    assert times(share) == words
