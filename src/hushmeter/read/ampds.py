"""AMPds and AMPds2: unix time, WHE the mains, one three-letter column per circuit.

Electricity_P.csv is in watts. Electricity_I.csv is in amperes and is refused: the two files have
the same columns, but no circuit of a home draws more than a few hundred amperes.
"""

from __future__ import annotations

from typing import Any

from hushmeter.errors import DataError
from hushmeter.read.layouts import Layout

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


IGNORE = frozenset({"mhe", "rse", "une", "ts", "unix_ts"})
LAYOUTS = tuple(
    Layout(
        "AMPds CSV",
        frozenset({time, "whe", "fre"}),
        time,
        "whe",
        ignore=IGNORE,
        prepare=_refuse_amperes,
    )
    for time in ("unix_ts", "ts", "timestamp")
)
