"""`hm.verify`: is a released file, or a released folder of a fleet, what its publisher states?"""

from __future__ import annotations

from pathlib import Path

from hushmeter.errors import DataError, InputError
from hushmeter.releases.files import receipt_path
from hushmeter.releases.verification import Verification, verify_release


def verify(path: str | Path, *, key: str | Path | None = None) -> Verification:
    """Check a release against what its publisher states about it.

    Parameters
    ----------
    path : str or Path
        A released file with its receipt beside it, the folder of a calendar release, or the
        folder of a released fleet or of its sums with its manifest.
    key : str or Path, optional
        Ed25519 public key (PEM) that must have signed the receipt of a file.

    Returns
    -------
    Verification
        What was checked and every difference. For a file: SHA-256, rows, times, the arithmetic
        of the receipt and its signature. For a folder: SHA-256 and rows of every file, sums, and
        files that the manifest does not list.

    Raises
    ------
    DataError
        If there is nothing to check: the receipt or manifest is missing or cannot be read, or
        names a file outside the folder.
    InputError
        If a key is given for a folder.

    Notes
    -----
    `verify` shows that the file and its receipt belong together and do not contradict each other.
    It cannot show that the publisher added the noise that the receipt describes.
    """
    place = Path(path)
    if not place.exists():
        raise DataError(f"{place} does not exist.")
    if not place.is_dir() or receipt_path(place).exists():
        return verify_release(place, key)
    if key is not None:
        raise InputError("a key can confirm the receipt of a file, not the manifest of a folder.")
    # A file and the folder of a calendar do not need the packages of a fleet.
    from hushmeter.fleet.released_folder import check_released_folder

    problems = tuple(check_released_folder(place))
    checks = () if problems else (f"{place} is exactly what its manifest describes.",)
    return Verification(place, checks, problems)
