"""The hash chain of a ledger: what an entry's hash covers.

Every entry, be it a release, a spend, a cap, carries SHA-256 of the hash before it and of its own
content; a spend's content has the hash of its rows. Whoever changes, removes, inserts or reorders
anything must forge every hash after it, and cannot once a later hash, the high-water mark, is kept
elsewhere. The same mark is needed to see that the end of the chain is missing.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hushmeter.errors import InputError

START = "0" * 64
SCHEMA = "hushmeter-ledger-1"


@dataclass(frozen=True)
class Entry:
    """One link of the chain.

    Attributes
    ----------
    seq : int
        1, 2, 3, …
    kind : {"opened", "release", "spend", "released", "cap"}
    at : str
        UTC.
    release, source : str
        Empty where the kind has none.
    batch : int or None
        Number that a spend's rows carry.
    body : str
        Canonical JSON.
    hash : str
        SHA-256 of the hash before and of all the above.
    """

    seq: int
    kind: str
    at: str
    release: str
    source: str
    batch: int | None
    body: str
    hash: str

    @property
    def facts(self) -> dict[str, Any]:
        """The body, read."""
        facts: dict[str, Any] = json.loads(self.body)
        return facts


@dataclass(frozen=True)
class Head:
    """The high-water mark: so many entries, and the hash of the last."""

    count: int
    hash: str

    def __str__(self) -> str:
        return f"{self.count}:{self.hash}"

    @classmethod
    def parse(cls, text: str) -> Head:
        """Read COUNT:HASH, or the hash alone (count 0: anywhere in the chain)."""
        match = re.fullmatch(r"(?:(\d+):)?([0-9a-f]{64})", text.strip().lower())
        if match is None:
            raise InputError(
                f"a head must be COUNT:HASH as `hushmeter ledger show` prints it, got {text!r}."
            )
        return cls(int(match[1] or 0), match[2])


class Row(NamedTuple):
    """One spend as it stands in the table."""

    batch: int
    meter: str
    period: str
    stream: str
    micro: int


def canonical(value: Any) -> str:
    """JSON with one spelling for one value."""
    return json.dumps(
        value, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )


def rows_hash(pairs: Sequence[tuple[str, str]]) -> str:
    """SHA-256 over rows (meter, period), given in order."""
    return hashlib.sha256(canonical(pairs).encode()).hexdigest()


def batch_number(release: str, source: str) -> int:
    """The number that the rows of one source of one release carry, 63 bits."""
    digest = hashlib.sha256(canonical([release, source]).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def link(
    previous: Head, kind: str, at: str, release: str, source: str, batch: int | None, body: str
) -> Entry:
    """The entry that follows `previous`."""
    seq = previous.count + 1
    content = canonical([previous.hash, seq, kind, at, release, source, batch, body])
    digest = hashlib.sha256(content.encode()).hexdigest()
    return Entry(seq, kind, at, release, source, batch, body, digest)
