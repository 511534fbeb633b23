"""Clusters of days that were released, and what each kind of release does to clusters (Appendix A).

`cluster_released` serves a recipient who has only the released days and their standard errors: how
sure is the cluster of a day, and how exact are the centres? `compare_releases` serves a researcher
who has the true days: how many of them stay in their cluster if the same run is hidden with
independent noise on the hours, with a calendar release, and with the restored values of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hushmeter.behaviour.stability import (
    Reclustering,
    checked_tariff,
    cluster_again,
    cluster_profiles,
    recluster,
    serving_costs,
)
from hushmeter.checks import FloatArray, whole
from hushmeter.home import Appliance
from hushmeter.learn.kmedians import KMedians
from hushmeter.privacy.meters import metered
from hushmeter.releases.request import Request
from hushmeter.releases.restore import read_estimates, restore
from hushmeter.trace import SECONDS_PER_HOUR, Trace

if TYPE_CHECKING:
    from hushmeter.behaviour.profiles import Profiles

KINDS = ("hours", "hours, restored", "calendar", "calendar, restored")
"""The releases that `compare_releases` compares."""

FIRST_DAY = "2023-01-01T00:00Z"
"""Day from which the days of a home are counted; only the lengths of the months depend on it."""


@dataclass(frozen=True, eq=False)
class ReleasedDays:
    """Days of released homes."""

    # Energy of every hour and its standard error. [kWh]
    values: FloatArray
    errors: FloatArray
    # The home and the date of each day
    ids: NDArray[np.str_]
    days: NDArray[np.str_]


def read_released_days(path: str | Path) -> ReleasedDays:
    """Read the complete days of calendar releases or restored files."""
    parts = [(estimate.name, *estimate.days()) for estimate in read_estimates(path)]
    return ReleasedDays(
        np.concatenate([values for _, values, _, _ in parts]),
        np.concatenate([errors for _, _, errors, _ in parts]),
        np.concatenate([np.full(days.size, name) for name, _, _, days in parts]),
        np.concatenate([days.astype(str) for _, _, _, days in parts]),
    )


@dataclass(frozen=True, eq=False)
class ReleasedClusters:
    """Clusters of released days, with the errors that the noise causes."""

    model: KMedians  # The clusters of the released days
    # Number of days of each cluster, and its standard error
    counts: NDArray[np.int64]
    count_errors: FloatArray
    centre_errors: FloatArray  # Standard errors of the centres. [kWh]
    # Probability that the true day belongs to the cluster of the released day
    certainty: FloatArray
    # Marginal cost of every cluster and its standard error. [money/kWh]
    costs: FloatArray | None
    cost_errors: FloatArray | None

    @property
    def centres(self) -> FloatArray:
        """Centres of the clusters, shape (k, 24). [kWh]"""
        centres: FloatArray = self.model.cluster_centers_
        return centres


def cluster_released(
    days: ReleasedDays,
    *,
    k: int = 30,
    repeats: int = 100,
    seed: int = 0,
    tariff: ArrayLike | None = None,
) -> ReleasedClusters:
    """Cluster released days and propagate their standard errors.

    Notes
    -----
    Normal errors with the stated standard errors are added to the days again and again. The
    certainty of a day is the share of the draws in which it keeps its cluster; the errors of
    counts, centres and costs are standard deviations over the draws, in each of which the days are
    clustered anew from the same centres. The errors of two hours are taken as independent.
    """
    prices = None if tariff is None else checked_tariff(tariff, days.values.shape[1])
    model = cluster_profiles(days.values, k, seed=seed)
    rng = np.random.default_rng(seed)
    stayed, counts, centres, costs = np.zeros(len(days.values)), [], [], []
    for _ in range(whole("repeats", repeats, least=2)):
        drawn = days.values + days.errors * rng.standard_normal(days.values.shape)
        stayed += model.predict(drawn) == model.labels_
        again = cluster_again(model, drawn)
        counts.append(np.bincount(again.labels_, minlength=k))
        centres.append(again.cluster_centers_)
        if prices is not None:
            costs.append(serving_costs(again.cluster_centers_, prices))
    return ReleasedClusters(
        model,
        np.bincount(model.labels_, minlength=k),
        np.std(counts, axis=0, ddof=1),
        np.std(centres, axis=0, ddof=1),
        stayed / repeats,
        None if prices is None else serving_costs(model.cluster_centers_, prices),
        None if prices is None else np.std(costs, axis=0, ddof=1),
    )


def released_columns(result: ReleasedClusters, days: ReleasedDays) -> dict[str, Any]:
    """Return a table with one row for each day: its cluster and how sure it is."""
    return {
        "id": days.ids,
        "day": days.days,
        "cluster": result.model.labels_ + 1,
        "certainty": result.certainty,
    }


@dataclass(frozen=True)
class ReleaseComparison:
    """What one kind of release does to the clusters of the true days."""

    kind: str  # One of `KINDS`
    error_kwh: float  # Mean absolute error of a released hour. [kWh]
    stay: float  # Share of the days that stay in the cluster of the true day
    # The clusters of the released days, compared with those of the true days
    reclustering: Reclustering


def compare_releases(
    profiles: Profiles,
    *,
    watts: float = 2100.0,
    run_s: float = 180.0,
    odds: float = 0.6,
    k: int = 30,
    seed: int = 0,
) -> tuple[ReleaseComparison, ...]:
    """Measure what four kinds of releases with the same promise do to the clusters of days.

    Units: `profiles` [kWh]; `watts` [W].
    """
    hidden = Appliance("appliance", watts, run_s=run_s)
    wish = Request(hide=hidden, odds=odds, every=SECONDS_PER_HOUR, mechanism="gaussian")
    model = cluster_profiles(profiles.values, k, seed=seed)
    released = {kind: np.empty_like(profiles.values) for kind in KINDS}
    for number, name in enumerate(np.unique(profiles.ids)):
        rows = profiles.ids == name
        load = Trace(1000 * profiles.values[rows].ravel(), SECONDS_PER_HOUR, FIRST_DAY)
        for kind, hours in _release_home(load, wish, seed + number).items():
            released[kind][rows] = hours.reshape(-1, profiles.values.shape[1]) / 1000
    return tuple(
        ReleaseComparison(
            kind,
            float(np.abs(days - profiles.values).mean()),
            float((model.predict(days) == model.labels_).mean()),
            recluster(model, days, None),
        )
        for kind, days in released.items()
    )


def _release_home(load: Trace, wish: Request, seed: int) -> dict[str, FloatArray]:
    """The released hours of one home for each kind of release [W]."""
    facts = metered(load)
    found = []
    for request in (wish, wish.with_changes(tables=("views",))):
        done = request.resolve(facts).release(load, rng=seed)
        found += [done.estimate, restore(done).trace.readings]
    return dict(zip(KINDS, found, strict=True))
