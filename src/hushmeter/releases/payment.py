"""Paying for a release in a ledger, durably, before anything is published.

Each civil day, in the time zone of the ledger, that a released value covers is paid for. If the
release is then not written, the charge is kept: a crash may cost budget, but never privacy.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.clock import local_times
from hushmeter.errors import InputError
from hushmeter.files import RECEIPT, sha256_of
from hushmeter.ledger import Charge, DayChange, Ledger, Price, open_ledger, period_price
from hushmeter.ledger.charges import femto_delta, micro_epsilon, price_text
from hushmeter.releases.files import staged_release

if TYPE_CHECKING:
    from pathlib import Path

    from hushmeter.releases.promise import Promise
    from hushmeter.releases.release import Release
    from hushmeter.trace import Trace


@dataclass
class Payment:
    """What a release paid: the price of each day, for the change that the ledger protects."""

    days: int  # Number of civil days that were charged
    price: Price  # Price of each day
    protects: DayChange  # The change of a day that the ledger protects
    ledger: str  # Name of the ledger
    _done: list[str] = field(default_factory=list, repr=False)

    @property
    def sentence(self) -> str:
        """One sentence about what was charged, and for which change of a day."""
        days = "1 day" if self.days == 1 else f"{self.days} days"
        return (
            f"{self.ledger} was charged for {days}: each {price_text(self.price, self.protects)}."
        )

    def written(self, sha256: str) -> None:
        """Record the SHA-256 of the data file; call this after the file was written."""
        self._done.append(sha256)


@contextmanager
def pay_for_release(
    url: str, release: Release, *, meter: str, stream: str = "load"
) -> Iterator[Payment]:
    """Charge each civil day of a release to a meter in one of its streams.

    The ledger records the release as written only if `Payment.written` is called inside the block.
    Raise `InputError` if the cost cannot be stated, and `BudgetError` if a day was released before
    in this stream or a cap does not allow the release; nothing is charged then.
    """
    _refuse_free_releases(release)
    assert release.private is not None
    unit = release.promise.unit
    margin = unit.metering.copies - 1 + unit.metering.reach
    charge = Charge(f"release-{secrets.token_hex(8)}", stream, _terms(release))
    # The key is not kept, so that nobody can test guesses of the readings against the ledger.
    digest = hmac.new(
        secrets.token_bytes(32), release.private.input["sha256"].encode(), hashlib.sha256
    ).hexdigest()
    with open_ledger(url) as ledger:
        times = release.promise.cells.times
        days = covered_days(times, margin * unit.interval_s, ledger.protects.zone)
        price = price_of(release.promise, ledger.protects, ledger.composition_delta)
        _spend(ledger, charge, price, meter, days, digest)
        payment = Payment(len(days), price, ledger.protects, ledger.name)
        yield payment
        if payment._done:
            ledger.mark_released(charge, meter, payment._done[-1])


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

    It is paid for when all of it is on the disk under temporary names, so that a place that cannot
    be written, or a full disk, costs nothing. After the payment it is only renamed.
    """
    with (
        staged_release(release, path, force=force, signing_key=signing_key) as (files, publish),
        pay_for_release(url, release, meter=meter, stream=stream) as payment,
    ):
        publish()
        # The receipt of a folder has the SHA-256 of all its files.
        payment.written(sha256_of(path / RECEIPT if path.is_dir() else path))
    return files, payment


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


def _terms(release: Release) -> dict[str, object]:
    """Return the public terms of a release, which the ledger records."""
    receipt = release.receipt
    return {
        "unit": receipt.unit,
        "cells": receipt.cells,
        "tables": list(receipt.tables),
        "version": receipt.version,
    }


def _spend(
    ledger: Ledger, charge: Charge, price: Price, meter: str, days: list[str], digest: str
) -> None:
    """Pay for all days of a release, or for none."""
    ledger.spend(
        charge,
        micro=price.micro,
        femto=price.femto,
        meters=[meter] * len(days),
        periods=days,
        digest=digest,
        source=meter,
        all_or_nothing=True,
    )
