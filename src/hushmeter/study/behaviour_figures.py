"""Figures 7 and 8 (Appendix A): the clusters of daily profiles, and what noise does to them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.behaviour import measure_stability, noise_levels, synthetic_profiles
from hushmeter.study.artefact import Artefact

if TYPE_CHECKING:
    from hushmeter.behaviour import Stability

SCALES_KWH = (0.01, 0.05, 0.1, 0.5)
DAYS, CLUSTERS = 4000, 30
SOURCE = f"{DAYS} synthetic days"


@lru_cache(maxsize=2)
def _measure(seed: int, repeats: int) -> Stability:
    days = synthetic_profiles(DAYS, shapes=CLUSTERS, seed=seed).values
    levels = noise_levels(scales=SCALES_KWH)
    # The pictures show no bounds, so few are computed.
    return measure_stability(days, levels, k=CLUSTERS, repeats=repeats, seed=seed, bound_rows=20)


def centres_figure(seed: int, repeats: int) -> Artefact:
    """Fig. 7: the profile of every cluster's centre."""
    import pandas as pd

    from hushmeter.plot_behaviour import centres_columns, draw_centres

    result = _measure(seed, repeats)
    counts = result.counts
    return Artefact(
        "fig7",
        pd.DataFrame(centres_columns(result)),
        draw_centres(result, f"Fig. 7: {CLUSTERS} cluster centres of {DAYS} days"),
        "30 clusters of daily profiles, of 40 users over three months, in the l1 norm.",
        f"{counts.size} clusters of {counts.min()} to {counts.max()} days, "
        f"{result.model.inertia_ / DAYS:.2f} kWh a day from their centres on average.",
        "agrees in kind; the paper prints no numbers.",
        SOURCE,
    )


def interchanges_figure(seed: int, repeats: int) -> Artefact:
    """Fig. 8: where days go under noise, by λ."""
    import pandas as pd

    from hushmeter.plot_behaviour import draw_interchanges, interchanges_columns, stability_columns

    result = _measure(seed, repeats)
    stay = np.asarray(stability_columns(result)["stay"])
    told = ", ".join(f"{s:.1%} at λ = {x:g}" for x, s in zip(SCALES_KWH, stay, strict=True))
    falling = bool((np.diff(stay) < 0).all())
    return Artefact(
        "fig8",
        pd.DataFrame(interchanges_columns(result)),
        draw_interchanges(result, "Fig. 8: where days go under noise"),
        "higher λ leads to a higher probability that users leave their cluster.",
        f"days that stay in their cluster: {told} kWh.",
        "agrees" if falling else "differs",
        SOURCE,
    )
