"""Pecan Street / Dataport: one column per circuit in kW, at 1 s, 1 min or 15 min, many homes.

`grid` is what the meter shows: net of solar. Circuits a home does not have are empty columns.
"""

from __future__ import annotations

from hushmeter.read.layouts import Layout

IGNORE = frozenset(
    {"dataid", "solar", "solar2", "leg1v", "leg2v", "battery1", "car_use", "gen", "use", "grid"}
)


def _layout(time: str, value: str) -> Layout:
    return Layout(
        "Pecan Street CSV",
        frozenset({"dataid", time, value}),
        time,
        value,
        "kW",
        tz="America/Chicago",
        building="dataid",
        ignore=IGNORE,
    )


LAYOUTS = tuple(
    _layout(time, value)
    for value in ("grid", "use")
    for time in ("local_15min", "localminute", "localhour")
)
