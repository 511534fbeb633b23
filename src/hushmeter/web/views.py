"""The view that follows the slider: a simulated release, an attack on it, and its cost."""

from __future__ import annotations

import math
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from hushmeter.advice.sentences import SIMULATION_WARNING, explain
from hushmeter.checks import FloatArray
from hushmeter.errors import DataError, InputError
from hushmeter.learn.inspection import find_regime
from hushmeter.privacy.units import calibrate
from hushmeter.releases.cost import expect_cost
from hushmeter.releases.series import release
from hushmeter.trace import JOULES_PER_KWH
from hushmeter.web import schemas
from hushmeter.web.attacks import (
    NOT_LIVE,
    AttackResult,
    FitCache,
    Trained,
    attack,
    train,
    visibility_interval,
)
from hushmeter.web.charts import POINTS, curve_rows, milliseconds, on_stretches
from hushmeter.web.releases import find_parameters, find_unit, learnt_here

if TYPE_CHECKING:
    from hushmeter.home import Home
    from hushmeter.noise.mechanism import Mechanism
    from hushmeter.releases.series import Release
    from hushmeter.scoring import Score
    from hushmeter.trace import Trace
    from hushmeter.web.server import Settings
    from hushmeter.web.sessions import Session


def make_view(
    request: schemas.ViewRequest, session: Session, fits: FitCache, settings: Settings
) -> schemas.View:
    """Release one stretch of a trace with a seed, attack it, score it and explain it.

    The numbers are those of `release`, `Attacker.predict` and `score` with the same seed.

    Parameters
    ----------
    request : ViewRequest
    session : Session
    fits : FitCache
        Attackers that were fitted before.
    settings : Settings
        The limits of the server.

    Returns
    -------
    View

    Raises
    ------
    InputError
        If the request is not valid for these readings.
    DataError
        If the stretch lies outside the trace.
    """
    began = time.perf_counter()
    home = None if request.home is None else schemas.to_home(request.home)
    first, stop = _stretch(request, len(session.trace), settings)
    trace = session.trace[first:stop]
    unit = find_unit(request, home, trace.interval_s, session.trace)
    mechanism = calibrate(request.mechanism, request.epsilon, unit, clamp=request.clamp)
    # Without the home, the receipt has no account of whole days, which takes seconds.
    released = release(trace, mechanism, unit, rng=request.seed)
    seen = trace if request.every is None else trace.coarsen(request.every)
    found = None
    if home is not None:
        trained = _train(request, home, session, fits, first, stop)
        found = attack(trained, home, seen, released.trace, mechanism, request.seed)
    cost = find_cost(trace, released.trace, mechanism, request.price_per_kwh, request.currency)
    parameters = find_parameters(unit, home, session.trace)
    return schemas.View(
        unit=unit.sentence,
        epsilon=request.epsilon,
        delta=mechanism.delta,
        scale_w=mechanism.scale,
        start=first,
        length=stop - first,
        interval_s=released.trace.interval_s,
        reveals=find_regime(released.trace.interval_s)[1],
        metered=curve_rows(trace),
        released=curve_rows(released.trace),
        strips=None if found is None or home is None else _strips(found, home, seen),
        guesses_only=found is not None and not found.known,
        attacker=request.attacker,
        trained_on=None if found is None else found.trained_on,
        visibility=None if found is None else _visibility(found),
        score=None if found is None else _score(found.score),
        sentences=_sentences(released, found, cost),
        cost=cost,
        parameters=parameters,
        needs_consent=bool(learnt_here(parameters)),
        seed=request.seed,
        simulation=True,
        seconds=time.perf_counter() - began,
    )


def find_cost(
    trace: Trace, released: Trace, mechanism: Mechanism, price_per_kwh: float, currency: str
) -> schemas.CostModel:
    """Compare energy, bill, hourly means and peak of a simulated release with the true ones.

    Parameters
    ----------
    trace, released : Trace
        The metered and the released readings.
    mechanism : Mechanism
    price_per_kwh : float
        Price of energy. [currency/kWh]
    currency : str
        Name of the currency, which is only repeated in the answer.

    Returns
    -------
    CostModel
    """
    expected = expect_cost(mechanism, released.interval_s, price_per_kwh=price_per_kwh)
    seen = trace if len(released) == len(trace) else trace.coarsen(released.interval_s)
    true, noisy = seen.energy_kwh, released.energy_kwh
    spread = mechanism.std * math.sqrt(len(released)) * released.interval_s / JOULES_PER_KWH
    hours = seen.hourly()
    true_w, noisy_w = hours.readings, released.hourly().readings
    starts = milliseconds(hours).tolist()
    hourly = list(zip(starts, _rounded(true_w), _rounded(noisy_w), strict=True))
    return schemas.CostModel(
        hourly=hourly[:POINTS],
        kwh=schemas.Amount(true=true, released=noisy, error_sd=spread),
        bill=schemas.Bill(
            true=true * price_per_kwh,
            released=noisy * price_per_kwh,
            error_sd=spread * price_per_kwh,
            price_per_kwh=price_per_kwh,
            currency=currency,
        ),
        peak=schemas.Peak(true=float(true_w.max()), released=float(noisy_w.max())),
        expected=asdict(expected),
        sentences=list(explain(expected)),
    )


def finite(value: float) -> float | None:
    """Return the number, or None for NaN and infinity, which JSON does not have."""
    return value if math.isfinite(value) else None


def _stretch(request: schemas.ViewRequest, count: int, settings: Settings) -> tuple[int, int]:
    """Return the positions of the first reading shown and of the one after the last."""
    if request.start >= count:
        raise DataError(
            f"start must be below the number of readings, {count}, but it is {request.start}."
        )
    rest = count - request.start
    wanted = min(rest, settings.view_readings) if request.length is None else request.length
    if wanted > settings.view_readings:
        raise InputError(f"length must be at most {settings.view_readings} readings.")
    return request.start, request.start + min(wanted, rest)


def _train(
    request: schemas.ViewRequest,
    home: Home,
    session: Session,
    fits: FitCache,
    first: int,
    stop: int,
) -> Trained:
    """Return the attacker, fitted now or before."""
    name, every = request.attacker, request.every
    if name in NOT_LIVE:
        raise InputError(f"the page does not offer the {name} attacker: {NOT_LIVE[name]}.")
    key = (session.source, home, name, first, stop, every)
    return fits.get(key, lambda: train(name, home, session, first, stop, every))


def _strips(found: AttackResult, home: Home, seen: Trace) -> list[schemas.Strip]:
    """Return one strip of on and off for each appliance of the home."""
    strips = []
    for i, name in enumerate(home.names):
        guess = found.states[:, i]
        truth = found.truth[:, found.known.index(i)] if i in found.known else None
        strips.append(
            schemas.Strip(
                appliance=name,
                truth=None if truth is None else on_stretches(truth, seen),
                guess=on_stretches(guess, seen),
                wrong=None if truth is None else on_stretches(guess != truth, seen),
            )
        )
    return strips


def _visibility(found: AttackResult) -> list[schemas.Visibility] | None:
    """Return the visibility of every appliance whose truth is known."""
    if found.score is None:
        return None
    rows = []
    for column, (i, one) in enumerate(zip(found.known, found.score.per_appliance, strict=True)):
        low, high = visibility_interval(found.states[:, i], found.truth[:, column])
        rows.append(
            schemas.Visibility(
                appliance=one.name,
                accuracy=one.alpha,
                floor=one.floor,
                visibility=finite(one.visibility),
                low=finite(low),
                high=finite(high),
                odds=(round(100 * one.alpha, 1), round(100 * one.floor, 1)),
            )
        )
    return rows


def _score(found: Score | None) -> schemas.ScoreModel | None:
    """Return the score of all appliances together as JSON."""
    if found is None:
        return None
    return schemas.ScoreModel(
        alpha=found.alpha,
        alpha_floor=found.alpha_floor,
        f1=finite(found.f1),
        balanced_accuracy=finite(found.balanced_accuracy),
    )


def _sentences(released: Release, found: AttackResult | None, cost: schemas.CostModel) -> list[str]:
    """Return sentences about the unit of protection, then the odds, then the cost."""
    promise = explain(released)[0].removeprefix(f"{SIMULATION_WARNING} ")
    odds = () if found is None or found.score is None else explain(found.score)
    return [promise, *odds, *cost.sentences]


def _rounded(values: FloatArray) -> list[float]:
    return [round(value, 1) for value in values.tolist()]
