"""Compiled steps of the best path through chains that run side by side, and the way back.

Digits turn as in `sum_kernels`. Beside every score travels the joint state it came from. Both
sides of a choice are read before it is made: a read that depends on it keeps the loop from being
vectorised.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from hushmeter.attack.hmm.sum_kernels import copy_row
from hushmeter.checks import BoolArray, FloatArray, IntArray

Pointers = NDArray[np.unsignedinteger]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def best_step(
    vector: FloatArray,
    work: FloatArray,
    spare: FloatArray,
    origin: Pointers,
    from_work: Pointers,
    from_spare: Pointers,
    matrices: FloatArray,
    sizes: IntArray,
) -> tuple[FloatArray, FloatArray, Pointers, Pointers]:
    """One step of all chains with max for sum; `origin` becomes the best previous joint state."""
    for s in range(vector.size):
        origin[s] = s
    offset = 0
    for m in range(sizes.size):
        size = sizes[m]
        matrix = matrices[offset : offset + size * size]
        if size == 2:
            _best_of_two(vector, work, origin, from_work, matrix)
        elif size == 3:
            _best_of_three(vector, work, origin, from_work, matrix)
        elif size == 4:
            _best_of_four(vector, work, origin, from_work, matrix)
        elif size > 1:
            _best_of_many(vector, work, spare, origin, from_work, from_spare, matrix, size)
        if size > 1:
            vector, work, origin, from_work = work, vector, from_work, origin
        offset += size * size
    return vector, work, origin, from_work


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _best_of_two(
    vector: FloatArray, out: FloatArray, origin: Pointers, out_from: Pointers, a: FloatArray
) -> None:
    n = vector.size // 2
    first, second, first_from, second_from = vector[:n], vector[n:], origin[:n], origin[n:]
    for i in range(n):
        x, y, from_x, from_y = first[i], second[i], first_from[i], second_from[i]
        stayed, fell = x + a[0], y + a[2]
        stay = stayed >= fell
        out[2 * i] = stayed if stay else fell
        out_from[2 * i] = from_x if stay else from_y
        rose, kept = x + a[1], y + a[3]
        rise = rose > kept
        out[2 * i + 1] = rose if rise else kept
        out_from[2 * i + 1] = from_x if rise else from_y


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _best_of_three(
    vector: FloatArray, out: FloatArray, origin: Pointers, out_from: Pointers, a: FloatArray
) -> None:
    n = vector.size // 3
    first, second, third = vector[:n], vector[n : 2 * n], vector[2 * n :]
    first_from, second_from, third_from = origin[:n], origin[n : 2 * n], origin[2 * n :]
    for to in range(3):
        gain_x, gain_y, gain_z = a[to], a[3 + to], a[6 + to]
        for i in range(n):
            x, y, z = first[i] + gain_x, second[i] + gain_y, third[i] + gain_z
            from_x, from_y, from_z = first_from[i], second_from[i], third_from[i]
            head = x >= y
            x, from_x = (x if head else y), (from_x if head else from_y)
            keep = x >= z
            out[3 * i + to] = x if keep else z
            out_from[3 * i + to] = from_x if keep else from_z


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _best_of_four(
    vector: FloatArray, out: FloatArray, origin: Pointers, out_from: Pointers, a: FloatArray
) -> None:
    n = vector.size // 4
    first, second = vector[:n], vector[n : 2 * n]
    third, fourth = vector[2 * n : 3 * n], vector[3 * n :]
    first_from, second_from = origin[:n], origin[n : 2 * n]
    third_from, fourth_from = origin[2 * n : 3 * n], origin[3 * n :]
    for to in range(4):
        gain_w, gain_x, gain_y, gain_z = a[to], a[4 + to], a[8 + to], a[12 + to]
        for i in range(n):
            w, x = first[i] + gain_w, second[i] + gain_x
            y, z = third[i] + gain_y, fourth[i] + gain_z
            from_w, from_x = first_from[i], second_from[i]
            from_y, from_z = third_from[i], fourth_from[i]
            head, tail = w >= x, y >= z
            w, from_w = (w if head else x), (from_w if head else from_x)
            y, from_y = (y if tail else z), (from_y if tail else from_z)
            keep = w >= y
            out[4 * i + to] = w if keep else y
            out_from[4 * i + to] = from_w if keep else from_y


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _best_of_many(
    vector: FloatArray,
    out: FloatArray,
    spare: FloatArray,
    origin: Pointers,
    out_from: Pointers,
    from_spare: Pointers,
    matrix: FloatArray,
    size: int,
) -> None:
    n = vector.size // size
    for to in range(size):
        target, target_from = spare[to * n : (to + 1) * n], from_spare[to * n : (to + 1) * n]
        source, source_from = vector[:n], origin[:n]
        for i in range(n):
            target[i] = source[i] + matrix[to]
            target_from[i] = source_from[i]
        for k in range(1, size):
            gain = matrix[k * size + to]
            source, source_from = vector[k * n : (k + 1) * n], origin[k * n : (k + 1) * n]
            for i in range(n):
                value, before = source[i] + gain, target[i]
                from_value, from_before = source_from[i], target_from[i]
                better = value > before
                target[i] = value if better else before
                target_from[i] = from_value if better else from_before
    for i in range(n):
        for k in range(size):
            out[i * size + k], out_from[i * size + k] = spare[k * n + i], from_spare[k * n + i]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def max_forward(
    likelihood: FloatArray,
    starts: BoolArray,
    matrices: FloatArray,
    sizes: IntArray,
    initial: FloatArray,
    first: FloatArray,
    is_first: bool,
    vector: FloatArray,
    pointers: Pointers,
) -> None:
    """Best scores of a block; with a row of `pointers` per reading, where each came from.

    `vector` goes in as the scores before the block and comes out as those of its last reading,
    less their maximum.
    """
    current, work, spare = vector.copy(), np.empty_like(vector), np.empty_like(vector)
    origin, from_work = np.empty_like(pointers[0]), np.empty_like(pointers[0])
    from_spare = np.empty_like(pointers[0])
    keep = pointers.shape[0] == starts.size
    for t in range(starts.size):
        if starts[t]:
            last = current.argmax()
            for s in range(origin.size):
                origin[s] = last
            copy_row(first if is_first and t == 0 else initial, current)
        else:
            current, work, origin, from_work = best_step(
                current, work, spare, origin, from_work, from_spare, matrices, sizes
            )
        row, best = likelihood[t], -np.inf
        for s in range(current.size):
            current[s] += row[s]
            best = max(best, current[s])
        for s in range(current.size):
            current[s] -= best
        if keep:
            copy_row(origin, pointers[t])
    copy_row(current, vector)


@numba.njit(cache=True, nogil=True)
def trace_back(pointers: Pointers, last: int, path: IntArray) -> int:
    """Follow the pointers of a block from its last state; returns the state before the block."""
    state = last
    for t in range(pointers.shape[0] - 1, -1, -1):
        path[t] = state
        state = pointers[t, state]
    return state
