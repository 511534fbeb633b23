"""From a wish to a release: hide the kettle, without a home and without ε.

The unit of protection is any use of up to E watt-hours and P watts. E and P come from the words of
the user or from the high values of the catalogue. The mechanism, its ε and the length of the
released means follow from the wanted odds and from what the data is for. A plan takes no readings,
so nothing in it depends on them. `compare_with_use` sets the errors of a plan beside the use of the
household; its result is for the household alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.advice.least_noise import calibrate_series
from hushmeter.advice.options import Option
from hushmeter.advice.planner import HOURLY_COSTS, Advice, advise
from hushmeter.advice.purposes import PURPOSES, StandardErrors, choose_purpose
from hushmeter.appliance_kinds import catalogue
from hushmeter.errors import DataError, InputError
from hushmeter.formatting import (
    duration_in_words,
    format_two_digits,
    format_watt_hours,
    format_watts,
    out_of_100,
    short_duration,
)
from hushmeter.home import DEFAULT_TOLERANCE, SOURCES, Appliance, Home, LearntFrom
from hushmeter.noise import MECHANISMS
from hushmeter.noise.losses import DELTA
from hushmeter.privacy.units import resolve_unit
from hushmeter.releases.cost import PRICE_PER_KWH
from hushmeter.releases.restore import restore
from hushmeter.releases.series import mean_windows, release
from hushmeter.releases.views import release_views
from hushmeter.trace import SECONDS_PER_HOUR

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism
    from hushmeter.privacy.units import Unit
    from hushmeter.releases.calendar import Calendar
    from hushmeter.trace import Metering, Trace

LOUD = 1.0
"""Error of a released value, as a share of the own use, from which the household is warned."""


@dataclass(frozen=True)
class Plan:
    """A release that hides what was wished.

    Attributes
    ----------
    use : Appliance
        The hidden use: its protected power, run and energy enclose one run of every appliance
        that was named.
    advice : Advice
        The releases that meet the goal, cheapest first for the purpose, or only the cheapest.
    unit : Unit
        The unit of protection of the cheapest release.
    noise : Mechanism or None
        Its noise; None for a calendar release, whose tables have noise of different sizes.
    learnt_from : LearntFrom or None
        The readings from which learnt numbers of the use come.
    """

    use: Appliance
    advice: Advice
    unit: Unit
    noise: Mechanism | None
    learnt_from: LearntFrom | None = None

    @property
    def option(self) -> Option:
        """The chosen release: length of the means, ε, odds, scale and errors."""
        return self.advice.best

    @property
    def mechanism(self) -> Mechanism:
        """The noise of a series; a calendar release is made by `release_views` with its ε."""
        if self.noise is None:
            raise InputError("this plan is a calendar release: make it with release_views.")
        return self.noise

    @property
    def purpose(self) -> str:
        """What the released data is for; a name of `PURPOSES`."""
        return self.advice.goal.purpose

    @property
    def home(self) -> Home:
        """A home with the hidden use alone, for `hushmeter.release`."""
        return Home([self.use], learnt_from=self.learnt_from)

    @property
    def promise(self) -> tuple[str, str]:
        """Two sentences: what is hidden, and to which odds."""
        odds = f"more than {out_of_100(self.advice.goal.max_odds)} times out of 100"
        coin = "a coin is right 50 times"
        if self.unit.span == "when":
            return (
                f"Hidden: {self.unit.sentence}.",
                f"Nobody who has the released values can be right {odds} about which of two times "
                f"of the day it was; {coin}. The sums of the days are published "
                f"{'with less noise' if self.unit.day_scale else 'exactly'} and show whether it "
                "ran.",
            )
        if self.unit.span == "run":
            hidden = f"{describe_use(self.use)}, such as one run of the {self.use.name}"
        else:
            hidden = self.unit.sentence
        unknown = self.option.unknown
        blind = ""
        if unknown is not None and unknown.moments > 1 and unknown.odds < self.option.odds:
            blind = f" Whoever does not know when to look is right {unknown.sentence}."
        return (
            f"Hidden: {hidden}.",
            "Nobody who has the released values can be right about whether it happened "
            f"{odds}; {coin}.{blind}",
        )


def plan_to_hide(
    kinds: str | Appliance | Iterable[str | Appliance],
    odds: float = 0.6,
    purpose: str | None = None,
    *,
    interval_s: float,
    home: Home | None = None,
    span: str | None = None,
    use: float | str | None = None,
    every: float | str | None = None,
    metering: Metering | None = None,
    readings: int | None = None,
    calendar: Calendar | None = None,
    zone: str = "UTC",
    forms: Sequence[str] = ("series",),
    mechanisms: Collection[str] = MECHANISMS,
    delta: float = DELTA,
    hourly_costs: Sequence[float] = HOURLY_COSTS,
    max_hourly_error: float | None = None,
    max_error: float | None = None,
    price_per_kwh: float = PRICE_PER_KWH,
    only_best: bool = False,
) -> Plan:
    """Find the release that hides appliances at the least cost for a purpose.

    Parameters
    ----------
    kinds : str, Appliance, or an iterable of them
        What to hide: names of the catalogue, words such as "kettle 2100 W 180 s", or appliances.
        One text may list several, with commas.
    odds : float, default 0.6
        Largest probability that the best attacker is right, as a share (0.6) or out of 100 (60).
    purpose : {"hour", "day", "month", "profile", "register"}, optional
        What the data is for; see `advise`.
    interval_s : float
        Length of a metered reading [s].
    home : Home, optional
        A home whose appliances are meant by their names, instead of the catalogue.
    span : {"reading", "run", "day", "when"}, optional
        What is hidden; one run by default.
    use : float or str, optional
        Longest use a day, such as "30min"; for the spans "day" and "when".
    every : float or str, optional
        Length of the released means, such as "30min", instead of a search.
    metering, readings
        How the meter rounds and copies, and the number of metered readings; see `resolve_unit`.
    calendar, zone
        Public times of the period; see `advise`.
    forms : sequence of {"series", "calendar"}
        Kinds of release to search; by default only readings of one resolution.
    mechanisms : sequence of str
        Names of the mechanisms to search.
    delta : float
        δ of the Gaussian mechanism.
    hourly_costs : sequence of float
        Of the calendar releases to search; see `release_views`.
    max_hourly_error, max_error : float, optional
        Largest acceptable standard errors; see `advise`.
    price_per_kwh : float
        Price of energy.
    only_best : bool
        If True, the advice holds the cheapest release alone; see `advise`.

    Returns
    -------
    Plan

    Raises
    ------
    InputError
        If a value is out of its range, an appliance is unknown, or no noise is wide enough.

    Examples
    --------
    >>> import hushmeter as hm
    >>> plan = hm.plan_to_hide("kettle 2100 W 180 s", odds=60, interval_s=3600)
    >>> plan.mechanism.name, round(plan.mechanism.scale)
    ('gaussian', 210)
    """
    hidden = enclose_uses(find_appliances(kinds, home))
    tolerance = DEFAULT_TOLERANCE if home is None else home.tolerance
    alone = Home([hidden], tolerance)
    advice = advise(
        alone,
        hidden.name,
        max_odds=odds,
        purpose=purpose,
        span=span,
        use=use,
        interval_s=interval_s,
        every=every,
        metering=metering,
        readings=readings,
        calendar=calendar,
        zone=zone,
        forms=forms,
        mechanisms=mechanisms,
        delta=delta,
        hourly_costs=hourly_costs,
        max_hourly_error=max_hourly_error,
        max_error=max_error,
        price_per_kwh=price_per_kwh,
        only_best=only_best,
    )
    best = advice.best
    unit = resolve_unit(
        span=advice.goal.span,
        interval_s=interval_s,
        home=alone,
        every=best.every_s,
        metering=metering,
        readings=readings,
        use=use,
        zone=zone,
    )
    noise = None
    if best.form == "series":
        noise = calibrate_series(best.mechanism, best.epsilon, unit, delta)
    return Plan(hidden, advice, unit, noise, None if home is None else home.learnt_from)


def find_appliances(
    kinds: str | Appliance | Iterable[str | Appliance], home: Home | None = None
) -> list[Appliance]:
    """Find the appliances that words mean.

    Parameters
    ----------
    kinds : str, Appliance, or an iterable of them
        See `plan_to_hide`.
    home : Home, optional
        Its appliances are found by their names or by another name of the catalogue.

    Returns
    -------
    list of Appliance

    Raises
    ------
    InputError
        If nothing is named, or an appliance is in neither the home nor the catalogue.
    """
    given = [kinds] if isinstance(kinds, str | Appliance) else list(kinds)
    found: list[Appliance] = []
    for entry in given:
        if isinstance(entry, Appliance):
            found.append(entry)
            continue
        words = [part.strip() for part in entry.split(",") if part.strip()]
        found += [
            Appliance.from_words(word) if home is None else _in_home(word, home) for word in words
        ]
    if not found:
        raise InputError('name what to hide, such as "kettle".')
    return found


def enclose_uses(appliances: Iterable[Appliance]) -> Appliance:
    """Return one use that is at least as large as one run of each appliance.

    Parameters
    ----------
    appliances : iterable of Appliance
        At least one.

    Returns
    -------
    Appliance
        A single appliance is returned as it is. Otherwise the largest protected power, run and
        energy of all of them, so that the unit of protection can be stated as “any use of up to
        E Wh and P W” whatever the appliances are called.
    """
    members = list(appliances)
    if len(members) == 1:
        return members[0]
    runs = [member.protected_run_s for member in members]
    lengths = [run for run in runs if run is not None]
    known = len(lengths) == len(members)
    uses = [member.protected_use_s_per_day for member in members]
    capped = [use for use in uses if use is not None]
    return Appliance(
        " or ".join(dict.fromkeys(member.name for member in members)),
        max(member.protected_power for member in members),
        run_s=max(lengths) if known else None,
        energy_wh=max(map(use_energy_wh, members)) if known else None,
        use_s_per_day=max(capped) if len(capped) == len(members) else None,
        **_enclosed_sources(members),
    )


def _enclosed_sources(members: Sequence[Appliance]) -> dict[str, Any]:
    """The source of an enclosing use: one learnt number makes the number that encloses it learnt.

    The energy of a use follows from its power and its run too.
    """
    power = {member.source_of(member.power_field) for member in members}
    run = {member.source_of(member.run_field) for member in members}
    energy = {one.source_of("energy_wh") for one in members if one.energy_wh is not None}
    use = {one.source_of("use_s_per_day") for one in members if one.use_s_per_day is not None}
    numbers = {
        "power": power,
        "run_s": run,
        "energy_wh": power | run | energy,
        "use_s_per_day": use,
    }
    others = tuple(name for name, sources in numbers.items() if "learnt" not in sources)
    if len(others) == len(numbers):
        return {"source": min((member.source for member in members), key=SOURCES.index)}
    return {"source": "learnt", "typed": others}


def use_energy_wh(appliance: Appliance) -> float:
    """Largest energy of one run of an appliance [Wh]; infinite if its run is unknown."""
    run_s, stated = appliance.protected_run_s, appliance.protected_energy_wh
    most = np.inf if run_s is None else appliance.protected_power * run_s / SECONDS_PER_HOUR
    return float(most if stated is None else min(most, stated))


def describe_use(use: Appliance) -> str:
    """Return a phrase about a hidden use, with its energy, power and length but without a name."""
    if use.protected_run_s is None:
        return f"any use of up to {format_watts(use.protected_power)}"
    return (
        f"any use of up to {format_watt_hours(use_energy_wh(use))} and "
        f"{format_watts(use.protected_power)} that lasts up to "
        f"{duration_in_words(use.protected_run_s)}"
    )


@dataclass(frozen=True)
class OwnUse:
    """The errors of a release beside the household's own use; for the household alone.

    Attributes
    ----------
    errors : StandardErrors
        Standard errors of the released values.
    mean_w : float
        Mean size of the metered readings [W].
    purpose : {"hour", "day", "month", "profile", "register"}
        What the data is for: the number that is compared.
    """

    errors: StandardErrors
    mean_w: float
    purpose: str

    @property
    def error(self) -> float:
        """Standard error of the compared number, in the unit of the purpose."""
        error = self.errors.of(self.purpose)
        # Values longer than an hour show no hours; the page compares the values themselves.
        return self.errors.value_w if error is None else error

    @property
    def own(self) -> float:
        """Own use that the error is compared with, in the unit of the purpose."""
        return PURPOSES[self.purpose].of_mean_power(self.mean_w)

    def share(self) -> float:
        """Error as a share of the own use; infinite if nothing is used."""
        return self.error / self.own if self.own > 0 else float("inf")

    @property
    def loud(self) -> bool:
        """True if the error of the compared number exceeds the own use."""
        return self.share() > LOUD

    @property
    def sentence(self) -> str:
        """The error of the compared number, and the own use."""
        purpose, errors = PURPOSES[self.purpose], self.errors
        reading = ""
        if self.purpose == "hour" and errors.value_s < SECONDS_PER_HOUR:
            reading = (
                f"Each released value ({short_duration(errors.value_s)}) is off by about "
                f"{format_watts(errors.value_w)}. "
            )
        subject = purpose.subject[0].upper() + purpose.subject[1:]
        own = f"your {purpose.own} is {purpose.text(self.own)}"
        if self.error == 0:
            return f"{subject} is exact; {own}."
        return f"{reading}{subject} is off by about {purpose.text(self.error)}; {own}."

    @property
    def sentences(self) -> tuple[str, ...]:
        """The comparison and, if the noise exceeds the own use, a loud warning."""
        if not self.loud:
            return (self.sentence,)
        single = {"profile": "hour", "register": "value"}.get(self.purpose, self.purpose)
        return (
            self.sentence,
            f"WARNING: the noise is {format_two_digits(self.share())} times your own use. A curve "
            f"of single {single}s of this file would show noise, not your home.",
        )


def compare_with_use(errors: StandardErrors, trace: Trace, purpose: str | None = None) -> OwnUse:
    """Set the errors of a release beside the household's own use.

    Parameters
    ----------
    errors : StandardErrors
        Standard errors of the released values.
    trace : Trace
        The metered readings. The result depends on them: print it locally, never publish it, and
        never let it choose a parameter of the release.
    purpose : {"hour", "day", "month", "profile", "register"}, optional
        What to compare; by default an hour, or a day if the released values are longer.

    Returns
    -------
    OwnUse
    """
    chosen = purpose or choose_purpose(None, errors.value_s)
    return OwnUse(errors, float(np.abs(trace.readings).mean()), chosen)


LONGER = {"hour": ("day", "month"), "profile": ("month",), "day": ("month",)}
"""Purposes of longer periods, whose errors may be smaller than the own use."""


def compare_plan(plan: Plan, trace: Trace) -> tuple[str, ...]:
    """Set the cost of a plan beside the own use, and say what would help if it is too high.

    Parameters
    ----------
    plan : Plan
        The plan.
    trace : Trace
        The metered readings; see `compare_with_use`.

    Returns
    -------
    tuple of str
        One sentence if the noise is smaller than the own use; otherwise a warning and, for each
        longer period with a smaller error, what it would be.
    """
    own = compare_with_use(plan.option.errors, trace, plan.purpose)
    if not own.loud:
        return own.sentences
    others = [
        compare_with_use(_errors_for(plan, purpose), trace, purpose)
        for purpose in LONGER.get(plan.purpose, ())
    ]
    better = [other for other in others if not other.loud]
    if better:
        helps = tuple(f"What helps: --for {other.purpose}. {other.sentence}" for other in better)
        return (*own.sentences, *helps)
    return (
        *own.sentences,
        "Longer periods do not help enough for this use: hide a smaller or shorter use, accept "
        "higher odds, or share one total of many months instead of readings.",
    )


def _errors_for(plan: Plan, purpose: str) -> StandardErrors:
    """Errors of hiding the same use to the same odds for another purpose."""
    if plan.option.form == "calendar":
        return plan.option.errors
    goal, unit = plan.advice.goal, plan.unit
    found = plan_to_hide(
        plan.use,
        goal.max_odds,
        purpose,
        interval_s=unit.interval_s,
        span=goal.span,
        use=unit.use_s,
        metering=unit.metering,
        readings=unit.readings,
        zone=unit.zone,
        delta=(plan.noise.delta if plan.noise else 0) or DELTA,
        only_best=True,
    )
    return found.option.errors


def describe_restoring(plan: Plan, trace: Trace) -> tuple[str, ...]:
    """State how much restoring would help on the household's own readings.

    Parameters
    ----------
    plan : Plan
        The plan.
    trace : Trace
        The metered readings. A simulated release of them is restored and compared with them, so
        the sentence is private.

    Returns
    -------
    tuple of str
        One sentence; empty if the readings cannot be released in this way, or are too long.
    """
    errors = plan.option.errors
    if plan.unit.span == "when" or errors.hour_w is None:
        return ()
    try:
        if plan.noise is None:
            calendar = release_views(
                trace,
                epsilon=plan.option.epsilon,
                unit=plan.unit,
                zone=plan.unit.zone,
                hourly_cost=plan.option.hourly_cost or HOURLY_COSTS[0],
                rng=0,
            )
            true = trace.coarsen(plan.option.every_s).readings
            noisy, better = calendar.hours.values, restore(calendar).hours.values
        else:
            done = release(trace, plan.noise, plan.unit, rng=0)
            true = (
                mean_windows(trace, plan.unit)[0].readings
                if plan.unit.window > 1
                else (trace.readings)
            )
            noisy, better = done.trace.readings, restore(done).trace.readings
    except DataError:
        return ()
    before, after = (float(np.sqrt(np.mean((values - true) ** 2))) for values in (noisy, better))
    what = short_duration(errors.value_s)
    return (
        f"In a simulated release of your own readings, restored values of {what} were off by about "
        f"{format_watts(after)} instead of {format_watts(before)} (this comparison is private).",
    )


def _in_home(word: str, home: Home) -> Appliance:
    """The appliance of a home that a word means; raise `UnknownNameError` if there is none."""
    kind = catalogue.get(word)
    if word not in home.names and kind is not None:
        for name in home.names:
            if catalogue.get(name) is kind:
                return home.appliances[home.index(name)]
    return home.appliances[home.index(word)]
