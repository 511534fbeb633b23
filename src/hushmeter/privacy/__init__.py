"""What ε protects, added up: from one reading to a run and a day of one appliance.

The noise of every released value is independent, so an attacker averages it away over a run. The
loss of all values that a change touches is at most the sum of their losses (basic composition). It
is smaller if a failure probability δ' is allowed; the privacy-loss distribution (PLD), composed
from the exact distribution of the noise on its grid, gives that ε and also the odds of the best
attacker.

All results hold for the worst offset between a run and the released values, and for an attacker
who knows the moment of the run. `unknown_moment` bounds the odds of an attacker who must also find
the run among several moments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hushmeter.checks import positive, whole
from hushmeter.errors import InputError
from hushmeter.noise import Mechanism
from hushmeter.noise.losses import DELTA, HOPELESS, Composition
from hushmeter.privacy.sensitivity import Change, in_steps


@dataclass(frozen=True)
class UnknownMoment:
    """Odds of an attacker who knows how long a run is, but not when it happens."""

    moments: int  # Number K of disjoint moments of a day in which the run may happen
    # Upper bound of the probability that the attacker names correctly whether it happened, if all
    # moments are equally likely.
    odds: float
    # The same if half of all runs happen in one moment that the attacker knows, and the others are
    # equally likely.
    habit_odds: float

    @property
    def sentence(self) -> str:
        """The bounds with the habits for which they hold, as the end of a sentence."""
        # A bound below one is never rounded up to certainty.
        any_time, habit = (
            f"at most {100 * odds:.1f}" if odds < 0.9995 else "over 99.9"
            for odds in (self.odds, self.habit_odds)
        )
        return (
            f"{any_time} times if all times are equally likely, and {habit} times if half of all "
            "runs are at one known time"
        )


@dataclass(frozen=True)
class ApplianceAccount:
    """What a release reveals about one appliance.

    Attributes
    ----------
    name : str
        Name of the appliance.
    watts : float
        Its protected power [W].
    reading : Composition or None
        Privacy loss of one released value: whether the appliance is on during it.
    run : Composition or None
        Privacy loss of one run; None if its length is unknown.
    run_readings : int or None
        Number of metered readings that the run can overlap.
    day : Composition or None
        Privacy loss of all values of a day, on which the appliance is on for its `use_s_per_day`,
        or all day if that is unknown.
    when : Composition or None
        Privacy loss of the time of a run within its day, if the release hides only this time. The
        sums of the days then show whether it ran, so that `reading`, `run` and `day` are None.
    unknown : UnknownMoment or None
        What an attacker who does not know the time of a run can find out about it.
    """

    name: str
    watts: float
    reading: Composition | None
    run: Composition | None
    run_readings: int | None
    day: Composition | None
    when: Composition | None = None
    unknown: UnknownMoment | None = None


def one_value(change: Change) -> list[tuple[float, int]]:
    """Return how far values move if an appliance is on during the whole of one of them.

    The meter may round the readings of this value in another way, and a register those after it.
    """
    metering = change.metering
    moved = [(change.watts + metering.resolution_w + 2 * change.register_w, 1)]
    return moved + [(change.register_w, change.values - 1)] * (change.values > 1)


def unknown_moment(
    mechanism: Mechanism, change: Change, moments: int | None = None, *, delta: float = DELTA
) -> UnknownMoment:
    """Bound the odds of an attacker who does not know in which of K disjoint `moments` a change is.

    By default these are the moments of a day of 24 hours. The attacker compares the release without
    the change, P, with the mean of the K releases with the change in moment k, Q = ΣQ_k/K. For
    disjoint moments ∫ Q_k·Q_l/P is 1 for k ≠ l and C = 1 + χ²(Q_k, P) for k = l; the phase of a
    register moves later values in both moments, so that it is then at most C for k ≠ l too. The
    inequality of Cauchy and Schwarz gives

        odds = ½ + TV(P, Q)/2 ≤ ½ + ¼·√(χ²(Q, P)) = ½ + ¼·√((C − 1)/K).

    If moment k has the probability π_k, 1/K becomes Σ π_k². It is ¼ + ¼/(K − 1) if half of all
    runs are in one known moment. The bound is never above the odds of an attacker who knows the
    moment. Noise is never calibrated to it: it holds only as long as the attacker does not learn
    the moment in another way.
    """
    known = compose_change(mechanism, change, delta).odds
    count = change.moments if moments is None else whole("moments", moments)
    log_ratio = mechanism.change_log_second_moment(in_steps(mechanism, change))
    if log_ratio > HOPELESS:
        return UnknownMoment(count, known, known)
    own = math.expm1(log_ratio)
    return bound_unknown_moment(count, known, own, own if change.register_w else 0.0)


def bound_unknown_moment(moments: int, known: float, own: float, shared: float) -> UnknownMoment:
    """Bound the odds for K `moments` from ∫ Q_k·Q_l/P − 1: `own` for k = l, `shared` for k ≠ l.

    No bound is above `known`, the odds of an attacker who knows the moment.
    """
    rest = moments - 1
    squares = [1 / moments, 0.25 + 0.25 / rest if rest else 1.0]
    excess = [same * own + (1 - same) * shared for same in squares]
    even, habit = (min(known, 0.5 + 0.25 * math.sqrt(max(0.0, one))) for one in excess)
    return UnknownMoment(moments, even, habit)


def compose(
    mechanism: Mechanism, changes: Sequence[tuple[float, int]], delta: float = DELTA
) -> Composition:
    """Compose the loss of changes (watts, times): `times` values change by `watts` each [W]."""
    delta = _probability(delta)
    checked = [(positive("watts", watts), whole("times", times)) for watts, times in changes]
    if not checked:
        raise InputError("a composition needs at least one change.")
    steps = [(mechanism.steps_of(watts), times) for watts, times in checked]
    return mechanism.compose_steps(steps, delta)


def compose_change(mechanism: Mechanism, change: Change, delta: float = DELTA) -> Composition:
    """Compose the loss of a change at the worst offset between it and the released values.

    This is the one function that accounts for a run or a day; the receipt, the advice, the prices
    and the report all use it. `delta` is the failure probability δ' of the composed ε.
    """
    return mechanism.compose_change(in_steps(mechanism, change), _probability(delta))


def change_odds(mechanism: Mechanism, change: Change) -> float:
    """Odds of the best attacker about a change, as in `compose_change`, without its ε.

    A search over ε needs nothing else, and for wide Gaussian noise this takes a small part of the
    time.
    """
    return mechanism.change_odds(in_steps(mechanism, change))


def _probability(delta: float) -> float:
    if positive("delta", delta) >= 1:
        raise InputError(f"delta must lie between 0 and 1, got {delta}.")
    return float(delta)
