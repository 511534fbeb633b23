r"""How far a protected change can move the released values, and the sums of any table of them.

An appliance draws at most P watts, its run lasts at most R seconds and takes at most E watt-seconds
(P·R if nothing else is known). The released values are means over V seconds. A run with the power
0 ≤ p(t) ≤ P moves value k by d_k = (1/V)·∫ p(t) dt over its V seconds. Over all shapes of the run
and all offsets between the run and the values,

    largest = min(P, E/V),    Δ1 = E/V,    Δ2 = P·√(q + f²),    touches = ⌈R/V⌉ + 1,

where q + f = E/(P·V), q is a whole number and 0 ≤ f < 1.

*Proof.* 0 ≤ d_k ≤ P and Σ d_k = ∫p/V ≤ E/V give `largest` and Δ1. The sum Σ d_k² is convex, so
under these two constraints it is largest at a corner: q values change by P and one by f·P. A run
that begins together with a value and draws P attains all three bounds. A stretch of R seconds
overlaps at most ⌈R/V⌉ + 1 intervals of V seconds. The interval I of the meter does not occur: a
6-second file and an hourly file need the same noise for hourly values.

*Moved runs.* If the neighbours differ in when a run happens and not in whether it happens, the run
is removed in one place and added in another. The positive and the negative parts of d each satisfy
the constraints above, so Δ1 and the number of touched values double, Δ2 grows by √2 and `largest`
does not change. Two aligned places without a common value attain all of them. The sum of the
released values of the day, S, is published too. It is the same for both places, except that the
meter rounds other readings: S moves by at most d = 2·s·m/W for a meter that rounds to s watts (see
below for m and W), and not at all for a register, whose differences telescope. If d > 0, c·S is
published with the noise of one more value, which moves by c·d.

What the meter itself does to a reading is added (`hushmeter.trace.Metering`):

* *Rounding* to s watts moves each of the m = ⌈R/I⌉ + 1 metered readings that the run overlaps by at
  most s more. With W readings in a value this adds s·m/W to Δ1, and by the same argument on
  corners s·√(q' + f'²) with q' + f' = m/W to Δ2.
* *Copies.* If one metered value was copied into c readings, E and m are multiplied by c.
* *Registers.* The readings are differences of a counter that is rounded to r watts (per reading).
  The differences within a released value telescope, so only the counter at its two ends matters. A
  run that adds E₁ to one of them moves its rounded value by E₁, up to less than r in either
  direction. During the run this moves a released value by at most 2r/W more. After the run both
  ends have moved by E rounded up or down, so the value moves by at most r/W, and so may each of
  the N values of the period. With m values during the run, (N + m)·r/W is added to Δ1,
  √(N + 3m)·r/W to Δ2, and all N values are touched. If the differences of several registers
  are added, as for tariffs, r is the sum of their steps: a run may lie in all of them. A run that
  is moved from one register to another moves the rounding of both, so the sums of days are not
  published for such a meter.
* *Own lengths.* If reading i is a mean over its own length L_i and all L_i ≥ I/s, a run moves it by
  d_i = ∫p/L_i ≤ P and Σ d_i ≤ s·E/I. If it is an energy of L_i ≤ s·I divided by I, then d_i ≤ s·P
  and Σ d_i ≤ E/I. A run of R seconds overlaps at most ⌈s·R/I⌉ + 1 readings in both cases. The
  largest Euclidean length of d under 0 ≤ d_i ≤ s·P and Σ d_i ≤ s·E/I is s times the one above, so
  all lengths in watts are multiplied by s. Differences of a register that are divided by different
  lengths do not telescope: each may then move by s·r.
* *Interpolation.* The value of a counter between two of its rows is taken to rise linearly. A run
  moves the rows by e(t), which rises from 0 to E, and the interpolated counter by a function that
  also rises from 0 to E, with a slope of at most P. All differences over I are therefore moved as
  above; only the run seems longer, by the distance of two rows at each of its ends, which moves
  `reach` readings more. The rounding of an interpolated value lies between those of its two rows.

*Tables.* The metered readings become *cells*: means over V seconds, rounded to a grid. A *table*
gives a public label to each cell and publishes one noisy sum for each label. The series itself
(every cell its own label), days, hours of the day, months and tariff bands are tables.

*One place.* A change of at most P watts and E watt-seconds within R seconds covers a stretch of
L = R/V cells, of which at most v = E/(P·V) at full power. If a share o_i of cell i lies in the
stretch, the change moves the cell by at most P·o_i, and the sum of label g by at most P·C_g,
C_g = Σ_{i in g} o_i. A sum of squares under the limits f_g ≤ C_g and Σ f_g ≤ v is largest in a
corner: the largest limits are filled first.

*All offsets.* While the stretch moves from the border of a cell to the next one, the C_g are linear
in the offset on two pieces: they meet where the stretch ends with a cell. The sum S_k of the k
largest C_g is a maximum of linear functions, thus convex, so its largest value on a piece lies at a
border. Every possible f, sorted, has partial sums of at most T_k = min(v, max S_k over the three
borders). Let d be the differences of the least concave majorant of T. The partial sums of every f
are at most those of d (d weakly majorises f), and therefore Σ f_g² ≤ Σ d_k² [1]_:

    Δ2 = P·max over places of √(Σ d_k²).

The limits of the three borders must be joined: the length itself need not be largest at a border.

*What the meter and the grid add.* With n_g touched cells of label g, rounding to the grid adds at
most √(Σ n_g²) steps. A meter that rounds its m touched readings to s watts moves a cell by at most
s and all cells by s·m/W together, which is the fill above with the limits n_g. The differences of a
register telescope: after the change, the sum of label g moves by at most r watts for each of its
u_g stretches of adjoining cells, and each touched cell by at most r more, so r·√(Σ (u_g + n_g)²) is
added. A change that is moved from one place to another has f_g(p) − f_g(p'); both are not negative,
so Δ2 grows by at most √2. All of this uses public times only.

*Rearranged use.* If neighbours may have their use in another order, without a limit in watts, only
the sums over some groups of cells (*orbits*) stay the same: civil days if use is moved within its
day, the hours of the day of a month if whole days are exchanged. A table all of whose labels are
unions of orbits is *free*: it does not move. Every other table can move without a limit. Orbits,
not cells, are rounded to the grid. What the meter adds to a free table:

* *Rounding* to s watts moves the sum of n_g cells by at most s·n_g if use is moved within days.
  Whole days that are exchanged keep their readings, so that nothing moves.
* *Registers.* The sum of a stretch of readings is the difference of the counter at its two ends.
  Each rounded end is off by at most r/2, so the sum of u_g stretches moves by at most 2·r·u_g/W. At
  the borders of the days (or of the months, if days are exchanged) the counter itself is the same
  for both neighbours. A label of complete days (whole months) therefore does not move at all.
* A table that moves may move by one grid step more for each orbit of a label.

References
----------
.. [1] A. Marshall, I. Olkin, B. Arnold, "Inequalities: Theory of Majorization and Its
   Applications", 2nd ed., 2011, 3.C.1.b.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.checks import FloatArray, IntArray, positive, whole
from hushmeter.errors import InputError
from hushmeter.noise import Mechanism
from hushmeter.noise.losses import ChangeSteps
from hushmeter.noise.mechanism import ROUNDING_SLACK, exact, steps_apart
from hushmeter.trace import SECONDS_PER_DAY, Metering

if TYPE_CHECKING:
    from fractions import Fraction

IDEAL = Metering()
"""A meter without rounding, register or copies."""

_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Change:
    """A change of the load that must stay hidden, and how far it moves the released values."""

    name: str  # Appliance, or other source of the change
    watts: float  # Largest change P of the power [W]
    seconds: float  # Longest time R from the beginning of the change to its end [s]
    interval_s: float  # Length I of a metered reading [s]
    # Largest energy E of the change [W·s]; P·R if it is not given
    energy: float = None  # type: ignore[assignment]
    window: int = 1  # Metered readings W per released value
    aligned: bool = False  # True if the change begins and ends together with metered readings
    metering: Metering = IDEAL  # How the meter rounds and copies
    # Released values N of the period; needed only if the meter differences a register
    values: int = 0
    # True if the run is moved to another time: the neighbours differ in when it happens
    moved: bool = False
    # Largest energy of the usual use of a day [W·s], if it is known; several runs add up
    day_energy: float | None = None
    # Factor c with which the sum of the values of a day is published as one more value, for a moved
    # run; 0 if the sum of a day is exact or not published.
    day_scale: float = 0.0

    def __post_init__(self) -> None:
        for name in ("watts", "seconds", "interval_s"):
            object.__setattr__(self, name, positive(name, getattr(self, name)))
        whole("window", self.window)
        most = self.watts * self.seconds
        energy = most if self.energy is None else positive("energy", self.energy)
        if energy > most * (1 + _TOLERANCE):
            raise InputError(
                f"the energy of the {self.name} ({energy / 3600:g} Wh) is more than its power "
                f"times its length ({most / 3600:g} Wh)."
            )
        object.__setattr__(self, "energy", energy)

    @property
    def constant(self) -> bool:
        """True if the change draws its full power from its beginning to its end."""
        whole_energy = self.watts * self.seconds * (1 - _TOLERANCE)
        plain = self.metering.copies == 1 and self.metering.stretch == 1 and not self.metering.reach
        return not self.moved and plain and self.energy >= whole_energy

    @property
    def power(self) -> float:
        """Most that one metered reading can change by the run itself [W]."""
        return self.watts * self.metering.stretch

    @property
    def effect_s(self) -> float:
        """Time from the first to the last moment that the change can move in the trace [s]."""
        own = self.metering.copies * self.seconds * self.metering.stretch
        return own + self.metering.reach * self.interval_s

    @property
    def places(self) -> int:
        """Number of places in which the load changes: two if a run is moved."""
        return 2 if self.moved else 1

    @property
    def value_s(self) -> float:
        """Length V of a released value [s]."""
        return self.window * self.interval_s

    @property
    def overlapped(self) -> int:
        """Most readings of the trace that the change can overlap in one place, with copies."""
        stretch = 1.0 if self.aligned else self.metering.stretch
        readings = round_up(self.seconds * stretch / self.interval_s) + (not self.aligned)
        return self.metering.copies * readings + self.metering.reach

    @property
    def full_values(self) -> float:
        """Energy in units of one released value at full power, q + f = E/(P·V)."""
        return self.metering.copies * self.energy / (self.watts * self.value_s)

    @property
    def own_touches(self) -> int:
        """Most released values that the change itself can overlap."""
        return self.places * (round_up((self.overlapped - 1) / self.window) + 1)

    @property
    def moments(self) -> int:
        """Number of disjoint moments of a day of 24 hours at which a run can happen."""
        width = round_up(self.full_values)
        if self.metering.copies > 1 or self.metering.stretch > 1 or self.metering.reach:
            # The readings of one moment hold parts of what happens in the next one.
            width = self.own_touches // self.places
        return max(1, math.floor(SECONDS_PER_DAY / self.value_s) // max(1, width))

    @property
    def touches(self) -> int:
        """Most released values that can change, those by the phase of a register included."""
        return self._moved_touches + (self.day_w > 0)

    @property
    def _moved_touches(self) -> int:
        """Most released values that can change, without the sum of a day."""
        own = self.own_touches
        return max(own, self.values) if self.metering.register_step_w else own

    @property
    def day_sum_w(self) -> float:
        """Most that rounding by the meter moves the sum of the values of a day [W], if moved."""
        if not self.moved:
            return 0.0
        return self.places * self.metering.resolution_w * self.overlapped / self.window

    @property
    def day_w(self) -> float:
        """Most that the published sum of a day moves, in its own scale [W]."""
        return self.day_scale * self.day_sum_w

    @property
    def later(self) -> int:
        """Values that only the phase of a register moves."""
        return self._moved_touches - self.own_touches

    @property
    def largest(self) -> float:
        """Most that one released value can change [W]."""
        own = self.power * min(1.0, self.full_values)
        rounding = self.resolution_w * min(1.0, self.overlapped / self.window)
        return max(own + rounding + 2 * self.register_w, self.day_w)

    @property
    def l1(self) -> float:
        """Sum of the changes of all values Δ1 [W]."""
        return self.own_l1 + self.register_w * self.later + self.day_w

    @property
    def own_l1(self) -> float:
        """Sum of the changes of the values that the change itself overlaps [W]."""
        own = self.power * self.full_values
        rounding = self.resolution_w * self.overlapped / self.window
        return self.places * (own + rounding) + 2 * self.register_w * self.own_touches

    @property
    def l2(self) -> float:
        """Euclidean length of the change of all values Δ2 [W]."""
        own = self.power * corner(self.full_values)
        rounding = self.resolution_w * corner(self.overlapped / self.window)
        return math.hypot(math.sqrt(self.places) * (own + rounding) + self.register_l2, self.day_w)

    @property
    def register_w(self) -> float:
        """Change of a value after the run by the phase of a register [W]; during it twice that."""
        step = self.metering.register_step_w * self.metering.stretch
        own = self.window if self.metering.stretch > 1 else min(self.metering.copies, self.window)
        return step * own / self.window

    @property
    def resolution_w(self) -> float:
        """Change of a metered reading by its rounding [W]."""
        return self.metering.resolution_w * self.metering.stretch

    @property
    def register_l1(self) -> float:
        """Part of Δ1 that comes from a register [W]."""
        return self.register_w * (self._moved_touches + self.own_touches)

    @property
    def register_l2(self) -> float:
        """Part of Δ2 that comes from a register [W]."""
        return self.register_w * math.sqrt(self._moved_touches + 3 * self.own_touches)


def in_steps(mechanism: Mechanism, change: Change) -> ChangeSteps:
    """Changes of the released values at the worst offset and shape of a run, in grid steps.

    The energy is concentrated in as few values as possible, and yet as many values as possible are
    touched: rounding moves a value by a whole step even if the run barely touches it. No other
    shape and no other offset has larger changes: every possible sequence of changes, sorted, has
    smaller partial sums. Laplace and Gaussian noise therefore lose most here. The staircase does
    not; see `hushmeter.noise.staircase`.
    """
    further = []
    if change.later:
        further.append((mechanism.steps_of(change.register_w), change.later))
    if change.day_w:
        further.append((mechanism.steps_of(change.day_w), 1))
    # A moved run makes the same changes in two places.
    touched, places = change.own_touches, change.places
    own, largest = touched // places, mechanism.steps_of(change.largest)
    total = steps_apart(exact("l1", change.own_l1 / places), mechanism.exact_grid, own)
    # Each value has one step from rounding; the energy gives the rest.
    full, rest = divmod(total - own, max(1, largest - 1))
    if full >= own or largest == 1:
        changes = [(largest, own)]
    else:
        changes = [(largest, full), (1 + rest, 1), (1, own - full - 1)]
    counts: dict[int, int] = {}
    for steps, times in [(steps, places * times) for steps, times in changes] + further:
        counts[steps] = counts.get(steps, 0) + times
    worst = [(steps, times) for steps, times in counts.items() if times]
    return ChangeSteps(change, worst, further, touched, change.constant)


def round_up(number: float) -> int:
    """Round up to a whole number, but ignore what float arithmetic adds to a whole number.

    This one function rounds the length of every run and of every day. Rounding down would charge a
    run of 100 s on a 60 s meter as if it touched one reading less.
    """
    return math.ceil(number - _TOLERANCE * max(1.0, number))


def corner(total: float) -> float:
    """√(q + f²) for q + f = total, q whole: the longest vector of entries in [0, 1] with a sum."""
    full = math.floor(_settle(total))
    return math.sqrt(full + (_settle(total) - full) ** 2)


def _settle(number: float) -> float:
    """Return a number without the residue of float subtraction next to a whole number."""
    nearest = float(round(number))
    return nearest if abs(number - nearest) < _TOLERANCE else number


NO_LABEL = -1
"""Label of a cell that belongs to no sum of a table."""

BASE = 0x9E3779B97F4A7C15
"""Odd number near 2⁶⁴ times the golden ratio; its powers modulo 2⁶⁴ look random."""


@dataclass(frozen=True, eq=False)
class Table:
    """One published table: the label of every cell.

    Attributes
    ----------
    name : str
        Name of the table.
    labels : array of int, shape (n,)
        Label of every cell, 0 … size − 1, or `NO_LABEL`.
    size : int
        Number of labels.
    positions : array of int, shape (n,), optional
        Position of every cell in time, in cells from the first one; ascending, with jumps at gaps.
        By default no cell is missing.
    """

    name: str
    labels: IntArray
    size: int
    positions: IntArray | None = None
    _known: dict[int, IntArray] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def members(self) -> IntArray:
        """Number of cells of every label, shape (size,)."""
        return np.bincount(self.labels[self.labels >= 0], minlength=self.size)

    @property
    def places(self) -> IntArray:
        """Position of every cell in time, shape (n,)."""
        return np.arange(self.labels.size) if self.positions is None else self.positions

    @cached_property
    def stretches(self) -> IntArray:
        """Number of stretches of adjoining cells of every label, shape (size,)."""
        fresh = np.ones(self.labels.size, dtype=np.bool_)
        fresh[1:] = (np.diff(self.places) > 1) | (np.diff(self.labels) != 0)
        return np.bincount(self.labels[fresh & (self.labels >= 0)], minlength=self.size)

    def sums(self, cells: FloatArray) -> FloatArray:
        """Sums of the cells of every label, shape (size,)."""
        inside = self.labels >= 0
        return np.bincount(self.labels[inside], cells[inside], self.size).astype(np.float64)

    def patterns(self, width: int) -> IntArray:
        """The different windows of `width` adjoining cells, over all times, shape (m, width).

        A pattern numbers the labels of a window; a cell that is missing or has no label has the
        number `NO_LABEL`.
        """
        wider = [known for known in self._known if known >= width]
        if not wider:
            self._known[width] = self._find_patterns(width)
            return self._known[width]
        # Every window is the beginning of a wider one.
        return self._known[min(wider)][:, :width]

    def _find_patterns(self, width: int) -> IntArray:
        if self.size == self.labels.size and self.members.max(initial=0) <= 1:
            # Every cell has a label of its own, and missing cells only remove limits.
            return np.arange(width)[None, :]
        line = np.full(int(self.places[-1]) + 1 + 2 * (width - 1), NO_LABEL)
        line[self.places + width - 1] = self.labels
        return _numbered(
            np.lib.stride_tricks.sliding_window_view(line, width)[_different(line, width)]
        )


def _different(line: IntArray, width: int) -> IntArray:
    """Starts of windows of a line of labels, at least one for each pattern.

    The steps between neighbouring labels, and where there are none, determine a pattern. Windows
    are told apart by Σ code_i·b^i modulo 2⁶⁴ over these codes: of n windows, two different ones
    have the same sum with a probability of about n²·2⁻⁶⁵.
    """
    there = line >= 0
    code = 2 * np.diff(line, prepend=0).astype(np.uint64) + there
    powers = np.cumprod(np.full(line.size, BASE, dtype=np.uint64))
    shifts = np.cumprod(np.full(line.size, pow(BASE, -1, 1 << 64), dtype=np.uint64))
    total = np.cumsum(code * powers)
    count = line.size - width + 1
    sums = (total[width - 1 :] - total[:count]) * shifts[:count] + there[:count]
    return np.unique(sums, return_index=True)[1]


def _numbered(windows: IntArray) -> IntArray:
    """Number the labels of each row from 0 on, in the order of their size; `NO_LABEL` stays."""
    order = np.argsort(windows, axis=1)
    ranked = np.take_along_axis(windows, order, axis=1)
    new = np.diff(ranked, axis=1, prepend=NO_LABEL) > 0
    ranks = np.where(ranked < 0, NO_LABEL, np.cumsum(new, axis=1) - 1)
    numbers = np.empty_like(windows)
    np.put_along_axis(numbers, order, ranks, axis=1)
    return numbers


def every_cell(count: int) -> Table:
    """The series itself: every cell has a label of its own."""
    return Table("cells", np.arange(count), count)


def sensitivity(table: Table, change: Change, grid: Fraction) -> float:
    """Largest Euclidean length of the change of all sums of a table [grid steps].

    Parameters
    ----------
    table : Table
        The labels of the cells.
    change : Change
        The protected change; its released values are the cells.
    grid : Fraction
        Grid of the cells [W].

    Returns
    -------
    float
        A whole number of grid steps that no change exceeds.
    """
    touched = change.own_touches // change.places
    length = change.effect_s / change.value_s
    readings = min(float(touched), change.overlapped / change.window)
    register = _Register.of(table, change, grid)
    borders = _overlaps(length)
    patterns = table.patterns(max(borders.shape[1], touched))
    counts = _sorted_sums(patterns[:, :touched], np.ones(touched))
    limits = [_sorted_sums(patterns[:, : borders.shape[1]], shares) for shares in borders]
    rounded = np.linalg.norm(counts, axis=1)
    watts = change.power * _majorised(limits, change.full_values)
    watts += change.resolution_w * np.linalg.norm(_filled(counts, readings), axis=1)
    own = math.sqrt(change.places) * watts + register.watts(rounded)
    turned = register.turned or math.sqrt(change.places) * rounded
    return float(np.ceil(own / float(grid) + turned * (1 + float(ROUNDING_SLACK))).max())


@dataclass(frozen=True, eq=False)
class Rearrangement:
    """Use that neighbours have in another order, and how the meter counts it."""

    orbits: IntArray  # Group of every cell; neighbours have the same sum in every group
    periods: IntArray  # Period of every cell, at whose borders a counter is the same for both
    within_days: bool  # True if single readings change, and not only the order of the days
    window: int  # Metered readings W per cell
    metering: Metering = IDEAL  # How the meter rounds

    def length(self, table: Table, grid: Fraction) -> float:
        """Largest Euclidean length of the change of all sums of a table [grid steps].

        It is 0 for a free table, and infinite if a table shows the order itself.
        """
        inside = table.labels >= 0
        if not _is_union(table.labels, self.orbits):
            return math.inf
        own = Table("orbits", self.orbits, int(self.orbits.max()) + 1, table.positions)
        if not self._watts(own).any():
            return 0.0
        pairs = np.unique(np.stack([table.labels[inside], self.orbits[inside]]), axis=1)
        rounded = np.bincount(pairs[0], minlength=table.size)
        return float(np.linalg.norm(np.ceil(self._watts(table) / float(grid)) + rounded))

    def _watts(self, table: Table) -> FloatArray:
        """Most that the meter moves the sum of every label of a table [W]."""
        watts = self.within_days * self.metering.resolution_w * table.members.astype(float)
        if self.metering.register_step_w:
            inside_periods = not _is_union(table.labels, self.periods)
            step_w = self.metering.register_step_w / self.window
            watts += 2 * step_w * inside_periods * table.stretches
        return np.asarray(watts)


def _is_union(labels: IntArray, groups: IntArray) -> bool:
    """True if all cells of a group have the same label."""
    first = np.unique(groups, return_index=True, return_inverse=True)
    return bool((labels == labels[first[1]][first[2]]).all())


def _sorted_sums(patterns: IntArray, shares: FloatArray) -> FloatArray:
    """Sums of the shares of the cells of every label, largest first, for each pattern."""
    rows, size = patterns.shape[0], int(patterns.max()) + 2
    places = patterns - NO_LABEL + size * np.arange(rows)[:, None]
    sums = np.bincount(places.ravel(), np.tile(shares, rows), rows * size).reshape(rows, size)
    # The first sum is that of the cells without a label.
    return np.sort(sums[:, 1:].astype(np.float64), axis=1)[:, ::-1]


def _overlaps(length: float) -> FloatArray:
    """Shares o_i of the cells in a stretch of `length` cells at the borders of one place.

    The stretch begins with the first cell, ends with a cell, or begins with the second cell.
    """
    cells = math.ceil(length - 1e-9)
    starts = np.array([0.0, cells - min(length, cells), 1.0])
    first = np.arange(cells + 1.0)
    ends = np.minimum(first + 1, (starts + length)[:, None])
    overlaps: FloatArray = np.clip(ends - np.maximum(first, starts[:, None]), 0.0, 1.0)
    return overlaps


def _majorised(limits: Sequence[FloatArray], total: float) -> FloatArray:
    """Lengths of the vectors d that majorise every change within the limits of each place."""
    partial = np.minimum(np.cumsum(limits, axis=2).max(axis=0), total)
    steps = np.diff(partial, axis=1, prepend=0.0)
    lengths = np.linalg.norm(steps, axis=1)
    for row in np.flatnonzero((np.diff(steps, axis=1) > 0).any(axis=1)):
        lengths[row] = np.linalg.norm(_concave_steps(partial[row]))
    return np.asarray(lengths)


def _concave_steps(partial: FloatArray) -> FloatArray:
    """Differences of the least concave majorant of partial sums."""
    hull = [(0, 0.0)]
    for point in enumerate(partial.tolist(), 1):
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) <= _slope(hull[-1], point):
            hull.pop()
        hull.append(point)
    places, heights = zip(*hull, strict=True)
    return np.diff(np.interp(np.arange(partial.size + 1), places, heights))


def _slope(left: tuple[int, float], right: tuple[int, float]) -> float:
    """Rise between two points for each step to the right."""
    return (right[1] - left[1]) / (right[0] - left[0])


def _filled(limits: FloatArray, total: float) -> FloatArray:
    """The longest vectors within sorted limits and with a given sum: the largest fill first."""
    return np.diff(np.minimum(np.cumsum(limits, axis=1), total), axis=1, prepend=0.0)


@dataclass(frozen=True)
class _Register:
    """What the phase of a register adds to the length of a table."""

    # Most that the phase moves one stretch of adjoining cells [W]; 0 without a register
    step_w: float = 0.0
    # Σ u_g², and the largest sum of u_g over the touched cells of one place
    squares: float = 0.0
    touched: float = 0.0
    places: int = 1  # Places of the change
    # √(Σ N_g²) of all N_g cells of the labels, if the phase moves cells between grid steps
    turned: float = 0.0

    @classmethod
    def of(cls, table: Table, change: Change, grid: Fraction) -> _Register:
        """The register of the meter that a change describes."""
        if not change.register_w:
            return cls()
        positions, inside = table.places, table.labels >= 0
        telescopes = change.metering.copies == 1 and change.metering.stretch == 1
        stretches = (table.stretches if telescopes else table.members).astype(float)
        line = np.zeros(int(positions[-1]) + 1)
        line[positions[inside]] = stretches[table.labels[inside]]
        width = min(change.own_touches // change.places, line.size)
        touched = np.convolve(line, np.ones(width)).max()
        whole = (exact("step", change.register_w) / grid).denominator == 1
        turned = 0.0 if whole else float(np.linalg.norm(table.members))
        return cls(
            change.register_w, float((stretches**2).sum()), float(touched), change.places, turned
        )

    def watts(self, rounded: FloatArray) -> FloatArray:
        """What is added in a place [W] whose touched cells have the length √(Σ n_g²)."""
        more = 2 * self.places * self.touched + (self.places * rounded) ** 2
        return np.asarray(self.step_w * np.sqrt(self.squares + more))
