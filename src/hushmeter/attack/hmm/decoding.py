"""Most probable path and marginal probabilities of parallel chains.

The chains are observed through one reading that depends on all their states. Both recursions work
on one chain at a time, so that a step costs O(Π K · Σ K) instead of the (Π K)² of the joint matrix,
which is never built:

    best path    d_t(s) = ℓ_t(s) + max over s' of d_{t−1}(s') + Σ_m log A_m(s'_m, s_m)
    marginals    a_t(s) ∝ e_t(s) · Σ over s' of a_{t−1}(s') · Π_m A_m(s'_m, s_m), and backwards

Checkpoints bound the memory. A long trace is computed forwards once, and the vector is kept at a
few hundred places. Then the trace is processed part by part from its end, each part in the same
way, until a part is short enough to keep every vector.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from hushmeter.attack.hmm.chains import ChainSet
from hushmeter.attack.hmm.decoding_kernels import max_forward, sum_backward, sum_forward, trace_back
from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.errors import InputError

Emission = Callable[[slice], FloatArray]
"""Function from a slice of the readings to the (log-)likelihoods of the joint states,
shape (rows, Π K)."""

BLOCK_CELLS = 1 << 21
"""Number of entries of a block of which every vector is kept (16 MB of likelihoods and 16 MB of
vectors)."""

CHECKPOINT_CELLS = 1 << 24
"""Number of entries of one level of checkpoints (128 MB)."""


class _Recursion(ABC):
    """The common part of both recursions: blocks, checkpoints and the forward pass."""

    def __init__(
        self, chains: ChainSet, emission: Emission, starts: BoolArray, first: FloatArray | None
    ) -> None:
        self.emission, self.starts = emission, starts
        self.sizes = chains.sizes
        self.initial = chains.joint_initial()
        self.first = self.initial if first is None else first
        if self.first.shape != (chains.states,):
            raise InputError(f"first must have {chains.states} entries, got {self.first.shape}.")
        self.block = max(4, BLOCK_CELLS // chains.states)
        self.fan = max(4, CHECKPOINT_CELLS // chains.states)

    def cut(self, begin: int, stop: int) -> list[int]:
        """Borders of the parts into which the readings begin … stop are divided."""
        length = self.block
        while length * self.fan < stop - begin:
            length *= self.fan
        return [*range(begin, stop, length), stop]

    def advance(self, begin: int, stop: int, vector: FloatArray) -> None:
        """Advance the vector of reading begin − 1 to reading stop − 1, in place."""
        for at in range(begin, stop, self.block):
            rows = slice(at, min(at + self.block, stop))
            self.step(rows, vector)

    @abstractmethod
    def step(self, rows: slice, vector: FloatArray) -> None:
        """Advance the vector over one block of readings, in place."""

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
            self.advance(borders[i - 1], borders[i], kept[i])
        for i in range(len(borders) - 2, -1, -1):
            yield from self.blocks(borders[i], borders[i + 1], kept[i])


class _SumRecursion(_Recursion):
    """Forward–backward recursion for the marginal probabilities."""

    def __init__(
        self, chains: ChainSet, emission: Emission, starts: BoolArray, first: FloatArray | None
    ) -> None:
        super().__init__(chains, emission, starts, first)
        steps = _pair_up(chains.transitions)
        self.steps = np.array([matrix.shape[0] for matrix in steps], dtype=np.int64)
        self.onward = np.concatenate([matrix.ravel() for matrix in steps])
        self.back = np.concatenate([matrix.T.ravel() for matrix in steps])

    def step(self, rows: slice, vector: FloatArray) -> None:
        self.filter(rows, self.emission(rows), vector, np.empty((0, 0)))

    def filter(
        self, rows: slice, likelihood: FloatArray, vector: FloatArray, kept: FloatArray
    ) -> None:
        """Advance over a block; every vector is stored in `kept` if it is not empty."""
        sum_forward(
            likelihood,
            self.starts[rows],
            self.onward,
            self.steps,
            self.initial,
            self.first,
            rows.start == 0,
            vector,
            kept,
        )

    def smooth(
        self,
        rows: slice,
        likelihood: FloatArray,
        kept: FloatArray,
        beta: FloatArray,
        chances: FloatArray,
    ) -> None:
        """Marginals of a block, from its filtered vectors `kept`."""
        starts = self.starts[rows]
        sum_backward(likelihood, starts, self.back, self.steps, self.sizes, kept, beta, chances)


class _MaxRecursion(_Recursion):
    """Viterbi recursion for the most probable path."""

    def __init__(
        self, chains: ChainSet, emission: Emission, starts: BoolArray, first: FloatArray | None
    ) -> None:
        super().__init__(chains, emission, starts, first)
        with np.errstate(divide="ignore"):
            self.onward = np.log(chains.flat())
            self.initial, self.first = np.log(self.initial), np.log(self.first)
        self.pointer = np.dtype(np.uint16 if chains.states <= 1 << 16 else np.uint32)

    def step(self, rows: slice, vector: FloatArray) -> None:
        self.point(rows, vector, np.empty((1, vector.size), self.pointer))

    def point(self, rows: slice, vector: FloatArray, pointers: NDArray[np.unsignedinteger]) -> None:
        """Advance over a block; store the best previous state of every joint state."""
        max_forward(
            self.emission(rows),
            self.starts[rows],
            self.onward,
            self.sizes,
            self.initial,
            self.first,
            rows.start == 0,
            vector,
            pointers,
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
    if joint:
        # All chains together are one chain, over which nothing is summed.
        recursion.sizes = np.array([chains.states], dtype=recursion.sizes.dtype)
    longest = min(recursion.block, starts.size)
    kept = np.empty((longest, chains.states))
    chances = np.empty((longest, int(recursion.sizes.sum())))
    beta = np.ones(chains.states)
    for rows, vector in recursion.blocks(0, starts.size, np.ones(chains.states)):
        size = rows.stop - rows.start
        likelihood = emission(rows)
        recursion.filter(rows, likelihood, vector.copy(), kept[:size])
        recursion.smooth(rows, likelihood, kept[:size], beta, chances[:size])
        yield rows, chances[:size]
