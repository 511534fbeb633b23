"""Replaying a ledger: one sentence for everything that does not fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any

from hushmeter.fleet.ledger.budget import Cap
from hushmeter.fleet.ledger.chain import START, Entry, Head, Row, batch_number, link, rows_hash
from hushmeter.fleet.ledger.schema import TRIGGERS
from hushmeter.fleet.ledger.store import Store


@dataclass(frozen=True)
class Recorded:
    """What the chain says about the rows of a batch."""

    where: str
    rows: int
    sha256: str
    stream: str
    micro: int


class Replay:
    """What the rest of a ledger must agree with, gathered while its chain is read."""

    def __init__(self) -> None:
        self.spends: dict[int, Recorded] = {}
        self.caps: dict[str, Cap] = {}
        self.seen: set[tuple[str, str, str]] = set()
        self.problems: list[str] = []

    def note(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """Pass entries on and keep their facts; a body that cannot be read is a problem."""
        for entry in entries:
            try:
                self._note(entry)
            except (ValueError, TypeError, LookupError):
                self.problems.append(f"entry {entry.seq} ({entry.kind}) cannot be read.")
            yield entry

    def _note(self, entry: Entry) -> None:
        facts = entry.facts
        if entry.kind == "cap":
            window = facts["window"]
            self.caps[facts["meter"]] = Cap(facts["total"], window and tuple(window))
            return
        key = (entry.kind, entry.release, entry.source)
        where = f"entry {entry.seq} ({entry.source} of release {entry.release})"
        if key in self.seen:
            self.problems.append(
                f"entry {entry.seq} ({entry.kind}) repeats an earlier one of the same release and "
                "source."
            )
            return
        self.seen.add(key)
        if entry.kind == "released" and ("spend", *key[1:]) not in self.seen:
            self.problems.append(f"{where} was released before it was paid for.")
        elif entry.kind == "spend":
            self._note_spend(entry, facts, where)

    def _note_spend(self, entry: Entry, facts: dict[str, Any], where: str) -> None:
        if ("release", entry.release, "") not in self.seen:
            self.problems.append(f"{where}: that release never began.")
        number = batch_number(entry.release, entry.source)
        if entry.batch != number:
            self.problems.append(f"{where} points to the rows of another source.")
        granted = facts["granted"]
        self.spends[number] = Recorded(
            where, granted["rows"], granted["sha256"], facts["stream"], facts["micro"]
        )


def find_problems(store: Store, head: Head | None = None) -> Iterator[str]:
    """Everything wrong with a ledger, read in one pass over its chain and one over its rows."""
    missing = sorted(set(TRIGGERS) - store.triggers())
    if missing:
        yield f"triggers that keep the ledger append-only are missing: {', '.join(missing)}."
    replay = Replay()
    yield from check_chain(replay.note(store.entries()), head)
    yield from replay.problems
    yield from check_rows(store.rows(), replay.spends)
    for meter, balance, total in store.unbalanced():
        yield f"meter {meter}: the balance says {balance} micro-ε, its spends {total}."
    if store.all_caps() != replay.caps:
        yield "the caps are not those that the chain records."
    for meter in store.uncapped():
        yield f"meter {meter}: the ceiling of its balance is not that of its cap."


def check_chain(entries: Iterable[Entry], head: Head | None = None) -> Iterator[str]:
    """One sentence for every break of the chain, and if `head` is not in it."""
    previous = Head(0, START)
    marked = head is None
    for entry in entries:
        if entry.seq != previous.count + 1:
            yield f"entries {previous.count + 1} to {entry.seq - 1} are missing."
            previous = Head(entry.seq - 1, previous.hash)
        due = link(
            previous, entry.kind, entry.at, entry.release, entry.source, entry.batch, entry.body
        )
        if due.hash != entry.hash:
            yield (
                f"entry {entry.seq} ({entry.kind} of {entry.at}) was changed, or does not follow "
                "the entry before it."
            )
        previous = Head(entry.seq, entry.hash)
        if head is not None and head in (previous, Head(0, entry.hash)):
            marked = True
    if previous.count == 0:
        yield "the ledger has no entries, not even its first."
    if not marked and head is not None:
        yield (
            f"the high-water mark {head} is not in the chain, which now ends at {previous}: "
            "the ledger was cut, replaced or restored from an older backup."
        )


def check_rows(rows: Iterable[Row], spends: dict[int, Recorded]) -> Iterator[str]:
    """Compare the rows, in order of (batch, meter, period), with the entries that cover them."""
    unseen = dict(spends)
    for batch, group in groupby(rows, key=attrgetter("batch")):
        members = list(group)
        recorded = unseen.pop(batch, None)
        if recorded is None:
            first = members[0]
            yield (
                f"{_count(members)} belong to no entry, the first of meter {first.meter} in "
                f"{first.period}."
            )
        else:
            yield from _check_batch(members, recorded)
    for recorded in unseen.values():
        yield f"{recorded.where}: all its spends are missing."


def _check_batch(rows: list[Row], recorded: Recorded) -> Iterator[str]:
    if len(rows) != recorded.rows:
        yield f"{recorded.where}: {_count(rows)} found where {recorded.rows} were recorded."
    elif rows_hash([(row.meter, row.period) for row in rows]) != recorded.sha256:
        yield f"{recorded.where}: a meter or a period of its spends was changed."
    for row in rows:
        if row.micro != recorded.micro or row.stream != recorded.stream:
            yield (
                f"{recorded.where}: the spend of meter {row.meter} in {row.period} says "
                f"{row.micro} micro-ε in stream {row.stream}; recorded are {recorded.micro} in "
                f"{recorded.stream}."
            )


def _count(rows: Sequence[Row]) -> str:
    return f"{len(rows)} spend{'s' if len(rows) != 1 else ''}"
