"""Part of a file: what is outside of it is not read, in every format, and decides nothing."""

from __future__ import annotations

import json
import sqlite3
from datetime import date

import numpy as np
import pytest
from tests.cli.test_commands import run

import hushmeter as hm
from hushmeter.errors import DataError, InputError
from hushmeter.read import ReadOptions, read_home_recording, read_recording
from hushmeter.read.part import Part
from hushmeter.trace import iso

FORMATS = {
    "plain_csv": {}, "octopus": {}, "n3rgy": {}, "esb": {"tz": "Europe/Dublin"}, "ha_energy": {},
    "dsmr": {}, "rae": {"tz": "America/Vancouver"}, "ampds": {}, "refit": {}, "green_button": {},
    "parquet": {},
}  # fmt: skip
HOUR = np.timedelta64(1, "h")


def rows_of(values, start="2024-01-01", minutes=60):
    times = np.datetime64(start, "m") + minutes * np.arange(len(values))
    return [(f"{time}Z", value) for time, value in zip(times, values, strict=True)]


def write(path, rows, header="timestamp,watts"):
    path.write_text("\n".join([header, *(f"{time},{value}" for time, value in rows)]))
    return path


def same(part, whole, first, stop):
    """A part has the readings of the whole file that lie in it."""
    np.testing.assert_array_equal(part.times, whole.times[first:stop])
    np.testing.assert_allclose(part.readings, whole.readings[first:stop])


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_is_read_in_part(kind, samples, save):
    """The file is given three times: whole, with its own ends, and without its first and last."""
    path = save(getattr(samples, kind)(), f"{kind}.bin")
    options = FORMATS[kind]
    whole = read_recording(path, ReadOptions(**options))
    times, facts = whole.trace.times, whole.public
    ends = {"start": iso(facts.start), "end": iso(facts.end)}
    same(read_recording(path, ReadOptions(**options, **ends)).trace, whole.trace, 0, None)
    inner = ReadOptions(**options, start=iso(times[1]), end=iso(times[-1]))
    found = read_recording(path, inner)
    same(found.trace, whole.trace, 1, len(times) - 1)
    assert found.public.metering.part == (iso(times[1]), iso(times[-1]))
    assert found.public.end <= times[-1]


def test_folders_of_channels_are_read_in_part(samples, tmp_path):
    samples.channel_folder(tmp_path)
    whole = read_home_recording(tmp_path, ReadOptions(building=1))
    first, stop = whole.trace.times[40], whole.trace.times[120]
    part = read_home_recording(tmp_path, ReadOptions(building=1, start=iso(first), end=iso(stop)))
    inside = (whole.trace.times >= first) & (whole.trace.times < stop)
    np.testing.assert_array_equal(part.trace.times, whole.trace.times[inside])
    np.testing.assert_allclose(part.trace.readings, whole.trace.readings[inside])
    with pytest.raises(DataError, match="choose a part that they cover"):
        read_home_recording(tmp_path, ReadOptions(building=1, start="2001-01-01"))


def test_a_date_is_its_midnight_in_the_zone_of_the_file(tmp_path):
    path = write(tmp_path / "m.csv", rows_of(range(1, 97)))
    days = hm.read_meter(path, tz="Europe/Berlin", start="2024-01-02", end=date(2024, 1, 4))
    assert (iso(days.times[0]), len(days)) == ("2024-01-01T23:00:00Z", 48)
    assert iso(hm.read_meter(path, start="2024-01-02").times[0]) == "2024-01-02T00:00:00Z"
    clock = hm.read_meter(path, tz="Europe/Berlin", start="2024-01-02T06:00")
    assert iso(clock.times[0]) == "2024-01-02T05:00:00Z"
    assert iso(hm.read_meter(path, start="2024-01-02T06:00+02:00").times[0])[11:13] == "04"


@pytest.mark.parametrize("stamp", ["start", "end"])
def test_only_whole_readings_are_read(tmp_path, stamp):
    """Half past an hour cuts one reading at each side."""
    path = write(tmp_path / "m.csv", rows_of(range(1, 25)))
    part = hm.read_meter(path, stamp=stamp, start="2024-01-01T03:30Z", end="2024-01-01T08:30Z")
    whole = hm.read_meter(path, stamp=stamp)
    inside = (whole.times >= np.datetime64("2024-01-01T04")) & (
        whole.times + HOUR <= np.datetime64("2024-01-01T08")
    )
    np.testing.assert_array_equal(part.times, whole.times[inside])
    np.testing.assert_array_equal(part.readings, whole.readings[inside])


def test_a_counter_is_read_between_two_of_its_rows(tmp_path):
    path = write(tmp_path / "m.csv", rows_of(np.arange(24) ** 2), "timestamp,energy counter [kWh]")
    known = {"counter": "yes", "unit": "kWh"}
    part = hm.read_meter(path, **known, start="2024-01-01T02:00Z", end="2024-01-01T05:00Z")
    np.testing.assert_allclose(part.readings, [5000, 7000, 9000])


def outside(values, change):
    """The same file with other values, gaps and lengths of readings outside of 2 January."""
    rows = rows_of(values)
    if not change:
        return rows
    early = [(time, f"{float(value) + 0.123:.3f}") for time, value in rows[:24]]
    del early[5:9]
    early[2] = (early[2][0], "n/a")
    late = [(time, "") for time, _ in rows[50:60]]
    return [*early, *rows[24:48], rows[48], rows[48], rows[49], *late, *rows[60:]]


def test_missing_periods_outside_are_in_no_note(samples, save):
    """Of the energy download of Home Assistant; the second one lacks its first period."""
    text = samples.ha_energy().decode()
    whole = read_recording(save(text.encode()))
    first = iso(whole.trace.times[2])
    meter = next(line for line in text.splitlines() if "grid_consumption" in line)
    cells = meter.split(",")
    without = text.replace(meter, ",".join([*cells[:3], "", *cells[4:]]))
    found = [
        read_recording(save(one.encode()), ReadOptions(start=first)).public
        for one in (text, without)
    ]
    assert found[0].notes == found[1].notes
    assert found[0].readings == found[1].readings


def test_what_is_outside_decides_nothing(tmp_path):
    """Gaps, missing marks, repeated rows and digits outside of the part are not counted."""
    found = []
    for change in (False, True):
        path = write(tmp_path / "m.csv", outside(range(100, 172), change))
        recording = read_recording(path, ReadOptions(start="2024-01-02", end="2024-01-03"))
        facts = recording.public
        found.append([repr(getattr(facts, name)) for name in facts.__dataclass_fields__])
        found[-1].append(recording.watts.tolist())
    assert found[0] == found[1]
    assert hm.read_meter(path).metering.unsettled is not None


@pytest.mark.parametrize(
    ("start", "end", "error", "says"),
    [
        ("garbage", None, InputError, "`start=` must be a date or a time between 1970 and 2199"),
        (None, "2024-13-01", InputError, "`end=` must be a date or a time"),
        ("0001-01-01", None, InputError, "between 1970 and 2199"),
        ("2024-01-03", "2024-01-02", InputError, "is empty: state a `start=` before its `end=`"),
        ("2024-01-02", "2024-01-02", InputError, "is empty"),
        ("2023-12-31", "2024-01-02", DataError, "has readings from 2024-01-01T00:00:00Z to "),
        ("2024-01-02", "2024-01-06", DataError, "to 2024-01-05T00:00:00Z and not all of the part"),
        ("2025-01-01", None, DataError, "not all of the part from 2025-01-01T00:00:00Z: choose"),
        (None, "2023-01-01", DataError, "not all of the part to 2023-01-01T00:00:00Z: choose"),
        ("2024-01-02T00:10", "2024-01-02T00:20", DataError, "has no whole reading from 2024-01-02"),
        ("2024-01-02T00:10", "2024-01-02T01:50", DataError, "at least two readings are needed"),
    ],
)
def test_a_part_that_cannot_be_read_is_refused(tmp_path, start, end, error, says):
    path = write(tmp_path / "m.csv", rows_of(range(96)))
    with pytest.raises(error) as refused:
        hm.read_meter(path, start=start, end=end)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_ends_that_a_refusal_names_are_accepted(tmp_path):
    path = write(tmp_path / "m.csv", rows_of(range(96)))
    with pytest.raises(DataError) as refused:
        hm.read_meter(path, start="2020-01-01", end="2030-01-01")
    words = str(refused.value).split()
    start, end = words[words.index("from") + 1], words[words.index("to") + 1]
    assert len(hm.read_meter(path, start=start, end=end)) == 96


def test_changes_before_the_part_count_as_the_value_at_its_start(tmp_path):
    """What else is outside, such as a time without the sensor, is in no note."""
    head = "entity_id,state,last_changed\n"
    early = "sensor.power,100,2024-01-01T00:00:00Z\nsensor.power,unavailable,2024-01-01T01:00:00Z\n"
    rows = "sensor.power,300,2024-01-01T02:00:00Z\nsensor.power,500,2024-01-01T04:30:00Z\n"
    late = "sensor.power,unavailable,2024-01-01T09:00:00Z\nsensor.power,7,2024-01-01T09:30:00Z\n"
    options = ReadOptions(start="2024-01-01T03:00Z", end="2024-01-01T06:00Z", reading_length="1h")
    found = []
    for number, text in enumerate((head + early + rows + late, head + rows)):
        path = tmp_path / f"{number}.csv"
        path.write_text(text)
        recording = read_recording(path, options)
        found.append((recording.watts.tolist(), recording.public.notes, recording.public.metering))
    assert found[0] == found[1]
    assert found[0][0] == [300, 400, 500]
    assert found[0][2].unsettled is None


def test_the_part_is_in_the_receipt(tmp_path):
    path = write(tmp_path / "m.csv", rows_of(100 + np.arange(31 * 24) % 7))
    words = ["--from", "2024-01-08", "--to", "2024-01-15", "--tz", "Europe/Berlin"]
    part = ["2024-01-07T23:00:00Z", "2024-01-14T23:00:00Z"]
    for place in ("out.csv", "folder"):
        done = run("release", path, *words, "--hide", "kettle", "-o", tmp_path / place, "--json")
        receipt = json.loads(done.stdout)
        assert receipt["part"] == part
        assert receipt["output"]["readings"] == 7 * 24
        shown = run("verify", tmp_path / place).stdout
        assert "The receipt is not signed." in shown
    other = tmp_path / "folder" / "receipt.json"
    fields = json.loads(other.read_text())
    other.write_text(json.dumps({**fields, "part": ["2024-01-09T00:00:00Z", None]}))
    refused = run("verify", tmp_path / "folder", expect=1)
    assert "states a part of the file in which its cells are not" in refused.stderr
    printed = run("release", path, *words, "--hide", "kettle", "-o", tmp_path / "two.csv").stdout
    assert f"part of the file: from {part[0]} to {part[1]}\n" in printed
    whole = run("release", path, "--hide", "kettle", "-o", tmp_path / "three.csv", "--json").stdout
    assert json.loads(whole)["part"] is None


@pytest.mark.parametrize(
    "words", [("--to", "garbage"), ("--from", "2024-02-01", "--to", "2024-01-02")]
)
def test_a_range_on_an_ordinary_file_is_never_passed_over(tmp_path, words):
    """`--until garbage` was accepted for a table, and all of its days were published."""
    path = write(tmp_path / "m.csv", rows_of(100 + np.arange(31 * 24) % 7))
    done = run("release", path, *words, "--hide", "kettle", "-o", tmp_path / "out.csv", expect=2)
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out.csv").exists()


def test_statistics_of_home_assistant_are_read_in_part(tmp_path):
    path = tmp_path / "home.db"
    with sqlite3.connect(path) as database:
        database.executescript(
            "CREATE TABLE statistics_meta (id INTEGER, statistic_id TEXT, unit_of_measurement TEXT,"
            " has_sum INTEGER);"
            "INSERT INTO statistics_meta VALUES (1, 'sensor.energy', 'kWh', 1);"
            "CREATE TABLE statistics (metadata_id INTEGER, start_ts REAL, sum REAL, mean REAL);"
        )
        first = 1_704_067_200  # 2024-01-01
        rows = [(1, first + 3600 * k, k * k / 10, None) for k in range(48)]
        database.executemany("INSERT INTO statistics VALUES (?, ?, ?, ?)", rows)
    part = hm.read_meter(path, start="2024-01-01T10:00Z", end="2024-01-01T13:00Z")
    whole = hm.read_meter(path)
    first = int(np.flatnonzero(whole.times == part.times[0])[0])
    assert len(part) == 3
    same(part, whole, first, first + 3)


def test_a_part_says_what_it_is():
    assert not Part()
    assert str(Part.of("2024-01-01", None, "UTC")) == "from 2024-01-01T00:00:00Z"
    assert Part.of(None, "2024-01-01", "Asia/Kolkata").written == (None, "2023-12-31T18:30:00Z")
