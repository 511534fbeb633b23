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
from dataclasses import dataclass, replace

from hushmeter.advice.planner import FORMS, HOURLY_COSTS, Advice, Option
from hushmeter.checks import one_of, positive
from hushmeter.errors import InputError
from hushmeter.home import Appliance
from hushmeter.privacy.meters import Metered
from hushmeter.releases.cost import PRICE_PER_KWH
from hushmeter.releases.labels import VIEWS
from hushmeter.releases.promise import Promise
from hushmeter.releases.purposes import StandardErrors
from hushmeter.releases.request import Request
from hushmeter.releases.search import (
    LEAST_EPSILON,
    LONG_RESOLUTIONS_S,
    MOST_EPSILON,
    at_epsilon,
)
from hushmeter.trace import SECONDS_PER_HOUR, nearest_multiple

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
    if "series" in forms:
        ways += [replace(wish, every=every, mechanism=name) for name in ("gaussian", "laplace")]
    # Its hours and days have larger errors than a series of hours or of days.
    plain = wish.chosen_span() != "when" and wish.purpose not in ("hour", "day")
    if "calendar" in forms and plain:
        ways += [replace(wish, tables=VIEWS, hourly_cost=cost) for cost in HOURLY_COSTS]
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

    `advise_at` is a search for one wish that takes `odds`, `every`, `purpose` and `forms`. The
    lines are readings as metered, means over an hour and over a day, and the calendar release, as
    far as each exists. Each has the noise with the least error.
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
