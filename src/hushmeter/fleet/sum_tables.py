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

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.checks import FloatArray
from hushmeter.fleet.sum_terms import EVERY_S, SumTerms, build_mechanism
from hushmeter.trace import JOULES_PER_KWH

if TYPE_CHECKING:
    import pandas as pd

    from hushmeter.fleet.sums import ExactSums
    from hushmeter.noise.mechanism import Mechanism

CONFIDENCE = 0.95
"""Probability of the intervals of peaks and quantiles."""

_SIGMAS = 1.959963984540054
"""Half the width of the interval of a quantile [standard errors]."""

Group = tuple[str, ...]


def make_tables(
    total: ExactSums, terms: SumTerms, interval_s: int, keys: Mapping[str, bytes]
) -> dict[str, pd.DataFrame]:
    """Draw the noise of all tables and make them.

    Parameters
    ----------
    total : ExactSums
        Exact sums of the finest groups.
    terms : SumTerms
        The promise.
    interval_s : int
        Length of a reading [s].
    keys : mapping
        Key of the noise of every table.

    Returns
    -------
    dict of DataFrame
        `sums` and `peaks`, `shape`, and `quantiles`, as far as the terms ask for them.
    """
    groups = _Groups.of(total, terms)
    tables: dict[str, pd.DataFrame] = {}
    if "sums" in terms.tables:
        noise = build_mechanism(terms, "sums", interval_s)
        moments, noisy, readings = _release_sums(total.sums, groups, terms, noise, keys["sums"])
        tables["sums"] = _sums_table(groups, terms, noise, moments, noisy, readings, interval_s)
        tables["peaks"] = _peaks_table(groups, terms, noise, moments, noisy, interval_s)
    if "shape" in terms.tables:
        noise = build_mechanism(terms, "shape", interval_s)
        hours, noisy, readings = _release_sums(total.shape, groups, terms, noise, keys["shape"])
        tables["shape"] = _shape_table(groups, noise, hours, noisy, readings)
    if "quantiles" in terms.tables:
        noise = build_mechanism(terms, "quantiles", interval_s)
        tables["quantiles"] = _quantiles_table(total, groups, terms, noise, keys["quantiles"])
    return tables


@dataclass(frozen=True)
class _Groups:
    """All groups of all levels.

    Attributes
    ----------
    leaves : list of Group
        The finest groups.
    all : list of Group
        All groups, the coarsest level first.
    incidence : array
        1 where a group (row) contains a finest group (column).
    meters : list of int
        Number of meters of every group.
    published : list of int
        Places of the groups that have enough meters.
    by : tuple of str
        Names of the levels.
    """

    leaves: list[Group]
    all: list[Group]
    incidence: FloatArray
    meters: list[int]
    published: list[int]
    by: tuple[str, ...]

    @classmethod
    def of(cls, total: ExactSums, terms: SumTerms) -> _Groups:
        """Find all groups of the exact sums."""
        leaves = sorted(total.members)
        groups = [
            group
            for level in range(1, len(terms.by) + 1)
            for group in dict.fromkeys(leaf[:level] for leaf in leaves)
        ]
        members: dict[Group, set[str]] = {group: set() for group in groups}
        for leaf, meters in total.members.items():
            for level in range(1, len(leaf) + 1):
                members[leaf[:level]] |= meters
        incidence = np.array([[leaf[: len(g)] == g for leaf in leaves] for g in groups], np.float64)
        counts = [len(members[group]) for group in groups]
        published = [i for i, count in enumerate(counts) if count >= terms.min_meters]
        return cls(leaves, groups, incidence, counts, published, terms.by)

    def columns(self, place: int, rows: int) -> dict[str, list[Any]]:
        """Return the columns that name a group, for a number of rows."""
        group = self.all[place]
        return {
            "level": [self.by[len(group) - 1]] * rows,
            "group": ["/".join(group)] * rows,
            "meters": [self.meters[place]] * rows,
        }

    def join(self, noisy: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return least-squares estimates of all groups, and their errors in units of the noise."""
        a = self.incidence
        inverse = np.linalg.inv(a.T @ a)
        spread: FloatArray = np.sqrt(np.einsum("ij,jk,ik->i", a, inverse, a))
        estimate: FloatArray = a @ (inverse @ (a.T @ noisy))
        return estimate, spread


def _release_sums(
    cells: dict[tuple[Group, int], list[int]],
    groups: _Groups,
    terms: SumTerms,
    noise: Mechanism,
    key: bytes,
) -> tuple[list[int], FloatArray, FloatArray]:
    """Return the columns of a table, its noisy sums [W] and its numbers of readings."""
    columns = sorted({column for _, column in cells})
    row, place = ({name: i for i, name in enumerate(names)} for names in (groups.leaves, columns))
    exact, counts = np.zeros((2, len(groups.leaves), len(columns)))
    for (leaf, column), (total, count) in cells.items():
        exact[row[leaf], place[column]], counts[row[leaf], place[column]] = total, count
    truth = (groups.incidence @ exact) * float(terms.step)
    noisy = noise.release(truth.reshape(-1), key=key).reshape(truth.shape)
    return columns, noisy, groups.incidence @ counts


def _error(noise: Mechanism) -> float:
    """Return the standard error of a noisy number, with that of a grid that was made coarser."""
    return math.hypot(noise.std, noise.coarsened * noise.grid / math.sqrt(12))


def _frame(parts: Sequence[dict[str, Any]], order: Sequence[str]) -> pd.DataFrame:
    """Join the rows of all groups to a table."""
    import pandas as pd

    if not parts:
        return pd.DataFrame(columns=list(order))
    return pd.DataFrame(
        {name: np.concatenate([np.asarray(part[name]) for part in parts]) for name in order}
    )


def _sums_table(
    groups: _Groups,
    terms: SumTerms,
    noise: Mechanism,
    moments: list[int],
    noisy: FloatArray,
    readings: FloatArray,
    interval_s: int,
) -> pd.DataFrame:
    """Make the table of sums."""
    import pandas as pd

    estimate, spread = groups.join(noisy)
    error, kwh, size = _error(noise), interval_s / JOULES_PER_KWH, len(moments)
    starts = np.array(moments, np.int64) * EVERY_S[terms.every]
    parts = []
    for i in groups.published:
        with np.errstate(divide="ignore", invalid="ignore"):
            parts.append(groups.columns(i, size) | {
                "start": starts,
                "readings": readings[i].astype(np.int64),
                "energy_kwh": noisy[i] * kwh,
                "energy_se_kwh": np.full(size, error * kwh),
                "mean_w": noisy[i] / readings[i],
                "mean_se_w": error / readings[i],
                "estimate_kwh": estimate[i] * kwh,
                "estimate_se_kwh": np.full(size, error * spread[i] * kwh),
            })  # fmt: skip
    order = ["level", "group", "start", "meters", "readings", "energy_kwh", "energy_se_kwh",
             "mean_w", "mean_se_w"]  # fmt: skip
    if len(groups.by) > 1:
        order += ["estimate_kwh", "estimate_se_kwh"]
    table = _frame(parts, order)
    table["start"] = pd.to_datetime(table["start"], unit="s", utc=True)
    return table


def _peaks_table(
    groups: _Groups,
    terms: SumTerms,
    noise: Mechanism,
    moments: list[int],
    noisy: FloatArray,
    interval_s: int,
) -> pd.DataFrame:
    """Make the table of the largest load of every group."""
    import pandas as pd

    margin = noise.quantile(1 - (1 - CONFIDENCE) / len(moments)) + noise.coarsened * noise.grid / 2
    # A sum over readings becomes the mean load of the group in the bin.
    kw = interval_s / EVERY_S[terms.every] / 1000
    parts = []
    for i in groups.published:
        largest = int(np.argmax(noisy[i]))
        peak = noisy[i, largest]
        parts.append(groups.columns(i, 1) | {
            "start": [moments[largest] * EVERY_S[terms.every]],
            "peak_kw": [peak * kw],
            "peak_low_kw": [(peak - margin) * kw],
            "peak_high_kw": [(peak + margin) * kw],
        })  # fmt: skip
    order = ["level", "group", "meters", "start", "peak_kw", "peak_low_kw", "peak_high_kw"]
    table = _frame(parts, order)
    table["start"] = pd.to_datetime(table["start"], unit="s", utc=True)
    return table


def _shape_table(
    groups: _Groups,
    noise: Mechanism,
    hours: list[int],
    noisy: FloatArray,
    readings: FloatArray,
) -> pd.DataFrame:
    """Make the table of mean loads by hour of the day."""
    estimate, spread = groups.join(noisy)
    error, parts = _error(noise), []
    for i in groups.published:
        with np.errstate(divide="ignore", invalid="ignore"):
            parts.append(groups.columns(i, len(hours)) | {
                "hour": np.array(hours, np.int64),
                "readings": readings[i].astype(np.int64),
                "mean_w": noisy[i] / readings[i],
                "mean_se_w": error / readings[i],
                "estimate_w": estimate[i] / readings[i],
                "estimate_se_w": error * spread[i] / readings[i],
            })  # fmt: skip
    order = ["level", "group", "hour", "meters", "readings", "mean_w", "mean_se_w"]
    return _frame(parts, order + ["estimate_w", "estimate_se_w"] * (len(groups.by) > 1))


def _quantiles_table(
    total: ExactSums, groups: _Groups, terms: SumTerms, noise: Mechanism, key: bytes
) -> pd.DataFrame:
    """Make the table of quantiles of the hourly means of single meters."""
    edges = np.array(terms.class_edges) * float(terms.step)
    hours = sorted({hour for _, hour in total.counts})
    row, place = ({name: i for i, name in enumerate(names)} for names in (groups.leaves, hours))
    exact = np.zeros((len(groups.leaves), len(hours), len(edges) - 1))
    for (leaf, hour), counts in total.counts.items():
        exact[row[leaf], place[hour]] = counts
    truth = np.tensordot(groups.incidence, exact, 1)
    noisy = noise.release(truth.reshape(-1), key=key).reshape(truth.shape)
    values = truth.sum(axis=2)
    error, parts = _error(noise), []
    for i in groups.published:
        for j, hour in enumerate(hours):
            if not values[i, j]:
                continue
            rows = [
                find_quantile(noisy[i, j], int(values[i, j]), edges, error, q)
                for q in terms.quantiles
            ]
            estimates, low, high = zip(*rows, strict=True)
            size = len(rows)
            parts.append(groups.columns(i, size) | {
                "hour": np.full(size, hour, np.int64),
                "values": np.full(size, values[i, j], np.int64),
                "quantile": np.array(terms.quantiles),
                "value_w": np.array(estimates),
                "low_w": np.array(low),
                "high_w": np.array(high),
            })  # fmt: skip
    order = ["level", "group", "hour", "meters", "values", "quantile", "value_w", "low_w", "high_w"]
    return _frame(parts, order)


def find_quantile(
    noisy: FloatArray, total: int, edges: FloatArray, error: float, quantile: float
) -> tuple[float, float, float]:
    """Estimate a quantile from noisy counts.

    Parameters
    ----------
    noisy : array, shape (B,)
        Noisy number of values in every class.
    total : int
        Exact number of all values, which is public.
    edges : array, shape (B + 1,)
        Edges of the classes [W].
    error : float
        Standard error of a noisy number.
    quantile : float
        Which quantile, in (0, 1).

    Returns
    -------
    value : float
        The estimate, interpolated within its class [W].
    low, high : float
        Edges between which the quantile lies with 95 % confidence [W].
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
    """Return the rising sequence with the smallest sum of squared differences.

    Parameters
    ----------
    values : array
        Any numbers.

    Returns
    -------
    array
    """
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
