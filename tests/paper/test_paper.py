"""Every item of the paper is found by its name."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path

import pytest

import hushmeter as hm
from hushmeter import paper

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", [*paper.ITEMS, *paper.FIGURES])
def test_an_item_leads_to_code_that_names_it(name):
    """The module of the item, or the docstring of what it leads to, says what it is."""
    found = getattr(paper, name)
    forms = list(vars(found).values()) if type(found).__name__ == "SimpleNamespace" else [found]
    assert forms
    assert all(callable(one) and one.__doc__ for one in forms)
    assert name in dir(paper)


def test_at_least_25_items_have_a_name():
    assert len(paper.ITEMS) + len(paper.FIGURES) >= 25


@pytest.mark.parametrize(
    ("item", "file"),
    [
        ("algorithm_1", "attack/multi_shot.py"), ("algorithm_2", "attack/hierarchical.py"),
        ("theorem_2", "noise/laplace.py"), ("algorithm_3", "noise/staircase.py"),
        ("P3", "attack/one_shot.py"), ("theorem_3", "theory/one_shot.py"),
        ("theorem_5", "theory/multi_shot.py"),
    ],
)  # fmt: skip
def test_a_file_is_named_after_what_it_holds(item, file):
    text = (ROOT / "src/hushmeter" / file).read_text(encoding="utf-8")
    place = paper.ITEMS[item]
    for one in place.values() if isinstance(place, dict) else [place]:
        assert re.search(rf"^(class|def) {one.partition(':')[2]}\b", text, re.MULTILINE)


def test_what_the_map_of_the_paper_names_is_found():
    """The map has a row for each theorem, algorithm and figure that has a name here."""
    rows = (ROOT / "docs/paper-map.md").read_text(encoding="utf-8")
    for name in (*paper.ITEMS, *paper.FIGURES):
        word, _, number = name.partition("_")
        title = {"figure": "Fig.", "table": "Table", "equation": "Eq."}.get(word, word.title())
        number = {"table": "I", "equation": f"({number})"}.get(word, number)
        title = f"({name})" if name[0] == "P" else f"{title} {number}"
        if name != "accuracy":
            assert title in rows, title


@pytest.mark.parametrize("tolerance", [2.0, 20.0, 41.8, 0.3])
@pytest.mark.parametrize("epsilon", [0.001, 0.1, 1.0, 3.0])
def test_the_noise_has_exactly_the_scale_of_the_paper(tolerance, epsilon):
    """Also for a tolerance that was learnt, which a release would round up."""
    home = hm.Home([hm.Appliance("kettle", 2000.0)], tolerance)
    made = paper.noise(home, epsilon)
    wanted = Fraction(repr(tolerance)) / 2 / Fraction(repr(epsilon))
    assert made.steps * made.exact_grid / made.exact_epsilon == wanted
    assert math.isclose(made.scale, float(wanted), rel_tol=1e-12)
    assert made.epsilon == epsilon
    # On watts the same arguments are wider, which was a trap.
    assert hm.Laplace(epsilon, tolerance / 2).scale > made.scale


def test_another_name_is_no_item():
    with pytest.raises(AttributeError, match="theorem_9"):
        paper.theorem_9  # noqa: B018
