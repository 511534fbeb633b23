r"""What released data is for, and the standard error of its number in every kind of release.

The data may be for single hours, days, months, the typical day (the mean of every hour of the day
over all days of a month) or register values (the energy since the first value). Each kind of
release has a standard error for each of them, which follows from its noise and from public times
alone.

*Series.* Values of V seconds have independent noise of standard deviation σ. With n = 24 h/V values
in a day, D days in a month and N values in the whole period,

    hour = σ·√(V/1 h),  day = σ·V·√n,  month = day·√D,  typical day = hour/√D,
    register = σ·V·√((N + 1)/2),

where the register is the root mean square over all N values.

*Series with sums of days* (the span "when"). The sum of each day is published with the weight w of
`hushmeter.releases.series.release` (w = 1 if it is exact): an hour of m values has σ·√(1/m − w/n),
a day σ·V·√(n·(1 − w)), and the register within a day has σ·V·√((n² − 1)/(6n)) in addition to the
days before it.

*Calendar release.* The standard errors follow from the normal equations of its estimate; see
`hushmeter.releases.least_squares`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.checks import one_of, positive, whole
from hushmeter.errors import InputError
from hushmeter.formatting import format_two_digits, format_watts, short_duration
from hushmeter.releases.calendar_release import CalendarRelease
from hushmeter.releases.cost import DAYS_PER_MONTH, Cost
from hushmeter.releases.series import day_weight
from hushmeter.trace import JOULES_PER_KWH, SECONDS_PER_DAY, SECONDS_PER_HOUR

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism
    from hushmeter.releases.calendar import Calendar
    from hushmeter.releases.view_plan import ViewPlan

MEAN_ABS = math.sqrt(2 / math.pi)
"""Mean absolute value of a normal error, as a multiple of its standard error."""

_SLACK = 1 + 1e-9


@dataclass(frozen=True)
class Purpose:
    """One thing that released data can be for.

    Attributes
    ----------
    name : {"hour", "day", "month", "profile", "register"}
        The word after `--for`.
    field : str
        Its field of `StandardErrors`.
    unit : {"W", "kWh"}
        Unit of its number.
    subject : str
        What its number is about, for a sentence.
    own : str
        What the number is compared with in the own use of a household.
    """

    name: str
    field: str
    unit: str
    subject: str
    own: str

    def text(self, value: float) -> str:
        """Format a number of this purpose with its unit."""
        return format_watts(value) if self.unit == "W" else f"{format_two_digits(value)} kWh"

    def of_mean_power(self, mean_w: float) -> float:
        """Own use of a household with this mean power, in the unit of the purpose."""
        if self.unit == "W":
            return mean_w
        day = mean_w * SECONDS_PER_DAY / JOULES_PER_KWH
        return day if self.name == "day" else day * DAYS_PER_MONTH


PURPOSES = {
    purpose.name: purpose
    for purpose in (
        Purpose("hour", "hour_w", "W", "each hour", "mean"),
        Purpose("day", "day_kwh", "kWh", "each day", "mean day"),
        Purpose("month", "month_kwh", "kWh", "each month", "mean month"),
        Purpose("profile", "profile_w", "W", "each hour of the typical day", "mean"),
        Purpose("register", "register_kwh", "kWh", "each register value", "mean month"),
    )
}
"""What released data can be for, by name."""


@dataclass(frozen=True)
class StandardErrors:
    """Standard errors of the numbers of a release, one for each purpose.

    Attributes
    ----------
    value_s : float
        Length of a released value [s].
    value_w : float
        Standard error of a released value [W].
    hour_w : float or None
        Of the mean power of an hour [W]; None if the values are longer than an hour.
    day_kwh : float
        Of the energy of a day [kWh].
    month_kwh : float
        Of the energy of a month [kWh].
    profile_w : float or None
        Of an hour of the typical day of a month [W]; None if the values are longer than an hour.
    register_kwh : float
        Of the energy since the first value, root mean square over the period [kWh].
    """

    value_s: float
    value_w: float
    hour_w: float | None
    day_kwh: float
    month_kwh: float
    profile_w: float | None
    register_kwh: float

    def of(self, purpose: str) -> float | None:
        """Standard error for a purpose, in its unit; None if the release does not serve it."""
        field = PURPOSES[one_of("purpose", purpose, tuple(PURPOSES))].field
        error: float | None = getattr(self, field)
        return error

    def cost(self, price_per_kwh: float) -> Cost:
        """The mean absolute errors of nearly normal noise, and the error of the bill of a month."""
        month = MEAN_ABS * self.month_kwh
        return Cost(
            interval_s=self.value_s,
            reading_w=MEAN_ABS * self.value_w,
            hourly_w=MEAN_ABS * (self.value_w if self.hour_w is None else self.hour_w),
            daily_kwh=MEAN_ABS * self.day_kwh,
            monthly_kwh=month,
            monthly_bill=month * price_per_kwh,
            price_per_kwh=price_per_kwh,
        )


def series_errors(
    noise: Mechanism | float,
    value_s: float,
    *,
    days: int = DAYS_PER_MONTH,
    period_days: int | None = None,
    day_scale: float | None = None,
) -> StandardErrors:
    """Standard errors of a series of values with independent noise.

    Parameters
    ----------
    noise : Mechanism or float
        The noise of one released value, or its standard deviation σ [W].
    value_s : float
        Length of a released value [s].
    days : int, default 30
        Days D of a month.
    period_days : int, optional
        Days of the whole period; one month by default.
    day_scale : float, optional
        `Unit.day_scale` of the span "when", which publishes the sum of every day too; 0 if it is
        exact. It has no effect on values that do not divide a day, because no day is complete
        then.

    Returns
    -------
    StandardErrors

    Notes
    -----
    See the description of the module for the equations.
    """
    value_s, days = positive("value_s", value_s), whole("days", days)
    sigma = noise if isinstance(noise, float) else noise.std
    kwh = value_s / JOULES_PER_KWH
    in_day, in_hour = SECONDS_PER_DAY / value_s, SECONDS_PER_HOUR / value_s
    summed = day_scale is not None and abs(in_day - round(in_day)) < 1e-9
    fine = value_s <= SECONDS_PER_HOUR * _SLACK
    weight = day_weight(in_day, day_scale or 0.0) if summed else 0.0
    known = weight / in_day
    hour = sigma * math.sqrt(max(0.0, 1 / in_hour - known)) if fine else None
    day = sigma * math.sqrt(in_day * (1 - weight)) * kwh
    whole_days = whole("period_days", period_days or days)
    if summed:
        within = (in_day**2 - 1) / (6 * in_day)
        register = math.hypot(
            sigma * kwh * math.sqrt(within), day * math.sqrt((whole_days + 1) / 2)
        )
    else:
        register = sigma * kwh * math.sqrt((in_day * whole_days + 1) / 2)
    return StandardErrors(
        value_s=value_s,
        value_w=sigma * math.sqrt(1 - known),
        hour_w=hour,
        day_kwh=day,
        month_kwh=day * math.sqrt(days),
        profile_w=None if hour is None else hour / math.sqrt(days),
        register_kwh=register,
    )


def calendar_errors(calendar: Calendar, plan: ViewPlan) -> StandardErrors:
    """Standard errors of a calendar release, root mean squares over its hours, days and months.

    Parameters
    ----------
    calendar : Calendar
        The cells; only times.
    plan : ViewPlan
        The noise of the tables.

    Returns
    -------
    StandardErrors
    """
    # The errors depend on the calendar and the noise alone, so tables of zeros do.
    tables = (
        np.zeros(len(calendar.cells), dtype=np.int64),
        np.zeros(calendar.days.size, dtype=np.int64),
        np.zeros((len(calendar.months), calendar.hours), dtype=np.int64),
        np.zeros(len(calendar.months), dtype=np.int64),
    )
    release = CalendarRelease(calendar, tables, plan, {})
    hour, day, profile, month, register = (
        float(np.sqrt(np.mean(view.errors**2))) for view in release.views
    )
    value_s = calendar.cells.interval_s
    cells = SECONDS_PER_HOUR / value_s
    # The noise of the cells of one hour is nearly independent.
    fine = value_s <= SECONDS_PER_HOUR * _SLACK
    return StandardErrors(
        value_s=value_s,
        value_w=hour,
        hour_w=hour / math.sqrt(cells) if fine else None,
        day_kwh=day,
        month_kwh=month,
        profile_w=profile / math.sqrt(cells) if fine else None,
        register_kwh=register,
    )


def choose_purpose(purpose: str | None, value_s: float) -> str:
    """Check a purpose, or choose one that values of a given length can serve.

    Parameters
    ----------
    purpose : str or None
        A name of `PURPOSES`; None for hours, or for days if the values are longer than an hour.
    value_s : float
        Length of the shortest values that can be released [s].

    Returns
    -------
    str

    Raises
    ------
    InputError
        If the purpose is unknown, or needs hours and the values are longer.
    """
    hourly = value_s <= SECONDS_PER_HOUR * _SLACK
    if purpose is None:
        return "hour" if hourly else "day"
    one_of("purpose", purpose, tuple(PURPOSES))
    if purpose in ("hour", "profile") and not hourly:
        raise InputError(
            f"the values are means over {short_duration(value_s)}, so they show no single hours; "
            "choose --for day, month or register."
        )
    return purpose
