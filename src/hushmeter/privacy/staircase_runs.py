"""The worst offset of a run under staircase noise.

For Laplace and Gaussian noise, a run loses most if its energy is concentrated in as few released
values as possible. Staircase noise is different: the total variation of one value grows with slope
one until the change equals the central plateau of the distribution, and more slowly afterwards. Two
values that share the energy of a run can therefore reveal more than one value that contains it all.

The loss of a value takes only the values −mε, …, −ε, 0, ε, …, mε. Their probabilities are *linear*
functions of the change between two knots. The knots are the changes at which an edge of the
staircase meets an edge of the shifted staircase: the multiples of Δ_g, and those plus the width
2r − 1 of the plateau. If two values share S steps as a and S − a, δ(ε) is thus a quadratic function
of a between two knots, and its values at both ends and in the middle determine its maximum.

If the energy of a run is smaller than its power times its length, its shape is unknown. Every value
that it touches is then taken to change by the largest amount, as in the calibration of the noise.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from hushmeter.checks import FloatArray
from hushmeter.errors import InputError
from hushmeter.noise import Mechanism, Staircase
from hushmeter.privacy.privacy_loss import PrivacyLoss, convolve, stair_losses
from hushmeter.privacy.sensitivity import Change, further_steps, worst_steps

MOST_KNOTS = 12
"""Largest number of knots between which the quadratic maximum is computed."""

MOST_VALUES = 100
"""Full values of a run from which the division at its two ends is bounded instead of searched."""

Steps = list[tuple[int, int]]
"""Changes as (grid steps, number of values)."""


def worst_curve(mechanism: Mechanism, change: Change) -> FloatArray:
    """Upper bound of δ at multiples of the mechanism's ε, over all offsets of a run.

    Parameters
    ----------
    mechanism : Staircase
        The noise on every released value.
    change : Change
        The run.

    Returns
    -------
    array
        δ(0), δ(ε), δ(2ε), …
    """
    if not isinstance(mechanism, Staircase):
        raise InputError(f"staircase noise is needed, got {mechanism!r}.")
    values = worst_steps(mechanism, change)
    (largest, full), *others = values
    reach = -(-largest // mechanism.steps)
    if not change.constant:
        # The energy may be spread in any way: every value may change by the largest amount.
        every = [(largest, change.own_touches), *further_steps(mechanism, change)]
        return _compose(mechanism, every, reach).deltas()
    if full > MOST_VALUES:
        # Two further full values contain every division; the loss grows by at most 2 %.
        return _compose(mechanism, [(largest, full + 2), *others], reach).deltas()
    curves = [_compose(mechanism, values, reach).deltas()]
    for fixed, shared in _divisions(values):
        base = _compose(mechanism, fixed, reach)
        curves += _divide(mechanism, base, shared, largest)
    width = max(curve.size for curve in curves)
    padded = np.stack([np.append(c, np.full(width - c.size, c[-1])) for c in curves])
    return np.asarray(padded.max(axis=0))


def _divisions(values: Steps) -> list[tuple[Steps, int]]:
    """Return the two ways in which the first and the last value of a run can share its energy.

    A run of n full values and a rest either touches n + 2 values, and the first and the last share
    the rest; or it touches n + 1 values, and they share the rest and one full value. Each way is
    given by the other values and the sum of the two.
    """
    in_order = [step for step, times in values for _ in range(min(times, 2))]
    ways = []
    for pair in sorted(set(pairwise(in_order))):
        left = dict(values)
        for step in pair:
            left[step] -= 1
        ways.append(([(step, times) for step, times in left.items() if times], sum(pair)))
    return ways


def _divide(mechanism: Staircase, base: PrivacyLoss, shared: int, largest: int) -> list[FloatArray]:
    """Return curves that bound δ for every division of `shared` steps between two values."""
    first, last = max(1, shared - largest), shared // 2
    first = min(first, last)
    period = mechanism.steps
    plateau = 2 * mechanism.inner - 1
    marks = [k * period + extra for k in range(shared // period + 1) for extra in (0, plateau)]
    inside = {k for m in marks for k in (m, shared - m) if first < k < last}
    knots = sorted({first, last, *inside})
    reach = -(-max(largest, shared - first) // period)

    def loss(steps: float) -> FloatArray:
        return _loss(mechanism, int(steps), reach)

    if len(knots) > MOST_KNOTS:
        # Rounding both values up to the ends of an interval bounds every division inside it.
        ends = np.unique(np.linspace(first, last, MOST_KNOTS + 1).astype(int))
        pairs = [(loss(b), loss(shared - a)) for a, b in pairwise(ends)]
        return [_joined(base, *pair, reach) for pair in pairs]
    curves = []
    for a, b in pairwise([*knots, last] if len(knots) == 1 else knots):
        low, high = (loss(a), loss(shared - a)), (loss(b), loss(shared - b))
        middle = ((low[0] + high[0]) / 2, (low[1] + high[1]) / 2)
        curves.append(_maximum(*(_joined(base, *pair, reach) for pair in (low, middle, high))))
    return curves


def _compose(mechanism: Staircase, steps: Steps, reach: int) -> PrivacyLoss:
    """Return the composed loss of changes given in steps."""
    total = PrivacyLoss(mechanism.epsilon, 0, np.ones(1))
    for step, times in steps:
        if times > 0:
            one = PrivacyLoss(mechanism.epsilon, -reach, _loss(mechanism, step, reach))
            total = total.join(one.repeat(times))
    return total


def _loss(mechanism: Staircase, steps: int, reach: int) -> FloatArray:
    """Return the probabilities of the losses −reach·ε … reach·ε of one value."""
    masses, lowest = stair_losses(mechanism, steps)
    padded = np.zeros(2 * reach + 1)
    padded[lowest + reach : lowest + reach + masses.size] = masses
    return padded


def _joined(base: PrivacyLoss, one: FloatArray, other: FloatArray, reach: int) -> FloatArray:
    """Return δ at the multiples of ε for the fixed values and two more."""
    pair = PrivacyLoss(base.cell, -2 * reach, convolve(one, other))
    return base.join(pair).deltas()


def _maximum(start: FloatArray, middle: FloatArray, end: FloatArray) -> FloatArray:
    """Return the maximum of the quadratic functions through three equidistant points."""
    curvature = 2 * (start - 2 * middle + end)
    slope = 4 * middle - 3 * start - end
    with np.errstate(divide="ignore", invalid="ignore"):
        place = -slope / (2 * curvature)
        peak = start - slope**2 / (4 * curvature)
    inside = (curvature < 0) & (place > 0) & (place < 1)
    return np.maximum(np.maximum(start, end), np.where(inside, peak, middle))
