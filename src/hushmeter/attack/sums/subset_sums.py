"""Which subset of powers explains a jump? Exact search behind problem (P1).

All sums are taken in whole nanowatts (int64), so that "within the tolerance" and "equally near"
are exact statements and every method gives the same answer. Among the subsets within the
tolerance the one with the fewest members wins, then the nearest, then the one whose list of
indices comes first. Where no subset lies within the tolerance the nearest wins, then the one
with the fewest members, then the first.

A subset is an integer mask with appliance 0 as its highest bit, so that for equally many
members the larger mask is the one whose index list comes first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.errors import HushmeterError, InputError

TABLE_LIMIT = 20
HALVES_LIMIT = 32
NANOWATTS = 1e9
LARGEST_TOTAL_W = 1e9
# Mixed-integer solvers meet their constraints to about 1e-6 W; their answers are checked to this.
MILP_SLACK = 10_000


class SubsetSums(NamedTuple):
    """Subsets of a list of powers, ordered by size, then sum, then mask (descending).

    `sums[starts[k]:starts[k + 1]]` are the sums [nW] of the subsets with k members.
    """

    sums: IntArray
    masks: IntArray
    starts: IntArray


class Answers(NamedTuple):
    """One answer per jump: mask, distance from the jump [nW] and tied optima (0: infeasible)."""

    masks: IntArray
    residuals: IntArray
    ties: IntArray


def to_nanowatts(watts: FloatArray) -> IntArray:
    """Watts rounded to whole nanowatts."""
    if watts.size and np.abs(watts).max() > LARGEST_TOTAL_W:
        raise InputError(f"powers and jumps must stay below {LARGEST_TOTAL_W:g} W.")
    return np.rint(watts * NANOWATTS).astype(np.int64)


def tabulate(powers: IntArray) -> SubsetSums:
    """Every subset of `powers` [nW]; 2^N entries."""
    sums, sizes = np.zeros(1, np.int64), np.zeros(1, np.int64)
    for power in powers[::-1]:
        sums = np.concatenate([sums, sums + power])
        sizes = np.concatenate([sizes, sizes + 1])
    masks = np.arange(sums.size, dtype=np.int64)
    order = np.lexsort((-masks, sums, sizes))
    starts = np.searchsorted(sizes[order], np.arange(powers.size + 2))
    return SubsetSums(sums[order], masks[order], starts.astype(np.int64))


def unpack(masks: IntArray, n: int) -> BoolArray:
    """Masks as rows of booleans, shape (T, N)."""
    shifts = np.arange(n - 1, -1, -1, dtype=np.int64)
    bits: BoolArray = (masks[:, None] >> shifts & 1).astype(np.bool_)
    return bits


def pack(rows: BoolArray) -> IntArray:
    """Rows of booleans as masks: the inverse of `unpack`."""
    weights = np.int64(1) << np.arange(rows.shape[1] - 1, -1, -1, dtype=np.int64)
    masks: IntArray = rows @ weights
    return masks


class SubsetSearch:
    """The nearest smallest subset for many jumps.

    Parameters
    ----------
    powers : array, shape (N,)
        [W]
    tolerance : float
        [W]
    method : {"auto", "table", "halves", "milp"}
        A table of all 2^N sums (up to 20 appliances), meet in the middle (up to 32), or a
        mixed-integer programme, whose answer is checked to 10 µW (beyond; ties are not counted
        there and not broken by index).
    """

    def __init__(self, powers: FloatArray, tolerance: float, method: str = "auto") -> None:
        self.n = int(powers.size)
        self.powers = to_nanowatts(powers)
        self.tolerance = int(to_nanowatts(np.array([tolerance]))[0])
        self.method = self._choose(method)
        cuts = {"table": [], "halves": [self.n // 2]}.get(self.method)
        pieces = [] if cuts is None else np.split(self.powers, cuts)
        self._parts = [tabulate(piece) for piece in pieces]

    def _choose(self, method: str) -> str:
        limits = {"table": TABLE_LIMIT, "halves": HALVES_LIMIT, "milp": self.n}
        if method == "auto":
            return next(name for name, limit in limits.items() if self.n <= limit)
        if method not in limits:
            raise InputError(f"method must be auto, table, halves or milp; got {method!r}.")
        if self.n > limits[method]:
            raise InputError(f"method {method!r} serves {limits[method]} appliances at most.")
        return method

    def search(self, jumps: FloatArray, available: BoolArray | None = None) -> Answers:
        """Answer every jump [W]; with `available` (T, N), only from those appliances."""
        targets = to_nanowatts(jumps)
        if available is None:
            allowed = np.full(targets.size, (1 << self.n) - 1, dtype=np.int64)
        else:
            allowed = pack(available)
        answers = Answers(*(np.zeros(targets.size, np.int64) for _ in range(3)))
        if self.method == "table":
            _search_table(self._parts[0], targets, self.tolerance, allowed, answers)
        elif self.method == "halves":
            high, low = self._parts
            _search_halves(high, low, targets, self.tolerance, allowed, answers)
        else:
            self._search_milp(targets, allowed, answers)
        return answers

    def _search_milp(self, targets: IntArray, allowed: IntArray, answers: Answers) -> None:
        for t, target in enumerate(targets):
            members = np.flatnonzero(unpack(allowed[t : t + 1], self.n)[0])
            chosen = np.zeros(self.n, np.bool_)
            chosen[members] = _solve_milp(self.powers[members], int(target), self.tolerance)
            residual = abs(int(self.powers[chosen].sum()) - int(target))
            answers.masks[t] = pack(chosen[None, :])[0]
            answers.residuals[t] = residual
            answers.ties[t] = residual <= self.tolerance + MILP_SLACK


@numba.njit(cache=True, nogil=True)
def _prefer(
    residual: int, size: int, mask: int, best_residual: int, best_size: int, best_mask: int
) -> bool:
    if residual != best_residual:
        return residual < best_residual
    if size != best_size:
        return size < best_size
    return mask > best_mask


@numba.njit(cache=True, nogil=True)
def _search_table(
    table: SubsetSums, targets: IntArray, tolerance: int, allowed: IntArray, answers: Answers
) -> None:
    for t in range(targets.size):
        forbidden = ~allowed[t]
        target = targets[t]
        best, best_mask, ties = np.iinfo(np.int64).max, 0, 0
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
                break
        if ties == 0:
            best, best_mask = _nearest_in_table(table, target, forbidden)
        answers.masks[t], answers.residuals[t], answers.ties[t] = best_mask, best, ties


@numba.njit(cache=True, nogil=True)
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
    return best, best_mask


@numba.njit(cache=True, nogil=True)
def _keep_allowed(part: SubsetSums, forbidden: int, kept: SubsetSums) -> None:
    count = 0
    for size in range(part.starts.size - 1):
        kept.starts[size] = count
        for row in range(part.starts[size], part.starts[size + 1]):
            if part.masks[row] & forbidden == 0:
                kept.sums[count], kept.masks[count] = part.sums[row], part.masks[row]
                count += 1
    kept.starts[-1] = count


@numba.njit(cache=True, nogil=True)
def _empty_like(part: SubsetSums) -> SubsetSums:
    return SubsetSums(
        np.empty_like(part.sums), np.empty_like(part.masks), np.empty_like(part.starts)
    )


@numba.njit(cache=True, nogil=True)
def _search_halves(
    high: SubsetSums,
    low: SubsetSums,
    targets: IntArray,
    tolerance: int,
    allowed: IntArray,
    answers: Answers,
) -> None:
    high_size, low_size = high.starts.size - 2, low.starts.size - 2
    kept_high, kept_low = _empty_like(high), _empty_like(low)
    for t in range(targets.size):
        forbidden = ~allowed[t]
        _keep_allowed(high, forbidden >> low_size, kept_high)
        _keep_allowed(low, forbidden & ((1 << low_size) - 1), kept_low)
        best, best_size, best_mask, ties = np.iinfo(np.int64).max, 0, 0, 0
        for size in range(high_size + low_size + 1):
            for size_high in range(max(0, size - low_size), min(size, high_size) + 1):
                residual, mask, found = _search_pair(
                    kept_high, kept_low, size_high, size - size_high, targets[t], tolerance
                )
                ties += found
                if _prefer(residual, size, mask, best, best_size, best_mask):
                    best, best_size, best_mask = residual, size, mask
            if ties > 0:
                break
        answers.masks[t], answers.residuals[t], answers.ties[t] = best_mask, best, ties


@numba.njit(cache=True, nogil=True)
def _search_pair(
    high: SubsetSums, low: SubsetSums, size_high: int, size_low: int, target: int, tolerance: int
) -> tuple[int, int, int]:
    """Nearest sum of one entry of each half, and how many sums lie within the tolerance."""
    best, best_mask, found = np.iinfo(np.int64).max, -1, 0
    shift = low.starts.size - 2
    begin, stop = low.starts[size_low], low.starts[size_low + 1]
    upper = stop  # first low entry above the window; the window slides down as `high` grows
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


def _solve_milp(powers: IntArray, target: int, tolerance: int) -> BoolArray:
    """(P1) as two mixed-integer programmes: fewest members, then the nearest of that size."""
    if target <= tolerance or powers.size == 0:
        return np.zeros(powers.size, np.bool_)
    fewest = _run_milp(powers, target, tolerance, size=None)
    if fewest is None:
        return _require(_run_milp(powers, target, None, size=None))
    return _require(_run_milp(powers, target, tolerance, size=int(fewest.sum())))


def _run_milp(
    powers: IntArray, target: int, tolerance: int | None, size: int | None
) -> BoolArray | None:
    """Fewest members within the tolerance; with a size or no tolerance, the nearest sum."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    n = powers.size
    watts = powers / NANOWATTS
    goal, slack = target / NANOWATTS, (np.inf if tolerance is None else tolerance / NANOWATTS)
    # Variables: n binaries and the distance z >= |watts·x - goal|.
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
    distance = abs(int(powers[chosen].sum()) - target)
    if abs(distance / NANOWATTS - found.x[n]) > MILP_SLACK / NANOWATTS and not minimise_size:
        raise HushmeterError("the mixed-integer solver returned a wrong distance.")
    if tolerance is not None and distance > tolerance + MILP_SLACK:
        raise HushmeterError("the mixed-integer solver returned an answer outside the tolerance.")
    return chosen


def _require(chosen: BoolArray | None) -> BoolArray:
    if chosen is None:
        raise HushmeterError("the mixed-integer solver found no nearest sum.")
    return chosen
