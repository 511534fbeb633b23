"""Times of a column, in whatever shape, as nanoseconds since 1970 in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushmeter.checks import FloatArray, IntArray
from hushmeter.errors import DataError
from hushmeter.read.clocks import date_patterns, read_calendar_numbers, read_dates
from hushmeter.read.grid import LATEST, unix_ns

UTC_WORD = re.compile(r"\s*(?:UTC|GMT)$")
ONE_DAY = 86_400 * 10**9
UTC_WORDS = "times are UTC or carry their offset"


def parse_times(column: Any, path: Path, tz: str | None) -> tuple[IntArray, str]:
    """UTC nanoseconds of an Arrow column, and what was done about local time.

    Numbers are unix seconds (milli-, micro- or nanoseconds where they would be later than 2200)
    or dates written in digits. Times with a zone are converted; those without need `tz`.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.null_count:
        row = pc.index(pc.is_null(column), True).as_py()
        raise DataError(f"{path} has no time in row {row}: write it, or delete the row.")
    kind, remark = column.type, ""
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        numbers = _finite(column, path)
        dates = read_calendar_numbers(numbers)
        if dates is None:
            return _from_ticks(numbers, path), UTC_WORDS
        column, remark = dates
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        column, remark = _from_text(column, path)
    elif pa.types.is_date(kind):
        column = column.cast(pa.timestamp("s"))
    elif not pa.types.is_timestamp(kind):
        raise _unreadable(path, column[0].as_py())
    if column.type.tz is not None:
        return _nanoseconds(column.cast(pa.timestamp(column.type.unit)), path), UTC_WORDS
    if tz is None:
        raise DataError(
            f"{path} has times without a zone, such as {column[0].as_py()}; write them as UTC, "
            "with a Z at their end, or name their zone (tz, such as --tz Europe/London)."
        )
    instants, words = localise(_nanoseconds(column, path), tz)
    return instants, words + remark


def _finite(column: Any, path: Path) -> FloatArray:
    numbers: FloatArray = column.to_numpy().astype(np.float64)
    if not np.isfinite(numbers).all():
        row = int(np.argmin(np.isfinite(numbers)))
        raise DataError(f"{path} has no time in row {row}, but {numbers[row]}.")
    return numbers


def _from_ticks(numbers: FloatArray, path: Path) -> IntArray:
    """Unix seconds, or the coarsest thousandths of them that lie before 2200."""
    middle = float(np.median(numbers))
    ticks = next((n for n in (1, 10**3, 10**6, 10**9) if middle < n * LATEST), 1)
    return unix_ns(numbers / ticks, path)


def _from_text(column: Any, path: Path) -> tuple[Any, str]:
    """Text as timestamps: the dates of utilities by their pattern, ISO 8601 row by row."""
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(column)
    patterns = date_patterns(trimmed[0].as_py())
    if not patterns:
        return _from_iso(trimmed, path), ""
    times, remark = read_dates(trimmed, patterns)
    if times.null_count:
        row = pc.index(pc.is_null(times), True).as_py()
        raise _unreadable(path, trimmed[row].as_py(), row)
    return times, remark


def dates_of_text(column: Any, path: Path) -> Any | None:
    """Timestamps without a zone for dates such as 31/01/2024 1:30 PM; None for ISO 8601 text."""
    first = next((value.as_py() for value in column if value.is_valid), "")
    if not date_patterns(first.strip()):
        return None
    return _from_text(column, path)[0]


def _from_iso(column: Any, path: Path) -> Any:
    import pyarrow as pa

    moments: list[datetime] = []
    for row, text in enumerate(column.to_pylist()):
        try:
            moments.append(datetime.fromisoformat(UTC_WORD.sub("+00:00", text)))
        except ValueError:
            raise _unreadable(path, text, row) from None
    aware = [moment.tzinfo is not None for moment in moments]
    if any(aware) and not all(aware):
        row = aware.index(not aware[0])
        raise DataError(
            f"{path} has times with and without a zone, first in row {row}: write them all alike."
        )
    try:
        if aware[0]:
            moments = [moment.astimezone(UTC) for moment in moments]
        return pa.array(moments, pa.timestamp("us", tz="UTC" if aware[0] else None))
    except (OverflowError, ValueError, pa.ArrowException):
        raise DataError(f"{path} has times that no calendar holds.") from None


def _unreadable(path: Path, value: object, row: int | None = None) -> DataError:
    where = "" if row is None else f" (row {row})"
    return DataError(
        f"{path} has times that cannot be read, such as {str(value)[:60]!r}{where}; "
        "write them as 2024-01-31T13:30:00Z or as unix seconds, and delete what is no reading."
    )


def _nanoseconds(column: Any, path: Path) -> IntArray:
    """A zoneless Arrow timestamp column as int64, refused outside 1970 … 2200."""
    import pyarrow as pa

    unit = column.type.unit
    ticks: IntArray = column.cast(pa.int64()).to_numpy()
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    low, high = int(ticks.min()), int(ticks.max())
    if low < 0 or high >= LATEST * per_second:
        row = int(np.argmax((ticks < 0) | (ticks >= LATEST * per_second)))
        raise DataError(
            f"{path} has a time outside 1970 … 2200 in row {row}: {column[row].as_py()}."
        )
    return ticks if unit == "ns" else ticks * (10**9 // per_second)


def localise(local: IntArray, tz: str) -> tuple[IntArray, str]:
    """Local clock readings as UTC; the hour that occurs twice is told apart by the file's order.

    In the order of time, a local time is summer time when it is first met; it is winter time when
    it is met again, or once the clock has gone back within that hour.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if tz.upper() == "UTC":
        return local, "times are UTC, as told"
    clock = pa.array(local.astype("datetime64[ns]"))
    early, late = (
        pc.assume_timezone(clock, tz, ambiguous=which, nonexistent=which)
        .cast(pa.timestamp("ns"))
        .cast(pa.int64())
        .to_numpy()
        for which in ("earliest", "latest")
    )
    moved = late - early
    # In the hour that the clock skips Arrow gives the instants around the jump, a tick apart.
    skipped = int(((moved > 0) & (moved < 10**9)).sum())
    twice = moved >= 10**9
    second = _second_visits(local, twice)
    utc = np.where(second | ((moved > 0) & ~twice), late, early)
    words = f"local times of {tz}"
    if twice.any():
        words += f"; {int(twice.sum())} in an hour that the clock shows twice"
    if skipped:
        words += f"; {skipped} in an hour that the clock skips"
    return utc, words


def _second_visits(local: IntArray, twice: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """True at ambiguous times of the second pass, in the order of time."""
    second = np.zeros(local.size, dtype=np.bool_)
    rows = np.flatnonzero(twice)
    descending = local.size > 1 and local[-1] < local[0]
    seen: set[int] = set()
    last, turned = -ONE_DAY, False
    for row in rows[::-1] if descending else rows:
        value = int(local[row])
        turned = abs(value - last) < ONE_DAY and (turned or value < last)
        second[row] = turned or value in seen
        seen.add(value)
        last = value
    return second
