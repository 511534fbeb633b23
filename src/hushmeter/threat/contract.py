"""The contract of attackers on a household, and how their answers are scored.

A threat is fitted on what its attacker knows (earlier days, other homes), is told the noise of a
release, and answers with probabilities. Nothing else of the private readings reaches it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

import numpy as np

from hushmeter.checks import FloatArray, IntArray, RngLike, non_negative
from hushmeter.errors import DataError, InputError

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
