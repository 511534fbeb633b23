"""Remove the solar generation from the readings of a net meter before an attack.

The paper considers pure loads and refers homes with generation to a disaggregation that comes
first (footnote to Assumption 2). This module is such a step: it estimates the generation from the
readings alone. Attackers model loads only, so they need it wherever the meter also counts exports.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hushmeter.checks import FloatArray, IntArray
from hushmeter.errors import DataError
from hushmeter.trace import SECONDS_PER_DAY, SECONDS_PER_HOUR, Trace

SLOT_S = 900.0
"""Shortest part of a day over which readings are averaged, so that noise counts less [s]."""
FEWEST_DAYS = 3
LONGEST_DAYLIGHT_H, NIGHT_H = 16.0, 6.0
"""The generation is zero outside the former, around its peak; the latter is certainly dark."""
ENVELOPE = 0.1
"""Quantile of the days that is the lower envelope at a time of day."""
DAY_QUANTILE = 0.85
"""Quantile, over the slots of a day, of the generation that the base load leaves room for."""
CURVE_QUANTILE = 0.9
"""Quantile, over the clear days, of the same at one time of day."""
REFINEMENTS = 3
"""Number of times that the curve and the weather are estimated in turn."""
LEAST_W = 20.0
"""Smallest peak of the generation that counts as found [W]."""


@dataclass(frozen=True)
class _Days:
    """Means over slots of the day, shape (days, slots), and where the readings belong."""

    means: FloatArray
    day: IntArray
    position: FloatArray

    @property
    def slots(self) -> int:
        return int(self.means.shape[1])


def estimate_generation(trace: Trace) -> FloatArray:
    """Estimate the power of solar panels behind a net meter.

    Notes
    -----
    The generation is w_d · g(h): a curve g over the time of day h, the same on all days, times the
    weather w_d of day d. Readings are averaged over 15 min. The lower envelope of a time of day is
    the 10 % quantile over the days, and the first g is its distance below the base load b, which
    is the same quantile by night; noise lowers both alike. Without load below b, a mean y of day d
    shows that w_d · g ≥ b − y. High quantiles of (b − y) / g over the slots of a day, and of
    (b − y) / w_d over the clear days, therefore estimate w_d and g in turn. Clouds that pass
    within a day are not modelled.
    """
    nothing = np.zeros(len(trace))
    if not (trace.readings < 0).any():
        return nothing
    days = _average(trace, 0.0)
    envelope = _smooth(_quantile_of_columns(days.means, ENVELOPE))
    # Days are cut at the darkest time, so that no time zone splits the daylight.
    darkest = (int(envelope.argmin()) + days.slots // 2) % days.slots
    days = _average(trace, darkest * SECONDS_PER_DAY / days.slots)
    envelope = _smooth(_quantile_of_columns(days.means, ENVELOPE))
    curve, base = _daily_curve(envelope)
    if curve is None:
        return nothing
    below = base - days.means
    weather = _weather(below, curve)
    for _ in range(REFINEMENTS if weather.any() else 0):
        # The envelope of a time of day can come from a cloudy day, if a load ran on the clear ones.
        clear = weather > 0.5 * weather.max()
        room = _quantile_of_columns(below[clear] / weather[clear, None], CURVE_QUANTILE)
        curve = np.where(curve > 0, np.maximum(_smooth(room), 0.0), 0.0)
        weather = _weather(below, curve)
    centres = np.arange(days.slots) + 0.5
    shape = np.interp(days.position, centres, curve, period=days.slots)
    generation: FloatArray = weather[days.day] * shape
    return generation


def remove_generation(trace: Trace) -> Trace:
    """Add the estimated generation to net readings, so that they are loads again."""
    return trace.replace_readings(trace.readings + estimate_generation(trace))


def warn_of_generation(trace: Trace) -> str | None:
    """Return one sentence about negative readings, which no attacker models; None without them."""
    count = int((trace.readings < 0).sum())
    if count == 0:
        return None
    return (
        f"{count} of {len(trace)} readings are negative, because the meter counts exported power "
        "or because noise was added; the attackers model loads only, and "
        "hushmeter attack --generation remove takes solar power out first."
    )


def _weather(below: FloatArray, curve: FloatArray) -> FloatArray:
    """Factor of each day, from how far its means are below the base load; 0 without readings."""
    high = curve > 0.3 * curve.max()
    room = _quantile_of_columns((below[:, high] / curve[high]).T, DAY_QUANTILE)
    weather: FloatArray = np.nan_to_num(np.maximum(room, 0.0))
    return weather


def _quantile_of_columns(values: FloatArray, level: float) -> FloatArray:
    """Quantile of the known values of each column; NaN for a column without any."""
    known = ~np.isnan(values).all(axis=0)
    found = np.full(known.size, np.nan)
    if known.any():
        found[known] = np.nanquantile(values[:, known], level, axis=0)
    return found


def _average(trace: Trace, cut_s: float) -> _Days:
    """Means over slots of days that begin `cut_s` seconds after midnight UTC; NaN where empty."""
    if trace.interval_s > SECONDS_PER_HOUR:
        raise DataError(
            "generation can be estimated from readings of at most 1 h, and these have "
            f"{trace.interval_s / SECONDS_PER_HOUR:g} h."
        )
    slots = int(SECONDS_PER_DAY // max(SLOT_S, trace.interval_s))
    # The middle of a reading decides its slot.
    utc = (trace.times - np.datetime64(0, "ns")) / np.timedelta64(1, "s") + trace.interval_s / 2
    day, second = np.divmod(utc - cut_s, SECONDS_PER_DAY)
    day = (day - day[0]).astype(np.int64)
    if np.unique(day).size < FEWEST_DAYS:
        raise DataError(
            f"generation can be estimated from at least {FEWEST_DAYS} days of readings; give more "
            "readings, or keep the generation."
        )
    position = second / SECONDS_PER_DAY * slots
    cell = day * slots + np.minimum(position.astype(np.int64), slots - 1)
    size = (int(day[-1]) + 1) * slots
    counts = np.bincount(cell, minlength=size)
    sums = np.bincount(cell, trace.readings, minlength=size)
    means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return _Days(means.reshape(-1, slots), day, position)


def _smooth(envelope: FloatArray) -> FloatArray:
    """Circular means over about 75 min; a slot without any reading is taken from its neighbours."""
    slots = np.arange(envelope.size)
    known = ~np.isnan(envelope)
    full = np.interp(slots, slots[known], envelope[known], period=envelope.size)
    reach = max(1, envelope.size // 48)
    shifted = [np.roll(full, shift) for shift in range(-reach, reach + 1)]
    smooth: FloatArray = np.mean(shifted, axis=0)
    return smooth


def _daily_curve(envelope: FloatArray) -> tuple[FloatArray | None, float]:
    """Generation of a clear day [W] by slot, None if there is none, and the base load [W]."""
    slots = envelope.size
    peak = int(envelope.argmin())
    distance = np.abs((np.arange(slots) - peak + slots // 2) % slots - slots // 2) * 24 / slots
    night = envelope[distance >= 12 - NIGHT_H / 2]
    base = float(np.median(night))
    curve = np.where(distance <= LONGEST_DAYLIGHT_H / 2, np.maximum(base - envelope, 0.0), 0.0)
    spread = float(np.abs(night - base).max())
    if envelope[peak] >= 0 or curve[peak] < max(LEAST_W, 4 * spread):
        return None, base
    return _only_around(peak, curve), base


def _only_around(peak: int, curve: FloatArray) -> FloatArray:
    """The stretch around the peak in which the curve stays above 2 % of it; zero elsewhere."""
    centred = np.roll(curve, curve.size // 2 - peak)
    low = np.flatnonzero(centred < 0.02 * curve[peak])
    middle = curve.size // 2
    first = int(low[low < middle].max(initial=-1)) + 1
    stop = int(low[low > middle].min(initial=curve.size))
    kept = np.zeros(curve.size)
    kept[first:stop] = centred[first:stop]
    around: FloatArray = np.roll(kept, peak - middle)
    return around
