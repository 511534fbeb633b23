"""Times as files write them, as nanoseconds since 1970 in UTC.

One pattern covers ISO 8601, dates with the day or the month first, clocks with points, AM and PM,
24:00, month names and offsets. The order of day and month is decided for a whole column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.clock import SECOND, is_utc, times_shown, utc_times
from hushmeter.errors import DataError
from hushmeter.read.cells import Cells
from hushmeter.read.headers import load_words, months, weekday
from hushmeter.trace import SECONDS_PER_DAY, SECONDS_PER_HOUR, TimeArray

LATEST = 7_258_118_400  # 2200-01-01, in unix seconds
REMARK = re.compile(r"\s*\([^)]*\)\s*$", re.ASCII)  # What a browser writes behind an offset
CLOCK = (
    r"(?P<h>\d{1,2})(?:[:.h](?P<m>\d{2})(?:[:.](?P<s>\d{2})(?:[.,](?P<f>\d{1,9}))?)?)?"
    r"\s*(?P<p>[AaPp]\.?[Mm]\.?)?"
)
ZONE = r"\s*(?P<z>Z|(?:UTC|GMT)?[-+]\d{1,2}(?::?\d{2})?|[A-Z]{3,4})?"
DATE_FIRST = re.compile(
    r"^\s*(?P<a>\d{1,4})[-/. 年]+(?P<b>\d{1,2}|[^\d\s.,/-]{3,10})[-/. 月]+(?P<c>\d{1,4})[.日]?"
    r"(?:(?:T|\s+|,\s*)" + CLOCK + r")?" + ZONE + r"\s*$",
    re.ASCII,
)
MONTH_FIRST = re.compile(
    r"^\s*(?P<b>[^\d\s.,/-]{3,10})\.?[\s-]+(?P<a>\d{1,2}),?[\s-]+(?P<c>\d{4})"
    r"(?:(?:T|\s+|,\s*)" + CLOCK + r")?" + ZONE + r"\s*$",
    re.ASCII,
)
# A dash between a date and its clock: 13/6/2023-14:00 has no offset.
DASHED = re.compile(
    r"^\s*(?P<a>\d{1,2})[-/.](?P<b>\d{1,2})[-/.](?P<c>\d{4})-" + CLOCK + r"(?P<z>Z)?\s*$", re.ASCII
)
CLOCK_ALONE = re.compile(r"^\s*" + CLOCK + r"\s*$", re.ASCII)
DATE_WITH_POINTS = re.compile(r"\d\.\d+\.\d", re.ASCII)  # 29.10.22 is a date and no clock.
AS_ZEROS = str.maketrans("123456789\u00a0\u202f", "000000000  ")
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
    column: Cells, path: Path, tz: str | None = None, day_first: bool | None = None
) -> Stamps:
    """Read a column of times; `day_first` is the order of dates that other columns show."""
    if column.kind == "M":
        good, unit = column.good, np.datetime_data(column.values.dtype)[0]
        ticks = np.where(good, column.values.astype(np.int64), 0)
        if unit == "D":
            _check_span(ticks * SECONDS_PER_DAY, good, path)
            return Stamps(ticks * SECONDS_PER_DAY * SECOND, good, False, True)
        per_second = TICKS[unit]
        _check_span(ticks, good, path, per_second)
        ns = ticks * (SECOND // per_second)
        return Stamps(ns, good, column.aware, _are_midnights(ns, good, aware=column.aware))
    if column.kind in "iuf":
        return _of_numbers(column, path)
    if column.is_text:
        return _of_text(column, path, tz, day_first)
    raise _unreadable(path, _first(column))


def _are_midnights(ns: IntArray, good: BoolArray, *, aware: bool) -> bool:
    """True if times without a zone are all at midnight; the first ones show it mostly."""
    if aware or not good.any():
        return False
    day = SECONDS_PER_DAY * SECOND
    return not (ns[:100][good[:100]] % day).any() and not (ns[good] % day).any()


def read_clock(column: Cells) -> tuple[IntArray, BoolArray] | None:
    """Seconds since midnight of a column of clock times, and where it has one; None if no clock.

    24:00 is the end of the day. Numbers are not understood here; see `number_of_day`.
    """
    if column.kind == "m":
        ticks = column.values.astype("m8[s]").astype(np.int64)
        return np.where(column.good, ticks, 0), column.good
    if not column.is_text:
        return None
    shaped = _Shaped(column.values.tolist())
    fields = shaped.fields(CLOCK_ALONE)
    seconds = _clock_seconds(fields)
    dates = shaped.spread([DATE_WITH_POINTS.search(shape) is not None for shape in shaped.shapes])
    good = fields.good & (seconds <= SECONDS_PER_DAY) & ~dates
    there = column.good
    if not there.any() or good.sum() < 0.9 * there.sum() or not fields.lengths("m").any():
        return None
    return seconds, good


def split_range(column: Cells) -> tuple[Cells, Cells] | None:
    """The two ends of a column of ranges, such as "00:00-00:15"; None if it has none."""
    if not column.is_text:
        return None
    first = _first(column)
    if not isinstance(first, str) or RANGE.fullmatch(first) is None or DASHED.match(first):
        return None
    matches = [RANGE.fullmatch(text) if text else None for text in column.values.tolist()]
    found = [m for m in matches if m is not None]
    if len({m[2] for m in found}) <= 2 and all(OFFSET.search(m[0]) for m in found):
        # 2024-01-01T00:00:00-04:00 is a time with its offset, which hardly changes.
        return None
    starts = [None if m is None else m[1].strip() for m in matches]
    return Cells.of(starts), Cells.of([None if m is None else m[2].strip() for m in matches])


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


def _of_numbers(column: Cells, path: Path) -> Stamps:
    numbers = column.floats()
    good = column.good & np.isfinite(numbers)
    values: FloatArray = numbers[good]
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


def find_order(columns: Sequence[Cells]) -> bool | None:
    """True if dates of several columns have the day first, False for the month; None if unclear.

    A date such as 1/28/2024 shows the order of all dates of its table.
    """
    shown = 0
    for column in columns:
        fields = _match(column) if column.is_text else None
        if fields is not None:
            a, b = fields.numbers("a"), fields.numbers("b")
            shown += int(_are_days(b, a).sum()) - int(_are_days(a, b).sum())
    return shown > 0 if shown else None


class _Shaped:
    """Texts by their shapes: a text with its digits as zeros and ordinary blanks.

    Whether and where a pattern of dates fits a text follows from its shape. So it is tried once for
    each shape, and the digits of all texts of one shape are read together.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        known: dict[str, int] = {}
        self.texts = texts
        self.codes = np.array([known.setdefault(text.translate(AS_ZEROS), len(known))
                               for text in texts], dtype=np.int64)  # fmt: skip
        self.shapes = list(known)
        cuts = np.cumsum(np.bincount(self.codes, minlength=len(known)))[:-1]
        self.rows = np.split(np.argsort(self.codes, kind="stable"), cuts)

    def spread(self, found: Sequence[Any]) -> Any:
        """What was found for each shape, for every text."""
        return np.array(found or [0])[self.codes]

    def fields(self, pattern: re.Pattern[str], cut: Callable[[str], str] | None = None) -> _Fields:
        """The parts by a pattern, of which `cut` may leave out what is before and behind."""
        plain = self.shapes if cut is None else [cut(shape) for shape in self.shapes]
        return _Fields(self, plain, [pattern.match(shape) for shape in plain])

    @cached_property
    def characters(self) -> list[NDArray[np.uint32]]:
        """The characters of all texts of each shape, shape (texts, characters)."""
        found = []
        for shape, rows in zip(self.shapes, self.rows, strict=True):
            own = np.array(
                [self.texts[row] for row in rows.tolist()], dtype=f"U{max(len(shape), 1)}"
            )
            found.append(own.view(np.uint32).reshape(rows.size, -1))
        return found


@dataclass
class _Fields:
    """The parts of texts by a pattern."""

    shaped: _Shaped
    plain: Sequence[str]  # The shapes without what was left out
    matches: Sequence[re.Match[str] | None]  # One for each shape

    @cached_property
    def good(self) -> BoolArray:
        """True for the texts that the pattern fits."""
        good: BoolArray = self.shaped.spread([match is not None for match in self.matches])
        return good.astype(np.bool_)

    def _parts(self, name: str) -> list[str]:
        """A part of each shape; empty where it is absent."""
        return [(match.groupdict().get(name) if match else "") or "" for match in self.matches]

    def lengths(self, name: str) -> IntArray:
        """The length of a part of every text."""
        lengths: IntArray = self.shaped.spread([len(part) for part in self._parts(name)])
        return lengths

    def numbers(self, name: str, width: int = 0) -> IntArray:
        """The digits of a part as a number, filled with zeros up to a width; 0 if it has others."""
        values = np.zeros(len(self.shaped.texts), dtype=np.int64)
        for i, (part, match) in enumerate(zip(self._parts(name), self.matches, strict=True)):
            if part and match is not None and not part.strip("0"):
                first = self._start(i) + match.start(name)
                powers = 10 ** np.arange(max(width, len(part)))[::-1][: len(part)]
                own = self.shaped.characters[i][:, first : first + len(part)]
                values[self.shaped.rows[i]] = (own.astype(np.int64) - ord("0")) @ powers
        return values

    def each(self, name: str, find: Callable[[str], Any], missing: Any) -> Any:
        """What `find` returns for a part of every text; it is asked once for each different one."""
        found = np.full(len(self.shaped.texts), missing)
        for i, (part, match) in enumerate(zip(self._parts(name), self.matches, strict=True)):
            if not part or match is None:
                continue
            rows = self.shaped.rows[i]
            if "0" not in part:
                found[rows] = find(part)
                continue
            first = self._start(i) + match.start(name)
            own = [self.shaped.texts[row][first : first + len(part)] for row in rows.tolist()]
            known = {text: find(text) for text in set(own)}
            found[rows] = [known[text] for text in own]
        return found

    def is_number(self, name: str) -> bool:
        """True if no part has a character that is no digit."""
        return not any(part.strip("0") for part in self._parts(name))

    def _start(self, shape: int) -> int:
        """The length of what was left out before a shape."""
        return self.shaped.shapes[shape].index(self.plain[shape])

    def example(self, row: int) -> str:
        """A text without what was left out."""
        shape = self.shaped.codes[row]
        first = self._start(shape)
        text = self.shaped.texts[row].replace("\u00a0", " ").replace("\u202f", " ")
        return text[first : first + len(self.plain[shape])]


def _match(column: Cells) -> _Fields | None:
    """The parts of the times of a text column by the first pattern that fits."""
    shaped = _Shaped(column.values.tolist())
    day = re.compile("^" + weekday(), re.ASCII)

    def bare(shape: str) -> str:
        return REMARK.sub("", shape)

    def dated(shape: str) -> str:
        return day.sub("", bare(shape))

    tries = (
        (DASHED, None), (DATE_FIRST, None), (MONTH_FIRST, bare), (DATE_FIRST, dated),
        (MONTH_FIRST, dated),
    )  # fmt: skip
    found = (shaped.fields(pattern, cut) for pattern, cut in tries)
    return next((fields for fields in found if any(fields.matches)), None)


def _of_text(column: Cells, path: Path, tz: str | None, day_first: bool | None) -> Stamps:
    """Text as times: the pattern of the whole column, the order of day and month for all rows."""
    fields = _match(column)
    if fields is None:
        raise _unreadable(path, _first(column))
    there = column.good
    # A year has more than one digit: 1.8.0 is the number of a register.
    good = fields.good & ((fields.lengths("a") > 1) | (fields.lengths("c") > 1))
    if not good.any():
        raise _unreadable(path, _first(column))
    months: IntArray = fields.each("b", _month, 0)
    a, c = fields.numbers("a"), fields.numbers("c")
    own = int((good & _are_days(months, a)).sum()) - int((good & _are_days(a, months)).sum())
    order = day_first if own == 0 else own > 0
    days, good, remark = _civil(a, months, c, good, fields, order, tz)
    clock = _clock_seconds(fields)
    offsets, aware = _offsets(fields, good)
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
        raise _unreadable(path, column[row], row)
    ns = seconds * SECOND + fields.numbers("f", 9)
    midnight = not fields.lengths("h").any()
    written = np.where(good, ns + offsets * 60 * SECOND, 0)
    return Stamps(np.where(good, ns, 0), good, bool(aware.any()), midnight, remark, written)


def _civil(
    a: IntArray,
    months: IntArray,
    c: IntArray,
    good: BoolArray,
    fields: _Fields,
    shown: bool | None,
    tz: str | None,
) -> tuple[IntArray, BoolArray, str]:
    """Days since 1970, where they are valid, and a remark if the order had to be decided."""
    year_first = bool(((fields.lengths("a") == 4) | ~good).all())
    if year_first:
        valid = good & _are_days(months, c)
        return _days(a, months, c), valid, ""
    year = np.where(c < 100, np.where(c < 70, 2000 + c, 1900 + c), c)
    day_first = good & _are_days(months, a)
    month_first = good & _are_days(a, months)
    remark = ""
    if not fields.is_number("b"):
        use_day = True
    elif shown is not None:
        use_day = shown
    else:
        use_day = _prefers_day(year, months, a, good, tz, fields)
        order = "day" if use_day else "month"
        text = fields.example(int(np.argmax(good)))
        remark = f"; dates are read {order} first, though {text} fits both"
    if use_day:
        return _days(year, months, a), day_first, remark
    return _days(year, a, months), month_first, remark


def _prefers_day(
    year: IntArray, b: IntArray, a: IntArray, good: BoolArray, tz: str | None, fields: _Fields
) -> bool:
    """Day first, unless the other order has shorter pauses or the custom of the place is other."""
    pauses = []
    for month, day in ((b, a), (a, b)):
        days = np.unique(_days(year, month, day)[good])
        pauses.append(int(np.diff(days).max(initial=0)))
    if pauses[0] != pauses[1]:
        return pauses[0] < pauses[1]
    if "." in fields.example(int(np.argmax(good)))[:6]:
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


def _month(text: str) -> int:
    """A number, or that of a month by the longest known beginning of its name; 0 if unknown."""
    name = text.lower()
    if name.isdigit():
        return int(name)
    known = [beginning for beginning in months() if name.startswith(beginning)]
    return months()[max(known, key=len)] if known else 0


def _clock_seconds(fields: _Fields) -> IntArray:
    """Seconds since midnight; 12 AM is 0, 24:00 is a whole day."""
    hour = fields.numbers("h")
    halves = fields.lengths("p") > 0
    if halves.any():
        after = fields.each("p", lambda half: half[0] in "pP", False)
        hour = np.where(halves, hour % 12 + 12 * after, hour)
    return hour * SECONDS_PER_HOUR + fields.numbers("m") * 60 + fields.numbers("s")


def _offsets(fields: _Fields, good: BoolArray) -> tuple[IntArray, BoolArray]:
    """Minutes ahead of UTC, and where the text gives them."""
    minutes = fields.each("z", _offset, np.nan)
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


def _first(column: Cells) -> object:
    return next(iter(column.known().tolist()), None)


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
