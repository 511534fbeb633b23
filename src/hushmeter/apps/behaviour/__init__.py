"""Appendix A: clusters of daily load profiles, and how noise changes them."""

from typing import TYPE_CHECKING

from hushmeter.parts import names_when_used

if TYPE_CHECKING:
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

# Nothing is imported before it is used, so that the help of the commands is fast.
__getattr__ = names_when_used(
    __name__,
    {
        "apps.behaviour.profiles": "Profiles read_profiles synthetic_profiles",
        "apps.behaviour.stability": "NoiseLevel ReleasedClusters ReleasedDays Stability "
        "cluster_released compare_releases measure_stability noise_levels read_released_days",
        "apps.behaviour.staying": "Staying pair_probability stay_bounds",
        "learn.kmedians": "KMedians",
    },
)
