"""Tables as files write them: delimiter, marks of numbers, header rows, preambles and blocks.

Text files and the rows of spreadsheets become the same `RawTable`. Nothing here depends on the
size of a number: rows are told apart by whether a cell is a number, a time, a word or empty.
"""

from __future__ import annotations

import csv
import io
import random
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np

from hushmeter.checks import BoolArray
from hushmeter.errors import DataError
from hushmeter.formatting import count_of
from hushmeter.read.cells import Cells, Table, unique_names
from hushmeter.read.headers import (
    find_unit,
    has_word,
    load_words,
    missing_marks,
    read_meaning,
    weekday,
)
from hushmeter.read.source import (
    HEAD_BYTES,
    csv_rows,
    find_encoding,
    read_head,
    recognise,
)
from hushmeter.read.text_columns import TextForm, load_cells

DELIMITERS = (";", "\t", "|", ",", " ")
MAX_COLUMNS = 4096
SAMPLE_LINES = 400
MAX_HEADER_ROWS = 8
SAMPLE_ROWS = 60
LEAST_DIGITS = 6  # A whole number of as many digits may name a person or a meter
UNUSED_FLOWS = ("export", "production")
CELL_UNIT = re.compile(r"(?<=\d)\s*[kM]?Wh?$")
NUMBER = re.compile(r"[-+]?(?:\d[\d.,'\u00a0\u202f ]*|[.,]\d+)(?:[eE][-+]?\d+)?")
DATE = r"\d{1,4}[-/.年]\d{1,2}[-/.月]\d{1,4}[.日]?"
DOTTED = re.compile(DATE)
CLOCK = r"\d{1,2}[:.h]\d{2}(?:[:.]\d{2}(?:[.,]\d+)?)?(?:\s*[AaPp]\.?[Mm]\.?)?"
TIME = (
    rf"(?:{DATE}(?:[T\s,]+{CLOCK})?|\d{{1,2}}:\d{{2}}(?::\d{{2}})?(?:\s*[AaPp]\.?[Mm]\.?)?"
    rf"|\d{{1,2}}[ -][A-Za-z]{{3,9}}[ -]\d{{2,4}}(?:\s+{CLOCK})?"
    rf"|[A-Za-z]{{3,9}}\.?[ -]\d{{1,2}},?[ -]\d{{4}}(?:,?\s+{CLOCK})?)"
    r"\s*(?:Z|(?:UTC|GMT)?[-+]\d{1,2}(?::?\d{2})?|[A-Z]{3,4})?(?:\s*\([^)]*\))?"
    rf"(?:\s*(?:to|[-–/])\s*(?:{DATE}[T\s]+)?{CLOCK}Z?)?"
)


@dataclass(frozen=True)
class RawTable:
    """A table before its columns are understood."""

    data: Table  # Columns with unique names; column_0 … where there is no header
    # For every column, the texts of further header rows above its name
    context: tuple[str, ...] = ()
    preamble: tuple[str, ...] = ()  # Lines above the header
    has_header: bool = True
    decimal: str = "."  # The decimal mark of numbers that are written as text
    kind: str = "CSV table"  # What the table came from, such as "CSV table"
    blocks: tuple[RawTable, ...] = ()  # Further tables with the same header in the same file
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """The number of its rows."""
        return len(next(iter(self.data.values()), ()))

    def taken(self, rows: BoolArray) -> Table:
        """The columns in some rows."""
        return {name: cells.take(rows) for name, cells in self.data.items()}


@dataclass
class Frame:
    """Where the parts of a table are."""

    names: tuple[str, ...]
    context: tuple[str, ...]
    first: int  # Index of the first row of data
    header: int | None  # Index of the row of names
    preamble: tuple[str, ...]
    time_cells: tuple[int, ...]  # Columns that hold times in most rows


def load_text(path: Path, texts: Collection[str] = (), decimal: str | None = None) -> RawTable:
    """Read a text table."""
    head = read_head(path)
    encoding = find_encoding(head)
    lines = _sample(head, encoding, path)
    delimiter = find_delimiter(lines)
    rows = [split_line(line, delimiter) for line in lines]
    if not any(_filled(row) for row in rows):
        raise DataError(f"{path} is neither a CSV nor a Parquet table: it is empty.")
    frame = find_frame(rows, path)
    body = [row for row in rows[frame.first :] if _filled(row)]
    # Whether a file of a fleet is used must not depend on its values; its columns are stated.
    stated = decimal if texts else None
    mark = stated or find_decimal(body, delimiter, path, decimal)
    width = len(frame.names)
    regular = not _repeats_header(rows, frame) and all(
        len(row) == width and _has_times(row, frame) for row in body
    )
    if regular:
        form = TextForm(encoding, delimiter, frame.names, frame.first, mark, texts)
        table = load_cells(path, form)
        if table is not None:
            cells = [*body, *_numbers_as_text(table)]
            mark = stated or find_decimal(cells, delimiter, path, decimal)
            return RawTable(table, frame.context, frame.preamble, frame.header is not None, mark)
    every = csv_rows(path, delimiter)
    return table_of_rows(every, path, decimal=mark if decimal or not regular else decimal)


def _numbers_as_text(table: Table) -> Iterator[list[str]]:
    """The different cells of columns of text that are mostly numbers, such as 0,25 or 412 W."""
    for column in table.values():
        if column.is_text:
            cells = column.known().distinct()
            numbers = [cell for cell in cells if NUMBER.fullmatch(CELL_UNIT.sub("", cell))]
            if len(numbers) > 0.5 * len(cells):
                yield numbers


def table_of_rows(
    rows: Iterable[Sequence[object]],
    path: Path,
    *,
    kind: str = "CSV table",
    decimal: str | None = None,
) -> RawTable:
    """Make a table of the rows of a text or a spreadsheet."""
    cells = [row for row in rows if _is_filled(row)]
    if not cells:
        raise DataError(f"{path} is neither a CSV nor a Parquet table: it is empty.")
    sample = [_texts(row) for row in cells[:SAMPLE_LINES]]
    frame = find_frame(sample, path)
    header = None if frame.header is None else _trimmed(cells[frame.header])
    texts = [cell for row in cells[frame.first :] for cell in row if isinstance(cell, str)]
    mark = decimal or find_decimal([texts], ";", path)
    above = [row for row in map(_trimmed, cells[: frame.header or 0]) if len(row) > 1]
    blocks: list[list[Sequence[object]]] = [[]]
    left, foreign = 0, False
    for i, row in enumerate(cells[frame.first :], frame.first + 1):
        there = _trimmed(row)
        # Lines above the table that stand again, and a header soon after them, begin another one.
        again = there in above and any(
            _kinds_of(_texts(later)) == {"word"} for later in cells[i : i + len(above)]
        )
        if header is not None and _is_same_header(there, header):
            blocks.append([])
            foreign = False
        elif foreign or again or (header is not None and _is_other_header(there, header)):
            foreign = True
            left += 1
        elif _is_reading(there, frame, path):
            blocks[-1].append(row)
        else:
            left += 1
    tables = [
        RawTable(
            _columns_of(block, frame.names),
            frame.context,
            frame.preamble,
            header is not None,
            mark,
            kind,
            notes=(_note_footers(left),) if left else (),
        )
        for block in blocks
        if block
    ]
    if not tables:
        raise DataError(f"{path} holds no readings, only the columns {', '.join(frame.names[:8])}.")
    return replace(tables[0], blocks=tuple(tables[1:]))


def _is_filled(cells: Sequence[object]) -> bool:
    return cells.count("") + cells.count(None) < len(cells)


def find_delimiter(lines: Sequence[str]) -> str:
    """The delimiter that splits most lines into one number of cells, more than one.

    A comma may also stand in names above the table and in decimals, so it must do so far better.
    """
    best, most = ",", 0
    for delimiter in DELIMITERS:
        counts = Counter(len(split_line(line, delimiter)) for line in lines if line.strip())
        counts.pop(1, None)
        if not counts:
            continue
        agreeing = counts.most_common(1)[0][1]
        if agreeing > most / 0.9 and not (delimiter == " " and most):
            best, most = delimiter, agreeing
    return best


def split_line(line: str, delimiter: str) -> list[str]:
    """The cells of a line, without blanks around them."""
    try:
        cells = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error:
        cells = line.split(delimiter)
    return [cell.strip() for cell in cells]


def cell_kind(text: str) -> str:
    """Return "empty", "number", "time" or "word"."""
    if not text:
        return "empty"
    if text.lower() in missing_marks():
        return "number"
    if NUMBER.fullmatch(text) and not DOTTED.fullmatch(text):
        return "number"
    return "time" if _time().fullmatch(text) else "word"


def _kinds_of(row: Sequence[str]) -> set[str]:
    """The kinds of the filled cells of a row."""
    return {cell_kind(cell) for cell in row if cell}


@cache
def _time() -> re.Pattern[str]:
    return re.compile(f"(?:{weekday()})?{TIME}")


def find_decimal(
    rows: Iterable[Sequence[str]], delimiter: str, path: Path, stated: str | None = None
) -> str:
    """The decimal mark of a file; a stated one that no number shows must not be contradicted.

    "0,25", "1.505,000" and ",5" show a comma; "0.25", "1,505.000" and ".5" show a point. Where
    every mark is followed by three digits and some numbers have no mark, it could be a mark of
    thousands as well.
    """
    shown = {".": 0, ",": 0}
    example = ""
    three = {".": 0, ",": 0}
    plain = 0
    for row in rows:
        for cell in row:
            text = CELL_UNIT.sub("", cell)
            if not NUMBER.fullmatch(text) or DOTTED.fullmatch(text):
                continue
            found = _mark_of(text)
            if found in shown:
                shown[found] += 1
                example = example if found == stated else text
            elif found in ("?.", "?,"):
                three[found[1]] += 1
            elif len(text.lstrip("+-")) < 4:
                plain += 1
    if stated is not None:
        if example and not shown[stated]:
            raise DataError(
                f"{path} has numbers such as {example[:40]}, whose decimal mark is not the stated "
                "one: leave it out (`decimal=`)."
            )
        return stated
    if shown["."] or shown[","]:
        return "." if shown["."] >= shown[","] else ","
    mark = next((mark for mark in three if three[mark]), None)
    if mark is None or (mark == "." and delimiter == ","):
        return "."
    if plain or (mark == "," and delimiter == ",") or all(three.values()):
        raise DataError(
            f"{path} has numbers such as 1{mark}234, in which the mark may be that of decimals or "
            "of thousands: state it (`decimal=point` or `decimal=comma`)."
        )
    return mark


def _mark_of(text: str) -> str:
    """The decimal mark of a number; "?." or "?," if it could be a mark of thousands as well."""
    number = text.lstrip("+-").split("e")[0].split("E")[0]
    marks = re.sub(r"[^.,]", "", number)
    if not marks:
        return ""
    last = marks[-1]
    if len(set(marks)) == 2:
        return last
    whole, _, digits = number.rpartition(last)
    if len(marks) > 1:
        return {".": ",", ",": "."}[last]
    if len(digits) != 3 or whole in ("", "0") or len(whole) > 3:
        return last
    return f"?{last}"


def find_frame(rows: Sequence[Sequence[str]], path: Path) -> Frame:
    """Find the header, the preamble above it and the first row of data."""
    kinds = [[cell_kind(cell) for cell in row] for row in rows]
    places = [tuple(i for i, kind in enumerate(row) if kind == "time") for row in kinds]
    counted: Counter[tuple[int, ...]] = Counter(
        place for place, row in zip(places, kinds, strict=True)
        if len(row) > 1 and "number" in row and not _counts_on(row, place)
    )  # fmt: skip
    if not counted:
        counted = Counter(place for place in places if place)
    # A column of times may be empty or damaged in some rows: the fullest of frequent patterns.
    best = counted.most_common(1)[0][0] if counted else ()
    is_data = [
        len(row) > 1 and (place == best or ("number" in row and set(best) <= set(place)))
        and bool(best or ("number" in row and not ("word" in row[:1] and i == 0)))
        for i, (row, place) in enumerate(zip(kinds, places, strict=True))
    ]  # fmt: skip
    if not best:
        is_data = [len(row) > 1 and _is_numeric(rows[i], row) for i, row in enumerate(kinds)]
    first = _first_of_run(is_data, rows)
    if first is None:
        first = next((i + 1 for i, row in enumerate(rows) if _filled(row)), len(rows))
    width = max((len(_trimmed(rows[i])) for i in range(first, len(rows)) if is_data[i]), default=1)
    if width > MAX_COLUMNS:
        raise DataError(
            f"{path} has {width} columns, more than {MAX_COLUMNS}: a table of readings has one "
            "row per time and one column per circuit."
        )
    header = _header_above(rows, kinds, first, width)
    if header is None:
        names = [f"column_{i}" for i in range(width)]
        above = tuple(" ".join(row) for row in rows[:first] if _filled(row))
        return Frame(tuple(names), (), first, None, above, best)
    for i in range(header):
        alike = places[i] == best if best else set(kinds[i]) == {"number"}
        if is_data[i] and alike and len(_trimmed(rows[i])) == width:
            raise DataError(
                f"{path} has a row of readings above its header, {' '.join(rows[i])[:60]!r}: put "
                "the header above all rows."
            )
    top, names, context = _join_headers(rows, kinds, header)
    above = tuple(" ".join(c for c in row if c) for row in rows[:top] if _filled(row))
    data = [i for i in range(first, len(rows)) if is_data[i]]
    _refuse_split_numbers([rows[i] for i in data], len(rows[header]), path)
    beyond = [kind for i in data for kind in kinds[i][len(names) :]]
    if "word" in beyond and not {"number", "time"} & set(beyond):
        # Words behind the last name, such as a tariff; a number there would be a split decimal.
        more = width - len(names)
        names, context = [*names, *[""] * more], (*context, *[""] * more) if context else ()
    return Frame(unique_names(names), context, first, header, above, best)


def _note_footers(count: int) -> str:
    """Return a note about rows that are no readings."""
    return count_of(
        count,
        "row without a time (a footer or total) was left out.",
        "rows without a time (footers or totals) were left out.",
    )


def _counts_on(kinds: Sequence[str], place: tuple[int, ...]) -> bool:
    """True for a header of clock times, such as Date, 0:30, 1:00, …"""
    return len(place) >= 23 and "word" in kinds


def _is_numeric(row: Sequence[str], kinds: Sequence[str]) -> bool:
    """True for a row of numbers; numbers that only count the columns are a header."""
    if "word" in kinds[:1] or "number" not in kinds:
        return False
    if any(kind == "word" for kind in kinds) and kinds.count("number") < 2:
        return False
    numbered = ([str(first + i) for i in range(len(row))] for first in (0, 1))
    return not (len(row) > 2 and list(row) in numbered)


def _first_of_run(is_data: Sequence[bool], rows: Sequence[Sequence[str]]) -> int | None:
    """The first row of data that another row of data (or the end) follows."""
    for i, data in enumerate(is_data):
        if not data:
            continue
        after = next((j for j in range(i + 1, len(rows)) if _filled(rows[j])), None)
        if after is None or is_data[after] or not any(is_data[i + 1 :]):
            return i
    return None


def _header_above(
    rows: Sequence[Sequence[str]], kinds: Sequence[Sequence[str]], first: int, width: int
) -> int | None:
    """The nearest filled row above the data, if it has words for at least half of the columns."""
    for i in range(first - 1, -1, -1):
        filled = sum(kind != "empty" for kind in kinds[i])
        # A label of a row without values, such as that of a sum, names no columns.
        if filled > 1 or (filled and width < 3):
            words = sum(kind == "word" for kind in kinds[i])
            numbered = len(rows[i]) > 2 and all(cell.isdigit() for cell in rows[i])
            # A record of another length with numbers in it, such as a count of rows, names nothing.
            record = "number" in kinds[i] and len(_trimmed(rows[i])) != width and not numbered
            named = (words or numbered) and not record
            return i if named and filled >= max(2, width / 2) else None
    return None


def _join_headers(
    rows: Sequence[Sequence[str]], kinds: Sequence[Sequence[str]], header: int
) -> tuple[int, list[str], tuple[str, ...]]:
    """First row of the header, the names, and the texts of the other header rows."""
    width = len(rows[header])
    top = header
    while top > 0 and header - top < MAX_HEADER_ROWS:
        above = kinds[top - 1]
        numbers = sum(kind in ("number", "time") for kind in above)
        # A text in the first cell alone is the title of the table.
        title = not any(rows[top - 1][1:])
        if len(above) != width or "word" not in above or numbers > 0 or title:
            break
        top -= 1
    stack = [list(rows[i]) for i in range(top, header + 1)]
    main = max(range(len(stack)), key=lambda i: (len({c for c in stack[i] if c}), i))
    names = list(stack[main])
    for i, name in enumerate(names):
        if not name:
            names[i] = next((row[i] for row in reversed(stack) if row[i]), "")
    context = [""] * width
    for k, row in enumerate(stack):
        if k == main:
            continue
        filled = row if k > main else _to_the_right(row)
        context = [f"{a} {b}".strip() for a, b in zip(context, filled, strict=True)]
    while names and not names[-1] and not context[-1]:
        names.pop()
        context.pop()
    return top, names, tuple(context) if any(context) else ()


def _to_the_right(row: Sequence[str]) -> list[str]:
    """A header over several columns stands in the first of them."""
    filled, last = [], ""
    for cell in row:
        last = cell or last
        filled.append(last)
    return filled


def _is_reading(row: Sequence[object], frame: Frame, path: Path) -> bool:
    """True for a row with its times in place; a longer row is refused."""
    if len(row) < 2 or not _has_times(row, frame):
        return False
    if len(row) > len(frame.names):
        raise DataError(
            f"{path} has a row of {len(row)} cells under a header of "
            f"{len(frame.names)}, {' '.join(_texts(row))[:60]!r}: the header or the delimiter is "
            "damaged."
        )
    return True


def _is_same_header(row: Sequence[object], header: Sequence[object]) -> bool:
    """True for the words of the header again, whatever blanks are around them."""
    if len(row) != len(header) or type(row[0]) is not type(header[0]):
        return False
    # The first cell tells most rows from the header, without a text of every cell.
    return _stripped(row[:1]) == _stripped(header[:1]) and _stripped(row) == _stripped(header)


def _is_other_header(row: Sequence[object], header: Sequence[object]) -> bool:
    """True for a row of words, as long as the header, of another unit or of feed-in."""
    if len(row) != len(header) or any(_kind(cell) != "word" for cell in row):
        return False
    one, two = " ".join(_texts(header)), " ".join(_texts(row))
    flows = [read_meaning(text).flow for text in (one, two)]
    unit = find_unit(two)
    return unit is not None and (
        unit != find_unit(one) or (flows[1] in UNUSED_FLOWS and flows[0] not in UNUSED_FLOWS)
    )


def _refuse_split_numbers(rows: Sequence[Sequence[str]], width: int, path: Path) -> None:
    """Refuse rows that are a cell too long and have a whole number behind another: 0,25 or ,25."""
    long = [row for row in rows if len(row) > width > 1]
    split = sum(
        any(
            two.isdigit() and (one.isdigit() or (one in ("", "-") and _filled(row[width:])))
            for one, two in pairwise(row[:width])
        )
        for row in long
    )
    if split > 0.5 * len(rows):
        raise DataError(
            f"{path} has rows of {len(long[0])} cells under a header of {width}: numbers with "
            "decimal commas may be split; put them in quotes, or use another delimiter."
        )


def _has_times(row: Sequence[object], frame: Frame) -> bool:
    """True for a row with a time in one of the usual places."""
    if not frame.time_cells:
        return True
    return any(i < len(row) and _kind(row[i]) == "time" for i in frame.time_cells)


def _kind(cell: object) -> str:
    """The kind of a cell of a text or a spreadsheet."""
    return "time" if isinstance(cell, datetime) else cell_kind(_text(cell))


def _columns_of(rows: Sequence[Sequence[object]], names: Sequence[str]) -> Table:
    """Rows of different lengths as a table."""
    columns = [[row[i] if i < len(row) else None for row in rows] for i in range(len(names))]
    return table_of(columns, names)


def table_of(columns: Sequence[Sequence[object]], names: Sequence[str]) -> Table:
    """Columns as a table: numbers and times stay so, everything else is text."""
    table, marks = {}, missing_marks()
    for name, cells in zip(names, columns, strict=True):
        types = {type(cell) for cell in cells if cell not in ("", None)}
        if types and types <= {int, float}:
            numbers = [np.nan if cell in ("", None) else cell for cell in cells]
            table[name] = Cells.of(np.array(numbers, dtype=np.float64))
        elif {datetime} == types == set(map(type, cells)):
            table[name] = Cells.of(np.array(cells, dtype="datetime64[us]"))
        else:
            texts = _texts(cells)
            table[name] = Cells.of([None if t.lower() in marks else t for t in texts])
    return table


def _stripped(row: Sequence[object]) -> list[str]:
    return [text.strip() for text in _texts(row)]


def _texts(row: Sequence[object]) -> list[str]:
    return [_text(cell) for cell in row]


def _text(cell: object) -> str:
    """A cell as text; times as ISO 8601."""
    if cell is None:
        return ""
    if isinstance(cell, datetime):
        return cell.isoformat(sep=" ")
    if isinstance(cell, date | time):
        return cell.isoformat()
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1e15:
        return str(int(cell))
    return str(cell).replace("\u00a0", " ").replace("\u202f", " ").strip()


def _sample(head: bytes, encoding: str, path: Path) -> list[str]:
    """The first lines; a line that says "sep=;" is left out by its lack of cells."""
    text = head.decode(encoding, errors="replace").lstrip("\ufeff\x00")
    lines = text.splitlines()
    if len(head) >= HEAD_BYTES and len(lines) > 1:
        lines.pop()
    elif len(head) >= HEAD_BYTES:
        raise DataError(
            f"{path}: its first line is longer than {HEAD_BYTES >> 10} kB; "
            "a table of readings has one row per time."
        )
    return lines[:SAMPLE_LINES]


def _repeats_header(rows: Sequence[Sequence[str]], frame: Frame) -> bool:
    if frame.header is None:
        return False
    return any(list(row) == list(rows[frame.header]) for row in rows[frame.first :])


def _trimmed(row: Sequence[object]) -> Sequence[object]:
    """A row without empty cells at its end."""
    end = len(row)
    while end and _is_blank(row[end - 1]):
        end -= 1
    return row if end == len(row) else row[:end]


def _is_blank(cell: object) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())


def _filled(row: Sequence[str]) -> bool:
    return any(row)


def redact(path: Path) -> str:
    """A sample of a text table for the report of a misread file, as CSV.

    It holds the lines above the table and the first rows. Names, addresses and numbers of meters
    are masked, and all values are multiplied by one random number; times and the words of headers
    stay.
    """
    kind = recognise(path).name
    head = read_head(path)
    if kind != "table" or head.startswith(b"PAR1"):
        raise DataError(
            f"{path} is no text table, but in the format {kind}: a sample is made of tables only. "
            "Save the table as CSV first, or send what the explanation says."
        )
    lines = head.decode(find_encoding(head), errors="replace").splitlines()[:SAMPLE_ROWS]
    delimiter = find_delimiter(lines)
    rows = [split_line(line.lstrip("\ufeff"), delimiter) for line in lines]
    return _written(rows, delimiter, find_frame(rows, path).first)


def _written(rows: Sequence[Sequence[str]], delimiter: str, first: int) -> str:
    """The rows as text: masked above the data, masked and scaled in it."""
    scale, ids = random.SystemRandom().uniform(0.5, 2.0), dict[str, str]()
    header = max((i for i in range(first) if any(rows[i])), default=-1)
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    for i, row in enumerate(rows):
        known = i == header
        writer.writerow([_masked(cell, scale if i >= first else 1.0, ids, known) for cell in row])
    return out.getvalue()


def _masked(cell: str, scale: float, ids: dict[str, str], known: bool) -> str:
    """A cell without what could name a person: known words, times and units stay."""
    digits = "".join(c for c in cell if c.isdigit())
    kind = cell_kind(cell)
    named = len(digits) >= LEAST_DIGITS and not ({".", ","} & set(cell))
    if kind in ("empty", "time") or not (digits or known or kind == "word"):
        return cell
    if kind == "number" and digits and not named:
        return _scaled(cell, scale)
    if named:
        return ids.setdefault(cell, f"{len(ids) + 1:0{len(cell)}d}")
    if known or find_unit(cell) or has_word(cell, *load_words()["words"]):
        return cell if known or len(cell.split()) < 4 else " ".join(map(_plain, cell.split()))
    return _plain(cell)


def _plain(word: str) -> str:
    """A word that no list holds as letters x and digits 0."""
    if has_word(word, *load_words()["words"]) or find_unit(word):
        return word
    return "".join("x" if c.isalpha() else "0" if c.isdigit() else c for c in word)


def _scaled(cell: str, scale: float) -> str:
    """A number times the scale, with as many decimals and the same marks."""
    mark = max(cell.rfind("."), cell.rfind(","))
    whole, point, rest = (cell, "", "") if mark < 0 else (cell[:mark], cell[mark], cell[mark + 1 :])
    value = float("".join(c for c in whole if c in "-0123456789") + "." + (rest or "0"))
    return f"{value * scale:.{len(rest)}f}".replace(".", point or ".")
