"""Sums of a fleet with one noise per published number (central differential privacy).

A utility that holds all readings can add them up first and draw noise once for each sum. The noise
then protects one household and does not grow with the number of households: for a sum over n
homes the error is about √n times smaller than that of adding up n released homes.

Groups, times and the membership of meters are public. `sum_terms` states the promise and the
sensitivity of every table, and `sum_tables` draws the noise. This module adds up the files. Each
file is one task, on any machine: it checks the rows, charges the ledger, adds up what was granted
in whole numbers, and leaves the partial sums in the private folder of the output. The order of the
files does not matter, because whole numbers are added up. The noise is drawn once, after the last
file, with a key that depends on the exact sums. All tables and the manifest are sealed in the
private folder before the first of them is published. A job that is killed later publishes exactly
these files when it is resumed, even if files were added to the input meanwhile.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from hushmeter.checks import BoolArray, IntArray, whole
from hushmeter.clock import clock_hours
from hushmeter.errors import DataError, InputError
from hushmeter.fleet.blocks import Blocks, RowArrays, dictionary_codes
from hushmeter.fleet.input_files import UnusableFileError, read_footer
from hushmeter.fleet.job import Columns, FleetJob, FleetTerms, InputFormat
from hushmeter.fleet.kernels import to_watts
from hushmeter.fleet.manifest import (
    MANIFEST,
    SUMS_SCHEMA,
    count_problems,
    manifest_bytes,
    write_private_lists,
)
from hushmeter.fleet.noised_rows import file_key, input_digest
from hushmeter.fleet.output_folder import SEALED, PrivateFolder
from hushmeter.fleet.release import (
    Report,
    Schedule,
    begin_or_continue,
    begun_interval,
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
from hushmeter.ledger import Charge, DayChange, Ledger, Price, open_ledger
from hushmeter.ledger.transactions import check_name
from hushmeter.noise.parameters import per_watt
from hushmeter.trace import SECONDS_PER_DAY, SECONDS_PER_HOUR, check_interval

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Group = tuple[str, ...]
"""Names of the groups that contain a meter, from the coarsest to the finest level."""

START_BITS = 33
"""Bits of a moment before the year 2200 [s since 1970]."""


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


@dataclass(frozen=True)
class SplitHour:
    """The readings of one meter in a part of an hour of the clock.

    Attributes
    ----------
    first : int
        When the first of them begins, UTC [s].
    group : Group
        The group of the first of them.
    hour : int
        The hour of the day.
    steps, readings : int
        Their sum [steps] and their number.
    """

    first: int
    group: Group
    hour: int
    steps: int
    readings: int

    def join(self, other: SplitHour | None) -> SplitHour:
        """Return both parts of the hour; the group is that of the earlier part."""
        if other is None:
            return self
        early = min(self, other, key=lambda part: part.first)
        steps, readings = self.steps + other.steps, self.readings + other.readings
        return replace(early, steps=steps, readings=readings)


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
    split : dict
        For every (meter, hour of the clock) that lies in two UTC days, which may be in two files:
        the first moment, the group, the hour of the day, the sum [steps] and the number of
        readings.
    members : dict
        The meters of every group.
    """

    sums: dict[tuple[Group, int], list[int]] = field(default_factory=dict)
    shape: dict[tuple[Group, int], list[int]] = field(default_factory=dict)
    counts: dict[tuple[Group, int], list[int]] = field(default_factory=dict)
    split: dict[tuple[str, int], SplitHour] = field(default_factory=dict)
    members: dict[Group, set[str]] = field(default_factory=dict)

    def add(self, other: ExactSums) -> None:
        """Add the sums of other files."""
        for name in ("sums", "shape", "counts"):
            mine = getattr(self, name)
            for key, numbers in getattr(other, name).items():
                _add_to(mine, key, numbers)
        for key, part in other.split.items():
            self.split[key] = part.join(self.split.get(key))
        for group, meters in other.members.items():
            self.members.setdefault(group, set()).update(meters)

    def count_split_hours(self, edges: IntArray) -> None:
        """Count the hours that lie in two UTC days by their classes, after all files are added."""
        for part in self.split.values():
            _count(self.counts, edges, (part.group, part.hour), part.steps, part.readings)
        self.split.clear()

    def to_json(self) -> bytes:
        """Return the sums in one form for equal content."""
        plain: dict[str, Any] = {
            name: sorted([*key, *numbers] for key, numbers in getattr(self, name).items())
            for name in ("sums", "shape", "counts")
        }
        plain["split"] = sorted([*key, *astuple(part)] for key, part in self.split.items())
        plain["members"] = sorted([g, sorted(meters)] for g, meters in self.members.items())
        return json.dumps(plain, ensure_ascii=False).encode()

    @classmethod
    def from_json(cls, content: bytes) -> ExactSums:
        """Return the sums that `to_json` wrote."""
        plain, found = json.loads(content), cls()
        for name in ("sums", "shape", "counts"):
            for group, place, *numbers in plain[name]:
                getattr(found, name)[tuple(group), place] = numbers
        for meter, start, first, group, *rest in plain["split"]:
            found.split[meter, start] = SplitHour(first, tuple(group), *rest)
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
    seconds = interval_s if interval_s is not None else begun_interval(folder, resume)
    if seconds is None:
        seconds = find_interval(source, files, names)
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
        if folder.sealed:
            return _finish(folder, job)
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
                blocks = check_blocks(job, source, file)
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
    means.count_into(total, blocks)
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
        begun, hours = clock_hours(seconds.astype("datetime64[s]"), terms.tz or "UTC")
        if "shape" in terms.tables:
            _add_cells(total.shape, groups, places, hours, steps)
        if "quantiles" in terms.tables:
            numbers = part.meter_map[part.codes[rows]]
            starts = begun.astype(np.int64)
            means.add(numbers, seconds, (starts, hours), steps, groups, places)


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


def _count(
    counts: dict[tuple[Group, int], list[int]],
    edges: IntArray,
    key: tuple[Group, int],
    steps: int,
    readings: int,
) -> None:
    """Count one mean in its class."""
    classes = len(edges) - 1
    place = int(np.searchsorted(edges, steps // readings, side="right")) - 1
    counts.setdefault(key, [0] * classes)[min(max(place, 0), classes - 1)] += 1


class _HourlyMeans:
    """The mean of every meter in every hour of a file, counted by classes at its end.

    A meter counts once in an hour, in the group of its first row of that hour. An hour of the
    clock that lies in two UTC days may be in two files. It is counted after the last file.

    Parameters
    ----------
    terms : SumTerms
        The promise.
    """

    def __init__(self, terms: SumTerms) -> None:
        self._edges = np.array(terms.class_edges)
        self._means: dict[tuple[int, int], SplitHour] = {}

    def add(
        self,
        meters: IntArray,
        seconds: IntArray,
        clock: tuple[IntArray, IntArray],
        steps: Any,
        groups: Sequence[Group],
        places: IntArray,
    ) -> None:
        """Add rows: numbers of meters, moments, hours of the clock, steps and groups."""
        starts, hours = clock
        order = np.argsort(seconds, kind="stable")
        meters, seconds, starts, hours, steps, places = (
            column[order] for column in (meters, seconds, starts, hours, steps, places)
        )
        key = meters << START_BITS | starts
        found, first, cell = np.unique(key, return_index=True, return_inverse=True)
        totals, counts = np.bincount(cell, weights=steps), np.bincount(cell)
        lines = zip(found.tolist(), first.tolist(), totals, counts, strict=True)
        for number, row, total, count in lines:
            part = SplitHour(
                int(seconds[row]), groups[places[row]], int(hours[row]), int(total), int(count)
            )
            found_key = divmod(number, 1 << START_BITS)
            self._means[found_key] = part.join(self._means.get(found_key))

    def count_into(self, total: ExactSums, blocks: Blocks) -> None:
        """Count the means by group, hour of the day and class; keep hours of two UTC days."""
        for (meter, start), part in self._means.items():
            if start // SECONDS_PER_DAY != (start + SECONDS_PER_HOUR - 1) // SECONDS_PER_DAY:
                total.split[blocks.meter(meter), start] = part
            else:
                key = (part.group, part.hour)
                _count(total.counts, self._edges, key, part.steps, part.readings)


def _publish(
    folder: PrivateFolder, job: SumsJob, reports: tuple[FileReport, ...], head: str
) -> SumsRelease:
    """Draw the noise, seal the tables and the manifest, publish them and destroy the key."""
    total = ExactSums()
    released = [one for one in reports if one.state == "released"]
    for one in released:
        content = folder.partial(one.source)
        if content is None or hashlib.sha256(content).hexdigest() != one.output_sha256:
            raise DataError(f"the partial sums of {one.source} are lost; continue with --resume.")
        total.add(ExactSums.from_json(content))
    total.count_split_hours(np.array(job.sums.class_edges))
    folder.remove_unlisted(())
    write_private_lists(folder.output, reports)
    if not released:
        folder.destroy()
        return SumsRelease({}, _describe(job, reports, head, {}))
    tables = make_tables(total, job.sums, job.terms.interval_s, _keys(job, total))
    contents = {f"{name}.parquet": _parquet(table) for name, table in tables.items()}
    written = {
        name: {
            "rows": len(tables[name.removesuffix(".parquet")]),
            "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        for name, content in contents.items()
    }
    manifest = _describe(job, reports, head, written)
    folder.seal(contents | {MANIFEST: manifest_bytes(manifest)})
    return replace(_finish(folder, job), tables=tables)


def _finish(folder: PrivateFolder, job: SumsJob) -> SumsRelease:
    """Publish the tables that were sealed, record that in the ledger and destroy the key."""
    manifest = json.loads((folder.path / SEALED / MANIFEST).read_bytes())
    digest = hashlib.sha256(json.dumps(manifest["files"], sort_keys=True).encode()).hexdigest()
    with open_ledger(job.ledger, patience_s=PATIENCE_S) as ledger:
        for source in folder.reported():
            if (folder.report(source) or {})["state"] == "released":
                ledger.mark_released(job.charge, source, digest)
    folder.publish_sealed(last=MANIFEST)
    folder.destroy()
    return SumsRelease({}, manifest)


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


def _parquet(table: pd.DataFrame) -> bytes:
    """Return a table as the bytes of a Parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    sink = pa.BufferOutputStream()
    content = pa.Table.from_pandas(table, preserve_index=False).replace_schema_metadata(None)
    parquet.write_table(content, sink, compression="zstd")
    return bytes(sink.getvalue())


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
