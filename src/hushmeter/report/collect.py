"""Finding the results of other commands in folders: sweeps, reproduced items, saved answers."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushmeter.errors import DataError, HushmeterError
from hushmeter.files import parse_json
from hushmeter.releases.private_receipt import PRIVATE_SCHEMA as PRIVATE_RECEIPT
from hushmeter.releases.receipt import SCHEMA as RECEIPT
from hushmeter.report import ADVICE, BATTERY, DAY, GUESS, PRICE
from hushmeter.study.definition import read_study
from hushmeter.study.figures import Caption, read_caption
from hushmeter.study.sweep import KEYS
from hushmeter.trace import digest

if TYPE_CHECKING:
    import pandas as pd

    from hushmeter.study.definition import Case, Study

NEEDED = (*KEYS, "alpha", "alpha_floor", "hold_floor", "f1", "hourly_error_w")
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
    advice: list[Saved] = field(default_factory=list)
    days: list[Saved] = field(default_factory=list)
    guesses: list[Saved] = field(default_factory=list)

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
        ADVICE: found.advice,
        DAY: found.days,
        GUESS: found.guesses,
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
    try:
        yield
    except HushmeterError:
        raise
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
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
    """Read the table and the manifest of a sweep."""
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
    """Return the content of a JSON file."""
    try:
        return parse_json(file.read_bytes())
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}.") from None
    except ValueError:
        raise DataError(f"{file} is not a JSON file: write it again.") from None
