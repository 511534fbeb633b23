"""Records of meters and their operators: NEM12 and NEM13 of Australia, and DSMR P1 telegrams.

In the files of the Australian market, records begin with a number: 200 opens a register of a
metering point (NMI), 300 holds the values of one day, 400 the quality of some of them, 250 an
accumulated read (NEM13). Register names begin with E for energy that the customer drew and with B
for energy that was fed into the grid. Times are those of the market, UTC+10 all year.

Dutch, Belgian and Austrian meters send a telegram every 1, 5 or 10 seconds. It starts with a line
/XXX, carries its own local time (W winter, S summer; Central European unless a zone is stated) and
ends with ! and a checksum, which some meters write without its leading zeros. The power drawn,
1-0:1.7.0, is in kW, or in whole watts on some meters.

References
----------
.. [1] AEMO, Meter Data File Format Specification NEM12 & NEM13.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone

import numpy as np

from hushmeter.checks import FloatArray, IntArray
from hushmeter.clock import SECOND, in_zone
from hushmeter.errors import DataError
from hushmeter.formatting import count_of
from hushmeter.read.headers import find_unit, is_missing
from hushmeter.read.recording import Series, Task, unit_factor
from hushmeter.read.regular_times import refuse_mean
from hushmeter.read.source import csv_rows, open_text
from hushmeter.read.times import unix_ns
from hushmeter.trace import SECONDS_PER_DAY, SECONDS_PER_HOUR

MARKET_OFFSET_S, MARKET_ZONE = 10 * SECONDS_PER_HOUR, "Etc/GMT-10"
DAY_MINUTES = 1440
LENGTHS = (1, 5, 10, 15, 30, 60)
QUALITY = re.compile(r"[AENSFV]\d{0,2}")
MISSING = "N"
ESTIMATES = ("E", "F", "S")
IMPORT = "E"


@dataclass
class Day:
    """The values of one day of a register."""

    start: int  # Midnight of the market's time [s since 1970]
    values: list[str]  # Values as written, one for each interval
    minutes: int  # Length of an interval [min]
    updated: str  # Time of the last change of the record, in digits
    qualities: list[str]  # Quality of every value: A (metered), S, F or E (estimated), N (missing)
    line: int


@dataclass
class Register:
    """A register of a metering point."""

    nmi: str  # The metering point
    name: str  # Such as E1
    unit: str  # As written
    days: dict[int, Day] = field(default_factory=dict)  # Days by their start
    replaced: int = 0  # Records of a day that was already there

    def add(self, day: Day) -> None:
        """Add a day; of several records of one day the last changed one is kept."""
        known = self.days.get(day.start)
        if known is not None:
            self.replaced += 1
            if day.updated < known.updated:
                return
        self.days[day.start] = day


def read_nem(task: Task) -> Series:
    """Read what the customer of a NEM12 file drew: the sum of the registers E1, E2, …"""
    registers, accumulated = _parse(task)
    if not registers:
        raise _no_intervals(task, accumulated)
    chosen = _drawn(task, registers)
    task.notes.append("Times are those of the market, UTC+10 all year.")
    if len(registers) > len(chosen):
        left = [r for r in registers if r not in chosen]
        names = ", ".join(dict.fromkeys(f"{r.name} of {r.nmi}" for r in left))
        task.notes.append(f"Registers that were not read: {names}.")
    if accumulated:
        task.notes.append(f"{len(accumulated)} accumulated reads (records 250) were left out.")
    if len(chosen) > 1:
        task.notes.append(f"Added up: {', '.join(r.name for r in chosen)}.")
    return _series(task, chosen)


def _parse(task: Task) -> tuple[list[Register], list[list[str]]]:
    """The registers with their days, and the records of accumulated reads."""
    registers: dict[tuple[str, str], Register] = {}
    accumulated: list[list[str]] = []
    register, minutes, day = None, 0, None
    for line, fields in enumerate(csv_rows(task.path), 1):
        kind = fields[0] if fields else ""
        if kind == "200":
            register, minutes = _open_register(task, fields, registers, line)
        elif kind == "300":
            if register is None:
                raise task.error(f": the 300 record in line {line} has no 200 record above.")
            day = _read_day(task, fields, minutes, register, line)
            if day is not None:
                register.add(day)
        elif kind == "400" and day is not None:
            _apply_quality(task, fields, day, line)
        elif kind == "250":
            accumulated.append(fields)
    return list(registers.values()), accumulated


def _open_register(
    task: Task, fields: list[str], registers: dict[tuple[str, str], Register], line: int
) -> tuple[Register, int]:
    """The register of a 200 record, and the length of its intervals [min]."""
    if len(fields) < 9 or not fields[8].isdigit() or int(fields[8]) not in LENGTHS:
        raise task.error(
            f": the 200 record in line {line} names no interval length of 1 to 60 minutes."
        )
    nmi, name, unit = fields[1], fields[4].upper() or fields[3].upper(), fields[7]
    register = registers.setdefault((nmi, name), Register(nmi, name, unit))
    if register.unit.lower() != unit.lower():
        raise task.error(
            f": register {name} of {nmi} has the units {register.unit} and {unit} (line "
            f"{line}): cut the file between them."
        )
    return register, int(fields[8])


def _read_day(
    task: Task, fields: list[str], minutes: int, register: Register, line: int
) -> Day | None:
    """The values of a 300 record; None in a register that is not read."""
    if not register.name.startswith(IMPORT):
        return None
    count = DAY_MINUTES // minutes
    quality = fields[2 + count] if len(fields) > 2 + count else ""
    if not QUALITY.fullmatch(quality):
        found = next((i for i, c in enumerate(fields[2:]) if QUALITY.fullmatch(c)), len(fields) - 2)
        raise task.error(
            f": the 300 record of {fields[1][:8]} (line {line}, register {register.name}) "
            f"has {found} values, and NEM12 asks for {count} of {minutes} minutes: ask for the "
            "file again, or delete this record to leave a gap."
        )
    try:
        moment = date(int(fields[1][:4]), int(fields[1][4:6]), int(fields[1][6:8]))
    except (ValueError, IndexError):
        raise task.error(f": {fields[1][:20]!r} in line {line} is no date.") from None
    start = (moment - date(1970, 1, 1)).days * SECONDS_PER_DAY - MARKET_OFFSET_S
    updated = fields[5 + count] if len(fields) > 5 + count else ""
    return Day(start, fields[2 : 2 + count], minutes, updated, [quality[0]] * count, line)


def _apply_quality(task: Task, fields: list[str], day: Day, line: int) -> None:
    """Set the quality of the intervals that a 400 record names, counted from one."""
    try:
        first, last = int(fields[1]), int(fields[2])
        day.qualities[first - 1 : last] = [fields[3][0]] * (last - first + 1)
    except (IndexError, ValueError):
        raise task.error(f": the 400 record in line {line} is damaged.") from None


def _no_intervals(task: Task, accumulated: Sequence[Sequence[str]]) -> DataError:
    if accumulated:
        return task.error(
            f"is a NEM13 file: it holds {len(accumulated)} accumulated reads of a register, "
            "which are months apart, and no intervals; ask the distributor for NEM12 interval data."
        )
    return task.error("is a NEM12 file without a register (record 200).")


def _drawn(task: Task, registers: Sequence[Register]) -> list[Register]:
    """The registers of one metering point that are added up."""
    points = task.chooser("metering point", "meter")
    if task.options.meter is not None:
        nmi = points.asked((r.nmi for r in registers), task.options.meter)
        registers = [r for r in registers if r.nmi == nmi]
    imports = [r for r in registers if r.name.startswith(IMPORT)]
    if task.options.register is not None:
        drawn = task.chooser("register of drawn energy", "register")
        wanted = {drawn.asked((r.name for r in imports), name)
                  for name in task.options.register.split("+")}  # fmt: skip
        imports = [r for r in imports if r.name in wanted]
    imports = [r for r in imports if r.days]
    if not imports:
        found = ", ".join(dict.fromkeys(r.name for r in registers))
        raise task.error(
            f"has no register of energy that the customer drew (E1, E2, …), only {found}."
        )
    points.only(dict.fromkeys(r.nmi for r in imports))
    return imports


def _series(task: Task, registers: Sequence[Register]) -> Series:
    """The sum of the registers at every time at which all of them have a value."""
    length = max(day.minutes for register in registers for day in register.days.values())
    if len({day.minutes for r in registers for day in r.days.values()}) > 1:
        task.notes.append(f"Shorter intervals were added up to {length} minutes.")
    unit = _unit(task, registers)
    parts = [_placed(task, register, length) for register in registers]
    times, total = parts[0]
    for others, values in parts[1:]:
        both, mine, theirs = np.intersect1d(times, others, return_indices=True)
        missing = times.size + others.size - 2 * both.size
        if missing:
            task.notes.append(f"{missing} intervals lack in one of the registers: they are gaps.")
        times, total = both, total[mine] + values[theirs]
    if times.size == 0:
        raise task.error(": the registers have no time in common: choose one (`register=`).")
    replaced = sum(register.replaced for register in registers)
    if replaced:
        again = count_of(replaced, "day occurs again", "days occur again")
        task.notes.append(f"{again}: the last changed record of each was kept.")
    _note_quality(task, registers)
    factor, energy = unit_factor(unit)
    if not energy:
        raise task.error(f": NEM12 holds energies, so its unit cannot be {unit}.")
    refuse_mean(float(np.mean(total)) * factor * 60 / length, task.path)
    return Series(
        times * SECOND,
        total,
        "NEM12",
        unit,
        factor,
        energy,
        interval_s=60.0 * length,
        added=len(registers),
        zone=task.options.tz or MARKET_ZONE,
        complete=True,
    )


def _unit(task: Task, registers: Sequence[Register]) -> str:
    """The unit of all registers that are added up."""
    units = {
        task.unit(find_unit(register.unit), f"register {register.name}") for register in registers
    }
    unit = next(iter(units))
    if len(units) > 1 or unit is None:
        found = ", ".join(f"{r.name}: {r.unit or 'none'}" for r in registers)
        raise task.error(
            f"does not state one unit of energy for its registers ({found}): choose one "
            "(`register=NAME`), or state it (`unit=kWh`)."
        )
    return unit


def _placed(task: Task, register: Register, length: int) -> tuple[IntArray, FloatArray]:
    """Starts [s since 1970] and energies of a register, in intervals of `length` minutes."""
    times, values = [], []
    for start, day in sorted(register.days.items()):
        if length % day.minutes:
            raise task.error(
                f"has intervals of {day.minutes} and of {length} minutes, which do not fit "
                "into each other: choose a register (`register=NAME`)."
            )
        energies = _numbers(task, day, register).reshape(-1, length // day.minutes).sum(axis=1)
        known = np.isfinite(energies)
        times.append((start + 60 * length * np.arange(energies.size))[known])
        values.append(energies[known])
    return np.concatenate(times).astype(np.int64), np.concatenate(values)


def _numbers(task: Task, day: Day, register: Register) -> FloatArray:
    """The values of a day; NaN where one is missing or marked as missing."""
    try:
        values = np.array([np.nan if is_missing(text) else float(text) for text in day.values])
    except ValueError as error:
        odd = str(error).rpartition(": ")[2]
        raise task.error(
            f": {odd[:20]} in line {day.line} (register {register.name}) is no number."
        ) from None
    values[np.array(day.qualities) == MISSING] = np.nan
    if np.isinf(values).any():
        raise task.error(f": line {day.line} has an infinite value.")
    return values


def _note_quality(task: Task, registers: Sequence[Register]) -> None:
    qualities = [q for r in registers for day in r.days.values() for q in day.qualities]
    estimates = sum(quality in ESTIMATES for quality in qualities)
    if estimates:
        marked = count_of(estimates, "value is marked", "values are marked")
        task.notes.append(f"{marked} as estimates or substitutes.")
    if MISSING in qualities:
        marked = count_of(qualities.count(MISSING), "value is marked", "values are marked")
        task.notes.append(f"{marked} as missing: they are gaps.")


TELEGRAMS = "DSMR P1 telegrams"
STAMP = re.compile(r"^0-0:1\.0\.0\((\d{12})([WS])\)", re.MULTILINE)
DRAWN = re.compile(r"^1-0:1\.7\.0\((\d+(?:\.\d+)?)\*(k?W)\)", re.MULTILINE)
POWER = "1-0:1.7.0"
STEP_W = 1.0
"""Step of the power in a telegram: three decimals of a kilowatt, or whole watts."""
MAX_TELEGRAM = 1 << 16


def read_dsmr(task: Task) -> Series:
    """Power drawn from the grid; a telegram with a wrong checksum is left out and counted."""
    seconds: list[float] = []
    watts: list[float] = []
    units: set[str] = set()
    torn = found = 0
    winter = winter_offset(task.options.tz)
    for telegram in _telegrams(task):
        found += 1
        stamp, drawn = STAMP.search(telegram), DRAWN.search(telegram)
        if not _is_intact(telegram) or POWER not in telegram:
            torn += 1
            continue
        if drawn is None:
            # The telegram is whole, so that what stands there may follow from the power itself.
            raise task.error(f": telegram {found} has no number as its power ({POWER}).")
        if stamp is None:
            raise task.error(
                f": telegram {found} carries no time and season (0-0:1.0.0), as in DSMR 2 "
                "and 3; record the power with a time of your own, as CSV with timestamp and watts."
            )
        try:
            seconds.append(telegram_seconds(stamp[1], stamp[2], winter))
        except ValueError:
            raise task.error(f": telegram {found} has the impossible time {stamp[1]}.") from None
        watts.append(float(drawn[1]) * (1000.0 if drawn[2] == "kW" else 1.0))
        units.add(drawn[2])
    if not seconds:
        have = "one telegram, but it is not" if found == 1 else f"{found} telegrams, but none is"
        raise task.error(
            f"has {have} whole with the power drawn (1-0:1.7.0); at least two such "
            "telegrams are needed."
        )
    if torn:
        task.notes.append(f"{torn} telegrams were torn or failed their checksum.")
    # How often power was fed in depends on the readings, so it is not stated.
    task.notes.append("Power fed into the grid (1-0:2.7.0) is not counted.")
    unit = "kW" if units == {"kW"} else "W"
    factor = 1000.0 if unit == "kW" else 1.0
    return Series(
        unix_ns(np.array(seconds), task.path),
        np.array(watts) / factor,
        TELEGRAMS,
        unit,
        factor,
        step=STEP_W / factor,
        repeats="last",
        found=found,
        clock_changes="local times with their season (W, S)",
        complete=True,
    )


def _telegrams(task: Task) -> Iterator[str]:
    """One telegram after another, from its / to its !, without keeping the file."""
    lines: list[str] = []
    size = 0
    with open_text(task.path) as text:
        for line in text:
            plain = line.rstrip("\r\n")
            if plain.startswith("/"):
                lines, size = [], 0
            lines.append(plain)
            size += len(plain)
            if size > MAX_TELEGRAM:
                raise task.error(f": a telegram is longer than {MAX_TELEGRAM >> 10} kB.")
            if plain.startswith("!"):
                yield "\n".join(lines)
                lines, size = [], 0
    if any("1-0:1.7.0" in line for line in lines):
        yield "\n".join(lines)


def _is_intact(telegram: str) -> bool:
    """Starts with /, ends with !, and the checksum holds, where there is one."""
    body, mark, tail = telegram.rpartition("!")
    if not mark or not body.startswith("/"):
        return False
    checksum = tail.strip()
    if not re.fullmatch(r"[0-9A-Fa-f]{1,4}", checksum):
        return checksum == ""
    return crc16((body + "!").replace("\n", "\r\n").encode("latin-1", "replace")) == int(
        checksum, 16
    )


def _crc16_table() -> list[int]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (0xA001 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _crc16_table()


def crc16(data: bytes) -> int:
    """CRC-16 with polynomial x^16 + x^15 + x^2 + 1, least bit first, as the P1 standard says."""
    crc = 0
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc


def winter_offset(tz: str | None) -> timedelta:
    """How far the winter time of a zone, or of Central Europe, is ahead of UTC."""
    offset = in_zone(datetime(2024, 1, 1), tz or "Europe/Amsterdam").utcoffset()
    return offset or timedelta(0)


def telegram_seconds(digits: str, season: str, winter: timedelta) -> float:
    """Unix seconds of YYMMDDhhmmss in winter time, or in summer time where the season is S."""
    zone = timezone(winter + timedelta(hours=season == "S"))
    return datetime.strptime(digits, "%y%m%d%H%M%S").replace(tzinfo=zone).timestamp()
