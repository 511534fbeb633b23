"""Expected errors of released readings, computed from the distribution of the noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hushmeter.checks import non_negative, positive
from hushmeter.trace import SECONDS_PER_DAY, SECONDS_PER_HOUR

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism

HOURS_PER_DAY, DAYS_PER_MONTH = 24, 30
PRICE_PER_KWH = 0.30


@dataclass(frozen=True)
class Cost:
    """Expected absolute errors of released readings.

    Attributes
    ----------
    interval_s : float
        Length of a released reading [s].
    reading_w : float
        Error of one released reading, E|n| [W].
    hourly_w : float
        Error of the mean power of an hour [W]; the error of one reading if that is longer.
    daily_kwh : float
        Error of the energy of a day [kWh].
    monthly_kwh : float
        Error of the energy of 30 days [kWh].
    monthly_bill : float
        Error of the bill of 30 days, at `price_per_kwh`.
    price_per_kwh : float
        Price of one kWh.
    """

    interval_s: float
    reading_w: float
    hourly_w: float
    daily_kwh: float
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
