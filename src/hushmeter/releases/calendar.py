"""Civil days, months and hours of the day: which released values belong to which of them.

Days matter in two releases: the span "when" publishes the sum of every complete day, and a
calendar release publishes tables of days, hours of the day and months. A civil day has 23, 24 or 25
hours. The times of a trace are public, and so is everything here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hushmeter.checks import IntArray
from hushmeter.clock import civil_days
from hushmeter.errors import DataError, InputError
from hushmeter.privacy.tables import NO_LABEL, Table, every_cell
from hushmeter.trace import SECONDS_PER_DAY, TimeArray, Trace


@dataclass(frozen=True, eq=False)
class MonthLayout:
    """Which cell of a month belongs to which day and to which hour of the day.

    Attributes
    ----------
    day : array of int, shape (n,)
        Number of the day of every cell, 0 … D − 1.
    hour : array of int, shape (n,)
        Number of the window of the day, 0 … H − 1; −1 for a window that a change of the clock
        repeats, which belongs to no hour of the day.
    days, hours : int
        D and H.
    """

    day: IntArray
    hour: IntArray
    days: int
    hours: int


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

    @cached_property
    def first_days(self) -> IntArray:
        """Number of the first day of each month among all days."""
        counts = [layout.days for layout in self.layouts]
        return np.cumsum([0, *counts[:-1]])

    @cached_property
    def series(self) -> Table:
        """The table of the cells themselves."""
        return every_cell(len(self.cells))

    @cached_property
    def tables(self) -> tuple[Table, Table, Table]:
        """The tables of sums: days, hours of the day of each month, and months."""
        day = [
            layout.day + first for layout, first in zip(self.layouts, self.first_days, strict=True)
        ]
        hour = np.concatenate([layout.hour for layout in self.layouts])
        hour = np.where(hour < 0, NO_LABEL, self.month * self.hours + hour)
        count, steps = len(self.months), self.cells.steps
        return (
            Table("days", np.concatenate(day), self.days.size, steps),
            Table("hours", hour, count * self.hours, steps),
            Table("total", self.month, count, steps),
        )

    def rows(self, month: int) -> slice:
        """The cells of a month."""
        return slice(self._bounds[month], self._bounds[month + 1])

    @cached_property
    def _bounds(self) -> list[int]:
        """Number of the first cell of each month, and the number of cells."""
        return list(np.searchsorted(self.month, np.arange(len(self.months) + 1)).tolist())


def lay_out(cells: Trace, zone: str, *, whole_day: bool = True) -> Calendar:
    """Sort cells into months, days and hours of the day.

    Parameters
    ----------
    cells : Trace
        Complete windows; only their times are used.
    zone : str
        Time zone of the days.
    whole_day : bool, default True
        Whether every month must have a complete day. The first month of a stream may have none.

    Returns
    -------
    Calendar

    Raises
    ------
    InputError
        If the windows do not divide a day.
    DataError
        If a month has no complete day but needs one.
    """
    windows = SECONDS_PER_DAY / cells.interval_s
    if windows != round(windows):
        raise InputError(
            f"the windows of a calendar release must divide a day, but {cells.interval_s:g} s do "
            "not; choose every='1h'."
        )
    days = civil_days(cells.times, cells.interval_s, zone)
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
        if whole_day and np.bincount(layout.day).max() < round(windows) * 23 // 24:
            raise DataError(
                f"{name} has no complete day; leave out its readings, because a calendar release "
                "needs at least one complete day in every month."
            )
        layouts.append(layout)
    bare = Trace(np.zeros(len(cells)), cells.interval_s, cells.start, steps=cells.steps)
    return Calendar(bare, zone, tuple(map(str, names)), month, days.days, tuple(layouts))
