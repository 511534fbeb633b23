"""What a file is, told by its first bytes; what holds no readings gets a sentence."""

from __future__ import annotations

import io
import tarfile

import pytest

from hushmeter.errors import DataError
from hushmeter.read import read_meter


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
        (b"PK\x03\x04", "a zip archive or a spreadsheet: unpack it"),
        (b"%PDF-1.7", "a PDF: download"),
        (b"\xd0\xcf\x11\xe0", "an old Excel workbook"),
        (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
        (b"BZh91AY", "a bzip2 archive: unpack it"),
        (b"\xfd7zXZ\x00", "an xz archive: unpack it"),
        (b"\x28\xb5\x2f\xfd", "a zstd archive: unpack it"),
        (b"SQLite format 3\x00", "an SQLite data base"),
        (b"<!DOCTYPE html><html>", "a web page, maybe a sign-in: download the file itself"),
        (b"\n<HTML lang='en'>", "a web page"),
        (b"[1, 2]", "is JSON"),
    ],
)
def test_files_that_hold_no_readings(save, head, sentence):
    with pytest.raises(DataError, match=sentence) as caught:
        read_meter(save(head + b" and more" * 40))
    assert "\n" not in str(caught.value)


def test_a_tar_is_told_also_inside_gzip(samples, save):
    for data in (tar(samples.plain_csv()), samples.zipped(tar(samples.plain_csv()))):
        with pytest.raises(DataError, match="is a tar archive: unpack it"):
            read_meter(save(data))
