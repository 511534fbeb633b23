"""hushmeter: smart-meter readings under differential privacy, and what an attacker still sees.

The public names, nothing else; each is imported when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from hushmeter import attack, errors, scoring, synth
    from hushmeter.assumptions import AssumptionCheck
    from hushmeter.attack.base import Attacker
    from hushmeter.attack.contract import check_attacker
    from hushmeter.attack.registry import attackers
    from hushmeter.home import Appliance, Home, read_home
    from hushmeter.read import read_meter
    from hushmeter.scoring import Score, score
    from hushmeter.trace import Trace

__all__ = [
    "Appliance",
    "AssumptionCheck",
    "Attacker",
    "Home",
    "Score",
    "Trace",
    "attack",
    "attackers",
    "check_attacker",
    "errors",
    "read_home",
    "read_meter",
    "score",
    "scoring",
    "synth",
]

_MODULES = {"attack", "errors", "scoring", "synth"}
_ORIGIN = {
    "Appliance": "home",
    "AssumptionCheck": "assumptions",
    "Attacker": "attack.base",
    "Home": "home",
    "Score": "scoring",
    "Trace": "trace",
    "attackers": "attack.registry",
    "check_attacker": "attack.contract",
    "read_home": "home",
    "read_meter": "read",
    "score": "scoring",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"hushmeter.{name}")
    if name in _ORIGIN:
        value = getattr(import_module(f"hushmeter.{_ORIGIN[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'hushmeter' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
