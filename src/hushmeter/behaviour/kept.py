"""What the utility keeps: the partition, the centres, and the ranking of clusters by cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.behaviour.kmedians import KMedians
from hushmeter.checks import FloatArray, finite_vector
from hushmeter.errors import DataError, InputError


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
