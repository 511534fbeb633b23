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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from hushmeter.errors import DataError
from hushmeter.files import parse_json, write_bytes
from hushmeter.fleet.blocks import Problem
from hushmeter.fleet.job import (
    Columns,
    FleetJob,
    FleetTerms,
    Terms,
    describe_charge,
    mark_of,
    plain,
    read_terms,
)
from hushmeter.fleet.output_folder import MARK, PRIVATE
from hushmeter.fleet.source_folder import output_name
from hushmeter.fleet.sum_terms import SumTerms
from hushmeter.fleet.task import FileReport
from hushmeter.ledger import DayChange
from hushmeter.releases.verify import compare_entries

MANIFEST = "manifest.json"
LATER = ("finished", "rows", "released_rows", "released_blocks", "files", "quarantine",
         "ledger_head")  # fmt: skip
"""Entries of a manifest that are known only after the last file, so that no file marks them."""

KNOWN = ("schema", "release", "stream", "correction", "asked", "columns", "kept_without_noise",
         "promise", "charge")  # fmt: skip
"""The other entries of a manifest; see `FleetJob.facts`."""

FILE = {"file", "state", "rows", "released_rows", "released_blocks", "sha256", "bytes"}
"""Entries of a released file; a table of sums has no readings and blocks of its own."""


@dataclass(frozen=True)
class Manifest:
    """The manifest of a finished release."""

    terms: Terms  # What was asked for
    columns: Columns  # Names of the columns of the input
    # SHA-256 of every released file by its name relative to the folder, as hexadecimal text
    sha256: dict[str, str]
    rows: dict[str, int]  # Number of rows of every released file by its name
    facts: dict[str, Any]  # The complete JSON


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
    job: FleetJob,
    reports: Sequence[FileReport],
    ledger_head: str,
    tables: Mapping[str, bytes] | None,
) -> dict[str, Any]:
    """Return the manifest as plain values; `tables` are the files of sums, None for series."""
    files = [_file_facts(report) for report in reports]
    if tables is not None:
        files = [_table_facts(name, content) for name, content in tables.items()]
    return job.facts | {
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "rows": sum(report.rows for report in reports),
        "released_rows": sum(report.released_rows for report in reports),
        "released_blocks": sum(report.released_blocks for report in reports),
        "files": files,
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

    Raise `DataError` if there is none, it is not one of a fleet or of its sums, or it names a file
    outside the folder.
    """
    path = folder / MANIFEST
    try:
        facts = parse_json(path.read_bytes())
        if facts["schema"] not in (FleetTerms.schema, SumTerms.schema):
            raise ValueError
        released = {f["file"]: f for f in facts["files"] if f["sha256"]}
        for file in facts["files"]:
            _check_inside(path, file["file"])
        _check_entries(facts)
        return Manifest(
            read_terms(facts["schema"], facts["asked"]),
            Columns(**facts["columns"]),
            {name: str(file["sha256"]) for name, file in released.items()},
            {name: int(file["released_rows"]) for name, file in released.items()},
            facts,
        )
    except FileNotFoundError:
        raise DataError(
            f"{folder} has no {MANIFEST}; it is not a finished release of a fleet."
        ) from None
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} is not the manifest of a fleet.") from None


@contextmanager
def open_released(folder: Path, name: str, sha256: str) -> Iterator[BinaryIO]:
    """Open a released file whose bytes have the SHA-256 of the manifest, at its beginning.

    Raise `DataError` if the file is missing, leads out of the folder or has another SHA-256.
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
    """Compare a released folder with its manifest, and the manifest with its own terms.

    Return one sentence for everything that differs: files that are missing, changed, not listed or
    of another release, numbers that do not add up, and entries of the promise and of the charge
    that do not follow from what was asked for. Raise `DataError` as `read_manifest` does.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    problems = list(_wrong_files(folder, manifest))
    listed = {*manifest.sha256, MANIFEST}
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
    where = str(folder / MANIFEST)
    return [*problems, *_wrong_totals(where, manifest), *_wrong_promise(where, manifest)]


def _wrong_promise(where: str, manifest: Manifest) -> Iterator[str]:
    """Yield a sentence if an entry does not follow from what was asked for."""
    facts, terms = manifest.facts, manifest.terms
    try:
        charge, version = facts["charge"], {"version": facts["promise"]["version"]}
        protects = DayChange.from_dict(charge["protects"])
        due = {
            "promise": terms.describe() | version,
            "charge": describe_charge(terms, protects, charge["composition_delta"]),
        }
        for name, value in due.items():
            compare_entries(where, name, facts[name], plain(value))
    except DataError as error:
        yield str(error)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        yield f"{where} has a missing or an impossible entry ({error})."


def _wrong_totals(where: str, manifest: Manifest) -> Iterator[str]:
    """Yield one sentence for every total of series that is not the sum over the files."""
    facts = manifest.facts
    if isinstance(manifest.terms, SumTerms):
        # The readings of a sum are not those of its tables, so that nothing can be added up.
        return
    for total in ("rows", "released_rows", "released_blocks"):
        added = sum(file[total] for file in facts["files"])
        if facts[total] != added:
            yield (
                f"{where} states {facts[total]} {total.replace('_', ' ')}, but its files add up to "
                f"{added}."
            )


def _wrong_files(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Yield one sentence for every released file that differs from the manifest."""
    import pyarrow as pa
    from pyarrow import parquet

    sizes = {file["file"]: file["bytes"] for file in manifest.facts["files"]}
    mark = mark_of({n: value for n, value in manifest.facts.items() if n not in LATER})
    for name, sha256 in manifest.sha256.items():
        try:
            with open_released(folder, name, sha256) as file:
                footer = parquet.read_metadata(file)
                size = file.seek(0, io.SEEK_END)
        except DataError as error:
            yield str(error)
            continue
        except (pa.ArrowException, OSError):
            yield f"{folder / name} is not a Parquet file."
            continue
        if footer.num_rows != manifest.rows[name]:
            yield (
                f"{folder / name} has {footer.num_rows} rows, but the manifest states "
                f"{manifest.rows[name]}."
            )
        if size != sizes[name]:
            yield f"{folder / name} has {size} bytes, but the manifest states {sizes[name]}."
        if (footer.metadata or {}).get(MARK, b"").decode() != mark:
            yield f"{folder / name} belongs to a release with another manifest."


def _check_entries(facts: Mapping[str, Any]) -> None:
    """Raise `ValueError` unless a manifest has the entries that this version writes."""
    series = facts["schema"] == FleetTerms.schema
    wanted = FILE if series else FILE - {"rows", "released_blocks"}
    kinds = {kind: kind == "released" for kind in ("released", "quarantined", "empty")}
    if (
        facts.keys() != {*KNOWN, *LATER}
        or facts["quarantine"].keys() != count_problems(()).keys()
        or any(file.keys() != wanted for file in facts["files"])
        or any(kinds[file["state"]] != bool(file["sha256"]) for file in facts["files"])
    ):
        raise ValueError


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


def _table_facts(name: str, content: bytes) -> dict[str, Any]:
    """Return the public facts of one table of sums."""
    import pyarrow as pa
    from pyarrow import parquet

    return {
        "file": name,
        "state": "released",
        "released_rows": parquet.read_metadata(pa.BufferReader(content)).num_rows,
        "sha256": hashlib.sha256(content).hexdigest(),
        "bytes": len(content),
    }
