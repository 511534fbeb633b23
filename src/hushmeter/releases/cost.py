"""What the noise costs those who use the readings: from the known law, before any release."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hushmeter.checks import non_negative, positive

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism

HOURS_PER_DAY, DAYS_PER_MONTH, SECONDS_PER_HOUR = 24, 30, 3600
PRICE_PER_KWH = 0.30


@dataclass(frozen=True)
class Cost:
    """Expected absolute errors of released readings.

    Attributes
    ----------
    interval_s : float
        Length of a released reading [s].
    reading_w : float
        Of one released reading, E|n| [W].
    hourly_w : float
        Of the mean power of an hour [W]; for readings longer than an hour, of one reading.
    daily_kwh : float
        Of the energy of a day [kWh].
    monthly_kwh : float
        Of the energy of 30 days [kWh].
    monthly_bill : float
        The same in money, at `price_per_kwh`.
    price_per_kwh : float
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
    """The errors that a mechanism causes in readings of a given interval.

    Errors of independent readings add up by the square root of their number: a sum of n has
    standard deviation σ√n and, being nearly normal, mean absolute error σ√(2n/π). The meter's own
    energy is thus released with a small error although every reading is far off.

    Parameters
    ----------
    mechanism : Mechanism
    interval_s : float
        Length of a released reading [s].
    price_per_kwh : float
    """
    interval_s = positive("interval_s", interval_s)
    price = non_negative("price_per_kwh", price_per_kwh)
    daily = _sum_error(mechanism, HOURS_PER_DAY * SECONDS_PER_HOUR / interval_s, interval_s)
    days = DAYS_PER_MONTH * HOURS_PER_DAY * SECONDS_PER_HOUR / interval_s
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
    """E|Σ n| [W] of so many independent readings; less than one is a part of one."""
    if readings <= 1:
        return mechanism.mean_abs * readings
    return mechanism.std * math.sqrt(2 * readings / math.pi)


def _sum_error(mechanism: Mechanism, readings: float, interval_s: float) -> float:
    """E|Σ n| as energy [kWh]."""
    joules = _mean_abs_of_sum(mechanism, readings) * interval_s
    return joules / SECONDS_PER_HOUR / 1000
