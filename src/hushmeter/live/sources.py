"""Sources of readings: standard input, a growing file and P1 ports; `mqtt` has that of MQTT.

A source calls, from a thread of its own, `receive` with a topic (or "") and the bytes of one
message, `back` when it is connected to the meter, and `lost` when it is not connected any more.
`receive` is called by one thread at a time; it returns when the message is processed, so a source
never has to keep messages. `back` and `lost` follow from the connection and from no message.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from hushmeter.errors import DataError, InputError, MissingExtraError

Receive = Callable[[str, bytes], None]
Lost = Callable[[str], None]
Back = Callable[[], None]
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
    def start(self, receive: Receive, lost: Lost, back: Back) -> None:
        """Begin to call `receive`, `lost` and `back`; return at once."""

    @abstractmethod
    def stop(self) -> None:
        """Stop; `receive` is not called any more after this returns."""


class ThreadSource(Source):
    """A source that reads in a thread of its own until it ends or is stopped."""

    def __init__(self) -> None:
        super().__init__()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @abstractmethod
    def work(self, receive: Receive, lost: Lost, back: Back) -> None:
        """Read until the end, or until `_stop` is set."""

    def start(self, receive: Receive, lost: Lost, back: Back) -> None:
        """Read in a thread."""

        def run() -> None:
            try:
                self.work(receive, lost, back)
            except BaseException as error:
                self.error = error
            finally:
                self.finished.set()

        self._thread = threading.Thread(target=run, name="hushmeter-source", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current message."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()


class LineSource(ThreadSource):
    """Lines of standard input, if there is no path, or of a file.

    With `follow` it waits for more lines at the end of the file, and a file that was replaced is
    read again. With `header` the first line is left out if it has names of columns.
    """

    def __init__(self, path: Path | None, *, follow: bool, header: bool = True) -> None:
        super().__init__()
        if path is not None and not path.is_file():
            raise DataError(f"{path} does not exist; create it, or read standard input with -.")
        self._path, self._follow, self._header = path, follow, header

    def work(self, receive: Receive, lost: Lost, back: Back) -> None:
        """Read lines."""
        del lost  # A file keeps its lines, so none is missing.
        back()
        for line in self._lines():
            receive("", line)

    def read_all(self) -> Iterator[bytes]:
        """Yield the lines that a file has now; none of standard input."""
        if self._path is not None:
            with self._open(self._path) as file:
                yield from self._body(self._complete(file, follow=False))

    def stop(self) -> None:
        """Stop after the current line; a read of standard input cannot be interrupted."""
        if self._path is not None:
            super().stop()
        self._stop.set()

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


P1_SETTINGS: dict[str, dict[str, Any]] = {
    "2": {"baudrate": 9600, "bytesize": 7, "parity": "E"},
    "4": {"baudrate": 115_200, "bytesize": 7, "parity": "E"},
    "5": {"baudrate": 115_200, "bytesize": 8, "parity": "N"},
}
"""Settings of the serial port for the versions of DSMR."""

RECONNECT_S = 5.0
"""Time after which a lost port is opened again [s]."""

LONGEST_TELEGRAM = 1 << 16
"""Bytes without a complete telegram after which they are thrown away."""


class TelegramSource(ThreadSource):
    """DSMR telegrams of a P1 port: the path of a serial port, or HOST:PORT of a bridge over TCP.

    The version of DSMR (2, 4 or 5) decides the settings of the serial port.
    """

    def __init__(self, device: str, *, tcp: bool, version: str = "5") -> None:
        super().__init__()
        if version not in P1_SETTINGS:
            raise InputError(f"version of DSMR must be 2, 4 or 5, got {version!r}.")
        host, _, port = device.rpartition(":")
        if tcp and not (host and port.isdecimal()):
            raise InputError(f"a bridge is given as dsmr+tcp://HOST:PORT, got {device!r}.")
        try:
            from dsmr_parser.clients.telegram_buffer import TelegramBuffer
        except ImportError:
            raise MissingExtraError("a P1 port", "live") from None
        self._new_buffer = TelegramBuffer
        self._device, self._tcp, self._version = device, tcp, version

    def work(self, receive: Receive, lost: Lost, back: Back) -> None:
        """Read telegrams; a port that is lost is opened again."""
        while not self._stop.is_set():
            try:
                self._read(receive, back)
                reason = "it was closed"
            except OSError as error:
                reason = error.strerror or "no answer"
            if not self._stop.is_set():
                lost(f"the port {self._device} is lost ({reason}); it is opened again.")
                self._stop.wait(RECONNECT_S)

    def _read(self, receive: Receive, back: Back) -> None:
        """Read telegrams until the port is closed."""
        buffer, waiting = self._new_buffer(), 0
        with self._open() as port:
            back()
            while not self._stop.is_set():
                part = self._next_part(port)
                if part is None:
                    return
                buffer.append(part.decode("latin-1"))
                waiting += len(part)
                for telegram in buffer.get_all():
                    waiting = 0
                    receive("", telegram.encode("latin-1"))
                if waiting > LONGEST_TELEGRAM:
                    buffer, waiting = self._new_buffer(), 0

    def _open(self) -> Any:
        """Open the port; reads end after a second at the latest."""
        if self._tcp:
            host, _, port = self._device.rpartition(":")
            return socket.create_connection((host.strip("[]"), int(port)), timeout=1.0)
        import serial

        return serial.Serial(self._device, timeout=1.0, **P1_SETTINGS[self._version])

    def _next_part(self, port: Any) -> bytes | None:
        """Return the bytes that have come, b"" if there are none yet, None at the end."""
        if not self._tcp:
            return bytes(port.read(max(1, port.in_waiting)))
        try:
            return port.recv(1 << 14) or None
        except TimeoutError:
            return b""
