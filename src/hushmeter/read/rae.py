"""RAE (the paper's TEALD): unix_ts, mains and 20 to 24 sub-meter columns at 1 Hz.

A 240 V load is metered on both poles: its two columns are added.
"""

from __future__ import annotations

from typing import Any

from hushmeter.read.layouts import Layout

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


LAYOUTS = tuple(
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
