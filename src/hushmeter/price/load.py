"""How much the load of a household varies from hour to hour, from true or from released hours."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hushmeter.errors import DataError
from hushmeter.releases.restore import Estimate
from hushmeter.trace import SECONDS_PER_HOUR, Trace


@dataclass(frozen=True)
class Load:
    """Statistics of the true load, to which the buyer's errors are compared."""

    hourly_sd_w: float  # Standard deviation of the true hourly means. [W]
    forecast_w: float  # Root mean square error e₀ of the forecast on true data. [W]
    lag_h: int  # The forecast repeats the value of this many hours before. [h]
    # Standard errors of the first two, if they were computed from released hours; 0 for true
    # readings. [W].
    hourly_sd_se_w: float = 0.0
    forecast_se_w: float = 0.0


def describe_load(trace: Trace | Estimate) -> Load:
    """Return the spread of the hourly means and the error of a forecast that repeats an hour.

    The forecast repeats the same hour of the day before if the trace is longer than a day, and the
    last hour otherwise.

    Notes
    -----
    Noise with a mean variance s² raises the variance of the hours by s² and the mean square of a
    difference by 2·s²; both are subtracted. Restored hours vary less than the load, by the same
    amounts, which are added. With variance V of the load and n hours, the standard error of V is
    √((4·V·s² + 2·s⁴)/n), and that of the mean square F of m differences, each hour of which is
    part of two, is √((16·F·s² + 12·s⁴)/m).
    """
    released = trace if isinstance(trace, Estimate) else None
    trace = trace.trace if isinstance(trace, Estimate) else trace
    if trace.interval_s > SECONDS_PER_HOUR:
        raise DataError("prices need readings of an hour or less.")
    hourly = trace.hourly()
    steps = np.arange(len(hourly)) if hourly.steps is None else hourly.steps
    if len(hourly) < 3:
        raise DataError("prices need readings of at least three hours.")
    lag = 24 if int(steps[-1]) >= 26 else 1
    at = {int(step): i for i, step in enumerate(steps)}
    pairs = [(at[int(s)], at[int(s) - lag]) for s in steps if int(s) - lag in at]
    if not pairs:
        raise DataError(f"this trace has no two hours that are {lag} h apart.")
    now, before = np.array(pairs).T
    errors = hourly.readings[now] - hourly.readings[before]
    variance, square = float(hourly.readings.var()), float((errors**2).mean())
    if variance == 0:
        raise DataError("the hourly load never changes, so the data have no value to a buyer.")
    if released is None:
        return Load(math.sqrt(variance), math.sqrt(square), lag)
    return _released_load(released, variance, square, len(hourly), len(pairs), lag)


def _released_load(
    released: Estimate, variance: float, square: float, hours: int, pairs: int, lag: int
) -> Load:
    """Statistics of the load behind released hours; see the notes of `describe_load`."""
    per_hour = len(released.trace) / hours
    noise = float((released.errors**2).mean()) / per_hour
    sign = 1.0 if released.kind == "restored" else -1.0
    load, forecast = variance + sign * noise, square + 2 * sign * noise
    load_se = math.sqrt((4 * max(load, 0.0) * noise + 2 * noise**2) / hours)
    forecast_se = math.sqrt((16 * max(forecast, 0.0) * noise + 12 * noise**2) / pairs)
    if load <= 2 * load_se or forecast <= 2 * forecast_se:
        raise DataError(
            f"{released.name}: the noise of the released hours hides how much the load varies; "
            "price it with the true readings."
        )
    return Load(
        math.sqrt(load),
        math.sqrt(forecast),
        lag,
        load_se / (2 * math.sqrt(load)),
        forecast_se / (2 * math.sqrt(forecast)),
    )
