"""Attackers: from meter readings back to what was on (Sections II and IV of the paper)."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hushmeter.attack import base, contract, hierarchical, multi_shot, naive, one_shot, registry

__all__ = ["base", "contract", "hierarchical", "multi_shot", "naive", "one_shot", "registry"]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return import_module(f"hushmeter.attack.{name}")
    raise AttributeError(f"module 'hushmeter.attack' has no attribute {name!r}")
