"""The limit of any attacker: the exact Bayes optimum for each appliance, and the cap of ε-DP.

The strongest attacker knows the mechanism, the states of all other appliances and the prior
probability π of "on". The appliance then changes a reading by its power or not at all, and the
best answer compares the likelihood ratio with the prior odds. Over a run of readings with the same
state the likelihood ratios are multiplied, so that their logarithms are added; the distribution of
the sum is computed by convolution.

Over a series the states change. `series_limit` is the accuracy of an attacker who also knows how
long the runs and pauses of an appliance last, and how much it draws. The probability of on given
all releases follows from a forward–backward recursion over the borders of runs and pauses: a hidden
semi-Markov model with two states, whose lengths need not be geometric as those of a Markov chain.

An appliance may also have K states with known powers, of which off is one: `state_limit` is about
its best guess. Information in bits, which the paper names as another measure of privacy, is an
average over the states, while ε holds for each of them: information near zero does not mean that no
single switch is visible, and a large ε does not mean that much is learnt on average. All bits are
about one appliance whose other loads are known.

The paper calls its Theorem 4 a "benchmark for all possible NILM algorithms", which it is not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.checks import BoolArray, FloatArray, IntArray, positive_array, whole
from hushmeter.compiled import compiled
from hushmeter.errors import InputError
from hushmeter.home import Home
from hushmeter.noise.laplace import loss_lattice
from hushmeter.noise.losses import MAX_POINTS, log_odds, points_for, ratio_optimum
from hushmeter.noise.mechanism import Mechanism, exact
from hushmeter.scoring import student_half_width
from hushmeter.trace import Runs, Trace


def universal_limit(
    home: Home, mechanism: Mechanism, prior: ArrayLike = 0.5, *, readings: int = 1
) -> FloatArray:
    """Probability that the best possible attacker is correct about each appliance.

    Parameters
    ----------
    home : Home
        The protected power of every appliance is used: its upper power if that is known, else
        the highest of its levels.
    mechanism : Mechanism
        The noise.
    prior : float or (N,)
        Prior probability π of "on".
    readings : int
        Number of readings during which the state does not change; the attacker uses all of them.

    Returns
    -------
    array, shape (N,)

    Raises
    ------
    InputError
        If a prior is outside [0, 1].

    Notes
    -----
    For one reading the limit is Σ_k max(π·P(k − s), (1 − π)·P(k)), where P is the distribution of
    the noise on the grid and s is the largest number of steps by which the appliance can change a
    reading. For independent priors, no attacker's expected accuracy exceeds the mean over the
    appliances, `mean_limit`: an attacker that does not know all other states is not better. The
    limit over a series in which the state changes is `series_limit`.

    Examples
    --------
    >>> home = hm.Home([hm.Appliance("kettle", 2000.0), hm.Appliance("fridge", 120.0)])
    >>> noise = hm.Laplace(epsilon=1.0, sensitivity=2000.0)
    >>> hm.universal_limit(home, mechanism=noise).round(2).tolist()
    [0.7, 0.51]
    """
    count = whole("readings", readings)
    priors = _priors(prior, len(home))
    steps = np.array([protected_steps(mechanism, a.protected_power) for a in home.appliances])
    return mechanism.limits(steps, priors, count)


def mean_limit(
    home: Home, mechanism: Mechanism, prior: ArrayLike = 0.5, *, readings: int = 1
) -> float:
    """Mean of `universal_limit` over the appliances, which no attacker's E[α] exceeds.

    The parameters are those of `universal_limit`.
    """
    return float(universal_limit(home, mechanism, prior, readings=readings).mean())


def privacy_cap(epsilon: ArrayLike, prior: ArrayLike = 0.5) -> FloatArray:
    """Largest probability max(π, 1 − π, 1/(1 + e^(−ε))) of a correct test of one bit under ε-DP.

    Parameters
    ----------
    epsilon : array_like
        ε for a change of the bit: L·ε_i for the state of appliance i in L readings.
    prior : array_like
        Prior probability π of one.

    Returns
    -------
    array
    """
    pi, loss = _probabilities(prior), np.asarray(epsilon, dtype=np.float64)
    return np.asarray(np.maximum(np.maximum(pi, 1 - pi), 1 / (1 + np.exp(-loss))))


def laplace_limit(
    power: ArrayLike, scale: ArrayLike, prior: ArrayLike = 0.5, *, readings: int = 1
) -> FloatArray:
    """Probability that the best attacker is correct under continuous Laplace noise.

    Parameters
    ----------
    power : array_like
        Appliance power P. [W]
    scale : array_like
        Laplace scale λ. [W]
    prior : array_like
        Prior probability π of "on".
    readings : int
        Number of readings during which the state does not change.

    Returns
    -------
    array

    Notes
    -----
    With s = P/λ and τ = ln((1 − π)/π), the optimum for one reading is 1 − √(π(1 − π))·e^(−s/2) if
    |τ| < s, and max(π, 1 − π) otherwise. For more readings it is computed by convolution on a fine
    lattice.
    """
    count = whole("readings", readings)
    ratio = positive_array("power", power) / positive_array("scale", scale)
    s, pi = np.broadcast_arrays(ratio, _probabilities(prior))
    if count == 1:
        guess = np.maximum(pi, 1 - pi)
        better = 1 - np.sqrt(pi * (1 - pi)) * np.exp(-s / 2)
        return np.asarray(np.where(np.abs(log_odds(pi)) < s, better, guess))
    flat = [
        ratio_optimum(*loss_lattice(MAX_POINTS, float(a), points_for(count)), float(b), count)
        for a, b in zip(s.ravel(), pi.ravel(), strict=True)
    ]
    return np.asarray(flat, dtype=np.float64).reshape(s.shape)


def protected_steps(mechanism: Mechanism, watts: float) -> int:
    """Largest number of grid steps by which a switch of `watts` can change a rounded reading."""
    return min(math.ceil(exact("power", watts) / mechanism.exact_grid), mechanism.steps_of(watts))


def _priors(prior: ArrayLike, n: int) -> FloatArray:
    """One checked prior for each of n appliances."""
    values = _probabilities(prior)
    if values.shape not in ((), (n,)):
        raise InputError(f"prior must be one probability or {n}, got shape {values.shape}.")
    return np.broadcast_to(values, (n,))


def _probabilities(prior: ArrayLike) -> FloatArray:
    """Priors as an array; raises `InputError` unless all are in [0, 1]."""
    try:
        values = np.asarray(prior, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.asarray(math.nan)
    if not ((values >= 0) & (values <= 1)).all():
        raise InputError(f"prior must lie between 0 and 1, got {prior!r}.")
    return values


TAIL = 1e-15
"""Probability of the noise that is left out on either side."""


def state_limit(levels: ArrayLike, mechanism: Mechanism, prior: ArrayLike | None = None) -> float:
    """Probability that the best attacker names the state of an appliance from one reading.

    Parameters
    ----------
    levels : sequence of float, or float
        Power of every state [W]; one number means off and on.
    mechanism : Mechanism
        Noise on its grid.
    prior : sequence of float, optional
        Probability of every state; all equal by default.

    Returns
    -------
    float
        Σ_y max_k π_k·P(y − s_k), where s_k is the power of state k in grid steps, rounded away
        from zero. Under continuous Laplace noise and equal priors it is 1 − Σ_g e^(−g/2λ)/K, the
        sum over the K − 1 gaps g between neighbouring levels.

    Examples
    --------
    >>> import hushmeter as hm
    >>> mechanism = hm.Laplace(epsilon=1.0, sensitivity=2000.0, grid=10.0)
    >>> round(state_limit([0.0, 500.0, 2000.0], mechanism), 3)
    0.476
    """
    given, chances = _channel(levels, mechanism, prior)
    return float((chances[:, None] * given).max(axis=0).sum())


def state_curve(levels: ArrayLike, scale: ArrayLike) -> FloatArray:
    """`state_limit` under continuous Laplace noise of every scale λ [W], for equal priors."""
    watts = np.sort(np.asarray(levels, dtype=np.float64))
    halves = np.diff(watts) / (2 * positive_array("scale", scale)[..., None])
    return np.asarray(1 - np.exp(-halves).sum(axis=-1) / watts.size)


def reading_information(
    levels: ArrayLike, mechanism: Mechanism, prior: ArrayLike | None = None
) -> float:
    """Bits that one released reading contains about the state of an appliance; exact.

    Parameters
    ----------
    levels : sequence of float, or float
        Power of every state [W]; one number means off and on.
    mechanism : Mechanism
        Noise on its grid.
    prior : sequence of float, optional
        Probability of every state; all equal by default.

    Returns
    -------
    float
        I(X; Y) = h(Σ_k π_k·P(y − s_k)) − h(P), from 0 to the entropy of the state.

    Examples
    --------
    >>> mechanism = hm.Laplace(epsilon=1.0, sensitivity=2000.0, grid=10.0)
    >>> round(reading_information(2000.0, mechanism), 3)
    0.127
    """
    given, chances = _channel(levels, mechanism, prior)
    found = entropy(chances @ given) - float(chances @ [entropy(row) for row in given])
    return min(max(found, 0.0), entropy(chances))


def laplace_information(power: ArrayLike, scale: ArrayLike) -> FloatArray:
    """Bits about on and off, equally likely, in one reading with continuous Laplace noise.

    With s = P/λ the logarithm of the likelihood ratio is clipped to [−s, s], and the information is
    1 − ½·log₂(1 + e^(−s)) − ½·e^(−s)·log₂(1 + e^s) − ½·∫₀^s e^(−u)·log₂(1 + e^(2u − s)) du.
    """
    s = np.asarray(positive_array("power", power) / positive_array("scale", scale))
    nodes, weights = np.polynomial.legendre.leggauss(64)
    total = 0.5 * np.logaddexp(0, -s) + 0.5 * np.exp(-s) * np.logaddexp(0, s)
    # The integrand bends at s/2 and is below e⁻⁴⁰ beyond s/2 + 40.
    for low, high in ((0 * s, s / 2), (s / 2, np.minimum(s, s / 2 + 40))):
        half = ((high - low) / 2)[..., None]
        u = low[..., None] + half * (1 + nodes)
        inside = np.exp(-u) * np.logaddexp(0, 2 * u - s[..., None])
        total = total + 0.5 * (half * weights * inside).sum(axis=-1)
    return np.clip(1 - total / math.log(2), 0.0, 1.0)


def series_information(
    levels: ArrayLike, mechanism: Mechanism, chain: ArrayLike, readings: int
) -> tuple[float, float]:
    """Bounds of the bits that a series of releases contains about all states of an appliance.

    Parameters
    ----------
    levels : sequence of float, or float
        Power of every state [W]; one number means off and on.
    mechanism : Mechanism
        Noise, independent from reading to reading.
    chain : (K, K) array_like, or (float, float)
        Probability of every state after every state, rows of sum one; or for two states those of
        switching on after a reading off, and of switching off after a reading on.
    readings : int
        Number T of released readings.

    Returns
    -------
    lower, upper : float
        The states are a stationary Markov chain X_1 … X_T. The lower bound is
        I(X_1; Y_1) + (T − 1)·I(X_2; Y_2 | X_1), because H(Y_t | Y_1 … Y_{t−1}) is at least
        H(Y_t | X_{t−1}) [1]_. The upper bound is the smaller of T·I(X_1; Y_1) and the entropy of
        the states.

    Raises
    ------
    InputError
        If the chain is no matrix of probabilities, or has no unique stationary distribution.

    References
    ----------
    .. [1] T. M. Cover, J. A. Thomas, "Elements of Information Theory", 2nd ed., Section 4.5, 2006.
    """
    steps = _transitions(chain)
    count, prior = whole("readings", readings), _stationary(steps)
    first = reading_information(levels, mechanism, prior)
    given = [reading_information(levels, mechanism, row) for row in steps]
    lower = first + (count - 1) * float(prior @ given)
    rate = float(prior @ [entropy(row) for row in steps])
    upper = min(count * first, entropy(prior) + (count - 1) * rate)
    return min(lower, upper), upper


def entropy(masses: ArrayLike) -> float:
    """Entropy of a distribution [bit]."""
    found = np.asarray(masses, dtype=np.float64)
    found = found[found > 0]
    return -float((found * np.log(found)).sum()) / math.log(2)


def _transitions(chain: ArrayLike) -> FloatArray:
    """The checked matrix of a chain; two numbers are the chances of switching on and off."""
    steps = np.asarray(chain, dtype=np.float64)
    if steps.shape == (2,):
        steps = np.array([[1 - steps[0], steps[0]], [steps[1], 1 - steps[1]]])
    square = steps.ndim == 2 and steps.shape[0] == steps.shape[1]
    if not (square and (steps >= 0).all() and np.allclose(steps.sum(axis=1), 1)):
        raise InputError("chain must be probabilities: one row for each state, of sum one.")
    return steps


def _stationary(steps: FloatArray) -> FloatArray:
    """The stationary distribution of a chain."""
    size = len(steps)
    equations = np.vstack([steps.T - np.eye(size), np.ones(size)])
    if np.linalg.matrix_rank(equations, tol=1e-12) < size:
        raise InputError("chain must allow a switch between its states, or it has no long run.")
    found = np.linalg.lstsq(equations, np.append(np.zeros(size), 1.0), rcond=None)[0]
    return np.asarray(np.maximum(found, 0.0) / np.maximum(found, 0.0).sum())


def _channel(
    levels: ArrayLike, mechanism: Mechanism, prior: ArrayLike | None
) -> tuple[FloatArray, FloatArray]:
    """Probabilities of every released value in every state, and those of the states."""
    watts = np.asarray(levels, dtype=np.float64)
    watts = np.append(0.0, watts) if watts.ndim == 0 else watts
    if watts.ndim != 1 or watts.size < 2 or not np.isfinite(watts).all():
        raise InputError("levels must be the powers of at least two states [W].")
    above = (watts - watts.min()).tolist()
    moved = [protected_steps(mechanism, one) if one else 0 for one in above]
    chances = np.full(watts.size, 1 / watts.size) if prior is None else np.asarray(prior, float)
    if chances.ndim == 0 and watts.size == 2:
        chances = np.array([1 - chances, chances])
    if chances.shape != watts.shape or (chances < 0).any() or not np.isclose(chances.sum(), 1):
        raise InputError(f"prior must be {watts.size} probabilities of sum one, got {prior!r}.")
    reach = round(mechanism.quantile(1 - TAIL) / float(mechanism.exact_grid)) + 1
    places = np.arange(-reach, reach + max(moved) + 1)
    return np.stack([np.asarray(mechanism.pmf(places - step)) for step in moved]), chances


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
    states = home.truth_of(trace)
    count = whole("releases", releases, least=2)
    right = np.empty((count, len(home)))
    by_reading = np.zeros(states.shape)
    models = [_Appliance(home, trace, mechanism, i) for i in range(len(home))]
    for k, seed in enumerate(np.random.SeedSequence(rng).generate_state(count).tolist()):
        noise = mechanism.sample(len(trace), rng=seed)
        correct = np.stack([model.guess(noise) == model.on for model in models], axis=1)
        right[k], by_reading = correct.mean(axis=0), by_reading + correct / count
    alpha = right.mean(axis=1)
    reach, mean = float(student_half_width(alpha)), float(alpha.mean())
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


@compiled(cache=True, nogil=True)
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


@compiled(cache=True, nogil=True)
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
