"""Find the release that meets a privacy goal at the lowest cost.

“Nobody may be right about my kettle more than 60 times out of 100” is a goal for the odds of the
best attacker. Many releases meet it: coarse readings with little noise, fine readings with much
noise, or a calendar release, which divides the budget among hours, days, typical day and months.
For each of them the search finds the largest ε, and so the least noise, that keeps the odds. The
options are ranked by the standard error of the number that the data is for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.advice.purposes import (
    StandardErrors,
    calendar_errors,
    choose_purpose,
    series_errors,
)
from hushmeter.attack.base import Attacker
from hushmeter.attack.registry import attackers
from hushmeter.checks import one_of, positive, seconds, whole
from hushmeter.errors import DataError, InputError
from hushmeter.home import Appliance, Home
from hushmeter.noise.mechanism import MECHANISMS
from hushmeter.privacy.accounting import (
    UnknownMoment,
    change_odds,
    compose,
    unknown_moment,
)
from hushmeter.privacy.units import (
    SPANS,
    Unit,
    calibrate,
    refuse_large_register,
    resolve_unit,
    unit_epsilon,
)
from hushmeter.releases.calendar import Calendar, lay_out
from hushmeter.releases.cost import DAYS_PER_MONTH, PRICE_PER_KWH, Cost, expect_cost
from hushmeter.releases.view_plan import (
    HOURLY_COST,
    ViewPlan,
    epsilon_of,
    plan_views,
    rho_of,
    view_sensitivities,
)
from hushmeter.releases.views import unknown_moment_in_views
from hushmeter.scoring import score
from hushmeter.trace import (
    SECONDS_PER_DAY,
    SECONDS_PER_HOUR,
    Trace,
    intervals_in,
    nearest_multiple,
)

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism
    from hushmeter.trace import Metering

RESOLUTIONS_S = (60, 300, 900, 1800, 3600)
"""Intervals of released readings that are searched, beside the meter's own. [s]"""

LONG_RESOLUTIONS_S = (21_600, SECONDS_PER_DAY)
"""Longer intervals that are searched if the data is for days, months or register values. [s]"""

FORMS = ("series", "calendar")
"""Kinds of release: readings of one resolution with independent noise, or a calendar release."""

HOURLY_COSTS = (HOURLY_COST, 1.5)
"""Hourly costs of the calendar releases that are searched: the default, and one that gives up a
third of the hour's accuracy for a third less error in days, months and the typical day."""

LEAST_EPSILON, MOST_EPSILON = 5e-3, 20.0
ODDS_SLACK = 1e-3
"""The search stops if the odds are below the goal by at most this."""

FINE_GRID = "0.05"
"""Grid of readings that are longer than an hour [W]. Rounding to 1 W would add a fifth to the noise
of daily means, which a run moves by a few watts only."""

NEAR_A_COIN = 0.51
"""A goal below this is answered with an option of these odds, because a coin is right half of the
time and no noise is enough for less."""


@dataclass(frozen=True)
class Goal:
    """A privacy goal.

    Attributes
    ----------
    appliance : str
        The appliance to hide.
    max_odds : float
        Largest probability that the best attacker is right about it, if on and off are equally
        likely.
    span : {"reading", "run", "day", "when"}
        What is hidden: one released reading, one run or one day of the appliance, or the time of a
        run within its day.
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

    def accepts(self, errors: StandardErrors) -> bool:
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
        Interval of the released readings, or of the cells of a calendar release. [s]
    epsilon : float
        ε of the unit of protection.
    odds : float
        Probability that the best attacker is right about the goal's appliance over its span.
    scale : float
        Scale of the noise of a released reading or cell. [W]
    cost : Cost
        Mean absolute errors of the released readings.
    errors : StandardErrors
        Standard errors for each purpose.
    largest_epsilon : float or None
        ε at the largest power that was ever measured; None if the home does not give it.
    form : {"series", "calendar"}
        Readings of one resolution with independent noise, or a calendar release.
    unknown : UnknownMoment or None
        Bound of the odds of an attacker who does not know when a run happens. It comes beside
        `odds` and never replaces them; None unless one run is hidden.
    hourly_cost : float or None
        Of a calendar release: largest error of an hour against hours alone; see `release_views`.
    """

    mechanism: str
    every_s: float
    epsilon: float
    odds: float
    scale: float
    cost: Cost
    errors: StandardErrors
    largest_epsilon: float | None = None
    form: str = "series"
    unknown: UnknownMoment | None = None
    hourly_cost: float | None = None

    @property
    def name(self) -> str:
        """A short name for a column: the noise, or that it is a calendar release."""
        if self.form != "calendar":
            return self.mechanism
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
        The options that meet the goal, cheapest first. If none does, all options, nearest first.
    appliance : Appliance
        The appliance to hide, with the powers and runs that were protected.
    """

    goal: Goal
    feasible: bool
    options: tuple[Option, ...]
    appliance: Appliance

    @property
    def best(self) -> Option:
        """The cheapest option, or the nearest one if no option meets the goal."""
        return self.options[0]


def calendar_of(
    trace: Trace | None, interval_s: float, zone: str = "UTC", every: float | str | None = None
) -> Calendar | None:
    """Lay out the cells of a calendar release, from the times of a trace alone.

    Parameters
    ----------
    trace : Trace or None
        The readings to be released; None for a month of 30 days.
    interval_s : float
        Length of a metered reading [s].
    zone : str
        Time zone of the days.
    every : float or str, optional
        Length of a cell; one hour by default.

    Returns
    -------
    Calendar or None
        None if no cell of this length fits the readings, or if a cell is longer than half a day.

    Raises
    ------
    DataError
        If the trace is shorter than one day, or a month has no complete day.
    """
    cell_s = seconds("every", every or SECONDS_PER_HOUR)
    if nearest_multiple(cell_s, interval_s) != cell_s or SECONDS_PER_DAY % cell_s:
        cell_s = interval_s
    if cell_s > SECONDS_PER_DAY / 2 or SECONDS_PER_DAY % cell_s:
        return None
    if trace is None:
        return _common_month(cell_s)
    if len(trace) * trace.interval_s < SECONDS_PER_DAY * (1 - 1e-9):
        raise DataError("a calendar release needs at least one day of readings.")
    return lay_out(trace if cell_s == trace.interval_s else trace.coarsen(cell_s), zone)


@lru_cache(maxsize=8)
def _common_month(cell_s: float) -> Calendar:
    """A month of 30 days without a gap."""
    cells = round(DAYS_PER_MONTH * SECONDS_PER_DAY / cell_s)
    return lay_out(Trace(np.zeros(cells), cell_s, "2023-04-01T00:00Z"), "UTC")


def advise(
    home: Home,
    hide: str,
    *,
    max_odds: float = 0.6,
    span: str | None = None,
    use: float | str | None = None,
    run: int | None = None,
    interval_s: float = 6.0,
    every: float | str | None = None,
    purpose: str | None = None,
    metering: Metering | None = None,
    readings: int | None = None,
    calendar: Calendar | None = None,
    zone: str = "UTC",
    forms: Sequence[str] = FORMS,
    mechanisms: Sequence[str] = MECHANISMS,
    delta: float = 1e-6,
    hourly_costs: Sequence[float] = HOURLY_COSTS,
    max_hourly_error: float | None = None,
    max_error: float | None = None,
    price_per_kwh: float = PRICE_PER_KWH,
    attacker: str | None = None,
    trace: Trace | None = None,
    seed: int = 0,
) -> Advice:
    """Search resolutions, mechanisms and ε for releases that hide an appliance.

    Parameters
    ----------
    home : Home
        The home.
    hide : str
        The appliance to hide.
    max_odds : float
        Largest probability that the best attacker is right, as a share (0.6) or out of 100 (60).
        A coin is right half of the time.
    span : {"reading", "run", "day", "when"}, optional
        What is hidden; "run" by default if the length of a run is known, otherwise "reading".
    use : float or str, optional
        Longest use a day, such as "30min"; for the spans "day" and "when".
    run : int, optional
        Length of a run, instead of the one in the home. [metered readings]
    interval_s : float
        Length of a metered reading. [s]
    every : float or str, optional
        Length of the released means, such as "30min", instead of a search.
    purpose : {"hour", "day", "month", "profile", "register"}, optional
        What the data is for: hours, days, months, the typical day or register values. Options are
        ranked by the standard error of its number; for days, months and register values the
        search goes up to means over one day. By default hours, or days if the readings are longer.
    metering, readings
        How the meter rounds and copies, and the number of metered readings; see `resolve_unit`.
        By default those of `trace`.
    calendar : Calendar, optional
        Cells of a calendar release, from `calendar_of`; by default those of a month of 30 days.
    zone : str, default "UTC"
        Time zone of the days; only the span "when" needs it.
    forms : sequence of {"series", "calendar"}
        Kinds of release to search. The span "when" and a measured `attacker` have no calendar
        release.
    mechanisms : sequence of str
        Names of the mechanisms to search; a calendar release has Gaussian noise.
    delta : float
        δ of the Gaussian mechanism.
    hourly_costs : sequence of float
        Hourly costs of the calendar releases to search; see `release_views`.
    max_hourly_error : float, optional
        Largest acceptable standard error of the hourly mean. [W]
    max_error : float, optional
        Largest acceptable standard error of the number that the data is for. [W or kWh]
    price_per_kwh : float
        Price of energy. [money/kWh]
    attacker : str, optional
        Use the odds that this attacker reaches on simulated releases of `trace` instead of the
        best possible odds. This is a weaker guarantee, because a better attacker may exist.
    trace : Trace, optional
        Readings that give the interval and the rounding of the meter; with true states, for
        `attacker`.
    seed : int
        Seed of the simulated releases.

    Returns
    -------
    Advice
        The options that meet the goal, cheapest first, or the nearest ones.

    Raises
    ------
    InputError
        If a value is out of its range, or no grid is wide enough for the noise.
    """
    interval_s = interval_s if trace is None else trace.interval_s
    interval_s = positive("interval_s", interval_s)
    member = home.appliances[home.index(hide)]
    if run is not None:
        member = with_run(member, run, interval_s)
    span = span or ("reading" if member.protected_run_s is None else "run")
    one_of("span", span, SPANS)
    delta, wanted = _share("delta", delta), _names(mechanisms)
    shortest = interval_s if every is None else seconds("every", every)
    purpose = choose_purpose(purpose, shortest)
    goal = Goal(
        hide,
        odds_share(max_odds),
        span,
        None if max_hourly_error is None else positive("max_hourly_error", max_hourly_error),
        purpose,
        None if max_error is None else positive("max_error", max_error),
    )
    if trace is not None:
        metering, readings = metering or trace.metering, readings or len(trace)
    odds_of = best_odds if attacker is None else measure_with(attacker, home, hide, trace, seed)
    search = _Search(
        # No release keeps an attacker below a coin: the search uses the nearest possible goal.
        goal=replace(goal, max_odds=max(goal.max_odds, NEAR_A_COIN)),
        member=member,
        # With the measured odds of an attacker, the odds of one who knows less have no meaning.
        blind=attacker is None,
        unit_of=partial(
            resolve_unit,
            span=span,
            interval_s=interval_s,
            home=Home([member], home.tolerance),
            metering=metering,
            readings=readings,
            use=use,
            zone=zone,
        ),
        calendar=calendar,
        delta=delta,
        price_per_kwh=price_per_kwh,
    )
    wanted_forms = [one_of("form", form, FORMS) for form in forms]
    found: list[Option] = []
    if "series" in wanted_forms:
        lengths = _resolutions(interval_s, every, purpose)
        found += search.series(lengths, wanted, odds_of)
    if "calendar" in wanted_forms and attacker is None and span != "when":
        cells = calendar or calendar_of(None, interval_s, every=every)
        found += [] if cells is None else search.views(cells, hourly_costs)
    if not found:
        raise search.refused or InputError(
            f"the noise that hides the {hide} is too wide for any grid; allow larger odds."
        )
    return _rank(goal, found, member)


def with_run(appliance: Appliance, readings: int, interval_s: float) -> Appliance:
    """Return the appliance with runs of a given number of metered readings."""
    length = whole("run", readings) * interval_s
    return replace(appliance, run_s=length, run_high_s=None, energy_wh=None)


def best_odds(mechanism: Mechanism, unit: Unit) -> float:
    """Return the probability that the best attacker is right about the first change of a unit.

    Parameters
    ----------
    mechanism : Mechanism
        The noise.
    unit : Unit
        The unit of protection, with one change.
    """
    change = unit.changes[0]
    if unit.span == "reading":
        # One released value, during which the appliance is on from its beginning to its end.
        return compose(mechanism, [(change.watts, 1)]).odds
    return change_odds(mechanism, change)


def measure_with(
    name: str, home: Home, hide: str, trace: Trace | None, seed: int
) -> Callable[[Mechanism, Unit], float]:
    """Return a function that measures the odds of an attacker on simulated releases.

    The odds are the balanced accuracy about one appliance. The attacker is trained on the true
    readings of the same trace and knows the noise distribution, but not which appliances are on at
    the first reading. On longer intervals the true state is the state of at least half of the
    interval.

    Parameters
    ----------
    name : str
        Name of a registered attacker.
    home : Home
        The home.
    hide : str
        The appliance.
    trace : Trace or None
        Readings with true states.
    seed : int
        Seed of the releases.

    Returns
    -------
    callable
        A function of mechanism and unit that returns the odds, at least 0.5.

    Raises
    ------
    InputError
        If there is no trace with true states.
    """
    if trace is None or trace.states is None:
        raise InputError("measuring an attacker's odds needs a trace with true states.")
    chosen = attackers[name]
    known = trace

    # The attacker learns once for each interval, and not again for every ε.
    @cache
    def learn(interval_s: float) -> tuple[Trace, Attacker]:
        coarse = known if interval_s == known.interval_s else known.coarsen(interval_s)
        return coarse, chosen(home).fit(coarse)

    def odds_of(mechanism: Mechanism, unit: Unit) -> float:
        coarse, attacker = learn(unit.window * unit.interval_s)
        noisy = coarse.replace_readings(mechanism.release(coarse.readings, rng=seed))
        states = attacker.knows(mechanism).predict(noisy, rng=seed)
        seen = score(states, coarse.truth(), names=home.names)[hide].balanced_accuracy
        return max(seen, 0.5)

    return odds_of


@dataclass
class _Search:
    """One search: the goal, the appliance and what is public about the readings."""

    goal: Goal
    member: Appliance
    blind: bool
    unit_of: Callable[..., Unit]
    calendar: Calendar | None
    delta: float
    price_per_kwh: float
    refused: InputError | None = None

    def series(
        self,
        lengths: list[float],
        mechanisms: list[str],
        odds_of: Callable[[Mechanism, Unit], float],
    ) -> list[Option]:
        """The best option of every resolution and mechanism."""
        found = []
        for length in lengths:
            unit = self.unit_of(every=length)
            for name in mechanisms:
                try:
                    refuse_large_register(name, unit)
                except InputError as error:
                    self.refused = error
                    continue
                wish = (name, unit, self.delta, self.goal.max_odds)
                best = _search_best(*wish) if odds_of is best_odds else _search(*wish, odds_of)
                if best is not None:
                    found.append(
                        series_option(
                            unit,
                            *best,
                            self.calendar,
                            self.member,
                            self.price_per_kwh,
                            blind=self.blind,
                        )
                    )
        return found

    def views(self, calendar: Calendar, hourly_costs: Sequence[float]) -> list[Option]:
        """The calendar releases with the largest ε that keeps the odds."""
        unit = self.unit_of(every=calendar.cells.interval_s)
        found = []
        for cost in hourly_costs:
            try:
                refuse_large_register("gaussian", unit)
                plan = plan_for_odds(unit, calendar, self.goal.max_odds, self.delta, cost)
            except InputError as error:
                self.refused = error
                continue
            option = calendar_option(unit, calendar, plan, cost, self.member, self.price_per_kwh)
            found.append(option)
        return found


def calibrate_series(name: str, epsilon: float, unit: Unit, delta: float) -> Mechanism:
    """Calibrate the noise of a series; readings longer than an hour get a finer grid."""
    coarse = unit.window * unit.interval_s <= SECONDS_PER_HOUR * (1 + 1e-9)
    return calibrate(name, epsilon, unit, delta=delta, grid="1" if coarse else FINE_GRID)


def series_option(
    unit: Unit,
    mechanism: Mechanism,
    epsilon: float,
    odds: float,
    calendar: Calendar | None = None,
    member: Appliance | None = None,
    price_per_kwh: float = PRICE_PER_KWH,
    *,
    blind: bool = True,
) -> Option:
    """Describe a series with independent noise as an option.

    Parameters
    ----------
    unit : Unit
        The unit of protection, with one change.
    mechanism : Mechanism
        The noise.
    epsilon, odds : float
        ε of the unit, and the odds of the best attacker.
    calendar : Calendar, optional
        For the number of days; a month of 30 days by default.
    member : Appliance, optional
        The hidden appliance, for the ε at its largest measured power.
    price_per_kwh : float
        Price of energy.
    blind : bool
        Whether to bound the odds of an attacker who does not know when a run happens.

    Returns
    -------
    Option
    """
    every, largest = unit.window * unit.interval_s, _at_largest_power(unit, member)
    errors = errors_in_series(mechanism, unit, calendar)
    if unit.span == "when":
        cost = errors.cost(price_per_kwh)
    else:
        cost = expect_cost(mechanism, every, price_per_kwh=price_per_kwh)
    unknown = None
    if blind and unit.span == "run":
        unknown = unknown_moment(mechanism, unit.changes[0])
    return Option(
        mechanism.name,
        every,
        epsilon,
        odds,
        mechanism.scale,
        cost,
        errors,
        None if largest is None else unit_epsilon(mechanism, largest),
        unknown=unknown,
    )


def errors_in_series(
    mechanism: Mechanism, unit: Unit, calendar: Calendar | None = None
) -> StandardErrors:
    """Standard errors of a series with independent noise; the days are those of a calendar."""
    days = period = DAYS_PER_MONTH
    if calendar is not None:
        period = int(calendar.days.size)
        days = max(1, round(period / len(calendar.months)))
    every, exact_days = unit.window * unit.interval_s, unit.span == "when"
    return series_errors(mechanism, every, days=days, period_days=period, exact_days=exact_days)


def calendar_option(
    unit: Unit,
    calendar: Calendar,
    plan: ViewPlan,
    hourly_cost: float = HOURLY_COST,
    member: Appliance | None = None,
    price_per_kwh: float = PRICE_PER_KWH,
) -> Option:
    """Describe a calendar release as an option.

    Parameters
    ----------
    unit : Unit
        The unit of protection, with one change.
    calendar : Calendar
        The cells.
    plan : ViewPlan
        The noise.
    hourly_cost : float
        With which the noise was planned.
    member, price_per_kwh
        See `series_option`.

    Returns
    -------
    Option
    """
    errors, largest = calendar_errors(calendar, plan), _at_largest_power(unit, member)
    unknown = largest_epsilon = None
    if unit.span == "run":
        unknown = unknown_moment_in_views(unit.changes[0], calendar, plan)
    if largest is not None:
        lengths = view_sensitivities(largest.changes[0], calendar, plan.grid)
        largest_epsilon = epsilon_of(rho_of(lengths, plan.sigmas), plan.delta)
    return Option(
        "gaussian",
        calendar.cells.interval_s,
        plan.epsilon,
        plan.odds,
        float(plan.sigmas[0]) * float(plan.grid),
        errors.cost(price_per_kwh),
        errors,
        largest_epsilon,
        form="calendar",
        unknown=unknown,
        hourly_cost=hourly_cost,
    )


def _at_largest_power(unit: Unit, member: Appliance | None) -> Unit | None:
    """The unit at the largest power that was ever measured, if the home gives it."""
    largest = None if member is None else member.at_largest_power()
    return None if largest is None else unit.for_appliance(largest)


def plan_for_odds(
    unit: Unit,
    calendar: Calendar,
    max_odds: float,
    delta: float = 1e-6,
    hourly_cost: float = HOURLY_COST,
) -> ViewPlan:
    """Calibrate a calendar release to the odds of the best attacker.

    Parameters
    ----------
    unit : Unit
        The unit of protection; its released values are the cells.
    calendar : Calendar
        The cells.
    max_odds : float
        Largest probability that the best attacker is right.
    delta : float
        δ of the promise.
    hourly_cost : float
        See `release_views`.

    Returns
    -------
    ViewPlan
        With the largest ε up to 20 that keeps the odds.

    Raises
    ------
    InputError
        If the noise is too wide for every grid.

    Notes
    -----
    The odds are Φ(μ/2) with μ² = 2ρ, so ρ = 2·Φ⁻¹(odds)² follows in closed form, and ε from ρ.
    """
    from scipy.special import ndtri

    aim = max_odds - ODDS_SLACK / 10
    while True:
        epsilon = min(MOST_EPSILON, epsilon_of(2 * float(ndtri(aim)) ** 2, delta))
        plan = plan_views(unit, calendar, epsilon=epsilon, delta=delta, hourly_cost=hourly_cost)
        if plan.odds <= max_odds:
            return plan
        # The grid is so coarse that the odds exceed those of continuous noise.
        aim -= plan.odds - max_odds + ODDS_SLACK / 10


@lru_cache(maxsize=256)
def _search_best(
    name: str, unit: Unit, delta: float, max_odds: float
) -> tuple[Mechanism, float, float] | None:
    """As `_search` for the best possible attacker; its arguments hold no readings.

    Searches for several purposes share most of their resolutions, and a page asks for the same
    ones again and again.
    """
    return _search(name, unit, delta, max_odds, best_odds)


def _search(
    name: str,
    unit: Unit,
    delta: float,
    max_odds: float,
    odds_of: Callable[[Mechanism, Unit], float],
) -> tuple[Mechanism, float, float] | None:
    """Noise, ε and odds for the largest ε that keeps the odds, or the smallest ε; None if none is.

    The normal quantile of the odds grows nearly in proportion to ε, so a few proportional steps
    within a bracket find the largest ε.
    """
    from scipy.special import ndtri

    low, high = LEAST_EPSILON, MOST_EPSILON
    aim = max_odds - ODDS_SLACK / 2
    # No attacker of an ε-private unit is right more often than 1/(1 + e^(−ε)): start there.
    guess = math.log(aim / (1 - aim)) if aim > 0.5 else low
    best: tuple[Mechanism, float, float] | None = None
    while best is None or not max_odds - ODDS_SLACK <= best[2] <= max_odds:
        guess = guess if low < guess < high else math.sqrt(low * high)
        try:
            mechanism = calibrate_series(name, guess, unit, delta)
        except InputError:  # The noise is too wide for any grid: only a larger ε is possible.
            low = guess
        else:
            found = odds_of(mechanism, unit)
            if found <= max_odds or best is None or best[2] > max_odds:
                best = (mechanism, guess, found)
            low, high = (guess, high) if found <= max_odds else (low, guess)
            guess *= float(ndtri(aim) / ndtri(min(max(found, 0.5 + 1e-9), 1 - 1e-12)))
        if high / low < 1 + 1e-3:
            break
    return best


def _rank(goal: Goal, options: list[Option], appliance: Appliance) -> Advice:
    """The options that meet the goal, cheapest first, or all options, nearest first."""

    def price(option: Option) -> tuple[float, float, float]:
        numbers = (option.errors.of(goal.purpose), option.errors.hour_w)
        first, hour = (math.inf if number is None else number for number in numbers)
        return first, hour, option.every_s

    met = [o for o in options if o.odds <= goal.max_odds and goal.accepts(o.errors)]
    if met:
        return Advice(goal, True, tuple(sorted(met, key=price)), appliance)
    near = sorted(options, key=lambda option: (round(option.odds, 2), *price(option)))
    return Advice(goal, False, tuple(near), appliance)


def _resolutions(interval_s: float, every: float | str | None, purpose: str) -> list[float]:
    """The metered interval, and the whole multiple of it nearest to every longer resolution."""
    if every is not None:
        return [intervals_in(every, interval_s) * interval_s]
    hourly = purpose in ("hour", "profile")
    wanted = RESOLUTIONS_S if hourly else RESOLUTIONS_S + LONG_RESOLUTIONS_S
    longer = (nearest_multiple(length, interval_s) for length in wanted if length > interval_s)
    return [interval_s, *(length for length in dict.fromkeys(longer) if length > interval_s)]


def _names(mechanisms: Sequence[str]) -> list[str]:
    """The checked names of mechanisms."""
    names = [mechanisms] if isinstance(mechanisms, str) else list(mechanisms)
    if not names:
        raise InputError(f"mechanisms must name at least one of {', '.join(MECHANISMS)}.")
    return [one_of("mechanism", name, MECHANISMS) for name in names]


def odds_share(value: float) -> float:
    """Return odds as a share; a number above 1 counts out of 100."""
    given = positive("max_odds", value)
    share = given / 100 if 1 < given < 100 else given
    if not share < 1:
        raise InputError(
            f"max_odds must lie between 0 and 1, or between 1 and 100 out of 100, got {value:g}."
        )
    return share


def _share(name: str, value: float) -> float:
    """A number between 0 and 1, without both ends."""
    if not 0 < positive(name, value) < 1:
        raise InputError(f"{name} must lie between 0 and 1, got {value}.")
    return float(value)
