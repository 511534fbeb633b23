"""The release of one home in the same ledger as a fleet.

A household or an operator who releases single files with `hushmeter release --ledger` spends the
same budget as a fleet: each UTC day that a released value covers is paid for before anything is
written.
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
from hushmeter.fleet.ledger import Charge, DayChange, Ledger, Price, open_ledger, period_price
from hushmeter.fleet.ledger.charges import femto_delta, micro_epsilon, price_text
from hushmeter.noise import parse_mechanism
from hushmeter.noise.parameters import clamp_bounds
from hushmeter.privacy.sensitivity import round_up
from hushmeter.releases.calendar_release import CalendarRelease
from hushmeter.releases.view_plan import epsilon_of, rho_of, view_sensitivities

if TYPE_CHECKING:
    from hushmeter.privacy.sensitivity import Change
    from hushmeter.privacy.units import Unit
    from hushmeter.releases.calendar import Calendar
    from hushmeter.releases.series import Release
    from hushmeter.releases.view_plan import ViewPlan
    from hushmeter.trace import Trace


@dataclass
class Payment:
    """What a release paid.

    Attributes
    ----------
    days : int
        Number of UTC days that were charged.
    price : Price
        What each of them costs.
    protects : DayChange
        The change of which this is the cost.
    ledger : str
        Place of the ledger.
    """

    days: int
    price: Price
    protects: DayChange
    ledger: str
    _done: list[str] = field(default_factory=list, repr=False)

    @property
    def sentence(self) -> str:
        """What was charged, with its unit."""
        days = "1 day" if self.days == 1 else f"{self.days} days"
        return (
            f"{self.ledger} was charged for {days}: each {price_text(self.price, self.protects)}."
        )

    def written(self, sha256: str) -> None:
        """State the SHA-256 of the data file after it was written."""
        self._done.append(sha256)


@contextmanager
def pay_for_release(
    url: str, release: Release | CalendarRelease, unit: Unit, *, meter: str, stream: str = "load"
) -> Iterator[Payment]:
    """Charge a release to a meter, durably, before it is written.

    Parameters
    ----------
    url : str
        The ledger; see `open_ledger`.
    release : Release or CalendarRelease
        A real release that is not yet written.
    unit : Unit
        Its unit of protection, which states how the meter made the readings.
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
        If the release is a simulation, publishes the sums of the days, or does not clamp its
        readings as the ledger needs it.
    BudgetError
        If a day was released before in this stream, or a cap does not allow the release. Nothing
        is charged then.
    """
    _refuse_free_releases(release, unit)
    assert release.private is not None
    values = release.calendar.cells if isinstance(release, CalendarRelease) else release.trace
    margin = unit.metering.copies - 1 + unit.metering.reach
    days = covered_days(values, margin * unit.interval_s)
    terms = _terms(release)
    charge = Charge(f"release-{secrets.token_hex(8)}", stream, terms)
    # The key is thrown away: nobody can test guesses of the readings against the ledger.
    digest = hmac.new(
        secrets.token_bytes(32), release.private.input["sha256"].encode(), hashlib.sha256
    ).hexdigest()
    with open_ledger(url) as ledger:
        price = price_of_release(release, unit, ledger.protects, ledger.composition_delta)
        _spend(ledger, charge, price, meter, days, digest)
        payment = Payment(len(days), price, ledger.protects, ledger.name)
        yield payment
        if payment._done:
            ledger.mark_released(charge, meter, payment._done[-1])


def covered_days(values: Trace, before_s: float = 0.0) -> list[str]:
    """Return the UTC days that the values of a trace cover.

    Parameters
    ----------
    values : Trace
        Released values; only their times are used. A value of a week covers eight days if it does
        not begin at midnight.
    before_s : float
        Time before the beginning and after the end of a value from which its readings may have
        been copied [s].

    Returns
    -------
    list of str
        In order, each once.
    """
    margin = np.timedelta64(round(before_s * 1e9), "ns")
    length = np.timedelta64(round(values.interval_s * 1e9), "ns")
    first = (values.times - margin).astype("datetime64[D]").astype(np.int64)
    # The end of a value is not a part of it.
    end = values.times + length + margin - np.timedelta64(1, "ns")
    last = end.astype("datetime64[D]").astype(np.int64)
    spans = set(zip(first.tolist(), last.tolist(), strict=True))
    days = sorted({day for begin, stop in spans for day in range(begin, stop + 1)})
    return [str(np.datetime64(day, "D")) for day in days]


def price_of_release(
    release: Release | CalendarRelease,
    unit: Unit,
    protects: DayChange,
    composition_delta: float = 0.0,
) -> Price:
    """Compute what each day of a release costs.

    Parameters
    ----------
    release : Release or CalendarRelease
        The release.
    unit : Unit
        Its unit of protection, which states how the meter made the readings.
    protects : DayChange
        The change of which the ledger charges the cost.
    composition_delta : float
        See `period_price`.

    Returns
    -------
    Price

    Raises
    ------
    InputError
        If the release does not clamp its readings as the ledger needs it.
    """
    if isinstance(release, CalendarRelease):
        clamp = clamp_bounds(release.receipt["clamp"])
        change = change_on_meter(unit, protects, clamp)
        return price_of_views(release.plan, change, release.calendar)
    described = release.receipt.mechanism
    mechanism = parse_mechanism({described["mechanism"]: described["parameters"]})
    offset = release.trace.start.astype(np.int64) % round(unit.interval_s * 1e9)
    whole = unit.window == 1 and offset == 0
    change = change_on_meter(unit, protects, mechanism.clamp, on_whole_intervals=whole)
    return period_price(mechanism, change, composition_delta=composition_delta)


def change_on_meter(
    unit: Unit,
    protects: DayChange,
    clamp: tuple[float, float] | None,
    *,
    on_whole_intervals: bool = False,
) -> Change:
    """Return how far the declared change moves values that are released with some unit.

    Parameters
    ----------
    unit : Unit
        It states how the meter made the readings, and how many of them a value has.
    protects : DayChange
        The declared change.
    clamp : (low, high) or None
        Range to which the release clamps every metered reading [W].
    on_whole_intervals : bool
        True if the metered readings begin at whole multiples of their length (UTC).

    Returns
    -------
    Change
    """
    return protects.on_meter(
        unit.interval_s,
        unit.window,
        clamp=clamp,
        on_whole_intervals=on_whole_intervals,
        metering=unit.metering,
        values=round_up((unit.readings or 0) / unit.window),
    )


def price_of_views(plan: ViewPlan, change: Change, calendar: Calendar) -> Price:
    """Compute what a day costs in all four tables of a calendar release together.

    Parameters
    ----------
    plan : ViewPlan
        The noise of the tables.
    change : Change
        How far the declared change moves the cells.
    calendar : Calendar
        The cells and their time zone.

    Returns
    -------
    Price
    """
    lengths = view_sensitivities([change], calendar, plan.grid)
    epsilon = epsilon_of(rho_of(lengths, plan.sigmas), plan.delta)
    return Price(micro_epsilon(epsilon), femto_delta(plan.delta))


def _refuse_free_releases(release: Release | CalendarRelease, unit: Unit) -> None:
    """Refuse a release whose cost cannot be stated."""
    receipt = release.receipt
    kind = receipt["kind"] if isinstance(receipt, dict) else receipt.kind
    if kind != "release":
        raise InputError("a simulation spends no budget; leave out --seed or --ledger.")
    if unit.span == "when":
        raise InputError(
            "the span 'when' publishes the sums of the days, for which no ε can be charged; "
            "leave out --ledger, or protect a run or a day."
        )


def _terms(release: Release | CalendarRelease) -> dict[str, object]:
    """Return the public terms of a release, which the ledger records."""
    if isinstance(release, CalendarRelease):
        return {name: release.receipt[name] for name in ("unit", "tables", "clamp", "version")}
    receipt = release.receipt
    noise = receipt.mechanism["parameters"]
    return {"unit": receipt.unit, "mechanism": noise, "version": receipt.version}


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
