"""DSMR P1 telegrams of Dutch, Belgian and Austrian meters: 1-0:1.7.0 is the power drawn.

Every telegram starts with a line /XXX, carries its own local time (W winter, S summer; Central
European unless a zone is stated) and ends with ! and a checksum, which some meters write without
its leading zeros. The power is in kW, or in whole watts on some meters. Meters send a telegram
every 1, 5 or 10 seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import numpy as np

from hushmeter.clock import in_zone
from hushmeter.read.recording import Series, Task
from hushmeter.read.source import open_text
from hushmeter.read.times import unix_ns

FORMAT = "DSMR P1 telegrams"
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
        if not _is_whole(telegram) or POWER not in telegram:
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
        FORMAT,
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


def _is_whole(telegram: str) -> bool:
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
