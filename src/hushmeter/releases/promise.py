"""The promise of a release: what is protected, by which noise, and what the noise costs.

A promise is made by `Request.resolve` from public facts alone; no reading has entered it. It holds
the unit of protection, the cells, and every published table with its noise. ε, δ, the odds of the
best attacker and the standard errors follow from these. `Promise.release` applies it to readings.

*One table of cells* has the noise of one mechanism. *Several tables* have Gaussian noise of
different widths (`hushmeter.releases.estimate`). The span "when" publishes the cells and the sums
of complete days: the sum of a day moves only by the rounding of the meter, so its noise is that of
one more value, or none.
"""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.checks import FloatArray, IntArray, whole
from hushmeter.errors import DataError, InputError
from hushmeter.noise import Mechanism, clamped
from hushmeter.noise.gaussian import joint_epsilon, joint_odds
from hushmeter.noise.losses import DELTA, Composition
from hushmeter.noise.mechanism import MAX_STEPS, Rng, clamp_bounds, per_watt
from hushmeter.noise.samplers import release_key
from hushmeter.privacy import (
    ApplianceAccount,
    UnknownMoment,
    bound_unknown_moment,
    change_odds,
    compose,
    compose_change,
    one_value,
    unknown_moment,
)
from hushmeter.privacy.units import (
    LONGEST_DAY_S,
    Metered,
    Unit,
    metered,
    refuse_unknown_rounding,
    resolve_unit,
)
from hushmeter.releases.guesses import Guess, guesses_about, promise_in_words
from hushmeter.releases.labels import (
    CELLS,
    HOURLY_COST,
    Cells,
    LabelledTable,
    cells_of,
    complete_days,
    make_tables,
    of_sums,
    rearrangement,
)
from hushmeter.releases.purposes import Errors, errors_of
from hushmeter.trace import SECONDS_PER_DAY, Trace

if TYPE_CHECKING:
    from hushmeter.appliance import Appliance
    from hushmeter.home import Home
    from hushmeter.privacy.sensitivity import Change
    from hushmeter.releases.estimate import TableEstimate
    from hushmeter.releases.release import Release

EXACT_GRID = Fraction(1, 1000)
"""Grid of sums that are published without noise [W]."""

EXACT_PARTS = 3 * 10**6
"""Parts of a watt to which a metered reading is rounded, where sums of readings must be exact: a
watt-hour over an interval that divides a day is a whole number of thirds, eighths or decimals."""

FAR = 50.0
"""Squared length of a change, in units of σ², beyond which an attacker is certain in any case."""


@dataclass(frozen=True, eq=False)
class NoisyTable:
    """A published table with its noise."""

    table: LabelledTable  # The labels of the cells
    noise: Mechanism | None  # The noise of every sum; None if the sums are exact
    # Factor with which a sum is multiplied before its noise is added, and divided afterwards
    scale: float = 1.0

    @property
    def name(self) -> str:
        """Name of the table."""
        return self.table.name

    @property
    def variance(self) -> float:
        """Variance of the noise of a sum [W²]."""
        return 0.0 if self.noise is None else (self.noise.std / self.scale) ** 2

    @property
    def delta(self) -> float:
        """δ of the noise."""
        return 0.0 if self.noise is None else self.noise.delta


@dataclass(frozen=True, eq=False)
class Promise:
    """What a release protects and what it costs; no reading has entered it.

    Attributes
    ----------
    unit : Unit
        The unit of protection; its released values are the cells.
    cells : Cells
        Times of the cells, or those of a common month if the times are not known yet.
    words : tuple of str
        The words that name the tables.
    tables : tuple of NoisyTable
        The published tables with their noise.
    delta : float
        δ of the promise; 0 for Laplace and staircase noise.
    clamp : (low, high) or None
        Bounds to which metered readings are set [W].
    hourly_cost : float
        Largest error of a cell against cells alone, by which several tables share the budget.
    home : Home or None
        The home whose numbers calibrated the noise, for the private receipt; never published.
    accept_learnt : bool
        True if these numbers may be learnt from the readings themselves.

    Examples
    --------
    >>> promise = hm.Request(hide="kettle", odds=60).resolve(hm.Metered(900))
    >>> promise.noise.name, round(promise.odds, 2)
    ('gaussian', 0.6)
    """

    unit: Unit
    cells: Cells
    words: tuple[str, ...]
    tables: tuple[NoisyTable, ...]
    delta: float
    clamp: tuple[float, float] | None = None
    hourly_cost: float = HOURLY_COST
    home: Home | None = None
    accept_learnt: bool = False

    @property
    def noise(self) -> Mechanism:
        """The noise of the first table."""
        if self.tables[0].noise is None:
            raise InputError("this release has no noise: all of its sums are exact.")
        return self.tables[0].noise

    @property
    def exact(self) -> bool:
        """True if no table has noise, because no protected change moves any of them."""
        return not self.noises

    @property
    def joint(self) -> bool:
        """True if tables of sums are published, which share the budget."""
        return self.unit.span != "when" and any(e.name != CELLS for e in self.tables)

    @property
    def grid(self) -> Fraction:
        """Grid of the cells [W]."""
        return EXACT_GRID if self.exact else self.noise.exact_grid

    @property
    def lengths(self) -> FloatArray:
        """Largest change of every table that shares the budget, Euclidean [grid steps]."""
        found = self.lengths_for(self.unit.changes)
        return np.maximum(found, self.order_lengths) if self.unit.rearranged else found

    @cached_property
    def order_lengths(self) -> FloatArray:
        """The same if use is rearranged: what the rounding of the meter moves."""
        moved = rearrangement(self.unit, self.cells)
        return np.array([moved.length(entry.table, self.grid) for entry in self.tables])

    def lengths_for(self, changes: Sequence[Change]) -> FloatArray:
        """The same for other changes; the account of a home asks for some of them repeatedly."""
        from hushmeter.releases.estimate import lengths_of

        key = tuple(changes)
        if key not in self._known_lengths:
            tables = [entry.table for entry in self.tables]
            self._known_lengths[key] = lengths_of(tables, changes, self.grid)
        return self._known_lengths[key]

    @cached_property
    def _known_lengths(self) -> dict[tuple[Change, ...], FloatArray]:
        return {}

    @property
    def shares(self) -> tuple[float, ...]:
        """Share of every table in the privacy budget, Σ s_j²/σ_j² = 2ρ."""
        if not self.joint:
            return (1.0,) * len(self.tables)
        if self.exact:
            return (0.0,) * len(self.tables)
        parts = (self.lengths / [noise.scale for noise in self.noises]) ** 2
        return tuple((parts / parts.sum()).tolist())

    @property
    def noises(self) -> list[Mechanism]:
        """The noise of the tables that share the budget."""
        return [entry.noise for entry in self.tables if entry.noise is not None]

    @cached_property
    def epsilon(self) -> float:
        """ε at which the unit is protected."""
        if self.exact:
            return 0.0
        if self.joint:
            return joint_epsilon(self.noises, self.lengths, self.delta)
        return self.noise.epsilon_of(self.unit)

    def epsilon_for(self, unit: Unit) -> float:
        """Return the ε of another unit with the same noise, such as one of a larger power."""
        if self.joint:
            return joint_epsilon(self.noises, self.lengths_for(unit.changes), self.delta)
        return self.noise.epsilon_of(unit)

    @cached_property
    def odds(self) -> float:
        """Largest probability that the best attacker is right, who knows everything else."""
        if self.exact:
            return 0.5
        if self.joint:
            return joint_odds(self.noises, self.lengths)
        return max(change_odds(self.noise, change) for change in self.unit.changes)

    @cached_property
    def unknown(self) -> UnknownMoment | None:
        """Odds of an attacker who does not know when a run happens; None for other spans."""
        if self.unit.span != "run" or not self.unit.changes or self.lasts_days:
            return None
        found = [self.unknown_moment(change) for change in self.unit.changes]
        return max(found, key=lambda one: one.habit_odds)

    @property
    def lasts_days(self) -> bool:
        """True if the hidden use lasts a day or longer, as that of a day at home does."""
        return max(change.seconds for change in self.unit.changes) >= LONGEST_DAY_S

    @cached_property
    def errors(self) -> Errors:
        """Standard errors of hours, days, months, the typical day and register values."""
        return errors_of(self)

    @cached_property
    def guesses(self) -> tuple[Guess, ...]:
        """How often the best attacker is right, from one moment to the whole file."""
        return guesses_about(self)

    @property
    def sentences(self) -> tuple[str, str]:
        """Two sentences: what is hidden, and to which odds, always with those of a whole day."""
        return promise_in_words(self)

    @property
    def sources(self) -> tuple[str, ...]:
        """Where the numbers that calibrated the noise came from, by the times of the cells."""
        from hushmeter.releases.private_receipt import list_parameters

        times = None if self.cells.model else self.cells.times
        numbers = list_parameters(self.unit, self.home, times)
        return tuple(sorted({entry["source"] for entry in numbers}))

    def fit(self, cells: Cells | None = None) -> TableEstimate:
        """Return the estimator of the cells, or of other cells with the same noise."""
        return (self if cells is None else self._with_cells(cells))._estimator

    @cached_property
    def _estimator(self) -> TableEstimate:
        """The estimator of the cells, which all releases under this promise share."""
        from hushmeter.releases.estimate import TableEstimate

        shares = self.cells.shares
        scales = None if shares is None else 1 / np.round(shares, 6)
        first, sums = _split_cells(self.tables)
        variances = [math.inf if first is None else first.variance, *(s.variance for s in sums)]
        return TableEstimate([s.table for s in sums], variances, len(self.cells), scales)

    def on(self, cells: Cells) -> Promise:
        """Return the same promise for other cells.

        Raise `InputError` if the clock of their times lets a change move the sums further: the
        noise was found for a common year.
        """
        other = self._with_cells(cells)
        if self.joint and (other.lengths > self.lengths).any():
            raise InputError(
                "the clock of these times lets a change move the sums further than the promise "
                "counts; resolve the request with metered(trace)."
            )
        return other

    def _with_cells(self, cells: Cells) -> Promise:
        """Return the promise for other cells, however far a change moves their sums."""
        made = {table.name: table for table in self.tables_on(cells)}
        tables = tuple(replace(entry, table=made[entry.name]) for entry in self.tables)
        other = replace(self, cells=cells, tables=tables)
        # The errors are those of a month without a gap, whatever the cells are.
        other.__dict__.update({k: v for k, v in self.__dict__.items() if k == "errors"})
        return other

    def tables_on(self, cells: Cells) -> tuple[LabelledTable, ...]:
        """Return the labels of other cells in every table."""
        tables = make_tables(self.words, cells)
        if self.unit.span != "when":
            return tables
        return tables[0], complete_days(cells)

    def compose(self, change: Change, delta: float = DELTA) -> Composition:
        """Return ε at delta, and the odds of the best attacker, for a change in all tables."""
        if not self.joint:
            return compose_change(self.noise, change, delta)
        lengths = self.lengths_for([change])
        epsilon = joint_epsilon(self.noises, lengths, self.delta)
        return Composition(change.touches, epsilon, epsilon, joint_odds(self.noises, lengths))

    def unknown_moment(self, change: Change) -> UnknownMoment:
        """Bound the odds of an attacker who must find a change among the moments of one day.

        Cells and typical days of two moments are disjoint. In all other tables, and with a
        register in all tables, two moments may move the same sum: the inner product of the changes
        is at most the product of their lengths.
        """
        if not self.joint:
            return unknown_moment(self.noise, change)
        lengths = self.lengths_for([change])
        known = joint_odds(self.noises, lengths)
        squares = [(s * n.grid / n.scale) ** 2 for s, n in zip(lengths, self.noises, strict=True)]
        apart = () if change.register_w else (CELLS, "typical-day", "typical-week")
        shared = sum(s for s, e in zip(squares, self.tables, strict=True) if e.name not in apart)
        own = sum(squares)
        if own > FAR:
            return UnknownMoment(change.moments, known, known)
        return bound_unknown_moment(change.moments, known, math.expm1(own), math.expm1(shared))

    def account(self, home: Home | None, delta: float = DELTA) -> tuple[ApplianceAccount, ...]:
        """Return what an attacker can learn about each appliance of a home, with ε at delta."""
        if home is None:
            return ()
        return tuple(self._account(appliance, delta) for appliance in home.appliances)

    def _account(self, appliance: Appliance, delta: float) -> ApplianceAccount:
        def change(span: str) -> Change:
            use = self.unit.use_s if appliance.name in {c.name for c in self.unit.changes} else None
            return self.unit.change_of(appliance, span, use)

        known = appliance.protected_run_s is not None
        name, watts = appliance.name, appliance.protected_power
        if self.unit.span == "when":
            moved = self.compose(change("when"), delta) if known else None
            return ApplianceAccount(name, watts, None, None, None, None, moved)
        run = change("run") if known else None
        return ApplianceAccount(
            name,
            watts,
            reading=self.compose_cell(change("reading"), delta),
            run=None if run is None else self.compose(run, delta),
            run_readings=None if run is None else run.overlapped,
            day=self.compose(change("day"), delta),
            unknown=None if run is None else self.unknown_moment(run),
        )

    def compose_cell(self, change: Change, delta: float) -> Composition:
        """Return ε at delta and the odds if a change lasts for the whole of one cell."""
        if not self.joint:
            return compose(self.noise, one_value(change), delta)
        length = self.cells.interval_s
        whole = replace(
            change, seconds=length, interval_s=length, window=1, energy=change.watts * length
        )
        return self.compose(whole, delta)

    def release(self, trace: Trace, *, rng: Rng = None, key: bytes | None = None) -> Release:
        """Release readings under this promise.

        Parameters
        ----------
        trace : Trace
            The metered readings [W], of the meter for which the promise was made.
        rng : int, Generator or None
            Seed of a simulation. A real release takes no seed.
        key : bytes, optional
            Key of 32 bytes, from the operating system by default. The noise of a sum depends on
            the key, the promise, the table, the label and the exact sum alone: equal sums are
            published with equal numbers, in a file and in a stream, and others never share noise.
            Whoever holds the key can subtract the noise.

        Returns
        -------
        Release

        Raises
        ------
        InputError
            If the promise was made for another meter, or a number was learnt from these readings.
        DataError
            If a reading cannot be released. Nothing is released then.
        """
        from hushmeter.releases.private_receipt import private_receipt, refuse_learnt_from_these
        from hushmeter.releases.release import Release

        promise = self._fitted_to(trace, simulation=rng is not None)
        if rng is None and not self.accept_learnt:
            refuse_learnt_from_these(self.unit, self.home, trace)
        try:
            sums = promise._noisy_sums(trace, release_key(rng, key)[0])
        except DataError as error:
            raise DataError(f"nothing was released: {error}") from None
        kind = "release" if rng is None else "simulation"
        return Release(promise, sums, kind, private_receipt(promise, trace))

    def _fitted_to(self, trace: Trace, *, simulation: bool) -> Promise:
        """Return the promise with the times of a trace; refuse a trace of another meter."""
        check_interval(trace, self.unit)
        if not simulation:
            check_metering(trace, self.unit)
            refuse_unknown_rounding(self.unit.span, trace.metering)
        facts, length = metered(trace, self.cells.zone), self.cells.interval_s
        order = self.unit.rearranged
        here = cells_of(facts, length, of_days=of_sums(self.words), rearranged=order)
        if not self.cells.model:
            times = np.array_equal(here.times.times, self.cells.times.times)
            if not times or not _same_shares(here, self.cells):
                raise InputError(
                    "the promise was made for readings at other times; resolve the request with "
                    "metered(trace)."
                )
            return self
        return self.on(here)

    def _noisy_sums(self, trace: Trace, key: bytes) -> tuple[FloatArray, ...]:
        """Return the noisy sums of every table [W]."""
        exact = zip(self.tables, self.exact_sums(trace), strict=True)
        return tuple(
            self._to_watts(entry, self.add_noise(entry, sums, key)) for entry, sums in exact
        )

    def exact_sums(self, trace: Trace) -> list[FloatArray]:
        """Return the sums of every table of a trace before the noise [grid steps]; private."""
        if self.unit.rearranged:
            return self._kept_sums(trace)
        means = self.means(trace)
        steps = self.to_steps(means if self.joint else self.noise.checked(means)).astype(float)
        first, *others = self.tables
        if self.unit.span == "when":
            return [steps, self._day_steps(trace, others[0])]
        return [entry.table.sums(steps) for entry in (first, *others)]

    def _day_steps(self, trace: Trace, days: NoisyTable) -> FloatArray:
        """Return the scaled sums of days for the span "when", rounded if they get noise."""
        totals = self._exact_totals(trace, days.table.labels)
        steps = [total * Fraction(days.scale) / self.grid for total in totals]
        if days.noise is not None:
            steps = [Fraction(math.floor(step + Fraction(1, 2))) for step in steps]
        return np.array(steps, dtype=float)

    def _kept_sums(self, trace: Trace) -> list[FloatArray]:
        """Return the sums of every table if use is rearranged [grid steps].

        Only sums that stay the same are rounded to the grid: rounded cells would not do, because
        their sum depends on when electricity is used.
        """
        self.to_steps(trace.readings)  # refuses readings that are too large
        orbits = rearrangement(self.unit, self.cells).orbits
        totals = self._exact_totals(trace, orbits)
        steps = [math.floor(total / self.grid + Fraction(1, 2)) for total in totals]
        # One cell of every group stands for all of them.
        cells = np.zeros(orbits.size)
        cells[np.unique(orbits, return_index=True)[1]] = steps
        return [entry.table.sums(cells) for entry in self.tables]

    def _exact_totals(self, trace: Trace, groups: IntArray) -> list[Fraction]:
        """Return the sum of the cells of every group [W], the same for any order of the readings.

        The metered readings are added up as whole parts of a watt.
        """
        group = np.append(groups, -1)[self.cells.place_of(trace.times)]
        parts = np.rint(trace.readings * EXACT_PARTS).astype(np.int64)
        totals = np.zeros(int(groups.max(initial=-1)) + 1, dtype=np.int64)
        np.add.at(totals, group[group >= 0], parts[group >= 0])
        return [Fraction(int(total), EXACT_PARTS * self.unit.window) for total in totals]

    def means(self, trace: Trace) -> FloatArray:
        """Return the cells of a trace [W], with missing readings counted as zero.

        A change therefore moves an incomplete cell by no more than it moves a complete one.
        """
        if self.clamp is not None:
            trace = trace.replace_readings(np.clip(trace.readings, *self.clamp))
        if self.unit.window > 1:
            every = self.cells.interval_s
            shares, trace = trace.shares_present(every), trace.coarsen(every)
            trace = trace.replace_readings(trace.readings * shares)
        if not self.unit.rearranged:
            return trace.readings
        return trace.readings[np.isin(trace.times, self.cells.times.times)]

    def to_steps(self, means: FloatArray) -> IntArray:
        """Round the means of cells [W] to whole steps of the grid, half up; they are private."""
        if not np.abs(means).max() < float(MAX_STEPS * self.grid):
            raise DataError("a reading is too large for the grid.")
        return np.floor(means * per_watt(self.grid) + 0.5).astype(np.int64)

    def add_noise(self, entry: NoisyTable, steps: FloatArray, key: bytes) -> FloatArray:
        """Add the noise of a table, drawn with the key of a release, to exact sums [grid steps].

        `entry` is the table with its noise, if it has any.
        """
        if entry.noise is None:
            return steps
        values = steps.astype(np.int64)
        own = self._table_key(key, entry.name)
        return steps + entry.noise.sample_for(entry.table.label_blocks, values, key=own)

    def _to_watts(self, entry: NoisyTable, steps: FloatArray) -> FloatArray:
        """Convert the sums of a table to watts, with at most two roundings."""
        grid = self.grid
        return np.asarray(steps * float(grid.numerator) / float(grid.denominator) / entry.scale)

    def _table_key(self, key: bytes, name: str) -> bytes:
        """Key of a table under this promise, derived from that of the release."""
        facts = [
            [e.name, e.scale, e.noise and [e.noise.name, e.noise.parameters()]] for e in self.tables
        ]
        promise = [name, self.cells.interval_s, self.cells.zone, self.clamp, facts]
        return hmac.new(key, f"hushmeter noise 1 {promise}".encode(), hashlib.sha256).digest()


def _split_cells(tables: Sequence[NoisyTable]) -> tuple[NoisyTable | None, list[NoisyTable]]:
    """Return the table of the cells, if it is published, and the tables of sums."""
    first = tables[0] if tables[0].name == CELLS else None
    return first, [entry for entry in tables if entry is not first]


def _same_shares(one: Cells, other: Cells) -> bool:
    """True if the same shares of the readings of every cell are present."""
    if one.shares is None or other.shares is None:
        return one.shares is other.shares
    return bool(np.allclose(one.shares, other.shares, atol=1e-6))


def check_interval(trace: Trace, unit: Unit) -> None:
    """Refuse readings of another length than those of the unit."""
    if abs(trace.interval_s - unit.interval_s) > 1e-9 * unit.interval_s:
        raise InputError(
            f"the unit is for readings of {unit.interval_s:g} s, but those of the trace are of "
            f"{trace.interval_s:g} s."
        )


def check_metering(trace: Trace, unit: Unit) -> None:
    """Refuse readings about which a fact is open, or that the unit does not count."""
    if trace.metering.unsettled is not None:
        raise DataError(f"nothing was released: {trace.metering.unsettled}")
    enough = not trace.metering.register_step_w or (unit.readings or 0) >= len(trace)
    if trace.metering != unit.metering or not enough:
        raise InputError(
            "the meter rounds or copies these readings in a way that the unit of protection does "
            "not count; resolve the request with metered(trace)."
        )


def promise_of(mechanism: Mechanism, unit: Unit, facts: Metered, home: Home | None) -> Promise:
    """Return the promise of cells with the noise of a given mechanism."""
    cells = cells_of(facts, unit.window * unit.interval_s)
    (table,) = make_tables([CELLS], cells)
    tables = (NoisyTable(table, mechanism), *_when_table(mechanism, unit, cells))
    return Promise(
        unit, cells, (CELLS,), tables, mechanism.delta, clamp_bounds(mechanism.clamp), home=home
    )


def _when_table(mechanism: Mechanism, unit: Unit, cells: Cells) -> tuple[NoisyTable, ...]:
    """The sums of complete days that the span "when" publishes beside the cells."""
    if unit.span != "when":
        return ()
    # The clamp is for single readings.
    noise = clamped(mechanism, None) if unit.day_scale else None
    return (NoisyTable(complete_days(cells), noise, scale=unit.day_scale or 1.0),)


def account(
    mechanism: Mechanism,
    home: Home,
    readings: int | None = None,
    *,
    delta: float = DELTA,
    interval_s: float | None = None,
) -> tuple[ApplianceAccount, ...]:
    """Account for one reading, one run and one day of every appliance.

    Parameters
    ----------
    mechanism : Mechanism
        The noise on every reading.
    home : Home
        The appliances.
    readings : int, optional
        Readings T of a day of 24 hours; one of `readings` and `interval_s` is needed.
    delta : float
        Failure probability δ' of the composed ε.
    interval_s : float, optional
        Length of a reading [s].

    Returns
    -------
    tuple of ApplianceAccount
        One for each appliance, in the order of the home.

    Raises
    ------
    InputError
        If a parameter is missing or invalid.

    Examples
    --------
    >>> home = hm.Home([hm.Appliance("kettle", 2000.0), hm.Appliance("fridge", 120.0)])
    >>> found = hm.account(hm.Laplace(epsilon=1.0, sensitivity=2000.0), home, readings=24)
    >>> [round(one.reading.odds, 2) for one in found]
    [0.7, 0.51]
    """
    length = SECONDS_PER_DAY / whole("readings", readings) if interval_s is None else interval_s
    unit = resolve_unit(interval_s=length, home=home)
    return promise_of(mechanism, unit, unit.metered, home).account(home, delta)
