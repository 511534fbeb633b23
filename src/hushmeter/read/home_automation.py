"""Home automation: downloads and histories of Home Assistant, and data bases of it and Domoticz.

The energy download is wide: entity_id, type, unit, then one column per period, in kWh; rows of
grid_consumption are the meter, rows of device_consumption the appliances. The history is long:
entity_id, state, last_changed; a row only where the state changed, "unavailable" in between.

When a change occurs depends on the readings. Neither the interval, nor a gap, nor the start or the
end of the readings may therefore be taken from such rows: the user states the start and the end.

A data base of SQLite is opened for reading only, and only its plain tables are queried. Home
Assistant keeps the states of its sensors for some days, statistics of five minutes for as long, and
hourly statistics for ever. Domoticz keeps the counters of its meters every five minutes for some
days, and the energy of every day for ever.

The schema in the file decides what a name means. A view or a virtual table can pretend to be the
table of readings, and a computed column can call functions: each of them runs what the file says.
SQLite asks `_only_reading` about every action of a query before it runs.
"""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.clock import SECOND
from hushmeter.errors import DataError
from hushmeter.read.cells import Cells, unique_names
from hushmeter.read.headers import find_unit, missing_marks, read_meaning
from hushmeter.read.part import Part
from hushmeter.read.recording import (
    Series,
    Task,
    metering_of_sum,
    unit_factor,
)
from hushmeter.read.regular_times import cut
from hushmeter.read.source import (
    SQLITE_CAP,
    MemoryFile,
    csv_rows,
    is_gzip,
    open_stream,
    refuse_faults,
    refuse_large,
)
from hushmeter.read.times import LATEST, read_stamps, to_utc, unix_ns
from hushmeter.trace import SECONDS_PER_DAY, SECONDS_PER_HOUR

METER, DEVICE = "grid_consumption", "device_consumption"
POWER_INTERVAL_S, ENERGY_INTERVAL_S = 60.0, 3600.0
MAX_CELLS = 100_000_000


def unit_of_entity(task: Task, entity: str) -> str:
    """The stated unit, or that of the last word of a name: sensor.energy_meter_power is power."""
    words = re.findall(r"kwh|energy|power|watt|kw|verbruik", entity.lower())
    units = {"kwh": "kWh", "energy": "kWh", "kw": "kW"}
    guess, given = units.get(words[-1], "W") if words else None, task.options.unit
    stated = words and words[-1] in ("kwh", "kw", "watt")
    if guess == "kWh" and given is not None and not unit_factor(given)[1]:
        stated = True
    unit = task.unit(guess if stated else None, entity) or guess
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
    devices: list[tuple[str, FloatArray]] = []
    others: set[str] = set()
    for number, row in enumerate(rows, 2):
        if len(row) < 3:
            continue
        kind = row[1].strip()
        if kind == METER:
            values = _energies(task, row, len(times), number)
            meter = np.where(np.isnan(meter), values, meter + np.nan_to_num(values))
        elif kind == DEVICE and task.circuits != "leave":
            devices.append((_device_name(row[0]), _energies(task, row, len(times), number)))
        elif kind != DEVICE:
            others.add(kind)
    if others:
        task.notes.append(f"Rows of {', '.join(sorted(others))[:200]} were left out.")
    return _energy_series(task, np.array(times), meter, devices)


def _energy_series(
    task: Task, seconds: FloatArray, meter: FloatArray, devices: list[tuple[str, FloatArray]]
) -> Series:
    """Missing periods of the meter are gaps; a device without a value drew nothing."""
    if not devices and np.isnan(meter).all():
        raise task.error(f"has no row of {METER} with values.")
    series = Series(
        unix_ns(seconds, task.path),
        meter,
        "Home Assistant energy CSV",
        task.unit("kWh", "every row") or "kWh",
        *unit_factor("kWh"),
        unique_names([name for name, _ in devices]),
        np.column_stack([values for _, values in devices]) if devices else None,
        repeats="last",
        complete=True,
    )
    cut(task, series, task.part())
    if series.power is not None:
        empty = int(np.isnan(series.power).sum())
        if empty:
            task.notes.append(f"{empty} empty periods of devices count as nothing drawn.")
        series.power = np.nan_to_num(series.power)
    if np.isnan(series.values).all() and series.power is not None:
        task.notes.append("No grid_consumption: the readings are the sum of the devices.")
        series.values = series.power.sum(axis=1)
    there = np.flatnonzero(~np.isnan(series.values))
    if there.size < series.values.size:
        lost = series.values.size - there.size
        task.notes.append(f"{lost} periods without a reading became gaps.")
    series.take(there)
    return series


def read_history(task: Task) -> Series:
    """One sensor of a history, over regular intervals; see `change_series`."""
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


def _device_name(entity: str) -> str:
    """The name in an entity such as sensor.kettle_energy."""
    return entity.strip().removeprefix("sensor.").removesuffix("_energy") or "device"


def _header(rows: Iterator[list[str]]) -> list[str]:
    """The first row that holds anything."""
    return next(row for row in rows if any(row))


def _energies(task: Task, row: list[str], count: int, number: int) -> FloatArray:
    """The row's energies in kWh; an empty field is missing."""
    factor, energy = unit_factor(find_unit(row[2]) or "W")
    if not energy:
        raise task.error(f": line {number} is in {row[2][:20]!r}, not in kWh.")
    cells = [*row[3 : 3 + count], *[""] * (3 + count - len(row))]
    values = [
        read_state(task, text, f"line {number}, field {i}") for i, text in enumerate(cells, 4)
    ]
    return np.array(values) * (factor / 1e3)


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
    added: int = 1  # Columns or registers that a value is the sum of
    zone: str | None = None  # Time zone of the home, where the file states it


def change_series(task: Task, changes: Changes) -> Series:
    """Readings over regular intervals of a sensor that records changes only.

    A value holds until the next row; a missing value ends it. A reading of power is the mean of
    its interval. A reading of a counter is its rise, and a fall is a reset to zero.
    """
    factor, energy = unit_factor(changes.unit)
    interval = task.options.interval_s or (ENERGY_INTERVAL_S if energy else POWER_INTERVAL_S)
    part = task.part(changes.zone)
    seconds, values = _ordered(task, changes, part)
    begin, end = _bounds(seconds, part)
    if (end - begin) / interval > MAX_CELLS:
        raise task.error(f"would give more than {MAX_CELLS} readings of {interval:g} s.")
    find = _rises if energy else _means
    cells, readings = find(seconds, values, begin, end, interval)
    if cells.size == 0:
        raise task.error(
            f": no interval of {interval:g} s is covered whole; state a shorter one "
            "(`reading_length=10s`)."
        )
    _note_changes(task, changes, interval, energy, int(np.isnan(values).sum()))
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
        zone=changes.zone,
        unsettled=_open_ends(task, part),
        is_cut=True,
        metering=metering_of_sum(step * scale, changes.added, counter=energy),
    )


def _note_changes(task: Task, changes: Changes, interval: float, energy: bool, absent: int) -> None:
    """Note how the readings were made, and how often the sensor was unavailable."""
    over = "rises" if energy else "means"
    task.notes.append(
        f"{changes.name}: a value holds until the next row; {over} over {interval:g} s."
    )
    if absent:
        often = "once" if absent == 1 else f"{absent} times"
        task.notes.append(f"The sensor was unavailable {often}; these times are gaps.")


def _open_ends(task: Task, part: Part) -> str | None:
    """The sentence about a start or an end that only a change shows; None if both are stated."""
    missing = [end for end in ("start", "end") if getattr(part, end) is None]
    if not missing:
        return None
    named = " and ".join(missing)
    return (
        f"{task.path} holds changes only, so its {named} would be that of a change, which depends "
        f"on the readings: state the {named} of the recording "
        f"({', '.join(f'`{end}=`' for end in missing)} with a time such as 2024-02-01T00:00Z)."
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


def _bounds(seconds: FloatArray, part: Part) -> tuple[float, float]:
    """Start and end of the recording [s]: as stated, or the first row and the hour of the last."""
    hour = float(np.floor(seconds[-1] / 3600) * 3600)
    begin, end = float(seconds[0]), hour if hour > seconds[0] else float(seconds[-1])
    return (
        begin if part.start is None else part.start / SECOND,
        end if part.end is None else part.end / SECOND,
    )


def _ordered(task: Task, changes: Changes, part: Part) -> tuple[FloatArray, FloatArray]:
    """Ascending times; of equal ones the last row counts.

    Of what is outside of the part, only the value that holds at its start is kept.
    """
    order = np.argsort(changes.seconds, kind="stable")
    seconds, values = changes.seconds[order], changes.values[order]
    last = np.append(np.diff(seconds) > 0, True)
    seconds, values = seconds[last], values[last]
    if seconds.size < 2:
        raise task.error("has a single change of state; two are needed.")
    if part.start is not None and part.start < seconds[0] * SECOND:
        raise task.error(f"has no value at the stated start ({part}): state a later `start=`.")
    if part.end is not None and part.end <= seconds[0] * SECOND:
        raise task.error(f"begins after the stated end ({part}): state a later `end=`.")
    first, stop = 0, seconds.size
    if part.start is not None:
        first = int(np.searchsorted(seconds, part.start / SECOND, side="right")) - 1
    if part.end is not None:
        stop = int(np.searchsorted(seconds, part.end / SECOND, side="right"))
    seconds, values = seconds[first:stop], values[first:stop]
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


SHORT_S = 300.0
HOME_ASSISTANT = "Home Assistant recorder (SQLite)"
DOMOTICZ = "Domoticz (SQLite)"
TABLES = (
    "statistics", "statistics_meta", "statistics_short_term", "states", "states_meta",
    "state_attributes", "DeviceStatus", "Meter", "Meter_Calendar", "MultiMeter",
    "MultiMeter_Calendar", "Preferences",
)  # fmt: skip
"""The tables that are queried."""
# Types of devices in Domoticz.
P1_POWER, RFX_METER, GENERAL, YOULESS, ENERGY, POWER = 250, 113, 243, 251, 90, 91
KWH = 29
CONSUMPTION = 0
FUNCTIONS = frozenset({"coalesce", "json_extract", "json_valid", "strftime"})
LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 1 << 24,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1 << 20,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
}
"""Limits of SQLite, such as of the size of a cell [bytes]."""
SETTINGS = (
    "query_only = ON",
    "trusted_schema = OFF",
    "cell_size_check = ON",
    # Sorting many rows would otherwise write a temporary file.
    "temp_store = MEMORY",
)
PLAIN = re.compile(r"CREATE TABLE\s", re.IGNORECASE)


def read_database(task: Task) -> Series:
    """The readings of one sensor or meter of a data base."""
    fault = f"{task.path} is no readable SQLite data base"
    # A damaged file holds numbers and names that are none.
    faults = refuse_faults(fault, sqlite3.Error, ValueError, OverflowError)
    with faults, _connect(task) as database:
        names = restrict(task, database, TABLES)
        if {"statistics", "statistics_meta"} <= names or "states" in names:
            return _read_home_assistant(task, database, names)
        if {"DeviceStatus", "Meter"} <= names:
            return _read_domoticz(task, database, names)
    raise task.error(
        f"is an SQLite data base, but neither of Home Assistant nor of Domoticz (tables: "
        f"{', '.join(sorted(names)[:8]) or 'none'}): export the readings as CSV."
    )


@contextmanager
def _connect(task: Task) -> Iterator[sqlite3.Connection]:
    """The data base, which is not changed; a file in memory or a gzipped one is loaded."""
    if isinstance(task.path, MemoryFile) or is_gzip(task.path):
        with open_stream(task.path, SQLITE_CAP) as stream:
            content = bytearray(stream.read())
        # SQLite cannot open a log of changes in memory; 1 stands for a data base without one.
        content[18:20] = b"\x01\x01"
        database = sqlite3.connect(":memory:")
        database.deserialize(bytes(content))
    else:
        database = _connect_file(task)
    # Text of a damaged file may not be UTF-8.
    database.text_factory = lambda data: data.decode("utf-8", "replace")
    try:
        yield database
    finally:
        database.close()


def _connect_file(task: Task) -> sqlite3.Connection:
    """A file for reading only.

    A data base in use has a log of changes beside it, which SQLite reads too. Where the log cannot
    be used, because the folder is write-protected, the file is read as it is.
    """
    place = task.path.resolve().as_uri()
    database = sqlite3.connect(f"{place}?mode=ro", uri=True)
    try:
        database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        database.close()
        database = sqlite3.connect(f"{place}?mode=ro&immutable=1", uri=True)
    return database


def _number_rows(task: Task, rows: Sequence[tuple[Any, ...]], width: int) -> FloatArray:
    """Rows of a query as numbers; what is no number is NaN."""
    refuse_large(task.path, len(rows), width)
    table = np.full((len(rows), width), np.nan)
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            table[i, j] = finite(value)
    return table


@dataclass(frozen=True)
class _Sensor:
    """A sensor of Home Assistant: its unit, and its rows in the statistics and in the states."""

    unit: str
    statistics: int | None = None
    counter: bool = False
    states: bool = False


def _read_home_assistant(task: Task, database: sqlite3.Connection, tables: set[str]) -> Series:
    """One sensor: hourly statistics where it has them, else its changes of state."""
    sensors = _sensors(database, tables)
    labels = {name: f"{name} ({sensor.unit})" for name, sensor in sensors.items()}
    entity = _drawn_sensor(task, labels)
    sensor, length = sensors[entity], task.options.interval_s
    by_length = {
        None: "statistics",
        SECONDS_PER_HOUR: "statistics",
        SHORT_S: "statistics_short_term",
    }
    table = by_length.get(length)
    if sensor.statistics is not None and table in tables:
        return _read_statistics(task, database, table, entity, sensor)
    if not sensor.states:
        raise task.error(f"has only statistics of {entity}: choose `reading_length=1h` or 5min.")
    seconds, values = _state_changes(task, database, entity)
    unit, name = task.unit(sensor.unit, entity) or sensor.unit, f"Entity {entity}"
    changes = Changes(name, seconds, values, unit, HOME_ASSISTANT)
    return change_series(task, changes)


def _sensors(database: sqlite3.Connection, tables: set[str]) -> dict[str, _Sensor]:
    """The sensors of energy or power by their entity."""
    found: dict[str, _Sensor] = {}
    if "statistics_meta" in tables:
        query = "SELECT id, statistic_id, unit_of_measurement, has_sum FROM statistics_meta"
        for number, entity, unit, has_sum in database.execute(query):
            if _electric(unit):
                found[str(entity)] = _Sensor(str(unit), int(number), bool(has_sum))
    if not {"states", "states_meta", "state_attributes"} <= tables:
        return found
    units = dict(_units_of_states(database))
    for entity, unit in units.items():
        known = found.get(entity)
        if known is not None:
            found[entity] = replace(known, states=True)
        elif _electric(unit):
            found[entity] = _Sensor(unit, states=True)
    return found


def _units_of_states(database: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    """Entities whose states carry a unit, with the unit."""
    query = (
        "SELECT DISTINCT m.entity_id, json_extract(a.shared_attrs, '$.unit_of_measurement') "
        "FROM states s JOIN states_meta m ON m.metadata_id = s.metadata_id "
        "JOIN state_attributes a ON a.attributes_id = s.attributes_id "
        "WHERE json_valid(a.shared_attrs)"
    )
    for entity, unit in database.execute(query):
        if unit is not None:
            yield str(entity), str(unit)


def _electric(unit: Any) -> bool:
    """True for a unit of electric energy or power."""
    return find_unit(str(unit)) is not None


def _read_statistics(
    task: Task, database: sqlite3.Connection, table: str, entity: str, sensor: _Sensor
) -> Series:
    """Sums (a counter, taken at the end of every period) or means of the statistics."""
    length = SECONDS_PER_HOUR if table == "statistics" else SHORT_S
    unit = task.unit(sensor.unit, entity) or sensor.unit
    factor, energy = unit_factor(unit)
    if energy != sensor.counter:
        raise task.error(
            f": the statistics of {entity} are in {unit}, but hold "
            f"{'a sum' if sensor.counter else 'means'}: choose another sensor (`meter=`)."
        )
    columns = {str(row[1]) for row in database.execute(f"PRAGMA table_info({table})")}
    start = "start_ts" if "start_ts" in columns else "strftime('%s', start)"
    column = "sum" if sensor.counter else "mean"
    # The names come from this module; the number is a parameter.
    query = f"SELECT {start}, {column} FROM {table} WHERE metadata_id = ? ORDER BY {start}"
    rows = _number_rows(task, database.execute(query, (sensor.statistics,)).fetchall(), 2)
    rows = rows[np.isfinite(rows[:, 0])]
    kind = "sums" if sensor.counter else "means"
    task.notes.append(f"Statistics of {entity}, {kind} of {length:g} s.")
    series = Series(
        unix_ns(rows[:, 0] + (length if sensor.counter else 0.0), task.path),
        rows[:, 1],
        HOME_ASSISTANT,
        unit,
        factor,
        energy,
        interval_s=length,
        counter=sensor.counter,
        complete=True,
    )
    cut(task, series, task.part())
    series.found, good = series.times.size, np.isfinite(series.values)
    if not good.all():
        task.notes.append(f"{int((~good).sum())} periods without a value are gaps.")
        series.take(np.flatnonzero(good))
    return series


def _state_changes(
    task: Task, database: sqlite3.Connection, entity: str
) -> tuple[FloatArray, FloatArray]:
    """Times and values of the states of a sensor; NaN where it is unavailable."""
    query = (
        "SELECT coalesce(s.last_changed_ts, s.last_updated_ts), s.state FROM states s "
        "JOIN states_meta m ON m.metadata_id = s.metadata_id "
        "WHERE m.entity_id = ? AND s.last_updated_ts IS NOT NULL ORDER BY s.last_updated_ts"
    )
    rows = database.execute(query, (entity,)).fetchall()
    if len(rows) == 0:
        raise task.error(f"has no states of {entity} with a time.")
    seconds = _number_rows(task, [(second,) for second, _ in rows], 1)[:, 0]
    values = [read_state(task, state, f"row {i} of {entity}") for i, (_, state) in enumerate(rows)]
    good = np.isfinite(seconds)
    return seconds[good], np.array(values)[good]


@dataclass(frozen=True)
class _Device:
    """A meter of Domoticz: its row, and how its counter is stored."""

    number: int
    name: str
    wh_per_count: float
    multi: bool


def _read_domoticz(task: Task, database: sqlite3.Connection, tables: set[str]) -> Series:
    """The counter of one meter every five minutes, or its energy of every day."""
    devices = {str(device.number): device for device in _devices(database, tables)}
    labels = {number: f"{device.name} (ID {number})" for number, device in devices.items()}
    device = devices[_drawn_sensor(task, labels)]
    if task.options.tz is None:
        raise task.error(
            ": Domoticz keeps local times: state their zone, such as `tz=Europe/Amsterdam`."
        )
    daily = task.options.interval_s == SECONDS_PER_DAY
    table = ("MultiMeter" if device.multi else "Meter") + ("_Calendar" if daily else "")
    # The first tariff is in Value1, the second in Value5; the others are what was fed in.
    value = "Value1 + Value5" if device.multi else "Value"
    query = f"SELECT Date, {value} FROM {table} WHERE DeviceRowID = ? ORDER BY rowid"
    rows = database.execute(query, (device.number,)).fetchall()
    if not rows:
        raise task.error(f"has no rows of {device.name} in {table}.")
    return _local_series(task, rows, device, daily)


def _local_series(task: Task, rows: list[tuple[Any, Any]], device: _Device, daily: bool) -> Series:
    """Rows with local times as a series of energies of days, or of values of a counter."""
    assert task.options.tz is not None
    names = (f"row {i} of {device.name}" for i in range(len(rows)))
    values = np.array([read_state(task, value, name)
                       for (_, value), name in zip(rows, names, strict=True)])  # fmt: skip
    stamps = read_stamps(Cells.of([str(date) for date, _ in rows]), task.path, task.options.tz)
    times, exists, clock = to_utc(stamps.ns, task.options.tz)
    good = np.flatnonzero(stamps.good & exists & np.isfinite(values))
    kind = "energy of every day" if daily else "its counter"
    task.notes.append(f"Meter {device.name}: {kind}.")
    if not daily:
        task.notes.append("The energy of every day is read with `reading_length=1d`.")
    series = Series(
        times,
        values,
        DOMOTICZ,
        "Wh",
        device.wh_per_count,
        energy=True,
        interval_s=SECONDS_PER_DAY if daily else None,
        counter=not daily,
        step=1.0,
        added=2 if device.multi else 1,
        found=len(rows),
        complete=True,
        clock_changes=clock,
    )
    series.take(good)
    if not daily:
        # Rows are written some seconds after a multiple of five minutes.
        cell = round(SHORT_S * SECOND)
        series.times = (series.times + cell // 10) // cell * cell
        series.repeats = "last"
    return series


def _devices(database: sqlite3.Connection, tables: set[str]) -> Iterator[_Device]:
    """The meters that count electricity drawn; production, gas and water are left out."""
    divider = 1000.0
    if "Preferences" in tables:
        query = "SELECT nValue FROM Preferences WHERE Key = 'MeterDividerEnergy'"
        row = database.execute(query).fetchone()
        divider = finite(row[0]) if row and finite(row[0]) > 0 else divider
    query = "SELECT ID, Name, Type, SubType, SwitchType FROM DeviceStatus ORDER BY ID"
    for number, name, kind, subtype, switch in database.execute(query):
        if switch != CONSUMPTION and kind != P1_POWER:
            continue
        if kind == P1_POWER and "MultiMeter" in tables:
            yield _Device(number, str(name), 1.0, multi=True)
        elif (kind, subtype) == (GENERAL, KWH) or kind == YOULESS:
            yield _Device(number, str(name), 1.0, multi=False)
        elif kind in (ENERGY, POWER):
            yield _Device(number, str(name), 0.01, multi=False)
        elif kind == RFX_METER:
            yield _Device(number, str(name), 1000.0 / divider, multi=False)


def _drawn_sensor(task: Task, labels: dict[str, str]) -> str:
    """The key of the sensor that was asked for, or of the only one that measures what is drawn.

    A label is a name with a remark in brackets; a sensor is asked for by its key or by its name.
    """
    wanted, names = task.options.meter or task.options.value_column, sorted(labels.values())
    sensors = task.chooser("sensor", "meter")
    if wanted is not None:
        found = [key for key, label in labels.items() if wanted in (key, label.rpartition(" (")[0])]
        if not found:
            raise sensors.absent(wanted, names)
        sensors.only((labels[key] for key in found), f" named {wanted!r}")
        return found[0]
    flows = {key: read_meaning(re.sub("[._]", " ", label)).flow for key, label in labels.items()}
    drawn = [key for key, flow in flows.items() if flow in ("", "import", "use")]
    if not drawn:
        raise task.error(
            f"has no sensor of electricity drawn (found: {', '.join(names[:24]) or 'none'})"
            "; name one with `meter=` if it is."
        )
    if len(drawn) > 1:
        raise sensors.several(names)
    return drawn[0]


def restrict(task: Task, database: sqlite3.Connection, used: Iterable[str]) -> set[str]:
    """Allow a connection to read plain tables and nothing else."""
    for limit, value in LIMITS.items():
        database.setlimit(limit, value)
    for setting in SETTINGS:
        database.execute(f"PRAGMA {setting}")
    plain, other = _names(database)
    used_names = {name.lower(): name for name in used}
    for name in sorted(other):
        if name.lower() in used_names:
            raise task.error(
                f": {name} is a view or a virtual table, which computes what it shows and is "
                "not read: export the readings as CSV."
            )
    for name in sorted(plain):
        if name.lower() in used_names and _is_computed(database, used_names[name.lower()]):
            raise task.error(
                f": the table {name} has computed columns, which are not read: export the "
                "readings as CSV."
            )
    allowed = frozenset(name.lower() for name in plain) & used_names.keys()
    database.set_authorizer(_only_reading(allowed))
    return plain


def _names(database: sqlite3.Connection) -> tuple[set[str], set[str]]:
    """The names of the plain tables, and those of views and virtual tables."""
    plain: set[str] = set()
    other: set[str] = set()
    query = "SELECT type, name, rootpage, sql FROM sqlite_master"
    for kind, name, page, text in database.execute(query):
        if kind not in ("index", "trigger"):
            # The columns of the schema may contradict each other in the file of a stranger.
            stored = isinstance(page, int) and page > 0 and PLAIN.match(str(text)) is not None
            (plain if kind == "table" and stored else other).add(str(name))
    return plain, other


def _is_computed(database: sqlite3.Connection, table: str) -> bool:
    """Whether a column of a table is computed or hidden."""
    return any(row[6] for row in database.execute(f"PRAGMA table_xinfo({table})"))


def _only_reading(tables: frozenset[str]) -> Callable[..., int]:
    """What SQLite asks about every action of a query: it may read these tables."""

    def may(
        action: int, first: str | None, second: str | None, schema: str | None, source: str | None
    ) -> int:
        """Whether one action is allowed; `source` names the view or trigger that asks."""
        allowed = source is None and (
            action == sqlite3.SQLITE_SELECT
            or (action == sqlite3.SQLITE_FUNCTION and second in FUNCTIONS)
            or (action == sqlite3.SQLITE_PRAGMA and first == "table_info")
            or (action == sqlite3.SQLITE_READ and schema == "main" and str(first).lower() in tables)
        )
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

    return may
