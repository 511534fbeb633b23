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
from pathlib import Path
from typing import Any

import numpy as np

from hushmeter.checks import FloatArray
from hushmeter.clock import SECOND
from hushmeter.errors import DataError
from hushmeter.read.headers import read_meaning
from hushmeter.read.home_assistant import Changes, change_series, read_state
from hushmeter.read.recording import (
    ENERGY_UNITS,
    POWER_UNITS,
    Chooser,
    ReadOptions,
    Series,
    unit_factor,
)
from hushmeter.read.source import (
    SQLITE_CAP,
    MemoryFile,
    is_gzip,
    open_stream,
    refuse_faults,
    refuse_large,
)
from hushmeter.read.times import read_stamps, to_utc, unix_ns
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


def read_database(path: Path, options: ReadOptions) -> Series:
    """The readings of one sensor or meter of a data base."""
    fault = f"{path} is no readable SQLite data base"
    # A damaged file holds numbers and names that are none.
    faults = refuse_faults(fault, sqlite3.Error, ValueError, OverflowError)
    with faults, _connect(path) as database:
        names = restrict(database, TABLES, path)
        if {"statistics", "statistics_meta"} <= names or "states" in names:
            return _read_home_assistant(database, names, options, path)
        if {"DeviceStatus", "Meter"} <= names:
            return _read_domoticz(database, names, options, path)
    raise DataError(
        f"{path} is an SQLite data base, but neither of Home Assistant nor of Domoticz (tables: "
        f"{', '.join(sorted(names)[:8]) or 'none'}): export the readings as CSV."
    )


@contextmanager
def _connect(path: Path) -> Iterator[sqlite3.Connection]:
    """The data base, which is not changed; a file in memory or a gzipped one is loaded."""
    if isinstance(path, MemoryFile) or is_gzip(path):
        with open_stream(path, SQLITE_CAP) as stream:
            content = bytearray(stream.read())
        # SQLite cannot open a log of changes in memory; 1 stands for a data base without one.
        content[18:20] = b"\x01\x01"
        database = sqlite3.connect(":memory:")
        database.deserialize(bytes(content))
    else:
        database = _connect_file(path)
    # Text of a damaged file may not be UTF-8.
    database.text_factory = lambda data: data.decode("utf-8", "replace")
    try:
        yield database
    finally:
        database.close()


def _connect_file(path: Path) -> sqlite3.Connection:
    """A file for reading only.

    A data base in use has a log of changes beside it, which SQLite reads too. Where the log cannot
    be used, because the folder is write-protected, the file is read as it is.
    """
    place = path.resolve().as_uri()
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


def _numbers(rows: Sequence[tuple[Any, ...]], width: int, path: Path) -> FloatArray:
    """Rows of a query as numbers; what is no number is NaN."""
    refuse_large(path, len(rows), width)
    table = np.full((len(rows), width), np.nan)
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            table[i, j] = _number(value)
    return table


def _number(value: Any) -> float:
    """A number of a cell, which SQLite may hold as text; NaN for anything else."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return np.nan
    return number if np.isfinite(number) else np.nan


@dataclass(frozen=True)
class _Sensor:
    """A sensor of Home Assistant: its unit, and its rows in the statistics and in the states."""

    unit: str
    statistics: int | None = None
    counter: bool = False
    states: bool = False


def _read_home_assistant(
    database: sqlite3.Connection, tables: set[str], options: ReadOptions, path: Path
) -> Series:
    """One sensor: hourly statistics where it has them, else its changes of state."""
    sensors = _sensors(database, tables)
    labels = {name: f"{name} ({sensor.unit})" for name, sensor in sensors.items()}
    entity = _drawn_sensor(labels, options, path)
    sensor, length = sensors[entity], options.interval_s
    by_length = {
        None: "statistics",
        SECONDS_PER_HOUR: "statistics",
        SHORT_S: "statistics_short_term",
    }
    table = by_length.get(length)
    if sensor.statistics is not None and table in tables:
        return _read_statistics(database, table, entity, sensor, options, path)
    if not sensor.states:
        raise DataError(
            f"{path} has only statistics of {entity}: choose `reading_length=1h` or 5min."
        )
    seconds, values = _state_changes(database, entity, path)
    # Old rows are deleted, so that the first one is a change.
    unit, name = options.unit or sensor.unit, f"Entity {entity}"
    changes = Changes(name, seconds, values, unit, HOME_ASSISTANT, begins=False)
    return change_series(changes, options, path)


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
    database: sqlite3.Connection,
    table: str,
    entity: str,
    sensor: _Sensor,
    options: ReadOptions,
    path: Path,
) -> Series:
    """Sums (a counter, taken at the end of every period) or means of the statistics."""
    length = SECONDS_PER_HOUR if table == "statistics" else SHORT_S
    unit = options.unit or sensor.unit
    factor, energy = unit_factor(unit)
    if energy != sensor.counter:
        raise DataError(
            f"{path}: the statistics of {entity} are in {unit}, but hold "
            f"{'a sum' if sensor.counter else 'means'}: choose another sensor (`meter=`)."
        )
    start = "start_ts" if "start_ts" in _columns(database, table) else "strftime('%s', start)"
    column = "sum" if sensor.counter else "mean"
    # The names come from this module; the number is a parameter.
    query = f"SELECT {start}, {column} FROM {table} WHERE metadata_id = ? ORDER BY {start}"
    rows = _numbers(database.execute(query, (sensor.statistics,)).fetchall(), 2, path)
    good = np.isfinite(rows).all(axis=1)
    notes = [f"Statistics of {entity}, {'sums' if sensor.counter else 'means'} of {length:g} s."]
    if not good.all():
        notes.append(f"{int((~good).sum())} periods without a value are gaps.")
    seconds = rows[good, 0] + (length if sensor.counter else 0.0)
    return Series(
        unix_ns(seconds, path),
        rows[good, 1],
        HOME_ASSISTANT,
        unit,
        factor,
        energy,
        interval_s=length,
        counter=sensor.counter,
        step=options.step_size,
        found=len(rows),
        complete=True,
        notes=notes,
    )


def _state_changes(
    database: sqlite3.Connection, entity: str, path: Path
) -> tuple[FloatArray, FloatArray]:
    """Times and values of the states of a sensor; NaN where it is unavailable."""
    query = (
        "SELECT coalesce(s.last_changed_ts, s.last_updated_ts), s.state FROM states s "
        "JOIN states_meta m ON m.metadata_id = s.metadata_id "
        "WHERE m.entity_id = ? AND s.last_updated_ts IS NOT NULL ORDER BY s.last_updated_ts"
    )
    rows = database.execute(query, (entity,)).fetchall()
    if len(rows) == 0:
        raise DataError(f"{path} has no states of {entity} with a time.")
    seconds = _numbers([(second,) for second, _ in rows], 1, path)[:, 0]
    values = [read_state(state, f"row {i} of {entity}", path) for i, (_, state) in enumerate(rows)]
    good = np.isfinite(seconds)
    return seconds[good], np.array(values)[good]


@dataclass(frozen=True)
class _Device:
    """A meter of Domoticz: its row, and how its counter is stored."""

    number: int
    name: str
    wh_per_count: float
    multi: bool


def _read_domoticz(
    database: sqlite3.Connection, tables: set[str], options: ReadOptions, path: Path
) -> Series:
    """The counter of one meter every five minutes, or its energy of every day."""
    devices = {str(device.number): device for device in _devices(database, tables)}
    labels = {number: f"{device.name} (ID {number})" for number, device in devices.items()}
    device = devices[_drawn_sensor(labels, options, path)]
    if options.tz is None:
        raise DataError(
            f"{path}: Domoticz keeps local times: state their zone, such as `tz=Europe/Amsterdam`."
        )
    daily = options.interval_s == SECONDS_PER_DAY
    table = ("MultiMeter" if device.multi else "Meter") + ("_Calendar" if daily else "")
    # The first tariff is in Value1, the second in Value5; the others are what was fed in.
    value = "Value1 + Value5" if device.multi else "Value"
    query = f"SELECT Date, {value} FROM {table} WHERE DeviceRowID = ? ORDER BY rowid"
    rows = database.execute(query, (device.number,)).fetchall()
    if not rows:
        raise DataError(f"{path} has no rows of {device.name} in {table}.")
    return _local_series(rows, device, daily, options, path)


def _local_series(
    rows: list[tuple[Any, Any]], device: _Device, daily: bool, options: ReadOptions, path: Path
) -> Series:
    """Rows with local times as a series of energies of days, or of values of a counter."""
    import pyarrow as pa

    assert options.tz is not None
    names = (f"row {i} of {device.name}" for i in range(len(rows)))
    values = np.array([read_state(value, name, path)
                       for (_, value), name in zip(rows, names, strict=True)])  # fmt: skip
    stamps = read_stamps(pa.array([str(date) for date, _ in rows]), path, options.tz)
    times, exists, clock = to_utc(stamps.ns, options.tz)
    good = np.flatnonzero(stamps.good & exists & np.isfinite(values))
    notes = [f"Meter {device.name}: {'energy of every day' if daily else 'its counter'}."]
    if not daily:
        notes.append("The energy of every day is read with `reading_length=1d`.")
    series = Series(
        times,
        values,
        DOMOTICZ,
        "Wh",
        device.wh_per_count,
        energy=True,
        interval_s=SECONDS_PER_DAY if daily else None,
        counter=not daily,
        step=options.step_size or 1.0,
        added=2 if device.multi else 1,
        found=len(rows),
        complete=True,
        clock_changes=clock,
        notes=notes,
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
        divider = _number(row[0]) if row and _number(row[0]) > 0 else divider
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


def _drawn_sensor(labels: dict[str, str], options: ReadOptions, path: Path) -> str:
    """The key of the sensor that was asked for, or of the only one that measures what is drawn.

    A label is a name with a remark in brackets; a sensor is asked for by its key or by its name.
    """
    wanted, names = options.meter or options.value_column, sorted(labels.values())
    sensors = Chooser(path, "sensor", "meter")
    if wanted is not None:
        found = [key for key, label in labels.items() if wanted in (key, label.rpartition(" (")[0])]
        if not found:
            raise sensors.absent(wanted, names)
        sensors.only((labels[key] for key in found), f" named {wanted!r}")
        return found[0]
    flows = {key: read_meaning(re.sub("[._]", " ", label)).flow for key, label in labels.items()}
    drawn = [key for key, flow in flows.items() if flow in ("", "import", "use")]
    if not drawn:
        raise DataError(
            f"{path} has no sensor of electricity drawn (found: {', '.join(names[:24]) or 'none'})"
            "; name one with `meter=` if it is."
        )
    if len(drawn) > 1:
        raise sensors.several(names)
    return drawn[0]


def restrict(database: sqlite3.Connection, used: Iterable[str], path: Path) -> set[str]:
    """Allow a connection to read plain tables and nothing else."""
    for limit, value in LIMITS.items():
        database.setlimit(limit, value)
    for setting in SETTINGS:
        database.execute(f"PRAGMA {setting}")
    plain, other = _names(database)
    used_names = {name.lower(): name for name in used}
    for name in sorted(other):
        if name.lower() in used_names:
            raise DataError(
                f"{path}: {name} is a view or a virtual table, which computes what it shows and is "
                "not read: export the readings as CSV."
            )
    for name in sorted(plain):
        if name.lower() in used_names and _is_computed(database, used_names[name.lower()]):
            raise DataError(
                f"{path}: the table {name} has computed columns, which are not read: export the "
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
