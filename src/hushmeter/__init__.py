"""hushmeter releases smart-meter readings under differential privacy and attacks them.

This module lists the public names. Each name is imported when it is first used, so that
`import hushmeter` is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# The build and the documentation read the version from this line.
__version__ = "0.1.0"

if TYPE_CHECKING:
    from hushmeter import attack, errors, noise, privacy, releases, scoring, synth, theory
    from hushmeter.advice.planner import Advice, advise
    from hushmeter.advice.sentences import explain
    from hushmeter.appliance_kinds import catalogue
    from hushmeter.assumptions import AssumptionCheck, estimate_tolerance
    from hushmeter.attack.base import Attacker
    from hushmeter.attack.contract import check_attacker
    from hushmeter.attack.registry import attackers
    from hushmeter.home import Appliance, Home, read_home
    from hushmeter.learn.homes import LearntHome, learn_home
    from hushmeter.learn.kmedians import KMedians
    from hushmeter.learn.statements import Finding, Findings, findings
    from hushmeter.ledger import Ledger, open_ledger
    from hushmeter.noise import Gaussian, Laplace, Mechanism, Staircase
    from hushmeter.noise.audit import audit
    from hushmeter.plot.readings import plot_trace
    from hushmeter.privacy.meters import Metered, metered
    from hushmeter.privacy.units import calibrate, resolve_unit
    from hushmeter.read import read_home_data, read_meter
    from hushmeter.releases.files import read_release
    from hushmeter.releases.promise import Promise, account
    from hushmeter.releases.receipt import Receipt
    from hushmeter.releases.release import Release, release, release_views
    from hushmeter.releases.request import Request
    from hushmeter.releases.restore import restore
    from hushmeter.releases.verify import verify
    from hushmeter.scoring import Score, score
    from hushmeter.study.definition import Study, read_study
    from hushmeter.study.sweep import sweep
    from hushmeter.theory.bounds import Bounds, bounds
    from hushmeter.theory.exact import exact_accuracy
    from hushmeter.theory.universal import universal_limit
    from hushmeter.trace import Metering, Trace
    from hushmeter.write import write_meter

__all__ = [
    "Advice",
    "Appliance",
    "AssumptionCheck",
    "Attacker",
    "Bounds",
    "Finding",
    "Findings",
    "Gaussian",
    "Home",
    "KMedians",
    "Laplace",
    "LearntHome",
    "Ledger",
    "Mechanism",
    "Metered",
    "Metering",
    "Promise",
    "Receipt",
    "Release",
    "Request",
    "Score",
    "Staircase",
    "Study",
    "Trace",
    "account",
    "advise",
    "attack",
    "attackers",
    "audit",
    "bounds",
    "calibrate",
    "catalogue",
    "check_attacker",
    "errors",
    "estimate_tolerance",
    "exact_accuracy",
    "explain",
    "findings",
    "learn_home",
    "metered",
    "noise",
    "open_ledger",
    "plot_trace",
    "privacy",
    "read_home",
    "read_home_data",
    "read_meter",
    "read_release",
    "read_study",
    "release",
    "release_views",
    "releases",
    "resolve_unit",
    "restore",
    "score",
    "scoring",
    "sweep",
    "synth",
    "theory",
    "universal_limit",
    "verify",
    "write_meter",
]

_MODULES = {"attack", "errors", "noise", "privacy", "releases", "scoring", "synth", "theory"}
_ORIGIN = {
    "Advice": "advice.planner",
    "Appliance": "home",
    "AssumptionCheck": "assumptions",
    "Attacker": "attack.base",
    "Bounds": "theory.bounds",
    "Finding": "learn.statements",
    "Findings": "learn.statements",
    "Gaussian": "noise",
    "Home": "home",
    "KMedians": "learn.kmedians",
    "Laplace": "noise",
    "LearntHome": "learn.homes",
    "Ledger": "ledger",
    "Mechanism": "noise",
    "Metered": "privacy.meters",
    "Metering": "trace",
    "Promise": "releases.promise",
    "Receipt": "releases.receipt",
    "Release": "releases.release",
    "Request": "releases.request",
    "Score": "scoring",
    "Staircase": "noise",
    "Study": "study.definition",
    "Trace": "trace",
    "account": "releases.promise",
    "advise": "advice.planner",
    "attackers": "attack.registry",
    "audit": "noise.audit",
    "bounds": "theory.bounds",
    "calibrate": "privacy.units",
    "catalogue": "appliance_kinds",
    "check_attacker": "attack.contract",
    "estimate_tolerance": "assumptions",
    "exact_accuracy": "theory.exact",
    "explain": "advice.sentences",
    "findings": "learn.statements",
    "learn_home": "learn.homes",
    "metered": "privacy.meters",
    "open_ledger": "ledger",
    "plot_trace": "plot.readings",
    "read_home": "home",
    "read_home_data": "read",
    "read_meter": "read",
    "read_release": "releases.files",
    "read_study": "study.definition",
    "release": "releases.release",
    "release_views": "releases.release",
    "resolve_unit": "privacy.units",
    "restore": "releases.restore",
    "score": "scoring",
    "sweep": "study.sweep",
    "universal_limit": "theory.universal",
    "verify": "releases.verify",
    "write_meter": "write",
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
