"""`hushmeter verify`: check that a release and its receipt belong together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hushmeter.cli.options import (
    JSON,
)
from hushmeter.cli.output import (
    print_files,
    print_json,
    print_sentences,
)
from hushmeter.errors import DataError, InputError

if TYPE_CHECKING:
    pass


def verify(
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE|FOLDER", help="A release, or the folder of a fleet or of its sums."
        ),
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="Public key (.pub) that must have signed the receipt.")
    ] = None,
    new_key: Annotated[
        str | None, typer.Option(help="Make a key pair NAME.key and NAME.pub to sign receipts.")
    ] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Check a release against its receipt, or the folder of a fleet against its manifest.

    For a release: the SHA-256 of its files, the rows, every number and sentence of the receipt, the
    estimates of its tables and the signature. For a fleet: the SHA-256 and rows of every file, the
    promise and the charge, files that the manifest does not list, and the signature. The exit code
    is 1 if anything differs.

    Example: hushmeter verify out.csv --key publisher.pub
    """
    if (path is None) == (new_key is None):
        raise InputError("give a file or folder to check, or --new-key NAME to make a key pair.")
    if new_key is not None:
        from hushmeter.releases.verify import make_signing_key

        files = make_signing_key(new_key)
        if json:
            print_json({"files": [str(file) for file in files]})
        else:
            print_files(files)
        return
    from hushmeter.releases.verify import verify as verify_release

    assert path is not None
    found = verify_release(path, key=key)
    if json:
        facts = {"passed": found.passed, "checks": found.checks, "problems": found.problems}
        print_json({"path": str(path), **facts})
        if not found.passed:
            raise typer.Exit(1)
        return
    if not found.passed:
        print_sentences(*found.checks, *found.problems[:-1])
        raise DataError(found.problems[-1])
    print_sentences(*found.checks)
