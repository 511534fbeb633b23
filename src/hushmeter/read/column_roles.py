"""Which columns of a table hold the times, the meter, its circuits, and what tells series apart.

Columns are chosen by their headers and by whether they hold numbers, times or words. The size of a
number is never looked at.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from hushmeter.clock import SECOND
from hushmeter.errors import DataError
from hushmeter.read.cells import Cells
from hushmeter.read.columns import (
    NAMELESS,
    SAMPLE,
    Column,
    TimePlan,
    ascending,
    classify,
    find_named,
    is_nameless_time,
    is_number_of_day,
    is_unix,
    read_row_times,
    spread_days,
)
from hushmeter.read.headers import (
    Layout,
    Meaning,
    find_layout,
    find_parts,
    find_source,
    find_unit,
    has_word,
    is_general_title,
    is_part_of,
    read_meaning,
    states_feed_in,
)
from hushmeter.read.recording import Task
from hushmeter.read.text_table import RawTable
from hushmeter.read.times import find_order, find_zone, read_clock, read_stamps, split_range

PHASE_MARK = re.compile(
    r"(?i)(?:\bl|phase[ _]?|phs|fase[ _]?)([1-3abc])\b|[(_ -]([abc])\)?(?:\s*\(|$)"
)
UNUSED = ("export", "production", "battery", "price", "other")
LEAST_CIRCUITS = 3
ROLES = {"start": 0, "plain": 1, "middle": 1, "end": 4, "other": 7}
POWER_NAMES = ("power", "mains", "aggregate", "main", "grid")


@dataclass
class Plan:
    """What is read from which column."""

    time: TimePlan
    # Columns that are added up to the meter's reading; empty for the sum of the circuits
    values: tuple[Column, ...]
    circuits: tuple[Column, ...] = ()
    unit: str | None = None  # Unit of the values, as a header or an option states it
    assumed: bool = False  # True if the unit is only the custom of a column's name
    # True if a header or an option states that the values are those of a counter
    counter: bool = False
    # True if a reading lacks when one of `values` does (phases); tariffs may be empty
    need_all: bool = False
    keys: tuple[Column, ...] = ()  # Columns of words that may tell series apart
    exports: tuple[Column, ...] = ()  # Columns of what was fed into the grid

    @property
    def value_names(self) -> str:
        """The first names of what is read, for messages."""
        return ", ".join(repr(c.name) for c in (self.values or self.circuits)[:3])


def plan_times(task: Task, columns: Sequence[Column]) -> TimePlan:
    """Find the columns of the times, and the order of day and month in all of them."""
    plan = _time_columns(task, columns)
    plan.day_first = _order_of(columns)
    return plan


def _order_of(columns: Sequence[Column]) -> bool | None:
    """The order of day and month that all times of a table show together."""
    written: list[Cells] = []
    for column in columns:
        ends = split_range(column.data) if column.kind == "range" else None
        written += ends or ([column.data] if column.kind in ("time", "date") else [])
    return find_order(written) if len(written) > 1 else None


def _time_columns(task: Task, columns: Sequence[Column]) -> TimePlan:
    """Find the columns of the times."""
    if task.options.time_column is not None:
        chosen = find_named(task, columns, task.options.time_column)
        return _with_partners(chosen, _varied(columns))
    columns = _varied(columns)
    candidates = [(_rank(column, columns), i) for i, column in enumerate(columns)]
    candidates = [(rank, i) for rank, i in candidates if rank is not None]
    if not candidates:
        for column in columns:
            if column.kind == "text" and has_word(column.name, "stamps"):
                read_stamps(column.data, task.path)
        found = ", ".join(c.name for c in columns[:20])
        raise task.error(
            f"has no time column: name one of its columns 'timestamp', or state which it is "
            f"with `time_column=` (found: {found})."
        )
    return _with_partners(columns[min(candidates)[1]], columns)


def _varied(columns: Sequence[Column]) -> Sequence[Column]:
    """Without times that are the same in all rows, such as those of the query, beside others."""
    times = [c for c in columns if c.kind in ("time", "date")]
    fixed = [c for c in times if len(times) > 1 and _is_fixed(c.data)]
    moving = any(c.kind == "time" and c not in fixed for c in times)
    return [c for c in columns if c not in fixed] if moving and fixed else columns


def _is_fixed(data: Cells) -> bool:
    return len(data.known().distinct()) < 2


def _rank(column: Column, columns: Sequence[Column]) -> tuple[int, bool] | None:
    """How well a column suits as the time of a reading; None if it does not."""
    role = column.role
    rank: int | None = None
    if column.kind == "time":
        rank = ROLES[role]
    elif column.kind == "range":
        whole = read_clock(_range_start(column)) is None
        # Beside other times, a range that many rows share is a period of bills.
        rank = (6 if len(column.data.distinct()) < 0.5 * len(column.data) else 1) if whole else None
    elif column.kind == "date":
        partner = _clock_of(columns, "start") or _clock_of(columns, "end")
        rank = (2 if partner else 5) + (role == "end") + 2 * (role == "other")
    elif is_unix(column) or (column is columns[0] and is_nameless_time(column)):
        rank = ROLES[role]
    return None if rank is None else (rank, not (column.aware or is_unix(column)))


def _range_start(column: Column) -> Cells:
    ends = split_range(column.data.known().take(slice(SAMPLE)))
    assert ends is not None
    return ends[0]


def _with_partners(chosen: Column, columns: Sequence[Column]) -> TimePlan:
    """The time plan around a column: its clock, and the end of the interval."""
    zone = find_zone(f"{chosen.name} {chosen.context}") or _zone_column(columns)
    if chosen.kind == "date":
        side = "end" if chosen.role == "end" else "start"
        clock = _clock_of(columns, side)
        if clock is None and side == "start":
            clock = _clock_of(columns, "end")
            if clock is not None:
                return TimePlan(chosen, clock, stamp="end", zone=zone)
        if side == "end":
            return TimePlan(chosen, clock, stamp="end", zone=zone)
        end_date = next((c for c in columns if c.kind == "date" and c.role == "end"), None)
        end_clock = None if clock is None else _clock_of(columns, "end")
        if end_clock is clock or (clock is not None and end_clock is None):
            end_date = end_clock = None
        if end_clock is not None and end_date is None:
            end_date = chosen
        return TimePlan(chosen, clock, end_date, end_clock, "start", zone)
    if chosen.role in ("end", "middle"):
        return TimePlan(chosen, stamp=chosen.role, zone=zone)
    end = None
    if chosen.kind == "time":
        end = next((c for c in columns if c.kind == "time" and c.role == "end"), None)
    return TimePlan(chosen, None, end, None, "start", zone)


def _clock_of(columns: Sequence[Column], side: str) -> Column | None:
    """The time of day that belongs to the dates: of the start, or of the end."""
    clocks = [c for c in columns if c.kind == "clock" or _is_clock_range(c) or is_number_of_day(c)]
    if side == "end":
        return next((c for c in clocks if c.role == "end"), None)
    starts = [c for c in clocks if c.role == "start"] or [c for c in clocks if c.role == "plain"]
    return starts[0] if starts else None


def _is_clock_range(column: Column) -> bool:
    return column.kind == "range" and read_clock(_range_start(column)) is not None


def _zone_column(columns: Sequence[Column]) -> str | None:
    """The zone in a column that says it in every row."""
    for column in columns:
        if column.kind == "text" and has_word(column.name.replace(" ", ""), "zones"):
            found = {str(value) for value in column.data.known().distinct()}
            if len(found) == 1:
                return find_zone(found.pop())
    return None


def plan_columns(task: Task, raw: RawTable, columns: Sequence[Column], *, homes: bool) -> Plan:
    """Choose the columns of a table by their headers."""
    time = plan_times(task, columns)
    if not raw.has_header:
        return _headerless(task, columns, time)
    numbers = [
        c for c in columns
        if c.kind == "number" and c.name not in time.names and not _is_key(c)
        and not (is_number_of_day(c) and c.meaning.unit is None) and not is_unix(c)
    ]  # fmt: skip
    keys = tuple(c for c in columns if c.name not in time.names and _is_key(c))
    _refuse_inverter(task, raw, columns)
    if task.options.value_column is not None:
        chosen = _find_sum(task, columns, task.options.value_column)
        for column in chosen:
            _refuse_named(task, column, numbers)
        _refuse_sum(task, chosen, numbers)
        tariffs = all(c.meaning.part == "tariff" for c in chosen)
        plan = Plan(time, chosen, keys=keys, need_all=not tariffs)
    else:
        _refuse_words(task, columns, numbers)
        empty = [c for c in columns if c.kind == "empty"]
        plan = _choose(task, numbers, empty, time, homes=homes)
        plan.keys = keys
    plan.exports = tuple(c for c in numbers if c.meaning.flow == "export" and not c.meaning.counter)
    _refuse_beside(task, plan, raw.preamble)
    return _with_unit(task, plan, raw)


def _refuse_beside(task: Task, plan: Plan, lines: Sequence[str]) -> None:
    """Refuse values of which only a line beside the table says that the home did not use them.

    A unit or a direction in the header of the values outranks a currency or a largest power.
    """
    read = plan.values or plan.circuits
    known = any(c.meaning.unit or c.meaning.flow in ("import", "use") for c in read)
    known = known or any(stated_unit(line) for line in lines)
    drawn = any(c.meaning.flow in ("import", "use") for c in read)
    for line in lines:
        key, colon, value = line.partition(": ")
        named = has_word(key, "registers") if colon else has_word(key, "directions")
        named = named or (not drawn and is_general_title(line) and states_feed_in(line))
        flow = read_meaning(value or line).flow if named else ""
        if not known and has_word(line, "peak"):
            flow = "peak"
        elif not known and has_word(line, "cost"):
            flow = "price"
        if flow in ("export", "production", "battery", "price", "peak"):
            raise task.error(
                f": {plan.value_names} is {_words(flow)}, not what the home used, as the file "
                f"says beside the values ({line[:60]!r})."
            )


def _find_sum(task: Task, columns: Sequence[Column], asked: str) -> tuple[Column, ...]:
    """The column that an option names, or several that it joins with a plus sign."""
    names = {column.name.strip().lower() for column in columns}
    parts = [asked] if asked.strip().lower() in names else asked.split("+")
    return tuple(find_named(task, columns, part) for part in parts)


def _headerless(task: Task, columns: Sequence[Column], time: TimePlan) -> Plan:
    others = [c for c in columns if c.kind == "number" and c.name not in time.names]
    if task.options.value_column is not None:
        others = [find_named(task, columns, task.options.value_column)]
    if len(others) != 1:
        raise task.error(
            f"has no header and {len(others)} columns of numbers: add a header, or name the "
            f"meter's column (`value_column=NAME`; it may be {_shown(_candidates(others))})."
        )
    channel = re.fullmatch(r"(?:channel_\d+|mains)\.dat", task.path.name)
    return Plan(
        time, (others[0],), unit=task.unit("W" if channel else None, "a channel of REDD"),
        counter=bool(task.options.is_counter),
    )  # fmt: skip


def _is_key(column: Column) -> bool:
    """True for words, and for numbers that name a meter."""
    if column.kind == "text":
        return not NAMELESS.fullmatch(column.name)
    meaning = column.meaning
    unitless = (
        meaning.unit is None and meaning.flow not in ("import", "use") and not meaning.counter
    )
    return column.kind == "number" and unitless and _names_meter(column)


def _names_meter(column: Column) -> bool:
    whole = column.data.kind in "iuO"
    mains = column.meaning.mains and not has_word(column.name, "ids")
    return whole and has_word(column.name, "meters") and not mains


def _refuse_inverter(task: Task, raw: RawTable, columns: Sequence[Column]) -> None:
    """Refuse the file of a solar inverter, which does not see what a home uses."""
    texts = [*raw.preamble, *(f"{c.context} {c.name}" for c in columns)]
    if not any(has_word(text, "inverters") for text in texts):
        return
    if any(has_word(c.name, "drawn") for c in columns):
        return
    raise task.error(
        "is the file of a solar inverter: it shows what was produced, not what the home "
        "used; give the file of the meter."
    )


def _refuse_words(task: Task, columns: Sequence[Column], numbers: Sequence[Column]) -> None:
    """Refuse a table whose only electric column holds words."""
    if numbers:
        return
    for column in columns:
        if column.kind == "text" and column.meaning.unit is not None:
            column.numbers(task)


def _refuse_named(task: Task, chosen: Column, numbers: Sequence[Column]) -> None:
    """Refuse a column that is named by an option, but is no consumption."""
    meaning = chosen.meaning
    source = find_source(f"{chosen.context} {chosen.name}")
    if source is not None:
        raise task.error(f": column {chosen.name!r} is {source}, not electricity.")
    if meaning.flow in ("export", "production", "price"):
        raise task.error(
            f": column {chosen.name!r} is {_words(meaning.flow)}, not what the home used."
        )
    _refuse_balance(task, (chosen,), numbers)


def _refuse_sum(task: Task, chosen: Sequence[Column], numbers: Sequence[Column]) -> None:
    """Refuse columns that are only a part of the meter, or of which one includes another."""
    alike = {c.name: c.meaning for c in numbers if c.meaning.unit == chosen[0].meaning.unit
             and c.meaning.flow == chosen[0].meaning.flow
             and c.meaning.counter == chosen[0].meaning.counter}  # fmt: skip
    names = {column.name for column in chosen}
    whole = find_parts(alike) if len(alike) > 1 else None
    if whole is not None and names < set(whole):
        raise task.error(
            f": {_named(chosen)} is only a part of what the meter shows: leave `value_column=` "
            f"out, or give all of it (`value_column={'+'.join(whole)}`)."
        )
    parts = set(alike) - set(whole or ())
    if (
        whole is not None
        and names < parts
        and all(
            alike[name].part in ("tariff", "phase") or is_part_of(name, whole[0]) for name in parts
        )
    ):
        raise task.error(
            f": {_named(chosen)} is only a part of {whole[0]!r}: give the whole "
            f"(`value_column={whole[0]}`)."
        )
    values = [column.numbers(task) for column in chosen] if len(chosen) > 1 else []
    same = any(np.array_equal(one, two, equal_nan=True) and np.nanmax(np.abs(one), initial=0) > 0
               for one, two in combinations(values, 2))  # fmt: skip
    twice = same or (whole is not None and set(whole) < names)
    kinds = [(c.meaning.flow, c.meaning.period, c.meaning.part == "total") for c in chosen]
    if twice or len({kind for kind in kinds if any(kind)}) > 1:
        raise task.error(
            f": {_named(chosen)} are not parts of one whole, so that their sum counts energy "
            "twice: give one column, or the columns of all tariffs or phases."
        )


def _named(columns: Sequence[Column]) -> str:
    return ", ".join(repr(column.name) for column in columns[:12])


def _shown(columns: Sequence[Column]) -> str:
    """Names of columns with their first values."""
    firsts = [", ".join(str(v) for v in c.data.take(slice(3)).tolist()) for c in columns[:12]]
    return "; ".join(f"{c.name}: {first}" for c, first in zip(columns, firsts, strict=False))


def _refuse_balance(task: Task, values: Sequence[Column], numbers: Sequence[Column]) -> None:
    """Refuse a total beside what was fed into the grid, from which that may be subtracted."""
    exports = [c for c in numbers if c.meaning.flow == "export"]
    for column in values:
        meaning = column.meaning
        if exports and meaning.flow in ("", "net") and meaning.part == "total":
            raise task.error(
                f": column {column.name!r} is a total beside what was fed into the grid "
                f"({exports[0].name}), so it may be a balance: give a column of what was drawn."
            )


def _words(flow: str) -> str:
    return {"export": "fed into the grid", "production": "produced (solar or other generation)",
            "battery": "exchanged with a battery", "net": "a balance", "price": "a price",
            "peak": "the largest power of a time",
            "other": "something else"}[flow]  # fmt: skip


def _choose(
    task: Task, numbers: Sequence[Column], empty: Sequence[Column], time: TimePlan, *, homes: bool
) -> Plan:
    """The meter's columns and the circuits, by the headers of all columns of numbers."""
    wanted = [c for c in numbers if c.meaning.flow not in UNUSED and not NAMELESS.fullmatch(c.name)]
    unused = [c.name for c in numbers if c not in wanted]
    if unused:
        task.notes.append(f"Columns that are no use of electricity: {', '.join(unused[:12])}.")
    if not wanted:
        raise _nothing_wanted(task, numbers)
    priced = any(c.meaning.flow == "price" for c in numbers)
    if priced and not any(_is_known(c.meaning) for c in wanted):
        raise _unclear(task, wanted)
    meter = next((c for c in wanted if c.name == "watts"), None)
    if meter is not None and time.names == {"timestamp"}:
        # The project's own layout: the other columns are circuits, whatever their names say.
        circuits = tuple(c for c in wanted if c is not meter)
        return Plan(time, (meter,), circuits, unit="W")
    _refuse_beside_production(task, numbers)
    group = _of_rows(task, time, _best_group(wanted))
    added = find_parts({c.name: c.meaning for c in group})
    values = None if added is None else tuple(c for c in group if c.name in added)
    need_all = values is not None and all(c.meaning.part == "phase" for c in values)
    if values is not None:
        _refuse_parts(task, values, numbers, empty)
        _refuse_balance(task, values, numbers)
    if values is None:
        values, circuits = _mains_and_circuits(group, wanted)
        plain = tuple(c for c in wanted if c.meaning.part != "total")
        if values is None and homes and plain:
            return Plan(time, (), plain)
        if values is None and _are_whole(plain):
            task.notes.append(f"Added up: {', '.join(c.name for c in plain)}.")
            return Plan(time, plain, need_all=True)
        if values is None:
            raise _unclear(task, group)
        return Plan(time, values, circuits)
    if len(values) > 1:
        task.notes.append(f"Added up: {', '.join(c.name for c in values)}.")
    circuits = _circuits(values, [c for c in wanted if c not in values])
    left = [c.name for c in wanted if c not in values and c not in circuits]
    if left:
        task.notes.append(f"Left out: {', '.join(left[:12])}.")
    return Plan(time, values, circuits, need_all=need_all)


def _unclear(task: Task, group: Sequence[Column]) -> DataError:
    """The question which column is the meter."""
    return task.error(
        f"has no power column that is clearly that of the meter: it may be "
        f"{_named(_candidates(group))}; name it (`value_column=NAME`, or NAME+NAME for "
        "columns that are added)."
    )


def _is_known(meaning: Meaning) -> bool:
    """True for a header that states electricity or is general; beside prices, others are none."""
    return bool(meaning.unit or meaning.flow or meaning.mains or meaning.counter or meaning.generic)


def _refuse_beside_production(task: Task, numbers: Sequence[Column]) -> None:
    """Refuse a table of production in which no column states what the home draws or uses."""
    produced = next((c for c in numbers if c.meaning.flow == "production"), None)
    stated = any(c.meaning.flow in ("import", "use", "net") or c.meaning.mains for c in numbers)
    if produced is not None and not stated:
        raise task.error(
            f"has no power column that states what the home draws, beside what was produced "
            f"({produced.name!r}): it may be the file of a solar inverter; if it is not, name the "
            "meter's column (`value_column=NAME`)."
        )


def _nothing_wanted(task: Task, numbers: Sequence[Column]) -> DataError:
    if not numbers:
        return task.error("has no column of numbers besides its times.")
    for column in numbers:
        source = find_source(f"{column.context} {column.name}")
        if source is not None:
            return task.error(f"holds {source} ({column.name!r}), not electricity.")
    first = next((c for c in numbers if c.meaning.flow in UNUSED), None)
    if first is None:
        return task.error("has no power column, only numbers without a name.")
    named = first.meaning.flow in ("battery", "other")
    advice = "; if it is the meter after all, name it (`value_column=`)" if named else ""
    what = f"{first.name!r} is {_words(first.meaning.flow)}, not what the home used{advice}"
    return task.error(f"has no power column: {what}.")


def _best_group(wanted: Sequence[Column]) -> list[Column]:
    """Columns of the direction and measure that describe the home best."""
    has_net = [c for c in wanted if c.meaning.flow != "net"] or list(wanted)
    mains = [c for c in has_net if c.meaning.mains]
    stated = [c for c in has_net if c.meaning.flow in ("import", "use")]
    pool = has_net
    if stated and not (mains and not any(c.meaning.generic for c in stated)):
        imports = [c for c in stated if c.meaning.flow == "import"]
        # Beside solar panels, use and import differ; elsewhere they are two words for one thing.
        apart = len({c.meaning.counter for c in stated}) == 1
        pool = imports if imports and len(imports) < len(stated) and apart else stated
        # A tariff without a direction is one of the meter's, as the named ones are.
        tariffs = [c for c in has_net if not c.meaning.flow and c.meaning.part == "tariff"]
        pool = [*pool, *(c for c in tariffs if c.meaning.unit == pool[0].meaning.unit is not None)]
    elif mains:
        pool = mains
    intervals = [c for c in pool if not c.meaning.counter]
    if len(intervals) < len(pool):
        # Beside a counter, a column of an unknown name is no energy of the same meter.
        pool = [c for c in intervals if c.meaning.flow or c.meaning.generic or c.meaning.mains] or [
            c for c in pool if c.meaning.counter
        ]
    energies = [c for c in pool if (c.meaning.unit or "").lower().endswith("wh")]
    if energies and len(energies) < len(pool) and (stated or len(energies) == 1):
        named = [c for c in pool if not c.meaning.generic and c not in energies]
        pool = pool if named and not stated else energies
    return pool


def _of_rows(task: Task, time: TimePlan, group: list[Column]) -> list[Column]:
    """Without the columns that name another length than that of a row, such as a daily total."""
    if len(group) < 2 or not any(c.meaning.period for c in group):
        return group
    clock = read_row_times(task, time)
    steps = np.diff(ascending(clock.ns[clock.good]))
    if not steps.size:
        return group
    length = float(np.median(steps)) / SECOND
    kept = [c for c in group if not c.meaning.period or abs(c.meaning.period / length - 1) < 0.1]
    return kept or group


def _are_whole(columns: Sequence[Column]) -> bool:
    """True for circuits of which one is the rest of the home: together they are all of it."""
    alike = {(c.meaning.flow, c.meaning.unit, c.meaning.counter) for c in columns}
    rest = any(has_word(c.name, "rest") for c in columns)
    return (
        len(columns) >= LEAST_CIRCUITS and rest and len(alike) == 1 and not columns[0].meaning.flow
    )


def _candidates(group: Sequence[Column]) -> list[Column]:
    """Columns that may be the meter, the likely ones first; constants cannot be."""
    different = [c for c in group if sum(v is not None for v in c.data.distinct()[:3]) > 1]
    return sorted(
        different or group,
        key=lambda c: (not c.meaning.mains, c.meaning.part != "total", c.meaning.flow == ""),
    )


def _refuse_parts(
    task: Task, values: Sequence[Column], numbers: Sequence[Column], empty: Sequence[Column]
) -> None:
    """Refuse one tariff, or phases of which one seems to be missing."""
    names = " + ".join(c.name for c in values)
    parts = {c.meaning.part for c in values}
    if parts == {"tariff"} and len(values) == 1 and not has_word(values[0].name, "tariff_names"):
        raise task.error(
            f"has only one tariff of the meter ({names}): give the file with all tariffs."
        )
    if parts == {"phase"} and len(values) > 1 and not has_word(names, "legs"):
        known = [c for c in (*numbers, *empty) if c.meaning.part == "phase"
                 and c.meaning.unit == values[0].meaning.unit
                 and c.meaning.flow == values[0].meaning.flow]  # fmt: skip
        marks = {_phase(c.name) for c in known}
        if marks != {"1", "2", "3"}:
            raise task.error(
                f"has {len(values)} phases ({names}), and a third may be missing: give the "
                "file with all phases; if there is none missing, join their names with a plus "
                "(`value_column=NAME+NAME`)."
            )
    if parts == {"phase"} and len(values) == 1 and _phase(values[0].name) not in ("1", ""):
        raise task.error(
            f"has only one phase of the meter ({names}): give the file with all phases."
        )


def _phase(name: str) -> str:
    """The number of a phase: L2, (B), phase b → 2."""
    match = PHASE_MARK.search(name)
    if match is None:
        return ""
    mark = (match[1] or match[2]).lower()
    return {"a": "1", "b": "2", "c": "3"}.get(mark, mark)


def _mains_and_circuits(
    group: Sequence[Column], wanted: Sequence[Column]
) -> tuple[tuple[Column, ...] | None, tuple[Column, ...]]:
    """The one column with a general name is the meter, and the others are circuits."""
    general = [c for c in group if c.meaning.generic and not c.meaning.part]
    if len(general) != 1:
        return None, ()
    return (general[0],), _circuits((general[0],), [c for c in wanted if c is not general[0]])


def _circuits(values: Sequence[Column], others: Sequence[Column]) -> tuple[Column, ...]:
    """Columns of circuits: of the meter's own unit, or plain names beside power.

    A number without a unit beside an energy may be anything, so it is left out.
    """
    unit, flow = values[0].meaning.unit, values[0].meaning.flow
    if flow == "import":
        # Beside a direction, an unknown column is more likely another direction than a circuit.
        return ()
    power = unit in ("W", "kW") or values[0].name.lower() in POWER_NAMES
    found = []
    for column in others:
        meaning = column.meaning
        plain = meaning.flow == "" and not meaning.mains and not meaning.counter
        same = meaning.unit == unit if meaning.unit is not None else power
        if plain and same and meaning.part not in ("total", "tariff") and not meaning.generic:
            found.append(column)
    return tuple(found) if flow != "use" or len(found) >= LEAST_CIRCUITS else ()


def _with_unit(task: Task, plan: Plan, raw: RawTable) -> Plan:
    """The plan with its unit, and whether the values are those of a counter."""
    columns = plan.values or plan.circuits
    stated = {c.meaning.unit for c in columns}
    unit, assumed = next(iter(stated)) if len(stated) == 1 else task.options.unit, False
    if unit is None:
        lines = {stated_unit(line): line for line in raw.preamble}
        lines.pop(None, None)
        unit, line = next(iter(lines.items())) if len(lines) == 1 else (None, "")
        unit = task.unit(unit, f"what the line {line[:60]!r} describes")
    if unit is None and len(columns) == 1 and columns[0].name.lower() in POWER_NAMES:
        unit, assumed = "W", True
    if unit is None and not plan.values:
        unit, assumed = "W", True
    counter = task.options.is_counter
    if counter is None:
        counter = bool(plan.values) and all(c.meaning.counter for c in plan.values)
    return replace(plan, unit=unit, assumed=assumed, counter=counter)


def stated_unit(line: str) -> str | None:
    """The unit that a line above the header states; "Total 123 kWh" is an amount."""
    return find_unit(re.sub(r"\d[\d.,]*\s*[kM]?Wh?\b", " ", line))


@dataclass
class PlannedTable:
    """A table whose columns are understood."""

    raw: RawTable
    plan: Plan
    layout: Layout | None
    regular: bool = False  # True if the layout states that the table has a row for every interval


def plan_table(task: Task, raw: RawTable) -> PlannedTable:
    """Decide which columns hold the times, the meter and its circuits; see `table.read_plan`."""
    task.notes.extend(raw.notes)
    names = frozenset(name.lower() for name in raw.data)
    asked = task.options.time_column is not None or task.options.value_column is not None
    layout = None if asked or not raw.has_header else find_layout(names)
    if layout is not None:
        task.reasons.append(f"All columns of the layout {layout.format} are there: it is used.")
        raw, plan = _by_layout(task, raw, layout)
        regular = layout.regular
    else:
        columns = classify(task, raw)
        daily = spread_days(task, columns) if raw.has_header else None
        if daily is not None:
            columns, raw = daily
            task.notes.append("One row holds a day; its columns were read as times of the day.")
        regular = daily is not None
        task.reasons.extend(_explained(column) for column in columns[:60])
        _refuse_source(task, raw, columns)
        plan = plan_columns(task, raw, columns, homes=task.circuits == "sum")
    if plan.time.zone is None:
        plan.time.zone = _stated_zone(raw.preamble)
    if task.circuits == "leave":
        # What a release publishes must not depend on circuits, so they are not even read.
        plan = replace(plan, circuits=())
    return PlannedTable(raw, plan, layout, regular)


def _explained(column: Column) -> str:
    """What a column holds and what its header says."""
    meaning = column.meaning
    if column.kind not in ("number", "empty"):
        role = f" ({column.role})" if column.kind in ("time", "date", "clock", "range") else ""
        return f"Column {column.name!r} holds {column.kind}{role}."
    said = [meaning.flow, meaning.unit, meaning.part, "counter" * meaning.counter,
            "mains" * meaning.mains, "general name" * meaning.generic]  # fmt: skip
    words = ", ".join(word for word in said if word) or "nothing that is known"
    return f"Column {column.name!r} holds {column.kind}; its header says: {words}."


def _stated_zone(preamble: Sequence[str]) -> str | None:
    """The time zone that a line above the header names, such as "Time zone: Europe/Berlin"."""
    lines = (line for line in preamble if has_word(line, "zones"))
    return next((zone for line in lines if (zone := find_zone(line)) is not None), None)


def _by_layout(task: Task, raw: RawTable, layout: Layout) -> tuple[RawTable, Plan]:
    """The plan of a known layout."""
    try:
        data = layout.prepared(raw.data, task.notes)
    except DataError as error:
        raise task.error(f"is {error}") from None
    raw = replace(raw, data=data, context=())
    columns = classify(task, raw)
    named = {c.name.lower(): c for c in reversed(columns)}
    values = tuple(named[value] for value in layout.values)
    time = TimePlan(named[layout.time], stamp=layout.stamp, zone=layout.tz)
    if layout.end is not None:
        time.end_date = named[layout.end]
    time.day_first = _order_of(columns)
    if time.date.kind == "date":
        time.clock = next((c for c in columns if c.kind == "clock"), None)
    skip = layout.ignore | {layout.time, *layout.values}
    others = tuple(
        c for c in columns
        if c.name.lower() not in skip and c.name not in time.names and c.kind == "number"
        and not re.fullmatch(r"column_\d+|Unnamed: \d+|sum_of_submeters|main_house_subtotal|index",
                             c.name)
    )  # fmt: skip
    lines = (unit for line in raw.preamble if (unit := stated_unit(line)))
    unit = task.unit(layout.unit or next(lines, None), f"a table of {layout.format}")
    counter = layout.counter if task.options.is_counter is None else task.options.is_counter
    plan = Plan(
        time,
        values,
        others if layout.circuits else (),
        unit,
        counter=counter,
        need_all=counter and len(values) > 1,
        keys=tuple(c for c in columns if c.kind == "text" or c.name.lower() == layout.meter),
        exports=tuple(c for c in columns if c.kind == "number" and c.meaning.flow == "export"),
    )
    if len(values) > 1:
        task.notes.append(f"Added up: {', '.join(c.name for c in values)}.")
    if layout.unit is None:
        _refuse_beside(task, plan, raw.preamble)
    return raw, plan


def _refuse_source(task: Task, raw: RawTable, columns: Sequence[Column]) -> None:
    """Refuse gas, water and heat that only the lines above the header name."""
    text = " ".join(raw.preamble)
    source = find_source(text)
    if source is None or has_word(text, "electric"):
        return
    if not any(c.meaning.unit in ("W", "kW") for c in columns):
        raise task.error(f"holds {source} ({text[:40]!r} above its header).")
