"""Half-hourly exports of the United Kingdom and Ireland: Octopus, n3rgy, ESB Networks.

Octopus stamps the start, with an offset; n3rgy the end, in UTC; ESB the end, in local time, as
kW or kWh, newest first.
"""

from __future__ import annotations

from typing import Any

from hushmeter.errors import DataError
from hushmeter.read.layouts import Layout


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


LAYOUTS = (
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
