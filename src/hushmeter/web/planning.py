"""Curves of accuracy against ε, and advice."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.advice.planner import advise
from hushmeter.advice.sentences import explain
from hushmeter.checks import FloatArray
from hushmeter.errors import InputError
from hushmeter.noise.gaussian import unit_sigma
from hushmeter.noise.mechanism import MAX_EPSILON
from hushmeter.privacy.accounting import DELTA
from hushmeter.privacy.units import Unit, calibrate
from hushmeter.theory.bound import Bound
from hushmeter.theory.curves import BoundCurves, bound_curves, switch_limit
from hushmeter.theory.universal import gaussian_limit, mean_limit
from hushmeter.web import answers, requests
from hushmeter.web.homes import to_home
from hushmeter.web.views import find_unit, finite

if TYPE_CHECKING:
    from hushmeter.home import Home

LEAST_EPSILON = 1e-3
# The staircase is calibrated and summed for every ε on its own.
STAIRCASE_POINTS = 25


def find_bounds(request: requests.BoundsRequest) -> answers.BoundsModel:
    """Accuracy of telling, at one reading, which appliances switched, against ε.

    The paper's bounds and the exact accuracy hold for Laplace noise, λ = Δ1/ε; for other noise
    only the limit of any attacker is known.
    """
    home = to_home(request.home)
    unit = find_unit(request, home, request.interval_s)
    laplace = request.mechanism == "laplace"
    points = request.points
    if request.mechanism == "staircase":
        points = min(points, STAIRCASE_POINTS)
    epsilon = np.geomspace(LEAST_EPSILON, MAX_EPSILON, points)
    curves = bound_curves(home, epsilon, sensitivity=unit.l1, max_switches=request.max_switches)
    lower, upper = curves.corrected.lower, curves.corrected.upper
    scale, limit = curves.scale, curves.limit
    if not laplace:
        scale, optimum = _other_noise(request, home, unit, epsilon)
        limit = switch_limit(optimum, 1 - curves.floor)
    return answers.BoundsModel(
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


def find_advice(request: requests.AdviseRequest, interval_s: float) -> answers.AdviceModel:
    """The releases that keep an appliance hidden, cheapest first."""
    advice = advise(
        to_home(request.home),
        request.appliance,
        max_odds=request.max_odds,
        span=request.span,
        interval_s=interval_s,
        mechanisms=tuple(dict.fromkeys(request.mechanisms)),
        max_hourly_error=request.max_hourly_error,
        price_per_kwh=request.price_per_kwh,
    )
    return answers.AdviceModel(
        goal=asdict(advice.goal),
        feasible=advice.feasible,
        options=[asdict(option) for option in advice.options],
        sentences=list(explain(advice)),
    )


def _other_noise(
    request: requests.BoundsRequest, home: Home, unit: Unit, epsilon: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Scale [W] and optimum of any attacker for a prior of ½, mean over the appliances.

    Gaussian noise is taken as continuous: exact calibration moves σ by less than 1 % and takes a
    third of a second for every ε.
    """
    if request.mechanism == "gaussian":
        sigma = np.array([unit_sigma(e, DELTA, unit.touches > 1) for e in epsilon.tolist()])
        largest = np.array([[max(a.on_levels)] for a in home.appliances])
        return sigma * unit.l2, gaussian_limit(largest, sigma * unit.l2).mean(axis=0)
    scale, optimum = np.full((2, epsilon.size), np.nan)
    for i, value in enumerate(epsilon.tolist()):
        # Noise too wide for any grid has no value.
        with suppress(InputError):
            mechanism = calibrate(request.mechanism, value, unit, clamp=request.clamp)
            scale[i], optimum[i] = mechanism.scale, mean_limit(home, mechanism)
    return scale, optimum


def _vacuous(*found: Bound) -> list[bool]:
    """Where none of the bounds says anything."""
    both = np.logical_and.reduce([np.asarray(bound.vacuous) for bound in found])
    return [bool(value) for value in both.tolist()]


def _numbers(values: FloatArray) -> list[float | None]:
    return [finite(value) for value in np.asarray(values, np.float64).tolist()]


def _sentences(curves: BoundCurves, laplace: bool) -> list[str]:
    most = curves.max_switches
    switches = "one appliance switches" if most == 1 else f"{most} appliances switch"
    first = (
        f"How often an attacker names rightly, from one reading, which appliances switched, when "
        f"at most {switches}; “nothing switched” alone is right in {100 * curves.floor:.1f} of 100."
    )
    second = (
        "“Exact” is the paper's relaxed attacker; no attacker at all beats “universal”."
        if laplace
        else "The paper's bounds are for Laplace noise; no attacker at all beats “universal”."
    )
    return [first, second]
