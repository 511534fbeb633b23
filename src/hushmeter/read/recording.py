"""What a reader is told, what it fills and what it returns.

A release publishes when there are readings, how long they are and where readings are missing. None
of that is protected by noise, so none of it may be computed from the values. Readers therefore
fill a `Series`, and `hushmeter.read.regular_times` computes the `PublicFacts` from its times alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from hushmeter.checks import FloatArray, IntArray, one_of, positive, seconds
from hushmeter.clock import check_zone
from hushmeter.errors import DataError, HushmeterError, InputError
from hushmeter.read.part import Part, read_time
from hushmeter.trace import Metering, Trace

POWER_UNITS = {"w": 1.0, "kw": 1e3, "mw": 1e6, "va": 1.0, "kva": 1e3}
ENERGY_UNITS = {"mwh": 1e6, "kwh": 1e3, "wh": 1.0, "milliwh": 1e-3}
UNITS = ("W", "kW", "MW", "Wh", "kWh", "MWh", "milliWh", "VA", "kVA")
MOST_LISTED = 24
ANSWERS = {"yes": True, "no": False}
DECIMALS = {"point": ".", "comma": ","}
CHOICES = {"stamp": ("start", "end"), "counter": ANSWERS, "changes": ANSWERS, "decimal": DECIMALS}
"""Options that take one of a few words."""
Circuits = Literal["leave", "beside", "sum"]
"""Whether circuits are left out, read beside the meter, or added up where there is no meter."""
UTC_CLOCK = "times are UTC or carry their offset"


@dataclass(frozen=True)
class ReadOptions:
    """Facts that a file leaves open; None lets the reader find them in the file.

    Parameters
    ----------
    time_column, value_column : str, optional
        Columns of the times and of the meter's values. For a history of Home Assistant,
        `value_column` is the entity.
    unit : str, optional
        One of W, kW, MW, Wh, kWh, MWh, milliWh, VA, kVA. Energy is that of one interval, or the
        value of a counter.
    stamp : {"start", "end"}, optional
        The end of its interval that a time names.
    tz : str, optional
        Time zone of times that carry none, such as Europe/Dublin or UTC.
    building : int or str, optional
        The home to read, in a file or folder of several.
    meter : str, optional
        The meter to read, in a table or feed of several.
    register : str, optional
        The register, direction or tariff to read, where a column holds several.
    counter : {"yes", "no"}, optional
        Whether the values are those of a counter that only rises.
    step : float, optional
        Step to which the meter rounds its values, in their unit. It enters the sensitivity.
    reading_length : str or float, optional
        Length of one reading, such as "10s", for files that record changes only.
    changes : {"yes", "no"}, optional
        Whether a table has a row only where the value changed. "no" states that rows which lack
        are missing for reasons that do not depend on the readings.
    start, end : str or date, optional
        The part of the file that is read: from `start` on, and up to but not including `end`. A
        date means its midnight, and it and a time without an offset belong to the time zone of the
        file (UTC if none is known). Both are needed to release a recording of changes.
    decimal : {"point", "comma"}, optional
        The decimal mark of a text table.
    sheet : str, optional
        The sheet to read in a workbook, or the list in a JSON file, where there are several.
    member : str, optional
        The file to read, in an archive of several.
    """

    time_column: str | None = None
    value_column: str | None = None
    unit: str | None = None
    stamp: str | None = None
    tz: str | None = None
    building: int | str | None = None
    meter: str | None = None
    register: str | None = None
    counter: str | None = None
    step: float | str | None = None
    reading_length: float | str | None = None
    changes: str | None = None
    start: str | date | None = None
    end: str | date | None = None
    decimal: str | None = None
    sheet: str | None = None
    member: str | None = None

    def __post_init__(self) -> None:
        if self.unit is not None:
            unit_factor(self.unit)
        for name, words in CHOICES.items():
            if getattr(self, name) is not None:
                one_of(name, getattr(self, name), tuple(words))
        if self.tz is not None:
            check_zone(self.tz)
        if self.reading_length is not None:
            length = seconds("reading_length", self.reading_length)
            object.__setattr__(self, "reading_length", length)
        if self.step is not None:
            object.__setattr__(self, "step", positive("step", _number("step", self.step)))
        for name in ("start", "end"):
            read_time(name, getattr(self, name))

    @property
    def is_counter(self) -> bool | None:
        """Whether the user stated that the values are those of a counter."""
        return None if self.counter is None else ANSWERS[self.counter]

    @property
    def decimal_mark(self) -> str | None:
        """The decimal mark that the user stated."""
        return None if self.decimal is None else DECIMALS[self.decimal]

    @property
    def step_size(self) -> float | None:
        """The step of the meter's values, in their unit."""
        return None if self.step is None else float(self.step)

    @property
    def interval_s(self) -> float | None:
        """The length of one reading [s]."""
        return None if self.reading_length is None else float(self.reading_length)


@dataclass(frozen=True)
class Chooser:
    """Which of several series of a file is read, and the refusals that list all of them."""

    path: Path
    noun: str  # What is chosen, such as "sheet"
    option: str  # Field of `ReadOptions` by which the user chooses
    error: type[HushmeterError] = DataError  # Raised if the file does not hold what was asked for

    def asked(self, names: Iterable[str], wanted: int | str, *, prefix: str = "") -> str:
        """The name that the user asked for, whether in capitals or not."""
        known = list(names)
        text = f"{prefix}{wanted}".strip()
        alike = [name for name in known if name.strip().lower() == text.lower()]
        if not alike:
            raise self.absent(wanted, known)
        return text if text in alike else alike[0]

    def only(self, names: Iterable[str], remark: str = "") -> str:
        """The name of the only one; several are refused."""
        first, *others = names
        if others:
            raise self.several([first, *others], remark)
        return first

    def absent(self, wanted: int | str, found: Iterable[str]) -> HushmeterError:
        """The refusal of a name that the file does not have."""
        shown = _listed(found)
        return self.error(f"{self.path} has no {self.noun} {str(wanted)!r} (found: {shown}).")

    def several(self, names: Iterable[str], remark: str = "", column: str = "") -> DataError:
        """The refusal of a file with several series, maybe told apart by a column."""
        known = list(names)
        shown = f"{column}: {_listed(known)}" if column else _listed(known)
        return DataError(
            f"{self.path} holds {len(known)} {self.noun}s{remark} ({shown}): choose one "
            f"(`{self.option}=NAME`)."
        )


@dataclass(frozen=True)
class Task:
    """A file to be read, what the user stated about it, and the notes that its reader makes."""

    path: Path
    options: ReadOptions = field(default_factory=ReadOptions)
    circuits: Circuits = "leave"
    # What else a reader found, one sentence each. A note never depends on the values
    notes: list[str] = field(default_factory=list)
    # What the values show about the file, for the household only
    private: list[str] = field(default_factory=list)
    # Which rule decided what, one sentence each
    reasons: list[str] = field(default_factory=list)

    def error(self, text: str) -> DataError:
        """The refusal of the file: its name, and what is wrong with it."""
        return DataError(f"{self.path}{text}" if text.startswith(":") else f"{self.path} {text}")

    def part(self, zone: str | None = None) -> Part:
        """The part of a file of a time zone that is read."""
        return Part.of(self.options.start, self.options.end, self.options.tz or zone or "UTC")

    def unit(self, stated: str | None, where: str) -> str | None:
        """The unit that a place of the file states, or else the user; they must not differ."""
        given = self.options.unit
        if stated is None or given is None or unit_factor(given) == unit_factor(stated):
            return stated or given
        raise self.error(f": {where} is in {stated}, not in {given} (`unit={given}`).")

    def chooser(self, noun: str, option: str, error: type[HushmeterError] = DataError) -> Chooser:
        """A chooser between several series of the file."""
        return Chooser(self.path, noun, option, error)


def _listed(names: Iterable[str]) -> str:
    """The first names, for a message."""
    different = list(dict.fromkeys(names))
    return ", ".join(different[:MOST_LISTED]) + ", …" * (len(different) > MOST_LISTED) or "none"


def unit_factor(unit: str) -> tuple[float, bool]:
    """Watts (or watt-hours) in one `unit`, and whether the unit is one of energy."""
    key = unit.strip()
    key = f"milli{key[1:]}".lower() if key.startswith("mW") else key.lower()
    if key in POWER_UNITS:
        return POWER_UNITS[key], False
    if key in ENERGY_UNITS:
        return ENERGY_UNITS[key], True
    raise InputError(f"unit must be one of {', '.join(UNITS)}; got {unit!r}.")


def _number(name: str, value: float | str) -> float:
    try:
        return float(value)
    except ValueError:
        raise InputError(f"{name} must be a number, got {value!r}.") from None


@dataclass
class Series:
    """Readings as a file holds them, before they are put at regular times."""

    times: IntArray  # Interval starts (or ends, see `stamp`), nanoseconds since 1970, UTC
    values: FloatArray  # Values in the file's unit
    # Name of the format, and the unit as the file gives it
    format: str
    unit: str = "W"
    factor: float = 1.0  # Watts, or watt-hours, in one unit
    energy: bool = False  # True if a value is the energy of its interval
    # Circuits and their values in the same unit, shape (T, N)
    names: tuple[str, ...] = ()
    power: FloatArray | None = None
    durations: FloatArray | None = None  # Length of each interval [s], where the file gives it
    interval_s: float | None = None  # Length of every interval [s], where the format declares it
    stamp: str = "start"  # The point of its interval that a time names: start, middle or end
    # True if the values are those of a counter that only rises (a register of a meter)
    counter: bool = False
    # Step to which the meter rounds a value, in the file's unit. For a counter without a known
    # step, one whole unit is assumed.
    step: float | None = None
    added: int = 1  # Columns or registers, each rounded by itself, that a value is the sum of
    # How the meter rounds, where the reader knows it; else it follows from `step`
    metering: Metering | None = None
    # What happens to several rows with one time: "last" keeps the last row; "equal" keeps one of
    # equal rows and refuses different ones.
    repeats: str = "equal"
    # Readings in the file, before any were left out; by default all of `times`
    found: int | None = None
    clock_changes: str = UTC_CLOCK  # How local times were placed
    zone: str | None = None  # Time zone of the home, where the file or the user states it
    mains: str = "metered"  # "metered", or "sum of sub-meters" where the file has no aggregate
    # True if the format, or the user, states that a row lacks only for reasons that do not depend
    # on the readings.
    complete: bool = False
    lacks: bool = False  # True if rows without a value were left out
    reach: int = 0  # Further readings that a change can move; see `Metering`
    # What must be stated before a release, where the reader knows it; see `Metering`
    unsettled: str | None = None
    is_cut: bool = False  # True if what is outside of the part that is read was left out

    def take(self, rows: IntArray | slice) -> None:
        """Keep only these rows, in this order."""
        self.times, self.values = self.times[rows], self.values[rows]
        if self.power is not None:
            self.power = self.power[rows]
        if self.durations is not None:
            self.durations = self.durations[rows]


@dataclass
class Rows:
    """Rows of one register."""

    times: IntArray  # Nanoseconds since 1970, UTC
    values: FloatArray
    durations: FloatArray | None = None  # Length of each interval [s], where the file gives it


def add_rows(parts: Sequence[Rows]) -> Rows:
    """The sum of several registers at every time of any of them; NaN where none has a value.

    Of equal times of one register the last row counts.
    """
    if len(parts) == 1:
        return parts[0]
    every = np.unique(np.concatenate([part.times for part in parts]))
    total, known = np.zeros(every.size), np.zeros(every.size, dtype=np.bool_)
    durations = None if parts[0].durations is None else np.full(every.size, np.nan)
    for part in parts:
        times, last = np.unique(part.times[::-1], return_index=True)
        place, index = np.searchsorted(every, times), part.times.size - 1 - last
        there = np.isfinite(part.values[index])
        total[place[there]] += part.values[index][there]
        known[place[there]] = True
        if durations is not None and part.durations is not None:
            durations[place] = part.durations[index]
    return Rows(every, np.where(known, total, np.nan), durations)


def metering_of_sum(step_w: float, added: int = 1, *, counter: bool = False) -> Metering:
    """How a meter rounds whose readings are sums of values that were rounded one by one.

    A load may change all of them, so their steps [W] are added.
    """
    if counter:
        return Metering(register_step_w=step_w * added, registers=added)
    return Metering(resolution_w=step_w * added)


@dataclass(frozen=True, eq=False)
class PublicFacts:
    """What a release publishes about a recording besides the noisy readings.

    Every field comes from the times, the header, the format or an option. Two files that differ
    only in the values of their readings have equal facts.
    """

    # As found in the file
    format: str
    unit: str
    interval_s: float  # Length of one reading [s]
    start: np.datetime64  # Start of the first reading, UTC
    # End of the last reading, UTC. Days of 23 and 25 hours make it differ from the regular end
    end: np.datetime64
    # Position of each reading, in intervals from `start`; None if there is no gap
    steps: IntArray | None
    names: tuple[str, ...]  # Circuits, where the file has them
    readings: int  # Readings in the file, repeated ones included
    duplicates: int = 0  # Rows that repeat a time that is already there
    reversed: int = 0  # Rows with a time earlier than the row before
    clock_changes: str = UTC_CLOCK  # How local times were placed
    # Time zone of the home, where the file or the user states it. Times are UTC in any case
    zone: str | None = None
    mains: str = "metered"  # "metered", or "sum of sub-meters" where the file has no aggregate
    notes: tuple[str, ...] = ()  # What else the reader found, one sentence each
    metering: Metering = field(default_factory=Metering)  # How the meter rounds its readings

    @property
    def gap_seconds(self) -> FloatArray:
        """Length of every gap [s]."""
        if self.steps is None:
            return np.zeros(0)
        missing = np.diff(self.steps) - 1
        lengths: FloatArray = missing[missing > 0] * self.interval_s
        return lengths

    @property
    def gaps(self) -> int:
        """Number of gaps."""
        return int(self.gap_seconds.size)


@dataclass(frozen=True, eq=False)
class Recording:
    """Meter readings with the public facts about them."""

    public: PublicFacts  # Times, interval, gaps, format, notes and metering
    watts: FloatArray  # The readings [W]. Private
    power: FloatArray | None = None  # Power of every circuit [W]. Private
    remarks: tuple[str, ...] = ()  # What the values show about the file, in sentences. Private

    @classmethod
    def of_trace(cls, trace: Trace, format_name: str, **facts: object) -> Recording:
        """Make a recording of a trace that already has regular times."""
        given: dict[str, object] = {"unit": "W", "readings": len(trace), **facts}
        public = PublicFacts(
            format=format_name,
            interval_s=trace.interval_s,
            start=trace.start,
            end=trace.times[-1] + np.timedelta64(round(trace.interval_s * 1e9), "ns"),
            steps=trace.steps,
            names=trace.names or (),
            metering=trace.metering,
            **given,  # type: ignore[arg-type]
        )
        return cls(public, trace.readings, trace.power)

    @cached_property
    def trace(self) -> Trace:
        """The readings as a trace."""
        facts = self.public
        return Trace(
            self.watts,
            facts.interval_s,
            facts.start,
            power=self.power,
            names=facts.names or None,
            steps=facts.steps,
            metering=facts.metering,
        )

    def within(self, task: Task, part: Part) -> Recording:
        """The recording of a part, without a first or a last reading that is only partly in it."""
        if not part:
            return self
        facts = self.public
        first, stop = (int(side.astype(np.int64)) for side in (facts.start, facts.end))
        lead, tail = (not part.holds(np.array(side), np.array(side)) for side in (first, stop))
        kept = slice(int(lead), len(self.watts) - int(tail))
        if kept.start >= kept.stop:
            raise task.error(f"has no whole reading {part}: choose a longer part (`end=`).")
        cut = self.trace[kept]
        last = cut.times[-1] + np.timedelta64(round(cut.interval_s * 1e9), "ns")
        public = replace(
            facts,
            start=cut.start,
            end=last if tail else facts.end,
            steps=cut.steps,
            notes=(*facts.notes, f"Only the part {part} was read."),
            metering=replace(facts.metering, part=part.written),
        )
        return Recording(public, cut.readings, cut.power, self.remarks)

    @property
    def format(self) -> str:
        """Name of the format."""
        return self.public.format

    @property
    def unit(self) -> str:
        """Unit of the values in the file."""
        return self.public.unit

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader found, one sentence each."""
        return self.public.notes

    @property
    def mains(self) -> str:
        """Whether the readings are metered or the sum of the circuits."""
        return self.public.mains
