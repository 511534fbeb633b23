"""The parts of a page: headings, sentences, tables, pictures and verdicts.

A section is a list of blocks. The template shows each kind of block in one way, so that escaping
and accessibility are handled in one place.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hushmeter.errors import DataError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHADES = 5
LARGEST_SVG = 200_000
"""Above this size [bytes] a picture is embedded as PNG, which is smaller then."""
NARROW = 9 * 160
"""Width of a figure with one panel, as `save_figure` writes it [pixels]."""
KINDS = {".svg": "image/svg+xml", ".png": "image/png"}
STARTS = {".svg": b"<?xml", ".png": b"\x89PNG"}


@dataclass(frozen=True)
class Cell:
    """One cell of a table."""

    text: str
    shade: int = 0  # From 0 (none) to `SHADES` (full). The text always says the same as the shade
    note: str = ""  # Small text below the text


@dataclass(frozen=True)
class Heading:
    """A heading inside a section; the table of contents lists it."""

    kind: ClassVar[str] = "heading"
    text: str
    anchor: str = ""


@dataclass(frozen=True)
class Text:
    """Paragraphs; `role` is "plain", "small" or "key"."""

    kind: ClassVar[str] = "text"
    lines: tuple[str, ...]
    role: str = "plain"


@dataclass(frozen=True)
class Points:
    """A list of sentences, folded under its `summary` if there is one."""

    kind: ClassVar[str] = "points"
    lines: tuple[str, ...]
    summary: str = ""


@dataclass(frozen=True)
class Table:
    """A table whose first column names the row."""

    kind: ClassVar[str] = "table"
    caption: str
    head: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]
    quiet: frozenset[int] = field(default_factory=frozenset)
    """Rows in grey, such as floors."""
    prose: bool = False
    """True if the cells are words, not numbers."""


@dataclass(frozen=True)
class Picture:
    """A picture as a data URI, with a description for people who cannot see it."""

    kind: ClassVar[str] = "picture"
    source: str
    alt: str
    caption: str = ""
    narrow: bool = False


@dataclass(frozen=True)
class Verdict:
    """One item of the paper: its claim, the finding here, and whether they agree."""

    kind: ClassVar[str] = "verdict"
    verdict: str
    tone: str
    why: str
    source: str
    claim: str
    finding: str


Block = Heading | Text | Points | Table | Picture | Verdict


@dataclass(frozen=True)
class Section:
    """A part of the page for one kind of reader."""

    anchor: str
    title: str
    lead: str
    blocks: tuple[Block, ...]


def make_table(
    caption: str,
    head: Sequence[str | Cell],
    rows: Sequence[Sequence[str | Cell]],
    quiet: Sequence[int] = (),
    *,
    prose: bool = False,
) -> Table:
    """Make a table from plain text and cells."""
    return Table(
        caption,
        tuple(map(_cell, head)),
        tuple(tuple(map(_cell, row)) for row in rows),
        frozenset(quiet),
        prose,
    )


def text(*lines: str, role: str = "plain") -> Text:
    """Make paragraphs."""
    return Text(lines, role)


def shade(share: float) -> int:
    """Return the nearest shade of a share between 0 and 1; 0 if it is negative or unknown."""
    return 0 if not share > 0 else min(SHADES, int(share * SHADES + 0.5))


def spread_out(values: Sequence[float], most: int) -> list[float]:
    """Choose at most `most` of the values evenly, with the first and the last among them."""
    places = np.unique(np.linspace(0, len(values) - 1, min(most, len(values))).round().astype(int))
    return [values[i] for i in places]


def epsilon_cell(epsilon: float, unit: str = "one reading") -> Cell:
    """Return the heading of a column: ε with its unit of protection below it."""
    return Cell(f"ε = {epsilon:.3g}", note=unit)


def number(value: float, digits: int = 3) -> str:
    """Format a number with few digits, without an exponent and with a real minus sign."""
    word = f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:.0f}"
    return word.replace("-", "−")


def signed(value: float) -> str:
    """Format a number with its sign and three decimals."""
    return f"{round(value, 3) + 0.0:+.3f}".replace("-", "−")


def _cell(value: str | Cell) -> Cell:
    """Return plain text as a cell."""
    return value if isinstance(value, Cell) else Cell(value)


def embed_file(stem: Path) -> str | None:
    """Return a saved picture as a data URI."""
    files = {kind: stem.with_name(stem.name + kind) for kind in KINDS}
    vector = files[".svg"]
    small = vector.is_file() and vector.stat().st_size <= LARGEST_SVG
    for kind in (".svg", ".png") if small else (".png", ".svg"):
        if files[kind].is_file():
            return _embed_bytes(files[kind].read_bytes(), kind, files[kind].name)
    return None


def is_narrow(stem: Path) -> bool:
    """Return True if a saved figure has only one panel and need not fill the page."""
    file = stem.with_name(stem.name + ".png")
    if not file.is_file():
        return False
    with file.open("rb") as stream:
        head = stream.read(24)
    return int.from_bytes(head[16:20], "big") <= NARROW


def embed_figure(figure: Figure) -> str:
    """Return a figure as a data URI; the same figure gives the same text."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": "hushmeter"}):
        drawn = {kind: io.BytesIO() for kind in KINDS}
        figure.savefig(drawn[".svg"], format="svg", metadata={"Date": None})
        if len(drawn[".svg"].getvalue()) <= LARGEST_SVG:
            return _embed_bytes(drawn[".svg"].getvalue(), ".svg", "figure")
        figure.savefig(drawn[".png"], format="png", dpi=160)
    return _embed_bytes(drawn[".png"].getvalue(), ".png", "figure")


def _embed_bytes(content: bytes, kind: str, name: str) -> str:
    """Return the bytes of a picture as a data URI."""
    if not content.startswith(STARTS[kind]):
        raise DataError(f"{name} is not a picture: make it again.")
    return f"data:{KINDS[kind]};base64," + base64.b64encode(content).decode("ascii")
