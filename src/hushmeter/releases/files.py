"""Files of a release: writing and reading them.

A release is written in one of two forms. A *file* OUT.csv (or .parquet, .h5, .xml) has the
estimated cells; its public receipt is OUT.csv.receipt.json beside it. A *folder* OUT has one CSV
file for each view, with the noisy table as it was published (`noisy_steps`, in grid steps of the
receipt) beside the estimate and its standard error, and the public receipt receipt.json. The
private receipt lies beside either form, as OUT.private.json, so that a folder can be shared.

A reader must never find new data beside an old receipt, or the reverse. The public receipt has the
SHA-256 of every file, so that `hushmeter verify` detects every mixture, and `publish_staged`
makes sure that none exists at any moment, even if the power fails.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.errors import DataError, HushmeterError, InputError
from hushmeter.files import (
    RECEIPT,
    Contents,
    json_text,
    one_sentence,
    parse_json,
    receipt_path,
    refuse_overwrite,
    replace_together,
    table_bytes,
)
from hushmeter.read.text_columns import own_table
from hushmeter.releases.labels import CELLS
from hushmeter.releases.receipt import SCHEMA, Receipt
from hushmeter.releases.release import HOURS, Release, View
from hushmeter.trace import SECONDS_PER_HOUR, TimeArray, Trace
from hushmeter.write import FORMATS, meter_bytes, meter_format

if TYPE_CHECKING:
    from hushmeter.checks import FloatArray
    from hushmeter.releases.promise import Promise

ANY_SCHEMA = SCHEMA.rstrip("0123456789")
TIMES = "cells.csv"
DECIMALS = {"W": 3, "kWh": 6}
"""Decimals of the estimates and standard errors in the files of a folder."""


def is_file_form(path: Path) -> bool:
    """True if a release with this name is one file; False for a folder.

    A name that ends in letters, such as out.xlsx, is meant to be a file.
    """
    return path.suffix[1:].isalnum() and not path.suffix[1:].isdecimal()


def private_path(data: Path) -> Path:
    """Return the path of the private receipt of a file or a folder."""
    return data.with_name(f"{data.name}.private.json")


def paid_folder(data: Path) -> Path:
    """Return the private folder of a release that waits for its payment or its publication."""
    return data.with_name(f".{data.name}.paid")


def refuse_existing(data: Path, force: bool) -> None:
    """Refuse a name of no known format, and a release that may not be replaced."""
    if is_file_form(data):
        meter_format(data)
    if paid_folder(data).exists():
        raise DataError(
            f"{data} has an unfinished release that may be paid for; repeat its command with "
            "--ledger, which publishes it without a further charge."
        )
    beside = [private_path(data)]
    if is_file_form(data):
        beside.append(data.with_name(f"{data.name}.receipt.json"))
    for path in (data, *beside):
        refuse_overwrite(path, force)
        if _is_folder(path) and (path in beside or is_file_form(data)):
            raise DataError(f"{path} is a folder, not a file of a release; choose another name.")
    if os.path.lexists(data) and not is_release(data):
        raise DataError(f"{data} exists and is not a release; choose another name.")
    if _is_folder(data):
        others = other_files(data, parse_json((data / RECEIPT).read_bytes()).get("files", ()))
        if others:
            raise DataError(f"{data / others[0]} is no file of the release; move it elsewhere.")


def is_own_file(folder: Path, name: str) -> bool:
    """True if a name is that of a file in a folder; a link leads elsewhere."""
    path = folder / name
    return path.name == name and path.is_file() and not path.is_symlink()


def other_files(folder: Path, names: Collection[str]) -> list[str]:
    """Return what a folder holds besides its public receipt and the files with these names."""
    return sorted({path.name for path in folder.iterdir()} - {RECEIPT, *names})


def _is_folder(path: Path) -> bool:
    """True for a folder itself; a link to one is only a name."""
    return path.is_dir() and not path.is_symlink()


def is_release(path: Path) -> bool:
    """True if a folder or a file has the public receipt of a release, of whatever version."""
    with suppress(OSError, ValueError):
        fields = parse_json(receipt_path(path).read_bytes())
        return isinstance(fields, dict) and str(fields.get("schema")).startswith(ANY_SCHEMA)
    return False


def save_release(
    release: Release, path: str | Path, *, force: bool = False, signing_key: str | Path | None
) -> list[Path]:
    """Write a release as a file or a folder, and return its files; see `Release.save`.

    An existing release is replaced as a whole. If it cannot be written, it is either unchanged, or
    its receipt is gone; it is never mixed with the new one.
    """
    target = Path(path)
    refuse_existing(target, force)
    check_place(release.promise, target)
    written = release_contents(release, target, signing_key)
    replace_together(written, private=[private_path(target)], force=force)
    return written_files(target)


def written_files(target: Path) -> list[Path]:
    """Return the files of a written release, the private receipt last."""
    public = sorted(target.iterdir()) if target.is_dir() else [target, receipt_path(target)]
    return [*public, *(path for path in (private_path(target),) if path.exists())]


def release_contents(
    release: Release, target: Path, signing_key: str | Path | None = None
) -> dict[Path, Contents]:
    """Make everything that a release is written as: its file or folder and its receipts."""
    if is_file_form(target):
        contents = {target.name: meter_bytes(release.trace, meter_format(target))}
    else:
        contents = folder_contents(release)
    receipt = release.receipt.for_files(contents)
    if signing_key is not None:
        from hushmeter.releases.verify import make_signature

        receipt = replace(receipt, signature=make_signature(receipt.to_dict(), signing_key))
    public = receipt.to_json().encode()
    made: dict[Path, Contents] = {}
    if is_file_form(target):
        made[target] = contents[target.name]
    if release.private is not None:
        made[private_path(target)] = json_text(release.private.to_dict(receipt)).encode()
    if is_file_form(target):
        made[receipt_path(target)] = public
    else:
        made[target] = {**contents, RECEIPT: public}
    return made


def check_place(promise: Promise, target: Path) -> None:
    """Raise `InputError` if a release of this promise cannot be written under this name."""
    when = promise.unit.span == "when"
    if not is_file_form(target):
        if when:
            raise InputError("the span 'when' is written as a file: .csv, .parquet or .h5.")
        return
    kind = meter_format(target)
    if promise.joint or promise.tables[0].name != CELLS:
        raise InputError(
            "sums of days, months and other tables are written as a folder, not as one series; "
            f"choose a name without {target.suffix}."
        )
    if kind == "xml" and when:
        raise InputError(
            "Green Button rounds every reading, but this release keeps the sum of every day; "
            "write .csv, .parquet or .h5."
        )


def folder_contents(release: Release) -> dict[str, bytes]:
    """The files of all views by their names."""
    contents = {
        f"{view.name}.csv": table_bytes(_columns(release, view), "csv") for view in release.views
    }
    if HOURS not in release.view_names:
        # The times of the cells tell what the other tables are sums of.
        contents[TIMES] = table_bytes(release.promise.cells.columns, "csv")
    return contents


def _columns(release: Release, view: View) -> dict[str, Any]:
    """The columns of the file of a view."""
    columns, steps = dict(view.labels), release.noisy_steps(view.name)
    if steps is not None and release.promise.unit.span != "when":
        columns["noisy_steps"] = steps
    return columns | estimate_columns(view)


def estimate_columns(view: View) -> dict[str, FloatArray]:
    """The estimate and its standard error with the decimals of the files."""
    name, digits = {"W": "watts", "kWh": "kwh"}[view.unit], DECIMALS[view.unit]
    return {
        name: np.round(view.values, digits),
        f"{name}_standard_error": np.round(view.errors, digits),
    }


def read_receipt(path: Path) -> Receipt:
    """Read a public receipt; raise `DataError` if it is missing or of another version."""
    fields = _read_fields(path)
    if fields.get("schema") != SCHEMA:
        raise DataError(
            f"{path} is not a public receipt of this version ({SCHEMA}): use the version that "
            "wrote it, or release the metered readings again."
        )
    try:
        return Receipt.from_dict({"version": fields["version"], **fields})
    except (InputError, KeyError, TypeError) as error:
        raise DataError(f"{path} is not a complete receipt: {error}") from None


def _read_fields(path: Path) -> dict[str, Any]:
    with one_sentence(path, "read", more="; a receipt must be beside its release"):
        content = path.read_bytes()
    try:
        fields: Any = parse_json(content)
    except ValueError as error:
        raise DataError(f"{path} is not a JSON file ({error}).") from None
    return fields if isinstance(fields, dict) else {}


def read_release(path: str | Path, receipt: str | Path | None = None) -> Release:
    """Read a release from its file or folder, without the private part.

    Parameters
    ----------
    path : str or Path
        The file or the folder that `Release.save` wrote.
    receipt : str or Path, optional
        The public receipt, if it is not beside the release.

    Returns
    -------
    Release
        The estimate of a folder is computed again from its noisy tables.

    Raises
    ------
    DataError
        If it has no receipt, or its files do not fit its receipt.

    Examples
    --------
    >>> trace = hm.Trace([120.0, 2120.0], interval_s=60.0, start="2024-01-01T00:00Z")
    >>> done = hm.Request(hide="kettle").resolve(hm.metered(trace)).release(trace)
    >>> _ = done.save("out.csv")
    >>> hm.read_release("out.csv").estimate.tolist() == done.estimate.tolist()
    True
    """
    place = Path(path)
    stated = receipt_path(place) if receipt is None else Path(receipt)
    return release_of(place, read_receipt(stated))


def release_of(place: Path, receipt: Receipt, data: bytes | None = None) -> Release:
    """Make a release again from its files and its receipt."""
    try:
        found = (
            _folder_release(place, receipt)
            if place.is_dir()
            else _file_release(place, receipt, data)
        )
    except (KeyError, TypeError, ValueError, IndexError, ArithmeticError) as error:
        if isinstance(error, HushmeterError):
            raise
        raise DataError(f"{place} has a missing or impossible entry ({error}).") from None
    return found


def _file_release(place: Path, receipt: Receipt, data: bytes | None) -> Release:
    """A release of one file: its cells are those that were published."""
    with one_sentence(place, "read"):
        content = place.read_bytes() if data is None else data
    times, watts = _read_cells(place, content, receipt)
    promise = receipt.promise(_bare(times, float(receipt.output["interval_s"])))
    sums = [watts]
    if promise.unit.span == "when":
        # The estimate has been moved to the sums of the days; they are those of its cells.
        sums.append(promise.tables[1].table.sums(watts))
    return Release(promise, tuple(sums), receipt.kind, despite=receipt.despite)


def _folder_release(place: Path, receipt: Receipt) -> Release:
    """A release of several tables, from the published steps in the files of its views."""
    for name in receipt.files:
        if not is_own_file(place, name):
            raise DataError(f"{place} has no file {name!r} of its own, which its receipt lists.")
    names = {name.removesuffix(".csv") for name in receipt.files}
    known = {name: _read_csv(place / f"{name}.csv") for name in sorted(names)}
    first = known.get(HOURS) or known[TIMES.removesuffix(".csv")]
    times = _bare(first["timestamp"], float(receipt.cells["interval_s"]))
    promise = receipt.promise(times, first.get("share"))
    grid = promise.grid
    steps = [known[HOURS if e.name == CELLS else e.name]["noisy_steps"] for e in promise.tables]
    # The same two roundings as those of the release.
    sums = [one * float(grid.numerator) / float(grid.denominator) for one in steps]
    if any(array.shape != (e.table.size,) for array, e in zip(sums, promise.tables, strict=True)):
        raise DataError(f"{place} has tables of other lengths than its receipt states.")
    return Release(promise, tuple(sums), receipt.kind, despite=receipt.despite)


def _bare(times: Any, interval_s: float) -> Trace:
    """A trace of zeros at given times; raise `DataError` if they do not fit the interval."""
    moments = times.astype("datetime64[ns]")
    if not moments.size:
        raise DataError("the release has no rows.")
    steps = (moments - moments[0]).astype(np.int64) / (interval_s * 1e9)
    whole = np.rint(steps).astype(np.int64)
    if (np.abs(steps - whole) > 1e-6).any() or (np.diff(whole) < 1).any():
        raise DataError("the release has times that do not fit the interval of its receipt.")
    return Trace(np.zeros(whole.size), interval_s, moments[0], steps=whole)


def _read_csv(path: Path) -> dict[str, Any]:
    """The columns of a CSV file of a folder as numpy arrays."""
    with one_sentence(path, "read"):
        table = own_table(path, path.read_bytes())
    return {name: cells.array() for name, cells in table.items() if not cells.is_text}


def _read_cells(path: Path, data: bytes, receipt: Receipt) -> tuple[TimeArray, FloatArray]:
    """The times and readings of a released file."""
    kind = FORMATS.get(path.suffix.lower())
    if kind == "xml":
        return _read_feed(path, data, receipt)
    if kind == "h5":
        from hushmeter.read import read_home_bytes

        recording = read_home_bytes(data, path.name)
        if recording.power is not None:
            raise DataError(f"{path} has other columns than the readings.")
        return recording.trace.times, recording.watts
    return _read_table(path, data)


def _read_feed(path: Path, data: bytes, receipt: Receipt) -> tuple[TimeArray, FloatArray]:
    """The readings of a Green Button feed, moved to the nearest multiple of the grid.

    A feed holds whole parts of a watt-hour, which are a little off the grid in watts.
    """
    from fractions import Fraction

    from hushmeter.read.green_button import read_green_button
    from hushmeter.read.recording import Task
    from hushmeter.read.source import MemoryFile

    series = read_green_button(Task(MemoryFile(path.name, data)), any_mean=True)
    watts = series.values * (series.factor * SECONDS_PER_HOUR / receipt.output["interval_s"])
    grid = Fraction(receipt.cells["grid"])
    steps = np.rint(watts / float(grid))
    times: TimeArray = series.times.astype("datetime64[ns]")
    # The same two roundings as those of the mechanism.
    return times, steps * float(grid.numerator) / float(grid.denominator)


def _read_table(path: Path, data: bytes) -> tuple[TimeArray, FloatArray]:
    """The columns timestamp and watts of a released table."""
    try:
        table = own_table(path, data)
        times, watts = table["timestamp"], table["watts"]
        readings = watts.floats()
    except (DataError, KeyError):
        raise DataError(f"{path} has no columns timestamp and watts.") from None
    if times.kind != "M" or not (times.good.all() and watts.good.all()) or len(table) != 2:
        raise DataError(f"{path} has other columns or empty cells.")
    return times.values.astype("datetime64[ns]"), readings
