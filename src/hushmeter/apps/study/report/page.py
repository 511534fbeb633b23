"""The page: the results that it finds in folders, its sections, and its templates.

One number has one meaning everywhere: an appliance is known correctly in `right` out of all
moments by whoever is best, be it an attacker with the released readings or a guess without them.
"""

from __future__ import annotations

import base64
import io
import math
import os
import re
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushmeter import __version__
from hushmeter.apps.battery.commands import BATTERY
from hushmeter.apps.price.commands import PRICE
from hushmeter.apps.study.figures import Caption, read_caption, sentence
from hushmeter.apps.study.sweep import KEYS, read_study
from hushmeter.errors import DataError, HushmeterError
from hushmeter.files import parse_json, write_text
from hushmeter.formatting import count_of, format_watts, out_of_100, short_duration
from hushmeter.releases.private_receipt import PRIVATE_SCHEMA as PRIVATE_RECEIPT
from hushmeter.releases.receipt import SCHEMA as RECEIPT
from hushmeter.scoring import visibility
from hushmeter.trace import digest

if TYPE_CHECKING:
    import pandas as pd
    from jinja2 import Environment
    from markupsafe import Markup
    from matplotlib.figure import Figure

    from hushmeter.apps.study.sweep import Case, Study

NEEDED = (*KEYS, "alpha", "alpha_floor", "hold_floor", "f1", "hourly_error_w")
INCOMPLETE = (KeyError, TypeError, IndexError, AttributeError, ValueError)
ITEM = re.compile(r"(fig|table)\d+")


@dataclass(frozen=True)
class SweepResult:
    """A finished sweep."""

    folder: Path
    table: pd.DataFrame  # The rows that have scores
    # What decides the result: seed, attackers, digests of the readings, versions
    manifest: dict[str, Any]
    failed: tuple[str, ...]  # Error messages of the cells without a score
    # The plan, if its TOML file was found and describes the readings of the manifest
    study: Study | None

    def case(self, home: str) -> Case | None:
        """Return the home and the readings of a case by its name, if the study is known."""
        cases = () if self.study is None else self.study.cases
        return next((case for case in cases if case.name == home), None)


@dataclass(frozen=True)
class ItemResult:
    """A reproduced figure or table of the paper: its path and its caption."""

    path: Path
    words: Caption


@dataclass(frozen=True)
class Saved:
    """An answer that a command saved as JSON."""

    path: Path
    content: dict[str, Any]


@dataclass
class Results:
    """All results, in the order of the folders and of the file names in them."""

    sweeps: list[SweepResult] = field(default_factory=list)
    items: list[ItemResult] = field(default_factory=list)
    receipts: list[Saved] = field(default_factory=list)
    batteries: list[Saved] = field(default_factory=list)
    prices: list[Saved] = field(default_factory=list)

    def __bool__(self) -> bool:
        return any(vars(self).values())


def collect_results(paths: Sequence[Path]) -> Results:
    """Search files and folders for results. Hidden files and folders are left out.

    If the TOML file of a study is among the paths, the report says more about its sweep.
    """
    files = list(dict.fromkeys(file for path in paths for file in _walk(path)))
    found = Results()
    studies = [study for file in files if file.suffix == ".toml" for study in _studies(file)]
    kinds = {
        RECEIPT: found.receipts,
        BATTERY: found.batteries,
        PRICE: found.prices,
    }
    for file in files:
        if file.name == "cells.jsonl" and not (file.parent / "results.parquet").is_file():
            raise DataError(
                f"the sweep in {file.parent} is not finished: continue it with --resume."
            )
        if file.name == "results.parquet":
            found.sweeps.append(_read_sweep(file, studies))
        elif file.suffix == ".json" and file.name != "manifest.json":
            content = _read_json(file)
            schema = content.get("schema") if isinstance(content, dict) else None
            if schema == PRIVATE_RECEIPT:
                found.receipts.append(Saved(file, _join_receipts(file, content)))
            elif schema in kinds:
                kinds[schema].append(Saved(file, content))
            elif str(schema).startswith("hushmeter-"):
                raise DataError(
                    f"{file} has the schema {schema}, which this version does not know."
                )
        elif file.suffix == ".txt" and ITEM.fullmatch(file.stem):
            found.items.append(ItemResult(file, read_caption(file)))
    private = {saved.path.name for saved in found.receipts if "appliances" in saved.content}
    found.receipts = [
        saved
        for saved in found.receipts
        if "appliances" in saved.content
        or saved.path.name.replace(".receipt.json", ".private.json") not in private
    ]
    if not found:
        names = ", ".join(map(str, paths))
        raise DataError(f"there are no results in {names}: make some with `hushmeter sweep`.")
    return found


def _join_receipts(path: Path, content: dict[str, Any]) -> dict[str, Any]:
    """Return the public part of a receipt with the account of every appliance."""
    with reading(path):
        public = content["receipt"]
        unit = public["unit"] | {"sentence": content["sentence"]}
        private = {name: content[name] for name in ("appliances", "composition_delta")}
        return {**public, "unit": unit, **private}


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn errors about an incomplete file inside the block into one `DataError`."""
    from jinja2 import UndefinedError

    try:
        yield
    except HushmeterError:
        raise
    except (*INCOMPLETE, UndefinedError) as error:
        raise DataError(
            f"{path} is damaged or incomplete ({type(error).__name__}: {error}): write it again."
        ) from None


def _walk(path: Path) -> Iterator[Path]:
    """Yield a file, or all files of a folder in a fixed order."""
    if path.is_file():
        yield path
        return
    if not path.is_dir():
        raise DataError(f"{path} does not exist: name a folder or a file with results.")
    for folder, inner, names in os.walk(path):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        for name in sorted(names):
            if not name.startswith("."):
                yield Path(folder) / name


def _studies(file: Path) -> Iterator[Study]:
    """Yield the study of a TOML file, or nothing if it is another file or its data is missing."""
    try:
        if "case" in tomllib.loads(file.read_text(encoding="utf-8")):
            yield read_study(file)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, HushmeterError):
        return


def _read_sweep(file: Path, studies: Sequence[Study]) -> SweepResult:
    import pandas as pd

    beside = file.parent / "manifest.json"
    if not beside.is_file():
        raise DataError(f"{file} has no manifest.json beside it: run the sweep again.")
    try:
        table = pd.read_parquet(file)
    except Exception as error:  # pyarrow raises many kinds of errors for a damaged file
        reason = str(error).splitlines()[0].rstrip(".")
        raise DataError(f"{file} cannot be read ({reason}): run the sweep again.") from None
    manifest = _read_json(beside)
    errors = [str(e) for e in table["error"].dropna()] if "error" in table else []
    if len(table) and len(errors) == len(table):
        raise DataError(f"every cell of {file} failed: {errors[0].rstrip('.')}.")
    for column in NEEDED:
        if column not in table:
            raise DataError(f"{file} is not the result of a sweep: it has no column {column!r}.")
    scored = table[table["alpha"].notna()].reset_index(drop=True)
    with reading(beside):
        study = next((one for one in studies if _same_readings(one, manifest)), None)
    return SweepResult(file.parent, scored, manifest, tuple(errors), study)


def _same_readings(study: Study, manifest: dict[str, Any]) -> bool:
    """Return True if a study has the readings, the seed and the protection of a manifest."""
    told = (manifest["study"], manifest["seed"], manifest["protect"], manifest["sensitivity"])
    if told != (study.name, study.seed, study.protect, study.sensitivity):
        return False
    cases = {case.name: digest(case.test) for case in study.cases}
    return cases == {case["name"]: case["test"] for case in manifest["cases"]}


def _read_json(file: Path) -> Any:
    try:
        return parse_json(file.read_bytes())
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}.") from None
    except ValueError:
        raise DataError(f"{file} is not a JSON file: write it again.") from None


BLIND = ("all-off", "hold")
"""Attackers that do not look at the readings."""
WITHOUT_DATA = "a guess without your data"
FOLLOWED = 0.5
"""Visibility above which an appliance counts as followed."""


@dataclass(frozen=True)
class BestAttack:
    """One appliance at one ε."""

    # Share of moments in which the best attacker, or a guess without data if that is better, is
    # correct; mean over seeds.
    right: float
    attacker: str  # Label of the attacker, or `WITHOUT_DATA`
    # (right − guess)/(1 − guess): the share of the remaining doubt that the readings remove
    visibility: float


@dataclass(frozen=True)
class ApplianceVisibility:
    """One appliance at every ε."""

    name: str
    # Share of moments in which the best guess without data is correct: “always off”, “always on”,
    # or an attacker of the sweep that does not look at the readings.
    guess: float
    best: dict[float, BestAttack]  # By ε, largest first

    @property
    def followed_down_to(self) -> float | None:
        """The smallest ε down to which the appliance is followed; None if it never is."""
        last = None
        for epsilon, found in self.best.items():
            if not found.visibility > FOLLOWED:
                break
            last = epsilon
        return last


def rate_appliances(sweep: SweepResult, home: str, mechanism: str) -> list[ApplianceVisibility]:
    """Find the best attacker for every appliance of a home at every ε."""
    table = sweep.table
    part = table[(table["home"] == home) & (table["mechanism"] == mechanism)]
    blind = blind_labels(sweep)
    return [_rate(part, name, blind) for name in appliance_names(part)]


def blind_labels(sweep: SweepResult) -> list[str]:
    """Return the labels of the attackers in a sweep that do not look at the readings."""
    return [a["label"] for a in sweep.manifest["attackers"] if a["name"] in BLIND]


def appliance_names(part: pd.DataFrame) -> list[str]:
    """Return the appliances that have scores in these rows, in the order of the columns."""
    columns = [str(c) for c in part if str(c).startswith("alpha ")]
    return [c.removeprefix("alpha ") for c in columns if part[c].notna().any()]


def epsilons_of(part: pd.DataFrame) -> list[float]:
    """Return the values of ε, largest first: from little to much protection."""
    return sorted((float(e) for e in part["epsilon"].unique()), reverse=True)


def _rate(part: pd.DataFrame, name: str, blind: Sequence[str]) -> ApplianceVisibility:
    """Compare the attackers with the best guess for one appliance."""
    column = f"alpha {name}"
    is_blind = part["attacker"].isin(blind)
    guess = _floor(part[column], part[f"visibility {name}"])
    if is_blind.any():
        guess = max(guess, float(part[is_blind].groupby("attacker")[column].mean().max()))
    seeing = part[~is_blind] if not is_blind.all() else part
    best = {e: _best(seeing[seeing["epsilon"] == e], name, guess) for e in epsilons_of(part)}
    return ApplianceVisibility(name, guess, best)


def _best(rows: pd.DataFrame, name: str, guess: float) -> BestAttack:
    """Return the attacker with the highest mean at one ε; NaN if all of them failed."""
    columns = [f"alpha {name}", f"visibility {name}"]
    means = rows.groupby("attacker", sort=False)[columns].mean()
    if means.empty:
        return BestAttack(math.nan, "nobody", math.nan)
    values = means.to_numpy(dtype=float)
    place = int(values[:, 0].argmax())
    right, measured = float(values[place, 0]), float(values[place, 1])
    if math.isnan(guess):
        # An attacker was always correct, so the guess cannot be computed from the table, but the
        # visibility was measured.
        return BestAttack(right, str(means.index[place]), measured)
    if right <= guess:
        return BestAttack(guess, WITHOUT_DATA, visibility(guess, guess))
    return BestAttack(right, str(means.index[place]), visibility(right, guess))


def _floor(alpha: pd.Series, measured: pd.Series) -> float:
    """Return the guess without data, α_floor = (α − v)/(1 − v), where this is most exact.

    An appliance that never switches has no visibility, and a guess about it is always correct.
    """
    known = measured.notna()
    if not known.any():
        return 1.0
    at = int(measured[known].argmin())
    a, v = float(alpha[known].iloc[at]), float(measured[known].iloc[at])
    return (a - v) / (1 - v) if v < 1 else math.nan


TITLE = "What the meter reveals"
SHADES = 5
LARGEST_SVG = 200_000
"""Above this size [bytes] a picture is embedded as PNG, which is smaller then."""
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
    from hushmeter.apps.study.report.sections import SECTIONS

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
        loader=PackageLoader("hushmeter.apps.study.report"),
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
