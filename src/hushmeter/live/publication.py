"""From the mean of a closed window to what is committed: its row, sums and messages.

Every period of the stream (a civil day, or a month if more than the windows is published) is one
release whose tables are published as they are complete: a cell at the end of its window, the sum of
a day at midnight, all other tables at the end of the month. The draws of each table are numbered in
the order of publication, so a period that one process protects from its first to its last window
has the same numbers as `Promise.release` of its readings with the same key.

ε holds for all tables together and is spent from the first window on: the noise of the cells is
that of the whole promise, even if the stream ends before the day or the month does. All months have
the same noise. A run that is divided between two months changes the tables of each by a part, and
the squares of the lengths of both parts add up to at most the square of the declared length, so the
promise does not grow with the length of the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hushmeter.checks import IntArray
from hushmeter.live.state import Item, State, SumRow, WindowRow
from hushmeter.live.stream import DAYS, Terms, iso_of, names_of
from hushmeter.releases.files import DECIMALS
from hushmeter.releases.labels import CELLS
from hushmeter.releases.promise import NoisyTable, table_key
from hushmeter.releases.release import HOURS, Release

FIELDS = {"W": ("watts", "standard_error_w"), "kWh": ("kwh", "standard_error_kwh")}
"""Names of a value and of its standard error in a message, by their unit."""

VIEW_OF = {"day": DAYS, "month": "months"}
"""The view with the energy of a period."""


@dataclass
class Closing:
    """What is committed when a window closes: the window, messages in order, and ended sums."""

    row: WindowRow
    items: list[Item] = field(default_factory=list)
    sums: list[SumRow] = field(default_factory=list)


class Publication:
    """Makes the rows and the messages of a stream.

    `new_key` makes the key of a period, and `due` tells when a window is published [ns since 1970].
    """

    def __init__(
        self, terms: Terms, state: State, new_key: Callable[[str], bytes], due: Callable[[int], int]
    ) -> None:
        self._terms, self._state, self._new_key, self._due = terms, state, new_key, due

    def close(self, number: int, share: float, mean: float | None) -> Closing:
        """Protect a window that is paid for, given its mean [W]; None if too few readings came.

        The result is to be committed before anything is published.
        """
        day, after = self._terms.day_of(number), self._terms.day_of(number + 1)
        row = WindowRow(number, day, share)
        if mean is not None:
            row = self._protect(replace(row, mean=mean), mean)
        done = Closing(row, [self._window_item(row)])
        if after != day:
            self._end(done, "day", day)
        if after[:7] != day[:7]:
            self._end(done, "month", day[:7])
        return done

    def _protect(self, row: WindowRow, mean: float) -> WindowRow:
        """Return the row of a window with its noise."""
        exact = self._terms.exact_steps(np.array([mean]))
        key, draw, steps = self._draw(self._terms.promise.tables[0], row.day, exact)
        noisy = replace(row, key=key, draw=draw, steps=steps[0])
        return replace(noisy, value=float(self._terms.release_of([noisy]).estimate[0]))

    def _draw(self, entry: NoisyTable, day: str, exact: IntArray) -> tuple[int, int, list[int]]:
        """Return the key and the first draw of exact sums, and the noisy sums [grid steps]."""
        period = self._terms.period_of(day)
        key = self._state.key_for(
            period, lambda: self._new_key(period), again=self._terms.seed is not None
        )
        draw, secret = self._state.next_draw(key, entry.name), self._state.key(key)
        own = secret if entry.name == CELLS else table_key(secret, entry.name)
        assert entry.noise is not None
        # The earlier draws of the key belong to earlier sums, so they are drawn and left out.
        noise = entry.noise.sample(draw + exact.size, key=own)[draw:]
        return key, draw, (exact + noise).tolist()

    def _end(self, done: Closing, kind: str, label: str) -> None:
        """Add what is published at the end of a day or a month."""
        last = done.row
        rows = [one for one in (*self._state.windows_of(label), last) if one.value is not None]
        if not rows:
            done.items.append(self._sum_item(kind, label, last.number, rows, None))
            return
        # The sum of the last day of a month is among the sums that are committed now.
        done.sums += self._sums(kind, label, rows)
        release = self._terms.release_of(rows, [*self._state.sums_of(label), *done.sums])
        done.items.append(self._sum_item(kind, label, last.number, rows, release))
        if kind == "month":
            shown = [entry.name for entry in release.promise.tables]
            others = [name for name in shown if name not in (CELLS, *VIEW_OF.values())]
            done.items += [self._table_item(name, label, last.number, release) for name in others]

    def _sums(self, kind: str, label: str, rows: Sequence[WindowRow]) -> list[SumRow]:
        """Return the noisy sums of all tables that end with a day or with a month."""
        promise = self._terms.promise.on(self._terms.cells_of(rows))
        steps = self._terms.exact_steps(np.array([row.mean for row in rows], dtype=float))
        found = []
        for entry in promise.tables[1:]:
            if (entry.name == DAYS) != (kind == "day"):
                continue
            exact = entry.table.sums(steps.astype(float)).astype(np.int64)
            key, draw, noisy = self._draw(entry, label, exact)
            found += [
                SumRow(entry.name, name, key, draw + place, noisy[place])
                for place, name in enumerate(names_of(entry.table))
            ]
        return found

    def _window_item(self, row: WindowRow) -> Item:
        """The message about one window."""
        start, error = row.number * self._terms.window_ns, None
        if row.value is not None:
            error = round(float(self._terms.release_of([row]).view(HOURS).errors[0]), 3)
        message = {
            "start": iso_of(start),
            "end": iso_of(start + self._terms.window_ns),
            "day": row.day,
            "watts": row.value,
            "standard_error_w": error,
            "complete": row.share == 1.0,
            "share": round(row.share, 4),
            **({} if row.steps is None else {"noisy_steps": row.steps}),
            **self._terms.marks,
        }
        return Item("window", str(message["start"]), self._due(row.number), message)

    def _sum_item(
        self, kind: str, label: str, last: int, rows: Sequence[WindowRow], release: Release | None
    ) -> Item:
        """The message about the energy of a day or a month."""
        first = self._terms.first_of_day(label if kind == "day" else f"{label}-01")
        due = last - first + 1
        energy: dict[str, Any] = dict.fromkeys(FIELDS["kWh"])
        if release is not None:
            (energy,) = _rows_of(release, VIEW_OF[kind])
        message = {
            kind: label,
            "zone": self._terms.zone,
            "start": iso_of(first * self._terms.window_ns),
            "end": iso_of((last + 1) * self._terms.window_ns),
            "windows": len(rows),
            "due": due,
            "complete": len(rows) == due and all(row.share == 1.0 for row in rows),
            **{name: value for name, value in energy.items() if name not in (kind, "cells")},
            **self._terms.marks,
        }
        return Item(kind, label, self._due(last), message)

    def _table_item(self, name: str, month: str, last: int, release: Release) -> Item:
        """The message about another table of a month, such as the typical day or bands."""
        values = [{n: v for n, v in row.items() if n != "month"} for row in _rows_of(release, name)]
        message = {"month": month, "zone": self._terms.zone, "values": values, **self._terms.marks}
        return Item(name, month, self._due(last), message)


def _rows_of(release: Release, name: str) -> list[dict[str, Any]]:
    """Return the values of a view as plain values: labels, value, standard error, noisy sum."""
    view, steps = release.view(name), release.noisy_steps(name)
    value, error = FIELDS[view.unit]
    columns = {
        **{label: np.asarray(column).tolist() for label, column in view.labels.items()},
        value: np.round(view.values, DECIMALS[view.unit]).tolist(),
        error: np.round(view.errors, DECIMALS[view.unit]).tolist(),
        **({} if steps is None else {"noisy_steps": steps.tolist()}),
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
