"""Piecewise-linear and sigmoid fits of accuracy against ln(1/ε) (Section V-E).

The paper observes that the accuracy of every attacker is piecewise linear in ln(1/ε), with its own
break points and slopes, and ranks attackers by slope. This module fits such lines, with bootstrap
intervals over the seeds, and compares them with a sigmoid by the Bayesian information criterion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.checks import FloatArray, RngLike, one_of, whole
from hushmeter.errors import DataError, InputError

CANDIDATES = 48
"""Number of possible places of a break point."""

LEAST_POINTS = 6
"""Smallest number of different ε that can be fitted."""


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % bootstrap interval."""

    value: float  # The estimate
    # Ends of the interval
    low: float
    high: float


@dataclass(frozen=True)
class BreakpointFit:
    """A continuous piecewise-linear fit of accuracy against x = ln(1/ε).

    Attributes
    ----------
    breaks : tuple of Interval
        Break points, as values of x.
    slopes : tuple of Interval
        Slope of each segment, from the left (large ε) to the right.
    steepest : Interval
        The most negative slope: how much accuracy the attacker loses per unit of ln(1/ε).
    values : array
        The fitted accuracy at each x of the data.
    bic : float
        Bayesian information criterion n·ln(SSE/n) + p·ln n; smaller is better.
    sigmoid_bic : float
        The same criterion for the sigmoid lo + (hi − lo)/(1 + e^((x − m)/w)).
    """

    breaks: tuple[Interval, ...]
    slopes: tuple[Interval, ...]
    steepest: Interval
    values: FloatArray
    bic: float
    sigmoid_bic: float

    @property
    def evidence(self) -> float:
        """Criterion of the sigmoid minus that of the lines; positive values favour the lines."""
        return self.sigmoid_bic - self.bic

    @property
    def better(self) -> str:
        """The fit with the smaller criterion: "piecewise" or "sigmoid"."""
        return "piecewise" if self.evidence >= 0 else "sigmoid"


def fit_breakpoints(
    epsilon: ArrayLike,
    accuracy: ArrayLike,
    *,
    breaks: int = 2,
    bootstrap: int = 400,
    rng: RngLike = 0,
) -> BreakpointFit:
    """Fit accuracy against ln(1/ε).

    Parameters
    ----------
    epsilon : array_like, shape (E,)
        Values of ε, at least six different ones.
    accuracy : array_like, shape (E,) or (S, E)
        Accuracy, one row for each seed. The fit is to the mean of the rows; the intervals come
        from resampling the rows.
    breaks : {1, 2}
        Number of break points.
    bootstrap : int
        Number of bootstrap samples.
    rng : int, Generator or None
        Seed or generator of the bootstrap.

    Returns
    -------
    BreakpointFit
        The fit with its intervals.

    Raises
    ------
    InputError
        If shapes differ, or an ε is not positive.
    DataError
        If the accuracy is not finite, or there are too few different ε.
    """
    x, rows = _check(epsilon, accuracy)
    one_of("breaks", str(breaks), ("1", "2"))
    generator = np.random.default_rng(rng)
    draws = generator.integers(0, len(rows), (whole("bootstrap", bootstrap), len(rows)))
    means = np.vstack([rows.mean(axis=0)[None], rows[draws].mean(axis=1)])
    places, slopes, error, values = _solve(x, means, breaks)
    steepest = slopes.min(axis=1)
    return BreakpointFit(
        breaks=tuple(_interval(column) for column in places.T),
        slopes=tuple(_interval(column) for column in slopes.T),
        steepest=_interval(steepest),
        values=values[0],
        bic=_bic(float(error[0]), x.size, 2 + 2 * breaks),
        sigmoid_bic=_bic(_sigmoid_error(x, means[0]), x.size, 4),
    )


def rank_by_slope(fits: Mapping[str, BreakpointFit]) -> list[str]:
    """Return the attackers from the most to the least robust, by their steepest slope."""
    return sorted(fits, key=lambda name: -fits[name].steepest.value)


def _solve(
    x: FloatArray, means: FloatArray, breaks: int
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """The best break points, slopes, squared error and fitted values of every row of `means`."""
    places, bases, residuals = _candidates(tuple(x), breaks)
    errors = np.einsum("bi,cij,bj->bc", means, residuals, means, optimize=True)
    best = errors.argmin(axis=1)
    chosen = bases[best]
    coefficients = np.einsum("bij,bj->bi", np.linalg.pinv(chosen), means)
    slopes = np.cumsum(coefficients[:, 1:], axis=1)
    values = np.einsum("bij,bj->bi", chosen, coefficients)
    return places[best], slopes, errors[np.arange(len(best)), best], values


@lru_cache(maxsize=8)
def _candidates(x: tuple[float, ...], breaks: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The break points, bases (1, x, (x − b)_+, …) and residual projections of all candidates.

    A candidate has at least two data points in each of its segments.
    """
    points = np.array(x)
    grid = np.linspace(points[1], points[-2], CANDIDATES)
    sets = []
    for candidate in combinations(grid, breaks):
        counts = np.histogram(points, bins=[-np.inf, *candidate, np.inf])[0]
        if counts.min() >= 2:
            sets.append(candidate)
    places = np.array(sets)
    hinges = np.maximum(points[None, :, None] - places[:, None, :], 0.0)
    line = np.broadcast_to(np.stack([np.ones_like(points), points], axis=1), (*hinges.shape[:2], 2))
    bases = np.concatenate([line, hinges], axis=2)
    orthonormal = np.linalg.qr(bases)[0]
    hats = orthonormal @ orthonormal.transpose(0, 2, 1)
    return places, bases, np.eye(points.size) - hats


def _sigmoid_error(x: FloatArray, y: FloatArray) -> float:
    """The smallest squared error of lo + (hi − lo)/(1 + e^((x − m)/w)).

    lo and hi are linear parameters, so only m and w are searched.
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    about_mean = y - y.mean()

    def error(parameters: FloatArray) -> float:
        middle, log_width = parameters
        fall = expit(-(x - middle) / np.exp(log_width))
        fall -= fall.mean()
        spread = fall @ fall
        rest = about_mean - (fall * (fall @ about_mean / spread) if spread > 0 else 0.0)
        return float(rest @ rest)

    span = float(np.ptp(x))
    starts = [(m, np.log(w * span)) for m in np.quantile(x, (0.2, 0.5, 0.8)) for w in (0.03, 0.15)]
    return min(float(minimize(error, s, method="Nelder-Mead").fun) for s in starts)


def _bic(error: float, points: int, parameters: int) -> float:
    """The Bayesian information criterion of a squared error."""
    # A perfect fit would have −∞. Errors below the rounding of floats count as equal.
    return float(points * np.log(max(error / points, 1e-16)) + parameters * np.log(points))


def _interval(values: FloatArray) -> Interval:
    """The interval of values whose row 0 is the estimate and the others its bootstrap."""
    low, high = np.quantile(values[1:], (0.025, 0.975))
    return Interval(float(values[0]), float(low), float(high))


def _check(epsilon: ArrayLike, accuracy: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """The checked x = ln(1/ε) in ascending order, and the rows of accuracy in the same order."""
    eps = np.asarray(epsilon, dtype=np.float64)
    rows = np.atleast_2d(np.asarray(accuracy, dtype=np.float64))
    if eps.ndim != 1 or rows.ndim != 2 or rows.shape[1] != eps.size:
        raise InputError(f"accuracy has shape {rows.shape} for {eps.size} values of epsilon.")
    if not (np.isfinite(eps).all() and (eps > 0).all()):
        raise InputError("epsilon must be positive and finite.")
    if not np.isfinite(rows).all():
        raise DataError("accuracy must be finite to be fitted.")
    order = np.argsort(-eps)
    x = -np.log(eps[order])
    if np.unique(x).size < LEAST_POINTS or np.unique(x).size < x.size:
        raise DataError(f"a fit needs at least {LEAST_POINTS} different values of epsilon.")
    return x, rows[:, order]
