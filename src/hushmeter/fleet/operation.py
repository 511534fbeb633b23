"""The course of a fleet release: planned, begun or resumed, run, and closed by its manifest."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from hushmeter.checks import whole
from hushmeter.errors import DataError, InputError
from hushmeter.fleet.job import FleetJob, FleetTerms, build_mechanism
from hushmeter.fleet.ledger import open_ledger
from hushmeter.fleet.ledger.batch import check_name
from hushmeter.fleet.manifest import MANIFEST, read_manifest, write_manifest
from hushmeter.fleet.pool import protect_in_processes
from hushmeter.fleet.schema import Columns
from hushmeter.fleet.state import STATE, PrivateFolder
from hushmeter.fleet.survey import (
    Footer,
    estimate_bytes,
    find_interval,
    list_files,
    read_footer,
)
from hushmeter.fleet.task import FileReport, find_published
from hushmeter.trace import check_interval

Report = Callable[[FileReport, int, int], None]
"""Called with every finished file, the rows done so far and the rows of all files."""

Schedule = Callable[[FleetJob, Sequence[str]], Iterator[FileReport]]
"""Has `protect_file` called for every file of a job, wherever."""


@dataclass(frozen=True)
class FleetRelease:
    """A finished release.

    Attributes
    ----------
    job : FleetJob
        Without its key, which no longer exists.
    reports : tuple of FileReport
        Empty if the release was finished before.
    manifest : dict
    """

    job: FleetJob
    reports: tuple[FileReport, ...]
    manifest: dict[str, Any]

    @property
    def complete(self) -> bool:
        """Whether nothing was left out."""
        left = self.manifest["quarantine"]
        return not (left["files"] or left["blocks"])


def release_fleet(
    source_dir: Path | str,
    output_dir: Path | str,
    terms: FleetTerms,
    *,
    ledger: str,
    stream: str = "load",
    columns: Columns | None = None,
    jobs: int = 1,
    resume: bool = False,
    correct: bool = False,
    interval_s: int | None = None,
    report: Report | None = None,
    schedule: Schedule | None = None,
    release: str | None = None,
    key: bytes | None = None,
) -> FleetRelease:
    """Release every Parquet file below a folder.

    Parameters
    ----------
    source_dir, output_dir : path
        The output folder is new, empty, or holds an unfinished release to `resume`.
    terms : FleetTerms
        Its interval is replaced by `interval_s`, or by what the first file says.
    ledger : str
        URL of an existing ledger.
    stream : str
        Which series of the meters this is; a (meter, period) is released once per stream.
    columns : Columns, optional
    jobs : int
        Worker processes; 1 works in this process.
    resume : bool
        Go on with a release that was interrupted; the same terms must be given.
    correct : bool
        Release periods again that were released before, with fresh noise. Spends again.
    interval_s : int, optional
        Length of a reading [s].
    report : callable, optional
        See `Report`.
    schedule : callable, optional
        See `Schedule`; worker processes of this machine if not given.
    release, key : optional
        Identity and secret of a replayed release, for tests; drawn afresh otherwise.
    """
    whole("jobs", jobs)
    check_name("stream", stream)
    source, output = Path(source_dir), Path(output_dir)
    _check_folders(source, output)
    files = list_files(source)
    if not files:
        raise DataError(f"{source} holds no .parquet files.")
    folder = PrivateFolder(output)
    value = (columns or Columns()).value
    footers = {name: read_footer(source / name, value) for name in files}
    seconds = interval_s if interval_s is not None else _begun_interval(folder, resume)
    if seconds is None:
        seconds = find_interval(source, files, columns or Columns())
    job = FleetJob(
        replace(terms, interval_s=check_interval(seconds)),
        str(source),
        str(output),
        ledger,
        release or new_release(),
        stream,
        correct,
        columns or Columns(),
    )
    build_mechanism(job.terms)
    open_ledger(ledger).close()
    _check_output(folder, resume)
    with folder.locked():
        # Another job may have come first between the check and the lock.
        _check_output(folder, resume)
        if (output / MANIFEST).exists():
            folder.destroy()
            manifest = read_manifest(output)
            return FleetRelease(replace(job, release=manifest.release), (), manifest.facts)
        job = _begin(folder, job, key, footers)
        protect_all = schedule or partial(protect_in_processes, jobs=jobs)
        return _run(folder, job, files, footers, protect_all, report)


def new_release() -> str:
    """A fresh identity: the time, and eight random digits."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"


def _check_folders(source: Path, output: Path) -> None:
    if not source.is_dir():
        raise DataError(f"{source} is not a folder.")
    inside, outside = source.resolve(), output.resolve()
    if inside == outside or inside in outside.parents or outside in inside.parents:
        raise InputError("the input and the output folder must not lie in one another.")


def _check_output(folder: PrivateFolder, resume: bool) -> None:
    """Refuse a folder with anything in it but an unfinished release to resume."""
    output = folder.output
    if not output.exists():
        return
    if not output.is_dir():
        raise DataError(f"{output} is not a folder.")
    if folder.begun_file.exists():
        if not resume:
            raise DataError(
                f"{output} holds an unfinished release; add --resume to go on with it, or name "
                "another folder."
            )
    elif (output / MANIFEST).exists():
        if not resume:
            raise DataError(f"{output} holds a finished release; name another folder.")
    elif any(path.name != STATE for path in output.iterdir()):
        raise DataError(f"{output} is not empty; name another folder.")


def _begun_interval(folder: PrivateFolder, resume: bool) -> int | None:
    asked = folder.asked if resume else None
    return None if asked is None else int(asked["terms"]["interval_s"])


def _begin(
    folder: PrivateFolder,
    job: FleetJob,
    key: bytes | None,
    footers: dict[str, Footer],
) -> FleetJob:
    """A fresh release with its key, or the interrupted one if it was asked for the same."""
    asked = folder.asked
    if asked is None:
        _check_room(folder.output, job.terms, footers)
        secret = key or secrets.token_bytes(32)
        folder.begin(job.to_dict(), secret)
        return job.with_key(secret)
    before = FleetJob.from_dict(asked, folder.key())
    # The folders may have been mounted elsewhere since.
    before = replace(before, source_dir=job.source_dir, output_dir=job.output_dir)
    same = replace(job, release=before.release, key=before.key)
    if same != before:
        changed = ", ".join(_differences(before.to_dict(), same.to_dict()))
        raise InputError(
            f"{folder.output} holds an unfinished release with another {changed}; resume it with "
            "what it was begun with."
        )
    folder.clear_staging()
    return before


def _check_room(output: Path, terms: FleetTerms, footers: dict[str, Footer]) -> None:
    need, free = estimate_bytes(terms, footers), shutil.disk_usage(output).free
    if need > free:
        raise DataError(
            f"{output} has room for {free / 1e6:.3g} MB and the release takes about "
            f"{need / 1e6:.3g} MB; nothing was spent."
        )


def _differences(before: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    for name, value in now.items():
        if isinstance(value, dict):
            yield from _differences(before[name], value)
        elif before[name] != value:
            yield name


def _run(
    folder: PrivateFolder,
    job: FleetJob,
    files: Sequence[str],
    footers: dict[str, Footer],
    protect_all: Schedule,
    report: Report | None,
) -> FleetRelease:
    total, done = sum(footer.rows for footer in footers.values()), 0
    found: dict[str, FileReport] = {}
    # Held open throughout: the last to leave a SQLite file tidies up, which takes a while.
    with open_ledger(job.ledger) as ledger:
        for finished in protect_all(job, files):
            found[finished.source] = finished
            done += footers[finished.source].rows
            if report is not None:
                report(finished, done, total)
        # Files that were released before and have left the input folder since.
        for name in folder.reported():
            one = None if name in found else find_published(job, name, ledger)
            if one is not None:
                found[name] = one
        reports = tuple(found[name] for name in sorted(found))
        head = str(ledger.head())
    manifest = write_manifest(folder.output, job, reports, head)
    folder.destroy()
    return FleetRelease(job.with_key(b""), reports, manifest)
