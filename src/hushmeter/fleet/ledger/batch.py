"""A batch of spends: one source of one release, checked, sorted, recorded and resumed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import eq
from typing import Any

import numpy as np

from hushmeter.checks import IntArray, whole
from hushmeter.errors import BudgetError, InputError
from hushmeter.fleet.ledger.budget import LARGEST, Refusal, period_kind
from hushmeter.fleet.ledger.chain import Entry, canonical, rows_hash

LONGEST = 400
"""Letters of a name."""


@dataclass(frozen=True)
class Charge:
    """What a release spends for.

    Attributes
    ----------
    release : str
        Identity of the release; a resumed job must give the same.
    stream : str
        Which series of the meter: a (meter, period) is spent once in each stream.
    terms : mapping
        Mechanism, ε, sensitivity, grid, clamp, unit of protection, adjacency, version …, recorded
        once per release as canonical JSON.
    """

    release: str
    stream: str
    terms: Mapping[str, object]


@dataclass(frozen=True)
class SpendOutcome:
    """What became of a batch.

    Attributes
    ----------
    granted : ndarray
        Rows that are paid for and may be released, ascending.
    refused : tuple of Refusal
        The others, each with its reason.
    resumed : bool
        The batch was paid for before; nothing was charged this time.
    """

    granted: IntArray
    refused: tuple[Refusal, ...] = ()
    resumed: bool = False


@dataclass(frozen=True)
class Batch:
    """A request whose form is right; `check_batch` makes it.

    Attributes
    ----------
    charge, micro, meters, periods, digest, source
        As given to `Ledger.spend`.
    pairs : list
        Its rows (meter, period) in order.
    names : list of str
        Its meters in order, each once.
    kind : {"day", "month"}
    """

    charge: Charge
    micro: int
    meters: Sequence[str]
    periods: Sequence[str]
    digest: str
    source: str
    pairs: list[tuple[str, str]]
    names: list[str]
    kind: str

    def chosen(self, rows: Sequence[int]) -> list[tuple[str, str]]:
        """The (meter, period) of some rows, in order."""
        if len(rows) == len(self.pairs):
            return self.pairs
        return sorted((self.meters[row], self.periods[row]) for row in rows)

    def body(self, pairs: Sequence[tuple[str, str]], refused: Sequence[Refusal]) -> str:
        """What the chain records: the rows charged by their hash, the others with the reason."""
        return canonical(
            {
                "digest": self.digest,
                "stream": self.charge.stream,
                "micro": self.micro,
                "granted": {"rows": len(pairs), "sha256": rows_hash(pairs)},
                "refused": [[r.meter, r.period, r.reason] for r in refused],
            }
        )

    def resume(self, entry: Entry) -> SpendOutcome:
        """The outcome of the first time; anything but the same request is refused."""
        facts = entry.facts
        reasons = {(meter, period): reason for meter, period, reason in facts["refused"]}
        granted: list[int] = []
        refused: list[Refusal] = []
        for row, key in enumerate(zip(self.meters, self.periods, strict=True)):
            if key in reasons:
                refused.append(Refusal(row, *key, reasons[key]))
            else:
                granted.append(row)
        before = (facts["digest"], facts["stream"], facts["micro"], facts["granted"]["sha256"])
        hashed = rows_hash(self.chosen(granted))
        if before != (self.digest, self.charge.stream, self.micro, hashed):
            raise BudgetError(
                f"{self.source} of release {self.charge.release} was paid for with other content; "
                "corrected data need a release of their own, which spends again."
            )
        return SpendOutcome(np.array(granted, np.int64), tuple(refused), resumed=True)

    def refusal(self, refused: Sequence[Refusal]) -> str:
        """Why the whole batch is refused, in one sentence."""
        first = refused[0]
        more = f", and {len(refused) - 1} more" if len(refused) > 1 else ""
        return (
            f"{self.source} is refused as a whole: meter {first.meter} in {first.period} is "
            f"{first.reason}{more}; nothing was charged."
        )


def check_batch(
    charge: Charge,
    micro: int,
    meters: Sequence[str],
    periods: Sequence[str],
    digest: str,
    source: str,
) -> Batch:
    """The batch, refused with `InputError` unless every part of it can stand in a ledger."""
    texts = {
        "release": charge.release,
        "stream": charge.stream,
        "digest": digest,
        "source": source,
    }
    for name, text in texts.items():
        check_name(name, text)
    if whole("micro", micro) > LARGEST:
        raise InputError(f"micro must be at most {LARGEST}, got {micro}.")
    if len(meters) != len(periods):
        raise InputError(f"{len(meters)} meters do not match {len(periods)} periods.")
    names = sorted(check_name("meter", meter) for meter in set(meters))
    kinds = {period_kind(period) for period in set(periods)}
    if len(kinds) > 1:
        raise InputError(f"periods of {source} must be all days or all months.")
    pairs = sorted(zip(meters, periods, strict=True))
    if any(map(eq, pairs, islice(pairs, 1, None))):
        raise InputError(f"{source} asks for the same (meter, period) twice.")
    return Batch(
        charge, int(micro), meters, periods, digest, source, pairs, names, next(iter(kinds), "day")
    )


def check_name(kind: str, value: Any) -> str:
    """The name, refused unless `is_name`."""
    if not is_name(value):
        raise InputError(
            f"{kind} must be text that can be printed, of at most {LONGEST} letters, got {value!r}."
        )
    return str(value)


def is_name(value: Any) -> bool:
    """Text that both databases, their indexes and a CSV keep alike: printable, neither empty nor
    long.
    """
    return isinstance(value, str) and 0 < len(value) <= LONGEST and value.isprintable()
