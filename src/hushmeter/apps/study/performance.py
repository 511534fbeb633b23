"""The expected accuracy of an attacker: exact where it forgets, with certified intervals elsewhere.

The paper bounds the accuracy of its own attackers and leaves "performance bounds for other
algorithms" to future work. Many of these algorithms need no bound. An attacker without memory
answers every value of the grid in one way: it is asked once for each value, and the distribution of
the noise turns the answers into probabilities,

    P(on at reading t) = Σ_k P(n = k) · answer(y_t + k).

This holds for CO, for IP and for the RNN with a window of one reading. Sparse-HMM answers each pair
of consecutive readings in one way, and their noise is independent. In ALIP each appliance is a
finite automaton, whose states are its levels: a forbidden change is replaced by an allowed one. The
distribution of the state follows from reading to reading. Algorithm 1 without error correction has
the recursion of `series_accuracy`.

Error correction and Algorithm 2 depend on all noise so far. Their accuracy is simulated, and the
accuracy of Algorithm 1 without correction on the same releases, whose mean is known, is a control
variate. The interval is `mean_interval`, which is valid for any number of releases.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.apps.nilm.combinatorial import AidedIntegerProgram
from hushmeter.apps.nilm.super_state_hmm import SuperStateHmm
from hushmeter.attack.base import Attacker
from hushmeter.attack.hierarchical import Hierarchical
from hushmeter.attack.levels import LevelArray
from hushmeter.attack.multi_shot import MultiShot
from hushmeter.checks import BoolArray, FloatArray, IntArray, finite_vector, whole
from hushmeter.compiled import compiled
from hushmeter.errors import InputError
from hushmeter.noise.mechanism import Mechanism
from hushmeter.theory.exact import series_accuracy
from hushmeter.trace import Trace

CELLS = 1 << 22
"""Number of entries of a block of probabilities, which bounds the memory."""

MOST_VALUES = 1 << 23
"""Largest number of values of the grid that an attacker is asked for."""

TAIL = 1e-13
"""Probability of the noise beyond which the answer to the outermost value asked for is used."""

PILOT = 50
"""Further releases that decide about the weight of the control variate."""


@dataclass(frozen=True)
class Performance:
    """Expected accuracy E[α] of an attacker on one trace.

    Attributes
    ----------
    alpha : float
        E[α], the mean over all readings and appliances.
    low, high : float
        Interval that contains E[α]; both are `alpha` if it is exact.
    per_appliance : array, shape (N,)
        Expected share of readings at which the attacker is correct about each appliance.
    method : str
        "exact", "control variate" or "simulated".
    """

    alpha: float
    low: float
    high: float
    per_appliance: FloatArray
    method: str


def expected_accuracy(
    attacker: Attacker,
    trace: Trace,
    mechanism: Mechanism,
    *,
    initial_state: ArrayLike | None = None,
    releases: int = 400,
    rng: int = 0,
    confidence: float = 0.95,
) -> Performance:
    """Expected accuracy of an attacker on the releases of one trace.

    Parameters
    ----------
    attacker : Attacker
        A fitted attacker. It knows the noise only if it was told: see `Attacker.knows`.
    trace : Trace with states
        The readings [W] before noise and the true states.
    mechanism : Mechanism
        Noise, independent from reading to reading.
    initial_state : array_like of bool, shape (N,), optional
        State at the first reading that the attacker is given; this reading is then not scored.
    releases : int
        Number of simulated releases, if the accuracy is not exact.
    rng : int
        Seed of the simulated releases.
    confidence : float
        Probability with which the interval contains E[α].

    Returns
    -------
    Performance

    Raises
    ------
    InputError
        If the trace has other appliances than the home, or the noise covers too many values.

    Notes
    -----
    The result is exact for an attacker with `lookback` 0 (CO, IP, RNN with a window of one
    reading), for Sparse-HMM, for ALIP without rules about medians and smoothing, and for Algorithm
    1 with ``correction="none"`` and its other defaults. It has an interval for all others. For
    Algorithms 1 and 2 with error correction, the accuracy of Algorithm 1 without it is the control
    variate; its weight comes from 50 further releases.

    Examples
    --------
    >>> home = hm.synth.ready_home("evening")
    >>> trace = hm.synth.trace(home, 500, seed=1)
    >>> mechanism = hm.Laplace(epsilon=1.0, sensitivity=100.0, grid=1.0)
    >>> found = expected_accuracy(hm.attackers["co"](home), trace, mechanism)
    >>> found.method, found.low == found.alpha == found.high
    ('exact', True)
    """
    attacker.home.truth_of(trace)
    correct = exact_performance(attacker, trace, mechanism, initial_state)
    if correct is not None:
        alpha = float(correct.mean())
        return Performance(alpha, alpha, alpha, correct, "exact")
    return _simulate(attacker, trace, mechanism, initial_state, releases, rng, confidence)


def exact_performance(
    attacker: Attacker,
    trace: Trace,
    mechanism: Mechanism,
    initial_state: ArrayLike | None = None,
    most_values: int = MOST_VALUES,
) -> FloatArray | None:
    """Exact share of correct answers about each appliance; None if there is no exact method.

    An attacker is asked for at most `most_values` values of the grid; more are an `InputError`.
    """
    if isinstance(attacker, MultiShot):
        if not attacker.is_plain:
            return None
        known = np.zeros(len(attacker.home)) if initial_state is None else np.asarray(initial_state)
        correct = series_accuracy(attacker.home, trace, mechanism=mechanism, first_state=known)
        return _share(correct, initial_state)
    if isinstance(attacker, AidedIntegerProgram) and attacker.is_automaton:
        chance = _follow_levels(attacker, trace, _Values(trace, mechanism, most_values))
    elif isinstance(attacker, SuperStateHmm):
        chance = _answer_pairs(attacker, trace, _Values(trace, mechanism, most_values))
    elif attacker.lookback == 0:
        chance = _answer_values(attacker, _Values(trace, mechanism, most_values))
    else:
        return None
    return _share(np.where(trace.truth(), chance, 1 - chance), initial_state)


def _share(correct: FloatArray | BoolArray, initial_state: ArrayLike | None) -> FloatArray:
    """Mean over the readings, without the first one if the attacker was given its state."""
    given = initial_state is not None and len(correct) > 1
    return np.asarray(correct[1 if given else 0 :].mean(axis=0))


class _Values:
    """The values of the grid that releases of a trace can have, and the true readings on it."""

    def __init__(self, trace: Trace, mechanism: Mechanism, most: int) -> None:
        self.mechanism = mechanism
        grid = float(mechanism.exact_grid)
        steps = np.floor(trace.readings / grid + 0.5).astype(np.int64)
        self.true, which = np.unique(steps, return_inverse=True)
        self.which: IntArray = which.ravel()
        reach = round(mechanism.quantile(1 - TAIL) / grid) + 1
        count = int(self.true[-1] - self.true[0]) + 2 * reach + 1
        if count > most:
            raise InputError(
                f"the releases cover {count} values of the grid of {grid:g} W, which are too many "
                "to ask an attacker for; use a coarser grid."
            )
        self.steps = np.arange(self.true[0] - reach, self.true[-1] + reach + 1)
        self.watts: FloatArray = self.steps * grid

    def chances(self, first: IntArray) -> Iterator[tuple[slice, FloatArray]]:
        """P(a release is in each range | true value), block by block of the true values.

        `first` are the positions at which the ranges of values begin. The first and the last range
        are not bounded.
        """
        rows = max(1, CELLS // (first.size + 1))
        for begin in range(0, self.true.size, rows):
            part = slice(begin, begin + rows)
            below = self.steps[first[1:]] - self.true[part, None] - 1
            edges = np.ones((below.shape[0], first.size + 1))
            edges[:, 0] = 0.0
            edges[:, 1:-1] = self.mechanism.cdf(below)
            yield part, np.diff(edges, axis=1)


def _answer_values(attacker: Attacker, values: _Values) -> FloatArray:
    """P(on) of an attacker without memory at every reading, shape (T, N)."""
    answers = attacker.predict(values.watts)
    first = _changes(answers)
    chance = np.empty((values.true.size, answers.shape[1]))
    for part, chances in values.chances(first):
        chance[part] = chances @ answers[first]
    return chance[values.which]


def _changes(rows: BoolArray | LevelArray | IntArray) -> IntArray:
    """Positions at which equal rows begin."""
    table = rows.reshape(len(rows), -1)
    return np.flatnonzero(np.append(True, (table[1:] != table[:-1]).any(axis=1)))


def _answer_pairs(attacker: SuperStateHmm, trace: Trace, values: _Values) -> FloatArray:
    """P(on) of Sparse-HMM at every reading, shape (T, N), from its answers to pairs of symbols."""
    symbols = attacker.read_symbols(values.watts)
    first = _changes(symbols)
    used, column = np.unique(symbols[first], return_inverse=True)
    chance = np.zeros((values.true.size, used.size))
    for part, chances in values.chances(first):
        np.add.at(chance[part].T, column.ravel(), chances.T)
    before, now = (x.ravel() for x in np.meshgrid(used, used, indexing="ij"))
    answers = attacker.answer_pairs(before, now).reshape(used.size, used.size, -1)
    pairs = np.column_stack([np.append(values.which[:1], values.which[:-1]), values.which])
    distinct, place = np.unique(pairs, axis=0, return_inverse=True)
    found = np.empty((len(trace), answers.shape[2]))
    for i in range(answers.shape[2]):
        likely = chance @ answers[:, :, i]
        both = np.einsum("pc,pc->p", likely[distinct[:, 0]], chance[distinct[:, 1]])
        alone = chance @ np.diagonal(answers[:, :, i]).astype(np.float64)
        # The first reading of a contiguous run is its own predecessor.
        found[:, i] = np.where(trace.run_starts, alone[values.which], both[place.ravel()])
    return found


def _follow_levels(attacker: AidedIntegerProgram, trace: Trace, values: _Values) -> FloatArray:
    """P(on) of ALIP at every reading, shape (T, N); an appliance is an automaton of its levels."""
    levels = attacker.choose_alone(values.watts - attacker.home.base_load)
    first = _changes(levels)
    counts = attacker.table.counts
    chance = [np.zeros((values.true.size, count)) for count in counts]
    for part, chances in values.chances(first):
        for i, count in enumerate(counts):
            chance[i][part] = chances @ np.eye(count)[levels[first, i]]
    found = np.empty((len(trace), len(counts)))
    instead = attacker.rules_in_use.instead
    for i, on in enumerate(attacker.on_flags):
        state = _follow_automaton(chance[i][values.which], trace.run_starts, instead[i])
        found[:, i] = state @ on
    return found


@compiled(cache=True, nogil=True)
def _follow_automaton(chance: FloatArray, starts: BoolArray, instead: LevelArray) -> FloatArray:
    """Distribution of the level at every reading, from that of the level before the rule."""
    state = chance.copy()
    for t in range(1, starts.size):
        if starts[t]:
            continue
        state[t] = 0.0
        for before in range(chance.shape[1]):
            for chosen in range(chance.shape[1]):
                state[t, instead[before, chosen]] += state[t - 1, before] * chance[t, chosen]
    return state


def _simulate(
    attacker: Attacker,
    trace: Trace,
    mechanism: Mechanism,
    initial_state: ArrayLike | None,
    releases: int,
    rng: int,
    confidence: float,
) -> Performance:
    """Mean accuracy over simulated releases, with a control variate for Algorithms 1 and 2."""
    whole("releases", releases, least=2)
    control = _control(attacker)
    count = releases + (0 if control is None else PILOT)
    correct = np.empty((count, len(attacker.home)))
    plain = np.zeros(count)
    grid = mechanism.grid
    readings = np.floor(trace.readings / grid + 0.5) * grid
    for k, seed in enumerate(np.random.SeedSequence(rng).generate_state(count).tolist()):
        noisy = trace.replace_readings(mechanism.release(readings, rng=seed))
        answer = attacker.predict(noisy, initial_state=initial_state, rng=seed)
        correct[k] = _share(answer == trace.truth(), initial_state)
        if control is not None:
            # Both attackers draw the same random numbers for their rounding.
            other = control.predict(noisy, initial_state=initial_state, rng=seed)
            plain[k] = _share(other == trace.truth(), initial_state).mean()
    alpha = correct.mean(axis=1)
    if control is None:
        low, high = mean_interval(alpha, confidence=confidence)
        return Performance(float(alpha.mean()), low, high, correct.mean(axis=0), "simulated")
    exact = exact_performance(control, trace, mechanism, initial_state)
    assert exact is not None
    mean = float(exact.mean())
    weight = best_weight(alpha[:PILOT], plain[:PILOT], releases)
    adjusted = alpha[PILOT:] - weight * (plain[PILOT:] - mean)
    low, high = mean_interval(
        adjusted, low=-weight * (1 - mean), high=1 + weight * mean, confidence=confidence
    )
    per_appliance = correct[PILOT:].mean(axis=0)
    per_appliance += float(adjusted.mean()) - per_appliance.mean()
    return Performance(
        float(adjusted.mean()), max(low, 0.0), min(high, 1.0), per_appliance, "control variate"
    )


def best_weight(alpha: FloatArray, plain: FloatArray, releases: int) -> float:
    """Weight of the control variate with the smallest interval, as far as the pilot tells.

    A weight reduces the variance but widens the range of the values, which decides about the
    interval if there are few releases.
    """
    weights = np.linspace(0.0, 1.0, 21)
    spreads = (alpha[:, None] - weights * plain[:, None]).var(axis=0, ddof=1)
    log_odds = math.log(40.0)
    widths = np.sqrt(2 * log_odds * spreads / releases) + (1 + weights) * log_odds / releases
    return float(weights[widths.argmin()])


def _control(attacker: Attacker) -> MultiShot | None:
    """Algorithm 1 without error correction, for attackers that resemble it."""
    if not isinstance(attacker, MultiShot | Hierarchical):
        return None
    control = MultiShot(attacker.home, correction="none")
    return control if attacker.rounding == "bernoulli" else None


def mean_interval(
    values: ArrayLike, *, low: float = 0.0, high: float = 1.0, confidence: float = 0.95
) -> tuple[float, float]:
    """Interval that contains the mean of a bounded distribution with at least this probability.

    Parameters
    ----------
    values : array_like, shape (n,)
        Independent values of the distribution, in the order in which they were drawn.
    low, high : float
        Bounds of the distribution.
    confidence : float
        In (0, 1).

    Returns
    -------
    low, high : float

    Notes
    -----
    The method is that of betting [1]_. For a candidate m of the mean, Π (1 ± b_i (x_i − m)) with
    bets b_i ≥ 0 that depend on x_1 … x_{i−1} only is a martingale if m is the mean, so that it
    ever exceeds 2/(1 − confidence) with at most half of the error probability. No approximation is
    involved, unlike in an interval of a normal distribution.

    References
    ----------
    .. [1] I. Waudby-Smith, A. Ramdas, "Estimating means of bounded random variables by betting",
       Journal of the Royal Statistical Society B 86(1), 2024.
    """
    x = finite_vector("values", values)
    if not 0 < confidence < 1:
        raise InputError(f"confidence must lie between 0 and 1, got {confidence}.")
    if not low < high or x.size == 0 or x.min() < low - 1e-9 or x.max() > high + 1e-9:
        raise InputError(f"the values must be some numbers between {low:g} and {high:g}.")
    unit = np.clip((x - low) / (high - low), 0.0, 1.0)
    needed = math.log(2 / (1 - confidence))
    counts = np.arange(1, unit.size + 1)
    means = (0.5 + np.cumsum(unit)) / (counts + 1)
    variances = (0.25 + np.cumsum((unit - means) ** 2)) / (counts + 1)
    earlier = np.concatenate([[0.25], variances[:-1]])
    bets = np.sqrt(2 * needed / (earlier * unit.size))
    bounds = [_farthest(unit, bets, needed), 1 - _farthest(1 - unit, bets, needed)]
    return low + (high - low) * bounds[0], low + (high - low) * bounds[1]


def _farthest(x: FloatArray, bets: FloatArray, needed: float) -> float:
    """Smallest mean m in [0, 1] that the bets on larger values do not exclude."""

    def is_excluded(m: float) -> bool:
        stake = np.minimum(bets, 0.75 / max(m, 1e-12))
        return bool(np.cumsum(np.log1p(stake * (x - m))).max() >= needed)

    # Every factor of the capital falls with m, also where the stake is limited: the excluded means
    # are an interval.
    outside, inside = 0.0, 1.0
    if not is_excluded(outside):
        return outside
    for _ in range(50):
        middle = (outside + inside) / 2
        outside, inside = (middle, inside) if is_excluded(middle) else (outside, middle)
    return outside
