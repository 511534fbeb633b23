"""Compiled forward and backward steps of chains that run side by side.

A vector over the joint states is a mixed-radix array whose last digit runs fastest. A step takes
the chains in turn: it mixes along the first digit and writes that digit out as the last, so that
all loops run over long contiguous stretches; after the last chain the digits are back in order.
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

    Returns the array with the result and the one that may be overwritten.
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
    """target[:] = source, which takes seconds to compile."""
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
) -> float:
    """Filter a block; `vector` goes in as the state before it and comes out as its last one."""
    current, work, spare = vector.copy(), np.empty_like(vector), np.empty_like(vector)
    evidence = 0.0
    for t in range(starts.size):
        if starts[t]:
            copy_row(first if is_first and t == 0 else initial, current)
        else:
            current, work = mix(current, work, spare, matrices, steps)
        row, total = likelihood[t], 0.0
        for s in range(current.size):
            current[s] *= row[s]
            total += current[s]
        scale = 1.0 / total
        for s in range(current.size):
            current[s] *= scale
        evidence += np.log(total)
        if kept.size:
            copy_row(current, kept[t])
    copy_row(current, vector)
    return evidence


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
    """Marginals of a block; `beta` goes in as that of its last reading, out as that before it."""
    current, work = beta.copy(), np.empty_like(beta)
    joint, spare = np.empty_like(beta), np.empty_like(beta)
    for t in range(starts.size - 1, -1, -1):
        row, filtered, total = likelihood[t], forward[t], 0.0
        for s in range(joint.size):
            joint[s] = filtered[s] * current[s]
            total += joint[s]
        _marginalise(joint, sizes, 1.0 / total, chances[t])
        if starts[t]:
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
    """Marginals of every chain, folding the joint law over one chain after the other."""
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
