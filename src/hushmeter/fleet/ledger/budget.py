"""Whether a spend fits: periods, caps on the total and on every window of w periods (w-event).

A period is a UTC day or month. A meter's spends add up over periods and streams; a cap on the
total bounds their sum, a cap on windows bounds the sum over any w periods in a row, so that
whatever happens within w periods is protected at that ε. All amounts are whole micro-ε: spends
are rounded up, caps down.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import numpy as np

from hushmeter.errors import InputError
from hushmeter.noise.parameters import exact

MICRO = 1_000_000
LARGEST = 10**15
"""A spend or a cap above this many micro-ε is refused: sums must fit 64 bits."""

WIDEST = 36_600
"""Most periods of a window: a century of days."""

_CELLS = 1 << 22


@dataclass(frozen=True)
class Cap:
    """What meters may spend [micro-ε]; None does not bound.

    Attributes
    ----------
    total : int or None
        Over all periods.
    window : (int, int) or None
        w, and the most within any w periods in a row.
    """

    total: int | None = None
    window: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A row that may not be released, and why."""

    row: int
    meter: str
    period: str
    reason: str


@dataclass(frozen=True)
class Standing:
    """What a ledger knows about the meters of a batch before it is decided.

    Attributes
    ----------
    spent : mapping
        micro-ε of every meter so far; a meter without an entry has spent nothing.
    caps : mapping
        Cap of every meter of the batch that has one.
    near : mapping
        Of every meter under a window cap: micro-ε by the ordinal of the period.
    taken : mapping
        (meter, period) already released in this stream, and by what.
    """

    spent: Mapping[str, int]
    caps: Mapping[str, Cap] = field(default_factory=dict)
    near: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    taken: Mapping[tuple[str, str], str] = field(default_factory=dict)


def micro_epsilon(epsilon: Any) -> int:
    """⌈ε·10⁶⌉: what a spend of ε is charged."""
    return _within_reach("epsilon", math.ceil(exact("epsilon", epsilon) * MICRO))


def micro_cap(name: str, epsilon: Any) -> int:
    """⌊ε·10⁶⌋: a cap is never rounded up."""
    micro = math.floor(exact(name, epsilon) * MICRO)
    if micro < 1:
        raise InputError(f"{name} must be at least 0.000001, got {epsilon}.")
    return _within_reach(name, micro)


def epsilon_text(micro: int) -> str:
    """micro-ε as an exact decimal number."""
    whole, rest = divmod(micro, MICRO)
    return f"{whole}.{rest:06d}".rstrip("0").rstrip(".")


def period_kind(period: str) -> str:
    """Either "day" or "month"; anything else is refused."""
    ordinal(period)
    return "day" if len(period) == 10 else "month"


def ordinal(period: str) -> int:
    """Number of a day ("2024-03-01") or a month ("2024-03"), one more for each that follows."""
    try:
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", period, re.ASCII):
            return date.fromisoformat(period).toordinal()
        if re.fullmatch(r"\d{4}-\d{2}", period, re.ASCII):
            first = date.fromisoformat(f"{period}-01")
            return first.year * 12 + first.month
    except (TypeError, ValueError):
        pass
    raise InputError(f"a period must be a day 2024-03-01 or a month 2024-03, got {period!r}.")


def period_at(number: int, kind: str) -> str:
    """The period with this ordinal; the calendar's first or last beyond its ends."""
    if kind == "day":
        return date.fromordinal(min(max(number, 1), date.max.toordinal())).isoformat()
    year, month = divmod(min(max(number, 13), 9999 * 12 + 12) - 1, 12)
    return f"{year:04d}-{month + 1:02d}"


def decide(
    meters: Sequence[str], periods: Sequence[str], micro: int, standing: Standing
) -> tuple[list[int], list[Refusal]]:
    """Which rows are granted and which refused; a meter's rows are served in order of period."""
    if not standing.caps and not standing.taken:
        return list(range(len(meters))), []
    numbers = {period: ordinal(period) for period in set(periods)}
    asked: dict[str, list[int]] = {}
    granted: list[int] = []
    refused: list[Refusal] = []
    for row, key in enumerate(zip(meters, periods, strict=True)):
        if key in standing.taken:
            refused.append(Refusal(row, *key, f"already released by {standing.taken[key]}"))
        else:
            asked.setdefault(key[0], []).append(row)
    crowded = _crowded(asked, periods, micro, standing, numbers)
    for meter, rows in asked.items():
        total = standing.caps[meter].total if meter in standing.caps else None
        fits = total is None or standing.spent.get(meter, 0) + len(rows) * micro <= total
        if fits and meter not in crowded:
            granted.extend(rows)
        else:
            rows.sort(key=periods.__getitem__)
            _serve(meter, rows, periods, micro, standing, numbers, granted, refused)
    return sorted(granted), sorted(refused, key=lambda refusal: refusal.row)


def merge_caps(own: Cap | None, everybody: Cap) -> Cap:
    """A meter's own cap where it has one, else that of all."""
    if own is None:
        return everybody
    return Cap(
        everybody.total if own.total is None else own.total,
        everybody.window if own.window is None else own.window,
    )


def worst_window(spends: Mapping[int, int], width: int) -> tuple[int, int]:
    """Most micro-ε in any `width` periods in a row, and the first period of that window."""
    best, start, inside = 0, min(spends, default=0), 0
    days = sorted(spends)
    tail = 0
    for day in days:
        inside += spends[day]
        while days[tail] <= day - width:
            inside -= spends[days[tail]]
            tail += 1
        if inside > best:
            best, start = inside, days[tail]
    return best, start


def _within_reach(name: str, micro: int) -> int:
    if micro > LARGEST:
        raise InputError(f"{name} must be at most {LARGEST // MICRO}, got {micro // MICRO}.")
    return micro


def _serve(
    meter: str,
    rows: Iterable[int],
    periods: Sequence[str],
    micro: int,
    standing: Standing,
    numbers: Mapping[str, int],
    granted: list[int],
    refused: list[Refusal],
) -> None:
    """One meter's rows one by one, in order of period."""
    cap = standing.caps.get(meter, Cap())
    spent = standing.spent.get(meter, 0)
    near = dict(standing.near.get(meter, {}))
    for row in rows:
        number = numbers[periods[row]]
        reason = _over_total(spent, micro, cap) or _over_window(near, number, micro, cap)
        if reason:
            refused.append(Refusal(row, meter, periods[row], reason))
            continue
        granted.append(row)
        spent += micro
        near[number] = near.get(number, 0) + micro


def _over_total(spent: int, micro: int, cap: Cap) -> str:
    if cap.total is None or spent + micro <= cap.total:
        return ""
    return (
        f"over the cap: ε = {epsilon_text(spent)} of {epsilon_text(cap.total)} is spent "
        f"and {epsilon_text(micro)} is asked for"
    )


def _over_window(near: Mapping[int, int], number: int, micro: int, cap: Cap) -> str:
    if cap.window is None:
        return ""
    width, most = cap.window
    around = {n: m for n, m in near.items() if abs(n - number) < width}
    around[number] = around.get(number, 0) + micro
    inside, _ = worst_window(around, width)
    if inside <= most:
        return ""
    return (
        f"over the cap on {width} periods in a row: they would hold ε = {epsilon_text(inside)}, "
        f"allowed is {epsilon_text(most)}"
    )


def _crowded(
    asked: Mapping[str, Sequence[int]],
    periods: Sequence[str],
    micro: int,
    standing: Standing,
    numbers: Mapping[str, int],
) -> set[str]:
    """Meters with a window over its cap if all their rows were granted."""
    windows: dict[tuple[int, int], list[str]] = {}
    for meter in asked:
        cap = standing.caps.get(meter)
        if cap is not None and cap.window is not None:
            windows.setdefault(cap.window, []).append(meter)
    found: set[str] = set()
    for (width, most), names in windows.items():
        origin = min(numbers.values()) - width + 1
        span = max(numbers.values()) + width - origin
        step = max(1, _CELLS // span)
        for start in range(0, len(names), step):
            part = names[start : start + step]
            filled = np.zeros((len(part), span + 1), np.int64)
            for line, name in zip(filled, part, strict=True):
                for number, amount in standing.near.get(name, {}).items():
                    if 0 <= number - origin < span:
                        line[number - origin + 1] += amount
                for row in asked[name]:
                    line[numbers[periods[row]] - origin + 1] += micro
            sums = np.cumsum(filled, axis=1)
            fullest = (sums[:, width:] - sums[:, :-width]).max(axis=1)
            found.update(part[i] for i in np.flatnonzero(fullest > most))
    return found
