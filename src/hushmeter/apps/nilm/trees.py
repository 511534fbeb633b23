"""Trees: boosted decision trees on window features, trained for exactly the noise that is attacked.

LightGBM is optional (the extra named nilm), so this module imports it inside functions only.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any, ClassVar, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from hushmeter.attack.base import (
    NoiseDistribution,
    Observation,
    ProbabilisticAttacker,
    check_interval,
    check_mechanism,
)
from hushmeter.attack.levels import training_power
from hushmeter.checks import BoolArray, FloatArray, IntArray, whole
from hushmeter.errors import MissingExtraError
from hushmeter.home import Home
from hushmeter.trace import SECONDS_PER_DAY, Runs, Trace

Features = NDArray[np.float32]

NEIGHBOURS = 5
"""Readings on each side that are features themselves."""

MEANS = (1, 2, 3, 5, 8, 13, 21, 34, 60, 120)
CENTRED = (3, 5, 9, 15, 31, 61, 121, 241)
EXTREMES = (11, 31, 61)
DEVIATIONS = (5, 15, 61)
BASE = 241
EDGES = (3, 13)
JUMPS = (15, 60, 180)
"""Widths of the features [min], or [readings] if these are longer than a minute: one-sided and
centred means, extremes of means, standard deviations, the time over which the lowest mean is the
base load, means whose differences are edges, and the times in which the largest edge is found."""

COPIES = 4
"""Number of copies of the training data, each with fresh noise."""

EXCHANGED = 0.3
"""Share of training days in which one or two appliances are those of another day."""

NEAR_S = 3600.0
"""Readings within this time of a run are all learnt from; the others are thinned [s]."""

MOST_READ = 1 << 20
"""Largest number of readings of all copies of which features are computed."""

TOGETHER = 1 << 17
"""Number of readings whose features are computed at a time, which bounds the memory."""

COMMON = 0.2
"""Share of time on above which an appliance need not be sought: it is in every sample."""

MOST_ROWS = 640_000
"""Number of training readings of all copies, times the appliances, beyond which they are fewer."""

MOST_NOISES = 8
"""Largest number of noises whose trees are kept."""

THRESHOLD = 0.4
"""Probability above which an appliance is reported as on. The best threshold for F1 is half of the
F1 that it achieves (Lipton, Elkan, Naryanaswamy 2014); 0.4 suits an F1 of 0.8."""

BOOSTING = {
    "objective": "binary", "num_leaves": 31, "learning_rate": 0.07, "min_data_in_leaf": 40,
    "feature_fraction": 0.5, "bagging_fraction": 0.6, "bagging_freq": 1, "lambda_l2": 5.0,
    "max_bin": 127, "deterministic": True, "force_row_wise": True, "verbosity": -1,
    # One thread: a process that was forked could hang with several.
    "num_threads": 1,
}  # fmt: skip


class Trees(ProbabilisticAttacker):
    """Trees. One gradient-boosted classifier for each appliance [1]_, from features of the mains.

    Parameters
    ----------
    home : Home
    mechanism
        As in `Bayes`.
    rounds : int
        Number of trees of an appliance.
    rows : int
        Number of training readings of all copies, times the appliances, beyond which readings are
        left out, first those that are far from every run.
    seed : int
        The same seed and data give the same trees; the order of the appliances has no effect.

    Attributes
    ----------
    readings_, power_, states_, run_starts_ : arrays
        Training data, with the appliances in the order of their names. The trees for another noise
        are grown when they are needed.
    interval_s_ : float
        Interval of the training data. [s]
    never_on_ : tuple of str
        Appliances that never run in the training data; they are always predicted to be off.
    models_ : dict
        LightGBM's text of the trees of each appliance that switches, for each noise.

    Raises
    ------
    MissingExtraError
        If LightGBM is not installed.

    Notes
    -----
    The features of a reading are the readings around it, one-sided and centred means over 1 to
    241 min and their differences, the height above the lowest mean of 4 h, minima and maxima,
    standard deviations, and the size and distance of the largest rise and fall within 3 h before
    and after it. They end at gaps. The hour of the day is not a feature.

    The trees are grown on four copies of the training data with fresh noise of exactly the
    mechanism that the attacker knows. In three of ten days of a copy, one or two appliances are
    replaced by their measured power on another day. `save` writes the training data too.

    References
    ----------
    .. [1] G. Ke et al., "LightGBM: a highly efficient gradient boosting decision tree", NeurIPS,
       2017.
    """

    name: ClassVar[str] = "trees"
    needs: ClassVar[str] = "sub-metered training data; LightGBM (the extra named nilm)"
    assumes: ClassVar[str] = "the home behaves as in training; the noise distribution is known"
    uses_noise: ClassVar[bool] = True
    checked_with: ClassVar[dict[str, Any]] = {"rounds": 3}

    readings_: FloatArray
    power_: FloatArray
    states_: BoolArray
    run_starts_: BoolArray
    interval_s_: float
    never_on_: tuple[str, ...]
    models_: dict[str, dict[str, str]]

    def __init__(
        self,
        home: Home,
        *,
        mechanism: NoiseDistribution | None = None,
        rounds: int = 160,
        rows: int = MOST_ROWS,
        seed: int = 0,
    ) -> None:
        super().__init__(home)
        if find_spec("lightgbm") is None:
            raise MissingExtraError(f"the {self.name} attacker", "nilm")
        self.mechanism = check_mechanism(mechanism)
        self.rounds, self.rows = whole("rounds", rounds), whole("rows", rows)
        self.seed = whole("seed", seed, least=0)

    def fit(self, trace: Trace) -> Self:
        """Keep the training data, and grow the trees for the noise that the attacker knows."""
        super().fit(trace)
        order = np.argsort(self.home.names)
        self.states_ = trace.truth()[:, order]
        self.power_ = training_power(trace, self.home)[:, order]
        self.readings_, self.run_starts_ = trace.readings, trace.run_starts
        self.interval_s_ = trace.interval_s
        runs = self.states_.any(axis=0)
        self.never_on_ = tuple(np.array(self.home.names)[order][~runs].tolist())
        self.models_ = {}
        self._models()
        return self

    def _predict(self, seen: Observation) -> BoolArray:
        return self._predict_proba(seen) > THRESHOLD

    def _predict_proba(self, seen: Observation) -> FloatArray:
        from lightgbm import Booster

        self._require_fit("models_")
        check_interval(self.name, self.interval_s_, seen.interval_s)
        chance = np.empty((len(seen), len(self.home)))
        chance[:, np.argsort(self.home.names)] = self.states_.mean(axis=0).round()
        models = {name: Booster(model_str=text) for name, text in self._models().items()}
        widths = Widths(self.interval_s_)
        for places, inner in cut_pieces(seen.run_starts, TOGETHER, widths.reach):
            rows = places[:, widths.reach : -widths.reach][inner]
            features = widths.features(seen.readings[places])[inner]
            for name, model in models.items():
                found = np.asarray(model.predict(features, num_threads=1))
                chance[rows, self.home.index(name)] = found
        return chance

    def _models(self) -> dict[str, str]:
        """Trees of the appliances that switch, for the known noise; grown on first use."""
        key = noise_key(self.mechanism)
        if key not in self.models_:
            # A slider may ask for any number of noises, so only the latest are kept.
            for oldest in list(self.models_)[: 1 - MOST_NOISES]:
                self.models_.pop(oldest, None)
            rng = np.random.default_rng([self.seed, zlib.crc32(key.encode())])
            self.models_[key] = self._grow(rng)
        return self.models_[key]

    def _grow(self, rng: Generator) -> dict[str, str]:
        """LightGBM's text of the trees of each appliance that switches."""
        import lightgbm

        share = self.states_.mean(axis=0)
        if not ((share > 0) & (share < 1)).any():
            return {}
        parts = zip(*self._examples(rng), strict=True)
        features, states, weights = (np.concatenate(part) for part in parts)
        data = lightgbm.Dataset(features, weight=weights, params=BOOSTING, free_raw_data=True)
        data.construct()
        texts = {}
        for name, on in zip(sorted(self.home.names), states.T, strict=True):
            if on.all() or not on.any():
                continue
            seed = zlib.crc32(f"{self.seed} {name}".encode()) >> 1
            data.set_label(on.astype(np.float32))
            model = lightgbm.train({**BOOSTING, "seed": seed}, data, num_boost_round=self.rounds)
            texts[name] = model.model_to_string()
        return texts

    def _examples(self, rng: Generator) -> Iterator[tuple[Features, BoolArray, FloatArray]]:
        """Features, states and weights of the readings that are learnt from."""
        size, widths = self.readings_.size, Widths(self.interval_s_)
        day = max(1, round(SECONDS_PER_DAY / self.interval_s_))
        copies = min(COPIES, max(1, MOST_READ // size))
        kept = self._kept(min(1.0, MOST_READ / size), copies)
        for _ in range(copies):
            noise = np.zeros(size)
            if self.mechanism is not None:
                noise += self.mechanism.sample(size, rng=rng) * self.mechanism.grid
            for places, inner in cut_pieces(self.run_starts_, day, widths.reach):
                used = rng.random(len(places)) < MOST_READ / size
                rows, chosen = places[used], inner[used]
                if not len(rows):
                    continue
                y, on = self.readings_[rows] + noise[rows], self.states_[rows]
                self._exchange(rows, y, on, rng)
                middle = slice(widths.reach, -widths.reach)
                share = kept[rows[:, middle]]
                chosen &= rng.random(share.shape) < share
                yield widths.features(y)[chosen], on[:, middle][chosen], 1 / share[chosen]

    def _kept(self, used: float, copies: int) -> FloatArray:
        """Probability with which each reading is learnt from, shape (T,)."""
        rare = self.states_[:, self.states_.mean(axis=0) < COMMON].any(axis=1)
        reach = max(1, round(NEAR_S / self.interval_s_))
        total = np.append(0, np.cumsum(np.pad(rare, reach)))
        near = total[2 * reach + 1 :] > total[: -2 * reach - 1]
        wanted = self.rows / len(self.home) / copies / used
        most = min(1.0, wanted / max(1, near.sum()))
        rest = max(wanted - most * near.sum(), 0.1 * wanted) / max(1, (~near).sum())
        return np.asarray(np.where(near, most, min(1.0, rest)))

    def _exchange(self, rows: IntArray, y: FloatArray, on: BoolArray, rng: Generator) -> None:
        """In three of ten days, give one or two appliances their power of another day."""
        for i in np.flatnonzero(rng.random(len(rows)) < EXCHANGED):
            count = min(int(rng.integers(1, 3)), len(self.home))
            other = rows[rng.integers(len(rows))]
            for k in rng.choice(len(self.home), count, replace=False):
                y[i] += self.power_[other, k] - self.power_[rows[i], k]
                on[i, :, k] = self.states_[other, k]


def noise_key(mechanism: NoiseDistribution | None) -> str:
    """Text that is the same for equal noise alone."""
    if mechanism is None:
        return "none"
    return f"{type(mechanism).__name__} {mechanism.std!r} {mechanism.grid!r}"


def cut_pieces(starts: BoolArray, most: int, reach: int) -> Iterator[tuple[IntArray, BoolArray]]:
    """Cut the stretches between gaps into pieces, in groups of similar length.

    Yields the places of their readings with `reach` readings of context on each side, where the
    first and the last reading of a stretch are repeated, and which places without the context are
    readings of the piece.
    """
    runs = Runs.between_gaps(starts)
    counts = -(-runs.length // most)
    owner = np.repeat(np.arange(counts.size), counts)
    place = np.arange(owner.size) - np.repeat(np.cumsum(counts) - counts, counts)
    low = runs.first[owner] + place * most
    length = np.minimum(most, runs.stop[owner] - low)
    classes = np.ceil(np.log2(length)).astype(np.int64)
    for one in np.unique(classes):
        (group,) = np.nonzero(classes == one)
        longest = int(length[group].max())
        offsets = np.arange(-reach, longest + reach)
        together = max(1, TOGETHER // offsets.size)
        for first in range(0, group.size, together):
            rows = group[first : first + together, None]
            places = np.clip(low[rows] + offsets, runs.first[owner[rows]], runs.last[owner[rows]])
            yield places, np.arange(longest) < length[rows]


class Widths:
    """The widths of the features in readings of an interval."""

    def __init__(self, interval_s: float) -> None:
        def readings(widths: tuple[int, ...]) -> list[int]:
            scaled = {max(1, round(width * 60 / interval_s)) for width in widths}
            # Long readings also need features over several of them, and short ones over a few.
            return sorted(scaled | set(widths[: (len(widths) + 1) // 2]))

        def odd(widths: tuple[int, ...]) -> list[int]:
            return sorted({width // 2 * 2 + 1 for width in readings(widths)})

        self.means, self.edges, self.jumps = readings(MEANS), readings(EDGES), readings(JUMPS)
        self.centred, self.extremes, self.deviations = odd(CENTRED), odd(EXTREMES), odd(DEVIATIONS)
        self.smooth, self.base = odd((15,))[-1], odd((BASE,))[-1]
        around = (self.centred[-1], self.extremes[-1] + 3, self.base + self.smooth)
        self.reach = max(self.means[-1], self.jumps[-1] + self.edges[-1], *around)

    def features(self, y: FloatArray) -> Features:
        """Features of readings (B, T) without their context on both sides, (B, T, features)."""
        from scipy.ndimage import maximum_filter1d, minimum_filter1d

        reach, length = self.reach, y.shape[1] - 2 * self.reach
        sums, squares = (np.pad(np.cumsum(x, axis=1), ((0, 0), (1, 0))) for x in (y, y**2))

        def mean(first: int, stop: int, extra: int = 0, of: FloatArray = sums) -> FloatArray:
            low, high = reach - extra, reach + length + extra
            found: FloatArray = of[:, low + stop : high + stop] - of[:, low + first : high + first]
            return found / (stop - first)

        def centred(width: int, extra: int = 0, of: FloatArray = sums) -> FloatArray:
            return mean(-(width // 2), width // 2 + 1, extra, of)

        def without(values: FloatArray, extra: int) -> FloatArray:
            return values[:, extra : extra + length]

        now = mean(0, 1)
        found = [mean(d, d + 1) for d in range(-NEIGHBOURS, NEIGHBOURS + 1)]
        for width in self.means:
            right, left = mean(0, width), mean(-width, 0)
            found += [right, left, right - left, now - right]
        found += [centred(width) for width in self.centred]
        half = self.base // 2
        lowest = minimum_filter1d(centred(self.smooth, half), self.base, axis=1)
        found += [centred(width) - without(lowest, half) for width in (1, 5)]
        for width in self.extremes:
            near = centred(3, width // 2)
            for extreme in (minimum_filter1d, maximum_filter1d):
                found.append(without(extreme(near, width, axis=1), width // 2))
        for width in self.deviations:
            variance = centred(width, of=squares) - centred(width) ** 2
            found.append(np.sqrt(np.maximum(variance, 0.0)))
        extra = self.jumps[-1]
        for width in self.edges:
            edge = mean(0, width, extra) - mean(-width, 0, extra)
            for signed in (edge, -edge):
                for turned in (signed, signed[:, ::-1]):
                    sizes = largest(turned, self.jumps)
                    # The context of a turned series changes sides with it.
                    back = slice(None, None, 1 if turned is signed else -1)
                    found += [without(x, extra)[:, back] for x in sizes]
        return np.stack(found, axis=2).astype(np.float32)


def largest(values: FloatArray, widths: list[int]) -> list[FloatArray]:
    """Largest of the last readings along the second axis, and its distance, for each width.

    Widths ascend. Maxima over 1, 2, 4, … readings are combined, so the cost grows with their
    logarithm.
    """
    place = np.arange(values.shape[1], dtype=np.float64)
    best, where, span, found = values.copy(), np.tile(place, (len(values), 1)), 1, []

    def combined(shift: int) -> tuple[FloatArray, FloatArray]:
        value, source = best.copy(), where.copy()
        better = best[:, :-shift] > best[:, shift:]
        np.copyto(value[:, shift:], best[:, :-shift], where=better)
        np.copyto(source[:, shift:], where[:, :-shift], where=better)
        return value, source

    for width in widths:
        while 2 * span <= width:
            best, where = combined(span)
            span *= 2
        value, source = combined(width - span) if width > span else (best, where)
        found += [value, place - source]
    return found
