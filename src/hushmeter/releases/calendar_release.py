"""What a calendar release is: its noisy tables, the consistent estimate and its five views.

The tables are joined to one estimate by `hushmeter.releases.least_squares`. Every view (hours,
days, typical day, months, register) is a sum of estimated cells and states a standard error for
every value. All of it is computed from published numbers and costs no privacy.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.checks import FloatArray, IntArray
from hushmeter.errors import InputError
from hushmeter.releases.least_squares import TableEstimate
from hushmeter.releases.receipt import PRIVATE_SCHEMA, PrivateReceipt, appliance_lines
from hushmeter.trace import JOULES_PER_KWH, Trace

if TYPE_CHECKING:
    from pathlib import Path

    from hushmeter.privacy.tables import Table
    from hushmeter.releases.calendar import Calendar
    from hushmeter.releases.view_plan import ViewPlan

VIEWS_SCHEMA = "hushmeter-views-receipt-1"
SHARE_DECIMALS = 6
"""Decimals of the share of the readings of a cell that are present."""


def describe_calendar(calendar: Calendar) -> dict[str, Any]:
    """Zone, months and numbers of days and cells of a calendar release, for its receipt."""
    return {
        "zone": calendar.zone,
        "interval_s": calendar.cells.interval_s,
        "months": list(calendar.months),
        "days": int(calendar.days.size),
        "cells": len(calendar.cells),
    }


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
    shares : array, shape (n,), or None
        Share of the readings of every cell that are present; None if none is missing. The tables
        count missing readings as zero, and the estimate is that of the readings that are present.
    """

    calendar: Calendar
    tables: tuple[IntArray, IntArray, IntArray, IntArray]
    plan: ViewPlan
    receipt: dict[str, Any]
    private: PrivateReceipt | None = None
    restored: tuple[FloatArray, FloatArray] | None = None
    shares: FloatArray | None = None

    @cached_property
    def estimate(self) -> FloatArray:
        """Least-squares estimate of the cells [W], shape (n,)."""
        cells, days, hours, totals = (table.astype(float) for table in self.tables)
        if self.restored is not None:
            cells = self.restored[0] / float(self.plan.grid)
        found = self._fit.solve(cells, [days, hours.ravel(), totals])
        return found * float(self.plan.grid)

    @cached_property
    def _fit(self) -> TableEstimate:
        """The estimator of all cells."""
        weights = self.plan.weights
        if self.restored is not None:
            variance = float((self.restored[1] ** 2).mean())
            weights[0] = float(self.plan.grid) ** 2 / variance
        scales = None if self.shares is None else 1 / self.shares
        return TableEstimate(self.calendar.tables, weights, scales)

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
        errors = self._errors(self._fit.cell_variances)
        labels: dict[str, Any] = {"timestamp": self.calendar.cells.times}
        if self.shares is not None:
            labels["share"] = np.round(self.shares, SHARE_DECIMALS)
        return View("hours", labels, self.estimate, errors, "W")

    @cached_property
    def days(self) -> View:
        """Energy of every civil day [kWh], as far as it was metered."""
        table = self.calendar.tables[0]
        values, errors = self._sums(table)
        labels = {"day": self.calendar.days, "cells": table.members}
        return View("days", labels, values * self._kwh, errors * self._kwh, "kWh")

    @cached_property
    def profile(self) -> View:
        """The typical day of every month: mean power [W] of every hour of the day."""
        hours, table = self.calendar.hours, self.calendar.tables[1]
        sums, errors = self._sums(table)
        counts = table.members
        known = counts > 0
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
        table = self.calendar.tables[2]
        values, errors = self._sums(table)
        labels = {"month": np.array(self.calendar.months), "cells": table.members}
        return View("months", labels, values * self._kwh, errors * self._kwh, "kWh")

    @cached_property
    def register(self) -> View:
        """Energy from the first cell to the end of every cell [kWh]; gaps add nothing."""
        length = np.timedelta64(round(self.calendar.cells.interval_s * 1e9), "ns")
        labels = {"timestamp": self.calendar.cells.times + length}
        values = np.cumsum(self.estimate) * self._kwh
        errors = self._errors(self._fit.register_variances) * self._kwh
        return View("register", labels, values, errors, "kWh")

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

    def _sums(self, table: Table) -> tuple[FloatArray, FloatArray]:
        """Estimated sums of the cells of every label, and their standard errors [W × cells]."""
        return table.sums(self.estimate), self._errors(self._fit.sum_variances(table))

    def _errors(self, variances: FloatArray) -> FloatArray:
        """Standard errors [W] of variances [grid steps²]."""
        return np.asarray(np.sqrt(variances) * float(self.plan.grid))

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


def views_text(receipt: dict[str, Any], private: PrivateReceipt | None) -> str:
    """Format the receipt of a calendar release.

    Parameters
    ----------
    receipt : dict
        The public receipt.
    private : PrivateReceipt or None
        The private part, for the household.
    """
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
    if release.private is None:
        raise InputError("a calendar release that was read from its files has no private part.")
    return {"schema": PRIVATE_SCHEMA, **asdict(release.private), "receipt": release.receipt}
