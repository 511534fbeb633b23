"""Share of the noisy days that a buyer still assigns to the cluster of the true day (Appendix A).

A buyer assigns days of 24 hourly energies to clusters by l1 distance. The noise of an hour is the
mean of the noise of its readings; a day x moves to another cluster if another centre is nearer to
x + n. The share of days that stay is simulated with the same random numbers at every ε, so that
the entries of the menu differ by the scale of the noise alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.checks import FloatArray
from hushmeter.errors import InputError
from hushmeter.learn.kmedians import KMedians, assign_to
from hushmeter.trace import SECONDS_PER_HOUR, Trace

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism
    from hushmeter.privacy.units import Unit

HOURS = 24
FEWEST_DAYS = 8
"""Smallest number of days from which a household's own clusters are made."""

OWN_CLUSTERS = 4
CLUSTERS = 30
DRAWN_DAYS = 4000
"""Smallest number of simulated noisy days."""

MANY_READINGS = 30
"""From this number of readings in an hour on, the noise of an hourly mean is taken as normal."""

SEED = 0


@dataclass(frozen=True, eq=False)
class DayClusters:
    """Days of the household and the centres of the buyer's clusters."""

    days: FloatArray  # Hourly energies of the household. [kWh]
    centres: FloatArray  # Centres of the clusters. [kWh]


def cluster_days(trace: Trace, profiles: ArrayLike | None = None) -> DayClusters | None:
    """Return the household's complete days and the clusters to which a buyer assigns them.

    Units: `profiles` [kWh].
    """
    days = whole_days(trace)
    if not len(days) or (profiles is None and len(days) < FEWEST_DAYS):
        return None
    known = days if profiles is None else np.asarray(profiles, dtype=np.float64)
    if known.ndim != 2 or known.shape[1] != HOURS:
        raise InputError(f"profiles must be days of 24 hours, got the shape {known.shape}.")
    if not np.isfinite(known).all():
        raise InputError("profiles must be finite; leave out the days that have a gap.")
    most = min(OWN_CLUSTERS, len(known) // 2) if profiles is None else CLUSTERS
    model = KMedians(min(most, len(known)), random_state=SEED).fit(known)
    return DayClusters(days, model.cluster_centers_)


def whole_days(trace: Trace) -> FloatArray:
    """Return the hourly energies of every day without a gap, counted from the first hour. [kWh]"""
    hourly = trace.hourly()
    steps = np.arange(len(hourly)) if hourly.steps is None else np.asarray(hourly.steps)
    energies = np.full(int(steps[-1]) + 1, np.nan)
    energies[steps] = hourly.readings / 1000
    days = energies[: energies.size // HOURS * HOURS].reshape(-1, HOURS)
    return np.ascontiguousarray(days[np.isfinite(days).all(axis=1)])


def cluster_fidelity(mechanism: Mechanism, unit: Unit, known: DayClusters) -> float:
    """Return the share of noisy days that stay in the cluster of the true day."""
    repeats = math.ceil(DRAWN_DAYS / len(known.days))
    true = assign_to(known.days, known.centres).labels
    noise = hourly_noise(mechanism, unit, repeats * known.days.size) / 1000
    noisy = np.tile(known.days, (repeats, 1)) + noise.reshape(-1, HOURS)
    found = assign_to(noisy, known.centres).labels
    return float((found == np.tile(true, repeats)).mean())


def hourly_noise(mechanism: Mechanism, unit: Unit, size: int) -> FloatArray:
    """Return simulated noise of a given number of hourly means. [W]

    The noise is normal if an hour has at least 30 released readings, and drawn from the mechanism
    otherwise.
    """
    per_hour = max(1, round(SECONDS_PER_HOUR / (unit.interval_s * unit.window)))
    if per_hour >= MANY_READINGS:
        normal = np.random.default_rng(SEED).standard_normal(size)
        return normal * (mechanism.std / math.sqrt(per_hour))
    draws = mechanism.sample(size * per_hour, rng=SEED).astype(np.float64) * mechanism.grid
    means: FloatArray = draws.reshape(size, per_hour).mean(axis=1)
    return means
