"""The least noise of a release that keeps the odds of the best attacker.

`least_noise` searches the largest ε of one mechanism at one resolution. `cannot_win` decides with
much less work that a mechanism and a resolution need not be searched, because their errors would
exceed those of a release that is already known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from hushmeter.attack.base import Attacker
from hushmeter.attack.registry import attackers
from hushmeter.errors import InputError
from hushmeter.noise import find_kind
from hushmeter.privacy.accounting import change_odds, compose
from hushmeter.privacy.sensitivity import corner
from hushmeter.privacy.units import Unit, calibrate
from hushmeter.releases.view_plan import HOURLY_COST, ViewPlan, epsilon_of, plan_views
from hushmeter.scoring import score
from hushmeter.trace import SECONDS_PER_HOUR, Trace

if TYPE_CHECKING:
    from hushmeter.home import Home
    from hushmeter.noise.mechanism import Mechanism
    from hushmeter.releases.calendar import Calendar

LEAST_EPSILON, MOST_EPSILON = 5e-3, 20.0
ODDS_SLACK = 1e-3
"""The search stops if the odds are below the goal by at most this."""

FINE_GRID = "0.05"
"""Grid of readings that are longer than an hour [W]. Rounding to 1 W would add a fifth to the noise
of daily means, which a run moves by a few watts only."""

MARGIN = 0.01
"""Share by which the noise in `cannot_win` is wider than it must be. Rounding to whole grid steps
changes odds and standard deviations by less."""

FEWEST_STEPS = 8
"""Width of Gaussian noise from which the grid changes its odds by less than `MARGIN` [steps]."""


def best_odds(mechanism: Mechanism, unit: Unit) -> float:
    """Return the probability that the best attacker is right about the first change of a unit.

    Parameters
    ----------
    mechanism : Mechanism
        The noise.
    unit : Unit
        The unit of protection, with one change.
    """
    change = unit.changes[0]
    if unit.span == "reading":
        # One released value, during which the appliance is on from its beginning to its end.
        return compose(mechanism, [(change.power, 1)]).odds
    return change_odds(mechanism, change)


def measure_with(
    name: str, home: Home, hide: str, trace: Trace | None, seed: int
) -> Callable[[Mechanism, Unit], float]:
    """Return a function that measures the odds of an attacker on simulated releases.

    The odds are the balanced accuracy about one appliance. The attacker is trained on the true
    readings of the same trace and knows the noise distribution, but not which appliances are on at
    the first reading. On longer intervals the true state is the state of at least half of the
    interval.

    Parameters
    ----------
    name : str
        Name of a registered attacker.
    home : Home
        The home.
    hide : str
        The appliance.
    trace : Trace or None
        Readings with true states.
    seed : int
        Seed of the releases.

    Returns
    -------
    callable
        A function of mechanism and unit that returns the odds, at least 0.5.

    Raises
    ------
    InputError
        If there is no trace with true states.
    """
    if trace is None or trace.states is None:
        raise InputError("measuring an attacker's odds needs a trace with true states.")
    chosen = attackers[name]
    known = trace

    # The attacker learns once for each interval, and not again for every ε.
    @cache
    def learn(interval_s: float) -> tuple[Trace, Attacker]:
        coarse = known if interval_s == known.interval_s else known.coarsen(interval_s)
        return coarse, chosen(home).fit(coarse)

    def odds_of(mechanism: Mechanism, unit: Unit) -> float:
        coarse, attacker = learn(unit.window * unit.interval_s)
        noisy = coarse.replace_readings(mechanism.release(coarse.readings, rng=seed))
        states = attacker.knows(mechanism).predict(noisy, rng=seed)
        seen = score(states, coarse.truth(), names=home.names)[hide].balanced_accuracy
        return max(seen, 0.5)

    return odds_of


def calibrate_series(name: str, epsilon: float, unit: Unit, delta: float) -> Mechanism:
    """Calibrate the noise of a series; readings longer than an hour get a finer grid."""
    return calibrate(name, epsilon, unit, delta=delta, grid=_grid(unit))


def _grid(unit: Unit) -> str:
    """Return the grid of a series [W]."""
    coarse = unit.window * unit.interval_s <= SECONDS_PER_HOUR * (1 + 1e-9)
    return "1" if coarse else FINE_GRID


@lru_cache(maxsize=256)
def least_noise(
    name: str, unit: Unit, delta: float, max_odds: float
) -> tuple[Mechanism, float, float] | None:
    """Return `search_noise` for the best possible attacker.

    The results are kept, because their arguments hold no reading: searches for several purposes
    share most of their resolutions, and a page asks for the same ones again and again.
    """
    return search_noise(name, unit, delta, max_odds, best_odds)


def search_noise(
    name: str,
    unit: Unit,
    delta: float,
    max_odds: float,
    odds_of: Callable[[Mechanism, Unit], float],
) -> tuple[Mechanism, float, float] | None:
    """Find the noise of one mechanism with the largest ε that keeps the odds.

    Parameters
    ----------
    name : str
        Name of the mechanism.
    unit : Unit
        The unit of protection, with one change.
    delta : float
        δ of the Gaussian mechanism.
    max_odds : float
        Largest probability that the attacker is right.
    odds_of : callable
        The odds of the attacker, as a function of mechanism and unit.

    Returns
    -------
    tuple of Mechanism, float and float, or None
        The noise, its ε and the odds. If no ε keeps the odds, the noise with the smallest ε; None
        if no noise fits any grid.

    Notes
    -----
    The normal quantile of the odds grows nearly in proportion to ε, so a few proportional steps
    within a bracket find the largest ε.
    """
    from scipy.special import ndtri

    low, high = LEAST_EPSILON, MOST_EPSILON
    aim = max_odds - ODDS_SLACK / 2
    # No attacker of an ε-private unit is right more often than 1/(1 + e^(−ε)): start there.
    guess = math.log(aim / (1 - aim)) if aim > 0.5 else low
    best: tuple[Mechanism, float, float] | None = None
    while best is None or not max_odds - ODDS_SLACK <= best[2] <= max_odds:
        guess = guess if low < guess < high else math.sqrt(low * high)
        try:
            mechanism = calibrate_series(name, guess, unit, delta)
        except InputError:  # The noise is too wide for any grid: only a larger ε is possible.
            low = guess
        else:
            found = odds_of(mechanism, unit)
            if found <= max_odds or best is None or best[2] > max_odds:
                best = (mechanism, guess, found)
            low, high = (guess, high) if found <= max_odds else (low, guess)
            guess *= float(ndtri(aim) / ndtri(min(max(found, 0.5 + 1e-9), 1 - 1e-12)))
        if high / low < 1 + 1e-3:
            break
    return best


def cannot_win(name: str, unit: Unit, delta: float, max_odds: float, std: float) -> bool:
    """True if no noise of a mechanism with at most a given width keeps the odds.

    Parameters
    ----------
    name : str
        Name of the mechanism.
    unit : Unit
        The unit of protection, with one change.
    delta : float
        δ of the Gaussian mechanism.
    max_odds : float
        Largest probability that the best possible attacker is right.
    std : float
        Largest standard deviation of the noise of a released value that would be of use [W].

    Returns
    -------
    bool
        False also if this short look does not decide it.

    Notes
    -----
    *Any noise.* Let the change have the Euclidean length Δ, and let P and Q be the distributions
    of the released values, projected on its direction, without and with the change. Both have the
    standard deviation σ, and their means are Δ apart. With c halfway between the means, the
    inequality of Cauchy and Schwarz gives

        Δ² = (∫ (x − c)·(Q − P))² ≤ ∫ (x − c)²·(P + Q) · ∫ |Q − P| = (2σ² + Δ²/2)·2τ,

    where τ = 2·odds − 1 is at least the total variation of P and Q. So σ² ≥ Δ²·(1 − τ)/4τ.

    *Gaussian noise.* The odds are Φ(Δ/2σ).

    *Other noise.* The odds grow with ε and the width falls with it. If noise that
    is a little wider than `std` exceeds the odds, all narrower noise does.
    """
    change = unit.changes[0]
    length = change.watts * corner(change.full_values) * math.sqrt(change.places)
    shown = 2 * max_odds - 1
    if std < length * math.sqrt((1 - shown) / (4 * shown)):
        return True
    odds = find_kind(name).odds_at(length, std * (1 + MARGIN))
    if odds is not None:
        return std >= FEWEST_STEPS * float(_grid(unit)) and odds > max_odds
    try:
        return _exceeds(name, unit, delta, max_odds, std)
    except InputError:  # The noise is too wide for any grid.
        return False


def _exceeds(name: str, unit: Unit, delta: float, max_odds: float, std: float) -> bool:
    """Return True if noise a little wider than `std` exceeds the odds.

    The width falls with a power of ε that is one for small ε; the last two trials tell it.
    """
    wanted = std * (1 + MARGIN)
    epsilon, power, last = 1.0, 1.0, None
    for _ in range(6):
        mechanism = calibrate_series(name, epsilon, unit, delta)
        if mechanism.std >= std and epsilon == MOST_EPSILON:
            return True
        if wanted <= mechanism.std <= wanted * (1 + MARGIN):
            break
        place = math.log(epsilon), math.log(mechanism.std)
        if last is not None and last[0] != place[0]:
            power = max(0.1, (last[1] - place[1]) / (place[0] - last[0]))
        last = place
        epsilon *= (mechanism.std / (wanted * (1 + MARGIN / 2))) ** (1 / power)
        epsilon = min(epsilon, MOST_EPSILON)
        if epsilon < LEAST_EPSILON:
            return False
    return mechanism.std >= wanted and best_odds(mechanism, unit) > max_odds


def plan_for_odds(
    unit: Unit,
    calendar: Calendar,
    max_odds: float,
    delta: float = 1e-6,
    hourly_cost: float = HOURLY_COST,
) -> ViewPlan:
    """Calibrate a calendar release to the odds of the best attacker.

    Parameters
    ----------
    unit : Unit
        The unit of protection; its released values are the cells.
    calendar : Calendar
        The cells.
    max_odds : float
        Largest probability that the best attacker is right.
    delta : float
        δ of the promise.
    hourly_cost : float
        See `release_views`.

    Returns
    -------
    ViewPlan
        With the largest ε up to 20 that keeps the odds.

    Raises
    ------
    InputError
        If the noise is too wide for every grid.

    Notes
    -----
    The odds are Φ(μ/2) with μ² = 2ρ, so ρ = 2·Φ⁻¹(odds)² follows in closed form, and ε from ρ.
    """
    from scipy.special import ndtri

    aim = max_odds - ODDS_SLACK / 10
    while True:
        epsilon = min(MOST_EPSILON, epsilon_of(2 * float(ndtri(aim)) ** 2, delta))
        plan = plan_views(unit, calendar, epsilon=epsilon, delta=delta, hourly_cost=hourly_cost)
        if plan.odds <= max_odds:
            return plan
        # The grid is so coarse that the odds exceed those of continuous noise.
        aim -= plan.odds - max_odds + ODDS_SLACK / 10
