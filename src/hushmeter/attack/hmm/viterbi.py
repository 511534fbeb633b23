"""Best path and marginals of chains that run side by side and are seen through one reading.

Both recursions treat one chain at a time, so that a step costs O(Π K · Σ K) instead of the
(Π K)² of the joint matrix, which is never built:

    best path    d_t(s) = ℓ_t(s) + max over s' of d_{t−1}(s') + Σ_m log A_m(s'_m, s_m)
    marginals    a_t(s) ∝ e_t(s) · Σ over s' of a_{t−1}(s') · Π_m A_m(s'_m, s_m), and backwards

Memory is bounded by checkpoints: a long trace is walked forwards once, keeping the vector at a
few hundred places, and then worked through span by span from its end, each span in the same way
until it is short enough to keep every vector.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from hushmeter.attack.hmm.best_kernels import max_forward, trace_back
from hushmeter.attack.hmm.sum_kernels import sum_backward, sum_forward
from hushmeter.attack.hmm.transitions import ChainSet
from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.errors import InputError

Emission = Callable[[slice], FloatArray]
"""Rows of (log-)likelihoods of the joint states, (rows, Π K), for a slice of the readings."""

BLOCK_CELLS = 1 << 21
"""Entries of a block whose vectors are all kept (16 MB each of likelihoods and vectors)."""

CHECKPOINT_CELLS = 1 << 24
"""Entries of one level of checkpoints (128 MB)."""


class _Walk(ABC):
    """What both recursions share: the plan of blocks and checkpoints, and the forward walk."""

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
        """Borders of the spans that begin … stop is worked through in."""
        length = self.block
        while length * self.fan < stop - begin:
            length *= self.fan
        return [*range(begin, stop, length), stop]

    def advance(self, begin: int, stop: int, vector: FloatArray) -> None:
        """Move the vector of reading begin − 1 on to reading stop − 1, in place."""
        for at in range(begin, stop, self.block):
            rows = slice(at, min(at + self.block, stop))
            self.step(rows, vector)

    @abstractmethod
    def step(self, rows: slice, vector: FloatArray) -> None:
        """Move the vector on over one block of readings, in place."""

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


class _SumWalk(_Walk):
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
    ) -> float:
        """Advance, keeping every vector where `kept` has room; the log of the evidence."""
        at_first = rows.start == 0
        starts = self.starts[rows]
        evidence: float = sum_forward(
            likelihood,
            starts,
            self.onward,
            self.steps,
            self.initial,
            self.first,
            at_first,
            vector,
            kept,
        )
        return evidence

    def smooth(
        self,
        rows: slice,
        likelihood: FloatArray,
        kept: FloatArray,
        beta: FloatArray,
        chances: FloatArray,
    ) -> None:
        """Marginals of a block whose filtered vectors were kept."""
        starts = self.starts[rows]
        sum_backward(likelihood, starts, self.back, self.steps, self.sizes, kept, beta, chances)


class _MaxWalk(_Walk):
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
        """Advance, keeping for every joint state the one it came from (in the last rows)."""
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
    """Neighbouring chains of two states as one of four: half the walks through memory."""
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
    """Most probable sequence of joint states, int64 (T,).

    Parameters
    ----------
    chains : ChainSet
    emission : callable
        slice → log-likelihood of each joint state at these readings, (rows, Π K).
    starts : array of bool, shape (T,)
        Where a contiguous run starts: the chains start anew from their initial law.
    first : array, shape (Π K,), optional
        Law of the joint state at the very first reading; the chains' initial law if not given.
    """
    walk = _MaxWalk(chains, emission, starts, first)
    path = np.empty(starts.size, np.int64)
    at = -1
    for rows, vector in walk.blocks(0, starts.size, np.zeros(chains.states)):
        pointers = np.empty((rows.stop - rows.start, chains.states), walk.pointer)
        vector = vector.copy()
        walk.point(rows, vector, pointers)
        if at < 0:
            at = int(vector.argmax())
        at = trace_back(pointers, at, path[rows])
    return path


def chain_marginals(
    chains: ChainSet, emission: Emission, starts: BoolArray, first: FloatArray | None = None
) -> Iterator[tuple[slice, FloatArray]]:
    """P(state of each chain | all readings), block by block from the end of the trace.

    Yields
    ------
    rows : slice
        The readings of the block.
    chances : array, shape (rows, Σ K)
        The marginals of the chains side by side; each chain's part of a row sums to one. The
        array is used again for the next block.

    See `best_path` for the parameters; `emission` gives likelihoods, not their logarithms.
    """
    walk = _SumWalk(chains, emission, starts, first)
    longest = min(walk.block, starts.size)
    kept = np.empty((longest, chains.states))
    chances = np.empty((longest, int(chains.sizes.sum())))
    beta = np.ones(chains.states)
    for rows, vector in walk.blocks(0, starts.size, np.ones(chains.states)):
        size = rows.stop - rows.start
        likelihood = emission(rows)
        walk.filter(rows, likelihood, vector.copy(), kept[:size])
        walk.smooth(rows, likelihood, kept[:size], beta, chances[:size])
        yield rows, chances[:size]


def log_evidence(
    chains: ChainSet, emission: Emission, starts: BoolArray, first: FloatArray | None = None
) -> float:
    """log P(all readings): the sum of the logarithms of the forward recursion's norms."""
    walk = _SumWalk(chains, emission, starts, first)
    vector, total = np.ones(chains.states), 0.0
    for at in range(0, starts.size, walk.block):
        rows = slice(at, min(at + walk.block, starts.size))
        total += walk.filter(rows, emission(rows), vector, np.empty((0, 0)))
    return total
