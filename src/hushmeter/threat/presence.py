"""Is somebody at home in this hour? With labels of other days, and without.

Two chains over the hours of a day see the released values through the likelihood of their noise.
*Without labels*, an empty home draws what the home draws in its quietest hours, and people at home
are active in about two hours out of three; when people leave and return is public knowledge. *With
labels*, the distributions and the chances come from the labelled days, and a logistic regression
joins both chains with the likelihoods of the hours around.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.errors import DataError
from hushmeter.learn.rhythm import Days, deconvolve, forward_backward, point_likelihoods
from hushmeter.threat.contract import Threat

POINTS = 48
"""Support points of the distributions of power."""
WIDTH = (6.0, 0.06)
"""Width of a support point: watts, and share of its power."""
QUIET = 0.35
"""Share of the hours, the quietest ones, from which the search for an empty home starts."""
IDLE = 0.3
"""Share of the hours at home in which the home draws no more than an empty one."""
CHANGE, BUSY_CHANGE, CALM_CHANGE = 0.15, 0.3, 0.12
"""Chance to leave or return within an hour: at weekends, and on working days in the hours in which
most people do so (7 to 10 h and 16 to 20 h) and in other hours."""
AT_FIRST = 0.95
"""Chance that somebody is at home before the first hour of a day."""
ROUNDS = 15
"""Steps of the EM algorithm without labels."""
MIXED = 0.02
"""Share of the distribution of all hours in that of each answer."""
PRIOR_DAYS = 6.0
"""Days by which the mean chance to change counts at every hour."""
WINDOWS = (1, 3, 5, 9)
"""Hours whose mean likelihood ratio is used."""
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


def _likelihoods(days: Days, support: FloatArray) -> FloatArray:
    """Likelihood of every support point under the noise, shape (D, S, K); 1 where unknown."""
    return point_likelihoods(days.watts, days.noise_w, support, WIDTH)


def _support(days: Days) -> FloatArray:
    """Support points from nothing to the largest load [W]."""
    most = float(np.nanmax(days.watts)) if np.isfinite(days.watts).any() else 300.0
    if days.noise_w.any():
        most *= 0.6
    return np.append(0.0, np.geomspace(30, max(300.0, most), POINTS - 1))


def without_labels(days: Days) -> FloatArray:
    """Return the probability that somebody is at home, without any label, shape (D, S)."""
    likelihood = _likelihoods(days, _support(days))
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
    hours = days.hours % 24
    back = np.where((hours >= 16) & (hours < 20), BUSY_CHANGE, CALM_CHANGE)
    leave = np.where((hours >= 7) & (hours < 10), BUSY_CHANGE, CALM_CHANGE)
    working = np.stack([back, leave], axis=-1)
    chances = np.where(days.working[:, None, None], working, CHANGE)
    return np.asarray(1 - (1 - chances) ** (days.slot_s / 3600))


class _Labelled:
    """Distributions and chances of labelled days, and features of any days."""

    def __init__(self, known: Days, answers: IntArray) -> None:
        self._points = _support(known)
        likelihood = _likelihoods(known, self._points)
        usable = np.isfinite(known.watts) & (answers >= 0)
        whole = deconvolve(likelihood[usable], np.full(POINTS, 1 / POINTS))
        self._weights = np.array(
            [
                (1 - MIXED) * deconvolve(likelihood[usable & (answers == a)], whole) + MIXED * whole
                for a in (0, 1)
            ]
        )
        self._change = _counted_changes(answers)
        first = answers[np.arange(len(answers)), np.argmax(answers >= 0, axis=1)]
        self._start = float(((first == 1).sum() + 1) / (len(answers) + 2))

    def features(self, days: Days) -> FloatArray:
        """Return what the regression uses about every slot, shape (D, S, F)."""
        density = _likelihoods(days, self._points) @ self._weights.T
        ratio = np.clip(np.log(density[..., 1] / density[..., 0]), -3, 3)
        change = np.broadcast_to(self._change, density.shape).copy()
        forward, backward, _ = forward_backward(density, change, self._start)
        columns = [_logit((forward * backward)[..., 1]), _logit(without_labels(days))]
        columns += [_window(ratio, width) for width in WINDOWS]
        columns.append(np.broadcast_to(ratio.mean(axis=1, keepdims=True), ratio.shape))
        angle = 2 * np.pi * days.hours / 24
        waves = [f(k * angle) for k in (1, 2) for f in (np.cos, np.sin)]
        kind = np.broadcast_to(days.working[:, None].astype(float), ratio.shape)
        columns += [np.broadcast_to(w, ratio.shape) for w in waves]
        columns += [kind, *(kind * w for w in waves), np.ones(ratio.shape)]
        return np.stack(columns, axis=-1)


def _counted_changes(answers: IntArray) -> FloatArray:
    """Chances to change at every slot of labelled days, shape (S, 2)."""
    before, after = answers[:, :-1], answers[:, 1:]
    both = (before >= 0) & (after >= 0)
    leave, stay = np.zeros((2, answers.shape[1], 2))
    for state in (0, 1):
        here = both & (before == state)
        leave[1:, state] = (here & (after != state)).sum(axis=0)
        stay[1:, state] = (here & (after == state)).sum(axis=0)
    mean = leave.sum(axis=0) / np.maximum(leave.sum(axis=0) + stay.sum(axis=0), 1)
    left, kept = (np.apply_along_axis(_blur, 0, counts) for counts in (leave, stay))
    chances = (left + PRIOR_DAYS * mean) / (left + kept + PRIOR_DAYS)
    return np.asarray(np.clip(chances, 0.01, 0.9))


def _blur(counts: FloatArray) -> FloatArray:
    padded = np.pad(counts, 1, mode="edge")
    return np.asarray(0.25 * padded[:-2] + 0.5 * padded[1:-1] + 0.25 * padded[2:])


def _window(values: FloatArray, width: int) -> FloatArray:
    """Mean over the slots around every slot."""
    total = np.cumsum(np.pad(values, ((0, 0), (1, 0))), axis=1)
    slots = np.arange(values.shape[1])
    low = np.maximum(0, slots - width // 2)
    high = np.minimum(values.shape[1], slots + width // 2 + 1)
    return np.asarray((total[:, high] - total[:, low]) / (high - low))


def _logit(chance: FloatArray) -> FloatArray:
    inside = np.clip(chance, 0.01, 0.99)
    return np.asarray(np.log(inside / (1 - inside)))


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
