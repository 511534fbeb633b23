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
from hushmeter.fleet.ledger.charges import LONGEST_S, femto_delta, micro_epsilon, price_text
from hushmeter.noise import parse_mechanism
from hushmeter.privacy.sensitivity import Change
from hushmeter.releases.calendar_release import CalendarRelease
from hushmeter.releases.view_plan import epsilon_of, rho_of, view_sensitivities

if TYPE_CHECKING:
    from hushmeter.releases.calendar import Calendar
    from hushmeter.releases.series import Release
    from hushmeter.releases.view_plan import ViewPlan
    from hushmeter.trace import TimeArray

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
    url: str, release: Release | CalendarRelease, *, meter: str, stream: str = "load"
) -> Iterator[Payment]:
    """Charge a release to a meter, durably, before it is written.

    Parameters
    ----------
    url : str
        The ledger; see `open_ledger`.
    release : Release or CalendarRelease
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
        If the release is a simulation, or publishes the sums of the days.
    BudgetError
        If a day was released before in this stream, or a cap does not allow the release. Nothing
        is charged then.
    """
    price, times, terms = _bill(release)
    assert release.private is not None
    days = [str(day) for day in np.unique(times.astype("datetime64[D]"))]
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


def _bill(release: Release | CalendarRelease) -> tuple[Price, TimeArray, dict[str, object]]:
    """What each day of a release costs, the times of its values, and the terms of the charge."""
    if isinstance(release, CalendarRelease):
        receipt = release.receipt
        kind, unit, version = receipt["kind"], receipt["unit"], receipt["version"]
    else:
        kind, unit, version = release.receipt.kind, release.receipt.unit, release.receipt.version
    if kind != "release":
        raise InputError("a simulation spends no budget; leave out --seed or --ledger.")
    if unit["span"] == "when":
        raise InputError(
            "the span 'when' publishes the sums of the days, for which no ε can be charged; "
            "leave out --ledger, or protect a run or a day."
        )
    if isinstance(release, CalendarRelease):
        price = price_of_views(release.plan, unit["largest"], release.calendar)
        noise = {"tables": release.receipt["tables"]}
        return price, release.calendar.cells.times, {"unit": unit, **noise, "version": version}
    described = release.receipt.mechanism
    mechanism = parse_mechanism({described["mechanism"]: described["parameters"]})
    price = period_price(mechanism, unit["largest"], release.receipt.output["interval_s"], PERIOD)
    terms = {"unit": unit, "mechanism": described["parameters"], "version": version}
    return price, release.trace.times, terms


def price_of_views(plan: ViewPlan, watts: float, calendar: Calendar) -> Price:
    """Compute what a day costs in all four tables of a calendar release together.

    Parameters
    ----------
    plan : ViewPlan
        The noise of the tables.
    watts : float
        Largest change of a cell that the unit of protection covers [W]. As for a series, each cell
        of the day may change by as much.
    calendar : Calendar
        Length of the cells, and time zone.

    Returns
    -------
    Price
        (ε, δ) of all cells of the day.
    """
    day = Change("day", watts, LONGEST_S[PERIOD], calendar.cells.interval_s)
    lengths = view_sensitivities([day], calendar, plan.grid)
    epsilon = epsilon_of(rho_of(lengths, plan.sigmas), plan.delta)
    return Price(micro_epsilon(epsilon), femto_delta(plan.delta))


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
