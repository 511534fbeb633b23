"""A ledger in PostgreSQL, for several machines.

Writers lock the balances of their meters in order of name and the end of the chain last. Requests
for different meters therefore run at the same time, and no two writers wait for each other.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from hushmeter.errors import BudgetError, DataError, HushmeterError, InputError, MissingExtraError
from hushmeter.ledger.budget import Cap
from hushmeter.ledger.chain import Head
from hushmeter.ledger.charges import Price
from hushmeter.ledger.store import TRIGGERS, Spends, Store, Values, postgres_statements

try:
    import psycopg
    from psycopg import conninfo, errors
except ImportError:
    raise MissingExtraError("a ledger in PostgreSQL", "postgres") from None

T = TypeVar("T")
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
_AGAIN = (errors.DeadlockDetected, errors.SerializationFailure)


class PostgresStore(Store):
    """A ledger in a PostgreSQL database."""

    wanted = "unnest(?::text[]) AS wanted(value)"
    end_of = "right(s.period, ?)"

    def __init__(self, url: str, patience_s: float = 0.0) -> None:
        super().__init__(_name(url))
        with _database_errors(self.name):
            self._connection = _connect(url, patience_s)
        try:
            with _database_errors(self.name):
                self._connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
                if self.run("SHOW synchronous_commit").fetchone()[0] == "off":
                    self.run("SET synchronous_commit TO on")
                if self.run("SHOW lock_timeout").fetchone()[0] == "0":
                    self.run(f"SET lock_timeout TO '{LOCK_S}s'")
        except BaseException:
            self._connection.close()
            raise

    def holds_ledger(self) -> bool:
        """Return whether the database holds a ledger in its search path."""
        with _database_errors(self.name):
            # to_regclass may answer from a cache that is older than a lock just granted.
            found = self.run(
                "SELECT 1 FROM pg_class WHERE relname = 'ledger_entries' "
                "AND pg_table_is_visible(oid)"
            ).fetchone()
            return found is not None

    def create_tables(self) -> None:
        """Make the empty tables and their triggers."""
        for statement in postgres_statements():
            self.run(statement)

    def write(self, work: Callable[[], T]) -> T:
        """Call `work` in one durable transaction, and again if the server reports a deadlock."""
        with _database_errors(self.name):
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    with self._connection.transaction():
                        return work()
                except _AGAIN:
                    if attempt == ATTEMPTS:
                        raise
        raise AssertionError("unreachable")

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Open a read-only transaction that sees one state of the ledger."""
        with _database_errors(self.name), self._connection.transaction():
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

    def as_list(self, values: Sequence[str]) -> list[str]:
        """Return a list as an array parameter."""
        return list(values)

    def lock_caps_shared(self) -> None:
        """Keep caps from changing until the transaction ends."""
        self.run("SELECT pg_advisory_xact_lock_shared(?)", (_CAPS,))

    def lock_caps_exclusive(self) -> None:
        """Keep all spends of other writers out until the transaction ends."""
        self.run("SELECT pg_advisory_xact_lock(?)", (_CAPS,))

    def lock_balances(self, meters: Sequence[str], everybody: Cap) -> dict[str, Price]:
        """Return what each meter has spent, and lock the balances in order of name."""
        names = self.as_list(meters)
        self.run(
            "INSERT INTO ledger_balances (meter, spent, delta_spent, ceiling, delta_ceiling) "
            f"SELECT wanted.value, 0, 0, ?, ? FROM {self.wanted} "
            'ORDER BY wanted.value COLLATE "C" ON CONFLICT DO NOTHING',
            (everybody.total, everybody.delta, names),
        )
        found = self.run(
            "SELECT meter, spent, delta_spent FROM ledger_balances WHERE meter = ANY(?) "
            "ORDER BY meter FOR UPDATE",
            (names,),
        )
        return {meter: Price(micro, femto) for meter, micro, femto in found}

    def lock_head(self) -> Head:
        """Return the head; no other writer extends the chain before the transaction ends."""
        self.run("SELECT pg_advisory_xact_lock(?)", (_CHAIN,))
        return self.head()

    def insert_spends(self, batch: int, stream: str, price: Price, rows: Spends) -> int:
        """Insert spends and return how many were new."""
        columns = "ledger_spends (meter, period, stream, micro, femto, batch)"
        micro, femto = price
        if len(rows) >= COPY_FROM:
            with (
                self._connection.cursor() as cursor,
                cursor.copy(f"COPY {columns} FROM STDIN".encode()) as copy,
            ):
                for meter, label, count in rows:
                    copy.write_row((meter, label, stream, micro * count, femto * count, batch))
            return len(rows)
        done = self.run(
            f"INSERT INTO {columns} SELECT meter, label, ?, count * ?, count * ?, ? "
            "FROM unnest(?::text[], ?::text[], ?::bigint[]) AS new(meter, label, count) "
            "ON CONFLICT DO NOTHING RETURNING meter",
            (stream, *price, batch, *map(list, zip(*rows, strict=True))),
        )
        return len(done.fetchall())

    def add_to_balances(self, price: Price, rows: Mapping[str, int]) -> None:
        """Add the price of a number of rows to balances that `lock_balances` has made."""
        self.run(
            "UPDATE ledger_balances b SET spent = b.spent + new.count * ?, "
            "delta_spent = b.delta_spent + new.count * ? "
            "FROM unnest(?::text[], ?::bigint[]) AS new(meter, count) WHERE b.meter = new.meter",
            (*price, list(rows), list(rows.values())),
        )

    def triggers(self) -> set[str]:
        """Return the names of the triggers in force."""
        found = self.run(
            "SELECT t.tgname FROM pg_trigger t WHERE t.tgenabled <> 'D' AND t.tgrelid IN "
            "('ledger_entries'::regclass, 'ledger_spends'::regclass, "
            "'ledger_balances'::regclass, 'ledger_places'::regclass)"
        )
        return {row[0] for row in found} & set(TRIGGERS)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _connect(url: str, patience_s: float) -> psycopg.Connection[Any]:
    """Connect, and try again for some time if the server does not answer."""
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


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else "no reason"


@contextmanager
def _database_errors(name: str) -> Iterator[None]:
    """Raise PostgreSQL's errors again as one sentence."""
    try:
        yield
    except HushmeterError:
        raise
    except errors.CheckViolation:
        raise BudgetError(f"the ledger {name} refused a spend above a meter's cap.") from None
    except errors.UniqueViolation:
        raise BudgetError(
            f"the ledger {name} holds one of these spends already; nothing was charged."
        ) from None
    except errors.ReadOnlySqlTransaction:
        raise DataError(
            f"the ledger {name} is read-only here, as on a replica; name the primary server."
        ) from None
    except errors.InsufficientPrivilege as error:
        raise DataError(
            f"the ledger {name} cannot be used: {_first_line(error)}; grant this role the rights "
            "that its task needs, or use another role."
        ) from None
    except errors.LockNotAvailable:
        raise DataError(
            f"another writer has kept a part of the ledger {name} locked for too long (lock "
            "timeout); try again when it is done."
        ) from None
    except psycopg.OperationalError as error:
        raise DataError(f"the ledger {name} cannot be reached: {_first_line(error)}.") from None
    except psycopg.Error as error:
        raise DataError(f"the ledger {name} cannot be used: {_first_line(error)}.") from None
