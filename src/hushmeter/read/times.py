"""Times as files write them, as nanoseconds since 1970 in UTC.

One pattern covers ISO 8601, dates with the day or the month first, clocks with points, AM and PM,
24:00, month names and offsets. The order of day and month is decided for a whole column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.clock import SECOND, is_utc, times_shown, utc_times
from hushmeter.errors import DataError
from hushmeter.read.headers import load_words, months, weekday
from hushmeter.trace import SECONDS_PER_DAY, SECONDS_PER_HOUR, TimeArray

LATEST = 7_258_118_400  # 2200-01-01, in unix seconds
REMARK = r"\s*\([^)]*\)\s*$"  # What a browser writes behind an offset
CLOCK = (
    r"(?P<h>\d{1,2})(?:[:.h](?P<m>\d{2})(?:[:.](?P<s>\d{2})(?:[.,](?P<f>\d{1,9}))?)?)?"
    r"\s*(?P<p>[AaPp]\.?[Mm]\.?)?"
)
ZONE = r"\s*(?P<z>Z|(?:UTC|GMT)?[-+]\d{1,2}(?::?\d{2})?|[A-Z]{3,4})?"
DATE_FIRST = (
    r"^\s*(?P<a>\d{1,4})[-/. 年]+(?P<b>\d{1,2}|[^\d\s.,/-]{3,10})[-/. 月]+(?P<c>\d{1,4})[.日]?"
    r"(?:(?:T|\s+|,\s*)" + CLOCK + r")?" + ZONE + r"\s*$"
)
MONTH_FIRST = (
    r"^\s*(?P<b>[^\d\s.,/-]{3,10})\.?[\s-]+(?P<a>\d{1,2}),?[\s-]+(?P<c>\d{4})"
    r"(?:(?:T|\s+|,\s*)" + CLOCK + r")?" + ZONE + r"\s*$"
)
# A dash between a date and its clock: 13/6/2023-14:00 has no offset.
DASHED = r"^\s*(?P<a>\d{1,2})[-/.](?P<b>\d{1,2})[-/.](?P<c>\d{4})-" + CLOCK + r"(?P<z>Z)?\s*$"
RANGE = re.compile(r"(.*\dZ?)\s*(?:\bto\b|\s-\s|–|/(?=\d{4}-)|(?<=\d)-(?=\d{1,2}:))\s*(.*\d.*)")
OFFSET = re.compile(r"\d[-/.]\d.*\d-(?:0?\d|1[0-2]):(?:00|30)$")
DIGITS = {8: (1, 1, 1), 10: (1, 1, 1, 1), 12: (1, 1, 1, 1, 1), 14: (1, 1, 1, 1, 1, 1)}
MANY_BACK = 0.1
TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
EXCEL_1970, EXCEL_2100 = 25_569.0, 73_051.0
AMERICAN = ("America/", "US/", "Canada/")


@dataclass
class Stamps:
    """Times of a column."""

    ns: IntArray  # Nanoseconds since 1970, in UTC if `aware`, else on the clock of an unknown zone
    good: BoolArray  # True where a row has a time that was understood
    aware: bool  # True if the times carry their zone
    dates_only: bool = False  # True if no row has a time of day
    remark: str = ""  # How an ambiguous date was read
    # Nanoseconds on the clock as written, where text carries an offset
    written: IntArray | None = None


def read_stamps(
    column: Any, path: Path, tz: str | None = None, day_first: bool | None = None
) -> Stamps:
    """Read a column of times; `day_first` is the order of dates that other columns show."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_timestamp(kind):
        good = _valid(column)
        ticks = as_numpy(column.cast(pa.timestamp(kind.unit)).cast(pa.int64()), 0)
        per_second = TICKS[kind.unit]
        _check_span(ticks, good, path, per_second)
        ns = ticks * (SECOND // per_second)
        return Stamps(ns, good, kind.tz is not None, _are_midnights(ns, good, kind.tz))
    if pa.types.is_date(kind):
        good = _valid(column)
        days = as_numpy(column.cast(pa.date32()).cast(pa.int32()), 0).astype(np.int64)
        _check_span(days * SECONDS_PER_DAY, good, path)
        return Stamps(days * SECONDS_PER_DAY * SECOND, good, False, True)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _of_numbers(column, path)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _of_text(column, path, tz, day_first)
    raise _unreadable(path, _first(column))


def _are_midnights(ns: IntArray, good: BoolArray, zone: object) -> bool:
    """True if times without a zone are all at midnight; the first ones show it mostly."""
    if zone is not None or not good.any():
        return False
    day = SECONDS_PER_DAY * SECOND
    return not (ns[:100][good[:100]] % day).any() and not (ns[good] % day).any()


def read_clock(column: Any) -> tuple[IntArray, BoolArray] | None:
    """Seconds since midnight of a column of clock times, and where it has one; None if no clock.

    24:00 is the end of the day. Numbers are not understood here; see `number_of_day`.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_time(kind):
        good = _valid(column)
        unit = TICKS[kind.unit]
        wide = pa.int32() if kind.bit_width == 32 else pa.int64()
        ticks = as_numpy(column.cast(wide), 0).astype(np.int64)
        return ticks // unit, good
    if not pa.types.is_string(kind):
        return None
    plain = _plain(column)
    parts = pc.extract_regex(plain, r"^\s*" + CLOCK + r"\s*$")
    fields = _fields(parts)
    seconds = _clock_seconds(fields)
    # 29.10.22 is a date.
    dates = as_numpy(pc.match_substring_regex(plain, r"\d\.\d+\.\d"), False)
    good = _valid(parts) & (seconds <= SECONDS_PER_DAY) & ~dates
    there = _valid(column)
    if not there.any() or good.sum() < 0.9 * there.sum() or not _lengths(fields["m"]).any():
        return None
    return seconds, good


def split_range(column: Any) -> tuple[Any, Any] | None:
    """The two ends of a column of ranges, such as "00:00-00:15"; None if it has none."""
    from pyarrow import types

    if not types.is_string(column.type):
        return None
    first = _first(column)
    if not isinstance(first, str) or RANGE.fullmatch(first) is None or re.match(DASHED, first):
        return None
    matches = [RANGE.fullmatch(text) if text else None for text in column.to_pylist()]
    found = [m for m in matches if m is not None]
    if len({m[2] for m in found}) <= 2 and all(OFFSET.search(m[0]) for m in found):
        # 2024-01-01T00:00:00-04:00 is a time with its offset, which hardly changes.
        return None
    starts = [None if m is None else m[1].strip() for m in matches]
    return arrow_array(starts), arrow_array([None if m is None else m[2].strip() for m in matches])


def to_utc(local: IntArray, tz: str) -> tuple[IntArray, BoolArray, str]:
    """Local clock times as UTC, whether each exists, and a sentence about clock changes.

    The order of the rows decides in the hour that occurs twice: a local time is summer time when
    it occurs first, and winter time when it occurs again, or once the clock has gone back.
    """
    every = np.ones(local.size, dtype=np.bool_)
    if is_utc(tz):
        return local, every, "times are UTC, as stated"
    clock: TimeArray = local.astype("datetime64[ns]")
    shown = times_shown(clock, tz)
    exists, twice = shown > 0, shown > 1
    utc = utc_times(clock, tz)
    if twice.any():
        utc = np.where(_second_visits(local, twice), utc_times(clock, tz, second=True), utc)
    words = f"local times of {tz}"
    if twice.any():
        words += f"; {int(twice.sum())} in an hour that the clock shows twice"
    if not exists.all():
        words += f"; {int((~exists).sum())} in an hour that the clock skips"
    return utc.astype(np.int64), exists, words


def unix_ns(seconds: FloatArray, path: Path) -> IntArray:
    """Unix seconds as nanoseconds."""
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


def find_zone(text: str) -> str | None:
    """A time zone that a header names: "Time Bucket (America/New_York)", "Date/time UTC"."""
    from zoneinfo import available_timezones

    for name in re.findall(r"\b[A-Z][A-Za-z]+/[A-Z][A-Za-z_]+(?:/[A-Z][A-Za-z_]+)?\b", text):
        if name in available_timezones():
            return str(name)
    if match := re.search(r"\b(?:UTC|GMT)\s*([-+]\d{1,2})(?::?(\d{2}))?\b", text):
        hours = int(match[1])
        if not int(match[2] or 0) and -12 <= hours <= 14:
            # The names of fixed offsets have the opposite sign by convention.
            return f"Etc/GMT{-hours:+d}" if hours else "UTC"
        return None
    return "UTC" if re.search(r"\b(?:UTC|GMT|Zulu)\b|_utc\b", text) else None


def _of_numbers(column: Any, path: Path) -> Stamps:
    import pyarrow as pa

    numbers = as_numpy(column, np.nan if pa.types.is_floating(column.type) else -1)
    good = _valid(column) & np.isfinite(numbers.astype(np.float64))
    values: FloatArray = numbers.astype(np.float64)[good]
    if values.size == 0:
        raise _unreadable(path, None)
    ns = np.zeros(good.size, dtype=np.int64)
    digits = len(f"{values[0]:.0f}")
    whole = bool((values == np.floor(values)).all())
    if whole and digits in DIGITS and f"{values[0]:.0f}"[:2] in ("19", "20"):
        parsed = _of_digits(values.astype(np.int64), digits)
        if parsed is not None:
            ns[good] = parsed
            _check_span(ns / SECOND, good, path)
            remark = f"; {values[0]:.0f} is read as a date"
            return Stamps(ns, good, False, digits == 8, remark)
    if not whole and values.size > 1 and _are_excel_days(values):
        ns[good] = np.rint((values - EXCEL_1970) * SECONDS_PER_DAY).astype(np.int64) * SECOND
        return Stamps(ns, good, False, False, f"; {values[0]:g} is read as a spreadsheet's day")
    middle = float(np.median(values))
    ticks = next((n for n in (1, 10**3, 10**6, 10**9) if middle < n * LATEST), 1)
    ns[good] = unix_ns(values / ticks, path)
    return Stamps(ns, good, True)


def _are_excel_days(values: FloatArray) -> bool:
    inside = EXCEL_1970 <= values.min() <= values.max() < EXCEL_2100
    return bool(inside and np.median(np.abs(np.diff(values))) <= 1)


def _of_digits(values: IntArray, digits: int) -> IntArray | None:
    """Numbers such as 20240131 or 202401311330 as nanoseconds; None if they are no dates."""
    parts = []
    rest = values
    for _ in range((digits - 4) // 2):
        parts.append(rest % 100)
        rest = rest // 100
    month, day, *clock = parts[::-1]
    clock = [*clock, *([np.zeros_like(day)] * (3 - len(clock)))]
    hour, minute, second = clock
    valid = (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31) & (hour <= 24)
    if not (valid & (minute < 60) & (second < 60)).all():
        return None
    seconds = (
        _days(rest, month, day) * SECONDS_PER_DAY + hour * SECONDS_PER_HOUR + minute * 60 + second
    )
    return seconds * SECOND


def find_order(columns: Sequence[Any]) -> bool | None:
    """True if dates of several columns have the day first, False for the month; None if unclear.

    A date such as 1/28/2024 shows the order of all dates of its table.
    """
    import pyarrow as pa

    shown = 0
    for column in columns:
        matched = _match(column) if pa.types.is_string(column.type) else None
        if matched is not None:
            fields = _fields(matched[0])
            a, b = _numbers(fields["a"]), _numbers(fields["b"])
            shown += int(_are_days(b, a).sum()) - int(_are_days(a, b).sum())
    return shown > 0 if shown else None


def _match(column: Any) -> tuple[Any, Any] | None:
    """The parts of the times of a text column by the first pattern that fits, and its texts."""
    import pyarrow.compute as pc

    plain = _plain(column)
    bare = pc.replace_substring_regex(plain, REMARK, "")
    dated = pc.replace_substring_regex(bare, "^" + weekday(), "")
    tries = (
        (DASHED, plain),
        (DATE_FIRST, plain),
        (MONTH_FIRST, bare),
        (DATE_FIRST, dated),
        (MONTH_FIRST, dated),
    )
    for pattern, plain in tries:
        parts = pc.extract_regex(plain, pattern)
        if _valid(parts).any():
            return parts, plain
    return None


def _of_text(column: Any, path: Path, tz: str | None, day_first: bool | None) -> Stamps:
    """Text as times: the pattern of the whole column, the order of day and month for all rows."""
    matched = _match(column)
    if matched is None:
        raise _unreadable(path, _first(column))
    parts, plain = matched
    there, fields = _valid(column), _fields(parts)
    # A year has more than one digit: 1.8.0 is the number of a register.
    good = _valid(parts) & ((_lengths(fields["a"]) > 1) | (_lengths(fields["c"]) > 1))
    if not good.any():
        raise _unreadable(path, _first(column))
    months: IntArray = of_distinct(fields["b"], _month, 0)
    a, c = _numbers(fields["a"]), _numbers(fields["c"])
    own = int((good & _are_days(months, a)).sum()) - int((good & _are_days(a, months)).sum())
    order = day_first if own == 0 else own > 0
    days, good, remark = _civil(a, months, c, good, fields, order, tz, plain)
    clock = _clock_seconds(fields)
    offsets, aware = _offsets(fields["z"], good)
    if aware.any() and not aware[good].all():
        row = int(np.argmax(good & ~aware))
        raise DataError(
            f"{path} has times with and without a zone, first in row {row}: write them all alike."
        )
    seconds = days * SECONDS_PER_DAY + clock - offsets * 60
    _check_span(seconds, good, path)
    bad = there & ~good
    if bad.any() and (int(bad.sum()) > 3 or bad.sum() > 0.1 * there.sum()):
        row = int(np.argmax(bad))
        raise _unreadable(path, column[row].as_py(), row)
    ns = seconds * SECOND + _fractions(fields["f"])
    midnight = not _lengths(fields["h"]).any()
    written = np.where(good, ns + offsets * 60 * SECOND, 0)
    return Stamps(np.where(good, ns, 0), good, bool(aware.any()), midnight, remark, written)


def _civil(
    a: IntArray,
    months: IntArray,
    c: IntArray,
    good: BoolArray,
    fields: dict[str, Any],
    shown: bool | None,
    tz: str | None,
    plain: Any,
) -> tuple[IntArray, BoolArray, str]:
    """Days since 1970, where they are valid, and a remark if the order had to be decided."""
    year_first = bool(((_lengths(fields["a"]) == 4) | ~good).all())
    if year_first:
        valid = good & _are_days(months, c)
        return _days(a, months, c), valid, ""
    year = np.where(c < 100, np.where(c < 70, 2000 + c, 1900 + c), c)
    day_first = good & _are_days(months, a)
    month_first = good & _are_days(a, months)
    remark = ""
    if not _is_number(fields["b"]):
        use_day = True
    elif shown is not None:
        use_day = shown
    else:
        use_day = _prefers_day(year, months, a, good, tz, plain)
        order = "day" if use_day else "month"
        text = next(t for t, ok in zip(plain.to_pylist(), good, strict=True) if ok)
        remark = f"; dates are read {order} first, though {text} fits both"
    if use_day:
        return _days(year, months, a), day_first, remark
    return _days(year, a, months), month_first, remark


def _prefers_day(
    year: IntArray, b: IntArray, a: IntArray, good: BoolArray, tz: str | None, plain: Any
) -> bool:
    """Day first, unless the other order has shorter pauses or the custom of the place is other."""
    pauses = []
    for month, day in ((b, a), (a, b)):
        days = np.unique(_days(year, month, day)[good])
        pauses.append(int(np.diff(days).max(initial=0)))
    if pauses[0] != pauses[1]:
        return pauses[0] < pauses[1]
    first = next(t for t, ok in zip(plain.to_pylist(), good, strict=True) if ok)
    if "." in first[:6]:
        return True
    return not (tz or "").startswith(AMERICAN)


def _are_days(month: IntArray, day: IntArray) -> BoolArray:
    lengths = np.array([31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
    inside = (month >= 1) & (month <= 12) & (day >= 1)
    valid: BoolArray = inside & (day <= lengths[np.clip(month, 1, 12) - 1])
    return valid


def _days(year: IntArray, month: IntArray, day: IntArray) -> IntArray:
    """Days since 1970-01-01 of a date of the Gregorian calendar."""
    months = (12 * (year - 1970) + month - 1).astype("datetime64[M]")
    days: IntArray = months.astype("datetime64[D]").astype(np.int64) + day - 1
    return days


def _fields(parts: Any) -> dict[str, Any]:
    """The named groups of a match, as one array each."""
    whole = one_array(parts)
    return {field.name: whole.field(i) for i, field in enumerate(whole.type)}


def _numbers(field: Any) -> IntArray:
    """Digits as numbers, zero where there are none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    digits = pc.if_else(pc.match_substring_regex(field, r"^\d+$"), field, pa.NA)
    values: IntArray = as_numpy(digits.cast(pa.int64()), 0)
    return values


def _month(text: str) -> int:
    """A number, or that of a month by the longest known beginning of its name; 0 if unknown."""
    name = text.lower()
    if name.isdigit():
        return int(name)
    known = [beginning for beginning in months() if name.startswith(beginning)]
    return months()[max(known, key=len)] if known else 0


def _lengths(field: Any) -> IntArray:
    import pyarrow.compute as pc

    lengths: IntArray = as_numpy(pc.utf8_length(field), 0)
    return lengths


def _is_number(field: Any) -> bool:
    import pyarrow.compute as pc

    words = pc.match_substring_regex(field, r"[^\d]")
    return not bool(pc.any(words).as_py())


def _clock_seconds(fields: dict[str, Any]) -> IntArray:
    """Seconds since midnight; 12 AM is 0, 24:00 is a whole day."""
    import pyarrow.compute as pc

    hour = _numbers(fields["h"])
    if _lengths(fields["p"]).any():
        half = pc.utf8_lower(fields["p"])
        after = as_numpy(pc.starts_with(half, "p"), False)
        hour = np.where(_lengths(half) > 0, hour % 12 + 12 * after, hour)
    return hour * SECONDS_PER_HOUR + _numbers(fields["m"]) * 60 + _numbers(fields["s"])


def _fractions(field: Any) -> IntArray:
    """Fractions of a second, in nanoseconds."""
    import pyarrow.compute as pc

    return _numbers(pc.utf8_rpad(field, 9, "0"))


def _offsets(field: Any, good: BoolArray) -> tuple[IntArray, BoolArray]:
    """Minutes ahead of UTC, and where the text gives them."""
    minutes = of_distinct(field, _offset, np.nan).astype(np.float64)
    aware = np.isfinite(minutes) & good
    return np.nan_to_num(minutes).astype(np.int64), aware


def _offset(text: str) -> float:
    if text in load_words()["zones"]:
        return int(load_words()["zones"][text])
    match = re.fullmatch(r"(?:UTC|GMT)?([-+])(\d{1,2}):?(\d{2})?", text)
    if match is None:
        return np.nan
    minutes = int(match[2]) * 60 + int(match[3] or 0)
    return -minutes if match[1] == "-" else minutes


def _plain(column: Any) -> Any:
    """Text with ordinary blanks."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.replace_substring_regex(one_array(column).cast(pa.string()), "[\u00a0\u202f]", " ")


def one_array(column: Any) -> Any:
    """An Arrow column without chunks."""
    import pyarrow as pa

    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.nulls(0, column.type)
    return whole


def as_numpy(column: Any, missing: Any = None) -> Any:
    """An Arrow column of numbers or flags as an array, with `missing` for nulls.

    `to_numpy`, and every function of pyarrow that takes a Python number or text, imports pandas.
    """
    import pyarrow as pa

    whole = one_array(column)
    flags = pa.types.is_boolean(whole.type)
    if flags:
        whole = whole.cast(pa.uint8())
    if whole.null_count:
        cells = np.frombuffer(whole.buffers()[1], whole.type.to_pandas_dtype())
        own = cells[whole.offset : whole.offset + len(whole)]
        found = np.where(_valid(whole), own, missing)
    else:
        found = np.from_dlpack(whole)
    return found.astype(np.bool_) if flags else found


def arrow_array(values: Any, missing: BoolArray | None = None) -> Any:
    """Numbers, times or texts as an Arrow column; NaN and None are missing.

    `pyarrow.array` imports pandas, which takes longer than a small file.
    """
    import pyarrow as pa

    buffers: list[Any]
    if isinstance(values, np.ndarray):
        kind, buffers = pa.from_numpy_dtype(values.dtype), [np.ascontiguousarray(values)]
        if missing is None and values.dtype.kind == "f":
            missing = np.isnan(values)
    else:
        cells = [b"" if cell is None else cell.encode(errors="replace") for cell in values]
        ends = np.cumsum([0, *map(len, cells)], dtype=np.int64).astype(np.int32)
        kind, buffers = pa.string(), [ends, b"".join(cells)]
        missing = np.array([cell is None for cell in values], dtype=np.bool_)
    valid = None
    if missing is not None and missing.any():
        valid = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [valid, *map(pa.py_buffer, buffers)])


def of_distinct(column: Any, find: Callable[[str], Any], missing: Any) -> Any:
    """What `find` returns for every text of a column, asked once for each different text."""
    import pyarrow.compute as pc

    coded = one_array(pc.dictionary_encode(one_array(column)))
    table = [find(text) for text in coded.dictionary.to_pylist()]
    return np.array([*table, missing])[as_numpy(coded.indices, -1)]


def _valid(column: Any) -> BoolArray:
    valid: BoolArray = as_numpy(column.is_valid())
    return valid


def _first(column: Any) -> object:
    return next((value.as_py() for value in column if value.is_valid), None)


def _check_span(ticks: Any, good: BoolArray, path: Path, per_second: int = 1) -> None:
    """Refuse times outside 1970 … 2200, in `ticks` of which a second has `per_second`."""
    outside = good & ((ticks < 0) | (ticks >= LATEST * per_second))
    if outside.any():
        row = int(np.argmax(outside))
        raise DataError(f"{path} has a time outside 1970 … 2200 in row {row}.")


def _unreadable(path: Path, value: object, row: int | None = None) -> DataError:
    where = "" if row is None else f" (row {row})"
    return DataError(
        f"{path} has times that cannot be read, such as {str(value)[:60]!r}{where}; "
        "write them as 2024-01-31T13:30:00Z or as unix seconds, and delete what is no reading."
    )


def _second_visits(local: IntArray, twice: BoolArray) -> BoolArray:
    """True at ambiguous times of the second pass, in the order of time."""
    second = np.zeros(local.size, dtype=np.bool_)
    rows = np.flatnonzero(twice)
    descending = local.size > 1 and local[-1] < local[0]
    # In rows of a random order only a repeated time shows the second pass.
    back = float((np.diff(local) < 0).mean()) if rows.size else 0.0
    mixed = MANY_BACK < back < 1 - MANY_BACK
    seen: set[int] = set()
    last, turned = -SECONDS_PER_DAY * SECOND, False
    for row in rows[::-1] if descending else rows:
        value = int(local[row])
        turned = abs(value - last) < SECONDS_PER_DAY * SECOND and (turned or value < last)
        second[row] = value in seen or (turned and not mixed)
        seen.add(value)
        last = value
    return second
