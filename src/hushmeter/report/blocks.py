"""What a page is made of: headings, sentences, tables, pictures and verdicts.

Sections are lists of blocks; the template knows one way to show each kind, so that all escaping
and all accessibility is in one place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

SHADES = 5


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    Attributes
    ----------
    text : str
    shade : int
        0 none … `SHADES` full; never the only carrier of what it says.
    note : str
        Small print below the text.
    """

    text: str
    shade: int = 0
    note: str = ""


@dataclass(frozen=True)
class Heading:
    """A heading below that of the section; it is listed in the table of contents."""

    kind: ClassVar[str] = "heading"
    text: str
    anchor: str = ""


@dataclass(frozen=True)
class Text:
    """Paragraphs; the `role` is "plain", "small" or "key"."""

    kind: ClassVar[str] = "text"
    lines: tuple[str, ...]
    role: str = "plain"


@dataclass(frozen=True)
class Points:
    """A list of sentences; folded behind its `summary` if there is one."""

    kind: ClassVar[str] = "points"
    lines: tuple[str, ...]
    summary: str = ""


@dataclass(frozen=True)
class Table:
    """A table: the first column names the row."""

    kind: ClassVar[str] = "table"
    caption: str
    head: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]
    quiet: frozenset[int] = field(default_factory=frozenset)
    """Rows that are set back, such as floors."""
    prose: bool = False
    """Whether the cells are words, not numbers."""


@dataclass(frozen=True)
class Picture:
    """A picture as a data URI, with what it shows for those who do not see it."""

    kind: ClassVar[str] = "picture"
    source: str
    alt: str
    caption: str = ""
    narrow: bool = False


@dataclass(frozen=True)
class Verdict:
    """One item of the paper: what it says, what was found, and whether they agree."""

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
    """A part of the page for one reader."""

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
    """A table from plain text and cells."""
    return Table(
        caption,
        tuple(map(_cell, head)),
        tuple(tuple(map(_cell, row)) for row in rows),
        frozenset(quiet),
        prose,
    )


def text(*lines: str, role: str = "plain") -> Text:
    """Paragraphs."""
    return Text(lines, role)


def shade(share: float) -> int:
    """The nearest shade of a share between 0 and 1; below 0 and unknown are none."""
    return 0 if not share > 0 else min(SHADES, int(share * SHADES + 0.5))


def spread_out(values: Sequence[float], most: int) -> list[float]:
    """At most so many of the values, evenly chosen, the first and the last among them."""
    places = np.unique(np.linspace(0, len(values) - 1, min(most, len(values))).round().astype(int))
    return [values[i] for i in places]


def epsilon_cell(epsilon: float, unit: str = "one reading") -> Cell:
    """ε as the head of a column, with its unit of protection."""
    return Cell(f"ε = {epsilon:.3g}", note=unit)


def number(value: float, digits: int = 3) -> str:
    """A number with few digits, without powers of ten and with a true minus sign."""
    word = f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:.0f}"
    return word.replace("-", "−")


def signed(value: float) -> str:
    """A number with its sign and three decimals."""
    return f"{round(value, 3) + 0.0:+.3f}".replace("-", "−")


def _cell(value: str | Cell) -> Cell:
    return value if isinstance(value, Cell) else Cell(value)
