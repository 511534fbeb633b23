"""Which columns of a table hold the times, the meter and the appliances, and in which unit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hushmeter.checks import FloatArray, IntArray
from hushmeter.errors import DataError, InputError
from hushmeter.read.dialect import Dialect
from hushmeter.read.layouts import Layout
from hushmeter.read.options import ReadOptions
from hushmeter.read.times import is_written_time
from hushmeter.trace import iso

TIME_COLUMNS = (
    "timestamp", "time", "datetime", "utc", "unix", "unix_ts", "date_time", "date", "start",
    "interval_start", "timestamp (utc)", "ts", "local_15min", "localminute",
)  # fmt: skip
NAMELESS = re.compile(r"column_\d+|Unnamed: \d+")
NUMBER = re.compile(r"\s*[-+]?\d+(?:[.,]\d*)?(?:[eE][-+]?\d+)?\s*")
POWER_COLUMNS = ("watts", "power", "mains", "aggregate", "w", "whe", "grid")
NOT_APPLIANCES = frozenset(
    {"sum_of_submeters", "main_house_subtotal", "house", "issues", "index", "cost", "price"}
)


@dataclass(frozen=True)
class Plan:
    """Names of the columns to be read.

    Attributes
    ----------
    time : str
    value : str or None
        None: the sum of the appliances.
    appliances : tuple of str
    left : tuple of str
        Columns without a name or without any value, which are left out.
    unit, stamp : str
    end : str, optional
    binary : bool
        Whether the table is Parquet.
    """

    time: str
    value: str | None
    appliances: tuple[str, ...]
    unit: str
    stamp: str = "start"
    end: str | None = None
    binary: bool = False
    left: tuple[str, ...] = ()


def plan_columns(
    table: Any,
    layout: Layout | None,
    options: ReadOptions,
    path: Path,
    *,
    homes: bool,
    dialect: Dialect | None,
) -> Plan:
    """Columns by the layout, by the options, or by their names."""
    names = {name.lower(): name for name in reversed(table.column_names)}
    if layout is not None:
        return _by_layout(names, layout, table.column_names)
    if dialect is not None and not dialect.has_header and len(names) == 2:
        time, value = table.column_names
        return Plan(time, value, (), options.unit or "W")
    written = [n for n in table.column_names if is_written_time(table.column(n))]
    usual = TIME_COLUMNS if len(written) != 1 else (*TIME_COLUMNS, written[0].lower())
    time = _find(names, options.time_column, usual, path, "time")
    value = _find_power(names, options, path, time, homes)
    appliances, left = _appliances(table, time, value, options)
    if value is None and not appliances:
        raise DataError(f"{path} has neither a power column nor appliance columns.")
    unit = "W" if value is None else unit_of(value) or "W"
    return Plan(time, value, appliances, unit, binary=dialect is None, left=left)


def unit_of(name: str) -> str | None:
    """The unit a column is named after: "Usage (kWh)" → kWh."""
    words = re.split(r"[^a-z]+", name.lower())
    units = {"kwh": "kWh", "wh": "Wh", "kw": "kW", "w": "W", "watts": "W", "watt": "W"}
    return next((units[word] for word in reversed(words) if word in units), None)


def numbers(table: Any, name: str, times: IntArray, path: Path, strict: bool) -> FloatArray:
    """A column as float64; a missing or infinite value is refused (or NaN, unless `strict`)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = table.column(name)
    kind = column.type
    if pa.types.is_null(kind) or pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise DataError(
            f"{path}: column {name!r} is not numbers{_example(column)}; write 1234.5, or name only "
            "the meter's column (--value-column)."
        )
    if strict and column.null_count:
        row = pc.index(pc.is_null(column), True).as_py()
        raise DataError(
            f"{path}: column {name!r} has no value in row {row} ({_at(times, row)}); "
            "delete the row: a missing reading is a gap."
        )
    values: FloatArray = column.to_numpy().astype(np.float64, copy=False)
    infinite = ~np.isfinite(values) if strict else np.isinf(values)
    if infinite.any():
        row = int(np.argmax(infinite))
        raise DataError(
            f"{path}: column {name!r} is {values[row]} in row {row} ({_at(times, row)})."
        )
    return values


def _by_layout(names: dict[str, str], layout: Layout, columns: list[str]) -> Plan:
    time, value = names[layout.time], names[layout.value]
    appliances: tuple[str, ...] = ()
    if layout.ignore is not None:
        skip = layout.ignore | NOT_APPLIANCES | {layout.time, layout.value}
        appliances = tuple(name for name in columns if name.lower() not in skip)
    end = None if layout.end is None else names[layout.end]
    return Plan(time, value, appliances, layout.unit, layout.stamp, end)


def _find(
    names: dict[str, str], asked: str | None, usual: tuple[str, ...], path: Path, kind: str
) -> str:
    found = ", ".join(list(names.values())[::-1][:20])
    if asked is not None:
        if asked.strip().lower() not in names:
            raise InputError(f"{path} has no column {asked!r} (found: {found}).")
        return names[asked.strip().lower()]
    for name in usual:
        if name in names:
            return names[name]
    raise DataError(
        f"{path} has no {kind} column: name one of its columns {usual[0]!r}, or say which it is "
        f"with --{'time' if kind == 'time' else 'value'}-column "
        f"(found: {found})."
    )


def _find_power(
    names: dict[str, str], options: ReadOptions, path: Path, time: str, homes: bool
) -> str | None:
    """The meter's column: as asked, by its usual names, or the only one named after a unit."""
    usual = [name for name in POWER_COLUMNS if name in names and names[name] != time]
    if options.value_column is not None or usual:
        return _find(names, options.value_column, tuple(usual), path, "power")
    named = [name for name in names.values() if name != time and unit_of(name) is not None]
    if len(named) == 1:
        return named[0]
    if homes:
        return None
    return _find(names, None, POWER_COLUMNS, path, "power")


def _appliances(
    table: Any, time: str, value: str | None, options: ReadOptions
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Every other column with a name and a value, and those without one.

    None if the meter's column was picked by hand.
    """
    if options.value_column is not None:
        return (), ()
    skip = NOT_APPLIANCES | {time.lower(), (value or "").lower()}
    others = [name for name in table.column_names if name.lower() not in skip]
    left = tuple(
        name
        for name in others
        if NAMELESS.fullmatch(name) or table.column(name).null_count == table.num_rows
    )
    return tuple(name for name in others if name not in left), left


def _example(column: Any) -> str:
    """The first value that is no number, or at least not written as one."""
    values = [(row, str(value.as_py())) for row, value in enumerate(column) if value.is_valid]
    odd = next((found for found in values if not NUMBER.fullmatch(found[1])), values[0])
    return f", but for example {odd[1][:40]!r} in row {odd[0]}"


def _at(times: IntArray, row: int) -> str:
    return iso(np.datetime64(int(times[row]), "ns"))
