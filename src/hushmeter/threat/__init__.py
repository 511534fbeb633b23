"""What others can still learn about a household from a release: presence, habits, identity."""

from hushmeter.threat.remaining import (
    Remaining,
    likely_findings,
    read_for_attack,
    released_findings,
    what_is_left,
)

__all__ = ["Remaining", "likely_findings", "read_for_attack", "released_findings", "what_is_left"]
