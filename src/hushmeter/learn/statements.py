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

from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.clock import check_zone
from hushmeter.formatting import count_of, duration_in_words, format_watts
from hushmeter.learn.habits import (
    FEWEST_AWAY_DAYS,
    FEWEST_HABIT_DAYS,
    MINUTE_S,
    MOST_ZEROS,
    QUARTER_S,
    Activity,
    LocalReadings,
    WeeklyEvent,
    base_load,
    clean,
    empty_working_days,
    find_activity,
    season,
    typical_quiet,
    typical_wake,
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
from hushmeter.trace import SECONDS_PER_HOUR, Trace

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


def findings(trace: Trace, *, tz: str | None = None) -> Findings:
    """Find what the readings of one meter show: habits, absences, single kinds of loads.

    Parameters
    ----------
    trace : Trace
        The readings of the meter. True states and powers are not used.
    tz : str, optional
        Time zone of the home, such as "Europe/London"; UTC if not given.

    Returns
    -------
    Findings

    Raises
    ------
    InputError
        If `tz` is not a time zone.

    Notes
    -----
    The steps are described on the page "Findings" of the documentation. The result is private:
    show it to the household only, and set no parameter of a release from it.

    Examples
    --------
    >>> import hushmeter as hm
    >>> home = hm.synth.household(days=21, interval_s=900, seed=1)
    >>> found = hm.findings(home.trace, tz=home.zone)
    >>> found.findings[0].kind, found.findings[0].certainty
    ('base-load', 'about')
    """
    zone = "UTC" if tz is None else check_zone(tz)
    readings = clean(trace, zone)
    notes = _notes(readings, zone_known=tz is not None)
    reason = _not_a_home(readings)
    if reason is not None:
        refusal = f"{reason} Nothing is inferred from these readings."
        return Findings((), notes, (refusal,), readings.silent, zone, readings.days)
    found: list[Finding] = []
    withheld: list[str] = []
    for search in (_habits, _loads, _blocks, _calendar):
        stated, reasons = search(readings)
        found += stated
        withheld += reasons
    kept = _without_repetition(found)
    return Findings(kept, notes, tuple(withheld), readings.silent, zone, readings.days)


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
    if readings.zeros > MOST_ZEROS:
        many = f"{100 * readings.zeros:.0f} out of 100 readings are zero"
        return f"Too little of the load shows: {many}." if readings.solar else f"{other}{many}."
    mean, largest = float(readings.watts.mean()), float(np.abs(readings.watts).max())
    if mean > MOST_MEAN_W:
        return f"{other}the mean is {format_watts(mean)}."
    if largest < LEAST_LARGEST_W:
        return f"{other}no reading exceeds {format_watts(largest)}."
    return None


def _notes(readings: LocalReadings, *, zone_known: bool) -> tuple[str, ...]:
    """Return what affects all statements."""
    notes = []
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
            f"The meter was silent for {length} in {where} (one unchanging value); these readings "
            "are left out."
        )
    if readings.solar:
        shown = "negative" if readings.exports else "zero"
        notes.append(
            f"Solar panels: readings are {shown} by day, so only evenings and nights show the use "
            "of the home."
        )
    return tuple(notes)


Search = tuple[list[Finding], list[str]]


def _habits(readings: LocalReadings) -> Search:
    """Return base load, days away, waking, quiet evenings, empty days and active hours."""
    if readings.interval_s > SECONDS_PER_HOUR:
        length = duration_in_words(readings.interval_s)
        return [], [f"Readings of {length} do not show habits within a day."]
    found = _base_load(readings)
    activity = find_activity(readings)
    withheld = []
    if activity.can_find_away:
        found += _away(readings, activity)
    if activity.has_habits:
        found += _daily_rhythm(readings, activity)
    elif activity.dates.size >= FEWEST_HABIT_DAYS:
        withheld.append("The nights are too uneven to tell waking from sleep.")
    if activity.dates.size < FEWEST_AWAY_DAYS:
        need = "Absences need 14 complete days (4:00 to 4:00)"
        if activity.dates.size < FEWEST_HABIT_DAYS:
            need = "Habits need 5 complete days (4:00 to 4:00), absences 14"
        withheld.append(f"{need}; the readings have {activity.dates.size}.")
    return found, withheld


def _base_load(readings: LocalReadings) -> list[Finding]:
    watts = base_load(readings)
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


def _away(readings: LocalReadings, activity: Activity) -> list[Finding]:
    dates = activity.dates[activity.away()]
    if not dates.size:
        return []
    spans = _spans(dates)
    longest = max(spans, key=lambda span: span[1] - span[0])
    text = (
        f"Nobody was active on {count_of(int(dates.size), 'day')} of {activity.dates.size}; "
        f"the longest absence is {_date_range(*longest)}."
    )
    if dates.size == 1:
        text = f"Nobody was active on one day of {activity.dates.size}: {_date_range(*longest)}."
    evidence = {
        "count": int(dates.size),
        "days": int(activity.dates.size),
        "dates": [str(d) for d in dates.astype("datetime64[D]")],
        "longest_days": longest[1] - longest[0] + 1,
    }
    hours = np.array([[first * 24 + 4, (last + 1) * 24 + 4] for first, last in spans])
    return [Finding("away", text, evidence, "likely", _to_utc(readings, hours))]


def _daily_rhythm(readings: LocalReadings, activity: Activity) -> list[Finding]:
    found = _wakes(readings, activity)
    quiet = typical_quiet(activity)
    if quiet is not None:
        ends = activity.quiets()
        text = (
            f"The home falls quiet at about {_clock(quiet.hour)}; on half of the days between "
            f"{_clock(quiet.quartiles[0])} and {_clock(quiet.quartiles[1])}."
        )
        evidence = {"hour": quiet.hour % 24, "quartiles": quiet.quartiles, "count": quiet.days}
        marks = _day_marks(readings, activity, ends - activity.slot_s / SECONDS_PER_HOUR)
        found.append(Finding("quiet", text, evidence, "about", marks))
    empty = empty_working_days(activity)
    if empty is not None:
        text = (
            f"On working days the home is empty from about {_clock(empty.first)} to "
            f"{_clock(empty.stop)}: somebody is active in {100 * empty.active:.0f} out of 100 of "
            f"these moments, at weekends in {100 * empty.weekend:.0f}."
        )
        evidence = {
            "first_hour": empty.first,
            "end_hour": empty.stop,
            "count": empty.days,
            "active_share": round(empty.active, 3),
            "weekend_share": round(empty.weekend, 3),
        }
        dates = activity.dates[activity.working & ~activity.away()]
        marks = _to_utc(readings, dates[:, None] * 24 + np.array([empty.first, empty.stop]))
        found.append(Finding("workday-empty", text, evidence, "likely", marks))
    return [*found, *_active_hours(readings)]


def _wakes(readings: LocalReadings, activity: Activity) -> list[Finding]:
    wake = typical_wake(activity, working=True)
    if wake is None:
        return []
    text = f"On working days the home wakes at about {_clock(wake.hour)}, give or take an hour."
    evidence: dict[str, Any] = {
        "hour": wake.hour, "quartiles": wake.quartiles, "count": wake.days, "weekend_hour": None,
    }  # fmt: skip
    weekend = typical_wake(activity, working=False)
    if weekend is not None and weekend.hour - wake.hour >= 1:
        text += f" At weekends it wakes at about {_clock(weekend.hour)}."
        evidence["weekend_hour"] = weekend.hour
    marks = _day_marks(readings, activity, activity.wakes())
    return [Finding("wakes", text, evidence, "about", marks)]


def _active_hours(readings: LocalReadings) -> list[Finding]:
    """Return the hours in which somebody is active; only hourly means decide this reliably."""
    hourly = readings
    if readings.interval_s < SECONDS_PER_HOUR:
        hourly = readings.coarsen(float(SECONDS_PER_HOUR))
    activity = find_activity(hourly)
    if activity.solar or not activity.has_habits:
        return []
    shares = np.roll(activity.active.mean(axis=0), 4)
    usual = _hour_spans(shares >= 0.5)
    if not usual:
        return []
    mean = float(activity.active.sum(axis=1).mean())
    listed = _join([f"{_clock(first)} to {_clock(stop)}" for first, stop in usual])
    text = f"Somebody is active in {mean:.0f} hours of a usual day, mostly from {listed}."
    evidence = {
        "hours_per_day": round(mean, 2),
        "count": int(activity.dates.size),
        "share_by_hour": [round(float(s), 3) for s in shares],
    }
    days, hours = np.nonzero(activity.active)
    starts = np.sort(activity.dates[days] * 24 + 4 + hours)
    spans = np.array(_spans(starts)) + np.array([0, 1])
    return [Finding("active-hours", text, evidence, "likely", _to_utc(readings, spans))]


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
        "shower", "sure", "An electric shower ({watts} for {length}) ran {count}, {rate}, {hour}."
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


def _calendar(readings: LocalReadings) -> Search:
    """Return weekly events and the ratio of seasons."""
    found = []
    if readings.interval_s <= SECONDS_PER_HOUR:
        activity = find_activity(readings)
        events = weekly_events(readings, activity.dates[activity.away()])
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
    return found, []


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


def _day_marks(readings: LocalReadings, activity: Activity, hours: FloatArray) -> FloatArray:
    """Return the slot that starts at `hours` of every day, without the days that have none."""
    starts = (activity.dates * 24 + hours)[np.isfinite(hours)]
    return _to_utc(readings, np.column_stack([starts, starts + activity.slot_s / SECONDS_PER_HOUR]))


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
