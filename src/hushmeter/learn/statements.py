"""What the readings of one meter show, as sentences with their evidence.

`findings` uses the readings alone: no sub-meter, no list of appliances. A statement is made
only at the resolutions that the page "Findings" of the documentation lists; the same page shows how
often each statement was correct. Findings are shown to the household only.
They never set a parameter of a release, because the parameters of a release are public.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
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
    MINUTE_S,
    MOST_ZEROS,
    NIGHT_H,
    QUARTER_S,
    LocalReadings,
    Repeats,
    WeeklyEvent,
    base_load,
    cell_length,
    clean,
    find_change,
    returning_loads,
    season,
    weekends,
    weekly_events,
)
from hushmeter.learn.load_events import (
    Cluster,
    Runs,
    find_blocks,
    find_car,
    find_clusters,
    find_level_blocks,
    find_runs,
    fridge_period,
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

CERTAINTIES = ("sure", "likely", "about", "at least", "at most")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
MOST_MEAN_W, LEAST_LARGEST_W = 50_000.0, 20.0
"""Largest mean power of a home, and smallest value of its largest reading [W]."""
FEWEST_EVENT_DAYS = 3
"""Days of data that the search for runs of appliances needs."""
PULSE_INTERVAL_S = 10.0
"""Longest reading in which the pulses of a thermostat show [s]."""
FEWEST_BLOCKS = 4
"""Long level blocks from which they are mentioned."""


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
        *(() if noise_w else (_loads(readings), _blocks(readings))),
        (_calendar(readings, rhythm), []),
    ):
        found += stated
        withheld += reasons
    kept = _without_repetition(found)
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
        *_night(rhythm.days),
        *_away(readings, rhythm, forced=True),
        *(one for name in ("first", "last") for one in _uses(readings, rhythm, name, hours)),
        *_empty(readings, rhythm, forced=True),
        *_active_hours(readings, rhythm, forced=True),
        *_returning(readings),
        *_calendar(readings, rhythm, forced=True),
    )


def _find_rhythm(readings: LocalReadings) -> tuple[int, Rhythm | None]:
    """Return the number of complete days, and their rhythm if there are enough of them."""
    if readings.interval_s > SECONDS_PER_HOUR:
        return 0, None
    days = cut_days(readings)
    return len(days), None if len(days) < FEWEST_HABIT_DAYS else find_rhythm(days)


def _without_repetition(found: Sequence[Finding]) -> tuple[Finding, ...]:
    """Leave out long runs that are already described as the blocks of a car or a heater."""
    blocks = [f.evidence["watts"] for f in found if f.kind in ("car-charger", "long-blocks")]
    return tuple(
        finding
        for finding in found
        if finding.kind != "long-runs"
        or all(abs(finding.evidence["watts"] / watts - 1) > 0.15 for watts in blocks)
    )


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


Search = tuple[list[Finding], list[str]]


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
    found += _night(rhythm.days)
    missing = []
    if count >= FEWEST_AWAY_DAYS:
        found += (away := _away(readings, rhythm))
        missing += [] if away or tells_absence(rhythm) else ["away"]
    hours = typical_hours(rhythm)
    for name in ("first", "last"):
        found += (stated := _uses(readings, rhythm, name, hours))
        searched = name == "first" or readings.interval_s <= QUARTER_S or readings.noise_w > 0
        missing += [f"{name}-use"] if searched and not stated else []
    found += [*_empty(readings, rhythm), *_active_hours(readings, rhythm), *_returning(readings)]
    return found, withheld + _not_found(missing, readings)


FOUND_IN: dict[str, tuple[int, int, int]] = {
    "away": (45, 47, 50),
    "first-use": (42, 54, 61),
    "last-use": (44, 0, 0),  # Not searched for in longer readings
}
"""In how many of 100 simulated homes a statement is made from readings of up to 15 min, of 30 min
and of 1 h (`python -m experiments lone-meter`)."""
SUBJECTS = {"away": "days away", "first-use": "a usual first use", "last-use": "a usual last use"}


def _not_found(kinds: Sequence[str], readings: LocalReadings) -> list[str]:
    """Say what was not found, and in how many homes it would have been."""
    if not kinds:
        return []
    if readings.noise_w:
        return [f"Not clear under this noise: {_join([SUBJECTS[kind] for kind in kinds])}."]
    place = int(np.searchsorted((QUARTER_S, HALF_HOUR_S), readings.interval_s))
    listed = [f"{SUBJECTS[kind]} (found in {FOUND_IN[kind][place]})" for kind in kinds]
    return [
        f"Not found, compared with 100 simulated homes with readings of this length: "
        f"{_join(listed)}. Others who know more may still find it."
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


def _night(days: Days) -> list[Finding]:
    """Return the power at night, with its spread over the nights."""
    levels = days.night_w[np.isfinite(days.night_w)]
    if levels.size < FEWEST_HABIT_DAYS:
        return []
    slots = (NIGHT_H[1] - NIGHT_H[0]) * SECONDS_PER_HOUR / days.slot_s
    noise = float(days.noise_w.mean()) / np.sqrt(slots)
    watts = float(levels.mean() if noise else np.median(levels))
    spread = np.sqrt(max(0.0, float(levels.var()) - noise**2))
    low, high = (
        (watts - 0.67 * spread, watts + 0.67 * spread)
        if noise
        else (np.quantile(levels, [0.25, 0.75]).tolist())
    )
    tolerance = max(20.0, 0.15 * watts, 2 * noise / np.sqrt(levels.size))
    about, margin, least, most = (
        format_watts(float(f"{power:.2g}")) for power in (watts, tolerance, low, high)
    )
    spread_text = f", give or take {margin}."
    if not noise:
        spread_text = f"; on half of the nights between {least} and {most}."
    text = f"At night (1:30 to 4:30) the home draws about {about}{spread_text}"
    evidence = {
        "watts": round(watts, 1), "quartiles_w": [round(low, 1), round(high, 1)],
        "count": int(levels.size), "tolerance_w": round(tolerance, 1),
    }  # fmt: skip
    return [Finding("night", text, evidence, "about")]


def _away(readings: LocalReadings, rhythm: Rhythm, *, forced: bool = False) -> list[Finding]:
    days = rhythm.days
    dates = days.dates[rhythm.away >= 0.5] if forced else _away_dates(rhythm)
    if not dates.size:
        return []
    spans = _spans(dates)
    longest = max(spans, key=lambda span: span[1] - span[0])
    text = (
        f"Nobody was active on {count_of(int(dates.size), 'day')} of {len(days)}; "
        f"the longest absence is {_date_range(*longest)}."
    )
    if dates.size == 1:
        text = f"Nobody was active on one day of {len(days)}: {_date_range(*longest)}."
    evidence = {
        "count": int(dates.size),
        "days": len(days),
        "dates": [str(d) for d in dates.astype("datetime64[D]")],
        "longest_days": longest[1] - longest[0] + 1,
    }
    hours = np.array([[first * 24 + 4, (last + 1) * 24 + 4] for first, last in spans])
    return [Finding("away", text, evidence, "likely", _to_utc(readings, hours))]


def _away_dates(rhythm: Rhythm) -> IntArray:
    """Return the dates on which nobody was at home, where absences can be told."""
    least = SURE_UNDER_NOISE if rhythm.days.noise_w.any() else SURE
    dates: IntArray = rhythm.days.dates[(rhythm.away >= least) & tells_absence(rhythm)]
    return dates


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
        parts.append(f"{label} {subject} at about {_clock(one.hour)}{spread}")
    text = "; ".join(parts) + f", give or take {_length(tolerance * SECONDS_PER_HOUR)}."
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
            f"on half of the days between {_clock(one.quartiles[0])} and {_clock(one.quartiles[1])}"
        )
    stop = days.hours[slot] + days.slot_s / SECONDS_PER_HOUR
    return (
        f"between {_clock(days.hours[slot])} and {_clock(stop)} on {counts[slot]} of "
        f"{slots.size} days"
    )


def _change_of_use(rhythm: Rhythm, name: str, mass: FloatArray) -> list[Finding]:
    """Return the date from which on the first or last use of working days differs by an hour."""
    days = rhythm.days
    inside = (days.hours < 13) if name == "first" else (days.hours >= 18)
    chosen = days.working & (mass[:, inside].sum(axis=1) >= SURE)
    part = mass[chosen][:, inside]
    if not len(part):
        return []
    hours = part @ days.hours[inside] / part.sum(axis=1) + days.slot_s / SECONDS_PER_HOUR / 2
    place, before, after = find_change(hours, 0.75)
    if not place:
        return []
    day = int(days.dates[chosen][place])
    text = (
        f"From {_date_range(day, day)} on, the {name} use of working days is at about "
        f"{_clock(after)} instead of {_clock(before)}."
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
    spans = _hour_spans(np.array([share.get(h, 1.0) <= most for h in range(24)]))
    first, stop = max(spans, key=lambda span: span[1] - span[0], default=(0, 0))
    inside = (hours >= first) & (hours < stop)
    if stop - first < 5:
        return []
    active, at_weekend = (float(rhythm.used[c][:, inside].mean()) for c in (working, weekend))
    if at_weekend - active < 0.12:
        return []
    text = (
        f"On working days the home is empty from about {_clock(first)} to "
        f"{_clock(stop)}: somebody is active in {100 * active:.0f} out of 100 of "
        f"these moments, at weekends in {100 * at_weekend:.0f}."
    )
    evidence = {
        "first_hour": first,
        "end_hour": stop,
        "count": int(working.sum()),
        "active_share": round(active, 3),
        "weekend_share": round(at_weekend, 3),
    }
    marks = _to_utc(readings, days.dates[working][:, None] * 24 + np.array([first, stop]))
    return [Finding("workday-empty", text, evidence, "likely", marks)]


def _active_hours(
    readings: LocalReadings, rhythm: Rhythm, *, forced: bool = False
) -> list[Finding]:
    """Return the hours in which the home uses more than at rest."""
    if readings.solar or not (forced or tells_absence(rhythm)):
        return []
    days = rhythm.days
    per_hour = max(1, round(SECONDS_PER_HOUR / days.slot_s))
    used = rhythm.used * (1 - rhythm.away)[:, None]
    hourly = used.reshape(len(days), 24, per_hour).max(axis=2)
    active = hourly >= (SURE_UNDER_NOISE if readings.noise_w else 0.5)
    shares = np.roll(hourly.mean(axis=0), DAY_STARTS_H)
    usual = _hour_spans(shares >= 0.5)
    if not usual:
        return []
    mean = float(hourly.sum(axis=1).mean())
    listed = _join([f"{_clock(first)} to {_clock(stop)}" for first, stop in usual])
    text = f"The home is in use in {mean:.0f} hours of a usual day, mostly from {listed}."
    evidence = {
        "hours_per_day": round(mean, 2),
        "count": len(days),
        "share_by_hour": [round(float(s), 3) for s in shares],
    }
    rows, hours = np.nonzero(active)
    starts = np.sort(days.dates[rows] * 24 + DAY_STARTS_H + hours)
    spans = np.array(_spans(starts)) + np.array([0, 1]) if starts.size else np.zeros((0, 2))
    return [Finding("active-hours", text, evidence, "likely", _to_utc(readings, spans))]


FEWEST_RETURNS = 10
"""Days that the search for loads that return needs."""


def _returning(readings: LocalReadings) -> list[Finding]:
    """Return strong loads that return within the same hours on most days."""
    days = cut_days(readings, cell_length(readings.interval_s, HALF_HOUR_S))
    if len(days) < FEWEST_RETURNS:
        return []
    loads = returning_loads(reached(days, BLOCK_POWERS_W), days.hours)
    return [_returning_load(readings, days, load) for load in loads] + [
        change for load in loads for change in _change_of_load(days, load)
    ]


def _returning_load(readings: LocalReadings, days: Days, load: Repeats) -> Finding:
    middle = (load.first + load.stop) / 2
    part = next(w for h, w in ((11, "mornings"), (17, "days"), (23, "evenings"), (29, "nights"))
                if middle < h)  # fmt: skip
    inside = (days.hours >= load.first) & (days.hours < load.stop)
    chosen = load.found >= 0.5
    power, most = f"{format_watts(load.least_w)} or more", None
    if not readings.noise_w:
        peaks = np.nanmax((days.watts + days.night_w[:, None])[chosen][:, inside], axis=1)
        most = float(f"{np.quantile(peaks, 0.9):.1g}")
        if most > load.least_w:
            power = f"{load.least_w / 1000:g} to {format_watts(most)}"
    about = "about " if readings.noise_w else ""
    text = (
        f"The home draws {power} between {_clock(load.first)} and {_clock(load.stop)} on {about}"
        f"{load.count} of {len(days)} {part}."
    )
    evidence = {
        "first_hour": load.first % 24, "end_hour": load.stop % 24, "watts": load.least_w,
        "most_watts": most, "count": load.count, "days": len(days),
    }  # fmt: skip
    marks = _to_utc(readings, days.dates[chosen][:, None] * 24 + np.array([load.first, load.stop]))
    return Finding("returns", text, evidence, "sure", marks)


def _change_of_load(days: Days, load: Repeats) -> list[Finding]:
    """Return the date from which on a load returns much more or much less often."""
    place, before, after = find_change(load.found, 0.4)
    if not place:
        return []
    day = int(days.dates[place])
    hours = f"between {_clock(load.first)} and {_clock(load.stop)}"
    text = (
        f"From {_date_range(day, day)} on, {format_watts(load.least_w)} or more {hours} are drawn "
        f"on {100 * after:.0f} out of 100 days instead of {100 * before:.0f}."
    )
    evidence = {
        "date": str(np.datetime64(day, "D")), "before_share": round(before, 3),
        "after_share": round(after, 3), "use": "returns",
    }  # fmt: skip
    return [Finding("change", text, evidence, "likely")]


def _loads(readings: LocalReadings) -> Search:
    """Return the kinds of loads whose runs show in readings of at most a minute."""
    if readings.interval_s > MINUTE_S:
        return [], []
    if readings.days < FEWEST_EVENT_DAYS:
        return [], ["Appliances need at least 3 days of readings."]
    clusters = find_clusters(find_runs(readings), readings.days)
    found = []
    for kind, describe in DESCRIPTIONS.items():
        chosen = [c for c in clusters if c.kind == kind]
        if kind == "thermostat" and readings.interval_s > PULSE_INTERVAL_S:
            continue
        if chosen:
            found.append(describe(readings, chosen))
    return found, []


def _describe_as(
    kind: str, certainty: str, sentence: str
) -> Callable[[LocalReadings, list[Cluster]], Finding]:
    """Return a function that describes the clusters of one class with one sentence."""

    def describe(readings: LocalReadings, clusters: list[Cluster]) -> Finding:
        main = max(clusters, key=lambda cluster: len(cluster.runs))
        runs = Runs.join([cluster.runs for cluster in clusters])
        evidence = _run_evidence(runs, main.power, main.duration, readings.days)
        words = _words(main.power, main.duration, evidence, readings.days)
        if kind == "fridge":
            period = fridge_period(main.runs.start)
            evidence["period_s"] = None if period is None else round(period)
            words["every"] = "" if period is None else f" and switches on every {_length(period)}"
        text = sentence.format(**words)
        return Finding(kind, text, evidence, certainty, _marks(readings, runs))

    return describe


def _words(power: float, duration: float, evidence: dict[str, Any], days: float) -> dict[str, str]:
    """The words of a sentence about runs: their power, length, number, rate and usual hour."""
    return {
        "watts": format_watts(float(f"{power:.2g}")),
        "length": _length(duration),
        "count": _times(evidence["count"]),
        "rate": _rate(evidence["count"], days),
        "hour": _often(evidence["starts_by_hour"]),
    }


DESCRIPTIONS: dict[str, Callable[[LocalReadings, list[Cluster]], Finding]] = {
    "kettle": _describe_as(
        "kettle",
        "at least",
        "A kettle ({watts} for {length}) was used at least {count}, {rate}, {hour}.",
    ),
    "shower": _describe_as(
        "shower",
        "likely",
        "Runs like those of an electric shower ({watts} for {length}): {count}, {rate}, {hour}. "
        "An instantaneous water heater, a large oven or a machine may draw as much.",
    ),
    "hvac": _describe_as(
        "hvac",
        "sure",
        "An air conditioner, a heat pump or a heater ({watts} for {length} at a time) ran at "
        "least {count}, {rate}, {hour}.",
    ),
    "fridge": _describe_as(
        "fridge",
        "sure",
        "A fridge or freezer of about {watts} runs for {length} at a time{every}.",
    ),
    "short-heat": _describe_as(
        "short-heat",
        "likely",
        "A microwave, a toaster or a hair dryer (one of them, about {watts} for {length}) was "
        "likely used at least {count}, {rate}, {hour}.",
    ),
    "thermostat": _describe_as(
        "thermostat",
        "likely",
        "Something heats on and off, likely an oven, a dryer or a hob ({watts} for {length} at a "
        "time): at least {count}, {rate}, {hour}.",
    ),
    "long": _describe_as(
        "long-runs",
        "at least",
        "Long runs of {watts} for {length}, from a water heater, another heater or a car: at "
        "least {count}, {rate}, {hour}.",
    ),
    "strong-run": _describe_as(
        "strong-run",
        "at least",
        "Runs of {watts} for {length}, from a machine that heats water or an oven: at least "
        "{count}, {rate}, {hour}.",
    ),
}
"""Descriptions of the classes of loads, in the order of the findings."""


def _blocks(readings: LocalReadings) -> Search:
    """Return the charging of a car, or long level blocks."""
    if readings.interval_s > SECONDS_PER_HOUR:
        return [], []
    blocks = find_blocks(readings)
    car = find_car(blocks, readings.interval_s, readings.days)
    found = []
    if car is not None:
        found.append(
            _block_finding(
                readings, car, "car-charger", "A car is charged with {watts} for {length}"
            )
        )
    level = find_level_blocks(blocks)
    if len(level) >= FEWEST_BLOCKS:
        words = (
            "Long level blocks of about {watts} for {length}, from a car, a water heater or "
            "another heater"
        )
        found.append(_block_finding(readings, level, "long-blocks", words))
    return found, []


def _block_finding(readings: LocalReadings, runs: Runs, kind: str, words: str) -> Finding:
    power, duration = float(np.median(runs.power)), float(np.median(runs.duration))
    evidence = _run_evidence(runs, power, duration, readings.days)
    filled = _words(power, duration, evidence, readings.days)
    text = f"{words}: {{count}}, {{rate}}, {{hour}}.".format(**filled)
    return Finding(kind, text, evidence, "sure", _marks(readings, runs))


def _calendar(
    readings: LocalReadings, rhythm: Rhythm | None, *, forced: bool = False
) -> list[Finding]:
    """Return weekends, weekly events and the ratio of seasons."""
    found = _weekends(readings, forced=forced) if readings.interval_s <= SECONDS_PER_DAY else []
    if readings.interval_s <= SECONDS_PER_HOUR:
        away = np.zeros(0, np.int64) if rhythm is None else _away_dates(rhythm)
        events = weekly_events(readings, away)
        for weekday in sorted({event.weekday for event in events}):
            found.append(_weekly(readings, [e for e in events if e.weekday == weekday]))
    year = season(readings)
    if year is not None:
        text = (
            f"From {_three_months(year.high)} the home uses {year.ratio:.2g} times as much as "
            f"from {_three_months(year.low)}."
        )
        evidence = {
            "ratio": round(year.ratio, 3),
            "high_month": year.high,
            "low_month": year.low,
            "high_watts": round(year.high_w, 1),
            "low_watts": round(year.low_w, 1),
        }
        found.append(Finding("season", text, evidence, "sure"))
    return found


def _weekends(readings: LocalReadings, *, forced: bool) -> list[Finding]:
    grid = readings.grid(SECONDS_PER_DAY)
    known = np.isfinite(grid.watts)
    working = (grid.first + np.flatnonzero(known) + 3) % 7 < 5
    found = None if readings.solar else weekends(grid.watts[known], working, forced=forced)
    if found is None:
        return []
    text = (
        f"At weekends the home uses {found.ratio:.2g} times as much as on working days "
        f"({0.024 * found.weekend_w:.3g} and {0.024 * found.working_w:.3g} kWh a day)."
    )
    evidence = {
        "ratio": round(found.ratio, 3),
        "watts": round(found.weekend_w, 1),
        "working_watts": round(found.working_w, 1),
        "count": sum(found.days),
    }
    return [Finding("weekend", text, evidence, "sure")]


def _weekly(readings: LocalReadings, events: Sequence[WeeklyEvent]) -> Finding:
    """Return the finding of the events of one weekday."""
    day = WEEKDAYS[events[0].weekday]
    kind = "other working days" if events[0].weekday < 5 else "the other day of the weekend"
    hours = [(event.hour, event.hour + 3) for event in events]
    spans = [(a * 3, (b + 1) * 3) for a, b in _spans(np.array([h // 3 for h, _ in hours]))]
    listed = _join([f"{_clock(first)} to {_clock(stop)}" for first, stop in spans])
    best = max(events, key=lambda event: event.high / event.weeks)
    text = (
        f"On {day}s the home uses more than on {kind} from {listed}: in {best.high} of "
        f"{best.weeks} weeks."
    )
    evidence = {
        "weekday": events[0].weekday,
        "hours": [list(span) for span in spans],
        "count": best.high,
        "weeks": best.weeks,
        "others_share": round(best.others, 3),
    }
    hours_of = [[d * 24 + e.hour, d * 24 + e.hour + 3] for e in events for d in e.dates]
    return Finding("weekly", text, evidence, "sure", _to_utc(readings, np.array(sorted(hours_of))))


def _run_evidence(runs: Runs, power: float, duration: float, days: float) -> dict[str, Any]:
    """Return the numbers behind a statement about runs."""
    hours = np.floor(runs.start / SECONDS_PER_HOUR).astype(np.int64) % 24
    return {
        "count": len(runs),
        "per_day": round(len(runs) / days, 3),
        "watts": round(power, 1),
        "seconds": round(duration, 1),
        "starts_by_hour": np.bincount(hours, minlength=24).tolist(),
    }


def _marks(readings: LocalReadings, runs: Runs) -> FloatArray:
    """Return starts and ends of runs in UTC."""
    return readings.to_utc(np.column_stack([runs.start, runs.end]))


def _to_utc(readings: LocalReadings, hours: FloatArray | IntArray) -> FloatArray:
    """Return UTC seconds of local hours since 1970."""
    return readings.to_utc(np.asarray(hours, dtype=np.float64) * SECONDS_PER_HOUR)


def _day_marks(readings: LocalReadings, days: Days, hours: FloatArray) -> FloatArray:
    """Return the slot that starts at `hours` of every day, without the days that have none."""
    starts = (days.dates * 24 + hours)[np.isfinite(hours)]
    return _to_utc(readings, np.column_stack([starts, starts + days.slot_s / SECONDS_PER_HOUR]))


def _spans(numbers: IntArray) -> list[tuple[int, int]]:
    """Return the first and the last of every stretch of consecutive ascending numbers."""
    cuts = np.flatnonzero(np.diff(numbers) > 1) + 1
    return [(int(part[0]), int(part[-1])) for part in np.split(numbers, cuts)]


def _hour_spans(chosen: BoolArray) -> list[tuple[int, int]]:
    """Return first and end hour of every stretch; one that crosses midnight is not cut."""
    hours = np.flatnonzero(chosen)
    if not hours.size:
        return []
    spans = [(first, last + 1) for first, last in _spans(hours)]
    if len(spans) > 1 and spans[0][0] == 0 and spans[-1][1] == 24:
        spans = [*spans[1:-1], (spans[-1][0], spans[0][1])]
    return spans


def _clock(hour: float) -> str:
    """Format an hour of the day to the quarter hour, as 7:15."""
    minutes = round(hour * 4) * 15 % 1440
    return f"{minutes // 60}:{minutes % 60:02d}" if minutes else "midnight"


def _length(seconds: float) -> str:
    """Format a length of time with two digits: 45 s, 2 min, 95 min, 2.5 h."""
    if seconds < 90:
        return f"{float(f'{seconds:.2g}'):g} s"
    if seconds < 2 * SECONDS_PER_HOUR:
        return f"{seconds / 60:.2g} min" if seconds < 600 else f"{seconds / 60:.0f} min"
    return f"{seconds / SECONDS_PER_HOUR:.2g} h"


def _rate(count: int, days: float) -> str:
    """Format how often something happens."""
    for rate, period in ((count / days, "day"), (7 * count / days, "week")):
        if rate >= 0.95:
            return f"{rate:.2g} times a {period}" if rate >= 1.05 else f"once a {period}"
    return f"in {days:.0f} days"


def _often(starts_by_hour: Sequence[int]) -> str:
    """Name the hour with the most starts."""
    hour = int(np.argmax(starts_by_hour))
    return f"most often between {_clock(hour)} and {_clock(hour + 1)}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _join(parts: Sequence[str]) -> str:
    """Join with commas and a final "and"."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _three_months(first: int) -> str:
    return f"{MONTHS[first - 1]} to {MONTHS[(first + 1) % 12]}"


def _date_range(first: int, last: int) -> str:
    """Format dates, given in days since 1970."""
    a, b = (date(1970, 1, 1) + timedelta(days=d) for d in (first, last))
    end = f"{b.day} {MONTHS[b.month - 1]} {b.year}"
    if a == b:
        return end
    if (a.year, a.month) == (b.year, b.month):
        return f"{a.day} to {end}"
    start = f"{a.day} {MONTHS[a.month - 1]}"
    return f"{start} {a.year} to {end}" if a.year != b.year else f"{start} to {end}"
