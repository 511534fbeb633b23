"""Sparse-HMM: one chain whose super-states are the combinations of appliance states [1]_.

.. [1] S. Makonin, F. Popowich, I. V. Bajić, B. Gill, L. Bartram, "Exploiting HMM sparsity to
   perform online real-time nonintrusive load monitoring", IEEE Trans. Smart Grid 7 (2016).
"""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hushmeter.attack.base import Attacker, Observed
from hushmeter.attack.hmm.peak_states import find_states, quantise
from hushmeter.attack.hmm.sparse_chain import (
    NONE,
    Columns,
    SparseChain,
    count_chain,
    decode_pairs,
    decode_path,
    is_sound,
)
from hushmeter.attack.sums.on_states import learn_on, look_up, training_power
from hushmeter.checks import BoolArray, FloatArray, IntArray, RngLike, one_of, positive, whole
from hushmeter.errors import DataError
from hushmeter.home import Home
from hushmeter.trace import Trace


class SuperStateHmm(Attacker):
    """Super-state hidden Markov model with sparse, counted matrices.

    States of an appliance are the peaks of the histogram of its power; a super-state is a
    combination that occurred in training. Frequencies are counted, never smoothed. The initial
    state is checked and not used.

    Parameters
    ----------
    home : Home
    decoder : {"two_step", "full"}
        The original, a two-reading Viterbi restarted at every reading, or Viterbi over each
        contiguous run.
    unseen : {"off", "nearest"}
        What a reading without any path means: everything off, as the original; or the nearest
        mains value that training has seen, and the most probable super-state for it.
    precision : float
        Power is cut to whole multiples of 1/precision [W].
    max_states : int
        Largest number of states of an appliance, off included.
    threshold : float
        Share of the readings that a peak must exceed; raised until `max_states` is kept.

    Attributes
    ----------
    states_ : array of int8, shape (K + 1, N)
        Appliance states of every super-state seen; the last row, all off, stands for no path.
    on_ : array of bool, shape (K + 1, N)
        Whether these states mean on.
    peaks_ : array, shape (K + 1, N)
        Their power [W].

    Notes
    -----
    An appliance that never runs in training has no state but off and is never said to be on; one
    that never stops has no other. A combination of states that training lacks is never answered.
    """

    name: ClassVar[str] = "sparse-hmm"
    needs: ClassVar[str] = "sub-metered data"
    assumes: ClassVar[str] = "every combination of states and every mains value was seen before"

    states_: NDArray[np.int8]
    peaks_: FloatArray
    on_: BoolArray
    symbols_: IntArray
    chain_: tuple[NDArray[np.generic], ...]

    def __init__(
        self,
        home: Home,
        *,
        decoder: str = "two_step",
        unseen: str = "off",
        precision: float = 0.1,
        max_states: int = 4,
        threshold: float = 0.00021,
    ) -> None:
        super().__init__(home)
        self.decoder = one_of("decoder", decoder, ("two_step", "full"))
        self.unseen = one_of("unseen", unseen, ("off", "nearest"))
        self.precision = positive("precision", precision)
        self.max_states = whole("max_states", max_states, least=2)
        self.threshold = positive("threshold", threshold)

    def fit(self, trace: Trace) -> Self:
        """Find the states of every appliance, then count super-states, steps and emissions."""
        super().fit(trace)
        power = quantise(training_power(trace, self.home), self.precision)
        found = [find_states(column, self.max_states, self.threshold) for column in power.T]
        levels = np.column_stack(
            [f.assign(column) for f, column in zip(found, power.T, strict=True)]
        )
        # Smallest appliances first, so that ties do not depend on the order of the home.
        order = np.argsort(self.home.powers, kind="stable")
        ranked, member = np.unique(levels[:, order], axis=0, return_inverse=True)
        states = np.empty_like(ranked)
        states[:, order] = ranked
        counts = [f.peaks.size for f in found]
        # One row more, for readings without a path: everything off.
        self.states_ = np.vstack([states, np.zeros((1, len(self.home)), np.int8)])
        on = look_up(self.states_, learn_on(levels, trace.truth(), counts))
        self.on_ = on.astype(np.bool_)
        self.on_[-1] = False
        self.peaks_ = look_up(self.states_, [f.peaks / self.precision for f in found]).astype(float)
        self._count(member.ravel(), trace)
        return self

    def _count(self, member: IntArray, trace: Trace) -> None:
        mains = quantise(trace.readings, self.precision)
        self.symbols_, emitted = np.unique(mains, return_inverse=True)
        size = len(self.states_) - 1
        chain = count_chain(member, emitted, trace.run_starts, size, self.symbols_.size)
        self.chain_ = (chain.initial, *chain.before, *chain.emitted)

    def predict(
        self,
        readings: Observed,
        *,
        initial_state: ArrayLike | None = None,
        rng: RngLike = None,  # noqa: ARG002
    ) -> BoolArray:
        """States (T, N)."""
        rows = self.predict_super_states(readings, initial_state)
        return self.on_[rows]

    def predict_power(
        self,
        readings: Observed,
        *,
        initial_state: ArrayLike | None = None,
        rng: RngLike = None,  # noqa: ARG002
    ) -> FloatArray:
        """Peak power of every appliance's state [W], shape (T, N)."""
        rows = self.predict_super_states(readings, initial_state)
        return self.peaks_[rows]

    def predict_super_states(
        self, readings: Observed, initial_state: ArrayLike | None = None
    ) -> IntArray:
        """Row of `states_` at every reading, shape (T,); −1, the last, where there is no path."""
        self._require_fit("chain_")
        self._initial_state(initial_state)
        values, starts = self._observe(readings)
        decode = decode_pairs if self.decoder == "two_step" else decode_path
        symbols = self._symbols(quantise(values, self.precision))
        found: IntArray = decode(self._chain(), symbols, starts, self.unseen == "nearest")
        return found

    def _chain(self) -> SparseChain:
        initial, *arrays = self.chain_
        return SparseChain(initial, Columns(*arrays[:3]), Columns(*arrays[3:]))  # type: ignore[arg-type]

    def _check_learnt(self) -> None:
        if hasattr(self, "chain_"):
            chain = self._chain()
            shapes = {self.states_.shape, self.on_.shape, self.peaks_.shape}
            fit = shapes == {(chain.initial.size + 1, len(self.home))}
            if not (fit and is_sound(chain, self.symbols_.size)):
                raise DataError("a saved sparse-hmm attacker is damaged.")

    def count_unexpected(self, readings: Observed) -> int:
        """How many readings have no path, so that everything is said to be off."""
        return int((self.predict_super_states(readings) == NONE).sum())

    def _symbols(self, mains: IntArray) -> IntArray:
        """Position of every quantised reading among those of training."""
        place = np.searchsorted(self.symbols_, mains)
        place = np.minimum(place, self.symbols_.size - 1)
        if self.unseen == "off":
            return np.where(self.symbols_[place] == mains, place, NONE)
        lower = np.maximum(place - 1, 0)
        below = mains - self.symbols_[lower] < np.abs(self.symbols_[place] - mains)
        return np.where(below, lower, place)
