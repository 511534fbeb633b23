"""Plain tables: CSV or Parquet with a time column, a power column and maybe appliances."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushmeter.checks import FloatArray
from hushmeter.errors import DataError
from hushmeter.trace import Trace, iso

TIME_COLUMNS = ("timestamp", "time", "datetime", "utc", "unix", "unix_ts")
POWER_COLUMNS = ("watts", "power", "mains", "aggregate", "w")
PARQUET_MAGIC = b"PAR1"


def read_table(path: Path) -> Trace:
    """A table with one row per reading; see `read_meter`.

    Times carry a zone or are unix seconds. The interval is the median step; every step is
    rounded to whole intervals, and more than one is a gap.
    """
    table = _load(path)
    names = {str(name).strip().lower(): name for name in table.column_names}
    time_column = _find(names, TIME_COLUMNS, path, "time")
    power_column = _find(names, POWER_COLUMNS, path, "power")
    times = _unix_ns(table.column(time_column), path)
    appliances = [c for c in table.column_names if c not in (time_column, power_column)]
    steps, interval_s = _steps(times, path)
    return Trace(
        _watts(table.column(power_column), power_column, times, path),
        interval_s,
        np.datetime64(int(times[0]), "ns"),
        power=_appliance_powers(table, appliances, times, path),
        names=[str(name) for name in appliances] or None,
        steps=steps,
    )


def _load(path: Path) -> Any:
    import pyarrow as pa
    from pyarrow import csv, parquet

    try:
        with path.open("rb") as file:
            is_parquet = file.read(4) == PARQUET_MAGIC
        table = parquet.read_table(path) if is_parquet else csv.read_csv(path)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).split("\n")[0].rstrip(".")
        raise DataError(f"{path} is neither a CSV nor a Parquet table: {reason}.") from None
    if table.num_rows == 0:
        raise DataError(f"{path} holds no readings.")
    return table


def _find(names: dict[str, str], wanted: tuple[str, ...], path: Path, kind: str) -> str:
    for name in wanted:
        if name in names:
            return names[name]
    raise DataError(
        f"{path} has no {kind} column: name one of its columns {wanted[0]!r} "
        f"(found: {', '.join(map(str, names.values()))})."
    )


def _unix_ns(column: Any, path: Path) -> NDArray[np.int64]:
    """Times as nanoseconds since 1970, UTC."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.null_count:
        row = pc.index(pc.is_null(column), True).as_py()
        raise DataError(f"{path} has no time in row {row}.")
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        seconds = column.to_numpy().astype(np.float64)
        whole: NDArray[np.int64] = np.rint(seconds * 1e9).astype(np.int64)
        return whole
    if not pa.types.is_timestamp(column.type):
        raise DataError(f"{path} has times that cannot be read, such as {column[0].as_py()!r}.")
    if column.type.tz is None:
        raise DataError(
            f"{path} has times without a zone, such as {column[0].as_py()}; "
            "write them as UTC, with a Z at their end."
        )
    nanoseconds: NDArray[np.int64] = (
        column.cast(pa.timestamp("ns", tz="UTC")).to_numpy().astype("datetime64[ns]").astype("i8")
    )
    return nanoseconds


def _steps(times: NDArray[np.int64], path: Path) -> tuple[NDArray[np.int64] | None, float]:
    if times.size == 1:
        raise DataError(f"{path} holds a single reading; its interval cannot be told.")
    differences = np.diff(times)
    if differences.min() <= 0:
        row = int(np.argmax(differences <= 0)) + 1
        raise DataError(f"{path}: the time in row {row} repeats or goes back.")
    interval = float(np.median(differences))
    whole = np.maximum(np.rint(differences / interval).astype(np.int64), 1)
    steps = None if int(whole.max()) == 1 else np.concatenate([[0], np.cumsum(whole)])
    return steps, interval / 1e9


def _watts(column: Any, name: str, times: NDArray[np.int64], path: Path) -> FloatArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise DataError(f"{path}: column {name!r} is not numbers.")
    if column.null_count:
        row = pc.index(pc.is_null(column), True).as_py()
        raise DataError(f"{path}: column {name!r} has no value in row {row} ({_at(times, row)}).")
    values: FloatArray = column.to_numpy().astype(np.float64)
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values)))
        raise DataError(
            f"{path}: column {name!r} is {values[row]} in row {row} ({_at(times, row)})."
        )
    return values


def _appliance_powers(
    table: Any, names: list[str], times: NDArray[np.int64], path: Path
) -> FloatArray | None:
    if not names:
        return None
    return np.column_stack([_watts(table.column(name), name, times, path) for name in names])


def _at(times: NDArray[np.int64], row: int) -> str:
    return iso(np.datetime64(int(times[row]), "ns"))
