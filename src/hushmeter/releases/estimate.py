r"""Several noisy tables of the same cells: one estimate, standard errors, and shares of the budget.

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

*Budget.* Discrete Gaussian noise of σ on sums that a change moves by the Euclidean length s is
ρ-concentrated differentially private with ρ = s²/2σ², and the ρ of independent tables add up [2]_:
ρ = ½·Σ_j s_j²/σ_j². The shares a_j = s_j²/(σ_j²·2ρ) divide the budget among the tables.

*Shares.* The sum of the logarithms of the variances of what the tables are for is minimised: one
term for each table of sums (the mean over its labels), and one for each named band. The error of an
hour stays below `hourly_cost` times its error in a release of the cells alone. With S = G·Gᵀ and
D = V/v₀ as above, K = D + S gives

    Var(label l) = v₀·(D − D·K⁻¹·D)_ll,     mean Var(cell) = v₀·(1 − (r − Σ_l D_ll·(K⁻¹)_ll)/n)

for r labels and n cells, so that the diagonal of K⁻¹ suffices. The shares are found for a month of
30 days of hours (or of longer cells) without a gap, whatever the readings are, so that every file
and every stream with the same tables and the same change gets the same noise.

References
----------
.. [1] Y. Xiao, G. He, D. Zhang, D. Kifer, "An optimal and scalable matrix mechanism for noisy
   marginals under convex loss functions", NeurIPS 2023.
.. [2] C. Canonne, G. Kamath, T. Steinke, "The discrete Gaussian for differential privacy", 2020.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, IntArray, positive
from hushmeter.errors import InputError
from hushmeter.privacy.sensitivity import NO_LABEL, Table, sensitivity
from hushmeter.releases.labels import (
    BANDS,
    CELLS,
    HOURLY_COST,
    REST,
    LabelledTable,
    make_tables,
    model_month,
)
from hushmeter.trace import SECONDS_PER_HOUR

if TYPE_CHECKING:
    from hushmeter.privacy.sensitivity import Change

UNKNOWN = 1e7
"""Variance of what no sum determines, as a multiple of the largest variance of a sum."""

SMALLEST_SHARE = 0.01
"""A table whose best share is smaller is not published."""

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
            found[part.cells] = part.form.cell_variances
        return np.asarray(self._factors**2 * found)

    def sum_variances(self, table: Table) -> FloatArray:
        """Variances of the sums of scaled cells for every label of any table, shape (size,)."""
        found = np.zeros(table.size)
        for part in self._parts:
            names, own = np.unique(table.labels[part.cells], return_inverse=True)
            variances = part.form.sum_variances(own, self._factors[part.cells])
            found[names[names >= 0]] += variances[names >= 0]
        return found

    @cached_property
    def register_variances(self) -> FloatArray:
        """Variances of the sums of the first 1, 2, …, n scaled cells, shape (n,)."""
        growth = np.empty(self.size)
        for part in self._parts:
            variances = part.form.running_variances(self._factors[part.cells])
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
    """Sort cells into their parts, and number the labels of each part anew.

    Parts with the same labels, such as months of 31 days, share one form and so one inverse.
    """
    order = np.argsort(place, kind="stable")
    bounds = np.flatnonzero(np.diff(place[order])) + 1
    parts: list[_Part] = []
    forms: dict[tuple[bytes, bytes], _Form] = {}
    for cells in np.split(order, bounds):
        own = labels[:, cells]
        known = np.unique(own[own < variances.size])
        form = _Form(np.searchsorted(known, own), variances[known], cell_variance)
        shared = forms.setdefault((form.labels.tobytes(), form.variances.tobytes()), form)
        parts.append(_Part(cells, known, shared))
    return parts


@dataclass(frozen=True, eq=False)
class _Form:
    """The labels and variances of a part; parts of the same form have the same standard errors."""

    # Row of K of each cell in each table; the number of rows for a cell without a label
    labels: IntArray
    variances: FloatArray  # Variances V of the sums
    cell_variance: float  # Variance v₀ of a cell; infinite if the cells are not published
    _known: dict[bytes, FloatArray] = field(default_factory=dict, repr=False)

    @cached_property
    def inverses(self) -> list[FloatArray]:
        """The matrix A of this module and, without cells, B, with a row and a column of zeros.

        The last row is for cells without a label.
        """
        from scipy.linalg import cho_factor, cho_solve

        rows = self.variances.size
        pairs = self.labels[:, None] * (rows + 1) + self.labels[None, :]
        shared = np.bincount(pairs.ravel(), minlength=(rows + 1) ** 2).reshape(rows + 1, rows + 1)
        inverse, more = np.zeros(shared.shape), np.zeros(shared.shape)
        if math.isfinite(self.cell_variance):
            if rows:
                gram = shared[:-1, :-1] + np.diag(self.variances / self.cell_variance)
                inverse[:-1, :-1] = cho_solve(cho_factor(gram), np.eye(rows))
            return [inverse]
        if rows:
            # Exact sums all have the same weight: they do not contradict each other.
            exact = not self.variances.any()
            weights = 1 / np.sqrt(self.variances + exact)
            values, vectors = np.linalg.eigh(shared[:-1, :-1] * np.outer(weights, weights))
            known = values > DEPENDENT * values[-1]
            scaled = weights[:, None] * vectors[:, known]
            inverse[:-1, :-1] = scaled / values[known] @ scaled.T
            more[:-1, :-1] = 0.0 if exact else scaled / values[known] ** 2 @ scaled.T
        return [inverse, more]

    def _variance(self, squares: FloatArray, forms: Sequence[FloatArray]) -> FloatArray:
        """Var(q·x̂) from q·q, uᵀAu and, without cells, uᵀBu."""
        left = squares - forms[0]
        if math.isfinite(self.cell_variance):
            # Exact sums leave the rounding error of zero.
            return np.asarray(self.cell_variance * np.where(left > EXACT * squares, left, 0.0))
        unknown = UNKNOWN * self.variances.max(initial=1.0)
        return np.asarray(forms[1] + unknown * np.where(left > DEPENDENT * squares, left, 0.0))

    @cached_property
    def _single(self) -> list[FloatArray]:
        """The forms uᵀAu and uᵀBu of every single cell, which has one label in each table."""
        return [
            np.asarray(matrix[self.labels[:, None], self.labels[None, :]].sum(axis=(0, 1)))
            for matrix in self.inverses
        ]

    @cached_property
    def cell_variances(self) -> FloatArray:
        """Variances of the cells."""
        return self._variance(np.ones(self.labels.shape[1]), self._single)

    def sum_variances(self, groups: IntArray, factors: FloatArray) -> FloatArray:
        """Variances of the sums of scaled cells of every group, which are numbered from 0 on."""
        key = groups.tobytes() + factors.tobytes()
        if key not in self._known:
            count = int(groups.max()) + 1
            shape = (self.variances.size + 1, count)
            places = self.labels * count + groups
            scales = np.broadcast_to(factors, places.shape)
            sums = np.bincount(places.ravel(), scales.ravel(), math.prod(shape)).reshape(shape)
            forms = [(sums * (matrix @ sums)).sum(axis=0) for matrix in self.inverses]
            squares = np.bincount(groups, factors**2, count).astype(np.float64)
            self._known[key] = self._variance(squares, forms)
        return self._known[key]

    def running_variances(self, factors: FloatArray) -> FloatArray:
        """Variances of the sums of the first 1, 2, …, n scaled cells."""
        key = factors.tobytes()
        if key not in self._known:
            # With u the sums of the first k cells and a those of the next one,
            # (u + a)ᵀA(u + a) = uᵀAu + 2·aᵀA(u + a) − aᵀAa: only running sums are needed.
            forms = []
            for matrix, single in zip(self.inverses, self._single, strict=True):
                images = np.cumsum(factors[:, None] * matrix[self.labels].sum(axis=0), axis=0)
                steps = factors * images[np.arange(factors.size), self.labels].sum(axis=0)
                forms.append(np.cumsum(2 * steps - factors**2 * single))
            self._known[key] = self._variance(np.cumsum(factors**2), forms)
        return self._known[key]


@dataclass(frozen=True, eq=False)
class _Part:
    """Cells that share labels, and nothing else."""

    cells: IntArray  # Numbers of the cells, ascending
    sums: IntArray  # Number of the sum of every row among the sums of all tables
    form: _Form  # Labels of the cells

    def spread(self, missing: FloatArray) -> FloatArray:
        """Return Gᵀ·A·(sums − G·cells) for the cells of the part."""
        weights = self.form.inverses[0] @ np.append(missing[self.sums], 0.0)
        return np.asarray(weights[self.form.labels].sum(axis=0))


def lengths_of(
    tables: Sequence[LabelledTable], changes: Sequence[Change], grid: Fraction
) -> FloatArray:
    """Largest change of the sums of every table, as Euclidean length [grid steps]."""
    # The longest change comes first: the patterns of its windows serve the others.
    ordered = sorted(changes, key=lambda change: -change.own_touches)
    return np.array([max((sensitivity(t, c, grid) for c in ordered), default=0.0) for t in tables])


def divide_budget(
    words: Sequence[str], interval_s: float, lengths: FloatArray, hourly_cost: float = HOURLY_COST
) -> FloatArray:
    """Return the shares of the tables, which add up to 1; 0 for a table that is not worth one.

    `interval_s` is the length of a cell [s], and `lengths` are the sensitivities of the tables in
    any common unit, in the order in which `make_tables` returns them.
    """
    if not positive("hourly_cost", hourly_cost) > 1.001:
        raise InputError(f"hourly_cost must be above 1.001, got {hourly_cost}.")
    ratios = tuple(round(float(length / lengths[0]), 9) for length in lengths)
    given = tuple(words), ratios, float(hourly_cost)
    try:
        return _divide(*given, float(interval_s), _cells_of_an_hour(interval_s)).copy()
    except InputError:  # A band has a border within an hour.
        return _divide(*given, float(interval_s), 1).copy()


def _cells_of_an_hour(interval_s: float) -> int:
    """Number of cells that one cell of the model has: those of an hour, if the cells divide it."""
    count = SECONDS_PER_HOUR / interval_s
    return round(count) if count > 1 and count == round(count) else 1


@lru_cache(maxsize=64)
def _divide(
    words: tuple[str, ...],
    ratios: tuple[float, ...],
    hourly_cost: float,
    interval_s: float,
    joined: int,
) -> FloatArray:
    """Return the best shares without tables that are not worth their share.

    `joined` cells are one cell of the model, whose noise has the variance of all of them.
    """
    tables = make_tables(words, model_month(interval_s * joined))
    if tables[0].name == CELLS:
        ratios = (ratios[0] * math.sqrt(joined), *ratios[1:])
    model = _ModelMonth.of(tables, ratios)
    active = model.different()
    while True:
        # The matrices are small: on a busy machine, threads would wait for each other.
        with _one_thread():
            shares = model.best_shares(active, hourly_cost)
        small = active & (shares < SMALLEST_SHARE)
        if not small.any() or active.sum() == 1:
            return _rounded(model.divided_equally(shares), 7 if model.has_cells else 3)
        # The least useful table goes first; the others share its part.
        active[np.argmin(np.where(active, shares, math.inf))] = False


def _rounded(shares: FloatArray, digits: int) -> FloatArray:
    """Round shares, so that the last bits of linear algebra on another machine do not matter."""
    found = np.round(shares, digits)
    found[np.argmax(found)] += 1 - found.sum()
    return found


def _one_thread() -> AbstractContextManager[Any]:
    """Limit linear algebra to one thread; a confined process may not list its libraries."""
    from threadpoolctl import threadpool_limits

    try:
        limited: AbstractContextManager[Any] = threadpool_limits(1, user_api="blas")
    except OSError:
        return nullcontext()
    return limited


def _first_like(table: LabelledTable, tables: Sequence[LabelledTable]) -> int:
    """Number of the first table with the same labels."""
    return next(n for n, t in enumerate(tables) if np.array_equal(t.labels, table.labels))


@dataclass(frozen=True, eq=False)
class _ModelMonth:
    """The tables of a month in which the shares are found."""

    tables: tuple[LabelledTable, ...]  # All tables, that of the cells included if it is published
    ratios: FloatArray  # Sensitivities of the tables, in units of the first one
    shared: FloatArray  # S = G·Gᵀ: cells that two labels of tables of sums have in common
    table_of: Any  # Number of the table of every label
    terms: list[BoolArray]  # Labels over whose variances one term of the sum is the mean
    _known: dict[bytes, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, tables: tuple[LabelledTable, ...], ratios: tuple[float, ...]) -> _ModelMonth:
        """Count the cells that labels have in common."""
        sums = [(n, t) for n, t in enumerate(tables) if t.name != CELLS]
        count, total = tables[0].labels.size, sum(t.size for _, t in sums)
        matrix = np.zeros((total, count))
        first, table_of, terms = 0, np.zeros(total, dtype=np.int64), []
        for number, table in sums:
            inside = np.flatnonzero(table.labels >= 0)
            matrix[first + table.labels[inside], inside] = 1
            place = np.arange(total) - first
            own = (place >= 0) & (place < table.size)
            table_of[own] = number
            first += table.size
            if _first_like(table, tables) != number:
                continue
            if table.name.startswith(BANDS):
                names = np.asarray(table.columns["band"])
                for name in dict.fromkeys(names[names != REST].tolist()):
                    term = own.copy()
                    term[own] = names == name
                    terms.append(term)
            else:
                terms.append(own)
        return cls(tables, np.array(ratios), matrix @ matrix.T, table_of, terms)

    @property
    def has_cells(self) -> bool:
        """True if the cells are published, not only sums of them."""
        return bool(self.tables[0].name == CELLS)

    def different(self) -> BoolArray:
        """True for the first of several tables with the same labels, such as a month and a year."""
        return np.array(
            [n == _first_like(table, self.tables) for n, table in enumerate(self.tables)]
        )

    def divided_equally(self, shares: FloatArray) -> FloatArray:
        """Give tables with the same labels in this month equal parts of their common share."""
        first = np.array([_first_like(table, self.tables) for table in self.tables])
        return np.asarray(shares[first] / np.bincount(first)[first])

    def best_shares(self, active: BoolArray, hourly_cost: float) -> FloatArray:
        """Return the best shares of the active tables."""
        from scipy.optimize import minimize

        places = np.flatnonzero(active)
        if places.size == 1:
            return active.astype(float)
        cells = self.has_cells and places[0] == 0

        def shares_of(logs: FloatArray) -> FloatArray:
            shares = np.zeros(active.size)
            weights = np.exp(logs - logs.max())
            shares[places] = weights / weights.sum()
            return shares

        limit = 2 * math.log(hourly_cost * self.ratios[0])
        within = {"type": "ineq", "fun": lambda logs: limit - self.log_cell(shares_of(logs))}
        start = np.full(places.size, math.log(0.2 / max(1, places.size - 1)))
        start[0] = math.log(0.8) if cells else start[0]
        # Without a table of cells the variance of a cell is nearly unknown, and about nine digits
        # of the sum are exact: a derivative needs longer steps.
        derivative = {} if self.has_cells else {"finite_diff_rel_step": 1e-3}
        found: Any = minimize(  # type: ignore[call-overload]
            lambda logs: self.log_terms(shares_of(logs)),
            start,
            bounds=[(-9.0, 9.0)] * places.size,
            constraints=[within] if cells else [],
            method="SLSQP",
            jac=None if self.has_cells else "3-point",
            options={"ftol": 1e-11, "maxiter": 300, **derivative},
        )
        return shares_of(found.x)

    def log_terms(self, shares: FloatArray) -> float:
        """Σ ln Var of what the tables are for, those without a share included."""
        variances, _ = self._variances(shares)
        found = [variances[term][variances[term] < math.inf] for term in self.terms]
        return sum(math.log(max(float(one.mean()), 1e-300)) for one in found if one.size)

    def log_cell(self, shares: FloatArray) -> float:
        """Logarithm of the mean variance of a cell, in units of s₁²/2ρ."""
        return math.log(self._variances(shares)[1])

    def _variances(self, shares: FloatArray) -> tuple[FloatArray, float]:
        """Variances of all labels and the mean one of a cell; the search asks for them twice."""
        if shares.tobytes() not in self._known:
            self._known[shares.tobytes()] = self._invert(shares)
        found: tuple[FloatArray, float] = self._known[shares.tobytes()]
        return found

    def _invert(self, shares: FloatArray) -> tuple[FloatArray, float]:
        from scipy.linalg.lapack import dpotrf, dpotri

        with np.errstate(divide="ignore"):
            variances = self.ratios**2 / shares
        rows: BoolArray = (shares > 0)[self.table_of]
        cells = self.has_cells
        cell = float(variances[0]) if cells else UNKNOWN * float(variances[shares > 0].max())
        ratios = variances[self.table_of[rows]] / cell
        factor, _ = dpotrf(self.shared[np.ix_(rows, rows)] + np.diag(ratios))
        inverse, _ = dpotri(factor)
        diagonal = np.diag(inverse)
        # What only unpublished sums determine does not count.
        found = np.full(rows.size, math.inf)
        found[rows] = cell * (ratios - ratios**2 * diagonal)
        if cells and not rows.all():
            inverse = np.triu(inverse) + np.triu(inverse, 1).T
            beside = self.shared[np.ix_(rows, ~rows)]
            explained = (beside * (inverse @ beside)).sum(axis=0)
            found[~rows] = cell * (np.diag(self.shared)[~rows] - explained)
        known = rows.sum() - float((ratios * diagonal).sum())
        return found, cell * (1 - known / self.tables[0].labels.size)
