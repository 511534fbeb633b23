"""What a stream publishes and what it reveals, for the household alone.

Raw means never leave the machine. This module reads them from the state and sets them beside the
protected values, together with what the strongest attacker could say about each window. That
attacker knows everything about the window except whether one protected use was in it. No attacker
can do better than the likelihood ratio of the two cases (Neyman–Pearson), so the probabilities here
are those of the best possible attacker and not of a particular program.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.clock import SECOND
from hushmeter.files import json_text, write_text
from hushmeter.formatting import out_of_100
from hushmeter.live.calendar import noisy_tables
from hushmeter.live.state import Kept, WindowRow, read_state
from hushmeter.live.stream import iso_of
from hushmeter.noise import parse_mechanism
from hushmeter.releases.calendar import lay_out
from hushmeter.releases.view_files import plan_of
from hushmeter.releases.views import add_up, cell_steps
from hushmeter.trace import Trace

if TYPE_CHECKING:
    from hushmeter.releases.view_plan import ViewPlan

SCHEMA = "hushmeter-live-day-1"
SHOWN = 24
"""Windows that are shown."""


@dataclass(frozen=True)
class WatchedWindow:
    """One window as the household sees it.

    Attributes
    ----------
    start : str
        Start of the window (UTC).
    share : float
        Share of the readings that arrived.
    raw_w : float or None
        Mean of the readings that arrived [W]; private.
    protected_w : float or None
        What was published [W].
    if_it_ran : float or None
        Probability that the strongest attacker gives to a use that was in the window, if a use
        without which the rest of the window is known was in it. 0.5 is a coin.
    if_it_did_not : float or None
        Probability that it gives to a use that was not in the window.
    """

    start: str
    share: float
    raw_w: float | None
    protected_w: float | None
    if_it_ran: float | None
    if_it_did_not: float | None


def watch_windows(kept: Kept, *, day: str | None = None) -> list[WatchedWindow]:
    """Set the means of windows beside their protected values and the strongest attacker.

    Parameters
    ----------
    kept : Kept
        From `read_state`. The windows of a calendar include those of the whole month.
    day : str, optional
        Only the windows of this civil day.

    Returns
    -------
    list of WatchedWindow
    """
    length = round(kept.terms["window_s"] * SECOND)
    ratios = _ratios_in_calendar(kept) if "tables" in kept.terms else _ratios_in_series(kept)
    watched = []
    for row in kept.windows:
        if day is not None and row.day != day:
            continue
        raw, ran, did_not = None, None, None
        if row.mean is not None and row.value is not None:
            raw = row.mean / row.share
            ran, did_not = (1 / (1 + math.exp(min(700.0, -log))) for log in ratios[row.number])
        start = iso_of(row.number * length)
        watched.append(WatchedWindow(start, row.share, raw, row.value, ran, did_not))
    return watched


def _ratios_in_series(kept: Kept) -> dict[int, tuple[float, float]]:
    """Logarithms of the likelihood ratios of every window, if a use was in it and if not."""
    described = kept.terms["mechanism"]
    noise = parse_mechanism({described["mechanism"]: described["parameters"]})
    change = float(kept.terms["unit"]["largest"])
    found = {}
    for row in kept.windows:
        if row.mean is not None and row.value is not None:
            # An incomplete window was published after a division by its share, which anybody can
            # undo.
            seen = round(row.value * row.share / noise.grid)
            means = (row.mean - change, row.mean, row.mean + change)
            steps = np.array([seen - math.floor(mean / noise.grid + 0.5) for mean in means])
            without, own, with_use = (float(value) for value in np.asarray(noise.log_pmf(steps)))
            found[row.number] = own - without, with_use - own
    return found


def _ratios_in_calendar(kept: Kept) -> dict[int, tuple[float, float]]:
    """The same for a calendar, from all tables that are published so far.

    The attacker knows all other cells, and so the sums without the use. The noise n_j of the cell,
    its day, its hour of the day and its month are independent Gaussians. A use of s steps then has
    the likelihood ratio Σ_j ((n_j + s)² − n_j²)/2σ_j² if it was in the window.
    """
    plan = plan_of(kept.terms)
    change = float(kept.terms["unit"]["largest"])
    known = [row for row in kept.windows if row.mean is not None and row.steps is not None]
    found = {}
    for month in sorted({row.day[:7] for row in known}):
        rows = [row for row in known if row.day[:7] == month]
        noise = _noise_of_month(kept, month, rows, plan)
        for row, parts in zip(rows, noise, strict=True):
            assert row.mean is not None
            steps = cell_steps(row.mean + np.array([-change, 0.0, change]), plan.grid)
            less, more = np.diff(steps).tolist()
            ran = sum(((n + less) ** 2 - n**2) * w / 2 for n, w in parts)
            did_not = sum((n**2 - (n - more) ** 2) * w / 2 for n, w in parts)
            found[row.number] = ran, did_not
    return found


def _noise_of_month(
    kept: Kept, month: str, rows: list[WindowRow], plan: ViewPlan
) -> Iterator[list[tuple[float, float]]]:
    """Yield for every cell its noise in each published table [grid steps] and the weight 1/σ²."""
    sums = [row for row in kept.sums if row.label[:7] == month]
    length = round(kept.terms["window_s"] * SECOND)
    numbers = np.array([row.number for row in rows])
    means = np.array([row.mean for row in rows], dtype=float)
    start = np.datetime64(int(numbers[0]) * length, "ns")
    cells = Trace(means, kept.terms["window_s"], start, steps=numbers - numbers[0])
    calendar = lay_out(cells, kept.terms["zone"], whole_day=False)
    layout = calendar.layouts[0]
    exact = add_up(means, calendar, plan.grid)
    noisy = noisy_tables(calendar, rows, sums)
    differences = [(a - b).ravel() for a, b in zip(noisy, exact, strict=True)]
    ended = {(row.name, row.label) for row in sums}
    weights = plan.weights
    for n, row in enumerate(rows):
        parts = [(float(differences[0][n]), float(weights[0]))]
        if ("days", row.day) in ended:
            parts.append((float(differences[1][layout.day[n]]), float(weights[1])))
        if ("hours", month) in ended and layout.hour[n] >= 0:
            parts.append((float(differences[2][layout.hour[n]]), float(weights[2])))
        if ("total", month) in ended:
            parts.append((float(differences[3][0]), float(weights[3])))
        yield parts


def right_out_of(windows: Sequence[WatchedWindow]) -> float | None:
    """Share of windows in which the attacker's better guess is right; None without windows."""
    right = [
        float(window.if_it_ran >= 0.5) + float(window.if_it_did_not < 0.5)
        for window in windows
        if window.if_it_ran is not None and window.if_it_did_not is not None
    ]
    return math.fsum(right) / (2 * len(right)) if right else None


def describe_attacker(terms: dict[str, Any], windows: Sequence[WatchedWindow]) -> list[str]:
    """Say in sentences what is protected and how well the strongest attacker does.

    Parameters
    ----------
    terms : dict
        Public terms of the stream.
    windows : sequence of WatchedWindow
        The windows that are shown.

    Returns
    -------
    list of str
    """
    sentences = [
        f"Protected: {terms['unit']['sentence']}, at ε = {terms['epsilon']:.4g}.",
        "The strongest attacker knows everything else about a window. Two numbers are shown: the "
        "probability, out of 100, that it gives to one such use, if the use was in the window and "
        "if it was not. 50 means that it learns nothing.",
    ]
    right = right_out_of(windows)
    if right is not None:
        sentences.append(
            f"In these windows that attacker would be right {out_of_100(right)} times out of 100."
        )
    return sentences


def look_at(path: str | Path, *, count: int = SHOWN) -> tuple[dict[str, Any], list[WatchedWindow]]:
    """Look at the last windows of a stream while it runs.

    Parameters
    ----------
    path : str or Path
        The state of the stream.
    count : int
        Number of windows.

    Returns
    -------
    dict
        Public terms of the stream.
    list of WatchedWindow
        The last windows.

    Raises
    ------
    DataError
        If there is no such state.
    """
    kept = read_state(path)
    shown = kept.windows[-count:]
    if "tables" in kept.terms and shown:
        # The attacker also uses the sums, for which all cells of a month are needed.
        shown = [row for row in kept.windows if row.day >= shown[0].day[:7]]
    return kept.terms, watch_windows(replace(kept, windows=shown))[-count:]


def show_stream(path: str | Path) -> dict[str, Any]:
    """Return the terms, the last windows and the sentences of a stream, for its local page."""
    terms, windows = look_at(path)
    return {
        "terms": terms,
        "windows": [asdict(window) for window in windows],
        "sentences": describe_attacker(terms, windows),
    }


def write_day(folder: Path, day: str, kept: Kept, receipt: dict[str, Any] | None) -> Path:
    """Write the private summary of a day beside the state; only its owner may read it.

    Parameters
    ----------
    folder : Path
        Folder of the summaries.
    day : str
        The day.
    kept : Kept
        Public terms of the stream, and at least the windows of the day; of the month in a
        calendar.
    receipt : dict or None
        The public receipt of the day.

    Returns
    -------
    Path
        DAY.private.json.

    Raises
    ------
    DataError
        If the file cannot be written.
    """
    windows, terms = watch_windows(kept, day=day), kept.terms
    fields = {
        "schema": SCHEMA,
        "day": day,
        "stream": terms["stream"],
        "protects": terms["unit"]["sentence"],
        "epsilon": terms["epsilon"],
        "attacker_right": right_out_of(windows),
        "windows": [asdict(window) for window in windows],
        "receipt": receipt,
    }
    path = folder / f"{day}.private.json"
    write_text(path, json_text(fields), force=True)
    return path
