from __future__ import annotations

import numpy as np
import pytest

from hushmeter.errors import DataError, InputError
from hushmeter.read import ReadOptions, read_meter, read_recording


def test_octopus_over_the_end_of_summer_time(samples, save):
    found = read_recording(save(samples.octopus()))
    assert found.format == "Octopus half-hourly CSV"
    assert found.trace.interval_s == 1800
    assert found.gaps == 0
    assert found.trace.start == np.datetime64("2023-10-29T00:00")
    np.testing.assert_allclose(found.trace.readings, 2.0 * np.arange(1, 9))


def test_n3rgy_stamps_the_end(samples, save):
    trace = read_meter(save(samples.n3rgy()))
    assert trace.start == np.datetime64("2023-01-01T00:00")
    np.testing.assert_allclose(trace.readings, 200.0 * np.arange(1, 7))
    gas = samples.n3rgy().replace(b"(kWh)", b"(m3)")
    with pytest.raises(DataError, match="a gas export"):
        read_meter(save(gas))


@pytest.mark.parametrize(
    ("kind", "factor"),
    [("Active Import Interval (kW)", 1000.0), ("Active Import Interval (kWh)", 2000.0)],
)
def test_esb_local_end_stamps_newest_first(samples, save, kind, factor):
    found = read_recording(save(samples.esb(kind)))
    assert len(found.trace) == 96
    assert (found.gaps, found.duplicates, found.reversed) == (0, 0, 0)
    assert found.trace.start == np.datetime64("2023-10-28T12:00")
    np.testing.assert_allclose(found.trace.readings, factor * (0.5 + 0.01 * np.arange(96)))
    assert "in an hour that the clock shows twice" in found.clock_changes
    assert any("Export" in note for note in found.notes)


def test_the_skipped_hour_is_one_hour_short(save):
    rows = "".join(f"2024-03-31 {h:02d}:{m:02d},1\n" for h in (0, 2, 3) for m in (0, 30))
    found = read_recording(
        save(("time,kWh\n" + rows).encode()), ReadOptions(tz="Europe/London", unit="kWh")
    )
    assert found.gaps == 0
    assert found.trace.interval_s == 1800


def test_any_table_with_options(save):
    rows = ("When;Usage;Note", "31/01/2024 00:30;0,25;a", "31/01/2024 01:00;0,5;b",
            "31/01/2024 01:30;1,0;c", "")  # fmt: skip
    text = "\n".join(rows).encode()
    options = {"time_column": "when", "value_column": "Usage", "unit": "kWh"}
    trace = read_meter(save(text), **options, stamp="end", tz="Europe/Madrid")
    assert trace.start == np.datetime64("2024-01-30T23:00")
    np.testing.assert_allclose(trace.readings, [500, 1000, 2000])
    with pytest.raises(DataError, match=r"without a zone.*--tz"):
        read_meter(save(text), **options)
    with pytest.raises(InputError, match="has no column 'Use'"):
        read_meter(save(text), value_column="Use", time_column="When")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unit": "BTU"}, "unit must be one of"),
        ({"stamp": "middle"}, "stamp must be one of"),
        ({"tz": "Mars/Olympus"}, "tz must be a time zone"),
    ],
)
def test_wrong_options_are_refused(samples, save, options, message):
    with pytest.raises(InputError, match=message):
        read_meter(save(samples.plain_csv()), **options)


def test_lines_above_the_header_and_units_in_names(save):
    head = "Name,Somebody\n\nDate and more\ntimestamp,Usage (kWh)\n"
    rows = "".join(f"2024-01-01T{hour:02d}:00Z,{min(hour + 1, 2)}\n" for hour in range(3))
    text = (head + rows).encode()
    np.testing.assert_allclose(read_meter(save(text)).readings, [1000, 2000, 2000])


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1", "utf-8-sig"])
def test_encodings(save, encoding):
    text = "timestamp,watts,Küche\n1,5,1\n2,6,2\n".encode(encoding)
    trace = read_meter(save(text))
    assert trace.names == ("Küche",)
    assert trace.readings.tolist() == [5.0, 6.0]


def test_milliseconds_and_no_header(save):
    assert read_meter(save(b"timestamp,watts\n1700000000000,1\n1700000001000,2\n")).interval_s == 1
    bare = read_meter(save(b"1700000000 5.5\n1700000006 6.5\n1700000012 7\n", "channel_1.dat"))
    assert bare.interval_s == 6
    assert bare.readings.tolist() == [5.5, 6.5, 7.0]


def test_a_file_of_export_only_is_refused(samples, save):
    text = samples.esb().replace(b"Import", b"Export")
    with pytest.raises(DataError, match=r"an ESB file without import rows \(read types: Active Ex"):
        read_meter(save(text))
