"""What ε protects, added up: from one reading to a run and a day of one appliance.

Noise is drawn anew for every reading, so an attacker averages it away over a run. The loss of T
readings in which one appliance is on or off is at most T·ε_i (basic composition), and less with a
small failure probability δ' (the privacy-loss distribution, PLD, composed by dp-accounting from
the exact law of the mechanism on its grid).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.checks import FloatArray, positive, whole
from hushmeter.errors import InputError
from hushmeter.home import Home

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism

DELTA = 1e-6
TINY = 1e-300
SECONDS_PER_DAY = 86_400
# Cells of the loss grid per ε_i: the composed ε is then at most 1e-4 of itself too large.
CELLS = 60
# Beyond this the PLD saves less than 1/50 of T·ε_i, and one reading alone decides.
HOPELESS = 50.0


@dataclass(frozen=True)
class Composition:
    """The privacy loss of several readings together.

    Attributes
    ----------
    readings : int
        How many released readings the change touches.
    basic : float
        Sum of their losses.
    pld : float
        ε of (ε, δ')-differential privacy by the privacy-loss distribution.
    odds : float
        How often the best attacker, who knows all else and finds on and off equally likely,
        names the state rightly: (1 + total variation)/2.
    """

    readings: int
    basic: float
    pld: float
    odds: float

    @property
    def epsilon(self) -> float:
        """The smaller of both."""
        return min(self.basic, self.pld)


@dataclass(frozen=True)
class ApplianceAccount:
    """What a release says about one appliance.

    Attributes
    ----------
    name : str
    watts : float
        Its largest power [W].
    reading : Composition
        One released reading during which it is on, or off.
    run : Composition or None
        A run of its usual length; None where that is unknown.
    run_readings : int or None
        Metered readings of that run.
    day : Composition
        All readings of a day.
    """

    name: str
    watts: float
    reading: Composition
    run: Composition | None
    run_readings: int | None
    day: Composition


def account(
    mechanism: Mechanism,
    home: Home,
    readings: int,
    *,
    delta: float = DELTA,
    interval_s: float | None = None,
    window: int = 1,
) -> tuple[ApplianceAccount, ...]:
    """Per appliance: one reading, one run, and a day of `readings` metered readings.

    Parameters
    ----------
    mechanism : Mechanism
    home : Home
    readings : int
        Metered readings a day, T.
    delta : float
        δ', the failure probability of the composed ε.
    interval_s : float, optional
        Length of a metered reading [s]; a day divided by `readings` if not given.
    window : int
        Metered readings W per released mean: a run of L readings then moves ⌊L/W⌋ released
        readings by the full power and one more by the rest.
    """
    readings, window = whole("readings", readings), whole("window", window)
    delta = _probability(delta)
    seconds = SECONDS_PER_DAY / readings if interval_s is None else interval_s
    per_day = -(-readings // window)
    accounts = []
    for appliance in home.appliances:
        watts = max(appliance.on_levels)
        length = None
        if appliance.run_s is not None:
            length = math.ceil(appliance.run_s / positive("interval_s", seconds))
        accounts.append(
            ApplianceAccount(
                name=appliance.name,
                watts=watts,
                reading=compose(mechanism, [(watts, 1)], delta),
                run=None if length is None else _run(mechanism, watts, length, window, delta),
                run_readings=length,
                day=compose(mechanism, [(watts, per_day)], delta),
            )
        )
    return tuple(accounts)


def compose(
    mechanism: Mechanism, changes: Sequence[tuple[float, int]], delta: float = DELTA
) -> Composition:
    """The loss of a change of several released readings.

    Parameters
    ----------
    mechanism : Mechanism
    changes : sequence of (watts, times)
        `times` readings each move by `watts` [W].
    delta : float
        δ', the failure probability of the composed ε.
    """
    delta = _probability(delta)
    changes = [(positive("watts", watts), whole("times", times)) for watts, times in changes]
    if not changes:
        raise InputError("a composition needs at least one change.")
    count = sum(times for _, times in changes)
    basic = sum(times * mechanism.epsilon_for(watts) for watts, times in changes)
    if mechanism.delta > 0:
        pld, odds = _gaussian(mechanism, changes, delta)
        return Composition(count, basic, pld, odds)
    losses = [(mechanism.epsilon_for(watts), watts, times) for watts, times in changes]
    if max(loss for loss, _, _ in losses) > HOPELESS:
        return Composition(count, basic, basic, 1.0)
    pld, odds = _pure(mechanism, losses, delta)
    return Composition(count, basic, min(pld, basic), odds)


def hockey_stick(mechanism: Mechanism, steps: int, epsilons: FloatArray) -> FloatArray:
    """δ(ε) = Σ_i max(P(i) − e^ε·P(i − k), 0) for readings k grid steps apart, exactly.

    Laplace: the terms are positive on a half line, i < (k − ε/rate)/2. Staircase: the loss takes
    few values, multiples of its ε; beyond k + Δ_g the masses repeat with a factor e^(−ε).
    """
    if mechanism.name == "laplace":
        rate = mechanism.epsilon / mechanism.steps
        last = np.ceil((steps - epsilons / rate) / 2) - 1
        inside = epsilons < rate * steps
        # Left of zero both laws are geometric and every i counts until the loss falls below ε.
        gap = mechanism.cdf(last) - np.exp(epsilons) * mechanism.cdf(last - steps)
        everything = epsilons < -rate * steps
        gap = np.where(everything, -np.expm1(epsilons), gap)
        return np.where(inside, np.maximum(gap, 0.0), 0.0)
    losses, masses = _stairs(mechanism, steps)
    excess = -np.expm1(np.minimum(epsilons[:, None] - losses[None, :], 0.0))
    return np.asarray(excess @ masses)


def _stairs(mechanism: Mechanism, steps: int) -> tuple[FloatArray, FloatArray]:
    """The losses ln P(i)/P(i − k) of a staircase and the mass of each."""
    period, epsilon = mechanism.steps, mechanism.epsilon
    reach = (-(-steps // period) + 1) * period
    places = np.arange(-reach - period + 1, reach + period)
    masses = np.array(mechanism.pmf(places))
    masses[np.abs(places) >= reach] /= -math.expm1(-epsilon)
    log_ratio = np.asarray(mechanism.log_pmf(places)) - mechanism.log_pmf(places - steps)
    stairs = np.rint(log_ratio / epsilon).astype(np.int64)
    lowest = int(stairs.min())
    sums: FloatArray = np.bincount(stairs - lowest, weights=masses).astype(np.float64)
    losses: FloatArray = epsilon * (lowest + np.arange(sums.size, dtype=np.float64))
    return losses, sums


def _pure(
    mechanism: Mechanism, losses: list[tuple[float, float, int]], delta: float
) -> tuple[float, float]:
    """ε at δ' and the odds of the composed privacy-loss distribution."""
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    largest = max(loss for loss, _, _ in losses)
    cell = mechanism.epsilon if mechanism.name == "staircase" else largest / CELLS
    total: Any = None
    for loss, watts, times in losses:
        cells = math.ceil(loss / cell - 1e-9)
        grid = np.arange(-cells, cells + 1)
        deltas = hockey_stick(mechanism, mechanism.steps_of(watts), cell * grid.astype(float))
        deltas[-1] = 0.0
        pmf = pld_pmf.create_pmf_pessimistic_connect_dots(cell, grid, deltas)
        part = PrivacyLossDistribution(pmf)
        part = part.self_compose(times) if times > 1 else part
        total = part if total is None else total.compose(part)
    variation = min(max(float(total.get_delta_for_epsilon(0.0)), 0.0), 1.0)
    basic = sum(loss * times for loss, _, times in losses)
    return _epsilon_at(total, delta, basic), (1 + variation) / 2


def _epsilon_at(distribution: Any, delta: float, high: float) -> float:
    """Smallest ε ≤ high with δ(ε) ≤ δ', from above to 1e-8 of `high`.

    By Brent's method on ln δ(ε), which is nearly a parabola: the closed inversion of dp-accounting
    divides by masses that may underflow.
    """
    from scipy.optimize import brentq

    def excess(epsilon: float) -> float:
        found = float(distribution.get_delta_for_epsilon(epsilon))
        return math.log(max(found, TINY)) - math.log(delta)

    if excess(0.0) <= 0:
        return 0.0
    if excess(high) > 0:
        return high
    step = 1e-9 * high
    root = float(brentq(excess, 0.0, high, xtol=step))
    # Brent's root may lie a step too low, where δ' is not kept yet.
    while excess(root) > 0:
        root += step
    return min(root, high)


def _gaussian(
    mechanism: Mechanism, changes: list[tuple[float, int]], delta: float
) -> tuple[float, float]:
    """Independent Gaussian readings add up to one with the Euclidean length of the change."""
    from scipy.optimize import brentq
    from scipy.special import ndtr

    from hushmeter.noise.gaussian import analytic_delta

    sigma = mechanism.scale / mechanism.grid
    length = math.sqrt(sum(times * mechanism.steps_of(watts) ** 2 for watts, times in changes))
    odds = float(ndtr(length / (2 * sigma)))
    if analytic_delta(0.0, sigma, length) <= delta:
        return 0.0, odds
    high = 1.0
    while analytic_delta(high, sigma, length) > delta:
        high *= 2
    return float(brentq(lambda e: analytic_delta(e, sigma, length) - delta, 0.0, high)), odds


def _run(mechanism: Mechanism, watts: float, length: int, window: int, delta: float) -> Composition:
    full, rest = divmod(length, window)
    changes = [(watts, full)] if full else []
    if rest:
        changes.append((watts * rest / window, 1))
    return compose(mechanism, changes, delta)


def _probability(delta: float) -> float:
    if positive("delta", delta) >= 1:
        raise InputError(f"delta must lie between 0 and 1, got {delta}.")
    return float(delta)
