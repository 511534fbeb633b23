"""Times without a zone as utilities and spreadsheets write them: 31/01/2024 1:30 PM, 45322.5."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from hushmeter.checks import FloatArray

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
