"""Which format a file has, told by its content."""

from __future__ import annotations

import re
from pathlib import Path

from hushmeter.errors import DataError
from hushmeter.read.source import find_encoding, read_head

HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
OTHER = {
    b"PK\x03\x04": "a zip archive or a spreadsheet: unpack it, or save the sheet as CSV",
    b"%PDF": "a PDF: download the data as CSV or Green Button XML",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook: save the sheet as CSV",
    b"7z\xbc\xaf": "a 7z archive: unpack it",
    b"BZh": "a bzip2 archive: unpack it",
    b"\xfd7zXZ": "an xz archive: unpack it",
    b"\x28\xb5\x2f\xfd": "a zstd archive: unpack it",
    b"SQLite format 3": "an SQLite data base: export the readings as CSV",
}


def recognise(path: Path) -> str:
    """One of greenbutton, nilmtk, dsmr, ha-energy, ha-history, table.

    Raises
    ------
    DataError
        If the file is empty or of a kind that holds no readings.
    """
    head = read_head(path, 1 << 14)
    if not head:
        raise DataError(f"{path} is neither a CSV nor a Parquet table: it is empty.")
    if head.startswith(HDF5_MAGIC):
        return "nilmtk"
    for magic, what in OTHER.items():
        if head.startswith(magic):
            raise DataError(f"{path} is {what}.")
    if head[257:262] == b"ustar":
        raise DataError(f"{path} is a tar archive: unpack it.")
    text = head.decode(find_encoding(head), errors="replace").lstrip("\ufeff \t\r\n\x00")
    if re.match(r"<!doctype html|<html", text, flags=re.IGNORECASE):
        raise DataError(f"{path} is a web page, maybe a sign-in: download the file itself.")
    if text.startswith("<"):
        return "greenbutton"
    if text.startswith(("{", "[")):
        raise DataError(f"{path} is JSON: convert its readings to CSV with timestamp and watts.")
    if re.search(r"^\d-\d:\d+\.\d+\.\d+\(", text, flags=re.MULTILINE):
        return "dsmr"
    line = next(iter(text[:4096].splitlines()), "")
    first = [field.strip().strip('"').lower() for field in line.split(",")]
    if first[:3] == ["entity_id", "type", "unit"]:
        return "ha-energy"
    if {"entity_id", "state", "last_changed"} <= set(first):
        return "ha-history"
    return "table"
