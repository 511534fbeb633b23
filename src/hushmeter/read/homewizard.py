"""HomeWizard's export of a P1 meter: registers of both tariffs in kWh, local times.

Import T1 and T2 are added; what was fed into the grid is left out.
"""

from __future__ import annotations

from typing import Any

from hushmeter.read.layouts import Layout

TARIFFS = ("import t1 kwh", "import t2 kwh")


def _add_tariffs(table: Any, notes: list[str]) -> Any:
    import pyarrow.compute as pc

    names = {name.lower(): name for name in table.column_names}
    low, normal = (names[tariff] for tariff in TARIFFS)
    total = pc.add(table.column(low), table.column(normal))
    notes.append(f"{low} and {normal} were added; what was fed into the grid is not counted.")
    return table.set_column(table.column_names.index(normal), normal, total)


LAYOUTS = (
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
