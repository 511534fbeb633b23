"""Plain sentences about measured or proved numbers, for people who are not statisticians.

The sentences give odds instead of adjectives, name the unit of protection with every ε, and state
the cost together with the protection.

*Own use.* `OwnUse` sets the errors of a promise beside the household's own use. It depends on the
metered readings, is printed locally, is never published and never chooses a parameter of a release.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import singledispatch
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.advice import EXACT, Advice, Goal, Option, Reach
from hushmeter.errors import DataError, InputError
from hushmeter.formatting import (
    duration_in_words,
    format_two_digits,
    format_watt_hours,
    format_watts,
    odds_out_of_100,
    out_of_100,
    short_duration,
)
from hushmeter.noise import find_kind
from hushmeter.privacy import ApplianceAccount
from hushmeter.releases.labels import CELLS, HOURLY_COST, VIEWS
from hushmeter.releases.private_receipt import describe_largest_power
from hushmeter.releases.promise import Promise
from hushmeter.releases.purposes import PURPOSES, Cost, Errors, choose_purpose
from hushmeter.releases.receipt import Receipt
from hushmeter.releases.release import Release
from hushmeter.trace import SECONDS_PER_HOUR

if TYPE_CHECKING:
    from hushmeter.privacy.units import Metered
    from hushmeter.releases.request import Request
    from hushmeter.trace import Trace

TOO_NOISY = 1.0
"""Error of a released value, as a share of the own use, from which the household is warned."""

LONGER = {"hour": ("day", "month"), "profile": ("month",), "day": ("month",)}
"""Purposes of longer periods, whose errors may be smaller than the own use."""

HELP = (
    "What helps: longer means (such as --every 1d), a larger ε, or a smaller use (--hide kettle "
    "instead of -e)."
)
"""What to do if the noise of a chosen ε exceeds the own use."""


@dataclass(frozen=True)
class OwnUse:
    """The errors of a release beside the household's own use.

    Attributes
    ----------
    errors : Errors
        Standard errors of the released values.
    mean_w : float
        Mean of the metered readings [W].
    purpose : {"hour", "day", "month", "profile", "register"}
        What the data is for: the number that is compared.
    """

    errors: Errors
    mean_w: float
    purpose: str

    @property
    def error(self) -> float:
        """Standard error of the compared number, in the unit of the purpose."""
        error = self.errors.of(self.purpose)
        # Values longer than an hour show no hours; the page compares the values themselves.
        found = self.errors.value_w if error is None else error
        return float("inf") if found is None else found

    @property
    def own(self) -> float:
        """Own use that the error is compared with, in the unit of the purpose."""
        return PURPOSES[self.purpose].of_mean_power(self.mean_w)

    def share(self) -> float:
        """Error as a share of the own use; infinite if nothing is used."""
        return self.error / abs(self.own) if self.own else float("inf")

    @property
    def too_noisy(self) -> bool:
        """True if the error of the compared number exceeds the own use."""
        return self.share() > TOO_NOISY

    @property
    def sentence(self) -> str:
        """The error of the compared number, and the own use."""
        purpose, errors = PURPOSES[self.purpose], self.errors
        reading = ""
        if self.purpose == "hour" and errors.value_w and errors.value_s < SECONDS_PER_HOUR:
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
        """The comparison and, if the noise exceeds the own use, a warning."""
        if not self.too_noisy:
            return (self.sentence,)
        single = {"profile": "hour", "register": "value"}.get(self.purpose, self.purpose)
        return (
            self.sentence,
            f"WARNING: the noise is {format_two_digits(self.share())} times your own use. A curve "
            f"of single {single}s of this file would show noise, not your home.",
        )


def compare_with_use(errors: Errors, trace: Trace, purpose: str | None = None) -> OwnUse:
    """Set errors beside the own use: of the purpose, or by default of an hour or a day."""
    shown = "month" if errors.day_kwh is None else "day"
    shortest = choose_purpose(None, errors.value_s) if errors.value_w is not None else shown
    chosen = purpose or shortest
    return OwnUse(errors, float(trace.readings.mean()), chosen)


def compare_promise(
    request: Request, promise: Promise, metered: Metered, trace: Trace
) -> tuple[str, ...]:
    """Set the cost of a promise beside the own use, and say what would help if it is too high."""
    if request.hide is None:
        own = compare_with_use(promise.errors, trace)
        return (*own.sentences, *((HELP,) if own.too_noisy else ()))
    purpose = request.for_purpose(metered)
    own = compare_with_use(promise.errors, trace, purpose)
    if not own.too_noisy:
        return own.sentences
    others = [
        compare_with_use(_errors_for(request, promise, metered, other), trace, other)
        for other in LONGER.get(purpose, ())
    ]
    better = [other for other in others if not other.too_noisy]
    if better:
        helps = tuple(f"What helps: --for {other.purpose}. {other.sentence}" for other in better)
        return (*own.sentences, *helps)
    return (
        *own.sentences,
        "Longer periods do not help enough for this use: hide a smaller or shorter use, accept "
        "higher odds, or share one total of many months instead of readings.",
    )


def _errors_for(request: Request, promise: Promise, metered: Metered, purpose: str) -> Errors:
    """Errors of the same wish for another purpose, in the same form."""
    if request.several and request.tables != VIEWS:
        return promise.errors
    other = request.with_changes(
        purpose=purpose, every=None, mechanism=None, tables=(), hourly_cost=HOURLY_COST
    )
    return (other.as_calendar(metered) if request.several else other).resolve(metered).errors


def describe_restoring(promise: Promise, trace: Trace) -> tuple[str, ...]:
    """State how much restoring would help in a simulated release of the household's readings.

    The result is empty if the readings cannot be released in this way, or their cells are longer
    than an hour.
    """
    from hushmeter.releases.restore import restore

    errors = promise.errors
    if promise.unit.span == "when" or errors.hour_w is None:
        return ()
    try:
        done = promise.release(trace, rng=0)
    except (DataError, InputError):
        return ()
    length = promise.cells.interval_s
    true = trace if length == trace.interval_s else trace.coarsen(length)
    better = restore(done)
    improved = better.estimate if isinstance(better, Release) else better.trace.readings
    error = float(np.sqrt(np.mean((improved - true.readings) ** 2)))
    return (
        f"Restored by the recipient, values of {short_duration(errors.value_s)} were off by about "
        f"{format_watts(error)} in one simulated release of your readings (for you alone).",
    )


SIMULATION_WARNING = "This is a simulation and must not be published."
"""First sentence about a receipt of simulated noise."""


@singledispatch
def explain(result: object) -> tuple[str, ...]:
    """Return sentences that state what a result means.

    Parameters
    ----------
    result : Score, Promise, Receipt, Release, Cost or Advice
        The result to explain.

    Returns
    -------
    tuple of str
        One or more complete sentences.

    Raises
    ------
    TypeError
        If the result has another type.

    Examples
    --------
    >>> hm.explain(hm.score([[True], [False]], [[True], [True]], names=["kettle"]))[0][:55]
    'The attacker is right about the kettle in 50 out of 100'
    """
    sentences: tuple[str, ...] | None = getattr(result, "sentences", None)
    if sentences is None:
        raise TypeError(
            "explain takes a Score, Promise, Receipt, Release, Cost or Advice, got "
            f"{type(result).__name__}."
        )
    return sentences


@explain.register
def _(result: Promise) -> tuple[str, ...]:
    guesses = describe_guesses((guess.about, guess.odds) for guess in result.guesses)
    return (_protected(result, result.unit.sentence), *result.sentences, *guesses)


@explain.register
def _(result: Receipt) -> tuple[str, ...]:
    guesses = describe_guesses((one["about"], one["odds"]) for one in result.guesses)
    return (_promise(result, result.unit["sentence"]), *guesses)


@explain.register
def _(result: Release) -> tuple[str, ...]:
    if result.private is None:
        return explain(result.receipt)
    first = _promise(result.receipt, result.private.sentence)
    largest = (entry["sentence"] for entry in result.private.largest_powers)
    guesses = explain(result.receipt)[1:]
    return (first, *guesses, *(_about(entry) for entry in result.private.appliances), *largest)


def describe_guesses(guesses: Iterable[tuple[str, float]]) -> tuple[str, ...]:
    """Sentences about how often the best attacker is right, one for each (about, odds)."""
    return tuple(
        f"The best attacker is right {odds_out_of_100(odds)} times out of 100 about {about}."
        for about, odds in guesses
    )


@explain.register
def _(result: Cost) -> tuple[str, ...]:
    first: tuple[str, ...] = ()
    if result.reading_w is not None and result.hourly_w is not None:
        first = (
            f"A released reading ({short_duration(result.interval_s)}) is off by "
            f"{format_watts(result.reading_w)} on average, and the mean of an hour by "
            f"{format_watts(result.hourly_w)}.",
        )
    month = f"{format_two_digits(result.monthly_kwh)} kWh"
    energy = f"The energy of a month is off by {month}"
    if result.daily_kwh is not None:
        day = f"{format_two_digits(result.daily_kwh)} kWh"
        energy = f"The energy of a day is off by {day}, and that of a month by {month}"
    return (
        *first,
        f"{energy}, which is {result.monthly_bill:.2f} on the bill at {result.price_per_kwh:.2f} "
        "per kWh.",
    )


@explain.register
def _(result: Advice) -> tuple[str, ...]:
    first, *others = recommend(result)
    return (first, *describe_largest(result), *others)


def recommend(
    advice: Advice, own: OwnUse | None = None, price_per_kwh: float | None = None
) -> tuple[str, str, str]:
    """Return a recommendation in three sentences: the release, its cost, and what is free."""
    goal, best = advice.goal, advice.best
    wish = _wish(goal)
    if advice.feasible and best.name == "calendar" and goal.purpose == "hour":
        first = f"This is the usual release in which {wish}: "
    elif advice.feasible:
        first = f"This is the cheapest release {_for(goal)} in which {wish}: "
    else:
        first = f"There is no release in which {wish}. This one comes nearest: "
    return (
        f"{first}{describe_option(best)}.",
        _cost_sentence(advice, own, price_per_kwh),
        RESTORE_HOURS if goal.purpose in ("hour", "profile") else RESTORE_SUMS,
    )


RESTORE_HOURS = (
    "The recipient can restore the file without any loss of privacy (hushmeter restore); on "
    "measured homes this reduced the error of an hour to between 0.2 and 0.9 of it, and the more, "
    "the larger the noise is."
)
RESTORE_SUMS = (
    "The recipient can restore the hours without any loss of privacy (hushmeter restore), but "
    "restored values are biased: days, months and register values are taken from the release "
    "itself."
)
"""What post-processing can do; how much it helps depends on the readings, so it is not promised."""


def _wish(goal: Goal) -> str:
    about = f"about one {goal.span} of the {goal.appliance}"
    if goal.span == "file":
        about = f"about {goal.appliance}"
    if goal.span == "when":
        about = f"about when the {goal.appliance} ran"
    wish = (
        f"nobody can be right {about} more than {out_of_100(goal.max_odds)} times out of 100 (a "
        "coin is right 50 times)"
    )
    if goal.max_hourly_error is not None:
        limit = format_watts(goal.max_hourly_error)
        wish += f" and the standard error of an hour is at most {limit}"
    if goal.max_error is not None:
        purpose = PURPOSES[goal.purpose]
        wish += f" and the standard error of {purpose.subject} is at most "
        wish += purpose.text(goal.max_error)
    return wish


def _for(goal: Goal) -> str:
    return {
        "hour": "for single hours",
        "day": "for days",
        "month": "for months",
        "profile": "for the typical day",
        "register": "for register values",
    }[goal.purpose]


def _cost_sentence(advice: Advice, own: OwnUse | None, price_per_kwh: float | None) -> str:
    """The standard error for the purpose, in money where a price is given, and the own use."""
    purpose, errors = PURPOSES[advice.goal.purpose], advice.best.errors
    error = errors.of(purpose.name)
    subject = purpose.subject[0].upper() + purpose.subject[1:]
    if error is None:
        return f"It has values of {duration_in_words(errors.value_s)}, which show no single hours."
    cost = "is exact" if error == 0 else f"has a standard error of {purpose.text(error)}"
    if price_per_kwh is not None:
        cost += f"; {describe_bill(advice.best, price_per_kwh)}"
    if own is not None:
        cost += f"; your {purpose.own} is {purpose.text(own.own)}"
    return f"{subject} {cost}."


def describe_bill(option: Option, price_per_kwh: float) -> str:
    """Return a clause about the error of the bill of a month."""
    bill = option.errors.month_kwh * price_per_kwh
    if bill == 0:
        return "the bill of a month is exact"
    return f"the bill of a month has a standard error of {bill:.2f} at {price_per_kwh:.2f} per kWh"


def explain_reach(
    reach: tuple[Reach, ...], max_error: float, purpose: str, max_odds: float
) -> tuple[str, ...]:
    """Return sentences about what can be hidden within an error."""
    about = PURPOSES[purpose]
    limit = f"With a standard error of at most {about.text(max_error)} in {about.subject}"
    goal = f"to {out_of_100(max_odds)} out of 100"
    hidden = [entry.appliance.name for entry in reach if entry.odds <= max_odds]
    if len(reach) == 1:
        entry = reach[0]
        if entry.option is None:
            return (f"{limit}, the {entry.appliance.name} cannot be hidden at all.",)
        verb = "can be hidden" if hidden else "can only be hidden"
        return (
            f"{limit}, the {entry.appliance.name} {verb} to {out_of_100(entry.odds)} out of 100: "
            f"{describe_option(entry.option)}.",
        )
    if not hidden:
        nearest = reach[0]
        near = "."
        if nearest.option is not None:
            near = f"; the {nearest.appliance.name} comes nearest, with {out_of_100(nearest.odds)}."
        return (f"{limit}, no appliance in this list can be hidden {goal}{near}",)
    verb = "this appliance" if len(hidden) == 1 else f"these {len(hidden)} appliances"
    return (f"{limit}, {verb} can be hidden {goal}: {', '.join(hidden)}.",)


def describe_largest(result: Advice) -> tuple[str, ...]:
    """A sentence about the largest measured power, if the release protects less."""
    appliance, epsilon = result.appliance, result.best.largest_epsilon
    if epsilon is None or appliance is None or appliance.max_power is None:
        return ()
    return (describe_largest_power(appliance, epsilon),)


def describe_option(option: Option) -> str:
    """Return a phrase that describes one option."""
    if option.mechanism == EXACT:
        return f"{describe_release(option)}; no guess is better than a coin"
    odds = f"the best possible guess is right {out_of_100(option.odds)} times out of 100"
    unknown = option.unknown
    if unknown is not None and out_of_100(unknown.odds) != out_of_100(option.odds):
        odds += f", or without knowing the time of the run {unknown.sentence}"
    return f"{describe_release(option)}; {odds}"


def describe_release(option: Option) -> str:
    """Return a phrase about what one option publishes, with which noise."""
    if option.mechanism == EXACT:
        return "exact sums without noise, with ε = 0"
    size = format_watts(option.scale)
    if CELLS not in option.tables:
        size = format_watt_hours(option.scale * option.every_s / SECONDS_PER_HOUR)
    noise = f"{find_kind(option.mechanism).title} noise of {size}"
    what = f"{noise} on readings of {short_duration(option.every_s)}"
    if option.form == "calendar":
        words = {CELLS: "hours" if option.every_s == SECONDS_PER_HOUR else "values"}
        names = [words.get(name, name.replace("-", " ")) for name in option.tables]
        listed = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
        what = f"a release of {listed} with {noise} on its {names[0]}"
        if option.hourly_cost != HOURLY_COST:
            what += f" (--hourly-cost {option.hourly_cost:g})"
    return f"{what}, with ε = {option.epsilon:.3g}"


def _promise(receipt: Receipt, sentence: str) -> str:
    """The ε of a release and what it protects."""
    promise = _protected(receipt, sentence)
    return f"{SIMULATION_WARNING} {promise}" if receipt.kind == "simulation" else promise


def _protected(stated: Promise | Receipt, sentence: str) -> str:
    """An ε and what it protects."""
    size = f"ε = {stated.epsilon:.3g}" + (f" (δ = {stated.delta:g})" if stated.delta else "")
    return f"{size} protects {sentence}."


def _about(entry: ApplianceAccount) -> str:
    """A sentence about the best possible guess about one appliance."""
    if entry.reading is None or entry.day is None:
        shown = f"The sums of the days show whether the {entry.name} ran"
        if entry.when is None:
            return f"{shown}; the length of its runs is unknown."
        return (
            f"{shown}; the best possible guess at which of two times of the day it ran is right "
            f"{odds_out_of_100(entry.when.odds)} times out of 100."
        )
    more = [] if entry.run is None else [f"from one run {odds_out_of_100(entry.run.odds)} times"]
    more.append(f"from a whole day {odds_out_of_100(entry.day.odds)} times")
    return (
        f"From one reading, the best possible guess about the {entry.name} is right "
        f"{odds_out_of_100(entry.reading.odds)} times out of 100; {'; '.join(more)}. A coin is "
        "right 50 times."
    )
