"""The folder with the input files of a fleet, on this machine or behind a URL.

A URL names any file system of Apache Arrow (s3://, gs://, abfs://, hdfs://, file://) or, if that
package and its driver are installed, of fsspec. Credentials come from the environment of every
worker, as the tools of each provider read them, and never from the URL: the URL is stored and
printed. A remote file is downloaded once for each attempt, so that both passes over a file see the
same bytes.
"""

from __future__ import annotations

import re
import tempfile
from abc import ABC, abstractmethod
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


class SourceFolder(ABC):
    """A folder with input files; `open_source` makes it.

    Attributes
    ----------
    name : str
        Path or URL of the folder.
    """

    name: str

    @abstractmethod
    def list_all(self) -> Iterator[str]:
        """Yield the names of all files below the folder, relative to it, with slashes."""

    @abstractmethod
    def size(self, name: str) -> int:
        """Return the size of a file [bytes]."""

    @abstractmethod
    def open(self, name: str) -> pa.NativeFile:
        """Open a file for reading at any place."""

    @abstractmethod
    def snapshot(self, name: str, scratch: Path | None) -> Any:
        """Open a file that is read more than once.

        Parameters
        ----------
        name : str
            Name of the file.
        scratch : Path or None
            Folder for the copy of a large remote file; the folder for temporary files if None.

        Returns
        -------
        NativeFile
        """

    @abstractmethod
    def local_path(self, name: str, scratch: Path | None) -> Any:
        """Return a context that yields a path of the file on this machine; see `snapshot`."""


class _LocalFolder(SourceFolder):
    """A folder of this machine."""

    def __init__(self, path: Path) -> None:
        self.name, self._path = str(path), path
        if not path.is_dir():
            raise DataError(f"{path} is not a folder.")

    def list_all(self) -> Iterator[str]:
        for path in self._path.rglob("*"):
            if path.is_file():
                name = path.relative_to(self._path).as_posix()
                if path.is_symlink() and name.endswith(SUFFIXES):
                    self._place(name)
                yield name

    def size(self, name: str) -> int:
        return self._place(name).stat().st_size

    def open(self, name: str) -> pa.NativeFile:
        import pyarrow as pa

        return pa.OSFile(str(self._place(name)), "rb")

    def snapshot(self, name: str, scratch: Path | None) -> pa.NativeFile:  # noqa: ARG002
        import pyarrow as pa

        path = self._place(name)
        if path.stat().st_size <= RAW_BYTES:
            return pa.BufferReader(path.read_bytes())
        return pa.OSFile(str(path), "rb")

    @contextmanager
    def local_path(self, name: str, scratch: Path | None) -> Iterator[Path]:  # noqa: ARG002
        yield self._place(name)

    def _place(self, name: str) -> Path:
        """Return the path of a file, which must be inside the folder even if it is a link."""
        path = self._path / name
        refuse_outside(path, self._path)
        return path


class _RemoteFolder(SourceFolder):
    """A folder behind a URL."""

    def __init__(self, url: str, system: fs.FileSystem, base: str) -> None:
        self.name, self._system, self._base = url, system, base.rstrip("/")

    def list_all(self) -> Iterator[str]:
        from pyarrow import fs

        with _readable(self.name):
            found = self._system.get_file_info(fs.FileSelector(self._base, recursive=True))
        for info in found:
            if info.type == fs.FileType.File:
                yield info.path.removeprefix(self._base).lstrip("/")

    def size(self, name: str) -> int:
        return int(self._system.get_file_info(f"{self._base}/{name}").size or 0)

    def open(self, name: str) -> pa.NativeFile:
        return self._system.open_input_file(f"{self._base}/{name}")

    def snapshot(self, name: str, scratch: Path | None) -> Any:
        import pyarrow as pa

        with self.open(name) as source:
            if source.size() <= RAW_BYTES:
                return pa.BufferReader(source.read())
            # The file has no name, so that nothing is left of it even if this process is killed.
            copy = tempfile.TemporaryFile(dir=scratch)  # noqa: SIM115
            _copy(source, copy)
        copy.seek(0)
        return pa.PythonFile(copy, mode="r")

    @contextmanager
    def local_path(self, name: str, scratch: Path | None) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="input-", dir=scratch) as folder:
            path = Path(folder) / PurePosixPath(name).name
            with self.open(name) as source, path.open("wb") as copy:
                _copy(source, copy)
            yield path


def open_source(place: Path | str) -> SourceFolder:
    """Open the input folder of a fleet.

    Parameters
    ----------
    place : path or str
        A folder, or a URL such as s3://bucket/readings?region=eu-central-1.

    Returns
    -------
    SourceFolder

    Raises
    ------
    InputError
        If the URL contains a password, or no installed package knows its scheme.
    DataError
        If there is no such folder.
    """
    if not is_url(place):
        return _LocalFolder(Path(place))
    url = str(place)
    if urlsplit(url).password is not None:
        raise InputError(
            "the URL of the input contains a password; set the credentials in the environment, "
            "such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and leave them out of the URL."
        )
    from pyarrow import fs

    with _readable(url):
        system, base = _find_system(url)
    if isinstance(system, fs.LocalFileSystem):
        return _LocalFolder(Path(base))
    return _RemoteFolder(url, system, base)


def is_url(place: Path | str) -> bool:
    """Return whether a place is a URL; a letter and a colon are a drive of Windows."""
    # A Path has joined the two slashes of a URL already.
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", str(place)) is not None


def list_files(place: Path | str | SourceFolder) -> list[str]:
    """List the Parquet and CSV files below a folder.

    Parameters
    ----------
    place : path, str or SourceFolder
        The folder.

    Returns
    -------
    list of str
        Names relative to the folder, sorted; hidden files and folders are left out.

    Raises
    ------
    DataError
        If there is no file, a name is too long or not printable, or two files would have the
        same output.
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


def _copy(source: Any, target: Any) -> None:
    """Copy an open file to another in pieces."""
    while piece := source.read(_CHUNK):
        target.write(piece)


def _readable(url: str) -> AbstractContextManager[None]:
    """Raise the errors of a remote file system again as one sentence about the folder."""
    import pyarrow as pa

    return one_sentence(f"the input folder {url}", "read", kinds=(OSError, pa.ArrowException))
