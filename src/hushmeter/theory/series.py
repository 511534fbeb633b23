"""The exact expected accuracy of Algorithm 1 over a series of readings, before error correction.

The paper bounds this number in Theorem 5 and leaves its value to future work. Algorithm 1 adds up
jumps, and two jumps in a row share the noise of the reading between them. The accuracy at reading
t is therefore not a product of one-shot accuracies. It follows from a transfer operator on the
noise of the last reading, which this module applies reading by reading.
"""

from __future__ import annotations

import numba
import numpy as np

from hushmeter.checks import BoolArray, FloatArray
from hushmeter.errors import InputError
from hushmeter.home import Home
from hushmeter.noise.losses import GridDistribution
from hushmeter.trace import Trace

NEGLIGIBLE = 1e-15
"""Probability of the noise beyond the last grid point that is followed."""

MAX_POINTS = 1 << 22
"""Largest number of grid points of the noise."""


def series_accuracy(home: Home, trace: Trace, *, mechanism: GridDistribution) -> FloatArray:
    """Probability that Algorithm 1 is correct about each appliance at each reading.

    Parameters
    ----------
    home : Home
    trace : Trace with states
        The readings [W] before noise and the true states. The attacker knows the state at the
        first reading.
    mechanism : Mechanism
        Laplace, staircase or Gaussian noise, independent from reading to reading.

    Returns
    -------
    array, shape (T, N)
        The first row is 1.

    Raises
    ------
    InputError
        If the trace has no states of these appliances, or the noise has too many grid points.

    Notes
    -----
    Let p be the distribution of the noise on its grid, d_t the jump of the readings on the grid,
    and c_i the power ranked before appliance i. Given the noise difference l, (P3) switches
    appliance i with probability h = clip((|d_t + l| − δ − c_i)/P_i, 0, 1). Let D be 1 if it did
    switch and 0 otherwise, and g_t(l) = 1 − 2|h − D|. The error e of a state and the error q of a
    switch give the next error e' = e + q − 2eq, so that 1 − 2e is the product of all g. Its mean,
    split by the noise n of the last reading, is

        u_0(n) = p(n),    u_t(n) = p(n)·Σ_m g_t(n − m)·u_{t−1}(m),

    and the appliance is correct at reading t with probability (1 + Σ_n u_t(n))/2. As h is piecewise
    linear, the sum over m needs only the double cumulative sum of u_{t−1}, at four shifts: the cost
    is linear in the number of grid points.

    After a gap Algorithm 1 sees no jump and keeps its state. The noise before and after the gap
    is independent.

    The result is for absolute jumps, the relaxed solver and `correction="none"`. With signed jumps
    h depends on the state, and the recursion does not close. In Algorithm 2 the largest hierarchy
    sees the readings themselves, so that this function holds for it with
    ``home.subset(its names)``. Each further hierarchy sees the readings minus the decoded power of
    the hierarchies above, which depends on all noise so far; no such recursion is known for it.
    Error correction admits no bound in terms of the accuracy before it: let one appliance of
    (N − 1)·P watts be on and N − 1 appliances of P watts be off. If the tracked state misses only
    the large appliance, the accuracy is 1 − 1/N. The correction then switches on every small
    appliance, and the accuracy is 0.
    """
    states = trace.truth()
    if states.shape[1] != len(home):
        raise InputError(f"the trace has {states.shape[1]} appliances, the home {len(home)}.")
    grid = float(mechanism.exact_grid)
    masses = _masses(mechanism)
    on_grid = np.floor(trace.readings / grid + 0.5)
    jumps = np.diff(on_grid, prepend=on_grid[:1])
    switched = np.zeros(states.T.shape, dtype=bool)
    switched[:, 1:] = (states[1:] != states[:-1]).T
    order = np.argsort(-home.powers, kind="stable")
    starts = np.empty(len(home))
    starts[order] = home.tolerance + np.concatenate([[0.0], np.cumsum(home.powers[order])[:-1]])
    correct = np.empty(states.shape)
    for i, power in enumerate(home.powers):
        correct[:, i] = _follow(
            masses,
            jumps,
            switched[i],
            trace.run_starts,
            starts[i] / grid,
            power / grid,
        )
    return correct


def _masses(mechanism: GridDistribution) -> FloatArray:
    """Probabilities of the noise on the grid, symmetric about the middle element."""
    grid = float(mechanism.exact_grid)
    reach = round(mechanism.quantile(1 - NEGLIGIBLE) / grid) + 1
    if 2 * reach + 1 > MAX_POINTS:
        raise InputError(
            f"the noise covers {2 * reach + 1} steps of the grid of {grid:g} W, which are too many "
            "for the exact accuracy; use a coarser grid."
        )
    return np.asarray(mechanism.pmf(np.arange(-reach, reach + 1)))


@numba.njit(cache=True, nogil=True)
def _follow(
    masses: FloatArray,
    jumps: FloatArray,
    switched: BoolArray,
    run_starts: BoolArray,
    start: float,
    power: float,
) -> FloatArray:
    """Probability of a correct state of one appliance at every reading; powers in grid steps.

    `beyond[k]` is Σ_m (k − m)_+ u(m). Between grid points it is linear in k, so that interpolation
    gives the exact value for powers that are no multiple of the grid.
    """
    points = masses.size
    weights = masses.copy()
    beyond = np.empty(points)
    correct = np.ones(jumps.size)
    for t in range(1, jumps.size):
        total, beyond[0] = weights[0], 0.0
        for k in range(1, points):
            beyond[k] = beyond[k - 1] + total
            total += weights[k]
        sign = -1.0 if switched[t] else 1.0
        after = 0.0
        for n in range(points):
            named = 0.0
            if not run_starts[t]:
                at = n + jumps[t]
                rise = _at(beyond, total, at - start) - _at(beyond, total, at - start - power)
                # Σ_m (m − x)_+ u(m) = Σ_m (x − m)_+ u(m) − x·Σ u + Σ m·u, for falling jumps; the
                # last term cancels in the difference of two such sums.
                low, high = at + start, at + start + power
                fall = _at(beyond, total, low) - _at(beyond, total, high) + power * total
                named = (rise + fall) / power
            weights[n] = masses[n] * sign * (total - 2.0 * named)
            after += weights[n]
        correct[t] = 0.5 * (1.0 + after)
    return correct


@numba.njit(cache=True, nogil=True)
def _at(beyond: FloatArray, total: float, x: float) -> float:
    """Σ_m (x − m)_+ u(m) at any x, from its values at the grid points."""
    last = beyond.size - 1
    if x <= 0.0:
        return 0.0
    if x >= last:
        return float(beyond[last] + (x - last) * total)
    k = int(x)
    return float(beyond[k] + (x - k) * (beyond[k + 1] - beyond[k]))
