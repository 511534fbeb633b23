"""Compiled steps of parallel chains: sums for the marginals, maxima for the best path.

A vector over the joint states is a mixed-radix array whose last digit varies fastest. A step takes
the chains in turn: it mixes along the first digit and writes this digit out as the last, so that
all loops run over long contiguous parts of memory. After the last chain the digits are back in
their order.

Chains of two, three and four states have functions of their own. In the functions for the best
path, both sides of a comparison are read before it is made: a read that depends on the comparison
would keep the compiler from vectorising the loop. The previous joint state of every score is
stored next to it.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from hushmeter.checks import BoolArray, FloatArray, IntArray


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def mix(
    vector: FloatArray,
    work: FloatArray,
    spare: FloatArray,
    matrices: FloatArray,
    sizes: IntArray,
) -> tuple[FloatArray, FloatArray]:
    """One step of all chains: out(s) = Σ over s' of vector(s') Π_m A_m(s'_m, s_m).

    Returns the array with the result and an array that can be overwritten.
    """
    offset = 0
    for m in range(sizes.size):
        size = sizes[m]
        matrix = matrices[offset : offset + size * size]
        if size == 2:
            _mix_two(vector, work, matrix)
        elif size == 3:
            _mix_three(vector, work, matrix)
        elif size == 4:
            _mix_four(vector, work, matrix)
        elif size > 1:
            _mix_many(vector, work, spare, matrix, size)
        if size > 1:
            vector, work = work, vector
        offset += size * size
    return vector, work


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def _mix_two(vector: FloatArray, out: FloatArray, a: FloatArray) -> None:
    n = vector.size // 2
    first, second = vector[:n], vector[n:]
    for i in range(n):
        x, y = first[i], second[i]
        out[2 * i] = x * a[0] + y * a[2]
        out[2 * i + 1] = x * a[1] + y * a[3]


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def _mix_three(vector: FloatArray, out: FloatArray, a: FloatArray) -> None:
    n = vector.size // 3
    first, second, third = vector[:n], vector[n : 2 * n], vector[2 * n :]
    for i in range(n):
        x, y, z = first[i], second[i], third[i]
        out[3 * i] = x * a[0] + y * a[3] + z * a[6]
        out[3 * i + 1] = x * a[1] + y * a[4] + z * a[7]
        out[3 * i + 2] = x * a[2] + y * a[5] + z * a[8]


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def _mix_four(vector: FloatArray, out: FloatArray, a: FloatArray) -> None:
    n = vector.size // 4
    first, second = vector[:n], vector[n : 2 * n]
    third, fourth = vector[2 * n : 3 * n], vector[3 * n :]
    for i in range(n):
        w, x, y, z = first[i], second[i], third[i], fourth[i]
        out[4 * i] = w * a[0] + x * a[4] + y * a[8] + z * a[12]
        out[4 * i + 1] = w * a[1] + x * a[5] + y * a[9] + z * a[13]
        out[4 * i + 2] = w * a[2] + x * a[6] + y * a[10] + z * a[14]
        out[4 * i + 3] = w * a[3] + x * a[7] + y * a[11] + z * a[15]


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def _mix_many(
    vector: FloatArray, out: FloatArray, spare: FloatArray, matrix: FloatArray, size: int
) -> None:
    n = vector.size // size
    for to in range(size):
        target, source = spare[to * n : (to + 1) * n], vector[:n]
        for i in range(n):
            target[i] = matrix[to] * source[i]
        for k in range(1, size):
            weight, source = matrix[k * size + to], vector[k * n : (k + 1) * n]
            for i in range(n):
                target[i] += weight * source[i]
    for i in range(n):
        for k in range(size):
            out[i * size + k] = spare[k * n + i]


@numba.njit(cache=True, nogil=True)
def copy_row(source: NDArray[np.generic], target: NDArray[np.generic]) -> None:
    """Copy an array; numba takes seconds to compile `target[:] = source`."""
    for i in range(target.size):
        target[i] = source[i]


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def sum_forward(
    likelihood: FloatArray,
    starts: BoolArray,
    matrices: FloatArray,
    steps: IntArray,
    initial: FloatArray,
    first: FloatArray,
    is_first: bool,
    vector: FloatArray,
    kept: FloatArray,
) -> None:
    """Filter a block of readings.

    `vector` contains the filtered vector before the block, and afterwards that of its last
    reading. If `kept` is not empty, every filtered vector is stored there.
    """
    current, work, spare = vector.copy(), np.empty_like(vector), np.empty_like(vector)
    for t in range(starts.size):
        if starts[t]:
            copy_row(first if is_first and t == 0 else initial, current)
        else:
            current, work = mix(current, work, spare, matrices, steps)
        row, total = likelihood[t], 0.0
        for s in range(current.size):
            current[s] *= row[s]
            total += current[s]
        # Normalised at every reading: products of many likelihoods would underflow.
        scale = 1.0 / total
        for s in range(current.size):
            current[s] *= scale
        if kept.size:
            copy_row(current, kept[t])
    copy_row(current, vector)


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def sum_backward(
    likelihood: FloatArray,
    starts: BoolArray,
    matrices: FloatArray,
    steps: IntArray,
    sizes: IntArray,
    forward: FloatArray,
    beta: FloatArray,
    chances: FloatArray,
) -> None:
    """Marginals of a block, from its filtered vectors `forward`.

    `beta` contains the backward vector of the block's last reading, and afterwards that of the
    reading before the block.
    """
    current, work = beta.copy(), np.empty_like(beta)
    joint, spare = np.empty_like(beta), np.empty_like(beta)
    for t in range(starts.size - 1, -1, -1):
        row, filtered, total = likelihood[t], forward[t], 0.0
        for s in range(joint.size):
            joint[s] = filtered[s] * current[s]
            total += joint[s]
        _marginalise(joint, sizes, 1.0 / total, chances[t])
        if starts[t]:
            # Nothing after a start tells anything about the readings before it.
            for s in range(current.size):
                current[s] = 1.0
            continue
        total = 0.0
        for s in range(current.size):
            current[s] *= row[s]
            total += current[s]
        scale = 1.0 / total
        for s in range(current.size):
            current[s] *= scale
        current, work = mix(current, work, spare, matrices, steps)
    copy_row(current, beta)


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def _marginalise(joint: FloatArray, sizes: IntArray, scale: float, chances: FloatArray) -> None:
    """Marginals of every chain; the joint distribution is summed over one chain at a time."""
    length, offset = joint.size, 0
    for m in range(sizes.size):
        size = sizes[m]
        length //= size
        for k in range(size):
            part, total = joint[k * length : (k + 1) * length], 0.0
            for i in range(length):
                total += part[i]
            chances[offset + k] = total * scale
        head = joint[:length]
        for k in range(1, size):
            part = joint[k * length : (k + 1) * length]
            for i in range(length):
                head[i] += part[i]
        offset += size


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
    """One step of all chains with maxima; `origin` becomes the best previous joint state."""
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
    """Best scores of a block, and the previous joint state of each if `pointers` has all rows.

    `vector` contains the scores before the block, and afterwards those of its last reading. The
    largest score is subtracted at every reading, so that scores do not grow without limit.
    """
    current, work, spare = vector.copy(), np.empty_like(vector), np.empty_like(vector)
    origin, from_work = np.empty_like(pointers[0]), np.empty_like(pointers[0])
    from_spare = np.empty_like(pointers[0])
    keep = pointers.shape[0] == starts.size
    for t in range(starts.size):
        if starts[t]:
            # Runs are independent: every state of a new run follows the best end of the last.
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
    """Follow the pointers of a block back from its last state; returns the state before it."""
    state = last
    for t in range(pointers.shape[0] - 1, -1, -1):
        path[t] = state
        state = pointers[t, state]
    return state
