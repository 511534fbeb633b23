"""Which subset of powers explains a jump, as a mixed-integer programme: for many appliances."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushmeter.attack.sums.subset_tables import NANOWATTS
from hushmeter.checks import BoolArray, IntArray
from hushmeter.errors import HushmeterError

SLACK = 10_000
"""Solvers meet their constraints to about 1e-6 W; their answers are checked to this [nW]."""


def solve_programme(powers: IntArray, target: int, tolerance: int) -> BoolArray:
    """(P1) as two mixed-integer programmes: fewest members, then the nearest of that size."""
    if target <= tolerance or powers.size == 0:
        return np.zeros(powers.size, np.bool_)
    fewest = _run(powers, target, tolerance, size=None)
    if fewest is None:
        return _require(_run(powers, target, None, size=None))
    return _require(_run(powers, target, tolerance, size=int(fewest.sum())))


def _run(
    powers: IntArray, target: int, tolerance: int | None, size: int | None
) -> BoolArray | None:
    """Fewest members within the tolerance; with a size or no tolerance, the nearest sum."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    n = powers.size
    watts = powers / NANOWATTS
    goal, slack = target / NANOWATTS, (np.inf if tolerance is None else tolerance / NANOWATTS)
    # Variables: n binaries and the distance z >= |watts·x - goal|.
    rows = [np.append(watts, -1.0), np.append(watts, 1.0), np.append(np.ones(n), 0.0)]
    members = (0, n) if size is None else (size, size)
    minimise_size = size is None and tolerance is not None
    found: Any = milp(
        np.append(np.ones(n), 0.0) if minimise_size else np.append(np.zeros(n), 1.0),
        constraints=LinearConstraint(
            np.array(rows), [-np.inf, goal, members[0]], [goal, np.inf, members[1]]
        ),
        bounds=Bounds(np.zeros(n + 1), np.append(np.ones(n), slack)),
        integrality=np.append(np.ones(n), 0.0),
    )
    if not found.success:
        return None
    chosen: NDArray[np.bool_] = found.x[:n] > 0.5
    distance = abs(int(powers[chosen].sum()) - target)
    if abs(distance / NANOWATTS - found.x[n]) > SLACK / NANOWATTS and not minimise_size:
        raise HushmeterError("the mixed-integer solver returned a wrong distance.")
    if tolerance is not None and distance > tolerance + SLACK:
        raise HushmeterError("the mixed-integer solver returned an answer outside the tolerance.")
    return chosen


def _require(chosen: BoolArray | None) -> BoolArray:
    if chosen is None:
        raise HushmeterError("the mixed-integer solver found no nearest sum.")
    return chosen
