"""When people are active, from how days repeat: a hidden Markov chain over the slots of a day.

Every slot of a day is *quiet* or *in use*. The chance to change from one to the other depends on
the slot and on the kind of day (working day or weekend) and is learnt from all days together, and
so are the distributions of the power in both states. A day on which nobody is at home is quiet as a
whole; such days follow each other. Everything is computed with the known standard deviation of the
noise, so that the same code reads metered and released values.

Powers are taken above those of the nights before and after, because heating, cooling and what is
always on change with the season.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.learn.habits import (
    DAY_STARTS_H,
    NIGHT_H,
    QUARTER_S,
    LocalReadings,
    slot_length,
)
from hushmeter.trace import SECONDS_PER_HOUR

NEARBY_NIGHTS = 14
"""Nights before and after a night from which its level is estimated where noise hides its own."""
POINTS = 32
"""Support points of the distributions of power."""
KERNEL_W, KERNEL_SHARE = 12.0, 0.12
"""Width of a support point: watts, and share of its power."""
ROUNDS = 20
"""Steps of the EM algorithm."""
AGAIN = 5
"""Steps with which a chain is fitted again to a part of the days."""
PRIOR_DAYS = 4.0
"""Days by which the usual rates of change count beside the days of the home."""
CHANGES_PER_HOUR = 0.15
"""Usual chance to change between quiet and use within an hour."""
ASLEEP = 0.95
"""Share of homes that are quiet at an hour of the night."""
STAYS_AWAY, LEAVES = 0.75, 0.02
"""Chance that a day away is followed by another one, and a day at home by a day away."""
PARTS_H = (DAY_STARTS_H, 10, 17, 21, DAY_STARTS_H + 24)
"""Hours at which the parts of a day begin that differ in what people use: meals, heat, light."""
EXCEPTIONS = 0.01
"""Share of the slots of a day away with use, such as a freezer that defrosts or a timer."""
GROUPS = 5
"""Parts of the days that are left out in turn to measure how far an answer depends on them."""


@dataclass(frozen=True, eq=False)
class Days:
    """Powers of complete days from 04:00 to 04:00 above the nights around them."""

    slot_s: int  # Length of a slot [s]
    dates: IntArray  # Date of every day, in days since 1970
    watts: FloatArray  # Power of every slot above the level of the nights [W]; NaN if missing
    night_w: FloatArray  # Level of the nights around every slot [W]
    noise_w: FloatArray  # Standard deviation of the noise of every slot [W]

    def __len__(self) -> int:
        return int(self.dates.size)

    @property
    def hours(self) -> FloatArray:
        """Start of every slot of a day [h], from 4 to 28."""
        slots = np.arange(self.watts.shape[1], dtype=np.float64)
        return DAY_STARTS_H + slots * (self.slot_s / SECONDS_PER_HOUR)

    @property
    def working(self) -> BoolArray:
        """Whether a day is one of Monday to Friday, shape (D,)."""
        # 1970-01-01 was a Thursday.
        working: BoolArray = (self.dates + 3) % 7 < 5
        return working

    @property
    def parts(self) -> IntArray:
        """Number of the part of the day of every slot, shape (S,)."""
        parts: IntArray = np.searchsorted(PARTS_H, self.hours, side="right") - 1
        return parts

    def take(self, rows: IntArray | BoolArray) -> Days:
        """Return some of the days."""
        return Days(
            self.slot_s, self.dates[rows], self.watts[rows], self.night_w[rows], self.noise_w[rows]
        )


def cut_days(readings: LocalReadings, slot_s: int | None = None) -> Days:
    """Cut readings into complete days from 04:00 to 04:00."""
    slot = slot_s or slot_length(readings.interval_s)
    first, means = readings.grid(slot).by_date()
    noise = readings.noise_w * np.sqrt(readings.interval_s / slot)
    hours = np.arange(means.shape[1]) * slot / SECONDS_PER_HOUR
    if readings.solar:
        means[:, (hours >= NIGHT_H[1]) & (hours < 18)] = np.nan
    level = _night_levels(means[:, (hours >= NIGHT_H[0]) & (hours < NIGHT_H[1])], noise)
    lead = round(DAY_STARTS_H * SECONDS_PER_HOUR / slot)
    shifted = np.full(means.shape, np.nan)
    flat = means.ravel()[lead:]
    shifted.ravel()[: flat.size] = flat
    hours = DAY_STARTS_H + hours
    after = np.append(level[1:], np.nan)
    after = np.where(np.isfinite(after), after, level)
    middle = sum(NIGHT_H) / 2
    weight = (hours - middle) / 24
    nights = level[:, None] * (1 - weight) + after[:, None] * weight
    above = shifted - nights
    counted = (hours >= 18) if readings.solar else np.ones(hours.size, np.bool_)
    complete = np.isfinite(above[:, counted]).mean(axis=1) >= 0.95
    return Days(
        slot,
        first + np.flatnonzero(complete),
        above[complete],
        nights[complete],
        np.full(above[complete].shape, noise),
    )


def _night_levels(nights: FloatArray, noise: float) -> FloatArray:
    """Return the level of every night [W]: its own median, or that of the nights around it.

    The median of its own slots counts by the share of its variance that is not noise.
    """
    levels = np.full(len(nights), np.nan)
    known = np.isfinite(nights).mean(axis=1) >= 0.7 if nights.size else np.zeros(0, np.bool_)
    if not known.any():
        return levels
    own = np.full(len(nights), np.nan)
    own[known] = np.nanmedian(nights[known], axis=1)
    around = np.full(len(nights), np.nan)
    for night in range(len(nights)):
        near = own[max(0, night - NEARBY_NIGHTS) : night + NEARBY_NIGHTS + 1]
        near = near[np.isfinite(near)]
        # Under noise the mean of the nights is more exact than their median.
        if near.size:
            around[night] = near.mean() if noise > near.std() / 2 else np.median(near)
    spread = float(np.nanvar(own - around))
    # The median of n slots has 1.57 times the variance of their mean.
    error = 1.57 * noise**2 / max(1, nights.shape[1])
    weight = max(0.0, 1 - error / spread) if spread > 0 else 1.0
    return np.where(np.isfinite(own), around + weight * (own - around), around)


@dataclass(frozen=True, eq=False)
class Chain:
    """Distributions of the power in both states, and the chances to change between them."""

    support: FloatArray  # Powers above the night [W], shape (K,)
    # Weights of the support points: quiet, and in use in each part of a day, shape (1 + P, K)
    emission: FloatArray
    # Chance to change into the other state at a slot, by kind of day: shape (2 kinds, S, 2 states)
    change: FloatArray

    @property
    def means(self) -> tuple[float, float]:
        """Mean power above the night while quiet and in use [W]."""
        quiet, *used = (self.emission @ self.support).tolist()
        return quiet, float(np.mean(used))

    @property
    def unevenness(self) -> float:
        """Standard deviation of the power of quiet slots [W]."""
        mean = float(self.emission[0] @ self.support)
        return float(np.sqrt(self.emission[0] @ (self.support - mean) ** 2))

    @property
    def contrast(self) -> FloatArray:
        """Probability that use exceeds what is drawn while quiet, by part of the day."""
        below = np.cumsum(self.emission[0]) - 0.5 * self.emission[0]
        contrast: FloatArray = self.emission[1:] @ below
        return contrast


@dataclass(frozen=True, eq=False)
class Rhythm:
    """What the chain says about every slot of every day."""

    days: Days
    chain: Chain
    used: FloatArray  # Probability that a slot is in use, shape (D, S)
    away: FloatArray  # Probability that nobody was active on a day, shape (D,)
    first: FloatArray  # Probability that a slot is the first in use, shape (D, S)
    last: FloatArray  # Probability that a slot is the last in use, shape (D, S)


def find_rhythm(days: Days) -> Rhythm:
    """Fit the chain to days by the EM algorithm and return what it says about them."""
    support = _support(days)
    likelihood = _likelihoods(days, support)
    return _fit(days, _first_chain(days, support, likelihood), likelihood, ROUNDS)


def _fit(days: Days, chain: Chain, likelihood: FloatArray, rounds: int) -> Rhythm:
    for _ in range(rounds):
        chain = _improve(days, chain, likelihood)
    return _read(days, chain, likelihood)


def _support(days: Days) -> FloatArray:
    """Return support points, dense around zero and spread up to the largest load [W]."""
    noise = float(days.noise_w.mean()) if days.noise_w.size else 0.0
    known = days.watts[np.isfinite(days.watts)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    if noise:
        # The support covers the loads and not their noise.
        low, high = 0.7 * max(low, -3 * noise), 0.7 * high
    ends = np.arcsinh(np.array([min(low, -50.0), max(high, 200.0)]) / 50)
    points: FloatArray = 50 * np.sinh(np.linspace(ends[0], ends[1], POINTS))
    return points


def point_likelihoods(
    watts: FloatArray,
    noise_w: FloatArray,
    support: FloatArray,
    width: tuple[float, float] = (KERNEL_W, KERNEL_SHARE),
) -> FloatArray:
    """Return the likelihood of every support point, with the last axis for the points.

    `width` is that of a point: watts, and share of its power. Missing powers have likelihood 1.
    """
    widths = width[0] ** 2 + (width[1] * support) ** 2
    variance = noise_w[..., None] ** 2 + widths
    logs = -0.5 * (watts[..., None] - support) ** 2 / variance - 0.5 * np.log(variance)
    logs -= np.nan_to_num(logs.max(axis=-1, keepdims=True))
    np.maximum(logs, -60.0, out=logs)
    missing = ~np.isfinite(watts)
    likelihood: FloatArray = np.exp(logs, out=logs)
    likelihood[missing] = 1.0
    return likelihood


def _likelihoods(days: Days, support: FloatArray) -> FloatArray:
    return point_likelihoods(days.watts, days.noise_w, support)


def _first_chain(days: Days, support: FloatArray, likelihood: FloatArray) -> Chain:
    """Start from nights for the quiet state, and from the busiest hours for the other one."""
    slots = days.watts.shape[1]
    per_slot = CHANGES_PER_HOUR * days.slot_s / SECONDS_PER_HOUR
    change = np.full((2, slots, 2), min(0.5, per_slot))
    hours = days.hours % 24
    night = (hours >= NIGHT_H[0]) & (hours < NIGHT_H[1])
    flat = np.full(POINTS, 1 / POINTS)
    quiet = deconvolve(likelihood[:, night], flat)
    emission, day = [quiet], (days.hours >= 7) & (days.hours < 23)
    for part in range(len(PARTS_H) - 1):
        use = deconvolve(likelihood[:, day & (days.parts == part)], flat)
        # What is seen by day and not at night is use.
        use = np.maximum(use - 0.5 * quiet, 0) * (support > 0) + 1e-4 * (support > 0)
        emission.append(use / use.sum())
    return Chain(support, np.array(emission), change)


def deconvolve(likelihood: FloatArray, weights: FloatArray, rounds: int = 30) -> FloatArray:
    """Return the weights of the support points of powers with noise, by the EM algorithm."""
    rows = likelihood.reshape(-1, weights.size)
    for _ in range(rounds if len(rows) else 0):
        joint = weights * (rows.T @ (1 / (rows @ weights))) / len(rows)
        weights = (joint + 1e-6) / (joint + 1e-6).sum()
    return weights


@dataclass(frozen=True, eq=False)
class _Passes:
    """Scaled forward and backward passes over the slots of all days."""

    forward: FloatArray  # (D, S, 2)
    backward: FloatArray  # (D, S, 2)
    density: FloatArray  # Likelihood of both states, (D, S, 2)
    scale: FloatArray  # (D, S)
    change: FloatArray  # Chances of every day, (D, S, 2)


def _pass(days: Days, chain: Chain, likelihood: FloatArray) -> _Passes:
    found = likelihood @ chain.emission.T
    use = np.take_along_axis(found, 1 + days.parts[None, :, None], axis=2)
    density = np.concatenate([found[..., :1], use], axis=2)
    hours = days.hours % 24
    night = (hours >= NIGHT_H[0]) & (hours < NIGHT_H[1])
    density[:, night, 1] *= (1 - ASLEEP) / ASLEEP
    change = chain.change[days.working.astype(np.int64)]
    forward, backward, scale = forward_backward(density, change, 1 - ASLEEP)
    return _Passes(forward, backward, density, scale, change)


def forward_backward(
    density: FloatArray, change: FloatArray, start: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return both passes of every day, scaled, and the scales.

    `density` is the likelihood of both states and `change` the chance to leave a state at a slot,
    shape (D, S, 2) each; `start` is the chance of the second state before the first slot.
    """
    count, slots, _ = density.shape
    forward, backward = np.empty(density.shape), np.ones(density.shape)
    scale = np.empty((count, slots))
    quiet, used = np.full(count, 1 - start), np.full(count, start)
    for s in range(slots):
        if s:
            up, down = quiet * change[:, s, 0], used * change[:, s, 1]
            quiet, used = quiet - up + down, used - down + up
        quiet, used = quiet * density[:, s, 0], used * density[:, s, 1]
        scale[:, s] = quiet + used
        quiet, used = quiet / scale[:, s], used / scale[:, s]
        forward[:, s, 0], forward[:, s, 1] = quiet, used
    for s in range(slots - 1, 0, -1):
        quiet, used = (density[:, s] * backward[:, s] / scale[:, s, None]).T
        up, down = change[:, s, 0], change[:, s, 1]
        backward[:, s - 1, 0] = (1 - up) * quiet + up * used
        backward[:, s - 1, 1] = (1 - down) * used + down * quiet
    return forward, backward, scale


def _improve(days: Days, chain: Chain, likelihood: FloatArray) -> Chain:
    """One step of the EM algorithm."""
    run = _pass(days, chain, likelihood)
    lived = 1 - _away(days, run)
    used = run.forward * run.backward
    weights = used * lived[:, None, None]
    weights[..., 0] += (1 - lived)[:, None]
    known = np.isfinite(days.watts)[..., None]
    shares = np.where(known, weights / run.density, 0.0)
    emission = np.empty_like(chain.emission)
    for row in range(len(emission)):
        where = np.ones(known.shape[1], np.bool_) if row == 0 else days.parts == row - 1
        share = shares[:, where, min(row, 1)].ravel()
        joint = share @ likelihood[:, where].reshape(share.size, -1) * chain.emission[row] + 1e-3
        emission[row] = joint / joint.sum()
    return Chain(chain.support, emission, _changes(days, run, lived))


def _changes(days: Days, run: _Passes, lived: FloatArray) -> FloatArray:
    """Chances to change at every slot, smoothed over neighbouring slots."""
    slots = run.forward.shape[1]
    ahead = run.density * run.backward / run.scale[..., None]
    prior = min(0.5, CHANGES_PER_HOUR * days.slot_s / SECONDS_PER_HOUR)
    found = np.empty((2, slots, 2))
    for kind in (0, 1):
        weight = (lived * (days.working == bool(kind)))[:, None, None]
        before = run.forward[:, :-1]
        leave = before * run.change[:, 1:] * ahead[:, 1:, ::-1]
        stay = before * (1 - run.change[:, 1:]) * ahead[:, 1:]
        counts = [np.pad((weight * c).sum(axis=0), ((1, 0), (0, 0))) for c in (leave, stay)]
        left, kept = (_smooth(c) for c in counts)
        found[kind] = (left + PRIOR_DAYS * prior) / (left + kept + PRIOR_DAYS)
    return np.clip(found, 1e-4, 0.9)


def _smooth(counts: FloatArray) -> FloatArray:
    """Average with a quarter of both neighbours."""
    padded = np.pad(counts, ((1, 1), (0, 0)), mode="edge")
    return 0.25 * padded[:-2] + 0.5 * padded[1:-1] + 0.25 * padded[2:]


def _away(days: Days, run: _Passes) -> FloatArray:
    """Probability that a day is quiet as a whole; days away follow each other."""
    if not len(days):
        return np.zeros(0)
    lived = np.log(run.scale).sum(axis=1)
    exceptions = np.array([1 - EXCEPTIONS, EXCEPTIONS])
    quiet = np.log(run.density @ exceptions).sum(axis=1)
    near = np.append(np.inf, np.diff(days.dates)) <= NEAR_DAYS
    return np.array(_chain_of_days(np.exp(np.clip(quiet - lived, -50, 50)).tolist(), near.tolist()))


NEAR_DAYS = 3
"""Days between two complete days up to which an absence counts as one."""


def _chain_of_days(odds: list[float], near: list[bool]) -> list[float]:
    """Probability of every day to be one away, from its odds and from the days around it."""
    usual = LEAVES / (LEAVES + 1 - STAYS_AWAY)
    count = len(odds)
    before = [0.0] * count
    away = usual
    for d in range(count):
        prior = away * STAYS_AWAY + (1 - away) * LEAVES if near[d] else usual
        away = prior * odds[d] / (prior * odds[d] + 1 - prior)
        before[d] = away
    found = before.copy()
    ahead_lived, ahead_away = 1.0, 1.0
    for d in range(count - 2, -1, -1):
        if near[d + 1]:
            there = ahead_away * odds[d + 1]
            ahead_away, ahead_lived = (
                STAYS_AWAY * there + (1 - STAYS_AWAY) * ahead_lived,
                LEAVES * there + (1 - LEAVES) * ahead_lived,
            )
            total = ahead_away + ahead_lived
            ahead_away, ahead_lived = ahead_away / total, ahead_lived / total
        else:
            ahead_away, ahead_lived = 1.0, 1.0
        joint = before[d] * ahead_away
        found[d] = joint / (joint + (1 - before[d]) * ahead_lived)
    return found


def _read(days: Days, chain: Chain, likelihood: FloatArray) -> Rhythm:
    run = _pass(days, chain, likelihood)
    away = _away(days, run)
    used = (run.forward * run.backward)[..., 1]
    first = _first_use(run)
    # A day without any use is a day on which nobody is active, whether or not people are at home.
    away = np.clip(1 - (1 - away) * first.sum(axis=1), 0, 1)
    return Rhythm(days, chain, used, away, first, _last_use(run))


def _first_use(run: _Passes) -> FloatArray:
    """Probability that all slots before a slot are quiet and this one is in use."""
    found: FloatArray = np.zeros_like(run.scale)
    quiet = (run.forward * run.backward)[:, 0, 0]
    found[:, 0] = 1 - quiet
    ahead = run.density * run.backward / run.scale[..., None]
    for s in range(1, len(found.T)):
        stay = (1 - run.change[:, s, 0]) * ahead[:, s, 0]
        leave = run.change[:, s, 0] * ahead[:, s, 1]
        total = np.maximum(stay + leave, 1e-300)
        found[:, s] = quiet * leave / total
        quiet = quiet * stay / total
    return found


def _last_use(run: _Passes) -> FloatArray:
    """Probability that this slot is in use and all slots after it are quiet."""
    found: FloatArray = np.zeros_like(run.scale)
    quiet = run.forward[:, -1, 0]
    found[:, -1] = 1 - quiet
    for s in range(len(found.T) - 2, -1, -1):
        stay = run.forward[:, s, 0] * (1 - run.change[:, s + 1, 0])
        came = run.forward[:, s, 1] * run.change[:, s + 1, 1]
        total = np.maximum(stay + came, 1e-300)
        found[:, s] = quiet * came / total
        quiet = quiet * stay / total
    return found


FEWEST_OF_A_KIND = 4
"""Days of a kind that a typical hour needs."""
FIRST_H, LAST_H = (float(DAY_STARTS_H), 13.0), (18.0, DAY_STARTS_H + 24.0)
"""Hours between which the first and the last use of a day are searched for."""
LEAST_CONTRAST, MOST_UNEVEN_W = 0.9, 150.0
"""Contrast from which on use is told from quiet, and largest spread of quiet slots [W]."""
MOST_SPREAD_H, MOST_ERROR_H = 2.5, 0.35
"""Largest distance of the quartiles of a typical hour, and its largest standard error [h]."""


@dataclass(frozen=True)
class TypicalHour:
    """A clock time that most days of a kind share."""

    hour: float  # Median [h]; values above 24 are after midnight
    quartiles: tuple[float, float]  # The 25 % and the 75 % quantile [h]
    error: float  # Standard error of the median [h]
    days: int  # Days behind it


def typical_hours(rhythm: Rhythm) -> dict[tuple[str, bool], TypicalHour]:
    """Return the typical first and last use, by ("first" or "last", working day), where clear.

    Notes
    -----
    A time is clear if use differs from quiet in its part of the day, if quiet slots are even, if
    most days have it within a few hours, and if it hardly depends on single weeks: its standard
    error is that of a jackknife in which the chain is fitted again without each fifth of the weeks.
    """
    days, chain = rhythm.days, rhythm.chain
    whole = {
        (name, working): _quartiles(rhythm, name, working)
        # Cooling that fades in the night looks like use in slots of more than 15 min.
        for name in (("first", "last") if days.slot_s <= QUARTER_S else ("first",))
        for working in (True, False)
    }
    clear = {key: found for key, found in whole.items() if found and _has_contrast(chain, found[1])}
    if not clear or chain.unevenness > MOST_UNEVEN_W:
        return {}
    likelihood, group = _likelihoods(days, chain.support), (days.dates // 7) % GROUPS
    kept = [k for k in (group != g for g in range(GROUPS)) if 0 < k.sum() < k.size]
    fits = [_fit(days.take(k), chain, likelihood[k], AGAIN) for k in kept]
    answer = {}
    for key, (low, middle, high, count) in clear.items():
        known = [h[1] for h in (_quartiles(fit, *key) for fit in fits) if h is not None]
        error = float(np.sqrt((len(known) - 1) * np.var(known))) if len(known) > 2 else np.inf
        if error <= MOST_ERROR_H:
            answer[key] = TypicalHour(middle, (low, high), error, count)
    return answer


def best_hours(rhythm: Rhythm) -> dict[tuple[str, bool], TypicalHour]:
    """Return the most likely first and last use, clear or not.

    It is the mean of the median of the chain and of the steepest change of the mean day, or the
    median alone if both are far apart.
    """
    answer = {}
    for name in ("first", "last"):
        for working in (True, False):
            found = _quartiles(rhythm, name, working, clear=False)
            if found is not None:
                low, middle, high, count = found
                steep = steepest_hour(rhythm, name, working)
                hour = (middle + steep) / 2 if abs(middle - steep) <= FAR_APART_H else middle
                answer[name, working] = TypicalHour(hour, (low, high), np.inf, count)
    return answer


FAR_APART_H = 1.5
"""Distance from which on two estimates of an hour contradict each other [h]."""


def _quartiles(
    rhythm: Rhythm, name: str, working: bool, *, clear: bool = True
) -> tuple[float, float, float, int] | None:
    """Quartiles of the first or last use and the days behind them; None if they are not clear."""
    days = rhythm.days
    begin, end = FIRST_H if name == "first" else LAST_H
    inside = (days.hours >= begin) & (days.hours < end)
    weight = (1 - rhythm.away) * (days.working == working)
    if weight.sum() < FEWEST_OF_A_KIND:
        return None
    mass = (rhythm.first if name == "first" else rhythm.last)[:, inside]
    total = (weight[:, None] * mass).sum(axis=0)
    edges = np.append(days.hours[inside], days.hours[inside][-1] + days.slot_s / SECONDS_PER_HOUR)
    cumulated = np.append(0.0, np.cumsum(total + 1e-12))
    low, middle, high = np.interp([0.25, 0.5, 0.75], cumulated / cumulated[-1], edges).tolist()
    if not clear:
        return low, middle, high, round(float(weight.sum()))
    if cumulated[-1] < 0.8 * weight.sum() or high - low > MOST_SPREAD_H:
        return None
    early = float(np.interp(DAY_STARTS_H + 1, edges, cumulated)) / cumulated[-1]
    if name == "first" and early > 0.25:
        # Something that runs at night ends the search before people are up.
        return None
    return low, middle, high, round(float(weight.sum()))


def _has_contrast(chain: Chain, hour: float) -> bool:
    """True if use differs from quiet in the part of the day of this hour."""
    part = int(np.searchsorted(PARTS_H, hour, side="right")) - 1
    return bool(chain.contrast[min(part, len(PARTS_H) - 2)] >= LEAST_CONTRAST)


def steepest_hour(rhythm: Rhythm, name: str, working: bool) -> float:
    """Return the hour at which the mean day rises most (first use) or falls most (last use)."""
    days = rhythm.days
    weight = (1 - rhythm.away) * (days.working == working)
    mean = np.nansum(days.watts * weight[:, None], axis=0) / max(weight.sum(), 1e-9)
    length = max(1, round(SECONDS_PER_HOUR / days.slot_s))
    energy = np.append(0.0, np.cumsum(mean))
    place = np.arange(length, mean.size - length + 1)
    rise = energy[place + length] - 2 * energy[place] + energy[place - length]
    at = DAY_STARTS_H + place * days.slot_s / SECONDS_PER_HOUR
    begin, end = FIRST_H if name == "first" else LAST_H
    steps = np.where((at >= begin) & (at < end), rise if name == "first" else -rise, -np.inf)
    return float(at[int(np.argmax(steps))])


def reached(days: Days, powers: tuple[int, ...]) -> dict[int, FloatArray]:
    """Return for every power the probability that a slot of a day reaches it, shape (D, S).

    With noise, the distribution of the powers of every slot of the day is estimated from all days.
    """
    watts = days.watts + days.night_w
    if not days.noise_w.any():
        return {power: (np.nan_to_num(watts) >= power).astype(float) for power in powers}
    support = np.append(0.0, np.geomspace(100, max(200.0, float(np.nanmax(watts))), POINTS - 1))
    likelihood = point_likelihoods(watts, days.noise_w, support)
    posterior = np.empty(likelihood.shape)
    start = np.full(POINTS, 1 / POINTS)
    for slot in range(watts.shape[1]):
        near = likelihood[:, max(0, slot - 1) : slot + 2]
        weights = deconvolve(near, start)
        posterior[:, slot] = likelihood[:, slot] * weights
    # A missing slot reaches nothing, whatever is usual.
    posterior *= np.isfinite(watts)[..., None] / posterior.sum(axis=2, keepdims=True)
    return {power: posterior[..., support >= power].sum(axis=2) for power in powers}
