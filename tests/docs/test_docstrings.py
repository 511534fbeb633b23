"""Public names have complete numpydoc sections, and pages name only modules that exist."""

from __future__ import annotations

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
