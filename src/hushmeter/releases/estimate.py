r"""One consistent estimate from any set of noisy tables, with its standard errors.

The cells x are observed themselves, with noise of variance v₀, and in the sums G·x of all labels of
all tables, with independent noise of variances V (diagonal). With the small matrix

    K = V/v₀ + G·Gᵀ        (one row for each label)

the generalised least-squares estimate and the variance of every public vector q are

    x̂ = cells + Gᵀ·K⁻¹·(sums − G·cells),        Var(q·x̂) = v₀·(q·q − (G·q)ᵀ·K⁻¹·(G·q)),

by the identity of Woodbury. One Cholesky factor of K serves the estimate and all standard errors.
Labels that share no cell, such as those of two months, are independent; K is factored for each
connected part. For days, hours of the day and months this is the case of two attributes of
ResidualPlanner [1]_. A sum that is published exactly has the variance 0. The estimate is computed
from released numbers and costs no privacy.

*Without cells.* If the cells themselves are not published, the sums alone decide. With the
pseudo-inverse M⁺ of M = V^(−½)·G·Gᵀ·V^(−½), the shortest estimate and its variances are

    x̂ = Gᵀ·A·sums,  A = V^(−½)·M⁺·V^(−½),      Var(q·x̂) = uᵀ·B·u,  B = V^(−½)·(M⁺)²·V^(−½),

u = G·q, for every q that is a combination of published sums, which means q·q = uᵀ·A·u. The part of
another q that is none has the variance `UNKNOWN`, in units of the largest variance of a sum.

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
"""Variance of what no sum determines, as a multiple of the largest variance of a sum."""

DEPENDENT, EXACT = 1e-10, 1e-14
"""Relative sizes below which the result of a pseudo-inverse, or of a Cholesky factor, is zero."""


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
            found[part.cells] = part.cell_variances
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
        growth = np.empty(self.size)
        for part in self._parts:
            variances = part.running_variances(self._factors[part.cells])
            growth[part.cells] = np.diff(variances, prepend=0.0)
        return np.cumsum(growth)

    @cached_property
    def _factors(self) -> FloatArray:
        """Factors of the cells, shape (n,)."""
        return np.ones(self.size) if self.scales is None else self.scales

    @cached_property
    def _parts(self) -> list[_Part]:
        """The connected parts: cells of different parts share no published label."""
        variances = np.repeat(
            np.asarray(self.variances[1:], dtype=float), [table.size for table in self.tables]
        )
        first = np.cumsum([0, *(table.size for table in self.tables)])[:-1]
        nowhere = variances.size
        labels = np.full((len(self.tables), self.size), nowhere)
        for row, table, start in zip(labels, self.tables, first, strict=True):
            row[table.labels >= 0] = start + table.labels[table.labels >= 0]
        place = _connected(labels, nowhere)
        return _split(place, labels, variances, float(self.variances[0]))


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


def _split(
    place: IntArray, labels: IntArray, variances: FloatArray, cell_variance: float
) -> list[_Part]:
    """Sort cells into their parts, and number the labels of each part anew."""
    order = np.argsort(place, kind="stable")
    bounds = np.flatnonzero(np.diff(place[order])) + 1
    parts = []
    for cells in np.split(order, bounds):
        own = labels[:, cells]
        known = np.unique(own[own < variances.size])
        rows = np.searchsorted(known, own)
        parts.append(_Part(cells, rows, known, variances[known], cell_variance))
    return parts


@dataclass(frozen=True, eq=False)
class _Part:
    """Cells that share labels, and nothing else."""

    cells: IntArray  # Numbers of the cells, ascending
    # Row of K of each cell in each table; the number of rows for a cell without a label
    labels: IntArray
    sums: IntArray  # Number of the sum of every row among the sums of all tables
    variances: FloatArray  # Variances V of the sums
    cell_variance: float  # Variance v₀ of a cell; infinite if the cells are not published

    @cached_property
    def _inverses(self) -> tuple[FloatArray, FloatArray]:
        """The matrices A and B of this module, with a row and a column of zeros.

        The last row is for cells without a label.
        """
        from scipy.linalg import cho_factor, cho_solve

        rows = self.variances.size
        pairs = self.labels[:, None] * (rows + 1) + self.labels[None, :]
        shared = np.bincount(pairs.ravel(), minlength=(rows + 1) ** 2).reshape(rows + 1, rows + 1)
        inverse, more = np.zeros(shared.shape), np.zeros(shared.shape)
        if rows and math.isfinite(self.cell_variance):
            gram = shared[:-1, :-1] + np.diag(self.variances / self.cell_variance)
            inverse[:-1, :-1] = cho_solve(cho_factor(gram), np.eye(rows))
        elif rows:
            weights = 1 / np.sqrt(self.variances)
            values, vectors = np.linalg.eigh(shared[:-1, :-1] * np.outer(weights, weights))
            known = values > DEPENDENT * values[-1]
            scaled = weights[:, None] * vectors[:, known]
            inverse[:-1, :-1] = scaled / values[known] @ scaled.T
            more[:-1, :-1] = scaled / values[known] ** 2 @ scaled.T
        return inverse, more

    def _variance(self, squares: FloatArray, inside: FloatArray, more: FloatArray) -> FloatArray:
        """Var(q·x̂) from q·q, uᵀAu and uᵀBu."""
        left = squares - inside
        if math.isfinite(self.cell_variance):
            # Exact sums leave the rounding error of zero.
            return np.asarray(self.cell_variance * np.where(left > EXACT * squares, left, 0.0))
        unknown = UNKNOWN * self.variances.max(initial=1.0)
        return np.asarray(more + unknown * np.where(left > DEPENDENT * squares, left, 0.0))

    def spread(self, missing: FloatArray) -> FloatArray:
        """Return Gᵀ·A·(sums − G·cells) for the cells of the part."""
        weights = self._inverses[0] @ np.append(missing[self.sums], 0.0)
        return np.asarray(weights[self.labels].sum(axis=0))

    @cached_property
    def _single(self) -> list[FloatArray]:
        """The forms uᵀAu and uᵀBu of every single cell, which has one label in each table."""
        return [
            np.asarray(matrix[self.labels[:, None], self.labels[None, :]].sum(axis=(0, 1)))
            for matrix in self._inverses
        ]

    @property
    def cell_variances(self) -> FloatArray:
        """Variances of the cells of the part."""
        return self._variance(np.ones(self.cells.size), *self._single)

    def add_sum_variances(self, found: FloatArray, labels: IntArray, factors: FloatArray) -> None:
        """Add the variances of the sums of scaled cells of every label to `found`."""
        inside = labels >= 0
        names, own = np.unique(labels[inside], return_inverse=True)
        shape = (self.variances.size + 1, names.size)
        places = self.labels[:, inside] * names.size + own
        scales = np.broadcast_to(factors[inside], places.shape)
        sums = np.bincount(places.ravel(), scales.ravel(), math.prod(shape)).reshape(shape)
        forms = [(sums * (matrix @ sums)).sum(axis=0) for matrix in self._inverses]
        squares = np.bincount(own, factors[inside] ** 2, names.size).astype(np.float64)
        found[names] += self._variance(squares, *forms)

    def running_variances(self, factors: FloatArray) -> FloatArray:
        """Variances of the sums of the first 1, 2, …, n scaled cells of the part."""
        # With u the sums of the first k cells and a those of the next one,
        # (u + a)ᵀA(u + a) = uᵀAu + 2·aᵀA(u + a) − aᵀAa: only running sums are needed.
        forms = []
        for matrix, single in zip(self._inverses, self._single, strict=True):
            images = np.cumsum(factors[:, None] * matrix[self.labels].sum(axis=0), axis=0)
            steps = factors * images[np.arange(factors.size), self.labels].sum(axis=0)
            forms.append(np.cumsum(2 * steps - factors**2 * single))
        return self._variance(np.cumsum(factors**2), *forms)
