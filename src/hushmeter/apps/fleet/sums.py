"""Sums of a fleet with one noise per published number (central differential privacy).

A utility that holds all readings can add them up first and draw noise once for each sum. The noise
then protects one household and does not grow with the number of households: for a sum over n
homes the error is about √n times smaller than that of adding up n released homes.

Groups, times and the membership of meters are public. `sum_terms` states the promise and the
sensitivity of every table. Each file is one task, on any machine: after it is checked and paid for
as that of a series is, its exact sums are left in the private folder of the output. The order of
the files does not matter, because whole numbers are added up. The noise is drawn once, after the
last file, with a key that depends on the exact sums. All tables and the manifest are sealed in the
private folder before the first of them is published. A job that is killed later publishes exactly
these files when it is resumed, even if files were added to the input meanwhile.

Every number gets one exact discrete noise. What follows costs no further privacy:

- Sums of nested groups are joined by generalised least squares [1]_: with the incidence matrix A of
  all groups and finest groups, and equal variances, x = (AᵀA)⁻¹Aᵀy, and the estimates are A·x.
- The peak of a group lies within ± z of its largest noisy sum, where z bounds the noise of all K
  bins together: P(|noise| > z) ≤ 0.05/K.
- Quantiles come from noisy counts of B classes of a public grid. The total n is public, so the
  cumulative counts are corrected to c_j − (j/B)·(c_B − n), with the standard error
  σ·√(j·(B − j)/B), and made monotone by isotonic regression. The published interval consists of
  all classes in which the quantile may lie with 95 % confidence; it includes the width of a class.

References
----------
.. [1] M. Hay, V. Rastogi, G. Miklau, D. Suciu, "Boosting the accuracy of differentially private
   histograms through consistency", Proc. VLDB Endow. 3, 2010.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from hushmeter.apps.fleet.clipping import BUSIEST_HOUR, CLIPPED
from hushmeter.apps.fleet.input_files import FleetFile
from hushmeter.apps.fleet.job import FleetJob
from hushmeter.apps.fleet.meter_periods import Blocks, dictionary_codes
from hushmeter.apps.fleet.sum_terms import COUNTS, TABLES, SumTerms, bin_starts, bins_of
from hushmeter.apps.fleet.task import FileReport, Product, check_unchanged, pay
from hushmeter.apps.ledger import Ledger
from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.clock import clock_hours
from hushmeter.noise.mechanism import per_watt
from hushmeter.trace import JOULES_PER_KWH, SECONDS_PER_HOUR

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Group = tuple[str, ...]
"""Names of the groups that contain a meter, from the coarsest to the finest level."""

Cells = dict[tuple[Group, int], list[int]]
"""Numbers of every (group, column)."""

START_BITS = 33
"""Bits of a moment before the year 2200 [s since 1970]."""

HOURS_PER_DAY = 24

CONFIDENCE = 0.95
"""Probability of the intervals of peaks and quantiles."""

_SIGMAS = 1.959963984540054
"""Half the width of the interval of a quantile [standard errors]."""


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
    # `clipped` has the number of clipped customer-days and of all customer-days of every group.
    tables: dict[str, Cells] = field(
        default_factory=lambda: {name: {} for name in (*TABLES, CLIPPED)}
    )
    # For every (meter, hour of the clock) that lies in two days of the ledger, which may be in two
    # files: its readings.
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

    def to_plain(self) -> dict[str, Any]:
        """Return the sums as plain values, in one form for equal content."""
        plain: dict[str, Any] = {
            name: sorted([*key, *numbers] for key, numbers in cells.items())
            for name, cells in self.tables.items()
        }
        plain["split"] = sorted([*key, *astuple(part)] for key, part in self.split.items())
        plain["members"] = sorted([g, sorted(meters)] for g, meters in self.members.items())
        return plain

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> ExactSums:
        """Return the sums that `to_plain` described, also after a way through JSON."""
        found = cls()
        for name, cells in found.tables.items():
            cells.update({(tuple(group), place): line for group, place, *line in plain[name]})
        for meter, start, first, group, *rest in plain["split"]:
            found.split[meter, start] = SplitHour(first, tuple(group), *rest)
        found.members = {tuple(group): set(meters) for group, meters in plain["members"]}
        return found


class Sums(Product):
    """Tables of sums; a task leaves the exact sums of its file in its report."""

    def leave(self, source: str, file: FleetFile, blocks: Blocks, ledger: Ledger) -> FileReport:
        """Pay for the good blocks of a checked file, and keep their exact sums."""
        dropped, report = pay(self.job, source, file, blocks, ledger)
        if dropped.all():
            return report
        sums = add_up(self.job, file, blocks, dropped)
        check_unchanged(source, file)
        self.folder.write_report(source, asdict(report), sums=sums.to_plain())
        return report

    def draw_tables(self, released: Sequence[FileReport]) -> dict[str, pd.DataFrame]:
        """Add up the exact sums of all files, and draw the noise of all tables."""
        job, total = self.job, ExactSums()
        assert isinstance(job.terms, SumTerms)
        for one in released:
            total.add(ExactSums.from_plain(self.folder.sums(one.source)))
        total.count(job.terms.class_edges, total.split.values())
        total.split.clear()
        # Other sums, for example after a file was corrected, get independent noise: the same noise
        # on two sums would publish their exact difference.
        text = json.dumps(total.to_plain(), ensure_ascii=False)
        digest = hashlib.sha256(text.encode()).digest()
        keys = {table: job.file_key(table, digest) for table in job.terms.drawn}
        return make_tables(total, job.terms, keys)

    def list_files(
        self,
        reports: Sequence[FileReport],  # noqa: ARG002
        tables: Mapping[str, bytes],
    ) -> list[dict[str, Any]]:
        """Return the public facts of every table."""
        import pyarrow as pa
        from pyarrow import parquet

        return [
            {
                "file": name,
                "state": "released",
                "released_rows": parquet.read_metadata(pa.BufferReader(content)).num_rows,
                "sha256": hashlib.sha256(content).hexdigest(),
                "bytes": len(content),
            }
            for name, content in tables.items()
        ]

    def mark_released(self, ledger: Ledger, digest: str) -> None:
        """Record that the tables with the sums of all files are published."""
        for plain in self.folder.all_reports():
            if plain["state"] == "released":
                ledger.mark_released(self.job.charge, plain["source"], digest)


def add_up(job: FleetJob, file: FleetFile, blocks: Blocks, dropped: BoolArray) -> ExactSums:
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

    def by_day(self, zone: str) -> tuple[list[int], IntArray]:
        """Return the civil days of meters as numbers, and the place of every row among them."""
        found, place = np.unique(
            self.meters << START_BITS | bins_of(self.seconds, "day", zone), return_inverse=True
        )
        return found.tolist(), place


class _Adder:
    """Adds up the kept blocks of one file, with its days scaled down to the cap.

    A meter counts once in an hour of the clock, in the group of its first row of that hour. An hour
    that lies in two days of the ledger may be in two files and is counted after the last of them. A
    day of a meter is a block, which is in one file.
    """

    def __init__(self, job: FleetJob, blocks: Blocks, dropped: BoolArray) -> None:
        assert isinstance(job.terms, SumTerms)
        self.terms, self._meter = job.terms, job.columns.meter
        self._blocks, self._dropped = blocks, dropped
        self._total = ExactSums()
        self._means: dict[tuple[int, int], SplitHour] = {}
        self._day_watts: dict[int, float] = {}
        self._counted: set[int] = set()  # Days of meters whose group is known

    def _kept(self, record: pa.RecordBatch) -> _Rows:
        """Return the rows of all blocks that are not dropped, clamped."""
        part, watts = (
            self._blocks.arrays(record), self._blocks.readings(record).watts(self.terms.clamp),
        )  # fmt: skip
        places = np.flatnonzero(self._blocks.kept_rows(part, self._dropped)[0])
        seconds = part.times[places] // self._blocks.ticks
        return _Rows(places, part.meter_map[part.codes[places]], seconds, watts[places])

    def measure_days(self, record: pa.RecordBatch) -> None:
        """Add up the clamped readings of every day of a meter [W]."""
        rows = self._kept(record)
        days, place = rows.by_day(self.terms.zone)
        for day, watts in zip(days, np.bincount(place, rows.watts), strict=True):
            self._day_watts[day] = self._day_watts.get(day, 0.0) + float(watts)

    def _capped(self, rows: _Rows, groups: Sequence[Group], places: IntArray) -> FloatArray:
        """Return the power of rows; all readings of a day above the cap are scaled down to it.

        The day of a meter is counted once, in the group of its first row.
        """
        if self.terms.cap_kwh is None:
            return rows.watts
        most = self.terms.cap_kwh * 1000 * SECONDS_PER_HOUR / self.terms.interval_s
        days, place = rows.by_day(self.terms.zone)
        factors = [most / max(most, self._day_watts[day]) for day in days]
        first = np.unique(place, return_index=True)[1]
        for day, row, factor in zip(days, first, factors, strict=True):
            if day not in self._counted:
                self._counted.add(day)
                counts = [int(factor < 1), 1]
                _add_to(self._total.tables[CLIPPED], (groups[places[row]], 0), counts)
        return np.asarray(rows.watts * np.array(factors)[place])

    def add(self, record: pa.RecordBatch) -> None:
        """Add the kept rows of one record."""
        rows, terms, tables = self._kept(record), self.terms, self._total.tables
        if not rows.places.size:
            return
        groups, places = _groups_of(record, terms.by, rows.places)
        steps = np.floor(self._capped(rows, groups, places) * per_watt(terms.step) + 0.5)
        codes, meters = dictionary_codes(record.column(self._meter))
        for place, group in enumerate(groups):
            found = np.unique(codes[rows.places][places == place])
            members = self._total.members.setdefault(group, set())
            members.update(str(meters[code]) for code in found.tolist())
        if "sums" in terms.tables:
            bins = bins_of(rows.seconds, terms.every, terms.zone)
            _add_cells(tables["sums"], groups, places, bins, steps)
        if terms.tables != ("sums",):
            clock = clock_hours(rows.seconds.astype("datetime64[s]"), terms.clock_zone)
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
        """Count the hourly means, except those of hours in two days, and return all sums."""
        whole = []
        starts = np.array([start for _, start in self._means], np.int64)
        ends = starts + SECONDS_PER_HOUR - 1
        first, last = (bins_of(one, "day", self.terms.zone).tolist() for one in (starts, ends))
        for place, ((meter, start), part) in enumerate(self._means.items()):
            if first[place] != last[place]:
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


def make_tables(
    total: ExactSums, terms: SumTerms, keys: Mapping[str, bytes]
) -> dict[str, pd.DataFrame]:
    """Draw the noise of all tables with their keys and make them.

    The terms choose among `sums` (with `peaks`), `shape` and `quantiles`.
    """
    groups = _Groups.of(total, terms)
    tables: dict[str, pd.DataFrame] = {}
    lost: dict[str, FloatArray] = {}
    if terms.cap_kwh is not None:
        clipped = _Noisy.draw(CLIPPED, total, groups, terms, keys[CLIPPED])
        lost = _lost_by_cap(clipped, groups, terms)
        columns = {"clipped_days": clipped.noisy, "clipped_se": clipped.noise}
        counted = clipped.readings.astype(np.int64)
        tables[CLIPPED] = groups.table("days", ["all"], customer_days=counted, **columns)
    for name in terms.tables:
        made = _Noisy.draw(name, total, groups, terms, keys[name])
        made = replace(made, lost=lost.get(name, made.lost))
        if name == "sums":
            tables |= {"sums": _sums_table(groups, terms, made)}
            tables |= {"peaks": _peaks_table(groups, terms, made)}
        else:
            make = _shape_table if name == "shape" else _quantiles_table
            tables[name] = make(groups, terms, made)
    return {
        name: table[table["meters"] >= terms.min_meters].reset_index(drop=True)
        for name, table in tables.items()
    }


def _lost_by_cap(clipped: _Noisy, groups: _Groups, terms: SumTerms) -> dict[str, FloatArray]:
    """Return what the cap cuts off one number of every table, as sums of readings [W], (n, 1).

    An hour of the day is assumed to lose at most `BUSIEST_HOUR` times the mean of all hours.
    """
    assert terms.reference is not None
    one_day = np.array(groups.columns["meters"])[:, None] / clipped.readings
    day, all_days = (
        terms.reference.lost_kwh(clipped.noisy, clipped.readings, clipped.noise**2, share)
        * JOULES_PER_KWH
        / terms.interval_s
        for share in (one_day, 1.0)
    )
    hour = BUSIEST_HOUR / HOURS_PER_DAY
    return {"sums": day if terms.every == "day" else day * hour, "shape": all_days * hour}


@dataclass(frozen=True)
class _Groups:
    """All groups of all levels, the coarsest level first."""

    leaves: list[Group]  # The finest groups
    incidence: FloatArray  # 1 where a group (row) contains a finest group (column)
    columns: dict[str, list[Any]]  # Level, name and number of meters of every group

    @classmethod
    def of(cls, total: ExactSums, terms: SumTerms) -> _Groups:
        """Find all groups of the exact sums."""
        leaves = sorted(total.members)
        groups = [
            group
            for level in range(1, len(terms.by) + 1)
            for group in dict.fromkeys(leaf[:level] for leaf in leaves)
        ]
        inside = [[leaf for leaf in leaves if leaf[: len(g)] == g] for g in groups]
        columns: dict[str, list[Any]] = {
            "level": [terms.by[len(group) - 1] for group in groups],
            "group": ["/".join(group) for group in groups],
            "meters": [len(set().union(*(total.members[leaf] for leaf in ls))) for ls in inside],
        }
        return cls(leaves, np.array([[x in ls for x in leaves] for ls in inside], float), columns)

    def table(self, name: str, places: Any, **more: Any) -> pd.DataFrame:
        """Return a table with a row for every group and every place in a named column."""
        import pandas as pd

        size, count = len(self.columns["group"]), len(places)
        named = {key: np.repeat(column, count) for key, column in self.columns.items()}
        filled = {key: np.broadcast_to(x, (size, count)).ravel() for key, x in more.items()}
        order = {"level": named["level"], "group": named["group"], name: np.tile(places, size)}
        return pd.DataFrame({**order, "meters": named["meters"], **filled})

    def join(self, noisy: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return least-squares estimates of all groups, and their errors in units of the noise."""
        a = self.incidence
        inverse = np.linalg.inv(a.T @ a)
        spread: FloatArray = np.sqrt(np.einsum("ij,jk,ik->i", a, inverse, a))
        estimate: FloatArray = a @ (inverse @ (a.T @ noisy))
        return estimate, spread[:, None]


@dataclass(frozen=True)
class _Noisy:
    """The columns of a table, its noisy numbers [W, or counts], and exact public numbers.

    The public numbers are those of the readings of a sum, or of the values that were counted.
    """

    columns: list[int]
    noisy: FloatArray
    readings: FloatArray
    noise: float  # Standard error of a noisy number from its noise alone
    # What a cap cuts off a number of every group, root mean square [W], shape (n, 1)
    lost: FloatArray

    @classmethod
    def draw(
        cls, name: str, total: ExactSums, groups: _Groups, terms: SumTerms, key: bytes
    ) -> Self:
        """Add noise to the exact numbers of all groups; no cap is counted."""
        cells, noise = total.tables[name], terms.promise.noise(name)
        columns = sorted({column for _, column in cells})
        row, place = ({n: i for i, n in enumerate(names)} for names in (groups.leaves, columns))
        exact = np.zeros((len(groups.leaves), len(columns), len(next(iter(cells.values())))))
        for (leaf, column), numbers in cells.items():
            exact[row[leaf], place[column]] = numbers
        found = np.tensordot(groups.incidence, exact, 1)
        step = 1.0 if name in COUNTS else float(terms.step)
        truth = found if name == "quantiles" else found[:, :, 0] * step
        noisy = noise.release(truth.reshape(-1), key=key).reshape(truth.shape)
        readings = found.sum(axis=2) if name == "quantiles" else found[:, :, 1]
        nothing = np.zeros((len(found), 1))
        return cls(columns, noisy, readings, terms.promise.error(name), nothing)

    @property
    def error(self) -> FloatArray:
        """Standard error of a noisy number, with what a cap cuts off."""
        return self.error_of(1.0)

    def error_of(self, spread: FloatArray | float) -> FloatArray:
        """The same if the noise is multiplied by a factor for every group."""
        return np.asarray(np.hypot(self.noise * spread, self.lost))

    @property
    def means(self) -> dict[str, FloatArray]:
        """The mean of a reading and its standard error [W]."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return {"mean_w": self.noisy / self.readings, "mean_se_w": self.error / self.readings}


def _sums_table(groups: _Groups, terms: SumTerms, made: _Noisy) -> pd.DataFrame:
    """Make the table of sums."""
    kwh = terms.interval_s / JOULES_PER_KWH
    estimate, spread = groups.join(made.noisy)
    joined = {"estimate_kwh": estimate * kwh, "estimate_se_kwh": made.error_of(spread) * kwh}
    return groups.table(
        "start",
        _starts(made.columns, terms),
        readings=made.readings.astype(np.int64),
        energy_kwh=made.noisy * kwh,
        energy_se_kwh=made.error * kwh,
        **made.means,
        **(joined if len(terms.by) > 1 else {}),
    )


def _starts(bins: Sequence[int] | IntArray, terms: SumTerms) -> pd.DatetimeIndex:
    """Return when bins start, UTC."""
    import pandas as pd

    starts = bin_starts(np.array(bins, np.int64), terms.every, terms.zone)
    return pd.to_datetime(starts, unit="s", utc=True)


def _peaks_table(groups: _Groups, terms: SumTerms, made: _Noisy) -> pd.DataFrame:
    """Make the table of the largest load of every group."""
    noise, bins = terms.promise.noise("sums"), len(made.columns)
    margin = noise.quantile(1 - (1 - CONFIDENCE) / bins) + noise.coarsened * noise.grid / 2
    # A sum over readings becomes the mean load of the group in the bin; a day has 23 to 25 hours.
    places = np.array(made.columns, np.int64)
    begins, ends = (bin_starts(at, terms.every, terms.zone) for at in (places, places + 1))
    kw = terms.interval_s / (ends - begins) / 1000
    loads = made.noisy * kw
    peak, room = loads.max(axis=1, keepdims=True), margin * kw.max()
    high = peak + room + 2 * made.lost * kw.max()
    table = groups.table("start", [0], peak_kw=peak, peak_low_kw=peak - room, peak_high_kw=high)
    return table.assign(start=_starts(places[loads.argmax(axis=1)], terms))


def _shape_table(groups: _Groups, terms: SumTerms, made: _Noisy) -> pd.DataFrame:
    """Make the table of mean loads by hour of the day."""
    estimate, spread = groups.join(made.noisy)
    with np.errstate(divide="ignore", invalid="ignore"):
        joined = {
            "estimate_w": estimate / made.readings,
            "estimate_se_w": made.error_of(spread) / made.readings,
        }
    return groups.table(
        "hour",
        made.columns,
        readings=made.readings.astype(np.int64),
        **made.means,
        **(joined if len(terms.by) > 1 else {}),
    )


def _quantiles_table(groups: _Groups, terms: SumTerms, made: _Noisy) -> pd.DataFrame:
    """Make the table of quantiles of the hourly means of single meters."""
    edges, per_hour = np.array(terms.class_edges) * float(terms.step), len(terms.quantiles)
    lines = [
        find_quantile(noisy, int(total), edges, made.noise, q)
        for noisy, total in zip(
            made.noisy.reshape(-1, edges.size - 1), made.readings.ravel(), strict=True
        )
        for q in terms.quantiles
    ]
    value, low, high = np.array(lines).T.reshape(3, len(groups.incidence), -1)
    table = groups.table(
        "hour",
        np.repeat(made.columns, per_hour),
        values=np.repeat(made.readings, per_hour, axis=1).astype(np.int64),
        quantile=np.tile(terms.quantiles, len(made.columns)),
        value_w=value,
        low_w=low,
        high_w=high,
    )
    return table[table["values"] > 0]


def find_quantile(
    noisy: FloatArray, total: int, edges: FloatArray, error: float, quantile: float
) -> tuple[float, float, float]:
    """Estimate a quantile from noisy counts of classes, whose exact total is public.

    Return the estimate, interpolated within its class, and edges between which the quantile lies
    with 95 % confidence [W].
    """
    classes = noisy.size
    places = np.arange(classes + 1)
    below = np.concatenate([[0.0], np.cumsum(noisy)])
    below -= places / classes * (below[-1] - total)
    spread = _SIGMAS * error * np.sqrt(places * (classes - places) / classes)
    wanted = quantile * total
    monotone = np.clip(isotonic(below), 0, total)
    # Equal neighbours have no slope, and the first of them is the quantile.
    first = max(1, int(np.argmax(monotone >= wanted)))
    left, right = monotone[first - 1], monotone[first]
    share = 1.0 if right <= left else (wanted - left) / (right - left)
    value = edges[first - 1] + share * (edges[first] - edges[first - 1])
    surely_below = below + spread < wanted
    surely_above = below - spread >= wanted
    low = int(np.flatnonzero(surely_below).max(initial=0))
    high = int(np.flatnonzero(surely_above).min(initial=classes))
    return float(value), float(min(edges[low], value)), float(max(edges[high], value))


def isotonic(values: FloatArray) -> FloatArray:
    """Return the rising sequence with the smallest sum of squared differences."""
    means: list[float] = []
    sizes: list[int] = []
    for value in values.tolist():
        means.append(value)
        sizes.append(1)
        while len(means) > 1 and means[-2] > means[-1]:
            mean, size = means.pop(), sizes.pop()
            means[-1] = (means[-1] * sizes[-1] + mean * size) / (sizes[-1] + size)
            sizes[-1] += size
    return np.repeat(means, sizes)
