"""From a table to readings: rows of one series, times in UTC, values of one unit.

Values that cannot be what a header seems to state are refused, and never changed. A format module
that has rows calls `text_table.table_of_rows` and hands the planned table to `read_plan`;
everything after that is the same for every source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.clock import SECOND, utc_times
from hushmeter.errors import DataError
from hushmeter.formatting import count_of, format_watts
from hushmeter.read.column_roles import Plan, PlannedTable, plan_table
from hushmeter.read.columns import (
    Column,
    RowTimes,
    ascending,
    find_stamp,
    load_table,
    read_row_times,
    to_numbers,
)
from hushmeter.read.headers import (
    Layout,
    Meaning,
    find_parts,
    find_source,
    find_unit,
    has_other_unit,
    has_word,
    names_energy,
    read_meaning,
    split_words,
)
from hushmeter.read.recording import UTC_CLOCK, Rows, Series, Task, add_rows, unit_factor
from hushmeter.read.regular_times import (
    ABSURD_MEAN_W,
    LARGEST_MEAN_W,
    LARGEST_READING_W,
    LEAST_W,
    LIKELY_W,
    MOST_LOST,
    cut,
    refuse_differing,
    refuse_mean,
)
from hushmeter.read.times import to_utc
from hushmeter.trace import SECONDS_PER_HOUR, iso

HOUR = SECONDS_PER_HOUR * SECOND
OTHER_FLOWS = ("export", "production", "battery")
MANY_RISES = 20
# A counter of the day rises this many times for each fall, to at most this share of its last value.
RISES_PER_FALL, NEAR_ZERO = 8, 0.25
MOST_FLOWS = 12
# An hour that the clock shows twice repeats some times, but fewer than several series do.
LEAST_SPLIT = 0.05
# Rows of an hour that is shown twice are divided in a file of up to six weeks.
MOST_UNDIVIDED = 0.001
LARGEST_RISING_W = 5_000.0


def read_table(task: Task) -> Series:
    """Read a CSV or Parquet table."""
    planned = plan_table(task, load_table(task))
    return read_plan(task, planned)


def read_plan(task: Task, table: PlannedTable) -> Series:
    """Select the rows of one series, place its times and take its values."""
    plan, layout = table.plan, table.layout
    _refuse_changes(task, plan)
    clock = read_row_times(task, plan.time)
    rows = np.flatnonzero(clock.good)
    if rows.size < clock.good.size:
        left = clock.good.size - rows.size
        one, many = "row without a time was left out.", "rows without a time were left out."
        task.notes.append(count_of(left, one, many))
    if rows.size == 0:
        raise task.error("has no row with a time.")
    choice = RowChoice(task, plan, layout, clock)
    parts = choice.parts(rows)
    values, circuits = _values(task, plan)
    values[choice.idle] = 0.0
    read = np.concatenate(parts)
    known = read[np.isfinite(values[read])]
    for column in plan.values or plan.circuits:
        _refuse_other_unit(task, column)
    unit = plan.unit or choice.unit
    if choice.unit is not None:
        task.unit(choice.unit, "the value of its rows")
    if unit is None:
        raise _ask_unit(task, plan, clock.ns[known], values[known])
    zone = task.options.tz or (plan.time.zone if not clock.aware else None)
    stamp = find_stamp(task, clock, known, layout)
    _explain(task, plan, clock, unit, zone, stamp)
    factor, energy = unit_factor(unit)
    pieces = [
        _piece(task, part, clock, zone, values, energy=energy and not plan.counter)
        for part in parts
    ]
    task.notes[:] = dict.fromkeys(task.notes)
    _state_shares(task, plan, pieces, choice.added)
    added = _combined(task, pieces)
    if stamp == "after" and added.times.size > 1:
        added.times = added.times + int(np.median(np.diff(ascending(added.times))))
    series = Series(
        added.times,
        added.values,
        layout.format if layout is not None else table.raw.kind,
        unit,
        factor,
        energy,
        tuple(c.name for c in plan.circuits),
        None,
        None if plan.counter else added.durations,
        stamp=stamp,
        counter=plan.counter and energy,
        step=layout.step if layout is not None else None,
        added=len(plan.values or plan.circuits) * len(parts),
        clock_changes=pieces[0].clock + clock.remark,
        zone=task.options.tz or plan.time.zone,
        mains="metered" if plan.values else "sum of sub-meters",
        complete=task.options.changes == "no" or table.regular,
        # A run moves both readings of every divided row that it overlaps, which may be all of them.
        reach=max(int((piece.share < 1).sum()) // 2 for piece in pieces),
    )
    if task.options.changes == "yes":
        return _of_changes(task, series)
    if plan.circuits:
        share = pieces[0].share
        series.power = np.column_stack([column[pieces[0].rows] * share for column in circuits])
    cut(task, series, task.part(series.zone))
    if plan.circuits and plan.values and plan.time.names != {"timestamp"}:
        _drop_copies(task, series)
    _drop_missing(task, series)
    with np.errstate(over="ignore", invalid="ignore"):
        refuse_implausible(task, series, plan, layout)
    return series


def _refuse_other_unit(task: Task, column: Column) -> None:
    """Refuse a unit of the user that a column contradicts by its header, its cells or its name."""
    given, stated, cells = task.options.unit, column.meaning.unit, column.cell_unit
    if given is None or (cells and unit_factor(given)[1] == unit_factor(cells)[1]):
        # Every cell counts in its own unit.
        return
    task.unit(stated, f"column {column.name!r}")
    if stated is None and not unit_factor(given)[1] and names_energy(column.name):
        raise task.error(
            f": column {column.name!r} is an energy by its name, and {given} is a power: state Wh "
            f"or kWh (`unit=`), or write its unit into its header: {column.name} [{given}]."
        )


def _explain(
    task: Task, plan: Plan, clock: RowTimes, unit: str, zone: str | None, stamp: str
) -> None:
    """Note which columns, unit, zone and stamp were taken, and why."""
    stated = (
        "your option" if task.options.unit else "the name's custom" if plan.assumed else "the file"
    )
    where = "their offset" if clock.aware else "your option" if task.options.tz else "the file"
    kind = "values of a counter" if plan.counter else "values of single intervals"
    task.reasons.extend(
        [
            f"Times: {', '.join(sorted(plan.time.names))}, the {stamp} of the interval.",
            f"Meter: {plan.value_names}, {kind} in {unit}, by {stated}.",
            f"Zone: {'UTC' if clock.aware else zone or 'unknown'}, by {where}.",
        ]
    )


def _ask_unit(task: Task, plan: Plan, times: IntArray, values: FloatArray) -> DataError:
    """The question for the unit, with the mean power that follows from every answer."""
    ordered = values[np.argsort(times, kind="stable")]
    if task.options.is_counter is None and not plan.counter and _only_rises(ordered):
        return _ask_counter(task, plan)
    steps = np.diff(ascending(times))
    hours = float(np.median(steps)) / HOUR if steps.size else 1.0
    mean = (
        float(np.mean(np.diff(ordered) if plan.counter else ordered)) if ordered.size > 1 else 0.0
    )
    answers = [] if plan.counter else [("W", mean), ("kW", 1e3 * mean)]
    answers += [("Wh", mean / hours), ("kWh", 1e3 * mean / hours)]
    means = ", ".join(f"{format_watts(watts)} if they are in {unit}" for unit, watts in answers)
    names = ", kW, Wh or kWh" if not plan.counter else " or kWh"
    return task.error(
        f"does not state the unit of {plan.value_names}: state it "
        f"(`unit={answers[0][0]}`{names}). The mean power is {means}; most homes draw between "
        "100 W and 2 kW on average."
    )


def _ask_counter(task: Task, plan: Plan) -> DataError:
    """The question whether values that never fall are those of a counter."""
    return task.error(
        f": {plan.value_names} only rises, as the counter of a meter does: state whether "
        "it is one (`counter=yes`, with the unit of its energy, or `counter=no`)."
    )


def _refuse_changes(task: Task, plan: Plan) -> None:
    """Refuse a table of changes that has the ends of intervals: it has intervals."""
    if task.options.changes == "yes" and plan.time.end_date is not None:
        raise task.error(
            "has the start and the end of every reading, so it holds no changes: leave "
            "`changes=yes` out."
        )


def _of_changes(task: Task, series: Series) -> Series:
    """The readings of a table that has a row only where the value changed."""
    from hushmeter.read.home_automation import Changes, change_series

    if series.energy and not series.counter:
        raise task.error(
            f"is in {series.unit}: a table of changes holds power, or the values of a "
            "counter (`counter=yes`)."
        )
    changes = Changes(
        "The meter",
        series.times / SECOND,
        series.values,
        series.unit,
        series.format,
        series.added,
        series.zone,
    )
    found = change_series(task, changes)
    found.clock_changes = series.clock_changes
    return found


def _values(task: Task, plan: Plan) -> tuple[FloatArray, list[FloatArray]]:
    """The meter and the circuits in the file's unit; NaN where a reading lacks."""
    circuits = [column.numbers(task) for column in plan.circuits]
    if not plan.values:
        total: FloatArray = np.sum(circuits, axis=0)
        return total, circuits
    columns = [column.numbers(task) for column in plan.values]
    if len(columns) == 1 and (plan.counter or not plan.exports):
        return columns[0].copy(), circuits
    missing = _missing_rows(columns, plan.need_all or plan.counter)
    total = np.sum([np.nan_to_num(column) for column in columns], axis=0)
    if not plan.counter:
        # A portal may leave the cell of what was drawn empty where energy was fed in: whether it
        # does follows from the value, so that such a cell counts as nothing drawn and not as a gap.
        for column in plan.exports:
            fed, odd = to_numbers(column.data, column.decimal)
            missing &= ~(np.isfinite(fed) | odd)
    return np.where(missing, np.nan, total), circuits


def _missing_rows(columns: Sequence[FloatArray], need_all: bool) -> BoolArray:
    """Rows without a reading: one value lacks (phases), or all lack (tariffs)."""
    lacks = np.column_stack([~np.isfinite(column) for column in columns])
    # Of columns that are never filled together, every row has its value in one.
    need_all = need_all and bool((~lacks).all(axis=1).any())
    return np.asarray(lacks.any(axis=1) if need_all else lacks.all(axis=1), dtype=np.bool_)


@dataclass
class _Piece(Rows):
    """Rows of one series with their places in the table."""

    rows: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    # Part of a row's energy that belongs to each time: a half in an hour that is shown twice
    share: FloatArray = field(default_factory=lambda: np.zeros(0))
    clock: str = UTC_CLOCK


def _piece(
    task: Task,
    rows: IntArray,
    clock: RowTimes,
    zone: str | None,
    values: FloatArray,
    *,
    energy: bool,
) -> _Piece:
    """Rows with their times and lengths in UTC; `energy` is true for energies of intervals."""
    times = clock.ns[rows]
    if clock.aware:
        durations = None if clock.ends is None else (clock.ends[rows] - times) / SECOND
        return _Piece(times, values[rows], durations, rows, np.ones(rows.size), UTC_CLOCK)
    if zone is None:
        example = np.datetime64(int(times[0]), "ns").astype("datetime64[s]")
        raise task.error(
            f"has times without a zone, such as {example}; write them as UTC, with a Z "
            "at their end, or name their zone (`tz=`, such as `tz=Europe/London`)."
        )
    local, (times, exists, sentence) = times, to_utc(times, zone)
    ends = None if clock.ends is None else _ends_in_utc(clock, rows, times, zone)
    order, later = np.arange(rows.size), np.zeros(rows.size, dtype=np.int64)
    after = None if clock.after_midnight is None else clock.after_midnight[rows]
    if after is not None and _counts_hours(local, after, exists):
        times = to_utc(local - after, zone)[0] + after
    else:
        again = _second_pass(local, times, zone) if energy else np.zeros_like(times)
        copies = _copies(task, exists, again, local, values[rows])
        order = np.repeat(order, copies)
        later = np.append(False, np.diff(order) == 0)[: order.size] * again[order]
        if (np.diff(times) > 0).all():
            in_time = np.argsort(times[order] + later, kind="stable")
            order, later = order[in_time], later[in_time]
    rows, times = rows[order], times[order] + later
    durations = None if ends is None else (ends[order] + later - times) / SECOND
    share = 1.0 / np.bincount(order, minlength=1)[order]
    return _Piece(times, values[rows] * share, durations, rows, share, sentence)


def _counts_hours(local: IntArray, after: IntArray, exists: BoolArray) -> bool:
    """True if hours are counted from midnight, and not named by the clock.

    A day of 25 hours then has an hour 25, and a day of 23 hours ends with the hour 23.
    """
    days, last = (local - after)[~exists], 23 * HOUR
    of_short = after[np.isin(local - after, days)]
    return bool((after >= 24 * HOUR).any() or (of_short.size and (of_short < last).all()))


def _ends_in_utc(clock: RowTimes, rows: IntArray, times: IntArray, zone: str) -> IntArray:
    """Ends of intervals in UTC; a short row is as long as its two clock times or UTC say.

    In the hour that the clock shows twice, the end of an hour is written as that of the second.
    """
    assert clock.ends is not None
    ends = to_utc(clock.ends[rows], zone)[0]
    local = clock.ends[rows] - clock.ns[rows]
    short = (local > 0) & (local <= 2 * HOUR) & (ends - times > local)
    return np.where(short, times + local, ends)


def _second_pass(local: IntArray, times: IntArray, zone: str) -> IntArray:
    """How much later [ns] the clock shows the time of a row again, if the file has one row for it.

    Zero elsewhere. Such a row may hold the energy of one pass or of both.
    """
    clock = local.astype("datetime64[ns]")
    passes = utc_times(clock, zone), utc_times(clock, zone, second=True)
    again: IntArray = (passes[1] - passes[0]).astype(np.int64)
    apart = np.diff(ascending(times))
    again[again < 0] = 0
    if apart.size == 0 or float(np.median(apart)) > again.max(initial=0):
        return np.zeros_like(again)
    alone = (again > 0) & ~np.isin(times + again, times)
    # A file that shows one of these times twice shows all of them, and what lacks is missing.
    return np.zeros_like(again) if ((again > 0) & ~alone).any() else again


def _copies(
    task: Task, exists: BoolArray, again: IntArray, local: IntArray, values: FloatArray
) -> IntArray:
    """How many readings each row gives: none at a time that the clock skips.

    A row for an hour that is shown twice is divided between the two in a short file. In a longer
    one, where it is a small part, it is left out, because a divided row makes more noise necessary.
    """
    copies = exists.astype(np.int64)
    once = again > 0
    if not once.any():
        return copies
    hour = np.datetime64(int(local[np.argmax(once)]), "ns").astype("datetime64[m]")
    shown = f"has one row for {hour}, which the clock shows twice: it may hold one hour or two"
    if once.sum() > MOST_UNDIVIDED * once.size:
        task.notes.append(f"The file {shown}, so its energy was divided between both.")
        return copies + once
    whole = float(np.nansum(np.abs(values)))
    lost = float(np.nansum(np.abs(values[once]))) / whole if whole else 0.0
    if lost > MOST_LOST:
        raise task.error(
            f"{shown}, and {lost:.1%} of the energy; cut the file before or after this hour."
        )
    task.notes.append(f"The file {shown}, so it became a gap.")
    return copies - once


def _state_shares(
    task: Task, plan: Plan, pieces: Sequence[_Piece], registers: Sequence[str]
) -> None:
    """Tell the household which share of the energy every added column or register has."""
    names, sums = list(registers), [float(np.nansum(piece.values)) for piece in pieces]
    if len(pieces) == 1 and len(plan.values) > 1:
        names = [column.name for column in plan.values]
        sums = [float(np.nansum(c.numbers(task)[pieces[0].rows])) for c in plan.values]
    if len(sums) == len(names) > 1 and sum(sums) > 0 and not plan.counter:
        shares = [f"{name} {part / sum(sums):.0%}" for name, part in zip(names, sums, strict=True)]
        task.private.append(f"Shares of what was added: {', '.join(shares)}.")


def _combined(task: Task, pieces: Sequence[_Piece]) -> Rows:
    """The sum of several tariffs at every time; equal rows of one tariff count once."""
    if len(pieces) > 1 and any(np.unique(p.times).size < p.times.size for p in pieces):
        for piece in pieces:
            refuse_differing(task, piece)
        task.notes.append("Rows that repeat a time within one tariff: one of each was kept.")
    return add_rows(pieces)


def _drop_copies(task: Task, series: Series) -> None:
    """Leave out circuits that equal the meter in most rows: they are the meter once more."""
    assert series.power is not None
    drawn = np.isfinite(series.values) & (series.values != 0)
    same = np.isclose(series.power[drawn], series.values[drawn, None], rtol=1e-6, atol=0)
    copies = same.sum(axis=0) > 0.5 * max(int(drawn.sum()), 1)
    if copies.any():
        named = [name for name, copy in zip(series.names, copies, strict=True) if copy]
        task.private.append(f"Copies of the meter are no circuits: {', '.join(named)}.")
        series.names = tuple(name for name in series.names if name not in named)
        series.power = series.power[:, ~copies] if series.names else None


def _drop_missing(task: Task, series: Series) -> None:
    """Rows without a reading of the meter, or of a circuit of a home, become gaps."""
    if series.power is not None:
        seen: BoolArray = np.asarray(np.isfinite(series.power).any(axis=0))
        if not seen.all():
            empty = [n for n, there in zip(series.names, seen, strict=True) if not there]
            task.notes.append(f"Without any value, so left out: {', '.join(empty[:12])}.")
            series.names = tuple(n for n, there in zip(series.names, seen, strict=True) if there)
            series.power = series.power[:, seen] if seen.any() else None
    missing: BoolArray = ~np.isfinite(series.values)
    if series.power is not None:
        missing = missing | ~np.isfinite(series.power).all(axis=1)
    if missing.any():
        rows = count_of(int(missing.sum()), "row has a missing value", "rows have missing values")
        task.notes.append(f"{rows}: these times are gaps.")
        series.lacks = True
        series.take(np.flatnonzero(~missing))
    if series.times.size == 0:
        raise task.error(f"({series.format}) has no row in which every column has a value.")


class RowChoice:
    """The rows of the home's consumption, where columns of words tell series apart."""

    def __init__(self, task: Task, plan: Plan, layout: Layout | None, clock: RowTimes) -> None:
        self.task, self.plan, self.layout, self.clock = task, plan, layout, clock
        self.unit: str | None = None
        self.idle: IntArray = np.zeros(0, dtype=np.int64)
        self._texts: dict[str, Any] = {}
        self._left: list[IntArray] = []
        self.added: list[str] = []  # The registers that are added up
        self._foreign = ""  # Why the unit of the rows is none of energy or power
        self._chosen = ""  # The column of the registers that the user chose

    def parts(self, rows: IntArray) -> list[IntArray]:
        """The rows of every series that is added up: one, or one for each tariff.

        Rows of another direction at times without a row of the chosen one are in `idle`, and in
        the first part: the word Import or Export may follow from the sign of the value, so that
        leaving such a row out would show it. What was drawn is nothing at these times.
        """
        parts = self._parts(rows)
        if self._left and not self.plan.counter:
            kept = np.concatenate(parts)
            left = np.unique(np.concatenate(self._left))
            left = left[~np.isin(self._moments(left), self._moments(kept))]
            self.idle = left[np.unique(self._moments(left), return_index=True)[1]]
            parts[0] = np.sort(np.concatenate([parts[0], self.idle]))
        return parts

    def _moments(self, rows: IntArray) -> IntArray:
        """Local times of some rows [ns]."""
        times: IntArray = self.clock.ns[rows]
        return times

    def _parts(self, rows: IntArray) -> list[IntArray]:
        keys = [c for c in self.plan.keys if not _is_remark(c)]
        if self.task.options.meter is not None:
            rows = self._asked(rows, keys, self.task.options.meter, "meter")
        if self.layout is not None:
            rows = self._one_home(self._kept(rows, self.layout))
        units = [c for c in keys if has_word(c.name, "units")]
        for column in units:
            rows = self._one_unit(rows, column, keys)
        if self.unit is None and self._foreign:
            raise self.task.error(self._foreign)
        others = [c for c in keys if c not in units]
        meters = [c for c in others if c.names_meter and not self._are_flows(rows, c)]
        if self.task.options.register is not None and keys:
            rows = self._asked(rows, keys, self.task.options.register, "register")
        else:
            for column in others:
                if column not in meters:
                    rows = self._without_other_flows(rows, column)
        for column in others:
            self._refuse_source(rows, column)
            if column in meters or self._is_home(column):
                rows = self._one_meter(rows, column)
        if rows.size == 0:
            raise self.task.error("holds no readings of what was asked for.")
        for column in others:
            self._find_unit(rows, column)
        return self._split(rows, [c for c in others if c not in meters])

    def _are_flows(self, rows: IntArray, column: Column) -> bool:
        """True if every name of a meter states a direction, such as grid_import: one meter."""
        distinct = self._distinct(column, rows)
        few = 1 < len(distinct) <= MOST_FLOWS
        return few and all(read_meaning(text).flow for text in distinct)

    def _values(self, column: Column, rows: IntArray) -> Any:
        """The words of a column in some rows, as an array of text."""
        if column.name not in self._texts:
            texts = [_plain_word(v) for v in column.data.tolist()]
            self._texts[column.name] = np.array(texts, dtype=object)
        return self._texts[column.name][rows]

    def _distinct(self, column: Column, rows: IntArray) -> list[str]:
        return sorted(set(self._values(column, rows)) - {""})

    def _asked(self, rows: IntArray, keys: Sequence[Column], asked: str, option: str) -> IntArray:
        """The rows whose meter or register the user chose, or the registers joined by a plus."""
        order = sorted(keys, key=lambda c: c.names_meter != (option == "meter"))
        for column in order:
            known = {text.lower(): text for text in self._distinct(column, rows)}
            words = [_plain_word(asked).lower()]
            words = (
                words if words[0] in known else [_plain_word(w).lower() for w in asked.split("+")]
            )
            if all(word in known for word in words):
                same = [known[word] for word in words]
                texts = self._values(column, rows)
                if option == "register":
                    self._refuse_one_of_many(rows, column, same)
                    self._chosen = column.name
                    others = [t for t in set(texts) - set(same) if read_meaning(t).flow
                              and not _is_other(t)]  # fmt: skip
                    self._left.append(rows[np.isin(texts, others)])
                return rows[np.isin(texts, same)]
        found = [v for c in order for v in self._distinct(c, rows)[:12]]
        raise self.task.chooser(option, option).absent(asked, found)

    def _refuse_one_of_many(self, rows: IntArray, column: Column, asked: Sequence[str]) -> None:
        """Refuse some registers of a meter whose other registers hold the rest of its energy."""
        if not self._splits(rows, column):
            return
        named = {t: read_meaning(t) for t in self._distinct(column, rows)}
        flows = {named[text].flow for text in asked} | {""}
        usable = {t: m for t, m in named.items() if m.flow in flows}
        whole = find_parts(usable) if len(usable) > 1 else None
        if whole is not None and set(asked) < set(whole):
            raise self.task.error(
                f": {' and '.join(map(repr, asked))} is only a part of what the meter shows "
                f"({column.name}: {', '.join(whole)}): leave `register=` out, and they are added."
            )

    def _kept(self, rows: IntArray, layout: Layout) -> IntArray:
        """The rows that a layout reads."""
        named = {c.name.lower(): c for c in self.plan.keys}
        for name, beginnings in layout.keep.items():
            if name in named and self.task.options.register is None:
                texts = self._values(named[name], rows)
                kept = np.array([t.lower().startswith(beginnings) for t in texts], dtype=np.bool_)
                if not kept.all():
                    self.task.notes.append(
                        f"Rows of other kinds ({named[name].name}) were left out."
                    )
                rows = rows[kept]
        return rows

    def _one_unit(self, rows: IntArray, column: Column, keys: Sequence[Column]) -> IntArray:
        """Rows of an electric unit; a meter with cubic metres measures gas or water."""
        units = {text: find_unit(text) for text in self._distinct(column, rows)}
        electric = [text for text, unit in units.items() if unit is not None]
        texts = self._values(column, rows)
        others = [t for t in units if units[t] is None and find_source(t) is not None]
        if others:
            meters = [c for c in keys if c.names_meter]
            both = not meters or any(
                set(self._values(c, rows[np.isin(texts, others)]))
                & set(self._values(c, rows[np.isin(texts, electric)])) for c in meters
            )  # fmt: skip
            if both or not electric:
                raise self.task.error(f"holds gas or water (unit {others[0]}), not electricity.")
        if not electric:
            foreign = [t for t in units if has_other_unit(t)]
            if foreign and len(foreign) == len(units) and self.plan.values[0].meaning.unit is None:
                self._foreign = f"is in {foreign[0]} ({column.name}), which is no unit of energy."
            return rows
        energies = [t for t in electric if (units[t] or "").lower().endswith("wh")] or electric
        if len({units[t] for t in energies}) == 1:
            self.unit = units[energies[0]]
        else:
            raise self.task.error(
                f"mixes the units {', '.join(energies)} ({column.name}): export all "
                "rows in one unit."
            )
        if len(energies) < len(units):
            left = ", ".join(t for t in units if t not in energies)
            self.task.notes.append(f"Rows in other units ({left}) were left out.")
        return rows[np.isin(texts, [*energies, ""])]

    def _without_other_flows(self, rows: IntArray, column: Column) -> IntArray:
        """Rows that are not export, production, gas, water or reactive energy."""
        distinct = self._distinct(column, rows)
        if not distinct or len(distinct) > 60:
            return rows
        splits = self._splits(rows, column)
        if not splits and not has_word(column.name, "registers"):
            # A word beside the only row of its time may follow from a value: the mode of a heat
            # pump, or a plug that writes "off" or its watts.
            return rows
        named = {text: read_meaning(text) for text in distinct}
        unused = [t for t in distinct if named[t].flow in OTHER_FLOWS or _is_other(t)]
        unused += self._other_measures({t: named[t] for t in distinct if t not in unused})
        if not unused:
            return rows
        if len(unused) == len(distinct):
            source = next((s for t in unused if (s := find_source(t))), None)
            what = source or "export or production"
            raise self.task.error(
                f"holds only {what} ({column.name}: {', '.join(unused[:5])}), not what "
                "the home used."
            )
        texts = self._values(column, rows)
        fed = [t for t in unused if named[t].flow in OTHER_FLOWS and not _is_other(t)]
        self._left.append(rows[np.isin(texts, fed)])
        left = [t for t in unused if splits or t not in fed]
        if left:
            self.task.notes.append(f"Rows of {', '.join(left[:8])} were left out ({column.name}).")
        return rows[~np.isin(texts, unused)]

    def _other_measures(self, named: Mapping[str, Meaning]) -> list[str]:
        """Words of the same energy once more: its counter, its extremes, or another unit of it."""
        plain = {t for t, m in named.items() if not m.counter and m.flow != "other"}
        if not plain or len(named) < 2:
            return []
        other = [t for t, m in named.items() if m.counter and m.flow in ("import", "use")]
        words = {t: split_words(t) for t in named}
        other += [t for t in named if words[t] and has_word(words[t][0], "statistics")
                  and any(words[t][1:] == words[p] for p in plain)]  # fmt: skip
        unit = self.plan.unit
        if unit is not None:
            energy = unit_factor(unit)[1]
            foreign = [t for t in named
                       if has_word(t, "power_names" if energy else "energy_names")]  # fmt: skip
            other += foreign if len(foreign) < len(plain) else []
        return [t for t in named if t in other]

    def _one_home(self, rows: IntArray) -> IntArray:
        """The rows of the home that the user chose, in a data set of many homes."""
        column = next((c for c in self.plan.keys if self._is_home(c)), None)
        if column is None or self.task.options.building is None:
            return rows
        homes = self.task.chooser("home", "building")
        asked = homes.asked(self._distinct(column, rows), self.task.options.building)
        kept: IntArray = rows[self._values(column, rows) == asked]
        return kept

    def _is_home(self, column: Column) -> bool:
        return self.layout is not None and column.name.lower() == self.layout.meter

    def _refuse_source(self, rows: IntArray, column: Column) -> None:
        """Refuse rows whose meters or statistics are all named after gas, water or heat."""
        distinct = self._distinct(column, rows)[:60]
        sources = [find_source(text.replace(".", " ")) or find_source(text.split("_")[-1])
                   for text in distinct]  # fmt: skip
        if column.names_meter and distinct and all(sources):
            raise self.task.error(f"holds {sources[0]} ({column.name}: {distinct[0]}).")

    def _one_meter(self, rows: IntArray, column: Column) -> IntArray:
        """The rows of the only meter, or of the only one that is named after the mains."""
        distinct = self._distinct(column, rows)
        if len(distinct) < 2 or len(distinct) > 0.5 * rows.size:
            return rows
        mains = [text for text in distinct if read_meaning(text).mains]
        if len(mains) == 1 and self._splits(rows, column):
            self.task.notes.append(f"Meters other than {mains[0]} were left out ({column.name}).")
            kept: IntArray = rows[self._values(column, rows) == mains[0]]
            return kept
        chooser = (
            self.task.chooser("home", "building")
            if self._is_home(column)
            else self.task.chooser("meter", "meter")
        )
        raise chooser.several(distinct, column=column.name)

    def _find_unit(self, rows: IntArray, column: Column) -> None:
        """Take the unit from the words of the rows, such as Active Import Interval (kWh)."""
        units = {find_unit(text) for text in self._distinct(column, rows)[:60]}
        if self.unit is None and len(units) == 1 and not column.names_meter:
            self.unit = units.pop()

    def _splits(self, rows: IntArray, column: Column) -> bool:
        """True if rows of one time have different words in this column."""
        distinct = self._distinct(column, rows)
        if len(distinct) < 2 or len(distinct) > 0.5 * rows.size:
            return False
        texts, times = self._values(column, rows), self._moments(rows)
        codes = np.unique(texts, return_inverse=True)[1]
        order = np.lexsort((codes, times))
        same = (np.diff(times[order]) == 0) & (np.diff(codes[order]) != 0)
        return int(same.sum()) > LEAST_SPLIT * rows.size

    def _split(self, rows: IntArray, columns: Sequence[Column]) -> list[IntArray]:
        """One part for each tariff; other words must be chosen between by the user."""
        columns = [column for column in columns if self._splits(rows, column)]
        if not columns:
            return [rows]
        column = min(columns, key=lambda c: self._added(rows, c) is None)
        others = [c for c in columns if c is not column]
        texts = self._values(column, rows)
        distinct = self._distinct(column, rows)
        added = self._added(rows, column)
        if added is None:
            raise self.task.error(
                f"holds several series ({column.name}: {', '.join(distinct[:12])}): choose that of "
                "the home's use (`register=NAME`, or NAME+NAME for series that are added)."
            )
        left = [text for text in distinct if text not in added]
        if left:
            self.task.notes.append(f"Left out ({column.name}): {', '.join(left[:8])}.")
        if len(added) > 1:
            self.added = list(added)
            self.task.notes.append(f"Added up ({column.name}): {', '.join(added[:8])}.")
        return [p for t in added for p in self._split(rows[texts == t], others)]

    def _added(self, rows: IntArray, column: Column) -> Sequence[str] | None:
        """The words of a column whose rows are added up; None if the choice is not clear."""
        distinct = self._distinct(column, rows)
        if column.name == self._chosen:
            return distinct
        named = {text: read_meaning(text) for text in distinct}
        flows = {meaning.flow for meaning in named.values()} - {""}
        return find_parts(named) if len(flows) < 2 and named else None


def _plain_word(value: object) -> str:
    """A word without the marks with which files keep spreadsheets from reading a number."""
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip().removeprefix("=").strip("\"'").strip()


def _is_other(text: str) -> bool:
    """True for a word of gas, water, heat or reactive energy."""
    return find_source(text) is not None or has_word(text, "reactive")


def _is_remark(column: Column) -> bool:
    return has_word(column.name, "remarks") and not has_word(column.name, "units")


def refuse_implausible(task: Task, series: Series, plan: Plan, layout: Layout | None) -> None:
    """Refuse values that cannot be what the header seems to say; the shape is never changed.

    A file in the project's own layout may be a release. Its noise can make any reading large and
    the mean negative, so only megawatts and milliwatts are refused there.
    """
    if _is_own_layout(plan):
        _refuse_absurd_watts(task, series.values)
        return
    ordered, times = series.values, series.times
    if times.size > 1 and int(np.diff(times).min()) < 0:
        order = np.argsort(times, kind="stable")
        ordered, times = ordered[order], times[order]
    if series.energy:
        _refuse_restarts(task, plan, ordered, times)
    stated = layout is not None or any(c.meaning.unit in ("W", "kW") for c in plan.values)
    if not (series.counter or stated or task.options.is_counter is False) and _only_rises(ordered):
        raise _ask_counter(task, plan)
    hours = _hours(series)
    rising = not series.counter and not stated and _only_rises(ordered)
    scale = series.factor / hours if series.energy else series.factor
    if series.counter:
        span = float(series.times.max() - series.times.min()) / SECOND / SECONDS_PER_HOUR
        mean = float(ordered[-1] - ordered[0]) * series.factor / span if span else 0.0
    else:
        mean = float(np.mean(series.values)) * scale
    low, high = LIKELY_W if plan.assumed else (LEAST_W, LARGEST_MEAN_W)
    if rising:
        # Energies that only rise are those of a home at most if they are small.
        high = LARGEST_RISING_W
    if layout is None and mean < 0 and not series.counter:
        raise task.error(
            f": {plan.value_names} has a negative mean, as what is fed into the grid or a "
            "balance has; give what the home uses (`value_column=` or `register=`)."
        )
    refuse_mean(mean, task.path, low, high)
    if layout is None and not series.counter:
        _refuse_peak(task, series, hours)
    if layout is None and series.power is not None and mean > 0:
        means = series.power.mean(axis=0) * scale
        if float(means.clip(0).sum()) > 1.5 * mean + 1.0:
            raise task.error(
                f": the circuits draw {means.clip(0).sum() / mean:.2g} times what the meter "
                "shows, so a column of the meter may be missing: name it (`value_column=`)."
            )
        if float(means.max()) > 1.05 * mean + 1.0:
            name = series.names[int(np.argmax(means))]
            raise task.error(
                f": column {name!r} has a larger mean than the meter, so it is no circuit of "
                "the home: name the meter's column (`value_column=`)."
            )


def _is_own_layout(plan: Plan) -> bool:
    """True for the two columns that `hushmeter.write.write_meter` writes for a release."""
    names = [column.name for column in plan.values]
    return names == ["watts"] and plan.time.names == {"timestamp"} and not plan.circuits


def _refuse_absurd_watts(task: Task, watts: FloatArray) -> None:
    """Refuse watts that neither a home nor its release can have: the unit must be another."""
    mean, largest = abs(float(np.mean(watts))), float(np.abs(watts).max())
    if mean > ABSURD_MEAN_W or 0 < largest < 1:
        raise task.error(
            f": readings with a mean of {mean:.4g} W and up to {largest:.4g} W are not those "
            "of a home in watts; check their unit (`unit=`)."
        )


def _refuse_peak(task: Task, series: Series, hours: float) -> None:
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
        raise task.error(
            f": the reading at {when} is {watts[largest]:.4g} W, which no home draws: it may "
            "be a total, or the unit may be wrong (`unit=`)."
        )


def _hours(series: Series) -> float:
    """Length of a reading [h], for a check of its size."""
    if series.durations is not None:
        return max(float(np.median(series.durations)), 1.0) / SECONDS_PER_HOUR
    steps = np.diff(ascending(series.times))
    return float(np.median(steps)) / SECOND / SECONDS_PER_HOUR if steps.size else 1.0


def _refuse_restarts(task: Task, plan: Plan, values: FloatArray, times: IntArray) -> None:
    """Refuse a counter that begins again at zero each day, week or month.

    Energies of intervals fall about as often as they rise. Such a counter rises at almost every
    row, and what it counted last before each fall is not in the file.
    """
    steps = np.diff(values)
    falls = np.flatnonzero(steps < 0)
    rises = int((steps > 0).sum())
    if falls.size == 0 or rises < max(MANY_RISES, RISES_PER_FALL * falls.size):
        return
    if (values[falls + 1] > NEAR_ZERO * values[falls]).any():
        return
    when = iso(np.datetime64(int(times[falls[0] + 1]), "ns"))
    raise task.error(
        f": {plan.value_names} only rises and then begins again near zero, first at {when}, as a "
        "counter of the day does: its values are no energies of intervals, and a part of them is "
        "missing before each fall. Name a counter that does not begin again, or a column of "
        "energies (`value_column=`); if the meter was exchanged, cut the file there."
    )


def _only_rises(values: FloatArray) -> bool:
    """True for a long series that never falls, or a short one that rises by little."""
    steps = np.diff(values)
    if steps.size == 0 or float(steps.min()) < 0:
        return False
    rises = int((steps > 0).sum())
    little = float(values[-1] - values[0]) < 0.2 * float(values[0])
    return rises >= MANY_RISES or (rises >= 3 and little)
