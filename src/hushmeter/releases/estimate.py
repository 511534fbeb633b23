r"""One consistent estimate from any set of noisy tables, with its standard errors.

The cells x are observed themselves, with noise of variance v₀, and in the sums G·x of all labels of
all tables, with independent noise of variances V (diagonal). With the small matrix

    K = V/v₀ + G·Gᵀ        (one row for each label)

the generalised least-squares estimate and the variance of every public vector q are

    x̂ = cells + Gᵀ·K⁻¹·(sums − G·cells),        Var(q·x̂) = v₀·(q·q − (G·q)ᵀ·K⁻¹·(G·q)),

by the identity of Woodbury. One Cholesky factor of K serves the estimate and all standard errors.
Labels that share no cell, such as those of two months, are independent; K is factored for each
connected part. For days, hours of the day and months this is the case of two attributes of
ResidualPlanner [1]_. A sum that is published exactly has the variance 0. If the cells themselves
are not published, v₀ is so large that the sums alone decide. The estimate is computed from released
numbers and costs no privacy.

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

UNKNOWN = 1e7
"""Variance of cells that are not published, as a multiple of the largest variance of a sum."""


@dataclass(frozen=True, eq=False)
class TableEstimate:
    """Least-squares estimate of cells from their noisy values and noisy tables of sums.

    Parameters
    ----------
    tables : sequence of Table
        The tables of sums, without that of the cells themselves.
    variances : sequence of float, length 1 + tables
        Variances of the noise of the cells (infinite if they are not published) and of the sums of
        each table (0 for exact sums).
    size : int
        Number n of cells.
    scales : array, shape (n,), optional
        Factors of the cells in the estimate, the inverse shares of the readings that are present;
        one by default.
    """

    tables: Sequence[Table]
    variances: Sequence[float]
    size: int
    scales: FloatArray | None = None

    def solve(self, cells: FloatArray | None, sums: Sequence[FloatArray]) -> FloatArray:
        """Estimate the scaled cells from the noisy cells and the noisy sums of each table."""
        observed = np.zeros(self.size) if cells is None else cells
        if not self.tables:
            return observed * self._factors
        missing = [
            noisy - table.sums(observed) for table, noisy in zip(self.tables, sums, strict=True)
        ]
        flat = np.concatenate(missing)
        found = observed.copy()
        for part in self._parts:
            found[part.cells] += part.spread(flat)
        return found * self._factors

    @cached_property
    def cell_variances(self) -> FloatArray:
        """Variances of the scaled cells, shape (n,), in the squared unit of the tables."""
        found = np.empty(self.size)
        for part in self._parts:
            found[part.cells] = self._cell_variance * (1 - part.explained_cells)
        return np.asarray(self._factors**2 * found)

    def sum_variances(self, table: Table) -> FloatArray:
        """Variances of the sums of scaled cells for every label of any table, shape (size,)."""
        found = np.zeros(table.size)
        for part in self._parts:
            part.add_sum_variances(found, table.labels[part.cells], self._factors[part.cells])
        return self._cell_variance * found

    @cached_property
    def register_variances(self) -> FloatArray:
        """Variances of the sums of the first 1, 2, …, n scaled cells, shape (n,)."""
        growth = np.empty(self.size)
        for part in self._parts:
            variances = part.running_variances(self._factors[part.cells])
            growth[part.cells] = np.diff(variances, prepend=0.0)
        return self._cell_variance * np.cumsum(growth)

    @cached_property
    def _factors(self) -> FloatArray:
        """Factors of the cells, shape (n,)."""
        return np.ones(self.size) if self.scales is None else self.scales

    @cached_property
    def _cell_variance(self) -> float:
        """Variance v₀ of the noise of a cell."""
        known = float(self.variances[0])
        return known if math.isfinite(known) else UNKNOWN * max(self.variances[1:])

    @cached_property
    def _parts(self) -> list[_Part]:
        """The connected parts: cells of different parts share no published label."""
        ratios = np.repeat(
            np.asarray(self.variances[1:], dtype=float) / self._cell_variance,
            [table.size for table in self.tables],
        )
        first = np.cumsum([0, *(table.size for table in self.tables)])[:-1]
        nowhere = ratios.size
        labels = np.full((len(self.tables), self.size), nowhere)
        for row, table, start in zip(labels, self.tables, first, strict=True):
            row[table.labels >= 0] = start + table.labels[table.labels >= 0]
        return _split(_connected(labels, nowhere), labels, ratios)


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


def _split(place: IntArray, labels: IntArray, ratios: FloatArray) -> list[_Part]:
    """Sort cells into their parts, and number the labels of each part anew."""
    order = np.argsort(place, kind="stable")
    bounds = np.flatnonzero(np.diff(place[order])) + 1
    parts = []
    for cells in np.split(order, bounds):
        own = labels[:, cells]
        known = np.unique(own[own < ratios.size])
        parts.append(_Part(cells, np.searchsorted(known, own), known, ratios[known]))
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
    sums : array of int, shape (rows,)
        Number of the sum of every row among the sums of all tables.
    ratios : array, shape (rows,)
        Variances of the sums divided by that of a cell.
    """

    cells: IntArray
    labels: IntArray
    sums: IntArray
    ratios: FloatArray

    @cached_property
    def inverse(self) -> FloatArray:
        """K⁻¹ with one more row and column of zeros, for cells without a label."""
        from scipy.linalg import cho_factor, cho_solve

        rows = self.ratios.size
        pairs = self.labels[:, None] * (rows + 1) + self.labels[None, :]
        shared = np.bincount(pairs.ravel(), minlength=(rows + 1) ** 2).reshape(rows + 1, rows + 1)
        inverse = np.zeros(shared.shape)
        if rows:
            gram = shared[:-1, :-1] + np.diag(self.ratios)
            inverse[:-1, :-1] = cho_solve(cho_factor(gram), np.eye(rows))
        return inverse

    def spread(self, missing: FloatArray) -> FloatArray:
        """Return Gᵀ·K⁻¹·(sums − G·cells) for the cells of the part."""
        weights = self.inverse @ np.append(missing[self.sums], 0.0)
        return np.asarray(weights[self.labels].sum(axis=0))

    @cached_property
    def explained_cells(self) -> FloatArray:
        """(G·q)ᵀ·K⁻¹·(G·q) of every single cell q, which has one label in each table."""
        entries = self.inverse[self.labels[:, None], self.labels[None, :]]
        return np.asarray(entries.sum(axis=(0, 1)))

    def add_sum_variances(self, found: FloatArray, labels: IntArray, factors: FloatArray) -> None:
        """Add the variances of sums of scaled cells, in units of that of a cell, to `found`."""
        inside = labels >= 0
        names, own = np.unique(labels[inside], return_inverse=True)
        shape = (self.ratios.size + 1, names.size)
        places = self.labels[:, inside] * names.size + own
        scales = np.broadcast_to(factors[inside], places.shape)
        sums = np.bincount(places.ravel(), scales.ravel(), math.prod(shape)).reshape(shape)
        explained = (sums * (self.inverse @ sums)).sum(axis=0)
        squares = np.bincount(own, factors[inside] ** 2, names.size)
        found[names] += squares - explained

    def running_variances(self, factors: FloatArray) -> FloatArray:
        """The same of the sums of the first 1, 2, …, n scaled cells of the part."""
        # With u the sums of the first k cells and a those of the next one,
        # (u + a)ᵀA(u + a) = uᵀAu + 2·aᵀA(u + a) − aᵀAa: only running sums are needed.
        images = np.cumsum(factors[:, None] * self.inverse[self.labels].sum(axis=0), axis=0)
        steps = factors * images[np.arange(factors.size), self.labels].sum(axis=0)
        explained = np.cumsum(2 * steps - factors**2 * self.explained_cells)
        return np.asarray(np.cumsum(factors**2) - explained)
