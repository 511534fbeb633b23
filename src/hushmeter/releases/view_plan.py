r"""The noise of a calendar release: sensitivities of its tables, and the shares of the budget.

*Sensitivity.* `hushmeter.privacy.tables` bounds how far a change moves the sums of each table.

*Privacy.* Discrete Gaussian noise is ρ-concentrated differentially private with ρ = s²/2σ², and the
ρ of independent tables add up [1]_: ρ = ½·Σ_j s_j²/σ_j². The shares a_j = s_j²/(σ_j²·2ρ) divide the
budget among the tables.

*Shares.* `divide_budget` minimises the sum of the logarithms of the variances of a day, of a
typical hour of the day and of the month, while the error of an hour stays below `hourly_cost` times
the error of a release of the hours alone.

References
----------
.. [1] C. Canonne, G. Kamath, T. Steinke, "The discrete Gaussian for differential privacy", 2020.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, positive
from hushmeter.errors import InputError
from hushmeter.noise.gaussian import concentrated_epsilon, unit_sigma
from hushmeter.noise.parameters import Exact, coarser, exact
from hushmeter.noise.samplers import gaussian_fits
from hushmeter.privacy.tables import sensitivity
from hushmeter.releases.cost import DAYS_PER_MONTH
from hushmeter.releases.least_squares import complete_variances

if TYPE_CHECKING:
    from hushmeter.privacy.sensitivity import Change
    from hushmeter.privacy.units import Unit
    from hushmeter.releases.calendar import Calendar

HOURLY_COST = 1.10
SMALLEST_SHARE = 0.01
"""A table whose best share is smaller is not published."""

SHORTEST_MONTH = 28
"""Days of the shortest month."""


def view_sensitivities(changes: Sequence[Change], calendar: Calendar, grid: Fraction) -> FloatArray:
    """Largest changes of cells, days, hours of the day and totals [grid steps], shape (4,)."""
    # The longest change comes first: the patterns of its windows serve the others.
    ordered = sorted(changes, key=lambda change: -change.own_touches)
    tables = (calendar.series, *calendar.tables)
    return np.array([max(sensitivity(t, c, grid) for c in ordered) for t in tables])


def divide_budget(
    sensitivities: FloatArray, days: int, hours: int, hourly_cost: float = HOURLY_COST
) -> FloatArray:
    """Divide the privacy budget among the four tables.

    Parameters
    ----------
    sensitivities : array, shape (4,)
        s₁ … s₄, in any common unit.
    days, hours : int
        D and H of a complete month.
    hourly_cost : float
        Largest error of an hour, as a multiple of that of a release of the hours alone.

    Returns
    -------
    array, shape (4,)
        Shares a_j that add up to 1; zero for a table that is not worth its share.

    Raises
    ------
    InputError
        If `hourly_cost` is not above 1.

    Notes
    -----
    The shares minimise Σ ln Var over a day, an hour of the day and the total of a complete month,
    subject to Var(cell) ≤ hourly_cost²·s₁²/μ².
    """
    if not positive("hourly_cost", hourly_cost) > 1.001:
        raise InputError(f"hourly_cost must be above 1.001, got {hourly_cost}.")
    return _divide(tuple(map(float, sensitivities)), days, hours, float(hourly_cost)).copy()


@lru_cache(maxsize=64)
def _divide(
    sensitivities: tuple[float, ...], days: int, hours: int, hourly_cost: float
) -> FloatArray:
    """Return the best shares without tables that are not worth their share."""
    active = np.array([True, True, days > 1, True])
    while True:
        shares = _best_shares(np.array(sensitivities), days, hours, hourly_cost, active)
        small = active & (shares < SMALLEST_SHARE)
        if not small.any():
            return shares
        # The least useful table goes first; the others share its part.
        active[np.argmin(np.where(active, shares, math.inf))] = False


def _best_shares(
    sensitivities: FloatArray, days: int, hours: int, hourly_cost: float, active: BoolArray
) -> FloatArray:
    """Return the best shares of the active tables."""
    from scipy.optimize import minimize

    places = np.flatnonzero(active)
    if places.size == 1:
        return active.astype(float)

    def shares_of(logs: FloatArray) -> FloatArray:
        shares = np.zeros(4)
        weights = np.exp(logs - logs.max())
        shares[places] = weights / weights.sum()
        return shares

    def logs_of(logs: FloatArray) -> FloatArray:
        weights = shares_of(logs) / sensitivities**2
        return np.log(complete_variances(weights, days, hours))

    limit = 2 * math.log(hourly_cost * sensitivities[0])
    start = np.log(np.array([0.8, 0.06, 0.07, 0.07])[places])
    found: Any = minimize(  # type: ignore[call-overload]
        lambda logs: float(logs_of(logs)[1:].sum()),
        start,
        bounds=[(-9.0, 9.0)] * places.size,
        constraints=[{"type": "ineq", "fun": lambda logs: limit - float(logs_of(logs)[0])}],
        method="SLSQP",
        options={"ftol": 1e-11, "maxiter": 300},
    )
    return shares_of(found.x)


@dataclass(frozen=True, eq=False)
class ViewPlan:
    """The noise of a calendar release.

    Attributes
    ----------
    grid : Fraction
        Grid of the cells [W].
    sensitivities : array, shape (4,)
        s₁ … s₄ [grid steps].
    sigmas : array, shape (4,)
        σ₁ … σ₄ [grid steps]; infinite for a table that is not published.
    shares : array, shape (4,)
        Shares of the budget.
    delta : float
        δ of the promise.
    """

    grid: Fraction
    sensitivities: FloatArray
    sigmas: FloatArray
    shares: FloatArray
    delta: float

    @property
    def weights(self) -> FloatArray:
        """w₁ … w₄ [1/grid steps²]."""
        return np.asarray(1 / self.sigmas**2)

    @property
    def rho(self) -> float:
        """ρ of concentrated differential privacy."""
        return rho_of(self.sensitivities, self.sigmas)

    @property
    def epsilon(self) -> float:
        """ε of (ε, δ)-differential privacy."""
        return epsilon_of(self.rho, self.delta)

    @property
    def odds(self) -> float:
        """Largest probability that an attacker who knows everything else is right."""
        return odds_of(self.rho, self.sigmas)


def days_of_plan(calendar: Calendar) -> int:
    """Return the days D of a month for which the budget is divided.

    Parameters
    ----------
    calendar : Calendar
        The cells.

    Returns
    -------
    int
        Mean number of days of its months, but `DAYS_PER_MONTH` for every number that a complete
        month can have. All months of a stream, and a file of each of them, then have the same
        noise.
    """
    days = max(1, round(calendar.days.size / len(calendar.months)))
    return DAYS_PER_MONTH if days >= SHORTEST_MONTH else days


def rho_of(sensitivities: FloatArray, sigmas: FloatArray) -> float:
    """ρ = ½·Σ_j s_j²/σ_j² of independent tables."""
    return float(((sensitivities / sigmas) ** 2).sum() / 2)


@lru_cache(maxsize=256)
def epsilon_of(rho: float, delta: float) -> float:
    """Smallest ε of (ε, δ)-differential privacy that follows from ρ."""
    return concentrated_epsilon(rho, delta)


def odds_of(rho: float, sigmas: FloatArray) -> float:
    """Odds Φ(√(2ρ)/2) of the best attacker; the grid adds at most 1/24σ² of the total variation."""
    wider = 1 + 1 / (12 * float(sigmas.min()) ** 2)
    return 0.5 * math.erfc(-wider * math.sqrt(2 * rho) / (2 * math.sqrt(2)))


def plan_views(
    unit: Unit,
    calendar: Calendar,
    *,
    epsilon: Exact,
    delta: Exact = 1e-6,
    hourly_cost: float = HOURLY_COST,
    grid: Exact = 1.0,
) -> ViewPlan:
    """Calibrate the noise of a calendar release to a unit of protection.

    Parameters
    ----------
    unit : Unit
        What is protected; its released values are the cells.
    calendar : Calendar
        The cells.
    epsilon, delta : exact numbers
        The promise (ε, δ) of the unit.
    hourly_cost : float
        Largest error of an hour, as a multiple of that of a release of the hours alone.
    grid : exact number
        Grid of the cells [W]. It is made coarser if the noise is too wide for the sampler.

    Returns
    -------
    ViewPlan

    Raises
    ------
    InputError
        If a parameter is invalid, or the noise is too wide for every grid.
    """
    mu = 1 / unit_sigma(float(exact("epsilon", epsilon)), float(exact("delta", delta)), True)
    days = days_of_plan(calendar)
    for step in coarser(exact("grid", grid)):
        sensitivities = view_sensitivities(unit.changes, calendar, step)
        shares = divide_budget(sensitivities, days, calendar.hours, hourly_cost)
        with np.errstate(divide="ignore"):
            sigmas = sensitivities / (mu * np.sqrt(shares)) * (1 + 1e-12)
        if all(gaussian_fits(sigma) for sigma in sigmas if math.isfinite(sigma)):
            return ViewPlan(step, sensitivities, sigmas, shares, float(exact("delta", delta)))
        if step > 1000 * max(change.watts for change in unit.changes):
            break
    raise InputError("the noise is too wide for any grid; choose a larger epsilon.")
