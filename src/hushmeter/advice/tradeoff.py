"""Privacy against error: what can be hidden within an error, and the error at every odds.

A buyer of the data, or the household itself, may fix the error first: “at most 50 W in an hour”.
`find_reach` finds the least ε whose standard error is within this limit, and with it, for every
appliance, the odds of the best attacker. `find_front` computes the standard errors of each kind of
release for several odds. As in `hushmeter.advice.planner`, no reading has any influence on the
answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from hushmeter.advice.least_noise import (
    LEAST_EPSILON,
    MOST_EPSILON,
    best_odds,
    calibrate_series,
)
from hushmeter.advice.options import Option, calendar_option, errors_in_series, series_option
from hushmeter.advice.planner import (
    FORMS,
    HOURLY_COSTS,
    LONG_RESOLUTIONS_S,
    Advice,
    calendar_of,
)
from hushmeter.advice.purposes import StandardErrors, calendar_errors, choose_purpose
from hushmeter.checks import one_of, positive
from hushmeter.errors import InputError
from hushmeter.home import Appliance, Home
from hushmeter.noise.losses import DELTA
from hushmeter.privacy.units import Unit, refuse_large_register, resolve_unit
from hushmeter.releases.view_plan import plan_views
from hushmeter.trace import SECONDS_PER_HOUR, nearest_multiple

if TYPE_CHECKING:
    from hushmeter.releases.calendar import Calendar
    from hushmeter.releases.view_plan import ViewPlan
    from hushmeter.trace import Metering

Noise = TypeVar("Noise")

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
    purpose: str | None = None,
    *,
    interval_s: float,
    span: str | None = None,
    use: float | str | None = None,
    metering: Metering | None = None,
    readings: int | None = None,
    calendar: Calendar | None = None,
    zone: str = "UTC",
    forms: Sequence[str] = FORMS,
    delta: float = DELTA,
    hourly_costs: Sequence[float] = HOURLY_COSTS,
) -> tuple[Reach, ...]:
    """Find to which odds each appliance can be hidden within an error of the data.

    Parameters
    ----------
    appliances : iterable of Appliance
        What might be hidden, one at a time.
    max_error : float
        Largest standard error of the number that the data is for. [W or kWh]
    purpose : {"hour", "day", "month", "profile", "register"}, optional
        What the data is for; by default hours, or days if the readings are longer.
    interval_s : float
        Length of a metered reading [s].
    span : {"reading", "run", "day", "when"}, optional
        What is hidden; by default one run, or one reading of an appliance without a run length.
    use, metering, readings, calendar, zone, forms, delta, hourly_costs
        See `hushmeter.advice.planner.advise`.

    Returns
    -------
    tuple of Reach
        One for each appliance, the best hidden first.

    Raises
    ------
    InputError
        If a value is out of its range, or the error does not depend on the noise.

    Notes
    -----
    Only the longest readings that serve the purpose are searched: shorter ones never have less
    noise in the same number. Laplace and Gaussian noise are searched, because the former is better
    at odds close to 100 and the latter at odds close to 50.
    """
    limit = positive("max_error", max_error)
    interval_s = positive("interval_s", interval_s)
    purpose = choose_purpose(purpose, interval_s)
    wanted = [one_of("form", form, FORMS) for form in forms]
    hourly = purpose in ("hour", "profile")
    longest = SECONDS_PER_HOUR if hourly else LONG_RESOLUTIONS_S[-1]
    every = nearest_multiple(max(longest, interval_s), interval_s)
    if span == "when" and purpose in ("day", "month"):
        raise InputError(
            f"with the span 'when' the error of a {purpose} follows from the rounding of the "
            "meter; limit the error of an hour instead."
        )
    views = None
    if "calendar" in wanted and span != "when":
        views = calendar or calendar_of(None, interval_s)
    found = []
    for appliance in appliances:
        chosen = span or ("reading" if appliance.protected_run_s is None else "run")
        unit_of = partial(
            resolve_unit,
            span=chosen,
            interval_s=interval_s,
            home=Home([appliance]),
            metering=metering,
            readings=readings,
            use=use,
            zone=zone,
        )
        ways: list[Option] = []
        if "series" in wanted:
            ways += _series(unit_of(every=every), limit, purpose, calendar, delta)
        # Its hours and days have larger errors than a series of hours or of days.
        if views is not None and purpose not in ("hour", "day"):
            unit = unit_of(every=views.cells.interval_s)
            for cost in hourly_costs:
                ways += _views(unit, limit, purpose, views, delta, cost)
        best = min(ways, key=lambda way: way.odds) if ways else None
        found.append(Reach(appliance, best))
    return tuple(sorted(found, key=lambda reach: (reach.odds, reach.appliance.name)))


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
    errors : tuple of StandardErrors
        Standard errors at each of them.
    """

    form: str
    every_s: float
    odds: tuple[float, ...]
    errors: tuple[StandardErrors, ...]


FRONT_ODDS = (0.51, 0.53, 0.56, 0.6, 0.65, 0.7, 0.8, 0.9)
"""Odds at which a front is computed."""


def find_front(
    advise_at: Callable[..., Advice],
    interval_s: float,
    *,
    odds: Sequence[float] = FRONT_ODDS,
) -> tuple[FrontLine, ...]:
    """Compute the standard errors of each kind of release at several odds.

    Parameters
    ----------
    advise_at : callable
        A search for the appliance and the unit of protection that takes `max_odds`, `every`,
        `purpose`, `forms` and `hourly_costs`, such as a partial `advise`.
    interval_s : float
        Length of a metered reading [s].
    odds : sequence of float
        The odds.

    Returns
    -------
    tuple of FrontLine
        Readings as metered, means over an hour and over a day, and the calendar release, as far as
        each exists. Each has the noise with the least error.
    """
    lengths = [nearest_multiple(length, interval_s) for length in (SECONDS_PER_HOUR, 86_400)]
    lengths = list(dict.fromkeys([interval_s, *(s for s in lengths if s > interval_s)]))
    kinds = [("series", every) for every in lengths] + [("calendar", None)]
    lines = []
    for form, every in kinds:
        points = []
        for chance in odds:
            try:
                found = advise_at(
                    max_odds=chance,
                    every=every,
                    purpose="month",
                    forms=(form,),
                    hourly_costs=HOURLY_COSTS[:1],
                )
            except InputError:  # This kind of release does not exist, or no grid is wide enough.
                continue
            points.append(found.best)
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


def _series(
    unit: Unit, limit: float, purpose: str, calendar: Calendar | None, delta: float
) -> list[Option]:
    """Series of the longest readings, with Laplace and with Gaussian noise."""
    found = []
    for name in ("gaussian", "laplace"):
        try:
            refuse_large_register(name, unit)
        except InputError:
            continue
        best = _smallest_epsilon(
            partial(calibrate_series, name, unit=unit, delta=delta),
            lambda noise: errors_in_series(noise, unit, calendar).of(purpose) or 0.0,
            limit,
        )
        if best is not None:
            noise, epsilon = best
            found.append(series_option(unit, noise, epsilon, best_odds(noise, unit), calendar))
    return found


def _views(
    unit: Unit, limit: float, purpose: str, calendar: Calendar, delta: float, hourly_cost: float
) -> list[Option]:
    """The calendar release."""

    def build(epsilon: float) -> ViewPlan:
        return plan_views(unit, calendar, epsilon=epsilon, delta=delta, hourly_cost=hourly_cost)

    best = _smallest_epsilon(
        build, lambda plan: calendar_errors(calendar, plan).of(purpose) or 0.0, limit
    )
    return [] if best is None else [calendar_option(unit, calendar, best[0], hourly_cost)]


def _smallest_epsilon(
    build: Callable[[float], Noise], error_of: Callable[[Noise], float], limit: float
) -> tuple[Noise, float] | None:
    """The noise with the smallest ε whose error is within a limit; None if none exists.

    The error is nearly proportional to 1/ε, so a few proportional steps within a bracket find it.
    """
    low, high, guess = LEAST_EPSILON, MOST_EPSILON, 1.0
    best: tuple[Noise, float] | None = None
    while high / low > 1 + ERROR_SLACK / 2:
        try:
            noise = build(guess)
        except InputError:  # The noise is too wide for any grid: only a larger ε is possible.
            low, guess = guess, math.sqrt(guess * high)
            continue
        error = error_of(noise)
        if error <= limit:
            best, high = (noise, guess), guess
            if error >= limit * (1 - ERROR_SLACK):
                break
        else:
            low = guess
        guess *= error / (limit * (1 - ERROR_SLACK / 2))
        if not low < guess < high:
            guess = math.sqrt(low * high)
    return best
