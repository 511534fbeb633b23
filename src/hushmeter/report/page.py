"""The page: its sections, what it shows of numbers and pictures, and its templates."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushmeter import __version__
from hushmeter.errors import DataError
from hushmeter.files import write_text
from hushmeter.formatting import count_of, format_watts, out_of_100, short_duration
from hushmeter.report.results import Results
from hushmeter.study.figures import sentence

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup
    from matplotlib.figure import Figure

TITLE = "What the meter reveals"
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


Row = Sequence[str | Cell]


class Section:
    """A part of the page for one kind of reader, written by the macros of its template."""

    def __init__(self, environment: Environment, anchor: str, title: str) -> None:
        self.anchor, self.title = anchor, title
        self.headings: list[tuple[str, str]] = []  # Anchor and text, for the table of contents
        self.parts: list[Markup] = []
        known = {"heading": self._heading}
        self._macros: Any = environment.get_template(f"{anchor}.html").make_module(known)

    @property
    def lead(self) -> Markup:
        """The sentences below the title."""
        lead: Markup = self._macros.lead().strip()
        return lead

    def add(self, macro: str, **context: Any) -> None:
        """Write one part of the section."""
        self.parts.append(getattr(self._macros, macro)(**context))

    def _heading(self, text: str) -> Markup:
        from markupsafe import Markup

        anchor = f"{self.anchor}-{len(self.headings) + 1}"
        self.headings.append((anchor, text))
        return Markup('<h3 id="{}">{}</h3>').format(anchor, text)


def write_report(results: Results, path: Path, *, force: bool = False) -> list[Section]:
    """Write the page of all results."""
    from hushmeter.report.sections import SECTIONS

    environment = make_environment()
    sections = []
    for (anchor, title), fill in SECTIONS.items():
        section = Section(environment, anchor, title)
        fill(section, results)
        if section.parts or anchor == "provenance":
            sections.append(section)
    page = environment.get_template("report.html").render(
        title=TITLE,
        lead=_lead(results),
        sections=sections,
        missing=missing_results(results),
        version=__version__,
    )
    write_text(path, page, force=force)
    return sections


def make_environment() -> Environment:
    """The templates of this package; every value is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("hushmeter.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"Cell": Cell, "count_of": count_of}
    environment.filters |= {
        "duration": short_duration,
        "out_of_100": out_of_100,
        "sentence": sentence,
        "three_digits": "{:.3g}".format,
        "watts": format_watts,
    }
    return environment


def missing_results(results: Results) -> list[tuple[str, str]]:
    """Name what is not on the page, and the command that makes it."""
    commands: list[tuple[list[Any], str, str]] = [
        (results.sweeps, "attackers against ε", "hushmeter sweep STUDY.toml -o DIR"),
        (results.receipts, "a release and its receipt", "hushmeter release FILE -e 1 -o OUT.csv"),
        (results.items, "the paper’s figures", "hushmeter reproduce all -o DIR"),
        (results.batteries, "a battery", "hushmeter battery FILE --home HOME -e 1 … -o DIR"),
        (results.prices, "a price for every ε", "hushmeter price --home HOME --trace FILE -o DIR"),
    ]
    return [(what, command) for found, what, command in commands if not found]


def _lead(results: Results) -> str:
    """Return one sentence about the results on the page."""
    parts = []
    for sweep in results.sweeps:
        table = sweep.table
        homes = ", ".join(f"“{home}”" for home in table["home"].unique())
        parts.append(
            f"{count_of(table['attacker'].nunique(), 'attacker')} on {homes} at "
            f"{count_of(table['epsilon'].nunique(), 'value')} of ε"
        )
    counts = (
        (results.items, "reproduced item", None),
        (results.receipts, "release", None),
        (results.batteries, "battery", "batteries"),
        (results.prices, "menu of prices", "menus of prices"),
    )
    for found, one, many in counts:
        if found:
            parts.append(count_of(len(found), one, many))
    return "This page shows " + "; ".join(parts) + "."


def shade(share: float) -> int:
    """Return the nearest shade of a share between 0 and 1; 0 if it is negative or unknown."""
    return 0 if not share > 0 else min(SHADES, int(share * SHADES + 0.5))


def number(value: float, digits: int = 3) -> str:
    """Format a number with few digits, without an exponent and with a real minus sign."""
    word = f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:.0f}"
    return word.replace("-", "−")


def signed(value: float) -> str:
    """Format a number with its sign and three decimals."""
    return f"{round(value, 3) + 0.0:+.3f}".replace("-", "−")


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
