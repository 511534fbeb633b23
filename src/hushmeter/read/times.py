"""Times as files write them, as nanoseconds since 1970 in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushmeter.checks import FloatArray, IntArray
from hushmeter.errors import DataError

SECOND = 1_000_000_000
LATEST = 7_258_118_400  # 2200-01-01, in unix seconds
DATES, CLOCKS = ("date", "datum"), ("time", "start time", "uhrzeit", "hour", "stunde")
SHAPE = re.compile(
    r"(\d{1,4})([-/.])\d{1,2}\2(\d{1,4})"
    r"(?:(T| +)\d{1,2}:\d{2}(:\d{2})?( *)([AaPp][Mm])?)?"
)
DIGITS = {8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
EXCEL_1970, EXCEL_2100 = 25_569.0, 73_051.0


def join_clock(table: Any) -> Any:
    """The table with one column `timestamp` where date and time of day stand in two."""
    import pyarrow.compute as pc
    from pyarrow import types

    names = {name.lower(): name for name in table.column_names}
    date = next((names[name] for name in DATES if name in names), None)
    clock = next((names[name] for name in CLOCKS if name in names), None)
    if date is None or clock is None or "timestamp" in names:
        return table
    day, hour = table.column(date), table.column(clock)
    if not (types.is_date(day.type) or types.is_string(day.type)):
        return table
    if types.is_integer(hour.type):
        hour = _on_the_hour(hour)
    elif not (types.is_time(hour.type) or types.is_string(hour.type)):
        return table
    joined = pc.binary_join_element_wise(pc.cast(day, "string"), pc.cast(hour, "string"), " ")
    return table.drop_columns([date, clock]).append_column("timestamp", joined)


def _on_the_hour(hours: Any) -> Any:
    """Hours 0 … 23, or 1 … 24 as utilities count them, as the time of day they begin at."""
    import pyarrow.compute as pc

    if pc.max(hours).as_py() == 24:
        hours = pc.subtract(hours, 1)
    text = pc.utf8_lpad(pc.cast(hours, "string"), 2, "0")
    return pc.binary_join_element_wise(text, "00", ":")


def is_written_time(column: Any) -> bool:
    """Whether a column is of times by its type, or text that starts as a date does."""
    from pyarrow import types

    if types.is_timestamp(column.type):
        return True
    return types.is_string(column.type) and bool(date_patterns(str(column[0].as_py())))


def date_patterns(text: str) -> list[str]:
    """How a written date may be read; two patterns where day and month could change places.

    ISO 8601 has no pattern here: it may carry a zone.
    """
    match = SHAPE.fullmatch(text.strip())
    if match is None:
        return []
    first, mark, last, gap, seconds, blank, half = match.groups()
    clock = "" if gap is None else gap + ("%I" if half else "%H") + ":%M"
    clock += (":%S" if seconds else "") + (f"{blank}%p" if half else "")
    if len(first) == 4:
        return [] if mark == "-" else [f"%Y{mark}%m{mark}%d{clock}"]
    year = "%Y" if len(last) == 4 else "%y"
    orders = ("%d", "%m"), ("%m", "%d")
    return [f"{a}{mark}{b}{mark}{year}{clock}" for a, b in orders]


def read_dates(column: Any, patterns: list[str]) -> tuple[Any, str]:
    """Text as zoneless timestamps, null where it is no date, and a remark if the order is a guess.

    Where days and months could change places, the order with the shorter longest pause is taken,
    day first if both are alike.
    """
    import pyarrow.compute as pc

    found = [pc.strptime(column, pattern, "s", error_is_null=True) for pattern in patterns]
    fewest = min(times.null_count for times in found)
    found = [times for times in found if times.null_count == fewest]
    if fewest or len(found) == 1:
        return found[0], ""
    pauses = [_longest_pause(times) for times in found]
    first = int(np.argmin(pauses))
    order = "month" if first else "day"
    return found[first], f"; dates are read {order} first, though {column[0].as_py()} fits both"


def read_calendar_numbers(numbers: FloatArray) -> tuple[Any, str] | None:
    """Numbers that are no unix time: 202401311330, or a spreadsheet's days since 1900."""
    import pyarrow as pa
    import pyarrow.compute as pc

    first = float(numbers[0])
    pattern = DIGITS.get(len(f"{first:.0f}"))
    if pattern is not None and f"{first:.0f}".startswith(("19", "20")) and _are_whole(numbers):
        text = pa.array(numbers.astype(np.int64)).cast("string")
        times = pc.strptime(text, pattern, "s", error_is_null=True)
        if times.null_count == 0:
            return times, f"; {text[0].as_py()} is read as a date"
    if not EXCEL_1970 <= first < EXCEL_2100 or numbers.size < 2 or _are_whole(numbers):
        return None
    within = EXCEL_1970 <= numbers.min() <= numbers.max() < EXCEL_2100
    if not within or np.median(np.abs(np.diff(numbers))) > 1:
        return None
    seconds = np.rint((numbers - EXCEL_1970) * 86_400)
    times = pa.array(seconds.astype(np.int64)).cast(pa.timestamp("s"))
    return times, f"; {numbers[0]:g} is read as a spreadsheet's day number"


def _are_whole(numbers: FloatArray) -> bool:
    return bool((numbers == np.floor(numbers)).all())


def _longest_pause(times: Any) -> int:
    seconds = times.cast("int64").to_numpy()
    return int(np.abs(np.diff(seconds)).max(initial=0))


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


def unix_ns(seconds: FloatArray, path: Path) -> IntArray:
    """Unix seconds as nanoseconds, refused outside 1970 … 2200 (the first bad row is named)."""
    good = (seconds >= 0) & (seconds < LATEST)
    if not good.all():
        row = int(np.argmin(good))
        raise DataError(
            f"{path} has a time outside 1970 … 2200 in row {row}: {seconds[row]:g} seconds; "
            "times must be unix seconds or ISO 8601."
        )
    whole = np.floor(seconds)
    fraction = np.rint((seconds - whole) * 1e6).astype(np.int64) * 1000
    return whole.astype(np.int64) * SECOND + fraction
