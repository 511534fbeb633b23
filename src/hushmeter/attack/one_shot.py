"""One-shot inference: problems (P1)–(P4) of the paper (Sections II-B and III-B).

Given a jump K_t of the meter and the powers P, which appliances switched? (P4) is (P3) with the
jump of the noisy readings, so one solver serves both.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.attack.base import Observed
from hushmeter.attack.fill_kernels import (
    fill_available,
    fill_largest_first,
    follow_available,
)
from hushmeter.attack.increments import IncrementAttacker
from hushmeter.attack.sums.subset_sums import SubsetSearch
from hushmeter.attack.sums.subset_tables import NANOWATTS, unpack
from hushmeter.checks import (
    BoolArray,
    FloatArray,
    IntArray,
    RngLike,
    finite_vector,
    one_of,
    positive,
    power_vector,
)
from hushmeter.errors import DataError, InputError
from hushmeter.home import Home


def solve_relaxed(powers: ArrayLike, jumps: ArrayLike, tolerance: float) -> FloatArray:
    """(P3) and (P4): min ‖Δ‖₁ subject to |Δ·P − K| ≤ δ, Δ ∈ [0, 1]^N, for all jumps at once.

    Closed form: with r = max(K − δ, 0) and c_i the total power of the appliances ranked before
    i (largest first, equal powers in index order), Δ_i = clip((r − c_i)/P_i, 0, 1). Filling the
    largest first is feasible, and with j the appliance filled in part the dual point 1/P_j,
    (P_i/P_j − 1)₊ has the same value, so it is optimal. Whatever switched, (P3) therefore names
    the largest appliances.

    Parameters
    ----------
    powers : array_like, shape (N,)
        P [W].
    jumps : array_like, shape (T,)
        K [W], not negative.
    tolerance : float
        δ [W].

    Returns
    -------
    array, shape (T, N)
        Switch probabilities. Where K > ΣP + δ the problem is infeasible and all are one: see
        `is_saturated`.

    Notes
    -----
    Reading of the paper: its strict < would leave the minimum unattained; ≤ is used.
    """
    watts, steps, tolerance = _check_problem(powers, jumps, tolerance)
    switches = np.empty((steps.size, watts.size))
    fill_largest_first(steps, tolerance, watts, _power_before(watts), switches)
    return switches


def is_saturated(powers: ArrayLike, jumps: ArrayLike, tolerance: float) -> BoolArray:
    """Where even all appliances together cannot explain the jump: K > ΣP + δ, shape (T,)."""
    watts, steps, tolerance = _check_problem(powers, jumps, tolerance)
    beyond: BoolArray = steps > watts.sum() + tolerance
    return beyond


def relaxed_cardinality(powers: ArrayLike, jumps: ArrayLike, tolerance: float) -> IntArray:
    """(P2): min ‖Δ‖₀ with Δ ∈ [0, 1]^N is min{k : Σ(k largest) ≥ K − δ}, shape (T,).

    `solve_relaxed` attains it, so it also solves (P2). N + 1 where K > ΣP + δ (infeasible).

    Lemma 1 of the paper says that (P1) needs as many switches. It holds if Assumption 3 is asked
    for every U up to and including U_t; as printed (U < U_t) it fails for
    P = (100, 100, 250), K = 200, δ = 2: (P2) needs one switch, (P1) two.
    """
    watts, steps, tolerance = _check_problem(powers, jumps, tolerance)
    reach = np.concatenate([[0.0], np.cumsum(np.sort(watts)[::-1])])
    fewest: IntArray = np.searchsorted(reach, steps - tolerance).astype(np.int64)
    return fewest


@dataclass(frozen=True)
class ExactSolution:
    """The optimum of (P1) for every jump.

    Attributes
    ----------
    switches : array of bool, shape (T, N)
    feasible : array of bool, shape (T,)
        Whether any subset lies within the tolerance; elsewhere `switches` is the nearest subset.
    residuals : array, shape (T,)
        |Δ·P − K| [W].
    ties : array of int, shape (T,)
        How many subsets of the smallest size lie within the tolerance.
    """

    switches: BoolArray
    feasible: BoolArray
    residuals: FloatArray
    ties: IntArray

    @cached_property
    def cardinality(self) -> IntArray:
        """‖Δ‖₀, shape (T,)."""
        sizes: IntArray = self.switches.sum(axis=1)
        return sizes


def solve_exact(powers: ArrayLike, jumps: ArrayLike, tolerance: float) -> BoolArray:
    """(P1): min ‖Δ‖₀ subject to |Δ·P − K| ≤ δ, Δ ∈ {0, 1}^N, for all jumps at once.

    Of the optima the one with the smallest residual is returned, then the one whose index list
    comes first. Where (P1) is infeasible the subset nearest to K is returned. Parameters as in
    `solve_relaxed`; `examine_exact` also tells residuals, feasibility and the number of optima.
    """
    return examine_exact(powers, jumps, tolerance).switches


def examine_exact(
    powers: ArrayLike,
    jumps: ArrayLike,
    tolerance: float,
    *,
    available: BoolArray | None = None,
    method: str = "auto",
) -> ExactSolution:
    """(P1) in full; `available` (T, N) restricts each jump to those appliances.

    `method` names the search ("table", "halves", "milp"); they agree, see `SubsetSearch`.
    """
    watts, steps, tolerance = _check_problem(powers, jumps, tolerance)
    if available is not None and available.shape != (steps.size, watts.size):
        raise InputError(
            f"available must have shape {(steps.size, watts.size)}, got {available.shape}."
        )
    answers = SubsetSearch(watts, tolerance, method).search(steps, available)
    return ExactSolution(
        switches=unpack(answers.masks, watts.size),
        feasible=answers.ties > 0,
        residuals=answers.residuals / NANOWATTS,
        ties=answers.ties,
    )


def round_switches(
    probabilities: FloatArray, *, rounding: str = "bernoulli", rng: RngLike = None
) -> BoolArray:
    """Round each entry to 1 with its own probability (the paper), or at ½ ("threshold")."""
    one_of("rounding", rounding, ("bernoulli", "threshold"))
    if rounding == "threshold":
        return probabilities >= 0.5
    return np.random.default_rng(rng).random(probabilities.shape) < probabilities


class OneShot(IncrementAttacker):
    """One-shot attacker: each jump on its own, the state of the reading before taken as known.

    Parameters
    ----------
    home : Home
    solver : {"relaxed", "exact"}
        (P3) with rounding, as in the paper, or (P1).
    direction : {"absolute", "signed"}
        The paper's K = |y_t − y_{t−1}|, or signed jumps: a rise may only switch on what is off,
        a fall only switch off what is on.
    rounding : {"bernoulli", "threshold"}
        For the relaxed solver.
    unexplained : {"nearest", "none"}
        What the exact solver answers where (P1) is infeasible: the subset nearest to the jump,
        or that nothing switched.

    Notes
    -----
    The paper gives this attacker X_{t−1}: pass `known_states` to `predict_switches` for that.
    `predict` has no truth and goes on from its own last answer. An appliance with several levels
    is attacked as its increments (`Increments`).
    """

    name: ClassVar[str] = "one-shot"
    needs: ClassVar[str] = "appliance powers, the state at the first reading"
    assumes: ClassVar[str] = "few switches at a time; every jump explained on its own"
    recovers_with: ClassVar[dict[str, str] | None] = {"solver": "exact", "direction": "signed"}

    def __init__(
        self,
        home: Home,
        *,
        solver: str = "relaxed",
        direction: str = "absolute",
        rounding: str = "bernoulli",
        unexplained: str = "nearest",
    ) -> None:
        super().__init__(home)
        self.solver = one_of("solver", solver, ("relaxed", "exact"))
        self.direction = one_of("direction", direction, ("absolute", "signed"))
        self.rounding = one_of("rounding", rounding, ("bernoulli", "threshold"))
        self.unexplained = one_of("unexplained", unexplained, ("nearest", "none"))

    def predict_switches(
        self,
        readings: Observed,
        *,
        known_states: BoolArray | None = None,
        initial_state: ArrayLike | None = None,
        rng: RngLike = None,
    ) -> BoolArray:
        """Δ̄_t for every reading, shape (T, N); row 0 and the start of every run are all False.

        `known_states` (T, N) are the true states; row t − 1 is what is known at reading t.
        """
        start = self.increments.expand(self._initial_state(initial_state))
        known = None if known_states is None else self.increments.expand(known_states)
        return self.increments.collapse(self._switch(readings, known, start, rng))

    def _predict_increments(
        self, readings: Observed, initial_state: ArrayLike | None, rng: RngLike
    ) -> BoolArray:
        """The initial state, flipped by every predicted switch since."""
        start = self.increments.expand(self._initial_state(initial_state))
        switches = self._switch(readings, None, start, rng)
        switches[0] = start
        return np.logical_xor.accumulate(switches, axis=0)

    def _switch(
        self, readings: Observed, known: BoolArray | None, start: BoolArray, rng: RngLike
    ) -> BoolArray:
        """Switches of the increments, shape (T, M)."""
        jumps = self._jumps(readings, signed=self.direction == "signed")
        if self.direction == "absolute":
            return self._solve(jumps, None, rng)
        if known is not None:
            before = np.vstack([known[:1], known[:-1]])
            return self._solve(jumps, before ^ (jumps > 0)[:, None], rng)
        return self._follow(jumps, start, rng)

    def _solve(self, jumps: FloatArray, available: BoolArray | None, rng: RngLike) -> BoolArray:
        """Switches for jumps whose available appliances are known beforehand."""
        sizes = np.abs(jumps)
        if self.solver == "exact":
            answers = self._search.search(sizes, available)
            kept = (answers.ties > 0) | (self.unexplained == "nearest")
            return unpack(np.where(kept, answers.masks, 0), len(self._parts))
        order = self._ranking()
        powers = self._parts.powers[order]
        if available is None:
            shares = solve_relaxed(powers, sizes, self._parts.tolerance)
        else:
            shares = np.empty((jumps.size, powers.size))
            fill_available(sizes, self._parts.tolerance, powers, available[:, order], shares)
        switches = np.empty(shares.shape, np.bool_)
        switches[:, order] = round_switches(shares, rounding=self.rounding, rng=rng)
        return switches

    def _follow(self, jumps: FloatArray, state: BoolArray, rng: RngLike) -> BoolArray:
        """Switches when each answer decides what is available to the next jump."""
        if self.solver == "exact":
            return self._search.follow(jumps, state, nearest=self.unexplained == "nearest")
        order = self._ranking()
        shape = (int((np.abs(jumps) > self._parts.tolerance).sum()), order.size)
        if self.rounding == "bernoulli":
            draws = np.random.default_rng(rng).random(shape)
        else:
            draws = np.full(shape, np.nextafter(0.5, 0.0))
        ranked = np.zeros((jumps.size, order.size), np.bool_)
        follow_available(
            jumps, self._parts.tolerance, self._parts.powers[order], state[order], draws, ranked
        )
        switches = np.empty_like(ranked)
        switches[:, order] = ranked
        return switches

    def _ranking(self) -> IntArray:
        """Largest first. Rounding is done in this order, so that no other order matters."""
        return np.argsort(-self._parts.powers, kind="stable")

    @cached_property
    def _search(self) -> SubsetSearch:
        return SubsetSearch(self._parts.powers, self._parts.tolerance)

    @property
    def _parts(self) -> Home:
        """What switches: the appliances, or their increments."""
        return self.increments.home


def _check_problem(
    powers: ArrayLike, jumps: ArrayLike, tolerance: float
) -> tuple[FloatArray, FloatArray, float]:
    watts = power_vector(powers)
    steps = finite_vector("jumps", jumps)
    if steps.size and steps.min() < 0:
        row = int(steps.argmin())
        raise DataError(f"jumps must not be negative (K = |y_t − y_(t−1)|), but row {row} is.")
    return watts, steps, positive("tolerance", tolerance)


def _power_before(powers: FloatArray) -> FloatArray:
    """Total power ranked before each appliance, largest first, ties in index order."""
    order = np.argsort(-powers, kind="stable")
    before = np.empty_like(powers)
    before[order] = np.concatenate([[0.0], np.cumsum(powers[order])[:-1]])
    return before
