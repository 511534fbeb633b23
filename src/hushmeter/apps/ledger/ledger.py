"""The class `Ledger`: one object over one database that spends, answers, caps and verifies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypedDict

from hushmeter.apps.ledger import spending
from hushmeter.apps.ledger.chain import SCHEMA, Entry, Head, Row, find_problems, ordinal
from hushmeter.apps.ledger.charges import (
    FEMTO,
    LARGEST,
    NOTHING,
    Cap,
    DayChange,
    Price,
    cap_amount,
    merge_caps,
)
from hushmeter.apps.ledger.databases import PostgresStore, SqliteStore
from hushmeter.apps.ledger.spending import (
    Charge,
    SpendOutcome,
    SpendRequest,
    check_name,
    worst_window,
)
from hushmeter.apps.ledger.store import ALL_METERS, TRIGGERS, Store, no_ledger
from hushmeter.checks import whole
from hushmeter.errors import DataError, InputError
from hushmeter.files import atomic, table_format

WIDEST = 36_600
"""Most periods of a window: a century of days."""

LIFT = "none"
"""Given to `Ledger.set_cap` in place of an ε, this word removes the cap."""

_EXPORT_ROWS = 100_000
"""Rows that are written to an exported file at a time."""


class _RehearsalOver(Exception):  # noqa: N818
    """Ends a transaction whose changes must not stay."""


class Spend(TypedDict):
    """One spend with the facts of its entry in the chain."""

    meter: str
    period: str
    stream: str
    micro_epsilon: int
    femto_delta: int
    release: str
    source: str
    entry: int
    at: str


@dataclass(frozen=True)
class Balance:
    """What the readings of a customer have cost, and what they may still cost."""

    meter: str  # Name of the meter
    spent: int  # ε for all readings in all periods [micro-ε]
    delta_spent: int  # δ for all readings in all periods [femto-δ]
    cap: Cap  # Cap in force for this meter
    # Largest ε in any w periods in a row [micro-ε], where windows are capped
    window: int | None = None

    @property
    def remaining(self) -> int | None:
        """Amount left under the cap on the total [micro-ε]; None without a cap."""
        return None if self.cap.total is None else max(0, self.cap.total - self.spent)

    @property
    def window_remaining(self) -> int | None:
        """Amount left in the fullest window [micro-ε]; None without a cap on windows."""
        if self.cap.window is None or self.window is None:
            return None
        return max(0, self.cap.window[1] - self.window)


def open_ledger(
    url: str,
    *,
    create: DayChange | None = None,
    composition_delta: float = 0.0,
    patience_s: float = 0.0,
) -> Ledger:
    """Open the ledger at a URL.

    Parameters
    ----------
    url : str
        sqlite:///file.db or postgresql://user@host/database.
    create : DayChange, optional
        Make an empty ledger that protects this change if there is none; an existing one that
        protects it is opened unchanged.
    composition_delta : float
        δ' of a new ledger: releases with Laplace or staircase noise are charged the composed ε at
        this δ instead of the sum over all readings. With 0 they are charged the sum.
    patience_s : float
        Time for which the connection to a server is tried again [s].

    Returns
    -------
    Ledger

    Raises
    ------
    InputError
        If the URL has another form.
    DataError
        If there is no ledger, it cannot be reached, another version made it, or it protects
        another change than the one to `create` it for.

    Examples
    --------
    >>> from hushmeter.apps.ledger import DayChange
    >>> hm.open_ledger("sqlite:///budget.db", create=DayChange(3000.0, 8000.0)).close()
    """
    if not 0 <= composition_delta < 1:
        raise InputError(f"delta must lie between 0 and 1, got {composition_delta}.")
    store = _store(url, create is not None, patience_s)
    try:
        if not store.holds_ledger():
            if create is None:
                raise no_ledger(store.name)
            change, delta = create, float(composition_delta)
            store.write(lambda: spending.create_ledger(store, change, delta))
        ledger = Ledger(store)
        if create is not None and ledger.protects != create:
            raise DataError(
                f"the ledger {store.name} protects {ledger.protects.sentence()}, not "
                f"{create.sentence()}; a ledger declares this once, so make another one."
            )
        return ledger
    except BaseException:
        store.close()
        raise


class Ledger:
    """A ledger; open it with `open_ledger`, and close it or use it as a context manager.

    Do not share one object between processes or threads; each must open its own.

    Parameters
    ----------
    store : Store
        The database that holds the ledger.

    Attributes
    ----------
    composition_delta : float
        δ' at which releases with Laplace or staircase noise are composed; 0 if they are added up.

    Examples
    --------
    >>> from hushmeter.apps.ledger import DayChange
    >>> with hm.open_ledger("sqlite:///budget.db", create=DayChange(3000.0, 8000.0)) as ledger:
    ...     ledger.history("meter 1")
    []
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._protects, self.composition_delta = _read_opening(store)

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._store.close()

    @property
    def name(self) -> str:
        """Place of the ledger, without a password."""
        return self._store.name

    @property
    def protects(self) -> DayChange:
        """The change of which every charge is the cost; the first entry declares it."""
        if self._protects is None:
            raise DataError(
                f"the first entry of the ledger {self.name} cannot be read; run `hushmeter ledger "
                "verify` to see what else is wrong, and restore a sound copy."
            )
        return self._protects

    def spend(
        self,
        charge: Charge,
        *,
        micro: int,
        femto: int = 0,
        meters: Sequence[str],
        periods: Sequence[str],
        digest: str,
        source: str,
        all_or_nothing: bool = False,
    ) -> SpendOutcome:
        """Pay for the rows of one source, durably, before any of them is released.

        Parameters
        ----------
        charge : Charge
            The release that spends.
        micro : int
            ε of the declared change within one row's period [micro-ε]; see `period_price`.
        femto : int
            δ of that change [femto-δ].
        meters, periods : sequence of str
            Row i is (meters[i], periods[i]); no pair may occur twice.
        digest : str
            Keyed digest of the input. The same release, source and digest resume.
        source : str
            Name of the input within the release; each source is paid for once.
        all_or_nothing : bool
            Raise `BudgetError` and charge nothing unless every row is granted.

        Returns
        -------
        SpendOutcome
            Rows that exceed a cap or were released before are refused; the others are charged.

        Raises
        ------
        InputError
            If a part of the request cannot be stored, or the terms of the release changed.
        BudgetError
            If the source was paid for with other content, or `all_or_nothing` is not met.
        """
        request = SpendRequest(charge, Price(micro, femto), meters, periods, digest, source)
        return self._store.write(lambda: spending.spend(self._store, request, all_or_nothing))

    def rehearse(
        self,
        charge: Charge,
        *,
        micro: int,
        femto: int = 0,
        sources: Mapping[str, tuple[Sequence[str], Sequence[str]]],
    ) -> dict[str, SpendOutcome]:
        """Return what `spend` would answer for several sources in a row, and charge nothing.

        `sources` has the meters and periods of every source; the release `charge` would pay `micro`
        and `femto` for each row [micro-ε, femto-δ].
        """
        requests = {
            source: SpendRequest(charge, Price(micro, femto), *rows, "dry run", source)
            for source, rows in sources.items()
        }
        outcomes: dict[str, SpendOutcome] = {}

        def work() -> None:
            for source, request in requests.items():
                outcomes[source] = spending.spend(self._store, request, False)
            raise _RehearsalOver

        # Later sources see the charges of earlier ones; at the end all of them are undone.
        with suppress(_RehearsalOver):
            self._store.write(work)
        return outcomes

    def mark_released(self, charge: Charge, source: str, output_digest: str) -> None:
        """Record that the output of a source is published; `output_digest` is the SHA-256 of it.

        Raise `InputError` if the release `charge` has not paid for the `source`, and `DataError` if
        it was published before with other content.
        """
        self._store.write(
            lambda: spending.mark_released(self._store, charge, source, output_digest)
        )

    def state_of(self, release: str, source: str) -> str | None:
        """Return the state of one file, `source`, of a release.

        None, "spent" (charged, perhaps not yet written) or "released".
        """
        with self._store.reading():
            if self._store.entry("released", release, source):
                return "released"
            return "spent" if self._store.entry("spend", release, source) else None

    def set_cap(
        self,
        *,
        total: Any = None,
        window: tuple[int, Any] | str | None = None,
        delta: Any = None,
        meter: str | None = None,
    ) -> Cap:
        """Cap what the readings of a customer may cost; a cap that is not given stays as it is.

        Parameters
        ----------
        total : float or str, optional
            ε for all readings in all periods; "none" removes this cap.
        window : (w, ε) or str, optional
            ε for all readings in any w periods in a row; "none" removes this cap. A window of one
            day caps a customer's day.
        delta : float or str, optional
            δ for all readings in all periods; "none" removes this cap.
        meter : str, optional
            The cap is for this meter only and replaces the cap for all meters.

        Returns
        -------
        Cap
            The new cap.
        """
        name = ALL_METERS if meter is None else check_name("meter", meter)
        change: dict[str, Any] = {}
        if total is not None:
            change["total"] = None if total == LIFT else cap_amount("total", total)
        if window is not None:
            change["window"] = None if window == LIFT else _window(window)
        if delta is not None:
            change["delta"] = None if delta == LIFT else cap_amount("delta", delta, FEMTO)
        if not change:
            raise InputError("give a cap: a total, a window, a delta, or several of them.")
        return self._store.write(lambda: spending.change_cap(self._store, name, change))

    def window(self, meter: str, width: int) -> int:
        """Return the largest ε of a meter in any `width` periods in a row [micro-ε]."""
        whole("width", width)
        with self._store.reading():
            return worst_window(_by_period(self._store.history(meter)), width)[0]

    def balance(self, meter: str) -> Balance:
        """Return the balance of a meter, which is zero for an unknown meter."""
        with self._store.reading():
            found = self._store.balances(meter, None)
            return self._balance(meter, found[0][1] if found else NOTHING)

    def balances(self, limit: int | None = None) -> list[Balance]:
        """Return the balances of at most `limit` meters, those that spent most first."""
        with self._store.reading():
            found = self._store.balances(None, limit)
            return [self._balance(meter, spent) for meter, spent in found]

    def caps(self) -> tuple[Cap, dict[str, Cap]]:
        """Return the cap of all meters, and the caps of single meters by name."""
        with self._store.reading():
            found = self._store.all_caps()
        return found.pop(ALL_METERS, Cap()), found

    def counts(self) -> tuple[int, int]:
        """Return how many meters have spent and how many spends there are."""
        with self._store.reading():
            return self._store.counts()

    def head(self) -> Head:
        """Return the end of the chain; keep it elsewhere, and give it to `verify` later."""
        with self._store.reading():
            return self._store.head()

    def check_head(self, head: Head | str) -> None:
        """Check that an earlier end, `head`, is still part of the chain.

        This takes one look-up. Unlike `verify` it does not replay the chain. Raise `DataError` if
        the ledger was cut, replaced or restored from an older copy.
        """
        mark = Head.parse(head) if isinstance(head, str) else head
        with self._store.reading():
            if not self._store.contains(mark):
                raise DataError(
                    f"the ledger {self.name} does not contain its earlier entry {mark}: it was "
                    "replaced or restored from an older copy, which has forgotten charges; "
                    "restore the newest copy before you release."
                )

    def place(self, release: str) -> int | None:
        """Return the place that a release has reached (see `advance`), or None."""
        with self._store.reading():
            return self._store.place(release)

    def advance(self, release: str, place: int) -> None:
        """Record durably that a release has reached a place, before that place is published.

        A stream whose own records were restored from an older copy would publish windows again,
        with other noise. Its place in the ledger is then later than that of its own records.
        `place` is a number that grows with every publication, such as that of a window; raise
        `DataError` if it was reached before.
        """
        check_name("release", release)
        number = whole("place", place, least=-LARGEST)
        if not self._store.write(lambda: self._store.advance(release, number)):
            raise DataError(
                f"the ledger {self.name} says that release {release} has already reached place "
                f"{self.place(release)}, so that {number} would be published twice: another "
                "process continues this release, or its records come from an older copy."
            )

    def history(self, meter: str) -> list[Spend]:
        """Return every spend of a meter in order of period."""
        with self._store.reading():
            rows = self._store.history(meter)
            owners = self._store.entries_of_batches({row.batch for row in rows})
        return [_describe_spend(row, owners.get(row.batch)) for row in rows]

    def rows(self) -> Iterator[Spend]:
        """Yield every spend, one batch after the other."""
        with self._store.reading():
            # The bodies are dropped because they list refused rows, which may be many.
            spends = self._store.entries("spend")
            entries = {entry.batch: replace(entry, body="") for entry in spends}
            for row in self._store.rows():
                for one in row.single_periods():
                    yield _describe_spend(one, entries.get(row.batch))

    def verify(self, head: Head | str | None = None) -> list[str]:
        """Replay the whole ledger, and return one sentence for everything that does not fit.

        Without a `head` that was kept from earlier, a missing end of the chain is not detected.
        """
        mark = Head.parse(head) if isinstance(head, str) else head
        with self._store.reading():
            return list(find_problems(self._store, TRIGGERS, mark))

    def _balance(self, meter: str, spent: Price) -> Balance:
        """Complete the balance of a meter inside a `reading` transaction."""
        found = self._store.caps([meter])
        cap = merge_caps(found.get(meter), found.get(ALL_METERS, Cap()))
        if cap.window is None:
            return Balance(meter, spent.micro, spent.femto, cap)
        spends = _by_period(self._store.history(meter))
        fullest = worst_window(spends, cap.window[0])[0]
        return Balance(meter, spent.micro, spent.femto, cap, fullest)


def export_spends(ledger: Ledger, path: Path, *, force: bool = False) -> int:
    """Write every spend of a ledger to a file."""
    import pyarrow as pa

    kind = table_format(path)
    whole_numbers = ("micro_epsilon", "femto_delta", "entry")
    schema = pa.schema(
        [
            (name, pa.int64() if name in whole_numbers else pa.string())
            for name in Spend.__annotations__
        ]
    )
    rows, count = ledger.rows(), 0
    with atomic(path, force=force) as temporary, _writer(kind, temporary, schema) as writer:
        while piece := list(islice(rows, _EXPORT_ROWS)):
            writer.write_batch(pa.RecordBatch.from_pylist(piece, schema=schema))
            count += len(piece)
    return count


def _writer(kind: str, path: Path, schema: Any) -> Any:
    """Return a writer of record batches for one format."""
    from pyarrow import csv, parquet

    if kind == "csv":
        return csv.CSVWriter(str(path), schema)
    return parquet.ParquetWriter(str(path), schema, compression="zstd")


def _describe_spend(row: Row, entry: Entry | None) -> Spend:
    """Join a row with its entry."""
    if entry is None:
        raise DataError(
            f"the spend of meter {row.meter} in {row.period} belongs to no entry; "
            "run `hushmeter ledger verify` to see what else is wrong."
        )
    return {
        "meter": row.meter,
        "period": row.period,
        "stream": row.stream,
        "micro_epsilon": row.micro,
        "femto_delta": row.femto,
        "release": entry.release,
        "source": entry.source,
        "entry": entry.seq,
        "at": entry.at,
    }


def _by_period(rows: Sequence[Row]) -> dict[int, int]:
    """Sum up rows by the ordinal of their period [micro-ε]."""
    spends: dict[int, int] = {}
    for row in rows:
        number = ordinal(row.period)
        spends[number] = spends.get(number, 0) + row.micro
    return spends


def _read_opening(store: Store) -> tuple[DayChange | None, float]:
    """Return the declared change and the δ' of a ledger; refuse another version.

    The change is None if the first entry was damaged, which `verify` reports.
    """
    with store.reading():
        first = store.first_entry()
    try:
        facts = {} if first is None else first.facts
        if facts.get("schema", SCHEMA) == SCHEMA:
            change = DayChange.from_dict(facts["protects"])
            return change, float(facts.get("composition_delta", 0.0))
    except (TypeError, ValueError, LookupError, AttributeError, InputError):
        return None, 0.0
    raise DataError(
        f"the ledger {store.name} was made by another version ({facts['schema']}); make a new one "
        "with `hushmeter ledger init` and set its caps to what is left."
    )


def _store(url: str, create: bool, patience_s: float) -> Store:
    """Return the database that a URL names."""
    scheme, _, rest = str(url).partition("://")
    if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        return SqliteStore(Path(rest[1:]), create=create)
    if scheme in ("postgresql", "postgres"):
        return PostgresStore(url, patience_s)
    raise InputError(
        f"a ledger is sqlite:///file.db or postgresql://…, got {_without_password(url)!r}."
    )


def _window(window: Any) -> tuple[int, int]:
    """Check a window cap (w, ε) and return (w, micro-ε)."""
    try:
        width, epsilon = window
    except (TypeError, ValueError):
        raise InputError(f"window must be (periods, ε), got {window!r}.") from None
    if whole("window", width) > WIDEST:
        raise InputError(f"window must be at most {WIDEST} periods, got {width}.")
    return int(width), cap_amount("window", epsilon)


def _without_password(url: str) -> str:
    """Return a URL without the part that may hold a password."""
    scheme, mark, rest = str(url).partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"
