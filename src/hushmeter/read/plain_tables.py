"""An SQLite data base of a stranger: only its plain tables are read.

The schema in the file decides what a name means. A view or a virtual table can pretend to be the
table of readings, and a computed column can call functions: each of them runs what the file says.
SQLite asks `_Reader.may` about every action of a query before it runs.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from hushmeter.errors import DataError

FUNCTIONS = frozenset({"coalesce", "json_extract", "json_valid", "strftime"})
LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 1 << 24,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1 << 20,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
}
"""Limits of SQLite, such as of the size of a cell [bytes]."""
SETTINGS = (
    "query_only = ON",
    "trusted_schema = OFF",
    "cell_size_check = ON",
    # Sorting many rows would otherwise write a temporary file.
    "temp_store = MEMORY",
)
PLAIN = re.compile(r"CREATE TABLE\s", re.IGNORECASE)


def restrict(database: sqlite3.Connection, used: Iterable[str], path: Path) -> set[str]:
    """Allow a connection to read plain tables and nothing else."""
    for limit, value in LIMITS.items():
        database.setlimit(limit, value)
    for setting in SETTINGS:
        database.execute(f"PRAGMA {setting}")
    plain, other = _names(database)
    used_names = {name.lower(): name for name in used}
    for name in sorted(other):
        if name.lower() in used_names:
            raise DataError(
                f"{path}: {name} is a view or a virtual table, which computes what it shows and is "
                "not read: export the readings as CSV."
            )
    for name in sorted(plain):
        if name.lower() in used_names and _is_computed(database, used_names[name.lower()]):
            raise DataError(
                f"{path}: the table {name} has computed columns, which are not read: export the "
                "readings as CSV."
            )
    allowed = frozenset(name.lower() for name in plain) & used_names.keys()
    database.set_authorizer(_Reader(allowed).may)
    return plain


def _names(database: sqlite3.Connection) -> tuple[set[str], set[str]]:
    """The names of the plain tables, and those of views and virtual tables."""
    plain: set[str] = set()
    other: set[str] = set()
    query = "SELECT type, name, rootpage, sql FROM sqlite_master"
    for kind, name, page, text in database.execute(query):
        if kind not in ("index", "trigger"):
            # The columns of the schema may contradict each other in the file of a stranger.
            stored = isinstance(page, int) and page > 0 and PLAIN.match(str(text)) is not None
            (plain if kind == "table" and stored else other).add(str(name))
    return plain, other


def _is_computed(database: sqlite3.Connection, table: str) -> bool:
    """Whether a column of a table is computed or hidden."""
    return any(row[6] for row in database.execute(f"PRAGMA table_xinfo({table})"))


class _Reader:
    """Answers SQLite's questions what a query may do."""

    def __init__(self, tables: frozenset[str]) -> None:
        self._tables = tables

    def may(
        self,
        action: int,
        first: str | None,
        second: str | None,
        schema: str | None,
        source: str | None,
    ) -> int:
        """Return whether one action is allowed; `source` names the view or trigger that asks."""
        allowed = source is None and (
            action == sqlite3.SQLITE_SELECT
            or (action == sqlite3.SQLITE_FUNCTION and second in FUNCTIONS)
            or (action == sqlite3.SQLITE_PRAGMA and first == "table_info")
            or (
                action == sqlite3.SQLITE_READ
                and schema == "main"
                and str(first).lower() in self._tables
            )
        )
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY
