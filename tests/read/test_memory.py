"""A file that is only in memory reads as the same file on disk, and no larger than allowed."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushmeter.errors import DataError
from hushmeter.read import read_bytes, read_recording
from hushmeter.read.memory import MemoryFile, arrow_source


def packed(**columns) -> bytes:
    target = io.BytesIO()
    pq.write_table(pa.table({"timestamp": range(60, 960, 60), **columns}), target)
    return target.getvalue()


@pytest.mark.parametrize(
    "maker", ["plain_csv", "octopus", "ha_energy", "ha_history", "dsmr", "green_button", "parquet"]
)
def test_memory_and_disk_agree(samples, save, maker):
    data = getattr(samples, maker)()
    for body in (data, samples.zipped(data)) if maker != "parquet" else (data,):
        kept = read_bytes(body, "upload")
        stored = read_recording(save(body))
        np.testing.assert_array_equal(kept.trace.readings, stored.trace.readings)
        np.testing.assert_array_equal(kept.trace.times, stored.trace.times)
        assert (kept.format, kept.notes) == (stored.format, stored.notes)


def test_hdf5_is_read_from_memory(tmp_path):
    pytest.importorskip("tables", reason="needs the extra nilmtk")
    import hushmeter as hm

    trace = hm.synth.trace(hm.synth.ready_home("evening"), 50, seed=1)
    hm.write_meter(tmp_path / "home.h5", trace)
    data = (tmp_path / "home.h5").read_bytes()
    np.testing.assert_allclose(read_bytes(data, "home.h5").trace.readings, trace.readings)
    with pytest.raises(DataError, match="at most 100 values are taken"):
        read_bytes(data, "home.h5", most_values=100)


def test_no_reader_gets_at_a_path(tmp_path):
    file = MemoryFile("upload.csv", b"data")
    assert str(file) == "upload.csv"
    with pytest.raises(DataError, match=r"upload\.csv is only in memory"):
        open(file)  # noqa: PTH123, SIM115
    assert arrow_source(tmp_path) == tmp_path


def test_more_values_than_allowed_are_not_unpacked():
    data = packed(watts=np.ones(15))
    assert len(read_bytes(data, "a.parquet", most_values=30).trace) == 15
    with pytest.raises(DataError, match="15 rows of 2 columns, and at most 29 values"):
        read_bytes(data, "a.parquet", most_values=29)


def test_a_long_word_in_every_row_is_not_unpacked():
    words = pa.array(["x" * 10_000] * 15)
    with pytest.raises(DataError, match="at most 1000 values are taken"):
        read_bytes(packed(watts=np.ones(15), note=words), "a.parquet", most_values=1000)


@pytest.mark.parametrize("dictionary", [True, False])
def test_packed_columns_are_plain_values(save, dictionary):
    times = pa.array([f"2024-01-01T00:{i:02d}:00Z" for i in range(15)])
    watts = pa.array([100, 200, 300] * 5)
    if dictionary:
        times, watts = times.dictionary_encode(), watts.dictionary_encode()
    target = io.BytesIO()
    pq.write_table(pa.table({"timestamp": times, "watts": watts}), target)
    kept = read_bytes(target.getvalue(), "a.parquet", most_values=1000).trace
    assert kept.readings[:3].tolist() == [100.0, 200.0, 300.0]
    np.testing.assert_array_equal(read_recording(save(target.getvalue())).trace.times, kept.times)


def test_decimal_numbers_are_numbers(save):
    watts = pa.array([100, 200, 300] * 5).cast(pa.decimal128(21, 2))
    assert read_recording(save(packed(watts=watts))).trace.readings[1] == 200.0
