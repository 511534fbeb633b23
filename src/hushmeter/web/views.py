"""What follows the slider: a simulated release, what an attacker sees in it, and what it costs."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.advice.sentences import explain
from hushmeter.checks import BoolArray
from hushmeter.errors import DataError, InputError
from hushmeter.learn.inspection import find_regime
from hushmeter.noise.parameters import clamp_bounds
from hushmeter.privacy.units import Unit, calibrate, resolve_unit
from hushmeter.releases.series import release
from hushmeter.scoring import Score, score
from hushmeter.web import answers, requests
from hushmeter.web.costs import find_cost
from hushmeter.web.homes import to_home
from hushmeter.web.thin import runs, thin
from hushmeter.web.training import NOT_LIVE, FitCache, Trained, select_truth, train
from hushmeter.web.visibility import visibility_interval

if TYPE_CHECKING:
    from hushmeter.home import Home
    from hushmeter.noise.mechanism import Mechanism
    from hushmeter.releases.series import Release
    from hushmeter.trace import Trace
    from hushmeter.web.sessions import Session
    from hushmeter.web.settings import Settings

SIMULATION_WORDS = "A simulation, not to be published. "


@dataclass(frozen=True)
class Sight:
    """What an attacker saw.

    Attributes
    ----------
    states : array, shape (T, N)
    known : tuple of int
        Columns whose truth is known.
    truth : array, shape (T, len(known))
    score : Score or None
        Over the known columns.
    trained_on : str
    """

    states: BoolArray
    known: tuple[int, ...]
    truth: BoolArray
    score: Score | None
    trained_on: str


def make_view(
    request: requests.ViewRequest, session: Session, fits: FitCache, settings: Settings
) -> answers.View:
    """Release with a seed, attack, score and explain one stretch of a trace.

    The numbers are those of `release`, `attackers[…].predict` and `score` with the same seed.
    """
    began = time.perf_counter()
    home = None if request.home is None else to_home(request.home)
    first, stop = _stretch(request, len(session.trace), settings)
    trace = session.trace[first:stop]
    unit = find_unit(request, home, trace.interval_s)
    mechanism = calibrate(request.mechanism, request.epsilon, unit, clamp=request.clamp)
    # Without the home, the receipt has no account of whole days, which takes seconds.
    released = release(trace, mechanism, unit, rng=request.seed)
    seen = trace if request.every is None else trace.coarsen(request.every)
    sight = None
    if home is not None:
        trained = _train(request, home, session, fits, first, stop)
        sight = _attack(trained, home, seen, released, mechanism, request.seed)
    cost = find_cost(trace, released.trace, mechanism, request.price_per_kwh, request.currency)
    return answers.View(
        unit=unit.sentence,
        epsilon=request.epsilon,
        delta=mechanism.delta,
        scale_w=mechanism.scale,
        start=first,
        length=stop - first,
        interval_s=released.trace.interval_s,
        reveals=find_regime(released.trace.interval_s)[1],
        metered=thin(trace),
        released=thin(released.trace),
        strips=None if sight is None or home is None else _strips(sight, home, seen),
        guesses_only=sight is not None and not sight.known,
        attacker=request.attacker,
        trained_on=None if sight is None else sight.trained_on,
        visibility=None if sight is None else _visibility(sight),
        score=None if sight is None else _score(sight.score),
        sentences=_sentences(released, sight, cost),
        cost=cost,
        seed=request.seed,
        simulation=True,
        seconds=time.perf_counter() - began,
    )


def find_unit(request: requests.UnitRequest, home: Home | None, interval_s: float) -> Unit:
    """The unit of protection that a request names."""
    return resolve_unit(
        request.protect,
        request.span,
        interval_s=interval_s,
        home=home,
        appliance=request.appliance,
        clamp=clamp_bounds(request.clamp),
        watts=request.watts,
        every=request.every,
    )


def _stretch(request: requests.ViewRequest, count: int, settings: Settings) -> tuple[int, int]:
    """First reading shown and the one after the last."""
    if request.start >= count:
        raise DataError(f"start is {request.start}, but the trace has {count} readings.")
    rest = count - request.start
    wanted = min(rest, settings.view_readings) if request.length is None else request.length
    if wanted > settings.view_readings:
        raise InputError(f"length must be at most {settings.view_readings} readings.")
    return request.start, request.start + min(wanted, rest)


def _train(
    request: requests.ViewRequest,
    home: Home,
    session: Session,
    fits: FitCache,
    first: int,
    stop: int,
) -> Trained:
    """The attacker, fitted now or before."""
    name, every = request.attacker, request.every
    if name in NOT_LIVE:
        raise InputError(f"the {name} attacker trains too long for the page.")
    key = (session.source, home, name, first, stop, every)
    return fits.get(key, lambda: train(name, home, session, first, stop, every))


def _attack(
    trained: Trained,
    home: Home,
    seen: Trace,
    released: Release,
    mechanism: Mechanism,
    seed: int,
) -> Sight:
    """Attack the released readings; score the appliances whose truth is known."""
    labelled = select_truth(seen, home)
    start = None if labelled is None else labelled.truth()[0]
    attacker = trained.attacker.knows(mechanism)
    states = attacker.predict(released.trace, initial_state=start, rng=seed)
    known = tuple(
        i for i, name in enumerate(home.names) if seen.states is not None and _named(seen, name)
    )
    if not known:
        nothing = np.zeros((len(seen), 0), np.bool_)
        return Sight(states, (), nothing, None, trained.trained_on)
    assert seen.names is not None
    truth = seen.truth()[:, [seen.names.index(home.names[i]) for i in known]]
    found = score(states[:, known], truth, names=[home.names[i] for i in known])
    return Sight(states, known, truth, found, trained.trained_on)


def _named(trace: Trace, name: str) -> bool:
    return name in (trace.names or ())


def _strips(sight: Sight, home: Home, seen: Trace) -> list[answers.Strip]:
    strips = []
    for i, name in enumerate(home.names):
        guess = sight.states[:, i]
        truth = sight.truth[:, sight.known.index(i)] if i in sight.known else None
        strips.append(
            answers.Strip(
                appliance=name,
                truth=None if truth is None else runs(truth, seen),
                guess=runs(guess, seen),
                wrong=None if truth is None else runs(guess != truth, seen),
            )
        )
    return strips


def _visibility(sight: Sight) -> list[answers.Visibility] | None:
    if sight.score is None:
        return None
    rows = []
    for column, (i, seen) in enumerate(zip(sight.known, sight.score.per_appliance, strict=True)):
        low, high = visibility_interval(sight.states[:, i], sight.truth[:, column])
        rows.append(
            answers.Visibility(
                appliance=seen.name,
                accuracy=seen.alpha,
                floor=seen.floor,
                visibility=finite(seen.visibility),
                low=finite(low),
                high=finite(high),
                odds=(round(100 * seen.alpha, 1), round(100 * seen.floor, 1)),
            )
        )
    return rows


def _score(found: Score | None) -> answers.ScoreModel | None:
    if found is None:
        return None
    return answers.ScoreModel(
        alpha=found.alpha,
        alpha_floor=found.alpha_floor,
        f1=finite(found.f1),
        balanced_accuracy=finite(found.balanced_accuracy),
    )


def _sentences(released: Release, sight: Sight | None, cost: answers.CostModel) -> list[str]:
    """The unit of protection first, then the odds, then the cost."""
    promise = explain(released)[0].removeprefix(SIMULATION_WORDS)
    odds = () if sight is None or sight.score is None else explain(sight.score)
    return [promise, *odds, *cost.sentences]


def finite(value: float) -> float | None:
    """The number, or None where there is none."""
    return value if math.isfinite(value) else None
