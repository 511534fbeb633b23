"""The channels of a table: the columns and rows that a run of an appliance changes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from tests.neighbours.raw_cells import Row
from tests.neighbours.raw_channels import Channel, Run, Words, make_channel, read_cells, set_price

from hushmeter.checks import FloatArray, IntArray
from hushmeter.read.column_roles import PlannedTable
from hushmeter.read.columns import Column, times_of_day
from hushmeter.read.headers import has_word, read_meaning, split_words
from hushmeter.read.recording import PublicFacts

# What a plug writes while nothing runs.
OFF = re.compile(r"(?i)|0+([.,]0+)?|-+|off|aus|uit|idle|none|nan|null|standby")
MOST_WORDS = 8


@dataclass
class Layout:
    """The channels of a file, and its columns whose change by a run is not known."""

    channels: list[Channel] = field(default_factory=list)
    words: list[Words] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    flips: Callable[[Run], dict[tuple[int, int], Any]] | None = None


@dataclass
class TableChannels:
    """The channels of a planned table."""

    cells: list[Row]  # All cells of the file
    public: PublicFacts
    planned: PlannedTable
    rows: IntArray  # The file's row of every row of the table
    columns: list[Column]  # The columns of the file
    seconds: Callable[[IntArray], FloatArray]  # Starts of some rows of the table [s since 1970]
    parts: list[IntArray]  # The rows of every series that is read
    found: Layout = field(default_factory=Layout)
    turned: str = ""  # The column of words that name a direction which a run can turn

    @property
    def unit(self) -> str:
        """The unit of the meter."""
        return self.public.unit

    def layout(self) -> Layout:
        """The channels of all columns, the meter's first."""
        plan = self.planned.plan
        names = [column.name for column in self.columns]
        values = [column.name for column in plan.values]
        if not set(values) <= set(names):
            return self._day_rows(names)
        for part in self.parts:
            for name in values:
                self._add("use", names.index(name), part, plan.counter)
        self._other_rows(names.index(values[0]))
        if len(self.parts) == 1:
            for place, column in enumerate(self.columns):
                if column.name not in {*values, *plan.time.names, self.turned}:
                    self._other_column(place, column)
        set_price(self.found.channels)
        return self.found

    def _add(self, role: str, place: int, mine: IntArray, counter: bool, unit: str = "") -> None:
        """Add the channel of one column in some rows of the table."""
        order = mine[np.argsort(self.seconds(mine), kind="stable")]
        moments = self.seconds(order)
        lengths: Any = self.public.interval_s
        if counter:
            lengths = np.maximum(np.diff(moments, prepend=moments[0] - 1.0), 1e-6)
            moments = moments - lengths
        places = [(int(self.rows[i]), place) for i in order]
        name = self.columns[place].name
        self.found.channels.append(
            make_channel(
                self.cells,
                role,
                places,
                moments,
                lengths,
                unit or self.unit,
                name=name,
                counter=counter,
            )
        )

    def _day_rows(self, names: Sequence[str]) -> Layout:
        """One row for each day: the columns are times of the day."""
        places = times_of_day(names)
        assert places is not None
        count = len(places)
        moments = self.seconds(self.parts[0])
        cells = [(int(self.rows[k // count]), places[k % count]) for k in self.parts[0].tolist()]
        length = self.public.interval_s
        channel = make_channel(self.cells, "use", cells, moments, length, self.unit)
        numbers = [c.name for i, c in enumerate(self.columns) if i not in places
                   and c.kind == "number" and _varies(c)]  # fmt: skip
        return Layout([channel], unknown=numbers)

    def _other_rows(self, place: int) -> None:
        """Rows that are not the meter's own: of another direction, or of a plug."""
        every = np.arange(self.rows.size)
        left = np.setdiff1d(every, np.concatenate(self.parts))
        keys = [c for c in self.planned.plan.keys if not c.names_meter]
        groups: dict[str, list[int]] = {}
        for i in left.tolist():
            words = " ".join(str(c.data[i] or "") for c in keys)
            groups.setdefault(words, []).append(i)
        counter = self.planned.plan.counter
        for words, numbers in groups.items():
            mine = np.array(numbers)
            if read_meaning(words).flow != "export":
                self.found.unknown.append(words)
                continue
            uses = self.seconds(np.concatenate(self.parts))
            if not counter and not np.isin(self.seconds(mine), uses).any():
                self._flip(place, mine, keys)
                return
            self._add("export", place, mine, counter)

    def _flip(self, place: int, fed: IntArray, keys: Sequence[Column]) -> None:
        """A word names the direction of the only row of its time: a run can turn it."""
        names = [column.name for column in self.columns]
        key = next(c for c in keys if c.data[int(fed[0])] != c.data[int(self.parts[0][0])])
        column, drawn = names.index(key.name), key.data[int(self.parts[0][0])]
        self._add("use", place, np.sort(np.concatenate([*self.parts, fed])), counter=False)
        whole = self.found.channels[-1]
        rows = {int(self.rows[i]) for i in fed}
        sign = np.array([-1.0 if row in rows else 1.0 for row, _ in whole.places])

        def flips(run: Run) -> dict[tuple[int, int], Any]:
            added = run.mean(whole.starts, whole.ends)
            net = sign * whole.powers + added
            cells: dict[tuple[int, int], Any] = {}
            for i in np.flatnonzero(added > 0):
                row = whole.places[i][0]
                cells[row, place] = whole.form.cell(float(abs(net[i]) / whole.watts[i]))
                if net[i] >= 0:
                    cells[row, column] = drawn
            return cells

        self.found.flips = flips
        self.turned = key.name

    def _other_column(self, place: int, column: Column) -> None:
        """A column beside the meter: another direction, a plug, a cost, a peak, or unknown."""
        mine, meaning = self.parts[0], column.meaning
        unit = meaning.unit or (self.unit if meaning.flow not in ("other", "price") else "")
        cells = [self.cells[int(self.rows[i])][place] for i in mine]
        silent = OFF.fullmatch(str(cells[0] if cells[0] is not None else "")) is not None
        if len({str(cell) for cell in cells}) == 1 and not silent:
            return
        if column.kind in ("number", "empty") or silent or self._mostly_numbers(cells):
            if (
                has_word(column.name, "peak") or "max" in split_words(column.name)
            ) and meaning.unit in ("W", "kW"):
                self._add("peak", place, mine, False, unit)
            elif meaning.flow == "export" and unit:
                self._add("export", place, mine, meaning.counter or self.planned.plan.counter, unit)
            elif meaning.flow == "price":
                self._add("cost", place, mine, False, self.unit)
            elif meaning.flow in ("use", "net", "import") and unit and meaning.part != "tariff":
                self._add("sum", place, mine, meaning.counter or self.planned.plan.counter, unit)
            elif meaning.flow == "" and (unit or column.kind == "empty"):
                counter = meaning.counter or bool(meaning.unit and meaning.part == "total")
                self._add("plug", place, mine, counter, unit or self.unit)
            else:
                self.found.unknown.append(column.name)
        elif column.kind == "text" and column.name not in self.planned.plan.time.names:
            self._words(place, column, cells)

    @staticmethod
    def _mostly_numbers(cells: Sequence[Any]) -> bool:
        """True if most cells that are not the commonest word are numbers."""
        values, _ = read_cells(cells)
        common = Counter(str(cell) for cell in cells).most_common(1)[0][1]
        known = int(np.isfinite(values).sum())
        return known > 0 and known + common >= 0.9 * len(cells)

    def _words(self, place: int, column: Column, cells: Sequence[Any]) -> None:
        """Words that follow from the meter's power: the powers of one do not overlap another's."""
        meter = self.found.channels[0]
        words = dict(zip([row for row, _ in meter.places], meter.powers, strict=True))
        powers = np.array([words.get(int(self.rows[i]), np.nan) for i in self.parts[0]])
        distinct = sorted({str(c) for c in cells}, key=lambda w: _lowest(w, cells, powers))
        spans = [powers[[str(c) == word for c in cells]] for word in distinct]
        apart = all(np.nanmax(one) < np.nanmin(two) for one, two in pairwise(spans))
        if len(distinct) > MOST_WORDS or not apart:
            self.found.unknown.append(column.name)
            return
        limits = [float(np.nanmax(one) + np.nanmin(two)) / 2
                  for one, two in pairwise(spans)]  # fmt: skip
        places = [(int(self.rows[i]), place) for i in self.parts[0]]
        starts = self.seconds(self.parts[0])
        ends = starts + self.public.interval_s
        self.found.words.append(Words(places, powers, starts, ends, distinct, limits))


def _varies(column: Column) -> bool:
    return len(column.data.distinct()) > 1


def _lowest(word: str, cells: Sequence[Any], powers: FloatArray) -> float:
    """The smallest power at which a word was written [W]."""
    return float(np.nanmin(powers[[str(cell) == word for cell in cells]], initial=np.inf))


__all__ = ["MOST_WORDS", "Layout", "TableChannels"]
