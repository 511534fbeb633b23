"""What a user can state about a file that does not contain it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hushmeter.checks import one_of, positive, seconds
from hushmeter.clock import check_zone
from hushmeter.errors import InputError

POWER_UNITS = {"w": 1.0, "kw": 1e3, "mw": 1e6, "va": 1.0, "kva": 1e3}
ENERGY_UNITS = {"mwh": 1e6, "kwh": 1e3, "wh": 1.0, "milliwh": 1e-3}
UNITS = ("W", "kW", "MW", "Wh", "kWh", "MWh", "milliWh", "VA", "kVA")
ANSWERS = {"yes": True, "no": False}
DECIMALS = {"point": ".", "comma": ","}
Circuits = Literal["leave", "beside", "sum"]
"""Whether circuits are left out, read beside the meter, or added up where there is no meter."""


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
    since, until : str, optional
        Start and end of a recording of changes, as ISO 8601 times with a zone.
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
    since: str | None = None
    until: str | None = None
    decimal: str | None = None
    sheet: str | None = None
    member: str | None = None

    def __post_init__(self) -> None:
        if self.unit is not None:
            unit_factor(self.unit)
        if self.stamp is not None:
            one_of("stamp", self.stamp, ("start", "end"))
        if self.counter is not None:
            one_of("counter", self.counter, tuple(ANSWERS))
        if self.changes is not None:
            one_of("changes", self.changes, tuple(ANSWERS))
        if self.decimal is not None:
            one_of("decimal", self.decimal, tuple(DECIMALS))
        if self.tz is not None:
            check_zone(self.tz)
        if self.reading_length is not None:
            length = seconds("reading_length", self.reading_length)
            object.__setattr__(self, "reading_length", length)
        if self.step is not None:
            object.__setattr__(self, "step", positive("step", _number("step", self.step)))

    @property
    def is_counter(self) -> bool | None:
        """Whether the user stated that the values are those of a counter."""
        return None if self.counter is None else ANSWERS[self.counter]

    @property
    def step_size(self) -> float | None:
        """The step of the meter's values, in their unit."""
        return None if self.step is None else float(self.step)

    @property
    def interval_s(self) -> float | None:
        """The length of one reading [s]."""
        return None if self.reading_length is None else float(self.reading_length)


def unit_factor(unit: str) -> tuple[float, bool]:
    """Watts (or watt-hours) in one `unit`, and whether the unit is one of energy."""
    key = unit.strip().lower()
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
