"""The private folder of an unfinished release, OUT_DIR/.hushmeter: key, terms, staging, reports.

It is readable by its owner only, lies on the file system of the output, so that a rename out of
it is atomic, and is gone when the release is finished::

    lock           held by the job that works here
    release.key    32 random bytes, durable before the first spend
    release.json   what was asked for; its presence says that the release has begun
    staging/       files being written
    reports/       what became of each file
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hushmeter.errors import DataError
from hushmeter.noise.randomness import KEY_BYTES

STATE = ".hushmeter"


class PrivateFolder:
    """The private folder of an output folder.

    Parameters
    ----------
    output : Path
    """

    def __init__(self, output: Path) -> None:
        self.output = output
        self.path = output / STATE
        self.key_file = self.path / "release.key"
        self.begun_file = self.path / "release.json"
        self.staging = self.path / "staging"
        self.reports = self.path / "reports"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder and hold it against other jobs; it goes again if nothing began."""
        new = not self.output.exists()
        with _plainly(self.output):
            self.output.mkdir(parents=True, exist_ok=True)
            self.path.mkdir(mode=0o700, exist_ok=True)
            lock = self.path / "lock"
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A job that ended meanwhile took the file away: nobody else would meet this lock.
            if os.fstat(descriptor).st_ino != lock.stat().st_ino:
                raise BlockingIOError
        except OSError:
            os.close(descriptor)
            raise DataError(
                f"another job is working in {self.output}; wait for it, or name another folder."
            ) from None
        try:
            yield
        finally:
            if self.path.exists() and not self.begun_file.exists():
                shutil.rmtree(self.path, ignore_errors=True)
                with suppress(OSError):
                    if new:
                        self.output.rmdir()
            os.close(descriptor)

    def begin(self, asked: dict[str, Any], key: bytes) -> None:
        """Start a release: the key first, then the terms that say it has begun."""
        with _plainly(self.output):
            for folder in (self.staging, self.reports):
                folder.mkdir(mode=0o700, exist_ok=True)
            write_durably(self.key_file, [key])
            write_durably(self.begun_file, [json.dumps(asked, indent=2).encode()])
            sync_folder(self.output)

    @property
    def asked(self) -> dict[str, Any] | None:
        """What an unfinished release was begun with; None where none has begun."""
        try:
            found: dict[str, Any] = json.loads(self.begun_file.read_bytes())
        except FileNotFoundError:
            return None
        return found

    def key(self) -> bytes:
        """The release key."""
        try:
            found = self.key_file.read_bytes()
        except FileNotFoundError:
            found = b""
        if len(found) != KEY_BYTES:
            raise DataError(
                f"the key of the unfinished release in {self.output} is lost, so it cannot be "
                "resumed; release the rest into another folder with --correct, which spends again."
            )
        return found

    def report_file(self, source: str) -> Path:
        """Where the report of a file lies: paths may be longer than a file's name can be."""
        return self.reports / f"{hashlib.sha256(source.encode()).hexdigest()}.json"

    def write_report(self, source: str, content: bytes) -> None:
        """Keep the report of a file; a power cut may lose it, and the file is then done again."""
        path = self.report_file(source)
        temporary = path.with_name(f".{secrets.token_hex(8)}")
        temporary.write_bytes(content)
        temporary.replace(path)

    def report(self, source: str) -> dict[str, Any] | None:
        """The report of a file, None if there is none that is whole."""
        return _whole_json(self.report_file(source))

    def reported(self) -> Iterator[str]:
        """Names of the files that have a report."""
        for path in self.reports.glob("[!.]*.json"):
            found = _whole_json(path)
            if found is not None:
                yield found["source"]

    def clear_staging(self) -> None:
        """Remove what a killed job left half written."""
        for path in self.staging.glob("*"):
            path.unlink(missing_ok=True)

    def destroy(self) -> None:
        """Overwrite and remove the key, then remove the folder."""
        with _plainly(self.output):
            if self.key_file.exists():
                with self.key_file.open("r+b") as file:
                    file.write(secrets.token_bytes(KEY_BYTES))
                    file.flush()
                    os.fsync(file.fileno())
                self.key_file.unlink()
                sync_folder(self.path)
            shutil.rmtree(self.path, ignore_errors=True)
            if self.path.exists():
                # A task that was given up for dead has written into it meanwhile.
                shutil.rmtree(self.path)
            sync_folder(self.output)


def write_durably(path: Path, parts: Iterable[bytes]) -> None:
    """Write a private file that is whole or absent, also after a power cut."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with _plainly(path):
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "wb") as file:  # noqa: PTH123
                file.writelines(parts)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            with suppress(OSError):
                temporary.unlink()
        sync_folder(path.parent)


def _whole_json(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return found


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _plainly(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}.") from None
