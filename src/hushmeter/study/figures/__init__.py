"""The figures and tables of Section V and of the appendices, by their numbers.

The item "appliances" is not in the paper: it is the analysis of each appliance that the paper names
as future work. Without real data an item uses a named synthetic stand-in, and its caption says so.
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
    "appliances": "appliances:appliances_figure",
}


def reproduce(item: str, setting: Setting | None = None) -> ReproducedItem:
    """Reproduce one figure or table of the paper.

    Parameters
    ----------
    item : str
        "fig2", "fig3", …, "fig9", "table1" or "appliances".
    setting : Setting, optional
        Seeds, sizes and the folder of real data.

    Returns
    -------
    ReproducedItem
        The picture, its data and its caption.

    Raises
    ------
    UnknownNameError
        If there is no such item.
    """
    if item not in ITEMS:
        raise UnknownNameError("figure or table", item, ITEMS)
    module, name = ITEMS[item].split(":")
    make: Callable[[Setting], ReproducedItem] = getattr(import_module(f"{__name__}.{module}"), name)
    return make(setting or Setting())
