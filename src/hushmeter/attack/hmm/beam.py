"""Marginals and best path of a home whose joint space is too large to walk: a beam.

Of the joint states only the `width` most probable ones are kept at every reading. From one
reading to the next one load may change its state, or two if the state is among the best few.
Within these limits the recursions are exact: forwards over the kept states, backwards over the
same. The first reading of a run is opened load by load, largest first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from hushmeter.attack.hmm.beam_kernels import smooth, walk
from hushmeter.attack.hmm.beam_states import EMPTY, Beam, Densities, Loads
from hushmeter.attack.hmm.emission import RATIO, NoisyEmission
from hushmeter.attack.hmm.load_model import Known, LoadModel
from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.errors import InputError

BLOCK = 2048
"""Readings whose kept states are all held at a time."""


class BeamSearch:
    """The recursions of a model over one trace.

    Parameters
    ----------
    model : LoadModel
    readings : array, shape (T,)
    starts : array of bool, shape (T,)
    width : int
        Joint states kept at every reading.
    known : sequence, optional
        States that are possible at the first reading, per load.
    """

    def __init__(
        self,
        model: LoadModel,
        readings: FloatArray,
        starts: BoolArray,
        width: int,
        known: Known | None = None,
    ) -> None:
        self.model, self.starts, self.width = model, starts, width
        # A copy is writable: read-only readings would be compiled for a second time.
        self.readings = readings.copy()
        self.order = np.argsort(
            [-_spread(model, m) for m in range(len(model.means))], kind="stable"
        )
        ranked = None if known is None else [known[m] for m in self.order]
        self.loads = _loads(model.subset(self.order), ranked)
        self.tables = _tables(model, model.reach(readings))

    def blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        """Marginals of the loads in the model's order, block by block from the end."""
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
        """States of all loads on the best path that was kept, shape (T, M)."""
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
        """The kept states of every block, from the last block to the first."""
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
    """Columns of a load where the states of all loads stand side by side."""
    before = sum(sizes[:load])
    return np.arange(before, before + sizes[load])


def _spread(model: LoadModel, load: int) -> float:
    """Variance of a load's power in the long run [W²]."""
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
    """Tables for every σ between the sharpest and the widest joint state."""
    lowest = model.variance + sum(float(v.min()) for v in model.variances)
    highest = model.variance + sum(float(v.max()) for v in model.variances)
    ranks = np.arange(round(math.log(highest / lowest) / (2 * math.log(RATIO))) + 1)
    variances = (lowest * RATIO ** (2.0 * ranks)).astype(np.float64)
    emission = NoisyEmission(np.zeros(ranks.size), variances, model.noise, model.outlier, reach)
    return Densities(*emission.tables, lowest, 0.5 / math.log(RATIO))
