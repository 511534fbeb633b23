from __future__ import annotations

import numpy as np
import pytest

from hushmeter.errors import DataError
from hushmeter.read import (
    ReadOptions,
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
        (b"0.5", b"half", "'half', not a number"),
        (b"2024-01-01T00:00:00.000Z", b"2024-01-01T00:00:00", "carries no zone"),
        (b"2024-01-01T00:00:00.000Z", b"noon", "'noon' is not a time"),
    ],
)
def test_broken_energy_downloads(samples, save, old, new, message):
    with pytest.raises(DataError, match=message):
        read_meter(save(samples.ha_energy().replace(old, new)))


def test_history_keeps_the_energy_of_every_cell(samples, save):
    options = ReadOptions(reading_length="10s", until="2024-01-01T00:02:00Z")
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
    options = ReadOptions(until="2024-01-02T00:00:00Z")
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
    trace = read_meter(save(changes(*rows, entity="sensor.energy")), until="2024-01-01T03:00:00Z")
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
    monkeypatch.setattr("hushmeter.read.home_assistant.MAX_CELLS", 10)
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
