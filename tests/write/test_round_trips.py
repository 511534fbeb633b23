"""Read → write → read: nothing moves, energy is kept to a millionth."""

from __future__ import annotations

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.errors import DataError, InputError


def make(length=300, interval_s=6.0, *, power=True):
    home = hm.synth.ready_home("evening")
    made = hm.synth.trace(home, length, 0.97, seed=4)
    steps = np.arange(length) + 7 * (np.arange(length) > 120)
    return hm.Trace(
        made.readings, interval_s, made.start, None, made.power if power else None,
        made.names if power else None, steps,
    )  # fmt: skip


def energy(trace):
    return trace.readings.sum() * trace.interval_s


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".h5", ".xml"])
def test_round_trip(tmp_path, suffix):
    if suffix == ".h5":
        pytest.importorskip("tables", reason="needs the extra nilmtk")
    trace, path = make(), tmp_path / f"meter{suffix}"
    hm.write_meter(path, trace)
    back = hm.read_meter(path)
    assert back.interval_s == trace.interval_s
    np.testing.assert_array_equal(back.times, trace.times)
    assert back.runs == trace.runs
    np.testing.assert_allclose(back.readings, trace.readings, rtol=1e-6, atol=1e-6)
    assert energy(back) == pytest.approx(energy(trace), rel=1e-6)
    if suffix != ".xml":
        back = hm.read_home_data(path)
        assert back.names == trace.names
        np.testing.assert_allclose(back.power, trace.power, rtol=1e-6)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".h5", ".xml"])
def test_files_are_kept_unless_forced_and_written_the_same_twice(tmp_path, suffix):
    if suffix == ".h5":
        pytest.importorskip("tables", reason="needs the extra nilmtk")
    trace, path = make(50, power=False), tmp_path / f"meter{suffix}"
    hm.write_meter(path, trace)
    first = path.read_bytes()
    with pytest.raises(DataError, match="exists"):
        hm.write_meter(path, trace)
    hm.write_meter(path, trace, force=True)
    if suffix != ".h5":
        assert path.read_bytes() == first
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_half_hours_and_negative_readings_as_green_button(tmp_path):
    readings = np.random.default_rng(0).normal(300, 400, 48 * 30)
    trace = hm.Trace(readings, 1800.0, "2024-01-01T00:00Z")
    hm.write_meter(tmp_path / "feed.xml", trace)
    back = hm.read_meter(tmp_path / "feed.xml")
    np.testing.assert_allclose(back.readings, readings, atol=1e-5)
    assert energy(back) == pytest.approx(energy(trace), rel=1e-6)


def test_another_tool_opens_our_green_button(tmp_path):
    pytest.importorskip("greenbutton_objects", reason="pip install greenbutton-objects")
    from greenbutton_objects import parse

    trace = make(20, 900.0, power=False)
    hm.write_meter(tmp_path / "feed.xml", trace)
    (point,) = parse.parse_feed(str(tmp_path / "feed.xml"))
    (meter,) = point.meterReadings
    found = sorted(
        (reading.timePeriod.start.timestamp(), reading.value) for reading in meter.intervalReadings
    )
    starts = trace.times.astype("datetime64[s]").astype(int)
    assert [round(start) for start, _ in found] == starts.tolist()
    # The multiplier is part of the value there.
    np.testing.assert_allclose([v for _, v in found], trace.readings / 4, rtol=1e-5)


def test_names_decide_and_odd_ones_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"must end in one of \.csv"):
        hm.write_meter(tmp_path / "meter.xlsx", make(10))
    with pytest.raises(InputError, match="whole seconds"):
        hm.write_meter(tmp_path / "meter.xml", hm.Trace([1.0, 2.0], 0.5))


@pytest.mark.parametrize("suffix", [".csv", ".hdf5"])
def test_appliances_without_names_are_numbered(tmp_path, suffix):
    if suffix == ".hdf5":
        pytest.importorskip("tables", reason="needs the extra nilmtk")
    trace = hm.Trace([5.0, 6.0, 7.0], 6.0, power=[[1.0, 2.0]] * 3)
    hm.write_meter(tmp_path / f"meter{suffix}", trace)
    back = hm.read_home_data(tmp_path / f"meter{suffix}")
    assert back.names == ("appliance_1", "appliance_2")
    np.testing.assert_allclose(back.power, trace.power)


def test_an_appliance_cannot_take_the_place_of_the_meter(tmp_path):
    trace = hm.Trace([5.0, 6.0, 7.0], 6.0, power=[[1.0]] * 3, names=["watts"])
    with pytest.raises(InputError, match="an appliance cannot be named 'watts'"):
        hm.write_meter(tmp_path / "meter.csv", trace)
    assert not list(tmp_path.iterdir())
