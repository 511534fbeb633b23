"""One-shot inference: problems (P1) to (P4) of the paper (Sections II-B and III-B).

Given a jump K_t of the meter and the powers P of the appliances, which appliances switched? (P4)
is (P3) with the jumps of noisy readings, so one solver serves both.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.attack.base import Attacker, Observation, Observed
from hushmeter.attack.level_search import NANOWATTS, SubsetSearch, unpack
from hushmeter.attack.levels import Increments
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
from hushmeter.compiled import compiled
from hushmeter.errors import DataError, InputError
from hushmeter.home import Home


def solve_relaxed(
    powers: ArrayLike, jumps: ArrayLike, tolerance: float, *, unexplained: str = "all"
) -> FloatArray:
    """Problems (P3) and (P4). Switch probabilities of the relaxed one-shot problem.

    The problem is min ‖Δ‖₁ subject to |Δ·P − K| ≤ δ and Δ ∈ [0, 1]^N, for every jump K.

    Parameters
    ----------
    powers : array_like, shape (N,)
        Appliance powers P. [W]
    jumps : array_like, shape (T,)
        Absolute jumps K of the meter, not negative. [W]
    tolerance : float
        Tolerance δ. [W]
    unexplained : {"all", "none", "error"}
        Answer where K > ΣP + δ, so that the problem is infeasible (see `is_saturated`): every
        appliance switches, no appliance switches, or there is no answer.

    Returns
    -------
    array, shape (T, N)
        Switch probabilities in [0, 1]; NaN where there is no answer.

    Raises
    ------
    InputError, DataError
        If a power or the tolerance is not positive, or a jump is negative or not finite.

    Notes
    -----
    The solution has a closed form. Let r = max(K − δ, 0), and let c_i be the total power of the
    appliances ranked before i, the largest first and equal powers in index order. Then

        Δ_i = clip((r − c_i) / P_i, 0, 1).

    Filling the largest appliance first is feasible. If j is the appliance that is filled in part,
    the dual point 1/P_j, (P_i/P_j − 1)₊ has the same value, so the solution is optimal. (P3)
    therefore always names the largest appliances, whichever appliances switched.

    Reading of the paper: with the paper's strict < the minimum is not attained; ≤ is used. The
    paper does not define the answer to an infeasible jump. Its authors count it as N errors in
    one-shot inference ("error") and as no switch in multi-shot inference ("none").
    """
    one_of("unexplained", unexplained, ("all", "none", "error"))
    watts, steps, tolerance = _check_problem(powers, jumps, tolerance)
    switches = np.empty((steps.size, watts.size))
    _fill_largest_first(steps, tolerance, watts, power_before(watts), switches)
    if unexplained != "all":
        beyond = steps > watts.sum() + tolerance
        switches[beyond] = 0.0 if unexplained == "none" else np.nan
    return switches


def is_saturated(powers: ArrayLike, jumps: ArrayLike, tolerance: float) -> BoolArray:
    """Find the jumps that all appliances together cannot explain: K > ΣP + δ.

    Parameters
    ----------
    powers, jumps, tolerance
        As in `solve_relaxed`.

    Returns
    -------
    array of bool, shape (T,)
    """
    watts, steps, tolerance = _check_problem(powers, jumps, tolerance)
    beyond: BoolArray = steps > watts.sum() + tolerance
    return beyond


def relaxed_cardinality(powers: ArrayLike, jumps: ArrayLike, tolerance: float) -> IntArray:
    """Problem (P2). The smallest number of switches with Δ ∈ [0, 1]^N.

    Parameters
    ----------
    powers, jumps, tolerance
        As in `solve_relaxed`.

    Returns
    -------
    array of int, shape (T,)
        The optimum min ‖Δ‖₀; N + 1 where the problem is infeasible (K > ΣP + δ).

    Notes
    -----
    The optimum is min{k : sum of the k largest powers ≥ K − δ}. `solve_relaxed` attains it, so
    its solution also solves (P2).

    Lemma 1 of the paper states that (P1) needs the same number of switches. This is true if
    Assumption 3 holds for every U up to and including U_t. As printed (U < U_t) it is false for
    P = (100, 100, 250), K = 200, δ = 2: (P2) needs one switch and (P1) needs two.
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
        Appliances that switch.
    feasible : array of bool, shape (T,)
        Whether any subset is within the tolerance; elsewhere `switches` is the nearest subset.
    residuals : array, shape (T,)
        Distance |Δ·P − K|. [W]
    ties : array of int, shape (T,)
        Number of subsets of the smallest size that are within the tolerance.
    """

    switches: BoolArray
    feasible: BoolArray
    residuals: FloatArray
    ties: IntArray

    @cached_property
    def cardinality(self) -> IntArray:
        """Number of switches ‖Δ‖₀, shape (T,)."""
        sizes: IntArray = self.switches.sum(axis=1)
        return sizes


def solve_exact(powers: ArrayLike, jumps: ArrayLike, tolerance: float) -> BoolArray:
    """Problem (P1). The smallest set of appliances that explains each jump.

    The problem is min ‖Δ‖₀ subject to |Δ·P − K| ≤ δ and Δ ∈ {0, 1}^N, for every jump K.

    Parameters
    ----------
    powers, jumps, tolerance
        As in `solve_relaxed`.

    Returns
    -------
    array of bool, shape (T, N)
        Among several optima, the one with the smallest residual, then the one whose list of
        indices comes first. Where (P1) is infeasible, the subset whose power is nearest to K.

    See Also
    --------
    examine_exact : also returns residuals, feasibility and the number of optima.
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
    """Problem (P1) with residuals, feasibility and the number of optima.

    Parameters
    ----------
    powers, jumps, tolerance
        As in `solve_relaxed`.
    available : array of bool, shape (T, N), optional
        Appliances that may explain each jump; all if it is not given.
    method : {"auto", "table", "halves", "milp"}
        Search method; all methods give the same answer: see `SubsetSearch`.

    Returns
    -------
    ExactSolution

    Raises
    ------
    InputError
        If `available` has another shape or the method cannot serve this number of appliances.
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
    """Round switch probabilities to switches."""
    one_of("rounding", rounding, ("bernoulli", "threshold"))
    if rounding == "threshold":
        return probabilities >= 0.5
    return np.random.default_rng(rng).random(probabilities.shape) < probabilities


class IncrementAttacker(Attacker):
    """An attacker of on and off that treats appliances with levels as their increments.

    A subclass implements `_predict_increments`.
    """

    needs: ClassVar[str] = "appliance powers, the state at the first reading"
    recovers_with: ClassVar[dict[str, str] | None] = {"solver": "exact", "direction": "signed"}

    def __init__(self, home: Home, solver: str, direction: str, rounding: str) -> None:
        super().__init__(home)
        self.increments = Increments(home)
        self.solver = one_of("solver", solver, ("relaxed", "exact"))
        self.direction = one_of("direction", direction, ("absolute", "signed"))
        self.rounding = one_of("rounding", rounding, ("bernoulli", "threshold"))

    @property
    def _parts(self) -> Home:
        """What switches: the appliances, or their increments."""
        return self.increments.home

    def _ranking(self) -> IntArray:
        """Increments from the largest to the smallest power.

        All random rounding is done in this order, so that the order of the home has no effect.
        """
        return np.argsort(-self._parts.powers, kind="stable")

    def _start_increments(self, seen: Observation) -> BoolArray:
        """Increments that are on at the start, shape (M,)."""
        return self.increments.expand(self._start(seen))

    def _predict_increments(self, seen: Observation) -> BoolArray:
        """States of the increments, shape (T, M)."""
        raise NotImplementedError(f"{type(self).__name__} must implement _predict_increments.")

    def _predict(self, seen: Observation) -> BoolArray:
        return self.increments.collapse(self._predict_increments(seen))

    def _predict_power(self, seen: Observation) -> FloatArray:
        return self.increments.power(self._predict_increments(seen))


class OneShot(IncrementAttacker):
    """One-shot attacker: explains each jump of the meter on its own.

    Parameters
    ----------
    home : Home
    solver : {"relaxed", "exact"}
        (P3) with rounding, as in the paper, or (P1).
    direction : {"absolute", "signed"}
        The paper's absolute jumps |y_t − y_{t−1}|, or signed jumps. With signed jumps a rise can
        only switch on appliances that are off, and a fall can only switch off appliances that
        are on.
    rounding : {"bernoulli", "threshold"}
        Rounding of the relaxed solution: see `round_switches`.
    unexplained : {"nearest", "all", "none", "error"}
        Answer to a jump for which the problem is infeasible. "nearest": the subset nearest to the
        jump, which is every appliance if the jump is larger than their total power. As (P3) is
        infeasible only then, "all" is another word for the same answer. "none": no switch.
        "error": an answer that counts as N errors, as the paper's authors count it; this needs
        the truth (see `predict_switches`).

    Notes
    -----
    The paper gives this attacker the true state X_{t−1}; pass `known_states` to
    `predict_switches` for this. `predict` does not have the truth and continues from its own
    last answer. An appliance with several levels is treated as its increments (`Increments`).
    """

    name: ClassVar[str] = "one-shot"
    assumes: ClassVar[str] = "few switches at a time; every jump explained on its own"

    def __init__(
        self,
        home: Home,
        *,
        solver: str = "relaxed",
        direction: str = "absolute",
        rounding: str = "bernoulli",
        unexplained: str = "nearest",
    ) -> None:
        super().__init__(home, solver, direction, rounding)
        self.unexplained = one_of("unexplained", unexplained, ("nearest", "all", "none", "error"))

    def predict_switches(
        self,
        readings: Observed,
        *,
        known_states: BoolArray | None = None,
        initial_state: ArrayLike | None = None,
        rng: RngLike = None,
    ) -> BoolArray:
        """Predict the rounded switches Δ̄_t of every reading, shape (T, N).

        There are none at reading 0 and at the start of every contiguous run. If the true states
        `known_states` (T, N) are given, the attacker knows row t − 1 at reading t.
        ``unexplained="error"`` requires them: its answer to an infeasible jump is wrong for every
        appliance. `readings`, `initial_state` and `rng` are as in `predict`.
        """
        seen = self._see(readings, initial_state, rng)
        if known_states is None:
            return self.increments.collapse(self._switch(seen, self._start_increments(seen))[0])
        truth = np.asarray(known_states, dtype=np.bool_)
        known = self.increments.expand(truth)
        found, feasible = self._switch(seen, self._start_increments(seen), known)
        switches = self.increments.collapse(found)
        if self.unexplained == "error":
            wrong = np.flatnonzero(~feasible)
            switches[wrong] = ~(truth[wrong] ^ truth[wrong - 1])
        return switches

    def track(self, seen: Observation, start: BoolArray) -> BoolArray:
        """States of the increments, shape (T, M): the start, flipped by all switches since."""
        switches, _ = self._switch(seen, start)
        switches[0] = start
        return np.logical_xor.accumulate(switches, axis=0)

    def _predict_increments(self, seen: Observation) -> BoolArray:
        return self.track(seen, self._start_increments(seen))

    def _switch(
        self, seen: Observation, start: BoolArray, known: BoolArray | None = None
    ) -> tuple[BoolArray, BoolArray]:
        """Switches of the increments, shape (T, M), and whether each jump is feasible, shape (T,).

        The feasibility of signed jumps is known only with the true states.
        """
        if known is None and self.unexplained == "error":
            raise InputError(
                'unexplained="error" counts errors against the true states: call predict_switches '
                "with known_states."
            )
        jumps = seen.jumps(signed=self.direction == "signed")
        if self.direction == "absolute":
            return self._solve(jumps, None, seen.rng)
        if known is not None:
            before = np.vstack([known[:1], known[:-1]])
            return self._solve(jumps, before ^ (jumps > 0)[:, None], seen.rng)
        return self._follow(jumps, start, seen.rng), np.ones(jumps.size, np.bool_)

    def _solve(
        self, jumps: FloatArray, available: BoolArray | None, rng: np.random.Generator
    ) -> tuple[BoolArray, BoolArray]:
        """Switches for jumps whose available increments are known in advance, and feasibility."""
        sizes = np.abs(jumps)
        if self.solver == "exact":
            answers = self._search.search(sizes, available)
            switches, feasible = unpack(answers.masks, len(self._parts)), answers.ties > 0
        else:
            order, tolerance = self._ranking(), self._parts.tolerance
            powers = self._parts.powers[order]
            if available is None:
                shares = solve_relaxed(powers, sizes, tolerance)
                reach = powers.sum()
            else:
                usable = available[:, order] * powers
                before = np.cumsum(usable, axis=1) - usable
                shares = np.clip((sizes[:, None] - tolerance - before) / powers, 0.0, 1.0)
                shares, reach = shares * available[:, order], usable.sum(axis=1)
            switches = np.empty(shares.shape, np.bool_)
            switches[:, order] = round_switches(shares, rounding=self.rounding, rng=rng)
            feasible = sizes <= reach + tolerance
        if self.unexplained == "none":
            switches[~feasible] = False
        return switches, feasible

    def _follow(self, jumps: FloatArray, state: BoolArray, rng: np.random.Generator) -> BoolArray:
        """Switches for signed jumps, where each answer decides what the next one may use."""
        if self.solver == "exact":
            return self._search.follow(jumps, state, nearest=self.unexplained != "none")
        order = self._ranking()
        shape = (int((np.abs(jumps) > self._parts.tolerance).sum()), order.size)
        if self.rounding == "bernoulli":
            draws = rng.random(shape)
        else:
            # A share of exactly ½ must exceed its draw, as in `round_switches`.
            draws = np.full(shape, np.nextafter(0.5, 0.0))
        ranked = np.zeros((jumps.size, order.size), np.bool_)
        powers, keep = self._parts.powers[order], self.unexplained == "none"
        _follow_available(jumps, self._parts.tolerance, powers, state[order], draws, keep, ranked)
        switches = np.empty_like(ranked)
        switches[:, order] = ranked
        return switches

    @cached_property
    def _search(self) -> SubsetSearch:
        return SubsetSearch(self._parts.powers, self._parts.tolerance)


def _check_problem(
    powers: ArrayLike, jumps: ArrayLike, tolerance: float
) -> tuple[FloatArray, FloatArray, float]:
    """Checked powers [W], jumps [W] and tolerance [W]."""
    watts = power_vector(powers)
    steps = finite_vector("jumps", jumps)
    if steps.size and steps.min() < 0:
        row = int(steps.argmin())
        raise DataError(f"jumps must not be negative (K = |y_t − y_(t−1)|), but row {row} is.")
    return watts, steps, positive("tolerance", tolerance)


def power_before(powers: FloatArray) -> FloatArray:
    """Total power ranked before each appliance [W], largest first, ties in index order."""
    order = np.argsort(-powers, kind="stable")
    before = np.empty_like(powers)
    before[order] = np.concatenate([[0.0], np.cumsum(powers[order])[:-1]])
    return before


# error_model="numpy" drops the check for a zero divisor: only then is the inner loop vectorised.
@compiled(cache=True, nogil=True, error_model="numpy")
def _fill_largest_first(
    jumps: FloatArray,
    tolerance: float,
    powers: FloatArray,
    before: FloatArray,
    switches: FloatArray,
) -> None:
    """(P3) in closed form; `before` is the total power ranked before each appliance [W]."""
    for t in range(jumps.size):
        reach = jumps[t] - tolerance
        for i in range(powers.size):
            share = (reach - before[i]) / powers[i]
            share = share if share > 0.0 else 0.0
            switches[t, i] = share if share < 1.0 else 1.0


@compiled(cache=True, nogil=True, error_model="numpy")
def _follow_available(
    jumps: FloatArray,
    tolerance: float,
    powers: FloatArray,
    state: BoolArray,
    draws: FloatArray,
    keep: bool,
    switches: BoolArray,
) -> None:
    """(P3) for one signed jump after the other; a share switches where it exceeds its draw.

    Powers are in descending order. `state` is updated in place. `draws` has one row for every
    jump beyond the tolerance: smaller jumps switch nothing and need no random numbers. With `keep`
    an infeasible jump switches nothing either.
    """
    row = 0
    for t in range(jumps.size):
        missing = abs(jumps[t]) - tolerance
        if missing <= 0.0:
            continue
        rises = jumps[t] > 0.0
        if keep and missing > np.sum(powers[state != rises]):
            row += 1
            continue
        for i in range(powers.size):
            if state[i] != rises and missing > 0.0:
                if draws[row, i] < min(missing / powers[i], 1.0):
                    switches[t, i] = True
                    state[i] = rises
                missing -= powers[i]
        row += 1
