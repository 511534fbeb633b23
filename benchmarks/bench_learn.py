"""What a year of readings shows, against one pass of numpy over them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import hushmeter as hm
from benchmarks.harness import Row, best_of


def rows() -> Iterator[Row]:
    """All ratios of the findings."""
    home = hm.synth.household(days=365, interval_s=6, seed=1)
    trace = home.trace
    # The first call compiles the search for pairs of edges.
    hm.findings(trace[:200_000], tz=home.zone)
    ours = best_of(lambda: hm.findings(trace, tz=home.zone), 3)
    one_pass = best_of(lambda: np.abs(np.diff(trace.readings)).sum(), 3)
    note = f"{ours:.1f} s for {len(trace) / 1e6:.2f} M readings"
    yield Row(
        "findings, a year of 6-s readings: time", ours / one_pass, "np.diff once", 400, note, True
    )
