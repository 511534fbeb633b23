"""From raw rows to regular times: order, repeats, interval, gaps and units.

`place` decides which row of a file fills which interval. It receives the times and the lengths of
the rows, but not their values, so that nothing public can depend on a reading. `assemble` then
takes the values of those rows. A check of the values may refuse a file; it never changes a shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.errors import DataError
from hushmeter.formatting import count_of, short_duration
from hushmeter.read.recording import PublicFacts, Recording, Series
from hushmeter.read.times import SECOND
from hushmeter.trace import Metering, iso

HOUR_S, DAY_S = 3600.0, 86_400.0
LONGEST_INTERVAL_S = 90_000.0
LARGEST_W = 1e9
# A file with a larger share of times that repeat alone holds several series, not faulty rows.
FEW_REPEATS = 0.01
# Rows this many times longer than the usual one are totals of a day, a month or a year.
TOTAL_ROWS = 24.0
LONGEST_PAUSE = 1.5


@dataclass
class Placement:
    """Which rows of a series are used, and the regular times at which they lie.

    Attributes
    ----------
    rows : IntArray
        Rows in the order of time. For a counter, the row at the start of every difference.
    ends : IntArray or None
        For a counter, the row at the end of every difference.
    interval_s : float
        Length of one reading [s].
    start : int
        Start of the first reading, nanoseconds since 1970.
    steps : IntArray or None
        Position of every reading, in intervals from `start`; None without gaps.
    lengths : FloatArray or None
        Own length of every reading [s], where readings differ.
    repeated, backward : int
        Rows that repeat a time; rows that go back in time.
    end : int
        End of the last reading, nanoseconds since 1970.
    """

    rows: IntArray
    interval_s: float
    start: int
    end: int
    steps: IntArray | None
    repeated: int
    backward: int
    ends: IntArray | None = None
    lengths: FloatArray | None = None


def assemble(series: Series, path: Path, *, mains: str = "metered") -> Recording:
    """Put a raw series at regular times.

    Parameters
    ----------
    series : Series
    path : Path
        Name of the file, for messages.
    mains : str
        See `PublicFacts.mains`.

    Returns
    -------
    Recording

    Raises
    ------
    DataError
        If no reading is left, the times are irregular, or the values cannot be those of a home.
    """
    found = series.times.size if series.found is None else series.found
    if series.repeats == "leave out":
        _refuse_differing(series, path)
    placed = place(
        series.times,
        path,
        series.notes,
        durations=series.durations,
        declared_s=series.interval_s,
        chosen_s=series.chosen_s,
        stamp=series.stamp,
        counter=series.counter,
        repeats=series.repeats,
        format_name=series.format,
    )
    factor = _watts_per_unit(series, placed)
    watts = _taken(series.values, placed, factor, "readings", series, path)
    power = None
    if series.power is not None:
        columns = [
            _taken(series.power[:, i], placed, factor, name, series, path)
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
        mains=mains,
        notes=tuple(series.notes),
        metering=_metering(series, placed.interval_s),
    )
    return Recording(public, watts, power)


def place(
    times: IntArray,
    path: Path,
    notes: list[str],
    *,
    durations: FloatArray | None = None,
    declared_s: float | None = None,
    chosen_s: float | None = None,
    stamp: str = "start",
    counter: bool = False,
    repeats: str = "leave out",
    format_name: str = "table",
) -> Placement:
    """Decide which rows are used and where they lie; the values are not looked at.

    Parameters
    ----------
    times : IntArray
        Times of the rows, nanoseconds since 1970.
    path : Path
    notes : list of str
        Notes about rows that were left out are added to it.
    durations : FloatArray, optional
        Length of each row [s].
    declared_s : float, optional
        Length of every reading [s], where the format declares it.
    chosen_s, stamp, counter, repeats
        See `Series`.
    format_name : str
        For messages.

    Returns
    -------
    Placement
    """
    if times.size == 0:
        reason = " ".join(notes) or "check that the export was complete."
        raise DataError(f"{path} ({format_name}) holds no readings: {reason}")
    order, backward = _in_order(times, notes)
    kept = order
    if durations is not None:
        usual = chosen_s or declared_s
        kept, durations = _usual_lengths(
            times, order, durations, usual, path, notes, chosen=chosen_s is not None
        )
    kept, repeated = _without_repeats(times, kept, repeats, notes)
    moments = times[kept]
    lengths = None if durations is None else durations[kept]
    interval = chosen_s or declared_s or _interval(moments, lengths, path)
    if chosen_s is not None and lengths is None and moments.size > 1:
        _refuse_longer(chosen_s, declared_s or _interval(moments, None, path), path)
    _refuse_long(interval, path)
    ends = None
    if counter:
        kept, ends, lengths = _pairs(times, kept, interval, notes, path)
        moments = times[kept]
    elif stamp == "end":
        moments = moments - round(interval * SECOND)
    steps, keep = _steps(moments, interval, path, notes)
    if keep is not None:
        kept, moments = kept[keep], moments[keep]
        lengths = None if lengths is None else lengths[keep]
        ends = None if ends is None else ends[keep]
    return Placement(
        rows=kept,
        interval_s=interval,
        start=int(moments[0]),
        end=int(moments[-1]) + round((interval if lengths is None else lengths[-1]) * SECOND),
        steps=steps,
        repeated=repeated,
        backward=backward,
        ends=ends,
        lengths=lengths,
    )


def _in_order(times: IntArray, notes: list[str]) -> tuple[IntArray, int]:
    """Rows in the order of time, and the number of rows that go back."""
    apart = np.diff(times)
    order: IntArray = np.arange(times.size)
    if apart.size == 0 or int(apart.min()) >= 0:
        return order, 0
    if int(apart.max()) <= 0:
        notes.append("The newest reading comes first; the order was turned.")
        # Of equal times the later row stays the later one.
        return np.argsort(times[::-1], kind="stable").astype(np.int64) * -1 + times.size - 1, 0
    backward = int((apart < 0).sum())
    notes.append(f"Rows are not in the order of time ({backward} steps back): they were sorted.")
    return np.argsort(times, kind="stable").astype(np.int64), backward


def _usual_lengths(
    times: IntArray,
    order: IntArray,
    durations: FloatArray,
    declared_s: float | None,
    path: Path,
    notes: list[str],
    *,
    chosen: bool,
) -> tuple[IntArray, FloatArray]:
    """Rows of the usual length; longer rows are totals, and others are refused."""
    usual = declared_s or _usual_length(durations[order])
    # A row from 00:00 to 00:59 (or 00:59:59) is an hour long.
    apart = np.diff(times[order]) / SECOND
    for missing in (60.0, 1.0):
        if declared_s is None and apart.size and np.median(apart) == usual + missing:
            durations, usual = durations + missing, usual + missing
            break
    # On a day of a clock change a row is an hour longer or shorter by the local clock.
    off = np.abs(durations - usual)
    near = (off <= 0.02 * usual) | (np.abs(off - HOUR_S) <= 0.02 * usual)
    kept = order[near[order]]
    left = order[~near[order]]
    if left.size == 0:
        return order, durations
    covered = _cover(times[kept], times[left], durations[left])
    totals = (durations[left] >= TOTAL_ROWS * usual) | covered
    if kept.size == 0:
        raise DataError(f"{path} has no reading of {short_duration(usual)}.")
    if not (chosen or totals.all()):
        row = int(left[~totals][0])
        one, other = short_duration(usual), short_duration(float(durations[row]))
        raise DataError(
            f"{path} has readings of {one} and of {other} (first in row {row}): choose a length, "
            f"such as --reading-length {one.replace(' ', '')}."
        )
    other = f"of another length than {short_duration(usual)}"
    notes.append(count_of(left.size, f"row {other} was left out.", f"rows {other} were left out."))
    return kept, durations


def _cover(kept: IntArray, starts: IntArray, durations: FloatArray) -> BoolArray:
    """True for rows within whose time a kept row begins."""
    first = np.searchsorted(kept, starts)
    last = np.searchsorted(kept, starts + (durations * SECOND).astype(np.int64))
    covered: BoolArray = last > first
    return covered


def _usual_length(durations: FloatArray) -> float:
    """The most frequent length [s]; of equally frequent ones the shorter."""
    lengths, counts = np.unique(durations[durations > 0], return_counts=True)
    return float(lengths[np.argmax(counts)]) if lengths.size else 0.0


def _without_repeats(
    times: IntArray, order: IntArray, repeats: str, notes: list[str]
) -> tuple[IntArray, int]:
    """One row for every time, and the number of rows that repeat one."""
    moments = times[order]
    new = np.append(True, np.diff(moments) > 0)
    repeated = int((~new).sum())
    if repeated == 0:
        return order, 0
    first = np.flatnonzero(new)
    last = np.append(first[1:], order.size) - 1
    if repeats == "last":
        again = count_of(repeated, "row repeats a time", "rows repeat a time")
        notes.append(f"{again}; the last row of each time was kept.")
        return order[last], repeated
    single = _single_repeats(moments, first)
    if single.any():
        several = count_of(int(single.sum()), "time occurs", "times occur")
        notes.append(f"{several} in several rows with different values: a gap follows.")
    if int((last > first).sum()) > int(single.sum()):
        notes.append("Rows that repeat a time have the same value; one of each was kept.")
    return order[last[~single]], repeated


def _single_repeats(moments: IntArray, first: IntArray) -> BoolArray:
    """Times that repeat alone, without their neighbours, and are few.

    An export that was joined from overlapping parts repeats several times in a row. A total among
    the readings, or a wrong time, repeats alone.
    """
    several = np.diff(first, append=moments.size) > 1
    beside = np.append(several[1:], False) | np.append(False, several[:-1])
    single: BoolArray = several & ~beside
    few = int(single.sum()) <= FEW_REPEATS * first.size
    return single if few else np.zeros_like(single)


def _interval(moments: IntArray, lengths: FloatArray | None, path: Path) -> float:
    """Length of a reading [s]: as the rows give it, or the median time between rows."""
    if lengths is not None:
        return _usual_length(lengths)
    if moments.size < 2:
        raise DataError(
            f"{path} holds a single reading, so its interval is unknown: at least two readings "
            "are needed."
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


def _refuse_longer(chosen_s: float, found_s: float, path: Path) -> None:
    """Refuse a stated length in which several readings would fall: all but one would be lost."""
    if chosen_s > 1.02 * found_s:
        raise DataError(
            f"{path} has readings of {short_duration(found_s)}, not of {short_duration(chosen_s)}: "
            "leave --reading-length out."
        )


def _refuse_long(interval: float, path: Path) -> None:
    if not 0 < interval <= LONGEST_INTERVAL_S:
        raise DataError(
            f"{path}: its readings are {interval / DAY_S:.3g} days long, as those of monthly bills "
            "are; ask the utility for readings of a day or less."
        )


def _pairs(
    times: IntArray, kept: IntArray, interval: float, notes: list[str], path: Path
) -> tuple[IntArray, IntArray, FloatArray]:
    """Rows between which a counter's difference is taken; a pause is a gap."""
    if kept.size < 2:
        raise DataError(f"{path} holds a single value of a counter: at least two are needed.")
    apart = np.diff(times[kept]) / SECOND
    near = apart <= LONGEST_PAUSE * interval
    pauses = int((~near).sum())
    notes.append(
        "The values are those of a counter: differences were taken"
        + (f", without {pauses} pauses, which are gaps." if pauses else ".")
    )
    return kept[:-1][near], kept[1:][near], apart[near]


def _steps(
    moments: IntArray, interval: float, path: Path, notes: list[str]
) -> tuple[IntArray | None, IntArray | None]:
    """Interval of every row, and the rows that are kept where several share one.

    A row belongs to the nearest interval; of several rows in one interval the last is kept. An
    interval without a row is a gap: no value is ever copied into a second interval.
    """
    apart = np.diff(moments)
    if apart.size == 0 or int(apart.min()) == int(apart.max()) == round(interval * SECOND):
        return None, None
    position = (moments - moments[0]) / (interval * SECOND)
    cells = np.rint(position).astype(np.int64)
    _refuse_irregular(apart / SECOND / interval, interval, path)
    last = np.append(np.diff(cells) > 0, True)
    lost = int((~last).sum())
    if lost == 0:
        return None if int(np.diff(cells).max()) == 1 else cells, None
    empty = int(cells[-1]) + 1 - int(last.sum())
    notes.append(
        f"Times are uneven: rows lie at the nearest multiple of {short_duration(interval)}; {lost} "
        f"rows shared an interval with a later row, and {empty} intervals are gaps."
    )
    return cells[last], np.flatnonzero(last)


def _refuse_irregular(steps: FloatArray, interval: float, path: Path) -> None:
    """Refuse times that do not follow an interval, such as readings taken by hand."""
    off = np.abs(steps - np.rint(steps))
    if float((off > 0.25).mean()) > 0.4:
        raise DataError(
            f"{path}: the times follow no interval (the median is {short_duration(interval)}, but "
            "most others are no multiple of it); readings at regular times are needed."
        )


def _refuse_differing(series: Series, path: Path) -> None:
    """Refuse a file with several different values for one time, unless such times become gaps."""
    if series.times.size < 2 or int(np.diff(series.times).min()) > 0:
        return
    order = np.argsort(series.times, kind="stable")
    moments, values = series.times[order], series.values[order]
    first = np.flatnonzero(np.append(True, np.diff(moments) > 0))
    spread = np.maximum.reduceat(values, first) - np.minimum.reduceat(values, first)
    largest = np.maximum.reduceat(values, first)
    total = spread > 10 * np.maximum(largest - spread, float(np.median(values)))
    differ = spread > 1e-9 * np.abs(values[first])
    bad = differ & (total | ~_single_repeats(moments, first))
    if series.durations is not None:
        lengths = series.durations[order]
        bad &= np.maximum.reduceat(lengths, first) == np.minimum.reduceat(lengths, first)
    if bad.any():
        when = iso(np.datetime64(int(moments[first[np.argmax(bad)]]), "ns"))
        raise DataError(
            f"{path} has several different values for one time, first at {when}: it holds several "
            "series in one column; keep the rows of one (--register or --meter, if a column tells "
            "them apart), or one row for each time."
        )


def _watts_per_unit(series: Series, placed: Placement) -> float | FloatArray:
    """Watts in one unit of the file, of every reading where lengths differ."""
    if not series.energy:
        return series.factor
    if placed.lengths is not None and (placed.ends is not None or series.interval_s is not None):
        return series.factor * HOUR_S / placed.lengths
    return series.factor * HOUR_S / placed.interval_s


def _taken(
    values: FloatArray,
    placed: Placement,
    factor: float | FloatArray,
    name: str,
    series: Series,
    path: Path,
) -> FloatArray:
    """The values of the placed rows [W]; a counter that falls and an absurd size are refused."""
    taken = values[placed.rows]
    if placed.ends is not None:
        taken = values[placed.ends] - taken
        # A counter of several tariffs is a sum of rounded numbers.
        if taken.size and float(taken.min()) < -1e-6 * max(1.0, float(np.abs(values).max())):
            row = int(np.argmin(taken))
            when = iso(np.datetime64(int(series.times[placed.rows[row]]), "ns"))
            raise DataError(
                f"{path}: the counter ({name}) falls after {when}, as it does when a meter is "
                "exchanged; cut the file there, or state that the values are energies of single "
                "intervals (--counter no)."
            )
        taken = np.maximum(taken, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        watts: FloatArray = taken * factor
    bad = ~(np.abs(watts) <= LARGEST_W)
    if bad.any():
        row = int(np.argmax(bad))
        when = iso(np.datetime64(int(series.times[placed.rows[row]]), "ns"))
        raise DataError(
            f"{path}: {name} at {when}: {watts[row]:.4g} W is not possible in a home; check the "
            "column and its unit (--unit)."
        )
    return watts


def _metering(series: Series, interval_s: float) -> Metering:
    """How the meter rounds, from the format, the header or an option."""
    if series.metering is not None:
        return series.metering
    scale = series.factor * (HOUR_S / interval_s if series.energy else 1.0)
    if series.counter:
        return Metering(register_step_w=(series.step or 1.0) * scale)
    return Metering(resolution_w=(series.step or 0.0) * scale)
