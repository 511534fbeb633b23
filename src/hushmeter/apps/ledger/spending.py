"""Spending: which charges fit under the caps of their meters, and the transactions that write them.

A period is a civil day or month of the ledger's time zone. A charge is the cost of the declared
change within its period, so the charges of a meter add up over periods and streams: ε to ε, and δ
to δ. A cap on the total bounds the sum of ε over all periods, and a cap on δ bounds the sum of δ. A
cap on windows bounds the sum of ε over any w periods in a row (w-event privacy).

Locks are taken in one order, so that no two writers wait for each other: first the caps, then the
meters of the request sorted by name, and last, for the shortest time, the end of the chain.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from operator import eq
from typing import Any

import numpy as np

from hushmeter.apps.ledger.chain import (
    LONGEST_RANGE,
    SCHEMA,
    Entry,
    Head,
    batch_number,
    canonical,
    link,
    merge_periods,
    ordinal,
    period_at,
    period_kind,
    rows_hash,
)
from hushmeter.apps.ledger.charges import (
    LARGEST,
    NOTHING,
    Cap,
    DayChange,
    Price,
    delta_text,
    epsilon_text,
    merge_caps,
)
from hushmeter.apps.ledger.store import ALL_METERS, Store
from hushmeter.checks import IntArray, whole
from hushmeter.errors import BudgetError, DataError, InputError

LONGEST_NAME = 400
"""Most letters of a meter, a release, a source or a stream."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A row that may not be released."""

    row: int  # Number of the row within the request
    # The row itself
    meter: str
    period: str
    reason: str  # Why it was refused; completes "the row is …"


@dataclass(frozen=True)
class KnownSpends:
    """What a ledger knows about the meters of a request before the decision."""

    # What every meter has spent so far; a meter without an entry has spent nothing
    spent: Mapping[str, Price]
    # Cap of every meter of the request that has one
    caps: Mapping[str, Cap] = field(default_factory=dict)
    # For every meter under a window cap: micro-ε by the ordinal of the period
    nearby: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    # (meter, period) already released in this stream, and the release that did so
    taken: Mapping[tuple[str, str], str] = field(default_factory=dict)


def decide(
    meters: Sequence[str], periods: Sequence[str], price: Price, known: KnownSpends
) -> tuple[list[int], list[Refusal]]:
    """Decide which rows are granted; the rows of a meter are served in order of period."""
    if not known.caps and not known.taken:
        return list(range(len(meters))), []
    numbers = {period: ordinal(period) for period in set(periods)}
    asked: dict[str, list[int]] = {}
    granted: list[int] = []
    refused: list[Refusal] = []
    for row, key in enumerate(zip(meters, periods, strict=True)):
        if key in known.taken:
            refused.append(Refusal(row, *key, f"already released by {known.taken[key]}"))
        else:
            asked.setdefault(key[0], []).append(row)
    for meter, rows in asked.items():
        cap, spent = known.caps.get(meter, Cap()), known.spent.get(meter, NOTHING)
        whole = Price(len(rows) * price.micro, len(rows) * price.femto)
        over = bool(_over_total(spent, whole, cap))
        if cap.window is not None and not over:
            full = Counter(known.nearby.get(meter))
            for row in rows:
                full[numbers[periods[row]]] += price.micro
            over = worst_window(full, cap.window[0])[0] > cap.window[1]
        # Most meters are far from their caps: all their rows are granted without a look at each.
        if not over:
            granted.extend(rows)
            continue
        rows.sort(key=periods.__getitem__)
        _decide_one_by_one(meter, rows, periods, price, known, numbers, granted, refused)
    return sorted(granted), sorted(refused, key=lambda refusal: refusal.row)


def worst_window(spends: Mapping[int, int], width: int) -> tuple[int, int]:
    """Find the largest sum over consecutive periods."""
    best, start, inside = 0, min(spends, default=0), 0
    days = sorted(spends)
    tail = 0
    for day in days:
        inside += spends[day]
        while days[tail] <= day - width:
            inside -= spends[days[tail]]
            tail += 1
        if inside > best:
            best, start = inside, days[tail]
    return best, start


def _decide_one_by_one(
    meter: str,
    rows: Iterable[int],
    periods: Sequence[str],
    price: Price,
    known: KnownSpends,
    numbers: Mapping[str, int],
    granted: list[int],
    refused: list[Refusal],
) -> None:
    """Decide the rows of one meter, which are in order of period, and append to both lists."""
    cap = known.caps.get(meter, Cap())
    spent = known.spent.get(meter, NOTHING)
    nearby = dict(known.nearby.get(meter, {}))
    for row in rows:
        number = numbers[periods[row]]
        reason = _over_total(spent, price, cap) or _over_window(nearby, number, price.micro, cap)
        if reason:
            refused.append(Refusal(row, meter, periods[row], reason))
            continue
        granted.append(row)
        spent = Price(spent.micro + price.micro, spent.femto + price.femto)
        nearby[number] = nearby.get(number, 0) + price.micro


def _over_total(spent: Price, price: Price, cap: Cap) -> str:
    """Return why a charge exceeds the cap on all periods, or an empty text."""
    if cap.total is not None and spent.micro + price.micro > cap.total:
        return (
            f"over the cap: the days of the customer so far cost ε = "
            f"{epsilon_text(spent.micro)} of {epsilon_text(cap.total)}, and this period costs "
            f"{epsilon_text(price.micro)}"
        )
    # A charge without δ is allowed even where an earlier cap is exceeded already.
    if cap.delta is not None and price.femto and spent.femto + price.femto > cap.delta:
        return (
            f"over the cap on δ: the days of the customer so far cost δ = "
            f"{delta_text(spent.femto)} of {delta_text(cap.delta)}, and this period costs "
            f"{delta_text(price.femto)}"
        )
    return ""


def _over_window(nearby: Mapping[int, int], number: int, micro: int, cap: Cap) -> str:
    """Return why a spend exceeds the cap on windows, or an empty text."""
    if cap.window is None:
        return ""
    width, most = cap.window
    around = {n: m for n, m in nearby.items() if abs(n - number) < width}
    around[number] = around.get(number, 0) + micro
    inside, _ = worst_window(around, width)
    if inside <= most:
        return ""
    return (
        f"over the cap on {width} periods in a row: they would cost ε = {epsilon_text(inside)} of "
        f"{epsilon_text(most)}"
    )


@dataclass(frozen=True)
class Charge:
    """What a release spends for."""

    release: str  # Identity of the release; a resumed job must give the same one
    stream: str  # Which series of the meter this is: a (meter, period) is spent once in each stream
    # Mechanism, ε, sensitivity, grid, clamp, unit of protection, version and so on. The ledger
    # records them once per release as canonical JSON.
    terms: Mapping[str, object]


@dataclass(frozen=True)
class SpendOutcome:
    """The answer to a request."""

    granted: IntArray  # Numbers of the rows that are paid for and may be released, ascending
    refused: tuple[Refusal, ...] = ()  # The other rows, each with its reason
    # True if the request was paid for before, so that nothing was charged this time
    resumed: bool = False


@dataclass(frozen=True)
class SpendRequest:
    """The rows of one source of one release; see `Ledger.spend` for the parts."""

    charge: Charge
    price: Price  # Price of each row
    meters: Sequence[str]
    periods: Sequence[str]
    digest: str
    source: str

    def __post_init__(self) -> None:
        source, charge = self.source, self.charge
        for meter in self.names:
            check_name("meter", meter)
        texts = {"release": charge.release, "stream": charge.stream, "digest": self.digest}
        for name, text in {**texts, "source": source}.items():
            check_name(name, text)
        price = Price(whole("micro", self.price.micro), whole("femto", self.price.femto, least=0))
        for name, amount in price._asdict().items():
            if amount > LARGEST:
                raise InputError(f"{name} must be at most {LARGEST}, got {amount}.")
        object.__setattr__(self, "price", price)
        if len(self.meters) != len(self.periods):
            raise InputError(f"{len(self.meters)} meters do not match {len(self.periods)} periods.")
        if len({period_kind(period) for period in set(self.periods)}) > 1:
            raise InputError(f"the periods of {source} must be all days or all months.")
        if any(map(eq, self.pairs, islice(self.pairs, 1, None))):
            raise InputError(f"{source} asks for the same (meter, period) twice.")

    @cached_property
    def pairs(self) -> list[tuple[str, str]]:
        """The rows (meter, period), sorted."""
        return sorted(zip(self.meters, self.periods, strict=True))

    @cached_property
    def names(self) -> list[str]:
        """The meters, sorted, each once."""
        return sorted(set(self.meters))

    @property
    def kind(self) -> str:
        """Kind of the periods."""
        return period_kind(self.periods[0])

    def sorted_pairs(self, rows: Sequence[int]) -> list[tuple[str, str]]:
        """Return the (meter, period) of some rows, sorted."""
        if len(rows) == len(self.pairs):
            return self.pairs
        return sorted((self.meters[row], self.periods[row]) for row in rows)

    def joined_rows(self, rows: Sequence[int]) -> list[tuple[str, str, int]]:
        """Return the rows of the table of spends for some rows of the request."""
        pairs = self.sorted_pairs(rows)
        # The price of a range must be an amount that a ledger can hold.
        if max(self.price) <= LARGEST // LONGEST_RANGE:
            return merge_periods(pairs)
        return [(meter, period, 1) for meter, period in pairs]

    def entry_body(
        self, charged: Sequence[tuple[str, str, int]], refused: Sequence[Refusal]
    ) -> str:
        """Return the body of the entry: the hash of the charged rows, and every refused row."""
        granted = {"rows": sum(count for *_, count in charged), "sha256": _hash(charged)}
        return canonical(
            {
                "digest": self.digest,
                "stream": self.charge.stream,
                "micro": self.price.micro,
                "femto": self.price.femto,
                "granted": granted,
                "refused": [[r.meter, r.period, r.reason] for r in refused],
            }
        )

    def resume(self, entry: Entry) -> SpendOutcome:
        """Return the outcome of the first time; raise `BudgetError` if the request differs."""
        facts = entry.facts
        reasons = {(meter, period): reason for meter, period, reason in facts["refused"]}
        granted: list[int] = []
        refused: list[Refusal] = []
        for row, key in enumerate(zip(self.meters, self.periods, strict=True)):
            if key in reasons:
                refused.append(Refusal(row, *key, reasons[key]))
            else:
                granted.append(row)
        price = Price(facts["micro"], facts["femto"])
        before = (facts["digest"], facts["stream"], price, facts["granted"]["sha256"])
        hashed = _hash(self.joined_rows(granted))
        if before != (self.digest, self.charge.stream, self.price, hashed):
            raise BudgetError(
                f"{self.source} of release {self.charge.release} was paid for with other content; "
                "corrected data need a release of their own, which spends again."
            )
        return SpendOutcome(np.array(granted, np.int64), tuple(refused), resumed=True)

    def refusal_sentence(self, refused: Sequence[Refusal]) -> str:
        """Return one sentence that explains why the whole request is refused."""
        first = refused[0]
        more = f", and {len(refused) - 1} more" if len(refused) > 1 else ""
        return (
            f"{self.source} is refused as a whole: meter {first.meter} in {first.period} is "
            f"{first.reason}{more}; nothing was charged."
        )


def check_name(kind: str, value: Any) -> str:
    """Return the name; raise `InputError` unless `is_name`."""
    if not is_name(value):
        raise InputError(
            f"{kind} must be printable text of at most {LONGEST_NAME} letters, got {value!r}."
        )
    return str(value)


def is_name(value: Any) -> bool:
    """Return whether both databases, their indexes and a CSV file store a name unchanged.

    Such a name is printable, not empty, and not longer than `LONGEST_NAME`.
    """
    return isinstance(value, str) and 0 < len(value) <= LONGEST_NAME and value.isprintable()


def create_ledger(store: Store, change: DayChange, composition_delta: float) -> None:
    """Make the empty tables and the first entry, which declares what every charge is for.

    It has a random number that no other ledger has.
    """
    store.lock("caps")
    if store.holds_ledger():
        return
    store.create_tables()
    facts = {
        "schema": SCHEMA,
        "nonce": secrets.token_hex(16),
        "protects": change.describe(),
        "composition_delta": composition_delta,
    }
    body = canonical(facts)
    store.append(link(store.head(), "opened", _now(), "", "", None, body))


def spend(store: Store, request: SpendRequest, all_or_nothing: bool) -> SpendOutcome:
    """Charge the rows that fit, or find that the request was charged before."""
    if not request.pairs:
        return SpendOutcome(np.zeros(0, np.int64))
    store.lock("caps, shared")
    caps = store.caps(request.names)
    spent = store.lock_balances(request.names, caps.get(ALL_METERS, Cap()))
    before = store.entry("spend", request.charge.release, request.source)
    if before is not None:
        _release_began(store, request.charge)
        return request.resume(before)
    known = _known_spends(store, request, spent, caps)
    granted, refused = decide(request.meters, request.periods, request.price, known)
    if all_or_nothing and refused:
        raise BudgetError(request.refusal_sentence(refused))
    if granted:
        _charge(store, request, granted, refused)
    return SpendOutcome(np.array(granted, np.int64), tuple(refused))


def mark_released(store: Store, charge: Charge, source: str, output_digest: str) -> None:
    """Record, once, that the output of a source is published."""
    release = charge.release
    head = store.lock_head()
    if store.entry("spend", release, source) is None:
        raise InputError(f"{source} of release {release} is not paid for.")
    body = canonical({"output": check_name("output_digest", output_digest)})
    before = store.entry("released", release, source)
    if before is None:
        store.append(link(head, "released", _now(), release, source, None, body))
    elif before.body != body:
        raise DataError(
            f"{source} of release {release} was released before with other content; "
            "publish neither version until the reason is known."
        )


def change_cap(store: Store, name: str, change: Mapping[str, Any]) -> Cap:
    """Set a cap; `change` has the fields of `Cap` that change, and the others stay."""
    store.lock("caps")
    cap = replace(store.caps([name]).get(name, Cap()), **change)
    store.set_cap(name, cap)
    body = canonical({"meter": name, **asdict(cap)})
    store.append(link(store.lock_head(), "cap", _now(), "", "", None, body))
    return cap


def _known_spends(
    store: Store, request: SpendRequest, spent: Mapping[str, Price], found: Mapping[str, Cap]
) -> KnownSpends:
    """Read what the ledger knows about the meters of a request."""
    _check_kind(store, request)
    everybody = found.get(ALL_METERS, Cap())
    caps = {name: merge_caps(found.get(name), everybody) for name in request.names}
    caps = {name: cap for name, cap in caps.items() if cap != Cap()}
    reach = max((cap.window[0] for cap in caps.values() if cap.window), default=1) - 1
    first = period_at(ordinal(min(request.periods)) - reach, request.kind)
    last = period_at(ordinal(max(request.periods)) + reach, request.kind)
    nearby: dict[str, dict[int, int]] = {}
    taken: dict[tuple[str, str], int] = {}
    numbers: dict[str, int] = {}
    # A meter whose balance is zero has no rows.
    known = [name for name in request.names if spent.get(name, NOTHING).micro]
    for row in store.spends_between(known, first, last) if known else ():
        number = numbers.get(row.period) or numbers.setdefault(row.period, ordinal(row.period))
        of_meter = nearby.setdefault(row.meter, {})
        of_meter[number] = of_meter.get(number, 0) + row.micro
        if row.stream == request.charge.stream:
            taken[row.meter, row.period] = row.batch
    owners = store.entries_of_batches(set(taken.values()))
    words = {
        number: f"release {owners[number].release}" if number in owners else "an unknown release"
        for number in set(taken.values())
    }
    return KnownSpends(spent, caps, nearby, {key: words[number] for key, number in taken.items()})


def _check_kind(store: Store, request: SpendRequest) -> None:
    """Refuse months in a ledger of days and the reverse: the unique key could not compare them."""
    period = store.any_period()
    if period is None:
        # The first spend of a ledger decides, so candidates for the first spend take turns.
        store.lock_head()
        period = store.any_period()
    if period is not None and period_kind(period) != request.kind:
        kind = period_kind(period)
        raise DataError(
            f"the ledger {store.name} counts by {kind} and the release by {request.kind}; "
            f"release by {kind}, or keep another ledger."
        )


def _charge(
    store: Store, request: SpendRequest, granted: list[int], refused: list[Refusal]
) -> None:
    """Write the granted rows, the balances and the entry."""
    rows = request.joined_rows(granted)
    charge, number = request.charge, batch_number(request.charge.release, request.source)
    if store.insert_spends(number, charge.stream, request.price, rows) != len(rows):
        raise BudgetError(
            f"another release took some (meter, period) of {request.source} meanwhile; "
            "nothing was charged, run it again."
        )
    periods: Counter[str] = Counter()
    for meter, _, count in rows:
        periods[meter] += count
    store.add_to_balances(request.price, periods)
    body = request.entry_body(rows, refused)
    head = _record_release(store, store.lock_head(), charge)
    store.append(link(head, "spend", _now(), charge.release, request.source, number, body))


def _record_release(store: Store, head: Head, charge: Charge) -> Head:
    """Record the terms of a release before its first spend, once, and return the new head."""
    if _release_began(store, charge):
        return head
    entry = link(head, "release", _now(), charge.release, "", None, _terms(charge))
    store.append(entry)
    return Head(entry.seq, entry.hash)


def _release_began(store: Store, charge: Charge) -> bool:
    """Return whether a release has spent before; raise `InputError` if its terms differ."""
    before = store.entry("release", charge.release, "")
    if before is not None and before.body != _terms(charge):
        raise InputError(
            f"release {charge.release} was begun with other terms; "
            "resume it with the same terms, or begin another release."
        )
    return before is not None


def _hash(charged: Sequence[tuple[str, str, int]]) -> str:
    """Return the hash of the meters and labels of charged rows."""
    return rows_hash([(meter, label) for meter, label, _ in charged])


def _terms(charge: Charge) -> str:
    return canonical({"terms": dict(charge.terms)})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
