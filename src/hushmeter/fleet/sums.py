"""Sums of a fleet with one noise per published number (central differential privacy).

A utility that holds all readings can add them up first and draw noise once for each sum. The noise
then protects one household and does not grow with the number of households: for a sum over n
homes the error is about √n times smaller than that of adding up n released homes.

Groups, times and the membership of meters are public. `sum_terms` states the promise and the
sensitivity of every table, and `sum_tables` draws the noise. This module adds up the files. Each
file is one task, on any machine: it checks the rows, charges the ledger, adds up what was granted
in whole numbers, and leaves the partial sums in the private folder of the output. The order of the
files does not matter, because whole numbers are added up. The noise is drawn once, after the last
file, with a key that depends on the exact sums. A job that was killed is resumed with the same
key, so it publishes the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from zoneinfo import ZoneInfo

import numpy as np

from hushmeter.checks import BoolArray, IntArray, whole
from hushmeter.errors import DataError, InputError
from hushmeter.fleet.blocks import Blocks, RowArrays, dictionary_codes
from hushmeter.fleet.input_files import UnusableFileError, read_footer
from hushmeter.fleet.job import Columns, FleetJob, FleetTerms, InputFormat
from hushmeter.fleet.kernels import to_watts
from hushmeter.fleet.ledger import Charge, DayChange, Ledger, Price, open_ledger
from hushmeter.fleet.ledger.transactions import check_name
from hushmeter.fleet.manifest import (
    MANIFEST,
    SUMS_SCHEMA,
    count_problems,
    publish_manifest,
)
from hushmeter.fleet.noised_rows import file_key, input_digest
from hushmeter.fleet.output_folder import PrivateFolder, StagedFile
from hushmeter.fleet.release import (
    Report,
    Schedule,
    begin_or_continue,
    check_output,
    find_interval,
    new_release,
    open_folders,
    rehearse,
    run_all,
)
from hushmeter.fleet.source_folder import list_files
from hushmeter.fleet.sum_tables import make_tables
from hushmeter.fleet.sum_terms import (
    EVERY_S,
    HOUR_S,
    QUARTER_S,
    SumTerms,
    build_mechanism,
    day_price,
)
from hushmeter.fleet.task import (
    PATIENCE_S,
    FileReport,
    check_blocks,
    describe_file,
    open_input,
    pay,
    unusable_file,
    usable_blocks,
)
from hushmeter.noise.parameters import per_watt
from hushmeter.trace import check_interval

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Group = tuple[str, ...]
"""Names of the groups that contain a meter, from the coarsest to the finest level."""


@dataclass(frozen=True)
class SumsRelease:
    """A finished release of sums.

    Attributes
    ----------
    tables : dict of DataFrame
        The published tables by name: `sums`, `peaks`, `shape` and `quantiles`. Empty if the
        release was finished before or nothing was released.
    manifest : dict
        The promise, the charge and what was left out.
    """

    tables: dict[str, pd.DataFrame]
    manifest: dict[str, Any]

    @property
    def table(self) -> pd.DataFrame:
        """The sums: one row per level, group and bin."""
        return self.tables["sums"]

    @property
    def complete(self) -> bool:
        """True if nothing was left out."""
        left = self.manifest["quarantine"]
        return not (left["files"] or left["blocks"])


@dataclass(frozen=True)
class SumsJob(FleetJob):
    """A release of sums: a job of a fleet with other terms.

    Attributes
    ----------
    sums : SumTerms
        The promise.
    """

    sums: SumTerms = field(kw_only=True)

    @property
    def charge(self) -> Charge:
        """Description of the release for the ledger."""
        terms = self.sums.describe(self.terms.interval_s) | {"charge": self.describe_price()}
        return Charge(self.release, self.stream, terms)

    @property
    def price(self) -> Price:
        """What the ledger charges for one day of a meter."""
        assert self.protects is not None
        return _price(self.sums, self.terms.interval_s, self.protects)

    @property
    def days(self) -> tuple[str, str] | None:
        """First and last day that may be released."""
        return self.sums.period

    @classmethod
    def from_dict(cls, plain: dict[str, Any], key: bytes) -> Self:
        """Return the job that `to_dict` described; see `FleetJob.from_dict`."""
        rest = {name: value for name, value in plain.items() if name != "sums"}
        base = FleetJob.from_dict(rest, key)
        facts = {one.name: getattr(base, one.name) for one in fields(base)}
        return cls(**facts, sums=SumTerms.from_dict(plain["sums"]))


@lru_cache(maxsize=8)
def _price(terms: SumTerms, interval_s: int, protects: DayChange) -> Price:
    return day_price(terms, interval_s, protects)


@dataclass
class ExactSums:
    """Exact sums of the finest groups, in whole steps of the grid.

    Attributes
    ----------
    sums : dict
        For every (group, bin): the sum [steps] and the number of readings.
    shape : dict
        The same for every (group, hour of the day).
    counts : dict
        For every (group, hour of the day): how many hourly means of a meter are in each class.
    members : dict
        The meters of every group.
    """

    sums: dict[tuple[Group, int], list[int]] = field(default_factory=dict)
    shape: dict[tuple[Group, int], list[int]] = field(default_factory=dict)
    counts: dict[tuple[Group, int], list[int]] = field(default_factory=dict)
    members: dict[Group, set[str]] = field(default_factory=dict)

    def add(self, other: ExactSums) -> None:
        """Add the sums of other files."""
        for name in ("sums", "shape", "counts"):
            mine = getattr(self, name)
            for key, numbers in getattr(other, name).items():
                _add_to(mine, key, numbers)
        for group, meters in other.members.items():
            self.members.setdefault(group, set()).update(meters)

    def to_json(self) -> bytes:
        """Return the sums in one form for equal content."""
        plain: dict[str, Any] = {
            name: sorted([*key, *numbers] for key, numbers in getattr(self, name).items())
            for name in ("sums", "shape", "counts")
        }
        plain["members"] = sorted([g, sorted(meters)] for g, meters in self.members.items())
        return json.dumps(plain, ensure_ascii=False).encode()

    @classmethod
    def from_json(cls, content: bytes) -> ExactSums:
        """Return the sums that `to_json` wrote."""
        plain, found = json.loads(content), cls()
        for name in ("sums", "shape", "counts"):
            for group, place, *numbers in plain[name]:
                getattr(found, name)[tuple(group), place] = numbers
        found.members = {tuple(group): set(meters) for group, meters in plain["members"]}
        return found


def release_sums(
    source_dir: Path | str,
    output_dir: Path | str,
    terms: SumTerms,
    *,
    ledger: str,
    stream: str = "sums",
    columns: Columns | None = None,
    form: InputFormat | None = None,
    interval_s: int | None = None,
    jobs: int = 1,
    resume: bool = False,
    dry_run: bool = False,
    report: Report | None = None,
    schedule: Schedule | None = None,
    release: str | None = None,
    key: bytes | None = None,
) -> SumsRelease:
    """Release sums of groups of meters, and charge every member.

    Each file is charged before it is added up. If the machine fails, `resume` continues without a
    further charge and publishes the same bytes.

    Parameters
    ----------
    source_dir : path or str
        The input folder, or its URL.
    output_dir : path
        The output folder is new, empty, or holds an unfinished release to `resume`.
    terms : SumTerms
        The promise.
    ledger : str
        URL of an existing ledger by day.
    stream : str
        Name of the series; a (meter, day) is released once per stream.
    columns : Columns, optional
        Names of the input columns.
    form : InputFormat, optional
        Unit and time zone of files that do not state them.
    interval_s : int, optional
        Length of a reading [s]; by default that of the first file.
    jobs : int
        Number of worker processes; 1 works in this process.
    resume : bool
        Continue a release that was interrupted; the same terms must be given.
    dry_run : bool
        Check every file and ask the ledger, but spend and write nothing.
    report : callable, optional
        See `hushmeter.fleet.Report`.
    schedule : callable, optional
        See `hushmeter.fleet.Schedule`; worker processes of this machine if not given.
    release, key : optional
        Identity and secret of a replayed release, for tests; drawn at random otherwise.

    Returns
    -------
    SumsRelease

    Raises
    ------
    InputError
        If a parameter is wrong.
    DataError
        If a folder, a file or the ledger cannot be used.
    """
    whole("jobs", jobs)
    check_name("stream", stream)
    source, output = open_folders(source_dir, output_dir)
    files, names = list_files(source), columns or Columns()
    folder = PrivateFolder(output)
    check_output(folder, resume)
    seconds = interval_s if interval_s is not None else find_interval(source, files, names)
    job = SumsJob(
        FleetTerms(terms.epsilon, terms.clamp, interval_s=check_interval(seconds)),
        source.name, str(output), ledger, release or new_release(), stream, False, names,
        tuple(sorted(terms.by)), replace(form or InputFormat(), interval_s=interval_s), sums=terms,
    )  # fmt: skip
    for table in terms.tables:
        build_mechanism(terms, table, seconds)
    with open_ledger(ledger, patience_s=PATIENCE_S) as opened:
        job = job.paid_in(opened)
    rows = {name: read_footer(source, name, names.value).rows for name in files}
    if dry_run:
        if resume:
            raise InputError("a dry run cannot resume a release; leave out --resume or --dry-run.")
        reports, head = rehearse(job, rows, report)
        return SumsRelease({}, _describe(job, reports, head, {}) | {"dry_run": True})
    with folder.locked():
        check_output(folder, resume)
        if (output / MANIFEST).exists():
            folder.destroy()
            return SumsRelease({}, json.loads((output / MANIFEST).read_bytes()))
        job = begin_or_continue(folder, job, key)
        reports, head = run_all(add_up_file, _find_added, folder, job, rows, schedule, jobs, report)
        return _publish(folder, job, reports, head)


def add_up_file(job: SumsJob, source: str) -> FileReport:
    """Check one file, pay for it and leave its exact sums in the private folder.

    Parameters
    ----------
    job : SumsJob
        The release.
    source : str
        Name of the file relative to the input folder.

    Returns
    -------
    FileReport
        Its `output_sha256` is that of the partial sums.

    Raises
    ------
    DataError
        If the machine fails; the file can then be tried again.
    """
    with open_ledger(job.ledger, patience_s=PATIENCE_S) as ledger:
        done = _find_added(job, source, ledger)
        if done is not None:
            return done
        try:
            with open_input(job, source) as file:
                blocks = check_blocks(job, file)
                if blocks.rows == 0:
                    return FileReport(source, "empty")
                digest = input_digest(job.key, file.sha256)
                good, problems = usable_blocks(job, blocks)
                dropped, refused = pay(job, source, blocks, good, digest, ledger)
                problems += refused
                found = describe_file(source, blocks, dropped, digest, problems)
                if dropped.all():
                    return found
                content = _add_up(job, file, blocks, dropped).to_json()
        except UnusableFileError as error:
            return unusable_file(source, error)
    found = replace(found, output_sha256=hashlib.sha256(content).hexdigest())
    folder = PrivateFolder(Path(job.output_dir))
    folder.write_partial(source, content)
    folder.write_report(source, found.to_json())
    return found


def _find_added(job: SumsJob, source: str, ledger: Ledger) -> FileReport | None:
    """Return the report of a file that an earlier attempt paid for and added up completely."""
    folder = PrivateFolder(Path(job.output_dir))
    plain, content = folder.report(source), folder.partial(source)
    if plain is None or content is None or ledger.state_of(job.release, source) is None:
        return None
    found = FileReport.from_dict(plain)
    same = hashlib.sha256(content).hexdigest() == found.output_sha256
    return found if same else None


def _add_up(job: SumsJob, file: Any, blocks: Blocks, dropped: BoolArray) -> ExactSums:
    """Add up the kept blocks of one file in whole grid steps."""
    total = ExactSums()
    means = _HourlyMeans(job.sums)
    for group in file.row_groups():
        for record in group:
            part = blocks.arrays(record)
            keep, _ = blocks.kept_rows(part, dropped)
            rows = np.flatnonzero(keep)
            if rows.size:
                _add_record(total, means, record, part, rows, blocks, job)
    means.count_into(total)
    return total


def _add_record(
    total: ExactSums,
    means: _HourlyMeans,
    record: pa.RecordBatch,
    part: RowArrays,
    rows: IntArray,
    blocks: Blocks,
    job: SumsJob,
) -> None:
    """Add the kept rows of one record."""
    terms, readings = job.sums, blocks.readings(record)
    watts = np.empty(readings.values.size)
    to_watts(readings.values, readings.unit_codes, readings.factors, *terms.clamp, watts)
    steps = np.floor(watts[rows] * per_watt(terms.step) + 0.5)
    seconds = part.times[rows] // blocks.ticks
    groups, places = _groups_of(record, terms.by, rows)
    codes, meters = dictionary_codes(record.column(job.columns.meter))
    for place, group in enumerate(groups):
        members = total.members.setdefault(group, set())
        found = np.unique(codes[rows][places == place])
        members.update(str(meters[code]) for code in found.tolist())
    if "sums" in terms.tables:
        bins = seconds // EVERY_S[terms.every]
        _add_cells(total.sums, groups, places, bins, steps)
    if terms.tables != ("sums",):
        starts, hours = local_hours(seconds, terms.tz)
        if "shape" in terms.tables:
            _add_cells(total.shape, groups, places, hours, steps)
        if "quantiles" in terms.tables:
            numbers = part.meter_map[part.codes[rows]]
            means.add(numbers, starts, hours, steps, groups, places)


def _groups_of(
    record: pa.RecordBatch, by: Sequence[str], rows: IntArray
) -> tuple[list[Group], IntArray]:
    """Return the finest groups of some rows, and the place of each row among them."""
    columns = [dictionary_codes(record.column(name)) for name in by]
    codes = np.stack([codes[rows] for codes, _ in columns], axis=1)
    found, places = np.unique(codes, axis=0, return_inverse=True)
    groups = [
        tuple(
            "" if code < 0 else str(texts[code])
            for code, (_, texts) in zip(line, columns, strict=True)
        )
        for line in found.tolist()
    ]
    return groups, places.reshape(-1)


def _add_cells(
    cells: dict[tuple[Group, int], list[int]],
    groups: Sequence[Group],
    places: IntArray,
    columns: IntArray,
    steps: Any,
) -> None:
    """Add steps and numbers of readings to the cells (group, column)."""
    low = int(columns.min())
    width = int(columns.max()) - low + 1
    found, cell = np.unique(places * width + (columns - low), return_inverse=True)
    counts = np.bincount(cell)
    # Sums of whole numbers below 2^53 are exact in float64.
    totals = np.bincount(cell, weights=steps)
    for key, total, count in zip(found.tolist(), totals, counts, strict=True):
        place, column = divmod(key, width)
        _add_to(cells, (groups[place], column + low), [int(total), int(count)])


def _add_to(
    cells: dict[tuple[Group, int], list[int]], key: tuple[Group, int], numbers: Sequence[int]
) -> None:
    """Add numbers to a cell."""
    known = cells.get(key)
    cells[key] = (
        list(numbers) if known is None else [a + b for a, b in zip(known, numbers, strict=True)]
    )


class _HourlyMeans:
    """The mean of every meter in every hour of a file, counted by classes at its end.

    A meter counts once in an hour, in the group of its first row of that hour.

    Parameters
    ----------
    terms : SumTerms
        The promise.
    """

    def __init__(self, terms: SumTerms) -> None:
        self._edges = np.array(terms.class_edges)
        self._means: dict[tuple[int, int], tuple[Group, int, list[int]]] = {}

    def add(
        self,
        meters: IntArray,
        starts: IntArray,
        hours: IntArray,
        steps: Any,
        groups: Sequence[Group],
        places: IntArray,
    ) -> None:
        """Add rows: numbers of meters, beginnings and hours of the day, steps and groups."""
        key = meters << 32 | (starts // QUARTER_S)
        found, first, cell = np.unique(key, return_index=True, return_inverse=True)
        totals, counts = np.bincount(cell, weights=steps), np.bincount(cell)
        lines = zip(found.tolist(), first.tolist(), totals, counts, strict=True)
        for number, row, total, count in lines:
            known = self._means.setdefault(
                divmod(number, 1 << 32), (groups[places[row]], int(hours[row]), [0, 0])
            )[2]
            known[0] += int(total)
            known[1] += int(count)

    def count_into(self, total: ExactSums) -> None:
        """Count the means by group, hour of the day and class."""
        classes = len(self._edges) - 1
        for group, hour, (steps, readings) in self._means.values():
            place = int(np.searchsorted(self._edges, steps // readings, side="right")) - 1
            counts = total.counts.setdefault((group, hour), [0] * classes)
            counts[min(max(place, 0), classes - 1)] += 1


def local_hours(seconds: IntArray, tz: str | None) -> tuple[IntArray, IntArray]:
    """Return the hours of the clock in which moments are.

    Parameters
    ----------
    seconds : array
        Moments, UTC [s].
    tz : str or None
        Time zone; UTC if None.

    Returns
    -------
    starts : array
        When the hour began, UTC [s].
    hours : array
        The hour of the day, 0 to 23.
    """
    if tz is None:
        return seconds // HOUR_S * HOUR_S, seconds // HOUR_S % 24
    found, places = np.unique(seconds // QUARTER_S, return_inverse=True)
    zone, starts, hours = ZoneInfo(tz), [], []
    for quarter in found.tolist():
        moment = datetime.fromtimestamp(quarter * QUARTER_S, zone)
        starts.append(quarter * QUARTER_S - moment.minute * 60 - moment.second)
        hours.append(moment.hour)
    return np.array(starts)[places], np.array(hours)[places]


def _publish(
    folder: PrivateFolder, job: SumsJob, reports: tuple[FileReport, ...], head: str
) -> SumsRelease:
    """Draw the noise, publish the tables and the manifest, and destroy the key."""
    total = ExactSums()
    released = [one for one in reports if one.state == "released"]
    for one in released:
        content = folder.partial(one.source)
        if content is None or hashlib.sha256(content).hexdigest() != one.output_sha256:
            raise DataError(f"the partial sums of {one.source} are lost; continue with --resume.")
        total.add(ExactSums.from_json(content))
    tables: dict[str, pd.DataFrame] = {}
    written: dict[str, dict[str, Any]] = {}
    if released:
        tables = make_tables(total, job.sums, job.terms.interval_s, _keys(job, total))
        written = {f"{name}.parquet": _write(folder, name, tables[name]) for name in tables}
        digest = hashlib.sha256(json.dumps(written, sort_keys=True).encode()).hexdigest()
        with open_ledger(job.ledger, patience_s=PATIENCE_S) as ledger:
            for one in released:
                ledger.mark_released(job.charge, one.source, digest)
            head = str(ledger.head())
    folder.remove_unlisted(written)
    manifest = _describe(job, reports, head, written)
    publish_manifest(folder.output, manifest, reports)
    folder.destroy()
    return SumsRelease(tables, manifest)


def _keys(job: SumsJob, total: ExactSums) -> dict[str, bytes]:
    """Derive the key of every table from the release key, the terms and the exact sums.

    Other sums, for example after a file was corrected, get independent noise: the same noise on
    two sums would publish their exact difference.
    """
    digest = hashlib.sha256(total.to_json()).digest()
    return {
        table: file_key(
            job.key, release=job.release, stream=job.stream, terms=dict(job.charge.terms),
            source=table, file_sha256=digest,
        )
        for table in job.sums.tables
    }  # fmt: skip


def _write(folder: PrivateFolder, name: str, table: pd.DataFrame) -> dict[str, Any]:
    """Write a table under its final name, durably, and return the facts of the file."""
    import pyarrow as pa
    from pyarrow import parquet

    content = pa.Table.from_pandas(table, preserve_index=False).replace_schema_metadata(None)
    staged = StagedFile(folder, folder.output / f"{name}.parquet", content.nbytes + (1 << 16))
    try:
        parquet.write_table(content, pa.PythonFile(staged, mode="w"), compression="zstd")
        staged.settle()
        staged.publish()
    finally:
        staged.discard()
    return {"rows": len(table), "bytes": staged.size, "sha256": staged.digest}


def _describe(
    job: SumsJob, reports: Sequence[FileReport], head: str, written: dict[str, Any]
) -> dict[str, Any]:
    """Return the manifest as plain values."""
    return {
        "schema": SUMS_SCHEMA,
        "release": job.release,
        "stream": job.stream,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "asked": asdict(job.sums),
        "promise": job.sums.describe(job.terms.interval_s),
        "charge": {
            **job.describe_price(),
            "blocks": sum(report.released_blocks for report in reports),
        },
        "files": written,
        "released_readings": sum(report.released_rows for report in reports),
        "quarantine": count_problems(reports),
        "ledger_head": head,
    }
