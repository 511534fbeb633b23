"""Opening a file, plain or gzipped, with a cap on what is taken into memory."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from hushmeter.errors import DataError

GZIP_MAGIC = b"\x1f\x8b"
HEAD_BYTES = 1 << 18
TEXT_CAP = 1 << 28
STREAM_CAP = 1 << 33


class CappedReader(io.RawIOBase):
    """A stream that refuses to hand out more than `cap` bytes: a small gzip may hold a lot."""

    def __init__(self, stream: BinaryIO, cap: int, path: Path) -> None:
        self._stream, self._left, self._cap, self._path = stream, cap, cap, path

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: object) -> int:
        """Fill the buffer, unless the cap is passed."""
        view = memoryview(buffer)  # type: ignore[arg-type]
        data = self._stream.read(len(view))
        self._left -= len(data)
        if self._left < 0:
            raise DataError(
                f"{self._path} holds more than {self._cap >> 20} MB: cut it into smaller files."
            )
        view[: len(data)] = data
        return len(data)


def is_gzip(path: Path) -> bool:
    """Whether the file starts as gzip does."""
    with path.open("rb") as file:
        return file.read(2) == GZIP_MAGIC


@contextmanager
def open_stream(path: Path, cap: int = STREAM_CAP) -> Iterator[BinaryIO]:
    """The file's bytes, decompressed where it is gzip; more than `cap` of them are refused."""
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == GZIP_MAGIC
            raw.seek(0)
            stream: BinaryIO = gzip.GzipFile(fileobj=raw) if packed else raw  # type: ignore[assignment]
            yield io.BufferedReader(CappedReader(stream, cap, path), 1 << 16)
    except (OSError, EOFError, zlib.error) as error:
        reason = str(error).split("\n")[0].rstrip(".")
        raise DataError(f"{path} cannot be read: {reason}.") from None


def read_head(path: Path, size: int = HEAD_BYTES) -> bytes:
    """The first bytes, decompressed; a torn gzip gives what it holds."""
    parts: list[bytes] = []
    try:
        with open_stream(path) as stream:
            while size > 0 and (part := stream.read(min(size, 1 << 14))):
                parts.append(part)
                size -= len(part)
    except DataError:
        if not parts:
            raise
    return b"".join(parts)


@contextmanager
def open_text(path: Path, cap: int = TEXT_CAP) -> Iterator[io.TextIOWrapper]:
    """The file as text in the encoding its first bytes show."""
    encoding = find_encoding(read_head(path, 1 << 14))
    with open_stream(path, cap) as stream:
        try:
            yield io.TextIOWrapper(stream, encoding=encoding, newline="")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{path} is not {encoding} text: byte {error.start} of a block is "
                f"{error.object[error.start]:#04x}; save it as UTF-8."
            ) from None


def find_encoding(head: bytes) -> str:
    """UTF-16 by its mark, UTF-8 where the bytes allow it, else Windows' Latin-1."""
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        # The head may end inside a character of several bytes.
        if error.start < len(head) - 4:
            return "latin-1"
    return "utf-8-sig"
