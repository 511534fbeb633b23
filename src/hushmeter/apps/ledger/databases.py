"""The two databases that hold a ledger: a SQLite file, and PostgreSQL for several machines.

*SQLite.* Writers take turns (BEGIN IMMEDIATE), and a commit is on the disk before it returns (WAL,
synchronous=FULL).

*PostgreSQL.* Writers lock the balances of their meters in order of name and the end of the chain
last. Requests for different meters therefore run at the same time, and no two writers wait for each
other.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from hushmeter.apps.ledger.charges import Price
from hushmeter.apps.ledger.store import APPEND_ONLY, KEPT, Spends, Store, Values, no_ledger
from hushmeter.errors import BudgetError, DataError, HushmeterError, InputError, MissingExtraError
from hushmeter.files import reason_of

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")
BUSY_S = 120.0
"""Longest time that a writer waits for its turn [s]."""

WAL_RETRY_S = 0.02
"""Time between two attempts to switch a new file to write-ahead logging [s]."""

COPY_FROM = 1000
"""Smallest number of rows that are inserted by COPY."""

ATTEMPTS = 5
"""Most attempts of a transaction that the server aborts because of a deadlock."""

CONNECT_S = 20
"""Longest time that a connection may take [s]."""

RETRY_S = 1.0
"""Time between two attempts to connect [s]."""

PASSING = ("starting up", "shutting down", "recovery", "too many")
"""Words of answers of a server after which a connection is tried again."""

LOCK_S = 120
"""Longest time that a writer waits for a lock [s]."""

# Keys of the advisory locks on the caps and on the end of the chain.
_CAPS, _CHAIN = 7_480_116_001, 7_480_116_002


class SqliteStore(Store):
    """A ledger in one file."""

    kinds: ClassVar[Mapping[str, str]] = {
        "text": "TEXT",
        "integer": "INTEGER",
        "without_rowid": " WITHOUT ROWID",
    }
    trigger = (
        "CREATE TRIGGER {name} BEFORE {event} ON {table} {only} "
        f"BEGIN SELECT RAISE(ABORT, '{APPEND_ONLY}'); END"
    )
    wanted = "json_each(?) AS wanted"
    listed, cell = "json_each(?)", "json_extract(value, '$[{}]')"
    end_of = "substr(s.period, -?)"
    exists = "SELECT 1 FROM sqlite_master WHERE name = 'ledger_entries'"
    in_force = "SELECT name FROM sqlite_master WHERE type = 'trigger'"

    def __init__(self, path: Path, *, create: bool) -> None:
        super().__init__(str(path))
        mode = "rwc" if create else "rw"
        if not create and not path.is_file():
            raise no_ledger(self.name)
        _check_place(path)

        def connect() -> sqlite3.Connection:
            if create:
                path.parent.mkdir(parents=True, exist_ok=True)
            if create and not path.exists():
                # SQLite gives its log the mode of the file; names of meters are not for everybody.
                os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            place = f"{path.absolute().as_uri()}?mode={mode}"
            return sqlite3.connect(place, uri=True, timeout=BUSY_S, isolation_level=None)

        self._open(connect)

    def _prepare(self) -> None:
        self._use_wal()
        for pragma in ("synchronous=FULL", "cache_size=-65536"):
            self.run(f"PRAGMA {pragma}")

    def _use_wal(self) -> None:
        """Switch to write-ahead logging.

        SQLite does not wait for its turn here: if two processes open a new file at the same
        time, one of them gets an error and must try again.
        """
        last = time.monotonic() + BUSY_S
        while True:
            try:
                self.run("PRAGMA journal_mode=WAL")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > last:
                    raise
                time.sleep(WAL_RETRY_S)
            else:
                return

    def write(self, work: Callable[[], T]) -> T:
        """Call `work` while no other writer works, and commit it to the disk or undo it."""
        with self.translated():
            self.run("BEGIN IMMEDIATE")
            try:
                result = work()
                self.run("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self.run("ROLLBACK")
                raise
            return result

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Open a transaction that sees one state of the ledger."""
        with self.translated():
            self.run("BEGIN")
            try:
                yield
            finally:
                # A generator of rows that is not read to its end may outlive the connection.
                with suppress(sqlite3.ProgrammingError):
                    self.run("ROLLBACK")

    def run(self, sql: str, values: Values = ()) -> sqlite3.Cursor:
        """Return a cursor of one statement."""
        cursor: sqlite3.Cursor = self._connection.execute(sql, values)
        return cursor

    def stream(self, sql: str, values: Values = ()) -> Iterator[tuple[Any, ...]]:
        """Yield rows one by one."""
        return iter(self._connection.execute(sql, values))

    def explain(self, error: Exception) -> HushmeterError | None:
        """Return an error of SQLite or of the file system as one sentence."""
        name = self.name
        if isinstance(error, sqlite3.IntegrityError):
            if "cap_is_kept" in str(error):
                return BudgetError(f"the ledger {name} refused a spend above a meter's cap.")
            return DataError(f"the ledger {name} refused a change: {error}.")
        if isinstance(error, sqlite3.OperationalError):
            if "locked" in str(error) or "busy" in str(error):
                return DataError(
                    f"another writer has used the ledger {name} for more than {BUSY_S:g} s; "
                    "try again when it is done."
                )
            return DataError(f"the ledger {name} cannot be used: {error}.")
        if isinstance(error, sqlite3.Error):
            return DataError(f"{name} cannot be used as a ledger: {error}.")
        if isinstance(error, OSError):
            return DataError(f"{name} cannot hold a ledger: {error.strerror}.")
        return None


def _check_place(path: Path) -> None:
    """Refuse a file whose write-ahead log could be separated from it.

    SQLite keeps recent charges in a second file, NAME-wal, in the same folder. If the database
    file alone is mounted into a container, or has a second name elsewhere, another process would
    look for the log in another folder, and would not see these charges.
    """
    log = path.with_name(f"{path.name}-wal")
    try:
        here = path.resolve()
        separate = str(here) in _mount_points() or (
            log.exists() and log.stat().st_dev != path.stat().st_dev
        )
        linked = path.is_file() and path.stat().st_nlink > 1
    except OSError:
        # Connecting reports why the file cannot be used.
        return
    if separate:
        raise DataError(
            f"{path} is mounted without its folder, so that its log {log.name} would be elsewhere; "
            "mount the folder that contains the ledger."
        )
    if linked:
        raise DataError(
            f"{path} has more than one name (hard links), so that its log {log.name} may be "
            "elsewhere; use a ledger with a single name."
        )


def _mount_points() -> set[str]:
    """Return the mount points of this process; none where the system does not list them."""
    try:
        # A name may have any bytes but 0; the system writes spaces and new lines as octal numbers.
        lines = Path("/proc/self/mountinfo").read_bytes().rstrip(b"\n").split(b"\n")
    except OSError:
        return set()
    points = (line.split(b" ")[4] for line in lines)
    octal = re.compile(rb"\\(\d{3})")
    return {os.fsdecode(octal.sub(lambda code: bytes([int(code[1], 8)]), one)) for one in points}


class PostgresStore(Store):
    """A ledger in a PostgreSQL database."""

    # Text is sorted by code point (collation "C"), as Python and SQLite do.
    kinds: ClassVar[Mapping[str, str]] = {
        "text": 'TEXT COLLATE "C"',
        "integer": "BIGINT",
        "without_rowid": "",
    }
    trigger = (
        "CREATE TRIGGER {name} BEFORE {event} ON {table} "
        "FOR EACH ROW {only} EXECUTE FUNCTION ledger_refuse()"
    )
    wanted = '(SELECT value COLLATE "C" FROM json_array_elements_text(?::json)) AS wanted(value)'
    listed, cell = "json_array_elements(?::json) AS new(value)", "value->>{}"
    locked = "ORDER BY b.meter FOR UPDATE OF b"
    end_of = "right(s.period, ?)"
    # to_regclass may answer from a cache that is older than a lock just granted.
    exists = "SELECT 1 FROM pg_class WHERE relname = 'ledger_entries' AND pg_table_is_visible(oid)"
    in_force = (
        "SELECT t.tgname FROM pg_trigger t WHERE t.tgenabled <> 'D' AND t.tgrelid IN "
        "('ledger_entries'::regclass, 'ledger_spends'::regclass, 'ledger_balances'::regclass, "
        "'ledger_places'::regclass)"
    )
    locks: ClassVar[Mapping[str, str]] = {
        "caps, shared": f"SELECT pg_advisory_xact_lock_shared({_CAPS})",
        "caps": f"SELECT pg_advisory_xact_lock({_CAPS})",
        "chain": f"SELECT pg_advisory_xact_lock({_CHAIN})",
    }

    def __init__(self, url: str, patience_s: float = 0.0) -> None:
        try:
            import psycopg  # noqa: F401
        except ImportError:
            raise MissingExtraError("a ledger in PostgreSQL", "postgres") from None
        super().__init__(_name(url))
        self._open(partial(_connect, url, patience_s))

    def _prepare(self) -> None:
        from psycopg import IsolationLevel

        self._connection.isolation_level = IsolationLevel.READ_COMMITTED
        if self.run("SHOW synchronous_commit").fetchone()[0] == "off":
            self.run("SET synchronous_commit TO on")
        if self.run("SHOW lock_timeout").fetchone()[0] == "0":
            self.run(f"SET lock_timeout TO '{LOCK_S}s'")

    def create_tables(self) -> None:
        """Make the empty tables and their triggers, also against TRUNCATE."""
        self.run(
            "CREATE FUNCTION ledger_refuse() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE EXCEPTION '{APPEND_ONLY}'; END $$"
        )
        super().create_tables()
        for table in KEPT:
            self.run(
                f"CREATE TRIGGER {table}_truncate BEFORE TRUNCATE ON {table} "
                "FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse()"
            )

    def write(self, work: Callable[[], T]) -> T:
        """Call `work` in one durable transaction, and again if the server reports a deadlock."""
        from psycopg import errors

        with self.translated():
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    with self._connection.transaction():
                        return work()
                except (errors.DeadlockDetected, errors.SerializationFailure):
                    if attempt == ATTEMPTS:
                        raise
        raise AssertionError("unreachable")

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Open a read-only transaction that sees one state of the ledger."""
        with self.translated(), self._connection.transaction():
            self.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield

    def run(self, sql: str, values: Values = ()) -> Any:
        """Return a cursor of one statement."""
        return self._connection.execute(sql.replace("?", "%s").encode(), values or None)

    def stream(self, sql: str, values: Values = ()) -> Iterator[tuple[Any, ...]]:
        """Yield rows, fetched from the server in portions."""
        with self._connection.cursor(name="ledger_stream") as cursor:
            cursor.itersize = 20_000
            cursor.execute(sql.replace("?", "%s").encode(), values or None)
            yield from cursor

    def insert_spends(self, batch: int, stream: str, price: Price, rows: Spends) -> int:
        """Insert spends and return how many were new."""
        if len(rows) < COPY_FROM:
            return super().insert_spends(batch, stream, price, rows)
        copied = "COPY ledger_spends (meter, period, stream, micro, femto, batch) FROM STDIN"
        with self._connection.cursor() as cursor, cursor.copy(copied.encode()) as copy:
            for meter, label, count in rows:
                micro, femto = price.micro * count, price.femto * count
                copy.write_row((meter, label, stream, micro, femto, batch))
        return len(rows)

    def explain(self, error: Exception) -> HushmeterError | None:
        """Return an error of PostgreSQL as one sentence."""
        import psycopg
        from psycopg import errors

        if not isinstance(error, psycopg.Error):
            return None
        name, reason = self.name, reason_of(error)
        if isinstance(error, errors.CheckViolation):
            return BudgetError(f"the ledger {name} refused a spend above a meter's cap.")
        if isinstance(error, errors.UniqueViolation):
            return BudgetError(
                f"the ledger {name} holds one of these spends already; nothing was charged."
            )
        sentence = f"the ledger {name} cannot be used: {reason}."
        if isinstance(error, errors.ReadOnlySqlTransaction):
            sentence = (
                f"the ledger {name} is read-only here, as on a replica; name the primary server."
            )
        elif isinstance(error, errors.InsufficientPrivilege):
            sentence = (
                f"the ledger {name} cannot be used: {reason}; grant this role the rights that its "
                "task needs, or use another role."
            )
        elif isinstance(error, errors.LockNotAvailable):
            sentence = (
                f"another writer has kept a part of the ledger {name} locked for too long (lock "
                "timeout); try again when it is done."
            )
        elif isinstance(error, psycopg.OperationalError):
            sentence = f"the ledger {name} cannot be reached: {reason}."
        return DataError(sentence)


def _connect(url: str, patience_s: float) -> psycopg.Connection[Any]:
    """Connect, and try again for some time if the server does not answer."""
    import psycopg

    last = time.monotonic() + patience_s
    while True:
        try:
            return psycopg.connect(
                url,
                autocommit=True,
                connect_timeout=CONNECT_S,
                application_name="hushmeter",
                # With these the operating system detects a dead server within a minute.
                keepalives=1,
                keepalives_idle=30,
                keepalives_interval=10,
                keepalives_count=3,
            )
        except psycopg.OperationalError as error:
            # An answer such as a wrong password or an unknown database is final; a server that
            # starts or stops, or does not answer at all, may be there soon.
            final = "FATAL" in str(error) and not any(word in str(error) for word in PASSING)
            if final or time.monotonic() > last:
                raise
            time.sleep(RETRY_S)


def _name(url: str) -> str:
    """Return the host and database of a URL, without user and password.

    A password with an unescaped @, : or / makes the parser take a part of it for the host, and
    the driver's own message quotes it. For such a URL the error message repeats nothing.
    """
    import psycopg
    from psycopg import conninfo

    try:
        parts = conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        parts = {"host": "@"}
    host, database = (str(parts.get(part) or "") for part in ("host", "dbname"))
    if "@" in host + database or not re.fullmatch(r"[\d,]*", str(parts.get("port") or "")):
        raise InputError(
            "the ledger's URL cannot be read; write @ : / % within a password as %40 %3A %2F %25, "
            "or leave the password to ~/.pgpass."
        )
    return f"postgresql://{host or 'localhost'}/{database}"
