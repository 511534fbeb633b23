"""Sparse-HMM: one hidden Markov chain whose super-states are combinations of appliance states.

The module contains the attacker, its rule for the states of an appliance (peaks of a histogram),
and a chain of which only the observed transitions and emissions are stored, as sparse matrices:
transitions by destination and emissions by observation, so that a step of the decoder reads only
pairs that occurred in training.
"""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from hushmeter.attack.base import Attacker, Observation, Observed
from hushmeter.attack.levels import learn_on, look_up, training_power
from hushmeter.checks import BoolArray, FloatArray, IntArray, one_of, positive, whole
from hushmeter.compiled import compiled
from hushmeter.errors import DataError
from hushmeter.home import Home
from hushmeter.trace import Trace

NONE = -1
"""Code of a reading without a path, and of a mains value that training did not contain."""


class SuperStateHmm(Attacker):
    """Sparse-HMM [1]_. Super-state hidden Markov model with sparse, counted matrices.

    Parameters
    ----------
    home : Home
    unseen : {"off", "nearest"}
        Answer to a reading without any path: everything off, as in the original, or the most
        probable super-state for the nearest mains value that training contained.
    precision : float
        Power is rounded down to whole multiples of 1/precision. [1/W]
    max_states : int
        Largest number of states of an appliance, off included.
    threshold : float
        Share of the readings that a peak must exceed; it is raised until `max_states` is kept.

    Attributes
    ----------
    states_ : array of int8, shape (K + 1, N)
        Appliance states of every super-state in training; the last row, all off, is the answer
        to a reading without a path.
    on_ : array of bool, shape (K + 1, N)
        Whether these states mean on.
    peaks_ : array, shape (K + 1, N)
        Power of these states. [W]

    Notes
    -----
    The states of an appliance are the peaks of the histogram of its power (`find_states`, the
    rule of the publication), and a super-state is a combination that occurred in training. The
    decoder is that of the publication: a Viterbi search over two readings, restarted at every
    reading.
    Frequencies are counted and never smoothed. The initial state is not used. An appliance that
    never runs in training is never predicted to be on, and one that never stops is never
    predicted to be off. A combination of states that training did not contain is never predicted.

    References
    ----------
    .. [1] S. Makonin, F. Popowich, I. V. Bajić, B. Gill, L. Bartram, "Exploiting HMM sparsity to
       perform online real-time nonintrusive load monitoring", IEEE Transactions on Smart Grid
       7(6), 2016.
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
        unseen: str = "off",
        precision: float = 0.1,
        max_states: int = 4,
        threshold: float = 0.00021,
    ) -> None:
        super().__init__(home)
        self.unseen = one_of("unseen", unseen, ("off", "nearest"))
        self.precision = positive("precision", precision)
        self.max_states = whole("max_states", max_states, least=2)
        self.threshold = positive("threshold", threshold)

    def fit(self, trace: Trace) -> Self:
        """Find the states of every appliance; count super-states, transitions and emissions."""
        super().fit(trace)
        power = quantise(training_power(trace, self.home), self.precision)
        found = [find_states(column, self.max_states, self.threshold) for column in power.T]
        levels = np.column_stack(
            [f.assign(column) for f, column in zip(found, power.T, strict=True)]
        )
        # Super-states are sorted with the smallest appliances first, so that ties do not depend
        # on the order of the home.
        order = np.argsort(self.home.powers, kind="stable")
        ranked, member = np.unique(levels[:, order], axis=0, return_inverse=True)
        states = np.empty_like(ranked)
        states[:, order] = ranked
        counts = [f.peaks.size for f in found]
        # The additional last row is the answer to readings without a path: everything off.
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
        chain = count_sparse_chain(member, emitted, trace.run_starts, size, self.symbols_.size)
        self.chain_ = (chain.initial, *chain.before, *chain.emitted)

    def predict_super_states(self, readings: Observed) -> IntArray:
        """Predict the super-state of every reading, a row of `states_`; −1 without a path."""
        return self._decode(self._see(readings))

    def count_unexpected(self, readings: Observed) -> int:
        """Number of readings without a path, to which the answer is that everything is off."""
        return int((self.predict_super_states(readings) == NONE).sum())

    def _predict(self, seen: Observation) -> BoolArray:
        rows = self._decode(seen)
        return self.on_[rows]

    def _predict_power(self, seen: Observation) -> FloatArray:
        """Peak power of every appliance's state [W], shape (T, N)."""
        rows = self._decode(seen)
        return self.peaks_[rows]

    def _decode(self, seen: Observation) -> IntArray:
        return self._decode_symbols(self.read_symbols(seen.readings), seen.run_starts)

    def _decode_symbols(self, symbols: IntArray, starts: BoolArray) -> IntArray:
        fall_back = self.unseen == "nearest"
        found: IntArray = decode_pairs(self._chain(), symbols, starts, fall_back)
        return found

    def answer_pairs(self, before: IntArray, now: IntArray) -> BoolArray:
        """States (P, N) at the second reading of each pair of symbols."""
        symbols = np.column_stack([before, now]).ravel()
        starts = np.arange(symbols.size) % 2 == 0
        return self.on_[self._decode_symbols(symbols, starts)[1::2]]

    def _chain(self) -> SparseChain:
        initial, *arrays = self.chain_
        return SparseChain(initial, Columns(*arrays[:3]), Columns(*arrays[3:]))  # type: ignore[arg-type]

    def _check_learnt(self) -> None:
        if hasattr(self, "chain_"):
            chain = self._chain()
            shapes = {self.states_.shape, self.on_.shape, self.peaks_.shape}
            fit = shapes == {(chain.initial.size + 1, len(self.home))}
            size = chain.initial.size
            sound = chain.before.fits(size, size) and chain.emitted.fits(size, self.symbols_.size)
            if not (fit and sound):
                raise DataError("a saved sparse-hmm attacker is damaged.")

    @property
    def lookback(self) -> int:
        """An answer depends on its reading and the one before."""
        return 1

    def read_symbols(self, readings: FloatArray) -> IntArray:
        """Position of every reading [W], quantised, among the mains values of training."""
        self._require_fit("chain_")
        mains = quantise(readings, self.precision)
        place = np.searchsorted(self.symbols_, mains)
        place = np.minimum(place, self.symbols_.size - 1)
        if self.unseen == "off":
            return np.where(self.symbols_[place] == mains, place, NONE)
        lower = np.maximum(place - 1, 0)
        below = mains - self.symbols_[lower] < np.abs(self.symbols_[place] - mains)
        return np.where(below, lower, place)


class PeakStates(NamedTuple):
    """States of one appliance as peaks of the histogram of its quantised power.

    `peaks` are quantised powers, of which the first is zero for off; `borders` are the smallest
    quantised powers of the other states.
    """

    peaks: IntArray
    borders: IntArray

    def assign(self, quantised: IntArray) -> NDArray[np.int8]:
        """State of every quantised power; zero is off."""
        return np.searchsorted(self.borders, quantised, side="right").astype(np.int8)


def quantise(power: FloatArray, precision: float) -> IntArray:
    """Quantise power [W] to int(power · precision); negative power counts as zero."""
    steps: IntArray = np.maximum(power * precision, 0.0).astype(np.int64)
    return steps


def find_states(quantised: IntArray, most: int, threshold: float) -> PeakStates:
    """Find the states of one appliance by SparseNILM's rule.

    Notes
    -----
    A value is a peak if it is more frequent than both its neighbours and than a share e of all
    readings; e grows from `threshold` in steps of `threshold` until the number of states is at
    most `most`. Readings of zero are off and do not count as a neighbour, so that value 1 can be a
    peak, as in the authors' program. The state of a peak starts at the first valley after the peak
    before it. If positive readings have no peak, they are one state, at the most frequent of them.
    """
    histogram = np.bincount(quantised, minlength=2)
    histogram[0] = 0
    counts = np.append(histogram, 0)
    inner = counts[1:-1]
    rises = (inner > counts[:-2]) & (inner > counts[2:])
    peaks = np.flatnonzero(rises) + 1
    share, least = counts[peaks] / quantised.size, threshold
    while peaks[share > least].size + 1 > most:
        least += threshold
    kept = peaks[share > least]
    if kept.size == 0 and quantised.any():
        kept = np.array([1 + int(histogram[1:].argmax())])
    borders = [1] if kept.size else []
    borders += [_first_valley(counts, a, b) for a, b in pairwise(kept)]
    return PeakStates(np.concatenate([[0], kept]), np.array(borders, np.int64))


def _first_valley(counts: IntArray, peak: int, following: int) -> int:
    """First value between two peaks after which the histogram stops to fall."""
    value = peak + 1
    while value < following and counts[value + 1] < counts[value]:
        value += 1
    return value


class Columns(NamedTuple):
    """A sparse matrix by columns, as `scipy.sparse` stores it and compiled code reads it.

    Column c has its rows and values at starts[c]:starts[c + 1].
    """

    starts: IntArray
    rows: IntArray
    values: FloatArray

    @classmethod
    def of_shares(
        cls, rows: IntArray, columns: IntArray, totals: FloatArray, count: int
    ) -> Columns:
        """Frequency of each (row, column), divided by the total of the row."""
        from scipy.sparse import coo_array

        ones, shape = np.ones(rows.size), (totals.size, count)
        matrix = coo_array((ones, (rows, columns)), shape=shape).tocsc()
        matrix.sort_indices()
        starts, places = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
        return cls(starts, places, matrix.data / totals[places])

    def fits(self, height: int, width: int) -> bool:
        """Whether all positions are inside a matrix, so that compiled code can read them."""
        from scipy.sparse import csc_array

        kinds = self.starts.dtype.kind + self.rows.dtype.kind + self.values.dtype.kind
        try:
            matrix = csc_array((self.values, self.rows, self.starts), shape=(height, width))
            matrix.check_format(full_check=True)
        except (ValueError, TypeError):
            return False
        return kinds == "iif" and self.starts[-1] == self.rows.size


class SparseChain(NamedTuple):
    """Counted probabilities of a chain of K states.

    `initial` (K,) holds the marginal frequencies. Column j of `before` holds the states that
    preceded state j, with the probability of the transition. Column o of `emitted` holds the
    states that occurred with observation o, with the probability of the emission.
    """

    initial: FloatArray
    before: Columns
    emitted: Columns


def count_sparse_chain(
    states: IntArray, symbols: IntArray, starts: BoolArray, n_states: int, n_symbols: int
) -> SparseChain:
    """Count the frequencies of a chain, without smoothing."""
    previous = np.concatenate([states[:1], states[:-1]])
    previous[starts] = states[starts]
    seen = np.bincount(states, minlength=n_states).astype(np.float64)
    left = np.bincount(previous, minlength=n_states).astype(np.float64)
    return SparseChain(
        seen / states.size,
        Columns.of_shares(previous, states, left, n_states),
        Columns.of_shares(states, symbols, seen, n_symbols),
    )


@compiled(cache=True, nogil=True)
def decode_pairs(
    chain: SparseChain, symbols: IntArray, starts: BoolArray, fall_back: bool
) -> IntArray:
    """Decode each reading from itself and the reading before."""
    initial, before, emitted = chain
    found = np.full(symbols.size, NONE, np.int64)
    weight = np.zeros(initial.size)
    for t in range(symbols.size):
        now, last = symbols[t], symbols[t if starts[t] else t - 1]
        repeats = t > 1 and not starts[t] and not starts[t - 1]
        # The same two observations have the same answer; long constant stretches are frequent.
        if repeats and now == symbols[t - 1] and last == symbols[t - 2]:
            found[t] = found[t - 1]
            continue
        if now == NONE:
            continue
        if last != NONE:
            for e in range(emitted.starts[last], emitted.starts[last + 1]):
                weight[emitted.rows[e]] = initial[emitted.rows[e]] * emitted.values[e]
        best = 0.0
        for e in range(emitted.starts[now], emitted.starts[now + 1]):
            state = emitted.rows[e]
            for a in range(before.starts[state], before.starts[state + 1]):
                chance = weight[before.rows[a]] * before.values[a] * emitted.values[e]
                if chance > best:
                    best, found[t] = chance, state
        # Only the entries in use are reset: most super-states do not occur with a given reading.
        if last != NONE:
            for e in range(emitted.starts[last], emitted.starts[last + 1]):
                weight[emitted.rows[e]] = 0.0
        if best == 0.0 and fall_back:
            for e in range(emitted.starts[now], emitted.starts[now + 1]):
                chance = initial[emitted.rows[e]] * emitted.values[e]
                if chance > best:
                    best, found[t] = chance, emitted.rows[e]
    return found
