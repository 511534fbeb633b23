"""The durable state of a stream in one SQLite file.

Everything that is published is committed to the disk first: the mean of a window, the key and the
number of the draw of its noise, the protected value, and the exact text of every message. After a
crash a window is therefore published with the value that was committed, or, if nothing was
committed, it was never published. A window has one row, so it gets noise once.

Keys come from the operating system. Each start of the process, and each day, begins a new key. The
same draw can then not be used for two windows, even if somebody restores the file from an old copy.
The keys of a day are destroyed after its last window, and the means of the windows after
`KEPT_DAYS` days (with `secure_delete`, so that they do not remain in the file).

The file belongs to one process at a time, which holds a lock until it ends, however it ends.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from filelock import FileLock, Timeout

from hushmeter.errors import DataError

SCHEMA = "hushmeter-live-1"
KEPT_DAYS = 40
"""Days after which means and delivered messages are deleted; a month is complete before."""

_TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE keys (id INTEGER PRIMARY KEY AUTOINCREMENT, day TEXT NOT NULL, key BLOB NOT NULL);
CREATE TABLE windows (
    number INTEGER PRIMARY KEY, day TEXT NOT NULL, share REAL NOT NULL, mean REAL,
    key INTEGER, draw INTEGER, value REAL, UNIQUE (key, draw)
);
CREATE INDEX windows_of_day ON windows (day);
CREATE TABLE items (
    id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, label TEXT NOT NULL,
    due INTEGER NOT NULL, message TEXT NOT NULL, UNIQUE (kind, label)
);
CREATE TABLE deliveries (sink TEXT PRIMARY KEY, last INTEGER NOT NULL);
CREATE TABLE days (day TEXT PRIMARY KEY, granted INTEGER NOT NULL, reason TEXT);
CREATE TABLE checkpoint (one INTEGER PRIMARY KEY CHECK (one = 1), at INTEGER, content BLOB);
"""


@dataclass(frozen=True)
class WindowRow:
    """One committed window.

    Attributes
    ----------
    number : int
        Number of the window since 1970.
    day : str
        Civil day in which it starts.
    share : float
        Share of the readings that are present.
    mean : float or None
        Mean before noise [W]; private. None without noise, or after it was deleted.
    key, draw : int or None
        Number of the key in the state, and of the draw of the noise.
    value : float or None
        The protected value [W]; None if the window has too few readings or no budget.
    """

    number: int
    day: str
    share: float
    mean: float | None
    key: int | None
    draw: int | None
    value: float | None


@dataclass(frozen=True)
class Item:
    """One message to publish.

    Attributes
    ----------
    kind : {"window", "day", "month", "status"}
    label : str
        What it is about: a time, a day, a month.
    due : int
        Time of its publication [ns since 1970].
    message : dict
        The message.
    id : int
        Number in the order of publication; 0 before it is committed.
    """

    kind: str
    label: str
    due: int
    message: Mapping[str, Any]
    id: int = 0


class State:
    """The state of one stream; a context manager that holds the lock of the file.

    Parameters
    ----------
    path : str or Path
        The SQLite file; it is made if it does not exist. Only its owner may read it.
    terms : dict
        The public terms of the stream. A state that was begun with other terms is refused.

    Raises
    ------
    DataError
        If another process uses the state, it belongs to other terms, or it cannot be written.
    """

    def __init__(self, path: str | Path, terms: Mapping[str, Any]) -> None:
        self.path = Path(path)
        self._lock = _lock(self.path)
        try:
            with _one_sentence(self.path):
                self._db = _connect(self.path)
                if not self._db.execute("SELECT 1 FROM sqlite_master").fetchone():
                    self._create(terms)
            self._check(terms)
            self._sign()
        except BaseException:
            self._lock.release()
            raise
        self._own_keys: dict[str, tuple[int, int]] = {}

    def __enter__(self) -> State:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and release the lock."""
        self._db.close()
        self._lock.release()

    def _create(self, terms: Mapping[str, Any]) -> None:
        facts = {
            "schema": SCHEMA,
            "terms": json.dumps(terms, sort_keys=True),
            "release": f"live-{secrets.token_hex(8)}",
            # Nobody can test guesses of the readings against a digest in the ledger.
            "ledger_digest": secrets.token_hex(32),
        }
        with self._transaction():
            for statement in _TABLES.strip().split(";\n"):
                self._db.execute(statement)
            self._db.executemany("INSERT INTO facts VALUES (?, ?)", facts.items())

    def _sign(self) -> None:
        """Write the number of this process, so that another one can name it."""
        with _one_sentence(self.path), self._transaction():
            self._db.execute("INSERT OR REPLACE INTO facts VALUES ('process', ?)", (os.getpid(),))

    def _check(self, terms: Mapping[str, Any]) -> None:
        """Refuse a file of another kind or of another stream."""
        if self.fact("schema") != SCHEMA:
            raise DataError(f"{self.path} is not the state of a stream; choose another --state.")
        if self.fact("terms") != json.dumps(terms, sort_keys=True):
            raise DataError(
                f"{self.path} was begun with other options (unit, noise, window, time zone or "
                "name); start with the same options, or begin another stream with a new --state."
            )

    def fact(self, name: str) -> str | None:
        """Return a fact about the stream, such as "release", its identity in the ledger."""
        try:
            row = self._db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        except sqlite3.DatabaseError:
            return None
        return None if row is None else str(row[0])

    def last_window(self) -> int | None:
        """Number of the last committed window; None if there is none."""
        found = self._db.execute("SELECT max(number) FROM windows").fetchone()[0]
        return None if found is None else int(found)

    def windows(self, first: int, last: int) -> list[WindowRow]:
        """Return the committed windows from one number to another, both included."""
        rows = self._db.execute(
            "SELECT * FROM windows WHERE number BETWEEN ? AND ? ORDER BY number", (first, last)
        )
        return [WindowRow(*row) for row in rows]

    def windows_of(self, day: str) -> list[WindowRow]:
        """Return the committed windows of a civil day, or of a month such as "2024-03"."""
        rows = self._db.execute(
            "SELECT * FROM windows WHERE day BETWEEN ? AND ? ORDER BY number", (day, f"{day}~")
        )
        return [WindowRow(*row) for row in rows]

    def next_draw(self, day: str, new_key: Callable[[], bytes], *, again: bool) -> tuple[int, int]:
        """Return the number of the key for a window of this day, and of its next unused draw.

        Parameters
        ----------
        day : str
            Civil day of the window.
        new_key : callable
            Makes a key of 32 bytes.
        again : bool
            True for a simulation, which goes on with the key of an earlier process.
        """
        if day not in self._own_keys:
            found = None
            if again:
                found = self._db.execute("SELECT id FROM keys WHERE day = ?", (day,)).fetchone()
            if found is None:
                with self._transaction():
                    self._db.execute("INSERT INTO keys (day, key) VALUES (?, ?)", (day, new_key()))
                    found = self._db.execute("SELECT max(id) FROM keys").fetchone()
            used = self._db.execute(
                "SELECT max(draw) FROM windows WHERE key = ?", found
            ).fetchone()[0]
            self._own_keys = {day: (int(found[0]), 0 if used is None else used + 1)}
        return self._own_keys[day]

    def key(self, number: int) -> bytes:
        """Return a key by its number; raise `DataError` if it was destroyed."""
        row = self._db.execute("SELECT key FROM keys WHERE id = ?", (number,)).fetchone()
        if row is None:
            raise DataError(f"key {number} of {self.path} was destroyed after its day.")
        return bytes(row[0])

    def commit(self, window: WindowRow, items: list[Item], checkpoint: bytes, at: int) -> None:
        """Commit a window, the messages about it and the open windows in one transaction.

        Parameters
        ----------
        window : WindowRow
        items : list of Item
            Messages, in the order of publication.
        checkpoint : bytes
            The windows that are still open.
        at : int
            Time of the checkpoint [ns since 1970].

        Raises
        ------
        DataError
            If the disk is full or cannot be written. Nothing may be published then.
        """
        with _one_sentence(self.path), self._transaction():
            self._db.execute(
                "INSERT INTO windows VALUES (?, ?, ?, ?, ?, ?, ?)",
                (window.number, window.day, window.share, window.mean, window.key, window.draw,
                 window.value),
            )  # fmt: skip
            self._insert_items(items)
            self._put_checkpoint(checkpoint, at)
        if window.key is not None and window.draw is not None:
            self._own_keys[window.day] = (window.key, window.draw + 1)

    def add_items(self, items: list[Item]) -> None:
        """Commit messages that do not belong to a window; one that exists is left as it is."""
        with _one_sentence(self.path), self._transaction():
            self._insert_items(items)

    def _insert_items(self, items: list[Item]) -> None:
        self._db.executemany(
            "INSERT OR IGNORE INTO items (kind, label, due, message) VALUES (?, ?, ?, ?)",
            [(i.kind, i.label, i.due, json.dumps(i.message)) for i in items],
        )

    def undelivered(self, sink: str, now_ns: int, limit: int = 1000) -> list[Item]:
        """Return the messages that are due and were not delivered to a sink, in their order."""
        rows = self._db.execute(
            "SELECT kind, label, due, message, id FROM items WHERE id > "
            "coalesce((SELECT last FROM deliveries WHERE sink = ?), 0) AND due <= ? "
            "ORDER BY id LIMIT ?",
            (sink, now_ns, limit),
        )
        return [Item(kind, label, due, json.loads(text), n) for kind, label, due, text, n in rows]

    def next_due(self, now_ns: int) -> int | None:
        """Return when the next message becomes due after now [ns since 1970], if there is one."""
        row = self._db.execute("SELECT min(due) FROM items WHERE due > ?", (now_ns,)).fetchone()
        return None if row[0] is None else int(row[0])

    def mark_delivered(self, sink: str, item: Item) -> None:
        """Record that a sink has a message and every earlier one."""
        with _one_sentence(self.path), self._transaction():
            self._db.execute(
                "INSERT INTO deliveries VALUES (?, ?) ON CONFLICT (sink) DO UPDATE SET last = ?",
                (sink, item.id, item.id),
            )

    def payment(self, day: str) -> tuple[bool, str] | None:
        """Return whether the ledger granted a day, and its reason if not; None if unknown."""
        row = self._db.execute("SELECT granted, reason FROM days WHERE day = ?", (day,)).fetchone()
        return None if row is None else (bool(row[0]), str(row[1] or ""))

    def record_payment(self, day: str, granted: bool, reason: str) -> None:
        """Keep the answer of the ledger for a UTC day."""
        with _one_sentence(self.path), self._transaction():
            self._db.execute("INSERT OR REPLACE INTO days VALUES (?, ?, ?)", (day, granted, reason))

    def checkpoint(self) -> tuple[int, bytes] | None:
        """Return the time and the content of the last checkpoint."""
        row = self._db.execute("SELECT at, content FROM checkpoint").fetchone()
        return None if row is None else (int(row[0]), bytes(row[1]))

    def save_checkpoint(self, content: bytes, at: int) -> None:
        """Commit the windows that are still open."""
        with _one_sentence(self.path), self._transaction():
            self._put_checkpoint(content, at)

    def _put_checkpoint(self, content: bytes, at: int) -> None:
        self._db.execute("INSERT OR REPLACE INTO checkpoint VALUES (1, ?, ?)", (at, content))

    def forget(self, day: str, before: str) -> None:
        """Destroy what is not needed any more after the end of a day.

        Parameters
        ----------
        day : str
            The day that ended; its keys and those of earlier days are destroyed.
        before : str
            Windows of earlier days lose their means, and their delivered messages are deleted.
        """
        with _one_sentence(self.path), self._transaction():
            self._db.execute("DELETE FROM keys WHERE day <= ?", (day,))
            self._db.execute(
                "DELETE FROM items WHERE id <= (SELECT coalesce(min(last), 0) FROM deliveries) "
                "AND id < (SELECT coalesce(min(id), 0) FROM items WHERE label >= ? AND "
                "kind = 'window')",
                (before,),
            )
            self._db.execute(
                "DELETE FROM windows WHERE day < ? AND number < (SELECT max(number) FROM windows)",
                (before,),
            )
            self._db.execute("DELETE FROM days WHERE day < ?", (before,))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise


def read_state(path: str | Path) -> tuple[dict[str, Any], list[WindowRow]]:
    """Read the terms and the windows of a state while the stream goes on.

    Parameters
    ----------
    path : str or Path
        The state.

    Returns
    -------
    dict
        The public terms.
    list of WindowRow
        All windows that are kept.

    Raises
    ------
    DataError
        If the file does not exist or is not a state.
    """
    file = Path(path)
    if not file.is_file():
        raise DataError(f"{file} does not exist; start the stream with --state {file} first.")
    with _one_sentence(file), closing(_read_only(file)) as db:
        row = db.execute("SELECT value FROM facts WHERE name = 'terms'").fetchone()
        rows = db.execute("SELECT * FROM windows ORDER BY number").fetchall()
    if row is None:
        raise DataError(f"{file} is not the state of a stream.")
    return json.loads(row[0]), [WindowRow(*fields) for fields in rows]


def _connect(path: Path) -> sqlite3.Connection:
    """Open the database; a commit is on the disk before it returns."""
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30.0)
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON"):
        db.execute(f"PRAGMA {pragma}")
    return db


def _lock(path: Path) -> FileLock:
    """Take the lock of a state, or raise `DataError` with the process that holds it."""
    # A lock that is only a file with a name would outlive a killed process.
    lock = FileLock(path.with_name(f"{path.name}.lock"), mode=0o600, fallback_to_soft=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # The state holds the means of windows, so only its owner may read it.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        lock.acquire(blocking=False)
    except Timeout:
        raise DataError(
            f"{path} is in use by process {_owner(path)}: two processes would publish the same "
            "window twice; stop that process, or choose another --state."
        ) from None
    except OSError as error:
        raise DataError(f"{path} cannot be used: {error.strerror}.") from None
    return lock


def _owner(path: Path) -> str:
    """Return the number of the process that uses a state, which it wrote into the state."""
    with suppress(sqlite3.DatabaseError), closing(_read_only(path)) as db:
        row = db.execute("SELECT value FROM facts WHERE name = 'process'").fetchone()
        if row is not None:
            return str(row[0])
    return "unknown"


def _read_only(path: Path) -> sqlite3.Connection:
    """Open a state that another process may use."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


@contextmanager
def _one_sentence(path: Path) -> Iterator[None]:
    """Turn an error of the database into one sentence."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise DataError(
            f"{path} cannot be used: {error}; nothing was published that is not in it."
        ) from None
