"""Every item of the paper by its name, leading to the code that holds it.

    hm.paper.P3                     the function of problem (P3)
    hm.paper.theorem_3.printed      Theorem 3 as printed; `.integral` is the integral of its proof,
                                    and `.corrected` a bound that holds
    hm.paper.algorithm_1            the attacker of Algorithm 1
    hm.paper.noise(home, 0.1)       the noise of the paper's figures
    hm.paper.figure_2               the figure, from the app `study`

The paper is "Privacy Preserving in Non-Intrusive Load Monitoring: A Differential Privacy
Perspective" (arXiv 2011.06205). docs/paper-map.md says of each item what was found.
"""

from __future__ import annotations

import math
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from hushmeter.parts import load

if TYPE_CHECKING:
    from hushmeter.home import Home
    from hushmeter.noise import Laplace

ONE_SHOT, MULTI_SHOT = "theory.one_shot", "theory.multi_shot"
FORMS = ("printed", "integral", "corrected")

ITEMS: dict[str, str | dict[str, str]] = {
    "equation_1": "home:Home",
    "equation_2": "synth:trace",
    "assumption_1": "assumptions:check_assumptions",
    "assumption_2": "assumptions:estimate_tolerance",
    "assumption_3": "assumptions:concentration_margin",
    "definition_1": "privacy.units:resolve_unit",
    "P1": "attack.one_shot:solve_exact",
    "P2": "attack.one_shot:relaxed_cardinality",
    "P3": "attack.one_shot:solve_relaxed",
    "P4": "attack.one_shot:solve_relaxed",
    "lemma_1": "attack.one_shot:examine_exact",
    "proposition_2": "attack.hierarchical:find_unresolvable",
    "theorem_1": {
        "printed": f"{ONE_SHOT}:printed_switch_error",
        "corrected": f"{ONE_SHOT}:switch_error",
    },
    "theorem_2": "noise.laplace:Laplace",
    "theorem_3": {form: f"{ONE_SHOT}:{form}_lower" for form in FORMS},
    "theorem_4": {form: f"{ONE_SHOT}:{form}_upper" for form in FORMS},
    "theorem_5": {form: f"{MULTI_SHOT}:{form}_lower" for form in FORMS},
    "theorem_6": {
        "printed": f"{MULTI_SHOT}:paper_groups",
        "corrected": f"{MULTI_SHOT}:corrected_groups",
    },
    "accuracy": "scoring:accuracy",
    "algorithm_1": "attack.multi_shot:MultiShot",
    "algorithm_2": "attack.hierarchical:Hierarchical",
    "algorithm_3": "noise.staircase:Staircase",
}
"""Module and name of each item of the core; of a theorem, one for each of its forms."""

FIGURES = {
    "figure_2": "study.figures.compressive:one_shot_figure",
    "figure_3": "study.figures.compressive:multi_shot_figure",
    "figure_4": "study.figures.compressive:hierarchical_figure",
    "figure_5": "study.figures.compressive:noise_figure",
    "figure_6": "study.figures.attackers:attackers_figure",
    "figure_7": "study.figures.appendices:centres_figure",
    "figure_8": "study.figures.appendices:interchanges_figure",
    "figure_9": "study.figures.appendices:sparsity_figure",
    "table_1": "study.figures.appendices:sparsity_table",
}
"""The figures and the table, which belong to an app."""


def noise(home: Home, epsilon: float) -> Laplace:
    """Return the noise of the paper: λ = Δf/ε exactly, with Δf = δ/2 and the tolerance δ of a home.

    Δf is a whole number of steps of a grid that is at most λ/20 and Δf/4, so that readings on this
    grid need no further step. `hm.Laplace(epsilon, home.tolerance / 2)` is for readings that are
    rounded to watts and is wider.

    Examples
    --------
    >>> home = hm.Home([hm.Appliance("kettle", 2000.0)], tolerance=20.0)
    >>> hm.paper.noise(home, 0.1).scale
    100.0
    """
    from hushmeter.noise.laplace import Laplace
    from hushmeter.noise.mechanism import exact

    width = exact("tolerance", home.tolerance) / 2
    grid = width / max(4, math.ceil(20 * epsilon))
    return Laplace(epsilon, width, grid, on_grid=True, max_epsilon=epsilon)


def __getattr__(name: str) -> Any:
    if name in FIGURES:
        module, _, function = FIGURES[name].partition(":")
        return getattr(load(module, f"paper.{name}"), function)
    if name not in ITEMS:
        raise AttributeError(f"module 'hushmeter.paper' has no attribute {name!r}")
    place = ITEMS[name]
    if isinstance(place, dict):
        return SimpleNamespace(**{form: _found(one) for form, one in place.items()})
    return _found(place)


def _found(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(f"hushmeter.{module}"), name)


def __dir__() -> list[str]:
    return sorted([*ITEMS, *FIGURES, "noise"])
