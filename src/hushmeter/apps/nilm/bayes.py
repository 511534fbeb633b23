"""The Bayes attacker: exact posterior probabilities under the known noise distribution."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Self

import numpy as np

from hushmeter.apps.nilm.beam import BeamSearch
from hushmeter.apps.nilm.factorial_hmm import LoadAttacker, LoadModel, Search
from hushmeter.attack.base import NoiseDistribution, Observation, check_mechanism
from hushmeter.attack.chains import StateArray, check_states, count_transitions, outer_sum
from hushmeter.attack.levels import SHARPEST, learn_slack, learn_states
from hushmeter.checks import BoolArray, FloatArray, non_negative, one_of, whole
from hushmeter.errors import DataError, InputError
from hushmeter.home import Home
from hushmeter.noise import Laplace
from hushmeter.scoring import score
from hushmeter.trace import Trace

LEAST_TRAINING = 2000
"""Smallest number of training readings of which a part is held back."""

HELD_BLOCK, HELD_BLOCKS = 500, (12, 48)
"""Readings in a block of held-back readings, and largest number of blocks for a model of many and
of few joint states: some appliances run so rarely that few blocks say little about them."""

HELD_WORK = 2 * 10**8
"""Number of joint states times held-back readings beyond which no block is added."""

COUPLED = 0.5
"""Correlation of the states of two appliances from which they form one chain."""

MOST_COUPLED = 16
"""Largest number of joint states of two coupled appliances."""

JUDGED_NOISE = 0.1
"""Scale of the noise, in units of the power of the largest appliance, with which states are
compared."""

MOST_IDLE = 2
"""Largest number of idle states of an appliance, unless coarser states are tried."""

PRIOR = 1.0
"""Weight, in readings, of a chain without memory that is added to the counted transitions."""

OUTLIER = 1e-4
"""Share of readings that no state explains."""

SLACK_SHARES = (0.0, 0.5, 1.0, 2.0)
"""Smallest slacks that are tried if there is unmetered load, in units of its standard deviation:
its structure lasts longer than the errors that the slack is learnt from."""


@dataclass(frozen=True)
class Fineness:
    """How finely the power is divided into states."""

    levels: int  # Largest number of on-states of an appliance
    share: float  # Smallest slack in units of the standard deviation of the unmetered load
    budget: int  # Largest number of joint states up to which an appliance gets more than two
    coupled: bool = True  # Whether appliances that often run together form one chain


class Bayes(LoadAttacker):
    """Bayes attacker: the probability of every state given all readings and the noise.

    Parameters
    ----------
    home : Home
    mechanism : Laplace, Staircase, Gaussian or None
        Mechanism whose noise distribution the attacker knows (see `Attacker.knows`); None for
        readings without noise.
    decoder : {"marginal", "viterbi"}
        The most probable state of each appliance at each reading, or the most probable joint
        path.
    most_levels, most_unmetered : int
        Largest numbers of on-states of an appliance, and of levels of the unmetered load. The
        training data decides how many are used.
    budget : int
        Largest number of joint states of the appliances up to which an appliance gets more than
        two states.
    exact_states : int
        Largest number of joint states for which the recursions are exact. Beyond it only the
        most probable joint states are followed (`BeamSearch`).
    width : int
        Number of joint states that are followed then.

    Attributes
    ----------
    means_, variances_ : tuples of arrays
        Mean [W] and variance [W²] of the power in each state, per appliance and last for the
        unmetered load; idle states first, then on-states.
    idle_ : array of int, shape (N + 1,)
        Number of idle states of each.
    transitions_, initial_ : tuples of arrays
        Transition matrices and initial distributions of the chains.
    base_load_ : float
        Mean of the unmetered load. [W]
    slack_ : float
        Additional standard deviation of every state: see `learn_slack`. [W]
    pairs_ : array of int, shape (pairs, 2)
        Appliances that often run together and form one chain.
    pair_transitions_, pair_initial_ : tuples of arrays
        Chains of these pairs; the state of the second appliance varies fastest.
    approximation_ : str
        "exact" or "beam".

    Notes
    -----
    The home is a set of independent chains, one per appliance and one for the unmetered load. In
    joint state s, a reading has the density of N(μ_s, σ_s²) convolved with the noise distribution.
    The forward–backward algorithm over the joint states, one chain at a time, gives
    P(on | all readings). An appliance is predicted to be on where this exceeds ½, which maximises
    the expected accuracy if the model is correct.

    Noise that is independent from reading to reading is averaged out over an appliance's run, so
    this attacker shows how little an ε per reading protects a run.

    If there is unmetered load, its structure looks like small sharp levels of appliances. Several
    slacks and numbers of states are then compared on the last fifth of the training data, without
    noise and with noise of a tenth of the power of the largest appliance. Those with the highest F1
    whose accuracy is not below that of "always off" are used. In all but the first of these models,
    two appliances whose states have a correlation of more than ½ form one chain.

    Fit the attacker on readings without noise. An appliance that never runs in the training data
    keeps the home's power and has a very small probability of on; one that never stops has a very
    small probability of off. After a gap all chains start again from their long-run distribution.
    """

    name: ClassVar[str] = "bayes"
    needs: ClassVar[str] = "sub-metered training data; the mechanism, if there is noise"
    assumes: ClassVar[str] = "appliances switch independently; the noise distribution is known"

    def __init__(
        self,
        home: Home,
        *,
        mechanism: NoiseDistribution | None = None,
        decoder: str = "marginal",
        most_levels: int = 6,
        most_unmetered: int = 8,
        budget: int = 4096,
        exact_states: int = 1 << 16,
        width: int = 512,
    ) -> None:
        super().__init__(home)
        self.mechanism = check_mechanism(mechanism)
        self.decoder = one_of("decoder", decoder, ("marginal", "viterbi"))
        self.most_levels = whole("most_levels", most_levels)
        self.most_unmetered = whole("most_unmetered", most_unmetered)
        self.budget = whole("budget", budget)
        self.exact_states = whole("exact_states", exact_states)
        self.width = whole("width", width)

    def fit(self, trace: Trace) -> Self:
        """Learn states, chains and the unmetered load from readings with true states."""
        super().fit(trace)
        self._learn(trace, self._first_fineness())
        # One level is a base load: the appliances explain the readings.
        if self.means_[-1].size > 1 and len(trace) >= LEAST_TRAINING:
            self._learn(trace, self._choose_fineness(trace))
        return self

    def _first_fineness(self) -> Fineness:
        """As many states as the parameters allow.

        A large home, which needs the beam anyway, gets further states. The beam numbers joint
        states with 63 bits, which more than 32 appliances could exceed.
        """
        smallest = 2 ** len(self.home)
        large = smallest > self.budget and len(self.home) <= 32
        budget = smallest * self.budget if large else self.budget
        return Fineness(self.most_levels, 0.0, budget, coupled=False)

    def _learn(self, trace: Trace, fineness: Fineness) -> None:
        """Learn states, chains and slack with given numbers of states."""
        idle = MOST_IDLE if fineness.levels == self.most_levels else 1
        most = (fineness.levels, idle, self.most_unmetered)
        states = learn_states(trace, self.home, *most, fineness.budget)
        chains = [
            count_transitions(labels, means.size, trace.run_starts, PRIOR)
            for labels, means in zip(states.labels, states.means, strict=True)
        ]
        self.means_, self.variances_ = states.means, states.variances
        self.idle_ = np.array(states.idle)
        self.transitions_ = tuple(matrix for matrix, _ in chains)
        self.initial_ = tuple(initial for _, initial in chains)
        self.base_load_ = float(self.means_[-1] @ self.initial_[-1])
        squares = (self.variances_[-1] + self.means_[-1] ** 2) @ self.initial_[-1]
        spread = math.sqrt(max(float(squares) - self.base_load_**2, 0.0))
        self.slack_ = max(learn_slack(trace, states), fineness.share * spread)
        self._learn_pairs(trace, states.labels, coupled=fineness.coupled)
        self.approximation_ = self._approximation()

    def _learn_pairs(self, trace: Trace, labels: Sequence[StateArray], *, coupled: bool) -> None:
        """Count one chain for every two appliances whose states are strongly correlated."""
        sizes = [means.size for means in self.means_]
        order = [i for (i,) in super()._units()]
        pairs = correlated_pairs(trace.truth(), order) if coupled else []
        pairs = [(i, j) for i, j in pairs if sizes[i] * sizes[j] <= MOST_COUPLED]
        chains = [
            count_transitions(
                (labels[i] * sizes[j] + labels[j]).astype(np.int8),
                sizes[i] * sizes[j],
                trace.run_starts,
                PRIOR,
            )
            for i, j in pairs
        ]
        self.pairs_ = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        self.pair_transitions_ = tuple(matrix for matrix, _ in chains)
        self.pair_initial_ = tuple(initial for _, initial in chains)

    def _choose_fineness(self, trace: Trace) -> Fineness:
        """The numbers of states and the slack that are best on a held-back part.

        Those with the highest F1 are chosen among those whose accuracy is not below that of "always
        off": first the slack of two on-states, then the number of on-states with this slack. The
        levels are too uncertain beside unmetered load for more joint states than the budget.
        """
        cut = len(trace) * 4 // 5
        few, many = HELD_BLOCKS
        blocks = HELD_WORK // (HELD_BLOCK * self._model().chains.states)
        train, held = trace[:cut], _spread_sample(trace[cut:], min(max(blocks, few), many))
        rate = partial(self._rate, train, held)
        first = replace(self._first_fineness(), budget=self.budget)
        middle = Fineness(min(2, self.most_levels), 0.0, self.budget)
        slacks = [replace(middle, share=share) for share in SLACK_SHARES]
        rated = {one: rate(one) for one in (first, *slacks)}
        slack = max(slacks, key=lambda one: rated[one])
        # If two states of each appliance use the budget up, other numbers make no difference.
        if 2 ** len(self.home) < self.budget:
            for levels in sorted({self.most_levels, 1} - {middle.levels}):
                other = replace(slack, levels=levels)
                rated[other] = rate(other)
        return max(rated, key=lambda one: rated[one])

    def _rate(self, train: Trace, held: Trace, fineness: Fineness) -> tuple[bool, float]:
        """Whether the accuracy is that of "always off" or more; F1 if so, or else the accuracy."""
        noise = Laplace(1.0, JUDGED_NOISE * float(self.home.powers.max()), grid=1.0)
        noisy = held.replace_readings(held.readings + noise.sample(len(held), rng=0))
        attempt, truth = copy.copy(self), held.truth()
        attempt._learn(train, fineness)
        attempts = (attempt.knows(None), held), (attempt.knows(noise), noisy)
        answers = [informed.predict(readings) for informed, readings in attempts]
        alpha = min(float((answer == truth).mean()) for answer in answers)
        if alpha < 1 - float(truth.mean()):
            return False, alpha
        return True, float(np.mean([_macro_f1(answer, truth) for answer in answers]))

    def _predict_proba(self, seen: Observation) -> FloatArray:
        """P(on | all readings) of every appliance, shape (T, N)."""
        chance: FloatArray = self._summaries(seen)[0]
        return chance

    def _predict(self, seen: Observation) -> BoolArray:
        """States (T, N); a given initial state is row 0."""
        if self.decoder == "viterbi":
            on: BoolArray = self._path(seen) >= self.idle_[:-1]
            return on
        found: BoolArray = self._summaries(seen)[0] > 0.5
        return found

    def _predict_power(self, seen: Observation) -> FloatArray:
        """Power [W] of the states on the path, or of the most probable level on or off."""
        if self.decoder == "marginal":
            found = self._summaries(seen)
            power: FloatArray = np.where(found[0] > 0.5, found[2], found[1])
            return power
        path = self._path(seen)
        columns = [np.maximum(self.means_[i], 0.0)[path[:, i]] for i in range(len(self.home))]
        return np.stack(columns, axis=1)

    def predict_load(self, trace: Trace) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of the load [W], given all readings and the noise.

        The load is the sum of all appliances and the unmetered load. Raise `InputError` if the home
        has too many joint states for the exact recursions.
        """
        self._require_fit("means_")
        if self.approximation_ != "exact":
            raise InputError(
                f"the home has more than {self.exact_states} joint states; leave out small "
                "appliances."
            )
        means, variances = self._model().sum_moments(trace.readings, trace.run_starts)
        return means, np.sqrt(variances + self.slack_**2)

    def _check_learnt(self) -> None:
        if hasattr(self, "means_"):
            parts = (self.transitions_, self.initial_, self.means_, self.variances_)
            check_states(len(self.home) + 1, self.idle_, *parts)
            if min(float(row.min()) for row in self.variances_) < 0:
                raise DataError("variances must not be negative.")
            self._check_pairs()
            non_negative("slack", self.slack_)
            self.approximation_ = self._approximation()

    def _check_pairs(self) -> None:
        """Raise `DataError` if the chains of coupled appliances do not fit to their states."""
        pairs = np.asarray(self.pairs_)
        valid = pairs.ndim == 2 and pairs.shape[1] == 2 and pairs.dtype.kind == "i"
        valid = valid and np.unique(pairs).size == pairs.size
        valid = valid and bool(((pairs >= 0) & (pairs < len(self.home))).all())
        if valid:
            sizes = [self.means_[i].size * self.means_[j].size for i, j in pairs]
            shapes = [np.shape(matrix) for matrix in self.pair_transitions_]
            laws = [np.shape(law) for law in self.pair_initial_]
            valid = shapes == [(k, k) for k in sizes] and laws == [(k,) for k in sizes]
        if not valid:
            raise DataError("the chains of coupled appliances do not fit to their states.")

    def _approximation(self) -> str:
        return "exact" if self._model().chains.states <= self.exact_states else "beam"

    def _search(self, seen: Observation) -> Search:
        model = self._model()
        if self.approximation_ == "exact":
            return super()._search(seen)
        return BeamSearch(model, seen.readings, seen.run_starts, self.width, self._known(seen))

    def _summaries(self, seen: Observation) -> FloatArray:
        """P(on) and most probable power off and on [W] of every appliance, shape (3, T, N)."""
        found = np.empty((3, len(seen), len(self.home)))
        for rows, i, states in self._marginals(seen):
            found[:, rows, i] = self._summary(i, states)
        return found

    def _summary(self, i: int, states: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """P(on) and most probable power off and on from the marginals of an appliance's states."""
        idle, watts = int(self.idle_[i]), np.maximum(self.means_[i], 0.0)
        chance = np.clip(states[:, idle:].sum(axis=1), 0.0, 1.0)
        off_power = watts[states[:, :idle].argmax(axis=1)]
        on_power = watts[idle + states[:, idle:].argmax(axis=1)]
        return chance, off_power, on_power

    def _units(self) -> list[tuple[int, ...]]:
        """Appliances of each chain, largest first: one, or two that are coupled."""
        pairs = {i: (i, j) for i, j in self.pairs_.tolist()}
        second = set(self.pairs_[:, 1].tolist())
        return [pairs.get(i, (i,)) for (i,) in super()._units() if i not in second]

    def _model(self) -> LoadModel:
        self._require_fit("means_")
        units = [*self._units(), (len(self.home),)]
        chains: dict[tuple[int, ...], tuple[FloatArray, FloatArray]] = {}
        for i, chain in enumerate(zip(self.transitions_, self.initial_, strict=True)):
            chains[(i,)] = chain
        coupled = zip(self.pair_transitions_, self.pair_initial_, strict=True)
        for pair, chain in zip(self.pairs_.tolist(), coupled, strict=True):
            chains[tuple(pair)] = chain
        return LoadModel(
            tuple(outer_sum([self.means_[i] for i in unit]) for unit in units),
            tuple(outer_sum([self.variances_[i] for i in unit]) for unit in units),
            tuple(chains[unit][0] for unit in units),
            tuple(chains[unit][1] for unit in units),
            self.slack_**2 + SHARPEST**2,
            self.mechanism,
            OUTLIER,
        )


def correlated_pairs(states: BoolArray, order: Sequence[int]) -> list[tuple[int, int]]:
    """Find disjoint pairs of appliances that often run together."""
    ranked = states[:, list(order)].astype(np.float64)
    away = ranked - ranked.mean(axis=0)
    spread = np.maximum(np.sqrt((away**2).sum(axis=0)), 1e-12)
    strength = np.triu(np.abs(away.T @ away / np.outer(spread, spread)), k=1)
    pairs: list[tuple[int, int]] = []
    while strength.size and strength.max() > COUPLED:
        first, second = np.unravel_index(int(strength.argmax()), strength.shape)
        pairs.append((int(order[int(first)]), int(order[int(second)])))
        for place in (first, second):
            strength[place] = 0.0
            strength[:, place] = 0.0
    return pairs


def _spread_sample(trace: Trace, blocks: int) -> Trace:
    """At most a given number of blocks of readings that are spread evenly over a trace."""
    if len(trace) <= HELD_BLOCK * blocks:
        return trace
    first = np.linspace(0, len(trace) - HELD_BLOCK, blocks).astype(np.int64)
    return trace.select((first[:, None] + np.arange(HELD_BLOCK)).ravel())


def _macro_f1(answer: BoolArray, truth: BoolArray) -> float:
    """Mean F1 of the appliances that are on at some reading; zero if there are none."""
    found = score(answer, truth).f1
    return 0.0 if np.isnan(found) else found
