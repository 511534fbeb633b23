"""Files with several tables, such as the sheets of a workbook: which of them is read.

The choice depends on headers and times, never on the size of a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from hushmeter.checks import IntArray
from hushmeter.clock import SECOND
from hushmeter.errors import DataError, InputError
from hushmeter.formatting import short_duration
from hushmeter.read.options import Circuits, ReadOptions
from hushmeter.read.recording import Series
from hushmeter.read.regular import LONGEST_INTERVAL_S
from hushmeter.read.row_times import ascending, read_row_times
from hushmeter.read.table import ELECTRIC, PlannedTable, plan_table, read_plan
from hushmeter.read.text_table import RawTable
from hushmeter.read.words import find_source, has_word, read_meaning

# A file that was exported, which is no energy that was fed into the grid.
ANY_EXPORT = re.compile(r"(?i)\W*(?:data|daten|list)?\W*export\w*[\W\d]*(?:data|daten)?[\W\d]*")
Loader = Callable[[], RawTable]


@dataclass
class Part:
    """A table of a file whose columns are understood."""

    name: str
    planned: PlannedTable
    times: IntArray  # Different times of its rows, in their order [ns]

    @property
    def interval_s(self) -> float:
        """Median time between rows [s]; infinite for a single row."""
        if self.times.size < 2:
            return float("inf")
        return float(np.median(np.diff(self.times))) / SECOND

    @property
    def energy(self) -> tuple[tuple[str, str | None], ...]:
        """The directions and units of its values: equal for tables of the same energy."""
        return tuple(sorted({(c.meaning.flow, c.meaning.unit) for c in self.planned.plan.values},
                            key=str))  # fmt: skip


def read_parts(
    tables: Mapping[str, Loader],
    options: ReadOptions,
    path: Path,
    *,
    noun: str,
    circuits: Circuits = "leave",
) -> tuple[Series, str]:
    """Read the table of a file that holds the meter's readings.

    Of several tables with the same quantity, the one with the shortest interval is read; tables
    with the same columns and interval and with different times are joined.
    """
    if options.sheet is not None:
        table = tables[_asked(list(tables), options.sheet, path, noun)]
        return read_plan(plan_table(table(), options, path, circuits=circuits), options, path)
    parts, reasons = _understood(tables, options, path, noun, circuits=circuits)
    chosen = _choose(parts, reasons, path, noun)
    planned = chosen[0].planned
    if len(tables) > 1:
        read = [part.name for part in chosen]
        left = [name for name in tables if name not in read]
        rest = f"; not read: {', '.join(map(repr, left[:12]))}" if left else ""
        planned.notes.append(f"{noun.capitalize()} read: {', '.join(map(repr, read[:12]))}{rest}.")
    if len(chosen) > 1:
        joined = _joined([part.planned.raw for part in chosen], planned.notes)
        planned = plan_table(joined, options, path, circuits=circuits)
    return read_plan(planned, options, path)


def _asked(names: Sequence[str], asked: str, path: Path, noun: str) -> str:
    """The table that the user named."""
    for name in names:
        if name.strip().lower() == asked.strip().lower():
            return name
    raise InputError(f"{path} has no {noun} {asked!r} (found: {', '.join(names[:24])}).")


def _understood(
    tables: Mapping[str, Loader], options: ReadOptions, path: Path, noun: str, *, circuits: Circuits
) -> tuple[list[Part], dict[str, str]]:
    """The tables whose columns are understood, and why the others are not."""
    parts: list[Part] = []
    reasons: dict[str, str] = {}
    for name, load in tables.items():
        try:
            _refuse_name(name, path, noun)
            planned = plan_table(load(), options, path, circuits=circuits)
            clock = read_row_times(planned.plan.time, options, path)
            if not clock.good.any():
                raise DataError(f"{path} has no row with a time.")
            parts.append(Part(name, planned, ascending(clock.ns[clock.good])))
        except (DataError, InputError) as error:
            reasons[name] = str(error)
    return parts, reasons


def _refuse_name(name: str, path: Path, noun: str) -> None:
    """Refuse a table whose name states gas, water, heat, feed-in or production."""
    source = find_source(name)
    if source is not None and not has_word(name, ELECTRIC):
        raise DataError(f"{path} holds {source} ({noun} {name!r}), not electricity.")
    if read_meaning(name).flow in ("export", "production") and not ANY_EXPORT.fullmatch(name):
        raise DataError(f"{path} holds no use of electricity ({noun} {name!r}).")


def _choose(parts: Sequence[Part], reasons: dict[str, str], path: Path, noun: str) -> list[Part]:
    """The table to read, or the tables of different times that are joined."""
    if not parts:
        raise DataError(_nothing_read(reasons, path, noun))
    usual = [part for part in parts if part.interval_s <= LONGEST_INTERVAL_S] or list(parts)
    finest = min(part.interval_s for part in usual)
    chosen = [part for part in usual if part.interval_s == finest]
    same = len({part.energy for part in usual}) == 1
    if same and (len(chosen) == 1 or _are_parts(chosen)):
        return chosen
    found = [f"{part.name} ({_length(part)})" for part in usual]
    raise DataError(
        f"{path} has {len(usual)} {noun}s with readings ({', '.join(found[:12])}): choose one "
        "(--sheet NAME)."
    )


def _length(part: Part) -> str:
    return short_duration(part.interval_s) if part.times.size > 1 else "one row"


def _nothing_read(reasons: dict[str, str], path: Path, noun: str) -> str:
    """Why no table is read: the reason of the only one, or those of the first ones."""
    if len(reasons) == 1:
        return next(iter(reasons.values()))
    if not reasons:
        return f"{path} has no {noun} that is shown: choose a hidden one (--sheet NAME)."
    start = str(path)
    parts = [f"{name}: {why.removeprefix(start).strip(' :')}" for name, why in reasons.items()]
    return f"{path} has no {noun} with readings of electricity. {' '.join(parts[:3])}"


def _are_parts(parts: Sequence[Part]) -> bool:
    """True for tables with the same columns and without a common time, such as one per month."""
    names = {tuple(part.planned.raw.data.column_names) for part in parts}
    times = np.concatenate([part.times for part in parts])
    return len(names) == 1 and np.unique(times).size == times.size


def _joined(tables: Sequence[RawTable], notes: Sequence[str]) -> RawTable:
    import pyarrow as pa

    data = pa.concat_tables([table.data for table in tables], promote_options="permissive")
    return replace(tables[0], data=data, notes=tuple(notes))
