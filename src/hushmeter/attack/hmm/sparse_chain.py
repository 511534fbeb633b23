"""A hidden Markov chain of which only what was seen is stored, and its two decoders.

Transitions are kept by destination and emissions by observation, as in compressed columns, so
that a step touches only the pairs that ever occurred.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from hushmeter.checks import BoolArray, FloatArray, IntArray

BLOCK = 1 << 16
"""Readings whose back pointers are held at a time."""

NONE = -1


class Columns(NamedTuple):
    """A sparse matrix by columns: rows and values of column c lie at starts[c]:starts[c + 1]."""

    starts: IntArray
    rows: IntArray
    values: FloatArray


class SparseChain(NamedTuple):
    """Counted probabilities of a chain of K states.

    `initial` (K,) are the marginal frequencies, `before[j]` the states seen before state j with
    the probability of the step, `emitted[o]` the states seen with observation o with its
    probability.
    """

    initial: FloatArray
    before: Columns
    emitted: Columns


def count_chain(
    states: IntArray, symbols: IntArray, starts: BoolArray, n_states: int, n_symbols: int
) -> SparseChain:
    """Frequencies without smoothing; the first reading of a run counts as a step to itself."""
    previous = np.concatenate([states[:1], states[:-1]])
    previous[starts] = states[starts]
    seen = np.bincount(states, minlength=n_states).astype(np.float64)
    left = np.bincount(previous, minlength=n_states).astype(np.float64)
    return SparseChain(
        seen / states.size,
        _columns(previous, states, n_states, left),
        _columns(states, symbols, n_symbols, seen),
    )


def is_sound(chain: SparseChain, n_symbols: int) -> bool:
    """Whether every position lies inside its array, so that the decoders stay inside theirs."""
    size = chain.initial.size
    for columns, count in ((chain.before, size), (chain.emitted, n_symbols)):
        starts, rows, values = columns
        kinds = starts.dtype.kind + rows.dtype.kind + values.dtype.kind
        if kinds != "iif" or starts.shape != (count + 1,) or rows.shape != values.shape:
            return False
        if starts[0] != 0 or starts[-1] != rows.size or (np.diff(starts) < 0).any():
            return False
        if rows.size and not 0 <= rows.min() <= rows.max() < size:
            return False
    return True


def _columns(rows: IntArray, columns: IntArray, count: int, totals: FloatArray) -> Columns:
    """How often each (row, column) occurs, divided by the total of the row."""
    codes, times = np.unique(columns * totals.size + rows, return_counts=True)
    column, row = np.divmod(codes, totals.size)
    starts = np.searchsorted(column, np.arange(count + 1)).astype(np.int64)
    return Columns(starts, row, times / totals[row])


@numba.njit(cache=True, nogil=True)
def decode_pairs(
    chain: SparseChain, symbols: IntArray, starts: BoolArray, fall_back: bool
) -> IntArray:
    """The most probable state after two readings, restarted at every reading.

    argmax over j of max over i of P0_i B_i(y_{t−1}) A_ij B_j(y_t); the first reading of a run
    follows itself. Without a path the answer is `NONE`, or argmax P0_j B_j(y_t) to `fall_back`.
    A symbol of `NONE` was never seen.
    """
    initial, before, emitted = chain
    found = np.full(symbols.size, NONE, np.int64)
    weight = np.zeros(initial.size)
    for t in range(symbols.size):
        now, last = symbols[t], symbols[t if starts[t] else t - 1]
        repeats = t > 1 and not starts[t] and not starts[t - 1]
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
        if last != NONE:
            for e in range(emitted.starts[last], emitted.starts[last + 1]):
                weight[emitted.rows[e]] = 0.0
        if best == 0.0 and fall_back:
            for e in range(emitted.starts[now], emitted.starts[now + 1]):
                chance = initial[emitted.rows[e]] * emitted.values[e]
                if chance > best:
                    best, found[t] = chance, emitted.rows[e]
    return found


def decode_path(
    chain: SparseChain, symbols: IntArray, starts: BoolArray, fall_back: bool
) -> IntArray:
    """Viterbi in the log domain over each run.

    Where no state is possible the path ends; the reading is `NONE`, and the path starts anew
    after it, or at once to `fall_back`. Back pointers are held for one block of readings: the
    scores at the start of each block are kept and the block is run a second time to trace back.
    """
    logs = SparseChain(
        np.log(chain.initial),
        chain.before._replace(values=np.log(chain.before.values)),
        chain.emitted._replace(values=np.log(chain.emitted.values)),
    )
    cuts = np.arange(0, symbols.size, BLOCK)
    score = np.full(chain.initial.size, -np.inf)
    kept = []
    for cut in cuts:
        kept.append(score)
        score = _forward(logs, symbols, starts, int(cut), fall_back, score)[0]
    found = np.full(symbols.size, NONE, np.int64)
    end = int(score.argmax()) if np.isfinite(score).any() else NONE
    for cut, begin in zip(cuts[::-1], kept[::-1], strict=True):
        _, offsets, pointers, breaks = _forward(logs, symbols, starts, int(cut), fall_back, begin)
        end = _trace(chain.emitted, symbols, int(cut), offsets, pointers, breaks, end, found)
    return found


@numba.njit(cache=True, nogil=True)
def _forward(
    chain: SparseChain,
    symbols: IntArray,
    starts: BoolArray,
    cut: int,
    fall_back: bool,
    begin: FloatArray,
) -> tuple[FloatArray, IntArray, IntArray, IntArray]:
    """Scores after a block, and its back pointers: one per reading and possible state.

    `breaks[t]` is -2 where the path goes on, and otherwise the best end of the path before.
    """
    initial, before, emitted = chain
    length = min(BLOCK, symbols.size - cut)
    offsets = np.zeros(length + 1, np.int64)
    for t in range(length):
        symbol = symbols[cut + t]
        width = 0 if symbol == NONE else emitted.starts[symbol + 1] - emitted.starts[symbol]
        offsets[t + 1] = offsets[t] + width
    pointers = np.full(offsets[length], NONE, np.int64)
    breaks = np.full(length, -2, np.int64)
    score, after = begin.copy(), np.full(begin.size, -np.inf)
    alive = np.isfinite(begin.max())
    for t in range(length):
        first = 0 if symbols[cut + t] == NONE else emitted.starts[symbols[cut + t]]
        states = emitted.rows[first : first + offsets[t + 1] - offsets[t]]
        chances = emitted.values[first : first + states.size]
        reached, restart = False, starts[cut + t] or not alive
        if not restart:
            reached = _step(before, states, chances, score, after, pointers[offsets[t] :])
        if not reached:
            breaks[t] = np.argmax(score) if alive else NONE
            if restart or fall_back:
                for e in range(states.size):
                    after[states[e]] = initial[states[e]] + chances[e]
        alive = states.size > 0 and (reached or restart or fall_back)
        _clear(emitted, symbols, cut + t - 1, score, cut)
        for state in states:
            score[state], after[state] = after[state], -np.inf
    return score, offsets, pointers, breaks


@numba.njit(cache=True, nogil=True)
def _step(
    before: Columns,
    states: IntArray,
    chances: FloatArray,
    score: FloatArray,
    after: FloatArray,
    pointers: IntArray,
) -> bool:
    """Best way into every possible state; whether there is any."""
    reached = False
    for e in range(states.size):
        best = -np.inf
        for a in range(before.starts[states[e]], before.starts[states[e] + 1]):
            value = score[before.rows[a]] + before.values[a]
            if value > best:
                best, pointers[e] = value, before.rows[a]
        after[states[e]] = best + chances[e]
        reached = reached or best > -np.inf
    return reached


@numba.njit(cache=True, nogil=True)
def _clear(emitted: Columns, symbols: IntArray, t: int, score: FloatArray, cut: int) -> None:
    """Forget the scores of reading t; those a block begins with may lie anywhere."""
    if t < cut:
        score[:] = -np.inf
    elif symbols[t] != NONE:
        for e in range(emitted.starts[symbols[t]], emitted.starts[symbols[t] + 1]):
            score[emitted.rows[e]] = -np.inf


@numba.njit(cache=True, nogil=True)
def _trace(
    emitted: Columns,
    symbols: IntArray,
    cut: int,
    offsets: IntArray,
    pointers: IntArray,
    breaks: IntArray,
    end: int,
    found: IntArray,
) -> int:
    """Follow the pointers of a block from state `end`; the state before the block is returned."""
    state = end
    for t in range(breaks.size - 1, -1, -1):
        found[cut + t] = state
        if breaks[t] != -2:
            state = breaks[t]
            continue
        first = emitted.starts[symbols[cut + t]]
        for e in range(offsets[t + 1] - offsets[t]):
            if emitted.rows[first + e] == state:
                state = pointers[offsets[t] + e]
                break
    return state
