"""Neighbouring files: a change of one reading, run or day must stay within the sensitivity.

Two files are neighbours if they describe the same home and differ by one protected change. A
release keeps its promise for files only if both files give the same public facts (times,
interval, gaps, notes), and readings that differ by no more than the unit of protection declares.
`compare_neighbours` checks this for two files that were read; `audit_file` writes neighbouring
versions of a file and checks them.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.checks import FloatArray, IntArray, RngLike, whole
from hushmeter.errors import DataError, HushmeterError, InputError
from hushmeter.privacy.units import Unit, resolve_unit
from hushmeter.read import ReadOptions, Recording, read_bytes
from hushmeter.releases.calendar import lay_out
from hushmeter.releases.least_squares import TABLES
from hushmeter.releases.series import mean_windows
from hushmeter.releases.view_plan import plan_views
from hushmeter.releases.views import add_up
from hushmeter.trace import SECONDS_PER_DAY, Trace

if TYPE_CHECKING:
    from hushmeter.home import Appliance, Home

SLACK = 1e-9
"""Relative rounding error of sums in floating point."""

PROBES = 5
PROBED_READINGS = 2
"""Most readings that a step of a counter may change: it can lie at the border of two of them."""

LARGEST_FILE = 50_000_000
# Files with one column per time have few rows.
MANY_ROWS = 100


def compare_neighbours(one: Recording, other: Recording, unit: Unit) -> list[str]:
    """Compare two recordings that differ by one protected change.

    Parameters
    ----------
    one, other : Recording
        Both files, read in the same way.
    unit : Unit
        The unit of protection that the release declares for `one`.

    Returns
    -------
    list of str
        One sentence for each public fact that differs, and for each declared size of the change
        (Δ1, Δ2, largest, touched values) that is exceeded; empty if the promise holds.
    """
    problems = [
        f"{name} differs: {_short(first)} and {_short(second)}"
        for name, first, second in _public_facts(one, other)
        if not _same(first, second)
    ]
    if problems:
        return problems
    traces = (one.trace, other.trace)
    if unit.window > 1:
        traces = (mean_windows(one.trace, unit)[0], mean_windows(other.trace, unit)[0])
    change = np.abs(traces[0].readings - traces[1].readings)
    # Readings of equal energy may differ in their last digits.
    change[change <= SLACK * (1 + np.abs(traces[0].readings))] = 0.0
    sizes = (
        ("Δ1", float(change.sum()), unit.l1),
        ("Δ2", float(np.sqrt((change**2).sum())), unit.l2),
        ("the largest change", float(change.max()), unit.largest),
        ("the number of touched values", float((change > 0).sum()), float(unit.touches)),
    )
    return [
        f"{name} is {found:.6g}, but the unit declares at most {declared:.6g}"
        for name, found, declared in sizes
        if found > declared * (1 + SLACK) + 1e-6
    ]


def compare_tables(one: Recording, other: Recording, unit: Unit) -> list[str]:
    """Compare the four tables of calendar releases of two neighbouring recordings.

    Parameters
    ----------
    one, other : Recording
        Both files, with the same times.
    unit : Unit
        The unit of protection of the release; its released values are the cells.

    Returns
    -------
    list of str
        One sentence for each table that moves by more than its declared sensitivity.

    Raises
    ------
    InputError, DataError
        If the readings have no calendar, such as a month without a complete day.
    """
    zone = one.public.zone or "UTC"
    cells = [mean_windows(each.trace, unit)[0] for each in (one, other)]
    calendar = lay_out(cells[0], zone)
    plan = plan_views(unit, calendar, epsilon=1)
    tables = [add_up(each.readings, calendar, plan.grid) for each in cells]
    moved = [
        float(np.linalg.norm((first - second).astype(float)))
        for first, second in zip(*tables, strict=True)
    ]
    return [
        f"the table of {name} moves by {length:.6g} steps, but the receipt declares at most "
        f"{declared:.6g}"
        for name, length, declared in zip(TABLES, moved, plan.sensitivities, strict=True)
        if length > declared
    ]


@dataclass(frozen=True)
class FileAudit:
    """The result of `audit_file`.

    Attributes
    ----------
    format : str
        The format of the file.
    unit : str
        The unit of protection as a sentence.
    tried : tuple of str
        What was tried, one phrase for each appliance.
    pairs : int
        Number of pairs of neighbouring files that were read and compared.
    largest_share : float
        Largest Δ1 that was found, as a share of the declared one.
    problems : tuple of str
        Every violation, one sentence each; empty if the promise held for every pair.
    """

    format: str
    unit: str
    tried: tuple[str, ...]
    pairs: int
    largest_share: float
    problems: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """True if no pair violated the promise."""
        return not self.problems


def audit_file(
    path: str | Path,
    home: Home,
    *,
    span: str = "run",
    appliance: str | None = None,
    every: float | str | None = None,
    pairs: int = 20,
    views: bool = False,
    options: ReadOptions | None = None,
    rng: RngLike = 0,
) -> FileAudit:
    """Write neighbouring versions of a file and check the promise for each of them.

    Parameters
    ----------
    path : str or Path
        A file of readings: a text table, Parquet, Green Button XML, DSMR telegrams or a history
        of Home Assistant.
    home : Home
        The appliances whose runs are added.
    span : {"reading", "run", "day", "when"}
        How long the added change lasts; "when" compares two files with one run at different times
        of a day.
    appliance : str, optional
        Only this appliance; by default every appliance of the home.
    every : float or str, optional
        Length of the released means.
    pairs : int, default 20
        Number of neighbouring versions for each appliance.
    views : bool, default False
        Compare the four tables of a calendar release as well; its cells are `every` long, an hour
        by default.
    options : ReadOptions, optional
        How the file is read.
    rng : int, Generator or None
        Where the changes are placed.

    Returns
    -------
    FileAudit

    Raises
    ------
    DataError
        If the file is too large, cannot be read, or its values cannot be found in it.
    """
    source = Path(path)
    if views and every is None:
        every = "1h"
    raw = _RawFile(source, options or ReadOptions())
    trace = raw.recording.trace
    names = home.names if appliance is None else (home.appliances[home.index(appliance)].name,)
    generator = np.random.default_rng(rng)
    count = whole("pairs", pairs)
    problems: list[str] = []
    tried: list[str] = []
    share = 0.0
    sentence = ""
    for name in names:
        member = home.appliances[home.index(name)]
        unit = _unit_for(trace, home, name, span, every)
        sentence = unit.sentence if len(names) == 1 else sentence or f"one {span} of an appliance"
        for _ in range(count):
            first, stop = _place(trace, member, span, generator)
            one, seed = raw.recording, int(generator.integers(2**32))
            other = raw.read_with(member.protected_power, first, stop, seed)
            if span == "when":
                moved = _move(first, stop, generator)
                # The same seed gives the counter of the meter the same phase in both files.
                one = raw.read_with(member.protected_power, *moved, seed)
            found = compare_neighbours(one, other, unit)
            if views and not found:
                found = compare_tables(one, other, unit)
            when = np.datetime64(round(first), "s")
            problems += [f"{name} added at {when}Z: {problem}." for problem in found]
            share = max(share, _l1_share(one, other, unit))
        length = f"{member.protected_power:g} W"
        tried.append(f"{count} versions with one more {span} of the {name} ({length})")
    total = count * len(names)
    return FileAudit(
        raw.recording.public.format,
        sentence,
        tuple(tried),
        total,
        share,
        tuple(dict.fromkeys(problems)),
    )


def _unit_for(trace: Trace, home: Home, name: str, span: str, every: float | str | None) -> Unit:
    """The unit that a release of this trace declares for one appliance."""
    return resolve_unit(
        "appliance",
        span,
        interval_s=trace.interval_s,
        home=home,
        appliance=name,
        every=every,
        metering=trace.metering,
        readings=len(trace),
    )


def _place(
    trace: Trace, appliance: Appliance, span: str, rng: np.random.Generator
) -> tuple[float, float]:
    """Start and end of a random change [s since 1970]: a reading, a run, or a day."""
    starts = trace.times.astype(np.int64) / 1e9
    if span == "reading":
        first = float(rng.choice(starts))
        return first, first + trace.interval_s
    length = float(appliance.protected_use_s_per_day or SECONDS_PER_DAY)
    if span in ("run", "when"):
        if appliance.protected_run_s is None:
            raise InputError(f"the {appliance.name} needs run_s in the home.")
        longest = appliance.protected_run_s
        if appliance.protected_energy_wh is not None:
            # At full power a run ends when it has taken the energy that is protected.
            energy = 3600 * appliance.protected_energy_wh
            longest = min(longest, energy / appliance.protected_power)
        length = longest * (rng.uniform(0.3, 1.0) if rng.random() < 0.5 else 1.0)
    first = float(rng.uniform(starts[0] - length / 2, starts[-1] + trace.interval_s))
    # Whole milliseconds, which every text of a time can hold.
    first = round(first, 3)
    return first, first + math.floor(1000 * length) / 1000


def _move(first: float, stop: float, rng: np.random.Generator) -> tuple[float, float]:
    """Another start and end of a run within its day of 24 hours (UTC) [s since 1970]."""
    day = SECONDS_PER_DAY * (first // SECONDS_PER_DAY)
    start = round(float(rng.uniform(day, max(day, day + SECONDS_PER_DAY - (stop - first)))), 3)
    return start, start + (stop - first)


def _l1_share(one: Recording, other: Recording, unit: Unit) -> float:
    """Sum of the changes of the readings as a share of what the unit declares."""
    if len(one.trace) != len(other.trace):
        return float("inf")
    change = np.abs(one.trace.readings - other.trace.readings).sum() / unit.window
    return float(change / unit.l1)


class _Cells(ABC):
    """The numbers of a file that may be the values of the meter.

    Parameters
    ----------
    values : array
        The numbers in the order of the file.
    """

    def __init__(self, values: FloatArray) -> None:
        self.values = values

    @property
    @abstractmethod
    def step(self) -> float:
        """Step to which the file rounds its numbers; 0 if it does not."""

    @abstractmethod
    def write(self, values: FloatArray) -> bytes:
        """Return the file with other numbers in the same places."""


class _TextCells(_Cells):
    """Numbers at given places of a text file."""

    def __init__(self, text: str, places: list[tuple[int, int]], telegrams: bool = False) -> None:
        self._text, self._places, self._telegrams = text, places, telegrams
        words = [text[first:stop] for first, stop in places]
        self._comma = any("," in word for word in words)
        self._decimals = max(len(re.split("[.,]", word + ".")[1]) for word in words)
        self._width = len(words[0]) if telegrams else 0
        super().__init__(np.array([float(word.replace(",", ".")) for word in words]))

    @property
    def step(self) -> float:
        return float(10.0**-self._decimals)

    def write(self, values: FloatArray) -> bytes:
        parts, end = [], 0
        for (first, stop), value in zip(self._places, values.tolist(), strict=True):
            word = f"{value:0{self._width}.{self._decimals}f}"
            parts += [self._text[end:first], word.replace(".", ",") if self._comma else word]
            end = stop
        text = "".join([*parts, self._text[end:]])
        return (_with_checksums(text) if self._telegrams else text).encode()


class _ParquetCells(_Cells):
    """One column of a Parquet file."""

    def __init__(self, table: Any, column: int) -> None:
        self._table, self._column = table, column
        super().__init__(table.column(column).to_numpy(zero_copy_only=False).astype(np.float64))

    @property
    def step(self) -> float:
        import pyarrow as pa

        return 1.0 if pa.types.is_integer(self._table.schema.field(self._column).type) else 0.0

    def write(self, values: FloatArray) -> bytes:
        import pyarrow as pa
        from pyarrow import parquet

        kind = self._table.schema.field(self._column)
        changed = self._table.set_column(self._column, kind, pa.array(values).cast(kind.type))
        stream = BytesIO()
        parquet.write_table(changed, stream)
        return stream.getvalue()


@dataclass
class _RawFile:
    """A file whose values can be changed so that a given power is added for some time."""

    path: Path
    options: ReadOptions
    recording: Recording = field(init=False)
    content: bytes = field(init=False)

    def __post_init__(self) -> None:
        try:
            self.content = self.path.read_bytes()
        except OSError as error:
            raise DataError(f"{self.path} cannot be read: {error.strerror}.") from None
        if len(self.content) > LARGEST_FILE:
            raise DataError(
                f"{self.path} has more than {LARGEST_FILE / 1e6:g} MB; audit a shorter part of it."
            )
        self.recording = self._read(self.content)

    def read_with(self, watts: float, first: float, stop: float, seed: int) -> Recording:
        """Read the version of the file in which a power is added between two times [s]."""
        if _is_history(self.content):
            end = self.recording.public.end.astype("datetime64[ns]").astype(np.int64) / 1e9
            return self._read(_add_to_history(self.content, watts, first, stop, float(end)))
        cells, order, scale, counter = self._meter
        trace = self.recording.trace
        starts = trace.times.astype(np.int64) / 1e9
        ends = starts + trace.interval_s
        overlap = np.clip(np.minimum(ends, stop) - np.maximum(starts, first), 0.0, None)
        added = watts * overlap / trace.interval_s / scale
        values = cells.values.copy()
        if counter:
            # A counter shows the energy that was added before, below its rounding.
            phase = np.random.default_rng(seed).uniform(0.0, 1.0, values.size) * cells.step
            total = np.concatenate([[0.0], np.cumsum(added)])
            values += _floor_to(total + phase, cells.step)[order]
        else:
            values += added[order]
            values = _round_to(values, cells.step)
        return self._read(cells.write(values))

    def _read(self, content: bytes) -> Recording:
        """Read a version of the file through the public entry."""
        return read_bytes(content, self.path.name, self.options)

    @cached_property
    def _meter(self) -> tuple[_Cells, IntArray, float, bool]:
        """The cells of the meter, the reading of each, watts per unit, and if they count up."""
        for cells in _candidates(self.path, self.content):
            found = self._probe(cells)
            if found is not None:
                return cells, *found
        raise DataError(
            f"{self.path} ({self.recording.public.format}): the values of the meter could not be "
            "found in the file, because rows are repeated, left out or combined."
        )

    def _probe(self, cells: _Cells) -> tuple[IntArray, float, bool] | None:
        """Change single cells and see which reading follows; None if these are not the meter's."""
        size, length = cells.values.size, len(self.recording.trace)
        counter = size == length + 1
        if size not in (length, length + 1) or length < 3:
            return None
        probes = np.unique(np.linspace(1, length - 2, PROBES).astype(int))
        seen = [self._effect(cells, int(probe), counter) for probe in probes]
        if any(effect is None for effect in seen):
            return None
        at = np.array([effect[0] for effect in seen if effect is not None])
        scale = float(np.median([effect[1] for effect in seen if effect is not None]))
        order = np.arange(size)
        expected = probes - counter
        if (at == expected).all():
            return order, scale, counter
        if not counter and (at == length - 1 - probes).all():
            return order[::-1].copy(), scale, counter
        return None

    def _effect(self, cells: _Cells, probe: int, counter: bool) -> tuple[int, float] | None:
        """The reading that rises with a cell, and by how many watts per unit.

        For a counter all later counts rise too, because a counter never falls.
        """
        values = cells.values.copy()
        step = max(cells.step, 1e-3 * float(np.abs(values).mean()), 1e-6)
        amount = _round_to(np.array([step]), cells.step)[0] or cells.step
        values[slice(probe, None) if counter else probe] += amount
        try:
            other = self._read(cells.write(values)).trace
        except HushmeterError:
            return None
        trace = self.recording.trace
        if len(other) != len(trace):
            return None
        change = other.readings - trace.readings
        if not (change > 1e-9).any():
            return None
        # The differences of a counter change in one place; if all later readings rise, the file has
        # one value more than readings for another reason.
        if counter and (change > 1e-9).sum() > PROBED_READINGS:
            return None
        reading = int(change.argmax())
        return reading, float(change[reading] / amount)


def _candidates(path: Path, content: bytes) -> Iterator[_Cells]:
    """Groups of numbers that may be the values of the meter, the likeliest first."""
    if content.startswith(b"PAR1"):
        yield from _parquet_columns(path, content)
        return
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"{path} is neither text nor Parquet, so it cannot be audited.") from None
    # Summaries of a Green Button file have values too, so only those of its readings are taken.
    interval = r"(?s)<(?:\w+:)?IntervalReading\b.*?<(?:\w+:)?value>(-?\d+)<"
    for pattern in (interval, r"1-0:1\.7\.0\((\d+\.\d+)\*kW\)"):
        places = [match.span(1) for match in re.finditer(pattern, text)]
        if places:
            yield _TextCells(text, places, telegrams="kW" in pattern)
            return
    yield from _text_columns(text)


def _text_columns(text: str) -> Iterator[_Cells]:
    """The columns of a text table, and then its rows, that hold at least three numbers."""
    lines, start, rows = text.splitlines(keepends=True), 0, []
    delimiter = max(";\t,", key=lambda mark: text.count(mark))
    for line in lines:
        cells, at = [], start
        for part in line.split(delimiter):
            word = part.strip().strip('"')
            first = at + part.find(word) if word else at
            cells.append((word, first))
            at += len(part) + 1
        rows.append(cells)
        start += len(line)
    body = [row for row in rows if len(row) > 1]
    columns = [
        [row[column] for row in body if len(row) > column]
        for column in range(max((len(row) for row in body), default=0))
    ]
    for group in (*columns, *(body if len(body) < MANY_ROWS else ())):
        places = [
            (first, first + len(word))
            for word, first in group
            if re.fullmatch(r"-?\d+(?:[.,]\d+)?", word)
        ]
        if len(places) >= 3:
            yield _TextCells(text, places)


def _parquet_columns(path: Path, content: bytes) -> Iterator[_Cells]:
    """The numeric columns of a Parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.read_table(pa.BufferReader(content))
    except pa.ArrowException:
        raise DataError(f"{path} is not a Parquet file.") from None
    for column, kind in enumerate(table.schema):
        numeric = pa.types.is_floating(kind.type) or pa.types.is_integer(kind.type)
        if numeric and not table.column(column).null_count:
            yield _ParquetCells(table, column)


def _is_history(content: bytes) -> bool:
    """True for a history of Home Assistant, which has rows only where a value changed."""
    return content.lstrip(b"\xef\xbb\xbf").startswith(b"entity_id,state,last_changed")


def _add_to_history(content: bytes, watts: float, first: float, stop: float, last: float) -> bytes:
    """Add a power to a history: values in between rise, and two rows mark start and end.

    The value of the last row holds until the end of the recording, `last`.
    """
    header, *lines = content.decode("utf-8-sig").splitlines()
    rows = [line.split(",") for line in lines if line.strip()]
    decimals = max((len(row[1].partition(".")[2]) for row in rows), default=0)

    def seconds(row: list[str]) -> float:
        return float(np.datetime64(row[2].strip().rstrip("Z"), "ns").astype(np.int64)) / 1e9

    def number(row: list[str]) -> float | None:
        return float(row[1]) if re.fullmatch(r"-?\d+(?:\.\d+)?", row[1]) else None

    rows.sort(key=seconds)
    result: list[tuple[float, list[str]]] = []
    for at, row in enumerate(rows):
        begin, value = seconds(row), number(row)
        end = seconds(rows[at + 1]) if at + 1 < len(rows) else last
        moments = [begin, *(m for m in (first, stop) if begin < m < end)]
        for moment in moments if value is not None else [begin]:
            extra = watts if first <= moment < stop else 0.0
            state = row[1] if value is None else f"{value + extra:.{decimals}f}"
            when = row[2] if moment == begin else _iso_milliseconds(moment)
            result.append((moment, [row[0], state, when]))
    body = "\n".join(",".join(row) for _, row in result)
    return f"{header}\n{body}\n".encode()


def _iso_milliseconds(seconds: float) -> str:
    """A time as ISO 8601 text with milliseconds."""
    moment = np.datetime64(round(seconds * 1e3), "ms")
    return f"{moment}Z"


def _with_checksums(text: str) -> str:
    """DSMR telegrams with the checksums of their content."""
    return re.sub(r"(/[^!]*!)[0-9A-Fa-f]{4}", lambda m: f"{m[1]}{_crc16(m[1]):04X}", text)


def _crc16(text: str) -> int:
    """The CRC-16 (polynomial 0xA001) of a telegram."""
    register = 0
    for byte in text.encode():
        register ^= byte
        for _ in range(8):
            register = (register >> 1) ^ (0xA001 if register & 1 else 0)
    return register


def _public_facts(one: Recording, other: Recording) -> Iterator[tuple[str, Any, Any]]:
    """What a release publishes besides the noisy readings, of both recordings."""
    for known in fields(one.public):
        yield known.name, getattr(one.public, known.name), getattr(other.public, known.name)
    yield "times", one.trace.times, other.trace.times


def _same(one: Any, other: Any) -> bool:
    """True if two facts are equal."""
    if isinstance(one, np.ndarray):
        return bool(np.array_equal(one, other))
    return bool(one == other)


def _short(value: Any) -> str:
    """A fact as short text."""
    if isinstance(value, np.ndarray):
        return f"{value.size} times from {value[0]} to {value[-1]}"
    text = str(value)
    return text if len(text) < 120 else f"{text[:117]}…"


def _round_to(values: FloatArray, step: float) -> FloatArray:
    """Round to whole multiples of a step; a step of zero keeps the values."""
    return values if step == 0 else np.rint(values / step) * step


def _floor_to(values: FloatArray, step: float) -> FloatArray:
    """Round down to whole multiples of a step; a step of zero keeps the values."""
    return values if step == 0 else np.floor(values / step + 1e-9) * step
