"""Make the table of public names, and describe those that the page does not describe itself."""

from __future__ import annotations

import inspect
import re

import hushmeter


def list_names(page: str) -> str:  # noqa: ARG001
    """Return a table of every class, function and registry of `hushmeter.__all__`."""
    names = "\n".join(f"   {name}" for name in describable())
    return f"```{{eval-rst}}\n.. currentmodule:: hushmeter\n\n.. autosummary::\n\n{names}\n```"


def describe_rest(page: str) -> str:
    """Return a section for the names that no directive of the page describes."""
    known = set(re.findall(r"^\.\. auto\w+:: (\w+)$", page, flags=re.MULTILINE))
    rest = [name for name in describable() if name not in known]
    if not rest:
        return ""
    lines = [f".. {_directive(name)}:: {name}" for name in rest]
    body = "\n".join([".. currentmodule:: hushmeter", *lines])
    return f"## More\n\n```{{eval-rst}}\n{body}\n```"


def describable() -> list[str]:
    """Return the public names that are not modules, in the order of `__all__`."""
    names = hushmeter.__all__
    return [name for name in names if not inspect.ismodule(getattr(hushmeter, name))]


def _directive(name: str) -> str:
    value = getattr(hushmeter, name)
    if inspect.isclass(value):
        return "autoclass"
    return "autofunction" if callable(value) else "autodata"
