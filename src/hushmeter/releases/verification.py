"""Checks of a released file against its public receipt, as its recipient can make them."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.errors import DataError, HushmeterError
from hushmeter.files import parse_json
from hushmeter.noise import parse_mechanism
from hushmeter.privacy.units import LONGEST_DAY_S
from hushmeter.read import ReadOptions, read_home_bytes
from hushmeter.read.green_button import read_green_button
from hushmeter.read.source import MemoryFile
from hushmeter.releases.calendar import local_times
from hushmeter.releases.receipt import (
    METERING,
    OTHER_DAYS,
    SCHEMA,
    THESE_READINGS,
    covers_any_use,
    digest_columns,
    least_change,
    unit_sentence,
)
from hushmeter.releases.signing import check_signature
from hushmeter.releases.storage import receipt_path
from hushmeter.trace import SECONDS_PER_HOUR, TimeArray, iso, utc
from hushmeter.write import FORMATS

if TYPE_CHECKING:
    from hushmeter.checks import FloatArray
    from hushmeter.noise.mechanism import Mechanism

TOLERANCE = 1e-9
"""Relative difference between two ways to compute the same number."""

SOURCES = {"typed", "catalogue", OTHER_DAYS, THESE_READINGS}
UNIT_NAMES = {
    "sentence", "protect", "span", "watts", "watt_hours", "interval_s", "window", "l1", "l2",
    "largest", "touches", "zone", "day_scale", "use_s", *METERING,
}  # fmt: skip

FIELDS: dict[str, type | tuple[type, ...]] = {
    "kind": str,
    "mechanism": dict,
    "unit": dict,
    "epsilon": (int, float),
    "delta": (int, float),
    "sources": list,
    "output": dict,
    "file": dict,
    "version": str,
}


@dataclass(frozen=True)
class Verification:
    """The result of `verify`.

    Attributes
    ----------
    path : Path
        The file or folder that was checked.
    checks : tuple of str
        What was checked and found correct, one sentence each.
    problems : tuple of str
        Everything that differs, one sentence each; empty if all is correct.
    """

    path: Path
    checks: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """True if nothing differs."""
        return not self.problems


def verify_file(
    path: Path, key: str | Path | None = None, *, receipt: Path | None = None
) -> Verification:
    """Compare a released file with its public receipt.

    Parameters
    ----------
    path : Path
        The data file OUT; its receipt is OUT.receipt.json.
    key : str or Path, optional
        Public key that must have signed the receipt.
    receipt : Path, optional
        The public receipt, if it has another place.

    Returns
    -------
    Verification

    Raises
    ------
    DataError
        If the file or its receipt cannot be read, or the receipt is not one of this version.
    """
    data = _read_bytes(path)
    stated = receipt or receipt_path(path)
    fields = read_receipt(stated)
    checks: list[str] = []
    problems: list[str] = []
    for check in (_check_digest, _check_rows, _check_promise, _check_names, _check_kind):
        try:
            checks.append(check(path, data, fields))
        except (KeyError, TypeError, ValueError, ArithmeticError) as error:
            problems.append(_sentence(path, error))
    try:
        checks.append(check_signature(fields, key))
    except HushmeterError as error:
        problems.append(f"{stated}: {error}")
    return Verification(path, tuple(checks), tuple(problems))


def read_receipt(path: Path) -> dict[str, Any]:
    """Read a public receipt and check that it has the fields of one.

    Parameters
    ----------
    path : Path
        OUT.receipt.json.

    Returns
    -------
    dict
        The receipt as plain values.

    Raises
    ------
    DataError
        If the file is missing, is not JSON, or is not a public receipt of this version.
    """
    content = _read_bytes(path)
    try:
        fields: Any = parse_json(content)
    except ValueError as error:
        raise DataError(f"{path} is not a JSON file ({error}).") from None
    schema = fields.get("schema") if isinstance(fields, dict) else None
    if schema != SCHEMA:
        raise DataError(f"{path} is not a public receipt of this version ({SCHEMA}).")
    for name, kind in FIELDS.items():
        value = fields.get(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise DataError(f"{path} has no valid entry {name!r}; it is not a complete receipt.")
    return dict(fields)


def _check_digest(path: Path, data: bytes, fields: dict[str, Any]) -> str:
    """The data file has the SHA-256 and the size of the receipt."""
    if hashlib.sha256(data).hexdigest() != fields["file"]["sha256"]:
        raise DataError(
            f"{path} is not the file of its receipt: its SHA-256 differs; get both again."
        )
    if len(data) != fields["file"]["bytes"]:
        raise DataError(f"the receipt of {path} states another size of the file.")
    return f"The SHA-256 of {path.name} is that of its receipt."


def _check_rows(path: Path, data: bytes, fields: dict[str, Any]) -> str:
    """The rows have the number, times and digest of the receipt and lie on the grid."""
    output, grid = fields["output"], float(fields["mechanism"]["grid"])
    times, readings = _read_columns(path, data, fields)
    if len(times) != output["readings"]:
        raise DataError(f"{path} has {len(times)} rows, but its receipt {output['readings']}.")
    if len(times) == 0:
        raise DataError(f"{path} has no rows.")
    if (iso(times[0]), iso(times[-1])) != (output["start"], output["end"]):
        raise DataError(f"{path} has another first or last time than its receipt.")
    steps = (times - times[0]).astype(np.int64) / (float(output["interval_s"]) * 1e9)
    if (np.abs(steps - np.rint(steps)) > 1e-6).any() or (np.diff(steps) < 0.5).any():
        raise DataError(f"{path} has times that do not fit the interval of its receipt.")
    if digest_columns(times, readings) != output["sha256"]:
        raise DataError(f"{path} has other readings than its receipt.")
    offsets = readings / grid
    if fields["unit"]["span"] == "when":
        # The published sum of a day moves all of its values by one amount.
        days = local_times(times, fields["unit"]["zone"]).astype("datetime64[D]")
        _, first, place = np.unique(days, return_index=True, return_inverse=True)
        offsets = offsets - offsets[first][place]
    if (np.abs(offsets - np.rint(offsets)) > 1e-6).any():
        raise DataError(f"{path} has readings that are no multiples of the grid of its receipt.")
    return f"{len(times)} rows have the times and readings of the receipt."


def _check_promise(path: Path, data: bytes, fields: dict[str, Any]) -> str:  # noqa: ARG001
    """The ε follows from the mechanism and the unit, and the numbers fit each other."""
    described, unit, output = fields["mechanism"], fields["unit"], fields["output"]
    name = described["mechanism"]
    mechanism = parse_mechanism({name: dict(described["parameters"])})
    _compare_mechanism(path, mechanism, described)
    released_s = unit["interval_s"] * unit["window"]
    size = SimpleNamespace(**{name: unit[name] for name in ("l1", "l2", "largest", "touches")})
    stated = {
        "ε": (fields["epsilon"], mechanism.epsilon_of(size)),
        "δ": (fields["delta"], mechanism.delta),
        "interval": (output["interval_s"], released_s),
    }
    for what, (claimed, computed) in stated.items():
        if not _equal(claimed, computed):
            raise DataError(
                f"the receipt of {path} states {what} = {claimed:g}, but its own numbers give "
                f"{computed:g}."
            )
    check_unit(path, unit)
    span = (utc(output["end"]) - utc(output["start"])).astype(np.int64) / 1e9
    if output["readings"] > span / output["interval_s"] + 1 + 1e-6:
        raise DataError(f"the receipt of {path} states more readings than its times allow.")
    return f"ε = {fields['epsilon']:.4g} follows from the mechanism and the unit of the receipt."


def check_unit(path: Path, unit: dict[str, Any]) -> None:
    """Compare every number and the sentence of a unit of protection with each other.

    Parameters
    ----------
    path : Path
        The release, for the message.
    unit : dict
        The entry `unit` of its receipt.

    Raises
    ------
    DataError
        If the numbers cannot be those of one change, or the sentence states others.
    """
    slack = 1 + TOLERANCE
    total, _, _ = least_change(unit)
    stretch = unit["stretch"]
    moved = unit["window"] if stretch > 1 else min(unit["copies"], unit["window"])
    step = unit["register_step_w"] * moved / unit["window"]
    rounds = unit["resolution_w"] > 0 or unit["register_step_w"] > 0
    possible = (
        min(unit["resolution_w"], unit["register_step_w"], unit["copies"] - 1) >= 0
        and min(stretch - 1, unit["reach"]) >= 0
        and unit["largest"] <= unit["l2"] * slack
        and unit["l2"] <= unit["l1"] * slack
        and unit["l1"] <= unit["touches"] * unit["largest"] * slack
        and total <= unit["l1"] * slack
        and (rounds or unit["l1"] <= total * slack)
        and unit["largest"] <= (unit["watts"] + unit["resolution_w"] + 2 * step) * stretch * slack
    )
    alone = unit["protect"] in ("range", "change")
    if not possible or (alone and not covers_any_use(unit)) or not _energy_fits(unit):
        raise DataError(f"the receipt of {path} describes a change that cannot be.")
    if unit["sentence"] != unit_sentence(unit):
        raise DataError(
            f"the receipt of {path} states that it protects “{unit['sentence']}”, but its numbers "
            f"say: {unit_sentence(unit)}."
        )


def _energy_fits(unit: dict[str, Any]) -> bool:
    """True if the energy of a change fits its power and its span."""
    watt_hours = unit["watts"] * unit["interval_s"] / SECONDS_PER_HOUR
    if unit["span"] == "reading":
        return _equal(unit["watt_hours"], watt_hours)
    if unit["span"] == "day":
        most = unit["watts"] * unit["use_s"] / SECONDS_PER_HOUR
        return bool(unit["use_s"] <= LONGEST_DAY_S and unit["watt_hours"] <= most * (1 + TOLERANCE))
    return True


def _check_names(path: Path, data: bytes, fields: dict[str, Any]) -> str:  # noqa: ARG001
    """A receipt states nothing but what this version writes and checks."""
    known = {
        "the receipt": (fields, {"schema", "signature", *FIELDS}),
        "its output": (fields["output"], {"readings", "interval_s", "start", "end", "sha256"}),
        "its file": (fields["file"], {"sha256", "bytes"}),
        "its unit": (fields["unit"], UNIT_NAMES),
        "its mechanism": (fields["mechanism"], {"parameters", *_described(fields)}),
    }
    for where, (found, names) in known.items():
        if unknown := found.keys() - names:
            raise DataError(
                f"the receipt of {path} has an unknown entry {min(unknown)!r} in {where}."
            )
    if not set(fields["sources"]) <= SOURCES:
        raise DataError(f"the receipt of {path} states an unknown origin of its numbers.")
    return "Every entry of the receipt is known."


def _described(fields: dict[str, Any]) -> set[str]:
    """Names of the facts about the noise of a receipt."""
    described = fields["mechanism"]
    mechanism = parse_mechanism({described["mechanism"]: dict(described["parameters"])})
    return set(mechanism.describe())


def _check_kind(path: Path, data: bytes, fields: dict[str, Any]) -> str:  # noqa: ARG001
    """The release is not a simulation, whose noise can be repeated."""
    if fields["kind"] != "release":
        raise DataError(f"{path} is a {fields['kind']}, not a release; its noise can be repeated.")
    return "It is a real release, not a simulation."


def _compare_mechanism(path: Path, mechanism: Mechanism, described: dict[str, Any]) -> None:
    """Raise `DataError` if the described noise is not that of its parameters."""
    for name, value in mechanism.describe().items():
        if not _equal(described[name], value):
            raise DataError(
                f"the receipt of {path} states {name} = {described[name]} of the noise, but its "
                f"parameters give {value}."
            )


def _read_columns(path: Path, data: bytes, fields: dict[str, Any]) -> tuple[TimeArray, FloatArray]:
    """The times and readings of a released file."""
    kind = FORMATS.get(path.suffix.lower())
    if kind == "xml":
        return _read_feed(path, data, fields)
    if kind == "h5":
        recording = read_home_bytes(data, path.name)
        if recording.power is not None:
            raise DataError(f"{path} has other columns than the readings.")
        return recording.trace.times, recording.watts
    return _read_table(path, data, kind)


def _read_feed(path: Path, data: bytes, fields: dict[str, Any]) -> tuple[TimeArray, FloatArray]:
    """The readings of a Green Button feed, moved to the nearest multiple of the grid.

    A feed holds whole parts of a watt-hour, which are a little off the grid in watts.
    """
    series = read_green_button(MemoryFile(path.name, data), ReadOptions(), any_mean=True)
    watts = series.values * (series.factor * SECONDS_PER_HOUR / fields["output"]["interval_s"])
    described = fields["mechanism"]
    grid = parse_mechanism({described["mechanism"]: dict(described["parameters"])}).exact_grid
    steps = np.rint(watts / float(grid))
    times: TimeArray = series.times.astype("datetime64[ns]")
    # The same two roundings as those of the mechanism.
    return times, steps * float(grid.numerator) / float(grid.denominator)


def _read_table(path: Path, data: bytes, kind: str | None) -> tuple[TimeArray, FloatArray]:
    """The columns timestamp and watts of a released table."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    source = pa.BufferReader(data)
    try:
        table = csv.read_csv(source) if kind == "csv" else parquet.read_table(source)
        times = table["timestamp"].cast(pa.timestamp("ns", tz="UTC"))
        watts = table["watts"].cast(pa.float64())
    except (pa.ArrowException, KeyError):
        raise DataError(f"{path} has no columns timestamp and watts.") from None
    if times.null_count or watts.null_count or table.num_columns != 2:
        raise DataError(f"{path} has other columns or empty cells.")
    plain = times.cast(pa.timestamp("ns")).to_numpy(zero_copy_only=False)
    return plain.astype("datetime64[ns]"), watts.to_numpy(zero_copy_only=False)


def _read_bytes(path: Path) -> bytes:
    """The content of a file; raise `DataError` if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None


def _equal(one: Any, other: Any) -> bool:
    """True if two values of a receipt are equal; numbers may differ in their last digits."""
    numbers = (int, float)
    if isinstance(one, numbers) and isinstance(other, numbers):
        return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=1e-15)
    return bool(one == other)


def _sentence(path: Path, error: Exception) -> str:
    """The message of an error of ours, or a sentence for a receipt of the wrong form."""
    if isinstance(error, HushmeterError):
        return str(error)
    return f"the receipt of {path} has a missing or impossible entry ({error})."
