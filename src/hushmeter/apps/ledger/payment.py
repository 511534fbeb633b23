"""Paying for a release in a ledger and publishing it, as one step that can be continued.

Each civil day, in the time zone of the ledger, that a released value covers is paid for. The order
of the steps is

    write everything into .NAME.paid, with the bill → pay (durable) → rename → mark as released
    → remove .NAME.paid

The ledger charges a bill once, and the files are never made again. Whatever ends a step, the same
command therefore goes on with the same files: what was paid for is published, and nothing is paid
for twice. Before the payment nothing is published, and a place that cannot be written, or a full
disk, costs nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter import __version__
from hushmeter.apps.ledger import Charge, DayChange, Ledger, Price, open_ledger, period_price
from hushmeter.apps.ledger.charges import femto_delta, micro_epsilon, price_text
from hushmeter.clock import local_times
from hushmeter.errors import BudgetError, InputError
from hushmeter.files import (
    DAMAGED,
    RECEIPT,
    create_file,
    flush_folder,
    json_text,
    make_folder,
    move,
    one_sentence,
    parse_json,
    publish_staged,
    sha256_of,
    stage,
    take_lock,
)
from hushmeter.formatting import count_of
from hushmeter.releases.files import (
    check_place,
    paid_folder,
    private_path,
    refuse_existing,
    release_contents,
    written_files,
)
from hushmeter.releases.receipt import describe_promise
from hushmeter.trace import digest

if TYPE_CHECKING:
    from pathlib import Path

    from hushmeter.releases.promise import Promise
    from hushmeter.releases.release import Release
    from hushmeter.trace import Trace

BILL = "bill.json"
"""The bill in the folder of a release that is not published yet."""


@dataclass(frozen=True)
class Bill:
    """What a release owes to a ledger. It is private, because it tells the readings apart."""

    release: str  # Identity of the release in the ledger
    meter: str
    stream: str
    terms: dict[str, Any]  # Public terms of the release, which the ledger records
    days: list[str]  # Civil days that are charged
    # Price of each day
    micro: int
    femto: int
    # Keyed digest of the readings. The key is not kept, so that nobody can test guesses of the
    # readings against the ledger.
    digest: str
    readings: str  # SHA-256 of the readings
    head: str  # End of the ledger before the payment

    @property
    def charge(self) -> Charge:
        """What the ledger records about the release."""
        return Charge(self.release, self.stream, self.terms)

    def check(self, ledger: Ledger) -> None:
        """Raise the error with which the ledger would refuse to hold the bill at all."""
        rows = ([self.meter] * len(self.days), self.days)
        ledger.rehearse(self.charge, micro=self.micro, femto=self.femto, sources={self.meter: rows})

    def pay(self, ledger: Ledger) -> Payment:
        """Pay for all days, once, or for none.

        Raise `BudgetError` if a day was released before in this stream or a cap does not allow the
        release, and `DataError` if the ledger is another one or an older copy.
        """
        ledger.check_head(self.head)
        ledger.spend(
            self.charge,
            micro=self.micro,
            femto=self.femto,
            meters=[self.meter] * len(self.days),
            periods=self.days,
            digest=self.digest,
            source=self.meter,
            all_or_nothing=True,
        )
        price = Price(self.micro, self.femto)
        return Payment(len(self.days), price, ledger.protects, ledger.name)


@dataclass(frozen=True)
class Payment:
    """What a release paid: the price of each day, for the change that the ledger protects."""

    days: int  # Number of civil days that were charged
    price: Price  # Price of each day
    protects: DayChange  # The change of a day that the ledger protects
    ledger: str  # Name of the ledger

    @property
    def sentence(self) -> str:
        """One sentence about what was charged, and for which change of a day."""
        price = price_text(self.price, self.protects)
        return f"{self.ledger} was charged for {count_of(self.days, 'day')}: each {price}."


def bill_of(release: Release, ledger: Ledger, *, meter: str, stream: str = "load") -> Bill:
    """Return what a release owes; raise `InputError` if its cost cannot be stated."""
    _refuse_free_releases(release)
    assert release.private is not None
    promise, protects = release.promise, ledger.protects
    margin = promise.unit.metering.copies - 1 + promise.unit.metering.reach
    price = price_of(promise, protects, ledger.composition_delta)
    readings = str(release.private.input["sha256"])
    return Bill(
        f"release-{secrets.token_hex(8)}",
        meter,
        stream,
        _terms(promise) | {"version": __version__},
        covered_days(promise.cells.times, margin * promise.unit.interval_s, protects.zone),
        price.micro,
        price.femto,
        hmac.new(secrets.token_bytes(32), readings.encode(), hashlib.sha256).hexdigest(),
        readings,
        str(ledger.head()),
    )


def save_paid(
    url: str,
    release: Release,
    path: Path,
    *,
    meter: str,
    stream: str = "load",
    force: bool = False,
    signing_key: Path | None = None,
) -> tuple[list[Path], Payment]:
    """Write a release and pay for it; return its files and the payment.

    If this is interrupted after the payment, `finish_paid` goes on.
    """
    check_place(release.promise, path)
    with open_ledger(url) as ledger:
        bill = bill_of(release, ledger, meter=meter, stream=stream)
        bill.check(ledger)
    contents, folder = release_contents(release, path, signing_key), paid_folder(path)
    draft = _draft(folder)
    with _one_writer(path):
        refuse_existing(path, force)
        # A process that was killed before its payment may have left a draft.
        shutil.rmtree(draft, ignore_errors=True)
        try:
            with one_sentence(path):
                stage(draft, contents, private=[private_path(path)])
                create_file(draft / BILL, json_text(bill).encode())
                flush_folder(draft)
                move(draft, folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return _pay_and_publish(url, path, bill, force)


def finish_paid(
    url: str, promise: Promise, readings: Trace, path: Path, *, meter: str, stream: str, force: bool
) -> tuple[list[Path], Payment]:
    """Go on with a release that `save_paid` began; nothing is drawn or charged again.

    Raise `InputError` if other readings, or other terms, are asked for now.
    """
    with _one_writer(path):
        place = paid_folder(path) / BILL
        more = f"; restore it, or remove {place.parent}, which gives up what was paid"
        with one_sentence(place, "read", kinds=(OSError, *DAMAGED), more=more):
            bill = Bill(**parse_json(place.read_bytes()))
            asked = (meter, stream, digest(readings), _terms(promise) | bill.terms)
        if asked != (bill.meter, bill.stream, bill.readings, bill.terms | _terms(promise)):
            raise InputError(
                f"{path} has an unfinished release of other readings or with other options, which "
                "may be paid for; repeat the command with which it was begun, or remove "
                f"{paid_folder(path)}, which gives up what was paid."
            )
        return _pay_and_publish(url, path, bill, force)


def _pay_and_publish(url: str, path: Path, bill: Bill, force: bool) -> tuple[list[Path], Payment]:
    """Pay for a release that is complete on the disk, and publish it."""
    folder = paid_folder(path)
    again = "; it may be paid for: repeat the same command when that is mended"
    with open_ledger(url) as ledger:
        try:
            payment = bill.pay(ledger)
        except BudgetError:
            _discard(folder)
            raise
        with one_sentence(path, more=again):
            publish_staged(folder, path.parent, force=force)
        # The receipt of a folder has the SHA-256 of all its files.
        published = sha256_of(path / RECEIPT if path.is_dir() else path)
        ledger.mark_released(bill.charge, bill.meter, published)
    _discard(folder)
    return written_files(path), payment


def _draft(folder: Path) -> Path:
    """Return the name of a folder that is not complete yet, or not needed any more."""
    return folder.with_name(f"{folder.name}.draft")


def _discard(folder: Path) -> None:
    """Remove a folder at once, so that no part of it is ever taken for an unfinished release."""
    shutil.rmtree(_draft(folder), ignore_errors=True)
    move(folder, _draft(folder))
    shutil.rmtree(_draft(folder), ignore_errors=True)


@contextmanager
def _one_writer(path: Path) -> Iterator[None]:
    """Keep other processes from paying for, or publishing, a release of this name."""
    name = path.with_name(f".{path.name}.lock")
    with one_sentence(path):
        make_folder(path.parent, public=True)
        lock = take_lock(name, lambda: f"another process is writing {path}; wait for it.")
    try:
        yield
    finally:
        name.unlink(missing_ok=True)
        lock.release()


def covered_days(values: Trace, margin_s: float = 0.0, zone: str = "UTC") -> list[str]:
    """Return the civil days that values cover, with a margin [s] before and after each value."""
    margin = np.timedelta64(round(margin_s * 1e9), "ns")
    length = np.timedelta64(round(values.interval_s * 1e9), "ns")
    first = local_times(values.times - margin, zone).astype("datetime64[D]").astype(np.int64)
    # The end of a value is not a part of it.
    end = values.times + length + margin - np.timedelta64(1, "ns")
    last = local_times(end, zone).astype("datetime64[D]").astype(np.int64)
    spans = set(zip(first.tolist(), last.tolist(), strict=True))
    days = sorted({day for begin, stop in spans for day in range(begin, stop + 1)})
    return [str(np.datetime64(day, "D")) for day in days]


def price_of(promise: Promise, protects: DayChange, composition_delta: float = 0.0) -> Price:
    """Compute what each day costs; raise `InputError` if the clamp is not what the ledger needs."""
    unit, start = promise.unit, promise.cells.times.start
    whole = unit.window == 1 and start.astype(np.int64) % round(unit.interval_s * 1e9) == 0
    change = protects.on_unit(
        unit, promise.clamp, on_whole_intervals=whole and not promise.cells.model
    )
    if not promise.joint:
        return period_price(promise.noise, change, composition_delta=composition_delta)
    epsilon = promise.compose(change).epsilon
    return Price(micro_epsilon(epsilon), femto_delta(promise.delta))


def _refuse_free_releases(release: Release) -> None:
    """Refuse a release whose cost cannot be stated."""
    if release.kind != "release":
        raise InputError("a simulation spends no budget; leave out --seed or --ledger.")
    if release.promise.unit.rearranged:
        raise InputError(
            "this wish publishes exact sums, for which no ε can be charged; leave out --ledger, or "
            "hide an appliance."
        )
    if release.promise.unit.span == "when":
        raise InputError(
            "the span 'when' publishes the sums of the days, for which no ε can be charged; "
            "leave out --ledger, or protect a run or a day."
        )


def _terms(promise: Promise) -> dict[str, Any]:
    """Return the public terms of a release, which the ledger records."""
    facts = describe_promise(promise)
    kept = {name: facts[name] for name in ("unit", "cells", "tables")}
    # A bill that was read again must have the same terms.
    plain: dict[str, Any] = parse_json(json_text(kept))
    return plain
