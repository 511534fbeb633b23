from __future__ import annotations

import numpy as np
import pytest

from hushmeter.errors import DataError
from hushmeter.read import ReadOptions, read_home_data, read_meter, read_recording


def test_the_energy_download_has_meter_and_devices(samples, save):
    found = read_recording(save(samples.ha_energy()))
    assert found.format == "Home Assistant energy CSV"
    assert found.public.gaps == 1
    np.testing.assert_allclose(found.trace.readings, [600, 500, 700, 700, 1000])
    assert found.trace.names == ("fridge", "kettle")
    np.testing.assert_allclose(found.trace.power[:, 1], [0, 200, 0, 200, 0])
    assert any("solar_production" in note for note in found.notes)
    assert read_home_data(save(samples.ha_energy())).names == ("fridge", "kettle")


def test_without_a_grid_row_the_devices_are_summed(samples, save):
    text = samples.ha_energy().replace(b"grid_consumption", b"gas_consumption")
    found = read_recording(save(text))
    np.testing.assert_allclose(found.trace.readings, [100, 200, 100, 0, 300, 0])
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
    found = read_recording(save(samples.ha_history()))
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
    trace = read_meter(save(("entity_id,state,last_changed\n" + rows).encode()))
    np.testing.assert_allclose(trace.readings, 60.0, rtol=1e-6)


def test_several_entities_must_be_told_apart(samples, save):
    text = samples.ha_history() + samples.ha_history().split(b"\n", 1)[1].replace(b"meter_", b"b_")
    with pytest.raises(DataError, match=r"has 2 entities.*--value-column"):
        read_meter(save(text))
    chosen = read_recording(save(text), ReadOptions(value_column="sensor.b_power"))
    assert len(chosen.trace) > 3
    words = b"entity_id,state,last_changed\nsensor.x,on,2024-01-01T00:00:00Z\n"
    with pytest.raises(DataError, match="no entity with numbers"):
        read_meter(save(words))


@pytest.mark.parametrize(
    ("entity", "unit"),
    [
        ("sensor.energy_meter_power", "W"),
        ("sensor.power_meter_energy", "kWh"),
        ("sensor.power_consumption_kw", "kW"),
        ("sensor.house_kwh", "kWh"),
        ("sensor.shelly", "W"),
    ],
)
def test_the_unit_is_told_by_the_last_word_that_tells(entity, unit, samples, save):
    text = samples.ha_history().replace(b"sensor.meter_power", entity.encode())
    assert read_recording(save(text)).unit == unit


def changes(*rows, entity="sensor.meter_power"):
    lines = [f"{entity},{state},{when}" for when, state in rows]
    return "\n".join(["entity_id,state,last_changed", *lines]).encode()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ((("2024-01-01T00:00:00Z", 5),), "has a single change of state"),
        ((("1960-01-01T00:00:00Z", 5), ("2024-01-01T00:00:00Z", 6)), "outside 1970"),
        ((("2024-01-01T00:00:00Z", 5), ("2024-01-01T00:01:00Z", 1e13)), "beyond 1e12"),
        ((("2024-01-01T00:20:00Z", 5), ("2024-01-01T02:20:00Z", 6)), "no stretch of 3600 s"),
    ],
)
def test_histories_that_cannot_be_used(rows, message, save):
    with pytest.raises(DataError, match=message):
        read_meter(save(changes(*rows)))


def test_a_history_longer_than_memory_is_refused(save, monkeypatch):
    monkeypatch.setattr("hushmeter.read.home_assistant.MAX_CELLS", 10)
    rows = [(f"2024-01-01T00:00:{s:02d}Z", s) for s in range(30)]
    with pytest.raises(DataError, match="would give more than 10 cells of 1 s"):
        read_meter(save(changes(*rows)))


def test_an_entity_that_is_not_there_and_a_table_without_times(samples, save):
    with pytest.raises(DataError, match=r"no entity 'sensor.x': sensor.meter_power"):
        read_meter(save(samples.ha_history()), value_column="sensor.x")
    with pytest.raises(DataError, match="no time columns after entity_id, type, unit"):
        read_meter(save(b"entity_id,type,unit\nsensor.a,grid_consumption,kWh\n"))


def test_a_field_without_end_is_refused(samples, save):
    long = samples.ha_history() + b'"' + b"x" * (1 << 21)
    with pytest.raises(DataError, match="is no CSV: field larger than field limit"):
        read_meter(save(long))
