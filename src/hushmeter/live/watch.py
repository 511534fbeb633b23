"""What a stream publishes and what it reveals, for the household alone.

Raw means never leave the machine. This module reads them from the state and sets them beside the
protected values, together with what the strongest attacker could say about each window. That
attacker knows everything about the window except whether one protected use was in it. No attacker
can do better than the likelihood ratio of the two cases (Neyman–Pearson), so the probabilities here
are those of the best possible attacker and not of a particular program.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from hushmeter.files import json_text, write_text
from hushmeter.formatting import out_of_100
from hushmeter.live.state import SumRow, WindowRow, read_state
from hushmeter.live.stream import Terms, iso_of, noisy_steps, read_terms

SCHEMA = "hushmeter-live-day-1"
SHOWN = 24
"""Windows that are shown."""


@dataclass(frozen=True)
class WatchedWindow:
    """One window as the household sees it."""

    start: str  # Start of the window (UTC)
    share: float  # Share of the readings that arrived
    raw_w: float | None  # Mean of the readings that arrived [W]; private
    protected_w: float | None  # What was published [W]
    # Probability that the strongest attacker gives to a use that was in the window, if a use
    # without which the rest of the window is known was in it. 0.5 is a coin.
    if_it_ran: float | None
    if_it_did_not: float | None  # Probability that it gives to a use that was not in the window


def watch_windows(
    terms: Terms, rows: Sequence[WindowRow], sums: Sequence[SumRow], *, day: str | None = None
) -> list[WatchedWindow]:
    """Set the means of windows beside their protected values and the strongest attacker.

    If there are sums, `rows` must have all windows of their months. `day` selects the windows that
    are returned.
    """
    ratios = _log_ratios(terms, rows, sums)
    watched = []
    for row in rows:
        if day is not None and row.day != day:
            continue
        raw, ran, did_not = None, None, None
        if row.number in ratios:
            raw = (row.mean or 0.0) / row.share
            ran, did_not = (1 / (1 + math.exp(min(700.0, -log))) for log in ratios[row.number])
        start = iso_of(row.number * terms.window_ns)
        watched.append(WatchedWindow(start, row.share, raw, row.value, ran, did_not))
    return watched


def _log_ratios(
    terms: Terms, rows: Sequence[WindowRow], sums: Sequence[SumRow]
) -> dict[int, tuple[float, float]]:
    """Logarithms of the likelihood ratios of every window, if a use was in it and if not.

    The attacker knows all other cells, and so every sum without the use. The noise of all published
    sums is independent, so the logarithms of its probabilities add up.
    """
    known = [row for row in rows if row.mean is not None and row.value is not None]
    found: dict[int, tuple[float, float]] = {}
    for _, group in groupby(known, key=lambda row: row.day[:7]):
        part = list(group)
        means = np.array([row.mean for row in part], dtype=float)
        change = terms.unit.largest
        below, exact, above = (terms.exact_steps(means + c) for c in (-change, 0.0, change))
        ratios = np.zeros((2, len(part)))
        for entry in terms.promise.on(terms.cells_of(part)).tables:
            assert entry.noise is not None
            noise = noisy_steps(entry, part, sums) - entry.table.sums(exact.astype(float))
            shown = np.append(np.isfinite(noise), False)[entry.table.labels]
            own = noise[entry.table.labels[shown]].astype(np.int64)
            without, with_use = own + (exact - below)[shown], own - (above - exact)[shown]
            logs = [np.asarray(entry.noise.log_pmf(n)) for n in (without, own, with_use)]
            ratios[:, shown] += np.diff(logs, axis=0)
        found |= {row.number: (float(a), float(b)) for row, a, b in zip(part, *ratios, strict=True)}
    return found


def right_out_of(windows: Sequence[WatchedWindow]) -> float | None:
    """Share of windows in which the attacker's better guess is right; None without windows."""
    right = [
        float(window.if_it_ran >= 0.5) + float(window.if_it_did_not < 0.5)
        for window in windows
        if window.if_it_ran is not None and window.if_it_did_not is not None
    ]
    return math.fsum(right) / (2 * len(right)) if right else None


def show_stream(path: str | Path, *, count: int = SHOWN) -> dict[str, Any]:
    """Return the terms and the last windows of a stream while it runs, with sentences on both.

    `right` is the share of these windows in which the strongest attacker is right.
    """
    kept = read_state(path)
    first, terms = kept.windows[-count:][:1], kept.terms
    # The attacker also uses sums, for which all cells of a month are needed.
    rows = [row for row in kept.windows if first and row.day >= first[0].day[:7]]
    windows = watch_windows(read_terms(terms), rows, kept.sums)[-count:]
    right = right_out_of(windows)
    sentences = [
        f"Protected: {terms['unit']['sentence']}, at ε = {terms['epsilon']:.4g}.",
        "The strongest attacker knows everything else about a window. Two numbers are shown: the "
        "probability, out of 100, that it gives to one such use, if the use was in the window and "
        "if it was not. 50 means that it learns nothing.",
    ]
    if right is not None:
        sentences.append(
            f"In these windows that attacker would be right {out_of_100(right)} times out of 100."
        )
    shown = [asdict(window) for window in windows]
    return {"terms": terms, "windows": shown, "right": right, "sentences": sentences}


def write_day(
    folder: Path, day: str, terms: Terms, rows: Sequence[WindowRow], sums: Sequence[SumRow]
) -> Path:
    """Write the private summary DAY.private.json of a day; only its owner may read it.

    `rows` and `sums` are those of its month so far.
    """
    windows, facts = watch_windows(terms, rows, sums, day=day), terms.describe()
    published = [row for row in rows if row.day == day and row.value is not None]
    fields = {
        "schema": SCHEMA,
        "day": day,
        "stream": terms.name,
        "protects": facts["unit"]["sentence"],
        "epsilon": facts["epsilon"],
        "attacker_right": right_out_of(windows),
        "windows": [asdict(window) for window in windows],
        "receipt": terms.receipt_of(published).to_dict() if published else None,
    }
    path = folder / f"{day}.private.json"
    write_text(path, json_text(fields), force=True)
    return path
