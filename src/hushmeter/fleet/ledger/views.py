"""What a ledger shows: single spends, and where a meter stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from hushmeter.errors import DataError
from hushmeter.fleet.ledger.budget import Cap, ordinal
from hushmeter.fleet.ledger.chain import Entry, Row


class Spend(TypedDict):
    """One spend with what the chain knows of it."""

    meter: str
    period: str
    stream: str
    micro_epsilon: int
    release: str
    source: str
    entry: int
    at: str


@dataclass(frozen=True)
class Balance:
    """Where a meter stands [micro-ε].

    Attributes
    ----------
    meter : str
    spent : int
        Over all periods.
    cap : Cap
        In force for this meter.
    window : int or None
        Most in any w periods in a row, where windows are capped.
    """

    meter: str
    spent: int
    cap: Cap
    window: int | None = None

    @property
    def remaining(self) -> int | None:
        """Left under the cap on the total."""
        return None if self.cap.total is None else max(0, self.cap.total - self.spent)

    @property
    def window_remaining(self) -> int | None:
        """Left in the fullest window."""
        if self.cap.window is None or self.window is None:
            return None
        return max(0, self.cap.window[1] - self.window)


def describe_spend(row: Row, entry: Entry | None) -> Spend:
    """A row together with its entry."""
    if entry is None:
        raise DataError(
            f"the spend of meter {row.meter} in {row.period} belongs to no entry; "
            "see what else is wrong with `hushmeter ledger verify`."
        )
    return {
        "meter": row.meter,
        "period": row.period,
        "stream": row.stream,
        "micro_epsilon": row.micro,
        "release": entry.release,
        "source": entry.source,
        "entry": entry.seq,
        "at": entry.at,
    }


def by_period(rows: Sequence[Row]) -> dict[int, int]:
    """micro-ε of some rows by the ordinal of their period."""
    spends: dict[int, int] = {}
    for row in rows:
        number = ordinal(row.period)
        spends[number] = spends.get(number, 0) + row.micro
    return spends
