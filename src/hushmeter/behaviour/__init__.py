"""Appendix A: clusters of daily load profiles, and how noise changes them.

The names are imported at their first use, because importing numba is slow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hushmeter.behaviour.profiles import Profiles, read_profiles, synthetic_profiles
    from hushmeter.behaviour.stability import (
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
    from hushmeter.behaviour.staying import Staying, pair_probability, stay_bounds
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

_ORIGIN = {
    "KMedians": ".learn.kmedians",
    "NoiseLevel": "stability",
    "Profiles": "profiles",
    "ReleasedClusters": "stability",
    "ReleasedDays": "stability",
    "Stability": "stability",
    "Staying": "staying",
    "cluster_released": "stability",
    "compare_releases": "stability",
    "measure_stability": "stability",
    "noise_levels": "stability",
    "pair_probability": "staying",
    "read_profiles": "profiles",
    "read_released_days": "stability",
    "stay_bounds": "staying",
    "synthetic_profiles": "profiles",
}


def __getattr__(name: str) -> Any:
    if name not in _ORIGIN:
        raise AttributeError(f"module 'hushmeter.behaviour' has no attribute {name!r}")
    value = getattr(import_module(f".{_ORIGIN[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
