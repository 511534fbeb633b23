"""REFIT: Time, Unix, Aggregate, Appliance1 … Appliance9, Issues, every seven seconds or so.

Issues is 1 where the sub-meters exceed the aggregate. Time is the local clock; Unix is used.
"""

from __future__ import annotations

from typing import Any

from hushmeter.read.layouts import Layout


def _count_issues(table: Any, notes: list[str]) -> Any:
    import pyarrow.compute as pc

    for name in table.column_names:
        if name.lower() == "issues":
            count = int(pc.sum(pc.cast(table.column(name), "int64")).as_py() or 0)
            if count:
                notes.append(f"{count} rows are marked: the sub-meters exceed the aggregate there.")
    return table


LAYOUTS = (
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
