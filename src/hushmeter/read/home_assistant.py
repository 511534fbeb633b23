"""Home Assistant: the download of the energy dashboard, and the history of a sensor.

The energy download is wide: entity_id, type, unit, then one column per period, in kWh; rows of
grid_consumption are the meter, rows of device_consumption the appliances. The history is long:
entity_id, state, last_changed; a row only where the state changed, "unavailable" in between.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hushmeter.checks import FloatArray
from hushmeter.errors import DataError
from hushmeter.read.changes import Changes, change_series, moment
from hushmeter.read.options import Circuits, ReadOptions, unit_factor
from hushmeter.read.recording import Series
from hushmeter.read.source import open_text
from hushmeter.read.text_table import MISSING
from hushmeter.read.times import unix_ns

MAX_FIELD = 1 << 20
METER, DEVICE = "grid_consumption", "device_consumption"


def unit_of_entity(entity: str, options: ReadOptions, path: Path) -> str:
    """The stated unit, or that of the last word of a name: sensor.energy_meter_power is power."""
    words = re.findall(r"kwh|energy|power|watt|kw|verbruik", entity.lower())
    units = {"kwh": "kWh", "energy": "kWh", "kw": "kW"}
    unit = options.unit or (units.get(words[-1], "W") if words else None)
    if unit is None:
        raise DataError(f"{path}: the unit of {entity} is unknown: state it (--unit W or kWh).")
    return unit


def read_energy(path: Path, options: ReadOptions, *, circuits: Circuits = "leave") -> Series:
    """The meter of an energy dashboard's download, and its devices unless `circuits` is "leave"."""
    rows = _rows(path)
    header = _header(rows)
    times = [moment(text, path, i + 4) for i, text in enumerate(header[3:])]
    if not times:
        raise DataError(f"{path} has no time columns after entity_id, type, unit.")
    meter = np.full(len(times), np.nan)
    devices: dict[str, FloatArray] = {}
    notes: list[str] = []
    others: set[str] = set()
    for number, row in enumerate(rows, 2):
        if len(row) < 3:
            continue
        kind = row[1].strip()
        if kind == METER:
            values = _energies(row, len(times), path, number)
            meter = np.where(np.isnan(meter), values, meter + np.nan_to_num(values))
        elif kind == DEVICE and circuits != "leave":
            devices[_device_name(row[0], devices)] = _energies(row, len(times), path, number)
        elif kind != DEVICE:
            others.add(kind)
    if others:
        notes.append(f"Rows of {', '.join(sorted(others))[:200]} were left out.")
    return _energy_series(np.array(times), meter, devices, notes, options, path)


def _energy_series(
    seconds: FloatArray,
    meter: FloatArray,
    devices: dict[str, FloatArray],
    notes: list[str],
    options: ReadOptions,
    path: Path,
) -> Series:
    """Missing periods of the meter are gaps; a device without a value drew nothing."""
    if not devices and np.isnan(meter).all():
        raise DataError(f"{path} has no row of {METER} with values.")
    power = np.column_stack(list(devices.values())) if devices else None
    if power is not None:
        empty = int(np.isnan(power).sum())
        if empty:
            notes.append(f"{empty} empty periods of devices count as nothing drawn.")
        power = np.nan_to_num(power)
    if np.isnan(meter).all() and power is not None:
        notes.append("No grid_consumption: the readings are the sum of the devices.")
        meter = power.sum(axis=1)
    there = np.flatnonzero(~np.isnan(meter))
    if there.size < meter.size:
        notes.append(f"{meter.size - there.size} periods without a reading became gaps.")
    series = Series(
        unix_ns(seconds, path),
        meter,
        "Home Assistant energy CSV",
        options.unit or "kWh",
        *unit_factor(options.unit or "kWh"),
        tuple(devices),
        power,
        step=options.step_size,
        repeats="last",
        found=int(there.size),
        complete=True,
        notes=notes,
    )
    series.take(there)
    return series


def read_history(path: Path, options: ReadOptions) -> Series:
    """One sensor of a history, over regular intervals; see `change_series`.

    Home Assistant writes the state at the start of the download as the first row.
    """
    rows = _rows(path)
    header = [name.strip("\ufeff ").lower() for name in _header(rows)]
    entity, state, when = (header.index(n) for n in ("entity_id", "state", "last_changed"))
    found: dict[str, list[tuple[float, str, int]]] = {}
    for number, row in enumerate(rows, 2):
        if len(row) <= max(entity, state, when):
            raise DataError(f"{path}: line {number} has {len(row)} of {len(header)} fields.")
        second = moment(row[when], path, number)
        found.setdefault(row[entity].strip(), []).append((second, row[state], number))
    chosen = _entity(found, options, path)
    seconds = np.array([second for second, _, _ in found[chosen]])
    values = np.array([read_state(text, f"line {n}", path) for _, text, n in found[chosen]])
    unit = unit_of_entity(chosen, options, path)
    changes = Changes(f"Entity {chosen}", seconds, values, unit, "Home Assistant history CSV")
    return change_series(changes, options, path)


def _header(rows: Iterator[list[str]]) -> list[str]:
    """The first row that holds anything."""
    return next(row for row in rows if any(cell.strip() for cell in row))


def _rows(path: Path) -> Iterator[list[str]]:
    csv.field_size_limit(MAX_FIELD)
    with open_text(path) as text:
        try:
            yield from csv.reader(line.replace("\x00", "") for line in text)
        except csv.Error as error:
            raise DataError(f"{path} is no CSV: {error}.") from None


def _energies(row: list[str], count: int, path: Path, number: int) -> FloatArray:
    """The row's energies in kWh; an empty field is missing."""
    factor = {"wh": 1e-3, "mwh": 1e3}.get(row[2].strip().lower(), 1.0)
    if row[2].strip().lower() not in ("kwh", "wh", "mwh"):
        raise DataError(f"{path}: line {number} is in {row[2][:20]!r}, not in kWh.")
    values = np.full(count, np.nan)
    for i, text in enumerate(row[3 : 3 + count]):
        if text.strip():
            try:
                values[i] = float(text) * factor
            except ValueError:
                raise DataError(
                    f"{path}: line {number}, field {i + 4} is {text[:20]!r}, not a number."
                ) from None
    if np.isinf(values).any():
        raise DataError(f"{path}: line {number} has an infinite energy.")
    return values


def _device_name(entity: str, taken: dict[str, FloatArray]) -> str:
    plain = entity.strip().removeprefix("sensor.").removesuffix("_energy") or "device"
    name, number = plain, 2
    while name in taken:
        name, number = f"{plain}_{number}", number + 1
    return name


def read_state(value: object, place: str, path: Path) -> float:
    """A number, or NaN for unavailable and unknown; any other word may follow from the value."""
    text = "" if value is None else str(value).strip()
    number = _as_number(text)
    if math.isnan(number) and text.lower() not in MISSING:
        raise DataError(
            f"{path}: the state in {place} is {text[:20]!r}, neither a number nor a mark of a "
            "missing value: correct it."
        )
    return number


def _as_number(text: str) -> float:
    """A finite number, or NaN."""
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def _entity(
    changes: dict[str, list[tuple[float, str, int]]], options: ReadOptions, path: Path
) -> str:
    """The sensor asked for, the only one, or the only one that is named after power."""
    numeric = [
        name for name, rows in changes.items()
        if any(math.isfinite(_as_number(text)) for _, text, _ in rows)
    ]  # fmt: skip
    if options.value_column is not None:
        if options.value_column in changes:
            return options.value_column
        raise DataError(f"{path} has no entity {options.value_column!r}: {', '.join(changes)}.")
    if not numeric:
        raise DataError(f"{path} has no entity with numbers, only {', '.join(list(changes)[:8])}.")
    if len(numeric) == 1:
        return numeric[0]
    power = [name for name in numeric if any(w in name for w in ("power", "watt", "verbruik"))]
    if len(power) == 1:
        return power[0]
    raise DataError(
        f"{path} has {len(numeric)} entities ({', '.join(numeric[:8])}): "
        "choose the meter's with --value-column."
    )
