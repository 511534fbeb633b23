"""What a stream publishes and what it reveals, for the household alone.

Raw means never leave the machine. This module reads them from the state and sets them beside the
protected values, together with what the strongest attacker could say about each window. That
attacker knows everything about the window except whether one protected use was in it. No attacker
can do better than the likelihood ratio of the two cases (Neyman–Pearson), so the probabilities here
are those of the best possible attacker and not of a particular program.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.errors import DataError
from hushmeter.files import json_text
from hushmeter.live.state import WindowRow, read_state
from hushmeter.live.stream import iso_of
from hushmeter.live.windows import SECOND
from hushmeter.noise import parse_mechanism

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism

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


def watch_windows(terms: dict[str, Any], rows: Sequence[WindowRow]) -> list[WatchedWindow]:
    """Set the means of windows beside their protected values and the strongest attacker.

    Parameters
    ----------
    terms : dict
        Public terms of the stream, from `read_state`.
    rows : sequence of WindowRow
        Committed windows.

    Returns
    -------
    list of WatchedWindow
    """
    described = terms["mechanism"]
    noise = parse_mechanism({described["mechanism"]: described["parameters"]})
    change = float(terms["unit"]["largest"])
    length = round(terms["window_s"] * SECOND)
    watched = []
    for row in rows:
        raw, ran, did_not = None, None, None
        if row.mean is not None and row.value is not None:
            raw = row.mean / row.share
            ran = _belief(noise, row, row.mean - change, row.mean)
            did_not = _belief(noise, row, row.mean, row.mean + change)
        start = iso_of(row.number * length)
        watched.append(WatchedWindow(start, row.share, raw, row.value, ran, did_not))
    return watched


def _belief(noise: Mechanism, row: WindowRow, without: float, with_use: float) -> float:
    """Probability of the mean `with_use` against the mean `without`, both equally likely before."""
    assert row.value is not None
    # An incomplete window was published after a division by its share, which anybody can undo.
    seen = round(row.value * row.share / noise.grid)
    steps = np.array([seen - math.floor(m / noise.grid + 0.5) for m in (with_use, without)])
    one, other = (float(value) for value in np.asarray(noise.log_pmf(steps)))
    return 1 / (1 + math.exp(min(700.0, other - one)))


def right_out_of(windows: Sequence[WatchedWindow]) -> float | None:
    """Share of windows in which the attacker's better guess is right; None without windows."""
    right = [
        float(window.if_it_ran >= 0.5) + float(window.if_it_did_not < 0.5)
        for window in windows
        if window.if_it_ran is not None and window.if_it_did_not is not None
    ]
    return math.fsum(right) / (2 * len(right)) if right else None


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
    terms, rows = read_state(path)
    return terms, watch_windows(terms, rows[-count:])


def write_day(
    folder: Path, day: str, terms: dict[str, Any], rows: Sequence[WindowRow], receipt: Any
) -> Path:
    """Write the private summary of a day beside the state; only its owner may read it.

    Parameters
    ----------
    folder : Path
        Folder of the summaries.
    day : str
        The day.
    terms : dict
        Public terms of the stream.
    rows : sequence of WindowRow
        Its windows.
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
    windows = watch_windows(terms, rows)
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
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(json_text(fields))
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}.") from None
    return path
