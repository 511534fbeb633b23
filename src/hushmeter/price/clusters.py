"""Cluster fidelity: how often a day that was sold still falls into its own cluster (Appendix A).

A buyer sorts days of 24 hourly energies into clusters by l1 distance. The noise of an hour is the
sum of the noise of its readings; it carries a day x over the border where another centre is
nearer to x + n. The share of days that stay is measured with the same standard draws at every ε,
so that lines of the menu differ by the noise alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.checks import FloatArray
from hushmeter.errors import InputError
from hushmeter.trace import Trace

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism
    from hushmeter.privacy.units import Unit

HOURS = 24
HOUR_S = 3600.0
FEWEST_DAYS = 8
OWN_CLUSTERS = 4
CLUSTERS = 30
DRAWN_DAYS = 4000
MANY_READINGS = 30
SEED = 0


@dataclass(frozen=True, eq=False)
class DayClusters:
    """Days of the household and the centres they are sorted by.

    Attributes
    ----------
    days : array, shape (n, 24)
        [kWh]
    centres : array, shape (k, 24)
        [kWh]
    """

    days: FloatArray
    centres: FloatArray


def cluster_days(trace: Trace, profiles: ArrayLike | None = None) -> DayClusters | None:
    """The household's whole days and the clusters a buyer sorts them into.

    Parameters
    ----------
    trace : Trace
        Readings of an hour or less.
    profiles : array, shape (m, 24), optional
        [kWh]; the days of many homes, from which the buyer has his clusters: up to 30 of them.
        Without it the trace's own days make up to 4 clusters.

    Returns
    -------
    DayClusters or None
        None where the trace has no whole day, or too few to make clusters of.
    """
    from hushmeter.behaviour.kmedians import KMedians

    days = whole_days(trace)
    if not len(days) or (profiles is None and len(days) < FEWEST_DAYS):
        return None
    known = days if profiles is None else np.asarray(profiles, dtype=np.float64)
    if known.ndim != 2 or known.shape[1] != HOURS:
        raise InputError(f"profiles must be days of 24 hours, got the shape {known.shape}.")
    if not np.isfinite(known).all():
        raise InputError("profiles must be finite; leave out days with a gap.")
    most = min(OWN_CLUSTERS, len(known) // 2) if profiles is None else CLUSTERS
    model = KMedians(min(most, len(known)), random_state=SEED).fit(known)
    return DayClusters(days, model.cluster_centers_)


def whole_days(trace: Trace) -> FloatArray:
    """Energies of the hours of every day without a gap, from the trace's first hour on [kWh]."""
    hourly = trace if trace.interval_s == HOUR_S else trace.coarsen(HOUR_S)
    steps = np.arange(len(hourly)) if hourly.steps is None else np.asarray(hourly.steps)
    energies = np.full(int(steps[-1]) + 1, np.nan)
    energies[steps] = hourly.readings / 1000
    days = energies[: energies.size // HOURS * HOURS].reshape(-1, HOURS)
    return np.ascontiguousarray(days[np.isfinite(days).all(axis=1)])


def cluster_fidelity(mechanism: Mechanism, unit: Unit, known: DayClusters) -> float:
    """Share of noisy days that stay in the cluster of the true day."""
    from hushmeter.behaviour.kmedians import assign_to

    repeats = math.ceil(DRAWN_DAYS / len(known.days))
    true = assign_to(known.days, known.centres).labels
    noise = hourly_noise(mechanism, unit, repeats * known.days.size) / 1000
    noisy = np.tile(known.days, (repeats, 1)) + noise.reshape(-1, HOURS)
    found = assign_to(noisy, known.centres).labels
    return float((found == np.tile(true, repeats)).mean())


def hourly_noise(mechanism: Mechanism, unit: Unit, size: int) -> FloatArray:
    """Noise of so many hourly means [W]: sampled, or normal where an hour has many readings."""
    per_hour = max(1, round(HOUR_S / (unit.interval_s * unit.window)))
    if per_hour >= MANY_READINGS:
        normal = np.random.default_rng(SEED).standard_normal(size)
        return normal * (mechanism.std / math.sqrt(per_hour))
    draws = mechanism.sample(size * per_hour, rng=SEED).astype(np.float64) * mechanism.grid
    means: FloatArray = draws.reshape(size, per_hour).mean(axis=1)
    return means
