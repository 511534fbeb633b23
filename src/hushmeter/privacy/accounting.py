"""What ε protects, added up: from one reading to a run and a day of one appliance.

Noise is drawn anew for every reading, so an attacker averages it away over a run. The loss of T
readings in which one appliance is on or off is at most T·ε_i (basic composition), and less with a
small failure probability δ' (the privacy-loss distribution, PLD, composed from the exact law of the
mechanism on its grid).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.checks import FloatArray, positive, whole
from hushmeter.errors import InputError
from hushmeter.home import Home
from hushmeter.privacy.privacy_loss import PrivacyLoss, connect_dots

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism

DELTA = 1e-6
SECONDS_PER_DAY = 86_400
# Cells of the loss grid per ε_i: the composed ε is then at most 1e-4 of itself too large.
CELLS = 60
# What the Fourier transforms may lose of all mass: no ε is promised at a smaller δ'.
ROUNDING = 1e-11
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
        Sum of their losses; for Gaussian noise each at its share of δ'.
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
                run=None
                if length is None
                else compose_run(mechanism, watts, length, window, delta),
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
    if mechanism.delta > 0:
        return Composition(count, *_gaussian(mechanism, changes, delta))
    losses = [(mechanism.epsilon_for(watts), watts, times) for watts, times in changes]
    basic = sum(times * loss for loss, _, times in losses)
    if max(loss for loss, _, _ in losses) > HOPELESS:
        return Composition(count, basic, basic, 1.0)
    pld, odds = _pure(mechanism, losses, delta)
    return Composition(count, basic, min(pld, basic), odds)


def compose_run(
    mechanism: Mechanism, watts: float, readings: int, window: int = 1, delta: float = DELTA
) -> Composition:
    """The loss of `watts` [W] in L metered `readings` in a row, released as means over windows.

    The run is taken to begin with a window: ⌊L/W⌋ released readings move by its power and one more
    by the rest.
    """
    full, rest = divmod(readings, window)
    changes = [(watts, full)] if full else []
    if rest:
        changes.append((watts * rest / window, 1))
    return compose(mechanism, changes, delta)


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
    masses, lowest = stair_losses(mechanism, steps)
    losses = mechanism.epsilon * (lowest + np.arange(masses.size, dtype=np.float64))
    excess = -np.expm1(np.minimum(epsilons[:, None] - losses[None, :], 0.0))
    return np.asarray(excess @ masses)


def stair_losses(mechanism: Mechanism, steps: int) -> tuple[FloatArray, int]:
    """Masses of the losses ln P(i)/P(i − k) = ε·(lowest + j), j = 0, 1, …, of a staircase; lowest.

    Beyond `reach` on either side the masses of one period, and of all that follow, are in the
    proportion e^(−ε), while the losses repeat; so one period stands for the whole tail.
    """
    period, epsilon = mechanism.steps, mechanism.epsilon
    reach = (-(-steps // period) + 1) * period
    places = np.arange(-reach - period + 1, reach + period)
    masses = np.array(mechanism.pmf(places))
    masses[np.abs(places) >= reach] /= -math.expm1(-epsilon)
    log_ratio = np.asarray(mechanism.log_pmf(places)) - mechanism.log_pmf(places - steps)
    stairs = np.rint(log_ratio / epsilon).astype(np.int64)
    lowest = int(stairs.min())
    sums: FloatArray = np.bincount(stairs - lowest, weights=masses).astype(np.float64)
    return sums, lowest


def _pure(
    mechanism: Mechanism, losses: list[tuple[float, float, int]], delta: float
) -> tuple[float, float]:
    """ε at δ' and the odds of the composed privacy-loss distribution."""
    largest = max(loss for loss, _, _ in losses)
    cell = mechanism.epsilon if mechanism.name == "staircase" else largest / CELLS
    parts = []
    for loss, watts, times in losses:
        cells = math.ceil(loss / cell - 1e-9)
        grid = cell * np.arange(-cells, cells + 1, dtype=float)
        deltas = hockey_stick(mechanism, mechanism.steps_of(watts), grid)
        deltas[-1] = 0.0
        parts.append(connect_dots(cell, deltas).repeat(times))
    total = reduce(PrivacyLoss.join, parts)
    kept = total.epsilon_at(delta - ROUNDING) if delta > ROUNDING else math.inf
    return kept, (1 + total.delta_at(0.0)) / 2


def _gaussian(
    mechanism: Mechanism, changes: list[tuple[float, int]], delta: float
) -> tuple[float, float, float]:
    """Basic and composed ε at δ', and the odds, by the law of continuous Gaussian noise.

    Independent readings add up to one with the Euclidean length of the change. A sum of losses
    gives every reading its share of δ'.
    """
    from scipy.special import ndtr

    sigma = mechanism.scale / mechanism.grid
    steps = [(mechanism.steps_of(watts), times) for watts, times in changes]
    length = math.sqrt(sum(times * step**2 for step, times in steps))
    share = delta / sum(times for _, times in steps)
    basic = sum(times * _gaussian_epsilon(sigma, step, share) for step, times in steps)
    odds = float(ndtr(length / (2 * sigma)))
    return basic, _gaussian_epsilon(sigma, length, delta), odds


def _gaussian_epsilon(sigma: float, length: float, delta: float) -> float:
    """Smallest ε with δ(ε) ≤ δ' for a shift by `length`, in the unit of σ."""
    from scipy.optimize import brentq

    from hushmeter.noise.gaussian import analytic_delta

    if analytic_delta(0.0, sigma, length) <= delta:
        return 0.0
    high = 1.0
    while analytic_delta(high, sigma, length) > delta:
        high *= 2
    return float(brentq(lambda e: analytic_delta(e, sigma, length) - delta, 0.0, high))


def _probability(delta: float) -> float:
    if positive("delta", delta) >= 1:
        raise InputError(f"delta must lie between 0 and 1, got {delta}.")
    return float(delta)
