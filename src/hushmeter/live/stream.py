"""The public terms of a stream, and how its windows become tables of cells.

A stream is a sequence of releases under one promise, each of one period: of a civil day if the
windows alone are published, otherwise of a civil month. `Terms.release_of` puts the committed
numbers of windows together to the `Release` that `Promise.release` of their readings would give.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from hushmeter.checks import FloatArray, IntArray, non_negative, whole
from hushmeter.clock import SECOND, day_bounds, day_of
from hushmeter.errors import DataError, InputError
from hushmeter.live.state import SumRow, WindowRow
from hushmeter.live.windows import Buffer, ChangeBuffer, ClosedWindow, WindowBuffer
from hushmeter.noise.parameters import MAX_STEPS
from hushmeter.privacy.meters import Metered
from hushmeter.privacy.units import Unit
from hushmeter.releases.labels import CELLS, REGISTER, Cells, LabelledTable, cells_of
from hushmeter.releases.private_receipt import refuse_learnt_from_these
from hushmeter.releases.promise import NoisyTable, Promise
from hushmeter.releases.receipt import Receipt, describe_promise, describe_readings
from hushmeter.releases.release import Release
from hushmeter.trace import SECONDS_PER_DAY, Trace, iso

BOUNDS_W = (-1e6, 1e6)
"""Declared bounds of a reading if no clamp is given [W]."""

GRACE_S = 10.0
"""Default time from the end of a window until it closes [s]."""

DAYS = "days"
"""The table whose sums are complete at the end of a civil day; others end with the month."""


@dataclass(frozen=True)
class Terms:
    """What a stream publishes and what it protects. All of it is public and fixed."""

    # Name of the stream: letters, digits, "-" and "_". It is a part of topics and file names
    name: str
    promise: Promise  # From a request and a meter without times; its cells are the windows
    _: KW_ONLY
    # Time from the end of a window until it closes [s]. If the meter sends only changes, the loss
    # of its connection is noticed within this time.
    grace_s: float = GRACE_S
    hold: bool = False  # True if the meter sends only changes of its value
    # Time after which a meter that sends only changes has sent its value at least once [s]; 0 if it
    # sends its value as soon as it is connected.
    heartbeat_s: float = 0.0
    seed: int | None = None  # Seed of a simulation. A real stream has none
    # True if the readings are those of `hushmeter replay`; every message says so
    simulation: bool = False

    def __post_init__(self) -> None:
        if not self.name or not all(c.isascii() and (c.isalnum() or c in "-_") for c in self.name):
            raise InputError(
                f"the name of a stream has letters, digits, - and _ only, got {self.name!r}."
            )
        object.__setattr__(self, "grace_s", non_negative("grace", self.grace_s))
        object.__setattr__(self, "heartbeat_s", non_negative("heartbeat", self.heartbeat_s))
        if self.heartbeat_s and not self.hold:
            raise InputError("--heartbeat belongs to a meter that sends only changes.")
        if self.seed is not None:
            whole("seed", self.seed, least=0)
            object.__setattr__(self, "simulation", True)
        self._check_promise()

    def _check_promise(self) -> None:
        """Refuse a promise that a stream cannot keep."""
        promise, length = self.promise, self.window_ns
        if SECONDS_PER_DAY * SECOND % length:
            raise InputError(
                f"the windows of a stream must divide a day, but {length / SECOND:g} s do not; "
                "choose --every 1h."
            )
        if self.unit.span == "when":
            raise InputError(
                "the span 'when' publishes sums of days, which a stream cannot keep if a "
                "reading is lost; protect a run or a day."
            )
        if self.unit.metering.register_step_w:
            raise InputError("a stream needs readings of power, not those of an energy counter.")
        if promise.tables[0].name != CELLS or {"year", REGISTER} & set(promise.words):
            raise InputError(
                "a stream publishes its windows (hours) and tables of days and months; add hours, "
                "and leave out year and register."
            )
        if not promise.cells.model:
            raise InputError(
                "the promise of a stream must hold at any time; resolve the request with "
                "Metered(interval_s) instead of metered(trace)."
            )

    @property
    def unit(self) -> Unit:
        """The unit of protection."""
        return self.promise.unit

    @property
    def zone(self) -> str:
        """Time zone of days and months."""
        return self.promise.cells.zone

    @property
    def kind(self) -> str:
        """What a receipt says: "release" or "simulation"."""
        return "simulation" if self.simulation else "release"

    @property
    def by_month(self) -> bool:
        """True if a release has a civil month, because more than the windows is published."""
        return len(self.promise.tables) > 1

    @property
    def interval_ns(self) -> int:
        """Length of a metered reading [ns]."""
        return round(self.unit.interval_s * SECOND)

    @property
    def window_ns(self) -> int:
        """Length of a window [ns]."""
        return self.interval_ns * self.unit.window

    @property
    def window_s(self) -> float:
        """Length of a window [s]."""
        return self.window_ns / SECOND

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds to which every reading is set [W]: the clamp, or one megawatt."""
        if self.promise.clamp is not None:
            return self.promise.clamp
        most = 0.9 * float(MAX_STEPS * self.promise.grid)
        return max(BOUNDS_W[0], -most), min(BOUNDS_W[1], most)

    @property
    def grace_ns(self) -> int:
        """Time from the end of a window until it closes [ns]."""
        return round(self.grace_s * SECOND)

    @property
    def marks(self) -> dict[str, Any]:
        """Fields of every message of a simulation."""
        return {"simulation": True} if self.simulation else {}

    def buffer(self) -> Buffer:
        """Return an empty buffer for the windows of the stream."""
        kind = ChangeBuffer if self.hold else WindowBuffer
        return kind(self.interval_ns, self.unit.window, grace_ns=self.grace_ns, bounds=self.bounds)

    def start_of(self, number: int) -> np.datetime64:
        """Start of a window (UTC)."""
        return np.datetime64(number * self.window_ns, "ns")

    def day_of(self, number: int) -> str:
        """Civil day in which a window starts, such as "2024-03-01"."""
        return day_of(number * self.window_ns, self.zone)

    def period_of(self, day: str) -> str:
        """Civil day or month of a release: all its noise comes from keys of the period alone."""
        return day[:7] if self.by_month else day

    def utc_day_of(self, number: int) -> str:
        """UTC day in which a window starts; the ledger counts these days."""
        return str(self.start_of(number).astype("datetime64[D]"))

    def first_of_day(self, day: str) -> int:
        """Number of the first window that starts in a civil day."""
        begin, _ = day_bounds(np.array([day], "datetime64[D]"), self.zone)
        return -(-int(begin[0].astype(np.int64)) * SECOND // self.window_ns)

    def mean_of(self, window: ClosedWindow) -> float | None:
        """Return the mean to which noise is added [W], with missing readings counted as zero.

        It is None if too few readings are present, which depends on their times alone.
        """
        places = np.flatnonzero(np.isfinite(window.readings))
        if places.size == 0:
            return None
        first = self.start_of(window.number) + places[0] * np.timedelta64(self.interval_ns, "ns")
        interval_s, steps = self.unit.interval_s, places - places[0]
        try:
            trace = Trace(window.readings[places], interval_s, first, steps=steps)
            return float(self.promise.means(trace)[0])
        except DataError:
            return None

    def cells_of(self, rows: Sequence[WindowRow]) -> Cells:
        """Return the cells of committed windows."""
        shares = np.array([row.share for row in rows])
        times = self._trace(rows, np.zeros(len(rows)))
        return Cells(times, self.zone, None if (shares == 1).all() else shares)

    def values_of(self, rows: Sequence[WindowRow]) -> Trace:
        """Return the published values of windows [W]."""
        return self._trace(rows, np.array([row.value for row in rows], dtype=float))

    def _trace(self, rows: Sequence[WindowRow], values: FloatArray) -> Trace:
        numbers = np.array([row.number for row in rows])
        start = self.start_of(int(numbers[0]))
        return Trace(values, self.window_s, start, steps=numbers - numbers[0])

    def exact_steps(self, means: FloatArray) -> IntArray:
        """Round means to grid steps as `Promise.release` does; they are private."""
        bounds = self.promise.noise.clamp
        return self.promise.to_steps(means if bounds is None else np.clip(means, *bounds))

    def release_of(self, rows: Sequence[WindowRow], sums: Iterable[SumRow] = ()) -> Release:
        """Put together what is published about windows: the tables that are complete so far."""
        promise, known = self.promise.on(self.cells_of(rows)), list(sums)
        noisy = [noisy_steps(entry, rows, known) for entry in promise.tables]
        complete = [n for n, steps in enumerate(noisy) if np.isfinite(steps).all()]
        grid = promise.grid
        return Release(
            replace(promise, tables=tuple(promise.tables[n] for n in complete)),
            tuple(noisy[n] * float(grid.numerator) / float(grid.denominator) for n in complete),
            self.kind,
        )

    def receipt_of(self, rows: Sequence[WindowRow]) -> Receipt:
        """Return the receipt of the values of a day, with the promise of all tables."""
        facts = describe_promise(self.promise.on(self.cells_of(rows)))
        output = describe_readings(self.values_of(rows))
        return Receipt(self.kind, **facts, output=output, files={})

    def refuse_learnt(self, first_ns: int, last_ns: int) -> None:
        """Raise `InputError` if a number of the home was learnt at the time of readings.

        The readings that are to be published begin and end at these times [ns since 1970].
        """
        if not (self.simulation or self.promise.accept_learnt):
            ends = np.array([0, max(1, (last_ns - first_ns) // self.interval_ns)])
            start = np.datetime64(first_ns, "ns")
            span = Trace(np.zeros(2), self.unit.interval_s, start, steps=ends)
            refuse_learnt_from_these(self.unit, self.promise.home, span)

    @cached_property
    def _facts(self) -> dict[str, Any]:
        facts = describe_promise(self.promise)
        # Whether a number was learnt from these readings depends on the times of the readings.
        del facts["sources"]
        return facts

    def describe(self) -> dict[str, Any]:
        """Return the terms as plain values; a state that was begun with other terms is refused."""
        return {
            "stream": self.name,
            "kind": self.kind,
            **self._facts,
            "zone": self.zone,
            "window_s": self.window_s,
            "windows_per_day": SECONDS_PER_DAY * SECOND // self.window_ns,
            "grace_s": self.grace_s,
            "sends": "changes" if self.hold else "at fixed times",
            **({"heartbeat_s": self.heartbeat_s} if self.hold else {}),
        }


def read_terms(facts: Mapping[str, Any]) -> Terms:
    """Make the terms again that `Terms.describe` wrote down, without the home."""
    names = {field.name for field in fields(Receipt)} & facts.keys()
    stated = {name: facts[name] for name in names}
    receipt = Receipt.from_dict({**stated, "sources": (), "output": {}, "files": {}})
    metered = Metered(float(receipt.unit["interval_s"]), zone=str(receipt.cells["zone"]))
    cells = cells_of(metered, float(receipt.cells["interval_s"]))
    promise = receipt.promise(cells.times).on(cells)
    simulation = receipt.kind == "simulation"
    return Terms(str(facts["stream"]), promise, grace_s=facts["grace_s"], simulation=simulation)


def noisy_steps(entry: NoisyTable, rows: Sequence[WindowRow], sums: Iterable[SumRow]) -> FloatArray:
    """Return the published sums of a table of windows [grid steps]; NaN where there is none yet."""
    if entry.name == CELLS:
        return np.array([row.steps for row in rows], dtype=float)
    known = {row.label: row.steps for row in sums if row.table == entry.name}
    return np.array([known.get(label, np.nan) for label in names_of(entry.table)])


def names_of(table: LabelledTable) -> list[str]:
    """Return the names of the labels of a table, such as "2024-03 07:00"; each has its month."""
    columns = [np.asarray(table.columns[name]) for name in table.columns if name != "cells"]
    return [" ".join(map(str, label)) for label in zip(*columns, strict=True)]


def iso_of(moment_ns: int) -> str:
    """Return a time in ns since 1970 as ISO 8601 text with Z; whole seconds get no fraction."""
    return iso(np.datetime64(moment_ns, "ns"))
