"""From raw times and values to a `Trace` at regular times: order, repeats, gaps, units."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hushmeter.checks import FloatArray, IntArray
from hushmeter.errors import DataError
from hushmeter.read.recording import Recording, Series
from hushmeter.read.times import SECOND
from hushmeter.trace import Trace, iso

LEAST_RISES = 20
RISES_PER_FALL = 20
LONGEST_STEP = 1.5


def counts_up(values: FloatArray) -> bool:
    """Whether values in the order of time are a register: they rise, and fall only at resets.

    Energy per interval falls about as often as it rises.
    """
    steps = np.diff(values)
    rises, falls = int((steps > 0).sum()), int((steps < 0).sum())
    return rises >= LEAST_RISES and rises >= RISES_PER_FALL * falls


def take_differences(series: Series) -> None:
    """Replace what a register shows by the energy until the next time, in place.

    A reset, a roll-over and a pause of more than 1.5 steps become gaps; the last time has no
    energy.
    """
    steps = np.diff(series.times) / 1e9
    rise = np.diff(series.values)
    rises = None if series.power is None else np.diff(series.power, axis=0)
    good = (rise >= 0) & (steps <= LONGEST_STEP * np.median(steps))
    if rises is not None:
        good &= (rises >= 0).all(axis=1)
    series.times, series.values = series.times[:-1], rise
    series.power, series.durations, series.stamp = rises, steps, "start"
    lost = int((~good).sum())
    series.notes.append(
        f"The values count up ({series.unit}): differences were taken"
        + (f", without {lost} resets or pauses, which are gaps." if lost else ".")
    )
    series.take(np.flatnonzero(good))


LARGEST_W = 1e9


def assemble(series: Series, path: Path, *, mains: str = "metered") -> Recording:
    """Put a raw series on its grid; see `Series` and `Recording`."""
    found = series.times.size if series.found is None else series.found
    apart = np.diff(series.times)
    backward = repeated = 0
    if apart.size and int(apart.min()) <= 0:
        backward, repeated = _order(series, apart, path)
        apart = np.diff(series.times)
    if series.energy and (counts_up(series.values) if series.register is None else series.register):
        take_differences(series)
        apart = np.diff(series.times)
    if series.times.size == 0:
        raise DataError(f"{path} ({series.format}) holds no readings: {_empty_reason(series)}")
    interval = _interval(series, apart, path)
    if series.stamp == "end":
        series.times = series.times - round(interval * SECOND)
    steps, filled = _steps(series, apart, interval)
    with np.errstate(over="ignore", invalid="ignore"):
        watts = series.values * _per_unit(series, interval)
        power = _power(series, interval)
    _check_size(watts, power, series, path)
    if filled is not None:
        watts, power = watts[filled], None if power is None else power[filled]
    trace = Trace(
        watts,
        interval,
        np.datetime64(int(series.times[0]), "ns"),
        power=power,
        names=series.names or None,
        steps=steps,
    )
    return Recording(
        trace,
        series.format,
        series.unit,
        int(found),
        repeated,
        backward,
        series.clock_changes,
        tuple(series.notes),
        mains,
    )


def _empty_reason(series: Series) -> str:
    return " ".join(series.notes) or "check that the export was complete."


def _order(series: Series, steps: IntArray, path: Path) -> tuple[int, int]:
    """Ascending times without repeats; how many went back and how many repeated."""
    if not series.lenient:
        row = int(np.argmax(steps <= 0)) + 1
        raise DataError(
            f"{path}: the time in row {row} repeats or goes back; "
            "sort the file and keep one reading per time."
        )
    backward = int((steps < 0).sum())
    if int(steps.max()) <= 0:
        series.take(np.arange(series.times.size)[::-1])
        backward = 0
        series.notes.append("The newest reading comes first; the order was turned.")
    order = np.argsort(series.times, kind="stable")
    series.take(order)
    return backward, _drop_repeats(series)


def _drop_repeats(series: Series) -> int:
    """Keep the last of every repeated time."""
    last = np.append(np.diff(series.times) > 0, True)
    repeated = int((~last).sum())
    if repeated:
        first = np.concatenate([[0], np.flatnonzero(last)[:-1] + 1])
        spread = np.maximum.reduceat(series.values, first) - np.minimum.reduceat(
            series.values, first
        )
        differ = int((spread > 1e-9 * np.abs(series.values[last])).sum())
        series.notes.append(
            f"{repeated} readings repeat a start that is already there"
            + (f" and {differ} starts have values that differ" if differ else " with equal values")
            + "; the last of each was kept."
        )
        series.take(np.flatnonzero(last))
    return repeated


def _interval(series: Series, steps: IntArray, path: Path) -> float:
    """Declared, or the median step [s]; of two middle steps far apart the shorter."""
    if series.interval_s is not None:
        return series.interval_s
    if series.times.size == 1:
        if series.durations is not None:
            return float(series.durations[0])
        raise DataError(
            f"{path} holds a single reading, so its interval cannot be told: give at least two."
        )
    if int(steps.min()) == int(steps.max()):
        return float(steps[0]) / SECOND
    middle = [(steps.size - 1) // 2, steps.size // 2]
    low, high = np.partition(steps, middle)[middle].tolist()
    return float(low if high > 1.5 * low else (low + high) / 2) / SECOND


def _steps(
    series: Series, nanoseconds: IntArray, interval: float
) -> tuple[IntArray | None, IntArray | None]:
    """Cell of every reading; with jitter, also which reading fills each cell that has one.

    A reading belongs to the nearest cell; of two readings in a cell the later stays.
    """
    length = round(interval * SECOND)
    if nanoseconds.size == 0 or int(nanoseconds.min()) == int(nanoseconds.max()) == length:
        return None, None
    cells = np.rint((series.times - series.times[0]) / (interval * SECOND)).astype(np.int64)
    apart = np.diff(cells)
    extra = _extra_cells(series, apart, nanoseconds / SECOND, interval)
    if int(apart.min()) >= 1 and not extra.any():
        return None if int(apart.max()) == 1 else cells, None
    last = np.append(apart > 0, True)
    keep = np.flatnonzero(last)
    copies = 1 + extra[keep]
    rows = np.repeat(keep, copies)
    offset = np.arange(rows.size) - np.repeat(np.cumsum(copies) - copies, copies)
    series.notes.append(
        f"Times are uneven: put on a grid of {interval:g} s, {int((copies - 1).sum())} cells "
        f"filled from the reading before, {int((~last).sum())} readings shared a cell."
    )
    return cells[rows] + offset, rows


def _extra_cells(series: Series, apart: IntArray, seconds: FloatArray, interval: float) -> IntArray:
    """How many cells after its own a reading fills, shape (T,).

    It fills those that jitter leaves empty, less than 2.5 intervals after it, and all that an
    interval of several times the usual length covers.
    """
    whole = (seconds > 1.5 * interval) & (seconds % interval <= 0.02 * interval)
    jumped = (apart > 1) & (seconds < 2.5 * interval) & ~whole
    extra = np.append(np.where(jumped, apart - 1, 0), 0)
    if series.durations is not None:
        lengths = np.rint(series.durations / interval).astype(np.int64) - 1
        room = np.append(apart - 1, lengths[-1])
        extra = np.maximum(extra, np.minimum(lengths, room))
    return extra.clip(0).astype(np.int64)


def _per_unit(series: Series, interval: float) -> float | FloatArray:
    if not series.energy:
        return series.factor
    if series.durations is not None:
        return series.factor * 3600 / series.durations
    return series.factor * 3600 / interval


def _power(series: Series, interval: float) -> FloatArray | None:
    if series.power is None:
        return None
    scale = _per_unit(series, interval)
    column = scale[:, None] if isinstance(scale, np.ndarray) else scale
    power: FloatArray = series.power * column
    return power


def _check_size(watts: FloatArray, power: FloatArray | None, series: Series, path: Path) -> None:
    """No home draws a gigawatt: such a number is a fault of the file or of the unit."""
    if power is not None and not (np.abs(power) <= LARGEST_W).all():
        row, column = np.argwhere(~(np.abs(power) <= LARGEST_W))[0]
        raise DataError(
            f"{path}: {series.names[column]} draws {power[row, column]:.4g} W in reading {row}; "
            "no appliance does, check the column and its unit."
        )
    bad = ~(np.abs(watts) <= LARGEST_W)
    if bad.any():
        row = int(np.argmax(bad))
        when = iso(np.datetime64(int(series.times[row]), "ns"))
        raise DataError(
            f"{path}: the reading at {when} is {watts[row]:.4g} W; no meter of a home shows that, "
            "check the column and its unit."
        )
