"""Readings of one meter on the local clock of its home, and what repeats in their calendar.

A reading belongs to the clock time at which its interval starts; readings of a silent meter are
left out. Here are the base load, strong loads that return at the same hours, weekends, weekly
events, seasons and changes, and the form of every statement. `hushmeter.learn.rhythm` decides when
people are active, and `hushmeter.learn.statements` turns both into sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from math import comb, hypot
from typing import Any

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
    noise_w: float = 0.0  # Standard deviation of the noise of every reading [W]
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

    def hours_to_utc(self, hours: FloatArray | IntArray) -> FloatArray:
        """Return UTC seconds of local hours since 1970."""
        return self.to_utc(np.asarray(hours, dtype=np.float64) * SECONDS_PER_HOUR)

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

    @property
    def meter_step(self) -> float:
        """Power of which the means are multiples, as those of a meter that counts whole Wh [W]."""
        known = self.watts[np.isfinite(self.watts)][:100_000]
        levels = np.unique(np.round(known, 1))
        return float(np.quantile(np.diff(levels), 0.1)) if levels.size > 1 else 0.0

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


def clean(trace: Trace, zone: str, noise_w: float = 0.0) -> LocalReadings:
    """Step 0. Put the readings on the local clock and remove those of a silent meter.

    `noise_w` is the standard deviation of the noise of every reading [W], 0 for metered ones.

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
    silent = ((stop - first) * dt >= least) & (stop - first >= FEWEST_EQUAL) & (noise_w == 0)
    for k in np.flatnonzero(silent & zero & ((stop - first) * dt < 14 * SECONDS_PER_HOUR)):
        hours = local[first[k] : stop[k]] / SECONDS_PER_HOUR % 24
        silent[k] = np.mean((hours >= 7) & (hours < 19)) < 0.9
    keep = np.repeat(~silent, stop - first)
    stretches = np.column_stack([utc[first[silent]], utc[stop[silent] - 1] + dt])
    kept = watts[keep]
    hours = local[keep] / SECONDS_PER_HOUR % 24
    # Longer readings mix day and night.
    exports, zero_by_day = (
        _find_solar(kept, hours, noise_w) if dt <= SECONDS_PER_HOUR else (False, False)
    )
    zeros = float(np.mean(kept == 0)) if kept.size else 1.0
    return LocalReadings(
        zone, dt, utc[keep], local[keep], kept, stretches, exports, zero_by_day, zeros, noise_w
    )


def _find_solar(watts: FloatArray, hours: FloatArray, noise_w: float) -> tuple[bool, bool]:
    """Return whether readings are negative around noon, and whether they are zero by day."""
    if noise_w:
        noons = watts[(hours >= 10) & (hours < 15)]
        # The mean of many readings has little noise.
        return bool(noons.size and noons.mean() < -4 * noise_w / np.sqrt(noons.size) - 20), False
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


COARSE_W = 10.0
"""Step of a meter from which on means of 15 min tell more about a small load [W]."""


def base_load(readings: LocalReadings) -> float | None:
    """Step 1. Power that the home draws at all times [W]."""
    step = cell_length(readings.interval_s, MINUTE_S)
    if readings.grid(step).meter_step > COARSE_W:
        step = max(step, QUARTER_S)
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
class Repeats:
    """A strong load that returns within the same hours on most days."""

    # Hours between which it is found, from 4 to 28 [h]
    first: float
    stop: float
    least_w: float  # Power that it reaches [W]
    found: FloatArray  # Probability that it ran on a day; 0 or 1 without noise

    @property
    def count(self) -> int:
        """Number of days with it."""
        return round(float(self.found.sum()))


BLOCK_POWERS_W = (9000, 6000, 4500, 3000, 2000, 1500, 1000)
"""Powers of strong loads that are searched for, the strongest first [W]."""
BLOCK_HOURS = (1, 2, 3, 4)
"""Lengths of the hours within which a load returns."""
MOST_BLOCKS = 3
"""Largest number of returning loads that are stated."""
USUAL_SHARE, LEAST_SHARE = 0.8, 0.6
"""Share of days with a returning load that is preferred, and that is needed."""


def returning_loads(reached: dict[int, FloatArray], starts: FloatArray) -> list[Repeats]:
    """Find hours in which a strong load returns on most days and elsewhere on few.

    `reached` has for every power the probability that a slot of a day reaches it, shape (D, S), and
    `starts` are the starts of the slots [h]. Other windows of the same length must have it on less
    than half as many days.
    """
    found: list[Repeats] = []
    free = np.ones(starts.size, np.bool_)
    for least_share in (USUAL_SHARE, LEAST_SHARE):
        for power, chances in reached.items():
            best = _best_window(chances, starts, free, least_share)
            if best is None or len(found) == MOST_BLOCKS:
                continue
            first, stop, days = best
            step = float(starts[1] - starts[0])
            found.append(Repeats(starts[first], starts[stop - 1] + step, power, days))
            free[max(0, first - 1) : stop + 1] = False
    return sorted(found, key=lambda one: one.first)


def _any(chances: FloatArray) -> FloatArray:
    """Probability that any slot of a day reaches a power."""
    return np.asarray(1 - np.prod(1 - chances, axis=1))


def _best_window(
    chances: FloatArray, starts: FloatArray, free: BoolArray, least_share: float
) -> tuple[int, int, FloatArray] | None:
    """Return the shortest window with nearly the largest share of days, and its days."""
    per_hour = round(1 / (starts[1] - starts[0]))
    best: tuple[int, int, FloatArray] | None = None
    for hours in BLOCK_HOURS:
        length = hours * per_hour
        windows = range(0, starts.size - length + 1, max(1, per_hour // 2))
        days = {w: _any(chances[:, w : w + length]) for w in windows}
        shares = {w: float(d.mean()) for w, d in days.items()}
        allowed = [w for w in windows if free[w : w + length].all()]
        if not allowed:
            continue
        top = max(allowed, key=lambda w: shares[w])
        others = [s for w, s in shares.items() if abs(w - top) >= length]
        seldom = not others or float(np.mean(others)) <= 0.5 * shares[top]
        better = best is None or shares[top] > best[2].mean() + 0.04
        if shares[top] >= least_share and seldom and better:
            best = (top, top + length, days[top])
    return best


def weekends(
    means: FloatArray, working: BoolArray, *, forced: bool = False
) -> dict[str, Any] | None:
    """Compare weekends and working days; None if they may be equal, unless forced."""
    one, other = means[working], means[~working]
    if min(one.size, other.size) < 4 or one.mean() <= 0 or other.mean() <= 0:
        return None
    error = np.sqrt(one.var(ddof=1) / one.size + other.var(ddof=1) / other.size)
    ratio = float(other.mean() / one.mean())
    clear = abs(other.mean() - one.mean()) >= 4 * error
    if not forced and not (clear and abs(np.log(ratio)) >= np.log(1.15)):
        return None
    return {
        # Four digits: under noise a ratio may be so small that three decimals would make it zero.
        "ratio": float(f"{ratio:.4g}"), "watts": round(float(other.mean()), 1),
        "working_watts": round(float(one.mean()), 1), "count": means.size,
    }  # fmt: skip


def find_change(values: FloatArray, least: float, fewest: int = 10) -> tuple[int, float, float]:
    """Return the place at which the mean of a series changes, with the means before and after.

    The place is 0 if no change of at least `least` exceeds 5.5 standard errors; a search over all
    places of an even series of 400 values exceeds them in less than one of 10 000 series.
    """
    best, answer = 5.5, (0, 0.0, 0.0)
    for place in range(fewest, values.size - fewest + 1):
        before, after = values[:place], values[place:]
        spread = before.var(ddof=1) / before.size + after.var(ddof=1) / after.size
        step = abs(float(after.mean() - before.mean()))
        score = step / np.sqrt(max(spread, 1e-9))
        if step >= least and score > best:
            best, answer = score, (place, float(before.mean()), float(after.mean()))
    return answer


MOST_CHANCE = 0.001 / 56
"""Largest chance of a weekly event by accident, for 56 blocks of a week."""


def weekly_events(readings: LocalReadings, away: IntArray) -> list[Finding]:
    """Step 4. State events that return on one weekday.

    Notes
    -----
    A block of 3 h is high if it exceeds the 75 % quantile of the same block of all days. An event
    needs a hypergeometric p below 0.001/56 against the other days of its kind (Monday to Friday,
    or Saturday and Sunday), at least 70 % of its weeks high, at most 40 % of the others, and at
    least 5 weeks.
    """
    block_s = 3 * SECONDS_PER_HOUR
    if readings.interval_s > block_s or readings.solar or not readings.watts.size:
        return []
    first, blocks = readings.grid(block_s).by_date()
    dates = first + np.arange(len(blocks))
    blocks[np.isin(dates, away)] = np.nan
    weekdays = (dates + 3) % 7
    events: dict[int, list[tuple[int, IntArray, int, float]]] = {}
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
            if _chance(count, weeks, int((kind & high).sum()), int(kind.sum())) < MOST_CHANCE:
                found = 3 * column, dates[own & high], weeks, others
                events.setdefault(weekday, []).append(found)
    return [_weekly_event(readings, weekday, events[weekday]) for weekday in sorted(events)]


def _weekly_event(
    readings: LocalReadings, weekday: int, blocks: list[tuple[int, IntArray, int, float]]
) -> Finding:
    """State the events of one weekday: first hour, dates, weeks and the share of other days."""
    kind = "other working days" if weekday < 5 else "the other day of the weekend"
    spans = [(3 * a, 3 * b + 3) for a, b in spans_of(np.array([h // 3 for h, *_ in blocks]))]
    listed = join_words([f"{clock(first)} to {clock(stop)}" for first, stop in spans])
    _, dates, weeks, others = max(blocks, key=lambda block: block[1].size / block[2])
    text = (
        f"On {WEEKDAYS[weekday]}s the home uses more than on {kind} from {listed}: in {dates.size} "
        f"of {weeks} weeks."
    )
    evidence = {
        "weekday": weekday, "hours": [list(span) for span in spans], "count": int(dates.size),
        "weeks": weeks, "others_share": round(others, 3),
    }  # fmt: skip
    hours = np.sort(np.concatenate([found * 24 + hour for hour, found, *_ in blocks]))
    marks = readings.hours_to_utc(np.column_stack([hours, hours + 3]))
    return Finding("weekly", text, evidence, "sure", marks)


def _chance(count: int, weeks: int, high: int, days: int) -> float:
    """Probability that at least `count` of `weeks` days, drawn from `days`, are high."""
    ways = sum(comb(high, k) * comb(days - high, weeks - k) for k in range(count, weeks + 1))
    return ways / comb(days, weeks)


LEAST_SEASON_RATIO = 1.25
"""Ratio of seasons below which a year counts as even."""
SEASON_ERRORS = 5.0
"""Standard errors by which the seasons must differ; they are the extremes of twelve quarters."""


def season(readings: LocalReadings) -> dict[str, Any] | None:
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
    watts = days.watts[known]
    monthly = np.bincount(months, weights=watts, minlength=12) / counts
    quarters = np.array([np.roll(monthly, -m)[:3].mean() for m in range(12)])
    high, low = int(np.argmax(quarters)), int(np.argmin(quarters))
    most, least = float(quarters[high]), float(quarters[low])
    error = hypot(*(_weekly_error(watts, dates, (months - m) % 12 < 3) for m in (high, low)))
    if least <= 0 or most < LEAST_SEASON_RATIO * least or most - least < SEASON_ERRORS * error:
        return None
    return {
        "ratio": round(most / least, 3), "high_month": high + 1, "low_month": low + 1,
        "high_watts": round(most, 1), "low_watts": round(least, 1),
    }  # fmt: skip


def _weekly_error(watts: FloatArray, dates: TimeArray, chosen: BoolArray) -> float:
    """Standard error of the mean of days, from the means of their weeks."""
    weeks = np.unique(dates[chosen].astype(np.int64) // 7, return_inverse=True)[1]
    means = np.bincount(weeks, weights=watts[chosen]) / np.bincount(weeks)
    return float(means.std(ddof=1) / np.sqrt(means.size))


CERTAINTIES = ("sure", "likely", "about", "at least", "at most")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Finding:
    """One statement about a home.

    Attributes
    ----------
    kind : str
        Stable name of the kind of statement, such as "base-load" or "kettle".
    sentence : str
        The statement in plain words, with how often and when.
    evidence : dict
        The numbers behind it. The unit is part of the key: watts, seconds, hour, per_day.
    certainty : {"sure", "likely", "about", "at least", "at most"}
        How the numbers of the sentence are meant.
    marks : FloatArray, shape (M, 2)
        Starts and ends of what supports the statement; UTC [s since 1970].

    Examples
    --------
    >>> home = hm.synth.household(days=21, interval_s=900, seed=1)
    >>> hm.findings(home.trace, tz=home.zone).findings[0].certainty
    'about'
    """

    kind: str
    sentence: str
    evidence: dict[str, Any]
    certainty: str
    marks: FloatArray = field(default_factory=lambda: np.zeros((0, 2)))

    def to_dict(self) -> dict[str, Any]:
        """Return everything in plain types."""
        return {
            "kind": self.kind,
            "sentence": self.sentence,
            "evidence": self.evidence,
            "certainty": self.certainty,
            "marks": np.rint(self.marks).astype(np.int64).tolist(),
        }


@dataclass(frozen=True, eq=False)
class Findings:
    """What the readings of one meter show.

    Attributes
    ----------
    findings : tuple of Finding
        The statements, those about people first.
    notes : tuple of str
        What affects all statements: the time zone, solar panels, a silent meter.
    withheld : tuple of str
        What is not stated, and why.
    silent : FloatArray, shape (K, 2)
        Stretches in which the meter reported one value only; UTC [s since 1970].
    zone : str
        Time zone of all clock times.
    days : float
        Amount of readings without the silent stretches [days].

    Examples
    --------
    >>> home = hm.synth.household(days=21, interval_s=900, seed=1)
    >>> hm.findings(home.trace, tz=home.zone).days
    21.0
    """

    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    withheld: tuple[str, ...]
    silent: FloatArray
    zone: str
    days: float

    def of_kind(self, kind: str) -> tuple[Finding, ...]:
        """Return the findings of one kind."""
        return tuple(f for f in self.findings if f.kind == kind)

    def to_dict(self) -> dict[str, Any]:
        """Return everything in plain types."""
        return {
            "findings": [finding.to_dict() for finding in self.findings],
            "notes": list(self.notes),
            "withheld": list(self.withheld),
            "silent": np.rint(self.silent).astype(np.int64).tolist(),
            "zone": self.zone,
            "days": round(self.days, 3),
        }


def spans_of(numbers: IntArray) -> list[tuple[int, int]]:
    """Return the first and the last of every stretch of consecutive ascending numbers."""
    cuts = np.flatnonzero(np.diff(numbers) > 1) + 1
    return [(int(part[0]), int(part[-1])) for part in np.split(numbers, cuts)]


def hour_spans(chosen: BoolArray) -> list[tuple[int, int]]:
    """Return first and end hour of every stretch; one that crosses midnight is not cut."""
    hours = np.flatnonzero(chosen)
    if not hours.size:
        return []
    spans = [(first, last + 1) for first, last in spans_of(hours)]
    if len(spans) > 1 and spans[0][0] == 0 and spans[-1][1] == 24:
        spans = [*spans[1:-1], (spans[-1][0], spans[0][1])]
    return spans


def clock(hour: float) -> str:
    """Format an hour of the day to the quarter hour, as 7:15."""
    minutes = round(hour * 4) * 15 % 1440
    return f"{minutes // 60}:{minutes % 60:02d}" if minutes else "midnight"


def length(seconds: float) -> str:
    """Format a length of time with two digits: 45 s, 2 min, 95 min, 2.5 h."""
    if seconds < 90:
        return f"{float(f'{seconds:.2g}'):g} s"
    if seconds < 2 * SECONDS_PER_HOUR:
        return f"{seconds / 60:.2g} min" if seconds < 600 else f"{seconds / 60:.0f} min"
    return f"{seconds / SECONDS_PER_HOUR:.2g} h"


def join_words(parts: Sequence[str]) -> str:
    """Join with commas and a final "and"."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def date_range(first: int, last: int) -> str:
    """Format dates, given in days since 1970."""
    a, b = (date(1970, 1, 1) + timedelta(days=d) for d in (first, last))
    end = f"{b.day} {MONTHS[b.month - 1]} {b.year}"
    if a == b:
        return end
    if (a.year, a.month) == (b.year, b.month):
        return f"{a.day} to {end}"
    start = f"{a.day} {MONTHS[a.month - 1]}"
    return f"{start} {a.year} to {end}" if a.year != b.year else f"{start} to {end}"
