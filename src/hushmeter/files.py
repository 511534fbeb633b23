"""Writing files: none is overwritten without `force`, and none is left half written.

Every file is written completely under a temporary name in its folder, flushed to the disk, and
renamed; then the folder is flushed. After a power cut the file is therefore the old one or the new
one. A rename replaces a symbolic link itself, so that what the link leads to is never changed.

A file is private from its first moment: only its owner can read it, and only its owner can list a
folder that is made for it. Whoever writes for others says so with `public=True`.
"""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import math
import os
import re
import secrets
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.errors import DataError, HushmeterError, InputError
from hushmeter.parts import need

if TYPE_CHECKING:
    import pandas as pd
    from filelock import FileLock

RECEIPT = "receipt.json"
"""Name of the public receipt in the folder of a release."""

DAMAGED = (LookupError, TypeError, ValueError, AttributeError)
"""Errors that an entry causes which this program has not written."""

Contents = bytes | Mapping[str, bytes]
"""What is written: the bytes of a file, or those of all files of a folder by their names."""


@contextmanager
def one_sentence(
    place: object,
    done: str = "written",
    *,
    kinds: type[Exception] | tuple[type[Exception], ...] = OSError,
    more: str = "",
) -> Iterator[None]:
    """Raise an error of the file system, or of other kinds, again as one sentence on a place."""
    try:
        yield
    except HushmeterError:
        raise
    except kinds as error:
        raise DataError(f"{place} cannot be {done}: {reason_of(error)}{more}.") from None


def reason_of(error: Exception) -> str:
    """Return why something failed: the words of the system, or the first line of the message."""
    first = str(error).strip().partition("\n")[0] or type(error).__name__
    return (getattr(error, "strerror", None) or first).rstrip(".: ")


def refuse_overwrite(
    path: Path, force: bool, *, remedy: str = "add --force to overwrite it"
) -> None:
    """Raise `DataError` if the file or link exists without `force`, or if it is no file at all."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise DataError(f"{path} is a device or a pipe, which a file would replace; name a file.")
    if not force and os.path.lexists(path):
        raise DataError(f"{path} exists; {remedy}.")


def receipt_path(data: Path) -> Path:
    """Return the path of the public receipt of a file or a folder."""
    return data / RECEIPT if data.is_dir() else data.with_name(f"{data.name}.receipt.json")


def make_folder(path: Path, *, public: bool = False) -> None:
    """Make a folder and those above it; only the owner may enter a new one that is not public."""
    for folder in (*reversed(path.parents), path):
        if not folder.exists():
            folder.mkdir(mode=0o777 if public else 0o700, exist_ok=True)
            flush_folder(folder.parent)


def create_file(path: Path, content: bytes = b"", *, public: bool = False) -> None:
    """Write a new file and flush it to the disk; only its owner may read it, unless it is public.

    An existing file is never opened, because it keeps the rights that it has.
    """
    mode = 0o666 if public else 0o600
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        if content:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


def flush_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk, where the system can do so."""
    try:
        _flush(folder, os.O_RDONLY)
    except OSError as error:
        # Windows opens no folder, nor does a user who may only write into it; some file systems
        # flush none.
        if error.errno not in (errno.EACCES, errno.EINVAL):
            raise


def _flush(path: Path, flags: int) -> None:
    """Flush what was written to a file or folder to the disk."""
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def move(path: Path, target: Path) -> None:
    """Rename a complete file or folder, durably, in place of a file that has the new name."""
    with one_sentence(target):
        path.replace(target)
        flush_folder(target.parent)


@contextmanager
def atomic(path: Path, *, force: bool = False, public: bool = False) -> Iterator[Path]:
    """Give a temporary file beside `path`; rename it to `path` if the block ends without error."""
    refuse_overwrite(path, force)
    with one_sentence(path), _temporary_name(path) as temporary:
        make_folder(path.parent, public=public)
        # What writes into it keeps its rights, however it is opened.
        create_file(temporary, public=public)
        yield temporary
        _flush(temporary, os.O_RDWR)
        temporary.replace(path)
        flush_folder(path.parent)


def write_bytes(path: Path, content: bytes, *, force: bool = False, public: bool = False) -> None:
    """Write a file; see `atomic` for the errors."""
    with atomic(path, force=force, public=public) as temporary:
        temporary.write_bytes(content)


def write_text(path: Path, text: str, *, force: bool = False, public: bool = False) -> None:
    """Write text as UTF-8; see `atomic` for the errors."""
    write_bytes(path, text.encode(), force=force, public=public)


def replace_together(
    contents: Mapping[Path, Contents], *, private: Collection[Path] = (), force: bool = True
) -> None:
    """Replace files and folders of one folder so that no mixture exists; see `publish_staged`.

    Everything is on the disk before the first of them is renamed. Raise `DataError` if the file
    system refuses to write.
    """
    named = next(path for path in contents if path not in private)
    with one_sentence(named), _temporary_name(named) as folder:
        stage(folder, contents, private=private)
        publish_staged(folder, named.parent, force=force)


def stage(
    folder: Path, contents: Mapping[Path, Contents], *, private: Collection[Path] = ()
) -> None:
    """Write files and folders of one folder into another, new one, and flush them to the disk.

    Its names begin with their number in the order in which they are published. Other users may read
    all but the private ones as soon as they are published, and none before.
    """
    make_folder(next(iter(contents)).parent, public=True)
    folder.mkdir(mode=0o700)
    for number, (path, content) in enumerate(contents.items()):
        with one_sentence(path):
            _create(folder / f"{number:02}-{path.name}", content, public=path not in private)
    _staged(folder)
    flush_folder(folder)


def _staged(folder: Path) -> list[Path]:
    """What is staged in a folder, in the order in which it is published."""
    found = sorted(folder.glob("[0-9]*"))
    for path in found:
        # Names sort as their numbers do only if all numbers have two digits.
        if not re.match("[0-9]{2}-", path.name):
            raise DataError(
                f"{path} has no number of two digits, so that its place in the order of "
                "publishing is not known; nothing was published. Finish with the version that "
                "wrote it, or remove its folder and begin again."
            )
    return found


def publish_staged(folder: Path, place: Path, *, force: bool = True) -> None:
    """Rename what was staged in a folder to its names in a place; called again, it goes on.

    First the old ones are removed from the last to the second, then the new ones are put in place
    from the first to the last: who finds the last one finds the others that belong to it, even
    after a power cut. Without `force` one of several writers wins, and the others get a
    `DataError`.
    """
    new = {path: place / path.name[3:] for path in _staged(folder)}
    for path, target in new.items():
        if target.is_dir() and not (path.is_dir() or target.is_symlink()):
            raise DataError(f"{target} is a folder, which a file would replace; rename it.")
    others = [path for path in new if not path.name.startswith("00-")]
    for path in new.keys() - others:
        if not force:
            _claim(path, new.pop(path))
    for path in reversed(others):
        _remove(new[path], folder)
        flush_folder(place)
    for path, target in new.items():
        if path.is_dir():
            _remove(target, folder)
        path.replace(target)
        flush_folder(place)


def _claim(temporary: Path, path: Path) -> None:
    """Give a complete file its name, unless another writer came first."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        # An interrupted attempt may have given it the name already.
        if not path.samefile(temporary):
            refuse_overwrite(path, False)
    except OSError:
        # Folders, and the files of some file systems, have no second name.
        temporary.replace(path)
    flush_folder(path.parent)


def _create(path: Path, content: Contents, *, public: bool) -> None:
    """Write a new file, or a new folder with its files, and flush it to the disk."""
    if isinstance(content, bytes):
        create_file(path, content, public=public)
        return
    path.mkdir(mode=0o777 if public else 0o700)
    for name, data in content.items():
        create_file(path / name, data, public=public)
    flush_folder(path)


def _remove(path: Path, aside: Path) -> None:
    """Remove a file or a link, if it exists; a folder is moved into another one at once."""
    if path.is_dir() and not path.is_symlink():
        path.replace(aside / f"old-{secrets.token_hex(4)}")
    else:
        path.unlink(missing_ok=True)


def take_lock(path: Path, busy: Callable[[], str], wait_s: float = 0.0) -> FileLock:
    """Lock a file until `release` is called or this process ends, however it ends.

    Raise `DataError` with the sentence of `busy` if another process keeps it locked.
    """
    from filelock import FileLock, Timeout

    # A lock that is only a file with a name would remain after a process was killed.
    lock = FileLock(path, mode=0o600, fallback_to_soft=False)
    try:
        lock.acquire(timeout=wait_s)
    except Timeout:
        raise DataError(busy()) from None
    return lock


@contextmanager
def _temporary_name(path: Path) -> Iterator[Path]:
    """Give a hidden name beside a path; whatever has it at the end is removed."""
    name = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        yield name
    finally:
        with suppress(OSError):
            if name.is_dir():
                shutil.rmtree(name, ignore_errors=True)
                name.rmdir()
            else:
                name.unlink()


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal text."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def table_format(path: Path) -> str:
    """Return "csv" or "parquet" by the name of the file; raise `InputError` for another name."""
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise InputError(f"{path} must end in .csv or .parquet.")
    return suffix[1:]


def write_table(
    path: Path, columns: Mapping[str, Any], *, force: bool = False, public: bool = False
) -> None:
    """Write columns of equal length as CSV or Parquet, by the name of the file; times are UTC."""
    content = table_bytes(columns, table_format(path))
    write_bytes(path, content, force=force, public=public)


def table_bytes(columns: Mapping[str, Any], kind: str) -> bytes:
    """Return columns of equal length as "csv" or "parquet"; times are UTC."""
    if kind == "csv":
        return _csv_bytes(columns)
    parquet = need("pyarrow.parquet", "writing Parquet", "parquet")
    stream = BytesIO()
    parquet.write_table(arrow_table(columns), stream, compression="zstd")
    return stream.getvalue()


def _csv_bytes(columns: Mapping[str, Any]) -> bytes:
    """Columns as CSV; text is in quotes, and an empty cell is a missing value."""
    rows = zip(*map(_cell_texts, columns.values()), strict=True)
    lines = [",".join(map(_quoted, columns)), *map(",".join, rows), ""]
    return "\n".join(lines).encode()


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _cell_texts(values: Any) -> list[str]:
    """The cells of a column as CSV writes them: shortest numbers, times of UTC in ISO 8601."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":
        moments = _coarsest(values)
        texts: list[str] = np.datetime_as_string(moments).tolist()
        whole_days = np.datetime_data(moments.dtype)[0] == "D"
        return texts if whole_days else [f"{text.replace('T', ' ')}Z" for text in texts]
    cells = values.tolist() if isinstance(values, np.ndarray) else list(values)
    whole = any(isinstance(cell, float) for cell in cells)
    return [_cell_text(float(cell) if whole and cell is not None else cell) for cell in cells]


def _cell_text(cell: object) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float):
        return _number_text(cell)
    return _quoted(cell) if isinstance(cell, str) else str(cell)


def _number_text(value: float) -> str:
    """The shortest decimal number of a float, with an exponent below 1e-6 and from 1e10 on."""
    text, size = repr(value), abs(value)
    if "e" not in text and (size < 1e10 or not math.isfinite(value)):
        return text.removesuffix(".0")
    exact = Decimal(text).normalize()
    return f"{exact:f}" if 1e-6 <= size < 1e10 else f"{exact:e}"


def _coarsest(times: Any) -> Any:
    """Times in the coarsest unit that is exact, so that their text is short."""
    if np.datetime_data(times.dtype)[0] == "D":
        return times
    coarse = (times.astype(f"M8[{unit}]") for unit in ("s", "ms", "us"))
    return next((found for found in coarse if (found == times).all()), times)


def frame_columns(frame: pd.DataFrame) -> dict[str, list[Any]]:
    """Return the columns of a DataFrame by their names, with None for missing values."""
    plain = frame.astype(object).where(frame.notna(), None)
    return {str(name): plain[name].tolist() for name in plain}


def arrow_table(columns: Mapping[str, Any]) -> Any:
    """Return columns of equal length as a pyarrow table; times are UTC."""
    pa = need("pyarrow", "a table of Arrow", "parquet")

    arrays = {}
    for name, values in columns.items():
        array = pa.array(values)
        if pa.types.is_timestamp(array.type):
            array = pa.array(_coarsest(array.to_numpy(zero_copy_only=False)))
            array = array.cast(pa.timestamp(array.type.unit, tz="UTC"))
        arrays[name] = array
    return pa.table(arrays)


def parse_json(content: bytes | str) -> Any:
    """Read a JSON document of a stranger, in which every name has one meaning."""
    try:
        return json.loads(content, object_pairs_hook=_unique_names, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("the document is nested too deeply") from None


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; raise `ValueError` if a name occurs twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a name twice")
    return found


def _refuse_constant(name: str) -> float:
    """Raise for NaN and infinity, which JSON does not have."""
    raise ValueError(f"{name} is not JSON")


def json_text(value: Any) -> str:
    """Return a value as one JSON document with indents."""
    return json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """The value as JSON types; dataclasses become objects, NaN and infinity become None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)
