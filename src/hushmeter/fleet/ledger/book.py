"""The ledger itself: one object over one database, spent from, asked, capped and verified."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from hushmeter.checks import whole
from hushmeter.errors import InputError
from hushmeter.fleet.ledger import writes
from hushmeter.fleet.ledger.batch import Charge, SpendOutcome, check_batch, check_name
from hushmeter.fleet.ledger.budget import (
    WIDEST,
    Cap,
    merge_caps,
    micro_cap,
    worst_window,
)
from hushmeter.fleet.ledger.chain import Head
from hushmeter.fleet.ledger.sqlite import SqliteStore
from hushmeter.fleet.ledger.store import EVERYBODY, Store, absent
from hushmeter.fleet.ledger.verify import find_problems
from hushmeter.fleet.ledger.views import Balance, Spend, by_period, describe_spend

LIFT = "none"
"""Given to `Ledger.set_cap` in place of an ε, it lifts that cap."""


def open_ledger(url: str, *, create: bool = False) -> Ledger:
    """Open the ledger at a URL.

    Parameters
    ----------
    url : str
        sqlite:///file.db or postgresql://user@host/database.
    create : bool
        Make an empty ledger where there is none; an existing one is opened as it is.
    """
    store = _store(url, create)
    try:
        if not store.present():
            if not create:
                raise absent(store.name)
            store.write(lambda: writes.begin(store))
        return Ledger(store)
    except BaseException:
        store.close()
        raise


class Ledger:
    """A ledger; open it with `open_ledger`, close it or use it as a context manager.

    Not to be shared between processes or threads: each opens its own.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the connection back."""
        self._store.close()

    @property
    def name(self) -> str:
        """Where the ledger lies, without password."""
        return self._store.name

    def spend(
        self,
        charge: Charge,
        *,
        micro: int,
        meters: Sequence[str],
        periods: Sequence[str],
        digest: str,
        source: str,
        all_or_nothing: bool = False,
    ) -> SpendOutcome:
        """Pay for a batch, durably, before any of it is released.

        Parameters
        ----------
        charge : Charge
        micro : int
            Price of each row [micro-ε], `micro_epsilon(ε)`.
        meters, periods : sequence of str
            Row i is (meters[i], periods[i]); no pair twice.
        digest : str
            Keyed digest of the input. The same release, source and digest resume.
        source : str
            Name of the input within the release: one batch for each.
        all_or_nothing : bool
            Raise `BudgetError` and charge nothing unless every row is granted.

        Returns
        -------
        SpendOutcome
            Rows over a cap, or released before, are refused; the rest is granted and charged.
        """
        batch = check_batch(charge, micro, meters, periods, digest, source)
        if not batch.pairs:
            return SpendOutcome(np.zeros(0, np.int64))
        return self._store.write(lambda: writes.spend(self._store, batch, all_or_nothing))

    def mark_released(self, charge: Charge, source: str, output_digest: str) -> None:
        """Record that a source's output is published, with the digest of its bytes."""
        self._store.write(lambda: writes.mark_released(self._store, charge, source, output_digest))

    def state_of(self, release: str, source: str) -> str | None:
        """None, "spent" (paid for, maybe not written) or "released"."""
        with self._store.reading():
            if self._store.entry("released", release, source):
                return "released"
            return "spent" if self._store.entry("spend", release, source) else None

    def terms_of(self, release: str) -> dict[str, Any] | None:
        """The terms of a release, None if it never spent."""
        with self._store.reading():
            entry = self._store.entry("release", release, "")
            return None if entry is None else entry.facts["terms"]

    def set_cap(
        self,
        *,
        total: Any = None,
        window: tuple[int, Any] | str | None = None,
        meter: str | None = None,
    ) -> Cap:
        """Cap what meters may spend from now on; what is not given stays as it is.

        Parameters
        ----------
        total : float, optional
            ε over all periods; "none" lifts it.
        window : (w, ε), optional
            ε over any w periods in a row; "none" lifts it.
        meter : str, optional
            Of this meter only, in place of the cap for all.
        """
        name = EVERYBODY if meter is None else check_name("meter", meter)
        if total is None and window is None:
            raise InputError("give a cap: a total, a window, or both.")
        most = None if total in (None, LIFT) else micro_cap("total", total)
        frame = None if window in (None, LIFT) else _window(window)
        keep = (total is None, window is None)
        return self._store.write(lambda: writes.change_cap(self._store, name, most, frame, keep))

    def total(self, meter: str) -> int:
        """micro-ε that a meter has spent."""
        return self.balance(meter).spent

    def window(self, meter: str, width: int) -> int:
        """Most micro-ε of a meter in any `width` periods in a row."""
        whole("width", width)
        with self._store.reading():
            return worst_window(by_period(self._store.history(meter)), width)[0]

    def balance(self, meter: str) -> Balance:
        """Where a meter stands; zero for one never seen."""
        with self._store.reading():
            found = self._store.balances(meter, None)
            spent = found[0][1] if found else 0
            return self._balance(meter, spent)

    def balances(self, limit: int | None = None) -> list[Balance]:
        """Where meters stand, those who spent most first."""
        with self._store.reading():
            found = self._store.balances(None, limit)
            return [self._balance(meter, spent) for meter, spent, _ in found]

    def caps(self) -> tuple[Cap, dict[str, Cap]]:
        """The cap of all meters, and those of single ones."""
        with self._store.reading():
            found = self._store.all_caps()
        return found.pop(EVERYBODY, Cap()), found

    def counts(self) -> tuple[int, int]:
        """How many meters have spent, and how many spends there are."""
        with self._store.reading():
            return self._store.counts()

    def head(self) -> Head:
        """The high-water mark: keep it elsewhere, and give it to `verify` later."""
        with self._store.reading():
            return self._store.head()

    def history(self, meter: str) -> list[Spend]:
        """Every spend of a meter in order of period."""
        with self._store.reading():
            rows = self._store.history(meter)
            owners = self._store.owners({row.batch for row in rows})
        return [describe_spend(row, owners.get(row.batch)) for row in rows]

    def rows(self) -> Iterator[Spend]:
        """Every spend, batch by batch."""
        with self._store.reading():
            # Bodies list what was refused, which may be much.
            spends = self._store.entries("spend")
            entries = {entry.batch: replace(entry, body="") for entry in spends}
            for row in self._store.rows():
                yield describe_spend(row, entries.get(row.batch))

    def verify(self, head: Head | str | None = None) -> list[str]:
        """Replay the whole ledger: one sentence for everything that does not fit, none if sound.

        Parameters
        ----------
        head : Head or str, optional
            A high-water mark kept from earlier, without which a cut end cannot be seen.
        """
        mark = Head.parse(head) if isinstance(head, str) else head
        with self._store.reading():
            return list(find_problems(self._store, mark))

    def _balance(self, meter: str, spent: int) -> Balance:
        found = self._store.caps([meter])
        cap = merge_caps(found.get(meter), found.get(EVERYBODY, Cap()))
        if cap.window is None:
            return Balance(meter, spent, cap)
        spends = by_period(self._store.history(meter))
        return Balance(meter, spent, cap, worst_window(spends, cap.window[0])[0])


def _store(url: str, create: bool) -> Store:
    scheme, _, rest = str(url).partition("://")
    if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        return SqliteStore(Path(rest[1:]), create=create)
    if scheme in ("postgresql", "postgres"):
        from hushmeter.fleet.ledger.postgres import PostgresStore

        return PostgresStore(url)
    raise InputError(f"a ledger is sqlite:///file.db or postgresql://…, got {_shown(url)!r}.")


def _window(window: Any) -> tuple[int, int]:
    try:
        width, epsilon = window
    except (TypeError, ValueError):
        raise InputError(f"window must be (periods, ε), got {window!r}.") from None
    if whole("window", width) > WIDEST:
        raise InputError(f"window must be at most {WIDEST} periods, got {width}.")
    return int(width), micro_cap("window", epsilon)


def _shown(url: str) -> str:
    """A URL without what may be a password."""
    scheme, mark, rest = str(url).partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"
