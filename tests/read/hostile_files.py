"""Files of a stranger that lead to other files or run what they say, written by real tools.

Each maker gets a folder with a secret file in it; the watts of the secret begin at `SECRET`.
"""

from __future__ import annotations

import io
import sqlite3
import stat
import struct
import zipfile
from pathlib import Path

import numpy as np
from tests.read.spreadsheets import OFFICE, PACKAGE, xls_bytes, xlsx_bytes

SECRET = 4711
ROWS = 60
START = 1_700_000_000
CSV = "timestamp,watts\n" + "".join(f"{START + 6 * i},{100 + i % 7}\n" for i in range(ROWS))


def nilmtk_bytes(folder: Path) -> bytes:
    """A plain NILMTK file with one meter."""
    import pandas as pd

    path = folder / "plain.h5"
    times = pd.date_range("2014-01-01", periods=ROWS, freq="6s", tz="UTC")
    header = pd.MultiIndex.from_tuples([("power", "active")], names=["physical_quantity", "type"])
    frame = pd.DataFrame(np.full((ROWS, 1), 100.0, np.float32), times, header)
    with pd.HDFStore(path, "w") as file:
        file.put("building1/elec/meter1", frame, format="table", track_times=False)
        meters = {"elec_meters": {1: {"site_meter": True}}, "appliances": []}
        file.root.building1._v_attrs.metadata = meters
    data = path.read_bytes()
    path.unlink()
    return data


def _copy_attributes(old, new) -> None:
    from h5py import h5a, h5s

    for name in old.attrs:
        found = h5a.open(old.id, name.encode())
        kind, space = found.get_type(), found.get_space()
        if space.get_simple_extent_type() != h5s.NULL:
            value = np.empty(found.shape, found.dtype)
            found.read(value, mtype=kind)
            h5a.create(new.id, name.encode(), kind, space).write(value, mtype=kind)


def _edited(folder: Path, edit) -> bytes:
    """A NILMTK file whose table was replaced by `edit(group, old table, secret rows)`."""
    import h5py

    path = folder / "edited.h5"
    path.write_bytes(nilmtk_bytes(folder))
    with h5py.File(path, "r+") as file:
        group = file["building1/elec/meter1"]
        group.move("table", "old")
        rows = group["old"][:]
        rows["values_block_0"][:, 0] = SECRET + np.arange(ROWS)
        made = edit(group, group["old"], rows)
        if made is not None:
            _copy_attributes(group["old"], made)
        del group["old"]
    data = path.read_bytes()
    path.unlink()
    return data


def external_storage(folder: Path) -> bytes:
    def edit(group, old, rows):
        secret = folder / "secret.bin"
        secret.write_bytes(rows.tobytes())
        place = [(str(secret), 0, secret.stat().st_size)]
        return group.create_dataset("table", (ROWS,), old.dtype, maxshape=(ROWS,), external=place)

    return _edited(folder, edit)


def _secret_h5(folder: Path) -> Path:
    """The secret as a NILMTK file of its own."""
    secret = folder / "secret.h5"
    data = _edited(
        folder, lambda group, old, rows: group.create_dataset("table", data=rows, maxshape=(None,))
    )
    secret.write_bytes(data)
    return secret


def virtual_dataset(folder: Path) -> bytes:
    import h5py

    secret = _secret_h5(folder)

    def edit(group, old, rows):
        layout = h5py.VirtualLayout((ROWS,), old.dtype)
        place = "building1/elec/meter1/table"
        layout[:] = h5py.VirtualSource(str(secret), place, (ROWS,), old.dtype)
        return group.create_virtual_dataset("table", layout)

    return _edited(folder, edit)


def external_link(folder: Path) -> bytes:
    import h5py

    secret = _secret_h5(folder)

    def edit(group, old, rows):
        group["table"] = h5py.ExternalLink(str(secret), "/building1/elec/meter1/table")

    return _edited(folder, edit)


def soft_link(folder: Path) -> bytes:
    """A soft link that leaves the file by way of an external link elsewhere in it."""
    import h5py

    secret = _secret_h5(folder)

    def edit(group, old, rows):
        group["table"] = h5py.SoftLink("/away/building1/elec/meter1/table")
        group.file["away"] = h5py.ExternalLink(str(secret), "/")

    return _edited(folder, edit)


def user_defined_link(folder: Path) -> bytes:
    """An external link whose type is changed to one that nobody has registered."""
    data = external_link(folder)
    mark = b"\x01\x08\x40"
    assert data.count(mark) == 1
    return data.replace(mark, b"\x01\x08\x47")


def foreign_filter(folder: Path) -> bytes:
    def edit(group, old, rows):
        return group.create_dataset("table", data=rows, maxshape=(None,), compression="lzf")

    return _edited(folder, edit)


def unstored_rows(folder: Path) -> bytes:
    def edit(group, old, rows):
        size = {"shape": (10**12,), "maxshape": (None,), "chunks": (1000,)}
        return group.create_dataset("table", dtype=old.dtype, **size)

    return _edited(folder, edit)


TABLES = """
CREATE TABLE statistics_meta (id INTEGER PRIMARY KEY, statistic_id, unit_of_measurement, has_sum);
CREATE TABLE statistics (metadata_id INTEGER, start_ts FLOAT, mean FLOAT, sum FLOAT);
INSERT INTO statistics_meta VALUES (1, 'sensor.meter', 'W', 0);
"""
HOURS = "".join(
    f"INSERT INTO statistics VALUES (1, {START // 3600 * 3600 + 3600 * i}, 100.0, NULL);"
    for i in range(48)
)


def _sqlite(folder: Path, *scripts: str) -> bytes:
    path = folder / "made.db"
    database = sqlite3.connect(path)
    for script in scripts:
        database.executescript(script)
    database.commit()
    database.close()
    data = path.read_bytes()
    path.unlink()
    return data


def sqlite_view(folder: Path) -> bytes:
    view = "CREATE VIEW statistics AS SELECT metadata_id, start_ts, 4711.0 AS mean, sum FROM kept;"
    return _sqlite(folder, TABLES, HOURS, f"ALTER TABLE statistics RENAME TO kept; {view}")


def sqlite_attached(folder: Path) -> bytes:
    """A view of a table in another file, written into the schema by hand."""
    text = "CREATE VIEW statistics AS SELECT * FROM other.statistics"
    edit = "PRAGMA writable_schema = ON; UPDATE sqlite_master SET type = 'view', rootpage = 0, "
    return _sqlite(folder, TABLES, HOURS, f"{edit} sql = '{text}' WHERE name = 'statistics';")


def sqlite_disguised_view(folder: Path) -> bytes:
    """A view whose row of the schema says that it is a table."""
    text = "CREATE VIEW statistics AS SELECT 1 AS metadata_id, 0.0 AS start_ts, 4711.0 AS mean"
    edit = "PRAGMA writable_schema = ON; UPDATE sqlite_master SET"
    return _sqlite(folder, TABLES, HOURS, f"{edit} sql = '{text}' WHERE name = 'statistics';")


def sqlite_virtual_table(folder: Path) -> bytes:
    made = "CREATE VIRTUAL TABLE statistics USING fts5(metadata_id, start_ts, mean, sum);"
    return _sqlite(folder, TABLES.replace("CREATE TABLE statistics (", "CREATE TABLE kept ("), made)


def sqlite_computed_column(folder: Path) -> bytes:
    made = TABLES.replace("mean FLOAT", "mean AS (length(hex(zeroblob(100000000)))), m FLOAT")
    return _sqlite(folder, made)


def _zip(*entries) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return out.getvalue()


def zip_link(folder: Path) -> bytes:
    entry = zipfile.ZipInfo("meter.csv")
    entry.create_system, entry.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    secret = folder / "secret.csv"
    secret.write_text(CSV.replace(",10", f",{SECRET}"))
    return _zip((entry, str(secret)))


def zip_absolute(folder: Path) -> bytes:
    return _zip(("/etc/meter.csv", CSV))


def zip_parent(folder: Path) -> bytes:
    return _zip(("../../meter.csv", CSV))


def zip_drive(folder: Path) -> bytes:
    return _zip(("C:\\meter.csv", CSV))


def zip_encrypted(folder: Path) -> bytes:
    data = bytearray(_zip(("meter.csv", CSV)))
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    return bytes(data)


def zip_twice(folder: Path) -> bytes:
    data = _zip(("meter.csv", CSV), ("metre.csv", CSV.replace(",10", f",{SECRET}")))
    return data.replace(b"metre.csv", b"meter.csv")


def zip_nested(folder: Path) -> bytes:
    return _zip(("inner.zip", _zip(("meter.csv", CSV))))


def zip_bomb(folder: Path) -> bytes:
    return _zip(("meter.csv", CSV + "\n" * (300 << 20)))


SHEET = [["timestamp", "watts"], *([START + 6 * i, 100.0 + i % 7] for i in range(ROWS))]


def _workbook(change=None, *more) -> bytes:
    """A workbook; `change(name, text)` edits its parts, and further ones are added."""
    out = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(xlsx_bytes({"readings": SHEET}))) as old,
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            text = old.read(name)
            new.writestr(name, text if change is None else change(name, text))
        for name, text in more:
            new.writestr(name, text)
    return out.getvalue()


def _related(kind: str, target: str, mode: str = ""):
    """A change that adds a relationship to the workbook."""
    added = f'<Relationship Id="x9" Type="{OFFICE}/{kind}" Target="{target}"{mode}/>'

    def change(name, text):
        if name != "xl/_rels/workbook.xml.rels":
            return text
        return text.replace(b"</Relationships>", added.encode() + b"</Relationships>")

    return change


def xlsx_external_reference(folder: Path) -> bytes:
    book = (
        f'<externalLink xmlns:r="{OFFICE}"><externalBook r:id="r1"><sheetNames><sheetName '
        'val="secret"/></sheetNames></externalBook></externalLink>'
    )
    away = (
        f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="r1" Type="{OFFICE}/'
        f'externalLinkPath" Target="file://{folder}/secret.xlsx" TargetMode="External"/>'
        "</Relationships>"
    )
    return _workbook(
        _related("externalLink", "externalLinks/externalLink1.xml"),
        ("xl/externalLinks/externalLink1.xml", book),
        ("xl/externalLinks/_rels/externalLink1.xml.rels", away),
    )


def xlsx_connection(folder: Path) -> bytes:
    text = (
        '<connections><connection id="1" name="x" type="1"><dbPr connection="DSN=x"/></connection>'
    )
    more = ("xl/connections.xml", text + "</connections>")
    return _workbook(_related("connections", "connections.xml"), more)


def xlsx_linked_sheet(folder: Path) -> bytes:
    target = b'Target="worksheets/sheet1.xml"'
    away = f'Target="file://{folder}/secret.xml" TargetMode="External"'.encode()
    return _workbook(lambda name, text: text.replace(target, away))


def xls_and_xlsx(folder: Path) -> bytes:
    """An old workbook at its beginning and a new one at its end."""
    return xls_bytes(SHEET)[:512] + xlsx_external_reference(folder)


def _declaring(text: bytes) -> bytes:
    declared = b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/hostname">]>'
    return text.replace(b"?>", b"?>" + declared, 1)


def xlsx_entities(folder: Path) -> bytes:
    return _workbook(lambda name, text: _declaring(text) if "sheet1" in name else text)


def xlsx_entities_utf16(folder: Path) -> bytes:
    def change(name, text):
        if "sheet1" not in name:
            return text
        return _declaring(text).decode().replace("UTF-8", "UTF-16").encode("utf-16")

    return _workbook(change)


def xml_entities(folder: Path) -> bytes:
    secret = folder / "secret.txt"
    secret.write_text(str(SECRET))
    return (
        f'<?xml version="1.0"?><!DOCTYPE feed [<!ENTITY a SYSTEM "file://{secret}">]>'
        '<feed xmlns="http://www.w3.org/2005/Atom"><title>&a;</title></feed>'
    ).encode()


def parquet_elsewhere(folder: Path) -> bytes:
    """A table whose metadata say that its columns are in another file."""
    import pyarrow as pa
    from pyarrow import parquet

    def write(first: float) -> bytes:
        out = io.BytesIO()
        times = [START + 6 * i for i in range(ROWS)]
        watts = [first + i % 7 for i in range(ROWS)]
        parquet.write_table(pa.table({"timestamp": times, "watts": watts}), out)
        return out.getvalue()

    (folder / "secret.parquet").write_bytes(write(float(SECRET)))
    own = write(100.0)
    metadata = parquet.read_metadata(io.BytesIO(own))
    metadata.set_file_path(str(folder / "secret.parquet"))
    edited = io.BytesIO()
    metadata.write_metadata_file(edited)
    footers = [8 + struct.unpack("<I", data[-8:-4])[0] for data in (own, edited.getvalue())]
    return own[: -footers[0]] + edited.getvalue()[-footers[1] :]


REFUSED = {
    external_storage: ("h5", "keeps its values in another file (external storage)"),
    virtual_dataset: ("h5", "takes its values from other datasets (virtual)"),
    external_link: ("h5", "is a link to another file, which is not followed"),
    soft_link: ("h5", "which is not followed"),
    user_defined_link: ("h5", "is a user-defined link, which is not followed"),
    foreign_filter: ("h5", "is compressed by filter 32000, which PyTables does not contain"),
    unstored_rows: ("h5", "declares 1000000000000 rows, but does not store all of them"),
    sqlite_view: ("db", "statistics is a view or a virtual table"),
    sqlite_attached: ("db", "is no readable SQLite data base"),
    sqlite_disguised_view: ("db", "is no readable SQLite data base"),
    sqlite_virtual_table: ("db", "statistics is a view or a virtual table"),
    sqlite_computed_column: ("db", "the table statistics has computed columns"),
    zip_link: ("zip", "'meter.csv' is a link or a device"),
    zip_absolute: ("zip", "'/etc/meter.csv' leads out of the archive"),
    zip_parent: ("zip", "'../../meter.csv' leads out of the archive"),
    zip_drive: ("zip", "leads out of the archive"),
    zip_encrypted: ("zip", "'meter.csv' is encrypted"),
    zip_twice: ("zip", "'meter.csv' is there twice"),
    zip_nested: ("zip", "is an archive or HDF5 file in an archive"),
    zip_bomb: ("zip", " to more than "),
    xlsx_external_reference: ("xlsx", "refers to other files or data connections"),
    xlsx_connection: ("xlsx", "refers to other files or data connections"),
    xlsx_linked_sheet: ("xlsx", "refers to other files or data connections"),
    xls_and_xlsx: ("xls", "is a workbook with an archive in it"),
    xlsx_entities: ("xlsx", "declares entities or a document type"),
    xlsx_entities_utf16: ("xlsx", "declares entities or a document type"),
    xml_entities: ("xml", "declares entities or a document type"),
}
"""Makers with the ending of their file and a part of the sentence with which it is refused."""
