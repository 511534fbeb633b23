"""Markov chains of the appliances, one transition matrix per appliance.

The joint chain of M independent appliances has Π K_m states. Its matrix is never built: a joint
state is a mixed-radix number whose last digit belongs to the last chain, and every step of the
decoders works on one chain at a time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.errors import DataError, InputError

StateArray = NDArray[np.int8]
"""State of a chain at every reading, shape (T,), or of several chains, shape (T, M)."""


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

    def flat(self) -> FloatArray:
        """All transition matrices, row by row in one vector, as the compiled kernels need them."""
        return np.concatenate([matrix.ravel() for matrix in self.transitions])

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
