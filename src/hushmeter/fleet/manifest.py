"""The manifest of a finished release, and the list of what was left out.

The manifest is written last: a folder without a manifest is not a release. It is public and states
what was promised and which files the folder holds. `quarantine.csv` is for the operator. It names
meters and reasons, but never a reading.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hushmeter.errors import DataError
from hushmeter.fleet.job import Columns, FleetJob, FleetTerms
from hushmeter.fleet.output_folder import write_durably
from hushmeter.fleet.task import FileReport

SCHEMA = "hushmeter-fleet-1"
MANIFEST = "manifest.json"
QUARANTINE = "quarantine.csv"


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
    facts : dict
        The complete JSON.
    """

    release: str
    stream: str
    correction: bool
    terms: FleetTerms
    columns: Columns
    files: tuple[str, ...]
    facts: dict[str, Any]


def write_manifest(
    folder: Path, job: FleetJob, reports: Sequence[FileReport], ledger_head: str
) -> dict[str, Any]:
    """Write quarantine.csv, if anything was left out, and then the manifest.

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
    if any(report.problems for report in reports):
        write_durably(folder / QUARANTINE, _quarantine_table(reports))
    facts = _facts(job, reports, ledger_head)
    path = folder / MANIFEST
    write_durably(path, [json.dumps(facts, indent=2, ensure_ascii=False).encode(), b"\n"])
    path.chmod(0o644)
    return facts


def _facts(job: FleetJob, reports: Sequence[FileReport], ledger_head: str) -> dict[str, Any]:
    """Return the manifest as plain values."""
    whole = job.to_dict()
    return {
        "schema": SCHEMA,
        "release": job.release,
        "stream": job.stream,
        "correction": job.correction,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "asked": whole["terms"],
        "columns": whole["columns"],
        "promise": job.terms.describe(),
        "rows": sum(report.rows for report in reports),
        "released_rows": sum(report.released_rows for report in reports),
        "released_blocks": sum(report.released_blocks for report in reports),
        "files": [_file_facts(report) for report in reports],
        "quarantine": _count_problems(reports),
        "ledger_head": ledger_head,
    }


def _count_problems(reports: Sequence[FileReport]) -> dict[str, Any]:
    """Count what was left out, by reason."""
    reasons: Counter[str] = Counter()
    blocks = 0
    for report in reports:
        reasons.update(_reason(p.sentence) for p in report.problems)
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
        If there is no manifest, or it is not one of a fleet.
    """
    path = folder / MANIFEST
    try:
        facts = json.loads(path.read_bytes())
        if facts["schema"] != SCHEMA:
            raise DataError(f"{path} is not the manifest of a fleet.")
        terms = FleetTerms(**{**facts["asked"], "clamp": tuple(facts["asked"]["clamp"])})
        return Manifest(
            release=facts["release"],
            stream=facts["stream"],
            correction=facts["correction"],
            terms=terms,
            columns=Columns(**facts["columns"]),
            files=tuple(f["file"] for f in facts["files"] if f["state"] == "released"),
            facts=facts,
        )
    except FileNotFoundError:
        raise DataError(
            f"{folder} has no {MANIFEST}; it is not a finished release of a fleet."
        ) from None
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} is not the manifest of a fleet.") from None


def _csv(rows: Iterable[tuple[object, ...]]) -> bytes:
    """Encode rows as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _file_facts(report: FileReport) -> dict[str, Any]:
    """Return the public facts of one file."""
    return {
        "file": report.source,
        "state": report.state,
        "rows": report.rows,
        "released_rows": report.released_rows,
        "released_blocks": report.released_blocks,
        "input_hmac": report.input_digest,
        "sha256": report.output_sha256,
        "bytes": report.output_bytes,
    }


def _reason(sentence: str) -> str:
    """Return what sentences about different meters have in common; their amounts of ε differ."""
    head, mark, _ = sentence.partition(": ")
    return f"{head})" if mark and "(" in head else sentence.rstrip(".")
