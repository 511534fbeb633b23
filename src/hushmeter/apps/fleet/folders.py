"""The two folders of a release: the input, and the output with its private part.

*Input.* The folder is on this machine or behind a URL. A URL names any file system of Apache Arrow
(s3://, gs://, abfs://, hdfs://, file://) or, if that package and its driver are installed, of
fsspec. Credentials come from the environment of every worker, as the tools of each provider read
them, and never from the URL: the URL is stored and printed. A remote file is downloaded once for
each attempt, so that both passes over a file see the same bytes.

*Output.* The private folder OUT_DIR/.hushmeter belongs to an unfinished release. Only its owner can
read it. It is on the file system of the output, so that a rename out of it is atomic, and it is
removed when the release is finished::

    lock           held by the job that works here
    release.key    32 random bytes, durable before the first spend
    release.json   what was asked for; if it exists, the release has begun
    ledger.head    the last known end of the ledger
    staging/       files that are being written
    reports/       what became of each file, and its exact sums
    sealed/        files that complete the release and no longer change
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import secrets
import shutil
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hushmeter.apps.ledger.spending import is_name
from hushmeter.errors import DataError, InputError
from hushmeter.files import (
    flush_folder,
    make_folder,
    move,
    one_sentence,
    publish_staged,
    stage,
    take_lock,
    write_bytes,
    write_text,
)
from hushmeter.noise.samplers import KEY_BYTES
from hushmeter.read.source import refuse_outside

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import fs

SUFFIXES = (".parquet", ".csv", ".csv.gz")
"""How the names of input files end."""

RAW_BYTES = 1 << 25
"""Files up to this size are read into memory once; larger ones are read from the disk."""

_CHUNK = 1 << 20

PRIVATE = ".hushmeter"
"""Name of the private folder."""

SEALED = "sealed"
"""Name of the folder, within the private one, of complete files that no longer change."""


class SourceFolder:
    """A folder with input files, named by its path or URL; `open_source` makes it."""

    def __init__(self, name: str, system: fs.FileSystem | None, base: str) -> None:
        from pyarrow import fs

        self.name, self._base = name, base.rstrip("/") or "/"
        self._local = system is None
        self._system = fs.LocalFileSystem() if system is None else system

    def list_all(self) -> Iterator[str]:
        """Yield the names of all files below the folder, relative to it, with slashes."""
        from pyarrow import fs

        if self._local:
            for path in Path(self._base).rglob("*"):
                if path.is_file():
                    name = path.relative_to(self._base).as_posix()
                    if path.is_symlink() and name.endswith(SUFFIXES):
                        self._place(name)
                    yield name
            return
        with _readable(self.name):
            found = self._system.get_file_info(fs.FileSelector(self._base, recursive=True))
        for info in found:
            if info.type == fs.FileType.File:
                yield info.path.removeprefix(self._base).lstrip("/")

    def _place(self, name: str) -> str:
        """Return the path of a file, which must be inside the folder even if it is a link."""
        path = f"{self._base}/{name}"
        if self._local:
            refuse_outside(Path(path), Path(self._base))
        return path

    def size(self, name: str) -> int:
        """Return the size of a file [bytes]."""
        return int(self._system.get_file_info(self._place(name)).size or 0)

    def open(self, name: str) -> pa.NativeFile:
        """Open a file for reading from any position."""
        return self._system.open_input_file(self._place(name))

    def snapshot(self, name: str, scratch: Path | None) -> Any:
        """Open a file that is read more than once; a large remote one is copied to `scratch`."""
        import pyarrow as pa

        with self.open(name) as source:
            if source.size() <= RAW_BYTES:
                return pa.BufferReader(source.read())
            if self._local:
                return self.open(name)
            # The file has no name, so that nothing is left of it even if this process is killed.
            copy = tempfile.TemporaryFile(dir=scratch)  # noqa: SIM115
            shutil.copyfileobj(source, copy, _CHUNK)
        copy.seek(0)
        return pa.PythonFile(copy, mode="r")

    @contextmanager
    def local_path(self, name: str, scratch: Path | None) -> Iterator[Path]:
        """Yield a path on this machine: of the file itself, or of a copy of a remote file."""
        if self._local:
            yield Path(self._place(name))
            return
        with tempfile.TemporaryDirectory(prefix="input-", dir=scratch) as folder:
            path = Path(folder) / PurePosixPath(name).name
            with self.open(name) as source, path.open("wb") as copy:
                shutil.copyfileobj(source, copy, _CHUNK)
            yield path


def open_source(place: Path | str) -> SourceFolder:
    """Open the input folder of a fleet: a path, or a URL such as s3://bucket/readings?region=….

    Raise `InputError` if the URL contains a password or no installed package knows its scheme, and
    `DataError` if there is no such folder.
    """
    system, base = None, str(place)
    if is_url(place):
        if urlsplit(base).password is not None:
            raise InputError(
                "the URL of the input contains a password; set the credentials in the environment, "
                "such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and leave them out of the "
                "URL."
            )
        from pyarrow import fs

        with _readable(base):
            system, base = _find_system(base)
        if not isinstance(system, fs.LocalFileSystem):
            return SourceFolder(str(place), system, base)
    if not Path(base).is_dir():
        raise DataError(f"{base} is not a folder.")
    return SourceFolder(base, None, base)


def is_url(place: Path | str) -> bool:
    """Return whether a place is a URL; a letter and a colon are a drive of Windows."""
    # A Path has joined the two slashes of a URL already.
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", str(place)) is not None


def list_files(place: Path | str | SourceFolder) -> list[str]:
    """List the Parquet and CSV files below a folder, relative to it and sorted; not hidden ones.

    Raise `DataError` if there is no file, a name is too long or not printable, or two files would
    have the same output.
    """
    source = place if isinstance(place, SourceFolder) else open_source(place)
    names = sorted(
        name
        for name in source.list_all()
        if name.endswith(SUFFIXES) and not any(part[0] == "." for part in PurePosixPath(name).parts)
    )
    if not names:
        raise DataError(f"{source.name} holds no .parquet, .csv or .csv.gz files.")
    for name in names:
        if not is_name(name):
            raise DataError(
                f"{source.name} holds a file {name!r}, whose name is too long or cannot be "
                "printed; rename it."
            )
    outputs = Counter(map(output_name, names))
    for name, count in outputs.items():
        if count > 1:
            raise DataError(f"two files of {source.name} would be released as {name}; rename one.")
    return names


def output_name(source: str) -> str:
    """Return the name of the output of a file: its own, with .parquet after that of a CSV file."""
    return source if source.endswith(".parquet") else f"{source}.parquet"


def _find_system(url: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a URL and the path within it."""
    import pyarrow as pa
    from pyarrow import fs

    try:
        system, base = fs.FileSystem.from_uri(url)
    except pa.ArrowInvalid as error:
        if "Unrecognized filesystem type" not in str(error):
            raise
    else:
        return system, base
    try:
        from fsspec.core import url_to_fs

        driver, base = url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise InputError(
            f"no installed package reads {urlsplit(url).scheme}:// ({error}); install the fsspec "
            "driver of this file system, or copy the files to this machine."
        ) from None
    return fs.PyFileSystem(fs.FSSpecHandler(driver)), base


def _readable(url: str) -> AbstractContextManager[None]:
    """Raise the errors of a remote file system again as one sentence about the folder."""
    import pyarrow as pa

    return one_sentence(f"the input folder {url}", "read", kinds=(OSError, pa.ArrowException))


class PrivateFolder:
    """The private folder of an output folder."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self.path = output / PRIVATE
        self.key_file = self.path / "release.key"
        self.begun_file = self.path / "release.json"
        self.head_file = self.path / "ledger.head"
        self.staging = self.path / "staging"
        self.reports = self.path / "reports"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder and lock it against other jobs.

        At the end the private folder is removed if no release is in progress, and so are all
        empty folders of the output, and the output itself if it was made here and is empty.
        """
        new = not self.output.exists()
        with one_sentence(self.output):
            self.output.mkdir(parents=True, exist_ok=True)
            self.path.mkdir(mode=0o700, exist_ok=True)
            # This fails too if a job that ended meanwhile removed the file that was locked.
            lock = take_lock(
                self.path / "lock",
                lambda: (
                    f"another job is working in {self.output}; wait for it, or name another folder."
                ),
            )
        try:
            yield
        finally:
            if not self.begun_file.exists():
                shutil.rmtree(self.path, ignore_errors=True)
                self._remove_empty_folders(whole=new)
            lock.release()

    def _remove_empty_folders(self, *, whole: bool) -> None:
        """Remove the folders of the output that hold nothing, and if `whole` the output itself."""
        folders = [path for path in self.output.rglob("*") if path.is_dir()]
        for path in [*sorted(folders, reverse=True), *([self.output] if whole else [])]:
            # A folder that is not empty stays.
            with suppress(OSError):
                path.rmdir()

    def begin(self, asked: dict[str, Any], key: bytes) -> None:
        """Begin a release: write the key and then what was asked for, which marks its beginning."""
        with one_sentence(self.output):
            for folder in (self.staging, self.reports):
                folder.mkdir(mode=0o700, exist_ok=True)
            write_bytes(self.key_file, key, force=True)
            write_text(self.begun_file, json.dumps(asked, indent=2), force=True)
            flush_folder(self.output)

    @property
    def asked(self) -> dict[str, Any] | None:
        """What was asked for in an unfinished release, as plain values; None if none has begun."""
        content = _content(self.begun_file)
        return None if content is None else dict(json.loads(content))

    def key(self) -> bytes:
        """Return the release key; raise `DataError` if it is lost."""
        found = _content(self.key_file)
        if found is None or len(found) != KEY_BYTES:
            raise DataError(
                f"the key of the unfinished release in {self.output} is lost, so it cannot be "
                "resumed; release the rest into another folder with --correct, which spends again."
            )
        return found

    def write_head(self, head: str) -> None:
        """Keep the end of the ledger, so that an older copy of the ledger is detected."""
        write_text(self.head_file, head, force=True)

    def head(self) -> str | None:
        """Return the last known end of the ledger, or None if there is none."""
        content = _content(self.head_file)
        return None if content is None else content.decode()

    @property
    def sealed(self) -> bool:
        """True if all files of the release are complete and only have to be moved."""
        return (self.path / SEALED).is_dir()

    def seal(self, contents: Mapping[str, bytes]) -> None:
        """Write the files that complete a release; after this they no longer change.

        A resumed job publishes these files and no others, even if its input has changed since: two
        versions of a noisy number would reveal more than one version does.
        """
        draft = self.staging / SEALED
        with one_sentence(self.output):
            stage(draft, {self.output / name: content for name, content in contents.items()})
            move(draft, self.path / SEALED)

    def sealed_content(self, name: str) -> bytes:
        """Return the content of a sealed file."""
        (path,) = (self.path / SEALED).glob(f"??-{name}")
        return path.read_bytes()

    def publish_sealed(self) -> None:
        """Move the sealed files into the output; the last one makes it a release."""
        with one_sentence(self.output):
            publish_staged(self.path / SEALED, self.output)

    def remove_unlisted(self, listed: Collection[str]) -> None:
        """Remove files of this release that a manifest will not list, and refuse any other file."""
        written = {output_name(report["source"]) for report in self.all_reports()}
        for path in sorted(self.output.rglob("*")):
            name = path.relative_to(self.output)
            if name.parts[0] == PRIVATE or path.is_dir() or name.as_posix() in listed:
                continue
            if name.as_posix() not in written:
                raise DataError(
                    f"{path} is not part of the release; move it elsewhere and continue with "
                    "--resume."
                )
            with one_sentence(path):
                path.unlink()

    def report_file(self, source: str) -> Path:
        """Return the path of the report of a file.

        It is named by a hash, because a path may be longer than a file name can be.
        """
        return self.reports / f"{hashlib.sha256(source.encode()).hexdigest()}.json"

    def write_report(
        self, source: str, report: Mapping[str, Any], *, sums: Mapping[str, Any] | None = None
    ) -> None:
        """Write the report of a file as plain values, and its exact sums if it has some."""
        content = json.dumps([report, sums], ensure_ascii=False)
        write_text(self.report_file(source), content, force=True)

    def report(self, source: str) -> dict[str, Any] | None:
        """Return the report of a file, or None if there is no complete one."""
        found = _complete_json(self.report_file(source))
        return None if found is None else dict(found[0])

    def sums(self, source: str) -> dict[str, Any]:
        """Return the exact sums of a file that has a report."""
        found = _complete_json(self.report_file(source))
        if found is None or found[1] is None:
            raise DataError(f"the sums of {source} are lost; continue with --resume.")
        return dict(found[1])

    def all_reports(self) -> Iterator[dict[str, Any]]:
        """Yield all complete reports."""
        for path in self.reports.glob("[!.]*.json"):
            found = _complete_json(path)
            if found is not None:
                yield found[0]

    def clear_staging(self) -> None:
        """Remove the incomplete files of a killed job."""
        for path in self.staging.glob("*"):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def destroy(self) -> None:
        """Overwrite and remove the key, and then remove the folder."""
        with one_sentence(self.output):
            if self.key_file.exists():
                with self.key_file.open("r+b") as file:
                    file.write(secrets.token_bytes(KEY_BYTES))
                    file.flush()
                    os.fsync(file.fileno())
                self.key_file.unlink()
                flush_folder(self.path)
            shutil.rmtree(self.path, ignore_errors=True)
            if self.path.exists():
                # A task that was taken for dead has written into the folder meanwhile.
                shutil.rmtree(self.path)
            flush_folder(self.output)


class StagedFile(io.RawIOBase):
    """A file in the staging folder, whose SHA-256 is computed while it is written."""

    def __init__(self, folder: PrivateFolder, target: Path, size: int) -> None:
        self._path = folder.staging / secrets.token_hex(8)
        self._target = target
        self._sum = hashlib.sha256()
        self.size = 0
        self._descriptor = -1
        with one_sentence(target):
            make_folder(target.parent, public=True)
            self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            try:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(self._descriptor, 0, max(1, size))
            except OSError:
                self.discard()
                raise

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Append bytes and return their number."""
        view = memoryview(data).cast("B")
        self._sum.update(view)
        done = 0
        while done < view.nbytes:
            done += os.write(self._descriptor, view[done:])
        self.size += done
        return done

    @property
    def digest(self) -> str:
        """SHA-256 of what was written, as hexadecimal text."""
        return self._sum.hexdigest()

    def settle(self) -> None:
        """Cut off unused space and make the content durable."""
        with one_sentence(self._target):
            os.ftruncate(self._descriptor, self.size)
            os.fsync(self._descriptor)

    def publish(self) -> None:
        """Rename the file to its final name, durably."""
        self._close()
        move(self._path, self._target)

    def discard(self) -> None:
        """Remove the file if it was not published."""
        self._close()
        with suppress(OSError):
            self._path.unlink()

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _complete_json(path: Path) -> Any:
    """Read a JSON file; return None if the file is absent or incomplete."""
    try:
        return json.loads(_content(path) or b"")
    except ValueError:
        return None


def _content(path: Path) -> bytes | None:
    """Return the content of a file, or None if it does not exist."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
