"""The published tables of a release of sums: exact numbers in, noisy numbers with errors out.

Every number gets one exact discrete noise. What follows costs no further privacy:

- Sums of nested groups are joined by generalised least squares [1]_: with the incidence matrix A of
  all groups and finest groups, and equal variances, x = (AᵀA)⁻¹Aᵀy, and the estimates are A·x.
- The peak of a group lies within ± z of its largest noisy sum, where z bounds the noise of all K
  bins together: P(|noise| > z) ≤ 0.05/K.
- Quantiles come from noisy counts of B classes of a public grid. The total n is public, so the
  cumulative counts are corrected to c_j − (j/B)·(c_B − n), with the standard error
  σ·√(j·(B − j)/B), and made monotone by isotonic regression. The published interval consists of
  all classes in which the quantile may lie with 95 % confidence; it includes the width of a class.

References
----------
.. [1] M. Hay, V. Rastogi, G. Miklau, D. Suciu, "Boosting the accuracy of differentially private
   histograms through consistency", Proc. VLDB Endow. 3, 2010.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from hushmeter.checks import FloatArray, IntArray
from hushmeter.fleet.sum_terms import EVERY_S, SumTerms
from hushmeter.trace import JOULES_PER_KWH

if TYPE_CHECKING:
    import pandas as pd

    from hushmeter.fleet.sums import ExactSums, Group

CONFIDENCE = 0.95
"""Probability of the intervals of peaks and quantiles."""

_SIGMAS = 1.959963984540054
"""Half the width of the interval of a quantile [standard errors]."""


def make_tables(
    total: ExactSums, terms: SumTerms, keys: Mapping[str, bytes]
) -> dict[str, pd.DataFrame]:
    """Draw the noise of all tables with their keys and make them.

    The tables are `sums` and `peaks`, `shape`, and `quantiles`, as far as the terms ask for them.
    """
    groups = _Groups.of(total, terms)
    tables: dict[str, pd.DataFrame] = {}
    for name in terms.tables:
        made = _Noisy.draw(name, total, groups, terms, keys[name])
        if name == "sums":
            tables |= {"sums": _sums_table(groups, terms, made)}
            tables |= {"peaks": _peaks_table(groups, terms, made)}
        else:
            make = _shape_table if name == "shape" else _quantiles_table
            tables[name] = make(groups, terms, made)
    return {
        name: table[table["meters"] >= terms.min_meters].reset_index(drop=True)
        for name, table in tables.items()
    }


@dataclass(frozen=True)
class _Groups:
    """All groups of all levels, the coarsest level first."""

    leaves: list[Group]  # The finest groups
    incidence: FloatArray  # 1 where a group (row) contains a finest group (column)
    columns: dict[str, list[Any]]  # Level, name and number of meters of every group

    @classmethod
    def of(cls, total: ExactSums, terms: SumTerms) -> _Groups:
        """Find all groups of the exact sums."""
        leaves = sorted(total.members)
        groups = [
            group
            for level in range(1, len(terms.by) + 1)
            for group in dict.fromkeys(leaf[:level] for leaf in leaves)
        ]
        inside = [[leaf for leaf in leaves if leaf[: len(g)] == g] for g in groups]
        columns: dict[str, list[Any]] = {
            "level": [terms.by[len(group) - 1] for group in groups],
            "group": ["/".join(group) for group in groups],
            "meters": [len(set().union(*(total.members[leaf] for leaf in ls))) for ls in inside],
        }
        return cls(leaves, np.array([[x in ls for x in leaves] for ls in inside], float), columns)

    def table(self, name: str, places: Any, **more: Any) -> pd.DataFrame:
        """Return a table with a row for every group and every place in a named column."""
        import pandas as pd

        size, count = len(self.columns["group"]), len(places)
        named = {key: np.repeat(column, count) for key, column in self.columns.items()}
        filled = {key: np.broadcast_to(x, (size, count)).ravel() for key, x in more.items()}
        order = {"level": named["level"], "group": named["group"], name: np.tile(places, size)}
        return pd.DataFrame({**order, "meters": named["meters"], **filled})

    def join(self, noisy: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return least-squares estimates of all groups, and their errors in units of the noise."""
        a = self.incidence
        inverse = np.linalg.inv(a.T @ a)
        spread: FloatArray = np.sqrt(np.einsum("ij,jk,ik->i", a, inverse, a))
        estimate: FloatArray = a @ (inverse @ (a.T @ noisy))
        return estimate, spread[:, None]


@dataclass(frozen=True)
class _Noisy:
    """The columns of a table, its noisy numbers [W, or counts], and exact public numbers.

    The public numbers are those of the readings of a sum, or of the values that were counted; the
    error is the standard error of a noisy number.
    """

    columns: list[int]
    noisy: FloatArray
    readings: FloatArray
    error: float

    @classmethod
    def draw(
        cls, name: str, total: ExactSums, groups: _Groups, terms: SumTerms, key: bytes
    ) -> Self:
        """Add noise to the exact numbers of all groups."""
        cells, noise = total.tables[name], terms.promise.noise(name)
        columns = sorted({column for _, column in cells})
        row, place = ({n: i for i, n in enumerate(names)} for names in (groups.leaves, columns))
        exact = np.zeros((len(groups.leaves), len(columns), len(next(iter(cells.values())))))
        for (leaf, column), numbers in cells.items():
            exact[row[leaf], place[column]] = numbers
        found = np.tensordot(groups.incidence, exact, 1)
        counted = name == "quantiles"
        truth = found if counted else found[:, :, 0] * float(terms.step)
        noisy = noise.release(truth.reshape(-1), key=key).reshape(truth.shape)
        readings = found.sum(axis=2) if counted else found[:, :, 1]
        return cls(columns, noisy, readings, terms.promise.error(name))

    @property
    def means(self) -> dict[str, FloatArray]:
        """The mean of a reading and its standard error [W]."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return {"mean_w": self.noisy / self.readings, "mean_se_w": self.error / self.readings}


def _sums_table(groups: _Groups, terms: SumTerms, made: _Noisy) -> pd.DataFrame:
    """Make the table of sums."""
    kwh = terms.interval_s / JOULES_PER_KWH
    estimate, spread = groups.join(made.noisy)
    joined = {"estimate_kwh": estimate * kwh, "estimate_se_kwh": made.error * spread * kwh}
    return groups.table(
        "start",
        _starts(made.columns, terms),
        readings=made.readings.astype(np.int64),
        energy_kwh=made.noisy * kwh,
        energy_se_kwh=made.error * kwh,
        **made.means,
        **(joined if len(terms.by) > 1 else {}),
    )


def _starts(bins: Sequence[int] | IntArray, terms: SumTerms) -> pd.DatetimeIndex:
    """Return when bins start, UTC."""
    import pandas as pd

    return pd.to_datetime(np.array(bins) * EVERY_S[terms.every], unit="s", utc=True)


def _peaks_table(groups: _Groups, terms: SumTerms, made: _Noisy) -> pd.DataFrame:
    """Make the table of the largest load of every group."""
    noise, bins = terms.promise.noise("sums"), len(made.columns)
    margin = noise.quantile(1 - (1 - CONFIDENCE) / bins) + noise.coarsened * noise.grid / 2
    # A sum over readings becomes the mean load of the group in the bin.
    kw = terms.interval_s / EVERY_S[terms.every] / 1000
    peak = made.noisy.max(axis=1, keepdims=True)
    low, high = (peak - margin) * kw, (peak + margin) * kw
    table = groups.table("start", [0], peak_kw=peak * kw, peak_low_kw=low, peak_high_kw=high)
    return table.assign(start=_starts(np.array(made.columns)[made.noisy.argmax(axis=1)], terms))


def _shape_table(groups: _Groups, terms: SumTerms, made: _Noisy) -> pd.DataFrame:
    """Make the table of mean loads by hour of the day."""
    estimate, spread = groups.join(made.noisy)
    with np.errstate(divide="ignore", invalid="ignore"):
        joined = {
            "estimate_w": estimate / made.readings,
            "estimate_se_w": made.error * spread / made.readings,
        }
    return groups.table(
        "hour",
        made.columns,
        readings=made.readings.astype(np.int64),
        **made.means,
        **(joined if len(terms.by) > 1 else {}),
    )


def _quantiles_table(groups: _Groups, terms: SumTerms, made: _Noisy) -> pd.DataFrame:
    """Make the table of quantiles of the hourly means of single meters."""
    edges, per_hour = np.array(terms.class_edges) * float(terms.step), len(terms.quantiles)
    lines = [
        find_quantile(noisy, int(total), edges, made.error, q)
        for noisy, total in zip(
            made.noisy.reshape(-1, edges.size - 1), made.readings.ravel(), strict=True
        )
        for q in terms.quantiles
    ]
    value, low, high = np.array(lines).T.reshape(3, len(groups.incidence), -1)
    table = groups.table(
        "hour",
        np.repeat(made.columns, per_hour),
        values=np.repeat(made.readings, per_hour, axis=1).astype(np.int64),
        quantile=np.tile(terms.quantiles, len(made.columns)),
        value_w=value,
        low_w=low,
        high_w=high,
    )
    return table[table["values"] > 0]


def find_quantile(
    noisy: FloatArray, total: int, edges: FloatArray, error: float, quantile: float
) -> tuple[float, float, float]:
    """Estimate a quantile from noisy counts of classes, whose exact total is public.

    Return the estimate, interpolated within its class, and edges between which the quantile lies
    with 95 % confidence [W].
    """
    classes = noisy.size
    places = np.arange(classes + 1)
    below = np.concatenate([[0.0], np.cumsum(noisy)])
    below -= places / classes * (below[-1] - total)
    spread = _SIGMAS * error * np.sqrt(places * (classes - places) / classes)
    wanted = quantile * total
    monotone = np.clip(isotonic(below), 0, total)
    # Equal neighbours have no slope, and the first of them is the quantile.
    first = max(1, int(np.argmax(monotone >= wanted)))
    left, right = monotone[first - 1], monotone[first]
    share = 1.0 if right <= left else (wanted - left) / (right - left)
    value = edges[first - 1] + share * (edges[first] - edges[first - 1])
    surely_below = below + spread < wanted
    surely_above = below - spread >= wanted
    low = int(np.flatnonzero(surely_below).max(initial=0))
    high = int(np.flatnonzero(surely_above).min(initial=classes))
    return float(value), float(min(edges[low], value)), float(max(edges[high], value))


def isotonic(values: FloatArray) -> FloatArray:
    """Return the rising sequence with the smallest sum of squared differences."""
    means: list[float] = []
    sizes: list[int] = []
    for value in values.tolist():
        means.append(value)
        sizes.append(1)
        while len(means) > 1 and means[-2] > means[-1]:
            mean, size = means.pop(), sizes.pop()
            means[-1] = (means[-1] * sizes[-1] + mean * size) / (sizes[-1] + size)
            sizes[-1] += size
    return np.repeat(means, sizes)
