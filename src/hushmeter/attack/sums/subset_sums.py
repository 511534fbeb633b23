"""Which subset of powers explains a jump? Exact search behind problem (P1).

Among the subsets within the tolerance the one with the fewest members wins, then the nearest, then
the one whose list of indices comes first. Where no subset lies within the tolerance the nearest
wins, then the one with the fewest members, then the first. Every method gives the same answer.
"""

from __future__ import annotations

import numpy as np

from hushmeter.attack.sums.subset_kernels import (
    follow_halves,
    follow_table,
    search_halves,
    search_table,
)
from hushmeter.attack.sums.subset_programme import SLACK, solve_programme
from hushmeter.attack.sums.subset_tables import Answers, pack, tabulate, to_nanowatts, unpack
from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.errors import InputError

TABLE_LIMIT = 20
HALVES_LIMIT = 32
MILP_LIMIT = 63


class SubsetSearch:
    """The nearest smallest subset for many jumps.

    Parameters
    ----------
    powers : array, shape (N,)
        [W]
    tolerance : float
        [W]
    method : {"auto", "table", "halves", "milp"}
        A table of all 2^N sums (up to 20 appliances), meet in the middle (up to 32), or a
        mixed-integer programme (up to 63), whose answer is checked to 10 µW; its ties are not
        counted and not broken by index.
    """

    def __init__(self, powers: FloatArray, tolerance: float, method: str = "auto") -> None:
        self.n = int(powers.size)
        self.powers = to_nanowatts(powers)
        self.tolerance = int(to_nanowatts(np.array([tolerance]))[0])
        self.method = self._choose(method)
        cuts = {"table": [], "halves": [self.n // 2]}.get(self.method)
        pieces = [] if cuts is None else np.split(self.powers, cuts)
        self._parts = [tabulate(piece) for piece in pieces]

    def _choose(self, method: str) -> str:
        limits = {"table": TABLE_LIMIT, "halves": HALVES_LIMIT, "milp": MILP_LIMIT}
        if self.n > MILP_LIMIT:
            raise InputError(
                f"exact search serves {MILP_LIMIT} appliances or increments at most, not {self.n}."
            )
        if method == "auto":
            return next(name for name, limit in limits.items() if self.n <= limit)
        if method not in limits:
            raise InputError(f"method must be auto, table, halves or milp; got {method!r}.")
        if self.n > limits[method]:
            raise InputError(f"method {method!r} serves {limits[method]} appliances at most.")
        return method

    def search(self, jumps: FloatArray, available: BoolArray | None = None) -> Answers:
        """Answer every jump [W]; with `available` (T, N), only from those appliances."""
        targets = to_nanowatts(jumps)
        if available is None:
            allowed = np.full(targets.size, (1 << self.n) - 1, dtype=np.int64)
        else:
            allowed = pack(available)
        answers = Answers(*(np.zeros(targets.size, np.int64) for _ in range(3)))
        if self.method == "table":
            search_table(self._parts[0], targets, self.tolerance, allowed, answers)
        elif self.method == "halves":
            high, low = self._parts
            search_halves(high, low, targets, self.tolerance, allowed, answers)
        else:
            self._search_milp(targets, allowed, answers)
        return answers

    def follow(self, jumps: FloatArray, start: BoolArray, *, nearest: bool) -> BoolArray:
        """Switches (T, N) that answer signed jumps [W] in turn, from the states `start` (N,).

        A rise is answered from what is off by then, a fall from what is on. A jump that no subset
        explains is answered by the `nearest` one, or by none.
        """
        targets = to_nanowatts(jumps)
        masks = np.zeros(targets.size, np.int64)
        state, everything = pack(start[None, :])[0], (1 << self.n) - 1
        if self.method == "table":
            table = self._parts[0]
            follow_table(table, targets, self.tolerance, state, everything, nearest, masks)
        elif self.method == "halves":
            high, low = self._parts
            follow_halves(high, low, targets, self.tolerance, state, everything, nearest, masks)
        else:
            self._follow_milp(targets, int(state), everything, nearest, masks)
        return unpack(masks, self.n)

    def _search_milp(self, targets: IntArray, allowed: IntArray, answers: Answers) -> None:
        for t, target in enumerate(targets):
            members = np.flatnonzero(unpack(allowed[t : t + 1], self.n)[0])
            chosen = np.zeros(self.n, np.bool_)
            chosen[members] = solve_programme(self.powers[members], int(target), self.tolerance)
            residual = abs(int(self.powers[chosen].sum()) - int(target))
            answers.masks[t] = pack(chosen[None, :])[0]
            answers.residuals[t] = residual
            answers.ties[t] = residual <= self.tolerance + SLACK

    def _follow_milp(
        self, targets: IntArray, state: int, everything: int, nearest: bool, masks: IntArray
    ) -> None:
        for t in np.flatnonzero(np.abs(targets) > self.tolerance):
            allowed = np.array([everything & ~state if targets[t] > 0 else state])
            answer = Answers(*np.zeros((3, 1), np.int64))
            self._search_milp(np.abs(targets[t : t + 1]), allowed, answer)
            masks[t] = answer.masks[0] if nearest or answer.ties[0] else 0
            state ^= int(masks[t])
