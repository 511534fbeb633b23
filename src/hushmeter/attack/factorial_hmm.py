"""FHMM: one hidden Markov chain per appliance, observed through the sum of their powers.

The module contains the attacker and the fit of one appliance's chain by
expectation–maximisation (Baum–Welch).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np

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
from hushmeter.attack.levels import assign_levels, cluster, learn_levels
from hushmeter.attack.loads import estimate_power, gaussian_log_densities
from hushmeter.checks import BoolArray, FloatArray, IntArray, one_of, positive, whole
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


class FactorialHmm(ProbabilisticAttacker):
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
    uses_noise: ClassVar[bool] = True

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
        order, chains, means, variance, first = self._problem(seen)
        bounds = np.cumsum([0, *chains.sizes])
        chance = np.empty((len(seen), len(self.home)))

        def likelihood(rows: slice) -> FloatArray:
            logs = gaussian_log_densities(seen.readings[rows], means, variance, relative=True)
            # exp(−600) is still positive: if all reachable states had likelihood zero, the
            # forward recursion would divide by zero.
            return np.exp(np.maximum(logs, -600.0, out=logs), out=logs)

        for rows, block in chain_marginals(chains, likelihood, seen.run_starts, first):
            for place, i in enumerate(order):
                begin = bounds[place] + self.idle_[i]
                chance[rows, i] = block[:, begin : bounds[place + 1]].sum(axis=1)
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

    def _path(self, seen: Observation) -> StateArray:
        """State of every appliance on the most probable joint path, shape (T, N)."""
        order, chains, means, variance, first = self._problem(seen)

        def log_likelihood(rows: slice) -> FloatArray:
            return gaussian_log_densities(seen.readings[rows], means, variance, relative=True)

        joint = best_path(chains, log_likelihood, seen.run_starts, first)
        path = np.empty((len(seen), len(self.home)), np.int8)
        path[:, order] = chains.split(joint)
        return path

    def _problem(self, seen: Observation) -> _Problem:
        """The model, largest appliance first, so that the order of the home has no effect."""
        self._require_fit("levels_")
        order = np.argsort(-self.home.powers, kind="stable")
        chains = ChainSet(
            tuple(self.transitions_[i] for i in order), tuple(self.initial_[i] for i in order)
        )
        if chains.states > MOST_STATES:
            raise InputError(
                f"the joint space has {chains.states} states, but fhmm decodes at most "
                f"{MOST_STATES}; lower most_levels or use the bayes attacker."
            )
        known = None
        if seen.first_state is not None:
            on = seen.first_state
            known = [(np.arange(self.levels_[i].size) >= self.idle_[i]) == on[i] for i in order]
        means = outer_sum(self.levels_[i] for i in order) + self.base_load_
        noise = 0.0 if self.mechanism is None else self.mechanism.std**2
        first = chains.joint_initial(known)
        return _Problem(order, chains, means, self.variance_ + noise, first)


class _Problem(NamedTuple):
    """What a prediction needs, with the chains in descending order of power."""

    order: IntArray
    chains: ChainSet
    means: FloatArray
    variance: float
    first: FloatArray


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
