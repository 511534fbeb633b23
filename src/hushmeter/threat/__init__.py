"""What others can still learn about a household from a release: presence, habits, identity."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hushmeter.threat.attackers import (
        Identity,
        Membership,
        Presence,
        Rating,
        Threat,
        rate,
        rate_order,
    )
    from hushmeter.threat.remaining import (
        Remaining,
        likely_findings,
        read_for_attack,
        released_findings,
        what_is_left,
    )

_NAMES = {
    "attackers": "Identity Membership Presence Rating Threat rate rate_order",
    "remaining": "Remaining likely_findings read_for_attack released_findings what_is_left",
}
__all__ = [
    "Identity",
    "Membership",
    "Presence",
    "Rating",
    "Remaining",
    "Threat",
    "likely_findings",
    "rate",
    "rate_order",
    "read_for_attack",
    "released_findings",
    "what_is_left",
]


def __getattr__(name: str) -> Any:
    """Load a threat when it is asked for: `release` needs only what is left."""
    for module, names in _NAMES.items():
        if name in names.split():
            return getattr(import_module(f"hushmeter.threat.{module}"), name)
    raise AttributeError(f"module 'hushmeter.threat' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
