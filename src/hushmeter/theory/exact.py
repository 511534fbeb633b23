"""The exact expected accuracy of the relaxed attacker, without simulation.

For a jump d of the meter and noise l = n_t − n_{t−1} the attacker sees K = |d + l|. By (P3),
appliance i switched with probability clip((K − δ − c_i)/P_i, 0, 1), where c_i is the power ranked
before it. This is piecewise linear in l, so that its mean depends on the noise only through
E(l − b)_+. For a distribution that is symmetric about zero,

    E(K − k)_+ = E(l − (k − d))_+ + E(l − (k + d))_+,    k ≥ 0.

The paper has no such result; its Theorems 3 and 4 bound the same number.

Over a series of readings Algorithm 1 adds up jumps, and two jumps in a row share the noise of the
reading between them. The accuracy at reading t is therefore not a product of one-shot accuracies.
It follows from a transfer operator on the noise of the last reading, which `series_accuracy`
applies reading by reading. The paper bounds this number in Theorem 5 and leaves its value to
future work.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, combinations
from math import comb
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hushmeter.attack.levels import Increments
from hushmeter.attack.one_shot import power_before
from hushmeter.checks import BoolArray, FloatArray, finite_vector, one_of, positive_array, whole
from hushmeter.compiled import compiled
from hushmeter.errors import InputError
from hushmeter.home import Home
from hushmeter.noise.losses import GridDistribution
from hushmeter.trace import Trace

MAX_VECTORS = 200_000
"""Largest number of switch vectors that are enumerated."""

MAX_CELLS = 4_000_000
"""Largest number of entries of an array, which bounds the memory of `exact_curve`."""


class NoiseDifference(Protocol):
    """What the theory needs to know about noise; all mechanisms and `ContinuousLaplace` have it."""

    def difference_excess(self, b: ArrayLike) -> NDArray[np.float64] | np.float64:
        """E(l − b)_+ [W] of the difference l = n_t − n_{t−1}, for any b [W]."""


class ContinuousLaplace:
    """The paper's own noise: continuous Laplace noise without a grid.

    Parameters
    ----------
    scale : array_like
        Laplace scale λ = Δf/ε; an array is broadcast with the arguments of the methods. [W]

    Notes
    -----
    The difference l = n_t − n_{t−1} has the density (1 + |x|/λ) e^(−|x|/λ)/(4λ). Hence
    E|l| = 3λ/2, and E(l − b)_+ = (3λ + b)/4 · e^(−b/λ) for b ≥ 0.
    """

    def __init__(self, scale: ArrayLike) -> None:
        self.scale = positive_array("scale", scale)

    def difference_density(self, x: ArrayLike) -> FloatArray:
        """Density of l [1/W] at x [W]."""
        size = np.abs(np.asarray(x, dtype=np.float64)) / self.scale
        return np.asarray((1 + size) * np.exp(-size) / (4 * self.scale))

    def difference_tail(self, b: ArrayLike) -> FloatArray:
        """P(l > b) for any b [W]."""
        watts = np.asarray(b, dtype=np.float64)
        size = np.abs(watts) / self.scale
        tail = (2 + size) * np.exp(-size) / 4
        return np.asarray(np.where(watts >= 0, tail, 1 - tail))

    def difference_excess(self, b: ArrayLike) -> FloatArray:
        """E(l − b)_+ [W] for any b [W]."""
        watts = np.asarray(b, dtype=np.float64)
        size = np.abs(watts)
        tail = (3 * self.scale + size) / 4 * np.exp(-size / self.scale)
        return np.asarray(tail + np.maximum(0.0, -watts))


def exact_accuracy(
    home: Home,
    switched: ArrayLike | Sequence[str] | None = None,
    *,
    mechanism: NoiseDifference,
    trace: Trace | None = None,
    max_switches: int | None = None,
    jump: float | None = None,
    readings: Trace | None = None,
) -> float:
    """Exact expected accuracy of the relaxed attacker: E[α] of one jump, or E[α_m] of a series.

    Parameters
    ----------
    home : Home
    switched : vector of length N, or names
        The appliances that switched: names, or 0 or 1 for every appliance, all in one direction;
        −1 marks an appliance that switched off while others switched on.
    mechanism : Mechanism or ContinuousLaplace
    trace : Trace with states, optional
        Instead of `switched`: the mean over every step of the trace. The jumps are Σ ± P of its
        switches, or those of its readings if an appliance has levels.
    max_switches : int, optional
        Instead of `switched`: the mean over all vectors of at most this number of switches in one
        direction, which are equally likely.
    jump : float, optional
        With `switched`: the true jump d of the meter; Σ ± P of the switches if it is not given.
        It must be given if one of them has levels. [W]
    readings : Trace with states, optional
        Instead of all of these: E[α_m] of Algorithm 1 before error correction, the mean over the
        readings of this trace after the first one, whose state the attacker knows. See
        `hushmeter.theory.exact.series_accuracy`, which needs a mechanism with a grid.

    Returns
    -------
    float
        E[α] or E[α_m].

    Raises
    ------
    InputError
        Unless exactly one of `switched`, `trace`, `max_switches` and `readings` is given and
        valid; or if the jump is that of an appliance with levels and is not given.

    Notes
    -----
    Bernoulli rounding, as in the paper, does not change the mean; `rounding="threshold"` does. A
    mechanism that rounds readings to its grid can change a jump by up to one step of the grid:
    give the jump on the grid if this matters.

    Examples
    --------
    >>> home = hm.Home([hm.Appliance("kettle", 2000.0), hm.Appliance("fridge", 120.0)])
    >>> noise = hm.Laplace(epsilon=1.0, sensitivity=100.0)
    >>> round(hm.exact_accuracy(home, switched=["kettle"], mechanism=noise), 3)
    0.818
    """
    if readings is not None:
        if not all(given is None for given in (switched, trace, max_switches, jump)):
            raise InputError("give readings alone, without switched, trace, max_switches or jump.")
        if not isinstance(mechanism, GridDistribution):
            raise InputError("the accuracy of a series needs a mechanism with a grid.")
        if len(readings) < 2:
            raise InputError("the accuracy of a series needs at least two readings.")
        return float(series_accuracy(home, readings, mechanism=mechanism)[1:].mean())
    shares = appliance_accuracy(
        home,
        switched,
        mechanism=mechanism,
        trace=trace,
        max_switches=max_switches,
        jump=jump,
    )
    return float(shares.mean())


def appliance_accuracy(
    home: Home,
    switched: ArrayLike | Sequence[str] | None = None,
    *,
    mechanism: NoiseDifference,
    trace: Trace | None = None,
    max_switches: int | None = None,
    jump: float | None = None,
) -> FloatArray:
    """Probability that the relaxed attacker is correct about each appliance.

    Parameters
    ----------
    home, switched, mechanism, trace, max_switches, jump
        As in `exact_accuracy`, which is the mean over the appliances.

    Returns
    -------
    array, shape (N,)
    """
    vectors, weights, jumps = _question(home, switched, trace, max_switches, jump)
    shares = _accuracies(home, vectors, jumps, mechanism)
    return np.asarray(np.einsum("v,...vn->...n", weights, shares))


def exact_curve(
    home: Home,
    scale: ArrayLike,
    switched: ArrayLike | Sequence[str] | None = None,
    *,
    trace: Trace | None = None,
    max_switches: int | None = None,
    jump: float | None = None,
    unexplained: str = "all",
) -> FloatArray:
    """Exact E[α] under the paper's continuous Laplace noise, to compare with Theorems 3 and 4.

    Parameters
    ----------
    home : Home
    scale : array_like
        Laplace scales λ. [W]
    switched, trace, max_switches, jump
        As in `exact_accuracy`.
    unexplained : {"all", "none", "error"}
        Answer to a jump that is larger than the total power and the tolerance together: every
        appliance switches, no appliance switches, or N errors are counted. The last is the rule
        of the paper's authors.

    Returns
    -------
    array, of the shape of `scale`

    Notes
    -----
    Where the jump is infeasible, "all" is correct about the appliances that switched, "none" about
    the others, and "error" about none. The three curves therefore differ by the probability
    P(|d + l| > ΣP + δ), counted for the appliances of each kind.
    """
    one_of("unexplained", unexplained, ("all", "none", "error"))
    scales = positive_array("scale", scale)
    vectors, weights, jumps = _question(home, switched, trace, max_switches, jump)
    pieces = max(1, min(scales.size, scales.size * vectors.size // MAX_CELLS))
    curve = [
        np.einsum("v,evn->e", weights, _accuracies(home, vectors, jumps, noise))
        + np.einsum("v,evn->e", weights, _infeasible(home, vectors, jumps, noise, unexplained))
        for noise in map(ContinuousLaplace, np.array_split(scales.reshape(-1, 1, 1), pieces))
    ]
    return np.concatenate(curve).reshape(scales.shape) / len(home)


def expected_switches(
    powers: FloatArray, tolerance: float, jumps: FloatArray, noise: NoiseDifference
) -> FloatArray:
    """Expected switch probabilities E[Δ*_i] of (P4).

    Parameters
    ----------
    powers : array, shape (N,)
        Appliance powers P. [W]
    tolerance : float
        Tolerance δ. [W]
    jumps : array, shape (V,)
        True jumps d. [W]
    noise : Mechanism or ContinuousLaplace

    Returns
    -------
    array, shape (V, N)
    """
    starts, d = tolerance + power_before(powers), jumps[:, None]

    def excess_beyond(k: FloatArray) -> FloatArray:
        return np.asarray(noise.difference_excess(k - d) + noise.difference_excess(k + d))

    return np.asarray((excess_beyond(starts) - excess_beyond(starts + powers)) / powers)


def mean_shortfall(noise: NoiseDifference, room: ArrayLike) -> FloatArray:
    """Mean shortfall E(a − |l|)_+ = a − E|l| + E(|l| − a)_+ [W]; 0 if a ≤ 0."""
    some = np.maximum(0.0, np.asarray(room, dtype=np.float64))
    mean = 2 * np.asarray(noise.difference_excess(0.0))
    beyond = 2 * np.asarray(noise.difference_excess(some))
    return np.where(some > 0, np.maximum(some - mean + beyond, 0.0), 0.0)


def capped_excess(noise: NoiseDifference, dead: ArrayLike, cap: ArrayLike) -> FloatArray:
    """Capped excess E[min((l − x)_+, M)] = E(l − x)_+ − E(l − x − M)_+ [W]."""
    far = np.asarray(dead) + np.asarray(cap)
    return np.asarray(noise.difference_excess(dead) - noise.difference_excess(far))


def switch_vector(home: Home, switched: ArrayLike | Sequence[str]) -> FloatArray:
    """Convert names, or a vector of length N, to −1, 0 or 1 for every appliance, shape (N,)."""
    if isinstance(switched, str):
        switched = [switched]
    if isinstance(switched, Sequence) and all(isinstance(name, str) for name in switched):
        vector = np.zeros(len(home))
        vector[[home.index(str(name)) for name in switched]] = 1.0
        return vector
    vector = finite_vector("switched", switched)
    if vector.shape != (len(home),) or not np.isin(vector, (-1, 0, 1)).all():
        raise InputError(
            f"switched must be names, or 0, 1 or −1 for each of the {len(home)} appliances."
        )
    return vector


def _accuracies(
    home: Home, vectors: FloatArray, jumps: FloatArray, noise: NoiseDifference
) -> FloatArray:
    """Probability of a correct answer for each switch vector and appliance, shape (V, N).

    The attacker treats an appliance with levels as its increments, and names it if it names any of
    them. (P3) fills the largest increments first, so that this has the probability of the largest
    increment of the appliance.
    """
    increments = Increments(home)
    parts = increments.home.powers
    largest = [
        int(members[parts[members].argmax()])
        for members in (np.flatnonzero(increments.owners == i) for i in range(len(home)))
    ]
    named = expected_switches(parts, home.tolerance, jumps, noise)[..., largest]
    return np.where(vectors != 0, named, 1 - named)


def refuse_levels(home: Home, used: ArrayLike = True) -> None:
    """Refuse levels of the used appliances where a result is known for one power each only."""
    shown = np.broadcast_to(used, len(home))
    levelled = [one.name for one, is_used in zip(home.appliances, shown, strict=True)
                if one.levels and is_used]  # fmt: skip
    if levelled:
        raise InputError(
            f"this result is known for appliances of one power, but {', '.join(levelled)} "
            f"{'has' if len(levelled) == 1 else 'have'} levels; give a trace to `exact_accuracy`, "
            "or use `home.one_power_each()` for an attacker that knows mean powers only."
        )


def _infeasible(
    home: Home,
    vectors: FloatArray,
    jumps: FloatArray,
    noise: ContinuousLaplace,
    unexplained: str,
) -> FloatArray:
    """Change of the accuracy by the answer to infeasible jumps, for each vector and appliance."""
    total = sum(max(one.on_levels) for one in home.appliances)
    reach, d = float(total) + home.tolerance, jumps[:, None]
    chance = noise.difference_tail(reach - d) + noise.difference_tail(reach + d)
    gained = {"all": 0.0, "none": 1.0, "error": 0.0}[unexplained]
    lost = {"all": 0.0, "none": 1.0, "error": 1.0}[unexplained]
    return np.asarray(np.where(vectors != 0, -lost * chance, gained * chance))


def _question(
    home: Home,
    switched: ArrayLike | Sequence[str] | None,
    trace: Trace | None,
    max_switches: int | None,
    jump: float | None,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Switch vectors (V, N), their probabilities (V,) and true jumps [W] (V,).

    With levels the power of an appliance is not known from its state, nor is a change of its level
    a switch: the jumps of a trace are then those of its readings, and others must be given.
    """
    vectors, weights = _switch_distribution(home, switched, trace, max_switches)
    if jump is not None:
        if switched is None:
            raise InputError("a jump belongs to one switch vector: give switched with it.")
        return vectors, weights, finite_vector("jump", [jump])
    if trace is None or Increments(home).trivial:
        refuse_levels(home, vectors.any(axis=0))
        return vectors, weights, vectors @ home.powers
    inside = ~trace.run_starts[1:]
    vectors = np.diff(trace.truth().astype(np.float64), axis=0)[inside]
    jumps = np.diff(trace.readings)[inside]
    return vectors, np.full(jumps.size, 1 / jumps.size), jumps


def _switch_distribution(
    home: Home,
    switched: ArrayLike | Sequence[str] | None,
    trace: Trace | None,
    max_switches: int | None,
) -> tuple[FloatArray, FloatArray]:
    """Switch vectors (V, N) and their probabilities (V,)."""
    if sum(given is not None for given in (switched, trace, max_switches)) != 1:
        raise InputError("give exactly one of switched, trace and max_switches.")
    if switched is not None:
        return switch_vector(home, switched)[None, :], np.ones(1)
    if trace is not None:
        return _observed_switches(home, trace)
    return _uniform_switches(len(home), whole("max_switches", max_switches, least=0))


def _observed_switches(home: Home, trace: Trace) -> tuple[FloatArray, FloatArray]:
    """Switch vectors of a trace and their frequencies."""
    states = home.truth_of(trace)
    moves = np.diff(states.astype(np.int8), axis=0)[~trace.run_starts[1:]]
    if moves.shape[0] == 0:
        raise InputError("the trace has no two readings in a row.")
    vectors, counts = np.unique(moves, axis=0, return_counts=True)
    return vectors.astype(np.float64), counts / counts.sum()


def _uniform_switches(n: int, most: int) -> tuple[FloatArray, FloatArray]:
    """All vectors of at most `most` switches, with equal probabilities."""
    most = min(most, n)
    count = sum(comb(n, u) for u in range(most + 1))
    if count > MAX_VECTORS:
        raise InputError(
            f"there are {count} vectors of at most {most} of {n} switches, which are too many to "
            "enumerate: lower max_switches or give a trace."
        )
    vectors = np.zeros((count, n))
    chosen = (members for u in range(most + 1) for members in combinations(range(n), u))
    for row, members in enumerate(chosen):
        vectors[row, list(members)] = 1.0
    return vectors, np.full(count, 1 / count)


NEGLIGIBLE = 1e-15
"""Probability of the noise beyond the last grid point that is followed."""

MAX_POINTS = 1 << 22
"""Largest number of grid points of the noise."""

MOST_LEVELS = 8
"""Largest number of levels of an appliance: the cost doubles with each."""


def series_accuracy(
    home: Home,
    trace: Trace,
    *,
    mechanism: GridDistribution,
    first_state: ArrayLike | None = None,
) -> FloatArray:
    """Probability that Algorithm 1 is correct about each appliance at each reading.

    Parameters
    ----------
    home : Home
    trace : Trace with states
        The readings [W] before noise and the true states.
    mechanism : Mechanism
        Laplace, staircase or Gaussian noise, independent from reading to reading.
    first_state : array_like of bool, shape (N,), optional
        What the attacker takes for the state at the first reading; the true state by default.

    Returns
    -------
    array, shape (T, N)
        The first row is 1 where the first state is true.

    Raises
    ------
    InputError
        If the trace has no states of these appliances, the noise has too many grid points, or an
        appliance has too many levels.

    Notes
    -----
    Let p be the distribution of the noise on its grid, d_t the jump of the readings on the grid,
    and c_i the power ranked before appliance i. Given the noise difference l, (P3) switches
    appliance i with probability h = clip((|d_t + l| − δ − c_i)/P_i, 0, 1). If x is the probability
    that the attacker takes it to be on, the next one is x + h − 2xh, so that 1 − 2x is the product
    of all g_t(l) = 1 − 2h, and of 1 or −1 for the first state. Its mean, split by the noise n of
    the last reading, is

        u_0(n) = p(n),    u_t(n) = p(n)·Σ_m g_t(n − m)·u_{t−1}(m),

    and the attacker says off at reading t with probability (1 ± Σ_n u_t(n))/2. As h is piecewise
    linear, the sum over m needs only the double cumulative sum of u_{t−1}, at four shifts: the cost
    is linear in the number of grid points.

    An appliance with K levels is K increments, and off if all of them are. Given the noise their
    roundings are independent, so that the probability of off is the mean of Π_i (1 + s_i)/2 with
    s_i = 1 − 2x_i: 2^−K times the sum of the means of Π_{i ∈ S} s_i over all sets S. (P3) fills the
    increments one after the other. At most one h is therefore not 0 or 1, and the product of
    several g is piecewise linear too.

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
    states = home.truth_of(trace)
    increments = Increments(home)
    first = states[0] if first_state is None else np.asarray(first_state, dtype=np.bool_)
    sign = np.where(increments.expand(first), -1.0, 1.0)
    grid = float(mechanism.exact_grid)
    on_grid = np.floor(trace.readings / grid + 0.5)
    seen = _masses(mechanism), np.diff(on_grid, prepend=on_grid[:1]), trace.run_starts
    powers = increments.home.powers
    starts, widths = (home.tolerance + power_before(powers)) / grid, powers / grid
    correct = np.empty(states.shape)
    for i, name in enumerate(home.names):
        members = np.flatnonzero(increments.owners == i)
        if members.size > MOST_LEVELS:
            raise InputError(f"{name} has {members.size} levels; at most {MOST_LEVELS} are exact.")
        off = np.ones(len(trace))
        for part in chain.from_iterable(
            combinations(members.tolist(), size) for size in range(1, members.size + 1)
        ):
            rows = list(part)
            off += sign[rows].prod() * _follow(*seen, *_bends(starts[rows], widths[rows]))
        off /= 2.0**members.size
        correct[:, i] = np.where(states[:, i], 1 - off, off)
    return correct


def _bends(starts: FloatArray, widths: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Where Π (1 − 2h) of some increments bends as a function of the jump, and by how much."""
    order = np.argsort(starts, kind="stable")
    slopes = -2.0 / widths[order] * (-1.0) ** np.arange(order.size)
    return np.append(starts[order], (starts + widths)[order]), np.append(slopes, -slopes)


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


@compiled(cache=True, nogil=True)
def _follow(
    masses: FloatArray,
    jumps: FloatArray,
    run_starts: BoolArray,
    places: FloatArray,
    bends: FloatArray,
) -> FloatArray:
    """Mean of the product of all g so far at every reading, for g that bends at some jumps.

    `beyond[k]` is Σ_m (k − m)_+ u(m). Between grid points it is linear in k, so that interpolation
    gives the exact value for powers that are no multiple of the grid.
    """
    points = masses.size
    weights = masses.copy()
    beyond = np.empty(points)
    mean = np.ones(jumps.size)
    moment = np.sum(places * bends)
    for t in range(1, jumps.size):
        total, beyond[0] = weights[0], 0.0
        for k in range(1, points):
            beyond[k] = beyond[k - 1] + total
            total += weights[k]
        mean[t] = 0.0
        for n in range(points):
            factor = total
            if not run_starts[t]:
                at = n + jumps[t]
                # Σ_m (m − x)_+ u(m) = Σ_m (x − m)_+ u(m) − x·Σ u + Σ m·u, for falling jumps. All
                # bends add up to zero, so that of the last two terms only the moment is left.
                factor -= moment * total
                for k in range(places.size):
                    factor += bends[k] * (
                        _at(beyond, total, at - places[k]) + _at(beyond, total, at + places[k])
                    )
            weights[n] = masses[n] * factor
            mean[t] += weights[n]
    return mean


@compiled(cache=True, nogil=True)
def _at(beyond: FloatArray, total: float, x: float) -> float:
    """Σ_m (x − m)_+ u(m) at any x, from its values at the grid points."""
    last = beyond.size - 1
    if x <= 0.0:
        return 0.0
    if x >= last:
        return float(beyond[last] + (x - last) * total)
    k = int(x)
    return float(beyond[k] + (x - k) * (beyond[k + 1] - beyond[k]))
