"""Algorithm 3 of the paper: discrete staircase noise on a grid.

With b = e^(−ε), Δ = Δ_g grid steps and an inner width r of 1 … Δ steps,

    P(n = i) = a·b^k        for kΔ ≤ |i| < kΔ + r,
               a·b^(k+1)    for kΔ + r ≤ |i| < (k+1)Δ,
    a = (1 − b)/(2r + 2b(Δ − r) − (1 − b)).

Proof of ε-differential privacy. P never increases with |i|, and P(|i| + Δ) = b·P(|i|). Inputs that
differ by the protected change are d ≤ Δ steps apart after clamping and rounding. Since
|i + d| ≤ |i| + Δ, P(i)/P(i + d) ≤ 1/b = e^ε. The proof is for one reading: unlike with Laplace
noise, a small change of each of many readings may cost ε for each of them.

*The worst offset of a run.* Laplace and Gaussian noise lose most if the energy of a run is
concentrated in as few released values as possible. Staircase noise is different: the total
variation of one value grows with slope one until the change equals the central plateau of the
distribution, and more slowly afterwards. Two values that share the energy of a run can therefore
reveal more than one value that contains it all. The loss of a value takes only the values
−mε, …, −ε, 0, ε, …, mε. Their probabilities are *linear* functions of the change between two knots:
the changes at which an edge of the staircase meets an edge of the shifted staircase, which are the
multiples of Δ_g, and those plus the width 2r − 1 of the plateau. If two values share S steps as a
and S − a, δ(ε) is thus a quadratic function of a between two knots, and its values at both ends and
in the middle determine its maximum. If the energy of a run is smaller than its power times its
length, its shape is unknown. Every value that it touches is then taken to change by the largest
amount, as in the calibration of the noise.

References
----------
.. [1] Q. Geng, P. Kairouz, S. Oh, P. Viswanath, "The staircase mechanism in differential privacy",
   IEEE Journal of Selected Topics in Signal Processing 9(7), 2015.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from hushmeter.checks import FloatArray, whole
from hushmeter.errors import InputError
from hushmeter.noise.losses import (
    DELTA,
    HOPELESS,
    MAX_POINTS,
    ChangeSize,
    ChangeSteps,
    Composition,
    PrivacyLoss,
    Steps,
    compose_curve,
    convolve,
)
from hushmeter.noise.mechanism import Exact, Mechanism, exact
from hushmeter.noise.samplers import (
    Sampler,
    staircase_fits,
    staircase_sampler,
)

MOST_KNOTS = 12
"""Largest number of knots between which the quadratic maximum is computed."""


MOST_VALUES = 100
"""Full values of a run from which the division at its two ends is bounded instead of searched."""


class Staircase(Mechanism):
    """Algorithm 3. Discrete staircase noise, pure ε-differential privacy of one reading.

    See `Mechanism` for the parameters; `touches` must be 1. Of the two whole numbers next to
    Δ_g/(1 + e^(ε/2)), the inner width r is the one with the smaller E|n|.

    Examples
    --------
    >>> mechanism = Staircase(epsilon=1.0, sensitivity=10.0)
    >>> mechanism.steps, mechanism.inner
    (11, 5)
    """

    name: ClassVar[str] = "staircase"
    title: ClassVar[str] = "staircase"
    norm: ClassVar[int] = 1

    @staticmethod
    def measure(size: ChangeSize) -> Exact:
        """Largest change of one value [W]."""
        return size.largest

    @classmethod
    def _promise(cls, epsilon: Exact, delta: Exact, size: ChangeSize) -> dict[str, Any]:  # noqa: ARG003
        # Every value that the change touches gets an equal share of ε.
        return {
            "epsilon": exact("epsilon", epsilon) / size.touches,
            "sensitivity": size.largest,
        }

    def _check_grid(self) -> None:
        if self.touches != 1:
            raise InputError(
                "the staircase protects one reading; for a change spread over several readings "
                "use Laplace or Gaussian."
            )
        super()._check_grid()

    @cached_property
    def inner(self) -> int:
        """Inner width r of a stair [grid steps]."""
        return best_inner(self.epsilon, self.steps)

    @property
    def scale(self) -> float:
        """Mean absolute value E|n| [W]: the scale of Laplace noise with the same mean size."""
        return self.mean_abs

    @property
    def mean_abs(self) -> float:
        """Mean absolute value E|n| [W]; Δf·e^(ε/2)/(e^ε − 1) in the limit of a fine grid."""
        return self.grid * _mean_abs(self.epsilon, self.steps, self.inner)

    @property
    def std(self) -> float:
        """Standard deviation [W]."""
        near, far = _moment(self.epsilon, self.steps, self.inner, 2)
        # √b is a separate factor, because b itself may underflow to zero.
        return self.grid * math.hypot(math.sqrt(near), math.exp(-self.epsilon / 2) * math.sqrt(far))

    def exact_epsilon_for(self, shift: Exact, touches: int = 1) -> Fraction:
        """Privacy loss ε·touches·⌈steps(shift)/Δ_g⌉ of `touches` changes by `shift` watts each."""
        return self.exact_epsilon * whole("touches", touches) * self._stairs(self.steps_of(shift))

    def largest_loss(self, steps: int) -> float:
        """See `LossDistribution` for the parameters."""
        return self.epsilon * self._stairs(steps)

    def cost(self, moved: ChangeSteps) -> Fraction:
        """See `LossDistribution` for the parameters."""
        count = moved.size.touches
        # Σ ⌈d_k/Δ_g⌉ is at most the number of values plus the whole stairs in the sum of all d_k.
        shared = count + self.steps_of(moved.size.l1, count) // self.steps
        return self.exact_epsilon * min(count * self._stairs(moved.worst[0][0]), shared)

    def compose_change(self, moved: ChangeSteps, delta: float = DELTA) -> Composition:
        """See `LossDistribution` for the parameters."""
        # At the worst division of the energy; see the description of the module.
        count, basic = moved.size.touches, float(self.cost(moved))
        if self.largest_loss(moved.worst[0][0]) > HOPELESS:
            return Composition(count, basic, basic, 1.0)
        return compose_curve(count, basic, worst_curve(self, moved), self.epsilon, delta)

    def change_log_second_moment(self, moved: ChangeSteps) -> float:
        """See `LossDistribution` for the parameters."""
        # Every value may move by the largest amount.
        return moved.size.touches * self.log_second_moment(moved.worst[0][0])

    def losses(self, steps: int, most: int = MAX_POINTS) -> tuple[FloatArray, float, float]:  # noqa: ARG002
        """See `LossDistribution` for the parameters; the losses are multiples of ε.

        Far from zero the probabilities of successive periods have the ratio e^(−ε) while the
        losses repeat, so one period on either side represents the whole tail. Between two edges of
        either staircase both probabilities are constant, so one outcome represents all of them.
        """
        period, epsilon = self.steps, self.epsilon
        periods = self._stairs(steps) + 1
        reach = periods * period
        first, end = -reach - period + 1, reach + period
        # The height changes at i = r + kΔ and at i = 1 − r − kΔ; the shifted one `steps` later.
        rising = self.inner + period * np.arange(2 * periods + 2)
        edges = np.concatenate([rising, 1 - rising])
        marks = np.concatenate([edges, edges + steps, [first, 1 - reach, reach, end]])
        cuts = np.unique(np.clip(marks, first, end))
        places, counts = cuts[:-1], np.diff(cuts)
        masses = counts * np.asarray(self.pmf(places))
        masses[np.abs(places) >= reach] /= -math.expm1(-epsilon)
        log_ratio = np.asarray(self.log_pmf(places)) - self.log_pmf(places - steps)
        stairs = np.rint(log_ratio / epsilon).astype(np.int64)
        lowest = int(stairs.min())
        sums: FloatArray = np.bincount(stairs - lowest, weights=masses).astype(np.float64)
        return sums, epsilon, lowest

    def _stairs(self, steps: int) -> int:
        return -(-steps // self.steps)

    def _cell(self, steps: Steps) -> float:  # noqa: ARG002
        return self.epsilon

    def _log_mass(self, magnitude: FloatArray) -> FloatArray:
        stair, place = np.divmod(magnitude, float(self.steps))
        heights: FloatArray = stair + (place >= self.inner)
        return math.log(_unit(self.epsilon, self.steps, self.inner)) - self.epsilon * heights

    def _tail(self, magnitude: FloatArray) -> FloatArray:
        stair, place = np.divmod(magnitude, float(self.steps))
        b, r = math.exp(-self.epsilon), self.inner
        rest = np.maximum(0.0, r - place) + b * np.minimum(self.steps - r, self.steps - place)
        period = r + b * (self.steps - r)
        sums: FloatArray = rest + b * period / -math.expm1(-self.epsilon)
        return _unit(self.epsilon, self.steps, r) * np.exp(-self.epsilon * stair) * sums

    @property
    def _decay(self) -> Fraction:
        return self.exact_epsilon

    def _fits(self, steps: int) -> bool:
        return staircase_fits(self.exact_epsilon, steps)

    def _sampler(self) -> Sampler:
        return staircase_sampler(self.exact_epsilon, self.steps, self.inner)


def worst_curve(mechanism: Staircase, moved: ChangeSteps) -> FloatArray:
    """Upper bound of δ(0), δ(ε), δ(2ε), … over all offsets of a run; ε is that of one value."""
    (largest, full), *others = moved.worst
    reach = -(-largest // mechanism.steps)
    if not moved.constant:
        # The energy may be spread in any way: every value may change by the largest amount.
        every = [(largest, moved.own_touches), *moved.further]
        return _compose(mechanism, every, reach).deltas()
    if full > MOST_VALUES:
        # Two further full values contain every division; the loss grows by at most 2 %.
        return _compose(mechanism, [(largest, full + 2), *others], reach).deltas()
    curves = [_compose(mechanism, moved.worst, reach).deltas()]
    for fixed, shared in _divisions(moved.worst):
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
    ways: list[tuple[Steps, int]] = []
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
    total = PrivacyLoss(mechanism.epsilon, 0, np.ones(1))
    for step, times in steps:
        if times > 0:
            one = PrivacyLoss(mechanism.epsilon, -reach, _loss(mechanism, step, reach))
            total = total.join(one.repeat(times))
    return total


def _loss(mechanism: Staircase, steps: int, reach: int) -> FloatArray:
    """Return the probabilities of the losses −reach·ε … reach·ε of one value."""
    masses, _, lowest = mechanism.losses(steps)
    padded = np.zeros(2 * reach + 1)
    first = int(lowest) + reach
    padded[first : first + masses.size] = masses
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


def best_inner(epsilon: float, steps: int) -> int:
    """Inner width r of a stair with the smallest E|n|, next to Δ_g/(1 + e^(ε/2)) [grid steps]."""
    middle = steps * math.exp(-epsilon / 2) / (1 + math.exp(-epsilon / 2))
    choices = {min(steps, max(1, r)) for r in (math.floor(middle), math.ceil(middle))}
    return min(sorted(choices), key=lambda r: _mean_abs(epsilon, steps, r))


def _unit(epsilon: float, steps: int, inner: int) -> float:
    """Return a, the probability of zero."""
    b, below = math.exp(-epsilon), -math.expm1(-epsilon)
    return below / (2 * inner + 2 * b * (steps - inner) - below)


def _mean_abs(epsilon: float, steps: int, inner: int) -> float:
    """Return E|n| in grid steps."""
    near, far = _moment(epsilon, steps, inner, 1)
    return near + math.exp(-epsilon) * far


def _moment(epsilon: float, steps: int, inner: int, order: int) -> tuple[float, float]:
    """Return near and far with E|n|^order = near + b·far in grid steps, for order 1 or 2.

    Stair k contributes Σ_j (kΔ + j)^order, which is a polynomial in k; the sums over k of b^k,
    k·b^k and k²·b^k are 1/(1 − b), b/(1 − b)² and b(1 + b)/(1 − b)³. The factor b is kept apart
    so that `std` can take its root before it underflows.
    """
    b, below = math.exp(-epsilon), -math.expm1(-epsilon)
    sums = (1 / below, 1 / below**2, (1 + b) / below**3)
    twice = 2 * _unit(epsilon, steps, inner)
    parts = []
    for first, last in ((0, inner), (inner, steps)):
        powers = [float(_power_sum(last, p) - _power_sum(first, p)) for p in range(order + 1)]
        parts.append(
            [
                twice * math.comb(order, p) * powers[order - p] * float(steps) ** p * sums[p]
                for p in range(order + 1)
            ]
        )
    inside, outside = parts
    return inside[0], sum(inside[1:]) + outside[0] + b * sum(outside[1:])


def _power_sum(count: int, power: int) -> Fraction:
    """Return Σ j^power for j = 0 … count − 1."""
    m = count - 1
    return Fraction([count, m * count // 2, m * count * (2 * m + 1) // 6][power])
