"""The strongest attacker for a home: the mean of `bayes` and `trees`, or else a guess."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np

from hushmeter.apps.nilm.bayes import Bayes
from hushmeter.apps.nilm.trees import MOST_ROWS, Trees, noise_key
from hushmeter.attack.base import (
    NoiseDistribution,
    Observation,
    ProbabilisticAttacker,
    check_interval,
    check_mechanism,
)
from hushmeter.checks import BoolArray, FloatArray, IntArray, whole
from hushmeter.errors import DataError
from hushmeter.formatting import spread_out
from hushmeter.home import Home
from hushmeter.scoring import block_measures, draw_blocks, outcomes
from hushmeter.trace import SECONDS_PER_DAY, Trace

NO_DATA = "no data"
"""Name of the choice that uses no readings."""

LEAST_DAYS = 4
"""Shorter training data is too little for `trees` and for a threshold."""

FOLDS = 3
"""One day in this number decides, and is answered by copies that have not learnt from it."""

SHORT_FOLDS = 5
"""Number of parts of short training data, each of which is answered by a copy of its own."""

MOST_BLOCKS = 14
"""Largest number of days that decide; they are spread evenly over longer training data."""

MOST_JUDGED = 20_160
"""Largest number of readings that decide: two weeks of minutes."""

THRESHOLDS = (0.4, 0.3, 0.35, 0.45, 0.5, 0.55, 0.6)
"""Probabilities above which appliances may be reported as on. The first is used unless another has
an F1 that is more than one standard error higher."""

SHORT_THRESHOLD = 0.5
"""Probability above which appliances are reported as on after short training data."""

RESAMPLES = 500
"""Number of times that the parts are drawn with replacement for a standard error."""


@dataclass(frozen=True)
class Choice:
    """What the strongest attacker does under some noise, and what it achieved.

    Attributes
    ----------
    name : str
        "bayes and trees"; "bayes" for short training data or without LightGBM; "no data" if every
        appliance is answered without data.
    without_data : tuple of str
        Appliances that are answered by the guess without data.
    threshold : float
        Probability above which the other appliances are reported as on.
    alpha, floor, f1 : float
        Accuracy of the attacker, accuracy of the guess without data, and macro F1 of the attacker,
        all on training data that the attacker had not learnt from.
    reason : str
        Why an attacker does not take part; empty if both do.
    """

    name: str
    without_data: tuple[str, ...]
    threshold: float
    alpha: float
    floor: float
    f1: float
    reason: str = ""

    @property
    def who(self) -> str:
        """One or two sentences that name the attacker, and why it is not a stronger one."""
        if self.name == NO_DATA and not self.reason:
            return "No attacker is better than a guess without data, so the answer is that guess."
        if self.name == NO_DATA:
            return f"The answer is a guess without data.{self.reason}"
        return f"The attacker is {self.name}.{self.reason}"

    @property
    def sentence(self) -> str:
        """One to three sentences that name the attacker and what it achieved."""
        if self.name == NO_DATA:
            return self.who
        text = (
            f"The attacker is {self.name}: it is right about {self.alpha:.1%} of the states in "
            f"held-back training data, and a guess without data about {self.floor:.1%}."
        )
        if self.without_data:
            text += f" It answers without data about {', '.join(self.without_data)}."
        return text + self.reason


class Strongest(ProbabilisticAttacker):
    """The mean of the probabilities of `bayes` and `trees`, where it is better than a guess.

    Parameters
    ----------
    home : Home
    mechanism
        As in `Bayes`.
    rows, seed : int
        As in `Trees`; the seed is also that of the simulated noise on the held-back data.

    Attributes
    ----------
    fitted_ : dict
        The attackers that learnt from all training data, by name.
    held_back_ : tuple of dict
        Copies of them, which have not seen some of the days that decide.
    blocks_ : tuple of (copy, readings, states, run_starts)
        The readings that decide, and the copy that answers them.
    guesses_ : array of bool, shape (2, N)
        The guesses without data: everything is off, and as in most readings of every fifth of the
        training data.
    short_ : bool
        Whether the training data is shorter than four days.
    unmetered_ : bool
        Whether there is load that the appliances do not explain.
    interval_s_ : float
        Interval of the training data. [s]

    Notes
    -----
    Every third day of the training data, at most 14, decides. Copies of the attackers that learnt
    from the other days answer it with simulated noise of the given distribution. The threshold is
    0.4, or the one with the highest F1 if this is higher by more than one standard error over the
    days (bootstrap). As few appliances as necessary are answered by the better guess without data
    for the accuracy α to be above that of the guess.

    Less than four days do not show how a home behaves. If there is unmetered load, the answer is
    then the guess. If the appliances explain the readings, as in the paper's model, `bayes` answers
    alone, with the threshold one half and five copies, and its α must be one standard error above
    that of the guess. Without LightGBM `bayes` answers alone too.

    Nothing is chosen on what is attacked. If the home behaves otherwise than in training, α can
    still be below that of the guess. `save` also writes the training data, because the answer
    depends on the noise.
    """

    name: ClassVar[str] = "strongest"
    needs: ClassVar[str] = "sub-metered training data; LightGBM (the extra named nilm) for trees"
    assumes: ClassVar[str] = "the home behaves as in training; the noise distribution is known"
    uses_noise: ClassVar[bool] = True

    fitted_: dict[str, ProbabilisticAttacker]
    held_back_: tuple[dict[str, ProbabilisticAttacker], ...]
    blocks_: tuple[tuple[int, FloatArray, BoolArray, BoolArray], ...]
    guesses_: BoolArray
    short_: bool
    unmetered_: bool
    interval_s_: float

    def __init__(
        self,
        home: Home,
        *,
        mechanism: NoiseDistribution | None = None,
        rows: int = MOST_ROWS,
        seed: int = 0,
    ) -> None:
        super().__init__(home)
        self.mechanism = check_mechanism(mechanism)
        self.rows, self.seed = whole("rows", rows), whole("seed", seed, least=0)
        self._choices: dict[str, tuple[Choice, BoolArray]] = {}

    def fit(self, trace: Trace) -> Self:
        """Let the attackers learn from all data, and copies without the days that decide."""
        super().fit(trace)
        self.short_ = len(trace) * trace.interval_s < LEAST_DAYS * SECONDS_PER_DAY
        judged = cut_blocks(trace)
        copies = SHORT_FOLDS
        if not self.short_:
            judged, copies = spread_out(judged[1::FOLDS], MOST_BLOCKS), 1
        rests = [leave_out(trace, judged[i::copies]) for i in range(min(copies, len(judged)))]
        self.fitted_ = self._learn(trace)
        self.held_back_ = tuple(self._learn(rest) for rest in rests)
        parts = [trace[part] for part in _shorten(judged)]
        self.blocks_ = tuple(
            (place % copies, part.readings, part.truth(), part.run_starts)
            for place, part in enumerate(parts)
        )
        most = _usual_states(trace.truth())
        self.guesses_ = np.array([np.zeros_like(most), most])
        self.unmetered_ = vars(self.fitted_["bayes"])["means_"][-1].size > 1
        self.interval_s_ = trace.interval_s
        self._choices = {}
        return self

    def _learn(self, trace: Trace) -> dict[str, ProbabilisticAttacker]:
        """The attackers that take part, after they have learnt from a trace."""
        parts: list[ProbabilisticAttacker] = [Bayes(self.home)]
        if not self.short_ and find_spec("lightgbm") is not None:
            trees = Trees(self.home, mechanism=self.mechanism, rows=self.rows, seed=self.seed)
            parts.append(trees)
        return {part.name: part.fit(trace) for part in parts}

    def choose(self) -> Choice:
        """Decide what to answer under the noise that this attacker knows."""
        return self._decide()[0]

    def _decide(self) -> tuple[Choice, BoolArray]:
        """The choice, and the better guess without data."""
        self._require_fit("fitted_")
        key = noise_key(self.mechanism)
        if key not in self._choices:
            self._choices[key] = self._judge()
        return self._choices[key]

    def _judge(self) -> tuple[Choice, BoolArray]:
        truths = [states for _, _, states, _ in self.blocks_]
        guesses = [_count([np.tile(g, (len(x), 1)) for x in truths], truths) for g in self.guesses_]
        better = int(np.argmax([counts[:, [0, 3]].sum() for counts in guesses]))
        threshold, counts, weak = self._best_threshold(truths, guesses[better])
        runs = counts[:, :2].sum(axis=(0, 1)) > 0
        both = np.array([counts.sum(axis=0), guesses[better].sum(axis=0)])
        (alpha, floor), (f1, _) = (part.tolist() for part in _measure(both, runs))
        name = NO_DATA if weak.all() else " and ".join(self.fitted_)
        without = sorted(one for one, is_weak in zip(self.home.names, weak, strict=True) if is_weak)
        reason = self._reason(guessed=bool(weak.all()))
        choice = Choice(name, tuple(without), threshold, alpha, floor, f1, reason)
        return choice, self.guesses_[better]

    def _best_threshold(
        self, truths: list[BoolArray], guess: IntArray
    ) -> tuple[float, IntArray, BoolArray]:
        """Threshold, outcomes of the answers, and the appliances that are answered by the guess."""
        chances = [self._held_chance(block) for block in self.blocks_]
        runs = guess[:, :2].sum(axis=(0, 1)) > 0
        draws = draw_blocks(len(truths), RESAMPLES, self.seed)
        tried, scores, drawn = [], [], []
        for threshold in (SHORT_THRESHOLD,) if self.short_ else THRESHOLDS:
            counts = _count([chance > threshold for chance in chances], truths)
            weak = self._weak_appliances(counts, guess, draws)
            weak |= self.short_ and self.unmetered_
            counts = np.where(weak, guess, counts)
            tried.append((threshold, counts, weak))
            scores.append(_measure(counts.sum(axis=0, keepdims=True), runs)[1][0])
            drawn.append(_measure(np.tensordot(draws, counts, axes=1), runs)[1])
        best = int(np.argmax(scores))
        error = _standard_error(drawn[best] - drawn[0], len(truths))
        return tried[best if scores[best] - scores[0] > error else 0]

    def _reason(self, *, guessed: bool) -> str:
        """Why an attacker does not take part."""
        if self.short_ and self.unmetered_:
            return (
                f" Less than {LEAST_DAYS} days of training data are too few beside a load that "
                "nobody meters. This does not show that the readings hide anything."
            )
        if guessed or "trees" in self.fitted_:
            return ""
        if self.short_:
            return f" The training data has less than {LEAST_DAYS} days, too little for trees."
        return " The stronger attacker trees is not installed: it needs the extra named nilm."

    def _held_chance(self, block: tuple[int, FloatArray, BoolArray, BoolArray]) -> FloatArray:
        """Mean probability of the copies for held-back readings with simulated noise."""
        copy, readings, _, run_starts = block
        noisy = readings + sample_noise(self.mechanism, readings.size, self.seed)
        trace = Trace(noisy, self.interval_s_, steps=_steps(run_starts))
        return self._mean(self.held_back_[copy], {"readings": trace, "rng": self.seed})

    def _mean(self, parts: dict[str, ProbabilisticAttacker], given: dict[str, Any]) -> FloatArray:
        """Mean of the probabilities of some attackers."""
        chances = [part.knows(self.mechanism).predict_proba(**given) for part in parts.values()]
        mean: FloatArray = np.mean(chances, axis=0)
        return mean

    def _predict(self, seen: Observation) -> BoolArray:
        choice, guess = self._decide()
        return np.where(self._kept(choice), self._chance(seen) > choice.threshold, guess)

    def _predict_proba(self, seen: Observation) -> FloatArray:
        choice, guess = self._decide()
        return np.where(self._kept(choice), self._chance(seen), guess)

    def _chance(self, seen: Observation) -> FloatArray:
        """Mean probability of the attackers that learnt from all training data."""
        check_interval(self.name, self.interval_s_, seen.interval_s)
        trace = Trace(seen.readings, self.interval_s_, steps=_steps(seen.run_starts))
        given = {"readings": trace, "initial_state": seen.first_state, "rng": seen.rng}
        return self._mean(self.fitted_, given)

    def _kept(self, choice: Choice) -> BoolArray:
        """Whether each appliance is answered with data, shape (N,)."""
        return np.array([name not in choice.without_data for name in self.home.names])

    def _weak_appliances(self, counts: IntArray, guess: IntArray, draws: IntArray) -> BoolArray:
        """As few appliances as necessary for α to be above that of the guess, shape (N,)."""
        gains = (counts - guess)[:, [0, 3]].sum(axis=1)
        sizes = counts.sum(axis=(1, 2))
        # Equal gains are ordered by name, so that the order of the appliances has no effect.
        order = np.lexsort((np.array(self.home.names), gains.sum(axis=0)))
        weak = np.zeros(order.size, np.bool_)
        for i in order:
            gain = gains[:, ~weak].sum(axis=1)
            error = _standard_error((draws @ gain) / (draws @ sizes), len(gain))
            if gain.sum() / sizes.sum() > (error if self.short_ else 0.0):
                break
            weak[i] = True
        return weak

    def _check_learnt(self) -> None:
        if hasattr(self, "fitted_"):
            names, copies = set(self.fitted_), {copy for copy, *_ in self.blocks_}
            alike = all(set(parts) == names for parts in self.held_back_)
            if not names or not alike or not copies <= set(range(len(self.held_back_))):
                raise DataError("a saved strongest attacker is damaged.")


def _count(answers: Sequence[BoolArray], truths: Sequence[BoolArray]) -> IntArray:
    """Outcomes of answers in each block, (blocks, 4, N)."""
    pairs = zip(answers, truths, strict=True)
    return np.array([outcomes(answer, truth).sum(axis=1) for answer, truth in pairs])


def _measure(counts: IntArray, runs: BoolArray) -> tuple[FloatArray, FloatArray]:
    """α and macro F1 of counts of shape (B, 4, N), each of shape (B,)."""
    found = block_measures(counts.astype(np.float64), runs)
    return found["alpha"], np.nan_to_num(found["f1"])


def cut_blocks(trace: Trace) -> list[slice]:
    """Cut training data into blocks of about a day, at least one for each fold.

    Data of fewer than ten readings is one block, which is judged although it was learnt from.
    """
    days = int(len(trace) * trace.interval_s / SECONDS_PER_DAY)
    count = max(SHORT_FOLDS, days) if len(trace) >= 2 * SHORT_FOLDS else 1
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


def _usual_states(truth: BoolArray) -> BoolArray:
    """Appliances that are on in most readings of every fifth of the training data."""
    # If an appliance is on about half of the time, "always off" loses less when habits change.
    shares = [part.mean(axis=0) for part in np.array_split(truth, SHORT_FOLDS) if len(part)]
    usual: BoolArray = np.min(shares, axis=0) > 0.5
    return usual


def _steps(run_starts: BoolArray) -> Any:
    """Steps of a trace whose gaps are one reading long; None without gaps."""
    if run_starts[1:].any():
        return np.arange(run_starts.size) + np.cumsum(run_starts) - 1
    return None


def _standard_error(resampled: FloatArray, blocks: int) -> float:
    """Standard error of a statistic that was resampled by blocks."""
    # The spread of the resamples alone is too small by √((n − 1)/n).
    return float(resampled.std() * np.sqrt(blocks / max(1, blocks - 1)))
