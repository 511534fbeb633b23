"""Values that cannot be what a header seems to state: they are refused, and never changed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hushmeter.checks import FloatArray
from hushmeter.clock import SECOND
from hushmeter.errors import DataError
from hushmeter.read.layouts import Layout
from hushmeter.read.options import ReadOptions
from hushmeter.read.plan import Plan
from hushmeter.read.recording import Series
from hushmeter.read.row_times import ascending
from hushmeter.trace import SECONDS_PER_HOUR, iso

LIKELY_W, LEAST_W = (20.0, 50_000.0), 0.05
LARGEST_MEAN_W, LARGEST_READING_W = 60_000.0, 300_000.0
ABSURD_MEAN_W = 1e6
MANY_RISES = 20


def refuse_implausible(
    series: Series, plan: Plan, layout: Layout | None, options: ReadOptions, path: Path
) -> None:
    """Refuse values that cannot be what the header seems to say; the shape is never changed.

    A file in the project's own layout may be a release. Its noise can make any reading large and
    the mean negative, so only megawatts and milliwatts are refused there.
    """
    if _is_own_layout(plan):
        _refuse_absurd_watts(series.values, path)
        return
    ordered = series.values
    if series.times.size > 1 and int(np.diff(series.times).min()) < 0:
        ordered = ordered[np.argsort(series.times, kind="stable")]
    stated = layout is not None or any(c.meaning.unit in ("W", "kW") for c in plan.values)
    if not (series.counter or stated or options.is_counter is False) and _only_rises(ordered):
        raise DataError(
            f"{path}: {plan.value_names} only rises, as the counter of a meter does: state whether "
            "it is one (--counter yes, with the unit of its energy, or --counter no)."
        )
    hours = _hours(series)
    scale = series.factor / hours if series.energy else series.factor
    if series.counter:
        span = float(series.times.max() - series.times.min()) / SECOND / SECONDS_PER_HOUR
        mean = float(ordered[-1] - ordered[0]) * series.factor / span if span else 0.0
    else:
        mean = float(np.mean(series.values)) * scale
    low, high = LIKELY_W if plan.assumed else (LEAST_W, LARGEST_MEAN_W)
    if layout is None and mean < 0 and not series.counter:
        raise DataError(
            f"{path}: {plan.value_names} has a negative mean, as what is fed into the grid or a "
            "balance has; give what the home uses (--value-column or --register)."
        )
    refuse_mean(mean, path, low, high)
    if layout is None and not series.counter:
        _refuse_peak(series, hours, path)
    if layout is None and series.power is not None and mean > 0:
        means = series.power.mean(axis=0) * scale
        if float(means.clip(0).sum()) > 1.5 * mean + 1.0:
            raise DataError(
                f"{path}: the circuits draw {means.clip(0).sum() / mean:.2g} times what the meter "
                "shows, so a column of the meter may be missing: name it (--value-column)."
            )
        if float(means.max()) > 1.05 * mean + 1.0:
            name = series.names[int(np.argmax(means))]
            raise DataError(
                f"{path}: column {name!r} has a larger mean than the meter, so it is no circuit of "
                "the home: name the meter's column (--value-column)."
            )


def refuse_mean(
    mean: float, path: Path, low: float = LEAST_W, high: float = LARGEST_MEAN_W
) -> None:
    """Refuse a mean power [W] that no home has: the unit or the column must be another."""
    if abs(mean) > high or 0 < abs(mean) < low:
        raise DataError(
            f"{path}: a mean of {mean:.4g} W is not that of a home; check the column and its unit "
            "(--unit)."
        )


def _is_own_layout(plan: Plan) -> bool:
    """True for the two columns that `hushmeter.write.write_meter` writes for a release."""
    names = [column.name for column in plan.values]
    return names == ["watts"] and plan.time.names == {"timestamp"} and not plan.circuits


def _refuse_absurd_watts(watts: FloatArray, path: Path) -> None:
    """Refuse watts that neither a home nor its release can have: the unit must be another."""
    mean, largest = abs(float(np.mean(watts))), float(np.abs(watts).max())
    if mean > ABSURD_MEAN_W or 0 < largest < 1:
        raise DataError(
            f"{path}: readings with a mean of {mean:.4g} W and up to {largest:.4g} W are not those "
            "of a home in watts; check their unit (--unit)."
        )


def _refuse_peak(series: Series, hours: float, path: Path) -> None:
    """Refuse a reading that no home draws, such as the total of a month among hours."""
    lengths: float | FloatArray = 1.0
    if series.energy:
        lengths = (
            hours
            if series.durations is None
            else np.maximum(series.durations / SECONDS_PER_HOUR, hours)
        )
    watts = np.abs(series.values) * series.factor / lengths
    largest = int(np.argmax(watts))
    if float(watts[largest]) > LARGEST_READING_W:
        when = iso(np.datetime64(int(series.times[largest]), "ns"))
        raise DataError(
            f"{path}: the reading at {when} is {watts[largest]:.4g} W, which no home draws: it may "
            "be a total, or the unit may be wrong (--unit)."
        )


def _hours(series: Series) -> float:
    """Length of a reading [h], for a check of its size."""
    if series.durations is not None:
        return max(float(np.median(series.durations)), 1.0) / SECONDS_PER_HOUR
    steps = np.diff(ascending(series.times))
    return float(np.median(steps)) / SECOND / SECONDS_PER_HOUR if steps.size else 1.0


def _only_rises(values: FloatArray) -> bool:
    """True for a long series that never falls, or a short one that rises by little."""
    steps = np.diff(values)
    if steps.size == 0 or float(steps.min()) < 0:
        return False
    rises = int((steps > 0).sum())
    little = float(values[-1] - values[0]) < 0.2 * float(values[0])
    return rises >= MANY_RISES or (rises >= 3 and little)
