"""Documented names have numpydoc sections, all others one sentence; pages name what exists.

Documented are the names of `hushmeter.__all__` and of docs/api.md, base classes with their methods,
and definitions whose summary names an item of the paper.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import hushmeter as hm
from tests.docs.blocks import ROOT, pages

SECTION = re.compile(r"^([A-Z][a-z]+(?: [A-Z][a-z]+)?)\n-{3,}$", re.MULTILINE)
SOURCE = ROOT / "src" / "hushmeter"


def public_callables() -> Iterator[tuple[str, Any]]:
    """Functions and classes of `hushmeter.__all__`, and the public methods of the classes."""
    for name in hm.__all__:
        value = getattr(hm, name)
        if inspect.isclass(value):
            yield name, value
            yield from (
                (f"{name}.{key}", member)
                for key, member in vars(value).items()
                if inspect.isfunction(member) and not key.startswith("_")
            )
        elif inspect.isfunction(value):
            yield name, value


def parameters_of(value: Callable[..., Any]) -> list[str]:
    """Names of the parameters that a caller gives."""
    try:
        names = list(inspect.signature(value).parameters)
    except (TypeError, ValueError):
        return []
    return [name for name in names if name not in ("self", "args", "kwargs")]


def faults(name: str, value: Any) -> list[str]:
    """What the docstring of a public name lacks.

    The fields of a dataclass may be described as attributes. A docstring may refer to another name
    for the parameters, and that of a method may describe all of them in its sentences.
    """
    text = inspect.getdoc(value) or ""
    sections = set(SECTION.findall(text))
    found = []
    given = parameters_of(value)
    described = {"Parameters", "Attributes"} & sections
    referred = re.search(r"`\w+` for the parameters|parameters are those of `\w+`", text)
    is_method = "." in name
    told = [p for p in given if re.search(rf"\b{p}\b", text)]
    if given and not (described or referred or (is_method and len(told) == len(given))):
        found.append(f"{name} has no section Parameters")
    if described:
        found += [f"{name} does not describe {p}" for p in given if p not in told]
    if inspect.isfunction(value) and not is_method:
        annotation = value.__annotations__.get("return")
        if annotation not in (None, "None") and not {"Returns", "Yields"} & sections:
            found.append(f"{name} has no section Returns")
    return found


PUBLIC = dict(public_callables())


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_have_their_sections(name):
    assert faults(name, PUBLIC[name]) == []


def test_missing_sections_would_be_noticed():
    def bad(watts: float) -> float:
        """Do it."""
        return watts

    def good(watts: float) -> float:
        """Do it.

        Parameters
        ----------
        watts : float

        Returns
        -------
        float
        """
        return watts

    assert faults("bad", bad) == [
        "bad has no section Parameters",
        "bad has no section Returns",
    ]
    assert faults("good", good) == []


PAPER = re.compile(
    r"\((P\d|\d+[a-z]?)\)|Theorem|Algorithm \d|Assumption|Fig\. ?\d|equation|Table I"
)
TABLES = {"Parameters", "Returns", "Yields", "Raises", "Attributes"}
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def documented_names() -> set[str]:
    """Names of `hushmeter.__all__`, and names and members that the page of the API lists."""
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    listed = re.findall(r"auto(?:class|function|exception|data):: ([\w.]+)", page)
    members = re.findall(r":members: ([\w, ]+)", page)
    names = {name.rpartition(".")[2] for name in listed}
    return names | set(hm.__all__) | {m.strip() for group in members for m in group.split(",")}


def is_base(node: ast.AST) -> bool:
    """True for an abstract class or a protocol."""
    return isinstance(node, ast.ClassDef) and any(
        word in ast.unparse(base) for base in node.bases for word in ("ABC", "Protocol")
    )


def needless_tables(
    tree: ast.AST, documented: set[str], *, inside_documented: bool | None = None
) -> Iterator[tuple[str, int]]:
    """Name and line of every definition with numpydoc tables that is not documented."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, Definition):
            yield from needless_tables(node, documented, inside_documented=inside_documented)
            continue
        text = ast.get_docstring(node) or ""
        of_class = inside_documented is True and not node.name.startswith("_")
        named = inside_documented is None and node.name in documented
        allowed = named or of_class or is_base(node)
        paper = PAPER.search(text.split("\n\n")[0])
        if TABLES & set(SECTION.findall(text)) and not (allowed or paper):
            yield node.name, node.lineno
        yield from needless_tables(node, documented, inside_documented=allowed)


@pytest.mark.parametrize(
    "path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE))
)
def test_other_definitions_have_sentences_and_no_tables(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert list(needless_tables(tree, documented_names())) == []


def test_needless_tables_would_be_noticed():
    text = '''
def inner(x):
    """Do it.

    Returns
    -------
    int
    """
'''
    assert list(needless_tables(ast.parse(text), set())) == [("inner", 2)]
    assert list(needless_tables(ast.parse(text), {"inner"})) == []
    of_paper = ast.parse(text.replace("Do it", "Solve (P3)"))
    assert list(needless_tables(of_paper, set())) == []


PLACES = {
    (path.name, place)
    for path in [*pages(), ROOT / "SECURITY.md"]
    for place in re.findall(r"`([\w/]+/[\w/]*\w+\.py|\w+/)`", path.read_text(encoding="utf-8"))
}


@pytest.mark.parametrize(("page", "place"), sorted(PLACES))
def test_pages_name_only_modules_that_exist(page, place):
    roots = (ROOT, SOURCE)
    made = {"battery/", "january/", "results/"}  # folders that the commands of a page write
    assert place in made or any((root / place).exists() for root in roots)


def test_pages_name_modules():
    assert len(PLACES) > 20


DOTTED = {
    (path.name, name)
    for path in pages()
    for name in re.findall(r"`(hushmeter\.[\w.]+)`", path.read_text(encoding="utf-8"))
}


@pytest.mark.parametrize(("page", "name"), sorted(DOTTED))
def test_pages_name_only_symbols_that_exist(page, name):
    from tests.test_docs import resolve

    assert resolve(name) is not None
