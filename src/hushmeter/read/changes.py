"""Recordings that have a row only where a value changed: readings over regular intervals.

When a change occurs depends on the readings. Neither the interval, nor a gap, nor the start or the
end of the readings may therefore be taken from the rows: the user states the start and the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.clock import SECOND
from hushmeter.errors import DataError
from hushmeter.read.options import ReadOptions, unit_factor
from hushmeter.read.recording import Series
from hushmeter.read.times import LATEST
from hushmeter.trace import Metering

POWER_INTERVAL_S, ENERGY_INTERVAL_S = 60.0, 3600.0
MAX_CELLS = 100_000_000


@dataclass(frozen=True)
class Changes:
    """Rows of one sensor."""

    name: str  # The sensor, for notes
    # Unix seconds, and values in `unit`; NaN where the sensor was unavailable
    seconds: FloatArray
    values: FloatArray
    unit: str  # A unit of power, or of energy for the values of a counter
    format: str
    # True if the first row is the value at the start of the recording, and not a change
    begins: bool = True


def change_series(changes: Changes, options: ReadOptions, path: Path) -> Series:
    """Readings over regular intervals of a sensor that records changes only.

    A value holds until the next row; a missing value ends it. A reading of power is the mean of
    its interval. A reading of a counter is its rise, and a fall is a reset to zero.
    """
    factor, energy = unit_factor(changes.unit)
    interval = options.interval_s or (ENERGY_INTERVAL_S if energy else POWER_INTERVAL_S)
    seconds, values = _ordered(changes, path)
    begin, end = _begin(seconds, options, path), _end(seconds, options, path)
    if (end - begin) / interval > MAX_CELLS:
        raise DataError(f"{path} would give more than {MAX_CELLS} readings of {interval:g} s.")
    find = _rises if energy else _means
    cells, readings = find(seconds, values, begin, end, interval)
    if cells.size == 0:
        raise DataError(
            f"{path}: no interval of {interval:g} s is covered whole; state a shorter one "
            "(--reading-length 10s)."
        )
    step = options.step_size or (1.0 if energy else 0.0)
    scale = factor * (3600 / interval if energy else 1.0)
    return Series(
        (cells * round(interval * SECOND)).astype(np.int64),
        readings,
        changes.format,
        changes.unit,
        factor,
        energy,
        interval_s=interval,
        found=int(cells.size),
        complete=True,
        unsettled=_open_ends(changes, options, path),
        notes=_notes(changes, interval, energy),
        metering=Metering(register_step_w=step * scale) if energy else Metering(step * scale),
    )


def _notes(changes: Changes, interval: float, energy: bool) -> list[str]:
    """How the readings were made, and how often the sensor was unavailable."""
    over = "rises" if energy else "means"
    notes = [f"{changes.name}: a value holds until the next row; {over} over {interval:g} s."]
    absent = int(np.isnan(changes.values).sum())
    if absent:
        often = "once" if absent == 1 else f"{absent} times"
        notes.append(f"The sensor was unavailable {often}; these times are gaps.")
    return notes


def _open_ends(changes: Changes, options: ReadOptions, path: Path) -> str | None:
    """The sentence about a start or an end that only a change shows; None if both are stated."""
    wanted = {"--since": changes.begins or options.since, "--until": options.until}
    missing = [name for name, stated in wanted.items() if not stated]
    if not missing:
        return None
    ends = {"--since": "start", "--until": "end"}
    named = " and ".join(ends[name] for name in missing)
    return (
        f"{path} holds changes only, so its {named} would be that of a change, which depends on "
        f"the readings: state the {named} of the recording ({', '.join(missing)} with a time such "
        "as 2024-02-01T00:00Z)."
    )


def moment(text: str, path: Path, place: int = 0) -> float:
    """Unix seconds of an ISO 8601 time with a zone; `place` is its field or line."""
    where = f" (field or line {place})" if place else ""
    try:
        found = datetime.fromisoformat(text.strip())
        if found.tzinfo is None:
            raise DataError(f"{path}: time {text[:40]!r} carries no zone{where}.")
        return found.timestamp()
    except (ValueError, OverflowError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: {text[:40]!r} is not a time{where}.") from None


def _begin(seconds: FloatArray, options: ReadOptions, path: Path) -> float:
    """The start of the recording [s]: as stated, or the first row."""
    if options.since is None:
        return float(seconds[0])
    begin = moment(options.since, path)
    if begin < seconds[0]:
        raise DataError(
            f"{path} has no value at the stated start {options.since}: state a later one (--since)."
        )
    return begin


def _end(seconds: FloatArray, options: ReadOptions, path: Path) -> float:
    """The end of the recording [s]: as stated, or the hour before the last change."""
    if options.until is not None:
        end = moment(options.until, path)
        if end <= seconds[0]:
            raise DataError(f"{path} begins after the stated end {options.until}.")
        return end
    hour = float(np.floor(seconds[-1] / 3600) * 3600)
    return hour if hour > seconds[0] else float(seconds[-1])


def _ordered(changes: Changes, path: Path) -> tuple[FloatArray, FloatArray]:
    """Ascending times; of equal ones the last row counts."""
    order = np.argsort(changes.seconds, kind="stable")
    seconds, values = changes.seconds[order], changes.values[order]
    last = np.append(np.diff(seconds) > 0, True)
    seconds, values = seconds[last], values[last]
    if seconds.size < 2:
        raise DataError(f"{path} has a single change of state; two are needed.")
    if seconds[0] < 0 or seconds[-1] >= LATEST:
        raise DataError(f"{path} has times outside 1970 … 2200.")
    if np.nanmax(np.abs(values), initial=0.0) > 1e12:
        raise DataError(f"{path} has values beyond 1e12; check the entity.")
    return seconds, values


def _rises(
    seconds: FloatArray, counter: FloatArray, begin: float, end: float, interval: float
) -> tuple[IntArray, FloatArray]:
    """Cells at whose two ends a counter is known, and its rise in each.

    The counter holds until its next row, as the meter shows it. A straight line between two rows
    would move a rise into hours without one, depending on when the counter changed before.
    """
    first, last = int(np.ceil(begin / interval)), int(np.floor(end / interval))
    bounds = np.arange(first, last + 1, dtype=np.int64)
    row = np.searchsorted(seconds, bounds * interval, side="right") - 1
    value = np.where(row >= 0, counter[np.maximum(row, 0)], np.nan)
    good = np.flatnonzero(np.isfinite(counter))
    resets: BoolArray = np.diff(counter[good], prepend=-np.inf) < 0
    fallen = np.zeros(max(bounds.size - 1, 0))
    for i in np.flatnonzero(resets).tolist():
        cell = int(np.ceil(seconds[good[i]] / interval)) - 1 - first
        if 0 <= cell < fallen.size:
            fallen[cell] += counter[good[i - 1]]
    rises = np.diff(value) + fallen
    known = np.flatnonzero(np.isfinite(rises))
    return bounds[known], rises[known]


def _means(
    seconds: FloatArray, values: FloatArray, begin: float, end: float, interval: float
) -> tuple[IntArray, FloatArray]:
    """Cells that are covered whole, and the mean of the step function in each."""
    left = np.maximum(seconds, begin)
    right = np.minimum(np.append(seconds[1:], end), end)
    there = np.isfinite(values) & (right > left)
    left, right, values = left[there], right[there], values[there]
    start = np.floor(left / interval).astype(np.int64)
    count = np.floor(right / interval).astype(np.int64) - start + 1
    cells = (
        np.repeat(start, count)
        + np.arange(count.sum())
        - np.repeat(np.cumsum(count) - count, count)
    )
    ends = np.minimum(np.repeat(right, count), (cells + 1) * interval)
    overlap = np.maximum(ends - np.maximum(np.repeat(left, count), cells * interval), 0.0)
    unique, inverse = np.unique(cells, return_inverse=True)
    covered = np.bincount(inverse, weights=overlap)
    total = np.bincount(inverse, weights=overlap * np.repeat(values, count))
    whole = covered >= interval * (1 - 1e-6)
    return unique[whole], total[whole] / covered[whole]
