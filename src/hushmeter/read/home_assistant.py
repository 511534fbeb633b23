"""Home Assistant: the energy dashboard's download, a sensor's history, and rows of changes.

The energy download is wide: entity_id, type, unit, then one column per period, in kWh; rows of
grid_consumption are the meter, rows of device_consumption the appliances. The history is long:
entity_id, state, last_changed; a row only where the state changed, "unavailable" in between.

When a change occurs depends on the readings. Neither the interval, nor a gap, nor the start or the
end of the readings may therefore be taken from such rows: the user states the start and the end.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.clock import SECOND
from hushmeter.errors import DataError
from hushmeter.read.headers import missing_marks
from hushmeter.read.recording import Series, Task, metering_of_sum, unit_factor
from hushmeter.read.source import csv_rows
from hushmeter.read.times import LATEST, unix_ns

METER, DEVICE = "grid_consumption", "device_consumption"
POWER_INTERVAL_S, ENERGY_INTERVAL_S = 60.0, 3600.0
MAX_CELLS = 100_000_000


def unit_of_entity(task: Task, entity: str) -> str:
    """The stated unit, or that of the last word of a name: sensor.energy_meter_power is power."""
    words = re.findall(r"kwh|energy|power|watt|kw|verbruik", entity.lower())
    units = {"kwh": "kWh", "energy": "kWh", "kw": "kW"}
    unit = task.options.unit or (units.get(words[-1], "W") if words else None)
    if unit is None:
        raise task.error(f": the unit of {entity} is unknown: state it (`unit=W` or kWh).")
    return unit


def read_energy(task: Task) -> Series:
    """The meter of an energy dashboard's download, and its devices unless `circuits` is "leave"."""
    rows = csv_rows(task.path)
    header = _header(rows)
    times = [moment(task, text, i + 4) for i, text in enumerate(header[3:])]
    if not times:
        raise task.error("has no time columns after entity_id, type, unit.")
    meter = np.full(len(times), np.nan)
    devices: dict[str, FloatArray] = {}
    others: set[str] = set()
    for number, row in enumerate(rows, 2):
        if len(row) < 3:
            continue
        kind = row[1].strip()
        if kind == METER:
            values = _energies(task, row, len(times), number)
            meter = np.where(np.isnan(meter), values, meter + np.nan_to_num(values))
        elif kind == DEVICE and task.circuits != "leave":
            devices[_device_name(row[0], devices)] = _energies(task, row, len(times), number)
        elif kind != DEVICE:
            others.add(kind)
    if others:
        task.notes.append(f"Rows of {', '.join(sorted(others))[:200]} were left out.")
    return _energy_series(task, np.array(times), meter, devices)


def _energy_series(
    task: Task, seconds: FloatArray, meter: FloatArray, devices: dict[str, FloatArray]
) -> Series:
    """Missing periods of the meter are gaps; a device without a value drew nothing."""
    if not devices and np.isnan(meter).all():
        raise task.error(f"has no row of {METER} with values.")
    power = np.column_stack(list(devices.values())) if devices else None
    if power is not None:
        empty = int(np.isnan(power).sum())
        if empty:
            task.notes.append(f"{empty} empty periods of devices count as nothing drawn.")
        power = np.nan_to_num(power)
    if np.isnan(meter).all() and power is not None:
        task.notes.append("No grid_consumption: the readings are the sum of the devices.")
        meter = power.sum(axis=1)
    there = np.flatnonzero(~np.isnan(meter))
    if there.size < meter.size:
        task.notes.append(f"{meter.size - there.size} periods without a reading became gaps.")
    series = Series(
        unix_ns(seconds, task.path),
        meter,
        "Home Assistant energy CSV",
        task.options.unit or "kWh",
        *unit_factor(task.options.unit or "kWh"),
        tuple(devices),
        power,
        repeats="last",
        found=int(there.size),
        complete=True,
    )
    series.take(there)
    return series


def read_history(task: Task) -> Series:
    """One sensor of a history, over regular intervals; see `change_series`.

    Home Assistant writes the state at the start of the download as the first row.
    """
    rows = csv_rows(task.path)
    header = [name.strip("\ufeff ").lower() for name in _header(rows)]
    entity, state, when = (header.index(n) for n in ("entity_id", "state", "last_changed"))
    found: dict[str, list[tuple[float, str, int]]] = {}
    for number, row in enumerate(rows, 2):
        if len(row) <= max(entity, state, when):
            raise task.error(f": line {number} has {len(row)} of {len(header)} fields.")
        second = moment(task, row[when], number)
        found.setdefault(row[entity].strip(), []).append((second, row[state], number))
    chosen = _entity(task, found)
    seconds = np.array([second for second, _, _ in found[chosen]])
    values = np.array([read_state(task, text, f"line {n}") for _, text, n in found[chosen]])
    unit = unit_of_entity(task, chosen)
    changes = Changes(f"Entity {chosen}", seconds, values, unit, "Home Assistant history CSV")
    return change_series(task, changes)


def _header(rows: Iterator[list[str]]) -> list[str]:
    """The first row that holds anything."""
    return next(row for row in rows if any(row))


def _energies(task: Task, row: list[str], count: int, number: int) -> FloatArray:
    """The row's energies in kWh; an empty field is missing."""
    factor = {"wh": 1e-3, "mwh": 1e3}.get(row[2].strip().lower(), 1.0)
    if row[2].strip().lower() not in ("kwh", "wh", "mwh"):
        raise task.error(f": line {number} is in {row[2][:20]!r}, not in kWh.")
    values = np.full(count, np.nan)
    for i, text in enumerate(row[3 : 3 + count]):
        if text.strip():
            try:
                values[i] = float(text) * factor
            except ValueError:
                raise task.error(
                    f": line {number}, field {i + 4} is {text[:20]!r}, not a number."
                ) from None
    if np.isinf(values).any():
        raise task.error(f": line {number} has an infinite energy.")
    return values


def _device_name(entity: str, taken: dict[str, FloatArray]) -> str:
    plain = entity.strip().removeprefix("sensor.").removesuffix("_energy") or "device"
    name, number = plain, 2
    while name in taken:
        name, number = f"{plain}_{number}", number + 1
    return name


def read_state(task: Task, value: object, place: str) -> float:
    """A number, or NaN for unavailable and unknown; any other word may follow from the value."""
    text = "" if value is None else str(value).strip()
    number = finite(text)
    if math.isnan(number) and text.lower() not in missing_marks():
        raise task.error(
            f": the state in {place} is {text[:20]!r}, neither a number nor a mark of a "
            "missing value: correct it."
        )
    return number


def finite(cell: Any) -> float:
    """A finite number, which may be written as text, or NaN."""
    try:
        value = float(cell)
    except (TypeError, ValueError):
        return math.nan
    return value if math.isfinite(value) else math.nan


def _entity(task: Task, changes: dict[str, list[tuple[float, str, int]]]) -> str:
    """The sensor asked for, the only one, or the only one that is named after power."""
    numeric = [
        name for name, rows in changes.items()
        if any(math.isfinite(finite(text)) for _, text, _ in rows)
    ]  # fmt: skip
    if task.options.value_column is not None:
        return task.chooser("entity", "value_column").asked(changes, task.options.value_column)
    if not numeric:
        raise task.error(f"has no entity with numbers, only {', '.join(list(changes)[:8])}.")
    if len(numeric) == 1:
        return numeric[0]
    power = [name for name in numeric if any(w in name for w in ("power", "watt", "verbruik"))]
    if len(power) == 1:
        return power[0]
    raise task.chooser("sensor", "value_column").several(numeric)


@dataclass(frozen=True)
class Changes:
    """Rows of one sensor."""

    name: str  # The sensor, for notes
    # Unix seconds, and values in `unit`; NaN where the sensor was unavailable
    seconds: FloatArray
    values: FloatArray
    unit: str  # A unit of power, or of energy for the values of a counter
    format: str
    # True if the first row is the value at the start of the recording, and not a change
    begins: bool = True
    added: int = 1  # Columns or registers that a value is the sum of


def change_series(task: Task, changes: Changes) -> Series:
    """Readings over regular intervals of a sensor that records changes only.

    A value holds until the next row; a missing value ends it. A reading of power is the mean of
    its interval. A reading of a counter is its rise, and a fall is a reset to zero.
    """
    factor, energy = unit_factor(changes.unit)
    interval = task.options.interval_s or (ENERGY_INTERVAL_S if energy else POWER_INTERVAL_S)
    seconds, values = _ordered(task, changes)
    begin, end = _begin(task, seconds), _end(task, seconds)
    if (end - begin) / interval > MAX_CELLS:
        raise task.error(f"would give more than {MAX_CELLS} readings of {interval:g} s.")
    find = _rises if energy else _means
    cells, readings = find(seconds, values, begin, end, interval)
    if cells.size == 0:
        raise task.error(
            f": no interval of {interval:g} s is covered whole; state a shorter one "
            "(`reading_length=10s`)."
        )
    _note_changes(task, changes, interval, energy)
    step = task.options.step_size or (1.0 if energy else 0.0)
    scale = factor * (3600 / interval if energy else 1.0)
    return Series(
        (cells * round(interval * SECOND)).astype(np.int64),
        readings,
        changes.format,
        changes.unit,
        factor,
        energy,
        interval_s=interval,
        found=int(cells.size),
        complete=True,
        unsettled=_open_ends(task, changes),
        metering=metering_of_sum(step * scale, changes.added, counter=energy),
    )


def _note_changes(task: Task, changes: Changes, interval: float, energy: bool) -> None:
    """Note how the readings were made, and how often the sensor was unavailable."""
    over = "rises" if energy else "means"
    task.notes.append(
        f"{changes.name}: a value holds until the next row; {over} over {interval:g} s."
    )
    absent = int(np.isnan(changes.values).sum())
    if absent:
        often = "once" if absent == 1 else f"{absent} times"
        task.notes.append(f"The sensor was unavailable {often}; these times are gaps.")


def _open_ends(task: Task, changes: Changes) -> str | None:
    """The sentence about a start or an end that only a change shows; None if both are stated."""
    wanted = {"start": changes.begins or task.options.since, "end": task.options.until}
    missing = [end for end, stated in wanted.items() if not stated]
    if not missing:
        return None
    named = " and ".join(missing)
    fields = ", ".join({"start": "`since=`", "end": "`until=`"}[end] for end in missing)
    return (
        f"{task.path} holds changes only, so its {named} would be that of a change, which depends "
        f"on the readings: state the {named} of the recording ({fields} with a time such as "
        "2024-02-01T00:00Z)."
    )


def moment(task: Task, text: str, place: int = 0) -> float:
    """Unix seconds of an ISO 8601 time with a zone; `place` is its field or line."""
    where = f" (field or line {place})" if place else ""
    try:
        found = datetime.fromisoformat(text.strip())
        if found.tzinfo is None:
            raise task.error(f": time {text[:40]!r} carries no zone{where}.")
        return found.timestamp()
    except (ValueError, OverflowError) as error:
        if isinstance(error, DataError):
            raise
        raise task.error(f": {text[:40]!r} is not a time{where}.") from None


def _begin(task: Task, seconds: FloatArray) -> float:
    """The start of the recording [s]: as stated, or the first row."""
    if task.options.since is None:
        return float(seconds[0])
    begin = moment(task, task.options.since)
    if begin < seconds[0]:
        raise task.error(
            f"has no value at the stated start {task.options.since}: state a later one (`since=`)."
        )
    return begin


def _end(task: Task, seconds: FloatArray) -> float:
    """The end of the recording [s]: as stated, or the hour before the last change."""
    if task.options.until is not None:
        end = moment(task, task.options.until)
        if end <= seconds[0]:
            raise task.error(f"begins after the stated end {task.options.until}.")
        return end
    hour = float(np.floor(seconds[-1] / 3600) * 3600)
    return hour if hour > seconds[0] else float(seconds[-1])


def _ordered(task: Task, changes: Changes) -> tuple[FloatArray, FloatArray]:
    """Ascending times; of equal ones the last row counts."""
    order = np.argsort(changes.seconds, kind="stable")
    seconds, values = changes.seconds[order], changes.values[order]
    last = np.append(np.diff(seconds) > 0, True)
    seconds, values = seconds[last], values[last]
    if seconds.size < 2:
        raise task.error("has a single change of state; two are needed.")
    if seconds[0] < 0 or seconds[-1] >= LATEST:
        raise task.error("has times outside 1970 … 2200.")
    if np.nanmax(np.abs(values), initial=0.0) > 1e12:
        raise task.error("has values beyond 1e12; check the entity.")
    return seconds, values


def _rises(
    seconds: FloatArray, counter: FloatArray, begin: float, end: float, interval: float
) -> tuple[IntArray, FloatArray]:
    """Cells at whose two ends a counter is known, and its rise in each.

    The counter holds until its next row, as the meter shows it. A straight line between two rows
    would move a rise into hours without one, depending on when the counter changed before.
    """
    first, last = int(np.ceil(begin / interval)), int(np.floor(end / interval))
    bounds = np.arange(first, last + 1, dtype=np.int64)
    row = np.searchsorted(seconds, bounds * interval, side="right") - 1
    value = np.where(row >= 0, counter[np.maximum(row, 0)], np.nan)
    good = np.flatnonzero(np.isfinite(counter))
    resets: BoolArray = np.diff(counter[good], prepend=-np.inf) < 0
    fallen = np.zeros(max(bounds.size - 1, 0))
    for i in np.flatnonzero(resets).tolist():
        cell = int(np.ceil(seconds[good[i]] / interval)) - 1 - first
        if 0 <= cell < fallen.size:
            fallen[cell] += counter[good[i - 1]]
    rises = np.diff(value) + fallen
    known = np.flatnonzero(np.isfinite(rises))
    return bounds[known], rises[known]


def _means(
    seconds: FloatArray, values: FloatArray, begin: float, end: float, interval: float
) -> tuple[IntArray, FloatArray]:
    """Cells that are covered whole, and the mean of the step function in each."""
    left = np.maximum(seconds, begin)
    right = np.minimum(np.append(seconds[1:], end), end)
    there = np.isfinite(values) & (right > left)
    left, right, values = left[there], right[there], values[there]
    start = np.floor(left / interval).astype(np.int64)
    count = np.floor(right / interval).astype(np.int64) - start + 1
    cells = (
        np.repeat(start, count)
        + np.arange(count.sum())
        - np.repeat(np.cumsum(count) - count, count)
    )
    ends = np.minimum(np.repeat(right, count), (cells + 1) * interval)
    overlap = np.maximum(ends - np.maximum(np.repeat(left, count), cells * interval), 0.0)
    unique, inverse = np.unique(cells, return_inverse=True)
    covered = np.bincount(inverse, weights=overlap)
    total = np.bincount(inverse, weights=overlap * np.repeat(values, count))
    whole = covered >= interval * (1 - 1e-6)
    return unique[whole], total[whole] / covered[whole]
