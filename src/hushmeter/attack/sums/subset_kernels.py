"""Compiled searches for the subset that explains a jump, in one table or in two halves."""

from __future__ import annotations

import numba
import numpy as np

from hushmeter.attack.sums.subset_tables import Answers, SubsetSums
from hushmeter.checks import IntArray


@numba.njit(cache=True, nogil=True)
def search_table(
    table: SubsetSums, targets: IntArray, tolerance: int, allowed: IntArray, answers: Answers
) -> None:
    """Answer every target [nW] from the appliances of its mask `allowed`."""
    for t in range(targets.size):
        answers.masks[t], answers.residuals[t], answers.ties[t] = _find_in_table(
            table, targets[t], tolerance, allowed[t]
        )


@numba.njit(cache=True, nogil=True)
def follow_table(
    table: SubsetSums,
    jumps: IntArray,
    tolerance: int,
    state: int,
    everything: int,
    nearest: bool,
    masks: IntArray,
) -> None:
    """Answer signed jumps [nW] in turn from `state`, the mask of what is on at first.

    A rise is answered from what is off, a fall from what is on. What no subset explains is
    answered by the nearest one, or by none.
    """
    for t in range(jumps.size):
        if abs(jumps[t]) > tolerance:
            allowed = everything & ~state if jumps[t] > 0 else state
            mask, _, ties = _find_in_table(table, abs(jumps[t]), tolerance, allowed)
            masks[t] = mask if ties > 0 or nearest else 0
            state ^= masks[t]


@numba.njit(cache=True, nogil=True)
def search_halves(
    high: SubsetSums,
    low: SubsetSums,
    targets: IntArray,
    tolerance: int,
    allowed: IntArray,
    answers: Answers,
) -> None:
    """As `search_table`, in the tables of the first and of the other appliances."""
    kept_high, kept_low = _empty_like(high), _empty_like(low)
    for t in range(targets.size):
        answers.masks[t], answers.residuals[t], answers.ties[t] = _find_in_halves(
            high, low, kept_high, kept_low, targets[t], tolerance, allowed[t]
        )


@numba.njit(cache=True, nogil=True)
def follow_halves(
    high: SubsetSums,
    low: SubsetSums,
    jumps: IntArray,
    tolerance: int,
    state: int,
    everything: int,
    nearest: bool,
    masks: IntArray,
) -> None:
    """As `follow_table`, in the tables of the first and of the other appliances."""
    kept_high, kept_low = _empty_like(high), _empty_like(low)
    for t in range(jumps.size):
        if abs(jumps[t]) > tolerance:
            allowed = everything & ~state if jumps[t] > 0 else state
            mask, _, ties = _find_in_halves(
                high, low, kept_high, kept_low, abs(jumps[t]), tolerance, allowed
            )
            masks[t] = mask if ties > 0 or nearest else 0
            state ^= masks[t]


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
def _find_in_table(
    table: SubsetSums, target: int, tolerance: int, allowed: int
) -> tuple[int, int, int]:
    """Mask, residual and ties of the best allowed subset."""
    whole, reach = _take_all(table, allowed)
    if reach + tolerance < target:
        return whole, target - reach, 0
    forbidden = ~allowed
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
            return best_mask, best, ties
    best_mask, best = _nearest_in_table(table, target, forbidden)
    return best_mask, best, 0


@numba.njit(cache=True, nogil=True)
def _take_all(table: SubsetSums, allowed: int) -> tuple[int, int]:
    """Mask and sum of all that is allowed and has a power, from the subsets of one member."""
    mask, total = 0, 0
    for row in range(table.starts[1], table.starts[2]):
        if table.masks[row] & allowed and table.sums[row] > 0:
            mask, total = mask | table.masks[row], total + table.sums[row]
    return mask, total


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
    return best_mask, best


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
def _find_in_halves(
    high: SubsetSums,
    low: SubsetSums,
    kept_high: SubsetSums,
    kept_low: SubsetSums,
    target: int,
    tolerance: int,
    allowed: int,
) -> tuple[int, int, int]:
    """As `_find_in_table`; `kept_high` and `kept_low` are room to work in."""
    high_size, low_size = high.starts.size - 2, low.starts.size - 2
    forbidden = ~allowed
    _keep_allowed(high, forbidden >> low_size, kept_high)
    _keep_allowed(low, forbidden & ((1 << low_size) - 1), kept_low)
    best, best_size, best_mask, ties = np.iinfo(np.int64).max, 0, 0, 0
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
