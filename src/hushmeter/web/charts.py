"""Data that a chart can draw: long series are reduced to what a screen can show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hushmeter.checks import BoolArray, IntArray, whole

if TYPE_CHECKING:
    from hushmeter.trace import Trace

POINTS = 1000
"""Largest number of points of a curve."""
COLUMNS = 2400
"""Largest number of columns into which a strip of on and off is divided."""

Row = tuple[int, float | None, float | None]


def milliseconds(trace: Trace) -> IntArray:
    """Return the start of every reading since 1970, UTC [ms]."""
    times: IntArray = trace.times.astype("datetime64[ms]").astype(np.int64)
    return times


def curve_rows(trace: Trace, points: int = POINTS) -> list[Row]:
    """Reduce a trace to rows of time, least and greatest power, so that spikes stay visible.

    Time is divided into equal stretches. Each stretch that holds readings gives a row, at the
    time of its first reading. A short trace keeps all its readings. Where readings are missing,
    an extra row without values marks the gap. Times are since 1970, UTC [ms], powers in watts.
    """
    points = whole("points", points)
    times = milliseconds(trace)
    first = _first_of_stretch(times, len(trace), points)
    low = np.minimum.reduceat(trace.readings, first).round(1)
    high = np.maximum.reduceat(trace.readings, first).round(1)
    rows: list[Row] = list(zip(times[first].tolist(), low.tolist(), high.tolist(), strict=True))
    # A gap is drawn only if it is wider than the stretches around it.
    before = times[first[1:] - 1]
    widest = max(1500 * trace.interval_s, 1.5 * (int(times[-1]) - int(times[0])) / points)
    for i in np.flatnonzero(times[first[1:]] - before > widest)[::-1].tolist():
        rows.insert(i + 1, (int(before[i] + 1000 * trace.interval_s), None, None))
    return rows


def on_stretches(on: BoolArray, trace: Trace, columns: int = COLUMNS) -> list[tuple[int, int]]:
    """Return the stretches of time during which something is on; gaps end a stretch.

    If there are more than `columns` readings, equal numbers of them are combined into one column.
    A column counts as on if at least half of its readings are on. Times are since 1970, UTC [ms].
    """
    times, length = milliseconds(trace), round(1000 * trace.interval_s)
    size = -(-on.size // whole("columns", columns))
    first = np.arange(0, on.size, size)
    held = np.add.reduceat(on.astype(np.int64), first)
    count = np.diff(first, append=on.size)
    drawn: BoolArray = 2 * held >= count
    ends = times[np.minimum(first + size, on.size) - 1] + length
    broken = np.add.reduceat(trace.run_starts.astype(np.int64), first) > 0
    begins = drawn & (broken | ~np.append(False, drawn[:-1]))
    stops = drawn & np.append(broken[1:] | ~drawn[1:], True)
    pairs = zip(times[first][begins].tolist(), ends[stops].tolist(), strict=True)
    return [(int(a), int(b)) for a, b in pairs]


def _first_of_stretch(times: IntArray, count: int, points: int) -> IntArray:
    """Return the position of the first reading of every stretch."""
    if count <= points:
        return np.arange(count)
    span = int(times[-1]) - int(times[0]) + 1
    stretch = (times - times[0]) * points // span
    found: IntArray = np.flatnonzero(np.diff(stretch, prepend=-1))
    return found
