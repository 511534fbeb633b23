"""Calendar release: hours, days, typical day and months from one privacy budget.

The readings become cells: means over windows (an hour by default), rounded to whole grid steps. For
every calendar month up to four tables are published, each with its own exact discrete Gaussian
noise: the cells, the sums of the days, the sums of every hour of the day over all days, and the
total. `hushmeter.releases.view_plan` calibrates the noise, and
`hushmeter.releases.calendar_release` has the estimate that is computed from the tables.
"""

from __future__ import annotations

import hashlib
import hmac
import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter import __version__
from hushmeter.checks import FloatArray, IntArray
from hushmeter.errors import DataError, InputError
from hushmeter.noise.mechanism import MAX_EPSILON, Rng
from hushmeter.noise.parameters import MAX_STEPS, Exact, clamp_bounds, exact, per_watt
from hushmeter.noise.privacy_loss import Composition
from hushmeter.noise.randomness import release_key
from hushmeter.noise.samplers import Sampler, draw_noise, gaussian_sampler
from hushmeter.privacy.accounting import ApplianceAccount, UnknownMoment, bound_unknown_moment
from hushmeter.privacy.units import Unit, appliance_change, resolve_unit
from hushmeter.releases.calendar import Calendar, lay_out
from hushmeter.releases.calendar_release import (
    SHARE_DECIMALS,
    VIEWS_SCHEMA,
    CalendarRelease,
    describe_calendar,
)
from hushmeter.releases.least_squares import TABLES
from hushmeter.releases.receipt import (
    PrivateReceipt,
    describe_input,
    describe_unit,
    list_parameters,
    refuse_learnt_from_these,
)
from hushmeter.releases.series import check_metering, mean_windows
from hushmeter.releases.view_plan import (
    HOURLY_COST,
    ViewPlan,
    epsilon_of,
    odds_of,
    plan_views,
    rho_of,
    view_sensitivities,
)
from hushmeter.trace import SECONDS_PER_DAY, SECONDS_PER_HOUR, Trace

if TYPE_CHECKING:
    from hushmeter.home import Appliance, Home
    from hushmeter.privacy.sensitivity import Change


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
        If a parameter is invalid, or the unit is "when", whose sums of days need no tables.
    DataError
        If there is less than one day of readings, or a month has no complete day.
    """
    if float(exact("epsilon", epsilon)) > max_epsilon:
        raise InputError(f"epsilon must be at most max_epsilon = {max_epsilon:g}, got {epsilon}.")
    if (span if unit is None else unit.span) == "when":
        raise InputError(
            "the span 'when' publishes the sums of the days, so a calendar release has nothing "
            "to add; use `release` instead."
        )
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
    cells, shares = _cells(trace, unit, clamp)
    calendar = lay_out(cells, zone)
    _refuse_long_runs(unit, cells)
    plan = plan_views(
        unit, calendar, epsilon=epsilon, delta=delta, hourly_cost=hourly_cost, grid=grid
    )
    secret, _ = release_key(rng, key)
    tables = _noisy_tables(cells.readings, calendar, plan, secret)
    receipt = write_views_receipt(
        unit,
        calendar,
        plan,
        home=home,
        hourly_cost=hourly_cost,
        clamp=clamp_bounds(clamp),
        simulation=rng is not None,
    )
    private = _private_receipt(trace, unit, calendar, plan, home)
    present = None if (shares == 1).all() else np.round(shares, SHARE_DECIMALS)
    return CalendarRelease(calendar, tables, plan, receipt, private, shares=present)


def _check_unit(trace: Trace, unit: Unit, rng: Rng, home: Home | None, accept_learnt: bool) -> None:
    """Refuse a unit that does not fit the trace or a calendar release."""
    if abs(trace.interval_s - unit.interval_s) > 1e-9 * unit.interval_s:
        raise InputError(
            f"the unit is for readings of {unit.interval_s:g} s, but those of the trace are of "
            f"{trace.interval_s:g} s."
        )
    if rng is None:
        check_metering(trace, unit)
        if not accept_learnt:
            refuse_learnt_from_these(unit, home, trace)


def _cells(trace: Trace, unit: Unit, clamp: tuple[float, float] | None) -> tuple[Trace, FloatArray]:
    """Return the cells, with missing readings counted as zero, and the shares that are present."""
    bounds = clamp_bounds(clamp)
    if bounds is not None:
        trace = trace.replace_readings(np.clip(trace.readings, *bounds))
    if len(trace) * trace.interval_s < SECONDS_PER_DAY * (1 - 1e-9):
        raise DataError("a calendar release needs at least one day of readings.")
    return mean_windows(trace, unit)


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
    steps = cell_steps(readings, grid)
    days, hours, totals = (
        table.sums(steps.astype(float)).astype(np.int64) for table in calendar.tables
    )
    return steps, days, hours.reshape(len(calendar.months), -1), totals


def cell_steps(readings: FloatArray, grid: Fraction) -> IntArray:
    """Round cells [W] to whole steps of the grid [W], half up; they are private."""
    return np.floor(readings * per_watt(grid) + 0.5).astype(np.int64)


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
        noise = table_noise(name, float(sigma), secret, table.size)
        noisy.append(table + noise.reshape(table.shape))
    return noisy[0], noisy[1], noisy[2], noisy[3]


def table_noise(name: str, sigma: float, secret: bytes, count: int) -> IntArray:
    """Draw the noise of the first entries of a table.

    Parameters
    ----------
    name : str
        A name of `TABLES`; each table has a key of its own.
    sigma : float
        σ of the table [grid steps].
    secret : bytes
        Key of the release.
    count : int
        Number of entries, at least one.

    Returns
    -------
    array of int, shape (count,)
        Discrete Gaussian noise [grid steps]. Fewer entries have the same noise as the first of
        more entries.
    """
    table_key = hmac.new(secret, f"hushmeter view {name}".encode(), hashlib.sha256).digest()
    return draw_noise(_sampler(sigma), table_key, count)


@lru_cache(maxsize=16)
def _sampler(sigma: float) -> Sampler:
    """The sampler of a table, which takes longer to make than to use once."""
    return gaussian_sampler(Fraction(sigma) ** 2)


def write_views_receipt(
    unit: Unit,
    calendar: Calendar,
    plan: ViewPlan,
    *,
    home: Home | None,
    hourly_cost: float,
    clamp: tuple[float, float] | None,
    simulation: bool,
) -> dict[str, Any]:
    """Draw up the public receipt of a calendar release.

    Parameters
    ----------
    unit : Unit
        The unit of protection.
    calendar : Calendar
        The cells.
    plan : ViewPlan
        The noise of the tables.
    home : Home or None
        For the origin of the numbers that calibrated the noise.
    hourly_cost : float
        See `release_views`.
    clamp : (low, high) or None
        Bounds to which metered readings were clamped [W].
    simulation : bool
        True if the noise can be repeated.

    Returns
    -------
    dict
        Everything but the files.
    """
    parameters = list_parameters(unit, home, calendar.cells)
    return {
        "schema": VIEWS_SCHEMA,
        "kind": "simulation" if simulation else "release",
        "unit": describe_unit(unit),
        "epsilon": plan.epsilon,
        "delta": plan.delta,
        "rho": plan.rho,
        "odds": plan.odds,
        "grid": str(plan.grid),
        "hourly_cost": float(hourly_cost),
        "clamp": None if clamp is None else list(clamp),
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
        "calendar": describe_calendar(calendar),
        "sources": sorted({entry["source"] for entry in parameters}),
        "version": __version__,
    }


def _private_receipt(
    trace: Trace, unit: Unit, calendar: Calendar, plan: ViewPlan, home: Home | None
) -> PrivateReceipt:
    """Draw up the private receipt."""
    return PrivateReceipt(
        sentence=unit.sentence,
        home=None if home is None else home.to_dict(),
        parameters=tuple(list_parameters(unit, home, trace)),
        composition_delta=plan.delta,
        appliances=()
        if home is None
        else tuple(_account(a, unit, calendar, plan) for a in home.appliances),
        input=describe_input(trace),
    )


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
        lengths = view_sensitivities([change], calendar, plan.grid)
        rho = rho_of(lengths, plan.sigmas)
        epsilon = epsilon_of(rho, plan.delta)
        return Composition(change.touches, epsilon, epsilon, odds_of(rho, plan.sigmas)), change

    known = appliance.protected_run_s is not None
    run, change = compose("run") if known else (None, None)
    unknown = None
    if run is not None and change is not None:
        # Moments of one day share its sum and the total, so only the cells separate them.
        unknown = unknown_moment_in_views(change, calendar, plan)
    return ApplianceAccount(
        name=appliance.name,
        watts=appliance.protected_power,
        reading=compose("reading")[0],
        run=run,
        run_readings=None if change is None else change.overlapped,
        day=compose("day")[0],
        unknown=unknown,
    )


def unknown_moment_in_views(change: Change, calendar: Calendar, plan: ViewPlan) -> UnknownMoment:
    """Bound the odds of an attacker who must find a run among the moments of one day.

    Parameters
    ----------
    change : Change
        The run.
    calendar : Calendar
        The cells.
    plan : ViewPlan
        The noise of the tables.

    Returns
    -------
    UnknownMoment
        Never above the odds of an attacker who knows the moment.

    Notes
    -----
    The inner product of the changes in two moments is that of the day and the total, which both
    moments share; the cells and the hours of the day are disjoint. The bound is that of
    `hushmeter.privacy.accounting.unknown_moment` with these inner products.
    """
    lengths = view_sensitivities([change], calendar, plan.grid)
    known = odds_of(rho_of(lengths, plan.sigmas), plan.sigmas)
    lengths = (lengths / plan.sigmas) ** 2
    moments = max(1, calendar.hours // max(1, math.ceil(change.full_values - 1e-9)))
    shared, own = float(lengths[1] + lengths[3]), float(lengths.sum())
    if own > 50:
        return UnknownMoment(moments, known, known)
    return bound_unknown_moment(moments, known, math.expm1(own), math.expm1(shared))
