"""A whole fleet release: it is planned, begun or resumed, run, and finished by its manifest.

Series and sums have one frame: the files are listed and checked, the ledger is asked, every file is
a task that pays before it leaves anything, and the manifest makes the folder a release. They differ
in what a task leaves: a noisy file, or exact sums that get their noise at the end. Two lists are
for the operator only and lie beside the output folder, which may be published as a whole: what was
left out, with the reasons, and which cells hold no number and count as 0 W.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import secrets
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushmeter.apps.fleet.folders import (
    PRIVATE,
    PrivateFolder,
    SourceFolder,
    is_url,
    list_files,
    open_source,
)
from hushmeter.apps.fleet.input_files import Footer, read_footer
from hushmeter.apps.fleet.job import (
    Columns,
    FleetJob,
    InputFormat,
    Terms,
    errors_of,
)
from hushmeter.apps.fleet.meter_periods import Problem
from hushmeter.apps.fleet.released_folder import MANIFEST, read_manifest
from hushmeter.apps.fleet.series import table_bytes
from hushmeter.apps.fleet.sum_terms import SumTerms
from hushmeter.apps.fleet.task import (
    PATIENCE_S,
    FileReport,
    Schedule,
    check_file,
    find_done,
    product_of,
    protect_file,
    run_in_processes,
)
from hushmeter.apps.ledger import Ledger, open_ledger
from hushmeter.apps.ledger.spending import check_name
from hushmeter.checks import positive, whole
from hushmeter.errors import DataError, InputError
from hushmeter.files import DAMAGED, one_sentence, parse_json, write_text
from hushmeter.releases.verify import make_signature
from hushmeter.trace import check_interval

if TYPE_CHECKING:
    import pandas as pd

Report = Callable[[FileReport, int, int], None]
"""Called with every finished file, the rows done so far and the rows of all files."""


@dataclass(frozen=True)
class JobOptions:
    """How a release is run; what it promises is in its terms."""

    ledger: str = field(repr=False)  # URL of an existing ledger
    # Which series of the meters this is, by default "load" or "sums"; a (meter, period) is released
    # once per stream.
    stream: str | None = None
    columns: Columns = field(default_factory=Columns)  # Names of the input columns
    # Names of further columns that a series publishes unchanged, without noise
    keep: Sequence[str] = ()
    # Unit and time zone of files that do not state them
    form: InputFormat = field(default_factory=InputFormat)
    interval_s: int | None = None  # Length of a reading [s]; by default that of the first file
    jobs: int = 1  # Number of worker processes; 1 works in this process
    resume: bool = False  # Continue a release that was interrupted; the same terms must be given
    # Release periods again that were released before, with fresh noise and a new charge
    correct: bool = False
    # Read and check every file and ask the ledger, but spend and write nothing. The manifest of the
    # result states what would be released.
    dry_run: bool = False
    # An earlier end of the ledger, such as the `ledger_head` of the last manifest. A ledger that
    # does not contain it is refused.
    head: str | None = None
    # Mean load of the smallest group, or of a meter, as far as it is public [W]. Noise above it is
    # refused unless it is accepted, because a second, better release must be paid for again.
    load_w: float | None = None
    accept_noise: bool = False
    signing_key: Path | None = None  # File with the Ed25519 key that signs the manifest
    # See `Report` and `Schedule`; worker processes of this machine if no schedule is given
    report: Report | None = None
    schedule: Schedule | None = None
    # Identity and secret of a replayed release, for tests; drawn at random otherwise
    release: str | None = None
    key: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        whole("jobs", self.jobs)
        if self.load_w is not None:
            positive("load", self.load_w)
        if self.stream is not None:
            check_name("stream", self.stream)
        if self.dry_run and self.resume:
            raise InputError("a dry run cannot resume a release; leave out --resume or --dry-run.")
        for name in self.keep:
            if name in self.columns.names:
                raise InputError(f"column {name!r} is released in any case; do not keep it.")


@dataclass(frozen=True)
class FleetRelease:
    """A finished release."""

    job: FleetJob  # The job without its key, which no longer exists
    reports: tuple[FileReport, ...]  # One per file; empty if the release was finished before
    manifest: dict[str, Any]  # The manifest
    # The published tables of sums by name, unless the release was finished before
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """True if nothing was left out."""
        left = self.manifest["quarantine"]
        return not (left["files"] or left["blocks"])


def release_fleet(
    source_dir: Path | str, output_dir: Path | str, terms: Terms, options: JobOptions
) -> FleetRelease:
    """Release the series, or the sums, of every Parquet and CSV file below a folder or a URL.

    The output folder is new, empty, or holds an unfinished release to resume. If nothing can be
    released, it is not made, and no manifest is written. Raise `InputError` if a parameter is
    wrong, and `DataError` if a folder, a file or the ledger cannot be used.
    """
    source, output = open_folders(source_dir, output_dir)
    if options.signing_key is not None:
        # A key that cannot be used is refused before anything is paid for.
        make_signature({}, options.signing_key)
    folder = PrivateFolder(output)
    value = options.columns.value
    footers = {name: read_footer(source, name, value) for name in list_files(source)}
    job = _plan(source, folder, terms, options, list(footers))
    check_output(folder, options.resume)
    if options.dry_run:
        return _rehearse(job, footers, options)
    with folder.locked():
        # Another job may have come first between the check and the lock.
        check_output(folder, options.resume)
        if (output / MANIFEST).exists():
            folder.destroy()
            facts = read_manifest(output).facts
            return FleetRelease(replace(job, release=facts["release"]), (), facts)
        if folder.asked is None:
            _check_room(job, footers)
        job = begin_or_continue(folder, job, options.key)
        if folder.sealed:
            return _publish(folder, job)
        reports, head = _run_all(folder, job, footers, options)
        return _finish(folder, job, reports, head, options.signing_key)


def _plan(
    source: SourceFolder,
    folder: PrivateFolder,
    terms: Terms,
    options: JobOptions,
    files: Sequence[str],
) -> FleetJob:
    """Return the job with its promise and its price; nothing is written."""
    seconds = options.interval_s
    with _undamaged(folder):
        asked = folder.asked if options.resume else None
        if seconds is None and asked is not None:
            seconds = int(asked["terms"]["interval_s"])
    if seconds is None:
        seconds = find_interval(source, files, options.columns)
    job = FleetJob(
        replace(terms, interval_s=check_interval(seconds)),
        source.name,
        str(folder.output),
        options.ledger,
        options.release or f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}",
        options.stream or terms.stream,
        options.correct,
        options.columns,
        tuple(sorted(set(terms.by or options.keep))),
        replace(options.form, interval_s=options.interval_s),
    )
    with open_ledger(job.ledger, patience_s=PATIENCE_S) as opened:
        if options.head is not None:
            opened.check_head(options.head)
        job = job.paid_in(opened)
    if not options.dry_run and not options.accept_noise:
        _refuse_useless_noise(job.terms, options.load_w)
    return job


def _refuse_useless_noise(terms: Terms, load_w: float | None) -> None:
    """Raise `InputError` if the noise of a table is larger than the load, or that is unknown."""
    if isinstance(terms, SumTerms) and load_w is None and terms.reference is None:
        raise InputError(
            "nobody stated how large the sums are, so their noise cannot be compared with them "
            "before it is paid for; state `load`, the public mean load of the smallest group in "
            "watts, or a `reference` with `min_meters`, or accept any noise with `accept_noise`."
        )
    for one in errors_of(terms, load_w):
        if one.share is not None and one.share > 1:
            raise InputError(
                f"the {one.sentence}, so the table would tell little, and a better second release "
                "would be charged again; choose a larger `epsilon`, a `cap`, a longer `every` or "
                "larger groups, or accept it with `accept_noise`."
            )


def _finish(
    folder: PrivateFolder,
    job: FleetJob,
    reports: tuple[FileReport, ...],
    head: str,
    signing_key: Path | None,
) -> FleetRelease:
    """Seal the tables of sums and the manifest, publish them and destroy the key."""
    product = product_of(job)
    released = [one for one in reports if one.state == "released"]
    folder.remove_unlisted(product.names(released))
    write_private_lists(folder.output, reports)
    tables = product.draw_tables(released) if released else {}
    contents = {f"{name}.parquet": table_bytes(one, job.mark) for name, one in tables.items()}
    facts = describe_release(job, reports, head, product.list_files(reports, contents))
    if not released:
        folder.destroy()
        return FleetRelease(replace(job, key=b""), reports, facts)
    if signing_key is not None:
        facts["signature"] = make_signature(facts, signing_key)
    manifest = json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
    folder.seal(contents | {MANIFEST: manifest.encode()})
    return replace(_publish(folder, job), reports=reports, tables=tables)


def _publish(folder: PrivateFolder, job: FleetJob) -> FleetRelease:
    """Publish what was sealed, record the files of sums in the ledger and destroy the key."""
    content = folder.sealed_content(MANIFEST)
    with open_ledger(job.ledger, patience_s=PATIENCE_S) as ledger:
        _check_kept_head(folder, ledger)
        product_of(job).mark_released(ledger, hashlib.sha256(content).hexdigest())
    folder.publish_sealed()
    folder.destroy()
    return FleetRelease(replace(job, key=b""), (), parse_json(content))


def private_list(folder: Path, kind: str = "quarantine") -> Path:
    """Return the path of the list of what was left out, or of odd cells, beside a folder."""
    named = folder if folder.name not in ("", "..") else folder.resolve()
    return named.with_name(f"{named.name}.{kind}.csv")


def write_private_lists(folder: Path, reports: Sequence[FileReport]) -> None:
    """Write the lists of what was left out and of odd cells beside a folder, if there are any."""
    problems = [
        (report.source, one.meter, one.period, one.row, one.time, one.sentence)
        for report in reports
        for one in report.problems
    ]
    odd = [
        (report.source, one.meter, one.period, one.row, one.cells)
        for report in reports
        for one in report.odd_cells
    ]
    for kind, header, rows in (
        ("quarantine", ("file", "meter", "period", "row", "time", "reason"), problems),
        ("odd-cells", ("file", "meter", "period", "first_row", "cells_that_count_as_0_W"), odd),
    ):
        if rows:
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows([header, *rows])
            write_text(private_list(folder, kind), text.getvalue(), force=True)


def describe_release(
    job: FleetJob, reports: Sequence[FileReport], ledger_head: str, files: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return the manifest as plain values, with the facts of the published files."""
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
        blocks += sum(not p.of_whole_file for p in report.problems)
    return {
        "files": sum(report.state == "quarantined" for report in reports),
        "blocks": blocks,
        "reasons": dict(reasons.most_common()),
    }


def _public_reason(problem: Problem) -> str:
    """Return a reason without amounts of ε, and without the content of a file."""
    if problem.of_whole_file:
        # The full sentence may quote what a parser found in the file.
        return "the file cannot be used"
    head, mark, _ = problem.sentence.partition(": ")
    return f"{head})" if mark and "(" in head else problem.sentence.rstrip(".")


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
        f"no Parquet file of {source.name} states first, in column {columns.interval!r}, how "
        "many seconds a reading lasts; give --interval."
    )


def open_folders(source_dir: Path | str, output_dir: Path | str) -> tuple[SourceFolder, Path]:
    """Return the input folder and the path of the output, which must not contain one another."""
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


def begin_or_continue(folder: PrivateFolder, job: FleetJob, key: bytes | None) -> FleetJob:
    """Begin a new release with a key, or continue the interrupted one if it asked for the same."""
    asked = folder.asked
    if asked is None:
        secret = key or secrets.token_bytes(32)
        folder.begin(job.to_dict(), secret)
        return replace(job, key=secret)
    with _undamaged(folder):
        if asked["schema"] != job.terms.schema:
            raise InputError(
                f"{folder.output} holds an unfinished release of another command; resume it with "
                "the command with which it was begun."
            )
        before = FleetJob.from_dict(asked, folder.key())
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


def _undamaged(folder: PrivateFolder) -> AbstractContextManager[None]:
    """Raise an error about what an unfinished release asked for as one sentence."""
    more = "; release the rest into another folder with --correct, which spends again"
    return one_sentence(folder.begun_file, "read", kinds=DAMAGED, more=more)


def _check_room(job: FleetJob, footers: Mapping[str, Footer]) -> None:
    """Refuse a disk that is too small for the whole release."""
    need, free = product_of(job).estimate_bytes(footers), shutil.disk_usage(job.output_dir).free
    if need > free:
        raise DataError(
            f"{job.output_dir} has room for {free / 1e6:.3g} MB and the release takes about "
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


def _rehearse(job: FleetJob, footers: Mapping[str, Footer], options: JobOptions) -> FleetRelease:
    """Check all files and find out what the ledger would grant; nothing is spent or written."""
    total, done = sum(footer.rows for footer in footers.values()), 0
    checked = []
    for name, footer in footers.items():
        checked.append(check_file(job, name))
        done += footer.rows
        if options.report is not None:
            options.report(checked[-1].report, done, total)
    with open_ledger(job.ledger) as ledger:
        outcomes = ledger.rehearse(
            job.charge,
            micro=job.price["micro_epsilon"],
            femto=job.price["femto_delta"],
            sources={one.report.source: (one.meters, one.periods) for one in checked},
        )
        head = str(ledger.head())
    reports = tuple(one.after(outcomes[one.report.source]) for one in checked)
    product = product_of(job)
    facts = describe_release(job, reports, head, product.list_files(reports, {}))
    errors = [asdict(one) for one in errors_of(job.terms, options.load_w)]
    size = product.estimate_bytes(footers)
    facts |= {"dry_run": True, "errors": errors, "estimated_bytes": size}
    return FleetRelease(job, reports, facts)


def _run_all(
    folder: PrivateFolder, job: FleetJob, footers: Mapping[str, Footer], options: JobOptions
) -> tuple[tuple[FileReport, ...], str]:
    """Run the task of every file, and watch the ledger meanwhile.

    Return the reports, sorted by the names of the files, and the end of the ledger. Raise
    `DataError` if the ledger was replaced by an older copy.
    """
    total, done = sum(footer.rows for footer in footers.values()), 0
    found: dict[str, FileReport] = {}
    run = options.schedule or partial(run_in_processes, jobs=options.jobs)
    # The ledger stays open: the last connection that closes a SQLite file cleans up, which is slow.
    with open_ledger(job.ledger, patience_s=PATIENCE_S) as ledger:
        _check_kept_head(folder, ledger)
        folder.write_head(str(ledger.head()))
        for finished in run(protect_file, job, list(footers)):
            found[finished.source] = finished
            done += footers[finished.source].rows
            folder.write_head(str(ledger.head()))
            if options.report is not None:
                options.report(finished, done, total)
        # Files that an earlier attempt finished and that are no longer in the input.
        for name in {plain["source"] for plain in folder.all_reports()} - found.keys():
            one = find_done(job, name, ledger)
            if one is not None:
                found[name] = one
        # Opened again, because the file of the ledger may have been replaced meanwhile.
        with open_ledger(job.ledger, patience_s=PATIENCE_S) as again:
            _check_kept_head(folder, again)
            head = str(again.head())
    return tuple(found[name] for name in sorted(found)), head
