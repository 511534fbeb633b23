"""Loads whose sum is observed with noise: their model, its exact decoding, and the FHMM attacker.

A state of a load has a mean μ [W] and a variance σ² [W²] of its power, and every load is a Markov
chain. A mechanism adds noise n. With r = y − μ the density of a reading y in a joint state is

    g(r) = (1 − η) · (N(0, σ²) ∗ distribution of n)(r) + η · e^(−|r|/b) / 2b.

The second term has weight η and long tails, so that no reading is impossible. All distributions
are symmetric. `NoisyEmission` tabulates g for a few values of σ and interpolates. FHMM has one
Gaussian distribution for all states (`GaussianEmission`), and fits the chain of each appliance by
expectation–maximisation (Baum–Welch). `ExactSearch` decodes readings exactly; `beam.BeamSearch`
decodes homes with too many joint states.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from typing import ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from hushmeter.attack.base import (
    NoiseDistribution,
    Observation,
    ProbabilisticAttacker,
    check_mechanism,
)
from hushmeter.attack.chains import (
    ChainSet,
    StateArray,
    best_path,
    chain_marginals,
    check_states,
    count_transitions,
    expect_transitions,
    outer_sum,
)
from hushmeter.attack.levels import assign_levels, cluster, estimate_power, learn_levels
from hushmeter.checks import BoolArray, FloatArray, IntArray, one_of, positive, whole
from hushmeter.compiled import compiled
from hushmeter.errors import InputError
from hushmeter.home import Home
from hushmeter.trace import Trace

MOST_STATES = 1 << 20
"""Largest number of joint states that is decoded."""

ROUNDS = 10
"""Largest number of rounds of expectation–maximisation. Few rounds are usual, and they keep the
states close to the clusters they start from."""

TOLERANCE = 1e-2
"""Gain of the log-likelihood below which the rounds end."""

LEAST_VARIANCE = 1e-2
"""Smallest variance of a state [W²], the usual value of implementations."""

UNSEEN = 1e-3
"""Number of times that a transition which never occurred in training is assumed to occur."""

CELLS = 1024
"""Number of cells of the table of one σ, from r = 0 to the end of the noise."""

RATIO = 1.12
"""States whose σ differ by less than this factor share a table."""

TAIL_STEPS = 8
"""Number of cells of the table of the tails per length b."""

NEGLIGIBLE = 1e-10
"""The tables end at the 1 − NEGLIGIBLE quantile of the noise; beyond it the tails apply."""


class _StateTables(NamedTuple):
    """Mean of every joint state [W], where its table begins, and the factors of the table."""

    means: FloatArray
    rows: IntArray
    per_watt: FloatArray
    weight: FloatArray
    per_tail: FloatArray


class NoisyEmission:
    """Densities [1/W] of readings in joint states with variances of their own and known noise."""

    def __init__(
        self,
        means: FloatArray,
        variances: FloatArray,
        noise: NoiseDistribution | None,
        outlier: float,
        reach: float,
    ) -> None:
        self.means = means
        spreads, classes = spread_classes(np.sqrt(variances))
        ends = 8 * spreads + (noise.quantile(1 - NEGLIGIBLE) if noise else 0.0)
        level = np.sqrt(spreads**2 + (noise.std**2 if noise else 0.0))
        tails = np.maximum(8 * level, reach / 400)
        residuals = np.linspace(0.0, ends, CELLS + 2, axis=1)
        logs = [noisy_log_density(r, s, noise) for r, s in zip(residuals, spreads, strict=True)]
        far = outlier / (2 * tails[:, None]) * np.exp(-residuals / tails[:, None])
        self.tables = (
            (1 - outlier) * np.exp(logs) + far,
            (CELLS + 1) / ends,
            outlier / (2 * tails),
            TAIL_STEPS / tails,
            np.exp(-np.arange(512 * TAIL_STEPS + 2) / TAIL_STEPS),
        )
        core, per_watt, weight, per_tail, decay = self.tables
        self._flat = np.concatenate([core.ravel(), decay])
        rows = classes.astype(np.int64) * (CELLS + 2)
        self._states = _StateTables(
            means, rows, per_watt[classes], weight[classes], per_tail[classes]
        )

    def densities(self, readings: FloatArray) -> FloatArray:
        """Compute g for every reading and joint state, shape (T, S)."""
        out = np.empty((readings.size, self.means.size))
        first_tail = self._flat.size - self.tables[4].size
        # The copy is writable: numba would compile the kernel again for read-only readings.
        _look_up(readings.copy(), self._states, self._flat, first_tail, out)
        return out

    def log_densities(self, readings: FloatArray) -> FloatArray:
        """Logarithm of g, shape (T, S)."""
        return np.log(self.densities(readings))


def noisy_log_density(
    residuals: FloatArray, spread: float, noise: NoiseDistribution | None
) -> FloatArray:
    """Log-density, at residuals [W], of a Gaussian of standard deviation σ [W] plus the noise.

    Rounding to the grid adds grid²/12 to σ².
    """
    if noise is None:
        return -0.5 * (residuals / spread) ** 2 - math.log(spread * math.sqrt(2 * math.pi))
    return noise.log_density(residuals, math.hypot(spread, noise.grid / math.sqrt(12)))


def spread_classes(spreads: FloatArray) -> tuple[FloatArray, NDArray[np.int32]]:
    """A few values of σ, at most a factor RATIO apart, and the class of every state."""
    lowest = float(spreads.min())
    rank = np.rint(np.log(spreads / lowest) / math.log(RATIO)).astype(np.int64)
    used, classes = np.unique(rank, return_inverse=True)
    return lowest * RATIO ** used.astype(np.float64), classes.astype(np.int32)


@compiled(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def _look_up(
    readings: FloatArray,
    states: _StateTables,
    flat: FloatArray,
    first_tail: int,
    out: FloatArray,
) -> None:
    """Interpolate in the table of the core or, beyond its end, in that of the tail.

    Both tables are in `flat`; the tail begins at `first_tail`.
    """
    means, rows, per_watt, weight, per_tail = states
    cells, last = CELLS + 1.0, flat.size - first_tail - 2.0
    for t in range(readings.size):
        y, row = readings[t], out[t]
        for s in range(means.size):
            away = abs(y - means[s])
            near, far = away * per_watt[s], away * per_tail[s]
            # Conditional values instead of branches: the table differs from state to state, and
            # a branch would keep the loop from being vectorised.
            inside = near < cells
            at = near if inside else (far if far < last else last)
            cell = int(at)
            i = cell + (rows[s] if inside else first_tail)
            value = flat[i] + (at - cell) * (flat[i + 1] - flat[i])
            row[s] = value * (1.0 if inside else weight[s])


class GaussianEmission:
    """Densities of readings in joint states with one variance, relative to the largest of each."""

    def __init__(self, means: FloatArray, variance: float) -> None:
        self.means, self.variance = means, variance

    def densities(self, readings: FloatArray) -> FloatArray:
        """Compute densities, shape (T, S)."""
        logs = self.log_densities(readings)
        # exp(−600) is still positive: if all reachable states had likelihood zero, the forward
        # recursion would divide by zero.
        return np.exp(np.maximum(logs, -600.0, out=logs), out=logs)

    def log_densities(self, readings: FloatArray) -> FloatArray:
        """Compute log-densities, shape (T, S)."""
        out = np.empty((readings.size, self.means.size))
        _fill_gaussian(readings.copy(), self.means, -0.5 / self.variance, out)
        return out


@compiled(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def _fill_gaussian(readings: FloatArray, means: FloatArray, factor: float, out: FloatArray) -> None:
    """Fill `out` row by row; a row is small enough to stay in the cache for its maximum."""
    for t in range(readings.size):
        y, row = readings[t], out[t]
        for s in range(means.size):
            row[s] = factor * (y - means[s]) ** 2
        row -= row.max()


Known = Sequence[BoolArray | None]
"""Possible states of each load at the first reading; None for all states."""


@dataclass(frozen=True)
class LoadModel:
    """Loads with their states, and the distribution of their observed sum."""

    # Mean [W] and variance [W²] of the power of each load in each state
    means: tuple[FloatArray, ...]
    variances: tuple[FloatArray, ...]
    # Chain of each load, as in `ChainSet`
    transitions: tuple[FloatArray, ...]
    initial: tuple[FloatArray, ...]
    variance: float  # Variance of the sum that belongs to no load [W²]
    noise: NoiseDistribution | None  # Known noise of the readings
    outlier: float  # Share of readings that no state explains

    @property
    def chains(self) -> ChainSet:
        """Chains of the loads."""
        return ChainSet(self.transitions, self.initial)

    def subset(self, loads: Sequence[int] | IntArray) -> LoadModel:
        """Model of some of the loads, in the given order."""
        return replace(
            self,
            means=tuple(self.means[i] for i in loads),
            variances=tuple(self.variances[i] for i in loads),
            transitions=tuple(self.transitions[i] for i in loads),
            initial=tuple(self.initial[i] for i in loads),
        )

    def emission(self, reach: float) -> NoisyEmission | GaussianEmission:
        """Densities of readings up to `reach` [W] away from the power of a state.

        A model without outliers has Gaussian states of one variance, which includes that of the
        noise.
        """
        means = outer_sum(self.means)
        if not self.outlier:
            return GaussianEmission(means, self.variance)
        variances = outer_sum(self.variances) + self.variance
        return NoisyEmission(means, variances, self.noise, self.outlier, reach)

    def reach(self, readings: FloatArray) -> float:
        """Largest distance [W] between a reading and the power of a state."""
        highest = sum(float(watts.max()) for watts in self.means)
        lowest = sum(float(watts.min()) for watts in self.means)
        return max(float(readings.max()) - lowest, highest - float(readings.min()))

    def sum_moments(self, readings: FloatArray, starts: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Mean [W] and variance [W²] of the sum of all loads given all readings, shape (T,)."""
        watts = outer_sum(self.means)
        squares = watts**2 + outer_sum(self.variances)
        means, seconds = np.empty((2, readings.size))
        for rows, chances in ExactSearch(self, readings, starts).blocks(joint=True):
            means[rows], seconds[rows] = chances @ watts, chances @ squares
        return means, np.maximum(seconds - means**2, 0.0)


class Search(Protocol):
    """What is found out about the loads of a model from one trace."""

    def blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        """Marginals of the states of all loads, block by block: see `chain_marginals`."""

    def path(self) -> IntArray:
        """States of all loads on the most probable joint path, shape (T, M)."""


class ExactSearch:
    """Exact recursions of a model over one trace."""

    def __init__(
        self,
        model: LoadModel,
        readings: FloatArray,
        starts: BoolArray,
        known: Known | None = None,
    ) -> None:
        self.chains, self.readings, self.starts = model.chains, readings, starts
        self.emission = model.emission(model.reach(readings))
        self.first = self.chains.joint_initial(known)

    def blocks(self, *, joint: bool = False) -> Iterator[tuple[slice, FloatArray]]:
        """Compute the marginals of all loads, or of their joint states: see `chain_marginals`."""
        return chain_marginals(
            self.chains,
            lambda rows: self.emission.densities(self.readings[rows]),
            self.starts,
            self.first,
            joint=joint,
        )

    def path(self) -> IntArray:
        """Find the states of all loads on the most probable joint path, shape (T, M)."""
        joint = best_path(
            self.chains,
            lambda rows: self.emission.log_densities(self.readings[rows]),
            self.starts,
            self.first,
        )
        return self.chains.split(joint).astype(np.int64)


class LoadAttacker(ProbabilisticAttacker):
    """An attacker whose model is one chain for every appliance, and last the unmetered load.

    A subclass implements `_model`. It learns `transitions_` and `idle_`, the number of states of
    each appliance that count as off.
    """

    uses_noise: ClassVar[bool] = True

    transitions_: tuple[FloatArray, ...]
    idle_: IntArray

    def _model(self) -> LoadModel:
        """The loads in the order of `_units`, then the unmetered load."""
        raise NotImplementedError(f"{type(self).__name__} must implement _model.")

    def _units(self) -> list[tuple[int, ...]]:
        """Appliances of each chain, largest first, so that the order of the home has no effect."""
        return [(int(i),) for i in np.argsort(-self.home.powers, kind="stable")]

    def _search(self, seen: Observation) -> Search:
        return ExactSearch(self._model(), seen.readings, seen.run_starts, self._known(seen))

    def _known(self, seen: Observation) -> Known | None:
        """States in which each load of the model can start."""
        if seen.first_state is None:
            return None
        allowed = [
            (np.arange(len(matrix)) >= idle) == on
            for matrix, idle, on in zip(
                self.transitions_, self.idle_, seen.first_state, strict=False
            )
        ]
        chains = [
            reduce(np.logical_and.outer, [allowed[i] for i in unit]).ravel()
            for unit in self._units()
        ]
        return [*chains, None]

    def _path(self, seen: Observation) -> IntArray:
        """State of every appliance on the most probable joint path, shape (T, N)."""
        ranked = self._search(seen).path()
        path = np.empty((len(seen), len(self.home)), np.int64)
        for place, unit in enumerate(self._units()):
            sizes = [len(self.transitions_[i]) for i in unit]
            path[:, unit] = np.stack(np.unravel_index(ranked[:, place], sizes), axis=1)
        return path

    def _marginals(self, seen: Observation) -> Iterator[tuple[slice, int, FloatArray]]:
        """P(state | all readings), shape (rows, K), of some rows and one appliance at a time."""
        blocks, units = self._search(seen).blocks(), self._units()
        shapes = [[len(self.transitions_[i]) for i in unit] for unit in units]
        bounds = np.cumsum([0, *map(math.prod, shapes)])
        for rows, block in blocks:
            for unit, shape, (first, stop) in zip(units, shapes, pairwise(bounds), strict=True):
                joint = block[:, first:stop].reshape(-1, *shape)
                for axis, i in enumerate(unit, 1):
                    others = tuple(k for k in range(1, joint.ndim) if k != axis)
                    yield rows, i, joint.sum(axis=others)


class FactorialHmm(LoadAttacker):
    """FHMM [1]_. Factorial hidden Markov model, in the form of NILMTK [2]_.

    Parameters
    ----------
    home : Home
    variance : float, optional
        Variance v of the readings; it is learnt from the training data if it is not given. NILMTK
        sets it to 5. [W²]
    most_levels : int, optional
        Largest number of on-levels of one appliance; the number in the home if it is not given.
        NILMTK's two states are one on-level.
    chains : {"em", "counted"}
        "em" fits a Gaussian hidden Markov chain to the power of each appliance by
        expectation–maximisation, as NILMTK does; "counted" learns levels by `learn_levels` and
        counts the transitions between them.
    mechanism : Laplace, Staircase, Gaussian or None
        Mechanism whose noise variance is added to v: see `Attacker.knows`.

    Attributes
    ----------
    levels_ : tuple of arrays
        State powers of each appliance, ascending. [W]
    idle_ : array of int, shape (N,)
        Number of these states that count as off. An appliance that is on in all its states gets
        an additional state of 0 W.
    transitions_, initial_ : tuples of arrays
        Transition matrices and initial distributions of the chains.
    base_load_ : float
        Mean of the training readings less the power of the states. [W]
    variance_ : float
        The given variance, or the variance of the same difference. [W²]

    Notes
    -----
    The model is y_t ~ N(base load + Σ_m r_{m, s_m}, v) with independent chains s_m. The states
    are those of the most probable joint path. It is found one chain at a time in
    O(T · Π K · Σ K), without the Kronecker product of the transition matrices that NILMTK builds.

    References
    ----------
    .. [1] Z. Ghahramani, M. I. Jordan, "Factorial hidden Markov models", Machine Learning 29,
       1997.
    .. [2] N. Batra et al., "NILMTK: an open source toolkit for non-intrusive load monitoring",
       ACM e-Energy, 2014.
    """

    name: ClassVar[str] = "fhmm"
    needs: ClassVar[str] = "sub-metered training data"
    assumes: ClassVar[str] = "appliances switch independently; Gaussian errors of one variance"

    def __init__(
        self,
        home: Home,
        *,
        variance: float | None = None,
        most_levels: int | None = None,
        chains: str = "em",
        mechanism: NoiseDistribution | None = None,
    ) -> None:
        super().__init__(home)
        self.variance = None if variance is None else positive("variance", variance)
        self.most_levels = None if most_levels is None else whole("most_levels", most_levels)
        self.chains = one_of("chains", chains, ("counted", "em"))
        self.mechanism = check_mechanism(mechanism)

    def fit(self, trace: Trace) -> Self:
        """Learn levels, chains, base load and variance from readings with true states."""
        super().fit(trace)
        power = estimate_power(trace, self.home) if trace.power is None else trace.power
        labels = self._fit_states(trace, power)
        columns = [watts[label] for watts, label in zip(self.levels_, labels, strict=True)]
        rest = trace.readings - np.sum(columns, axis=0)
        self.base_load_ = float(rest.mean())
        # At least 0.5 W²: readings that the states explain exactly would leave no variance.
        self.variance_ = max(float(rest.var()), 0.5) if self.variance is None else self.variance
        return self

    def _predict(self, seen: Observation) -> BoolArray:
        """States (T, N) on the most probable path; a given initial state is row 0."""
        on: BoolArray = self._path(seen) >= self.idle_
        return on

    def _predict_power(self, seen: Observation) -> FloatArray:
        """Power of the states on the most probable path [W], shape (T, N)."""
        path = self._path(seen)
        return np.stack([watts[path[:, i]] for i, watts in enumerate(self.levels_)], axis=1)

    def _predict_proba(self, seen: Observation) -> FloatArray:
        """P(on | all readings) of every appliance under the model, shape (T, N)."""
        chance = np.empty((len(seen), len(self.home)))
        for rows, i, states in self._marginals(seen):
            chance[rows, i] = states[:, self.idle_[i] :].sum(axis=1)
        return np.clip(chance, 0.0, 1.0, out=chance)

    def _check_learnt(self) -> None:
        if hasattr(self, "levels_"):
            parts = (self.transitions_, self.initial_, self.levels_)
            check_states(len(self.home), self.idle_, *parts)
            positive("variance", self.variance_)

    def _fit_states(self, trace: Trace, power: FloatArray) -> list[StateArray]:
        """Learn levels and chains; returns the state of every appliance in training."""
        if self.chains == "em":
            return self._fit_by_em(trace, power)
        known = Trace(trace.readings, trace.interval_s, states=trace.truth(), power=power)
        table = learn_levels(known, self.home, max(self._most_levels()))
        labels = list(assign_levels(power, trace.truth(), table).T)
        counted = [
            count_transitions(label, size, trace.run_starts, 1.0)
            for label, size in zip(labels, table.counts, strict=True)
        ]
        self.levels_ = table.powers
        self.idle_ = np.ones(len(self.home), np.int64)
        self.transitions_ = tuple(matrix for matrix, _ in counted)
        self.initial_ = tuple(initial for _, initial in counted)
        return labels

    def _fit_by_em(self, trace: Trace, power: FloatArray) -> list[StateArray]:
        fits, idle = [], []
        for i, most in enumerate(self._most_levels()):
            fit, on = fit_chain(power[:, i], most + 1, trace.run_starts), trace.truth()[:, i]
            off = sum(_share(on, fit.states == k) <= 0.5 for k in range(fit.means.size))
            fits.append(fit if off else add_idle(fit))
            idle.append(max(off, 1))
        self.levels_ = tuple(np.maximum(fit.means, 0.0) for fit in fits)
        self.transitions_ = tuple(fit.transitions for fit in fits)
        self.initial_ = tuple(fit.initial for fit in fits)
        self.idle_ = np.array(idle)
        return [fit.states for fit in fits]

    def _most_levels(self) -> list[int]:
        given = [len(appliance.on_levels) for appliance in self.home.appliances]
        return given if self.most_levels is None else [self.most_levels] * len(given)

    def _model(self) -> LoadModel:
        """The appliances and, as a load of one state, the base load."""
        self._require_fit("levels_")
        order = [i for (i,) in self._units()]
        noise = 0.0 if self.mechanism is None else self.mechanism.std**2
        means = (*(self.levels_[i] for i in order), np.array([self.base_load_]))
        model = LoadModel(
            means,
            tuple(np.zeros(watts.size) for watts in means),
            (*(self.transitions_[i] for i in order), np.ones((1, 1))),
            (*(self.initial_[i] for i in order), np.ones(1)),
            self.variance_ + noise,
            noise=None,
            outlier=0.0,
        )
        if model.chains.states > MOST_STATES:
            raise InputError(
                f"the joint space has {model.chains.states} states, but fhmm decodes at most "
                f"{MOST_STATES}; lower most_levels or use the bayes attacker."
            )
        return model


def _share(on: BoolArray, where: BoolArray) -> float:
    """Share of the readings `where` with the appliance on; one if there are none."""
    return float(on[where].mean()) if where.any() else 1.0


@dataclass(frozen=True)
class ChainFit:
    """A fitted chain, with its states in ascending order of power."""

    # Mean [W] and variance [W²] of the power in each state
    means: FloatArray
    variances: FloatArray
    transitions: FloatArray  # Transition probabilities
    initial: FloatArray  # Share of each state in the long run
    states: StateArray  # Most probable state at each training reading


def fit_chain(power: FloatArray, size: int, starts: BoolArray) -> ChainFit:
    """Fit a chain with Gaussian states to the power [W] of one appliance.

    Notes
    -----
    This is NILMTK's rule: the Baum–Welch algorithm, here started from the clusters of an optimal
    k-means. It differs from `learn_levels` because the states of the publication are not given the
    truth.
    """
    power = np.array(power, order="C")
    means = cluster(power, size)[0]
    if means.size == 1:
        means = np.array([means[0], means[0] + max(1.0, abs(means[0]))])
    variances = np.full(means.size, max(float(power.var()), LEAST_VARIANCE))
    matrix = np.full((means.size, means.size), 1 / means.size)
    initial, before = np.full(means.size, 1 / means.size), -math.inf
    for _ in range(ROUNDS):
        chances, pairs, evidence = _expect(power, starts, means, variances, matrix, initial)
        weight = chances.sum(axis=0) + 1e-12
        means = np.where(weight > 1e-6, chances.T @ power / weight, means)
        squares = np.sum(chances * (power[:, None] - means) ** 2, axis=0)
        variances = np.maximum(squares / weight, LEAST_VARIANCE)
        matrix = (pairs + UNSEEN) / (pairs + UNSEEN).sum(axis=1, keepdims=True)
        initial = weight / weight.sum()
        if evidence - before < TOLERANCE:
            break
        before = evidence
    order = np.argsort(means, kind="stable")
    states = chances[:, order].argmax(axis=1).astype(np.int8)
    return ChainFit(
        means[order], variances[order], matrix[np.ix_(order, order)], initial[order], states
    )


def add_idle(fit: ChainFit) -> ChainFit:
    """Add a first state of 0 W, which did not occur in training, to a chain."""
    size = fit.means.size + 1
    seen = np.full(size, UNSEEN / fit.states.size)
    seen[1:] = fit.initial
    transitions = np.tile(seen, (size, 1))
    transitions[1:, 1:] = fit.transitions
    return ChainFit(
        np.append(0.0, fit.means),
        np.append(LEAST_VARIANCE, fit.variances),
        transitions / transitions.sum(axis=1, keepdims=True),
        seen / seen.sum(),
        fit.states + np.int8(1),
    )


def _expect(
    power: FloatArray,
    starts: BoolArray,
    means: FloatArray,
    variances: FloatArray,
    matrix: FloatArray,
    initial: FloatArray,
) -> tuple[FloatArray, FloatArray, float]:
    """Marginals (T, K), expected transitions (K, K) and log-evidence."""
    gaps = power[:, None] - means
    logs = -0.5 * (gaps**2 / variances + np.log(2 * np.pi * variances))
    peaks = logs.max(axis=1)
    likelihood = np.exp(logs - peaks[:, None])
    chances, pairs, evidence = expect_transitions(likelihood, starts, matrix, initial)
    return chances, pairs, evidence + float(peaks.sum())
