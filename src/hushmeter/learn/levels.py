"""On or off: from a circuit's power to its levels, its threshold and its runs.

A circuit rests at one or a few levels. The lowest is its idle level, the next its lowest
on-level; on means above the midpoint of the two. A flat rule of so many watts calls a fridge
that idles at 10 W always on. Short offs inside a run are merged, then short runs are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, IntArray, non_negative

LEAST_STEP_W = 10.0
LEAST_SHARE = 0.03
LEAST_ON = 2
BIN = 0.04
KNEE_W = 40.0


@dataclass(frozen=True)
class Levels:
    """Where a circuit rests.

    Attributes
    ----------
    idle : float
        [W]
    on : tuple of float
        On-levels [W], ascending; empty for a circuit with a single level.
    """

    idle: float
    on: tuple[float, ...]

    @property
    def threshold(self) -> float:
        """Midpoint of the idle level and the lowest on-level [W]; infinite without one."""
        return (self.idle + self.on[0]) / 2 if self.on else float("inf")


def find_levels(power: FloatArray, *, least_step: float = LEAST_STEP_W) -> Levels:
    """Idle level and on-levels [W] of a circuit.

    The histogram is taken on a scale that is linear below 40 W and logarithmic above, so that a
    level of 2 kW may be as much wider than one of 50 W as it is in truth. A level is a peak that
    holds at least 3 % of the time above idle and stands out from the valleys beside it; it must
    lie `least_step` above idle, at twice idle or more, and at 2 % of the highest level or more.
    """
    scaled = np.arcsinh(power / KNEE_W)
    low = float(scaled.min())
    # A level's neighbours blur into it: with a bin to spare at both ends no peak is cut.
    bins = np.floor((scaled - low) / BIN).astype(np.int64) + 2
    counts = np.bincount(bins, minlength=int(bins.max()) + 3).astype(np.float64)
    idle_cut = _idle_end(counts)
    idle_members = power[bins <= idle_cut]
    idle = float(np.median(idle_members)) if idle_members.size else float(power.min())
    above = counts.copy()
    above[: idle_cut + 1] = 0.0
    on = _on_levels(power, bins, above)
    # Below 2 % of the highest level it is standby; less than twice idle, idle itself.
    floor = max(idle + least_step, 2 * idle, 0.02 * max(on, default=0.0))
    return Levels(idle, tuple(level for level in on if level >= floor))


def on_states(
    power: FloatArray,
    threshold: float,
    run_starts: BoolArray,
    *,
    min_on: int = 0,
    min_off: int = 0,
) -> BoolArray:
    """States of a circuit: above the threshold, short offs merged, then short ons dropped.

    Parameters
    ----------
    power : FloatArray, shape (T,)
        [W]
    threshold : float
        [W]
    run_starts : BoolArray, shape (T,)
        Where contiguous readings begin; nothing is merged across.
    min_on, min_off : int
        Shortest run and shortest pause [readings] that count.
    """
    states: BoolArray = power > threshold
    for value, least in ((False, min_off), (True, min_on)):
        if least > 1:
            states = _without_short(states, run_starts, value, least)
    return states


def readings_in(seconds: float, interval_s: float) -> int:
    """Fewest readings that last at least `seconds`."""
    return int(np.ceil(non_negative("duration", seconds) / interval_s - 1e-9))


def _idle_end(counts: FloatArray) -> int:
    """Last bin of the lowest level: where the first peak that matters has fallen to its valley."""
    smooth = _smooth(counts)
    total = counts.sum()
    peak, run = 0, 0.0
    for i in range(smooth.size):
        run += counts[i]
        if smooth[i] >= smooth[peak]:
            peak = i
        # The lowest level is left once it is behind and holds a share of the time.
        elif run >= 0.005 * total and smooth[i] <= 0.1 * smooth[peak]:
            return i
    return smooth.size - 1


def _on_levels(power: FloatArray, bins: IntArray, above: FloatArray) -> list[float]:
    """Medians of the basins around the peaks above idle."""
    from scipy.signal import find_peaks

    total = above.sum()
    if total < LEAST_ON:
        return []
    smooth = _smooth(above)
    peaks, _ = find_peaks(smooth, prominence=0.15 * LEAST_SHARE * total)
    edges = _valleys(smooth, peaks)
    levels = []
    for first, last in pairwise(edges):
        share = above[first:last].sum() / total
        if share >= LEAST_SHARE:
            inside = (bins >= first) & (bins < last) & (above[bins] > 0)
            levels.append(float(np.median(power[inside])))
    return levels


def _valleys(smooth: FloatArray, peaks: IntArray) -> list[int]:
    """Bins between neighbouring peaks where the histogram is lowest, and both ends."""
    inner = [int(a + np.argmin(smooth[a:b])) for a, b in pairwise(peaks)]
    return [0, *inner, smooth.size]


def _smooth(counts: FloatArray) -> FloatArray:
    return np.convolve(counts, [0.25, 0.5, 0.25], mode="same")


def _without_short(states: BoolArray, run_starts: BoolArray, value: bool, least: int) -> BoolArray:
    """Flip stretches of `value` shorter than `least` readings that lie inside a run.

    A stretch at the edge of a gap may be longer than it looks and stays.
    """
    cuts = np.flatnonzero(np.append(True, states[1:] != states[:-1]) | run_starts)
    stops = np.append(cuts[1:], states.size)
    starts_run = run_starts[cuts]
    ends_run = np.append(run_starts[stops[:-1]], True)
    short = (states[cuts] == value) & (stops - cuts < least) & ~starts_run & ~ends_run
    flips = np.repeat(short, stops - cuts)
    result: BoolArray = states ^ flips
    return result
