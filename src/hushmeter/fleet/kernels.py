"""Compiled loops over the rows of a file: to which block a row belongs, and what is wrong with it.

A block is a (meter, period). Its facts are in parallel arrays, and a hash table with open
addressing finds its number. A slot is a place on the grid of times. One bit per slot records which
times have occurred, so that a duplicate is found in any order of the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

FINE, DUPLICATE, OFF_GRID, WRONG_INTERVAL, NO_TIME, NO_METER = 0, 1, 2, 3, 4, 5

_HASH = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xFF51AFD7ED558CCD)
_HALF = np.uint64(32)


@njit(cache=True, inline="always")
def _place(meter: Any, period: Any, mask: Any) -> Any:
    """Return the first cell of the table to look at."""
    key = (np.uint64(np.int64(meter)) << _HALF) ^ np.uint64(np.int64(period) & 0xFFFFFFFF)
    key *= _HASH
    key ^= key >> _HALF
    key *= _MIX
    return np.int64(key >> _HALF) & mask


@njit(cache=True)
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


@njit(cache=True)
def rebuild(table: Any, meters: Any, periods: Any, count: int) -> None:
    """Enter all known blocks into an empty table."""
    for block in range(count):
        table[find_block(meters[block], periods[block], table, meters, periods)] = block


@njit(cache=True)
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


@njit(cache=True)
def all_alike(start: int, end: int, intervals: Any, step_s: int) -> bool:
    """Return whether rows have the correct interval."""
    odd = 0
    for i in range(start, end):
        odd += 1 if intervals[i] != step_s else 0
    return odd == 0


@njit(cache=True)
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


@njit(cache=True)
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
    """Enter rows into their blocks.

    Consecutive rows of one meter at even steps are checked together. If one of them has a
    problem, the rows of that stretch are checked one by one. Neither a value nor its unit is
    looked at: which rows are released is public.

    Units: `columns` [s].
    """
    codes, times, intervals = columns
    period_of_day, starts, ends = calendar
    day, step, step_s = scales
    table, meters, periods, problems, rows, ticks, counts, bits = blocks
    words = bits.size // meters.size
    i = start
    # Rows before `singly` are checked one by one.
    singly = start
    while i < codes.size:
        t = times[i]
        meter = meter_map[codes[i]] if codes[i] >= 0 else np.int64(-1)
        period, low, high = np.int64(-1), np.int64(0), np.int64(0)
        if t >= 0 and t < period_of_day.size * day:
            period = np.int64(period_of_day[t // day])
            low, high = starts[period] * day, ends[period] * day
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


@njit(cache=True)
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


@njit(cache=True)
def number_by_first_use(codes: Any, numbers: Any) -> int:
    """Number codes in the order of their first use; `numbers` must be −1 everywhere at first."""
    count = 0
    for i in range(codes.size):
        if codes[i] >= 0 and numbers[codes[i]] < 0:
            numbers[codes[i]] = count
            count += 1
    return count


@njit(cache=True)
def mark_kept(
    columns: Any, meter_map: Any, calendar: Any, day: int, blocks: Any, dropped: Any, keep: Any
) -> int:
    """Set keep[i] if the block of row i is not dropped, and return how many rows are kept."""
    codes, times = columns
    period_of_day, starts, ends = calendar
    table, meters, periods = blocks
    last_meter, low, high, keeps, kept = np.int64(-2), np.int64(1), np.int64(0), False, 0
    for i in range(codes.size):
        code, t = codes[i], times[i]
        meter = meter_map[code] if code >= 0 else np.int64(-1)
        if meter != last_meter or t < low or t >= high:
            period, low, high = np.int64(-1), np.int64(1), np.int64(0)
            if t >= 0 and t < period_of_day.size * day:
                period = np.int64(period_of_day[t // day])
                low, high = starts[period] * day, ends[period] * day
            block = table[find_block(meter, period, table, meters, periods)]
            keeps = block >= 0 and not dropped[block]
            last_meter = meter
        keep[i] = keeps
        kept += 1 if keeps else 0
    return kept


@njit(cache=True)
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
