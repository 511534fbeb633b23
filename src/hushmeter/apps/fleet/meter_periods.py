"""The meters and periods of a file: to which block a row belongs, and what is wrong with it.

A block is a (meter, period). The blocks of a file are collected and checked in bounded memory by
compiled loops over its rows. The facts of the blocks are in parallel arrays, and a hash table with
open addressing finds the number of a block. A slot is a place on the grid of times. One bit per
slot records which times have occurred, so that a duplicate is found in any order of the rows.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hushmeter.apps.fleet.input_files import TICKS
from hushmeter.apps.fleet.job import Columns
from hushmeter.apps.ledger.spending import is_name
from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.clock import day_bounds
from hushmeter.compiled import compiled
from hushmeter.errors import DataError
from hushmeter.trace import SECONDS_PER_DAY, UNITS, TimeArray, watts_per

if TYPE_CHECKING:
    import pyarrow as pa

MAX_BLOCKS = 1 << 18
"""Most blocks of one file."""

MAX_SLOT_BYTES = 1 << 26
"""Most memory for the bits that record which times occurred: 64 MiB for 5·10⁸ readings."""

LAST_DAY = "2200-01-01"
"""First day that is too late."""

FINE, DUPLICATE, OFF_GRID, WRONG_INTERVAL, NO_TIME, NO_METER = 0, 1, 2, 3, 4, 5

_HASH = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xFF51AFD7ED558CCD)
_HALF = np.uint64(32)

Calendar = tuple[NDArray[np.int32], IntArray]
"""The period in which every UTC day since 1970 begins, and when every period begins [UTC s]."""


@dataclass(frozen=True, slots=True)
class Problem:
    """The reason why rows were left out; it follows from names and times, never from a value."""

    # The block; empty if the problem concerns a whole file, or if the row has no meter or time
    meter: str
    period: str
    row: int | None  # Number of the first row with the problem
    time: str  # Time of that row, UTC
    sentence: str  # The problem in one sentence

    @property
    def of_whole_file(self) -> bool:
        """True if nothing of the file can be used."""
        return not (self.meter or self.period) and self.row is None


@dataclass(frozen=True, slots=True)
class OddCells:
    """Cells of one block that hold no number of a known unit; they count as 0 W and are private."""

    # The block; empty where the row has no meter or time
    meter: str
    period: str
    row: int  # Number of the first row with such a cell
    cells: int  # Number of such cells


@dataclass(frozen=True)
class RowArrays:
    """The columns of a record batch as the arrays that the kernels take."""

    codes: NDArray[np.int32]  # Code of the meter of every row; −1 where it is missing
    meter_map: IntArray  # Number of the meter of every code within the file
    times: IntArray  # Times [ticks]; −1 where missing
    intervals: IntArray  # Lengths of the readings [s]; −1 where missing


@dataclass(frozen=True)
class Readings:
    """The values of a record batch and their units, which is all that the noise needs."""

    values: FloatArray  # Values; NaN where missing
    unit_codes: NDArray[np.int32]  # Code of the unit of every row; −1 where it is missing
    factors: FloatArray  # Watts per unit for every code; NaN for an unknown unit

    @property
    def odd(self) -> BoolArray:
        """True where a cell holds no finite number, or has no known unit."""
        found: BoolArray = np.empty(self.values.size, np.bool_)
        mark_odd(self.values, self.unit_codes, self.factors, found)
        return found

    def watts(self, clamp: tuple[float, float]) -> FloatArray:
        """Return the values as clamped power [W]; an odd cell counts as 0 W before the clamp."""
        found = np.empty(self.values.size)
        to_watts(self.values, self.unit_codes, self.factors, *clamp, found)
        return found


@lru_cache(maxsize=4)
def calendar_of(period: str, zone: str) -> Calendar:
    """Return the civil days or months of a zone from 1970 on; the last one only ends them."""
    starts = day_bounds(_first_days(period), zone)[0].astype(np.int64)
    days = SECONDS_PER_DAY * np.arange(0, starts[-1] // SECONDS_PER_DAY)
    return (np.searchsorted(starts, days, side="right") - 1).astype(np.int32), starts


def _first_days(period: str) -> TimeArray:
    """Return the first days of all periods, from before 1970 to the first that is too late."""
    days = np.arange(np.datetime64("1969-12-01"), np.datetime64(LAST_DAY) + 1)
    if period == "month":
        return np.unique(days.astype("datetime64[M]")).astype("datetime64[D]")
    return days


@lru_cache(maxsize=2)
def labels_of(period: str) -> list[str]:
    """Return the names of all periods, such as 2024-03-01 or 2024-03."""
    first = _first_days(period)
    texts: list[str] = np.datetime_as_string(first, "M" if period == "month" else "D").tolist()
    return texts


class Blocks:
    """Every block of one file and its problem, if it has one."""

    def __init__(
        self, columns: Columns, period: str, zone: str, interval_s: int, unit: str
    ) -> None:
        import pyarrow as pa

        self.columns, self.period, self.interval_s = columns, period, interval_s
        self.ticks = TICKS[unit]
        of_day, starts = calendar_of(period, zone)
        self._calendar = (of_day, starts * self.ticks)
        longest = int(np.diff(starts).max())
        slots = -(-longest // interval_s)
        self._words = -(-slots // 64)
        self._most = max(1, min(MAX_BLOCKS, MAX_SLOT_BYTES // (8 * self._words)))
        self._names = pa.array([], pa.string())
        self._whole_numbers = False
        self.count = 0
        self.rows = 0
        self._meters_rise = True
        self._last = np.array([0, -1], np.int64)
        self._odd: dict[tuple[int, int], tuple[int, int]] = {}
        self._facts: tuple[Any, ...] = ()
        self._bits: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._allocate(min(1024, self._most))

    def _allocate(self, room: int) -> None:
        """Make room for more blocks and keep those that are known."""
        kinds = (np.int64, np.int64, np.int8, np.int64, np.int64, np.int64)
        facts = tuple(np.zeros(room, kind) for kind in kinds)
        for new, known in zip(facts, self._facts, strict=False):
            new[: self.count] = known[: self.count]
        bits = np.zeros(room * self._words, np.uint64)
        used = self.count * self._words
        bits[:used] = self._bits[:used]
        self._facts, self._bits = facts, bits
        self._table = np.full(1 << (2 * room - 1).bit_length(), -1, np.int64)
        rebuild(self._table, self._facts[0], self._facts[1], self.count)

    def arrays(self, record: pa.RecordBatch) -> RowArrays:
        """Return the columns of a record batch as arrays, with meters numbered within the file."""
        import pyarrow as pa

        names = self.columns
        codes, meters = dictionary_codes(record.column(names.meter))
        self._whole_numbers = pa.types.is_integer(meters.type)
        return RowArrays(
            codes=codes,
            meter_map=self._number(meters),
            times=_filled(record.column(names.time), -1),
            intervals=_filled(record.column(names.interval), -1),
        )

    def add(self, part: RowArrays, odd: BoolArray | None = None) -> None:
        """Check the next rows of the file."""
        columns = (part.codes, part.times, part.intervals)
        step = self.interval_s * self.ticks
        scales = (SECONDS_PER_DAY * self.ticks, step, self.interval_s)
        row = 0
        while True:
            cursor = np.array([self.count, self._facts[0].size])
            row = check_rows(
                row,
                self.rows,
                columns,
                part.meter_map,
                self._calendar,
                scales,
                (self._table, *self._facts, self._bits),
                cursor,
            )
            self.count = int(cursor[0])
            if row == part.codes.size:
                break
            if self.count >= self._most:
                raise DataError(
                    f"has more than {self._most} blocks of a meter and a {self.period}; "
                    "split it into smaller files."
                )
            self._allocate(min(2 * self.count, self._most))
        if odd is not None and odd.any():
            self._count_odd(part, np.flatnonzero(odd))
        self.rows += part.codes.size
        if self._meters_rise:
            self._meters_rise = bool(
                rows_in_order(part.codes, part.meter_map, part.times, self._last)
            )

    @property
    def in_order(self) -> bool:
        """True if all rows are sorted by meter and time, and every row has a meter."""
        # Meters are numbered as they appear, so the names must rise with the numbers.
        names = self._sort_keys()
        return self._meters_rise and all(a < b for a, b in itertools.pairwise(names))

    def ranks(self, part: RowArrays) -> IntArray:
        """Return the place of the meter of each row among all sorted meters; −1 without a meter."""
        names = self._sort_keys()
        rank = np.full(len(names) + 1, -1, np.int64)
        rank[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
        # A missing meter has the code −1 and the number −1, which is the last cell.
        numbers = np.append(part.meter_map, -1)[part.codes]
        found: IntArray = rank[numbers]
        return found

    def _sort_keys(self) -> list[tuple[int, str]]:
        """Return a key for every meter by which meters are sorted: a whole number, or text."""
        names: list[str] = self._names.to_pylist()
        return [(int(name) if self._whole_numbers else 0, name) for name in names]

    @property
    def bad(self) -> BoolArray:
        """True for every block with a problem."""
        found: BoolArray = self._facts[2][: self.count] != FINE
        return found

    @property
    def row_counts(self) -> IntArray:
        """Number of rows of every block."""
        counts: IntArray = self._facts[5][: self.count]
        return counts

    def names(self, blocks: IntArray) -> tuple[list[str], list[str]]:
        """Return the meters and periods of some blocks as text; empty where missing."""
        return self._texts(self._facts[0][blocks], self._facts[1][blocks])

    def _texts(self, meters: IntArray, periods: IntArray) -> tuple[list[str], list[str]]:
        """Return numbers of meters and periods as text; empty where missing."""
        numbers, places = np.unique(meters, return_inverse=True)
        texts = ["" if n < 0 else self._names[n].as_py() for n in numbers.tolist()]
        labels = labels_of(self.period)
        named = [labels[p] if p >= 0 else "" for p in periods.tolist()]
        return [texts[m] for m in places.tolist()], named

    def _count_odd(self, part: RowArrays, rows: IntArray) -> None:
        """Count the odd cells of each block, and remember the first of them."""
        meters = np.append(part.meter_map, -1)[part.codes[rows]]
        starts, times = self._calendar[1], part.times[rows]
        known = (times >= 0) & (times < starts[-1])
        periods = np.where(known, np.searchsorted(starts, times, side="right") - 1, -1)
        pairs = np.stack([meters, periods], axis=1)
        found, first, counts = np.unique(pairs, axis=0, return_index=True, return_counts=True)
        lines = zip(found.tolist(), rows[first].tolist(), counts, strict=True)
        for (meter, period), row, count in lines:
            begun, before = self._odd.get((meter, period), (self.rows + row, 0))
            self._odd[meter, period] = (begun, before + int(count))

    @property
    def odd_count(self) -> int:
        """Number of cells that hold no number of a known unit."""
        return sum(count for _, count in self._odd.values())

    def odd_cells(self) -> list[OddCells]:
        """Return the odd cells of every block, in order of their rows."""
        found = sorted(self._odd.items(), key=lambda item: item[1])
        pairs = np.array([block for block, _ in found], np.int64).reshape(-1, 2)
        meters, periods = self._texts(pairs[:, 0], pairs[:, 1])
        return [
            OddCells(meter, period, *cells)
            for meter, period, (_, cells) in zip(meters, periods, found, strict=True)
        ]

    def meter(self, number: int) -> str:
        """Return the name of a meter of the file."""
        return str(self._names[number])

    def problems(self) -> list[Problem]:
        """Return the first problem of every bad block, in order of their rows."""
        found = np.flatnonzero(self.bad)
        _, _, codes, rows, ticks, _ = self._facts
        found = found[np.argsort(rows[found], kind="stable")]
        meters, periods = self.names(found)
        out = []
        for block, meter, period in zip(found.tolist(), meters, periods, strict=True):
            sentence = _SENTENCES[int(codes[block])].format(interval=self.interval_s)
            time = self._time(int(ticks[block])) if period else ""
            out.append(Problem(meter, period, int(rows[block]), time, sentence))
        return out

    def kept_rows(self, part: RowArrays, dropped: BoolArray) -> tuple[BoolArray, int]:
        """Find the rows that belong to no dropped block."""
        mask: BoolArray = np.empty(part.codes.size, np.bool_)
        kept = mark_kept(
            (part.codes, part.times),
            part.meter_map,
            self._calendar,
            SECONDS_PER_DAY * self.ticks,
            (self._table, *self._facts[:2]),
            dropped,
            mask,
        )
        return mask, int(kept)

    def readings(self, record: pa.RecordBatch) -> Readings:
        """Return the values of a record batch with the factors that convert them to watts."""
        codes, units = dictionary_codes(record.column(self.columns.unit))
        factors = [
            watts_per(unit, self.interval_s) if unit in UNITS else np.nan
            for unit in units.to_pylist()
        ]
        values = _filled(record.column(self.columns.value), np.nan)
        return Readings(values, codes, np.array(factors, np.float64))

    def _number(self, meters: pa.Array) -> IntArray:
        """Return the numbers of meters within the file; new meters are appended."""
        import pyarrow as pa
        from pyarrow import compute

        names = meters.cast(pa.string())
        fresh = names.filter(compute.invert(compute.is_in(names, value_set=self._names)))
        usable = list(filter(is_name, fresh.unique().to_pylist()))
        if usable:
            self._names = pa.concat_arrays([self._names, pa.array(usable, pa.string())])
        # An id that the ledger cannot store is not found here and counts as missing.
        places = compute.index_in(names, value_set=self._names).fill_null(-1)
        numbers: IntArray = places.to_numpy().astype(np.int64)
        return numbers

    def _time(self, ticks: int) -> str:
        """Return a time as text, UTC."""
        stamp = np.datetime64(ticks * (10**9 // self.ticks), "ns")
        text = str(np.datetime_as_string(stamp, unit="ns"))
        return text.rstrip("0").removesuffix(".") + "Z"


_SENTENCES = {
    DUPLICATE: "the meter has this time twice.",
    OFF_GRID: "the time is not a whole number of intervals of {interval} s after midnight.",
    WRONG_INTERVAL: "the interval is not the {interval} s of this release.",
    NO_TIME: "the time is missing or outside 1970 to 2199.",
    NO_METER: "the meter's id is missing, too long or not printable.",
}


def dictionary_codes(column: pa.Array) -> tuple[NDArray[np.int32], pa.Array]:
    """Return the codes of a column, −1 where it is null, and the value of every code."""
    import pyarrow as pa

    if isinstance(column, pa.DictionaryArray) and column.dictionary.null_count:
        column = column.dictionary_decode()
    if not isinstance(column, pa.DictionaryArray):
        column = column.dictionary_encode()
    codes = column.indices.cast(pa.int32())
    if codes.null_count:
        codes = codes.fill_null(-1)
    return codes.to_numpy(), column.dictionary


def _filled(column: pa.Array, empty: float) -> Any:
    """Return a column as numbers of the kind of `empty`, which stands where it is null."""
    import pyarrow as pa

    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    whole = isinstance(empty, int)
    numbers = column.cast(pa.int64() if whole else pa.float64(), safe=whole)
    return (numbers.fill_null(empty) if numbers.null_count else numbers).to_numpy()


@compiled(cache=True, inline="always")
def _place(meter: Any, period: Any, mask: Any) -> Any:
    """Return the first cell of the table to look at."""
    key = (np.uint64(np.int64(meter)) << _HALF) ^ np.uint64(np.int64(period) & 0xFFFFFFFF)
    key *= _HASH
    key ^= key >> _HALF
    key *= _MIX
    return np.int64(key >> _HALF) & mask


@compiled(cache=True, inline="always")
def find_period(t: Any, calendar: Any, day: Any) -> Any:
    """Return the number of the period of a tick, and its first and last tick; −1 if none."""
    of_day, starts = calendar
    if t < 0 or t >= of_day.size * day:
        return np.int64(-1), np.int64(1), np.int64(0)
    period = np.int64(of_day[t // day])
    # A period begins within a UTC day, so that a few of them may begin before the tick.
    while starts[period + 1] <= t:
        period += 1
    return period, starts[period], starts[period + 1]


@compiled(cache=True)
def find_block(meter: Any, period: Any, table: Any, meters: Any, periods: Any) -> Any:
    """Return the cell of the table that holds a block, or the free cell where it belongs."""
    mask = table.size - 1
    cell = _place(meter, period, mask)
    while table[cell] >= 0:
        block = table[cell]
        if meters[block] == meter and periods[block] == period:
            break
        cell = (cell + 1) & mask
    return cell


@compiled(cache=True)
def rebuild(table: Any, meters: Any, periods: Any, count: int) -> None:
    """Enter all known blocks into an empty table."""
    for block in range(count):
        table[find_block(meters[block], periods[block], table, meters, periods)] = block


@compiled(cache=True)
def even_stretch(start: int, codes: Any, times: Any, step: int, end_tick: Any) -> int:
    """Return the end of the rows from `start` on with one meter and times one step apart.

    The rows end before the tick `end_tick`.
    """
    end = start + 1
    code, due = codes[start], times[start] + step
    while end < codes.size and codes[end] == code and times[end] == due and due < end_tick:
        due += step
        end += 1
    return end


@compiled(cache=True)
def all_alike(start: int, end: int, intervals: Any, step_s: int) -> bool:
    """Return whether rows have the correct interval."""
    odd = 0
    for i in range(start, end):
        odd += 1 if intervals[i] != step_s else 0
    return odd == 0


@compiled(cache=True)
def take_slots(bits: Any, first: int, slot: int, count: int) -> bool:
    """Mark a range of slots as seen; return False and mark nothing if one was seen before."""
    one, ones = np.uint64(1), ~np.uint64(0)
    head, tail = slot >> 6, (slot + count - 1) >> 6
    for phase in range(2):
        for word in range(head, tail + 1):
            mask = ones
            if word == head:
                mask &= ones << np.uint64(slot & 63)
            if word == tail:
                # The shift is done in two steps, because a shift by 64 is not defined.
                mask &= ~((ones << np.uint64((slot + count - 1) & 63)) << one)
            if phase == 0 and bits[first + word] & mask:
                return False
            if phase == 1:
                bits[first + word] |= mask
    return True


@compiled(cache=True)
def check_rows(
    start: int,
    first_row: int,
    columns: Any,
    meter_map: Any,
    calendar: Any,
    scales: Any,
    blocks: Any,
    cursor: Any,
) -> int:
    """Enter rows into their blocks and return the first row for which there is no room.

    Consecutive rows of one meter at even steps are checked together. If one of them has a
    problem, the rows of that stretch are checked one by one. Neither a value nor its unit is
    looked at: which rows are released is public.
    """
    codes, times, intervals = columns
    day, step, step_s = scales
    table, meters, periods, problems, rows, ticks, counts, bits = blocks
    words = bits.size // meters.size
    i = start
    # Rows before `singly` are checked one by one.
    singly = start
    while i < codes.size:
        t = times[i]
        meter = meter_map[codes[i]] if codes[i] >= 0 else np.int64(-1)
        period, low, high = find_period(t, calendar, day)
        cell = find_block(meter, period, table, meters, periods)
        if table[cell] < 0:
            if cursor[0] >= cursor[1]:
                return i
            table[cell] = cursor[0]
            meters[cursor[0]], periods[cursor[0]] = meter, period
            cursor[0] += 1
        block = table[cell]
        fault = FINE
        if meter < 0 or period < 0:
            fault = NO_METER if meter < 0 else NO_TIME
        elif (t - low) % step != 0:
            fault = OFF_GRID
        end = i + 1
        if fault == FINE:
            slot, first = (t - low) // step, block * words
            if i >= singly:
                end = even_stretch(i, codes, times, step, high)
                if not all_alike(i, end, intervals, step_s):
                    singly, end = end, i + 1
            if not take_slots(bits, first, slot, end - i):
                singly, end = max(singly, end), i + 1
                if not take_slots(bits, first, slot, 1):
                    fault = DUPLICATE
        if fault == FINE and intervals[i] != step_s:
            fault = WRONG_INTERVAL
        if fault != FINE and problems[block] == FINE:
            problems[block], rows[block], ticks[block] = fault, first_row + i, t
        counts[block] += end - i
        i = end
    return i


@compiled(cache=True)
def rows_in_order(codes: Any, meter_map: Any, times: Any, last: Any) -> bool:
    """Return whether meters never fall and the times of a meter rise.

    `last` holds the meter and the time of the row before, and is updated.
    """
    for i in range(codes.size):
        meter = meter_map[codes[i]] if codes[i] >= 0 else np.int64(-1)
        if meter < last[0] or (meter == last[0] and times[i] <= last[1]):
            return False
        last[0], last[1] = meter, times[i]
    return True


@compiled(cache=True)
def number_by_first_use(codes: Any, numbers: Any) -> int:
    """Number codes in the order of their first use; `numbers` must be −1 everywhere at first."""
    count = 0
    for i in range(codes.size):
        if codes[i] >= 0 and numbers[codes[i]] < 0:
            numbers[codes[i]] = count
            count += 1
    return count


@compiled(cache=True)
def mark_kept(
    columns: Any, meter_map: Any, calendar: Any, day: int, blocks: Any, dropped: Any, keep: Any
) -> int:
    """Set keep[i] if the block of row i is not dropped, and return how many rows are kept."""
    codes, times = columns
    table, meters, periods = blocks
    last_meter, low, high, keeps, kept = np.int64(-2), np.int64(1), np.int64(0), False, 0
    for i in range(codes.size):
        code, t = codes[i], times[i]
        meter = meter_map[code] if code >= 0 else np.int64(-1)
        if meter != last_meter or t < low or t >= high:
            period, low, high = find_period(t, calendar, day)
            block = table[find_block(meter, period, table, meters, periods)]
            keeps = block >= 0 and not dropped[block]
            last_meter = meter
        keep[i] = keeps
        kept += 1 if keeps else 0
    return kept


@compiled(cache=True)
def to_watts(values: Any, codes: Any, factors: Any, low: float, high: float, out: Any) -> None:
    """Convert values to clamped watts.

    A value that is not a finite number, or has no known unit, counts as 0 W before the clamp: no
    cell decides whether its row is released.
    """
    for i in range(out.size):
        watts = values[i] * factors[codes[i]] if codes[i] >= 0 else np.nan
        if watts != watts or values[i] - values[i] != 0.0:
            watts = 0.0
        out[i] = min(max(watts, low), high)


@compiled(cache=True)
def mark_odd(values: Any, codes: Any, factors: Any, out: Any) -> None:
    """Set out[i] if a value is not a finite number, or has no known unit."""
    for i in range(out.size):
        unknown = codes[i] < 0 or factors[codes[i]] != factors[codes[i]]
        out[i] = unknown or values[i] - values[i] != 0.0
