"""Compiled fills of (P3): each jump is explained by the largest appliances first."""

from __future__ import annotations

import numba

from hushmeter.checks import BoolArray, FloatArray


# error_model="numpy": without the check for a zero divisor the inner loop vectorises.
@numba.njit(cache=True, nogil=True, error_model="numpy")
def fill_largest_first(
    jumps: FloatArray,
    tolerance: float,
    powers: FloatArray,
    before: FloatArray,
    switches: FloatArray,
) -> None:
    """(P3) in closed form; `before` is the total power ranked before each appliance [W]."""
    for t in range(jumps.size):
        reach = jumps[t] - tolerance
        for i in range(powers.size):
            share = (reach - before[i]) / powers[i]
            share = share if share > 0.0 else 0.0
            switches[t, i] = share if share < 1.0 else 1.0


@numba.njit(cache=True, nogil=True, error_model="numpy")
def fill_available(
    jumps: FloatArray,
    tolerance: float,
    powers: FloatArray,
    available: BoolArray,
    switches: FloatArray,
) -> None:
    """(P3) over the available appliances only; powers in descending order."""
    for t in range(jumps.size):
        missing = jumps[t] - tolerance
        for i in range(powers.size):
            switches[t, i] = 0.0
            if available[t, i] and missing > 0.0:
                switches[t, i] = min(missing / powers[i], 1.0)
                missing -= powers[i]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def follow_available(
    jumps: FloatArray,
    tolerance: float,
    powers: FloatArray,
    state: BoolArray,
    draws: FloatArray,
    switches: BoolArray,
) -> None:
    """(P3) for signed jumps in turn, rounded: a share switches where it exceeds its draw.

    `state` is what is on at first and comes out as what is on at last; powers in descending
    order. `draws` has a row for every jump beyond the tolerance.
    """
    row = 0
    for t in range(jumps.size):
        missing = abs(jumps[t]) - tolerance
        if missing <= 0.0:
            continue
        rises = jumps[t] > 0.0
        for i in range(powers.size):
            if state[i] != rises and missing > 0.0:
                if draws[row, i] < min(missing / powers[i], 1.0):
                    switches[t, i] = True
                    state[i] = rises
                missing -= powers[i]
        row += 1
