"""Figures 7 and 8 (Appendix A): the clusters of daily profiles, and what noise does to them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.behaviour import (
    measure_stability,
    noise_levels,
    read_profiles,
    synthetic_profiles,
)
from hushmeter.study.figures.artefact import Artefact, Caption
from hushmeter.study.figures.setting import Setting
from hushmeter.study.figures.sources import missing

if TYPE_CHECKING:
    from hushmeter.behaviour import Profiles, Stability

SCALES_KWH = (0.01, 0.05, 0.1, 0.5)
DAYS, CLUSTERS = 4000, 30
PATTERNS = ("homes/*.parquet", "homes/*.csv", "pecan*/*.parquet", "pecan*/*.csv")


def centres_figure(setting: Setting) -> Artefact:
    """Fig. 7: the profile of every cluster's centre."""
    import pandas as pd

    from hushmeter.plot.behaviour import centres_columns, draw_centres

    words, result = _measure(setting.data, setting.seed, setting.seeds)
    counts = result.counts
    caption = Caption(
        "fig7",
        words + _note(setting, words),
        "30 clusters of daily profiles, of 40 users over three months, in the l1 norm.",
        f"{counts.size} clusters of {counts.min()} to {counts.max()} days, "
        f"{result.model.inertia_ / counts.sum():.2f} kWh a day from their centres on average.",
        "agrees",
        "in kind; the paper prints no numbers to compare with.",
    )
    title = f"Fig. 7: {CLUSTERS} cluster centres of {words}"
    return Artefact(caption, pd.DataFrame(centres_columns(result)), draw_centres(result, title))


def interchanges_figure(setting: Setting) -> Artefact:
    """Fig. 8: where days go under noise, by λ."""
    import pandas as pd

    from hushmeter.plot.behaviour import draw_interchanges, interchanges_columns, stability_columns

    words, result = _measure(setting.data, setting.seed, setting.seeds)
    columns = stability_columns(result)
    stay, stable = np.asarray(columns["stay"]), columns["stable_clusters"]
    told = ", ".join(f"{s:.1%} at λ = {x:g}" for x, s in zip(SCALES_KWH, stay, strict=True))
    falling = bool((np.diff(stay) < 0).all())
    caption = Caption(
        "fig8",
        words + _note(setting, words),
        "higher λ leads to a higher probability that users leave their cluster.",
        f"days that stay in their cluster: {told} kWh; clusters of which 90 % stay: "
        f"{', '.join(map(str, stable))} of {result.counts.size}.",
        "agrees" if falling else "differs",
        "the share that stays falls at every step; the paper prints no numbers to compare with."
        if falling
        else "the share that stays does not fall at every step.",
    )
    figure = draw_interchanges(result, f"Fig. 8: where days go under noise, {words}")
    return Artefact(caption, pd.DataFrame(interchanges_columns(result)), figure)


@lru_cache(maxsize=2)
def _measure(data: Path | None, seed: int, repeats: int) -> tuple[str, Stability]:
    """What was clustered, in words, and the clusters; both figures need the same."""
    words, days = _profiles(data, seed)
    levels = noise_levels(scales=SCALES_KWH)
    # The pictures show no bounds, so few are computed.
    found = measure_stability(
        days.values, levels, k=CLUSTERS, repeats=repeats, seed=seed, bound_rows=20
    )
    return words, found


def _profiles(data: Path | None, seed: int) -> tuple[str, Profiles]:
    files = [] if data is None else [f for p in PATTERNS for f in sorted(data.glob(p))]
    if not files:
        return f"{DAYS} synthetic days", synthetic_profiles(DAYS, shapes=CLUSTERS, seed=seed)
    days = read_profiles(files[0], missing="drop")
    homes = np.unique(days.ids).size
    return f"{days.values.shape[0]} days of {homes} real homes ({files[0].stem})", days


def _note(setting: Setting, words: str) -> str:
    return missing(setting) if "synthetic" in words else ""
