"""Known layouts of tables: a file is recognised by the names of its columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hushmeter.errors import DataError

Prepare = Callable[[Any, list[str]], Any]


@dataclass(frozen=True)
class Layout:
    """A known shape of table.

    Attributes
    ----------
    format : str
    needs : frozenset of str
        Columns (lower case) by which it is known.
    time, value : str
        Columns (lower case) of the times and of the meter.
    unit : str
    stamp : {"start", "end"}
    register : bool
        Whether the values are what a meter that counts up shows.
    tz : str, optional
        Zone of times that carry none.
    end : str, optional
        Column of the interval's end.
    building : str, optional
        Column that tells homes apart.
    ignore : frozenset of str
        Columns (lower case) that are no appliance; None if no column is one.
    prepare : callable, optional
        (table, notes) → table, for what only this format needs.
    """

    format: str
    needs: frozenset[str]
    time: str
    value: str
    unit: str = "W"
    stamp: str = "start"
    register: bool = False
    tz: str | None = None
    end: str | None = None
    building: str | None = None
    ignore: frozenset[str] | None = None
    prepare: Prepare | None = None


def _only_import(table: Any, notes: list[str]) -> Any:
    """ESB: rows of import, in watts whichever of kW and kWh the file has."""
    import pyarrow.compute as pc

    column = next(name for name in table.column_names if name.lower() == "read type")
    kinds = [str(kind) for kind in pc.unique(table.column(column)).to_pylist()]
    wanted = [kind for kind in kinds if "import" in kind.lower()]
    if not wanted:
        raise DataError(f"an ESB file without import rows (read types: {', '.join(kinds[:5])}).")
    chosen = next((kind for kind in wanted if "kwh" in kind.lower()), wanted[0])
    left = [kind for kind in kinds if kind != chosen]
    if left:
        notes.append(f"Rows of {', '.join(left)} were left out.")
    unit = "kWh" if "kwh" in chosen.lower() else "kW"
    notes.append(f"Read type {chosen!r}: values in {unit}.")
    rows = table.filter(pc.equal(table.column(column), chosen))
    return rows.replace_schema_metadata({"unit": unit})


def _refuse_gas(table: Any, notes: list[str]) -> Any:  # noqa: ARG001
    raise DataError("a gas export (cubic metres); give the electricity export.")


HALF_HOURLY = (
    Layout(
        "Octopus half-hourly CSV",
        frozenset({"consumption (kwh)", "start", "end"}),
        "start",
        "consumption (kwh)",
        "kWh",
        end="end",
        tz="Europe/London",
    ),
    Layout(
        "n3rgy half-hourly CSV",
        frozenset({"timestamp (utc)", "energyconsumption (kwh)"}),
        "timestamp (utc)",
        "energyconsumption (kwh)",
        "kWh",
        stamp="end",
        tz="UTC",
    ),
    Layout(
        "n3rgy half-hourly CSV",
        frozenset({"timestamp (utc)", "energyconsumption (m3)"}),
        "timestamp (utc)",
        "energyconsumption (m3)",
        prepare=_refuse_gas,
    ),
    Layout(
        "ESB Networks half-hourly CSV",
        frozenset({"read value", "read type", "read date and end time"}),
        "read date and end time",
        "read value",
        "kW",
        stamp="end",
        tz="Europe/Dublin",
        prepare=_only_import,
    ),
)


TARIFFS = ("import t1 kwh", "import t2 kwh")


def _add_tariffs(table: Any, notes: list[str]) -> Any:
    import pyarrow.compute as pc

    names = {name.lower(): name for name in table.column_names}
    low, normal = (names[tariff] for tariff in TARIFFS)
    total = pc.add(table.column(low), table.column(normal))
    notes.append(f"{low} and {normal} were added; what was fed into the grid is not counted.")
    return table.set_column(table.column_names.index(normal), normal, total)


HOMEWIZARD = (
    Layout(
        "HomeWizard P1 CSV",
        frozenset({"time", *TARIFFS}),
        "time",
        TARIFFS[1],
        "kWh",
        register=True,
        tz="Europe/Amsterdam",
        prepare=_add_tariffs,
    ),
)


def _count_issues(table: Any, notes: list[str]) -> Any:
    import pyarrow.compute as pc

    for name in table.column_names:
        if name.lower() == "issues":
            count = int(pc.sum(pc.cast(table.column(name), "int64")).as_py() or 0)
            if count:
                notes.append(f"{count} rows are marked: the sub-meters exceed the aggregate there.")
    return table


REFIT = (
    Layout(
        "REFIT CSV",
        frozenset({"unix", "aggregate", "appliance1"}),
        "unix",
        "aggregate",
        ignore=frozenset({"time", "issues"}),
        prepare=_count_issues,
    ),
    Layout(
        "REFIT table",
        frozenset({"timestamp", "aggregate", "appliance1"}),
        "timestamp",
        "aggregate",
        building="house",
        ignore=frozenset({"issues", "house"}),
        prepare=_count_issues,
    ),
)


PECAN_STREET_IGNORE = frozenset(
    {"dataid", "solar", "solar2", "leg1v", "leg2v", "battery1", "car_use", "gen", "use", "grid"}
)


def _pecan_street_layout(time: str, value: str) -> Layout:
    return Layout(
        "Pecan Street CSV",
        frozenset({"dataid", time, value}),
        time,
        value,
        "kW",
        tz="America/Chicago",
        building="dataid",
        ignore=PECAN_STREET_IGNORE,
    )


PECAN_STREET = tuple(
    _pecan_street_layout(time, value)
    for value in ("grid", "use")
    for time in ("local_15min", "localminute", "localhour")
)


HOUSE_1 = {
    "wall oven": ("sub1", "sub2"),
    "clothes dryer": ("sub5", "sub6"),
    "fridge": ("sub8",),
    "clothes washer": ("sub9",),
    "dishwasher": ("sub10",),
    "furnace": ("sub11",),
    "heat pump": ("sub13", "sub14"),
    "garage": ("sub15", "sub16"),
}
HOUSE_1_COLUMNS = 24


def _add_poles(table: Any, notes: list[str]) -> Any:
    """House 1 has 24 sub-meters; those whose use is known get names, two poles become one."""
    import pyarrow.compute as pc

    table = table.rename_columns([_sub_name(name) for name in table.column_names])
    subs = [name for name in table.column_names if name.startswith("sub")]
    needed = {pole for poles in HOUSE_1.values() for pole in poles}
    if len(subs) != HOUSE_1_COLUMNS or not needed <= set(subs):
        notes.append(f"{len(subs)} sub-meters: not house 1, so no poles were added.")
        return table
    for name, poles in HOUSE_1.items():
        total = table.column(poles[0])
        for pole in poles[1:]:
            total = pc.add(total, table.column(pole))
        table = table.drop_columns(list(poles)).append_column(name, total)
    pairs = [f"{name} = {' + '.join(poles)}" for name, poles in HOUSE_1.items() if len(poles) > 1]
    notes.append(f"Two poles were added: {', '.join(pairs)}.")
    return table


def _sub_name(column: str) -> str:
    """RAE's first releases number the sub-meters 1 … 24, the later ones write sub1 … sub24."""
    return f"sub{column}" if column.isdigit() else column


RAE = tuple(
    Layout(
        "RAE CSV",
        frozenset({"unix_ts", "mains", first}),
        "unix_ts",
        "mains",
        ignore=frozenset({"unix_ts"}),
        prepare=_add_poles,
    )
    for first in ("sub1", "1")
)


NAMES = {
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


def _refuse_amperes(table: Any, notes: list[str]) -> Any:
    import pyarrow.compute as pc

    column = next(name for name in table.column_names if name.lower() == "whe")
    largest = pc.max(table.column(column)).as_py()
    if isinstance(largest, int | float) and largest < LARGEST_AMPERES:
        raise DataError(
            f"an AMPds file whose mains never pass {largest:g}: these are amperes "
            "(Electricity_I); give Electricity_P, in watts."
        )
    names = [NAMES.get(name.lower(), name) for name in table.column_names]
    notes.append("Circuits are named as in the data set's description.")
    return table.rename_columns(names)


AMPDS_IGNORE = frozenset({"mhe", "rse", "une", "ts", "unix_ts"})
AMPDS = tuple(
    Layout(
        "AMPds CSV",
        frozenset({time, "whe", "fre"}),
        time,
        "whe",
        ignore=AMPDS_IGNORE,
        prepare=_refuse_amperes,
    )
    for time in ("unix_ts", "ts", "timestamp")
)


LAYOUTS = (*HALF_HOURLY, *HOMEWIZARD, *REFIT, *PECAN_STREET, *RAE, *AMPDS)


def find_layout(columns: frozenset[str]) -> Layout | None:
    """The first layout whose columns are all present."""
    return next((layout for layout in LAYOUTS if layout.needs <= columns), None)
