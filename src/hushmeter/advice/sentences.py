"""Plain sentences about measured or proved numbers, for people who are not statisticians.

The sentences give odds instead of adjectives, name the unit of protection with every ε, and state
the cost together with the protection.
"""

from __future__ import annotations

from functools import singledispatch

from hushmeter.advice.planner import Advice, Option
from hushmeter.formatting import format_two_digits, format_watts, out_of_100, short_duration
from hushmeter.privacy.accounting import ApplianceAccount, Composition
from hushmeter.releases.cost import Cost
from hushmeter.releases.receipt import Receipt, describe_largest_power
from hushmeter.releases.series import Release
from hushmeter.scoring import Score

SIMULATION_WARNING = "This is a simulation and must not be published."
"""First sentence about a receipt of simulated noise."""


@singledispatch
def explain(result: object) -> tuple[str, ...]:
    """Return sentences that state what a result means.

    Parameters
    ----------
    result : Score, Receipt, Release, Cost or Advice
        The result to explain.

    Returns
    -------
    tuple of str
        One or more complete sentences.

    Raises
    ------
    TypeError
        If the result has another type.
    """
    raise TypeError(
        f"explain takes a Score, Receipt, Release, Cost or Advice, got {type(result).__name__}."
    )


@explain.register
def _(result: Score) -> tuple[str, ...]:
    return tuple(
        f"The attacker is right about the {a.name} in {out_of_100(a.alpha)} out of 100 moments; "
        f"a guess without your data is right in {out_of_100(a.floor)}."
        for a in result.per_appliance
    )


@explain.register
def _(result: Receipt) -> tuple[str, ...]:
    return (_promise(result, result.unit["sentence"]),)


@explain.register
def _(result: Release) -> tuple[str, ...]:
    first = _promise(result.receipt, result.private.sentence)
    largest = (entry["sentence"] for entry in result.private.largest_powers)
    return (first, *(_about(entry) for entry in result.private.appliances), *largest)


@explain.register
def _(result: Cost) -> tuple[str, ...]:
    return (
        f"A released reading ({short_duration(result.interval_s)}) is off by "
        f"{format_watts(result.reading_w)} on average, and the mean of an hour by "
        f"{format_watts(result.hourly_w)}.",
        f"The energy of a day is off by {format_two_digits(result.daily_kwh)} kWh, and that of a "
        f"month by {format_two_digits(result.monthly_kwh)} kWh, which is "
        f"{result.monthly_bill:.2f} on the bill at {result.price_per_kwh:.2f} per kWh.",
    )


@explain.register
def _(result: Advice) -> tuple[str, ...]:
    goal = result.goal
    wish = (
        f"nobody can be right about one {goal.span} of the {goal.appliance} more than "
        f"{out_of_100(goal.max_odds)} times out of 100 (a coin is right 50 times)"
    )
    if goal.max_hourly_error is not None:
        wish += f" and the mean of an hour is off by at most {format_watts(goal.max_hourly_error)}"
    option = describe_option(result.best)
    if result.feasible:
        head = f"This is the cheapest release in which {wish}: {option}."
    else:
        head = f"There is no release in which {wish}. This one comes nearest: {option}."
    return (head, *_about_largest(result), *explain(result.best.cost))


def _about_largest(result: Advice) -> tuple[str, ...]:
    """A sentence about the largest measured power, if the release protects less."""
    appliance, epsilon = result.appliance, result.best.largest_epsilon
    if epsilon is None or appliance.max_power is None:
        return ()
    return (describe_largest_power(appliance, epsilon),)


def describe_option(option: Option) -> str:
    """Return a phrase that describes one option."""
    return (
        f"{option.mechanism} noise of {format_watts(option.scale)} on readings of "
        f"{short_duration(option.every_s)}, with ε = {option.epsilon:.3g}; the best possible guess "
        f"is right {out_of_100(option.odds)} times out of 100"
    )


def _promise(receipt: Receipt, sentence: str) -> str:
    """The ε of a release and what it protects."""
    size = f"ε = {receipt.epsilon:.3g}" + (f" (δ = {receipt.delta:g})" if receipt.delta else "")
    promise = f"{size} protects {sentence}."
    return f"{SIMULATION_WARNING} {promise}" if receipt.kind == "simulation" else promise


def _about(entry: ApplianceAccount) -> str:
    """A sentence about the best possible guess about one appliance."""
    if entry.reading is None or entry.day is None:
        shown = f"The sums of the days show whether the {entry.name} ran"
        if entry.when is None:
            return f"{shown}; the length of its runs is unknown."
        return (
            f"{shown}; the best possible guess at which of two times of the day it ran is right "
            f"{_never_certain(entry.when)} times out of 100."
        )
    more = [] if entry.run is None else [f"from one run {_never_certain(entry.run)} times"]
    more.append(f"from a whole day {_never_certain(entry.day)} times")
    return (
        f"From one reading, the best possible guess about the {entry.name} is right "
        f"{_never_certain(entry.reading)} times out of 100; {'; '.join(more)}. A coin is right 50 "
        "times."
    )


def _never_certain(entry: Composition) -> str:
    """Odds out of 100, never rounded up to certainty."""
    return out_of_100(min(entry.odds, 1 - 1e-12))
