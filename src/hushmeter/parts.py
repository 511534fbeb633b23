"""The apps beside the core, found by name: the core imports none, and each may be absent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from hushmeter.errors import MissingExtraError

APPS = "hushmeter.apps"


def load(module: str, what: str) -> Any:
    """Import a module of an app, such as "ledger.payment".

    `what` needs it: raise `MissingExtraError` if the app, or a package that it needs, is absent.
    """
    try:
        return import_module(f"{APPS}.{module}")
    except ModuleNotFoundError as error:
        name = error.name or ""
        if name.startswith("hushmeter") and not name.startswith(APPS):
            raise
        raise MissingExtraError(what, module.partition(".")[0]) from None


def names_when_used(package: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package whose names are in other modules, by module of hushmeter."""
    places = {name: module for module, words in names.items() for name in words.split()}

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"hushmeter.{places[name]}"), name)

    return find


def need(module: str, what: str, extra: str) -> Any:
    """Import a package that only `what` needs; raise `MissingExtraError` where it is absent."""
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise MissingExtraError(what, extra) from None


def listed(name: str) -> Mapping[str, Any]:
    """A table of all apps, such as their commands; empty if there are no apps."""
    try:
        found: Mapping[str, Any] = getattr(import_module(APPS), name)
    except ModuleNotFoundError:
        return {}
    return found
