"""hushmeter: smart-meter readings under differential privacy, and what an attacker still sees.

The public names, nothing else; each is imported when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from hushmeter import attack, errors, noise, protect, scoring, synth, theory
    from hushmeter.assumptions import AssumptionCheck
    from hushmeter.attack.base import Attacker
    from hushmeter.attack.contract import check_attacker
    from hushmeter.attack.registry import attackers
    from hushmeter.home import Appliance, Home, read_home
    from hushmeter.noise import Gaussian, Laplace, Mechanism, Staircase
    from hushmeter.noise.audit import audit
    from hushmeter.protect.publish import Release, release
    from hushmeter.protect.receipt import Receipt
    from hushmeter.protect.sensitivity import calibrate, estimate_tolerance, resolve_unit
    from hushmeter.read import read_meter
    from hushmeter.scoring import Score, score
    from hushmeter.theory.account import account
    from hushmeter.trace import Trace

__all__ = [
    "Appliance",
    "AssumptionCheck",
    "Attacker",
    "Gaussian",
    "Home",
    "Laplace",
    "Mechanism",
    "Receipt",
    "Release",
    "Score",
    "Staircase",
    "Trace",
    "account",
    "attack",
    "attackers",
    "audit",
    "calibrate",
    "check_attacker",
    "errors",
    "estimate_tolerance",
    "noise",
    "protect",
    "read_home",
    "read_meter",
    "release",
    "resolve_unit",
    "score",
    "scoring",
    "synth",
    "theory",
]

_MODULES = {"attack", "errors", "noise", "protect", "scoring", "synth", "theory"}
_ORIGIN = {
    "Appliance": "home",
    "AssumptionCheck": "assumptions",
    "Attacker": "attack.base",
    "Gaussian": "noise",
    "Home": "home",
    "Laplace": "noise",
    "Mechanism": "noise",
    "Receipt": "protect.receipt",
    "Release": "protect.publish",
    "Score": "scoring",
    "Staircase": "noise",
    "Trace": "trace",
    "account": "theory.account",
    "attackers": "attack.registry",
    "audit": "noise.audit",
    "calibrate": "protect.sensitivity",
    "check_attacker": "attack.contract",
    "estimate_tolerance": "protect.sensitivity",
    "read_home": "home",
    "read_meter": "read",
    "release": "protect.publish",
    "resolve_unit": "protect.sensitivity",
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
