"""From raw rows to regular times: order, repeats, interval, gaps and units.

`place` decides which row of a file fills which interval. It receives the times and the lengths of
the rows, but not their values, so that nothing public can depend on a reading. `assemble` then
takes the values of those rows. A check of the values may refuse a file; it never changes a shape.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.clock import SECOND, changes_clock
from hushmeter.errors import DataError
from hushmeter.formatting import count_of, short_duration
from hushmeter.read.part import Part
from hushmeter.read.recording import (
    PublicFacts,
    Recording,
    Rows,
    Series,
    Task,
    metering_of_sum,
)
from hushmeter.trace import SECONDS_PER_DAY, SECONDS_PER_HOUR, Metering, iso

LONGEST_INTERVAL_S = 90_000.0
LARGEST_W = 1e9
# A file of which a larger share of rows or of energy would be left out is refused.
MOST_LOST = 0.005
# This many equal pauses in a row are rows of another length, and no gaps.
LONG_RUN = 24
MOST_LENGTHS = 10
# Rows this many times longer than the usual one are totals of a day, a month or a year.
TOTAL_ROWS = 24.0
# Rows this long are periods of bills, which hold no readings [s].
BILL_S = 28.0 * SECONDS_PER_DAY
LONGEST_PAUSE = 1.5
SHORTEST_STEP = 0.5
# Shorter rows do not become longer where the clock is changed: there is one more of them.
CIVIL_S = 7200.0
LIKELY_W, LEAST_W = (20.0, 50_000.0), 0.05
LARGEST_MEAN_W, LARGEST_READING_W = 60_000.0, 300_000.0
ABSURD_MEAN_W = 1e6


@dataclass(frozen=True)
class Timing:
    """What is known about the times of the rows of a series; see `Series` for the fields."""

    times: IntArray
    durations: FloatArray | None = None
    interval_s: float | None = None
    stamp: str = "start"
    counter: bool = False
    energy: bool = False
    repeats: str = "equal"
    zone: str | None = None
    format: str = "table"

    @classmethod
    def of(cls, series: Series) -> Timing:
        """The times of a series, without its values."""
        return cls(**{known.name: getattr(series, known.name) for known in fields(cls)})


@dataclass
class Placement:
    """Which rows of a series are used, and the regular times at which they lie."""

    rows: IntArray  # Rows in the order of time. For a counter, all rows between which it is read
    interval_s: float  # Length of one reading [s]
    # Start of the first and end of the last reading, nanoseconds since 1970
    start: int
    end: int
    # Position of every reading, in intervals from `start`; None without gaps
    steps: IntArray | None
    # Rows that repeat a time; rows that go back in time
    repeated: int
    backward: int
    # First row of every reading, where several rows are added (energy) or averaged (power)
    groups: IntArray | None = None
    lost: IntArray | None = None  # Rows of no reading, whose energy no other row holds
    # For a counter, the start and the end of every reading, nanoseconds since 1970
    spans: tuple[IntArray, IntArray] | None = None
    lengths: FloatArray | None = None  # Own length of every reading [s], where readings differ
    # See `Metering`
    stretch: float = 1.0
    reach: int = 0
    uneven: bool = False  # True if rows lack or do not follow the interval


def assemble(task: Task, series: Series) -> Recording:
    """Put a raw series at regular times."""
    part = task.part(series.zone)
    cut(task, series, part)
    found = series.times.size if series.found is None else series.found
    if series.repeats == "equal":
        refuse_differing(task, series)
    placed = place(task, Timing.of(series))
    _refuse_loss(task, series, placed)
    watts = _taken(task, series.values, placed, "readings", series)
    power = None
    if series.power is not None:
        columns = [
            _taken(task, series.power[:, i], placed, name, series)
            for i, name in enumerate(series.names)
        ]
        power = np.column_stack(columns)
    public = PublicFacts(
        format=series.format,
        unit=series.unit,
        interval_s=placed.interval_s,
        start=np.datetime64(placed.start, "ns"),
        end=np.datetime64(placed.end, "ns"),
        steps=placed.steps,
        names=series.names,
        readings=int(found),
        duplicates=placed.repeated,
        reversed=placed.backward,
        clock_changes=series.clock_changes,
        zone=series.zone,
        mains=series.mains,
        notes=tuple(task.notes),
        metering=_metering(task, series, placed),
    )
    return Recording(public, watts, power, tuple(task.private)).within(task, part)


def cut(task: Task, series: Series, part: Part) -> None:
    """Leave out the rows that are not wholly in a part, before anything is counted.

    Without lengths of their own, rows are taken by the moment that they name; `Recording.within`
    leaves out a reading that such a moment does not show to be outside.
    """
    times = series.times
    if not part or series.is_cut or times.size == 0:
        return
    apart, stated = np.diff(np.unique(times)), series.interval_s or task.options.interval_s
    usual = round(stated * SECOND) if stated else int(np.median(apart)) if apart.size else 1
    own = np.full(times.size, 0 if series.counter else 1)
    margin = 0 if series.counter else usual - 1
    if series.durations is not None:
        own, margin = np.rint(series.durations * SECOND).astype(np.int64), 0
    before = series.stamp == "end"
    starts = times - own if before else times
    ends = starts + own
    begin, end = int(starts.min()) - margin * before, int(ends.max()) + margin * (not before)
    part.refuse_wider(task.error, begin, end, usual)
    series.take(np.flatnonzero(part.holds(starts, ends)))
    if series.times.size == 0:
        raise task.error(f"has no whole reading {part}: choose a longer part (`end=`).")
    series.found, series.is_cut = None, True


def place(task: Task, timing: Timing) -> Placement:
    """Decide which rows are used and where they lie; the values are not looked at."""
    times, chosen_s = timing.times, task.options.interval_s
    if times.size == 0:
        reason = " ".join(task.notes) or "check that the export was complete."
        raise task.error(f"({timing.format}) holds no readings: {reason}")
    order, backward = _in_order(task, times)
    kept, durations, lost = order, timing.durations, None
    if durations is not None:
        kept, durations, lost = _usual_lengths(task, timing, order)
    kept, repeated = _without_repeats(task, times, kept, timing.repeats)
    moments = times[kept]
    lengths = None if durations is None else durations[kept]
    interval = chosen_s or timing.interval_s or _interval(task, moments, lengths)
    alone = timing.energy and lengths is None and timing.interval_s is None
    if alone and not timing.counter:
        interval = _longest_rows(moments, interval)
    if chosen_s is not None and lengths is None and moments.size > 1:
        found = timing.interval_s or _interval(task, moments, None)
        longest = interval if timing.energy else 0.0
        if alone and not timing.counter and found > LONGEST_PAUSE * chosen_s:
            # Energies of sessions at any time are no readings of the length that a person states.
            _refuse_irregular(task, np.diff(moments) / SECOND / found, found)
            longest = found
        _refuse_longer(task, chosen_s, found, longest)
    _refuse_long(task, interval)
    placed = Placement(
        kept, interval, int(moments[0]), 0, None, repeated, backward, lengths=lengths, lost=lost
    )
    if timing.counter:
        return _between_rows(task, moments, placed, timing)
    if alone and chosen_s is None:
        moments = _add_shorter(task, moments, placed, timing.stamp)
    if lengths is None and interval >= CIVIL_S:
        placed.lengths = _civil_lengths(moments, interval, timing)
    if timing.stamp != "start":
        own = np.asarray(interval if placed.lengths is None else placed.lengths)
        share = 0.5 if timing.stamp == "middle" else 1.0
        moments = moments - np.rint(share * own * SECOND).astype(np.int64)
    return _on_grid(task, moments, placed, timing)


def _longest_rows(moments: IntArray, interval: float) -> float:
    """The interval [s], or the length of longer rows that follow each other for long.

    Energy of an hour cannot be divided between its quarters, but quarters can be added.
    """
    shares = np.diff(moments) / (interval * SECOND)
    whole = np.where(np.abs(shares - np.rint(shares)) < 0.02, np.rint(shares), 0)
    ends = np.flatnonzero(np.append(np.diff(whole) != 0, True))
    runs = np.diff(ends, prepend=-1)
    return interval * float(whole[ends][runs >= LONG_RUN].max(initial=1.0))


def _add_shorter(task: Task, moments: IntArray, placed: Placement, stamp: str) -> IntArray:
    """Join rows that divide the interval evenly, and return the times of the joined rows."""
    size = round(placed.interval_s * SECOND)
    apart = np.diff(moments)
    if not (apart < 0.75 * size).any() or not (np.abs(apart - size) < 0.02 * size).any():
        return moments
    backward = stamp == "end"
    times = -moments[::-1] if backward else moments
    anchor = times[:-1][np.abs(np.diff(times) - size) < 0.02 * size][0]
    cells = np.floor((times - anchor) / size + 0.01).astype(np.int64)
    first = np.flatnonzero(np.diff(cells, prepend=cells[0] - 1))
    counts = np.diff(first, append=times.size)
    number = np.arange(times.size) - np.repeat(first, counts)
    due = anchor + cells * size + number * (size // np.repeat(counts, counts))
    whole = np.bitwise_and.reduceat(np.abs(times - due) < 0.02 * size, first)
    if (whole & (counts > 1)).sum() < 2:
        return moments
    used = np.repeat(whole, counts)
    if backward:
        first = times.size - (first + counts)[::-1]
        used, counts, whole = used[::-1], counts[::-1], whole[::-1]
    placed.lost = placed.rows[~used]
    placed.rows = placed.rows[used]
    placed.groups = np.cumsum(counts[whole]) - counts[whole]
    length = short_duration(placed.interval_s)
    task.notes.append(f"Readings of different lengths were added up to {length}.")
    joined: IntArray = moments[first[whole] + (counts[whole] - 1 if backward else 0)]
    return joined


def _on_grid(task: Task, moments: IntArray, placed: Placement, timing: Timing) -> Placement:
    """Put rows that begin at `moments` into the intervals of the grid."""
    interval = placed.interval_s
    placed.start = int(moments[0])
    placed.end = int(moments[-1]) + round(interval * SECOND)
    whole = interval * SECOND == round(interval * SECOND)
    if placed.lengths is None and whole and _are_even(moments, interval):
        return placed
    placed.steps, keep = _steps(task, moments, interval)
    placed.uneven = keep is not None or _has_gaps(moments, interval, timing.zone)
    if keep is not None:
        if timing.energy:
            left = np.setdiff1d(np.arange(moments.size), keep)
            known = placed.rows[:0] if placed.lost is None else placed.lost
            placed.lost = np.append(known, placed.rows[left])
            placed.rows = placed.rows[keep]
        else:
            placed.groups = np.append(0, keep[:-1] + 1)
        moments = moments[keep]
        placed.lengths = None if placed.lengths is None else placed.lengths[keep]
    placed.stretch = _stretch(moments, placed)
    last = interval if placed.lengths is None else placed.lengths[-1]
    placed.end = int(moments[-1]) + round(last * SECOND)
    return placed


def _are_even(moments: IntArray, interval: float) -> bool:
    """True if all rows are one interval apart."""
    apart = np.diff(moments)
    return apart.size == 0 or int(apart.min()) == int(apart.max()) == round(interval * SECOND)


def _stretch(moments: IntArray, placed: Placement) -> float:
    """How far the length of a reading, or the distance of two rows, is off the interval."""
    own = np.diff(moments) / SECOND if placed.lengths is None else placed.lengths
    shares = own / placed.interval_s
    shares = shares[shares < LONGEST_PAUSE]
    return max(1.0 / float(shares.min(initial=1.0)), float(shares.max(initial=1.0)))


def _has_gaps(moments: IntArray, interval: float, zone: str | None) -> bool:
    """True if rows lack or do not follow the interval, other than in an hour shown twice."""
    apart = np.diff(moments) / SECOND
    off = np.abs(apart - interval) > 0.25 * interval
    odd = np.flatnonzero(off & (np.abs(apart - interval) > 1))
    changed = _changes_clock(moments[odd], moments[odd + 1], zone)
    return bool(((apart[odd] > interval + 2 * SECONDS_PER_HOUR + 1) | ~changed).any())


def _changes_clock(starts: IntArray, ends: IntArray, zone: str | None) -> BoolArray:
    """True where the clock of a known zone is changed between two moments [ns since 1970]."""
    if zone is None:
        return np.zeros(starts.size, dtype=np.bool_)
    return changes_clock(starts.astype("datetime64[ns]"), ends.astype("datetime64[ns]"), zone)


def _civil_lengths(moments: IntArray, interval: float, timing: Timing) -> FloatArray | None:
    """Own lengths of days and other long rows that a change of the clock made longer or shorter."""
    apart = np.diff(moments) / SECOND
    found = np.flatnonzero(np.abs(np.abs(apart - interval) - SECONDS_PER_HOUR) <= 60)
    lengths = np.full(moments.size, interval)
    if timing.zone is not None:
        found = found[_changes_clock(moments[found], moments[found + 1], timing.zone)]
    lengths[found + (timing.stamp == "end")] = apart[found]
    return lengths if (lengths != interval).any() else None


def _in_order(task: Task, times: IntArray) -> tuple[IntArray, int]:
    """Rows in the order of time, and the number of rows that go back."""
    apart = np.diff(times)
    order: IntArray = np.arange(times.size)
    if apart.size == 0 or int(apart.min()) >= 0:
        return order, 0
    if int(apart.max()) <= 0:
        task.notes.append("The newest reading comes first; the order was turned.")
        # Of equal times the later row stays the later one.
        return np.argsort(times[::-1], kind="stable").astype(np.int64) * -1 + times.size - 1, 0
    backward = int((apart < 0).sum())
    task.notes.append(
        f"Rows are not in the order of time ({backward} steps back): they were sorted."
    )
    return np.argsort(times, kind="stable").astype(np.int64), backward


def _usual_lengths(
    task: Task, timing: Timing, order: IntArray
) -> tuple[IntArray, FloatArray, IntArray | None]:
    """Rows of the usual length; longer rows are totals, and others are refused."""
    times, durations = timing.times, timing.durations
    assert durations is not None
    stated = task.options.interval_s or timing.interval_s
    usual = stated or _usual_length(durations[order])
    # A row from 00:00 to 00:59 (or 00:59:59) is an hour long.
    apart = np.diff(times[order]) / SECOND
    for missing in (60.0, 1.0):
        if stated is None and apart.size and np.median(apart) == usual + missing:
            durations, usual = durations + missing, usual + missing
            break
    near = np.abs(durations - usual) <= 0.02 * usual
    if usual >= CIVIL_S:
        # A day on which the clock is changed is an hour longer or shorter.
        odd = np.flatnonzero(np.abs(np.abs(durations - usual) - SECONDS_PER_HOUR) <= 60)
        ends = times[odd] + np.rint(durations[odd] * SECOND).astype(np.int64)
        near[odd] |= timing.zone is None or _changes_clock(times[odd], ends, timing.zone)
    kept = order[near[order]]
    left = order[~near[order]]
    if left.size == 0:
        return order, durations, None
    covered = _are_covered(times[left], durations[left], times[kept], usual)
    totals = (durations[left] >= TOTAL_ROWS * usual) | covered
    if kept.size == 0:
        raise task.error(f"has no reading of {short_duration(usual)}.")
    if not (task.options.interval_s is not None or totals.all()):
        if np.unique(durations).size > MOST_LENGTHS and kept.size < 0.5 * order.size:
            raise task.error(
                f"has rows of {np.unique(durations).size} different lengths, such as the sessions "
                "of a charger have: readings at regular times are needed."
            )
        row = int(left[~totals][0])
        one, other = short_duration(usual), short_duration(float(durations[row]))
        raise task.error(
            f"has readings of {one} and of {other} (first in row {row}): choose a length, "
            f"such as `reading_length={one.replace(' ', '')}`."
        )
    other = f"of another length than {short_duration(usual)}"
    task.notes.append(
        count_of(left.size, f"row {other} was left out.", f"rows {other} were left out.")
    )
    # A length that a person did not choose and that many rows have is another series.
    lengths, which, counts = np.unique(durations[left], return_inverse=True, return_counts=True)
    many = counts >= max(lengths.size, 0.1 * order.size)
    chosen = task.options.interval_s is not None
    bills = durations[left] >= BILL_S
    return kept, durations, left[~covered & ~bills & ~(chosen & many[which])]


def _are_covered(
    starts: IntArray, durations: FloatArray, kept: IntArray, usual: float
) -> BoolArray:
    """True for rows of whose time the kept rows cover at least a half: they hold it once more."""
    kept = np.unique(kept)
    if kept.size == 0:
        return np.zeros(starts.size, dtype=np.bool_)
    own = np.append(np.minimum(np.diff(kept) / SECOND, usual), usual)
    before = np.append(0.0, np.cumsum(own))

    def time_until(moments: IntArray) -> FloatArray:
        """Seconds that the kept rows cover before each of some moments."""
        last = np.searchsorted(kept, moments, side="right") - 1
        inside = np.minimum((moments - kept[last]) / SECOND, own[last])
        seconds: FloatArray = np.where(last < 0, 0.0, before[last] + inside)
        return seconds

    ends = starts + np.rint(durations * SECOND).astype(np.int64)
    covered: BoolArray = time_until(ends) - time_until(starts) >= 0.5 * durations
    return covered


def _usual_length(durations: FloatArray) -> float:
    """The most frequent length [s]; of equally frequent ones the shorter."""
    lengths, counts = np.unique(durations[durations > 0], return_counts=True)
    return float(lengths[np.argmax(counts)]) if lengths.size else 0.0


def _without_repeats(
    task: Task, times: IntArray, order: IntArray, repeats: str
) -> tuple[IntArray, int]:
    """One row for every time, and the number of rows that repeat one."""
    moments = times[order]
    new = np.append(True, np.diff(moments) > 0)
    repeated = int((~new).sum())
    if repeated == 0:
        return order, 0
    if repeats != "last" and repeated > 0.5 * order.size:
        raise task.error(
            f"has {repeated} of {order.size} rows that repeat a time: a column of times may not be "
            "understood; name it (`time_column=`), or keep one row for each time."
        )
    last = np.append(np.flatnonzero(new)[1:], order.size) - 1
    again = count_of(repeated, "row repeats a time", "rows repeat a time")
    kept = "the last row of each time" if repeats == "last" else "one of equal rows"
    task.notes.append(f"{again}; {kept} was kept.")
    return order[last], repeated


def _interval(task: Task, moments: IntArray, lengths: FloatArray | None) -> float:
    """Length of a reading [s]: as the rows give it, or the median time between rows."""
    if lengths is not None:
        return _usual_length(lengths)
    if moments.size < 2:
        raise task.error(
            "holds a single reading, so its interval is unknown: at least two readings are needed."
        )
    steps = np.diff(moments)
    if int(steps.min()) == int(steps.max()):
        return float(steps[0]) / SECOND
    middle = [(steps.size - 1) // 2, steps.size // 2]
    low, high = np.partition(steps, middle)[middle].tolist()
    median = float(low if high > 1.5 * low else (low + high) / 2) / SECOND
    return _without_jitter(moments, median)


def _without_jitter(moments: IntArray, median: float) -> float:
    """The whole number of seconds next to the median, if most rows lie near its multiples.

    A logger that is late by a random time gives a median slightly off its interval. The
    sensitivity of a release depends on the interval, so a longer one would declare too little.
    """
    whole = float(round(median))
    if whole < 1 or not 0 < abs(whole - median) <= 0.02 * median:
        return median
    position = (moments - moments[0]) / (whole * SECOND)
    off = np.abs(position - np.rint(position))
    return whole if float(np.median(off)) < 0.125 else median


def _refuse_longer(task: Task, chosen_s: float, found_s: float, longest_s: float) -> None:
    """Refuse a stated length that does not fit the rows: energy would be lost or misplaced."""
    if chosen_s > 1.02 * found_s or chosen_s < 0.98 * max(longest_s, min(found_s, longest_s)):
        raise task.error(
            f"has readings of {short_duration(found_s)}, not of {short_duration(chosen_s)}: "
            "leave `reading_length=` out."
        )


def _refuse_long(task: Task, interval: float) -> None:
    if not 0 < interval <= LONGEST_INTERVAL_S:
        raise task.error(
            f": its readings are {interval / SECONDS_PER_DAY:.3g} days long, as those of "
            "monthly bills are; ask the utility for readings of a day or less."
        )


def _between_rows(task: Task, moments: IntArray, placed: Placement, timing: Timing) -> Placement:
    """Put the differences of a counter on the grid; a pause is a gap.

    Between rows at even times the differences are taken as they are. A counter that was read at
    uneven times is interpolated at the multiples of the interval: a difference over a shorter time
    divided by that time would move further than the sensitivity of the interval states.
    """
    if moments.size < 2:
        raise task.error("holds a single value of a counter: at least two are needed.")
    interval = placed.interval_s
    apart = np.diff(moments) / SECOND
    near = apart <= LONGEST_PAUSE * interval
    pauses = int((~near).sum())
    task.notes.append(
        "The values are those of a counter: differences were taken"
        + (f", without {pauses} pauses, which are gaps." if pauses else ".")
    )
    if not near.any():
        raise task.error(": no two values of the counter follow each other at its interval.")
    starts, ends = moments[:-1][near], moments[1:][near]
    even = np.abs(apart - interval) <= 0.02 * interval
    if interval >= CIVIL_S:
        own = _civil_lengths(moments, interval, replace(timing, stamp="start"))
        even |= False if own is None else (own != interval)[:-1]
    cells = np.rint((starts - starts[0]) / (interval * SECOND)).astype(np.int64)
    placed.uneven = bool(pauses) or not even[near].all()
    if not even[near].all() or (np.diff(cells) < 1).any():
        cells, starts, ends = _interpolated(moments, near, interval)
        placed.reach = 2 * math.ceil(float(apart[near].max()) / interval - 1e-9)
        length = short_duration(interval)
        task.notes.append(
            f"Its rows are uneven: its values at multiples of {length} are interpolated."
        )
        if cells.size == 0:
            raise task.error(f": no interval of {length} lies between values of the counter.")
    placed.lengths = (ends - starts) / SECOND
    placed.stretch = _stretch(starts, placed)
    placed.spans = (starts, ends)
    placed.start, placed.end = int(starts[0]), int(ends[-1])
    cells = cells - cells[0]
    placed.steps = None if int(cells[-1]) == cells.size - 1 else cells
    return placed


def _interpolated(
    moments: IntArray, near: BoolArray, interval: float
) -> tuple[IntArray, IntArray, IntArray]:
    """Cells of the grid that lie between rows of a counter, with their starts and ends [ns]."""
    size = round(interval * SECOND)
    bounds = np.arange(moments[0], moments[-1] + 1, size)
    before = np.searchsorted(moments, bounds, side="right") - 1
    known = (moments[before] == bounds) | np.append(near, False)[before]
    cells = np.flatnonzero(known[:-1] & known[1:])
    return cells, bounds[cells], bounds[cells + 1]


def _steps(
    task: Task, moments: IntArray, interval: float
) -> tuple[IntArray | None, IntArray | None]:
    """Interval of every row, and the rows that are kept where several share one.

    A row belongs to the nearest interval; of several rows in one interval the last gives the time,
    and of two rows less than half an interval apart the first. An interval without a row is a gap:
    no value is ever copied into a second interval.
    """
    if _are_even(moments, interval):
        return None, None
    apart = np.diff(moments)
    position = (moments - moments[0]) / (interval * SECOND)
    cells = np.rint(position).astype(np.int64)
    _refuse_irregular(task, apart / SECOND / interval, interval)
    kept = np.flatnonzero(np.append(np.diff(cells) > 0, True))
    close = np.diff(position[kept], prepend=-1.0) < SHORTEST_STEP
    kept = kept[~close]
    lost = moments.size - kept.size
    if lost == 0:
        return None if int(np.diff(cells).max()) == 1 else cells, None
    cells = cells[kept] - cells[kept[0]]
    empty = int(cells[-1]) + 1 - cells.size
    task.notes.append(
        f"Times are uneven: rows lie at the nearest multiple of {short_duration(interval)}; {lost} "
        f"rows shared an interval with another row, and {empty} intervals are gaps."
    )
    return cells, kept


def _refuse_irregular(task: Task, steps: FloatArray, interval: float) -> None:
    """Refuse times that do not follow an interval, such as readings taken by hand."""
    off = np.abs(steps - np.rint(steps))
    if float((off > 0.25).mean()) > 0.4:
        raise task.error(
            f": the times follow no interval (the median is {short_duration(interval)}, but "
            "most others are no multiple of it); readings at regular times are needed, or a "
            "statement that a row is there only where the value changed (`changes=yes`)."
        )


def refuse_differing(task: Task, series: Series | Rows) -> None:
    """Refuse a file, or a register of it, with several different values for one time."""
    if series.times.size < 2 or int(np.diff(series.times).min()) > 0:
        return
    order = np.argsort(series.times, kind="stable")
    moments, values = series.times[order], series.values[order]
    first = np.flatnonzero(np.append(True, np.diff(moments) > 0))
    spread = np.maximum.reduceat(values, first) - np.minimum.reduceat(values, first)
    bad = spread > 1e-9 * np.abs(values[first])
    if series.durations is not None:
        lengths = series.durations[order]
        bad &= np.maximum.reduceat(lengths, first) == np.minimum.reduceat(lengths, first)
    if bad.any():
        when = iso(np.datetime64(int(moments[first[np.argmax(bad)]]), "ns"))
        raise task.error(
            f"has several different values for one time, first at {when}: it holds several "
            "series in one column; keep the rows of one (`register=` or `meter=`, if a column "
            "tells them apart), or one row for each time."
        )


def _refuse_loss(task: Task, series: Series, placed: Placement) -> None:
    """Refuse a series of which more than half a percent of the rows or the energy would be lost."""
    lost = placed.lost
    if lost is None or lost.size == 0:
        return
    whole = float(np.abs(series.values[placed.rows]).sum() + np.abs(series.values[lost]).sum())
    share = float(np.abs(series.values[lost]).sum()) / whole if whole else 0.0
    if lost.size > MOST_LOST * series.times.size or share > MOST_LOST:
        when = iso(np.datetime64(int(series.times[lost[0]]), "ns"))
        raise task.error(
            f": {lost.size} of {series.times.size} rows with {share:.1%} of the values would be "
            f"left out, because they are no readings of {short_duration(placed.interval_s)}, first "
            f"at {when}: give a file in which every reading has this length (sessions of a charger "
            "have none), or cut the file where the length changes."
        )


def _taken(
    task: Task, values: FloatArray, placed: Placement, name: str, series: Series
) -> FloatArray:
    """The values of the placed rows [W]; a counter that falls and an absurd size are refused."""
    taken = values[placed.rows]
    if placed.groups is not None:
        taken = np.add.reduceat(taken, placed.groups)
        if not series.energy:
            taken = taken / np.diff(placed.groups, append=placed.rows.size)
    if placed.spans is not None:
        starts = series.times[placed.rows]
        _refuse_fall(task, taken, starts, name)
        # Differences of times stay exact in floats, unlike nanoseconds since 1970.
        first, moments = int(starts[0]), (starts - starts[0]) / SECOND
        low, high = ((ends - first) / SECOND for ends in placed.spans)
        taken = np.maximum(np.interp(high, moments, taken) - np.interp(low, moments, taken), 0.0)
    factor: float | FloatArray = series.factor
    if series.energy:
        # A day of 23 hours keeps its energy, unless the format gives the length of every reading.
        declared = series.durations is not None and series.interval_s is not None
        own = placed.lengths if placed.spans is not None or declared else None
        factor = series.factor * SECONDS_PER_HOUR / (placed.interval_s if own is None else own)
    with np.errstate(over="ignore", invalid="ignore"):
        watts: FloatArray = taken * factor
    bad = ~(np.abs(watts) <= LARGEST_W)
    if bad.any():
        row = int(np.argmax(bad))
        rows = placed.rows if placed.groups is None else placed.rows[placed.groups]
        starts = series.times[rows] if placed.spans is None else placed.spans[0]
        when = iso(np.datetime64(int(starts[row]), "ns"))
        raise task.error(
            f": {name} at {when}: {watts[row]:.4g} W is not possible in a home; check the "
            "column and its unit (`unit=`)."
        )
    return watts


def _refuse_fall(task: Task, counter: FloatArray, moments: IntArray, name: str) -> None:
    """Refuse a counter that falls; one of several tariffs is a sum of rounded numbers."""
    rise = np.diff(counter)
    if float(rise.min()) < -1e-6 * max(1.0, float(np.abs(counter).max())):
        when = iso(np.datetime64(int(moments[int(np.argmin(rise))]), "ns"))
        raise task.error(
            f": the counter ({name}) falls after {when}, as it does when a meter is "
            "exchanged: cut the file there, or state that it is no counter (`counter=no`)."
        )


def _metering(task: Task, series: Series, placed: Placement) -> Metering:
    """How the meter rounds, from the format, the header or an option, and what is still open."""
    scale = series.factor * (SECONDS_PER_HOUR / placed.interval_s if series.energy else 1.0)
    step = (task.options.step_size or series.step or (1.0 if series.counter else 0.0)) * scale
    known = series.metering or metering_of_sum(step, series.added, counter=series.counter)
    unsettled = series.unsettled
    if unsettled is None and not series.complete and (placed.uneven or series.lacks):
        unsettled = (
            f"{task.path} has times that are uneven or missing. If it has a row only where the "
            "value changed, its times show the readings: state it (`changes=yes`, with `start=` "
            "and `end=`), or state that rows are missing for other reasons (`changes=no`)."
        )
    reach = max(placed.reach, series.reach)
    return replace(known, stretch=placed.stretch, reach=reach, unsettled=unsettled)


def refuse_mean(
    mean: float, path: Path, low: float = LEAST_W, high: float = LARGEST_MEAN_W
) -> None:
    """Refuse a mean power [W] that no home has: the unit or the column must be another."""
    if abs(mean) > high or 0 < abs(mean) < low:
        raise DataError(
            f"{path}: a mean of {mean:.4g} W is not that of a home; check the column and its unit "
            "(`unit=`)."
        )
