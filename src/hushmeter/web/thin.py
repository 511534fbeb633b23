"""Long series made drawable: the least and the most of every stretch, so that spikes stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hushmeter.checks import BoolArray, IntArray, whole

if TYPE_CHECKING:
    from hushmeter.trace import Trace

POINTS = 1000
COLUMNS = 2400

Row = tuple[int, float | None, float | None]


def milliseconds(trace: Trace) -> IntArray:
    """Starts of the intervals in milliseconds since 1970, UTC, shape (T,)."""
    times: IntArray = trace.times.astype("datetime64[ms]").astype(np.int64)
    return times


def thin(trace: Trace, points: int = POINTS) -> list[Row]:
    """At most `points` rows (time, least, most) [ms since 1970, W, W, W] that cover a trace.

    Time is cut into equal stretches; each one that holds readings gives a row, at the time of its
    first reading. A short trace keeps all its readings. Where readings are missing, a row without
    values marks the gap; such rows are not counted.
    """
    points = whole("points", points)
    times = milliseconds(trace)
    first = _first_of_stretch(times, len(trace), points)
    low = np.minimum.reduceat(trace.readings, first).round(1)
    high = np.maximum.reduceat(trace.readings, first).round(1)
    rows: list[Row] = list(zip(times[first].tolist(), low.tolist(), high.tolist(), strict=True))
    # A gap is only drawn where it is wider than the stretches around it.
    before = times[first[1:] - 1]
    widest = max(1500 * trace.interval_s, 1.5 * (int(times[-1]) - int(times[0])) / points)
    for i in np.flatnonzero(times[first[1:]] - before > widest)[::-1].tolist():
        rows.insert(i + 1, (int(before[i] + 1000 * trace.interval_s), None, None))
    return rows


def _first_of_stretch(times: IntArray, count: int, points: int) -> IntArray:
    """Index of the first reading of every stretch."""
    if count <= points:
        return np.arange(count)
    span = int(times[-1]) - int(times[0]) + 1
    stretch = (times - times[0]) * points // span
    found: IntArray = np.flatnonzero(np.diff(stretch, prepend=-1))
    return found


def runs(on: BoolArray, trace: Trace, columns: int = COLUMNS) -> list[tuple[int, int]]:
    """Stretches of time [ms since 1970] during which `on` holds; gaps end a stretch.

    More than `columns` readings are taken together, so many at a time that no more remain: what
    holds for at least half of them is drawn.
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
