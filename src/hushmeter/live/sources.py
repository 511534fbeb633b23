"""Sources of readings: standard input and a growing file here; MQTT and P1 ports as well.

A source calls `receive` with a topic (or "") and the bytes of one message, and `lost` when it knows
that messages are missing, from a thread of its own. `receive` is called by one thread at a time; it
returns when the message is processed, so a source never has to keep messages.
"""

from __future__ import annotations

import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from hushmeter.errors import DataError

Receive = Callable[[str, bytes], None]
POLL_S = 0.2
"""Time between two looks at a file that grows [s]."""

LONGEST_LINE = 1 << 16
"""Longest line of a table [bytes]."""


class Source(ABC):
    """A source of messages."""

    def __init__(self) -> None:
        self.finished = threading.Event()
        self.error: BaseException | None = None

    @abstractmethod
    def start(self, receive: Receive, lost: Callable[[str], None]) -> None:
        """Begin to call `receive`; return at once."""

    @abstractmethod
    def stop(self) -> None:
        """Stop; `receive` is not called any more after this returns."""


class LineSource(Source):
    """Lines of standard input or of a file that may grow.

    Parameters
    ----------
    path : Path or None
        The file; None for standard input.
    follow : bool
        Wait for more lines at the end of the file. A file that was replaced is read again.
    header : bool
        True if the first line may hold names of columns; it is then left out.
    """

    def __init__(self, path: Path | None, *, follow: bool, header: bool = True) -> None:
        super().__init__()
        if path is not None and not path.is_file():
            raise DataError(f"{path} does not exist; create it, or read standard input with -.")
        self._path, self._follow, self._header = path, follow, header
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, receive: Receive, lost: Callable[[str], None]) -> None:
        """Read in a thread."""
        del lost  # A file keeps its lines, so none is missing.

        def work() -> None:
            try:
                for line in self._lines():
                    receive("", line)
            except BaseException as error:
                self.error = error
            finally:
                self.finished.set()

        self._thread = threading.Thread(target=work, name="hushmeter-lines", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current line; a read of standard input cannot be interrupted."""
        self._stop.set()
        if self._thread is not None and self._path is not None:
            self._thread.join()

    def _lines(self) -> Iterator[bytes]:
        """Yield complete lines without their ends, and without empty lines and the header."""
        if self._path is None:
            yield from self._body(self._complete(sys.stdin.buffer, follow=False))
            return
        while not self._stop.is_set():
            with self._open(self._path) as file:
                yield from self._body(self._complete(file, follow=self._follow))
            if not self._follow:
                return

    @staticmethod
    def _open(path: Path) -> BinaryIO:
        try:
            return path.open("rb")
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}.") from None

    def _body(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        first = self._header
        for line in lines:
            if not line.strip():
                continue
            if first:
                first = False
                if not any(49 <= byte <= 57 for byte in line):
                    continue
            yield line

    def _complete(self, file: BinaryIO, *, follow: bool) -> Iterator[bytes]:
        """Yield lines; with `follow`, a line counts only when its end has been written."""
        rest = b""
        while not self._stop.is_set():
            part = file.readline(LONGEST_LINE)
            if not part:
                if not follow:
                    if rest:
                        yield rest
                    return
                if self._path is not None and self._replaced(file):
                    return
                self._stop.wait(POLL_S)
                continue
            rest += part
            if rest.endswith(b"\n") or len(rest) > LONGEST_LINE:
                yield rest.rstrip(b"\r\n")
                rest = b""

    def _replaced(self, file: BinaryIO) -> bool:
        """True if the file was cut or another file has its name now."""
        assert self._path is not None
        try:
            now = self._path.stat()
        except OSError:
            return False
        then = os.fstat(file.fileno())
        return (now.st_ino, now.st_dev) != (then.st_ino, then.st_dev) or now.st_size < file.tell()


def open_source(place: str, payload: str, *, follow: bool, stream: str) -> Source:
    """Return the source at a place.

    Parameters
    ----------
    place : str
        "-", or the path of a file.
    payload : str
        Kind of the payloads; a table may have a header.
    follow : bool
        Wait for more at the end of a file.
    stream : str
        Name of the stream, by which a broker knows this client.

    Returns
    -------
    Source

    Raises
    ------
    InputError
        If the place has an unknown form.
    """
    del stream
    if place == "-":
        return LineSource(None, follow=False, header=payload == "csv")
    return LineSource(Path(place), follow=follow, header=payload == "csv")
