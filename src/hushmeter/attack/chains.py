"""Parallel Markov chains: their most probable path and their marginal probabilities.

The chains are observed through one reading that depends on all their states. The joint chain of M
chains has Π K_m states. Its matrix is never built: a joint state is a mixed-radix number whose last
digit belongs to the last chain, and both recursions work on one chain at a time, so that a step
costs O(Π K · Σ K) instead of (Π K)²:

    best path    d_t(s) = ℓ_t(s) + max over s' of d_{t−1}(s') + Σ_m log A_m(s'_m, s_m)
    marginals    a_t(s) ∝ e_t(s) · Σ over s' of a_{t−1}(s') · Π_m A_m(s'_m, s_m), and backwards

Checkpoints bound the memory. A long trace is computed forwards once, and the vector is kept at a
few hundred places. Then the trace is processed part by part from its end, each part in the same
way, until a part is short enough to keep every vector.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.compiled import compiled
from hushmeter.errors import DataError, InputError

StateArray = NDArray[np.int8]
"""State of a chain at every reading, shape (T,), or of several chains, shape (T, M)."""

Pointers = NDArray[np.unsignedinteger]
"""Best previous joint state of every joint state."""


@dataclass(frozen=True)
class ChainSet:
    """Independent Markov chains that run in parallel."""

    transitions: tuple[FloatArray, ...]  # Row k is the distribution of the next state after state k
    # Distribution of the state at the first reading of a contiguous run
    initial: tuple[FloatArray, ...]

    def __post_init__(self) -> None:
        if not self.transitions or len(self.transitions) != len(self.initial):
            raise InputError("a chain set needs one matrix and one initial distribution per chain.")
        for matrix, law in zip(self.transitions, self.initial, strict=True):
            if matrix.shape != (law.size, law.size):
                raise InputError(f"a chain has matrix {matrix.shape} and {law.size} states.")
            sums = np.append(matrix.sum(axis=1), law.sum())
            if matrix.min() < 0 or law.min() < 0 or np.abs(sums - 1).max() > 1e-9:
                raise InputError("rows and initial distributions must sum to one.")

    @cached_property
    def sizes(self) -> IntArray:
        """Number of states K of every chain, shape (M,)."""
        return np.array([law.size for law in self.initial], dtype=np.int64)

    @property
    def states(self) -> int:
        """Number of joint states, Π K."""
        return math.prod(int(k) for k in self.sizes)

    def restricted(self, known: Sequence[BoolArray | None] | None) -> list[FloatArray]:
        """Initial distributions of the chains, restricted to possible states.

        `known` gives the possible states of each chain, or None for all. If the possible states
        of a chain all have probability zero, the chain starts in them with equal probability.
        """
        laws = list(self.initial)
        for m, allowed in enumerate(known or ()):
            if allowed is not None:
                law = np.where(allowed, laws[m], 0.0)
                laws[m] = law / law.sum() if law.sum() > 0 else allowed / allowed.sum()
        return laws

    def joint_initial(self, known: Sequence[BoolArray | None] | None = None) -> FloatArray:
        """Initial distribution of the joint state, shape (Π K,), restricted as in `restricted`."""
        joint = np.ones(1)
        for law in self.restricted(known):
            joint = np.multiply.outer(joint, law).ravel()
        return joint

    def split(self, joint: NDArray[np.integer]) -> StateArray:
        """Split joint states (T,) into the states of every chain, int8 (T, M)."""
        digits = np.empty((joint.size, self.sizes.size), np.int8)
        rest = joint.astype(np.int64)
        for m in range(self.sizes.size - 1, -1, -1):
            rest, digits[:, m] = np.divmod(rest, self.sizes[m])
        return digits


def outer_sum(values: Iterable[ArrayLike]) -> FloatArray:
    """Sums of one entry from each vector; the index of the last vector varies fastest."""
    total = np.zeros(1)
    for row in values:
        total = np.add.outer(total, np.asarray(row, dtype=np.float64)).ravel()
    return total


def count_transitions(
    states: StateArray, size: int, run_starts: BoolArray, prior: float
) -> tuple[FloatArray, FloatArray]:
    """Count the transition matrix and the initial distribution of one chain.

    Notes
    -----
    A_kl = (n_kl + prior·π_l) / (n_k + prior), where n counts transitions within contiguous runs
    and π is the share of each state, smoothed with half a reading per state. A state that did
    not occur is followed by the others with their probabilities π.
    """
    seen = np.bincount(states, minlength=size).astype(np.float64) + 0.5
    share = seen / seen.sum()
    inside = ~run_starts[1:]
    pairs = states[:-1][inside].astype(np.int64) * size + states[1:][inside]
    counts = np.bincount(pairs, minlength=size * size).reshape(size, size) + prior * share
    return counts / counts.sum(axis=1, keepdims=True), share


def check_states(loads: int, idle: IntArray, *parts: tuple[FloatArray, ...]) -> None:
    """Check that the arrays of a saved attacker belong together."""
    if not all(isinstance(part, tuple) and len(part) == loads for part in parts):
        raise DataError(f"the states of {loads} loads are wanted.")
    for row in itertools.chain(*parts):
        if not isinstance(row, np.ndarray) or row.dtype != np.float64 or row.size == 0:
            raise DataError("states must be arrays of numbers.")
        if not np.isfinite(row).all():
            raise DataError("states must be finite.")
    sizes = ChainSet(*parts[:2]).sizes
    for part in parts[2:]:
        if [row.shape for row in part] != [(int(k),) for k in sizes]:
            raise DataError("every state of every load needs its own value.")
    if not isinstance(idle, np.ndarray) or idle.shape != (loads,) or idle.dtype.kind != "i":
        raise DataError(f"the idle states of {loads} loads are wanted.")
    if (idle < 1).any() or (idle > sizes).any():
        raise DataError("a load has at least one idle state and no more than it has states.")


Emission = Callable[[slice], FloatArray]
"""Function from a slice of the readings to the (log-)likelihoods of the joint states,
shape (rows, Π K)."""

BLOCK_CELLS = 1 << 21
"""Number of entries of a block of which every vector is kept (16 MB of likelihoods and 16 MB of
vectors)."""

CHECKPOINT_CELLS = 1 << 24
"""Number of entries of one level of checkpoints (128 MB)."""

TILE = 256
"""Number of entries of a vector that a step of one chain works on at a time."""


class _Recursion(ABC):
    """The common part of both recursions: blocks, checkpoints and the forward pass."""

    def __init__(
        self, chains: ChainSet, emission: Emission, starts: BoolArray, first: FloatArray | None
    ) -> None:
        self.emission, self.starts = emission, starts
        self.initial = chains.joint_initial()
        self.first = self.initial if first is None else first
        if self.first.shape != (chains.states,):
            raise InputError(f"first must have {chains.states} entries, got {self.first.shape}.")
        self.block = max(4, BLOCK_CELLS // chains.states)
        self.fan = max(4, CHECKPOINT_CELLS // chains.states)

    @abstractmethod
    def step(self, rows: slice, vector: FloatArray) -> None:
        """Advance the vector over one block of readings, in place."""

    def opening(self, rows: slice) -> FloatArray:
        """Distribution of the joint state if a run starts with the block."""
        return self.first if rows.start == 0 else self.initial

    def cut(self, begin: int, stop: int) -> list[int]:
        """Borders of the parts into which the readings begin … stop are divided."""
        length = self.block
        while length * self.fan < stop - begin:
            length *= self.fan
        return [*range(begin, stop, length), stop]

    def blocks(
        self, begin: int, stop: int, vector: FloatArray
    ) -> Iterator[tuple[slice, FloatArray]]:
        """Blocks from the last to the first, each with the vector of the reading before it."""
        if stop - begin <= self.block:
            yield slice(begin, stop), vector
            return
        borders = self.cut(begin, stop)
        kept = np.empty((len(borders) - 1, vector.size))
        kept[0] = vector
        for i in range(1, len(borders) - 1):
            kept[i] = kept[i - 1]
            for at in range(borders[i - 1], borders[i], self.block):
                self.step(slice(at, min(at + self.block, borders[i])), kept[i])
        for i in range(len(borders) - 2, -1, -1):
            yield from self.blocks(borders[i], borders[i + 1], kept[i])


class _SumRecursion(_Recursion):
    """Forward–backward recursion for the marginal probabilities."""

    def __init__(
        self, chains: ChainSet, emission: Emission, starts: BoolArray, first: FloatArray | None
    ) -> None:
        super().__init__(chains, emission, starts, first)
        steps = _pair_up(chains.transitions)
        self.sizes = np.array([matrix.shape[0] for matrix in steps], dtype=np.int64)
        self.onward = np.concatenate([matrix.ravel() for matrix in steps])
        self.back = np.concatenate([matrix.T.ravel() for matrix in steps])

    def step(self, rows: slice, vector: FloatArray) -> None:
        self.filter(rows, self.emission(rows), vector, np.empty((0, 0)))

    def filter(
        self, rows: slice, likelihood: FloatArray, vector: FloatArray, kept: FloatArray
    ) -> None:
        """Advance over a block; every vector is stored in `kept` if it is not empty."""
        opening, starts = self.opening(rows), self.starts[rows]
        sum_forward(
            likelihood, starts, self.onward, self.sizes, self.initial, opening, vector, kept
        )


class _MaxRecursion(_Recursion):
    """Viterbi recursion for the most probable path."""

    def __init__(
        self, chains: ChainSet, emission: Emission, starts: BoolArray, first: FloatArray | None
    ) -> None:
        super().__init__(chains, emission, starts, first)
        self.sizes = chains.sizes
        with np.errstate(divide="ignore"):
            self.onward = np.log(np.concatenate([matrix.ravel() for matrix in chains.transitions]))
            self.initial, self.first = np.log(self.initial), np.log(self.first)
        self.pointer = np.dtype(np.uint16 if chains.states <= 1 << 16 else np.uint32)

    def step(self, rows: slice, vector: FloatArray) -> None:
        self.point(rows, vector, np.empty((1, vector.size), self.pointer))

    def point(self, rows: slice, vector: FloatArray, pointers: Pointers) -> None:
        """Advance over a block; store the best previous state of every joint state."""
        scores, opening, starts = self.emission(rows), self.opening(rows), self.starts[rows]
        max_forward(
            scores, starts, self.onward, self.sizes, self.initial, opening, vector, pointers
        )


def _pair_up(matrices: tuple[FloatArray, ...]) -> list[FloatArray]:
    """Combine neighbouring chains of two states into one of four.

    A step reads and writes the whole vector once per chain, so this halves the memory traffic.
    """
    steps: list[FloatArray] = []
    for matrix in matrices:
        if steps and steps[-1].shape[0] == matrix.shape[0] == 2:
            steps[-1] = np.kron(steps[-1], matrix).astype(np.float64)
        else:
            steps.append(matrix)
    return steps


def best_path(
    chains: ChainSet, emission: Emission, starts: BoolArray, first: FloatArray | None = None
) -> IntArray:
    """Find the most probable sequence of joint states (Viterbi)."""
    recursion = _MaxRecursion(chains, emission, starts, first)
    path = np.empty(starts.size, np.int64)
    at = -1
    for rows, vector in recursion.blocks(0, starts.size, np.zeros(chains.states)):
        pointers = np.empty((rows.stop - rows.start, chains.states), recursion.pointer)
        vector = vector.copy()
        recursion.point(rows, vector, pointers)
        if at < 0:
            at = int(vector.argmax())
        at = trace_back(pointers, at, path[rows])
    return path


def chain_marginals(
    chains: ChainSet,
    emission: Emission,
    starts: BoolArray,
    first: FloatArray | None = None,
    *,
    joint: bool = False,
) -> Iterator[tuple[slice, FloatArray]]:
    """Compute P(state of each chain | all readings), block by block from the end of the trace.

    The parameters are those of `best_path`, but `emission` returns likelihoods, not logarithms.
    With `joint` the probabilities are those of the joint states, shape (rows, Π K).
    """
    recursion = _SumRecursion(chains, emission, starts, first)
    # All chains together are one chain, over which nothing is summed.
    sizes = np.array([chains.states], dtype=np.int64) if joint else chains.sizes
    longest = min(recursion.block, starts.size)
    kept = np.empty((longest, chains.states))
    chances = np.empty((longest, int(sizes.sum())))
    beta = np.ones(chains.states)
    for rows, vector in recursion.blocks(0, starts.size, np.ones(chains.states)):
        size, likelihood = rows.stop - rows.start, emission(rows)
        recursion.filter(rows, likelihood, vector.copy(), kept[:size])
        sum_backward(
            likelihood,
            starts[rows],
            recursion.back,
            recursion.sizes,
            sizes,
            kept[:size],
            beta,
            chances[:size],
        )
        yield rows, chances[:size]


def expect_transitions(
    likelihood: FloatArray, starts: BoolArray, matrix: FloatArray, initial: FloatArray
) -> tuple[FloatArray, FloatArray, float]:
    """Marginals (T, K), expected transitions (K, K) and log-evidence of one chain.

    With the filtered probabilities f, the predictions p_t = f_{t−1} A and the marginals g, the
    expected transitions from j to k are A_jk Σ_t f_{t−1}(j) g_t(k) / p_t(k).
    """
    size = np.array([initial.size], dtype=np.int64)
    filtered, chances = np.empty_like(likelihood), np.empty_like(likelihood)
    vector, beta = np.ones(initial.size), np.ones(initial.size)
    sum_forward(likelihood, starts, matrix.ravel(), size, initial, initial, vector, filtered)
    back = matrix.T.ravel()
    sum_backward(likelihood, starts, back, size, size, filtered, beta, chances)
    predicted = np.vstack([initial, filtered[:-1] @ matrix])
    predicted[starts] = initial
    evidence = float(np.log((predicted * likelihood).sum(axis=1)).sum())
    inside = np.flatnonzero(~starts)
    ratio = chances[inside] / np.maximum(predicted[inside], np.finfo(float).tiny)
    return chances, matrix * (filtered[inside - 1].T @ ratio), evidence


# A vector over the joint states is a mixed-radix array whose last digit varies fastest. A step
# takes the chains in turn: it mixes along the first digit and writes this digit out as the last, so
# that the innermost loops run over contiguous memory. After the last chain the digits are back in
# their order. A tile of `TILE` entries stays in the fastest cache while its sum or maximum grows.


@compiled(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def mix(
    vector: FloatArray, work: FloatArray, matrices: FloatArray, sizes: IntArray
) -> tuple[FloatArray, FloatArray]:
    """One step of all chains: out(s) = Σ over s' of vector(s') Π_m A_m(s'_m, s_m).

    Returns the array with the result and an array that can be overwritten.
    """
    offset, tile = 0, np.empty(TILE)
    for size in sizes:
        n = vector.size // size
        for begin in range(0, n if size > 1 else 0, TILE):
            length = min(TILE, n - begin)
            for to in range(size):
                for i in range(length):
                    tile[i] = 0.0
                for k in range(size):
                    weight, first = matrices[offset + k * size + to], k * n + begin
                    source = vector[first : first + length]
                    for i in range(length):
                        tile[i] += weight * source[i]
                out = work[begin * size + to :]
                for i in range(length):
                    out[i * size] = tile[i]
        if size > 1:
            vector, work = work, vector
        offset += size * size
    return vector, work


@compiled(cache=True, nogil=True)
def copy_row(source: NDArray[np.generic], target: NDArray[np.generic]) -> None:
    """Copy an array; numba takes seconds to compile `target[:] = source`."""
    for i in range(target.size):
        target[i] = source[i]


@compiled(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def sum_forward(
    likelihood: FloatArray,
    starts: BoolArray,
    matrices: FloatArray,
    steps: IntArray,
    initial: FloatArray,
    opening: FloatArray,
    vector: FloatArray,
    kept: FloatArray,
) -> None:
    """Filter a block of readings.

    A run starts with the distribution `initial`, or `opening` if the block starts with it. `vector`
    contains the filtered vector before the block, and afterwards that of its last reading. If
    `kept` is not empty, every filtered vector is stored there.
    """
    current, work = vector.copy(), np.empty_like(vector)
    for t in range(starts.size):
        if starts[t]:
            copy_row(opening if t == 0 else initial, current)
        else:
            current, work = mix(current, work, matrices, steps)
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


@compiled(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
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
    joint = np.empty_like(beta)
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
        current, work = mix(current, work, matrices, steps)
    copy_row(current, beta)


@compiled(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
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


@compiled(cache=True, nogil=True, error_model="numpy")
def best_of_two(
    vector: FloatArray,
    work: FloatArray,
    origin: Pointers,
    from_work: Pointers,
    matrix: FloatArray,
) -> None:
    """The step of one chain of two states: each score is read once and not copied to a tile."""
    n = vector.size // 2
    first, second, first_from, second_from = vector[:n], vector[n:], origin[:n], origin[n:]
    for i in range(n):
        x, y, from_x, from_y = first[i], second[i], first_from[i], second_from[i]
        stay, enter = x + matrix[0], y + matrix[2]
        leave, remain = x + matrix[1], y + matrix[3]
        work[2 * i] = enter if enter > stay else stay
        from_work[2 * i] = from_y if enter > stay else from_x
        work[2 * i + 1] = remain if remain > leave else leave
        from_work[2 * i + 1] = from_y if remain > leave else from_x


@compiled(cache=True, nogil=True, error_model="numpy")
def best_step(
    vector: FloatArray,
    work: FloatArray,
    origin: Pointers,
    from_work: Pointers,
    matrices: FloatArray,
    sizes: IntArray,
    special: bool = True,
) -> tuple[FloatArray, FloatArray, Pointers, Pointers]:
    """One step of all chains with maxima; `origin` becomes the best previous joint state.

    Chains of two states, which are most appliances, have a kernel of their own; without `special`
    the general one serves them too, with the same result.
    """
    for s in range(vector.size):
        origin[s] = s
    offset, tile, tile_from = 0, np.empty(TILE), np.empty(TILE, origin.dtype)
    for size in sizes:
        n = vector.size // size
        pair = size == 2 and special
        if pair:
            best_of_two(vector, work, origin, from_work, matrices[offset : offset + 4])
        for begin in range(0, n if size > 1 and not pair else 0, TILE):
            length = min(TILE, n - begin)
            for to in range(size):
                for i in range(length):
                    tile[i], tile_from[i] = -np.inf, origin[begin + i]
                for k in range(size):
                    gain, first = matrices[offset + k * size + to], k * n + begin
                    source = vector[first : first + length]
                    source_from = origin[first : first + length]
                    for i in range(length):
                        # Both sides are read before the comparison: a read that depends on it
                        # would keep the compiler from vectorising the loop.
                        value, before = source[i] + gain, tile[i]
                        from_value, from_before = source_from[i], tile_from[i]
                        better = value > before
                        tile[i] = value if better else before
                        tile_from[i] = from_value if better else from_before
                out, out_from = work[begin * size + to :], from_work[begin * size + to :]
                for i in range(length):
                    out[i * size], out_from[i * size] = tile[i], tile_from[i]
        if size > 1:
            vector, work, origin, from_work = work, vector, from_work, origin
        offset += size * size
    return vector, work, origin, from_work


@compiled(cache=True, nogil=True, error_model="numpy")
def max_forward(
    likelihood: FloatArray,
    starts: BoolArray,
    matrices: FloatArray,
    sizes: IntArray,
    initial: FloatArray,
    opening: FloatArray,
    vector: FloatArray,
    pointers: Pointers,
) -> None:
    """Best scores of a block, and the previous joint state of each if `pointers` has all rows.

    `vector` contains the scores before the block, and afterwards those of its last reading. The
    largest score is subtracted at every reading, so that scores do not grow without limit.
    """
    current, work = vector.copy(), np.empty_like(vector)
    origin, from_work = np.empty_like(pointers[0]), np.empty_like(pointers[0])
    keep = pointers.shape[0] == starts.size
    for t in range(starts.size):
        if starts[t]:
            # Runs are independent: every state of a new run follows the best end of the last.
            last = current.argmax()
            for s in range(origin.size):
                origin[s] = last
            copy_row(opening if t == 0 else initial, current)
        else:
            current, work, origin, from_work = best_step(
                current, work, origin, from_work, matrices, sizes
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


@compiled(cache=True, nogil=True)
def trace_back(pointers: Pointers, last: int, path: IntArray) -> int:
    """Follow the pointers of a block back from its last state; returns the state before it."""
    state = last
    for t in range(pointers.shape[0] - 1, -1, -1):
        path[t] = state
        state = pointers[t, state]
    return state
