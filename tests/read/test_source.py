"""A file that is only in memory reads as the same file on disk, and no larger than allowed."""

from __future__ import annotations

import gzip
import io
import tarfile
import tracemalloc
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.read.spreadsheets import xlsx_bytes

from hushmeter.errors import DataError, InputError, TooLargeError
from hushmeter.read import (
    ReadOptions,
    read_bytes,
    read_home_bytes,
    read_meter,
    read_recording,
)
from hushmeter.read.source import MemoryFile, arrow_source, explain


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
        read_home_bytes(data, "home.h5", most_values=100)


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


def tar(data: bytes) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        entry = tarfile.TarInfo("meter.csv")
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return target.getvalue()


@pytest.mark.parametrize(
    ("head", "sentence"),
    [
        (b"PK\x03\x04", "an archive that cannot be read"),
        (b"%PDF-1.7", "a PDF: download"),
        (b"\xd0\xcf\x11\xe0", "cannot be read as an Excel workbook"),
        (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
        (b"BZh91AY", "a bzip2 archive: unpack it"),
        (b"\xfd7zXZ\x00", "an xz archive: unpack it"),
        (b"\x28\xb5\x2f\xfd", "a zstd archive: unpack it"),
        (b"SQLite format 3\x00", "no readable SQLite data base"),
        (b"<!DOCTYPE html><html>", "a web page, maybe a sign-in: download the file itself"),
        (b"\n<HTML lang='en'>", "a web page"),
        (b"[1, 2]", "not well-formed JSON"),
    ],
)
def test_files_that_hold_no_readings(save, head, sentence):
    with pytest.raises(DataError, match=sentence) as caught:
        read_meter(save(head + b" and more" * 40))
    assert "\n" not in str(caught.value)


def test_a_tar_is_recognised_also_inside_gzip(samples, save):
    for data in (tar(samples.plain_csv()), samples.zipped(tar(samples.plain_csv()))):
        with pytest.raises(DataError, match="is a tar archive: unpack it"):
            read_meter(save(data))


def test_standard_input(samples, monkeypatch):
    import io
    from types import SimpleNamespace

    from hushmeter.read import read_meter

    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(samples.plain_csv())))
    assert len(read_meter("-")) == 40


METER = b"timestamp,watts\n2024-01-01T00:00Z,100\n2024-01-01T00:01Z,200\n"


def zipped(**files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name.replace("__", "."), data)
    return out.getvalue()


def test_the_only_meter_file_of_an_archive_is_read():
    data = zipped(readme__txt=b"hello", export__csv=METER, page__html=b"<html>")
    assert read_bytes(data, "data.zip").watts.tolist() == [100.0, 200.0]
    data = zipped(gas_interval__csv=b"x", electric_interval__csv=METER)
    assert read_bytes(data, "data.zip").watts.tolist() == [100.0, 200.0]


def test_a_workbook_in_an_archive_is_read():
    rows = [["Time", "watts"], *([f"2024-01-01T{i:02d}:00Z", 5.0 * i] for i in range(24))]
    found = read_bytes(zipped(meter__xlsx=xlsx_bytes({"A": rows})), "data.zip")
    assert found.watts[-1] == 115.0


def test_several_files_of_an_archive_are_listed():
    data = zipped(one__csv=METER, two__csv=METER.replace(b"100", b"50"))
    with pytest.raises(DataError, match=r"2 files \(one.csv, two.csv\): choose one \(`member="):
        read_bytes(data, "data.zip")
    chosen = read_bytes(data, "data.zip", ReadOptions(member="TWO.csv"))
    assert chosen.watts.tolist() == [50.0, 200.0]
    with pytest.raises(InputError, match=r"no file 'three' \(found: one.csv, two.csv\)"):
        read_bytes(data, "data.zip", ReadOptions(member="three"))


def test_archives_without_readings_are_refused():
    for data in (zipped(), zipped(a__pdf=b"%PDF"), zipped(a__zip=zipped(b__csv=METER))):
        with pytest.raises(DataError, match=r"^[^\n]+$"):
            read_bytes(data, "data.zip")
    with pytest.raises(DataError, match="not in the format xlsx"):
        read_bytes(zipped(mimetype=b"application/vnd.oasis.opendocument.spreadsheet"), "a.ods")


def test_an_archive_that_unpacks_to_a_lot_is_refused():
    data = zipped(a__csv=np.random.default_rng(0).bytes(10_000_000))
    with pytest.raises(DataError, match="unpacks to more than 6 MB"):
        read_bytes(data, "data.zip", most_values=100_000)


def test_a_format_is_one_entry_of_the_registry(tmp_path, monkeypatch):
    import numpy as np

    from hushmeter.read import source
    from hushmeter.read.recording import Series

    def read_toy(task):
        """Lines of a number of minutes and watts, below a line TOY."""
        rows = np.loadtxt(task.path, skiprows=1)
        unit = task.options.unit or "W"
        return Series((rows[:, 0] * 60e9).astype(np.int64), rows[:, 1], "toy", unit)

    toy = source.Format("toy", lambda head: head.text.startswith("TOY"), read_toy)
    monkeypatch.setattr(source, "FORMATS", (toy, *source.FORMATS))
    path = tmp_path / "readings.toy"
    path.write_text("TOY\n" + "".join(f"{i} {100 + i}\n" for i in range(5)))
    recording = read_recording(path)
    assert recording.format == "toy"
    assert recording.trace.interval_s == 60.0
    assert recording.watts.tolist() == [100, 101, 102, 103, 104]
    with pytest.raises(DataError, match="is no table"):
        read_recording(path, ReadOptions(changes="no"))


def test_the_reader_of_every_format_exists():
    from pkgutil import resolve_name

    from hushmeter.read.source import FORMATS

    assert FORMATS[-1].name == "table"
    names = [form.reader for form in FORMATS if isinstance(form.reader, str) and form.reader]
    assert all(callable(resolve_name(f"hushmeter.read.{name}")) for name in names)


def test_the_explanation_names_every_column_and_the_reason_of_every_choice(portal):
    told = "\n".join(explain(portal, ReadOptions(tz="Europe/Berlin")))
    for name in ("Customer", "Meter Number", "Start", "End", "Usage (kWh)", "Price per kWh"):
        assert repr(name) in told
    assert "Meter: 'Usage (kWh)', values of single intervals in kWh, by the file." in told
    assert "Zone: Europe/Berlin, by your option." in told


def test_the_explanation_ends_with_a_refusal(portal):
    told = explain(portal, ReadOptions())
    assert told[-1].startswith("Refused: ")
    assert "times without a zone" in told[-1]


def test_the_explanation_names_the_format(save, samples):
    path = save(samples.green_button(), "feed.xml")
    assert any("greenbutton" in line for line in explain(path, ReadOptions()))


@pytest.mark.parametrize(
    ("encoding", "header"),
    [
        ("cp949", "날짜,전력사용량(kWh),기온(°C)"),
        ("cp932", "日時,使用量(kWh),気温(°C)"),
        ("gb18030", "日期,用电量(kWh),温度(°C)"),
    ],
)
def test_code_pages_of_east_asia(tmp_path, encoding, header):
    rows = [f"2024-06-01 {h:02}:00,0.{7 * h % 24:03},{h}.5" for h in range(24)]
    path = tmp_path / "meter.csv"
    path.write_bytes("\n".join([header, *rows]).encode(encoding))
    found = read_recording(path, ReadOptions(tz="Asia/Seoul"))
    assert found.watts.sum() == pytest.approx(276)


def test_a_gzip_that_grows_too_much_is_refused_before_it_fills_the_memory(tmp_path):
    path = tmp_path / "meter.csv.gz"
    row = b"2024-01-01T00:00:00Z,100\n" * 40_000
    with gzip.open(path, "wb") as file:
        file.write(b"timestamp,watts\n")
        for _ in range(60):
            file.write(row)
    tracemalloc.start()
    try:
        with pytest.raises(TooLargeError, match="decompresses to more than 200 times its size"):
            read_recording(path)
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()
