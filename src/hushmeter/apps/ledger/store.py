"""The tables of a ledger and the SQL that SQLite and PostgreSQL share.

`ledger_entries` is the hash chain and `ledger_spends` holds its rows; triggers make both append-
only. A row of `ledger_spends` is one period of a meter, or several in a row with their total price:
a fleet that is charged by day would otherwise spend a third of its time on these rows. The unique
key cannot compare such ranges, so writers lock the balances of their meters, look for overlaps
before they insert, and `Ledger.verify` looks for them again. `ledger_balances` and `ledger_caps`
follow from them: a balance answers in one look-up what a meter has spent, and the database itself
enforces its cap by a CHECK constraint. `ledger_places` has one growing number for each stream.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from operator import attrgetter
from typing import Any, ClassVar, TypeVar

from hushmeter.apps.ledger.chain import (
    LONGEST_RANGE,
    START,
    Entry,
    Head,
    Row,
    expand_periods,
    ordinal,
    period_at,
    period_kind,
)
from hushmeter.apps.ledger.charges import Cap, Price
from hushmeter.errors import DataError, HushmeterError

T = TypeVar("T")
Values = Sequence[Any]
Spends = Sequence[tuple[str, str, int]]

TABLES = """
CREATE TABLE ledger_entries (
    seq {integer} PRIMARY KEY CHECK (seq > 0),
    kind {text} NOT NULL CHECK (kind IN ('opened', 'release', 'spend', 'released', 'cap')),
    at {text} NOT NULL,
    release {text} NOT NULL,
    source {text} NOT NULL,
    batch BIGINT UNIQUE,
    body {text} NOT NULL,
    hash {text} NOT NULL
);
CREATE UNIQUE INDEX ledger_once ON ledger_entries (kind, release, source) WHERE kind <> 'cap';
CREATE TABLE ledger_spends (
    meter {text} NOT NULL,
    period {text} NOT NULL,
    stream {text} NOT NULL,
    micro BIGINT NOT NULL CHECK (micro > 0),
    femto BIGINT NOT NULL CHECK (femto >= 0),
    batch BIGINT NOT NULL,
    PRIMARY KEY (meter, period, stream)
){without_rowid};
CREATE TABLE ledger_balances (
    meter {text} NOT NULL PRIMARY KEY,
    spent BIGINT NOT NULL CHECK (spent >= 0),
    delta_spent BIGINT NOT NULL CHECK (delta_spent >= 0),
    ceiling BIGINT,
    delta_ceiling BIGINT,
    CONSTRAINT cap_is_kept CHECK (ceiling IS NULL OR spent <= ceiling),
    CONSTRAINT delta_cap_is_kept CHECK (delta_ceiling IS NULL OR delta_spent <= delta_ceiling)
){without_rowid};
CREATE TABLE ledger_caps (
    meter {text} NOT NULL PRIMARY KEY,
    total BIGINT CHECK (total > 0),
    width BIGINT CHECK (width > 0),
    most BIGINT CHECK (most > 0),
    delta BIGINT CHECK (delta > 0)
){without_rowid};
CREATE TABLE ledger_places (
    release {text} NOT NULL PRIMARY KEY,
    place BIGINT NOT NULL
){without_rowid}"""

KEPT = ("ledger_entries", "ledger_spends", "ledger_balances", "ledger_places")
TRIGGERS = tuple(f"{table}_{event}" for table in KEPT for event in ("update", "delete"))
"""Names of the triggers that both databases must have; `Ledger.verify` looks for them."""

APPEND_ONLY = "the ledger is append-only"

_SHRINKS = {
    "ledger_balances_update": (
        "NEW.spent < OLD.spent OR NEW.delta_spent < OLD.delta_spent OR NEW.meter <> OLD.meter"
    ),
    "ledger_places_update": "NEW.place <= OLD.place OR NEW.release <> OLD.release",
}
"""Conditions under which an update of a table that only grows is refused, by trigger."""

ALL_METERS = ""
"""Name in `ledger_caps` of the cap that applies to every meter."""

# Names, or rows, as the parameter of `Store.wanted` or `Store.listed`; made once, because it is
# called for every charge.
_as_json = json.JSONEncoder(ensure_ascii=False).encode

_ENTRY = "seq, kind, at, release, source, batch, body, hash"
_ROW = "batch, meter, period, stream, micro, femto"
_EFFECTIVE = """
    SELECT b.meter, b.spent, b.delta_spent, b.ceiling, b.delta_ceiling,
           COALESCE(own.total, (SELECT total FROM ledger_caps WHERE meter = '')) AS total,
           COALESCE(own.delta, (SELECT delta FROM ledger_caps WHERE meter = '')) AS delta
    FROM ledger_balances b LEFT JOIN ledger_caps own ON own.meter = b.meter
"""

# The ceilings that follow from the caps.
_DUE = "CASE WHEN e.total < e.spent THEN e.spent ELSE e.total END"
_DELTA_DUE = "CASE WHEN e.delta < e.delta_spent THEN e.delta_spent ELSE e.delta END"


class Store(ABC):
    """A database that holds a ledger.

    Call every method except `holds_ledger`, `write`, `reading` and `close` only inside a `write`
    or `reading` transaction. Methods that change something need a `write` transaction.

    Parameters
    ----------
    name : str
        Name of the database for messages, without a password.
    """

    wanted: str
    """SQL that turns names as JSON into a table `wanted` with one column `value`."""

    listed: str
    """SQL that turns rows as JSON into a table with one column `value`."""

    cell: str
    """SQL that reads a cell of such a row by its number."""

    locked: str = ""
    """SQL that locks the rows of a look-up of balances, in order of name."""

    kinds: ClassVar[Mapping[str, str]]
    """Words of the database for the types and options of `TABLES`."""

    trigger: str
    """SQL of a trigger that refuses an event of a table."""

    end_of: str
    """SQL that cuts the last letters off the label `s.period`; their number is a parameter."""

    exists: str
    """SQL that finds the first table of a ledger."""

    in_force: str
    """SQL that lists the names of the triggers in force."""

    locks: ClassVar[Mapping[str, str]] = {}
    """SQL that takes the locks of `lock`; there is none where writers take turns."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._connection: Any = None

    def _open(self, connect: Callable[[], Any]) -> None:
        """Connect and prepare the connection, or close it again."""
        with self.translated():
            self._connection = connect()
        try:
            with self.translated():
                self._prepare()
        except BaseException:
            self.close()
            raise

    @abstractmethod
    def _prepare(self) -> None:
        """Set what every transaction of the connection needs."""

    def holds_ledger(self) -> bool:
        """Return whether the database holds a ledger. Needs no transaction."""
        with self.translated():
            return self.run(self.exists).fetchone() is not None

    def close(self) -> None:
        """Close the connection. Needs no transaction."""
        self._connection.close()

    def triggers(self) -> set[str]:
        """Return the names of the triggers in force."""
        return {row[0] for row in self.run(self.in_force)} & set(TRIGGERS)

    def lock(self, what: str) -> None:
        """Lock something until the `write` transaction ends.

        "caps, shared" keeps caps from changing, "caps" keeps all spends of other writers out, and
        "chain" keeps other writers from extending the chain.
        """
        if what in self.locks:
            self.run(self.locks[what])

    def lock_head(self) -> Head:
        """Return the head; no other writer may extend the chain until the `write` ends."""
        self.lock("chain")
        return self.head()

    @abstractmethod
    def write(self, work: Callable[[], T]) -> T:
        """Call `work` in one durable transaction, and undo all of it if it raises.

        Parameters
        ----------
        work : callable
            Takes no arguments. It may be called again if the database asks for a retry.

        Returns
        -------
        object
            What `work` returns.
        """

    @abstractmethod
    def reading(self) -> AbstractContextManager[None]:
        """Open a read-only transaction that sees one state of the ledger."""

    @abstractmethod
    def run(self, sql: str, values: Values = ()) -> Any:
        """Return a cursor of one statement; parameters are written as question marks."""

    @abstractmethod
    def stream(self, sql: str, values: Values = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a statement, which need not fit in memory."""

    @abstractmethod
    def explain(self, error: Exception) -> HushmeterError | None:
        """Return an error of the database as one sentence, or None if it is another error."""

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raise errors of the database again as one sentence."""
        try:
            yield
        except HushmeterError:
            raise
        except Exception as error:
            explained = self.explain(error)
            if explained is None:
                raise
            raise explained from None

    def create_tables(self) -> None:
        """Make the empty tables and their triggers. Needs a `write` transaction."""
        for statement in TABLES.format(**self.kinds).strip().split(";\n"):
            self.run(statement)
        for name in TRIGGERS:
            table, _, event = name.rpartition("_")
            only = f"WHEN ({_SHRINKS[name]})" if name in _SHRINKS else ""
            self.run(self.trigger.format(name=name, event=event.upper(), table=table, only=only))

    def head(self) -> Head:
        """Return the end of the chain."""
        found = self.run(
            "SELECT seq, hash FROM ledger_entries ORDER BY seq DESC LIMIT 1"
        ).fetchone()
        return Head(*found) if found else Head(0, START)

    def contains(self, head: Head) -> bool:
        """Return whether the chain has, or had, this end."""
        # Only a head without its number is looked for in the whole chain.
        where, values = (" AND seq = ?", (head.count,)) if head.count else ("", ())
        sql = f"SELECT 1 FROM ledger_entries WHERE hash = ?{where}"
        return self.run(sql, (head.hash, *values)).fetchone() is not None

    def append(self, entry: Entry) -> None:
        """Add an entry to the chain. Needs a `write` transaction and `lock_head`."""
        self.run(
            f"INSERT INTO ledger_entries ({_ENTRY}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (entry.seq, entry.kind, entry.at, entry.release, entry.source, entry.batch,
             entry.body, entry.hash),
        )  # fmt: skip

    def first_entry(self) -> Entry | None:
        """Return the entry that opened the ledger, or None if it is missing."""
        found = self.run(f"SELECT {_ENTRY} FROM ledger_entries WHERE seq = 1").fetchone()
        return Entry(*found) if found else None

    def entry(self, kind: str, release: str, source: str) -> Entry | None:
        """Return the entry of this kind for a source of a release, or None."""
        found = self.run(
            f"SELECT {_ENTRY} FROM ledger_entries WHERE kind = ? AND release = ? AND source = ?",
            (kind, release, source),
        ).fetchone()
        return Entry(*found) if found else None

    def entries(self, kind: str | None = None) -> Iterator[Entry]:
        """Yield the whole chain, or the entries of one kind, from the first on."""
        where, values = ("WHERE kind = ? ", (kind,)) if kind else ("", ())
        sql = f"SELECT {_ENTRY} FROM ledger_entries {where}ORDER BY seq"
        return (Entry(*row) for row in self.stream(sql, values))

    def entries_of_batches(self, batches: Iterable[int]) -> dict[int, Entry]:
        """Return the entry of each batch that has one."""
        sql = f"SELECT {_ENTRY} FROM ledger_entries WHERE batch = ?"
        found = {batch: self.run(sql, (batch,)).fetchone() for batch in batches}
        return {batch: Entry(*row) for batch, row in found.items() if row}

    def rows(self) -> Iterator[Row]:
        """Yield every spend in order of batch, meter and period."""
        sql = f"SELECT {_ROW} FROM ledger_spends ORDER BY batch, meter, period, stream"
        return (Row(*row) for row in self.stream(sql))

    def rows_by_meter(self) -> Iterator[Row]:
        """Yield every spend in order of meter, stream and period."""
        sql = f"SELECT {_ROW} FROM ledger_spends ORDER BY meter, stream, period"
        return (Row(*row) for row in self.stream(sql))

    def spends_between(self, meters: Sequence[str], first: str, last: str) -> Iterator[Row]:
        """Yield the spends of some meters in periods from one to another, both included."""
        columns = ", ".join(f"s.{column}" for column in _ROW.split(", "))
        begin = period_at(ordinal(first) - LONGEST_RANGE, period_kind(first))
        sql = (
            f"SELECT {columns} FROM {self.wanted} CROSS JOIN ledger_spends s "
            f"WHERE s.meter = wanted.value AND s.period BETWEEN ? AND ? AND {self.end_of} >= ?"
        )
        # A range that begins with the last period is behind it in the order of labels.
        values = (_as_json(meters), begin, f"{last}~", len(first), first)
        for found in self.run(sql, values):
            for row in Row(*found).single_periods():
                if first <= row.period <= last:
                    yield row

    def any_period(self) -> str | None:
        """Return any period of the ledger, which holds either days or months, or None."""
        found = self.run("SELECT period FROM ledger_spends LIMIT 1").fetchone()
        return found[0].partition("/")[0] if found else None

    def caps(self, meters: Sequence[str]) -> dict[str, Cap]:
        """Return the caps of some meters, and the cap of all meters under `ALL_METERS`."""
        sql = (
            f"SELECT c.meter, c.total, c.width, c.most, c.delta FROM {self.wanted} "
            "CROSS JOIN ledger_caps c WHERE c.meter = wanted.value"
        )
        found = self.run(sql, (_as_json([ALL_METERS, *meters]),))
        return {name: _cap(*columns) for name, *columns in found}

    def all_caps(self) -> dict[str, Cap]:
        """Return every cap by the name of its meter."""
        found = self.run("SELECT meter, total, width, most, delta FROM ledger_caps ORDER BY meter")
        return {name: _cap(*columns) for name, *columns in found}

    def set_cap(self, name: str, cap: Cap) -> None:
        """Replace a cap and the ceilings of the balances under it.

        Needs a `write` transaction and the lock of the caps.
        """
        width, most = cap.window or (None, None)
        self.run(
            "INSERT INTO ledger_caps (meter, total, width, most, delta) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (meter) DO UPDATE SET total = excluded.total, width = excluded.width, "
            "most = excluded.most, delta = excluded.delta",
            (name, cap.total, width, most, cap.delta),
        )
        if name != ALL_METERS:
            self.run(
                "INSERT INTO ledger_balances (meter, spent, delta_spent) VALUES (?, 0, 0) "
                "ON CONFLICT DO NOTHING",
                (name,),
            )
        # A cap below what is already spent leaves no room. The ceiling is then what is spent,
        # because the CHECK constraint must hold for the past as well.
        for column, due in (("ceiling", _DUE), ("delta_ceiling", _DELTA_DUE)):
            self.run(
                f"UPDATE ledger_balances SET {column} = (SELECT {due} FROM ({_EFFECTIVE}) e "
                "WHERE e.meter = ledger_balances.meter)"
                + ("" if name == ALL_METERS else " WHERE meter = ?"),
                () if name == ALL_METERS else (name,),
            )

    def balances(self, meter: str | None, limit: int | None) -> list[tuple[str, Price]]:
        """Return what meters have spent, those that spent most first."""
        where, values = ("WHERE meter = ? ", [meter]) if meter is not None else ("", [])
        most = "" if limit is None else f" LIMIT {int(limit)}"
        sql = (
            f"SELECT meter, spent, delta_spent FROM ledger_balances {where}"
            f"ORDER BY spent DESC, meter{most}"
        )
        return [(name, Price(spent, delta)) for name, spent, delta in self.run(sql, values)]

    def history(self, meter: str) -> list[Row]:
        """Return every spend of a meter in order of period."""
        sql = f"SELECT {_ROW} FROM ledger_spends WHERE meter = ?"
        rows = [one for row in self.run(sql, (meter,)) for one in Row(*row).single_periods()]
        return sorted(rows, key=attrgetter("period", "stream"))

    def place(self, release: str) -> int | None:
        """Return the last place that a release has recorded, or None."""
        found = self.run("SELECT place FROM ledger_places WHERE release = ?", (release,)).fetchone()
        return None if found is None else int(found[0])

    def advance(self, release: str, place: int) -> bool:
        """Record a later place of a release; return False if it is not later than the last one."""
        done = self.run(
            "INSERT INTO ledger_places (release, place) VALUES (?, ?) ON CONFLICT (release) "
            "DO UPDATE SET place = excluded.place WHERE excluded.place > ledger_places.place",
            (release, place),
        )
        return bool(done.rowcount == 1)

    def lock_balances(self, meters: Sequence[str], everybody: Cap) -> dict[str, Price]:
        """Lock the balances of meters until the `write` transaction ends; return what is spent.

        The meters are sorted by name, so that no two writers wait for each other. A new one gets
        the cap of all meters as its ceiling.
        """
        names = _as_json(meters)
        self.run(
            "INSERT INTO ledger_balances (meter, spent, delta_spent, ceiling, delta_ceiling) "
            f"SELECT wanted.value, 0, 0, ?, ? FROM {self.wanted} WHERE true "
            "ORDER BY wanted.value ON CONFLICT DO NOTHING",
            (everybody.total, everybody.delta, names),
        )
        found = self.run(
            f"SELECT b.meter, b.spent, b.delta_spent FROM {self.wanted} "
            f"CROSS JOIN ledger_balances b WHERE b.meter = wanted.value {self.locked}",
            (names,),
        )
        return {meter: Price(micro, femto) for meter, micro, femto in found}

    def insert_spends(self, batch: int, stream: str, price: Price, rows: Spends) -> int:
        """Insert rows, sorted by meter and period, and return how many were new.

        A row has a meter, the label of its periods and their number; see `merge_periods`.
        """
        meter, label, count = self._cells()
        done = self.run(
            "INSERT INTO ledger_spends (meter, period, stream, micro, femto, batch) "
            f"SELECT {meter}, {label}, ?, {count} * ?, {count} * ?, ? FROM {self.listed} "
            "WHERE true ON CONFLICT DO NOTHING",
            (stream, *price, batch, _as_json(rows)),
        )
        return int(done.rowcount)

    def add_to_balances(self, price: Price, rows: Mapping[str, int]) -> None:
        """Add the price of a number of rows to balances that `lock_balances` has locked."""
        meter, _, count = self._cells()
        self.run(
            "INSERT INTO ledger_balances (meter, spent, delta_spent) "
            f"SELECT {meter}, {count} * ?, {count} * ? FROM {self.listed} WHERE true "
            "ON CONFLICT (meter) DO UPDATE SET spent = ledger_balances.spent + excluded.spent, "
            "delta_spent = ledger_balances.delta_spent + excluded.delta_spent",
            (*price, _as_json([(name, "", number) for name, number in rows.items()])),
        )

    def _cells(self) -> tuple[str, str, str]:
        """Return the SQL of the three cells of a row of `listed`: two texts and a number."""
        meter, label, count = (self.cell.format(number) for number in range(3))
        return meter, label, f"CAST({count} AS BIGINT)"

    def counts(self) -> tuple[int, int]:
        """Return how many meters have spent and how many spends there are."""
        meters = self.run("SELECT COUNT(*) FROM ledger_balances WHERE spent > 0").fetchone()[0]
        spends = self.run("SELECT COUNT(*) FROM ledger_spends").fetchone()[0]
        ranges = (
            "SELECT period, COUNT(*) FROM ledger_spends WHERE length(period) > 10 GROUP BY period"
        )
        for label, count in self.run(ranges):
            spends += (len(expand_periods(label)) - 1) * count
        return meters, spends

    def wrong_balances(self) -> Iterator[tuple[str, Price, Price]]:
        """Yield (meter, balance, sum of its spends) where the two differ."""
        sums = (
            "SELECT meter, CAST(SUM(micro) AS BIGINT) AS micro, "
            "CAST(SUM(femto) AS BIGINT) AS femto FROM ledger_spends GROUP BY meter"
        )
        for meter, *amounts in self.stream(
            "SELECT b.meter, b.spent, b.delta_spent, COALESCE(s.micro, 0), COALESCE(s.femto, 0) "
            f"FROM ledger_balances b LEFT JOIN ({sums}) s ON s.meter = b.meter "
            "WHERE b.spent <> COALESCE(s.micro, 0) OR b.delta_spent <> COALESCE(s.femto, 0)"
        ):
            yield meter, Price(*amounts[:2]), Price(*amounts[2:])
        for meter, *amounts in self.stream(
            f"SELECT s.meter, s.micro, s.femto FROM ({sums}) s LEFT JOIN ledger_balances b "
            "ON b.meter = s.meter WHERE b.meter IS NULL"
        ):
            yield meter, Price(0), Price(*amounts)

    def wrong_ceilings(self) -> list[str]:
        """Return the meters whose ceilings are not those of their caps."""
        sql = (
            f"SELECT e.meter FROM ({_EFFECTIVE}) e "
            f"WHERE COALESCE(e.ceiling, -1) <> COALESCE({_DUE}, -1) "
            f"OR COALESCE(e.delta_ceiling, -1) <> COALESCE({_DELTA_DUE}, -1)"
        )
        return [row[0] for row in self.run(sql)]


def no_ledger(name: str) -> DataError:
    """Return the error for a database that holds no ledger."""
    return DataError(
        f"there is no ledger at {name}; make one with `hushmeter ledger init --ledger URL --clamp "
        "0,15000`, or with `--change 3kW,8kWh` in place of the clamp."
    )


def _cap(total: int | None, width: int | None, most: int | None, delta: int | None) -> Cap:
    """Return the cap that a row of `ledger_caps` holds."""
    return Cap(total, None if width is None or most is None else (width, most), delta)
