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
from datetime import datetime
from pathlib import Path

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.errors import DataError
from hushmeter.read.options import ReadOptions, unit_factor
from hushmeter.read.recording import Series
from hushmeter.read.source import open_text
from hushmeter.read.times import LATEST, SECOND, unix_ns
from hushmeter.trace import Metering

POWER_INTERVAL_S, ENERGY_INTERVAL_S = 60.0, 3600.0
MAX_CELLS = 100_000_000
MAX_FIELD = 1 << 20
METER, DEVICE = "grid_consumption", "device_consumption"


def change_series(entity: str, rows: FloatArray, options: ReadOptions, path: Path) -> Series:
    """Means over regular intervals of a sensor that records changes only.

    A value holds until the next row; "unavailable" ends it. A counter rises linearly between two
    rows, and a fall is a reset to zero, as Home Assistant itself counts. When a change occurs
    depends on the readings, so neither the interval nor a gap is taken from the changes.

    Parameters
    ----------
    entity : str
        Name of the sensor.
    rows : FloatArray, shape (n, 2)
        Unix seconds and values; NaN where the sensor is unavailable.
    options : ReadOptions
        `reading_length` is one minute for power and one hour for energy by default.
    path : Path

    Returns
    -------
    Series

    Raises
    ------
    DataError
        If the unit is unknown, or no interval is covered whole.
    """
    unit = options.unit or _unit_of_entity(entity)
    if unit is None:
        raise DataError(f"{path}: the unit of {entity} is unknown: state it (--unit W or kWh).")
    factor, energy = unit_factor(unit)
    seconds, values = _ordered(rows, path)
    interval = options.interval_s or (ENERGY_INTERVAL_S if energy else POWER_INTERVAL_S)
    absent = int(np.isnan(values).sum())
    end = _end(seconds, options, path)
    if energy:
        values = _slopes(seconds, values)
    length = np.clip(np.append(seconds[1:], end) - seconds, 0.0, None)
    length = np.minimum(length, np.maximum(end - seconds, 0.0))
    valid = np.isfinite(values) & (length > 0)
    cells, means = _cell_means(seconds, values, length, valid, interval, path)
    notes = [f"Entity {entity}: a value holds until the next row; means over {interval:g} s."]
    if energy:
        notes.append("The values are those of a counter: differences were taken.")
    if absent:
        often = "once" if absent == 1 else f"{absent} times"
        notes.append(f"The sensor was unavailable {often}; these times are gaps.")
    if options.until is None:
        notes.append(
            "The end is that of the last change, which depends on the readings: state the end of "
            "the download (--until) before a release."
        )
    step = (options.step_size or (1.0 if energy else 0.0)) * factor
    return Series(
        (cells * round(interval * SECOND)).astype(np.int64),
        means,
        "Home Assistant history CSV",
        unit,
        factor * (3600 if energy else 1),
        interval_s=interval,
        found=int(cells.size),
        notes=notes,
        metering=Metering(register_step_w=step * 3600 / interval) if energy else Metering(step),
    )


def _unit_of_entity(entity: str) -> str | None:
    """The unit by the last word of a name that states it: sensor.energy_meter_power is power."""
    words = re.findall(r"kwh|energy|power|watt|kw|verbruik", entity.lower())
    units = {"kwh": "kWh", "energy": "kWh", "kw": "kW"}
    return units.get(words[-1], "W") if words else None


def _end(seconds: FloatArray, options: ReadOptions, path: Path) -> float:
    """The end of the recording: as stated, or the hour before the last change."""
    if options.until is not None:
        end = _seconds(options.until, path, 0)
        if end <= seconds[0]:
            raise DataError(f"{path} begins after the stated end {options.until}.")
        return end
    hour = float(np.floor(seconds[-1] / 3600) * 3600)
    return hour if hour > seconds[0] else float(seconds[-1])


def _ordered(rows: FloatArray, path: Path) -> tuple[FloatArray, FloatArray]:
    """Ascending times; of equal ones the last row counts."""
    order = np.argsort(rows[:, 0], kind="stable")
    seconds, values = rows[order, 0], rows[order, 1]
    last = np.append(np.diff(seconds) > 0, True)
    seconds, values = seconds[last], values[last]
    if seconds.size < 2:
        raise DataError(f"{path} has a single change of state; two are needed.")
    if seconds[0] < 0 or seconds[-1] >= LATEST:
        raise DataError(f"{path} has times outside 1970 … 2200.")
    if np.nanmax(np.abs(values), initial=0.0) > 1e12:
        raise DataError(f"{path} has values beyond 1e12; check the entity.")
    return seconds, values


def _slopes(seconds: FloatArray, counter: FloatArray) -> FloatArray:
    """Units per second between two values of a counter; after a fall it counts from zero."""
    rise = np.diff(counter, append=np.nan)
    rise = np.where(rise < 0, np.append(counter[1:], np.nan), rise)
    # After the last row the counter is unknown; it is taken to stand still.
    rise[-1] = 0.0 if np.isfinite(counter[-1]) else np.nan
    slopes: FloatArray = rise / np.maximum(np.diff(seconds, append=seconds[-1] + 1), 1e-9)
    return slopes


def _cell_means(
    seconds: FloatArray,
    values: FloatArray,
    length: FloatArray,
    valid: BoolArray,
    interval: float,
    path: Path,
) -> tuple[IntArray, FloatArray]:
    """Cells that are covered whole, and the mean of the step function in each."""
    last = np.floor((seconds + length) / interval)
    touched = np.where(valid, last - np.floor(seconds / interval) + 1, 0)
    if touched.sum() > MAX_CELLS:
        raise DataError(f"{path} would give more than {MAX_CELLS} cells of {interval:g} s.")
    start = np.floor(seconds[valid] / interval).astype(np.int64)
    count = touched[valid].astype(np.int64)
    cells = (
        np.repeat(start, count)
        + np.arange(count.sum())
        - np.repeat(np.cumsum(count) - count, count)
    )
    left = np.maximum(np.repeat(seconds[valid], count), cells * interval)
    right = np.minimum(np.repeat((seconds + length)[valid], count), (cells + 1) * interval)
    overlap = np.maximum(right - left, 0.0)
    unique, inverse = np.unique(cells, return_inverse=True)
    covered = np.bincount(inverse, weights=overlap)
    total = np.bincount(inverse, weights=overlap * np.repeat(values[valid], count))
    whole = covered >= interval * (1 - 1e-6)
    if not whole.any():
        raise DataError(
            f"{path}: no interval of {interval:g} s is covered whole; state a shorter one "
            "(--reading-length 10s)."
        )
    return unique[whole], total[whole] / covered[whole]


def read_energy(path: Path, options: ReadOptions) -> Series:
    """The meter and the devices of an energy dashboard's download."""
    rows = _rows(path)
    header = _header(rows)
    times = [_seconds(text, path, i) for i, text in enumerate(header[3:])]
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
        elif kind == DEVICE:
            devices[_device_name(row[0], devices)] = _energies(row, len(times), path, number)
        else:
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
        raise DataError(f"{path} has no row of {METER} or {DEVICE} with values.")
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
        notes=notes,
    )
    series.take(there)
    return series


def read_history(path: Path, options: ReadOptions) -> Series:
    """One sensor of a history, as means over regular intervals; see `change_series`."""
    rows = _rows(path)
    header = [name.strip("\ufeff ").lower() for name in _header(rows)]
    entity, state, when = (header.index(n) for n in ("entity_id", "state", "last_changed"))
    changes: dict[str, list[tuple[float, float]]] = {}
    for number, row in enumerate(rows, 2):
        if len(row) <= max(entity, state, when):
            raise DataError(f"{path}: line {number} has {len(row)} of {len(header)} fields.")
        moment = _seconds(row[when], path, number)
        changes.setdefault(row[entity].strip(), []).append((moment, _state(row[state])))
    chosen = _entity(changes, options, path)
    return change_series(chosen, np.array(changes[chosen]), options, path)


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


def _seconds(text: str, path: Path, place: int) -> float:
    try:
        moment = datetime.fromisoformat(text.strip())
        if moment.tzinfo is None:
            raise DataError(f"{path}: time {text[:40]!r} carries no zone (field or line {place}).")
        return moment.timestamp()
    except (ValueError, OverflowError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: {text[:40]!r} is not a time (field or line {place}).") from None


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


def _state(text: str) -> float:
    """A number, or NaN for unavailable, unknown and whatever else is no number."""
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def _entity(changes: dict[str, list[tuple[float, float]]], options: ReadOptions, path: Path) -> str:
    """The sensor asked for, the only one, or the only one that is named after power."""
    numeric = [name for name, rows in changes.items() if any(math.isfinite(v) for _, v in rows)]
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
