"""hushmeter releases smart-meter readings under differential privacy and attacks them.

This module lists the public names. Each name is imported when it is first used, so that
`import hushmeter` is fast.
"""

from __future__ import annotations

from importlib import import_module

# The build and the documentation read the version from this line.
__version__ = "0.1.0"

# The module `typing` could be one of the current folder, until `__main__` has dropped that.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hushmeter import (
        attack,
        errors,
        noise,
        paper,
        privacy,
        releases,
        scoring,
        synth,
        theory,
        threat,
    )
    from hushmeter.advice import Advice, advise
    from hushmeter.advice.sentences import explain
    from hushmeter.appliance import Appliance, catalogue
    from hushmeter.apps.ledger import Ledger, open_ledger
    from hushmeter.apps.plot.readings import plot_trace
    from hushmeter.apps.study.sweep import Study, read_study, sweep
    from hushmeter.assumptions import AssumptionCheck, estimate_tolerance
    from hushmeter.attack.base import Attacker
    from hushmeter.attack.registry import attackers, check_attacker
    from hushmeter.home import Home, read_home
    from hushmeter.learn.homes import LearntHome, learn_home
    from hushmeter.learn.kmedians import KMedians
    from hushmeter.learn.statements import Finding, Findings, findings
    from hushmeter.noise import Gaussian, Laplace, Mechanism, Staircase, audit
    from hushmeter.privacy.units import Metered, calibrate, metered, resolve_unit
    from hushmeter.read import read_home_data, read_meter
    from hushmeter.releases.files import read_release
    from hushmeter.releases.promise import Promise, account
    from hushmeter.releases.receipt import Receipt
    from hushmeter.releases.release import Release, release, release_views
    from hushmeter.releases.request import Request
    from hushmeter.releases.restore import restore
    from hushmeter.releases.verify import verify
    from hushmeter.scoring import Score, score
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
    "paper",
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
    "threat",
    "universal_limit",
    "verify",
    "write_meter",
]

_MODULES = {
    "attack", "errors", "noise", "paper", "privacy", "releases", "scoring", "synth", "theory",
    "threat",
}  # fmt: skip
_NAMES = {
    "advice": "Advice advise",
    "advice.sentences": "explain",
    "appliance": "Appliance catalogue",
    "assumptions": "AssumptionCheck estimate_tolerance",
    "attack.base": "Attacker",
    "attack.registry": "attackers check_attacker",
    "home": "Home read_home",
    "learn.homes": "LearntHome learn_home",
    "learn.kmedians": "KMedians",
    "learn.statements": "Finding Findings findings",
    "apps.ledger": "Ledger open_ledger",
    "noise": "Gaussian Laplace Mechanism Staircase audit",
    "apps.plot.readings": "plot_trace",
    "privacy.units": "Metered calibrate metered resolve_unit",
    "read": "read_home_data read_meter",
    "releases.files": "read_release",
    "releases.promise": "Promise account",
    "releases.receipt": "Receipt",
    "releases.release": "Release release release_views",
    "releases.request": "Request",
    "releases.restore": "restore",
    "releases.verify": "verify",
    "scoring": "Score score",
    "apps.study.sweep": "Study read_study sweep",
    "theory.bounds": "Bounds bounds",
    "theory.exact": "exact_accuracy",
    "theory.universal": "universal_limit",
    "trace": "Metering Trace",
    "write": "write_meter",
}
_ORIGIN = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"hushmeter.{name}")
    if name in _ORIGIN:
        module = _ORIGIN[name]
        if module.startswith("apps."):
            from hushmeter.parts import load

            found = load(module.removeprefix("apps."), f"hushmeter.{name}")
        else:
            found = import_module(f"hushmeter.{module}")
        value = getattr(found, name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'hushmeter' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
