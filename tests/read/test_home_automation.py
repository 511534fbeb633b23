"""Exports of Home Assistant, and data bases of it and Domoticz with the schemas of both."""

from __future__ import annotations

import gzip
import json
import sqlite3
from contextlib import contextmanager

import numpy as np
import pytest

from hushmeter.errors import DataError
from hushmeter.read import (
    ReadOptions,
    read_bytes,
    read_home_data,
    read_home_recording,
    read_meter,
    read_recording,
)


def test_the_energy_download_has_meter_and_devices(samples, save):
    found = read_recording(save(samples.ha_energy()))
    assert found.format == "Home Assistant energy CSV"
    assert found.public.gaps == 1
    np.testing.assert_allclose(found.trace.readings, [600, 500, 700, 700, 1000])
    assert found.power is None
    found = read_home_recording(save(samples.ha_energy()))
    assert found.trace.names == ("fridge", "kettle")
    np.testing.assert_allclose(found.trace.power[:, 1], [0, 200, 0, 200, 0])
    assert any("solar_production" in note for note in found.notes)
    assert read_home_data(save(samples.ha_energy())).names == ("fridge", "kettle")


def test_without_a_grid_row_the_devices_are_summed(samples, save):
    text = samples.ha_energy().replace(b"grid_consumption", b"gas_consumption")
    found = read_home_recording(save(text))
    np.testing.assert_allclose(found.trace.readings, [100, 200, 100, 0, 300, 0])
    with pytest.raises(DataError, match="no row of grid_consumption"):
        read_recording(save(text))
    nothing = text.replace(b"device_consumption", b"other")
    with pytest.raises(DataError, match="no row of grid_consumption"):
        read_meter(save(nothing))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"kWh,0.5", b"gal,0.5", "is in 'gal', not in kWh"),
        (b"0.5", b"half", "'half', neither a number"),
        (b"2024-01-01T00:00:00.000Z", b"2024-01-01T00:00:00", "carries no zone"),
        (b"2024-01-01T00:00:00.000Z", b"noon", "'noon' is not a time"),
    ],
)
def test_broken_energy_downloads(samples, save, old, new, message):
    with pytest.raises(DataError, match=message):
        read_meter(save(samples.ha_energy().replace(old, new)))


def test_history_keeps_the_energy_of_every_cell(samples, save):
    options = ReadOptions(reading_length="10s", end="2024-01-01T00:02:00Z")
    found = read_recording(save(samples.ha_history()), options)
    trace = found.trace
    assert found.format == "Home Assistant history CSV"
    assert found.public.gaps == 1
    offset = (trace.times - np.datetime64("2024-01-01")) / np.timedelta64(1, "s")
    energy = dict(zip(offset, trace.readings * trace.interval_s, strict=True))
    truth = {}
    for cell in offset:
        step = np.arange(cell, cell + trace.interval_s, 0.5)
        watts = np.select(
            [step < 20, step < 60, (step >= 90) & (step < 100), (step >= 100) & (step < 110)],
            [100, 300.5, 80, 90],
            80,
        )
        truth[cell] = watts.sum() * 0.5
    for cell in offset:
        assert energy[cell] == pytest.approx(truth[cell], rel=1e-9)
    assert not any(60 <= cell < 90 for cell in offset)


def test_a_register_is_differenced(save):
    rows = "".join(
        f"sensor.total_energy,{5 + 0.001 * i:.3f},2024-01-01T00:{i:02d}:00+00:00\n"
        for i in range(9)
    )
    path = save(("entity_id,state,last_changed\n" + rows).encode())
    trace = read_meter(path, reading_length="1min", step=0.001)
    np.testing.assert_allclose(trace.readings, 60.0, rtol=1e-6)
    assert trace.metering.register_step_w == pytest.approx(60.0)


def test_several_entities_must_be_distinguished(samples, save):
    text = samples.ha_history() + samples.ha_history().split(b"\n", 1)[1].replace(b"meter_", b"b_")
    with pytest.raises(DataError, match=r"holds 2 sensors.*`value_column="):
        read_meter(save(text))
    chosen = read_recording(
        save(text), ReadOptions(value_column="sensor.b_power", reading_length="10s")
    )
    assert len(chosen.trace) > 3
    words = b"entity_id,state,last_changed\nsensor.x,on,2024-01-01T00:00:00Z\n"
    with pytest.raises(DataError, match=r"no entity with numbers"):
        read_meter(save(words))


@pytest.mark.parametrize(
    ("entity", "unit"),
    [
        ("sensor.energy_meter_power", "W"),
        ("sensor.power_meter_energy", "kWh"),
        ("sensor.power_consumption_kw", "kW"),
        ("sensor.house_kwh", "kWh"),
    ],
)
def test_the_last_word_of_a_name_states_the_unit(entity, unit, samples, save):
    text = samples.ha_history().replace(b"sensor.meter_power", entity.encode())
    options = ReadOptions(reading_length="10s")
    assert read_recording(save(text), options).unit == unit


def test_a_name_without_a_unit_is_refused(samples, save):
    path = save(samples.ha_history().replace(b"sensor.meter_power", b"sensor.shelly"))
    with pytest.raises(DataError, match=r"unit of sensor.shelly is unknown: state it .`unit="):
        read_meter(path)
    assert len(read_meter(path, unit="W", reading_length="10s")) > 3


def test_nothing_public_depends_on_when_the_load_changed(save):
    """A kettle that runs once more adds rows; times, gaps and notes stay the same."""
    quiet = [(f"2024-01-01T{h:02d}:00:00Z", 100 + h) for h in range(0, 24, 3)]
    run = [("2024-01-01T10:13:20Z", 2100), ("2024-01-01T10:17:40Z", 109)]
    away = [("2024-01-01T16:30:00Z", "unavailable"), ("2024-01-01T17:00:00Z", 90)]
    options = ReadOptions(start="2024-01-01", end="2024-01-02")
    found = [
        read_recording(save(changes(*sorted(rows)), f"{i}.csv"), options)
        for i, rows in enumerate(([*quiet, *away], [*quiet, *away, *run]))
    ]
    first, second = (recording.public for recording in found)
    for name in ("format", "unit", "interval_s", "start", "end", "readings", "notes", "metering"):
        assert getattr(first, name) == getattr(second, name), name
    assert first.steps.tolist() == second.steps.tolist()
    assert (first.interval_s, first.gaps, len(found[0].watts)) == (60.0, 1, 24 * 60 - 30)
    extra = (found[1].watts - found[0].watts).sum() / 60
    assert extra == pytest.approx((2100 - 109) * 260 / 3600)


def test_a_fall_of_a_counter_is_a_reset_to_zero(save):
    states = (5.0, 5.5, 0.25, 0.75)
    rows = [(f"2024-01-01T{h:02d}:00:00Z", v) for h, v in enumerate(states)]
    trace = read_meter(save(changes(*rows, entity="sensor.energy")), end="2024-01-01T03:00:00Z")
    np.testing.assert_allclose(trace.readings, [500, 250, 500])


def test_zero_bytes_before_the_header(samples, save):
    path = save(b"\x00\x00" + samples.ha_history())
    assert len(read_meter(path, reading_length="10s")) > 3


def changes(*rows, entity="sensor.meter_power"):
    lines = [f"{entity},{state},{when}" for when, state in rows]
    return "\n".join(["entity_id,state,last_changed", *lines]).encode()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ((("2024-01-01T00:00:00Z", 5),), "has a single change of state"),
        ((("1960-01-01T00:00:00Z", 5), ("2024-01-01T00:00:00Z", 6)), "outside 1970"),
        ((("2024-01-01T00:00:00Z", 5), ("2024-01-01T00:01:00Z", 1e13)), "beyond 1e12"),
        (
            (("2024-01-01T00:20:01Z", 5), ("2024-01-01T00:20:50Z", 6)),
            "no interval of 60 s is covered whole",
        ),
    ],
)
def test_histories_that_cannot_be_used(rows, message, save):
    with pytest.raises(DataError, match=message):
        read_meter(save(changes(*rows)))


def test_a_history_longer_than_memory_is_refused(save, monkeypatch):
    monkeypatch.setattr("hushmeter.read.home_automation.MAX_CELLS", 10)
    rows = [(f"2024-01-01T00:00:{s:02d}Z", s) for s in range(30)]
    with pytest.raises(DataError, match="would give more than 10 readings of 1 s"):
        read_meter(save(changes(*rows)), reading_length="1s")


def test_an_entity_that_is_not_there_and_a_table_without_times(samples, save):
    with pytest.raises(DataError, match=r"no entity 'sensor.x' \(found: sensor.meter_power\)"):
        read_meter(save(samples.ha_history()), value_column="sensor.x")
    with pytest.raises(DataError, match="no time columns after entity_id, type, unit"):
        read_meter(save(b"entity_id,type,unit\nsensor.a,grid_consumption,kWh\n"))


def test_a_field_without_end_is_refused(samples, save):
    long = samples.ha_history() + b'"' + b"x" * (1 << 21)
    with pytest.raises(DataError, match="is no CSV: field larger than field limit"):
        read_meter(save(long))


START = 1_704_067_200  # 2024-01-01T00:00Z
RECORDER = """
CREATE TABLE statistics_meta (
    id INTEGER NOT NULL PRIMARY KEY, statistic_id VARCHAR(255), source VARCHAR(32),
    unit_of_measurement VARCHAR(255), has_mean BOOLEAN, has_sum BOOLEAN, name VARCHAR(255));
CREATE TABLE statistics (
    id INTEGER NOT NULL PRIMARY KEY, created DATETIME, created_ts FLOAT, metadata_id INTEGER,
    start DATETIME, start_ts FLOAT, mean FLOAT, min FLOAT, max FLOAT, last_reset DATETIME,
    last_reset_ts FLOAT, state FLOAT, sum FLOAT);
CREATE TABLE statistics_short_term (
    id INTEGER NOT NULL PRIMARY KEY, created DATETIME, created_ts FLOAT, metadata_id INTEGER,
    start DATETIME, start_ts FLOAT, mean FLOAT, min FLOAT, max FLOAT, last_reset DATETIME,
    last_reset_ts FLOAT, state FLOAT, sum FLOAT);
CREATE TABLE states_meta (metadata_id INTEGER NOT NULL PRIMARY KEY, entity_id VARCHAR(255));
CREATE TABLE state_attributes (
    attributes_id INTEGER NOT NULL PRIMARY KEY, hash BIGINT, shared_attrs TEXT);
CREATE TABLE states (
    state_id INTEGER NOT NULL PRIMARY KEY, entity_id CHAR(0), state VARCHAR(255),
    attributes CHAR(0), last_changed_ts FLOAT, last_updated_ts FLOAT, old_state_id INTEGER,
    attributes_id INTEGER, metadata_id INTEGER);
"""
DOMOTICZ = """
CREATE TABLE DeviceStatus (
    ID INTEGER PRIMARY KEY, HardwareID INTEGER NOT NULL, DeviceID VARCHAR(25) NOT NULL,
    Unit INTEGER DEFAULT 0, Name VARCHAR(100) DEFAULT Unknown, Used INTEGER DEFAULT 0,
    Type INTEGER NOT NULL, SubType INTEGER NOT NULL, SwitchType INTEGER DEFAULT 0,
    nValue INTEGER DEFAULT 0, sValue VARCHAR(200) DEFAULT null);
CREATE TABLE Meter (
    DeviceRowID BIGINT NOT NULL, Value BIGINT NOT NULL, Usage INTEGER DEFAULT 0, Date DATETIME);
CREATE TABLE Meter_Calendar (
    DeviceRowID BIGINT NOT NULL, Value BIGINT NOT NULL, Counter BIGINT DEFAULT 0, Date DATETIME);
CREATE TABLE MultiMeter (
    DeviceRowID BIGINT NOT NULL, Value1 BIGINT NOT NULL, Value2 BIGINT DEFAULT 0,
    Value3 BIGINT DEFAULT 0, Value4 BIGINT DEFAULT 0, Value5 BIGINT DEFAULT 0,
    Value6 BIGINT DEFAULT 0, Date DATETIME);
CREATE TABLE MultiMeter_Calendar (
    DeviceRowID BIGINT NOT NULL, Value1 BIGINT NOT NULL, Value2 BIGINT NOT NULL,
    Value3 BIGINT DEFAULT 0, Value4 BIGINT DEFAULT 0, Value5 BIGINT DEFAULT 0,
    Value6 BIGINT DEFAULT 0, Counter1 BIGINT DEFAULT 0, Date DATETIME);
CREATE TABLE Preferences (Key VARCHAR(50) NOT NULL, nValue INTEGER DEFAULT 0, sValue VARCHAR(200));
"""


def make(path, schema, rows):
    database = sqlite3.connect(path)
    database.executescript(schema)
    for table, (columns, values) in rows.items():
        marks = ", ".join("?" * len(columns.split(",")))
        database.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", values)
    database.commit()
    database.close()
    return path


@contextmanager
def changing(path):
    database = sqlite3.connect(path)
    try:
        yield database
        database.commit()
    finally:
        database.close()


@pytest.fixture
def recorder(tmp_path):
    """The grid meter at 0.5 kWh an hour (hour 5 is missing), a plug of 60 W, and a solar meter."""
    hours = [h for h in range(12) if h != 5]
    sums = [(1, START + 3600 * h, None, 100 + 0.5 * (h + 1)) for h in hours]
    means = [(2, START + 3600 * h, 60.0 + h, None) for h in range(12)]
    short = [(1, START + 300 * k, None, 100 + 0.1 * (k + 1)) for k in range(24)]
    power = json.dumps({"unit_of_measurement": "W", "friendly_name": "Washer"})
    states = [
        ("200", None, START, 1, 1),
        ("unavailable", None, START + 180, 1, 1),
        ("50.0", START + 300, START + 310, 1, 1),
        ("50", None, START + 3700, 1, 1),
    ]
    return make(
        tmp_path / "home-assistant_v2.db",
        RECORDER,
        {
            "statistics_meta": (
                "id, statistic_id, source, unit_of_measurement, has_mean, has_sum",
                [
                    (1, "sensor.grid_import", "recorder", "kWh", 0, 1),
                    (2, "sensor.plug_power", "recorder", "W", 1, 0),
                    (3, "sensor.solar_production", "recorder", "kWh", 0, 1),
                    (4, "sensor.temperature", "recorder", "°C", 1, 0),
                ],
            ),
            "statistics": ("metadata_id, start_ts, mean, sum", [*sums, *means]),
            "statistics_short_term": ("metadata_id, start_ts, mean, sum", short),
            "states_meta": ("metadata_id, entity_id", [(1, "sensor.washer_power")]),
            "state_attributes": ("attributes_id, shared_attrs", [(1, power), (2, "no JSON")]),
            "states": (
                "state, last_changed_ts, last_updated_ts, attributes_id, metadata_id",
                states,
            ),
        },
    )


@pytest.fixture
def domoticz(tmp_path):
    """A smart meter with two tariffs, a plug, the panels and a gas meter, in Amsterdam."""
    stamps = [f"2024-03-30 {k // 12:02d}:{5 * (k % 12):02d}:0{k % 3}" for k in range(24)]
    days = ["2024-03-29", "2024-03-30", "2024-03-31", "2024-04-01"]
    return make(
        tmp_path / "domoticz.db",
        DOMOTICZ,
        {
            "DeviceStatus": (
                "ID, HardwareID, DeviceID, Name, Type, SubType, SwitchType",
                [
                    (1, 1, "a", "Smart meter", 250, 1, 0),
                    (2, 1, "b", "Plug", 243, 29, 0),
                    (3, 1, "c", "Panels", 243, 29, 4),
                    (4, 1, "d", "Gas", 251, 2, 1),
                    (5, 1, "e", "Old counter", 113, 0, 0),
                ],
            ),
            "MultiMeter": (
                "DeviceRowID, Value1, Value2, Value5, Date",
                [(1, 1000 + 20 * k, 7 * k, 500 + 5 * k, stamps[k]) for k in range(24)],
            ),
            "MultiMeter_Calendar": (
                "DeviceRowID, Value1, Value2, Value5, Date",
                [(1, 6000, 900, 6000, day) for day in days],
            ),
            "Meter": (
                "DeviceRowID, Value, Usage, Date",
                [
                    *((2, 10 * k, 1200, stamps[k]) for k in range(24)),
                    *((5, 8 * k, 0, stamps[k]) for k in range(24)),
                ],
            ),
            "Meter_Calendar": ("DeviceRowID, Value, Date", [(2, 2400, day) for day in days]),
            "Preferences": ("Key, nValue", [("MeterDividerEnergy", 2000)]),
        },
    )


def test_hourly_sums_of_the_recorder(recorder):
    found = read_recording(recorder, ReadOptions(meter="sensor.grid_import"))
    assert found.format == "Home Assistant recorder (SQLite)"
    assert found.trace.interval_s == 3600
    assert str(found.trace.start) == "2024-01-01T01:00:00.000000000"
    # The sum of hour 5 is missing, so that the hours 5 and 6 are unknown.
    assert found.trace.steps.tolist() == [0, 1, 2, 3, 6, 7, 8, 9, 10]
    np.testing.assert_allclose(found.trace.readings, 500.0)
    assert found.public.metering.register_step_w == 1000.0


def test_five_minutes_and_means_of_the_recorder(recorder):
    short = read_meter(recorder, meter="sensor.grid_import", reading_length="5min")
    assert short.interval_s == 300
    np.testing.assert_allclose(short.readings, 1200.0)
    means = read_meter(recorder, meter="sensor.plug_power")
    assert str(means.start) == "2024-01-01T00:00:00.000000000"
    np.testing.assert_allclose(means.readings, 60.0 + np.arange(12))


def test_states_of_the_recorder(recorder):
    options = ReadOptions(meter="sensor.washer_power", end="2024-01-01T01:00Z")
    found = read_recording(recorder, options)
    assert found.trace.interval_s == 60
    assert found.trace.steps.tolist() == [0, 1, 2, *range(5, 60)]
    np.testing.assert_allclose(found.trace.readings[:3], 200.0)
    np.testing.assert_allclose(found.trace.readings[3:], 50.0)


def test_sensors_are_listed(recorder):
    with pytest.raises(DataError, match=r"holds 4 sensors.*sensor\.grid_import \(kWh\), sensor"):
        read_meter(recorder)
    with pytest.raises(DataError, match=r"no sensor 'x' \(found: sensor\.grid_import"):
        read_meter(recorder, meter="x")
    with pytest.raises(DataError, match=r"only statistics of sensor\.plug_power"):
        read_meter(recorder, meter="sensor.plug_power", reading_length="10s")


def test_a_single_sensor_needs_no_name(recorder):
    with changing(recorder) as database:
        database.execute("DELETE FROM statistics_meta WHERE id = 2")
        database.execute("DELETE FROM states")
    assert len(read_meter(recorder)) == 9
    with changing(recorder) as database:
        database.execute("DELETE FROM statistics_meta WHERE id = 1")
    with pytest.raises(DataError, match=r"no sensor of electricity drawn \(found: sensor\.solar"):
        read_meter(recorder)


def test_older_recorders_have_text_times(recorder):
    with changing(recorder) as database:
        database.execute("UPDATE statistics SET start = datetime(start_ts, 'unixepoch')")
        database.execute("ALTER TABLE statistics DROP COLUMN start_ts")
    assert len(read_meter(recorder, meter="sensor.grid_import")) == 9


def test_the_file_is_not_changed_and_may_be_packed_or_in_use(recorder):
    before = recorder.read_bytes()
    wanted = read_meter(recorder, meter="sensor.grid_import")
    assert recorder.read_bytes() == before
    packed = recorder.with_suffix(".gz")
    packed.write_bytes(gzip.compress(before))
    assert len(read_meter(packed, meter="sensor.grid_import")) == len(wanted)
    writer = sqlite3.connect(recorder)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("DELETE FROM statistics_meta WHERE id = 4")
    assert len(read_meter(recorder, meter="sensor.grid_import")) == len(wanted)
    writer.commit()
    writer.close()
    data = recorder.read_bytes()
    found = read_bytes(data, "upload", ReadOptions(meter="sensor.grid_import"))
    np.testing.assert_array_equal(found.trace.readings, wanted.readings)


def test_two_tariffs_of_domoticz(domoticz):
    options = ReadOptions(meter="Smart meter", tz="Europe/Amsterdam")
    found = read_recording(domoticz, options)
    assert found.format == "Domoticz (SQLite)"
    assert found.trace.interval_s == 300
    assert str(found.trace.start) == "2024-03-29T23:00:00.000000000"
    np.testing.assert_allclose(found.trace.readings, 25 * 12.0)


def test_days_of_domoticz(domoticz):
    days = read_meter(domoticz, meter="1", tz="Europe/Amsterdam", reading_length="1d")
    assert days.interval_s == 86_400
    assert len(days) == 4
    assert days.energy_kwh == pytest.approx(48.0)
    plug = read_meter(domoticz, meter="Plug", tz="Europe/Amsterdam", reading_length="1d")
    assert plug.energy_kwh == pytest.approx(9.6)


def test_counters_of_domoticz_and_their_divider(domoticz):
    plug = read_meter(domoticz, meter="2", tz="Europe/Amsterdam")
    np.testing.assert_allclose(plug.readings, 120.0)
    old = read_meter(domoticz, meter="Old counter", tz="Europe/Amsterdam")
    np.testing.assert_allclose(old.readings, 8 * 12 * 0.5)


def test_what_domoticz_leaves_open_is_asked_for(domoticz):
    with pytest.raises(DataError, match=r"holds 3 sensors.*Old counter \(ID 5\), Plug \(ID 2\)"):
        read_meter(domoticz)
    with pytest.raises(DataError, match="state their zone, such as `tz="):
        read_meter(domoticz, meter="Plug")
    with pytest.raises(DataError, match="no sensor 'Panels'"):
        read_meter(domoticz, meter="Panels", tz="Europe/Amsterdam")
    with pytest.raises(DataError, match="no rows of Old counter in Meter_Calendar"):
        read_meter(domoticz, meter="5", tz="Europe/Amsterdam", reading_length="1d")


def test_two_devices_of_one_name_are_distinguished_by_their_number(domoticz):
    with changing(domoticz) as database:
        database.execute("UPDATE DeviceStatus SET Name = 'Plug' WHERE ID = 5")
    with pytest.raises(DataError, match="holds 2 sensors named 'Plug'"):
        read_meter(domoticz, meter="Plug", tz="Europe/Amsterdam")
    assert len(read_meter(domoticz, meter="5", tz="Europe/Amsterdam")) == 23


def test_the_hour_that_occurs_twice_is_resolved(domoticz):
    clocks = [f"2024-10-27 02:{m:02d}:00" for m in range(0, 60, 5)] * 2 + ["2024-10-27 03:00:00"]
    with changing(domoticz) as database:
        database.execute("DELETE FROM Meter")
        rows = [(2, 10 * k, clock) for k, clock in enumerate(clocks)]
        database.executemany("INSERT INTO Meter (DeviceRowID, Value, Date) VALUES (?, ?, ?)", rows)
    found = read_meter(domoticz, meter="Plug", tz="Europe/Amsterdam")
    assert len(found) == 24
    np.testing.assert_allclose(found.readings, 120.0)


def test_nothing_public_depends_on_values(recorder, domoticz):
    def public(path, options):
        facts = read_recording(path, options).public
        return (facts.start, facts.end, facts.interval_s, facts.notes, facts.metering), facts.steps

    grid = ReadOptions(meter="sensor.grid_import")
    smart = ReadOptions(meter="Smart meter", tz="Europe/Amsterdam")
    before = public(recorder, grid), public(domoticz, smart)
    with changing(recorder) as database:
        database.execute("UPDATE statistics SET sum = sum + abs(random() % 7) + start_ts / 90")
    with changing(domoticz) as database:
        database.execute("UPDATE MultiMeter SET Value1 = Value1 * 3 + rowid * 400, Value3 = 9")
    after = public(recorder, grid), public(domoticz, smart)
    for (facts, steps), (others, other_steps) in zip(before, after, strict=True):
        assert facts == others
        np.testing.assert_array_equal(steps, other_steps)


def test_other_and_damaged_data_bases_are_refused(tmp_path, recorder):
    other = make(tmp_path / "other.db", "CREATE TABLE readings (a, b);", {})
    with pytest.raises(DataError, match=r"neither of Home Assistant nor of Domoticz \(tables: rea"):
        read_meter(other)
    data = bytearray(recorder.read_bytes())
    data[4096:8192] = bytes(4096)
    with pytest.raises(DataError, match=r"is no readable SQLite data base"):
        read_bytes(bytes(data), "torn")
    with pytest.raises(DataError, match="is no readable SQLite data base"):
        read_bytes(bytes(data[:3000]), "torn")


def test_a_view_is_never_asked(tmp_path):
    endless = (
        "CREATE VIEW statistics AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "
        "SELECT x FROM n; CREATE VIEW statistics_meta AS SELECT * FROM statistics;"
    )
    path = make(tmp_path / "view.db", endless, {})
    with pytest.raises(DataError, match="statistics is a view or a virtual table"):
        read_meter(path)
