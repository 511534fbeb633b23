"""Exact search for the choice of one level per appliance whose sum is nearest to a reading.

This is the problem of CO and IP: min |y − Σ r_i| with each r_i taken from the levels of appliance
i. A table of all sums answers a reading by binary search. If there are too many combinations for
one table, two tables of half the appliances are searched against each other.

All sums are whole nanowatts, so that ties are exact. Of two equally near sums the lower or the
higher one is the answer, as the caller asks. Of several choices with the same sum, the answer is
the one whose list of levels comes first, with the smallest appliances first. The order in which
the appliances are given has no effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from hushmeter.attack.sums.levels import LevelArray
from hushmeter.attack.sums.subsets import to_nanowatts
from hushmeter.checks import FloatArray, IntArray, one_of
from hushmeter.errors import InputError

TABLE_LIMIT = 1 << 20
"""Largest number of entries of one table."""

CHUNK = 1 << 18
"""Number of readings that are answered at a time, which bounds the memory."""


class SumTable(NamedTuple):
    """Distinct sums [nW] in ascending order, and the mixed-radix code of the choice of each."""

    sums: IntArray
    codes: IntArray


class NearestSum:
    """Exact search for the nearest sum of levels for many readings."""

    def __init__(
        self,
        levels: Sequence[FloatArray],
        method: str = "auto",
        allowed: NDArray[np.integer] | None = None,
        ties: str = "lower",
    ) -> None:
        self.higher = one_of("ties", ties, ("lower", "higher")) == "higher"
        rows = [np.asarray(row, dtype=np.float64) for row in levels]
        if not rows or any(row.ndim != 1 or row.size == 0 for row in rows):
            raise InputError("every appliance needs one or more levels [W].")
        self._order = sorted(range(len(rows)), key=lambda i: tuple(rows[i][::-1]))
        self._levels = [to_nanowatts(rows[i]) for i in self._order]
        self._counts = np.array([row.size for row in self._levels], np.int64)
        one_of("method", method, ("auto", "table", "halves"))
        small = allowed is not None or _product(self._counts) <= TABLE_LIMIT
        self.method = ("table" if small else "halves") if method == "auto" else method
        if allowed is not None:
            choices = np.asarray(allowed)[:, self._order]
            self._table = _choose(self._levels, choices)
            self._rows = np.asarray(allowed)[self._table.codes].astype(np.int8)
        elif self.method == "table":
            self._table = _all_sums(self._levels)
            self._rows = np.empty((self._table.codes.size, len(rows)), np.int8)
            self._rows[:, self._order] = _digits(self._table.codes, self._counts)
        else:
            cut = self._split()
            self._halves = _all_sums(self._levels[:cut]), _all_sums(self._levels[cut:])

    def _split(self) -> int:
        """Where to cut the appliances so that both halves have about as many combinations."""
        logs = np.cumsum(np.log(self._counts))
        return int(np.abs(logs - logs[-1] / 2).argmin()) + 1

    def search(self, readings: FloatArray) -> LevelArray:
        """Find the nearest sum of every reading (`readings` [W])."""
        chosen = np.empty((readings.size, len(self._levels)), np.int8)
        for first in range(0, readings.size, CHUNK):
            part = slice(first, first + CHUNK)
            self._search(to_nanowatts(readings[part]), chosen[part])
        return chosen

    def _search(self, targets: IntArray, chosen: LevelArray) -> None:
        if self.method == "table":
            np.take(self._rows, _nearest(self._borders, targets), axis=0, out=chosen, mode="clip")
            return
        codes = np.empty(targets.size, np.int64)
        low_size = _product(self._counts[self._split() :])
        _meet(*self._halves, low_size, self.higher, targets, codes)
        chosen[:, self._order] = _digits(codes, self._counts)

    @cached_property
    def _borders(self) -> IntArray:
        """Largest reading [nW] that belongs to each sum but the last."""
        sums = self._table.sums
        borders: IntArray = sums[:-1] + (sums[1:] - sums[:-1] - self.higher) // 2
        return borders


def _product(counts: IntArray) -> int:
    return int(np.prod(counts.astype(object))) if counts.size else 1


def _all_sums(levels: Sequence[IntArray]) -> SumTable:
    """Table of every choice of one level per appliance."""
    if _product(np.array([row.size for row in levels])) > TABLE_LIMIT:
        raise InputError("these appliances have too many combinations of levels to search.")
    sums = np.zeros(1, np.int64)
    for row in levels:
        sums = (sums[:, None] + row[None, :]).ravel()
    return _distinct(sums)


def _choose(levels: Sequence[IntArray], choices: NDArray[np.integer]) -> SumTable:
    """Table of the given choices, shape (C, N); its codes are their rows."""
    if choices.shape[0] == 0:
        raise InputError("no combination of levels is allowed.")
    by_level = np.lexsort(choices.T[::-1])
    sums = np.zeros(len(choices), np.int64)
    for column, row in enumerate(levels):
        sums += row[choices[by_level, column]]
    table = _distinct(sums)
    return table._replace(codes=by_level[table.codes])


def _distinct(sums: IntArray) -> SumTable:
    """Each sum once, with the first place where it occurs."""
    distinct, first = np.unique(sums, return_index=True)
    return SumTable(distinct, first.astype(np.int64))


def _digits(codes: IntArray, counts: IntArray) -> LevelArray:
    """Mixed-radix digits, the first appliance the most significant, int8 (T, N)."""
    digits = np.empty((codes.size, counts.size), np.int8)
    _write_digits(codes, counts.astype(np.int64), digits)
    return digits


@numba.njit(cache=True, nogil=True)
def _write_digits(codes: IntArray, counts: IntArray, digits: LevelArray) -> None:
    for t in range(codes.size):
        rest = codes[t]
        for i in range(counts.size - 1, -1, -1):
            digits[t, i] = rest % counts[i]
            rest //= counts[i]


@numba.njit(cache=True, nogil=True)
def _nearest(borders: IntArray, targets: IntArray) -> IntArray:
    """Number of borders below each target.

    The binary search has no branches: their outcome is random and would stall the processor.
    """
    found = np.empty(targets.size, np.int64)
    for t in range(targets.size):
        low, length = 0, borders.size
        while length > 0:
            half = length >> 1
            below = borders[low + half] < targets[t]
            low = low + half + 1 if below else low
            length = length - half - 1 if below else half
        found[t] = low
    return found


@numba.njit(cache=True, nogil=True)
def _meet(
    high: SumTable,
    low: SumTable,
    low_size: int,
    higher: bool,
    targets: IntArray,
    codes: IntArray,
) -> None:
    """Nearest sum of each target: ascend the sums of one half, descend those of the other."""
    for t in range(targets.size):
        best, best_sum, best_code = np.int64(-1), np.int64(0), np.int64(0)
        other = low.sums.size - 1
        for row in range(high.sums.size):
            missing = targets[t] - high.sums[row]
            while other >= 0 and low.sums[other] > missing:
                other -= 1
            # The nearest partner is the last sum that does not exceed what is missing, or the next.
            for partner in (other, other + 1):
                if partner < 0 or partner >= low.sums.size:
                    continue
                total = high.sums[row] + low.sums[partner]
                distance = abs(total - targets[t])
                code = high.codes[row] * low_size + low.codes[partner]
                better = best < 0 or distance < best
                if distance == best:
                    better = code < best_code if total == best_sum else (total > best_sum) == higher
                if better:
                    best, best_sum, best_code = distance, total, code
        codes[t] = best_code
