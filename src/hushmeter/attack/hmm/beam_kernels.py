"""Compiled steps of the beam: a few hundred joint states that carry nearly all probability.

From one reading to the next no load changes its state, or one, or two where the state is among
the best few.
"""

from __future__ import annotations

import numba
import numpy as np

from hushmeter.attack.hmm.beam_states import (
    EMPTY,
    PAIRS,
    Beam,
    Densities,
    Found,
    Loads,
    Table,
    density,
    keep_best,
    load_sum,
    open_beam,
    pair_bar,
    slot_of,
    stay_chance,
    value_of,
)
from hushmeter.checks import BoolArray, FloatArray, IntArray


@numba.njit(cache=True, nogil=True)
def new_table(loads: Loads, width: int) -> tuple[Table, Found]:
    """Room for all states that `width` states may turn into."""
    moves = int((loads.sizes - 1).sum())
    most = width * (1 + moves) + PAIRS * moves * moves
    slots = 2
    while slots < 2 * most:
        slots *= 2
    table = Table(np.empty(slots, np.int64), np.empty(slots, np.int64))
    return table, Found(np.empty(most, np.int64), np.empty(most), np.empty(most, np.int64))


@numba.njit(cache=True, nogil=True, error_model="numpy")
def offer(
    code: int, weight: float, parent: int, best: bool, table: Table, found: Found, count: int
) -> int:
    """Add a state, or its weight to the one that is there; the number of states after it."""
    at = slot_of(table.keys, code)
    if table.keys[at] == EMPTY:
        # Many states of equal weight may all change in pairs: what finds no room is left out.
        if count == found.codes.size:
            return count
        table.keys[at], table.places[at] = code, count
        found.codes[count], found.weights[count], found.parents[count] = code, weight, parent
        return count + 1
    place = table.places[at]
    if not best:
        found.weights[place] += weight
    elif weight > found.weights[place]:
        found.weights[place], found.parents[place] = weight, parent
    return count


@numba.njit(cache=True, nogil=True, error_model="numpy")
def expand(
    loads: Loads, codes: IntArray, weights: FloatArray, best: bool, table: Table, found: Found
) -> int:
    """All states that the kept ones may turn into, with their probability before the reading.

    Chances of one state add up, or with `best` the largest counts. Returns how many there are.
    """
    table.keys[:] = EMPTY
    count, bar = 0, pair_bar(weights)
    for i in range(codes.size):
        stay = weights[i] * stay_chance(loads, codes[i])
        count = offer(codes[i], stay, i, best, table, found, count)
        for m in range(loads.sizes.size):
            k = (codes[i] >> loads.shifts[m]) & loads.masks[m]
            row = loads.matrix_offsets[m] + k * loads.sizes[m]
            for to in range(loads.sizes[m]):
                if to == k:
                    continue
                code = codes[i] + ((to - k) << loads.shifts[m])
                weight = stay * loads.matrices[row + to] / loads.matrices[row + k]
                count = offer(code, weight, i, best, table, found, count)
                if weights[i] < bar:
                    continue
                for n in range(m + 1, loads.sizes.size):
                    j = (code >> loads.shifts[n]) & loads.masks[n]
                    other = loads.matrix_offsets[n] + j * loads.sizes[n]
                    for goal in range(loads.sizes[n]):
                        if goal != j:
                            both = code + ((goal - j) << loads.shifts[n])
                            share = loads.matrices[other + goal] / loads.matrices[other + j]
                            count = offer(both, weight * share, i, best, table, found, count)
    return count


@numba.njit(cache=True, nogil=True, error_model="numpy")
def walk(
    loads: Loads,
    tables: Densities,
    readings: FloatArray,
    starts: BoolArray,
    is_first: bool,
    codes: IntArray,
    weights: FloatArray,
    best: bool,
    kept: Beam,
    width: int,
) -> tuple[IntArray, FloatArray]:
    """Filter a block from the states before it; the states after it.

    Where `kept` has a row per reading the states of every reading are written to it.
    """
    table, found = new_table(loads, width)
    seen = np.empty(found.codes.size)
    for t in range(readings.size):
        if starts[t]:
            law = loads.first if is_first and t == 0 else loads.initial
            last = int(weights.argmax()) if weights.size else 0
            opened, chances = open_beam(loads, law, readings[t], width)
            count = opened.size
            for j in range(count):
                found.codes[j], found.weights[j], found.parents[j] = opened[j], chances[j], last
        else:
            count = expand(loads, codes, weights, best, table, found)
        for j in range(count):
            mean, variance = load_sum(loads, found.codes[j])
            seen[j] = density(tables, readings[t] - mean, variance)
            found.weights[j] *= seen[j]
        chosen = keep_best(found.weights[:count], width)
        codes, weights = found.codes[chosen], found.weights[chosen]
        weights = weights / weights.sum()
        if kept.codes.shape[0] == readings.size:
            for place in range(width):
                kept.codes[t, place] = codes[place] if place < codes.size else EMPTY
            for place, j in enumerate(chosen):
                kept.weights[t, place], kept.seen[t, place] = weights[place], seen[j]
                kept.parents[t, place] = found.parents[j]
    return codes, weights


@numba.njit(cache=True, nogil=True, error_model="numpy")
def gather(loads: Loads, code: int, pairs: bool, table: Table, values: FloatArray) -> float:
    """Σ over the kept next states of transition probability times value."""
    total = value_of(table, code, values)
    for m in range(loads.sizes.size):
        k = (code >> loads.shifts[m]) & loads.masks[m]
        row = loads.matrix_offsets[m] + k * loads.sizes[m]
        for to in range(loads.sizes[m]):
            if to == k:
                continue
            there = code + ((to - k) << loads.shifts[m])
            share = loads.matrices[row + to] / loads.matrices[row + k]
            total += share * value_of(table, there, values)
            if not pairs:
                continue
            for n in range(m + 1, loads.sizes.size):
                j = (code >> loads.shifts[n]) & loads.masks[n]
                other = loads.matrix_offsets[n] + j * loads.sizes[n]
                for goal in range(loads.sizes[n]):
                    if goal != j:
                        both = there + ((goal - j) << loads.shifts[n])
                        second = loads.matrices[other + goal] / loads.matrices[other + j]
                        total += share * second * value_of(table, both, values)
    return max(stay_chance(loads, code) * total, 1e-300)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def smooth(
    loads: Loads,
    starts: BoolArray,
    kept: Beam,
    next_codes: IntArray,
    next_values: FloatArray,
    chances: FloatArray,
) -> tuple[FloatArray, IntArray]:
    """Marginals of the loads' states in a block, from its end.

    `next_values` is density times backward probability of the kept states `next_codes` of the
    reading after the block, both empty where a run or the trace ends there. Returns the same for
    the block's first reading.
    """
    slots = 2
    while slots < 4 * kept.codes.shape[1]:
        slots *= 2
    table = Table(np.empty(slots, np.int64), np.empty(slots, np.int64))
    for t in range(starts.size - 1, -1, -1):
        size = int((kept.codes[t] != EMPTY).sum())
        codes = kept.codes[t, :size]
        behind = np.ones(size)
        if next_codes.size:
            table.keys[:] = EMPTY
            for j in range(next_codes.size):
                at = slot_of(table.keys, next_codes[j])
                table.keys[at], table.places[at] = next_codes[j], j
            bar = pair_bar(kept.weights[t, :size])
            for i in range(size):
                pairs = kept.weights[t, i] >= bar
                behind[i] = gather(loads, codes[i], pairs, table, next_values)
        joint = kept.weights[t, :size] * behind
        joint /= joint.sum()
        for i in range(size):
            for m in range(loads.sizes.size):
                k = (codes[i] >> loads.shifts[m]) & loads.masks[m]
                chances[t, loads.offsets[m] + k] += joint[i]
        values = kept.seen[t, :size] * behind
        next_values = values / values.sum()
        next_codes = codes if not starts[t] else codes[:0]
    return next_values, next_codes
