"""SQLite data bases of home automation: the recorder of Home Assistant, and Domoticz.

The data base is opened for reading only, and only its plain tables are queried. Home Assistant
keeps the states of its sensors for some days, statistics of five minutes for as long, and hourly
statistics for ever. Domoticz keeps the counters of its meters every five minutes for some
days, and the energy of every day for ever.

The schema in the file decides what a name means. A view or a virtual table can pretend to be the
table of readings, and a computed column can call functions: each of them runs what the file says.
SQLite asks `_Reader.may` about every action of a query before it runs.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hushmeter.checks import FloatArray
from hushmeter.clock import SECOND
from hushmeter.read.headers import read_meaning
from hushmeter.read.home_assistant import Changes, change_series, finite, read_state
from hushmeter.read.recording import ENERGY_UNITS, POWER_UNITS, Series, Task, unit_factor
from hushmeter.read.source import (
    SQLITE_CAP,
    MemoryFile,
    is_gzip,
    open_stream,
    refuse_faults,
    refuse_large,
)
from hushmeter.read.times import arrow_array, read_stamps, to_utc, unix_ns
from hushmeter.trace import SECONDS_PER_DAY, SECONDS_PER_HOUR

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


def _columns(database: sqlite3.Connection, table: str) -> set[str]:
    """The names of the columns of a table."""
    return {str(row[1]) for row in database.execute(f"PRAGMA table_info({table})")}


def _numbers(task: Task, rows: Sequence[tuple[Any, ...]], width: int) -> FloatArray:
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
    # Old rows are deleted, so that the first one is a change.
    unit, name = task.options.unit or sensor.unit, f"Entity {entity}"
    changes = Changes(name, seconds, values, unit, HOME_ASSISTANT, begins=False)
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
    return str(unit).lower() in {*ENERGY_UNITS, *POWER_UNITS} - {"va", "kva"}


def _read_statistics(
    task: Task, database: sqlite3.Connection, table: str, entity: str, sensor: _Sensor
) -> Series:
    """Sums (a counter, taken at the end of every period) or means of the statistics."""
    length = SECONDS_PER_HOUR if table == "statistics" else SHORT_S
    unit = task.options.unit or sensor.unit
    factor, energy = unit_factor(unit)
    if energy != sensor.counter:
        raise task.error(
            f": the statistics of {entity} are in {unit}, but hold "
            f"{'a sum' if sensor.counter else 'means'}: choose another sensor (`meter=`)."
        )
    start = "start_ts" if "start_ts" in _columns(database, table) else "strftime('%s', start)"
    column = "sum" if sensor.counter else "mean"
    # The names come from this module; the number is a parameter.
    query = f"SELECT {start}, {column} FROM {table} WHERE metadata_id = ? ORDER BY {start}"
    rows = _numbers(task, database.execute(query, (sensor.statistics,)).fetchall(), 2)
    good = np.isfinite(rows).all(axis=1)
    kind = "sums" if sensor.counter else "means"
    task.notes.append(f"Statistics of {entity}, {kind} of {length:g} s.")
    if not good.all():
        task.notes.append(f"{int((~good).sum())} periods without a value are gaps.")
    seconds = rows[good, 0] + (length if sensor.counter else 0.0)
    return Series(
        unix_ns(seconds, task.path),
        rows[good, 1],
        HOME_ASSISTANT,
        unit,
        factor,
        energy,
        interval_s=length,
        counter=sensor.counter,
        found=len(rows),
        complete=True,
    )


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
    seconds = _numbers(task, [(second,) for second, _ in rows], 1)[:, 0]
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
    stamps = read_stamps(arrow_array([str(date) for date, _ in rows]), task.path, task.options.tz)
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
    database.set_authorizer(_Reader(allowed).may)
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


class _Reader:
    """Answers SQLite's questions what a query may do."""

    def __init__(self, tables: frozenset[str]) -> None:
        self._tables = tables

    def may(
        self,
        action: int,
        first: str | None,
        second: str | None,
        schema: str | None,
        source: str | None,
    ) -> int:
        """Return whether one action is allowed; `source` names the view or trigger that asks."""
        allowed = source is None and (
            action == sqlite3.SQLITE_SELECT
            or (action == sqlite3.SQLITE_FUNCTION and second in FUNCTIONS)
            or (action == sqlite3.SQLITE_PRAGMA and first == "table_info")
            or (
                action == sqlite3.SQLITE_READ
                and schema == "main"
                and str(first).lower() in self._tables
            )
        )
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY
