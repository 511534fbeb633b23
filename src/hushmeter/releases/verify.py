"""`hm.verify`: check that a release, or a released fleet, is what its publisher states.

The promise of a release is computed again from its receipt and from the times of the released
cells, and every number and sentence of the receipt is compared with the one that follows from it.
A folder with a manifest is checked by a function of a higher package, which is imported only then.

*Signatures.* A receipt, or the manifest of a fleet, can be signed with an Ed25519 key of the
publisher. The signature covers every field of it except the signature itself. The signed bytes are
the fields as JSON with sorted names, without spaces and with ASCII letters only.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.clock import SECOND, local_times
from hushmeter.errors import DataError, HushmeterError, InputError
from hushmeter.files import (
    create_file,
    one_sentence,
    parse_json,
    receipt_path,
    refuse_overwrite,
    table_bytes,
)
from hushmeter.parts import load
from hushmeter.privacy.units import refuse_rearranging
from hushmeter.read.part import Part
from hushmeter.releases.files import (
    estimate_columns,
    folder_contents,
    is_own_file,
    other_files,
    read_receipt,
    release_of,
)
from hushmeter.releases.private_receipt import OTHER_DAYS, THESE_READINGS
from hushmeter.releases.receipt import (
    Receipt,
    describe_output,
    describe_promise,
    describe_readings,
)
from hushmeter.releases.release import Release

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

ALGORITHM = "ed25519"

TOLERANCE = 1e-9
"""Relative difference between two ways to compute the same number."""

MANIFEST = "manifest.json"

SOURCES = {"typed", "catalogue", OTHER_DAYS, THESE_READINGS}


@dataclass(frozen=True)
class Verification:
    """The result of `verify`."""

    path: Path  # The file or folder that was checked
    checks: tuple[str, ...]  # What was checked and found correct, one sentence each
    problems: tuple[str, ...]  # Everything that differs, one sentence each; empty if all is correct

    @property
    def passed(self) -> bool:
        """True if nothing differs."""
        return not self.problems


def verify(path: str | Path, *, key: str | Path | None = None) -> Verification:
    """Check a release against what its publisher states about it.

    Parameters
    ----------
    path : str or Path
        A released file with its receipt beside it, the folder of a calendar release, or the
        folder of a released fleet or of its sums with its manifest.
    key : str or Path, optional
        Ed25519 public key (PEM) that must have signed the receipt or the manifest.

    Returns
    -------
    Verification
        What was checked and every difference. For a file: SHA-256, rows, times, the arithmetic
        of the receipt and its signature. For a folder: SHA-256 and rows of every file, the promise
        and the charge, files that the manifest does not list, and its signature.

    Raises
    ------
    DataError
        If there is nothing to check: the receipt or manifest is missing or cannot be read, or
        names a file outside the folder.

    Notes
    -----
    `verify` shows that the file and its receipt belong together and do not contradict each other.
    It cannot show that the publisher added the noise that the receipt describes.

    Examples
    --------
    >>> trace = hm.Trace([120.0, 2120.0], interval_s=60.0, start="2024-01-01T00:00Z")
    >>> done = hm.Request(hide="kettle").resolve(hm.metered(trace)).release(trace)
    >>> _ = done.save("out.csv")
    >>> hm.verify("out.csv").problems
    ()
    """
    place = Path(path)
    if not place.exists():
        raise DataError(f"{place} does not exist.")
    if not place.is_dir() or receipt_path(place).exists():
        return verify_release(place, key)
    fleet = load("fleet.released_folder", "the folder of a fleet")
    problems = list(fleet.check_released_folder(place))
    checks = [] if problems else [f"{place} is exactly what its manifest describes."]
    try:
        checks.append(check_signature(parse_json((place / MANIFEST).read_bytes()), key, "manifest"))
    except HushmeterError as error:
        problems.append(f"{place / MANIFEST}: {error}")
    return Verification(place, tuple(checks), tuple(problems))


def verify_release(
    path: Path, key: str | Path | None = None, *, receipt: Path | None = None
) -> Verification:
    """Compare a released file or folder with its public receipt.

    `key` is the public key that must have signed the receipt, and `receipt` is the path of the
    receipt if it is not beside the release. Raise `DataError` if the receipt cannot be read or does
    not have the form of this version.
    """
    stated = receipt or receipt_path(path)
    found = read_receipt(stated)
    checks: list[str] = []
    problems: list[str] = []

    def run(check: Callable[[], str]) -> None:
        try:
            checks.append(check())
        except (KeyError, TypeError, ValueError, IndexError, ArithmeticError, OSError) as error:
            ours = isinstance(error, HushmeterError)
            sentence = f"the receipt of {path} has a missing or impossible entry ({error})."
            problems.append(str(error) if ours else sentence)

    contents = _contents(path, found)
    run(lambda: _check_files(path, found, contents))
    made: list[Release] = []
    run(lambda: _check_cells(path, found, contents, made))
    if made:
        run(lambda: _check_promise(path, found, made[0]))
        run(lambda: _check_estimate(path, found, made[0]))
    run(lambda: _check_kind(path, found))
    try:
        checks.append(check_signature(found.to_dict(), key))
    except HushmeterError as error:
        problems.append(f"{stated}: {error}")
    return Verification(path, tuple(checks), tuple(problems))


def _contents(path: Path, receipt: Receipt) -> dict[str, bytes]:
    """The content of every file of a release by its name; missing files are left out."""
    if not path.is_dir():
        with one_sentence(path, "read"):
            return {path.name: path.read_bytes()}
    return {name: (path / name).read_bytes() for name in receipt.files if is_own_file(path, name)}


def _check_files(path: Path, receipt: Receipt, contents: Mapping[str, bytes]) -> str:
    """Every file has the SHA-256 and the size of the receipt, and there are no others."""
    stated = receipt.files
    if not path.is_dir():
        # A single file may have been renamed.
        stated = {path.name: next(iter(stated.values()))} if len(stated) == 1 else {}
    for name, facts in stated.items():
        if name not in contents:
            raise DataError(f"{path} has no file {name}, which its receipt lists.")
        if hashlib.sha256(contents[name]).hexdigest() != facts["sha256"]:
            place = path / name if path.is_dir() else path
            raise DataError(
                f"{place} is not the file of its receipt: its SHA-256 differs; get both again."
            )
        if len(contents[name]) != facts["bytes"] or facts.keys() != {"sha256", "bytes"}:
            raise DataError(f"the receipt of {path} states another size of {name}.")
    others = other_files(path, stated) if path.is_dir() else []
    if others or not stated:
        raise DataError(f"{path} has files that its receipt does not list: {others[:1]}.")
    if len(stated) == 1:
        return f"The SHA-256 of {path.name} is that of its receipt."
    return f"The SHA-256 of {len(stated)} files are those of the receipt."


def _check_cells(
    path: Path, receipt: Receipt, contents: Mapping[str, bytes], made: list[Release]
) -> str:
    """The cells have the number, times and digest of the receipt, and a file has its grid."""
    release = release_of(path, receipt, contents.get(path.name))
    made.append(release)
    found = describe_output(release) if path.is_dir() else describe_readings(release.trace)
    for name, value in found.items():
        if not _equal(receipt.output.get(name), value):
            raise DataError(f"{path} has another {name} of its cells than its receipt states.")
    if receipt.output.keys() != found.keys():
        raise DataError(f"the receipt of {path} has an unknown entry in its output.")
    if receipt.part is not None:
        _check_part(path, receipt.part, release)
    if not path.is_dir():
        _check_grid(path, release)
    return f"{len(release.trace)} rows have the times and readings of the receipt."


def _check_part(path: Path, stated: Sequence[str | None], release: Release) -> None:
    """The cells lie in the stated part of a file; a cell may lack some readings at its ends."""
    trace = release.trace
    first, last = trace.times[[0, -1]].astype("datetime64[ns]").astype(np.int64)
    length = round(trace.interval_s * SECOND)
    with suppress(TypeError, ValueError, InputError):
        start, end = stated
        part = Part.of(start, end, "UTC")
        if part and part.holds(first + length - 1, last + 1):
            return
    raise DataError(f"the receipt of {path} states a part of the file in which its cells are not.")


def _check_grid(path: Path, release: Release) -> None:
    """The cells of a file are multiples of the grid."""
    trace, unit = release.trace, release.promise.unit
    offsets = trace.readings / float(release.promise.grid)
    if unit.span == "when":
        # The published sum of a day moves all of its values by one amount.
        days = local_times(trace.times, unit.zone).astype("datetime64[D]")
        _, first, place = np.unique(days, return_index=True, return_inverse=True)
        offsets = offsets - offsets[first][place]
    if (np.abs(offsets - np.rint(offsets)) > 1e-6).any():
        raise DataError(f"{path} has readings that are no multiples of the grid of its receipt.")


def _check_promise(path: Path, receipt: Receipt, release: Release) -> str:
    """Every number and sentence of the promise follows from the receipt itself."""
    again = describe_promise(release.promise)
    stated = receipt.to_dict()
    known, numbers = sorted(SOURCES & set(receipt.sources)), bool(receipt.unit["changes"])
    if bool(receipt.sources) != numbers or list(receipt.sources) != known:
        raise DataError(f"the receipt of {path} states an unknown origin of its numbers.")
    unit, clamp = release.promise.unit, release.promise.clamp
    if unit.protect == "range" and (clamp is None or unit.largest_watts != clamp[1] - clamp[0]):
        raise DataError(f"the receipt of {path} protects another range than its clamp.")
    if unit.rearranged:
        refuse_rearranging(unit.metering)
    if not unit.changes and (unit.protect, unit.span) != ("order", "file"):
        raise DataError(f"the receipt of {path} protects neither a use nor the order of all use.")
    if not math.isclose(unit.interval_s * unit.window, release.promise.cells.interval_s):
        raise DataError(f"the receipt of {path} states other readings of a cell than its length.")
    del again["sources"]
    for name, value in again.items():
        compare_entries(f"the receipt of {path}", name, stated[name], value)
    return f"ε = {receipt.epsilon:.4g} follows from the noise and the unit of the receipt."


def compare_entries(where: str, name: str, stated: Any, computed: Any) -> None:
    """Raise `DataError` for the first entry that does not follow from the others."""
    if isinstance(computed, dict):
        if not isinstance(stated, dict) or stated.keys() != computed.keys():
            raise DataError(f"{where} has other entries in {name} than this version writes.")
        for key, value in computed.items():
            compare_entries(where, f"{name}.{key}", stated[key], value)
    elif isinstance(computed, list | tuple):
        if not isinstance(stated, list | tuple) or len(stated) != len(computed):
            raise DataError(f"{where} has another number of {name} than its own numbers give.")
        for number, (one, other) in enumerate(zip(stated, computed, strict=True)):
            compare_entries(where, f"{name}[{number}]", one, other)
    elif not _equal(stated, computed):
        raise DataError(f"{where} states {name} = {stated}, but its own numbers give {computed}.")


def _check_estimate(path: Path, receipt: Receipt, release: Release) -> str:
    """The estimates of a folder follow from its noisy tables."""
    if not path.is_dir():
        return "The file has the readings alone."
    if folder_contents(release).keys() != receipt.files.keys():
        raise DataError(f"{path} has other views than its tables give.")
    for view in release.views:
        found = _as_text((path / f"{view.name}.csv").read_bytes())
        for column, values in estimate_columns(view).items():
            if not np.allclose(found[column].astype(float), values, rtol=1e-6, atol=2e-3):
                raise DataError(f"{path / view.name}.csv does not follow from the noisy tables.")
        for column, labels in _as_text(table_bytes(view.labels, "csv")).items():
            if not np.array_equal(found[column], labels):
                raise DataError(f"{path / view.name}.csv has other labels than its tables give.")
    return "The estimates and their standard errors follow from the noisy tables."


def _as_text(content: bytes) -> dict[str, Any]:
    """The columns of a CSV file as arrays of text."""
    names, *rows = csv.reader(StringIO(content.decode(), newline=""))
    columns = zip(*rows, strict=True) if rows else ([] for _ in names)
    return {name: np.array(texts) for name, texts in zip(names, columns, strict=True)}


def _check_kind(path: Path, receipt: Receipt) -> str:
    """The release is not a simulation, whose noise can be repeated."""
    if receipt.kind != "release":
        raise DataError(f"{path} is a {receipt.kind}, not a release; its noise can be repeated.")
    return "It is a real release, not a simulation."


def _equal(one: Any, other: Any) -> bool:
    """True if two values of a receipt are equal; numbers may differ in their last digits."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=1e-15)
    return bool(one == other)


def make_signing_key(path: str | Path) -> list[Path]:
    """Make a new Ed25519 key pair."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private, public = (Path(f"{path}{ending}") for ending in (".key", ".pub"))
    for file in (private, public):
        refuse_overwrite(file, force=False, remedy="choose another name")
    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    known = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    for file, content in ((private, secret), (public, known)):
        with one_sentence(file):
            create_file(file, content, public=file is public)
    return [private, public]


def make_signature(fields: dict[str, Any], key_file: str | Path) -> dict[str, str]:
    """Sign the fields of a public receipt or of a manifest."""
    key = _read_private_key(Path(key_file))
    return {
        "algorithm": ALGORITHM,
        "public_key": _encode(key.public_key().public_bytes_raw()),
        "value": _encode(key.sign(signed_bytes(fields))),
    }


def check_signature(
    fields: dict[str, Any], key_file: str | Path | None, name: str = "receipt"
) -> str:
    """Check the signature of a public receipt or of a manifest."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    signature = fields.get("signature")
    if signature is None:
        if key_file is not None:
            raise DataError(f"the {name} is not signed, so the key cannot confirm it.")
        return f"The {name} is not signed."
    try:
        if signature["algorithm"] != ALGORITHM:
            raise DataError(f"the signature is not of the kind {ALGORITHM}.")
        named = Ed25519PublicKey.from_public_bytes(_decode(signature["public_key"]))
        value = _decode(signature["value"])
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"the signature of the {name} cannot be read.") from None
    key = named if key_file is None else _read_public_key(Path(key_file))
    if key.public_bytes_raw() != named.public_bytes_raw():
        raise DataError(f"the {name} is signed with another key than the given one.")
    try:
        key.verify(value, signed_bytes(fields))
    except InvalidSignature:
        raise DataError(f"the signature does not fit the {name}, which was changed.") from None
    if key_file is None:
        return f"The signature is valid for the key that the {name} names; add --key to compare."
    return f"The {name} is signed with the given key."


def signed_bytes(fields: dict[str, Any]) -> bytes:
    """Return the bytes that a signature covers: all fields without the signature."""
    covered = {name: value for name, value in fields.items() if name != "signature"}
    text = json.dumps(covered, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return text.encode("ascii")


def _read_private_key(path: Path) -> Ed25519PrivateKey:
    """Read an Ed25519 private key; raise `DataError` if the file is not one."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = _load(path, lambda content: load_pem_private_key(content, None))
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{path} is not an Ed25519 private key; make one with verify --new-key.")
    return key


def _read_public_key(path: Path) -> Ed25519PublicKey:
    """Read an Ed25519 public key; raise an error if the file is not one."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    key = _load(path, load_pem_public_key)
    if not isinstance(key, Ed25519PublicKey):
        raise InputError(f"{path} is not an Ed25519 public key.")
    return key


def _load(path: Path, parse: Any) -> Any:
    """Parse a PEM file; None if it holds no key that can be read without a password."""
    from cryptography.exceptions import UnsupportedAlgorithm

    with one_sentence(path, "read"):
        content = path.read_bytes()
    try:
        return parse(content)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None


def _encode(content: bytes) -> str:
    """Bytes as base64 text."""
    return base64.b64encode(content).decode("ascii")


def _decode(text: str) -> bytes:
    """Base64 text as bytes; raise ValueError if it is not base64."""
    return base64.b64decode(text, validate=True)
