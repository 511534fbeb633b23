"""A ledger in one SQLite file.

Writers take turns (BEGIN IMMEDIATE), and a commit is on the disk before it returns (WAL,
synchronous=FULL).
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from hushmeter.errors import BudgetError, DataError, HushmeterError
from hushmeter.ledger.budget import Cap
from hushmeter.ledger.chain import Head
from hushmeter.ledger.charges import Price
from hushmeter.ledger.store import TRIGGERS, Spends, Store, Values, no_ledger, sqlite_statements

T = TypeVar("T")
BUSY_S = 120.0
"""Longest time that a writer waits for its turn [s]."""

RETRY_S = 0.02
"""Time between two attempts to switch a new file to write-ahead logging [s]."""


class SqliteStore(Store):
    """A ledger in one file."""

    wanted = "json_each(?) AS wanted"
    end_of = "substr(s.period, -?)"

    def __init__(self, path: Path, *, create: bool) -> None:
        super().__init__(str(path))
        mode = "rwc" if create else "rw"
        if not create and not path.is_file():
            raise no_ledger(self.name)
        _check_place(path)
        with _database_errors(self.name):
            if create:
                path.parent.mkdir(parents=True, exist_ok=True)
            if create and not path.exists():
                # SQLite gives its log the mode of the file; names of meters are not for everybody.
                os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            self._connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=BUSY_S,
                isolation_level=None,
            )  # fmt: skip
        try:
            with _database_errors(self.name):
                self._use_wal()
                for pragma in ("synchronous=FULL", "cache_size=-65536"):
                    self.run(f"PRAGMA {pragma}")
        except BaseException:
            self._connection.close()
            raise

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
                time.sleep(RETRY_S)
            else:
                return

    def holds_ledger(self) -> bool:
        """Return whether the file holds a ledger."""
        with _database_errors(self.name):
            sql = "SELECT 1 FROM sqlite_master WHERE name = 'ledger_entries'"
            return self.run(sql).fetchone() is not None

    def create_tables(self) -> None:
        """Make the empty tables and their triggers."""
        for statement in sqlite_statements():
            self.run(statement)

    def write(self, work: Callable[[], T]) -> T:
        """Call `work` while no other writer works, and commit it to the disk or undo it."""
        with _database_errors(self.name):
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
        with _database_errors(self.name):
            self.run("BEGIN")
            try:
                yield
            finally:
                # A generator of rows that is not read to its end may outlive the connection.
                with suppress(sqlite3.ProgrammingError):
                    self.run("ROLLBACK")

    def run(self, sql: str, values: Values = ()) -> sqlite3.Cursor:
        """Return a cursor of one statement."""
        return self._connection.execute(sql, values)

    def stream(self, sql: str, values: Values = ()) -> Iterator[tuple[Any, ...]]:
        """Yield rows one by one."""
        return iter(self._connection.execute(sql, values))

    def as_list(self, values: Sequence[str]) -> str:
        """Return a list as JSON."""
        return json.dumps(values)

    def lock_caps_shared(self) -> None:
        """Do nothing, because writers take turns already."""

    lock_caps_exclusive = lock_caps_shared

    def lock_balances(self, meters: Sequence[str], everybody: Cap) -> dict[str, Price]:
        """Return what each meter has spent; no other writer is at work."""
        sql = (
            f"SELECT b.meter, b.spent, b.delta_spent FROM {self.wanted} "
            "CROSS JOIN ledger_balances b WHERE b.meter = wanted.value"
        )
        found = self.run(sql, (self.as_list(meters),)).fetchall()
        spent = {meter: Price(micro, femto) for meter, micro, femto in found}
        self._connection.executemany(
            "INSERT INTO ledger_balances (meter, spent, delta_spent, ceiling, delta_ceiling) "
            "VALUES (?, 0, 0, ?, ?)",
            ((meter, everybody.total, everybody.delta) for meter in meters if meter not in spent),
        )
        return spent

    def lock_head(self) -> Head:
        """Return the end of the chain; no other writer is at work."""
        return self.head()

    def insert_spends(self, batch: int, stream: str, price: Price, rows: Spends) -> int:
        """Insert spends and return how many were new."""
        # One statement over a JSON list takes two thirds of the time of one statement per row.
        sql = (
            "INSERT INTO ledger_spends (meter, period, stream, micro, femto, batch) "
            "SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), ?, "
            "json_extract(value, '$[2]') * ?, json_extract(value, '$[2]') * ?, ? "
            "FROM json_each(?) WHERE true ON CONFLICT DO NOTHING"
        )
        return self.run(sql, (stream, *price, batch, json.dumps(rows))).rowcount

    def add_to_balances(self, price: Price, rows: Mapping[str, int]) -> None:
        """Add the price of a number of rows to balances that `lock_balances` has made."""
        self._connection.executemany(
            "UPDATE ledger_balances SET spent = spent + ?, delta_spent = delta_spent + ? "
            "WHERE meter = ?",
            ((count * price.micro, count * price.femto, meter) for meter, count in rows.items()),
        )

    def triggers(self) -> set[str]:
        """Return the names of the triggers in force."""
        found = self.run("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        return {row[0] for row in found} & set(TRIGGERS)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


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
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError):
        return set()
    points = (line.split()[4] for line in lines)
    return {re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), point) for point in points}


@contextmanager
def _database_errors(name: str) -> Iterator[None]:
    """Raise SQLite's errors again as one sentence."""
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
                f"another writer has used the ledger {name} for more than {BUSY_S:g} s; "
                "try again when it is done."
            ) from None
        raise DataError(f"the ledger {name} cannot be used: {error}.") from None
    except sqlite3.Error as error:
        raise DataError(f"{name} cannot be used as a ledger: {error}.") from None
    except OSError as error:
        raise DataError(f"{name} cannot hold a ledger: {error.strerror}.") from None
