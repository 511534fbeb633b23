"""Times in whatever shape: the same instants, or one sentence."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hushmeter.clock import SECOND
from hushmeter.errors import DataError
from hushmeter.read import ReadOptions, read_recording
from hushmeter.read.cells import cells_of
from hushmeter.read.times import find_zone, read_clock, read_stamps, split_range, to_utc

PATH = Path("file.csv")
NOON = int(np.datetime64("2024-06-01T12:00:00", "ns").astype(np.int64))
HOUR = 3600 * 10**9


def cells(values):
    """A column of a list of Python's values."""
    return cells_of(pa.array(values))


def parse_times(column, path, tz):
    """Times in UTC and the sentence about the clock, as the table reader finds them."""
    stamps = read_stamps(column, path, tz)
    if stamps.aware:
        return stamps.ns[stamps.good], "UTC"
    times, _, words = to_utc(stamps.ns[stamps.good], tz)
    return times, words + stamps.remark


def localise(local, tz):
    times, _, words = to_utc(local, tz)
    return times, words


@pytest.mark.parametrize(
    ("column", "tz"),
    [
        (cells([NOON // 10**9, NOON // 10**9 + 3600]), None),
        (cells([NOON / 1e9, NOON / 1e9 + 3600]), None),
        (cells([NOON // 10**6, NOON // 10**6 + 3_600_000]), None),
        (cells(["2024-06-01T12:00:00Z", "2024-06-01T15:00:00+02:00"]), None),
        (cells(["01/06/2024 13:00", "01/06/2024 14:00"]), "Europe/London"),
        (cells(["01.06.2024 14:00:00", "01.06.2024 15:00:00"]), "Europe/Berlin"),
        (cells(["2024-06-01 12:00", "2024-06-01 13:00"]), "utc"),
        (cells([datetime(2024, 6, 1, 12), datetime(2024, 6, 1, 13)]), "UTC"),
    ],
)
def test_every_shape_gives_the_same_instants(column, tz):
    found, _ = parse_times(column, PATH, tz)
    assert found.tolist() == [NOON, NOON + HOUR]


def test_dates_are_midnights_of_their_zone():
    found, words = parse_times(cells([date(2024, 6, 1)]), PATH, "Europe/London")
    assert found.tolist() == [NOON - 13 * HOUR]
    assert words == "local times of Europe/London"


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        (cells([True, False]), "such as 'True'"),
        (cells(["soon"]), "such as 'soon'"),
        (cells(["2024-06-01T12:00Z", "2024-06-01T13:00"]), "without a zone, first in row 1"),
        (cells(["0001-01-01T00:00:00+14:00"]), "outside 1970 … 2200 in row 0"),
        (cells(["0000-01-01"]), "outside 1970 … 2200 in row 0"),
        (cells(["1950-01-01T00:00Z"]), "outside 1970 … 2200 in row 0"),
    ],
)
def test_what_cannot_be_a_time_is_refused(column, sentence):
    with pytest.raises(DataError, match=sentence):
        parse_times(column, PATH, None)


def test_the_hour_that_occurs_twice_is_resolved_in_either_order():
    clock = np.array(
        ["2024-10-27T01:30", "2024-10-27T01:30", "2024-10-27T02:30"], "datetime64[ns]"
    ).astype(np.int64)
    forward, words = localise(clock, "Europe/London")
    assert np.diff(forward).tolist() == [HOUR, HOUR]
    assert words == "local times of Europe/London; 2 in an hour that the clock shows twice"
    backward, _ = localise(clock[::-1], "Europe/London")
    assert backward.tolist() == forward[::-1].tolist()


def test_an_hour_that_the_clock_skips_is_marked():
    clock = np.array(["2024-03-31T00:30", "2024-03-31T01:30"], "datetime64[ns]").astype(np.int64)
    _, exists, words = to_utc(clock, "Europe/London")
    assert exists.tolist() == [True, False]
    assert words.endswith("1 in an hour that the clock skips")


@pytest.mark.parametrize(
    ("texts", "seconds"),
    [(["00:00", "24:00"], [0, 86_400]), (["1:30 PM", "12:05 AM"], [48_600, 300]),
     (["07h15", "07.30"], [26_100, 27_000]), (["23:59:59", None], [86_399, 0])],
)  # fmt: skip
def test_clocks(texts, seconds):
    found, good = read_clock(cells(texts))
    assert found.tolist() == seconds
    assert good.tolist() == [text is not None for text in texts]


@pytest.mark.parametrize("texts", [["29.10.22", "30.10.22"], ["12", "13"], ["soon"], ["99:99"]])
def test_what_is_no_clock(texts):
    assert read_clock(cells(texts)) is None


def test_ranges_are_split():
    starts, ends = split_range(cells(["2025-10-19 00:00 to 2025-10-19 01:00", None]))
    assert (starts.tolist(), ends.tolist()) == (
        ["2025-10-19 00:00", None],
        ["2025-10-19 01:00", None],
    )
    assert split_range(cells(["00:00-00:15"]))[1].tolist() == ["00:15"]
    assert split_range(cells(["2025-10-19 00:00"])) is None


@pytest.mark.parametrize(
    ("text", "zone"),
    [("Time Bucket (America/New_York)", "America/New_York"), ("Date/time UTC", "UTC"),
     (" UTC+01:00 ", "Etc/GMT-1"), ("timestamp", None), ("Price/Unit", None)],
)  # fmt: skip
def test_zones_in_headers(text, zone):
    assert find_zone(text) == zone


@pytest.mark.parametrize(
    "text", ["31 Jan 2024 10:00", "Jan 31, 2024 10:00 AM", "31-janv-2024 10:00"]
)
def test_month_names(text):
    moment = np.datetime64("2024-01-31T10:00", "ns").astype(np.int64)
    assert read_stamps(cells([text]), PATH).ns.tolist() == [moment]


def test_a_second_pass_at_other_seconds_is_distinguished(rng):
    """A logger that keeps no round seconds: no time of the hour occurs twice."""
    utc = np.datetime64("2024-10-27T00:00", "ns").astype(np.int64) + np.cumsum(
        rng.integers(6, 9, 3000) * 10**9
    )
    summer = utc < np.datetime64("2024-10-27T01:00", "ns").astype(np.int64)
    local = utc + np.where(summer, HOUR, 0)
    assert localise(local, "Europe/London")[0].tolist() == utc.tolist()
    assert localise(local[::-1], "Europe/London")[0].tolist() == utc[::-1].tolist()


FIRST = datetime(2024, 1, 1)
LONDON = ReadOptions(tz="Europe/London")


def table(pattern, count=72, header="timestamp,watts"):
    """Hourly readings with times in a pattern of `strftime`."""
    rows = (f"{FIRST + timedelta(hours=i):{pattern}},{100 + i % 5}" for i in range(count))
    return "\n".join([header, *rows]).encode()


@pytest.mark.parametrize(
    "pattern",
    [
        "%m/%d/%Y %H:%M",
        "%m/%d/%Y %I:%M %p",
        "%m/%d/%Y %I:%M:%S%p",
        "%m-%d-%Y %H:%M",
        "%d/%m/%Y %H:%M:%S",
        "%d/%m/%y %H:%M",
        "%m/%d/%y %H:%M",
        "%d.%m.%Y %H:%M",
        "%Y/%m/%d %H:%M",
        "%Y-%m-%d %H:%M:%S GMT",
        "%Y%m%d%H",
        "%Y%m%d%H%M",
        "%Y%m%d%H%M%S",
    ],
)
@pytest.mark.parametrize("count", [72, 24 * 30])
def test_every_order_of_day_and_month(save, pattern, count):
    found = read_recording(save(table(pattern, count)), LONDON)
    assert found.trace.interval_s == 3600
    assert found.public.gaps == 0
    assert found.trace.times[-1] == np.datetime64("2024-01-01") + np.timedelta64(count - 1, "h")


def test_an_order_that_is_a_guess_is_reported(save):
    us = read_recording(save(table("%m/%d/%Y %H:%M")), LONDON)
    assert us.public.clock_changes.endswith("read month first, though 01/01/2024 00:00 fits both")
    one_day = table("%d/%m/%Y %H:%M", 24)
    assert "read day first" in read_recording(save(one_day), LONDON).public.clock_changes
    sure = table("%d/%m/%Y %H:%M", 24 * 20)
    assert read_recording(save(sure), LONDON).public.clock_changes == "local times of Europe/London"


def test_days_alone_are_midnights(save):
    rows = "\n".join(f"{FIRST + timedelta(days=i):%d/%m/%Y},2.4" for i in range(30))
    trace = read_recording(save(f"date,kWh\n{rows}".encode()), LONDON).trace
    assert trace.interval_s == 86_400
    np.testing.assert_allclose(trace.readings, 100.0)


def test_microseconds_and_nanoseconds(save):
    for ticks in (10**6, 10**9):
        rows = "\n".join(f"{(1_704_067_200 + 60 * i) * ticks},5" for i in range(9))
        trace = read_recording(save(f"ts,watts\n{rows}".encode())).trace
        assert trace.interval_s == 60
        assert trace.start == np.datetime64("2024-01-01")


def test_day_numbers_of_a_spreadsheet_are_no_seconds(save):
    rows = "\n".join(f"{45_292 + i / 96:.6f},5" for i in range(50))
    found = read_recording(save(f"timestamp,watts\n{rows}".encode()), LONDON)
    assert found.trace.interval_s == 900
    assert found.trace.start == np.datetime64("2024-01-01")
    assert "45292 is read as a spreadsheet's day" in found.public.clock_changes
    with pytest.raises(DataError, match="without a zone"):
        read_recording(save(f"timestamp,watts\n{rows}".encode()))


@pytest.mark.parametrize(
    ("header", "pattern"),
    [
        ("Datum,Uhrzeit,watts", "%d.%m.%Y,%H:%M"),
        ("Date,Time,watts", "%Y-%m-%d,%H:%M:%S"),
        ("DATE,START TIME,watts", "%m/%d/%Y,%I:%M %p"),
        ("date,hour,watts", "%Y-%m-%d,%-H"),
    ],
)
def test_date_and_time_of_day_in_two_columns(save, header, pattern):
    found = read_recording(save(table(pattern, 480, header)), LONDON)
    assert found.trace.interval_s == 3600
    assert len(found.trace) == 480
    assert found.trace.start == np.datetime64("2024-01-01")


def test_hours_from_1_to_24_begin_an_hour_earlier(save):
    rows = "\n".join(f"2024-01-0{1 + i // 24},{1 + i % 24},0.4" for i in range(96))
    trace = read_recording(save(f"Date,Hour,kWh\n{rows}".encode()), LONDON).trace
    assert trace.start == np.datetime64("2024-01-01")
    assert trace.readings.sum() * trace.interval_s / 3.6e6 == pytest.approx(38.4)


def test_columns_that_are_no_date_and_clock_stay_apart(save):
    unix = "\n".join(f"{1_704_067_200 + 60 * i},{i},5" for i in range(9))
    trace = read_recording(save(f"date,hour,watts\n{unix}".encode())).trace
    assert trace.interval_s == 60
    assert trace.names is None


def test_the_only_column_that_looks_like_times_is_taken(save):
    text = table("%d.%m.%Y %H:%M", 400, "Horodate,Leistung [W]")
    assert len(read_recording(save(text), LONDON).trace) == 400
    iso = table("%Y-%m-%dT%H:%M:%SZ", 40, "_time,watts")
    assert len(read_recording(save(iso)).trace) == 40


def test_rows_of_totals_are_left_out_and_more_words_refused(save):
    text = table("%d/%m/%Y %H:%M", 400)
    found = read_recording(save(text + b"\nTotal,48000\n"), LONDON)
    assert len(found.trace) == 400
    assert "1 row without a time" in " ".join(found.notes)
    with pytest.raises(DataError, match=r"such as 'never' \(row 400\).*delete what is no reading"):
        read_recording(save(text + b"\nnever,5" * 9), LONDON)


def test_shuffled_rows_of_a_repeated_hour_lose_nothing():
    start = np.datetime64("2023-10-28T22:00", "ns").astype(np.int64)
    utc = start + np.arange(40) * 900 * SECOND
    offset = np.where(np.arange(40) < 12, 2, 1) * 3600 * SECOND
    order = np.random.default_rng(0).permutation(40)
    found, exists, _ = to_utc((utc + offset)[order], "Europe/Brussels")
    assert exists.all()
    np.testing.assert_array_equal(np.sort(found), utc)


def test_a_dash_between_a_date_and_its_clock_is_no_offset(save):
    rows = [f"{d}/6/2023-{h}:00;0.3" for d in (1, 13) for h in range(24)]
    text = "\n".join(["Tarih;kWh", *rows])
    found = read_recording(save(text.encode()), ReadOptions(tz="Europe/Istanbul"))
    assert found.public.start == np.datetime64("2023-05-31T21:00")
    assert found.public.readings == 48
