"""Sinks of protected values: a folder with one file a day, and HTTP; `mqtt` has that of MQTT.

A sink gets the messages in their order. It may get a message twice after a crash, always with the
same content, so every sink must give the same result then.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from hushmeter.errors import DataError, InputError
from hushmeter.files import atomic, json_text
from hushmeter.live.state import Item, State, WindowRow
from hushmeter.live.stream import Terms
from hushmeter.write import meter_bytes

FORMATS = ("csv", "parquet")


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
                release.save(self.folder / name, force=True)
                summary["receipt"] = release.receipt.to_dict()
            elif item.kind == "day":
                summary["receipt"] = self._terms.receipt_of(rows).to_dict()
        self._write(f"{item.label}.summary.json", json_text(summary).encode())

    def _write(self, name: str, content: bytes) -> None:
        with atomic(self.folder / name, force=True, public=True) as temporary:
            temporary.write_bytes(content)


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


TOKEN = "HUSHMETER_HTTP_TOKEN"
"""Environment variable with a bearer token for a receiver over HTTP."""

HTTP_WAIT_S = 10.0


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
        # Parameters of the URL may be secrets, so they are neither kept nor printed.
        self._shown = f"{parts.scheme}://{parts.netloc}{parts.path}"
        super().__init__(f"http {self._shown}")

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
        except (OSError, ValueError):
            raise SinkError(f"{self._shown} cannot be reached; values wait for it.") from None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the token and the values to a place that nobody named."""

    def redirect_request(self, *_: Any) -> None:
        """Follow no redirect; it becomes an error with its code."""


_OPENER = urllib.request.build_opener(_NoRedirect)


def message_text(item: Item) -> str:
    """Return a message as one line of JSON."""
    return json.dumps({"kind": item.kind, **item.message}, ensure_ascii=False)
