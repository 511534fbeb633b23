"""Tables whose columns tell where they come from; each format's module adds its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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


def known_layouts() -> tuple[Layout, ...]:
    """Every layout, the more particular ones first."""
    from hushmeter.read import ampds, half_hourly, homewizard, pecan_street, rae, refit

    modules = (half_hourly, homewizard, refit, pecan_street, rae, ampds)
    return tuple(layout for module in modules for layout in module.LAYOUTS)


def find_layout(columns: frozenset[str]) -> Layout | None:
    """The layout whose columns are all there."""
    return next((layout for layout in known_layouts() if layout.needs <= columns), None)
