"""Where readings come from and where protected values go: files, P1 ports and HTTP.

`open_source` and `open_sink` find what an address of the command line means; `mqtt` has the source
and the sink of MQTT.

A *source* calls, from a thread of its own, `receive` with a topic (or "") and the bytes of one
message, `back` when it is connected to the meter, and `lost` when it is not connected any more.
`receive` is called by one thread at a time; it returns when the message is processed, so a source
never has to keep messages. `back` and `lost` follow from the connection and from no message.

A *sink* gets the messages in their order, in a thread of its own, so that none waits for another.
It may get a message twice after a crash, always with the same content, so every sink must give the
same result then.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import socket
import sys
import threading
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import parse_qs, urlsplit

import numpy as np

from hushmeter.apps.live.payloads import Parser, preview
from hushmeter.apps.live.state import Item, State, WindowRow
from hushmeter.apps.live.stream import Terms
from hushmeter.checks import IntArray
from hushmeter.errors import DataError, InputError, MissingExtraError
from hushmeter.files import json_text, one_sentence, replace_together, write_bytes
from hushmeter.releases.files import private_path, release_contents
from hushmeter.write import meter_bytes

Receive = Callable[[str, bytes], None]
Lost = Callable[[str], None]
Back = Callable[[], None]
POLL_S = 0.2
"""Time between two looks at a file that grows [s]."""

LONGEST_LINE = 1 << 16
"""Longest line of a table [bytes]."""

P1_SETTINGS: dict[str, dict[str, Any]] = {
    "2": {"baudrate": 9600, "bytesize": 7, "parity": "E"},
    "4": {"baudrate": 115_200, "bytesize": 7, "parity": "E"},
    "5": {"baudrate": 115_200, "bytesize": 8, "parity": "N"},
}
"""Settings of the serial port for the versions of DSMR."""

RECONNECT_S = 5.0
"""Time after which a lost port is opened again [s]."""

LONGEST_TELEGRAM = 1 << 16
"""Number of bytes without a complete telegram after which they are discarded."""

FORMATS = ("csv", "parquet")

TOKEN = "HUSHMETER_HTTP_TOKEN"
"""Environment variable with a bearer token for a receiver over HTTP."""

HTTP_WAIT_S = 10.0
"""Longest time of a whole request, from the connection to the answer [s]."""


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
        with one_sentence(path, "read"):
            return path.open("rb")

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


class TelegramSource(ThreadSource):
    """DSMR telegrams of a P1 port: the path of a serial port, or HOST:PORT of a bridge over TCP.

    The version of DSMR (2, 4 or 5) decides the settings of the serial port.
    """

    def __init__(self, device: str, *, tcp: bool, version: str = "5") -> None:
        super().__init__()
        if version not in P1_SETTINGS:
            raise InputError(f"version of DSMR must be 2, 4 or 5, got {version!r}.")
        host, _, port = device.rpartition(":")
        if tcp and not (host and port.isdecimal() and int(port) < 1 << 16):
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
            except Exception as error:
                # The parts of a telegram are put together by another library.
                reason = type(error).__name__
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


class SinkError(Exception):
    """A sink could not take a message; it is tried again later."""


class Sink(ABC):
    """A place to which protected values are published.

    By its name the state remembers what the sink has got, so it must not contain a password.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def open(self) -> None:  # noqa: B027
        """Prepare for `publish`."""

    def published_until(self) -> int | None:
        """Return the end of the last window that the sink has [ns since 1970], if it knows one.

        Raises `SinkError` if that cannot be said now.
        """
        return None

    def accept(self) -> None:  # noqa: B027
        """Take the news that the state knows every window of the sink."""

    @abstractmethod
    def publish(self, item: Item) -> None:
        """Take one message; raise `SinkError` if that is not possible now."""

    def close(self) -> None:  # noqa: B027
        """Finish."""


class FolderSink(Sink):
    """One file of released readings for every civil day, and one release for every period.

    DAY.csv grows with every window. If the windows alone are published, a day is a release: when it
    has ended, DAY.csv has its receipt beside it, as `hushmeter release` writes it. Otherwise a
    month is a release: when it has ended, the folder MONTH has all tables and their receipt.
    `hushmeter verify` checks either. DAY.summary.json and MONTH.summary.json have the messages, and
    status.json has the last message about the stream.
    """

    def __init__(
        self, folder: str | Path, terms: Terms, state: State, *, kind: str = "csv"
    ) -> None:
        self.folder = Path(folder)
        super().__init__(f"folder {self.folder.absolute()} {kind}")
        if kind not in FORMATS:
            raise InputError(f"--file-format must be csv or parquet, got {kind!r}.")
        if self.folder.exists() and not self.folder.is_dir():
            raise DataError(f"{self.folder} is a file; give a folder for the files of the days.")
        self._terms, self._state, self._kind = terms, state, kind

    def published_until(self) -> int | None:
        """Return the end of the last window in the file of the last day [ns since 1970]."""
        days = sorted(self.folder.glob(f"[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9].{self._kind}"))
        if not days:
            return None
        return _last_time(days[-1]) + self._terms.window_ns

    def publish(self, item: Item) -> None:
        """Write the files that a message changes."""
        try:
            if item.kind == "window":
                day = str(item.message["day"])
                rows = self._rows(day, str(item.message["start"]))
                if rows and item.message["watts"] is not None:
                    content = meter_bytes(self._terms.values_of(rows), self._kind)
                    self._write(f"{day}.{self._kind}", content)
            elif item.kind == "status":
                self._write("status.json", json_text(dict(item.message)).encode())
            elif item.kind in ("day", "month"):
                self._write_summary(item)
            # Other tables are files in the folder of the month.
        except DataError as error:
            raise SinkError(str(error)) from None

    def _rows(self, day: str, until: str) -> list[WindowRow]:
        """Windows of a day with a value, up to the one that is published now."""
        last = np.datetime64(until.rstrip("Z"), "ns")
        rows = [row for row in self._state.windows_of(day) if row.value is not None]
        return [row for row in rows if self._terms.start_of(row.number) <= last]

    def _write_summary(self, item: Item) -> None:
        """Write the message about a day or a month, and the release that ends with it."""
        summary = {"stream": self._terms.name, **item.message}
        rows = self._rows(item.label, str(item.message["end"]))
        # The first windows of a month may be forgotten if a folder is added to an old stream.
        if rows and len(rows) == item.message["windows"]:
            if self._terms.by_month == (item.kind == "month"):
                release = self._terms.release_of(rows, self._state.sums_of(item.label))
                name = item.label if self._terms.by_month else f"{item.label}.{self._kind}"
                # The file of the day grew here without a receipt.
                place = self.folder / name
                replace_together(release_contents(release, place), private=[private_path(place)])
                summary["receipt"] = release.receipt.to_dict()
            elif item.kind == "day":
                summary["receipt"] = self._terms.receipt_of(rows).to_dict()
        self._write(f"{item.label}.summary.json", json_text(summary).encode())

    def _write(self, name: str, content: bytes) -> None:
        write_bytes(self.folder / name, content, force=True, public=True)


def _last_time(path: Path) -> int:
    """Return the last time in a file that `meter_bytes` wrote [ns since 1970]."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    try:
        table = csv.read_csv(path) if path.suffix == ".csv" else parquet.read_table(path)
        times = table["timestamp"].cast(pa.timestamp("ns", tz="UTC")).cast(pa.int64())
        return int(max(times.to_pylist()))
    except (pa.ArrowException, OSError, KeyError, ValueError):
        raise DataError(
            f"{path} is not a file of a stream; choose another folder for --to."
        ) from None


class HttpSink(Sink):
    """One POST request with a JSON document for every message.

    The header Idempotency-Key is the same whenever a message is sent again, so that a receiver can
    recognise it. A token in the environment variable HUSHMETER_HTTP_TOKEN is sent as a bearer
    token.
    """

    def __init__(self, url: str, terms: Terms) -> None:
        parts = urlsplit(url)
        if parts.username or parts.password:
            raise InputError(f"give the token in the environment variable {TOKEN}, not in the URL.")
        self._url, self._terms = url, terms
        # Parameters of the URL may be secrets, so only a digest tells receivers apart by them.
        self._shown = f"{parts.scheme}://{parts.netloc}{parts.path}"
        digest = hashlib.sha256(parts.query.encode()).hexdigest()
        super().__init__(f"http {self._shown}" + (f" {digest[:8]}" if parts.query else ""))

    def publish(self, item: Item) -> None:
        """Send a message; every answer other than 2xx is a failure."""
        body = json.dumps({"stream": self._terms.name, "kind": item.kind, **item.message})
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": f"{self._terms.name}/{item.kind}/{item.label}",
        }
        if token := os.environ.get(TOKEN):
            headers["Authorization"] = f"Bearer {token}"
        request = urllib.request.Request(self._url, body.encode(), headers, method="POST")
        try:
            with _OPENER.open(request, timeout=HTTP_WAIT_S):
                pass
        except urllib.error.HTTPError as error:
            error.close()
            if 300 <= error.code < 400:
                raise SinkError(
                    f"{self._shown} sends to another place, and the token must not go there; give "
                    "the URL of that place in --to. Values wait for it."
                ) from None
            raise SinkError(f"{self._shown} answers {error.code}; values wait for it.") from None
        except (OSError, ValueError, http.client.HTTPException):
            raise SinkError(
                f"{self._shown} does not answer within {HTTP_WAIT_S:g} s; values wait for it."
            ) from None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the token and the values to a place that nobody named."""

    def redirect_request(self, *_: Any) -> None:
        """Follow no redirect; it becomes an error with its code."""


class _InTime(http.client.HTTPConnection):
    """A connection that is cut after `HTTP_WAIT_S`, also if a byte comes every second."""

    def connect(self) -> None:
        """Connect, and let the time run."""
        self._timer = threading.Timer(HTTP_WAIT_S, self._cut)
        self._timer.daemon = True
        self._timer.start()
        super().connect()
        if self._late:
            # There was nothing to cut while the name of the host was looked up.
            raise TimeoutError

    def getresponse(self) -> http.client.HTTPResponse:
        """Return the answer, and stop the time."""
        try:
            response = super().getresponse()
        finally:
            self._timer.cancel()
        if self._late:
            # What had come of the headers looks like a complete answer.
            raise TimeoutError
        return response

    _late = False

    def _cut(self) -> None:
        self._late = True
        with suppress(OSError):
            if self.sock is not None:
                self.sock.shutdown(socket.SHUT_RDWR)


class _InTimeTls(_InTime, http.client.HTTPSConnection):
    """The same with TLS."""


class _InTimeHandler(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Opens http:// and https:// with connections that are cut in time."""

    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        """Open http://."""
        return self.do_open(_InTime, request)

    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        """Open https://."""
        return self.do_open(_InTimeTls, request)


_OPENER = urllib.request.build_opener(_NoRedirect, _InTimeHandler)


def open_source(
    place: str, payload: str, terms: Terms, *, follow: bool, online: str | None = None
) -> Source:
    """Return the source at a place.

    It is mqtt://HOST/TOPIC, mqtts://…, dsmr:///dev/ttyUSB0, dsmr+tcp://HOST:PORT, the path of a
    file, or "-" for standard input. `?version=4` chooses the version of DSMR, `follow` waits for
    more at the end of a file, and `online` is a topic that says whether the meter is connected.
    """
    from hushmeter.apps.live.mqtt import PORTS, MqttSource, parse_mqtt

    scheme = _scheme(place)
    if scheme in PORTS:
        return MqttSource(parse_mqtt(place), terms, payload, online=online)
    if online is not None:
        raise InputError("--online is a topic of the broker of a source mqtt://….")
    if scheme in ("dsmr", "dsmr+tcp"):
        parts = urlsplit(place)
        version = parse_qs(parts.query).get("version", ["5"])[-1]
        tcp = scheme == "dsmr+tcp"
        return TelegramSource(parts.netloc if tcp else parts.path, tcp=tcp, version=version)
    if scheme:
        raise InputError(
            f"a source begins with mqtt://, mqtts://, dsmr:// or dsmr+tcp://, not {scheme}://."
        )
    path = None if place == "-" else Path(place)
    return LineSource(path, follow=follow and path is not None, header=payload == "csv")


def read_times(path: str, payload: str, parse: Parser, *, grows: bool = False) -> IntArray | None:
    """Return the times of all rows of a file that ends; see `payloads.preview`.

    Of a file that grows, only the first row is read, if there is one: it tells whether the file has
    the form of a stream, and later rows may be damaged.
    """
    lines = LineSource(Path(path), follow=False, header=payload == "csv").read_all()
    if not grows:
        return preview(lines, parse, path)
    for line in islice(lines, 1):
        preview([line], parse, path)
    return None


def open_sink(
    place: str, terms: Terms, state: State, *, kind: str = "csv", log: Callable[[str], None]
) -> Sink:
    """Return the sink at a place: mqtt(s)://HOST/PREFIX, http(s)://… or a folder."""
    from hushmeter.apps.live.mqtt import PORTS, MqttSink, parse_mqtt

    scheme = _scheme(place)
    if scheme in PORTS:
        return MqttSink(parse_mqtt(place), terms, state, log)
    if scheme in ("http", "https"):
        return HttpSink(place, terms)
    if scheme:
        raise InputError(
            f"--to begins with mqtt://, mqtts://, http:// or https://, not {scheme}://."
        )
    return FolderSink(place, terms, state, kind=kind)


def _scheme(place: str) -> str:
    """Return the scheme of a URL, or "" for a path."""
    return place.partition("://")[0].lower() if "://" in place else ""
