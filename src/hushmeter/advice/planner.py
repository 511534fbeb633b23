"""The ε that meets a goal, and its price.

“Nobody may be right about my kettle more than 60 times of 100”: this is a goal for the odds of the
best attacker. Many releases meet it: coarser readings with little noise, fine readings with much.
For every resolution and mechanism the search finds the largest ε, hence the least noise, that
keeps the odds, and ranks what is left by the error of the hourly mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from hushmeter.attack.registry import attackers
from hushmeter.checks import one_of, positive, whole
from hushmeter.errors import InputError
from hushmeter.home import Home
from hushmeter.noise.mechanism import MECHANISMS
from hushmeter.privacy.accounting import compose_run
from hushmeter.privacy.units import SPANS, Unit, calibrate, resolve_unit
from hushmeter.releases.cost import PRICE_PER_KWH, Cost, expect_cost
from hushmeter.scoring import score
from hushmeter.trace import Trace

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism

RESOLUTIONS_S = (60, 300, 900, 1800, 3600)
LEAST_EPSILON, MOST_EPSILON = 5e-3, 20.0
# The odds are met from below to this; the search then stops.
ODDS_SLACK = 1e-3
NEAR_A_COIN = 0.51


@dataclass(frozen=True)
class Goal:
    """What must stay hidden.

    Attributes
    ----------
    appliance : str
    max_odds : float
        How often, at most, the best attacker may be right about it, on and off equally likely.
    span : {"reading", "run", "day"}
        Over what: one released reading, one run, or one day of it.
    max_hourly_error : float or None
        The largest error of the hourly mean [W] that is acceptable.
    """

    appliance: str
    max_odds: float
    span: str
    max_hourly_error: float | None = None


@dataclass(frozen=True)
class Option:
    """One way to release.

    Attributes
    ----------
    mechanism : str
    every_s : float
        Interval of the released readings [s].
    epsilon : float
        Of the unit of protection.
    odds : float
        How often the best attacker is right about the goal's appliance over its span.
    scale : float
        Of the noise [W].
    cost : Cost
    """

    mechanism: str
    every_s: float
    epsilon: float
    odds: float
    scale: float
    cost: Cost


@dataclass(frozen=True)
class Advice:
    """The answer to a goal.

    Attributes
    ----------
    goal : Goal
    feasible : bool
    options : tuple of Option
        What meets the goal, cheapest first. For an infeasible goal: what comes nearest to it.
    """

    goal: Goal
    feasible: bool
    options: tuple[Option, ...]

    @property
    def best(self) -> Option:
        """The cheapest option, or the nearest one where the goal is infeasible."""
        return self.options[0]


def advise(
    home: Home,
    hide: str,
    *,
    max_odds: float = 0.6,
    span: str | None = None,
    run: int | None = None,
    interval_s: float = 6.0,
    mechanisms: Sequence[str] = MECHANISMS,
    delta: float = 1e-6,
    max_hourly_error: float | None = None,
    price_per_kwh: float = PRICE_PER_KWH,
    attacker: str | None = None,
    trace: Trace | None = None,
    seed: int = 0,
) -> Advice:
    """Search resolution × mechanism × ε for the releases that keep an appliance hidden.

    Parameters
    ----------
    home : Home
    hide : str
        The appliance.
    max_odds : float
        How often, at most, the best attacker may be right; a coin is right half of the time.
    span : {"reading", "run", "day"}, optional
        "run" where the length of a run is known, otherwise "reading".
    run : int, optional
        Length of a run in metered readings, instead of the home's `run_s`.
    interval_s : float
        Length of a metered reading [s].
    mechanisms : sequence of str
    delta : float
        δ of the Gaussian mechanism.
    max_hourly_error : float, optional
        [W]
    price_per_kwh : float
    attacker : str, optional
        Go by the odds that this attacker reaches on simulated releases of `trace`, moment by
        moment, instead of the best possible ones. It is a weaker promise: a better one may exist.
    trace : Trace, optional
        Readings with their truth, for `attacker`; its interval replaces `interval_s`.
    seed : int
        Of those simulations.
    """
    interval_s = interval_s if trace is None else trace.interval_s
    interval_s = positive("interval_s", interval_s)
    member = home.appliances[home.index(hide)]
    if run is not None:
        member = replace(member, run_s=whole("run", run) * interval_s)
    span = span or ("reading" if member.run_s is None else "run")
    one_of("span", span, SPANS)
    if max_hourly_error is not None:
        max_hourly_error = positive("max_hourly_error", max_hourly_error)
    delta, wanted = _share("delta", delta), _names(mechanisms)
    goal = Goal(hide, _share("max_odds", max_odds), span, max_hourly_error)
    small = Home([member], home.tolerance)
    odds_of = best_odds if attacker is None else measure_with(attacker, home, hide, trace, seed)
    # Nobody can be held below a coin: answer with what comes near it.
    reachable = replace(goal, max_odds=max(goal.max_odds, NEAR_A_COIN))
    options = []
    for name in wanted:
        for every in _resolutions(interval_s):
            unit = resolve_unit(span=span, interval_s=interval_s, home=small, every=every)
            build = partial(_build, name, unit, delta)
            options.append(_search(build, odds_of, unit, reachable, price_per_kwh))
    found = [option for option in options if option is not None]
    if not found:
        raise InputError(f"the noise that hides the {hide} is too wide for any grid.")
    return _rank(goal, found)


def best_odds(mechanism: Mechanism, unit: Unit) -> float:
    """How often the best attacker is right about a unit's one change."""
    change = unit.changes[0]
    # A reading is a released one, in which the appliance is on from beginning to end.
    length = change.window if unit.span == "reading" else change.readings
    return compose_run(mechanism, change.watts, length, change.window).odds


def measure_with(
    name: str, home: Home, hide: str, trace: Trace | None, seed: int
) -> Callable[[Mechanism, Unit], float]:
    """Odds as measured: the balanced accuracy of an attacker on simulated releases.

    The attacker is trained on the true readings of the same trace and knows the noise
    distribution. On longer intervals the true state is the state of at least half of the interval.
    """
    if trace is None or trace.states is None:
        raise InputError("an attacker's odds need a trace with true states to measure them on.")
    chosen = attackers[name]
    known = trace

    def odds_of(mechanism: Mechanism, unit: Unit) -> float:
        coarse = known if unit.window == 1 else known.coarsen(unit.window * unit.interval_s)
        noisy = coarse.replace_readings(mechanism.release(coarse.readings, rng=seed))
        attacker = chosen(home).fit(coarse).knows(mechanism)
        states = attacker.predict(noisy, initial_state=coarse.truth()[0], rng=seed)
        seen = score(states, coarse.truth(), names=home.names)[hide].balanced_accuracy
        return max(seen, 0.5)

    return odds_of


def _search(
    build: Callable[[float], Mechanism],
    odds_of: Callable[[Mechanism, Unit], float],
    unit: Unit,
    goal: Goal,
    price_per_kwh: float,
) -> Option | None:
    """The largest ε that keeps the odds, or the smallest there is; None if no noise fits.

    The normal quantile of the odds grows nearly in proportion to ε, so a few proportional steps,
    kept inside a bracket, find it.
    """
    from scipy.special import ndtri

    low, high = LEAST_EPSILON, MOST_EPSILON
    aim = goal.max_odds - ODDS_SLACK / 2
    # No attacker of an ε-private unit beats 1/(1 + e^(−ε)): start there.
    guess = math.log(aim / (1 - aim)) if aim > 0.5 else low
    best: tuple[Mechanism, float, float] | None = None
    while best is None or not goal.max_odds - ODDS_SLACK <= best[2] <= goal.max_odds:
        guess = guess if low < guess < high else math.sqrt(low * high)
        try:
            mechanism = build(guess)
        except InputError:  # noise too wide for any grid: only a larger ε is left
            low = guess
        else:
            found = odds_of(mechanism, unit)
            if found <= goal.max_odds or best is None or best[2] > goal.max_odds:
                best = (mechanism, guess, found)
            low, high = (guess, high) if found <= goal.max_odds else (low, guess)
            guess *= float(ndtri(aim) / ndtri(min(max(found, 0.5 + 1e-9), 1 - 1e-12)))
        if high / low < 1 + 1e-3:
            break
    if best is None:
        return None
    mechanism, epsilon, odds = best
    every = unit.window * unit.interval_s
    cost = expect_cost(mechanism, every, price_per_kwh=price_per_kwh)
    return Option(mechanism.name, every, epsilon, odds, mechanism.scale, cost)


def _rank(goal: Goal, options: list[Option]) -> Advice:
    """Cheapest first; for an infeasible goal, nearest first."""
    met = [option for option in options if option.odds <= goal.max_odds]
    limit = goal.max_hourly_error
    if limit is not None:
        met = [option for option in met if option.cost.hourly_w <= limit]
    if met:
        return Advice(goal, True, tuple(sorted(met, key=lambda o: (o.cost.hourly_w, o.every_s))))
    near = sorted(options, key=lambda o: (round(o.odds, 2), o.cost.hourly_w))
    return Advice(goal, False, tuple(near))


def _build(name: str, unit: Unit, delta: float, epsilon: float) -> Mechanism:
    return calibrate(name, epsilon, unit, delta=delta)


def _resolutions(interval_s: float) -> list[float]:
    """As metered, and every longer step that is a whole multiple of it."""
    return [interval_s] + [
        float(every)
        for every in RESOLUTIONS_S
        if every > interval_s and abs(every / interval_s - round(every / interval_s)) < 1e-9
    ]


def _names(mechanisms: Sequence[str]) -> list[str]:
    names = [mechanisms] if isinstance(mechanisms, str) else list(mechanisms)
    if not names:
        raise InputError(f"mechanisms must name at least one of {', '.join(MECHANISMS)}.")
    return [one_of("mechanism", name, MECHANISMS) for name in names]


def _share(name: str, value: float) -> float:
    if not 0 < positive(name, value) < 1:
        raise InputError(f"{name} must lie between 0 and 1, got {value}.")
    return float(value)
