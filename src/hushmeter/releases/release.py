"""A release: noisy tables under a promise, one consistent estimate of the cells, and its views.

The noisy tables are all that was published. The estimate joins them by least squares
(`hushmeter.releases.estimate`), and every view (hours, days, typical day, bands, …) is a sum of
estimated cells with a standard error for every value. All of it is computed from published numbers
and costs no privacy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.checks import FloatArray
from hushmeter.errors import InputError, UnknownNameError
from hushmeter.formatting import html_facts, short_duration
from hushmeter.noise.mechanism import Mechanism, Rng
from hushmeter.privacy.units import Unit, metered
from hushmeter.releases.labels import CELLS, REGISTER, LabelledTable, make_tables, split_words
from hushmeter.releases.private_receipt import PrivateReceipt
from hushmeter.releases.promise import Promise, promise_of
from hushmeter.releases.receipt import (
    Receipt,
)
from hushmeter.trace import JOULES_PER_KWH, Trace

if TYPE_CHECKING:
    from hushmeter.home import Home
    from hushmeter.releases.estimate import TableEstimate

HOURS = "hours"
"""The view of the cells."""


@dataclass(frozen=True, eq=False)
class View:
    """One view of a release: values with a standard error each.

    Attributes
    ----------
    name : str
        "hours" for the cells, "days", "months", "typical-day", "typical-week", "year", "register",
        or "bands".
    labels : dict of arrays
        What each value is about: times, days, months, bands.
    values, errors : arrays
        Estimates and their standard errors.
    unit : {"W", "kWh"}
        Unit of both.
    """

    name: str
    labels: dict[str, Any]
    values: FloatArray
    errors: FloatArray
    unit: str

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with the labels, the values and their standard errors."""
        import pandas as pd

        column = {"W": "watts", "kWh": "kwh"}[self.unit]
        return pd.DataFrame(
            {**self.labels, column: self.values, f"{column}_standard_error": self.errors}
        )


@dataclass(frozen=True, eq=False)
class Release:
    """Released tables together with their promise.

    Attributes
    ----------
    promise : Promise
        What is protected, and by which noise.
    sums : tuple of arrays
        The noisy sums of every table of the promise [W].
    kind : {"release", "simulation"}
        A simulation used a seed. Its noise can be repeated, so it must not be published.
    private : PrivateReceipt or None
        The part of the receipt for the household alone; None if the release was read from files.
    restored : (means, deviations) or None
        Restored cells [W], which replace the noisy ones in the estimate; see `hm.restore`.
    despite : bool
        True if earlier releases of the same time were not considered; the receipt says so.

    Examples
    --------
    >>> trace = hm.Trace([120.0, 2120.0], interval_s=60.0, start="2024-01-01T00:00Z")
    >>> done = hm.Request(hide="kettle").resolve(hm.metered(trace)).release(trace, rng=1)
    >>> done.view_names
    ('hours', 'days', 'months', 'register')
    """

    promise: Promise
    sums: tuple[FloatArray, ...]
    kind: str = "release"
    private: PrivateReceipt | None = None
    restored: tuple[FloatArray, FloatArray] | None = None
    despite: bool = False

    @cached_property
    def estimate(self) -> FloatArray:
        """Estimate of the cells [W], shape (n,): means of the readings that are present."""
        cells, sums = self._cells_and_sums
        found = cells
        if sums or found is None:
            found = self.fit.solve(cells, sums)
        if cells is None or self.promise.joint or self.promise.cells.shares is None:
            return found
        # The noise of an incomplete cell grows with the inverse of its public share. Cells of a
        # file lie on the grid.
        shares, grid = np.round(self.promise.cells.shares, 6), float(self.promise.grid)
        return np.where(shares < 1, np.rint(cells / shares / grid) * grid, found)

    @cached_property
    def trace(self) -> Trace:
        """The estimate as a trace. It carries no true states and no names of appliances."""
        times = self.promise.cells.times
        return Trace(self.estimate, times.interval_s, times.start, steps=times.steps)

    @cached_property
    def receipt(self) -> Receipt:
        """The public receipt: the promise written down, and a digest of what was released."""
        return Receipt.of(self)

    @property
    def view_names(self) -> tuple[str, ...]:
        """Names of the views: the published tables, and days, months and register of cells."""
        words, _ = split_words(self.promise.words)
        names = [HOURS if table.name == CELLS else table.name for table in self._tables]
        if CELLS in words:
            names += [name for name in ("days", "months", REGISTER) if name not in names]
        return tuple(names)

    def view(self, name: str) -> View:
        """Return one view: its labels, values and standard errors.

        Parameters
        ----------
        name : str
            One of `view_names`, or a table of the promise that got no share of the budget: it
            follows from the cells.

        Raises
        ------
        UnknownNameError
            If the release does not show it.
        """
        name = HOURS if name == CELLS else name
        words, _ = split_words(self.promise.words)
        if name not in self.view_names and not (CELLS in words and name in words):
            raise UnknownNameError("view", name, list(self.view_names))
        if name == REGISTER:
            return self._register()
        if name == HOURS:
            errors = np.sqrt(self.fit.cell_variances)
            return View(name, self.promise.cells.columns, self.estimate, errors, "W")
        known = {table.name: table for table in self._tables}
        table = known.get(name) or make_tables([name], self.promise.cells)[0]
        sums, errors = table.sums(self.estimate), np.sqrt(self.fit.sum_variances(table))
        factor: Any = self._kwh if table.energy else 1 / table.members
        unit = "kWh" if table.energy else "W"
        return View(name, dict(table.columns), sums * factor, errors * factor, unit)

    @property
    def views(self) -> tuple[View, ...]:
        """All views."""
        return tuple(self.view(name) for name in self.view_names)

    def to_pandas(self) -> Any:
        """Return the view of the cells, or the first view without cells, as a DataFrame."""
        return self.view(self.view_names[0]).to_pandas()

    def noisy_steps(self, name: str) -> Any:
        """Return the published sums of the table with a name in grid steps; None if it has none."""
        wanted, grid = CELLS if name == HOURS else name, float(self.promise.grid)
        for entry, sums in zip(self.promise.tables, self.sums, strict=True):
            if entry.name == wanted:
                return np.rint(sums / grid).astype(np.int64)
        return None

    def _register(self) -> View:
        """Energy from the first cell to the end of every cell [kWh]; gaps add nothing."""
        times = self.promise.cells.times
        length = np.timedelta64(round(times.interval_s * 1e9), "ns")
        values = np.cumsum(self.estimate) * self._kwh
        errors = np.sqrt(self.fit.register_variances) * self._kwh
        return View(REGISTER, {"timestamp": times.times + length}, values, errors, "kWh")

    @property
    def _tables(self) -> list[LabelledTable]:
        return [entry.table for entry in self.promise.tables]

    @cached_property
    def _cells_and_sums(self) -> tuple[FloatArray | None, list[FloatArray]]:
        """The noisy or restored cells, and the noisy sums of the other tables [W]."""
        first, *sums = self.sums
        if self._tables[0].name != CELLS:
            return None, list(self.sums)
        return first if self.restored is None else self.restored[0], sums

    @cached_property
    def fit(self) -> TableEstimate:
        """The estimator of all cells."""
        fit = self.promise.fit()
        if self.restored is None:
            return fit
        variance = float((self.restored[1] ** 2).mean())
        return type(fit)(fit.tables, [variance, *fit.variances[1:]], fit.size, fit.scales)

    @property
    def _kwh(self) -> float:
        """Energy of one cell of 1 W [kWh]."""
        return self.promise.cells.interval_s / JOULES_PER_KWH

    def __str__(self) -> str:
        if self.private is None:
            return str(self.receipt)
        return self.private.text(self.receipt)

    def _repr_html_(self) -> str:
        """What the public receipt states, with a small picture, for notebooks."""
        receipt = self.receipt
        facts = {
            "kind": receipt.kind,
            "protects": str(receipt.unit["sentence"]),
            "ε": f"{receipt.epsilon:.4g}",
            "noise": f"{self.promise.noise.name}, grid {float(self.promise.grid):g} W",
            "readings": f"{len(self.trace)} of {short_duration(self.trace.interval_s)}",
            "first": str(receipt.output["start"]),
            "last": str(receipt.output["end"]),
        }
        if receipt.delta:
            facts["δ"] = f"{receipt.delta:.3g}"
        return html_facts("Release", facts, self.trace.picture("released readings over time"))

    def save(
        self, path: str | Path, *, force: bool = False, signing_key: str | Path | None = None
    ) -> list[Path]:
        """Write the release and both parts of its receipt.

        Only the commands and the page note it in the register of the user; in Python,
        `hushmeter.releases.history.recorded` does so.

        Parameters
        ----------
        path : str or Path
            A file that ends in .csv, .parquet, .h5 or .xml for the cells, with the receipts beside
            it; or a folder for all views, with the public receipt in it.
        force : bool
            Whether to replace an existing release.
        signing_key : str or Path, optional
            File with the Ed25519 key that signs the receipt.

        Returns
        -------
        list of Path
            The written files.
        """
        from hushmeter.releases.files import save_release

        if self.restored is not None:
            raise InputError("restored values are not a release; save what `hm.restore` returns.")
        return save_release(self, path, force=force, signing_key=signing_key)


def release(
    trace: Trace,
    mechanism: Mechanism,
    unit: Unit = None,  # type: ignore[assignment]
    *,
    home: Home | None = None,
    rng: Rng = None,
    key: bytes | None = None,
    accept_learnt: bool = False,
) -> Release:
    """Release a trace with the noise of a mechanism that was calibrated to a unit.

    `hm.Request` finds the noise itself; this is the form for those who calibrate it.

    Parameters
    ----------
    trace : Trace
        The metered readings [W].
    mechanism : Mechanism
        The noise, usually from `calibrate`. If it has a clamp, every metered reading is clamped
        before the mean of a cell is taken.
    unit : Unit
        The unit of protection, from `resolve_unit`. It decides over how many readings a released
        mean is taken. The receipt states the ε that the mechanism has for this unit.
    home : Home, optional
        For the account of every appliance in the private part of the receipt, and for the origin
        of the numbers that calibrated the noise.
    rng : int, Generator or None
        Seed of a simulation. A real release takes no seed.
    key : bytes, optional
        Key of 32 bytes from which the noise is derived; see `Mechanism.release`.
    accept_learnt : bool, default False
        Accept numbers that were learnt from the readings of the same time. The noise then depends
        on the readings in a way that ε does not cover; the receipt records it.

    Returns
    -------
    Release

    Raises
    ------
    InputError
        If an argument has the wrong type, the unit is for readings of another length or does not
        count how the meter rounds, or a number was learnt from the same readings.
    DataError
        If a reading cannot be released, or no cell is complete. Nothing is released then.

    Examples
    --------
    >>> trace = hm.Trace([120.0, 2120.0], interval_s=60.0, start="2024-01-01T00:00Z")
    >>> unit = hm.resolve_unit("change", "reading", size=500.0, interval_s=60.0)
    >>> hm.release(trace, hm.calibrate("laplace", 1.0, unit), unit, rng=1).receipt.epsilon
    1.0
    """
    _check_types(trace, mechanism, unit)
    promise = promise_of(mechanism, unit, metered(trace, unit.zone), home)
    return replace(promise, accept_learnt=accept_learnt).release(trace, rng=rng, key=key)


def _check_types(trace: object, mechanism: object, unit: object) -> None:
    """Raise `InputError` for the first argument of the wrong type, with the call that makes it."""
    wanted = (
        ("trace", trace, Trace, "hm.read_meter or hm.Trace"),
        ("mechanism", mechanism, Mechanism, "hm.calibrate"),
        ("unit", unit, Unit, "hm.resolve_unit"),
    )
    for name, value, kind, maker in wanted:
        if not isinstance(value, kind):
            got = "nothing" if value is None else f"a {type(value).__name__}"
            raise InputError(
                f"release needs a {kind.__name__} as its {name}, from {maker}; got {got}."
            )


def release_views(
    trace: Trace,
    *,
    zone: str = "UTC",
    rng: Rng = None,
    key: bytes | None = None,
    **request: Any,
) -> Release:
    """Release hours, days, months and the typical day together.

    A short form of `Request(tables=["views"], …).resolve(metered(trace, zone)).release(trace)`.

    Parameters
    ----------
    trace : Trace
        The metered readings [W].
    zone : str, default "UTC"
        Time zone of days, months and hours of the day.
    rng, key
        See `Promise.release`.
    **request
        Further fields of `Request`, such as `epsilon` and `home`, or `hide` and `odds`.

    Returns
    -------
    Release

    Examples
    --------
    >>> day = hm.Trace([120.0] * 48, interval_s=1800.0, start="2024-01-01T00:00Z")
    >>> hm.release_views(day, hide="kettle", rng=1).view_names
    ('hours', 'days', 'months', 'typical-day', 'register')
    """
    from hushmeter.releases.request import Request

    promise = Request(**{"tables": ("views",), **request}).resolve(metered(trace, zone))
    return promise.release(trace, rng=rng, key=key)
