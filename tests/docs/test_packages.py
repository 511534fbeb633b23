"""The picture of the packages shows the source, and the packages do not import in a circle."""

from __future__ import annotations

import tomllib

import pytest

from tests.docs.blocks import ROOT, load_extension

GRAPH = load_extension("package_graph")


@pytest.fixture(scope="module")
def packages():
    return GRAPH.read_graph()


def test_the_package_graph_has_no_cycle(packages):
    assert GRAPH.find_cycle(packages) == []


def test_the_picture_is_current(packages):
    shown = GRAPH.PICTURE.read_text(encoding="utf-8")
    boxes = GRAPH.group_graph(packages)
    assert shown == GRAPH.draw(boxes), "run python docs/extensions/package_graph.py"


def test_the_picture_is_small_and_explains_every_box(packages):
    boxes = GRAPH.group_graph(packages)
    assert len(boxes) <= 20
    assert set(boxes) == set(GRAPH.CAPTIONS)


def test_the_graph_follows_the_layers_of_import_linter(packages):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layered, apart = project["tool"]["importlinter"]["contracts"]
    layers = [layer.replace(" ", "").split("|") for layer in layered["layers"]]
    rank = {name: -number for number, layer in enumerate(layers) for name in layer}
    assert set(packages) == set(rank)
    upwards = [(a, b) for a, targets in packages.items() for b in targets if rank[a] <= rank[b]]
    assert upwards == []
    # Nothing in the core imports an app, and apps import each other one way.
    assert not any("apps" in targets for targets in packages.values())
    assert apart["containers"] == ["hushmeter.apps"]


@pytest.fixture
def source(tmp_path):
    """Four modules: a package `top` that imports `base`, and types that do not count."""
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "__init__.py").write_text("from hushmeter import base, __version__\n")
    (tmp_path / "top" / "inner.py").write_text(
        "def late():\n    from hushmeter.middle import name\n    from . import other\n"
    )
    (tmp_path / "middle.py").write_text("import numpy\nimport hushmeter.base\n")
    (tmp_path / "base.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from hushmeter import top\n"
    )
    (tmp_path / "__init__.py").write_text("from hushmeter import top\n")
    return tmp_path


def test_imports_are_found_wherever_they_are(source):
    graph = GRAPH.read_graph(source)
    assert graph == {"top": {"base", "middle"}, "middle": {"base"}, "base": set()}
    assert GRAPH.levels(graph) == {"top": 2, "middle": 1, "base": 0}
    assert GRAPH.reduce_graph(graph) == {"top": {"middle"}, "middle": {"base"}, "base": set()}
    assert GRAPH.find_cycle(graph) == []


def test_a_cycle_would_be_found(source):
    (source / "base.py").write_text("def late():\n    from hushmeter.top import name\n")
    graph = GRAPH.read_graph(source)
    cycle = GRAPH.find_cycle(graph)
    assert cycle[0] == cycle[-1]
    assert set(cycle) >= {"base", "top"}
    with pytest.raises(ValueError, match="in a circle: base → top → base"):
        GRAPH.draw(graph)
