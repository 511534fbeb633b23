"""What others can still learn about a household from a release: presence, habits, identity."""

from hushmeter.threat.remaining import Remaining, released_findings, what_is_left

__all__ = ["Remaining", "released_findings", "what_is_left"]
