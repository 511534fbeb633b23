"""A ledger in one SQLite file.

Writers take turns (BEGIN IMMEDIATE); what is committed is on the disk (WAL, synchronous=FULL).
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from hushmeter.errors import BudgetError, DataError, HushmeterError
from hushmeter.fleet.ledger.chain import Head
from hushmeter.fleet.ledger.schema import TRIGGERS, sqlite_statements
from hushmeter.fleet.ledger.store import Pairs, Store, Values, absent

T = TypeVar("T")
BUSY_S = 120.0
"""How long a writer waits for its turn [s]."""
WAIT_S = 0.02


class SqliteStore(Store):
    """A ledger in one file."""

    wanted = "json_each(?) AS wanted"

    def __init__(self, path: Path, *, create: bool) -> None:
        super().__init__(str(path))
        mode = "rwc" if create else "rw"
        if not create and not path.is_file():
            raise absent(self.name)
        with _plain(self.name):
            if create:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=BUSY_S,
                isolation_level=None,
            )  # fmt: skip
        try:
            with _plain(self.name):
                self._use_wal()
                for pragma in ("synchronous=FULL", "cache_size=-65536"):
                    self.run(f"PRAGMA {pragma}")
        except BaseException:
            self._connection.close()
            raise

    def _use_wal(self) -> None:
        """Write ahead; where two open a new file at once, SQLite refuses one without waiting."""
        last = time.monotonic() + BUSY_S
        while True:
            try:
                self.run("PRAGMA journal_mode=WAL")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > last:
                    raise
                time.sleep(WAIT_S)
            else:
                return

    def present(self) -> bool:
        """Whether the file holds a ledger."""
        with _plain(self.name):
            sql = "SELECT 1 FROM sqlite_master WHERE name = 'ledger_entries'"
            return self.run(sql).fetchone() is not None

    def create(self) -> None:
        """Make the empty tables."""
        for statement in sqlite_statements():
            self.run(statement)

    def write(self, work: Callable[[], T]) -> T:
        """Do `work` alone and have it on the disk, or undo it."""
        with _plain(self.name):
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
        """A transaction that sees one state of the ledger."""
        with _plain(self.name):
            self.run("BEGIN")
            try:
                yield
            finally:
                # Rows that nobody reads to the end may outlive the connection.
                with suppress(sqlite3.ProgrammingError):
                    self.run("ROLLBACK")

    def run(self, sql: str, values: Values = ()) -> sqlite3.Cursor:
        """A cursor of one statement."""
        return self._connection.execute(sql, values)

    def stream(self, sql: str, values: Values = ()) -> Iterator[tuple[Any, ...]]:
        """Rows one by one."""
        return iter(self._connection.execute(sql, values))

    def listed(self, values: Sequence[str]) -> str:
        """A list as JSON."""
        return json.dumps(values)

    def share_caps(self) -> None:
        """Writers take turns already."""

    own_caps = share_caps

    def lock(self, meters: Sequence[str], ceiling: int | None) -> dict[str, int]:
        """What each meter has spent; no other writer is at work."""
        sql = (
            f"SELECT b.meter, b.spent FROM {self.wanted} CROSS JOIN ledger_balances b "
            "WHERE b.meter = wanted.value"
        )
        spent: dict[str, int] = dict(self.run(sql, (self.listed(meters),)).fetchall())
        self._connection.executemany(
            "INSERT INTO ledger_balances (meter, spent, ceiling) VALUES (?, 0, ?)",
            ((meter, ceiling) for meter in meters if meter not in spent),
        )
        return spent

    def lock_head(self) -> Head:
        """The end of the chain."""
        return self.head()

    def insert(self, batch: int, stream: str, micro: int, pairs: Pairs) -> int:
        """Insert spends; how many were new."""
        # One statement over a list takes two thirds of the time of one for every row.
        sql = (
            "INSERT INTO ledger_spends (meter, period, stream, micro, batch) "
            "SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), ?, ?, ? "
            "FROM json_each(?) WHERE true ON CONFLICT DO NOTHING"
        )
        return self.run(sql, (stream, micro, batch, json.dumps(pairs))).rowcount

    def add(self, amounts: Mapping[str, int]) -> None:
        """Add to balances that `lock` has made."""
        self._connection.executemany(
            "UPDATE ledger_balances SET spent = spent + ? WHERE meter = ?",
            ((amount, meter) for meter, amount in amounts.items()),
        )

    def triggers(self) -> set[str]:
        """Names of the triggers in force."""
        found = self.run("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        return {row[0] for row in found} & set(TRIGGERS)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


@contextmanager
def _plain(name: str) -> Iterator[None]:
    """SQLite's errors as one sentence."""
    try:
        yield
    except HushmeterError:
        raise
    except sqlite3.IntegrityError as error:
        if "cap_is_kept" in str(error):
            raise BudgetError(f"the ledger {name} refused a spend above a meter's cap.") from None
        raise DataError(f"the ledger {name} refused a change: {error}.") from None
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            raise DataError(
                f"the ledger {name} is held by another writer for more than {BUSY_S:g} s; "
                "try again when it is done."
            ) from None
        raise DataError(f"the ledger {name} cannot be used: {error}.") from None
    except sqlite3.Error as error:
        raise DataError(f"{name} cannot be used as a ledger: {error}.") from None
    except OSError as error:
        raise DataError(f"{name} cannot hold a ledger: {error.strerror}.") from None
