"""The part of a file that is read, from a time on and up to another one.

Both times are public: a person states them. What lies outside decides nothing that a release
publishes, so that readers leave it out before they count rows or look for gaps.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime

import numpy as np

from hushmeter.checks import BoolArray, IntArray
from hushmeter.clock import in_zone
from hushmeter.errors import DataError, InputError
from hushmeter.trace import iso

YEARS = range(1970, 2200)
"""Years of times that are read."""


def read_time(name: str, text: str | date | None) -> datetime | None:
    """Read a date, which means its midnight, or a time."""
    if text is None:
        return None
    with suppress(ValueError):
        found = datetime.fromisoformat(str(text).strip())
        if found.year in YEARS:
            return found
    raise InputError(
        f"`{name}=` must be a date or a time between 1970 and 2199, such as 2024-02-01 or "
        f"2024-02-01T06:00Z, got {str(text)[:40]!r}."
    )


@dataclass(frozen=True)
class Part:
    """A part of a file [ns since 1970, UTC]; None stands for an open side."""

    start: int | None = None
    end: int | None = None

    @classmethod
    def of(cls, start: str | date | None, end: str | date | None, zone: str) -> Part:
        """Read both sides; a time without an offset is one of the zone."""
        moments = (read_time("start", start), read_time("end", end))
        first, stop = (
            None if one is None else round(in_zone(one, zone).timestamp() * 1e6) * 1000
            for one in moments
        )
        if first is not None and stop is not None and first >= stop:
            raise InputError(
                f"the part from {start} to {end} is empty: state a `start=` before its `end=`."
            )
        return cls(first, stop)

    def __bool__(self) -> bool:
        return (self.start, self.end) != (None, None)

    def __str__(self) -> str:
        sides = zip(("from", "to"), self.written, strict=True)
        return " ".join(f"{word} {side}" for word, side in sides if side)

    @property
    def written(self) -> tuple[str | None, str | None]:
        """Both sides as text."""
        start, end = (
            None if side is None else iso(np.datetime64(side, "ns"))
            for side in (self.start, self.end)
        )
        return start, end

    def holds(self, starts: IntArray, ends: IntArray) -> BoolArray:
        """True for what lies wholly in the part [ns since 1970]."""
        inside = np.ones(starts.shape, np.bool_)
        if self.start is not None:
            inside &= starts >= self.start
        if self.end is not None:
            inside &= ends <= self.end
        return inside

    def refuse_wider(
        self, error: Callable[[str], DataError], start: int, end: int, length: int
    ) -> None:
        """Refuse a part of which readings from `start` to `end` lack one of a length [ns]."""
        early = self.start is not None and not start - length < self.start < end
        if early or (self.end is not None and not start < self.end < end + length):
            known = Part(start, end)
            raise error(
                f"has readings {known} and not all of the part {self}: choose a part that they "
                "cover (`start=`, `end=`)."
            )
