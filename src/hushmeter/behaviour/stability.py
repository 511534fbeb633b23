"""Which clusters survive the noise (Appendix A, Fig. 8)?

A profile stays if its nearest centre is the same after noise; the centres are those of the clean
profiles. A cluster's stability is the share of its profiles that stay.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hushmeter.behaviour.kmedians import KMedians
from hushmeter.behaviour.staying import Staying, grid_slack, stay_bounds
from hushmeter.checks import FloatArray, IntArray, finite_vector, positive, whole
from hushmeter.errors import DataError, InputError
from hushmeter.noise.laplace import Laplace
from hushmeter.noise.mechanism import MAX_EPSILON
from hushmeter.noise.parameters import exact, steps_apart

PAPER_SCALES = (0.01, 0.05, 0.1, 0.5)
"""λ of the paper's Fig. 8 [kWh]."""

GRID = 1e-5
"""Step of the noisy profiles [kWh]: a hundredth of a watt-hour."""

_WH = 1000


@dataclass(frozen=True)
class NoiseLevel:
    """Laplace noise on daily profiles.

    Attributes
    ----------
    mechanism : Laplace
        In Wh; its sensitivity is that of a whole day.
    """

    mechanism: Laplace

    @property
    def scale(self) -> float:
        """λ [kWh]."""
        return self.mechanism.scale / _WH

    @property
    def epsilon(self) -> float:
        """ε of a change by `sensitivity` within one day."""
        return self.mechanism.epsilon

    @property
    def sensitivity(self) -> float:
        """Δ [kWh]: summed over the hours of a day."""
        return self.mechanism.sensitivity / _WH

    @property
    def grid(self) -> float:
        """Step of the noisy values [kWh]."""
        return self.mechanism.grid / _WH

    def add_noise(self, profiles: FloatArray, *, rng: int | np.random.Generator) -> FloatArray:
        """Noisy profiles [kWh], a simulation."""
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
    """Levels from the least noise to the most.

    Parameters
    ----------
    scales : sequence of float, optional
        λ [kWh]; the paper's 0.01, 0.05, 0.1 and 0.5 where neither is given.
    epsilons : sequence of float, optional
        ε; cannot be given together with `scales`.
    sensitivity : float
        Δ [kWh]: the change within one day that ε protects.
    hours : int
        Values per profile.
    """
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
    # A simulation may look at any ε; what is released is limited in `protect`.
    most = positive("epsilon", max(MAX_EPSILON, float(epsilon) * 1.001))
    mechanism = Laplace(epsilon, change * _WH, grid * _WH, touches=hours, max_epsilon=most)
    return NoiseLevel(mechanism)


@dataclass(frozen=True, eq=False)
class Kept:
    """What clustering the noisy profiles afresh, from the old centres, still gives.

    Attributes
    ----------
    rand_index : float
        Adjusted Rand index of the two partitions: 1 the same, 0 as by chance.
    centre_error : (k,) [kWh a day]
        l1 distance of every centre to its noisy one.
    rank_correlation : float
        Kendall's τ of the clusters' costs per kWh; NaN without a tariff.
    """

    rand_index: float
    centre_error: FloatArray
    rank_correlation: float


def recluster(model: KMedians, noisy: FloatArray, tariff: FloatArray | None) -> Kept:
    """Cluster noisy profiles afresh, starting at the centres of `model`, and compare."""
    import warnings

    from scipy.stats import kendalltau
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.metrics import adjusted_rand_score

    centres = model.cluster_centers_
    again = KMedians(centres.shape[0], init=centres, batch_size=model.batch_size, random_state=0)
    with warnings.catch_warnings():
        # Clusters may lose all their profiles in the noise: that is the finding, not a fault.
        warnings.simplefilter("ignore", ConvergenceWarning)
        again.fit(noisy)
    correlation = float("nan")
    if tariff is not None:
        before, after = (serving_costs(c, tariff) for c in (centres, again.cluster_centers_))
        correlation = float(kendalltau(before, after).statistic)
    return Kept(
        float(adjusted_rand_score(model.labels_, again.labels_)),
        np.abs(again.cluster_centers_ - centres).sum(axis=1),
        correlation,
    )


def serving_costs(centres: FloatArray, tariff: FloatArray) -> FloatArray:
    """Marginal cost of serving each cluster per kWh: Σ_t p_t·c_t / Σ_t c_t, (k,).

    A kWh that a home of the cluster uses more, spread over the day as the cluster uses it, costs
    the mean of the hourly prices weighted by the centre. NaN for a centre without consumption.
    """
    energy = centres.sum(axis=1)
    cost = centres @ tariff
    costs = np.full(cost.shape, np.nan)
    np.divide(cost, energy, out=costs, where=energy > 0)
    return costs


def checked_tariff(prices: ArrayLike, hours: int) -> FloatArray:
    """Prices per kWh, one per hour, that differ between hours."""
    tariff = finite_vector("tariff", prices)
    if tariff.size != hours:
        raise InputError(f"the tariff must have {hours} prices, one per hour, got {tariff.size}.")
    if np.ptp(tariff) == 0:
        raise DataError("the tariff is the same in every hour, so it ranks no cluster.")
    return tariff


BOUND_ROWS = 1000
STABLE = 0.9
"""A cluster is called stable if at least this share of its profiles stays."""


@dataclass(frozen=True, eq=False)
class LevelStability:
    """One noise level, over several draws of the noise.

    Attributes
    ----------
    level : NoiseLevel
    cluster_stay : (repeats, k)
        Share of every cluster's profiles that stay; NaN for an empty cluster.
    stay : (repeats,)
        Share of all profiles that stay.
    migration : (k, k)
        Mean number of profiles that go from a cluster (row) to another (column).
    frequency : (n,)
        How often each profile stayed.
    kept : tuple of Kept
        One per repeat.
    rows : (m,)
        The profiles for which bounds were computed.
    staying : Staying
        Their bounds.
    """

    level: NoiseLevel
    cluster_stay: FloatArray
    stay: FloatArray
    migration: FloatArray
    frequency: FloatArray
    kept: tuple[Kept, ...]
    rows: IntArray
    staying: Staying

    @property
    def rand_index(self) -> FloatArray:
        """Adjusted Rand index, (repeats,)."""
        return np.array([kept.rand_index for kept in self.kept])

    @property
    def centre_error(self) -> FloatArray:
        """Mean l1 error of the centres [kWh a day], (repeats,)."""
        return np.array([kept.centre_error.mean() for kept in self.kept])

    @property
    def rank_correlation(self) -> FloatArray:
        """Kendall's τ of the clusters' costs, (repeats,)."""
        return np.array([kept.rank_correlation for kept in self.kept])

    @property
    def mean_bounds(self) -> tuple[float, float]:
        """Lower and upper bound of the share that stays, for all profiles.

        Where only some profiles have bounds, their mean distance to how often those same profiles
        stayed is added to the share of all.
        """
        seen, share = self.frequency[self.rows], float(self.stay.mean())
        lower = share + float((self.staying.lower - seen).mean())
        upper = share + float((self.staying.upper - seen).mean())
        return max(lower, 0.0), min(upper, 1.0)

    @property
    def stable(self) -> IntArray:
        """The stable clusters."""
        return np.flatnonzero(self.cluster_stay.mean(axis=0) >= STABLE)


@dataclass(frozen=True, eq=False)
class Stability:
    """Clusters of clean profiles, and what every noise level does to them.

    Attributes
    ----------
    model : KMedians
    counts : (k,)
        Profiles per cluster.
    levels : tuple of LevelStability
    costs : (k,), optional
        Marginal cost of every cluster per kWh, if a tariff was given.
    """

    model: KMedians
    counts: NDArray[np.int64]
    levels: tuple[LevelStability, ...]
    costs: FloatArray | None

    @property
    def centres(self) -> FloatArray:
        """Centres of the clean profiles [kWh], (k, hours)."""
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
    """Cluster profiles, add noise, and see who stays.

    Parameters
    ----------
    profiles : (n, hours) [kWh]
    levels : iterable of NoiseLevel
    k : int
        Clusters; the paper takes 30.
    repeats : int
        Draws of the noise per level, for the bands.
    seed : int
    tariff : (hours,), optional
        Price per kWh of every hour, to rank the clusters by their cost.
    batch_size : int, optional
        Cluster in mini-batches; for millions of profiles.
    bound_rows : int
        The bounds of staying are computed for at most so many profiles.
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
    """Clusters ordered by the energy of their centres, or one sentence why there are none."""
    from sklearn.exceptions import ConvergenceWarning

    if profiles.shape[0] < whole("k", k):
        raise DataError(
            f"there are {profiles.shape[0]} profiles for {k} clusters; give more, or a smaller k."
        )
    model = KMedians(k, random_state=seed, batch_size=batch_size)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            model.fit(profiles)
        except ConvergenceWarning:
            different = np.unique(profiles, axis=0).shape[0]
            raise DataError(
                f"{k} clusters cannot be filled: only {different} of {profiles.shape[0]} profiles "
                "differ; give a smaller k."
            ) from None
    order = np.argsort(model.cluster_centers_.sum(axis=1), kind="stable")
    model.cluster_centers_ = np.ascontiguousarray(model.cluster_centers_[order])
    model.labels_ = model.predict(profiles)
    model.seen_ = model.seen_[order]
    return model


def band(values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean over the repeats (first axis) and its 95 % confidence band, by Student's t."""
    from scipy.stats import t

    repeats = values.shape[0]
    mean = values.mean(axis=0)
    half = t.ppf(0.975, repeats - 1) * values.std(axis=0, ddof=1) / np.sqrt(repeats)
    return mean, mean - half, mean + half


def staying_columns(
    result: Stability, ids: NDArray[np.str_], days: NDArray[np.str_]
) -> dict[str, Any]:
    """One row per noise level and profile with bounds: how likely it stays, and who draws it."""
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
    shares, kept = np.empty((repeats, k)), []
    for repeat in range(repeats):
        noisy = level.add_noise(profiles, rng=rng)
        after = model.predict(noisy)
        frequency += after == labels
        flows = np.bincount(labels.astype(np.int64) * k + after, minlength=k * k).reshape(k, k)
        migration += flows
        shares[repeat] = np.divide(
            flows.diagonal(), counts, out=np.full(k, np.nan), where=counts > 0
        )
        kept.append(recluster(model, noisy, tariff))
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
        tuple(kept),
        rows,
        staying,
    )
