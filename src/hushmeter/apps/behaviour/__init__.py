"""Appendix A: clusters of daily load profiles, and how noise changes them."""

from hushmeter.apps.behaviour.profiles import Profiles, read_profiles, synthetic_profiles
from hushmeter.apps.behaviour.stability import (
    NoiseLevel,
    ReleasedClusters,
    ReleasedDays,
    Stability,
    cluster_released,
    compare_releases,
    measure_stability,
    noise_levels,
    read_released_days,
)
from hushmeter.apps.behaviour.staying import Staying, pair_probability, stay_bounds
from hushmeter.learn.kmedians import KMedians

__all__ = [
    "KMedians",
    "NoiseLevel",
    "Profiles",
    "ReleasedClusters",
    "ReleasedDays",
    "Stability",
    "Staying",
    "cluster_released",
    "compare_releases",
    "measure_stability",
    "noise_levels",
    "pair_probability",
    "read_profiles",
    "read_released_days",
    "stay_bounds",
    "synthetic_profiles",
]
