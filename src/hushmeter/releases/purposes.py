r"""What released data is for, and the standard error of its number in every kind of release.

The data may be for single hours, days, months, the typical day (the mean of every hour of the day
over all days of a month) or register values (the energy since the first value). Each release has a
standard error for each of them, which follows from its noise and from public times alone. The
errors of a promise are those of a month of 30 days without a gap, whatever the readings are, so
that two promises can be compared; a release states the error of every single value.

*Cells alone.* Cells of V seconds have independent noise of standard deviation σ. With n = 24 h/V
cells in a day, D = 30 days in a month and N = n·D,

    hour = σ·√(V/1 h),  day = σ·V·√n,  month = day·√D,  typical day = hour/√D,
    register = σ·V·√((N + 1)/2),

where the register is the root mean square over all N cells.

*Several tables.* The standard errors follow from the normal equations of the estimate; see
`hushmeter.releases.estimate`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.checks import one_of
from hushmeter.errors import InputError
from hushmeter.formatting import format_two_digits, format_watts, short_duration
from hushmeter.releases.labels import CELLS, MODEL_DAYS, make_tables, model_month
from hushmeter.trace import JOULES_PER_KWH, SECONDS_PER_DAY, SECONDS_PER_HOUR

if TYPE_CHECKING:
    from hushmeter.releases.cost import Cost
    from hushmeter.releases.promise import Promise

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
        return day if self.name == "day" else day * MODEL_DAYS


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
        from hushmeter.releases.cost import Cost

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


def errors_of(promise: Promise) -> StandardErrors:
    """Standard errors of a promise, root mean squares over a month of 30 days without a gap."""
    if len(promise.tables) == 1 and promise.tables[0].name == CELLS:
        return independent_errors(promise.noise.std, promise.cells.interval_s)
    month = model_month(promise.cells.interval_s)
    fit, in_hour = promise.fit(month), SECONDS_PER_HOUR / month.interval_s
    days, months, profile = make_tables(("days", "months", "typical-day"), month)
    cell, day, whole, hour, register = (
        # The sums of a day may be exact: its variance is then zero up to a rounding error.
        math.sqrt(max(0.0, float(np.mean(variances))))
        for variances in (
            fit.cell_variances,
            fit.sum_variances(days),
            fit.sum_variances(months),
            fit.sum_variances(profile) / profile.members**2,
            fit.register_variances,
        )
    )
    # The noise of the cells of one hour is nearly independent.
    short = month.interval_s <= SECONDS_PER_HOUR * _SLACK
    shown = {entry.name for entry in promise.tables}
    kwh = month.interval_s / JOULES_PER_KWH
    return StandardErrors(
        value_s=month.interval_s,
        value_w=cell,
        hour_w=cell / math.sqrt(in_hour) if short and CELLS in shown else None,
        day_kwh=day * kwh,
        month_kwh=whole * kwh,
        profile_w=hour / math.sqrt(in_hour) if short and shown & {CELLS, "typical-day"} else None,
        register_kwh=register * kwh,
    )


def independent_errors(sigma: float, value_s: float) -> StandardErrors:
    """Standard errors of values of `value_s` seconds with independent noise of σ watts."""
    kwh, in_day = value_s / JOULES_PER_KWH, SECONDS_PER_DAY / value_s
    hour = None
    if value_s <= SECONDS_PER_HOUR * _SLACK:
        hour = sigma * math.sqrt(value_s / SECONDS_PER_HOUR)
    day = sigma * math.sqrt(in_day) * kwh
    return StandardErrors(
        value_s=value_s,
        value_w=sigma,
        hour_w=hour,
        day_kwh=day,
        month_kwh=day * math.sqrt(MODEL_DAYS),
        profile_w=None if hour is None else hour / math.sqrt(MODEL_DAYS),
        register_kwh=sigma * kwh * math.sqrt((in_day * MODEL_DAYS + 1) / 2),
    )


def choose_purpose(purpose: str | None, value_s: float) -> str:
    """Check a purpose, or choose one that values of a given length can serve."""
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
