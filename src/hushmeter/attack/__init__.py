"""Attackers, which infer from meter readings which appliances were on (Sections II, IV, V-E).

There is one module per attacker or family. Several of them share the levels of appliances
(`levels`, `level_search`), hidden Markov chains (`chains`, `loads`, `beam`) and a convolutional
network (`network`).
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

__all__ = [
    "base",
    "bayes",
    "beam",
    "chains",
    "combinatorial",
    "contract",
    "factorial_hmm",
    "hierarchical",
    "level_search",
    "levels",
    "loads",
    "network",
    "one_shot",
    "recurrent_net",
    "registry",
    "remove_solar",
    "semi_blind",
    "strongest",
    "super_state_hmm",
    "tcn",
]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return import_module(f"hushmeter.attack.{name}")
    raise AttributeError(f"module 'hushmeter.attack' has no attribute {name!r}")
