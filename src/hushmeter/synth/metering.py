"""What a real meter adds to the load of a home: its own error, and solar generation (net metering).

The paper considers a pure load. A footnote refers homes with generation to other methods, and a
remark on Assumption 2 bounds the error of a meter by 5 % of the total power. The functions here
add both to a trace, so that their effect can be measured.
"""

from __future__ import annotations

import numpy as np

from hushmeter.checks import FloatArray, IntArray, RngLike, one_of, positive
from hushmeter.errors import InputError
from hushmeter.trace import SECONDS_PER_DAY, SECONDS_PER_HOUR, Trace

NOON_H, HALF_DAY_H = 12.5, 5.5
"""Local time of the largest solar power, and the time from there to sunset [h]."""


def add_meter_error(
    trace: Trace, bound: float = 0.05, *, per: str = "reading", seed: RngLike = 0
) -> Trace:
    """Multiply readings by 1 + e, where the meter error e lies between −bound and bound.

    Notes
    -----
    Reading of the paper: the remark bounds the error of a reading "by 5 % of the total power" and
    names environmental and operational causes, which change over time. It does not limit how the
    error changes from reading to reading, so the default is an independent error for each
    reading. It is the harder case for an attacker, because it adds jumps of up to
    bound · (y_{t−1} + y_t), while a fixed error only scales the jumps that are there.
    """
    if not 0 <= bound <= 1:
        raise InputError(f"bound must lie between 0 and 1, got {bound}.")
    each = one_of("per", per, ("reading", "trace")) == "reading"
    if bound == 0:
        return trace
    errors = np.random.default_rng(seed).uniform(-bound, bound, len(trace) if each else 1)
    return trace.replace_readings(trace.readings * (1 + errors))


def add_solar(trace: Trace, peak_w: float, *, seed: RngLike = 0) -> Trace:
    """Subtract the power of solar panels from the readings, as a net meter does."""
    since = (trace.times - trace.times[0].astype("datetime64[D]")) / np.timedelta64(1, "s")
    hours = since / SECONDS_PER_HOUR % 24
    days = (since // SECONDS_PER_DAY).astype(np.int64)
    rng = np.random.default_rng(seed)
    return trace.replace_readings(
        trace.readings - solar_power(hours, days, positive("peak_w", peak_w), rng)
    )


def solar_power(
    hours: FloatArray, days: IntArray, peak_w: float, rng: np.random.Generator
) -> FloatArray:
    """Power of solar panels [W]: half a cosine by day, with weather that differs by day.

    Units: `hours` [h].
    """
    weather = rng.uniform(0.2, 1.0, int(days.max()) + 1)
    bell = np.maximum(0.0, np.cos((hours - NOON_H) / HALF_DAY_H * np.pi / 2))
    by_day = np.abs(hours - NOON_H) < HALF_DAY_H
    power: FloatArray = peak_w * weather[days] * np.where(by_day, bell, 0.0)
    return power
