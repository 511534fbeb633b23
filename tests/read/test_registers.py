"""Meters that count up: the energy between two times, not what the register shows."""

from __future__ import annotations

import numpy as np
import pytest

from hushmeter.read import ReadOptions, read_recording
from hushmeter.read.registers import counts_up


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
