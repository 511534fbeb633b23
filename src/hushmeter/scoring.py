"""Scores of an attack: the accuracies of the paper, with their floors.

The accuracy α alone misleads: in a home that is mostly off, "everything is off" scores high. Every
score therefore contains its floors, F1 and balanced accuracy, and for every appliance its
visibility: how much of the error of a guess without data the attacker removed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.errors import DataError, InputError
from hushmeter.trace import Trace


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
    f1, balanced_accuracy, mcc : float
        Means over the appliances; an appliance without a value is left out.
    kolter : float
        1 − Σ|P − P̂|/(2 ΣP) over all appliances; NaN without power.
    per_appliance : tuple of ApplianceScore
        The score of each appliance, in the order of the columns.
    group_alphas : tuple of float
        α_i of each group of columns; empty without groups.
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

    def __getitem__(self, name: str) -> ApplianceScore:
        """Return the score of the appliance called `name`."""
        for appliance in self.per_appliance:
            if appliance.name == name:
                return appliance
        raise InputError(f"the score has no appliance named {name!r}.")


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
    """
    if isinstance(truth, Trace):
        names = truth.names if names is None else names
        true_power = truth.power if true_power is None else true_power
        truth = truth.truth()
    guessed, actual = _pair(states, truth)
    columns = _names(names, actual.shape[1])
    kolter = _kolter_per_appliance(power, true_power, actual.shape)
    appliances = tuple(
        _score_appliance(name, guessed[:, i], actual[:, i], float(kolter[i]))
        for i, name in enumerate(columns)
    )
    return Score(
        alpha=float((guessed == actual).mean()),
        alpha_floor=float(1 - actual.mean()),
        hold_floor=float((actual == actual[0]).mean()),
        f1=_mean_of(a.f1 for a in appliances),
        balanced_accuracy=_mean_of(a.balanced_accuracy for a in appliances),
        mcc=_mean_of(a.mcc for a in appliances),
        kolter=math.nan
        if power is None or true_power is None
        else kolter_accuracy(power, true_power),
        per_appliance=appliances,
        group_alphas=group_accuracies(guessed, actual, groups),
    )


@dataclass(frozen=True)
class ShareScore:
    """Errors of the predicted share of time on, for releases of means over longer intervals.

    Attributes
    ----------
    error : float
        Mean absolute error of the share over intervals and appliances.
    off_error : float
        The same for the answer "everything off", which is the mean share of time on.
    per_appliance : array, shape (N,)
        Mean absolute error of each appliance.
    """

    error: float
    off_error: float
    per_appliance: FloatArray


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


def _score_appliance(
    name: str, guessed: BoolArray, actual: BoolArray, kolter: float
) -> ApplianceScore:
    """Score the states of one appliance, shape (T,)."""
    hits = int((guessed & actual).sum())
    false_alarms = int((guessed & ~actual).sum())
    misses = int((~guessed & actual).sum())
    quiet = actual.size - hits - false_alarms - misses
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
        visibility=_ratio(alpha - floor, 1 - floor),
        f1=_ratio(2 * hits, 2 * hits + false_alarms + misses),
        balanced_accuracy=_mean_of(recalls),
        mcc=(hits * quiet - false_alarms * misses) / spread if spread else 0.0,
        kolter=kolter,
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


def _ratio(part: float, whole: float) -> float:
    """part/whole, or NaN if the whole is zero."""
    return part / whole if whole > 0 else math.nan


def _mean_of(values: Iterable[float]) -> float:
    """The mean of the values that are not NaN, or NaN if there are none."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan
