"""Find the release that meets a privacy goal at the lowest cost.

“Nobody may be right about my kettle more than 60 times out of 100” is a goal for the odds of the
best attacker. `advise` tries all candidates of a request (`hushmeter.releases.search`), cells of
several lengths with several mechanisms and several tables that share the budget, and ranks their
promises by the standard error of the number that the data is for.

A buyer of the data, or the household itself, may fix the error first: “at most 50 W in an hour”.
`find_reach` finds the least ε whose standard error is within this limit, and with it, for every
appliance, the odds of the best attacker. `find_front` computes the standard errors of each kind of
release for several odds. No reading has any influence on the answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from hushmeter.appliance import Appliance
from hushmeter.checks import one_of, positive, whole
from hushmeter.errors import DataError, InputError
from hushmeter.noise import DEFAULT_KIND, SHARING_KIND
from hushmeter.privacy.units import Metered
from hushmeter.privacy.units import metered as facts_of
from hushmeter.releases.labels import CELLS, HOURLY_COST, VIEWS, cells_of, check_tables
from hushmeter.releases.promise import Promise
from hushmeter.releases.purposes import PRICE_PER_KWH, Cost, Errors
from hushmeter.releases.request import Request
from hushmeter.releases.search import (
    LEAST_EPSILON,
    LONG_RESOLUTIONS_S,
    MOST_EPSILON,
    at_epsilon,
    candidates,
    keep_odds,
    measured_odds,
    price_of,
    with_local_days,
)
from hushmeter.trace import SECONDS_PER_DAY, SECONDS_PER_HOUR, Trace, nearest_multiple

if TYPE_CHECKING:
    from hushmeter.home import Home
    from hushmeter.noise.mechanism import Mechanism
    from hushmeter.privacy import UnknownMoment
    from hushmeter.privacy.units import Unit

FORMS = ("series", "calendar")
"""Kinds of release: cells of one length with independent noise, or the tables "views"."""

HOURLY_COSTS = (HOURLY_COST, 1.5)
"""Hourly costs of the calendar releases that are searched: the default, and one that gives up a
third of the hour's accuracy for a third less error in days, months and the typical day."""

EXACT = "exact"
"""Name of an option without noise: no protected change moves its sums."""

OddsOf = Callable[["Mechanism", "Unit"], float]
"""The odds of an attacker, as a function of mechanism and unit."""


@dataclass(frozen=True)
class Goal:
    """A privacy goal.

    Attributes
    ----------
    appliance : str
        The appliance to hide, or the words of the household about when it uses electricity.
    max_odds : float
        Largest probability that the best attacker is right about it, if on and off are equally
        likely.
    span : {"reading", "run", "day", "when", "file"}
        What is hidden: one released reading, one run or one day of the appliance, the time of a
        run within its day, or when electricity is used in the whole file.
    max_hourly_error : float or None
        Largest acceptable standard error of the hourly mean. [W]
    purpose : {"hour", "day", "month", "profile", "register"}
        What the data is for: the number whose standard error ranks the options.
    max_error : float or None
        Largest acceptable standard error of that number, in its unit (W or kWh).
    """

    appliance: str
    max_odds: float
    span: str
    max_hourly_error: float | None = None
    purpose: str = "hour"
    max_error: float | None = None

    def accepts(self, errors: Errors) -> bool:
        """True if the standard errors are within the limits of the goal."""
        limits = ((errors.hour_w, self.max_hourly_error), (errors.of(self.purpose), self.max_error))
        return all(
            most is None or (error is not None and error <= most * (1 + 1e-9))
            for error, most in limits
        )


@dataclass(frozen=True)
class Option:
    """One possible release.

    Attributes
    ----------
    mechanism : str
        Name of the mechanism.
    every_s : float
        Length of the cells. [s]
    epsilon : float
        ε of the unit of protection.
    odds : float
        Probability that the best attacker is right about the goal's appliance over its span.
    scale : float
        Scale of the noise of a cell. [W]
    cost : Cost
        Mean absolute errors of the released values.
    errors : Errors
        Standard errors for each purpose.
    largest_epsilon : float or None
        ε at the largest power that was ever measured; None if the home does not give it.
    form : {"series", "calendar"}
        Cells of one length with independent noise, or several tables.
    unknown : UnknownMoment or None
        Bound of the odds of an attacker who does not know when a run happens. It comes beside
        `odds` and never replaces them; None unless one run is hidden.
    hourly_cost : float or None
        If there are several tables: largest error of a cell, relative to a release of cells alone.
    tables : tuple of str
        Names of the published tables.
    """

    mechanism: str
    every_s: float
    epsilon: float
    odds: float
    scale: float
    cost: Cost
    errors: Errors
    largest_epsilon: float | None = None
    form: str = "series"
    unknown: UnknownMoment | None = None
    hourly_cost: float | None = None
    tables: tuple[str, ...] = (CELLS,)

    @classmethod
    def of(
        cls,
        promise: Promise,
        member: Appliance | None,
        price_per_kwh: float,
        odds: float | None = None,
    ) -> Option:
        """Describe a promise as an option; measured odds take the place of the best ones."""
        hidden = member if promise.home is None else promise.home.appliances[0]
        largest = None if hidden is None else hidden.at_largest_power()
        return cls(
            EXACT if promise.exact else promise.noise.name,
            promise.cells.interval_s,
            promise.epsilon,
            promise.odds if odds is None else odds,
            0.0 if promise.exact else promise.noise.scale,
            promise.errors.cost(price_per_kwh),
            promise.errors,
            None if largest is None else promise.epsilon_for(promise.unit.for_appliance(largest)),
            "calendar" if promise.joint else "series",
            # Beside the measured odds of an attacker, those of one who knows less mean nothing.
            promise.unknown if odds is None else None,
            promise.hourly_cost if promise.joint else None,
            promise.words,
        )

    @property
    def name(self) -> str:
        """A short name for a column: the noise, the tables, or that it is a calendar release."""
        if self.form != "calendar" or self.mechanism == EXACT:
            return self.mechanism
        if self.tables != VIEWS:
            return " + ".join(self.tables)
        return "calendar" if self.hourly_cost == HOURLY_COST else f"cal. {self.hourly_cost:g}"


@dataclass(frozen=True)
class Advice:
    """The options for a goal.

    Attributes
    ----------
    goal : Goal
        The goal.
    feasible : bool
        True if an option meets the goal.
    options : tuple of Option
        The options that meet the goal, cheapest first; the calendar release comes before them if
        the request has no purpose. If none meets it, all options, nearest first.
    appliance : Appliance or None
        The appliance to hide, with the powers and runs that were protected; None if only the times
        of the use are hidden.
    promise : Promise
        The promise of the first option.

    Examples
    --------
    >>> advice = hm.advise(hm.Request(hide="kettle"), hm.Metered(900))
    >>> advice.best.form, round(advice.promise.odds, 2)
    ('calendar', 0.6)
    """

    goal: Goal
    feasible: bool
    options: tuple[Option, ...]
    appliance: Appliance | None
    promise: Promise = field(repr=False, compare=False)

    @property
    def best(self) -> Option:
        """The cheapest option, or the nearest one if no option meets the goal."""
        return self.options[0]

    def to_dict(self) -> dict[str, Any]:
        """Return the goal and the options, for JSON."""
        names = ("goal", "feasible", "options", "appliance")
        return {name: getattr(self, name) for name in names}


def advise(
    request: Request,
    metered: Metered,
    *,
    forms: Sequence[str] = FORMS,
    max_hourly_error: float | None = None,
    max_error: float | None = None,
    price_per_kwh: float = PRICE_PER_KWH,
    odds_of: OddsOf | None = None,
) -> Advice:
    """Search lengths of cells, mechanisms, tables and ε for releases that meet a wish.

    Parameters
    ----------
    request : Request
        A wish with `hide`; what it leaves open (`every`, `mechanism`, `tables`) is searched.
    metered : Metered
        What is public about the meter, from `hm.metered(trace)` or `hm.Metered(interval_s)`.
    forms : sequence of {"series", "calendar"}
        Kinds of release to search, if the request names no tables. The span "when" and measured
        odds have no calendar release.
    max_hourly_error : float, optional
        Largest acceptable standard error of the hourly mean. [W]
    max_error : float, optional
        Largest acceptable standard error of the number that the data is for. [W or kWh]
    price_per_kwh : float
        Price of energy. [money/kWh]
    odds_of : callable, optional
        Odds of one attacker, from `measure_with`, instead of the best possible odds. This is a
        weaker guarantee, because a better attacker may exist.

    Returns
    -------
    Advice
        The options that meet the goal, cheapest first, or the nearest ones.

    Raises
    ------
    InputError
        If a value is out of its range, or no grid is wide enough for the noise.

    Examples
    --------
    >>> wish = hm.Request(hide="kettle 2100 W 180 s", purpose="month")
    >>> hm.advise(wish, hm.Metered(3600)).best.form
    'calendar'
    """
    if request.hide is None:
        raise InputError("advice needs a wish: say what to hide, such as hide='kettle'.")
    member = request.member if request.appliances else None
    goal = Goal(
        request.subject if member is None else member.name,
        request.odds or 0.5,
        request.chosen_span(),
        None if max_hourly_error is None else positive("max_hourly_error", max_hourly_error),
        request.for_purpose(metered),
        None if max_error is None else positive("max_error", max_error),
    )
    found: list[tuple[Option, Promise]] = []
    refused: InputError | None = None
    for candidate in _candidates(request, metered, forms, measured=odds_of is not None):
        try:
            if odds_of is None:
                promise, odds = keep_odds(candidate, metered), None
            else:
                promise, odds = measured_odds(candidate, metered, odds_of)
        except InputError as error:
            refused = error
        else:
            found.append((Option.of(promise, member, price_per_kwh, odds), promise))
    if not found:
        raise refused or InputError("no release fits these readings.")
    return _rank(goal, found, member, usual=request.purpose is None)


def _candidates(
    request: Request, metered: Metered, forms: Sequence[str], *, measured: bool
) -> list[Request]:
    """The requests to try: the series of all lengths and mechanisms, and the calendar releases."""
    wanted = [one_of("form", form, FORMS) for form in forms]
    if request.several:
        return [request]
    found = candidates(request, metered) if "series" in wanted else []
    short = metered.interval_s <= SECONDS_PER_DAY / 2
    plain = request.chosen_span() != "when" and request.mechanism in (None, SHARING_KIND)
    if "calendar" in wanted and not measured and short and plain:
        own = replace(request, mechanism=None).as_calendar(metered)
        views = [replace(own, tables=VIEWS, hourly_cost=cost) for cost in HOURLY_COSTS]
        found += [one for one in views if one not in found]
        found += [own] if own.several and own not in found else []
    return found


def _rank(
    goal: Goal, found: list[tuple[Option, Promise]], appliance: Appliance | None, *, usual: bool
) -> Advice:
    """The options that meet the goal, cheapest first, or all options, nearest first.

    `usual` puts the calendar release first, because nobody says what the data is for.
    """

    def price(entry: tuple[Option, Promise]) -> tuple[float, ...]:
        later = not (usual and entry[0].name == "calendar")
        return (later, *price_of(entry[0].errors, goal.purpose))

    met = [o for o in found if o[0].odds <= goal.max_odds and goal.accepts(o[0].errors)]
    if met:
        ranked = sorted(met, key=price)
    else:
        ranked = sorted(found, key=lambda one: (round(one[0].odds, 2), *price(one)))
    options = tuple(option for option, _ in ranked)
    return Advice(goal, bool(met), options, appliance, ranked[0][1])


def public_facts(
    trace: Trace | float, zone: str = "UTC"
) -> tuple[Metered, tuple[str, ...], tuple[str, ...]]:
    """What a search may know about readings, the forms that fit them, and notes about both.

    Without readings, their length [s] is enough.
    """
    if not isinstance(trace, Trace):
        return Metered(trace, zone=zone), FORMS, ()
    facts = facts_of(trace, zone)
    notes = () if trace.metering.unsettled is None else (trace.metering.unsettled,)
    try:
        length = max(3600.0, trace.interval_s)
        check_tables(VIEWS, cells_of(facts, length, of_days=True))
    except (DataError, InputError) as error:
        sentence = f"The calendar release is not among the options: {error}"
        return facts, FORMS[:1], (*notes, sentence)
    return facts, FORMS, notes


def with_run(appliance: Appliance, readings: int, interval_s: float) -> Appliance:
    """Return the appliance with runs of a given number of metered readings."""
    length = whole("run", readings) * interval_s
    return replace(appliance, run_s=length, run_high_s=None, energy_wh=None)


def measure_with(
    name: str,
    home: Home,
    hide: str,
    trace: Trace | None,
    seed: int = 0,
    *,
    told: dict[str, None] | None = None,
) -> OddsOf:
    """Return a function that measures the odds of an attacker on simulated releases.

    The odds are the balanced accuracy about one appliance, at least 0.5. The attacker is trained on
    the true readings of the same trace and knows the noise distribution, but not which appliances
    are on at the first reading. In longer cells the true state is that of at least half of a cell.
    What an attacker that chooses says about its choice becomes a key of `told`.
    """
    from hushmeter.attack.registry import attackers
    from hushmeter.scoring import score

    if trace is None or trace.states is None:
        raise InputError("measuring an attacker's odds needs a trace with true states.")
    chosen, known = attackers[name], trace

    # The attacker learns once for each length of the cells, and not again for every ε.
    @cache
    def learn(interval_s: float) -> tuple[Trace, Any]:
        coarse = known if interval_s == known.interval_s else known.coarsen(interval_s)
        return coarse, chosen(home).fit(coarse)

    def odds_of(mechanism: Mechanism, unit: Unit) -> float:
        coarse, attacker = learn(unit.window * unit.interval_s)
        noisy = coarse.replace_readings(mechanism.release(coarse.readings, rng=seed))
        informed = attacker.knows(mechanism)
        states = informed.predict(noisy, rng=seed)
        if told is not None and hasattr(informed, "choose"):
            told[informed.choose().who] = None
        seen = score(states, coarse.truth(), names=home.names)[hide].balanced_accuracy
        return max(seen, 0.5)

    return odds_of


ERROR_SLACK = 2e-3
"""The search stops if the error is below the limit by at most this share of it."""


@dataclass(frozen=True)
class Reach:
    """How well one appliance can be hidden within an error.

    Attributes
    ----------
    appliance : Appliance
        The appliance.
    option : Option or None
        The release within the error that has the smallest odds; None if even ε = 20 has a larger
        error, so that the appliance cannot be hidden.
    """

    appliance: Appliance
    option: Option | None

    @property
    def odds(self) -> float:
        """Probability that the best attacker is right about it; 1 if it cannot be hidden."""
        return 1.0 if self.option is None else self.option.odds


def find_reach(
    appliances: Iterable[Appliance],
    max_error: float,
    request: Request,
    metered: Metered,
    *,
    forms: Sequence[str] = FORMS,
) -> tuple[Reach, ...]:
    """Find to which odds each appliance can be hidden within an error of what the data is for.

    `request` is a wish whose `hide` is replaced by each appliance in turn. The best hidden
    appliance comes first. Only the longest cells that serve the purpose are searched: shorter ones
    never have less noise in the same number. Laplace and Gaussian noise are searched, because the
    former is better at odds close to 100 and the latter at odds close to 50.
    """
    limit = positive("max_error", max_error)
    wanted = [one_of("form", form, FORMS) for form in forms]
    purpose = request.for_purpose(metered)
    if request.span == "when" and purpose in ("day", "month"):
        raise InputError(
            f"with the span 'when' the error of a {purpose} follows from the rounding of the "
            "meter; limit the error of an hour instead."
        )
    found = []
    for appliance in appliances:
        wish = replace(request, hide=(appliance,), purpose=purpose)
        promises = (_within_error(way, metered, limit) for way in _ways(wish, metered, wanted))
        options = [Option.of(p, appliance, PRICE_PER_KWH) for p in promises if p is not None]
        best = min(options, key=lambda option: option.odds, default=None)
        found.append(Reach(appliance, best))
    return tuple(sorted(found, key=lambda reach: (reach.odds, reach.appliance.name)))


def _ways(wish: Request, metered: Metered, forms: Sequence[str]) -> list[Request]:
    """The requests that may hide an appliance with the least error."""
    hourly = wish.for_purpose(metered) in ("hour", "profile")
    longest = SECONDS_PER_HOUR if hourly else LONG_RESOLUTIONS_S[-1]
    every = nearest_multiple(max(longest, metered.interval_s), metered.interval_s)
    ways = []
    if "series" in forms and not with_local_days(wish, metered).several:
        ways += [
            replace(wish, every=every, mechanism=name) for name in (SHARING_KIND, DEFAULT_KIND)
        ]
    # The hours of a calendar have larger errors than a series of hours.
    if "calendar" in forms and wish.purpose != "hour":
        tables = wish.as_calendar(metered)
        costs = HOURLY_COSTS if tables.tables == VIEWS else HOURLY_COSTS[:1]
        ways += [replace(tables, hourly_cost=cost) for cost in costs] if tables.several else []
    return ways


@dataclass(frozen=True)
class FrontLine:
    """The errors of one kind of release at several odds.

    Attributes
    ----------
    form : {"series", "calendar"}
        Kind of the release.
    every_s : float
        Length of its readings or cells [s].
    odds : tuple of float
        Odds of the best attacker.
    errors : tuple of Errors
        Standard errors at each of them.
    """

    form: str
    every_s: float
    odds: tuple[float, ...]
    errors: tuple[Errors, ...]


FRONT_ODDS = (0.51, 0.53, 0.56, 0.6, 0.65, 0.7, 0.8, 0.9)
"""Odds at which a front is computed."""


def find_front(
    advise_at: Callable[..., Advice],
    interval_s: float,
    *,
    odds: Sequence[float] = FRONT_ODDS,
) -> tuple[FrontLine, ...]:
    """Compute the standard errors of each kind of release at several odds.

    `advise_at` searches for the best release of one request; it takes `odds`, `every`, `purpose`
    and `forms`. The lines are the readings as metered, the means over an hour and over a day, and
    the calendar release; a kind that does not exist is left out. Each has the noise with the least
    error.
    """
    lengths = [nearest_multiple(length, interval_s) for length in (SECONDS_PER_HOUR, 86_400)]
    lengths = list(dict.fromkeys([interval_s, *(s for s in lengths if s > interval_s)]))
    kinds = [("series", every) for every in lengths] + [("calendar", None)]
    lines = []
    for form, every in kinds:
        points = []
        for chance in odds:
            try:
                found = advise_at(odds=chance, every=every, purpose="month", forms=(form,))
            except InputError:  # This kind of release does not exist, or no grid is wide enough.
                continue
            points.append(next((o for o in found.options if o.name == form), found.best))
        if points:
            lines.append(
                FrontLine(
                    form,
                    points[0].every_s,
                    tuple(point.odds for point in points),
                    tuple(point.errors for point in points),
                )
            )
    return tuple(lines)


def _within_error(request: Request, metered: Metered, limit: float) -> Promise | None:
    """The promise with the smallest ε whose error is within a limit; None if none exists.

    The error is nearly proportional to 1/ε, so a few proportional steps within a bracket find it.
    """
    purpose = request.for_purpose(metered)
    low, high, guess = LEAST_EPSILON, MOST_EPSILON, 1.0
    best: Promise | None = None
    while high / low > 1 + ERROR_SLACK / 2:
        try:
            promise = at_epsilon(request, metered, guess)
        except InputError:  # The noise is too wide for any grid: only a larger ε is possible.
            low, guess = guess, math.sqrt(guess * high)
            continue
        error = promise.errors.of(purpose) or 0.0
        if error <= limit:
            best, high = promise, guess
            if error >= limit * (1 - ERROR_SLACK):
                break
        else:
            low = guess
        guess *= error / (limit * (1 - ERROR_SLACK / 2))
        if not low < guess < high:
            guess = math.sqrt(low * high)
    return best
