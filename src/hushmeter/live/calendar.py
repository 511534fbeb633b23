r"""A calendar as a stream: hours, days, typical day and months, each with noise of its own.

Every civil month of the stream is one calendar release (`hushmeter.releases.views`) whose tables
are published as they are complete: a cell at the end of its window, the sum of a day at midnight,
the sums of the hours of the day and the total at the end of the month. The draws of each table are
numbered in the order of publication, so a month that one process protects from its first to its
last window has the same numbers as `hushmeter.release_views` of its readings with the same key.

*Promise.* ε holds for all tables together and is spent from the first window on: the noise of the
cells is already that of a calendar, even if the stream ends before the day or the month does. All
months have the same noise (`days_of_plan`). A run that is divided between two months changes the
tables of each by a part, and the squares of the lengths of both parts add up to at most the square
of the declared length. Nothing else is charged later, so the promise does not grow with the length
of the stream. The plan depends on no reading.

*Estimate.* The energy of a day is estimated from its cells and its own sum, that of a month from
all tables (`hushmeter.releases.least_squares`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.advice.planner import calendar_of
from hushmeter.checks import IntArray
from hushmeter.errors import InputError
from hushmeter.live.publication import Closing, Publication
from hushmeter.live.state import Item, SumRow, WindowRow
from hushmeter.live.stream import Terms
from hushmeter.privacy.tables import Table
from hushmeter.releases.calendar import Calendar, lay_out
from hushmeter.releases.calendar_release import SHARE_DECIMALS, CalendarRelease
from hushmeter.releases.least_squares import TABLES, TableEstimate
from hushmeter.releases.series import scale_up
from hushmeter.releases.view_plan import HOURLY_COST, ViewPlan
from hushmeter.releases.views import add_up, cell_steps, table_noise, write_views_receipt
from hushmeter.trace import JOULES_PER_KWH, SECONDS_PER_DAY, Trace

if TYPE_CHECKING:
    from hushmeter.ledger import DayChange, Price

CELLS, DAYS, HOURS, TOTAL = TABLES


@dataclass(frozen=True)
class CalendarTerms(Terms):
    """A stream of calendar releases, one for each civil month.

    Parameters
    ----------
    name, unit, zone, grace_s, hold, heartbeat_s, seed, simulation, home, accept_learnt
        See `Terms`.
    plan : ViewPlan
        The noise of the tables.
    bounds_w : (float, float), optional
        Bounds to which readings are clamped [W].
    hourly_cost : float
        See `hushmeter.release_views`.

    Raises
    ------
    InputError
        If the terms cannot be kept by a stream.
    """

    plan: ViewPlan
    bounds_w: tuple[float, float] | None = None
    hourly_cost: float = HOURLY_COST

    @property
    def grid(self) -> Fraction:
        """Grid of the cells [W]."""
        return self.plan.grid

    @property
    def clamp(self) -> tuple[float, float] | None:
        """Declared bounds of a reading [W], if there are any."""
        return self.bounds_w

    @property
    def std(self) -> float:
        """Standard deviation of the noise of one cell [W]."""
        return float(self.plan.sigmas[0]) * float(self.grid)

    def price(self, protects: DayChange) -> Price:
        """Return what a UTC day costs in a ledger, for its part in all tables."""
        # A stream without a ledger does not load its package.
        from hushmeter.releases.payment import price_of_views

        month = common_month(self.unit.interval_s, self.window_s, self.zone)
        return price_of_views(self.plan, protects.on_unit(self.unit, self.clamp), month)

    def period_of(self, day: str) -> str:
        """Return the month of a day: a month is one release."""
        return day[:7]

    def describe_noise(self) -> dict[str, Any]:
        """Return the noise of all tables and the ε, δ and odds of all of them together."""
        month = common_month(self.unit.interval_s, self.window_s, self.zone)
        receipt = self._receipt(month)
        names = ("epsilon", "delta", "rho", "odds", "grid", "hourly_cost", "clamp", "tables")
        return {name: receipt[name] for name in names}

    def receipt_of(self, released: Trace) -> dict[str, Any]:
        """Return the public receipt of the cells of a day as plain values."""
        return self._receipt(lay_out(released, self.zone, whole_day=False))

    def _receipt(self, calendar: Calendar) -> dict[str, Any]:
        return write_views_receipt(
            self.unit,
            calendar,
            self.plan,
            home=self.home,
            hourly_cost=self.hourly_cost,
            clamp=self.clamp,
            simulation=self.simulation,
        )

    def exact_steps(self, rows: Sequence[WindowRow]) -> IntArray:
        """Return the cells without noise [grid steps]; they are private."""
        means = np.array([row.mean for row in rows], dtype=float)
        return cell_steps(means, self.grid)

    def month_release(self, rows: Sequence[WindowRow], sums: Sequence[SumRow]) -> CalendarRelease:
        """Put the published tables of a month together.

        Parameters
        ----------
        rows : sequence of WindowRow
            The windows of the month that have a value.
        sums : sequence of SumRow
            The sums of the month.

        Returns
        -------
        CalendarRelease
            As `release_views` returns it, without the private part.
        """
        cells = self.trace_of([row.number for row in rows], [row.value or 0.0 for row in rows])
        calendar = lay_out(cells, self.zone, whole_day=False)
        tables = noisy_tables(calendar, rows, sums)
        shares = np.round([row.share for row in rows], SHARE_DECIMALS)
        present = None if (shares == 1).all() else shares
        return CalendarRelease(calendar, tables, self.plan, self._receipt(calendar), shares=present)


def common_month(interval_s: float, cell_s: float, zone: str) -> Calendar:
    """Return the cells for which the noise of a stream is planned.

    They are a month of 30 days or, where the clock is changed, a year: the noise must cover the
    days of 23 and 25 hours.

    Parameters
    ----------
    interval_s, cell_s : float
        Lengths of a metered reading and of a cell [s].
    zone : str
        Time zone of the days.

    Returns
    -------
    Calendar

    Raises
    ------
    InputError
        If the cells are not whole numbers of readings, or do not divide half a day.
    """
    calendar = calendar_of(None, interval_s, every=cell_s)
    if calendar is None or calendar.cells.interval_s != cell_s:
        raise InputError(
            f"a calendar needs windows that are whole numbers of readings of {interval_s:g} s and "
            f"divide half a day, but {cell_s:g} s do not; choose --every 1h."
        )
    if zone.upper() == "UTC":
        return calendar
    cells = Trace(np.zeros(round(366 * SECONDS_PER_DAY / cell_s)), cell_s, "2024-01-01T00:00Z")
    return lay_out(cells, zone, whole_day=False)


def noisy_tables(
    calendar: Calendar, rows: Sequence[WindowRow], sums: Sequence[SumRow]
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return the published tables of one month [grid steps], with zeros for what is not published.

    Parameters
    ----------
    calendar : Calendar
        The cells of the month.
    rows : sequence of WindowRow
        Its windows that have a value.
    sums : sequence of SumRow
        Its sums.
    """
    cells = np.array([row.steps for row in rows], dtype=np.int64)
    days = np.zeros(calendar.days.size, dtype=np.int64)
    hours = np.zeros((1, calendar.hours), dtype=np.int64)
    total = np.zeros(1, dtype=np.int64)
    places = {str(day): place for place, day in enumerate(calendar.days)}
    for row in sums:
        if row.name == DAYS:
            days[places[row.label]] = row.steps
        elif row.name == HOURS:
            hours[0, row.place] = row.steps
        else:
            total[0] = row.steps
    return cells, days, hours, total


class CalendarPublication(Publication[CalendarTerms]):
    """Noise of their own for cells, days, hours of the day and months."""

    def _protect(self, row: WindowRow, mean: float) -> WindowRow:
        key = self._key(row.day)
        draw = self._state.next_draw(key)
        exact = WindowRow(row.number, row.day, row.share, mean, key, draw, None)
        steps = int(self._terms.exact_steps([exact])[0]) + self._noise(CELLS, key, draw, 1)[0]
        grid = float(self._terms.grid)
        value = scale_up(np.array([steps * grid]), np.array([row.share]), grid)[0]
        return WindowRow(row.number, row.day, row.share, mean, key, draw, float(value), int(steps))

    def _noise(self, table: str, key: int, draw: int, count: int) -> list[int]:
        """Noise of a number of draws of a table [grid steps]."""
        sigma = float(self._terms.plan.sigmas[TABLES.index(table)])
        noise = table_noise(table, sigma, self._state.key(key), draw + count)
        return [int(n) for n in noise[draw:]]

    def _end_day(self, done: Closing, *, month_ends: bool) -> None:
        last = done.row
        rows = self._rows(last.day, last)
        day = self._sums(DAYS, last.day, [int(self._terms.exact_steps(rows).sum())] if rows else [])
        done.sums += day
        steps = day[0].steps if day else None
        done.items.append(
            self._sum_item(
                "day", last.day, last.number, rows, self._day_energy(rows, steps), noisy_steps=steps
            )
        )
        if month_ends:
            self._end_month(done)

    def _end_month(self, done: Closing) -> None:
        """Add the hours of the day and the total of a month."""
        last, month = done.row, done.row.day[:7]
        rows = self._rows(month, last)
        if not rows:
            done.items.append(self._sum_item("month", month, last.number, rows, None))
            return
        cells = self._terms.trace_of(
            [row.number for row in rows], [row.mean or 0.0 for row in rows]
        )
        calendar = lay_out(cells, self._terms.zone, whole_day=False)
        _, _, hours, total = add_up(cells.readings, calendar, self._terms.grid)
        # The sum of the last day is among the sums that are committed now.
        done.sums += self._sums(HOURS, month, hours[0].tolist())
        done.sums += self._sums(TOTAL, month, total.tolist())
        release = self._terms.month_release(rows, [*self._state.sums_of(month), *done.sums])
        energy = float(release.months.values[0]), float(release.months.errors[0])
        noisy = done.sums[-1].steps if done.sums[-1].name == TOTAL else None
        done.items += [
            self._sum_item("month", month, last.number, rows, energy, noisy_steps=noisy),
            self._typical_day(month, last.number, release),
        ]

    def _sums(self, table: str, label: str, exact: Sequence[int]) -> list[SumRow]:
        """Noisy entries of a table; none if the table is not published."""
        if not exact or not math.isfinite(self._terms.plan.sigmas[TABLES.index(table)]):
            return []
        key = self._key(label)
        draw = self._state.next_draw(key, table)
        noise = self._noise(table, key, draw, len(exact))
        return [
            SumRow(table, label, place, key, draw + place, value + noise[place])
            for place, value in enumerate(exact)
        ]

    def _day_energy(
        self, rows: Sequence[WindowRow], steps: int | None
    ) -> tuple[float, float] | None:
        """Estimated energy of a day and its standard error [kWh], from its cells and its sum."""
        if not rows:
            return None
        whole = Table("day", np.zeros(len(rows), dtype=np.int64), 1)
        scales = np.array([1 / row.share for row in rows])
        fit = TableEstimate((whole,), self._terms.plan.weights[:2], scales)
        cells = np.array([row.steps for row in rows], dtype=float)
        found = fit.solve(cells, [np.array([float(steps or 0)])])
        kwh = self._terms.window_s / JOULES_PER_KWH * float(self._terms.grid)
        return float(found.sum()) * kwh, math.sqrt(float(fit.sum_variances(whole)[0])) * kwh

    def _typical_day(self, month: str, last: int, release: CalendarRelease) -> Item:
        """The message about the mean power of every hour of the day."""
        view = release.profile
        noisy = release.tables[2][0]
        published = math.isfinite(self._terms.plan.sigmas[TABLES.index(HOURS)])
        known = np.unique(release.calendar.layouts[0].hour)
        hours = [
            {
                "hour": str(view.labels["hour"][n]),
                "watts": round(float(view.values[n]), 3),
                "standard_error_w": round(float(view.errors[n]), 3),
                **({"noisy_steps": int(noisy[place])} if published else {}),
            }
            for n, place in enumerate(known[known >= 0])
        ]
        message = {"month": month, "zone": self._terms.zone, "hours": hours, **self._marks}
        return Item("typical-day", month, self._due(last), message)
