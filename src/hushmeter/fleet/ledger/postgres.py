"""A ledger in PostgreSQL, for several machines.

Writers lock the balances of their meters in order of name and the end of the chain last, so that
batches of different meters go on side by side and nobody waits in a circle.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from hushmeter.errors import (
    BudgetError,
    DataError,
    HushmeterError,
    InputError,
    MissingExtraError,
)
from hushmeter.fleet.ledger.chain import Head
from hushmeter.fleet.ledger.schema import TRIGGERS, postgres_statements
from hushmeter.fleet.ledger.store import Pairs, Store, Values

try:
    import psycopg
    from psycopg import conninfo, errors
except ImportError:
    raise MissingExtraError("a ledger in PostgreSQL", "postgres") from None

T = TypeVar("T")
COPY_FROM = 1000
"""Batches of at least so many rows go in by COPY."""

ATTEMPTS = 5
CONNECT_S = 20
_CAPS, _CHAIN = 7_480_116_001, 7_480_116_002
_AGAIN = (errors.DeadlockDetected, errors.SerializationFailure)


class PostgresStore(Store):
    """A ledger in a PostgreSQL database."""

    wanted = "unnest(?::text[]) AS wanted(value)"

    def __init__(self, url: str) -> None:
        super().__init__(_name(url))
        with _plain(self.name):
            self._connection = psycopg.connect(
                url, autocommit=True, connect_timeout=CONNECT_S, application_name="hushmeter"
            )
        try:
            with _plain(self.name):
                self._connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
                if self.run("SHOW synchronous_commit").fetchone()[0] == "off":
                    self.run("SET synchronous_commit TO on")
        except BaseException:
            self._connection.close()
            raise

    def present(self) -> bool:
        """Whether the database holds a ledger in its search path."""
        with _plain(self.name):
            # to_regclass may answer from a cache older than a lock just granted.
            found = self.run(
                "SELECT 1 FROM pg_class WHERE relname = 'ledger_entries' "
                "AND pg_table_is_visible(oid)"
            ).fetchone()
            return found is not None

    def create(self) -> None:
        """Make the empty tables."""
        for statement in postgres_statements():
            self.run(statement)

    def write(self, work: Callable[[], T]) -> T:
        """Do `work` in one durable transaction; begin again where two writers met in a circle."""
        with _plain(self.name):
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
        """A transaction that sees one state of the ledger."""
        with _plain(self.name), self._connection.transaction():
            self.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield

    def run(self, sql: str, values: Values = ()) -> Any:
        """A cursor of one statement."""
        return self._connection.execute(sql.replace("?", "%s").encode(), values or None)

    def stream(self, sql: str, values: Values = ()) -> Iterator[tuple[Any, ...]]:
        """Rows fetched from the server by the thousand."""
        with self._connection.cursor(name="ledger_stream") as cursor:
            cursor.itersize = 20_000
            cursor.execute(sql.replace("?", "%s").encode(), values or None)
            yield from cursor

    def listed(self, values: Sequence[str]) -> list[str]:
        """A list as an array."""
        return list(values)

    def share_caps(self) -> None:
        """Keep caps from changing until the transaction ends."""
        self.run("SELECT pg_advisory_xact_lock_shared(?)", (_CAPS,))

    def own_caps(self) -> None:
        """Keep every spend out until the transaction ends."""
        self.run("SELECT pg_advisory_xact_lock(?)", (_CAPS,))

    def lock(self, meters: Sequence[str], ceiling: int | None) -> dict[str, int]:
        """What each meter has spent; their balances are locked in order of name."""
        names = self.listed(meters)
        self.run(
            f"INSERT INTO ledger_balances (meter, spent, ceiling) "
            f"SELECT wanted.value, 0, ? FROM {self.wanted} "
            'ORDER BY wanted.value COLLATE "C" ON CONFLICT DO NOTHING',
            (ceiling, names),
        )
        found = self.run(
            "SELECT meter, spent FROM ledger_balances WHERE meter = ANY(?) "
            "ORDER BY meter FOR UPDATE",
            (names,),
        )
        return dict(found.fetchall())

    def lock_head(self) -> Head:
        """The end of the chain; no other writer extends it before the transaction ends."""
        self.run("SELECT pg_advisory_xact_lock(?)", (_CHAIN,))
        return self.head()

    def insert(self, batch: int, stream: str, micro: int, pairs: Pairs) -> int:
        """Insert spends; how many were new."""
        columns = "ledger_spends (meter, period, stream, micro, batch)"
        if len(pairs) >= COPY_FROM:
            with (
                self._connection.cursor() as cursor,
                cursor.copy(f"COPY {columns} FROM STDIN".encode()) as copy,
            ):
                for meter, period in pairs:
                    copy.write_row((meter, period, stream, micro, batch))
            return len(pairs)
        done = self.run(
            f"INSERT INTO {columns} SELECT meter, period, ?, ?, ? "
            "FROM unnest(?::text[], ?::text[]) AS new(meter, period) "
            "ON CONFLICT DO NOTHING RETURNING meter",
            (stream, micro, batch, *map(list, zip(*pairs, strict=True))),
        )
        return len(done.fetchall())

    def add(self, amounts: Mapping[str, int]) -> None:
        """Add to balances that `lock` has made."""
        self.run(
            "UPDATE ledger_balances b SET spent = b.spent + new.amount "
            "FROM unnest(?::text[], ?::bigint[]) AS new(meter, amount) WHERE b.meter = new.meter",
            (list(amounts), list(amounts.values())),
        )

    def triggers(self) -> set[str]:
        """Names of the triggers in force."""
        found = self.run(
            "SELECT t.tgname FROM pg_trigger t WHERE t.tgenabled <> 'D' AND t.tgrelid IN "
            "('ledger_entries'::regclass, 'ledger_spends'::regclass, 'ledger_balances'::regclass)"
        )
        return {row[0] for row in found} & set(TRIGGERS)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _name(url: str) -> str:
    """Host and database of a URL, without user and password.

    A password with a bare @, : or / spills over into the parts that follow it, and the driver's
    own words quote what they stumble on: of such a URL nothing is told.
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
def _plain(name: str) -> Iterator[None]:
    """PostgreSQL's errors as one sentence."""
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
    except psycopg.OperationalError as error:
        raise DataError(f"the ledger {name} cannot be reached: {_first_line(error)}.") from None
    except psycopg.Error as error:
        raise DataError(f"the ledger {name} cannot be used: {_first_line(error)}.") from None
