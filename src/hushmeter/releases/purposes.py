r"""What released data is for, and the errors of its numbers in every kind of release.

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
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.checks import non_negative, one_of, positive
from hushmeter.errors import InputError
from hushmeter.formatting import format_two_digits, format_watts, short_duration
from hushmeter.releases.labels import CELLS, MODEL_DAYS, make_tables, model_month
from hushmeter.trace import JOULES_PER_KWH, SECONDS_PER_DAY, SECONDS_PER_HOUR

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism
    from hushmeter.releases.promise import Promise

MEAN_ABS = math.sqrt(2 / math.pi)
"""Mean absolute value of a normal error, as a multiple of its standard error."""

_SLACK = 1 + 1e-9


@dataclass(frozen=True)
class Purpose:
    """One purpose for which released data can be used.

    Attributes
    ----------
    name : {"hour", "day", "month", "profile", "register"}
        The word after `--for`.
    field : str
        The field of `Errors` with its standard error.
    unit : {"W", "kWh"}
        Unit of its number.
    subject : str
        What its number is about, for a sentence.
    own : str
        The part of the household's own use with which the number is compared.
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
class Errors:
    """Standard errors of the numbers of a release, one for each purpose.

    Attributes
    ----------
    value_s : float
        Length of a released value [s].
    value_w : float or None
        Standard error of a released value [W]; None if no values are released, only sums.
    hour_w : float or None
        That of the mean power of an hour [W]; None if the values are longer than an hour.
    day_kwh : float or None
        That of the energy of a day [kWh]; None if the release does not show days.
    month_kwh : float
        That of the energy of a month [kWh].
    profile_w : float or None
        That of an hour of the typical day of a month [W]; None if the values are longer than an
        hour.
    register_kwh : float or None
        That of the energy since the first value [kWh], as a root mean square over the period; None
        if the release does not show it.
    """

    value_s: float
    value_w: float | None
    hour_w: float | None
    day_kwh: float | None
    month_kwh: float
    profile_w: float | None
    register_kwh: float | None

    def of(self, purpose: str) -> float | None:
        """Standard error for a purpose, in its unit; None if the release does not serve it."""
        field = PURPOSES[one_of("purpose", purpose, tuple(PURPOSES))].field
        error: float | None = getattr(self, field)
        return error

    def cost(self, price_per_kwh: float) -> Cost:
        """The mean absolute errors of nearly normal noise, and the error of the bill of a month."""
        month = MEAN_ABS * self.month_kwh
        hour = self.value_w if self.hour_w is None else self.hour_w
        return Cost(
            interval_s=self.value_s,
            reading_w=None if self.value_w is None else MEAN_ABS * self.value_w,
            hourly_w=None if hour is None else MEAN_ABS * hour,
            daily_kwh=None if self.day_kwh is None else MEAN_ABS * self.day_kwh,
            monthly_kwh=month,
            monthly_bill=month * price_per_kwh,
            price_per_kwh=price_per_kwh,
        )


def errors_of(promise: Promise) -> Errors:
    """Standard errors of a promise, root mean squares over a month of 30 days without a gap."""
    if len(promise.tables) == 1 and promise.tables[0].name == CELLS:
        return independent_errors(promise.noise.std, promise.cells.interval_s)
    month = model_month(promise.cells.interval_s)
    # The sum of a year would be one more sum of this month, which it is not in a longer file.
    parts = tuple(entry for entry in promise.tables if entry.name != "year") or promise.tables
    fit = replace(promise, tables=parts).fit(month)
    in_hour = SECONDS_PER_HOUR / month.interval_s
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
    # What only sums of other cells determine is not shown.
    days_shown = shown & {CELLS, "days"}
    return Errors(
        value_s=month.interval_s,
        value_w=cell if CELLS in shown else None,
        hour_w=cell / math.sqrt(in_hour) if short and CELLS in shown else None,
        day_kwh=day * kwh if days_shown else None,
        month_kwh=whole * kwh,
        profile_w=hour / math.sqrt(in_hour) if short and shown & {CELLS, "typical-day"} else None,
        register_kwh=register * kwh if CELLS in shown else None,
    )


def independent_errors(sigma: float, value_s: float) -> Errors:
    """Standard errors of values of `value_s` seconds with independent noise of σ watts."""
    kwh, in_day = value_s / JOULES_PER_KWH, SECONDS_PER_DAY / value_s
    hour = None
    if value_s <= SECONDS_PER_HOUR * _SLACK:
        hour = sigma * math.sqrt(value_s / SECONDS_PER_HOUR)
    day = sigma * math.sqrt(in_day) * kwh
    return Errors(
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


HOURS_PER_DAY, DAYS_PER_MONTH = 24, 30
PRICE_PER_KWH = 0.30


@dataclass(frozen=True)
class Cost:
    """Expected absolute errors of released readings.

    Attributes
    ----------
    interval_s : float
        Length of a released reading [s].
    reading_w : float or None
        Error of one released reading, E|n| [W]; None if only sums are released.
    hourly_w : float or None
        Error of the mean power of an hour [W]; the error of one reading if that is longer.
    daily_kwh : float or None
        Error of the energy of a day [kWh]; None if the release does not show days.
    monthly_kwh : float
        Error of the energy of 30 days [kWh].
    monthly_bill : float
        Error of the bill of 30 days, at `price_per_kwh`.
    price_per_kwh : float
        Price of one kWh.
    """

    interval_s: float
    reading_w: float | None
    hourly_w: float | None
    daily_kwh: float | None
    monthly_kwh: float
    monthly_bill: float
    price_per_kwh: float


def expect_cost(
    mechanism: Mechanism, interval_s: float, *, price_per_kwh: float = PRICE_PER_KWH
) -> Cost:
    """Compute the errors that a mechanism causes in readings of a given length.

    Parameters
    ----------
    mechanism : Mechanism
        The noise of one released reading.
    interval_s : float
        Length of a released reading [s].
    price_per_kwh : float, default 0.30
        Price of one kWh.

    Returns
    -------
    Cost

    Raises
    ------
    InputError
        If the interval is not positive, or the price is negative.

    Notes
    -----
    The noise of different readings is independent. The sum of n readings therefore has the
    standard deviation σ√n and, because it is nearly normal, the mean absolute error σ√(2n/π). The
    relative error of an energy is thus much smaller than that of a reading.
    """
    interval_s = positive("interval_s", interval_s)
    price = non_negative("price_per_kwh", price_per_kwh)
    daily = _sum_error(mechanism, SECONDS_PER_DAY / interval_s, interval_s)
    days = DAYS_PER_MONTH * SECONDS_PER_DAY / interval_s
    monthly = _sum_error(mechanism, days, interval_s)
    per_hour = SECONDS_PER_HOUR / interval_s
    return Cost(
        interval_s=interval_s,
        reading_w=mechanism.mean_abs,
        hourly_w=_mean_abs_of_sum(mechanism, per_hour) / per_hour,
        daily_kwh=daily,
        monthly_kwh=monthly,
        monthly_bill=monthly * price,
        price_per_kwh=price,
    )


def _mean_abs_of_sum(mechanism: Mechanism, readings: float) -> float:
    """E|Σ n| [W] of a number of independent readings; a number below 1 is a part of one."""
    if readings <= 1:
        return mechanism.mean_abs * readings
    return mechanism.std * math.sqrt(2 * readings / math.pi)


def _sum_error(mechanism: Mechanism, readings: float, interval_s: float) -> float:
    """E|Σ n| of a number of independent readings as energy [kWh]."""
    joules = _mean_abs_of_sum(mechanism, readings) * interval_s
    return joules / SECONDS_PER_HOUR / 1000
