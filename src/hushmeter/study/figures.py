"""The figures and tables of Section V and the appendices, each by its number.

Without real data each runs on a named synthetic stand-in and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from hushmeter.errors import UnknownNameError
from hushmeter.study.artefact import Artefact
from hushmeter.study.setting import EPSILONS, Setting

__all__ = ["EPSILONS", "ITEMS", "Setting", "reproduce"]

ITEMS = {
    "fig2": "figures_compressive:one_shot_figure",
    "fig3": "figures_compressive:multi_shot_figure",
    "fig4": "figures_compressive:hierarchical_figure",
    "fig5": "figures_compressive:noise_figure",
    "fig6": "figure_attackers:attackers_figure",
    "fig7": "behaviour_figures:centres_figure",
    "fig8": "behaviour_figures:interchanges_figure",
    "fig9": "figure_sparsity:sparsity_figure",
    "table1": "figure_sparsity:sparsity_table",
}


def reproduce(item: str, setting: Setting | None = None) -> Artefact:
    """Reproduce one figure or table by its number: "fig2", "fig3", … "table1"."""
    if item not in ITEMS:
        raise UnknownNameError("figure or table", item, ITEMS)
    module, name = ITEMS[item].split(":")
    make: Callable[[Setting], Artefact] = getattr(import_module(f"hushmeter.study.{module}"), name)
    return make(setting or Setting())
