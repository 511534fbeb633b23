r"""The noise of a calendar release: sensitivities of its tables, and the shares of the budget.

*Sensitivity.* A change of at most P watts and E watt-seconds within R seconds, with v = E/(P·V)
full windows of V seconds, moves the cells by a vector of length P·√(q + f²), q + f = v, the days
and the total by at most P·v, and the hours of the day by P·√(q + f²) as well, unless the run is
longer than a day: then several of its windows fall on the same hour of the day, which
`folded_length` counts. Rounding the t touched cells to the grid adds √t, t, √t and t steps. What
the meter itself does to the readings is added as in `hushmeter.privacy.sensitivity`. The months do
not add up: a run at the end of a month is divided between two months, which makes all four numbers
smaller.

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
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, positive
from hushmeter.errors import InputError
from hushmeter.noise.gaussian import concentrated_delta, smallest, unit_sigma
from hushmeter.noise.parameters import ROUNDING_SLACK, Exact, coarser, exact
from hushmeter.noise.samplers import gaussian_fits
from hushmeter.releases.cost import DAYS_PER_MONTH
from hushmeter.releases.least_squares import complete_variances
from hushmeter.trace import SECONDS_PER_DAY, SECONDS_PER_HOUR

if TYPE_CHECKING:
    from hushmeter.privacy.sensitivity import Change
    from hushmeter.privacy.units import Unit
    from hushmeter.releases.calendar import Calendar

HOURLY_COST = 1.10
SMALLEST_SHARE = 0.01
"""A table whose best share is smaller is not published."""

SHORTEST_DAY_S = 23 * SECONDS_PER_HOUR
SHORTEST_MONTH = 28
"""Days of the shortest month."""


def view_sensitivities(change: Change, calendar: Calendar, grid: Fraction) -> FloatArray:
    """Largest changes of the four tables.

    Parameters
    ----------
    change : Change
        The protected change; its released values are the cells.
    calendar : Calendar
        The cells.
    grid : Fraction
        Grid of the cells [W].

    Returns
    -------
    array, shape (4,)
        s₁ … s₄ [grid steps]: Euclidean lengths of the changes of the cells, the days, the hours of
        the day and the totals.
    """
    touched, step = change.own_touches, float(grid)
    # Two equal hours of the day are at least 23 hours apart where the clock is changed.
    day_s = SECONDS_PER_DAY if calendar.zone.upper() == "UTC" else SHORTEST_DAY_S
    hours = max(1, math.floor(day_s / change.value_s))
    length = change.effect_s / change.value_s
    readings = change.overlapped / change.window
    rounding = change.resolution_w
    sums = change.power * change.full_values + rounding * readings
    by_hour = change.power * folded_length(change.full_values, length, hours)
    by_hour += rounding * folded_length(readings, touched, hours)
    turned = folded_length(touched, touched, hours)
    rounded = np.array([math.sqrt(touched), touched, turned, touched])
    register, all_cells = _register_lengths(change, calendar)
    if change.register_w and (exact("step", change.register_w) / grid).denominator != 1:
        # The phase of the register moves cells between two steps of the grid, in all cells.
        rounded = all_cells
    lengths = np.array([change.l2, sums, by_hour, sums]) + register
    return np.ceil(lengths / step + rounded * (1 + float(ROUNDING_SLACK)))


def folded_length(total: float, length: float, hours: int) -> float:
    """Largest Euclidean length of a change of the hours of the day.

    Parameters
    ----------
    total : float
        Sum of the change, in windows at full power.
    length : float
        Windows from the beginning of the change to its end.
    hours : int
        Windows after which an hour of the day occurs again.

    Returns
    -------
    float
        In units of one window at full power.

    Notes
    -----
    A change of n·H + q + f windows (q whole, 0 ≤ f < 1) covers q hours of the day n + 1 times, one
    n + f times and the others n times. A sum of squares under these limits is largest if the
    largest limits are used first.
    """
    turns, rest = divmod(length, hours)
    full = math.floor(rest + 1e-9)
    limits = [turns + 1] * full + [turns + max(0.0, rest - full)] + [turns] * hours
    squares, left = 0.0, total
    for limit in limits[:hours]:
        part = min(limit, left)
        squares += part**2
        left -= part
    return math.sqrt(squares)


def _register_lengths(change: Change, calendar: Calendar) -> tuple[FloatArray, FloatArray]:
    """What the phase of a register adds to the lengths of the tables [W], and those of all cells.

    The differences of a counter telescope: the sum over a stretch without a gap moves by at most
    one step. During the run each touched cell may move by one step more. The cells themselves are
    counted in `Change.l2`. The second array has the lengths if every cell moves by one. Both are
    zero if the readings are not differences of a register.
    """
    added, ones = np.zeros(4), np.zeros(4)
    if not change.register_w:
        return added, ones
    for number, layout in enumerate(calendar.layouts):
        starts = calendar.cells.run_starts[calendar.rows(number)].copy()
        starts[0] = True
        if change.metering.copies > 1 or change.metering.stretch > 1:
            starts[:] = True
        day_starts = starts | (np.diff(layout.day, prepend=-1) > 0)
        by_hour = float((np.bincount(layout.hour[layout.hour >= 0]) ** 2).sum())
        by_day = (np.bincount(layout.day[day_starts]), np.bincount(layout.day))
        size = layout.day.size
        added += [0.0, float((by_day[0] ** 2).sum()), by_hour, float(starts.sum() ** 2)]
        ones += [size, float((by_day[1] ** 2).sum()), by_hour, float(size**2)]
    lengths = change.register_w * (np.sqrt(added) + change.own_touches)
    lengths[0] = 0.0
    return lengths, np.sqrt(ones)


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
    length = math.sqrt(2 * rho)
    return smallest(lambda epsilon: concentrated_delta(epsilon, 1.0, length) <= delta, 0.0)


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
        lengths = [view_sensitivities(change, calendar, step) for change in unit.changes]
        sensitivities = np.max(lengths, axis=0)
        shares = divide_budget(sensitivities, days, calendar.hours, hourly_cost)
        with np.errstate(divide="ignore"):
            sigmas = sensitivities / (mu * np.sqrt(shares)) * (1 + 1e-12)
        if all(gaussian_fits(sigma) for sigma in sigmas if math.isfinite(sigma)):
            return ViewPlan(step, sensitivities, sigmas, shares, float(exact("delta", delta)))
        if step > 1000 * max(change.watts for change in unit.changes):
            break
    raise InputError("the noise is too wide for any grid; choose a larger epsilon.")
