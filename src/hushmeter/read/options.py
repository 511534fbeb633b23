"""What a person can tell a reader about a file that does not say it itself."""

from __future__ import annotations

from dataclasses import dataclass

from hushmeter.checks import one_of
from hushmeter.errors import InputError

POWER_UNITS = {"w": 1.0, "kw": 1e3, "mw": 1e6, "va": 1.0, "kva": 1e3}
ENERGY_UNITS = {"mwh": 1e6, "kwh": 1e3, "wh": 1.0, "milliwh": 1e-3}
UNITS = ("W", "kW", "MW", "Wh", "kWh", "MWh", "milliWh", "VA", "kVA")


@dataclass(frozen=True)
class ReadOptions:
    """Answers to what a file leaves open; None leaves it to the reader.

    Parameters
    ----------
    time_column, value_column : str, optional
        Columns of the times and of the meter's values (for Home Assistant's history: the
        entity).
    unit : str, optional
        One of W, kW, MW, Wh, kWh, MWh, milliWh, VA, kVA. Energy is per interval.
    stamp : {"start", "end"}, optional
        Which end of its interval a time names.
    tz : str, optional
        Zone of times that carry none, such as Europe/Dublin or UTC.
    building : int or str, optional
        Which home, in a file or folder of several.
    repeats : {"refuse", "last"}, optional
        What to do with repeated or reversed times; by default what the format is known for.
    """

    time_column: str | None = None
    value_column: str | None = None
    unit: str | None = None
    stamp: str | None = None
    tz: str | None = None
    building: int | str | None = None
    repeats: str | None = None

    def __post_init__(self) -> None:
        if self.unit is not None:
            unit_factor(self.unit)
        if self.stamp is not None:
            one_of("stamp", self.stamp, ("start", "end"))
        if self.repeats is not None:
            one_of("repeats", self.repeats, ("refuse", "last"))
        if self.tz is not None:
            check_zone(self.tz)


def unit_factor(unit: str) -> tuple[float, bool]:
    """Watts (or watt-hours) in one `unit`, and whether it is an energy."""
    key = unit.strip().lower()
    if key in POWER_UNITS:
        return POWER_UNITS[key], False
    if key in ENERGY_UNITS:
        return ENERGY_UNITS[key], True
    raise InputError(f"unit must be one of {', '.join(UNITS)}; got {unit!r}.")


def check_zone(name: str) -> str:
    """`name`, refused unless it is a time zone of the IANA data base."""
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InputError(
            f"tz must be a time zone such as UTC or Europe/London, got {name!r}."
        ) from None
    return name
