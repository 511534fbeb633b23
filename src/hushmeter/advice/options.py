"""One possible release: its noise, the odds of the best attacker, and its errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hushmeter.advice.purposes import StandardErrors, calendar_errors, series_errors
from hushmeter.privacy.accounting import UnknownMoment, unknown_moment
from hushmeter.privacy.units import Unit
from hushmeter.releases.cost import DAYS_PER_MONTH, PRICE_PER_KWH, Cost, expect_cost
from hushmeter.releases.view_plan import HOURLY_COST, epsilon_of, rho_of, view_sensitivities
from hushmeter.releases.views import unknown_moment_in_views

if TYPE_CHECKING:
    from hushmeter.home import Appliance
    from hushmeter.noise.mechanism import Mechanism
    from hushmeter.releases.calendar import Calendar
    from hushmeter.releases.view_plan import ViewPlan


@dataclass(frozen=True)
class Option:
    """One possible release.

    Attributes
    ----------
    mechanism : str
        Name of the mechanism.
    every_s : float
        Interval of the released readings, or of the cells of a calendar release. [s]
    epsilon : float
        ε of the unit of protection.
    odds : float
        Probability that the best attacker is right about the goal's appliance over its span.
    scale : float
        Scale of the noise of a released reading or cell. [W]
    cost : Cost
        Mean absolute errors of the released readings.
    errors : StandardErrors
        Standard errors for each purpose.
    largest_epsilon : float or None
        ε at the largest power that was ever measured; None if the home does not give it.
    form : {"series", "calendar"}
        Readings of one resolution with independent noise, or a calendar release.
    unknown : UnknownMoment or None
        Bound of the odds of an attacker who does not know when a run happens. It comes beside
        `odds` and never replaces them; None unless one run is hidden.
    hourly_cost : float or None
        Of a calendar release: largest error of an hour against hours alone; see `release_views`.
    """

    mechanism: str
    every_s: float
    epsilon: float
    odds: float
    scale: float
    cost: Cost
    errors: StandardErrors
    largest_epsilon: float | None = None
    form: str = "series"
    unknown: UnknownMoment | None = None
    hourly_cost: float | None = None

    @property
    def name(self) -> str:
        """A short name for a column: the noise, or that it is a calendar release."""
        if self.form != "calendar":
            return self.mechanism
        return "calendar" if self.hourly_cost == HOURLY_COST else f"cal. {self.hourly_cost:g}"


def series_option(
    unit: Unit,
    mechanism: Mechanism,
    epsilon: float,
    odds: float,
    calendar: Calendar | None = None,
    member: Appliance | None = None,
    price_per_kwh: float = PRICE_PER_KWH,
    *,
    blind: bool = True,
) -> Option:
    """Describe a series with independent noise as an option.

    Parameters
    ----------
    unit : Unit
        The unit of protection, with one change.
    mechanism : Mechanism
        The noise.
    epsilon, odds : float
        ε of the unit, and the odds of the best attacker.
    calendar : Calendar, optional
        For the number of days; a month of 30 days by default.
    member : Appliance, optional
        The hidden appliance, for the ε at its largest measured power.
    price_per_kwh : float
        Price of energy.
    blind : bool
        Whether to bound the odds of an attacker who does not know when a run happens.

    Returns
    -------
    Option
    """
    every, largest = unit.window * unit.interval_s, _at_largest_power(unit, member)
    errors = errors_in_series(mechanism, unit, calendar)
    if unit.span == "when":
        cost = errors.cost(price_per_kwh)
    else:
        cost = expect_cost(mechanism, every, price_per_kwh=price_per_kwh)
    unknown = None
    if blind and unit.span == "run":
        unknown = unknown_moment(mechanism, unit.changes[0])
    return Option(
        mechanism.name,
        every,
        epsilon,
        odds,
        mechanism.scale,
        cost,
        errors,
        None if largest is None else mechanism.epsilon_of(largest),
        unknown=unknown,
    )


def errors_in_series(
    noise: Mechanism | float, unit: Unit, calendar: Calendar | None = None
) -> StandardErrors:
    """Standard errors of a series with independent noise; the days are those of a calendar."""
    days = period = DAYS_PER_MONTH
    if calendar is not None:
        period = int(calendar.days.size)
        days = max(1, round(period / len(calendar.months)))
    every, scale = unit.window * unit.interval_s, unit.day_scale if unit.span == "when" else None
    return series_errors(noise, every, days=days, period_days=period, day_scale=scale)


def calendar_option(
    unit: Unit,
    calendar: Calendar,
    plan: ViewPlan,
    hourly_cost: float = HOURLY_COST,
    member: Appliance | None = None,
    price_per_kwh: float = PRICE_PER_KWH,
) -> Option:
    """Describe a calendar release as an option.

    Parameters
    ----------
    unit : Unit
        The unit of protection, with one change.
    calendar : Calendar
        The cells.
    plan : ViewPlan
        The noise.
    hourly_cost : float
        With which the noise was planned.
    member, price_per_kwh
        See `series_option`.

    Returns
    -------
    Option
    """
    errors, largest = calendar_errors(calendar, plan), _at_largest_power(unit, member)
    unknown = largest_epsilon = None
    if unit.span == "run":
        unknown = unknown_moment_in_views(unit.changes[0], calendar, plan)
    if largest is not None:
        lengths = view_sensitivities(largest.changes, calendar, plan.grid)
        largest_epsilon = epsilon_of(rho_of(lengths, plan.sigmas), plan.delta)
    return Option(
        "gaussian",
        calendar.cells.interval_s,
        plan.epsilon,
        plan.odds,
        float(plan.sigmas[0]) * float(plan.grid),
        errors.cost(price_per_kwh),
        errors,
        largest_epsilon,
        form="calendar",
        unknown=unknown,
        hourly_cost=hourly_cost,
    )


def _at_largest_power(unit: Unit, member: Appliance | None) -> Unit | None:
    """The unit at the largest power that was ever measured, if the home gives it."""
    largest = None if member is None else member.at_largest_power()
    return None if largest is None else unit.for_appliance(largest)
