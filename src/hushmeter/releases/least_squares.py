r"""One consistent estimate from any set of noisy tables, with its standard errors.

The cells x are observed themselves, with noise of weight w₀ = 1/σ₀², and in the sums G·x of all
labels of all tables, with independent noise of weights W (diagonal). The generalised least-squares
estimate solves M·x̂ = b with M = w₀·I + Gᵀ·W·G and b = w₀·cells + Gᵀ·W·sums. By the identity of
Woodbury, with the small matrix

    K = w₀·W⁻¹ + G·Gᵀ        (one row for each label),
    x̂ = (b − Gᵀ·K⁻¹·G·b)/w₀,        Var(q·x̂) = (q·q − (G·q)ᵀ·K⁻¹·(G·q))/w₀

for every public vector q. One Cholesky factor of K serves the estimate and all standard errors.
Labels that share no cell, such as those of two months, are independent; K is factored for each
connected part. For days, hours of the day and months this is the case of two attributes of
ResidualPlanner [1]_. The estimate is computed from released numbers alone and costs no privacy.

*Incomplete cells.* A cell counts missing readings as zero. If a share p of its readings is present,
the mean of these is x/p; `scales` are the public factors 1/p. The estimate and its variances are
those of the scaled cells.

References
----------
.. [1] Y. Xiao, G. He, D. Zhang, D. Kifer, "An optimal and scalable matrix mechanism for noisy
   marginals under convex loss functions", NeurIPS 2023.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hushmeter.checks import FloatArray, IntArray
from hushmeter.privacy.tables import NO_LABEL, Table

TABLES = ("cells", "days", "hours", "total")
"""Names of the four tables, in the order of all sequences of four."""


@dataclass(frozen=True, eq=False)
class TableEstimate:
    """Least-squares estimate of cells from their noisy values and noisy tables of sums.

    Parameters
    ----------
    tables : sequence of Table
        The tables of sums, without that of the cells themselves.
    weights : array, shape (1 + tables,)
        Inverse variances of the noise of the cells (positive) and of the sums of each table; zero
        for a table that is not published.
    scales : array, shape (n,), optional
        Factors of the cells in the estimate, the inverse shares of the readings that are present;
        one by default.
    """

    tables: Sequence[Table]
    weights: FloatArray
    scales: FloatArray | None = None

    def solve(self, cells: FloatArray, sums: Sequence[FloatArray]) -> FloatArray:
        """Estimate the scaled cells from the noisy cells and the noisy sums of each table."""
        right = self.weights[0] * cells
        for table, weight, noisy in zip(self.tables, self.weights[1:], sums, strict=True):
            right += weight * np.append(noisy, 0.0)[table.labels]
        found = np.empty(cells.size)
        for part in self._parts:
            found[part.cells] = part.solve(right[part.cells])
        return found * self._factors

    @cached_property
    def cell_variances(self) -> FloatArray:
        """Variances of the scaled cells, shape (n,), in the squared unit of the tables."""
        found = np.empty(self._factors.size)
        for part in self._parts:
            found[part.cells] = (1 - part.explained_cells) / part.weight
        return np.asarray(self._factors**2 * found)

    def sum_variances(self, table: Table) -> FloatArray:
        """Variances of the sums of scaled cells for every label of any table, shape (size,)."""
        found = np.zeros(table.size)
        for part in self._parts:
            part.add_sum_variances(found, table.labels[part.cells], self._factors[part.cells])
        return found

    @cached_property
    def register_variances(self) -> FloatArray:
        """Variances of the sums of the first 1, 2, …, n scaled cells, shape (n,)."""
        growth = np.empty(self._factors.size)
        for part in self._parts:
            variances = part.running_variances(self._factors[part.cells])
            growth[part.cells] = np.diff(variances, prepend=0.0)
        return np.cumsum(growth)

    @cached_property
    def _factors(self) -> FloatArray:
        """Factors of the cells, shape (n,)."""
        return np.ones(self.tables[0].labels.size) if self.scales is None else self.scales

    @cached_property
    def _parts(self) -> list[_Part]:
        """The connected parts: cells of different parts share no published label."""
        used = [t for t, w in zip(self.tables, self.weights[1:], strict=True) if w > 0]
        weights = np.repeat(self.weights[1:], [table.size for table in self.tables])
        weights = weights[weights > 0]
        first = np.cumsum([0, *(table.size for table in used)])[:-1]
        count, nowhere = self._factors.size, weights.size
        labels = np.full((len(used), count), nowhere)
        for row, table, start in zip(labels, used, first, strict=True):
            row[table.labels >= 0] = start + table.labels[table.labels >= 0]
        return _split(_connected(labels, nowhere), labels, weights, float(self.weights[0]))


def _connected(labels: IntArray, nowhere: int) -> IntArray:
    """Number of the connected part of every cell: the first cell that shares labels with it.

    All cells without a label are one part.
    """
    inside = labels < nowhere
    place = np.where(inside.any(axis=0), np.arange(labels.shape[1]), NO_LABEL)
    while True:
        before = place
        for row, known in zip(labels, inside, strict=True):
            first = np.full(nowhere + 1, place.size)
            np.minimum.at(first, row, place)
            place = np.where(known, first[row], place)
        if np.array_equal(before, place):
            return place


def _split(place: IntArray, labels: IntArray, weights: FloatArray, weight: float) -> list[_Part]:
    """Sort cells into their parts, and number the labels of each part anew."""
    order = np.argsort(place, kind="stable")
    bounds = np.flatnonzero(np.diff(place[order])) + 1
    parts = []
    for cells in np.split(order, bounds):
        own = labels[:, cells]
        known = np.unique(own[own < weights.size])
        parts.append(_Part(cells, np.searchsorted(known, own), weights[known], weight))
    return parts


@dataclass(frozen=True, eq=False)
class _Part:
    """Cells that share labels, and nothing else.

    Attributes
    ----------
    cells : array of int, shape (n,)
        Numbers of the cells, ascending.
    labels : array of int, shape (tables, n)
        Row of K of each cell in each table; the number of rows for a cell without a label.
    weights : array, shape (rows,)
        Weights of the sums.
    weight : float
        Weight w₀ of the cells.
    """

    cells: IntArray
    labels: IntArray
    weights: FloatArray
    weight: float

    @cached_property
    def inverse(self) -> FloatArray:
        """K⁻¹ with one more row and column of zeros, for cells without a label."""
        from scipy.linalg import cho_factor, cho_solve

        rows = self.weights.size
        pairs = self.labels[:, None] * (rows + 1) + self.labels[None, :]
        shared = np.bincount(pairs.ravel(), minlength=(rows + 1) ** 2).reshape(rows + 1, rows + 1)
        inverse = np.zeros(shared.shape)
        if rows:
            gram = shared[:-1, :-1] + np.diag(self.weight / self.weights)
            inverse[:-1, :-1] = cho_solve(cho_factor(gram), np.eye(rows))
        return inverse

    def solve(self, right: FloatArray) -> FloatArray:
        """Return M⁻¹·b for the right-hand side b of the cells."""
        sums = np.zeros(self.weights.size + 1)
        for own in self.labels:
            sums += np.bincount(own, right, sums.size)
        spread = self.inverse @ sums
        return np.asarray((right - spread[self.labels].sum(axis=0)) / self.weight)

    @cached_property
    def explained_cells(self) -> FloatArray:
        """(G·q)ᵀ·K⁻¹·(G·q) of every single cell q, which has one label in each table."""
        entries = self.inverse[self.labels[:, None], self.labels[None, :]]
        return np.asarray(entries.sum(axis=(0, 1)))

    def add_sum_variances(self, found: FloatArray, labels: IntArray, factors: FloatArray) -> None:
        """Add the variances of sums of scaled cells to those of their labels."""
        inside = labels >= 0
        names, own = np.unique(labels[inside], return_inverse=True)
        shape = (self.weights.size + 1, names.size)
        places = self.labels[:, inside] * names.size + own
        scales = np.broadcast_to(factors[inside], places.shape)
        sums = np.bincount(places.ravel(), scales.ravel(), math.prod(shape)).reshape(shape)
        explained = (sums * (self.inverse @ sums)).sum(axis=0)
        squares = np.bincount(own, factors[inside] ** 2, names.size)
        found[names] += (squares - explained) / self.weight

    def running_variances(self, factors: FloatArray) -> FloatArray:
        """Variances of the sums of the first 1, 2, …, n scaled cells of the part."""
        # With u the sums of the first k cells and a those of the next one,
        # (u + a)ᵀA(u + a) = uᵀAu + 2·aᵀA(u + a) − aᵀAa: only running sums are needed.
        images = np.cumsum(factors[:, None] * self.inverse[self.labels].sum(axis=0), axis=0)
        steps = factors * images[np.arange(factors.size), self.labels].sum(axis=0)
        explained = np.cumsum(2 * steps - factors**2 * self.explained_cells)
        return np.asarray((np.cumsum(factors**2) - explained) / self.weight)


def complete_variances(weights: FloatArray, days: int, hours: int) -> FloatArray:
    """Variances of a cell, a day, an hour of the day and the total of a complete month.

    Parameters
    ----------
    weights : array, shape (4,)
        w₀ … w₃.
    days, hours : int
        D and H.

    Returns
    -------
    array, shape (4,)
        Variance of a cell, of the sum of a day, of the sum of an hour of the day over all days,
        and of the total.

    Notes
    -----
    M has four eigenspaces: the grand mean, the day part, the hour part and the rest, with the
    eigenvalues c₄ = w₀ + H·w₁ + D·w₂ + D·H·w₃, c₂ = w₀ + H·w₁, c₃ = w₀ + D·w₂ and c₁ = w₀.
    """
    c2, c3 = weights[0] + hours * weights[1], weights[0] + days * weights[2]
    c1, c4 = weights[0], c2 + days * weights[2] + days * hours * weights[3]
    parts = (days - 1) * (hours - 1) / c1 + (days - 1) / c2 + (hours - 1) / c3 + 1 / c4
    return np.array(
        [
            parts / (days * hours),
            hours * ((days - 1) / c2 + 1 / c4) / days,
            days * ((hours - 1) / c3 + 1 / c4) / hours,
            days * hours / c4,
        ]
    )
