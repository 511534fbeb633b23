"""The manifest of a finished release, and the list of what was left out.

The manifest is written last: a folder without a manifest is not a release. It is public and states
what was promised and which files the folder holds. Everything in it follows from names, times,
options and noisy values. Two lists are for the operator only and lie beside the output folder,
which may be published as a whole: what was left out, with the reasons, and which cells hold no
number and count as 0 W.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from hushmeter import __version__
from hushmeter.errors import DataError
from hushmeter.files import move, parse_json, write_bytes
from hushmeter.fleet.blocks import Problem
from hushmeter.fleet.job import Columns, FleetJob, FleetTerms
from hushmeter.fleet.output_folder import PRIVATE
from hushmeter.fleet.source_folder import output_name
from hushmeter.fleet.task import FileReport

SCHEMA = "hushmeter-fleet-1"
SUMS_SCHEMA = "hushmeter-sums-2"
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Manifest:
    """The manifest of a finished release.

    Attributes
    ----------
    release, stream : str
        Identity of the release, and the series of the meters.
    correction : bool
        True if the release corrects an earlier one.
    terms : FleetTerms
        The promise.
    columns : Columns
        Names of the columns.
    files : tuple of str
        Released files, relative to the folder.
    sha256 : dict
        SHA-256 of every released file by its name, as hexadecimal text.
    facts : dict
        The complete JSON.
    """

    release: str
    stream: str
    correction: bool
    terms: FleetTerms
    columns: Columns
    files: tuple[str, ...]
    sha256: dict[str, str]
    facts: dict[str, Any]


def quarantine_file(folder: Path) -> Path:
    """Return the path of the list of what was left out, beside the output folder."""
    named = _named(folder)
    return named.with_name(f"{named.name}.quarantine.csv")


def _named(folder: Path) -> Path:
    """Return the folder with a name of its own."""
    return folder if folder.name not in ("", "..") else folder.resolve()


def odd_cells_file(folder: Path) -> Path:
    """Return the path of the private list of cells that hold no number."""
    return quarantine_file(folder).with_name(f"{_named(folder).name}.odd-cells.csv")


def write_manifest(
    folder: Path, job: FleetJob, reports: Sequence[FileReport], ledger_head: str
) -> dict[str, Any]:
    """Write the list of what was left out, if there is anything, and then the manifest.

    Nothing is written into the folder if no file was released.

    Parameters
    ----------
    folder : Path
        The output folder.
    job : FleetJob
        The release.
    reports : sequence of FileReport
        The reports of all files.
    ledger_head : str
        Head of the ledger after the release.

    Returns
    -------
    dict
        The manifest.
    """
    facts = describe_release(job, reports, ledger_head)
    write_private_lists(folder, reports)
    if not any(report.state == "released" for report in reports):
        return facts
    # Written in the private folder first, so that a killed job leaves no part of it outside.
    draft = folder / PRIVATE / MANIFEST
    write_bytes(draft, manifest_bytes(facts), force=True, public=True)
    move(draft, folder / MANIFEST)
    return facts


def manifest_bytes(facts: dict[str, Any]) -> bytes:
    """Return a manifest as JSON."""
    return json.dumps(facts, indent=2, ensure_ascii=False).encode() + b"\n"


def write_private_lists(folder: Path, reports: Sequence[FileReport]) -> None:
    """Write the lists of what was left out and of odd cells beside a folder, if there are any."""
    if any(report.problems for report in reports):
        write_bytes(quarantine_file(folder), b"".join(_quarantine_table(reports)), force=True)
    if any(report.odd_cells for report in reports):
        write_bytes(odd_cells_file(folder), b"".join(_odd_cells_table(reports)), force=True)


def describe_release(
    job: FleetJob, reports: Sequence[FileReport], ledger_head: str
) -> dict[str, Any]:
    """Return the manifest as plain values; see `write_manifest` for the parameters."""
    whole = job.to_dict()
    return {
        "schema": SCHEMA,
        "release": job.release,
        "stream": job.stream,
        "correction": job.correction,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "asked": whole["terms"],
        "columns": whole["columns"],
        "kept_without_noise": list(job.keep),
        "promise": job.terms.describe(),
        "charge": job.describe_price(),
        "rows": sum(report.rows for report in reports),
        "released_rows": sum(report.released_rows for report in reports),
        "released_blocks": sum(report.released_blocks for report in reports),
        "files": [_file_facts(report) for report in reports],
        "quarantine": count_problems(reports),
        "ledger_head": ledger_head,
    }


def count_problems(reports: Sequence[FileReport]) -> dict[str, Any]:
    """Count the files and blocks that were left out, and the reasons."""
    reasons: Counter[str] = Counter()
    blocks = 0
    for report in reports:
        reasons.update(_public_reason(p) for p in report.problems)
        blocks += sum(bool(p.meter or p.period or p.row is not None) for p in report.problems)
    return {
        "files": sum(report.state == "quarantined" for report in reports),
        "blocks": blocks,
        "reasons": dict(reasons.most_common()),
    }


def _quarantine_table(reports: Iterable[FileReport]) -> Iterator[bytes]:
    """Yield one line of CSV per problem, the lines of one file together."""
    yield _csv([("file", "meter", "period", "row", "time", "reason")])
    for report in reports:
        yield _csv(
            (report.source, p.meter, p.period, "" if p.row is None else p.row, p.time, p.sentence)
            for p in report.problems
        )


def _odd_cells_table(reports: Iterable[FileReport]) -> Iterator[bytes]:
    """Yield one line of CSV per block with cells that hold no number."""
    yield _csv([("file", "meter", "period", "first_row", "cells_that_count_as_0_W")])
    for report in reports:
        yield _csv((report.source, o.meter, o.period, o.row, o.cells) for o in report.odd_cells)


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a released folder.

    Parameters
    ----------
    folder : Path
        The released folder.

    Returns
    -------
    Manifest

    Raises
    ------
    DataError
        If there is no manifest, it is not one of a fleet, or it names a file outside the folder.
    """
    path, facts = folder / MANIFEST, _read_facts(folder, SCHEMA)
    try:
        terms = FleetTerms(**{**facts["asked"], "clamp": tuple(facts["asked"]["clamp"])})
        released = [file for file in facts["files"] if file["state"] == "released"]
        for file in facts["files"]:
            _check_inside(path, file["file"])
        return Manifest(
            release=facts["release"],
            stream=facts["stream"],
            correction=facts["correction"],
            terms=terms,
            columns=Columns(**facts["columns"]),
            files=tuple(file["file"] for file in released),
            sha256={file["file"]: str(file["sha256"]) for file in released},
            facts=facts,
        )
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} is not the manifest of a fleet.") from None


def _read_facts(folder: Path, *schemas: str) -> dict[str, Any]:
    """The JSON of the manifest of a folder; raise `DataError` unless it has one of the schemas."""
    path = folder / MANIFEST
    try:
        facts = parse_json(path.read_bytes())
    except FileNotFoundError:
        raise DataError(
            f"{folder} has no {MANIFEST}; it is not a finished release of a fleet."
        ) from None
    except ValueError:
        facts = None
    if not isinstance(facts, dict) or facts.get("schema") not in schemas:
        raise DataError(f"{path} is not the manifest of a fleet.")
    return facts


@dataclass(frozen=True)
class _Listed:
    """SHA-256 and number of rows of a released file, as its manifest states them."""

    sha256: str
    rows: int


def _list_files(folder: Path) -> dict[str, _Listed]:
    """The released files of a fleet or of its sums, by their names relative to the folder."""
    path, facts = folder / MANIFEST, _read_facts(folder, SCHEMA, SUMS_SCHEMA)
    if facts["schema"] == SCHEMA:
        manifest = read_manifest(folder)
        rows = {file["file"]: file["released_rows"] for file in manifest.facts["files"]}
        return {name: _Listed(manifest.sha256[name], rows[name]) for name in manifest.files}
    try:
        listed = {
            str(name): _Listed(str(one["sha256"]), int(one["rows"]))
            for name, one in facts["files"].items()
        }
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DataError(f"{path} is not the manifest of a fleet.") from None
    for name in listed:
        _check_inside(path, name)
    return listed


@contextmanager
def open_released(folder: Path, name: str, sha256: str) -> Iterator[BinaryIO]:
    """Open a released file whose bytes are those that the manifest lists.

    Parameters
    ----------
    folder : Path
        The released folder.
    name : str
        Name of the file, relative to the folder.
    sha256 : str
        SHA-256 of the file in the manifest, as hexadecimal text.

    Yields
    ------
    file
        The open file at its beginning.

    Raises
    ------
    DataError
        If the file is missing, leads out of the folder or has another SHA-256.
    """
    path = folder / name
    try:
        if not path.resolve().is_relative_to(folder.resolve()):
            raise DataError(f"{path} is a link that leads out of the released folder.")
        file = path.open("rb")
    except OSError as error:
        raise DataError(
            f"{path} is listed in the manifest but cannot be read: {error.strerror}."
        ) from None
    with file:
        if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
            raise DataError(
                f"{path} is not the file that was released: its SHA-256 is not that of the "
                "manifest; get the folder again from its publisher."
            )
        file.seek(0)
        yield file


def check_released_folder(folder: Path | str) -> list[str]:
    """Compare a released folder with its manifest.

    Parameters
    ----------
    folder : path
        The released folder.

    Returns
    -------
    list of str
        One sentence for everything that differs: files that are missing, changed, not listed or
        have another number of rows, sums that do not add up, and a private folder that was left
        behind. Empty if the folder is exactly what the manifest describes.

    Raises
    ------
    DataError
        If there is no manifest of a fleet or of its sums, or it names a file outside the folder.
    """
    folder = Path(folder)
    files = _list_files(folder)
    problems = list(_wrong_files(folder, files))
    listed = {*files, MANIFEST}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if name.parts[0] == PRIVATE:
            continue
        if not path.is_dir() and name.as_posix() not in listed:
            problems.append(f"{path} is not listed in the manifest; do not publish it.")
    if (folder / PRIVATE).exists():
        problems.append(
            f"{folder / PRIVATE} holds the secrets of an unfinished release; run the release "
            "again with --resume, which removes it."
        )
    return [*problems, *_wrong_totals(folder), *_wrong_promise(folder)]


def _wrong_promise(folder: Path) -> Iterator[str]:
    """Yield a sentence if the promise of a manifest does not follow from what was asked for."""
    from hushmeter.fleet.sum_terms import SumTerms

    facts = _read_facts(folder, SCHEMA, SUMS_SCHEMA)
    try:
        stated, asked = facts["promise"], dict(facts["asked"])
        if stated["version"] != __version__:
            return
        if facts["schema"] == SUMS_SCHEMA:
            due = SumTerms.from_dict(asked).describe(stated["interval_s"])
        else:
            due = FleetTerms(**{**asked, "clamp": tuple(asked["clamp"])}).describe()
    except (KeyError, TypeError, ValueError):
        due = None
    if due is None or json.loads(json.dumps(due)) != stated:
        yield f"{folder / MANIFEST} promises something else than its own terms give."


def _wrong_totals(folder: Path) -> Iterator[str]:
    """Yield one sentence for every total of a fleet that is not the sum over its files."""
    facts = _read_facts(folder, SCHEMA, SUMS_SCHEMA)
    if facts["schema"] == SUMS_SCHEMA:
        # The readings of a sum are not those of its tables, so that nothing can be added up.
        return
    for total in ("rows", "released_rows", "released_blocks"):
        added = sum(file[total] for file in facts["files"] if total in file)
        if facts[total] != added:
            yield (
                f"{folder / MANIFEST} states {facts[total]} {total.replace('_', ' ')}, but its "
                f"files add up to {added}."
            )


def _wrong_files(folder: Path, files: dict[str, _Listed]) -> Iterator[str]:
    """Yield one sentence for every released file that differs from the manifest."""
    import pyarrow as pa
    from pyarrow import parquet

    for name, listed in files.items():
        try:
            with open_released(folder, name, listed.sha256) as file:
                found = parquet.read_metadata(file).num_rows
            if found != listed.rows:
                yield f"{folder / name} has {found} rows, but the manifest states {listed.rows}."
        except DataError as error:
            yield str(error)
        except (pa.ArrowException, OSError):
            yield f"{folder / name} is not a Parquet file."


def _check_inside(manifest: Path, name: str) -> None:
    """Raise `DataError` unless a name stays within the folder of the manifest."""
    parts = {*PurePosixPath(name).parts, *Path(name).parts}
    if not parts or ".." in parts or name.startswith("/") or Path(name).is_absolute():
        raise DataError(f"{manifest} names a file outside its folder: {name!r}; do not use it.")


def _csv(rows: Iterable[tuple[object, ...]]) -> bytes:
    """Encode rows as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _file_facts(report: FileReport) -> dict[str, Any]:
    """Return the public facts of one file."""
    return {
        "file": output_name(report.source),
        "state": report.state,
        "rows": report.rows,
        "released_rows": report.released_rows,
        "released_blocks": report.released_blocks,
        "sha256": report.output_sha256,
        "bytes": report.output_bytes,
    }


def _public_reason(problem: Problem) -> str:
    """Return a reason without amounts of ε, and without the content of a file."""
    if not (problem.meter or problem.period or problem.row is not None):
        # The full sentence may quote what a parser found in the file.
        return "the file cannot be used"
    head, mark, _ = problem.sentence.partition(": ")
    return f"{head})" if mark and "(" in head else problem.sentence.rstrip(".")
