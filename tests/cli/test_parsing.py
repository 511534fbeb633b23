from __future__ import annotations

import numpy as np
import pytest

from hushmeter.cli.parsing import (
    parse_epsilons,
    parse_home,
    parse_interval,
    parse_numbers,
    parse_watts,
)
from hushmeter.errors import DataError, InputError
from hushmeter.synth import ready_home


def test_a_home_is_a_file_or_a_ready_one(tmp_path):
    evening = ready_home("evening")
    evening.save(tmp_path / "mine.toml")
    assert parse_home("evening").names == evening.names
    assert parse_home(str(tmp_path / "mine.toml")).names == evening.names
    with pytest.raises(DataError, match=r"nowhere\.toml is not a file, and not a ready home"):
        parse_home(str(tmp_path / "nowhere.toml"))
    with pytest.raises(DataError, match=r"evning is not a file.*\(evening, "):
        parse_home("evning")


def test_a_range_of_epsilon_is_even_in_its_logarithm():
    values = parse_epsilons("0.01:10")
    assert (values[0], values[-1]) == pytest.approx((0.01, 10.0))
    steps = np.diff(np.log(values))
    np.testing.assert_allclose(steps, steps[0])
    assert parse_epsilons("1,0.5").tolist() == [1.0, 0.5]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a:b", "epsilon must be LO:HI or numbers with commas, got 'a:b'."),
        ("2:1", "epsilon must be LO:HI with LO below HI, got '2:1'."),
        ("1:2:3", "epsilon must be LO:HI with LO below HI, got '1:2:3'."),
        ("0:1", "epsilon must be positive"),
        ("", "epsilon must be LO:HI or numbers with commas, got ''."),
    ],
)
def test_bad_epsilons_get_one_sentence(text, says):
    with pytest.raises(InputError) as refused:
        parse_epsilons(text)
    assert says in str(refused.value)


def test_an_interval_is_a_time_or_whole_seconds():
    assert parse_interval("900") == parse_interval("15min") == 900
    for wrong, says in (("0.5s", "whole seconds"), ("0", "positive"), ("soon", "30s, 15min")):
        with pytest.raises(InputError, match=says):
            parse_interval(wrong)


def test_numbers_and_watts():
    assert parse_numbers("tariff", "1, 2.5,3e-1") == [1.0, 2.5, 0.3]
    assert parse_watts("sensitivity", "120") == 120.0
    with pytest.raises(InputError, match="tariff must be numbers with commas, got '1;2'"):
        parse_numbers("tariff", "1;2")
    with pytest.raises(InputError, match="sensitivity must be a number of watts, got '2kW'"):
        parse_watts("sensitivity", "2kW")
