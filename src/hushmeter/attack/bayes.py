"""The noise-aware Bayes attacker: the strongest honest one, who knows the mechanism."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.attack.base import Attacker, NoiseDistribution, Observed, check_mechanism
from hushmeter.attack.hmm.beam import BeamSearch
from hushmeter.attack.hmm.load_model import Known, LoadModel
from hushmeter.attack.hmm.state_laws import SHARPEST, learn_slack, learn_states
from hushmeter.attack.hmm.transitions import check_states, count_chain
from hushmeter.checks import (
    BoolArray,
    FloatArray,
    IntArray,
    RngLike,
    non_negative,
    one_of,
    positive,
    whole,
)
from hushmeter.errors import DataError, InputError
from hushmeter.home import Home
from hushmeter.trace import Trace


class Bayes(Attacker):
    """The probability of every state given all readings, under the law of the noise.

    The home is a set of independent chains, one per appliance and one for the load that nobody
    meters. In joint state s a reading has the density of N(μ_s, σ_s²) convolved with the law of
    the mechanism's noise. Forward–backward over the joint space, one chain at a time, gives
    P(on | all readings); an appliance is called on where that exceeds ½, which maximises the
    expected accuracy.

    Noise that is independent from reading to reading is averaged out over an appliance's run:
    this is the attacker that shows what an ε per reading protects.

    Parameters
    ----------
    home : Home
    mechanism : Laplace, Staircase, Gaussian or None
        What made the noise, as far as the attacker knows; None for readings without noise.
    decoder : {"marginal", "viterbi"}
        The most probable state of each appliance at each reading, or the most probable path.
    most_levels, most_idle, most_unmetered : int
        Largest numbers of on-states and idle states of an appliance and of unmetered levels; the
        training data decides how many there are.
    budget : int
        Appliances are given more than two states only while their joint space stays within it.
    exact_states : int
        Up to so many joint states the marginals are exact; beyond, only the most probable ones
        are followed (`BeamSearch`).
    width : int
        Joint states that are followed then.
    prior : float
        Readings' worth of belief in a memoryless chain that is added to the counted transitions.
    outlier : float
        Share of readings that no state explains.

    Attributes
    ----------
    means_, variances_ : tuples of arrays
        Per appliance, and last for the unmetered load, the mean [W] and variance [W²] of the
        states' power: idle states first, then on-states.
    idle_ : array, shape (N + 1,)
        Number of idle states of each.
    transitions_, initial_ : tuples of arrays
        Their chains.
    base_load_ : float
        Mean of the unmetered load [W].
    slack_ : float
        See `learn_slack` [W].
    approximation_ : str
        "exact" or "beam".

    Notes
    -----
    Fit on readings without noise. An appliance that never runs in the training data keeps the
    home's power and is all but ruled out; one that never stops likewise. A gap in a trace starts
    all chains anew from their long-run law. Readings below the base load are taken as such: the
    nearest states are the idle ones.
    """

    name: ClassVar[str] = "bayes"
    needs: ClassVar[str] = "sub-metered training data; the mechanism, where there is noise"
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
        """Learn states, chains and the unmetered load from readings with their truth."""
        super().fit(trace)
        laws = learn_states(
            trace, self.home, self.most_levels, self.most_idle, self.most_unmetered, self.budget
        )
        chains = [
            count_chain(labels, means.size, trace.run_starts, self.prior)
            for labels, means in zip(laws.labels, laws.means, strict=True)
        ]
        self.means_, self.variances_ = laws.means, laws.variances
        self.idle_ = np.array(laws.idle)
        self.transitions_ = tuple(matrix for matrix, _ in chains)
        self.initial_ = tuple(law for _, law in chains)
        self.base_load_ = float(self.means_[-1] @ self.initial_[-1])
        self.slack_ = learn_slack(trace, laws)
        self.approximation_ = self._approximation()
        return self

    def predict_proba(
        self,
        readings: Observed,
        *,
        initial_state: ArrayLike | None = None,
        rng: RngLike = None,  # noqa: ARG002
    ) -> FloatArray:
        """P(on | all readings) of every appliance, shape (T, N)."""
        return self._marginals(readings, initial_state)[0]

    def predict(
        self,
        readings: Observed,
        *,
        initial_state: ArrayLike | None = None,
        rng: RngLike = None,  # noqa: ARG002
    ) -> BoolArray:
        """States (T, N); a given initial state is row 0 as it is."""
        if self.decoder == "viterbi":
            on: BoolArray = self._path(readings, initial_state) >= self.idle_[:-1]
            return on
        return self._marginals(readings, initial_state)[0] > 0.5

    def predict_power(
        self,
        readings: Observed,
        *,
        initial_state: ArrayLike | None = None,
        rng: RngLike = None,  # noqa: ARG002
    ) -> FloatArray:
        """Power [W], shape (T, N): of the path's states, or of the likeliest level on or off."""
        if self.decoder == "marginal":
            return self._marginals(readings, initial_state)[1]
        path = self._path(readings, initial_state)
        columns = [np.maximum(self.means_[i], 0.0)[path[:, i]] for i in range(len(self.home))]
        return np.stack(columns, axis=1)

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

    def _marginals(
        self, readings: Observed, initial_state: ArrayLike | None
    ) -> tuple[FloatArray, FloatArray]:
        """P(on) and likeliest power [W] of every appliance, each (T, N)."""
        known = self._known(initial_state)
        values, starts = self._observe(readings)
        order, model = self._order(), self._model()
        bounds = np.cumsum([0, *(law.size for law in model.initial)])
        chance, power = np.empty((2, values.size, len(self.home)))
        if self.approximation_ == "exact":
            blocks = model.marginals(values, starts, known)
        else:
            blocks = BeamSearch(model, values, starts, self.width, known).blocks()
        for rows, block in blocks:
            for place, i in enumerate(order[:-1]):
                states = block[:, bounds[place] : bounds[place + 1]]
                chance[rows, i], power[rows, i] = self._summary(i, states)
        return chance, power

    def _summary(self, i: int, states: FloatArray) -> tuple[FloatArray, FloatArray]:
        """P(on) and likeliest power of one appliance from the marginals of its states."""
        idle, watts = int(self.idle_[i]), np.maximum(self.means_[i], 0.0)
        chance = np.clip(states[:, idle:].sum(axis=1), 0.0, 1.0)
        off_power = watts[states[:, :idle].argmax(axis=1)]
        on_power = watts[idle + states[:, idle:].argmax(axis=1)]
        return chance, np.where(chance > 0.5, on_power, off_power)

    def _path(self, readings: Observed, initial_state: ArrayLike | None) -> IntArray:
        """State of every appliance on the most probable joint path, shape (T, N)."""
        known = self._known(initial_state)
        values, starts = self._observe(readings)
        order, model = self._order(), self._model()
        if self.approximation_ == "exact":
            ranked = model.path(values, starts, known)
        else:
            ranked = BeamSearch(model, values, starts, self.width, known).path()
        path = np.empty_like(ranked)
        path[:, order] = ranked
        return path[:, :-1]

    def _order(self) -> list[int]:
        """Largest appliance first and the unmetered load last, so that no other order matters."""
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

    def _known(self, initial_state: ArrayLike | None) -> Known | None:
        """Which states each load of the ranked model may start in."""
        self._require_fit("means_")
        if initial_state is None:
            return None
        on = self._initial_state(initial_state)
        places = [
            (np.arange(self.means_[i].size) >= self.idle_[i]) == on[i] for i in self._order()[:-1]
        ]
        return [*places, None]
