"""Sums of a fleet with one noise per published number (central differential privacy).

A utility that holds all readings can add them up first and draw noise once for each sum. The noise
then protects one household and does not grow with the number of households: for a sum over n
homes the error is about √n times smaller than that of adding up n released homes.

The unit of protection is everything that one household does in one civil day of up to 25 hours.
Every reading is clamped to a range of C watts and rounded to whole steps of the grid, so that all
sums are exact integers. A household's day touches T = ⌈25 h/bin⌉ + 1 bins (its beginning may lie
within a bin) with at most W readings each, N = 25 h/interval readings in all, in each of L levels
of groups. The sums of all bins and levels together change by at most

    Δ1 = C·N·L  (Laplace),    Δ2 = C·√(N·W·L)  (Gaussian).

Groups, times and the membership of meters are public. Levels (region, feeder) are nested groups;
their sums are joined by generalised least squares, which costs no further privacy: with the
incidence matrix A of all groups and finest groups, and equal variances of the noise,
x = (AᵀA)⁻¹Aᵀy, and the published estimates are A·x.

References
----------
.. [1] M. Hay, V. Rastogi, G. Miklau, D. Suciu, "Boosting the accuracy of differentially private
   histograms through consistency", Proc. VLDB Endow. 3, 2010.
"""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter import __version__
from hushmeter.checks import BoolArray, FloatArray, IntArray, one_of, whole
from hushmeter.errors import BudgetError, DataError, InputError
from hushmeter.files import atomic
from hushmeter.fleet.blocks import Blocks, dictionary_codes
from hushmeter.fleet.input_files import TICKS
from hushmeter.fleet.job import Columns, FleetJob, FleetTerms, InputFormat
from hushmeter.fleet.kernels import to_watts
from hushmeter.fleet.ledger import Charge, Ledger, Price, micro_epsilon, open_ledger
from hushmeter.fleet.ledger.charges import LONGEST_S, UNITS, epsilon_text, femto_delta
from hushmeter.fleet.manifest import MANIFEST, count_problems
from hushmeter.fleet.release import find_interval, new_release, open_folders
from hushmeter.fleet.source_folder import list_files
from hushmeter.fleet.task import FileReport, check_blocks, check_file, open_input
from hushmeter.noise import Gaussian, Laplace
from hushmeter.noise.parameters import exact, per_watt, to_steps

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from hushmeter.noise.mechanism import Mechanism

SCHEMA = "hushmeter-sums-1"
TABLE = "sums.parquet"
EVERY_S = {"hour": 3600, "day": 86_400}
JOULES_PER_KWH = 3.6e6
COLUMNS = (
    "level",
    "group",
    "start",
    "meters",
    "readings",
    "energy_kwh",
    "energy_se_kwh",
    "mean_w",
    "mean_se_w",
    "estimate_kwh",
    "estimate_se_kwh",
)


@dataclass(frozen=True)
class SumTerms:
    """The promise of a release of sums.

    Attributes
    ----------
    epsilon : str
        ε for everything that one household does in one day, an exact decimal number.
    clamp : (low, high)
        Bounds of a reading [W], known beforehand.
    by : tuple of str
        Columns with nested groups, from the coarsest to the finest.
    every : {"hour", "day"}
        UTC bin of a sum.
    mechanism : {"best", "laplace", "gaussian"}
        Distribution of the noise; "best" is the one with the smaller error.
    grid : str
        Step to which readings are rounded [W].
    delta : float
        δ of Gaussian noise.
    max_epsilon : float
        Largest ε that is accepted.
    min_meters : int
        Groups with fewer meters are not published; membership is public.
    """

    epsilon: str
    clamp: tuple[float, float]
    by: tuple[str, ...]
    every: str = "hour"
    mechanism: str = "best"
    grid: str = "1"
    delta: float = 1e-6
    max_epsilon: float = 20.0
    min_meters: int = 1

    def __post_init__(self) -> None:
        one_of("every", self.every, tuple(EVERY_S))
        one_of("mechanism", self.mechanism, ("best", "laplace", "gaussian"))
        whole("min_meters", self.min_meters)
        if not self.by or len(set(self.by)) < len(self.by):
            raise InputError("name one or more different columns to group by.")


@dataclass(frozen=True)
class SumsRelease:
    """A finished release of sums.

    Attributes
    ----------
    table : DataFrame
        One row per level, group and bin: `level`, `group`, `start` (UTC), `meters`, `readings`,
        `energy_kwh` with its standard error `energy_se_kwh` [kWh], `mean_w` and `mean_se_w` of one
        reading [W], and with several levels the joined `estimate_kwh` and `estimate_se_kwh`.
    manifest : dict
        The promise, the charge and what was left out.
    """

    table: pd.DataFrame
    manifest: dict[str, Any]

    @property
    def complete(self) -> bool:
        """True if nothing was left out."""
        left = self.manifest["quarantine"]
        return not (left["files"] or left["blocks"])


def build_sum_mechanism(terms: SumTerms, interval_s: int) -> Mechanism:
    """Build the noise on every sum.

    Parameters
    ----------
    terms : SumTerms
        The promise.
    interval_s : int
        Length of a reading [s].

    Returns
    -------
    Mechanism
        Noise on sums of readings [W].
    """
    if terms.mechanism == "best":
        both = (replace(terms, mechanism=name) for name in ("laplace", "gaussian"))
        return min((build_sum_mechanism(one, interval_s) for one in both), key=lambda m: m.std)

    step = exact("grid", terms.grid)
    low, high = (to_steps(bound, step) for bound in terms.clamp)
    width = (high - low) * step
    bin_s = max(EVERY_S[terms.every], interval_s)
    readings = math.ceil(LONGEST_S["day"] / interval_s)
    levels, per_bin = len(terms.by), bin_s // interval_s
    touches = (math.ceil(LONGEST_S["day"] / bin_s) + 1) * levels
    options: dict[str, Any] = {"on_grid": True, "max_epsilon": terms.max_epsilon}
    if terms.mechanism == "laplace":
        return Laplace(terms.epsilon, width * readings * levels, step, touches=touches, **options)
    root = math.isqrt(readings * per_bin * levels - 1) + 1
    return Gaussian(terms.epsilon, terms.delta, width * root, step, touches=touches, **options)


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
    release: str | None = None,
    key: bytes | None = None,
) -> SumsRelease:
    """Release the sums of groups of meters, and charge every member.

    All files are read and added up first. Then the ledger is charged, the noise is drawn and the
    table is written. If the machine fails after the charge, the charge is lost.

    Parameters
    ----------
    source_dir, output_dir : path
        The input folder, and a new or empty folder.
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
    BudgetError
        If another release spent the budget of a member meanwhile.
    """
    source, output = open_folders(source_dir, output_dir)
    _check_output(output)
    files = list_files(source)
    names = columns or Columns()
    seconds = interval_s if interval_s is not None else find_interval(source, files, names)
    job = FleetJob(
        FleetTerms(terms.epsilon, terms.clamp, interval_s=seconds, max_epsilon=terms.max_epsilon),
        source.name, str(output), ledger, release or new_release(), stream, False, names,
        tuple(sorted(terms.by)), InputFormat(*_stated(form), interval_s),
    )  # fmt: skip
    mechanism = build_sum_mechanism(terms, seconds)
    facts = _promise(terms, mechanism, seconds)
    charge = Charge(job.release, stream, facts)
    price = Price(micro_epsilon(terms.epsilon), femto_delta(mechanism.delta))
    with open_ledger(ledger) as opened:
        reports, granted = _ask(job, files, opened, charge, price)
        sums = _add_up(job, terms, files, granted)
        digest = hashlib.sha256(repr(sorted(sums.members)).encode()).hexdigest()
        for name, pairs in granted.items():
            _pay(opened, charge, price, name, pairs, digest)
        table = _finish(sums, terms, mechanism, seconds, key or secrets.token_bytes(32))
        manifest = _write(output, job, terms, facts, reports, table, str(opened.head()))
        for name, pairs in granted.items():
            if pairs:
                opened.mark_released(charge, name, manifest["sha256"])
    return SumsRelease(table, manifest)


@dataclass
class _Sums:
    """Exact sums while files are read.

    Attributes
    ----------
    cells : dict
        For every (path of groups, bin): sum of grid steps, and number of readings.
    members : set
        Every (path of groups, meter).
    """

    cells: dict[tuple[tuple[str, ...], int], list[int]] = field(default_factory=dict)
    members: set[tuple[tuple[str, ...], str]] = field(default_factory=set)


def _ask(
    job: FleetJob, files: Sequence[str], ledger: Ledger, charge: Charge, price: Price
) -> tuple[list[FileReport], dict[str, list[tuple[str, str]]]]:
    """Check all files and ask the ledger which (meter, day) it would grant."""
    checked = [check_file(job, name) for name in files]
    outcomes = ledger.rehearse(
        charge,
        micro=price.micro,
        femto=price.femto,
        sources={one.report.source: (one.meters, one.periods) for one in checked},
    )
    granted = {}
    for one in checked:
        rows = outcomes[one.report.source].granted.tolist()
        granted[one.report.source] = [(one.meters[row], one.periods[row]) for row in rows]
    return [one.after(outcomes[one.report.source]) for one in checked], granted


def _pay(
    ledger: Ledger,
    charge: Charge,
    price: Price,
    source: str,
    pairs: Sequence[tuple[str, str]],
    digest: str,
) -> None:
    """Charge the members of one file, all or none."""
    outcome = ledger.spend(
        charge,
        micro=price.micro,
        femto=price.femto,
        meters=[meter for meter, _ in pairs],
        periods=[period for _, period in pairs],
        digest=digest,
        source=source,
        all_or_nothing=True,
    )
    if outcome.resumed:
        raise BudgetError(f"release {charge.release} has been paid for before; begin another.")


def _add_up(
    job: FleetJob, terms: SumTerms, files: Sequence[str], granted: dict[str, list[tuple[str, str]]]
) -> _Sums:
    """Add up the granted blocks of all files in whole grid steps."""
    sums = _Sums()
    for name in files:
        if not granted[name]:
            continue
        with open_input(job, name) as file:
            blocks = check_blocks(job, file)
            wanted = set(granted[name])
            pairs = zip(*blocks.names(np.arange(blocks.count)), strict=True)
            dropped = np.array([pair not in wanted for pair in pairs]) | blocks.bad
            for group in file.row_groups():
                for record in group:
                    _add_record(sums, record, blocks, dropped, terms, job, TICKS[file.time_unit])
    return sums


def _add_record(
    sums: _Sums,
    record: pa.RecordBatch,
    blocks: Blocks,
    dropped: BoolArray,
    terms: SumTerms,
    job: FleetJob,
    ticks: int,
) -> None:
    """Add the kept rows of one record to the sums."""
    part, readings = blocks.arrays(record), blocks.readings(record)
    keep, _ = blocks.kept_rows(part, dropped)
    watts = np.empty(readings.values.size)
    to_watts(readings.values, readings.unit_codes, readings.factors, *terms.clamp, watts)
    steps = np.floor(watts * per_watt(exact("grid", terms.grid)) + 0.5)
    bins = part.times // (EVERY_S[terms.every] * ticks)
    codes, meters = dictionary_codes(record.column(job.columns.meter))
    for path, rows in _rows_by_group(record, terms.by, keep):
        sums.members |= {(path, str(meters[code])) for code in np.unique(codes[rows]).tolist()}
        found, places = np.unique(bins[rows], return_inverse=True)
        counts = np.bincount(places)
        # Sums of whole numbers below 2^53 are exact in float64.
        totals = np.bincount(places, weights=steps[rows])
        for moment, total, count in zip(found.tolist(), totals, counts, strict=True):
            cell = sums.cells.setdefault((path, moment), [0, 0])
            cell[0] += int(total)
            cell[1] += int(count)


def _rows_by_group(
    record: pa.RecordBatch, by: Sequence[str], keep: BoolArray
) -> Iterator[tuple[tuple[str, ...], IntArray]]:
    """Yield the groups of a record, from the coarsest to the finest level, with their kept rows."""
    columns = [dictionary_codes(record.column(name)) for name in by]
    rows = np.flatnonzero(keep)
    if not rows.size:
        return
    codes = np.stack([codes[rows] for codes, _ in columns], axis=1)
    found, places = np.unique(codes, axis=0, return_inverse=True)
    order = np.argsort(places.reshape(-1), kind="stable")
    cuts = np.cumsum(np.bincount(places.reshape(-1)))[:-1]
    for line, chosen in zip(found, np.split(order, cuts), strict=True):
        path = tuple(
            "" if code < 0 else str(texts[code])
            for code, (_, texts) in zip(line.tolist(), columns, strict=True)
        )
        yield path, rows[chosen]


def _finish(
    sums: _Sums, terms: SumTerms, mechanism: Mechanism, interval_s: int, key: bytes
) -> pd.DataFrame:
    """Draw one noise for every cell of every level, join the levels and make the table."""
    import pandas as pd

    leaves = sorted({path for path, _ in sums.cells})
    moments = sorted({moment for _, moment in sums.cells})
    groups = [
        group
        for level in range(1, len(terms.by) + 1)
        for group in dict.fromkeys(leaf[:level] for leaf in leaves)
    ]
    totals, counts = _arrays(sums, leaves, moments, terms)
    incidence = np.array([[leaf[: len(g)] == g for leaf in leaves] for g in groups], np.float64)
    incidence = incidence.reshape(len(groups), len(leaves))
    truth = incidence @ totals
    noisy = mechanism.release(truth.reshape(-1), key=key).reshape(truth.shape)
    estimate, spread = _join(incidence, noisy)
    error = math.hypot(mechanism.std, mechanism.coarsened * mechanism.grid / math.sqrt(12))
    readings = incidence @ counts
    meters = _count_members(sums, groups)
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    kwh = interval_s / JOULES_PER_KWH
    for i, group in enumerate(groups):
        if meters[group] < terms.min_meters:
            continue
        size = len(moments)
        with np.errstate(divide="ignore", invalid="ignore"):
            values = (
                [terms.by[len(group) - 1]] * size, ["/".join(group)] * size,
                [moment * EVERY_S[terms.every] for moment in moments], [meters[group]] * size,
                readings[i].astype(np.int64), noisy[i] * kwh, np.full(size, error * kwh),
                noisy[i] / readings[i], error / readings[i],
                estimate[i] * kwh, np.full(size, error * spread[i] * kwh),
            )  # fmt: skip
        for name, part in zip(COLUMNS, values, strict=True):
            columns[name].extend(part)
    table = pd.DataFrame(columns)
    table["start"] = pd.to_datetime(table["start"], unit="s", utc=True)
    joined = ["estimate_kwh", "estimate_se_kwh"]
    return table.drop(columns=joined) if len(terms.by) == 1 else table


def _arrays(
    sums: _Sums, leaves: list[tuple[str, ...]], moments: list[int], terms: SumTerms
) -> tuple[FloatArray, FloatArray]:
    """Return the sums [W] and the numbers of readings of the finest groups, by bin."""
    row, column = ({name: i for i, name in enumerate(names)} for names in (leaves, moments))
    totals, counts = np.zeros((2, len(leaves), len(moments)))
    for (path, moment), (total, count) in sums.cells.items():
        totals[row[path], column[moment]], counts[row[path], column[moment]] = total, count
    return totals * float(exact("grid", terms.grid)), counts


def _count_members(sums: _Sums, groups: list[tuple[str, ...]]) -> dict[tuple[str, ...], int]:
    """Return the number of meters of every group."""
    members: dict[tuple[str, ...], set[str]] = {group: set() for group in groups}
    for path, meter in sums.members:
        for level in range(1, len(path) + 1):
            members[path[:level]].add(meter)
    return {group: len(found) for group, found in members.items()}


def _join(incidence: FloatArray, noisy: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return least-squares estimates of all groups, and their errors in units of the noise."""
    if incidence.size == 0:
        return noisy, np.ones(len(noisy))
    inverse = np.linalg.inv(incidence.T @ incidence)
    spread: FloatArray = np.sqrt(np.einsum("ij,jk,ik->i", incidence, inverse, incidence))
    estimate: FloatArray = incidence @ (inverse @ (incidence.T @ noisy))
    return estimate, spread


def _promise(terms: SumTerms, mechanism: Mechanism, interval_s: int) -> dict[str, Any]:
    """Return the promise as plain values."""
    low, high = terms.clamp
    return {
        "version": __version__,
        "epsilon": terms.epsilon,
        "delta": mechanism.delta,
        "mechanism": mechanism.describe(),
        "unit": "everything that one household does in one civil day of up to 25 hours",
        "clamp": [low, high],
        "by": list(terms.by),
        "every": terms.every,
        "interval_s": interval_s,
        "min_meters": terms.min_meters,
    }


def _write(
    output: Path,
    job: FleetJob,
    terms: SumTerms,
    promise: dict[str, Any],
    reports: Sequence[FileReport],
    table: pd.DataFrame,
    head: str,
) -> dict[str, Any]:
    """Write the table and then the manifest; write nothing if no member was granted."""
    import pyarrow as pa
    from pyarrow import parquet

    manifest = {
        "schema": SCHEMA,
        "release": job.release,
        "stream": job.stream,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "promise": promise,
        "charge": {
            "epsilon": epsilon_text(micro_epsilon(terms.epsilon)),
            "delta": promise["delta"],
            "unit": UNITS["day"],
            "blocks": sum(report.released_blocks for report in reports),
        },
        "rows": len(table),
        "released_readings": sum(report.released_rows for report in reports),
        "quarantine": count_problems(reports),
        "ledger_head": head,
        "sha256": "",
    }
    if not len(table):
        return manifest
    with atomic(output / TABLE) as temporary:
        parquet.write_table(pa.Table.from_pandas(table, preserve_index=False), temporary,
                            compression="zstd")  # fmt: skip
        manifest["sha256"] = hashlib.sha256(temporary.read_bytes()).hexdigest()
    with atomic(output / MANIFEST) as temporary:
        temporary.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", "utf-8")
    return manifest


def _check_output(output: Path) -> None:
    """Refuse an output that is not empty."""
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise DataError(f"{output} is not an empty folder; name another folder.")


def _stated(form: InputFormat | None) -> tuple[str | None, str | None]:
    """Return the unit and the zone that the options state."""
    return (None, None) if form is None else (form.unit, form.tz)
