"""A released folder: its manifest, what does not agree with it, and sums of its readings.

*Manifest.* It is written last: a folder without a manifest is not a release. It is public and
states what was promised and which files the folder holds. Everything in it follows from names,
times, options and noisy values.

*Sums.* `summarise_fleet` adds up a fleet release, and `summarise_estimates` the calendar releases
or restored files of one home or of many.

The distribution of the noise is public and the noise of every reading is independent, so the error
of a sum is known without the data. A sum of n readings of a fleet release has the standard error

    s = √n·√(σ² + g²/12),

where σ² is the variance of the noise and g is the grid. Rounding to the grid adds at most a uniform
error of width g, and nothing if the meter reports on the grid already. The error that the clamp
causes is not included, because it cannot be computed from the release. Calendar releases and
restored files state their own errors, and the noise of two homes is independent.
"""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from hushmeter.apps.fleet.folders import PRIVATE
from hushmeter.apps.fleet.input_files import TICKS
from hushmeter.apps.fleet.job import (
    Columns,
    FleetTerms,
    Terms,
    describe_charge,
    mark_of,
    plain,
    read_terms,
    reading_error,
)
from hushmeter.apps.fleet.meter_periods import calendar_of, dictionary_codes
from hushmeter.apps.fleet.series import MARK
from hushmeter.apps.fleet.sum_terms import SumTerms
from hushmeter.apps.ledger import DayChange
from hushmeter.checks import FloatArray, IntArray, non_negative, one_of
from hushmeter.errors import DataError, InputError
from hushmeter.files import parse_json
from hushmeter.releases.restore import NOTE as RESTORED_NOTE
from hushmeter.releases.restore import Estimate, read_estimates
from hushmeter.releases.verify import compare_entries
from hushmeter.trace import JOULES_PER_KWH, SECONDS_PER_HOUR, UNITS, watts_per

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

MANIFEST = "manifest.json"
LATER = ("finished", "rows", "released_rows", "released_blocks", "files", "quarantine",
         "ledger_head")  # fmt: skip
"""Entries of a manifest that are known only after the last file, so that no file marks them."""

KNOWN = ("schema", "release", "stream", "correction", "asked", "columns", "kept_without_noise",
         "promise", "charge")  # fmt: skip
"""The other entries of a manifest; see `FleetJob.facts`."""

FILE = {"file", "state", "rows", "released_rows", "released_blocks", "sha256", "bytes"}
"""Entries of a released file; a table of sums has no readings and blocks of its own."""

LEFT_OUT = {"files", "blocks", "reasons"}
"""Entries of what was left out."""

EVERY = ("hour", "day", "month", "all")
RESULTS = (
    "start",
    "readings",
    "energy_kwh",
    "energy_se_kwh",
    "mean_w",
    "mean_se_w",
    "bill",
    "bill_se",
)
"""Columns of a summary besides the group."""


_ROWS = 1 << 20


@dataclass(frozen=True)
class Manifest:
    """The manifest of a finished release."""

    terms: Terms  # What was asked for
    columns: Columns  # Names of the columns of the input
    # SHA-256 of every released file by its name relative to the folder, as hexadecimal text
    sha256: dict[str, str]
    rows: dict[str, int]  # Number of rows of every released file by its name
    facts: dict[str, Any]  # The complete JSON

    @property
    def zone(self) -> str:
        """Time zone of the days and months of the release."""
        return DayChange.from_dict(self.facts["charge"]["protects"]).zone


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
        if path.resolve() != folder.resolve() / name:
            raise DataError(f"{path} is a link, and a released folder holds its files themselves.")
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
        if (path.is_symlink() or not path.is_dir()) and name.as_posix() not in listed:
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
    mark = mark_of({name: manifest.facts[name] for name in KNOWN})
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
    names = [file["file"] for file in facts["files"]]
    if (
        facts.keys() - {"signature"} != {*KNOWN, *LATER}
        or len({*names}) < len(names)
        or facts["quarantine"].keys() != LEFT_OUT
        or any(file.keys() != wanted for file in facts["files"])
        or any(kinds[file["state"]] != bool(file["sha256"]) for file in facts["files"])
    ):
        raise ValueError


def _check_inside(manifest: Path, name: str) -> None:
    """Raise `DataError` unless a name stays within the folder of the manifest."""
    parts = {*PurePosixPath(name).parts, *Path(name).parts}
    alias = name != PurePosixPath(name).as_posix()
    if not parts or ".." in parts or name.startswith("/") or Path(name).is_absolute() or alias:
        raise DataError(f"{manifest} names a file outside its folder: {name!r}; do not use it.")


@dataclass(frozen=True)
class FleetSummary:
    """Sums of a release."""

    # Columns: the group, `start` (UTC), `readings` (their number), `energy_kwh` and `energy_se_kwh`
    # of all readings [kWh], `mean_w` and `mean_se_w` of one reading [W], and with a price `bill`
    # and `bill_se`.
    table: pd.DataFrame
    reading_se_w: float  # Standard error of one released reading [W]
    notes: tuple[str, ...]  # What the errors do not cover


def summarise_fleet(
    folder: Path | str,
    by: str = "group",
    every: str = "month",
    *,
    price_per_kwh: float | None = None,
) -> FleetSummary:
    """Add up a released folder by a column: a feeder, a tariff, or the meter itself for bills.

    Hours are those of UTC, days and months those of the ledger, and a price of a kWh gives bills.
    Raise `InputError` if a column or a period is unknown, and `DataError` if the folder is not a
    complete release of series.
    """
    import pandas as pd

    folder = Path(folder)
    one_of("every", every, EVERY)
    if by in RESULTS:
        raise InputError(f"{by!r} is a column of the result; group by a column with another name.")
    manifest = read_manifest(folder)
    if not isinstance(manifest.terms, FleetTerms):
        raise DataError(f"{folder} holds sums already, in its tables; add up a release of series.")
    parts = [part for name in manifest.sha256 for part in _parts(folder, name, manifest, by, every)]
    sums = pd.concat(parts).groupby([by, "bin"], as_index=False).sum()
    sums["start"] = _starts(sums["bin"].to_numpy(int), every, manifest.zone)
    error = reading_error(manifest.terms)
    sums["squares"] = error**2 * sums["readings"]
    table = _finish(sums, by, manifest.terms.interval_s, price_per_kwh)
    return FleetSummary(table, error, _notes(manifest))


def summarise_estimates(
    path: Path | str, by: str = "group", every: str = "month", *, price_per_kwh: float | None = None
) -> FleetSummary:
    """Add up calendar releases or restored files, one for each home.

    "meter" has rows for every home, and "group" adds all homes up. Days and months of a calendar
    release are those of its time zone, and `readings` counts the cells. Raise `DataError` if the
    path has no such files, they have different intervals, or a receipt does not verify.
    """
    one_of("by", by, ("group", "meter"))
    one_of("every", every, EVERY)
    estimates = read_estimates(path)
    lengths = {estimate.trace.interval_s for estimate in estimates}
    if len(lengths) > 1:
        raise DataError(f"{path} holds values of {len(lengths)} different lengths; add up one.")
    table = _add_estimates(estimates, by, every, price_per_kwh)
    squares = np.concatenate([estimate.errors**2 for estimate in estimates])
    return FleetSummary(table, math.sqrt(float(squares.mean())), _estimate_notes(estimates))


def _add_estimates(
    estimates: list[Estimate], by: str, every: str, price: float | None
) -> pd.DataFrame:
    """Sums of the homes or of all of them; variances of different homes add up."""
    import pandas as pd

    parts = []
    for estimate in estimates:
        starts, cells, watts, errors = estimate.sums(every)
        name = estimate.name if by == "meter" else "all"
        columns = {"start": starts, "readings": cells, "watts": watts, "squares": errors**2}
        parts.append(pd.DataFrame({by: name, **columns}))
    rows = pd.concat(parts, ignore_index=True)
    if every == "all":
        rows["start"] = pd.NaT
    sums = rows.groupby([by, "start"], as_index=False, dropna=False).sum()
    moments = sums["start"].to_numpy().astype("datetime64[s]")
    sums["start"] = pd.Series(moments).dt.tz_localize("UTC")
    return _finish(sums, by, estimates[0].trace.interval_s, price)


def _finish(sums: pd.DataFrame, by: str, interval_s: float, price: float | None) -> pd.DataFrame:
    """Convert sums of watts and their variances to energies, means and bills, sorted."""
    count, kwh = sums["readings"].to_numpy(float), interval_s / JOULES_PER_KWH
    error = np.sqrt(sums["squares"].to_numpy(float))
    table = sums[[by, "start", "readings"]].assign(
        energy_kwh=sums["watts"] * kwh,
        energy_se_kwh=error * kwh,
        mean_w=sums["watts"] / count,
        mean_se_w=error / count,
    )
    if price is not None:
        price = non_negative("price_per_kwh", price)
        table["bill"] = table["energy_kwh"] * price
        table["bill_se"] = table["energy_se_kwh"] * price
    return table.sort_values([by, "start"], ignore_index=True)


def _estimate_notes(estimates: list[Estimate]) -> tuple[str, ...]:
    """Return one sentence for everything that the errors do not cover."""
    notes = []
    zones = sorted({estimate.zone for estimate in estimates} - {"UTC"})
    if zones:
        notes.append(f"Days and months of calendar releases are those of {', '.join(zones)}.")
    if any(estimate.kind == "restored" for estimate in estimates):
        notes.append(
            f"{RESTORED_NOTE} Their errors do not cancel, so the error of a sum is the sum of them."
        )
    return tuple(notes)


def _notes(manifest: Manifest) -> tuple[str, ...]:
    """Return one sentence for everything that the errors do not cover."""
    assert manifest.terms.clamp is not None
    low, high = manifest.terms.clamp
    notes = [
        f"Readings were clamped to {low:g} … {high:g} W before the noise was added. This shifts "
        "the sums by an amount that the errors do not show."
    ]
    left = manifest.facts["quarantine"]
    if left["files"] or left["blocks"]:
        notes.append(
            f"The release, and hence these sums, lack {left['blocks']} blocks of a meter and a "
            f"{manifest.terms.period}, and {left['files']} whole files."
        )
    return tuple(notes)


def _parts(
    folder: Path, name: str, manifest: Manifest, by: str, every: str
) -> Iterator[pd.DataFrame]:
    """Yield number and sum [W] of the readings of every group and bin, for one part of a file."""
    import pandas as pd
    import pyarrow as pa
    from pyarrow import parquet

    names = manifest.columns
    wanted = list(dict.fromkeys((by, names.time, names.value, names.unit)))
    path = folder / name
    try:
        with open_released(folder, name, manifest.sha256[name]) as raw:
            known = parquet.read_schema(raw).names
            missing = [column for column in wanted if column not in known]
            if missing:
                raise InputError(f"{path} has no column {missing[0]!r}; it has {', '.join(known)}.")
            raw.seek(0)
            file = parquet.ParquetFile(raw, read_dictionary=[by, names.unit], pre_buffer=False)
            ticks = TICKS[file.schema_arrow.field(names.time).type.unit]
            for batch in file.iter_batches(_ROWS, columns=wanted, use_threads=False):
                times = batch.column(names.time).cast(pa.int64()).to_numpy()
                bins = _bins(times, ticks, every, manifest.zone)
                rows = pa.table(
                    [batch.column(by), bins, _watts(batch, manifest)], ["by", "bin", "w"]
                )
                grouped = rows.group_by(["by", "bin"], use_threads=False)
                found = grouped.aggregate([("w", "count"), ("w", "sum")])
                groups = ["" if one is None else str(one) for one in found["by"].to_pylist()]
                columns = {"bin": "bin", "readings": "w_count", "watts": "w_sum"}
                numbers = {column: found[kind].to_numpy() for column, kind in columns.items()}
                yield pd.DataFrame({by: groups, **numbers})
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read: {str(error).splitlines()[0]}") from None


def _watts(batch: pa.RecordBatch, manifest: Manifest) -> FloatArray:
    """Return released values as watts."""
    import pyarrow as pa

    values: FloatArray = batch.column(manifest.columns.value).cast(pa.float64()).to_numpy()
    codes, units = dictionary_codes(batch.column(manifest.columns.unit))
    length = manifest.terms.interval_s
    factors = [watts_per(unit if unit in UNITS else "W", length) for unit in units.to_pylist()]
    return np.asarray(values * np.array(factors)[codes])


def _bins(times: IntArray, ticks: int, every: str, zone: str) -> IntArray:
    """Return the number of the UTC hour, or of the civil day or month, of each time, or 0."""
    if every == "all":
        return np.zeros(times.size, np.int64)
    if every == "hour":
        return times // (SECONDS_PER_HOUR * ticks)
    return np.searchsorted(calendar_of(every, zone)[1], times // ticks, side="right") - 1


def _starts(bins: IntArray, every: str, zone: str) -> Any:
    """Return the start of each bin, UTC."""
    import pandas as pd

    if every == "all":
        return pd.Series([pd.NaT] * bins.size, dtype="datetime64[s, UTC]")
    seconds = bins * SECONDS_PER_HOUR if every == "hour" else calendar_of(every, zone)[1][bins]
    return pd.Series(seconds.astype("datetime64[s]")).dt.tz_localize("UTC")
