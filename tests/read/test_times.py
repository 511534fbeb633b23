"""Times in whatever shape: the same instants, or one sentence."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hushmeter.errors import DataError
from hushmeter.read.times import localise, parse_times

PATH = Path("file.csv")
NOON = int(np.datetime64("2024-06-01T12:00:00", "ns").astype(np.int64))
HOUR = 3600 * 10**9


@pytest.mark.parametrize(
    ("column", "tz"),
    [
        (pa.array([NOON // 10**9, NOON // 10**9 + 3600]), None),
        (pa.array([NOON / 1e9, NOON / 1e9 + 3600]), None),
        (pa.array([NOON // 10**6, NOON // 10**6 + 3_600_000]), None),
        (pa.array(["2024-06-01T12:00:00Z", "2024-06-01T15:00:00+02:00"]), None),
        (pa.array(["01/06/2024 13:00", "01/06/2024 14:00"]), "Europe/London"),
        (pa.array(["01.06.2024 14:00:00", "01.06.2024 15:00:00"]), "Europe/Berlin"),
        (pa.array(["2024-06-01 12:00", "2024-06-01 13:00"]), "utc"),
        (pa.array([datetime(2024, 6, 1, 12), datetime(2024, 6, 1, 13)]), "UTC"),
    ],
)
def test_every_shape_gives_the_same_instants(column, tz):
    found, _ = parse_times(column, PATH, tz)
    assert found.tolist() == [NOON, NOON + HOUR]


def test_dates_are_midnights_of_their_zone():
    found, words = parse_times(pa.array([date(2024, 6, 1)]), PATH, "Europe/London")
    assert found.tolist() == [NOON - 13 * HOUR]
    assert words == "local times of Europe/London"


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        (pa.array([1.0, None]), "file.csv has no time in row 1."),
        (pa.array([1.0, float("inf")]), "file.csv has no time in row 1, but inf."),
        (pa.array([True, False]), "such as 'True'"),
        (pa.array(["soon"]), r"such as 'soon' \(row 0\)"),
        (pa.array(["2024-06-01T12:00Z", "2024-06-01T13:00"]), "without a zone, first in row 1"),
        (pa.array(["0001-01-01T00:00:00+14:00"]), "times that no calendar holds"),
        (pa.array(["1950-01-01T00:00Z"]), "outside 1970 … 2200 in row 0: 1950-01-01"),
        (pa.array(["2024-06-01T12:00"]), "name their zone"),
    ],
)
def test_what_cannot_be_a_time_is_refused(column, sentence):
    with pytest.raises(DataError, match=sentence):
        parse_times(column, PATH, None)


def test_the_hour_that_occurs_twice_is_told_apart_in_either_order():
    clock = np.array(
        ["2024-10-27T01:30", "2024-10-27T01:30", "2024-10-27T02:30"], "datetime64[ns]"
    ).astype(np.int64)
    forward, words = localise(clock, "Europe/London")
    assert np.diff(forward).tolist() == [HOUR, HOUR]
    assert words == "local times of Europe/London; 2 in an hour that the clock shows twice"
    backward, _ = localise(clock[::-1], "Europe/London")
    assert backward.tolist() == forward[::-1].tolist()


def test_an_hour_that_the_clock_skips_is_counted():
    clock = np.array(["2024-03-31T01:30"], "datetime64[ns]").astype(np.int64)
    (found,), words = localise(clock, "Europe/London")
    assert words.endswith("1 in an hour that the clock skips")
    assert found == np.datetime64("2024-03-31T01:00", "ns").astype(np.int64)


def test_a_second_pass_at_other_seconds_is_told_apart(rng):
    """A logger that keeps no round seconds: no time of the hour occurs twice."""
    utc = np.datetime64("2024-10-27T00:00", "ns").astype(np.int64) + np.cumsum(
        rng.integers(6, 9, 3000) * 10**9
    )
    summer = utc < np.datetime64("2024-10-27T01:00", "ns").astype(np.int64)
    local = utc + np.where(summer, HOUR, 0)
    assert localise(local, "Europe/London")[0].tolist() == utc.tolist()
    assert localise(local[::-1], "Europe/London")[0].tolist() == utc[::-1].tolist()
