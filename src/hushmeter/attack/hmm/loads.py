"""A home as loads whose sum is observed with noise: exact decoding, and a beam for large homes.

The beam keeps only the `width` most probable joint states at every reading. From one reading to
the next, one load can change its state, or two loads if the joint state is among the best few.
Within these limits the recursions are exact: forwards over the kept states, and backwards over the
same states. At the first reading of a run the joint states are built load by load, largest first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hushmeter.attack.base import NoiseDistribution
from hushmeter.attack.hmm.beam_kernels import EMPTY, Beam, Densities, Loads, smooth, walk
from hushmeter.attack.hmm.chains import ChainSet, outer_sum
from hushmeter.attack.hmm.decoding import best_path, chain_marginals
from hushmeter.attack.hmm.emission import RATIO, NoisyEmission
from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.errors import InputError

Known = Sequence[BoolArray | None]
"""Possible states of each load at the first reading; None for all states."""

BLOCK = 2048
"""Number of readings whose kept states are held at a time."""


@dataclass(frozen=True)
class LoadModel:
    """Loads with their states, and the distribution of their observed sum."""

    # Mean [W] and variance [W²] of the power of each load in each state
    means: tuple[FloatArray, ...]
    variances: tuple[FloatArray, ...]
    # Chain of each load, as in `ChainSet`
    transitions: tuple[FloatArray, ...]
    initial: tuple[FloatArray, ...]
    variance: float  # Variance of the sum that belongs to no load. [W²]
    noise: NoiseDistribution | None  # Known noise of the readings
    outlier: float  # Share of readings that no state explains

    @property
    def chains(self) -> ChainSet:
        """Chains of the loads."""
        return ChainSet(self.transitions, self.initial)

    def subset(self, loads: Sequence[int] | IntArray) -> LoadModel:
        """Model of some of the loads, in the given order."""
        return replace(
            self,
            means=tuple(self.means[i] for i in loads),
            variances=tuple(self.variances[i] for i in loads),
            transitions=tuple(self.transitions[i] for i in loads),
            initial=tuple(self.initial[i] for i in loads),
        )

    def emission(self, reach: float) -> NoisyEmission:
        """Densities of readings up to `reach` [W] away from the power of a state."""
        return NoisyEmission(
            outer_sum(self.means),
            outer_sum(self.variances) + self.variance,
            self.noise,
            self.outlier,
            reach,
        )

    def reach(self, readings: FloatArray) -> float:
        """Largest distance [W] between a reading and the power of a state."""
        highest = sum(float(watts.max()) for watts in self.means)
        lowest = sum(float(watts.min()) for watts in self.means)
        return max(float(readings.max()) - lowest, highest - float(readings.min()))

    def marginals(
        self, readings: FloatArray, starts: BoolArray, known: Known | None = None
    ) -> Iterator[tuple[slice, FloatArray]]:
        """Compute the exact marginals of all loads, block by block: see `chain_marginals`."""
        chains, emission = self.chains, self.emission(self.reach(readings))
        first = chains.joint_initial(known)
        return chain_marginals(
            chains, lambda rows: emission.densities(readings[rows]), starts, first
        )

    def sum_moments(self, readings: FloatArray, starts: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Mean [W] and variance [W²] of the sum of all loads given all readings, shape (T,)."""
        chains, emission = self.chains, self.emission(self.reach(readings))
        watts = outer_sum(self.means)
        squares = watts**2 + outer_sum(self.variances)
        means, seconds = np.empty((2, readings.size))
        blocks = chain_marginals(
            chains, lambda rows: emission.densities(readings[rows]), starts, joint=True
        )
        for rows, chances in blocks:
            means[rows], seconds[rows] = chances @ watts, chances @ squares
        return means, np.maximum(seconds - means**2, 0.0)

    def path(self, readings: FloatArray, starts: BoolArray, known: Known | None = None) -> IntArray:
        """Find the states of all loads on the most probable joint path, shape (T, M)."""
        chains, emission = self.chains, self.emission(self.reach(readings))
        first = chains.joint_initial(known)
        joint = best_path(
            chains, lambda rows: np.log(emission.densities(readings[rows])), starts, first
        )
        return chains.split(joint).astype(np.int64)


class BeamSearch:
    """Approximate recursions of a model over one trace that keep the best joint states."""

    def __init__(
        self,
        model: LoadModel,
        readings: FloatArray,
        starts: BoolArray,
        width: int,
        known: Known | None = None,
    ) -> None:
        self.model, self.starts, self.width = model, starts, width
        # The copy is writable: numba would compile the kernels again for read-only readings.
        self.readings = readings.copy()
        self.order = np.argsort(
            [-_spread(model, m) for m in range(len(model.means))], kind="stable"
        )
        ranked = None if known is None else [known[m] for m in self.order]
        self.loads = _loads(model.subset(self.order), ranked)
        self.tables = _tables(model, model.reach(readings))

    def blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        """Compute the marginals of the loads, block by block from the end.

        The output is that of `chain_marginals`, in the order of the model.
        """
        sizes = [law.size for law in self.model.initial]
        columns = np.argsort(
            np.concatenate([_columns(sizes, m) for m in self.order]), kind="stable"
        )
        later, codes = np.empty(0), np.empty(0, np.int64)
        for rows, kept in self._kept_blocks(best=False):
            chances = np.zeros((rows.stop - rows.start, sum(sizes)))
            later, codes = smooth(self.loads, self.starts[rows], kept, codes, later, chances)
            yield rows, chances[:, columns]

    def path(self) -> IntArray:
        """Find the states of all loads on the best kept path, shape (T, M)."""
        joint = np.empty(self.readings.size, np.int64)
        place = -1
        for rows, kept in self._kept_blocks(best=True):
            for t in range(rows.stop - rows.start - 1, -1, -1):
                if place < 0:
                    live = kept.codes[t] != EMPTY
                    place = int(np.where(live, kept.weights[t], -1.0).argmax())
                joint[rows.start + t] = kept.codes[t, place]
                place = int(kept.parents[t, place])
        states = np.empty((joint.size, self.order.size), np.int64)
        for place, m in enumerate(self.order):
            states[:, m] = (joint >> self.loads.shifts[place]) & self.loads.masks[place]
        return states

    def _kept_blocks(self, *, best: bool) -> Iterator[tuple[slice, Beam]]:
        """Kept states of every block, from the last block to the first."""
        begins = list(range(0, self.readings.size, BLOCK))
        states = [(np.empty(0, np.int64), np.empty(0))]
        none = _beam(0, self.width)
        for begin in begins[:-1]:
            states.append(self._walk(begin, states[-1], best, none))
        for begin, before in zip(reversed(begins), reversed(states), strict=True):
            stop = min(begin + BLOCK, self.readings.size)
            kept = _beam(stop - begin, self.width)
            self._walk(begin, before, best, kept)
            yield slice(begin, stop), kept

    def _walk(
        self, begin: int, before: tuple[IntArray, FloatArray], best: bool, kept: Beam
    ) -> tuple[IntArray, FloatArray]:
        rows = slice(begin, begin + BLOCK)
        after: tuple[IntArray, FloatArray] = walk(
            self.loads,
            self.tables,
            self.readings[rows],
            self.starts[rows],
            begin == 0,
            *before,
            best,
            kept,
            self.width,
        )
        return after


def _beam(rows: int, width: int) -> Beam:
    shape = (rows, width)
    return Beam(
        np.empty(shape, np.int64), np.empty(shape), np.empty(shape), np.empty(shape, np.int64)
    )


def _columns(sizes: list[int], load: int) -> IntArray:
    """Columns of one load in an array of the states of all loads."""
    before = sum(sizes[:load])
    return np.arange(before, before + sizes[load])


def _spread(model: LoadModel, load: int) -> float:
    """Long-run variance of a load's power [W²]."""
    law, means, variances = model.initial[load], model.means[load], model.variances[load]
    return float(law @ (variances + means**2) - (law @ means) ** 2)


def _loads(model: LoadModel, known: Known | None) -> Loads:
    sizes = np.array([law.size for law in model.initial], dtype=np.int64)
    bits = np.array([(int(k) - 1).bit_length() for k in sizes])
    if bits.sum() > 62:
        raise InputError(f"the home has too many states: they take {bits.sum()} bits, not 62.")
    first = model.chains.restricted(known)
    spreads = np.array([_spread(model, m) for m in range(sizes.size)])
    means = np.array([law @ mean for law, mean in zip(model.initial, model.means, strict=True)])
    return Loads(
        np.concatenate(model.means),
        np.concatenate(model.variances),
        np.concatenate(model.initial),
        np.concatenate(first),
        np.concatenate([matrix.ravel() for matrix in model.transitions]),
        sizes,
        np.cumsum(bits) - bits,
        (1 << bits) - 1,
        np.cumsum(sizes) - sizes,
        np.cumsum(sizes**2) - sizes**2,
        means.sum() - np.cumsum(means),
        np.maximum(spreads.sum() - np.cumsum(spreads), 0.0)
        + (0.0 if model.noise is None else model.noise.std**2),
        model.variance,
    )


def _tables(model: LoadModel, reach: float) -> Densities:
    """Density tables for every σ between the smallest and the largest of a joint state."""
    lowest = model.variance + sum(float(v.min()) for v in model.variances)
    highest = model.variance + sum(float(v.max()) for v in model.variances)
    ranks = np.arange(round(math.log(highest / lowest) / (2 * math.log(RATIO))) + 1)
    variances = (lowest * RATIO ** (2.0 * ranks)).astype(np.float64)
    emission = NoisyEmission(np.zeros(ranks.size), variances, model.noise, model.outlier, reach)
    return Densities(*emission.tables, lowest, 0.5 / math.log(RATIO))
