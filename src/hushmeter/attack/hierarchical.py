"""Algorithm 2 of the paper: the hierarchical attacker.

It applies Algorithm 1 to one group of appliances of similar power after the other.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.assumptions import concentration_margin
from hushmeter.attack.base import (
    Observation,
)
from hushmeter.attack.multi_shot import MultiShot, TrackingAttacker
from hushmeter.checks import (
    BoolArray,
    IntArray,
    positive,
    power_vector,
)
from hushmeter.home import Home


def find_unresolvable(powers: ArrayLike, tolerance: float) -> IntArray:
    """Find the appliances of at most 2δ, whose switches the tolerance hides.

    Parameters
    ----------
    powers : array_like, shape (N,)
        Appliance powers P. [W]
    tolerance : float
        Tolerance δ. [W]

    Returns
    -------
    array of int
        Indices of these appliances.
    """
    tolerance = positive("tolerance", tolerance)
    return np.flatnonzero(power_vector(powers) <= 2 * tolerance)


def split(powers: ArrayLike, tolerance: float) -> list[IntArray]:
    """Algorithm 2, Proposition 2. Split the appliances into groups of similar power.

    Parameters
    ----------
    powers : array_like, shape (N,)
        Appliance powers P. [W]
    tolerance : float
        Tolerance δ. [W]

    Returns
    -------
    list of arrays of int
        A partition of 0 … N − 1 in the order of decoding, largest powers first. Powers ascend
        within each group. Appliances of at most 2δ (`find_unresolvable`) form the last group: no
        group that contains one of them satisfies Assumption 3.

    Notes
    -----
    The appliances are visited in ascending order of power. An appliance joins the current group
    if the group then still satisfies Assumption 3 for every U (`concentration_margin` > 2δ);
    otherwise it starts a new group. This gives the smallest number of groups.

    Reading of the paper: Algorithm 2 as printed never appends the last group, does not check
    groups of one or two appliances, and uses sets of powers, in which equal powers are lost.
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


class Hierarchical(TrackingAttacker):
    """Algorithm 2. Runs Algorithm 1 on each group of similar power, largest powers first.

    Parameters
    ----------
    home : Home
    solver, direction, correction, rounding, dead_band, mechanism, unexplained
        As in `MultiShot`; but if `unexplained` is not given, the exact solver leaves a jump that no
        subset of a group explains to the other groups ("none").

    Notes
    -----
    The power of the groups decoded so far is subtracted from the readings. The groups that are
    decoded later may draw up to their total power, so a group is corrected upwards only if more
    than this total is missing. Appliances of at most twice the tolerance keep their initial
    state; `unresolvable` names them.
    """

    name: ClassVar[str] = "hierarchical"
    assumes: ClassVar[str] = "few switches at a time; powers may be diverse"

    @cached_property
    def groups(self) -> list[IntArray]:
        """Groups of appliances, or of their increments, in the order of decoding: see `split`."""
        return split(self._parts.powers, self._parts.tolerance)

    @cached_property
    def unresolvable(self) -> tuple[str, ...]:
        """Names of the appliances, or of their increments, that the tolerance hides."""
        hidden = find_unresolvable(self._parts.powers, self._parts.tolerance)
        return tuple(self._parts.names[i] for i in hidden)

    @property
    def _resolvable_groups(self) -> list[IntArray]:
        return self.groups[:-1] if self.unresolvable else self.groups

    def _make_attackers(self) -> list[MultiShot]:
        """Algorithm 1 for every group, with the noise distribution that is known now."""
        parts = self._parts
        # A jump that no subset of the group explains belongs to another group. (P3) names no
        # subset, and the paper does not define its answer.
        usual = "none" if self.solver == "exact" else "nearest"
        given = {**self.parameters, "unexplained": self.unexplained or usual}
        return [
            MultiShot(Home([parts.appliances[i] for i in group], parts.tolerance), **given)
            for group in self._resolvable_groups
        ]

    def _predict_increments(self, seen: Observation) -> BoolArray:
        start = self._start_increments(seen)
        states = np.tile(start, (len(seen), 1))
        remaining = seen.readings - self._parts.base_load
        for group, attacker, below in zip(
            self._resolvable_groups, self._make_attackers(), self._power_below(), strict=True
        ):
            rest = replace(seen, readings=remaining)
            states[:, group] = attacker.decode(rest, start[group], below)
            if seen.first_state is not None:
                states[0] = start
            remaining = remaining - states[:, group] @ self._parts.powers[group]
        return states

    def _power_below(self) -> list[float]:
        """Total power of all groups that are decoded after each group [W]."""
        totals = np.array([self._parts.powers[group].sum() for group in self.groups])
        return [float(totals[i + 1 :].sum()) for i in range(len(self._resolvable_groups))]
