"""The ledger against the least a database can do: rows into a bare SQLite table."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from benchmarks.harness import Row, best_of, together
from hushmeter.apps.ledger import Charge, DayChange, Ledger, open_ledger

METERS, DAYS = 10_000, 30
ROWS = METERS * DAYS
PERIODS = [f"2024-04-{day + 1:02d}" for day in range(DAYS)] * METERS
CHARGE = Charge("bench", "load", {"epsilon": "0.5"})
ONE_BY_ONE = 300
DAY = DayChange.within(0, 15_000)


def rows() -> Iterator[Row]:
    """A file of a month of 10 000 meters, paid for by the day; and its verification."""
    with tempfile.TemporaryDirectory() as folder:
        yield from in_batches(Path(folder))
        yield one_by_one(Path(folder))


def in_batches(folder: Path) -> Iterator[Row]:
    """Whole batches, durable at the end of each, without and with caps."""
    bare = sqlite3.connect(folder / "bare.db")
    bare.execute("PRAGMA journal_mode=WAL")
    bare.execute("PRAGMA synchronous=FULL")
    bare.execute("CREATE TABLE spends (meter TEXT, period TEXT, stream TEXT, micro, batch)")
    fleets = (meters_of(number) for number in count())
    with (
        open_ledger(f"sqlite:///{folder / 'plain.db'}", create=DAY) as plain,
        open_ledger(f"sqlite:///{folder / 'capped.db'}", create=DAY) as capped,
    ):
        capped.set_cap(total=20, window=(30, 18))
        ours, with_caps, theirs = together(
            lambda: spend(plain, next(fleets)),
            lambda: spend(capped, next(fleets)),
            lambda: insert(bare, next(fleets)),
            repeat=4,
        )
        for name, taken, most in (("no caps", ours, 3.0), ("caps", with_caps, 4.0)):
            note = f"{ROWS / taken / 1e3:.0f} k spends/s, {ROWS / theirs / 1e3:.0f} k/s there"
            yield Row(
                f"ledger, {name}: time per spend", taken / theirs, "bare insert", most, note, True
            )
        total = plain.counts()[1]
        taken = best_of(plain.verify, 2)
        note = f"{total / taken / 1e3:.0f} k spends/s"
        yield Row("ledger: time to verify", taken / ours * ROWS / total, "spending", None, note)
    bare.close()


def one_by_one(folder: Path) -> Row:
    """A durable commit for every single spend: why a file is one batch."""
    bare = sqlite3.connect(folder / "single.db", isolation_level=None)
    bare.execute("PRAGMA journal_mode=WAL")
    bare.execute("PRAGMA synchronous=FULL")
    bare.execute("CREATE TABLE spends (meter TEXT)")
    numbers = count()
    with open_ledger(f"sqlite:///{folder / 'ones.db'}", create=DAY) as ledger:

        def ours() -> None:
            for _ in range(ONE_BY_ONE):
                spend(ledger, [f"m{next(numbers)}"], PERIODS[:1])

        def theirs() -> None:
            for _ in range(ONE_BY_ONE):
                bare.execute("INSERT INTO spends VALUES ('m')")

        taken, least = together(ours, theirs, repeat=2)
    bare.close()
    note = f"{ONE_BY_ONE / taken:.0f} spends/s"
    return Row("ledger, one by one: time per spend", taken / least, "bare commit", 2.0, note, True)


def meters_of(number: int) -> list[str]:
    """A new fleet, each meter once for every day."""
    return [f"{number:03d}-{meter:06d}" for meter in range(METERS) for _ in range(DAYS)]


def spend(ledger: Ledger, meters: list[str], periods: list[str] = PERIODS) -> None:
    """One batch."""
    ledger.spend(
        CHARGE, micro=500_000, meters=meters, periods=periods, digest="d", source=meters[0]
    )


def insert(bare: sqlite3.Connection, meters: list[str]) -> None:
    """The same rows, with no key, no cap, no hash."""
    with bare:
        bare.executemany(
            "INSERT INTO spends VALUES (?, ?, 'load', 500000, 1)",
            zip(meters, PERIODS, strict=True),
        )
