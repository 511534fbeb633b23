"""The decision whether a charge fits under the caps of its meter.

A period is a UTC day or a UTC month. A charge is the cost of the declared change within its period,
so the charges of a meter add up over periods and streams: ε to ε, and δ to δ. A cap on the total
bounds the sum of ε over all periods, and a cap on δ bounds the sum of δ. A cap on windows bounds
the sum of ε over any w periods in a row (w-event privacy).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import groupby
from operator import itemgetter

import numpy as np

from hushmeter.errors import InputError
from hushmeter.ledger.charges import Price, delta_text, epsilon_text

WIDEST = 36_600
"""Most periods of a window: a century of days."""

SHORTEST_RANGE = 7
"""Fewest periods in a row of a meter that are one row of a ledger."""

LONGEST_RANGE = 400
"""Most periods of such a row; it bounds how far back a look-up has to go."""

NOTHING = Price(0)

_CELLS = 1 << 22
"""Most cells of the table in which windows are summed up; it bounds the memory."""


@dataclass(frozen=True)
class Cap:
    """What the days of a customer may cost; None means no bound."""

    total: int | None = None  # Most ε over all periods [micro-ε]
    # Number w of periods, and the most ε within any w periods in a row [micro-ε]
    window: tuple[int, int] | None = None
    delta: int | None = None  # Most δ over all periods [femto-δ]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A row that may not be released."""

    row: int  # Number of the row within the request
    # The row itself
    meter: str
    period: str
    reason: str  # Why it was refused; completes "the row is …"


@dataclass(frozen=True)
class KnownSpends:
    """What a ledger knows about the meters of a request before the decision."""

    # What every meter has spent so far; a meter without an entry has spent nothing
    spent: Mapping[str, Price]
    # Cap of every meter of the request that has one
    caps: Mapping[str, Cap] = field(default_factory=dict)
    # For every meter under a window cap: micro-ε by the ordinal of the period
    nearby: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    # (meter, period) already released in this stream, and the release that did so
    taken: Mapping[tuple[str, str], str] = field(default_factory=dict)


def period_kind(period: str) -> str:
    """Return "day" or "month"; raise `InputError` for any other text."""
    ordinal(period)
    return "day" if len(period) == 10 else "month"


def ordinal(period: str) -> int:
    """Return the number of a day ("2024-03-01") or a month ("2024-03").

    Consecutive periods have consecutive numbers.
    """
    try:
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", period, re.ASCII):
            return date.fromisoformat(period).toordinal()
        if re.fullmatch(r"\d{4}-\d{2}", period, re.ASCII):
            first = date.fromisoformat(f"{period}-01")
            return first.year * 12 + first.month
    except (TypeError, ValueError):
        pass
    raise InputError(f"a period must be a day 2024-03-01 or a month 2024-03, got {period!r}.")


def expand_periods(label: str) -> list[str]:
    """Return the periods that a row of a ledger covers."""
    first, mark, last = label.partition("/")
    if not mark:
        return [label]
    kind = period_kind(first)
    numbers = range(ordinal(first), ordinal(last) + 1)
    if kind != period_kind(last) or not 1 < len(numbers) <= LONGEST_RANGE:
        raise InputError(f"{label!r} is not a range of periods.")
    return [period_at(number, kind) for number in numbers]


def merge_periods(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str, int]]:
    """Join periods in a row of the same meter to ranges."""
    found: list[tuple[str, str, int]] = []
    # Most meters of a fleet have the same periods, which are joined once.
    known: dict[tuple[str, ...], list[tuple[str, int]]] = {}
    for meter, group in groupby(pairs, itemgetter(0)):
        periods = tuple(period for _, period in group)
        labels = known.get(periods)
        if labels is None:
            labels = known[periods] = _join_periods(periods)
        found += [(meter, label, count) for label, count in labels]
    return found


def _join_periods(periods: Sequence[str]) -> list[tuple[str, int]]:
    """Join the sorted periods of one meter; return labels and numbers of periods."""
    runs: list[list[str]] = []
    last = None
    for period in periods:
        number = ordinal(period)
        if last is not None and number == last + 1 and len(runs[-1]) < LONGEST_RANGE:
            runs[-1].append(period)
        else:
            runs.append([period])
        last = number
    labels: list[tuple[str, int]] = []
    for run in runs:
        if len(run) < SHORTEST_RANGE:
            labels += [(period, 1) for period in run]
        else:
            labels.append((f"{run[0]}/{run[-1]}", len(run)))
    return labels


def period_at(number: int, kind: str) -> str:
    """Return the period with this ordinal; beyond the calendar, its first or last period."""
    if kind == "day":
        return date.fromordinal(min(max(number, 1), date.max.toordinal())).isoformat()
    year, month = divmod(min(max(number, 13), 9999 * 12 + 12) - 1, 12)
    return f"{year:04d}-{month + 1:02d}"


def decide(
    meters: Sequence[str], periods: Sequence[str], price: Price, known: KnownSpends
) -> tuple[list[int], list[Refusal]]:
    """Decide which rows are granted; the rows of a meter are served in order of period."""
    if not known.caps and not known.taken:
        return list(range(len(meters))), []
    numbers = {period: ordinal(period) for period in set(periods)}
    asked: dict[str, list[int]] = {}
    granted: list[int] = []
    refused: list[Refusal] = []
    for row, key in enumerate(zip(meters, periods, strict=True)):
        if key in known.taken:
            refused.append(Refusal(row, *key, f"already released by {known.taken[key]}"))
        else:
            asked.setdefault(key[0], []).append(row)
    # Most meters are far from their caps: all their rows are granted without a look at each.
    over_window = _meters_over_a_window(asked, periods, price.micro, known, numbers)
    for meter, rows in asked.items():
        cap, spent = known.caps.get(meter, Cap()), known.spent.get(meter, NOTHING)
        whole = Price(len(rows) * price.micro, len(rows) * price.femto)
        if not _over_total(spent, whole, cap) and meter not in over_window:
            granted.extend(rows)
        else:
            rows.sort(key=periods.__getitem__)
            _decide_one_by_one(meter, rows, periods, price, known, numbers, granted, refused)
    return sorted(granted), sorted(refused, key=lambda refusal: refusal.row)


def merge_caps(own: Cap | None, everybody: Cap) -> Cap:
    """Return the caps in force for a meter: its own where it has one, otherwise that of all."""
    if own is None:
        return everybody
    return Cap(
        everybody.total if own.total is None else own.total,
        everybody.window if own.window is None else own.window,
        everybody.delta if own.delta is None else own.delta,
    )


def worst_window(spends: Mapping[int, int], width: int) -> tuple[int, int]:
    """Find the largest sum over consecutive periods."""
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


def _decide_one_by_one(
    meter: str,
    rows: Iterable[int],
    periods: Sequence[str],
    price: Price,
    known: KnownSpends,
    numbers: Mapping[str, int],
    granted: list[int],
    refused: list[Refusal],
) -> None:
    """Decide the rows of one meter, which are in order of period, and append to both lists."""
    cap = known.caps.get(meter, Cap())
    spent = known.spent.get(meter, NOTHING)
    nearby = dict(known.nearby.get(meter, {}))
    for row in rows:
        number = numbers[periods[row]]
        reason = _over_total(spent, price, cap) or _over_window(nearby, number, price.micro, cap)
        if reason:
            refused.append(Refusal(row, meter, periods[row], reason))
            continue
        granted.append(row)
        spent = Price(spent.micro + price.micro, spent.femto + price.femto)
        nearby[number] = nearby.get(number, 0) + price.micro


def _over_total(spent: Price, price: Price, cap: Cap) -> str:
    """Return why a charge exceeds the cap on all periods, or an empty text."""
    if cap.total is not None and spent.micro + price.micro > cap.total:
        return (
            f"over the cap: the days of the customer so far cost ε = "
            f"{epsilon_text(spent.micro)} of {epsilon_text(cap.total)}, and this period costs "
            f"{epsilon_text(price.micro)}"
        )
    # A charge without δ is allowed even where an earlier cap is exceeded already.
    if cap.delta is not None and price.femto and spent.femto + price.femto > cap.delta:
        return (
            f"over the cap on δ: the days of the customer so far cost δ = "
            f"{delta_text(spent.femto)} of {delta_text(cap.delta)}, and this period costs "
            f"{delta_text(price.femto)}"
        )
    return ""


def _over_window(nearby: Mapping[int, int], number: int, micro: int, cap: Cap) -> str:
    """Return why a spend exceeds the cap on windows, or an empty text."""
    if cap.window is None:
        return ""
    width, most = cap.window
    around = {n: m for n, m in nearby.items() if abs(n - number) < width}
    around[number] = around.get(number, 0) + micro
    inside, _ = worst_window(around, width)
    if inside <= most:
        return ""
    return (
        f"over the cap on {width} periods in a row: they would cost ε = {epsilon_text(inside)} of "
        f"{epsilon_text(most)}"
    )


def _meters_over_a_window(
    asked: Mapping[str, Sequence[int]],
    periods: Sequence[str],
    micro: int,
    known: KnownSpends,
    numbers: Mapping[str, int],
) -> set[str]:
    """Return the meters that would exceed a window cap if all their rows were granted."""
    windows: dict[tuple[int, int], list[str]] = {}
    for meter in asked:
        cap = known.caps.get(meter)
        if cap is not None and cap.window is not None:
            windows.setdefault(cap.window, []).append(meter)
    found: set[str] = set()
    for (width, most), names in windows.items():
        origin = min(numbers.values()) - width + 1
        span = max(numbers.values()) + width - origin
        step = max(1, _CELLS // span)
        for start in range(0, len(names), step):
            part = names[start : start + step]
            # One line per meter, one column per period; column 0 stays 0 for the differences.
            filled = np.zeros((len(part), span + 1), np.int64)
            for line, name in zip(filled, part, strict=True):
                for number, amount in known.nearby.get(name, {}).items():
                    if 0 <= number - origin < span:
                        line[number - origin + 1] += amount
                for row in asked[name]:
                    line[numbers[periods[row]] - origin + 1] += micro
            sums = np.cumsum(filled, axis=1)
            fullest = (sums[:, width:] - sums[:, :-width]).max(axis=1)
            found.update(part[i] for i in np.flatnonzero(fullest > most))
    return found
