"""The beam: a few hundred joint states that carry nearly all probability, for large homes.

Only the `width` most probable joint states are kept at every reading. A joint state is one integer,
its code, with a few bits for the state of each load. From one reading to the next no load changes
its state, or one, or two if the joint state is among the best few. A hash table finds the joint
states that several kept states lead to. Within these limits the recursions are exact: forwards over
the kept states, and backwards over the same states. At the first reading of a run the joint states
are built load by load, largest first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from hushmeter.apps.nilm.factorial_hmm import RATIO, Known, LoadModel, NoisyEmission
from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.compiled import compiled
from hushmeter.errors import InputError

BLOCK = 2048
"""Number of readings whose kept states are held at a time."""


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
        readings, starts = self.readings[rows], self.starts[rows]
        after: tuple[IntArray, FloatArray]
        after = walk(self.loads, self.tables, readings, starts, *before, best, kept)
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


EMPTY = -1
"""Code of an unused entry."""

PAIRS = 16
"""Number of best states from which two loads can change at once; from the others one can."""

NEGLIGIBLE = 1e-12
"""States with a smaller share than this of the best state's probability are dropped."""


class Loads(NamedTuple):
    """Parameters of the loads in descending order of the variance of their power.

    Values per state are stored one load after the other, load m from `offsets[m]` on, and its
    transition matrix from `matrix_offsets[m]` on. `shifts` and `masks` locate its bits in a code.
    `first` is the initial distribution at the very first reading. `rest_mean` and `rest_variance`
    belong to the sum of the loads after load m.
    """

    means: FloatArray
    variances: FloatArray
    initial: FloatArray
    first: FloatArray
    matrices: FloatArray
    sizes: IntArray
    shifts: IntArray
    masks: IntArray
    offsets: IntArray
    matrix_offsets: IntArray
    rest_mean: FloatArray
    rest_variance: FloatArray
    variance: float


class Densities(NamedTuple):
    """Tables of a `NoisyEmission` with `per_log` classes per unit of log σ²."""

    core: FloatArray
    per_watt: FloatArray
    weight: FloatArray
    per_tail: FloatArray
    decay: FloatArray
    lowest: float
    per_log: float


class Beam(NamedTuple):
    """States kept at each reading of a block, shape (rows, width); unused codes are EMPTY.

    `weights` are filtered probabilities, `seen` is the density of the reading in the state, and
    `parents` is the position of the best previous state.
    """

    codes: IntArray
    weights: FloatArray
    seen: FloatArray
    parents: IntArray


class Table(NamedTuple):
    """An open-addressing hash table from codes to positions."""

    keys: IntArray
    places: IntArray


class Found(NamedTuple):
    """States that are possible at the next reading."""

    codes: IntArray
    weights: FloatArray
    parents: IntArray


@compiled(cache=True, nogil=True)
def slot_of(keys: IntArray, code: int) -> int:
    """Position of a code, or where to insert it, in a hash table of 2^k entries."""
    mask = keys.size - 1
    # Multiplicative hashing with 2^63 divided by the golden ratio: codes that differ in few bits
    # get distant positions. The lowest bits of the product are the least mixed and are dropped.
    at = ((code * 5700357409661599241) >> 20) & mask
    while keys[at] != EMPTY and keys[at] != code:
        at = (at + 1) & mask
    return at


@compiled(cache=True, nogil=True)
def value_of(table: Table, code: int, values: FloatArray) -> float:
    """Value of a code; zero if it is not in the table."""
    at = slot_of(table.keys, code)
    return 0.0 if table.keys[at] == EMPTY else values[table.places[at]]


@compiled(cache=True, nogil=True, error_model="numpy")
def density(tables: Densities, away: float, variance: float) -> float:
    """Density of a reading at a distance of `away` watts from the mean of a state."""
    rank = int(np.log(variance / tables.lowest) * tables.per_log + 0.5)
    c = min(max(rank, 0), tables.per_watt.size - 1)
    away = abs(away)
    at = away * tables.per_watt[c]
    if at < tables.core.shape[1] - 1:
        i = int(at)
        left, right = tables.core[c, i], tables.core[c, i + 1]
        return float(left + (at - i) * (right - left))
    at = min(away * tables.per_tail[c], tables.decay.size - 2.0)
    i = int(at)
    decay = tables.decay[i] + (at - i) * (tables.decay[i + 1] - tables.decay[i])
    return float(tables.weight[c] * decay)


@compiled(cache=True, nogil=True)
def nth_largest(scores: FloatArray, n: int) -> float:
    """The n-th largest score by quickselect; numba takes seconds to compile np.partition."""
    # The copy is rearranged in place; the scores keep their order.
    values = scores.copy()
    low, high, place = 0, values.size - 1, n - 1
    while low < high:
        pivot, i, j = values[(low + high) // 2], low, high
        while i <= j:
            while values[i] > pivot:
                i += 1
            while values[j] < pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i, j = i + 1, j - 1
        if place <= j:
            high = j
        elif place >= i:
            low = i
        else:
            break
    return float(values[place])


@compiled(cache=True, nogil=True)
def keep_best(scores: FloatArray, width: int) -> IntArray:
    """Positions of the `width` largest scores that are not negligible."""
    best = 0.0
    for score in scores:
        best = max(best, score)
    least = best * NEGLIGIBLE
    if scores.size > width:
        least = max(least, nth_largest(scores, width))
    places, count = np.empty(min(width, scores.size), np.int64), 0
    for i in range(scores.size):
        if scores[i] >= least and count < places.size:
            places[count] = i
            count += 1
    return places[:count]


@compiled(cache=True, nogil=True)
def pair_bar(weights: FloatArray) -> float:
    """Smallest weight from which two loads of a state can change at once."""
    if weights.size <= PAIRS:
        return 0.0
    return nth_largest(weights, PAIRS)


@compiled(cache=True, nogil=True, error_model="numpy")
def stay_chance(loads: Loads, code: int) -> float:
    """Probability that no load changes its state."""
    stay = 1.0
    for m in range(loads.sizes.size):
        k = (code >> loads.shifts[m]) & loads.masks[m]
        stay *= loads.matrices[loads.matrix_offsets[m] + k * loads.sizes[m] + k]
    return stay


@compiled(cache=True, nogil=True, error_model="numpy")
def load_sum(loads: Loads, code: int) -> tuple[float, float]:
    """Mean [W] and variance [W²] of the sum of all loads in a joint state."""
    mean, variance = 0.0, loads.variance
    for m in range(loads.sizes.size):
        k = (code >> loads.shifts[m]) & loads.masks[m]
        mean += loads.means[loads.offsets[m] + k]
        variance += loads.variances[loads.offsets[m] + k]
    return mean, variance


@compiled(cache=True, nogil=True, error_model="numpy")
def open_beam(
    loads: Loads, initial: FloatArray, reading: float, width: int
) -> tuple[IntArray, FloatArray]:
    """Codes and prior probabilities of likely states at the first reading of a run.

    The partial states are expanded load by load. Those are kept that explain the reading best,
    together with the mean and the variance of the remaining loads.
    """
    codes, chances = np.zeros(1, np.int64), np.ones(1)
    means, variances = np.zeros(1), np.full(1, loads.variance)
    for m in range(loads.sizes.size):
        size, first = loads.sizes[m], loads.offsets[m]
        count = codes.size * size
        grown, chance = np.empty(count, np.int64), np.empty(count)
        mean, variance, scores = np.empty(count), np.empty(count), np.empty(count)
        for j in range(count):
            i, k = j // size, j % size
            grown[j] = codes[i] | (k << loads.shifts[m])
            chance[j] = chances[i] * initial[first + k]
            mean[j] = means[i] + loads.means[first + k]
            variance[j] = variances[i] + loads.variances[first + k]
            spread = variance[j] + loads.rest_variance[m]
            gap = reading - mean[j] - loads.rest_mean[m]
            # The long tails order the states even if the reading is far from all of them.
            scores[j] = (
                chance[j]
                / np.sqrt(spread)
                * (np.exp(-0.5 * gap * gap / spread) + 1e-6 / (1.0 + gap * gap / spread))
            )
        best = keep_best(scores, width)
        codes, chances = grown[best], chance[best]
        means, variances = mean[best], variance[best]
    return codes, chances


@compiled(cache=True, nogil=True)
def new_table(loads: Loads, width: int) -> tuple[Table, Found]:
    """Memory for all states that can follow `width` states."""
    moves = int((loads.sizes - 1).sum())
    most = width * (1 + moves) + PAIRS * moves * moves
    slots = 2
    while slots < 2 * most:
        slots *= 2
    table = Table(np.empty(slots, np.int64), np.empty(slots, np.int64))
    return table, Found(np.empty(most, np.int64), np.empty(most), np.empty(most, np.int64))


@compiled(cache=True, nogil=True, error_model="numpy")
def offer(
    code: int, weight: float, parent: int, best: bool, table: Table, found: Found, count: int
) -> int:
    """Add a state, or update its weight if it is present; returns the number of states."""
    at = slot_of(table.keys, code)
    if table.keys[at] == EMPTY:
        # If many states have equal weight, all of them change in pairs and the memory can be
        # full; further states are then left out.
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


@compiled(cache=True, nogil=True, error_model="numpy")
def expand(
    loads: Loads, codes: IntArray, weights: FloatArray, best: bool, table: Table, found: Found
) -> int:
    """Find all states that can follow the kept ones, with their predicted probability.

    The probabilities of one state are summed, or with `best` the largest is taken. Returns the
    number of states.
    """
    table.keys[:] = EMPTY
    count, bar = 0, pair_bar(weights)
    for i in range(codes.size):
        stay = weights[i] * stay_chance(loads, codes[i])
        # `stay` has the factor A_kk of every load. A change k → l replaces one factor by A_kl; the
        # prior of `count_transitions` keeps A_kk positive.
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


@compiled(cache=True, nogil=True, error_model="numpy")
def walk(
    loads: Loads,
    tables: Densities,
    readings: FloatArray,
    starts: BoolArray,
    codes: IntArray,
    weights: FloatArray,
    best: bool,
    kept: Beam,
) -> tuple[IntArray, FloatArray]:
    """Filter a block from the states before it; returns the states after it.

    If `kept` has a row for every reading, the states of every reading are stored in it.
    """
    width = kept.codes.shape[1]
    table, found = new_table(loads, width)
    seen = np.empty(found.codes.size)
    for t in range(readings.size):
        if starts[t]:
            # Only the very first reading has no states before it.
            law = loads.initial if weights.size else loads.first
            # Runs are independent: the path into a new run comes from the best end of the last.
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


@compiled(cache=True, nogil=True, error_model="numpy")
def gather(loads: Loads, code: int, pairs: bool, table: Table, values: FloatArray) -> float:
    """Sum of transition probability times value over the kept next states."""
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
    # If the beam dropped all successors of a state, zero would make the normalisation fail.
    return max(stay_chance(loads, code) * total, 1e-300)


@compiled(cache=True, nogil=True, error_model="numpy")
def smooth(
    loads: Loads,
    starts: BoolArray,
    kept: Beam,
    next_codes: IntArray,
    next_values: FloatArray,
    chances: FloatArray,
) -> tuple[FloatArray, IntArray]:
    """Marginals of the loads' states in a block, computed from its end.

    `next_values` is density times backward probability of the kept states `next_codes` at the
    reading after the block; both are empty if a run or the trace ends there. Returns the same for
    the first reading of the block.
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
