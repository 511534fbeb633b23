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

FEWEST_SHARES, EXACT_SHARES, RELATIVE_STEP, MOST_STEPS = 1e-4, 1e-9, 1e-5, 50
"""Smallest share in the search, its relative error, the step of a derivative and the most steps."""

FLAT = 1e-11
"""Rise of the minimised sum that is a rounding error."""

PARTS = 100_000
"""Shares are whole multiples of the inverse."""

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
        rows = self.variances.size
        pairs = self.labels[:, None] * (rows + 1) + self.labels[None, :]
        shared = np.bincount(pairs.ravel(), minlength=(rows + 1) ** 2).reshape(rows + 1, rows + 1)
        inverse, more = np.zeros(shared.shape), np.zeros(shared.shape)
        if math.isfinite(self.cell_variance):
            if rows:
                gram = shared[:-1, :-1] + np.diag(self.variances / self.cell_variance)
                inverse[:-1, :-1] = np.linalg.inv(gram)
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
        shares = model.best_shares(active, hourly_cost)
        small = active & (shares < SMALLEST_SHARE)
        if not small.any() or active.sum() == 1:
            return model.divided_equally(_rounded(shares))
        # The least useful table goes first; the others share its part.
        active[np.argmin(np.where(active, shares, math.inf))] = False


def _rounded(shares: FloatArray) -> FloatArray:
    """Round shares down to a public grid, so that another search gives the same noise.

    The first share gets the rest: the error of an hour does not grow.
    """
    # A share on the grid may be a rounding error below it.
    steps = np.floor(shares * PARTS + 1e-3)
    first = np.flatnonzero(steps)[0]
    steps[first] += PARTS - steps.sum()
    return np.asarray(steps / PARTS)


def _first_like(table: LabelledTable, tables: Sequence[LabelledTable]) -> int:
    """Number of the first table with the same labels."""
    return next(n for n, t in enumerate(tables) if np.array_equal(t.labels, table.labels))


@dataclass(frozen=True, eq=False)
class _Solved:
    """What follows from shares, in units of s₁²/2ρ."""

    variances: FloatArray  # Variances of all labels; infinite where no published sum tells them
    cell: float  # Mean variance of a cell
    rows: BoolArray  # Labels of the published tables of sums
    own: FloatArray  # Variances V of the noise of these labels
    covariances: FloatArray  # Covariances of these labels with all labels


@dataclass(frozen=True, eq=False)
class _ModelMonth:
    """The tables of a month in which the shares are found."""

    tables: tuple[LabelledTable, ...]  # All tables, that of the cells included if it is published
    ratios: FloatArray  # Sensitivities of the tables, in units of the first one
    shared: FloatArray  # S = G·Gᵀ: cells that two labels of tables of sums have in common
    table_of: Any  # Number of the table of every label
    terms: list[BoolArray]  # Labels over whose variances one term of the sum is the mean
    _known: dict[bytes, _Solved] = field(default_factory=dict, repr=False)
    _bases: dict[bytes, FloatArray] = field(default_factory=dict, repr=False)

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
        """Return the best shares of the active tables.

        The problem is convex. The mean variance of a cell falls with its weight in the sum that is
        minimised, so that false position finds the weight that keeps the error of an hour.
        """
        limit = 2 * math.log(hourly_cost * self.ratios[0])
        shares = self._least(active / active.sum(), 0.0)
        low, high, below = 0.0, 0.0, 0.0
        above = self.log_cell(shares) - limit if self.has_cells and active[0] else 0.0
        for _ in range(MOST_STEPS if above > EXACT_SHARES else 0):
            weight = 4 * high + 1 if not below else (low * below - high * above) / (below - above)
            shares = self._least(shares, weight)
            excess = self.log_cell(shares) - limit
            if abs(excess) < EXACT_SHARES:
                break
            if excess > 0:
                # The method of Illinois: an end that stays counts half.
                low, above, below = weight, excess, below / 2
                high = max(high, low)
            else:
                high, below, above = weight, excess, above / 2
        return shares

    def _least(self, shares: FloatArray, weight: float) -> FloatArray:
        """Minimise `log_terms` plus `weight` times `log_cell` by Newton's method, from `shares`.

        Both are −ln of the sum of the shares plus a function of their ratios. With the sum of the
        shares as another term, which is one at the minimum, they need not be normalised.
        """
        used = np.flatnonzero(shares)
        if used.size == 1:
            return shares
        shares = np.where(shares > 0, np.maximum(shares, FEWEST_SHARES), 0.0)
        pull = weight - float(self.slopes(shares)[0].sum())

        def height(at: FloatArray) -> float:
            cells = weight * self.log_cell(at) if weight else 0.0
            return self.log_terms(at) + cells + pull * float(at.sum())

        for _ in range(MOST_STEPS):
            aim, cost = self.slopes(shares)
            total = aim + weight * cost
            slope = total + pull * shares
            free = used[(shares[used] > FEWEST_SHARES) | (slope[used] < 0)]
            bends = self._bends(shares, free, weight, total)
            step = -np.linalg.solve(bends, slope[free])
            size = float(np.abs(step).max())
            step, start = step / max(1.0, size), height(shares)
            before = shares
            for _ in range(MOST_STEPS):
                shares = before.copy()
                shares[free] = np.maximum(before[free] * np.exp(step), FEWEST_SHARES)
                if height(shares) <= start + FLAT:
                    break
                step /= 2
            if size < EXACT_SHARES:
                break
        return np.asarray(shares / shares.sum())

    def _bends(
        self, shares: FloatArray, free: IntArray, weight: float, at: FloatArray
    ) -> FloatArray:
        """Second derivatives of the sum of both logarithms, times both shares."""
        found = -np.diag(at[free])
        for column, place in enumerate(free):
            moved = shares.copy()
            moved[place] *= 1 + RELATIVE_STEP
            aim, cost = self.slopes(moved)
            found[:, column] += (aim + weight * cost - at)[free] / RELATIVE_STEP
        return np.asarray((found + found.T) / 2)

    def slopes(self, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Derivatives of `log_terms` and `log_cell`, times the shares.

        With the covariances C of the labels, the derivative of C_ll by the share a_j is
        −Σ_m C_ml²/(V_m·a_j) over the labels m of table j. All variances fall as 1/a if all shares
        grow as a: that gives the derivatives by the share of the cells.
        """
        solved = self._solved(shares)
        parts = np.zeros((shares.size, solved.covariances.shape[1]))
        np.add.at(parts, self.table_of[solved.rows], solved.covariances**2 / solved.own[:, None])
        aim, cost = np.zeros(shares.size), np.zeros(shares.size)
        for term in self._finite_terms(solved):
            own = term if self.has_cells else term[solved.rows]
            aim -= parts[:, own].sum(axis=1) / solved.variances[term].sum()
        if self.has_cells:
            # The squares of what each published sum tells about the cells.
            told = (solved.variances - parts.sum(axis=0))[solved.rows] / solved.own
            weight = self.ratios[0] ** 2 / shares[0] / (self.tables[0].labels.size * solved.cell)
            np.subtract.at(cost, self.table_of[solved.rows], weight * told)
            aim[0] = -len(self.terms) - aim[1:].sum()
            cost[0] = -1 - cost[1:].sum()
        return aim, cost

    def log_terms(self, shares: FloatArray) -> float:
        """Σ ln Var of what the tables are for, those without a share included."""
        solved = self._solved(shares)
        means = [solved.variances[term].mean() for term in self._finite_terms(solved)]
        return float(np.log(np.maximum(means, 1e-300)).sum())

    def log_cell(self, shares: FloatArray) -> float:
        """Logarithm of the mean variance of a cell, in units of s₁²/2ρ."""
        return math.log(self._solved(shares).cell)

    def _finite_terms(self, solved: _Solved) -> list[BoolArray]:
        """Labels of every term; what only unpublished sums determine does not count."""
        known = (term & (solved.variances < math.inf) for term in self.terms)
        return [term for term in known if term.any()]

    def _solved(self, shares: FloatArray) -> _Solved:
        """The variances with these shares; the search asks for the last ones again."""
        key = shares.tobytes()
        if key not in self._known:
            self._known.clear()
            self._known[key] = self._invert(shares)
        return self._known[key]

    def _invert(self, shares: FloatArray) -> _Solved:
        with np.errstate(divide="ignore"):
            variances = self.ratios**2 / shares
        rows: BoolArray = (shares > 0)[self.table_of]
        found, own = np.full(rows.size, math.inf), variances[self.table_of[rows]]
        if not self.has_cells:
            basis = self._basis(rows)
            covariances = basis @ np.linalg.solve(basis.T @ (basis / own[:, None]), basis.T)
            found[rows] = np.diag(covariances)
            return _Solved(found, math.inf, rows, own, covariances)
        cell = float(variances[0])
        inverse = np.linalg.inv(self.shared[np.ix_(rows, rows)] + np.diag(own / cell))
        covariances = own[:, None] * (inverse @ self.shared[rows])
        found[rows] = np.diag(covariances[:, rows])
        if not rows.all():
            beside = self.shared[np.ix_(rows, ~rows)]
            explained = (beside * (inverse @ beside)).sum(axis=0)
            found[~rows] = cell * (np.diag(self.shared)[~rows] - explained)
        known = rows.sum() - float((own / cell * np.diag(inverse)).sum())
        mean = cell * (1 - known / self.tables[0].labels.size)
        return _Solved(found, mean, rows, own, covariances)

    def _basis(self, rows: BoolArray) -> FloatArray:
        """Orthonormal basis of the values that the sums of these labels can have together."""
        key = rows.tobytes()
        if key not in self._bases:
            values, vectors = np.linalg.eigh(self.shared[np.ix_(rows, rows)])
            self._bases[key] = vectors[:, values > DEPENDENT * values[-1]]
        return self._bases[key]
