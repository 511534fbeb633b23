"""What the readings are still good for after a release, measured: the utility's side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hushmeter.errors import InputError
from hushmeter.releases.cost import DAYS_PER_MONTH, PRICE_PER_KWH
from hushmeter.trace import SECONDS_PER_DAY, Trace


@dataclass(frozen=True)
class Utility:
    """Errors of released readings against the true ones.

    Attributes
    ----------
    reading_error_w : float
        Mean absolute error of a reading [W].
    hourly_error_w : float
        Mean absolute error of the hourly means [W], see `Trace.hourly`.
    peak_error_w : float
        Error of the largest hourly mean [W].
    daily_error_kwh : float
        Absolute error of the energy, scaled to a day [kWh].
    monthly_bill_error : float
        The same scaled to 30 days, errors adding up by the square root, as money.
    """

    reading_error_w: float
    hourly_error_w: float
    peak_error_w: float
    daily_error_kwh: float
    monthly_bill_error: float


def measure_utility(
    trace: Trace, released: Trace, *, price_per_kwh: float = PRICE_PER_KWH
) -> Utility:
    """Compare a release with the readings it was made of, reading by reading."""
    if len(trace) != len(released) or trace.interval_s != released.interval_s:
        raise InputError("a release can only be compared with readings of the same interval.")
    error = released.readings - trace.readings
    true_hours, hours = trace.hourly().readings, released.hourly().readings
    duration = len(trace) * trace.interval_s
    energy = abs(released.energy_kwh - trace.energy_kwh)
    daily = energy * float(np.sqrt(SECONDS_PER_DAY / duration))
    return Utility(
        reading_error_w=float(np.abs(error).mean()),
        hourly_error_w=float(np.abs(hours - true_hours).mean()),
        peak_error_w=abs(float(hours.max() - true_hours.max())),
        daily_error_kwh=daily,
        monthly_bill_error=daily * float(np.sqrt(DAYS_PER_MONTH)) * price_per_kwh,
    )
