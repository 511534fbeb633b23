"""The public terms of a stream, how its windows become tables of cells, and what they reveal.

A stream is a sequence of releases under one promise, each of one period: of a civil day if the
windows alone are published, otherwise of a civil month. `Terms.release_of` puts the committed
numbers of windows together to the `Release` that `Promise.release` of their readings would give.

Every period is one release. Each of its tables is published as soon as it is complete
(`Publication`): a cell at the end of its window, the sum of a day at midnight, all other tables at
the end of the month. The draws of each table are numbered in the order of publication. A period
that one process protects from its first to its last window therefore gets the values that
`Promise.release` gives to its readings with the same key.

ε holds for all tables together and is spent from the first window on: the noise of the cells is
that of the whole promise, even if the stream ends before the day or the month does. All months have
the same noise. A run that is divided between two months changes the tables of each month by a part
of it. The squares of the lengths of both parts add up to at most the square of the declared length,
so the promise holds for the whole stream, however long it is.

*What a stream reveals*, for the household alone. Raw means never leave the machine. They are set
beside the protected values, together with what the strongest attacker could say about each window.
That attacker knows everything about the window except whether one protected use was in it. No
attacker can do better than the likelihood ratio of the two cases (Neyman–Pearson), so the
probabilities are those of the best possible attacker and not of a particular program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, fields, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from hushmeter.apps.live.state import Item, State, SumRow, WindowRow, read_state
from hushmeter.apps.live.windows import Buffer, ChangeBuffer, ClosedWindow, WindowBuffer
from hushmeter.checks import FloatArray, non_negative, whole
from hushmeter.clock import SECOND, day_bounds, day_of
from hushmeter.errors import DataError, InputError
from hushmeter.files import json_text, write_text
from hushmeter.formatting import out_of_100
from hushmeter.noise.mechanism import MAX_STEPS
from hushmeter.privacy.units import Metered, Unit
from hushmeter.releases.files import DECIMALS
from hushmeter.releases.labels import CELLS, REGISTER, Cells, cells_of, make_tables
from hushmeter.releases.private_receipt import refuse_learnt_from_these
from hushmeter.releases.promise import NoisyTable, Promise
from hushmeter.releases.receipt import Receipt, describe_promise, describe_readings
from hushmeter.releases.release import HOURS, Release
from hushmeter.trace import SECONDS_PER_DAY, Trace, iso

BOUNDS_W = (-1e6, 1e6)
"""Declared bounds of a reading if no clamp is given [W]."""

GRACE_S = 10.0
"""Default time from the end of a window until it closes [s]."""

DAYS = "days"
"""The table whose sums are complete at the end of a civil day; others end with the month."""

FIELDS = {"W": ("watts", "standard_error_w"), "kWh": ("kwh", "standard_error_kwh")}
"""Names of a value and of its standard error in a message, by their unit."""

VIEW_OF = {"day": DAYS, "month": "months"}
"""The view with the energy of a period."""

SCHEMA = "hushmeter-live-day-1"
SHOWN = 24
"""Windows that are shown."""


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

    def exact_steps(self, means: Sequence[float | None] | FloatArray) -> FloatArray:
        """Round means to grid steps as `Promise.release` does; they are private."""
        bounds = self.promise.noise.clamp
        values = np.array(means, dtype=float)
        clamped = values if bounds is None else np.clip(values, *bounds)
        return self.promise.to_steps(clamped).astype(float)

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
    rest: dict[str, Any] = {
        "sources": (),
        "output": {},
        "files": {},
        "part": None,
        "despite": False,
    }
    receipt = Receipt.from_dict({**stated, **rest, "despite": False})
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
    return np.array([known.get(label, np.nan) for label in entry.table.names])


def iso_of(moment_ns: int) -> str:
    """Return a time in ns since 1970 as ISO 8601 text with Z; whole seconds get no fraction."""
    return iso(np.datetime64(moment_ns, "ns"))


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
        (table,) = make_tables([CELLS], self._terms.cells_of([row]))
        entry = replace(self._terms.promise.tables[0], table=table)
        (steps,) = self._noisy(entry, row.day, self._terms.exact_steps([mean]))
        noisy = replace(row, steps=steps)
        return replace(noisy, value=float(self._terms.release_of([noisy]).estimate[0]))

    def _noisy(self, entry: NoisyTable, day: str, exact: FloatArray) -> list[int]:
        """Return sums with the noise of the period of a day [grid steps]."""
        period = self._terms.period_of(day)
        key = self._state.key_of(period, lambda: self._new_key(period))
        return list(map(int, self._terms.promise.add_noise(entry, exact, key)))

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
        steps = self._terms.exact_steps([row.mean for row in rows])
        found = []
        for entry in promise.tables[1:]:
            if (entry.name == DAYS) != (kind == "day"):
                continue
            noisy = self._noisy(entry, label, entry.table.sums(steps))
            found += [
                SumRow(entry.name, name, number)
                for name, number in zip(entry.table.names, noisy, strict=True)
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


# What the household sees


@dataclass(frozen=True)
class WatchedWindow:
    """One window as the household sees it."""

    start: str  # Start of the window (UTC)
    share: float  # Share of the readings that arrived
    raw_w: float | None  # Mean of the readings that arrived [W]; private
    protected_w: float | None  # What was published [W]
    # Probability that the strongest attacker gives to one protected use in the window, if the raw
    # mean contains such a use. At 0.5 the attacker learns nothing.
    if_it_ran: float | None
    if_it_did_not: float | None  # The same probability, if the raw mean contains no such use


def watch_windows(
    terms: Terms, rows: Sequence[WindowRow], sums: Sequence[SumRow], *, day: str | None = None
) -> list[WatchedWindow]:
    """Set the means of windows beside their protected values and the strongest attacker.

    If there are sums, `rows` must have all windows of their months. `day` selects the windows that
    are returned.
    """
    ratios = _log_ratios(terms, rows, sums)
    watched = []
    for row in rows:
        if day is not None and row.day != day:
            continue
        raw, ran, did_not = None, None, None
        if row.number in ratios:
            raw = (row.mean or 0.0) / row.share
            ran, did_not = (1 / (1 + math.exp(min(700.0, -log))) for log in ratios[row.number])
        start = iso_of(row.number * terms.window_ns)
        watched.append(WatchedWindow(start, row.share, raw, row.value, ran, did_not))
    return watched


def _log_ratios(
    terms: Terms, rows: Sequence[WindowRow], sums: Sequence[SumRow]
) -> dict[int, tuple[float, float]]:
    """Logarithms of the likelihood ratios of every window, if a use was in it and if not.

    The attacker knows all other cells, and so every sum without the use. The noise of all published
    sums is independent, so the logarithms of its probabilities add up.
    """
    known = [row for row in rows if row.mean is not None and row.value is not None]
    found: dict[int, tuple[float, float]] = {}
    for _, group in groupby(known, key=lambda row: row.day[:7]):
        part = list(group)
        means = np.array([row.mean for row in part], dtype=float)
        change = terms.unit.largest
        below, exact, above = (terms.exact_steps(means + c) for c in (-change, 0.0, change))
        ratios = np.zeros((2, len(part)))
        for entry in terms.promise.on(terms.cells_of(part)).tables:
            assert entry.noise is not None
            noise = noisy_steps(entry, part, sums) - entry.table.sums(exact.astype(float))
            shown = np.append(np.isfinite(noise), False)[entry.table.labels]
            own = noise[entry.table.labels[shown]].astype(np.int64)
            without, with_use = own + (exact - below)[shown], own - (above - exact)[shown]
            logs = [np.asarray(entry.noise.log_pmf(n)) for n in (without, own, with_use)]
            ratios[:, shown] += np.diff(logs, axis=0)
        found |= {row.number: (float(a), float(b)) for row, a, b in zip(part, *ratios, strict=True)}
    return found


def right_out_of(windows: Sequence[WatchedWindow]) -> float | None:
    """Share of windows in which the attacker's better guess is right; None without windows."""
    right = [
        float(window.if_it_ran >= 0.5) + float(window.if_it_did_not < 0.5)
        for window in windows
        if window.if_it_ran is not None and window.if_it_did_not is not None
    ]
    return math.fsum(right) / (2 * len(right)) if right else None


def show_stream(path: str | Path, *, count: int = SHOWN) -> dict[str, Any]:
    """Return the terms and the last windows of a stream while it runs, with sentences on both.

    `right` is the share of these windows in which the strongest attacker is right.
    """
    kept = read_state(path)
    first, terms = kept.windows[-count:][:1], kept.terms
    # The attacker also uses sums, for which all cells of a month are needed.
    rows = [row for row in kept.windows if first and row.day >= first[0].day[:7]]
    windows = watch_windows(read_terms(terms), rows, kept.sums)[-count:]
    right = right_out_of(windows)
    sentences = [
        f"Protected: {terms['unit']['sentence']}, at ε = {terms['epsilon']:.4g}.",
        "The strongest attacker knows everything else about a window. Two numbers are shown: the "
        "probability, out of 100, that it gives to one such use, if the use was in the window and "
        "if it was not. 50 means that it learns nothing.",
    ]
    if right is not None:
        sentences.append(
            f"In these windows that attacker would be right {out_of_100(right)} times out of 100."
        )
    shown = [asdict(window) for window in windows]
    return {"terms": terms, "windows": shown, "right": right, "sentences": sentences}


def write_day(
    folder: Path, day: str, terms: Terms, rows: Sequence[WindowRow], sums: Sequence[SumRow]
) -> Path:
    """Write the private summary DAY.private.json of a day; only its owner may read it.

    `rows` and `sums` are those of its month so far.
    """
    windows, facts = watch_windows(terms, rows, sums, day=day), terms.describe()
    published = [row for row in rows if row.day == day and row.value is not None]
    fields = {
        "schema": SCHEMA,
        "day": day,
        "stream": terms.name,
        "protects": facts["unit"]["sentence"],
        "epsilon": facts["epsilon"],
        "attacker_right": right_out_of(windows),
        "windows": [asdict(window) for window in windows],
        "receipt": terms.receipt_of(published).to_dict() if published else None,
    }
    path = folder / f"{day}.private.json"
    write_text(path, json_text(fields), force=True)
    return path
