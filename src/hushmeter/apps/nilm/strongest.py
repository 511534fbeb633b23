"""The strongest attacker for a home, chosen by cross-validation under the given noise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from inspect import signature
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np

from hushmeter.attack.base import (
    Attacker,
    NoiseDistribution,
    Observation,
    check_interval,
    check_mechanism,
)
from hushmeter.attack.registry import attackers
from hushmeter.checks import BoolArray, FloatArray, IntArray, whole
from hushmeter.errors import DataError, InputError
from hushmeter.formatting import spread_out
from hushmeter.home import Home
from hushmeter.scoring import block_measures, draw_blocks, outcomes
from hushmeter.trace import SECONDS_PER_DAY, Trace

NO_DATA = "no data"
"""Name of the choice that uses no readings."""

QUICK = ("bayes", "sparse-hmm")
"""Candidates that learn within seconds and need no PyTorch."""

FOLDS = 5
"""Number of copies of a candidate, each of which answers a fifth of the days that decide and has
learnt from all others."""

MOST_BLOCKS = 14
"""Largest number of days that decide; they are spread evenly over longer training data."""

MOST_JUDGED = 20_160
"""Largest number of readings that decide: two weeks of minutes."""

RESAMPLES = 500
"""Number of times that the days are drawn with replacement for a standard error."""


@dataclass(frozen=True)
class Choice:
    """Which attacker is the strongest under some noise, and what it achieved.

    Attributes
    ----------
    name : str
        Name of the chosen attacker; "no data" if every appliance is answered without data.
    without_data : tuple of str
        Appliances about which the attacker is worse than the guess without data. They are
        predicted to be always off, or always on if this is more frequent.
    alpha, floor, f1 : float
        Accuracy of the choice, accuracy of the guess without data, and macro F1 of the choice, all
        on training data that the attacker had not learnt from.
    """

    name: str
    without_data: tuple[str, ...]
    alpha: float
    floor: float
    f1: float

    @property
    def sentence(self) -> str:
        """One sentence that names the attacker and the reason."""
        if self.name == NO_DATA:
            return "No attacker is better than a guess without data, so the answer is that guess."
        text = (
            f"The strongest attacker is {self.name}: it is right about {self.alpha:.1%} of the "
            f"states in held-back training data, and a guess without data about {self.floor:.1%}."
        )
        if self.without_data:
            text += f" It answers without data about {', '.join(self.without_data)}."
        return text


class Strongest(Attacker):
    """The strongest of several attackers, chosen per home and noise, never on what is attacked.

    Parameters
    ----------
    home : Home
    mechanism
        As in `Bayes`.
    candidates : sequence of str or "quick", optional
        Names of attackers, the simplest first. By default these are `bayes`, `sparse-hmm` and, if
        PyTorch is installed, `tcn`, whose six trainings take about nine minutes. "quick" leaves
        `tcn` out.
    seed : int
        Seed of the candidates and of the simulated noise on the held-back data.
    progress : bool
        Whether candidates show a progress bar on standard error while they learn.

    Attributes
    ----------
    fitted_ : dict
        Candidates that learnt from all training data, by name.
    held_back_ : dict
        Copies of each candidate; each has not seen a fifth of the days that decide.
    blocks_ : tuple of (fold, readings, states, run_starts)
        The readings that decide, and the copy that answers them.
    guess_ : array of bool, shape (N,)
        The guess without data: whether each appliance is on in most readings of every fifth of the
        training data.
    left_out_ : dict
        Candidates that could not learn from the training data, with the reason.
    interval_s_ : float
        Interval of the training data. [s]

    Notes
    -----
    At most 14 days of the training data decide, or five parts of less than five days. Each
    candidate answers every fifth of them after it has learnt from all other data, with simulated
    noise and exactly the settings with which it attacks. The guess without data is one more
    candidate, the simplest.

    Candidates are compared by the mean over the appliances of Cohen's κ [1]_, the accuracy
    corrected for chance: it is zero for the guess and for answers that do not depend on the
    readings. The choice is the simplest candidate whose κ is at most one standard error over the
    days (bootstrap) below the highest one [2]_. Where the accuracy α of a candidate is more than
    one standard error below that of the guess, the guess first replaces its answers about as few
    appliances as necessary. If the home behaves otherwise than in training, which is common after
    less than some days, the accuracy can still be below that of the guess. `save` also writes the
    held-back readings, because the choice depends on the noise.

    References
    ----------
    .. [1] J. Cohen, "A coefficient of agreement for nominal scales", Educational and Psychological
       Measurement 20(1), 1960.
    .. [2] L. Breiman, J. H. Friedman, R. A. Olshen, C. J. Stone, "Classification and Regression
       Trees", Wadsworth, 1984, section 3.4.3.
    """

    name: ClassVar[str] = "strongest"
    needs: ClassVar[str] = "sub-metered training data; PyTorch (the extra named deep) for tcn"
    assumes: ClassVar[str] = "the home behaves as in training; the noise distribution is known"
    uses_noise: ClassVar[bool] = True

    checked_with: ClassVar[dict[str, Any]] = {"candidates": ("bayes", "sparse-hmm")}

    fitted_: dict[str, Attacker]
    held_back_: dict[str, tuple[Attacker, ...]]
    blocks_: tuple[tuple[int, FloatArray, BoolArray, BoolArray], ...]
    guess_: BoolArray
    left_out_: dict[str, str]
    interval_s_: float

    def __init__(
        self,
        home: Home,
        *,
        mechanism: NoiseDistribution | None = None,
        candidates: Sequence[str] | str | None = None,
        seed: int = 0,
        progress: bool = False,
    ) -> None:
        super().__init__(home)
        self.mechanism = check_mechanism(mechanism)
        self.candidates = default_candidates() if candidates is None else _check_names(candidates)
        self.seed, self.progress = whole("seed", seed, least=0), bool(progress)
        self._choices: dict[Any, Choice] = {}

    def fit(self, trace: Trace) -> Self:
        """Let every candidate learn from all training data and from the data without each fold."""
        return self.fit_with(trace, {})

    def fit_with(self, trace: Trace, known: Mapping[str, Attacker]) -> Self:
        """Do what `fit` does, with candidates that have already learnt from this trace."""
        super().fit(trace)
        judged = spread_out(cut_blocks(trace), MOST_BLOCKS)
        rests = [leave_out(trace, judged[fold::FOLDS]) for fold in range(min(FOLDS, len(judged)))]
        fitted, held_back, left_out = {}, {}, {}
        for name in self.candidates:
            try:
                fitted[name] = known[name] if name in known else self._make(name).fit(trace)
                held_back[name] = tuple(_make_anew(fitted[name]).fit(rest) for rest in rests)
            except DataError as error:
                fitted.pop(name, None)
                left_out[name] = str(error)
        if not fitted:
            raise DataError(
                f"no attacker can learn from this data: {next(iter(left_out.values()))}"
            )
        self.fitted_, self.held_back_, self.left_out_ = fitted, held_back, left_out
        parts = [trace[part] for part in _shorten(judged)]
        self.blocks_ = tuple(
            (place % FOLDS, part.readings, part.truth(), part.run_starts)
            for place, part in enumerate(parts)
        )
        self.guess_ = _guess(trace.truth())
        self.interval_s_ = trace.interval_s
        self._choices = {}
        return self

    def choose(self) -> Choice:
        """Choose the strongest candidate under the noise that this attacker knows."""
        self._require_fit("fitted_")
        noise = self.mechanism
        key = None if noise is None else (type(noise), noise.std, noise.grid)
        if key not in self._choices:
            self._choices[key] = self._choose()
        return self._choices[key]

    def _choose(self) -> Choice:
        truths = [states for _, _, states, _ in self.blocks_]
        guess = np.array(
            [outcomes(np.broadcast_to(self.guess_, x.shape), x).sum(axis=1) for x in truths]
        )
        draws = draw_blocks(len(truths), RESAMPLES, self.seed)
        runs = guess[:, :2].sum(axis=(0, 1)) > 0
        # The guess is the simplest option, and the candidates come in their order.
        options = [(NO_DATA, guess, np.ones(self.guess_.size, np.bool_))]
        for name, copies in self.held_back_.items():
            answers = [self._answer(copies[block[0]], block) for block in self.blocks_]
            pairs = zip(answers, truths, strict=True)
            counts = np.array([outcomes(answer, x).sum(axis=1) for answer, x in pairs])
            weak = _weak_appliances(counts, guess, draws, self.home.names)
            options.append((name, np.where(weak, guess, counts), weak))
        scores = np.array([_mean_kappa(c.sum(axis=0, keepdims=True), runs) for _, c, _ in options])
        drawn = np.array([_mean_kappa(np.tensordot(draws, c, axes=1), runs) for _, c, _ in options])
        best = int(scores.argmax())
        errors = _standard_error(drawn[best] - drawn, len(truths))
        chosen = int(np.argmax(scores[best] - scores[:, 0] <= errors))
        name, counts, weak = options[chosen]
        without = sorted(one for one, is_weak in zip(self.home.names, weak, strict=True) if is_weak)
        found = block_measures(np.array([counts.sum(axis=0), guess.sum(axis=0)], np.float64), runs)
        alpha, floor = found["alpha"].tolist()
        return Choice(name, tuple(without), alpha, floor, float(np.nan_to_num(found["f1"][0])))

    def _answer(
        self, attacker: Attacker, block: tuple[int, FloatArray, BoolArray, BoolArray]
    ) -> BoolArray:
        """States that a candidate predicts for held-back readings with simulated noise."""
        _, readings, _, run_starts = block
        noisy = readings + sample_noise(self.mechanism, readings.size, self.seed)
        trace = Trace(noisy, self.interval_s_, steps=_steps(run_starts))
        return attacker.knows(self.mechanism).predict(trace, rng=self.seed)

    def _predict(self, seen: Observation) -> BoolArray:
        choice = self.choose()
        if choice.name == NO_DATA:
            return np.tile(self.guess_, (len(seen), 1))
        return self.complete(self._chosen(choice).predict(**self._pass_on(seen)))

    def complete(self, states: BoolArray) -> BoolArray:
        """Replace what the chosen attacker says about some appliances by the guess without data."""
        return np.where(self._kept(self.choose()), states, self.guess_)

    def _predict_power(self, seen: Observation) -> FloatArray:
        choice = self.choose()
        power = np.tile(self.guess_ * self.home.powers, (len(seen), 1))
        if choice.name == NO_DATA:
            return power
        found = self._chosen(choice).predict_power(**self._pass_on(seen))
        return np.where(self._kept(choice), found, power)

    def _chosen(self, choice: Choice) -> Attacker:
        return self.fitted_[choice.name].knows(self.mechanism)

    def _kept(self, choice: Choice) -> BoolArray:
        """Whether the chosen attacker answers about each appliance, shape (N,)."""
        return np.array([name not in choice.without_data for name in self.home.names])

    def _pass_on(self, seen: Observation) -> dict[str, Any]:
        """Arguments of the candidates' own methods for the same readings."""
        check_interval(self.name, self.interval_s_, seen.interval_s)
        trace = Trace(seen.readings, self.interval_s_, steps=_steps(seen.run_starts))
        return {"readings": trace, "initial_state": seen.first_state, "rng": seen.rng}

    def _make(self, name: str) -> Attacker:
        """A candidate with the seed of this attacker, if it takes one."""
        cls = attackers[name]
        given = {"seed": self.seed, "progress": self.progress}
        known = signature(cls).parameters
        return cls(self.home, **{key: value for key, value in given.items() if key in known})

    def _check_learnt(self) -> None:
        if hasattr(self, "fitted_"):
            folds = {fold for fold, *_ in self.blocks_}
            whole_number = all(folds <= set(range(len(h))) for h in self.held_back_.values())
            if set(self.fitted_) != set(self.held_back_) or not self.fitted_ or not whole_number:
                raise DataError("a saved strongest attacker is damaged.")


def _make_anew(attacker: Attacker) -> Attacker:
    """An attacker with the same settings that has not learnt, to be judged as it attacks."""
    return type(attacker)(attacker.home, **attacker.parameters)


def default_candidates() -> tuple[str, ...]:
    """Return the names of the candidates: those that learn in seconds, and `tcn` with PyTorch."""
    return QUICK if find_spec("torch") is None else (*QUICK, "tcn")


def _check_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names of known attackers; at least one, and not this one."""
    if names == "quick":
        return QUICK
    known = (names,) if isinstance(names, str) else tuple(names)
    if not known or Strongest.name in known:
        raise InputError("candidates must name at least one attacker other than strongest.")
    for name in known:
        attackers[name]
    return known


def cut_blocks(trace: Trace) -> list[slice]:
    """Cut training data into blocks of about a day, at least one for each fold.

    Data of fewer than ten readings is one block, which is judged although it was learnt from.
    """
    days = int(len(trace) * trace.interval_s / SECONDS_PER_DAY)
    count = max(FOLDS, days) if len(trace) >= 2 * FOLDS else 1
    edges = np.linspace(0, len(trace), count + 1).astype(np.int64).tolist()
    return [slice(*edge) for edge in pairwise(edges)]


def leave_out(trace: Trace, parts: Iterable[slice]) -> Trace:
    """Return the readings outside some parts; the readings that are left out become gaps."""
    kept = np.ones(len(trace), np.bool_)
    for part in parts:
        kept[part] = False
    return trace.select(np.flatnonzero(kept)) if kept.any() else trace


def _shorten(blocks: Sequence[slice]) -> list[slice]:
    """Parts of blocks with at most `MOST_JUDGED` readings in all.

    They move from the begin of a block to its end, so that all times of day decide.
    """
    most, parts = max(1, MOST_JUDGED // len(blocks)), []
    for place, block in enumerate(blocks):
        spare = max(0, block.stop - block.start - most)
        first = block.start + spare * place // max(1, len(blocks) - 1)
        parts.append(slice(first, min(first + most, block.stop)))
    return parts


def sample_noise(mechanism: NoiseDistribution | None, size: int, seed: int) -> FloatArray:
    """Simulate noise [W] of a mechanism; none for None."""
    if mechanism is None:
        return np.zeros(size)
    noise: FloatArray = np.asarray(mechanism.sample(size, rng=seed), np.float64) * mechanism.grid
    return noise


def _guess(truth: BoolArray) -> BoolArray:
    """Appliances that are on in most readings of every fifth of the training data."""
    # If an appliance is on about half of the time, "always off" loses less when habits change.
    shares = [part.mean(axis=0) for part in np.array_split(truth, FOLDS) if len(part)]
    guess: BoolArray = np.min(shares, axis=0) > 0.5
    return guess


def _steps(run_starts: BoolArray) -> Any:
    """Steps of a trace whose gaps are one reading long; None without gaps."""
    if run_starts[1:].any():
        return np.arange(run_starts.size) + np.cumsum(run_starts) - 1
    return None


def _mean_kappa(counts: IntArray, runs: BoolArray) -> FloatArray:
    """Mean of Cohen's κ over the appliances that run, for counts of shape (B, 4, N).

    κ = (α − c)/(1 − c), where c is the accuracy of answers that are on as often, but by chance.
    """
    hits, misses, alarms, quiet = np.moveaxis(counts[..., runs].astype(np.float64), 1, 0)
    chance = (hits + alarms) * (alarms + quiet) + (hits + misses) * (misses + quiet)
    kappa = 2 * (hits * quiet - alarms * misses) / np.maximum(chance, 1.0)
    return kappa.mean(axis=1) if runs.any() else np.zeros(len(counts))


def _standard_error(resampled: FloatArray, blocks: int) -> FloatArray:
    """Standard error of a statistic that was resampled by blocks, along the last axis."""
    # The spread of the resamples alone is too small by √((n − 1)/n).
    return np.asarray(resampled.std(axis=-1) * np.sqrt(blocks / max(1, blocks - 1)))


def _weak_appliances(
    counts: IntArray, guess: IntArray, draws: IntArray, names: Sequence[str]
) -> BoolArray:
    """As few appliances as necessary for α to be at most one standard error too low, (N,)."""
    gains = (counts - guess)[:, [0, 3]].sum(axis=1)
    sizes = counts.sum(axis=(1, 2))
    # Equal gains are ordered by name, so that the order of the appliances has no effect.
    order = np.lexsort((np.array(names), gains.sum(axis=0)))
    weak = np.zeros(order.size, np.bool_)
    for i in order:
        gain = gains[:, ~weak].sum(axis=1)
        error = _standard_error((draws @ gain) / (draws @ sizes), len(gain))
        if gain.sum() / sizes.sum() >= -error:
            break
        weak[i] = True
    return weak
