"""Algorithm 1: multi-shot inference with error correction (Section IV-A of the paper)."""

from __future__ import annotations

from typing import ClassVar

import numba
import numpy as np
from numpy.typing import ArrayLike

from hushmeter.attack.base import NoiseDistribution, Observed, check_mechanism
from hushmeter.attack.increments import IncrementAttacker
from hushmeter.attack.one_shot import OneShot, round_switches
from hushmeter.checks import BoolArray, FloatArray, IntArray, RngLike, non_negative, one_of
from hushmeter.home import Home


class MultiShot(IncrementAttacker):
    """Algorithm 1 of the paper.

    The switch probabilities Δ_t of (P3) move the state probabilities,
    X_t = X_{t−1} ⊙ (1 − Δ_t) + (1 − X_{t−1}) ⊙ Δ_t; each X_t is rounded, and where the rounded
    state disagrees with the reading appliances are flipped until it agrees.

    Parameters
    ----------
    home : Home
    solver : {"relaxed", "exact"}
        (P3), as in the paper, or (P1).
    direction : {"absolute", "signed"}
        As in `OneShot`. Signed, a rise of the meter fills only what is off, 1 − X_{t−1}, and a
        fall only what is on.
    correction : {"dead-band", "paper", "none"}
        "dead-band" corrects only where the state's power is further from the reading than
        `dead_band`, and flips an appliance only if that brings it nearer. "paper" is the loop as
        printed: it has no tolerance and so corrupts states that are right.
    rounding : {"bernoulli", "threshold"}
    dead_band : float, optional
        [W]; if not given, see `band`.
    mechanism : optional
        The mechanism that made the noise, if the attacker knows it.
    unexplained : {"nearest", "none"}
        As in `OneShot`, for the exact solver.

    Notes
    -----
    Reading of the paper: line 4 of Algorithm 1 prints Δ_{t−1}; Δ_t is meant. "k-th largest"
    refers to one fixed ranking. K_t is printed signed there and absolute in (P3); absolute is
    the default. Correction limits drift on long traces and costs a little on short ones.
    """

    name: ClassVar[str] = "multi-shot"
    needs: ClassVar[str] = "appliance powers, the state at the first reading"
    assumes: ClassVar[str] = "few switches at a time, powers of one order"
    uses_noise: ClassVar[bool] = True
    recovers_with: ClassVar[dict[str, str] | None] = {"solver": "exact", "direction": "signed"}

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
        unexplained: str = "nearest",
    ) -> None:
        super().__init__(home)
        self.solver = one_of("solver", solver, ("relaxed", "exact"))
        self.direction = one_of("direction", direction, ("absolute", "signed"))
        self.correction = one_of("correction", correction, ("dead-band", "paper", "none"))
        self.rounding = one_of("rounding", rounding, ("bernoulli", "threshold"))
        self.unexplained = one_of("unexplained", unexplained, ("nearest", "none"))
        self.dead_band = None if dead_band is None else non_negative("dead_band", dead_band)
        self.mechanism = check_mechanism(mechanism)

    @property
    def band(self) -> float:
        """The dead band [W]: given, else the tolerance plus the 95 % quantile of known noise."""
        if self.dead_band is not None:
            return self.dead_band
        noise = 0.0 if self.mechanism is None else self.mechanism.quantile(0.95)
        return self.home.tolerance + noise

    def predict_proba(
        self, readings: Observed, *, initial_state: ArrayLike | None = None, rng: RngLike = None
    ) -> FloatArray:
        """X_t: the probability that each appliance is on, before rounding, shape (T, N)."""
        order = self._ranking()
        start = self.increments.expand(self._initial_state(initial_state))
        ranked = self._track(readings, start, order, rng)
        probabilities = np.empty_like(ranked)
        probabilities[:, order] = ranked
        return self.increments.collapse_chances(probabilities)

    def _predict_increments(
        self, readings: Observed, initial_state: ArrayLike | None, rng: RngLike
    ) -> BoolArray:
        """A given initial state is row 0 as it is."""
        generator = np.random.default_rng(rng)
        start = self.increments.expand(self._initial_state(initial_state))
        states = self.decode(readings, start, generator)
        if initial_state is not None:
            states[0] = start
        return states

    def decode(
        self, readings: Observed, start: BoolArray, rng: np.random.Generator, below: float = 0.0
    ) -> BoolArray:
        """`predict`, by increments and with row 0 corrected, where `below` watts are not theirs.

        Algorithm 2 runs this on each of its groups, with the power of the groups still to be
        decoded as `below`.
        """
        order = self._ranking()
        ranked = self._track(readings, start, order, rng)
        rounded = round_switches(ranked, rounding=self.rounding, rng=rng)
        powers = self._parts.powers[order]
        load = self._observe(readings)[0] - self._parts.base_load
        if self.correction == "paper":
            _correct_as_printed(rounded, powers, load)
        elif self.correction == "dead-band":
            _correct(rounded, powers, load, self.band, self.band + below)
        states = np.empty_like(rounded)
        states[:, order] = rounded
        return states

    def _ranking(self) -> IntArray:
        """Largest first. All work is done in this order, so that no other order matters."""
        return np.argsort(-self._parts.powers, kind="stable")

    def _track(
        self, readings: Observed, start: BoolArray, order: IntArray, rng: RngLike
    ) -> FloatArray:
        """State probabilities with columns in rank order."""
        if self.solver == "exact":
            exact = OneShot(
                self._parts,
                solver="exact",
                direction=self.direction,
                unexplained=self.unexplained,
            )
            return exact.predict(readings, initial_state=start, rng=rng)[:, order].astype(float)
        signed = self.direction == "signed"
        jumps = self._jumps(readings, signed=signed)
        track = np.empty((jumps.size, order.size))
        state = start[order].astype(np.float64)
        _follow(jumps, self._parts.tolerance, self._parts.powers[order], signed, state, track)
        return track

    @property
    def _parts(self) -> Home:
        """What switches: the appliances, or their increments."""
        return self.increments.home


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _follow(
    jumps: FloatArray,
    tolerance: float,
    powers: FloatArray,
    signed: bool,
    state: FloatArray,
    track: FloatArray,
) -> None:
    """Lines 2–5 of Algorithm 1, powers in descending order."""
    for t in range(jumps.size):
        missing = abs(jumps[t]) - tolerance
        rise = jumps[t] > 0.0
        for i in range(powers.size):
            x = state[i]
            if missing > 0.0:
                room = 1.0 if not signed else (1.0 - x if rise else x)
                share = min(missing / powers[i], room)
                missing = missing - room * powers[i] if share == room else 0.0
                turned = 1.0 - 2.0 * x if not signed else (1.0 if rise else -1.0)
                x += share * turned
                state[i] = x
            track[t, i] = x


@numba.njit(cache=True, nogil=True)
def _correct_as_printed(states: BoolArray, powers: FloatArray, load: FloatArray) -> None:
    """Lines 8–20 of Algorithm 1 to the letter, powers in descending order."""
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


@numba.njit(cache=True, nogil=True)
def _correct(
    states: BoolArray, powers: FloatArray, load: FloatArray, surplus: float, deficit: float
) -> None:
    """The correction with a dead band: total − load in [−deficit, surplus] is left alone.

    Outside it, appliances are flipped largest first (too much) or smallest first (too little),
    each only if the total comes nearer to the band, until it is inside.
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
