"""Exact searches for the levels that explain a reading and for the switches that explain a jump.

`NearestSum` is the problem of CO and IP: min |y − Σ r_i| with each r_i taken from the levels of
appliance i. A table of all sums answers a reading by binary search. If there are too many
combinations for one table, two tables of half the appliances are searched against each other. Of
two equally near sums the lower or the higher one is the answer, as the caller asks. Of several
choices with the same sum, the answer is the one whose list of levels comes first, where the lists
begin with the smallest appliances. The order in which the appliances are given has no effect.

`SubsetSearch` is the solver of problem (P1). Among the subsets within the tolerance, the one with
the fewest members is the answer, then the one with the smallest residual, then the one whose list
of indices comes first. If no subset is within the tolerance, the nearest one is the answer, then
the one with the fewest members, then the first. All its methods give the same answer.

All sums are whole nanowatts (int64), so that "within the tolerance" and "equally near" are exact.
A subset is an integer mask with appliance 0 as its highest bit: of two subsets of the same size,
the one with the larger mask has the list of indices that comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushmeter.attack.levels import LevelArray
from hushmeter.checks import BoolArray, FloatArray, IntArray, one_of
from hushmeter.compiled import compiled
from hushmeter.errors import HushmeterError, InputError, MissingExtraError

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
        """Find for every reading [W] the levels whose sum is nearest to it."""
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


@compiled(cache=True, nogil=True)
def _write_digits(codes: IntArray, counts: IntArray, digits: LevelArray) -> None:
    for t in range(codes.size):
        rest = codes[t]
        for i in range(counts.size - 1, -1, -1):
            digits[t, i] = rest % counts[i]
            rest //= counts[i]


@compiled(cache=True, nogil=True)
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


@compiled(cache=True, nogil=True)
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


NANOWATTS = 1e9
"""Nanowatts in one watt."""

LARGEST_W = 1e9
"""Largest power [W]: the sum of 63 such powers would leave int64, but homes stay far below."""

MOST_IN_TABLE = 20
"""Largest number of appliances with one table of all sums (2^20 entries)."""

MOST_IN_HALVES = 32
"""Largest number of appliances with two tables, one for each half (2^16 entries each)."""

MOST_AT_ALL = 63
"""Largest number of appliances at all: a mask has 64 bits, one of which is the sign."""

SLACK = 10_000
"""Distance [nW] to which the answers of the mixed-integer solver are checked; the solver itself
satisfies its constraints to about 1e-6 W."""


class SubsetSums(NamedTuple):
    """All subsets of a list of powers, ordered by size, then by sum, then by descending mask.

    `sums[starts[k]:starts[k + 1]]` are the sums [nW] of the subsets with k members.
    """

    sums: IntArray
    masks: IntArray
    starts: IntArray


class Answers(NamedTuple):
    """One answer per jump: its mask, its distance from the jump [nW] and the number of optima.

    The number of optima is zero where no subset is within the tolerance.
    """

    masks: IntArray
    residuals: IntArray
    ties: IntArray


def to_nanowatts(watts: FloatArray) -> IntArray:
    """Round watts to whole nanowatts; raise `InputError` above `LARGEST_W`."""
    if watts.size and np.abs(watts).max() > LARGEST_W:
        raise InputError(f"powers and jumps must stay below {LARGEST_W:g} W.")
    return np.rint(watts * NANOWATTS).astype(np.int64)


def tabulate(powers: IntArray) -> SubsetSums:
    """Tabulate the sums of all 2^N subsets of `powers` [nW]."""
    sums, sizes = np.zeros(1, np.int64), np.zeros(1, np.int64)
    for power in powers[::-1]:
        sums = np.concatenate([sums, sums + power])
        sizes = np.concatenate([sizes, sizes + 1])
    masks = np.arange(sums.size, dtype=np.int64)
    order = np.lexsort((-masks, sums, sizes))
    starts = np.searchsorted(sizes[order], np.arange(powers.size + 2))
    return SubsetSums(sums[order], masks[order], starts.astype(np.int64))


def unpack(masks: IntArray, n: int) -> BoolArray:
    """Convert masks to rows of booleans, shape (T, N)."""
    shifts = np.arange(n - 1, -1, -1, dtype=np.int64)
    bits: BoolArray = (masks[:, None] >> shifts & 1).astype(np.bool_)
    return bits


def pack(rows: BoolArray) -> IntArray:
    """Convert rows of booleans to masks; the inverse of `unpack`."""
    weights = np.int64(1) << np.arange(rows.shape[1] - 1, -1, -1, dtype=np.int64)
    masks: IntArray = rows @ weights
    return masks


class SubsetSearch:
    """Exact search for the subset that explains each of many jumps."""

    def __init__(self, powers: FloatArray, tolerance: float, method: str = "auto") -> None:
        self.n = int(powers.size)
        self.powers = to_nanowatts(powers)
        self.tolerance = int(to_nanowatts(np.array([tolerance]))[0])
        self.method = self._choose(method)
        cut = {"table": self.n, "halves": self.n // 2, "milp": -1}[self.method]
        pieces = [] if cut < 0 else np.split(self.powers, [cut])
        self._parts = [tabulate(piece) for piece in pieces]

    def _choose(self, method: str) -> str:
        limits = {"table": MOST_IN_TABLE, "halves": MOST_IN_HALVES, "milp": MOST_AT_ALL}
        if self.n > MOST_AT_ALL:
            raise InputError(
                f"exact search serves {MOST_AT_ALL} appliances or increments at most, not {self.n}."
            )
        if method == "auto":
            return next(name for name, limit in limits.items() if self.n <= limit)
        if method not in limits:
            raise InputError(f"method must be auto, table, halves or milp; got {method!r}.")
        if self.n > limits[method]:
            raise InputError(f"method {method!r} serves {limits[method]} appliances at most.")
        return method

    def search(self, jumps: FloatArray, available: BoolArray | None = None) -> Answers:
        """Find the subset of the available appliances that explains each jump [W]."""
        if available is None:
            available = np.ones((1, self.n), np.bool_)
        allowed = np.broadcast_to(pack(available), jumps.shape)
        return self._explain(jumps, allowed.copy(), 0, nearest=True)

    def follow(self, jumps: FloatArray, start: BoolArray, *, nearest: bool) -> BoolArray:
        """Explain signed jumps [W] in order, each from the state that the one before it left."""
        state = int(pack(start[None, :])[0])
        found = self._explain(jumps, np.empty(0, np.int64), state, nearest=nearest)
        return unpack(found.masks, self.n)

    def _explain(
        self, jumps: FloatArray, allowed: IntArray, state: int, *, nearest: bool
    ) -> Answers:
        """Answers to jumps [W]; see `_explain_jumps`."""
        targets = to_nanowatts(jumps)
        answers = Answers(*(np.zeros(targets.size, np.int64) for _ in range(3)))
        if self._parts:
            high, low = self._parts
            _explain_jumps(high, low, targets, self.tolerance, allowed, state, nearest, answers)
            return answers
        everything = (1 << self.n) - 1
        for t, jump in enumerate(targets.tolist()):
            usable = everything & ~state if jump > 0 else state
            answer = self._solve(abs(jump), usable if allowed.size == 0 else int(allowed[t]))
            if allowed.size == 0:
                answer = answer if nearest or answer[2] else (0, 0, 0)
                state ^= answer[0]
            answers.masks[t], answers.residuals[t], answers.ties[t] = answer
        return answers

    def _solve(self, target: int, allowed: int) -> tuple[int, int, int]:
        """Mask, residual [nW] and whether the tolerance is met, by a mixed-integer program."""
        members = np.flatnonzero(unpack(np.array([allowed]), self.n)[0])
        chosen = np.zeros(self.n, np.bool_)
        chosen[members] = _solve_program(self.powers[members], target, self.tolerance)
        residual = abs(int(self.powers[chosen].sum()) - target)
        return int(pack(chosen[None, :])[0]), residual, int(residual <= self.tolerance + SLACK)


def _solve_program(powers: IntArray, target: int, tolerance: int) -> BoolArray:
    """(P1) as two mixed-integer programs: the fewest members, then the nearest of this size."""
    if target <= tolerance or powers.size == 0:
        return np.zeros(powers.size, np.bool_)
    fewest = _run_solver(powers, target, tolerance, size=None)
    if fewest is None:
        return _require(_run_solver(powers, target, None, size=None))
    return _require(_run_solver(powers, target, tolerance, size=int(fewest.sum())))


def _run_solver(
    powers: IntArray, target: int, tolerance: int | None, size: int | None
) -> BoolArray | None:
    """Fewest members within the tolerance; with a size or no tolerance, the nearest sum."""
    try:
        from scipy.optimize import Bounds, LinearConstraint, milp
    except ModuleNotFoundError:
        what = f"exact search for more than {MOST_IN_HALVES} appliances or increments"
        raise MissingExtraError(what, "nilm") from None

    n = powers.size
    watts = powers / NANOWATTS
    goal, slack = target / NANOWATTS, (np.inf if tolerance is None else tolerance / NANOWATTS)
    # The variables are n binaries x and the distance z ≥ |watts·x − goal|.
    rows = [np.append(watts, -1.0), np.append(watts, 1.0), np.append(np.ones(n), 0.0)]
    members = (0, n) if size is None else (size, size)
    minimise_size = size is None and tolerance is not None
    found: Any = milp(
        np.append(np.ones(n), 0.0) if minimise_size else np.append(np.zeros(n), 1.0),
        constraints=LinearConstraint(
            np.array(rows), [-np.inf, goal, members[0]], [goal, np.inf, members[1]]
        ),
        bounds=Bounds(np.zeros(n + 1), np.append(np.ones(n), slack)),
        integrality=np.append(np.ones(n), 0.0),
    )
    if not found.success:
        return None
    chosen: NDArray[np.bool_] = found.x[:n] > 0.5
    # Solvers have returned wrong answers that they called optimal: check every answer.
    distance = abs(int(powers[chosen].sum()) - target)
    if abs(distance / NANOWATTS - found.x[n]) > SLACK / NANOWATTS and not minimise_size:
        raise HushmeterError("the mixed-integer solver returned a wrong distance.")
    if tolerance is not None and distance > tolerance + SLACK:
        raise HushmeterError("the mixed-integer solver returned an answer outside the tolerance.")
    return chosen


def _require(chosen: BoolArray | None) -> BoolArray:
    if chosen is None:
        raise HushmeterError("the mixed-integer solver found no nearest sum.")
    return chosen


@compiled(cache=True, nogil=True)
def _explain_jumps(
    high: SubsetSums,
    low: SubsetSums,
    jumps: IntArray,
    tolerance: int,
    allowed: IntArray,
    state: int,
    nearest: bool,
    answers: Answers,
) -> None:
    """Explain jumps [nW] by the appliances of the mask `allowed` of each of them.

    If `allowed` is empty, the jumps are signed and explained in turn: a rise by what is off and a
    fall by what is on. `state` is the mask of what is on at the start, and without `nearest` a jump
    that no subset explains changes nothing. If `low` has no appliance, `high` is the whole table.
    """
    kept_high, kept_low = _empty_like(high), _empty_like(low)
    in_turn, one_table = allowed.size == 0, low.starts.size == 2
    everything = (1 << (high.starts.size + low.starts.size - 4)) - 1
    for t in range(jumps.size):
        target = abs(jumps[t])
        if in_turn and target <= tolerance:
            continue
        in_reach = everything & ~state if jumps[t] > 0 else state
        usable = in_reach if in_turn else allowed[t]
        if one_table:
            mask, residual, ties = _find_in_table(high, target, tolerance, usable)
        else:
            mask, residual, ties = _find_in_halves(
                high, low, kept_high, kept_low, target, tolerance, usable
            )
        if in_turn:
            mask = mask if ties > 0 or nearest else 0
            state ^= mask
        answers.masks[t], answers.residuals[t], answers.ties[t] = mask, residual, ties


@compiled(cache=True, nogil=True)
def _prefer(
    residual: int, size: int, mask: int, best_residual: int, best_size: int, best_mask: int
) -> bool:
    if residual != best_residual:
        return residual < best_residual
    if size != best_size:
        return size < best_size
    return mask > best_mask


@compiled(cache=True, nogil=True)
def _find_in_table(
    table: SubsetSums, target: int, tolerance: int, allowed: int
) -> tuple[int, int, int]:
    """Mask, residual and number of optima of the best allowed subset."""
    # A jump beyond all allowed appliances is the most frequent infeasible case: answer it at once.
    whole, reach = _take_all(table, allowed)
    if reach + tolerance < target:
        return whole, target - reach, 0
    forbidden = ~allowed
    best, best_mask, ties = np.iinfo(np.int64).max, 0, 0
    # Sizes ascend: the first size with a subset within the tolerance is the smallest.
    for size in range(table.starts.size - 1):
        sums = table.sums[table.starts[size] : table.starts[size + 1]]
        masks = table.masks[table.starts[size] : table.starts[size + 1]]
        row = np.searchsorted(sums, target - tolerance)
        while row < sums.size and sums[row] <= target + tolerance:
            if masks[row] & forbidden == 0:
                ties += 1
                residual = abs(sums[row] - target)
                if _prefer(residual, size, masks[row], best, size, best_mask):
                    best, best_mask = residual, masks[row]
            row += 1
        if ties > 0:
            return best_mask, best, ties
    best_mask, best = _nearest_in_table(table, target, forbidden)
    return best_mask, best, 0


@compiled(cache=True, nogil=True)
def _take_all(table: SubsetSums, allowed: int) -> tuple[int, int]:
    """Mask and sum of all allowed appliances, read from the subsets of one member."""
    mask, total = 0, 0
    for row in range(table.starts[1], table.starts[2]):
        if table.masks[row] & allowed and table.sums[row] > 0:
            mask, total = mask | table.masks[row], total + table.sums[row]
    return mask, total


@compiled(cache=True, nogil=True)
def _nearest_in_table(table: SubsetSums, target: int, forbidden: int) -> tuple[int, int]:
    best, best_size, best_mask = abs(target), 0, 0
    for size in range(1, table.starts.size - 1):
        sums = table.sums[table.starts[size] : table.starts[size + 1]]
        masks = table.masks[table.starts[size] : table.starts[size + 1]]
        middle = np.searchsorted(sums, target)
        for step in (-1, 1):
            row = middle - 1 if step < 0 else middle
            while 0 <= row < sums.size and abs(sums[row] - target) <= best:
                residual = abs(sums[row] - target)
                if masks[row] & forbidden == 0 and _prefer(
                    residual, size, masks[row], best, best_size, best_mask
                ):
                    best, best_size, best_mask = residual, size, masks[row]
                row += step
    return best_mask, best


@compiled(cache=True, nogil=True)
def _keep_allowed(part: SubsetSums, forbidden: int, kept: SubsetSums) -> None:
    count = 0
    for size in range(part.starts.size - 1):
        kept.starts[size] = count
        for row in range(part.starts[size], part.starts[size + 1]):
            if part.masks[row] & forbidden == 0:
                kept.sums[count], kept.masks[count] = part.sums[row], part.masks[row]
                count += 1
    kept.starts[-1] = count


@compiled(cache=True, nogil=True)
def _empty_like(part: SubsetSums) -> SubsetSums:
    return SubsetSums(
        np.empty_like(part.sums), np.empty_like(part.masks), np.empty_like(part.starts)
    )


@compiled(cache=True, nogil=True)
def _find_in_halves(
    high: SubsetSums,
    low: SubsetSums,
    kept_high: SubsetSums,
    kept_low: SubsetSums,
    target: int,
    tolerance: int,
    allowed: int,
) -> tuple[int, int, int]:
    """As `_find_in_table`; `kept_high` and `kept_low` are scratch memory."""
    high_size, low_size = high.starts.size - 2, low.starts.size - 2
    forbidden = ~allowed
    _keep_allowed(high, forbidden >> low_size, kept_high)
    _keep_allowed(low, forbidden & ((1 << low_size) - 1), kept_low)
    best, best_size, best_mask, ties = np.iinfo(np.int64).max, 0, 0, 0
    # Sizes ascend: the first size with a subset within the tolerance is the smallest.
    for size in range(high_size + low_size + 1):
        for size_high in range(max(0, size - low_size), min(size, high_size) + 1):
            residual, mask, found = _search_pair(
                kept_high, kept_low, size_high, size - size_high, target, tolerance
            )
            ties += found
            if _prefer(residual, size, mask, best, best_size, best_mask):
                best, best_size, best_mask = residual, size, mask
        if ties > 0:
            break
    return best_mask, best, ties


@compiled(cache=True, nogil=True)
def _search_pair(
    high: SubsetSums, low: SubsetSums, size_high: int, size_low: int, target: int, tolerance: int
) -> tuple[int, int, int]:
    """Nearest sum of one entry of each half, and the number of sums within the tolerance."""
    best, best_mask, found = np.iinfo(np.int64).max, -1, 0
    shift = low.starts.size - 2
    begin, stop = low.starts[size_low], low.starts[size_low + 1]
    # `upper` is the first low entry above the window; the window moves down as `high` grows.
    upper = stop
    for row in range(high.starts[size_high], high.starts[size_high + 1]):
        missing = target - high.sums[row]
        while upper > begin and low.sums[upper - 1] > missing + tolerance:
            upper -= 1
        if upper < stop:
            residual, mask = low.sums[upper] - missing, high.masks[row] << shift | low.masks[upper]
            if _prefer(residual, 0, mask, best, 0, best_mask):
                best, best_mask = residual, mask
        other = upper - 1
        nearest_below = -1
        while other >= begin:
            residual = abs(low.sums[other] - missing)
            if residual > tolerance and (nearest_below >= 0 and residual > nearest_below):
                break
            found += residual <= tolerance
            nearest_below = residual
            mask = high.masks[row] << shift | low.masks[other]
            if _prefer(residual, 0, mask, best, 0, best_mask):
                best, best_mask = residual, mask
            other -= 1
    return best, best_mask, found
