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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from hushmeter.checks import FloatArray, positive, whole
from hushmeter.errors import InputError
from hushmeter.home import Appliance, Home
from hushmeter.noise import Gaussian, Mechanism, Staircase
from hushmeter.noise.gaussian import FINE_SIGMA, analytic_delta, concentrated_delta, smallest
from hushmeter.privacy.privacy_loss import (
    PrivacyLoss,
    connect_dots,
    epsilon_at,
    hockey_stick,
    stair_losses,
)
from hushmeter.privacy.sensitivity import Change, worst_steps
from hushmeter.privacy.staircase_runs import worst_curve
from hushmeter.privacy.units import appliance_change
from hushmeter.trace import SECONDS_PER_DAY, Metering

DELTA = 1e-6
"""Default failure probability δ' of a composed ε."""

CELLS = 60
"""Cells of the loss lattice per loss of one value; the composed ε is at most 1e-4 too large."""

ROUNDING, ROUNDING_PER_VALUE = 1e-11, 4e-16
"""Mass that the Fourier transforms may lose: a fixed part, and a part for every value.

The power of a spectrum multiplies its rounding error by the number of values; 4e-16 is about twenty
times the error that was measured for 10⁶ values."""

FAR_CELLS = 5000
"""Number of the lowest loss from which the attacker is taken to be certain."""

HOPELESS = 50.0
"""Loss of one value beyond which the PLD saves less than 1/50 of the basic composition."""

GAUSSIAN_REACH = 9.0
"""Range of the loss of Gaussian noise [standard deviations]; beyond it lies less than 1e-18."""


@dataclass(frozen=True)
class Composition:
    """The privacy loss of several released values together.

    Attributes
    ----------
    readings : int
        Number of released values that the change touches.
    basic : float
        Sum of their losses; for Gaussian noise each at its share of δ'.
    pld : float
        ε of (ε, δ')-differential privacy from the privacy-loss distribution.
    odds : float
        Probability that the best attacker names the state correctly, if the attacker knows
        everything else and on and off are equally likely: (1 + total variation)/2.
    """

    readings: int
    basic: float
    pld: float
    odds: float

    @property
    def epsilon(self) -> float:
        """The smaller of `basic` and `pld`."""
        return min(self.basic, self.pld)


@dataclass(frozen=True)
class UnknownMoment:
    """Odds of an attacker who knows how long a run is, but not when it happens.

    Attributes
    ----------
    moments : int
        Number K of disjoint moments of a day in which the run may happen.
    odds : float
        Upper bound of the probability that the attacker names correctly whether it happened, if
        all moments are equally likely.
    habit_odds : float
        The same if half of all runs happen in one moment that the attacker knows, and the others
        are equally likely.
    """

    moments: int
    odds: float
    habit_odds: float

    @property
    def sentence(self) -> str:
        """The bounds with the habits for which they hold, as the end of a sentence."""
        return (
            f"at most {100 * self.odds:.1f} times if all times are equally likely, and "
            f"{100 * self.habit_odds:.1f} times if half of all runs are at one known time"
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
        One released value during which it is on, or off.
    run : Composition or None
        One run; None if its length is unknown.
    run_readings : int or None
        Metered readings that the run can overlap.
    day : Composition or None
        All values of a day: on for `use_s_per_day` of the appliance, or all day if that is
        unknown.
    when : Composition or None
        The time of a run within its day, if the release hides only that. The sums of the
        days then show whether it ran, so that `reading`, `run` and `day` are None.
    unknown : UnknownMoment or None
        One run, for an attacker who does not know when it happens.
    """

    name: str
    watts: float
    reading: Composition | None
    run: Composition | None
    run_readings: int | None
    day: Composition | None
    when: Composition | None = None
    unknown: UnknownMoment | None = None


def account(
    mechanism: Mechanism,
    home: Home,
    readings: int | None = None,
    *,
    delta: float = DELTA,
    interval_s: float | None = None,
    window: int = 1,
    metering: Metering | None = None,
    period: int | None = None,
    day_scale: float | None = None,
    use_s: Mapping[str, float] | None = None,
) -> tuple[ApplianceAccount, ...]:
    """Account for one reading, one run and one day of every appliance.

    Parameters
    ----------
    mechanism : Mechanism
        The noise on every released value.
    home : Home
        The appliances.
    readings : int, optional
        Metered readings T of a day of 24 hours; one of `readings` and `interval_s` is needed.
    delta : float
        Failure probability δ' of the composed ε.
    interval_s : float, optional
        Length of a metered reading [s].
    window : int
        Metered readings W per released value.
    metering : Metering, optional
        How the meter rounds and copies.
    period : int, optional
        Metered readings of the period released; needed if the meter differences a register.
    day_scale : float, optional
        `Unit.day_scale` of the span "when", which publishes the sums of the days too.
    use_s : mapping from str to float, optional
        Longest use a day [s] of some appliances, instead of that of the home.

    Returns
    -------
    tuple of ApplianceAccount
        One for each appliance, in the order of the home.

    Raises
    ------
    InputError
        If a parameter is missing or invalid.
    """
    window, delta = whole("window", window), _probability(delta)
    if interval_s is None:
        interval_s = SECONDS_PER_DAY / whole("readings", readings)

    def change(appliance: Appliance, span: str) -> Change:
        found = appliance_change(
            appliance,
            span,
            interval_s=interval_s,
            window=window,
            metering=metering,
            readings=period,
            use_s=(use_s or {}).get(appliance.name),
        )
        return replace(found, day_scale=day_scale or 0.0)

    accounts = []
    for appliance in home.appliances:
        known = appliance.protected_run_s is not None
        if day_scale is not None:
            moved = compose_change(mechanism, change(appliance, "when"), delta) if known else None
            entry = ApplianceAccount(
                appliance.name, appliance.protected_power, None, None, None, None, moved
            )
            accounts.append(entry)
            continue
        run = change(appliance, "run") if known else None
        accounts.append(
            ApplianceAccount(
                name=appliance.name,
                watts=appliance.protected_power,
                reading=compose(mechanism, _one_value(change(appliance, "reading")), delta),
                run=None if run is None else compose_change(mechanism, run, delta),
                run_readings=None if run is None else run.overlapped,
                day=compose_change(mechanism, change(appliance, "day"), delta),
                unknown=None if run is None else unknown_moment(mechanism, run, delta=delta),
            )
        )
    return tuple(accounts)


def _one_value(change: Change) -> list[tuple[float, int]]:
    """Return how far values move if an appliance is on during the whole of one of them.

    The meter may round the readings of this value in another way, and a register those after it.
    """
    metering = change.metering
    moved = [(change.watts + metering.resolution_w + 2 * change.register_w, 1)]
    return moved + [(change.register_w, change.values - 1)] * (change.values > 1)


def unknown_moment(
    mechanism: Mechanism, change: Change, moments: int | None = None, *, delta: float = DELTA
) -> UnknownMoment:
    """Bound the odds of an attacker who does not know when a change happens.

    Parameters
    ----------
    mechanism : Mechanism
        The noise on every released value.
    change : Change
        The change, usually a run.
    moments : int, optional
        Number K of disjoint moments; by default those that a day of 24 hours has.
    delta : float
        As in `compose_change`; it has no effect on the odds.

    Returns
    -------
    UnknownMoment
        Never above the odds of an attacker who knows the moment.

    Notes
    -----
    The attacker compares the release without the change, P, with the mean of the K releases with
    the change in moment k, Q = ΣQ_k/K. For disjoint moments ∫ Q_k·Q_l/P is 1 for k ≠ l and
    C = 1 + χ²(Q_k, P) for k = l. The inequality of Cauchy and Schwarz gives

        odds = ½ + TV(P, Q)/2 ≤ ½ + ¼·√(χ²(Q, P)) = ½ + ¼·√((C − 1)/K).

    If moment k has the probability π_k, 1/K becomes Σ π_k². It is ¼ + ¼/(K − 1) if half of all
    runs are in one known moment.

    Noise is never calibrated to this bound: it holds only as long as the attacker does not learn
    the moment in another way.
    """
    known = compose_change(mechanism, change, delta).odds
    if moments is None:
        values = max(1, math.floor(SECONDS_PER_DAY / change.value_s))
        moments = max(1, values // max(1, math.ceil(change.full_values - 1e-9)))
    count = whole("moments", moments)
    if mechanism.name == "staircase":
        # Every value that the change touches may move by the largest amount.
        steps = [(mechanism.steps_of(change.largest), change.touches)]
    else:
        steps = worst_steps(mechanism, change)
    log_ratio = sum(times * _log_second_moment(mechanism, step) for step, times in steps)
    if log_ratio > HOPELESS:
        return UnknownMoment(count, known, known)
    return bound_unknown_moment(count, known, math.expm1(log_ratio), 0.0)


def bound_unknown_moment(moments: int, known: float, own: float, shared: float) -> UnknownMoment:
    """Bound the odds from the χ² of one moment, and from that of two different moments.

    Parameters
    ----------
    moments : int
        Number K of moments.
    known : float
        Odds of an attacker who knows the moment.
    own, shared : float
        ∫ Q_k·Q_l/P − 1 for k = l, and for k ≠ l.

    Returns
    -------
    UnknownMoment
        Neither bound is above `known`.
    """
    rest = moments - 1
    squares = [1 / moments, 0.25 + 0.25 / rest if rest else 1.0]
    excess = [same * own + (1 - same) * shared for same in squares]
    even, habit = (min(known, 0.5 + 0.25 * math.sqrt(max(0.0, one))) for one in excess)
    return UnknownMoment(moments, even, habit)


def _log_second_moment(mechanism: Mechanism, steps: int) -> float:
    """Return ln Σ_k P(k − s)²/P(k) for a change of one value by s grid steps."""
    if isinstance(mechanism, Gaussian):
        # Completing the square gives e^(s²/σ²) times the sum of the shifted probabilities, 1.
        return (steps / mechanism.sigma_steps) ** 2
    if isinstance(mechanism, Staircase):
        masses, lowest = stair_losses(mechanism, steps)
        losses = mechanism.epsilon * (lowest + np.arange(masses.size))
        return float(np.logaddexp.reduce(np.log(np.maximum(masses, 1e-300)) + losses))
    # The sum over k ≤ 0, over 0 < k < s and over k ≥ s of the geometric probabilities.
    rate = mechanism.epsilon / mechanism.steps
    loss = rate * steps
    if loss > HOPELESS:
        return loss
    inside = 0.0
    if steps > 1:
        # Σ_{k=1}^{s−1} α^(2s − 3k), divided by Σ_{j≥0} α^j.
        ratio = math.expm1(3 * rate * (steps - 1)) / math.expm1(3 * rate)
        inside = math.exp(-2 * loss + 3 * rate) * ratio * -math.expm1(-rate)
    total = math.exp(-2 * loss) + inside + math.exp(loss)
    return math.log(total / (1 + math.exp(-rate)))


def compose(
    mechanism: Mechanism, changes: Sequence[tuple[float, int]], delta: float = DELTA
) -> Composition:
    """Compose the loss of given changes of several released values.

    Parameters
    ----------
    mechanism : Mechanism
        The noise on every released value.
    changes : sequence of (watts, times)
        `times` values change by `watts` each [W].
    delta : float
        Failure probability δ' of the composed ε.

    Returns
    -------
    Composition

    Raises
    ------
    InputError
        If there is no change, or a number is out of range.
    """
    delta = _probability(delta)
    checked = [(positive("watts", watts), whole("times", times)) for watts, times in changes]
    if not checked:
        raise InputError("a composition needs at least one change.")
    steps = [(mechanism.steps_of(watts), times) for watts, times in checked]
    return _compose_steps(mechanism, steps, delta)


def compose_change(mechanism: Mechanism, change: Change, delta: float = DELTA) -> Composition:
    """Compose the loss of a change at the worst offset between it and the released values.

    This is the one function that accounts for a run or a day; the receipt, the advice, the prices
    and the report all use it.

    Parameters
    ----------
    mechanism : Mechanism
        The noise on every released value.
    change : Change
        The change of the load.
    delta : float
        Failure probability δ' of the composed ε.

    Returns
    -------
    Composition

    Notes
    -----
    Laplace and Gaussian noise lose most if the energy is concentrated in as few values as possible
    (`worst_steps`). The staircase does not: its total variation grows more slowly for
    larger changes, so two values that each take a part of the run can lose more than one;
    `hushmeter.privacy.staircase_runs` searches the worst division of the energy.
    """
    delta = _probability(delta)
    if mechanism.name == "staircase":
        return _compose_stairs(mechanism, change, delta)
    return _compose_steps(mechanism, worst_steps(mechanism, change), delta)


def change_odds(mechanism: Mechanism, change: Change) -> float:
    """Odds of the best attacker about a change, as in `compose_change`, without its ε.

    Parameters
    ----------
    mechanism : Mechanism
        The noise on every released value.
    change : Change
        The change of the load.

    Returns
    -------
    float
        `Composition.odds`. A search over ε needs nothing else, and for wide Gaussian noise this
        takes a small part of the time.
    """
    if isinstance(mechanism, Gaussian) and mechanism.sigma_steps >= FINE_SIGMA:
        steps = worst_steps(mechanism, change)
        return _fine_gaussian_odds(mechanism.sigma_steps, _fine_length(mechanism, steps))
    return compose_change(mechanism, change).odds


def _compose_steps(mechanism: Mechanism, steps: list[tuple[int, int]], delta: float) -> Composition:
    """Compose changes that are given as (grid steps, number of values)."""
    count = sum(times for _, times in steps)
    if isinstance(mechanism, Gaussian) and mechanism.sigma_steps >= FINE_SIGMA:
        return _compose_fine_gaussian(mechanism, steps, delta)
    if max(_typical_loss(mechanism, step) for step, _ in steps) > HOPELESS:
        basic = _sum_of_losses(mechanism, steps, delta)
        return Composition(count, basic, basic, 1.0)
    cell = _cell(mechanism, steps)
    losses = [_loss_of_value(mechanism, step, cell) for step, _ in steps]
    if mechanism.delta:
        share = delta / count
        basic = sum(
            times * epsilon_at(loss.deltas(), cell, share)
            for loss, (_, times) in zip(losses, steps, strict=True)
        )
    else:
        basic = _sum_of_losses(mechanism, steps, delta)
    parts = [loss.repeat(times) for loss, (_, times) in zip(losses, steps, strict=True)]
    return _result(count, basic, reduce(PrivacyLoss.join, parts), delta)


def _result(count: int, basic: float, total: PrivacyLoss, delta: float) -> Composition:
    """Return the composition for the loss of all values."""
    # If every loss is far above zero, so are the losses of the other input, with the other sign:
    # the attacker is then certain, and the long empty part of the curve is not computed.
    start = total.first if total.first > FAR_CELLS else 0
    curve = total.deltas(start)
    return _from_curve(count, basic, curve, total.cell, delta, start)


def _from_curve(
    count: int, basic: float, curve: FloatArray, cell: float, delta: float, start: int = 0
) -> Composition:
    """Return the composition for δ at cell·start, …, with the rounding error counted."""
    lost = ROUNDING + ROUNDING_PER_VALUE * count
    kept = epsilon_at(curve, cell, delta - lost, start) if delta > lost else math.inf
    odds = 1.0 if start else min(1.0, (1 + float(curve[0]) + lost) / 2)
    return Composition(count, basic, min(kept, basic), odds)


def _typical_loss(mechanism: Mechanism, steps: int) -> float:
    """Return the largest loss of one value; for Gaussian noise the mean loss or its deviation."""
    if mechanism.name == "staircase":
        return mechanism.epsilon * -(-steps // mechanism.steps)
    if mechanism.name == "laplace":
        return mechanism.epsilon * steps / mechanism.steps
    ratio = steps * mechanism.grid / mechanism.scale
    return max(ratio, ratio**2 / 2)


def _sum_of_losses(mechanism: Mechanism, steps: list[tuple[int, int]], delta: float) -> float:
    """Return the sum of the losses of all values; for Gaussian noise each at its share of δ'."""
    if not isinstance(mechanism, Gaussian):
        return sum(times * _typical_loss(mechanism, step) for step, times in steps)
    share, sigma = delta / sum(times for _, times in steps), mechanism.sigma_steps

    # The conversion from concentrated privacy holds for the discrete Gaussian of any width.
    def epsilon_of(step: int) -> float:
        return smallest(lambda epsilon: concentrated_delta(epsilon, sigma, step) <= share, 0.0)

    return sum(times * epsilon_of(step) for step, times in steps)


def _cell(mechanism: Mechanism, steps: list[tuple[int, int]]) -> float:
    """Return the cell of the loss lattice.

    On the lattice a value whose loss l is below the cell gets about the variance l·cell instead of
    l². The cell is chosen so that this adds at most about 1/CELLS to the variance of the sum.
    """
    if mechanism.name == "staircase":
        return mechanism.epsilon
    sizes = [(step * (mechanism.grid / mechanism.scale), times) for step, times in steps]
    squares = sum(times * size**2 for size, times in sizes)
    return squares / (CELLS * sum(times * size for size, times in sizes))


def _loss_of_value(mechanism: Mechanism, steps: int, cell: float) -> PrivacyLoss:
    """Return the distribution of the loss of one value on a lattice."""
    if mechanism.name == "gaussian":
        ratio = steps * mechanism.grid / mechanism.scale
        largest = ratio**2 / 2 + GAUSSIAN_REACH * ratio
    else:
        largest = _typical_loss(mechanism, steps)
    cells = math.ceil(largest / cell - 1e-9)
    deltas = hockey_stick(mechanism, steps, cell * np.arange(-cells, cells + 1, dtype=float))
    if mechanism.name != "gaussian":
        deltas[-1] = 0.0
    return connect_dots(cell, deltas)


def _compose_fine_gaussian(
    mechanism: Gaussian, steps: list[tuple[int, int]], delta: float
) -> Composition:
    """Compose Gaussian noise of many grid steps, which acts like continuous noise."""
    count, sigma = sum(times for _, times in steps), mechanism.sigma_steps
    share, wider = delta / count, _fine_factor(sigma)
    basic = sum(times * _gaussian_epsilon(sigma, wider * step, share) for step, times in steps)
    length = _fine_length(mechanism, steps)
    kept = min(basic, _gaussian_epsilon(sigma, length, delta))
    return Composition(count, basic, kept, _fine_gaussian_odds(sigma, length))


def _fine_factor(sigma: float) -> float:
    """Return the factor by which a change is lengthened if its noise is taken as continuous.

    On the grid the total variation is larger by up to 1/24σ² of itself.
    """
    return 1 + 1 / (12 * sigma**2)


def _fine_length(mechanism: Gaussian, steps: list[tuple[int, int]]) -> float:
    """Return the Euclidean length of the change [grid steps], lengthened by `_fine_factor`.

    The loss of all values is that of one value that changes by this length.
    """
    length = math.sqrt(sum(times * step**2 for step, times in steps))
    return _fine_factor(mechanism.sigma_steps) * length


def _fine_gaussian_odds(sigma: float, length: float) -> float:
    """Return the odds Φ(length/2σ) of the best attacker under continuous noise."""
    return 0.5 * math.erfc(-length / (2 * sigma) / math.sqrt(2))


def _gaussian_epsilon(sigma: float, length: float, delta: float) -> float:
    """Return the smallest ε with δ(ε) ≤ δ' for a change by `length`, in the unit of σ."""
    return smallest(lambda epsilon: analytic_delta(epsilon, sigma, length) <= delta, 0.0)


def _compose_stairs(mechanism: Mechanism, change: Change, delta: float) -> Composition:
    """Compose staircase noise at the worst division of the energy among the touched values."""
    count, period = change.touches, mechanism.steps
    largest = mechanism.steps_of(change.largest)
    # Σ ⌈d_k/Δ_g⌉ is at most the number of values plus the whole stairs in the sum of all d_k.
    stairs = count + mechanism.steps_of(change.l1, count) // period
    basic = mechanism.epsilon * min(count * -(-largest // period), stairs)
    if _typical_loss(mechanism, largest) > HOPELESS:
        return Composition(count, basic, basic, 1.0)
    return _from_curve(count, basic, worst_curve(mechanism, change), mechanism.epsilon, delta)


def _probability(delta: float) -> float:
    if positive("delta", delta) >= 1:
        raise InputError(f"delta must lie between 0 and 1, got {delta}.")
    return float(delta)
