"""Scores of an attack: the accuracies of the paper, with their floors.

The accuracy α alone misleads: in a home that is mostly off, "everything is off" scores high. Every
score therefore contains its floors, F1 and balanced accuracy, and for every appliance its
visibility: how much of the error of a guess without data the attacker removed.

`score` compares states reading by reading, `score_events` compares the starts of runs,
`score_shares` compares shares of time, and `bootstrap_intervals` gives the uncertainty of a score
over the days of a trace.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.checks import BoolArray, FloatArray, IntArray, non_negative
from hushmeter.errors import DataError, InputError
from hushmeter.formatting import out_of_100
from hushmeter.special import student_quantile
from hushmeter.trace import SECONDS_PER_DAY, Trace


@dataclass(frozen=True)
class ApplianceScore:
    """The score of an attack on one appliance.

    Attributes
    ----------
    name : str
        Name of the appliance.
    alpha : float
        Share of readings with the correct state.
    off_floor : float
        α of the answer "always off".
    hold_floor : float
        α of the answer "always as at the first reading".
    floor : float
        α of the better one of "always off" and "always on": the best answer without data.
    visibility : float
        (α − floor)/(1 − floor): 1 if every state is correct, 0 if the attacker is as good as the
        best answer without data, negative if worse; NaN if the appliance never switches.
    f1 : float
        Harmonic mean of precision and recall of "on"; NaN if it is never on in truth and answer.
    balanced_accuracy : float
        Mean of the shares of on-readings and of off-readings with the correct state; if there is
        only one kind, the share of that kind.
    mcc : float
        Matthews correlation coefficient; 0 if it is undefined.
    kolter : float
        1 − Σ|P − P̂|/(2 ΣP) of its power [1]_; NaN without power.
    average_precision : float
        Area under the curve of precision and recall over all thresholds of the probability; NaN
        without probabilities, and for an appliance that is never on in the truth.

    References
    ----------
    .. [1] J. Z. Kolter and M. J. Johnson, "REDD: A public data set for energy disaggregation
       research", SustKDD workshop, 2011.
    """

    name: str
    alpha: float
    off_floor: float
    hold_floor: float
    floor: float
    visibility: float
    f1: float
    balanced_accuracy: float
    mcc: float
    kolter: float
    average_precision: float = math.nan


@dataclass(frozen=True)
class Score:
    """The score of one attack on all appliances.

    Attributes
    ----------
    alpha : float
        α = 1 − ‖X̄ − X⁰‖₁/(NT), the share of correct states: the paper's Eq. (acc_one) if it is
        computed on switches, its α_m if it is computed on states.
    alpha_floor : float
        α of the answer "everything off".
    hold_floor : float
        α of the answer "everything as at the first reading".
    f1 : float
        Mean over the appliances that are on at some reading of the truth. The set does not depend
        on the answer, so that scores of different attackers can be compared. NaN if it is empty.
    balanced_accuracy, mcc : float
        Means over all appliances.
    kolter : float
        1 − Σ|P − P̂|/(2 ΣP) over all appliances; NaN without power.
    per_appliance : tuple of ApplianceScore
        The score of each appliance, in the order of the columns.
    group_alphas : tuple of float
        α_i of each group of columns; empty without groups.
    average_precision : float
        Mean over the same appliances as f1; NaN without probabilities.

    Examples
    --------
    >>> found = hm.score([[True], [False]], [[True], [True]], names=["kettle"])
    >>> found.alpha, round(found["kettle"].f1, 2)
    (0.5, 0.67)
    """

    alpha: float
    alpha_floor: float
    hold_floor: float
    f1: float
    balanced_accuracy: float
    mcc: float
    kolter: float
    per_appliance: tuple[ApplianceScore, ...]
    group_alphas: tuple[float, ...] = ()
    average_precision: float = math.nan

    def __getitem__(self, name: str) -> ApplianceScore:
        """Return the score of the appliance called `name`."""
        for appliance in self.per_appliance:
            if appliance.name == name:
                return appliance
        raise InputError(f"the score has no appliance named {name!r}.")

    @property
    def sentences(self) -> tuple[str, ...]:
        """One sentence about each appliance: how often the attacker is right, and a guess."""
        return tuple(
            f"The attacker is right about the {a.name} in {out_of_100(a.alpha)} out of 100 "
            f"moments; a guess without your data is right in {out_of_100(a.floor)}."
            for a in self.per_appliance
        )


def accuracy(states: ArrayLike, truth: ArrayLike) -> float:
    """α = 1 − ‖X̄ − X⁰‖₁/(NT): the share of equal entries of two arrays of shape (T, N)."""
    guessed, actual = _pair(states, truth)
    return float((guessed == actual).mean())


def group_accuracies(
    states: ArrayLike, truth: ArrayLike, groups: Iterable[IntArray]
) -> tuple[float, ...]:
    """α_i = 1 − ‖X̄[i] − X⁰[i]‖₁/(N_i T) of every group of columns."""
    guessed, actual = _pair(states, truth)
    return tuple(float((guessed[:, g] == actual[:, g]).mean()) for g in groups)


def hierarchy_accuracy(alphas: ArrayLike, groups: Iterable[IntArray]) -> float:
    """α_H = Σ α_i N_i / Σ N_i."""
    return float(np.average(np.asarray(alphas), weights=[len(group) for group in groups]))


def kolter_accuracy(power: ArrayLike, true_power: ArrayLike) -> float:
    """1 − Σ|P − P̂|/(2 ΣP), the accuracy of Kolter and Johnson; NaN if no power was drawn."""
    guessed, actual = np.asarray(power, float), np.asarray(true_power, float)
    if guessed.shape != actual.shape:
        raise InputError(f"power has shape {guessed.shape}, the truth {actual.shape}.")
    total = actual.sum()
    return float(1 - np.abs(guessed - actual).sum() / (2 * total)) if total > 0 else math.nan


def score(
    states: ArrayLike,
    truth: Trace | ArrayLike,
    *,
    power: ArrayLike | None = None,
    true_power: ArrayLike | None = None,
    probabilities: ArrayLike | None = None,
    groups: Iterable[IntArray] = (),
    names: Iterable[str] | None = None,
) -> Score:
    """Compare predicted states with the truth.

    Parameters
    ----------
    states : array_like of bool, shape (T, N)
        Predicted states.
    truth : Trace with states, or array_like of bool, shape (T, N)
        True states.
    power, true_power : array_like, shape (T, N), optional
        Predicted and true power [W], for the accuracy of Kolter and Johnson. The true power is
        taken from `truth` if that is a trace with power.
    probabilities : array_like, shape (T, N), optional
        Predicted probability of "on", for the average precision.
    groups : iterable of index arrays, optional
        Groups of columns, such as hierarchies, for α_i.
    names : iterable of str, optional
        Names of the columns; by default those of the trace.

    Returns
    -------
    Score

    Raises
    ------
    InputError
        If shapes differ, or states are not 0 or 1.
    DataError
        If there is nothing to score, or the trace has no true states.

    Examples
    --------
    >>> hm.score([[True, False], [False, True]], [[True, False], [True, True]]).alpha
    0.75
    """
    if isinstance(truth, Trace):
        names = truth.names if names is None else names
        true_power = truth.power if true_power is None else true_power
        truth = truth.truth()
    guessed, actual = _pair(states, truth)
    columns = _names(names, actual.shape[1])
    kolter = _kolter_per_appliance(power, true_power, actual.shape)
    precision = _average_precisions(probabilities, actual)
    appliances = tuple(
        _score_appliance(name, guessed[:, i], actual[:, i], float(kolter[i]), float(precision[i]))
        for i, name in enumerate(columns)
    )
    runs = [a for i, a in enumerate(appliances) if actual[:, i].any()]
    return Score(
        alpha=float((guessed == actual).mean()),
        alpha_floor=float(1 - actual.mean()),
        hold_floor=float((actual == actual[0]).mean()),
        f1=_mean_of(a.f1 for a in runs),
        balanced_accuracy=_mean_of(a.balanced_accuracy for a in appliances),
        mcc=_mean_of(a.mcc for a in appliances),
        kolter=math.nan
        if power is None or true_power is None
        else kolter_accuracy(power, true_power),
        per_appliance=appliances,
        group_alphas=group_accuracies(guessed, actual, groups),
        average_precision=_mean_of(a.average_precision for a in runs),
    )


@dataclass(frozen=True)
class ApplianceEvents:
    """How well the starts of one appliance's runs were predicted."""

    name: str  # Name of the appliance
    # Numbers of starts in the truth, in the answer, and of pairs of the two
    true_starts: int
    predicted_starts: int
    matched: int
    # Shares of the predicted and of the true starts that are matched; NaN if there are none
    precision: float
    recall: float
    f1: float  # Harmonic mean of both; NaN if there is no start in truth and answer


@dataclass(frozen=True)
class EventScore:
    """How well the starts of runs were predicted.

    Attributes
    ----------
    within_s : float
        Largest distance of a predicted start from its true start. [s]
    f1 : float
        Mean over the appliances with a start in the truth; NaN if there are none.
    per_appliance : tuple of ApplianceEvents
        The score of each appliance, in the order of the columns.
    """

    within_s: float
    f1: float
    per_appliance: tuple[ApplianceEvents, ...]


def score_events(states: ArrayLike, truth: Trace, *, within_s: float = 60.0) -> EventScore:
    """Compare the starts of predicted runs with the true starts.

    Parameters
    ----------
    states : array_like of bool, shape (T, N)
        Predicted states.
    truth : Trace with states
        True states with their times.
    within_s : float
        Largest distance of a predicted start from its true start. [s]

    Returns
    -------
    EventScore

    Raises
    ------
    InputError
        If the shapes differ or `within_s` is negative.

    Notes
    -----
    A start is a change from off to on between two neighbouring readings; a gap has none. Each
    predicted start is matched with at most one true start. Matching them in the order of time
    gives the largest possible number of pairs, because all starts have the same tolerance.
    """
    guessed, actual = _pair(states, truth.truth())
    limit = non_negative("within_s", within_s)
    steps = truth.places
    seconds = (steps * truth.interval_s).astype(np.float64)
    rows = []
    for i, name in enumerate(_names(truth.names, actual.shape[1])):
        true = seconds[_starts(actual[:, i], truth.run_starts)]
        predicted = seconds[_starts(guessed[:, i], truth.run_starts)]
        matched = _count_pairs(true, predicted, limit)
        rows.append(
            ApplianceEvents(
                name,
                true.size,
                predicted.size,
                matched,
                _ratio(matched, predicted.size),
                _ratio(matched, true.size),
                _ratio(2 * matched, true.size + predicted.size),
            )
        )
    return EventScore(limit, _mean_of(row.f1 for row in rows if row.true_starts), tuple(rows))


def bootstrap_intervals(
    states: ArrayLike,
    truth: Trace,
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, tuple[float, float]]:
    """Compute intervals of α, macro F1 and balanced accuracy over the days of a trace.

    Parameters
    ----------
    states : array_like of bool, shape (T, N)
        Predicted states.
    truth : Trace with states
        True states with their times.
    confidence : float
        Probability of the interval, between 0 and 1.
    resamples : int
        Number of resampled traces.
    seed : int
        Seed of the resampling.

    Returns
    -------
    dict
        Lowest and highest value of "alpha", "f1" and "balanced_accuracy".

    Raises
    ------
    DataError
        If the trace has readings of fewer than two days.

    Notes
    -----
    Readings of one day depend on each other, so whole days (UTC) are drawn with replacement: a
    block bootstrap [1]_. `block_interval` turns the resampled scores into an interval. F1 is the
    mean over the appliances that are on at some reading of the whole truth.

    References
    ----------
    .. [1] H. R. Künsch, "The jackknife and the bootstrap for general stationary observations", The
       Annals of Statistics 17(3), 1989.
    """
    if not 0 < confidence < 1:
        raise InputError(f"confidence must be between 0 and 1, got {confidence}.")
    counts = count_blocks(states, truth)
    if len(counts) < 2:
        raise DataError("an interval needs readings of at least two days.")
    draws = draw_blocks(len(counts), resamples, seed)
    resampled = np.tensordot(draws, counts, axes=1).astype(np.float64)
    found = block_measures(resampled, counts[:, :2].sum(axis=(0, 1)) > 0)
    return {name: block_interval(v, len(counts), confidence) for name, v in found.items()}


def count_blocks(states: ArrayLike, truth: Trace, block_s: float = SECONDS_PER_DAY) -> IntArray:
    """Hits, misses, false alarms and correct offs of each block and appliance, shape (B, 4, N).

    Blocks of `block_s` seconds begin at whole multiples of it in UTC; those without a reading are
    left out.
    """
    guessed, actual = _pair(states, truth.truth())
    places = _blocks_of(truth, block_s)
    kinds = outcomes(guessed, actual)
    counts = np.zeros((int(places.max()) + 1, len(kinds), actual.shape[1]), np.int64)
    for k, kind in enumerate(kinds):
        np.add.at(counts[:, k], places, kind.astype(np.int64))
    return counts


def outcomes(guessed: BoolArray, actual: BoolArray) -> BoolArray:
    """Where each state is a hit, a miss, a false alarm or a correct off, shape (4, …)."""
    return np.array([guessed & actual, ~guessed & actual, guessed & ~actual, ~guessed & ~actual])


def _blocks_of(trace: Trace, block_s: float) -> IntArray:
    """Number of the block of every reading, from 0."""
    seconds = trace.times.astype("datetime64[ms]").astype(np.int64) / 1000
    places: IntArray = np.unique(np.floor(seconds / block_s), return_inverse=True)[1]
    return places.ravel()


def draw_blocks(blocks: int, resamples: int, seed: int = 0) -> IntArray:
    """How often each block is drawn in each resample, with replacement, (resamples, blocks)."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(blocks, np.full(blocks, 1 / blocks), size=resamples)


def block_interval(
    resampled: FloatArray, blocks: int, confidence: float = 0.95
) -> tuple[float, float]:
    """Expanded percentile interval [1]_ of a statistic that was resampled by blocks.

    The percentiles of n blocks alone are too narrow by √((n − 1)/n), and by the difference between
    the normal and Student's distribution. The tails are therefore Φ(−√(n/(n − 1))·t_{n−1}).

    References
    ----------
    .. [1] T. C. Hesterberg, "What teachers should know about the bootstrap", The American
       Statistician 69(4), 2015.
    """
    if blocks < 2:
        return math.nan, math.nan
    reach = math.sqrt(blocks / (blocks - 1)) * student_quantile((1 + confidence) / 2, blocks - 1)
    tail = NormalDist().cdf(-reach)
    low, high = np.nanquantile(resampled, [tail, 1 - tail])
    return float(low), float(high)


def student_half_width(values: FloatArray) -> FloatArray:
    """Half width of the 95 % interval of the mean over the first axis, by Student's t."""
    count = values.shape[0]
    errors: FloatArray = values.std(axis=0, ddof=1) / math.sqrt(count)
    return student_quantile(0.975, count - 1) * errors


def block_means_interval(
    values: FloatArray, trace: Trace, block_s: float = SECONDS_PER_DAY
) -> tuple[float, float]:
    """95 % interval of the mean of values (T,) over the blocks of a trace."""
    places = _blocks_of(trace, block_s)
    sums, sizes = np.bincount(places, values), np.bincount(places)
    drawn = draw_blocks(sizes.size, 1000)
    return block_interval((drawn @ sums) / (drawn @ sizes), sizes.size)


@dataclass(frozen=True)
class ShareScore:
    """Errors of the predicted share of time on, for releases of means over longer intervals."""

    error: float  # Mean absolute error of the share over intervals and appliances
    off_error: float  # The same for the answer "everything off", which is the mean share of time on
    per_appliance: FloatArray  # Mean absolute error of each appliance


def on_shares(trace: Trace, every: float | str) -> FloatArray:
    """Return the true share of time on in each coarse interval, shape (T', N)."""
    shares = Trace(
        trace.readings,
        trace.interval_s,
        trace.start,
        power=trace.truth().astype(np.float64),
        steps=trace.steps,
    ).coarsen(every)
    assert shares.power is not None
    return shares.power


def score_shares(shares: ArrayLike, truth: Trace, every: float | str) -> ShareScore:
    """Compare predicted shares of time on with the truth.

    Parameters
    ----------
    shares : array_like, shape (T', N)
        Predicted share of time on in each coarse interval: probabilities or states.
    truth : Trace with states
        The trace before it was made coarser. To compare with the state of most of an interval
        instead, use `score` with `truth.coarsen(every)`.
    every : float or str
        Length of a coarse interval, as given to `Trace.coarsen`.

    Returns
    -------
    ShareScore

    Raises
    ------
    InputError
        If the shapes differ, or a share is not between 0 and 1.
    """
    guessed, actual = np.asarray(shares, np.float64), on_shares(truth, every)
    if guessed.shape != actual.shape:
        raise InputError(f"shares have shape {guessed.shape}, the truth {actual.shape}.")
    if not ((guessed >= 0) & (guessed <= 1)).all():
        raise InputError("shares must lie between 0 and 1.")
    errors: FloatArray = np.abs(guessed - actual).mean(axis=0)
    return ShareScore(float(errors.mean()), float(actual.mean()), errors)


def _starts(states: BoolArray, run_starts: BoolArray) -> IntArray:
    """Readings at which an appliance is on, and off at the neighbouring reading before."""
    on: BoolArray = states[1:] & ~states[:-1] & ~run_starts[1:]
    return np.flatnonzero(on) + 1


def _count_pairs(true: FloatArray, predicted: FloatArray, limit: float) -> int:
    """Largest number of pairs of a true and a predicted time [s] that are within `limit`."""
    i = j = pairs = 0
    while i < true.size and j < predicted.size:
        if abs(true[i] - predicted[j]) <= limit:
            i, j, pairs = i + 1, j + 1, pairs + 1
        elif true[i] < predicted[j]:
            i += 1
        else:
            j += 1
    return pairs


def block_measures(counts: FloatArray, runs: BoolArray) -> dict[str, FloatArray]:
    """α, macro F1 and balanced accuracy from counts of shape (B, 4, N); each of shape (B,)."""
    hits, misses, alarms, quiet = np.moveaxis(counts, 1, 0)
    with np.errstate(invalid="ignore"):
        f1 = 2 * hits / (2 * hits + misses + alarms)
        recalls = np.stack([hits / (hits + misses), quiet / (quiet + alarms)])
    # A resampled trace in which an appliance neither runs nor is named has no F1 for it.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return {
            "alpha": (hits + quiet).sum(axis=1) / counts.sum(axis=(1, 2)),
            "f1": np.nanmean(f1[:, runs], axis=1) if runs.any() else np.full(len(f1), math.nan),
            "balanced_accuracy": np.nanmean(np.nanmean(recalls, axis=0), axis=1),
        }


def _average_precisions(probabilities: ArrayLike | None, actual: BoolArray) -> FloatArray:
    """Average precision of each appliance, shape (N,); NaN without probabilities."""
    if probabilities is None:
        return np.full(actual.shape[1], math.nan)
    chances = np.asarray(probabilities, np.float64)
    if chances.shape != actual.shape or not ((chances >= 0) & (chances <= 1)).all():
        raise InputError(f"probabilities must be between 0 and 1, of shape {actual.shape}.")
    return np.array([_average_precision(c, a) for c, a in zip(chances.T, actual.T, strict=True)])


def _average_precision(chances: FloatArray, actual: BoolArray) -> float:
    """Sum over the thresholds of precision times the increase of recall."""
    if not actual.any():
        return math.nan
    order = np.argsort(-chances, kind="stable")
    hits = np.cumsum(actual[order])
    # Readings with the same probability pass the threshold together.
    last = np.append(np.flatnonzero(np.diff(chances[order])), actual.size - 1)
    recall = hits[last] / hits[-1]
    precision = hits[last] / (last + 1)
    return float(np.sum(np.diff(recall, prepend=0.0) * precision))


def _score_appliance(
    name: str, guessed: BoolArray, actual: BoolArray, kolter: float, average_precision: float
) -> ApplianceScore:
    """Score the states of one appliance, shape (T,)."""
    hits, misses, false_alarms, quiet = outcomes(guessed, actual).sum(axis=1).tolist()
    alpha = (hits + quiet) / actual.size
    on_share = (hits + misses) / actual.size
    floor = max(on_share, 1 - on_share)
    recalls = [_ratio(hits, hits + misses), _ratio(quiet, quiet + false_alarms)]
    spread = math.sqrt(
        float(hits + false_alarms)
        * float(hits + misses)
        * float(quiet + false_alarms)
        * float(quiet + misses)
    )
    return ApplianceScore(
        name=name,
        alpha=alpha,
        off_floor=1 - on_share,
        hold_floor=float((actual == actual[0]).mean()),
        floor=floor,
        visibility=visibility(alpha, floor),
        f1=_ratio(2 * hits, 2 * hits + false_alarms + misses),
        balanced_accuracy=_mean_of(recalls),
        mcc=(hits * quiet - false_alarms * misses) / spread if spread else 0.0,
        kolter=kolter,
        average_precision=average_precision,
    )


def _kolter_per_appliance(
    power: ArrayLike | None, true_power: ArrayLike | None, shape: tuple[int, ...]
) -> FloatArray:
    """The accuracy of Kolter and Johnson of each appliance, shape (N,); NaN without power."""
    if power is None or true_power is None:
        return np.full(shape[1], math.nan)
    guessed, actual = np.asarray(power, float), np.asarray(true_power, float)
    if guessed.shape != shape or actual.shape != shape:
        raise InputError(f"power must have shape {shape}, got {guessed.shape} and {actual.shape}.")
    return np.array([kolter_accuracy(guessed[:, i], actual[:, i]) for i in range(shape[1])])


def _pair(states: ArrayLike, truth: ArrayLike) -> tuple[BoolArray, BoolArray]:
    """Check that two arrays of states have the same shape (T, N), and return them as bool."""
    guessed, actual = np.asarray(states), np.asarray(truth)
    if guessed.ndim != 2 or guessed.shape != actual.shape:
        raise InputError(f"states have shape {guessed.shape}, the truth {actual.shape}.")
    if guessed.size == 0:
        raise DataError("there is nothing to score: no readings or no appliances.")
    for name, array in (("states", guessed), ("the truth", actual)):
        if array.dtype != np.bool_ and not ((array == 0) | (array == 1)).all():
            raise InputError(f"{name} must be 0 or 1 everywhere; round probabilities first.")
    return guessed.astype(np.bool_, copy=False), actual.astype(np.bool_, copy=False)


def _names(names: Iterable[str] | None, n: int) -> tuple[str, ...]:
    """The names of n columns; they are numbered if no names are given."""
    given = tuple(f"appliance {i + 1}" for i in range(n)) if names is None else tuple(names)
    if len(given) != n:
        raise InputError(f"{len(given)} names were given for {n} appliances.")
    return given


def visibility(alpha: float, floor: float) -> float:
    """Return (α − floor)/(1 − floor), the share of the doubt of a guess without data that is gone.

    It is NaN if the guess is always correct.
    """
    return _ratio(alpha - floor, 1 - floor)


def _ratio(part: float, whole: float) -> float:
    """part/whole, or NaN if the whole is zero."""
    return part / whole if whole > 0 else math.nan


def _mean_of(values: Iterable[float]) -> float:
    """The mean of the values that are not NaN, or NaN if there are none."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan
