"""The limit of any attacker over a whole series of readings.

`universal.universal_limit` is about one reading, or about a run during which the state is known to
be constant. Over a series the states change. `series_limit` is the accuracy of an attacker who
knows all other loads, how long the runs and pauses of an appliance last, and how much it draws. The
probability of on given all releases follows from a forward–backward recursion over the borders of
runs and pauses: a hidden semi-Markov model with two states, whose lengths need not be geometric as
those of a Markov chain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numba
import numpy as np

from hushmeter.checks import BoolArray, FloatArray, IntArray, whole
from hushmeter.errors import InputError
from hushmeter.home import Home
from hushmeter.noise.mechanism import Mechanism
from hushmeter.theory.universal import protected_steps
from hushmeter.trace import Runs, Trace

MOST_POWERS = 32
"""Largest number of powers by which the consumption of an appliance in one state is described."""


@dataclass(frozen=True)
class SeriesLimit:
    """Accuracy of the best attacker over a whole series.

    Attributes
    ----------
    alpha : float
        Mean over all readings and appliances, and over the simulated releases.
    low, high : float
        Interval of `alpha` over the releases (Student's t, 95 %).
    per_appliance : array, shape (N,)
        The same for each appliance.
    by_release : array, shape (releases, N)
        Share of correct answers in each simulated release.
    by_reading : array, shape (T, N)
        Share of the releases in which each answer was correct.
    """

    alpha: float
    low: float
    high: float
    per_appliance: FloatArray
    by_release: FloatArray
    by_reading: FloatArray


def series_limit(
    home: Home, trace: Trace, mechanism: Mechanism, *, releases: int = 20, rng: int = 0
) -> SeriesLimit:
    """Accuracy that no attacker exceeds over the whole series of readings.

    Parameters
    ----------
    home : Home
    trace : Trace with states
        True states, with their gaps. If it has the power of the appliances, the distributions of
        the power of each appliance while on and while off are used; otherwise the protected power.
    mechanism : Mechanism
        Noise, independent from reading to reading.
    releases : int
        Number of simulated releases, at least two.
    rng : int
        Seed of the releases.

    Returns
    -------
    SeriesLimit

    Raises
    ------
    InputError
        If the trace has other appliances than the home.

    Notes
    -----
    The attacker of appliance i knows all other loads, so that it sees the power of i plus noise. It
    also knows how long the runs and the pauses of this very trace last and how often each length
    occurs, and how often the appliance draws which power in either state (at most 32 values). It
    does not know their order. Its answer at each reading is the more probable state given all
    releases, which maximises the expected accuracy over all series with these lengths and powers.
    An attacker that knows less is not correct more often on the average over such series. On the
    one series that is given it can be so by chance, or if the order of the lengths or of the powers
    contains more than their frequencies.

    Runs that a gap cuts count with the length that was seen. The first run or pause after a gap has
    already lasted for an unknown time.
    """
    states = trace.truth()
    if states.shape[1] != len(home):
        raise InputError(f"the trace has {states.shape[1]} appliances, the home {len(home)}.")
    count = whole("releases", releases, least=2)
    right = np.empty((count, len(home)))
    by_reading = np.zeros(states.shape)
    models = [_Appliance(home, trace, mechanism, i) for i in range(len(home))]
    for k, seed in enumerate(np.random.SeedSequence(rng).generate_state(count).tolist()):
        noise = mechanism.sample(len(trace), rng=seed)
        correct = np.stack([model.guess(noise) == model.on for model in models], axis=1)
        right[k], by_reading = correct.mean(axis=0), by_reading + correct / count
    alpha = right.mean(axis=1)
    from scipy.stats import t as student

    reach = student.ppf(0.975, count - 1) * alpha.std(ddof=1) / math.sqrt(count)
    mean = float(alpha.mean())
    low, high = max(mean - reach, 0.0), min(mean + reach, 1.0)
    return SeriesLimit(mean, float(low), float(high), right.mean(axis=0), right, by_reading)


class _Appliance:
    """What the best attacker knows about one appliance, and what it sees."""

    def __init__(self, home: Home, trace: Trace, mechanism: Mechanism, column: int) -> None:
        self.mechanism = mechanism
        self.on: BoolArray = trace.truth()[:, column]
        self.starts = trace.run_starts
        if trace.power is None:
            largest = protected_steps(mechanism, home.appliances[column].protected_power)
            self.power = np.where(self.on, largest, 0)
        else:
            grid = float(mechanism.exact_grid)
            self.power = np.floor(trace.power[:, column] / grid + 0.5).astype(np.int64)
        runs = Runs.of_equal(self.on, self.starts)
        is_run = self.on[runs.first]
        self.pauses = Frequencies.of(runs.length[~is_run])
        self.runs = Frequencies.of(runs.length[is_run])
        self.drawn = [_few_powers(self.power[self.on == state]) for state in (False, True)]

    def guess(self, noise: IntArray) -> BoolArray:
        """The more probable state at every reading, given the power plus noise in grid steps."""
        share = float(self.on.mean())
        if share in (0.0, 1.0):
            return self.on
        seen = self.power + noise
        off, on = (self._log_likelihood(seen, *drawn) for drawn in self.drawn)
        posterior = np.empty(seen.size)
        for part in Runs.between_gaps(self.starts).slices:
            posterior[part] = on_probability((on - off)[part], self.pauses, self.runs, share)
        return posterior > 0.5

    def _log_likelihood(self, seen: IntArray, powers: IntArray, shares: FloatArray) -> FloatArray:
        logs = np.asarray(self.mechanism.log_pmf(seen[:, None] - powers)) + np.log(shares)
        peak = logs.max(axis=1)
        return np.asarray(peak + np.log(np.exp(logs - peak[:, None]).sum(axis=1)))


class Frequencies(NamedTuple):
    """Distinct whole numbers in ascending order, and their shares."""

    values: IntArray
    shares: FloatArray

    @classmethod
    def of(cls, numbers: IntArray) -> Frequencies:
        """Frequencies of the given numbers."""
        distinct, counts = np.unique(numbers, return_counts=True)
        return cls(distinct.astype(np.int64), counts / max(counts.sum(), 1))


def _few_powers(steps: IntArray) -> Frequencies:
    """At most `MOST_POWERS` powers that describe a distribution, and their shares."""
    found = Frequencies.of(steps)
    if found.values.size <= MOST_POWERS:
        return found
    parts = np.array_split(np.sort(steps), MOST_POWERS)
    return Frequencies.of(np.array([round(part.mean()) for part in parts]))


def on_probability(
    gain: FloatArray, pauses: Frequencies, runs: Frequencies, share: float
) -> FloatArray:
    """P(on | all readings) at each of T contiguous readings, in a hidden semi-Markov model.

    `gain` is the log-likelihood of on less that of off, (T,). `pauses` and `runs` are the lengths
    [readings] of the stays in either state, and `share` is the share of on in the long run.
    """
    size = gain.size
    total = np.concatenate([[0.0], np.cumsum(gain)])
    lasts, firsts = [], []
    for (lengths, chances), prior in ((pauses, 1 - share), (runs, share)):
        # Probability that a stay has r readings or more, r = 0 … T.
        at_least = np.append(chances[::-1].cumsum()[::-1], 0.0)
        lasting = at_least[np.searchsorted(lengths, np.arange(size + 1))]
        # Of the first stay, r readings are left; the last entry is for T or more.
        left = lasting.copy()
        left[size] += np.maximum(lengths - size, 0) @ chances
        with np.errstate(divide="ignore"):
            lasts.append(np.log(lasting))
            firsts.append(np.log(left * prior / (lengths @ chances)))
    found: FloatArray = _smooth(
        total,
        pauses.values,
        runs.values,
        np.log(pauses.shares),
        np.log(runs.shares),
        np.stack(lasts),
        np.stack(firsts),
    )
    return found


FAR = 40.0
"""Difference of logarithms beyond which the smaller term of a sum is left out: e⁻⁴⁰ of it."""


@numba.njit(cache=True, nogil=True)
def _sum_ended(
    known: FloatArray,
    total: FloatArray,
    t: int,
    lengths: IntArray,
    chances: FloatArray,
    start: float,
) -> float:
    """log(e^start + Σ e^(weight of a stay of each length that ends before t)).

    `known[b]` is the weight of everything before a stay that begins at b ≥ 1, and `total` the
    cumulative gain during the stay.
    """
    peak, rest = start, 1.0 if start > -np.inf else 0.0
    for k in range(lengths.size):
        b = t - lengths[k]
        if b < 1:
            break
        term = known[b] + chances[k] + total[t] - total[b]
        if term > peak:
            rest = rest * np.exp(peak - term) + 1.0 if rest > 0.0 else 1.0
            peak = term
        elif term > peak - FAR:
            rest += np.exp(term - peak)
    return peak + np.log(rest) if rest > 0.0 else -np.inf


@numba.njit(cache=True, nogil=True)
def _smooth(
    total: FloatArray,
    pause_lengths: IntArray,
    run_lengths: IntArray,
    pause_chances: FloatArray,
    run_chances: FloatArray,
    last: FloatArray,
    first: FloatArray,
) -> FloatArray:
    """P(on) from the log-weights of all stays; `total` is the cumulative gain of being on.

    `begin[s, t]` is the log-weight of everything before reading t if a stay in state s begins
    there, and `rest[s, t]` that of everything from t on. `last[s, r]` is that a stay lasts for r
    readings or more, and `first[s, r]` that r readings of the first stay are left. The weights from
    t on are those before size − t of the reversed series.
    """
    size = total.size - 1
    gain = np.zeros((2, size + 1))
    gain[1] = total
    back = np.zeros((2, size + 1))
    back[1] = total[size] - total[::-1]
    begin, after = np.full((2, size + 1), -np.inf), np.full((2, size + 1), -np.inf)
    for t in range(1, size):
        begin[1, t] = _sum_ended(
            begin[0], gain[0], t, pause_lengths, pause_chances, first[0, t] + gain[0, t]
        )
        begin[0, t] = _sum_ended(
            begin[1], gain[1], t, run_lengths, run_chances, first[1, t] + gain[1, t]
        )
        after[1, t] = _sum_ended(
            after[0], back[0], t, pause_lengths, pause_chances, last[0, t] + back[0, t]
        )
        after[0, t] = _sum_ended(
            after[1], back[1], t, run_lengths, run_chances, last[1, t] + back[1, t]
        )
    rest = after[::-1, ::-1]  # A stay in s that begins at t follows one in 1 − s that ended there.
    logs = np.empty(2 * size)
    for state in range(2):
        logs[state * size] = first[state, size] + gain[state, size]
        for t in range(1, size):
            logs[state * size + t] = first[state, t] + gain[state, t] + rest[1 - state, t]
    evidence = logs.max()
    evidence += np.log(np.exp(logs - evidence).sum())
    # Every stay in on adds its probability from its first to its last reading.
    change = np.zeros(size + 1)
    change[0] += np.exp(first[1, size] + total[size] - evidence)
    for t in range(1, size):
        chance = np.exp(first[1, t] + total[t] + rest[0, t] - evidence)
        change[0] += chance
        change[t] -= chance
        change[t] += np.exp(begin[1, t] + last[1, size - t] + total[size] - total[t] - evidence)
        for k in range(run_lengths.size):
            end = t + run_lengths[k]
            if end >= size:
                break
            log = begin[1, t] + run_chances[k] + total[end] - total[t] + rest[0, end] - evidence
            if log > -FAR:
                chance = np.exp(log)
                change[t] += chance
                change[end] -= chance
    return np.cumsum(change)[:size]
