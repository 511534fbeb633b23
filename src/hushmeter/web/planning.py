"""Curves of an attacker's accuracy against ε, and advice from a wish to a release."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.advice.planner import FORMS, advise, public_facts
from hushmeter.advice.sentences import explain
from hushmeter.checks import FloatArray
from hushmeter.errors import InputError
from hushmeter.noise.mechanism import MAX_EPSILON
from hushmeter.privacy.meters import Metered
from hushmeter.theory.bounds import bound_curves, switch_limit
from hushmeter.theory.universal import mean_limit
from hushmeter.web import schemas
from hushmeter.web.releases import to_request
from hushmeter.web.views import finite

if TYPE_CHECKING:
    from hushmeter.home import Home
    from hushmeter.releases.request import Request
    from hushmeter.theory.bound import Bound
    from hushmeter.web.sessions import Session

Facts = tuple[Metered, tuple[str, ...], tuple[str, ...]]

LEAST_EPSILON = 1e-3
# Other noise than Laplace must be calibrated and summed for each ε separately, which takes time.
FEW_POINTS = 25


def find_bounds(given: schemas.BoundsRequest, session: Session | None) -> schemas.BoundsModel:
    """Compute how often an attacker names the switched appliances from one reading, against ε.

    The paper's bounds and the exact accuracy hold for Laplace noise with λ = Δ1/ε. For other
    noise only the limit of any attacker is known.
    """
    home, facts = schemas.to_home(given.home), _facts(given, session)[0]
    request = to_request(given.model_copy(update={"epsilon": MAX_EPSILON}))
    unit, laplace = request.unit(facts), request.resolve(facts).noise.paper_bounds
    points = given.points if laplace else min(given.points, FEW_POINTS)
    epsilon = np.geomspace(LEAST_EPSILON, MAX_EPSILON, points)
    curves = bound_curves(home, epsilon, sensitivity=unit.l1, max_switches=given.max_switches)
    lower, upper = curves.corrected.lower, curves.corrected.upper
    scale, limit = curves.scale, curves.limit
    if not laplace:
        scale, optimum = _other_noise(request, facts, home, epsilon)
        limit = switch_limit(optimum, 1 - curves.floor)
    return schemas.BoundsModel(
        unit=unit.sentence,
        epsilon=epsilon.tolist(),
        ln_inverse=(-np.log(epsilon)).tolist(),
        scale_w=_numbers(scale),
        exact=_numbers(curves.exact) if laplace else None,
        lower=_numbers(np.asarray(lower)) if laplace else None,
        upper=_numbers(np.asarray(upper)) if laplace else None,
        lower_vacuous=_vacuous(lower) if laplace else None,
        upper_vacuous=_vacuous(upper) if laplace else None,
        universal=_numbers(limit),
        floor=curves.floor,
    )


def find_advice(given: schemas.AdviseRequest, session: Session | None) -> schemas.AdviceModel:
    """Find the releases that meet a wish, cheapest first."""
    facts, forms, notes = _facts(given, session)
    advice = advise(
        to_request(given),
        facts,
        forms=forms,
        max_hourly_error=given.max_hourly_error,
        price_per_kwh=given.price_per_kwh,
    )
    return schemas.AdviceModel(
        goal=asdict(advice.goal),
        feasible=advice.feasible,
        options=[asdict(option) for option in advice.options],
        sentences=list(explain(advice)),
        notes=list(notes),
    )


def _facts(given: schemas.MeterRequest, session: Session | None) -> Facts:
    """Return what is public about the readings, the forms that fit them, and notes about both."""
    if session is None:
        return Metered(given.interval_s, zone=given.tz or "UTC"), FORMS, ()
    return public_facts(session.trace, session.zone_or(given.tz))


def _other_noise(
    request: Request, facts: Metered, home: Home, epsilon: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the scale [W] and the best accuracy of any attacker, averaged over the appliances.

    On and off are equally likely.
    """
    scale, optimum = np.full((2, epsilon.size), np.nan)
    for i, value in enumerate(epsilon.tolist()):
        # There is no value where the noise is too wide for any grid.
        with suppress(InputError):
            noise = request.with_changes(epsilon=value).resolve(facts).noise
            scale[i], optimum[i] = noise.scale, mean_limit(home, noise)
    return scale, optimum


def _vacuous(bound: Bound) -> list[bool]:
    """Return True where a bound is vacuous."""
    return [bool(value) for value in np.asarray(bound.vacuous).tolist()]


def _numbers(values: FloatArray) -> list[float | None]:
    """Return an array as JSON numbers; None where a value is not finite."""
    return [finite(value) for value in np.asarray(values, np.float64).tolist()]
