"""Dates as utilities and spreadsheets write them: the right instant, and a guess is said."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pytest

from hushmeter.errors import DataError
from hushmeter.read import ReadOptions, read_recording

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
    assert found.gaps == 0
    assert found.trace.times[-1] == np.datetime64("2024-01-01") + np.timedelta64(count - 1, "h")


def test_an_order_that_is_a_guess_is_said(save):
    us = read_recording(save(table("%m/%d/%Y %H:%M")), LONDON)
    assert us.clock_changes.endswith("read month first, though 01/01/2024 00:00 fits both")
    one_day = table("%d/%m/%Y %H:%M", 24)
    assert "read day first" in read_recording(save(one_day), LONDON).clock_changes
    sure = table("%d/%m/%Y %H:%M", 24 * 20)
    assert read_recording(save(sure), LONDON).clock_changes == "local times of Europe/London"


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
    assert "45292 is read as a spreadsheet's day number" in found.clock_changes
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
    assert trace.names == ("hour",)
    fractions = b"date,time,watts\n2024-01-01,1.5,3\n2024-01-01,2.5,4\n"
    with pytest.raises(DataError, match="column 'date' is not numbers"):
        read_recording(save(fractions))


def test_the_only_column_that_looks_like_times_is_taken(save):
    text = table("%d.%m.%Y %H:%M", 400, "Horodate,Leistung [W]")
    assert len(read_recording(save(text), LONDON).trace) == 400
    iso = table("%Y-%m-%dT%H:%M:%SZ", 40, "_time,watts")
    assert len(read_recording(save(iso)).trace) == 40


def test_the_row_that_is_no_time_is_named(save):
    text = table("%d/%m/%Y %H:%M", 400) + b"\nTotal,48000\n"
    with pytest.raises(DataError, match=r"such as 'Total' \(row 400\).*delete what is no reading"):
        read_recording(save(text), LONDON)
