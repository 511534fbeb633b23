"""`python docs/extensions/package_graph.py`: draw docs/packages.svg from the imports of the source.

A box is a package with the words that explain it. Two boxes hold several: the apps, which may be
deleted, and the modules beside the packages that all others use. There is an arrow
from each box to the boxes that it imports. An import that only type checkers see does not count.
Arrows that follow from others are left out: if `cli` imports `advice` and `advice` imports
`releases`, no arrow leads from `cli` to `releases`. A box lies above everything that it imports,
so the picture also proves that the graph has no cycle.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "hushmeter"
PICTURE = ROOT / "docs" / "packages.svg"
# These import everything on first use, or only call the command line.
ENTRIES = {"__init__", "__main__"}

BASE = "base"
APPLIED = "apps"
CAPTIONS = {
    APPLIED: "may be ignored, may be deleted",
    "cli": "the commands: parsing and printing",
    "paper": "every item of the paper by name",
    "advice": "which release suits a wish",
    "theory": "what can be known at best",
    "threat": "what a release still shows",
    "learn": "from data to a Home",
    "attack": "the paper's attackers, the floors",
    "releases": "request, promise, release, receipt",
    "privacy": "what an ε means",
    "noise": "exact mechanisms",
    "synth": "synthetic homes and readings",
    "read, write": "files in, files out",
    BASE: "the nouns that all others use",
}
TOGETHER = {"read": "read, write", "write": "read, write"}
CORE = {"releases", "privacy", "noise", "read, write", "attack", "theory"}
"""The packages that a reading passes first, in a stronger colour."""

BOX_H, GAP_X, GAP_Y, MARGIN = 44, 22, 40, 12
Graph = dict[str, set[str]]
# A box, or the place where an arrow from one box to another passes a row at some height.
Node = str | tuple[str, str, int]


def read_graph(source: Path = SOURCE) -> Graph:
    """Return for each package or top-level module the others that it imports.

    Parameters
    ----------
    source : pathlib.Path
        Folder of the package `hushmeter`.

    Returns
    -------
    dict of str to set of str
    """
    graph: Graph = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        if parts[0] in ENTRIES:
            continue
        targets = graph.setdefault(parts[0], set())
        for name in imported_modules(path, parts):
            target = name.split(".")[1] if name.count(".") else ""
            if target and target != parts[0] and node_exists(source, target):
                targets.add(target)
    return graph


def node_exists(source: Path, name: str) -> bool:
    """Return True if `name` is a package or a module directly below the source."""
    return (source / name).is_dir() or (source / f"{name}.py").is_file()


def imported_modules(path: Path, parts: tuple[str, ...]) -> Iterator[str]:
    """Yield the full names of what a module of hushmeter imports, also inside functions."""
    package = ["hushmeter", *parts[:-1]]
    for node in _walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.startswith("hushmeter"))
        elif isinstance(node, ast.ImportFrom):
            base = (node.module or "").split(".") if node.module else []
            if node.level:
                base = package[: len(package) - node.level + 1] + base
            if base[:1] == ["hushmeter"]:
                yield from (".".join([*base, name.name]) for name in node.names)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield every statement that runs; the body of `if TYPE_CHECKING` does not."""
    if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _walk(child)


def group_graph(graph: Graph) -> Graph:
    """Return the graph of the boxes: applications together, and the modules that all others use."""

    def reachable(name: str) -> set[str]:
        return {name}.union(*map(reachable, graph[name]))

    modules = {name for name in graph if (SOURCE / f"{name}.py").is_file()}
    base = {name for name in modules if reachable(name) <= modules}

    def box(name: str) -> str:
        if name in base:
            return BASE
        return TOGETHER.get(name, name)

    boxes: Graph = {}
    for name, targets in graph.items():
        boxes.setdefault(box(name), set()).update({box(target) for target in targets} - {box(name)})
    return boxes


def find_cycle(graph: Graph) -> list[str]:
    """Return the names along a cycle of the graph, or an empty list if there is none."""
    done: set[str] = set()

    def search(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for target in sorted(graph[name]):
            cycle = search(target, [*path, name])
            if cycle:
                return cycle
        done.add(name)
        return []

    cycles = (search(name, []) for name in sorted(graph))
    return next((cycle for cycle in cycles if cycle), [])


def levels(graph: Graph) -> dict[str, int]:
    """Return the height of each node: one more than the highest node that it imports."""
    heights: dict[str, int] = {}

    def height(name: str) -> int:
        if name not in heights:
            heights[name] = 1 + max((height(target) for target in graph[name]), default=-1)
        return heights[name]

    for name in graph:
        height(name)
    return heights


def reduce_graph(graph: Graph) -> Graph:
    """Return the graph without the arrows that follow from others."""

    def reachable(name: str) -> set[str]:
        return set().union(*({target} | reachable(target) for target in graph[name]))

    return {
        name: {t for t in targets if not any(t in reachable(other) for other in targets - {t})}
        for name, targets in graph.items()
    }


def draw(graph: Graph) -> str:
    """Return the picture of the graph as SVG text, the highest nodes on top.

    Raises
    ------
    ValueError
        If the graph has a cycle.
    """
    cycle = find_cycle(graph)
    if cycle:
        raise ValueError(f"the packages import each other in a circle: {' → '.join(cycle)}")
    chains = _route(graph)
    rows = _arrange(graph, chains)
    widths = [sum(map(_width, row)) + GAP_X * len(row) for row in rows]
    width, height = max(widths) + 2 * MARGIN, len(rows) * (BOX_H + GAP_Y) + 2 * MARGIN - GAP_Y
    centres: dict[Node, tuple[float, float]] = {}
    for number, row in enumerate(rows):
        x = (width - widths[number]) / 2
        for node in row:
            x += (_width(node) + GAP_X) / 2
            centres[node] = (x, MARGIN + number * (BOX_H + GAP_Y) + BOX_H / 2)
            x += (_width(node) + GAP_X) / 2
    arrows = [_arrow([centres[node] for node in chain]) for chain in chains]
    boxes = [_box(node, *centres[node]) for node in sorted(graph)]
    return _SVG.format(
        width=round(width), height=round(height), arrows="\n".join(arrows), boxes="\n".join(boxes)
    )


def _route(graph: Graph) -> list[list[Node]]:
    """Return each arrow as a chain of nodes, with a free place in every row that it passes."""
    heights = levels(graph)
    return [
        [name, *((name, target, h) for h in range(heights[name] - 1, heights[target], -1)), target]
        for name, targets in sorted(reduce_graph(graph).items())
        for target in sorted(targets)
    ]


def _arrange(graph: Graph, chains: list[list[Node]]) -> list[list[Node]]:
    """Return the rows from top to bottom; each row is ordered so that few arrows cross."""
    heights: dict[Node, int] = {**levels(graph)}
    heights.update({node: node[2] for chain in chains for node in chain if isinstance(node, tuple)})
    rows = [
        sorted((node for node, h in heights.items() if h == level), key=str)
        for level in range(max(heights.values()), -1, -1)
    ]
    above: dict[Node, list[Node]] = {node: [] for node in heights}
    below: dict[Node, list[Node]] = {node: [] for node in heights}
    for chain in chains:
        for upper, lower in pairwise(chain):
            below[upper].append(lower)
            above[lower].append(upper)
    place: dict[Node, float] = {}
    for sweep in range(30):
        neighbours, ordered = (above, rows) if sweep % 2 == 0 else (below, rows[::-1])
        for row in ordered:
            _order_row(row, neighbours, place)
    return rows


def _order_row(
    row: list[Node], neighbours: dict[Node, list[Node]], place: dict[Node, float]
) -> None:
    """Sort a row by the mean place of each node's neighbours in the row before."""

    def wish(node: Node) -> float:
        near = [place[other] for other in neighbours[node] if other in place]
        return sum(near) / len(near) if near else place.get(node, 0.0)

    row.sort(key=lambda node: (round(wish(node), 6), str(node)))
    total, x = sum(map(_width, row)) + GAP_X * len(row), 0.0
    for node in row:
        place[node] = x + (_width(node) + GAP_X) / 2 - total / 2
        x += _width(node) + GAP_X


def _width(node: Node) -> int:
    if not isinstance(node, str):
        return 6
    return 22 + max(round(8.2 * len(_label(node))), round(6.2 * len(CAPTIONS.get(node, ""))))


def _label(name: str) -> str:
    if name == BASE:
        return "home.py  trace.py  clock.py  errors.py  …"
    if name == APPLIED:
        return "apps: " + ", ".join(
            sorted(p.parent.name for p in (SOURCE / "apps").glob("*/__init__.py"))
        )
    return "  ".join(
        f"{one}/" if (SOURCE / one).is_dir() else f"{one}.py" for one in name.split(", ")
    )


def _arrow(points: list[tuple[float, float]]) -> str:
    (x, y), last = points[0], len(points) - 1
    path = f"M{x:.0f} {y + BOX_H / 2:.0f}"
    for number, ((x0, y0), (x1, y1)) in enumerate(pairwise(points), start=1):
        top = y0 + BOX_H / 2
        end = y1 - BOX_H / 2
        bend = (top + end) / 2
        path += f" C{x0:.0f} {bend:.0f} {x1:.0f} {bend:.0f} {x1:.0f} {end:.0f}"
        if number < last:
            path += f" V{y1 + BOX_H / 2:.0f}"
    return f'  <path d="{path}"/>'


def _box(name: str, x: float, y: float) -> str:
    fill, stroke = ("#dcebf7", "#0072b2") if name in CORE else ("#f2f2f2", "#777777")
    if name == APPLIED:
        fill, stroke = "#fdf0d5", "#b36b00"
    width = _width(name)
    return (
        f'  <rect x="{x - width / 2:.0f}" y="{y - BOX_H / 2:.0f}" width="{width}" '
        f'height="{BOX_H}" rx="6" fill="{fill}" stroke="{stroke}"/>\n'
        f'  <text x="{x:.0f}" y="{y - 3:.0f}" font-weight="bold">{_label(name)}</text>\n'
        f'  <text x="{x:.0f}" y="{y + 14:.0f}" font-size="11">{CAPTIONS.get(name, "")}</text>'
    )


_SVG = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" \
font-family="DejaVu Sans, Helvetica, Arial, sans-serif" font-size="13" role="img">
<title>The packages of hushmeter; an arrow leads to what a package imports</title>
<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="6" markerHeight="6" \
orient="auto"><path d="M0 0 L10 5 L0 10 z" fill="#444444"/></marker></defs>
<rect width="{width}" height="{height}" fill="#ffffff"/>
<g fill="none" stroke="#444444" stroke-width="1.1" marker-end="url(#head)">
{arrows}
</g>
<g text-anchor="middle" fill="#111111">
{boxes}
</g>
</svg>
"""


def main() -> None:
    """Write the picture, or exit with the cycle that prevents it."""
    graph = read_graph()
    cycle = find_cycle(graph)
    if cycle:
        sys.exit(f"the packages import each other in a circle: {' → '.join(cycle)}")
    boxes = group_graph(graph)
    PICTURE.write_text(draw(boxes), encoding="utf-8")
    arrows = sum(map(len, reduce_graph(boxes).values()))
    sys.stdout.write(f"{len(boxes)} boxes, {arrows} arrows, no cycle\n")


if __name__ == "__main__":
    main()
