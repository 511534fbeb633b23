"""Semi-blind: an attacker without sub-meters in the home, which learnt from other homes.

The network learns types of appliances from several sub-metered homes, a population: the name of a
circuit decides which type of appliance it feeds, and the type decides when it is on. Training
windows combine the homes, so that the network learns what appliances of one type have in common. It
then attacks a home of which it has seen nothing but the readings of the meter. It works on means of
one minute.

PyTorch is optional (the extra named deep), so this module imports it inside functions only.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from hushmeter.appliance import Appliance
from hushmeter.apps.nilm.network import (
    BASE_S,
    Cells,
    Encoder,
    Example,
    NetSettings,
    Noise,
    NoisyNetworkAttacker,
    Weights,
    add_noise,
    build_net,
    centred_mean,
    evaluate,
    one_thread,
    progress_bar,
    rolling_minimum,
    set_bias,
    train,
)
from hushmeter.attack.base import AttackerSettings, Observation
from hushmeter.attack.levels import training_power
from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.errors import DataError, InputError
from hushmeter.formatting import short_duration
from hushmeter.home import Home
from hushmeter.trace import Runs, Trace

if TYPE_CHECKING:
    from torch import nn

CELL_S = 60.0
"""Interval on which the network works [s]."""

SPREAD_W = 500.0
"""Power by which the readings above the base load are divided [W]."""

LARGEST_W = 2000.0
"""Power of the largest appliance that the noise in training is made for [W]."""

GAIN = 0.15
"""Standard deviation of the logarithm of the factor that a run is multiplied with."""

SHIFT_W = 60.0
"""Standard deviation of the shift of the base load [W]."""

LEAST_STRANGE_W = 40.0
"""Power above which a circuit of another type can disturb [W]."""


@dataclass(frozen=True)
class ApplianceType:
    """A type of appliances: the names of its circuits, and when it is on.

    Attributes
    ----------
    name : str
        Name of the type, as in lists of typical appliances.
    pattern : str
        Regular expression that words of a circuit's name match, in lower-case letters.
    threshold : float
        The appliance is on above this power. [W]
    pause_s : float
        Shorter pauses belong to a run. [s]
    """

    name: str
    pattern: str
    threshold: float
    pause_s: float = 0.0


_FILE = resources.files("hushmeter.attack") / "appliance_types.toml"
TYPES = tuple(
    ApplianceType(**row) for row in tomllib.loads(_FILE.read_text(encoding="utf-8"))["type"]
)
"""Types that `label_types` recognises by the names of circuits. The longest match decides."""


def type_of(name: str) -> str:
    """Return the type of an appliance with this name; its own plain name if it has no type."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    plain = re.sub(r"[^a-z]+", " ", spaced.lower()).strip() or name
    matches = [
        (len(found.group()), kind.name)
        for kind in TYPES
        if (found := re.search(rf"\b({kind.pattern})\b", plain))
    ]
    return max(matches, key=lambda match: match[0])[1] if matches else plain


def label_types(trace: Trace) -> Trace | None:
    """Return a trace with the states of the circuits that have a known type; None without any.

    There is one column per type, which has the power of all its circuits. Readings of less than a
    minute are averaged over minutes. Raise `DataError` if the trace has no power or no names of
    circuits, or its readings are longer than a minute.
    """
    if trace.power is None or trace.names is None:
        raise DataError("a population needs data with a column of watts for each circuit.")
    if trace.interval_s > CELL_S:
        raise DataError(
            f"a population needs readings of at most 1 min, got {short_duration(trace.interval_s)}."
        )
    power, names, states = [], [], []
    minutes = to_minutes(trace)
    assert minutes.power is not None
    for kind in TYPES:
        members = [i for i, name in enumerate(trace.names) if type_of(name) == kind.name]
        total = minutes.power[:, members].sum(axis=1)
        on = _close_pauses(total > kind.threshold, minutes.run_starts, int(kind.pause_s / CELL_S))
        if on.any():
            power.append(total)
            states.append(on)
            names.append(kind.name)
    if not names:
        return None
    return minutes.derive(
        states=np.stack(states, axis=1), power=np.stack(power, axis=1), names=names
    )


def to_minutes(trace: Trace) -> Trace:
    """The trace in cells of about one minute; a contiguous run ends with its last whole cell."""
    size = Cells(trace.interval_s).size
    if size == 1:
        return trace
    every = size * trace.interval_s
    return trace.coarsen(every)


def _close_pauses(on: BoolArray, run_starts: BoolArray, most: int) -> BoolArray:
    """States in which pauses of at most `most` readings between two runs count as on."""
    pauses = Runs.of_equal(on, run_starts)
    begins, ends = pauses.first, pauses.stop
    inside = ~run_starts[begins] & ~np.append(run_starts[ends[:-1]], True)
    closed: BoolArray = on | np.repeat(inside & (pauses.length <= most), pauses.length)
    return closed


def drop_silent_days(trace: Trace) -> Trace:
    """Return the readings without the days (UTC) on which the meter reports a single value."""
    days = trace.times.astype("datetime64[D]").astype(np.int64)
    _, place = np.unique(days, return_inverse=True)
    lowest, highest = np.full((2, place.max() + 1), np.inf) * np.array([[1], [-1]])
    np.minimum.at(lowest, place, trace.readings)
    np.maximum.at(highest, place, trace.readings)
    rows = np.flatnonzero((highest > lowest)[place])
    if rows.size == 0:
        raise DataError("the meter reports a single value on every day.")
    return trace if rows.size == len(trace) else trace.select(rows)


def strange_circuits(trace: Trace) -> list[FloatArray]:
    """Power of the circuits of no known type per minute [W], if they ever exceed 40 W."""
    minutes, known = to_minutes(trace), {kind.name for kind in TYPES}
    assert minutes.power is not None
    columns = [i for i, name in enumerate(trace.names or ()) if type_of(name) not in known]
    return [minutes.power[:, i] for i in columns if minutes.power[:, i].max() > LEAST_STRANGE_W]


class WattEncoder(Encoder):
    """Inputs in watts above the lowest 15-min mean of 4 h, which mean the same in every home."""

    def _coarse(self, y: FloatArray, noise: Sequence[Noise]) -> list[FloatArray]:
        quarter, hours = self.cells.means[1], self.cells.count(BASE_S) // 2 * 2 + 1
        return super()._coarse(y - rolling_minimum(centred_mean(y, quarter), hours), noise)


def watt_encoder() -> WattEncoder:
    """Return the encoder of minutes, which needs nothing from the home."""
    return WattEncoder(Cells(CELL_S), 0.0, SPREAD_W)


@dataclass(frozen=True)
class HomeData:
    """Training data of one home."""

    readings: FloatArray  # Mains [W]
    # Power [W] and states of each type; zero where it is not metered
    power: FloatArray
    states: BoolArray
    metered: BoolArray  # Whether the type is metered in this home
    run_starts: BoolArray
    runs: tuple[IntArray, ...]  # First readings of the runs of each type

    @classmethod
    def of(cls, trace: Trace, types: Sequence[str]) -> HomeData:
        """Data of a labelled trace; appliances of one type count together."""
        assert trace.power is not None
        assert trace.names is not None
        power = np.zeros((len(trace), len(types)))
        states = np.zeros(power.shape, np.bool_)
        for i, name in enumerate(trace.names):
            column = types.index(type_of(name))
            power[:, column] += trace.power[:, i]
            states[:, column] |= trace.truth()[:, i]
        metered = np.array([kind in {type_of(name) for name in trace.names} for kind in types])
        runs = tuple(Runs.of_true(column).first for column in states.T)
        return cls(trace.readings, power, states, metered, trace.run_starts, runs)


def mean_powers(homes: Sequence[HomeData]) -> FloatArray:
    """Mean power of each type while on [W]; zero for a type that is never on."""
    energy = np.sum([(home.power * home.states).sum(axis=0) for home in homes], axis=0)
    powers: FloatArray = energy / np.maximum(
        np.sum([h.states.sum(axis=0) for h in homes], axis=0), 1
    )
    return powers


class PopulationWindows:
    """Random training windows of several homes: real ones, and mixtures of homes."""

    def __init__(
        self,
        homes: Sequence[HomeData],
        strange: Sequence[FloatArray],
        window: int,
        rng: np.random.Generator,
    ) -> None:
        self.homes, self.window, self.rng, self.encoder = homes, window, rng, watt_encoder()
        self.strange = strange
        self.margin = self.encoder.cells.margin
        self.rest = [home.readings - home.power.sum(axis=1) for home in homes]
        shares = [np.where(home.metered, home.states.mean(axis=0), np.nan) for home in homes]
        known = np.array([home.metered for home in homes]).any(axis=0)
        self.on_share = np.where(known, np.nansum(shares, axis=0), 0.0)
        self.on_share /= np.maximum(np.sum([home.metered for home in homes], axis=0), 1)
        count = homes[0].metered.size
        self.donors = [
            [h for h, home in enumerate(homes) if home.runs[k].size] for k in range(count)
        ]

    def draw(self, count: int) -> Example:
        """Draw a batch of training windows."""
        import torch

        rows = [self._window() for _ in range(count)]
        y, states, valid = (np.stack(part) for part in zip(*rows, strict=True))
        noise = add_noise(y, LARGEST_W, self.rng)
        inner = slice(self.margin, self.margin + self.window)
        inputs = self.encoder.encode(y, np.ones(y.shape, np.bool_), noise).cut(inner, 1)
        parts = (torch.from_numpy(x[:, inner].astype(np.float32)) for x in (states, valid))
        return Example(inputs, *parts)

    def held_out(self, count: int) -> Iterator[Example]:  # noqa: ARG002
        """No windows: a network is trained with all its steps."""
        return iter(())

    def _window(self) -> tuple[FloatArray, BoolArray, BoolArray]:
        """Readings [W], states and valid states of one window with its margins."""
        number = int(self.rng.integers(len(self.homes)))
        home = self.homes[number]
        if self.rng.random() < 0.6:
            y, states, valid = self._mix(number)
        else:
            rows = self._rows(home, self._any_type(home))
            y, states = home.readings[rows] * self._gain(), home.states[rows].copy()
            valid = np.broadcast_to(home.metered, states.shape)
        if self.rng.random() < 0.4:
            for _ in range(int(self.rng.integers(1, 4))):
                y = y + (self._circuit(y.size) if self.rng.random() < 0.5 else self._pulse(y.size))
        return y + self.rng.normal(0, SHIFT_W), states, valid

    def _mix(self, number: int) -> tuple[FloatArray, BoolArray, BoolArray]:
        """The unexplained power of one home with runs of each type from any home."""
        home = self.homes[number]
        rows = self._rows(home, None)
        y = self.rest[number][rows] * self._gain()
        states = np.zeros((rows.size, home.metered.size), np.bool_)
        valid = np.broadcast_to(home.metered, states.shape).copy()
        for k, donors in enumerate(self.donors):
            if not donors or self.rng.random() < 0.3:
                continue
            donor = self.homes[int(self.rng.choice(donors))]
            other = self._rows(donor, k if self.rng.random() < 0.6 else None)
            y = y + donor.power[other, k] * self._gain()
            states[:, k] = donor.states[other, k]
            valid[:, k] |= states[:, k]
        return y, states, valid

    def _any_type(self, home: HomeData) -> int | None:
        """A type that runs in the home, in three of ten cases."""
        running = [k for k, places in enumerate(home.runs) if places.size]
        return int(self.rng.choice(running)) if running and self.rng.random() < 0.3 else None

    def _rows(self, home: HomeData, kind: int | None) -> IntArray:
        """Rows of a window with its margins, anywhere or around a run of a type."""
        width = self.window + 2 * self.margin
        if kind is None:
            first = int(self.rng.integers(home.readings.size)) - width // 2
        else:
            begin = int(self.rng.choice(home.runs[kind]))
            first = begin - self.margin - int(self.rng.integers(self.window))
        return np.clip(first + np.arange(width), 0, home.readings.size - 1)

    def _gain(self) -> float:
        return math.exp(self.rng.normal(0, GAIN))

    def _circuit(self, size: int) -> FloatArray:
        """Power [W] of a circuit of another type around a time at which it is on."""
        if not self.strange:
            return self._pulse(size)
        power = self.strange[int(self.rng.integers(len(self.strange)))]
        place = int(self.rng.choice(np.flatnonzero(power > LEAST_STRANGE_W)))
        first = place - int(self.rng.integers(size))
        rows = np.clip(first + np.arange(size), 0, power.size - 1)
        return power[rows] * self._gain()

    def _pulse(self, size: int) -> FloatArray:
        """Rectangular pulses of an unknown appliance [W]."""
        power = 40.0 * 75.0 ** self.rng.random()
        length = int(1 + 60 * self.rng.random() ** 2)
        pause = int(length * (1 + 20 * self.rng.random()))
        places = (np.arange(size) + int(self.rng.integers(length + pause))) % (length + pause)
        pulse: FloatArray = power * (places < length)
        if self.rng.random() < 0.5:
            # A single pulse instead of a cycle.
            first = int(self.rng.integers(size))
            pulse = power * ((np.arange(size) >= first) & (np.arange(size) < first + length))
        return pulse


THRESHOLDS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Probabilities above which a type may be reported as on, the usual one first."""

WINDOW = 512
"""Minutes of a training window, unless the settings name another number."""

JUDGED = 20_160
"""Largest number of minutes of a home that decide about the thresholds: two weeks."""


class SemiBlind(NoisyNetworkAttacker):
    """Semi-blind. The probability that each appliance is on, learnt from other homes only.

    Parameters
    ----------
    home : Home
        Appliances to find. The type of an appliance follows from its name (`type_of`); its power
        is not used.
    mechanism
        As in `Bayes`.
    settings : NetSettings, mapping or None
        How the networks are made and trained; a window is a number of minutes. Each network leaves
        out other homes, which decide about the thresholds, and there are not more networks than
        homes. A single network leaves out no home, and its thresholds are 0.5.
    seed, progress
        As in `Tcn`.

    Attributes
    ----------
    interval_s_ : float
        Interval of readings that are not a trace: that of the training data, or one minute. [s]
    types_ : tuple of str
        Types that the population has.
    homes_ : array of int, shape (types,)
        Number of homes with each type.
    powers_ : array, shape (types,)
        Mean power of each type while on. [W]
    thresholds_ : array, shape (types,)
        Probability above which a type is reported as on.
    weights_ : tuple of Weights
        Parameters of the networks.

    Raises
    ------
    MissingExtraError
        If PyTorch is not installed.

    Notes
    -----
    `learn_population` trains on several homes, and `for_home` returns the attacker on a home. `fit`
    learns from a single home, which is then the whole population.

    The network is that of `tcn`. Its inputs are watts above the lowest 15-min mean of 4 h, so that
    they mean the same in every home. Six of ten training windows are synthetic: the power that no
    known type explains in one home, plus runs of each type from any home, each multiplied by a
    random factor. The others are real windows. Circuits of other types or rectangular pulses are
    added to four of ten windows, because unknown homes have unknown appliances. A type that is not
    metered in a home does not count in the loss there.

    The threshold of a type is 0.4. Where the accuracy about all types together would be below that
    of "always off" in a home that a network has not seen, the thresholds of the types that lose
    most there are raised, up to 0.9 (`raise_thresholds`).
    """

    name: ClassVar[str] = "semi-blind"
    needs: ClassVar[str] = "sub-metered data of other homes; PyTorch (the extra named deep)"
    assumes: ClassVar[str] = "appliances of one type are alike in all homes"

    usual: ClassVar[AttackerSettings] = NetSettings(channels=40, nets=5, steps=600)
    checked_with: ClassVar[dict[str, Any]] = {
        "settings": {"channels": 8, "steps": 2, "batch": 2, "window": 4}
    }

    interval_s_: float
    types_: tuple[str, ...]
    homes_: IntArray
    powers_: FloatArray
    thresholds_: FloatArray

    @property
    def _window(self) -> int:
        """Minutes per training window."""
        return self.settings.window or WINDOW

    def fit(self, trace: Trace) -> Self:
        """Learn the types of one home, which is then the whole population."""
        super().fit(trace)
        names = self.home.names if trace.names is None else trace.names
        power = training_power(trace, self.home)
        self.fit_homes([to_minutes(trace.derive(states=trace.truth(), power=power, names=names))])
        self.interval_s_ = trace.interval_s
        return self

    def fit_homes(self, traces: Sequence[Trace], strange: Sequence[FloatArray] = ()) -> Self:
        """Learn the types of several homes from traces of `label_types`.

        `strange` are the powers of circuits of other types per minute [W], which the network learns
        not to confuse with the known types. Raise `DataError` if no trace is as long as a training
        window.
        """
        types = tuple(sorted({type_of(name) for trace in traces for name in trace.names or ()}))
        homes = [HomeData.of(trace, types) for trace in traces if len(trace) >= self._window]
        if not homes:
            raise DataError(
                f"the {self.name} attacker needs at least {self._window} min of readings from "
                "one home to learn from."
            )
        self.types_, self.interval_s_ = types, CELL_S
        self.powers_ = mean_powers(homes)
        self.homes_ = np.sum([home.metered for home in homes], axis=0)
        groups = _left_out_homes(len(homes), self.settings.nets)
        with (
            one_thread(),
            progress_bar(len(groups) * self.settings.steps, self.progress) as advance,
        ):
            self.weights_ = tuple(
                self._train(k, [h for i, h in enumerate(homes) if i not in group], strange, advance)
                for k, group in enumerate(groups)
            )
            self.thresholds_ = self._find_thresholds(homes, groups)
        return self

    def for_home(self, home: Home) -> Self:
        """Return the attacker on another home; raise `InputError` for a type it has not learnt."""
        made = type(self)(home, **{**self.parameters, "progress": False})
        for name in ("interval_s_", "types_", "homes_", "powers_", "thresholds_", "weights_"):
            setattr(made, name, getattr(self, name))
        made._columns()
        return made

    def _predict(self, seen: Observation) -> BoolArray:
        chance = self._predict_proba(seen)
        return chance > self.thresholds_[self._columns()]

    def _predict_proba(self, seen: Observation) -> FloatArray:
        self._require_fit("weights_")
        columns = self._columns()
        interval_s = self.interval_s_ if seen.interval_s is None else seen.interval_s
        if interval_s > CELL_S:
            raise InputError(
                f"the {self.name} attacker needs readings of at most 1 min, and these have "
                f"{short_duration(interval_s)}."
            )
        size = Cells(interval_s).size
        cells = _Minutes(seen.run_starts, size)
        noise = Noise.of(self.mechanism)
        noise = Noise(noise.std / math.sqrt(size), noise.shape)
        with one_thread():
            chance = evaluate(
                self._networks(), watt_encoder(), cells.mean(seen.readings), cells.run_starts, noise
            )
        return chance[cells.place][:, columns]

    def _columns(self) -> list[int]:
        """Column of the type of every appliance of the home."""
        wanted = [type_of(name) for name in self.home.names]
        missing = [kind for kind in wanted if kind not in self.types_]
        if missing:
            raise InputError(
                f"the population has no {missing[0]}: it has {', '.join(self.types_)}."
            )
        return [self.types_.index(kind) for kind in wanted]

    def _check_learnt(self) -> None:
        if hasattr(self, "weights_"):
            sizes = {len(self.types_), self.powers_.size, self.thresholds_.size}
            if not self._count_networks() or len(sizes) != 1:
                raise DataError(f"a saved {self.name} attacker is damaged.")

    def _build(self, weights: Weights | None = None, seed: int = 0) -> nn.ModuleDict:
        return build_net(Cells(CELL_S), self.settings.channels, len(self.types_), weights, seed)

    def _train(
        self,
        number: int,
        homes: Sequence[HomeData],
        strange: Sequence[FloatArray],
        advance: Callable[[int], None],
    ) -> Weights:
        seed = self.seed * 100 + number
        net = self._build(seed=seed)
        windows = PopulationWindows(homes, strange, self._window, np.random.default_rng(seed))
        set_bias(net, windows.on_share)
        return train(net, windows, self.settings, seed, advance)

    def _find_thresholds(
        self, homes: Sequence[HomeData], groups: Sequence[Sequence[int]]
    ) -> FloatArray:
        """Thresholds with which the homes that a network left out are not below "always off"."""
        gains = []
        for weights, group in zip(self.weights_, groups, strict=True):
            net = self._build(weights)
            for home in (homes[i] for i in group):
                part = slice(0, JUDGED)
                starts, truth = home.run_starts[part], home.states[part]
                chance = evaluate([net], watt_encoder(), home.readings[part], starts, Noise())
                right = [((chance > p) == truth).mean(axis=0) for p in THRESHOLDS]
                gains.append((np.array(right) - (~truth).mean(axis=0)) * home.metered)
        if not gains:
            return np.full(len(self.types_), 0.5)
        return np.array(THRESHOLDS)[raise_thresholds(np.array(gains))]


def raise_thresholds(gains: FloatArray) -> IntArray:
    """Raise the thresholds of types until no home is below "always off".

    Notes
    -----
    All types start at the lowest threshold. As long as the sum over the types is negative in some
    home, the type that loses most in the worst home gets its next threshold. A type is not judged
    alone, because a few homes say little about it.
    """
    level = np.zeros(gains.shape[2], np.int64)
    while True:
        current = np.take_along_axis(gains, level[None, None, :], axis=1)[:, 0]
        worst = int(current.sum(axis=1).argmin())
        loses = np.where(level < gains.shape[1] - 1, current[worst], 0.0)
        if current[worst].sum() >= 0 or loses.min() >= 0:
            return level
        level[int(loses.argmin())] += 1


def _left_out_homes(homes: int, nets: int) -> list[list[int]]:
    """Homes that each network leaves out; a single network leaves out none."""
    count = min(homes, nets)
    return [list(range(k, homes, count)) for k in range(count)] if count > 1 else [[]]


class _Minutes:
    """The cells of about one minute into which contiguous runs are divided."""

    def __init__(self, run_starts: BoolArray, size: int) -> None:
        runs = Runs.between_gaps(run_starts)
        within = np.arange(run_starts.size) - np.repeat(runs.first, runs.length)
        begins = within % size == 0
        self.place: IntArray = np.cumsum(begins) - 1
        self.run_starts: BoolArray = run_starts[begins]

    def mean(self, readings: FloatArray) -> FloatArray:
        """Mean of the readings of each cell [W]."""
        mean: FloatArray = np.bincount(self.place, readings) / np.bincount(self.place)
        return mean


def learn_population(traces: Sequence[Trace], **parameters: Any) -> SemiBlind:
    """Learn types of appliances from sub-metered homes.

    Parameters
    ----------
    traces : sequence of Trace
        Readings with the power and the names of circuits; see `label_types` for what a type is and
        when it is on. Days on which the meter reports a single value are left out.
    **parameters
        Parameters of `SemiBlind`.

    Returns
    -------
    SemiBlind
        The attacker on a home that has one appliance of each type.

    Raises
    ------
    DataError
        If no circuit has a known type.
    """
    moving = [drop_silent_days(trace) for trace in traces]
    labelled = [found for found in map(label_types, moving) if found is not None]
    if not labelled:
        known = ", ".join(kind.name for kind in TYPES)
        raise DataError(f"no circuit of the data has a known type: {known}.")
    names = sorted({name for trace in labelled for name in trace.names or ()})
    sketch = Home([Appliance(name, 1.0) for name in names], 1.0, name="population")
    strange = [circuit for trace in moving for circuit in strange_circuits(trace)]
    learnt = SemiBlind(sketch, **parameters).fit_homes(labelled, strange)
    members = [
        Appliance(name, float(max(round(power), 1)))
        for name, power in zip(learnt.types_, learnt.powers_, strict=True)
    ]
    return learnt.for_home(Home(members, 10.0, name="population"))
