"""The Bayes attacker: exact posterior probabilities under the known noise distribution."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from hushmeter.attack.base import (
    NoiseDistribution,
    Observation,
    ProbabilisticAttacker,
    check_mechanism,
)
from hushmeter.attack.hmm.chains import check_states, count_transitions
from hushmeter.attack.hmm.loads import BeamSearch, Known, LoadModel
from hushmeter.attack.hmm.states import SHARPEST, learn_slack, learn_states
from hushmeter.checks import (
    BoolArray,
    FloatArray,
    IntArray,
    non_negative,
    one_of,
    positive,
    whole,
)
from hushmeter.errors import DataError, InputError
from hushmeter.home import Home
from hushmeter.noise import Laplace
from hushmeter.scoring import score
from hushmeter.trace import Trace

LEAST_TRAINING = 2000
"""Smallest number of training readings of which a part is held back."""

HELD_BLOCK, HELD_BLOCKS = 500, 12
"""Readings in a block, and largest number of blocks, of held-back readings."""

CLEARLY = 0.02
"""Difference of macro F1 from which other states replace those that were learnt first."""


@dataclass(frozen=True)
class Fineness:
    """How finely the power is divided into states.

    Attributes
    ----------
    levels, idle, unmetered : int
        Largest numbers of on-states and idle states of an appliance, and of unmetered levels.
    slack : float or None
        Slack of every state, or None if it is learnt. [W]
    """

    levels: int
    idle: int
    unmetered: int
    slack: float | None


FINENESS = (
    Fineness(6, 2, 8, 120.0),
    Fineness(2, 1, 12, 120.0),
    Fineness(2, 1, 12, 250.0),
    Fineness(1, 1, 12, None),
)
"""States that are tried if there is unmetered load. Its structure looks like small sharp levels of
appliances, which coarse states with much slack do not have."""


class Bayes(ProbabilisticAttacker):
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
    most_levels, most_idle, most_unmetered : int
        Largest numbers of on-states and idle states of an appliance, and of levels of the
        unmetered load. The training data decides how many are used.
    budget : int
        Largest number of joint states of the appliances up to which an appliance gets more than
        two states. In a home of up to 32 appliances whose joint states are more than this with two
        states each, it is the factor by which further states may multiply them.
    exact_states : int
        Largest number of joint states for which the recursions are exact. Beyond it only the
        most probable joint states are followed (`BeamSearch`).
    width : int
        Number of joint states that are followed then.
    prior : float
        Weight, in readings, of a chain without memory that is added to the counted transitions.
    outlier : float
        Share of readings that no state explains.

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
    approximation_ : str
        "exact" or "beam".

    Notes
    -----
    The home is a set of independent chains, one per appliance and one for the unmetered load. In
    joint state s, a reading has the density of N(μ_s, σ_s²) convolved with the noise distribution.
    The forward–backward algorithm over the joint states, one chain at a time, gives
    P(on | all readings). An appliance is predicted to be on where this exceeds ½, which maximises
    the expected accuracy.

    Noise that is independent from reading to reading is averaged out over an appliance's run, so
    this attacker shows how little an ε per reading protects a run.

    If there is unmetered load, several numbers of states and several slacks are compared on the
    last fifth of the training data, without noise and with noise of a tenth of the power of the
    largest appliance. The states with the highest F1 whose accuracy is not below that of "always
    off" are used.

    Fit the attacker on readings without noise. An appliance that never runs in the training data
    keeps the home's power and has a very small probability of on; one that never stops has a very
    small probability of off. After a gap all chains start again from their long-run distribution.
    """

    name: ClassVar[str] = "bayes"
    needs: ClassVar[str] = "sub-metered training data; the mechanism, if there is noise"
    assumes: ClassVar[str] = "appliances switch independently; the noise distribution is known"
    uses_noise: ClassVar[bool] = True

    def __init__(
        self,
        home: Home,
        *,
        mechanism: NoiseDistribution | None = None,
        decoder: str = "marginal",
        most_levels: int = 6,
        most_idle: int = 2,
        most_unmetered: int = 8,
        budget: int = 4096,
        exact_states: int = 1 << 16,
        width: int = 512,
        prior: float = 1.0,
        outlier: float = 1e-4,
    ) -> None:
        super().__init__(home)
        self.mechanism = check_mechanism(mechanism)
        self.decoder = one_of("decoder", decoder, ("marginal", "viterbi"))
        self.most_levels = whole("most_levels", most_levels)
        self.most_idle = whole("most_idle", most_idle)
        self.most_unmetered = whole("most_unmetered", most_unmetered)
        self.budget = whole("budget", budget)
        self.exact_states = whole("exact_states", exact_states)
        self.width = whole("width", width)
        self.prior = positive("prior", prior)
        self.outlier = positive("outlier", outlier)
        if self.outlier >= 1:
            raise InputError(f"outlier must be a share below 1, got {outlier}.")

    def fit(self, trace: Trace) -> Self:
        """Learn states, chains and the unmetered load from readings with true states."""
        super().fit(trace)
        self._learn(trace, Fineness(self.most_levels, self.most_idle, self.most_unmetered, None))
        # One level is a base load: the appliances explain the readings.
        if self.means_[-1].size > 1 and len(trace) >= LEAST_TRAINING:
            best = self._choose_fineness(trace)
            if best is not None:
                self._learn(trace, best)
        return self

    def _learn(self, trace: Trace, fineness: Fineness) -> None:
        """Learn with given numbers of states and, if it is given, a given slack."""
        states = learn_states(
            trace,
            self.home,
            min(fineness.levels, self.most_levels),
            min(fineness.idle, self.most_idle),
            fineness.unmetered,
            self._budget(),
        )
        chains = [
            count_transitions(labels, means.size, trace.run_starts, self.prior)
            for labels, means in zip(states.labels, states.means, strict=True)
        ]
        self.means_, self.variances_ = states.means, states.variances
        self.idle_ = np.array(states.idle)
        self.transitions_ = tuple(matrix for matrix, _ in chains)
        self.initial_ = tuple(initial for _, initial in chains)
        self.base_load_ = float(self.means_[-1] @ self.initial_[-1])
        self.slack_ = learn_slack(trace, states) if fineness.slack is None else fineness.slack
        self.approximation_ = self._approximation()

    def _budget(self) -> int:
        """Largest number of joint states; a large home, which needs the beam anyway, gets more.

        The beam numbers joint states with 63 bits, which more than 32 appliances could exceed.
        """
        smallest = 2 ** len(self.home)
        large = smallest > self.budget and len(self.home) <= 32
        return smallest * self.budget if large else self.budget

    def _choose_fineness(self, trace: Trace) -> Fineness | None:
        """The numbers of states and the slack that are best on a held-back part; None to keep.

        The states that were learnt first are kept unless their accuracy is below that of "always
        off" or others have a clearly higher F1.
        """
        cut = len(trace) * 4 // 5
        train, held = trace[:cut], _spread_sample(trace[cut:])
        noise = Laplace(1.0, float(self.home.powers.max()) / 10, grid=1.0)
        noisy = held.replace_readings(held.readings + noise.sample(len(held), rng=0))
        truth, off = held.truth(), 1 - float(held.truth().mean())
        rated = []
        attempt = copy.copy(self)
        first = Fineness(self.most_levels, self.most_idle, self.most_unmetered, None)
        for fineness in (first, *FINENESS):
            attempt._learn(train, fineness)
            answers = [attempt.knows(None).predict(held), attempt.knows(noise).predict(noisy)]
            alpha = min(float((answer == truth).mean()) for answer in answers)
            f1 = float(np.mean([_macro_f1(answer, truth) for answer in answers]))
            rated.append((alpha >= off, f1 if alpha >= off else alpha, fineness))
        best = max(rated, key=lambda entry: entry[:2])
        if rated[0][0] and best[1] < rated[0][1] + CLEARLY:
            return None
        return best[2]

    def _predict_proba(self, seen: Observation) -> FloatArray:
        """P(on | all readings) of every appliance, shape (T, N)."""
        return self._marginals(seen)[0]

    def _predict(self, seen: Observation) -> BoolArray:
        """States (T, N); a given initial state is row 0."""
        if self.decoder == "viterbi":
            on: BoolArray = self._path(seen) >= self.idle_[:-1]
            return on
        return self._marginals(seen)[0] > 0.5

    def _predict_power(self, seen: Observation) -> FloatArray:
        """Power [W] of the states on the path, or of the most probable level on or off."""
        if self.decoder == "marginal":
            return self._marginals(seen)[1]
        path = self._path(seen)
        columns = [np.maximum(self.means_[i], 0.0)[path[:, i]] for i in range(len(self.home))]
        return np.stack(columns, axis=1)

    def predict_load(self, trace: Trace) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of the load given all readings and the noise.

        Parameters
        ----------
        trace : Trace
            Readings with the noise that the attacker knows. [W]

        Returns
        -------
        means, deviations : arrays, shape (T,)
            Of the sum of all appliances and the unmetered load. [W]

        Raises
        ------
        InputError
            If the home has too many joint states for the exact recursions.
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
            non_negative("slack", self.slack_)
            self.approximation_ = self._approximation()

    def _approximation(self) -> str:
        return "exact" if self._model().chains.states <= self.exact_states else "beam"

    def _marginals(self, seen: Observation) -> tuple[FloatArray, FloatArray]:
        """P(on) and most probable power [W] of every appliance, each (T, N)."""
        known = self._known(seen)
        order, model = self._order(), self._model()
        bounds = np.cumsum([0, *(initial.size for initial in model.initial)])
        chance, power = np.empty((2, len(seen), len(self.home)))
        if self.approximation_ == "exact":
            blocks = model.marginals(seen.readings, seen.run_starts, known)
        else:
            beam = BeamSearch(model, seen.readings, seen.run_starts, self.width, known)
            blocks = beam.blocks()
        for rows, block in blocks:
            for place, i in enumerate(order[:-1]):
                states = block[:, bounds[place] : bounds[place + 1]]
                chance[rows, i], power[rows, i] = self._summary(i, states)
        return chance, power

    def _summary(self, i: int, states: FloatArray) -> tuple[FloatArray, FloatArray]:
        """P(on) and most probable power of one appliance from the marginals of its states."""
        idle, watts = int(self.idle_[i]), np.maximum(self.means_[i], 0.0)
        chance = np.clip(states[:, idle:].sum(axis=1), 0.0, 1.0)
        off_power = watts[states[:, :idle].argmax(axis=1)]
        on_power = watts[idle + states[:, idle:].argmax(axis=1)]
        return chance, np.where(chance > 0.5, on_power, off_power)

    def _path(self, seen: Observation) -> IntArray:
        """State of every appliance on the most probable joint path, shape (T, N)."""
        known = self._known(seen)
        order, model = self._order(), self._model()
        if self.approximation_ == "exact":
            ranked = model.path(seen.readings, seen.run_starts, known)
        else:
            beam = BeamSearch(model, seen.readings, seen.run_starts, self.width, known)
            ranked = beam.path()
        path = np.empty_like(ranked)
        path[:, order] = ranked
        return path[:, :-1]

    def _order(self) -> list[int]:
        """Largest appliance first, unmetered load last: the order of the home has no effect."""
        ranked = np.argsort(-self.home.powers, kind="stable")
        return [*(int(i) for i in ranked), len(self.home)]

    def _model(self) -> LoadModel:
        self._require_fit("means_")
        whole_home = LoadModel(
            self.means_,
            self.variances_,
            self.transitions_,
            self.initial_,
            self.slack_**2 + SHARPEST**2,
            self.mechanism,
            self.outlier,
        )
        return whole_home.subset(self._order())

    def _known(self, seen: Observation) -> Known | None:
        """States in which each load of the ordered model can start."""
        self._require_fit("means_")
        on = seen.first_state
        if on is None:
            return None
        places = [
            (np.arange(self.means_[i].size) >= self.idle_[i]) == on[i] for i in self._order()[:-1]
        ]
        return [*places, None]


def _spread_sample(trace: Trace) -> Trace:
    """At most `HELD_BLOCKS` blocks of readings that are spread evenly over a trace."""
    if len(trace) <= HELD_BLOCK * HELD_BLOCKS:
        return trace
    first = np.linspace(0, len(trace) - HELD_BLOCK, HELD_BLOCKS).astype(np.int64)
    return trace.select((first[:, None] + np.arange(HELD_BLOCK)).ravel())


def _macro_f1(answer: BoolArray, truth: BoolArray) -> float:
    """Mean F1 of the appliances that are on at some reading; zero if there are none."""
    found = score(answer, truth).f1
    return 0.0 if np.isnan(found) else found
