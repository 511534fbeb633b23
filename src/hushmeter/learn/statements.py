"""What the readings of one meter show, as sentences with their evidence.

`findings` uses the readings alone: no sub-meter, no list of appliances. A statement is made
only at the resolutions that the page "Findings" of the documentation lists; the same page shows how
often each statement was correct. Findings are shown to the household only.
They never set a parameter of a release, because the parameters of a release are public.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, IntArray, non_negative
from hushmeter.clock import check_zone
from hushmeter.formatting import count_of, duration_in_words, format_watts
from hushmeter.learn.habits import (
    BLOCK_POWERS_W,
    DAY_STARTS_H,
    FEWEST_AWAY_DAYS,
    FEWEST_HABIT_DAYS,
    HALF_HOUR_S,
    MONTHS,
    MOST_ZEROS,
    NIGHT_H,
    QUARTER_S,
    Finding,
    Findings,
    LocalReadings,
    Repeats,
    base_load,
    cell_length,
    clean,
    clock,
    date_range,
    find_change,
    hour_spans,
    join_words,
    length,
    returning_loads,
    season,
    spans_of,
    weekends,
    weekly_events,
)
from hushmeter.learn.load_events import (
    FEWEST_EVENT_DAYS,
    Search,
    find_loads,
    find_long_blocks,
    without_repetition,
)
from hushmeter.learn.rhythm import (
    LEAST_CONTRAST,
    MOST_UNEVEN_W,
    Days,
    Rhythm,
    TypicalHour,
    best_hours,
    cut_days,
    find_rhythm,
    reached,
    typical_hours,
)
from hushmeter.trace import SECONDS_PER_DAY, SECONDS_PER_HOUR, Trace

__all__ = ["Finding", "Findings", "best_guesses", "findings"]
MOST_MEAN_W, LEAST_LARGEST_W = 50_000.0, 20.0
"""Largest mean power of a home, and smallest value of its largest reading [W]."""


def findings(trace: Trace, *, tz: str | None = None, noise_w: float = 0.0) -> Findings:
    """Find what the readings of one meter show: habits, absences, single kinds of loads.

    Parameters
    ----------
    trace : Trace
        The readings of the meter. True states and powers are not used.
    tz : str, optional
        Time zone of the home, such as "Europe/London"; UTC if not given.
    noise_w : float, default 0
        Standard deviation of the noise of every reading [W]; 0 for metered readings. With noise,
        the same habits are found from many days together, and single runs are not searched for.

    Returns
    -------
    Findings

    Raises
    ------
    InputError
        If `tz` is not a time zone or `noise_w` is negative.

    Notes
    -----
    The steps are described on the page "Findings" of the documentation. The result is private:
    show it to the household only, and set no parameter of a release from it.

    Examples
    --------
    >>> home = hm.synth.household(days=21, interval_s=900, seed=1)
    >>> found = hm.findings(home.trace, tz=home.zone)
    >>> found.findings[0].kind, found.findings[0].certainty
    ('base-load', 'about')
    """
    zone = "UTC" if tz is None else check_zone(tz)
    readings = clean(trace, zone, non_negative("noise_w", noise_w))
    notes = _notes(readings, zone_known=tz is not None)
    reason = _not_a_home(readings)
    if reason is not None:
        refusal = f"{reason} Nothing is inferred from these readings."
        return Findings((), notes, (refusal,), readings.silent, zone, readings.days)
    days, rhythm = _find_rhythm(readings)
    found: list[Finding] = []
    withheld: list[str] = []
    for stated, reasons in (
        _habits(readings, rhythm, days),
        *(() if noise_w else (find_loads(readings), find_long_blocks(readings))),
        (_calendar(readings, rhythm), []),
    ):
        found += stated
        withheld += reasons
    kept = without_repetition(found)
    return Findings(kept, notes, tuple(withheld), readings.silent, zone, readings.days)


def best_guesses(trace: Trace, *, tz: str, noise_w: float) -> tuple[Finding, ...]:
    """Return the habits that are most likely under noise, whether or not they are clear.

    These are the answers of an attacker who must answer; `findings` states what is clear.
    """
    readings = clean(trace, tz, noise_w)
    _, rhythm = _find_rhythm(readings)
    if rhythm is None:
        return tuple(_calendar(readings, None, forced=True))
    hours = best_hours(rhythm)
    return (
        *_night(readings, rhythm.days),
        *_away(readings, rhythm, forced=True),
        *(one for name in ("first", "last") for one in _uses(readings, rhythm, name, hours)),
        *_empty(readings, rhythm, forced=True),
        *_active_hours(readings, rhythm, forced=True),
        *_returning(readings, rhythm, forced=True),
        *_calendar(readings, rhythm, forced=True),
    )


def _find_rhythm(readings: LocalReadings) -> tuple[int, Rhythm | None]:
    """Return the number of complete days, and their rhythm if there are enough of them."""
    if readings.interval_s > SECONDS_PER_HOUR:
        return 0, None
    days = cut_days(readings)
    return len(days), None if len(days) < FEWEST_HABIT_DAYS else find_rhythm(days)


def _not_a_home(readings: LocalReadings) -> str | None:
    """Return why the readings do not show the load of a home, or None."""
    other = "This is not the load of a home: "
    if not readings.watts.size:
        return f"{other}the meter reports one unchanging value."
    if readings.zeros > MOST_ZEROS and not readings.noise_w:
        many = f"{100 * readings.zeros:.0f} out of 100 readings are zero"
        return f"Too little of the load shows: {many}." if readings.solar else f"{other}{many}."
    mean, largest = float(readings.watts.mean()), float(np.abs(readings.watts).max())
    if readings.noise_w:
        return None
    if mean > MOST_MEAN_W:
        return f"{other}the mean is {format_watts(mean)}."
    if largest < LEAST_LARGEST_W:
        return f"{other}no reading exceeds {format_watts(largest)}."
    return None


def _notes(readings: LocalReadings, *, zone_known: bool) -> tuple[str, ...]:
    """Return what affects all statements."""
    notes = []
    if readings.noise_w:
        notes.append(
            f"The noise of a reading has a standard deviation of {format_watts(readings.noise_w)}: "
            "everything is inferred from many days together, as an attacker would do it."
        )
    hours_matter = readings.interval_s <= SECONDS_PER_HOUR and readings.days >= FEWEST_EVENT_DAYS
    if hours_matter and not zone_known:
        notes.append(
            "Clock times are UTC, because the time zone of the home is not known: state it "
            "(`tz=`, such as `tz=Europe/London`)."
        )
    if readings.silent.size:
        hours = float(np.diff(readings.silent, axis=1).sum()) / SECONDS_PER_HOUR
        length = f"{hours / 24:.3g} days" if hours >= 48 else f"{hours:.3g} h"
        where = count_of(len(readings.silent), "stretch", "stretches")
        notes.append(
            f"The meter was silent for {length} in {where} (one unchanging value): the findings "
            "leave these readings out; the figures of the file, and a release, include them."
        )
    if readings.solar:
        shown = "negative" if readings.exports else "zero"
        notes.append(
            f"Solar panels: readings are {shown} by day, so only evenings and nights show the use "
            "of the home."
        )
    return tuple(notes)


def _habits(readings: LocalReadings, rhythm: Rhythm | None, count: int) -> Search:
    """Return base load, nights, days away, first and last use, and loads that return.

    `count` is the number of complete days.
    """
    if readings.interval_s > SECONDS_PER_HOUR:
        length = duration_in_words(readings.interval_s)
        return [], [f"Readings of {length} do not show habits within a day."]
    found, withheld = _base_load(readings), []
    if count < FEWEST_AWAY_DAYS:
        need = "Absences need 14 complete days (4:00 to 4:00)"
        if count < FEWEST_HABIT_DAYS:
            need = "Habits need 5 complete days (4:00 to 4:00), absences 14"
        withheld.append(f"{need}; the readings have {count}.")
    if rhythm is None:
        return found, withheld
    found += _night(readings, rhythm.days)
    missing = []
    if count >= FEWEST_AWAY_DAYS:
        found += (away := _away(readings, rhythm))
        missing += [] if away else ["away"]
    hours = typical_hours(rhythm)
    for name in ("first", "last"):
        found += (stated := _uses(readings, rhythm, name, hours))
        searched = name == "first" or readings.interval_s <= QUARTER_S or readings.noise_w > 0
        missing += [f"{name}-use"] if searched and not stated else []
    found += [*_empty(readings, rhythm), *_active_hours(readings, rhythm)]
    return [*found, *_returning(readings, rhythm)], withheld + _not_found(missing, readings)


FOUND_IN: dict[str, tuple[int, int, int]] = {
    "away": (47, 49, 52),
    "first-use": (41, 47, 54),
    "last-use": (53, 0, 0),  # Not searched for in longer readings
}
"""In how many of 100 simulated homes a statement is made from readings of up to 15 min, of 30 min
and of 1 h (`python -m experiments lone-meter`)."""
SUBJECTS = {"away": "days away", "first-use": "a usual first use", "last-use": "a usual last use"}


def _not_found(kinds: Sequence[str], readings: LocalReadings) -> list[str]:
    """Say what was not found, and in how many homes it would have been."""
    if not kinds:
        return []
    if readings.noise_w:
        return [f"Not clear under this noise: {join_words([SUBJECTS[kind] for kind in kinds])}."]
    place = int(np.searchsorted((QUARTER_S, HALF_HOUR_S), readings.interval_s))
    listed = [f"{SUBJECTS[kind]} (found in {FOUND_IN[kind][place]})" for kind in kinds]
    return [
        f"Not found, compared with 100 simulated homes with readings of this length: "
        f"{join_words(listed)}. Others who know more may still find it."
    ]


def tells_absence(rhythm: Rhythm) -> bool:
    """True if the evenings of the home differ enough from quiet hours to see that nobody is in."""
    contrast = float(rhythm.chain.contrast[2])
    return contrast >= LEAST_CONTRAST and rhythm.chain.unevenness <= MOST_UNEVEN_W


def _base_load(readings: LocalReadings) -> list[Finding]:
    watts = None if readings.noise_w else base_load(readings)
    if watts is None:
        return []
    evidence = {"watts": round(watts, 1), "kwh_per_day": round(watts * 0.024, 3)}
    if readings.interval_s <= QUARTER_S:
        text = (
            f"Something always draws about {format_watts(watts)}, day and night: "
            f"{evidence['kwh_per_day']:.2g} kWh a day."
        )
        return [Finding("base-load", text, evidence, "about")]
    text = f"What is always on draws at most {format_watts(watts)}; a part of this may be a fridge."
    return [Finding("base-load", text, evidence, "at most")]


def _night(readings: LocalReadings, days: Days) -> list[Finding]:
    """Return the mean power at night, with its spread over the nights."""
    step = days.slot_s / SECONDS_PER_HOUR
    first, nights = readings.grid(days.slot_s).by_date()
    starts = np.arange(nights.shape[1]) * step
    inside = (starts >= NIGHT_H[0]) & (starts < NIGHT_H[1])
    levels = nights[np.isin(first + np.arange(len(nights)), days.dates)][:, inside].mean(axis=1)
    levels = levels[np.isfinite(levels)]
    if levels.size < FEWEST_HABIT_DAYS:
        return []
    noise = float(days.noise_w.mean()) / np.sqrt(inside.sum())
    watts = float(levels.mean() if noise else np.median(levels))
    low, high = np.quantile(levels, [0.25, 0.75]).tolist()
    tolerance = max(20.0, 0.15 * watts, 2 * noise / np.sqrt(levels.size))
    about, margin, least, most = (
        format_watts(float(f"{power:.2g}")) for power in (watts, tolerance, low, high)
    )
    spread = ""
    if noise:
        spread = f", give or take {margin}"
    elif least != most:
        spread = f"; on half of the nights between {least} and {most}"
    hours = float(starts[inside][0]), float(starts[inside][-1] + step)
    text = (
        f"At night ({clock(hours[0])} to {clock(hours[1])}) the home draws about {about}{spread}."
    )
    evidence = {
        "watts": round(watts, 1), "quartiles_w": None if noise else [round(low, 1), round(high, 1)],
        "count": int(levels.size), "tolerance_w": round(tolerance, 1),
        "first_hour": hours[0], "end_hour": hours[1],
    }  # fmt: skip
    return [Finding("night", text, evidence, "about")]


def _away(readings: LocalReadings, rhythm: Rhythm, *, forced: bool = False) -> list[Finding]:
    days = rhythm.days
    dates = days.dates[rhythm.away >= 0.5] if forced else _away_dates(rhythm)
    if not dates.size:
        return []
    spans = spans_of(dates)
    longest = max(spans, key=lambda span: span[1] - span[0])
    text = (
        f"Nobody was active on {count_of(int(dates.size), 'day')} of {len(days)}; "
        f"the longest absence is {date_range(*longest)}."
    )
    if dates.size == 1:
        text = f"Nobody was active on one day of {len(days)}: {date_range(*longest)}."
    evidence = {
        "count": int(dates.size), "days": len(days), "longest_days": longest[1] - longest[0] + 1,
        "dates": [str(d) for d in dates.astype("datetime64[D]")],
    }  # fmt: skip
    hours = np.array([[first * 24 + 4, (last + 1) * 24 + 4] for first, last in spans])
    return [Finding("away", text, evidence, "likely", readings.hours_to_utc(hours))]


def _away_dates(rhythm: Rhythm) -> IntArray:
    """Return the dates on which nobody was at home, where absences can be told.

    A day that uses less than its nights is not one of them: somebody was up in these nights.
    """
    days = rhythm.days
    least = SURE_UNDER_NOISE if days.noise_w.any() else SURE
    slack = NIGHT_USE_W + 2.5 * days.noise_w.mean(axis=1) / np.sqrt(days.hours.size)
    even = np.nanmedian(days.watts, axis=1) >= -slack
    dates: IntArray = days.dates[(rhythm.away >= least) & even & tells_absence(rhythm)]
    return dates


NIGHT_USE_W = 50.0
"""Power of a night above that of the day around it which shows that somebody was up [W]."""
SURE, SURE_UNDER_NOISE = 0.8, 0.95
"""Probability from which on a single day or slot is stated."""
TOLERANCE_H = {"first": (0.75, 1.0), "last": (1.0, 1.5)}
"""Hours by which a first and a last use may be wrong, for metered readings and with noise."""


def _uses(
    readings: LocalReadings,
    rhythm: Rhythm,
    name: str,
    hours: dict[tuple[str, bool], TypicalHour],
) -> list[Finding]:
    """Return the first or the last use of working days and of weekends, and its change."""
    known = [(kind, hours[name, kind]) for kind in (True, False) if (name, kind) in hours]
    if not known:
        return []
    coarse = readings.noise_w > 0 or readings.interval_s > HALF_HOUR_S
    tolerance = TOLERANCE_H[name][coarse]
    mass = rhythm.first if name == "first" else rhythm.last
    mass = mass * (1 - rhythm.away)[:, None]
    slot = np.argmax(mass, axis=1)
    sure = mass[np.arange(slot.size), slot] >= (SURE_UNDER_NOISE if readings.noise_w else 0.5)
    parts: list[str] = []
    for working, one in known:
        label = "at weekends" if parts else "On working days" if working else "At weekends"
        spread = ""
        if not readings.noise_w:
            here = slot[(rhythm.days.working == working) & (rhythm.away < SURE)]
            spread = f" ({_spread(rhythm.days, one, here)})"
        subject = f"the {name} use is" if not parts else "it is"
        parts.append(f"{label} {subject} at about {clock(one.hour)}{spread}")
    timer = "" if readings.noise_w else _timer(rhythm.days, slot[rhythm.away < SURE])
    text = "; ".join(parts) + f", give or take {length(tolerance * SECONDS_PER_HOUR)}.{timer}"
    evidence: dict[str, Any] = {
        "hour": None, "quartiles": None, "count": 0, "weekend_hour": None,
        "weekend_quartiles": None, "weekend_count": 0, "tolerance_h": tolerance,
    }  # fmt: skip
    for working, one in known:
        prefix = "" if working else "weekend_"
        evidence[f"{prefix}hour"] = one.hour % 24
        evidence[f"{prefix}quartiles"] = list(one.quartiles)
        evidence[f"{prefix}count"] = one.days
    marks = _day_marks(readings, rhythm.days, np.where(sure, rhythm.days.hours[slot], np.nan))
    found = [Finding(f"{name}-use", text, evidence, "about", marks)]
    return [*found, *_change_of_use(rhythm, name, mass)]


def _spread(days: Days, one: TypicalHour, slots: IntArray) -> str:
    """Say in which slot most days have a first or last use, or the middle half of the days."""
    counts = np.bincount(slots, minlength=days.hours.size)
    slot = int(np.argmax(counts))
    if counts[slot] < 0.5 * slots.size or days.slot_s < QUARTER_S:
        return (
            f"on half of the days between {clock(one.quartiles[0])} and {clock(one.quartiles[1])}"
        )
    stop = days.hours[slot] + days.slot_s / SECONDS_PER_HOUR
    return (
        f"between {clock(days.hours[slot])} and {clock(stop)} on {counts[slot]} of "
        f"{slots.size} days"
    )


TIMER_SHARE = 0.9
"""Share of the days with a use in the same half hour from which on it may be that of a timer."""


def _timer(days: Days, slots: IntArray) -> str:
    """Say that a time which working days and weekends share may be that of a machine."""
    counts = np.bincount(slots, minlength=days.hours.size)
    near = np.convolve(counts, np.ones(max(1, HALF_HOUR_S // days.slot_s)))
    regular = near.max() >= TIMER_SHARE * slots.size
    return " A time as regular as this may be that of a timer." if regular else ""


LEAST_SHIFT_H = 1.0
"""Smallest change of a first or last use that is stated [h]."""


def _change_of_use(rhythm: Rhythm, name: str, mass: FloatArray) -> list[Finding]:
    """Return the date from which on the first or last use of working days differs by an hour."""
    days = rhythm.days
    inside = (days.hours < 13) if name == "first" else (days.hours >= 18)
    chosen = days.working & (mass[:, inside].sum(axis=1) >= SURE)
    part = mass[chosen][:, inside]
    if not len(part):
        return []
    hours = part @ days.hours[inside] / part.sum(axis=1) + days.slot_s / SECONDS_PER_HOUR / 2
    place, before, after = find_change(hours, LEAST_SHIFT_H)
    if not place:
        return []
    day = int(days.dates[chosen][place])
    text = (
        f"From {date_range(day, day)} on, the {name} use of working days is at about "
        f"{clock(after)} instead of {clock(before)}."
    )
    evidence = {
        "date": str(np.datetime64(day, "D")), "before_hour": before % 24, "after_hour": after % 24,
        "use": name, "count": int(chosen.sum()),
    }  # fmt: skip
    return [Finding("change", text, evidence, "likely")]


def _empty(readings: LocalReadings, rhythm: Rhythm, *, forced: bool = False) -> list[Finding]:
    """Return the longest part of 8–19 h in which the home is empty on working days."""
    days = rhythm.days
    lived = rhythm.away < 0.5
    working, weekend = days.working & lived, ~days.working & lived
    few = working.sum() < 10 or weekend.sum() < 2
    if readings.solar or few or not (forced or tells_absence(rhythm)):
        return []
    hours = np.floor(days.hours).astype(np.int64)
    share = {h: float(rhythm.used[working][:, hours == h].mean()) for h in range(8, 19)}
    most = max(0.2, min(share.values()) + 0.1) if forced else 0.2
    spans = hour_spans(np.array([share.get(h, 1.0) <= most for h in range(24)]))
    first, stop = max(spans, key=lambda span: span[1] - span[0], default=(0, 0))
    inside = (hours >= first) & (hours < stop)
    if stop - first < 5:
        return []
    active, at_weekend = (float(rhythm.used[c][:, inside].mean()) for c in (working, weekend))
    if at_weekend - active < 0.12:
        return []
    text = (
        f"On working days nobody is active at home from about {clock(first)} to {clock(stop)}: "
        f"the home is in use in {100 * active:.0f} out of 100 of these moments, at weekends in "
        f"{100 * at_weekend:.0f}."
    )
    evidence = {
        "first_hour": first, "end_hour": stop, "count": int(working.sum()),
        "active_share": round(active, 3), "weekend_share": round(at_weekend, 3),
    }  # fmt: skip
    marks = readings.hours_to_utc(days.dates[working][:, None] * 24 + np.array([first, stop]))
    return [Finding("workday-empty", text, evidence, "likely", marks)]


def _active_hours(
    readings: LocalReadings, rhythm: Rhythm, *, forced: bool = False
) -> list[Finding]:
    """Return the hours in which the home uses more than at rest; noise hides small uses of them."""
    if readings.solar or not (forced or (tells_absence(rhythm) and not readings.noise_w)):
        return []
    days = rhythm.days
    per_hour = max(1, round(SECONDS_PER_HOUR / days.slot_s))
    used = rhythm.used * (1 - rhythm.away)[:, None]
    hourly = used.reshape(len(days), 24, per_hour).max(axis=2)
    active = hourly >= 0.5
    shares = np.roll(hourly.mean(axis=0), DAY_STARTS_H)
    usual = hour_spans(shares >= 0.5)
    if not usual:
        return []
    mean = float(hourly.sum(axis=1).mean())
    listed = join_words([f"{clock(first)} to {clock(stop)}" for first, stop in usual])
    text = (
        f"The home uses more than at rest in {mean:.0f} hours of a usual day, mostly from {listed}."
    )
    evidence = {
        "hours_per_day": round(mean, 2), "count": len(days),
        "share_by_hour": [round(float(s), 3) for s in shares],
    }  # fmt: skip
    rows, hours = np.nonzero(active)
    starts = np.sort(days.dates[rows] * 24 + DAY_STARTS_H + hours)
    spans = np.array(spans_of(starts)) + np.array([0, 1]) if starts.size else np.zeros((0, 2))
    return [Finding("active-hours", text, evidence, "likely", readings.hours_to_utc(spans))]


FEWEST_RETURNS = 10
"""Days that the search for loads that return needs."""


MOST_UNSURE = 0.1
"""Mean probability of an error about a load on one day up to which its days are counted."""


def _returning(readings: LocalReadings, rhythm: Rhythm, *, forced: bool = False) -> list[Finding]:
    """Return strong loads that return within the same hours on most days."""
    days = cut_days(readings, cell_length(readings.interval_s, HALF_HOUR_S))
    if len(days) < FEWEST_RETURNS:
        return []
    loads = [
        load
        for load in returning_loads(reached(days, BLOCK_POWERS_W), days.hours)
        if forced or np.minimum(load.found, 1 - load.found).mean() <= MOST_UNSURE
    ]
    lived = ~np.isin(days.dates, rhythm.days.dates[rhythm.away >= 0.5])
    return [_returning_load(readings, days, load) for load in loads] + [
        change for load in loads for change in _change_of_load(days, load, lived)
    ]


def _returning_load(readings: LocalReadings, days: Days, load: Repeats) -> Finding:
    middle = (load.first + load.stop) / 2
    part = next(w for h, w in ((11, "mornings"), (17, "days"), (23, "evenings"), (29, "nights"))
                if middle < h)  # fmt: skip
    inside = (days.hours >= load.first) & (days.hours < load.stop)
    chosen = load.found >= 0.5
    power, most = f"{format_watts(load.least_w)} or more", None
    if not readings.noise_w:
        peaks = np.nanmax((days.watts + days.night_w)[chosen][:, inside], axis=1)
        most = float(f"{np.quantile(peaks, 0.9):.1g}")
        if most > load.least_w:
            power = f"{load.least_w / 1000:g} to {format_watts(most)}"
    # A mean over an hour, or solar power, can hide that a power was reached, and never invents it.
    certainty = "at least" if days.slot_s > HALF_HOUR_S or readings.solar else "sure"
    how = "about " if readings.noise_w else "at least " if certainty == "at least" else ""
    text = (
        f"The home draws {power} between {clock(load.first)} and {clock(load.stop)} on {how}"
        f"{load.count} of {len(days)} {part}."
    )
    evidence = {
        "first_hour": load.first % 24, "end_hour": load.stop % 24, "watts": load.least_w,
        "most_watts": most, "count": load.count, "days": len(days),
    }  # fmt: skip
    marks = readings.hours_to_utc(
        days.dates[chosen][:, None] * 24 + np.array([load.first, load.stop])
    )
    return Finding("returns", text, evidence, certainty, marks)


def _change_of_load(days: Days, load: Repeats, lived: BoolArray) -> list[Finding]:
    """Return the date from which on a load returns much more or much less often on lived days."""
    place, before, after = find_change(load.found[lived], 0.4)
    if not place:
        return []
    day = int(days.dates[lived][place])
    hours = f"between {clock(load.first)} and {clock(load.stop)}"
    mean = " as the mean of an hour" if days.slot_s > HALF_HOUR_S else ""
    text = (
        f"From {date_range(day, day)} on, {format_watts(load.least_w)} or more{mean} {hours} are "
        f"drawn on {100 * after:.0f} out of 100 days instead of {100 * before:.0f}."
    )
    evidence = {
        "date": str(np.datetime64(day, "D")), "before_share": round(before, 3),
        "after_share": round(after, 3), "use": "returns", "first_hour": load.first % 24,
        "end_hour": load.stop % 24, "watts": load.least_w, "mean_s": days.slot_s,
    }  # fmt: skip
    return [Finding("change", text, evidence, "likely")]


def _calendar(
    readings: LocalReadings, rhythm: Rhythm | None, *, forced: bool = False
) -> list[Finding]:
    """Return weekly events, weekends and the ratio of seasons.

    What one weekday does every week is no difference of weekends: weekly events come first, and
    weekends are compared without them too.
    """
    found = []
    if readings.interval_s <= SECONDS_PER_HOUR:
        away = np.zeros(0, np.int64) if rhythm is None else _away_dates(rhythm)
        found += weekly_events(readings, away)
    if readings.interval_s <= SECONDS_PER_DAY and not readings.solar:
        known = {one.evidence["weekday"] for one in found}
        found += _weekends(readings, known & set(range(5)), forced=forced)
    year = season(readings)
    if year is not None:
        high, low = (
            f"{MONTHS[first - 1]} to {MONTHS[(first + 1) % 12]}"
            for first in (year["high_month"], year["low_month"])
        )
        text = f"From {high} the home uses {year['ratio']:.2g} times as much as from {low}."
        found.append(Finding("season", text, year, "sure"))
    return found


SINGLE_DAY = 0.5
"""Share of a difference of weekends that must be left without any single weekday. In 150 simulated
homes other than the scored ones, differences that an event made keep at most 0.44, others 0.72."""


def _weekends(readings: LocalReadings, events: set[int], *, forced: bool) -> list[Finding]:
    """Compare weekends with working days, unless a weekday, or those with events, differ alone."""
    grid = readings.grid(SECONDS_PER_DAY)
    known = np.isfinite(grid.watts)
    watts = grid.watts[known]
    weekdays = (grid.first + np.flatnonzero(known) + 3) % 7
    found = weekends(watts, weekdays < 5, forced=forced)
    if found is None:
        return []
    for left_out in () if forced else (events, *({day} for day in range(7))):
        rest = ~np.isin(weekdays, list(left_out))
        left = weekends(watts[rest], weekdays[rest] < 5, forced=True)
        if left is None or np.log(left["ratio"]) / np.log(found["ratio"]) < SINGLE_DAY:
            return []
    text = (
        f"At weekends the home uses {found['ratio']:.2g} times as much as on working days "
        f"({0.024 * found['watts']:.3g} and {0.024 * found['working_watts']:.3g} kWh a day)."
    )
    return [Finding("weekend", text, found, "sure")]


def _day_marks(readings: LocalReadings, days: Days, hours: FloatArray) -> FloatArray:
    """Return the slot that starts at `hours` of every day, without the days that have none."""
    starts = (days.dates * 24 + hours)[np.isfinite(hours)]
    return readings.hours_to_utc(np.column_stack([starts, starts + days.slot_s / SECONDS_PER_HOUR]))
