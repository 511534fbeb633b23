"""Whose week is this, and was this home in this sum?

*Identity*: a week without a name is compared with known weeks of every home. The attacker adds the
noise of the release to the known weeks, so that their features are those of released ones, and
compares features by a linear discriminant whose covariance is shrunk to its diagonal.

*Membership*: somebody who knows the readings of a home, and what homes usually draw, compares the
likelihood of a published sum with this home and without it.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from hushmeter.checks import FloatArray, IntArray, RngLike, whole
from hushmeter.errors import DataError, InputError
from hushmeter.threat.contract import Threat

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
