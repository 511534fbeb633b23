"""The folder with the input files of a fleet, on this machine or behind a URL.

A URL names any file system of Apache Arrow (s3://, gs://, abfs://, hdfs://, file://) or, if that
package and its driver are installed, of fsspec. Credentials come from the environment of every
worker, as the tools of each provider read them, and never from the URL: the URL is stored and
printed. A remote file is downloaded once for each attempt, so that both passes over a file see the
same bytes.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hushmeter.errors import DataError, InputError
from hushmeter.files import one_sentence
from hushmeter.ledger.transactions import is_name
from hushmeter.read.source import refuse_outside

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import fs

SUFFIXES = (".parquet", ".csv", ".csv.gz")
"""How the names of input files end."""

RAW_BYTES = 1 << 25
"""Files up to this size are read into memory once; larger ones are read from the disk."""

_CHUNK = 1 << 20


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
        """Open a file for reading at any place."""
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
        """Yield a path of a file on this machine; see `snapshot`."""
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
    """List the Parquet and CSV files below a folder, relative to it and sorted; none is hidden.

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
