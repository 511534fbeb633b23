r"""Tables of cells, and how far a protected change can move the sums of any of them.

The metered readings become *cells*: means over V seconds, rounded to a grid. A *table* gives a
public label to each cell and publishes one noisy sum for each label. The series itself (every cell
its own label), days, hours of the day, months and tariff bands are tables.

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

from hushmeter.checks import FloatArray, IntArray
from hushmeter.noise.parameters import ROUNDING_SLACK, exact

if TYPE_CHECKING:
    from fractions import Fraction

    from hushmeter.privacy.sensitivity import Change

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
        positions = table.places
        fresh = np.ones(positions.size, dtype=np.bool_)
        if change.metering.copies == 1 and change.metering.stretch == 1:
            fresh[1:] = (np.diff(positions) > 1) | (np.diff(table.labels) != 0)
        inside = table.labels >= 0
        stretches = np.bincount(table.labels[fresh & inside], minlength=table.size).astype(float)
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
