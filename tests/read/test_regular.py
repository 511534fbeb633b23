"""From raw times to a grid: what is a gap, what is jitter, how long an interval is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hushmeter.errors import DataError
from hushmeter.read import ReadOptions, read_recording
from hushmeter.read.recording import Series
from hushmeter.read.regular import SECOND, assemble, counts_up

PATH = Path("file")


def series(seconds, **fields):
    times = np.rint(np.asarray(seconds) * SECOND).astype(np.int64) + 1_700_000_000 * SECOND
    values = fields.pop("values", np.full(times.size, 5.0))
    return Series(times, values, "test", **fields)


def test_of_two_middle_steps_far_apart_the_shorter_is_the_interval():
    found = assemble(series([0, 3600, 90_000]), PATH)
    assert found.trace.interval_s == 3600
    assert found.gaps == 1


def test_middle_steps_that_are_alike_are_averaged():
    assert assemble(series([0, 6, 13]), PATH).trace.interval_s == 6.5


def test_a_clock_that_drifts_leaves_no_gap():
    """Steps of 8, 8 and 5 s on a grid of 8 s: cells are passed over without a reading missing."""
    seconds = 7 * np.arange(300) + np.arange(300) % 3
    found = assemble(series(seconds), PATH)
    assert found.trace.interval_s == 8
    assert found.gaps == 0
    assert abs(len(found.trace) * 8 - 2100) <= 16


def test_a_missing_reading_is_a_gap():
    seconds = np.delete(6 * np.arange(50), 20)
    assert assemble(series(seconds), PATH).gaps == 1


def test_an_interval_of_several_lengths_fills_its_cells():
    lengths = np.array([900.0] * 4 + [3600.0] * 2 + [900.0] * 4)
    starts = np.cumsum(lengths) - lengths
    found = assemble(
        series(starts, values=lengths, unit="Wh", energy=True, durations=lengths), PATH
    )
    assert found.trace.interval_s == 900
    assert found.gaps == 0
    np.testing.assert_allclose(found.trace.readings, np.full(16, 3600.0))


def test_nothing_is_not_a_trace():
    with pytest.raises(DataError, match=r"\(test\) holds no readings: check that the export"):
        assemble(series([]), PATH)
    with pytest.raises(DataError, match="give at least two"):
        assemble(series([0]), PATH)


def register(values, seconds=None, name="total kWh"):
    seconds = 900 * np.arange(len(values)) if seconds is None else seconds
    rows = (f"{1_704_067_200 + s},{v:.3f}" for s, v in zip(seconds, values, strict=True))
    return "\n".join([f"timestamp,{name}", *rows]).encode()


def test_differences_are_taken_and_said(save):
    found = read_recording(save(register(5678 + 0.1 * np.arange(96))))
    np.testing.assert_allclose(found.trace.readings, 400.0)
    assert len(found.trace) == 95
    assert found.trace.start == np.datetime64("2024-01-01")
    assert "The values count up (kWh): differences were taken." in found.notes


def test_newest_first(save):
    data = register(5678 + 0.1 * np.arange(96)).split(b"\n")
    text = b"\n".join([data[0], *data[:0:-1]])
    found = read_recording(save(text), ReadOptions(repeats="last"))
    np.testing.assert_allclose(found.trace.readings, 400.0)


def test_a_reset_and_a_pause_are_gaps(save):
    values = 0.1 * np.concatenate([np.arange(9000, 9100), np.arange(50)])
    seconds = 900 * (np.arange(150) + 10 * (np.arange(150) > 120))
    found = read_recording(save(register(values, seconds)))
    np.testing.assert_allclose(found.trace.readings, 400.0)
    assert found.gaps == 2
    assert any("without 2 resets or pauses" in note for note in found.notes)


def test_uneven_times_keep_the_power(save):
    seconds = np.cumsum(np.tile([880, 920], 40))
    values = 100 + 0.0001 * seconds
    found = read_recording(save(register(values, seconds, "Wh")), ReadOptions(unit="kWh"))
    np.testing.assert_allclose(found.trace.readings, 360.0, rtol=2e-3)


def test_appliances_are_differenced_too(save):
    rows = "\n".join(f"{1_704_067_200 + 900 * i},{50 + i},{7 + 0.5 * i}" for i in range(40))
    trace = read_recording(save(f"timestamp,total kWh,fridge\n{rows}".encode())).trace
    np.testing.assert_allclose(trace.readings, 4000.0)
    np.testing.assert_allclose(trace.power[:, 0], 2000.0)


@pytest.mark.parametrize("unit", ["W", "kWh"])
def test_what_rises_and_falls_is_no_register(save, rng, unit):
    values = rng.gamma(2.0, 0.2, 200)
    found = read_recording(save(register(values)), ReadOptions(unit=unit))
    assert len(found.trace) == 200
    assert not any("count up" in note for note in found.notes)


def test_power_is_never_a_register(save):
    found = read_recording(save(register(np.arange(100.0, 200.0), name="watts")))
    np.testing.assert_allclose(found.trace.readings, np.arange(100.0, 200.0))


def test_counting_up_needs_many_rises():
    assert counts_up(np.arange(21.0))
    assert not counts_up(np.arange(20.0))
    assert not counts_up(np.ones(100))
    assert counts_up(np.concatenate([np.arange(30.0), np.arange(30.0)]))
    assert not counts_up(np.tile(np.arange(10.0), 10))


def homewizard(count=4):
    lines = ["time,Import T1 kWh,Import T2 kWh,Export T1 kWh,Export T2 kWh,L1 max W"]
    for i in range(count):
        low, normal = 1000 + 0.1 * min(i, 2), 2000 + 0.1 * max(i - 2, 0)
        lines.append(f"2024-01-01 0{i // 4}:{15 * (i % 4):02d},{low:.3f},{normal:.3f},5,6,700")
    return "\n".join(lines).encode()


def test_homewizard_adds_its_tariffs(save):
    found = read_recording(save(homewizard()))
    assert found.format == "HomeWizard P1 CSV"
    np.testing.assert_allclose(found.trace.readings, 400.0)
    assert found.trace.start == np.datetime64("2023-12-31T23:00")
    assert found.trace.power is None
