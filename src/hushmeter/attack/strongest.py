"""The strongest attacker for a home, chosen on held-back training data under the given noise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from inspect import signature
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
from hushmeter.checks import BoolArray, FloatArray, whole
from hushmeter.errors import DataError, InputError
from hushmeter.home import Home
from hushmeter.scoring import score
from hushmeter.trace import Trace

NO_DATA = "no data"
"""Name of the choice that uses no readings."""

QUICK = ("bayes", "sparse-hmm")
"""Candidates that learn within seconds and need no PyTorch."""

HELD_BACK = 2
"""Number of parts of the training data that are held back, one after the other."""

PARTS = 5
"""Number of parts into which the training data is divided."""

MOST_HELD = 10_080
"""Largest number of readings of one part that decide by default: a week of minutes."""


@dataclass(frozen=True)
class Choice:
    """Which attacker is the strongest under some noise, and what it achieved.

    Attributes
    ----------
    name : str
        Name of the chosen attacker; "no data" if every appliance is answered without data.
    without_data : tuple of str
        Appliances about which no attacker is better than the guess without data. They are
        predicted to be always off, or always on if this is more frequent.
    alpha, floor, f1 : float
        Accuracy of the choice, accuracy of the guess without data, and macro F1 of the choice, all
        on the held-back training data.
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
        Names of attackers. By default these are `bayes`, `sparse-hmm` and, if PyTorch is installed,
        `tcn`, whose three trainings take four to five minutes. "quick" leaves `tcn` out.
    held : int
        Largest number of readings of each held-back part that decide. Fewer make the choice
        quicker and less certain.
    seed : int
        Seed of the candidates and of the simulated noise on the held-back data.
    progress : bool
        Whether candidates show a progress bar on standard error while they learn.

    Attributes
    ----------
    fitted_ : dict
        Candidates that learnt from all training data, by name.
    held_back_ : dict
        Copies of each candidate that have not seen the first, or the second, held-back part.
    parts_ : tuple of (readings, states, run_starts)
        The held-back parts.
    guess_ : array of bool, shape (N,)
        The guess without data: whether each appliance is on in most readings of every fifth of the
        training data.
    left_out_ : dict
        Candidates that could not learn from the training data, with the reason.
    interval_s_ : float
        Interval of the training data. [s]

    Notes
    -----
    The training data is divided into five parts. Each candidate answers two of them, each after it
    has learnt from the other four, with simulated noise of the known distribution. It is judged
    with exactly the settings with which it attacks: `tcn` with all its networks. Among the
    candidates whose accuracy α is at least that of the guess without data in both parts, the one
    with the highest macro F1 is chosen. For a candidate whose α is lower in a part, the guess
    replaces the answers about as few appliances as necessary, and it is then judged with them. The
    attacker is therefore never chosen on the readings that are attacked. Its accuracy is below that
    of the guess if the home then behaves otherwise than in training, which is common after
    less than some days of training. `choose` returns the choice. `save` also writes the held-back
    readings, because the choice depends on the noise.
    """

    name: ClassVar[str] = "strongest"
    needs: ClassVar[str] = "sub-metered training data; PyTorch (the extra named deep) for tcn"
    assumes: ClassVar[str] = "the home behaves as in training; the noise distribution is known"
    uses_noise: ClassVar[bool] = True

    checked_with: ClassVar[dict[str, Any]] = {"candidates": ("bayes", "sparse-hmm")}

    fitted_: dict[str, Attacker]
    held_back_: dict[str, tuple[Attacker, ...]]
    parts_: tuple[tuple[FloatArray, BoolArray, BoolArray], ...]
    guess_: BoolArray
    left_out_: dict[str, str]
    interval_s_: float

    def __init__(
        self,
        home: Home,
        *,
        mechanism: NoiseDistribution | None = None,
        candidates: Sequence[str] | str | None = None,
        held: int = MOST_HELD,
        seed: int = 0,
        progress: bool = False,
    ) -> None:
        super().__init__(home)
        self.mechanism = check_mechanism(mechanism)
        self.candidates = default_candidates() if candidates is None else _check_names(candidates)
        self.held = whole("held", held)
        self.seed, self.progress = whole("seed", seed, least=0), bool(progress)
        self._choices: dict[str, Choice] = {}

    def fit(self, trace: Trace) -> Self:
        """Let every candidate learn from all training data and from the data without each part.

        Raises
        ------
        DataError
            If no candidate can learn from the training data.
        """
        return self.fit_with(trace, {})

    def fit_with(self, trace: Trace, known: Mapping[str, Attacker]) -> Self:
        """Do what `fit` does, with candidates that have already learnt from this trace."""
        super().fit(trace)
        parts = held_back_parts(len(trace))
        rests = [leave_out(trace, part) for part in parts]
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
        self.parts_ = tuple(_sample(trace, part, self.held) for part in parts)
        self.guess_ = _guess(trace.truth())
        self.interval_s_ = trace.interval_s
        self._choices = {}
        return self

    def choose(self) -> Choice:
        """Choose the strongest candidate under the noise that this attacker knows."""
        self._require_fit("fitted_")
        key = "" if self.mechanism is None else repr(_parameters(self.mechanism))
        if key not in self._choices:
            self._choices[key] = self._choose()
        return self._choices[key]

    def _choose(self) -> Choice:
        truths = [states for _, states, _ in self.parts_]
        options = []
        for name in self.fitted_:
            answers = [
                self._answer(one, part)
                for one, part in zip(self.held_back_[name], self.parts_, strict=True)
            ]
            options.append(_assess(name, answers, truths, self.guess_, self.home.names))
        # Candidates are compared in their order: the first of equal ones is chosen.
        return max(options, key=lambda option: option.f1)

    def _answer(
        self, attacker: Attacker, part: tuple[FloatArray, BoolArray, BoolArray]
    ) -> BoolArray:
        """States that a candidate predicts for a held-back part with simulated noise."""
        readings, _, run_starts = part
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
        answer = np.tile(self.guess_, (len(states), 1))
        kept = self._kept(self.choose())
        answer[:, kept] = states[:, kept]
        return answer

    def _predict_power(self, seen: Observation) -> FloatArray:
        choice = self.choose()
        power = np.tile(self.guess_ * self.home.powers, (len(seen), 1))
        if choice.name != NO_DATA:
            kept = self._kept(choice)
            power[:, kept] = self._chosen(choice).predict_power(**self._pass_on(seen))[:, kept]
        return power

    def _chosen(self, choice: Choice) -> Attacker:
        return self.fitted_[choice.name].knows(self.mechanism)

    def _kept(self, choice: Choice) -> list[int]:
        """Columns that the chosen attacker answers."""
        names = self.home.names
        return [i for i, name in enumerate(names) if name not in choice.without_data]

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
            whole_number = all(len(held) == len(self.parts_) for held in self.held_back_.values())
            if set(self.fitted_) != set(self.held_back_) or not self.fitted_ or not whole_number:
                raise DataError("a saved strongest attacker is damaged.")


def _make_anew(attacker: Attacker) -> Attacker:
    """An attacker with the same settings that has not learnt, to be judged as it attacks."""
    return type(attacker)(attacker.home, **attacker.parameters)


def default_candidates() -> tuple[str, ...]:
    """Return the names of the candidates: those that learn in seconds, and `tcn` with PyTorch."""
    return QUICK if find_spec("torch") is None else ("tcn", *QUICK)


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


def held_back_parts(length: int) -> list[slice]:
    """Return the parts of training data that are held back: the first two fifths.

    Data of fewer than ten readings is not divided: it is held back as a whole and learnt from.
    """
    if length < 2 * PARTS:
        return [slice(0, length)]
    edges = np.linspace(0, length, PARTS + 1).astype(np.int64)
    return [slice(int(edges[i]), int(edges[i + 1])) for i in range(HELD_BACK)]


def leave_out(trace: Trace, part: slice) -> Trace:
    """Return the readings outside a part; the readings that are left out become a gap."""
    rows = np.r_[0 : part.start, part.stop : len(trace)]
    return trace if rows.size == 0 else trace.select(rows)


def sample_noise(mechanism: NoiseDistribution | None, size: int, seed: int) -> FloatArray:
    """Simulate noise [W] of a mechanism; Laplace noise of the same size if it cannot sample."""
    if mechanism is None:
        return np.zeros(size)
    sample = getattr(mechanism, "sample", None)
    if sample is None:
        return np.random.default_rng(seed).laplace(scale=mechanism.std / np.sqrt(2), size=size)
    noise: FloatArray = np.asarray(sample(size, rng=seed), np.float64) * mechanism.grid
    return noise


def _parameters(mechanism: NoiseDistribution) -> Any:
    """What tells two mechanisms apart."""
    known = getattr(mechanism, "parameters", None)
    return type(mechanism), mechanism.std if known is None else known()


def _guess(truth: BoolArray) -> BoolArray:
    """Appliances that are on in most readings of every fifth of the training data.

    If an appliance is on about half of the time, "always off" loses less when habits change.
    """
    shares = [part.mean(axis=0) for part in np.array_split(truth, PARTS) if len(part)]
    guess: BoolArray = np.min(shares, axis=0) > 0.5
    return guess


def _sample(trace: Trace, part: slice, most: int) -> tuple[FloatArray, BoolArray, BoolArray]:
    """Readings, states and run starts of at most `most` readings of a part."""
    held = trace[part.start : min(part.stop, part.start + most)]
    return held.readings, held.truth(), held.run_starts


def _steps(run_starts: BoolArray) -> Any:
    """Steps of a trace whose gaps are one reading long; None without gaps."""
    if run_starts[1:].any():
        return np.arange(run_starts.size) + np.cumsum(run_starts) - 1
    return None


def _assess(
    name: str,
    answers: Sequence[BoolArray],
    truths: Sequence[BoolArray],
    guess: BoolArray,
    names: Sequence[str],
) -> Choice:
    """A candidate with as few appliances replaced by the guess as α ≥ floor requires.

    The answers and the true states are those of each held-back part. The accuracy must not be
    below the floor in any part, because a gain in one part alone depends on the habits of its days.
    """
    gains = np.array(
        [
            (states == truth).mean(axis=0) - (truth == guess).mean(axis=0)
            for states, truth in zip(answers, truths, strict=True)
        ]
    )
    # Equal gains are ordered by name, so that the order of the appliances has no effect.
    order = np.lexsort((np.array(names), gains.min(axis=0)))
    replaced = 0
    while gains[:, order[replaced:]].sum(axis=1).min() < 0:
        replaced += 1
    weak = order[:replaced]
    answer, truth = np.concatenate(answers), np.concatenate(truths)
    answer[:, weak] = guess[weak]
    found = score(answer, truth)
    floor = float((truth == guess).mean())
    without = tuple(sorted(names[i] for i in weak))
    f1 = 0.0 if np.isnan(found.f1) else found.f1
    if (answer == guess).all():
        return Choice(NO_DATA, tuple(sorted(names)), found.alpha, floor, f1)
    return Choice(name, without, found.alpha, floor, f1)
