"""Compare the attackers of a sweep: means, paired differences, ranks, and fits against ln(1/ε).

The paper observes (Section V-E) that the accuracy of every attacker is piecewise linear in ln(1/ε),
with its own break points and slopes, and ranks attackers by slope. This module fits such lines and
compares them with a sigmoid by the Bayesian information criterion.

Seeds of the noise do not tell how an attacker fares on other days. All intervals therefore come
from drawing whole blocks of readings (days, where there are enough) and releases with replacement.
All attackers get the same draws, so that the interval of a difference is that of paired values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.apps.plot.accuracy import FLOORS
from hushmeter.checks import FloatArray, IntArray, RngLike, one_of, whole
from hushmeter.errors import DataError, InputError
from hushmeter.scoring import block_interval, block_measures, draw_blocks

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

    def __str__(self) -> str:
        return f"{self.value:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"


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
    steepest_resampled : array
        The steepest slope of the estimate and of every resample.
    """

    breaks: tuple[Interval, ...]
    slopes: tuple[Interval, ...]
    steepest: Interval
    values: FloatArray
    bic: float
    sigmoid_bic: float
    steepest_resampled: FloatArray = field(repr=False, compare=False)

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
    return fit_resampled(x, means, breaks)


def fit_resampled(x: FloatArray, means: FloatArray, breaks: int = 2) -> BreakpointFit:
    """Fit curves against ascending x = ln(1/ε): the estimate in row 0 and resamples of it below."""
    places, slopes, error, values = _solve(x, means, breaks)
    steepest = slopes.min(axis=1)
    return BreakpointFit(
        steepest_resampled=steepest,
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
    # A perfect fit would have −∞. Errors below the rounding of floats count as equal.
    return float(points * np.log(max(error / points, 1e-16)) + parameters * np.log(points))


def resampled_interval(values: FloatArray, blocks: int) -> Interval:
    """The estimate in entry 0 with the interval of its resamples by blocks."""
    return Interval(float(values[0]), *block_interval(values[1:], blocks))


def _with_estimate(draws: IntArray) -> FloatArray:
    """Draws with a first row in which everything counts once."""
    return np.vstack([np.ones(draws.shape[1]), draws])


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


def local_exponents(epsilon: ArrayLike, accuracy: ArrayLike) -> FloatArray:
    """Return d ln(lost accuracy)/d ln(1/ε) between neighbouring ε, (E − 1,).

    The lost accuracy is that at the largest ε minus that at each other. It grows “at the rate 1/ε”
    if the exponent is 1, and α is linear in ln(1/ε) if instead d α/d ln(1/ε) is constant; no curve
    does both. Differences below 1e-4 have no exponent (NaN).
    """
    x, rows = _check(epsilon, accuracy)
    lost = rows[0][0] - rows[0][1:]
    with np.errstate(invalid="ignore", divide="ignore"):
        slopes = np.diff(np.log(np.where(lost > 1e-4, lost, np.nan))) / np.diff(x[1:])
    return np.concatenate([[np.nan], slopes])


def tell_rate(epsilon: ArrayLike, accuracy: ArrayLike) -> str:
    """Return words about the exponents and slopes of a curve, for the claims 1/ε and linear."""
    return "; ".join(dict.fromkeys(one.because for one in judge_rate(epsilon, accuracy)))


RATE_TOLERANCE, MOST_OF_THE_RANGE = 0.1, 0.9
"""A rate is 1/ε, or a slope constant, if it is so within this share in most of the range."""


def judge_rate(epsilon: ArrayLike, accuracy: ArrayLike) -> tuple[Statement, Statement]:
    """Judge “at the rate 1/ε” and “linear in ln(1/ε)”, which exclude each other, for one curve."""
    found = local_exponents(epsilon, accuracy)
    x, rows = _check(epsilon, accuracy)
    slopes = np.diff(rows[0]) / np.diff(x)
    known = found[np.isfinite(found)]
    words = ("the accuracy decreases at the rate 1/ε", "the accuracy is linear in ln(1/ε)")
    if known.size == 0:
        because = "the accuracy does not fall"
        return Statement(words[0], False, because), Statement(words[1], False, because)
    near = float((np.abs(known - 1) < RATE_TOLERANCE).mean())
    mean = (rows[0][-1] - rows[0][0]) / (x[-1] - x[0])
    alike = float((np.abs(slopes - mean) < RATE_TOLERANCE * abs(mean)).mean())
    exponents = (
        f"exponent of the lost accuracy from {known.max():.2f} to {known.min():.2f}, within 0.1 of "
        f"1 (the rate 1/ε) in {near:.0%} of the range"
    )
    line = (
        f"slope per unit of ln(1/ε) from {slopes.max():+.3f} to {slopes.min():+.3f}, within a "
        f"tenth of the mean slope in {alike:.0%} of the range"
    )
    return (
        Statement(words[0], near > MOST_OF_THE_RANGE, exponents),
        Statement(words[1], alike > MOST_OF_THE_RANGE, line),
    )


@dataclass(frozen=True)
class Statement:
    """A statement of the paper about a figure, and whether it holds here."""

    words: str  # The statement
    holds: bool | None  # None if the 95 % interval of a difference contains zero: undecided
    because: str  # The numbers behind the verdict
    against_f1: bool = False  # Whether F1 contradicts a statement that holds by α

    @property
    def verdict(self) -> str:
        """“holds”, “holds by α, not by F1”, “does not hold” or “undecided”."""
        if self.holds and self.against_f1:
            return "holds by α, not by F1"
        return {True: "holds", False: "does not hold", None: "undecided"}[self.holds]

    @property
    def row(self) -> tuple[str, str]:
        """The statement as a row of the details of a caption."""
        return f"“{self.words}”", f"{self.verdict}: {self.because}"


SLOPE = "slope, "
"""Beginning of the name of a detail about slopes and break points."""


RESAMPLES = 1000
"""Number of resamples of the blocks and releases."""


@dataclass(frozen=True)
class Comparison:
    """The rows of a sweep, with means, rankings and fits."""

    table: pd.DataFrame  # One row for each cell, without failed cells and without times
    by: str = "attacker"  # The column whose values are compared
    failed: tuple[str, ...] = ()  # Sentences about attackers that failed and are left out
    # Hits and errors (B, 4, N) of the blocks of each row; without them the seeds are the blocks
    counts: Sequence[IntArray] | None = None
    blocks: str = "seeds"  # What is resampled, in words

    @cached_property
    def names(self) -> list[str]:
        """The compared names without the floors, in the order of the study."""
        return [str(n) for n in self.table[self.by].unique() if n not in FLOORS]

    @cached_property
    def epsilons(self) -> list[float]:
        """The values of ε, largest first: from little to much protection."""
        return sorted((float(e) for e in self.table.epsilon.unique()), reverse=True)

    def without(self, word: str) -> Comparison:
        """Return the comparison without the names that contain a word."""
        kept = ~self.table[self.by].str.contains(word, regex=False).to_numpy()
        counts = (
            None
            if self.counts is None
            else [c for c, k in zip(self.counts, kept, strict=True) if k]
        )
        return replace(self, table=self.table[kept].reset_index(drop=True), counts=counts)

    def mean(self, name: str, measure: str = "alpha", epsilon: float | None = None) -> float:
        """Return the mean of a measure over the seeds at one ε, the largest by default."""
        return float(self._rows(name, epsilon)[measure].mean())

    def _rows(self, name: str, epsilon: float | None) -> pd.DataFrame:
        at = self.epsilons[0] if epsilon is None else epsilon
        return self.table[(self.table[self.by] == name) & (self.table.epsilon == at)]

    def rank(self, measure: str = "alpha", epsilon: float | None = None) -> list[str]:
        """Return the names from the largest mean to the smallest."""
        return sorted(self.names, key=lambda name: -self.mean(name, measure, epsilon))

    def resampled(self, name: str, measure: str = "alpha") -> tuple[FloatArray, int]:
        """Return a measure at every ε, (1 + resamples, E), and the number of independent blocks.

        Row 0 is the estimate. Each further row has its own blocks and releases, which are the same
        for all names.
        """
        if (name, measure) not in self._resampled:
            self._resampled[name, measure] = self._resample(name, measure)
        return self._resampled[name, measure]

    @cached_property
    def _resampled(self) -> dict[tuple[str, str], tuple[FloatArray, int]]:
        """Resampled curves by name and measure, kept because captions need them several times."""
        return {}

    def _resample(self, name: str, measure: str) -> tuple[FloatArray, int]:
        part = self.table[self.table[self.by] == name]
        rows = part.assign(row=np.flatnonzero(self.table[self.by] == name)).pivot(
            index="seed", columns="epsilon", values=["row", measure]
        )
        order = rows["row"][self.epsilons].to_numpy().astype(int)
        releases = _with_estimate(draw_blocks(len(rows), RESAMPLES, seed=1))
        if self.counts is None or measure not in ("alpha", "f1"):
            values = rows[measure][self.epsilons].to_numpy()
            return releases @ values / releases.sum(axis=1, keepdims=True), len(rows)
        counts = np.array([[self.counts[i] for i in line] for line in order], dtype=np.float64)
        drawn = _with_estimate(draw_blocks(counts.shape[2], RESAMPLES))
        by_release = np.einsum("rb,sebkn->rsekn", drawn, counts, optimize=True)
        total = np.einsum("rs,rsekn->rekn", releases, by_release, optimize=True)
        runs = counts[0, 0, :, :2].sum(axis=(0, 1)) > 0
        found = block_measures(total.reshape(-1, *total.shape[2:]), runs)[measure]
        return found.reshape(len(total), -1), counts.shape[2]

    def fits(self, measure: str = "alpha") -> dict[str, BreakpointFit]:
        """Return the fit of every name against ln(1/ε)."""
        if measure not in self._fits:
            x = -np.log(self.epsilons)
            self._fits[measure] = {
                name: fit_resampled(x, self.resampled(name, measure)[0]) for name in self.names
            }
        return self._fits[measure]

    @cached_property
    def _fits(self) -> dict[str, dict[str, BreakpointFit]]:
        """Fits by measure, kept because captions need them several times."""
        return {}

    @property
    def floor(self) -> float:
        """α of “everything off” or of “as at the first reading”, whichever is larger."""
        return float(max(self.table.alpha_floor.mean(), self.table.hold_floor.mean()))

    def list_means(self, measure: str = "alpha") -> str:
        """Return the names with their means at the largest ε as text, the largest first."""
        return ", ".join(f"{n} {self.mean(n, measure):.3f}" for n in self.rank(measure))

    def _at(self, name: str, epsilon: float | None) -> tuple[FloatArray, int]:
        curves, blocks = self.resampled(name)
        return curves[:, 0 if epsilon is None else self.epsilons.index(epsilon)], blocks

    def interval(self, name: str, epsilon: float | None = None) -> tuple[float, float]:
        """Return the 95 % interval of the mean α over blocks and releases."""
        values, blocks = self._at(name, epsilon)
        return block_interval(values[1:], blocks)

    def difference(self, first: str, second: str, epsilon: float | None = None) -> Interval:
        """Return how much larger the mean α of the first is, with its paired 95 % interval."""
        one, blocks = self._at(first, epsilon)
        other, fewer = self._at(second, epsilon)
        return resampled_interval(one - other, min(blocks, fewer))

    def slope_difference(self, first: str, second: str, measure: str = "alpha") -> Interval:
        """Return how much flatter the first falls: the difference of their steepest slopes."""
        fits, blocks = self.fits(measure), self.resampled(first, measure)[1]
        gap = fits[first].steepest_resampled - fits[second].steepest_resampled
        return resampled_interval(gap, blocks)

    def bands(self, measure: str = "alpha") -> dict[str, tuple[FloatArray, FloatArray]]:
        """Return lower and upper ends of the 95 % intervals at every ε, by name."""
        found = {}
        for name in self.names:
            curves, blocks = self.resampled(name, measure)
            ends = np.array([block_interval(column, blocks) for column in curves[1:].T])
            found[name] = ends[:, 0], ends[:, 1]
        return found

    def expected(self, name: str) -> FloatArray | None:
        """Return the exact E[α] at every ε, NaN where it is not known; None if it never is."""
        part = self.table[self.table[self.by] == name]
        if "expected" not in part or part.expected.isna().all():
            return None
        means = part.groupby("epsilon").expected.mean()
        return np.array([means[e] for e in self.epsilons])

    def tell(self, name: str, epsilon: float | None = None) -> str:
        """Return the mean α with its 95 % interval as text."""
        low, high = self.interval(name, epsilon)
        return f"{self.mean(name, epsilon=epsilon):.3f} [{low:.3f}, {high:.3f}]"

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
