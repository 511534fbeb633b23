"""Curves of an attacker's accuracy against ε, and advice from a goal to a release."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.advice.hiding import compare_plan, plan_to_hide
from hushmeter.advice.planner import LONG_RESOLUTIONS_S, RESOLUTIONS_S, advise
from hushmeter.advice.sentences import explain
from hushmeter.checks import FloatArray
from hushmeter.errors import InputError
from hushmeter.noise import find_kind
from hushmeter.noise.mechanism import MAX_EPSILON
from hushmeter.privacy.units import Unit, calibrate
from hushmeter.theory.bound import Bound
from hushmeter.theory.bounds import BoundCurves, bound_curves, switch_limit
from hushmeter.theory.universal import mean_limit
from hushmeter.web import schemas
from hushmeter.web.releases import find_unit, hidden_home
from hushmeter.web.views import finite

if TYPE_CHECKING:
    from hushmeter.home import Home
    from hushmeter.trace import Trace

INTERVALS_S = RESOLUTIONS_S + LONG_RESOLUTIONS_S
"""Lengths of released readings to choose from. [s]"""
LEAST_EPSILON = 1e-3
# Other noise than Laplace must be calibrated and summed for each ε separately, which takes time.
FEW_POINTS = 25


def find_bounds(request: schemas.BoundsRequest, trace: Trace | None = None) -> schemas.BoundsModel:
    """Compute how often an attacker names the switched appliances from one reading, against ε.

    The paper's bounds and the exact accuracy hold for Laplace noise with λ = Δ1/ε. For other
    noise only the limit of any attacker is known.

    Parameters
    ----------
    request : BoundsRequest
    trace : Trace, optional
        The readings to be released. Their interval, and how their meter rounds, replace
        `request.interval_s`.

    Returns
    -------
    BoundsModel
    """
    home = schemas.to_home(request.home)
    interval_s = request.interval_s if trace is None else trace.interval_s
    unit = find_unit(request, home, interval_s, trace)
    laplace = find_kind(request.mechanism).paper_bounds
    points = request.points if laplace else min(request.points, FEW_POINTS)
    epsilon = np.geomspace(LEAST_EPSILON, MAX_EPSILON, points)
    curves = bound_curves(home, epsilon, sensitivity=unit.l1, max_switches=request.max_switches)
    lower, upper = curves.corrected.lower, curves.corrected.upper
    scale, limit = curves.scale, curves.limit
    if not laplace:
        scale, optimum = _other_noise(request, home, unit, epsilon)
        limit = switch_limit(optimum, 1 - curves.floor)
    return schemas.BoundsModel(
        unit=unit.sentence,
        epsilon=epsilon.tolist(),
        ln_inverse=(-np.log(epsilon)).tolist(),
        scale_w=_numbers(scale),
        exact=_numbers(curves.exact) if laplace else None,
        lower=_numbers(np.asarray(lower)) if laplace else None,
        upper=_numbers(np.asarray(upper)) if laplace else None,
        vacuous=_vacuous(lower, upper) if laplace else None,
        lower_vacuous=_vacuous(lower) if laplace else None,
        upper_vacuous=_vacuous(upper) if laplace else None,
        universal=_numbers(limit),
        floor=curves.floor,
        max_switches=curves.max_switches,
        sentences=_sentences(curves, laplace),
    )


def find_advice(request: schemas.AdviseRequest, trace: Trace | None = None) -> schemas.AdviceModel:
    """Find the releases that meet a goal, cheapest first.

    Parameters
    ----------
    request : AdviseRequest
    trace : Trace, optional
        The readings to be released. Their interval, and how their meter rounds, replace
        `request.interval_s`.

    Returns
    -------
    AdviceModel
    """
    advice = advise(
        schemas.to_home(request.home),
        request.appliance,
        max_odds=request.max_odds,
        span=request.span,
        interval_s=request.interval_s,
        trace=trace,
        forms=("series",),
        mechanisms=tuple(dict.fromkeys(request.mechanisms)),
        max_hourly_error=request.max_hourly_error,
        price_per_kwh=request.price_per_kwh,
    )
    return schemas.AdviceModel(
        goal=asdict(advice.goal),
        feasible=advice.feasible,
        options=[asdict(option) for option in advice.options],
        sentences=list(explain(advice)),
    )


def find_plan(request: schemas.PlanRequest, trace: Trace) -> schemas.PlanModel:
    """Find the release that hides the chosen appliances at the least cost for a purpose.

    Parameters
    ----------
    request : PlanRequest
    trace : Trace
        The readings to be released. The plan uses their interval, their number and how their
        meter rounds. Only the sentences about the cost, which are for the household, compare it
        with their values.

    Returns
    -------
    PlanModel

    Raises
    ------
    InputError
        If the home lacks an appliance or the length of its runs, or no noise is wide enough.
    """
    home = hidden_home(schemas.to_home(request.home), request.hide)
    hide = partial(
        plan_to_hide,
        home.appliances[0],
        request.max_odds,
        request.purpose,
        interval_s=trace.interval_s,
        home=home,
        span="run",
        metering=trace.metering,
        readings=len(trace),
        only_best=True,
    )
    plan = hide()
    # A short file has no complete day: then the longest mean that fits twice is released.
    longest = trace.interval_s * len(trace) / 2
    if plan.option.every_s > longest:
        shorter = [s for s in INTERVALS_S if trace.interval_s < s <= longest]
        plan = hide(every=float(max(shorter, default=trace.interval_s)))
    if not plan.advice.feasible:
        raise InputError(f"nothing can be released: {explain(plan.advice)[0]}")
    best = plan.option
    # The first sentence about the own use repeats the figure that the page shows.
    return schemas.PlanModel(
        epsilon=best.epsilon,
        mechanism=best.mechanism,
        every_s=best.every_s,
        odds=best.odds,
        sentences=[*plan.promise, *compare_plan(plan, trace)[2:]],
    )


def _other_noise(
    request: schemas.BoundsRequest, home: Home, unit: Unit, epsilon: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the scale [W] and the best accuracy of any attacker, averaged over the appliances.

    On and off are equally likely.
    """
    scale, optimum = np.full((2, epsilon.size), np.nan)
    for i, value in enumerate(epsilon.tolist()):
        # There is no value where the noise is too wide for any grid.
        with suppress(InputError):
            mechanism = calibrate(request.mechanism, value, unit, clamp=request.clamp)
            scale[i], optimum[i] = mechanism.scale, mean_limit(home, mechanism)
    return scale, optimum


def _vacuous(*found: Bound) -> list[bool]:
    """Return True where all of the bounds are vacuous."""
    both = np.logical_and.reduce([np.asarray(bound.vacuous) for bound in found])
    return [bool(value) for value in both.tolist()]


def _numbers(values: FloatArray) -> list[float | None]:
    """Return an array as JSON numbers; None where a value is not finite."""
    return [finite(value) for value in np.asarray(values, np.float64).tolist()]


def _sentences(curves: BoundCurves, laplace: bool) -> list[str]:
    """Explain the curves in two sentences."""
    most = curves.max_switches
    switches = "one appliance switches" if most == 1 else f"{most} appliances switch"
    first = (
        "The curves show how often an attacker correctly names, from one reading, which "
        f"appliances switched, if at most {switches}. The guess “nothing switched” is correct "
        f"{100 * curves.floor:.1f} times out of 100."
    )
    second = (
        "The exact curve is that of the paper's relaxed attacker. No attacker at all is better "
        "than the universal limit."
        if laplace
        else "The paper's bounds hold for Laplace noise only. No attacker at all is better than "
        "the universal limit."
    )
    return [first, second]
