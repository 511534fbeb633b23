r"""How several tables share one privacy budget.

*Privacy.* Discrete Gaussian noise of σ on sums that a change moves by the Euclidean length s is
ρ-concentrated differentially private with ρ = s²/2σ², and the ρ of independent tables add up [1]_:
ρ = ½·Σ_j s_j²/σ_j². The shares a_j = s_j²/(σ_j²·2ρ) divide the budget among the tables.

*Shares.* The sum of the logarithms of the variances of what the tables are for is minimised: one
term for each table of sums (the mean over its labels), and one for each named band. The error of an
hour stays below `hourly_cost` times its error in a release of the cells alone. With S = G·Gᵀ and
D = V/v₀ as in `hushmeter.releases.estimate`, K = D + S gives

    Var(label l) = v₀·(D − D·K⁻¹·D)_ll,     mean Var(cell) = v₀·(1 − (r − Σ_l D_ll·(K⁻¹)_ll)/n)

for r labels and n cells, so that the diagonal of K⁻¹ suffices. The shares are found for a month of
30 days of hours (or of longer cells) without a gap, whatever the readings are, so that every file
and every stream with the same tables and the same change gets the same noise.

References
----------
.. [1] C. Canonne, G. Kamath, T. Steinke, "The discrete Gaussian for differential privacy", 2020.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, positive
from hushmeter.errors import InputError
from hushmeter.privacy.tables import sensitivity
from hushmeter.releases.estimate import UNKNOWN
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

SMALLEST_SHARE = 0.01
"""A table whose best share is smaller is not published."""


def lengths_of(
    tables: Sequence[LabelledTable], changes: Sequence[Change], grid: Fraction
) -> FloatArray:
    """Largest change of the sums of every table, as Euclidean length [grid steps]."""
    # The longest change comes first: the patterns of its windows serve the others.
    ordered = sorted(changes, key=lambda change: -change.own_touches)
    return np.array([max(sensitivity(t, c, grid) for c in ordered) for t in tables])


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
            return _rounded(model.divided_equally(shares))
        # The least useful table goes first; the others share its part.
        active[np.argmin(np.where(active, shares, math.inf))] = False


def _rounded(shares: FloatArray) -> FloatArray:
    """Round shares, so that the last bits of linear algebra on another machine do not matter."""
    found = np.round(shares, 7)
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
        cells = self.tables[places[0]].name == CELLS

        def shares_of(logs: FloatArray) -> FloatArray:
            shares = np.zeros(active.size)
            weights = np.exp(logs - logs.max())
            shares[places] = weights / weights.sum()
            return shares

        limit = 2 * math.log(hourly_cost * self.ratios[0])
        within = {"type": "ineq", "fun": lambda logs: limit - self.log_cell(shares_of(logs))}
        start = np.full(places.size, math.log(0.2 / max(1, places.size - 1)))
        start[0] = math.log(0.8) if cells else start[0]
        found: Any = minimize(  # type: ignore[call-overload]
            lambda logs: self.log_terms(shares_of(logs)),
            start,
            bounds=[(-9.0, 9.0)] * places.size,
            constraints=[within] if cells else [],
            method="SLSQP",
            options={"ftol": 1e-11, "maxiter": 300},
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
        cells = self.tables[0].name == CELLS
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
