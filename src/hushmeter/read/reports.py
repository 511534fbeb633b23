"""What a person can send when a file is misread: which rule decided what, and a sample.

The sample holds the header and the first rows. Names, addresses and numbers of meters are masked,
and all values are multiplied by one random number; times and the words of headers stay.
"""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Sequence
from pathlib import Path

from hushmeter.errors import HushmeterError
from hushmeter.read.columns import load_table
from hushmeter.read.headers import find_unit, has_word, load_words
from hushmeter.read.recording import ReadOptions, Task
from hushmeter.read.source import find_encoding, read_file, read_head, recognise
from hushmeter.read.text_table import cell_kind, find_delimiter, find_frame, split_line

SAMPLE_ROWS = 60
LEAST_DIGITS = 6  # A whole number of as many digits may name a person or a meter


def explain(path: Path, options: ReadOptions) -> list[str]:
    """Which rule decided about the format, the columns, the unit, the zone and the rows."""
    task = Task(path, options, "beside")
    try:
        found = read_file(task)
    except HushmeterError as error:
        return [*task.reasons, *task.notes, f"Refused: {error}"]
    facts = found.public
    read = (
        f"Read: {facts.readings} rows of {facts.interval_s:g} s from {facts.start} to {facts.end}."
    )
    return [*task.reasons, *facts.notes, *found.remarks, read]


def redact(path: Path, options: ReadOptions) -> str:
    """A sample of a table as CSV text, without identities and with scaled values."""
    kind = recognise(path).name
    task = Task(path, options)
    if kind == "table" and not read_head(path, 4).startswith(b"PAR1"):
        head = read_head(path)
        lines = head.decode(find_encoding(head), errors="replace").splitlines()[:SAMPLE_ROWS]
        delimiter = find_delimiter(lines)
        rows = [split_line(line.lstrip("\ufeff"), delimiter) for line in lines]
    elif kind == "table":
        data, delimiter = load_table(task).data.slice(0, SAMPLE_ROWS), ","
        rows = [data.column_names, *(map(str, row.values()) for row in data.to_pylist())]
    else:
        raise task.error(
            f"is no text table, but in the format {kind}: a sample is made of tables only. Send what "
            "`inspect` explains, or save the table as CSV first."
        )
    return _written(rows, delimiter, find_frame([list(row) for row in rows], path).first)


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
