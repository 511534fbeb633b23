"""What others can still learn about a household from a release: presence, habits, identity."""

from hushmeter.threat.contract import Rating, Threat, rate, rate_order
from hushmeter.threat.identity import Identity, Membership
from hushmeter.threat.presence import Presence
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
