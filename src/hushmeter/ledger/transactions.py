"""The work inside each write transaction of a ledger, and the requests that it serves.

Locks are taken in one order, so that no two writers wait for each other: first the caps, then the
meters of the request sorted by name, and last, for the shortest time, the end of the chain.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from operator import eq
from typing import Any

import numpy as np

from hushmeter.checks import IntArray, whole
from hushmeter.errors import BudgetError, DataError, InputError
from hushmeter.ledger.budget import (
    LONGEST_RANGE,
    Cap,
    KnownSpends,
    Refusal,
    decide,
    merge_caps,
    merge_periods,
    ordinal,
    period_at,
    period_kind,
)
from hushmeter.ledger.chain import SCHEMA, Entry, Head, batch_number, canonical, link, rows_hash
from hushmeter.ledger.charges import LARGEST, Price
from hushmeter.ledger.day_change import DayChange
from hushmeter.ledger.store import ALL_METERS, Store

LONGEST_NAME = 400
"""Most letters of a meter, a release, a source or a stream."""


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
    """The rows of one source of one release, checked and sorted; `check_request` makes it."""

    # As given to `Ledger.spend`
    charge: Charge
    price: Price  # Price of each row
    meters: Sequence[str]
    periods: Sequence[str]
    digest: str
    source: str
    pairs: list[tuple[str, str]]  # The rows (meter, period), sorted
    names: list[str]  # The meters, sorted, each once
    kind: str  # Kind of the periods

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


def check_request(
    charge: Charge,
    price: Price,
    meters: Sequence[str],
    periods: Sequence[str],
    digest: str,
    source: str,
) -> SpendRequest:
    """Check a request before any transaction; see `Ledger.spend` for the parameters."""
    texts = {"release": charge.release, "stream": charge.stream, "digest": digest, "source": source}
    for name, text in texts.items():
        check_name(name, text)
    for name, amount, least in (("micro", price.micro, 1), ("femto", price.femto, 0)):
        if whole(name, amount, least=least) > LARGEST:
            raise InputError(f"{name} must be at most {LARGEST}, got {amount}.")
    if len(meters) != len(periods):
        raise InputError(f"{len(meters)} meters do not match {len(periods)} periods.")
    names = sorted(check_name("meter", meter) for meter in set(meters))
    kinds = {period_kind(period) for period in set(periods)}
    if len(kinds) > 1:
        raise InputError(f"the periods of {source} must be all days or all months.")
    pairs = sorted(zip(meters, periods, strict=True))
    if any(map(eq, pairs, islice(pairs, 1, None))):
        raise InputError(f"{source} asks for the same (meter, period) twice.")
    return SpendRequest(
        charge,
        Price(int(price.micro), int(price.femto)),
        meters,
        periods,
        digest,
        source,
        pairs,
        names,
        next(iter(kinds), "day"),
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
    store.lock_caps_exclusive()
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
    store.lock_caps_shared()
    everybody = store.caps([]).get(ALL_METERS, Cap())
    spent = store.lock_balances(request.names, everybody)
    before = store.entry("spend", request.charge.release, request.source)
    if before is not None:
        _release_began(store, request.charge)
        return request.resume(before)
    known = _known_spends(store, request, spent, everybody)
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
    store.lock_caps_exclusive()
    cap = replace(store.caps([name]).get(name, Cap()), **change)
    store.set_cap(name, cap)
    body = canonical({"meter": name, **asdict(cap)})
    store.append(link(store.lock_head(), "cap", _now(), "", "", None, body))
    return cap


def _known_spends(
    store: Store, request: SpendRequest, spent: dict[str, Price], everybody: Cap
) -> KnownSpends:
    """Read what the ledger knows about the meters of a request."""
    _check_kind(store, request)
    own = store.caps(request.names)
    caps = {name: merge_caps(own.get(name), everybody) for name in request.names}
    caps = {name: cap for name, cap in caps.items() if cap != Cap()}
    reach = max((cap.window[0] for cap in caps.values() if cap.window), default=1) - 1
    first = period_at(ordinal(min(request.periods)) - reach, request.kind)
    last = period_at(ordinal(max(request.periods)) + reach, request.kind)
    nearby: dict[str, dict[int, int]] = {}
    taken: dict[tuple[str, str], int] = {}
    numbers: dict[str, int] = {}
    for row in store.spends_between(request.names, first, last):
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
