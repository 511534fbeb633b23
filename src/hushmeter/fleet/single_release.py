"""The release of one home in the same ledger as a fleet.

A household or an operator who releases single files with `hushmeter release --ledger` spends the
same budget as a fleet: each UTC day of a meter is paid for before anything is written.
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

from hushmeter.errors import InputError
from hushmeter.fleet.ledger import Charge, Ledger, Price, open_ledger, period_price
from hushmeter.fleet.ledger.charges import price_text
from hushmeter.noise import parse_mechanism

if TYPE_CHECKING:
    from hushmeter.releases.series import Release

PERIOD = "day"


@dataclass
class Payment:
    """What a release paid.

    Attributes
    ----------
    days : int
        Number of UTC days that were charged.
    price : Price
        What each of them costs.
    ledger : str
        Place of the ledger.
    """

    days: int
    price: Price
    ledger: str
    _done: list[str] = field(default_factory=list, repr=False)

    @property
    def sentence(self) -> str:
        """What was charged, with its unit."""
        days = "1 day" if self.days == 1 else f"{self.days} days"
        return f"{self.ledger} was charged for {days}: each {price_text(self.price, PERIOD)}."

    def written(self, sha256: str) -> None:
        """State the SHA-256 of the data file after it was written."""
        self._done.append(sha256)


@contextmanager
def pay_for_release(
    url: str, release: Release, *, meter: str, stream: str = "load"
) -> Iterator[Payment]:
    """Charge a release to a meter, durably, before it is written.

    Parameters
    ----------
    url : str
        The ledger; see `open_ledger`.
    release : Release
        A real release that is not yet written.
    meter : str
        Name of the meter in the ledger.
    stream : str, default "load"
        Which series of the meter this is. A day is released once in each stream; the ε of all
        streams adds up.

    Yields
    ------
    Payment
        Call `written` with the SHA-256 of the data file after it was written. If that does not
        happen, the charge is kept: a crash may cost budget, but never privacy.

    Raises
    ------
    InputError
        If the release is a simulation, or publishes exact sums of the days.
    BudgetError
        If a day was released before in this stream, or a cap does not allow the release. Nothing
        is charged then.
    """
    if release.receipt.kind != "release":
        raise InputError("a simulation spends no budget; leave out --seed or --ledger.")
    if release.receipt.unit["span"] == "when":
        raise InputError(
            "the span 'when' publishes exact sums of the days, for which no ε can be charged; "
            "leave out --ledger, or protect a run or a day."
        )
    described = release.receipt.mechanism
    mechanism = parse_mechanism({described["mechanism"]: described["parameters"]})
    unit, output = release.receipt.unit, release.receipt.output
    price = period_price(mechanism, unit["largest"], output["interval_s"], PERIOD)
    days = [str(day) for day in np.unique(release.trace.times.astype("datetime64[D]"))]
    terms = {"unit": unit, "mechanism": described["parameters"], "version": release.receipt.version}
    charge = Charge(f"release-{secrets.token_hex(8)}", stream, terms)
    # The key is thrown away: nobody can test guesses of the readings against the ledger.
    digest = hmac.new(
        secrets.token_bytes(32), release.private.input["sha256"].encode(), hashlib.sha256
    ).hexdigest()
    with open_ledger(url) as ledger:
        _spend(ledger, charge, price, meter, days, digest)
        payment = Payment(len(days), price, ledger.name)
        yield payment
        if payment._done:
            ledger.mark_released(charge, meter, payment._done[-1])


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
