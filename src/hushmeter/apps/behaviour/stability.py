"""How noise changes the clusters of daily profiles (Appendix A, Fig. 8).

Noise is added to every hourly value of a profile by a mechanism of `hushmeter.noise`. ε protects a
change of Δ kWh within one day, in whatever way the change is spread over the hours; the scale of
the noise is λ = Δ/ε, up to the rounding of the grid. A profile stays in its cluster if its nearest
centre is the same after the noise; the centres are those of the profiles without noise. The
stability of a cluster is the share of its profiles that stay. A utility that clusters the noisy
profiles again keeps a similar partition, similar centres and a similar ranking of clusters by cost;
these are measured as well.

`cluster_released` serves a recipient who has only released days and their standard errors: how
sure is the cluster of a day, and how exact are the centres? `compare_releases` serves a researcher
who has the true days: how many of them stay in their cluster if the same run is hidden with
independent noise on the hours, with a calendar release, and with the restored values of both.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hushmeter.appliance import Appliance
from hushmeter.apps.behaviour.staying import Staying, grid_slack, stay_bounds
from hushmeter.checks import FloatArray, IntArray, finite_vector, positive, whole
from hushmeter.errors import DataError, InputError
from hushmeter.learn.kmedians import ConvergenceWarning, KMedians
from hushmeter.noise.laplace import Laplace
from hushmeter.noise.mechanism import MAX_EPSILON, exact, steps_apart
from hushmeter.privacy.units import metered
from hushmeter.releases.request import Request
from hushmeter.releases.restore import read_estimates, restore
from hushmeter.scoring import student_half_width
from hushmeter.trace import SECONDS_PER_HOUR, Trace

if TYPE_CHECKING:
    from hushmeter.apps.behaviour.profiles import Profiles

PAPER_SCALES = (0.01, 0.05, 0.1, 0.5)
"""λ of the paper's Fig. 8 [kWh]."""

GRID = 1e-5
"""Step of the noisy profiles [kWh]: a hundredth of a watt-hour."""

_WH = 1000


@dataclass(frozen=True)
class NoiseLevel:
    """Laplace noise on daily profiles."""

    mechanism: Laplace  # The mechanism, in Wh; its sensitivity is that of a whole day

    @property
    def scale(self) -> float:
        """Scale λ of the noise [kWh]."""
        return self.mechanism.scale / _WH

    @property
    def epsilon(self) -> float:
        """ε that protects a change of `sensitivity` within one day."""
        return self.mechanism.epsilon

    @property
    def sensitivity(self) -> float:
        """Protected change Δ [kWh], summed over the hours of a day."""
        return self.mechanism.sensitivity / _WH

    @property
    def grid(self) -> float:
        """Step of the noisy values [kWh]."""
        return self.mechanism.grid / _WH

    def perturb(self, profiles: FloatArray, *, rng: int | np.random.Generator) -> FloatArray:
        """Return profiles with simulated noise [kWh], which are not a release."""
        noisy = self.mechanism.release((profiles * _WH).ravel(), rng=rng)
        noisy /= _WH
        return noisy.reshape(profiles.shape)


def noise_levels(
    *,
    scales: Sequence[float] | None = None,
    epsilons: Sequence[float] | None = None,
    sensitivity: float = 1.0,
    hours: int = 24,
) -> tuple[NoiseLevel, ...]:
    """Return the noise levels of the given λ [kWh] or ε, from the least noise to the most."""
    if scales is not None and epsilons is not None:
        raise InputError("give either scales (λ) or epsilons (ε), not both.")
    change, grid = exact("sensitivity", sensitivity), exact("grid", GRID)
    hours = whole("hours", hours)
    if epsilons is not None:
        losses = [exact("epsilon", epsilon) for epsilon in epsilons]
    else:
        steps = steps_apart(change / grid, Fraction(1), hours)
        losses = [steps * grid / exact("lambda", s) for s in scales or PAPER_SCALES]
    if not losses:
        raise InputError("there must be at least one noise level.")
    return tuple(_level(loss, change, grid, hours) for loss in sorted(losses, reverse=True))


def _level(epsilon: Fraction, change: Fraction, grid: Fraction, hours: int) -> NoiseLevel:
    # A simulation may use any ε; the limit for a release is in `hushmeter.privacy`.
    most = positive("epsilon", max(MAX_EPSILON, float(epsilon) * 1.001))
    mechanism = Laplace(epsilon, change * _WH, grid * _WH, touches=hours, max_epsilon=most)
    return NoiseLevel(mechanism)


@dataclass(frozen=True, eq=False)
class Reclustering:
    """Clusters of the noisy profiles, compared with those of the profiles without noise."""

    # Adjusted Rand index of the two partitions: 1 if they are equal, 0 as by chance
    rand_index: float
    centre_error: FloatArray  # l1 distance of every centre to its noisy one [kWh/day]
    rank_correlation: float  # Kendall's τ of the clusters' costs per kWh; NaN without a tariff


def recluster(model: KMedians, noisy: FloatArray, tariff: FloatArray | None) -> Reclustering:
    """Cluster noisy profiles [kWh] again, starting at the centres of `model`, and compare."""
    from scipy.stats import kendalltau

    centres = model.cluster_centers_
    again = cluster_again(model, noisy)
    correlation = float("nan")
    if tariff is not None:
        before, after = (serving_costs(c, tariff) for c in (centres, again.cluster_centers_))
        correlation = float(kendalltau(before, after).statistic)
    return Reclustering(
        adjusted_rand_index(model.labels_, again.labels_),
        np.abs(again.cluster_centers_ - centres).sum(axis=1),
        correlation,
    )


def adjusted_rand_index(one: NDArray[Any], other: NDArray[Any]) -> float:
    """Return the agreement of two partitions: 1 if they are equal, 0 on average by chance."""
    first, second = (np.unique(labels, return_inverse=True)[1] for labels in (one, other))
    table = np.zeros((first.max() + 1, second.max() + 1), dtype=np.int64)
    np.add.at(table, (first, second), 1)
    pairs = int((table**2).sum())
    rows, columns = (int((table.sum(axis=axis) ** 2).sum()) for axis in (1, 0))
    together, size = pairs - first.size, first.size
    only_one, only_other = rows - pairs, columns - pairs
    apart = size**2 - only_one - only_other - pairs
    if only_one == only_other == 0:
        return 1.0
    chance = (together + only_one) * (only_one + apart)
    chance += (together + only_other) * (only_other + apart)
    return 2.0 * (together * apart - only_one * only_other) / chance


def cluster_again(model: KMedians, values: FloatArray) -> KMedians:
    """Cluster other values, starting at the centres of a model."""
    centres = model.cluster_centers_
    again = KMedians(centres.shape[0], init=centres, batch_size=model.batch_size, random_state=0)
    with warnings.catch_warnings():
        # A cluster may lose all its profiles under noise: this is a result, not an error.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return again.fit(values)


def serving_costs(centres: FloatArray, tariff: FloatArray) -> FloatArray:
    """Return the marginal cost of serving each cluster, Σ_t p_t·c_t / Σ_t c_t, shape (k,).

    An additional kWh, spread over the day like the cluster's consumption, costs the mean of the
    hourly prices weighted by the centre. The cost is NaN for a centre without consumption.
    """
    energy = centres.sum(axis=1)
    cost = centres @ tariff
    costs = np.full(cost.shape, np.nan)
    np.divide(cost, energy, out=costs, where=energy > 0)
    return costs


def checked_tariff(prices: ArrayLike, hours: int) -> FloatArray:
    """Return checked prices per kWh, one for each hour."""
    tariff = finite_vector("tariff", prices)
    if tariff.size != hours:
        raise InputError(
            f"the tariff must have {hours} prices, one for each hour, got {tariff.size}."
        )
    if np.ptp(tariff) == 0:
        raise DataError("the tariff is the same in every hour, so it cannot rank clusters.")
    return tariff


BOUND_ROWS = 1000
"""Largest number of profiles for which the bounds of staying are computed."""

STABLE = 0.9
"""A cluster is stable if at least this share of its profiles stays."""


@dataclass(frozen=True, eq=False)
class LevelStability:
    """Stability of the clusters at one noise level, over several draws of the noise."""

    level: NoiseLevel  # The noise
    # Share of every cluster's profiles that stay; NaN for an empty cluster
    cluster_stay: FloatArray
    stay: FloatArray  # Share of all profiles that stay
    # Mean number of profiles that move from a cluster (row) to another (column)
    migration: FloatArray
    frequency: FloatArray  # Share of the draws in which each profile stayed
    reclusterings: tuple[Reclustering, ...]  # The clusters of the noisy profiles, one for each draw
    rows: IntArray  # The profiles for which bounds were computed
    staying: Staying  # Bounds of the probability that these profiles stay

    @property
    def rand_index(self) -> FloatArray:
        """Adjusted Rand index of each draw, shape (repeats,)."""
        return np.array([found.rand_index for found in self.reclusterings])

    @property
    def centre_error(self) -> FloatArray:
        """Mean l1 error of the centres in each draw [kWh/day], shape (repeats,)."""
        return np.array([found.centre_error.mean() for found in self.reclusterings])

    @property
    def rank_correlation(self) -> FloatArray:
        """Kendall's τ of the clusters' costs in each draw, shape (repeats,)."""
        return np.array([found.rank_correlation for found in self.reclusterings])

    @property
    def mean_bounds(self) -> tuple[float, float]:
        """Lower and upper bound of the share of all profiles that stay.

        If only some profiles have bounds, the mean difference between their bounds and their own
        frequency is added to the share of all profiles.
        """
        seen, share = self.frequency[self.rows], float(self.stay.mean())
        lower = share + float((self.staying.lower - seen).mean())
        upper = share + float((self.staying.upper - seen).mean())
        return max(lower, 0.0), min(upper, 1.0)

    @property
    def stable(self) -> IntArray:
        """Numbers of the stable clusters."""
        return np.flatnonzero(self.cluster_stay.mean(axis=0) >= STABLE)


@dataclass(frozen=True, eq=False)
class Stability:
    """Clusters of profiles without noise, and their stability at every noise level."""

    model: KMedians  # The clusters
    counts: NDArray[np.int64]  # Number of profiles of every cluster
    levels: tuple[LevelStability, ...]  # One entry for each noise level
    costs: FloatArray | None  # Marginal cost of every cluster [money/kWh], if a tariff was given

    @property
    def centres(self) -> FloatArray:
        """Centres of the profiles without noise [kWh], shape (k, hours)."""
        centres: FloatArray = self.model.cluster_centers_
        return centres


def measure_stability(
    profiles: FloatArray,
    levels: Iterable[NoiseLevel],
    *,
    k: int = 30,
    repeats: int = 10,
    seed: int = 0,
    tariff: ArrayLike | None = None,
    batch_size: int | None = None,
    bound_rows: int = BOUND_ROWS,
) -> Stability:
    """Cluster profiles, add noise, and measure which profiles stay in their cluster.

    Parameters
    ----------
    profiles : array, shape (n, hours)
        Hourly energies. [kWh]
    levels : iterable of NoiseLevel
        The noise levels.
    k : int
        Number of clusters; the paper uses 30.
    repeats : int
        Number of draws of the noise for each level, at least 2.
    seed : int
        Seed of the clustering and of the noise.
    tariff : array_like, shape (hours,), optional
        Price of every hour, to rank the clusters by their cost. [money/kWh]
    batch_size : int, optional
        Size of mini-batches for the clustering of millions of profiles.
    bound_rows : int
        Largest number of profiles for which the bounds of staying are computed.

    Returns
    -------
    Stability
        The clusters and their stability at every level.

    Raises
    ------
    DataError
        If there are fewer (different) profiles than clusters, or the tariff is constant.
    """
    prices = None if tariff is None else checked_tariff(tariff, profiles.shape[1])
    model = cluster_profiles(profiles, k, seed=seed, batch_size=batch_size)
    repeats = whole("repeats", repeats, least=2)
    rng = np.random.default_rng(seed)
    size = min(whole("bound_rows", bound_rows), profiles.shape[0])
    rows = np.sort(rng.choice(profiles.shape[0], size, replace=False))
    results = tuple(
        _measure_level(profiles, model, level, repeats, rng, prices, rows) for level in levels
    )
    counts = np.bincount(model.labels_, minlength=k)
    costs = None if prices is None else serving_costs(model.cluster_centers_, prices)
    return Stability(model, counts, results, costs)


def cluster_profiles(
    profiles: FloatArray, k: int, *, seed: int = 0, batch_size: int | None = None
) -> KMedians:
    """Return clusters in the order of the energy of their centres."""
    if profiles.shape[0] < whole("k", k):
        raise DataError(
            f"{profiles.shape[0]} profiles are too few for {k} clusters; give more profiles or a "
            "smaller k."
        )
    model = KMedians(k, random_state=seed, batch_size=batch_size)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            model.fit(profiles)
        except ConvergenceWarning:
            different = np.unique(profiles, axis=0).shape[0]
            raise DataError(
                f"only {different} of the {profiles.shape[0]} profiles are different, which is too "
                f"few for {k} clusters; give a smaller k."
            ) from None
    order = np.argsort(model.cluster_centers_.sum(axis=1), kind="stable")
    model.cluster_centers_ = np.ascontiguousarray(model.cluster_centers_[order])
    model.labels_ = model.predict(profiles)
    model.seen_ = model.seen_[order]
    return model


def band(values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the mean over the first axis and the ends of its 95 % confidence band."""
    mean, half = values.mean(axis=0), student_half_width(values)
    return mean, mean - half, mean + half


def staying_columns(
    result: Stability, ids: NDArray[np.str_], days: NDArray[np.str_]
) -> dict[str, Any]:
    """Return a table with one row for each noise level and each profile that has bounds."""
    parts = []
    for level in result.levels:
        rows, staying = level.rows, level.staying
        parts.append(
            {
                "id": ids[rows],
                "day": days[rows],
                "scale_kwh": np.full(rows.size, level.level.scale),
                "cluster": staying.labels + 1,
                "stayed": level.frequency[rows],
                "lower": staying.lower,
                "upper": staying.upper,
                "rival": staying.rival + 1,
            }
        )
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _measure_level(
    profiles: FloatArray,
    model: KMedians,
    level: NoiseLevel,
    repeats: int,
    rng: np.random.Generator,
    tariff: FloatArray | None,
    rows: IntArray,
) -> LevelStability:
    labels, k = model.labels_, model.cluster_centers_.shape[0]
    counts = np.bincount(labels, minlength=k)
    frequency, migration = np.zeros(labels.size), np.zeros((k, k))
    shares, reclusterings = np.empty((repeats, k)), []
    for repeat in range(repeats):
        noisy = level.perturb(profiles, rng=rng)
        after = model.predict(noisy)
        frequency += after == labels
        flows = np.bincount(labels.astype(np.int64) * k + after, minlength=k * k).reshape(k, k)
        migration += flows
        shares[repeat] = np.divide(
            flows.diagonal(), counts, out=np.full(k, np.nan), where=counts > 0
        )
        reclusterings.append(recluster(model, noisy, tariff))
    slack = grid_slack(profiles.shape[1], level.grid)
    staying = stay_bounds(
        profiles[rows], model.cluster_centers_, level.scale, labels=labels[rows], slack=slack
    )
    stay = (shares * counts).sum(axis=1) / labels.size
    return LevelStability(
        level,
        shares,
        stay,
        migration / repeats,
        frequency / repeats,
        tuple(reclusterings),
        rows,
        staying,
    )


KINDS = ("hours", "hours, restored", "calendar", "calendar, restored")
"""The releases that `compare_releases` compares."""

FIRST_DAY = "2023-01-01T00:00Z"
"""Day from which the days of a home are counted; only the lengths of the months depend on it."""


@dataclass(frozen=True, eq=False)
class ReleasedDays:
    """Days of released homes."""

    # Energy of every hour and its standard error [kWh]
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
    centre_errors: FloatArray  # Standard errors of the centres [kWh]
    # Probability that the true day belongs to the cluster of the released day
    certainty: FloatArray
    # Marginal cost of every cluster and its standard error [money/kWh]
    costs: FloatArray | None
    cost_errors: FloatArray | None

    @property
    def centres(self) -> FloatArray:
        """Centres of the clusters [kWh], shape (k, 24)."""
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
    error_kwh: float  # Mean absolute error of a released hour [kWh]
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

    All of them hide an appliance of `watts` [W] that runs for up to `run_s` [s].
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
