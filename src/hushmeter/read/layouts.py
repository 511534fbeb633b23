"""Known layouts of tables: what the columns of a certain source mean and the file does not say.

A layout is recognised by the names of its columns. General rules read most files; a layout is
needed only for what no header states: a zone, a counter, end stamps, the meaning of a code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hushmeter.errors import DataError

Prepare = Callable[[Any, list[str]], Any]


@dataclass(frozen=True)
class Layout:
    """A known layout."""

    format: str  # Name of the format
    needs: frozenset[str]  # Columns (lower case) by which the layout is recognised
    time: str  # Column (lower case) of the times
    values: tuple[str, ...]  # Columns (lower case) that are added up to the reading of the meter
    unit: str | None = None  # Unit of the values; None if the file or the user states it
    end: str | None = None  # Column of the end of the interval
    stamp: str = "start"
    counter: bool = False  # True if the values are those of a counter
    step: float | None = None  # Step of the counter or the readings, in `unit`
    tz: str | None = None  # Zone of times that carry none
    meter: str | None = None  # Column that tells homes or meters apart
    # Column → beginnings of the values (lower case) whose rows are read
    keep: dict[str, tuple[str, ...]] = field(default_factory=dict)
    # True if the other columns of numbers are circuits, except those in `ignore`
    circuits: bool = False
    ignore: frozenset[str] = frozenset()
    country: str = ""  # Where the source is used, for the documentation
    # True if the source writes a row for every interval, so that a row lacks only where the meter
    # or its connection failed.
    regular: bool = True
    # True if the layout was checked on a real file, False if on a made-up one only
    verified: bool = False
    prepare: Prepare | None = None  # (table, notes) → table, for what only this format needs


AMPDS_NAMES = {
    "b1e": "north bedroom",
    "b2e": "master and south bedroom",
    "bme": "basement plugs and lights",
    "cde": "clothes dryer",
    "cwe": "clothes washer",
    "dne": "dining room plugs",
    "dwe": "dishwasher",
    "ebe": "electronics workbench",
    "eqe": "security and network equipment",
    "fge": "kitchen fridge",
    "fre": "furnace fan and thermostat",
    "gre": "garage",
    "hpe": "heat pump",
    "hte": "instant hot water",
    "ofe": "home office",
    "oue": "outside plug",
    "tve": "entertainment",
    "ute": "utility room plug",
    "woe": "wall oven",
}
LARGEST_AMPERES = 250.0


def _ampds(table: Any, notes: list[str]) -> Any:
    """Refuse the file of amperes, which has the same columns; name the circuits."""
    import pyarrow.compute as pc

    column = next(name for name in table.column_names if name.lower() == "whe")
    largest = pc.max(table.column(column)).as_py()
    if isinstance(largest, int | float) and largest < LARGEST_AMPERES:
        raise DataError(
            f"an AMPds file whose mains never pass {largest:g}: these are amperes "
            "(Electricity_I); give Electricity_P, in watts."
        )
    notes.append("Circuits are named as in the data set's description.")
    return table.rename_columns([AMPDS_NAMES.get(n.lower(), n) for n in table.column_names])


RAE_HOUSE_1 = {
    "wall oven": ("sub1", "sub2"),
    "clothes dryer": ("sub5", "sub6"),
    "fridge": ("sub8",),
    "clothes washer": ("sub9",),
    "dishwasher": ("sub10",),
    "furnace": ("sub11",),
    "heat pump": ("sub13", "sub14"),
    "garage": ("sub15", "sub16"),
}
RAE_HOUSE_1_COLUMNS = 24


def _rae(table: Any, notes: list[str]) -> Any:
    """Name the sub-meters of house 1 and add the two poles of 240 V loads."""
    import pyarrow.compute as pc

    # The first releases number the sub-meters 1 … 24, the later ones write sub1 … sub24.
    taken = set(table.column_names)
    names = [
        f"sub{name}" if name.isdigit() and f"sub{name}" not in taken else name
        for name in table.column_names
    ]
    table = table.rename_columns(names)
    subs = [name for name in names if name.startswith("sub")]
    needed = {pole for poles in RAE_HOUSE_1.values() for pole in poles}
    if len(subs) != RAE_HOUSE_1_COLUMNS or not needed <= set(subs):
        notes.append(f"{len(subs)} sub-meters: not house 1, so no poles were added.")
        return table
    for name, poles in RAE_HOUSE_1.items():
        total = table.column(poles[0])
        for pole in poles[1:]:
            total = pc.add(total, table.column(pole))
        table = table.drop_columns(list(poles)).append_column(name, total)
    pairs = [f"{n} = {' + '.join(poles)}" for n, poles in RAE_HOUSE_1.items() if len(poles) > 1]
    notes.append(f"Two poles were added: {', '.join(pairs)}.")
    return table


def _refit(table: Any, notes: list[str]) -> Any:
    """Mention the column of issues; how many rows it marks depends on the readings."""
    if any(name.lower() == "issues" for name in table.column_names):
        notes.append("Column Issues marks rows in which the sub-meters exceed the aggregate.")
    return table


def _uci(table: Any, notes: list[str]) -> Any:
    """Bring the sub-meters, Wh of a minute, to the unit of the meter, kW."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names = ("kitchen", "laundry room", "water heater and air conditioner")
    for i, name in enumerate(table.column_names):
        if name.lower().startswith("sub_metering_"):
            power = pc.divide(pc.cast(table.column(i), pa.float64()), 1000 / 60)
            table = table.set_column(i, names[int(name[-1]) - 1], power)
    notes.append("Sub-meters are named as in the data set's description.")
    return table


def _refuse_gas(table: Any, notes: list[str]) -> Any:  # noqa: ARG001
    raise DataError("a gas export (cubic metres); give the electricity export.")


PECAN_IGNORED = frozenset(
    {"dataid", "solar", "solar2", "leg1v", "leg2v", "battery1", "car_use", "gen", "use", "grid"}
)
LAYOUTS = (
    Layout(
        "Octopus half-hourly CSV",
        frozenset({"consumption (kwh)", "start", "end"}),
        "start",
        ("consumption (kwh)",),
        "kWh",
        end="end",
        tz="Europe/London",
        country="GB",
        verified=True,
    ),
    Layout(
        "n3rgy half-hourly CSV",
        frozenset({"timestamp (utc)", "energyconsumption (kwh)"}),
        "timestamp (utc)",
        ("energyconsumption (kwh)",),
        "kWh",
        stamp="end",
        tz="UTC",
        country="GB",
    ),
    Layout(
        "n3rgy half-hourly CSV",
        frozenset({"timestamp (utc)", "energyconsumption (m3)"}),
        "timestamp (utc)",
        ("energyconsumption (m3)",),
        country="GB",
        prepare=_refuse_gas,
    ),
    Layout(
        "ESB Networks half-hourly CSV",
        frozenset({"read value", "read type", "read date and end time"}),
        "read date and end time",
        ("read value",),
        stamp="end",
        tz="Europe/Dublin",
        country="IE",
        verified=True,
    ),
    Layout(
        "HomeWizard P1 CSV",
        frozenset({"time", "import t1 kwh", "import t2 kwh"}),
        "time",
        ("import t1 kwh", "import t2 kwh"),
        "kWh",
        counter=True,
        step=0.001,
        tz="Europe/Amsterdam",
        country="NL",
        verified=True,
    ),
    Layout(
        "HomeWizard kWh meter CSV",
        frozenset({"time", "import kwh", "export kwh"}),
        "time",
        ("import kwh",),
        "kWh",
        counter=True,
        step=0.001,
        country="NL",
        verified=True,
    ),
    Layout(
        "Enedis load curve CSV",
        frozenset({"horodate", "valeur"}),
        "horodate",
        ("valeur",),
        stamp="end",
        country="FR",
        verified=True,
    ),
    Layout(
        "Enedis daily index CSV",
        frozenset({"horodate", "eas t"}),
        "horodate",
        ("eas t",),
        counter=True,
        country="FR",
        verified=True,
    ),
    Layout(
        "Energie Manager Online registers",
        frozenset({"code", "moment", "value", "factor"}),
        "moment",
        ("value",),
        counter=True,
        keep={"code": ("ellm",)},
        country="NL",
        verified=True,
    ),
    Layout(
        "Liander daily registers CSV",
        frozenset({"meternummer", "meterreadingdate", "reading1", "usage1", "usage2"}),
        "meterreadingdate",
        ("usage1", "usage2"),
        stamp="end",
        keep={"meternummer": ("e",)},
        country="NL",
        verified=True,
    ),
    Layout(
        "SlimmeMeterPortal quarter hours",
        frozenset({"datum_tijd", "levering_normaal", "levering_laag"}),
        "datum_tijd",
        ("levering_normaal", "levering_laag"),
        stamp="end",
        country="NL",
        verified=True,
    ),
    Layout(
        "UCI household power consumption",
        frozenset({"date", "time", "global_active_power", "sub_metering_1"}),
        "date",
        ("global_active_power",),
        "kW",
        circuits=True,
        ignore=frozenset({"global_reactive_power", "voltage", "global_intensity"}),
        country="FR",
        verified=True,
        prepare=_uci,
    ),
    Layout(
        "REFIT CSV",
        frozenset({"unix", "aggregate", "appliance1"}),
        "unix",
        ("aggregate",),
        "W",
        circuits=True,
        ignore=frozenset({"time", "issues"}),
        country="GB",
        regular=False,
        prepare=_refit,
    ),
    Layout(
        "REFIT table",
        frozenset({"timestamp", "aggregate", "appliance1"}),
        "timestamp",
        ("aggregate",),
        "W",
        meter="house",
        circuits=True,
        ignore=frozenset({"issues", "house"}),
        country="GB",
        regular=False,
        verified=True,
        prepare=_refit,
    ),
    *(
        Layout(
            "Pecan Street CSV",
            frozenset({"dataid", time, value}),
            time,
            (value,),
            "kW",
            tz="America/Chicago",
            meter="dataid",
            circuits=True,
            ignore=PECAN_IGNORED,
            country="US",
        )
        for value in ("grid", "use")
        for time in ("local_15min", "localminute", "localhour")
    ),
    *(
        Layout(
            "RAE CSV",
            frozenset({"unix_ts", "mains", first}),
            "unix_ts",
            ("mains",),
            "W",
            circuits=True,
            ignore=frozenset({"unix_ts"}),
            country="CA",
            prepare=_rae,
        )
        for first in ("sub1", "1")
    ),
    *(
        Layout(
            "AMPds CSV",
            frozenset({time, "whe", "fre"}),
            time,
            ("whe",),
            "W",
            circuits=True,
            ignore=frozenset({"mhe", "rse", "une", "m_e", "ts", "unix_ts", "timestamp"}),
            country="CA",
            verified=time == "timestamp",
            prepare=_ampds,
        )
        for time in ("unix_ts", "ts", "timestamp")
    ),
)


def find_layout(columns: frozenset[str]) -> Layout | None:
    """The first layout whose columns are all present."""
    return next((layout for layout in LAYOUTS if layout.needs <= columns), None)
