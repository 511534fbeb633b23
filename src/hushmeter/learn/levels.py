"""Levels, threshold and states of one circuit, found in its power alone.

The power of a circuit stays near one or a few levels. The lowest is its idle level and the next is
its lowest on-level; the circuit is on above the midpoint of the two. A flat threshold of a given
number of watts would find a fridge that idles at 10 W always on. Short pauses inside a run are
merged, then short runs are dropped.

The true states are unknown here. `hushmeter.attack.levels` computes the powers of given states
instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, IntArray, non_negative
from hushmeter.trace import Runs

LEAST_STEP_W = 10.0
"""Smallest difference between the idle level and an on-level. [W]"""

LEAST_SHARE = 0.03
"""Smallest share of the readings above idle that makes a level."""

LEAST_ON = 2
"""Smallest number of readings above idle."""

BIN = 0.04
"""Width of a histogram bin, on the scale of arcsinh(power/`KNEE_W`)."""

KNEE_W = 40.0
"""Power at which the scale changes from linear to logarithmic. [W]"""


@dataclass(frozen=True)
class Levels:
    """The levels of a circuit."""

    idle: float  # Idle level. [W]
    # On-levels in ascending order; empty for a circuit with a single level. [W]
    on: tuple[float, ...]

    @property
    def threshold(self) -> float:
        """Midpoint of the idle level and the lowest on-level; infinite without on-level. [W]"""
        return (self.idle + self.on[0]) / 2 if self.on else float("inf")


def find_levels(power: FloatArray, *, least_step: float = LEAST_STEP_W) -> Levels:
    """Find the idle level and the on-levels of a circuit.

    The scale of the histogram is linear below 40 W and logarithmic above, because the readings of
    a level of 2 kW vary more than those of a level of 50 W. A level is a peak of the histogram that
    has at least 3 % of the readings above idle and is clearly higher than its surroundings. It must
    be at least `least_step` above idle, at least twice the idle level, and at least 2 % of the
    highest level.

    Units: `power`, `least_step` [W].
    """
    scaled = np.arcsinh(power / KNEE_W)
    low = float(scaled.min())
    # Smoothing widens a peak by one bin, so an empty bin at both ends keeps every peak whole.
    bins = np.floor((scaled - low) / BIN).astype(np.int64) + 2
    counts = np.bincount(bins, minlength=int(bins.max()) + 3).astype(np.float64)
    idle_cut = _idle_end(counts)
    idle_members = power[bins <= idle_cut]
    idle = float(np.median(idle_members)) if idle_members.size else float(power.min())
    above = counts.copy()
    above[: idle_cut + 1] = 0.0
    on = _on_levels(power, bins, above)
    # A level below 2 % of the highest one is standby; below twice idle it is idle itself.
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
    """Return the states of a circuit: on above the threshold, without short pauses and runs.

    Units: `power`, `threshold` [W].
    """
    states: BoolArray = power > threshold
    for value, least in ((False, min_off), (True, min_on)):
        if least > 1:
            states = _without_short(states, run_starts, value, least)
    return states


def readings_at_least(seconds: float, interval_s: float) -> int:
    """Return the smallest number of readings that last at least `seconds`."""
    return int(np.ceil(non_negative("duration", seconds) / interval_s - 1e-9))


def _idle_end(counts: FloatArray) -> int:
    """The last bin of the idle level: where its peak has fallen to a tenth of its height."""
    smooth = _smooth(counts)
    total = counts.sum()
    peak, run = 0, 0.0
    for i in range(smooth.size):
        run += counts[i]
        if smooth[i] >= smooth[peak]:
            peak = i
        # A peak of fewer than 0.5 % of the readings is an outlier, not the idle level.
        elif run >= 0.005 * total and smooth[i] <= 0.1 * smooth[peak]:
            return i
    return smooth.size - 1


def _on_levels(power: FloatArray, bins: IntArray, above: FloatArray) -> list[float]:
    """The medians of the readings around each peak above idle."""
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
    """The lowest bins between neighbouring peaks, and both ends of the histogram."""
    inner = [int(a + np.argmin(smooth[a:b])) for a, b in pairwise(peaks)]
    return [0, *inner, smooth.size]


def _smooth(counts: FloatArray) -> FloatArray:
    """The histogram, smoothed over three bins."""
    return np.convolve(counts, [0.25, 0.5, 0.25], mode="same")


def _without_short(states: BoolArray, run_starts: BoolArray, value: bool, least: int) -> BoolArray:
    """Flip every stretch of `value` that is shorter than `least` readings.

    A stretch next to a gap is kept, because its true length is unknown.
    """
    runs = Runs.of_equal(states, run_starts)
    ends_run = np.append(run_starts[runs.stop[:-1]], True)
    short = (states[runs.first] == value) & (runs.length < least)
    flips = np.repeat(short & ~run_starts[runs.first] & ~ends_run, runs.length)
    result: BoolArray = states ^ flips
    return result
