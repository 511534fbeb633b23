"""Compare the attackers of a sweep: means over the seeds, ranks, and fits against ln(1/ε).

The paper observes (Section V-E) that the accuracy of every attacker is piecewise linear in ln(1/ε),
with its own break points and slopes, and ranks attackers by slope. This module fits such lines,
with bootstrap intervals over the seeds, and compares them with a sigmoid by the Bayesian
information criterion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.checks import FloatArray, RngLike, one_of, whole
from hushmeter.errors import DataError, InputError
from hushmeter.plot.accuracy import FLOORS, mean_and_band

if TYPE_CHECKING:
    import pandas as pd

Details = tuple[tuple[str, str], ...]
"""Rows (name, value) of the table below a caption."""

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


SLOPE = "slope, "
"""Beginning of the name of a detail about slopes and break points."""


@dataclass(frozen=True)
class Comparison:
    """The rows of a sweep, with means, rankings and fits."""

    table: pd.DataFrame  # One row for each cell, without failed cells and without times
    by: str = "attacker"  # The column whose values are compared
    failed: tuple[str, ...] = ()  # Sentences about attackers that failed and are left out

    @cached_property
    def names(self) -> list[str]:
        """The compared names without the floors, in the order of the study."""
        return [str(n) for n in self.table[self.by].unique() if n not in FLOORS]

    @cached_property
    def epsilons(self) -> list[float]:
        """The values of ε, largest first: from little to much protection."""
        return sorted((float(e) for e in self.table.epsilon.unique()), reverse=True)

    def mean(self, name: str, measure: str = "alpha", epsilon: float | None = None) -> float:
        """Return the mean of a measure over the seeds at one ε, the largest by default."""
        return float(self._rows(name, epsilon)[measure].mean())

    def _rows(self, name: str, epsilon: float | None) -> pd.DataFrame:
        at = self.epsilons[0] if epsilon is None else epsilon
        return self.table[(self.table[self.by] == name) & (self.table.epsilon == at)]

    def rank(self, measure: str = "alpha", epsilon: float | None = None) -> list[str]:
        """Return the names from the largest mean to the smallest."""
        return sorted(self.names, key=lambda name: -self.mean(name, measure, epsilon))

    def fits(self, measure: str = "alpha") -> dict[str, BreakpointFit]:
        """Return the fit of every name against ln(1/ε)."""
        if measure not in self._fits:
            self._fits[measure] = {name: self._fit(name, measure) for name in self.names}
        return self._fits[measure]

    @cached_property
    def _fits(self) -> dict[str, dict[str, BreakpointFit]]:
        """Fits by measure, kept because captions need them several times."""
        return {}

    def _fit(self, name: str, measure: str) -> BreakpointFit:
        part = self.table[self.table[self.by] == name]
        rows = part.pivot(index="seed", columns="epsilon", values=measure)
        return fit_breakpoints(self.epsilons, rows[self.epsilons].to_numpy())

    @property
    def floor(self) -> float:
        """α of “everything off” or of “as at the first reading”, whichever is larger."""
        return float(max(self.table.alpha_floor.mean(), self.table.hold_floor.mean()))

    def list_means(self, measure: str = "alpha", epsilon: float | None = None) -> str:
        """Return the names with their means as text, the largest first."""
        ranked = self.rank(measure, epsilon)
        return ", ".join(f"{n} {self.mean(n, measure, epsilon):.3f}" for n in ranked)

    def interval(
        self, name: str, measure: str = "alpha", epsilon: float | None = None
    ) -> tuple[float, float]:
        """Return the 95 % interval of a mean over the seeds, by Student's t."""
        _, mean, half = mean_and_band(self._rows(name, epsilon), measure)
        return float(mean[0] - half[0]), float(mean[0] + half[0])

    def tell(self, name: str, measure: str = "alpha", epsilon: float | None = None) -> str:
        """Return a mean with its 95 % interval as text."""
        low, high = self.interval(name, measure, epsilon)
        return f"{self.mean(name, measure, epsilon):.3f} [{low:.3f}, {high:.3f}]"

    def robustness(self, curves: Mapping[str, FloatArray] | None = None) -> pd.DataFrame:
        """Return slopes and break points of α and F1 with 95 % intervals, one row for each."""
        import pandas as pd

        fits = [
            (name, measure, self.fits(measure)[name])
            for name in rank_by_slope(self.fits())
            for measure in ("alpha", "f1")
        ]
        for name, curve in (curves or {}).items():
            fits.append((name, "alpha", fit_breakpoints(self.epsilons, curve, bootstrap=1)))
        rows = [{self.by: name, "measure": measure, **_columns(fit)} for name, measure, fit in fits]
        return pd.DataFrame(rows).rename(columns={self.by: "name"})

    def tell_robustness(self) -> Details:
        """Return slopes and break points of α and F1, with 95 % intervals, as rows of details."""
        rows = []
        for name in rank_by_slope(self.fits()):
            words = [
                f"{symbol} {_tell_fit(self.fits(measure)[name])}"
                for measure, symbol in (("alpha", "α"), ("f1", "F1"))
            ]
            rows.append((f"{SLOPE}{name}", "; ".join(words)))
        return (*rows, *(("left out", reason) for reason in self.failed))


def _columns(fit: BreakpointFit) -> dict[str, float | str]:
    """The numbers of a fit by the columns of the table of robustness."""
    steepest = fit.steepest
    row: dict[str, float | str] = {
        "slope": steepest.value,
        "slope_low": steepest.low,
        "slope_high": steepest.high,
    }
    for i, one in enumerate(fit.breaks, 1):
        ends = {"": one.value, "_low": one.high, "_high": one.low}
        row |= {f"break_{i}{end}": float(np.exp(-x)) for end, x in ends.items()}
    return row | {"better": fit.better}


def _tell_fit(fit: BreakpointFit) -> str:
    """The steepest slope per unit of ln(1/ε) and the break points, with their intervals."""
    steepest = fit.steepest
    breaks = ", ".join(
        f"{np.exp(-one.value):.2g} [{np.exp(-one.high):.2g}, {np.exp(-one.low):.2g}]"
        for one in fit.breaks
    )
    better = "" if fit.better == "piecewise" else " (a sigmoid fits better)"
    return (
        f"{steepest.value:+.3f} [{steepest.low:+.3f}, {steepest.high:+.3f}], breaks at ε = "
        f"{breaks}{better}"
    )
