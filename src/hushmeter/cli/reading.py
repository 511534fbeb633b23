"""Options of the tolerant reader, shared by the commands that read a file of readings."""

from __future__ import annotations

from typing import Annotated

import typer

TimeColumn = Annotated[
    str | None, typer.Option("--time-column", help="Column of the times.", show_default=False)
]
ValueColumn = Annotated[
    str | None,
    typer.Option("--value-column", help="Column (or entity) of the meter.", show_default=False),
]
UnitOption = Annotated[
    str | None,
    typer.Option("--unit", help="W, kW, Wh, kWh … of the values.", show_default=False),
]
Stamp = Annotated[
    str | None,
    typer.Option("--stamp", help="Times name the start or end of a reading.", show_default=False),
]
TimeZone = Annotated[
    str | None,
    typer.Option("--tz", help="Zone of times without one: Europe/London.", show_default=False),
]
Building = Annotated[
    str | None,
    typer.Option("--building", help="Which home, where there are several.", show_default=False),
]
