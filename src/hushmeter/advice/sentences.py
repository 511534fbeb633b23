"""Plain sentences from measured or proved numbers, for people who are not statisticians.

Odds instead of adjectives, the unit of protection beside every ε, the cost beside the protection.
"""

from __future__ import annotations

from functools import singledispatch

from hushmeter.advice.planner import Advice, Option
from hushmeter.formatting import format_two_digits, format_watts, out_of_100, short_duration
from hushmeter.privacy.accounting import ApplianceAccount, Composition
from hushmeter.releases.cost import Cost
from hushmeter.releases.receipt import Receipt
from hushmeter.releases.series import Release
from hushmeter.scoring import Score


@singledispatch
def explain(result: object) -> tuple[str, ...]:
    """What a result means, one sentence each.

    Parameters
    ----------
    result : Score, Receipt, Release, Cost or Advice
    """
    raise TypeError(f"there are no words for a {type(result).__name__}.")


@explain.register
def _(result: Score) -> tuple[str, ...]:
    return tuple(
        f"Right about the {a.name} in {out_of_100(a.alpha)} of 100 moments; "
        f"without your data: {out_of_100(a.floor)}."
        for a in result.per_appliance
    )


@explain.register
def _(result: Receipt) -> tuple[str, ...]:
    return (_promise(result, result.unit["sentence"]),)


@explain.register
def _(result: Release) -> tuple[str, ...]:
    first = _promise(result.receipt, result.private.sentence)
    return (first, *(_about(entry) for entry in result.private.appliances))


@explain.register
def _(result: Cost) -> tuple[str, ...]:
    return (
        f"A released reading ({short_duration(result.interval_s)}) is off by "
        f"{format_watts(result.reading_w)} "
        f"on average, the mean of an hour by {format_watts(result.hourly_w)}.",
        f"A day's energy is off by {format_two_digits(result.daily_kwh)} kWh, a month's by "
        f"{format_two_digits(result.monthly_kwh)} kWh, which is {result.monthly_bill:.2f} on "
        "the bill at "
        f"{result.price_per_kwh:.2f} per kWh.",
    )


@explain.register
def _(result: Advice) -> tuple[str, ...]:
    goal, best = result.goal, result.best
    where = {"reading": "one reading", "run": "one run", "day": "one day"}[goal.span]
    wish = (
        f"the {goal.appliance} hidden over {where}, with nobody right more than "
        f"{out_of_100(goal.max_odds)} times of 100 (a coin: 50)"
    )
    if goal.max_hourly_error is not None:
        wish += f" and the mean of an hour off by at most {format_watts(goal.max_hourly_error)}"
    if result.feasible:
        head = f"Cheapest way to keep {wish}: {describe_option(best)}."
    else:
        head = f"There is no way to keep {wish}. The nearest: {describe_option(best)}."
    return (head, *explain(best.cost))


def describe_option(option: Option) -> str:
    """An option in one phrase."""
    return (
        f"{option.mechanism} noise of {format_watts(option.scale)} on readings of "
        f"{short_duration(option.every_s)}, ε = {option.epsilon:.3g}, right "
        f"{out_of_100(option.odds)} times "
        "of 100"
    )


def _promise(receipt: Receipt, sentence: str) -> str:
    """The ε of a release and what it protects."""
    size = f"ε = {receipt.epsilon:.3g}" + (f" (δ = {receipt.delta:g})" if receipt.delta else "")
    promise = f"Protected at {size}: {sentence}."
    if receipt.kind == "simulation":
        return f"A simulation, not to be published. {promise}"
    return promise


def _about(entry: ApplianceAccount) -> str:
    parts = [f"from one reading {_never_certain(entry.reading)}"]
    if entry.run is not None:
        parts.append(f"from one run {_never_certain(entry.run)}")
    parts.append(f"from a whole day {_never_certain(entry.day)}")
    return f"Best guess about the {entry.name}, right times of 100: {', '.join(parts)}; a coin: 50."


def _never_certain(entry: Composition) -> str:
    """Proved odds stay below one, however near."""
    return out_of_100(min(entry.odds, 1 - 1e-12))
