"""A whole fleet release: it is planned, begun or resumed, run, and finished by its manifest."""

from __future__ import annotations

import math
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from hushmeter.checks import whole
from hushmeter.errors import DataError, InputError
from hushmeter.fleet.input_files import Footer, read_footer
from hushmeter.fleet.job import Columns, FleetJob, FleetTerms, InputFormat, build_mechanism
from hushmeter.fleet.manifest import (
    MANIFEST,
    describe_release,
    read_manifest,
    write_manifest,
)
from hushmeter.fleet.output_folder import PRIVATE, PrivateFolder
from hushmeter.fleet.source_folder import (
    SourceFolder,
    is_url,
    list_files,
    open_source,
    output_name,
)
from hushmeter.fleet.task import (
    PATIENCE_S,
    FileReport,
    Task,
    check_file,
    find_published,
    protect_file,
)
from hushmeter.fleet.workers import run_in_processes
from hushmeter.ledger import Ledger, open_ledger
from hushmeter.ledger.transactions import check_name
from hushmeter.trace import check_interval

Report = Callable[[FileReport, int, int], None]
"""Called with every finished file, the rows done so far and the rows of all files."""

Schedule = Callable[[Task, FleetJob, Sequence[str]], Iterator[FileReport]]
"""Runs a task for every file of a job, on any machine, and yields the reports."""

Find = Callable[[Any, str, Ledger], FileReport | None]
"""Returns the report of a file that an earlier attempt finished and paid for, or None."""

Job = TypeVar("Job", bound=FleetJob)


@dataclass(frozen=True)
class FleetRelease:
    """A finished release.

    Attributes
    ----------
    job : FleetJob
        The job without its key, which no longer exists.
    reports : tuple of FileReport
        One per file; empty if the release was finished before.
    manifest : dict
        The manifest.
    """

    job: FleetJob
    reports: tuple[FileReport, ...]
    manifest: dict[str, Any]

    @property
    def complete(self) -> bool:
        """True if nothing was left out."""
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
    keep: Sequence[str] = (),
    form: InputFormat | None = None,
    jobs: int = 1,
    resume: bool = False,
    correct: bool = False,
    interval_s: int | None = None,
    dry_run: bool = False,
    head: str | None = None,
    report: Report | None = None,
    schedule: Schedule | None = None,
    release: str | None = None,
    key: bytes | None = None,
) -> FleetRelease:
    """Release every Parquet and CSV file below a folder.

    If nothing can be released, the output folder is not made, and no manifest is written.

    Parameters
    ----------
    source_dir : path or str
        The input folder, or its URL; see `open_source`.
    output_dir : path
        The output folder is new, empty, or holds an unfinished release to `resume`.
    terms : FleetTerms
        The promise. Its interval is replaced by `interval_s`, or by that of the first file.
    ledger : str
        URL of an existing ledger.
    stream : str
        Which series of the meters this is; a (meter, period) is released once per stream.
    columns : Columns, optional
        Names of the input columns.
    keep : sequence of str
        Names of further columns that are published unchanged, without noise.
    form : InputFormat, optional
        Unit and time zone of files that do not state them.
    jobs : int
        Number of worker processes; 1 works in this process.
    resume : bool
        Continue a release that was interrupted; the same terms must be given.
    correct : bool
        Release periods again that were released before, with fresh noise and a new charge.
    interval_s : int, optional
        Length of a reading [s].
    dry_run : bool
        Read and check every file and ask the ledger, but spend and write nothing. The manifest
        of the result states what would be released.
    head : str, optional
        An earlier end of the ledger, such as the `ledger_head` of the last manifest. A ledger
        that does not contain it is refused.
    report : callable, optional
        See `Report`.
    schedule : callable, optional
        See `Schedule`; worker processes of this machine if not given.
    release, key : optional
        Identity and secret of a replayed release, for tests; drawn at random otherwise.

    Returns
    -------
    FleetRelease

    Raises
    ------
    InputError
        If a parameter is wrong; nothing was spent or written.
    DataError
        If a folder, a file or the ledger cannot be used.
    """
    whole("jobs", jobs)
    check_name("stream", stream)
    source, output = open_folders(source_dir, output_dir)
    files = list_files(source)
    folder = PrivateFolder(output)
    value = (columns or Columns()).value
    footers = {name: read_footer(source, name, value) for name in files}
    rows = {name: footer.rows for name, footer in footers.items()}
    seconds = interval_s if interval_s is not None else begun_interval(folder, resume)
    if seconds is None:
        seconds = find_interval(source, files, columns or Columns())
    job = FleetJob(
        replace(terms, interval_s=check_interval(seconds)),
        source.name,
        str(output),
        ledger,
        release or new_release(),
        stream,
        correct,
        columns or Columns(),
        _check_keep(keep, columns or Columns()),
        replace(form or InputFormat(), interval_s=interval_s),
    )
    build_mechanism(job.terms)
    with open_ledger(ledger, patience_s=PATIENCE_S) as opened:
        if head is not None:
            opened.check_head(head)
        job = job.paid_in(opened)
    check_output(folder, resume)
    if dry_run:
        if resume:
            raise InputError("a dry run cannot resume a release; leave out --resume or --dry-run.")
        reports, mark = rehearse(job, rows, report)
        facts = describe_release(job, reports, mark)
        facts |= {"dry_run": True, "estimated_bytes": estimate_bytes(job.terms, footers)}
        return FleetRelease(job, reports, facts)
    with folder.locked():
        # Another job may have come first between the check and the lock.
        check_output(folder, resume)
        if (output / MANIFEST).exists():
            folder.destroy()
            manifest = read_manifest(output)
            return FleetRelease(replace(job, release=manifest.release), (), manifest.facts)
        if folder.asked is None:
            _check_room(output, job.terms, footers)
        job = begin_or_continue(folder, job, key)
        reports, mark = run_all(
            protect_file, find_published, folder, job, rows, schedule, jobs, report
        )
        released = {output_name(one.source) for one in reports if one.state == "released"}
        folder.remove_unlisted(released)
        facts = write_manifest(output, job, reports, mark)
        folder.destroy()
        return FleetRelease(job.with_key(b""), reports, facts)


def _check_keep(keep: Sequence[str], columns: Columns) -> tuple[str, ...]:
    """Return the sorted names of columns to keep; refuse one that is released with noise."""
    for name in keep:
        if name in columns.names:
            raise InputError(f"column {name!r} is released in any case; do not keep it.")
    return tuple(sorted(set(keep)))


def new_release() -> str:
    """Return a new identity: the time and eight random digits."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"


def find_interval(source: SourceFolder, files: Sequence[str], columns: Columns) -> int:
    """Return the interval of the first row that has one [s]; like the times it is public."""
    import pyarrow as pa
    from pyarrow import parquet

    for name in files:
        try:
            with source.open(name) as raw:
                file = parquet.ParquetFile(raw)
                batches = file.iter_batches(1024, columns=[columns.interval], use_threads=False)
                values = next(batches).column(0).drop_null().to_pylist()
            return check_interval(values[0])
        except (pa.ArrowException, OSError, InputError, StopIteration, IndexError, KeyError):
            continue
    raise DataError(
        f"no file of {source.name} states in its first rows, in column {columns.interval!r}, how "
        "many seconds a reading lasts; give --interval."
    )


def estimate_bytes(terms: FleetTerms, footers: dict[str, Footer]) -> int:
    """Estimate the size of the output.

    Parameters
    ----------
    terms : FleetTerms
        The promise.
    footers : dict
        Footers of the input files by name.

    Returns
    -------
    int
        Estimated size [bytes].

    Notes
    -----
    A value takes the entropy of its noise, at most log2(σ/g·√(2πe)) bits. Compressed values take
    about a tenth more.
    """
    noise = build_mechanism(terms)
    bits = math.log2(max(2.0, noise.std / noise.grid * math.sqrt(2 * math.pi * math.e)))
    return sum(int(f.other_bytes + 1.2 * bits / 8 * f.rows) for f in footers.values())


def open_folders(source_dir: Path | str, output_dir: Path | str) -> tuple[SourceFolder, Path]:
    """Return the input folder and the path of the output folder.

    Parameters
    ----------
    source_dir : path or str
        A folder of this machine, or a URL.
    output_dir : path or str
        A folder of this machine.

    Returns
    -------
    source : SourceFolder
    output : Path

    Raises
    ------
    InputError
        If the output is a URL, or one of the folders contains the other.
    DataError
        If there is no such input folder.
    """
    if is_url(output_dir):
        raise InputError(
            "the output must be a folder of this machine or a mounted file system, because an "
            "object store has neither locks nor renames, which keep unpaid and incomplete files "
            f"out of a release; got {output_dir}. Release into a folder, and copy it with "
            "manifest.json last."
        )
    source, output = open_source(source_dir), Path(output_dir)
    if not is_url(source.name):
        inside, outside = Path(source.name).resolve(), output.resolve()
        if inside == outside or inside in outside.parents or outside in inside.parents:
            raise InputError("the input and the output folder must not contain one another.")
    return source, output


def check_output(folder: PrivateFolder, resume: bool) -> None:
    """Raise `DataError` if a folder holds anything except a release to `resume`."""
    output = folder.output
    if not output.exists():
        return
    if not output.is_dir():
        raise DataError(f"{output} is not a folder.")
    if folder.begun_file.exists():
        if not resume:
            raise DataError(
                f"{output} holds an unfinished release; add --resume to continue it, or name "
                "another folder."
            )
    elif (output / MANIFEST).exists():
        if not resume:
            raise DataError(f"{output} holds a finished release; name another folder.")
    elif any(path.name != PRIVATE for path in output.iterdir()):
        raise DataError(f"{output} is not empty; name another folder.")


def begun_interval(folder: PrivateFolder, resume: bool) -> int | None:
    """Return the interval of the release to resume, or None."""
    asked = folder.asked if resume else None
    return None if asked is None else int(asked["terms"]["interval_s"])


def begin_or_continue(folder: PrivateFolder, job: Job, key: bytes | None) -> Job:
    """Begin a new release with a key, or continue the interrupted one if it asked for the same.

    Parameters
    ----------
    folder : PrivateFolder
        The private folder, which is locked.
    job : FleetJob
        The release.
    key : bytes or None
        Key of a new release; drawn at random if None.

    Returns
    -------
    FleetJob
        The job with its identity and its key.

    Raises
    ------
    InputError
        If an unfinished release in the folder asked for something else.
    """
    asked = folder.asked
    if asked is None:
        secret = key or secrets.token_bytes(32)
        folder.begin(job.to_dict(), secret)
        return replace(job, key=secret)
    if asked.keys() != job.to_dict().keys():
        raise InputError(
            f"{folder.output} holds an unfinished release of another command; resume it with the "
            "command with which it was begun."
        )
    before = type(job).from_dict(asked, folder.key())
    # The folders may be mounted elsewhere now.
    before = replace(before, source_dir=job.source_dir, output_dir=job.output_dir)
    same = replace(job, release=before.release, key=before.key)
    if same != before:
        changed = ", ".join(_differences(before.to_dict(), same.to_dict()))
        raise InputError(
            f"{folder.output} holds an unfinished release with another {changed}; resume it with "
            "the options with which it was begun."
        )
    folder.clear_staging()
    return before


def _check_room(output: Path, terms: FleetTerms, footers: dict[str, Footer]) -> None:
    """Refuse a disk that is too small for the whole release."""
    need, free = estimate_bytes(terms, footers), shutil.disk_usage(output).free
    if need > free:
        raise DataError(
            f"{output} has room for {free / 1e6:.3g} MB and the release takes about "
            f"{need / 1e6:.3g} MB; nothing was spent."
        )


def _differences(before: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    """Yield the names of values that differ, also within nested dictionaries."""
    for name, value in now.items():
        if isinstance(value, dict):
            yield from _differences(before[name], value)
        elif before[name] != value:
            yield name


def _check_kept_head(folder: PrivateFolder, ledger: Ledger) -> None:
    """Refuse a ledger that has forgotten what this release knows of it."""
    kept = folder.head()
    if kept is not None:
        ledger.check_head(kept)


def rehearse(
    job: FleetJob, rows: dict[str, int], report: Report | None
) -> tuple[tuple[FileReport, ...], str]:
    """Check all files and find out what the ledger would grant; nothing is spent or written.

    See `run_all` for the parameters and the result.
    """
    total, done = sum(rows.values()), 0
    checked = []
    for name in rows:
        checked.append(check_file(job, name))
        done += rows[name]
        if report is not None:
            report(checked[-1].report, done, total)
    with open_ledger(job.ledger) as ledger:
        outcomes = ledger.rehearse(
            job.charge,
            micro=job.price.micro,
            femto=job.price.femto,
            sources={one.report.source: (one.meters, one.periods) for one in checked},
        )
        head = str(ledger.head())
    return tuple(one.after(outcomes[one.report.source]) for one in checked), head


def run_all(
    task: Task,
    find_done: Find,
    folder: PrivateFolder,
    job: FleetJob,
    rows: dict[str, int],
    schedule: Schedule | None,
    jobs: int,
    report: Report | None,
) -> tuple[tuple[FileReport, ...], str]:
    """Run a task for all files of a release, and watch the ledger meanwhile.

    Parameters
    ----------
    task : callable
        The work on one file.
    find_done : callable
        Finds files that an earlier attempt finished and that are no longer in the input.
    folder : PrivateFolder
        The private folder.
    job : FleetJob
        The release.
    rows : dict
        Number of rows of every file, for the progress bar.
    schedule : callable or None
        See `Schedule`; worker processes of this machine if None.
    jobs : int
        Number of these worker processes.
    report : callable or None
        See `Report`.

    Returns
    -------
    reports : tuple of FileReport
        Sorted by the names of the files.
    head : str
        The end of the ledger.

    Raises
    ------
    DataError
        If the ledger was replaced by an older copy.
    """
    total, done = sum(rows.values()), 0
    found: dict[str, FileReport] = {}
    run = schedule or partial(run_in_processes, jobs=jobs)
    # The ledger stays open: the last connection that closes a SQLite file cleans up, which is slow.
    with open_ledger(job.ledger, patience_s=PATIENCE_S) as ledger:
        _check_kept_head(folder, ledger)
        folder.write_head(str(ledger.head()))
        for finished in run(task, job, list(rows)):
            found[finished.source] = finished
            done += rows[finished.source]
            folder.write_head(str(ledger.head()))
            if report is not None:
                report(finished, done, total)
        for name in folder.reported():
            one = None if name in found else find_done(job, name, ledger)
            if one is not None:
                found[name] = one
        # Opened again, because the file of the ledger may have been replaced meanwhile.
        with open_ledger(job.ledger, patience_s=PATIENCE_S) as again:
            _check_kept_head(folder, again)
            head = str(again.head())
    return tuple(found[name] for name in sorted(found)), head
