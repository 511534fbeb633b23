"""Attackers, which infer from meter readings which appliances were on (Sections II, IV, V-E).

There is one module per attacker or family; `hmm`, `nets`, `levels` and `level_search` contain what
several attackers share.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hushmeter.attack import (
        base,
        bayes,
        combinatorial,
        contract,
        factorial_hmm,
        hierarchical,
        hmm,
        level_search,
        levels,
        multi_level,
        multi_shot,
        nets,
        nilmtk,
        one_shot,
        recurrent_net,
        registry,
        remove_solar,
        saved,
        semi_blind,
        strongest,
        super_state_hmm,
        tcn,
    )

__all__ = [
    "base",
    "bayes",
    "combinatorial",
    "contract",
    "factorial_hmm",
    "hierarchical",
    "hmm",
    "level_search",
    "levels",
    "multi_level",
    "multi_shot",
    "nets",
    "nilmtk",
    "one_shot",
    "recurrent_net",
    "registry",
    "remove_solar",
    "saved",
    "semi_blind",
    "strongest",
    "super_state_hmm",
    "tcn",
]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return import_module(f"hushmeter.attack.{name}")
    raise AttributeError(f"module 'hushmeter.attack' has no attribute {name!r}")
