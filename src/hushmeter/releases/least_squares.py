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

so the variance of any sum of cells needs one small inverse. The estimate is computed from released
numbers alone and costs no privacy.

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

TABLES = ("cells", "days", "hours", "total")
"""Names of the four tables, in the order of all sequences of four."""

PRECISION = 1e-12
"""Relative residual at which the conjugate gradients stop."""


@dataclass(frozen=True, eq=False)
class MonthLayout:
    """Which cell of a month belongs to which day and to which hour of the day.

    Attributes
    ----------
    day : array of int, shape (n,)
        Number of the day of every cell, 0 … D − 1.
    hour : array of int, shape (n,)
        Number of the window of the day, 0 … H − 1; −1 for a window that a change of the clock
        repeats, which belongs to no hour of the day.
    days, hours : int
        D and H.
    """

    day: IntArray
    hour: IntArray
    days: int
    hours: int

    @cached_property
    def complete(self) -> bool:
        """True if every day has every hour once."""
        full = self.day.size == self.days * self.hours
        order = self.day * self.hours + self.hour
        return full and bool(np.array_equal(order, np.arange(self.day.size)))

    def sums(self, cells: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """Sums of the days, of the hours of the day, and of all cells."""
        counted = self.hour >= 0
        days = np.bincount(self.day, cells, self.days)
        hours = np.bincount(self.hour[counted], cells[counted], self.hours)
        return np.asarray(days, dtype=float), np.asarray(hours, dtype=float), float(cells.sum())

    def spread(self, days: FloatArray, hours: FloatArray, total: float) -> FloatArray:
        """Add the numbers of its day, of its hour of the day and of the month to every cell."""
        return np.asarray(days[self.day] + np.append(hours, 0.0)[self.hour] + total)


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
    """

    layout: MonthLayout
    weights: FloatArray

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
            The estimate, in the unit of the tables.
        """
        w = self.weights
        right = w[0] * cells + self.layout.spread(w[1] * days, w[2] * hours, w[3] * total)
        if self.layout.complete:
            return self._closed_form(right)
        return self._conjugate_gradients(right)

    def _closed_form(self, right: FloatArray) -> FloatArray:
        """Divide the four parts of the right-hand side by the four eigenvalues."""
        w, days, hours = self.weights, self.layout.days, self.layout.hours
        table = right.reshape(days, hours)
        mean = table.mean()
        day = table.mean(axis=1, keepdims=True) - mean
        hour = table.mean(axis=0, keepdims=True) - mean
        rest = table - mean - day - hour
        c2, c3 = w[0] + hours * w[1], w[0] + days * w[2]
        c4 = c2 + days * w[2] + days * hours * w[3]
        return np.asarray(rest / w[0] + day / c2 + hour / c3 + mean / c4).ravel()

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

    def variances(self, place: IntArray, groups: int) -> FloatArray:
        """Variances of sums of cells.

        Parameters
        ----------
        place : array of int, shape (n,)
            The group of every cell, −1 for a cell in no group.
        groups : int
            Number of groups.

        Returns
        -------
        array, shape (groups,)
            Variance of the sum of each group, in the squared unit of the tables.
        """
        inside = np.flatnonzero(place >= 0)
        counts = np.bincount(place[inside], minlength=groups).astype(float)
        shared = np.zeros((groups, self.layout.days + self.layout.hours + 1))
        np.add.at(shared, (place[inside], self.layout.day[inside]), 1.0)
        hourly = inside[self.layout.hour[inside] >= 0]
        np.add.at(shared, (place[hourly], self.layout.days + self.layout.hour[hourly]), 1.0)
        shared[:, -1] = counts
        return self._variance(counts, shared)

    def register_variances(self) -> FloatArray:
        """Variances of the sums of the first 1, 2, …, n cells, shape (n,)."""
        size = self.layout.day.size
        shared = np.zeros((size, self.layout.days + self.layout.hours + 1))
        rows = np.arange(size)
        shared[rows, self.layout.day] = 1.0
        hourly = self.layout.hour >= 0
        shared[rows[hourly], self.layout.days + self.layout.hour[hourly]] = 1.0
        shared[:, -1] = 1.0
        return self._variance(np.arange(1.0, size + 1), np.cumsum(shared, axis=0))

    def _variance(self, counts: FloatArray, shared: FloatArray) -> FloatArray:
        """Return (n − uᵀ·(w₁·W⁻¹ + UᵀU)⁻¹·u)/w₁ for the number n and the sums u of each group."""
        known = shared[:, self._observed]
        explained = np.einsum("gi,ij,gj->g", known, self._inverse, known, optimize=True)
        return np.asarray((counts - explained) / self.weights[0])

    @cached_property
    def _observed(self) -> IntArray:
        """Columns of the sums whose tables are published."""
        repeats = [self.layout.days, self.layout.hours, 1]
        return np.flatnonzero(np.repeat(self.weights[1:] > 0, repeats))

    @cached_property
    def _inverse(self) -> FloatArray:
        """(w₁·W⁻¹ + UᵀU)⁻¹ for the published sums."""
        layout = self.layout
        columns = np.zeros((layout.day.size, layout.days + layout.hours + 1))
        rows = np.arange(layout.day.size)
        columns[rows, layout.day] = 1.0
        hourly = layout.hour >= 0
        columns[rows[hourly], layout.days + layout.hour[hourly]] = 1.0
        columns[:, -1] = 1.0
        weights = np.repeat(self.weights[1:], [layout.days, layout.hours, 1])[self._observed]
        known = columns[:, self._observed]
        gram = np.diag(self.weights[0] / weights) + known.T @ known
        return np.asarray(np.linalg.inv(gram), dtype=float)


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
    c1, c2, c3 = weights[0], weights[0] + hours * weights[1], weights[0] + days * weights[2]
    c4 = c2 + days * weights[2] + days * hours * weights[3]
    parts = (days - 1) * (hours - 1) / c1 + (days - 1) / c2 + (hours - 1) / c3 + 1 / c4
    return np.array(
        [
            parts / (days * hours),
            hours * ((days - 1) / c2 + 1 / c4) / days,
            days * ((hours - 1) / c3 + 1 / c4) / hours,
            days * hours / c4,
        ]
    )
