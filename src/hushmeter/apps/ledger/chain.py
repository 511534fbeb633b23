"""The hash chain of a ledger, the rows that it covers, and the verification that replays it.

Every entry (the opening, a release, a spend, a publication, a cap) carries the SHA-256 of the
previous hash and of its own content. The content of a spend includes the hash of its rows. Anyone
who changes, removes, inserts or reorders an entry must forge every later hash. This is impossible
once a later hash, the high-water mark, is kept elsewhere. The same mark is needed to detect that
the end of the chain is missing.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from hushmeter.apps.ledger.charges import Cap
from hushmeter.errors import InputError

if TYPE_CHECKING:
    from hushmeter.apps.ledger.store import Store

START = "0" * 64
"""Hash before the first entry."""

SCHEMA = "hushmeter-ledger-4"
"""Version of the tables and of the entries; the first entry records it."""

SHORTEST_RANGE = 7
"""Fewest periods in a row of a meter that are one row of a ledger."""

LONGEST_RANGE = 400
"""Most periods of such a row; it bounds how far back a look-up has to go."""


@dataclass(frozen=True)
class Entry:
    """One link of the chain."""

    seq: int  # Number of the entry: 1, 2, 3, …
    kind: str  # "opened", "release", "spend", "released" or "cap"
    at: str  # Time of the entry, UTC
    # The release and its input file; empty where the kind has none
    release: str
    source: str
    batch: int | None  # Number that the rows of a spend carry
    body: str  # The facts, as canonical JSON
    hash: str  # SHA-256 of the previous hash and of all other fields

    @property
    def facts(self) -> dict[str, Any]:
        """The body as a dictionary."""
        facts: dict[str, Any] = json.loads(self.body)
        return facts


@dataclass(frozen=True)
class Head:
    """The end of the chain, or high-water mark: the number of entries and the last hash."""

    count: int  # Number of entries; 0 if only the hash is known
    hash: str  # Hash of the last entry

    def __str__(self) -> str:
        return f"{self.count}:{self.hash}"

    @classmethod
    def parse(cls, text: str) -> Head:
        """Read a head as the commands print it."""
        match = re.fullmatch(r"(?:(\d+):)?([0-9a-f]{64})", text.strip().lower())
        if match is None:
            raise InputError(
                f"a head must be COUNT:HASH as `hushmeter ledger show` prints it, got {text!r}."
            )
        return cls(int(match[1] or 0), match[2])


class Row(NamedTuple):
    """One row of the table of spends: one period of a meter, or several in a row.

    The amounts are those of all its periods together.
    """

    batch: int
    meter: str
    period: str
    stream: str
    micro: int
    femto: int

    @property
    def size(self) -> int:
        """Number of periods; 1 if the label of the row cannot be read."""
        try:
            return len(expand_periods(self.period))
        except InputError:
            return 1

    def single_periods(self) -> Iterator[Row]:
        """Yield one row for each period."""
        periods = expand_periods(self.period)
        micro, femto = self.micro // len(periods), self.femto // len(periods)
        for period in periods:
            yield Row(self.batch, self.meter, period, self.stream, micro, femto)


def period_kind(period: str) -> str:
    """Return "day" or "month"; raise `InputError` for any other text."""
    ordinal(period)
    return "day" if len(period) == 10 else "month"


def ordinal(period: str) -> int:
    """Return the number of a day ("2024-03-01") or a month ("2024-03").

    Consecutive periods have consecutive numbers.
    """
    try:
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", period, re.ASCII):
            return date.fromisoformat(period).toordinal()
        if re.fullmatch(r"\d{4}-\d{2}", period, re.ASCII):
            first = date.fromisoformat(f"{period}-01")
            return first.year * 12 + first.month
    except (TypeError, ValueError):
        pass
    raise InputError(f"a period must be a day 2024-03-01 or a month 2024-03, got {period!r}.")


@lru_cache(maxsize=1024)
def expand_periods(label: str) -> tuple[str, ...]:
    """Return the periods that a row of a ledger covers; most meters of a fleet have the same."""
    first, mark, last = label.partition("/")
    if not mark:
        return (label,)
    kind = period_kind(first)
    numbers = range(ordinal(first), ordinal(last) + 1)
    if kind != period_kind(last) or not 1 < len(numbers) <= LONGEST_RANGE:
        raise InputError(f"{label!r} is not a range of periods.")
    return tuple(period_at(number, kind) for number in numbers)


def merge_periods(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str, int]]:
    """Join periods in a row of the same meter to ranges."""
    found: list[tuple[str, str, int]] = []
    # Most meters of a fleet have the same periods, which are joined once.
    known: dict[tuple[str, ...], list[tuple[str, int]]] = {}
    for meter, group in groupby(pairs, itemgetter(0)):
        periods = tuple(period for _, period in group)
        labels = known.get(periods)
        if labels is None:
            labels = known[periods] = _join_periods(periods)
        found += [(meter, label, count) for label, count in labels]
    return found


def _join_periods(periods: Sequence[str]) -> list[tuple[str, int]]:
    """Join the sorted periods of one meter; return labels and numbers of periods."""
    runs: list[list[str]] = []
    last = None
    for period in periods:
        number = ordinal(period)
        if last is not None and number == last + 1 and len(runs[-1]) < LONGEST_RANGE:
            runs[-1].append(period)
        else:
            runs.append([period])
        last = number
    labels: list[tuple[str, int]] = []
    for run in runs:
        if len(run) < SHORTEST_RANGE:
            labels += [(period, 1) for period in run]
        else:
            labels.append((f"{run[0]}/{run[-1]}", len(run)))
    return labels


def period_at(number: int, kind: str) -> str:
    """Return the period with this ordinal; beyond the calendar, its first or last period."""
    if kind == "day":
        return date.fromordinal(min(max(number, 1), date.max.toordinal())).isoformat()
    year, month = divmod(min(max(number, 13), 9999 * 12 + 12) - 1, 12)
    return f"{year:04d}-{month + 1:02d}"


def canonical(value: Any) -> str:
    """Encode a value as JSON with sorted keys and no spaces; equal values give equal text."""
    return json.dumps(
        value, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )


def rows_hash(pairs: Sequence[tuple[str, str]]) -> str:
    """Compute the SHA-256 of rows (meter, label of the periods) in the given order."""
    return hashlib.sha256(canonical(pairs).encode()).hexdigest()


def batch_number(release: str, source: str) -> int:
    """Compute the 63-bit number that the rows of one source of one release carry."""
    digest = hashlib.sha256(canonical([release, source]).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def link(
    previous: Head, kind: str, at: str, release: str, source: str, batch: int | None, body: str
) -> Entry:
    """Make the entry that follows `previous`; see `Entry` for the other parameters."""
    seq = previous.count + 1
    content = canonical([previous.hash, seq, kind, at, release, source, batch, body])
    digest = hashlib.sha256(content.encode()).hexdigest()
    return Entry(seq, kind, at, release, source, batch, body, digest)


def find_problems(store: Store, triggers: Iterable[str], head: Head | None = None) -> Iterator[str]:
    """Replay a ledger in one pass over its chain and one over its rows."""
    missing = sorted(set(triggers) - store.triggers())
    if missing:
        yield f"triggers that keep the ledger append-only are missing: {', '.join(missing)}."
    replay = _Replay()
    yield from _check_links(replay.record(store.entries()), head)
    yield from replay.problems
    yield from _check_rows(store.rows(), replay.spends)
    yield from _check_overlaps(store.rows_by_meter())
    for meter, balance, total in store.wrong_balances():
        yield (
            f"meter {meter}: the balance is {_amounts(*balance)}, but its spends add up to "
            f"{_amounts(*total)}."
        )
    if store.all_caps() != replay.caps:
        yield "the caps are not those that the chain records."
    for meter in store.wrong_ceilings():
        yield f"meter {meter}: the ceiling of its balance is not that of its cap."


@dataclass(frozen=True)
class _RecordedSpend:
    """What the chain records about the rows of a batch."""

    where: str
    rows: int
    sha256: str
    stream: str
    micro: int
    femto: int


class _Replay:
    """The facts of the chain with which the rest of the ledger must agree."""

    def __init__(self) -> None:
        self.spends: dict[int, _RecordedSpend] = {}
        self.caps: dict[str, Cap] = {}
        self.seen: set[tuple[str, str, str]] = set()
        self.problems: list[str] = []

    def record(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """Pass entries on and keep their facts; an unreadable body is a problem."""
        for entry in entries:
            try:
                self._record(entry)
            except (ValueError, TypeError, LookupError):
                self.problems.append(f"entry {entry.seq} ({entry.kind}) cannot be read.")
            yield entry

    def _record(self, entry: Entry) -> None:
        """Keep the facts of one entry and check its order among the entries of its source."""
        facts = entry.facts
        if entry.kind == "cap":
            window = facts["window"]
            self.caps[facts["meter"]] = Cap(
                facts["total"], window and tuple(window), facts["delta"]
            )
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
            self._record_spend(entry, facts, where)

    def _record_spend(self, entry: Entry, facts: dict[str, Any], where: str) -> None:
        """Keep what a spend says about its rows."""
        if ("release", entry.release, "") not in self.seen:
            self.problems.append(f"{where}: that release never began.")
        number = batch_number(entry.release, entry.source)
        if entry.batch != number:
            self.problems.append(f"{where} points to the rows of another source.")
        granted = facts["granted"]
        self.spends[number] = _RecordedSpend(
            where,
            granted["rows"],
            granted["sha256"],
            facts["stream"],
            facts["micro"],
            facts["femto"],
        )


def _check_links(entries: Iterable[Entry], head: Head | None) -> Iterator[str]:
    """Yield one sentence for every break of the chain, and one if `head` is not in it."""
    previous = Head(0, START)
    found_head = head is None
    for entry in entries:
        if entry.seq != previous.count + 1:
            yield f"entries {previous.count + 1} to {entry.seq - 1} are missing."
            previous = Head(entry.seq - 1, previous.hash)
        expected = link(
            previous, entry.kind, entry.at, entry.release, entry.source, entry.batch, entry.body
        )
        if expected.hash != entry.hash:
            yield (
                f"entry {entry.seq} ({entry.kind} of {entry.at}) was changed, or does not follow "
                "the entry before it."
            )
        previous = Head(entry.seq, entry.hash)
        if head is not None and head in (previous, Head(0, entry.hash)):
            found_head = True
    if previous.count == 0:
        yield "the ledger has no entries, not even its first."
    if not found_head:
        yield (
            f"the high-water mark {head} is not in the chain, which now ends at {previous}: the "
            "ledger was cut, replaced or restored from an older backup."
        )


def _check_rows(rows: Iterable[Row], spends: dict[int, _RecordedSpend]) -> Iterator[str]:
    """Compare the rows, in order of (batch, meter, period), with the entries that cover them."""
    unseen = dict(spends)
    for batch, group in groupby(rows, key=attrgetter("batch")):
        members = list(group)
        recorded = unseen.pop(batch, None)
        if recorded is None:
            first = members[0]
            yield (
                f"{_count(members)} without an entry, the first of meter {first.meter} in "
                f"{first.period}."
            )
        else:
            yield from _check_batch(members, recorded)
    for recorded in unseen.values():
        yield f"{recorded.where}: all its spends are missing."


def _check_overlaps(rows: Iterable[Row]) -> Iterator[str]:
    """Look for periods of a meter that were spent twice, in rows sorted by meter and stream.

    The unique key of the table compares whole ranges, so it cannot detect this.
    """
    for (meter, stream), group in groupby(rows, key=attrgetter("meter", "stream")):
        last = ""
        for row in group:
            first, _, end = row.period.partition("/")
            if first <= last:
                yield f"meter {meter}: {first} was spent twice in stream {stream}."
            last = max(last, end or first)


def _check_batch(rows: list[Row], recorded: _RecordedSpend) -> Iterator[str]:
    """Compare the rows of one batch with its entry."""
    if sum(row.size for row in rows) != recorded.rows:
        yield f"{recorded.where}: {_count(rows)} found, but {recorded.rows} were recorded."
    elif rows_hash([(row.meter, row.period) for row in rows]) != recorded.sha256:
        yield f"{recorded.where}: a meter or a period of its spends was changed."
    for row in rows:
        due = (recorded.micro * row.size, recorded.femto * row.size)
        if (row.micro, row.femto, row.stream) != (*due, recorded.stream):
            yield (
                f"{recorded.where}: the spend of meter {row.meter} in {row.period} is "
                f"{_amounts(row.micro, row.femto)} in stream {row.stream}, but the entry records "
                f"{_amounts(*due)} in {recorded.stream}."
            )


def _amounts(micro: int, femto: int) -> str:
    return f"{micro} micro-ε and {femto} femto-δ"


def _count(rows: Sequence[Row]) -> str:
    count = sum(row.size for row in rows)
    return f"{count} spend{'s' if count != 1 else ''}"
