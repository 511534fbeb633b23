"""Algorithm 1 of the paper: the multi-shot attacker, which corrects its states by the reading."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from hushmeter.attack.base import (
    NoiseDistribution,
    Observation,
    ProbabilisticAttacker,
    check_mechanism,
)
from hushmeter.attack.one_shot import IncrementAttacker, OneShot, round_switches
from hushmeter.checks import (
    BoolArray,
    FloatArray,
    non_negative,
    one_of,
)
from hushmeter.compiled import compiled
from hushmeter.home import Home


class TrackingAttacker(IncrementAttacker):
    """What Algorithms 1 and 2 share: their parameters, which `MultiShot` explains."""

    uses_noise: ClassVar[bool] = True

    def __init__(
        self,
        home: Home,
        *,
        solver: str = "relaxed",
        direction: str = "absolute",
        correction: str = "dead-band",
        rounding: str = "bernoulli",
        dead_band: float | None = None,
        mechanism: NoiseDistribution | None = None,
        unexplained: str | None = None,
    ) -> None:
        super().__init__(home, solver, direction, rounding)
        self.correction = one_of("correction", correction, ("dead-band", "paper", "none"))
        self.dead_band = None if dead_band is None else non_negative("dead_band", dead_band)
        self.mechanism = check_mechanism(mechanism)
        self.unexplained = unexplained
        if unexplained is not None:
            one_of("unexplained", unexplained, ("nearest", "all", "none"))


class MultiShot(TrackingAttacker, ProbabilisticAttacker):
    """Algorithm 1. Tracks the probability of every state and corrects it by the reading.

    Parameters
    ----------
    home : Home
    solver : {"relaxed", "exact"}
        (P3), as in the paper, or (P1).
    direction : {"absolute", "signed"}
        As in `OneShot`. With signed jumps a rise of the meter fills only what is off,
        1 − X_{t−1}, and a fall only what is on.
    correction : {"dead-band", "paper", "none"}
        "dead-band" corrects a state only if its power is further from the reading than
        `dead_band`, and flips an appliance only if this reduces the distance. "paper" is the loop
        as printed, which has no tolerance and therefore changes states that are correct.
    rounding : {"bernoulli", "threshold"}
        Rounding of the state probabilities: see `round_switches`.
    dead_band : float, optional
        Half-width of the dead band; `band` if it is not given. [W]
    mechanism : Laplace, Staircase, Gaussian or None
        Mechanism whose noise distribution the attacker knows: see `Attacker.knows`.
    unexplained : {"nearest", "all", "none"}, optional
        Answer to a jump for which the problem is infeasible, as in `OneShot`; "nearest" if it is
        not given. The paper's authors switch nothing here ("none").

    Notes
    -----
    The switch probabilities Δ_t of (P3) move the state probabilities,

        X_t = X_{t−1} ⊙ (1 − Δ_t) + (1 − X_{t−1}) ⊙ Δ_t.

    Each X_t is rounded. Where the power of the rounded state disagrees with the reading,
    appliances are flipped until it agrees.

    Reading of the paper: line 4 of Algorithm 1 prints Δ_{t−1}, but Δ_t is meant. "k-th largest"
    refers to one fixed ranking of all appliances. K_t is printed signed in Algorithm 1 and
    absolute in (P3); absolute is the default. The correction limits the drift on long traces and
    costs some accuracy on short ones.
    """

    name: ClassVar[str] = "multi-shot"
    assumes: ClassVar[str] = "few switches at a time, powers of one order"

    @property
    def band(self) -> float:
        """Dead band in use [W]: as given, else the tolerance plus the noise's 95 % quantile."""
        if self.dead_band is not None:
            return self.dead_band
        noise = 0.0 if self.mechanism is None else self.mechanism.quantile(0.95)
        return self.home.tolerance + noise

    @property
    def is_plain(self) -> bool:
        """Whether this is the algorithm of `series_accuracy`: (P3) without error correction."""
        given = (self.solver, self.direction, self.correction, self.rounding)
        plain = given == ("relaxed", "absolute", "none", "bernoulli")
        return plain and self.unexplained != "none"

    def _predict_proba(self, seen: Observation) -> FloatArray:
        """State probabilities X_t before rounding, shape (T, N)."""
        ranked = self._track(seen, self._start_increments(seen))
        probabilities = np.empty_like(ranked)
        probabilities[:, self._ranking()] = ranked
        return self.increments.collapse_probabilities(probabilities)

    def _predict_increments(self, seen: Observation) -> BoolArray:
        start = self._start_increments(seen)
        states = self.decode(seen, start)
        if seen.first_state is not None:
            states[0] = start
        return states

    def decode(self, seen: Observation, start: BoolArray, below: float = 0.0) -> BoolArray:
        """Decode the increments from a given start; row 0 is corrected like every other row.

        Algorithm 2 calls this for each of its groups. `below` is the power that the readings may
        contain beyond these increments: the total power of the groups that are decoded later [W].
        """
        order = self._ranking()
        ranked = self._track(seen, start)
        rounded = round_switches(ranked, rounding=self.rounding, rng=seen.rng)
        powers = self._parts.powers[order]
        load = seen.readings - self._parts.base_load
        if self.correction == "paper":
            _correct_as_printed(rounded, powers, load)
        elif self.correction == "dead-band":
            _correct(rounded, powers, load, self.band, self.band + below)
        states = np.empty_like(rounded)
        states[:, order] = rounded
        return states

    def _track(self, seen: Observation, start: BoolArray) -> FloatArray:
        """State probabilities, shape (T, M), with columns in the order of `_ranking`."""
        order = self._ranking()
        if self.solver == "exact":
            exact = OneShot(
                self._parts,
                solver="exact",
                direction=self.direction,
                unexplained=self.unexplained or "nearest",
            )
            return exact.track(seen, start)[:, order].astype(float)
        signed = self.direction == "signed"
        jumps = seen.jumps(signed=signed)
        track = np.empty((jumps.size, order.size))
        state = start[order].astype(np.float64)
        powers, keep = self._parts.powers[order], self.unexplained == "none"
        _follow(jumps, self._parts.tolerance, powers, signed, keep, state, track)
        return track


@compiled(cache=True, nogil=True, error_model="numpy")
def _follow(
    jumps: FloatArray,
    tolerance: float,
    powers: FloatArray,
    signed: bool,
    keep: bool,
    state: FloatArray,
    track: FloatArray,
) -> None:
    """State probabilities by lines 2–5 of Algorithm 1; powers in descending order.

    With `keep` an infeasible jump leaves the state as it is.
    """
    for t in range(jumps.size):
        missing = abs(jumps[t]) - tolerance
        rise = jumps[t] > 0.0
        if keep and missing > 0.0:
            reach = np.sum(powers)
            if signed:
                on = np.sum(powers * state)
                reach = reach - on if rise else on
            if missing > reach:
                missing = 0.0
        for i in range(powers.size):
            x = state[i]
            if missing > 0.0:
                # Absolute jumps can flip any share of an appliance, signed ones only what is left.
                room = 1.0 if not signed else (1.0 - x if rise else x)
                share = min(missing / powers[i], room)
                missing = missing - room * powers[i] if share == room else 0.0
                turned = 1.0 - 2.0 * x if not signed else (1.0 if rise else -1.0)
                x += share * turned
                state[i] = x
            track[t, i] = x


@compiled(cache=True, nogil=True)
def _correct_as_printed(states: BoolArray, powers: FloatArray, load: FloatArray) -> None:
    """Lines 8–20 of Algorithm 1 exactly as printed; powers in descending order."""
    n = powers.size
    for t in range(load.size):
        total = np.sum(powers * states[t])
        if total > load[t]:
            for i in range(n):
                if total <= load[t]:
                    break
                total -= powers[i] * states[t, i]
                states[t, i] = False
        elif total < load[t]:
            for i in range(n - 1, -1, -1):
                if total >= load[t]:
                    break
                total += powers[i] * (1 - states[t, i])
                states[t, i] = True


@compiled(cache=True, nogil=True)
def _correct(
    states: BoolArray, powers: FloatArray, load: FloatArray, surplus: float, deficit: float
) -> None:
    """Correction with a dead band: states with total − load in [−deficit, surplus] are kept.

    Outside the band, appliances are flipped until the total is inside it: the largest first if
    the total is too high, the smallest first if it is too low. An appliance is flipped only if
    the total comes nearer to the band.
    """
    n = powers.size
    for t in range(load.size):
        excess = -load[t]
        for i in range(n):
            if states[t, i]:
                excess += powers[i]
        too_much = excess > surplus
        far = excess - surplus if too_much else -deficit - excess
        if far <= 0.0:
            continue
        for rank in range(n):
            i = rank if too_much else n - 1 - rank
            if states[t, i] != too_much:
                continue
            moved = excess - powers[i] if too_much else excess + powers[i]
            distance = max(moved - surplus, -deficit - moved, 0.0)
            if distance < far:
                states[t, i] = not states[t, i]
                excess, far = moved, distance
            if far <= 0.0:
                break
