"""Readings of one meter on the local clock of its home, without those of a silent meter.

A reading belongs to the clock time at which its interval starts. Habits and events are searched
in these readings and in their means over the cells of a `Grid`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from hushmeter.checks import BoolArray, FloatArray
from hushmeter.clock import utc_offsets, utc_times
from hushmeter.trace import SECONDS_PER_DAY, SECONDS_PER_HOUR, TimeArray, Trace

MINUTE_S, QUARTER_S, HALF_HOUR_S = 60, 900, 1800
CELL_LENGTHS = (60, 120, 180, 240, 300, 600, QUARTER_S, HALF_HOUR_S, SECONDS_PER_HOUR)
"""Lengths of the cells that means are taken over [s]; each divides a day."""
PRESENT = 0.9
"""Smallest share of its readings with which a mean counts."""
FEWEST_EQUAL = 6
"""Equal readings of which a stretch of a silent meter has at least this many."""


@dataclass(frozen=True, eq=False)
class LocalReadings:
    """Readings on the local clock, without those of a silent meter."""

    zone: str  # Time zone of the home
    interval_s: float  # Length of a reading [s]
    # Start of every reading [s since 1970]
    utc: FloatArray
    local: FloatArray
    watts: FloatArray
    silent: FloatArray  # Stretches in which the meter reported one value only; UTC [s since 1970]
    exports: bool  # True if the meter counts solar power that the home exports as negative readings
    zero_by_day: bool  # True if the meter reports zero while solar panels cover the load
    zeros: float  # Share of zeros among the readings
    _grids: dict[float, Grid] = field(default_factory=dict, init=False, repr=False)

    @property
    def solar(self) -> bool:
        """True if solar panels change the readings by day."""
        return self.exports or self.zero_by_day

    @property
    def days(self) -> float:
        """Amount of readings [days]."""
        return self.watts.size * self.interval_s / SECONDS_PER_DAY

    def to_local(self, utc: FloatArray) -> FloatArray:
        """Return local seconds of UTC seconds: midnight is a multiple of 86 400."""
        local: FloatArray = utc + utc_offsets(_times(utc), self.zone)
        return local

    def to_utc(self, local: FloatArray) -> FloatArray:
        """Return UTC seconds of local seconds; a repeated hour means its second pass."""
        times = _times(local)
        ahead = times - utc_times(times, self.zone, second=True)
        return local - ahead.astype(np.float64)

    def grid(self, step_s: float) -> Grid:
        """Return means over cells of `step_s`; NaN where less than 90 % of the readings exist."""
        if step_s not in self._grids:
            self._grids[step_s] = self._make_grid(step_s)
        return self._grids[step_s]

    def _make_grid(self, step_s: float) -> Grid:
        """Compute the means over cells of `step_s`."""
        cells = np.floor_divide(self.local, step_s).astype(np.int64)
        if not cells.size:
            return Grid(step_s, 0, np.zeros(0))
        first = int(cells.min())
        place = cells - first
        counts = np.bincount(place)
        with np.errstate(invalid="ignore", divide="ignore"):
            means = np.bincount(place, weights=self.watts) / counts
        means[counts < PRESENT * step_s / self.interval_s] = np.nan
        return Grid(step_s, first, means)

    def coarsen(self, step_s: float) -> LocalReadings:
        """Return the same readings as means over `step_s`, on the local clock."""
        grid = self.grid(step_s)
        known = np.isfinite(grid.watts)
        local = grid.local[known]
        utc = self.to_utc(local)
        return replace(self, interval_s=step_s, utc=utc, local=local, watts=grid.watts[known])


@dataclass(frozen=True, eq=False)
class Grid:
    """Mean powers on the local clock."""

    step_s: float  # Length of a cell [s]
    first: int  # Number of the first cell, counted from 1970 on the local clock
    watts: FloatArray  # Mean of every cell [W]; NaN where it is missing

    @property
    def local(self) -> FloatArray:
        """Start of every cell [local s since 1970]."""
        cells = self.first + np.arange(self.watts.size, dtype=np.float64)
        return cells * self.step_s

    def by_date(self) -> tuple[int, FloatArray]:
        """Return the first date (days since 1970) and a matrix with one row for every date."""
        cells = round(SECONDS_PER_DAY / self.step_s)
        date, lead = divmod(self.first, cells)
        rows = -(-(lead + self.watts.size) // cells)
        full = np.full(rows * cells, np.nan)
        full[lead : lead + self.watts.size] = self.watts
        return date, full.reshape(rows, cells)


def _times(seconds: FloatArray) -> TimeArray:
    """Return the whole seconds of times; the clock is changed between two of them."""
    times: TimeArray = np.floor(seconds).astype("datetime64[s]")
    return times


def clean(trace: Trace, zone: str) -> LocalReadings:
    """Step 0. Put the readings on the local clock and remove those of a silent meter.

    Notes
    -----
    A meter that fails often repeats its last value. A stretch of equal readings is taken as
    missing: zeros from 3 h (6 h for readings longer than 5 min), other values from 6 h (24 h for
    readings longer than 1 min). A stretch of zeros of less than 14 h by day stays, because a
    meter that counts imports only reports it when solar panels cover the load.
    """
    utc = (trace.times - np.datetime64(0, "ns")) / np.timedelta64(1, "s")
    local = utc + utc_offsets(trace.times, zone)
    watts, dt = trace.readings, trace.interval_s
    changes = trace.run_starts.copy()
    changes[1:] |= watts[1:] != watts[:-1]
    first = np.flatnonzero(changes)
    stop = np.append(first[1:], watts.size)
    zero = watts[first] == 0
    least = np.where(
        zero,
        (3 if dt <= 5 * MINUTE_S else 6) * SECONDS_PER_HOUR,
        (6 if dt <= MINUTE_S else 24) * SECONDS_PER_HOUR,
    )
    silent = ((stop - first) * dt >= least) & (stop - first >= FEWEST_EQUAL)
    for k in np.flatnonzero(silent & zero & ((stop - first) * dt < 14 * SECONDS_PER_HOUR)):
        hours = local[first[k] : stop[k]] / SECONDS_PER_HOUR % 24
        silent[k] = np.mean((hours >= 7) & (hours < 19)) < 0.9
    keep = np.repeat(~silent, stop - first)
    stretches = np.column_stack([utc[first[silent]], utc[stop[silent] - 1] + dt])
    kept = watts[keep]
    hours = local[keep] / SECONDS_PER_HOUR % 24
    # Longer readings mix day and night.
    exports, zero_by_day = _find_solar(kept, hours) if dt <= SECONDS_PER_HOUR else (False, False)
    zeros = float(np.mean(kept == 0)) if kept.size else 1.0
    return LocalReadings(
        zone, dt, utc[keep], local[keep], kept, stretches, exports, zero_by_day, zeros
    )


def _find_solar(watts: FloatArray, hours: FloatArray) -> tuple[bool, bool]:
    """Return whether readings are negative around noon, and whether they are zero by day."""
    night = (hours >= 22) | (hours < 4)
    noon, day = (hours >= 10) & (hours < 15), (hours >= 9) & (hours < 15)
    exported = int((watts[noon] < -20).sum())
    exports = exported >= 3 and exported / noon.sum() >= 10 * share(watts[night] < -20)
    small = np.abs(watts) < 5
    return exports, share(small[day]) >= 0.1 and share(small[night]) <= 0.01


def share(chosen: BoolArray) -> float:
    """Return the share of True; 0 for an empty array."""
    return float(chosen.mean()) if chosen.size else 0.0


def cell_length(interval_s: float, least_s: float) -> int:
    """Return the shortest cell that readings fill evenly, so that none seems incomplete."""
    for cell in CELL_LENGTHS:
        ratio = cell / interval_s
        if cell >= least_s and ratio >= 1 and np.floor(ratio) >= PRESENT * ratio:
            return cell
    return SECONDS_PER_HOUR


def slot_length(interval_s: float) -> int:
    """Return the length of the slots in which activity is decided [s], 15 min at least."""
    return cell_length(interval_s, QUARTER_S)
