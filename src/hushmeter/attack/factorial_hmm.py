"""FHMM: one hidden Markov chain per appliance, all seen through the sum of their powers."""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.attack.base import Attacker, NoiseDistribution, Observed, check_mechanism
from hushmeter.attack.hmm.emission import gaussian_log_densities
from hushmeter.attack.hmm.gaussian_chain import add_idle, fit_chain
from hushmeter.attack.hmm.state_laws import guess_power
from hushmeter.attack.hmm.transitions import (
    ChainSet,
    StateArray,
    check_states,
    count_chain,
    outer_sum,
)
from hushmeter.attack.hmm.viterbi import best_path, chain_marginals
from hushmeter.attack.sums.levels import assign_levels, learn_levels
from hushmeter.checks import BoolArray, FloatArray, IntArray, RngLike, one_of, positive, whole
from hushmeter.errors import InputError
from hushmeter.home import Home
from hushmeter.trace import Trace

MOST_STATES = 1 << 20
"""Largest joint space that is walked."""


class FactorialHmm(Attacker):
    """Factorial hidden Markov model [1]_, the FHMM of NILMTK without its Kronecker matrix.

    y_t ~ N(base load + Σ_m r_{m, s_m}, v) with independent chains s_m; the states are those of
    the most probable joint path, found one chain at a time in O(T · Π K · Σ K).

    Parameters
    ----------
    home : Home
    variance : float, optional
        v [W²]; learnt from the training data if not given. NILMTK fixes it at 5.
    most_levels : int, optional
        Largest number of on-levels of one appliance; as many as the home gives it if not given.
        NILMTK's two states are one on-level.
    chains : {"em", "counted"}
        A Gaussian hidden Markov model fitted to the power of each appliance by
        expectation–maximisation, as NILMTK does, or levels and chains counted from its states.
    mechanism : optional
        A mechanism whose noise variance is added to v, for an attacker who knows it.

    Attributes
    ----------
    levels_ : tuple of arrays
        State powers of each appliance [W], ascending.
    idle_ : array, shape (N,)
        How many of them count as off; an appliance that is on in all of them gets one of 0 W.
    transitions_, initial_ : tuples of arrays
        The chains.
    base_load_, variance_ : float
        Mean [W] and variance [W²] of what the states leave of the training readings; the given
        variance if there is one.

    References
    ----------
    .. [1] Z. Ghahramani, M. Jordan, "Factorial hidden Markov models", 1997.
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
        """Learn levels, chains, base load and variance from readings with their truth."""
        super().fit(trace)
        power = guess_power(trace, self.home) if trace.power is None else trace.power
        labels = self._fit_states(trace, power)
        columns = [watts[label] for watts, label in zip(self.levels_, labels, strict=True)]
        rest = trace.readings - np.sum(columns, axis=0)
        self.base_load_ = float(rest.mean())
        # Half a watt squared at least: readings that fit exactly would leave no variance.
        self.variance_ = max(float(rest.var()), 0.5) if self.variance is None else self.variance
        return self

    def predict(
        self,
        readings: Observed,
        *,
        initial_state: ArrayLike | None = None,
        rng: RngLike = None,  # noqa: ARG002
    ) -> BoolArray:
        """States (T, N) on the most probable path; a given initial state is row 0 as it is."""
        on: BoolArray = self._path(readings, initial_state) >= self.idle_
        return on

    def predict_power(
        self,
        readings: Observed,
        *,
        initial_state: ArrayLike | None = None,
        rng: RngLike = None,  # noqa: ARG002
    ) -> FloatArray:
        """Power of the path's states [W], shape (T, N)."""
        path = self._path(readings, initial_state)
        return np.stack([watts[path[:, i]] for i, watts in enumerate(self.levels_)], axis=1)

    def predict_proba(
        self,
        readings: Observed,
        *,
        initial_state: ArrayLike | None = None,
        rng: RngLike = None,  # noqa: ARG002
    ) -> FloatArray:
        """P(on | all readings) of every appliance under the model, shape (T, N)."""
        values, starts, order, chains, means, variance, first = self._problem(
            readings, initial_state
        )
        bounds = np.cumsum([0, *chains.sizes])
        chance = np.empty((values.size, len(self.home)))

        def likelihood(rows: slice) -> FloatArray:
            logs = gaussian_log_densities(values[rows], means, variance, relative=True)
            # Far below one another, states still have to differ from zero.
            return np.exp(np.maximum(logs, -600.0, out=logs), out=logs)

        for rows, block in chain_marginals(chains, likelihood, starts, first):
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
        """Set levels and chains; the state of every appliance at every training reading."""
        if self.chains == "em":
            return self._fit_by_em(trace, power)
        known = Trace(trace.readings, trace.interval_s, states=trace.truth(), power=power)
        table = learn_levels(known, self.home, max(self._most_levels()))
        labels = list(assign_levels(power, trace.truth(), table).T)
        counted = [
            count_chain(label, size, trace.run_starts, 1.0)
            for label, size in zip(labels, table.counts, strict=True)
        ]
        self.levels_ = table.powers
        self.idle_ = np.ones(len(self.home), np.int64)
        self.transitions_ = tuple(matrix for matrix, _ in counted)
        self.initial_ = tuple(law for _, law in counted)
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

    def _path(self, readings: Observed, initial_state: ArrayLike | None) -> StateArray:
        """State of every appliance on the most probable joint path, shape (T, N)."""
        values, starts, order, chains, means, variance, first = self._problem(
            readings, initial_state
        )
        joint = best_path(
            chains,
            lambda rows: gaussian_log_densities(values[rows], means, variance, relative=True),
            starts,
            first,
        )
        path = np.empty((values.size, len(self.home)), np.int8)
        path[:, order] = chains.split(joint)
        return path

    def _problem(self, readings: Observed, initial_state: ArrayLike | None) -> _Problem:
        """The model with the largest appliance first, so that no other order matters."""
        self._require_fit("levels_")
        values, starts = self._observe(readings)
        order = np.argsort(-self.home.powers, kind="stable")
        chains = ChainSet(
            tuple(self.transitions_[i] for i in order), tuple(self.initial_[i] for i in order)
        )
        if chains.states > MOST_STATES:
            raise InputError(
                f"the joint space has {chains.states} states, fhmm walks at most {MOST_STATES}; "
                "lower most_levels or use bayes."
            )
        known = None
        if initial_state is not None:
            on = self._initial_state(initial_state)
            known = [(np.arange(self.levels_[i].size) >= self.idle_[i]) == on[i] for i in order]
        means = outer_sum(self.levels_[i] for i in order) + self.base_load_
        noise = 0.0 if self.mechanism is None else self.mechanism.std**2
        first = chains.joint_initial(known)
        return _Problem(values, starts, order, chains, means, self.variance_ + noise, first)


class _Problem(NamedTuple):
    """What a prediction needs, in rank order."""

    values: FloatArray
    starts: BoolArray
    order: IntArray
    chains: ChainSet
    means: FloatArray
    variance: float
    first: FloatArray


def _share(on: BoolArray, where: BoolArray) -> float:
    return float(on[where].mean()) if where.any() else 1.0
