"""Find the release that meets a privacy goal at the lowest cost.

“Nobody may be right about my kettle more than 60 times out of 100” is a goal for the odds of the
best attacker. Many releases meet it: coarse readings with little noise, fine readings with much
noise, or a calendar release, which divides the budget among hours, days, typical day and months.
For each of them the search finds the largest ε, and so the least noise, that keeps the odds. The
options are ranked by the standard error of the number that the data is for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.advice.least_noise import (
    best_odds,
    cannot_win,
    least_noise,
    measure_with,
    plan_for_odds,
    search_noise,
)
from hushmeter.advice.options import Option, calendar_option, errors_in_series, series_option
from hushmeter.advice.purposes import StandardErrors, choose_purpose
from hushmeter.checks import one_of, positive, seconds, whole
from hushmeter.errors import DataError, InputError
from hushmeter.home import Appliance, Home
from hushmeter.noise import MECHANISMS, find_kind
from hushmeter.privacy.units import SPANS, Unit, refuse_large_register, resolve_unit
from hushmeter.releases.calendar import Calendar, lay_out
from hushmeter.releases.cost import DAYS_PER_MONTH, PRICE_PER_KWH
from hushmeter.releases.view_plan import HOURLY_COST
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

    def price(self, errors: StandardErrors) -> tuple[float, float, float]:
        """The numbers by which options are ranked, the most important one first."""
        numbers = (errors.of(self.purpose), errors.hour_w)
        first, hour = (math.inf if number is None else number for number in numbers)
        return first, hour, errors.value_s


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
    mechanisms: Collection[str] = MECHANISMS,
    delta: float = 1e-6,
    hourly_costs: Sequence[float] = HOURLY_COSTS,
    max_hourly_error: float | None = None,
    max_error: float | None = None,
    price_per_kwh: float = PRICE_PER_KWH,
    attacker: str | None = None,
    trace: Trace | None = None,
    seed: int = 0,
    only_best: bool = False,
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
    only_best : bool
        If True and an option meets the goal, return the cheapest one alone. It is the first option
        of the whole list, and it is found in a small part of the time, because a mechanism and a
        resolution that cannot be cheaper are not searched.

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
        # Below a coin no option meets the goal, and measured odds have no bound.
        only_best = only_best and attacker is None and goal.max_odds >= NEAR_A_COIN
        found += search.series(lengths, wanted, odds_of, only_best)
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
        only_best: bool,
    ) -> list[Option]:
        """The best option of every resolution and mechanism, or the best one of all."""
        choices = self._choices(lengths, mechanisms)
        if only_best:
            choices = self._without_losers(choices)
        found = []
        for name, unit in choices:
            wish = (name, unit, self.delta, self.goal.max_odds)
            best = least_noise(*wish) if odds_of is best_odds else search_noise(*wish, odds_of)
            if best is not None:
                option = series_option(
                    unit,
                    *best,
                    self.calendar,
                    self.member,
                    self.price_per_kwh,
                    blind=self.blind,
                )
                found.append(option)
        return found

    def _choices(self, lengths: list[float], mechanisms: list[str]) -> list[tuple[str, Unit]]:
        """Every mechanism and resolution that the register of the meter allows."""
        allowed = []
        for length in lengths:
            unit = self.unit_of(every=length)
            for name in mechanisms:
                try:
                    refuse_large_register(name, unit)
                except InputError as error:
                    self.refused = error
                else:
                    allowed.append((name, unit))
        return allowed

    def _without_losers(self, choices: list[tuple[str, Unit]]) -> list[tuple[str, Unit]]:
        """The choice whose noise meets the goal at the least cost; all choices if none meets it."""
        goal = self.goal
        # The error that noise of 1 W would cause; all errors are proportional to the noise.
        each = [
            errors_in_series(1.0, unit, self.calendar).of(goal.purpose) or 0.0
            for _, unit in choices
        ]
        # Gaussian noise is the fastest to search and nearly always wins. The order saves time only.
        order = sorted(
            range(len(choices)),
            key=lambda i: (find_kind(choices[i][0]).norm == 1, each[i] * choices[i][1].l2),
        )
        winner: tuple[float, float, float, int] | None = None
        for i in order:
            wish = (*choices[i], self.delta, goal.max_odds)
            if winner and each[i] and cannot_win(*wish, winner[0] / each[i]):
                continue
            best = least_noise(*wish)
            if best is None or best[2] > goal.max_odds:
                continue
            errors = errors_in_series(best[0], choices[i][1], self.calendar)
            if goal.accepts(errors):
                price = (*goal.price(errors), i)
                winner = price if winner is None else min(winner, price)
        return choices if winner is None else [choices[winner[-1]]]

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


def _rank(goal: Goal, options: list[Option], appliance: Appliance) -> Advice:
    """The options that meet the goal, cheapest first, or all options, nearest first."""

    def price(option: Option) -> tuple[float, float, float]:
        return goal.price(option.errors)

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


def _names(mechanisms: Collection[str]) -> list[str]:
    """The checked names of mechanisms."""
    names = [mechanisms] if isinstance(mechanisms, str) else list(mechanisms)
    if not names:
        raise InputError(f"mechanisms must name at least one of {', '.join(MECHANISMS)}.")
    return [find_kind(name).name for name in names]


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
