"""The durable state of a stream in one SQLite file.

Everything that is published is committed to the disk first: the mean of a window, the protected
value, and the exact text of every message. After a crash a window is therefore published with the
value that was committed, or, if nothing was committed, it was never published.

Each period (a day, or a month if more than the windows is published) has a key from the operating
system. The noise of a sum depends on the key, its label and its exact value alone
(`Promise.release`), so that two sums never share noise, even if somebody restores the file from an
old copy. The key of a period is destroyed after its last window, and the means of the windows after
`KEPT_DAYS` days (with `secure_delete`, so that they do not remain in the file).

The file belongs to one process at a time, which holds a lock until it ends, however it ends. All
threads of the process share one connection, which one of them uses at a time.

*Old copies.* A state that was restored from an older copy would publish windows again with other
noise. The number of the last published window is therefore kept in other places too, before it is
published: in the file STATE.last beside the state, and in the ledger if there is one. A state that
does not know this window is refused.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushmeter.errors import DataError
from hushmeter.files import DAMAGED, make_folder, one_sentence, take_lock, write_text

if TYPE_CHECKING:
    from filelock import FileLock

SCHEMA = "hushmeter-live-5"
NONE_YET = -1
"""Number of the last published window before the first one."""

KEPT_DAYS = 40
"""Days after which means and delivered messages are deleted; a month is complete before."""

_TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE keys (period TEXT PRIMARY KEY, key BLOB NOT NULL);
CREATE TABLE windows (
    number INTEGER PRIMARY KEY, day TEXT NOT NULL, share REAL NOT NULL, mean REAL,
    value REAL, steps INTEGER
);
CREATE INDEX windows_of_day ON windows (day);
CREATE TABLE sums (
    name TEXT NOT NULL, label TEXT NOT NULL, steps INTEGER NOT NULL, PRIMARY KEY (name, label)
);
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
    """One committed window."""

    number: int  # Number of the window since 1970
    day: str  # Civil day in which it starts
    share: float  # Share of the readings that are present
    mean: float | None = None  # Mean before noise [W]; private. None without noise
    # The protected value [W]; None if the window has too few readings or no budget
    value: float | None = None
    steps: int | None = None  # The noisy cell [grid steps], in which missing readings count as zero


@dataclass(frozen=True)
class SumRow:
    """One committed sum of a table [grid steps]; its label begins with its day or month."""

    table: str
    label: str
    steps: int


@dataclass(frozen=True)
class Item:
    """One message to publish: a kind, what it is about, when it is due [ns since 1970], its text.

    The kind is "window", "day", "month", "status" or the name of another table. The number in the
    order of publication is 0 before it is committed.
    """

    kind: str
    label: str
    due: int
    message: Mapping[str, Any]
    id: int = 0

    @property
    def text(self) -> str:
        """The message with its kind as one line of JSON."""
        return json.dumps({"kind": self.kind, **self.message}, ensure_ascii=False)


class StaleStateError(DataError):
    """A state does not know a window that was published: it is an older copy, or another one."""


class State(AbstractContextManager["State"]):
    """The state of one stream; a context manager that holds the lock of its SQLite file.

    The file is made if it does not exist, and only its owner may read it. `DataError` is raised if
    another process uses it, it was begun with other public terms, or it cannot be written.
    """

    def __init__(self, path: str | Path, terms: Mapping[str, Any]) -> None:
        self.path = Path(path)
        self._lock = _lock(self.path)
        self._mutex = threading.RLock()
        self._db: sqlite3.Connection = None  # type: ignore[assignment]
        try:
            with _in_database(self.path):
                self._db = _connect(self.path)
                if self._one("SELECT 1 FROM sqlite_master") is None:
                    self._create(terms)
            self._check(terms)
            self._check_last()
            self._sign()
        except BaseException:
            if self._db is not None:
                self._db.close()
            self._lock.release()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and release the lock."""
        with self._mutex:
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
        with self._writing():
            for statement in _TABLES.strip().split(";\n"):
                self._db.execute(statement)
            self._db.executemany("INSERT INTO facts VALUES (?, ?)", facts.items())

    def _sign(self) -> None:
        """Write the number of this process, so that another one can name it."""
        with self._writing():
            self._db.execute("INSERT OR REPLACE INTO facts VALUES ('process', ?)", (os.getpid(),))

    def _check(self, terms: Mapping[str, Any]) -> None:
        """Refuse a file of another kind or of another stream."""
        ours = self._one("SELECT 1 FROM sqlite_master WHERE name = 'facts'")
        if ours is None or self.fact("schema") != SCHEMA:
            raise _other_version(self.path)
        if self.fact("terms") != json.dumps(terms, sort_keys=True):
            raise DataError(
                f"{self.path} was begun with other options (unit, noise, window, time zone or "
                "name); start with the same options, or begin another stream with a new --state."
            )

    def _check_last(self) -> None:
        """Refuse a state that does not know the last published window."""
        last, release = self.last_window(), self.fact("release")
        try:
            kept = json.loads(self._last_path.read_text())
            known, same = int(kept["window"]), kept["release"] == release
        except FileNotFoundError:
            if self.last_value() is None:
                # The file is there before the first value, so that later it can only be lost.
                self.reach(NONE_YET)
                return
            raise StaleStateError(
                f"{self._last_path} is missing, so nobody can say whether {self.path} is the "
                "newest state; copy both files together."
            ) from None
        except (OSError, ValueError, KeyError, TypeError):
            raise DataError(f"{self._last_path} cannot be read; restore it.") from None
        if not same or known > (NONE_YET if last is None else last):
            raise StaleStateError(
                f"{self.path} does not know a window that {self._last_path} says was published: it "
                "is an older copy or another stream, and would publish windows twice; restore the "
                "newest state, or begin another stream with a new --state."
            )

    @property
    def _last_path(self) -> Path:
        """The file with the number of the last published window."""
        real = self.path.resolve()
        return real.with_name(f"{real.name}.last")

    def reach(self, window: int) -> None:
        """Record beside the state, durably, that windows up to a number are published.

        If this raises `DataError`, nothing may be published.
        """
        fields = {"release": self.fact("release"), "window": window}
        write_text(self._last_path, json.dumps(fields), force=True)

    def last_value(self) -> int | None:
        """Number of the last committed window that has a value; None if there is none."""
        return self._one("SELECT max(number) FROM windows WHERE value IS NOT NULL")

    def _rows(self, query: str, *values: Any) -> list[Any]:
        """Return all rows that a query finds."""
        with self._mutex, _in_database(self.path):
            return self._db.execute(query, values).fetchall()

    def _one(self, query: str, *values: Any) -> int | None:
        """Return the one number that a query finds, or None."""
        rows = self._rows(query, *values)
        return None if not rows or rows[0][0] is None else int(rows[0][0])

    def fact(self, name: str) -> str | None:
        """Return a fact about the stream, such as "release", its identity in the ledger."""
        rows = self._rows("SELECT value FROM facts WHERE name = ?", name)
        return str(rows[0][0]) if rows else None

    def last_window(self) -> int | None:
        """Number of the last committed window; None if there is none."""
        return self._one("SELECT max(number) FROM windows")

    def windows(self, first: int, last: int) -> list[WindowRow]:
        """Return the committed windows from one number to another, both included."""
        query = "SELECT * FROM windows WHERE number BETWEEN ? AND ? ORDER BY number"
        return [WindowRow(*row) for row in self._rows(query, first, last)]

    def windows_of(self, day: str) -> list[WindowRow]:
        """Return the committed windows of a civil day, or of a month such as "2024-03"."""
        query = "SELECT * FROM windows WHERE day BETWEEN ? AND ? ORDER BY number"
        return [WindowRow(*row) for row in self._rows(query, day, f"{day}~")]

    def sums_of(self, period: str) -> list[SumRow]:
        """Return the committed sums of a civil day, or of a month and its days."""
        query = "SELECT * FROM sums WHERE label BETWEEN ? AND ? ORDER BY name, label"
        return [SumRow(*row) for row in self._rows(query, period, f"{period}~")]

    def key_of(self, period: str, new_key: Callable[[], bytes]) -> bytes:
        """Return the key of a day or a month, which is made and committed where there is none."""
        rows = self._rows("SELECT key FROM keys WHERE period = ?", period)
        if not rows:
            with self._writing():
                self._db.execute("INSERT INTO keys VALUES (?, ?)", (period, new_key()))
            return self.key_of(period, new_key)
        return bytes(rows[0][0])

    def commit(
        self,
        window: WindowRow,
        items: list[Item],
        checkpoint: bytes,
        at: int,
        sums: Sequence[SumRow] = (),
    ) -> None:
        """Commit a window with its messages and sums, and the windows that are still open.

        `at` is the time of this checkpoint [ns since 1970]. If this raises `DataError`, because
        the disk is full or cannot be written, nothing may be published.
        """
        with self._writing():
            self._db.execute("INSERT INTO windows VALUES (?, ?, ?, ?, ?, ?)", astuple(window))
            self._db.executemany("INSERT INTO sums VALUES (?, ?, ?)", map(astuple, sums))
            self._db.executemany(
                "INSERT OR IGNORE INTO items (kind, label, due, message) VALUES (?, ?, ?, ?)",
                [(i.kind, i.label, i.due, json.dumps(i.message)) for i in items],
            )
            self._put_checkpoint(checkpoint, at)

    def last_item(self) -> int:
        """Number of the last message; 0 if there is none."""
        return self._one("SELECT max(id) FROM items") or 0

    def undelivered(
        self, sink: str, now_ns: int, limit: int = 1000, *, until: int = 1 << 62
    ) -> list[Item]:
        """Return the messages that are due and were not delivered to a sink, in their order.

        `until` is the number of the last message that may be published.
        """
        return self._items(
            "id FROM items WHERE id > coalesce((SELECT last FROM deliveries WHERE sink = ?), 0) "
            "AND due <= ? AND id <= ? ORDER BY id LIMIT ?",
            sink,
            now_ns,
            until,
            limit,
        )

    def last_delivered(self, sink: str) -> list[Item]:
        """Return the last message of each kind that a sink has, in their order."""
        return self._items(
            "max(id) FROM items WHERE id <= (SELECT last FROM deliveries WHERE sink = ?) "
            "GROUP BY kind ORDER BY max(id)",
            sink,
        )

    def _items(self, query: str, *values: Any) -> list[Item]:
        rows = self._rows(f"SELECT kind, label, due, message, {query}", *values)
        with _in_database(self.path, DAMAGED):
            return [
                Item(kind, label, due, json.loads(text), n) for kind, label, due, text, n in rows
            ]

    def last_status(self) -> str | None:
        """Return whether the stream is "publishing" or "ended" by its last message about that."""
        query = "SELECT message FROM items WHERE kind = 'status' ORDER BY id DESC LIMIT 1"
        rows = self._rows(query)
        with _in_database(self.path, DAMAGED):
            return str(json.loads(rows[0][0])["status"]) if rows else None

    def next_due(self, now_ns: int) -> int | None:
        """Return when the next message becomes due after now [ns since 1970], if there is one."""
        return self._one("SELECT min(due) FROM items WHERE due > ?", now_ns)

    def mark_delivered(self, sink: str, item: Item) -> None:
        """Record that a sink has a message and every earlier one."""
        with self._writing():
            self._db.execute(
                "INSERT INTO deliveries VALUES (?, ?) ON CONFLICT (sink) DO UPDATE SET last = ?",
                (sink, item.id, item.id),
            )

    def payment(self, day: str) -> tuple[bool, str] | None:
        """Return whether the ledger granted a day, and its reason if not; None if unknown."""
        rows = self._rows("SELECT granted, reason FROM days WHERE day = ?", day)
        return (bool(rows[0][0]), str(rows[0][1] or "")) if rows else None

    def record_payment(self, day: str, granted: bool, reason: str, *, head: str) -> None:
        """Keep the answer of the ledger for a day, and the end of the ledger after it."""
        with self._writing():
            self._db.execute("INSERT OR REPLACE INTO days VALUES (?, ?, ?)", (day, granted, reason))
            self._db.execute("INSERT OR REPLACE INTO facts VALUES ('ledger_head', ?)", (head,))

    def checkpoint(self) -> tuple[int, bytes] | None:
        """Return the time and the content of the last checkpoint."""
        rows = self._rows("SELECT at, content FROM checkpoint")
        return (int(rows[0][0]), bytes(rows[0][1])) if rows else None

    def save_checkpoint(self, content: bytes, at: int) -> None:
        """Commit the windows that are still open."""
        with self._writing():
            self._put_checkpoint(content, at)

    def _put_checkpoint(self, content: bytes, at: int) -> None:
        self._db.execute("INSERT OR REPLACE INTO checkpoint VALUES (1, ?, ?)", (at, content))

    def forget(self, period: str | None, before: str) -> None:
        """Destroy what is not needed any more after the end of a day.

        The keys of the period that ended with the day, if one did, and earlier ones are destroyed.
        Windows before a day and their delivered messages are deleted.
        """
        with self._writing():
            self._db.execute("DELETE FROM keys WHERE period <= ?", (period or "",))
            self._db.execute("DELETE FROM sums WHERE label < ?", (before[:7],))
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
        # What is destroyed in the file must not remain in the write-ahead log.
        self._rows("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Commit everything or nothing; an error of the database becomes one sentence."""
        with self._mutex, _in_database(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise


@dataclass(frozen=True)
class Kept:
    """What a state holds: the public terms, and all windows and sums that are kept."""

    terms: dict[str, Any]
    windows: list[WindowRow]
    sums: list[SumRow]


def read_state(path: str | Path) -> Kept:
    """Read a state while the stream goes on; raise `DataError` if the file is not a state."""
    file = Path(path)
    if not file.is_file():
        raise DataError(f"{file} does not exist; start the stream with --state {file} first.")
    with _in_database(file), closing(_read_only(file)) as db:
        facts = dict(db.execute("SELECT name, value FROM facts"))
        if facts.get("schema") != SCHEMA:
            raise _other_version(file)
        # Both queries see the same commit.
        db.execute("BEGIN")
        rows = db.execute("SELECT * FROM windows ORDER BY number").fetchall()
        sums = db.execute("SELECT * FROM sums ORDER BY name, label").fetchall()
    with _in_database(file, DAMAGED):
        windows = [WindowRow(*fields) for fields in rows]
        return Kept(json.loads(facts["terms"]), windows, [SumRow(*fields) for fields in sums])


def _other_version(path: Path) -> DataError:
    """Return the error about a file that this version did not begin."""
    return DataError(
        f"{path} is not the state of a stream of this version ({SCHEMA}); go on with the version "
        "that began it, or choose another --state."
    )


def _connect(path: Path) -> sqlite3.Connection:
    """Open the database; a commit is on the disk before it returns."""
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30.0)
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON"):
        db.execute(f"PRAGMA {pragma}")
    return db


def _lock(path: Path) -> FileLock:
    """Take the lock of a state, or raise `DataError` with the process that holds it."""
    # A state has one lock, also if it is reached through a link.
    real = path.resolve()
    with one_sentence(path, "used"):
        if path.exists() and not path.is_file():
            raise DataError(f"{path} is not a file; choose another --state.")
        make_folder(path.parent)
        # The state holds the means of windows, so only its owner may read it. SQLite gives the
        # mode of the database to its other files. The mode of another file is not ours to change.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if os.fstat(descriptor).st_size == 0 or _fact(path, "schema") is not None:
                os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)
        return take_lock(
            real.with_name(f"{real.name}.lock"),
            lambda: (
                f"{path} is in use by process {_owner(path)}: two processes would publish the same "
                "window twice; stop that process, or choose another --state."
            ),
        )


def _owner(path: Path) -> str:
    """Return the number of the process that uses a state, which it wrote into the state."""
    return _fact(path, "process") or "unknown"


def _fact(path: Path, name: str) -> str | None:
    """Return a fact of a state that another process may use; None if it is not there."""
    with suppress(sqlite3.DatabaseError), closing(_read_only(path)) as db:
        row = db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])
    return None


def _read_only(path: Path) -> sqlite3.Connection:
    """Open a state that another process may use."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def _in_database(
    path: Path, kinds: type[Exception] | tuple[type[Exception], ...] = sqlite3.DatabaseError
) -> AbstractContextManager[None]:
    """Turn an error of the database, or of other kinds, into one sentence."""
    more = "; nothing was published that is not in it"
    return one_sentence(path, "used", kinds=kinds, more=more)
