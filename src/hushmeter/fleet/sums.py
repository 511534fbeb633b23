"""Sums of a fleet with one noise per published number (central differential privacy).

A utility that holds all readings can add them up first and draw noise once for each sum. The noise
then protects one household and does not grow with the number of households: for a sum over n
homes the error is about √n times smaller than that of adding up n released homes.

Groups, times and the membership of meters are public. `sum_terms` states the promise and the
sensitivity of every table, and `sum_tables` draws the noise. This module adds up the files. Each
file is one task, on any machine: after it is checked and paid for as that of a series is, its exact
sums are left in the private folder of the output. The order of the files does not matter, because
whole numbers are added up. The noise is drawn once, after the last file, with a key that depends on
the exact sums. All tables and the manifest are sealed in the private folder before the first of
them is published. A job that is killed later publishes exactly these files when it is resumed, even
if files were added to the input meanwhile.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.clock import clock_hours
from hushmeter.errors import DataError
from hushmeter.fleet.blocks import Blocks, dictionary_codes
from hushmeter.fleet.kernels import to_watts
from hushmeter.fleet.noised_rows import file_key
from hushmeter.fleet.output_folder import PrivateFolder
from hushmeter.fleet.sum_tables import make_tables
from hushmeter.fleet.sum_terms import EVERY_S, TABLES, SumTerms
from hushmeter.fleet.task import FileReport, pay
from hushmeter.noise.parameters import per_watt
from hushmeter.trace import SECONDS_PER_DAY, SECONDS_PER_HOUR

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from hushmeter.fleet.job import FleetJob
    from hushmeter.fleet.noised_rows import InputFile
    from hushmeter.ledger import Ledger

Group = tuple[str, ...]
"""Names of the groups that contain a meter, from the coarsest to the finest level."""

Cells = dict[tuple[Group, int], list[int]]
"""Numbers of every (group, column)."""

START_BITS = 33
"""Bits of a moment before the year 2200 [s since 1970]."""


@dataclass(frozen=True)
class SplitHour:
    """The readings of one meter in a part of an hour of the clock."""

    first: int  # When the first of them begins, UTC [s]
    group: Group  # The group of the first of them
    hour: int  # The hour of the day
    # Their sum [steps] and their number
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
    """Exact sums of the finest groups, in whole steps of the grid."""

    # `sums` has the sum [steps] and the number of readings of every (group, bin), and `shape` of
    # every (group, hour of the day); `quantiles` counts for every (group, hour of the day) how many
    # hourly means of a meter are in each class.
    tables: dict[str, Cells] = field(default_factory=lambda: {name: {} for name in TABLES})
    # For every (meter, hour of the clock) that lies in two UTC days, which may be in two files: its
    # readings.
    split: dict[tuple[str, int], SplitHour] = field(default_factory=dict)
    members: dict[Group, set[str]] = field(default_factory=dict)  # The meters of every group

    def add(self, other: ExactSums) -> None:
        """Add the sums of other files."""
        for name, cells in other.tables.items():
            for key, numbers in cells.items():
                _add_to(self.tables[name], key, numbers)
        for place, part in other.split.items():
            self.split[place] = part.join(self.split.get(place))
        for group, meters in other.members.items():
            self.members.setdefault(group, set()).update(meters)

    def count(self, edges: Sequence[int], parts: Iterable[SplitHour]) -> None:
        """Count hourly means by group, hour of the day and class."""
        for part in parts:
            place = int(np.searchsorted(edges, part.steps // part.readings, side="right")) - 1
            counts = [0] * (len(edges) - 1)
            counts[min(max(place, 0), len(counts) - 1)] = 1
            _add_to(self.tables["quantiles"], (part.group, part.hour), counts)

    def to_json(self) -> bytes:
        """Return the sums in one form for equal content."""
        plain: dict[str, Any] = {
            name: sorted([*key, *numbers] for key, numbers in cells.items())
            for name, cells in self.tables.items()
        }
        plain["split"] = sorted([*key, *astuple(part)] for key, part in self.split.items())
        plain["members"] = sorted([g, sorted(meters)] for g, meters in self.members.items())
        return json.dumps(plain, ensure_ascii=False).encode()

    @classmethod
    def from_json(cls, content: bytes) -> ExactSums:
        """Return the sums that `to_json` wrote."""
        plain, found = json.loads(content), cls()
        for name, cells in found.tables.items():
            cells.update({(tuple(group), place): line for group, place, *line in plain[name]})
        for meter, start, first, group, *rest in plain["split"]:
            found.split[meter, start] = SplitHour(first, tuple(group), *rest)
        found.members = {tuple(group): set(meters) for group, meters in plain["members"]}
        return found


def add_up_file(
    job: FleetJob, source: str, file: InputFile, blocks: Blocks, ledger: Ledger
) -> FileReport:
    """Pay for a checked file and leave its exact sums in the private folder.

    The `output_sha256` of the report is that of the partial sums.
    """
    dropped, report = pay(job, source, file, blocks, ledger)
    if dropped.all():
        return report
    content = add_up(job, file, blocks, dropped).to_json()
    found = replace(report, output_sha256=hashlib.sha256(content).hexdigest())
    folder = PrivateFolder(Path(job.output_dir))
    folder.write_partial(source, content)
    folder.write_report(source, found.to_json())
    return found


def add_up(job: FleetJob, file: InputFile, blocks: Blocks, dropped: BoolArray) -> ExactSums:
    """Add up the kept blocks of one file in whole grid steps."""
    adder = _Adder(job, blocks, dropped)
    if adder.terms.cap_kwh is not None:
        for record in file.records():
            adder.measure_days(record)
    for group in file.row_groups():
        for record in group:
            adder.add(record)
    return adder.finish()


@dataclass(frozen=True)
class _Rows:
    """The kept rows of a record: places, numbers of meters, starts [s] and power [W]."""

    places: IntArray
    meters: IntArray
    seconds: IntArray
    watts: FloatArray

    def by_day(self) -> tuple[list[int], IntArray]:
        """Return the UTC days of meters as numbers, and the place of every row among them."""
        found, place = np.unique(
            self.meters << START_BITS | self.seconds // SECONDS_PER_DAY, return_inverse=True
        )
        return found.tolist(), place


class _Adder:
    """Adds up the kept blocks of one file, with its days scaled down to the cap.

    A meter counts once in an hour of the clock, in the group of its first row of that hour. An hour
    that lies in two UTC days may be in two files and is counted after the last of them. A UTC day
    of a meter is a block, which is in one file.
    """

    def __init__(self, job: FleetJob, blocks: Blocks, dropped: BoolArray) -> None:
        assert isinstance(job.terms, SumTerms)
        self.terms, self._meter = job.terms, job.columns.meter
        self._blocks, self._dropped = blocks, dropped
        self._total = ExactSums()
        self._means: dict[tuple[int, int], SplitHour] = {}
        self._day_watts: dict[int, float] = {}

    def _kept(self, record: pa.RecordBatch) -> _Rows:
        """Return the rows of all blocks that are not dropped, clamped."""
        part, readings = self._blocks.arrays(record), self._blocks.readings(record)
        places = np.flatnonzero(self._blocks.kept_rows(part, self._dropped)[0])
        watts = np.empty(readings.values.size)
        to_watts(readings.values, readings.unit_codes, readings.factors, *self.terms.clamp, watts)
        seconds = part.times[places] // self._blocks.ticks
        return _Rows(places, part.meter_map[part.codes[places]], seconds, watts[places])

    def measure_days(self, record: pa.RecordBatch) -> None:
        """Add up the clamped readings of every UTC day of a meter [W]."""
        rows = self._kept(record)
        days, place = rows.by_day()
        for day, watts in zip(days, np.bincount(place, rows.watts), strict=True):
            self._day_watts[day] = self._day_watts.get(day, 0.0) + float(watts)

    def _capped(self, rows: _Rows) -> FloatArray:
        """Return the power of rows; all readings of a day above the cap are scaled down to it."""
        if self.terms.cap_kwh is None:
            return rows.watts
        most = self.terms.cap_kwh * 1000 * SECONDS_PER_HOUR / self.terms.interval_s
        days, place = rows.by_day()
        factors = [most / max(most, self._day_watts[day]) for day in days]
        return np.asarray(rows.watts * np.array(factors)[place])

    def add(self, record: pa.RecordBatch) -> None:
        """Add the kept rows of one record."""
        rows, terms, tables = self._kept(record), self.terms, self._total.tables
        if not rows.places.size:
            return
        steps = np.floor(self._capped(rows) * per_watt(terms.step) + 0.5)
        groups, places = _groups_of(record, terms.by, rows.places)
        codes, meters = dictionary_codes(record.column(self._meter))
        for place, group in enumerate(groups):
            found = np.unique(codes[rows.places][places == place])
            members = self._total.members.setdefault(group, set())
            members.update(str(meters[code]) for code in found.tolist())
        if "sums" in terms.tables:
            _add_cells(tables["sums"], groups, places, rows.seconds // EVERY_S[terms.every], steps)
        if terms.tables != ("sums",):
            clock = clock_hours(rows.seconds.astype("datetime64[s]"), terms.tz or "UTC")
            if "shape" in terms.tables:
                _add_cells(tables["shape"], groups, places, clock[1], steps)
            if "quantiles" in terms.tables:
                self._add_means(rows, (clock[0].astype(np.int64), clock[1]), steps, groups, places)

    def _add_means(
        self,
        rows: _Rows,
        clock: tuple[IntArray, IntArray],
        steps: FloatArray,
        groups: Sequence[Group],
        places: IntArray,
    ) -> None:
        """Add the rows to the mean of their meter in their hour of the clock."""
        order = np.argsort(rows.seconds, kind="stable")
        seconds, hours, places = (one[order] for one in (rows.seconds, clock[1], places))
        key = (rows.meters << START_BITS | clock[0])[order]
        found, first, cell = np.unique(key, return_index=True, return_inverse=True)
        totals, counts = np.bincount(cell, weights=steps[order]), np.bincount(cell)
        lines = zip(found.tolist(), first.tolist(), totals, counts, strict=True)
        for number, row, total, count in lines:
            part = SplitHour(
                int(seconds[row]), groups[places[row]], int(hours[row]), int(total), int(count)
            )
            place = divmod(number, 1 << START_BITS)
            self._means[place] = part.join(self._means.get(place))

    def finish(self) -> ExactSums:
        """Count the hourly means, except those of hours in two UTC days, and return all sums."""
        whole = []
        for (meter, start), part in self._means.items():
            if start // SECONDS_PER_DAY != (start + SECONDS_PER_HOUR - 1) // SECONDS_PER_DAY:
                self._total.split[self._blocks.meter(meter), start] = part
            else:
                whole.append(part)
        self._total.count(self.terms.class_edges, whole)
        return self._total


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
    cells: Cells, groups: Sequence[Group], places: IntArray, columns: IntArray, steps: FloatArray
) -> None:
    """Add steps and numbers of readings to the cells (group, column)."""
    low = int(columns.min())
    width = int(columns.max()) - low + 1
    found, cell = np.unique(places * width + (columns - low), return_inverse=True)
    # Sums of whole numbers below 2^53 are exact in float64.
    totals, counts = np.bincount(cell, weights=steps), np.bincount(cell)
    for key, total, count in zip(found.tolist(), totals, counts, strict=True):
        place, column = divmod(key, width)
        _add_to(cells, (groups[place], column + low), [int(total), int(count)])


def _add_to(cells: Cells, key: tuple[Group, int], numbers: Sequence[int]) -> None:
    """Add numbers to a cell."""
    known = cells.get(key)
    cells[key] = (
        list(numbers) if known is None else [a + b for a, b in zip(known, numbers, strict=True)]
    )


def draw_tables(
    folder: PrivateFolder, job: FleetJob, released: Iterable[FileReport]
) -> dict[str, pd.DataFrame]:
    """Add up the partial sums of all files, and draw the noise of all tables."""
    assert isinstance(job.terms, SumTerms)
    total = ExactSums()
    for one in released:
        content = folder.partial(one.source)
        if content is None or hashlib.sha256(content).hexdigest() != one.output_sha256:
            raise DataError(f"the partial sums of {one.source} are lost; continue with --resume.")
        total.add(ExactSums.from_json(content))
    total.count(job.terms.class_edges, total.split.values())
    total.split.clear()
    # Other sums, for example after a file was corrected, get independent noise: the same noise on
    # two sums would publish their exact difference.
    digest = hashlib.sha256(total.to_json()).digest()
    keys = {table: file_key(job, table, digest) for table in job.terms.tables}
    return make_tables(total, job.terms, keys)
