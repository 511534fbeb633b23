"""Find the release that meets a privacy goal at the lowest cost.

“Nobody may be right about my kettle more than 60 times out of 100” is a goal for the odds of the
best attacker. Many releases meet it: coarse readings with little noise, or fine readings with much
noise. For every resolution and mechanism the search finds the largest ε, and so the least noise,
that keeps the odds. The options are ranked by the error that matters for the purpose of the data:
that of an hour, a day or a month.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from hushmeter.attack.base import Attacker
from hushmeter.attack.registry import attackers
from hushmeter.checks import one_of, positive, whole
from hushmeter.errors import InputError
from hushmeter.home import Appliance, Home
from hushmeter.noise.mechanism import MECHANISMS
from hushmeter.privacy.accounting import change_odds, compose
from hushmeter.privacy.units import (
    SPANS,
    Unit,
    calibrate,
    refuse_large_register,
    resolve_unit,
    unit_epsilon,
)
from hushmeter.releases.cost import PRICE_PER_KWH, Cost, expect_cost
from hushmeter.scoring import score
from hushmeter.trace import SECONDS_PER_DAY, Trace, intervals_in, nearest_multiple

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism
    from hushmeter.trace import Metering

RESOLUTIONS_S = (60, 300, 900, 1800, 3600)
"""Intervals of released readings that are searched, beside the meter's own. [s]"""

LONG_RESOLUTIONS_S = (21_600, SECONDS_PER_DAY)
"""Longer intervals that are searched if the data is for days or months. [s]"""

PURPOSES = {"hour": "hourly_w", "day": "daily_kwh", "month": "monthly_kwh"}
"""What released data can be for, and the field of `Cost` by which options are ranked."""

LEAST_EPSILON, MOST_EPSILON = 5e-3, 20.0
ODDS_SLACK = 1e-3
"""The search stops if the odds are below the goal by at most this."""

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
    span : {"reading", "run", "day"}
        What is hidden: one released reading, one run or one day of the appliance.
    max_hourly_error : float or None
        Largest acceptable error of the hourly mean. [W]
    purpose : {"hour", "day", "month"}
        What the data is for: the period whose error ranks the options.
    """

    appliance: str
    max_odds: float
    span: str
    max_hourly_error: float | None = None
    purpose: str = "hour"


@dataclass(frozen=True)
class Option:
    """One possible release.

    Attributes
    ----------
    mechanism : str
        Name of the mechanism.
    every_s : float
        Interval of the released readings. [s]
    epsilon : float
        ε of the unit of protection.
    odds : float
        Probability that the best attacker is right about the goal's appliance over its span.
    scale : float
        Scale of the noise. [W]
    cost : Cost
        Errors of the released readings.
    largest_epsilon : float or None
        ε at the largest power that was ever measured; None if the home does not give it.
    """

    mechanism: str
    every_s: float
    epsilon: float
    odds: float
    scale: float
    cost: Cost
    largest_epsilon: float | None = None


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


def advise(
    home: Home,
    hide: str,
    *,
    max_odds: float = 0.6,
    span: str | None = None,
    run: int | None = None,
    interval_s: float = 6.0,
    every: float | str | None = None,
    purpose: str = "hour",
    metering: Metering | None = None,
    readings: int | None = None,
    mechanisms: Sequence[str] = MECHANISMS,
    delta: float = 1e-6,
    max_hourly_error: float | None = None,
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
    span : {"reading", "run", "day"}, optional
        What is hidden; "run" by default if the length of a run is known, otherwise "reading".
    run : int, optional
        Length of a run, instead of the one in the home. [metered readings]
    interval_s : float
        Length of a metered reading. [s]
    every : float or str, optional
        Length of the released means, such as "30min", instead of a search.
    purpose : {"hour", "day", "month"}
        What the data is for. Options are ranked by the error of this period; for a day and a
        month the search goes up to means over one day.
    metering, readings
        How the meter rounds and copies, and the number of metered readings; see `resolve_unit`.
        By default those of `trace`.
    mechanisms : sequence of str
        Names of the mechanisms to search.
    delta : float
        δ of the Gaussian mechanism.
    max_hourly_error : float, optional
        Largest acceptable error of the hourly mean. [W]
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
        length = whole("run", run) * interval_s
        member = replace(member, run_s=length, run_high_s=None, energy_wh=None)
    span = span or ("reading" if member.protected_run_s is None else "run")
    one_of("span", span, SPANS)
    if max_hourly_error is not None:
        max_hourly_error = positive("max_hourly_error", max_hourly_error)
    delta, wanted = _share("delta", delta), _names(mechanisms)
    one_of("purpose", purpose, tuple(PURPOSES))
    goal = Goal(hide, _odds(max_odds), span, max_hourly_error, purpose)
    if trace is not None:
        metering, readings = metering or trace.metering, readings or len(trace)
    odds_of = best_odds if attacker is None else measure_with(attacker, home, hide, trace, seed)
    # No release keeps an attacker below a coin: the search uses the nearest possible goal.
    reachable = replace(goal, max_odds=max(goal.max_odds, NEAR_A_COIN))
    found: list[Option] = []
    refused = None
    for length in _resolutions(interval_s, every, purpose):
        unit = resolve_unit(
            span=span,
            interval_s=interval_s,
            home=Home([member], home.tolerance),
            every=length,
            metering=metering,
            readings=readings,
        )
        largest = member.at_largest_power()
        most = None if largest is None else unit.for_appliance(largest)
        for name in wanted:
            try:
                refuse_large_register(name, unit)
            except InputError as error:
                refused = error
                continue
            wish = (name, unit, delta, reachable.max_odds, price_per_kwh, most)
            option = _search_best(*wish) if odds_of is best_odds else _search(*wish, odds_of)
            found += [] if option is None else [option]
    if not found:
        raise refused or InputError(
            f"the noise that hides the {hide} is too wide for any grid; allow larger odds."
        )
    return _rank(goal, found, member)


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


@lru_cache(maxsize=256)
def _search_best(
    name: str, unit: Unit, delta: float, max_odds: float, price_per_kwh: float, largest: Unit | None
) -> Option | None:
    """As `_search` for the best possible attacker; its arguments hold no readings.

    Searches for several purposes share most of their resolutions, and a page asks for the same
    ones again and again.
    """
    return _search(name, unit, delta, max_odds, price_per_kwh, largest, best_odds)


def _search(
    name: str,
    unit: Unit,
    delta: float,
    max_odds: float,
    price_per_kwh: float,
    largest: Unit | None,
    odds_of: Callable[[Mechanism, Unit], float],
) -> Option | None:
    """The option with the largest ε that keeps the odds, or the smallest ε; None if none exists.

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
            mechanism = calibrate(name, guess, unit, delta=delta)
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
    if best is None:
        return None
    mechanism, epsilon, odds = best
    every = unit.window * unit.interval_s
    cost = expect_cost(mechanism, every, price_per_kwh=price_per_kwh)
    most = None if largest is None else unit_epsilon(mechanism, largest)
    return Option(mechanism.name, every, epsilon, odds, mechanism.scale, cost, most)


def _rank(goal: Goal, options: list[Option], appliance: Appliance) -> Advice:
    """The options that meet the goal, cheapest first, or all options, nearest first."""
    met = [option for option in options if option.odds <= goal.max_odds]
    limit = goal.max_hourly_error
    if limit is not None:
        met = [option for option in met if option.cost.hourly_w <= limit]
    error = PURPOSES[goal.purpose]
    if met:
        cheapest = tuple(sorted(met, key=lambda o: (getattr(o.cost, error), o.every_s)))
        return Advice(goal, True, cheapest, appliance)
    near = sorted(options, key=lambda o: (round(o.odds, 2), getattr(o.cost, error)))
    return Advice(goal, False, tuple(near), appliance)


def _resolutions(interval_s: float, every: float | str | None, purpose: str) -> list[float]:
    """The metered interval, and the whole multiple of it nearest to every longer resolution."""
    if every is not None:
        return [intervals_in(every, interval_s) * interval_s]
    wanted = RESOLUTIONS_S if purpose == "hour" else RESOLUTIONS_S + LONG_RESOLUTIONS_S
    longer = (nearest_multiple(length, interval_s) for length in wanted if length > interval_s)
    return [interval_s, *(length for length in dict.fromkeys(longer) if length > interval_s)]


def _names(mechanisms: Sequence[str]) -> list[str]:
    """The checked names of mechanisms."""
    names = [mechanisms] if isinstance(mechanisms, str) else list(mechanisms)
    if not names:
        raise InputError(f"mechanisms must name at least one of {', '.join(MECHANISMS)}.")
    return [one_of("mechanism", name, MECHANISMS) for name in names]


def _odds(value: float) -> float:
    """Odds as a share; a number above 1 counts out of 100."""
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
