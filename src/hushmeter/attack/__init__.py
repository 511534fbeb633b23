"""Attackers, which infer from meter readings which appliances were on (Sections II, IV, V-E).

There is one module per attacker or family. Several of them share the levels of appliances
(`levels`, `level_search`) and hidden Markov chains (`chains`).
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

_MODULES = frozenset(module.name for module in iter_modules(__path__))


def __getattr__(name: str) -> ModuleType:
    if name in _MODULES:
        return import_module(f"hushmeter.attack.{name}")
    raise AttributeError(f"module 'hushmeter.attack' has no attribute {name!r}")
