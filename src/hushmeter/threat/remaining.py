"""Habits in a release: which statements about a home can still be made after it, and how often.

The attacker has the released tables and the public receipt, which states the noise. It makes the
statements of `hushmeter.learn.statements` under this noise. `what_is_left` repeats a release many
times on this computer and counts how often the attacker makes a statement that is correct. The
answer depends on the private readings: it is for the household alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from itertools import chain
from math import ceil, comb, erf, hypot, sqrt
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, IntArray, RngLike, whole
from hushmeter.clock import utc_offsets
from hushmeter.errors import DataError
from hushmeter.learn.habits import DAY_STARTS_H, NIGHT_H, join_words
from hushmeter.learn.load_events import CONCERNED
from hushmeter.learn.statements import Finding, Findings, best_guesses, findings
from hushmeter.releases.files import read_release
from hushmeter.releases.labels import CELLS
from hushmeter.releases.promise import Promise
from hushmeter.releases.purposes import AT_HOME
from hushmeter.releases.release import Release, View
from hushmeter.releases.verify import verify
from hushmeter.special import beta_quantile, chi2_quantile
from hushmeter.trace import JOULES_PER_KWH, SECONDS_PER_DAY, SECONDS_PER_HOUR, Trace

RELEASES = 50
"""Simulated releases from which the odds are counted."""
CONFIDENCE = 0.95
"""Confidence of the bounds with which a verdict is decided."""
HARMLESS = 0.1
"""Share of releases up to which a statement counts as gone, however seldom a guess is right."""
MARGIN = 0.05
"""Share by which answers may exceed those of a guess, and a test a coin, if nothing is left."""
CLEAR, MOSTLY = 0.75, 0.5
"""Odds of a test, and share of right answers, from which on a statement is still there."""
MOVED_H, AROUND_H = 1.0, 3.0
"""How far the test of a usual time moves the days, and the hours around this time that it uses."""
EVENING_H = 17.0, 22.0
"""Hours in which most homes are in use [h]."""
LONG_ABSENCE_DAYS = 10
"""Days away in a row from which on sums of months may show them."""
TRIED_RUNS = 31
"""Runs of a load of which the usual one is tested."""


@dataclass(frozen=True)
class Remaining:
    """One statement about a home, before and after a release.

    Attributes
    ----------
    kind : str
        Kind of the statement, as in `Finding.kind`.
    before : str
        The statement from the metered readings.
    after : str
        What is left of it, in one sentence.
    still_there : float
        Share of simulated releases from which the attacker makes the statement correctly; for
        single runs the odds of the direct test, and 1 where nothing tests it.
    by_chance : float
        The same share for a guess without the readings, by somebody who knows what is usual.
    verdict : {"gone", "uncertain", "still there"}
        "gone" only if the releases show it with 95 % confidence.
    odds : (float, float, float) or None
        How often a direct test is right, and the bounds of this with 95 % confidence each; None
        where there is no test.
    """

    kind: str
    before: str
    after: str
    still_there: float
    by_chance: float
    verdict: str
    odds: tuple[float, float, float] | None = None


def released_findings(release: Release, *, tz: str | None = None) -> Findings:
    """Find what a release shows clearly to somebody who knows its noise.

    Parameters
    ----------
    release : Release
        From `Promise.release` or `read_release`.
    tz : str, optional
        Time zone of the home; by default that of the release.

    Returns
    -------
    Findings
        Statements from the estimate of the cells under its noise, or, if no table has hours of the
        day, from the sums of days; none if no table has single days.
    """
    seen = _attacked(release, tz)
    if seen is None or DAYS not in _shown(release.promise):
        reason = "Nothing is certain about single days, because no released table shows them."
        if seen is None:
            reason = (
                f"Nothing is inferred, because habits are searched for in hours and in days. The "
                f"release has only {join_words(release.view_names)}; up to their noise, its sums "
                "show how much the home uses."
            )
        zone = tz or release.promise.cells.zone
        return Findings((), (), (reason,), np.zeros((0, 2)), zone, 0.0)
    trace, zone, noise = seen
    return findings(trace, tz=zone, noise_w=noise)


def likely_findings(release: Release, *, tz: str | None = None) -> tuple[Finding, ...]:
    """Return what is most likely from a release, also where it is not clear."""
    seen = _attacked(release, tz)
    return () if seen is None else best_guesses(seen[0], tz=seen[1], noise_w=seen[2])


def read_for_attack(path: str | Path) -> Release:
    """Read a release whose receipt verifies; raise `DataError` for another one."""
    checked = verify(path)
    if checked.problems:
        raise DataError(
            f"nothing was inferred from {path}, because its receipt does not verify: "
            f"{checked.problems[0]}"
        )
    return read_release(path)


def _attacked(release: Release, tz: str | None) -> tuple[Trace, str, float] | None:
    """The values that an attacker looks at, their time zone and the deviation of their noise [W].

    These are the estimated cells or, if no table has hours of the day, the days, whose times are
    then local dates. Without cells every day is estimated to be a typical one.
    """
    for name in ("hours", "typical-week", "typical-day"):
        if name in release.view_names:
            noise = float(np.sqrt(np.mean(release.view(name).errors ** 2)))
            if name != "hours":
                # Typical days are no days: without noise their spread would be stated as theirs.
                noise = max(noise, 1.0)
            return release.trace, tz or release.promise.cells.zone, noise
    if "days" not in release.view_names:
        return None
    view = release.view("days")
    dates = np.asarray(view.labels["day"]).astype("datetime64[D]")
    watts = JOULES_PER_KWH / SECONDS_PER_DAY
    trace = Trace(
        view.values * watts, SECONDS_PER_DAY, dates[0], steps=(dates - dates[0]).astype(np.int64)
    )
    return trace, "UTC", float(np.sqrt(np.mean((view.errors * watts) ** 2)))


def what_is_left(
    trace: Trace,
    promise: Promise,
    *,
    tz: str | None = None,
    stated: Findings | None = None,
    releases: int = RELEASES,
    rng: RngLike = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Remaining, ...]:
    """Measure which statements about a home are left after a release.

    Parameters
    ----------
    trace : Trace
        The metered readings.
    promise : Promise
        The promise under which they are to be released.
    tz : str, optional
        Time zone of the home; by default that of the promise.
    stated : Findings, optional
        What `findings` says about the readings in this time zone, if it is already known.
    releases : int, default 50
        Number of simulated releases. A first estimate from 2 to 4 takes less than a second for a
        year of hours. With the same seed, the releases of a longer run begin with those of a
        shorter one, so that a second call refines the first. Less than 29 releases never show that
        a statement is gone.
    rng : int, Generator or None
        Seed of the simulated noise.
    progress : function, optional
        Called after every release with the number of releases done and of all.

    Returns
    -------
    tuple of Remaining
        One for every statement about the home, in the order of `findings`; those about what the
        promise hides come first. The result is private: show it to the household only.

    Raises
    ------
    InputError
        If `releases` is not a positive whole number, or the promise is for another meter.

    Notes
    -----
    The attacker always answers. A statement is gone if no table can show it, or if two attacks
    fail: with 95 % confidence, the answer is right in at most one release out of ten or no more
    often than a guess; and somebody who suspects the statement and tests it directly is right at
    most 55 times out of 100. It is still there if the estimate of one of them is clear: the answer
    is right in half of the releases, and more often than a guess, or the test is right 75 times out
    of 100. Everything else is uncertain: a reassuring verdict needs more evidence than an alarming
    one.

    The direct test compares means: of the hours of a load with quiet hours, of an absence with
    other days, of weekends with working days. A guess at the time of a first or last use is right
    for many homes, so that only the direct test decides about it; it tells the usual day from the
    same day an hour later. Of an appliance, one run at a known time is tested against the noise and
    against what the home usually draws otherwise.
    """
    count = whole("releases", releases)
    zone = tz or promise.cells.zone
    before = sorted(
        (stated or findings(trace, tz=zone)).findings, key=lambda one: not _hides(promise, one)
    )
    seeds = [int(seed) for seed in np.random.default_rng(rng).integers(0, 2**62, count)]
    found: list[tuple[Finding, ...]] = []
    tests: list[tuple[_Test, ...]] = []
    for number, seed in enumerate(seeds if before else ()):
        # Tables without noise are the same in every release.
        if number == 0 or not promise.exact:
            release = promise.release(trace, rng=seed)
            answers, seen = _answers(release, zone), _attacked(release, zone)
            if not tests and seen is not None:
                cells = _exact_cells(release, trace, zone)
                tests = [_make_tests(one, cells) for one in before]
            if seen is not None:
                for test in chain.from_iterable(tests):
                    test.results.append(float(test.weights @ seen[0].readings))
        found.append(answers)
        if progress is not None:
            progress(number + 1, count)
    shown = _shown(promise)
    return tuple(
        _missing(one, shown, promise)
        or _judge(one, _compare(one, found), _best_odds(tests, number, promise), promise.exact)
        for number, one in enumerate(before)
    )


def _hides(promise: Promise, one: Finding) -> bool:
    """True if a statement is about what a promise hides: an appliance, hours, or days."""
    concerned = (*CONCERNED.get(one.kind, ()), *((AT_HOME,) if one.kind == "away" else ()))
    if any(change.name.startswith(concerned) for change in promise.unit.changes):
        return True
    needs = NEEDS.get(one.kind, ())
    order = {"within days": (HOURS,), "between days": (DAYS,)}
    return any(order[way] in needs for way in promise.unit.rearranged) and one.kind in RULES


def _shown(promise: Promise) -> set[str]:
    """What the tables of a release tell apart: hours, days, days of the week."""
    names = {entry.name for entry in promise.tables}
    bands = any(name.startswith("bands") for name in names)
    shown = set()
    if bands or names & {CELLS, "typical-day", "typical-week"}:
        shown.add(HOURS)
    if names & {CELLS, "days"}:
        shown.add(DAYS)
    if bands or names & {CELLS, "days", "typical-week"}:
        shown.add(WEEK)
    return shown


def _missing(before: Finding, shown: set[str], promise: Promise) -> Remaining | None:
    """Judge a statement that no table of a release can show; None if one can."""
    absent = [any_of for any_of in NEEDS.get(before.kind, ((DAYS,),)) if not shown & set(any_of)]
    if not absent:
        return _too_coarse(before, shown, promise)
    longest = before.evidence.get("longest_days", 0)
    if longest >= LONG_ABSENCE_DAYS and any(t.name != "typical-week" for t in promise.tables):
        after = (
            "Still there: no table shows single days, but the sum of a month may show an absence "
            "of this length."
        )
        return Remaining(before.kind, before.sentence, after, 1.0, 0.0, "still there")
    if before.kind not in RULES and HOURS in shown and not _is_short(before, promise):
        after = "Uncertain: no table shows single days, but usual hours may show a long run."
        return Remaining(before.kind, before.sentence, after, 1.0, 0.0, "uncertain")
    after = f"Gone: no released table shows {absent[0][0]}."
    return Remaining(before.kind, before.sentence, after, 0.0, 0.0, "gone")


def _is_short(one: Finding, promise: Promise) -> bool:
    """True if a run is shorter than half of a released value."""
    return bool(one.evidence["seconds"] < promise.cells.interval_s / 2)


def _too_coarse(one: Finding, shown: set[str], promise: Promise) -> Remaining | None:
    """Judge a period of which every released value holds more than a half."""
    length = promise.cells.interval_s if HOURS in shown else SECONDS_PER_DAY
    period = one.evidence.get("period_s")
    if period is None or length <= period / 2:
        return None
    after = f"Gone: no released table shows {PERIODS}."
    return Remaining(one.kind, one.sentence, after, 0.0, 0.0, "gone")


@dataclass(frozen=True, eq=False)
class _Cells:
    """The cells that an attacker sees, on the local clock."""

    hours: FloatArray  # Start of every cell [local h since 1970]
    step_h: float  # Length of a cell [h]
    watts: FloatArray  # What they would be without noise [W]
    zone: str = "UTC"  # Time zone of the home

    def days(self, starts_h: int = 0) -> IntArray:
        """Date of every cell, in days since 1970."""
        return np.floor((self.hours - starts_h) / 24).astype(np.int64)

    def covers(self, first: float, stop: float) -> BoolArray:
        """Whether a cell has a part of the hours of the clock from `first` to `stop`."""
        begin = (self.hours - first) % 24
        long = (stop - first) % 24 or 24.0
        return np.asarray((begin < long - 1e-6) | (24 - begin < self.step_h - 1e-6))

    @property
    def slot(self) -> IntArray:
        """Number of every cell within its day."""
        slots: IntArray = np.round(self.hours % 24 / self.step_h).astype(np.int64)
        return slots % round(24 / self.step_h)

    def share_of(self, starts: FloatArray, ends: FloatArray) -> FloatArray:
        """Share of every cell that lies within ascending stretches of local hours."""
        bounds = np.maximum.accumulate(np.column_stack(np.atleast_1d(starts, ends)).ravel())
        inside = np.append(0.0, np.cumsum(np.diff(bounds) * (np.arange(bounds.size - 1) % 2 == 0)))
        before, after = (np.interp(self.hours + h, bounds, inside) for h in (0.0, self.step_h))
        return np.asarray((after - before) / self.step_h)

    def variance(self, watts: FloatArray) -> FloatArray:
        """Usual variance of some powers of the cells at the same hour, or to the next cell [W²]."""
        spreads = np.empty(watts.size)
        hours = np.floor(self.hours % 24)
        apart = np.abs(np.diff(watts, prepend=watts[:1])) / np.sqrt(2)
        for hour in np.unique(hours):
            own = hours == hour
            days = np.abs(watts[own] - np.median(watts[own]))
            spreads[own] = min(np.median(days), np.median(apart[own]))
        return np.asarray((spreads / NormalDist().inv_cdf(0.75)) ** 2)

    def profile(self, chosen: BoolArray) -> FloatArray:
        """Mean of the chosen cells by their place in a day [W]; NaN where there is none."""
        slots, own = round(24 / self.step_h), self.slot[chosen]
        with np.errstate(invalid="ignore"):
            means: FloatArray = np.bincount(own, self.watts[chosen], slots) / np.bincount(
                own, minlength=slots
            )
        return means

    def weigh(self, apart: FloatArray, chosen: BoolArray) -> FloatArray:
        """Weights that multiply the mean of every place in a day by what is `apart` there."""
        counts = np.maximum(np.bincount(self.slot[chosen], minlength=apart.size), 1)
        return np.where(chosen, (apart / counts)[self.slot], 0.0)


def _exact_cells(release: Release, trace: Trace, zone: str) -> _Cells:
    """What an attacker would see in a release without its noise."""
    means = release.promise.means(trace)
    sums = tuple(entry.table.sums(means) for entry in release.promise.tables)
    seen = _attacked(replace(release, sums=sums), zone)
    assert seen is not None
    found, seen_zone, _ = seen
    utc = (found.times - np.datetime64(0, "ns")) / np.timedelta64(1, "s")
    hours = (utc + utc_offsets(found.times, seen_zone)) / SECONDS_PER_HOUR
    return _Cells(hours, found.interval_s / SECONDS_PER_HOUR, found.readings, zone)


@dataclass(frozen=True, eq=False)
class _Test:
    """A direct test of one statement: a weighted sum of the cells tells whether it is true."""

    weights: FloatArray
    signal: float  # By how much the sum differs between the home and one without the statement
    others: float = 0.0  # Standard deviation of what else the home draws in the sum
    results: list[float] = field(default_factory=list)  # The sums of simulated releases

    @property
    def odds(self) -> float:
        """How often a test with a known noise is right about two equally likely homes."""
        return self._odds(self.noise)

    @property
    def noise(self) -> float:
        """Standard deviation of the noise of the sum; none in tables that are exact."""
        return float(np.std(self.results, ddof=1)) if len(self.results) > 1 else 0.0

    @property
    def bounds(self) -> tuple[float, float, float]:
        """The odds, and their bounds with 95 % confidence each, from that of the noise."""
        free = len(self.results) - 1
        wide, narrow = (
            sqrt(free / chi2_quantile(p, free)) if free else 1.0
            for p in (1 - CONFIDENCE, CONFIDENCE)
        )
        return self.odds, self._odds(wide * self.noise), self._odds(narrow * self.noise)

    def _odds(self, noise: float) -> float:
        spread = hypot(noise, self.others)
        if spread <= 1e-9 * self.signal:
            return 1.0 if self.signal else 0.5
        return NormalDist().cdf(self.signal / spread / 2)


Odds = tuple[float, float, float]


def _best_odds(tests: Sequence[Sequence[_Test]], number: int, promise: Promise) -> Odds | None:
    """The odds of the best test of a statement, with their bounds; None where there is none."""
    own = tests[number] if tests else ()
    # One release does not show its noise.
    known = [test.bounds for test in own if promise.exact or len(test.results) > 1]
    return max(known, default=None)


def _make_tests(one: Finding, cells: _Cells) -> tuple[_Test, ...]:
    """Test a statement by the means of the cells that show it; nothing where no cells do.

    Somebody who suspects what the statement says compares the mean of some hours or days with that
    of others. At night there are no others: other homes draw more or less then.
    """
    said = one.evidence
    if one.kind in USUAL_H:
        hours = (said["hour"], True), (said["weekend_hour"], False)
        tests = [_test_hour(cells, hour, kind) for hour, kind in hours if hour is not None]
    elif one.kind == "active-hours":
        tests = [_test_even(cells)]
    elif one.kind == "change":
        tests = [_test_change(cells, said)]
    elif one.kind not in RULES:
        tests = [_test_run(one, cells)]
    else:
        tests = [_test_means(one, cells, *groups) for groups in _compared(one, cells)]
    return tuple(test for test in tests if test is not None)


def _test_means(one: Finding, cells: _Cells, chosen: BoolArray, others: BoolArray) -> _Test | None:
    """Compare the mean of the cells of a statement with that of others."""
    if not chosen.any() or not others.any():
        return None
    weights = chosen / chosen.sum()
    share = NIGHT_SPREAD
    if one.kind not in ALWAYS:
        weights, share = weights - others / others.sum(), 1.0
    if one.kind == "away":
        # The question is about the longest absence, and the means are over all days away.
        share = float(np.sqrt(one.evidence["longest_days"] / one.evidence["count"]))
    return _Test(weights, share * abs(float(weights @ cells.watts)))


def _compared(one: Finding, cells: _Cells) -> list[tuple[BoolArray, BoolArray]]:
    """Cells of which a statement says something, and those with which they are compared."""
    said, all_hours = one.evidence, cells.step_h < 24
    days = cells.days()
    weekday = (days + 3) % 7
    working = weekday < 5
    if one.kind in ALWAYS:
        first, stop = said.get("first_hour", NIGHT_H[0]), said.get("end_hour", NIGHT_H[1])
        chosen = cells.covers(first, stop) & all_hours
        return [(chosen, chosen)]
    if one.kind == "away":
        dates = np.array(said["dates"], "datetime64[D]").astype(np.int64)
        chosen = np.isin(cells.days(DAY_STARTS_H if all_hours else 0), dates)
        return [(chosen, ~chosen)]
    if one.kind == "workday-empty":
        inside = cells.covers(said["first_hour"], said["end_hour"])
        # Little use by day shows even where weekends are alike: it is compared with evenings too.
        evening = working & cells.covers(*EVENING_H) & ~inside
        return [(inside & working, inside & ~working), (inside & working, evening)]
    if one.kind == "returns":
        chosen = cells.covers(said["first_hour"], said["end_hour"])
        # A heater at night must not hide a load by day, so that quiet hours are compared.
        usual = cells.profile(~chosen)[cells.slot]
        quiet = usual <= np.median(usual[~chosen]) if not chosen.all() else ~chosen
        return [(chosen, ~chosen & quiet)]
    if one.kind == "weekend":
        return [(~working, working)]
    if one.kind == "season":
        month = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) % 12
        high, low = ((month + 1 - said[f"{name}_month"]) % 12 < 3 for name in ("high", "low"))
        return [(high, low)]
    inside = np.any([cells.covers(a, b) for a, b in said["hours"]], axis=0)  # A weekly event
    kind = inside & (working == (said["weekday"] < 5))
    return [(kind & (weekday == said["weekday"]), kind & (weekday != said["weekday"]))]


def _test_hour(cells: _Cells, hour: float, working: bool) -> _Test | None:
    """Tell the usual day from the same day an hour later, by the hours around a first or last use.

    The weights are the differences of both, which is the best test under even noise.
    """
    if cells.step_h >= 24:
        return None
    chosen = ((cells.days() + 3) % 7 < 5) == working
    chosen &= cells.covers(hour - AROUND_H, hour + AROUND_H)
    usual = cells.profile(chosen)
    later = np.roll(usual, max(1, round(MOVED_H / cells.step_h)))
    apart = np.nan_to_num(usual - later)
    return _matched(cells.weigh(apart, chosen), apart)


def _test_run(one: Finding, cells: _Cells) -> _Test | None:
    """Tell whether a run of an appliance took place at a known time.

    The run is the one with the median energy in the cells. What else the home draws varies as it
    does from day to day at the same hour, or from one cell to the next, whichever is less.
    """
    moments = one.marks.astype("datetime64[s]")
    marks = (one.marks + utc_offsets(moments, cells.zone)) / SECONDS_PER_HOUR
    marks = marks[np.argsort(marks[:, 0])]
    tried = np.unique(np.linspace(0, len(marks) - 1, TRIED_RUNS).astype(np.int64))
    watts = one.evidence["watts"]
    runs = [watts * cells.share_of(*marks[number]) for number in tried] if len(marks) else []
    runs.sort(key=lambda run: float(run @ run))
    if not runs or not runs[len(runs) // 2].any():
        return None
    weights = runs[len(runs) // 2]
    rest = cells.watts - watts * cells.share_of(marks[:, 0], marks[:, 1])
    spread = float(np.sqrt(weights**2 @ cells.variance(rest)))
    return _Test(weights, float(weights @ weights), spread)


def _test_even(cells: _Cells) -> _Test | None:
    """Tell the usual day from one that uses as much in all its hours."""
    every = np.ones(cells.hours.size, np.bool_)
    usual = cells.profile(every)
    apart = np.nan_to_num(usual - np.nanmean(usual))
    return _matched(cells.weigh(apart, every), apart)


def _test_change(cells: _Cells, said: dict[str, Any]) -> _Test | None:
    """Compare the usual hours around a habit before and after the date of its change."""
    if cells.step_h >= 24:
        return None
    days = cells.days()
    if said["use"] == "returns":
        inside = cells.covers(said["first_hour"], said["end_hour"])
    else:
        first, stop = sorted((said["before_hour"], said["after_hour"]))
        inside = ((days + 3) % 7 < 5) & cells.covers(first - MOVED_H, stop + MOVED_H)
    later = days >= np.datetime64(said["date"], "D").astype(np.int64)
    new, old = inside & later, inside & ~later
    apart = np.nan_to_num(cells.profile(new) - cells.profile(old))
    return _matched(cells.weigh(apart, new) - cells.weigh(apart, old), apart)


def _matched(weights: FloatArray, apart: FloatArray) -> _Test | None:
    """The best test of a difference of usual hours under even noise; None if they are equal."""
    return _Test(weights, float(apart @ apart)) if apart.any() else None


def _compare(before: Finding, found: Sequence[Sequence[Finding]]) -> BoolArray:
    """Whether a statement is made, and whether it is right, by release, shape (releases, 2)."""
    if before.kind not in RULES:
        return np.zeros((len(found), 2), np.bool_)
    same, kind = RULES[before.kind][0], ALWAYS.get(before.kind, before.kind)
    right = [[same(before, one) for one in answers if one.kind == kind] for answers in found]
    return np.array([(bool(one), any(one)) for one in right], np.bool_).reshape(-1, 2)


def _answers(release: Release, zone: str) -> tuple[Finding, ...]:
    """The best guesses of an attacker who has a release and knows its noise."""
    answers = likely_findings(release, tz=zone)
    if release.promise.tables[0].name == CELLS:
        return answers
    for name, read in (("days", _from_days), ("months", _from_months)):
        if name in release.view_names:
            answers += read(release.view(name))
    return answers


def _from_days(view: View) -> tuple[Finding, ...]:
    """Guess that nobody was active on days with little use, and that nights draw as little."""
    values = np.log(np.maximum(view.values, 1e-3))
    order = np.sort(values)
    # The two groups that differ most; the lower one is away if it uses less than 0.6 of the other.
    splits = range(1, order.size)
    gain = [k * (order.size - k) * (order[:k].mean() - order[k:].mean()) ** 2 for k in splits]
    place = 1 + int(np.argmax(gain)) if gain else 0
    apart = order[place:].mean() - order[:place].mean() if place else 0.0
    away = (values < order[place]) & (apart > -np.log(0.6)) if place else values < -np.inf
    dates = [str(day) for day in np.asarray(view.labels["day"])[away]]
    evidence = {"dates": dates, "count": len(dates), "days": away.size}
    # On a day away the home draws about what it draws at night.
    rest = float(np.mean(view.values[away]) if dates else np.quantile(view.values, 0.02))
    night = {"watts": rest * JOULES_PER_KWH / SECONDS_PER_DAY}
    return (Finding("away", "", evidence, "likely"), Finding("night", "", night, "about"))


def _from_months(view: View) -> tuple[Finding, ...]:
    """Guess the seasons from the mean power of at least twelve months."""
    months = np.asarray(view.labels["month"]).astype("datetime64[M]").astype(np.int64) % 12
    cells = np.asarray(view.labels["cells"], np.float64)
    if np.unique(months).size < 12:
        return ()
    mean = np.bincount(months, view.values, 12) / np.bincount(months, cells, 12)
    quarters = np.array([np.roll(mean, -m)[:3].mean() for m in range(12)])
    high, low = int(np.argmax(quarters)), int(np.argmin(quarters))
    ratio = float(quarters[high] / max(quarters[low], 1e-9))
    return (Finding("season", "", {"ratio": ratio, "high_month": high + 1}, "about"),)


def _judge(before: Finding, answers: BoolArray, odds: Odds | None, exact: bool) -> Remaining:
    """Decide about a statement from (stated, right) of every release, and from a direct test.

    A guess at a usual time is right for many homes, so that its share of right answers says
    nothing; no guess is made about single runs.
    """
    right, total = int(answers[:, 1].sum()), len(answers)
    guessed, said = before.kind in RULES, []
    chance = RULES[before.kind][1](before) if guessed else 0.5
    share = right / total if guessed else odds[0] if odds else 1.0
    counted = guessed and before.kind not in USUAL_H
    if odds is None and not (counted and answers[:, 0].any()):
        after = "Uncertain: no simulated attack tests whether these tables show it."
        return Remaining(before.kind, before.sentence, after, 1.0, chance, "uncertain")
    if guessed:
        how = f"from {right} of {total} simulated releases"
        if exact:
            how = "from the exact sums" if right else "by no attack on the exact sums"
        said.append(
            f"It is stated correctly {how}; a guess without the readings would be right "
            f"{_of_100(chance)} times out of 100."
        )
    if odds is not None:
        who = "suspects it and tests it" if guessed else "knows when a run was and tests it"
        said.append(
            f"Somebody who {who} would be right {_with_bounds(odds)}; a coin is right 50 times."
        )
    # Few releases never show that a statement is gone.
    few = not exact and _upper(0, total) > HARMLESS
    most = max(HARMLESS, chance + MARGIN)
    seldom = not counted or (share <= HARMLESS if exact else _upper(right, total) <= most)
    told, best = (0.0, 0.5) if odds is None else (odds[0], odds[2])
    verdict = "uncertain"
    if told >= CLEAR or (counted and share >= max(MOSTLY, chance + MARGIN)):
        verdict = "still there"
    elif seldom and best <= 0.5 + MARGIN and not few:
        verdict = "gone"
    after = " ".join([f"{verdict.capitalize()}.", *said])
    return Remaining(before.kind, before.sentence, after, share, chance, verdict, odds)


def _upper(hits: int, total: int) -> float:
    """Upper bound of a share with 95 % confidence (Clopper and Pearson)."""
    return 1.0 if hits == total else beta_quantile(CONFIDENCE, hits + 1, total - hits)


def _with_bounds(odds: Odds) -> str:
    """How often a test is right, with the bounds of this where they differ."""
    told, low, high = map(_of_100, odds)
    return f"{told} times out of 100" + (f" ({low} to {high})" if low != high else "")


def _of_100(share: float) -> str:
    if share > 0.99:
        return "more than 99"
    # A share below one in a hundred is rounded up, so that no guess is said to be impossible.
    return f"{100 * share:.0f}" if share >= 0.01 else f"{ceil(1000 * share) / 10:g}"


def _same_hour(one: Finding, other: Finding) -> bool:
    """The hour of working days, or that of weekends, within an hour."""
    for name in ("hour", "weekend_hour"):
        a, b = one.evidence[name], other.evidence[name]
        if a is not None:
            return b is not None and bool(abs((a - b + 12) % 24 - 12) <= TOLERANCE_H)
    return False


def _same_night(one: Finding, other: Finding) -> bool:
    watts = one.evidence["watts"]
    return bool(abs(other.evidence["watts"] - watts) <= max(30.0, 0.2 * abs(watts)))


def _same_days(one: Finding, other: Finding) -> bool:
    """At least half of the days away, and at most one wrong day out of five."""
    true, said = set(one.evidence["dates"]), set(other.evidence["dates"])
    return len(true & said) >= max(0.5 * len(true), 0.8 * len(said))


def _span(one: Finding) -> tuple[float, float]:
    """First hour and end, counted from the start of a day, so that midnight divides no span."""
    first, end = ((one.evidence[f"{name}_hour"] - DAY_STARTS_H) % 24 for name in ("first", "end"))
    return first, end + 24 * (end <= first)


def _same_span(one: Finding, other: Finding) -> bool:
    """Hours of which at least 60 out of 100 are the same."""
    (a, b), (c, d) = _span(one), _span(other)
    return min(b, d) - max(a, c) >= 0.6 * (max(b, d) - min(a, c))


def _same_hours(one: Finding, other: Finding) -> bool:
    """The shares of active days by hour have a correlation of at least 0.85.

    Equal shares in all hours have no correlation; the usual hours are then compared.
    """
    a, b = (np.asarray(f.evidence["share_by_hour"]) for f in (one, other))
    if not np.ptp(a) or not np.ptp(b):
        return bool(np.array_equal(a >= 0.5, b >= 0.5))
    return bool(np.corrcoef(a, b)[0, 1] >= 0.85)


def _same_load(one: Finding, other: Finding) -> bool:
    """Half of the shorter hours, a similar power, and a share of days within 0.15."""
    (first, end), (start, stop) = _span(one), _span(other)
    a, b = one.evidence, other.evidence
    share = abs(a["count"] / a["days"] - b["count"] / b["days"]) <= 0.15
    half = min(end, stop) - max(first, start) >= 0.5 * min(end - first, stop - start)
    return bool(half and share and 0.6 <= b["watts"] / a["watts"] <= 1.7)


def _same_ratio(one: Finding, other: Finding) -> bool:
    a, b = one.evidence["ratio"], other.evidence["ratio"]
    return (a > 1) == (b > 1) and bool(abs(np.log(a / b)) <= 0.12)


def _same_season(one: Finding, other: Finding) -> bool:
    apart = abs(one.evidence["high_month"] - other.evidence["high_month"])
    return _same_ratio(one, other) and min(apart, 12 - apart) <= 1


def _same_weekday(one: Finding, other: Finding) -> bool:
    a, b = one.evidence, other.evidence
    overlap = any(x[0] < y[1] and y[0] < x[1] for x in a["hours"] for y in b["hours"])
    return bool(a["weekday"] == b["weekday"] and overlap)


def _same_change(one: Finding, other: Finding) -> bool:
    """The same habit, and a date within two weeks."""
    if one.evidence["use"] != other.evidence["use"]:
        return False
    dates = (date.fromisoformat(f.evidence["date"]) for f in (one, other))
    return abs(next(dates) - next(dates)) <= timedelta(days=14)


TOLERANCE_H = 1.0
"""Largest error of an hour that counts as right [h]."""
USUAL_H = {"first-use": (1.1, 1.3), "last-use": (1.0, 1.1)}
"""Standard deviation of usual first and last uses among homes, on working days and at weekends [h];
rounded from surveys of time use."""
NIGHT_SPREAD, RATIO_SPREAD = 0.6, 0.25
"""Standard deviation among homes of the logarithm of the power at night, and of a ratio of use."""


def _hour_chance(one: Finding) -> float:
    """Chance of a guess at the usual hour of all homes."""
    spread = USUAL_H[one.kind][one.evidence["hour"] is None]
    return erf(TOLERANCE_H / spread / sqrt(2))


def _days_chance(one: Finding) -> float:
    """Chance that as many days, drawn by lot, contain at least half of the days away."""
    away, days = one.evidence["count"], one.evidence["days"]
    least = -(-max(5 * away, 8 * away) // 10)
    ways = sum(comb(away, k) * comb(days - away, away - k) for k in range(least, away + 1))
    return ways / comb(days, away)


Same = Callable[[Finding, Finding], bool]
_NIGHT: tuple[Same, Callable[[Finding], float]] = (
    _same_night,
    lambda _: erf(0.2 / NIGHT_SPREAD / sqrt(2)),
)
RULES: dict[str, tuple[Same, Callable[[Finding], float]]] = {
    "base-load": _NIGHT,
    "night": _NIGHT,
    "away": (_same_days, _days_chance),
    "first-use": (_same_hour, _hour_chance),
    "last-use": (_same_hour, _hour_chance),
    # A home is empty by day or not; its hours vary as those of waking do.
    "workday-empty": (_same_span, lambda _: 0.3),
    "active-hours": (_same_hours, lambda _: 0.4),
    # One of about seven windows and one of about four powers.
    "returns": (_same_load, lambda _: 1 / 28),
    "weekend": (_same_ratio, lambda _: erf(0.12 / RATIO_SPREAD / sqrt(2))),
    "season": (_same_season, lambda _: 0.25),
    "weekly": (_same_weekday, lambda _: 3 / 56),
    "change": (_same_change, lambda _: 0.05),
}
"""For every kind of statement: when two of them are the same, and how often a guess is right."""
ALWAYS = {"base-load": "night", "night": "night"}
"""Statements about what is always on, and the answer that is compared with them."""
HOURS, DAYS, WEEK = "the hours of a day", "single days", "days of the week"
PERIODS = "times as short as this period"
NEEDS: dict[str, tuple[tuple[str, ...], ...]] = {
    **dict.fromkeys(
        ("first-use", "last-use", "workday-empty", "active-hours", "returns"), ((HOURS,),)
    ),
    # The sums of days away show what the home draws at rest.
    **dict.fromkeys(ALWAYS, ((HOURS, DAYS),)),
    "away": ((DAYS,),),
    "weekend": ((WEEK,),),
    "weekly": ((WEEK,),),
    "change": ((DAYS,),),
    "season": (),
}
"""What the tables of a release must tell apart so that they can show a statement: one of each.

Single runs need single days; a season needs none of them."""
