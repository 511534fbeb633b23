"""From the mean of a closed window to what is committed: its row and the messages about it.

`SeriesPublication` is that of a stream of windows, whose days and months are sums of protected
windows. `hushmeter.live.calendar` has that of a calendar, whose days and months have noise of their
own.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from hushmeter.live.state import Item, State, SumRow, WindowRow
from hushmeter.live.stream import SeriesTerms, Terms, iso_of
from hushmeter.trace import JOULES_PER_KWH

T = TypeVar("T", bound=Terms)


@dataclass
class Closing:
    """What is committed when a window closes.

    Attributes
    ----------
    row : WindowRow
        The window.
    items : list of Item
        Messages in the order of publication.
    sums : list of SumRow
        Sums of a calendar that end with the window.
    """

    row: WindowRow
    items: list[Item] = field(default_factory=list)
    sums: list[SumRow] = field(default_factory=list)


class Publication(ABC, Generic[T]):
    """Makes the rows and the messages of a stream.

    Parameters
    ----------
    terms : Terms
        The public terms.
    state : State
        Keys and committed windows.
    new_key : callable
        Makes the key of a period.
    due : callable
        Time at which a window is published [ns since 1970].
    """

    def __init__(
        self, terms: T, state: State, new_key: Callable[[str], bytes], due: Callable[[int], int]
    ) -> None:
        self._terms, self._state, self._new_key, self._due = terms, state, new_key, due

    def close(self, number: int, share: float, mean: float | None) -> Closing:
        """Protect a window that is paid for.

        Parameters
        ----------
        number : int
            Number of the window.
        share : float
            Share of its readings that are present.
        mean : float or None
            Its mean [W], with missing readings counted as zero; None if too few are present.

        Returns
        -------
        Closing
            To be committed before anything is published.
        """
        day = self._terms.day_of(number)
        row = WindowRow(number, day, share, None, None, None, None)
        if mean is not None:
            row = self._protect(row, mean)
        done = Closing(row, [self._window_item(row)])
        after = self._terms.day_of(number + 1)
        if after != day:
            self._end_day(done, month_ends=after[:7] != day[:7])
        return done

    @abstractmethod
    def _protect(self, row: WindowRow, mean: float) -> WindowRow:
        """Return the row of a window with its noise."""

    @abstractmethod
    def _end_day(self, done: Closing, *, month_ends: bool) -> None:
        """Add what is published at the end of a day and, perhaps, of a month."""

    def _key(self, day: str) -> int:
        """Number of the key for the period of a day."""
        period = self._terms.period_of(day)
        return self._state.key_for(
            period, lambda: self._new_key(period), again=self._terms.seed is not None
        )

    @property
    def _marks(self) -> dict[str, Any]:
        """Fields of every message of a simulation."""
        return {"simulation": True} if self._terms.simulation else {}

    def _window_item(self, row: WindowRow) -> Item:
        """The message about one window."""
        terms = self._terms
        start = row.number * terms.window_ns
        known = row.value is not None
        message = {
            "start": iso_of(start),
            "end": iso_of(start + terms.window_ns),
            "day": row.day,
            "watts": row.value,
            "standard_error_w": round(terms.std / row.share, 3) if known else None,
            "complete": row.share == 1.0,
            "share": round(row.share, 4),
            **({} if row.steps is None else {"noisy_steps": row.steps}),
            **self._marks,
        }
        return Item("window", message["start"], self._due(row.number), message)

    def _rows(self, label: str, last: WindowRow) -> list[WindowRow]:
        """Windows of a day or a month that have a value; the last one is not committed yet."""
        rows = [*self._state.windows_of(label), last]
        return [row for row in rows if row.value is not None]

    def _sum_item(
        self,
        kind: str,
        label: str,
        last: int,
        rows: Sequence[WindowRow],
        energy: tuple[float, float] | None,
        **more: Any,
    ) -> Item:
        """The message about the energy of a day or a month and its standard error [kWh]."""
        terms = self._terms
        first = terms.numbers_of_day(label if kind == "day" else f"{label}-01")[0]
        due = last - first + 1
        message = {
            kind: label,
            "zone": terms.zone,
            "start": iso_of(first * terms.window_ns),
            "end": iso_of((last + 1) * terms.window_ns),
            "kwh": None if energy is None else round(energy[0], 6),
            "standard_error_kwh": None if energy is None else round(energy[1], 6),
            "windows": len(rows),
            "due": due,
            "complete": len(rows) == due and all(row.share == 1.0 for row in rows),
            **more,
            **self._marks,
        }
        return Item(kind, label, self._due(last), message)


class SeriesPublication(Publication[SeriesTerms]):
    """Independent noise for every window; days and months are sums, which cost no privacy."""

    def _protect(self, row: WindowRow, mean: float) -> WindowRow:
        key = self._key(row.day)
        draw = self._state.next_draw(key)
        value = self._terms.protect(mean, row.share, self._state.key(key), draw)
        return WindowRow(row.number, row.day, row.share, mean, key, draw, value)

    def _end_day(self, done: Closing, *, month_ends: bool) -> None:
        last = done.row
        labels = [("day", last.day), *([("month", last.day[:7])] if month_ends else [])]
        for kind, label in labels:
            rows = self._rows(label, last)
            done.items.append(self._sum_item(kind, label, last.number, rows, self._energy(rows)))

    def _energy(self, rows: Sequence[WindowRow]) -> tuple[float, float] | None:
        """Sum of protected windows and its standard error [kWh]."""
        if not rows:
            return None
        kwh = self._terms.window_s / JOULES_PER_KWH
        error = math.sqrt(math.fsum((self._terms.std / row.share) ** 2 for row in rows))
        return math.fsum(row.value or 0.0 for row in rows) * kwh, error * kwh
