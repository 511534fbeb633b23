r"""Calendar release: hours, days, typical day and months from one privacy budget.

The readings become cells: means over windows (an hour by default), rounded to whole grid steps. For
every calendar month up to four tables are published, each with its own exact discrete Gaussian
noise: the cells, the sums of the days, the sums of every hour of the day over all days, and the
total. `hushmeter.releases.least_squares` joins them to one consistent estimate.

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

import hashlib
import hmac
import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter import __version__
from hushmeter.checks import BoolArray, FloatArray, IntArray, positive
from hushmeter.errors import DataError, InputError
from hushmeter.noise.gaussian import concentrated_delta, smallest, unit_sigma
from hushmeter.noise.mechanism import MAX_EPSILON, Rng
from hushmeter.noise.parameters import (
    MAX_STEPS,
    ROUNDING_SLACK,
    Exact,
    clamp_bounds,
    coarser,
    exact,
    per_watt,
)
from hushmeter.noise.randomness import release_key
from hushmeter.noise.samplers import draw_noise, gaussian_fits, gaussian_sampler
from hushmeter.privacy.accounting import ApplianceAccount, Composition, UnknownMoment
from hushmeter.privacy.sensitivity import Change
from hushmeter.privacy.units import Unit, appliance_change, resolve_unit
from hushmeter.releases.calendar import civil_days
from hushmeter.releases.least_squares import (
    TABLES,
    MonthEstimate,
    MonthLayout,
    complete_variances,
)
from hushmeter.releases.receipt import (
    PrivateReceipt,
    describe_readings,
    describe_unit,
    list_parameters,
    refuse_learnt_from_these,
)
from hushmeter.releases.series import check_metering
from hushmeter.trace import JOULES_PER_KWH, SECONDS_PER_DAY, SECONDS_PER_HOUR, TimeArray, Trace

if TYPE_CHECKING:
    from hushmeter.home import Appliance, Home

VIEWS_SCHEMA = "hushmeter-views-receipt-1"
HOURLY_COST = 1.10
SMALLEST_SHARE = 0.01
"""A table whose best share is smaller is not published."""

SHORTEST_DAY_S = 23 * SECONDS_PER_HOUR


@dataclass(frozen=True, eq=False)
class Calendar:
    """The cells of a calendar release: times, months, days and hours of the day. All is public.

    Attributes
    ----------
    cells : Trace
        Times of the cells; the readings are zero.
    zone : str
        Time zone of the days.
    months : tuple of str
        The months, such as "2024-01".
    month : array of int, shape (n,)
        Number of the month of every cell.
    days : array of datetime64[D]
        All days of all months, in order.
    layouts : tuple of MonthLayout
        Days and hours of the cells of each month.
    """

    cells: Trace
    zone: str
    months: tuple[str, ...]
    month: IntArray
    days: TimeArray
    layouts: tuple[MonthLayout, ...]

    @property
    def hours(self) -> int:
        """Windows H of a day."""
        return self.layouts[0].hours

    @property
    def first_days(self) -> IntArray:
        """Number of the first day of each month among all days."""
        counts = [layout.days for layout in self.layouts]
        return np.cumsum([0, *counts[:-1]])

    def rows(self, month: int) -> slice:
        """The cells of a month."""
        first, stop = np.searchsorted(self.month, [month, month + 1])
        return slice(int(first), int(stop))


def lay_out(cells: Trace, zone: str) -> Calendar:
    """Sort cells into months, days and hours of the day.

    Parameters
    ----------
    cells : Trace
        Complete windows; only their times are used.
    zone : str
        Time zone of the days.

    Returns
    -------
    Calendar

    Raises
    ------
    InputError
        If the windows do not divide a day.
    DataError
        If a month has no complete day.
    """
    windows = SECONDS_PER_DAY / cells.interval_s
    if windows != round(windows):
        raise InputError(
            f"the windows of a calendar release must divide a day, but {cells.interval_s:g} s do "
            "not; choose every='1h'."
        )
    days = civil_days(cells, zone)
    midnight = days.local.astype("datetime64[D]")
    since = (days.local - midnight.astype("datetime64[ns]")).astype(np.int64) / 1e9
    hour = np.floor(since / cells.interval_s + 1e-9).astype(np.int64)
    # A change of the clock repeats a window; its second occurrence belongs to no hour of the day.
    key = days.place * round(windows) + hour
    again = np.ones(key.size, dtype=np.bool_)
    again[np.unique(key, return_index=True)[1]] = False
    names, month_of_day = np.unique(days.days.astype("datetime64[M]"), return_inverse=True)
    month = month_of_day[days.place].astype(np.int64)
    layouts = []
    for number, name in enumerate(names):
        rows = np.flatnonzero(month == number)
        first_day = int(np.flatnonzero(month_of_day == number)[0])
        count = int((month_of_day == number).sum())
        layout = MonthLayout(
            days.place[rows] - first_day,
            np.where(again[rows], -1, hour[rows]),
            count,
            round(windows),
        )
        # A day of 23 hours is complete too.
        if np.bincount(layout.day).max() < round(windows) * 23 // 24:
            raise DataError(
                f"{name} has no complete day; leave out its readings, because a calendar release "
                "needs at least one complete day in every month."
            )
        layouts.append(layout)
    bare = Trace(np.zeros(len(cells)), cells.interval_s, cells.start, steps=cells.steps)
    return Calendar(bare, zone, tuple(map(str, names)), month, days.days, tuple(layouts))


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
    length = change.metering.copies * change.seconds / change.value_s
    readings = change.overlapped / change.window
    rounding = change.metering.resolution_w
    sums = change.watts * change.full_values + rounding * readings
    by_hour = change.watts * folded_length(change.full_values, length, hours)
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
    counted in `Change.l2`. The second array has the lengths if every cell moves by one.
    """
    added, ones = np.zeros(4), np.zeros(4)
    for number, layout in enumerate(calendar.layouts):
        starts = calendar.cells.run_starts[calendar.rows(number)].copy()
        starts[0] = True
        if change.metering.copies > 1:
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
    days = max(1, round(calendar.days.size / len(calendar.months)))
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


@dataclass(frozen=True, eq=False)
class View:
    """One view of a calendar release: values with a standard error each.

    Attributes
    ----------
    name : str
        "hours", "days", "hours-of-day", "months" or "register".
    labels : dict of arrays
        What each value is about: times, days, months.
    values, errors : arrays
        Estimates and their standard errors.
    unit : {"W", "kWh"}
        Unit of both.
    """

    name: str
    labels: dict[str, Any]
    values: FloatArray
    errors: FloatArray
    unit: str

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with the labels, the values and their standard errors."""
        import pandas as pd

        column = {"W": "watts", "kWh": "kwh"}[self.unit]
        return pd.DataFrame(
            {**self.labels, column: self.values, f"{column}_standard_error": self.errors}
        )


@dataclass(frozen=True, eq=False)
class CalendarRelease:
    """A calendar release: up to four noisy tables, and one consistent estimate.

    Attributes
    ----------
    calendar : Calendar
        Times, months, days and hours of the day of the cells.
    tables : tuple of four int64 arrays
        The noisy cells, sums of days, sums of hours of the day (one row for each month) and totals
        [grid steps]; zeros for a table that is not published.
    plan : ViewPlan
        The noise.
    receipt : dict
        The public receipt.
    private : PrivateReceipt or None
        The private part; None if the release was read from its files.
    restored : (means, deviations) or None
        Restored cells [W], which replace the noisy ones in the estimate; see `restore`.
    """

    calendar: Calendar
    tables: tuple[IntArray, IntArray, IntArray, IntArray]
    plan: ViewPlan
    receipt: dict[str, Any]
    private: PrivateReceipt | None = None
    restored: tuple[FloatArray, FloatArray] | None = None

    @cached_property
    def estimate(self) -> FloatArray:
        """Least-squares estimate of the cells [W], shape (n,)."""
        cells, days, hours, totals = (table.astype(float) for table in self.tables)
        if self.restored is not None:
            cells = self.restored[0] / float(self.plan.grid)
        parts = []
        for number, month in enumerate(self._months):
            first = int(self.calendar.first_days[number])
            parts.append(
                month.solve(
                    cells[self.calendar.rows(number)],
                    days[first : first + month.layout.days],
                    hours[number],
                    float(totals[number]),
                )
            )
        return np.concatenate(parts) * float(self.plan.grid)

    @cached_property
    def _months(self) -> list[MonthEstimate]:
        """The estimators of the months."""
        weights = self.plan.weights
        if self.restored is not None:
            variance = float((self.restored[1] ** 2).mean())
            weights[0] = float(self.plan.grid) ** 2 / variance
        return [MonthEstimate(layout, weights) for layout in self.calendar.layouts]

    def trace(self, every: float | str | None = None) -> Trace:
        """Return the estimate as a trace.

        Parameters
        ----------
        every : float or str, optional
            Length of the readings, a whole multiple of the cells; the cells themselves by default.

        Returns
        -------
        Trace
            Means [W]; windows start at whole multiples of `every` in UTC.
        """
        cells = self.calendar.cells.replace_readings(self.estimate)
        return cells if every is None else cells.coarsen(every)

    @cached_property
    def hours(self) -> View:
        """Mean power of every cell [W]."""
        errors = self._errors(np.arange(len(self.calendar.cells)), len(self.calendar.cells))
        return View("hours", {"timestamp": self.calendar.cells.times}, self.estimate, errors, "W")

    @cached_property
    def days(self) -> View:
        """Energy of every civil day [kWh], as far as it was metered."""
        place = self._day_of_cell
        count = self.calendar.days.size
        labels = {"day": self.calendar.days, "cells": np.bincount(place, minlength=count)}
        values = np.asarray(np.bincount(place, self.estimate, count) * self._kwh, dtype=float)
        return View("days", labels, values, self._errors(place, count) * self._kwh, "kWh")

    @cached_property
    def profile(self) -> View:
        """The typical day of every month: mean power [W] of every hour of the day."""
        hours = self.calendar.hours
        hour = np.concatenate([layout.hour for layout in self.calendar.layouts])
        place = np.where(hour < 0, -1, self.calendar.month * hours + hour)
        groups = hours * len(self.calendar.months)
        inside = place >= 0
        counts = np.bincount(place[inside], minlength=groups)
        known = counts > 0
        sums = np.bincount(place[inside], self.estimate[inside], groups)
        errors = self._errors(place, groups)
        seconds = np.tile(np.arange(hours), len(self.calendar.months)) * self._cell_s
        labels = {
            "month": np.repeat(self.calendar.months, hours)[known],
            "hour": np.array([f"{s // 3600:02d}:{s % 3600 // 60:02d}" for s in seconds])[known],
            "cells": counts[known],
        }
        means, deviations = (array[known] / counts[known] for array in (sums, errors))
        return View("hours-of-day", labels, means, deviations, "W")

    @cached_property
    def months(self) -> View:
        """Energy of every month [kWh], as far as it was metered."""
        count = len(self.calendar.months)
        sums = np.bincount(self.calendar.month, self.estimate, count)
        values = np.asarray(sums * self._kwh, dtype=float)
        labels = {
            "month": np.array(self.calendar.months),
            "cells": np.bincount(self.calendar.month, minlength=count),
        }
        errors = self._errors(self.calendar.month, count) * self._kwh
        return View("months", labels, values, errors, "kWh")

    @cached_property
    def register(self) -> View:
        """Energy from the first cell to the end of every cell [kWh]; gaps add nothing."""
        before, parts = 0.0, []
        for month in self._months:
            parts.append(before + month.register_variances())
            before = float(parts[-1][-1])
        length = np.timedelta64(round(self.calendar.cells.interval_s * 1e9), "ns")
        labels = {"timestamp": self.calendar.cells.times + length}
        errors = np.sqrt(np.concatenate(parts)) * float(self.plan.grid) * self._kwh
        return View("register", labels, np.cumsum(self.estimate) * self._kwh, errors, "kWh")

    @property
    def views(self) -> tuple[View, ...]:
        """All five views."""
        return (self.hours, self.days, self.profile, self.months, self.register)

    @property
    def _cell_s(self) -> int:
        return round(self.calendar.cells.interval_s)

    @property
    def _kwh(self) -> float:
        """Energy of one cell of 1 W [kWh]."""
        return self.calendar.cells.interval_s / JOULES_PER_KWH

    @property
    def _day_of_cell(self) -> IntArray:
        """Number of the day of every cell among all days."""
        pairs = zip(self.calendar.layouts, self.calendar.first_days, strict=True)
        return np.concatenate([layout.day + first for layout, first in pairs])

    def _errors(self, place: IntArray, groups: int) -> FloatArray:
        """Standard errors of sums of cells [W]; no group crosses a month."""
        variances = np.zeros(groups)
        for number, month in enumerate(self._months):
            local = place[self.calendar.rows(number)]
            first = int(local[local >= 0].min())
            shifted = np.where(local < 0, -1, local - first)
            count = int(shifted.max()) + 1
            variances[first : first + count] += month.variances(shifted, count)
        return np.sqrt(variances) * float(self.plan.grid)

    def __str__(self) -> str:
        return views_text(self.receipt, self.private)

    def save(
        self, folder: str | Path, *, force: bool = False, signing_key: str | Path | None = None
    ) -> list[Path]:
        """Write the tables, the estimate and both receipts.

        Parameters
        ----------
        folder : str or Path
            The folder, which is made; the private receipt is FOLDER.private.json beside it.
        force : bool
            Whether to replace the folder of an earlier calendar release.
        signing_key : str or Path, optional
            File with the Ed25519 key that signs the receipt.

        Returns
        -------
        list of Path
            The written files.
        """
        from hushmeter.releases.view_files import write_views

        return write_views(self, folder, force=force, signing_key=signing_key)


def release_views(
    trace: Trace,
    *,
    epsilon: Exact,
    delta: Exact = 1e-6,
    unit: Unit | None = None,
    home: Home | None = None,
    appliance: str | None = None,
    span: str = "run",
    use: float | str | None = None,
    every: float | str = "1h",
    zone: str = "UTC",
    hourly_cost: float = HOURLY_COST,
    grid: Exact = 1.0,
    clamp: tuple[float, float] | None = None,
    max_epsilon: float = MAX_EPSILON,
    rng: Rng = None,
    key: bytes | None = None,
    accept_learnt: bool = False,
) -> CalendarRelease:
    """Release hours, days, typical day, months and register values together.

    Parameters
    ----------
    trace : Trace
        The metered readings [W], at least one complete day in every month.
    epsilon, delta : exact numbers
        The promise (ε, δ) for the unit of protection.
    unit : Unit, optional
        The unit of protection, from `resolve_unit` with the same `every`. Without it the unit is
        made from `home`, `appliance`, `span` and `use`.
    home : Home, optional
        The appliances to protect; also for the private receipt.
    appliance, span, use
        See `resolve_unit`; the default protects one run of every appliance of the home.
    every : float or str, default "1h"
        Length of a cell, which must divide a day.
    zone : str, default "UTC"
        Time zone of the days and of the hours of the day.
    hourly_cost : float, default 1.10
        Largest error of an hour, as a multiple of that of a release of the hours alone.
    grid : exact number
        Grid of the cells [W].
    clamp : (low, high), optional
        Bounds to which metered readings are clamped [W].
    max_epsilon : float
        Largest accepted ε.
    rng : int, Generator or None
        Seed of a simulation. A real release takes no seed.
    key : bytes, optional
        Key of 32 bytes from which the noise of all tables is derived.
    accept_learnt : bool, default False
        See `release`.

    Returns
    -------
    CalendarRelease

    Raises
    ------
    InputError
        If a parameter is invalid, or the unit is "when", whose exact sums need no tables.
    DataError
        If there is less than one day of readings, or a month has no complete day.
    """
    if float(exact("epsilon", epsilon)) > max_epsilon:
        raise InputError(f"epsilon must be at most max_epsilon = {max_epsilon:g}, got {epsilon}.")
    unit = unit or resolve_unit(
        "appliance",
        span,
        interval_s=trace.interval_s,
        home=home,
        appliance=appliance,
        every=every,
        use=use,
        metering=trace.metering,
        readings=len(trace),
    )
    _check_unit(trace, unit, rng, home, accept_learnt)
    cells = _cells(trace, unit, clamp)
    calendar = lay_out(cells, zone)
    _refuse_long_runs(unit, cells)
    plan = plan_views(
        unit, calendar, epsilon=epsilon, delta=delta, hourly_cost=hourly_cost, grid=grid
    )
    secret, _ = release_key(rng, key)
    tables = _noisy_tables(cells.readings, calendar, plan, secret)
    receipt, private = _receipts(trace, unit, calendar, plan, home, hourly_cost, rng is not None)
    return CalendarRelease(calendar, tables, plan, receipt, private)


def _check_unit(trace: Trace, unit: Unit, rng: Rng, home: Home | None, accept_learnt: bool) -> None:
    """Refuse a unit that does not fit the trace or a calendar release."""
    if unit.span == "when":
        raise InputError(
            "the span 'when' publishes exact sums of the days, so a calendar release has nothing "
            "to add; use `release` instead."
        )
    if abs(trace.interval_s - unit.interval_s) > 1e-9 * unit.interval_s:
        raise InputError(
            f"the unit is for readings of {unit.interval_s:g} s, but those of the trace are of "
            f"{trace.interval_s:g} s."
        )
    if rng is None:
        check_metering(trace, unit)
        if not accept_learnt:
            refuse_learnt_from_these(unit, home, trace)


def _cells(trace: Trace, unit: Unit, clamp: tuple[float, float] | None) -> Trace:
    """Return the means over complete windows, clamped before the mean is taken."""
    bounds = clamp_bounds(clamp)
    if bounds is not None:
        trace = trace.replace_readings(np.clip(trace.readings, *bounds))
    if len(trace) * trace.interval_s < SECONDS_PER_DAY * (1 - 1e-9):
        raise DataError("a calendar release needs at least one day of readings.")
    return trace.coarsen(unit.window * unit.interval_s)


def _refuse_long_runs(unit: Unit, cells: Trace) -> None:
    """Refuse a unit whose changes last longer than the period that is released."""
    period = float((cells.times[-1] - cells.times[0]).astype(np.int64)) / 1e9 + cells.interval_s
    longest = max(change.seconds for change in unit.changes)
    if unit.span == "run" and longest > period:
        raise InputError(
            f"a run of up to {longest / SECONDS_PER_HOUR:g} hours is longer than the period of "
            f"{period / SECONDS_PER_HOUR:g} hours; release a longer period, or protect a day."
        )


def add_up(
    readings: FloatArray, calendar: Calendar, grid: Fraction
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Round cells to the grid and add them up to the four tables, without noise.

    Parameters
    ----------
    readings : array, shape (n,)
        Cells [W].
    calendar : Calendar
        Their months, days and hours of the day.
    grid : Fraction
        Grid [W].

    Returns
    -------
    tuple of four int64 arrays
        Cells, days, hours of the day (one row for each month) and totals [grid steps]. They are
        private: only with noise can they be published.

    Raises
    ------
    DataError
        If a reading is too large for the grid.
    """
    if np.abs(readings).max() >= float(MAX_STEPS * grid):
        raise DataError("nothing was released: a reading is too large for the grid.")
    steps = np.floor(readings * per_watt(grid) + 0.5).astype(np.int64)
    sums = [
        layout.sums(steps[calendar.rows(number)].astype(float))
        for number, layout in enumerate(calendar.layouts)
    ]
    return (
        steps,
        np.concatenate([days for days, _, _ in sums]).astype(np.int64),
        np.stack([hours for _, hours, _ in sums]).astype(np.int64),
        np.array([total for _, _, total in sums]).astype(np.int64),
    )


def _noisy_tables(
    readings: FloatArray, calendar: Calendar, plan: ViewPlan, secret: bytes
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Add independent noise to every table that is published."""
    noisy = []
    exact_tables = add_up(readings, calendar, plan.grid)
    for name, table, sigma in zip(TABLES, exact_tables, plan.sigmas, strict=True):
        if not math.isfinite(sigma):
            noisy.append(np.zeros_like(table))
            continue
        table_key = hmac.new(secret, f"hushmeter view {name}".encode(), hashlib.sha256).digest()
        sampler = gaussian_sampler(Fraction(float(sigma)) ** 2)
        noise = draw_noise(sampler, table_key, table.size)
        noisy.append(table + noise.reshape(table.shape))
    return noisy[0], noisy[1], noisy[2], noisy[3]


def _receipts(
    trace: Trace,
    unit: Unit,
    calendar: Calendar,
    plan: ViewPlan,
    home: Home | None,
    hourly_cost: float,
    simulation: bool,
) -> tuple[dict[str, Any], PrivateReceipt]:
    """Draw up both parts of the receipt."""
    parameters = list_parameters(unit, home, trace)
    receipt = {
        "schema": VIEWS_SCHEMA,
        "kind": "simulation" if simulation else "release",
        "unit": describe_unit(unit),
        "epsilon": plan.epsilon,
        "delta": plan.delta,
        "rho": plan.rho,
        "odds": plan.odds,
        "grid": str(plan.grid),
        "hourly_cost": float(hourly_cost),
        "tables": [
            {
                "table": name,
                "share": float(share),
                "sensitivity_steps": float(length),
                "sigma_steps": float(sigma) if math.isfinite(sigma) else None,
            }
            for name, share, length, sigma in zip(
                TABLES, plan.shares, plan.sensitivities, plan.sigmas, strict=True
            )
        ],
        "calendar": {
            "zone": calendar.zone,
            "interval_s": calendar.cells.interval_s,
            "months": list(calendar.months),
            "days": int(calendar.days.size),
            "cells": len(calendar.cells),
        },
        "sources": sorted({entry["source"] for entry in parameters}),
        "version": __version__,
    }
    private = PrivateReceipt(
        sentence=unit.sentence,
        home=None if home is None else home.to_dict(),
        parameters=tuple(parameters),
        composition_delta=plan.delta,
        appliances=()
        if home is None
        else tuple(_account(a, unit, calendar, plan) for a in home.appliances),
        input=describe_readings(trace),
    )
    return receipt, private


def _account(
    appliance: Appliance, unit: Unit, calendar: Calendar, plan: ViewPlan
) -> ApplianceAccount:
    """What all four tables together reveal about one appliance."""

    def compose(span: str) -> tuple[Composition, Change]:
        change = appliance_change(
            appliance,
            span,
            # One reading is one cell during which the appliance is on from beginning to end.
            interval_s=unit.interval_s if span != "reading" else calendar.cells.interval_s,
            window=unit.window if span != "reading" else 1,
            metering=unit.metering,
            readings=unit.readings,
            use_s=unit.use_s if appliance.name in {c.name for c in unit.changes} else None,
        )
        lengths = view_sensitivities(change, calendar, plan.grid)
        rho = rho_of(lengths, plan.sigmas)
        epsilon = epsilon_of(rho, plan.delta)
        return Composition(change.touches, epsilon, epsilon, odds_of(rho, plan.sigmas)), change

    known = appliance.protected_run_s is not None
    run, change = compose("run") if known else (None, None)
    unknown = None
    if run is not None and change is not None:
        # Moments of one day share its sum and the total, so only the cells separate them.
        unknown = _unknown_moment(run, change, calendar, plan)
    return ApplianceAccount(
        name=appliance.name,
        watts=appliance.protected_power,
        reading=compose("reading")[0],
        run=run,
        run_readings=None if change is None else change.overlapped,
        day=compose("day")[0],
        unknown=unknown,
    )


def _unknown_moment(
    run: Composition, change: Change, calendar: Calendar, plan: ViewPlan
) -> UnknownMoment:
    """Bound the odds of an attacker who must find a run among the moments of one day.

    The inner product of the changes in two moments is that of the day and the total, which both
    moments share; the cells and the hours of the day are disjoint.
    """
    lengths = view_sensitivities(change, calendar, plan.grid)
    lengths = (lengths / plan.sigmas) ** 2
    moments = max(1, calendar.hours // max(1, math.ceil(change.full_values - 1e-9)))
    shared, own = float(lengths[1] + lengths[3]), float(lengths.sum())
    if own > 50:
        return UnknownMoment(moments, run.odds)
    mean = (math.exp(own) + (moments - 1) * math.exp(shared)) / moments
    return UnknownMoment(moments, min(run.odds, 0.5 + 0.25 * math.sqrt(max(0.0, mean - 1))))


def views_text(receipt: dict[str, Any], private: PrivateReceipt | None) -> str:
    """Format the receipt of a calendar release.

    Parameters
    ----------
    receipt : dict
        The public receipt.
    private : PrivateReceipt or None
        The private part, for the household.
    """
    from hushmeter.releases.receipt import appliance_lines

    calendar = receipt["calendar"]
    grid = float(Fraction(receipt["grid"]))
    sentence = receipt["unit"]["sentence"] if private is None else private.sentence
    shares = ", ".join(
        f"{entry['table']} {100 * entry['share']:.1f} % (σ {entry['sigma_steps'] * grid:.4g} W)"
        for entry in receipt["tables"]
        if entry["share"]
    )
    lines = [
        f"{receipt['kind']}: {calendar['cells']} cells of {calendar['interval_s'] / 60:g} minutes "
        f"in {calendar['days']} days ({calendar['months'][0]} to {calendar['months'][-1]}, "
        f"{calendar['zone']})",
        f"noise: discrete Gaussian on a grid of {grid:g} W; shares of the budget: {shares}",
        f"protected: {sentence}",
        f"at ε = {receipt['epsilon']:.4g}, δ = {receipt['delta']:g}; the best attacker is right "
        f"{100 * receipt['odds']:.1f} times out of 100",
    ]
    return "\n".join([*lines, *(appliance_lines(private.appliances) if private else [])])


def private_fields(release: CalendarRelease) -> dict[str, Any]:
    """The private receipt as plain values, together with the public one."""
    from hushmeter.releases.receipt import PRIVATE_SCHEMA

    if release.private is None:
        raise InputError("a calendar release that was read from its files has no private part.")
    return {"schema": PRIVATE_SCHEMA, **asdict(release.private), "receipt": release.receipt}
