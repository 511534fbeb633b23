"""What the best attacker can guess about a release, in numbers and in sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.formatting import (
    duration_in_words,
    format_watt_hours,
    format_watts,
    out_of_100,
    short_duration,
)
from hushmeter.noise.gaussian import joint_odds
from hushmeter.noise.losses import DELTA
from hushmeter.privacy import change_odds
from hushmeter.privacy.units import LONGEST_DAY_S, Unit, order_in_words
from hushmeter.releases.labels import CELLS, LabelledTable
from hushmeter.releases.purposes import gaps_shown, order_sentences
from hushmeter.trace import SECONDS_PER_HOUR

if TYPE_CHECKING:
    from hushmeter.privacy.sensitivity import Change
    from hushmeter.releases.promise import Promise

SURE = 0.9995
"""Odds from which an attacker is as good as certain."""


@dataclass(frozen=True)
class Guess:
    """How often the best attacker is right about one thing."""

    name: str  # "run", "reading", "value", "unknown", "habit", "day", "file", "when" or "order"
    about: str  # What the attacker guesses
    odds: float  # Largest probability of being right

    @property
    def text(self) -> str:
        """The odds out of 100, never rounded up to certainty."""
        return out_of_100(min(self.odds, 1 - 1e-12))


def guesses_about(promise: Promise) -> tuple[Guess, ...]:
    """How often the best attacker is right, from one moment to the whole file.

    The first row is what the request is about. A day of usual use is always among the others.
    """
    changes, span = promise.unit.changes, promise.unit.span
    if not changes:
        return _order_guesses(promise)
    if span == "when":
        return (
            Guess("when", "at which of two times of the day it happened", promise.odds),
            Guess("day", "whether it happened on a day, which the sums of days show", 1.0),
        )
    days = [promise.unit.usual_day(change) for change in changes]
    size = format_watt_hours(max(day.energy for day in days) / SECONDS_PER_HOUR)
    odds = promise.odds if span == "day" else max(_odds_about(promise, one) for one in days)
    day = Guess("day", f"a whole day of usual use, up to {size}", odds)
    count = promise.cells.days.days.size
    rows = _single_guesses(promise, changes, day)
    if count > 1:
        found = _file_odds(promise, days, odds, count)
        rows.append(Guess("file", f"all {count} days together", found))
    return (*rows, *_order_guesses(promise))


def _single_guesses(promise: Promise, changes: Sequence[Change], day: Guess) -> list[Guess]:
    """The rows about one use, one released value and one day, the requested one first."""
    span, unknown = promise.unit.span, promise.unknown
    rows = [day]
    length = promise.cells.interval_s
    if promise.tables[0].name == CELLS and length <= max(change.seconds for change in changes):
        one = f"one released value ({short_duration(length)}), at a known time"
        odds = max(promise.compose_cell(change, DELTA).odds for change in changes)
        rows.insert(span == "day", Guess("value", one, odds))
    # Sums of days move alike at all times of the day.
    if unknown is not None and unknown.moments > 1 and unknown.odds < promise.odds:
        many = f"{unknown.moments} times of the day"
        rows[:0] = [
            Guess("unknown", f"one use at one of {many}, all equally likely", unknown.odds),
            Guess("habit", "one use, if half of all are at one known time", unknown.habit_odds),
        ]
    if span == "run" and promise.lasts_days:
        days = [one for one in changes if one.seconds >= 2 * LONGEST_DAY_S]
        used = format_watt_hours(max(one.energy for one in changes) / SECONDS_PER_HOUR)
        named = f"whether up to {used} were used within {_days_in_words(changes)}"
        return [Guess("run" if days else "day", named, promise.odds), *(rows if days else ())]
    if span == "run":
        rows.insert(0, Guess("run", "one use, at a known time", promise.odds))
    if span == "reading":
        one = f"one metered reading ({short_duration(promise.unit.interval_s)}), at a known time"
        rows.insert(0, Guess("reading", one, promise.odds))
    return rows


def _order_guesses(promise: Promise) -> tuple[Guess, ...]:
    """The row about when electricity was used, if that is hidden."""
    ways = promise.unit.rearranged
    if not ways:
        return ()
    lengths = promise.order_lengths
    odds = joint_odds(promise.noises, lengths) if lengths.any() else 0.5
    return (Guess("order", f"{order_in_words(ways)}, in the whole file", odds),)


def _odds_about(promise: Promise, change: Change) -> float:
    """Odds of the best attacker about any change in all tables."""
    if promise.joint:
        return joint_odds(promise.noises, promise.lengths_for([change]))
    return change_odds(promise.noise, change)


def _file_odds(promise: Promise, days: Sequence[Change], day_odds: float, count: int) -> float:
    """Upper bound of the odds about `count` days of usual use together.

    If at most m days share a label, a table moves by at most √(count·m) times as far as for one
    day (Cauchy and Schwarz for every label). Only Gaussian noise has such a simple rule.
    """
    if day_odds > SURE:
        return day_odds
    if promise.joint:
        shared = [_days_in_a_label(promise, entry.table) for entry in promise.tables]
        lengths = promise.lengths_for(days) * np.sqrt(count * np.array(shared))
        return max(day_odds, joint_odds(promise.noises, lengths))
    if not promise.noise.shares_budget:
        return 1.0
    grid = float(promise.grid)
    length = max(day.l2 / grid + math.sqrt(day.touches) for day in days)
    found = joint_odds([promise.noise], np.array([length * math.sqrt(2 * count)]))
    return max(day_odds, found)


def _days_in_a_label(promise: Promise, table: LabelledTable) -> int:
    """Most days that share a sum of a table; a cell may belong to the end of a day as well."""
    inside = table.labels >= 0
    pairs = np.stack([table.labels[inside], promise.cells.days.place[inside]])
    return int(np.bincount(np.unique(pairs, axis=1)[0]).max(initial=0)) + 1


def promise_in_words(promise: Promise) -> tuple[str, str]:
    """Two sentences: what is hidden, and to which odds, always with those of a whole day."""
    first, *others = promise.guesses
    coin = "a coin is right 50 times"
    relation = " ".join(_relation(promise))
    if not promise.unit.changes:
        return f"Hidden: {promise.unit.sentence}.", relation
    odds = f"more than {first.text} times out of 100"
    if promise.unit.span == "when":
        how = "with less noise" if promise.unit.day_scale else "exactly"
        return (
            f"Hidden: {promise.unit.sentence}.",
            f"Nobody who has the released values can be right {odds} about which of two times "
            f"of the day it was; {coin}. The sums of the days are published {how} and show "
            "whether it ran. This holds for homes that feed nothing into the grid.",
        )
    day, more = "", ""
    for guess in others:
        if guess.name == "day" and guess.odds > SURE:
            more += f" Not hidden: {guess.about}."
        elif guess.name == "day":
            day = f", and about {guess.about}, more than {guess.text} times"
    more += f" {relation}" if relation else ""
    return (
        f"Hidden: {_hidden(promise.unit)}.",
        "Nobody who has the released values can be right about whether it happened "
        f"{odds}{day}; {coin}.{more}",
    )


def _relation(promise: Promise) -> list[str]:
    """Which files cannot be told apart, if use is rearranged, and which gaps are seen."""
    unit, sentences = promise.unit, []
    if unit.rearranged:
        stated = bool(unit.metering.resolution_w or unit.metering.register_step_w)
        odds, left_out = _order_guesses(promise)[0].odds, promise.cells.left_out
        sentences = order_sentences(unit.rearranged, odds, left_out, rounding_stated=stated)
    longest_s = max((change.seconds for change in unit.changes), default=0.0)
    return [*sentences, *gaps_shown(unit.rearranged, unit.span, longest_s)]


def _hidden(unit: Unit) -> str:
    """What a unit hides; one use with its energy, power and length."""
    if unit.span != "run" or len(unit.changes) > 1:
        return unit.sentence
    use = unit.changes[0]
    if use.seconds >= LONGEST_DAY_S:
        return (
            f"whether somebody was at home for {_days_in_words(unit.changes)}: any use of up to "
            f"{format_watt_hours(use.energy / SECONDS_PER_HOUR)} and {format_watts(use.watts)} "
            "above the base load"
        )
    return (
        f"any use of up to {format_watt_hours(use.energy / SECONDS_PER_HOUR)} and "
        f"{format_watts(use.watts)} that lasts up to {duration_in_words(use.seconds)}, such as one "
        f"run of the {use.name}"
    )


def _days_in_words(changes: Sequence[Change]) -> str:
    """The number of days that the longest of some changes lasts."""
    count = round(max(change.seconds for change in changes) / LONGEST_DAY_S)
    return "one day" if count == 1 else f"{count} days"
