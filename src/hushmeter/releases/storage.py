"""Writing a release: the data file, the public receipt and the private receipt.

A reader must never find new data beside an old receipt, or the reverse. The public receipt
contains the SHA-256 of its data file, so that `hushmeter verify` detects every mixture, and
`replace_together` makes sure that none exists at any moment, even if the power fails.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushmeter.errors import InputError
from hushmeter.files import parse_json, refuse_overwrite, replace_together
from hushmeter.releases.receipt import PRIVATE_SCHEMA, json_text, overlapping_days
from hushmeter.releases.signing import sign_receipt
from hushmeter.write import meter_bytes, meter_format

if TYPE_CHECKING:
    from hushmeter.releases.series import Release
    from hushmeter.trace import Trace


@dataclass(frozen=True)
class EarlierRelease:
    """A release of some of the same metered readings, found by its private receipt.

    Attributes
    ----------
    path : Path
        The private receipt.
    epsilon, delta : float
        ε and δ of the unit of that release.
    days : int
        UTC days of which it has released readings too.
    """

    path: Path
    epsilon: float
    delta: float
    days: int


def receipt_path(data: Path) -> Path:
    """Return the path of the public receipt of a data file."""
    return data.with_name(f"{data.name}.receipt.json")


def private_path(data: Path) -> Path:
    """Return the path of the private receipt of a data file."""
    return data.with_name(f"{data.name}.private.json")


def refuse_existing(data: Path, force: bool) -> None:
    """Raise `DataError` if a file of the release exists and `force` is not set."""
    for path in (data, receipt_path(data), private_path(data)):
        refuse_overwrite(path, force)


def write_release(
    release: Release,
    path: str | Path,
    *,
    force: bool = False,
    signing_key: str | Path | None = None,
) -> list[Path]:
    """Write released readings with both parts of their receipt.

    Parameters
    ----------
    release : Release
    path : str or Path
        Data file OUT, which ends in .csv, .parquet, .h5 or .xml. The public receipt is
        OUT.receipt.json, the private one OUT.private.json, which only its owner may read.
    force : bool, default False
        Replace existing files.
    signing_key : str or Path, optional
        File of an Ed25519 private key, with which the public receipt is signed.

    Returns
    -------
    list of Path
        The three files.

    Raises
    ------
    InputError
        If the path has another ending, or the key cannot be used.
    DataError
        If a file exists and `force` is not set, or cannot be written. An existing release is then
        either unchanged, or its receipt is gone; it is never mixed with the new one.
    """
    data = Path(path)
    if meter_format(data) == "xml" and release.receipt.unit["span"] == "when":
        raise InputError(
            "Green Button rounds every reading, but this release keeps the sum of every day; "
            "write .csv, .parquet or .h5."
        )
    content = meter_bytes(release.trace, meter_format(data))
    refuse_existing(data, force)
    receipt = release.receipt.for_file(content)
    if signing_key is not None:
        receipt = sign_receipt(receipt, signing_key)
    private = json_text(release.private.to_dict(receipt))
    replace_together(
        {
            data: content,
            private_path(data): private.encode(),
            receipt_path(data): receipt.to_json().encode(),
        },
        private=[private_path(data)],
    )
    return [data, receipt_path(data), private_path(data)]


def find_earlier_releases(folder: Path, trace: Trace) -> list[EarlierRelease]:
    """Find releases of some of the same metered readings by the private receipts of a folder.

    Parameters
    ----------
    folder : Path
    trace : Trace
        The metered readings.

    Returns
    -------
    list of EarlierRelease
        Real releases only; simulations are not counted.
    """
    found = []
    for path in sorted(folder.glob("*.private.json")):
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            fields: Any = parse_json(path.read_bytes())
            receipt = fields["receipt"]
            if fields["schema"] != PRIVATE_SCHEMA or receipt["kind"] != "release":
                continue
            days = overlapping_days(trace, fields["input"])
            if days:
                found.append(EarlierRelease(path, receipt["epsilon"], receipt["delta"], days))
    return found
