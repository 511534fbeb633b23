"""Readings of one meter on the local clock of its home, and the habits that they show.

A reading belongs to the clock time at which its interval starts; readings of a silent meter are
left out. Habits are base load, activity, days away and weekly events. They come from the readings
alone; `hushmeter.learn.statements` turns them into sentences.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import comb

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.clock import utc_offsets, utc_times
from hushmeter.trace import SECONDS_PER_DAY, SECONDS_PER_HOUR, TimeArray, Trace

MINUTE_S, QUARTER_S, HALF_HOUR_S = 60, 900, 1800
CELL_LENGTHS = (60, 120, 180, 240, 300, 600, QUARTER_S, HALF_HOUR_S, SECONDS_PER_HOUR)
"""Lengths of the cells that means are taken over [s]; each divides a day."""
PRESENT = 0.9
"""Smallest share of its readings with which a mean counts."""
FEWEST_EQUAL = 6
"""Equal readings of which a stretch of a silent meter has at least this many."""
DAY_STARTS_H = 4
"""Hour at which a day of habits begins: late evenings belong to the day before."""
NIGHT_H = (1.5, 4.5)
"""Part of the night in which most people sleep [h]."""
NEARBY_NIGHTS = 14
"""Nights before and after a night that its threshold is computed from."""
MEAN_MARGIN_W, RANGE_MARGIN_W = 30.0, 60.0
"""Watts by which a mean and a range must exceed those of the night."""
MOST_ZEROS = 0.3
"""Largest share of zeros among the readings of a home."""
FEWEST_HABIT_DAYS, FEWEST_AWAY_DAYS = 5, 14
"""Complete days that the search for habits needs, and that for days away."""


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


def base_load(readings: LocalReadings) -> float | None:
    """Step 1. Power that the home draws at all times [W]."""
    step = cell_length(readings.interval_s, MINUTE_S)
    _, days = readings.grid(step).by_date()
    if readings.solar:
        hours = np.arange(days.shape[1]) * step / SECONDS_PER_HOUR
        days = days[:, (hours >= 21) | (hours < 5)]
    full = days[np.isfinite(days).mean(axis=1) >= 0.8] if days.size else days
    if len(full) < 2:
        return None
    if step <= 5 * MINUTE_S:
        return float(np.median(np.nanquantile(full, 0.02, axis=1)))
    return float(np.median(np.nanmin(full, axis=1)))


@dataclass(frozen=True, eq=False)
class Activity:
    """Slots in which people are active, by days that begin at 04:00."""

    slot_s: int  # Length of a slot [s]
    dates: IntArray  # Date of every complete day, in days since 1970
    active: BoolArray  # Whether people are active in a slot; column 0 begins at 04:00
    night_busy: float  # Share of nights with at least 45 min of activity between 01:30 and 04:30
    contrast: float  # Median power of 18–22 h divided by that of 2–5 h
    solar: bool  # True if solar panels hide the activity by day

    @property
    def hours(self) -> FloatArray:
        """Start of every slot of a day [h], from 4 to 28."""
        slots = np.arange(self.active.shape[1], dtype=np.float64)
        return DAY_STARTS_H + slots * (self.slot_s / SECONDS_PER_HOUR)

    @property
    def working(self) -> BoolArray:
        """Whether a day is one of Monday to Friday, shape (D,)."""
        # 1970-01-01 was a Thursday.
        working: BoolArray = (self.dates + 3) % 7 < 5
        return working

    @property
    def shares(self) -> FloatArray:
        """Share of active slots of every day, from 6 to 25 h (18 to 24 h with solar panels)."""
        first, stop = (18, 24) if self.solar else (6, 25)
        chosen = (self.hours >= first) & (self.hours < stop)
        shares: FloatArray = self.active[:, chosen].mean(axis=1)
        return shares

    @property
    def usual(self) -> float:
        """Median share of active slots of a day; 0 without a day."""
        return float(np.median(self.shares)) if self.dates.size else 0.0

    @property
    def has_habits(self) -> bool:
        """True if days differ enough from nights to tell waking from sleep."""
        return (
            self.dates.size >= FEWEST_HABIT_DAYS
            and self.usual >= 0.15
            and self.contrast >= 1.3
            and self.night_busy <= 0.35
        )

    def away(self) -> BoolArray:
        """Step 3. Whether nobody was active on a day, shape (D,)."""
        if not self.can_find_away:
            return np.zeros(self.dates.size, np.bool_)
        return self.shares <= min(0.04, 0.15 * self.usual)

    @property
    def can_find_away(self) -> bool:
        """True if there are enough days, and days differ enough from nights, to find absences."""
        enough = self.dates.size >= FEWEST_AWAY_DAYS
        return enough and self.usual >= 0.15 and self.night_busy <= 0.5

    def wakes(self) -> FloatArray:
        """Hour of the first activity of every day before 13 h; NaN without one, shape (D,)."""
        morning = self.hours < 13
        starts = self.active[:, morning].copy()
        if self.slot_s <= QUARTER_S:
            # A single active slot may be a fridge; two more of the next four are people.
            padded = np.pad(self.active, ((0, 0), (0, 4)))
            following = np.lib.stride_tricks.sliding_window_view(padded[:, 1:], 4, axis=1)
            starts &= following.sum(axis=2)[:, morning] >= 2
        hours = self.hours[np.argmax(starts, axis=1)]
        return np.where(starts.any(axis=1), hours, np.nan)

    def quiets(self) -> FloatArray:
        """End of the last active slot after 18 h, in hours up to 28; NaN without one."""
        evening = self.active & (self.hours >= 18)
        last = evening.shape[1] - 1 - np.argmax(evening[:, ::-1], axis=1)
        ends = self.hours[last] + self.slot_s / SECONDS_PER_HOUR
        return np.where(evening.any(axis=1), ends, np.nan)


def find_activity(readings: LocalReadings) -> Activity:
    """Step 2. Decide for every slot whether people are active.

    Notes
    -----
    A slot is active if its mean, or the range of its minutes, exceeds what nights have: the 25 %
    quantile of the nightly maximum over the 14 nights before and after, times 1.1, plus 30 W for
    means and 60 W for ranges.
    """
    slot = slot_length(readings.interval_s)
    first_date, means = readings.grid(slot).by_date()
    active = means > _threshold(means, slot, MEAN_MARGIN_W)
    if slot >= 5 * readings.interval_s:
        ranges = _ranges(readings, slot, first_date, means.shape)
        ranges[np.isnan(means)] = np.nan
        active |= ranges > _threshold(ranges, slot, RANGE_MARGIN_W)
    hours = np.arange(means.shape[1]) * slot / SECONDS_PER_HOUR
    night = (hours >= NIGHT_H[0]) & (hours < NIGHT_H[1])
    nights = active[np.isfinite(means[:, night]).mean(axis=1) >= PRESENT][:, night]
    busy = nights.sum(axis=1) * slot >= 45 * MINUTE_S
    lead = DAY_STARTS_H * SECONDS_PER_HOUR // slot
    shifted, present = (
        np.vstack([m, np.zeros((1, m.shape[1]), np.bool_)])
        .ravel()[lead:][: m.size]
        .reshape(m.shape)
        for m in (active, np.isfinite(means))
    )
    complete = present.mean(axis=1) >= 0.95
    return Activity(
        slot,
        first_date + np.flatnonzero(complete),
        shifted[complete],
        share(busy),
        _contrast(means, hours),
        readings.solar,
    )


def _contrast(means: FloatArray, hours: FloatArray) -> float:
    """Return the median power of the evening divided by that of the night."""
    evening = means[:, (hours >= 18) & (hours < 22)]
    night = means[:, (hours >= 2) & (hours < 5)]
    evening, night = evening[np.isfinite(evening)], night[np.isfinite(night)]
    if not evening.size or not night.size:
        return 0.0
    low = float(np.median(night))
    return float(np.median(evening)) / low if low > 0 else 0.0


def _threshold(values: FloatArray, slot: int, margin: float) -> FloatArray:
    """Return the threshold of every date [W], shape (D, 1); infinite without a night nearby."""
    hours = np.arange(values.shape[1]) * slot / SECONDS_PER_HOUR
    night = values[:, (hours >= NIGHT_H[0]) & (hours < NIGHT_H[1])]
    known = np.isfinite(night).mean(axis=1) >= PRESENT
    nightly = np.where(known, np.max(np.where(np.isfinite(night), night, -np.inf), axis=1), np.nan)
    threshold = np.full((len(values), 1), np.inf)
    for date in range(len(values)):
        nearby = nightly[max(0, date - NEARBY_NIGHTS) : date + NEARBY_NIGHTS + 1]
        nearby = nearby[np.isfinite(nearby)]
        if nearby.size:
            threshold[date] = 1.1 * np.quantile(nearby, 0.25) + margin
    return threshold


def _ranges(
    readings: LocalReadings, slot: int, first_date: int, shape: tuple[int, ...]
) -> FloatArray:
    """Return the largest minus the smallest minute mean of every slot [W]."""
    minutes = readings.grid(cell_length(readings.interval_s, MINUTE_S))
    known = np.isfinite(minutes.watts)
    cells = np.floor_divide(minutes.local[known], slot).astype(np.int64)
    ranges = np.full(shape[0] * shape[1], np.nan)
    if cells.size:
        first = np.flatnonzero(np.diff(cells, prepend=cells[0] - 1))
        watts = minutes.watts[known]
        spread = np.maximum.reduceat(watts, first) - np.minimum.reduceat(watts, first)
        ranges[cells[first] - first_date * shape[1]] = spread
    return ranges.reshape(shape)


@dataclass(frozen=True)
class TypicalHour:
    """A clock time that most days share."""

    hour: float  # Median [h]; values above 24 are after midnight
    quartiles: tuple[float, float]  # The 25 % and the 75 % quantile [h]
    days: int  # Days behind it


def typical_wake(activity: Activity, *, working: bool) -> TypicalHour | None:
    """Return when the first activity of a day usually begins, or None if it is not clear."""
    chosen = activity.working if working else ~activity.working
    hours = activity.wakes()[chosen & ~activity.away()]
    known = hours[np.isfinite(hours)]
    if known.size < 4 or known.size < 0.8 * hours.size:
        return None
    if np.mean(known == DAY_STARTS_H) > 0.25:
        return None
    return _typical(known)


def typical_quiet(activity: Activity) -> TypicalHour | None:
    """Return when the last activity of a day usually ends, or None if it is not clear."""
    hours = activity.quiets()
    known = hours[np.isfinite(hours)]
    if activity.slot_s > QUARTER_S or activity.night_busy > 0.2 or known.size < 4:
        return None
    return _typical(known)


def _typical(hours: FloatArray) -> TypicalHour | None:
    """Return the median with its quartiles, or None if the quartiles are over 2 h apart."""
    low, middle, high = np.quantile(hours, [0.25, 0.5, 0.75])
    if high - low > 2:
        return None
    return TypicalHour(float(middle), (float(low), float(high)), int(hours.size))


@dataclass(frozen=True)
class EmptyHours:
    """Hours in which nobody is active on most working days."""

    # First hour, and the hour at which it ends [h]
    first: int
    stop: int
    days: int  # Working days behind it
    # Share of active slots in these hours on working days and at weekends
    active: float
    weekend: float


def empty_working_days(activity: Activity) -> EmptyHours | None:
    """Return the longest part of 8–19 h in which the home is empty on working days, or None."""
    present = ~activity.away()
    working, weekend = activity.working & present, ~activity.working & present
    if activity.solar or working.sum() < 10 or not weekend.any():
        return None
    hours = np.floor(activity.hours).astype(np.int64)
    by_hour = {h: float(activity.active[working][:, hours == h].mean()) for h in range(8, 19)}
    best = (0, 0)
    first = 8
    for hour in range(8, 20):
        if by_hour.get(hour, 1.0) > 0.2:
            best = max(best, (hour - first, -first))
            first = hour + 1
    length, first = best[0], -best[1]
    if length < 5:
        return None
    inside = (hours >= first) & (hours < first + length)
    at_work = float(activity.active[working][:, inside].mean())
    at_weekend = float(activity.active[weekend][:, inside].mean())
    if at_weekend - at_work < 0.12:
        return None
    return EmptyHours(first, first + length, int(working.sum()), at_work, at_weekend)


@dataclass(frozen=True)
class WeeklyEvent:
    """A part of one weekday on which the home uses more than on other days of its kind."""

    weekday: int  # 0 is Monday
    hour: int  # First hour of a block of 3 h
    # Weeks with a high value, and weeks of data
    high: int
    weeks: int
    others: float  # Share of high values on the other days of its kind
    dates: tuple[int, ...]  # Dates with a high value, in days since 1970


def weekly_events(readings: LocalReadings, away: IntArray) -> tuple[WeeklyEvent, ...]:
    """Step 4. Find events that return on one weekday.

    Notes
    -----
    A block of 3 h is high if it exceeds the 75 % quantile of the same block of all days. An event
    needs a hypergeometric p below 0.01/56 against the other days of its kind (Monday to Friday,
    or Saturday and Sunday), at least 70 % of its weeks high, at most 40 % of the others, and at
    least 5 weeks.
    """
    block_s = 3 * SECONDS_PER_HOUR
    if readings.interval_s > block_s or not readings.watts.size:
        return ()
    first, blocks = readings.grid(block_s).by_date()
    dates = first + np.arange(len(blocks))
    blocks[np.isin(dates, away)] = np.nan
    weekdays = (dates + 3) % 7
    events = []
    for column, values in enumerate(blocks.T):
        known = np.isfinite(values)
        if known.sum() < 35:
            continue
        high = known & (values > np.quantile(values[known], 0.75))
        for weekday in range(7):
            kind = known & ((weekdays < 5) == (weekday < 5))
            own, other = kind & (weekdays == weekday), kind & (weekdays != weekday)
            weeks, count = int(own.sum()), int((own & high).sum())
            others = share(high[other])
            if weeks < 5 or count < 0.7 * weeks or others > 0.4:
                continue
            if _chance(count, weeks, int((kind & high).sum()), int(kind.sum())) < 0.01 / 56:
                found = tuple(int(d) for d in dates[own & high])
                events.append(WeeklyEvent(weekday, 3 * column, count, weeks, others, found))
    return tuple(events)


def _chance(count: int, weeks: int, high: int, days: int) -> float:
    """Probability that at least `count` of `weeks` days, drawn from `days`, are high."""
    ways = sum(comb(high, k) * comb(days - high, weeks - k) for k in range(count, weeks + 1))
    return ways / comb(days, weeks)


@dataclass(frozen=True)
class Season:
    """The three months with the most use against the three with the least."""

    # First month of each, 1 is January
    high: int
    low: int
    # Mean power of each [W]
    high_w: float
    low_w: float

    @property
    def ratio(self) -> float:
        """Mean power of the high season divided by that of the low one."""
        return self.high_w / self.low_w


LEAST_SEASON_RATIO = 1.25
"""Ratio of seasons below which a year counts as even."""


def season(readings: LocalReadings) -> Season | None:
    """Return the high and the low season of at least a year, or None if the year is even."""
    if not readings.watts.size or readings.solar or readings.interval_s > SECONDS_PER_DAY:
        return None
    days = readings.grid(SECONDS_PER_DAY)
    known = np.isfinite(days.watts)
    dates = (days.first + np.flatnonzero(known)).astype("datetime64[D]")
    months = dates.astype("datetime64[M]").astype(np.int64) % 12
    counts = np.bincount(months, minlength=12)
    if dates.size < 330 or counts.min() < 15:
        return None
    monthly = np.bincount(months, weights=days.watts[known], minlength=12) / counts
    quarters = np.array([np.roll(monthly, -m)[:3].mean() for m in range(12)])
    high, low = int(np.argmax(quarters)), int(np.argmin(quarters))
    found = Season(high + 1, low + 1, float(quarters[high]), float(quarters[low]))
    return found if found.low_w > 0 and found.ratio >= LEAST_SEASON_RATIO else None
