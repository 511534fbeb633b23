"""Algorithm 2: hierarchical multi-shot inference (Section IV-B of the paper)."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.assumptions import concentration_margin
from hushmeter.attack.base import NoiseDistribution, Observed, check_mechanism
from hushmeter.attack.increments import IncrementAttacker
from hushmeter.attack.multi_shot import MultiShot
from hushmeter.checks import BoolArray, IntArray, RngLike, positive, power_vector
from hushmeter.home import Home
from hushmeter.trace import Trace


def find_unresolvable(powers: ArrayLike, tolerance: float) -> IntArray:
    """Indices of the appliances of at most 2δ, whose switches hide in the tolerance."""
    tolerance = positive("tolerance", tolerance)
    return np.flatnonzero(power_vector(powers) <= 2 * tolerance)


def split(powers: ArrayLike, tolerance: float) -> list[IntArray]:
    """Decomposition of Algorithm 2: the fewest groups of similar power (Proposition 2).

    Ascending in power, an appliance joins the group at hand if the group then still keeps
    Assumption 3 for every U (`concentration_margin` > 2δ), and opens a new one otherwise.

    Parameters
    ----------
    powers : array_like, shape (N,)
        P [W].
    tolerance : float
        δ [W].

    Returns
    -------
    list of index arrays
        A partition of 0 … N − 1 in the order of decoding, largest powers first; each group
        ascends in power. Appliances of at most 2δ (`find_unresolvable`) form the last group: no
        group that holds one can keep Assumption 3.

    Notes
    -----
    Reading of the paper: Algorithm 2 as printed never appends the last group, lets groups of one
    or two pass unchecked, and holds sets of powers, in which equal appliances would collapse.
    """
    watts = power_vector(powers)
    hidden = find_unresolvable(watts, tolerance)
    groups: list[list[int]] = []
    for i in np.argsort(watts, kind="stable"):
        if watts[i] <= 2 * tolerance:
            continue
        if groups and concentration_margin(watts[[*groups[-1], i]]) > 2 * tolerance:
            groups[-1].append(int(i))
        else:
            groups.append([int(i)])
    ordered = [np.array(group) for group in reversed(groups)]
    return ordered if hidden.size == 0 else [*ordered, hidden]


class Hierarchical(IncrementAttacker):
    """Algorithm 2 of the paper: Algorithm 1 on each group, largest powers first.

    The power of the groups decoded so far is subtracted from the readings; the groups still to
    come may draw up to their total power, so a group is corrected upwards only beyond that.

    Parameters
    ----------
    home : Home
    solver, direction, correction, rounding, dead_band, mechanism
        As in `MultiShot`.

    Notes
    -----
    Appliances of at most twice the tolerance keep their initial state; `unresolvable` names them.
    Where appliances have several levels, `groups` are groups of their increments.
    """

    name: ClassVar[str] = "hierarchical"
    needs: ClassVar[str] = "appliance powers, the state at the first reading"
    assumes: ClassVar[str] = "few switches at a time; powers may be diverse"
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
    ) -> None:
        super().__init__(home)
        self.solver, self.direction, self.correction = solver, direction, correction
        self.rounding, self.dead_band = rounding, dead_band
        self.mechanism = check_mechanism(mechanism)
        parts = self._parts
        self.groups = split(parts.powers, parts.tolerance)
        self._make_attackers()  # refuses what a group cannot be attacked with

    def _make_attackers(self) -> list[MultiShot]:
        """Algorithm 1 for every group, with the mechanism that is known by now."""
        parts = self._parts
        return [
            MultiShot(
                Home([parts.appliances[i] for i in group], parts.tolerance),
                solver=self.solver,
                direction=self.direction,
                correction=self.correction,
                rounding=self.rounding,
                dead_band=self.dead_band,
                mechanism=self.mechanism,
                # A jump that no subset of the group explains is another group's.
                unexplained="none",
            )
            for group in self._resolvable_groups
        ]

    @cached_property
    def unresolvable(self) -> tuple[str, ...]:
        """Names of the appliances, or of their increments, that hide in the tolerance."""
        hidden = find_unresolvable(self._parts.powers, self._parts.tolerance)
        return tuple(self._parts.names[i] for i in hidden)

    @property
    def _resolvable_groups(self) -> list[IntArray]:
        return self.groups[:-1] if self.unresolvable else self.groups

    def _predict_increments(
        self, readings: Observed, initial_state: ArrayLike | None, rng: RngLike
    ) -> BoolArray:
        """A given initial state is row 0 as it is."""
        values, _ = self._observe(readings)
        generator = np.random.default_rng(rng)
        start = self.increments.expand(self._initial_state(initial_state))
        states = np.tile(start, (values.size, 1))
        remaining = values - self._parts.base_load
        for group, attacker, below in zip(
            self._resolvable_groups, self._make_attackers(), self._power_below(), strict=True
        ):
            seen = (
                readings.replace_readings(remaining) if isinstance(readings, Trace) else remaining
            )
            states[:, group] = attacker.decode(seen, start[group], generator, below)
            if initial_state is not None:
                states[0] = start
            remaining = remaining - states[:, group] @ self._parts.powers[group]
        return states

    def _power_below(self) -> list[float]:
        """Total power of all groups decoded after each group [W]."""
        totals = np.array([self._parts.powers[group].sum() for group in self.groups])
        return [float(totals[i + 1 :].sum()) for i in range(len(self._resolvable_groups))]

    @property
    def _parts(self) -> Home:
        """What switches: the appliances, or their increments."""
        return self.increments.home
