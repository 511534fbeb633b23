r"""One consistent estimate from the four noisy tables of a month, with its standard errors.

The cells x of a month are observed four times: each cell itself, the sums of the days, the sums of
the hours of the day over all days, and the total, with independent noise of variance σ_j². With the
weights w_j = 1/σ_j² the generalised least-squares estimate solves the normal equations

    M x = w₁·cell + w₂·day + w₃·hour + w₄·total        (each table broadcast to its cells)
    M = w₁·I + w₂·Σ_d 1_d·1_dᵀ + w₃·Σ_h 1_h·1_hᵀ + w₄·1·1ᵀ.

*Complete months.* If every one of D days has every one of H hours, M has four eigenspaces: the
grand mean, the day part, the hour part and the rest. Their eigenvalues are c₄ = w₁ + H·w₂ + D·w₃ +
D·H·w₄, c₂ = w₁ + H·w₂, c₃ = w₁ + D·w₃ and c₁ = w₁, so the right-hand side is split into these four
parts and each is divided by its own number. This is the case of two attributes of ResidualPlanner
[1]_.

*Other months* (a change of the clock, gaps, incomplete days) are solved with conjugate gradients.

*Standard errors.* The covariance of the estimate is M⁻¹. With U the matrix of the sums (at most
31 + 24 + 1 columns for hourly cells) and W the diagonal matrix of their weights,

    M⁻¹ = (I − U·(w₁·W⁻¹ + UᵀU)⁻¹·Uᵀ)/w₁,

so the variance of any sum of cells needs one small inverse A = (w₁·W⁻¹ + UᵀU)⁻¹. A cell has only
three entries of U, so its variance is a sum of nine entries of A, and the variances of all register
values are running sums. In complete months every variance follows from c₁ … c₄ and no inverse is
needed. The estimate is computed from released numbers alone and costs no privacy.

*Incomplete cells.* A cell counts missing readings as zero. If a share p of its readings is present,
the mean of these is x/p; `scales` are the public factors 1/p. The estimate and its variances are
those of the scaled cells, and U is then weighted with the factors wherever a sum is taken.

References
----------
.. [1] Y. Xiao, G. He, D. Zhang, D. Kifer, "An optimal and scalable matrix mechanism for noisy
   marginals under convex loss functions", NeurIPS 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hushmeter.checks import FloatArray, IntArray
from hushmeter.releases.calendar import MonthLayout

TABLES = ("cells", "days", "hours", "total")
"""Names of the four tables, in the order of all sequences of four."""

PRECISION = 1e-12
"""Relative residual at which the conjugate gradients stop."""


@dataclass(frozen=True, eq=False)
class MonthEstimate:
    """Least-squares estimate of the cells of one month.

    Parameters
    ----------
    layout : MonthLayout
        The cells.
    weights : array, shape (4,)
        w₁ … w₄, the inverse variances of the noise; zero for a table that is not published. The
        first is positive.
    scales : array, shape (n,), optional
        Factors of the cells in the estimate, the inverse shares of the readings that are present;
        one by default.
    """

    layout: MonthLayout
    weights: FloatArray
    scales: FloatArray | None = None

    def solve(
        self, cells: FloatArray, days: FloatArray, hours: FloatArray, total: float
    ) -> FloatArray:
        """Estimate the cells from the noisy tables.

        Parameters
        ----------
        cells, days, hours, total
            The noisy tables; a table with weight zero has no effect.

        Returns
        -------
        array, shape (n,)
            The estimate of the scaled cells, in the unit of the tables.
        """
        w = self.weights
        right = w[0] * cells + self.layout.spread(w[1] * days, w[2] * hours, w[3] * total)
        if self.layout.complete:
            return self._closed_form(right) * self._factors
        return self._conjugate_gradients(right) * self._factors

    @cached_property
    def _factors(self) -> FloatArray:
        """Factors of the cells, shape (n,)."""
        return np.ones(self.layout.day.size) if self.scales is None else self.scales

    @cached_property
    def _closed(self) -> bool:
        """True if the variances follow from c₁ … c₄."""
        return self.layout.complete and bool((self._factors == 1).all())

    def _closed_form(self, right: FloatArray) -> FloatArray:
        """Divide the four parts of the right-hand side by the four eigenvalues."""
        days, hours = self.layout.days, self.layout.hours
        c1, c2, c3, c4 = _eigenvalues(self.weights, days, hours)
        table = right.reshape(days, hours)
        mean = table.mean()
        day = table.mean(axis=1, keepdims=True) - mean
        hour = table.mean(axis=0, keepdims=True) - mean
        rest = table - mean - day - hour
        return np.asarray(rest / c1 + day / c2 + hour / c3 + mean / c4).ravel()

    def _conjugate_gradients(self, right: FloatArray) -> FloatArray:
        """Solve the normal equations; M has few distinct eigenvalues, so few steps are needed."""
        x = right / self.weights.sum()
        residual = right - self._multiply(x)
        direction, size = residual.copy(), float(residual @ residual)
        goal = PRECISION**2 * float(right @ right)
        for _ in range(2 * right.size + 100):
            if size <= goal:
                break
            image = self._multiply(direction)
            step = size / float(direction @ image)
            x += step * direction
            residual -= step * image
            size, before = float(residual @ residual), size
            direction = residual + size / before * direction
        return np.asarray(x)

    def _multiply(self, x: FloatArray) -> FloatArray:
        """Return M·x."""
        w = self.weights
        days, hours, total = self.layout.sums(x)
        return np.asarray(w[0] * x + self.layout.spread(w[1] * days, w[2] * hours, w[3] * total))

    @cached_property
    def cell_variances(self) -> FloatArray:
        """Variances of the cells, shape (n,), in the squared unit of the tables."""
        if self._closed:
            return np.full(self.layout.day.size, self._complete[0])
        return np.asarray(self._factors**2 * (1 - self._explained_cells) / self.weights[0])

    @cached_property
    def day_variances(self) -> FloatArray:
        """Variances of the sums of the days, shape (D,)."""
        if self._closed:
            return np.full(self.layout.days, self._complete[1])
        return self._variances_of(slice(0, self.layout.days))

    @cached_property
    def hour_variances(self) -> FloatArray:
        """Variances of the sums of the hours of the day, shape (H,); 0 where an hour is absent."""
        if self._closed:
            return np.full(self.layout.hours, self._complete[2])
        return self._variances_of(slice(self.layout.days, self.layout.days + self.layout.hours))

    @cached_property
    def total_variance(self) -> float:
        """Variance of the sum of all cells."""
        if self._closed:
            return float(self._complete[3])
        return float(self._variances_of(slice(-1, None))[0])

    @cached_property
    def register_variances(self) -> FloatArray:
        """Variances of the sums of the first 1, 2, …, n cells, shape (n,)."""
        counts = np.arange(1.0, self.layout.day.size + 1)
        if self._closed:
            return _complete_register(counts, self.weights, self.layout.days, self.layout.hours)
        day, hour, total = self._columns
        inverse, factors = self._inverse, self._factors
        # With u the sums of the first k cells and a those of the next one,
        # (u + a)ᵀA(u + a) = uᵀAu + 2·aᵀA(u + a) − aᵀAa: only running sums are needed.
        parts = inverse[day] + inverse[hour] + inverse[total]
        images = np.cumsum(factors[:, None] * parts, axis=0)
        rows = np.arange(day.size)
        steps = factors * (images[rows, day] + images[rows, hour] + images[:, total])
        explained = np.cumsum(2 * steps - factors**2 * self._explained_cells)
        return np.asarray((np.cumsum(factors**2) - explained) / self.weights[0])

    @cached_property
    def _complete(self) -> FloatArray:
        """Variances of a cell, a day, an hour of the day and the total of a complete month."""
        return complete_variances(self.weights, self.layout.days, self.layout.hours)

    @property
    def _columns(self) -> tuple[IntArray, IntArray, int]:
        """Columns of U of the day, the hour of the day and the total of every cell.

        A cell without an hour of the day has a column of zeros, the last one of `_inverse`.
        """
        total = self.layout.days + self.layout.hours
        hour = np.where(self.layout.hour < 0, total + 1, self.layout.days + self.layout.hour)
        return self.layout.day, hour, total

    @cached_property
    def _shared(self) -> FloatArray:
        """UᵀU: the number of cells that two sums have in common, shape (D + H + 1, D + H + 1)."""
        return self._weighted(np.ones(self.layout.day.size))

    def _weighted(self, factors: FloatArray) -> FloatArray:
        """UᵀFU with the factors F of the cells on the diagonal."""
        day, hour, total = self._columns
        shared = np.zeros((total + 2, total + 2))
        np.add.at(shared, (day, hour), factors)
        shared = shared + shared.T
        by_day = np.bincount(day, factors, total + 2)
        by_hour = np.bincount(hour, factors, total + 2)
        shared[np.diag_indices(total)] = (by_day + by_hour)[:total]
        shared[total] = shared[:, total] = by_day + by_hour
        shared[total, total] = factors.sum()
        return np.asarray(shared[: total + 1, : total + 1])

    @cached_property
    def _inverse(self) -> FloatArray:
        """A = (w₁·W⁻¹ + UᵀU)⁻¹ with zeros for sums that are not published, and one column more."""
        size = self._shared.shape[0]
        weights = np.repeat(self.weights[1:], [self.layout.days, self.layout.hours, 1])
        published = np.flatnonzero(weights > 0)
        block = np.ix_(published, published)
        inverse = np.zeros((size + 1, size + 1))
        gram = self._shared[block] + np.diag(self.weights[0] / weights[published])
        inverse[block] = np.linalg.inv(gram)
        return inverse

    @cached_property
    def _explained_cells(self) -> FloatArray:
        """uᵀAu of every cell, whose u has a one for its day, its hour and the total."""
        day, hour, total = self._columns
        inverse = self._inverse
        squares = inverse[day, day] + inverse[hour, hour] + inverse[total, total]
        crosses = inverse[day, hour] + inverse[day, total] + inverse[hour, total]
        return np.asarray(squares + 2 * crosses)

    def _variances_of(self, rows: slice) -> FloatArray:
        """Variances (Σf² − uᵀAu)/w₁ of sums of scaled cells, u being the rows of UᵀFU."""
        sums = self._weighted(self._factors)[rows]
        squares = self._weighted(self._factors**2)[rows, -1]
        explained = ((sums @ self._inverse[:-1, :-1]) * sums).sum(axis=1)
        return np.asarray((squares - explained) / self.weights[0])


def complete_variances(weights: FloatArray, days: int, hours: int) -> FloatArray:
    """Variances of a cell, a day, an hour of the day and the total of a complete month.

    Parameters
    ----------
    weights : array, shape (4,)
        w₁ … w₄.
    days, hours : int
        D and H.

    Returns
    -------
    array, shape (4,)
        Variance of a cell, of the sum of a day, of the sum of an hour of the day over all days,
        and of the total.

    Notes
    -----
    With the eigenvalues c₁ … c₄ of the module's description: a cell has
    [(D−1)(H−1)/c₁ + (D−1)/c₂ + (H−1)/c₃ + 1/c₄]/(D·H), a day H·[(D−1)/(D·c₂) + 1/(D·c₄)], an hour
    of the day D·[(H−1)/(H·c₃) + 1/(H·c₄)], and the total D·H/c₄.
    """
    c1, c2, c3, c4 = _eigenvalues(weights, days, hours)
    parts = (days - 1) * (hours - 1) / c1 + (days - 1) / c2 + (hours - 1) / c3 + 1 / c4
    return np.array(
        [
            parts / (days * hours),
            hours * ((days - 1) / c2 + 1 / c4) / days,
            days * ((hours - 1) / c3 + 1 / c4) / hours,
            days * hours / c4,
        ]
    )


def _complete_register(
    counts: FloatArray, weights: FloatArray, days: int, hours: int
) -> FloatArray:
    """Variances of the sums of the first cells of a complete month.

    The first k = d·H + j cells have a squared length of k²/(D·H) in the grand mean, of (d·H² +
    j²)/H with the day part and of (j·(d + 1)² + (H − j)·d²)/D with the hour part, and of k in all.
    """
    c1, c2, c3, c4 = _eigenvalues(weights, days, hours)
    full, rest = np.divmod(counts, hours)
    mean = counts**2 / (days * hours)
    day = (full * hours**2 + rest**2) / hours - mean
    hour = (rest * (full + 1) ** 2 + (hours - rest) * full**2) / days - mean
    return np.asarray((counts - mean - day - hour) / c1 + day / c2 + hour / c3 + mean / c4)


def _eigenvalues(weights: FloatArray, days: int, hours: int) -> tuple[float, float, float, float]:
    """c₁ … c₄ of a complete month."""
    c2, c3 = weights[0] + hours * weights[1], weights[0] + days * weights[2]
    return weights[0], c2, c3, c2 + days * weights[2] + days * hours * weights[3]
