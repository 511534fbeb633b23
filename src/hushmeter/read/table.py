"""Tables: CSV or Parquet with a time column, a power column and maybe appliances."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.errors import DataError
from hushmeter.read.columns import Plan, numbers, plan_columns
from hushmeter.read.dialect import Dialect, find_dialect, unique_names
from hushmeter.read.layouts import Layout, find_layout
from hushmeter.read.options import ReadOptions, unit_factor
from hushmeter.read.recording import Series
from hushmeter.read.source import (
    STREAM_CAP,
    arrow_source,
    is_gzip,
    open_stream,
    read_head,
    read_parquet,
)
from hushmeter.read.times import dates_of_text, join_clock, parse_times

PARQUET_MAGIC = b"PAR1"
NULLS = ["", "NA", "N/A", "NaN", "nan", "NULL", "null", "None", "-nan", "#N/A", "#N/A N/A", "n/a"]


def read_table(path: Path, options: ReadOptions, *, homes: bool = False) -> tuple[Series, str]:
    """A table with one row per reading, and where its mains come from; see `read_meter`.

    Times carry a zone or are unix seconds. The interval is the median step; every step is
    rounded to whole intervals, and more than one is a gap. With `homes`, a table without a
    power column gets the sum of its appliances.
    """
    table, dialect = load(path)
    layout = None if _names_its_columns(options) else find_layout(_lowered(table))
    if layout is None and options.time_column is None:
        table = join_clock(table)
    notes: list[str] = []
    table = _one_building(table, layout, options, path)
    unit = None
    if layout is not None and layout.prepare is not None:
        table, unit = _prepare(layout, table, notes, path)
    if table.num_rows == 0:
        raise DataError(f"{path} holds no readings of the home or kind that was asked for.")
    plan = plan_columns(table, layout, options, path, homes=homes, dialect=dialect)
    return _series(table, plan, layout, options, unit, notes, path)


def read_columns(path: Path, times: Collection[str] = ()) -> Any:
    """Read a table as it is, without deciding what its columns mean.

    The same rules hold as for meter readings: the delimiter, the decimal mark, the encoding, the
    row of the header and gzip are found from the content.

    Parameters
    ----------
    path : Path
        CSV or Parquet file, also gzipped.
    times : collection of str
        Names (lower case) of columns that hold times. Dates such as 31/01/2024 become timestamps
        without a zone; ISO 8601 text stays text, because it may carry an offset.

    Returns
    -------
    pyarrow.Table

    Raises
    ------
    DataError
        If the file is missing, empty or no table.
    """
    if not path.is_file():
        raise DataError(f"{path} does not exist.")
    import pyarrow as pa

    table, _ = load(path, times)
    for i, name in enumerate(table.column_names):
        if pa.types.is_null(table.column(i).type):
            table = table.set_column(i, name, table.column(i).cast(pa.float64()))
        elif name.lower() in times and _is_text(table.column(i)):
            dates = dates_of_text(table.column(i), path)
            if dates is not None:
                table = table.set_column(i, name, dates)
    return table


def load(path: Path, texts: Collection[str] = ()) -> tuple[Any, Dialect | None]:
    """The whole table, a CSV with its dialect; columns in `texts` stay as they are written."""
    import pyarrow as pa

    dialect = None
    try:
        if read_head(path, 4) == PARQUET_MAGIC:
            table = read_parquet(path)
        else:
            dialect = find_dialect(read_head(path), path)
            table = _load_csv(path, dialect, texts)
    except (pa.ArrowException, OSError, UnicodeError, OverflowError, LookupError) as error:
        raise DataError(_refusal(error, path)) from None
    table = _without_empty_rows(table)
    if table.num_rows == 0:
        raise DataError(
            f"{path} holds no readings, only the columns {', '.join(table.column_names[:8])}."
        )
    return table.rename_columns(list(unique_names(table.column_names))), dialect


def _is_text(column: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(column.type) or types.is_large_string(column.type))


def _refusal(error: Exception, path: Path) -> str:
    reason = str(error).split("\n")[0].rstrip(".")[:200]
    if match := re.search(r"Expected (\d+) columns, got (\d+): ?(.*)", reason):
        return (
            f"{path} has a line of {match[2]} instead of {match[1]} columns, {match[3][:60]!r}; "
            "delete lines that are no readings."
        )
    return f"{path} is neither a CSV nor a Parquet table: {reason}."


def _without_empty_rows(table: Any) -> Any:
    """Spreadsheets end with rows that hold nothing but delimiters."""
    import pyarrow.compute as pc

    if not table.num_columns or not all(column.null_count for column in table.columns):
        return table
    filled = functools.reduce(pc.or_, (pc.is_valid(column) for column in table.columns))
    return table.filter(filled)


def _load_csv(path: Path, dialect: Dialect, texts: Collection[str]) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    reading = csv.ReadOptions(
        skip_rows=dialect.header_row + dialect.has_header,
        column_names=list(dialect.columns),
        encoding="utf8" if dialect.encoding == "utf-8-sig" else dialect.encoding,
    )
    parsing = csv.ParseOptions(delimiter=dialect.delimiter)
    converting = csv.ConvertOptions(
        decimal_point=dialect.decimal,
        null_values=NULLS,
        strings_can_be_null=True,
        column_types={name: pa.string() for name in dialect.columns if name.lower() in texts},
    )
    settings = {
        "read_options": reading,
        "parse_options": parsing,
        "convert_options": converting,
    }
    if not is_gzip(path):
        return csv.read_csv(arrow_source(path), **settings)
    with open_stream(path, STREAM_CAP) as stream:
        return csv.read_csv(stream, **settings)


def _names_its_columns(options: ReadOptions) -> bool:
    return options.time_column is not None or options.value_column is not None


def _lowered(table: Any) -> frozenset[str]:
    return frozenset(name.lower() for name in table.column_names)


def _one_building(table: Any, layout: Layout | None, options: ReadOptions, path: Path) -> Any:
    """The rows of one home, where a column tells homes apart."""
    import pyarrow.compute as pc

    wanted = None if layout is None else layout.building
    column = next((name for name in table.column_names if name.lower() == wanted), None)
    if column is None:
        return table
    homes = sorted(str(home) for home in pc.unique(table.column(column)).to_pylist())
    if options.building is None and len(homes) == 1:
        return table
    if str(options.building) not in homes:
        raise DataError(
            f"{path} holds {len(homes)} homes ({', '.join(homes[:12])}): "
            "choose one, such as --building " + homes[0] + "."
        )
    return table.filter(pc.equal(pc.cast(table.column(column), "string"), str(options.building)))


def _prepare(layout: Layout, table: Any, notes: list[str], path: Path) -> tuple[Any, str | None]:
    import pyarrow as pa

    assert layout.prepare is not None
    try:
        prepared = layout.prepare(table, notes)
    except DataError as error:
        raise DataError(f"{path} is {error}") from None
    except pa.ArrowException as error:
        reason = str(error).split("\n")[0].rstrip(".")
        raise DataError(f"{path} is no proper {layout.format}: {reason}.") from None
    metadata = prepared.schema.metadata or {}
    unit = metadata.get(b"unit")
    return prepared, None if unit is None else unit.decode()


def _series(
    table: Any,
    plan: Plan,
    layout: Layout | None,
    options: ReadOptions,
    unit: str | None,
    notes: list[str],
    path: Path,
) -> tuple[Series, str]:
    times, clock = parse_times(
        table.column(plan.time), path, options.tz or (None if layout is None else layout.tz)
    )
    strict = layout is None
    if plan.left:
        notes.append(f"Without a name or any value, so left out: {', '.join(plan.left[:12])}.")
    values, power = _values(table, plan, times, path, strict)
    chosen = options.unit or unit or plan.unit
    factor, energy = unit_factor(chosen)
    series = Series(
        times,
        values,
        "Parquet table" if plan.binary else "CSV table",
        chosen,
        factor,
        energy,
        plan.appliances,
        power,
        _durations(table, plan, times, path, options),
        stamp=options.stamp or plan.stamp,
        register=None if layout is None else layout.register,
        lenient=(options.repeats or ("refuse" if strict else "last")) == "last",
        clock_changes=clock,
        notes=notes,
    )
    if layout is not None:
        series.format = layout.format
        _drop_missing(series, path)
    return series, "metered" if plan.value is not None else "sum of sub-meters"


def _values(
    table: Any, plan: Plan, times: IntArray, path: Path, strict: bool
) -> tuple[FloatArray, FloatArray | None]:
    """The meter and the appliances, in the file's unit; missing ones are NaN unless strict."""
    columns = [numbers(table, name, times, path, strict) for name in plan.appliances]
    power = np.column_stack(columns) if columns else None
    if plan.value is not None:
        return numbers(table, plan.value, times, path, strict), power
    assert power is not None
    return power.sum(axis=1), power


def _durations(
    table: Any, plan: Plan, times: IntArray, path: Path, options: ReadOptions
) -> FloatArray | None:
    """Interval lengths [s], where the table gives both ends and they make sense."""
    if plan.end is None:
        return None
    ends, _ = parse_times(table.column(plan.end), path, options.tz or "UTC")
    lengths: FloatArray = (ends - times) / 1e9
    if lengths.size and lengths.min() <= 0:
        row = int(np.argmin(lengths))
        raise DataError(f"{path}: the interval in row {row} ends before it starts.")
    return lengths


def _drop_missing(series: Series, path: Path) -> None:
    """Rows without a meter reading, or without an appliance's, become gaps."""
    series.found = series.times.size
    if series.power is not None:
        _drop_empty_columns(series)
    missing: BoolArray = ~np.isfinite(series.values)
    if series.power is not None:
        missing = missing | ~np.isfinite(series.power).all(axis=1)
    if missing.any():
        series.notes.append(f"{int(missing.sum())} rows have missing values and became gaps.")
        series.take(np.flatnonzero(~missing))
    if series.times.size == 0:
        raise DataError(f"{path} ({series.format}) has no row in which every column has a value.")


def _drop_empty_columns(series: Series) -> None:
    assert series.power is not None
    seen: BoolArray = np.asarray(np.isfinite(series.power).any(axis=0))
    if not seen.all():
        empty = [n for n, there in zip(series.names, seen, strict=True) if not there]
        series.notes.append(f"Without any value, so left out: {', '.join(empty[:12])}.")
        series.names = tuple(n for n, there in zip(series.names, seen, strict=True) if there)
        series.power = series.power[:, seen] if seen.any() else None
