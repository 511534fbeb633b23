"""What a ledger asks of its database, in SQL that SQLite and PostgreSQL share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from hushmeter.errors import DataError
from hushmeter.fleet.ledger.budget import Cap
from hushmeter.fleet.ledger.chain import START, Entry, Head, Row

T = TypeVar("T")
Values = Sequence[Any]
Pairs = Sequence[tuple[str, str]]

EVERYBODY = ""
"""Name in `ledger_caps` under which the cap of all meters stands."""

_ENTRY = "seq, kind, at, release, source, batch, body, hash"
_ROW = "batch, meter, period, stream, micro"
_EFFECTIVE = """
    SELECT b.meter, b.spent, b.ceiling,
           COALESCE(own.total, (SELECT total FROM ledger_caps WHERE meter = '')) AS total
    FROM ledger_balances b LEFT JOIN ledger_caps own ON own.meter = b.meter
"""


class Store(ABC):
    """A database that holds a ledger; what it is asked and told stands in `write` or `reading`."""

    wanted: str
    """A list parameter as a table `wanted` with one column `value`."""

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def present(self) -> bool:
        """Whether the database holds a ledger."""

    @abstractmethod
    def create(self) -> None:
        """Make the empty tables."""

    @abstractmethod
    def write(self, work: Callable[[], T]) -> T:
        """Do `work` in one durable transaction; undo all of it if it raises."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[None]:
        """A transaction that sees one state of the ledger."""

    @abstractmethod
    def run(self, sql: str, values: Values = ()) -> Any:
        """A cursor of one statement; parameters are written as question marks."""

    @abstractmethod
    def stream(self, sql: str, values: Values = ()) -> Iterator[tuple[Any, ...]]:
        """Rows of a statement that need not fit in memory."""

    @abstractmethod
    def listed(self, values: Sequence[str]) -> Any:
        """A list as the parameter of `wanted`."""

    @abstractmethod
    def share_caps(self) -> None:
        """Keep caps from changing until the transaction ends."""

    @abstractmethod
    def own_caps(self) -> None:
        """Keep every spend out until the transaction ends."""

    @abstractmethod
    def lock(self, meters: Sequence[str], ceiling: int | None) -> dict[str, int]:
        """What each meter has spent; no other writer may change it before the transaction ends.

        A meter without a balance gets one, with the `ceiling`.
        """

    @abstractmethod
    def lock_head(self) -> Head:
        """The end of the chain; no other writer may extend it before the transaction ends."""

    @abstractmethod
    def insert(self, batch: int, stream: str, micro: int, pairs: Pairs) -> int:
        """Insert spends, sorted by meter and period; how many were new."""

    @abstractmethod
    def add(self, amounts: Mapping[str, int]) -> None:
        """Add to balances that `lock` has made."""

    @abstractmethod
    def triggers(self) -> set[str]:
        """Names of the triggers in force."""

    @abstractmethod
    def close(self) -> None:
        """Give the connection back."""

    def head(self) -> Head:
        """The end of the chain."""
        found = self.run(
            "SELECT seq, hash FROM ledger_entries ORDER BY seq DESC LIMIT 1"
        ).fetchone()
        return Head(*found) if found else Head(0, START)

    def append(self, entry: Entry) -> None:
        """Add a link to the chain."""
        self.run(
            f"INSERT INTO ledger_entries ({_ENTRY}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (entry.seq, entry.kind, entry.at, entry.release, entry.source, entry.batch,
             entry.body, entry.hash),
        )  # fmt: skip

    def entry(self, kind: str, release: str, source: str) -> Entry | None:
        """The entry of this kind for a source of a release."""
        found = self.run(
            f"SELECT {_ENTRY} FROM ledger_entries WHERE kind = ? AND release = ? AND source = ?",
            (kind, release, source),
        ).fetchone()
        return Entry(*found) if found else None

    def entries(self, kind: str | None = None) -> Iterator[Entry]:
        """The chain, or the links of one kind, from the first on."""
        where, values = ("WHERE kind = ? ", (kind,)) if kind else ("", ())
        sql = f"SELECT {_ENTRY} FROM ledger_entries {where}ORDER BY seq"
        return (Entry(*row) for row in self.stream(sql, values))

    def owners(self, batches: Iterable[int]) -> dict[int, Entry]:
        """The entries of batches."""
        sql = f"SELECT {_ENTRY} FROM ledger_entries WHERE batch = ?"
        found = {batch: self.run(sql, (batch,)).fetchone() for batch in batches}
        return {batch: Entry(*row) for batch, row in found.items() if row}

    def rows(self) -> Iterator[Row]:
        """Every spend in order of batch, meter and period."""
        sql = f"SELECT {_ROW} FROM ledger_spends ORDER BY batch, meter, period, stream"
        return (Row(*row) for row in self.stream(sql))

    def near(self, meters: Sequence[str], first: str, last: str) -> Iterator[Row]:
        """Spends of some meters in a span of periods."""
        columns = ", ".join(f"s.{column}" for column in _ROW.split(", "))
        sql = (
            f"SELECT {columns} FROM {self.wanted} CROSS JOIN ledger_spends s "
            "WHERE s.meter = wanted.value AND s.period BETWEEN ? AND ?"
        )
        return (Row(*row) for row in self.run(sql, (self.listed(meters), first, last)))

    def some_period(self) -> str | None:
        """Any period of the ledger; they are all of one kind."""
        found = self.run("SELECT period FROM ledger_spends LIMIT 1").fetchone()
        return found[0] if found else None

    def caps(self, meters: Sequence[str]) -> dict[str, Cap]:
        """Caps that stand under some names, `EVERYBODY` for that of all meters."""
        sql = (
            f"SELECT c.meter, c.total, c.width, c.most FROM {self.wanted} "
            "CROSS JOIN ledger_caps c WHERE c.meter = wanted.value"
        )
        found = self.run(sql, (self.listed([EVERYBODY, *meters]),))
        return {name: _cap(total, width, most) for name, total, width, most in found}

    def all_caps(self) -> dict[str, Cap]:
        """Every cap by name."""
        found = self.run("SELECT meter, total, width, most FROM ledger_caps ORDER BY meter")
        return {name: _cap(total, width, most) for name, total, width, most in found}

    def set_cap(self, name: str, cap: Cap) -> None:
        """Replace a cap, and the ceilings of the balances that it rules."""
        width, most = cap.window or (None, None)
        self.run(
            "INSERT INTO ledger_caps (meter, total, width, most) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (meter) DO UPDATE SET total = excluded.total, width = excluded.width, "
            "most = excluded.most",
            (name, cap.total, width, most),
        )
        if name != EVERYBODY:
            self.run(
                "INSERT INTO ledger_balances (meter, spent) VALUES (?, 0) ON CONFLICT DO NOTHING",
                (name,),
            )
        # A cap below what is spent leaves no room, but cannot undo the past.
        self.run(
            "UPDATE ledger_balances SET ceiling = (SELECT CASE WHEN e.total < e.spent THEN e.spent "
            f"ELSE e.total END FROM ({_EFFECTIVE}) e WHERE e.meter = ledger_balances.meter)"
            + ("" if name == EVERYBODY else " WHERE meter = ?"),
            () if name == EVERYBODY else (name,),
        )

    def balances(self, meter: str | None, limit: int | None) -> list[tuple[str, int, int | None]]:
        """(meter, spent, cap on the total), those who spent most first."""
        where, values = ("WHERE b.meter = ? ", [meter]) if meter is not None else ("", [])
        most = "" if limit is None else f" LIMIT {int(limit)}"
        sql = (
            f"SELECT e.meter, e.spent, e.total FROM ({_EFFECTIVE} {where}) e "
            f"ORDER BY e.spent DESC, e.meter{most}"
        )
        return self.run(sql, values).fetchall()  # type: ignore[no-any-return]

    def history(self, meter: str) -> list[Row]:
        """Every spend of a meter in order of period."""
        sql = f"SELECT {_ROW} FROM ledger_spends WHERE meter = ? ORDER BY period, stream"
        return [Row(*row) for row in self.run(sql, (meter,))]

    def counts(self) -> tuple[int, int]:
        """How many meters and how many spends there are."""
        meters = self.run("SELECT COUNT(*) FROM ledger_balances WHERE spent > 0").fetchone()[0]
        return meters, self.run("SELECT COUNT(*) FROM ledger_spends").fetchone()[0]

    def unbalanced(self) -> Iterator[tuple[str, int, int]]:
        """(meter, balance, sum of its spends) where the two differ."""
        sums = "SELECT meter, CAST(SUM(micro) AS BIGINT) AS total FROM ledger_spends GROUP BY meter"
        yield from self.stream(
            f"SELECT b.meter, b.spent, COALESCE(s.total, 0) FROM ledger_balances b "
            f"LEFT JOIN ({sums}) s ON s.meter = b.meter WHERE b.spent <> COALESCE(s.total, 0)"
        )
        yield from self.stream(
            f"SELECT s.meter, 0, s.total FROM ({sums}) s LEFT JOIN ledger_balances b "
            "ON b.meter = s.meter WHERE b.meter IS NULL"
        )

    def uncapped(self) -> list[str]:
        """Meters whose ceiling is not that of their cap."""
        due = "CASE WHEN e.total < e.spent THEN e.spent ELSE e.total END"
        sql = (
            f"SELECT e.meter FROM ({_EFFECTIVE}) e "
            f"WHERE COALESCE(e.ceiling, 0) <> COALESCE({due}, 0)"
        )
        return [row[0] for row in self.run(sql)]


def _cap(total: int | None, width: int | None, most: int | None) -> Cap:
    return Cap(total, None if width is None or most is None else (width, most))


def absent(name: str) -> DataError:
    """The answer where no ledger is."""
    return DataError(
        f"there is no ledger at {name}; make one with `hushmeter ledger init --ledger URL`."
    )
