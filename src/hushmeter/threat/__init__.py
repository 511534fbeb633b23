"""What others can still learn about a household from a release: presence, habits, identity."""

from typing import TYPE_CHECKING

from hushmeter.parts import names_when_used

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

# `release` needs only what is left, so the threats are loaded when they are asked for.
__getattr__ = names_when_used(
    __name__,
    {
        "threat.attackers": "Identity Membership Presence Rating Threat rate rate_order",
        "threat.remaining": "Remaining likely_findings read_for_attack released_findings "
        "what_is_left",
    },
)
