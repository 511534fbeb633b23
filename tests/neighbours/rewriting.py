"""A raw file as its devices would have written it with one more run of an appliance.

A channel is what one device writes into one column: the meter, a direction, a register, a plug, a
cost. `RawFile` finds the channels with the reader's own plan of the file. A run then changes every
channel that it would have changed, and the words that follow from a value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from tests.neighbours.raw_cells import CODES, ParquetCells, RawCells, Row, open_cells
from tests.neighbours.raw_changes import ChangedRows, moment_of
from tests.neighbours.raw_channels import (
    Channel,
    Run,
    find_takers,
    is_plug_of,
    make_channel,
    set_price,
    sum_by_time,
)
from tests.neighbours.raw_tables import MOST_WORDS, Layout, TableChannels

from hushmeter.checks import FloatArray, IntArray
from hushmeter.errors import DataError
from hushmeter.read import ReadOptions, Recording, read_bytes
from hushmeter.read.cells import of_arrow
from hushmeter.read.column_roles import PlannedTable, plan_table
from hushmeter.read.columns import (
    Column,
    TimePlan,
    classify,
    find_stamp,
    read_row_times,
    whole_table,
)
from hushmeter.read.meter_records import MARKET_OFFSET_S, telegram_seconds, winter_offset
from hushmeter.read.recording import Task
from hushmeter.read.source import MemoryFile
from hushmeter.read.table import RowChoice
from hushmeter.read.text_table import RawTable, find_frame, table_of_rows
from hushmeter.read.times import to_utc
from hushmeter.trace import SECONDS_PER_HOUR

LARGEST_FILE = 50_000_000
MARK = "hushmeter_row"


class RawFile:
    """A file, and its versions with one more run."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self.name, self.options = path.name, options
        try:
            content = path.read_bytes()
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}.") from None
        if len(content) > LARGEST_FILE:
            raise DataError(
                f"{path} has more than {LARGEST_FILE / 1e6:g} MB; audit a shorter part of it."
            )
        self.recording = self._read(content)
        self.cells: RawCells = open_cells(content, options, self.name)
        same = self._read(self.cells.write(self.cells.rows))
        if not np.array_equal(same.watts, self.recording.watts):
            raise DataError(f"{path} cannot be written anew as it is, so it cannot be audited.")
        if self._changes is None:
            self._layout  # noqa: B018  # What cannot be audited is refused at once.

    def _read(self, content: bytes) -> Recording:
        """Read a version of the file through the public entry."""
        return read_bytes(content, self.name, self.options)

    def read_with(self, run: Run) -> Recording:
        """Read the version of the file with one more run."""
        if self._changes is not None:
            return self._read(self.cells.write(self._changes.with_run(run)))
        rows = [list(row) for row in self.cells.rows]
        for (row, column), cell in self._cells_of(run).items():
            rows[row][column] = cell
        return self._read(self.cells.write(rows))

    def unknown_for(self, names: Sequence[str]) -> list[str]:
        """Columns that no run of these appliances changes in an audit, though it might."""
        if self._changes is not None:
            return []
        mine = {c.name for c in self._layout.channels if c.role == "plug"
                and any(is_plug_of(c.name, name) for name in names)}  # fmt: skip
        plugs = [c.name for c in self._layout.channels if c.role == "plug" and c.name not in mine]
        return [*self._layout.unknown, *plugs]

    @cached_property
    def _layout(self) -> Layout:
        finders: dict[str, Callable[[], Layout]] = {
            "nem": self._nem,
            "ha-energy": self._ha_energy,
            "greenbutton": self._green_button,
            "dsmr": self._dsmr,
        }
        layout = finders.get(self.cells.kind, self._table)()
        if not any(channel.role == "use" for channel in layout.channels):
            raise DataError(
                f"{self.name} ({self.recording.public.format}): the values of the meter could not "
                "be found in the file."
            )
        return layout

    def _cells_of(self, run: Run) -> dict[tuple[int, int], Any]:
        """All cells that a run changes."""
        layout = self._layout
        changed = self._drawn(run) if layout.flips is None else layout.flips(run)
        for channel in layout.channels:
            changed |= self._follows(channel, run)
        for words in layout.words:
            changed |= words.changed(run.mean(words.starts, words.ends))
        return changed

    def _drawn(self, run: Run) -> dict[tuple[int, int], Any]:
        """The cells of both directions: less is fed in, and more is drawn."""
        uses = [c for c in self._layout.channels if c.role == "use"]
        exports = [c for c in self._layout.channels if c.role == "export"]
        fed = sum_by_time(exports, [channel.powers for channel in exports])
        changed: dict[tuple[int, int], Any] = {}
        for channel in exports:
            saved = np.minimum(run.mean(channel.starts, channel.ends), channel.powers)
            changed |= channel.changed(-saved, run.seed)
        for channel, share in zip(uses, find_takers(uses), strict=True):
            back = np.array([fed.get(t, 0.0) for t in channel.starts.tolist()])
            added = np.maximum(run.mean(channel.starts, channel.ends) - back, 0.0) * share
            changed |= channel.changed(added, run.seed)
        return changed

    @staticmethod
    def _follows(channel: Channel, run: Run) -> dict[tuple[int, int], Any]:
        """The cells of plugs, sums, costs and peaks that a run changes."""
        added = run.mean(channel.starts, channel.ends)
        if channel.role == "peak":
            return channel.changed(np.where(added > 0, run.watts, 0.0), run.seed)
        plug = channel.role == "plug" and is_plug_of(channel.name, run.appliance)
        return channel.changed(added, run.seed) if plug or channel.role in ("sum", "cost") else {}

    # Formats with places of their own -----------------------------------------------------------

    def _nem(self) -> Layout:
        """Energies of the days (300) of every register (200): E is drawn, B is fed in."""
        layout = Layout()
        register: Row = []
        found: dict[str, list[tuple[int, int, float, float]]] = {}
        units: dict[str, str] = {}
        for number, row in enumerate(self.cells.rows):
            if row[:1] == ["200"]:
                register, units[row[4]] = row, row[7]
            elif row[:1] == ["300"]:
                minutes = int(register[8])
                date = datetime.strptime(row[1], "%Y%m%d").replace(tzinfo=UTC)
                midnight = date.timestamp() - MARKET_OFFSET_S
                for i in range(1440 // minutes):
                    entry = (number, i + 2, midnight + 60.0 * minutes * i, 60.0 * minutes)
                    found.setdefault(register[4], []).append(entry)
        for suffix, entries in found.items():
            role = {"E": "use", "B": "export"}.get(suffix[:1])
            if role is None or (role == "use" and any(c.role == "use" for c in layout.channels)):
                layout.unknown.append(suffix)
                continue
            places = [(row, column) for row, column, _, _ in entries]
            times, lengths = ([entry[k] for entry in entries] for k in (2, 3))
            layout.channels.append(
                make_channel(self.cells.rows, role, places, times, lengths, units[suffix].lower())
            )
        return layout

    def _ha_energy(self) -> Layout:
        """One row for each sensor; the header has the times."""
        header, *rows = self.cells.rows
        starts = [datetime.fromisoformat(text).timestamp() for text in header[3:]]
        length = self.recording.public.interval_s
        roles = {"grid_consumption": "use", "grid_return": "export", "device_consumption": "plug"}
        layout = Layout()
        for number, row in enumerate(rows, 1):
            role = roles.get(row[1]) if len(row) > 2 else None
            if role is None:
                layout.unknown += row[:1]
                continue
            places = [(number, j) for j in range(3, len(header))]
            layout.channels.append(
                make_channel(self.cells.rows, role, places, starts, length, row[2], name=row[0])
            )
        return layout

    def _green_button(self) -> Layout:
        """The blocks of intervals that the readings come from; others are not changed."""
        layout = Layout()
        rows = self.cells.rows
        for block in sorted({row[4] for row in rows}):
            mine = [i for i, row in enumerate(rows) if row[4] == block]
            scale = self._watt_hours_per_unit(mine)
            starts = [float(rows[i][0]) for i in mine]
            lengths = np.array([float(rows[i][1]) for i in mine])
            if scale is None:
                layout.unknown.append(f"block {block}")
                continue
            for column, role in ((2, "use"), (3, "cost")):
                if rows[mine[0]][column] is None:
                    continue
                places = [(i, column) for i in mine]
                channel = make_channel(self.cells.rows, role, places, starts, lengths, "Wh")
                layout.channels.append(replace(channel, watts=channel.watts * scale))
            set_price(layout.channels)
        return layout

    def _watt_hours_per_unit(self, rows: Sequence[int]) -> float | None:
        """Energy in one unit of a block [Wh], or None if the readings do not come from it."""
        changed = [list(row) for row in self.cells.rows]
        for i in rows:
            changed[i][2] = str(int(changed[i][2]) + 1)
        moved = self._read(self.cells.write(changed)).watts - self.recording.watts
        hours = self.recording.public.interval_s / SECONDS_PER_HOUR
        return float(np.median(moved[moved != 0]) * hours) if (moved != 0).any() else None

    def _dsmr(self) -> Layout:
        """Powers and registers of telegrams; the register is that of the tariff."""
        rows = self.cells.rows
        winter = winter_offset(self.options.tz)
        times = np.array([telegram_seconds(row[0][:12], row[0][12], winter) for row in rows])
        layout, length = Layout(), self.recording.public.interval_s
        for column, code in enumerate(CODES, 1):
            role = (
                "use" if code.startswith("1.7") else "export" if code.startswith("2.7") else "sum"
            )
            mine = [i for i, row in enumerate(rows) if row[column] is not None]
            if not mine or code.startswith("2.8"):
                layout.unknown += [code] if mine else []
                continue
            unit, counter = ("kW", False) if ".7." in code else ("kWh", True)
            places = [(i, column) for i in mine]
            channel = make_channel(
                self.cells.rows, role, places, times[mine], length, unit, counter=counter
            )
            channel.form.width = len(rows[mine[0]][column])
            if counter:
                # A run counts in the register whose tariff the telegram names.
                same = np.array([rows[i][-1] in (None, f"{int(code[-1]):04d}") for i in mine])
                channel.watts = np.where(same, channel.watts, np.inf)
            layout.channels.append(channel)
        return layout

    # Tables -------------------------------------------------------------------------------------

    @cached_property
    def _planned(self) -> tuple[PlannedTable, IntArray, list[Column]]:
        """The reader's plan of a table, the file's row of every row of it, and its columns."""
        path = MemoryFile(self.name, b"")
        raw, mark = self._marked(path)
        rows = np.array([int(float(cell)) for cell in raw.data[mark].tolist()])
        names = list(raw.data)
        place = names.index(mark)
        context = tuple(c for i, c in enumerate(raw.context) if i != place)
        data = {name: cells for name, cells in raw.data.items() if name != mark}
        raw = replace(raw, data=data, context=context)
        task = Task(path, self.options)
        return plan_table(task, raw), rows, classify(task, raw)

    def _marked(self, path: MemoryFile) -> tuple[RawTable, str]:
        """The table with the number of the file's row in a column of its own."""
        cells = self.cells.rows
        inner = getattr(self.cells, "inner", self.cells)
        if isinstance(inner, ParquetCells):
            numbers = list(range(1, len(cells)))
            data = of_arrow(inner.table.append_column(MARK, [numbers]))
            return RawTable(data, kind="Parquet table"), MARK
        frame = find_frame([[str(c) if c is not None else "" for c in row] for row in cells], path)
        width = max(len(frame.names), *(len(row) for row in cells[frame.first :]))
        rows = []
        for number, row in enumerate(cells):
            filled = any(cell not in (None, "") for cell in row)
            last: Any = number if self.cells.typed else str(number)
            if frame.header is not None and row == cells[frame.header]:
                last = MARK
            marked = filled and (number == frame.header or number >= frame.first)
            rows.append([*row, *[""] * (width - len(row)), last] if marked else row)
        raw = table_of_rows(rows, path)
        raw = whole_table(Task(path, self.options), raw)
        return raw, list(raw.data)[width]

    def _table(self) -> Layout:
        """The channels of a table, by the reader's plan of its columns and rows."""
        planned, rows, columns = self._planned
        plan, task = planned.plan, Task(MemoryFile(self.name, b""), self.options)
        clock = read_row_times(task, plan.time)
        choice = RowChoice(task, plan, planned.layout, clock)
        parts = choice.parts(np.flatnonzero(clock.good))
        stamp = find_stamp(task, clock, np.concatenate(parts), planned.layout)
        zone = self.options.tz or plan.time.zone or "UTC"
        interval = self.recording.public.interval_s

        def seconds(mine: IntArray) -> FloatArray:
            moments = clock.ns[mine]
            if not clock.aware:
                # Hours that are counted from midnight are hours of UTC.
                after = np.asarray(
                    0 if clock.after_midnight is None else clock.after_midnight[mine]
                )
                moments = to_utc(moments - after, zone)[0] + after
            shift = interval if stamp == "end" and not plan.counter else 0.0
            return moments / 1e9 - shift

        # Rows of the other direction count as nothing drawn: a run can turn them.
        parts = [np.setdiff1d(part, choice.idle) for part in parts]
        table = TableChannels(
            self.cells.rows, self.recording.public, planned, rows, columns, seconds, parts
        )
        layout = table.layout()
        if sum(row == self.cells.rows[0] for row in self.cells.rows[1:]):
            layout.unknown.append("the other tables of the file")
        return layout

    # Files that hold changes only ---------------------------------------------------------------

    @cached_property
    def _changes(self) -> ChangedRows | None:
        """How a run changes a file that has a row only where a value changed; None for others."""
        if self.cells.kind == "ha-history":
            header = [name.strip().lower() for name in self.cells.rows[0]]
            columns = [header.index(name) for name in ("last_changed", "state", "entity_id")]
            series: dict[str, list[int]] = {}
            for number, row in enumerate(self.cells.rows[1:], 1):
                if any(row):
                    series.setdefault(row[columns[2]], []).append(number)
            meter = self.options.value_column or next(
                (n for n in series if f"Entity {n}:" in " ".join(self.recording.notes)), ""
            )
            return self._rows_of_changes(columns[0], columns[1], series, meter)
        stated = getattr(self.options, "changes", None)
        if stated == "no" or self.cells.kind != "table":
            return None
        planned, rows, columns_ = self._planned
        plan = planned.plan
        names = [column.name for column in columns_]
        if len(plan.values) != 1 or plan.counter or not _is_plain(plan.time, names):
            return None
        time, value = names.index(plan.time.date.name), names.index(plan.values[0].name)
        texts = [self.cells.rows[i][value] for i in rows]
        clock = read_row_times(Task(MemoryFile(self.name, b""), self.options), plan.time)
        apart = np.diff(clock.ns)
        uneven = apart.size > MOST_WORDS and apart.min() > 0 and apart.max() >= 2 * apart.min()
        repeats = any(one == two for one, two in pairwise(texts))
        if stated != "yes" and (not uneven or repeats):
            return None
        return self._rows_of_changes(time, value, {names[value]: rows.tolist()}, names[value])

    def _rows_of_changes(
        self, time: int, value: int, series: dict[str, list[int]], meter: str
    ) -> ChangedRows:
        times = np.sort([moment_of(self.cells.rows[i][time]) for i in series[meter]])
        apart = np.diff(times)
        # Multiples of the shortest time are those of a logger that looks at its value now and then.
        at_once = apart.size == 0 or bool((apart % max(apart.min(), 1e-3) > 1e-6).any())
        until = self.options.end
        return ChangedRows(self.cells.rows, time, value, series, meter, until, at_once)


def _is_plain(time: TimePlan, names: Sequence[str]) -> bool:
    """True for one column of whole times."""
    return time.clock is None and time.end_date is None and time.date.name in names


__all__ = ["RawFile", "Run"]
