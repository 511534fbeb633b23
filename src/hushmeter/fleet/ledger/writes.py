"""What writes to a ledger, each the inside of one transaction.

Locks are taken in one order, so that no two writers wait for each other: the caps, the meters of
the batch sorted by name, last and shortest the end of the chain.
"""

from __future__ import annotations

import secrets
from collections import Counter
from datetime import UTC, datetime
from operator import itemgetter

import numpy as np

from hushmeter.errors import BudgetError, DataError, InputError
from hushmeter.fleet.ledger.batch import Batch, Charge, SpendOutcome, check_name
from hushmeter.fleet.ledger.budget import (
    Cap,
    Refusal,
    Standing,
    decide,
    merge_caps,
    ordinal,
    period_at,
    period_kind,
)
from hushmeter.fleet.ledger.chain import SCHEMA, Head, batch_number, canonical, link
from hushmeter.fleet.ledger.store import EVERYBODY, Store

Window = tuple[int, int]


def begin(store: Store) -> None:
    """The empty tables and the first entry, whose random number no other ledger has."""
    store.own_caps()
    if store.present():
        return
    store.create()
    body = canonical({"schema": SCHEMA, "nonce": secrets.token_hex(16)})
    store.append(link(store.head(), "opened", _now(), "", "", None, body))


def spend(store: Store, batch: Batch, all_or_nothing: bool) -> SpendOutcome:
    """Charge what fits of a batch, or find that it was charged before."""
    store.share_caps()
    everybody = store.caps([]).get(EVERYBODY, Cap())
    spent = store.lock(batch.names, everybody.total)
    before = store.entry("spend", batch.charge.release, batch.source)
    if before is not None:
        _release_began(store, batch.charge)
        return batch.resume(before)
    standing = _standing(store, batch, spent, everybody)
    granted, refused = decide(batch.meters, batch.periods, batch.micro, standing)
    if all_or_nothing and refused:
        raise BudgetError(batch.refusal(refused))
    if granted:
        _charge(store, batch, granted, refused)
    return SpendOutcome(np.array(granted, np.int64), tuple(refused))


def mark_released(store: Store, charge: Charge, source: str, output_digest: str) -> None:
    """Record once that the output of a source is published."""
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
            "publish neither until it is known why."
        )


def change_cap(
    store: Store, name: str, total: int | None, window: Window | None, keep: tuple[bool, bool]
) -> Cap:
    """Set a cap; `keep` says which of total and window stay as they are."""
    store.own_caps()
    before = store.caps([name]).get(name, Cap())
    cap = Cap(before.total if keep[0] else total, before.window if keep[1] else window)
    store.set_cap(name, cap)
    body = canonical({"meter": name, "total": cap.total, "window": cap.window})
    store.append(link(store.lock_head(), "cap", _now(), "", "", None, body))
    return cap


def _standing(store: Store, batch: Batch, spent: dict[str, int], everybody: Cap) -> Standing:
    """What the ledger knows about the meters of a batch."""
    _check_kind(store, batch)
    own = store.caps(batch.names)
    caps = {name: merge_caps(own.get(name), everybody) for name in batch.names}
    caps = {name: cap for name, cap in caps.items() if cap != Cap()}
    reach = max((cap.window[0] for cap in caps.values() if cap.window), default=1) - 1
    first = period_at(ordinal(min(batch.periods)) - reach, batch.kind)
    last = period_at(ordinal(max(batch.periods)) + reach, batch.kind)
    near: dict[str, dict[int, int]] = {}
    taken: dict[tuple[str, str], int] = {}
    numbers: dict[str, int] = {}
    for row in store.near(batch.names, first, last):
        number = numbers.get(row.period) or numbers.setdefault(row.period, ordinal(row.period))
        beside = near.setdefault(row.meter, {})
        beside[number] = beside.get(number, 0) + row.micro
        if row.stream == batch.charge.stream:
            taken[row.meter, row.period] = row.batch
    owners = store.owners(set(taken.values()))
    words = {
        number: f"release {owners[number].release}" if number in owners else "an unknown release"
        for number in set(taken.values())
    }
    return Standing(spent, caps, near, {key: words[number] for key, number in taken.items()})


def _check_kind(store: Store, batch: Batch) -> None:
    """Days and months of one meter would slip past each other's unique key."""
    period = store.some_period()
    if period is None:
        # The first spend of a ledger decides, so those who would be first take turns.
        store.lock_head()
        period = store.some_period()
    if period is not None and period_kind(period) != batch.kind:
        kind = period_kind(period)
        raise DataError(
            f"the ledger {store.name} counts by {kind} and the release by {batch.kind}; "
            f"release by {kind}, or keep another ledger."
        )


def _charge(store: Store, batch: Batch, granted: list[int], refused: list[Refusal]) -> None:
    pairs = batch.chosen(granted)
    number = batch_number(batch.charge.release, batch.source)
    if store.insert(number, batch.charge.stream, batch.micro, pairs) != len(pairs):
        raise BudgetError(
            f"another release took some (meter, period) of {batch.source} meanwhile; "
            "nothing was charged, run it again."
        )
    rows = Counter(map(itemgetter(0), pairs))
    store.add({meter: count * batch.micro for meter, count in rows.items()})
    body = batch.body(pairs, refused)
    head = _record_release(store, store.lock_head(), batch.charge)
    store.append(link(head, "spend", _now(), batch.charge.release, batch.source, number, body))


def _record_release(store: Store, head: Head, charge: Charge) -> Head:
    """The terms of a release come before its first spend, once."""
    if _release_began(store, charge):
        return head
    entry = link(head, "release", _now(), charge.release, "", None, _terms(charge))
    store.append(entry)
    return Head(entry.seq, entry.hash)


def _release_began(store: Store, charge: Charge) -> bool:
    """Whether a release has spent before; refused if that was on other terms."""
    before = store.entry("release", charge.release, "")
    if before is not None and before.body != _terms(charge):
        raise InputError(
            f"release {charge.release} was begun with other terms; "
            "resume it with the same, or begin another."
        )
    return before is not None


def _terms(charge: Charge) -> str:
    return canonical({"terms": dict(charge.terms)})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
