"""Attackers on a household: presence, identity, membership; their contract and their scores.

A threat is fitted on what its attacker knows (earlier days, other homes), is told the noise of a
release, and answers with probabilities. Nothing else of the private readings reaches it.

*Presence*: is somebody at home in this hour? The released values are seen through the likelihood of
their noise. *Without labels*, a chain over the hours of a day tells an empty home, which draws what
it draws in its quietest hours, from people at home, who are active in most hours; the chances to
leave and to return are those of simulated households. *With labels*, the distributions of both
answers come from the labelled days, and a logistic regression joins their likelihood ratios in the
hours around with the clock.

*Identity*: a week without a name is compared with known weeks of every home. The attacker adds the
noise of the release to the known weeks, so that their features are those of released ones, and
compares features by a linear discriminant whose covariance is shrunk to its diagonal.

*Membership*: somebody who knows the readings of a home, and what homes usually draw, compares the
likelihood of a published sum with this home and without it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, IntArray, RngLike, non_negative, whole
from hushmeter.errors import DataError, InputError
from hushmeter.learn.rhythm import POINTS, Days, deconvolve, forward_backward, point_likelihoods

Known = TypeVar("Known")
DRAWS = 400
"""Resamples of the blocks from which an interval is computed."""


class Threat(ABC, Generic[Known]):
    """An attacker who wants to know one thing about a household.

    Subclasses implement `fit`, which learns from known values and their answers, and `predict`,
    which returns the probability of every answer for released values. `noise_w` is the standard
    deviation of the noise of the values to be attacked [W]; values to fit on are without noise
    unless the subclass says otherwise.
    """

    name: str
    noise_w: float = 0.0

    def knows(self, noise_w: float) -> Self:
        """Tell the attacker the standard deviation of the noise [W]; return the attacker."""
        self.noise_w = non_negative("noise_w", noise_w)
        return self

    @abstractmethod
    def fit(self, known: Known, answers: IntArray) -> Self:
        """Learn from known values and their answers; return the attacker."""

    @abstractmethod
    def predict(self, values: Known) -> FloatArray:
        """Return the probability of every answer, with the answers on the last axis."""


@dataclass(frozen=True)
class Rating:
    """How often an attacker is right.

    Attributes
    ----------
    share : float
        Share of correct answers, or the area under the curve of `rate_order`.
    low, high : float
        Interval of 95 % from resampled blocks of days or homes.
    floor : float
        The same share for a guess without the readings.
    """

    share: float
    low: float
    high: float
    floor: float

    def __str__(self) -> str:
        return f"{self.share:.2f} ({self.low:.2f}–{self.high:.2f}; guess {self.floor:.2f})"


def rate(
    probabilities: FloatArray,
    answers: IntArray,
    *,
    floor: float,
    blocks: IntArray | None = None,
    rng: RngLike = 0,
) -> Rating:
    """Score the most probable answers.

    Parameters
    ----------
    probabilities : FloatArray, shape (N, …, A)
        The probability of every answer; the first axis are days, weeks or homes.
    answers : IntArray, shape (N, …)
        The true answers; negative ones are unknown and do not count.
    floor : float
        Share of correct answers of a guess.
    blocks : IntArray, shape (N,), optional
        Rows with the same number are resampled together, such as the days of one home.
    rng : int, Generator or None
        Seed of the resamples.

    Returns
    -------
    Rating
    """
    right = (np.argmax(probabilities, axis=-1) == answers) & (answers >= 0)
    rows = right.shape[0]
    hits = right.reshape(rows, -1).sum(axis=1).astype(float)
    cases = (answers >= 0).reshape(rows, -1).sum(axis=1).astype(float)
    if not cases.sum():
        raise DataError("there is no known answer to score.")

    def share(chosen: IntArray) -> float:
        return float(hits[chosen].sum() / max(cases[chosen].sum(), 1e-9))

    return _interval(share, rows, floor, blocks, rng)


def rate_order(
    chances: FloatArray, answers: IntArray, *, blocks: IntArray | None = None, rng: RngLike = 0
) -> Rating:
    """Score how well probabilities order cases: the area under the curve, 0.5 for a guess.

    Parameters
    ----------
    chances : FloatArray, shape (N,)
        Probability of answer 1.
    answers : IntArray, shape (N,)
        True answers, 0 or 1.
    blocks, rng
        See `rate`.

    Returns
    -------
    Rating
    """
    if np.unique(answers).size < 2:
        raise DataError("an order needs cases of both kinds.")

    def area(chosen: IntArray) -> float:
        ones, zeros = chances[chosen][answers[chosen] == 1], chances[chosen][answers[chosen] == 0]
        if not ones.size or not zeros.size:
            return float("nan")
        ranks = np.searchsorted(np.sort(zeros), ones, side="left")
        upper = np.searchsorted(np.sort(zeros), ones, side="right")
        return float((ranks + upper).mean() / 2 / zeros.size)

    return _interval(area, answers.size, 0.5, blocks, rng)


def _interval(
    measure: Callable[[IntArray], float],
    rows: int,
    floor: float,
    blocks: IntArray | None,
    rng: RngLike,
) -> Rating:
    """A measure of all rows, and its interval over resampled blocks."""
    numbers = np.arange(rows) if blocks is None else np.asarray(blocks)
    if numbers.size != rows:
        raise InputError(f"`blocks` has {numbers.size} rows and the answers have {rows}.")
    members = [np.flatnonzero(numbers == b) for b in np.unique(numbers)]
    source = np.random.default_rng(rng)
    found = [
        measure(
            np.concatenate([members[b] for b in source.integers(0, len(members), len(members))])
        )
        for _ in range(DRAWS)
    ]
    low, high = np.nanquantile(found, [0.025, 0.975])
    return Rating(measure(np.arange(rows)), float(low), float(high), floor)


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


COPIES = 6
"""Copies of every known week with other noise."""
SHRINKAGE = (0.1, 0.3, 0.6, 1.0)
"""Weights of the diagonal, from which cross-validation over the known weeks chooses."""
SCALE_W, STEP_SCALE_W = 200.0, 100.0
"""Powers, and changes from hour to hour, above which features grow with their logarithm [W]."""
QUANTILES = (0.01, 0.05, 0.15, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
LAGS = (1, 2, 24)
"""Hours between the values whose correlation is used."""


class Identity(Threat[FloatArray]):
    """Which of several homes a pseudonymous week or month of hours belongs to.

    Values have the shape (cases, days, 24) [W]; answers are the numbers of the homes. The values
    to fit on are without noise.
    """

    name = "identity"

    def __init__(self, rng: RngLike = 0) -> None:
        self._rng = rng
        self._model: tuple[FloatArray, FloatArray, FloatArray] | None = None

    def fit(self, known: FloatArray, answers: IntArray) -> Self:
        """Learn from known weeks of at least two homes."""
        homes, counts = np.unique(answers, return_counts=True)
        if homes.size < 2:
            raise DataError("identity needs known weeks of at least two homes, got those of one.")
        if counts.min() < 2 or not np.array_equal(homes, np.arange(homes.size)):
            raise DataError(
                "identity needs at least two known weeks of every home, numbered from 0."
            )
        rng = np.random.default_rng(self._rng)
        copies = COPIES if self.noise_w else 1
        noisy = [known + self.noise_w * rng.standard_normal(known.shape) for _ in range(copies)]
        features, homes_of = week_features(np.concatenate(noisy)), np.tile(answers, copies)
        week = np.tile(np.arange(len(answers)), copies)
        spread = features.std(axis=0) + 1e-9
        scaled = features / spread
        weight = max(SHRINKAGE, key=lambda s: _validate(scaled, homes_of, week, s))
        centres, inverse = _discriminant(scaled, homes_of, weight)
        self._model = spread, centres, inverse
        return self

    def predict(self, values: FloatArray) -> FloatArray:
        """Return the probability of every home, shape (cases, homes)."""
        if self._model is None:
            raise InputError("identity must be fitted before it predicts.")
        spread, centres, inverse = self._model
        return _softmax(_distances(week_features(values) / spread, centres, inverse))


def week_features(values: FloatArray) -> FloatArray:
    """Return profiles, spreads, quantiles, steps and correlations of weeks of hours."""
    if values.ndim != 3 or values.shape[2] != 24 or values.shape[1] < 2:
        raise InputError(f"weeks need the shape (cases, days, 24), got {values.shape}.")
    logs = np.arcsinh(values / SCALE_W)
    flat, series = values.reshape(len(values), -1), logs.reshape(len(values), -1)
    steps = np.abs(np.diff(flat, axis=1))
    parts = [
        logs.mean(axis=1),
        logs.std(axis=1),
        np.arcsinh(np.quantile(flat, QUANTILES, axis=1).T / SCALE_W),
        np.arcsinh(np.quantile(steps, QUANTILES[3:8], axis=1).T / STEP_SCALE_W),
    ]
    centred = series - series.mean(axis=1, keepdims=True)
    variance = centred.var(axis=1) + 1e-9
    for lag in LAGS:
        parts.append(((centred[:, lag:] * centred[:, :-lag]).mean(axis=1) / variance)[:, None])
    return np.concatenate(parts, axis=1)


def _discriminant(
    features: FloatArray, homes: IntArray, weight: float
) -> tuple[FloatArray, FloatArray]:
    """Centres of the homes and the inverse of their common covariance."""
    count = int(homes.max()) + 1
    centres = np.stack([features[homes == h].mean(axis=0) for h in range(count)])
    rest = features - centres[homes]
    covariance = rest.T @ rest / max(1, len(features) - count)
    diagonal = np.diag(np.diag(covariance) + 1e-6)
    return centres, np.linalg.inv((1 - weight) * covariance + weight * diagonal)


def _distances(features: FloatArray, centres: FloatArray, inverse: FloatArray) -> FloatArray:
    """Log-likelihood of every home up to a constant, shape (cases, homes)."""
    apart = features[:, None] - centres
    return np.asarray(-0.5 * np.einsum("chi,ij,chj->ch", apart, inverse, apart))


def _softmax(logs: FloatArray) -> FloatArray:
    chances = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(chances / chances.sum(axis=1, keepdims=True))


def _validate(features: FloatArray, homes: IntArray, week: IntArray, weight: float) -> float:
    """Log-likelihood of the right home of weeks that are left out, in two parts."""
    total = 0.0
    place = np.zeros(week.max() + 1, np.int64)
    for home in np.unique(homes):
        own = np.unique(week[homes == home])
        place[own] = np.arange(own.size) % 2
    for part in (0, 1):
        inside = place[week] != part
        centres, inverse = _discriminant(features[inside], homes[inside], weight)
        chances = _softmax(_distances(features[~inside], centres, inverse))
        right = chances[np.arange(len(chances)), homes[~inside]]
        total += float(np.log(np.maximum(right, 1e-12)).sum())
    return total


class Membership(Threat[FloatArray]):
    """Whether the load of a home is part of a published sum.

    `fit` takes the days of other homes, shape (cases, slots) [W], with the number of their home as
    the answer. Values are pairs of a sum and the load of the home, shape (cases, 2, days, slots).

    Parameters
    ----------
    homes : int
        Number of homes in the sum.
    """

    name = "membership"

    def __init__(self, homes: int) -> None:
        self.homes = whole("homes", homes)
        if self.homes < 2:
            raise InputError(
                "a sum of one home is the load of this home; membership needs at least two."
            )
        self._model: tuple[FloatArray, FloatArray] | None = None

    def fit(self, known: FloatArray, answers: IntArray) -> Self:
        """Learn the mean day and the covariance of a day of one home."""
        if np.unique(answers).size < 2 or len(known) < known.shape[1]:
            raise DataError(
                "membership needs days of at least two other homes, and at least as many days as "
                f"a day has slots; got {len(known)} days of {np.unique(answers).size} homes."
            )
        self._model = known.mean(axis=0), np.cov(known, rowvar=False)
        return self

    def predict(self, values: FloatArray) -> FloatArray:
        """Return the probabilities that the home is absent and present, shape (cases, 2)."""
        if self._model is None:
            raise InputError("membership must be fitted before it predicts.")
        total, load = values[:, 0], values[:, 1]
        absent = self._log_density(total, self.homes)
        present = self._log_density(total - load, self.homes - 1)
        return _softmax(np.stack([absent, present], axis=1))

    def _log_density(self, total: FloatArray, homes: int) -> FloatArray:
        """Log-density of days of a sum of other homes with the noise, added over the days."""
        assert self._model is not None
        mean, covariance = self._model
        noisy = homes * covariance + (self.noise_w**2 + 1e-6) * np.eye(mean.size)
        rest = total - homes * mean
        distance = np.einsum("...i,ij,...j->...", rest, np.linalg.inv(noisy), rest)
        logs = -0.5 * (distance + np.linalg.slogdet(noisy)[1])
        return np.asarray(logs.sum(axis=1))
