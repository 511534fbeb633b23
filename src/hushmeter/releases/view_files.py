"""Files of a calendar release: writing, reading and checking them.

The folder has one CSV file for each view and the public receipt:

* `hours.csv`, `days.csv`, `hours-of-day.csv` and `months.csv` have the noisy table as it was
  published (`noisy_steps`, in grid steps of the receipt, summed over the cells) and the estimate
  with its standard error;
* `register.csv` has the estimated energy up to the end of every cell;
* `receipt.json` states the promise, the noise of every table and the SHA-256 of every file.

The private receipt is FOLDER.private.json, beside the folder, so that the folder can be shared.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from hushmeter.checks import FloatArray, IntArray
from hushmeter.errors import DataError, HushmeterError, InputError
from hushmeter.files import (
    json_text,
    parse_json,
    refuse_overwrite,
    replace_together,
    table_bytes,
)
from hushmeter.releases.calendar import Calendar, lay_out
from hushmeter.releases.calendar_release import (
    VIEWS_SCHEMA,
    CalendarRelease,
    View,
    describe_calendar,
    private_fields,
)
from hushmeter.releases.least_squares import TABLES
from hushmeter.releases.signing import check_signature, make_signature
from hushmeter.releases.verification import Verification, check_unit
from hushmeter.releases.view_plan import ViewPlan, epsilon_of, odds_of, rho_of
from hushmeter.trace import Trace

RECEIPT = "receipt.json"
DECIMALS = {"W": 3, "kWh": 6}
"""Decimals of the estimates and standard errors in the files."""

TOLERANCE = 1e-9


def write_views(
    release: CalendarRelease,
    folder: str | Path,
    *,
    force: bool = False,
    signing_key: str | Path | None = None,
) -> list[Path]:
    """Write a calendar release with both receipts.

    Parameters
    ----------
    release : CalendarRelease
        A release that was made in this session.
    folder : str or Path
        The folder, which is made. The private receipt is FOLDER.private.json.
    force : bool, default False
        Replace the folder of an earlier calendar release.
    signing_key : str or Path, optional
        Ed25519 private key with which the public receipt is signed.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    DataError
        If the folder exists and `force` is not set, or it is not a calendar release, or it cannot
        be written.
    """
    if release.restored is not None:
        raise InputError("restored values are not a release; write their views yourself.")
    target = Path(folder)
    private = target.with_name(f"{target.name}.private.json")
    refuse_existing_views(target, force)
    contents, receipt = _contents(release, signing_key)
    secret = json_text(private_fields(release) | {"receipt": receipt}).encode()
    # A release without its private receipt could be released again without a warning.
    replace_together({private: secret, target: contents}, private=[private])
    return [*(target / name for name in contents), private]


def write_public_views(release: CalendarRelease, folder: str | Path) -> list[Path]:
    """Write the public files of a calendar release, in place of those of an earlier one.

    Parameters
    ----------
    release : CalendarRelease
        A release without a private part, such as a month of a stream.
    folder : str or Path
        The folder, which is made or replaced.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    DataError
        If the folder is not a calendar release, or it cannot be written.
    """
    target = Path(folder)
    refuse_existing_views(target, force=True)
    contents, _ = _contents(release, None)
    replace_together({target: contents})
    return [target / name for name in contents]


def _contents(
    release: CalendarRelease, signing_key: str | Path | None
) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The public files of a release by their names, and the receipt that is one of them."""
    contents = {
        f"{view.name}.csv": table_bytes(_columns(release, view), "csv") for view in release.views
    }
    receipt = release.receipt | {
        "files": {
            name: {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
            for name, data in contents.items()
        }
    }
    receipt.pop("signature", None)
    if signing_key is not None:
        receipt["signature"] = make_signature(receipt, signing_key)
    contents[RECEIPT] = json_text(receipt).encode()
    return contents, receipt


def refuse_existing_views(folder: Path, force: bool) -> None:
    """Raise `DataError` if the folder or its private receipt exists and may not be replaced."""
    refuse_overwrite(folder.with_name(f"{folder.name}.private.json"), force)
    refuse_overwrite(folder, force)
    if folder.exists() and not is_views(folder):
        raise DataError(f"{folder} exists and is not a calendar release; choose another folder.")


def is_views(folder: Path) -> bool:
    """True if a folder has the receipt of a calendar release."""
    with suppress(OSError, ValueError):
        fields = parse_json((folder / RECEIPT).read_bytes())
        return isinstance(fields, dict) and fields.get("schema") == VIEWS_SCHEMA
    return False


def read_views(folder: str | Path) -> CalendarRelease:
    """Read a calendar release from its folder.

    Parameters
    ----------
    folder : str or Path

    Returns
    -------
    CalendarRelease
        Without the private part. The estimate is computed again from the noisy tables.

    Raises
    ------
    DataError
        If the folder is not a calendar release, or its files do not fit its receipt.
    """
    place = Path(folder)
    receipt = read_views_receipt(place)
    try:
        plan = plan_of(receipt)
        hours = _read_csv(place / "hours.csv")
        calendar = _calendar(receipt, hours["timestamp"])
        tables = _tables(place, hours, calendar, plan)
    except (KeyError, TypeError, ValueError, IndexError, ArithmeticError) as error:
        if isinstance(error, HushmeterError):
            raise
        raise DataError(f"{place} has a missing or impossible entry ({error}).") from None
    shares = hours.get("share")
    return CalendarRelease(calendar, tables, plan, receipt, shares=shares)


def read_views_receipt(folder: Path) -> dict[str, Any]:
    """Read the public receipt of a calendar release; raise `DataError` if it is not one."""
    try:
        fields: Any = parse_json((folder / RECEIPT).read_bytes())
    except OSError as error:
        raise DataError(f"{folder / RECEIPT} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise DataError(f"{folder / RECEIPT} is not a JSON file ({error}).") from None
    if not isinstance(fields, dict) or fields.get("schema") != VIEWS_SCHEMA:
        raise DataError(f"{folder} is not a calendar release of this version ({VIEWS_SCHEMA}).")
    return fields


def verify_views(folder: Path, key: str | Path | None = None) -> Verification:
    """Compare the files of a calendar release with its public receipt.

    Parameters
    ----------
    folder : Path
    key : str or Path, optional
        Public key that must have signed the receipt.

    Returns
    -------
    Verification
        SHA-256 of every file, further files, the arithmetic of the shares and of ε, the estimate
        computed again from the noisy tables, the kind, and the signature.

    Raises
    ------
    DataError
        If the folder has no receipt of a calendar release.
    """
    receipt = read_views_receipt(folder)
    checks: list[str] = []
    problems: list[str] = []
    for check in (_check_files, _check_promise, _check_estimate, _check_kind):
        try:
            checks.append(check(folder, receipt))
        except (KeyError, TypeError, ValueError, ArithmeticError, OSError) as error:
            known = isinstance(error, HushmeterError)
            problems.append(str(error) if known else f"{folder}: impossible entry ({error}).")
    try:
        checks.append(check_signature(receipt, key))
    except HushmeterError as error:
        problems.append(f"{folder / RECEIPT}: {error}")
    return Verification(folder, tuple(checks), tuple(problems))


def _check_files(folder: Path, receipt: dict[str, Any]) -> str:
    """Every file has the SHA-256 of the receipt, and there are no others."""
    for name, stated in receipt["files"].items():
        data = (folder / Path(name).name).read_bytes()
        if hashlib.sha256(data).hexdigest() != stated["sha256"]:
            raise DataError(f"{folder / name} is not the file of its receipt: its SHA-256 differs.")
        if len(data) != stated["bytes"]:
            raise DataError(f"the receipt of {folder} states another size of {name}.")
    others = {path.name for path in folder.iterdir()} - {RECEIPT, *receipt["files"]}
    if others:
        raise DataError(f"{folder} has files that its receipt does not list: {sorted(others)[0]}.")
    return f"The SHA-256 of {len(receipt['files'])} files are those of the receipt."


def _check_promise(folder: Path, receipt: dict[str, Any]) -> str:
    """ρ, ε and the odds follow from the noise and the sensitivities of the tables."""
    plan = plan_of(receipt)
    check_unit(folder, receipt["unit"])
    rho = rho_of(plan.sensitivities, plan.sigmas)
    stated = {
        "ρ": (receipt["rho"], rho),
        "ε": (receipt["epsilon"], epsilon_of(rho, plan.delta)),
        "odds": (receipt["odds"], odds_of(rho, plan.sigmas)),
        "the sum of the shares": (1.0, float(plan.shares.sum())),
    }
    for name, share, part in zip(
        TABLES, plan.shares, (plan.sensitivities / plan.sigmas) ** 2 / (2 * rho), strict=True
    ):
        stated[f"the share of {name}"] = (float(share), float(part))
    for what, (claimed, computed) in stated.items():
        if not math.isclose(claimed, computed, rel_tol=1e-6, abs_tol=1e-9):
            raise DataError(
                f"the receipt of {folder} states {what} = {claimed:g}, but its own numbers give "
                f"{computed:g}."
            )
    return f"ε = {receipt['epsilon']:.4g} follows from the noise and the shares of the tables."


def _check_estimate(folder: Path, receipt: dict[str, Any]) -> str:
    """The estimates follow from the noisy tables."""
    release = read_views(folder)
    if receipt["calendar"] != describe_calendar(release.calendar):
        raise DataError(f"{folder} has other cells, days or months than its receipt.")
    for view in release.views:
        found = _read_csv(folder / f"{view.name}.csv")
        for column, values in _estimate_columns(view).items():
            if not np.allclose(found[column], values, rtol=1e-6, atol=2e-3):
                raise DataError(f"{folder / view.name}.csv does not follow from the noisy tables.")
    return "The estimates and their standard errors follow from the noisy tables."


def _check_kind(folder: Path, receipt: dict[str, Any]) -> str:
    """The release is not a simulation, whose noise can be repeated."""
    if receipt["kind"] != "release":
        raise DataError(
            f"{folder} is a {receipt['kind']}, not a release; its noise can be repeated."
        )
    return "It is a real release, not a simulation."


def _columns(release: CalendarRelease, view: View) -> dict[str, Any]:
    """The columns of the file of a view."""
    cells, days, hours, totals = release.tables
    noisy = {
        "hours": cells,
        "days": days,
        "hours-of-day": hours.ravel()[_known_hours(release.calendar)],
        "months": totals,
    }.get(view.name)
    columns = dict(view.labels)
    table = {"hours": 0, "days": 1, "hours-of-day": 2, "months": 3}.get(view.name)
    if noisy is not None and table is not None and release.plan.shares[table] > 0:
        columns["noisy_steps"] = noisy
    return columns | _estimate_columns(view)


def _estimate_columns(view: View) -> dict[str, FloatArray]:
    """The estimate and its standard error with the decimals of the files."""
    name = {"W": "watts", "kWh": "kwh"}[view.unit]
    digits = DECIMALS[view.unit]
    return {
        name: np.round(view.values, digits),
        f"{name}_standard_error": np.round(view.errors, digits),
    }


def _known_hours(calendar: Calendar) -> IntArray:
    """Places of the hours of the day that occur, in the table of all months."""
    known = [
        np.bincount(layout.hour[layout.hour >= 0], minlength=layout.hours) > 0
        for layout in calendar.layouts
    ]
    return np.flatnonzero(np.concatenate(known))


def _read_csv(path: Path) -> Any:
    """The columns of a CSV file as numpy arrays."""
    import pyarrow as pa
    from pyarrow import csv

    try:
        table = csv.read_csv(path)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read: {error}.") from None
    return {
        name: table[name].to_numpy()
        for name in table.column_names
        if not pa.types.is_string(table[name].type)
    }


def plan_of(receipt: Mapping[str, Any]) -> ViewPlan:
    """Return the noise that the receipt of a calendar release describes."""
    entries = {entry["table"]: entry for entry in receipt["tables"]}
    sigmas = [entries[name]["sigma_steps"] for name in TABLES]
    return ViewPlan(
        Fraction(receipt["grid"]),
        np.array([float(entries[name]["sensitivity_steps"]) for name in TABLES]),
        np.array([math.inf if sigma is None else float(sigma) for sigma in sigmas]),
        np.array([float(entries[name]["share"]) for name in TABLES]),
        float(receipt["delta"]),
    )


def _calendar(receipt: dict[str, Any], times: Any) -> Calendar:
    """The calendar of a receipt with the times of the cells."""
    interval_s = float(receipt["calendar"]["interval_s"])
    moments = times.astype("datetime64[ns]")
    steps = (moments - moments[0]).astype(np.int64) / (interval_s * 1e9)
    if (np.abs(steps - np.rint(steps)) > 1e-6).any():
        raise DataError("the times of hours.csv do not fit the interval of the receipt.")
    whole = np.rint(steps).astype(np.int64)
    cells = Trace(np.zeros(whole.size), interval_s, moments[0], steps=whole)
    return lay_out(cells, receipt["calendar"]["zone"], whole_day=False)


def _tables(
    folder: Path, hours: Any, calendar: Calendar, plan: ViewPlan
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """The noisy tables of the files; zeros for a table that was not published."""
    profile = np.zeros(calendar.hours * len(calendar.months), dtype=np.int64)
    shapes = (len(calendar.cells), calendar.days.size, profile.size, len(calendar.months))
    names = ("hours", "days", "hours-of-day", "months")
    found = []
    for name, size, share in zip(names, shapes, plan.shares, strict=True):
        table = np.zeros(size, dtype=np.int64)
        if share > 0:
            columns = hours if name == "hours" else _read_csv(folder / f"{name}.csv")
            places = _known_hours(calendar) if name == "hours-of-day" else np.arange(size)
            table[places] = columns["noisy_steps"]
        found.append(table)
    by_month = found[2].reshape(len(calendar.months), calendar.hours)
    return found[0], found[1], by_month, found[3]
