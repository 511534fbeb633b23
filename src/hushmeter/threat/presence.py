"""Is somebody at home in this hour? With labels of other days, and without.

The released values are seen through the likelihood of their noise. *Without labels*, a chain over
the hours of a day tells an empty home, which draws what it draws in its quietest hours, from people
at home, who are active in most hours; the chances to leave and to return are those of simulated
households. *With labels*, the distributions of both answers come from the labelled days, and a
logistic regression joins their likelihood ratios in the hours around with the clock.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.errors import DataError
from hushmeter.learn.rhythm import POINTS, Days, deconvolve, forward_backward, point_likelihoods
from hushmeter.threat.contract import Threat

QUIET = 0.3
"""Share of the hours from 6 to 22 h in which a simulated household has nobody at home. The search
for an empty home starts from as many hours, the quietest ones."""
IDLE = 0.3
"""Share of the hours at home in which the home draws no more than an empty one; between 0.15 and
0.45, the share of right answers about simulated households changes by 0.02 at most."""
RETURN, LEAVE = (0.25, 0.06, 0.19), (0.15, 0.05, 0.05)
"""Chances to return and to leave within an hour in simulated households: on working days from 16 to
20 h (return) or from 7 to 10 h (leave), in their other hours, and at weekends."""
AT_FIRST = 0.95
"""Chance that somebody is at home before the first hour of a day."""
ROUNDS = 15
"""Steps of the EM algorithm without labels."""
MIXED = 0.02
"""Share of the distribution of all hours in that of each answer."""
WINDOWS = (1, 3, 9)
"""Hours whose mean likelihood ratio is used."""
MOST_RATIO = 3.0
"""Largest logarithm of the likelihood ratio of one hour."""
PENALTIES = (1.0, 3.0, 10.0, 30.0)
"""Ridge penalties of the regression, from which cross-validation over the known days chooses."""
FOLDS = 4
"""Parts of the known days in this cross-validation."""
FEWEST_DAYS = 8
"""Labelled days that the attacker needs."""


class Presence(Threat[Days]):
    """Whether somebody is at home in every slot of a day.

    The days hold the whole power of the home [W], with NaN where it is not known, and the noise of
    every slot. `fit` takes days with the same kind of noise and the answers 0 (nobody), 1
    (somebody) and −1 (unknown); without `fit` no label is used.
    """

    name = "presence"

    def __init__(self) -> None:
        self._model: tuple[_Labelled, FloatArray, FloatArray, FloatArray] | None = None

    def fit(self, known: Days, answers: IntArray) -> Self:
        """Learn from labelled days."""
        if len(known) < FEWEST_DAYS or answers.shape != known.watts.shape:
            raise DataError(
                f"presence needs at least {FEWEST_DAYS} labelled days with an answer for every "
                f"slot, got {len(known)} days and answers of shape {answers.shape}."
            )
        labelled = _Labelled(known, answers)
        features = labelled.features(known)
        penalty = _choose_penalty(features, answers)
        self._model = (labelled, *_regress(features, answers, penalty))
        return self

    def predict(self, values: Days) -> FloatArray:
        """Return the probabilities of nobody and somebody, shape (D, S, 2)."""
        if self._model is None:
            chance = without_labels(values)
        else:
            labelled, centre, spread, weights = self._model
            score = (labelled.features(values) - centre) / spread @ weights
            chance = 1 / (1 + np.exp(-score))
        return np.stack([1 - chance, chance], axis=-1)


def _support(days: Days) -> FloatArray:
    """Support points from nothing to the largest load [W]."""
    most = float(np.nanmax(days.watts)) if np.isfinite(days.watts).any() else 300.0
    if days.noise_w.any():
        most *= 0.6
    return np.append(0.0, np.geomspace(30, max(300.0, most), POINTS - 1))


def without_labels(days: Days) -> FloatArray:
    """Return the probability that somebody is at home, without any label, shape (D, S)."""
    likelihood = point_likelihoods(days.watts, days.noise_w, _support(days))
    rows = likelihood[np.isfinite(days.watts)]
    if not len(rows):
        raise DataError("presence needs at least one known reading.")
    whole = deconvolve(rows, np.full(POINTS, 1 / POINTS))
    below = np.cumsum(whole) - whole
    quiet = np.clip((QUIET - below) / np.maximum(whole, 1e-12), 0, 1) * whole
    quiet /= quiet.sum()
    active = np.maximum(whole - QUIET * quiet, 0)
    active /= active.sum()
    change, present = _public_changes(days), np.zeros(days.watts.shape)
    known = np.isfinite(days.watts)
    for _ in range(ROUNDS):
        low, high = likelihood @ quiet, likelihood @ active
        home = IDLE * low + (1 - IDLE) * high
        forward, backward, _scale = forward_backward(
            np.stack([low, home], axis=-1), change, AT_FIRST
        )
        present = (forward * backward)[..., 1]
        busy = present * (1 - IDLE) * high / home
        quiet = _update(quiet, (1 - busy)[known] / low[known], rows)
        active = _update(active, busy[known] / high[known], rows)
    return present


def _update(weights: FloatArray, shares: FloatArray, rows: FloatArray) -> FloatArray:
    """One step of the EM algorithm for the weights of the support points."""
    joint = weights * (shares @ rows) + 1e-4
    return np.asarray(joint / joint.sum())


def _public_changes(days: Days) -> FloatArray:
    """Chances to return and to leave at every slot, shape (D, S, 2)."""
    hours, chances = days.hours % 24, []
    for (busy, calm, weekend), (first, stop) in ((RETURN, (16, 20)), (LEAVE, (7, 10))):
        working = np.where((hours >= first) & (hours < stop), busy, calm)
        chances.append(np.where(days.working[:, None], working, weekend))
    return np.asarray(1 - (1 - np.stack(chances, axis=-1)) ** (days.slot_s / 3600))


class _Labelled:
    """Distributions of the power of labelled days by answer, and features of any days."""

    def __init__(self, known: Days, answers: IntArray) -> None:
        self._points = _support(known)
        likelihood = point_likelihoods(known.watts, known.noise_w, self._points)
        usable = np.isfinite(known.watts) & (answers >= 0)
        whole = deconvolve(likelihood[usable], np.full(POINTS, 1 / POINTS))
        self._weights = np.array(
            [
                (1 - MIXED) * deconvolve(likelihood[usable & (answers == a)], whole) + MIXED * whole
                for a in (0, 1)
            ]
        )

    def features(self, days: Days) -> FloatArray:
        """Return what the regression uses about every slot, shape (D, S, F)."""
        likelihood = point_likelihoods(days.watts, days.noise_w, self._points)
        absent, present = np.moveaxis(likelihood @ self._weights.T, -1, 0)
        ratio = np.clip(np.log(present / absent), -MOST_RATIO, MOST_RATIO)
        columns = [_window(ratio, width) for width in WINDOWS]
        angle = 2 * np.pi * days.hours / 24
        kind = days.working[:, None].astype(float)
        columns += [ratio.mean(axis=1, keepdims=True), kind]
        for wave in (np.cos(angle), np.sin(angle)):
            columns += [wave[None], kind * wave]
        columns.append(np.ones((1, 1)))
        return np.stack([np.broadcast_to(c, ratio.shape) for c in columns], axis=-1)


def _window(values: FloatArray, width: int) -> FloatArray:
    """Mean over the slots around every slot."""
    total = np.cumsum(np.pad(values, ((0, 0), (1, 0))), axis=1)
    slots = np.arange(values.shape[1])
    low = np.maximum(0, slots - width // 2)
    high = np.minimum(values.shape[1], slots + width // 2 + 1)
    return np.asarray((total[:, high] - total[:, low]) / (high - low))


def _regress(
    features: FloatArray, answers: IntArray, penalty: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Fit a logistic regression; return the centre and spread of the features, and the weights."""
    known = answers >= 0
    rows, truth = features[known], answers[known].astype(float)
    centre, spread = rows.mean(axis=0), rows.std(axis=0) + 1e-9
    centre[-1], spread[-1] = 0.0, 1.0
    scaled = (rows - centre) / spread
    ridge = np.full(rows.shape[1], penalty)
    ridge[-1] = 1e-6
    weights = np.zeros(rows.shape[1])
    for _ in range(15):
        chance = 1 / (1 + np.exp(-scaled @ weights))
        slope = scaled.T @ (chance - truth) + ridge * weights
        curve = (scaled * (chance * (1 - chance))[:, None]).T @ scaled + np.diag(ridge)
        weights -= np.linalg.solve(curve, slope)
    return centre, spread, weights


def _choose_penalty(features: FloatArray, answers: IntArray) -> float:
    """Choose the penalty with the largest likelihood in a cross-validation over days."""
    fold = np.arange(len(answers)) % FOLDS

    def loss(penalty: float) -> float:
        total = 0.0
        for number in range(FOLDS):
            outside: BoolArray = fold != number
            centre, spread, weights = _regress(features[outside], answers[outside], penalty)
            score = (features[~outside] - centre) / spread @ weights
            truth, known = answers[~outside], answers[~outside] >= 0
            total += float(np.logaddexp(0, np.where(truth == 1, -score, score))[known].sum())
        return total

    return min(PENALTIES, key=loss)
