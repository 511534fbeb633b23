"""From raw times to a grid: what is a gap, what is jitter, how long an interval is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hushmeter.clock import SECOND
from hushmeter.errors import DataError
from hushmeter.read import ReadOptions, read_recording
from hushmeter.read.recording import Series, Task
from hushmeter.read.regular_times import assemble

PATH = Path("file")


def series(seconds, **fields):
    times = np.rint(np.asarray(seconds) * SECOND).astype(np.int64) + 1_700_000_000 * SECOND
    values = fields.pop("values", np.full(times.size, 5.0))
    return Series(times, values, "test", **fields)


def put(found):
    return assemble(Task(PATH), found)


def test_of_two_middle_steps_far_apart_the_shorter_is_the_interval():
    found = put(series([0, 3600, 90_000]))
    assert found.trace.interval_s == 3600
    assert found.public.gaps == 1


def test_middle_steps_that_are_alike_are_averaged():
    assert put(series([0, 6, 13])).trace.interval_s == 6.5


def test_a_reading_is_never_copied_into_a_second_interval():
    """Steps of 8, 8 and 5 s: an interval without a row of its own is a gap."""
    seconds = 7 * np.arange(300) + np.arange(300) % 3
    values = np.arange(300.0)
    found = put(series(seconds, values=values))
    assert found.trace.interval_s == 8
    assert len(np.unique(found.trace.readings)) == len(found.trace)
    assert found.trace.metering.copies == 1
    assert any(note.startswith("Times are uneven") for note in found.notes)


def test_a_missing_reading_is_a_gap():
    seconds = np.delete(6 * np.arange(50), 20)
    assert put(series(seconds)).public.gaps == 1


def test_a_row_of_a_whole_day_among_quarters_is_no_gap():
    """No other row holds its energy, so that leaving it out would lose more than is allowed."""
    lengths = np.array([900.0] * 8 + [86_400.0] + [900.0] * 8)
    starts = np.cumsum(lengths) - lengths
    with pytest.raises(DataError, match=r"1 of 17 rows with 85\.7% of the values would"):
        put(series(starts, values=lengths, unit="Wh", energy=True, durations=lengths))


def test_totals_over_the_same_time_are_left_out():
    starts = np.append(900.0 * np.arange(96), 0.0)
    for length in (7200.0, 86_400.0):
        found = put(series(starts, durations=np.append(np.full(96, 900.0), length)))
        assert len(found.trace) == 96
        assert "1 row of another length than 15 min was left out." in found.notes


def test_two_lengths_side_by_side_are_refused():
    lengths = np.array([900.0] * 4 + [3600.0] * 2)
    starts = np.cumsum(lengths) - lengths
    with pytest.raises(DataError, match=r"readings of 15 min and of 1 h.*`reading_length=15min`"):
        put(series(starts, durations=lengths))


def test_hours_that_end_at_59_are_hours():
    starts = 3600.0 * np.arange(48)
    found = put(series(starts, durations=np.full(48, 3540.0), unit="Wh", energy=True))
    assert found.trace.interval_s == 3600
    np.testing.assert_allclose(found.trace.readings, 5.0)


def test_rows_that_repeat_a_time_must_agree():
    seconds = np.append(60.0 * np.arange(200), 600.0)
    found = put(series(seconds, values=np.full(201, 5.0)))
    assert found.trace.readings.tolist() == [5.0] * 200
    assert (found.public.duplicates, found.public.gaps) == (1, 0)
    with pytest.raises(DataError, match="several different values for one time"):
        put(series(seconds, values=np.append(np.full(200, 5.0), 900.0)))
    twice = np.concatenate([60.0 * np.arange(20)] * 2)
    assert len(put(series(twice)).trace) == 20
    with pytest.raises(DataError, match="several different values for one time"):
        put(series(twice, values=np.arange(40.0)))
    last = put(series(twice, values=np.arange(40.0), repeats="last"))
    assert last.trace.readings.tolist() == list(range(20, 40))


@pytest.mark.parametrize("seconds", [[0, 2.6e6, 5.3e6, 7.9e6], [0, 7e4, 9e5, 1.1e6, 3e6]])
def test_bills_and_readings_by_hand_are_refused(seconds):
    with pytest.raises(DataError, match=r"days long|follow no interval"):
        put(series(seconds))


def test_steps_of_the_meter_become_public_facts():
    hourly = 3600.0 * np.arange(5)
    counter = put(
        series(hourly, values=np.arange(5.0), unit="kWh", factor=1000.0, energy=True,
               counter=True, step=0.001))  # fmt: skip
    assert counter.trace.metering.register_step_w == pytest.approx(1.0)
    unknown = put(
        series(hourly, values=np.arange(5.0), unit="kWh", factor=1000.0, energy=True, counter=True),
    )
    assert unknown.trace.metering.register_step_w == pytest.approx(1000.0)
    plain = put(series(hourly, unit="kW", factor=1000.0, step=0.01))
    assert plain.trace.metering.resolution_w == pytest.approx(10.0)


def test_nothing_is_not_a_trace():
    with pytest.raises(DataError, match=r"\(test\) holds no readings: check that the export"):
        put(series([]))
    with pytest.raises(DataError, match="at least two readings"):
        put(series([0]))


def register(values, seconds=None, name="meterstand kWh"):
    seconds = 900 * np.arange(len(values)) if seconds is None else seconds
    rows = (f"{1_704_067_200 + s},{v:.3f}" for s, v in zip(seconds, values, strict=True))
    return "\n".join([f"timestamp,{name}", *rows]).encode()


@pytest.mark.parametrize("name", ["meterstand kWh", "Zählerstand (kWh)", "kWh.last", "1.8.0 kWh"])
def test_a_header_that_names_a_counter(save, name):
    found = read_recording(save(register(5678 + 0.1 * np.arange(96), name=name)))
    np.testing.assert_allclose(found.trace.readings, 400.0)
    assert len(found.trace) == 95
    assert found.trace.start == np.datetime64("2024-01-01")
    assert "The values are those of a counter: differences were taken." in found.notes


def test_newest_first(save):
    data = register(5678 + 0.1 * np.arange(96)).split(b"\n")
    text = b"\n".join([data[0], *data[:0:-1]])
    np.testing.assert_allclose(read_recording(save(text)).trace.readings, 400.0)


def test_a_pause_of_a_counter_is_a_gap(save):
    seconds = 900 * (np.arange(150) + 10 * (np.arange(150) > 120))
    found = read_recording(save(register(0.1 * np.arange(150), seconds)))
    np.testing.assert_allclose(found.trace.readings, 400.0)
    assert found.public.gaps == 1
    assert any("without 1 pauses" in note for note in found.notes)


def test_a_counter_that_falls_is_refused(save):
    values = 0.1 * np.concatenate([np.arange(9000, 9100), np.arange(50)])
    with pytest.raises(
        DataError, match=r"near zero, first at 2024-01-02T01:00:00Z.*cut the file there"
    ):
        read_recording(save(register(values)))


def test_uneven_times_keep_the_power(save):
    seconds = np.cumsum(np.tile([880, 920], 40))
    values = 100 + 0.0001 * seconds
    options = ReadOptions(unit="kWh", counter="yes")
    found = read_recording(save(register(values, seconds, "kWh")), options)
    np.testing.assert_allclose(found.trace.readings, 360.0, rtol=2e-3)


@pytest.mark.parametrize("name", ["kWh", "total kWh", "value"])
def test_what_only_rises_must_be_stated(save, name):
    path = save(register(5678 + 0.1 * np.arange(96), name=name))
    with pytest.raises(DataError, match=r"only rises, as the counter.*`counter=yes`"):
        read_recording(path, ReadOptions(unit="kWh"))
    found = read_recording(path, ReadOptions(unit="kWh", counter="yes"))
    np.testing.assert_allclose(found.trace.readings, 400.0)


def test_one_changed_reading_never_turns_energies_into_a_counter(save, rng):
    values = rng.gamma(2.0, 0.2, 200)
    found = read_recording(save(register(values, name="kWh")))
    assert len(found.trace) == 200
    assert found.trace.metering.register_step_w == 0


def test_power_is_never_a_register(save):
    found = read_recording(save(register(np.arange(100.0, 200.0), name="watts")))
    np.testing.assert_allclose(found.trace.readings, np.arange(100.0, 200.0))


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


def test_a_late_logger_keeps_its_interval():
    """Random delays move the median off 60 s; the interval decides the sensitivity."""
    from hushmeter.read import ReadOptions, read_bytes

    rng = np.random.default_rng(3)
    late = 1_700_000_000 + 60 * np.arange(400) + np.round(rng.uniform(0.2, 4.0, 400), 1)
    rows = "".join(f"{t:.1f},{100 + i % 7}\n" for i, t in enumerate(late))
    recording = read_bytes(f"timestamp,watts\n{rows}".encode(), "meter.csv", ReadOptions())
    assert recording.trace.interval_s == 60.0
    drift = 1_700_000_000 + 60.3 * np.arange(400)
    rows = "".join(f"{t:.1f},{100 + i % 7}\n" for i, t in enumerate(drift))
    recording = read_bytes(f"timestamp,watts\n{rows}".encode(), "meter.csv", ReadOptions())
    assert recording.trace.interval_s == 60.3


def test_sessions_at_any_time_have_no_stated_length():
    """The share of times that fall near a multiple of the stated length may be large by chance."""
    seconds = np.cumsum(np.tile([7.1, 16.0, 10.0, 3.9, 9.9, 14.0], 12)) * 3600
    sessions = series(seconds, values=np.full(72, 12.0), unit="kWh", factor=1000.0, energy=True)
    with pytest.raises(DataError, match="follow no interval"):
        assemble(Task(PATH, ReadOptions(reading_length="1h")), sessions)
