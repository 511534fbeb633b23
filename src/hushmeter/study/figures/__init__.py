"""The figures and tables of Section V and the appendices, each by its number.

Without real data each runs on a named synthetic stand-in and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from hushmeter.errors import UnknownNameError
from hushmeter.study.figures.item import EPSILONS, ReproducedItem, Setting

__all__ = ["EPSILONS", "ITEMS", "Setting", "reproduce"]

ITEMS = {
    "fig2": "compressive:one_shot_figure",
    "fig3": "compressive:multi_shot_figure",
    "fig4": "compressive:hierarchical_figure",
    "fig5": "compressive:noise_figure",
    "fig6": "attackers:attackers_figure",
    "fig7": "appendices:centres_figure",
    "fig8": "appendices:interchanges_figure",
    "fig9": "appendices:sparsity_figure",
    "table1": "appendices:sparsity_table",
}


def reproduce(item: str, setting: Setting | None = None) -> ReproducedItem:
    """Reproduce one figure or table by its number: "fig2", "fig3", … "table1"."""
    if item not in ITEMS:
        raise UnknownNameError("figure or table", item, ITEMS)
    module, name = ITEMS[item].split(":")
    make: Callable[[Setting], ReproducedItem] = getattr(import_module(f"{__name__}.{module}"), name)
    return make(setting or Setting())
