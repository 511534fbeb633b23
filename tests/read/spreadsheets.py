"""Writers of small Excel workbooks: xlsx as zipped XML, xls as records in a compound file."""

from __future__ import annotations

import io
import struct
import zipfile
from xml.sax.saxutils import escape, quoteattr

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
STYLES = {"number": 0, "date": 1, "time": 2, "duration": 3}
FREE, END, FAT = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD
SECTOR = 512


def xlsx_bytes(sheets, hidden=()):
    """A workbook; a cell is text, a number, None, or a pair of a style and a number of days."""
    names = list(sheets)
    entries = "".join(
        f'<sheet name={quoteattr(name)} sheetId="{i}" r:id="s{i}"'
        + (' state="hidden"/>' if name in hidden else "/>")
        for i, name in enumerate(names, 1)
    )
    links = "".join(
        f'<Relationship Id="s{i}" Type="{OFFICE}/worksheet" Target="worksheets/sheet{i}.xml"/>'
        for i in range(1, len(names) + 1)
    )
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="xml" '
        'ContentType="application/xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="r1" '
        f'Type="{OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}"><sheets>{entries}'
        "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}/relationships">{links}'
        f'<Relationship Id="st" Type="{OFFICE}/styles" Target="styles.xml"/></Relationships>',
        "xl/styles.xml": f'<styleSheet xmlns="{MAIN}"><numFmts count="1"><numFmt numFmtId="170" '
        'formatCode="[h]:mm"/></numFmts><cellXfs count="4"><xf numFmtId="0"/><xf numFmtId="22"/>'
        '<xf numFmtId="20"/><xf numFmtId="170"/></cellXfs></styleSheet>',
    }
    for i, rows in enumerate(sheets.values(), 1):
        parts[f"xl/worksheets/sheet{i}.xml"] = _sheet_xml(rows)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, '<?xml version="1.0" encoding="UTF-8"?>' + text)
    return out.getvalue()


def _sheet_xml(rows):
    lines = []
    for i, row in enumerate(rows, 1):
        cells = "".join(_cell(cell, f"{chr(65 + j)}{i}") for j, cell in enumerate(row))
        lines.append(f'<row r="{i}">{cells}</row>')
    return f'<worksheet xmlns="{MAIN}"><sheetData>{"".join(lines)}</sheetData></worksheet>'


def _cell(cell, place):
    if cell is None:
        return ""
    if isinstance(cell, str):
        return f'<c r="{place}" t="inlineStr"><is><t>{escape(cell)}</t></is></c>'
    style, number = cell if isinstance(cell, tuple) else ("number", cell)
    return f'<c r="{place}" s="{STYLES[style]}"><v>{float(number)!r}</v></c>'


def xls_bytes(rows):
    """A workbook of Excel 97 with one sheet of text and numbers."""
    globals_part = _record(0x0809, struct.pack("<HHHHII", 0x0600, 0x0005, 0, 0, 0, 0))
    name = b"Sheet1"
    bound = struct.pack("<IHBB", len(globals_part) + 4 + 8 + len(name) + 4, 0, len(name), 0) + name
    stream = globals_part + _record(0x0085, bound) + _record(0x000A, b"")
    stream += _record(0x0809, struct.pack("<HHHHII", 0x0600, 0x0010, 0, 0, 0, 0))
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):
            place = struct.pack("<HHH", i, j, 0)
            if isinstance(cell, str):
                text = cell.encode("utf-16-le")
                size = struct.pack("<HB", len(cell), 1)
                stream += _record(0x0204, place + size + text)
            else:
                stream += _record(0x0203, place + struct.pack("<d", cell))
    return _compound_file(stream + _record(0x000A, b""))


def _record(kind, data):
    return struct.pack("<HH", kind, len(data)) + data


def _compound_file(stream):
    """A compound file with one stream: header, one sector of the table, the directory, the data."""
    stream = stream.ljust(max(4096, -(-len(stream) // SECTOR) * SECTOR), b"\0")
    sectors = len(stream) // SECTOR
    assert sectors + 2 <= SECTOR // 4
    table = [FAT, END, *range(3, sectors + 2), END]
    header = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(16)
    header += struct.pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6) + bytes(6)
    header += struct.pack("<IIIIIIIII", 0, 1, 1, 0, 4096, END, 0, END, 0)
    header += struct.pack("<109I", 0, *[FREE] * 108)
    directory = _entry("Root Entry", 5, END, 0, child=1) + _entry("Workbook", 2, 2, len(stream))
    directory = directory.ljust(SECTOR, b"\0")
    allocation = struct.pack(f"<{len(table)}I", *table).ljust(SECTOR, b"\xff")
    return header + allocation + directory + stream


def _entry(name, kind, first, size, child=FREE):
    text = (name + "\0").encode("utf-16-le")
    links = struct.pack("<III", FREE, FREE, child)
    place = struct.pack("<IQ", first, size)
    return (
        text.ljust(64, b"\0") + struct.pack("<HBB", len(text), kind, 1) + links + bytes(36) + place
    )
