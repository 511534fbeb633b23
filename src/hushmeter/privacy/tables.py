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

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
    """

    name: str
    labels: IntArray
    size: int

    @cached_property
    def members(self) -> IntArray:
        """Number of cells of every label, shape (size,)."""
        return np.bincount(self.labels[self.labels >= 0], minlength=self.size)

    def sums(self, cells: FloatArray) -> FloatArray:
        """Sums of the cells of every label, shape (size,)."""
        inside = self.labels >= 0
        return np.bincount(self.labels[inside], cells[inside], self.size).astype(np.float64)


def every_cell(count: int) -> Table:
    """The series itself: every cell has a label of its own."""
    return Table("cells", np.arange(count), count)


def sensitivity(table: Table, positions: IntArray, change: Change, grid: Fraction) -> float:
    """Largest Euclidean length of the change of all sums of a table [grid steps].

    Parameters
    ----------
    table : Table
        The labels of the cells.
    positions : array of int, shape (n,)
        Position of every cell in time, in cells from the first one; ascending, with jumps at gaps.
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
    length = change.metering.copies * change.seconds / change.value_s
    readings = min(float(touched), change.overlapped / change.window)
    register = _Register.of(table, positions, change, grid)
    longest = 0.0
    for counts, limits in _places(table, positions, length, touched):
        watts = change.watts * _majorised(limits, change.full_values)
        watts += change.metering.resolution_w * _filled(counts, readings)
        rounded = float(np.linalg.norm(counts))
        own = math.sqrt(change.places) * watts + register.watts(rounded)
        turned = register.turned if register.turned else math.sqrt(change.places) * rounded
        longest = max(longest, own / float(grid) + turned * (1 + float(ROUNDING_SLACK)))
    return float(math.ceil(longest))


def _places(
    table: Table, positions: IntArray, length: float, touched: int
) -> Iterator[tuple[FloatArray, list[FloatArray]]]:
    """Touched cells n_g of the labels, and the limits C_g at the three borders, of every place.

    Places with the same pattern of labels differ in nothing, so each pattern occurs once.
    """
    borders = _overlaps(length)
    width = max(borders.shape[1], touched)
    for pattern in _patterns(table, positions, width):
        known = pattern >= 0
        _, group = np.unique(pattern[known], return_inverse=True)
        counts = np.bincount(group[np.flatnonzero(known) < touched])
        shares = np.zeros((borders.shape[0], width))
        shares[:, : borders.shape[1]] = borders
        limits = [np.bincount(group, share[known]).astype(float) for share in shares]
        yield counts.astype(float), limits


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


def _patterns(table: Table, positions: IntArray, width: int) -> IntArray:
    """The different windows of `width` labels over all places, shape (m, width).

    Labels are counted from the smallest of the window, so that windows that differ in nothing but
    the day or the month are equal. A cell that is missing or has no label is negative.
    """
    if table.size == table.labels.size and table.members.max(initial=0) == 1:
        # Missing cells only remove limits.
        return np.arange(width)[None, :]
    line = np.full(int(positions[-1]) + 1 + 2 * (width - 1), NO_LABEL)
    line[positions + width - 1] = table.labels
    windows = np.lib.stride_tricks.sliding_window_view(line, width)
    there = windows >= 0
    lowest = np.where(there, windows, table.size).min(axis=1, keepdims=True)
    relative = np.where(there, windows - lowest, NO_LABEL)[there.any(axis=1)]
    # Equal windows have equal sums; the comparison makes sure that no two others have.
    mixed = relative @ (2 * np.arange(1, width + 1) ** 3 * 1_000_003 + 1)
    _, first, place = np.unique(mixed, return_index=True, return_inverse=True)
    if np.array_equal(relative[first][place], relative):
        return relative[first]
    return np.unique(relative, axis=0)


def _majorised(limits: Sequence[FloatArray], total: float) -> float:
    """Length of the vector d that majorises every change within the limits of one place."""
    size = limits[0].size
    sums = np.cumsum([np.sort(own)[::-1] for own in limits], axis=1).max(axis=0)
    sums = np.minimum(sums, total)
    hull = [(0, 0.0)]
    for point in zip(range(1, size + 1), sums.tolist(), strict=True):
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) <= _slope(hull[-1], point):
            hull.pop()
        hull.append(point)
    squares = [
        (right[0] - left[0]) * _slope(left, right) ** 2 for left, right in itertools.pairwise(hull)
    ]
    return math.sqrt(math.fsum(squares))


def _slope(left: tuple[int, float], right: tuple[int, float]) -> float:
    """Rise between two points for each step to the right."""
    return (right[1] - left[1]) / (right[0] - left[0])


def _filled(limits: FloatArray, total: float) -> float:
    """Length of the longest vector within limits and with a given sum: the largest fill first."""
    before = np.cumsum(np.sort(limits)[::-1])
    parts = np.diff(np.minimum(before, total), prepend=0.0)
    return float(np.linalg.norm(parts))


@dataclass(frozen=True)
class _Register:
    """What the phase of a register adds to the length of a table.

    Attributes
    ----------
    step_w : float
        Most that the phase moves one stretch of adjoining cells [W]; 0 without a register.
    squares, touched : float
        Σ u_g², and the largest sum of u_g over the touched cells of one place.
    places : int
        Places of the change.
    turned : float
        √(Σ N_g²) of all N_g cells of the labels, if the phase moves cells between grid steps.
    """

    step_w: float = 0.0
    squares: float = 0.0
    touched: float = 0.0
    places: int = 1
    turned: float = 0.0

    @classmethod
    def of(cls, table: Table, positions: IntArray, change: Change, grid: Fraction) -> _Register:
        """The register of the meter that a change describes."""
        if not change.register_w:
            return cls()
        fresh = np.ones(positions.size, dtype=np.bool_)
        if change.metering.copies == 1:
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

    def watts(self, rounded: float) -> float:
        """What is added in a place [W] whose touched cells have the length √(Σ n_g²)."""
        more = 2 * self.places * self.touched + (self.places * rounded) ** 2
        return self.step_w * math.sqrt(self.squares + more) if self.step_w else 0.0
